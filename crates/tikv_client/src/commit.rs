//! Commit: one-phase, asynchronous, or two-phase.
//!
//! ```text
//! one region      prewrite(one-phase)                               1 round
//! few keys        prewrite(async) in each region                    1 round, locks become records later
//! otherwise       prewrite in each region, timestamp, commit primary   3 rounds, the others later
//! ```
//!
//! In the first two forms the stores choose the commit timestamp, above every read of the keys. A store may decline (it answers
//! with timestamp 0); then the commit goes on in two phases.
//!
//! Peng and Dabek, "Large-scale Incremental Processing Using Distributed Transactions and Notifications" (2010), describes the
//! two-phase form.
//!
//! Outcomes (rule 35 of docs/internals/transactions.md):
//!
//! | | |
//! |---|---|
//! | success | all writes are committed, or will be by a transaction that meets a lock |
//! | `Conflict`, `Aborted`, `Locked`, `Unavailable`, `Refused` | nothing was changed, nor will be |
//! | `Unknown` | a request that may have committed had no answer, and the status could not be read either |
//!
//! A transaction with locks may write keys that it has not locked (entries that the lock of a row covers). They are not
//! checked; but the stores choose a timestamp above the locks', not above such a key's versions. So these keys are
//! prewritten on the condition that they have no version since the start, and if one has, again without a condition
//! and with a new timestamp as the lower bound.
//!
//! Invariants:
//! 1. Before an error other than `Unknown` is reported, the transaction cannot commit any more: its primary was never
//!    prewritten, or is rolled back.
//! 2. After a request that may have committed had no answer, the transaction's status is read from its primary
//!    (`resolve`), which decides it; no write is sent again after that.

use crate::backoff::Backoff;
use crate::error::{Error, Result};
use crate::locks::lock_ttl;
use crate::proto::{
    BatchRollbackRequest, Command, CommitRequest, KeyError, LockInfo, Mutation, PrewriteRequest,
    PrewriteResponse, Reply, op, pessimistic_action,
};
use crate::resolve::Status;
use crate::router::{GroupLimit, Keyed, Router, unexpected};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Largest part of a prewrite.
const PREWRITE: GroupLimit = GroupLimit {
    items: 4_096,
    bytes: 512 << 10,
};
/// Largest part of a commit or rollback.
const KEYS: GroupLimit = GroupLimit {
    items: 4_096,
    bytes: 512 << 10,
};
/// An asynchronous commit lists its keys in the primary lock: at most this number of keys and of bytes.
const ASYNC_KEYS: usize = 256;
const ASYNC_BYTES: usize = 4 << 10;
/// Time to find the outcome of a commit without an answer.
const DECIDE_TIME: Duration = Duration::from_secs(3);

/// A change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new value, which is not empty.
    Put(Vec<u8>),
    /// The key is removed.
    Delete,
    /// Nothing is changed; the commit fails if the transaction's lock is gone.
    KeepLocked,
}

/// A write of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The key.
    pub key: Vec<u8>,
    /// The change.
    pub change: Change,
    /// Whether the transaction holds a pessimistic lock on the key. If it holds locks, other keys are written
    /// whatever their newest version is.
    pub locked: bool,
}

impl Keyed for Write {
    fn key(&self) -> &[u8] {
        &self.key
    }

    fn bytes(&self) -> usize {
        let value = match &self.change {
            Change::Put(value) => value.len(),
            Change::Delete | Change::KeepLocked => 0,
        };
        self.key.len() + value + 16
    }
}

/// A transaction to commit.
pub(crate) struct CommitCall {
    pub(crate) writes: Vec<Write>,
    pub(crate) primary: Vec<u8>,
    pub(crate) start_ts: u64,
    /// Of the newest lock; 0 without pessimistic locks: then each key must have no version above `start_ts`.
    pub(crate) for_update_ts: u64,
    pub(crate) ttl: Duration,
    /// Time until which locks of others are waited for.
    pub(crate) lock_deadline: Instant,
    /// The commit fails if its timestamp would be above this; 0: no bound.
    pub(crate) max_commit_ts: u64,
}

/// Protocol of a commit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    OnePhase,
    Asynchronous,
    TwoPhase,
}

/// Check of keys that the transaction writes and has not locked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unlocked {
    /// They must have no version above the start timestamp.
    Checked,
    /// Their versions do not matter: a commit timestamp above all of them was chosen.
    Unchecked,
}

