//! Cursors: rows and index entries of an access path, in batches, read at the statement's snapshot.
//! [`super::lock_rows`] reads rows under locks.

use super::index_merge::IndexMerge;
use super::key_list::KeyList;
use super::keys;
use super::loose_scan::LooseCursor;
use super::pruning::{Batch, Pruning};
use super::text_search::RankedRows;
use super::{Exec, ExecError, ExecResult};
use crate::error::SqlError;
use crate::expr::eval::{EvalCx, Slot};
use crate::expr::{Expr, ExprKind};
use crate::plan::scan::Access;
use bumpalo::Bump;
use porpoise_kv::Read;
use porpoise_rows::catalog::Table;
use porpoise_rows::{EntryVisitor, FoundRow, KeyRange, Lookup, RowRef, ScanPosition, ScanSpec};
use porpoise_types::ValueRef;
use std::ops::ControlFlow;

/// A row with its primary key, in the arena of its batch.
pub use crate::expr::eval::KeyedRow as Fetched;

/// An index entry, in the arena of its batch.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The entry's key.
    pub key: &'a [u8],
    /// The columns that the entry contains.
    pub slot: Slot<'a>,
}

/// The state of a scan of one table.
pub enum Cursor {
    /// Whole keys of a unique index, fetched in one call.
    Keys {
        /// The index.
        index: usize,
        /// Encoded keys, distinct.
        keys: Vec<Vec<u8>>,
        /// Whether the keys have been fetched.
        done: bool,
    },
    /// Ranges of an index, scanned in order.
    Scan {
        /// The ranges.
        spec: ScanSpec,
        /// The position in them.
        position: ScanPosition,
    },
    /// Rows found through several indexes.
    IndexMerge(IndexMerge),
    /// A few rows of each group of a loose index scan.
    Loose(LooseCursor),
    /// Rows that a search of a FULLTEXT index found.
    Ranked(RankedRows),
}

impl Cursor {
    /// Opens a cursor for `access`; its expressions may read `row`, the tables joined before.
    pub fn open<'a>(
        table: &Table,
        access: &'a Access,
        row: &[Slot<'a>],
        cx: &EvalCx<'a>,
    ) -> ExecResult<Cursor> {
        Ok(match access {
            Access::PointLookup { index, keys } => Cursor::Keys {
                index: *index,
                keys: encode_distinct_keys(table, *index, keys, row, cx)?,
                done: false,
            },
            Access::IndexLookup {
                index,
                keys,
                reverse,
            } => {
                let encoded = encode_distinct_keys(table, *index, keys, row, cx)?;
                let ranges = encoded.into_iter().map(KeyRange::prefix).collect();
                Cursor::scan(*index, ranges, *reverse)
            }
            Access::IndexRangeScan {
                index,
                ranges,
                reverse,
            } => match keys::ranges(table, *index, ranges, row, cx)? {
                Some(ranges) => Cursor::scan(*index, ranges, *reverse),
                None => Cursor::table(),
            },
            Access::IndexMergeUnion { arms, most } => {
                IndexMerge::cursor(table, arms, *most, row, cx)?
            }
            Access::FullScan { index, reverse } => {
                Cursor::scan(*index, vec![KeyRange::ALL], *reverse)
            }
            Access::LooseScan(scan) => Cursor::Loose(LooseCursor::open(table, scan, row, cx)?),
            Access::TextSearch { search, order, .. } => {
                Cursor::Ranked(RankedRows::open(search, *order, cx)?)
            }
            Access::SubqueryLookup { index, test } => set_cursor(table, *index, test, row, cx)?,
            Access::VirtualScan => Cursor::scan(0, Vec::new(), false),
        })
    }

    /// Opens a scan of the whole table.
    pub(super) fn table() -> Cursor {
        Cursor::scan(0, vec![KeyRange::ALL], false)
    }

    /// Opens a scan of ranges in ascending order.
    fn scan(index: usize, mut ranges: Vec<KeyRange>, reverse: bool) -> Cursor {
        if reverse {
            ranges.reverse();
        }
        let spec = ScanSpec {
            index,
            ranges,
            reverse,
            entries_only: false,
        };
        Cursor::Scan {
            spec,
            position: ScanPosition::default(),
        }
    }

