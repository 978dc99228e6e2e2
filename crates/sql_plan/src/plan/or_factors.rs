//! Conditions derived from disjunctions: their common factors, and what they imply for one table.
//!
//! `(p = q AND a) OR (p = q AND b)` hides the equality that a join or an index needs. Two rules
//! bring such conditions to the top level, where the search for the join order sees them:
//!
//! - [`or_factors`] replaces `(A AND B) OR (A AND C)` by `A AND (B OR C)`, and `A OR (A AND B)` by
//!   `A`. Both hold in the three-valued logic, so also below NOT EXISTS or in an ON condition.
//! - [`or_parts_of_tables`] adds `t.a = 1 OR t.a = 2` for `(t.a = 1 AND u.b = 2) OR (t.a = 2 AND u.b
//!   = 1)`, so that rows of `t` are filtered before they are joined (TPC-H Q7). The condition
//!   itself stays.
//!
//! Invariant: neither rule changes a condition that is not deterministic or contains a subquery.

use super::from::{Block, From};
use crate::bind::nodes::conjunction;
use crate::expr::{Expr, ExprKind};
use crate::statistics::StatisticsSource;
use porpoise_base::interrupt;

/// Rule: common factors of disjunctions become conditions of their own.
pub(super) fn or_factors(from: &mut From, _: &dyn StatisticsSource) {
    each_list(&mut from.block, &|conditions| {
        if !conditions.iter().any(is_disjunction) {
            return;
        }
        for condition in std::mem::take(conditions) {
            match factored(&condition) {
                Some(parts) => conditions.extend(parts),
                None => conditions.push(condition),
            }
        }
    });
}

/// Rule: what a disjunction over several tables implies for one of them becomes a further
/// condition.
pub(super) fn or_parts_of_tables(from: &mut From, _: &dyn StatisticsSource) {
    each_list(&mut from.block, &|conditions| {
        let parts = conditions.iter().flat_map(parts_of_tables);
        let parts: Vec<Expr> = parts.collect();
        conditions.extend(parts);
    });
}

/// Applies a change to all lists of conditions of a block and of the outer joins in it.
fn each_list(block: &mut Block, change: &impl Fn(&mut Vec<Expr>)) {
    change(&mut block.conditions);
    for outer in &mut block.outers {
        change(&mut outer.on);
        each_list(&mut outer.block, change);
    }
}

fn is_disjunction(condition: &Expr) -> bool {
    matches!(condition.kind, ExprKind::Or(_))
}

/// The disjuncts, nested ones included; none if the rules do not apply to the condition.
fn arms_of(condition: &Expr) -> Vec<&Expr> {
    fn collect<'e>(arms: &'e [Expr], out: &mut Vec<&'e Expr>) {
        for arm in arms {
            match &arm.kind {
                ExprKind::Or(inner) => collect(inner, out),
                _ => out.push(arm),
            }
        }
    }
    let mut out = Vec::new();
    if let ExprKind::Or(arms) = &condition.kind {
        collect(arms, &mut out);
    }
    out
}

/// The conjuncts, nested ones included.
fn conjuncts<'e>(e: &'e Expr, out: &mut Vec<&'e Expr>) {
    match &e.kind {
        ExprKind::And(parts) => parts.iter().for_each(|part| conjuncts(part, out)),
        _ => out.push(e),
    }
}

fn conjuncts_of(e: &Expr) -> Vec<&Expr> {
    let mut out = Vec::new();
    conjuncts(e, &mut out);
    out
}

fn disjunction(arms: Vec<Expr>) -> Expr {
    let nullable = arms.iter().any(|arm| arm.nullable);
    Expr::boolean(ExprKind::Or(arms), nullable)
}

/// Whether the rules may change a condition.
fn may_change(condition: &Expr) -> bool {
    condition.is_fixed() && !condition.has_subquery()
}

/// The common factors of a disjunction and what is left of it, if it has any.
fn factored(condition: &Expr) -> Option<Vec<Expr>> {
    let arms = arms_of(condition);
    let (first, rest) = arms.split_first()?;
    let mut common = conjuncts_of(first);
    for arm in rest {
        let own = conjuncts_of(arm);
        common.retain(|factor| own.iter().any(|part| same(factor, part)));
        if common.is_empty() || interrupt::leaves() {
            return None;
        }
    }
    if !may_change(condition) {
        return None;
    }
    let mut parts: Vec<Expr> = common.iter().copied().cloned().collect();
    let mut left = Vec::with_capacity(arms.len());
    for arm in arms {
        let own = conjuncts_of(arm).into_iter();
        let other = own.filter(|part| !common.iter().any(|factor| same(factor, part)));
        let other: Vec<Expr> = other.cloned().collect();
        if other.is_empty() {
            return Some(parts);
        }
        left.push(conjunction(other));
    }
    parts.push(disjunction(left));
    Some(parts)
}

