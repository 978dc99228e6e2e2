//! HOT_KEYS, and SHOW HOT KEYS: the most frequently looked-up keys ([`porpoise_rows::hot_keys`]).
//!
//! Keys are data: an account sees those of tables on which it has SELECT, and keys of the memory
//! cache, which belong to no table, with SELECT on all databases.

use crate::context::StatementContext;
use crate::results::table::{Rows, text, text_or_null};
use porpoise_access::Privileges;
use porpoise_rows::catalog::Table;
use porpoise_rows::hot_keys::HotKey;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::TableName;
use porpoise_sql_plan::virtual_tables;
use porpoise_types::Value;

/// Number of keys that SHOW HOT KEYS lists without LIMIT.
const SHOWN: usize = 20;

fn list(cx: &StatementContext) -> Vec<HotKey> {
    let rights = cx.rights();
    let is_visible = |table: Option<&Table>| match table {
        Some(table) => rights
            .on_table(&table.database, &table.name)
            .has(Privileges::SELECT),
        None => rights.everywhere().has(Privileges::SELECT),
    };
    let catalog = cx.server.db.catalog();
    cx.server.db.hot_keys().list(&catalog, is_visible)
}

fn row(hot: &HotKey) -> Vec<Value> {
    let table = hot.table.as_deref();
    vec![
        text_or_null(table.map(|table| table.database.as_str())),
        text_or_null(table.map(|table| table.name.as_str())),
        text_or_null(table.map(|_| hot.index.as_str())),
        text(hot.interface.name()),
        text(&hot.prefix),
        text(&hot.key),
        Value::UInt(hot.lookups),
        Value::UInt(hot.writes),
        Value::UInt(hot.error),
        Value::Double((hot.share * 10_000.0).round() / 10_000.0),
    ]
}

/// Rows of HOT_KEYS.
pub(crate) fn rows(cx: &StatementContext) -> Vec<Vec<Value>> {
    list(cx).iter().map(row).collect()
}

/// SHOW HOT KEYS, of one table if it is named; `shortened` to [`SHOWN`] rows.
pub(super) fn show(
    cx: &StatementContext,
    table: Option<&TableName<'_>>,
    shortened: bool,
) -> Result<Rows> {
    let columns = virtual_tables::find("information_schema", "HOT_KEYS");
    let columns = columns.map_or_else(Vec::new, |table| (table.columns)());
    let columns = columns
        .into_iter()
        .map(|column| porpoise_sql_plan::bind::ScopeColumn {
            name: column.name,
            ty: column.ty,
            nullable: column.nullable,
        });
    let mut rows = Rows::new(columns.collect());
    let wanted = match table {
        Some(name) => {
            let (database, name) = cx.qualified(name)?;
            let catalog = cx.server.db.catalog();
            let found = catalog.table(&database, &name);
            Some(
                found
                    .ok_or_else(|| SqlError::no_table(&database, &name))?
                    .id,
            )
        }
        None => None,
    };
    let is_wanted =
        |hot: &&HotKey| wanted.is_none() || hot.table.as_ref().map(|table| table.id) == wanted;
    let count = if shortened { SHOWN } else { usize::MAX };
    for hot in list(cx).iter().filter(is_wanted).take(count) {
        rows.push(row(hot));
    }
    Ok(rows)
}
