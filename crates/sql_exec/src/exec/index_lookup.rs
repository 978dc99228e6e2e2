//! Batched index lookup: finds the matching rows for a whole batch of joined rows.
//!
//! The keys of all rows in the batch are built and deduplicated, fetched in one call, and the rows
//! found are distributed to the batch rows that requested them.

use super::conditions::Conditions;
use super::fetch::{Cursor, Entry};
use super::join::Tuple;
use super::pruning::{Batch, Pruning};
use super::query::cx_of;
use super::scan::{fetch_entries, fetch_first_entries, fetch_rows, slot_of_row};
use super::visit::{VisitOutcome, visit_rows};
use super::{Exec, ExecResult, keys};
use crate::error::SqlError;
use crate::expr::eval::Slot;
use crate::expr::{CmpOp, Expr, ExprKind};
use crate::plan::physical::{Join, JoinKind};
use crate::plan::scan::{Access, Scan, ScanMode};
use bumpalo::Bump;
use foldhash::fast::RandomState;
use porpoise_rows::catalog::Table;
use porpoise_rows::{FoundRow, KeyRange, Lookup, RowRef, ScanPosition, ScanSpec};
use porpoise_types::{CompareAs, ValueRef};
use smallvec::{SmallVec, smallvec};
use std::collections::HashMap;

/// The distinct keys that a batch requests.
struct KeyRequests<'a> {
    /// The distinct keys, in order of first occurrence.
    distinct: Vec<Vec<u8>>,
    /// Position of each key in `distinct`.
    positions: KeyPositions<'a>,
    /// Positions in `distinct` that each row of the batch requests.
    by_tuple: Vec<SmallVec<[usize; 2]>>,
}

/// Positions by key.
type KeyPositions<'a> = HashMap<&'a [u8], usize, RandomState>;

/// With fewer keys, conditions are not compiled.
const MIN_COMPILED_KEYS: usize = 64;

/// Rows or entries fetched in one call.
const FETCH_BATCH: usize = 4096;

fn requests<'a, 'x: 'a>(
    table: &Table,
    index: usize,
    parts: &'a [Vec<Expr>],
    tuples: &[Tuple<'a>],
    exec: &Exec<'x>,
    arena: &'a Bump,
) -> ExecResult<KeyRequests<'a>> {
    let mut requests = KeyRequests {
        distinct: Vec::new(),
        positions: HashMap::default(),
        by_tuple: Vec::with_capacity(tuples.len()),
    };
    let cx = cx_of(exec, arena);
    for tuple in tuples {
        let mut mine: SmallVec<[usize; 2]> = SmallVec::new();
        for key in parts {
            for encoded in keys::prefixes(table, index, key, tuple, &cx)? {
                let at = match requests.positions.get(encoded.as_slice()) {
                    Some(at) => *at,
                    None => {
                        let at = requests.distinct.len();
                        requests
                            .positions
                            .insert(arena.alloc_slice_copy(&encoded), at);
                        requests.distinct.push(encoded);
                        at
                    }
                };
                mine.push(at);
            }
        }
        mine.sort_unstable();
        mine.dedup();
        requests.by_tuple.push(mine);
    }
    Ok(requests)
}

fn cursor_of(access: &Access, keys: Vec<Vec<u8>>) -> Cursor {
    match access {
        Access::PointLookup { index, .. } => Cursor::Keys {
            index: *index,
            keys,
            done: false,
        },
        other => Cursor::Scan {
            spec: ScanSpec {
                index: other.index().unwrap_or(0),
                ranges: keys.into_iter().map(KeyRange::prefix).collect(),
                reverse: other.reverse(),
                entries_only: false,
            },
            position: ScanPosition::default(),
        },
    }
}

/// Result of a lookup for a batch.
pub(super) struct LookupResult<'a> {
    /// Rows found for each key, by its position.
    rows: Vec<SmallVec<[Slot<'a>; 1]>>,
    by_tuple: Vec<SmallVec<[usize; 2]>>,
}

impl<'a> LookupResult<'a> {
    /// Rows found for the batch row at this position.
    pub(super) fn matches(&self, tuple: usize) -> impl Iterator<Item = Slot<'a>> {
        let keys = self.by_tuple.get(tuple).into_iter().flatten();
        keys.filter_map(|at| self.rows.get(*at)).flatten().copied()
    }
}

