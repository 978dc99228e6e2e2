//! Commit of the write buffer.
//!
//! 1. Written keys that are not held are locked, waiting for their holders.
//! 2. All written keys are locked once more, in one call that also buffers the writes in the library. (A
//!    transaction that holds nothing does this at once, and may wait in it.)
//! 3. A read after that verifies the keys: held keys still have the value seen under the lock, checked
//!    keys the value of the snapshot. Otherwise: conflict.
//! 4. Two-phase commit by the library (Peng and Dabek, "Percolator", 2010), in a task that always runs to
//!    its end.
//!
//! Up to and including step 3 a failure means that nothing has changed.

use crate::fault::{Failure, Fault};
use crate::keys::frame;
use crate::locks::{Locks, Waiter};
use crate::reads::{BATCH_KEYS, batches, get_many};
use crate::writes::{Final, Writes};
use porpoise_kv::{Error, Result};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use tikv_client::transaction::Mutation;
use tikv_client::{Timestamp, TimestampExt};

/// Time after which the outcome of a commit is unknown. The library gives up earlier.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(120);

fn mutation(f: &Final<'_>) -> Mutation {
    match f.value {
        Some(value) => Mutation::Put(f.key.to_vec().into(), frame(value)),
        None => Mutation::Delete(f.key.to_vec().into()),
    }
}

/// A key whose value must be unchanged.
struct ValueCheck<'a> {
    key: &'a [u8],
    /// The value under the lock.
    seen: Option<Option<Vec<u8>>>,
    /// Timestamp of the snapshot since which the key must not have changed.
    snapshot: Option<u64>,
}

fn value_checks<'a>(finals: &[Final<'a>], locks: &Locks) -> Vec<ValueCheck<'a>> {
    finals
        .iter()
        .map(|f| ValueCheck {
            key: f.key,
            seen: locks
                .get(f.key)
                .filter(|_| !f.blind)
                .map(|held| held.value.clone()),
            snapshot: f.unchanged_since,
        })
        .filter(|p| p.seen.is_some() || p.snapshot.is_some())
        .collect()
}

async fn all_checks_hold(
    w: &Waiter<'_>,
    checks: &[ValueCheck<'_>],
) -> std::result::Result<bool, Failure> {
    let all = checks.iter().map(|p| p.key.to_vec()).collect();
    let mut by_snapshot: BTreeMap<u64, Vec<Vec<u8>>> = BTreeMap::new();
    for p in checks {
        if let Some(snapshot) = p.snapshot {
            by_snapshot
                .entry(snapshot)
                .or_default()
                .push(p.key.to_vec());
        }
    }
    let now = async {
        let ts = w.client.current_timestamp().await?;
        get_many(w.client, &ts, all).await
    };
    let then = async {
        let mut found = HashMap::new();
        for (snapshot, keys) in by_snapshot {
            let ts = Timestamp::from_version(snapshot);
            found.extend(get_many(w.client, &ts, keys).await?);
        }
        Ok(found)
    };
    let (now, then) = tokio::try_join!(now, then)?;
    Ok(checks.iter().all(|p| {
        let value = now.get(p.key);
        p.seen.as_ref().is_none_or(|seen| seen.as_ref() == value)
            && p.snapshot.is_none_or(|_| then.get(p.key) == value)
    }))
}

/// Commits `writes`, which is not empty, if `check_lease` succeeds before the first phase is sent.
pub(crate) fn commit(
    w: &Waiter<'_>,
    locks: &mut Locks,
    writes: &Writes,
    check_lease: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let finals: Vec<Final<'_>> = writes.finals().collect();
    for f in &finals {
        w.cluster.spaces.check(f.space)?;
    }
    locks.await_pending_call(w)?;
    let keys: Vec<Vec<u8>> = finals.iter().map(|f| f.key.to_vec()).collect();
    let parts = batches(keys.clone(), BATCH_KEYS);
    let all = || finals.iter().map(mutation).collect();
    let checks = if locks.is_empty() && parts.len() == 1 {
        locks.write_unheld(w, &keys, all)?;
        value_checks(&finals, locks)
    } else {
        locks.acquire(w, keys.clone())?;
        let mut rest = finals.as_slice();
        for part in &parts {
            let (now, later) = rest.split_at_checked(part.len()).unwrap_or((rest, &[]));
            locks.write_held(w, now.iter().map(mutation).collect())?;
            rest = later;
        }
        value_checks(&finals, locks)
    };
    if !checks.is_empty() {
        let holds = w.cluster.io.wait_result(w.cancel, async {
            all_checks_hold(w, &checks)
                .await
                .map_err(Failure::into_read_error)
        })?;
        if !holds {
            return Err(Error::Conflict);
        }
    }
    if locks.may_have_expired() {
        return Err(Error::Conflict);
    }
    if let Some(reason) = w.cancel.reason() {
        return Err(Error::Cancelled(reason));
    }
    check_lease()?;
    let mut locked = keys;
    locked.extend(locks.keys().cloned());
    send(w, locks, locked)
}

fn send(w: &Waiter<'_>, locks: &mut Locks, locked: Vec<Vec<u8>>) -> Result<()> {
    let Some(holder) = locks.take() else {
        return Err(Error::Ended);
    };
    let task = w.cluster.io.handle().spawn(holder.commit(locked));
    let failure = match w.cluster.io.within(COMMIT_TIMEOUT, task) {
        Some(Ok(Ok(()))) => return Ok(()),
        Some(Ok(Err(failure))) => failure,
        Some(Err(e)) => Failure::new(Fault::Undetermined, format!("the TiKV client failed: {e}")),
        None => Failure::new(Fault::Undetermined, "no answer in 120 s"),
    };
    Err(failure.into_commit_error())
}
