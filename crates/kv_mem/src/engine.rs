//! The engine itself: opening, the contract's functions, figures, checks.

use crate::checkpoint::Checkpoints;
use crate::counters::{Counters, Table};
use crate::heartbeat;
use crate::log::{Beginning, Log, LogTurns, LogWriter, head, io_error, prepare_spares, write_log};
use crate::manifest::Manifest;
use crate::recovery::{is_store, recover};
use crate::shared::Shared;
use crate::txn::MemTxn;
use porpoise_base::clock::{self, Clock};
use porpoise_base::disk::{self, Disk, DiskLock};
use porpoise_base::sync::atomic::Ordering;
use porpoise_base::sync::thread::JoinHandle;
use porpoise_base::sync::{Condvar, Mutex};
use porpoise_base::threads::{self, Role};
use porpoise_kv::{
    Capabilities, CounterId, DeadlockListener, Durability, DurableListener, Engine, Error, Full,
    Limits, LockWait, Result, SpaceId, SpaceSpec, Stat, Ticket, Txn, TxnOptions,
};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How often the reclaimer looks, at least.
const RECLAIM_TICK: Duration = Duration::from_millis(10);

/// How often the checkpointer looks.
const CHECKPOINT_TICK: Duration = Duration::from_millis(50);

/// After a checkpoint failed, the next is tried after so long.
const CHECKPOINT_RETRY: Duration = Duration::from_secs(2);

/// The file that keeps a second server out.
const LOCK_NAME: &str = "LOCK";

/// Who does the work that a server does in the background: writing the log,
/// keeping a segment ready, reclaiming, checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Background {
    /// Threads of the engine.
    #[default]
    Threads,
    /// The callers, so that a simulation decides what happens when: the log's
    /// turns are made by [`KvMem::step_log`] and by whoever waits for the
    /// disk, the rest by [`KvMem::reclaim`] and [`KvMem::checkpoint`].
    Callers,
}

/// How an engine is opened.
#[derive(Clone)]
pub struct KvMemOptions {
    /// The data directory; `None` keeps nothing.
    pub dir: Option<PathBuf>,
    /// The disk it is on.
    pub disk: Arc<dyn Disk>,
    /// When commits count as durable.
    pub durability: Durability,
    /// Above so many bytes of keys and versions, writes that grow are refused
    /// with [`Error::Full`]. Approximate.
    pub memory_limit: Option<usize>,
    /// How long a commit waits for the locks of keys that it compares.
    pub lock_wait: Duration,
    /// The largest write set of one transaction, in bytes.
    pub transaction_limit: usize,
    /// The size of a log segment, in bytes.
    pub segment_bytes: u64,
    /// A checkpoint is written when the log behind the last one has so many
    /// bytes.
    pub checkpoint_bytes: u64,
    /// The source of time.
    pub clock: Arc<dyn Clock>,
    /// Who does the work of the background.
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
    pub(crate) shared: Arc<Shared>,
    counters: Arc<Counters>,
    checkpoints: Arc<Checkpoints>,
    stop: Arc<Stop>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    lock: Mutex<Option<Box<dyn DiskLock>>>,
}

impl KvMem {
    /// Opens a store, recovering what its directory holds.
    ///
    /// # Errors
    /// [`Error::Io`] names the directory or file that cannot be used, also when
    /// another server uses it; [`Error::Corrupt`] the file and offset of data
    /// that contradict their checksums.
    pub fn open(options: KvMemOptions) -> Result<Arc<KvMem>> {
        let limits = Limits {
            key: 8192,
            value: 16 << 20,
            transaction: options.transaction_limit,
        };
        let mut lock = None;
        let mut log = None;
        if let Some(dir) = options.dir {
            lock = Some(lock_dir(&*options.disk, &dir)?);
            log = Some(Log::new(
                options.disk,
                dir,
                options.durability,
                options.segment_bytes,
                options.background == Background::Callers,
            ));
        }
        let shared = Arc::new(Shared::new(
            limits,
            options.memory_limit,
            options.lock_wait,
            options.clock,
            log,
        ));
        let (table, manifest, writer) = match &shared.log {
            Some(log) => {
                let (table, manifest, writer) = recover_into(&shared, log)?;
                (table, manifest, Some(writer))
            }
            None => (Table::default(), Manifest::default(), None),
        };
        let engine = KvMem {
            shared: shared.clone(),
            counters: Arc::new(Counters::new(table)),
            checkpoints: Arc::new(Checkpoints::new(manifest)),
            stop: Arc::default(),
            threads: Mutex::default(),
            lock: Mutex::new(lock),
        };
        if options.background == Background::Callers {
            if let Some(start) = writer {
                let LogStart::Begun(writer) = start else {
                    return Err(Error::Full(Full::Disk));
                };
                *shared.turns.lock() = Some(LogTurns::new(&shared, writer));
            }
            return Ok(Arc::new(engine));
        }
        let stop = engine.stop.clone();
        engine.spawn(Role::Reclaimer, move || reclaim_until(&shared, &stop))?;
        if let Some(writer) = writer {
            engine.start_log(writer, options.checkpoint_bytes)?;
        }
        Ok(Arc::new(engine))
    }

