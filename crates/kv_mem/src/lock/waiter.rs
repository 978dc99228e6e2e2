//! A transaction in a lock queue: it spins, parks, and is woken.
//!
//! ```text
//!  waiting --call--> called --claim--> granted      it slept when the lock became free
//!  waiting <-lost_to_newcomer- called                      a newcomer took the lock first
//!  waiting --grant--> granted                       it did not sleep, or is not overtaken
//!  waiting, called --become_victim--> victim        a deadlock cycle was broken
//! ```
//!
//! Invariants:
//! 1. The state changes only as drawn, under the record's latch. Granted and
//!    victim are final.
//! 2. No lost wake-up: the signalling thread writes `state`, then reads `asleep`;
//!    the waiter writes `asleep`, then reads `state`. All four are SeqCst, so one
//!    sees the other. The wake-up is sent under the waiter's mutex, and only to a
//!    waiter that sleeps or is about to.

use super::{SPIN_LIMIT, TxnId};
use porpoise_base::blocking::wait_for_lock;
use porpoise_base::cancel::{Cancel, Reason};
use porpoise_base::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use porpoise_base::sync::{Condvar, Mutex, spin_loop};
use porpoise_kv::LockMode;
use std::sync::Arc;
use std::time::Instant;

const WAITING: u8 = 0;
const CALLED: u8 = 1;
const GRANTED: u8 = 2;
const VICTIM: u8 = 3;

/// A transaction that waits for a record.
pub(crate) struct Waiter {
    pub(super) txn: TxnId,
    pub(super) mode: LockMode,
    pub(super) upgrade: bool,
    state: AtomicU8,
    /// Must not be overtaken: a newcomer has overtaken it once, or it waited for the victim of a
    /// deadlock.
    overtaken: AtomicBool,
    /// Whether it sleeps, or is about to.
    asleep: AtomicBool,
    mutex: Mutex<()>,
    wake: Condvar,
}

/// Outcome of a wait.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    Granted,
    /// The lock can be claimed, unless a newcomer has taken it.
    Called,
    /// The transaction must be rolled back to break a deadlock cycle.
    Victim,
    TimedOut,
    Cancelled(Reason),
}

impl Waiter {
    pub(super) fn new(txn: TxnId, mode: LockMode, upgrade: bool) -> Waiter {
        Waiter {
            txn,
            mode,
            upgrade,
            state: AtomicU8::new(WAITING),
            overtaken: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            mutex: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    fn is(&self, state: u8) -> bool {
        self.state.load(Ordering::SeqCst) == state
    }

    pub(super) fn is_granted(&self) -> bool {
        self.is(GRANTED)
    }

    /// Whether it was woken to claim the lock and has not claimed it yet.
    pub(super) fn is_called(&self) -> bool {
        self.is(CALLED)
    }

    /// Whether its transaction was chosen to break a deadlock cycle. It stays in
    /// the queue until it gives up, and is never granted the lock.
    pub(super) fn is_victim(&self) -> bool {
        self.is(VICTIM)
    }

    /// Whether it must not be overtaken.
    pub(super) fn was_overtaken(&self) -> bool {
        self.overtaken.load(Ordering::Relaxed)
    }

    /// Whether a free lock is announced to the waiter (`CALLED`) rather than granted to it: it sleeps, and may be
    /// overtaken while it wakes up.
    pub(super) fn should_be_called(&self) -> bool {
        !self.upgrade && !self.was_overtaken() && self.asleep.load(Ordering::SeqCst)
    }

    pub(super) fn grant(&self) {
        self.signal(GRANTED);
    }

    pub(super) fn call(&self) {
        if !self.is_called() {
            self.signal(CALLED);
        }
    }

    pub(super) fn become_victim(&self) {
        self.signal(VICTIM);
    }

    /// Records that a newcomer took the lock first. The next time, the lock is handed to this
    /// waiter directly.
    pub(super) fn note_overtaken(&self) {
        self.overtaken.store(true, Ordering::Relaxed);
        self.asleep.store(false, Ordering::SeqCst);
        self.state.store(WAITING, Ordering::SeqCst);
    }

    /// Protects the waiter from being overtaken: a lock that becomes free is granted to it directly
    /// or, if it was called already, stays free until it claims it.
    pub(crate) fn forbid_overtaking(&self) {
        self.overtaken.store(true, Ordering::Relaxed);
    }

    /// Stores a state and wakes the waiter if it sleeps.
    fn signal(&self, state: u8) {
        self.state.store(state, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) {
            let _asleep = self.mutex.lock();
            self.wake.notify_one();
        }
    }

    /// Spins briefly. Returns whether the lock was granted.
    pub(crate) fn spin(&self) -> bool {
        (0..SPIN_LIMIT).any(|_| {
            let granted = self.is(GRANTED);
            if !granted {
                spin_loop();
            }
            granted
        })
    }

    /// Outcome of the wait by state; `None` while waiting.
    fn outcome(&self) -> Option<WaitOutcome> {
        match self.state.load(Ordering::SeqCst) {
            GRANTED => Some(WaitOutcome::Granted),
            CALLED => Some(WaitOutcome::Called),
            VICTIM => Some(WaitOutcome::Victim),
            _ => None,
        }
    }

    /// Parks until the waiter is granted, called or a victim, the wait is
    /// cancelled, or the deadline passes.
    pub(crate) fn wait(self: &Arc<Waiter>, deadline: Instant, cancel: &Cancel) -> WaitOutcome {
        if let Some(outcome) = self.outcome() {
            return outcome;
        }
        wait_for_lock(|| {
            let waiter = self.clone();
            let _registered = cancel.register(Arc::new(move || {
                let _asleep = waiter.mutex.lock();
                waiter.wake.notify_one();
            }));
            self.asleep.store(true, Ordering::SeqCst);
            let mut asleep = self.mutex.lock();
            let mut timed_out = false;
            loop {
                if let Some(outcome) = self.outcome() {
                    return outcome;
                }
                if let Some(reason) = cancel.reason() {
                    return WaitOutcome::Cancelled(reason);
                }
                if timed_out {
                    return WaitOutcome::TimedOut;
                }
                timed_out = self.wake.wait_until(&mut asleep, deadline).timed_out();
            }
        })
    }

    /// Marks it asleep as [`Waiter::wait`] does; for tests of the queue.
    #[cfg(test)]
    pub(super) fn set_asleep(&self) {
        self.asleep.store(true, Ordering::SeqCst);
    }
}
