//! Binding of GROUP BY and ORDER BY keys: columns, expressions, and names and positions of
//! select-list items.

use super::OrderKey;
use super::select::PlanCx;
use crate::bind::expr::select_item;
use crate::bind::nodes::numeric_operand;
use crate::bind::{Aggregates, Scope};
use crate::error::{Result, SqlError};
use crate::expr::{Expr, ExprKind};
use crate::parse::ast::{self, OrderItem};

/// Binds the keys of GROUP BY.
pub(super) fn group_keys(
    scope: &Scope,
    aliases: &[(String, Expr)],
    items: &[OrderItem<'_>],
    cx: &PlanCx<'_>,
) -> Result<Vec<Expr>> {
    let mut keys = Vec::with_capacity(items.len());
    for item in items {
        let at = positional(item, aliases, "group statement")?;
        let key = match at {
            Some((_, e)) => e.clone(),
            None => {
                named_item(aliases, item, "group statement")?;
                let mut binder = cx.binder(scope, "group statement");
                binder.aliases = aliases;
                binder.expr(&item.expr)?
            }
        };
        if key.has_aggregate() || key.has_window() {
            let name = match (at, &item.expr.kind) {
                (Some((name, _)), _) => name.as_str(),
                (None, ast::ExprKind::Column(column)) => column.name.name,
                _ => "???",
            };
            let text = format!("Can't group on '{name}'");
            return Err(SqlError::new(1056, "42000", text));
        }
        keys.push(key);
    }
    Ok(keys)
}

/// A positional key: ORDER BY 2 is the second item.
fn positional<'i>(
    item: &OrderItem<'_>,
    aliases: &'i [(String, Expr)],
    place: &str,
) -> Result<Option<&'i (String, Expr)>> {
    let ast::ExprKind::Literal(ast::Literal::Int(n)) = item.expr.kind else {
        return Ok(None);
    };
    let at = usize::try_from(n).ok().and_then(|n| n.checked_sub(1));
    match at.and_then(|at| aliases.get(at)) {
        Some(found) => Ok(Some(found)),
        None => Err(SqlError::unknown_column(&n.to_string(), place)),
    }
}

/// Binds the keys of ORDER BY.
pub(super) fn order_keys(
    scope: &Scope,
    aliases: &[(String, Expr)],
    items: &[OrderItem<'_>],
    aggregates: &mut Aggregates,
    cx: &PlanCx<'_>,
) -> Result<Vec<OrderKey>> {
    let mut keys = Vec::with_capacity(items.len());
    for item in items {
        let expr = match positional(item, aliases, "order clause")? {
            Some((_, e)) => e.clone(),
            None => order_expr(scope, aliases, item, aggregates, cx)?,
        };
        let expr = numeric_operand(&expr);
        keys.push(OrderKey {
            expr,
            desc: item.desc,
        });
    }
    Ok(keys)
}

/// The select-list item that an unqualified name refers to.
fn named_item<'i>(
    aliases: &'i [(String, Expr)],
    item: &OrderItem<'_>,
    clause: &str,
) -> Result<Option<&'i Expr>> {
    match &item.expr.kind {
        ast::ExprKind::Column(name) if name.table.is_none() => {
            select_item(aliases, name.name.name, clause)
        }
        _ => Ok(None),
    }
}

/// In ORDER BY a select-list alias takes precedence over a column.
fn order_expr(
    scope: &Scope,
    aliases: &[(String, Expr)],
    item: &OrderItem<'_>,
    aggregates: &mut Aggregates,
    cx: &PlanCx<'_>,
) -> Result<Expr> {
    if let Some(e) = named_item(aliases, item, "order clause")? {
        note_item(e, item, scope, cx);
        return Ok(e.clone());
    }
    let mut binder = cx.binder(scope, "order clause");
    binder.aggregates = Some(aggregates);
    binder.windows_allowed = true;
    binder.aliases = aliases;
    binder.expr(&item.expr)
}

/// Records the column that a name refers to as a select-list item, if the item has no other name.
fn note_item(e: &Expr, item: &OrderItem<'_>, scope: &Scope, cx: &PlanCx<'_>) {
    if let (ExprKind::Column { slot, column, .. }, ast::ExprKind::Column(name)) =
        (&e.kind, &item.expr.kind)
        && let Some(own) = scope.qualified_name(*slot, *column)
        && own.1.eq_ignore_ascii_case(name.name.name)
    {
        cx.note_names(|names| {
            names.columns.insert(name.name.span.start, own);
        });
    }
}
