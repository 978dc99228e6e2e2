//! Subscriptions to changes of the rows of a table.
//!
//! A subscription reads the server's change log ([`ChangeLog`]) only at requests of its client: each is answered with the
//! changes that are in the log, or waits for the first one. So the log is read at the client's pace, and the server
//! buffers nothing for a slow client. Log files from the subscription's position on are not removed.
//!
//! ```text
//! SUBSCRIBE table, ranges, position --> definition, privileges --> reader at the position
//! NEXT_CHANGES wait                 --> reader: rows of the table --> ranges --> records
//! ```
//!
//! Invariants:
//! 1. The account has SELECT on all columns of the table, those of the present definition and those that the logged
//!    rows have: it is checked at the start, and before anything is sent after a change of accounts or privileges.
//! 2. A change is in the subscription if the row's key before or after it is in a range. Keys are compared as by the
//!    definition that the table had at the subscription; a row whose key consists of other columns, or does not fit
//!    them, ends it with 1412.
//! 3. No change is left out silently: one that cannot be read ends the subscription with an error.
//! 4. A position is sent only between transactions, and everything of the subscription before it was sent.
//!
//! Rejected: frames that the server sends without a request. They need flow control of their own against slow clients
//! and a request that ends them, and they occupy the connection.

use crate::context::Context;
use crate::convert;
use crate::counters::{self, Counter};
use crate::failure::Failure;
use crate::identity::Identity;
use crate::plan::{self, PlanColumn};
use crate::scan;
use porpoise_access::Privileges;
use porpoise_rows::catalog::Table;
use porpoise_rows::{Error, KeyRange};
use porpoise_types::{ColumnType, Value};
use porpoise_wire::native::changes::{self, RecordKind, Subscribe};
use porpoise_wire::native::frame::{self, Kind, LAST};
use porpoise_wire::native::value::Encoding;
use porpoise_wire::native::{Malformed, Reader};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Most subscriptions of a server.
const MAX_SUBSCRIPTIONS: usize = 64;

/// Size in bytes at which an answer ends.
const ANSWER_BYTES: usize = 256 * 1024;

/// Interval in which a waiting subscription checks whether it was cancelled or has lost its privilege.
const WAIT: Duration = Duration::from_millis(200);

/// Time after the end of the wait for which changes that are in the log are still read.
const WORK: Duration = Duration::from_millis(100);

/// Longest wait of one request.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Error text for a damaged log.
const MISFIT: &str = "a logged value is not of its column's type";

/// Events of fewer bytes are not charged.
const SMALL_EVENT: usize = 128 * 1024;

/// Bytes of memory charged for each byte of a large event: decoded values and records.
const MEMORY_FACTOR: usize = 4;

/// A source of changes of rows: the server's change log.
pub trait ChangeLog: Send + Sync {
    /// Opens a reader of the changes of one table after a position.
    ///
    /// # Errors
    /// The text is not a position, or the log lacks transactions after it.
    fn open(
        &self,
        position: &str,
        database: &str,
        table: &str,
    ) -> Result<Box<dyn ChangeReader>, Error>;
}

/// A reader of the changes of one table.
pub trait ChangeReader: Send {
    /// The next step; waits for it for at most `wait`. `charge` is called with the size of an event before it is
    /// decoded.
    ///
    /// # Errors
    /// The log cannot be read any further; the error of `charge`.
    fn next(
        &mut self,
        wait: Duration,
        charge: &mut dyn FnMut(usize) -> Result<(), Error>,
    ) -> Result<ChangeStep, Error>;

    /// The position after the last transaction that was read completely, as text.
    fn position(&self) -> String;

    /// Whether the reader is between two transactions.
    fn is_between_transactions(&self) -> bool;
}