/// For each table, the disjunction of the conjuncts that read only this table; only for tables of
/// which every disjunct has one.
fn parts_of_tables(condition: &Expr) -> Vec<Expr> {
    let arms = arms_of(condition);
    let slots = if arms.is_empty() {
        0
    } else {
        condition.slots()
    };
    if slots.count_ones() < 2 || !may_change(condition) {
        return Vec::new();
    }
    let tables = (0..u64::BITS).map(|slot| 1u64 << slot);
    let tables = tables.filter(|bit| slots & bit != 0);
    tables.filter_map(|bit| part_of_table(&arms, bit)).collect()
}

fn part_of_table(arms: &[&Expr], bit: u64) -> Option<Expr> {
    let mut parts = Vec::with_capacity(arms.len());
    for arm in arms {
        let own = conjuncts_of(arm).into_iter();
        let own: Vec<Expr> = own.filter(|part| part.slots() == bit).cloned().collect();
        if own.is_empty() || interrupt::leaves() {
            return None;
        }
        parts.push(conjunction(own));
    }
    Some(disjunction(parts))
}

/// Whether two expressions are the same, node by node. Kinds that are not listed count as
/// different.
fn same(a: &Expr, b: &Expr) -> bool {
    let alike = match (&a.kind, &b.kind) {
        (ExprKind::Const(a), ExprKind::Const(b)) => a == b,
        (ExprKind::Param(a), ExprKind::Param(b)) => a == b,
        (
            ExprKind::Column {
                slot,
                column,
                load: _,
            },
            ExprKind::Column {
                slot: s, column: c, ..
            },
        ) => (slot, column) == (s, c),
        (
            ExprKind::Outer {
                level,
                slot,
                column,
                load: _,
            },
            ExprKind::Outer {
                level: l,
                slot: s,
                column: c,
                ..
            },
        ) => (level, slot, column) == (l, s, c),
        (ExprKind::Compare(op, how, _), ExprKind::Compare(o, h, _)) => (op, how) == (o, h),
        (ExprKind::Arith(op, _), ExprKind::Arith(o, _)) => op == o,
        (ExprKind::And(_), ExprKind::And(_))
        | (ExprKind::Or(_), ExprKind::Or(_))
        | (ExprKind::Not(_), ExprKind::Not(_)) => true,
        (
            ExprKind::Is { truth, negated, .. },
            ExprKind::Is {
                truth: t,
                negated: n,
                ..
            },
        ) => (truth, negated) == (t, n),
        (
            ExprKind::Between { how, negated, .. },
            ExprKind::Between {
                how: h, negated: n, ..
            },
        ) => (how, negated) == (h, n),
        (
            ExprKind::In { list, negated, .. },
            ExprKind::In {
                list: l,
                negated: n,
                ..
            },
        ) => negated == n && list.iter().map(|i| i.0).eq(l.iter().map(|i| i.0)),
        _ => false,
    };
    alike && a.ty == b.ty && {
        let (mut own, mut others) = (Vec::new(), Vec::new());
        children(a, &mut own);
        children(b, &mut others);
        own.len() == others.len() && own.iter().zip(others).all(|(a, b)| same(a, b))
    }
}

/// The direct operands of the kinds that [`same`] compares.
fn children<'e>(e: &'e Expr, out: &mut Vec<&'e Expr>) {
    match &e.kind {
        ExprKind::Compare(_, _, args) | ExprKind::Arith(_, args) => out.extend(args.iter()),
        ExprKind::Between { args, .. } => out.extend(args.iter()),
        ExprKind::And(args) | ExprKind::Or(args) => out.extend(args.iter()),
        ExprKind::Not(arg) | ExprKind::Is { arg, .. } => out.push(arg),
        ExprKind::In { arg, list, .. } => {
            out.push(arg);
            out.extend(list.iter().map(|(_, item)| item));
        }
        _ => {}
    }
}
