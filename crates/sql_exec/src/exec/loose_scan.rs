//! Loose index scan: of all index entries that agree in their leading parts, only the first one is
//! read, and those with the extremes of the next part if a query wants them. Then the scan continues
//! after the group, with one engine call for each step.
//!
//! ```text
//!  index (a, b)     (1,NULL) (1,4) (1,7) (1,9) (2,1) (2,3) (3,NULL) (3,NULL)
//!  MIN(b), MAX(b)    first    min         max   first max   first    max
//!  GROUP BY a                                   = min
//! ```
//!
//! The first entry represents the group. MIN ignores NULL: if the next part is NULL in the first
//! entry, the first entry without NULL is read, too. Operators above see up to three rows of each
//! group in the order of the index, and work as on a full scan.

use super::fetch::{Entry, Fetched, copy_row};
use super::pruning::Pruning;
use super::{Exec, ExecResult, keys};
use crate::error::SqlError;
use crate::expr::eval::{EvalCx, Slot};
use crate::plan::scan::LooseScan;
use bumpalo::Bump;
use porpoise_kv::{Read, prefix_end};
use porpoise_rows::catalog::Table;
use porpoise_rows::{KeyRange, RowRef, ScanPosition, ScanSpec};
use porpoise_types::ValueRef;
use smallvec::SmallVec;
use std::cell::Cell;
use std::ops::ControlFlow;

/// State of a loose index scan.
pub struct LooseCursor {
    pub(super) index: usize,
    /// Number of leading parts in which the entries of a group agree.
    parts: usize,
    minimum: bool,
    maximum: bool,
    /// Ranges that are still to be read, in descending order.
    ranges: Vec<KeyRange>,
}

/// The entry of a range to be read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    First,
    Last,
}

/// An entry that was found: the key of its group, and whether its next part is NULL.
struct Found {
    group: Vec<u8>,
    is_next_null: bool,
}

/// Reads the first or the last entry of a range, and adds it to the result.
type Find<'f> = dyn FnMut(KeyRange, End) -> ExecResult<Option<Found>> + 'f;

impl LooseCursor {
    pub(super) fn open<'a>(
        table: &Table,
        scan: &'a LooseScan,
        row: &[Slot<'a>],
        cx: &EvalCx<'a>,
    ) -> ExecResult<LooseCursor> {
        let ranges = match scan.ranges.as_slice() {
            [] => None,
            ranges => keys::ranges(table, scan.index, ranges, row, cx)?,
        };
        let mut ranges = ranges.unwrap_or_else(|| vec![KeyRange::ALL]);
        ranges.reverse();
        Ok(LooseCursor {
            index: scan.index,
            parts: scan.parts,
            minimum: scan.minimum,
            maximum: scan.maximum,
            ranges,
        })
    }

