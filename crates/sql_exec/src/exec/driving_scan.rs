//! The driving scan of a join: yields the first table's rows in batches.
//!
//! Conditions on a stored table run on rows in place; only rows that pass are copied into the join.
//! Conditions with subqueries, which read other rows, run on the copies.

use super::conditions::Conditions;
use super::derived;
use super::fetch::Cursor;
use super::join::{BATCH, Tuple};
use super::pruning::{Batch, Pruning};
use super::query::{all_true, cx_of};
use super::row_set::RowCursor;
use super::scan::{fetch_slots, slot_of, with_slot};
use super::state::RowSet;
use super::visit::{VisitOutcome, columns_of_entries, copied_slot, visit_entries, visit_rows};
use super::{Exec, ExecResult};
use crate::bind::Origin;
use crate::error::SqlError;
use crate::expr::Expr;
use crate::expr::eval::{EvalCx, Slot};
use crate::expr::logic;
use crate::plan::QueryPlan;
use crate::plan::scan::{FilterPlace, Scan, ScanMode};
use bumpalo::Bump;
use porpoise_rows::catalog::Table;
use porpoise_types::Value;
use smallvec::{SmallVec, smallvec};
use std::rc::Rc;

/// Number of rows scanned before the conditions are compiled.
const INTERPRETED_ROWS: usize = 512;

/// The driving scan of a join.
pub(super) enum DrivingScan<'p> {
    /// A stored table.
    Stored(Box<Stored<'p>>),
    /// Rows of a virtual table (INFORMATION_SCHEMA and the like).
    Virtual { rows: Vec<Vec<Value>>, done: bool },
    /// Rows of a derived table.
    Derived { rows: Rc<RowSet>, cursor: RowCursor },
}

/// A scan of a stored table.
pub(super) struct Stored<'p> {
    table: &'p Table,
    cursor: Cursor,
    /// Number of rows to request with the next call.
    batch: usize,
    /// Number of rows that the consumer wants.
    rows_wanted: u64,
    /// The checks of a scan whose rows are checked in place.
    in_place: Option<InPlace<'p>>,
    /// Columns that are read of the entries of a covering index.
    columns: Vec<usize>,
    /// Number of rows scanned, counted until the conditions are compiled.
    scanned_rows: usize,
}

/// The checks of rows in place.
struct InPlace<'p> {
    conditions: Conditions<'p>,
    pruning: Pruning,
    /// Conditions with subqueries, which are checked on copies of the rows that passed.
    subqueries: Vec<&'p Expr>,
}

impl<'p> InPlace<'p> {
    fn of(scan: &'p Scan, table: &'p Table, cx: &EvalCx<'_>) -> ExecResult<Option<InPlace<'p>>> {
        if scan.filter_place == FilterPlace::Copies {
            return Ok(None);
        }
        let (subqueries, plain) = scan.filter.iter().partition(|e| e.has_subquery());
        Ok(Some(InPlace {
            conditions: Conditions::of(plain),
            pruning: Pruning::of(scan, table, cx)?,
            subqueries,
        }))
    }
}

impl<'p> DrivingScan<'p> {
    /// Skips up to `most` rows of a scan in which every row found belongs to the result. Returns
    /// the number skipped.
    pub(super) fn skip(&mut self, scan: &Scan, most: u64, exec: &Exec<'_>) -> ExecResult<u64> {
        let DrivingScan::Stored(stored) = self else {
            return Ok(0);
        };
        match &stored.in_place {
            Some(in_place) if scan.filter.is_empty() => {
                let pruning = &in_place.pruning;
                let passed = stored.cursor.skip(stored.table, pruning, exec, most)?;
                let left = stored.rows_wanted.saturating_sub(passed);
                stored.batch = usize::try_from(left).map_or(BATCH, |n| n.clamp(1, BATCH));
                Ok(passed)
            }
            _ => Ok(0),
        }
    }

