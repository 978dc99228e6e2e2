//! Resolution of other transactions' locks.
//!
//! A lock names its transaction's *primary* key, whose lock or record decides the transaction. A request that meets a
//! lock asks there (`CheckTxnStatus`):
//!
//! | status | a read at `ts` | a write |
//! |---|---|---|
//! | committed at or below `ts` | counts the lock as committed | removes it |
//! | committed above `ts`, or rolled back | ignores the lock | removes it |
//! | alive | makes it commit above `ts`, then ignores the lock | waits |
//! | expired | the check rolled it back: ignores the lock | removes it |
//!
//! So a read waits for no transaction that commits in two phases. Locks that are decided are removed in the
//! background for reads (`ResolveLock`).
//!
//! **Asynchronous commit.** Such a transaction is committed once all its keys are prewritten, before its primary says so;
//! its status is that of all keys together (`CheckSecondaryLocks`, which also prevents missing ones from
//! coming). Asking that early would roll back a transaction whose requests are on their way, so a read waits
//! [`ASYNC_PATIENCE`] first.
//!
//! **Pessimistic locks** hold no values: a read does not meet them. They are removed by
//! `PessimisticRollback` only, because stores keep them in memory, where `ResolveLock` does not look.
//!
//! Invariants:
//! 1. A lock is removed only after the store of the primary key has decided its transaction for good.
//! 2. Every timestamp in a request was given out by the placement driver (or is `u64::MAX`). Stores keep the greatest timestamp that they
//!    have seen, and commits come above it: a commit above the placement driver's time would be missing from snapshots that are taken
//!    after it was reported. TiKV ends its process on such a timestamp since version 8.5.

use crate::backoff::{Backoff, Class};
use crate::error::{Error, Result};
use crate::proto::{
    CheckSecondaryLocksRequest, CheckTxnStatusRequest, Command, KeyError, LockInfo,
    PessimisticRollbackRequest, Reply, ResolveLockRequest, action, op,
};
use crate::router::{GroupLimit, Router, unexpected};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Time that a read or write gives an asynchronous commit before it looks at all of its keys.
const ASYNC_PATIENCE: Duration = Duration::from_millis(1_500);
/// Greatest age of a timestamp by which it is decided whether a lock has expired.
const MAX_TIMESTAMP_AGE: Duration = Duration::from_millis(500);
/// From this size of a transaction on, all its locks of a region are removed at once.
const LARGE_TXN: u64 = 16;

/// Locks of decided transactions that a read passes.
#[derive(Clone, Default, Debug)]
pub(crate) struct PassedLocks {
    pub(crate) ignored: Vec<u64>,
    pub(crate) committed: Vec<u64>,
}

/// Status of a transaction.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Status {
    /// Committed at this timestamp.
    Committed(u64),
    /// It will never commit.
    RolledBack,
    /// Not decided.
    Alive {
        /// It will not commit at or below the caller's timestamp.
        pushed: bool,
        /// Its primary lock, if it commits asynchronously.
        async_commit: Option<Box<LockInfo>>,
    },
}

/// Whether a lock's time to live has passed at `now`.
fn is_expired(lock_ts: u64, ttl: u64, now: u64) -> bool {
    crate::pd::physical_ms(lock_ts).saturating_add(ttl) <= crate::pd::physical_ms(now)
}

/// A question for the status of a transaction.
struct Question<'a> {
    primary: &'a [u8],
    start_ts: u64,
    /// A live transaction must not commit at or below this; 0: it may.
    push_above: u64,
    now: u64,
    rollback_if_missing: bool,
    pessimistic: bool,
    force_sync: bool,
}

impl Router {
    async fn ask_status(&self, q: &Question<'_>, b: &mut Backoff) -> Result<Status> {
        let build = |context| {
            Command::CheckTxnStatus(CheckTxnStatusRequest {
                context: Some(context),
                primary_key: q.primary.to_vec(),
                lock_ts: q.start_ts,
                caller_start_ts: q.push_above,
                current_ts: q.now,
                rollback_if_not_exist: q.rollback_if_missing,
                force_sync_commit: q.force_sync,
                resolving_pessimistic_lock: q.pessimistic,
                verify_is_primary: true,
            })
        };
        let Reply::CheckTxnStatus(reply) = self.one(q.primary, b, build).await? else {
            return Err(unexpected());
        };
        if let Some(e) = reply.error {
            return match e {
                // Its locks may still be on their way.
                KeyError {
                    txn_not_found: Some(_),
                    ..
                } => Ok(Status::Alive {
                    pushed: false,
                    async_commit: None,
                }),
                // The primary of a pessimistic transaction was another key at first: the lock that names
                // this one is a leftover.
                KeyError {
                    primary_mismatch: Some(_),
                    ..
                } if q.pessimistic => Ok(Status::RolledBack),
                other => Err(Error::Unavailable(format!(
                    "the status of a transaction: {other:?}"
                ))),
            };
        }
        Ok(if reply.commit_version > 0 {
            Status::Committed(reply.commit_version)
        } else if reply.lock_ttl > 0 {
            let lock = reply.lock_info;
            let above = lock.as_ref().map_or(0, |l| l.min_commit_ts);
            Status::Alive {
                pushed: reply.action == action::MIN_COMMIT_TS_PUSHED
                    || (q.push_above > 0 && above > q.push_above),
                async_commit: lock.filter(|l| l.use_async_commit).map(Box::new),
            }
        } else {
            match reply.lock_info {
                // An asynchronous commit whose time has passed is reported without a decision.
                Some(lock) if lock.use_async_commit => Status::Alive {
                    pushed: false,
                    async_commit: Some(Box::new(lock)),
                },
                _ => Status::RolledBack,
            }
        })
    }

