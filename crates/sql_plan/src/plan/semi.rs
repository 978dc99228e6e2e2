//! Semi-joins: `EXISTS` and `IN` over one table as joins.
//!
//! A condition of the WHERE that tests for a matching row in another table becomes a semi-join or
//! anti-join. Matches are found as in other joins: through an index for a whole batch in one call,
//! or through a hash table. If the subquery is not about one plain table, the condition stays, and
//! is evaluated for each row and cached by the values that it depends on.
//!
//! Invariants:
//! 1. A negated test becomes an anti-join only if NULL cannot make it unknown: NOT EXISTS, and NOT
//!    IN between columns that are not nullable.
//! 2. An uncorrelated subquery is not converted, because it can run once and its result be probed;
//!    except for few outer rows, if an index finds their matches. Hints overrule this.

use super::access::AccessPlanner;
use super::from::From;
use super::physical::JoinKind;
use super::{QueryPlan, plan_of};
use crate::bind::hints::Hints;
use crate::bind::nodes::compare;
use crate::bind::{MAX_TABLES, Source};
use crate::expr::query::{QueryTest, TestKind};
use crate::expr::{CmpOp, Expr, ExprKind};
use crate::statistics::StatisticsSource;

/// A table that is only tested for a matching row.
#[derive(Clone, Debug)]
pub(super) struct SemiJoin {
    /// Its slot.
    pub(super) slot: usize,
    /// Conditions of a match.
    pub(super) on: Vec<Expr>,
    /// Semi or anti.
    pub(super) kind: JoinKind,
}

/// Rule: converts conditions of the outermost block to semi-joins where that is allowed.
pub(super) fn semi_joins(from: &mut From, statistics: &dyn StatisticsSource) {
    let conditions = std::mem::take(&mut from.block.conditions);
    let mut kept: Vec<Expr> = Vec::with_capacity(conditions.len());
    let mut candidates = Vec::new();
    for condition in conditions {
        match subquery_test(&condition) {
            Some(_) => candidates.push(condition),
            None => kept.push(condition),
        }
    }
    from.block.conditions = kept;
    for condition in candidates {
        let room = from.scope.sources.len() < MAX_TABLES && from.semi_joins.len() < 32;
        let semi = match subquery_test(&condition) {
            Some((test, kind)) if room && is_worthwhile(test, from, statistics) => {
                conditions_of(test, from.scope.sources.len()).map(|on| (test, on, kind))
            }
            _ => None,
        };
        match semi {
            Some((test, on, kind)) => {
                let slot = from.scope.sources.len();
                let plan = plan_of(&test.query).ok();
                let source = plan.and_then(|plan| plan.sources.first());
                from.scope.sources.extend(source.cloned());
                from.semi_joins.push(SemiJoin { slot, on, kind });
            }
            None => from.block.conditions.push(condition),
        }
    }
}

/// The subquery test of a condition, and the kind of join that replaces it.
fn subquery_test(condition: &Expr) -> Option<(&QueryTest, JoinKind)> {
    let (test, negated) = match &condition.kind {
        ExprKind::Query(test) => (test.as_ref(), false),
        ExprKind::Not(arg) => match &arg.kind {
            ExprKind::Query(test) => (test.as_ref(), true),
            _ => return None,
        },
        _ => return None,
    };
    let never_null = || {
        let items = test.query.items().iter();
        test.left.iter().chain(items).all(|e| !e.nullable)
    };
    match (test.kind, negated) {
        (TestKind::Exists | TestKind::Any(CmpOp::Eq), false) => Some((test, JoinKind::Semi)),
        (TestKind::Exists, true) => Some((test, JoinKind::Anti)),
        (TestKind::Any(CmpOp::Eq), true) if never_null() => Some((test, JoinKind::Anti)),
        (TestKind::All(CmpOp::Ne), false) if never_null() => Some((test, JoinKind::Anti)),
        _ => None,
    }
}

