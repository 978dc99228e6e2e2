//! Row locks: a word in each record, and a queue while transactions wait.
//!
//! An uncontended lock is a change of [`LockCell`] under the record's latch.
//! A blocked request spins briefly if there is a lone holder, joins the record's
//! queue, spins again, searches for a deadlock cycle ([`crate::deadlock`]), and
//! sleeps.
//!
//! A release hands the lock over under the latch. A waiter that spins is granted
//! the lock. A waiter that sleeps is *called*: it wakes up and claims the lock,
//! and until then a newcomer may take it (bounded barging). If the lock were
//! granted to a sleeping waiter directly, the row would be locked and idle during
//! each wake-up; newcomers would block and sleep, too, so that every hand-over of
//! a hot row would cost a sleep and a wake-up (a lock convoy).
//!
//! Invariants:
//! 1. Holders of a record are pairwise compatible.
//! 2. Queues are FIFO, except that an upgrade stands ahead of waiters that hold
//!    nothing. A request is granted when it is compatible with every other
//!    holder and with every waiter ahead of it: a queued exclusive request blocks
//!    later key-share requests (transactions.md, rule 8).
//! 3. A newcomer overtakes a queue only while its head waiter is called and has
//!    not claimed the lock. A waiter is overtaken at most once, and never if it
//!    waited for the victim of a deadlock; then the lock is handed to it directly.
//! 4. Latch order: waits-for graph, then record. No latch is held while sleeping.
//! 5. A waiter that gives up checks under the latch whether it was granted.
//! 6. A waiter becomes the victim of a deadlock under the latch, and only if it
//!    was not granted before. It keeps its place, and blocks the waiters
//!    behind it, until it gives up. It is never granted the lock, and has no
//!    edges in the waits-for graph.
//!
//! Rejected: a sharded lock table beside the index (a second look-up for every
//! key).

mod waiter;

use porpoise_kv::LockMode;
use std::sync::Arc;
pub(crate) use waiter::{WaitOutcome, Waiter};

/// Spins of a blocked request before it joins the queue, and again before it
/// sleeps: a hot row is released after a microsecond, and parking and waking take
/// ten times as long. Small under a test's scheduler, so that waiters also sleep.
pub(crate) const SPIN_LIMIT: usize = if cfg!(shuttle) { 2 } else { 100 };

/// A transaction that locks.
pub(crate) type TxnId = u64;

/// A transaction's hold on a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) txn: TxnId,
    pub(crate) mode: LockMode,
    /// Number of lock calls granted; `unlock` takes back one.
    pub(crate) count: u32,
}

/// The lock word of a record.
#[derive(Default)]
pub(crate) enum LockCell {
    #[default]
    Free,
    Single(Holder),
    Queued(Box<Queue>),
}

#[derive(Default)]
pub(crate) struct Queue {
    holders: Vec<Holder>,
    waiting: Vec<Arc<Waiter>>,
}

/// Outcome of a request.
pub(crate) enum Request {
    /// Granted. True if the transaction had no lock on the record before.
    Granted(bool),
    /// The request must wait.
    Blocked,
}

impl LockCell {
    pub(crate) fn is_free(&self) -> bool {
        matches!(self, LockCell::Free)
    }

    /// Whether there is exactly one holder and no waiter.
    pub(crate) fn has_single_holder(&self) -> bool {
        matches!(self, LockCell::Single(_))
    }

    fn holders(&self) -> &[Holder] {
        match self {
            LockCell::Free => &[],
            LockCell::Single(holder) => std::slice::from_ref(holder),
            LockCell::Queued(queue) => &queue.holders,
        }
    }

    fn waiting(&self) -> &[Arc<Waiter>] {
        match self {
            LockCell::Queued(queue) => &queue.waiting,
            _ => &[],
        }
    }

    /// Returns the mode that a transaction holds.
    pub(crate) fn held_mode(&self, txn: TxnId) -> Option<LockMode> {
        let mine = self.holders().iter().find(|h| h.txn == txn);
        mine.map(|h| h.mode)
    }

    fn holder_mut(&mut self, txn: TxnId) -> Option<&mut Holder> {
        match self {
            LockCell::Free => None,
            LockCell::Single(holder) => (holder.txn == txn).then_some(holder),
            LockCell::Queued(queue) => queue.holders.iter_mut().find(|h| h.txn == txn),
        }
    }

    /// The mode that covers both the held and the requested mode.
    fn combined_mode(&self, txn: TxnId, mode: LockMode) -> LockMode {
        match self.held_mode(txn) {
            Some(held) if !mode.covers(held) => LockMode::Exclusive,
            _ => mode,
        }
    }

