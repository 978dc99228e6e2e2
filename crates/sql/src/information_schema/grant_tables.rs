//! Rows of MySQL's grant tables `mysql.db`, `tables_priv`, `columns_priv` and `procs_priv`.
//!
//! The time of a grant and the grantor are not recorded: they are 0 and empty.

use crate::context::StatementContext;
use crate::results::table::text;
use porpoise_access::{ColumnGrant, Grant, Privileges, routine_of_place};
use porpoise_sql_plan::virtual_tables::DATABASE_PRIVILEGES;
use porpoise_types::{Date, Value};

/// Privileges on tables and columns: the names in GRANT, and those in the grant tables' SET columns,
/// in their order.
const NAMES: &[(&str, &str)] = &[
    ("SELECT", "Select"),
    ("INSERT", "Insert"),
    ("UPDATE", "Update"),
    ("DELETE", "Delete"),
    ("CREATE", "Create"),
    ("DROP", "Drop"),
    ("GRANT OPTION", "Grant"),
    ("REFERENCES", "References"),
    ("INDEX", "Index"),
    ("ALTER", "Alter"),
    ("CREATE VIEW", "Create View"),
    ("SHOW VIEW", "Show view"),
    ("TRIGGER", "Trigger"),
];

fn has(privileges: Privileges, name: &str) -> bool {
    Privileges::named(name).is_some_and(|p| privileges.has(p))
}

/// Privileges as a SET column shows them.
fn set_of(privileges: Privileges) -> Value {
    let held = NAMES.iter().filter(|(name, _)| has(privileges, name));
    let shown: Vec<&str> = held.map(|(_, shown)| *shown).collect();
    text(shown.join(","))
}

/// The time of a grant, which is not recorded.
fn unrecorded_time() -> Value {
    Value::DateTime(Date::ZERO.at_midnight())
}

/// Rows of `mysql.db`: grants on databases.
fn databases(cx: &StatementContext) -> Vec<Vec<Value>> {
    let data = cx.server.access.data();
    let grants = data.grants.iter();
    let mut grants: Vec<&Grant> = grants
        .filter(|g| !g.database.is_empty() && g.table.is_empty())
        .collect();
    grants.sort_by_key(|g| (&g.host, &g.database, &g.user));
    let row = |g: &Grant| {
        let mut row = vec![text(&g.host), text(&g.database), text(&g.user)];
        let held = DATABASE_PRIVILEGES
            .iter()
            .map(|(_, name)| has(g.privileges, name));
        row.extend(held.map(|held| text(if held { "Y" } else { "N" })));
        row
    };
    grants.into_iter().map(row).collect()
}

/// Privileges of one account on one table and on any of its columns.
struct TableGrants<'g> {
    /// Host, database, user and table: the primary key of `mysql.tables_priv`.
    key: [&'g str; 4],
    on_table: Privileges,
    on_columns: Privileges,
}

/// Rows of `mysql.tables_priv`: a row for each account and table with a grant on the table or on one of
/// its columns.
fn tables(cx: &StatementContext) -> Vec<Vec<Value>> {
    let data = cx.server.access.data();
    let mut found: Vec<TableGrants<'_>> = Vec::new();
    let is_of_table = |g: &&Grant| !g.table.is_empty() && routine_of_place(&g.table).is_none();
    for g in data.grants.iter().filter(is_of_table) {
        found.push(TableGrants {
            key: [&*g.host, &*g.database, &*g.user, &*g.table],
            on_table: g.privileges,
            on_columns: Privileges::NONE,
        });
    }
    for g in &data.column_grants {
        let key = [&*g.host, &*g.database, &*g.user, &*g.table];
        match found.iter_mut().find(|grants| grants.key == key) {
            Some(grants) => grants.on_columns = grants.on_columns.with(g.privileges),
            None => found.push(TableGrants {
                key,
                on_table: Privileges::NONE,
                on_columns: g.privileges,
            }),
        }
    }
    found.sort_by_key(|grants| grants.key);
    let row = |grants: TableGrants<'_>| {
        let mut row: Vec<Value> = grants.key.map(text).into();
        row.extend([text(""), unrecorded_time()]);
        row.extend([set_of(grants.on_table), set_of(grants.on_columns)]);
        row
    };
    found.into_iter().map(row).collect()
}

/// Rows of `mysql.procs_priv`: grants on procedures and functions.
fn routines(cx: &StatementContext) -> Vec<Vec<Value>> {
    let data = cx.server.access.data();
    let mut rows = Vec::new();
    for g in &data.grants {
        let Some((is_function, name)) = routine_of_place(&g.table) else {
            continue;
        };
        let kind = if is_function { "FUNCTION" } else { "PROCEDURE" };
        let names = [
            ("EXECUTE", "Execute"),
            ("ALTER ROUTINE", "Alter Routine"),
            ("GRANT OPTION", "Grant"),
        ];
        let held = names.iter().filter(|(name, _)| has(g.privileges, name));
        let held: Vec<&str> = held.map(|(_, shown)| *shown).collect();
        let mut row: Vec<Value> = [&*g.host, &*g.database, &*g.user, name, kind, ""]
            .map(text)
            .into();
        row.extend([text(held.join(",")), unrecorded_time()]);
        rows.push(row);
    }
    rows.sort_by(|a, b| format!("{a:?}").cmp(&format!("{b:?}")));
    rows
}

/// Rows of `mysql.columns_priv`: grants on columns.
fn columns(cx: &StatementContext) -> Vec<Vec<Value>> {
    let data = cx.server.access.data();
    let mut grants: Vec<&ColumnGrant> = data.column_grants.iter().collect();
    grants.sort_by_key(|g| (&g.host, &g.database, &g.user, &g.table, &g.column));
    let row = |g: &ColumnGrant| {
        let key = [&g.host, &g.database, &g.user, &g.table, &g.column];
        let mut row: Vec<Value> = key.map(text).into();
        row.extend([unrecorded_time(), set_of(g.privileges)]);
        row
    };
    grants.into_iter().map(row).collect()
}

/// The rows of a virtual table of `mysql`; all but the grant tables are empty.
pub(super) fn rows_of(cx: &StatementContext, name: &str) -> Vec<Vec<Value>> {
    match name {
        "columns_priv" => columns(cx),
        "db" => databases(cx),
        "tables_priv" => tables(cx),
        "procs_priv" => routines(cx),
        _ => Vec::new(),
    }
}
