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
//! With several workers ([`workers`]) the events of a transaction are collected until its end, and given to one of them;
//! everything else waits until all transactions before it are committed, and is done by the thread that reads.
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

mod error;
mod transaction;
mod workers;
mod write_set;
mod xa;

pub use error::FollowError;
pub use workers::{CommitListener, WorkerBoard, WorkerStatus, WorkerTransaction};

use crate::apply::ApplyError;
use crate::copied::CopiedTables;
use crate::event::{
    Event, FormatDescription, Header, QueryEvent, RowsEvent, TableMap, TransactionPayload, XaStep,
    flags,
};
use crate::filter::Filters;
use crate::position::{AnyGtid, AppliedPosition, Coordinates, PendingDefinition, PositionTable};
use error::{Failure, Followed, place};
use parking_lot::Mutex;
use porpoise_base::cancel::Cancel;
use porpoise_kv::{CommitPosition, StatementMark};
use porpoise_rows::Db;
use porpoise_rows::changes::Origin;
use porpoise_rows::prepared::{PreparedTxn, Xid};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use transaction::{RowChange, Selection, Transaction};
use workers::{Batch, Ending, Progress, WorkerOptions, Workers};

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

    /// Whether this server has prepared an XA transaction branch.
    fn is_prepared(&self, xid: &Xid) -> bool;

    /// Adds a branch to this server's branches; `prepare` prepares it.
    ///
    /// # Errors
    /// Another branch has the identifier, or `prepare` fails.
    fn prepare(
        &mut self,
        xid: &Xid,
        prepare: &mut dyn FnMut() -> porpoise_rows::Result<PreparedTxn>,
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

/// Settings of a [`Follower`].
pub struct FollowOptions {
    /// This server's id: its own events are skipped.
    pub server_id: u32,
    /// Filters of the tables and statements that are applied.
    pub filters: Filters,
    /// The tables that an import has not copied completely: only changes of their copied rows are applied.
    pub copied: CopiedTables,
    /// Longest wait for a row lock.
    pub lock_wait: Duration,
    /// Ends all waits.
    pub cancel: Cancel,
    /// Number of threads that apply transactions; below 2 the caller's thread does.
    pub workers: usize,
    /// Receives the states of the workers.
    pub board: WorkerBoard,
    /// Is called after each commit.
    pub listener: CommitListener,
}

/// The transaction of the source that is being applied.
#[derive(Default)]
struct Group {
    gtid: Option<AnyGtid>,
    /// The server that ran it first, and the time of its commit there.
    server_id: u32,
    commit_micros: u64,
    /// The source's time in seconds since 1970.
    timestamp: u32,
    /// Its changes are left out: it was applied before, or is to be skipped.
    is_skipped: bool,
    /// The XA branch that it prepares, if that was done before a crash.
    prepared: Option<Xid>,
}

/// Applier of a source's events.
pub struct Follower {
    db: Arc<Db>,
    positions: PositionTable,
    options: FollowOptions,
    runner: Box<dyn StatementRunner>,
    /// The applied and stored position.
    progress: Arc<Progress>,
    /// End of the last event.
    read: Coordinates,
    group: Option<Group>,
    /// The transaction of this thread.
    transaction: Transaction,
    savepoints: HashMap<Vec<u8>, StatementMark>,
    workers: Option<Workers>,
    /// The transaction of the source that is collected for the workers.
    batch: Option<Batch>,
    /// Transactions that are still to be skipped.
    skip: u64,
}

impl Group {
    /// The origin that this server's change log records. It has the identifier if that is MySQL's and has no tag. Other
    /// transactions get identifiers of this server, because the log cannot store tags.
    fn origin(&self) -> Origin {
        let gtid = match self.gtid {
            Some(AnyGtid::Mysql(gtid)) if gtid.tag.is_none() => Some((gtid.source.0, gtid.number)),
            _ => None,
        };
        Origin {
            server_id: self.server_id,
            gtid,
            commit_micros: self.commit_micros,
        }
    }
}

/// Errors of a definition that was executed before: the object exists, or is gone.
const REPEATED: [u16; 17] = [
    1007, 1008, 1050, 1051, 1054, 1060, 1061, 1068, 1091, 1141, 1146, 1147, 1304, 1305, 1359, 1396,
    1537,
];

impl Follower {
    /// An applier that goes on after `applied`. `skip` transactions are left out first.
    ///
    /// # Errors
    /// The system's, if no thread can be created.
    pub fn new(
        db: Arc<Db>,
        options: FollowOptions,
        runner: Box<dyn StatementRunner>,
        applied: AppliedPosition,
        skip: u64,
    ) -> std::io::Result<Follower> {
        let selection = Selection {
            filters: Arc::new(options.filters.clone()),
            copied: Arc::new(options.copied.clone()),
        };
        let read = applied.coordinates.clone();
        let progress = Arc::new(Progress {
            applied: Mutex::new(applied),
            committed: Mutex::new(CommitPosition::NONE),
            listener: options.listener.clone(),
        });
        let workers = WorkerOptions {
            count: options.workers,
            selection: selection.clone(),
            lock_wait: options.lock_wait,
            board: options.board.clone(),
            cancel: options.cancel.clone(),
        };
        let is_parallel = options.workers > 1;
        let workers = is_parallel.then(|| Workers::start(&db, workers, progress.clone()));
        let (cancel, wait) = (options.cancel.clone(), options.lock_wait);
        Ok(Follower {
            positions: PositionTable::new(db.clone()),
            transaction: Transaction::new(db.clone(), selection, cancel, wait),
            db,
            options,
            runner,
            progress,
            read,
            group: None,
            savepoints: HashMap::new(),
            workers: workers.transpose()?,
            batch: None,
            skip,
        })
    }

    /// The applied position.
    #[must_use]
    pub fn applied(&self) -> AppliedPosition {
        self.progress.applied.lock().clone()
    }

    /// End of the last event.
    #[must_use]
    pub fn read(&self) -> &Coordinates {
        &self.read
    }

    /// Number of transactions that are still to be skipped.
    #[must_use]
    pub fn to_skip(&self) -> u64 {
        self.skip
    }

    /// Waits until everything that was read is applied.
    ///
    /// # Errors
    /// See [`Follower::event`].
    pub fn drain(&self) -> Followed<()> {
        self.workers.as_ref().map_or(Ok(()), Workers::drain)
    }

    /// Waits until everything that was read is applied and on disk.
    ///
    /// # Errors
    /// See [`Follower::event`]; the log of the engine has failed.
    pub fn wait_durable(&self) -> Followed<()> {
        self.drain()?;
        let committed = *self.progress.committed.lock();
        let done = self.db.engine().wait_durable(committed);
        done.map_err(|error| self.failed("XID", porpoise_rows::Error::from(error).into()))
    }

    /// The commit of everything that was read; `None` while workers apply some of it.
    #[must_use]
    pub fn commit_of_read(&self) -> Option<CommitPosition> {
        // With workers it may be of an earlier transaction.
        let is_applied = self.workers.is_none();
        is_applied.then(|| *self.progress.committed.lock())
    }

    /// A commit that is not before any commit of the transactions before `place`; `None` while workers apply some of them.
    ///
    /// # Errors
    /// See [`Follower::event`].
    pub fn commit_before(&self, place: &Coordinates) -> Followed<Option<CommitPosition>> {
        if let Some(workers) = &self.workers
            && !workers.is_idle()?
            && !self.is_applied(place)
        {
            return Ok(None);
        }
        Ok(Some(*self.progress.committed.lock()))
    }

    fn is_applied(&self, place: &Coordinates) -> bool {
        let applied = self.progress.applied.lock();
        applied
            .coordinates
            .is_at_or_after(&place.file, place.position)
    }

    /// Whether a commit is on disk.
    #[must_use]
    pub fn is_durable(&self, commit: CommitPosition) -> bool {
        self.db.engine().durable_position() >= commit
    }

    /// Whether a transaction has begun.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        self.group.is_some() || self.is_transaction()
    }

    /// Whether rows of the source's transaction are applied, or collected.
    fn is_transaction(&self) -> bool {
        self.transaction.is_open() || self.batch.is_some()
    }

    /// If everything that was read is applied, advances the applied position past events between transactions, which change
    /// nothing, and returns it. The stored position follows with the next transaction.
    ///
    /// # Errors
    /// See [`Follower::event`].
    pub fn settle(&mut self) -> Followed<Option<&Coordinates>> {
        let is_idle = self.workers.as_ref().map_or(Ok(true), Workers::is_idle)?;
        if !is_idle || self.is_inside() {
            return Ok(None);
        }
        let mut applied = self.progress.applied.lock();
        if applied.pending.is_some() {
            return Ok(None);
        }
        if applied.coordinates != self.read {
            applied.coordinates.clone_from(&self.read);
        }
        drop(applied);
        Ok(Some(&self.read))
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
        self.apply(header, event, format)
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
            Event::MariadbGtid(event) => {
                let gtid = Some(AnyGtid::Mariadb(event.gtid));
                self.begin_group(header, gtid)?;
                match event.xa {
                    _ if event.is_standalone => Ok(()),
                    Some(XaStep::Prepare(xid)) => self.begin_branch(xid),
                    Some(XaStep::End(_)) | None => self.begin(),
                }
            }
            Event::Query(query) => self.query(header, &query, format),
            Event::TableMap(map) => self.table_map(*map),
            Event::Rows(rows) => self.rows(header, rows),
            Event::Xid(_) => self.commit(),
            Event::XaPrepare(event) if event.one_phase => self.commit(),
            Event::XaPrepare(event) => self.prepare(&event),
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
                decoded.map_err(|error| self.failed("event", ApplyError::from(error)))?;
            header.next_position = 0;
            // Nesting is refused: each level may grow to the size limit of an event, and uses stack.
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
        let was_applied =
            gtid.is_some_and(|gtid| self.progress.applied.lock().gtids.contains(gtid));
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
            timestamp: header.timestamp,
            is_skipped: was_applied || is_own || is_unwanted || is_marked,
            prepared: None,
        });
        Ok(())
    }

    fn is_skipped(&self) -> bool {
        self.group.as_ref().is_some_and(|group| group.is_skipped)
    }

    fn begin(&mut self) -> Followed<()> {
        if self.is_transaction() {
            return Ok(());
        }
        if self.workers.is_some() {
            self.batch = Some(Batch::default());
            return Ok(());
        }
        self.transaction
            .begin()
            .map_err(|failure| self.at(&failure))
    }

    /// Ends the transaction: position and rows are committed together.
    fn commit(&mut self) -> Followed<()> {
        let group = self.group.take().unwrap_or_default();
        let ending = Ending {
            coordinates: self.read.clone(),
            gtid: group.gtid,
            origin: (group.commit_micros > 0).then(|| group.origin()),
            timestamp: group.timestamp,
        };
        self.savepoints.clear();
        if let (Some(batch), Some(workers)) = (self.batch.take(), &mut self.workers) {
            return workers.enter(batch, ending);
        }
        self.drain()?;
        let next = ending.advance(&self.progress.applied.lock());
        let positions = self.positions.clone();
        let write = |txn: &mut porpoise_rows::Txn| positions.write(txn, &next);
        let done = self.transaction.commit(ending.origin, write);
        let committed = done.map_err(|failure| failure.at(&self.read, ending.gtid))?;
        *self.progress.committed.lock() = committed;
        (self.progress.listener)(&next, ending.timestamp);
        *self.progress.applied.lock() = next;
        Ok(())
    }

    /// Ends the transaction without its rows.
    fn roll_back(&mut self) -> Followed<()> {
        self.transaction.roll_back();
        if self.batch.is_some() {
            self.batch = Some(Batch::default());
        }
        self.commit()
    }

    /// Continues the transaction in this thread, after everything before it is committed.
    fn leave_workers(&mut self) -> Followed<()> {
        self.drain()?;
        let Some(mut batch) = self.batch.take() else {
            return Ok(());
        };
        self.transaction
            .begin()
            .map_err(|failure| self.at(&failure))?;
        batch
            .apply(&mut self.transaction)
            .map_err(|(failure, end)| {
                let place = Coordinates {
                    file: self.read.file.clone(),
                    position: end,
                };
                failure.at(&place, self.gtid())
            })
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
                if let Some(batch) = &mut self.batch {
                    batch.set_savepoint(name_of(text));
                } else if let Some(mark) = self.transaction.mark() {
                    self.savepoints.insert(name_of(text), mark);
                }
                Ok(())
            }
            ("RELEASE", "SAVEPOINT") => Ok(()),
            ("XA", "START" | "BEGIN") => {
                if self.group.is_none() {
                    self.begin_group(header, None)?;
                }
                let xid = xa::parse(text);
                let why = "it names an XA branch in an unknown form";
                let (xid, _) = xid.ok_or_else(|| self.refuse("QUERY", why))?;
                self.begin_branch(xid)
            }
            ("XA", command @ ("COMMIT" | "ROLLBACK")) => {
                if self.group.is_none() {
                    self.begin_group(header, None)?;
                }
                self.end_branch(query, command)
            }
            // XA END, and XA PREPARE, which an event of its own follows.
            ("XA", _) => Ok(()),
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
        let name = name_of(text);
        if let Some(batch) = &mut self.batch {
            batch.roll_back_to(&name);
        } else if let Some(mark) = self.savepoints.get(&name) {
            // Without a mark, nothing of the transaction was logged before the savepoint.
            self.transaction.rollback_to(*mark);
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
        if self.is_transaction() {
            Ok(())
        } else {
            self.commit()
        }
    }

    /// Runs a definition, unless it was run before a crash.
    fn execute(&mut self, query: &QueryEvent, is_mariadb: bool) -> Followed<()> {
        self.leave_workers()?;
        let version = self.db.catalog_version();
        let before = self.progress.applied.lock().pending.take();
        let before = before.filter(|pending| pending.event == self.read);
        if before
            .as_ref()
            .is_some_and(|pending| pending.catalog_version != version)
        {
            return Ok(());
        }
        let applied = {
            let mut applied = self.progress.applied.lock();
            applied.pending = Some(PendingDefinition {
                event: self.read.clone(),
                catalog_version: version,
            });
            applied.clone()
        };
        if before.is_none() {
            let saved = self.positions.save(&applied);
            saved.map_err(|error| self.failed("QUERY", error.into()))?;
        }
        // The session that runs the statement waits for users of the tables.
        self.transaction.release_unused();
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
                place(&self.read, self.gtid())
            ),
            is_transient: error.is_transient,
        })
    }

    fn table_map(&mut self, map: TableMap) -> Followed<()> {
        if self.is_skipped() {
            return Ok(());
        }
        let map = Arc::new(map);
        if let Some(batch) = &mut self.batch {
            batch.push_map(map, self.read.position);
            return Ok(());
        }
        let done = self.transaction.apply(&mut RowChange::Map(map));
        done.map_err(|failure| self.at(&failure))
    }

    fn rows(&mut self, header: &Header, rows: RowsEvent) -> Followed<()> {
        if self.is_skipped() || header.server_id == self.options.server_id {
            return Ok(());
        }
        self.begin()?;
        if let Some(batch) = &mut self.batch {
            batch.push_rows(header.kind, rows, self.read.position);
            return if batch.is_large() {
                self.leave_workers()
            } else {
                Ok(())
            };
        }
        let done = self
            .transaction
            .apply(&mut RowChange::Rows(header.kind, rows, None));
        done.map_err(|failure| self.at(&failure))
    }

    fn gtid(&self) -> Option<AnyGtid> {
        self.group.as_ref().and_then(|group| group.gtid)
    }

    /// The error of the present event.
    fn at(&self, failure: &Failure) -> FollowError {
        failure.at(&self.read, self.gtid())
    }

    fn failed(&self, what: &str, error: ApplyError) -> FollowError {
        self.at(&Failure::apply(what, error))
    }

    fn refuse(&self, what: &str, why: &str) -> FollowError {
        self.at(&Failure::refused(what, why))
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
