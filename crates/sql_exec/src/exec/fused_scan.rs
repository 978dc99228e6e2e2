//! A fused scan: rows of one stored table are filtered and consumed in place.
//!
//! The engine passes each row to a visitor, which checks the conditions and calls the consumer
//! before the next row, so that rejected rows are never copied. Entries of a covering index are
//! processed in the same way.
//!
//! The rows of a derived table are consumed as its query computes them: the scan is the sink of the
//! query, and nothing is materialized. A derived table of a query that runs several times, for each
//! row of an enclosing query, is materialized once instead.
//!
//! Invariants:
//! 1. The planner chooses it only if expressions are deterministic (no SLEEP, no GET_LOCK) and
//!    contain no subquery, and if results are collected, not streamed: see the
//!    invariant of [`super::visit`].
//! 2. Rows are checked by the same conditions as in a scan by batches.
//! 3. Once a parent operator spills, the remaining rows of a batch are copied, and consumed after
//!    the engine call, because writing to a file may block.
//! 4. A derived table has one reader, and its query depends on no row of an enclosing query.

use super::conditions::Conditions;
use super::derived;
use super::fetch::Cursor;
use super::join::Consumer;
use super::profile::Role;
use super::pruning::{Batch, Pruning};
use super::query::{all_true, cx_of};
use super::state::States;
use super::visit::{VisitOutcome, columns_of_entries, copied_slot, visit_entries, visit_rows};
use super::{Exec, ExecError, ExecResult, ResultSink};
use crate::bind::{Derived, Origin, Source};
use crate::error::SqlError;
use crate::expr::eval::Slot;
use crate::plan::derived::streamed_query;
use crate::plan::scan::Scan;
use crate::plan::{QueryPlan, ResultColumn};
use bumpalo::Bump;
use porpoise_types::ValueRef;

/// Rows visited in one engine call; the statement can be cancelled between two calls.
const BATCH: usize = 1024;

/// The same for the first call, after which the conditions are compiled.
const FIRST_BATCH: usize = 128;

/// The same, if rows are copied.
const COPY_BATCH: usize = 256;

/// Number of rows visited in the next call.
fn batch_size(states: &States, compiled: bool) -> usize {
    if states.is_spilling() {
        COPY_BATCH
    } else if compiled {
        BATCH
    } else {
        FIRST_BATCH
    }
}

/// Passes every row that the conditions accept to the consumer.
pub(super) fn run(
    plan: &QueryPlan,
    scan: &Scan,
    exec: &mut Exec<'_>,
    consume: &mut Consumer<'_>,
) -> ExecResult<()> {
    let source = plan.sources.first();
    if let Some(Origin::Derived(derived)) = source.map(|source| &source.origin) {
        return run_derived(derived, scan, exec, consume);
    }
    let Some(table) = source.and_then(Source::table) else {
        return Err(SqlError::internal("a scan without a table").into());
    };
    let mut arena = Bump::new();
    let mut cursor = Cursor::open(table, &scan.access, &[], &cx_of(exec, &arena))?;
    let pruning = Pruning::of(scan, table, &cx_of(exec, &arena))?;
    let columns = if scan.is_covering() {
        columns_of_entries(plan, 0, table, cursor.index())
    } else {
        Vec::new()
    };
    let since = exec.begin_part();
    let states = exec.shared.states;
    let mut conditions = Conditions::new(&scan.filter);
    let (mut rows, mut compiled) = (0, false);
    loop {
        exec.check_cancelled()?;
        arena.reset();
        let cx = cx_of(exec, &arena);
        let batch = batch_size(states, compiled);
        let mut copied = Vec::new();
        let mut visit = |slot: &Slot<'_>| -> ExecResult<bool> {
            let row = std::slice::from_ref(slot);
            if !conditions.hold(row, &cx)? {
                return Ok(true);
            }
            rows += 1;
            if states.is_spilling() {
                copied.push(copied_slot(*slot, table, &arena)?);
                return Ok(true);
            }
            consume(row, &cx)
        };
        let batch = Batch {
            pruning: &pruning,
            limit: batch,
        };
        let cursor = &mut cursor;
        let progress = states.while_in_visitor(|| {
            if scan.is_covering() {
                visit_entries(table, &columns, cursor, batch, exec, &arena, &mut visit)
            } else {
                visit_rows(table, cursor, batch, exec, &mut visit)
            }
        })?;
        let mut wants_more = true;
        for slot in copied {
            wants_more = wants_more && consume(&[slot], &cx)?;
        }
        if progress != VisitOutcome::More || !wants_more {
            break;
        }
        if !std::mem::replace(&mut compiled, true) {
            conditions.compile(&[Some(table)], &cx_of(exec, &arena));
        }
    }
    exec.end_part(scan, Role::Scan, 1, rows, since);
    Ok(())
}

/// The sink of a derived table's query.
struct DerivedRows<'s, 'x, 'c> {
    scan: &'s Scan,
    /// The context of the query that reads the table.
    exec: &'s Exec<'x>,
    consume: &'s mut Consumer<'c>,
    arena: Bump,
    /// Number of rows that the conditions accept.
    rows: u64,
    /// The reason for which no more rows are taken: an error, or `None` if no more are wanted.
    ended: Option<Option<ExecError>>,
}

impl DerivedRows<'_, '_, '_> {
    /// Passes a row on. Returns whether more are wanted.
    fn take(&mut self, row: &[Slot<'_>]) -> ExecResult<bool> {
        self.arena.reset();
        let cx = cx_of(self.exec, &self.arena);
        if !all_true(&self.scan.filter, row, &cx)? {
            return Ok(true);
        }
        self.rows += 1;
        (self.consume)(row, &cx)
    }
}

impl ResultSink for DerivedRows<'_, '_, '_> {
    fn columns(&mut self, _: &[ResultColumn]) -> Result<(), SqlError> {
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        match self.take(&[Slot::Values(values)]) {
            Ok(true) => return Ok(()),
            Ok(false) => self.ended = Some(None),
            Err(error) => self.ended = Some(Some(error)),
        }
        // Ends the query; replaced by the reason.
        Err(SqlError::internal(
            "a derived table that is not read to its end",
        ))
    }
}

/// As [`run`], for a derived table.
fn run_derived(
    derived: &Derived,
    scan: &Scan,
    exec: &Exec<'_>,
    consume: &mut Consumer<'_>,
) -> ExecResult<()> {
    let since = exec.begin_part();
    let mut sink = DerivedRows {
        scan,
        exec,
        consume,
        arena: Bump::new(),
        rows: 0,
        ended: None,
    };
    let done = match streamed_query(derived).filter(|_| exec.runs_once()) {
        Some(query) => derived::stream(query, exec, &mut sink),
        None => derived::replay(derived, exec, &mut sink),
    };
    let rows = sink.rows;
    match (sink.ended, done) {
        (Some(Some(error)), _) => return Err(error),
        (Some(None), _) => {}
        (None, done) => done?,
    }
    exec.end_part(scan, Role::Scan, 1, rows, since);
    Ok(())
}
