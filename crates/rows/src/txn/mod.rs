//! A transaction on rows.
//!
//! A thin layer over the engine's transaction that adds tables. Snapshots, statement marks and
//! savepoints are the engine's. [`Txn`]'s functions are here; they call
//! [`lookup`], which reads and locks rows by key, [`scan`], which reads them by
//! range, and `Statement`, whose functions in [`insert`], [`update`], [`delete`]
//! and [`cascade`] are the only code that writes rows.
//!
//! Invariants:
//! 1. Every function that writes is atomic: on an error it rolls back its writes (to its statement
//!    mark) and keeps its locks (transactions.md, rule 9).
//! 2. A row and its index entries change together: a call that writes or deletes a row also writes
//!    or deletes all its entries.
//! 3. All constraint checks read the newest state under a lock, never the
//!    snapshot (rule 4), and see every own write.
//! 4. All rows written by one transaction carry one row version (rule 31).

pub(crate) mod access_counts;
mod arena;
mod capture;
pub(crate) mod cascade;
pub(crate) mod delete;
mod documents;
mod ending;
pub(crate) mod expired;
mod expressions;
pub(crate) mod firing;
pub(crate) mod gather;
pub(crate) mod insert;
mod key_changes;
pub(crate) mod keyset;
pub(crate) mod lookup;
pub(crate) mod merge;
mod reapply;
pub(crate) mod replace;
pub(crate) mod scan;
mod scratch;
mod statement;
pub(crate) mod text_search;
pub(crate) mod update;
pub(crate) mod write;
mod written_table;

use crate::autoinc::GeneratedIds;
use crate::changes::{Origin, TransactionChanges};
use crate::db::Db;
use crate::definition::TableId;
use crate::expressions::RowContext;
use crate::hot_keys::Interface;
use crate::overflow::OverflowFetch;
use crate::row::{RowBuf, RowRef};
use crate::table::{AccessKind, Table};
use crate::text_index::maintenance::TextChange;
use crate::ttl::ExpiryTime;
use crate::{AutoIncOptions, Error, Result};
use access_counts::AccessCounts;
use delete::DeleteOutcome;
use expressions::{Refused, RowEvaluator};
use firing::FireTriggers;
use insert::{InsertMode, InsertOutcome, Inserted};
use lookup::{FoundRow, FoundVisitor, LockedVisitor, Lookup};
use porpoise_base::cancel::Cancel;
use porpoise_kv::{
    self as kv, CommitPosition, Isolation, LockMode, Read, StatementMark, TxnOptions, Wait,
};
use porpoise_types::{Value, Warning};
use scan::{EntryVisitor, Fetch, RowScanVisitor, ScanPosition, ScanSpec};
use scratch::Scratch;
use smallvec::SmallVec;
use statement::{AfterInsert, Statement};
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;
use update::{RowChange, UpdateMode, UpdateOutcome};
use written_table::WrittenTable;

/// Options for [`Db::begin`](crate::Db::begin).
#[derive(Clone, Debug)]
pub struct BeginOptions {
    /// The engine's isolation.
    pub isolation: Isolation,
    /// Whether the commit is synced even in `interval` durability mode (DDL).
    pub sync: bool,
    /// Cancels its waits.
    pub cancel: Cancel,
    /// `innodb_lock_wait_timeout`.
    pub lock_wait: Duration,
    /// `foreign_key_checks`.
    pub foreign_key_checks: bool,
    /// Whether foreign key actions fire triggers.
    pub cascades_fire: bool,
    /// Whether changes of rows fire triggers: false for replication, which receives the triggers' changes as well, and
    /// for memcached commands if so configured.
    pub fires_triggers: bool,
    /// `innodb_snapshot_isolation`: REPLACE of a row newer than a pinned
    /// snapshot is a conflict.
    pub snapshot_conflicts: bool,
    /// The front end, for [`crate::hot_keys`].
    pub interface: Interface,
    /// Whether its changes go to the change log, if there is one (`sql_log_bin`).
    pub logged: bool,
    /// Whether it applies the changes of another server; such a transaction may write while the database is read-only.
    pub replicates: bool,
    /// Whether its account may write in spite of `read_only`.
    pub is_privileged: bool,
}

