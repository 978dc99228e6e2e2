//! ON DUPLICATE KEY UPDATE: what its values may name (manual, "INSERT ... ON DUPLICATE KEY
//! UPDATE Statement").
//!
//! Beside the table's columns, which are slot 0 of the row that values are computed for, these
//! are VALUES(column), columns of the row alias, as slot 1, and with INSERT ... SELECT columns
//! of the tables that the SELECT reads, as the slots behind slot 0, unless it has groups or is
//! a set operation. The latter become further items of the SELECT, which DISTINCT does not look
//! at: of rows that it takes for one, the first tells. Names in subqueries mean the same.

use super::QueryPlan;
use super::derived::working_table;
use super::dml::assigned;
use super::insert::{given_columns, wrong_count};
use super::query::with_ctes;
use super::select::{PlanCx, plan_query, plan_select_with};
use super::sinks::NewValue;
use crate::bind::{Origin, Scope, Source};
use crate::error::Result;
use crate::parse::ast::{Insert, Query, QueryBody, Select};
use porpoise_access::Privileges;
use porpoise_rows::catalog::Table;
use std::sync::Arc;

/// Positions and values.
pub(super) type Set = Vec<(usize, NewValue)>;

/// Columns of the SELECT's tables that assignments name, by slot and position, in the order of
/// the items that were added to the SELECT for them.
pub(super) type Beside = Vec<(usize, usize)>;

/// The assignments of an INSERT whose rows name no other tables.
pub(super) fn assignments(
    insert: &Insert<'_>,
    table: &Arc<Table>,
    scope: &Scope,
    cx: &PlanCx<'_>,
) -> Result<Set> {
    if insert.on_duplicate.is_empty() {
        return Ok(Vec::new());
    }
    let Some(alias) = insert.row_alias else {
        return updated(insert, table, scope, cx);
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
    // Its values are those of the statement.
    new.named = None;
    if !insert.column_aliases.is_empty() {
        let columns = given_columns(insert, &new)?;
        if columns.len() != insert.column_aliases.len() {
            return Err(wrong_count(1));
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
    updated(insert, table, &both, cx)
}

/// The assignments over a scope whose first table is the one that is changed.
fn updated(insert: &Insert<'_>, table: &Arc<Table>, scope: &Scope, cx: &PlanCx<'_>) -> Result<Set> {
    let set = assigned(insert.on_duplicate, table, scope, cx, true)?;
    if let Some(target) = scope.sources.first() {
        let columns = set.iter().map(|(column, _)| *column);
        cx.note_writes(target, columns, Privileges::UPDATE);
    }
    Ok(set)
}

/// The query of INSERT ... SELECT, and where its tables can be named the assignments, with
/// what they name of these.
pub(super) fn with_query(
    insert: &Insert<'_>,
    query: &Query<'_>,
    table: &Arc<Table>,
    scope: &Scope,
    cx: &PlanCx<'_>,
) -> Result<(QueryPlan, Option<(Set, Beside)>)> {
    let select = match &query.body {
        QueryBody::Select(select) if !insert.on_duplicate.is_empty() => select,
        _ => return Ok((plan_query(query, cx)?, None)),
    };
    if !select.group_by.is_empty() || query.into.is_some() {
        return Ok((plan_query(query, cx)?, None));
    }
    with_ctes(query.with, cx, |cx| {
        naming_tables(insert, (select, query), table, scope, cx)
    })
}

fn naming_tables(
    insert: &Insert<'_>,
    (select, query): (&Select<'_>, &Query<'_>),
    table: &Arc<Table>,
    scope: &Scope,
    cx: &PlanCx<'_>,
) -> Result<(QueryPlan, Option<(Set, Beside)>)> {
    let mut found = None;
    let plan = plan_select_with(select, query, cx, &mut |read: &Scope| {
        let mut both = scope.clone();
        both.sources.extend(read.sources.iter().map(read_before));
        let hidden = read.hidden.iter().map(|(slot, column)| (slot + 1, *column));
        both.hidden.extend(hidden);
        let set = updated(insert, table, &both, cx)?;
        let mut named: Beside = Vec::new();
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

/// A table of the SELECT as assignments see it: its values come out of the query, which has
/// made SQL values of them already.
fn read_before(source: &Source) -> Source {
    let rows = working_table(source.columns.clone());
    Source {
        origin: Origin::Derived(Arc::new(rows)),
        ..source.clone()
    }
}