/// Whether any entry of a key decides about a match: the conditions are only equalities of integers
/// that are parts of the key, and whether there is a match is all that is asked.
fn one_entry_suffices(join: &Join, table: &Table, index: usize, parts: usize) -> bool {
    let scan = &join.right;
    if !matches!(join.kind, JoinKind::Semi | JoinKind::Anti) || !scan.is_covering() {
        return false;
    }
    let key = table.indexes.get(index).map_or(&[][..], |i| &i.parts);
    let is_key_column = |e: &Expr| match &e.kind {
        ExprKind::Column { slot, column, .. } if *slot == scan.slot => {
            let mut parts = key.iter().take(parts);
            parts.any(|part| part.column == *column && part.prefix.is_none())
        }
        _ => false,
    };
    join.on.iter().all(|condition| match &condition.kind {
        ExprKind::Compare(CmpOp::Eq, CompareAs::Int, sides) => {
            let [a, b] = sides.as_ref();
            let other = |e: &Expr| e.slots() & scan.slot_bit() == 0;
            (is_key_column(a) && other(b)) || (is_key_column(b) && other(a))
        }
        _ => false,
    })
}

/// Finds the rows of each tuple's key with one call for all of them.
pub(super) fn lookup<'a, 'x: 'a>(
    join: &'a Join,
    table: &'a Table,
    tuples: &[Tuple<'a>],
    exec: &mut Exec<'x>,
    arena: &'a Bump,
) -> ExecResult<LookupResult<'a>> {
    let scan = &join.right;
    let (Some(index), Some(parts)) = (scan.access.index(), scan.access.keys()) else {
        return Err(SqlError::internal("a look-up without keys").into());
    };
    let requests = requests(table, index, parts, tuples, exec, arena)?;
    let rows = if scan.is_point_lookup() && scan.mode == ScanMode::Row {
        lookup_unique(scan, table, index, &requests.distinct, exec, arena)?
    } else {
        let keys = PrefixKeys {
            cursor: cursor_of(&scan.access, requests.distinct),
            positions: &requests.positions,
            used: parts.first().map_or(0, Vec::len),
        };
        if scan.mode == ScanMode::Row {
            let width = tuples.first().map_or(0, |tuple| tuple.len());
            lookup_prefixes_in_place(scan, &join.on, table, keys, width, exec, arena)?
        } else {
            let one = one_entry_suffices(join, table, index, keys.used);
            lookup_prefixes(scan, one, table, keys, exec, arena)?
        }
    };
    Ok(LookupResult {
        rows,
        by_tuple: requests.by_tuple,
    })
}

/// Looks up whole keys of a unique index: at most one row for each key.
fn lookup_unique<'a, 'x: 'a>(
    scan: &'a Scan,
    table: &'a Table,
    index: usize,
    keys: &[Vec<u8>],
    exec: &mut Exec<'x>,
    arena: &'a Bump,
) -> ExecResult<Vec<SmallVec<[Slot<'a>; 1]>>> {
    let pruning = Pruning::of(scan, table, &cx_of(exec, arena))?;
    let mut rows: Vec<SmallVec<[Slot<'a>; 1]>> = vec![SmallVec::new(); keys.len()];
    let allowed = keys.iter().enumerate();
    let allowed = allowed.filter(|(_, key)| pruning.allows(table, index, key));
    let (places, wanted): (Vec<usize>, Vec<&[u8]>) =
        allowed.map(|(at, key)| (at, key.as_slice())).unzip();
    let mut bad = None;
    let read = exec.read();
    let lookup = Lookup::unique(table, index, &wanted).overflow(pruning.overflow());
    exec.txn().look_up(&lookup, read, &mut |at, found| {
        let Some(FoundRow { row, .. }) = found else {
            return;
        };
        let bytes: &'a [u8] = arena.alloc_slice_copy(row.bytes());
        let place = places.get(at).and_then(|at| rows.get_mut(*at));
        match (row.copied_to(table, bytes), place) {
            (Ok(row), Some(place)) => place.push(Slot::Row(row)),
            (Err(error), _) => bad = Some(error),
            _ => {}
        }
    })?;
    match bad {
        Some(error) => Err(error.into()),
        None => Ok(rows),
    }
}

/// Key prefixes of an index to look up.
struct PrefixKeys<'k> {
    /// Scans the entries of all keys.
    cursor: Cursor,
    /// Position of each key in the result.
    positions: &'k KeyPositions<'k>,
    /// Number of leading parts of the index in a key.
    used: usize,
}

