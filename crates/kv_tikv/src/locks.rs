//! The locks of a transaction: the set of held keys, and waiting for more.
//!
//! TiKV itself waits for a lock for about 1 s, then reports that it is held; the library is configured to
//! try once, and the loop here retries until the deadline. If a lock was released by a commit, TiKV
//! refuses with a write conflict, because the lock was requested at an older timestamp: the loop retries
//! at a new one.
//!
//! A call whose deadline has passed goes on waiting in the store for up to 1 s, where the deadlock
//! detector may still count it. So while this server has such calls, a deadlock is reported only if it
//! persists after they have ended.
//!
//! Invariants:
//! 1. `held` has exactly the keys of calls that succeeded; they are not passed to [`Call::Lock`] again.
//! 2. A held key's value does not change while the lock exists. It is stored with the number of
//!    snapshots taken before the grant was recorded: a snapshot taken later cannot be older than the
//!    value.

use crate::cluster::Cluster;
use crate::fault::{Failure, Fault};
use crate::holder::{Call, Holder, Outcome, outcome};
use crate::io::WaitOutcome;
use crate::orphans;
use crate::reads;
use porpoise_base::cancel::Cancel;
use porpoise_kv::{Error, Result};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tikv_client::TransactionClient;
use tikv_client::transaction::Mutation;

/// Pause after a refusal that came faster than the store's own wait.
const PAUSE: Duration = Duration::from_millis(10);
/// Time for which a reported deadlock may be false: longer than a call lasts after its deadline.
const FALSE_DEADLOCK_TIME: Duration = Duration::from_millis(1500);
/// Minimum time for a lock request: a free lock is granted even if the deadline is nearer.
const MIN_LOCK_REQUEST_TIME: Duration = Duration::from_millis(250);

/// A lock that the transaction has.
pub(crate) struct HeldLock {
    /// The newest committed value, framed.
    pub(crate) value: Option<Vec<u8>>,
    /// Number of snapshots taken before the grant was recorded.
    pub(crate) snapshots: u64,
    /// Whether the value differs from that at snapshot number `snapshots`.
    pub(crate) newer: Option<bool>,
}

/// Context of a wait: the cluster, and the limits of the wait.
pub(crate) struct Waiter<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) client: &'a TransactionClient,
    pub(crate) cancel: &'a Cancel,
    pub(crate) deadline: Instant,
    /// Number of snapshots taken so far.
    pub(crate) snapshots: u64,
}

impl Waiter<'_> {
    fn wait<F: Future>(&self, deadline: Instant, future: F) -> Result<F::Output> {
        match self.cluster.io.wait(self.cancel, Some(deadline), future) {
            WaitOutcome::Done(value) => Ok(value),
            WaitOutcome::Deadline => {
                self.cluster.metrics.lock_timeouts.add(1);
                Err(Error::LockTimeout)
            }
            WaitOutcome::Cancelled(reason) => Err(Error::Cancelled(reason)),
        }
    }

    /// Decides after a failed lock call; `Ok` to retry.
    fn check_retry(
        &self,
        failure: Failure,
        began: Instant,
        deadlocked: &mut Option<Instant>,
        keys: &[Vec<u8>],
    ) -> Result<()> {
        match failure.fault {
            Fault::Busy | Fault::Conflict => {}
            Fault::Deadlock => {
                let since = *deadlocked.get_or_insert_with(Instant::now);
                if self.cluster.abandoned.load(Ordering::Acquire) == 0
                    || since.elapsed() > FALSE_DEADLOCK_TIME
                {
                    self.cluster.metrics.deadlocks.add(1);
                    return Err(Error::Deadlock);
                }
            }
            _ => {
                tracing::debug!("a lock was refused: {failure}");
                return Err(failure.into_lock_error());
            }
        }
        self.cluster.metrics.lock_retries.add(1);
        if Instant::now() >= self.deadline {
            self.cluster.metrics.lock_timeouts.add(1);
            return Err(Error::LockTimeout);
        }
        if let Some(owner) = failure.orphan {
            let (start, end) = orphans::span(keys);
            let removed = orphans::remove(self.client, owner, &start, &end);
            return self
                .wait(self.deadline, removed)?
                .map_err(Failure::into_read_error);
        }
        if failure.fault != Fault::Conflict && began.elapsed() < 2 * PAUSE {
            self.wait(self.deadline, async { tokio::time::sleep(PAUSE).await })?;
        }
        Ok(())
    }
}

/// The locks of one transaction.
#[derive(Default)]
pub(crate) struct Locks {
    held: HashMap<Vec<u8>, HeldLock>,
    holder: Option<Holder>,
    /// The keys of the pending call.
    requested: Vec<Vec<u8>>,
}

impl Locks {
    pub(crate) fn get(&self, key: &[u8]) -> Option<&HeldLock> {
        self.held.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &[u8]) -> Option<&mut HeldLock> {
        self.held.get_mut(key)
    }

