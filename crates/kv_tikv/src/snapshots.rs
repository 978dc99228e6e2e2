//! The timestamps at which this server reads, so that their versions are not collected.
//!
//! A transaction pins the timestamp of its snapshot, and the start timestamp of its locks. The thread of `gc` registers the
//! oldest of them with the placement driver. A snapshot that was registered too late may be incomplete: it is *lost*, and its
//! transaction is refused.
//!
//! Invariant: a pin made at a timestamp not below [`Snapshots::lost_below`] is protected by the next registration; until then
//! by its age, because no version younger than the retention time is collected.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The timestamps in use, each with its number of users.
#[derive(Default)]
pub(crate) struct Snapshots {
    used: Mutex<BTreeMap<u64, usize>>,
    lost_below: AtomicU64,
}

/// A timestamp in use.
pub(crate) struct Pin {
    snapshots: Arc<Snapshots>,
    pub(crate) ts: u64,
}

impl Snapshots {
    /// Registers `ts` as in use until the pin is dropped.
    pub(crate) fn pin(self: &Arc<Self>, ts: u64) -> Pin {
        *self.used.lock().entry(ts).or_default() += 1;
        Pin {
            snapshots: self.clone(),
            ts,
        }
    }

    /// The oldest timestamp in use.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.used.lock().keys().next().copied()
    }

    /// Number of timestamps in use.
    pub(crate) fn len(&self) -> usize {
        self.used.lock().len()
    }

    /// Records that versions which are visible only at timestamps below `ts` may have been collected.
    pub(crate) fn lose_below(&self, ts: u64) {
        self.lost_below.fetch_max(ts, Ordering::AcqRel);
    }

    /// Whether versions visible at `ts` may have been collected.
    pub(crate) fn is_lost(&self, ts: u64) -> bool {
        ts < self.lost_below.load(Ordering::Acquire)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut used = self.snapshots.used.lock();
        if let Some(n) = used.get_mut(&self.ts) {
            *n -= 1;
            if *n == 0 {
                used.remove(&self.ts);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_that_of_the_pins_that_live() {
        let all = Arc::new(Snapshots::default());
        let (one, two, again) = (all.pin(5), all.pin(3), all.pin(3));
        assert_eq!((all.oldest(), all.len()), (Some(3), 2));
        drop(two);
        assert_eq!(all.oldest(), Some(3));
        drop(again);
        assert_eq!(all.oldest(), Some(5));
        drop(one);
        assert_eq!(all.oldest(), None);
    }

    #[test]
    fn what_is_lost_stays_lost() {
        let all = Snapshots::default();
        all.lose_below(7);
        all.lose_below(5);
        assert!(all.is_lost(6) && !all.is_lost(7));
    }
}
