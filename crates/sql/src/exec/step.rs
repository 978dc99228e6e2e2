//! The rows of one step of a plan, a batch at a time: plainly, locked, or as
//! entries of an index only.

use super::fetch::{Cursor, Entry, Fetched};
use super::join::Tuple;
use super::locked::unlock;
use super::reach::Reach;
use super::select::{all_true, cx_of};
use super::{Exec, Run};
use crate::expr::eval::{EvalCx, Slot};
use crate::plan::Step;
use bumpalo::Bump;
use porpoise_rows::RowRef;
use porpoise_rows::catalog::Table;
use porpoise_types::Value;

/// A fetched row as a slot; with its key where it was locked.
pub(super) fn slot_of_row<'a>(step: &Step, row: Fetched<'a>, arena: &'a Bump) -> Slot<'a> {
    match step.lock {
        Some(_) => Slot::Keyed(arena.alloc(row)),
        None => Slot::Row(row.row),
    }
}

/// Values as a slot, in the arena.
pub(super) fn slot_of<'a>(row: &[Value], cx: &EvalCx<'a>) -> Slot<'a> {
    let values = row.iter().map(|v| crate::expr::convert::keep(v, cx));
    Slot::Values(cx.arena.alloc_slice_fill_iter(values))
}

pub(super) fn extended<'a>(
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

/// One batch of a step's rows, beside a row of the tables joined before; with
/// a lock, the newest versions, locked. Where rows are judged, those that do
/// not match are left out and unlocked again.
pub fn fetch_step<'a, 'x: 'a>(
    step: &'a Step,
    table: &'a Table,
    cursor: &mut Cursor,
    (tuple, judged): (Tuple<'a>, bool),
    limit: usize,
    exec: &mut Exec<'x>,
    arena: &'a Bump,
) -> Run<Option<Vec<Fetched<'a>>>> {
    let cx = cx_of(exec, arena);
    let reach = Reach::of(step, table, &cx)?;
    let Some(lock) = step.lock else {
        return cursor.next(table, &reach, exec, limit, arena);
    };
    let since = exec.txn().mark();
    let mut matches = |candidate: RowRef<'a>| -> Run<bool> {
        if !judged {
            return Ok(true);
        }
        let tuple = extended(tuple, step.slot, Slot::Row(candidate), arena);
        Ok(all_true(&step.on, tuple, &cx)? && all_true(&step.filter, tuple, &cx)?)
    };
    let rows = cursor.next_locked(table, (lock, &reach), exec, limit, arena, &mut matches)?;
    let Some(rows) = rows else {
        return Ok(None);
    };
    let mut kept = Vec::with_capacity(rows.len());
    let mut lost: Vec<&[u8]> = Vec::new();
    for row in rows {
        match matches(row.row)? {
            true => kept.push(row),
            false => lost.push(row.key),
        }
    }
    unlock(table, &lost, since, exec);
    Ok(Some(kept))
}

/// As [`fetch_step`], as slots; of entries only where they are enough.
pub(super) fn fetch_slots<'a, 'x: 'a>(
    step: &'a Step,
    table: &'a Table,
    cursor: &mut Cursor,
    at: (Tuple<'a>, bool),
    limit: usize,
    exec: &mut Exec<'x>,
    arena: &'a Bump,
) -> Run<Option<Vec<Slot<'a>>>> {
    if step.entries {
        let entries = fetch_entries(step, table, cursor, limit, exec, arena)?;
        return Ok(entries.map(|entries| entries.into_iter().map(|e| e.slot).collect()));
    }
    let rows = fetch_step(step, table, cursor, at, limit, exec, arena)?;
    let slots = |row| slot_of_row(step, row, arena);
    Ok(rows.map(|rows| rows.into_iter().map(slots).collect()))
}

/// One batch of the entries of a step's index.
pub(super) fn fetch_entries<'a, 'x: 'a>(
    step: &'a Step,
    table: &'a Table,
    cursor: &mut Cursor,
    limit: usize,
    exec: &mut Exec<'x>,
    arena: &'a Bump,
) -> Run<Option<Vec<Entry<'a>>>> {
    let cx = cx_of(exec, arena);
    let reach = Reach::of(step, table, &cx)?;
    // Columns behind the last one that entries hold read as NULL.
    let width = match (step.bare, cursor.index()) {
        (true, _) => 0,
        (false, index) => {
            let held = table.columns_in_entries(index);
            held.last().map_or(0, |last| last + 1)
        }
    };
    cursor.next_entries(table, (&reach, width), exec, limit, arena)
}
