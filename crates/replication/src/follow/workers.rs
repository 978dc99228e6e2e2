//! Workers that apply transactions of a source side by side and commit them in the source's order.
//!
//! ```text
//!  reader                     workers                                            committer
//!   |-- transaction, its keys -> waiting --> running --> applied (locks held) --> position + commit --> committed
//!                                  ^            |            |
//!                                  +--- rolled back, alone --+
//! ```
//!
//! The thread that reads the source collects the events of a transaction, computes the transactions on which it depends
//! ([`super::write_set`]), and appends it to the queue. A worker takes the first transaction in the queue, once those that it
//! depends on are committed, and applies its rows in a transaction of this server. An applied transaction waits for
//! its turn without a thread: the worker that has applied the next transaction in the source's order commits it, and then
//! the applied ones that follow it.
//!
//! Where the keys miss a dependency, transactions conflict: the earlier one waits for a lock that an applied later one
//! keeps until its own turn, or the later one does not find a row that the earlier one has not written yet. So every
//! failure of a transaction that runs beside others is treated as a conflict: it is rolled back, and applied again when it
//! is the next to be committed, alone, after the applied ones that follow it were rolled back, too. Only the failure of a
//! transaction that runs alone is an error of the replica.
//!
//! Invariants:
//! 1. Commits are in the order of the source, each with its position: a crash leaves a prefix of the source's
//!    log, and foreign keys that hold at every commit of the source hold at every commit here.
//! 2. A transaction is applied before its turn only after all on which it depends by its keys are committed.
//! 3. While a transaction is applied alone, no other transaction of the source has locks here.
//! 4. At most [`MAX_TRANSACTIONS`] transactions, and about [`MAX_BYTES`] of their events, are in memory.
//!
//! Rejected: workers that wait for the turn of their transactions (a context switch for each commit); commits out of
//! order with a list of gaps (one position would not describe the applied transactions, and readers would see states that
//! the source never had).

use super::error::{Failure, FollowError, Followed};
use super::transaction::{RowChange, Selection, Transaction};
use super::write_set::{Keys, WriteSets};
use crate::apply::DecodedRows;
use crate::event::{RowsEvent, TableMap};
use crate::position::{AnyGtid, AppliedPosition, Coordinates, PositionTable};
use parking_lot::{Condvar, Mutex, MutexGuard};
use porpoise_base::cancel::{Cancel, Reason};
use porpoise_base::sync::thread::JoinHandle;
use porpoise_base::threads::{self, Role};
use porpoise_kv::CommitPosition;
use porpoise_rows::Db;
use porpoise_rows::changes::Origin;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of transactions that are read and not committed.
const MAX_TRANSACTIONS: usize = 512;

/// Bytes of events at which the reader waits.
const MAX_BYTES: usize = 32 << 20;

/// Bytes of events at which a transaction is no longer collected: the reader applies it itself.
const MAX_BATCH: usize = 8 << 20;

/// Bytes counted for an event besides its rows.
const EVENT_BYTES: usize = 256;

/// Lock wait timeout of a transaction beside others: the lock may be that of a later transaction.
const SHORT_WAIT: Duration = Duration::from_millis(100);

/// Interval at which the reader checks for its cancellation.
const TICK: Duration = Duration::from_millis(200);

/// Receives the applied position after each commit, and the commit's time at the source in seconds since 1970.
pub type CommitListener = Arc<dyn Fn(&AppliedPosition, u32) + Send + Sync>;

/// A transaction that a worker applies or has applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerTransaction {
    /// Its identifier; `None` if the source gives none.
    pub gtid: Option<AnyGtid>,
    /// Time of its commit at the source, in microseconds since 1970.
    pub original_commit: u64,
    /// Time of its begin (of the present one) or commit (of the last one) here, in microseconds since 1970.
    pub at: i64,
}

/// State of a worker (`performance_schema.replication_applier_status_by_worker`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerStatus {
    /// The present transaction.
    pub applying: Option<WorkerTransaction>,
    /// The last committed transaction.
    pub applied: Option<WorkerTransaction>,
    /// The error of this worker that has stopped the replica: MySQL's number and the text.
    pub error: Option<(u16, String)>,
}

/// The states of all workers, for SHOW REPLICA STATUS and `performance_schema`.
pub type WorkerBoard = Arc<Mutex<Vec<WorkerStatus>>>;

/// The applied and stored position, shared by the threads that commit.
pub(super) struct Progress {
    pub(super) applied: Mutex<AppliedPosition>,
    /// The last commit.
    pub(super) committed: Mutex<CommitPosition>,
    pub(super) listener: CommitListener,
}

/// Events of a transaction, collected.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Each with the position of its end.
    events: Vec<(RowChange, u64)>,
    savepoints: HashMap<Vec<u8>, usize>,
    bytes: usize,
}

