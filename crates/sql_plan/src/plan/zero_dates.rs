//! `date IS NULL` in WHERE finds '0000-00-00' in DATE and DATETIME columns that are NOT NULL (manual,
//! "Comparison Functions and Operators", IS NULL).

use super::derived::{TableOperator, operator_of};
use crate::bind::nodes::compare;
use crate::bind::{Origin, Scope, Source};
use crate::error::Result;
use crate::expr::{CmpOp, Expr, ExprKind, Truth};
use porpoise_types::{ColumnType, Date, Kind, Value};

/// Replaces `column IS NULL` by `column = 0`, also below AND and OR. On the inner side of an outer join,
/// NULL is found, too.
pub(super) fn find_by_null(conditions: &mut [Expr], scope: &Scope) -> Result<()> {
    for condition in conditions {
        if let ExprKind::And(parts) | ExprKind::Or(parts) = &mut condition.kind {
            find_by_null(parts, scope)?;
            continue;
        }
        let ExprKind::Is {
            arg,
            truth: Truth::Null,
            negated: false,
        } = &condition.kind
        else {
            continue;
        };
        let Some(zero) = zero_of(arg, scope) else {
            continue;
        };
        let is_zero = compare(CmpOp::Eq, (**arg).clone(), zero)?;
        *condition = if arg.nullable {
            Expr::boolean(ExprKind::Or(vec![is_zero, condition.clone()]), true)
        } else {
            is_zero
        };
    }
    Ok(())
}

/// Whether an expression is a column of a stored table, also through derived tables that MySQL merges,
/// that is declared NOT NULL.
fn is_never_null(e: &Expr, sources: &[Source]) -> bool {
    let ExprKind::Column { slot, column, .. } = e.kind else {
        return false;
    };
    match sources.get(slot).map(|source| &source.origin) {
        Some(Origin::Stored(table)) => table.columns.get(column).is_some_and(|c| !c.nullable),
        Some(Origin::Derived(derived)) => match operator_of(derived) {
            TableOperator::Materialize(plan) if plan.is_mergeable => {
                let item = plan.items.get(column);
                item.is_some_and(|item| is_never_null(item, &plan.sources))
            }
            _ => false,
        },
        _ => false,
    }
}

/// The zero of a DATE or DATETIME column that is declared NOT NULL; `None` for other expressions.
fn zero_of(e: &Expr, scope: &Scope) -> Option<Expr> {
    if !is_never_null(e, &scope.sources) {
        return None;
    }
    match e.ty.kind {
        Kind::Date => Some(Expr::constant(Value::Date(Date::ZERO), ColumnType::date())),
        Kind::DateTime => {
            let zero = Value::DateTime(Date::ZERO.at_midnight());
            Some(Expr::constant(zero, ColumnType::datetime(0)))
        }
        _ => None,
    }
}
