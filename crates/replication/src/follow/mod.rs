//! Applying the transactions of a source.
//!
//! Events arrive in the order of the source's log and are applied as they arrive, in a transaction of this server that
//! begins and ends with the source's:
//!
//! ```text
//!   GTID                          remember the identifier; skip the transaction if it was applied
//!   QUERY BEGIN                   begin
//!   TABLE_MAP, WRITE_ROWS, ...    change rows
//!   XID                           write the position, commit
//!
//!   GTID, QUERY CREATE ...        note the definition, run it, write the position
//! ```
//!
//! There is no copy of the source's log (no relay log): the source keeps what was not applied, and the replica reads
//! only as fast as it applies.
//!
//! Invariants:
//! 1. The position is written by the transaction whose end it is ([`crate::position`]), so that a transaction is applied
//!    exactly once, whatever crashes.
//! 2. After a failure nothing of the transaction remains; the source is asked again for all of it.
//! 3. Of a table that is written, definition and metadata lock are taken at its TABLE_MAP and kept until the end of the
//!    transaction.
//!
//! Rejected: a relay log, which would double the writes, and which MySQL needs because its replicas promise to have
//! received what they have not applied.

use crate::apply::{ApplyError, MappedTable};
use crate::copied::{CopiedRanges, CopiedTables};
use crate::event::rows::flags as row_flags;
use crate::event::{
    Event, FormatDescription, Header, QueryEvent, TableMap, TransactionPayload, XaPrepare, flags,
};
use crate::filter::Filters;
use crate::position::{AnyGtid, AppliedPosition, Coordinates, PendingDefinition, PositionTable};
use porpoise_base::cancel::Cancel;
use porpoise_kv::{CommitPosition, StatementMark};
use porpoise_rows::changes::Origin;
use porpoise_rows::ddl::metadata_lock_error;
use porpoise_rows::hot_keys::Interface;
use porpoise_rows::metadata_lock::{Activity, MetadataLockSession};
use porpoise_rows::{BeginOptions, Db, Txn};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Runs statements that define something.
pub trait StatementRunner: Send {
    /// Runs a statement of the source with its session variables and its default database. The change log names
    /// its origin.
    ///
    /// # Errors
    /// The statement's.
    fn run(
        &mut self,
        query: &QueryEvent,
        is_mariadb: bool,
        origin: Origin,
    ) -> Result<(), StatementError>;
}

/// Failure of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementError {
    /// MySQL's error number.
    pub number: u16,
    /// Text.
    pub message: String,
    /// Whether the statement may succeed if it is repeated.
    pub is_transient: bool,
}

/// Failure to apply a transaction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FollowError {
    /// MySQL's error number.
    pub number: u16,
    /// Event, object and cause.
    pub message: String,
    /// Whether the transaction is to be tried again.
    pub is_transient: bool,
}

/// Settings of a [`Follower`].
pub struct FollowOptions {
    /// This server's id: its own events are skipped.
    pub server_id: u32,
    /// Which tables and statements are applied.
    pub filters: Filters,
    /// The tables that an import has not copied whole; of them only rows that are copied are applied.
    pub copied: CopiedTables,
    /// Longest wait for a row lock.
    pub lock_wait: Duration,
    /// Ends all waits.
    pub cancel: Cancel,
}

/// The transaction of the source that is being applied.
#[derive(Default)]
struct Group {
    gtid: Option<AnyGtid>,
    /// The server that ran it first, and the time of its commit there.
    server_id: u32,
    commit_micros: u64,
    /// Its changes are left out: it was applied before, or is to be skipped.
    is_skipped: bool,
}

/// Applier of a source's events.
pub struct Follower {
    db: Arc<Db>,
    positions: PositionTable,
    options: FollowOptions,
    runner: Box<dyn StatementRunner>,
    locks: MetadataLockSession,
    /// What is applied and stored.
    applied: AppliedPosition,
    /// End of the last event.
    read: Coordinates,
    group: Option<Group>,
    txn: Option<Txn>,
    savepoints: HashMap<Vec<u8>, StatementMark>,
    /// Tables by the numbers of the source; `None`: filtered.
    tables: HashMap<u64, Option<MappedTable>>,
    /// Transactions that are still to be skipped.
    skip: u64,
    transactions: u64,
    /// The last commit.
    committed: CommitPosition,
}

