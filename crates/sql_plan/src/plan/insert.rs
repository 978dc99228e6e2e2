//! Plans of INSERT and REPLACE.

use super::dml::{
    bind_assignments, check_settable, generated_value, new_value, target_table, view_check_of,
};
use super::from::join_view_target;
use super::placement::set_named_partitions;
use super::select::PlanCx;
use super::sinks::{self, InsertRows, NewValue, ValueRows, ViewCheck};
use super::upsert;
use crate::bind::{Scope, ScopeColumn, Source};
use crate::error::{Result, SqlError};
use crate::parse::ast::{self, Insert, InsertSource};
use porpoise_access::Privileges;
use porpoise_rows::InsertMode;
use porpoise_rows::catalog::Table;

/// Plans INSERT and REPLACE.
pub fn plan_insert(insert: &Insert<'_>, cx: &PlanCx<'_>) -> Result<sinks::Insert> {
    let (mut named, check) = insert_target(insert, cx)?;
    cx.reads
        .uses
        .require_insert(named.use_index, needed_privileges(insert));
    let table = target_table(&named)?;
    set_named_partitions(&mut named, insert.partitions)?;
    let scope = Scope::of(named.clone());
    let (mut known, mut beside) = (None, Vec::new());
    let (columns, rows) = match &insert.source {
        InsertSource::Values(rows) => {
            let columns = target_columns(insert, &named)?;
            let rows = value_rows(rows, &columns, &table, &scope, cx)?;
            (columns, InsertRows::Values(rows))
        }
        InsertSource::Set(assignments) => {
            let set = bind_assignments(assignments, &table, &scope, cx, false)?;
            let (columns, values): (Vec<usize>, Vec<NewValue>) = set.into_iter().unzip();
            check_no_duplicates(&columns, &table)?;
            let mut rows = ValueRows::new(values.len(), 1, cx.env.collation);
            values.into_iter().for_each(|value| rows.push(value));
            rows.end_row();
            (columns, InsertRows::Values(rows))
        }
        InsertSource::Query(query) => {
            let columns = target_columns(insert, &named)?;
            let (plan, set) = upsert::with_query(insert, query, &table, &scope, cx)?;
            if plan.items.len() != columns.len() + plan.hidden_items {
                return Err(column_count_error(1));
            }
            if let Some((set, named)) = set {
                (known, beside) = (Some(set), named);
            }
            let mut given = columns.iter().filter_map(|c| table.columns.get(*c));
            if let Some(generated) = given.find(|c| c.generated.is_some()) {
                return Err(generated_value(&table, &generated.name));
            }
            (columns, InsertRows::Query(Box::new(plan)))
        }
    };
    note_inserted(insert, &named, &columns, cx);
    let mode = match (insert.replace, insert.ignore) {
        (true, _) => InsertMode::Replace,
        (_, true) => InsertMode::Ignore,
        _ => InsertMode::Plain,
    };
    Ok(sinks::Insert {
        on_duplicate: match known {
            Some(set) => set,
            None => upsert::assignments(insert, &table, &scope, cx)?,
        },
        select_columns: beside,
        check,
        partitions: named.partitions.clone(),
        target_source: named,
        default_expressions: table.has_default_expressions(),
        table,
        columns,
        rows,
        mode,
        nested_tables: cx.reads.tables.take(),
    })
}

/// The table that rows are inserted into; for a view its table, and its WITH CHECK OPTION.
fn insert_target(insert: &Insert<'_>, cx: &PlanCx<'_>) -> Result<(Source, Option<ViewCheck>)> {
    let named = ast::TableSource {
        name: insert.table,
        alias: None,
        partitions: &[],
        hints: &[],
        sample: None,
    };
    let listed: Vec<ast::Ident<'_>> = match insert.source {
        InsertSource::Set(assignments) => assignments.iter().map(|a| a.column.name).collect(),
        _ => insert.columns.iter().map(|c| c.name).collect(),
    };
    if let Some(target) = join_view_target(&named, &listed, cx)? {
        return Ok(target);
    }
    let source = cx.target_source(&insert.table, None, "INSERT")?;
    let check = view_check_of(&source, 0);
    Ok((source, check))
}

