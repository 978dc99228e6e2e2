//! Context of a connection's requests: transactions, snapshots, metadata locks.
//!
//! Invariants:
//! 1. A request outside of a transaction that writes is one transaction, repeated after a conflict
//!    or deadlock at most [`MAX_ATTEMPTS`] times, because no part of it has been answered.
//! 2. A write holds the metadata locks of its tables and of those connected by foreign keys from
//!    before it reads the definition to the end of the transaction (rule 41).
//! 3. What a request holds until its answer is complete is charged to the connection's memory: the
//!    request, with its decoded values, and the rows that a batch in a transaction has read.
//! 4. A connection sees its own writes although they are not durable yet: a single key is then a
//!    current read, several keys are read after those writes have become durable.

use crate::failure::Failure;
use porpoise_base::blocking::blocking;
use porpoise_base::cancel::Cancel;
use porpoise_base::memory::{ConnectionMemory, MemoryClass, MemoryTracker};
use porpoise_kv::{CommitPosition, Isolation, Read};
use porpoise_rows::catalog::{Table, TableId};
use porpoise_rows::ddl::metadata_lock_error;
use porpoise_rows::metadata_lock::{Activity, MetadataLockSession};
use porpoise_rows::{BeginOptions, Db, Error, Txn};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Attempts at a request before its conflict is reported.
pub(crate) const MAX_ATTEMPTS: usize = 16;

/// Bytes of memory charged for each byte of a request: decoded values and results.
const MEMORY_FACTOR: u64 = 16;

/// Context of a connection's requests.
pub(crate) struct Context {
    pub(crate) db: Arc<Db>,
    pub(crate) cancel: Cancel,
    metadata_locks: MetadataLockSession,
    /// End of the request's time limit.
    deadline: Option<Instant>,
    /// The newest commit of this connection.
    newest_commit: CommitPosition,
    /// Version of the catalog at the snapshot of the open transaction.
    snapshot_version: u64,
    memory: MemoryTracker,
    /// Bytes charged for the request itself.
    request_bytes: u64,
}

impl Context {
    pub(crate) fn new(db: Arc<Db>, cancel: Cancel, memory: &Arc<ConnectionMemory>) -> Context {
        Context {
            metadata_locks: db.metadata_locks().session(),
            db,
            cancel,
            deadline: None,
            newest_commit: CommitPosition::NONE,
            snapshot_version: 0,
            memory: MemoryTracker::new(memory.clone(), MemoryClass::Statement),
            request_bytes: 0,
        }
    }

    /// Charges a request of this length, until [`Context::release_memory`].
    ///
    /// # Errors
    /// 4082: the memory limit is reached.
    pub(crate) fn charge_request(&mut self, length: usize) -> Result<(), Failure> {
        self.request_bytes = (length as u64).saturating_mul(MEMORY_FACTOR);
        Ok(self.memory.resize(self.request_bytes)?)
    }

    /// Charges this number of bytes of results beside the request.
    ///
    /// # Errors
    /// 4082: the memory limit is reached.
    pub(crate) fn charge_results(&self, bytes: usize) -> Result<(), Failure> {
        Ok(self.memory.resize(self.request_bytes + bytes as u64)?)
    }

    /// Ends the charge of a request and its results.
    pub(crate) fn release_memory(&mut self) {
        self.request_bytes = 0;
        self.memory.resize_always(0);
    }

    /// Begins a request with a time limit in milliseconds; 0: none.
    pub(crate) fn begin_request(&mut self, time_limit: u32) {
        self.deadline = (time_limit > 0)
            .then(|| self.db.clock().now() + Duration::from_millis(u64::from(time_limit)));
    }