    /// Whether a directory holds a store, or files that are left of one.
    ///
    /// # Errors
    /// [`Error::Io`] when the directory cannot be read, also when there is none.
    pub fn is_store(disk: &dyn Disk, dir: &Path) -> Result<bool> {
        let names = disk.list(dir).map_err(|e| io_error(dir, &e))?;
        Ok(is_store(&names))
    }

    /// Starts the threads of a store that is kept.
    fn start_log(&self, start: LogStart, checkpoint_bytes: u64) -> Result<()> {
        let shared = self.shared.clone();
        heartbeat::begin(&shared);
        self.spawn(Role::Log, move || {
            if let Some(log) = &shared.log {
                let writer = match start {
                    LogStart::Begun(writer) => Some(writer),
                    LogStart::Waiting(at) => log.begin_late(&shared, at),
                };
                if let Some(writer) = writer {
                    write_log(&shared, log, writer);
                }
                shared.heartbeats.log.end();
            }
        })?;
        let shared = self.shared.clone();
        self.spawn(Role::LogSpare, move || {
            if let Some(log) = &shared.log {
                prepare_spares(&shared, log);
            }
        })?;
        let (shared, stop) = (self.shared.clone(), self.stop.clone());
        self.spawn(Role::LogHead, move || {
            if let Some(log) = &shared.log {
                head_until(&stop, log);
            }
        })?;
        let (shared, counters) = (self.shared.clone(), self.counters.clone());
        let (checkpoints, stop) = (self.checkpoints.clone(), self.stop.clone());
        self.spawn(Role::Checkpointer, move || {
            if let Some(log) = &shared.log {
                // On a full disk as soon as it would free a segment.
                let frees = || log.is_short(&shared) && log.segments.lock().len() > 1;
                let due = || checkpoints.behind(&shared) >= checkpoint_bytes || frees();
                let write = || checkpoints.write(&shared, log, &counters, false);
                let due = || {
                    heartbeat::checkpoint_step(&shared);
                    due()
                };
                checkpoint_until(&stop, due, write);
                shared.heartbeats.checkpointer.end();
            }
        })
    }

    fn spawn(&self, role: Role, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let name = role.name();
        let thread = threads::spawn(role, work)
            .map_err(|e| Error::Io(format!("cannot start thread {name}: {e}")))?;
        self.threads.lock().push(thread);
        Ok(())
    }

    /// Writes a checkpoint now; a background thread does so from time to time.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Full`]; the checkpoint before holds then.
    pub fn checkpoint(&self) -> Result<()> {
        self.shared.open()?;
        match &self.shared.log {
            Some(log) => self
                .checkpoints
                .write(&self.shared, log, &self.counters, false),
            None => Ok(()),
        }
    }

    /// One turn of the log with [`Background::Callers`]: what has gathered is
    /// written, synced if that is due, and published; with nothing to write
    /// the last group is vouched for. No effect with [`Background::Threads`].
    pub fn step_log(&self) {
        self.shared.make_turn();
    }

    /// Prunes versions and keys now; a background thread does so all the time.
    pub fn reclaim(&self) {
        self.shared.reclaimer.pass(&self.shared);
    }

    /// Ends the background threads; the log is synced to its end first.
    fn stop_threads(&self) {
        *self.stop.stopped.lock() = true;
        self.stop.wake.notify_all();
        if let Some(log) = &self.shared.log {
            let mut seq = self.shared.seq.lock();
            seq.log.stop = true;
            log.nudge(&mut seq);
            log.wake.notify_all();
            drop(seq);
            log.stop_spares();
            if let Some(turns) = self.shared.turns.lock().as_mut() {
                while !turns.turn_now(&self.shared, log) {}
            }
        }
        for thread in self.threads.lock().drain(..) {
            // A panicked thread has told its story already.
            let _ = thread.join();
        }
        if let Some(log) = &self.shared.log {
            log.head.sync_or_warn();
        }
        *self.lock.lock() = None;
    }

    /// Writes the exact counters, and a checkpoint behind which nothing comes.
    fn leave_cleanly(&self, log: &Log) -> Result<()> {
        if log.is_pending() {
            // Nothing has changed since the start.
            return Ok(());
        }
        self.shared.writable()?;
        let position = self.counters.freeze(&self.shared, log);
        log.wait_synced(&self.shared, position)?;
        self.checkpoints
            .write(&self.shared, log, &self.counters, true)
    }
}

/// Makes the data directory, and keeps others out of it.
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

/// How a run's log begins.
enum LogStart {
    Begun(LogWriter),
    /// The disk has no room for it.
    Waiting(Beginning),
}

