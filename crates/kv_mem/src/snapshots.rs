//! The active snapshots, for whoever prunes versions.
//!
//! A transaction that takes a view claims a slot in an array spread over many
//! cache lines and writes the view's timestamp there; ending is one store.
//! No mutex is taken, save when all slots are in use.
//!
//! Invariants:
//! 1. A slot is claimed as *tentative* with a mark read before, and becomes
//!    final with a mark read after. A reclaimer reads the mark first and the
//!    slots then. So it either meets the claim (and prunes nothing above a
//!    tentative one), or the view is at or above the mark that it read.
//! 2. What [`Horizon`] names is safe for ever: snapshots only end, and new ones
//!    begin at or above `mark`.
//! 3. At the memory limit the oldest snapshots are ended from outside, always
//!    all up to one. Their owners ask after each read whether theirs is among
//!    them: versions are pruned only after `ended` was raised, so whoever met
//!    a chain or an index without them finds it raised, too. A checkpoint's
//!    snapshot is never ended so.
//!
//! Rejected: one mutex around a list (every transaction would take it twice);
//! a low-water mark alone (a dump of five minutes would keep gigabytes, rule 27); a
//! mark in the slot of the snapshot that is to end (its owner would have to ask
//! a line that others write, and those of the overflow have none).

use crate::durability::DurabilityWatermark;
use porpoise_base::sync::Mutex;
use porpoise_base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::collections::BTreeMap;

const LINES: usize = 128;
const SLOTS: usize = 8;

#[repr(align(64))]
#[derive(Default)]
struct Line([AtomicU64; SLOTS]);

/// A taken slot; goes back through [`Snapshots::end`].
#[derive(Debug)]
pub(crate) enum Slot {
    Array(usize, usize),
    Overflow(u64),
}

/// What a reclaimer may rely on.
pub(crate) struct Horizon {
    /// Every snapshot begun from now on is at or above this.
    pub(crate) mark: u64,
    /// The active snapshots, ascending.
    pub(crate) active: Vec<u64>,
}

impl Horizon {
    /// No snapshot, present or future, is below this.
    pub(crate) fn oldest(&self) -> u64 {
        self.active
            .first()
            .map_or(self.mark, |s| (*s).min(self.mark))
    }
}

pub(crate) struct Snapshots {
    lines: Box<[Line]>,
    others: Mutex<Others>,
    /// Snapshots up to here were ended from outside; changes with `others`
    /// locked.
    ended: AtomicU64,
}

/// What is not in the lines.
#[derive(Default)]
struct Others {
    /// Snapshots beyond the slots, with how many there are of each.
    overflow: BTreeMap<u64, usize>,
    /// The snapshot that nobody may end from outside.
    kept: Option<u64>,
}

static NEXT_LINE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static LINE: usize = NEXT_LINE.fetch_add(1, Ordering::Relaxed) % LINES;
}

impl Snapshots {
    pub(crate) fn new() -> Snapshots {
        Snapshots {
            lines: (0..LINES).map(|_| Line::default()).collect(),
            others: Mutex::default(),
            ended: AtomicU64::new(0),
        }
    }

    /// Takes a snapshot at the mark: its timestamp (at least 1), and the slot.
    pub(crate) fn take(&self, watermark: &DurabilityWatermark) -> (u64, Slot) {
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
                    let ts = watermark.position();
                    slot.store(ts << 1, Ordering::SeqCst);
                    return (ts, Slot::Array(at, n));
                }
            }
        }
        let mut others = self.others.lock();
        let ts = watermark.position();
        *others.overflow.entry(ts).or_insert(0) += 1;
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
                let overflow = &mut self.others.lock().overflow;
                if let Some(count) = overflow.get_mut(&ts) {
                    *count -= 1;
                    if *count == 0 {
                        overflow.remove(&ts);
                    }
                }
            }
        }
    }

    /// Takes a snapshot that is not ended from outside, until it is let go by
    /// [`Snapshots::end_kept`]. There is one at a time, a checkpoint's.
    pub(crate) fn take_kept(&self, watermark: &DurabilityWatermark) -> (u64, Slot) {
        // Whoever ends snapshots finds this one kept, or was before its mark.
        let (ts, slot) = self.take(watermark);
        let mut others = self.others.lock();
        if !self.is_ended(ts) {
            others.kept = Some(ts);
            return (ts, slot);
        }
        drop(others);
        self.end(slot);
        self.take_kept(watermark)
    }

    /// Ends the one snapshot that was kept.
    pub(crate) fn end_kept(&self, slot: Slot) {
        self.others.lock().kept = None;
        self.end(slot);
    }

    /// Ends all snapshots up to a timestamp below the mark, whoever has them;
    /// false when one of them is kept.
    pub(crate) fn end_from_outside(&self, upto: u64, watermark: &DurabilityWatermark) -> bool {
        let others = self.others.lock();
        if others.kept.is_some_and(|kept| kept <= upto) || watermark.position() <= upto {
            return false;
        }
        self.ended.fetch_max(upto, Ordering::SeqCst);
        true
    }

    /// Whether a snapshot was ended from outside. Asked after a read from it:
    /// if not, what was read was all there.
    #[inline]
    pub(crate) fn is_ended(&self, ts: u64) -> bool {
        ts <= self.ended.load(Ordering::Acquire)
    }

    /// What is needed now.
    pub(crate) fn horizon(&self, watermark: &DurabilityWatermark) -> Horizon {
        // The others are locked throughout: their takers read the mark inside.
        let others = self.others.lock();
        let mut horizon = Horizon {
            mark: watermark.position(),
            active: others.overflow.keys().copied().collect(),
        };
        for slot in self.lines.iter().flat_map(|line| &line.0) {
            let raw = slot.load(Ordering::SeqCst);
            if raw & 1 == 1 {
                horizon.mark = horizon.mark.min(raw >> 1);
            } else if raw != 0 {
                horizon.active.push(raw >> 1);
            }
        }
        horizon.active.retain(|ts| !self.is_ended(*ts));
        horizon.active.sort_unstable();
        horizon.active.dedup();
        horizon
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_snapshot_is_found_also_beyond_the_slots() {
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
        assert_eq!(horizon.oldest(), horizon.mark);
    }

    #[test]
    fn the_oldest_are_ended_from_outside_but_for_the_one_that_is_kept() {
        let snapshots = Snapshots::new();
        let watermark = DurabilityWatermark::new(3);
        let (old, slot) = snapshots.take(&watermark);
        assert!(
            !snapshots.end_from_outside(3, &watermark),
            "the mark is there still"
        );
        watermark.advance(5);
        let (kept, kept_slot) = snapshots.take_kept(&watermark);
        watermark.advance(7);
        assert!(!snapshots.end_from_outside(6, &watermark) && !snapshots.is_ended(old));
        assert!(snapshots.end_from_outside(4, &watermark) && snapshots.is_ended(old));
        assert!(!snapshots.is_ended(kept));
        assert_eq!(snapshots.horizon(&watermark).active, [5]);
        snapshots.end_kept(kept_slot);
        assert!(snapshots.end_from_outside(6, &watermark));
        snapshots.end(slot);
        let (young, slot) = snapshots.take(&watermark);
        assert!(!snapshots.is_ended(young));
        assert_eq!(snapshots.horizon(&watermark).active, [7]);
        snapshots.end(slot);
    }
}
