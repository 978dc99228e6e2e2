//! Derived condition pushdown: conditions on a derived table's columns become conditions of its
//! query (manual, "Derived Condition Pushdown Optimization").
//!
//! ```text
//!  SELECT * FROM (SELECT a, b, SUM(c) AS s FROM t GROUP BY a, b) d WHERE a > 5 AND s < 9
//!
//!  SELECT * FROM (SELECT a, b, SUM(c) AS s FROM t WHERE a > 5 GROUP BY a, b HAVING SUM(c) < 9) d
//! ```
//!
//! The place depends on what the columns of the condition are in the query:
//!
//! | columns | place |
//! |---|---|
//! | of a query without groups and windows | WHERE |
//! | grouping keys | WHERE, below GROUP BY |
//! | other columns of a query with groups | HAVING |
//! | in PARTITION BY of all windows | WHERE, below the windows |
//! | of a set operation | each operand, by the same rules |
//!
//! Derived tables, common table expressions and views are treated alike. The query is planned again
//! with the conditions, so the rule applies to derived tables in it, too.
//!
//! Preconditions:
//! 1. The condition reads only columns of the derived table, contains no subquery and no column of
//!    an enclosing query, and is deterministic, as is the derived table.
//! 2. It is in the WHERE and the table in no outer join, or it is in the ON whose right side the
//!    table is.
//! 3. No hint forbids it. The query has no LIMIT, and locks no rows. A common table expression is
//!    named once in the FROM clause.
//! 4. Where equal rows are merged (DISTINCT, GROUP BY, PARTITION BY, set operations), the condition
//!    has one result for all values that are equal there: texts are only compared in their own
//!    collation.

use super::QueryPlan;
use super::derived::{Derived, References, SetOperation, SetTerm, TableOperator, operator_of};
use super::finish::BoundQuery;
use super::from::{Block, From};
use super::grouping::is_same_expr;
use super::query::{convert_item, converted};
use crate::bind::{Origin, Source};
use crate::expr::{Expr, ExprKind, Truth};
use crate::parse::ast::SetOp;
use crate::statistics::StatisticsSource;
use porpoise_types::{CompareAs, Kind};
use std::sync::Arc;

/// Rule: conditions on columns of derived tables move into them.
pub(super) fn derived_pushdown(from: &mut From, statistics: &dyn StatisticsSource) {
    for slot in 0..from.scope.sources.len() {
        let allowed = from.hints.allows_pushdown(slot);
        let source = from.scope.sources.get(slot).filter(|_| allowed);
        let Some(derived) = source.and_then(unshared(from)) else {
            continue;
        };
        let mut moved = Vec::new();
        let mut conditions = lists_of(&mut from.block, slot);
        for list in &mut conditions {
            list.retain(|condition| {
                let moves = is_about(condition, slot) && accepts(&derived, condition);
                if moves {
                    moved.push(condition.clone());
                }
                !moves
            });
        }
        if moved.is_empty() {
            continue;
        }
        let narrowed = narrowed(&derived, &moved, statistics);
        if let Some(source) = from.scope.sources.get_mut(slot) {
            source.origin = Origin::Derived(Arc::new(narrowed));
        }
    }
}

/// The derived table of a source, if no other source of the clause shares it.
fn unshared(from: &From) -> impl Fn(&Source) -> Option<Arc<Derived>> {
    let of = |source: &Source| match &source.origin {
        Origin::Derived(derived) => Some(derived.clone()),
        _ => None,
    };
    let all: Vec<Arc<Derived>> = from.scope.sources.iter().filter_map(of).collect();
    move |source| {
        let derived = of(source)?;
        let same = all.iter().filter(|other| Arc::ptr_eq(other, &derived));
        (same.count() == 1 && operator_of(&derived).is_fixed()).then_some(derived)
    }
}

