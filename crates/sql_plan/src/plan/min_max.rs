//! MIN and MAX through indexes, of a whole table or of the rows that conditions select.
//!
//! The minimum of a column is the first row, in the column's order, that is not NULL and fulfils
//! the conditions. A query of nothing but MIN and MAX of plain columns of one table becomes a
//! single-row query for each of them, if the planner chooses an index in that order for every one.
//!
//! Excluded are columns whose index order differs from that of MIN (ENUM, SET, JSON), rows to lock,
//! and queries that read columns outside of aggregates.

use super::from::{Block, From};
use super::group_order::Purpose;
use super::join_tree::{JoinRequirements, join_tree};
use super::physical::{Aggregate, AggregateMethod, ResultOperator, RowOperator};
use super::{OrderKey, QueryPlan};
use crate::bind::{Aggregate as AggregateCall, AggregateKind, Scope, Source};
use crate::expr::{Expr, ExprKind, Truth};
use crate::statistics::StatisticsSource;
use porpoise_types::{ColumnType, Kind};
use std::cell::OnceCell;

/// Rule: gives a suitable aggregation a single-row query for each of its calls. Its input becomes the
/// scan of the first of these, which EXPLAIN shows; of the input only the one-time filter is still
/// evaluated.
pub(super) fn min_max_by_index(plan: &mut QueryPlan, statistics: &dyn StatisticsSource) {
    let Some(lookups) = lookups(plan, statistics) else {
        return;
    };
    let scan = lookups.first().and_then(|first| first.rows()?.as_scan());
    let Some((scan, aggregate)) = scan.cloned().zip(plan.aggregate_mut()) else {
        return;
    };
    *aggregate.input.below_one_time_filter_mut() = RowOperator::Scan(Box::new(scan));
    aggregate.method = AggregateMethod::MinMaxByIndex(lookups);
}

/// The single-row queries; `None` if the plan is not suitable or a query has no index.
fn lookups(plan: &QueryPlan, statistics: &dyn StatisticsSource) -> Option<Vec<QueryPlan>> {
    let aggregate = plan.rows()?.aggregate()?;
    if !is_min_max_only(aggregate) {
        return None;
    }
    let [source] = plan.sources.as_slice() else {
        return None;
    };
    let conditions = conditions(aggregate)?;
    source.table()?;
    let calls = aggregate.calls.iter();
    calls
        .map(|call| lookup(source, &conditions, call, statistics))
        .collect()
}

/// Whether the aggregation has only MIN and MAX of plain columns, and no groups.
fn is_min_max_only(aggregate: &Aggregate) -> bool {
    let extreme = |call: &AggregateCall| {
        let extreme = matches!(call.kind, AggregateKind::Min | AggregateKind::Max);
        extreme && call.args.iter().all(has_index_order)
    };
    aggregate.group_by.is_empty()
        && !aggregate.rollup
        && aggregate.first_row_columns.is_empty()
        && !aggregate.calls.is_empty()
        && aggregate.calls.iter().all(extreme)
}

/// Whether it is a plain column whose indexes have the order of MIN and MAX.
pub(super) fn has_index_order(e: &Expr) -> bool {
    let ordered = !matches!(e.ty.kind, Kind::Enum | Kind::Set | Kind::Json);
    ordered && matches!(e.kind, ExprKind::Column { .. })
}

/// The conditions of an aggregation over a plain scan of one table.
fn conditions(aggregate: &Aggregate) -> Option<Vec<Expr>> {
    let scan = aggregate.input.below_one_time_filter().as_scan()?;
    let conditions = || scan.implied.iter().chain(&scan.filter);
    let plain = conditions().all(|c| c.is_fixed() && !c.has_subquery());
    (plain && scan.lock().is_none()).then(|| conditions().cloned().collect())
}

/// The query for the row that has the extreme value.
fn lookup(
    source: &Source,
    conditions: &[Expr],
    call: &AggregateCall,
    statistics: &dyn StatisticsSource,
) -> Option<QueryPlan> {
    let [column] = call.args.as_slice() else {
        return None;
    };
    let mut conditions = conditions.to_vec();
    if column.nullable {
        conditions.push(not_null(column));
    }
    let from = From {
        scope: Scope::of(source.clone()),
        block: Block {
            tables: vec![0],
            conditions,
            ..Block::default()
        },
        ..From::default()
    };
    let order = [OrderKey {
        expr: column.clone(),
        desc: call.kind == AggregateKind::Max,
    }];
    let needed = super::needed::needed_columns(&from, std::iter::once(column));
    let wanted = JoinRequirements {
        order: &order,
        purpose: Purpose::Sort,
        groups: OnceCell::new(),
        limited: true,
        needed: &needed,
        statistics,
    };
    let (rows, ordered) = join_tree(&from, &wanted);
    if !ordered {
        return None;
    }
    let root = ResultOperator::Project(rows);
    let mut plan = QueryPlan::new(from.scope.sources, vec![column.clone()], root);
    super::placement::set_placement(&mut plan);
    Some(plan)
}

fn not_null(column: &Expr) -> Expr {
    Expr {
        kind: ExprKind::Is {
            arg: Box::new(column.clone()),
            truth: Truth::Null,
            negated: true,
        },
        ty: ColumnType::bigint(),
        nullable: false,
        ..column.clone()
    }
}