    /// Opens a scan. The consumer is expected to need about `rows_wanted` rows.
    pub(super) fn open(
        plan: &'p QueryPlan,
        scan: &'p Scan,
        rows_wanted: u64,
        exec: &mut Exec<'_>,
    ) -> ExecResult<DrivingScan<'p>> {
        let Some(source) = plan.sources.get(scan.slot) else {
            return Err(SqlError::internal("a scan without a table").into());
        };
        let table = match &source.origin {
            Origin::Stored(table) => table,
            Origin::Virtual(table) => {
                let rows = exec.server.rows(table.database, table.name)?;
                return Ok(DrivingScan::Virtual { rows, done: false });
            }
            Origin::Derived(rows) => {
                let rows = derived::rows(rows, &[], exec)?;
                let cursor = RowCursor::default();
                return Ok(DrivingScan::Derived { rows, cursor });
            }
        };
        let arena = Bump::new();
        let cx = cx_of(exec, &arena);
        let cursor = Cursor::open(table, &scan.access, &[], &cx)?;
        let few = rows_wanted < BATCH as u64;
        let batch = if few {
            usize::try_from(rows_wanted).unwrap_or(BATCH)
        } else {
            BATCH
        };
        let in_place = InPlace::of(scan, table, &cx)?;
        let columns = if scan.mode == ScanMode::Covering {
            columns_of_entries(plan, scan.slot, table, cursor.index())
        } else {
            Vec::new()
        };
        Ok(DrivingScan::Stored(Box::new(Stored {
            table,
            cursor,
            batch,
            rows_wanted,
            in_place,
            columns,
            scanned_rows: 0,
        })))
    }

    /// Returns the next batch, as join rows with only this slot filled; `None` at the end.
    pub(super) fn next<'a, 'x: 'a>(
        &mut self,
        plan: &'a QueryPlan,
        scan: &'a Scan,
        exec: &mut Exec<'x>,
        arena: &'a Bump,
    ) -> ExecResult<Option<Vec<Tuple<'a>>>>
    where
        'p: 'a,
    {
        let empty: Tuple<'a> = arena.alloc_slice_fill_copy(plan.sources.len(), Slot::Null);
        match self {
            DrivingScan::Virtual { done: true, .. } => Ok(None),
            DrivingScan::Virtual { rows, done } => {
                *done = true;
                filter_values(scan, rows.iter(), empty, exec, arena).map(Some)
            }
            DrivingScan::Derived { rows, cursor } => {
                let batch = cursor.next(rows, BATCH)?;
                if batch.is_empty() {
                    return Ok(None);
                }
                filter_values(scan, batch.iter(), empty, exec, arena).map(Some)
            }
            DrivingScan::Stored(stored) => stored.next(plan, scan, empty, exec, arena),
        }
    }
}