impl Group {
    /// Its origin for the change log of this server, which keeps MySQL's identifiers.
    fn origin(&self) -> Origin {
        let gtid = match self.gtid {
            Some(AnyGtid::Mysql(gtid)) => Some((gtid.source.0, gtid.number)),
            _ => None,
        };
        Origin {
            server_id: self.server_id,
            gtid,
            commit_micros: self.commit_micros,
        }
    }
}

type Followed<T> = Result<T, FollowError>;

/// Errors of a definition that was executed before: the object exists, or is gone.
const REPEATED: [u16; 17] = [
    1007, 1008, 1050, 1051, 1054, 1060, 1061, 1068, 1091, 1141, 1146, 1147, 1304, 1305, 1359, 1396,
    1537,
];

impl Follower {
    /// An applier that goes on after `applied`. `skip` transactions are left out first.
    #[must_use]
    pub fn new(
        db: Arc<Db>,
        options: FollowOptions,
        runner: Box<dyn StatementRunner>,
        applied: AppliedPosition,
        skip: u64,
    ) -> Follower {
        let locks = db.metadata_locks().session();
        Follower {
            positions: PositionTable::new(db.clone()),
            db,
            options,
            runner,
            locks,
            read: applied.coordinates.clone(),
            applied,
            group: None,
            txn: None,
            savepoints: HashMap::new(),
            tables: HashMap::new(),
            skip,
            transactions: 0,
            committed: CommitPosition::NONE,
        }
    }

    /// What is applied.
    #[must_use]
    pub fn applied(&self) -> &AppliedPosition {
        &self.applied
    }

    /// End of the last event.
    #[must_use]
    pub fn read(&self) -> &Coordinates {
        &self.read
    }

    /// Number of transactions applied since the start.
    #[must_use]
    pub fn transactions(&self) -> u64 {
        self.transactions
    }

    /// Number of transactions that are still to be skipped.
    #[must_use]
    pub fn to_skip(&self) -> u64 {
        self.skip
    }

    /// Waits until everything that is applied is on disk.
    ///
    /// # Errors
    /// The log of the engine has failed.
    pub fn wait_durable(&self) -> Followed<()> {
        let done = self.db.engine().wait_durable(self.committed);
        done.map_err(|error| self.failed("XID", &porpoise_rows::Error::from(error).into()))
    }

