//! The binary log as the change log of native subscriptions: a [`Feed`], as for the change stream of REST, of which the
//! events of one table are decoded.

use porpoise_binlog::{BinaryLog, Error as LogError, Feed, FeedStart, FeedStep};
use porpoise_native::{
    ChangeLog, ChangeReader, ChangeStep, LoggedChange, LoggedColumn, LoggedTable,
};
use porpoise_replication::event::{DecodeError, RowChangeKind, RowsEvent, TableMap};
use porpoise_replication::readable::ReadableTable;
use porpoise_rows::Error;
use porpoise_sql::{DefinitionScope, definition_scope};
use porpoise_types::{Kind, Value};
use std::sync::Arc;
use std::time::Duration;

/// The binary log for subscriptions.
pub(crate) struct LoggedChanges(pub(crate) Arc<BinaryLog>);

fn refused(text: impl Into<String>) -> Error {
    Error::refused(1236, "HY000", text.into())
}

fn failed(error: LogError) -> Error {
    match error {
        LogError::Refused(text) => refused(text),
        other => refused(other.to_string()),
    }
}

fn damaged(error: DecodeError) -> Error {
    refused(error.to_string())
}

impl ChangeLog for LoggedChanges {
    fn open(
        &self,
        position: &str,
        database: &str,
        table: &str,
    ) -> Result<Box<dyn ChangeReader>, Error> {
        let start = FeedStart::parse(position).ok_or_else(|| {
            refused("The position must be now, first, a set of GTIDs, or FILE:POSITION")
        })?;
        if start == FeedStart::Now {
            // So a feed that begins with `now` contains no change that was acknowledged before.
            self.0.catch_up().map_err(failed)?;
        }
        Ok(Box::new(TableFeed {
            feed: Feed::open(self.0.clone(), start).map_err(failed)?,
            database: database.to_owned(),
            name: table.to_owned(),
            table: None,
        }))
    }
}

/// The changes of one table.
struct TableFeed {
    feed: Feed,
    database: String,
    name: String,
    /// The last description of the table.
    table: Option<Description>,
}

/// Description of the table in the log.
struct Description {
    map: Arc<TableMap>,
    readable: ReadableTable,
    shown: Arc<LoggedTable>,
}

impl Description {
    fn of(map: &Arc<TableMap>) -> Option<Description> {
        let readable = ReadableTable::of(map)?;
        let columns = readable.columns.iter().enumerate();
        let columns = columns.map(|(at, column)| LoggedColumn {
            name: column.name.clone(),
            ty: column.ty.clone(),
            is_in_key: readable.key.contains(&at),
        });
        let columns = columns.collect();
        Some(Description {
            map: map.clone(),
            shown: Arc::new(LoggedTable { columns }),
            readable,
        })
    }

    /// The changes of an event.
    fn changes(&self, rows: &RowsEvent) -> Result<Vec<LoggedChange>, Error> {
        let mut changes = Vec::new();
        for row in rows.images(&self.map, |_| false).map_err(damaged)? {
            let (first, second) = row.map_err(damaged)?;
            let (before, after) = match rows.kind {
                RowChangeKind::Insert => (None, Some(first)),
                RowChangeKind::Delete => (Some(first), None),
                RowChangeKind::Update => (Some(first), second),
            };
            let values = |image| {
                let mut values = self.readable.values(image);
                for (value, column) in values.iter_mut().zip(&self.readable.columns) {
                    if let (Kind::Bit, Some(Value::Bytes(bytes))) = (column.ty.kind, &*value) {
                        let bits = bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
                        *value = Some(Value::UInt(bits));
                    }
                }
                values
            };
            changes.push(LoggedChange {
                before: before.map(values),
                after: after.map(values),
            });
        }
        Ok(changes)
    }
}

impl TableFeed {
    /// The kind of a statement that has changed the table; `None` if it does not affect the table.
    fn definition(&self, scope: DefinitionScope) -> Option<&'static str> {
        match scope {
            DefinitionScope::Nothing => None,
            DefinitionScope::Anything => Some("unknown"),
            DefinitionScope::Database(name) => (name == self.database).then_some("drop"),
            DefinitionScope::Tables(kind, names) => {
                let mut names = names.iter();
                let is_mine = |(database, table): &(String, String)| {
                    *database == self.database && *table == self.name
                };
                names.any(is_mine).then(|| kind.name())
            }
        }
    }

    fn rows(
        &mut self,
        map: &Arc<TableMap>,
        rows: &RowsEvent,
        charge: &mut dyn FnMut(usize) -> Result<(), Error>,
    ) -> Result<ChangeStep, Error> {
        if map.database != self.database.as_bytes() || map.table != self.name.as_bytes() {
            return Ok(ChangeStep::Skipped);
        }
        charge(rows.data.len())?;
        let known = self.table.take().filter(|known| *known.map == **map);
        let known = known.or_else(|| Description::of(map));
        let known = known.ok_or_else(|| {
            refused(format!(
                "The log does not name the columns of '{}.{}': it was written with binlog_row_metadata = MINIMAL. \
                 Begin at a later position",
                self.database, self.name
            ))
        })?;
        let step = ChangeStep::Rows(known.shown.clone(), known.changes(rows)?);
        self.table = Some(known);
        Ok(step)
    }
}

impl ChangeReader for TableFeed {
    fn next(
        &mut self,
        wait: Duration,
        charge: &mut dyn FnMut(usize) -> Result<(), Error>,
    ) -> Result<ChangeStep, Error> {
        Ok(match self.feed.next(wait).map_err(failed)? {
            FeedStep::Idle => ChangeStep::Idle,
            FeedStep::Rows { table, rows } => self.rows(&table, &rows, charge)?,
            FeedStep::Statement {
                database,
                text,
                sql_mode,
            } => {
                let database = String::from_utf8_lossy(&database);
                match self.definition(definition_scope(&text, &database, sql_mode)) {
                    Some(kind) => ChangeStep::Definition(kind),
                    None => ChangeStep::Skipped,
                }
            }
            FeedStep::Commit { gtid, micros } => ChangeStep::Commit {
                gtid: gtid.map_or_else(String::new, |gtid| gtid.to_string()),
                micros,
            },
        })
    }

    fn position(&self) -> String {
        self.feed.position()
    }

    fn is_between_transactions(&self) -> bool {
        self.feed.is_between_transactions()
    }
}
