//! ON DUPLICATE KEY UPDATE: what its values may name (manual, "INSERT ... ON DUPLICATE KEY
//! UPDATE Statement").
//!
//! Beside the table's columns these are VALUES(column), columns of the row alias, and with
//! INSERT ... SELECT columns of the tables that the SELECT reads, unless it has groups or
//! is a set operation. The latter become further items of the SELECT; their values stand
//! behind those of the new row.

use super::SelectPlan;
use super::dml::{NewValue, assigned};
use super::insert::{given_columns, wrong_count};
use super::query::entries;
use super::select::{PlanCx, plan_query, plan_select_with};
use crate::bind::{Scope, Source};
use crate::error::{Result, SqlError};
use crate::expr::{Expr, ExprKind, Load};
use crate::parse::ast::{Insert, Query, QueryBody, Select};
use porpoise_rows::catalog::Table;
use std::sync::Arc;

/// Positions and values.
pub(super) type Set = Vec<(usize, NewValue)>;

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
        return assigned(insert.on_duplicate, table, scope, cx, true);
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
    let mut set = assigned(insert.on_duplicate, table, &both, cx, true)?;
    // Columns of the row alias are those of the row to be inserted.
    let mut of_new_row = |slot: usize, column: usize, load: Load| match slot {
        1 => Some((column, load)),
        _ => None,
    };
    for (_, value) in &mut set {
        rename(value, "a row alias inside a subquery", &mut of_new_row)?;
    }
    Ok(set)
}

/// The query of INSERT ... SELECT, and where its tables can be named the assignments, with
/// how many items were added to the query for them.
pub(super) fn with_query(
    insert: &Insert<'_>,
    query: &Query<'_>,
    table: &Arc<Table>,
    scope: &Scope,
    cx: &PlanCx<'_>,
) -> Result<(SelectPlan, Option<(Set, usize)>)> {
    let select = match &query.body {
        QueryBody::Select(select) if !insert.on_duplicate.is_empty() => select,
        _ => return Ok((plan_query(query, cx)?, None)),
    };
    if !select.group_by.is_empty() || select.options.distinct || query.into.is_some() {
        return Ok((plan_query(query, cx)?, None));
    }
    match query.with {
        Some(with) => {
            let ctes = entries(with, cx)?;
            let inside = PlanCx { ctes: &ctes, ..*cx };
            naming_tables(insert, (select, query), table, scope, &inside)
        }
        None => naming_tables(insert, (select, query), table, scope, cx),
    }
}

fn naming_tables(
    insert: &Insert<'_>,
    (select, query): (&Select<'_>, &Query<'_>),
    table: &Arc<Table>,
    scope: &Scope,
    cx: &PlanCx<'_>,
) -> Result<(SelectPlan, Option<(Set, usize)>)> {
    let mut found = None;
    let plan = plan_select_with(select, query, cx, &mut |read: &Scope| {
        let mut both = scope.clone();
        both.sources.extend(read.sources.iter().cloned());
        let hidden = read.hidden.iter().map(|(slot, column)| (slot + 1, *column));
        both.hidden.extend(hidden);
        let mut set = assigned(insert.on_duplicate, table, &both, cx, true)?;
        let mut named: Vec<(usize, usize)> = Vec::new();
        let width = table.columns.len();
        let mut behind = |slot: usize, column: usize, _: Load| {
            let place = (slot.checked_sub(1)?, column);
            let known = named.iter().position(|n| *n == place);
            let at = known.unwrap_or_else(|| {
                named.push(place);
                named.len() - 1
            });
            // The query has loaded it.
            Some((width + at, Load::Plain))
        };
        for (_, value) in &mut set {
            let what = "a column of the SELECT inside a subquery";
            rename(value, what, &mut behind)?;
        }
        found = Some((set, named.len()));
        Ok(named)
    })?;
    Ok((plan, found))
}

/// Makes columns of other tables than the one that changes, slot 0, values of the new row;
/// `place` tells which. `refused` names what stands in a subquery, 1235.
fn rename(
    value: &mut NewValue,
    refused: &str,
    place: &mut dyn FnMut(usize, usize, Load) -> Option<(usize, Load)>,
) -> Result<()> {
    let NewValue::Expr(e) = value else {
        return Ok(());
    };
    let mut inside = false;
    e.rewrite(&mut |e: &mut Expr| match &e.kind {
        ExprKind::Column { slot, column, load } => {
            if let Some((column, load)) = place(*slot, *column, *load) {
                e.kind = ExprKind::NewValue { column, load };
            }
        }
        ExprKind::Query(test) => {
            let mut free = test.query.free.iter();
            inside |= free.any(|f| f.level == 1 && f.slot >= 1);
        }
        _ => {}
    });
    match inside {
        true => Err(SqlError::not_supported(refused)),
        false => Ok(()),
    }
}
