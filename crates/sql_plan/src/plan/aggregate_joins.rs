//! Dependent aggregate subqueries as joins.
//!
//! ```text
//!  SELECT * FROM l WHERE l.q < (SELECT 0.2 * AVG(i.q) FROM i WHERE i.part = l.part)
//!
//!  SELECT l.* FROM l LEFT JOIN (SELECT i.part AS k, 0.2 * AVG(i.q) AS v FROM i GROUP BY i.part) d
//!                    ON d.k = l.part
//!  WHERE l.q < d.v
//! ```
//!
//! The subquery runs once for all rows instead of once for each value of `l.part`. The algorithm is
//! that of Kim, "On optimizing an SQL-like nested query" (1982), with the outer join of Ganski and
//! Wong (1987) for groups that are empty.
//!
//! Preconditions:
//! 1. The subquery is a scalar one with a single item, aggregates, no GROUP BY, HAVING, DISTINCT,
//!    LIMIT or locks, is deterministic, and stands in a condition of the outermost block.
//! 2. It reads columns of the enclosing query only in conjuncts of its WHERE that equate them with
//!    its own columns, and none of queries further out.
//! 3. Values that are equal in these comparisons are in one group: both sides are integers, or
//!    exact numbers, or texts compared in the collation of the group's column. So at most one group
//!    matches each row, and duplicates of the outer value do not multiply rows.
//! 4. The statement neither locks nor changes rows.
//! 5. By estimate, grouping all rows costs less than running the subquery for each outer value.
//!
//! A row without a matching group, because there is none or because its value is NULL, gets the
//! item's value over no rows: 0 for COUNT, NULL for most others.

use super::QueryPlan;
use super::access::AccessPlanner;
use super::cost;
use super::derived::materialized;
use super::finish::BoundQuery;
use super::from::{Block, From, OuterBlock};
use super::query::{columns_of, derived_source};
use super::select::Item;
use crate::bind::nodes::compare;
use crate::bind::{Aggregate, AggregateKind, MAX_TABLES, Origin, Source};
use crate::expr::query::{AGGREGATES, QueryTest, TestKind};
use crate::expr::{CmpOp, Expr, ExprKind, Load, Truth, When};
use crate::plan::plan_of;
use crate::statistics::StatisticsSource;
use porpoise_types::{CompareAs, Kind, Value};
use std::sync::Arc;

/// Assumed cost of starting a subquery, in addition to that of its rows.
const START: f64 = 50.0;

/// Assumed number of rows if the outer value is of no stored table.
const COMPUTED_ROWS: f64 = 1000.0;

/// An equality between a column of the subquery and one of the enclosing query.
struct Correlation {
    /// The subquery's side.
    inner: Expr,
    /// The other side, as an expression of the enclosing query.
    outer: Expr,
}

/// A subquery that may become a join.
struct Candidate {
    /// The subquery without the conditions that correlate it.
    query: BoundQuery,
    correlations: Vec<Correlation>,
    /// The item's value over no rows.
    empty: Expr,
}

/// Rule: dependent aggregate subqueries become joins with a grouped derived table.
pub(super) fn aggregate_joins(from: &mut From, statistics: &dyn StatisticsSource) {
    if from.locked_slots != 0 || from.change_lock.is_some() {
        return;
    }
    for at in 0..from.block.conditions.len() {
        let condition = from.block.conditions.get(at);
        let Some(mut condition) = condition
            .filter(|c| c.has_subquery() && c.is_fixed())
            .cloned()
        else {
            continue;
        };
        condition.rewrite(&mut |e| {
            if let Some(value) = joined_value(e, from, statistics) {
                *e = value;
            }
        });
        if let Some(place) = from.block.conditions.get_mut(at) {
            *place = condition;
        }
    }
}

/// Joins the derived table that replaces a subquery, and returns the expression of its value.
fn joined_value(e: &Expr, from: &mut From, statistics: &dyn StatisticsSource) -> Option<Expr> {
    let ExprKind::Query(test) = &e.kind else {
        return None;
    };
    let slot = from.scope.sources.len();
    if test.kind != TestKind::Scalar || slot >= MAX_TABLES {
        return None;
    }
    let dependent = plan_of(&test.query).ok()?;
    let candidate = candidate(test, dependent)?;
    let (empty, correlations) = (candidate.empty, &candidate.correlations);
    let plan = grouped(candidate.query, correlations).plan_nested(statistics);
    if !is_cheaper(dependent, &plan, correlations, from, statistics) {
        return None;
    }
    let columns = columns_of(&plan);
    let on: Option<Vec<Expr>> = correlations
        .iter()
        .zip(&columns)
        .enumerate()
        .map(|(at, (c, column))| {
            let key = column_of(slot, at, &column.ty);
            compare(CmpOp::Eq, key, c.outer.clone()).ok()
        })
        .collect();
    let on = on?;
    let value = column_of(slot, correlations.len(), &columns.last()?.ty);
    let matched = column_of(slot, 0, &columns.first()?.ty);
    let rows = Arc::new(materialized(plan, columns, Vec::new()));
    let source = derived_source(rows, format!("derived_{}", slot + 1));
    from.scope.sources.push(source);
    from.block.outers.push(OuterBlock {
        block: Block {
            tables: vec![slot],
            ..Block::default()
        },
        on,
    });
    // The value of a missing row is NULL.
    let kind = if is_null_of_nulls(&empty) {
        value.kind
    } else {
        ExprKind::Case {
            whens: vec![When {
                condition: is_null(matched),
                result: empty,
            }],
            otherwise: Some(Box::new(value)),
        }
    };
    Some(Expr { kind, ..e.clone() })
}

