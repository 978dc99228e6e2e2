//! The change stream: changes of rows as server-sent events, from the binary log.
//!
//! ```text
//! event: start       id, position            first, so that a client knows its position
//! event: change      one row                      0 or more
//! event: definition  a statement on tables        alone in its transaction
//! event: commit      id, gtid, time               after the changes of a transaction
//! event: error       a problem                    last
//! ```
//!
//! The id of an event is the GTID set of the transactions up to it. Only `start`, `commit` and heartbeats have
//! one, so that a client that reconnects with it (`Last-Event-ID`) gets whole transactions: those whose `commit` it
//! has not received are sent again. A stream reads from the files of the log by a [`Feed`], at the pace of its client.
//!
//! Invariants:
//! 1. The account has SELECT on all that is sent: on what the filter covers, or on columns of the tables that it names, whose
//!    other columns are left out. It is checked at the start and, before anything is sent, after each change of accounts or
//!    privileges.
//! 2. A stream holds one event of the log, or one compressed transaction, and few chunks.
//! 3. No change is left out silently: one that cannot be read or described ends the stream with an error.
//!
//! Rejected: texts of statements in `definition` (they may name tables that the account cannot read); an id for each
//! change (a client that resumes within a transaction would take the rest for a whole transaction).

use super::execution::{Execution, Order, STREAM_TIME};
use super::problem::Problem;
use super::routes::Query;
use super::stream::{self, ChunkSender};
use super::values::{put_string, put_value};
use crate::http::Client;
use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use porpoise_access::{Privileges, Rights};
use porpoise_base::memory::{MemoryClass, MemoryTracker};
use porpoise_binlog::{BinaryLog, Error, Feed, FeedStart, FeedStep};
use porpoise_replication::event::{DecodeError, RowChangeKind, RowImage, RowsEvent, TableMap};
use porpoise_replication::gtid::Gtid;
use porpoise_replication::readable::ReadableTable;
use porpoise_sql::{DefinitionScope, definition_scope};
use porpoise_types::{ColumnType, DateTime, Value, write_text};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Size in bytes at which events are sent.
const CHUNK: usize = 32 * 1024;

/// Longest wait for events before the stream checks for cancellation.
const WAIT: Duration = Duration::from_millis(200);

/// Time without reading after which a client is disconnected.
const PATIENCE: Duration = Duration::from_secs(300);

/// Pause of a client before it reconnects, in milliseconds (the field `retry`).
const RETRY: u32 = 1000;

/// Default interval of heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Accepted intervals of heartbeats, in milliseconds.
const HEARTBEATS: std::ops::RangeInclusive<u64> = 100..=600_000;

/// Bytes of memory charged for each byte of a large event: decoded values and their JSON.
const MEMORY_FACTOR: u64 = 4;

/// Events below this many bytes are not charged.
const SMALL_EVENT: usize = 128 * 1024;

/// The tables and keys whose changes a stream sends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Filter {
    database: Option<String>,
    /// Names of tables; empty: all of the database.
    tables: Vec<String>,
    key_prefix: Option<String>,
}

impl Filter {
    fn covers(&self, database: &str, table: &str) -> bool {
        let in_database = self.database.as_ref().is_none_or(|own| own == database);
        in_database && (self.tables.is_empty() || self.tables.iter().any(|own| own == table))
    }

    /// Checks the privilege SELECT on all that the filter covers.
    fn check(&self, rights: &Rights, account: &str) -> Result<(), Problem> {
        let has = |privileges: Privileges| privileges.has(Privileges::SELECT);
        let Some(database) = &self.database else {
            if has(rights.everywhere()) {
                return Ok(());
            }
            let text = "Access denied; you need (at least one of) the SELECT privilege(s) for this operation";
            return Err(Problem::mysql(1227, "42000", text.to_owned()));
        };
        if self.tables.is_empty() && !has(rights.on_database(database)) {
            let text = format!("Access denied for user {account} to database '{database}'");
            return Err(Problem::mysql(1044, "42000", text));
        }
        let mut tables = self.tables.iter();
        match tables.find(|table| !has(rights.on_any_column(database, table))) {
            None => Ok(()),
            Some(table) => Err(denied(account, table)),
        }
    }

