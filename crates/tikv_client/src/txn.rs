//! A transaction: its locks, heartbeats, and its end.
//!
//! A transaction without locks is only a start timestamp. The first lock names the *primary* key, and starts a task that
//! prolongs the primary's time to live; all other locks point to it. A transaction whose server died is rolled back
//! by any transaction that meets one of its locks after that time.
//!
//! Calls run in tasks that always run to their end, because a store may execute a request whose caller has
//! given up: a lock granted too late is given back by the task itself.
//!
//! Invariants:
//! 1. At most one lock call is running, and none starts before the previous one has ended.
//! 2. A transaction is either committed or released; release waits for a running call first.
//! 3. After a failed heartbeat the transaction cannot commit.

use crate::backoff::Backoff;
use crate::call::Call;
use crate::commit::{CommitCall, Write};
use crate::error::{Error, Result};
use crate::locks::{Grant, LockCall, LockWait, lock_ttl};
use crate::proto::{Command, Reply, TxnHeartBeatRequest};
use crate::router::Router;
use crate::shared::Shared;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::task::{AbortHandle, JoinHandle};

/// Time for the release of locks.
const RELEASE_TIME: Duration = Duration::from_secs(30);

type LockTask = JoinHandle<Result<Vec<Grant>>>;

/// A transaction.
pub struct Transaction {
    client: Arc<Shared>,
    start_ts: u64,
    primary: Option<Vec<u8>>,
    /// Keys that are locked.
    held: Vec<Vec<u8>>,
    for_update_ts: u64,
    running: Option<LockTask>,
    heartbeat: Option<AbortHandle>,
    dead: Arc<AtomicBool>,
}

/// Conditions of a commit.
#[derive(Clone, Copy, Debug)]
pub struct CommitOptions {
    /// Time for which locks of other transactions on keys that are not locked before are waited for.
    pub lock_wait: Duration,
    /// The commit fails with [`Error::Aborted`] if its timestamp would be above this; 0: no bound.
    pub max_commit_ts: u64,
}

/// Sends heartbeats until one fails for good.
async fn heartbeats(
    router: Arc<Router>,
    primary: Vec<u8>,
    start_ts: u64,
    ttl: Duration,
    dead: Arc<AtomicBool>,
) {
    loop {
        tokio::time::sleep(ttl / 4).await;
        // Several attempts, as long as the lock lives for certain.
        let mut b = Backoff::until(Instant::now() + ttl / 2);
        let advised = lock_ttl(start_ts, router.pd.estimated_now(), ttl);
        let build = |context| {
            Command::TxnHeartBeat(TxnHeartBeatRequest {
                context: Some(context),
                primary_lock: primary.clone(),
                start_version: start_ts,
                advise_lock_ttl: advised,
            })
        };
        let failure = match router.one(&primary, &mut b, build).await {
            Ok(Reply::TxnHeartBeat(reply)) => match reply.error {
                None => continue,
                Some(e) => format!("{e:?}"),
            },
            Ok(_) => "an answer of another kind".into(),
            Err(e) => e.to_string(),
        };
        tracing::warn!(
            "heartbeat failed: transaction {start_ts} cannot commit any more: {failure}"
        );
        dead.store(true, Ordering::Release);
        return;
    }
}

/// Counts a release while it lasts.
struct Releasing(Arc<Router>);

impl Releasing {
    fn new(router: Arc<Router>) -> Releasing {
        router.releasing.fetch_add(1, Ordering::AcqRel);
        Releasing(router)
    }
}

