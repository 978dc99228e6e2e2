//! Plans of multi-table UPDATE and DELETE.
//!
//! The tables are joined as by a SELECT that locks the rows of the target tables. Changes are
//! collected and written at the end, once for each row (manual, "UPDATE Statement": a row that
//! matches several times is updated once). Child tables precede their parents, so that a DELETE of
//! parents and children together meets no child left.

use super::dml::{
    check_settable, join_view_delete, new_value, not_updatable_column, view_check_of,
};
use super::from::{From, bind_from, several_tables};
use super::placement::set_change_placement;
use super::query::with_ctes;
use super::scan::{LockSpec, LockWait};
use super::select::{Clauses, PlanCx, finish};
use super::sinks::{Change, ChangeKind, Target, Targets, ViewCheck};
use super::views::ViewMerging;
use crate::bind::{Origin, Source};
use crate::error::{Result, SqlError};
use crate::parse::ast::{
    self, Assignment, Delete, JoinKind, TableFactor, TableName, TableRef, Update,
};
use porpoise_access::Privileges;
use porpoise_kv::LockMode;
use porpoise_rows::catalog::Table;
use std::sync::Arc;

/// Plans a multi-table UPDATE.
///
/// # Errors
/// Errors of binding; 1288 if a table cannot be changed; 1221 with ORDER BY or LIMIT.
pub(super) fn plan_update(update: &Update<'_>, cx: &PlanCx<'_>) -> Result<Change> {
    if !update.order_by.is_empty() {
        return Err(wrong_usage("UPDATE", "ORDER BY"));
    }
    if update.limit.is_some() {
        return Err(wrong_usage("UPDATE", "LIMIT"));
    }
    with_ctes(update.with, cx, |cx| {
        let targets = |from: &From| -> Result<Vec<Target>> {
            let mut targets: Vec<Target> = Vec::new();
            check_one_table_of_views(update, from)?;
            for assignment in update.set {
                bind_assignment(assignment, from, &mut targets, cx)?;
            }
            Ok(targets)
        };
        let filter = update.filter.as_ref();
        let kind = ChangeKind::Update;
        plan_change(kind, update.ignore, update.tables, filter, targets, cx)
    })
}

fn bind_assignment(
    assignment: &Assignment<'_>,
    from: &From,
    targets: &mut Vec<Target>,
    cx: &PlanCx<'_>,
) -> Result<()> {
    let name = &assignment.column;
    let schema = name.schema.map(|s| s.name);
    let alias = name.table.map(|t| t.name);
    let place = "field list";
    let (slot, column) = from.scope.resolve(schema, alias, name.name.name, place)?;
    let value = new_value(&assignment.value, &mut cx.binder(&from.scope, place))?;
    let named = from.scope.sources.get(slot);
    let check = named.and_then(|source| view_check_of(source, slot));
    let (slot, column) = written_column((slot, column), name.name.name, from, cx)?;
    let source = from.scope.sources.get(slot);
    let source = source.ok_or_else(|| SqlError::internal("no table"))?;
    let table = target_source(source)?;
    let value = check_settable(&table, column, value)?;
    match targets.iter_mut().find(|t| t.slot == slot) {
        Some(target) => target.set.push((column, value)),
        None => targets.push(Target {
            slot,
            table,
            set: vec![(column, value)],
            check: check.map(|check| ViewCheck { slot, ..check }),
        }),
    }
    Ok(())
}

/// The column of a table that an assignment to a column writes, which may be one of a view. Records the
/// privileges that it needs.
fn written_column(
    (slot, column): (usize, usize),
    name: &str,
    from: &From,
    cx: &PlanCx<'_>,
) -> Result<(usize, usize)> {
    let source = from.scope.sources.get(slot);
    let source = source.ok_or_else(|| SqlError::internal("no table"))?;
    cx.note_writes(source, [column], Privileges::UPDATE);
    let Some(view) = source.view.as_ref() else {
        return Ok((slot, column));
    };
    let base = view.base_column(column, slot);
    let (base_slot, base_column) = base.ok_or_else(|| not_updatable_column(name))?;
    let beneath = if base_slot == slot {
        view.joined.flatten()
    } else {
        let base = from.scope.sources.get(base_slot);
        base.and_then(|b| b.use_index)
    };
    if let Some(at) = beneath {
        cx.reads.uses.note(at, base_column, Privileges::UPDATE);
    }
    Ok((base_slot, base_column))
}