fn column_of(slot: usize, column: usize, ty: &porpoise_types::ColumnType) -> Expr {
    Expr {
        kind: ExprKind::Column {
            slot,
            column,
            load: Load::Plain,
        },
        ty: ty.clone(),
        nullable: true,
        coercibility: crate::expr::Coercibility::Implicit,
    }
}

fn is_null(arg: Expr) -> Expr {
    let kind = ExprKind::Is {
        arg: Box::new(arg),
        truth: Truth::Null,
        negated: false,
    };
    Expr::boolean(kind, false)
}

/// Checks preconditions 1 to 3.
fn candidate(test: &QueryTest, plan: &QueryPlan) -> Option<Candidate> {
    let bound = plan.bound.as_deref()?;
    let [item] = bound.items.as_slice() else {
        return None;
    };
    let plain = bound.group_by.is_empty()
        && !bound.rollup
        && !bound.aggregates.list.is_empty()
        && !bound.windowed
        && bound.having.is_empty()
        && !bound.distinct
        && bound.count.is_none()
        && bound.offset.is_none()
        && !bound.locks()
        && !bound.from.block.tables.is_empty();
    let free = &test.query.free;
    let near = |f: &crate::expr::query::FreeRef| f.level == 1 && f.slot != AGGREGATES;
    if !plain || !test.query.is_deterministic || free.is_empty() || !free.iter().all(near) {
        return None;
    }
    let empty = value_of_no_rows(&item.expr, &bound.aggregates.list)?;
    let mut query = bound.clone();
    query.order_by.clear();
    let mut correlations = Vec::new();
    query.from.block.conditions.retain(|condition| {
        let found = correlation(condition);
        let kept = found.is_none();
        correlations.extend(found);
        kept
    });
    let ready = !correlations.is_empty() && !reads_outer(&query);
    ready.then_some(Candidate {
        query,
        correlations,
        empty,
    })
}

/// The sides of a condition that equates a value of the subquery with one of the enclosing query.
fn correlation(condition: &Expr) -> Option<Correlation> {
    let ExprKind::Compare(CmpOp::Eq, how, args) = &condition.kind else {
        return None;
    };
    let [a, b] = args.as_ref();
    let of = |inner: &Expr, outer: &Expr| {
        let fits = inner.slots() != 0
            && !has_outer(inner)
            && is_outer_value(outer)
            && groups_as_compared(inner, *how);
        fits.then(|| Correlation {
            inner: inner.clone(),
            outer: to_enclosing(outer),
        })
    };
    of(a, b).or_else(|| of(b, a))
}

/// Whether values that differ as group keys differ in the comparison, too.
fn groups_as_compared(key: &Expr, how: CompareAs) -> bool {
    let plain = !key.has_subquery() && key.is_fixed();
    plain
        && match how {
            CompareAs::Int | CompareAs::Number => key.ty.is_integer(),
            CompareAs::Decimal => key.ty.is_integer() || key.ty.kind == Kind::Decimal,
            CompareAs::Bytes(collation) => key.ty.is_string() && key.ty.collation == collation,
            _ => false,
        }
}

/// Whether an expression of the subquery reads columns of the enclosing query and no others.
fn is_outer_value(e: &Expr) -> bool {
    has_outer(e) && e.slots() == 0 && !e.has_subquery() && e.is_fixed()
}

fn has_outer(e: &Expr) -> bool {
    let mut found = false;
    e.walk(&mut |e| match &e.kind {
        ExprKind::Outer { .. } | ExprKind::Enclosing(..) => found = true,
        ExprKind::Query(test) => found |= test.query.free.iter().any(|f| f.level > 1),
        _ => {}
    });
    found
}