impl Default for BeginOptions {
    fn default() -> BeginOptions {
        BeginOptions {
            isolation: Isolation::Snapshot,
            sync: false,
            cancel: Cancel::default(),
            lock_wait: Duration::from_secs(50),
            foreign_key_checks: true,
            cascades_fire: true,
            fires_triggers: true,
            snapshot_conflicts: true,
            interface: Interface::Internal,
            logged: true,
            replicates: false,
            is_privileged: false,
        }
    }
}

/// Resources of a runner of triggers until the end of a transaction, such as metadata locks.
pub type Lease = Box<dyn Any + Send>;

/// The [`BeginOptions`] of a transaction that the engine does not need.
#[derive(Clone, Copy)]
struct TxnSettings {
    lock_wait: Duration,
    foreign_key_checks: bool,
    snapshot_conflicts: bool,
    /// Whether foreign key actions fire triggers.
    cascades_fire: bool,
    /// Whether changes of rows fire triggers.
    fires_triggers: bool,
    /// Whether an SQL session began the transaction: its look-ups are sampled, and the indexes that
    /// it reads are recorded.
    is_sql: bool,
    /// See [`BeginOptions::logged`].
    logged: bool,
    /// See [`BeginOptions::replicates`].
    replicates: bool,
    is_privileged: bool,
}

impl TxnSettings {
    fn of(options: &BeginOptions) -> TxnSettings {
        TxnSettings {
            lock_wait: options.lock_wait,
            foreign_key_checks: options.foreign_key_checks,
            snapshot_conflicts: options.snapshot_conflicts,
            cascades_fire: options.cascades_fire && options.fires_triggers,
            fires_triggers: options.fires_triggers,
            is_sql: options.interface == Interface::Sql,
            logged: options.logged,
            replicates: options.replicates,
            is_privileged: options.is_privileged,
        }
    }
}

/// A transaction on rows. Dropping it rolls it back.
pub struct Txn {
    pub(crate) db: Arc<Db>,
    pub(crate) kv: Box<dyn kv::Txn>,
    cancel: Cancel,
    row_version: u64,
    settings: TxnSettings,
    scratch: Scratch,
    /// The table of the last row written, and those with subscribers written so far.
    last_written: Option<TableId>,
    /// See [`WrittenTable`].
    written_table: Option<WrittenTable>,
    subscribed: SmallVec<[TableId; 2]>,
    /// Context of definitions' expressions; `None` for the default one.
    pub(crate) row_context: Option<Box<RowContext>>,
    /// Tables that the enclosing statements are writing: a trigger that they fire cannot
    /// write them.
    busy: SmallVec<[TableId; 2]>,
    /// See [`Lease`].
    lease: Option<Lease>,
    accesses: AccessCounts,
    /// Work for the maintenance of FULLTEXT indexes.
    text_changes: Vec<TextChange>,
    /// The time at which rows expire; `None` for the present time.
    expiry_time: Option<ExpiryTime>,
    /// Changes for the change log; `None` if they are not logged.
    changes: Option<Box<TransactionChanges>>,
    /// Whether it has written rows that clients cannot write while the database is read-only.
    wrote_rows: bool,
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
        Ok(Txn {
            db: self.clone(),
            kv,
            changes: self.changes_of(options.logged),
            settings: TxnSettings::of(&options),
            cancel: options.cancel,
            row_version: 0,
            scratch: Scratch::default(),
            last_written: None,
            written_table: None,
            subscribed: SmallVec::new(),
            row_context: None,
            busy: SmallVec::new(),
            lease: None,
            accesses: AccessCounts::default(),
            text_changes: Vec::new(),
            expiry_time: None,
            wrote_rows: false,
        })
    }

    /// The place for the changes of a transaction that begins; `None` if they are not logged.
    #[inline]
    fn changes_of(&self, logged: bool) -> Option<Box<TransactionChanges>> {
        (logged && self.change_log().is_some()).then(Box::default)
    }
}

