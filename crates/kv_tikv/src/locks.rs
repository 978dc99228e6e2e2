//! The locks of a transaction, and the values seen under them.
//!
//! A lock is requested at the timestamp of the snapshot, if there is one. Then a grant without a conflict proves that the key is
//! unchanged since the snapshot, and no further request is needed to tell. Otherwise the value at the snapshot is
//! read and compared.
//!
//! Invariants:
//! 1. `held` has exactly the keys that the client's transaction holds; they are not locked again.
//! 2. A held key's value does not change while the lock exists.

use crate::cluster::Cluster;
use crate::fault::{lock_error, read_error};
use porpoise_kv::{Error, Result, Wait};
use porpoise_tikv_client::{Call, Error as ClientError, LockWait, Transaction};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Maximum number of keys of one lock call.
const CALL_KEYS: usize = 4096;
/// Time for which the store's answer is awaited after the deadline. A call that is left alone continues in the
/// background, and its locks are given back.
const ANSWER_TIME: Duration = Duration::from_millis(600);

/// Values by key, framed.
type Values = HashMap<Vec<u8>, Vec<u8>>;

/// A lock that the transaction has.
pub(crate) struct HeldLock {
    /// The newest committed value, framed.
    pub(crate) value: Option<Vec<u8>>,
    /// A timestamp since which the key has had this value.
    unchanged_since: u64,
    /// A snapshot at which the key had another value.
    newer_than: Option<u64>,
}

impl HeldLock {
    /// Whether the value is another one than at `snapshot`; `None` if it is not known.
    pub(crate) fn is_newer(&self, snapshot: u64) -> Option<bool> {
        if snapshot >= self.unchanged_since {
            Some(false)
        } else if self.newer_than.is_some_and(|ts| snapshot <= ts) {
            Some(true)
        } else {
            None
        }
    }
}

/// Parameters of lock requests.
#[derive(Clone, Copy)]
struct Request<'a> {
    call: Call<'a>,
    wait: LockWait,
    at: u64,
}

/// The locks of one transaction.
#[derive(Default)]
pub(crate) struct Locks {
    held: HashMap<Vec<u8>, HeldLock>,
    txn: Option<Transaction>,
    /// Lower bound of timestamps of lock requests.
    least_ts: u64,
}

impl Locks {
    pub(crate) fn get(&self, key: &[u8]) -> Option<&HeldLock> {
        self.held.get(key)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.held.keys()
    }

    /// The start timestamp, if anything is held.
    pub(crate) fn start_ts(&self) -> Option<u64> {
        let txn = self.txn.as_ref().filter(|t| t.has_locks());
        txn.map(Transaction::start_ts)
    }

    /// Whether nothing is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether held locks may have expired.
    pub(crate) fn may_have_expired(&self) -> bool {
        self.txn.as_ref().is_some_and(Transaction::may_have_expired)
    }

    /// Takes the client's transaction out, for commit or release.
    pub(crate) fn take(&mut self) -> Option<Transaction> {
        self.held.clear();
        self.txn.take()
    }

    /// The timestamp for a lock request: the snapshot's, or that of the transaction's begin. A new one if there is neither.
    fn request_ts(&self, cluster: &Cluster, call: Call<'_>, snapshot: Option<u64>) -> Result<u64> {
        let begun = self.txn.as_ref().filter(|t| t.has_locks());
        match snapshot.or(begun.map(Transaction::start_ts)) {
            Some(ts) => Ok(ts.max(self.least_ts)),
            None if self.least_ts > 0 => Ok(self.least_ts),
            None => cluster.client.timestamp(call).map_err(lock_error),
        }
    }

    /// Lets the transaction begin now: an attempt to commit at an earlier timestamp may have left a record that
    /// it was rolled back.
    pub(crate) fn begin_anew(&mut self, cluster: &Cluster, call: Call<'_>) -> Result<()> {
        self.least_ts = cluster.client.timestamp(call).map_err(lock_error)?;
        Ok(())
    }

    /// Locks those of `keys` that are not held. They must be sorted.
    pub(crate) fn acquire(
        &mut self,
        cluster: &Cluster,
        call: Call<'_>,
        keys: Vec<Vec<u8>>,
        wait: Wait,
        snapshot: Option<u64>,
    ) -> Result<()> {
        let keys = self.not_held(keys);
        if keys.is_empty() {
            return Ok(());
        }
        let request = self.request(cluster, call, wait, snapshot)?;
        self.acquire_at(cluster, keys, request)
    }