    /// Grants a request if it is compatible with holders and queue.
    pub(crate) fn request(&mut self, txn: TxnId, mode: LockMode) -> Request {
        let fresh = Holder {
            txn,
            mode,
            count: 1,
        };
        if self.is_free() {
            *self = LockCell::Single(fresh);
            return Request::Granted(true);
        }
        let target = self.combined_mode(txn, mode);
        let others = self.holders().iter().filter(|h| h.txn != txn);
        let beside = others.clone().all(|h| h.mode.compatible(target));
        if let Some(mine) = self.held_mode(txn) {
            if !mine.covers(mode) && !beside {
                return Request::Blocked;
            }
            if let Some(holder) = self.holder_mut(txn) {
                holder.count = holder.count.saturating_add(1);
                if !mine.covers(mode) {
                    holder.mode = target;
                }
            }
            return Request::Granted(false);
        }
        if !beside || !self.may_overtake(mode) {
            return Request::Blocked;
        }
        self.queue().holders.push(fresh);
        Request::Granted(true)
    }

    /// Whether a newcomer need not join the queue.
    fn may_overtake(&self, mode: LockMode) -> bool {
        let waiting = self.waiting();
        let called = waiting.first().is_some_and(|w| w.is_called());
        let yields = |w: &Arc<Waiter>| called && !w.upgrade && !w.was_overtaken();
        waiting.iter().all(|w| w.mode.compatible(mode) || yields(w))
    }

    /// Returns the queue; converts the cell if it is free or has a lone holder.
    fn queue(&mut self) -> &mut Queue {
        let holders = match self {
            LockCell::Free => Vec::new(),
            LockCell::Single(holder) => vec![*holder],
            LockCell::Queued(_) => Vec::new(),
        };
        if !matches!(self, LockCell::Queued(_)) {
            *self = LockCell::Queued(Box::new(Queue {
                holders,
                waiting: Vec::new(),
            }));
        }
        match self {
            LockCell::Queued(queue) => queue,
            LockCell::Free | LockCell::Single(_) => unreachable!("made above"),
        }
    }

    /// Joins the queue.
    pub(crate) fn enqueue(&mut self, txn: TxnId, mode: LockMode) -> Arc<Waiter> {
        let (mode, upgrade) = (self.combined_mode(txn, mode), self.held_mode(txn).is_some());
        let waiter = Arc::new(Waiter::new(txn, mode, upgrade));
        let queue = self.queue();
        let place = if waiter.upgrade {
            queue.waiting.iter().take_while(|w| w.upgrade).count()
        } else {
            queue.waiting.len()
        };
        queue.waiting.insert(place, waiter.clone());
        waiter
    }

    /// Leaves the queue. Returns false if the lock was granted in the meantime.
    pub(crate) fn leave_queue(&mut self, waiter: &Arc<Waiter>) -> bool {
        let LockCell::Queued(queue) = self else {
            return false;
        };
        let before = queue.waiting.len();
        queue.waiting.retain(|w| !Arc::ptr_eq(w, waiter));
        let left = queue.waiting.len() < before;
        if left {
            self.hand_over();
        }
        left
    }

    /// Releases all that a transaction holds.
    pub(crate) fn release(&mut self, txn: TxnId) {
        match self {
            LockCell::Free => {}
            LockCell::Single(holder) => {
                if holder.txn == txn {
                    *self = LockCell::Free;
                }
            }
            LockCell::Queued(queue) => {
                queue.holders.retain(|h| h.txn != txn);
                self.hand_over();
            }
        }
    }

    /// Undoes one lock call. Returns true if the transaction holds nothing any more.
    pub(crate) fn release_one(&mut self, txn: TxnId) -> bool {
        match self.holder_mut(txn) {
            Some(holder) if holder.count > 1 => {
                holder.count -= 1;
                false
            }
            Some(_) => {
                self.release(txn);
                true
            }
            None => false,
        }
    }

    /// Grants the lock to the waiters that are compatible now, or calls them.
    fn hand_over(&mut self) {
        let LockCell::Queued(queue) = self else {
            return;
        };
        let Queue { holders, waiting } = &mut **queue;
        let mut ahead: Vec<LockMode> = Vec::new();
        waiting.retain(|waiter| {
            let free = fits_holders(holders, waiter)
                && !ahead.contains(&LockMode::Exclusive)
                && ahead.iter().all(|mode| mode.compatible(waiter.mode));
            let free = free && !waiter.is_victim();
            if free && !waiter.is_called() && !waiter.should_be_called() {
                grant_to(holders, waiter);
                return false;
            }
            if free {
                waiter.call();
            }
            if !ahead.contains(&waiter.mode) {
                ahead.push(waiter.mode);
            }
            true
        });
        self.free_empty_queue();
    }