/// Scans the index entries of key prefixes: any number of rows for each key, or at least the first if
/// `one_suffices`.
fn lookup_prefixes<'a, 'x: 'a>(
    scan: &'a Scan,
    one_suffices: bool,
    table: &'a Table,
    keys: PrefixKeys<'_>,
    exec: &mut Exec<'x>,
    arena: &'a Bump,
) -> ExecResult<Vec<SmallVec<[Slot<'a>; 1]>>> {
    let PrefixKeys {
        mut cursor,
        positions,
        used,
    } = keys;
    let index = scan.access.index().unwrap_or(0);
    // Conditions are checked for each tuple afterwards; every row found through a key is locked.
    let mut found: Vec<SmallVec<[Slot<'a>; 1]>> = vec![SmallVec::new(); positions.len()];
    if scan.is_covering() {
        let mut ends = Vec::new();
        let mut keep = |entry: Entry<'a>| {
            ends.clear();
            table.part_ends(index, entry.key, &mut ends);
            let end = used.checked_sub(1).and_then(|last| ends.get(last));
            let key = end.and_then(|end| entry.key.get(..*end));
            let at = key.and_then(|key| positions.get(key));
            if let Some(at) = at.and_then(|at| found.get_mut(*at)) {
                at.push(entry.slot);
            }
        };
        if one_suffices {
            let first = fetch_first_entries(scan, table, &mut cursor, exec, arena)?;
            first.into_iter().for_each(&mut keep);
        }
        while let Some(batch) = fetch_entries(scan, table, &mut cursor, FETCH_BATCH, exec, arena)? {
            batch.into_iter().for_each(&mut keep);
        }
    }
    while let Some(batch) = fetch_rows(scan, table, &mut cursor, None, FETCH_BATCH, exec, arena)? {
        for row in batch {
            let key = leading_key(table, index, used, row.row);
            if let Some(at) = positions
                .get(key.as_slice())
                .and_then(|at| found.get_mut(*at))
            {
                at.push(slot_of_row(scan, row, arena));
            }
        }
    }
    Ok(found)
}

/// As [`lookup_prefixes`], with the conditions on the table checked in place.
fn lookup_prefixes_in_place<'a, 'x: 'a>(
    scan: &'a Scan,
    on: &'a [Expr],
    table: &'a Table,
    keys: PrefixKeys<'_>,
    width: usize,
    exec: &mut Exec<'x>,
    arena: &'a Bump,
) -> ExecResult<Vec<SmallVec<[Slot<'a>; 1]>>> {
    let PrefixKeys {
        mut cursor,
        positions,
        used,
    } = keys;
    let cx = cx_of(exec, arena);
    let pruning = Pruning::of(scan, table, &cx)?;
    // Conditions that read only this table.
    let own = scan.slot_bit();
    let alone = |e: &&'a Expr| e.slots() == own && e.is_fixed() && !e.has_subquery();
    let mut conditions = Conditions::of(on.iter().filter(alone).collect());
    let mut tables = vec![None; scan.slot];
    tables.push(Some(table));
    if positions.len() >= MIN_COMPILED_KEYS {
        conditions.compile(&tables, &cx);
    }
    let index = scan.access.index().unwrap_or(0);
    let mut found: Vec<SmallVec<[Slot<'a>; 1]>> = vec![SmallVec::new(); positions.len()];
    let mut key = Vec::new();
    let mut visit = |slot: &Slot<'_>| -> ExecResult<bool> {
        let Slot::Row(row) = slot else {
            return Ok(true);
        };
        let mut tuple: SmallVec<[Slot<'_>; 4]> = smallvec![Slot::Null; width];
        if let Some(place) = tuple.get_mut(scan.slot) {
            *place = *slot;
        }
        if !conditions.hold(&tuple, &cx)? {
            return Ok(true);
        }
        key.clear();
        append_leading_key(table, index, used, *row, &mut key);
        let at = positions.get(key.as_slice());
        if let Some(at) = at.and_then(|at| found.get_mut(*at)) {
            let bytes = arena.alloc_slice_copy(row.bytes());
            at.push(Slot::Row(row.copied_to(table, bytes)?));
        }
        Ok(true)
    };
    let batch = Batch {
        pruning: &pruning,
        limit: FETCH_BATCH,
    };
    let mut progress = VisitOutcome::More;
    while progress == VisitOutcome::More {
        exec.check_cancelled()?;
        progress = visit_rows(table, &mut cursor, batch, exec, &mut visit)?;
    }
    Ok(found)
}

/// Encodes a row's values of the leading parts of an index.
fn leading_key(table: &Table, index: usize, parts: usize, row: RowRef<'_>) -> Vec<u8> {
    let mut key = Vec::new();
    append_leading_key(table, index, parts, row, &mut key);
    key
}

fn append_leading_key(
    table: &Table,
    index: usize,
    parts: usize,
    row: RowRef<'_>,
    key: &mut Vec<u8>,
) {
    let Some(definition) = table.indexes.get(index) else {
        return;
    };
    let values: SmallVec<[ValueRef<'_>; 4]> = definition
        .parts
        .iter()
        .take(parts)
        .map(|part| row.get(part.column))
        .collect();
    table.append_key_prefix(index, &values, key);
}
