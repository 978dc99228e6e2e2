//! One transaction of the library: its calls, heartbeats, commit and release.
//!
//! The library's `Transaction` supports one caller at a time, and each of its calls must run to its end:
//! the library runs calls in tasks of their own, so that an abandoned call leaves unknown locks behind.
//! So the transaction lives behind an async mutex here, each call is a task whose outcome is awaited
//! sooner or later, and heartbeats run between calls.
//!
//! Invariants:
//! 1. At most one call is pending, and none starts before the outcome of the previous one was recorded.
//! 2. A holder is either committed or released, and release waits for the pending call first: what it
//!    locked is rolled back, too.
//! 3. A failed heartbeat marks the holder dead permanently; a dead one is not committed.
//!
//! Other clients read the state of a transaction at its primary key. The time to live of the lock there
//! counts from the *start* of the transaction (20 s, heartbeats prolong it). Therefore a [`Holder::is_too_old`]
//! holder without locks is replaced, not used.

use crate::fault::{Failure, Fault};
use crate::orphans;
use crate::reads::REGION_BACKOFF;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tikv_client::transaction::{HeartbeatOption, Mutation};
use tikv_client::{
    Backoff, CheckLevel, RetryOptions, TimestampExt, Transaction, TransactionClient,
    TransactionOptions,
};
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::task::{AbortHandle, JoinHandle};

/// Interval of heartbeats of a transaction that may hold locks.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// One attempt per call: this crate retries, and the store waits at most about 1 s per attempt.
const ONE_ATTEMPT: Backoff = Backoff::no_jitter_backoff(1, 1, 0);

/// A call of the library.
pub(crate) enum Call {
    /// Lock the keys and return their values.
    Lock(Vec<Vec<u8>>),
    /// Lock the keys and buffer the writes.
    Write(Vec<Mutation>),
}

/// Framed values of the existing keys for [`Call::Lock`]; empty for [`Call::Write`].
pub(crate) type Outcome = Result<HashMap<Vec<u8>, Vec<u8>>, Failure>;

/// A guard in the task of a call. Counts calls that were abandoned by their callers and still wait
/// in the store.
struct Running {
    abandoned: AtomicBool,
    count: Arc<AtomicUsize>,
}

impl Drop for Running {
    fn drop(&mut self) {
        if *self.abandoned.get_mut() {
            self.count.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// A transaction of the library.
pub(crate) struct Holder {
    client: TransactionClient,
    slot: Arc<Mutex<Transaction>>,
    pending: Option<JoinHandle<Outcome>>,
    running: Weak<Running>,
    started: Instant,
    dead: Arc<AtomicBool>,
    heartbeat: AbortHandle,
}

async fn heartbeats(slot: Arc<Mutex<Transaction>>, dead: Arc<AtomicBool>) {
    loop {
        tokio::time::sleep(HEARTBEAT).await;
        let heartbeat = slot.lock().await.send_heart_beat().await;
        match heartbeat {
            Ok(_) | Err(tikv_client::Error::NoPrimaryKey) => {}
            Err(e) => {
                tracing::warn!("heartbeat failed: the transaction cannot commit any more: {e}");
                dead.store(true, Ordering::Release);
                return;
            }
        }
    }
}

impl Holder {
    /// Begins a transaction with a new start timestamp.
    pub(crate) async fn begin(client: TransactionClient) -> Result<Holder, Failure> {
        let options = TransactionOptions::new_pessimistic()
            .drop_check(CheckLevel::None)
            .heartbeat_option(HeartbeatOption::NoHeartbeat)
            .retry_options(RetryOptions {
                region_backoff: REGION_BACKOFF,
                lock_backoff: ONE_ATTEMPT,
            });
        let started = Instant::now();
        let transaction = client.begin_with_options(options).await?;
        let slot = Arc::new(Mutex::new(transaction));
        let dead = Arc::new(AtomicBool::new(false));
        let heartbeat = tokio::spawn(heartbeats(slot.clone(), dead.clone())).abort_handle();
        Ok(Holder {
            client,
            slot,
            pending: None,
            running: Weak::new(),
            started,
            dead,
            heartbeat,
        })
    }

    /// Whether it is too old to take its first lock, which would expire soon.
    pub(crate) fn is_too_old(&self) -> bool {
        self.started.elapsed() > HEARTBEAT
    }

    /// Whether its locks may have expired.
    pub(crate) fn may_have_expired(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    /// Starts a call. No call may be pending.
    pub(crate) fn start(&mut self, handle: &Handle, call: Call, abandoned: &Arc<AtomicUsize>) {
        let slot = self.slot.clone();
        let running = Arc::new(Running {
            abandoned: AtomicBool::new(false),
            count: abandoned.clone(),
        });
        self.running = Arc::downgrade(&running);
        self.pending = Some(handle.spawn(async move {
            let _running = running;
            let mut transaction = slot.lock().await;
            match call {
                Call::Lock(keys) => {
                    let pairs = transaction.batch_get_for_update(keys).await?;
                    Ok(pairs.into_iter().map(|p| (Vec::from(p.0), p.1)).collect())
                }
                Call::Write(mutations) => {
                    transaction.batch_mutate(mutations).await?;
                    Ok(HashMap::new())
                }
            }
        }));
    }

    /// The call that was started and whose outcome was not recorded.
    pub(crate) fn pending(&mut self) -> Option<&mut JoinHandle<Outcome>> {
        self.pending.as_mut()
    }

    /// Records that the caller of the pending call has given up.
    pub(crate) fn note_abandoned(&self) {
        if let Some(running) = self.running.upgrade()
            && !running.abandoned.swap(true, Ordering::AcqRel)
        {
            running.count.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Records that the pending call has ended.
    pub(crate) fn record_end(&mut self) {
        self.pending = None;
    }

    /// Rolls back in the background.
    pub(crate) fn release(self, handle: &Handle) -> JoinHandle<()> {
        self.heartbeat.abort();
        handle.spawn(async move {
            if let Some(pending) = self.pending {
                let _ = pending.await;
            }
            if let Err(e) = self.slot.lock().await.rollback().await {
                tracing::warn!("rollback failed: the locks remain until they expire: {e}");
            }
        })
    }

    /// Commits the buffered writes. `keys` are all keys that it locked.
    pub(crate) async fn commit(self, keys: Vec<Vec<u8>>) -> Result<(), Failure> {
        self.heartbeat.abort();
        let mut transaction = self.slot.lock().await;
        let Err(e) = transaction.commit().await else {
            return Ok(());
        };
        let failure = Failure::from(e);
        if failure.is_commit_refused() {
            let owner = transaction.start_timestamp().version();
            remove_prewrites(&self.client, owner, &keys).await;
        }
        Err(failure)
    }
}

/// Removes the prewrites of a refused commit, which the library's own rollback of a pessimistic
/// transaction leaves to expire. If the primary was committed after all, the same requests complete
/// the commit.
async fn remove_prewrites(client: &TransactionClient, owner: u64, keys: &[Vec<u8>]) {
    let (start, end) = orphans::span(keys);
    if let Err(e) = orphans::rollback(client, owner, &start, &end).await {
        tracing::warn!(
            "the locks of a refused commit could not be removed: they remain until they expire: {e}"
        );
    }
}

/// Returns the outcome of a call's task. A panic in the library counts as a failure.
pub(crate) fn outcome(joined: Result<Outcome, tokio::task::JoinError>) -> Outcome {
    joined.unwrap_or_else(|e| {
        let text = format!("the TiKV client failed: {e}");
        Err(Failure::new(Fault::Unreachable, text))
    })
}
