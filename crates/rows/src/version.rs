//! Allocator of row versions: ids of writing transactions, and memcached's CAS values.
//!
//! Ids come from one engine counter for all tables. They are reserved in ranges and handed
//! out from memory. The ranges are spread over a few slots, so that transactions on
//! different threads do not contend.
//!
//! Invariants:
//! 1. A version is handed out at most once in a cluster, also across crashes: the engine's
//!    counters guarantee it. Ids that were reserved and not used are lost.
//! 2. A version is never 0 and below 2^53, because clients keep CAS values in
//!    doubles. At a million versions a second and a restart a minute, the range lasts for
//!    centuries. When it is exhausted, writes are refused; the counter does not wrap.

use crate::{Error, Result};
use parking_lot::Mutex;
use porpoise_kv::{self as kv, CounterId, Engine};
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The counter of row versions.
pub const ROW_VERSIONS: CounterId = CounterId(1);
/// The counter of the ids of overflow values ([`crate::row::overflow`]).
pub const OVERFLOW_IDS: CounterId = CounterId(3);
/// Exclusive upper bound of versions.
const END: u64 = 1 << 53;
/// Number of ids reserved in the engine at a time.
const RESERVE: u64 = 1 << 18;
/// Number of ids moved from the pool to a slot at a time.
const REFILL: u64 = 256;
const SLOTS: usize = 16;

#[derive(Default)]
#[repr(align(64))]
struct Slot(Mutex<Range<u64>>);

/// Allocator of row versions, or of the ids of another counter.
pub(crate) struct IdAllocator {
    counter: CounterId,
    pool: Mutex<Range<u64>>,
    /// Ids below this are no longer allocated: another server may have allocated them.
    floor: AtomicU64,
    slots: [Slot; SLOTS],
}

thread_local! {
    static SLOT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The slot of the current thread.
fn slot_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    SLOT.with(|s| {
        s.get().unwrap_or_else(|| {
            let n = NEXT.fetch_add(1, Ordering::Relaxed) % SLOTS;
            s.set(Some(n));
            n
        })
    })
}

impl IdAllocator {
    pub(crate) fn new(counter: CounterId) -> IdAllocator {
        IdAllocator {
            counter,
            pool: Mutex::new(0..0),
            floor: AtomicU64::new(0),
            slots: Default::default(),
        }
    }

    /// The next version.
    ///
    /// # Errors
    /// The engine's error if it cannot reserve a range; [`kv::Resource::Ids`] past the bound.
    pub(crate) fn next(&self, engine: &dyn Engine) -> Result<u64> {
        let Some(slot) = self.slots.get(slot_number()) else {
            return self.refill(engine, 1).map(|r| r.start);
        };
        let mut range = slot.0.lock();
        if range.is_empty() {
            *range = self.refill(engine, REFILL)?;
        }
        let version = range.start;
        range.start += 1;
        Ok(version)
    }

    /// Ensures that all ids allocated from now on are greater than `id`, which another server has allocated.
    ///
    /// # Errors
    /// The engine's error if it cannot reserve a range; [`kv::Resource::Ids`] past the bound.
    pub(crate) fn raise(&self, engine: &dyn Engine, id: u64) -> Result<()> {
        if id < self.floor.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut pool = self.pool.lock();
        if id < self.floor.load(Ordering::Acquire) {
            return Ok(());
        }
        if id >= END {
            return Err(Error::Kv(kv::Error::Full(kv::Resource::Ids)));
        }
        // A whole range is skipped, so that this happens once per range of the other server's versions.
        let skipped = engine.reserve_ids(self.counter, RESERVE, id + 1)?;
        self.floor.store(skipped.end, Ordering::Release);
        *pool = 0..0;
        drop(pool);
        for slot in &self.slots {
            *slot.0.lock() = 0..0;
        }
        Ok(())
    }

    fn refill(&self, engine: &dyn Engine, size: u64) -> Result<Range<u64>> {
        let mut pool = self.pool.lock();
        if pool.end - pool.start < size {
            let fresh = engine.reserve_ids(self.counter, RESERVE, 1)?;
            if fresh.end > END {
                return Err(Error::Kv(kv::Error::Full(kv::Resource::Ids)));
            }
            *pool = fresh;
        }
        let start = pool.start;
        pool.start += size;
        Ok(start..start + size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use porpoise_kv::model::Model;
    use std::collections::HashSet;

    #[test]
    fn own_versions_are_greater_than_those_of_another_server() {
        let model = Model::new();
        let versions = IdAllocator::new(ROW_VERSIONS);
        let first = versions.next(&model).unwrap();
        for other in [first + 1, first + 2, first + RESERVE, 1 << 40] {
            versions.raise(&model, other).unwrap();
            assert!(versions.next(&model).unwrap() > other);
        }
        assert!(versions.raise(&model, END).is_err());
    }

    #[test]
    fn versions_of_many_threads_and_of_a_second_start_are_distinct_and_not_zero() {
        let model = Model::new();
        let mut all = HashSet::new();
        for _ in 0..2 {
            let versions = IdAllocator::new(ROW_VERSIONS);
            let got: Vec<u64> = std::thread::scope(|s| {
                let threads: Vec<_> = (0..4)
                    .map(|_| s.spawn(|| (0..700).map(|_| versions.next(&model).unwrap()).collect()))
                    .collect();
                threads
                    .into_iter()
                    .flat_map(|t: std::thread::ScopedJoinHandle<'_, Vec<u64>>| t.join().unwrap())
                    .collect()
            });
            for v in got {
                assert!(v > 0 && v < END);
                assert!(all.insert(v), "{v} came twice");
            }
        }
    }
}
