//! Taking and releasing row locks for a transaction.

use super::{HeldLock, MemTxn, next_txn_id};
use crate::deadlock::{Waiting, WantedLock};
use crate::lock::{Request, TxnId, WaitOutcome, Waiter};
use crate::record::{FirstLock, RecordRef};
use crate::validate::{Tracked, Tracking};
use porpoise_kv::{Error, Key, LockMode, Result, SpaceId, StatementMark, Wait};
use std::sync::Arc;
use std::time::Instant;

impl MemTxn {
    pub(crate) fn release_all(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let store = &self.state.store;
        let guard = crossbeam_epoch::pin();
        for held in self.held.drain() {
            if !held.record.latch_packed().release_single(self.id) {
                held.record.latch().lock.release(self.id);
            }
            store.unlink_if_unused(held.space, &held.record, &guard);
        }
    }

    pub(super) fn add_held(&mut self, space: SpaceId, record: RecordRef) {
        self.held.push(HeldLock {
            space,
            record,
            since: self.writes.len() as u64,
        });
    }

    /// The number of the transaction, as its locks show it.
    #[inline]
    pub(super) fn lock_owner(&mut self) -> TxnId {
        if self.id == 0 {
            self.id = next_txn_id();
            self.options.cancel.set_txn(self.id);
        }
        self.id
    }

    /// Locks a record that has no lock and is not dead; returns false if it is otherwise. The caller adds it to the
    /// locks held.
    #[inline]
    pub(super) fn lock_free_record(&mut self, record: &RecordRef, mode: LockMode) -> bool {
        let lock = FirstLock::new(self.lock_owner(), mode);
        lock.is_some_and(|lock| record.latch_packed().grant_free(lock))
    }

    /// Locks one key. Returns `None` if it was skipped.
    pub(crate) fn lock_key(
        &mut self,
        space: SpaceId,
        key: &[u8],
        mode: LockMode,
        wait: Wait,
    ) -> Result<Option<RecordRef>> {
        let lock = FirstLock::new(self.lock_owner(), mode);
        let found = self.state.store.spaces.get(space)?;
        let guard = crossbeam_epoch::pin();
        let store = &self.state.store;
        let (record, created) = store.get_or_create_locked(found, key, lock, &guard);
        drop(guard);
        if created && lock.is_some() || self.lock_free_record(&record, mode) {
            self.add_held(space, record.clone());
            return Ok(Some(record));
        }
        self.lock_record(space, record, mode, wait)
    }

    /// Locks the key of a record, which may have left the index. Returns `None` if it was skipped.
    pub(super) fn lock_record(
        &mut self,
        space: SpaceId,
        mut record: RecordRef,
        mode: LockMode,
        wait: Wait,
    ) -> Result<Option<RecordRef>> {
        let txn = self.lock_owner();
        loop {
            let mut latch = record.latch();
            let mut spun = !matches!(wait, Wait::Until(_));
            let request = loop {
                if latch.dead {
                    break None;
                }
                match latch.lock.request(txn, mode) {
                    Request::Blocked if !spun && latch.lock.has_single_holder() => {
                        drop(latch);
                        record.spin_while_held();
                        spun = true;
                        latch = record.latch();
                    }
                    request => break Some(request),
                }
            };
            match request {
                None => {
                    drop(latch);
                    // Looked up here, so that callers need not clone the Arc of the engine's state,
                    // whose count is a cache line that all threads share.
                    let found = self.state.store.spaces.get(space)?;
                    self.state.store.unlink(found, &record);
                    record = self.state.store.get_or_create(found, record.key());
                }
                Some(Request::Granted(fresh)) => {
                    drop(latch);
                    if fresh {
                        self.add_held(space, record.clone());
                    }
                    return Ok(Some(record));
                }
                Some(Request::Blocked) => {
                    let deadline = match wait {
                        Wait::Skip => return Ok(None),
                        Wait::NoWait => return Err(Error::LockBusy),
                        Wait::Until(deadline) => deadline,
                    };
                    let fresh = latch.lock.held_mode(self.id).is_none();
                    let waiter = latch.lock.enqueue(self.id, mode);
                    drop(latch);
                    let lock = WantedLock {
                        space,
                        record: &record,
                        mode,
                    };
                    self.wait_in_queue(lock, fresh, &waiter, deadline)?;
                    return Ok(Some(record));
                }
            }
        }
    }

    /// Waits in the queue of a lock. `fresh`: the transaction had no lock on the record before.
    fn wait_in_queue(
        &mut self,
        lock: WantedLock<'_>,
        fresh: bool,
        waiter: &Arc<Waiter>,
        deadline: Instant,
    ) -> Result<()> {
        self.state.metrics.lock_waits.add(1);
        let WantedLock { space, record, .. } = lock;
        let failed = self.wait_for(lock, waiter, deadline);
        let left = failed.is_some() && record.latch().lock.leave_queue(waiter);
        if !left && fresh {
            self.add_held(space, record.clone());
        }
        match failed {
            Some(error) if left || matches!(error, Error::Cancelled(_)) => {
                self.state.metrics.count_refusal(&error);
                if error.ends_transaction() {
                    self.end();
                }
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// Waits for a lock whose queue was joined. Returns the error if it was not granted.
    fn wait_for(
        &self,
        lock: WantedLock<'_>,
        waiter: &Arc<Waiter>,
        deadline: Instant,
    ) -> Option<Error> {
        if waiter.spin() {
            return None;
        }
        let graph = &self.state.deadlocks;
        let weight = self.writes.len() + self.held.len();
        let since = self.state.clock.now();
        let wait = Waiting::new(lock, waiter, since, weight);
        graph.begin_wait(self.id, wait);
        let failed = loop {
            match waiter.wait(deadline, &self.options.cancel) {
                WaitOutcome::Granted => break None,
                WaitOutcome::Called => {
                    if lock.record.latch().lock.claim(waiter) || waiter.spin() {
                        break None;
                    }
                }
                WaitOutcome::Victim => break Some(Error::Deadlock),
                WaitOutcome::TimedOut => break Some(Error::LockTimeout),
                WaitOutcome::Cancelled(reason) => break Some(Error::Cancelled(reason)),
            }
        };
        // A victim rolls back even if its deadline passed, or KILL came, meanwhile.
        if graph.end_wait(self.id) {
            return Some(Error::Deadlock);
        }
        failed
    }

    /// Undoes one lock call on a key, and releases the lock with the last one.
    pub(super) fn unlock_key(&mut self, key: Key<'_>, since: StatementMark) {
        if self.writes.contains(key) {
            return;
        }
        let is_held = |h: &HeldLock| h.space == key.space && h.record.key() == key.bytes;
        let mut newest_first = (0..self.held.len()).rev();
        let found =
            newest_first.find_map(|at| Some((at, self.held.get(at).filter(|h| is_held(h))?)));
        let Some((at, held)) = found else {
            return;
        };
        if held.since >= since.0
            && held.record.latch().lock.release_one(self.id)
            && let Some(held) = self.held.swap_remove(at)
        {
            // Other transactions may change the key from now on.
            if self.reads.is_tracking()
                && let Some(snapshot) = self.snapshot_ts()
            {
                let tracking = Tracking {
                    since: snapshot,
                    validate: false,
                };
                self.reads.push(Tracked::key(key, tracking));
            }
            let guard = crossbeam_epoch::pin();
            let store = &self.state.store;
            store.unlink_if_unused(held.space, &held.record, &guard);
        }
    }
}