impl Batch {
    pub(super) fn push_map(&mut self, map: Arc<TableMap>, end: u64) {
        self.bytes += EVENT_BYTES;
        self.events.push((RowChange::Map(map), end));
    }

    pub(super) fn push_rows(&mut self, number: u8, rows: RowsEvent, end: u64) {
        self.bytes += EVENT_BYTES + rows.data.len();
        self.events.push((RowChange::Rows(number, rows, None), end));
    }

    /// Whether it is too large to be collected.
    pub(super) fn is_large(&self) -> bool {
        self.bytes > MAX_BATCH
    }

    pub(super) fn set_savepoint(&mut self, name: Vec<u8>) {
        self.savepoints.insert(name, self.events.len());
    }

    /// Removes the changes since a savepoint. If the savepoint is unknown, nothing was logged before it: removes all.
    pub(super) fn roll_back_to(&mut self, name: &[u8]) {
        if let Some(at) = self.savepoints.get(name) {
            self.events.truncate(*at);
        }
    }

    /// Applies the events; an error comes with the end of its event.
    pub(super) fn apply(&mut self, transaction: &mut Transaction) -> Result<(), (Failure, u64)> {
        for (change, end) in &mut self.events {
            transaction
                .apply(change)
                .map_err(|failure| (failure, *end))?;
        }
        Ok(())
    }
}

/// Position, identifier and time that are committed with a transaction.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    pub(super) coordinates: Coordinates,
    pub(super) gtid: Option<AnyGtid>,
    pub(super) origin: Option<Origin>,
    /// The source's time in seconds since 1970.
    pub(super) timestamp: u32,
}

impl Ending {
    /// The position after the transaction.
    pub(super) fn advance(&self, before: &AppliedPosition) -> AppliedPosition {
        let mut next = before.clone();
        next.coordinates = self.coordinates.clone();
        next.pending = None;
        if let Some(gtid) = self.gtid {
            next.gtids.insert(gtid);
        }
        next
    }

    fn error(&self, failure: &Failure, end: u64) -> FollowError {
        let place = Coordinates {
            file: self.coordinates.file.clone(),
            position: end,
        };
        failure.at(&place, self.gtid)
    }
}

/// A transaction of the source.
struct Job {
    batch: Batch,
    ending: Ending,
    /// Number of the transaction that must be committed before.
    depends_on: u64,
    is_alone: bool,
}

/// A job whose rows are written, with the locks.
struct Applied {
    job: Job,
    transaction: Transaction,
    worker: usize,
}

#[derive(Default)]
struct State {
    /// Jobs by their numbers, which ascend from 1 on.
    waiting: BTreeMap<u64, Job>,
    applied: BTreeMap<u64, Applied>,
    /// Number of jobs that workers apply.
    running: usize,
    /// Whether one of them runs alone.
    runs_alone: bool,
    is_committing: bool,
    /// The last job that was committed, and the last that was given to the workers.
    committed: u64,
    entered: u64,
    /// Bytes of the events of all jobs.
    bytes: usize,
    /// Workers that wait for a job.
    idle: usize,
    /// Transaction objects for reuse.
    spare: Vec<Transaction>,
    error: Option<FollowError>,
    stops: bool,
}

impl State {
    /// Whether the first job that waits may be begun.
    fn is_runnable(&self) -> bool {
        let Some((number, job)) = self.waiting.first_key_value() else {
            return false;
        };
        if self.runs_alone {
            false
        } else if job.is_alone {
            self.committed + 1 == *number && self.running == 0
        } else {
            job.depends_on <= self.committed
        }
    }

    fn has_ended(&self) -> bool {
        self.stops || self.error.is_some()
    }

    fn has_room(&self) -> bool {
        let count = usize::try_from(self.entered - self.committed).unwrap_or(usize::MAX);
        count < MAX_TRANSACTIONS && self.bytes < MAX_BYTES
    }

    /// Rolls back the applied jobs, to be applied again, because their locks may block a job that runs alone.
    fn withdraw_applied(&mut self) {
        for (number, mut applied) in std::mem::take(&mut self.applied) {
            applied.transaction.roll_back();
            self.spare.push(applied.transaction);
            self.waiting.insert(number, applied.job);
        }
    }
}

struct Shared {
    db: Arc<Db>,
    selection: Selection,
    positions: PositionTable,
    progress: Arc<Progress>,
    board: WorkerBoard,
    lock_wait: Duration,
    state: Mutex<State>,
    /// Signalled when a job may be begun, and at the end.
    work: Condvar,
    /// Signalled when the reader may go on.
    room: Condvar,
    /// Those of all transactions.
    cancels: Mutex<Vec<Cancel>>,
}

