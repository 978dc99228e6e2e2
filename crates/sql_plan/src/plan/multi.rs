//! UPDATE and DELETE over several tables.
//!
//! The tables are joined as by a SELECT, the rows of those that change locked
//! on the way; what changes is gathered and done at the end, each row once
//! (manual, "UPDATE Statement": a row that matches several times is updated
//! once). Tables that refer to others come before them, so that a DELETE of
//! parents and children together finds no child left.

use super::QueryPlan;
use super::dml::{NewValue, new_value, settable};
use super::from::bind_from;
use super::placement::settle_join;
use super::query::entries;
use super::scan::{Busy, LockSpec};
use super::select::{Clauses, PlanCx, finish};
use crate::bind::{Origin, Source};
use crate::error::{Result, SqlError};
use crate::parse::ast::{self, Assignment, Delete, DeleteTarget, TableRef, Update, With};
use porpoise_access::Privileges;
use porpoise_kv::LockMode;
use porpoise_rows::catalog::Table;
use std::sync::Arc;

/// A table whose rows change.
#[derive(Clone, Debug)]
pub struct MultiTarget {
    /// Its slot in the join.
    pub slot: usize,
    /// The table.
    pub table: Arc<Table>,
    /// Positions and values, in the order of the text; empty for DELETE.
    pub set: Vec<(usize, NewValue)>,
}

/// UPDATE or DELETE over several tables.
#[derive(Clone, Debug)]
pub struct MultiPlan {
    /// The join.
    pub select: QueryPlan,
    /// Tables whose rows change.
    pub targets: Vec<MultiTarget>,
    /// DELETE.
    pub delete: bool,
    /// IGNORE.
    pub ignore: bool,
}

impl MultiPlan {
    /// The stored tables it uses, and whether it writes them.
    pub fn tables(&self) -> Vec<(Arc<Table>, bool)> {
        let mut tables = self.select.tables();
        for (table, writes) in &mut tables {
            *writes = self.targets.iter().any(|t| t.table.id == table.id);
        }
        tables
    }
}

