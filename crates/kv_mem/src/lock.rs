//! Row locks: a word in each record, and queues where somebody waits.
//!
//! An uncontended lock is a change of [`LockCell`] under the record's latch.
//! Who must wait looks for a moment whether a lone holder lets go; then joins
//! the record's queue, looks for a moment whether it is granted; then looks for
//! a circle of waits ([`crate::wait_graph`]), and sleeps on a condition variable
//! of its own. Whoever changes the holders hands the lock over under the latch.
//!
//! Invariants:
//! 1. Holders of a record are pairwise compatible.
//! 2. Queues are FIFO, save that an upgrade stands ahead of those who hold
//!    nothing. A request is granted when it is compatible with every other
//!    holder and with everybody waiting ahead of it: a queued exclusive holds
//!    off later key-shares (transactions.md, 8).
//! 3. Latch order: graph of waits, then record. Nothing is held while sleeping.
//! 4. A grant is stored, then the granter looks whether the waiter sleeps; a
//!    waiter stores that it is about to sleep, then looks for the grant (both
//!    sequentially consistent, and the wake-up is sent under the waiter's
//!    mutex): no wake-up is lost. One that gives up looks under the latch
//!    whether it was granted.
//! 5. Nobody overtakes a queue. Before there is one, a newcomer may take a lock
//!    that was let go while another looks, for some microseconds.
//!
//! Rejected: a sharded lock table beside the index (a second look-up for every
//! key); joining the queue and sleeping at once (a row that two threads change
//! all the time changes hands by sleep and wake-up each time).

use porpoise_base::blocking::blocking;
use porpoise_base::cancel::{Cancel, Reason};
use porpoise_base::sync::atomic::{AtomicBool, Ordering};
use porpoise_base::sync::{Condvar, Mutex, spin_loop};
use porpoise_kv::LockMode;
use std::sync::Arc;
use std::time::Instant;

/// So often a waiter looks before it joins the queue, and again before it
/// sleeps: a hot row changes hands after a microsecond, and sleep and waking
/// take ten times as long. Under a test's scheduler it is to sleep, too.
pub(crate) const LOOKS: usize = if cfg!(shuttle) { 2 } else { 100 };

/// A transaction that locks.
pub(crate) type TxnId = u64;

/// Who holds a record, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) txn: TxnId,
    pub(crate) mode: LockMode,
    /// How many lock calls it answered; `unlock` takes back one.
    pub(crate) count: u32,
}

/// The lock word of a record.
#[derive(Default)]
pub(crate) enum LockCell {
    #[default]
    Free,
    One(Holder),
    Many(Box<Queue>),
}

#[derive(Default)]
pub(crate) struct Queue {
    holders: Vec<Holder>,
    waiting: Vec<Arc<Waiter>>,
}

/// A transaction that waits for a record.
pub(crate) struct Waiter {
    txn: TxnId,
    mode: LockMode,
    upgrade: bool,
    granted: AtomicBool,
    /// It sleeps, or is about to.
    asleep: AtomicBool,
    mutex: Mutex<()>,
    wake: Condvar,
}

/// What became of a request.
pub(crate) enum Request {
    /// Granted; true when the transaction held nothing on the record before.
    Granted(bool),
    /// Not now.
    Blocked,
}

/// How a wait ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    Granted,
    TimedOut,
    Cancelled(Reason),
}

impl LockCell {
    pub(crate) fn is_free(&self) -> bool {
        matches!(self, LockCell::Free)
    }

    /// Whether one transaction holds it and nobody waits.
    pub(crate) fn is_lone(&self) -> bool {
        matches!(self, LockCell::One(_))
    }

    fn holders(&self) -> &[Holder] {
        match self {
            LockCell::Free => &[],
            LockCell::One(holder) => std::slice::from_ref(holder),
            LockCell::Many(queue) => &queue.holders,
        }
    }

    fn waiting(&self) -> &[Arc<Waiter>] {
        match self {
            LockCell::Many(queue) => &queue.waiting,
            _ => &[],
        }
    }

    /// What a transaction holds.
    pub(crate) fn held(&self, txn: TxnId) -> Option<LockMode> {
        let mine = self.holders().iter().find(|h| h.txn == txn);
        mine.map(|h| h.mode)
    }

    fn holder_mut(&mut self, txn: TxnId) -> Option<&mut Holder> {
        match self {
            LockCell::Free => None,
            LockCell::One(holder) => (holder.txn == txn).then_some(holder),
            LockCell::Many(queue) => queue.holders.iter_mut().find(|h| h.txn == txn),
        }
    }

    /// What must be held so that both the held and the asked mode are covered.
    fn target(&self, txn: TxnId, mode: LockMode) -> LockMode {
        match self.held(txn) {
            Some(held) if !mode.covers(held) => LockMode::Exclusive,
            _ => mode,
        }
    }