/// The lists of conditions that decide which rows of a table are joined: those of its block, and of
/// the ON whose right side it is.
fn lists_of(block: &mut Block, slot: usize) -> Vec<&mut Vec<Expr>> {
    if block.tables.contains(&slot) {
        return vec![&mut block.conditions];
    }
    for outer in &mut block.outers {
        if outer.block.tables.contains(&slot) {
            return vec![&mut outer.on, &mut outer.block.conditions];
        }
        let found = lists_of(&mut outer.block, slot);
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

/// Precondition 1, without the derived table's part.
fn is_about(condition: &Expr, slot: usize) -> bool {
    let mut plain = condition.slots() == 1u64 << (slot & 63) && condition.is_fixed();
    condition.walk(&mut |e| {
        plain &= !matches!(
            e.kind,
            ExprKind::Query(_) | ExprKind::Outer { .. } | ExprKind::Enclosing(..)
        );
    });
    plain
}

/// Whether a condition can move into a derived table.
fn accepts(derived: &Derived, condition: &Expr) -> bool {
    match operator_of(derived) {
        TableOperator::Materialize(plan) => place_in(plan, condition, false).is_some(),
        TableOperator::Set(set) => {
            let merged = merges(set);
            let operands = std::iter::once(&set.first).chain(set.rest.iter().map(|t| &t.plan));
            let mut places = operands.map(|plan| place_in(plan, condition, merged));
            places.all(|place| place.is_some())
        }
        _ => false,
    }
}

/// Whether a set operation merges equal rows: any but UNION ALL.
fn merges(set: &SetOperation) -> bool {
    set.rest
        .iter()
        .any(|term| !term.all || term.op != SetOp::Union)
}

/// The clause of a query that a condition becomes part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Where,
    Having,
}

/// The place of a condition in a query, whose equal rows are merged if `merged`.
fn place_in(plan: &QueryPlan, condition: &Expr, merged: bool) -> Option<Place> {
    let bound = plan.bound.as_deref()?;
    if bound.count.is_some() || bound.offset.is_some() || bound.locks() {
        return None;
    }
    if (merged || bound.distinct) && !keeps_equals_together(condition) {
        return None;
    }
    let mut columns = Vec::new();
    condition.columns(&mut |_, column| columns.push(column));
    let items: Option<Vec<&Expr>> = columns
        .iter()
        .map(|at| bound.items.get(*at).map(|item| &item.expr))
        .collect();
    let items = items?;
    if items.iter().any(|e| e.has_subquery() || e.has_window()) {
        return None;
    }
    let among = |keys: &[Expr]| {
        let mut items = items.iter();
        items.all(|item| keys.iter().any(|key| is_same_expr(key, item)))
    };
    let together = || keeps_equals_together(condition);
    let windows = &bound.aggregates.windows.windows;
    if bound.windowed && !(windows.iter().all(|w| among(&w.partition)) && together()) {
        return None;
    }
    if !bound.grouped {
        return Some(Place::Where);
    }
    let by_key = !bound.group_by.is_empty() && !bound.rollup && among(&bound.group_by);
    if by_key && together() {
        Some(Place::Where)
    } else {
        // HAVING is below the windows, too.
        Some(Place::Having)
    }
}

/// Precondition 4: whether the condition has one result for values that are equal as group keys.
fn keeps_equals_together(condition: &Expr) -> bool {
    let exact = |e: &Expr| e.ty.is_integer() || !may_differ(e);
    let compared = |e: &Expr, how: CompareAs| match (&e.kind, how) {
        (ExprKind::Column { .. }, CompareAs::Bytes(collation)) => {
            exact(e) || (e.ty.is_string() && e.ty.collation == collation)
        }
        (ExprKind::Column { .. }, CompareAs::Double) => {
            exact(e) || matches!(e.ty.kind, Kind::Float | Kind::Double)
        }
        _ => keeps_equals_together(e),
    };
    match &condition.kind {
        ExprKind::Column { .. } => exact(condition),
        ExprKind::Compare(_, how, args) => args.iter().all(|e| compared(e, *how)),
        ExprKind::In { arg, list, .. } => list
            .iter()
            .all(|(how, item)| compared(arg, *how) && compared(item, *how)),
        ExprKind::Between { args, how, .. } => {
            let ([arg, low, high], [by_low, by_high]) = (args.as_ref(), how);
            compared(arg, *by_low)
                && compared(low, *by_low)
                && compared(arg, *by_high)
                && compared(high, *by_high)
        }
        ExprKind::Is {
            arg,
            truth: Truth::Null,
            ..
        } if matches!(arg.kind, ExprKind::Column { .. }) => true,
        _ => {
            let mut all = true;
            condition.each_child(&mut |child| all &= keeps_equals_together(child));
            all
        }
    }
}

/// Whether values of this type can be equal and differ: texts, zeros of both signs, documents.
fn may_differ(e: &Expr) -> bool {
    e.ty.is_string()
        || matches!(
            e.ty.kind,
            Kind::Float | Kind::Double | Kind::Json | Kind::Enum | Kind::Set
        )
}

/// The derived table with more conditions.
fn narrowed(derived: &Derived, moved: &[Expr], statistics: &dyn StatisticsSource) -> Derived {
    let of = |plan: &QueryPlan, merged: bool| narrowed_query(plan, moved, merged, statistics);
    let rows = match operator_of(derived) {
        TableOperator::Set(set) => {
            let rest = set.rest.iter().map(|term| SetTerm {
                op: term.op,
                all: term.all,
                plan: of(&term.plan, merges(set)),
            });
            TableOperator::Set(Box::new(SetOperation {
                first: of(&set.first, merges(set)),
                rest: rest.collect(),
            }))
        }
        TableOperator::Materialize(plan) => TableOperator::Materialize(Box::new(of(plan, false))),
        // `accepts` admits no others.
        _ => TableOperator::Values(Vec::new()),
    };
    Derived {
        rows: Box::new(rows),
        columns: derived.columns.clone(),
        free: derived.free.clone(),
        references: References::default(),
    }
}

/// Plans a query again with more conditions on its columns.
fn narrowed_query(
    plan: &QueryPlan,
    moved: &[Expr],
    merged: bool,
    statistics: &dyn StatisticsSource,
) -> QueryPlan {
    let Some(kept) = plan.bound.as_deref() else {
        return plan.clone();
    };
    let mut bound: BoundQuery = kept.clone();
    for condition in moved {
        let mut own = condition.clone();
        own.rewrite(&mut |e| {
            if let ExprKind::Column { column, .. } = e.kind
                && let Some(item) = kept.items.get(column)
            {
                // An operand of a set operation yields values of the type of the whole.
                let value = item.expr.clone();
                *e = match plan.items.get(column) {
                    Some(shown) if shown.ty != value.ty => converted(value, &shown.ty),
                    _ => value,
                };
            }
        });
        match place_in(plan, condition, merged) {
            Some(Place::Where) => {
                super::from::split_conjuncts(own, &mut bound.from.block.conditions)
            }
            _ => bound.having.push(own),
        }
    }
    let again = Arc::new(bound.clone());
    let mut narrowed = bound.plan_nested(statistics);
    for (at, item) in plan.items.iter().enumerate() {
        convert_item(&mut narrowed, at, &item.ty, item.nullable);
    }
    narrowed.columns.clone_from(&plan.columns);
    narrowed.bound = Some(again);
    narrowed
}
