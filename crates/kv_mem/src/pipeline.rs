//! The commit pipeline: orders commits, and tracks how far they are installed and durable.
//!
//! A commit takes the sequencer, gets the next timestamp, appends its record to the log buffer (the
//! commit point) and installs its versions. Large commits install outside of the sequencer, so
//! several can be in flight; they count as installed in the order of their timestamps.
//!
//! ```text
//! commit     10          11 (large)   12
//! sequencer  ts, append  ts, append   ts, append
//! installed  10          10           10         ... 11 installs ... 12
//! ```
//!
//! Invariants:
//! 1. `installed`: every version of every commit up to it is in its chain. The watermark is never
//!    above `installed`, nor, with `sync` durability, above what is on disk. Both only grow, and
//!    change under the sequencer.
//! 2. Latch order: sequencer, index, record. No thread waits for the sequencer with an index or
//!    record latch held.
//! 3. While acknowledgements are required, an annotated commit is recorded in `unacknowledged` before
//!    the watermark can reach it, and the watermark stays below the oldest recorded one.

use crate::durability::DurabilityWatermark;
use crate::group_commit::GroupsInFlight;
use crate::group_commit::delay::CommitDelay;
use crate::protected::ProtectedReads;
use porpoise_base::blocking::blocking;
use porpoise_base::sync::atomic::{AtomicU64, Ordering};
use porpoise_base::sync::{Condvar, Mutex, MutexGuard};
use std::collections::{BTreeMap, VecDeque};

/// State of the leader: the one log thread that waits for records and takes them as the next group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Leader {
    /// There is none: the log threads write, sync, or sleep as followers.
    #[default]
    Absent,
    /// Runs, or is waking up.
    Awake,
    /// Sleeps until there is a record.
    Idle,
    /// Sleeps until there is this number of commits.
    Gathering(u64),
    /// Sleeps until a group in flight is written or synced, or for a time.
    Blocked,
}

/// Records that wait for a log thread, and groups in flight. Part of the sequencer.
#[derive(Default)]
pub(crate) struct LogBuffer {
    pub(crate) bytes: Vec<u8>,
    /// The buffer of the previous group, for reuse.
    pub(crate) spare_buffer: Vec<u8>,
    /// Number of commits in `bytes`.
    pub(crate) commits: u64,
    /// Number of commits in all groups taken so far.
    pub(crate) grouped_commits: u64,
    /// Log position after the last record appended.
    pub(crate) appended: u64,
    /// Whether a caller waits for a sync that the durability mode would postpone.
    pub(crate) urgent: bool,
    pub(crate) leader: Leader,
    /// Number of log threads that sleep until they become the leader.
    pub(crate) followers: usize,
    /// Whether a follower has to become the leader, and is waking up.
    pub(crate) is_promoting: bool,
    /// Groups that were taken and are not durable yet.
    pub(crate) groups: GroupsInFlight,
    pub(crate) delay: CommitDelay,
    /// Position up to which records are certain to fit in the open segment.
    pub(crate) segment_end: u64,
    /// Whether the log threads must end when the buffer is empty.
    pub(crate) stop: bool,
    /// Whether nothing is written any more, because the log was stopped or has failed.
    pub(crate) has_ended: bool,
    /// Whether no new segment could be created.
    pub(crate) is_out_of_segments: bool,
    /// Position up to which records fit in the existing segments.
    pub(crate) capacity_end: u64,
    /// Start positions of transactions with chunks in the log, each with the position after its
    /// commit once that was appended. Kept until a checkpoint contains the commit.
    pub(crate) chunked: BTreeMap<u64, Option<u64>>,
    /// Timestamps below this limit are reserved on disk.
    pub(crate) ts_limit: u64,
    /// A higher limit that is not yet on disk, and the position after its record.
    pub(crate) ts_next_limit: Option<(u64, u64)>,
}

impl LogBuffer {
    /// Number of commits appended so far.
    pub(crate) fn arrived_commits(&self) -> u64 {
        self.grouped_commits + self.commits
    }

    /// Whether another group may begin: none is in flight; or syncs should overlap, none is being written, and
    /// the records fit in the open segment (everything is synced before a new one).
    pub(crate) fn may_begin(&self) -> bool {
        let fits = self.appended <= self.segment_end;
        self.groups.is_empty() || self.delay.should_overlap() && fits && !self.groups.is_writing()
    }

    /// Allocated bytes of both buffers.
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.bytes.capacity() + self.spare_buffer.capacity()
    }
}

/// The state that orders commits.
#[derive(Default)]
pub(crate) struct Sequencer {
    /// The newest commit timestamp given out.
    pub(crate) last_ts: u64,
    /// Commits in timestamp order, from the oldest that is not installed on, each with a flag that
    /// says whether it is installed.
    pub(crate) inflight: VecDeque<(u64, bool)>,
    /// Commits up to this timestamp are on disk, or need not be.
    pub(crate) durable_ts: u64,
    /// Records that wait for the disk.
    pub(crate) log: LogBuffer,
    /// Keys and ranges that prepared transactions have validated.
    pub(crate) protected: ProtectedReads,
    /// Annotated commits that wait for an acknowledgement, ascending; `None` if acknowledgements are not required.
    pub(crate) unacknowledged: Option<VecDeque<u64>>,
}