    /// Decides an asynchronous commit by all its keys.
    async fn decide_async(&self, primary: &LockInfo, b: &mut Backoff) -> Result<Status> {
        let limit = GroupLimit {
            items: 1_000,
            bytes: 1 << 20,
        };
        let start_version = primary.lock_version;
        let mut commit_ts = primary.min_commit_ts;
        let mut decided = None;
        let mut fell_back = false;
        let build = |context, keys: &[Vec<u8>]| {
            Command::CheckSecondaryLocks(CheckSecondaryLocksRequest {
                context: Some(context),
                keys: keys.to_vec(),
                start_version,
            })
        };
        let take = |keys: Vec<Vec<u8>>, reply| {
            let Reply::CheckSecondaryLocks(reply) = reply else {
                return Err(unexpected());
            };
            if let Some(e) = reply.error {
                return Err(Error::Unavailable(format!("secondary locks: {e:?}")));
            }
            for lock in &reply.locks {
                fell_back |= !lock.use_async_commit;
                commit_ts = commit_ts.max(lock.min_commit_ts);
            }
            if reply.locks.len() < keys.len() {
                decided = Some(match reply.commit_ts {
                    0 => Status::RolledBack,
                    ts => Status::Committed(ts),
                });
            }
            Ok(())
        };
        let keys = primary.secondaries.clone();
        self.each(keys, limit, Duration::ZERO, b, build, take)
            .await?;
        if fell_back && decided.is_none() {
            let q = Question {
                primary: &primary.key,
                start_ts: start_version,
                push_above: 0,
                now: self.recent(b).await?,
                rollback_if_missing: true,
                pessimistic: false,
                force_sync: true,
            };
            return self.ask_status(&q, b).await;
        }
        Ok(decided.unwrap_or(Status::Committed(commit_ts)))
    }

    /// A timestamp that was given out lately, or a new one.
    async fn recent(&self, b: &Backoff) -> Result<u64> {
        match self.pd.recent(MAX_TIMESTAMP_AGE) {
            Some(ts) => Ok(ts),
            None => self.pd.timestamp(b).await,
        }
    }

    /// A timestamp by which it is decided whether a lock has expired.
    async fn time_of(&self, lock: &LockInfo, b: &Backoff) -> Result<u64> {
        if is_expired(lock.lock_version, lock.lock_ttl, self.pd.estimated_now()) {
            self.recent(b).await
        } else {
            Ok(self.pd.newest())
        }
    }

    /// Status of the transaction of a lock. `push_above` as in [`Question`].
    async fn status_of(&self, lock: &LockInfo, push_above: u64, b: &mut Backoff) -> Result<Status> {
        let now = self.time_of(lock, b).await?;
        let expired = is_expired(lock.lock_version, lock.lock_ttl, now);
        let q = Question {
            primary: &lock.primary_lock,
            start_ts: lock.lock_version,
            push_above,
            now,
            rollback_if_missing: expired,
            pessimistic: lock.lock_type == op::PESSIMISTIC_LOCK,
            force_sync: false,
        };
        let status = self.ask_status(&q, b).await?;
        match status {
            Status::Alive {
                async_commit: Some(primary),
                ..
            } if b.elapsed() >= ASYNC_PATIENCE
                || is_expired(
                    primary.lock_version,
                    primary.lock_ttl,
                    self.pd.estimated_now(),
                ) =>
            {
                let primary = LockInfo {
                    key: lock.primary_lock.clone(),
                    ..*primary
                };
                self.decide_async(&primary, b).await
            }
            other => Ok(other),
        }
    }

