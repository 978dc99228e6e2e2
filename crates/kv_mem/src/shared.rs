//! What all parts of the engine share.
//!
//! Invariants:
//! 1. `installed`: every version of every commit up to it is in its chain.
//!    `mark`: the newest commit that snapshots see; never above `installed`,
//!    nor, in `sync` mode, above what is on disk. Both only grow, and change
//!    under the sequencer.
//! 2. Latch order: sequencer, index, record. Nothing waits for the sequencer
//!    with one of the others held.

use crate::heartbeat::Heartbeats;
use crate::log::{Log, LogBuffer, LogTurns, prepare_spare};
use crate::reclaim::Reclaimer;
use crate::record::{RECORD_BYTES, Record, RecordRef};
use crate::snapshots::Snapshots;
use crate::space::{Space, Spaces};
use crate::wait_graph::WaitGraph;
use crossbeam_epoch::Guard;
use porpoise_base::blocking::blocking;
use porpoise_base::clock::Clock;
use porpoise_base::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use porpoise_base::sync::{Condvar, Mutex, RwLock};
use porpoise_kv::{DurableListener, Error, Full, Limits, Result, SpaceId, Ticket};
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A figure that many threads add to.
#[derive(Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Figures that are not kept elsewhere.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) commits: Count,
    pub(crate) conflicts: Count,
    pub(crate) deadlocks: Count,
    pub(crate) lock_waits: Count,
    pub(crate) lock_timeouts: Count,
    pub(crate) versions: Count,
    pub(crate) log_bytes: Count,
    pub(crate) groups: Count,
    pub(crate) grouped_commits: Count,
    pub(crate) syncs: Count,
    pub(crate) sync_micros: Count,
    pub(crate) checkpoints: Count,
    pub(crate) snapshots_ended: Count,
    pub(crate) views_advanced: Count,
}

/// Where commits get their order.
#[derive(Default)]
pub(crate) struct Sequencer {
    /// The newest commit timestamp given out.
    pub(crate) last_ts: u64,
    /// Commits not installed yet, in order, and those that wait behind them.
    pub(crate) inflight: VecDeque<(u64, bool)>,
    /// Up to here commits are on disk, or need not be.
    pub(crate) durable_ts: u64,
    /// Records that wait for the disk.
    pub(crate) log: LogBuffer,
}

/// What all parts share.
pub(crate) struct Shared {
    pub(crate) spaces: Spaces,
    pub(crate) snapshots: Snapshots,
    pub(crate) graph: WaitGraph,
    pub(crate) reclaimer: Reclaimer,
    pub(crate) seq: Mutex<Sequencer>,
    /// Signalled when the last of the commits in flight is installed.
    pub(crate) quiet: Condvar,
    pub(crate) installed: AtomicU64,
    pub(crate) mark: AtomicU64,
    pub(crate) listeners: RwLock<Vec<Arc<dyn DurableListener>>>,
    /// The newest commit that somebody was told of before the mark had it, and
    /// the mark that listeners were last told.
    asked: AtomicU64,
    told: AtomicU64,
    waiters: AtomicUsize,
    /// Heartbeats of the background threads.
    pub(crate) heartbeats: Heartbeats,
    progress: Mutex<()>,
    progressed: Condvar,
    live_bytes: AtomicI64,
    pub(crate) counts: Counts,
    pub(crate) limits: Limits,
    pub(crate) memory_limit: Option<usize>,
    pub(crate) lock_wait: Duration,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) closed: AtomicBool,
    pub(crate) failed: OnceLock<Error>,
    /// `None`: nothing is kept.
    pub(crate) log: Option<Log>,
    /// The log's turns where callers make them.
    pub(crate) turns: Mutex<Option<LogTurns>>,
}