    /// The index that the cursor reads.
    pub(super) fn index(&self) -> usize {
        match self {
            Cursor::Keys { index, .. } => *index,
            Cursor::Scan { spec, .. } => spec.index,
            Cursor::IndexMerge(_) | Cursor::Ranked(_) => 0,
            Cursor::Loose(loose) => loose.index,
        }
    }

    /// Returns the next rows, at most the batch's limit; `None` at the end. Rows come in index
    /// order, those of whole keys in key order. The key of a row is empty unless `with_keys`.
    pub fn next<'a>(
        &mut self,
        read: Read,
        with_keys: bool,
        table: &'a Table,
        batch: Batch<'_>,
        exec: &mut Exec<'_>,
        arena: &'a Bump,
    ) -> ExecResult<Option<Vec<Fetched<'a>>>> {
        let Batch { pruning, limit } = batch;
        if let Cursor::IndexMerge(merge) = self
            && !merge.collect(table, pruning, read, exec)?
        {
            *self = Cursor::table();
        }
        if let Cursor::Loose(loose) = self {
            return loose.next_rows(table, read, pruning, exec, limit, arena);
        }
        let mut out: Vec<Fetched<'a>> = Vec::new();
        let mut bad = None;
        let mut keep =
            |key: &[u8], row: RowRef<'_>| match copy_row(table, key_if(key, with_keys), row, arena)
            {
                Ok(row) => out.push(row),
                Err(error) => bad = Some(error),
            };
        match self {
            Cursor::IndexMerge(merge) => {
                if !merge.next(table, read, pruning, limit.max(1), exec, &mut keep)? {
                    return Ok(None);
                }
            }
            Cursor::Ranked(ranked) => {
                let batch = Batch {
                    pruning,
                    limit: limit.max(1),
                };
                if !ranked.next(table, read, batch, exec, &mut keep)? {
                    return Ok(None);
                }
            }
            Cursor::Loose(_) | Cursor::Keys { done: true, .. } => return Ok(None),
            Cursor::Keys { index, keys, done } => {
                *done = true;
                keys.retain(|key| pruning.allows(table, *index, key));
                let lookup = KeyLookup {
                    index: *index,
                    keys,
                    read,
                    with_keys,
                };
                return look_up_keys(table, &lookup, pruning, exec, arena).map(Some);
            }
            Cursor::Scan { spec, position } => {
                if position.done() || spec.ranges.is_empty() {
                    return Ok(None);
                }
                let (fetch, limit) = (pruning.fetch(), limit.max(1));
                exec.txn()
                    .scan_with(table, spec, fetch, read, position, limit, &mut keep)?;
            }
        }
        match bad {
            Some(error) => Err(ExecError::Error(error)),
            None => Ok(Some(out)),
        }
    }

    /// The underlying scan of index entries; whole keys are turned into ranges of one key.
    pub(super) fn entries(&mut self) -> Option<(&mut ScanSpec, &mut ScanPosition)> {
        if let Cursor::Keys { index, keys, .. } = self {
            let ranges = std::mem::take(keys).into_iter().map(KeyRange::prefix);
            *self = Cursor::scan(*index, ranges.collect(), false);
        }
        match self {
            Cursor::Scan { spec, position } => Some((spec, position)),
            Cursor::Keys { .. } | Cursor::IndexMerge(_) | Cursor::Loose(_) | Cursor::Ranked(_) => {
                None
            }
        }
    }

    /// As [`Cursor::next`], but returns entries without reading rows: the columns in the index key,
    /// or no columns if the query reads none.
    pub fn next_entries<'a>(
        &mut self,
        table: &'a Table,
        batch: Batch<'_>,
        width: usize,
        exec: &mut Exec<'_>,
        arena: &'a Bump,
    ) -> ExecResult<Option<Vec<Entry<'a>>>> {
        let Batch { pruning, limit } = batch;
        if let Cursor::Loose(loose) = self {
            return loose.next_entries(table, width, exec, limit, arena);
        }
        let Some((spec, position)) = self.entries() else {
            return Err(SqlError::internal("entries without a scan").into());
        };
        if position.done() || spec.ranges.is_empty() {
            return Ok(None);
        }
        let read = exec.read();
        let entries = EntryColumns {
            index: spec.index,
            width,
        };
        let out = read_entries(table, entries, arena, |keep| {
            let at = (position, limit.max(1));
            let partitions = pruning.partitions();
            exec.txn()
                .scan_entries(table, spec, partitions, read, at, keep)?;
            Ok(())
        })?;
        exec.txn().count_entries(table, spec, out.len() as u64);
        Ok(Some(out))
    }

    /// Returns at least the first entry of each range, and ends the cursor.
    pub(super) fn first_entries<'a>(
        &mut self,
        table: &'a Table,
        (pruning, width): (&Pruning, usize),
        exec: &mut Exec<'_>,
        arena: &'a Bump,
    ) -> ExecResult<Vec<Entry<'a>>> {
        let Some((spec, _)) = self.entries() else {
            return Err(SqlError::internal("entries without a scan").into());
        };
        let read = exec.read();
        let entries = EntryColumns {
            index: spec.index,
            width,
        };
        let out = read_entries(table, entries, arena, |keep| {
            let partitions = pruning.partitions();
            exec.txn()
                .first_entries(table, spec, partitions, read, keep)?;
            Ok(())
        })?;
        exec.txn().count_entries(table, spec, out.len() as u64);
        spec.ranges.clear();
        Ok(out)
    }

    /// Skips at most `most` entries. Returns the number skipped.
    pub(super) fn skip(
        &mut self,
        table: &Table,
        pruning: &Pruning,
        exec: &Exec<'_>,
        most: u64,
    ) -> ExecResult<u64> {
        let Some((spec, position)) = self.entries() else {
            return Err(SqlError::internal("entries without a scan").into());
        };
        let (read, partitions) = (exec.read(), pruning.partitions());
        let mut passed = 0;
        while passed < most && !position.done() && !spec.ranges.is_empty() {
            exec.check_cancelled()?;
            let limit = usize::try_from(most - passed).map_or(COUNT_BATCH, |n| n.min(COUNT_BATCH));
            let at = (&mut *position, limit);
            passed += exec.txn().count_scan(table, spec, partitions, read, at)? as u64;
        }
        Ok(passed)
    }

    /// Counts the next entries, up to `COUNT_BATCH` in a call; `None` at the end.
    pub fn count(
        &mut self,
        table: &Table,
        pruning: &Pruning,
        exec: &mut Exec<'_>,
    ) -> ExecResult<Option<u64>> {
        let Some((spec, position)) = self.entries() else {
            return Err(SqlError::internal("entries without a scan").into());
        };
        if position.done() || spec.ranges.is_empty() {
            return Ok(None);
        }
        let (read, partitions) = (exec.read(), pruning.partitions());
        let at = (position, COUNT_BATCH);
        let rows = exec.txn().count_scan(table, spec, partitions, read, at)?;
        Ok(Some(rows as u64))
    }
}

