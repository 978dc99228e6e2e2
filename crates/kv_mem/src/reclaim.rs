//! The reclaimer: frees versions and keys that no snapshot needs.
//!
//! Commits queue the records whose older versions they superseded. A background thread takes the horizon
//! and prunes the records by intervals (rule 27); a record with a version that a snapshot needs waits
//! under that snapshot until it ends. At the memory limit, writers that grow expire the oldest of the
//! snapshots that have been holding something back for [`LONG_SNAPSHOT_AGE`] (transactions.md, 30).
//!
//! Invariants:
//! 1. A record with a superseded version, or a deletion as its newest, is `queued` or `held_back`, or
//!    the reclaimer is processing it.
//! 2. A key is unlinked when its newest version is a deletion that every snapshot, present and future,
//!    sees, no transaction locks it, and its chain holds nothing else; it is marked dead under the
//!    latch first.
//! 3. A snapshot is expired only when records wait for its end, so that its end frees memory.
//!
//! Rejected: expiring the oldest snapshot as soon as memory is short (most snapshots end by themselves a
//! moment later); leaving it to the background thread (a writer would be refused although memory can be
//! freed).

use crate::metrics::Count;
use crate::pipeline::CommitPipeline;
use crate::prefetch::prefetch;
use crate::record::RecordRef;
use crate::snapshots::{Horizon, Snapshots};
use crate::store::RecordStore;
use crossbeam_epoch::Guard;
use porpoise_base::clock::Clock;
use porpoise_base::sync::Mutex;
use porpoise_kv::SpaceId;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Age from which a snapshot counts as long.
const LONG_SNAPSHOT_AGE: Duration = Duration::from_secs(1);

/// Interval at which the ages of snapshots are recorded.
const AGE_INTERVAL: Duration = Duration::from_millis(100);

/// A record that may have something to reclaim.
pub(crate) struct Item {
    pub(crate) space: SpaceId,
    pub(crate) record: RecordRef,
}

/// Records that could not be pruned completely, by the reason.
#[derive(Default)]
struct Retained {
    /// Records with versions above the watermark, or locked: processed in every pass.
    pending: Vec<Item>,
    /// Records by the snapshot that needs one of their versions.
    by_snapshot: BTreeMap<u64, Vec<Item>>,
    /// Time at which each active snapshot was first seen.
    since: BTreeMap<u64, Instant>,
    last_age_update: Option<Instant>,
    /// Start of the last pass.
    last_pass: Option<Instant>,
}

impl Retained {
    /// Updates `since` from the active snapshots.
    fn record_ages(&mut self, active: &[u64], now: Instant) {
        if self
            .last_age_update
            .is_some_and(|at| now < at + AGE_INTERVAL)
        {
            return;
        }
        self.last_age_update = Some(now);
        self.since.retain(|ts, _| active.binary_search(ts).is_ok());
        for ts in active {
            self.since.entry(*ts).or_insert(now);
        }
    }

    /// Returns the oldest snapshot that holds records back, if it is older than [`LONG_SNAPSHOT_AGE`].
    fn oldest_long_snapshot(&self, now: Instant) -> Option<u64> {
        let (ts, _) = self
            .by_snapshot
            .iter()
            .find(|(_, items)| !items.is_empty())?;
        let since = self.since.get(ts)?;
        (now >= *since + LONG_SNAPSHOT_AGE).then_some(*ts)
    }
}

/// The queue, and the records that the last passes could not free.
pub(crate) struct Reclaimer {
    store: Arc<RecordStore>,
    snapshots: Arc<Snapshots>,
    pipeline: Arc<CommitPipeline>,
    clock: Arc<dyn Clock>,
    queue: Mutex<Vec<Item>>,
    waiting: Mutex<Retained>,
    pub(crate) snapshots_ended: Count,
}

/// Outcome of pruning a record: what remains to be done with it.
enum Verdict {
    Nothing,
    Unlink,
    Pending,
    /// Kept until this snapshot ends.
    HeldBack(u64),
}

/// Prefetches the data of the next items, one pointer level at a time, so that several cache misses
/// overlap.
fn prefetch_ahead(items: &[Item], guard: &Guard) {
    const STEP: usize = 4;
    if let Some(item) = items.get(STEP * 3) {
        prefetch(item.record.address().as_ptr().addr());
    }
    if let Some(item) = items.get(STEP * 2) {
        item.record.prefetch_head(guard);
    }
    if let Some(item) = items.get(STEP) {
        item.record.prefetch_older(guard);
    }
}

impl Reclaimer {
    pub(crate) fn new(
        store: Arc<RecordStore>,
        snapshots: Arc<Snapshots>,
        pipeline: Arc<CommitPipeline>,
        clock: Arc<dyn Clock>,
    ) -> Reclaimer {
        Reclaimer {
            store,
            snapshots,
            pipeline,
            clock,
            queue: Mutex::default(),
            waiting: Mutex::default(),
            snapshots_ended: Count::default(),
        }
    }

    /// The snapshots that are active now.
    pub(crate) fn horizon(&self) -> Horizon {
        self.snapshots.horizon(&self.pipeline.watermark)
    }

    /// Queues records; their `queued` flags are set already.
    pub(crate) fn add(&self, items: impl IntoIterator<Item = Item>) {
        self.queue.lock().extend(items);
    }

    /// Number of queued records.
    pub(crate) fn backlog(&self) -> usize {
        self.queue.lock().len()
    }