/// Error 1393 if the assignments write several tables through one view.
fn check_one_table_of_views(update: &Update<'_>, from: &From) -> Result<()> {
    let mut written: Vec<(usize, usize)> = Vec::new();
    for assignment in update.set {
        let name = &assignment.column;
        let (schema, alias) = (name.schema.map(|s| s.name), name.table.map(|t| t.name));
        let place = "field list";
        let (slot, column) = from.scope.resolve(schema, alias, name.name.name, place)?;
        let source = from.scope.sources.get(slot);
        let Some(view) = source.and_then(|s| s.view.as_ref()) else {
            continue;
        };
        let Some((base, _)) = view.base_column(column, slot) else {
            continue;
        };
        if written.iter().any(|(s, b)| *s == slot && *b != base) {
            return Err(several_tables(view));
        }
        written.push((slot, base));
    }
    Ok(())
}

/// The stored table of a source.
fn target_source(source: &Source) -> Result<Arc<Table>> {
    match &source.origin {
        Origin::Stored(table) => Ok(table.clone()),
        _ => {
            let alias = &source.alias;
            let text = format!("The target table {alias} of the UPDATE is not updatable");
            Err(SqlError::new(1288, "HY000", text))
        }
    }
}

/// Plans a multi-table DELETE.
///
/// # Errors
/// Errors of binding; 1109 if a table to delete from is not in the FROM clause.
pub(super) fn plan_delete(
    delete: &Delete<'_>,
    targets: &[TableName<'_>],
    tables: &[TableRef<'_>],
    cx: &PlanCx<'_>,
) -> Result<Change> {
    with_ctes(delete.with, cx, |cx| {
        let named = |from: &From| -> Result<Vec<Target>> {
            let mut found: Vec<Target> = Vec::new();
            for name in targets {
                let named = named_table(name, tables, cx.env.database.as_deref())?;
                let target = delete_target(named, from)?;
                if !found.iter().any(|t| t.slot == target.slot) {
                    found.push(target);
                }
            }
            Ok(found)
        };
        let filter = delete.filter.as_ref();
        let kind = ChangeKind::Delete;
        plan_change(kind, delete.ignore, tables, filter, named, cx)
    })
}

/// A table of the FROM clause by the names that a target of DELETE is compared with.
#[derive(Clone, Copy)]
struct ListedTable<'a> {
    /// The database; `None` if it has none.
    schema: Option<&'a str>,
    /// The alias, or the table's name.
    name: &'a str,
    is_alias: bool,
}

fn each_listed<'a>(
    tables: &[TableRef<'a>],
    default: Option<&'a str>,
    visit: &mut dyn FnMut(ListedTable<'a>),
) {
    let mut of_factor = |factor: &TableFactor<'a>| match factor {
        TableFactor::Table(table) => visit(ListedTable {
            schema: table.name.schema.map(|s| s.name).or(default),
            name: table.alias.unwrap_or(table.name.name).name,
            is_alias: table.alias.is_some(),
        }),
        TableFactor::Derived(ast::Derived { alias, .. })
        | TableFactor::JsonTable(ast::JsonTable { alias, .. }) => visit(ListedTable {
            schema: None,
            name: alias.name,
            is_alias: true,
        }),
        TableFactor::Nested(tables) => each_listed(tables, default, visit),
    };
    for table in tables {
        of_factor(&table.first);
        table.joins.iter().for_each(|join| of_factor(&join.right));
    }
}

/// The table of the FROM clause that a target names. A table with an alias is named by the alias alone; one
/// without is named by its name and database, either of which may be the default one.
fn named_table<'a>(
    target: &TableName<'_>,
    tables: &[TableRef<'a>],
    default: Option<&'a str>,
) -> Result<ListedTable<'a>> {
    let schema = target.schema.map(|s| s.name);
    let mut found = Vec::new();
    each_listed(tables, default, &mut |listed| {
        let is_named = listed.name.eq_ignore_ascii_case(target.name.name);
        let is_same_database = schema.or(default) == listed.schema;
        let is_found = match (listed.is_alias, schema) {
            (true, Some(_)) => false,
            (true, None) => is_named,
            (false, _) => is_named && is_same_database,
        };
        if is_found {
            found.push(listed);
        }
    });
    match found.as_slice() {
        [only] => Ok(*only),
        [] => {
            let text = format!("Unknown table '{}' in MULTI DELETE", target.name.name);
            Err(SqlError::new(1109, "42S02", text))
        }
        _ => {
            let text = format!("Not unique table/alias: '{}'", target.name.name);
            Err(SqlError::new(1066, "42000", text))
        }
    }
}

