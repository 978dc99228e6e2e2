//! SHOW EVENTS, SHOW CREATE EVENT, and the rows of information_schema.EVENTS.

use crate::context::StatementContext;
use crate::event_schedule::zone_of;
use crate::results::table::{Rows, long_column, number_column, text, text_column, typed_column};
use crate::show::routines::moment;
use porpoise_access::{AuthId, Privileges};
use porpoise_rows::catalog::{Event, EventSchedule, EventState};
use porpoise_rows::show::{literal, quote};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::TableName;
use porpoise_types::{ColumnType, DateTime, SqlMode, Value};
use std::sync::Arc;

/// The events of databases on which the account has EVENT.
fn visible(cx: &StatementContext) -> Vec<Arc<Event>> {
    let rights = cx.rights();
    let catalog = cx.server.db.catalog();
    let seen = catalog.events.values();
    let seen = seen.filter(|e| rights.on_database(&e.database).has(Privileges::EVENT));
    seen.cloned().collect()
}

/// A time in the event's time zone.
fn local(event: &Event, micros: i64) -> Option<DateTime> {
    let utc = DateTime::from_unix_micros(micros)?;
    zone_of(event).utc_to_local(utc).round(0, true)
}

fn time(event: &Event, micros: Option<i64>) -> Value {
    let at = micros.and_then(|micros| local(event, micros));
    at.map_or(Value::Null, Value::DateTime)
}

fn state(event: &Event) -> &'static str {
    match event.state {
        EventState::Enabled => "ENABLED",
        EventState::Disabled => "DISABLED",
        EventState::ReplicaDisabled => "REPLICA_SIDE_DISABLED",
    }
}

/// The amount of an interval: that of a compound unit in quotes.
fn quoted_amount(amount: &str, unit: &str) -> String {
    if unit.contains('_') {
        literal(amount)
    } else {
        amount.to_owned()
    }
}

/// Type, execution time, interval, unit, start and end.
fn schedule(event: &Event) -> [Value; 6] {
    match &event.schedule {
        EventSchedule::At(at) => [
            text("ONE TIME"),
            time(event, Some(*at)),
            Value::Null,
            Value::Null,
            Value::Null,
            Value::Null,
        ],
        EventSchedule::Every {
            amount,
            unit,
            starts,
            ends,
            ..
        } => [
            text("RECURRING"),
            Value::Null,
            text(quoted_amount(amount, unit)),
            text(unit),
            time(event, Some(*starts)),
            time(event, *ends),
        ],
    }
}

/// SHOW EVENTS.
pub fn events(cx: &StatementContext, schema: Option<&str>) -> Result<Rows> {
    let database = schema.map(str::to_owned).or(cx.env.database.clone());
    let database = database.ok_or_else(SqlError::no_database_selected)?;
    cx.need_database(Privileges::EVENT, &database)?;
    let moment = |name| typed_column(name, ColumnType::datetime(0));
    let mut rows = Rows::new(vec![
        text_column("Db", 64),
        text_column("Name", 64),
        text_column("Definer", 288),
        text_column("Time zone", 64),
        text_column("Type", 9),
        moment("Execute at"),
        text_column("Interval value", 256),
        text_column("Interval field", 18),
        moment("Starts"),
        moment("Ends"),
        text_column("Status", 21),
        number_column("Originator"),
        text_column("character_set_client", 64),
        text_column("collation_connection", 64),
        text_column("Database Collation", 64),
    ]);
    for event in visible(cx) {
        if event.database != database {
            continue;
        }
        let mut row = vec![
            text(&event.database),
            text(&event.name),
            text(&event.definer),
            text(&event.time_zone),
        ];
        row.extend(schedule(&event));
        row.extend([
            text(state(&event)),
            Value::UInt(1),
            text(&event.charset),
            text(&event.collation),
            text(&event.database_collation),
        ]);
        rows.push(row);
    }
    Ok(rows)
}

