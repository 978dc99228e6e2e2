//! `mysql.event_runs`: the last runs of events, for LAST_EXECUTED of information_schema.EVENTS and for the
//! scheduler, which must not repeat a one-time event. MySQL keeps them in the data dictionary. Here
//! an event's definition is a row of the catalog; changing it at every run would give the catalog a
//! new version each time, and invalidate all plans.

use crate::system_table::{self, SystemTable, TableChange, text_column, text_of};
use porpoise_rows::Db;
use porpoise_rows::catalog::{EventKey, TableOptions};
use porpoise_rows::ddl::{ColumnSpec, IndexSpec, TableSpec};
use porpoise_rows::row::RowRef;
use porpoise_types::{Collation, ColumnType, DateTime, Value, ValueRef};
use std::sync::Arc;

/// The last run of an event. Times are microseconds since 1970 UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRun {
    /// The event.
    pub event: EventKey,
    /// Time of the event's creation: a later event of the same name has not run.
    pub created: i64,
    /// Start of the run.
    pub began: i64,
}

pub(crate) static EVENT_RUNS: SystemTable = SystemTable {
    database: "mysql",
    name: "event_runs",
    column_count: 4,
};

fn spec() -> TableSpec {
    let moment = |name: &str| ColumnSpec::new(name, ColumnType::timestamp(6)).not_null();
    let columns = vec![
        text_column("Event_schema", 64),
        text_column("Event_name", 64),
        moment("Created"),
        moment("Last_executed"),
    ];
    let options = TableOptions {
        comment: "Last runs of events".to_owned(),
        ..TableOptions::new(Collation::UTF8MB4_BIN)
    };
    let key = vec![IndexSpec::primary(&["Event_schema", "Event_name"])];
    TableSpec {
        if_not_exists: true,
        ..TableSpec::new(EVENT_RUNS.database, EVENT_RUNS.name, columns, key, options)
    }
}

/// All recorded runs.
///
/// # Errors
/// Reading the table failed.
pub fn load(db: &Arc<Db>) -> crate::Result<Vec<EventRun>> {
    if !EVENT_RUNS.exists(db) {
        return Ok(Vec::new());
    }
    let time = |row: &RowRef<'_>, column| match row.get(column) {
        ValueRef::DateTime(at) => at.to_unix_micros(),
        _ => 0,
    };
    EVENT_RUNS.rows(db, |row| EventRun {
        event: (text_of(row, 0), text_of(row, 1)),
        created: time(row, 2),
        began: time(row, 3),
    })
}

fn row(event: &EventKey, created: i64, began: i64) -> Vec<Value> {
    let text = |text: &str| Value::Bytes(text.as_bytes().to_vec());
    let time = |at| DateTime::from_unix_micros(at).map_or(Value::Null, Value::DateTime);
    vec![text(&event.0), text(&event.1), time(created), time(began)]
}

/// Records the start of a run: one row is written. Creates the table if there is none. Waits until
/// the record is durable if `durable`.
///
/// # Errors
/// Creating or writing the table failed.
pub fn record(db: &Arc<Db>, run: &EventRun, durable: bool) -> crate::Result<()> {
    EVENT_RUNS.ensure(db, spec)?;
    let change = TableChange {
        table: &EVENT_RUNS,
        put: vec![row(&run.event, run.created, run.began)],
        remove: Vec::new(),
    };
    let position = system_table::write(db, vec![change])?;
    if durable {
        db.engine().wait_durable(position)?;
    }
    Ok(())
}

/// Deletes the runs of events that no longer exist.
///
/// # Errors
/// Writing the table failed.
pub fn forget(db: &Arc<Db>, events: &[EventKey]) -> crate::Result<()> {
    if events.is_empty() || !EVENT_RUNS.exists(db) {
        return Ok(());
    }
    let change = TableChange {
        table: &EVENT_RUNS,
        put: Vec::new(),
        remove: events.iter().map(|event| row(event, 0, 0)).collect(),
    };
    system_table::write(db, vec![change])?;
    Ok(())
}