/// The workers, as the reader sees them.
pub(super) struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    write_sets: WriteSets,
    /// Ends the reader's waits.
    cancel: Cancel,
}

/// Options of the workers.
pub(super) struct WorkerOptions {
    pub(super) count: usize,
    pub(super) selection: Selection,
    pub(super) lock_wait: Duration,
    pub(super) board: WorkerBoard,
    pub(super) cancel: Cancel,
}

impl Workers {
    /// Starts the threads.
    pub(super) fn start(
        db: &Arc<Db>,
        options: WorkerOptions,
        progress: Arc<Progress>,
    ) -> std::io::Result<Workers> {
        *options.board.lock() = vec![WorkerStatus::default(); options.count];
        let shared = Arc::new(Shared {
            db: db.clone(),
            selection: options.selection,
            positions: PositionTable::new(db.clone()),
            progress,
            board: options.board,
            lock_wait: options.lock_wait,
            state: Mutex::default(),
            work: Condvar::new(),
            room: Condvar::new(),
            cancels: Mutex::default(),
        });
        let mut workers = Workers {
            shared,
            threads: Vec::new(),
            write_sets: WriteSets::default(),
            cancel: options.cancel,
        };
        for number in 0..options.count {
            let shared = workers.shared.clone();
            let thread = threads::spawn(Role::ReplicaWorker, move || shared.run(number))?;
            workers.threads.push(thread);
        }
        Ok(workers)
    }

    /// Gives a transaction to the workers. Waits while there are too many.
    pub(super) fn enter(&mut self, mut batch: Batch, ending: Ending) -> Followed<()> {
        let shared = self.shared.clone();
        let mut keys = Keys::default();
        for (change, _) in &mut batch.events {
            match change {
                RowChange::Map(map) => {
                    let (db, selection) = (&shared.db, &shared.selection);
                    self.write_sets.describe(db, selection, map, &mut keys);
                }
                RowChange::Rows(_, rows, decoded) => {
                    *decoded = self.write_sets.collect(rows, &mut keys);
                    batch.bytes += decoded.as_ref().map_or(0, DecodedRows::bytes);
                }
            }
        }
        let mut state = wait(&shared, &self.cancel, State::has_room)?;
        state.entered += 1;
        let number = state.entered;
        state.bytes += batch.bytes;
        let job = Job {
            depends_on: self.write_sets.enter(number, &keys),
            is_alone: keys.is_alone,
            batch,
            ending,
        };
        state.waiting.insert(number, job);
        shared.wake_worker(&state);
        Ok(())
    }

    /// Waits until everything is committed.
    pub(super) fn drain(&self) -> Followed<()> {
        let is_drained = |state: &State| state.committed == state.entered;
        wait(&self.shared, &self.cancel, is_drained).map(drop)
    }

    /// Whether everything is committed.
    pub(super) fn is_idle(&self) -> Followed<bool> {
        let state = self.shared.state.lock();
        match &state.error {
            Some(error) => Err(error.clone()),
            None => Ok(state.committed == state.entered),
        }
    }
}

/// Waits until the workers have reached a state, or have failed.
fn wait<'s>(
    shared: &'s Shared,
    cancel: &Cancel,
    is_reached: impl Fn(&State) -> bool,
) -> Followed<MutexGuard<'s, State>> {
    let mut state = shared.state.lock();
    loop {
        if let Some(error) = &state.error {
            return Err(error.clone());
        }
        if is_reached(&state) {
            return Ok(state);
        }
        if cancel.reason().is_some() {
            return Err(FollowError {
                number: 1317,
                message: "the replica is stopped".to_owned(),
                is_transient: false,
            });
        }
        shared.room.wait_for(&mut state, TICK);
    }
}

/// Ends the threads. What is not committed is rolled back.
impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.state.lock().stops = true;
        self.shared.work.notify_all();
        for cancel in &*self.shared.cancels.lock() {
            cancel.cancel(Reason::Shutdown);
        }
        for thread in self.threads.drain(..) {
            // A panic ends the process.
            let _ = thread.join();
        }
        let mut state = self.shared.state.lock();
        state.withdraw_applied();
        state.spare.clear();
    }
}

impl Shared {
    /// The work of a thread.
    fn run(&self, worker: usize) {
        while let Some((number, job, mut transaction)) = self.take() {
            transaction.lock_wait = if job.is_alone {
                self.lock_wait
            } else {
                SHORT_WAIT.min(self.lock_wait)
            };
            self.show(worker, Some(&job.ending));
            let begun = transaction.begin().map_err(|failure| (failure, 0));
            let mut job = job;
            let done = begun.and_then(|()| job.batch.apply(&mut transaction));
            self.show(worker, None);
            match done {
                Ok(()) => self.finish(
                    number,
                    Applied {
                        job,
                        transaction,
                        worker,
                    },
                ),
                Err((failure, end)) => {
                    transaction.roll_back();
                    self.retreat(number, job, transaction, worker, &(failure, end));
                }
            }
        }
    }