/// Plan of a prewrite.
struct Plan {
    form: Form,
    min_commit_ts: u64,
    unlocked: Unlocked,
}

/// Result of a prewrite.
struct Prewritten {
    /// The commit timestamp, if the transaction is committed thereby.
    commit_ts: Option<u64>,
    min_commit_ts: u64,
    /// Whether there are locks to be turned into records.
    leaves_locks: bool,
}

impl Router {
    /// Commits; returns the commit timestamp.
    pub(crate) async fn commit(
        self: &Arc<Self>,
        call: Arc<CommitCall>,
        b: &mut Backoff,
    ) -> Result<u64> {
        let mut plan = Plan {
            form: self.choose_form(&call, b).await?,
            min_commit_ts: call.start_ts.max(call.for_update_ts) + 1,
            unlocked: Unlocked::Checked,
        };
        let began = b.unanswered;
        let mut left = Vec::new();
        let mut result = self.prewrite(&call, &plan, b, &mut left).await;
        if let (Err(Error::Conflict(_)), true) = (&result, call.for_update_ts > 0) {
            // A key without a lock has a newer version. The commit must come after that one.
            plan.unlocked = Unlocked::Unchecked;
            result = match self.pd.timestamp(b).await {
                Ok(now) => {
                    plan.min_commit_ts = now + 1;
                    self.prewrite(&call, &plan, b, &mut left).await
                }
                Err(e) => Err(e),
            };
        }
        let prewritten = match result {
            Ok(prewritten) => prewritten,
            Err(e) => {
                let unanswered = b.unanswered > began;
                let may_be_committed = plan.form != Form::TwoPhase && unanswered;
                // Nothing is left where nothing was locked: no request succeeded.
                if call.for_update_ts == 0 && left.is_empty() && !unanswered {
                    return Err(e);
                }
                return self.refuse(&call, e, may_be_committed).await;
            }
        };
        if let Some(commit_ts) = prewritten.commit_ts {
            if prewritten.leaves_locks {
                self.commit_later(call, commit_ts, true);
            }
            return Ok(commit_ts);
        }
        match self
            .commit_primary(&call, prewritten.min_commit_ts, b)
            .await
        {
            Ok(commit_ts) => {
                self.commit_later(call, commit_ts, false);
                Ok(commit_ts)
            }
            Err((e, may_be_committed)) => self.refuse(&call, e, may_be_committed).await,
        }
    }

    async fn choose_form(&self, call: &CommitCall, b: &mut Backoff) -> Result<Form> {
        let keys = call.writes.iter().map(|w| w.key.clone()).collect();
        let bytes: usize = call.writes.iter().map(Keyed::bytes).sum();
        let one_part = call.writes.len() <= PREWRITE.items && bytes <= PREWRITE.bytes;
        if one_part && self.groups_of::<Vec<u8>>(keys, PREWRITE, b).await? == 1 {
            return Ok(Form::OnePhase);
        }
        let key_bytes: usize = call.writes.iter().map(|w| w.key.len()).sum();
        if call.writes.len() <= ASYNC_KEYS && key_bytes <= ASYNC_BYTES {
            return Ok(Form::Asynchronous);
        }
        Ok(Form::TwoPhase)
    }

    /// Prewrites all keys. An error means that at least one is not prewritten; `left` gets those that are.
    async fn prewrite(
        self: &Arc<Self>,
        call: &CommitCall,
        plan: &Plan,
        b: &mut Backoff,
        left: &mut Vec<Vec<u8>>,
    ) -> Result<Prewritten> {
        let form = plan.form;
        let mut done = Prewritten {
            commit_ts: None,
            min_commit_ts: 0,
            leaves_locks: true,
        };
        // Whether every store has agreed to the form.
        let mut agreed = form != Form::TwoPhase;
        let mut open = call.writes.clone();
        while !open.is_empty() {
            let mut locks: Vec<LockInfo> = Vec::new();
            let mut locked: Vec<Write> = Vec::new();
            let build = |context, part: &[Write]| {
                let whole = part.len() == call.writes.len();
                let mut request = self.prewrite_request(call, part, plan);
                // A region that split meanwhile: no part alone may commit.
                request.try_one_pc &= whole;
                request.use_async_commit |= form == Form::OnePhase && !whole && call.fits_async();
                if request.use_async_commit && has_primary(call, part) {
                    request.secondaries = call.secondaries();
                }
                request.context = Some(context);
                Command::Prewrite(request)
            };
            let take = |part: Vec<Write>, reply| {
                let Reply::Prewrite(r) = reply else {
                    return Err(unexpected());
                };
                if r.errors.is_empty() {
                    left.extend(part.into_iter().map(|w| w.key));
                    note_prewritten(&r, &mut done, &mut agreed);
                    return Ok(());
                }
                for e in r.errors {
                    locks.push(lock_in_the_way(e)?);
                }
                locked.extend(part);
                Ok(())
            };
            self.each(open, PREWRITE, Duration::ZERO, b, build, take)
                .await?;
            if !locked.is_empty() && self.remove_locks(locks, b).await? {
                if Instant::now() >= call.lock_deadline {
                    return Err(Error::Locked);
                }
                b.pause(crate::backoff::Class::Lock, "").await?;
            }
            open = locked;
        }
        if done.leaves_locks && done.commit_ts.is_none() && agreed && form != Form::TwoPhase {
            done.commit_ts = Some(done.min_commit_ts);
        }
        Ok(done)
    }

