//! A transaction on rows.
//!
//! A thin layer over the engine's transaction: views, marks and savepoints are
//! the engine's; what is added is tables. [`lookup`] reads and locks rows by key, [`scan`] by range;
//! [`insert`], [`update`], [`delete`] and [`cascade`] are the only code that
//! writes rows.
//!
//! Invariants:
//! 1. Every function that writes is atomic: on an error it takes back what it
//!    wrote (down to its mark) and keeps its locks (transactions.md, rule 9).
//! 2. A row and its entries change together: a call that puts or deletes
//!    a row puts and deletes all its entries.
//! 3. All constraint checks read the newest state under a lock, never the
//!    snapshot (rule 4), and see every own write.
//! 4. All rows written by one transaction carry one row version (rule 31).

mod arena;
pub(crate) mod cascade;
pub(crate) mod delete;
mod expressions;
pub(crate) mod gather;
pub(crate) mod insert;
mod key_changes;
pub(crate) mod keyset;
pub(crate) mod lookup;
pub(crate) mod merge;
mod reapply;
pub(crate) mod scan;
pub(crate) mod update;
pub(crate) mod write;

use crate::db::Db;
use crate::definition::TableId;
use crate::expressions::RowContext;
use crate::table::Table;
use crate::{AutoIncOptions, Error, Result};
use keyset::KeySet;
use porpoise_base::cancel::Cancel;
use porpoise_kv::{self as kv, CommitPosition, Isolation, StatementMark, TxnOptions, Wait};
use porpoise_types::Value;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

/// How a transaction begins.
#[derive(Clone, Debug)]
pub struct BeginOptions {
    /// The engine's isolation.
    pub isolation: Isolation,
    /// The commit is synced in `interval` mode, too (definitions).
    pub sync: bool,
    /// Ends its waits from outside.
    pub cancel: Cancel,
    /// `innodb_lock_wait_timeout`.
    pub lock_wait: Duration,
    /// `foreign_key_checks`.
    pub foreign_key_checks: bool,
    /// `innodb_snapshot_isolation`: REPLACE of a row newer than a pinned
    /// snapshot is a conflict.
    pub snapshot_conflicts: bool,
}

impl Default for BeginOptions {
    fn default() -> BeginOptions {
        BeginOptions {
            isolation: Isolation::Snapshot,
            sync: false,
            cancel: Cancel::default(),
            lock_wait: Duration::from_secs(50),
            foreign_key_checks: true,
            snapshot_conflicts: true,
        }
    }
}

/// A transaction on rows; dropped, it is rolled back.
pub struct Txn {
    pub(crate) db: Arc<Db>,
    pub(crate) kv: Box<dyn kv::Txn>,
    cancel: Cancel,
    row_version: u64,
    lock_wait: Duration,
    foreign_key_checks: bool,
    snapshot_conflicts: bool,
    scratch: Scratch,
    /// Rows replaced keep their version.
    keep_version: bool,
    /// The table of the last row written, and those with subscribers written so far.
    last_written: Option<TableId>,
    subscribed: SmallVec<[TableId; 2]>,
    /// What expressions of definitions see; `None`: the plain one.
    pub(crate) row_context: Option<Box<RowContext>>,
}

/// Buffers of writing statements. They outlive their transaction in a pool of
/// the thread, so that a small statement allocates next to nothing.
#[derive(Default)]
struct Scratch {
    /// Taken by a writing statement for its time.
    keys: KeySet,
    /// Encoded row.
    row: Vec<u8>,
    /// Encoded entry.
    entry: Vec<u8>,
}

thread_local! {
    static POOL: RefCell<Vec<Scratch>> = const { RefCell::new(Vec::new()) };
}