    /// Whether a transaction has begun.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        self.txn.is_some() || self.group.is_some()
    }

    /// Applies an event.
    ///
    /// # Errors
    /// Then the follower is of no use any more; what it had begun is rolled back when it is dropped.
    pub fn event(
        &mut self,
        header: &Header,
        event: Event,
        format: &FormatDescription,
    ) -> Followed<()> {
        let is_in_file = header.next_position != 0 && header.flags & flags::ARTIFICIAL == 0;
        if is_in_file && !matches!(event, Event::Heartbeat(_)) {
            self.read.position = advance(self.read.position, header.next_position);
        }
        let result = self.apply(header, event, format);
        self.locks.end_statement();
        // Events between transactions change nothing, so that they are done with at once. The stored
        // position follows with the next transaction.
        if result.is_ok() && !self.is_inside() && self.applied.pending.is_none() {
            self.applied.coordinates.clone_from(&self.read);
        }
        result
    }

    fn apply(&mut self, header: &Header, event: Event, format: &FormatDescription) -> Followed<()> {
        match event {
            Event::Rotate(rotate) => {
                self.read = Coordinates {
                    file: String::from_utf8_lossy(&rotate.file).into_owned(),
                    position: rotate.position,
                };
                Ok(())
            }
            Event::Gtid(gtid) => {
                let times = gtid.commit_times;
                self.begin_group(header, gtid.gtid.map(AnyGtid::Mysql))?;
                if let (Some(group), Some(times)) = (&mut self.group, times) {
                    group.commit_micros = times.original;
                }
                Ok(())
            }
            Event::MariadbGtid(event) if event.is_xa => Err(self.refuse(
                "MariaDB's GTID",
                "XA transactions in two phases cannot be applied",
            )),
            Event::MariadbGtid(event) => {
                let gtid = Some(AnyGtid::Mariadb(event.gtid));
                self.begin_group(header, gtid)?;
                if event.is_standalone {
                    Ok(())
                } else {
                    self.begin()
                }
            }
            Event::Query(query) => self.query(header, &query, format),
            Event::TableMap(map) => self.table_map(*map),
            Event::Rows(rows) => self.rows(header, &rows),
            Event::Xid(_) => self.commit(),
            Event::XaPrepare(XaPrepare {
                one_phase: true, ..
            }) => self.commit(),
            Event::XaPrepare(_) => Err(self.refuse(
                "XA_PREPARE",
                "XA transactions in two phases cannot be applied",
            )),
            Event::TransactionPayload(payload) => self.payload(&payload, format),
            Event::Incident(incident) => {
                let message = String::from_utf8_lossy(&incident.message);
                Err(self.refuse(
                    "INCIDENT",
                    &format!("the source may have lost events: {message}"),
                ))
            }
            Event::FormatDescription(_)
            | Event::Stop
            | Event::PreviousGtids(_)
            | Event::RowsQuery(_)
            | Event::Heartbeat(_)
            | Event::MariadbGtidList(_)
            | Event::Ignored(_) => Ok(()),
        }
    }

    /// Applies the events of a compressed transaction.
    fn payload(
        &mut self,
        payload: &TransactionPayload,
        format: &FormatDescription,
    ) -> Followed<()> {
        let mut inner = format.clone();
        inner.has_checksums = false;
        for bytes in payload.iter() {
            let decoded = bytes.and_then(|bytes| Event::decode(bytes, &inner));
            let (mut header, event) =
                decoded.map_err(|error| self.failed("event", &ApplyError::from(error)))?;
            header.next_position = 0;
            // Each level may grow to the limit of an event, and uses stack.
            if matches!(event, Event::TransactionPayload(_)) {
                return Err(self.refuse(
                    "TRANSACTION_PAYLOAD",
                    "it contains another TRANSACTION_PAYLOAD",
                ));
            }
            self.apply(&header, event, &inner)?;
        }
        Ok(())
    }

    /// Starts a transaction of the source.
    fn begin_group(&mut self, header: &Header, gtid: Option<AnyGtid>) -> Followed<()> {
        let was_applied = gtid.is_some_and(|gtid| self.applied.gtids.contains(gtid));
        let is_own = header.server_id == self.options.server_id;
        let is_marked = header.flags & flags::MARIADB_SKIP_REPLICATION != 0
            && matches!(gtid, Some(AnyGtid::Mariadb(_)));
        let is_unwanted = !was_applied && !is_own && self.skip > 0;
        if is_unwanted {
            self.skip -= 1;
        }
        self.group = Some(Group {
            gtid,
            server_id: header.server_id,
            commit_micros: u64::from(header.timestamp) * 1_000_000,
            is_skipped: was_applied || is_own || is_unwanted || is_marked,
        });
        Ok(())
    }

    fn is_skipped(&self) -> bool {
        self.group.as_ref().is_some_and(|group| group.is_skipped)
    }

    fn begin(&mut self) -> Followed<()> {
        if self.txn.is_some() {
            return Ok(());
        }
        let options = BeginOptions {
            cancel: self.options.cancel.clone(),
            lock_wait: self.options.lock_wait,
            cascades_fire: false,
            fires_triggers: false,
            replicates: true,
            interface: Interface::Internal,
            ..BeginOptions::default()
        };
        let txn = self.db.begin(options);
        self.txn = Some(txn.map_err(|error| self.failed("BEGIN", &error.into()))?);
        Ok(())
    }

    /// Ends the transaction: position and rows are committed together.
    fn commit(&mut self) -> Followed<()> {
        self.begin()?;
        let group = self.group.take().unwrap_or_default();
        let mut next = self.applied.clone();
        next.coordinates = self.read.clone();
        next.pending = None;
        if let Some(gtid) = group.gtid {
            next.gtids.insert(gtid);
        }
        let Some(mut txn) = self.txn.take() else {
            return Ok(());
        };
        self.tables.clear();
        self.savepoints.clear();
        if group.commit_micros > 0 {
            txn.set_origin(group.origin());
        }
        let done = self.commit_with(&mut txn, &next);
        let done = done.and_then(|()| Ok(txn.commit()?));
        self.locks.finish(Activity::Commit);
        self.locks.end();
        let done = done.map_err(|error| self.failed("XID", &error))?;
        self.committed = done.position;
        self.applied = next;
        self.transactions += 1;
        Ok(())
    }

    fn commit_with(&mut self, txn: &mut Txn, next: &AppliedPosition) -> Result<(), ApplyError> {
        self.positions.write(txn, next)?;
        let deadline = self.db.clock().now() + self.options.lock_wait;
        let begun = self
            .locks
            .begin(Activity::Commit, deadline, &self.options.cancel);
        begun.map_err(|error| ApplyError::from(metadata_lock_error(error)))
    }

    /// Ends the transaction without its rows.
    fn roll_back(&mut self) -> Followed<()> {
        if let Some(txn) = self.txn.take() {
            txn.rollback();
        }
        self.commit()
    }

    fn query(
        &mut self,
        header: &Header,
        query: &QueryEvent,
        format: &FormatDescription,
    ) -> Followed<()> {
        let text = query.text.trim_ascii();
        let words = first_words(text);
        let word = |at: usize| words.get(at).map_or("", String::as_str);
        match (word(0), word(1)) {
            ("BEGIN", _) | ("START", "TRANSACTION") => {
                if self.group.is_none() {
                    // A source without GTIDs.
                    self.begin_group(header, None)?;
                }
                self.begin()
            }
            ("COMMIT", _) => self.commit(),
            ("ROLLBACK", "TO") => self.roll_back_to(text),
            ("ROLLBACK", _) => self.roll_back(),
            ("SAVEPOINT", _) => {
                if let Some(txn) = &self.txn {
                    self.savepoints.insert(name_of(text), txn.mark());
                }
                Ok(())
            }
            ("RELEASE", "SAVEPOINT") => Ok(()),
            ("XA", "START" | "BEGIN") => self.begin(),
            ("XA", "END") => Ok(()),
            ("XA", _) => {
                Err(self.refuse("QUERY", "XA transactions in two phases cannot be applied"))
            }
            ("", _) => self.after_statement(),
            ("INSERT" | "UPDATE" | "DELETE" | "REPLACE" | "LOAD" | "CALL" | "WITH" | "DO", _)
                if !is_generated(text) =>
            {
                self.changes_as_text(query)
            }
            _ => self.definition(header, query, format),
        }
    }

    /// A statement that changes rows and was logged as text.
    fn changes_as_text(&mut self, query: &QueryEvent) -> Followed<()> {
        if self.is_skipped() {
            return self.after_statement();
        }
        let text: String = String::from_utf8_lossy(&query.text)
            .chars()
            .take(200)
            .collect();
        Err(self.refuse(
            "QUERY",
            &format!(
                "the statement was logged as text, not as rows; set binlog_format = ROW for all sessions of the \
                 source, then skip this transaction or copy its rows: {text}"
            ),
        ))
    }

    fn roll_back_to(&mut self, text: &[u8]) -> Followed<()> {
        let mark = self.savepoints.get(&name_of(text)).copied();
        // Without a mark, nothing of the transaction was logged before the savepoint.
        if let (Some(mark), Some(txn)) = (mark, &mut self.txn) {
            txn.rollback_to(mark);
        }
        Ok(())
    }

    /// Runs a statement that defines something.
    fn definition(
        &mut self,
        header: &Header,
        query: &QueryEvent,
        format: &FormatDescription,
    ) -> Followed<()> {
        if self.group.is_none() {
            self.begin_group(header, None)?;
        }
        let database = String::from_utf8_lossy(&query.database).into_owned();
        let name = self.options.filters.rewritten(&database).to_owned();
        let is_filtered = !name.is_empty() && !self.options.filters.applies_to_database(&name);
        if !self.is_skipped() && !is_filtered {
            let mut query = query.clone();
            query.database = name.into_bytes();
            self.execute(&query, format.is_mariadb())?;
        }
        self.after_statement()
    }

    /// Ends the transaction after a single statement; inside of a longer one there is nothing to do.
    fn after_statement(&mut self) -> Followed<()> {
        if self.txn.is_some() {
            Ok(())
        } else {
            self.commit()
        }
    }

    /// Runs a definition, unless it was run before a crash.
    fn execute(&mut self, query: &QueryEvent, is_mariadb: bool) -> Followed<()> {
        let version = self.db.catalog_version();
        let before = self.applied.pending.take();
        let before = before.filter(|pending| pending.event == self.read);
        if before
            .as_ref()
            .is_some_and(|pending| pending.catalog_version != version)
        {
            return Ok(());
        }
        self.applied.pending = Some(PendingDefinition {
            event: self.read.clone(),
            catalog_version: version,
        });
        if before.is_none() {
            let saved = self.positions.save(&self.applied);
            saved.map_err(|error| self.failed("QUERY", &error.into()))?;
        }
        // The session that runs the statement waits for users of the tables.
        if self.txn.as_ref().is_none_or(|txn| !txn.has_writes()) {
            self.locks.end();
        }
        let origin = self.group.as_ref().map(Group::origin).unwrap_or_default();
        let Err(error) = self.runner.run(query, is_mariadb, origin) else {
            return Ok(());
        };
        let is_repeated = before.is_some() && REPEATED.contains(&error.number);
        if is_repeated || (error.number == query.error && query.error != 0) {
            return Ok(());
        }
        let text: String = String::from_utf8_lossy(&query.text)
            .chars()
            .take(500)
            .collect();
        Err(FollowError {
            number: error.number,
            message: format!(
                "Error '{}' on query. Default database: '{}'. Query: '{text}'{}",
                error.message,
                String::from_utf8_lossy(&query.database),
                self.place()
            ),
            is_transient: error.is_transient,
        })
    }

    fn table_map(&mut self, map: TableMap) -> Followed<()> {
        if self.is_skipped() {
            return Ok(());
        }
        let id = map.table_id;
        let database = String::from_utf8_lossy(&map.database).into_owned();
        let database = self.options.filters.rewritten(&database).to_owned();
        let name = String::from_utf8_lossy(&map.table).into_owned();
        if !self.options.filters.applies_to_table(&database, &name) {
            self.tables.insert(id, None);
            return Ok(());
        }
        let ranges = self.options.copied.ranges(&database, &name).cloned();
        if ranges.as_ref().is_some_and(CopiedRanges::is_empty) {
            self.tables.insert(id, None);
            return Ok(());
        }
        let mapped = self.map_table(&database, &name, map);
        let mapped = mapped.and_then(|mapped| match ranges {
            Some(ranges) => mapped.restricted(&ranges),
            None => Ok(mapped),
        });
        let mapped = mapped.map_err(|error| self.failed("TABLE_MAP", &error))?;
        self.tables.insert(id, Some(mapped));
        Ok(())
    }

    fn map_table(
        &self,
        database: &str,
        name: &str,
        map: TableMap,
    ) -> Result<MappedTable, ApplyError> {
        let find = || {
            let catalog = self.db.catalog();
            catalog.table(database, name).cloned().ok_or_else(|| {
                ApplyError::from(porpoise_rows::Error::NoSuchTable {
                    database: database.to_owned(),
                    table: name.to_owned(),
                })
            })
        };
        let mut table = find()?;
        loop {
            let deadline = self.db.clock().now() + self.options.lock_wait;
            self.locks
                .share_for_writing(&table.write_set, deadline, &self.options.cancel)
                .map_err(metadata_lock_error)?;
            // A definition may have changed before the lock was granted.
            let present = find()?;
            if Arc::ptr_eq(&present, &table) {
                return MappedTable::new(table, map);
            }
            table = present;
        }
    }

    fn rows(&mut self, header: &Header, rows: &crate::event::RowsEvent) -> Followed<()> {
        let is_end = rows.flags & row_flags::STATEMENT_END != 0;
        if self.is_skipped() || header.server_id == self.options.server_id {
            return Ok(());
        }
        self.begin()?;
        let name = crate::event::kind_name(header.kind);
        let Some(mapped) = self.tables.get(&rows.table_id) else {
            // MySQL ends a statement whose tables were all filtered with an event of a dummy number.
            return if rows.data.is_empty() {
                Ok(())
            } else {
                Err(self.refuse(name, "it refers to a table that no TABLE_MAP has described"))
            };
        };
        if let (Some(mapped), Some(txn)) = (mapped, &mut self.txn) {
            let table = format!("{}.{}", mapped.table().database, mapped.table().name);
            if let Some(version) = rows.row_version
                && let Err(error) = txn.set_row_version(version)
            {
                return Err(self.failed(&format!("{name} event on table {table}"), &error.into()));
            }
            if let Err(error) = mapped.apply(txn, rows) {
                return Err(self.failed(&format!("{name} event on table {table}"), &error));
            }
        }
        if is_end {
            self.tables.clear();
        }
        Ok(())
    }

    /// Where the present event ends, for messages.
    fn place(&self) -> String {
        let gtid = self.group.as_ref().and_then(|group| group.gtid);
        let gtid = gtid.map_or(String::new(), |gtid| format!(", GTID {gtid}"));
        format!(
            "; the event ends at {}:{}{gtid}",
            self.read.file, self.read.position
        )
    }

    fn failed(&self, what: &str, error: &ApplyError) -> FollowError {
        FollowError {
            number: error.number(),
            message: format!("Could not execute {what}: {error}{}", self.place()),
            is_transient: error.is_transient(),
        }
    }

    fn refuse(&self, what: &str, why: &str) -> FollowError {
        FollowError {
            number: 1593,
            message: format!("Could not execute {what}: {why}{}", self.place()),
            is_transient: false,
        }
    }
}

