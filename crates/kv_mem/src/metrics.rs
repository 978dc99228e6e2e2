//! Counters of events. Each component owns the counters of its own events; [`crate::stats`] reads
//! them.

use porpoise_base::sync::atomic::{AtomicU64, Ordering};
use porpoise_kv::Error;

/// An event counter that many threads increment.
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

/// Events of transactions.
#[derive(Default)]
pub(crate) struct TxnMetrics {
    pub(crate) commits: Count,
    pub(crate) conflicts: Count,
    pub(crate) deadlocks: Count,
    pub(crate) lock_waits: Count,
    pub(crate) lock_timeouts: Count,
    pub(crate) snapshots_advanced: Count,
}

impl TxnMetrics {
    /// Increments the counter for the reason why a transaction failed.
    pub(crate) fn count_refusal(&self, error: &Error) {
        match error {
            Error::Conflict => self.conflicts.add(1),
            Error::Deadlock => self.deadlocks.add(1),
            Error::LockTimeout => self.lock_timeouts.add(1),
            _ => {}
        }
    }
}