impl Scratch {
    fn take() -> Scratch {
        POOL.try_with(|pool| pool.try_borrow_mut().ok()?.pop())
            .ok()
            .flatten()
            .unwrap_or_default()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        const KEPT: usize = 8;
        let mut keys = std::mem::take(&mut self.keys);
        keys.clear();
        let (row, entry) = (
            std::mem::take(&mut self.row),
            std::mem::take(&mut self.entry),
        );
        if row.capacity() > 1 << 20 || row.capacity() + entry.capacity() == 0 {
            return;
        }
        // A thread that ends has no pool any more; its buffers just go.
        let _ = POOL.try_with(|pool| {
            if let Ok(mut pool) = pool.try_borrow_mut()
                && pool.len() < KEPT
            {
                // Its own drop finds nothing to keep once the pool drops it.
                pool.push(Scratch { keys, row, entry });
            }
        });
    }
}

impl Db {
    /// Begins a transaction.
    ///
    /// # Errors
    /// The engine's.
    pub fn begin(self: &Arc<Self>, options: BeginOptions) -> Result<Txn> {
        let kv = self.engine().begin(TxnOptions {
            isolation: options.isolation,
            sync: options.sync,
            cancel: options.cancel.clone(),
        })?;
        Ok(Txn::new(self.clone(), kv, &options))
    }
}

impl Txn {
    fn new(db: Arc<Db>, kv: Box<dyn kv::Txn>, options: &BeginOptions) -> Txn {
        Txn {
            db,
            kv,
            cancel: options.cancel.clone(),
            row_version: 0,
            lock_wait: options.lock_wait,
            foreign_key_checks: options.foreign_key_checks,
            snapshot_conflicts: options.snapshot_conflicts,
            scratch: Scratch::take(),
            keep_version: false,
            last_written: None,
            subscribed: SmallVec::new(),
            row_context: None,
        }
    }

    /// An error once the transaction is to end from outside: looked at for
    /// every row written and every child found, so that a statement over many
    /// rows can be killed while it waits for nothing.
    #[inline]
    pub(crate) fn check_cancel(&self) -> Result<()> {
        match self.cancel.reason() {
            None => Ok(()),
            Some(reason) => Err(Error::Kv(kv::Error::Cancelled(reason))),
        }
    }

    /// The database.
    pub fn db(&self) -> &Arc<Db> {
        &self.db
    }

    /// Moves the view to now, unless it is pinned.
    ///
    /// # Errors
    /// The engine's.
    pub fn refresh(&mut self) -> Result<()> {
        Ok(self.kv.refresh()?)
    }

    /// Keeps the present view to the end of the transaction.
    ///
    /// # Errors
    /// The engine's.
    pub fn pin(&mut self) -> Result<()> {
        Ok(self.kv.pin()?)
    }

    /// From now on keeps what is read from the view, for [`Txn::advance`]; to
    /// be called before its first read.
    pub fn track_reads(&mut self) {
        self.kv.track_reads();
    }

    /// Moves a pinned view to now, if everything that was read from it is the
    /// same there; else it stays.
    ///
    /// # Errors
    /// The engine's.
    pub fn advance(&mut self) -> Result<bool> {
        Ok(self.kv.advance()?)
    }

    /// How many reads are kept so far, for the commit or for
    /// [`Txn::advance`]: a position for [`Txn::untrack_reads`].
    pub fn tracked_reads(&self) -> usize {
        self.kv.tracked_reads()
    }

    /// Forgets the reads that are kept from there on: those of a run of a
    /// statement that is run again at a newer view.
    pub fn untrack_reads(&mut self, from: usize) {
        self.kv.untrack_reads(from);
    }

    /// Whether the view is pinned.
    pub fn pinned(&self) -> bool {
        self.kv.pinned()
    }

    /// The present end of the write set: statement mark and savepoint.
    pub fn mark(&self) -> StatementMark {
        self.kv.mark()
    }

    /// Takes back the writes from `mark` on; keeps locks.
    pub fn rollback_to(&mut self, mark: StatementMark) {
        self.kv.rollback_to(mark);
    }

    /// Whether anything was written and not taken back.
    pub fn has_writes(&self) -> bool {
        self.kv.has_writes()
    }

    /// The newest commit that current reads and lock grants have shown: a
    /// reply made from them waits for it.
    pub fn seen(&self) -> CommitPosition {
        self.kv.seen()
    }

