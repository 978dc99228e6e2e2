//! Executes a query's result operators.

use super::collect::{self, Order};
use super::profile::Role;
use super::{
    Exec, ExecError, ExecResult, ResultSink, found_rows, point_lookup, project, text_search,
};
use crate::error::SqlError;
use crate::expr::Expr;
use crate::expr::eval::{EvalCx, Slot, eval};
use crate::expr::logic;
use crate::plan::QueryPlan;
use crate::plan::physical::{Limit, ResultOperator};
use bumpalo::Bump;
use porpoise_types::ValueRef;

/// LIMIT and OFFSET as numbers.
#[derive(Clone, Copy)]
pub(super) struct LimitWindow {
    /// Number of rows to skip.
    pub(super) offset: u64,
    /// Maximum number of rows to send.
    pub(super) count: u64,
}

impl LimitWindow {
    /// No limit.
    pub(super) const ALL: LimitWindow = LimitWindow {
        offset: 0,
        count: u64::MAX,
    };

    /// Number of rows to compute: offset plus count.
    pub(super) fn end(self) -> u64 {
        self.offset.saturating_add(self.count)
    }

    /// Evaluates a LIMIT clause.
    pub(super) fn of(limit: &Limit, exec: &Exec<'_>) -> ExecResult<LimitWindow> {
        LimitWindow::between(&limit.offset, &limit.count, exec)
    }

    /// Rows after `offset`, up to `count` of them.
    pub(super) fn between(
        offset: &Option<Expr>,
        count: &Option<Expr>,
        exec: &Exec<'_>,
    ) -> ExecResult<LimitWindow> {
        let arena = Bump::new();
        let cx = cx_of(exec, &arena);
        let number = |e: &Option<Expr>, otherwise: u64| -> ExecResult<u64> {
            let Some(e) = e else {
                return Ok(otherwise);
            };
            match eval(e, &[], &cx)? {
                ValueRef::UInt(n) => Ok(n),
                ValueRef::Int(n) if n >= 0 => Ok(n as u64),
                _ => Err(ExecError::Error(SqlError::wrong_arguments("LIMIT"))),
            }
        };
        Ok(LimitWindow {
            offset: number(offset, 0)?,
            count: number(count, u64::MAX)?,
        })
    }
}

/// Runs the query. Returns the number of rows sent.
pub fn run(plan: &QueryPlan, exec: &mut Exec<'_>, sink: &mut dyn ResultSink) -> ExecResult<u64> {
    run_limited(plan, exec, u64::MAX, sink)
}

/// Runs the query until it has produced `most` rows.
pub(super) fn run_limited(
    plan: &QueryPlan,
    exec: &mut Exec<'_>,
    most: u64,
    sink: &mut dyn ResultSink,
) -> ExecResult<u64> {
    let arena = Bump::new();
    text_search::prepare(plan, exec, &cx_of(exec, &arena))?;
    let since = exec.begin_part();
    let window = LimitWindow {
        offset: 0,
        count: most,
    };
    let sent = send(plan, &plan.root, window, exec, sink)?;
    exec.end_part(plan, Role::Query, 1, sent, since);
    Ok(sent)
}

/// Sends the LIMIT window of an operator's rows. Returns the number sent.
pub(super) fn send(
    plan: &QueryPlan,
    operator: &ResultOperator,
    window: LimitWindow,
    exec: &mut Exec<'_>,
    sink: &mut dyn ResultSink,
) -> ExecResult<u64> {
    if window.count == 0 {
        sink.columns(&plan.columns)?;
        return Ok(0);
    }
    match operator {
        ResultOperator::PointLookup(lookup) => point_lookup::run(plan, lookup, window, exec, sink),
        ResultOperator::Project(input) => project::run(plan, input, window, exec, sink),
        ResultOperator::Collect(input) => {
            collect::run(plan, Order::default(), input, window, exec, sink)
        }
        ResultOperator::Distinct(distinct) => {
            let order = Order {
                keys: &[],
                distinct: Some(distinct.method),
            };
            collect::run(plan, order, &distinct.input, window, exec, sink)
        }
        ResultOperator::Sort(sort) | ResultOperator::TopN(sort) => {
            let order = Order {
                keys: &sort.keys,
                distinct: sort.distinct,
            };
            collect::run(plan, order, &sort.input, window, exec, sink)
        }
        ResultOperator::Limit(limit) => {
            let mut own = LimitWindow::of(limit, exec)?;
            own.count = own.count.min(window.count);
            send(plan, &limit.input, own, exec, sink)
        }
        ResultOperator::CountFoundRows(limit) => found_rows::run(plan, limit, exec, sink),
    }
}

/// Creates an evaluation context with this arena.
pub fn cx_of<'a, 'x: 'a>(exec: &Exec<'x>, arena: &'a Bump) -> EvalCx<'a> {
    EvalCx {
        arena,
        env: exec.env,
        params: exec.params,
        aggregates: &[],
        new_row: &[],
        outer: exec.outer,
        queries: Some(exec.shared),
    }
}

/// Whether all conditions are true for the row.
pub fn all_true<'a>(conditions: &'a [Expr], row: &[Slot<'a>], cx: &EvalCx<'a>) -> ExecResult<bool> {
    for condition in conditions {
        if logic::truth(condition, row, cx)? != Some(true) {
            return Ok(false);
        }
    }
    Ok(true)
}
