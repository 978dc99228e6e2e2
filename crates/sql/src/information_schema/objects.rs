//! SCHEMATA, TABLES, VIEWS and PARTITIONS.

use crate::context::StatementContext;
use crate::results::table::text;
use crate::show::schema::{database_names, size_cells, virtual_type};
use porpoise_access::Privileges;
use porpoise_rows::catalog::{CheckOption, Table, View};
use porpoise_rows::show;
use porpoise_sql_plan::plan::views::{describe, query_text};
use porpoise_sql_plan::virtual_tables;
use porpoise_types::{Collation, DateTime, Value};
use std::sync::Arc;

/// The column VERSION, which MySQL shows for every table.
const VERSION: Value = Value::Int(10);

/// Rows of SCHEMATA.
pub(super) fn schemata(cx: &StatementContext) -> Vec<Vec<Value>> {
    let catalog = cx.visible_catalog();
    let rights = cx.rights();
    let all = rights.global().has(Privileges::SHOW_DATABASES);
    let row = |name: String| {
        let collation = catalog.database(&name).map(|d| d.collation);
        let collation = collation.unwrap_or(Collation::UTF8MB3_GENERAL_CI);
        vec![
            text("def"),
            text(name),
            text(collation.charset().name()),
            text(collation.name()),
            Value::Null,
            text("NO"),
        ]
    };
    let names = database_names(&catalog).into_iter();
    let seen = names.filter(|name| all || rights.sees_database(name));
    seen.map(row).collect()
}

fn nulls(n: usize) -> impl Iterator<Item = Value> {
    std::iter::repeat_n(Value::Null, n)
}

fn created(table: &Table) -> Value {
    let at = DateTime::from_unix_micros(table.options.created);
    let at = at.and_then(|m| m.round(0, true));
    at.map_or(Value::Null, Value::DateTime)
}

/// Rows of TABLES.
pub(super) fn tables(cx: &StatementContext) -> Vec<Vec<Value>> {
    let server = &cx.server;
    let catalog = cx.visible_catalog();
    let mut rows = Vec::with_capacity(catalog.tables.len());
    for table in super::tables(&catalog) {
        let next = table
            .auto_increment()
            .and_then(|_| server.db().next_auto_increment(table).ok());
        let options = table.options.other.iter().map(|(n, v)| format!("{n}={v}"));
        let mut options: Vec<String> = options.collect();
        if table.partitioning.is_some() {
            options.push("partitioned".to_owned());
        }
        let mut row = vec![
            text("def"),
            text(&table.database),
            text(&table.name),
            text("BASE TABLE"),
            text(&table.options.engine),
            VERSION,
            text("Dynamic"),
            server.statistics.rows(server.db(), table),
        ];
        let bytes = server.db().table_bytes(table);
        row.extend(size_cells(server.db().approximate_rows(table), bytes));
        row.push(next.map_or(Value::Null, Value::UInt));
        row.push(created(table));
        // UPDATE_TIME and CHECK_TIME.
        row.extend(nulls(2));
        row.push(text(table.options.collation.name()));
        // CHECKSUM.
        row.push(Value::Null);
        row.push(text(options.join(" ").to_lowercase()));
        row.push(text(&table.options.comment));
        rows.push(row);
    }
    for view in catalog.views.values() {
        let mut row = vec![
            text("def"),
            text(&view.database),
            text(&view.name),
            text("VIEW"),
        ];
        // ENGINE to CHECKSUM.
        row.extend(nulls(15));
        row.extend([text(""), text("VIEW")]);
        rows.push(row);
    }
    for table in virtual_tables::all().filter(|t| cx.sees_virtual(t)) {
        let details = virtual_tables::system_table(table);
        let engine = details.map_or(Value::Null, |details| text(details.engine));
        let mut row = vec![
            text("def"),
            text(table.database),
            text(table.name),
            text(virtual_type(table)),
            engine,
            VERSION,
        ];
        // ROW_FORMAT to CHECKSUM.
        row.extend(nulls(13));
        row.extend([
            text(""),
            text(details.map_or("", |details| details.comment)),
        ]);
        rows.push(row);
    }
    rows
}