impl Txn {
    /// Fails if the transaction was cancelled. Checked for every row written and every child found,
    /// so that a statement over many rows can be killed while it does not wait.
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

    /// Takes a new snapshot, unless it is pinned.
    ///
    /// # Errors
    /// The engine's.
    pub fn refresh(&mut self) -> Result<()> {
        Ok(self.kv.refresh()?)
    }

    /// Takes a new snapshot, unless it is pinned, for a statement that only reads: it may be up to `staleness` old
    /// if that saves a request. It shows every commit of this server that was reported before.
    ///
    /// # Errors
    /// The engine's.
    pub fn refresh_within(&mut self, staleness: Duration) -> Result<()> {
        Ok(self.kv.refresh_within(staleness)?)
    }

    /// Pins the present snapshot until the end of the transaction.
    ///
    /// # Errors
    /// The engine's.
    pub fn pin(&mut self) -> Result<()> {
        Ok(self.kv.pin()?)
    }

    /// Tracks reads from the snapshot from now on, for [`Txn::advance`]. Call it before the first
    /// read.
    pub fn track_reads(&mut self) {
        self.kv.track_reads();
    }

    /// Refreshes a pinned snapshot, if everything that was read from it is unchanged; otherwise the
    /// snapshot stays. Returns whether it was refreshed.
    ///
    /// # Errors
    /// The engine's.
    pub fn advance(&mut self) -> Result<bool> {
        Ok(self.kv.advance()?)
    }

    /// Number of reads tracked so far, for the commit or for [`Txn::advance`]: a position for
    /// [`Txn::untrack_reads`].
    pub fn tracked_reads(&self) -> usize {
        self.kv.tracked_reads()
    }

    /// Forgets the reads tracked since a position: those of a statement that restarts at a newer
    /// snapshot.
    pub fn untrack_reads(&mut self, from: usize) {
        self.kv.untrack_reads(from);
    }

    /// Whether the snapshot is pinned.
    pub fn pinned(&self) -> bool {
        self.kv.pinned()
    }

    /// The present end of the write set: statement mark and savepoint.
    pub fn mark(&self) -> StatementMark {
        self.kv.mark()
    }

    /// Rolls back the writes since `mark`; keeps locks.
    pub fn rollback_to(&mut self, mark: StatementMark) {
        self.kv.rollback_to(mark);
        if let Some(changes) = &mut self.changes {
            changes.rollback_to(mark);
        }
    }

    /// Sets the origin of the transaction for the change log: another server ran it first.
    pub fn set_origin(&mut self, origin: Origin) {
        if let Some(changes) = &mut self.changes {
            changes.origin = Some(origin);
        }
    }

    /// Whether there are writes that were not rolled back.
    pub fn has_writes(&self) -> bool {
        self.kv.has_writes()
    }

    /// The newest commit that current reads and lock grants have seen. A reply that reveals it must
    /// wait for it.
    pub fn seen(&self) -> CommitPosition {
        self.kv.seen()
    }

    /// Sets `foreign_key_checks`. Existing rows are not validated.
    pub fn set_foreign_key_checks(&mut self, on: bool) {
        self.settings.foreign_key_checks = on;
    }

    /// Whether foreign keys are checked.
    pub fn foreign_key_checks(&self) -> bool {
        self.settings.foreign_key_checks
    }

    /// Sets `innodb_lock_wait_timeout`. With zero, a lock that is not free fails at once.
    pub fn set_lock_wait(&mut self, wait: Duration) {
        self.settings.lock_wait = wait;
    }

    /// The wait policy of a lock requested now.
    pub fn wait(&self) -> Wait {
        if self.settings.lock_wait.is_zero() {
            return Wait::NoWait;
        }
        let now = self.db.clock().now();
        Wait::Until(
            now.checked_add(self.settings.lock_wait)
                .unwrap_or_else(|| now + Duration::from_secs(86_400)),
        )
    }

    /// Returns the version of rows written by this transaction, which is reserved at first use.
    ///
    /// # Errors
    /// The engine's error if it cannot reserve a range; [`kv::Resource::Ids`] past the bound.
    pub fn row_version(&mut self) -> Result<u64> {
        if self.row_version == 0 {
            self.row_version = self.db.versions.next(self.db.engine().as_ref())?;
        }
        Ok(self.row_version)
    }