/// A look-up of rows by whole keys of an index.
struct KeyLookup<'k> {
    index: usize,
    keys: &'k [Vec<u8>],
    read: Read,
    /// Whether the rows are returned with their keys.
    with_keys: bool,
}

/// Returns the rows of a look-up, in the order of its keys.
fn look_up_keys<'a>(
    table: &'a Table,
    wanted: &KeyLookup<'_>,
    pruning: &Pruning,
    exec: &Exec<'_>,
    arena: &'a Bump,
) -> ExecResult<Vec<Fetched<'a>>> {
    let keys: Vec<&[u8]> = wanted.keys.iter().map(Vec::as_slice).collect();
    let mut found: Vec<Option<Fetched<'a>>> = vec![None; keys.len()];
    let mut bad = None;
    let visit = &mut |at: usize, found_row: Option<FoundRow<'_>>| {
        let Some(FoundRow { primary, row }) = found_row else {
            return;
        };
        match (
            copy_row(table, key_if(primary, wanted.with_keys), row, arena),
            found.get_mut(at),
        ) {
            (Ok(row), Some(place)) => *place = Some(row),
            (Err(error), _) => bad = Some(error),
            _ => {}
        }
    };
    let lookup = Lookup::unique(table, wanted.index, &keys).overflow(pruning.overflow());
    exec.txn().look_up(&lookup, wanted.read, visit)?;
    match bad {
        Some(error) => Err(ExecError::Error(error)),
        None => Ok(found.into_iter().flatten().collect()),
    }
}

/// Columns that are read from the entries of an index.
#[derive(Clone, Copy)]
struct EntryColumns {
    index: usize,
    /// Number of columns, from the table's first; 0 for keys alone.
    width: usize,
}

