//! The engine: opening a store, background threads, and the functions of the `porpoise_kv`
//! contract.

use crate::checkpoint::Checkpoints;
use crate::counters::{CounterTable, Counters};
use crate::deadlock::DeadlockDetector;
use crate::heartbeat::Heartbeats;
use crate::log::annotations::LogAnnotations;
use crate::log::{Log, LogConfig, LogWriter, SegmentStart, head, io_error, run_log_thread};
use crate::manifest::Manifest;
use crate::metrics::TxnMetrics;
use crate::pipeline::CommitPipeline;
use crate::reclaim::Reclaimer;
use crate::recovery::{is_store, recover};
use crate::snapshots::Snapshots;
use crate::state::EngineState;
use crate::store::RecordStore;
use crate::txn::{MemPrepared, MemTxn};
use porpoise_base::clock::{self, Clock};
use porpoise_base::disk::{self, Disk, DiskLock};
use porpoise_base::sync::atomic::{AtomicBool, Ordering};
use porpoise_base::sync::thread::JoinHandle;
use porpoise_base::sync::{Condvar, Mutex};
use porpoise_base::threads::{self, Role};
use porpoise_kv::{
    AnnotationReader, Capabilities, CommitPosition, CounterId, DeadlockListener, Durability,
    DurableListener, Durations, Engine, Error, Limits, LockWait, PreparedTxn, Resource, Result,
    SpaceId, SpaceSpec, Stat, Txn, TxnOptions,
};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Maximum interval between passes of the reclaimer.
const RECLAIM_TICK: Duration = Duration::from_millis(10);

/// Interval at which the checkpointer checks whether a checkpoint is due.
const CHECKPOINT_TICK: Duration = Duration::from_millis(50);

/// Pause after a failed checkpoint.
const CHECKPOINT_RETRY: Duration = Duration::from_secs(2);

/// The lock file of a data directory.
const LOCK_NAME: &str = "LOCK";

/// Threads that run background work (log writing, segment preparation, reclamation, checkpoints).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Background {
    /// In threads of the engine.
    #[default]
    Threads,
    /// In callers, which makes runs deterministic for simulation: the log is written by
    /// [`KvMem::step_log`] and by callers that wait for the disk, the rest by [`KvMem::reclaim`]
    /// and [`KvMem::checkpoint`].
    Callers,
}

/// Options for [`KvMem::open`].
#[derive(Clone)]
pub struct KvMemOptions {
    /// The data directory; with `None`, nothing is persisted.
    pub dir: Option<PathBuf>,
    /// The disk that holds the data directory.
    pub disk: Arc<dyn Disk>,
    /// The point at which commits count as durable.
    pub durability: Durability,
    /// Approximate limit on the bytes of keys and versions. Above it, writes that need more memory
    /// are refused with [`Error::Full`].
    pub memory_limit: Option<usize>,
    /// Maximum time that a commit waits for the locks of keys that it compares.
    pub lock_wait: Duration,
    /// The largest write set of one transaction, in bytes.
    pub transaction_limit: usize,
    /// The size of a log segment, in bytes.
    pub segment_bytes: u64,
    /// Number of log bytes since the last checkpoint at which the next one is written.
    pub checkpoint_bytes: u64,
    /// Bytes of the log up to which segments are kept until [`KvMem::set_archived`] releases them;
    /// `None`: they are removed as soon as a checkpoint has their commits.
    pub archive_bound: Option<u64>,
    /// Whether annotations of commits are accepted, and kept until a reader releases them.
    pub annotations: bool,
    /// The source of time.
    pub clock: Arc<dyn Clock>,
    /// Threads that run background work.
    pub background: Background,
}

impl Default for KvMemOptions {
    fn default() -> KvMemOptions {
        KvMemOptions {
            dir: None,
            disk: disk::real(),
            durability: Durability::Sync,
            memory_limit: None,
            lock_wait: Duration::from_secs(50),
            transaction_limit: 4 << 30,
            segment_bytes: 32 << 20,
            checkpoint_bytes: 256 << 20,
            archive_bound: None,
            annotations: false,
            clock: clock::system(),
            background: Background::Threads,
        }
    }
}

#[derive(Default)]
struct Stop {
    stopped: Mutex<bool>,
    wake: Condvar,
}