    /// Whether nothing is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.held.keys()
    }

    /// Whether held locks may have expired.
    pub(crate) fn may_have_expired(&self) -> bool {
        self.holder.as_ref().is_some_and(Holder::may_have_expired)
    }

    /// Takes the library's transaction out, for commit or release.
    pub(crate) fn take(&mut self) -> Option<Holder> {
        self.held.clear();
        self.holder.take()
    }

    fn record_outcome(&mut self, snapshots: u64, result: Outcome) -> Outcome {
        let requested = std::mem::take(&mut self.requested);
        if let Some(holder) = &mut self.holder {
            holder.record_end();
        }
        let mut values = result?;
        for key in requested {
            let held = HeldLock {
                value: values.remove(&key),
                snapshots,
                newer: None,
            };
            self.held.entry(key).or_insert(held);
        }
        Ok(values)
    }

    /// Waits for a call that outlived its deadline, and records its outcome.
    pub(crate) fn await_pending_call(&mut self, w: &Waiter<'_>) -> Result<()> {
        let Some(pending) = self.holder.as_mut().and_then(Holder::pending) else {
            return Ok(());
        };
        let joined = w.wait(
            w.deadline.max(Instant::now() + MIN_LOCK_REQUEST_TIME),
            pending,
        )?;
        // A failure was reported as a timeout already.
        let _ = self.record_outcome(w.snapshots, outcome(joined));
        Ok(())
    }

    /// Returns a library transaction that can take locks.
    fn holder(&mut self, w: &Waiter<'_>) -> Result<&mut Holder> {
        if self.held.is_empty()
            && self.holder.as_ref().is_some_and(Holder::is_too_old)
            && let Some(old) = self.holder.take()
        {
            old.release(w.cluster.io.handle());
        }
        if self.holder.is_none() {
            let begun = Holder::begin(w.client.clone());
            let deadline = w.deadline.max(Instant::now() + MIN_LOCK_REQUEST_TIME);
            let begun = w.wait(deadline, begun)?;
            self.holder = Some(begun.map_err(Failure::into_read_error)?);
        }
        match &mut self.holder {
            Some(holder) if !holder.may_have_expired() => Ok(holder),
            _ => Err(Error::Conflict),
        }
    }

    /// Makes one call and waits for it, until the deadline.
    fn call(&mut self, w: &Waiter<'_>, call: Call, requested: Vec<Vec<u8>>) -> Result<Outcome> {
        let holder = self.holder(w)?;
        holder.start(w.cluster.io.handle(), call, &w.cluster.abandoned);
        self.requested = requested;
        let deadline = w.deadline.max(Instant::now() + MIN_LOCK_REQUEST_TIME);
        let Some(pending) = self.holder.as_mut().and_then(Holder::pending) else {
            return Err(Error::Ended);
        };
        match w.wait(deadline, pending) {
            Ok(joined) => Ok(self.record_outcome(w.snapshots, outcome(joined))),
            Err(e) => {
                if let Some(holder) = &self.holder {
                    holder.note_abandoned();
                }
                // The store may still grant the lock. If nothing else is held, the transaction is
                // released, so that others need not wait for it.
                if self.held.is_empty()
                    && let Some(holder) = self.take()
                {
                    holder.release(w.cluster.io.handle());
                }
                Err(e)
            }
        }
    }

    /// Locks those of `keys` that are not held. They must be sorted.
    pub(crate) fn acquire(&mut self, w: &Waiter<'_>, keys: Vec<Vec<u8>>) -> Result<()> {
        self.await_pending_call(w)?;
        let mut deadlocked = None;
        for mut batch in reads::batches(keys, reads::FIRST_KEYS) {
            loop {
                batch.retain(|key| !self.held.contains_key(key));
                if batch.is_empty() {
                    break;
                }
                let began = Instant::now();
                match self.call(w, Call::Lock(batch.clone()), batch.clone())? {
                    Ok(_) => break,
                    Err(failure) => w.check_retry(failure, began, &mut deadlocked, &batch)?,
                }
                self.await_pending_call(w)?;
            }
        }
        Ok(())
    }

    /// Locks and buffers writes of a transaction without locks, waiting as [`Locks::acquire`] does.
    pub(crate) fn write_unheld(
        &mut self,
        w: &Waiter<'_>,
        keys: &[Vec<u8>],
        mutations: impl Fn() -> Vec<Mutation>,
    ) -> Result<()> {
        let mut deadlocked = None;
        loop {
            let began = Instant::now();
            match self.write_once(w, mutations())? {
                Ok(_) => return Ok(()),
                Err(failure) => w.check_retry(failure, began, &mut deadlocked, keys)?,
            }
        }
    }

    /// Locks again and buffers writes in one call, without a retry, because a failure may have lost
    /// locks.
    pub(crate) fn write_held(&mut self, w: &Waiter<'_>, mutations: Vec<Mutation>) -> Result<()> {
        let outcome = self.write_once(w, mutations)?;
        outcome.map(|_| ()).map_err(|failure| {
            if failure.fault == Fault::Deadlock {
                w.cluster.metrics.deadlocks.add(1);
            }
            match failure.into_lock_error() {
                Error::LockTimeout => Error::Conflict,
                e => e,
            }
        })
    }

    fn write_once(&mut self, w: &Waiter<'_>, mutations: Vec<Mutation>) -> Result<Outcome> {
        self.call(w, Call::Write(mutations), Vec::new())
    }
}
