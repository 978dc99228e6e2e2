//! SCHEMATA, TABLES, VIEWS, PARTITIONS, CHECK_CONSTRAINTS, and the tables of
//! what this server does not have.

use super::T;
use crate::plan::views::describe;
use crate::session::SqlSession;
use crate::show::schema::{database_names, virtual_type};
use crate::show::table::text;
use crate::virtual_tables;
use porpoise_access::Privileges;
use porpoise_rows::catalog::{CheckOption, Table, View};
use porpoise_rows::show_partitions;
use porpoise_types::{Collation, DateTime, Value};
use std::sync::Arc;

/// Columns of SCHEMATA.
pub(super) const SCHEMATA: &[(&str, T)] = &[
    ("CATALOG_NAME", T::Text(64)),
    ("SCHEMA_NAME", T::Name),
    ("DEFAULT_CHARACTER_SET_NAME", T::Text(64)),
    ("DEFAULT_COLLATION_NAME", T::Text(64)),
    ("SQL_PATH", T::Nothing),
    ("DEFAULT_ENCRYPTION", T::Text(3)),
];

/// Columns of TABLES.
pub(super) const TABLES: &[(&str, T)] = &[
    ("TABLE_CATALOG", T::Text(64)),
    ("TABLE_SCHEMA", T::Name),
    ("TABLE_NAME", T::Name),
    ("TABLE_TYPE", T::Text(11)),
    ("ENGINE", T::Text(64)),
    ("VERSION", T::Int),
    ("ROW_FORMAT", T::Text(10)),
    ("TABLE_ROWS", T::BigUnsigned),
    ("AVG_ROW_LENGTH", T::BigUnsigned),
    ("DATA_LENGTH", T::BigUnsigned),
    ("MAX_DATA_LENGTH", T::BigUnsigned),
    ("INDEX_LENGTH", T::BigUnsigned),
    ("DATA_FREE", T::BigUnsigned),
    ("AUTO_INCREMENT", T::BigUnsigned),
    ("CREATE_TIME", T::Moment),
    ("UPDATE_TIME", T::Moment),
    ("CHECK_TIME", T::Moment),
    ("TABLE_COLLATION", T::Text(64)),
    ("CHECKSUM", T::Big),
    ("CREATE_OPTIONS", T::Text(256)),
    ("TABLE_COMMENT", T::Long),
];

/// Columns of VIEWS.
pub(super) const VIEWS: &[(&str, T)] = &[
    ("TABLE_CATALOG", T::Text(64)),
    ("TABLE_SCHEMA", T::Name),
    ("TABLE_NAME", T::Name),
    ("VIEW_DEFINITION", T::Long),
    ("CHECK_OPTION", T::Text(8)),
    ("IS_UPDATABLE", T::Text(3)),
    ("DEFINER", T::Text(288)),
    ("SECURITY_TYPE", T::Text(7)),
    ("CHARACTER_SET_CLIENT", T::Text(64)),
    ("COLLATION_CONNECTION", T::Text(64)),
];

/// Columns of CHECK_CONSTRAINTS.
pub(super) const CHECK_CONSTRAINTS: &[(&str, T)] = &[
    ("CONSTRAINT_CATALOG", T::Text(64)),
    ("CONSTRAINT_SCHEMA", T::Name),
    ("CONSTRAINT_NAME", T::Text(64)),
    ("CHECK_CLAUSE", T::Long),
];

/// Columns of TABLE_CONSTRAINTS.
pub(super) const TABLE_CONSTRAINTS: &[(&str, T)] = &[
    ("CONSTRAINT_CATALOG", T::Text(64)),
    ("CONSTRAINT_SCHEMA", T::Name),
    ("CONSTRAINT_NAME", T::Text(64)),
    ("TABLE_SCHEMA", T::Name),
    ("TABLE_NAME", T::Name),
    ("CONSTRAINT_TYPE", T::Text(11)),
    ("ENFORCED", T::Text(3)),
];

/// Columns of KEY_COLUMN_USAGE.
pub(super) const KEY_COLUMN_USAGE: &[(&str, T)] = &[
    ("CONSTRAINT_CATALOG", T::Text(64)),
    ("CONSTRAINT_SCHEMA", T::Name),
    ("CONSTRAINT_NAME", T::Text(64)),
    ("TABLE_CATALOG", T::Text(64)),
    ("TABLE_SCHEMA", T::Name),
    ("TABLE_NAME", T::Name),
    ("COLUMN_NAME", T::Text(64)),
    ("ORDINAL_POSITION", T::Unsigned),
    ("POSITION_IN_UNIQUE_CONSTRAINT", T::Unsigned),
    ("REFERENCED_TABLE_SCHEMA", T::Name),
    ("REFERENCED_TABLE_NAME", T::Name),
    ("REFERENCED_COLUMN_NAME", T::Text(64)),
];