/// The embedded engine.
pub struct KvMem {
    pub(crate) state: Arc<EngineState>,
    counters: Arc<Counters>,
    /// `None` if nothing is persisted.
    pub(crate) checkpoints: Option<Arc<Checkpoints>>,
    stop: Arc<Stop>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    lock: Mutex<Option<Box<dyn DiskLock>>>,
    /// Prepared transactions found when the store was opened.
    restored: Mutex<Vec<MemPrepared>>,
}

impl KvMem {
    /// Opens a store, and recovers the contents of its directory.
    ///
    /// # Errors
    /// [`Error::Io`] names the directory or file that cannot be used, also if another server uses
    /// it; [`Error::Corrupt`] names the file and offset of data with a bad checksum or contents.
    pub fn open(options: KvMemOptions) -> Result<Arc<KvMem>> {
        let driven_by_callers = options.background == Background::Callers;
        let mut lock = None;
        if let Some(dir) = &options.dir {
            lock = Some(lock_dir(&*options.disk, dir)?);
        }
        let checkpoint_bytes = options.checkpoint_bytes;
        let state = assemble(options);
        let (store, snapshots) = (&state.store, &state.snapshots);
        let (table, manifest, start) = match &state.log {
            Some(log) => {
                let (table, manifest, start) = recover_into(store, log)?;
                (table, manifest, Some(start))
            }
            None => (CounterTable::default(), Manifest::default(), None),
        };
        let pipeline = state.pipeline.clone();
        let counters = Counters::new(table, store.clone(), pipeline, state.log.clone());
        let counters = Arc::new(counters);
        let checkpoints = state.log.as_ref().map(|log| {
            let (store, snapshots) = (store.clone(), snapshots.clone());
            let counters = counters.clone();
            Arc::new(Checkpoints::new(
                manifest,
                store,
                snapshots,
                log.clone(),
                counters,
            ))
        });
        let restored = MemPrepared::restore_all(&state)?;
        let engine = KvMem {
            state,
            counters,
            checkpoints,
            stop: Arc::default(),
            threads: Mutex::default(),
            lock: Mutex::new(lock),
            restored: Mutex::new(restored),
        };
        if driven_by_callers {
            if let (Some(start), Some(log)) = (start, &engine.state.log) {
                let LogStart::Started(writer) = start else {
                    return Err(Error::Full(Resource::Disk));
                };
                log.set_writer(writer);
                log.run_by_callers();
            }
            return Ok(Arc::new(engine));
        }
        let (state, stop) = (engine.state.clone(), engine.stop.clone());
        engine.spawn(Role::Reclaimer, move || {
            reclaim_until(&state.reclaimer, &stop);
        })?;
        if let (Some(start), Some(log)) = (start, &engine.state.log) {
            engine.start_log(log, start, checkpoint_bytes)?;
        }
        Ok(Arc::new(engine))
    }

    /// Whether a directory holds a store, or remains of one.
    ///
    /// # Errors
    /// [`Error::Io`] if the directory does not exist or cannot be read.
    pub fn is_store(disk: &dyn Disk, dir: &Path) -> Result<bool> {
        let names = disk.list(dir).map_err(|e| io_error(dir, &e))?;
        Ok(is_store(&names))
    }

    /// Starts the threads of a persistent store.
    fn start_log(&self, log: &Arc<Log>, start: LogStart, checkpoint_bytes: u64) -> Result<()> {
        log.heartbeats.begin();
        let waiting = match start {
            LogStart::Started(writer) => {
                log.set_writer(writer);
                None
            }
            LogStart::Waiting(at) => Some(at),
        };
        for number in 0..log.thread_count() {
            let (log, waiting) = (log.clone(), waiting.filter(|_| number == 0));
            self.spawn(Role::Log, move || {
                if let Some(at) = waiting {
                    let Some(writer) = log.begin_when_disk_has_room(at) else {
                        return;
                    };
                    log.set_writer(writer);
                }
                run_log_thread(&log, number);
            })?;
        }
        let preparing = log.clone();
        self.spawn(Role::LogSpare, move || preparing.prepare_spares())?;
        let (syncing, stop) = (log.clone(), self.stop.clone());
        self.spawn(Role::LogHead, move || sync_head_until(&stop, &syncing))?;
        let Some(checkpoints) = self.checkpoints.clone() else {
            return Ok(());
        };
        let (log, stop) = (log.clone(), self.stop.clone());
        self.spawn(Role::Checkpointer, move || {
            // On a full disk a checkpoint is due as soon as it would free a segment.
            let frees = || log.is_disk_full() && log.segments.lock().len() > 1;
            let due = || {
                log.heartbeats.checkpoint_step();
                checkpoints.bytes_since_last() >= checkpoint_bytes || frees()
            };
            checkpoint_until(&stop, due, || checkpoints.write(false));
            log.heartbeats.end_checkpointer();
        })
    }

