//! Projection of rows that are sent without buffering.

use super::query::LimitWindow;
use super::rows::{self, Demand};
use super::{Exec, ExecResult, ResultSink};
use crate::expr::Expr;
use crate::expr::eval::{EvalCx, Slot, eval};
use crate::plan::QueryPlan;
use crate::plan::physical::RowOperator;
use porpoise_types::ValueRef;
use std::cell::Cell;

/// Sends the rows of a LIMIT window. Returns their number.
pub(super) fn run(
    plan: &QueryPlan,
    input: &RowOperator,
    window: LimitWindow,
    exec: &mut Exec<'_>,
    sink: &mut dyn ResultSink,
) -> ExecResult<u64> {
    sink.columns(&plan.columns)?;
    let is_strict = sink.is_strict();
    let skip = Cell::new(window.offset);
    let mut sent = 0u64;
    let mut consume = |row: &[Slot<'_>], cx: &EvalCx<'_>| -> ExecResult<bool> {
        if skip.get() > 0 {
            skip.set(skip.get() - 1);
            return Ok(true);
        }
        let mut values: smallvec::SmallVec<[ValueRef<'_>; 16]> = smallvec::SmallVec::new();
        let strictly = is_strict.then(|| cx.env.strictly(true));
        for item in &plan.items {
            values.push(eval_short(item, row, cx)?);
        }
        drop(strictly);
        sink.row(&values)?;
        sent += 1;
        Ok(sent < window.count)
    };
    let demand = Demand {
        skip: Some(&skip),
        rows: window.end(),
        is_ordered: plan.needs_order || window.end() < u64::MAX,
    };
    rows::run(plan, input, demand, exec, &mut consume)?;
    Ok(sent)
}

/// [`eval`] with the expression's lifetime shortened to the row's.
fn eval_short<'r>(e: &'r Expr, row: &[Slot<'r>], cx: &EvalCx<'r>) -> ExecResult<ValueRef<'r>> {
    Ok(eval(e, row, cx)?)
}
