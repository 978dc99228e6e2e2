//! The durability watermark: the position up to which the log is durable, and the
//! wake-up of worker groups whose deferred replies it has passed.
//!
//! The log's thread publishes the watermark. A group that sleeps with deferred
//! replies is woken when the watermark passes the lowest position they wait for.
//!
//! Invariants:
//! 1. No lost wake-up: a group stores the lowest position it waits for and that it
//!    sleeps, then reads the watermark; the log's thread stores the watermark, then
//!    reads both. All four are SeqCst, so one sees the other.
//! 2. At most one wake per group and watermark, and none for a group that is awake
//!    (it reads the watermark before it sleeps) or waits for a later position.
//! 3. After `failed` the watermark never moves again.
//! 4. The engine's own position counts beside the published one: an engine
//!    publishes a commit only if it was not durable when the commit returned.

use super::group::Group;
use parking_lot::{Condvar, Mutex};
use porpoise_base::cancel::Cancel;
use porpoise_kv::{CommitPosition, DurableListener, Engine};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The durability watermark as the network knows it.
#[derive(Default)]
pub struct DurabilityWatermark {
    /// The last position that was published.
    position: AtomicU64,
    /// `None` in tests.
    engine: Option<Arc<dyn Engine>>,
    failed: AtomicBool,
    groups: OnceLock<Vec<Arc<Group>>>,
    /// Number of threads in [`Self::wait`].
    parked: AtomicUsize,
    lock: Mutex<()>,
    /// Notified when the watermark moves or the log fails.
    moved: Condvar,
}

impl DurabilityWatermark {
    /// Creates a watermark at `position`.
    pub fn new(position: CommitPosition) -> Arc<DurabilityWatermark> {
        let durability = DurabilityWatermark::default();
        durability.position.store(position.0, Ordering::SeqCst);
        Arc::new(durability)
    }

    /// Creates the watermark of an engine, which publishes its progress to it.
    pub fn of(engine: Arc<dyn Engine>) -> Arc<DurabilityWatermark> {
        let durability = Arc::new(DurabilityWatermark {
            position: AtomicU64::new(engine.durable_position().0),
            engine: Some(engine.clone()),
            ..DurabilityWatermark::default()
        });
        engine.subscribe(durability.clone());
        durability
    }

    /// Returns the position of the last commit that replies may reveal.
    pub fn durable_position(&self) -> CommitPosition {
        let published = CommitPosition(self.position.load(Ordering::SeqCst));
        match &self.engine {
            Some(engine) => published.max(engine.durable_position()),
            None => published,
        }
    }

    /// Whether the watermark has stopped because the log failed.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }

    /// Sets the groups to wake when the watermark moves.
    pub(super) fn connect(&self, groups: Vec<Arc<Group>>) {
        let _ = self.groups.set(groups);
    }

    /// Waits for `position`. Returns false if the log failed or the wait was cancelled. Only for a
    /// result larger than the output buffer, which cannot be deferred.
    pub(super) fn wait(&self, position: CommitPosition, cancel: &Cancel) -> bool {
        self.parked.fetch_add(1, Ordering::SeqCst);
        let mut guard = self.lock.lock();
        let reached = loop {
            if self.durable_position() >= position {
                break true;
            }
            if self.has_failed() || cancel.reason().is_some_and(|r| r.ends_session()) {
                break false;
            }
            self.moved.wait_for(&mut guard, Duration::from_millis(50));
        };
        drop(guard);
        self.parked.fetch_sub(1, Ordering::SeqCst);
        reached
    }

    fn notify_parked(&self) {
        if self.parked.load(Ordering::SeqCst) > 0 {
            drop(self.lock.lock());
            self.moved.notify_all();
        }
    }
}

impl DurableListener for DurabilityWatermark {
    fn durable(&self, position: CommitPosition) {
        self.position.fetch_max(position.0, Ordering::SeqCst);
        for group in self.groups.get().into_iter().flatten() {
            group.wake_for(position.0);
        }
        self.notify_parked();
    }

    fn failed(&self, error: &porpoise_kv::Error) {
        self.failed.store(true, Ordering::SeqCst);
        tracing::error!(
            "a write or sync of the log has failed: commits that wait for it have an unknown outcome: {error}"
        );
        for group in self.groups.get().into_iter().flatten() {
            group.wake_if_deferring();
        }
        self.notify_parked();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use porpoise_kv::{Check, Durability, Key, SpaceSpec, TxnOptions};
    use porpoise_kv_mem::{KvMem, KvMemOptions};

    #[test]
    fn a_commit_that_is_durable_when_it_returns_needs_no_notification() {
        let engine = KvMem::open(KvMemOptions {
            durability: Durability::Memory,
            ..KvMemOptions::default()
        })
        .unwrap();
        let engine: Arc<dyn Engine> = engine;
        let durability = DurabilityWatermark::of(engine.clone());
        let spaces = engine.create_spaces(&[SpaceSpec::default()]).unwrap();
        let mut txn = engine.begin(TxnOptions::default()).unwrap();
        let key = Key {
            space: spaces[0],
            bytes: b"key",
        };
        txn.put(key, b"value", Check::Blind).unwrap();
        let position = txn.commit().unwrap().position;
        assert!(position > CommitPosition(0));
        assert!(durability.durable_position() >= position);
    }
}