    fn spawn(&self, role: Role, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let name = role.name();
        let thread = threads::spawn(role, work)
            .map_err(|e| Error::Io(format!("cannot start thread {name}: {e}")))?;
        self.threads.lock().push(thread);
        Ok(())
    }

    /// Writes a checkpoint now. A background thread writes one whenever it is due.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Full`]; the previous checkpoint stays in force.
    pub fn checkpoint(&self) -> Result<()> {
        self.state.check_open()?;
        match &self.checkpoints {
            Some(checkpoints) => checkpoints.write(false),
            None => Ok(()),
        }
    }

    /// One iteration of the log thread with [`Background::Callers`]: writes the log buffer as a group; or syncs
    /// the oldest written group if that is due, and publishes the durable position; or, if there is neither,
    /// confirms the last group. No effect with [`Background::Threads`].
    pub fn step_log(&self) {
        if let Some(log) = &self.state.log {
            log.step();
        }
    }

    /// Runs one pass of the reclaimer now. A background thread does so continuously.
    pub fn reclaim(&self) {
        self.state.reclaimer.run_pass();
    }

    /// The log, if it has annotations.
    fn annotated_log(&self) -> Option<&Arc<Log>> {
        self.state.log.as_ref().filter(|log| log.has_annotations())
    }

    /// Syncs the log to its end, and stops the background threads.
    fn stop_threads(&self) {
        *self.stop.stopped.lock() = true;
        self.stop.wake.notify_all();
        if let Some(log) = &self.state.log {
            log.stop();
        }
        for thread in self.threads.lock().drain(..) {
            // The panic of a thread was logged by `porpoise_base::threads`.
            let _ = thread.join();
        }
        if let Some(log) = &self.state.log {
            log.head.sync_or_warn();
        }
        *self.lock.lock() = None;
    }

    /// Writes the exact counters and a final checkpoint, after which nothing is appended.
    fn save_final_state(&self, log: &Log, checkpoints: &Checkpoints) -> Result<()> {
        if log.is_pending() {
            // Nothing has changed since the start.
            return Ok(());
        }
        log.check_writable()?;
        let position = self.counters.freeze(log);
        log.wait_synced(position)?;
        checkpoints.write(true)
    }
}

/// Creates the parts of an engine, without reading its directory.
fn assemble(options: KvMemOptions) -> Arc<EngineState> {
    let immediate = options.dir.is_none() || options.durability != Durability::Sync;
    let store = Arc::new(RecordStore::new(options.memory_limit));
    let snapshots = Arc::new(Snapshots::new());
    let pipeline = Arc::new(CommitPipeline::new(immediate));
    let heartbeats = Arc::new(Heartbeats::new(options.clock.clone()));
    let (disk, clock) = (options.disk, options.clock);
    let log = options.dir.map(|dir| {
        let config = LogConfig {
            disk,
            dir,
            durability: options.durability,
            segment_bytes: options.segment_bytes,
            driven_by_callers: options.background == Background::Callers,
            archive_bound: options.archive_bound,
            keeps_annotations: options.annotations,
        };
        let (pipeline, heartbeats) = (pipeline.clone(), heartbeats.clone());
        Arc::new(Log::new(config, pipeline, heartbeats, clock.clone()))
    });
    Arc::new(EngineState {
        reclaimer: Reclaimer::new(
            store.clone(),
            snapshots.clone(),
            pipeline.clone(),
            clock.clone(),
        ),
        store,
        snapshots,
        pipeline,
        deadlocks: DeadlockDetector::default(),
        heartbeats,
        log,
        metrics: TxnMetrics::default(),
        limits: Limits {
            key: 8192,
            value: 16 << 20,
            transaction: options.transaction_limit,
        },
        lock_wait: options.lock_wait,
        clock,
        closed: AtomicBool::new(false),
    })
}