    /// Fails if the request was cancelled or has exceeded its time limit. Called between chunks of
    /// rows.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if let Some(reason) = self.cancel.reason() {
            return Err(Error::Kv(porpoise_kv::Error::Cancelled(reason)));
        }
        if self.is_late() {
            let reason = porpoise_base::cancel::Reason::Timeout;
            return Err(Error::Kv(porpoise_kv::Error::Cancelled(reason)));
        }
        Ok(())
    }

    fn is_late(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| self.db.clock().now() >= deadline)
    }

    /// The error to report: a wait for a lock that ended with the request's time is error 3024.
    pub(crate) fn reported(&self, error: Error) -> Error {
        match error {
            Error::Kv(porpoise_kv::Error::LockTimeout) if self.is_late() => {
                self.check().err().unwrap_or(error)
            }
            _ => error,
        }
    }

    /// Longest wait for a lock.
    pub(crate) fn lock_wait(&self) -> Duration {
        let usual = BeginOptions::default().lock_wait;
        let left = |deadline: Instant| deadline.saturating_duration_since(self.db.clock().now());
        self.deadline.map_or(usual, |d| usual.min(left(d)))
    }

    /// Begins a transaction. The rows that have expired are the same for its whole life.
    pub(crate) fn begin(&self, isolation: Isolation) -> Result<Txn, Error> {
        let mut txn = self.db.begin(BeginOptions {
            isolation,
            cancel: self.cancel.clone(),
            lock_wait: self.lock_wait(),
            ..BeginOptions::default()
        })?;
        if self.db.has_ttl() {
            txn.set_expiry_time(self.db.expiry_time());
        }
        Ok(txn)
    }

    /// A transaction for the reads of one request, and the read mode for `count` keys.
    pub(crate) fn reader(&mut self, count: usize) -> Result<(Txn, Read), Error> {
        let engine = self.db.engine();
        let mut read = Read::SNAPSHOT;
        if self.newest_commit != CommitPosition::NONE {
            if engine.durable_position() >= self.newest_commit {
                self.newest_commit = CommitPosition::NONE;
            } else if count == 1 {
                read = Read::CURRENT;
            } else {
                self.await_own_commits()?;
            }
        }
        let mut txn = self.begin(Isolation::Snapshot)?;
        if let Some(staleness) = self.db.read_staleness() {
            txn.refresh_within(staleness)?;
        }
        Ok((txn, read))
    }

    /// Begins a transaction of several requests. Its snapshot is taken by the first request that reads,
    /// and contains this connection's commits.
    pub(crate) fn begin_open(&mut self, isolation: Isolation) -> Result<Txn, Error> {
        self.await_own_commits()?;
        self.snapshot_version = self.db.catalog_version();
        self.begin(isolation)
    }

    /// Takes the snapshot of the open transaction, if it has none.
    pub(crate) fn pin(&mut self, txn: &mut Txn) -> Result<(), Error> {
        if !txn.pinned() {
            // Read before the snapshot is taken: a definition that changes in between is refused by
            // `check_definition`, never missed.
            self.snapshot_version = self.db.catalog_version();
            txn.pin()?;
        }
        Ok(())
    }

    /// Checks that the rows of a table in the open transaction's snapshot have its present definition.
    ///
    /// # Errors
    /// 1412.
    pub(crate) fn check_definition(&self, txn: &Txn, table: &Table) -> Result<(), Error> {
        if txn.pinned() && table.incompatible_since > self.snapshot_version {
            return Err(Error::DefinitionChanged);
        }
        Ok(())
    }

    /// Waits until this connection's commits are durable: a snapshot shows only durable commits.
    pub(crate) fn await_own_commits(&mut self) -> Result<(), Error> {
        let (engine, position) = (self.db.engine(), self.newest_commit);
        if position > engine.durable_position() {
            blocking(|| engine.wait_durable(position))?;
        }
        self.newest_commit = CommitPosition::NONE;
        Ok(())
    }

    /// Commits the open transaction, and releases its metadata locks.
    ///
    /// # Errors
    /// The transaction was rolled back, because of a conflict or because the wait for FLUSH TABLES
    /// WITH READ LOCK timed out; or the outcome of the commit is unknown.
    pub(crate) fn commit(&mut self, txn: Txn) -> Result<CommitPosition, Error> {
        let writes = txn.has_writes();
        if writes {
            let deadline = || self.db.clock().now() + self.lock_wait();
            let begun = self
                .metadata_locks
                .begin_until(Activity::Commit, deadline, &self.cancel);
            if let Err(error) = begun {
                txn.rollback();
                self.unshare();
                return Err(metadata_lock_error(error));
            }
        }
        let done = txn.commit();
        if writes {
            self.metadata_locks.finish(Activity::Commit);
        }
        self.unshare();
        let position = done?.position;
        self.note_commit(position);
        Ok(position)
    }

    /// Ends a request of the open transaction. Between requests the transaction blocks DDL on its
    /// tables, but not FLUSH TABLES WITH READ LOCK.
    pub(crate) fn end_request(&self) {
        self.metadata_locks.end_statement();
    }

    /// Records a commit of this connection.
    pub(crate) fn note_commit(&mut self, position: CommitPosition) {
        self.newest_commit = self.newest_commit.max(position);
    }

    /// Takes shared metadata locks on tables that are written, until [`Context::unshare`].
    pub(crate) fn share(&self, tables: &[TableId]) -> Result<(), Error> {
        let deadline = || self.db.clock().now() + self.lock_wait();
        self.metadata_locks
            .share_for_writing(tables, deadline, &self.cancel)
            .map_err(metadata_lock_error)
    }

    /// Releases the metadata locks.
    pub(crate) fn unshare(&self) {
        self.metadata_locks.end();
    }
}
