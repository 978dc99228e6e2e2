//! The list of active snapshots, from which the reclaimer derives the versions that are needed.
//!
//! A transaction that takes a snapshot claims a slot in an array spread over many cache lines and writes
//! the snapshot's timestamp there; ending it is one store. No mutex is taken unless all slots are in
//! use.
//!
//! ```text
//! transaction                          reclaimer
//! slot = watermark, tentative          reads the watermark
//! reads the watermark again            reads the slots
//! slot = the second value, final
//! ```
//!
//! Invariants:
//! 1. A slot is claimed as *tentative* with a watermark read before, and becomes final with a watermark
//!    read after. A reclaimer reads the watermark, then the slots. It either sees the claim (and prunes
//!    nothing above a tentative one), or the snapshot is at or above the watermark that it read.
//! 2. A [`Horizon`] stays safe: snapshots only end, and new ones begin at or above its watermark.
//! 3. At the memory limit the oldest snapshots are expired, always all up to one. Their owners check
//!    after each read whether theirs is among them: versions are pruned only after `expired` was
//!    raised, so a reader that missed a pruned version also sees `expired` raised. The snapshot of a
//!    checkpoint is protected.
//!
//! Rejected: one mutex around a list (every transaction would take it twice); a low-water mark alone (a
//! dump of five minutes would keep gigabytes, rule 27); a flag in the slot of the snapshot that is to
//! expire (its owner would have to read a line that others write, and snapshots beyond the slots have
//! none).

use crate::durability::DurabilityWatermark;
use porpoise_base::sync::Mutex;
use porpoise_base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::collections::BTreeMap;

const LINES: usize = 128;
const SLOTS: usize = 8;

#[repr(align(64))]
#[derive(Default)]
struct Line([AtomicU64; SLOTS]);

/// A claimed slot, to be returned by [`Snapshots::end`].
#[derive(Debug)]
pub(crate) enum Slot {
    Array(usize, usize),
    Overflow(u64),
}

/// The timestamps of present and future snapshots, whose versions are needed.
pub(crate) struct Horizon {
    /// Every snapshot begun from now on is at or above this.
    pub(crate) watermark: u64,
    /// The active snapshots, ascending.
    pub(crate) active: Vec<u64>,
}

impl Horizon {
    /// Returns a lower bound of all snapshots, present and future.
    pub(crate) fn oldest(&self) -> u64 {
        self.active
            .first()
            .map_or(self.watermark, |s| (*s).min(self.watermark))
    }
}

pub(crate) struct Snapshots {
    lines: Box<[Line]>,
    unslotted: Mutex<UnslottedSnapshots>,
    /// Snapshots up to this timestamp were expired; changes with `unslotted` locked.
    expired: AtomicU64,
}

/// Snapshots without a slot, and the protected one.
#[derive(Default)]
struct UnslottedSnapshots {
    /// Snapshots without a slot: number of them by timestamp.
    overflow: BTreeMap<u64, usize>,
    /// The snapshot that is not expired at the memory limit.
    protected: Option<u64>,
}

static NEXT_LINE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static LINE: usize = NEXT_LINE.fetch_add(1, Ordering::Relaxed) % LINES;
}

impl Snapshots {
    pub(crate) fn new() -> Snapshots {
        Snapshots {
            lines: (0..LINES).map(|_| Line::default()).collect(),
            unslotted: Mutex::default(),
            expired: AtomicU64::new(0),
        }
    }

    /// Takes a snapshot at the watermark. Returns its timestamp (at least 1) and its slot.
    pub(crate) fn take(&self, watermark: &DurabilityWatermark) -> (u64, Slot) {
        self.claim(watermark, || watermark.position())
    }

    /// Takes a snapshot at the timestamp that `ts_now` returns, which must be at or above the watermark at that time.
    #[inline]
    fn claim(&self, watermark: &DurabilityWatermark, ts_now: impl Fn() -> u64) -> (u64, Slot) {
        let tentative = watermark.position() << 1 | 1;
        let home = LINE.try_with(|line| *line).unwrap_or(0);
        for step in 0..LINES {
            let at = (home + step) % LINES;
            let Some(line) = self.lines.get(at) else {
                continue;
            };
            for (n, slot) in line.0.iter().enumerate() {
                if slot.load(Ordering::Relaxed) == 0
                    && slot
                        .compare_exchange(0, tentative, Ordering::SeqCst, Ordering::Relaxed)
                        .is_ok()
                {
                    let ts = ts_now();
                    slot.store(ts << 1, Ordering::SeqCst);
                    return (ts, Slot::Array(at, n));
                }
            }
        }
        let mut unslotted = self.unslotted.lock();
        let ts = ts_now();
        *unslotted.overflow.entry(ts).or_insert(0) += 1;
        (ts, Slot::Overflow(ts))
    }