impl Shared {
    pub(crate) fn new(
        limits: Limits,
        memory_limit: Option<usize>,
        lock_wait: Duration,
        clock: Arc<dyn Clock>,
        log: Option<Log>,
    ) -> Shared {
        let first = Sequencer {
            last_ts: 1,
            durable_ts: 1,
            ..Sequencer::default()
        };
        Shared {
            spaces: Spaces::new(),
            snapshots: Snapshots::new(),
            graph: WaitGraph::default(),
            reclaimer: Reclaimer::default(),
            seq: Mutex::new(first),
            quiet: Condvar::new(),
            installed: AtomicU64::new(1),
            mark: AtomicU64::new(1),
            listeners: RwLock::default(),
            asked: AtomicU64::new(0),
            told: AtomicU64::new(0),
            waiters: AtomicUsize::new(0),
            heartbeats: Heartbeats::new(&*clock),
            progress: Mutex::new(()),
            progressed: Condvar::new(),
            live_bytes: AtomicI64::new(0),
            counts: Counts::default(),
            limits,
            memory_limit,
            lock_wait,
            clock,
            closed: AtomicBool::new(false),
            failed: OnceLock::new(),
            log,
            turns: Mutex::new(None),
        }
    }

    /// Whether commits are seen by snapshots before they are on disk.
    pub(crate) fn immediate(&self) -> bool {
        self.log.as_ref().is_none_or(Log::immediate)
    }

    /// Begins to count commits from here; everything below is recovered.
    pub(crate) fn start_at(&self, seq: &mut Sequencer, last_ts: u64) {
        (seq.last_ts, seq.durable_ts) = (last_ts, last_ts);
        self.installed.store(last_ts, Ordering::SeqCst);
        self.mark.store(last_ts, Ordering::SeqCst);
    }

