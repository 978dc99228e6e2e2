//! The rows of the first step of a join, batch after batch.
//!
//! Rows of a stored table are judged where they lie; only those that the
//! step's conditions let through are copied, as rows of the join.

use super::conditions::Conditions;
use super::derived;
use super::fetch::Cursor;
use super::join::{BATCH, Tuple};
use super::reach::Reach;
use super::select::{all_true, cx_of};
use super::show::{Shown, columns_of_entries, copied_slot, may_show, show_entries, show_rows};
use super::state::RowSet;
use super::step::{extended, fetch_slots, slot_of};
use super::{Exec, Run, Stop};
use crate::bind::Origin;
use crate::error::SqlError;
use crate::expr::eval::{EvalCx, Slot};
use crate::plan::{SelectPlan, Step};
use bumpalo::Bump;
use porpoise_rows::catalog::Table;
use porpoise_types::Value;
use smallvec::{SmallVec, smallvec};
use std::rc::Rc;

/// Rows looked at before the conditions are learnt.
const FEW: usize = 512;

/// Where they come from.
pub(super) enum FirstRows<'p> {
    /// A table of rows.
    Stored(Box<Stored<'p>>),
    /// Rows that the server makes up.
    Virtual { rows: Vec<Vec<Value>>, done: bool },
    /// Rows of another query.
    Derived { rows: Rc<RowSet>, next: usize },
}

/// A scan of a stored table.
pub(super) struct Stored<'p> {
    table: &'p Table,
    cursor: Cursor,
    /// Rows asked for the next time.
    batch: usize,
    /// Rows that are enough.
    wanted: u64,
    /// The conditions and how far the step reaches, where rows may be judged
    /// where they lie.
    shown: Option<(Conditions<'p>, Reach)>,
    /// What is read of entries, where those are enough.
    columns: Vec<usize>,
    /// Rows looked at so far, until the conditions were learnt.
    looked_at: usize,
}

impl<'p> FirstRows<'p> {
    /// Passes over rows, at most so many, where each that the access path finds
    /// is one of the result; how many there were.
    pub(super) fn skip(&mut self, step: &Step, most: u64, exec: &Exec<'_>) -> Run<u64> {
        let FirstRows::Stored(stored) = self else {
            return Ok(0);
        };
        match &stored.shown {
            Some((_, reach)) if step.filter.is_empty() => {
                let passed = stored.cursor.skip(stored.table, reach, exec, most)?;
                let left = stored.wanted.saturating_sub(passed);
                stored.batch = usize::try_from(left).map_or(BATCH, |n| n.clamp(1, BATCH));
                Ok(passed)
            }
            _ => Ok(0),
        }
    }

    /// Those of a step; so many are enough.
    pub(super) fn open(
        plan: &'p SelectPlan,
        step: &'p Step,
        wanted: u64,
        exec: &mut Exec<'_>,
    ) -> Run<FirstRows<'p>> {
        let Some(source) = plan.sources.get(step.slot) else {
            return Err(Stop::Error(SqlError::internal("a step without a table")));
        };
        let table = match &source.origin {
            Origin::Stored(table) => table,
            Origin::Virtual(table) => {
                let rows = exec.server.rows(table.database, table.name)?;
                return Ok(FirstRows::Virtual { rows, done: false });
            }
            Origin::Derived(rows) => {
                let rows = derived::rows(rows, &[], exec)?;
                return Ok(FirstRows::Derived { rows, next: 0 });
            }
        };
        let arena = Bump::new();
        let cx = cx_of(exec, &arena);
        let cursor = Cursor::open(table, &step.access, &[], &cx)?;
        let few = plan.steps.len() == 1 && wanted < BATCH as u64;
        let batch = match few {
            true => usize::try_from(wanted).unwrap_or(BATCH),
            false => BATCH,
        };
        let shown = match may_show(step) {
            true => Some((Conditions::new(&step.filter), Reach::of(step, table, &cx)?)),
            false => None,
        };
        let columns = match step.entries && !step.bare {
            true => columns_of_entries(plan, step.slot, (table, cursor.index())),
            false => Vec::new(),
        };
        Ok(FirstRows::Stored(Box::new(Stored {
            table,
            cursor,
            batch,
            wanted,
            shown,
            columns,
            looked_at: 0,
        })))
    }

    /// The next of them, as rows of the join of which nothing else is known;
    /// `None` at the end.
    pub(super) fn next<'a, 'x: 'a>(
        &mut self,
        plan: &'a SelectPlan,
        step: &'a Step,
        exec: &mut Exec<'x>,
        arena: &'a Bump,
    ) -> Run<Option<Vec<Tuple<'a>>>>
    where
        'p: 'a,
    {
        let empty: Tuple<'a> = arena.alloc_slice_fill_copy(plan.sources.len(), Slot::Null);
        match self {
            FirstRows::Virtual { done: true, .. } => Ok(None),
            FirstRows::Virtual { rows, done } => {
                *done = true;
                values_that_match(step, rows.iter(), empty, exec, arena).map(Some)
            }
            FirstRows::Derived { rows, next } => {
                let batch = rows.rows.iter().skip(*next).take(BATCH);
                *next += BATCH;
                if batch.len() == 0 {
                    return Ok(None);
                }
                values_that_match(step, batch, empty, exec, arena).map(Some)
            }
            FirstRows::Stored(stored) => stored.next(plan, step, empty, exec, arena),
        }
    }
}