/// Whether the query is over one stored table without grouping, LIMIT or subqueries.
fn is_plain(plan: &QueryPlan) -> bool {
    let ([source], Some((scan, _))) = (plan.sources.as_slice(), plan.single_scan()) else {
        return false;
    };
    let whole = plan.root.limit().is_none();
    source.table().is_some()
        && whole
        && !plan.has_subqueries
        && scan.lock().is_none()
        && plan.is_fixed()
}

fn is_worthwhile(test: &QueryTest, from: &From, statistics: &dyn StatisticsSource) -> bool {
    let Some(plan) = plan_of(&test.query).ok().filter(|plan| is_plain(plan)) else {
        return false;
    };
    let hints = plan.bound.as_deref().map(|bound| &bound.from.hints);
    match hints.and_then(|hints| from.hints.wants_semi_join(hints)) {
        Some(wanted) => return wanted,
        None if test.query.free.iter().any(|f| f.level == 1) => return true,
        None => {}
    }
    let any = Hints::default();
    // Uncorrelated: converted only if few rows are left to be tested and an index finds matches.
    let few = test.left.iter().all(|e| match &e.kind {
        ExprKind::Column { slot, .. } => {
            let table = from.scope.sources.get(*slot).and_then(Source::table);
            let narrowing: Vec<&Expr> = from.block.conditions.iter().collect();
            table.is_some_and(|t| {
                uses_key(&AccessPlanner::new(t, *slot, &narrowing, &any, statistics))
            })
        }
        _ => false,
    });
    let slot = from.scope.sources.len();
    let on = conditions_of(test, slot);
    let (Some(on), Some(table)) = (on, plan.sources.first().and_then(Source::table)) else {
        return false;
    };
    let narrowing: Vec<&Expr> = on.iter().collect();
    let mut planner = AccessPlanner::new(table, slot, &narrowing, &any, statistics);
    planner.joined = (1u64 << slot) - 1;
    few && !test.left.is_empty() && uses_key(&planner)
}

/// Whether an index finds the rows by equal values.
fn uses_key(planner: &AccessPlanner<'_>) -> bool {
    let paths = planner.paths();
    paths.iter().any(|p| p.access.keys().is_some())
}

/// The conditions of the subquery, rewritten for the outer query with the table in `slot`.
fn conditions_of(test: &QueryTest, slot: usize) -> Option<Vec<Expr>> {
    let plan = plan_of(&test.query).ok()?;
    let (scan, once) = plan.single_scan()?;
    let mut on: Vec<Expr> = {
        let all = scan.implied.iter().chain(&scan.filter);
        all.chain(once).cloned().collect()
    };
    for e in &mut on {
        rebase(e, slot);
    }
    if matches!(test.kind, TestKind::Any(_) | TestKind::All(_)) {
        for (left, item) in test.left.iter().zip(&plan.items) {
            let mut item = item.clone();
            rebase(&mut item, slot);
            on.push(compare(CmpOp::Eq, left.clone(), item).ok()?);
        }
    }
    Some(on)
}

/// Moves columns of the subquery's table to `slot`, and lowers the level of outer columns by one.
fn rebase(e: &mut Expr, slot: usize) {
    e.rewrite(&mut |e| {
        e.kind = match std::mem::replace(&mut e.kind, ExprKind::Const(porpoise_types::Value::Null))
        {
            ExprKind::Column { column, load, .. } => ExprKind::Column { slot, column, load },
            ExprKind::Outer {
                level: 1,
                slot,
                column,
                load,
            } => ExprKind::Column { slot, column, load },
            ExprKind::Outer {
                level,
                slot,
                column,
                load,
            } => ExprKind::Outer {
                level: level - 1,
                slot,
                column,
                load,
            },
            ExprKind::Enclosing(1, e) => e.kind,
            ExprKind::Enclosing(level, e) => ExprKind::Enclosing(level - 1, e),
            other => other,
        };
    });
}
