//! SHOW, DESCRIBE and EXPLAIN, with the column names of MySQL 8.
//!
//! [`schema`] tells of databases, tables, columns and indexes; [`server`] of
//! variables, counters and sessions; [`explain`] of plans. Each makes a
//! [`table::Rows`], which LIKE and WHERE filter through the ordinary
//! evaluator.

mod accounts;
pub mod constraints;
pub mod explain;
mod explain_columns;
mod explain_keys;
mod expression;
mod plan_json;
pub mod schema;
pub mod server;
pub mod table;
mod tree;

use crate::error::{Result, SqlError};
use crate::exec::ResultSink;
use crate::parse::ast::{EngineReport, ProgramKind, Show, ShowFilter, ShowWhat, TableName};
use crate::session::{Outcome, SqlSession};
use porpoise_types::{ColumnType, ValueRef};
use table::{Rows, number_column, text_column, typed_column};

/// SHOW. Filters act on the first column unless said otherwise.
pub fn show(
    session: &mut SqlSession,
    show: &Show<'_>,
    params: &[ValueRef<'_>],
    types: &[ColumnType],
    sink: &mut dyn ResultSink,
) -> Result<Outcome> {
    let mut rows = rows(session, show)?;
    rows.filter(session, 0, &show.filter, params, types)?;
    rows.limit(session, show.limit, params, types)?;
    rows.send(session, sink)
}

fn rows(session: &SqlSession, show: &Show<'_>) -> Result<Rows> {
    let like = match show.filter {
        ShowFilter::Like(pattern) => Some(String::from_utf8_lossy(pattern).into_owned()),
        _ => None,
    };
    match &show.what {
        ShowWhat::Databases => schema::databases(session, like.as_deref()),
        ShowWhat::Tables { full, schema, .. } => {
            schema::table_names(session, schema.map(|s| s.name), *full, like.as_deref())
        }
        ShowWhat::TableStatus(schema) => schema::table_status(session, schema.map(|s| s.name)),
        ShowWhat::OpenTables(_) => Ok(Rows::new(vec![
            text_column("Database", 64),
            text_column("Table", 64),
            number_column("In_use"),
            number_column("Name_locked"),
        ])),
        ShowWhat::Columns { full, table, .. } => schema::columns(session, table, *full),
        ShowWhat::Index { table, .. } => schema::indexes(session, table),
        ShowWhat::CreateTable(table) => schema::create_table(session, table),
        ShowWhat::CreateView(name) => match schema::create_view(session, name)? {
            Some(rows) => Ok(rows),
            None => {
                // 1146 where there is no table either.
                schema::create_table(session, name)?;
                let (database, name) = crate::session::dispatch::qualified(session, name)?;
                let text = format!("'{database}.{name}' is not VIEW");
                Err(SqlError::new(1347, "HY000", text))
            }
        },
        ShowWhat::CreateDatabase {
            if_not_exists,
            name,
        } => schema::create_database(session, name.name, *if_not_exists),
        ShowWhat::Variables(scope) => Ok(server::variables(session, *scope)),
        ShowWhat::Status(_) => Ok(server::status(session)),
        ShowWhat::Warnings => Ok(server::conditions(session, false)),
        ShowWhat::Errors => Ok(server::conditions(session, true)),
        ShowWhat::CountWarnings => Ok(server::condition_count(session, false)),
        ShowWhat::CountErrors => Ok(server::condition_count(session, true)),
        ShowWhat::Processlist(full) => Ok(server::processes(session, *full)),
        ShowWhat::Engines => Ok(server::engines()),
        ShowWhat::Engine(name, EngineReport::Status) => server::engine_status(session, name.name),
        ShowWhat::MemcachedKey(key) => Ok(server::memcached_key(session, key)),
        ShowWhat::Charset => Ok(server::charsets()),
        ShowWhat::Collation => Ok(server::collations()),
        ShowWhat::Grants(account, using) => accounts::grants(session, account.as_ref(), using),
        ShowWhat::CreateUser(account) => accounts::create_user(session, account),
        ShowWhat::Plugins => Ok(server::plugins()),
        ShowWhat::Privileges => Ok(Rows::new(vec![
            text_column("Privilege", 30),
            text_column("Context", 50),
            text_column("Comment", 200),
        ])),
        other => empty_or_refused(other),
    }
}

/// Columns of SHOW TRIGGERS.
const TRIGGERS: &[&str] = &[
    "Trigger",
    "Event",
    "Table",
    "Statement",
    "Timing",
    "Created",
    "sql_mode",
    "Definer",
    "character_set_client",
    "collation_connection",
    "Database Collation",
];

/// Columns of SHOW EVENTS.
const EVENTS: &[&str] = &[
    "Db",
    "Name",
    "Definer",
    "Time zone",
    "Type",
    "Execute at",
    "Interval value",
    "Interval field",
    "Starts",
    "Ends",
    "Status",
    "Originator",
    "character_set_client",
    "collation_connection",
    "Database Collation",
];

/// Columns of SHOW PROCEDURE STATUS and SHOW FUNCTION STATUS.
const PROGRAMS: &[&str] = &[
    "Db",
    "Name",
    "Type",
    "Definer",
    "Modified",
    "Created",
    "Security_type",
    "Comment",
    "character_set_client",
    "collation_connection",
    "Database Collation",
];

/// What there is none of is shown as an empty result; the rest is refused.
fn empty_or_refused(what: &ShowWhat<'_>) -> Result<Rows> {
    let texts = |names: &[&str]| {
        let columns = names.iter().map(|n| text_column(n, 256));
        Ok(Rows::new(columns.collect()))
    };
    match what {
        ShowWhat::Triggers(_) => texts(TRIGGERS),
        ShowWhat::Events(_) => texts(EVENTS),
        ShowWhat::ProgramStatus(_) => texts(PROGRAMS),
        ShowWhat::Profiles => Ok(Rows::new(vec![
            number_column("Query_ID"),
            typed_column("Duration", ColumnType::double()),
            text_column("Query", 300),
        ])),
        ShowWhat::Replicas | ShowWhat::ReplicaStatus => texts(&["Replica_IO_State"]),
        ShowWhat::BinaryLogs | ShowWhat::BinaryLogStatus | ShowWhat::BinlogEvents(..) => Err(
            SqlError::new(1381, "HY000", "You are not using binary logging"),
        ),
        ShowWhat::CreateProgram(kind, name) => {
            let kind = match kind {
                ProgramKind::Procedure => "PROCEDURE",
                ProgramKind::Function => "FUNCTION",
                ProgramKind::Trigger => "TRIGGER",
                ProgramKind::Event => "EVENT",
            };
            let text = format!("{kind} {} does not exist", name.name.name);
            Err(SqlError::new(1305, "42000", text))
        }
        ShowWhat::Engine(..) => Err(SqlError::not_supported("SHOW ENGINE MUTEX and LOGS")),
        ShowWhat::ProgramCode(..) => Err(SqlError::not_supported("SHOW PROCEDURE CODE")),
        _ => Err(SqlError::not_supported("this SHOW")),
    }
}

/// DESCRIBE t, EXPLAIN t, with a column or a pattern.
pub fn describe(
    session: &mut SqlSession,
    table: &TableName<'_>,
    column: Option<&[u8]>,
    sink: &mut dyn ResultSink,
) -> Result<Outcome> {
    let mut rows = schema::columns(session, table, false)?;
    if let Some(pattern) = column {
        rows.filter(session, 0, &ShowFilter::Like(pattern), &[], &[])?;
    }
    rows.send(session, sink)
}