    fn prewrite_request(&self, call: &CommitCall, part: &[Write], plan: &Plan) -> PrewriteRequest {
        let ttl = lock_ttl(call.start_ts, self.pd.estimated_now(), call.ttl);
        let pessimistic = call.for_update_ts > 0;
        let action = |w: &Write| {
            if w.locked {
                pessimistic_action::CHECK_LOCK
            } else if plan.unlocked == Unlocked::Checked {
                pessimistic_action::CHECK_VERSION
            } else {
                pessimistic_action::SKIP
            }
        };
        let actions = if pessimistic {
            part.iter().map(action).collect()
        } else {
            Vec::new()
        };
        PrewriteRequest {
            context: None,
            mutations: part.iter().map(mutation).collect(),
            primary_lock: call.primary.clone(),
            start_version: call.start_ts,
            lock_ttl: ttl,
            pessimistic_actions: actions,
            txn_size: call.writes.len() as u64,
            for_update_ts: call.for_update_ts,
            min_commit_ts: plan.min_commit_ts,
            use_async_commit: plan.form == Form::Asynchronous,
            secondaries: Vec::new(),
            try_one_pc: plan.form == Form::OnePhase,
            max_commit_ts: call.max_commit_ts,
        }
    }

    /// Commits the primary key. The error says whether a request that may have committed had no answer.
    async fn commit_primary(
        &self,
        call: &CommitCall,
        mut least: u64,
        b: &mut Backoff,
    ) -> std::result::Result<u64, (Error, bool)> {
        let mut sent_before = 0;
        loop {
            let certain = |e| (e, sent_before > 0);
            let commit_ts = self.pd.timestamp(b).await.map_err(certain)?.max(least);
            if call.max_commit_ts > 0 && commit_ts > call.max_commit_ts {
                let why = "the commit would come after its time limit";
                return Err((Error::Aborted(why.into()), sent_before > 0));
            }
            let unanswered = b.unanswered;
            let build = |context| {
                Command::Commit(CommitRequest {
                    context: Some(context),
                    start_version: call.start_ts,
                    keys: vec![call.primary.clone()],
                    commit_version: commit_ts,
                })
            };
            let reply = self.one(&call.primary, b, build).await;
            sent_before += b.unanswered - unanswered;
            match reply {
                Ok(Reply::Commit(r)) => match r.error {
                    None => return Ok(commit_ts),
                    Some(KeyError {
                        commit_ts_expired: Some(expired),
                        ..
                    }) => least = expired.min_commit_ts,
                    Some(e) => {
                        let gone = Error::Aborted(format!("the commit was refused: {e:?}"));
                        return Err((gone, sent_before > 0));
                    }
                },
                Ok(_) => return Err((unexpected(), true)),
                Err(e) => return Err((e, sent_before > 0)),
            }
        }
    }

    /// Turns locks into records in the background; `primary` says whether that of the primary is among them.
    fn commit_later(self: &Arc<Self>, call: Arc<CommitCall>, commit_ts: u64, primary: bool) {
        let keys: Vec<Vec<u8>> = (call.writes.iter())
            .map(|w| w.key.clone())
            .filter(|key| primary || *key != call.primary)
            .collect();
        if keys.is_empty() {
            return;
        }
        let router = self.clone();
        let start_ts = call.start_ts;
        let mut b = Backoff::until(Instant::now() + call.ttl);
        tokio::spawn(async move {
            let build = |context, keys: &[Vec<u8>]| {
                Command::Commit(CommitRequest {
                    context: Some(context),
                    start_version: start_ts,
                    keys: keys.to_vec(),
                    commit_version: commit_ts,
                })
            };
            let take = |_, reply| match reply {
                Reply::Commit(r) if r.error.is_none() => Ok(()),
                other => Err(Error::Unavailable(format!("{other:?}"))),
            };
            let done = router.each(keys, KEYS, Duration::ZERO, &mut b, build, take);
            if let Err(e) = done.await {
                tracing::debug!("locks of a committed transaction stay for others: {e}");
            }
        });
    }