impl<'p> Stored<'p> {
    fn next<'a, 'x: 'a>(
        &mut self,
        plan: &'a SelectPlan,
        step: &'a Step,
        empty: Tuple<'a>,
        exec: &mut Exec<'x>,
        arena: &'a Bump,
    ) -> Run<Option<Vec<Tuple<'a>>>>
    where
        'p: 'a,
    {
        let (table, limit): (&'p Table, usize) = (self.table, self.batch);
        // Where few rows are wanted and none of them matched, more are looked
        // at the next time.
        if step.lock.is_none() {
            self.batch = limit.saturating_mul(4).min(BATCH);
        }
        let cx = cx_of(exec, arena);
        let Some((conditions, reach)) = &mut self.shown else {
            let at = (empty, true);
            let slots = fetch_slots(step, table, &mut self.cursor, at, limit, exec, arena)?;
            let Some(slots) = slots else {
                return Ok(None);
            };
            let mut out = Vec::with_capacity(slots.len());
            for slot in slots {
                let tuple = extended(empty, step.slot, slot, arena);
                if step.lock.is_some() || all_true(&step.filter, tuple, &cx)? {
                    out.push(tuple);
                }
            }
            return Ok(Some(out));
        };
        if self.looked_at < FEW && self.looked_at + limit >= FEW {
            let tables: Vec<Option<&'p Table>> = tables_of_one(table, step.slot);
            conditions.learn(&tables, &cx);
        }
        self.looked_at = self.looked_at.saturating_add(limit);
        let mut copied = Copied {
            table,
            at: step.slot,
            width: plan.sources.len(),
            conditions,
            cx,
            out: Vec::with_capacity(limit),
            looked_at: 0,
            failed: None,
        };
        let cursor = &mut self.cursor;
        let more = match step.entries {
            true => {
                let columns = &self.columns;
                show_entries(
                    table,
                    columns,
                    cursor,
                    reach,
                    (exec, arena),
                    limit,
                    &mut copied,
                )?
            }
            false => show_rows(table, cursor, reach, exec, limit, &mut copied)?,
        };
        match copied.failed {
            Some(stop) => Err(stop),
            None if !more && copied.looked_at == 0 => Ok(None),
            None => Ok(Some(copied.out)),
        }
    }
}

/// Tables by slot, of which only one is known.
fn tables_of_one(table: &Table, slot: usize) -> Vec<Option<&Table>> {
    let mut tables = vec![None; slot];
    tables.push(Some(table));
    tables
}

/// Copies rows that conditions let through.
struct Copied<'c, 'a> {
    table: &'a Table,
    /// The slot and the number of slots of a row of the join.
    at: usize,
    width: usize,
    conditions: &'c Conditions<'a>,
    cx: EvalCx<'a>,
    out: Vec<Tuple<'a>>,
    looked_at: usize,
    failed: Option<Stop>,
}

impl<'a> Copied<'_, 'a> {
    fn judged(&mut self, slot: Slot<'_>) -> Run<()> {
        let mut row: SmallVec<[Slot<'_>; 4]> = smallvec![Slot::Null; self.width];
        if let Some(place) = row.get_mut(self.at) {
            *place = slot;
        }
        if !self.conditions.hold(&row, &self.cx)? {
            return Ok(());
        }
        let arena: &'a Bump = self.cx.arena;
        let slot: Slot<'a> = copied_slot(slot, self.table, arena)?;
        let at = self.at;
        let tuple = arena.alloc_slice_fill_with(self.width, |n| match n == at {
            true => slot,
            false => Slot::Null,
        });
        self.out.push(tuple);
        Ok(())
    }
}

impl Shown for Copied<'_, '_> {
    fn slot(&mut self, slot: Slot<'_>) {
        self.looked_at += 1;
        if self.failed.is_none()
            && let Err(stop) = self.judged(slot)
        {
            self.fail(stop);
        }
    }

    fn fail(&mut self, stop: Stop) {
        self.failed.get_or_insert(stop);
    }

    fn is_over(&self) -> bool {
        self.failed.is_some()
    }
}

/// Rows of values as tuples, those that the step's conditions let through.
fn values_that_match<'a, 'r, 'x: 'a>(
    step: &'a Step,
    rows: impl Iterator<Item = &'r Vec<Value>>,
    empty: Tuple<'a>,
    exec: &Exec<'x>,
    arena: &'a Bump,
) -> Run<Vec<Tuple<'a>>> {
    let cx = cx_of(exec, arena);
    let mut out = Vec::new();
    for row in rows {
        let tuple = extended(empty, step.slot, slot_of(row, &cx), arena);
        if all_true(&step.filter, tuple, &cx)? {
            out.push(tuple);
        }
    }
    Ok(out)
}
