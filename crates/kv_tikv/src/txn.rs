//! The contract's transaction.
//!
//! A snapshot is a timestamp of the cluster; taking one costs a round trip to the placement driver, and
//! so does each read of the newest state. No other resource is open between calls: the library's
//! transaction begins with the first lock, or at commit.

use crate::cluster::Cluster;
use crate::commit;
use crate::coordination::millis;
use crate::fault::Failure;
use crate::keys::{LONGEST_PREFIX, end_of, unframe};
use crate::locks::{Locks, Waiter};
use crate::reads::get_many;
use crate::scan::{KeyRange, Source};
use crate::writes::Writes;
use porpoise_kv::{
    Check, Commit, CommitPosition, Error, Isolation, Key, LockRequest, Locked, PreparedTxn, Read,
    ReadMode, Resource, Result, ScanEnd, ScanRange, ScanVisitor, StatementMark, Txn, TxnOptions,
    Wait,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tikv_client::{Timestamp, TimestampExt, TransactionClient};

/// Maximum time that an explicit rollback waits for the release of its locks.
const RELEASE_WAIT: Duration = Duration::from_secs(1);

pub(crate) struct TikvTxn {
    cluster: Arc<Cluster>,
    client: TransactionClient,
    options: TxnOptions,
    /// Epoch of the server's lease in which it began; `None` if it does not depend on the lease.
    epoch: Option<u64>,
    snapshot: Option<Timestamp>,
    /// Number of snapshots taken so far.
    snapshots: u64,
    pinned: bool,
    writes: Writes,
    locks: Locks,
    ended: bool,
}

impl TikvTxn {
    pub(crate) fn new(cluster: Arc<Cluster>, options: TxnOptions) -> Result<TikvTxn> {
        let epoch = cluster.fence.begin()?;
        let mut txn = TikvTxn::unfenced(cluster, options)?;
        txn.epoch = Some(epoch);
        Ok(txn)
    }

    /// A transaction that does not depend on the server's lease.
    pub(crate) fn unfenced(cluster: Arc<Cluster>, options: TxnOptions) -> Result<TikvTxn> {
        if options.isolation == Isolation::Serializable {
            return Err(Error::Unsupported("SERIALIZABLE isolation"));
        }
        let client = cluster.client();
        Ok(TikvTxn {
            epoch: None,
            cluster,
            client,
            options,
            snapshot: None,
            snapshots: 0,
            pinned: false,
            writes: Writes::default(),
            locks: Locks::default(),
            ended: false,
        })
    }

    fn check_not_ended(&mut self) -> Result<()> {
        if self.ended || self.cluster.is_closed() {
            return Err(Error::Ended);
        }
        if self.locks.may_have_expired() {
            self.cluster.metrics.heartbeats_failed.add(1);
            return Err(self.end_on_error(Error::Conflict));
        }
        if let Err(refused) = self.check_lease() {
            return Err(self.end_on_error(refused));
        }
        Ok(())
    }

    fn check_lease(&self) -> Result<()> {
        self.epoch
            .map_or(Ok(()), |epoch| self.cluster.fence.check(epoch))
    }

    /// Ends the transaction if the error requires it.
    fn end_on_error(&mut self, e: Error) -> Error {
        if e.ends_transaction() {
            self.end();
        }
        e
    }

    fn end(&mut self) {
        self.ended = true;
        self.writes = Writes::default();
        if let Some(holder) = self.locks.take() {
            holder.release(self.cluster.io.handle());
        }
    }

    fn now(&self) -> Result<Timestamp> {
        let ts = self.cluster.io.wait_result(&self.options.cancel, async {
            let ts = self.client.current_timestamp().await;
            ts.map_err(|e| Failure::from(e).into_read_error())
        })?;
        if let Some(epoch) = self.epoch {
            self.cluster.fence.check_time(epoch, millis(&ts))?;
        }
        Ok(ts)
    }

    fn take_snapshot(&mut self) -> Result<()> {
        self.snapshot = Some(self.now()?);
        self.snapshots += 1;
        Ok(())
    }

    fn timestamp(&mut self, read: Read) -> Result<Timestamp> {
        if read.validate {
            return Err(Error::Unsupported("range validation"));
        }
        match (read.mode, &self.snapshot) {
            (ReadMode::Current, _) => self.now(),
            (ReadMode::Snapshot, Some(ts)) => Ok(ts.clone()),
            (ReadMode::Snapshot, None) => {
                self.take_snapshot()?;
                self.snapshot.clone().ok_or(Error::Ended)
            }
        }
    }

    fn encode(&self, key: Key<'_>) -> Result<Vec<u8>> {
        let limit = self.cluster.limits.key;
        if key.bytes.len() > limit {
            return Err(Error::TooLarge {
                what: "key",
                size: key.bytes.len(),
                limit,
            });
        }
        let prefix = self.cluster.prefix(key.space, &self.options.cancel)?;
        let mut bytes = Vec::with_capacity(prefix.len() + key.bytes.len());
        bytes.extend_from_slice(&prefix);
        bytes.extend_from_slice(key.bytes);
        Ok(bytes)
    }

    fn fetch(&self, ts: &Timestamp, keys: Vec<Vec<u8>>) -> Result<HashMap<Vec<u8>, Vec<u8>>> {
        if keys.is_empty() {
            return Ok(HashMap::new());
        }
        self.cluster.metrics.keys_read.add(keys.len() as u64);
        self.cluster.io.wait_result(&self.options.cancel, async {
            let found = get_many(&self.client, ts, keys).await;
            found.map_err(Failure::into_read_error)
        })
    }

    fn write(&mut self, key: Key<'_>, value: Option<&[u8]>, check: Check) -> Result<()> {
        self.check_not_ended()?;
        let limits = self.cluster.limits;
        if let Some(value) = value.filter(|v| v.len() > limits.value) {
            return Err(Error::TooLarge {
                what: "value",
                size: value.len(),
                limit: limits.value,
            });
        }
        let bytes = self.encode(key)?;
        let cost = Writes::cost(&bytes, value);
        if self.writes.bytes().saturating_add(cost) > limits.transaction {
            return Err(Error::Full(Resource::Transaction));
        }
        let snapshot = self.snapshot.as_ref().map(TimestampExt::version);
        self.writes.push(key.space, bytes, value, check, snapshot);
        Ok(())
    }

    fn waiter(&self, deadline: Instant) -> Waiter<'_> {
        Waiter {
            cluster: &self.cluster,
            client: &self.client,
            cancel: &self.options.cancel,
            deadline,
            snapshots: self.snapshots,
        }
    }

    /// Determines which held keys are newer than the snapshot.
    fn compare_with_snapshot(&mut self, keys: &[Vec<u8>]) -> Result<()> {
        let Some(snapshot) = self.snapshot.clone() else {
            return Ok(());
        };
        let snapshots = self.snapshots;
        let unknown = |key: &&Vec<u8>| {
            let held = self.locks.get(key);
            held.is_some_and(|h| h.snapshots == snapshots && h.newer.is_none())
        };
        let open: Vec<Vec<u8>> = keys.iter().filter(unknown).cloned().collect();
        let at_snapshot = self.fetch(&snapshot, open.clone())?;
        for key in &open {
            if let Some(held) = self.locks.get_mut(key) {
                held.newer = Some(held.value.as_ref() != at_snapshot.get(key));
            }
        }
        Ok(())
    }

    fn lock_all(&mut self, keys: &[Vec<u8>], deadline: Instant) -> Result<()> {
        let mut sorted = keys.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let mut locks = std::mem::take(&mut self.locks);
        let result = locks.acquire(&self.waiter(deadline), sorted.clone());
        self.locks = locks;
        result?;
        self.compare_with_snapshot(&sorted)
    }

    fn commit_writes(&mut self) -> Result<()> {
        let deadline = Instant::now() + self.cluster.commit_lock_wait;
        let mut locks = std::mem::take(&mut self.locks);
        let fence = || self.check_lease();
        let result = commit::commit(&self.waiter(deadline), &mut locks, &self.writes, &fence);
        self.locks = locks;
        result
    }
}

