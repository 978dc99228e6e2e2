//! A query of one stored table, whose rows are judged and used where they lie.
//!
//! The engine shows a row; the conditions are checked and the consumer is
//! called before it shows the next, so that nothing is copied that is not
//! kept. The same goes for entries of an index where those are enough.
//!
//! Invariants:
//! 1. While the engine shows rows the transaction is borrowed and its memory
//!    is held: nothing here may ask for other rows, wait, or write to a
//!    client. So expressions with subqueries or functions of changing results
//!    (SLEEP, GET_LOCK) go the way of batches ([`super::join`]), and so do
//!    results that stream.
//! 2. Rows are judged by the same conditions as there, in the same order.

use super::fetch::Cursor;
use super::join::Consumer;
use super::profile::Role;
use super::reach::Reach;
use super::select::cx_of;
use super::{Exec, Run, Stop};
use crate::error::SqlError;
use crate::expr::eval::{EvalCx, Slot};
use crate::expr::number::{Holds, Test};
use crate::expr::{Expr, logic};
use crate::plan::{Access, SelectPlan, Step};
use bumpalo::Bump;
use porpoise_rows::RowRef;
use porpoise_rows::catalog::Table;
use porpoise_types::ValueRef;
use smallvec::{SmallVec, smallvec};
use std::ops::ControlFlow;

/// Rows in one call of the engine; between two of them a statement can be
/// cancelled.
const BATCH: usize = 1024;

/// The table of the only step, if rows may be used where they lie.
pub(super) fn applies(plan: &SelectPlan) -> Option<(&Step, &Table)> {
    let ([step], [source]) = (plan.steps.as_slice(), plan.sources.as_slice()) else {
        return None;
    };
    let table = source.table()?;
    let plain = step.slot == 0 && !step.outer && step.semi.is_none() && step.group.is_empty();
    let unlocked = step.lock.is_none() && !plan.locks() && !plan.has_queries;
    let read = !matches!(
        step.access,
        Access::Virtual | Access::Set { .. } | Access::Union { .. }
    );
    (plain && unlocked && read && plan.is_fixed()).then_some((step, table))
}

/// Columns of the only table that expressions of the query name.
fn columns_read(plan: &SelectPlan) -> Vec<usize> {
    let mut columns = Vec::new();
    plan.expressions(&mut |e| e.columns(&mut |_, column| columns.push(column)));
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// The conditions on a row.
struct Conditions<'e> {
    /// Those on numbers, which cost least and so come first.
    tests: Vec<(Test<'e>, &'e Expr)>,
    others: Vec<&'e Expr>,
}