impl Drop for Releasing {
    fn drop(&mut self) {
        self.0.releasing.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Transaction {
    pub(crate) fn new(client: Arc<Shared>, start_ts: u64) -> Transaction {
        Transaction {
            client,
            start_ts,
            primary: None,
            held: Vec::new(),
            for_update_ts: 0,
            running: None,
            heartbeat: None,
            dead: Arc::default(),
        }
    }

    /// Its start timestamp.
    pub fn start_ts(&self) -> u64 {
        self.start_ts
    }

    /// Whether it has taken a lock.
    pub fn has_locks(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether its locks may have expired.
    pub fn may_have_expired(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    fn router(&self) -> &Arc<Router> {
        &self.client.router
    }

    /// Waits for a lock call whose caller has given up, and releases the locks that it was granted.
    fn settle(&mut self, call: Call<'_>) -> Result<()> {
        let Some(running) = self.running.as_mut() else {
            return Ok(());
        };
        let joined = self
            .client
            .threads
            .wait(call, async { Ok(running.await) })?;
        self.running = None;
        let Ok(Ok(grants)) = joined else {
            return Ok(());
        };
        let keys: Vec<Vec<u8>> = grants.into_iter().map(|g| g.key).collect();
        let mut b = Backoff::until(Instant::now() + RELEASE_TIME);
        let back = self.router().unlock(keys, self.start_ts, u64::MAX, &mut b);
        self.client.threads.wait(call, back)
    }

    fn note_held(&mut self, grants: &[Grant]) {
        self.held.extend(grants.iter().map(|g| g.key.clone()));
        // The commit names the newest timestamp of its locks.
        let newest = grants.iter().map(|g| g.for_update_ts).max();
        self.for_update_ts = self.for_update_ts.max(newest.unwrap_or(0));
    }

    /// Locks keys, none of which it holds, and returns their newest values. `for_update_ts` is the timestamp above
    /// which no version may exist for a grant to be unmarked ([`Grant::newer`]); it is not below the start timestamp.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::Deadlock`], or others; none of `keys` is locked then.
    pub fn lock(
        &mut self,
        call: Call<'_>,
        keys: Vec<Vec<u8>>,
        for_update_ts: u64,
        wait: LockWait,
    ) -> Result<Vec<Grant>> {
        self.settle(call)?;
        let Some(first) = keys.first() else {
            return Ok(Vec::new());
        };
        debug_assert!(keys.iter().all(|k| !self.held.contains(k)));
        let takes_primary = self.held.is_empty();
        let primary = if takes_primary {
            first.clone()
        } else {
            self.primary.clone().unwrap_or_else(|| first.clone())
        };
        self.primary = Some(primary.clone());
        self.for_update_ts = self.for_update_ts.max(for_update_ts);
        let lock_call = LockCall {
            keys,
            primary,
            takes_primary,
            start_ts: self.start_ts,
            for_update_ts: for_update_ts.max(self.start_ts),
            ttl: self.client.options.lock_ttl,
            wait,
        };
        // The time limit is that of the cluster's availability; the wait for locks has its own.
        let patience = Instant::now() + self.client.options.retry_time;
        let deadline = match wait {
            LockWait::Until(at) => patience.max(at),
            LockWait::No => patience,
        };
        let router = self.router().clone();
        let task = async move {
            let mut b = Backoff::until(deadline);
            router.lock(lock_call, &mut b).await
        };
        let running = self
            .running
            .insert(self.client.threads.handle().spawn(task));
        let joined = self
            .client
            .threads
            .wait(call, async { Ok(running.await) })?;
        self.running = None;
        let grants =
            joined.map_err(|e| Error::Unavailable(format!("the TiKV client failed: {e}")))??;
        self.note_held(&grants);
        if takes_primary {
            self.start_heartbeat();
        }
        Ok(grants)
    }

    fn start_heartbeat(&mut self) {
        let Some(primary) = self.primary.clone() else {
            return;
        };
        let ttl = self.client.options.lock_ttl;
        let beating = heartbeats(
            self.router().clone(),
            primary,
            self.start_ts,
            ttl,
            self.dead.clone(),
        );
        let task = self.client.threads.handle().spawn(beating);
        self.heartbeat = Some(task.abort_handle());
    }

    /// Commits `writes`, which must name every key that is locked. Returns the commit timestamp.
    ///
    /// Without locks, each key must have no version above the start timestamp. The cancellation of
    /// `call` has no effect once requests are sent.
    ///
    /// # Errors
    /// As the header of the module `commit` states. The transaction is over in every case.
    pub fn commit(
        mut self,
        call: Call<'_>,
        writes: Vec<Write>,
        options: CommitOptions,
    ) -> Result<u64> {
        self.settle(call)?;
        if self.may_have_expired() {
            return Err(Error::Aborted("its locks may have expired".into()));
        }
        let Some(first) = writes.first() else {
            return Err(Error::Aborted("a commit without writes".into()));
        };
        let primary = match &self.primary {
            Some(primary) if self.has_locks() => primary.clone(),
            _ => first.key.clone(),
        };
        let now = Instant::now();
        let time = self.client.options.retry_time;
        let commit = Arc::new(CommitCall {
            writes,
            primary,
            start_ts: self.start_ts,
            for_update_ts: if self.has_locks() {
                self.for_update_ts.max(self.start_ts)
            } else {
                0
            },
            ttl: self.client.options.lock_ttl,
            lock_deadline: now + options.lock_wait,
            max_commit_ts: options.max_commit_ts,
        });
        self.held.clear();
        let router = self.router().clone();
        let task = self.client.threads.handle().spawn(async move {
            let mut b = Backoff::until(now + time.max(options.lock_wait));
            router.commit(commit, &mut b).await
        });
        // Longer than the task takes in any case.
        let limit = 2 * time + options.lock_wait + Duration::from_secs(60);
        let outcome = match self.client.threads.within(limit, task) {
            Some(Ok(result)) => result,
            Some(Err(e)) => Err(Error::Unknown(format!("the TiKV client failed: {e}"))),
            None => Err(Error::Unknown(format!("no answer in {limit:?}"))),
        };
        self.end();
        outcome
    }

    fn end(&mut self) {
        if let Some(heartbeat) = self.heartbeat.take() {
            heartbeat.abort();
        }
    }

    /// Gives all locks back in the background.
    fn release(&mut self) -> Option<JoinHandle<()>> {
        self.end();
        let held = std::mem::take(&mut self.held);
        let running = self.running.take();
        if held.is_empty() && running.is_none() {
            return None;
        }
        let releasing = Releasing::new(self.router().clone());
        let start_ts = self.start_ts;
        Some(self.client.threads.handle().spawn(async move {
            let router = &releasing.0;
            let mut keys = held;
            if let Some(running) = running
                && let Ok(Ok(grants)) = running.await
            {
                keys.extend(grants.into_iter().map(|g| g.key));
            }
            if keys.is_empty() {
                return;
            }
            let mut b = Backoff::until(Instant::now() + RELEASE_TIME);
            if let Err(e) = router.unlock(keys, start_ts, u64::MAX, &mut b).await {
                tracing::warn!("rollback failed: the locks remain until they expire: {e}");
            }
        }))
    }

    /// Gives all locks back, and waits for that for at most `limit`; later ones are given back in the background.
    pub fn rollback(mut self, limit: Duration) {
        let waits_on = self.running.is_some();
        if let Some(released) = self.release()
            && !waits_on
        {
            let _ = self.client.threads.within(limit, released);
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        let _ = self.release();
    }
}
