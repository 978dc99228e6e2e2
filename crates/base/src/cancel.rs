//! Cancellation of waits.
//!
//! Every wait in Porpoise takes a deadline and a [`Cancel`]
//! (transactions.md, rule 38). A cancel handle is shared by the session that
//! may wait and by the code that may end the wait: KILL, the worker that
//! sees the client's socket hang up, shutdown.
//!
//! Invariants:
//! 1. The first reason wins until [`Cancel::clear_query`] clears a statement-level one;
//!    [`Reason::Connection`] and [`Reason::Shutdown`] are never cleared.
//! 2. The owner's function (see [`Cancel::owned`]) is called for every reason that ends the
//!    session, even without a waiter, so that the connection of an idle session is closed.
//! 3. A waiter registers a wake function *before* its last check of the state, so that no
//!    cancellation is lost between check and sleep.
//!
//! Rejected: polling in short sleeps (adds latency to every lock hand-over).

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The reason for which a wait or a statement was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// KILL QUERY: the statement ends with 1317, the session lives.
    Query = 1,
    /// `max_execution_time` ran out: the statement ends with 3024.
    Timeout = 2,
    /// `KILL [CONNECTION]`, or the client went away: the session ends.
    Connection = 3,
    /// The server is shutting down: the session ends with 1053.
    Shutdown = 4,
}

impl Reason {
    fn of(raw: u8) -> Option<Reason> {
        match raw {
            1 => Some(Reason::Query),
            2 => Some(Reason::Timeout),
            3 => Some(Reason::Connection),
            4 => Some(Reason::Shutdown),
            _ => None,
        }
    }

    /// Whether the whole session ends, not only the statement.
    pub fn ends_session(self) -> bool {
        matches!(self, Reason::Connection | Reason::Shutdown)
    }
}

/// A function that wakes one waiter.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct Inner {
    state: AtomicU8,
    txn: AtomicU64,
    waker: Mutex<Option<Waker>>,
    owner: OnceLock<Waker>,
}

/// A shared handle by which a session's waits can be ended.
#[derive(Clone, Default)]
pub struct Cancel(Arc<Inner>);

impl std::fmt::Debug for Cancel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cancel({:?})", self.reason())
    }
}

impl Cancel {
    /// Creates a handle that is not cancelled.
    pub fn new() -> Cancel {
        Cancel::default()
    }

    /// Creates a handle that calls `owner` for every reason that ends the session, with or
    /// without a waiter. `owner` is called from any thread and must not wait.
    pub fn owned(owner: Waker) -> Cancel {
        let inner = Inner::default();
        let _ = inner.owner.set(owner);
        Cancel(Arc::new(inner))
    }

    /// Records the number of the transaction that takes locks under this handle, so that lock
    /// waits can be attributed to sessions.
    pub fn set_txn(&self, number: u64) {
        self.0.txn.store(number, Ordering::Relaxed);
    }

    /// The last transaction that took a lock under this handle; 0 before the first. The engine
    /// assigns the numbers, which are unique in the process.
    pub fn txn(&self) -> u64 {
        self.0.txn.load(Ordering::Relaxed)
    }

    /// Cancels the session for `reason` and wakes its waiter, if any.
    pub fn cancel(&self, reason: Reason) {
        let _ = self
            .0
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| {
                (old < reason as u8).then_some(reason as u8)
            });
        let waker = self.0.waker.lock().clone();
        if let Some(waker) = waker {
            waker();
        }
        if reason.ends_session()
            && let Some(owner) = self.0.owner.get()
        {
            owner();
        }
    }

    /// The reason to stop, if there is one. An acquire load: cheap enough for every batch of rows.
    pub fn reason(&self) -> Option<Reason> {
        Reason::of(self.0.state.load(Ordering::Acquire))
    }

    /// Clears a reason that ends only a statement. Called between statements, so that a late
    /// KILL QUERY does not end the next one.
    pub fn clear_query(&self) {
        let _ = self
            .0
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| {
                (old != 0 && old < Reason::Connection as u8).then_some(0)
            });
    }

    /// Registers the function that wakes the one waiter of this session. The waiter must
    /// check [`Cancel::reason`] after this and before it sleeps. Dropping the guard ends the
    /// registration.
    pub fn register(&self, waker: Waker) -> Registration<'_> {
        *self.0.waker.lock() = Some(waker);
        Registration(self)
    }
}

/// Keeps a waker registered; see [`Cancel::register`].
pub struct Registration<'a>(&'a Cancel);

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        *self.0.0.waker.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::atomic::AtomicUsize;

    #[test]
    fn a_stronger_reason_replaces_a_weaker_one_and_only_statement_reasons_clear() {
        let c = Cancel::new();
        c.cancel(Reason::Query);
        assert_eq!(c.reason(), Some(Reason::Query));
        c.clear_query();
        assert_eq!(c.reason(), None);
        c.cancel(Reason::Connection);
        c.cancel(Reason::Query);
        c.clear_query();
        assert_eq!(c.reason(), Some(Reason::Connection));
    }

    #[test]
    fn the_owner_is_called_only_for_reasons_that_end_the_session() {
        let calls = Arc::new(AtomicUsize::new(0));
        let t = calls.clone();
        let c = Cancel::owned(Arc::new(move || {
            t.fetch_add(1, Ordering::SeqCst);
        }));
        c.cancel(Reason::Query);
        c.cancel(Reason::Timeout);
        assert_eq!(calls.load(Ordering::SeqCst), 0);
        c.cancel(Reason::Connection);
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn cancelling_wakes_the_registered_waiter() {
        let c = Cancel::new();
        let woken = Arc::new(AtomicUsize::new(0));
        let w = woken.clone();
        let guard = c.register(Arc::new(move || {
            w.fetch_add(1, Ordering::SeqCst);
        }));
        c.cancel(Reason::Query);
        drop(guard);
        c.cancel(Reason::Shutdown);
        assert_eq!(woken.load(Ordering::SeqCst), 1);
    }
}
