//! ON DUPLICATE KEY UPDATE: columns that its expressions may read (manual, "INSERT ... ON DUPLICATE
//! KEY UPDATE Statement").
//!
//! These are the table's columns (slot 0); VALUES(column) and columns of the row alias (slot 1);
//! and with INSERT ... SELECT, unless it has groups or is a set operation, columns of the SELECT's
//! tables (the slots after 0). The latter become hidden items of the SELECT, which DISTINCT
//! ignores: of rows that it considers equal, the first one's values are used. The same holds in
//! subqueries.

use super::QueryPlan;
use super::derived::working_table;
use super::dml::bind_assignments;
use super::insert::{column_count_error, target_columns};
use super::query::with_ctes;
use super::select::{PlanCx, plan_query, plan_select_with};
use super::sinks::NewValue;
use crate::bind::{Origin, Scope, Source};
use crate::error::Result;
use crate::parse::ast::{Insert, Query, QueryBody, Select};
use porpoise_access::Privileges;
use porpoise_rows::catalog::Table;
use std::sync::Arc;

/// Positions of columns, and their new values.
pub(super) type Assignments = Vec<(usize, NewValue)>;

/// Columns of the SELECT's tables that assignments read, by slot and position, in the order of the
/// items that are added to the SELECT for them.
pub(super) type SelectColumns = Vec<(usize, usize)>;

/// Binds assignments that read no tables but the target and the new row.
pub(super) fn assignments(
    insert: &Insert<'_>,
    table: &Arc<Table>,
    scope: &Scope,
    cx: &PlanCx<'_>,
) -> Result<Assignments> {
    if insert.on_duplicate.is_empty() {
        return Ok(Vec::new());
    }
    let Some(alias) = insert.row_alias else {
        return bind_on_duplicate(insert, table, scope, cx);
    };
    let mut new = Source {
        alias: alias.name.to_owned(),
        ..scope
            .sources
            .first()
            .cloned()
            .unwrap_or_else(|| Source::stored(table.clone(), None))
    };
    new.database = String::new();
    // Reading the new row's values needs no privileges.
    new.use_index = None;
    if !insert.column_aliases.is_empty() {
        let columns = target_columns(insert, &new)?;
        if columns.len() != insert.column_aliases.len() {
            return Err(column_count_error(1));
        }
        for column in &mut new.columns {
            column.name = String::new();
        }
        for (position, name) in columns.iter().zip(insert.column_aliases) {
            if let Some(column) = new.columns.get_mut(*position) {
                name.name.clone_into(&mut column.name);
            }
        }
    }
    let mut both = scope.clone();
    both.add(new)?;
    bind_on_duplicate(insert, table, &both, cx)
}

/// Binds the assignments over a scope whose first table is the target.
fn bind_on_duplicate(
    insert: &Insert<'_>,
    table: &Arc<Table>,
    scope: &Scope,
    cx: &PlanCx<'_>,
) -> Result<Assignments> {
    let set = bind_assignments(insert.on_duplicate, table, scope, cx, true)?;
    if let Some(target) = scope.sources.first() {
        let columns = set.iter().map(|(column, _)| *column);
        cx.note_writes(target, columns, Privileges::UPDATE);
    }
    Ok(set)
}

/// Plans the query of INSERT ... SELECT. If its tables can be referenced, also binds the
/// assignments and lists the columns that they read.
pub(super) fn with_query(
    insert: &Insert<'_>,
    query: &Query<'_>,
    table: &Arc<Table>,
    scope: &Scope,
    cx: &PlanCx<'_>,
) -> Result<(QueryPlan, Option<(Assignments, SelectColumns)>)> {
    let select = match &query.body {
        QueryBody::Select(select) if !insert.on_duplicate.is_empty() => select,
        _ => return Ok((plan_query(query, cx)?, None)),
    };
    if !select.group_by.is_empty() || query.into.is_some() {
        return Ok((plan_query(query, cx)?, None));
    }
    with_ctes(query.with, cx, |cx| {
        with_select_tables(insert, select, query, table, scope, cx)
    })
}

fn with_select_tables(
    insert: &Insert<'_>,
    select: &Select<'_>,
    query: &Query<'_>,
    table: &Arc<Table>,
    scope: &Scope,
    cx: &PlanCx<'_>,
) -> Result<(QueryPlan, Option<(Assignments, SelectColumns)>)> {
    let mut found = None;
    let plan = plan_select_with(select, query, cx, &mut |read: &Scope| {
        let mut both = scope.clone();
        both.sources
            .extend(read.sources.iter().map(converted_source));
        let hidden = read
            .merged_columns
            .iter()
            .map(|(slot, column)| (slot + 1, *column));
        both.merged_columns.extend(hidden);
        let set = bind_on_duplicate(insert, table, &both, cx)?;
        let mut named: SelectColumns = Vec::new();
        let mut note = |slot: usize, column: usize| {
            if let Some(slot) = slot.checked_sub(1)
                && !named.contains(&(slot, column))
            {
                named.push((slot, column));
            }
        };
        let values = set.iter().filter_map(|(_, value)| value.expr());
        values.for_each(|e| e.columns(&mut note));
        found = Some((set, named.clone()));
        Ok(named)
    })?;
    Ok((plan, found))
}

/// A table of the SELECT as assignments see it: the query has already converted its values to SQL
/// values.
fn converted_source(source: &Source) -> Source {
    let rows = working_table(source.columns.clone());
    Source {
        origin: Origin::Derived(Arc::new(rows)),
        ..source.clone()
    }
}