    /// Waits for a job; `None`: the workers end.
    fn take(&self) -> Option<(u64, Job, Transaction)> {
        let mut state = self.state.lock();
        loop {
            if state.has_ended() {
                return None;
            }
            if state.is_runnable() {
                break;
            }
            state.idle += 1;
            self.work.wait(&mut state);
            state.idle -= 1;
        }
        let (number, job) = state.waiting.pop_first()?;
        if job.is_alone {
            state.runs_alone = true;
            state.withdraw_applied();
        }
        state.running += 1;
        self.wake_worker(&state);
        let spare = state.spare.pop();
        drop(state);
        Some((number, job, spare.unwrap_or_else(|| self.transaction())))
    }

    fn transaction(&self) -> Transaction {
        let cancel = Cancel::new();
        self.cancels.lock().push(cancel.clone());
        if self.state.lock().stops {
            cancel.cancel(Reason::Shutdown);
        }
        let selection = self.selection.clone();
        Transaction::new(self.db.clone(), selection, cancel, self.lock_wait)
    }

    /// Wakes a worker that waits, if there is a job for it.
    fn wake_worker(&self, state: &State) {
        if state.idle > 0 && state.is_runnable() {
            self.work.notify_one();
        }
    }

    /// Stores an applied job, and commits the jobs whose turn has come.
    fn finish(&self, number: u64, applied: Applied) {
        let mut state = self.state.lock();
        state.running -= 1;
        state.runs_alone = false;
        state.applied.insert(number, applied);
        if state.is_committing {
            return;
        }
        state.is_committing = true;
        while !state.has_ended() {
            let due = state.committed + 1;
            let Some(mut applied) = state.applied.remove(&due) else {
                break;
            };
            drop(state);
            let done = self.commit(&mut applied);
            state = self.state.lock();
            state.bytes = state.bytes.saturating_sub(applied.job.batch.bytes);
            match done {
                Ok(()) => {
                    state.committed = due;
                    state.spare.push(applied.transaction);
                }
                Err(error) => self.fail(&mut state, applied.worker, error),
            }
            self.wake_worker(&state);
            if state.committed == state.entered || state.has_room() {
                self.room.notify_all();
            }
        }
        state.is_committing = false;
        // A job that runs alone may have waited for this one to end.
        self.wake_worker(&state);
    }

    /// Commits a job and its position. Called by one thread at a time.
    fn commit(&self, applied: &mut Applied) -> Followed<()> {
        let ending = &applied.job.ending;
        let next = ending.advance(&self.progress.applied.lock());
        let write = |txn: &mut porpoise_rows::Txn| self.positions.write(txn, &next);
        let done = applied.transaction.commit(ending.origin, write);
        let position = done.map_err(|failure| {
            applied.transaction.roll_back();
            ending.error(&failure, ending.coordinates.position)
        })?;
        *self.progress.committed.lock() = position;
        (self.progress.listener)(&next, ending.timestamp);
        if let Some(status) = self.board.lock().get_mut(applied.worker) {
            status.applied = Some(self.shown(ending));
        }
        *self.progress.applied.lock() = next;
        Ok(())
    }

    /// Handles a job that has failed and was rolled back.
    fn retreat(
        &self,
        number: u64,
        mut job: Job,
        transaction: Transaction,
        worker: usize,
        (failure, end): &(Failure, u64),
    ) {
        let mut state = self.state.lock();
        state.running -= 1;
        state.runs_alone = false;
        state.spare.push(transaction);
        if job.is_alone {
            let error = job.ending.error(failure, *end);
            self.fail(&mut state, worker, error);
            return;
        }
        job.is_alone = true;
        state.waiting.insert(number, job);
        self.wake_worker(&state);
    }

    fn fail(&self, state: &mut State, worker: usize, error: FollowError) {
        if let Some(status) = self.board.lock().get_mut(worker)
            && !error.is_transient
        {
            status.error = Some((error.number, error.message.clone()));
        }
        state.error.get_or_insert(error);
        self.work.notify_all();
        self.room.notify_all();
    }

    fn shown(&self, ending: &Ending) -> WorkerTransaction {
        WorkerTransaction {
            gtid: ending.gtid,
            original_commit: ending.origin.map_or(0, |origin| origin.commit_micros),
            at: self.db.clock().unix_micros(),
        }
    }

    /// Shows what a worker applies.
    fn show(&self, worker: usize, ending: Option<&Ending>) {
        let shown = ending.map(|ending| self.shown(ending));
        if let Some(status) = self.board.lock().get_mut(worker) {
            status.applying = shown;
        }
    }
}
