//! A transaction in a queue: how it looks, sleeps, and is told.
//!
//! Invariants:
//! 1. The state goes from waiting to granted, or to called and from there to
//!    granted or back to waiting; from waiting or called it may go to victim,
//!    which is final, as granted is. Each change happens under the record's
//!    latch.
//! 2. Whoever tells stores the state, then looks whether the waiter sleeps; a
//!    waiter stores that it is about to sleep, then looks at the state (both
//!    sequentially consistent; the wake-up is sent under the waiter's mutex).
//!    So no wake-up is lost, and none is sent to who does not sleep.

use super::{LOOKS, TxnId};
use porpoise_base::blocking::blocking;
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
    /// It is not overtaken: it was called once, and another transaction had the
    /// lock when it came; or a deadlock was broken so that it goes on.
    passed: AtomicBool,
    /// It sleeps, or is about to.
    asleep: AtomicBool,
    mutex: Mutex<()>,
    wake: Condvar,
}

/// How a wait ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    Granted,
    /// The lock can be claimed, unless somebody was faster.
    Called,
    /// The transaction is to be rolled back to break a deadlock cycle.
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
            passed: AtomicBool::new(false),
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

    /// Whether it is on its way to claim the lock.
    pub(super) fn is_called(&self) -> bool {
        self.is(CALLED)
    }

    /// Whether its transaction was chosen to break a deadlock cycle. It stays in
    /// the queue until it gives up, and is never granted the lock.
    pub(super) fn is_victim(&self) -> bool {
        self.is(VICTIM)
    }

    /// Whether others may not go ahead of it (any more).
    pub(super) fn was_passed(&self) -> bool {
        self.passed.load(Ordering::Relaxed)
    }

    /// Whether it would rather be called than granted the lock: it has to wake
    /// up first.
    pub(super) fn prefers_a_call(&self) -> bool {
        !self.upgrade && !self.was_passed() && self.asleep.load(Ordering::SeqCst)
    }

    pub(super) fn grant(&self) {
        self.tell(GRANTED);
    }

    pub(super) fn call(&self) {
        if !self.is_called() {
            self.tell(CALLED);
        }
    }

    pub(super) fn become_victim(&self) {
        self.tell(VICTIM);
    }

    /// Somebody else was faster: the next time it is granted the lock.
    pub(super) fn came_late(&self) {
        self.passed.store(true, Ordering::Relaxed);
        self.asleep.store(false, Ordering::SeqCst);
        self.state.store(WAITING, Ordering::SeqCst);
    }

    /// No transaction goes ahead of it: a lock that becomes free is granted to
    /// it at once, or, if it was called already, is left for it.
    pub(crate) fn forbid_overtaking(&self) {
        self.passed.store(true, Ordering::Relaxed);
    }

    fn tell(&self, state: u8) {
        self.state.store(state, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) {
            let _asleep = self.mutex.lock();
            self.wake.notify_one();
        }
    }

    /// Looks for a moment whether it is granted.
    pub(crate) fn look(&self) -> bool {
        (0..LOOKS).any(|_| {
            let granted = self.is(GRANTED);
            if !granted {
                spin_loop();
            }
            granted
        })
    }

    fn told(&self) -> Option<Waited> {
        match self.state.load(Ordering::SeqCst) {
            GRANTED => Some(Waited::Granted),
            CALLED => Some(Waited::Called),
            VICTIM => Some(Waited::Victim),
            _ => None,
        }
    }

    /// Sleeps until granted, called, chosen as a victim, cancelled, or out of
    /// time.
    pub(crate) fn wait(self: &Arc<Waiter>, deadline: Instant, cancel: &Cancel) -> Waited {
        if let Some(told) = self.told() {
            return told;
        }
        blocking(|| {
            let waiter = self.clone();
            let _registered = cancel.register(Arc::new(move || {
                let _asleep = waiter.mutex.lock();
                waiter.wake.notify_one();
            }));
            self.asleep.store(true, Ordering::SeqCst);
            let mut asleep = self.mutex.lock();
            let mut timed_out = false;
            loop {
                if let Some(told) = self.told() {
                    return told;
                }
                if let Some(reason) = cancel.reason() {
                    return Waited::Cancelled(reason);
                }
                if timed_out {
                    return Waited::TimedOut;
                }
                timed_out = self.wake.wait_until(&mut asleep, deadline).timed_out();
            }
        })
    }

    /// Falls asleep as [`Waiter::wait`] does; for tests of the queue.
    #[cfg(test)]
    pub(super) fn doze(&self) {
        self.asleep.store(true, Ordering::SeqCst);
    }
}