impl Sequencer {
    /// Records an annotated commit, which may have to wait for an acknowledgement.
    #[inline]
    pub(crate) fn note_annotated(&mut self, ts: u64) {
        if let Some(waiting) = &mut self.unacknowledged {
            waiting.push_back(ts);
        }
    }

    /// The newest commit before the oldest that waits for an acknowledgement.
    fn acknowledged(&self) -> u64 {
        let oldest = self.unacknowledged.as_ref().and_then(VecDeque::front);
        oldest.map_or(u64::MAX, |oldest| oldest - 1)
    }
}

/// The pipeline of an engine.
pub(crate) struct CommitPipeline {
    sequencer: Mutex<Sequencer>,
    /// Signalled when the last commit in flight is installed.
    all_installed: Condvar,
    installed: AtomicU64,
    pub(crate) watermark: DurabilityWatermark,
    /// Whether commits count as durable before they are on disk.
    immediate: bool,
}

impl CommitPipeline {
    pub(crate) fn new(immediate: bool) -> CommitPipeline {
        let first = Sequencer {
            last_ts: 1,
            durable_ts: 1,
            ..Sequencer::default()
        };
        CommitPipeline {
            sequencer: Mutex::new(first),
            all_installed: Condvar::new(),
            installed: AtomicU64::new(1),
            watermark: DurabilityWatermark::new(1),
            immediate,
        }
    }

    /// Locks the sequencer.
    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, Sequencer> {
        self.sequencer.lock()
    }

    /// Starts timestamps after those of a recovered store.
    pub(crate) fn start_at(&self, seq: &mut Sequencer, last_ts: u64) {
        (seq.last_ts, seq.durable_ts) = (last_ts, last_ts);
        self.installed.store(last_ts, Ordering::SeqCst);
        self.watermark.advance(last_ts);
    }

    /// Timestamp up to which all commits are installed.
    pub(crate) fn installed(&self) -> u64 {
        self.installed.load(Ordering::Acquire)
    }

    /// Waits until no commit is in flight.
    pub(crate) fn wait_installed<'p>(
        &'p self,
        mut seq: MutexGuard<'p, Sequencer>,
    ) -> MutexGuard<'p, Sequencer> {
        if !seq.inflight.is_empty() {
            blocking(|| {
                while !seq.inflight.is_empty() {
                    self.all_installed.wait(&mut seq);
                }
            });
        }
        seq
    }

    /// Records the installation of a commit that was never in `inflight`, because no earlier commit
    /// was in flight.
    #[inline]
    pub(crate) fn set_installed(&self, ts: u64) {
        self.installed.store(ts, Ordering::Release);
    }

    /// Records that a commit in flight is installed.
    pub(crate) fn finish(&self, seq: &mut Sequencer, ts: u64) {
        if let Some(mine) = seq.inflight.iter_mut().find(|(t, _)| *t == ts) {
            mine.1 = true;
        }
        while let Some((ts, true)) = seq.inflight.front().copied() {
            self.set_installed(ts);
            seq.inflight.pop_front();
        }
        if seq.inflight.is_empty() {
            self.all_installed.notify_all();
        }
    }

    /// Switches on or off whether annotated commits wait for an acknowledgement.
    pub(crate) fn require_acknowledgement(&self, on: bool) {
        let mut seq = self.lock();
        if on == seq.unacknowledged.is_some() {
            return;
        }
        seq.unacknowledged = on.then(VecDeque::new);
        self.publish(&seq);
        drop(seq);
        self.watermark.notify();
    }

    /// Releases annotated commits up to this one.
    pub(crate) fn acknowledge(&self, commit: u64) {
        let mut seq = self.lock();
        let Some(waiting) = &mut seq.unacknowledged else {
            return;
        };
        while waiting.front().is_some_and(|ts| *ts <= commit) {
            waiting.pop_front();
        }
        self.publish(&seq);
        drop(seq);
        self.watermark.notify();
    }

    /// Ends the waits for commits that are not acknowledged.
    pub(crate) fn abandon_acknowledgement(&self) {
        let seq = self.lock();
        let is_waiting = seq.unacknowledged.as_ref().is_some_and(|w| !w.is_empty());
        drop(seq);
        if is_waiting {
            self.watermark.abandon();
        }
    }

    /// Advances the watermark as far as commits are installed, durable and acknowledged.
    pub(crate) fn publish(&self, seq: &Sequencer) {
        let durable = self.installed_and_durable(seq);
        self.watermark.advance(durable.min(seq.acknowledged()));
    }

    /// Timestamp up to which commits are installed and durable, acknowledged or not. At or above the
    /// watermark as long as the sequencer is locked.
    pub(crate) fn installed_and_durable(&self, seq: &Sequencer) -> u64 {
        let installed = self.installed.load(Ordering::Relaxed);
        if self.immediate {
            installed
        } else {
            installed.min(seq.durable_ts)
        }
    }
}