    /// Returns the rows of the next groups, at most `limit` groups; `None` at the end.
    pub(super) fn next_rows<'a>(
        &mut self,
        table: &'a Table,
        read: Read,
        pruning: &Pruning,
        exec: &Exec<'_>,
        limit: usize,
        arena: &'a Bump,
    ) -> ExecResult<Option<Vec<Fetched<'a>>>> {
        let mut out: Vec<Fetched<'a>> = Vec::new();
        let (index, parts) = (self.index, self.parts);
        self.next_groups(limit, &mut |range, end| {
            exec.check_cancelled()?;
            let (spec, mut position) = (spec(index, range, end), ScanPosition::default());
            let seen = Cell::new(false);
            let mut found = None;
            let mut failed = None;
            let mut keep = |_: &[u8], row: RowRef<'_>| {
                seen.set(true);
                found = Some(found_row(table, index, parts, row));
                match copy_row(table, &[], row, arena) {
                    Ok(row) => out.push(row),
                    Err(error) => failed = Some(error),
                }
            };
            let fetch = pruning.fetch();
            while !position.done() {
                let at = &mut position;
                let mut txn = exec.txn();
                txn.scan_with(table, &spec, fetch, read, at, 1, &mut keep)?;
                if seen.get() {
                    break;
                }
            }
            failed.map_or(Ok(found), |error: SqlError| Err(error.into()))
        })?;
        Ok((!out.is_empty()).then_some(out))
    }

    /// As [`LooseCursor::next_rows`], but returns entries, with the values of the first `width` columns.
    pub(super) fn next_entries<'a>(
        &mut self,
        table: &'a Table,
        width: usize,
        exec: &Exec<'_>,
        limit: usize,
        arena: &'a Bump,
    ) -> ExecResult<Option<Vec<Entry<'a>>>> {
        let mut out: Vec<Entry<'a>> = Vec::new();
        let (index, parts) = (self.index, self.parts);
        let entry_columns = table.columns_in_entries(index);
        let reader = table.entry_reader(index, &entry_columns)?;
        let next_null = next_may_be_null(table, index, parts);
        let mut ends = Vec::new();
        self.next_groups(limit, &mut |range, end| {
            exec.check_cancelled()?;
            let (spec, mut position) = (spec(index, range, end), ScanPosition::default());
            let seen = Cell::new(false);
            let mut found = None;
            let mut failed = None;
            let mut keep = |_: usize, key: &[u8], value: &[u8]| {
                seen.set(true);
                let (key, value) = (arena.alloc_slice_copy(key), arena.alloc_slice_copy(value));
                let (key, value): (&'a [u8], &'a [u8]) = (key, value);
                ends.clear();
                table.part_ends(index, key, &mut ends);
                let group_end = ends.get(parts.saturating_sub(1)).copied();
                let (group, rest) = key.split_at(group_end.unwrap_or(key.len()));
                found = Some(Found {
                    group: group.to_vec(),
                    is_next_null: next_null && rest.first() == Some(&0),
                });
                let values = arena.alloc_slice_fill_copy(width, ValueRef::Null);
                let mut own = |bytes: Vec<u8>| -> &'a [u8] { arena.alloc_slice_copy(&bytes) };
                failed = reader.read(key, value, values, &mut own).err();
                let slot = Slot::Values(values);
                out.push(Entry { key, slot });
                ControlFlow::Break(())
            };
            let read = exec.read();
            while !position.done() {
                // At most one entry.
                let step = (&mut position, 1);
                let mut txn = exec.txn();
                txn.scan_entries(table, &spec, None, read, step, &mut keep)?;
                if seen.get() {
                    break;
                }
            }
            failed.map_or(Ok(found), |error| Err(error.into()))
        })?;
        Ok((!out.is_empty()).then_some(out))
    }

    /// Calls `find` for the entries of up to `limit` groups.
    fn next_groups(&mut self, limit: usize, find: &mut Find<'_>) -> ExecResult<()> {
        let mut groups = 0;
        while groups < limit.max(1)
            && let Some(range) = self.ranges.pop()
        {
            let end = range.end.clone();
            let Some(first) = find(range, End::First)? else {
                continue;
            };
            groups += 1;
            let group_end = prefix_end(&first.group);
            if self.minimum && first.is_next_null {
                let mut start = first.group.clone();
                start.push(NOT_NULL);
                let end = group_end.clone();
                find(KeyRange { start, end }, End::First)?;
            }
            if self.maximum {
                let (start, end) = (first.group, group_end.clone());
                find(KeyRange { start, end }, End::Last)?;
            }
            if let Some(start) = group_end
                && end.as_ref().is_none_or(|end| start < *end)
            {
                self.ranges.push(KeyRange { start, end });
            }
        }
        Ok(())
    }
}

/// The first byte of the key of a nullable part that is not NULL, in an ascending index.
const NOT_NULL: u8 = 1;

fn spec(index: usize, range: KeyRange, end: End) -> ScanSpec {
    ScanSpec {
        index,
        ranges: vec![range],
        reverse: end == End::Last,
        entries_only: false,
    }
}

/// Whether the part that follows the group's may be NULL.
fn next_may_be_null(table: &Table, index: usize, parts: usize) -> bool {
    let part = table.indexes.get(index).and_then(|i| i.parts.get(parts));
    let column = part.and_then(|part| table.columns.get(part.column));
    column.is_some_and(|column| column.nullable)
}

fn found_row(table: &Table, index: usize, parts: usize, row: RowRef<'_>) -> Found {
    let definition = table.indexes.get(index);
    let all = definition.map_or(&[][..], |index| &index.parts);
    let values = all.iter().take(parts).map(|part| row.get(part.column));
    let values: SmallVec<[ValueRef<'_>; 4]> = values.collect();
    let next = all.get(parts).map(|part| row.get(part.column));
    Found {
        group: table.key_prefix(index, &values),
        is_next_null: next.is_some_and(|value| value.is_null()),
    }
}
