//! MIN and MAX of a whole table, or of the rows that conditions leave, through
//! indexes.
//!
//! The least value of a column is that of the first row in the order of the
//! column that fulfils the conditions and is not NULL. So a query that asks for
//! nothing but MIN and MAX of plain columns of one table becomes one query of
//! one row for each of them, where all of them find an index in that order that
//! is worth it.
//!
//! Left out are columns whose index orders otherwise than MIN does (ENUM, SET,
//! JSON), rows to lock, and queries that read columns outside of aggregates.

use super::from::{Block, From};
use super::group_order::Purpose;
use super::join_tree::{Wanted, join_tree};
use super::physical::{Aggregate, AggregateMethod, ResultOperator, RowOperator};
use super::{OrderKey, QueryPlan};
use crate::bind::{Aggregate as AggregateCall, AggregateKind, Scope, Source};
use crate::expr::{Expr, ExprKind, Truth};
use crate::statistics::Figures;
use porpoise_types::{ColumnType, Kind};
use std::cell::OnceCell;

/// The rule: an aggregation that fits gets a query of one row for each of its calls,
/// and its input is the scan of the first.
pub(super) fn min_max_by_index(plan: &mut QueryPlan, figures: &dyn Figures) {
    let Some(lookups) = lookups(plan, figures) else {
        return;
    };
    let scan = lookups.first().and_then(|first| first.rows()?.as_scan());
    let Some((scan, aggregate)) = scan.cloned().zip(plan.aggregate_mut()) else {
        return;
    };
    *aggregate.input.below_once_mut() = RowOperator::Scan(Box::new(scan));
    aggregate.method = AggregateMethod::MinMaxByIndex(lookups);
}

/// The queries of one row; `None` where the plan is of another shape, or one of them
/// finds no index.
fn lookups(plan: &QueryPlan, figures: &dyn Figures) -> Option<Vec<QueryPlan>> {
    let aggregate = plan.rows()?.aggregate()?;
    if !fits(aggregate) {
        return None;
    }
    let [source] = plan.sources.as_slice() else {
        return None;
    };
    let conditions = conditions(aggregate)?;
    source.table()?;
    let calls = aggregate.calls.iter();
    calls
        .map(|call| lookup(source, &conditions, call, figures))
        .collect()
}

/// Whether it asks for nothing but MIN and MAX of plain columns of all rows.
fn fits(aggregate: &Aggregate) -> bool {
    let extreme = |call: &AggregateCall| {
        let extreme = matches!(call.kind, AggregateKind::Min | AggregateKind::Max);
        extreme && call.args.iter().all(orders)
    };
    aggregate.group_by.is_empty()
        && !aggregate.rollup
        && aggregate.carried.is_empty()
        && !aggregate.calls.is_empty()
        && aggregate.calls.iter().all(extreme)
}

/// A plain column that its indexes order as MIN and MAX do.
fn orders(e: &Expr) -> bool {
    let ordered = !matches!(e.ty.kind, Kind::Enum | Kind::Set | Kind::Json);
    ordered && matches!(e.kind, ExprKind::Column { .. })
}

/// The conditions of an aggregation over one table, plainly read.
fn conditions(aggregate: &Aggregate) -> Option<Vec<Expr>> {
    let scan = aggregate.input.below_once().as_scan()?;
    let conditions = || scan.implied.iter().chain(&scan.filter);
    let plain = conditions().all(|c| c.is_fixed() && !c.has_query());
    (plain && scan.lock().is_none()).then(|| conditions().cloned().collect())
}

/// The query of the row that has the value.
fn lookup(
    source: &Source,
    conditions: &[Expr],
    call: &AggregateCall,
    figures: &dyn Figures,
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
    let needed = super::needed::needed(&from, std::iter::once(column));
    let wanted = Wanted {
        order: &order,
        purpose: Purpose::Sort,
        groups: OnceCell::new(),
        limited: true,
        needed: &needed,
        figures,
    };
    let (rows, ordered) = join_tree(&from, &wanted);
    if !ordered {
        return None;
    }
    let root = ResultOperator::Project(rows);
    let mut plan = QueryPlan::new(from.scope.sources, vec![column.clone()], root);
    super::placement::settle(&mut plan);
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