    /// Fills the auto-increment column of rows to be inserted: NULL and 0 are replaced by generated
    /// ids, consecutive within the call; explicit values raise the counter. Returns the first id
    /// generated.
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

    /// Calls the visitor once per key, with its row or `None`.
    ///
    /// # Errors
    /// The engine's; [`crate::Error::Corrupt`],
    /// [`crate::Error::DefinitionChanged`].
    pub fn look_up(
        &mut self,
        lookup: &Lookup<'_>,
        read: Read,
        visit: &mut FoundVisitor<'_>,
    ) -> Result<()> {
        self.accesses.add_lookups(lookup.len() as u64);
        lookup.count_fetched();
        if self.settings.is_sql {
            lookup.sample(self.db.hot_keys(), false);
        }
        lookup.read(self.kv.as_mut(), read, visit)
    }

    /// As [`Txn::look_up`] of primary keys, in their order, with a visitor that is inlined.
    ///
    /// # Errors
    /// As [`Txn::look_up`].
    #[inline]
    pub fn look_up_in_order(
        &mut self,
        table: &Table,
        keys: &[&[u8]],
        read: Read,
        visit: impl FnMut(usize, Option<FoundRow<'_>>),
    ) -> Result<()> {
        let lookup = Lookup::primary(table, keys);
        self.accesses.add_lookups(lookup.len() as u64);
        lookup.count_fetched();
        if self.settings.is_sql {
            lookup.sample(self.db.hot_keys(), false);
        }
        lookup.read_in_order(self.kv.as_mut(), read, visit)
    }

    /// Locks rows, and visits the newest version of each, in any order. Keys of the primary index
    /// take one engine call; for a unique index one call locks the entries, another the rows.
    ///
    /// # Errors
    /// Errors of the engine (locks granted before the error may be kept);
    /// [`crate::Error::Corrupt`], [`crate::Error::DefinitionChanged`].
    pub fn lock(
        &mut self,
        lookup: &Lookup<'_>,
        mode: LockMode,
        wait: Wait,
        visit: &mut LockedVisitor<'_>,
    ) -> Result<()> {
        self.accesses.add_lookups(lookup.len() as u64);
        lookup.count_fetched();
        if self.settings.is_sql {
            lookup.sample(self.db.hot_keys(), true);
        }
        lookup.lock(self.kv.as_mut(), mode, wait, visit)
    }

    /// Locks rows exclusively, in one call, and returns the existing ones that `which` accepts, in
    /// the form that [`Txn::delete`] takes: in the order of `keys`, with the prefixes of overflow
    /// values.
    ///
    /// # Errors
    /// As [`Txn::lock`].
    pub fn lock_present(
        &mut self,
        table: &Table,
        keys: &[impl AsRef<[u8]>],
        mut which: impl FnMut(&RowRef<'_>) -> bool,
    ) -> Result<Vec<(Vec<u8>, RowBuf)>> {
        let keys: SmallVec<[&[u8]; 16]> = keys.iter().map(AsRef::as_ref).collect();
        let mut found: Vec<Option<RowBuf>> = vec![None; keys.len()];
        let lookup = Lookup::primary(table, &keys).overflow(OverflowFetch::Prefixes);
        let wait = self.wait();
        self.lock(&lookup, LockMode::Exclusive, wait, &mut |n, locked| {
            if let (Some(place), Some(row)) = (found.get_mut(n), locked.row.filter(&mut which)) {
                *place = Some(row.to_buf());
            }
        })?;
        let rows = keys.iter().zip(found);
        Ok(rows
            .filter_map(|(key, row)| Some((key.to_vec(), row?)))
            .collect())
    }

    /// Releases rows that were locked since `since`, did not match, and were not written. An engine
    /// may ignore it.
    pub fn unlock_rows(&mut self, table: &Table, keys: &[&[u8]], since: StatementMark) {
        self.unlock_keys(table, 0, keys, since);
    }

    /// Releases whole keys of a unique index that were locked since `since`, have no row, and were
    /// not written. An engine may ignore it.
    pub fn unlock_keys(
        &mut self,
        table: &Table,
        index: usize,
        keys: &[&[u8]],
        since: StatementMark,
    ) {
        let lookup = Lookup::unique(table, index, keys);
        self.kv.unlock(&lookup.engine_keys(), since);
    }

    /// Fetches the missing overflow values of rows (primary key and row), with a bounded number of
    /// bytes per call.
    ///
    /// # Errors
    /// Errors of the engine; [`crate::Error::Corrupt`] if a chunk is missing.
    pub fn complete_rows(
        &mut self,
        table: &Table,
        rows: &mut [(Vec<u8>, RowBuf)],
        fetch: OverflowFetch<'_>,
        read: Read,
    ) -> Result<()> {
        lookup::complete_rows(self.kv.as_mut(), table, rows, fetch, read)
    }

    /// Counts the beginning of a scan.
    fn begin_scan(&mut self, table: &Table, spec: &ScanSpec) {
        self.accesses.begin_scan(spec);
        if self.settings.is_sql {
            table.note_index_use(spec.index);
        }
    }

    /// Visits the next entries of a scan, at most `limit` (at least 1), in index order across
    /// partitions. Returns true if there may be more.
    ///
    /// # Errors
    /// As [`Txn::look_up`].
    pub fn scan(
        &mut self,
        table: &Table,
        spec: &ScanSpec,
        read: Read,
        position: &mut ScanPosition,
        limit: usize,
        visit: &mut RowScanVisitor<'_>,
    ) -> Result<bool> {
        self.scan_with(table, spec, Fetch::default(), read, position, limit, visit)
    }

    /// As [`Txn::scan`], for some partitions and with only the given overflow values. `fetch` must
    /// be the same for all calls with one position.
    ///
    /// # Errors
    /// As [`Txn::look_up`].
    #[expect(clippy::too_many_arguments, reason = "a scan and what it fetches")]
    pub fn scan_with(
        &mut self,
        table: &Table,
        spec: &ScanSpec,
        fetch: Fetch<'_>,
        read: Read,
        position: &mut ScanPosition,
        limit: usize,
        visit: &mut RowScanVisitor<'_>,
    ) -> Result<bool> {
        if position.done() {
            return Ok(false);
        }
        if position.is_at_start() {
            self.begin_scan(table, spec);
        }
        let before = position.visited;
        let more = spec.scan(self.kv.as_mut(), table, fetch, read, position, limit, visit)?;
        let visited = position.visited - before;
        self.accesses.add_scanned(spec, visited, !more);
        table.accesses().add(AccessKind::Fetch, visited);
        Ok(more)
    }

    /// Visits the next entries of a scan, at most `limit` (at least 1), in index order, in these
    /// partitions. Returns true if there may be more. The entries of index 0 are the rows.
    ///
    /// # Errors
    /// The engine's.
    pub fn scan_entries(
        &mut self,
        table: &Table,
        spec: &ScanSpec,
        partitions: Option<&[usize]>,
        read: Read,
        (position, limit): (&mut ScanPosition, usize),
        visit: &mut EntryVisitor<'_>,
    ) -> Result<bool> {
        if position.done() {
            return Ok(false);
        }
        if position.is_at_start() {
            self.begin_scan(table, spec);
        }
        let spaces = scan::spaces_of(table, spec.index, partitions);
        let kv = self.kv.as_mut();
        spec.walk(kv, &spaces, read, position, limit.max(1), visit)?;
        Ok(!position.done())
    }

    /// Visits entries of each range of a scan, in these partitions, in index order: at least the first
    /// of each range.
    ///
    /// # Errors
    /// The engine's.
    pub fn first_entries(
        &mut self,
        table: &Table,
        spec: &ScanSpec,
        partitions: Option<&[usize]>,
        read: Read,
        visit: &mut EntryVisitor<'_>,
    ) -> Result<()> {
        self.begin_scan(table, spec);
        let spaces = scan::spaces_of(table, spec.index, partitions);
        spec.first_entries(self.kv.as_mut(), &spaces, read, visit)
    }

    /// Counts the next entries of a scan, at most `limit` (at least 1), in these partitions, as
    /// [`Txn::scan_entries`] would visit them.
    ///
    /// # Errors
    /// The engine's.
    pub fn count_scan(
        &mut self,
        table: &Table,
        spec: &ScanSpec,
        partitions: Option<&[usize]>,
        read: Read,
        (position, limit): (&mut ScanPosition, usize),
    ) -> Result<usize> {
        if position.done() {
            return Ok(0);
        }
        if position.is_at_start() {
            self.begin_scan(table, spec);
        }
        let spaces = scan::spaces_of(table, spec.index, partitions);
        let kv = self.kv.as_mut();
        let counted = spec.count(kv, &spaces, read, position, limit.max(1))?;
        self.accesses.add_scanned(spec, counted as u64, false);
        table.accesses().add(AccessKind::Fetch, counted as u64);
        Ok(counted)
    }

    /// Counts entries that [`Txn::scan_entries`] visited for a statement.
    pub fn count_entries(&mut self, table: &Table, spec: &ScanSpec, visited: u64) {
        self.accesses.add_scanned(spec, visited, false);
        table.accesses().add(AccessKind::Fetch, visited);
    }

    /// Takes the numbers of row accesses since the last call.
    pub fn take_accesses(&mut self) -> AccessCounts {
        std::mem::take(&mut self.accesses)
    }

    /// Sets the session context of definitions' expressions.
    pub fn set_row_context(&mut self, cx: RowContext) {
        self.row_context = Some(Box::new(cx));
    }

    /// Takes the warnings of definitions' expressions since the last call.
    pub fn take_row_warnings(&mut self) -> Vec<Warning> {
        let cx = self.row_context.as_mut();
        cx.map_or_else(Vec::new, |cx| std::mem::take(cx.warnings.get_mut()))
    }

    /// Computes the generated columns of a row to be written, for callers that need them before the
    /// write.
    ///
    /// # Errors
    /// As [`crate::expressions::RowExpressions::generate`].
    pub fn generate(&self, table: &Table, row: &mut [Value], number: u64) -> Result<()> {
        self.evaluator().generate(table, row, number)
    }

    /// Fills columns without a given value from their DEFAULT expressions.
    ///
    /// # Errors
    /// Errors of evaluating the expressions.
    pub fn fill_default_expressions(
        &self,
        table: &Table,
        row: &mut [Value],
        given: &dyn Fn(usize) -> bool,
    ) -> Result<()> {
        self.evaluator().fill_defaults(table, row, given)
    }

    /// Whether changes of a table's rows fire triggers.
    fn fires(&self, table: &Table) -> bool {
        self.settings.fires_triggers && !table.triggers.is_empty()
    }

    /// Inserts rows of storage values in column order, in order.
    ///
    /// # Errors
    /// [`Error::Duplicate`], [`Error::NoReferencedRow`], [`Error::NotNull`] of
    /// the first row that fails (with [`InsertMode::Ignore`] such rows are
    /// skipped); with [`InsertMode::Replace`] also [`Error::RowIsReferenced`]
    /// and [`Error::SnapshotConflict`]; the engine's. Nothing is written then.
    pub fn insert(
        &mut self,
        table: &Arc<Table>,
        rows: Vec<Vec<Value>>,
        mode: InsertMode,
    ) -> Result<InsertOutcome> {
        self.insert_with_ids(table, rows, mode, &mut GeneratedIds::default())
    }

    /// As [`Txn::insert`], for rows with generated ids: ids of skipped rows go to later rows, and
    /// `ids` records which were used.
    ///
    /// # Errors
    /// As `insert`.
    pub fn insert_with_ids(
        &mut self,
        table: &Arc<Table>,
        mut rows: Vec<Vec<Value>>,
        mode: InsertMode,
        ids: &mut GeneratedIds,
    ) -> Result<InsertOutcome> {
        if self.fires(table) {
            let runner = self.db.shared_runner()?;
            return self
                .firing(&*runner)
                .insert_with_ids(table, rows, mode, ids);
        }
        self.insert_all(table, &mut rows, mode, ids, 0, None)
    }

    /// Inserts rows. `first` is the number of the first row in `ids`.
    fn insert_all(
        &mut self,
        table: &Arc<Table>,
        rows: &mut [Vec<Value>],
        mode: InsertMode,
        ids: &mut GeneratedIds,
        first: usize,
        runner: Option<&dyn FireTriggers>,
    ) -> Result<InsertOutcome> {
        let refused = self.prepare_insert(table, rows, mode, runner)?;
        self.statement(table, runner, |statement| {
            statement.insert_rows(table, rows, mode, refused, ids, first)
        })
    }

    /// Inserts rows, and fires the AFTER INSERT triggers of each before the next is written.
    fn insert_and_fire(
        &mut self,
        table: &Arc<Table>,
        rows: &mut [Vec<Value>],
        mode: InsertMode,
        ids: &mut GeneratedIds,
        runner: &dyn FireTriggers,
    ) -> Result<InsertOutcome> {
        let refused = self.prepare_insert(table, rows, mode, Some(runner))?;
        self.statement(table, Some(runner), |statement| {
            let in_batch = mode == InsertMode::Plain && rows.len() > 1;
            statement.after_insert = if in_batch {
                AfterInsert::InBatch
            } else {
                AfterInsert::EachRow
            };
            let done = statement.insert_rows(table, rows, mode, refused, ids, 0);
            match statement.after_insert {
                AfterInsert::InBatch => statement.txn.write_batch(runner, table, done),
                _ => done,
            }
        })
    }

    /// Counts rows to be inserted, evaluates their expressions, and removes expired rows in their way.
    fn prepare_insert(
        &mut self,
        table: &Arc<Table>,
        rows: &mut [Vec<Value>],
        mode: InsertMode,
        runner: Option<&dyn FireTriggers>,
    ) -> Result<Refused> {
        self.accesses.inserted += rows.len() as u64;
        table.accesses().add(AccessKind::Insert, rows.len() as u64);
        let refused = self.evaluator().prepare_new(table, rows, mode);
        let new = rows.iter().map(|row| (None, row.as_slice()));
        self.remove_expired(table, new, runner)?;
        Ok(refused)
    }

    /// Inserts one row, unless a row with an equal key exists: then that row is locked exclusively
    /// and returned, and nothing is written. For ON DUPLICATE KEY UPDATE and memcached commands.
    /// Parents are checked only for a new row.
    ///
    /// # Errors
    /// [`Error::NoReferencedRow`], [`Error::NotNull`]; the engine's.
    pub fn insert_or_find(&mut self, table: &Arc<Table>, row: &[Value]) -> Result<Inserted> {
        if self.fires(table) {
            let runner = self.db.shared_runner()?;
            return self
                .firing(&*runner)
                .insert_or_find(table, &mut row.to_vec());
        }
        self.accesses.inserted += 1;
        table.accesses().add(AccessKind::Insert, 1);
        if !table.evaluates_expressions() {
            self.remove_expired(table, std::iter::once((None, row)), None)?;
            return self.statement(table, None, |statement| statement.insert_one(table, row));
        }
        let mut row = row.to_vec();
        self.evaluator().evaluate(table, &mut row, 1)?;
        self.remove_expired(table, std::iter::once((None, row.as_slice())), None)?;
        self.statement(table, None, |statement| statement.insert_one(table, &row))
    }

    /// Changes rows that this transaction has locked (update mode or stronger), in order. If a
    /// key's value changes, the lock is upgraded.
    ///
    /// # Errors
    /// [`Error::Duplicate`], [`Error::NoReferencedRow`],
    /// [`Error::RowIsReferenced`], [`Error::CascadeDuplicate`],
    /// [`Error::NotNull`] of the first row that fails (skipped with
    /// [`UpdateMode::Ignore`]); the engine's. Nothing is written then.
    pub fn update(
        &mut self,
        table: &Arc<Table>,
        mut changes: Vec<RowChange>,
        mode: UpdateMode,
    ) -> Result<UpdateOutcome> {
        if self.fires(table) {
            let runner = self.db.shared_runner()?;
            return self.firing(&*runner).update(table, changes, mode);
        }
        self.update_all(table, &mut changes, mode, None)
    }

    fn update_all(
        &mut self,
        table: &Arc<Table>,
        changes: &mut [RowChange],
        mode: UpdateMode,
        runner: Option<&dyn FireTriggers>,
    ) -> Result<UpdateOutcome> {
        self.accesses.updated += changes.len() as u64;
        table
            .accesses()
            .add(AccessKind::Update, changes.len() as u64);
        let refused = if table.evaluates_expressions() {
            expressions::prepare_changes(self, table, changes, mode)?
        } else {
            expressions::Refused::new()
        };
        let new = changes
            .iter()
            .map(|change| (Some(&change.old), change.new.as_slice()));
        self.remove_expired(table, new, runner)?;
        self.statement(table, runner, |statement| {
            statement.keep_version = mode == UpdateMode::KeepVersion;
            statement.update_rows(table, changes, mode, refused)
        })
    }

    /// Deletes rows that this transaction has locked, in order, and applies referential actions.
    ///
    /// # Errors
    /// [`crate::Error::RowIsReferenced`]; [`crate::Error::CascadeDuplicate`]
    /// and [`crate::Error::NoReferencedRow`] of cascades; the engine's.
    /// Nothing is written then.
    pub fn delete(
        &mut self,
        table: &Arc<Table>,
        rows: Vec<(Vec<u8>, RowBuf)>,
    ) -> Result<DeleteOutcome> {
        if self.fires(table) {
            let runner = self.db.shared_runner()?;
            return self.firing(&*runner).delete(table, rows);
        }
        self.delete_all(table, rows, None)
    }

    fn delete_all(
        &mut self,
        table: &Arc<Table>,
        rows: Vec<(Vec<u8>, RowBuf)>,
        runner: Option<&dyn FireTriggers>,
    ) -> Result<DeleteOutcome> {
        self.accesses.deleted += rows.len() as u64;
        table.accesses().add(AccessKind::Delete, rows.len() as u64);
        self.statement(table, runner, |statement| {
            statement.delete_rows(table, rows)
        })
    }

    /// Sets the version of the rows that are written from now on to that on their source, so
    /// that the CAS values of memcached are the same on both servers. Versions of this server's own later writes are greater.
    ///
    /// # Errors
    /// The engine's error if it cannot reserve a range.
    pub fn set_row_version(&mut self, version: u64) -> Result<()> {
        self.db.versions.raise(self.db.engine().as_ref(), version)?;
        self.row_version = version;
        Ok(())
    }

    /// Rolls the transaction back.
    pub fn rollback(self) {
        self.kv.rollback();
    }

    /// Takes the lease that a runner of triggers has left with the transaction.
    pub fn take_lease(&mut self) -> Option<Lease> {
        self.lease.take()
    }

    /// Keeps a lease until the end of the transaction, or until it is taken.
    pub fn set_lease(&mut self, lease: Lease) {
        self.lease = Some(lease);
    }

    /// Fails with [`Error::SnapshotConflict`] if a row that is newer than the snapshot must not be
    /// written (rule 3).
    ///
    /// # Errors
    /// See above.
    pub fn check_newer(&self, newer: bool) -> Result<()> {
        if newer && self.settings.snapshot_conflicts && self.kv.pinned() {
            Err(Error::SnapshotConflict)
        } else {
            Ok(())
        }
    }

    /// Takes hidden ids for `rows` rows, if the table has a hidden key. Returns the first.
    fn hidden_ids(&self, table: &Table, rows: usize) -> Result<u64> {
        if !table.hidden_key {
            return Ok(0);
        }
        let engine = self.db.engine().as_ref();
        self.db.counters.take_hidden_ids(engine, table, rows as u64)
    }

    /// The evaluator of expressions for rows of this transaction.
    fn evaluator(&self) -> RowEvaluator<'_> {
        RowEvaluator {
            db: &self.db,
            context: self.row_context.as_deref(),
        }
    }
}
