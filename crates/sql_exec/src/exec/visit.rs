//! Visits rows and entries of a cursor in place.
//!
//! Invariant: while a visitor runs, the transaction is borrowed and the engine's memory is pinned.
//! A visitor must not read other rows, wait, or write to a client.

use super::fetch::Cursor;
use super::pruning::Batch;
use super::{Exec, ExecError, ExecResult};
use crate::bind::Origin;
use crate::error::SqlError;
use crate::expr::convert::keep_ref;
use crate::expr::eval::Slot;
use crate::plan::QueryPlan;
use bumpalo::Bump;
use porpoise_rows::catalog::Table;
use porpoise_rows::{Lookup, RowRef};
use porpoise_types::ValueRef;
use smallvec::{SmallVec, smallvec};
use std::ops::ControlFlow;

/// Outcome of a call that visits rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VisitOutcome {
    /// There may be more rows.
    More,
    /// The last row was visited.
    AtEnd,
    /// The visitor wants no more rows.
    Stopped,
}

/// Calls a function for each row until it fails or wants no more. The engine may pass a few rows
/// after that, which are ignored.
///
/// The function takes the slot by reference: a second copy right after the first would load 16
/// bytes that two stores wrote, and wait for both (a failed store-to-load forwarding, about 5 ns).
struct Visitor<'v, F> {
    visit: &'v mut F,
    stopped: bool,
    failed: Option<ExecError>,
}

impl<'v, F: FnMut(&Slot<'_>) -> ExecResult<bool>> Visitor<'v, F> {
    fn new(visit: &'v mut F) -> Visitor<'v, F> {
        Visitor {
            visit,
            stopped: false,
            failed: None,
        }
    }

    #[inline]
    fn visit(&mut self, slot: &Slot<'_>) {
        if self.stopped {
            return;
        }
        match (self.visit)(slot) {
            Ok(more) => self.stopped = !more,
            Err(error) => self.fail(error),
        }
    }

    /// Records a failure; the first one is returned.
    fn fail(&mut self, error: ExecError) {
        self.stopped = true;
        self.failed.get_or_insert(error);
    }

    fn outcome(self, more: bool) -> ExecResult<VisitOutcome> {
        match (self.failed, self.stopped, more) {
            (Some(error), ..) => Err(error),
            (None, true, _) => Ok(VisitOutcome::Stopped),
            (None, false, true) => Ok(VisitOutcome::More),
            (None, false, false) => Ok(VisitOutcome::AtEnd),
        }
    }
}

/// Copies a visited row or entry into the arena.
///
/// # Errors
/// As [`RowRef::copied_to`].
pub(super) fn copied_slot<'a>(
    slot: Slot<'_>,
    table: &'a Table,
    arena: &'a Bump,
) -> ExecResult<Slot<'a>> {
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

/// The columns, ascending, that a query may read of entries of this index for the table in `slot`.
pub(super) fn columns_of_entries(
    plan: &QueryPlan,
    slot: usize,
    table: &Table,
    index: usize,
) -> Vec<usize> {
    let entry_columns = table.columns_in_entries(index);
    let is_derived = |origin: &Origin| matches!(origin, Origin::Derived(_));
    if plan.has_subqueries || plan.sources.iter().any(|s| is_derived(&s.origin)) {
        return entry_columns;
    }
    let mut columns = Vec::new();
    let mut note = |of: usize, column: usize| {
        if of == slot {
            columns.push(column);
        }
    };
    plan.expressions(&mut |e| e.columns(&mut note));
    plan.scans(&mut |scan| scan.implied.iter().for_each(|e| e.columns(&mut note)));
    columns.sort_unstable();
    columns.dedup();
    columns.retain(|c| entry_columns.contains(c));
    columns
}

/// Visits the next rows, about as many as the batch has, until the visitor returns that it wants no more.
pub(super) fn visit_rows(
    table: &Table,
    cursor: &mut Cursor,
    batch: Batch<'_>,
    exec: &Exec<'_>,
    visit: &mut impl FnMut(&Slot<'_>) -> ExecResult<bool>,
) -> ExecResult<VisitOutcome> {
    let Batch { pruning, limit } = batch;
    let read = exec.read();
    let mut visitor = Visitor::new(visit);
    match cursor {
        Cursor::Keys { done: true, .. } => Ok(VisitOutcome::AtEnd),
        Cursor::Keys { index, keys, done } => {
            *done = true;
            keys.retain(|key| pruning.allows(table, *index, key));
            let wanted: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let lookup = Lookup::unique(table, *index, &wanted).overflow(pruning.overflow());
            exec.txn()
                .look_up(&lookup.in_order(), read, &mut |_, found| {
                    if let Some(found) = found {
                        visitor.visit(&Slot::Row(found.row));
                    }
                })?;
            visitor.outcome(false)
        }
        Cursor::IndexMerge(_) | Cursor::Loose(_) | Cursor::Ranked(_) => {
            Err(SqlError::internal("rows of such a path are not visited in place").into())
        }
        Cursor::Scan { spec, position } => {
            if position.done() || spec.ranges.is_empty() {
                return Ok(VisitOutcome::AtEnd);
            }
            let mut visit_row = |_: &[u8], row: RowRef<'_>| visitor.visit(&Slot::Row(row));
            let fetch = pruning.fetch();
            let mut txn = exec.txn();
            let more = txn.scan_with(table, spec, fetch, read, position, limit, &mut visit_row)?;
            visitor.outcome(more)
        }
    }
}

/// As [`visit_rows`], for entries; these columns of each are decoded to values.
pub(super) fn visit_entries(
    table: &Table,
    columns: &[usize],
    cursor: &mut Cursor,
    batch: Batch<'_>,
    exec: &Exec<'_>,
    arena: &Bump,
    visit: &mut impl FnMut(&Slot<'_>) -> ExecResult<bool>,
) -> ExecResult<VisitOutcome> {
    let Some((spec, position)) = cursor.entries() else {
        return Err(SqlError::internal("entries without a scan").into());
    };
    if position.done() || spec.ranges.is_empty() {
        return Ok(VisitOutcome::AtEnd);
    }
    let mut visitor = Visitor::new(visit);
    let reader = table.entry_reader(spec.index, columns)?;
    let width = columns.last().map_or(0, |last| last + 1);
    let mut visited = 0;
    let mut visit_entry = |_: usize, key: &[u8], value: &[u8]| {
        visited += 1;
        let mut values: SmallVec<[ValueRef<'_>; 4]> = smallvec![ValueRef::Null; width];
        let mut keep = |bytes: Vec<u8>| -> &[u8] { arena.alloc_slice_copy(&bytes) };
        match reader.read(key, value, &mut values, &mut keep) {
            Ok(()) => visitor.visit(&Slot::Values(&values)),
            Err(error) => visitor.fail(error.into()),
        }
        if visitor.stopped {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let (read, partitions) = (exec.read(), batch.pruning.partitions());
    let mut txn = exec.txn();
    let more = txn.scan_entries(
        table,
        spec,
        partitions,
        read,
        (position, batch.limit),
        &mut visit_entry,
    )?;
    txn.count_entries(table, spec, visited);
    visitor.outcome(more)
}
