//! Commit of the write buffer.
//!
//! ```text
//! no lock held    1. prewrite at the timestamp of the snapshot: refused if a key is newer   (optimistic)
//!                    a refusal may be false (a key need not be checked, a lock is only waited for): then as below
//! locks held      2. lock what must be checked and is not held, at the timestamp of its snapshot
//!                 3. compare values of keys that changed                       difference: Conflict
//!                 4. prewrite: locked keys if their locks exist, others unchecked
//! ```
//!
//! Keys that are locked and not written take part as lock-only mutations, so that the prewrite notices if
//! their locks have vanished (a change of leader may drop pessimistic locks). A lock that vanished is made up for by the store only
//! if the key has no version since the transaction began.
//!
//! Up to the prewrite a failure means that nothing has changed; for what follows see `commit` of
//! porpoise-tikv-client.

use crate::cluster::Cluster;
use crate::fault::{commit_error, lock_error};
use crate::keys::frame;
use crate::locks::Locks;
use crate::writes::{Final, Writes};
use porpoise_kv::{Error, Result, Wait};
use porpoise_tikv_client::{Call, Change, CommitOptions, Error as ClientError, Write};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

fn write(f: &Final<'_>, locked: bool) -> Write {
    Write {
        key: f.key.to_vec(),
        change: match f.value {
            Some(value) => Change::Put(frame(value)),
            None => Change::Delete,
        },
        locked,
    }
}

/// Commits `writes`, which is not empty, and returns the commit timestamp. `max_commit_ts` bounds it; 0: no bound.
pub(crate) fn commit(
    cluster: &Cluster,
    call: Call<'_>,
    locks: &mut Locks,
    writes: &Writes,
    max_commit_ts: u64,
) -> Result<u64> {
    let finals: Vec<Final<'_>> = writes.finals().collect();
    for f in &finals {
        cluster.spaces.check(f.space)?;
    }
    if let Some(reason) = call.cancel.reason() {
        return Err(Error::Cancelled(reason));
    }
    if locks.is_empty() {
        if let Some(commit_ts) = optimistic(cluster, call, &finals, max_commit_ts)? {
            return Ok(commit_ts);
        }
        locks.begin_anew(cluster, call)?;
    }
    let deadline = Instant::now() + cluster.commit_lock_wait;
    lock_what_is_checked(cluster, call, locks, &finals, deadline)?;
    if locks.may_have_expired() {
        return Err(Error::Conflict);
    }
    if let Some(reason) = call.cancel.reason() {
        return Err(Error::Cancelled(reason));
    }
    let mut all: Vec<Write> = finals
        .iter()
        .map(|f| write(f, locks.get(f.key).is_some()))
        .collect();
    let only_locked = |key: &&Vec<u8>| !writes.contains(key);
    all.extend(locks.keys().filter(only_locked).map(|key| Write {
        key: key.clone(),
        change: Change::KeepLocked,
        locked: true,
    }));
    let Some(txn) = locks.take() else {
        return Err(Error::Ended);
    };
    let options = CommitOptions {
        lock_wait: deadline.saturating_duration_since(Instant::now()),
        max_commit_ts,
    };
    txn.commit(call, all, options).map_err(commit_error)
}

/// Tries to commit without locks; returns `None` if that was refused for a reason that may not hold.
fn optimistic(
    cluster: &Cluster,
    call: Call<'_>,
    finals: &[Final<'_>],
    max_commit_ts: u64,
) -> Result<Option<u64>> {
    let mut snapshots = finals.iter().filter_map(|f| f.unchanged_since);
    let start_ts = match snapshots.next() {
        Some(first) if snapshots.all(|other| other == first) => first,
        Some(_) => return Ok(None),
        None => cluster.client.timestamp(call).map_err(lock_error)?,
    };
    // Checked keys are covered by their locks, which are to be taken.
    if finals.iter().any(|f| f.needs_lock) {
        return Ok(None);
    }
    let all = finals.iter().map(|f| write(f, false)).collect();
    let options = CommitOptions {
        lock_wait: Duration::ZERO,
        max_commit_ts,
    };
    match cluster.client.begin(start_ts).commit(call, all, options) {
        Ok(commit_ts) => Ok(Some(commit_ts)),
        Err(ClientError::Conflict(_) | ClientError::Locked) => Ok(None),
        Err(e) => Err(commit_error(e)),
    }
}

/// Locks the keys that must be checked or covered and are not held, and compares those with a snapshot.
fn lock_what_is_checked(
    cluster: &Cluster,
    call: Call<'_>,
    locks: &mut Locks,
    finals: &[Final<'_>],
    deadline: Instant,
) -> Result<()> {
    let wait = Wait::Until(deadline);
    let mut by_snapshot: BTreeMap<Option<u64>, Vec<Vec<u8>>> = BTreeMap::new();
    for f in finals {
        if f.needs_lock || f.unchanged_since.is_some() {
            let keys = by_snapshot.entry(f.unchanged_since).or_default();
            keys.push(f.key.to_vec());
        }
    }
    for (snapshot, keys) in &by_snapshot {
        locks.acquire(cluster, call, keys.clone(), wait, *snapshot)?;
    }
    // Some key must be locked: the store finds the transaction's end by it.
    if let (true, Some(first)) = (locks.is_empty(), finals.first()) {
        locks.acquire(cluster, call, vec![first.key.to_vec()], wait, None)?;
    }
    for (snapshot, keys) in by_snapshot {
        let Some(snapshot) = snapshot else { continue };
        locks.compare_with(cluster, call, &keys, snapshot)?;
        let changed =
            |key: &Vec<u8>| locks.get(key).and_then(|h| h.is_newer(snapshot)) != Some(false);
        if keys.iter().any(changed) {
            return Err(Error::Conflict);
        }
    }
    Ok(())
}
