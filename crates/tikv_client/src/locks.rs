//! Pessimistic locks: taking them, and giving them back.
//!
//! One request locks keys of a region and returns their newest values. The request carries a timestamp, `for_update_ts`:
//! a lock is granted only if no version is newer, so that a grant at the timestamp of a snapshot proves that
//! the key has not changed since. If one is newer, the request is repeated at a new timestamp, and
//! its grants are marked [`Grant::newer`]. A request for a single key needs no repetition: the store locks it
//! nevertheless and says so (`FORCE_LOCK`).
//!
//! The store queues a request whose key is locked, for at most its own limit (1 s) or the time left, and looks for
//! deadlocks; after that the request is repeated here until the deadline. A lock whose transaction is decided is
//! removed first (`resolve`).
//!
//! Invariants:
//! 1. After an error none of the keys of the call is locked, as far as stores answer: the granted ones are given
//!    back before the error is reported, and those without an answer with them.
//! 2. A key that the transaction holds is not requested again: giving back after an error would lose it.

use crate::backoff::{Backoff, Class};
use crate::error::{Error, Result};
use crate::pd::physical_ms;
use crate::proto::{
    Command, FORCE_LOCK, KeyError, LockInfo, Mutation, NO_WAIT, PessimisticLockRequest,
    PessimisticLockResponse, PessimisticRollbackRequest, Reply, op,
};
use crate::reads::BATCH_BYTES;
use crate::router::{GroupLimit, Router, unexpected};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Longest time that a request waits in the store, which has a limit of its own.
const STORE_WAIT: Duration = Duration::from_secs(1);
/// A request is given at least this time, so that a free lock is granted although the deadline is near.
const LEAST_TIME: Duration = Duration::from_millis(250);
/// Time for which a call without a wait lets this server's own transactions give back their locks.
const RELEASE_TIME: Duration = Duration::from_millis(50);

/// Wait policy for a key that another transaction has locked.
#[derive(Clone, Copy, Debug)]
pub enum LockWait {
    /// Wait until this time.
    Until(Instant),
    /// Fail at once.
    No,
}

/// A lock that was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The key.
    pub key: Vec<u8>,
    /// Its newest committed value.
    pub value: Option<Vec<u8>>,
    /// Whether a version above the requested timestamp was met, of this key or another of its request.
    pub newer: bool,
    /// Timestamp of the lock.
    pub for_update_ts: u64,
}

/// Parameters of a lock call.
#[derive(Clone)]
pub(crate) struct LockCall {
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) primary: Vec<u8>,
    /// Whether the primary is among the keys: it is locked before the others.
    pub(crate) takes_primary: bool,
    pub(crate) start_ts: u64,
    pub(crate) for_update_ts: u64,
    pub(crate) ttl: Duration,
    pub(crate) wait: LockWait,
}

/// Time to live of a lock in the unit of the protocol: from the start of the transaction.
pub(crate) fn lock_ttl(start_ts: u64, now: u64, ttl: Duration) -> u64 {
    let age = physical_ms(now).saturating_sub(physical_ms(start_ts));
    age + u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX >> 1)
}

/// An attempt to lock keys.
#[derive(Clone, Copy)]
struct Attempt {
    began: Instant,
    /// Whether transactions of this server were giving back locks at its begin.
    releasing: bool,
}

/// Timestamp of a lock request.
#[derive(Clone, Copy)]
struct LockTime {
    for_update_ts: u64,
    /// Whether an earlier request at a lower timestamp met a newer version.
    newer: bool,
}

/// Result of one round of requests.
#[derive(Default)]
struct Round {
    granted: Vec<Grant>,
    locked: Vec<Vec<u8>>,
    locks: Vec<LockInfo>,
    conflicting: Vec<Vec<u8>>,
    failure: Option<Error>,
}

