//! The FROM clause: tables, joins, and the conditions they bring.

use super::select::PlanCx;
use crate::bind::Scope;
use crate::bind::nodes::compare;
use crate::error::{Result, SqlError};
use crate::expr::{CmpOp, Expr, ExprKind};
use crate::parse::ast::{Join, JoinCondition, JoinKind, TableFactor, TableRef};

/// A table on the right of an outer join, with its condition.
pub(super) struct Outer {
    pub(super) slot: usize,
    pub(super) on: Vec<Expr>,
}

/// The FROM clause, bound.
#[derive(Default)]
pub(super) struct From {
    pub(super) scope: Scope,
    pub(super) conditions: Vec<Expr>,
    pub(super) outer: Vec<Outer>,
    pub(super) straight: bool,
    /// Columns that USING or NATURAL joined: hidden from `*`.
    pub(super) hidden: Vec<(usize, usize)>,
}

/// Splits a condition at its ANDs.
pub fn split(condition: Expr, out: &mut Vec<Expr>) {
    match condition.kind {
        ExprKind::And(parts) => parts.into_iter().for_each(|p| split(p, out)),
        _ => out.push(condition),
    }
}

/// Binds the whole clause.
pub(super) fn bind_from(tables: &[TableRef<'_>], cx: &PlanCx<'_>) -> Result<From> {
    let mut from = From::default();
    for table in tables {
        bind_table(table, &mut from, cx)?;
    }
    Ok(from)
}

fn bind_table(table: &TableRef<'_>, from: &mut From, cx: &PlanCx<'_>) -> Result<()> {
    // `a RIGHT JOIN b` is `b LEFT JOIN a`, where it is the only join.
    if let [join] = table.joins
        && join.kind == JoinKind::Right
        && !join.natural
    {
        bind_factor(&join.right, from, cx)?;
        let left = Join {
            kind: JoinKind::Left,
            right: table.first,
            ..*join
        };
        return bind_join(&left, from, cx);
    }
    bind_factor(&table.first, from, cx)?;
    for join in table.joins {
        bind_join(join, from, cx)?;
    }
    Ok(())
}

fn bind_factor(factor: &TableFactor<'_>, from: &mut From, cx: &PlanCx<'_>) -> Result<()> {
    match factor {
        TableFactor::Table(source) => {
            if !source.partitions.is_empty() {
                let text = "PARTITION () clause on non partitioned table";
                return Err(SqlError::new(1747, "HY000", text));
            }
            let alias = source.alias.map(|a| a.name);
            from.scope.add(cx.source(&source.name, alias)?)?;
            Ok(())
        }
        TableFactor::Nested(tables) => {
            for table in *tables {
                bind_table(table, from, cx)?;
            }
            Ok(())
        }
        TableFactor::Derived(_) => Err(SqlError::not_supported("derived tables")),
        TableFactor::JsonTable(_) => Err(SqlError::not_supported("JSON_TABLE")),
    }
}

fn bind_join(join: &Join<'_>, from: &mut From, cx: &PlanCx<'_>) -> Result<()> {
    let before = from.scope.sources.len();
    bind_factor(&join.right, from, cx)?;
    let after = from.scope.sources.len();
    let mut conditions = Vec::new();
    match (&join.condition, join.natural) {
        (JoinCondition::On(on), _) => {
            let on = cx.binder(&from.scope, "on clause").expr(on)?;
            split(on, &mut conditions);
        }
        (JoinCondition::Using(names), _) => {
            let names: Vec<&str> = names.iter().map(|n| n.name).collect();
            using(from, before, &names, cx, &mut conditions)?;
        }
        (JoinCondition::None, true) => {
            let names = common_names(from, before);
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            using(from, before, &names, cx, &mut conditions)?;
        }
        (JoinCondition::None, false) => {}
    }
    match join.kind {
        JoinKind::Inner => from.conditions.extend(conditions),
        JoinKind::Straight => {
            from.straight = true;
            from.conditions.extend(conditions);
        }
        JoinKind::Left if after == before + 1 => from.outer.push(Outer {
            slot: before,
            on: conditions,
        }),
        JoinKind::Left => return Err(SqlError::not_supported("LEFT JOIN of several tables")),
        JoinKind::Right => return Err(SqlError::not_supported("RIGHT JOIN after another join")),
    }
    Ok(())
}

fn common_names(from: &From, before: usize) -> Vec<String> {
    let (left, right) = from
        .scope
        .sources
        .split_at(before.min(from.scope.sources.len()));
    let there = |name: &str| {
        left.iter()
            .flat_map(|s| &s.columns)
            .any(|c| c.name.eq_ignore_ascii_case(name))
    };
    right
        .iter()
        .flat_map(|s| &s.columns)
        .filter(|c| there(&c.name))
        .map(|c| c.name.clone())
        .collect()
}

fn using(
    from: &mut From,
    before: usize,
    names: &[&str],
    cx: &PlanCx<'_>,
    conditions: &mut Vec<Expr>,
) -> Result<()> {
    for name in names {
        let mut places = Vec::new();
        for (slot, source) in from.scope.sources.iter().enumerate() {
            let position = source
                .columns
                .iter()
                .position(|c| c.name.eq_ignore_ascii_case(name));
            if let Some(position) = position.filter(|p| !from.hidden.contains(&(slot, *p))) {
                places.push((slot, position));
            }
        }
        let left = places.iter().find(|(slot, _)| *slot < before);
        let right = places.iter().find(|(slot, _)| *slot >= before);
        let (Some(left), Some(right)) = (left, right) else {
            return Err(SqlError::unknown_column(name, "from clause"));
        };
        let binder = cx.binder(&from.scope, "from clause");
        let (a, b) = (
            binder.column_at(left.0, left.1),
            binder.column_at(right.0, right.1),
        );
        conditions.push(compare(CmpOp::Eq, a, b)?);
        from.hidden.push(*right);
    }
    Ok(())
}