/// Columns of REFERENTIAL_CONSTRAINTS.
pub(super) const REFERENTIAL_CONSTRAINTS: &[(&str, T)] = &[
    ("CONSTRAINT_CATALOG", T::Text(64)),
    ("CONSTRAINT_SCHEMA", T::Name),
    ("CONSTRAINT_NAME", T::Text(64)),
    ("UNIQUE_CONSTRAINT_CATALOG", T::Text(64)),
    ("UNIQUE_CONSTRAINT_SCHEMA", T::Name),
    ("UNIQUE_CONSTRAINT_NAME", T::Text(64)),
    ("MATCH_OPTION", T::Text(7)),
    ("UPDATE_RULE", T::Text(11)),
    ("DELETE_RULE", T::Text(11)),
    ("TABLE_NAME", T::Name),
    ("REFERENCED_TABLE_NAME", T::Name),
];

/// Columns of PARTITIONS.
pub(super) const PARTITIONS: &[(&str, T)] = &[
    ("TABLE_CATALOG", T::Text(64)),
    ("TABLE_SCHEMA", T::Name),
    ("TABLE_NAME", T::Name),
    ("PARTITION_NAME", T::Text(64)),
    ("SUBPARTITION_NAME", T::Text(64)),
    ("PARTITION_ORDINAL_POSITION", T::Unsigned),
    ("SUBPARTITION_ORDINAL_POSITION", T::Unsigned),
    ("PARTITION_METHOD", T::Text(13)),
    ("SUBPARTITION_METHOD", T::Text(13)),
    ("PARTITION_EXPRESSION", T::Text(2048)),
    ("SUBPARTITION_EXPRESSION", T::Text(2048)),
    ("PARTITION_DESCRIPTION", T::Long),
    ("TABLE_ROWS", T::BigUnsigned),
    ("AVG_ROW_LENGTH", T::BigUnsigned),
    ("DATA_LENGTH", T::BigUnsigned),
    ("MAX_DATA_LENGTH", T::BigUnsigned),
    ("INDEX_LENGTH", T::BigUnsigned),
    ("DATA_FREE", T::BigUnsigned),
    ("CREATE_TIME", T::Moment),
    ("UPDATE_TIME", T::Moment),
    ("CHECK_TIME", T::Moment),
    ("CHECKSUM", T::Big),
    ("PARTITION_COMMENT", T::Long),
    ("NODEGROUP", T::Text(256)),
    ("TABLESPACE_NAME", T::Text(268)),
];

/// Columns of TRIGGERS.
pub(super) const TRIGGERS: &[(&str, T)] = &[
    ("TRIGGER_CATALOG", T::Text(64)),
    ("TRIGGER_SCHEMA", T::Name),
    ("TRIGGER_NAME", T::Text(64)),
    ("EVENT_MANIPULATION", T::Text(6)),
    ("EVENT_OBJECT_CATALOG", T::Text(64)),
    ("EVENT_OBJECT_SCHEMA", T::Name),
    ("EVENT_OBJECT_TABLE", T::Name),
    ("ACTION_ORDER", T::Unsigned),
    ("ACTION_CONDITION", T::Nothing),
    ("ACTION_STATEMENT", T::Long),
    ("ACTION_ORIENTATION", T::Text(3)),
    ("ACTION_TIMING", T::Text(6)),
    ("ACTION_REFERENCE_OLD_TABLE", T::Nothing),
    ("ACTION_REFERENCE_NEW_TABLE", T::Nothing),
    ("ACTION_REFERENCE_OLD_ROW", T::Text(3)),
    ("ACTION_REFERENCE_NEW_ROW", T::Text(3)),
    ("CREATED", T::Moment),
    ("SQL_MODE", T::Text(520)),
    ("DEFINER", T::Text(288)),
    ("CHARACTER_SET_CLIENT", T::Text(64)),
    ("COLLATION_CONNECTION", T::Text(64)),
    ("DATABASE_COLLATION", T::Text(64)),
];

/// Columns of ROUTINES.
pub(super) const ROUTINES: &[(&str, T)] = &[
    ("SPECIFIC_NAME", T::Text(64)),
    ("ROUTINE_CATALOG", T::Text(64)),
    ("ROUTINE_SCHEMA", T::Name),
    ("ROUTINE_NAME", T::Text(64)),
    ("ROUTINE_TYPE", T::Text(9)),
    ("DATA_TYPE", T::Long),
    ("CHARACTER_MAXIMUM_LENGTH", T::Big),
    ("CHARACTER_OCTET_LENGTH", T::Big),
    ("NUMERIC_PRECISION", T::Unsigned),
    ("NUMERIC_SCALE", T::Unsigned),
    ("DATETIME_PRECISION", T::Unsigned),
    ("CHARACTER_SET_NAME", T::Text(64)),
    ("COLLATION_NAME", T::Text(64)),
    ("DTD_IDENTIFIER", T::Long),
    ("ROUTINE_BODY", T::Text(8)),
    ("ROUTINE_DEFINITION", T::Long),
    ("EXTERNAL_NAME", T::Nothing),
    ("EXTERNAL_LANGUAGE", T::Text(64)),
    ("PARAMETER_STYLE", T::Text(3)),
    ("IS_DETERMINISTIC", T::Text(3)),
    ("SQL_DATA_ACCESS", T::Text(17)),
    ("SQL_PATH", T::Nothing),
    ("SECURITY_TYPE", T::Text(7)),
    ("CREATED", T::Moment),
    ("LAST_ALTERED", T::Moment),
    ("SQL_MODE", T::Text(520)),
    ("ROUTINE_COMMENT", T::Long),
    ("DEFINER", T::Text(288)),
    ("CHARACTER_SET_CLIENT", T::Text(64)),
    ("COLLATION_CONNECTION", T::Text(64)),
    ("DATABASE_COLLATION", T::Text(64)),
];