impl Txn for TikvTxn {
    fn refresh(&mut self) -> Result<()> {
        self.check_not_ended()?;
        if self.pinned {
            return Ok(());
        }
        self.take_snapshot()
    }

    fn pin(&mut self) -> Result<()> {
        self.check_not_ended()?;
        if self.snapshot.is_none() {
            self.take_snapshot()?;
        }
        self.pinned = true;
        Ok(())
    }

    fn pinned(&self) -> bool {
        self.pinned
    }

    fn get(
        &mut self,
        read: Read,
        keys: &[Key<'_>],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.check_not_ended()?;
        let encoded = keys
            .iter()
            .map(|&key| self.encode(key))
            .collect::<Result<Vec<_>>>()?;
        let mut open: Vec<Vec<u8>> = encoded
            .iter()
            .filter(|key| self.writes.get(key, read.mark).is_none())
            .cloned()
            .collect();
        open.sort_unstable();
        open.dedup();
        let found = if open.is_empty() && !read.validate && self.snapshot.is_some() {
            HashMap::new()
        } else {
            let ts = self.timestamp(read)?;
            self.fetch(&ts, open)?
        };
        for (i, key) in encoded.iter().enumerate() {
            match self.writes.get(key, read.mark) {
                Some(own) => visit(i, own),
                None => match found.get(key) {
                    Some(value) => visit(i, Some(unframe(value)?)),
                    None => visit(i, None),
                },
            }
        }
        Ok(())
    }

    fn scan(
        &mut self,
        read: Read,
        ranges: &[ScanRange<'_>],
        limit: usize,
        visit: &mut ScanVisitor<'_>,
    ) -> Result<ScanEnd> {
        self.check_not_ended()?;
        let mut key_ranges = Vec::with_capacity(ranges.len());
        for range in ranges {
            let prefix = self.cluster.prefix(range.space, &self.options.cancel)?;
            let at = |key: &[u8]| [&*prefix, key].concat();
            key_ranges.push(KeyRange {
                start: at(range.start),
                end: range.end.map_or_else(|| end_of(&prefix), at),
                prefix: prefix.len(),
                reverse: range.reverse,
            });
        }
        let ts = self.timestamp(read)?;
        let source = Source {
            cluster: &self.cluster,
            client: &self.client,
            cancel: &self.options.cancel,
            ts,
            writes: &self.writes,
            mark: read.mark,
        };
        source.scan(&key_ranges, limit, visit)
    }

    fn lock(
        &mut self,
        requests: &[LockRequest<'_>],
        wait: Wait,
        visit: &mut dyn FnMut(usize, Locked<'_>),
    ) -> Result<()> {
        self.check_not_ended()?;
        let deadline = match wait {
            Wait::Until(deadline) => deadline,
            Wait::NoWait => return Err(Error::Unsupported("NOWAIT")),
            Wait::Skip => return Err(Error::Unsupported("SKIP LOCKED")),
        };
        let keys = requests
            .iter()
            .map(|request| self.encode(request.key))
            .collect::<Result<Vec<_>>>()?;
        if let Err(e) = self.lock_all(&keys, deadline) {
            return Err(self.end_on_error(e));
        }
        for (i, key) in keys.iter().enumerate() {
            let Some(held) = self.locks.get(key) else {
                return Err(Error::Ended);
            };
            let own = self.writes.get(key, StatementMark::ALL);
            let value = match (&own, &held.value) {
                (Some(own), _) => *own,
                (None, Some(value)) => Some(unframe(value)?),
                (None, None) => None,
            };
            let locked = Locked {
                granted: true,
                value,
                newer: self.snapshot.is_some()
                    && held.snapshots == self.snapshots
                    && held.newer == Some(true),
                own: own.is_some(),
            };
            visit(i, locked);
        }
        Ok(())
    }

    fn unlock(&mut self, _keys: &[Key<'_>], _since: StatementMark) {
        // The library can release a single lock only by failing to take another one. Locks are held
        // to the end, as the contract allows.
    }

    fn put(&mut self, key: Key<'_>, value: &[u8], check: Check) -> Result<()> {
        self.write(key, Some(value), check)
    }

    fn delete(&mut self, key: Key<'_>, check: Check) -> Result<()> {
        self.write(key, None, check)
    }

    fn mark(&self) -> StatementMark {
        self.writes.mark()
    }

    fn rollback_to(&mut self, mark: StatementMark) {
        self.writes.rollback_to(mark);
    }

    fn has_writes(&self) -> bool {
        !self.writes.is_empty()
    }

    fn seen(&self) -> CommitPosition {
        CommitPosition::NONE
    }

    fn commit(mut self: Box<Self>) -> Result<Commit> {
        self.check_not_ended()?;
        let done = Commit {
            position: CommitPosition::NONE,
        };
        if self.writes.is_empty() {
            self.rollback();
            return Ok(done);
        }
        let result = self.commit_writes();
        let metrics = &self.cluster.metrics;
        match &result {
            Ok(()) => metrics.commits.add(1),
            Err(Error::Conflict) => metrics.conflicts.add(1),
            Err(Error::UnknownOutcome(_)) => metrics.unknown.add(1),
            Err(_) => {}
        }
        self.end();
        result.map(|()| done)
    }

    fn prepare(self: Box<Self>, _name: &[u8], _note: &[u8]) -> Result<Box<dyn PreparedTxn>> {
        self.rollback();
        Err(Error::Unsupported("prepared transactions"))
    }

    fn rollback(mut self: Box<Self>) {
        self.ended = true;
        if let Some(mut holder) = self.locks.take() {
            let waits_on = holder.pending().is_some();
            let release = holder.release(self.cluster.io.handle());
            // Others can lock the keys as soon as the caller learns of the end. If the store does
            // not respond, the release continues in the background.
            if !waits_on {
                let _ = self.cluster.io.within(RELEASE_WAIT, release);
            }
        }
    }
}

impl Drop for TikvTxn {
    fn drop(&mut self) {
        self.end();
    }
}

/// The longest key of the engine, so that a whole key stays within 4 KiB.
pub(crate) const LONGEST_KEY: usize = 4096 - LONGEST_PREFIX;
