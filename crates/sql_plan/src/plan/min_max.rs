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

use super::from::From;
use super::group_order::Purpose;
use super::join_tree::{Wanted, join_tree};
use super::physical::ResultOperator;
use super::select::PlanCx;
use super::{OrderKey, QueryPlan};
use crate::bind::{Aggregate, AggregateKind};
use crate::expr::{Expr, ExprKind, Truth};
use porpoise_types::{ColumnType, Kind};
use std::cell::OnceCell;

/// A query of one row for each aggregate; none where they do not all go through
/// an index. `others` are the expressions outside of aggregates.
pub(super) fn extremes<'e>(
    from: &From,
    aggregates: &[Aggregate],
    others: impl Iterator<Item = &'e Expr>,
    cx: &PlanCx<'_>,
) -> Vec<QueryPlan> {
    let mut reads_columns = false;
    others.for_each(|e| e.columns(&mut |_, _| reads_columns = true));
    let plain = |a: &Aggregate| {
        let extreme = matches!(a.kind, AggregateKind::Min | AggregateKind::Max);
        extreme && a.args.iter().all(orders)
    };
    if reads_columns || aggregates.is_empty() || !is_simple(from) || !aggregates.iter().all(plain) {
        return Vec::new();
    }
    let found: Option<Vec<QueryPlan>> = aggregates.iter().map(|a| one(from, a, cx)).collect();
    found.unwrap_or_default()
}

/// A plain column that its indexes order as MIN and MAX do.
fn orders(e: &Expr) -> bool {
    let ordered = !matches!(e.ty.kind, Kind::Enum | Kind::Set | Kind::Json);
    ordered && matches!(e.kind, ExprKind::Column { .. })
}

/// One stored table, plainly read.
fn is_simple(from: &From) -> bool {
    let [source] = from.scope.sources.as_slice() else {
        return false;
    };
    let conditions = &from.block.conditions;
    source.table().is_some()
        && from.block.outers.is_empty()
        && from.semis.is_empty()
        && from.locked == 0
        && conditions.iter().all(|c| c.is_fixed() && !c.has_query())
}

/// The query of the row that has the value.
fn one(from: &From, aggregate: &Aggregate, cx: &PlanCx<'_>) -> Option<QueryPlan> {
    let [column] = aggregate.args.as_slice() else {
        return None;
    };
    let mut own = From {
        scope: from.scope.clone(),
        block: from.block.clone(),
        ..From::default()
    };
    if column.nullable {
        own.block.conditions.push(not_null(column));
    }
    let order = [OrderKey {
        expr: column.clone(),
        desc: aggregate.kind == AggregateKind::Max,
    }];
    let needed = super::needed::needed(&own, std::iter::once(column));
    let wanted = Wanted {
        order: &order,
        purpose: Purpose::Sort,
        groups: OnceCell::new(),
        limited: true,
        needed: &needed,
        figures: cx.figures,
    };
    let (rows, ordered) = join_tree(&own, &wanted);
    if !ordered {
        return None;
    }
    let root = ResultOperator::Project(rows);
    let mut plan = QueryPlan::new(own.scope.sources, vec![column.clone()], root);
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