    /// `foreign_key_checks` from now on; validates nothing.
    pub fn set_foreign_key_checks(&mut self, on: bool) {
        self.foreign_key_checks = on;
    }

    /// Whether foreign keys are checked.
    pub fn foreign_key_checks(&self) -> bool {
        self.foreign_key_checks
    }

    /// `innodb_lock_wait_timeout` from now on.
    pub fn set_lock_wait(&mut self, wait: Duration) {
        self.lock_wait = wait;
    }

    /// The wait policy of a lock asked for now.
    pub fn wait(&self) -> Wait {
        let now = self.db.clock().now();
        Wait::Until(
            now.checked_add(self.lock_wait)
                .unwrap_or_else(|| now + Duration::from_secs(86_400)),
        )
    }

    /// The version that rows written by this transaction carry; reserved at
    /// first use.
    ///
    /// # Errors
    /// The engine's error if it cannot reserve a range; [`kv::Full::Ids`] past the bound.
    pub fn row_version(&mut self) -> Result<u64> {
        if self.row_version == 0 {
            self.row_version = self.db.versions.next(self.db.engine().as_ref())?;
        }
        Ok(self.row_version)
    }

    /// Fills the auto-increment column of rows about to be inserted: NULL and
    /// 0 are replaced by generated ids, consecutive within the call; explicit
    /// values push the counter. Returns the first id generated.
    ///
    /// # Errors
    /// [`Error::AutoIncrementExhausted`]; the engine's.
    pub fn assign_auto_increment(
        &mut self,
        table: &Table,
        rows: &mut [Vec<Value>],
        options: AutoIncOptions,
    ) -> Result<Option<u64>> {
        let engine = self.db.engine().as_ref();
        self.db.counters.assign(engine, table, rows, options)
    }

    /// Commits. No reply that tells of it may leave before the commit position is
    /// durable.
    ///
    /// # Errors
    /// The engine's; nothing has changed then, unless it is
    /// [`kv::Error::Unknown`].
    pub fn commit(self) -> Result<kv::Commit> {
        let done = self.kv.commit();
        if !self.subscribed.is_empty() {
            match &done {
                Ok(commit) => self
                    .db
                    .change_notifier
                    .notify(&self.subscribed, commit.position),
                Err(kv::Error::Unknown(_)) => {
                    self.db
                        .change_notifier
                        .notify(&self.subscribed, CommitPosition::NONE);
                }
                Err(_) => {}
            }
        }
        Ok(done?)
    }

    /// Ends the transaction without a trace.
    pub fn rollback(self) {
        self.kv.rollback();
    }

    /// Fails with [`Error::SnapshotConflict`] when a row that is newer than
    /// the view may not be written (rule 3).
    ///
    /// # Errors
    /// See above.
    pub fn check_newer(&self, newer: bool) -> Result<()> {
        if newer && self.snapshot_conflicts && self.kv.pinned() {
            Err(Error::SnapshotConflict)
        } else {
            Ok(())
        }
    }

    /// Notes that a row of `table` was written, for subscribers to its changes.
    fn note_written(&mut self, table: &Table) {
        if self.last_written == Some(table.id) {
            return;
        }
        self.last_written = Some(table.id);
        if self.db.change_notifier.is_subscribed(table.id) && !self.subscribed.contains(&table.id) {
            self.subscribed.push(table.id);
        }
    }

    /// Runs a writing statement with a cleared key set; takes its writes back
    /// when it fails.
    fn statement<T>(
        &mut self,
        table: &Table,
        run: impl FnOnce(&mut Txn, &mut KeySet) -> Result<T>,
    ) -> Result<T> {
        let mark = self.kv.mark();
        let mut keys = std::mem::take(&mut self.scratch.keys);
        keys.clear();
        let done = run(self, &mut keys);
        self.scratch.keys = keys;
        if done.is_err() {
            self.kv.rollback_to(mark);
        }
        done.map_err(|e| match e {
            Error::Kv(kv::Error::Full(kv::Full::Memory | kv::Full::Disk)) => Error::Full {
                table: table.name.clone(),
            },
            e => e,
        })
    }
}