impl<'e> Conditions<'e> {
    /// As they stand.
    fn new(step: &'e Step) -> Conditions<'e> {
        Conditions {
            tests: Vec::new(),
            others: step.filter.iter().collect(),
        }
    }

    /// Makes tests of those that can be, once many rows have to be judged.
    fn learn(&mut self, table: &'e Table, cx: &EvalCx<'_>) {
        let all = std::mem::take(&mut self.others);
        for condition in all {
            match Test::of(condition, &[Some(table)], cx) {
                Some(test) => self.tests.push((test, condition)),
                None => self.others.push(condition),
            }
        }
    }

    #[inline]
    fn hold(&self, row: &[Slot<'_>], cx: &EvalCx<'_>) -> Run<bool> {
        for (test, condition) in &self.tests {
            let holds = match test.holds(row) {
                Holds::Yes => true,
                Holds::No | Holds::Unknown => false,
                Holds::Elsewhere => logic::truth(condition, row, cx)? == Some(true),
            };
            if !holds {
                return Ok(false);
            }
        }
        for condition in &self.others {
            if logic::truth(condition, row, cx)? != Some(true) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// What stands between a row that is shown and the next.
struct Each<'e, 'c> {
    conditions: Conditions<'e>,
    consume: &'e mut Consumer<'c>,
    /// The consumer has enough, or an error came up: what else is shown is
    /// passed over.
    over: bool,
    failed: Option<Stop>,
    /// Rows that the conditions let through.
    rows: u64,
}

impl Each<'_, '_> {
    #[inline]
    fn slot(&mut self, slot: Slot<'_>, cx: &EvalCx<'_>) {
        if self.over {
            return;
        }
        match self.judged(slot, cx) {
            Ok(more) => self.over = !more,
            Err(stop) => self.fail(stop),
        }
    }

    #[inline]
    fn judged(&mut self, slot: Slot<'_>, cx: &EvalCx<'_>) -> Run<bool> {
        let row = [slot];
        if !self.conditions.hold(&row, cx)? {
            return Ok(true);
        }
        self.rows += 1;
        (self.consume)(&row, cx)
    }

    fn fail(&mut self, stop: Stop) {
        self.over = true;
        self.failed.get_or_insert(stop);
    }
}

/// Shows the consumer every row that the conditions let through.
pub(super) fn run(
    plan: &SelectPlan,
    (step, table): (&Step, &Table),
    exec: &mut Exec<'_>,
    consume: &mut Consumer<'_>,
) -> Run<()> {
    let mut arena = Bump::new();
    let mut cursor = Cursor::open(table, &step.access, &[], &cx_of(exec, &arena))?;
    let reach = Reach::of(step, table, &cx_of(exec, &arena))?;
    let columns = match step.entries {
        true => Some(columns_read(plan)),
        false => None,
    };
    let since = exec.begin_part();
    let mut each = Each {
        conditions: Conditions::new(step),
        consume,
        over: false,
        failed: None,
        rows: 0,
    };
    let mut learned = false;
    loop {
        exec.check_cancelled()?;
        arena.reset();
        let more = match &columns {
            Some(columns) => entries(table, columns, &mut cursor, &reach, exec, &arena, &mut each)?,
            None => rows(table, &mut cursor, &reach, exec, &arena, &mut each)?,
        };
        if let Some(stop) = each.failed.take() {
            return Err(stop);
        }
        if !more || each.over {
            break;
        }
        if !std::mem::replace(&mut learned, true) {
            each.conditions.learn(table, &cx_of(exec, &arena));
        }
    }
    exec.end_part(step, Role::Step, (1, each.rows), since);
    Ok(())
}

/// The next rows; whether there may be more.
fn rows(
    table: &Table,
    cursor: &mut Cursor,
    reach: &Reach,
    exec: &Exec<'_>,
    arena: &Bump,
    each: &mut Each<'_, '_>,
) -> Run<bool> {
    let cx = cx_of(exec, arena);
    let read = exec.read();
    match cursor {
        Cursor::Keys { done: true, .. } => Ok(false),
        Cursor::Gathered(_) => Err(Stop::Error(SqlError::internal("a union read directly"))),
        Cursor::Keys { index, keys, done } => {
            *done = true;
            keys.retain(|key| reach.allows(table, *index, key));
            let wanted: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let mut show = |_: usize, row: Option<(&[u8], RowRef<'_>)>| {
                if let Some((_, row)) = row {
                    each.slot(Slot::Row(row), &cx);
                }
            };
            let blobs = reach.blobs();
            exec.txn()
                .get_by_unique_with(table, *index, &wanted, blobs, read, &mut show)?;
            Ok(false)
        }
        Cursor::Scan { spec, position } => {
            if position.done() || spec.ranges.is_empty() {
                return Ok(false);
            }
            let mut show = |_: &[u8], row: RowRef<'_>| each.slot(Slot::Row(row), &cx);
            let fetch = reach.fetch();
            let mut txn = exec.txn();
            Ok(txn.scan_with(table, spec, fetch, read, position, BATCH, &mut show)?)
        }
    }
}

/// As [`rows`], of entries.
fn entries(
    table: &Table,
    columns: &[usize],
    cursor: &mut Cursor,
    reach: &Reach,
    exec: &Exec<'_>,
    arena: &Bump,
    each: &mut Each<'_, '_>,
) -> Run<bool> {
    let cx = cx_of(exec, arena);
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
            Ok(()) => each.slot(Slot::Values(&values), &cx),
            Err(error) => each.fail(error.into()),
        }
        match each.over {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let (read, partitions) = (exec.read(), reach.partitions());
    let mut txn = exec.txn();
    Ok(txn.scan_entries(table, spec, partitions, read, (position, BATCH), &mut show)?)
}
