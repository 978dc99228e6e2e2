//! SHOW TRIGGERS, SHOW CREATE TRIGGER, and the rows of information_schema.TRIGGERS.

use super::routines::moment;
use crate::context::StatementContext;
use crate::results::table::{Rows, long_column, text, text_column, typed_column};
use porpoise_access::{AuthId, Privileges};
use porpoise_rows::catalog::Table;
use porpoise_rows::show::quote;
use porpoise_rows::triggers::Trigger;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::TableName;
use porpoise_types::{ColumnType, SqlMode, Value};
use std::sync::Arc;

/// The tables of a database, or of all, on which the account has the privilege TRIGGER, and that
/// have triggers; by database and name.
fn tables(cx: &StatementContext, database: Option<&str>) -> Vec<Arc<Table>> {
    let rights = cx.rights();
    let catalog = cx.server.db.catalog();
    let all = catalog.tables.values();
    let seen = all.filter(|t| {
        !t.triggers.is_empty()
            && database.is_none_or(|database| t.database == database)
            && rights
                .on_table(&t.database, &t.name)
                .has(Privileges::TRIGGER)
    });
    let mut seen: Vec<Arc<Table>> = seen.cloned().collect();
    seen.sort_by(|a, b| (&a.database, &a.name).cmp(&(&b.database, &b.name)));
    seen
}

/// The place of a trigger among those of the same time and event, from 1.
fn order_of(table: &Table, trigger: &Trigger) -> u64 {
    let before = table.triggers.iter().take_while(|t| t.name != trigger.name);
    let same = before.filter(|t| t.time == trigger.time && t.event == trigger.event);
    same.count() as u64 + 1
}

/// SHOW TRIGGERS.
///
/// # Errors
/// 1046 without a database.
pub fn triggers(cx: &StatementContext, database: Option<&str>) -> Result<Rows> {
    let database = match database {
        Some(database) => database.to_owned(),
        None => cx
            .env
            .database
            .clone()
            .ok_or_else(SqlError::no_database_selected)?,
    };
    let mut rows = Rows::new(vec![
        text_column("Trigger", 64),
        text_column("Event", 6),
        text_column("Table", 64),
        long_column("Statement"),
        text_column("Timing", 6),
        typed_column("Created", ColumnType::timestamp(2)),
        text_column("sql_mode", 520),
        text_column("Definer", 288),
        text_column("character_set_client", 64),
        text_column("collation_connection", 64),
        text_column("Database Collation", 64),
    ]);
    for table in tables(cx, Some(&database)) {
        for t in table.triggers.iter() {
            rows.push(vec![
                text(&t.name),
                text(t.event.name()),
                text(&table.name),
                text(&t.body),
                text(t.time.name()),
                moment(cx, t.created),
                text(SqlMode::from_bits(t.sql_mode).to_string()),
                text(&t.definer),
                text(&t.charset),
                text(&t.collation),
                text(&t.database_collation),
            ]);
        }
    }
    Ok(rows)
}

/// The statement that creates a trigger, as SHOW CREATE TRIGGER shows it.
fn create_text(table: &Table, trigger: &Trigger) -> String {
    let AuthId { user, host } = AuthId::parse(&trigger.definer);
    format!(
        "CREATE DEFINER={}@{} TRIGGER {} {} {} ON {} FOR EACH ROW {}",
        quote(&user),
        quote(&host),
        quote(&trigger.name),
        trigger.time.name(),
        trigger.event.name(),
        quote(&table.name),
        trigger.body
    )
}

/// SHOW CREATE TRIGGER.
///
/// # Errors
/// 1360 if it does not exist or the account may not see it.
pub fn create_trigger(cx: &StatementContext, name: &TableName<'_>) -> Result<Rows> {
    let (database, name) = cx.qualified(name)?;
    let catalog = cx.server.db.catalog();
    let found = catalog.trigger(&database, &name);
    let seen = found.filter(|(table, _)| {
        let rights = cx.rights();
        let own = rights.on_table(&table.database, &table.name);
        own.has(Privileges::TRIGGER)
    });
    let missing = || SqlError::new(1360, "HY000", "Trigger does not exist");
    let (table, trigger) = seen.ok_or_else(missing)?;
    let mut rows = Rows::new(vec![
        text_column("Trigger", 64),
        text_column("sql_mode", 256),
        long_column("SQL Original Statement"),
        text_column("character_set_client", 32),
        text_column("collation_connection", 32),
        text_column("Database Collation", 32),
        typed_column("Created", ColumnType::timestamp(2)),
    ]);
    rows.push(vec![
        text(&trigger.name),
        text(SqlMode::from_bits(trigger.sql_mode).to_string()),
        text(create_text(table, trigger)),
        text(&trigger.charset),
        text(&trigger.collation),
        text(&trigger.database_collation),
        moment(cx, trigger.created),
    ]);
    Ok(rows)
}

/// Rows of information_schema.TRIGGERS.
pub(crate) fn information_schema(cx: &StatementContext) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for table in tables(cx, None) {
        for t in table.triggers.iter() {
            rows.push(vec![
                text("def"),
                text(&table.database),
                text(&t.name),
                text(t.event.name()),
                text("def"),
                text(&table.database),
                text(&table.name),
                Value::UInt(order_of(&table, t)),
                Value::Null,
                text(&t.body),
                text("ROW"),
                text(t.time.name()),
                Value::Null,
                Value::Null,
                text("OLD"),
                text("NEW"),
                moment(cx, t.created),
                text(SqlMode::from_bits(t.sql_mode).to_string()),
                text(&t.definer),
                text(&t.charset),
                text(&t.collation),
                text(&t.database_collation),
            ]);
        }
    }
    rows
}