/// Rows of information_schema.EVENTS.
pub(crate) fn rows(cx: &StatementContext) -> Vec<Vec<Value>> {
    let row = |event: &Arc<Event>| {
        let [kind, at, amount, unit, starts, ends] = schedule(event);
        let last = cx.server.event_runs.last(event);
        vec![
            text("def"),
            text(&event.database),
            text(&event.name),
            text(&event.definer),
            text(&event.time_zone),
            text("SQL"),
            text(&event.body),
            kind,
            at,
            amount,
            unit,
            text(SqlMode::from_bits(event.sql_mode).to_string()),
            starts,
            ends,
            text(state(event)),
            text(completion(event)),
            moment(cx, event.created),
            moment(cx, event.modified),
            last.map_or(Value::Null, |at| time(event, Some(at))),
            text(&event.comment),
            Value::UInt(1),
            text(&event.charset),
            text(&event.collation),
            text(&event.database_collation),
        ]
    };
    visible(cx).iter().map(row).collect()
}

/// Rows of information_schema.EVENT_FAILURES.
pub(crate) fn failures(cx: &StatementContext) -> Vec<Vec<Value>> {
    let row = |event: &Arc<Event>| {
        let failure = cx.server.event_runs.failure(&event.key())?;
        Some(vec![
            text(&event.database),
            text(&event.name),
            Value::UInt(failure.count),
            moment(cx, failure.at),
            Value::UInt(u64::from(failure.code)),
            text(&failure.message),
        ])
    };
    visible(cx).iter().filter_map(row).collect()
}

fn completion(event: &Event) -> &'static str {
    if event.preserve {
        "PRESERVE"
    } else {
        "NOT PRESERVE"
    }
}

/// SHOW CREATE EVENT.
pub fn create_event(cx: &StatementContext, name: &TableName<'_>) -> Result<Rows> {
    let (database, name) = cx.qualified(name)?;
    cx.need_database(Privileges::EVENT, &database)?;
    let catalog = cx.server.db.catalog();
    let event = catalog.event(&database, &name);
    let event = event.ok_or_else(|| SqlError::from(porpoise_rows::ddl::no_event(&name)))?;
    let mut rows = Rows::new(vec![
        text_column("Event", 64),
        text_column("sql_mode", 256),
        text_column("time_zone", 64),
        long_column("Create Event"),
        text_column("character_set_client", 32),
        text_column("collation_connection", 32),
        text_column("Database Collation", 32),
    ]);
    rows.push(vec![
        text(&event.name),
        text(SqlMode::from_bits(event.sql_mode).to_string()),
        text(&event.time_zone),
        text(create_text(event)),
        text(&event.charset),
        text(&event.collation),
        text(&event.database_collation),
    ]);
    Ok(rows)
}

fn create_text(event: &Event) -> String {
    let AuthId { user, host } = AuthId::parse(&event.definer);
    let shown = |micros: i64| {
        let at = local(event, micros);
        at.map_or_else(String::new, |at| literal(&at.to_string()))
    };
    let schedule = match &event.schedule {
        EventSchedule::At(at) => format!("AT {}", shown(*at)),
        EventSchedule::Every {
            amount,
            unit,
            starts,
            ends,
            ..
        } => {
            let amount = quoted_amount(amount, unit);
            let ends = ends.map_or_else(String::new, |ends| format!(" ENDS {}", shown(ends)));
            format!("EVERY {amount} {unit} STARTS {}{ends}", shown(*starts))
        }
    };
    let state = match event.state {
        EventState::Enabled => "ENABLE",
        EventState::Disabled => "DISABLE",
        EventState::ReplicaDisabled => "DISABLE ON REPLICA",
    };
    let comment = if event.comment.is_empty() {
        String::new()
    } else {
        format!(" COMMENT {}", literal(&event.comment))
    };
    format!(
        "CREATE DEFINER={}@{} EVENT {} ON SCHEDULE {schedule} ON COMPLETION {} {state}{comment} DO {}",
        quote(&user),
        quote(&host),
        quote(&event.name),
        completion(event),
        event.body
    )
}