/// Whether anything in a query reads columns of enclosing queries.
fn reads_outer(query: &BoundQuery) -> bool {
    fn block_reads(block: &Block) -> bool {
        let outers = &block.outers;
        block.conditions.iter().any(has_outer)
            || outers
                .iter()
                .any(|o| o.on.iter().any(has_outer) || block_reads(&o.block))
    }
    let derived = |source: &Source| match &source.origin {
        Origin::Derived(derived) => derived.free.iter().any(|f| f.level > 1),
        _ => false,
    };
    let mut items = query.items.iter().map(|item| &item.expr);
    items.any(has_outer)
        || query.aggregates.expressions().any(has_outer)
        || block_reads(&query.from.block)
        || query.from.scope.sources.iter().any(derived)
}

/// Rewrites an expression of the subquery over outer columns for the enclosing query.
fn to_enclosing(e: &Expr) -> Expr {
    let mut e = e.clone();
    e.rewrite(&mut |e| {
        if let ExprKind::Outer {
            slot, column, load, ..
        } = e.kind
        {
            e.kind = ExprKind::Column { slot, column, load };
        }
    });
    e
}

/// The value of the item over no rows; `None` if it reads more than aggregates.
fn value_of_no_rows(item: &Expr, calls: &[Aggregate]) -> Option<Expr> {
    let mut known = item.slots() == 0 && !item.has_subquery();
    let mut empty = item.clone();
    empty.rewrite(&mut |e| match &e.kind {
        ExprKind::Aggregate(at) => match calls.get(*at) {
            Some(call) => e.kind = ExprKind::Const(empty_value(call.kind)),
            None => known = false,
        },
        ExprKind::Window(_) | ExprKind::Grouping(_) => known = false,
        _ => {}
    });
    known.then_some(empty)
}

/// Whether it is NULL because an operand of arithmetic is.
fn is_null_of_nulls(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Const(value) => value.is_null(),
        ExprKind::Arith(_, args) => args.iter().any(is_null_of_nulls),
        ExprKind::Negate(arg) | ExprKind::Cast(arg) => is_null_of_nulls(arg),
        _ => false,
    }
}

/// The result of an aggregate over no rows.
fn empty_value(kind: AggregateKind) -> Value {
    match kind {
        AggregateKind::CountRows | AggregateKind::Count => Value::Int(0),
        AggregateKind::BitAnd => Value::UInt(u64::MAX),
        AggregateKind::BitOr | AggregateKind::BitXor => Value::UInt(0),
        _ => Value::Null,
    }
}

/// The subquery grouped by its sides of the correlations, which precede its item.
fn grouped(mut query: BoundQuery, correlations: &[Correlation]) -> BoundQuery {
    let keys = correlations.iter().enumerate().map(|(at, c)| Item {
        expr: c.inner.clone(),
        name: format!("key_{}", at + 1),
    });
    let value = std::mem::take(&mut query.items);
    query.items = keys.collect();
    let value = value.into_iter().map(|item| Item {
        name: "value".to_owned(),
        ..item
    });
    query.items.extend(value);
    query.group_by = correlations.iter().map(|c| c.inner.clone()).collect();
    query
}

/// Precondition 5: the costs of the subquery for each outer value, and of its groups.
fn is_cheaper(
    dependent: &QueryPlan,
    grouped: &QueryPlan,
    correlations: &[Correlation],
    from: &From,
    statistics: &dyn StatisticsSource,
) -> bool {
    let values = outer_values(correlations, from, statistics);
    let (each, _) = cost_of(dependent);
    let (all, rows) = cost_of(grouped);
    let once = all + rows * (cost::GROUP + cost::BUILD) + values * cost::PROBE;
    once < values * (each + START)
}

/// Estimated cost and number of rows of a query's joins.
fn cost_of(plan: &QueryPlan) -> (f64, f64) {
    let mut last = (0.0, 1.0);
    plan.scans(&mut |scan| last = (scan.estimate.cost, scan.estimate.join_rows));
    last
}

/// Estimated number of rows of the enclosing query's tables for which the subquery is run.
fn outer_values(
    correlations: &[Correlation],
    from: &From,
    statistics: &dyn StatisticsSource,
) -> f64 {
    let slots = correlations.iter().fold(0, |all, c| all | c.outer.slots());
    let conditions = from.block.conditions.iter();
    let conditions: Vec<&Expr> = conditions.filter(|c| !c.has_subquery()).collect();
    let sources = from.scope.sources.iter().enumerate();
    let named = sources.filter(|(slot, _)| slots & 1u64 << (slot & 63) != 0);
    let rows = named.map(|(slot, source)| match source.table() {
        Some(table) => {
            let planner = AccessPlanner::new(table, slot, &conditions, &source.hints, statistics);
            planner.output_rows()
        }
        None => COMPUTED_ROWS,
    });
    rows.product()
}