    /// Claims the lock for a waiter that was called. Returns whether it has the lock now.
    pub(crate) fn claim(&mut self, waiter: &Arc<Waiter>) -> bool {
        let LockCell::Queued(queue) = self else {
            return waiter.is_granted();
        };
        if waiter.is_victim() {
            return false;
        }
        let Queue { holders, waiting } = &mut **queue;
        let Some(at) = waiting.iter().position(|w| Arc::ptr_eq(w, waiter)) else {
            return waiter.is_granted();
        };
        let mut ahead = waiting.iter().take(at);
        if !fits_holders(holders, waiter) || !ahead.all(|w| w.mode.compatible(waiter.mode)) {
            waiter.note_overtaken();
            return false;
        }
        waiting.remove(at);
        grant_to(holders, waiter);
        self.free_empty_queue();
        true
    }

    /// Makes a waiter's transaction the victim of a deadlock. Returns false if it was granted the
    /// lock before, or is a victim already.
    pub(crate) fn choose_victim(&mut self, waiter: &Arc<Waiter>) -> bool {
        let waits = self.waiting().iter().any(|w| Arc::ptr_eq(w, waiter));
        let chosen = waits && !waiter.is_victim();
        if chosen {
            waiter.become_victim();
        }
        chosen
    }

    /// Frees the queue if no transaction waits and at most one holds.
    fn free_empty_queue(&mut self) {
        if let LockCell::Queued(queue) = self
            && queue.waiting.is_empty()
        {
            match queue.holders.as_slice() {
                [] => *self = LockCell::Free,
                [one] => *self = LockCell::Single(*one),
                _ => {}
            }
        }
    }

    /// Appends the transactions that a waiting one waits for; a victim waits for
    /// none.
    pub(crate) fn blockers(&self, txn: TxnId, out: &mut Vec<TxnId>) {
        let waiter = self.waiting().iter().find(|w| w.txn == txn);
        let Some(waiter) = waiter.filter(|w| !w.is_victim()) else {
            return;
        };
        let holders = self.holders().iter().map(|h| (h.txn, h.mode));
        let ahead = self.waiting().iter().take_while(|w| w.txn != txn);
        let ahead = ahead.map(|w| (w.txn, w.mode));
        out.extend(
            holders
                .chain(ahead)
                .filter(|(other, mode)| *other != txn && !mode.compatible(waiter.mode))
                .map(|(other, _)| other),
        );
    }

    /// Checks the invariants of the cell; for `verify`.
    pub(crate) fn check(&self) -> Result<(), String> {
        let holders = self.holders();
        for (n, one) in holders.iter().enumerate() {
            for two in holders.iter().skip(n + 1) {
                if one.txn == two.txn || !one.mode.compatible(two.mode) {
                    return Err(format!("{one:?} beside {two:?}"));
                }
            }
        }
        match self.waiting().first() {
            Some(first) if !first.is_called() && !first.is_victim() => {
                let mut blockers = Vec::new();
                self.blockers(first.txn, &mut blockers);
                if blockers.is_empty() {
                    return Err(format!("transaction {} waits without a blocker", first.txn));
                }
            }
            None if matches!(self, LockCell::Queued(_)) && holders.len() < 2 => {
                return Err("an empty queue was not freed".to_owned());
            }
            _ => {}
        }
        Ok(())
    }
}

/// Whether a waiter's mode is compatible with all other holders.
fn fits_holders(holders: &[Holder], waiter: &Waiter) -> bool {
    let mut others = holders.iter().filter(|h| h.txn != waiter.txn);
    others.all(|h| h.mode.compatible(waiter.mode))
}

/// Grants a waiter the lock.
fn grant_to(holders: &mut Vec<Holder>, waiter: &Waiter) {
    match holders.iter_mut().find(|h| h.txn == waiter.txn) {
        Some(holder) => {
            holder.mode = waiter.mode;
            holder.count = holder.count.saturating_add(1);
        }
        None => holders.push(Holder {
            txn: waiter.txn,
            mode: waiter.mode,
            count: 1,
        }),
    }
    waiter.grant();
}

#[cfg(test)]
mod exhaustive;

#[cfg(test)]
mod tests {
    use super::*;
    use LockMode::{Exclusive, KeyShare, Share, Update};

    fn granted(cell: &mut LockCell, txn: TxnId, mode: LockMode) -> bool {
        matches!(cell.request(txn, mode), Request::Granted(_))
    }

    #[test]
    fn an_upgrade_goes_ahead_of_the_queue() {
        let mut cell = LockCell::default();
        assert!(granted(&mut cell, 1, KeyShare));
        assert!(granted(&mut cell, 2, KeyShare));
        let behind = cell.enqueue(3, Exclusive);
        assert!(!granted(&mut cell, 1, Exclusive));
        let upgrade = cell.enqueue(1, Exclusive);
        cell.check().unwrap();
        cell.release(2);
        assert!(upgrade.is_granted() && !behind.is_granted());
        cell.release(1);
        assert!(behind.is_granted());
        cell.release(3);
        assert!(cell.is_free());
    }

