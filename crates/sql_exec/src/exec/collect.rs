//! Results that are buffered before they are sent: for a restart, for DISTINCT, or for a sort.

use super::profile::Role;
use super::query::LimitWindow;
use super::rows::{self, Demand};
use super::sort_buffer::SortBuffer;
use super::{Exec, ExecResult, ResultSink};
use crate::expr::eval::{EvalCx, Slot};
use crate::plan::physical::{DistinctMethod, RowOperator};
use crate::plan::{OrderKey, QueryPlan};

/// Sort order and DISTINCT method of buffered rows.
#[derive(Clone, Copy, Default)]
pub(super) struct Order<'p> {
    /// ORDER BY.
    pub(super) keys: &'p [OrderKey],
    /// DISTINCT.
    pub(super) distinct: Option<DistinctMethod>,
}

/// Buffers the rows and sends the LIMIT window of them. Returns the number of rows sent.
pub(super) fn run(
    plan: &QueryPlan,
    order: Order<'_>,
    input: &RowOperator,
    window: LimitWindow,
    exec: &mut Exec<'_>,
    sink: &mut dyn ResultSink,
) -> ExecResult<u64> {
    let mut buffer = SortBuffer::new(plan, order, window);
    let states = exec.shared.states;
    let enough = if order.keys.is_empty() {
        window.end()
    } else {
        u64::MAX
    };
    let mut consume = |row: &[Slot<'_>], cx: &EvalCx<'_>| -> ExecResult<bool> {
        buffer.offer(row, cx, states)?;
        if buffer.is_over() && states.may_spill() {
            buffer.spill(states)?;
        }
        Ok(buffer.len() < enough)
    };
    // DISTINCT may need more groups than rows are wanted; a scan continues when rows are dropped.
    let exact = order.distinct.is_none() || input.aggregate().is_none();
    // DISTINCT shows the first of equal rows.
    let demand = if !order.keys.is_empty() && order.distinct.is_none() {
        Demand::UNORDERED
    } else if exact {
        Demand::first(enough)
    } else {
        Demand::ALL
    };
    let since = exec.begin_part();
    rows::run(plan, input, demand, exec, &mut consume)?;
    buffer.finish(states)?;
    exec.note_spilled(plan, Role::Sort, buffer.spilled());
    let sent = buffer.send(sink, window, states)?;
    exec.end_part(plan, Role::Sort, 1, sent, since);
    Ok(sent)
}