    /// Ends a commit that failed: finds its outcome if that is open, and rolls back.
    async fn refuse(
        self: &Arc<Self>,
        call: &CommitCall,
        e: Error,
        may_be_committed: bool,
    ) -> Result<u64> {
        if !may_be_committed {
            self.roll_back(call).await;
            return Err(e);
        }
        let mut b = Backoff::until(Instant::now() + DECIDE_TIME);
        match self.decide(&call.primary, call.start_ts, &mut b).await {
            Ok(Status::Committed(ts)) => Ok(ts),
            Ok(Status::RolledBack) => {
                self.roll_back(call).await;
                Err(match e {
                    Error::Conflict(_) | Error::Aborted(_) | Error::Locked => e,
                    other => Error::Unavailable(other.to_string()),
                })
            }
            Ok(Status::Alive { .. }) | Err(_) => Err(Error::Unknown(e.to_string())),
        }
    }

    /// Removes prewritten and pessimistic locks of a transaction that will not commit.
    async fn roll_back(self: &Arc<Self>, call: &CommitCall) {
        let mut b = Backoff::until(Instant::now() + self.request_time);
        let keys: Vec<Vec<u8>> = call.writes.iter().map(|w| w.key.clone()).collect();
        let start_version = call.start_ts;
        let build = |context, keys: &[Vec<u8>]| {
            Command::BatchRollback(BatchRollbackRequest {
                context: Some(context),
                start_version,
                keys: keys.to_vec(),
            })
        };
        let take = |_, reply| match reply {
            Reply::BatchRollback(r) if r.error.is_none() => Ok(()),
            other => Err(Error::Unavailable(format!("{other:?}"))),
        };
        let done = self.each(keys, KEYS, Duration::ZERO, &mut b, build, take);
        if let Err(e) = done.await {
            tracing::warn!("locks of a refused commit stay until they expire: {e}");
        }
    }
}

impl CommitCall {
    fn secondaries(&self) -> Vec<Vec<u8>> {
        let others = self.writes.iter().filter(|w| w.key != self.primary);
        others.map(|w| w.key.clone()).collect()
    }

    fn fits_async(&self) -> bool {
        let bytes: usize = self.writes.iter().map(|w| w.key.len()).sum();
        self.writes.len() <= ASYNC_KEYS && bytes <= ASYNC_BYTES
    }
}

fn has_primary(call: &CommitCall, part: &[Write]) -> bool {
    part.iter().any(|w| w.key == call.primary)
}

fn mutation(w: &Write) -> Mutation {
    let (op, value) = match &w.change {
        Change::Put(value) => (op::PUT, value.clone()),
        Change::Delete => (op::DELETE, Vec::new()),
        Change::KeepLocked => (op::LOCK, Vec::new()),
    };
    Mutation {
        op,
        key: w.key.clone(),
        value,
    }
}

fn note_prewritten(r: &PrewriteResponse, done: &mut Prewritten, agreed: &mut bool) {
    if r.one_pc_commit_ts > 0 {
        done.commit_ts = Some(r.one_pc_commit_ts);
        done.leaves_locks = false;
    }
    *agreed &= r.one_pc_commit_ts > 0 || r.min_commit_ts > 0;
    done.min_commit_ts = done.min_commit_ts.max(r.min_commit_ts);
}

/// The lock that keeps a prewrite from a key; other errors end the commit.
fn lock_in_the_way(e: KeyError) -> Result<LockInfo> {
    match e {
        KeyError {
            locked: Some(lock), ..
        } => Ok(lock),
        KeyError {
            conflict: Some(c), ..
        } => Err(Error::Conflict(format!(
            "a version of {} is newer than {}",
            c.conflict_commit_ts, c.start_ts
        ))),
        KeyError {
            deadlock: Some(_), ..
        } => Err(Error::Deadlock),
        e => Err(Error::Aborted(format!("{e:?}"))),
    }
}