    #[test]
    fn share_and_update_together_are_exclusive() {
        let mut cell = LockCell::default();
        assert!(granted(&mut cell, 1, Share));
        assert!(granted(&mut cell, 1, Update));
        assert_eq!(cell.held_mode(1), Some(Exclusive));
        assert!(!granted(&mut cell, 2, KeyShare));
    }

    #[test]
    fn newcomers_overtake_a_queue_with_which_they_are_compatible() {
        let mut cell = LockCell::default();
        assert!(granted(&mut cell, 1, Update));
        let _waits = cell.enqueue(2, Update);
        assert!(granted(&mut cell, 3, KeyShare));
        let _waits_too = cell.enqueue(4, Exclusive);
        assert!(!granted(&mut cell, 5, KeyShare));
        assert!(granted(&mut cell, 1, KeyShare), "held already");
        cell.check().unwrap();
    }

    #[test]
    fn a_sleeping_waiter_is_called_and_overtaken_at_most_once() {
        let mut cell = LockCell::default();
        assert!(granted(&mut cell, 1, Exclusive));
        let sleeper = cell.enqueue(2, Exclusive);
        sleeper.set_asleep();
        assert!(!granted(&mut cell, 3, KeyShare), "still held by 1");
        cell.release(1);
        assert!(sleeper.is_called() && !sleeper.is_granted());
        assert!(
            granted(&mut cell, 3, Exclusive),
            "a newcomer overtakes while the waiter wakes up"
        );
        cell.check().unwrap();
        assert!(!cell.claim(&sleeper), "the newcomer holds the lock");
        sleeper.set_asleep();
        assert!(!granted(&mut cell, 4, KeyShare));
        cell.release(3);
        assert!(sleeper.is_granted(), "granted directly, although asleep");
        assert!(!granted(&mut cell, 4, KeyShare));
        cell.release(2);
        assert!(cell.is_free());
    }

    #[test]
    fn after_a_called_waiter_leaves_the_next_one_is_called() {
        let mut cell = LockCell::default();
        assert!(granted(&mut cell, 1, Exclusive));
        let [first, second] = [2, 3].map(|txn| cell.enqueue(txn, Exclusive));
        first.set_asleep();
        second.set_asleep();
        cell.release(1);
        assert!(first.is_called() && !second.is_called());
        assert!(cell.leave_queue(&first));
        assert!(second.is_called() && cell.claim(&second));
        cell.release(3);
        assert!(cell.is_free());
    }

    #[test]
    fn a_victim_keeps_its_place_until_it_gives_up() {
        for is_called in [false, true] {
            let mut cell = LockCell::default();
            assert!(granted(&mut cell, 1, Exclusive));
            let [victim, behind] = [2, 3].map(|txn| cell.enqueue(txn, Exclusive));
            victim.set_asleep();
            if is_called {
                cell.release(1);
                assert!(victim.is_called());
            }
            assert!(cell.choose_victim(&victim));
            assert!(!cell.choose_victim(&victim), "a victim is chosen once");
            cell.release(1);
            assert!(victim.is_victim() && !behind.is_granted());
            assert!(
                !granted(&mut cell, 4, KeyShare),
                "the waiters behind it still block newcomers"
            );
            assert!(!cell.claim(&victim));
            let mut blockers = Vec::new();
            cell.blockers(2, &mut blockers);
            assert!(blockers.is_empty(), "{blockers:?}");
            cell.check().unwrap();
            assert!(cell.leave_queue(&victim));
            assert!(behind.is_granted());
            assert!(
                !cell.choose_victim(&behind),
                "a granted waiter is not a victim"
            );
            cell.release(3);
            assert!(cell.is_free());
        }
    }

    #[test]
    fn the_survivor_of_a_deadlock_is_not_overtaken() {
        for is_called in [false, true] {
            let mut cell = LockCell::default();
            assert!(granted(&mut cell, 1, Exclusive));
            let survivor = cell.enqueue(2, Exclusive);
            survivor.set_asleep();
            if is_called {
                cell.release(1);
            }
            survivor.forbid_overtaking();
            cell.release(1);
            assert_eq!(survivor.is_granted(), !is_called);
            assert!(!granted(&mut cell, 3, KeyShare));
            assert!(cell.claim(&survivor));
            cell.release(2);
            assert!(cell.is_free());
        }
    }

    #[test]
    fn unlock_undoes_one_lock_call() {
        let mut cell = LockCell::default();
        assert!(granted(&mut cell, 1, Update));
        assert!(granted(&mut cell, 1, KeyShare));
        assert!(!cell.release_one(1));
        assert!(cell.release_one(1));
        assert!(cell.is_free());
    }
}