/// Privileges that the statement needs on the table or its columns.
fn needed_privileges(insert: &Insert<'_>) -> Privileges {
    let mut wanted = Privileges::INSERT;
    if insert.replace {
        wanted = wanted.with(Privileges::DELETE);
    }
    if !insert.on_duplicate.is_empty() {
        wanted = wanted.with(Privileges::UPDATE);
    }
    wanted
}

/// Records the columns that get values.
fn note_inserted(insert: &Insert<'_>, named: &Source, columns: &[usize], cx: &PlanCx<'_>) {
    let listed = insert.columns_given || matches!(insert.source, InsertSource::Set(_));
    if let Some(at) = named
        .use_index
        .filter(|_| !listed && insert.columns.is_empty())
    {
        cx.reads.uses.note_whole(at, Privileges::INSERT);
    }
    cx.note_writes(named, columns.iter().copied(), Privileges::INSERT);
}

pub(super) fn column_count_error(row: usize) -> SqlError {
    let text = format!("Column count doesn't match value count at row {row}");
    SqlError::new(1136, "21S01", text)
}

pub(super) fn column_named(table: &Source, name: &str) -> Result<usize> {
    let mut columns = table.columns.iter().enumerate();
    let named = |(at, c): &(usize, &ScopeColumn)| {
        c.name.eq_ignore_ascii_case(name) && !table.is_hidden(*at)
    };
    let found = columns.find(named).map(|(at, _)| at);
    found.ok_or_else(|| SqlError::unknown_column(name, "field list"))
}

pub(super) fn check_no_duplicates(columns: &[usize], table: &Table) -> Result<()> {
    for (at, column) in columns.iter().enumerate() {
        if columns.iter().take(at).any(|c| c == column) {
            let name = table.columns.get(*column).map_or("", |c| &c.name);
            let text = format!("Column '{name}' specified twice");
            return Err(SqlError::new(1110, "42000", text));
        }
    }
    Ok(())
}

pub(super) fn target_columns(insert: &Insert<'_>, table: &Source) -> Result<Vec<usize>> {
    if insert.columns.is_empty() {
        // `()` before rows with values means all columns.
        let none_needed = match &insert.source {
            InsertSource::Values([[]]) => true,
            InsertSource::Values(rows) => {
                insert.columns_given && rows.iter().all(|row| row.is_empty())
            }
            _ => false,
        };
        return Ok(if none_needed {
            Vec::new()
        } else {
            table.star_columns()
        });
    }
    let columns = insert
        .columns
        .iter()
        .map(|c| column_named(table, c.name.name))
        .collect::<Result<Vec<_>>>()?;
    if let Some(stored) = table.table() {
        check_no_duplicates(&columns, stored)?;
    }
    Ok(columns)
}

/// DEFAULT in place of a value for a generated column, with warning 1906 as of MariaDB, whose dumps
/// contain such values and set a mode that is not strict.
fn ignored_value(table: &Table, column: usize, cx: &PlanCx<'_>) -> NewValue {
    if let Some(column) = table.columns.get(column) {
        let text = format!(
            "The value specified for generated column '{}' in table '{}' has been ignored",
            column.name, table.name
        );
        cx.system.warn(1906, text);
    }
    NewValue::Default
}

fn value_rows(
    rows: &[&[ast::Expr<'_>]],
    columns: &[usize],
    table: &Table,
    scope: &Scope,
    cx: &PlanCx<'_>,
) -> Result<ValueRows> {
    let mut out = ValueRows::new(columns.len(), rows.len(), cx.env.collation);
    let mut binder = cx.binder(scope, "field list");
    let visible = table.visible_columns().count();
    let generates: Vec<bool> = columns
        .iter()
        .map(|at| table.columns.get(*at))
        .map(|column| column.is_some_and(|column| column.generated.is_some()))
        .collect();
    for (at, row) in rows.iter().enumerate() {
        porpoise_base::interrupt::check()?;
        let all = row.is_empty() && columns.len() == visible;
        if row.len() != columns.len() && !all {
            return Err(column_count_error(at + 1));
        }
        for ((e, column), is_generated) in row.iter().zip(columns).zip(&generates) {
            if !is_generated && out.push_literal(e) {
                continue;
            }
            let value = new_value(e, &mut binder)?;
            out.push(match check_settable(table, *column, value) {
                Err(_) if !cx.env.mode.is_strict() => ignored_value(table, *column, cx),
                checked => checked?,
            });
        }
        out.end_row();
    }
    Ok(out)
}
