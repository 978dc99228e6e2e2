//! Semi-joins: `EXISTS` and `IN` over one table as a part of the join.
//!
//! A condition of the WHERE that asks whether another table has a row that
//! goes with this one becomes a join that reads nothing into the result. Its
//! rows are looked for as those of other joins are: for a whole batch in one
//! call where an index leads to them, else through a hash table. Where the
//! question is not about one plain table, the condition stays, and is
//! answered row by row, once for each set of values that it depends on.
//!
//! Invariants:
//! 1. A negated question becomes an anti-join only where NULL cannot make it
//!    unknown: NOT EXISTS, and NOT IN between columns that are never NULL.
//! 2. A subquery that depends on nothing here is not converted where it can
//!    be run once and asked often, unless an index answers for the few rows
//!    that are left.

use super::access::AccessPlanner;
use super::from::From;
use super::physical::JoinKind;
use super::{QueryPlan, plan_of};
use crate::bind::hints::Hints;
use crate::bind::nodes::compare;
use crate::bind::{MAX_TABLES, Source};
use crate::expr::query::{QueryTest, TestKind};
use crate::expr::{CmpOp, Expr, ExprKind};
use crate::statistics::Figures;

/// A table of which only the existence of a matching row is asked.
#[derive(Clone, Debug)]
pub(super) struct SemiJoin {
    /// Its slot.
    pub(super) slot: usize,
    /// Conditions that a match fulfils.
    pub(super) on: Vec<Expr>,
    /// Semi or anti.
    pub(super) kind: JoinKind,
}

/// The rule: conditions of the outermost block become semi-joins where they allow.
pub(super) fn semi_joins(from: &mut From, figures: &dyn Figures) {
    let conditions = std::mem::take(&mut from.block.conditions);
    let mut kept: Vec<Expr> = Vec::with_capacity(conditions.len());
    let mut candidates = Vec::new();
    for condition in conditions {
        match question(&condition) {
            Some(_) => candidates.push(condition),
            None => kept.push(condition),
        }
    }
    from.block.conditions = kept;
    for condition in candidates {
        let room = from.scope.sources.len() < MAX_TABLES && from.semis.len() < 32;
        let semi = match question(&condition) {
            Some((test, kind)) if room && worthwhile(test, from, figures) => {
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
                from.semis.push(SemiJoin { slot, on, kind });
            }
            None => from.block.conditions.push(condition),
        }
    }
}

/// The question of a condition, and the join that answers it.
fn question(condition: &Expr) -> Option<(&QueryTest, JoinKind)> {
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

/// One stored table, no grouping, no limit, no subqueries of its own.
fn plain(plan: &QueryPlan) -> bool {
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

fn worthwhile(test: &QueryTest, from: &From, figures: &dyn Figures) -> bool {
    let Some(plan) = plan_of(&test.query).ok().filter(|plan| plain(plan)) else {
        return false;
    };
    if test.query.free.iter().any(|f| f.level == 1) {
        return true;
    }
    let any = Hints::default();
    // It depends on nothing here: only where few rows are left to ask about,
    // and an index answers.
    let few = test.left.iter().all(|e| match &e.kind {
        ExprKind::Column { slot, .. } => {
            let table = from.scope.sources.get(*slot).and_then(Source::table);
            let narrowing: Vec<&Expr> = from.block.conditions.iter().collect();
            table.is_some_and(|t| by_key(&AccessPlanner::new(t, *slot, &narrowing, &any, figures)))
        }
        _ => false,
    });
    let slot = from.scope.sources.len();
    let on = conditions_of(test, slot);
    let (Some(on), Some(table)) = (on, plan.sources.first().and_then(Source::table)) else {
        return false;
    };
    let narrowing: Vec<&Expr> = on.iter().collect();
    let mut planner = AccessPlanner::new(table, slot, &narrowing, &any, figures);
    planner.joined = (1u64 << slot) - 1;
    few && !test.left.is_empty() && by_key(&planner)
}

/// Whether an index leads to the rows by equal values.
fn by_key(planner: &AccessPlanner<'_>) -> bool {
    let paths = planner.paths();
    paths.iter().any(|p| p.access.keys().is_some())
}

/// The conditions of the subquery in terms of this query, its table in
/// `slot`.
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

/// Columns of the subquery's table move to `slot`, those of this query come
/// one level nearer.
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
            other => other,
        };
    });
}
