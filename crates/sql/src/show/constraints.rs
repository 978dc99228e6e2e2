//! Constraints in information_schema: TABLE_CONSTRAINTS, CHECK_CONSTRAINTS, KEY_COLUMN_USAGE and
//! REFERENTIAL_CONSTRAINTS, with MySQL 8's columns (manual, "INFORMATION_SCHEMA
//! General Table Reference"), in order of database and table.

use super::definition_text::escaped;
use super::table::text;
use porpoise_rows::catalog::{Catalog, Column, FkAction, ForeignKey, Index, IndexKind, Table};
use porpoise_types::Value;
use std::sync::Arc;

/// All tables, ordered by database and name.
pub(crate) fn tables(catalog: &Catalog) -> impl Iterator<Item = &Arc<Table>> {
    let databases = catalog.databases.values();
    let ids = databases.flat_map(|d| d.tables.values());
    ids.filter_map(|id| catalog.table_by_id(*id))
}

/// Unique keys including the primary key, if it is explicit.
fn unique_keys(table: &Table) -> impl Iterator<Item = &Index> {
    let declared = table
        .shown_indexes()
        .filter(|i| !(table.hidden_key && i.kind == IndexKind::Primary));
    declared.filter(|i| i.kind.is_unique())
}

/// Rows of TABLE_CONSTRAINTS.
pub fn table_constraints(catalog: &Catalog) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for table in tables(catalog) {
        let mut add = |name: &str, kind: &str, enforced: bool| {
            rows.push(vec![
                text("def"),
                text(&table.database),
                text(name),
                text(&table.database),
                text(&table.name),
                text(kind),
                text(if enforced { "YES" } else { "NO" }),
            ]);
        };
        for index in unique_keys(table) {
            let primary = index.kind == IndexKind::Primary;
            let kind = if primary { "PRIMARY KEY" } else { "UNIQUE" };
            add(&index.name, kind, true);
        }
        for key in foreign_keys_by_name(table) {
            add(&key.name, "FOREIGN KEY", true);
        }
        for check in table.shown_checks() {
            add(&check.name, "CHECK", check.enforced);
        }
    }
    rows
}

/// Rows of CHECK_CONSTRAINTS.
pub fn check_constraints(catalog: &Catalog) -> Vec<Vec<Value>> {
    let checks = tables(catalog).flat_map(|t| t.shown_checks().map(move |c| (t, c)));
    checks
        .map(|(table, check)| {
            vec![
                text("def"),
                text(&table.database),
                text(&check.name),
                text(escaped(&check.expression.text)),
            ]
        })
        .collect()
}

fn key_usage_row(table: &Table, constraint: &str, column: usize, ordinal: usize) -> Vec<Value> {
    let name = table.columns.get(column).map_or("", |c| &c.name);
    vec![
        text("def"),
        text(&table.database),
        text(constraint),
        text("def"),
        text(&table.database),
        text(&table.name),
        text(name),
        Value::UInt(ordinal as u64 + 1),
    ]
}

/// The foreign keys of a table in the order of their names, as MySQL lists them.
fn foreign_keys_by_name(table: &Table) -> Vec<&ForeignKey> {
    let mut keys: Vec<&ForeignKey> = table.shown_foreign_keys().collect();
    keys.sort_by(|a, b| a.name.cmp(&b.name));
    keys
}

/// Rows of KEY_COLUMN_USAGE.
pub fn key_column_usage(catalog: &Catalog) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for table in tables(catalog) {
        for index in unique_keys(table) {
            let parts = index.parts.iter().enumerate();
            let hidden = |at: usize| table.columns.get(at).is_some_and(Column::is_hidden);
            for (ordinal, part) in parts.filter(|(_, p)| !hidden(p.column)) {
                let mut row = key_usage_row(table, &index.name, part.column, ordinal);
                // Position, database, table and column of a referenced key.
                row.extend(std::iter::repeat_n(Value::Null, 4));
                rows.push(row);
            }
        }
        for key in foreign_keys_by_name(table) {
            for (ordinal, column) in key.columns.iter().enumerate() {
                let mut row = key_usage_row(table, &key.name, *column, ordinal);
                row.push(Value::UInt(unique_position(key, ordinal) as u64 + 1));
                row.push(text(&key.parent_database));
                row.push(text(&key.parent_table));
                row.push(text(key.parent_columns.get(ordinal).map_or("", |c| c)));
                rows.push(row);
            }
        }
    }
    rows
}

/// Position of the corresponding column in the referenced key.
fn unique_position(key: &ForeignKey, ordinal: usize) -> usize {
    let order = key.parent.as_ref().map(|p| &p.order);
    let at = order.and_then(|o| o.iter().position(|at| *at == ordinal));
    at.unwrap_or(ordinal)
}

fn rule(action: FkAction) -> Value {
    text(match action {
        FkAction::NoAction => "NO ACTION",
        FkAction::Restrict => "RESTRICT",
        FkAction::Cascade => "CASCADE",
        FkAction::SetNull => "SET NULL",
    })
}

/// Rows of REFERENTIAL_CONSTRAINTS.
pub fn referential_constraints(catalog: &Catalog) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for table in tables(catalog) {
        for key in foreign_keys_by_name(table) {
            let unique = key.parent.as_ref().and_then(|p| {
                let index = catalog.table_by_id(p.table)?.indexes.get(p.index)?;
                Some(text(&index.name))
            });
            rows.push(vec![
                text("def"),
                text(&table.database),
                text(&key.name),
                text("def"),
                text(&key.parent_database),
                unique.unwrap_or(Value::Null),
                text("NONE"),
                rule(key.on_update),
                rule(key.on_delete),
                text(&table.name),
                text(&key.parent_table),
            ]);
        }
    }
    rows
}
