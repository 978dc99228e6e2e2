//! The condition that a row has not expired (TTL), which the planner adds to each use of a table.
//!
//! It is a call of a function that statements cannot name, so that plans treat it as any other
//! condition. Its arguments are the column as stored, without conversion to the session's time zone,
//! and the lifetime.

use super::function::{Call, Function, Nullable};
use super::{Coercibility, Expr, ExprKind, Load};
use crate::error::Result;
use porpoise_rows::catalog::Table;
use porpoise_rows::ttl::{Lifetime, TtlUnit};
use porpoise_types::{ColumnType, Value, ValueRef};

/// The function, which is in no registry, so that statements cannot call it.
static IS_LIVE: Function = Function {
    name: "TTL_IS_LIVE",
    args: (3, 3),
    constant: true,
    nullable: Nullable::Never,
    ty: |_, _| ColumnType::bigint(),
    run: is_live,
    doc: "Whether a row has not expired.",
    example: ("", ""),
};

fn is_live<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let [value, amount, unit] = c.values else {
        return Ok(ValueRef::Int(1));
    };
    let (Some(now), Some(column)) = (c.cx.env.expiry_time.get(), c.args.first()) else {
        return Ok(ValueRef::Int(1));
    };
    let number = |value: &ValueRef<'_>| match value {
        ValueRef::Int(n) => u32::try_from(*n).unwrap_or(u32::MAX),
        _ => u32::MAX,
    };
    let unit = TtlUnit::ALL.get(number(unit) as usize).copied();
    let lifetime = unit.map(|unit| Lifetime {
        amount: number(amount),
        unit,
    });
    let over = lifetime.is_some_and(|l| l.is_over(*value, column.ty.kind, &now));
    Ok(ValueRef::Int(i64::from(!over)))
}

/// The condition that the row of a table in a slot has not expired; `None` if rows of the table do not
/// expire.
pub fn live_row(table: &Table, slot: usize) -> Option<Expr> {
    let rule = table.expiry_rule()?;
    let column = table.columns.get(rule.column)?;
    let value = Expr {
        kind: ExprKind::Column {
            slot,
            column: rule.column,
            load: Load::Plain,
        },
        ty: column.ty.clone(),
        nullable: column.nullable,
        coercibility: Coercibility::Implicit,
    };
    let constant = |n: i64| Expr::constant(Value::Int(n), ColumnType::bigint());
    let code = TtlUnit::ALL.iter().position(|u| *u == rule.lifetime.unit)?;
    let arguments = vec![
        value,
        constant(i64::from(rule.lifetime.amount)),
        constant(i64::try_from(code).ok()?),
    ];
    Some(Expr::boolean(ExprKind::Call(&IS_LIVE, arguments), false))
}