/// Rows of VIEWS.
pub(super) fn views(cx: &StatementContext) -> Vec<Vec<Value>> {
    let catalog = cx.visible_catalog();
    let full_catalog = cx.server.db().catalog();
    let rights = cx.rights();
    let row = |view: &Arc<View>| {
        let privileges = rights.on_table(&view.database, &view.name);
        let own = view.definer == cx.client.account;
        let query = if own || privileges.has(Privileges::SHOW_VIEW) {
            query_text(view, None)
        } else {
            String::new()
        };
        let updatable = describe(&full_catalog, view, cx).is_ok_and(|d| d.updatable);
        vec![
            text("def"),
            text(&view.database),
            text(&view.name),
            text(query),
            text(match view.check {
                CheckOption::None => "NONE",
                CheckOption::Local => "LOCAL",
                CheckOption::Cascaded => "CASCADED",
            }),
            text(if updatable { "YES" } else { "NO" }),
            text(&view.definer),
            text(if view.invoker { "INVOKER" } else { "DEFINER" }),
            text(&view.charset),
            text(&view.collation),
        ]
    };
    catalog.views.values().map(row).collect()
}

/// Rows of PARTITIONS; a table that is not partitioned has one row.
pub(super) fn partitions(cx: &StatementContext) -> Vec<Vec<Value>> {
    let server = &cx.server;
    let catalog = cx.visible_catalog();
    let mut rows = Vec::new();
    for table in super::tables(&catalog) {
        let head = || vec![text("def"), text(&table.database), text(&table.name)];
        let tail = |row: &mut Vec<Value>, rows: Value, sizes: [Value; 5]| {
            row.push(rows);
            row.extend(sizes);
            row.push(created(table));
            // UPDATE_TIME, CHECK_TIME and CHECKSUM.
            row.extend(nulls(3));
        };
        let Some(by) = &table.partitioning else {
            let mut row = head();
            // PARTITION_NAME to PARTITION_DESCRIPTION.
            row.extend(nulls(9));
            let bytes = server.db().table_bytes(table);
            let sizes = size_cells(server.db().approximate_rows(table), bytes);
            tail(&mut row, server.statistics.rows(server.db(), table), sizes);
            row.extend([text(""), Value::Null, Value::Null]);
            rows.push(row);
            continue;
        };
        let each = by.leaves_per_partition().max(1);
        for (at, space) in table.index_spaces(0).iter().enumerate() {
            let Some((partition, sub)) = by.leaf(at) else {
                continue;
            };
            let position = |n: usize| Value::UInt(n as u64 + 1);
            let sub_by = by.sub.as_ref();
            let mut row = head();
            row.extend([
                text(&partition.name),
                sub.map_or(Value::Null, |sub| text(&sub.name)),
                position(at / each),
                sub.map_or(Value::Null, |_| position(at % each)),
                text(by.method.sql_keywords()),
                sub_by.map_or(Value::Null, |sub| text(sub.method.sql_keywords())),
                text(show::quoted_expression(
                    table,
                    &by.columns,
                    by.expr.as_ref(),
                )),
                sub_by.map_or(Value::Null, |sub| {
                    text(show::quoted_expression(
                        table,
                        &sub.columns,
                        sub.expr.as_ref(),
                    ))
                }),
                show::description(table, by, partition).map_or(Value::Null, text),
            ]);
            let counted = server.db().engine().approximate_keys(&[*space]);
            let sizes = size_cells(counted, server.db().leaf_bytes(table, at));
            tail(&mut row, counted.map_or(Value::Null, Value::UInt), sizes);
            let comment = sub.map_or(&partition.comment, |sub| &sub.comment);
            row.extend([text(comment), text("default"), Value::Null]);
            rows.push(row);
        }
    }
    rows
}