    /// Decides the transaction of this client for good: after a commit without an answer. What is not
    /// committed is rolled back.
    pub(crate) async fn decide(
        &self,
        primary: &[u8],
        start_ts: u64,
        b: &mut Backoff,
    ) -> Result<Status> {
        let q = Question {
            primary,
            start_ts,
            push_above: 0,
            now: u64::MAX,
            rollback_if_missing: true,
            pessimistic: false,
            force_sync: false,
        };
        match self.ask_status(&q, b).await? {
            Status::Alive {
                async_commit: Some(lock),
                ..
            } => {
                let lock = LockInfo {
                    key: primary.to_vec(),
                    lock_version: start_ts,
                    ..*lock
                };
                self.decide_async(&lock, b).await
            }
            other => Ok(other),
        }
    }

    /// Removes a lock of a decided transaction.
    async fn remove(&self, lock: &LockInfo, commit_ts: u64, b: &mut Backoff) -> Result<()> {
        let build = |context| {
            if lock.lock_type == op::PESSIMISTIC_LOCK {
                Command::PessimisticRollback(PessimisticRollbackRequest {
                    context: Some(context),
                    start_version: lock.lock_version,
                    for_update_ts: lock.lock_for_update_ts.max(lock.lock_version),
                    keys: vec![lock.key.clone()],
                })
            } else {
                let whole_region = lock.txn_size >= LARGE_TXN;
                Command::ResolveLock(ResolveLockRequest {
                    context: Some(context),
                    start_version: lock.lock_version,
                    commit_version: commit_ts,
                    keys: if whole_region {
                        Vec::new()
                    } else {
                        vec![lock.key.clone()]
                    },
                })
            }
        };
        let error = match self.one(&lock.key, b, build).await? {
            Reply::ResolveLock(reply) => reply.error,
            Reply::PessimisticRollback(reply) => reply.errors.into_iter().next(),
            _ => return Err(unexpected()),
        };
        match error {
            None => {
                self.counters.locks_removed.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Some(e) => Err(Error::Unavailable(format!("removing a lock: {e:?}"))),
        }
    }

    /// After a read at `ts` met locks: decides which it passes; pauses if one has to be waited for.
    pub(crate) async fn pass_locks(
        self: &Arc<Self>,
        locks: Vec<LockInfo>,
        ts: u64,
        passed: &mut PassedLocks,
        b: &mut Backoff,
    ) -> Result<()> {
        let mut undecided = false;
        for lock in one_per_transaction(locks) {
            let commit_ts = match self.status_of(&lock, ts, b).await? {
                Status::Committed(at) if at <= ts => {
                    passed.committed.push(lock.lock_version);
                    at
                }
                Status::Committed(at) => {
                    passed.ignored.push(lock.lock_version);
                    at
                }
                Status::RolledBack => {
                    passed.ignored.push(lock.lock_version);
                    0
                }
                Status::Alive { pushed: true, .. } => {
                    passed.ignored.push(lock.lock_version);
                    continue;
                }
                Status::Alive { .. } => {
                    undecided = true;
                    continue;
                }
            };
            let router = self.clone();
            let mut later = Backoff::until(b.deadline());
            tokio::spawn(async move {
                if let Err(e) = router.remove(&lock, commit_ts, &mut later).await {
                    tracing::debug!("a decided lock stays for the next who meets it: {e}");
                }
            });
        }
        if undecided {
            b.pause(Class::Lock, "locked by a transaction that is committing")
                .await
                .map_err(|_| {
                    Error::Unavailable("a transaction that is committing does not end".into())
                })?;
        }
        Ok(())
    }

    /// After a write met locks: removes those of decided transactions. Returns whether one is left.
    pub(crate) async fn remove_locks(&self, locks: Vec<LockInfo>, b: &mut Backoff) -> Result<bool> {
        let mut left = false;
        for lock in locks {
            match self.status_of(&lock, 0, b).await? {
                Status::Committed(at) => self.remove(&lock, at, b).await?,
                Status::RolledBack => self.remove(&lock, 0, b).await?,
                Status::Alive { .. } => left = true,
            }
        }
        Ok(left)
    }
}

/// The first lock of each transaction.
fn one_per_transaction(mut locks: Vec<LockInfo>) -> Vec<LockInfo> {
    locks.sort_by_key(|l| l.lock_version);
    locks.dedup_by_key(|l| l.lock_version);
    locks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_expires_by_the_clock_of_the_timestamps() {
        let at = |ms: u64| ms << 18;
        assert!(!is_expired(at(1_000), 500, at(1_499)));
        assert!(is_expired(at(1_000), 500, at(1_500)));
        assert!(is_expired(at(1_000), 0, at(1_000)));
        assert!(!is_expired(at(1_000), u64::MAX, u64::MAX >> 1));
    }
}
