//! SHOW, DESCRIBE and EXPLAIN, with the column names of MySQL 8.
//!
//! [`schema`] shows databases, tables, columns and indexes; [`server`] variables, counters and
//! sessions; [`explain`] plans. Each produces [`Rows`], which LIKE and WHERE filter with the
//! expression evaluator.

mod accounts;
mod binary_log;
pub mod constraints;
pub(crate) mod definition_text;
pub(crate) mod events;
pub mod explain;
mod explain_columns;
mod explain_keys;
mod expression;
pub(crate) mod hot_keys;
mod plan_json;
pub(crate) mod replica;
pub(crate) mod routines;
pub mod schema;
pub mod server;
pub(crate) mod tree;
pub(crate) mod triggers;

use crate::context::StatementContext;
use crate::results::Outcome;
use crate::results::table::{self, Rows, number_column, text_column, typed_column};
use porpoise_sql_exec::exec::ResultSink;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{EngineReport, ProgramKind, Show, ShowFilter, ShowWhat, TableName};
use porpoise_types::{ColumnType, ValueRef};

/// Executes SHOW. LIKE applies to the first column unless noted otherwise.
pub fn show(
    cx: &mut StatementContext,
    show: &Show<'_>,
    params: &[ValueRef<'_>],
    types: &[ColumnType],
    sink: &mut dyn ResultSink,
) -> Result<Outcome> {
    let mut rows = rows(cx, show)?;
    // The column that LIKE compares: the name of the object, but of triggers that of the table.
    let named = match show.what {
        ShowWhat::Triggers(_) => 2,
        ShowWhat::ProgramStatus(_) | ShowWhat::Events(_) => 1,
        _ => 0,
    };
    rows.filter(cx, named, &show.filter, params, types)?;
    rows.limit(cx, show.limit, params, types)?;
    rows.send(cx, sink)
}

fn rows(cx: &StatementContext, show: &Show<'_>) -> Result<Rows> {
    let like = match show.filter {
        ShowFilter::Like(pattern) => Some(String::from_utf8_lossy(pattern).into_owned()),
        _ => None,
    };
    match &show.what {
        ShowWhat::Databases => schema::databases(cx, like.as_deref()),
        ShowWhat::Tables { full, schema, .. } => {
            schema::table_names(cx, schema.map(|s| s.name), *full, like.as_deref())
        }
        ShowWhat::TableStatus(schema) => schema::table_status(cx, schema.map(|s| s.name)),
        ShowWhat::OpenTables(_) => Ok(Rows::new(vec![
            text_column("Database", 64),
            text_column("Table", 64),
            number_column("In_use"),
            number_column("Name_locked"),
        ])),
        ShowWhat::Columns { full, table, .. } => schema::columns(cx, table, *full),
        ShowWhat::Index { table, .. } => schema::indexes(cx, table),
        ShowWhat::CreateTable(table) => schema::create_table(cx, table),
        ShowWhat::CreateView(name) => match schema::create_view(cx, name)? {
            Some(rows) => Ok(rows),
            None => {
                // Error 1146 if there is no such table either.
                schema::create_table(cx, name)?;
                let (database, name) = cx.qualified(name)?;
                let text = format!("'{database}.{name}' is not VIEW");
                Err(SqlError::new(1347, "HY000", text))
            }
        },
        ShowWhat::CreateDatabase {
            if_not_exists,
            name,
        } => schema::create_database(cx, name.name, *if_not_exists),
        ShowWhat::Variables(scope) => Ok(server::variables(cx, *scope)),
        ShowWhat::Status(scope) => Ok(server::status(cx, *scope)),
        ShowWhat::Warnings => Ok(server::conditions(cx, false)),
        ShowWhat::Errors => Ok(server::conditions(cx, true)),
        ShowWhat::CountWarnings => Ok(server::condition_count(cx, false)),
        ShowWhat::CountErrors => Ok(server::condition_count(cx, true)),
        ShowWhat::Processlist(full) => Ok(server::processes(cx, *full)),
        ShowWhat::Engines => Ok(server::engines(cx)),
        ShowWhat::Engine(name, EngineReport::Status) => server::engine_status(cx, name.name),
        ShowWhat::KeyMapping(key) => Ok(server::key_mapping(cx, key)),
        ShowWhat::HotKeys(table) => hot_keys::show(cx, table.as_ref(), show.limit.is_none()),
        ShowWhat::Charset => Ok(server::charsets()),
        ShowWhat::Collation => Ok(server::collations()),
        ShowWhat::Grants(account, using) => accounts::grants(cx, account.as_ref(), using),
        ShowWhat::CreateUser(account) => accounts::create_user(cx, account),
        ShowWhat::CreateProgram(kind @ (ProgramKind::Procedure | ProgramKind::Function), name) => {
            routines::create_routine(cx, *kind, name)
        }
        ShowWhat::CreateProgram(ProgramKind::Event, name) => events::create_event(cx, name),
        ShowWhat::Events(schema) => events::events(cx, schema.map(|s| s.name)),
        ShowWhat::CreateProgram(ProgramKind::Trigger, name) => triggers::create_trigger(cx, name),
        ShowWhat::Triggers(database) => triggers::triggers(cx, database.map(|d| d.name)),
        ShowWhat::ProgramStatus(kind) => Ok(routines::routine_status(cx, *kind)),
        ShowWhat::ReplicaStatus(old_names) => Ok(replica::status(cx, *old_names)),
        ShowWhat::Plugins => Ok(server::plugins()),
        ShowWhat::Privileges => Ok(Rows::new(vec![
            text_column("Privilege", 30),
            text_column("Context", 50),
            text_column("Comment", 200),
        ])),
        other => of_binary_log(cx, other),
    }
}

/// The binary log: its files, their events, and its readers.
fn of_binary_log(cx: &StatementContext, what: &ShowWhat<'_>) -> Result<Rows> {
    match what {
        ShowWhat::BinaryLogStatus => Ok(binary_log::status(cx)),
        ShowWhat::BinaryLogs => binary_log::files(cx),
        ShowWhat::BinlogEvents(file, position) => binary_log::events(cx, *file, *position),
        ShowWhat::Replicas => Ok(binary_log::replicas(cx)),
        other => empty_or_unsupported(other),
    }
}

/// An empty result for kinds of objects that cannot exist here; an error for the rest.
fn empty_or_unsupported(what: &ShowWhat<'_>) -> Result<Rows> {
    match what {
        ShowWhat::Profiles => Ok(Rows::new(vec![
            number_column("Query_ID"),
            typed_column("Duration", ColumnType::double()),
            text_column("Query", 300),
        ])),
        ShowWhat::Engine(..) => Err(SqlError::not_supported("SHOW ENGINE MUTEX and LOGS")),
        ShowWhat::ProgramCode(kind, _) => {
            let statement = match kind {
                ProgramKind::Function => "SHOW FUNCTION CODE",
                _ => "SHOW PROCEDURE CODE",
            };
            Err(SqlError::new(
                1289,
                "HY000",
                format!(
                    "The '{statement}' feature is disabled; you need MySQL built with '--with-debug' \
                     to have it working"
                ),
            ))
        }
        _ => Err(SqlError::not_supported("this SHOW")),
    }
}

/// DESCRIBE t and EXPLAIN t, with an optional column or pattern.
pub fn describe(
    cx: &mut StatementContext,
    table: &TableName<'_>,
    column: Option<&[u8]>,
    sink: &mut dyn ResultSink,
) -> Result<Outcome> {
    let mut rows = schema::columns(cx, table, false)?;
    if let Some(pattern) = column {
        rows.filter(cx, 0, &ShowFilter::Like(pattern), &[], &[])?;
    }
    rows.send(cx, sink)
}
