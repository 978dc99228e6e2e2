//! Batches of one scan: plain rows, locked rows, or entries of a covering index.

use super::fetch::{Cursor, Entry, Fetched};
use super::join::Tuple;
use super::lock_rows::unlock;
use super::pruning::{Batch, Pruning};
use super::query::{all_true, cx_of};
use super::{Exec, ExecResult};
use crate::expr::eval::{EvalCx, Slot};
use crate::plan::scan::{Access, Scan, ScanMode};
use bumpalo::Bump;
use porpoise_rows::RowRef;
use porpoise_rows::catalog::Table;
use porpoise_types::Value;

/// Whether the rows of a scan come from a search, which ranks them by their keys.
fn is_searched(scan: &Scan) -> bool {
    matches!(scan.access, Access::TextSearch { .. })
}

/// A fetched row as a slot, with its key if it was locked or found by a search.
pub(super) fn slot_of_row<'a>(scan: &Scan, row: Fetched<'a>, arena: &'a Bump) -> Slot<'a> {
    match scan.mode {
        ScanMode::Locked(_) => Slot::Keyed(arena.alloc(row)),
        _ if is_searched(scan) => Slot::Keyed(arena.alloc(row)),
        ScanMode::Row | ScanMode::Covering | ScanMode::CountOnly => Slot::Row(row.row),
    }
}

/// Copies values into the arena, as a slot.
pub(super) fn slot_of<'a>(row: &[Value], cx: &EvalCx<'a>) -> Slot<'a> {
    let values = row.iter().map(|v| crate::expr::convert::keep(v, cx));
    Slot::Values(cx.arena.alloc_slice_fill_iter(values))
}

pub(super) fn with_slot<'a>(
    tuple: Tuple<'a>,
    slot: usize,
    value: Slot<'a>,
    arena: &'a Bump,
) -> Tuple<'a> {
    let fresh = arena.alloc_slice_copy(tuple);
    if let Some(place) = fresh.get_mut(slot) {
        *place = value;
    }
    fresh
}

/// Fetches one batch of a scan, for a row of the tables joined before. With a lock these are the
/// newest versions, locked; with `filter_row`, the row of those tables, the scan's conditions are
/// checked too: rows that do not match are left out and unlocked again.
pub fn fetch_rows<'a, 'x: 'a>(
    scan: &'a Scan,
    table: &'a Table,
    cursor: &mut Cursor,
    filter_row: Option<Tuple<'a>>,
    limit: usize,
    exec: &mut Exec<'x>,
    arena: &'a Bump,
) -> ExecResult<Option<Vec<Fetched<'a>>>> {
    let cx = cx_of(exec, arena);
    let pruning = Pruning::of(scan, table, &cx)?;
    let batch = Batch {
        pruning: &pruning,
        limit,
    };
    let Some(lock) = scan.lock() else {
        return cursor.next(exec.read(), is_searched(scan), table, batch, exec, arena);
    };
    let since = exec.txn().mark();
    let mut matches = |candidate: RowRef<'a>| -> ExecResult<bool> {
        let Some(filter_row) = filter_row else {
            return Ok(true);
        };
        let tuple = with_slot(filter_row, scan.slot, Slot::Row(candidate), arena);
        all_true(&scan.filter, tuple, &cx)
    };
    let rows = cursor.next_locked(table, lock, batch, exec, arena, &mut matches)?;
    let Some(rows) = rows else {
        return Ok(None);
    };
    let mut kept = Vec::with_capacity(rows.len());
    let mut lost: Vec<&[u8]> = Vec::new();
    for row in rows {
        if matches(row.row)? {
            kept.push(row)
        } else {
            lost.push(row.key)
        }
    }
    unlock(table, &lost, since, exec);
    Ok(Some(kept))
}

/// As [`fetch_rows`], but returns slots, and reads entries if the index is covering.
pub(super) fn fetch_slots<'a, 'x: 'a>(
    scan: &'a Scan,
    table: &'a Table,
    cursor: &mut Cursor,
    filter_row: Option<Tuple<'a>>,
    limit: usize,
    exec: &mut Exec<'x>,
    arena: &'a Bump,
) -> ExecResult<Option<Vec<Slot<'a>>>> {
    if scan.is_covering() {
        let entries = fetch_entries(scan, table, cursor, limit, exec, arena)?;
        return Ok(entries.map(|entries| entries.into_iter().map(|e| e.slot).collect()));
    }
    let rows = fetch_rows(scan, table, cursor, filter_row, limit, exec, arena)?;
    let slots = |row| slot_of_row(scan, row, arena);
    Ok(rows.map(|rows| rows.into_iter().map(slots).collect()))
}

/// Fetches one batch of entries of a scan's index.
pub(super) fn fetch_entries<'a, 'x: 'a>(
    scan: &'a Scan,
    table: &'a Table,
    cursor: &mut Cursor,
    limit: usize,
    exec: &mut Exec<'x>,
    arena: &'a Bump,
) -> ExecResult<Option<Vec<Entry<'a>>>> {
    let cx = cx_of(exec, arena);
    let pruning = Pruning::of(scan, table, &cx)?;
    let width = entry_width(scan, table, cursor);
    let batch = Batch {
        pruning: &pruning,
        limit,
    };
    cursor.next_entries(table, batch, width, exec, arena)
}

/// Fetches at least the first entry of each range of a scan's index.
pub(super) fn fetch_first_entries<'a, 'x: 'a>(
    scan: &'a Scan,
    table: &'a Table,
    cursor: &mut Cursor,
    exec: &mut Exec<'x>,
    arena: &'a Bump,
) -> ExecResult<Vec<Entry<'a>>> {
    let cx = cx_of(exec, arena);
    let pruning = Pruning::of(scan, table, &cx)?;
    let width = entry_width(scan, table, cursor);
    cursor.first_entries(table, (&pruning, width), exec, arena)
}

/// Number of columns of a row that are read of its entry; columns after them read as NULL.
fn entry_width(scan: &Scan, table: &Table, cursor: &Cursor) -> usize {
    match scan.mode {
        ScanMode::CountOnly => 0,
        _ => {
            let held = table.columns_in_entries(cursor.index());
            held.last().map_or(0, |last| last + 1)
        }
    }
}