    /// A table whose readable columns have changed.
    fn changed<'f>(&'f self, before: &Rights, now: &Rights) -> Option<&'f String> {
        let database = self.database.as_deref()?;
        let columns = |rights: &Rights, table: &str| {
            let all = rights.on_table(database, table).has(Privileges::SELECT);
            (!all).then(|| rights.on_columns(database, table).cloned())
        };
        let mut tables = self.tables.iter();
        tables.find(|table| columns(before, table) != columns(now, table))
    }
}

fn denied(account: &str, table: &str) -> Problem {
    let text = format!("SELECT command denied to user {account} for table '{table}'");
    Problem::mysql(1142, "42000", text)
}

/// A table whose changes are sent.
struct SentTable {
    map: Arc<TableMap>,
    readable: ReadableTable,
    /// The columns that the account may read; `None`: all.
    visible: Option<Vec<bool>>,
}

impl SentTable {
    fn new(map: &Arc<TableMap>, readable: ReadableTable, rights: &Rights) -> SentTable {
        let (database, table) = (&readable.database, &readable.table);
        let is_visible = |column: &str| {
            let privileges = rights.on_column(database, table, column);
            privileges.has(Privileges::SELECT)
        };
        let all = rights.on_table(database, table).has(Privileges::SELECT);
        let columns = readable.columns.iter();
        let visible = (!all).then(|| columns.map(|c| is_visible(&c.name)).collect());
        SentTable {
            map: map.clone(),
            readable,
            visible,
        }
    }

    /// A column of the key that the account may not read.
    fn hidden_key(&self) -> Option<&str> {
        let visible = self.visible.as_ref()?;
        let mut key = self.readable.key.iter();
        let hidden = key.find(|at| visible.get(**at) != Some(&true))?;
        let column = self.readable.columns.get(*hidden)?;
        Some(&column.name)
    }

    /// The values of an image that are sent.
    fn values(&self, image: RowImage) -> RowImage {
        let mut values = self.readable.values(image);
        for (value, is_visible) in values.iter_mut().zip(self.visible.iter().flatten()) {
            if !is_visible {
                *value = None;
            }
        }
        values
    }
}

/// A request for a stream.
#[derive(Debug)]
pub(super) struct ChangesRequest {
    filter: Filter,
    start: FeedStart,
    heartbeat: Duration,
    /// Whether the stream goes on at the end of the log.
    follows: bool,
}

impl ChangesRequest {
    /// Reads the parameters of a request.
    ///
    /// # Errors
    /// 400: a malformed parameter.
    pub(super) fn parse(query: &Query, headers: &HeaderMap) -> Result<ChangesRequest, Problem> {
        let database = query.get("database").map(str::to_owned);
        let tables = query.get("table").into_iter().flat_map(|t| t.split(','));
        let tables: Vec<String> = tables.map(str::to_owned).collect();
        if tables.iter().any(String::is_empty) || database.as_deref() == Some("") {
            return Err(Problem::malformed("A name is empty"));
        }
        if database.is_none() && !tables.is_empty() {
            return Err(Problem::malformed("'table' needs 'database'"));
        }
        let last = headers.get("last-event-id");
        let last = last.map(|last| {
            let text = last.to_str();
            text.map_err(|_| Problem::malformed("Last-Event-ID is not text"))
        });
        // EventSource repeats the query when it reconnects, so the header is newer.
        let from = last.transpose()?.filter(|text| !text.is_empty());
        let from = from.or(query.get("from"));
        let heartbeat = match query.get("heartbeat_ms") {
            None => HEARTBEAT,
            Some(text) => {
                let millis = text.parse::<u64>().ok().filter(|millis| *millis > 0);
                let wrong = || Problem::malformed("heartbeat_ms must be a number of milliseconds");
                let millis = millis.ok_or_else(wrong)?;
                Duration::from_millis(millis.clamp(*HEARTBEATS.start(), *HEARTBEATS.end()))
            }
        };
        let follows = match query.get("follow") {
            None | Some("true") => true,
            Some("false") => false,
            Some(_) => return Err(Problem::malformed("follow must be true or false")),
        };
        Ok(ChangesRequest {
            filter: Filter {
                database,
                tables,
                key_prefix: query.get("key_prefix").map(str::to_owned),
            },
            start: FeedStart::parse(from.unwrap_or("now")).ok_or_else(no_position)?,
            heartbeat,
            follows,
        })
    }
}

