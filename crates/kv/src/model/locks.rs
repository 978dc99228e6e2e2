//! The model's lock table: holders and a queue for each key.
//!
//! Invariants:
//! 1. Holders are pairwise compatible.
//! 2. An upgrade waits ahead of every transaction that holds nothing yet.
//! 3. A request is granted when it is compatible with every other holder and
//!    with every request ahead of it.

use super::FullKey;
use crate::LockMode;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
struct Lock {
    holders: Vec<(u64, LockMode)>,
    queue: Vec<(u64, LockMode)>,
}

impl Lock {
    fn held(&self, txn: u64) -> Option<LockMode> {
        self.holders
            .iter()
            .find(|(t, _)| *t == txn)
            .map(|(_, m)| *m)
    }

    /// Transactions that block a request of `txn`: other holders, and waiters ahead of it.
    fn blockers(&self, txn: u64, mode: LockMode) -> Vec<u64> {
        let holders = self.holders.iter().filter(|(t, _)| *t != txn);
        let upgrade = self.held(txn).is_some();
        let ahead = self
            .queue
            .iter()
            .take_while(|(t, _)| *t != txn)
            .filter(|(t, _)| !upgrade || self.held(*t).is_some());
        holders
            .chain(ahead)
            .filter(|(_, m)| !m.compatible(mode))
            .map(|(t, _)| *t)
            .collect()
    }
}

/// All locks.
#[derive(Default)]
pub(super) struct Locks {
    table: BTreeMap<FullKey, Lock>,
    waiting: BTreeMap<u64, FullKey>,
}

impl Locks {
    /// Whether `txn` holds `mode` on `key`, or a mode that includes it.
    pub(super) fn is_covered(&self, txn: u64, key: &FullKey, mode: LockMode) -> bool {
        self.table
            .get(key)
            .and_then(|lock| lock.held(txn))
            .is_some_and(|held| held.covers(mode))
    }

    /// Grants the request if it is compatible with holders and queue. Returns whether it did.
    pub(super) fn try_grant(&mut self, txn: u64, key: &FullKey, mode: LockMode) -> bool {
        let lock = self.table.entry(key.clone()).or_default();
        let mode = match lock.held(txn) {
            Some(held) if held.covers(mode) => return true,
            Some(held) if !mode.covers(held) => LockMode::Exclusive,
            _ => mode,
        };
        if !lock.blockers(txn, mode).is_empty() {
            return false;
        }
        lock.holders.retain(|(t, _)| *t != txn);
        lock.holders.push((txn, mode));
        self.leave_queue(txn, key);
        true
    }

    /// Joins the queue of `key`.
    pub(super) fn join_queue(&mut self, txn: u64, key: &FullKey, mode: LockMode) {
        let lock = self.table.entry(key.clone()).or_default();
        match lock.held(txn) {
            None => lock.queue.push((txn, mode)),
            Some(held) => {
                let mode = if mode.covers(held) {
                    mode
                } else {
                    LockMode::Exclusive
                };
                let upgrades = lock
                    .queue
                    .iter()
                    .take_while(|(t, _)| lock.held(*t).is_some());
                let place = upgrades.count();
                lock.queue.insert(place, (txn, mode));
            }
        }
        self.waiting.insert(txn, key.clone());
    }

    /// Leaves the queue of `key`.
    pub(super) fn leave_queue(&mut self, txn: u64, key: &FullKey) {
        self.waiting.remove(&txn);
        if let Some(lock) = self.table.get_mut(key) {
            lock.queue.retain(|(t, _)| *t != txn);
            if lock.queue.is_empty() && lock.holders.is_empty() {
                self.table.remove(key);
            }
        }
    }

    /// Releases all locks of `txn`.
    pub(super) fn release(&mut self, txn: u64) {
        for lock in self.table.values_mut() {
            lock.holders.retain(|(t, _)| *t != txn);
        }
        self.table
            .retain(|_, lock| !lock.queue.is_empty() || !lock.holders.is_empty());
    }

    /// The locks that `txn` holds.
    pub(super) fn held_by(&self, txn: u64) -> Vec<(FullKey, LockMode)> {
        let held = self.table.iter();
        held.filter_map(|(key, lock)| Some((key.clone(), lock.held(txn)?)))
            .collect()
    }

    /// Whether a cycle of waits leads from `txn` back to it.
    pub(super) fn deadlocked(&self, txn: u64) -> bool {
        let mut seen = BTreeSet::new();
        let mut open = vec![txn];
        while let Some(one) = open.pop() {
            let Some(lock) = self.waiting.get(&one).and_then(|key| self.table.get(key)) else {
                continue;
            };
            let Some((_, mode)) = lock.queue.iter().find(|(t, _)| *t == one) else {
                continue;
            };
            for blocker in lock.blockers(one, *mode) {
                if blocker == txn {
                    return true;
                }
                if seen.insert(blocker) {
                    open.push(blocker);
                }
            }
        }
        false
    }
}