/// Recovers a store and begins a segment behind what was found.
fn recover_into(shared: &Shared, log: &Log) -> Result<(Table, Manifest, LogStart)> {
    let found = recover(shared, &*log.disk, &log.dir)?;
    if found.rows && !log.rows() {
        return Err(Error::Io(format!(
            "data directory {} holds rows that durability = memory would not keep",
            log.dir.display()
        )));
    }
    let number = found.segments.last().map_or(1, |(number, _)| number + 1);
    *log.segments.lock() = found.segments;
    match found.head {
        Some(head) => {
            let adopted = log.head.adopt(head);
            adopted.map_err(|e| io_error(&log.dir.join(head::NAME), &e))?;
        }
        None => log.head.assume(found.first_entry),
    }
    let mut seq = shared.seq.lock();
    shared.start_at(&mut seq, found.next_ts.max(2) - 1);
    let at = Beginning {
        number,
        position: found.position,
        first_group: found.next_group,
    };
    let start = match log.begin(&mut seq, at) {
        Ok(writer) => LogStart::Begun(writer),
        Err(Error::Full(Full::Disk)) => {
            log.put_off(&mut seq, found.position);
            LogStart::Waiting(at)
        }
        Err(error) => return Err(error),
    };
    Ok((found.table, found.manifest, start))
}

fn reclaim_until(shared: &Shared, stop: &Stop) {
    let mut stopped = stop.stopped.lock();
    while !*stopped {
        stop.wake.wait_for(&mut stopped, RECLAIM_TICK);
        porpoise_base::sync::MutexGuard::unlocked(&mut stopped, || shared.reclaimer.pass(shared));
    }
}

fn head_until(stop: &Stop, log: &Log) {
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
            tracing::error!(%error, "no checkpoint could be written");
            pause = CHECKPOINT_RETRY;
        }
    }
}

impl Drop for KvMem {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
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
        }
    }

    fn limits(&self) -> Limits {
        self.shared.limits
    }

    fn begin(&self, options: TxnOptions) -> Result<Box<dyn Txn>> {
        self.shared.open()?;
        Ok(Box::new(MemTxn::new(self.shared.clone(), options)))
    }

    fn create_spaces(&self, specs: &[SpaceSpec]) -> Result<Vec<SpaceId>> {
        self.shared.open()?;
        self.counters.create_spaces(&self.shared, specs)
    }

    fn drop_spaces(&self, spaces: &[SpaceId]) -> Result<()> {
        self.shared.open()?;
        self.counters.drop_spaces(&self.shared, spaces)
    }

    fn spaces(&self) -> Result<Vec<(SpaceId, SpaceSpec)>> {
        self.shared.open()?;
        let all = self.shared.spaces.iter();
        let own = all.filter(|space| space.id >= SpaceId::FIRST_FREE);
        Ok(own.map(|space| (space.id, space.spec.clone())).collect())
    }

    fn reserve_ids(&self, counter: CounterId, count: u64, at_least: u64) -> Result<Range<u64>> {
        self.shared.open()?;
        self.counters
            .reserve(&self.shared, counter, count, at_least)
    }

    fn return_ids(&self, counter: CounterId, unused: Range<u64>) -> Result<bool> {
        self.shared.open()?;
        self.counters.give_back(counter, &unused)
    }

    fn next_id(&self, counter: CounterId) -> Result<u64> {
        self.shared.open()?;
        Ok(self.counters.next(counter))
    }

    fn set_next_id(&self, counter: CounterId, next: u64) -> Result<()> {
        self.shared.open()?;
        self.counters.set(&self.shared, counter, next)
    }

    fn durable_mark(&self) -> Ticket {
        Ticket(self.shared.mark.load(Ordering::Acquire))
    }

    fn wait_durable(&self, ticket: Ticket) -> Result<()> {
        self.shared.wait_durable(ticket.0)
    }

    fn subscribe(&self, listener: Arc<dyn DurableListener>) {
        self.shared.listeners.write().push(listener);
    }

    fn approximate_keys(&self, spaces: &[SpaceId]) -> Option<u64> {
        let found = spaces.iter().filter_map(|s| self.shared.spaces.find(*s));
        Some(found.map(|space| space.index.len() as u64).sum())
    }

    fn lock_waits(&self) -> Vec<LockWait> {
        self.shared.graph.waits()
    }

    fn watch_deadlocks(&self, listener: Arc<dyn DeadlockListener>) {
        self.shared.graph.listen(listener);
    }

    fn stats(&self) -> Vec<Stat> {
        crate::stats::collect(&self.shared)
    }

    fn stalled(&self) -> Vec<String> {
        heartbeat::stalled(&self.shared)
    }

    fn shutdown(&self) -> Result<()> {
        if self.shared.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let outcome = match &self.shared.log {
            Some(log) => self.leave_cleanly(log),
            None => Ok(()),
        };
        self.stop_threads();
        outcome
    }
}
