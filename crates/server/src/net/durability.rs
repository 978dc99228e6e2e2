//! How far the log is durable, and waking the groups that wait for it.
//!
//! The log's thread publishes a mark; a group that holds replies back and has
//! gone to sleep is woken when the mark passes the lowest ticket it holds.
//!
//! Invariants:
//! 1. A group stores the lowest ticket it holds and that it sleeps, then
//!    reads the mark; the log's thread stores the mark, then reads both (all
//!    sequentially consistent). One of the two sees the other: no reply is
//!    forgotten.
//! 2. At most one wake per group and mark, and none for a group that is awake
//!    (it looks at the mark before it sleeps) or holds nothing that has become
//!    durable.
//! 3. After `failed` the mark never moves again.
//! 4. The engine's own mark counts beside what was told: an engine tells of a
//!    commit only where its mark had not passed it when the commit returned.

use super::group::Group;
use parking_lot::{Condvar, Mutex};
use porpoise_base::cancel::Cancel;
use porpoise_kv::{DurableListener, Engine, Ticket};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The durable mark as the net layer knows it.
#[derive(Default)]
pub struct DurabilityWatermark {
    mark: AtomicU64,
    engine: Option<Arc<dyn Engine>>,
    failed: AtomicBool,
    groups: OnceLock<Vec<Arc<Group>>>,
    parked: AtomicUsize,
    lock: Mutex<()>,
    moved: Condvar,
}

impl DurabilityWatermark {
    /// Starts at `mark`.
    pub fn new(mark: Ticket) -> Arc<DurabilityWatermark> {
        let durability = DurabilityWatermark::default();
        durability.mark.store(mark.0, Ordering::SeqCst);
        Arc::new(durability)
    }

    /// The durability of an engine, which tells them of its progress from now on.
    pub fn of(engine: Arc<dyn Engine>) -> Arc<DurabilityWatermark> {
        let durability = Arc::new(DurabilityWatermark {
            mark: AtomicU64::new(engine.durable_mark().0),
            engine: Some(engine.clone()),
            ..DurabilityWatermark::default()
        });
        engine.subscribe(durability.clone());
        durability
    }

    /// Everything up to here may be told.
    pub fn durable_mark(&self) -> Ticket {
        let told = Ticket(self.mark.load(Ordering::SeqCst));
        match &self.engine {
            Some(engine) => told.max(engine.durable_mark()),
            None => told,
        }
    }

    /// Whether the mark has stopped for good.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }

    pub(super) fn connect(&self, groups: Vec<Arc<Group>>) {
        let _ = self.groups.set(groups);
    }

    /// Waits for `ticket`; false if it never comes or the wait was cancelled.
    /// For the one caller that cannot hold its reply back: a result that is
    /// larger than the output buffer.
    pub(super) fn wait(&self, ticket: Ticket, cancel: &Cancel) -> bool {
        self.parked.fetch_add(1, Ordering::SeqCst);
        let mut guard = self.lock.lock();
        let reached = loop {
            if self.durable_mark() >= ticket {
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
    fn durable(&self, mark: Ticket) {
        self.mark.fetch_max(mark.0, Ordering::SeqCst);
        for group in self.groups.get().into_iter().flatten() {
            group.reached(mark.0);
        }
        self.notify_parked();
    }

    fn failed(&self, error: &porpoise_kv::Error) {
        self.failed.store(true, Ordering::SeqCst);
        tracing::error!("the log has failed, held replies have an unknown outcome: {error}");
        for group in self.groups.get().into_iter().flatten() {
            group.rouse_if_holding();
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
    fn a_commit_that_is_durable_when_it_returns_needs_no_telling() {
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
        let ticket = txn.commit().unwrap().ticket;
        assert!(ticket > Ticket(0));
        assert!(durability.durable_mark() >= ticket);
    }
}