impl<'p> Stored<'p> {
    fn next<'a, 'x: 'a>(
        &mut self,
        plan: &'a QueryPlan,
        scan: &'a Scan,
        empty: Tuple<'a>,
        exec: &mut Exec<'x>,
        arena: &'a Bump,
    ) -> ExecResult<Option<Vec<Tuple<'a>>>>
    where
        'p: 'a,
    {
        let (table, limit): (&'p Table, usize) = (self.table, self.batch);
        // If few rows are wanted and none matched, or many are wanted, the next batch is larger.
        if scan.lock().is_none() {
            let most = exec.rows_per_call();
            self.batch = limit.saturating_mul(4).min(most);
        }
        if self.in_place.is_some() {
            return self.next_in_place((plan, scan), limit, exec, arena);
        }
        let cursor = &mut self.cursor;
        let slots = fetch_slots(scan, table, cursor, Some(empty), limit, exec, arena)?;
        let Some(slots) = slots else {
            return Ok(None);
        };
        let cx = cx_of(exec, arena);
        let mut out = Vec::with_capacity(slots.len());
        for slot in slots {
            let tuple = with_slot(empty, scan.slot, slot, arena);
            if scan.lock().is_some() || all_true(&scan.filter, tuple, &cx)? {
                out.push(tuple);
            }
        }
        Ok(Some(out))
    }

    /// As [`Stored::next`], with rows checked in place.
    fn next_in_place<'a, 'x: 'a>(
        &mut self,
        (plan, scan): (&'a QueryPlan, &'a Scan),
        limit: usize,
        exec: &mut Exec<'x>,
        arena: &'a Bump,
    ) -> ExecResult<Option<Vec<Tuple<'a>>>>
    where
        'p: 'a,
    {
        let table: &'p Table = self.table;
        let cx = cx_of(exec, arena);
        let Some(in_place) = &mut self.in_place else {
            return Ok(None);
        };
        let InPlace {
            conditions,
            pruning,
            subqueries,
        } = in_place;
        if self.scanned_rows < INTERPRETED_ROWS && self.scanned_rows + limit >= INTERPRETED_ROWS {
            let tables: Vec<Option<&'p Table>> = tables_with_only(table, scan.slot);
            conditions.compile(&tables, &cx);
        }
        self.scanned_rows = self.scanned_rows.saturating_add(limit);
        let (at, width) = (scan.slot, plan.sources.len());
        let mut out: Vec<Tuple<'a>> = Vec::with_capacity(limit);
        let mut shown = 0;
        let mut visit = |slot: &Slot<'_>| -> ExecResult<bool> {
            shown += 1;
            let mut row: SmallVec<[Slot<'_>; 4]> = smallvec![Slot::Null; width];
            if let Some(place) = row.get_mut(at) {
                *place = *slot;
            }
            if conditions.hold(&row, &cx)? {
                let slot: Slot<'a> = copied_slot(*slot, table, arena)?;
                let tuple = arena.alloc_slice_fill_copy(width, Slot::Null);
                if let Some(place) = tuple.get_mut(at) {
                    *place = slot;
                }
                out.push(tuple);
            }
            Ok(true)
        };
        let cursor = &mut self.cursor;
        let batch = Batch { pruning, limit };
        let progress = if scan.is_covering() {
            visit_entries(table, &self.columns, cursor, batch, exec, arena, &mut visit)?
        } else {
            visit_rows(table, cursor, batch, exec, &mut visit)?
        };
        // At the end of the table, rows of this last batch may still have been shown.
        if progress != VisitOutcome::More && shown == 0 {
            return Ok(None);
        }
        if !subqueries.is_empty() {
            return passing(out, subqueries, &cx).map(Some);
        }
        Ok(Some(out))
    }
}

/// The rows for which all of these conditions are true.
fn passing<'a>(
    rows: Vec<Tuple<'a>>,
    conditions: &[&'a Expr],
    cx: &EvalCx<'a>,
) -> ExecResult<Vec<Tuple<'a>>> {
    let mut out = Vec::with_capacity(rows.len());
    for row in rows {
        let mut passes = true;
        for condition in conditions {
            passes = passes && logic::truth(condition, row, cx)? == Some(true);
        }
        if passes {
            out.push(row);
        }
    }
    Ok(out)
}

/// Tables by slot, with only this one filled in.
fn tables_with_only(table: &Table, slot: usize) -> Vec<Option<&Table>> {
    let mut tables = vec![None; slot];
    tables.push(Some(table));
    tables
}

/// Converts rows of values to join rows, and drops those that the scan's conditions reject.
fn filter_values<'a, 'r, 'x: 'a>(
    scan: &'a Scan,
    rows: impl Iterator<Item = &'r Vec<Value>>,
    empty: Tuple<'a>,
    exec: &Exec<'x>,
    arena: &'a Bump,
) -> ExecResult<Vec<Tuple<'a>>> {
    let cx = cx_of(exec, arena);
    let mut out = Vec::new();
    for row in rows {
        let tuple = with_slot(empty, scan.slot, slot_of(row, &cx), arena);
        if all_true(&scan.filter, tuple, &cx)? {
            out.push(tuple);
        }
    }
    Ok(out)
}