/// Copies the entries of an index that a call visits, with columns of their rows.
fn read_entries<'a>(
    table: &'a Table,
    entries: EntryColumns,
    arena: &'a Bump,
    call: impl FnOnce(&mut EntryVisitor<'_>) -> ExecResult<()>,
) -> ExecResult<Vec<Entry<'a>>> {
    let EntryColumns { index, width } = entries;
    let mut out: Vec<Entry<'a>> = Vec::new();
    let mut bad = None;
    let reader = match width {
        0 => None,
        _ => {
            let held = table.columns_in_entries(index);
            Some(table.entry_reader(index, &held)?)
        }
    };
    call(&mut |_: usize, key: &[u8], value: &[u8]| {
        let key: &'a [u8] = arena.alloc_slice_copy(key);
        let values = arena.alloc_slice_fill_copy(width, ValueRef::Null);
        if let Some(reader) = &reader {
            let value: &'a [u8] = arena.alloc_slice_copy(value);
            let mut own = |bytes: Vec<u8>| -> &'a [u8] { arena.alloc_slice_copy(&bytes) };
            let done = reader.read(key, value, values, &mut own);
            bad = bad.take().or(done.err());
        }
        out.push(Entry {
            key,
            slot: Slot::Values(values),
        });
        ControlFlow::Continue(())
    })?;
    match bad {
        Some(error) => Err(ExecError::from(error)),
        None => Ok(out),
    }
}

/// Entries counted in one call; the engine passes checkpoints meanwhile.
const COUNT_BATCH: usize = 1 << 16;

/// Larger key sets of a subquery are not looked up: the whole table is scanned instead.
const MAX_SET: usize = 10_000;

/// A cursor over the keys that a subquery yields, or over the whole table if there are too many.
fn set_cursor<'a>(
    table: &Table,
    index: usize,
    test: &'a Expr,
    row: &[Slot<'a>],
    cx: &EvalCx<'a>,
) -> ExecResult<Cursor> {
    let (ExprKind::Query(test), Some(queries)) = (&test.kind, cx.queries) else {
        return Err(SqlError::internal("no set to look up").into());
    };
    let Some(item) = test.query.items().first() else {
        return Err(SqlError::internal("a set without a column").into());
    };
    let mut encoded = Vec::new();
    let few = queries.each_value(test, row, cx, MAX_SET, &mut |value| {
        encoded.extend(keys::of_value(table, index, value, &item.ty, cx));
    })?;
    if !few {
        return Ok(Cursor::table());
    }
    encoded.sort_unstable();
    encoded.dedup();
    let whole = table
        .indexes
        .get(index)
        .is_some_and(|i| i.parts.len() == 1 && i.kind.is_unique());
    Ok(if whole {
        Cursor::Keys {
            index,
            keys: encoded,
            done: false,
        }
    } else {
        let ranges = encoded.into_iter().map(KeyRange::prefix).collect();
        Cursor::scan(index, ranges, false)
    })
}

/// Encodes the keys, without duplicates, in the order of the index.
pub(super) fn encode_keys<'a>(
    table: &Table,
    index: usize,
    parts: &'a [Vec<Expr>],
    row: &[Slot<'a>],
    cx: &EvalCx<'a>,
) -> ExecResult<KeyList> {
    let mut encoded = KeyList::with_capacity(parts.len());
    for key in parts {
        keys::append_prefixes(table, index, key, row, cx, &mut encoded)?;
    }
    encoded.sort_and_dedup();
    Ok(encoded)
}

/// As [`encode_keys`], with a vector for each key.
pub(super) fn encode_distinct_keys<'a>(
    table: &Table,
    index: usize,
    parts: &'a [Vec<Expr>],
    row: &[Slot<'a>],
    cx: &EvalCx<'a>,
) -> ExecResult<Vec<Vec<u8>>> {
    let encoded = encode_keys(table, index, parts, row, cx)?;
    Ok(encoded.iter().map(<[u8]>::to_vec).collect())
}

/// The key of a row if `with_keys`, else an empty one.
fn key_if(key: &[u8], with_keys: bool) -> &[u8] {
    if with_keys { key } else { &[] }
}

/// Copies a row into the arena.
pub(super) fn copy_row<'a>(
    table: &'a Table,
    key: &[u8],
    row: RowRef<'_>,
    arena: &'a Bump,
) -> Result<Fetched<'a>, SqlError> {
    let bytes: &'a [u8] = arena.alloc_slice_copy(row.bytes());
    Ok(Fetched {
        key: arena.alloc_slice_copy(key),
        row: row.copied_to(table, bytes)?,
    })
}
