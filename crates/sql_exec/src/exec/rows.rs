//! Running row operators: every joined row is pushed to a consumer.
//!
//! Scans and joins run as a pipeline of batches ([`super::join`]); the other operators are called
//! once for each row.

use super::join::{self, Consumer};
use super::query::{all_true, cx_of};
use super::{Exec, ExecResult, aggregate, fused_scan, top_n_per_group, window};
use crate::error::SqlError;
use crate::expr::eval::{EvalCx, Slot};
use crate::plan::QueryPlan;
use crate::plan::physical::{Filter, RowOperator};
use bumpalo::Bump;
use std::cell::Cell;

/// The number of rows that a consumer wants.
#[derive(Clone, Copy)]
pub(super) struct Demand<'d> {
    /// Rows at the start that the consumer discards. An operator that can skip rows without
    /// computing them subtracts them here.
    pub(super) skip: Option<&'d Cell<u64>>,
    /// Number of rows wanted, the skipped ones included. A scan reads and locks no more at first,
    /// and continues if the consumer wants more.
    pub(super) rows: u64,
    /// Whether the rows must come in the order of the driving scan.
    pub(super) is_ordered: bool,
}

impl Demand<'_> {
    /// All rows.
    pub(super) const ALL: Demand<'static> = Demand::first(u64::MAX);

    /// All rows, in any order.
    pub(super) const UNORDERED: Demand<'static> = Demand {
        skip: None,
        rows: u64::MAX,
        is_ordered: false,
    };

    /// The first `rows` rows.
    pub(super) const fn first(rows: u64) -> Demand<'static> {
        Demand {
            skip: None,
            rows,
            is_ordered: true,
        }
    }
}

/// Pushes the rows of an operator until the consumer wants no more.
pub(super) fn run(
    plan: &QueryPlan,
    operator: &RowOperator,
    demand: Demand<'_>,
    exec: &mut Exec<'_>,
    consume: &mut Consumer<'_>,
) -> ExecResult<()> {
    match operator {
        RowOperator::SingleRow => {
            let arena = Bump::new();
            consume(&[], &cx_of(exec, &arena))?;
            Ok(())
        }
        RowOperator::Scan(_) | RowOperator::Join(_) | RowOperator::NestedJoin(_) => {
            join::run(plan, operator, demand, exec, consume)
        }
        RowOperator::FusedScan(scan) => fused_scan::run(plan, scan, exec, consume),
        RowOperator::OneTimeFilter(filter) => {
            if one_time_filter_passes(filter, exec)? {
                run(plan, &filter.input, demand, exec, consume)
            } else {
                Ok(())
            }
        }
        RowOperator::Filter(filter) => {
            let mut consume = |row: &[Slot<'_>], cx: &EvalCx<'_>| -> ExecResult<bool> {
                if all_true(&filter.conditions, row, cx)? {
                    consume(row, cx)
                } else {
                    Ok(true)
                }
            };
            let demand = Demand {
                is_ordered: demand.is_ordered,
                ..Demand::ALL
            };
            run(plan, &filter.input, demand, exec, &mut consume)
        }
        RowOperator::Aggregate(aggregate) => aggregate::run(plan, aggregate, demand, exec, consume),
        RowOperator::TopNPerGroup(operator) => top_n_per_group::run(plan, operator, exec, consume),
        RowOperator::Window(operator) => window::run(plan, operator, exec, consume),
        RowOperator::BatchInput => Err(SqlError::internal("a batch out of its join").into()),
    }
}

/// Whether the conditions that read no table are true.
fn one_time_filter_passes(filter: &Filter, exec: &Exec<'_>) -> ExecResult<bool> {
    let arena = Bump::new();
    all_true(&filter.conditions, &[], &cx_of(exec, &arena))
}

/// The operator below the conditions that read no table; `None` if one of those is not true.
pub(super) fn below_one_time_filter<'p>(
    operator: &'p RowOperator,
    exec: &Exec<'_>,
) -> ExecResult<Option<&'p RowOperator>> {
    match operator {
        RowOperator::OneTimeFilter(filter) => {
            Ok(one_time_filter_passes(filter, exec)?.then_some(&filter.input))
        }
        other => Ok(Some(other)),
    }
}