fn delete_target(listed: ListedTable<'_>, from: &From) -> Result<Target> {
    let sources = from.scope.sources.iter().enumerate();
    let named = sources.filter(|(_, s)| s.alias.eq_ignore_ascii_case(listed.name));
    let is_same_database = |s: &Source| listed.schema.is_some_and(|d| d == s.database);
    // A common table expression has no database.
    let Some((slot, source)) =
        named.max_by_key(|(slot, s)| (is_same_database(s), usize::MAX - slot))
    else {
        let text = format!("Unknown table '{}' in MULTI DELETE", listed.name);
        return Err(SqlError::new(1109, "42S02", text));
    };
    if let Some(view) = source.view.as_ref().filter(|v| v.joined.is_some()) {
        return Err(join_view_delete(&view.database, &view.name));
    }
    let Origin::Stored(table) = &source.origin else {
        let text = format!(
            "The target table {} of the DELETE is not updatable",
            source.alias
        );
        return Err(SqlError::new(1288, "HY000", text));
    };
    Ok(Target {
        slot,
        table: table.clone(),
        set: Vec::new(),
        check: None,
    })
}

fn plan_change(
    kind: ChangeKind,
    ignore: bool,
    tables: &[TableRef<'_>],
    filter: Option<&ast::Expr<'_>>,
    targets: impl FnOnce(&From) -> Result<Vec<Target>>,
    cx: &PlanCx<'_>,
) -> Result<Change> {
    let (mode, wanted) = match kind {
        ChangeKind::Update => (LockMode::Update, Privileges::UPDATE),
        ChangeKind::Delete => (
            LockMode::Exclusive,
            Privileges::SELECT.with(Privileges::DELETE),
        ),
    };
    let merging = if has_outer_join(tables) {
        ViewMerging::Plain
    } else {
        ViewMerging::Joined
    };
    let mut from = bind_from(tables, &PlanCx { merging, ..*cx })?;
    let mut targets = targets(&from)?;
    for target in &targets {
        let source = from.scope.sources.get(target.slot);
        cx.reads
            .uses
            .require(source.and_then(|s| s.use_index), wanted);
    }
    from.change_lock = Some(LockSpec {
        mode,
        wait: LockWait::Wait,
    });
    from.locked_slots = targets.iter().fold(0, |all, t| all | 1u64 << (t.slot & 63));
    let clauses = Clauses {
        filter,
        ..Clauses::default()
    };
    let mut input = finish(from, Vec::new(), clauses, cx)?;
    // Child tables before their parents.
    let mut ordered: Vec<Target> = Vec::with_capacity(targets.len());
    while !targets.is_empty() {
        let referenced = |t: &Target| {
            let children = t.table.referenced_by.iter();
            let mut others = children.filter(|(child, _)| *child != t.table.id);
            others.any(|(child, _)| targets.iter().any(|o| o.table.id == *child))
        };
        let at = targets.iter().position(|t| !referenced(t)).unwrap_or(0);
        ordered.push(targets.remove(at));
    }
    set_change_placement(&mut input, &ordered);
    Ok(Change {
        kind,
        targets: Targets::Buffered(ordered),
        input,
        ignore,
    })
}

/// Whether an outer join sets columns of a table to NULL: the computed columns of a view would not
/// become NULL with them.
fn has_outer_join(tables: &[TableRef<'_>]) -> bool {
    let of_factor = |factor: &TableFactor<'_>| match factor {
        TableFactor::Nested(tables) => has_outer_join(tables),
        _ => false,
    };
    tables.iter().any(|table| {
        let mut joins = table.joins.iter();
        of_factor(&table.first)
            || joins
                .any(|j| matches!(j.kind, JoinKind::Left | JoinKind::Right) || of_factor(&j.right))
    })
}

fn wrong_usage(statement: &str, clause: &str) -> SqlError {
    let text = format!("Incorrect usage of {statement} and {clause}");
    SqlError::new(1221, "HY000", text)
}