    /// As [`Locks::acquire`], and meanwhile reads other keys at the timestamp of the request. Returns the timestamp and the
    /// values.
    pub(crate) fn acquire_beside_reads(
        &mut self,
        cluster: &Cluster,
        call: Call<'_>,
        keys: Vec<Vec<u8>>,
        wait: Wait,
        snapshot: Option<u64>,
        read: Vec<Vec<u8>>,
    ) -> Result<(u64, Values)> {
        let keys = self.not_held(keys);
        let request = self.request(cluster, call, wait, snapshot)?;
        cluster.metrics.keys_read.add(read.len() as u64);
        let reading = cluster.client.begin_get(request.at, read);
        self.acquire_at(cluster, keys, request)?;
        Ok((request.at, reading.wait(call).map_err(read_error)?))
    }

    fn not_held(&self, mut keys: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        keys.retain(|key| !self.held.contains_key(key));
        keys
    }

    /// The parameters of a lock request with this wait policy. The deadline of the call is extended accordingly.
    fn request<'a>(
        &self,
        cluster: &Cluster,
        call: Call<'a>,
        wait: Wait,
        snapshot: Option<u64>,
    ) -> Result<Request<'a>> {
        let (deadline, wait) = match wait {
            Wait::Until(deadline) => {
                let call_deadline = deadline.max(Instant::now()) + ANSWER_TIME;
                (Some(call_deadline), LockWait::Until(deadline))
            }
            Wait::NoWait | Wait::Skip => (None, LockWait::No),
        };
        let call = Call { deadline, ..call };
        let at = self.request_ts(cluster, call, snapshot)?;
        Ok(Request { call, wait, at })
    }

    /// Locks keys, none of which are held, in calls of bounded size.
    fn acquire_at(
        &mut self,
        cluster: &Cluster,
        keys: Vec<Vec<u8>>,
        request: Request<'_>,
    ) -> Result<()> {
        for part in keys.chunks(CALL_KEYS) {
            self.acquire_part(cluster, part.to_vec(), request)
                .map_err(|e| match (e, request.wait) {
                    (ClientError::Locked, LockWait::No) => Error::LockBusy,
                    (e, _) => {
                        count_failure(cluster, &e);
                        lock_error(e)
                    }
                })?;
        }
        Ok(())
    }

    fn acquire_part(
        &mut self,
        cluster: &Cluster,
        keys: Vec<Vec<u8>>,
        Request { call, wait, at }: Request<'_>,
    ) -> std::result::Result<(), ClientError> {
        // A transaction without locks costs nothing: it begins at the timestamp of its first lock.
        if self.held.is_empty() && self.txn.as_ref().is_some_and(|t| t.start_ts() != at) {
            self.txn = None;
        }
        let txn = self.txn.get_or_insert_with(|| cluster.client.begin(at));
        let for_update_ts = at.max(txn.start_ts());
        for grant in txn.lock(call, keys, for_update_ts, wait)? {
            let since = if grant.newer {
                grant.for_update_ts
            } else {
                for_update_ts
            };
            let held = HeldLock {
                value: grant.value,
                unchanged_since: since,
                newer_than: None,
            };
            self.held.insert(grant.key, held);
        }
        Ok(())
    }

    /// Finds out which of `keys` that are held have changed since `snapshot`.
    pub(crate) fn compare_with(
        &mut self,
        cluster: &Cluster,
        call: Call<'_>,
        keys: &[Vec<u8>],
        snapshot: u64,
    ) -> Result<()> {
        let unknown = |key: &&Vec<u8>| {
            let held = self.held.get(*key);
            held.is_some_and(|h| h.is_newer(snapshot).is_none())
        };
        let open: Vec<Vec<u8>> = keys.iter().filter(unknown).cloned().collect();
        if open.is_empty() {
            return Ok(());
        }
        let client = &cluster.client;
        let then = client
            .get(call, snapshot, open.clone())
            .map_err(read_error)?;
        for key in &open {
            if let Some(held) = self.held.get_mut(key) {
                if held.value.as_ref() == then.get(key) {
                    held.unchanged_since = snapshot;
                } else {
                    held.newer_than = Some(snapshot);
                }
            }
        }
        Ok(())
    }
}

fn count_failure(cluster: &Cluster, e: &ClientError) {
    match e {
        ClientError::Deadlock => cluster.metrics.deadlocks.add(1),
        ClientError::Locked | ClientError::Deadline(_) => cluster.metrics.lock_timeouts.add(1),
        _ => {}
    }
}