impl Round {
    fn take(&mut self, keys: Vec<Vec<u8>>, r: PessimisticLockResponse, at: LockTime) -> Result<()> {
        if r.errors.is_empty() {
            return self.take_grants(keys, r, at);
        }
        let mut waits = false;
        let mut conflicts = false;
        for e in r.errors {
            match e {
                KeyError {
                    deadlock: Some(_), ..
                } => self.failure = Some(Error::Deadlock),
                KeyError {
                    locked: Some(lock), ..
                } => {
                    waits = true;
                    self.locks.push(lock);
                }
                KeyError {
                    conflict: Some(_), ..
                } => conflicts = true,
                e => {
                    let gone = Error::Aborted(format!("a lock was refused: {e:?}"));
                    self.failure.get_or_insert(gone);
                }
            }
        }
        if waits {
            self.locked.extend(keys);
        } else if conflicts {
            self.conflicting.extend(keys);
        }
        Ok(())
    }

    fn take_grants(
        &mut self,
        keys: Vec<Vec<u8>>,
        mut r: PessimisticLockResponse,
        at: LockTime,
    ) -> Result<()> {
        let LockTime {
            for_update_ts,
            newer,
        } = at;
        if let ([result], [_]) = (r.results.as_mut_slice(), keys.as_slice()) {
            if result.kind == 2 {
                return Err(unexpected());
            }
            let newer = newer || result.locked_with_conflict_ts > 0;
            let value = result.existence.then(|| std::mem::take(&mut result.value));
            let key = keys.into_iter().next().unwrap_or_default();
            self.granted.push(Grant {
                key,
                value,
                newer,
                for_update_ts: for_update_ts.max(result.locked_with_conflict_ts),
            });
            return Ok(());
        }
        // Older stores do not mark absent keys; Porpoise writes no empty values, so an empty one means absent.
        if r.not_founds.is_empty() {
            r.not_founds = r.values.iter().map(Vec::is_empty).collect();
        }
        if r.values.len() != keys.len() || r.not_founds.len() != keys.len() {
            return Err(unexpected());
        }
        for ((key, value), missing) in keys.into_iter().zip(r.values).zip(r.not_founds) {
            let value = (!missing).then_some(value);
            self.granted.push(Grant {
                key,
                value,
                newer,
                for_update_ts,
            });
        }
        Ok(())
    }
}

impl Router {
    /// Locks keys; see the module's header.
    pub(crate) async fn lock(
        self: &Arc<Self>,
        call: LockCall,
        b: &mut Backoff,
    ) -> Result<Vec<Grant>> {
        let mut granted = Vec::with_capacity(call.keys.len());
        let unanswered = b.unanswered;
        let result = self.lock_all(&call, &mut granted, b).await;
        let Err(e) = result else {
            return Ok(granted);
        };
        let back: Vec<Vec<u8>> = if b.unanswered > unanswered {
            call.keys
        } else {
            granted.into_iter().map(|g| g.key).collect()
        };
        if !back.is_empty() {
            let mut later = Backoff::until(Instant::now() + self.request_time);
            let returned = self.unlock(back, call.start_ts, u64::MAX, &mut later).await;
            if let Err(e) = returned {
                tracing::warn!("locks could not be given back, and stay until they expire: {e}");
            }
        }
        Err(e)
    }

    async fn lock_all(
        self: &Arc<Self>,
        call: &LockCall,
        granted: &mut Vec<Grant>,
        b: &mut Backoff,
    ) -> Result<()> {
        let mut open = call.keys.clone();
        let mut at = LockTime {
            for_update_ts: call.for_update_ts,
            newer: false,
        };
        let mut primary_first = call.takes_primary;
        while !open.is_empty() {
            let mut later = Vec::new();
            if primary_first {
                // The region of the primary alone: a lock whose primary does not exist looks orphaned.
                let region = self.region(&call.primary, b).await?;
                (open, later) = open.into_iter().partition(|k| region.contains(k));
                primary_first = false;
            }
            let attempt = Attempt {
                began: Instant::now(),
                releasing: self.releasing.load(Ordering::Acquire) > 0,
            };
            let keys = std::mem::take(&mut open);
            let mut round = self.lock_round(call, keys, at, b).await?;
            granted.append(&mut round.granted);
            if let Some(e) = round.failure {
                return Err(e);
            }
            open = later;
            if !round.conflicting.is_empty() {
                at = LockTime {
                    for_update_ts: self.pd.timestamp(b).await?,
                    newer: true,
                };
                open.append(&mut round.conflicting);
            }
            if !round.locked.is_empty() {
                // The wait may have been for a primary whose region is asked first.
                primary_first |= call.takes_primary && round.locked.contains(&call.primary);
                open.append(&mut round.locked);
                let left = self.remove_locks(round.locks, b).await?;
                self.wait_for_lock(call, left, attempt, b).await?;
            }
        }
        Ok(())
    }