    /// Makes one pass over all records that may have versions to free.
    pub(crate) fn run_pass(&self) {
        let mut waiting = self.waiting.lock();
        let now = self.clock.now();
        waiting.last_pass = Some(now);
        let fresh = std::mem::take(&mut *self.queue.lock());
        let pending = std::mem::take(&mut waiting.pending);
        let horizon = self.horizon();
        waiting.record_ages(&horizon.active, now);
        let ended: Vec<u64> = waiting
            .by_snapshot
            .keys()
            .filter(|ts| horizon.active.binary_search(ts).is_err())
            .copied()
            .collect();
        let mut freed = Vec::new();
        for ts in ended {
            freed.extend(waiting.by_snapshot.remove(&ts).unwrap_or_default());
        }
        for (items, was_held) in [(fresh, false), (pending, false), (freed, true)] {
            self.process_all(items, was_held, &horizon, &mut waiting);
        }
        crossbeam_epoch::pin().flush();
    }

    fn process_all(
        &self,
        items: Vec<Item>,
        was_held: bool,
        horizon: &Horizon,
        waiting: &mut Retained,
    ) {
        let mut guard = crossbeam_epoch::pin();
        let mut items = items.into_iter();
        let mut n = 0;
        while let Some(item) = items.next() {
            prefetch_ahead(items.as_slice(), &guard);
            match self.prune_record(&item, was_held, horizon, &guard) {
                Verdict::Nothing => {}
                Verdict::Pending => waiting.pending.push(item),
                Verdict::HeldBack(ts) => waiting.by_snapshot.entry(ts).or_default().push(item),
                Verdict::Unlink => {
                    if let Some(space) = self.store.spaces.find(item.space) {
                        self.store.unlink(space, &item.record);
                    }
                }
            }
            n += 1;
            if n % 256 == 0 {
                guard.repin();
            }
        }
    }

    fn prune_record(
        &self,
        item: &Item,
        was_held: bool,
        horizon: &Horizon,
        guard: &Guard,
    ) -> Verdict {
        let mut latch = item.record.latch();
        if was_held {
            latch.held_back = false;
            if latch.queued {
                return Verdict::Nothing;
            }
        }
        if latch.dead {
            return Verdict::Nothing;
        }
        let pruned = latch.prune(horizon.watermark, &horizon.active, guard);
        self.store.versions_reclaimed.add(pruned.versions as u64);
        if let Some(space) = self.store.spaces.find(item.space) {
            self.store.add_space_bytes(space, -(pruned.bytes as i64));
        }
        latch.queued = false;
        let verdict = match (pruned.left, pruned.newest) {
            (_, None) if latch.lock.is_free() => Verdict::Unlink,
            (_, None) => Verdict::Nothing,
            (1, Some((_, false))) => Verdict::Nothing,
            (1, Some((ts, true))) if ts <= horizon.oldest() => {
                if latch.lock.is_free() {
                    Verdict::Unlink
                } else {
                    Verdict::Pending
                }
            }
            (_, Some((ts, _))) if ts > horizon.watermark => Verdict::Pending,
            _ => match pruned.blocker.or(horizon.active.first().copied()) {
                Some(ts) => Verdict::HeldBack(ts),
                None => Verdict::Pending,
            },
        };
        match verdict {
            Verdict::Nothing => {}
            Verdict::Unlink => latch.dead = true,
            Verdict::Pending => latch.queued = true,
            Verdict::HeldBack(_) if latch.held_back => return Verdict::Nothing,
            Verdict::HeldBack(_) => latch.held_back = true,
        }
        verdict
    }

    /// Frees memory for `bytes` more, if necessary by expiring long snapshots older than `own`.
    /// Returns whether there is room.
    pub(crate) fn make_room(&self, bytes: usize, own: Option<u64>) -> bool {
        while !self.store.has_room(bytes) {
            let holder = self.waiting.lock().oldest_long_snapshot(self.clock.now());
            let Some(holder) = holder.filter(|ts| own.is_none_or(|own| own > *ts)) else {
                return false;
            };
            let watermark = &self.pipeline.watermark;
            if !self.snapshots.expire_up_to(holder, watermark) {
                return false;
            }
            self.snapshots_ended.add(1);
            tracing::warn!(
                live_bytes = self.store.live_bytes() as u64,
                "the memory limit is reached: the oldest snapshot was ended, because only it \
                 prevented old versions from being reclaimed"
            );
            self.run_pass();
        }
        true
    }

    /// Time since the last pass began, if records have been queued since; zero otherwise. A pass that
    /// does not end, or a thread that does not run, shows here.
    pub(crate) fn lag(&self) -> Duration {
        if self.backlog() == 0 {
            return Duration::ZERO;
        }
        let now = self.clock.now();
        let last_pass = self.waiting.lock().last_pass;
        last_pass.map_or(Duration::ZERO, |at| now.saturating_duration_since(at))
    }

    /// Time since the oldest active snapshot was first seen: at most [`AGE_INTERVAL`] less than its
    /// age while the reclaimer runs.
    pub(crate) fn oldest_snapshot_age(&self) -> Duration {
        let horizon = self.horizon();
        let now = self.clock.now();
        let mut waiting = self.waiting.lock();
        waiting.record_ages(&horizon.active, now);
        let oldest = horizon.active.first().and_then(|ts| waiting.since.get(ts));
        oldest.map_or(Duration::ZERO, |since| {
            now.saturating_duration_since(*since)
        })
    }

    /// Number of pending records.
    pub(crate) fn pending(&self) -> usize {
        self.waiting.lock().pending.len()
    }

    /// Number of records that cannot be reclaimed because of a snapshot.
    pub(crate) fn blocked_by_snapshots(&self) -> usize {
        let waiting = self.waiting.lock();
        waiting.by_snapshot.values().map(Vec::len).sum()
    }
}
