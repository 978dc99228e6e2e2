//! Rows and entries of a cursor, shown where they lie.
//!
//! Invariant: while the engine shows rows the transaction is borrowed and the
//! engine's memory is held. Whoever is shown one may not ask for other rows,
//! wait, or write to a client.

use super::fetch::Cursor;
use super::reach::Reach;
use super::{Exec, Run, Stop};
use crate::bind::Origin;
use crate::error::SqlError;
use crate::expr::Expr;
use crate::expr::convert::keep_ref;
use crate::expr::eval::Slot;
use crate::plan::{Access, SelectPlan, Step};
use bumpalo::Bump;
use porpoise_rows::RowRef;
use porpoise_rows::catalog::Table;
use porpoise_types::ValueRef;
use smallvec::{SmallVec, smallvec};
use std::ops::ControlFlow;

/// Who is shown rows.
pub(super) trait Shown {
    /// A row, or the columns of one that an entry holds.
    fn slot(&mut self, slot: Slot<'_>);
    /// Something could not be read.
    fn fail(&mut self, stop: Stop);
    /// No more is wanted: what else is shown may be passed over.
    fn is_over(&self) -> bool;
}

/// Whether an access path can show its rows where they lie.
pub(super) fn is_shown(access: &Access) -> bool {
    !matches!(
        access,
        Access::Virtual | Access::Set { .. } | Access::Union { .. }
    )
}

/// A copy of what was shown.
///
/// # Errors
/// As [`RowRef::copied_to`].
pub(super) fn copied_slot<'a>(slot: Slot<'_>, table: &'a Table, arena: &'a Bump) -> Run<Slot<'a>> {
    Ok(match slot {
        Slot::Row(row) => {
            let bytes: &'a [u8] = arena.alloc_slice_copy(row.bytes());
            Slot::Row(row.copied_to(table, bytes)?)
        }
        Slot::Values(values) => {
            let values = values.iter().map(|v| keep_ref(*v, arena));
            Slot::Values(arena.alloc_slice_fill_iter(values))
        }
        Slot::Keyed(_) | Slot::Null => Slot::Null,
    })
}

/// Whether the rows of a step may be shown where they lie, and its conditions
/// checked there.
pub(super) fn may_show(step: &Step) -> bool {
    let plain = step.semi.is_none() && step.group.is_empty() && !step.outer;
    let simple = |e: &Expr| e.is_fixed() && !e.has_query();
    plain && is_shown(&step.access) && step.lock.is_none() && step.filter.iter().all(simple)
}

/// The columns of the table in a slot that a query may read of an entry of this
/// index, ascending.
pub(super) fn columns_of_entries(
    plan: &SelectPlan,
    slot: usize,
    (table, index): (&Table, usize),
) -> Vec<usize> {
    let held = table.columns_in_entries(index);
    let is_derived = |origin: &Origin| matches!(origin, Origin::Derived(_));
    if plan.has_queries || plan.sources.iter().any(|s| is_derived(&s.origin)) {
        return held;
    }
    let mut columns = Vec::new();
    let mut note = |of: usize, column: usize| {
        if of == slot {
            columns.push(column);
        }
    };
    plan.expressions(&mut |e| e.columns(&mut note));
    for step in plan.all_steps() {
        step.implied.iter().for_each(|e| e.columns(&mut note));
        for part in &step.hash {
            part.known.columns(&mut note);
            part.own.columns(&mut note);
        }
    }
    columns.sort_unstable();
    columns.dedup();
    columns.retain(|c| held.contains(c));
    columns
}

/// Shows the next rows, about `limit`; whether there may be more.
pub(super) fn show_rows(
    table: &Table,
    cursor: &mut Cursor,
    reach: &Reach,
    exec: &Exec<'_>,
    limit: usize,
    shown: &mut impl Shown,
) -> Run<bool> {
    let read = exec.read();
    match cursor {
        Cursor::Keys { done: true, .. } => Ok(false),
        Cursor::Keys { index, keys, done } => {
            *done = true;
            keys.retain(|key| reach.allows(table, *index, key));
            let wanted: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let mut show = |_: usize, row: Option<(&[u8], RowRef<'_>)>| {
                if let Some((_, row)) = row {
                    shown.slot(Slot::Row(row));
                }
            };
            let blobs = reach.blobs();
            exec.txn()
                .get_by_unique_in_order_with(table, *index, &wanted, blobs, read, &mut show)?;
            Ok(false)
        }
        Cursor::Gathered(_) => Err(Stop::Error(SqlError::internal("a union shown as a scan"))),
        Cursor::Scan { spec, position } => {
            if position.done() || spec.ranges.is_empty() {
                return Ok(false);
            }
            let mut show = |_: &[u8], row: RowRef<'_>| shown.slot(Slot::Row(row));
            let fetch = reach.fetch();
            let mut txn = exec.txn();
            Ok(txn.scan_with(table, spec, fetch, read, position, limit, &mut show)?)
        }
    }
}

/// As [`show_rows`], of entries: of each these columns, as values.
pub(super) fn show_entries(
    table: &Table,
    columns: &[usize],
    cursor: &mut Cursor,
    reach: &Reach,
    (exec, arena): (&Exec<'_>, &Bump),
    limit: usize,
    shown: &mut impl Shown,
) -> Run<bool> {
    let Some((spec, position)) = cursor.entries() else {
        return Err(Stop::Error(SqlError::internal("entries without a scan")));
    };
    if position.done() || spec.ranges.is_empty() {
        return Ok(false);
    }
    let reader = table.entry_reader(spec.index, columns)?;
    let width = columns.last().map_or(0, |last| last + 1);
    let mut show = |_: usize, key: &[u8], value: &[u8]| {
        let mut values: SmallVec<[ValueRef<'_>; 4]> = smallvec![ValueRef::Null; width];
        let mut keep = |bytes: Vec<u8>| -> &[u8] { arena.alloc_slice_copy(&bytes) };
        match reader.read(key, value, &mut values, &mut keep) {
            Ok(()) => shown.slot(Slot::Values(&values)),
            Err(error) => shown.fail(error.into()),
        }
        match shown.is_over() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let (read, partitions) = (exec.read(), reach.partitions());
    let mut txn = exec.txn();
    Ok(txn.scan_entries(table, spec, partitions, read, (position, limit), &mut show)?)
}