    /// After keys were found locked: whether to try again.
    async fn wait_for_lock(
        &self,
        call: &LockCall,
        left: bool,
        attempt: Attempt,
        b: &mut Backoff,
    ) -> Result<()> {
        if !left {
            return Ok(());
        }
        match call.wait {
            // The holder may be a transaction of this server that has ended for its client.
            LockWait::No if attempt.releasing && b.elapsed() < RELEASE_TIME => {
                b.pause(Class::Lock, "").await
            }
            LockWait::No => Err(Error::Locked),
            LockWait::Until(deadline) if Instant::now() >= deadline => Err(Error::Locked),
            // The store has waited already.
            LockWait::Until(_) if attempt.began.elapsed() > Duration::from_millis(100) => Ok(()),
            LockWait::Until(_) => b.pause(Class::Lock, "").await,
        }
    }

    async fn lock_round(
        self: &Arc<Self>,
        call: &LockCall,
        keys: Vec<Vec<u8>>,
        at: LockTime,
        b: &mut Backoff,
    ) -> Result<Round> {
        let time = match call.wait {
            LockWait::No => Duration::ZERO,
            LockWait::Until(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                left.clamp(LEAST_TIME, STORE_WAIT)
            }
        };
        let wait_timeout = match call.wait {
            LockWait::No => NO_WAIT,
            LockWait::Until(_) => i64::try_from(time.as_millis()).unwrap_or(i64::MAX),
        };
        let ttl = lock_ttl(call.start_ts, self.pd.estimated_now(), call.ttl);
        let build = |context, keys: &[Vec<u8>]| {
            let mutation = |key: &Vec<u8>| Mutation {
                op: op::PESSIMISTIC_LOCK,
                key: key.clone(),
                value: Vec::new(),
            };
            Command::PessimisticLock(PessimisticLockRequest {
                context: Some(context),
                mutations: keys.iter().map(mutation).collect(),
                primary_lock: call.primary.clone(),
                start_version: call.start_ts,
                lock_ttl: ttl,
                for_update_ts: at.for_update_ts,
                is_first_lock: call.takes_primary && keys.len() == call.keys.len(),
                wait_timeout,
                return_values: true,
                min_commit_ts: at.for_update_ts + 1,
                check_existence: true,
                wake_up_mode: if keys.len() == 1 { FORCE_LOCK } else { 0 },
            })
        };
        let mut round = Round::default();
        let take = |keys, reply| match reply {
            Reply::PessimisticLock(r) => round.take(keys, r, at),
            _ => Err(unexpected()),
        };
        let limit = GroupLimit {
            items: self.values_of_one_answer(),
            bytes: BATCH_BYTES,
        };
        self.each(keys, limit, time, b, build, take).await?;
        let sizes = round
            .granted
            .iter()
            .map(|g| g.value.as_ref().map_or(0, Vec::len));
        self.note_values(sizes);
        Ok(round)
    }

    /// Gives back locks whose timestamp is not above `for_update_ts`.
    pub(crate) async fn unlock(
        &self,
        keys: Vec<Vec<u8>>,
        start_ts: u64,
        for_update_ts: u64,
        b: &mut Backoff,
    ) -> Result<()> {
        let limit = GroupLimit {
            items: crate::reads::BATCH_KEYS,
            bytes: BATCH_BYTES,
        };
        let build = |context, keys: &[Vec<u8>]| {
            Command::PessimisticRollback(PessimisticRollbackRequest {
                context: Some(context),
                start_version: start_ts,
                for_update_ts,
                keys: keys.to_vec(),
            })
        };
        let take = |_, reply| match reply {
            Reply::PessimisticRollback(r) => match r.errors.into_iter().next() {
                None => Ok(()),
                Some(e) => Err(Error::Unavailable(format!("giving back locks: {e:?}"))),
            },
            _ => Err(unexpected()),
        };
        self.each(keys, limit, Duration::ZERO, b, build, take).await
    }
}