fn no_position() -> Problem {
    Problem::malformed("The position must be now, first, a set of GTIDs, or FILE:POSITION")
}

fn problem_of(error: Error) -> Problem {
    match error {
        Error::Refused(text) => Problem::mysql(1236, "HY000", text).with_status(StatusCode::GONE),
        other => Problem::mysql(1236, "HY000", other.to_string())
            .with_status(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

/// Answers with a stream.
///
/// # Errors
/// The stream cannot begin.
pub(super) async fn run(
    order: Order,
    request: ChangesRequest,
    client: &Client,
) -> Result<Response, Problem> {
    let log = order.rest.binlog.clone().ok_or_else(|| {
        let text = "The server keeps no binary log: see --log-bin";
        Problem::mysql(1381, "HY000", text.to_owned()).with_status(StatusCode::NOT_IMPLEMENTED)
    })?;
    let (send, receive) = stream::channel(PATIENCE);
    let (cancellation, task) = order.start_stream(move |execution| {
        let mut stream = ChangeStream::open(&execution, log, &request, send)?;
        stream.run()
    })?;
    let guard = client.begin_stream();
    let body = receive.body(task, cancellation, Some(guard)).await?;
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        // Reverse proxies must not buffer events.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, body).into_response())
}

/// A stream.
struct ChangeStream<'e> {
    execution: &'e Execution,
    request: &'e ChangesRequest,
    feed: Feed,
    send: ChunkSender,
    out: Vec<u8>,
    memory: MemoryTracker,
    /// The last table.
    table: Option<SentTable>,
    /// Version of access control at the last check, and the account's privileges then.
    checked: u64,
    rights: Rights,
    last_sent: Instant,
    /// Whether a change of the current transaction was sent.
    has_changes: bool,
    /// Whether the answer has begun.
    is_sent: bool,
    /// Lists the stream among the sessions, and counts it among those of the account.
    _session: porpoise_sql::SqlSession,
}

impl<'e> ChangeStream<'e> {
    fn open(
        execution: &'e Execution,
        log: Arc<BinaryLog>,
        request: &'e ChangesRequest,
        send: ChunkSender,
    ) -> Result<ChangeStream<'e>, Problem> {
        let checked = execution.rest.sql.access().version();
        let rights = execution.rights()?;
        let account = execution.shown_account();
        request.filter.check(&rights, &account)?;
        let session = execution.sql(None)?;
        if !request.follows {
            // The log then contains every commit that was acknowledged before the request.
            log.catch_up().map_err(problem_of)?;
        }
        Ok(ChangeStream {
            execution,
            request,
            feed: Feed::open(log, request.start.clone()).map_err(problem_of)?,
            send,
            out: Vec::new(),
            memory: MemoryTracker::new(execution.memory.clone(), MemoryClass::Statement),
            table: None,
            checked,
            rights,
            last_sent: Instant::now(),
            has_changes: false,
            is_sent: false,
            _session: session,
        })
    }

    /// Sends events until the client is gone, or the stream ends.
    fn run(&mut self) -> Result<(), Problem> {
        // The position of `first` is known once the beginning of its file has been read.
        let first = self.feed.next(Duration::ZERO).map_err(problem_of)?;
        self.out
            .extend_from_slice(format!("retry: {RETRY}\n").as_bytes());
        self.put_start();
        let ended = self.take(first).and_then(|()| self.follow());
        match ended {
            Ok(()) => {
                self.flush()?;
                self.send.end()?;
                Ok(())
            }
            Err(problem) if !self.is_sent => Err(problem),
            Err(problem) => {
                self.out.extend_from_slice(b"event: error\ndata: ");
                problem.put(&mut self.out);
                self.out.extend_from_slice(b"\n\n");
                // A failure to send it is ignored: the client is gone, or does not read.
                let _ = self.flush().and_then(|()| Ok(self.send.end()?));
                Err(problem)
            }
        }
    }

    fn follow(&mut self) -> Result<(), Problem> {
        let begun = Instant::now();
        let mut wait = Duration::ZERO;
        loop {
            if let Some(reason) = self.execution.cancel.reason() {
                return Err(porpoise_sql::cancelled(reason).into());
            }
            if begun.elapsed() >= STREAM_TIME && self.feed.is_between_transactions() {
                return Ok(());
            }
            let step = self.feed.next(wait).map_err(problem_of)?;
            self.check_access()?;
            let is_idle = matches!(step, FeedStep::Idle);
            self.take(step)?;
            let is_late = self.last_sent.elapsed() >= self.request.heartbeat;
            if is_late && self.feed.is_between_transactions() {
                let id = format!("id: {}\n: heartbeat\n\n", self.feed.position());
                self.out.extend_from_slice(id.as_bytes());
            }
            let has_enough = is_idle || is_late || self.out.len() >= CHUNK;
            if has_enough && !self.out.is_empty() {
                self.flush()?;
            }
            if is_idle && !self.request.follows {
                return Ok(());
            }
            wait = if is_idle { WAIT } else { Duration::ZERO };
        }
    }

    /// Checks the account again, if accounts or privileges have changed.
    fn check_access(&mut self) -> Result<(), Problem> {
        let version = self.execution.rest.sql.access().version();
        if version == self.checked {
            return Ok(());
        }
        let rights = self.execution.rights()?;
        let account = self.execution.shown_account();
        self.request.filter.check(&rights, &account)?;
        // A client that goes on would mistake columns that are missing for columns that have not changed.
        if let Some(table) = self.request.filter.changed(&self.rights, &rights) {
            return Err(denied(&account, table));
        }
        (self.checked, self.rights) = (version, rights);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Problem> {
        let bytes = Bytes::from(std::mem::take(&mut self.out));
        self.is_sent = true;
        self.send.send(bytes, Some(&self.execution.cancel))?;
        self.last_sent = Instant::now();
        Ok(())
    }

    fn take(&mut self, step: FeedStep) -> Result<(), Problem> {
        match step {
            FeedStep::Idle => Ok(()),
            FeedStep::Rows { table, rows } => self.put_rows(&table, &rows),
            FeedStep::Statement {
                database,
                text,
                sql_mode,
            } => {
                let database = String::from_utf8_lossy(&database);
                self.put_definition(&definition_scope(&text, &database, sql_mode));
                Ok(())
            }
            FeedStep::Commit { gtid, micros } => {
                if std::mem::take(&mut self.has_changes) {
                    self.put_commit(gtid, micros);
                }
                Ok(())
            }
        }
    }

    fn put_start(&mut self) {
        let id = self.feed.position();
        let (file, position) = self.feed.place();
        let text = format!(
            "id: {id}\nevent: start\ndata: {{\"file\":\"{file}\",\"position\":\"{position}\"}}\n\n"
        );
        self.out.extend_from_slice(text.as_bytes());
    }

    fn put_commit(&mut self, gtid: Option<Gtid>, micros: u64) {
        let id = self.feed.position();
        let mut time = Vec::new();
        let moment = i64::try_from(micros)
            .ok()
            .and_then(DateTime::from_unix_micros);
        if let Some(moment) = moment {
            moment.write_text(6, &mut time);
        }
        let (file, position) = self.feed.place();
        let gtid = gtid.map_or("null".to_owned(), |gtid| format!("\"{gtid}\""));
        let text = format!(
            "id: {id}\nevent: commit\ndata: {{\"gtid\":{gtid},\"time\":\"{}\",\"file\":\"{file}\",\"position\":\"{position}\"}}\n\n",
            String::from_utf8_lossy(&time)
        );
        self.out.extend_from_slice(text.as_bytes());
    }

    /// Appends a statement on tables that the filter covers.
    fn put_definition(&mut self, scope: &DefinitionScope) {
        let filter = &self.request.filter;
        let (kind, database, tables): (_, Option<&str>, Vec<(&str, &str)>) = match scope {
            DefinitionScope::Nothing => return,
            DefinitionScope::Anything => ("unknown", None, Vec::new()),
            DefinitionScope::Database(name) => {
                if filter.database.as_ref().is_some_and(|own| own != name) {
                    return;
                }
                ("drop", Some(name), Vec::new())
            }
            DefinitionScope::Tables(kind, names) => {
                let names = names.iter().filter(|(d, t)| filter.covers(d, t));
                let names: Vec<_> = names.map(|(d, t)| (d.as_str(), t.as_str())).collect();
                if names.is_empty() {
                    return;
                }
                (kind.name(), None, names)
            }
        };
        let out = &mut self.out;
        out.extend_from_slice(b"event: definition\ndata: {\"kind\":");
        put_string(out, kind);
        if let Some(database) = database {
            out.extend_from_slice(b",\"database\":");
            put_string(out, database);
        }
        out.extend_from_slice(b",\"tables\":[");
        for (n, (database, table)) in tables.into_iter().enumerate() {
            out.extend_from_slice(if n > 0 { b",{" } else { b"{" });
            put_names(out, database, table);
            out.push(b'}');
        }
        out.extend_from_slice(b"]}\n\n");
        self.has_changes = true;
    }

    /// Appends the changes of a rows event that the filter covers.
    fn put_rows(&mut self, map: &Arc<TableMap>, rows: &RowsEvent) -> Result<(), Problem> {
        let text = String::from_utf8_lossy;
        let (database, name) = (text(&map.database), text(&map.table));
        if !self.request.filter.covers(&database, &name) {
            return Ok(());
        }
        if rows.data.len() > SMALL_EVENT {
            let bytes = (rows.data.len() as u64).saturating_mul(MEMORY_FACTOR);
            let held = self.memory.resize(bytes);
            held.map_err(porpoise_sql::memory::refused)?;
        }
        let is_known = self.table.as_ref().is_some_and(|known| *known.map == **map);
        if !is_known {
            let table = ReadableTable::of(map).ok_or_else(|| {
                let text = format!(
                    "The log does not name the columns of '{database}.{name}': it was written with \
                     binlog_row_metadata = MINIMAL. Begin at a later position"
                );
                Problem::mysql(1236, "HY000", text).with_status(StatusCode::GONE)
            })?;
            let table = SentTable::new(map, table, &self.rights);
            if let (Some(column), true) =
                (table.hidden_key(), self.request.filter.key_prefix.is_some())
            {
                let account = self.execution.shown_account();
                let text = format!(
                    "SELECT command denied to user {account} for column '{column}' in table '{name}'"
                );
                return Err(Problem::mysql(1143, "42000", text));
            }
            self.table = Some(table);
        }
        let damaged = |error: DecodeError| {
            let text = error.to_string();
            Problem::mysql(1236, "HY000", text).with_status(StatusCode::INTERNAL_SERVER_ERROR)
        };
        for row in rows.images(map, |_| false).map_err(damaged)? {
            let (first, second) = row.map_err(damaged)?;
            let Some(table) = &self.table else {
                continue;
            };
            let (old, new) = match (rows.kind, second) {
                (RowChangeKind::Insert, _) => (None, Some(first)),
                (RowChangeKind::Delete, _) => (Some(first), None),
                (RowChangeKind::Update, new) => (Some(first), new),
            };
            let change = RowChange {
                table: &table.readable,
                old: old.map(|image| table.values(image)),
                new: new.map(|image| table.values(image)),
            };
            let prefix = self.request.filter.key_prefix.as_deref();
            if prefix.is_none_or(|prefix| change.has_key_prefix(prefix)) {
                change.put(&mut self.out);
                self.has_changes = true;
            }
            if self.out.len() >= CHUNK {
                self.flush()?;
            }
        }
        self.memory.resize_always(0);
        Ok(())
    }
}

fn put_names(out: &mut Vec<u8>, database: &str, table: &str) {
    out.extend_from_slice(b"\"database\":");
    put_string(out, database);
    out.extend_from_slice(b",\"table\":");
    put_string(out, table);
}

/// A changed row.
struct RowChange<'t> {
    table: &'t ReadableTable,
    old: Option<RowImage>,
    new: Option<RowImage>,
}

impl RowChange<'_> {
    /// The values of the key in an image; `None` if it lacks one of them, or the table has no key.
    fn key<'i>(&self, image: Option<&'i RowImage>) -> Option<Vec<(&ColumnType, &'i Value)>> {
        let columns = self.table.key.iter().map(|at| {
            let column = self.table.columns.get(*at)?;
            Some((&column.ty, image?.get(*at)?.as_ref()?))
        });
        let key: Option<Vec<_>> = columns.collect();
        key.filter(|key| !key.is_empty())
    }

    /// The keys before and after.
    fn keys(&self) -> [Option<Vec<(&ColumnType, &Value)>>; 2] {
        [self.key(self.old.as_ref()), self.key(self.new.as_ref())]
    }

    /// Whether the row's key, before or after, begins with a text.
    fn has_key_prefix(&self, prefix: &str) -> bool {
        let begins =
            |key: &Vec<(&ColumnType, &Value)>| key_text(key).starts_with(prefix.as_bytes());
        self.keys().iter().flatten().any(begins)
    }

    /// Appends the change as an event.
    fn put(&self, out: &mut Vec<u8>) {
        let op = match (&self.old, &self.new) {
            (None, _) => "insert",
            (_, None) => "delete",
            _ => "update",
        };
        out.extend_from_slice(format!("event: change\ndata: {{\"op\":\"{op}\",").as_bytes());
        put_names(out, &self.table.database, &self.table.table);
        let [old_key, new_key] = self.keys();
        if let Some(key) = new_key.as_ref().or(old_key.as_ref()) {
            out.extend_from_slice(b",\"key\":");
            put_key(out, key);
        }
        if let (Some(old), Some(new)) = (&old_key, &new_key)
            && key_text(old) != key_text(new)
        {
            out.extend_from_slice(b",\"old_key\":");
            put_key(out, old);
        }
        for (name, image) in [("row", &self.new), ("old", &self.old)] {
            if let Some(image) = image {
                out.extend_from_slice(format!(",\"{name}\":").as_bytes());
                self.put_image(out, image);
            }
        }
        out.extend_from_slice(b"}\n\n");
    }

    fn put_image(&self, out: &mut Vec<u8>, image: &RowImage) {
        out.push(b'{');
        let columns = self.table.columns.iter().zip(image);
        let present = columns.filter_map(|(column, value)| Some((column, value.as_ref()?)));
        for (n, (column, value)) in present.enumerate() {
            if n > 0 {
                out.push(b',');
            }
            put_string(out, &column.name);
            out.push(b':');
            put_value(out, value.as_ref(), &column.ty);
        }
        out.push(b'}');
    }
}

/// The values of a key as text, joined by commas.
fn key_text(key: &[(&ColumnType, &Value)]) -> Vec<u8> {
    let mut text = Vec::new();
    for (n, (ty, value)) in key.iter().enumerate() {
        if n > 0 {
            text.push(b',');
        }
        if ty.is_binary() {
            put_value(&mut text, value.as_ref(), ty);
            text.retain(|byte| *byte != b'"');
        } else {
            write_text(value.as_ref(), ty, &mut text);
        }
    }
    text
}

fn put_key(out: &mut Vec<u8>, key: &[(&ColumnType, &Value)]) {
    out.push(b'[');
    for (n, (ty, value)) in key.iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        put_value(out, value.as_ref(), ty);
    }
    out.push(b']');
}