/// Columns of EVENTS.
pub(super) const EVENTS: &[(&str, T)] = &[
    ("EVENT_CATALOG", T::Text(64)),
    ("EVENT_SCHEMA", T::Name),
    ("EVENT_NAME", T::Text(64)),
    ("DEFINER", T::Text(288)),
    ("TIME_ZONE", T::Text(64)),
    ("EVENT_BODY", T::Text(3)),
    ("EVENT_DEFINITION", T::Long),
    ("EVENT_TYPE", T::Text(9)),
    ("EXECUTE_AT", T::Moment),
    ("INTERVAL_VALUE", T::Text(256)),
    ("INTERVAL_FIELD", T::Text(18)),
    ("SQL_MODE", T::Text(520)),
    ("STARTS", T::Moment),
    ("ENDS", T::Moment),
    ("STATUS", T::Text(21)),
    ("ON_COMPLETION", T::Text(12)),
    ("CREATED", T::Moment),
    ("LAST_ALTERED", T::Moment),
    ("LAST_EXECUTED", T::Moment),
    ("EVENT_COMMENT", T::Text(2048)),
    ("ORIGINATOR", T::Unsigned),
    ("CHARACTER_SET_CLIENT", T::Text(64)),
    ("COLLATION_CONNECTION", T::Text(64)),
    ("DATABASE_COLLATION", T::Text(64)),
];

/// Rows of SCHEMATA.
pub(super) fn schemata(session: &SqlSession) -> Vec<Vec<Value>> {
    let catalog = session.visible_catalog();
    let rights = session.rights();
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
pub(super) fn tables(session: &SqlSession) -> Vec<Vec<Value>> {
    let server = &session.server;
    let catalog = session.visible_catalog();
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
            Value::Int(10),
            text("Dynamic"),
            server.statistics.rows(server.db(), table),
        ];
        row.extend(nulls(5));
        row.push(next.map_or(Value::Null, Value::UInt));
        row.push(created(table));
        row.extend(nulls(2));
        row.push(text(table.options.collation.name()));
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
        row.extend(nulls(15));
        row.extend([text(""), text("VIEW")]);
        rows.push(row);
    }
    for table in virtual_tables::all() {
        let mut row = vec![
            text("def"),
            text(table.database),
            text(table.name),
            text(virtual_type(table)),
            Value::Null,
            Value::Int(10),
        ];
        row.extend(nulls(13));
        row.extend([text(""), text("")]);
        rows.push(row);
    }
    rows
}

/// Rows of VIEWS.
pub(super) fn views(session: &SqlSession) -> Vec<Vec<Value>> {
    let catalog = session.visible_catalog();
    let everything = session.server.db().catalog();
    let rights = session.rights();
    let row = |view: &Arc<View>| {
        let may = rights.on_table(&view.database, &view.name);
        let own = view.definer == session.client.account;
        let query = match own || may.has(Privileges::SHOW_VIEW) {
            true => view.query.as_str(),
            false => "",
        };
        let updatable = describe(&everything, view).is_ok_and(|d| d.updatable);
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

/// Rows of PARTITIONS: one for a table that is not partitioned.
pub(super) fn partitions(session: &SqlSession) -> Vec<Vec<Value>> {
    let server = &session.server;
    let catalog = session.visible_catalog();
    let mut rows = Vec::new();
    for table in super::tables(&catalog) {
        let head = || vec![text("def"), text(&table.database), text(&table.name)];
        let tail = |row: &mut Vec<Value>, rows: Value| {
            row.push(rows);
            row.extend(nulls(5));
            row.push(created(table));
            row.extend(nulls(3));
        };
        let Some(by) = &table.partitioning else {
            let mut row = head();
            row.extend(nulls(9));
            tail(&mut row, server.statistics.rows(server.db(), table));
            row.extend([text(""), Value::Null, Value::Null]);
            rows.push(row);
            continue;
        };
        for (at, partition) in (1u64..).zip(&by.partitions) {
            let mut row = head();
            row.extend([
                text(&partition.name),
                Value::Null,
                Value::UInt(at),
                Value::Null,
                text(by.method.words()),
                Value::Null,
                text(show_partitions::quoted_expression(table, by)),
                Value::Null,
                show_partitions::description(table, by, partition).map_or(Value::Null, text),
            ]);
            let space = usize::try_from(at - 1).ok();
            let space = space.and_then(|at| table.index_spaces(0).get(at));
            let counted = space.and_then(|s| server.db().engine().approximate_keys(&[*s]));
            tail(&mut row, counted.map_or(Value::Null, Value::UInt));
            row.extend([text(&partition.comment), text("default"), Value::Null]);
            rows.push(row);
        }
    }
    rows
}
