//! A query of one stored table, whose rows are judged and used where they lie.
//!
//! The engine shows a row; the conditions are checked and the consumer is
//! called before it shows the next, so that nothing is copied that is not
//! kept. The same goes for entries of an index where those are enough.
//!
//! Invariants:
//! 1. What [`super::show`] asks of those that are shown rows: so expressions
//!    with subqueries or functions of changing results (SLEEP, GET_LOCK) go
//!    the way of batches ([`super::join`]), and so do results that stream.
//! 2. Rows are judged by the same conditions as there.

use super::conditions::Conditions;
use super::fetch::Cursor;
use super::join::Consumer;
use super::profile::Role;
use super::reach::Reach;
use super::select::cx_of;
use super::show::{Shown, columns_of_entries, may_show, show_entries, show_rows};
use super::{Exec, Run, Stop};
use crate::expr::eval::{EvalCx, Slot};
use crate::plan::{SelectPlan, Step};
use bumpalo::Bump;
use porpoise_rows::catalog::Table;

/// Rows in one call of the engine; between two of them a statement can be
/// cancelled.
const BATCH: usize = 1024;

/// The table of the only step, if rows may be used where they lie.
pub(super) fn applies(plan: &SelectPlan) -> Option<(&Step, &Table)> {
    let ([step], [source]) = (plan.steps.as_slice(), plan.sources.as_slice()) else {
        return None;
    };
    let table = source.table()?;
    let alone = !plan.locks() && !plan.has_queries && plan.is_fixed();
    (alone && step.slot == 0 && may_show(step)).then_some((step, table))
}

/// What stands between a row that is shown and the next.
struct Each<'e, 'c, 'a> {
    conditions: &'e Conditions<'e>,
    consume: &'e mut Consumer<'c>,
    cx: EvalCx<'a>,
    over: bool,
    failed: Option<Stop>,
    /// Rows that the conditions let through.
    rows: u64,
}

impl Each<'_, '_, '_> {
    #[inline]
    fn judged(&mut self, slot: Slot<'_>) -> Run<bool> {
        let row = [slot];
        if !self.conditions.hold(&row, &self.cx)? {
            return Ok(true);
        }
        self.rows += 1;
        (self.consume)(&row, &self.cx)
    }
}

impl Shown for Each<'_, '_, '_> {
    #[inline]
    fn slot(&mut self, slot: Slot<'_>) {
        if self.over {
            return;
        }
        match self.judged(slot) {
            Ok(more) => self.over = !more,
            Err(stop) => self.fail(stop),
        }
    }

    fn fail(&mut self, stop: Stop) {
        self.over = true;
        self.failed.get_or_insert(stop);
    }

    fn is_over(&self) -> bool {
        self.over
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
        true => columns_of_entries(plan, 0, (table, cursor.index())),
        false => Vec::new(),
    };
    let since = exec.begin_part();
    let mut conditions = Conditions::new(&step.filter);
    let (mut rows, mut learnt) = (0, false);
    loop {
        exec.check_cancelled()?;
        arena.reset();
        let mut each = Each {
            conditions: &conditions,
            consume: &mut *consume,
            cx: cx_of(exec, &arena),
            over: false,
            failed: None,
            rows: 0,
        };
        let at = (&*exec, &arena);
        let more = match step.entries {
            true => show_entries(table, &columns, &mut cursor, &reach, at, BATCH, &mut each)?,
            false => show_rows(table, &mut cursor, &reach, exec, BATCH, &mut each)?,
        };
        rows += each.rows;
        if let Some(stop) = each.failed {
            return Err(stop);
        }
        if !more || each.over {
            break;
        }
        if !std::mem::replace(&mut learnt, true) {
            conditions.learn(&[Some(table)], &cx_of(exec, &arena));
        }
    }
    exec.end_part(step, Role::Step, (1, rows), since);
    Ok(())
}