/// Creates the data directory, and locks it against other servers.
fn lock_dir(disk: &dyn Disk, dir: &Path) -> Result<Box<dyn DiskLock>> {
    let at = dir.display();
    disk.create_dir(dir)
        .map_err(|e| Error::Io(format!("cannot use data directory {at}: {e}")))?;
    disk.lock(&dir.join(LOCK_NAME)).map_err(|e| match e.kind() {
        std::io::ErrorKind::WouldBlock => {
            Error::Io(format!("data directory {at} is in use by another server"))
        }
        _ => Error::Io(format!("cannot use data directory {at}: {e}")),
    })
}

/// State of the log at the start of a run.
enum LogStart {
    Started(LogWriter),
    /// The disk has no space for the run's first segment.
    Waiting(SegmentStart),
}

/// Recovers a store and begins a new segment after the end of its log.
fn recover_into(store: &RecordStore, log: &Log) -> Result<(CounterTable, Manifest, LogStart)> {
    let found = recover(store, &*log.disk, &log.dir)?;
    if found.rows && !log.logs_rows() {
        return Err(Error::Io(format!(
            "data directory {} contains a store, which --durability memory would ignore: use another mode or another directory",
            log.dir.display()
        )));
    }
    let number = found.segments.last().map_or(1, |(number, _)| number + 1);
    *log.segments.lock() = found.segments;
    match found.head {
        Some(head) => {
            let adopted = log.head.continue_file(head);
            adopted.map_err(|e| io_error(&log.dir.join(head::NAME), &e))?;
        }
        None => log.head.set_initial(found.first_entry),
    }
    let mut seq = log.pipeline.lock();
    log.pipeline.start_at(&mut seq, found.next_ts.max(2) - 1);
    let at = SegmentStart {
        number,
        position: found.position,
        first_group: found.next_group,
    };
    let start = match log.begin(&mut seq, at) {
        Ok(writer) => LogStart::Started(writer),
        Err(Error::Full(Resource::Disk)) => {
            log.start_without_segment(&mut seq, found.position);
            LogStart::Waiting(at)
        }
        Err(error) => return Err(error),
    };
    Ok((found.table, found.manifest, start))
}

fn reclaim_until(reclaimer: &Reclaimer, stop: &Stop) {
    let mut stopped = stop.stopped.lock();
    while !*stopped {
        stop.wake.wait_for(&mut stopped, RECLAIM_TICK);
        porpoise_base::sync::MutexGuard::unlocked(&mut stopped, || reclaimer.run_pass());
    }
}

fn sync_head_until(stop: &Stop, log: &Log) {
    let mut stopped = stop.stopped.lock();
    while !*stopped {
        stop.wake.wait_for(&mut stopped, head::SYNC_EVERY);
        porpoise_base::sync::MutexGuard::unlocked(&mut stopped, || log.head.sync_or_warn());
    }
}

fn checkpoint_until(stop: &Stop, due: impl Fn() -> bool, write: impl Fn() -> Result<()>) {
    let mut stopped = stop.stopped.lock();
    let mut pause = CHECKPOINT_TICK;
    while !*stopped {
        stop.wake.wait_for(&mut stopped, pause);
        pause = CHECKPOINT_TICK;
        if *stopped || !due() {
            continue;
        }
        let outcome = porpoise_base::sync::MutexGuard::unlocked(&mut stopped, &write);
        if let Err(error) = outcome {
            tracing::error!(%error, "checkpoint failed; the log is kept and grows until one succeeds");
            pause = CHECKPOINT_RETRY;
        }
    }
}

impl Drop for KvMem {
    fn drop(&mut self) {
        self.state.closed.store(true, Ordering::Release);
        self.stop_threads();
    }
}