/// A step of a reader.
pub enum ChangeStep {
    /// No event came in time.
    Idle,
    /// An event of other tables.
    Skipped,
    /// Changes of rows.
    Rows(Arc<LoggedTable>, Vec<LoggedChange>),
    /// A statement has changed the table.
    Definition(&'static str),
    /// The end of a transaction.
    Commit {
        /// Its identifier; empty if it has none.
        gtid: String,
        /// Time of its commit in microseconds since 1970 UTC.
        micros: u64,
    },
}

/// The table of logged changes, as it was when they were logged.
pub struct LoggedTable {
    /// The columns, in the order of the values. Text has UTF-8.
    pub columns: Vec<LoggedColumn>,
}

/// A column of a [`LoggedTable`].
pub struct LoggedColumn {
    /// The name.
    pub name: String,
    /// The type.
    pub ty: ColumnType,
    /// Whether it is part of the primary key.
    pub is_in_key: bool,
}

/// A row as logged: a value for each column, `None` where the log does not have it.
pub type LoggedRow = Vec<Option<Value>>;

/// A change of a row: before, after.
pub struct LoggedChange {
    /// The row before; `None` for an INSERT.
    pub before: Option<LoggedRow>,
    /// The row after; `None` for a DELETE.
    pub after: Option<LoggedRow>,
}

/// Counts the subscriptions of a server.
#[derive(Debug, Default)]
pub(crate) struct SubscriptionCount(AtomicUsize);

/// One of the subscriptions of a server.
#[derive(Debug)]
struct Counted(Arc<SubscriptionCount>);

impl SubscriptionCount {
    fn add(self: &Arc<Self>) -> Result<Counted, Error> {
        let counted = Counted(self.clone());
        if self.0.fetch_add(1, Ordering::Relaxed) < MAX_SUBSCRIPTIONS {
            return Ok(counted);
        }
        let text = format!("Too many connections: {MAX_SUBSCRIPTIONS} subscriptions are open");
        Err(Error::refused(1040, "08004", text))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The subscription of a connection.
pub(crate) struct Subscription {
    table: Arc<Table>,
    /// The columns of the primary key, in its order.
    key: Vec<PlanColumn>,
    /// Empty: all rows.
    ranges: Vec<KeyRange>,
    reader: Box<dyn ChangeReader>,
    /// The columns of the last table record, with their encodings.
    columns: Option<(Arc<LoggedTable>, Vec<Encoding>)>,
    /// For each column of the key, the position of its value in logged rows.
    key_places: Vec<usize>,
    /// Version of access control at the last check.
    checked: u64,
    /// Whether something of the present transaction was sent.
    has_changes: bool,
    /// The last position sent.
    sent_position: String,
    /// The error that ends the subscription; reported after the changes before it were sent.
    failure: Option<Failure>,
    _counted: Counted,
}

fn no_log() -> Error {
    Error::refused(
        1381,
        "HY000",
        "The server keeps no binary log: see --log-bin",
    )
}

impl Subscription {
    /// Begins a subscription.
    pub(crate) fn open(
        context: &Context,
        identity: &mut Identity,
        log: Option<&Arc<dyn ChangeLog>>,
        count: &Arc<SubscriptionCount>,
        request: &Subscribe<'_>,
    ) -> Result<Subscription, Failure> {
        let catalog = context.db.catalog();
        let table = plan::find_table(&catalog, identity, request.table, request.version)?;
        let columns = table.named_columns();
        let names: Vec<&str> = columns.map(|(_, column)| column.name.as_str()).collect();
        let checked = check_columns(identity, &table, &names)?;
        let mut ranges = Vec::new();
        let mut key = Vec::new();
        if request.ranges > 0 {
            key = plan::index_columns(&table, 0)?;
            if key.is_empty() {
                let text = format!("Key '#0' doesn't exist in table '{}'", table.name);
                return Err(Error::refused(1176, "42000", text).into());
            }
            let mut reader = Reader::new(request.bounds);
            for _ in 0..request.ranges {
                ranges.extend(scan::read_range(&table, &key, &mut reader)?);
            }
            if ranges.is_empty() {
                // All of them are empty: no key is in this one.
                let (start, end) = (Vec::new(), Some(Vec::new()));
                ranges.push(KeyRange { start, end });
            }
            if !reader.is_empty() {
                return Err(Malformed("ranges of a subscription").into());
            }
        } else if !request.bounds.is_empty() {
            return Err(Malformed("ranges of a subscription").into());
        }
        let log = log.ok_or_else(no_log)?;
        let counted = count.add()?;
        let reader = log.open(request.position, &table.database, &table.name)?;
        Ok(Subscription {
            table,
            key,
            ranges,
            reader,
            columns: None,
            key_places: Vec::new(),
            checked,
            has_changes: false,
            sent_position: String::new(),
            failure: None,
            _counted: counted,
        })
    }

    /// The table, for the list of sessions.
    pub(crate) fn shown(&self) -> String {
        format!("SUBSCRIBE {}", self.table.quoted_name())
    }

    /// Appends the answer to a request: the changes in the log, or the first that come within `wait`.
    pub(crate) fn answer(
        &mut self,
        context: &Context,
        identity: &mut Identity,
        request: u32,
        wait: Duration,
        out: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let at = frame::begin(out, Kind::Changes, request);
        self.put_changes(context, identity, wait.min(MAX_WAIT), out)?;
        if self.failure.is_none() && self.reader.is_between_transactions() {
            let position = self.reader.position();
            if position != self.sent_position {
                changes::put_text(out, RecordKind::Position, &position);
                self.sent_position = position;
            }
        }
        frame::finish(out, at, LAST);
        Ok(())
    }

    fn put_changes(
        &mut self,
        context: &Context,
        identity: &mut Identity,
        wait: Duration,
        out: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let start = out.len();
        let until = Instant::now() + wait;
        loop {
            context.check()?;
            let left = until.saturating_duration_since(Instant::now());
            // If there is a change to send, do not wait for others.
            let wait = if out.len() > start {
                Duration::ZERO
            } else {
                left.min(WAIT)
            };
            let step = self.reader.next(wait, &mut |bytes| charge(context, bytes));
            self.check_access(identity)?;
            let is_idle = matches!(step, Ok(ChangeStep::Idle));
            let whole = out.len();
            let step = step.map_err(Failure::from);
            let done = step.and_then(|step| self.put_step(context, identity, step, out));
            if let Err(failure) = done {
                out.truncate(whole);
                if whole == start {
                    return Err(failure);
                }
                self.failure = Some(failure);
                return Ok(());
            }
            let is_over = if is_idle {
                out.len() > start || left.is_zero()
            } else {
                Instant::now() >= until + WORK
            };
            if is_over || out.len() - start >= ANSWER_BYTES {
                return Ok(());
            }
        }
    }

    fn put_step(
        &mut self,
        context: &Context,
        identity: &mut Identity,
        step: ChangeStep,
        out: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        match step {
            ChangeStep::Idle | ChangeStep::Skipped => {}
            ChangeStep::Rows(table, rows) => {
                self.put_table(identity, &table, out)?;
                for row in &rows {
                    context.check()?;
                    self.put_change(row, out)?;
                }
                context.charge_results(0)?;
            }
            ChangeStep::Definition(kind) => {
                changes::put_text(out, RecordKind::Definition, kind);
                self.has_changes = true;
            }
            ChangeStep::Commit { gtid, micros } => {
                if std::mem::take(&mut self.has_changes) {
                    self.sent_position = self.reader.position();
                    changes::put_commit(out, micros, &gtid, &self.sent_position);
                }
            }
        }
        Ok(())
    }

    /// Checks the account again, if accounts or privileges have changed.
    fn check_access(&mut self, identity: &mut Identity) -> Result<(), Failure> {
        if identity.rights().1 == self.checked {
            return Ok(());
        }
        let columns = self.table.named_columns();
        let mut names: Vec<&str> = columns.map(|(_, column)| column.name.as_str()).collect();
        if let Some((logged, _)) = &self.columns {
            names.extend(logged.columns.iter().map(|column| column.name.as_str()));
        }
        self.checked = check_columns(identity, &self.table, &names)?;
        Ok(())
    }

    /// Appends the columns of the rows that follow, if they differ from those of the rows before.
    fn put_table(
        &mut self,
        identity: &mut Identity,
        table: &Arc<LoggedTable>,
        out: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        if let Some((known, _)) = &self.columns
            && Arc::ptr_eq(known, table)
        {
            return Ok(());
        }
        let names: Vec<&str> = table.columns.iter().map(|c| c.name.as_str()).collect();
        check_columns(identity, &self.table, &names)?;
        if !self.ranges.is_empty() {
            self.key_places = self.places_of_key(table)?;
        }
        let encodings: Vec<Encoding> = table.columns.iter().map(|c| Encoding::of(&c.ty)).collect();
        let types: Vec<String> = table.columns.iter().map(|c| c.ty.sql()).collect();
        let columns = table.columns.iter().zip(&encodings).zip(&types);
        let columns = columns.map(|((column, encoding), sql)| {
            (
                *encoding,
                column.is_in_key,
                column.name.as_str(),
                sql.as_str(),
            )
        });
        changes::put_table(out, columns);
        self.columns = Some((table.clone(), encodings));
        Ok(())
    }

    /// Positions of the key's values in rows of a logged table.
    fn places_of_key(&self, table: &LoggedTable) -> Result<Vec<usize>, Error> {
        let place = |part: &PlanColumn| {
            let name = &self.table.columns.get(part.position)?.name;
            let mut columns = table.columns.iter();
            columns.position(|c| c.is_in_key && c.name.eq_ignore_ascii_case(name))
        };
        let places: Option<Vec<usize>> = self.key.iter().map(place).collect();
        let parts = table.columns.iter().filter(|c| c.is_in_key).count();
        let places = places.filter(|places| places.len() == parts);
        places.ok_or(Error::DefinitionChanged)
    }

    /// Appends a change, if it is in the subscription.
    fn put_change(&mut self, change: &LoggedChange, out: &mut Vec<u8>) -> Result<(), Failure> {
        let rows = [&change.before, &change.after];
        if !self.ranges.is_empty() {
            let mut is_inside = false;
            for row in rows.into_iter().flatten() {
                is_inside |= self.has_key(row)?;
            }
            if !is_inside {
                return Ok(());
            }
        }
        let kind = match (&change.before, &change.after) {
            (None, _) => RecordKind::Insert,
            (_, None) => RecordKind::Delete,
            _ => RecordKind::Update,
        };
        out.push(kind as u8);
        let encodings = self.columns.as_ref().map_or(&[][..], |(_, e)| e);
        for row in rows.into_iter().flatten() {
            let values = encodings.iter().zip(row);
            let values = values.map(|(e, value)| (*e, value.as_ref().map(Value::as_ref)));
            changes::put_row(out, values).map_err(|_| Error::Corrupt(MISFIT.to_owned()))?;
        }
        self.has_changes = true;
        counters::add(Counter::Changes, 1);
        Ok(())
    }

    /// Whether the key of a row is in a range; false if the log does not have the key (minimal images have the key
    /// after a change only if it was changed).
    fn has_key(&self, row: &LoggedRow) -> Result<bool, Failure> {
        let mut values = Vec::with_capacity(self.key_places.len());
        for place in &self.key_places {
            match row.get(*place).and_then(Option::as_ref) {
                Some(value) => values.push(value.as_ref()),
                None => return Ok(false),
            }
        }
        let columns = self.key.iter().map(|c| (c.position, c.converter));
        let mut key = Vec::new();
        // A value that does not fit is one of another type.
        convert::append_key(&self.table, 0, columns, &values, &mut key)
            .map_err(|_| Error::DefinitionChanged)?;
        let is_inside = |range: &KeyRange| {
            key >= range.start && range.end.as_ref().is_none_or(|end| key < *end)
        };
        Ok(self.ranges.iter().any(is_inside))
    }
}

/// Charges an event that is going to be decoded, until its rows are sent.
fn charge(context: &Context, bytes: usize) -> Result<(), Error> {
    if bytes <= SMALL_EVENT {
        return Ok(());
    }
    match context.charge_results(bytes.saturating_mul(MEMORY_FACTOR)) {
        Err(Failure::Rows(error)) => Err(error),
        _ => Ok(()),
    }
}

/// Checks SELECT on the table, or on all of these columns. Returns the version of access control.
fn check_columns(identity: &mut Identity, table: &Table, names: &[&str]) -> Result<u64, Failure> {
    let (rights, version) = identity.rights();
    let rights = rights.clone();
    let (database, name) = (&table.database, &table.name);
    let wanted = Privileges::SELECT;
    if rights.on_table(database, name).has(wanted) {
        return Ok(version);
    }
    let mut names = names.iter();
    let is_denied = |column: &&&str| !rights.on_column(database, name, column).has(wanted);
    let Some(column) = names.find(is_denied) else {
        return Ok(version);
    };
    let shown = identity.shown();
    let error = if rights.on_any_column(database, name).has(wanted) {
        let text = format!(
            "SELECT command denied to user {shown} for column '{column}' in table '{name}'"
        );
        Error::refused(1143, "42000", text)
    } else {
        let text = format!("SELECT command denied to user {shown} for table '{name}'");
        Error::refused(1142, "42000", text)
    };
    Err(error.into())
}
