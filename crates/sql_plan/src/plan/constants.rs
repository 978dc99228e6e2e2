//! Constants through equalities: `a.x = 5 AND a.x = b.y` becomes `a.x = 5 AND b.y = 5`.
//!
//! Every table then finds its rows by itself, by an index or a partition of its own, and the join
//! order is free.
//!
//! Invariants:
//! 1. All three comparisons are made in the same way ([`CompareAs`]): each value is then converted
//!    alike, and equality of converted values is transitive. Doubles and JSON are left alone.
//! 2. Only inner-joined tables: their conditions hold for every row of the result. NULL makes both
//!    forms unknown.

use super::from::From;
use crate::bind::nodes::compare;
use crate::expr::{CmpOp, Expr, ExprKind};
use crate::statistics::StatisticsSource;
use porpoise_base::interrupt;
use porpoise_types::{CompareAs, Value};

/// A column: slot and position.
type Place = (usize, usize);

/// A column that equals a constant.
struct Constant {
    place: Place,
    how: CompareAs,
    value: Expr,
}

/// Rule: an equality with a column that equals a constant becomes an equality with the constant.
pub(super) fn constants_through_equalities(from: &mut From, _: &dyn StatisticsSource) {
    let conditions = &mut from.block.conditions;
    if from.block.tables.len() < 2 {
        return;
    }
    let mut constants: Vec<Constant> = conditions.iter().filter_map(constant).collect();
    // Each round replaces at least one of the equalities of columns.
    while let Some((at, replaced)) = next(conditions, &constants) {
        if interrupt::leaves() {
            return;
        }
        constants.extend(constant(&replaced));
        if let Some(condition) = conditions.get_mut(at) {
            *condition = replaced;
        }
    }
}

/// The next equality of two columns to be replaced, and its replacement.
fn next(conditions: &[Expr], constants: &[Constant]) -> Option<(usize, Expr)> {
    if constants.is_empty() {
        return None;
    }
    let mut numbered = conditions.iter().enumerate();
    numbered.find_map(|(at, condition)| Some((at, replacement(condition, constants)?)))
}

fn replacement(condition: &Expr, constants: &[Constant]) -> Option<Expr> {
    let (how, [a, b]) = equality(condition)?;
    let (first, second) = (place(a)?, place(b)?);
    let of = |place: Place| {
        let mut known = constants.iter();
        known.find(|c| c.place == place && c.how == how)
    };
    let (known, other) = match (of(first), of(second)) {
        (Some(known), None) => (known, b),
        (None, Some(known)) => (known, a),
        _ => return None,
    };
    let replaced = compare(CmpOp::Eq, other.clone(), known.value.clone()).ok()?;
    let (own, [column, _]) = equality(&replaced)?;
    (own == how && place(column) == place(other) && first.0 != second.0).then_some(replaced)
}

/// The sides of an equality that is transitive.
pub(super) fn equality(condition: &Expr) -> Option<(CompareAs, &[Expr; 2])> {
    let ExprKind::Compare(CmpOp::Eq, how, args) = &condition.kind else {
        return None;
    };
    let transitive = !matches!(
        how,
        CompareAs::Double | CompareAs::FixedDouble(_) | CompareAs::Json
    );
    transitive.then_some((*how, args.as_ref()))
}

fn constant(condition: &Expr) -> Option<Constant> {
    let (how, [a, b]) = equality(condition)?;
    let of = |column: &Expr, value: &Expr| {
        Some(Constant {
            place: place(column).filter(|_| is_constant(value))?,
            how,
            value: value.clone(),
        })
    };
    of(a, b).or_else(|| of(b, a))
}

fn is_constant(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Const(value) => *value != Value::Null,
        ExprKind::Param(_) => true,
        _ => false,
    }
}

/// The place of a column.
pub(super) fn place(e: &Expr) -> Option<Place> {
    match e.kind {
        ExprKind::Column { slot, column, .. } => Some((slot, column)),
        _ => None,
    }
}