    /// Ends a snapshot.
    pub(crate) fn end(&self, slot: Slot) {
        match slot {
            Slot::Array(line, n) => {
                if let Some(slot) = self.lines.get(line).and_then(|line| line.0.get(n)) {
                    slot.store(0, Ordering::Release);
                }
            }
            Slot::Overflow(ts) => {
                let overflow = &mut self.unslotted.lock().overflow;
                if let Some(count) = overflow.get_mut(&ts) {
                    *count -= 1;
                    if *count == 0 {
                        overflow.remove(&ts);
                    }
                }
            }
        }
    }

    /// Takes a snapshot that is not expired before [`Snapshots::end_protected`]. There is one at a
    /// time, a checkpoint's. The watermark does not pass `ts` meanwhile, so that `expire_up_to`, which
    /// stays below it, cannot expire the snapshot before it is protected.
    pub(crate) fn take_protected(&self, ts: u64, watermark: &DurabilityWatermark) -> Slot {
        let (ts, slot) = self.claim(watermark, || ts);
        let mut unslotted = self.unslotted.lock();
        assert!(
            !self.is_expired(ts) && watermark.position() <= ts,
            "a checkpoint's snapshot is below the watermark"
        );
        unslotted.protected = Some(ts);
        slot
    }

    /// Ends the protected snapshot.
    pub(crate) fn end_protected(&self, slot: Slot) {
        self.unslotted.lock().protected = None;
        self.end(slot);
    }

    /// Expires all snapshots up to a timestamp below the watermark. Returns false if one of them is
    /// protected.
    pub(crate) fn expire_up_to(&self, upto: u64, watermark: &DurabilityWatermark) -> bool {
        let unslotted = self.unslotted.lock();
        if unslotted.protected.is_some_and(|kept| kept <= upto) || watermark.position() <= upto {
            return false;
        }
        self.expired.fetch_max(upto, Ordering::SeqCst);
        true
    }

    /// Whether a snapshot was expired. Checked after a read: if it was not expired, the read missed
    /// no version.
    #[inline]
    pub(crate) fn is_expired(&self, ts: u64) -> bool {
        ts <= self.expired.load(Ordering::Acquire)
    }

    /// Returns the present horizon.
    pub(crate) fn horizon(&self, watermark: &DurabilityWatermark) -> Horizon {
        // Locked throughout: snapshots without a slot read the watermark under this lock.
        let unslotted = self.unslotted.lock();
        let mut horizon = Horizon {
            watermark: watermark.position(),
            active: unslotted.overflow.keys().copied().collect(),
        };
        for slot in self.lines.iter().flat_map(|line| &line.0) {
            let raw = slot.load(Ordering::SeqCst);
            if raw & 1 == 1 {
                horizon.watermark = horizon.watermark.min(raw >> 1);
            } else if raw != 0 {
                horizon.active.push(raw >> 1);
            }
        }
        horizon.active.retain(|ts| !self.is_expired(*ts));
        horizon.active.sort_unstable();
        horizon.active.dedup();
        horizon
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_horizon_has_every_snapshot_including_those_without_a_slot() {
        let snapshots = Snapshots::new();
        let watermark = DurabilityWatermark::new(1);
        let mut taken = Vec::new();
        for n in 0..(LINES * SLOTS + 5) as u64 {
            watermark.advance(n + 1);
            taken.push(snapshots.take(&watermark));
        }
        let horizon = snapshots.horizon(&watermark);
        assert_eq!(horizon.active.len(), taken.len());
        assert_eq!(horizon.oldest(), 1);
        for (_, slot) in taken {
            snapshots.end(slot);
        }
        let horizon = snapshots.horizon(&watermark);
        assert!(horizon.active.is_empty());
        assert_eq!(horizon.oldest(), horizon.watermark);
    }

    #[test]
    fn the_oldest_snapshots_expire_except_a_protected_one() {
        let snapshots = Snapshots::new();
        let watermark = DurabilityWatermark::new(3);
        let (old, slot) = snapshots.take(&watermark);
        assert!(
            !snapshots.expire_up_to(3, &watermark),
            "the watermark has not passed it"
        );
        watermark.advance(5);
        let kept = 5;
        let kept_slot = snapshots.take_protected(kept, &watermark);
        watermark.advance(7);
        assert!(!snapshots.expire_up_to(6, &watermark) && !snapshots.is_expired(old));
        assert!(snapshots.expire_up_to(4, &watermark) && snapshots.is_expired(old));
        assert!(!snapshots.is_expired(kept));
        assert_eq!(snapshots.horizon(&watermark).active, [5]);
        snapshots.end_protected(kept_slot);
        assert!(snapshots.expire_up_to(6, &watermark));
        snapshots.end(slot);
        let (young, slot) = snapshots.take(&watermark);
        assert!(!snapshots.is_expired(young));
        assert_eq!(snapshots.horizon(&watermark).active, [7]);
        snapshots.end(slot);
    }
}