    /// Grants a request if nothing stands against it.
    pub(crate) fn request(&mut self, txn: TxnId, mode: LockMode) -> Request {
        let fresh = Holder {
            txn,
            mode,
            count: 1,
        };
        if self.is_free() {
            *self = LockCell::One(fresh);
            return Request::Granted(true);
        }
        let target = self.target(txn, mode);
        let others = self.holders().iter().filter(|h| h.txn != txn);
        let beside = others.clone().all(|h| h.mode.compatible(target));
        if let Some(mine) = self.held(txn) {
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
        if !beside || !self.waiting().iter().all(|w| w.mode.compatible(mode)) {
            return Request::Blocked;
        }
        self.queue().holders.push(fresh);
        Request::Granted(true)
    }

    /// The queue, made out of a lone holder when there was none.
    fn queue(&mut self) -> &mut Queue {
        let holders = match self {
            LockCell::Free => Vec::new(),
            LockCell::One(holder) => vec![*holder],
            LockCell::Many(_) => Vec::new(),
        };
        if !matches!(self, LockCell::Many(_)) {
            *self = LockCell::Many(Box::new(Queue {
                holders,
                waiting: Vec::new(),
            }));
        }
        match self {
            LockCell::Many(queue) => queue,
            LockCell::Free | LockCell::One(_) => unreachable!("made above"),
        }
    }

    /// Joins the queue.
    pub(crate) fn enqueue(&mut self, txn: TxnId, mode: LockMode) -> Arc<Waiter> {
        let waiter = Arc::new(Waiter {
            txn,
            mode: self.target(txn, mode),
            upgrade: self.held(txn).is_some(),
            granted: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            mutex: Mutex::new(()),
            wake: Condvar::new(),
        });
        let queue = self.queue();
        let place = if waiter.upgrade {
            queue.waiting.iter().take_while(|w| w.upgrade).count()
        } else {
            queue.waiting.len()
        };
        queue.waiting.insert(place, waiter.clone());
        waiter
    }

    /// Leaves the queue; false when it was granted meanwhile.
    pub(crate) fn give_up(&mut self, waiter: &Arc<Waiter>) -> bool {
        let LockCell::Many(queue) = self else {
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

    /// Lets go of whatever a transaction holds.
    pub(crate) fn release(&mut self, txn: TxnId) {
        match self {
            LockCell::Free => {}
            LockCell::One(holder) => {
                if holder.txn == txn {
                    *self = LockCell::Free;
                }
            }
            LockCell::Many(queue) => {
                queue.holders.retain(|h| h.txn != txn);
                self.hand_over();
            }
        }
    }

    /// Takes back one lock call; true when nothing is held any more.
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

    /// Grants to waiters what can be granted now.
    fn hand_over(&mut self) {
        let LockCell::Many(queue) = self else {
            return;
        };
        let Queue { holders, waiting } = &mut **queue;
        let mut ahead: Vec<LockMode> = Vec::new();
        waiting.retain(|waiter| {
            let others = holders.iter().filter(|h| h.txn != waiter.txn);
            let free = !ahead.contains(&LockMode::Exclusive)
                && others.clone().all(|h| h.mode.compatible(waiter.mode))
                && ahead.iter().all(|mode| mode.compatible(waiter.mode));
            if !free {
                if !ahead.contains(&waiter.mode) {
                    ahead.push(waiter.mode);
                }
                return true;
            }
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
            false
        });
        if waiting.is_empty() {
            match holders.as_slice() {
                [] => *self = LockCell::Free,
                [one] => *self = LockCell::One(*one),
                _ => {}
            }
        }
    }

    /// Whom a waiting transaction waits for.
    pub(crate) fn blockers(&self, txn: TxnId, out: &mut Vec<TxnId>) {
        let Some(waiter) = self.waiting().iter().find(|w| w.txn == txn) else {
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

    /// Whether the cell is in order; for `verify`.
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
            Some(first) => {
                let mut blockers = Vec::new();
                self.blockers(first.txn, &mut blockers);
                if blockers.is_empty() {
                    return Err(format!("transaction {} waits for nobody", first.txn));
                }
            }
            None if matches!(self, LockCell::Many(_)) && holders.len() < 2 => {
                return Err("a queue without need".to_owned());
            }
            None => {}
        }
        Ok(())
    }
}

impl Waiter {
    fn is_granted(&self) -> bool {
        self.granted.load(Ordering::SeqCst)
    }

    fn grant(&self) {
        self.granted.store(true, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) {
            let _asleep = self.mutex.lock();
            self.wake.notify_one();
        }
    }

    /// Looks for a moment whether it is granted.
    pub(crate) fn look(&self) -> bool {
        (0..LOOKS).any(|_| {
            let granted = self.granted.load(Ordering::Acquire);
            if !granted {
                spin_loop();
            }
            granted
        })
    }

    /// Sleeps until granted, cancelled, or out of time.
    pub(crate) fn wait(self: &Arc<Waiter>, deadline: Instant, cancel: &Cancel) -> Waited {
        blocking(|| {
            let waiter = self.clone();
            let _registered = cancel.register(Arc::new(move || {
                let _asleep = waiter.mutex.lock();
                waiter.wake.notify_one();
            }));
            self.asleep.store(true, Ordering::SeqCst);
            let mut asleep = self.mutex.lock();
            loop {
                if self.is_granted() {
                    return Waited::Granted;
                }
                if let Some(reason) = cancel.reason() {
                    return Waited::Cancelled(reason);
                }
                let timed_out = self.wake.wait_until(&mut asleep, deadline).timed_out();
                if timed_out && !self.is_granted() {
                    return match cancel.reason() {
                        Some(reason) => Waited::Cancelled(reason),
                        None => Waited::TimedOut,
                    };
                }
            }
        })
    }
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
        assert_eq!(cell.held(1), Some(Exclusive));
        assert!(!granted(&mut cell, 2, KeyShare));
    }

    #[test]
    fn compatible_newcomers_pass_a_queue_that_they_do_not_hinder() {
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
    fn unlock_takes_back_one_call() {
        let mut cell = LockCell::default();
        assert!(granted(&mut cell, 1, Update));
        assert!(granted(&mut cell, 1, KeyShare));
        assert!(!cell.release_one(1));
        assert!(cell.release_one(1));
        assert!(cell.is_free());
    }
}