    /// Refuses when the engine was shut down.
    pub(crate) fn open(&self) -> Result<()> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(Error::Unavailable("the engine is shut down".to_owned()));
        }
        Ok(())
    }

    /// Refuses when writes are refused: for good, or because the disk had no
    /// room for a log at the start.
    pub(crate) fn writable(&self) -> Result<()> {
        self.healthy()?;
        match self.log.as_ref().is_some_and(Log::is_pending) {
            true => Err(Error::Full(Full::Disk)),
            false => Ok(()),
        }
    }

    /// Refuses when a write or sync has failed.
    pub(crate) fn healthy(&self) -> Result<()> {
        match self.failed.get() {
            Some(error) => Err(Error::ReadOnly(error.to_string())),
            None => Ok(()),
        }
    }

    /// Adds to the weight of what is in memory, in bytes.
    pub(crate) fn weigh(&self, bytes: i64) {
        self.live_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The weight of what is in memory, in bytes, about.
    pub(crate) fn live_bytes(&self) -> usize {
        usize::try_from(self.live_bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Whether so many bytes more stay below the memory limit.
    pub(crate) fn room_for(&self, bytes: usize) -> bool {
        self.memory_limit
            .is_none_or(|limit| self.live_bytes() + bytes <= limit)
    }

    /// The record of a key, made when there is none.
    pub(crate) fn record_of(&self, space: &Space, key: &[u8]) -> RecordRef {
        let (record, made) = space.index.get_or_create(key);
        if made {
            self.weigh((RECORD_BYTES + key.len()) as i64);
        }
        record
    }

    /// A record left the index, with the versions it had.
    pub(crate) fn forget_record(&self, record: &Record) {
        let guard = crossbeam_epoch::pin();
        let (versions, bytes) = record.check(&guard).unwrap_or_default();
        self.weigh(-((RECORD_BYTES + record.key().len() + bytes) as i64));
        self.reclaimer.versions.add(versions as u64);
        self.reclaimer.keys.add(1);
    }

    /// Takes a dead record out of the index, if nobody did before.
    pub(crate) fn unlink(&self, space: &Space, record: &RecordRef) {
        if space.index.remove(record) {
            self.forget_record(record);
        }
    }

    /// After a lock was released: a record that nothing is in goes.
    pub(crate) fn tidy(&self, space: SpaceId, record: &RecordRef, guard: &Guard) {
        if record.newest(guard).is_some() {
            return;
        }
        let mut latch = record.latch();
        if latch.dead || !latch.lock.is_free() || record.newest(guard).is_some() {
            return;
        }
        latch.dead = true;
        drop(latch);
        if let Some(space) = self.spaces.find(space) {
            self.unlink(space, record);
        }
    }

    /// Publishes how far snapshots see. The sequencer is held.
    pub(crate) fn publish(&self, seq: &Sequencer, immediate: bool) {
        let installed = self.installed.load(Ordering::Relaxed);
        let mark = if immediate {
            installed
        } else {
            installed.min(seq.durable_ts)
        };
        if mark > self.mark.load(Ordering::Relaxed) {
            self.mark.store(mark, Ordering::SeqCst);
        }
    }

    /// Somebody holds a reply for a commit; makes sure that it hears of it.
    pub(crate) fn interested_in(&self, ts: u64) {
        if ts > self.mark.load(Ordering::Acquire) {
            self.asked.fetch_max(ts, Ordering::SeqCst);
            if ts <= self.mark.load(Ordering::SeqCst) {
                self.tell();
            }
        }
    }

    /// Tells of progress if somebody may wait for it; called after `publish`,
    /// without the sequencer.
    pub(crate) fn tell_if_asked(&self) {
        if self.asked.load(Ordering::SeqCst) > self.told.load(Ordering::SeqCst) {
            self.tell();
        } else {
            self.wake_waiters();
        }
    }

    /// Tells everybody how far the mark has come.
    pub(crate) fn tell(&self) {
        let mark = self.mark.load(Ordering::SeqCst);
        for listener in self.listeners.read().iter() {
            listener.durable(Ticket(mark));
        }
        self.told.fetch_max(mark, Ordering::SeqCst);
        self.wake_waiters();
    }

    /// Tells everybody that the mark stays where it is, for good.
    pub(crate) fn fail(&self, error: Error) {
        tracing::error!(%error, "the engine accepts no more writes");
        if self.failed.set(error.clone()).is_ok() {
            for listener in self.listeners.read().iter() {
                listener.failed(&error);
            }
        }
        self.wake_waiters();
    }

    pub(crate) fn wake_waiters(&self) {
        if self.waiters.load(Ordering::SeqCst) > 0 {
            let _progress = self.progress.lock();
            self.progressed.notify_all();
        }
    }

    /// Sleeps until `done` says so; it is asked again after each progress.
    pub(crate) fn wait_until<T>(&self, mut done: impl FnMut() -> Option<T>) -> T {
        if let Some(found) = done() {
            return found;
        }
        if self.log.as_ref().is_some_and(|log| log.by_callers) {
            loop {
                self.make_turn();
                if let Some(found) = done() {
                    return found;
                }
                porpoise_base::sync::thread::yield_now();
            }
        }
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let found = blocking(|| {
            let mut progress = self.progress.lock();
            loop {
                if let Some(found) = done() {
                    return found;
                }
                self.progressed.wait(&mut progress);
            }
        });
        self.waiters.fetch_sub(1, Ordering::SeqCst);
        found
    }

    /// One turn of the log and of who keeps a segment ready, where callers do
    /// the work of the background, and none of them is amid a turn.
    pub(crate) fn make_turn(&self) {
        if let Some(log) = &self.log
            && let Some(mut turns) = self.turns.try_lock()
            && let Some(turns) = turns.as_mut()
        {
            prepare_spare(self, log);
            turns.turn_now(self, log);
        }
    }

    /// Waits until the mark has passed a commit.
    pub(crate) fn wait_durable(&self, ts: u64) -> Result<()> {
        self.wait_until(|| {
            if self.mark.load(Ordering::SeqCst) >= ts {
                return Some(Ok(()));
            }
            let failed = self.failed.get();
            failed.map(|error| Err(Error::Unknown(error.to_string())))
        })
    }

    /// Counts why a transaction was refused.
    pub(crate) fn count_refusal(&self, error: &Error) {
        match error {
            Error::Conflict => self.counts.conflicts.add(1),
            Error::Deadlock => self.counts.deadlocks.add(1),
            Error::LockTimeout => self.counts.lock_timeouts.add(1),
            _ => {}
        }
    }
}