fn with_ctes<T>(
    with: Option<&With<'_>>,
    cx: &PlanCx<'_>,
    plan: impl FnOnce(&PlanCx<'_>) -> Result<T>,
) -> Result<T> {
    match with {
        Some(with) => {
            let ctes = entries(with, cx)?;
            plan(&PlanCx { ctes: &ctes, ..*cx })
        }
        None => plan(cx),
    }
}

/// Plans UPDATE of several tables.
///
/// # Errors
/// Those of binding; 1288 when a table cannot be changed; 1221 with ORDER
/// BY or LIMIT.
pub fn plan_update(update: &Update<'_>, cx: &PlanCx<'_>) -> Result<MultiPlan> {
    if !update.order_by.is_empty() {
        return Err(wrong_usage("UPDATE", "ORDER BY"));
    }
    if update.limit.is_some() {
        return Err(wrong_usage("UPDATE", "LIMIT"));
    }
    with_ctes(update.with, cx, |cx| {
        let targets = |from: &super::from::From| -> Result<Vec<MultiTarget>> {
            let mut targets: Vec<MultiTarget> = Vec::new();
            for assignment in update.set {
                assign(assignment, from, &mut targets, cx)?;
            }
            Ok(targets)
        };
        let filter = update.filter.as_ref();
        plan(update.tables, filter, targets, LockMode::Update, cx)
    })
    .map(|plan| MultiPlan {
        ignore: update.ignore,
        ..plan
    })
}

fn assign(
    assignment: &Assignment<'_>,
    from: &super::from::From,
    targets: &mut Vec<MultiTarget>,
    cx: &PlanCx<'_>,
) -> Result<()> {
    let name = &assignment.column;
    let schema = name.schema.map(|s| s.name);
    let alias = name.table.map(|t| t.name);
    let place = "field list";
    let (slot, column) = from.scope.resolve(schema, alias, name.name.name, place)?;
    let value = new_value(&assignment.value, &mut cx.binder(&from.scope, place))?;
    let source = from.scope.sources.get(slot);
    let source = source.ok_or_else(|| SqlError::internal("no table"))?;
    let table = changeable(source)?;
    cx.note_writes(source, [column], Privileges::UPDATE);
    let value = settable(&table, column, value)?;
    match targets.iter_mut().find(|t| t.slot == slot) {
        Some(target) => target.set.push((column, value)),
        None => targets.push(MultiTarget {
            slot,
            table,
            set: vec![(column, value)],
        }),
    }
    Ok(())
}

/// The stored table behind a source.
fn changeable(source: &Source) -> Result<Arc<Table>> {
    if source.view.as_ref().is_some_and(|v| !v.check.is_empty()) {
        let what = "UPDATE of several tables through a view WITH CHECK OPTION";
        return Err(SqlError::not_supported(what));
    }
    match &source.origin {
        Origin::Stored(table) => Ok(table.clone()),
        _ => {
            let alias = &source.alias;
            let text = format!("The target table {alias} of the UPDATE is not updatable");
            Err(SqlError::new(1288, "HY000", text))
        }
    }
}

/// Plans DELETE from several tables.
///
/// # Errors
/// Those of binding; 1109 when a table to delete from is not among those
/// that are read.
pub fn plan_delete(delete: &Delete<'_>, cx: &PlanCx<'_>) -> Result<MultiPlan> {
    let DeleteTarget::Many { targets, tables } = &delete.target else {
        return Err(SqlError::internal("a DELETE of one table"));
    };
    with_ctes(delete.with, cx, |cx| {
        let named = |from: &super::from::From| -> Result<Vec<MultiTarget>> {
            let mut found: Vec<MultiTarget> = Vec::new();
            for name in *targets {
                let target = deleted(name, from)?;
                if !found.iter().any(|t| t.slot == target.slot) {
                    found.push(target);
                }
            }
            Ok(found)
        };
        let filter = delete.filter.as_ref();
        plan(tables, filter, named, LockMode::Exclusive, cx)
    })
    .map(|plan| MultiPlan {
        delete: true,
        ignore: delete.ignore,
        ..plan
    })
}

fn deleted(name: &ast::TableName<'_>, from: &super::from::From) -> Result<MultiTarget> {
    let sources = from.scope.sources.iter().enumerate();
    let mut named = sources.filter(|(_, s)| {
        s.alias.eq_ignore_ascii_case(name.name.name)
            && name.schema.is_none_or(|d| d.name == s.database)
    });
    let Some((slot, source)) = named.next() else {
        let text = format!("Unknown table '{}' in MULTI DELETE", name.name.name);
        return Err(SqlError::new(1109, "42S02", text));
    };
    let Origin::Stored(table) = &source.origin else {
        let text = format!(
            "The target table {} of the DELETE is not updatable",
            source.alias
        );
        return Err(SqlError::new(1288, "HY000", text));
    };
    Ok(MultiTarget {
        slot,
        table: table.clone(),
        set: Vec::new(),
    })
}

fn plan(
    tables: &[TableRef<'_>],
    filter: Option<&ast::Expr<'_>>,
    targets: impl FnOnce(&super::from::From) -> Result<Vec<MultiTarget>>,
    mode: LockMode,
    cx: &PlanCx<'_>,
) -> Result<MultiPlan> {
    let mut from = bind_from(tables, cx)?;
    let mut targets = targets(&from)?;
    for target in &targets {
        let source = from.scope.sources.get(target.slot);
        let wanted = match mode {
            LockMode::Update => Privileges::UPDATE,
            _ => Privileges::SELECT.with(Privileges::DELETE),
        };
        cx.reads.uses.want(source.and_then(|s| s.named), wanted);
    }
    from.changes = Some(LockSpec {
        mode,
        busy: Busy::Wait,
    });
    from.locked = targets.iter().fold(0, |all, t| all | 1u64 << (t.slot & 63));
    let clauses = Clauses {
        filter,
        ..Clauses::default()
    };
    let mut select = finish(from, Vec::new(), clauses, cx)?;
    // Children before their parents.
    let mut ordered: Vec<MultiTarget> = Vec::with_capacity(targets.len());
    while !targets.is_empty() {
        let referenced = |t: &MultiTarget| {
            let children = t.table.referenced_by.iter();
            let mut others = children.filter(|(child, _)| *child != t.table.id);
            others.any(|(child, _)| targets.iter().any(|o| o.table.id == *child))
        };
        let at = targets.iter().position(|t| !referenced(t)).unwrap_or(0);
        ordered.push(targets.remove(at));
    }
    settle_join(&mut select, &ordered);
    Ok(MultiPlan {
        select,
        targets: ordered,
        delete: false,
        ignore: false,
    })
}

fn wrong_usage(statement: &str, clause: &str) -> SqlError {
    let text = format!("Incorrect usage of {statement} and {clause}");
    SqlError::new(1221, "HY000", text)
}