/// A position of 64 bits from the 32 bits in a header.
fn advance(position: u64, low: u32) -> u64 {
    let next = position & !u64::from(u32::MAX) | u64::from(low);
    // Files above 4 GiB: the header has the low bits only. A smaller position in the same 4 GiB means that they
    // have overflowed, unless the stream restarts in the file, which a ROTATE announces.
    if next < position && position - next > u64::from(u32::MAX / 2) {
        next + (1 << 32)
    } else {
        next
    }
}

/// The first two words of a statement in upper case, comments left out.
fn first_words(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text.get(..4096).unwrap_or(text));
    let mut rest = text.as_ref();
    let mut words = Vec::new();
    while words.len() < 2 {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '(');
        if let Some(comment) = rest.strip_prefix("/*") {
            // The contents of /*! are part of the statement.
            let inside = comment
                .strip_prefix("M!")
                .or_else(|| comment.strip_prefix('!'));
            rest = match inside {
                Some(inside) => inside.trim_start_matches(|c: char| c.is_ascii_digit()),
                None => comment.split_once("*/").map_or("", |(_, rest)| rest),
            };
            continue;
        }
        if rest.starts_with('#') || rest.starts_with("-- ") {
            rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
            continue;
        }
        let end = rest
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        if end == 0 {
            break;
        }
        let (word, after) = rest.split_at(end);
        words.push(word.to_ascii_uppercase());
        rest = after;
    }
    words
}