impl Engine for KvMem {
    fn name(&self) -> &'static str {
        "embedded"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            serializable: true,
            range_validation: true,
            share_locks: true,
            nowait: true,
            skip_locked: true,
            prepare: true,
            annotations: self.annotated_log().is_some(),
        }
    }

    fn limits(&self) -> Limits {
        self.state.limits
    }

    fn begin(&self, options: TxnOptions) -> Result<Box<dyn Txn>> {
        self.state.check_open()?;
        Ok(Box::new(MemTxn::new(self.state.clone(), options)))
    }

    fn create_spaces(&self, specs: &[SpaceSpec]) -> Result<Vec<SpaceId>> {
        self.state.check_open()?;
        self.counters.create_spaces(specs)
    }

    fn drop_spaces(&self, spaces: &[SpaceId]) -> Result<()> {
        self.state.check_open()?;
        self.counters.drop_spaces(spaces)
    }

    fn take_restored(&self) -> Result<Vec<Box<dyn PreparedTxn>>> {
        self.state.check_open()?;
        let restored = std::mem::take(&mut *self.restored.lock());
        let boxed = |prepared| -> Box<dyn PreparedTxn> { Box::new(prepared) };
        Ok(restored.into_iter().map(boxed).collect())
    }

    fn spaces(&self) -> Result<Vec<(SpaceId, SpaceSpec)>> {
        self.state.check_open()?;
        let all = self.state.store.spaces.iter();
        let own = all.filter(|space| space.id >= SpaceId::FIRST_FREE);
        Ok(own.map(|space| (space.id, space.spec.clone())).collect())
    }

    fn reserve_ids(&self, counter: CounterId, count: u64, at_least: u64) -> Result<Range<u64>> {
        self.state.check_open()?;
        self.counters.reserve(counter, count, at_least)
    }

    fn return_ids(&self, counter: CounterId, unused: Range<u64>) -> Result<bool> {
        self.state.check_open()?;
        self.counters.give_back(counter, &unused)
    }

    fn next_id(&self, counter: CounterId) -> Result<u64> {
        self.state.check_open()?;
        Ok(self.counters.next(counter))
    }

    fn set_next_id(&self, counter: CounterId, next: u64) -> Result<()> {
        self.state.check_open()?;
        self.counters.set(counter, next)
    }

    fn durable_position(&self) -> CommitPosition {
        CommitPosition(self.state.pipeline.watermark.position())
    }

    fn newest_position(&self) -> CommitPosition {
        CommitPosition(self.state.pipeline.lock().last_ts)
    }

    fn wait_durable(&self, position: CommitPosition) -> Result<()> {
        self.state.wait_durable(position.0)
    }

    fn subscribe(&self, listener: Arc<dyn DurableListener>) {
        self.state.pipeline.watermark.subscribe(listener);
    }

    fn require_acknowledgement(&self, on: bool) -> Result<()> {
        if on && self.annotated_log().is_none() {
            return Err(Error::Unsupported("acknowledgement of commits"));
        }
        self.state.pipeline.require_acknowledgement(on);
        Ok(())
    }

    fn acknowledge(&self, commit: u64) {
        self.state.pipeline.acknowledge(commit);
    }

    fn holds_commits_back(&self) -> bool {
        self.state.pipeline.lock().unacknowledged.is_some()
    }

    fn abandon_acknowledgement(&self) {
        self.state.pipeline.abandon_acknowledgement();
    }

    fn annotations(&self, position: u64) -> Result<Box<dyn AnnotationReader>> {
        self.state.check_open()?;
        let Some(log) = self.annotated_log() else {
            return Err(Error::Unsupported("annotations of commits"));
        };
        Ok(Box::new(LogAnnotations::open(log.clone(), position)?))
    }

    fn approximate_keys(&self, spaces: &[SpaceId]) -> Option<u64> {
        let found = spaces
            .iter()
            .filter_map(|s| self.state.store.spaces.find(*s));
        Some(found.map(|space| space.index.len() as u64).sum())
    }

    fn approximate_bytes(&self, spaces: &[SpaceId]) -> Option<u64> {
        let found = spaces
            .iter()
            .filter_map(|s| self.state.store.spaces.find(*s));
        Some(found.map(|space| space.live_bytes() as u64).sum())
    }

    fn lock_waits(&self) -> Vec<LockWait> {
        self.state.deadlocks.waits()
    }

    fn subscribe_deadlocks(&self, listener: Arc<dyn DeadlockListener>) {
        self.state.deadlocks.listen(listener);
    }

    fn stats(&self) -> Vec<Stat> {
        crate::stats::collect(&self.state)
    }

    fn durations(&self) -> Vec<Durations> {
        crate::stats::durations(&self.state)
    }

    fn stalled(&self) -> Vec<String> {
        self.state.heartbeats.stalled()
    }

    fn shutdown(&self) -> Result<()> {
        if self.state.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let outcome = match (&self.state.log, &self.checkpoints) {
            (Some(log), Some(checkpoints)) => self.save_final_state(log, checkpoints),
            _ => Ok(()),
        };
        self.stop_threads();
        outcome
    }
}
