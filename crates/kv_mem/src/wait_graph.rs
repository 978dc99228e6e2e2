//! Who waits for whom: the search after circles, and what is told of them.
//!
//! The graph has a node for each transaction that sleeps for a lock, and no
//! edges: whom it waits for is read off the record's queue when somebody asks.
//!
//! Invariants:
//! 1. A circle of waits contains a transaction that began to wait last; it
//!    searches after it joined its queue, under the graph's mutex, and finds
//!    the circle. It is the victim.
//! 2. Latch order: graph, then record. Listeners are called with neither, by
//!    the victim before it lets go of anything: the others of the circle still
//!    wait then, so that a listener can see what they are doing.
//!
//! Rejected: edges kept all the time (the fast path would pay for it).

use crate::lock::TxnId;
use crate::record::RecordRef;
use porpoise_base::sync::{Mutex, RwLock};
use porpoise_kv::{DeadlockListener, LockMode, LockWait, SpaceId};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// What a transaction waits for.
pub(crate) struct Waiting {
    pub(crate) space: SpaceId,
    pub(crate) record: RecordRef,
    pub(crate) mode: LockMode,
    pub(crate) since: Instant,
}

impl Waiting {
    fn told(&self, txn: TxnId, blocker: TxnId) -> LockWait {
        LockWait {
            txn,
            blocker,
            space: self.space,
            key: self.record.key().to_vec(),
            mode: self.mode,
            since: self.since,
        }
    }
}

/// Who waits where.
#[derive(Default)]
pub(crate) struct WaitGraph {
    waiting: Mutex<HashMap<TxnId, Waiting>>,
    listeners: RwLock<Vec<Arc<dyn DeadlockListener>>>,
}

impl WaitGraph {
    /// Notes that `txn` waits, and tells whether that closes a circle. To be
    /// called after it joined the record's queue.
    pub(crate) fn begin_wait(&self, txn: TxnId, wait: Waiting) -> bool {
        let circle = {
            let mut waiting = self.waiting.lock();
            waiting.insert(txn, wait);
            circle(&waiting, txn)
        };
        if let Some(circle) = &circle {
            for listener in self.listeners.read().iter() {
                listener.deadlock(circle);
            }
        }
        circle.is_some()
    }

    /// The wait is over.
    pub(crate) fn end_wait(&self, txn: TxnId) {
        self.waiting.lock().remove(&txn);
    }

    /// Who waits for whom now; a wait for several is told for each of them.
    pub(crate) fn waits(&self) -> Vec<LockWait> {
        let waiting = self.waiting.lock();
        let mut told = Vec::new();
        let mut blockers = Vec::new();
        for (txn, wait) in waiting.iter() {
            wait.record.latch().lock.blockers(*txn, &mut blockers);
            told.extend(blockers.drain(..).map(|blocker| wait.told(*txn, blocker)));
        }
        told
    }

    /// Registers who wants to hear of deadlocks.
    pub(crate) fn listen(&self, listener: Arc<dyn DeadlockListener>) {
        self.listeners.write().push(listener);
    }
}

/// The circle that goes through a transaction, which comes first.
fn circle(waiting: &HashMap<TxnId, Waiting>, txn: TxnId) -> Option<Vec<LockWait>> {
    // Who was reached, and who waits for them.
    let mut before: HashMap<TxnId, TxnId> = HashMap::new();
    let mut open = vec![txn];
    let mut blockers = Vec::new();
    while let Some(one) = open.pop() {
        let Some(at) = waiting.get(&one) else {
            continue;
        };
        blockers.clear();
        at.record.latch().lock.blockers(one, &mut blockers);
        for blocker in blockers.drain(..) {
            if blocker == txn {
                return Some(told(waiting, &before, txn, one));
            }
            if let std::collections::hash_map::Entry::Vacant(free) = before.entry(blocker) {
                free.insert(one);
                open.push(blocker);
            }
        }
    }
    None
}

/// The waits from `txn` to `last`, who waits for `txn`.
fn told(
    waiting: &HashMap<TxnId, Waiting>,
    before: &HashMap<TxnId, TxnId>,
    txn: TxnId,
    last: TxnId,
) -> Vec<LockWait> {
    let mut circle = Vec::new();
    let (mut one, mut blocker) = (last, txn);
    loop {
        if let Some(wait) = waiting.get(&one) {
            circle.push(wait.told(one, blocker));
        }
        match before.get(&one) {
            Some(earlier) if one != txn => (one, blocker) = (*earlier, one),
            _ => break,
        }
    }
    circle.reverse();
    circle
}