/// The last word of a statement, without quotes: the name of a savepoint.
fn name_of(text: &[u8]) -> Vec<u8> {
    let text = text.strip_suffix(b"`").unwrap_or(text);
    let start = text
        .iter()
        .rposition(|byte| *byte == b'`' || byte.is_ascii_whitespace())
        .map_or(0, |at| at + 1);
    text.get(start..).unwrap_or(text).to_ascii_lowercase()
}

/// Whether the source has made the statement up: tables in memory are empty after its start.
fn is_generated(text: &[u8]) -> bool {
    const MARK: &[u8] = b"generated by server";
    text.windows(MARK.len()).any(|window| window == MARK)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn statements_are_told_apart_by_their_first_words() {
        let words = |text: &str| first_words(text.as_bytes()).join(" ");
        assert_eq!(words("create  table t (a int)"), "CREATE TABLE");
        assert_eq!(words("/* hint */ -- x\n insert into t"), "INSERT INTO");
        assert_eq!(
            words("DROP /*!40005 TEMPORARY */ TABLE t"),
            "DROP TEMPORARY"
        );
        assert_eq!(words("# Dummy event"), "");
        assert_eq!(words("(((("), "");
        assert_eq!(name_of(b"ROLLBACK TO `Sp1`"), b"sp1");
        assert_eq!(name_of(b"SAVEPOINT a"), b"a");
    }

    #[test]
    fn positions_above_4_gib_continue() {
        assert_eq!(advance(4, 200), 200);
        assert_eq!(advance(u64::from(u32::MAX) - 10, 20), (1 << 32) + 20);
        assert_eq!(advance((1 << 32) + 5, 90), (1 << 32) + 90);
        assert_eq!(advance(500, 126), 126);
    }
}
