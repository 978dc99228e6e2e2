//! The durability watermark: the newest commit that snapshots see and that a reply may reveal.
//!
//! With `sync` durability it follows the durable LSN; in the other modes a commit counts as durable
//! once its versions are installed. The commit pipeline advances it under the sequencer, then
//! notifies: listeners ([`DurableListener`]) send deferred replies, callers that cannot defer a
//! reply sleep in [`DurabilityWatermark::wait_until`].
//!
//! Invariants:
//! 1. The position only grows.
//! 2. No lost notification: a caller that defers a reply raises `requested`, then reads the
//!    position; the pipeline raises the position, then reads `requested`. All four are SeqCst, so
//!    one sees the other.
//! 3. No lost wake-up: a waiter checks its condition under `progress`, and a wake-up is sent under
//!    `progress`, after the state that the condition reads has changed.

use porpoise_base::blocking::blocking;
use porpoise_base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use porpoise_base::sync::{Condvar, Mutex, RwLock};
use porpoise_kv::{CommitPosition, DurableListener, Error, Result};
use std::sync::{Arc, OnceLock};

/// The watermark, with the parties that wait for it.
pub(crate) struct DurabilityWatermark {
    position: AtomicU64,
    listeners: RwLock<Vec<Arc<dyn DurableListener>>>,
    /// The newest position that a deferred reply waits for.
    requested: AtomicU64,
    /// The newest position that the listeners were notified of.
    notified: AtomicU64,
    waiters: AtomicUsize,
    progress: Mutex<()>,
    progressed: Condvar,
    /// The error after which nothing more becomes durable.
    failure: OnceLock<Error>,
    /// Whether waits end, because no further commit will be acknowledged.
    is_abandoned: AtomicBool,
}

impl DurabilityWatermark {
    pub(crate) fn new(position: u64) -> DurabilityWatermark {
        DurabilityWatermark {
            position: AtomicU64::new(position),
            listeners: RwLock::default(),
            requested: AtomicU64::new(0),
            notified: AtomicU64::new(0),
            waiters: AtomicUsize::new(0),
            progress: Mutex::new(()),
            progressed: Condvar::new(),
            failure: OnceLock::new(),
            is_abandoned: AtomicBool::new(false),
        }
    }

    /// The newest durable commit.
    pub(crate) fn position(&self) -> u64 {
        self.position.load(Ordering::SeqCst)
    }

    /// Raises the position. The sequencer is held, so that there is one writer at a time.
    pub(crate) fn advance(&self, position: u64) {
        if position > self.position.load(Ordering::Relaxed) {
            self.position.store(position, Ordering::SeqCst);
        }
    }

    /// Registers a listener.
    pub(crate) fn subscribe(&self, listener: Arc<dyn DurableListener>) {
        self.listeners.write().push(listener);
    }

    /// Ensures that listeners are notified when a commit becomes durable: a reply waits for it.
    pub(crate) fn request(&self, position: u64) {
        if position > self.position.load(Ordering::Acquire) {
            self.requested.fetch_max(position, Ordering::SeqCst);
            if position <= self.position() {
                self.notify();
            }
        }
    }

    /// Notifies listeners if a reply may wait, and wakes waiters. Called after
    /// [`DurabilityWatermark::advance`], without the sequencer.
    pub(crate) fn notify_requested(&self) {
        if self.requested.load(Ordering::SeqCst) > self.notified.load(Ordering::SeqCst) {
            self.notify();
        } else {
            self.wake_waiters();
        }
    }

    /// Notifies listeners of the position, and wakes waiters.
    pub(crate) fn notify(&self) {
        let position = self.position();
        for listener in self.listeners.read().iter() {
            listener.durable(CommitPosition(position));
        }
        self.notified.fetch_max(position, Ordering::SeqCst);
        self.wake_waiters();
    }

    /// Records that nothing more becomes durable, and notifies listeners and waiters.
    pub(crate) fn fail(&self, error: Error) {
        tracing::error!(%error, "a write or sync of the log has failed: all further writes are refused; check the disk and restart the server");
        if self.failure.set(error.clone()).is_ok() {
            for listener in self.listeners.read().iter() {
                listener.failed(&error);
            }
        }
        self.wake_waiters();
    }

    /// The error after which nothing more becomes durable.
    pub(crate) fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    /// Fails after a failed write or sync.
    pub(crate) fn check_healthy(&self) -> Result<()> {
        match self.failure() {
            Some(error) => Err(Error::ReadOnly(error.to_string())),
            None => Ok(()),
        }
    }

    /// Outcome of a wait for a durable commit, `None` while it is open.
    pub(crate) fn outcome(&self, is_durable: bool) -> Option<Result<()>> {
        if is_durable {
            return Some(Ok(()));
        }
        if self.is_abandoned.load(Ordering::SeqCst) {
            let text = "the server was shut down before replicas acknowledged the commit";
            return Some(Err(Error::UnknownOutcome(text.to_owned())));
        }
        let failure = self.failure()?;
        Some(Err(Error::UnknownOutcome(failure.to_string())))
    }

    /// Ends all waits, before a shutdown.
    pub(crate) fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::SeqCst);
        self.wake_waiters();
    }

    /// Wakes waiters, which evaluate their conditions again.
    pub(crate) fn wake_waiters(&self) {
        if self.waiters.load(Ordering::SeqCst) > 0 {
            let _progress = self.progress.lock();
            self.progressed.notify_all();
        }
    }

    /// Sleeps until `done` returns a value; it is evaluated again after each wake-up.
    pub(crate) fn wait_until<T>(&self, mut done: impl FnMut() -> Option<T>) -> T {
        if let Some(found) = done() {
            return found;
        }
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let found = blocking(|| {
            let mut progress = self.progress.lock();
            loop {
                if let Some(found) = done() {
                    return found;
                }
                self.progressed.wait(&mut progress);
            }
        });
        self.waiters.fetch_sub(1, Ordering::SeqCst);
        found
    }
}
