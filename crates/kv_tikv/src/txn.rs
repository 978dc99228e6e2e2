//! The contract's transaction.
//!
//! A snapshot is a timestamp of the cluster; taking one costs a round trip to the placement driver, and
//! so does each read of the newest state of several keys. No other resource is open between calls: the client's
//! transaction begins with the first lock, or at commit.
//!
//! A lock call returns the values of its keys. Later reads of these keys use them, without a request.

use crate::cluster::Cluster;
use crate::commit;
use crate::fault::read_error;
use crate::guards::{HeldGuards, SLOTS};
use crate::keys::{LONGEST_PREFIX, end_of, unframe};
use crate::locks::Locks;
use crate::scan::{KeyRange, Source};
use crate::snapshots::Pin;
use crate::writes::Writes;
use porpoise_kv::{
    Check, Commit, CommitPosition, Error, Isolation, Key, LockMode, LockRequest, Locked,
    PreparedTxn, Read, ReadMode, Resource, Result, ScanEnd, ScanRange, ScanVisitor, SpaceId,
    StatementMark, Txn, TxnOptions, Wait,
};
use porpoise_tikv_client::{Call, last_timestamp_of, physical_ms};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Maximum time that an explicit rollback waits for the release of its locks.
const RELEASE_WAIT: Duration = Duration::from_secs(1);

/// Keys of a space: the engine's, and those in the cluster.
type SpaceKeys<'a> = BTreeSet<(&'a [u8], &'a Vec<u8>)>;

/// The way in which a lock request is served.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Share {
    /// By a lock of the key.
    None,
    /// By a guard that is to be taken.
    Guard,
    /// By a guard that is held.
    Held,
}

pub(crate) struct TikvTxn {
    cluster: Arc<Cluster>,
    options: TxnOptions,
    /// Epoch of the server's lease in which it began; `None` if it does not depend on the lease.
    epoch: Option<u64>,
    snapshot: Option<u64>,
    /// Pin of the snapshot's timestamp.
    snapshot_pin: Option<Pin>,
    /// Pin of the start timestamp of its locks.
    start_pin: Option<Pin>,
    pinned: bool,
    writes: Writes,
    locks: Locks,
    guards: HeldGuards,
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
        Ok(TikvTxn {
            epoch: None,
            cluster,
            options,
            snapshot: None,
            snapshot_pin: None,
            start_pin: None,
            pinned: false,
            writes: Writes::default(),
            locks: Locks::default(),
            guards: HeldGuards::default(),
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
        let is_lost = |pin: &Option<Pin>| {
            (pin.as_ref()).is_some_and(|pin| self.cluster.snapshots.is_lost(pin.ts))
        };
        if is_lost(&self.snapshot_pin) || is_lost(&self.start_pin) {
            self.cluster.metrics.snapshots_lost.add(1);
            return Err(self.end_on_error(Error::SnapshotGone));
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
        self.snapshot_pin = None;
        self.start_pin = None;
        self.guards = HeldGuards::default();
        // Its locks are given back in the background.
        drop(self.locks.take());
    }

    fn call(&self) -> Call<'_> {
        Call {
            cancel: &self.options.cancel,
            deadline: None,
        }
    }

    /// A new timestamp, at or after every commit that this server has reported. A commit that the store gave its
    /// timestamp, in one phase, has one more than the newest one that the store has seen: after several such commits
    /// that is ahead of the placement driver, until it has given out as many.
    fn now(&self) -> Result<u64> {
        let client = &self.cluster.client;
        let newest_commit = self.cluster.newest_commit.load(Ordering::Acquire);
        let ts = loop {
            let ts = client.timestamp(self.call()).map_err(read_error)?;
            if ts >= newest_commit {
                break ts;
            }
        };
        if let Some(epoch) = self.epoch {
            self.cluster.fence.check_time(epoch, physical_ms(ts))?;
        }
        Ok(ts)
    }

    fn take_snapshot(&mut self) -> Result<()> {
        let ts = self.now()?;
        self.use_snapshot(ts);
        Ok(())
    }

    fn use_snapshot(&mut self, ts: u64) {
        self.snapshot = Some(ts);
        self.snapshot_pin = Some(self.cluster.snapshots.pin(ts));
    }

    fn timestamp(&mut self, read: Read) -> Result<u64> {
        match (read.mode, self.snapshot) {
            (ReadMode::Current, _) => self.now(),
            (ReadMode::Snapshot, Some(ts)) => Ok(ts),
            (ReadMode::Snapshot, None) => {
                self.take_snapshot()?;
                self.snapshot.ok_or(Error::Ended)
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

    fn fetch(&self, ts: u64, keys: Vec<Vec<u8>>) -> Result<HashMap<Vec<u8>, Vec<u8>>> {
        self.cluster.metrics.keys_read.add(keys.len() as u64);
        let client = &self.cluster.client;
        client.get(self.call(), ts, keys).map_err(read_error)
    }

    /// The framed value of a key, if it is known from a held lock.
    fn value_under_lock(&self, key: &[u8], mode: ReadMode) -> Option<Option<&[u8]>> {
        let held = self.locks.get(key)?;
        let seen = match (mode, self.snapshot) {
            (ReadMode::Current, _) => true,
            (ReadMode::Snapshot, Some(snapshot)) => held.is_newer(snapshot) == Some(false),
            (ReadMode::Snapshot, None) => false,
        };
        seen.then_some(held.value.as_deref())
    }

    /// Reads the keys that neither own writes nor locks answer.
    fn fetch_open(&mut self, read: Read, keys: &[Vec<u8>]) -> Result<HashMap<Vec<u8>, Vec<u8>>> {
        if read.mode == ReadMode::Snapshot && self.snapshot.is_none() && !keys.is_empty() {
            self.take_snapshot()?;
        }
        let mut open: Vec<Vec<u8>> = keys
            .iter()
            .filter(|key| self.writes.get(key, read.mark).is_none())
            .filter(|key| self.value_under_lock(key, read.mode).is_none())
            .cloned()
            .collect();
        open.sort_unstable();
        open.dedup();
        let ts = match (read.mode, open.len()) {
            (_, 0) => return Ok(HashMap::new()),
            // The newest version of one key is read without a timestamp.
            (ReadMode::Current, 1) => u64::MAX,
            _ => self.timestamp(read)?,
        };
        self.fetch(ts, open)
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
        self.writes
            .push(key.space, bytes, value, check, self.snapshot);
        Ok(())
    }

    fn lock_all(&mut self, keys: &[Vec<u8>], wait: Wait) -> Result<()> {
        let call = Call {
            cancel: &self.options.cancel,
            deadline: None,
        };
        let (cluster, snapshot) = (&self.cluster, self.snapshot);
        self.locks
            .acquire(cluster, call, sorted(keys.to_vec()), wait, snapshot)?;
        self.compare_locked(keys)
    }

    /// Determines which of the locked `keys` have changed since the snapshot.
    fn compare_locked(&mut self, keys: &[Vec<u8>]) -> Result<()> {
        if self.start_pin.is_none() {
            let start = self.locks.start_ts();
            self.start_pin = start.map(|ts| self.cluster.snapshots.pin(ts));
        }
        let call = Call {
            cancel: &self.options.cancel,
            deadline: None,
        };
        match self.snapshot {
            Some(snapshot) => self.locks.compare_with(&self.cluster, call, keys, snapshot),
            None => Ok(()),
        }
    }

    /// The way in which a lock request is served.
    fn share_of(&self, request: &LockRequest<'_>, key: &[u8]) -> Share {
        if request.mode != LockMode::KeyShare
            || self.locks.get(key).is_some()
            || !self.cluster.guards.is_referenced(request.key.space)
        {
            Share::None
        } else if self.guards.parent(key).is_some() {
            Share::Held
        } else {
            Share::Guard
        }
    }

    /// Locks `own`, and takes guards for the requests that need one; see [`crate::guards`].
    fn lock_with_parents(
        &mut self,
        requests: &[LockRequest<'_>],
        keys: &[Vec<u8>],
        shares: &[Share],
        own: &[Vec<u8>],
        wait: Wait,
    ) -> Result<()> {
        let cluster = self.cluster.clone();
        let slot = self.guards.slot(&cluster.guards);
        let mut taken = own.to_vec();
        let mut parents: Vec<(Vec<u8>, [Vec<u8>; 2])> = Vec::new();
        for ((request, key), share) in requests.iter().zip(keys).zip(shares) {
            let of = request.key;
            if *share != Share::Guard {
                continue;
            }
            let guards = [
                cluster.layout.guard_of_space(of.space, slot),
                cluster.layout.guard_of_key(of.space, of.bytes, slot),
            ];
            taken.extend(guards.iter().cloned());
            parents.push((key.clone(), guards));
        }
        let read = sorted(parents.iter().map(|(key, _)| key.clone()).collect());
        let call = Call {
            cancel: &self.options.cancel,
            deadline: None,
        };
        let (at, mut found) = self.locks.acquire_beside_reads(
            &cluster,
            call,
            sorted(taken),
            wait,
            self.snapshot,
            read,
        )?;
        let is_unchanged = |guard: &Vec<u8>| {
            let held = self.locks.get(guard);
            held.is_some_and(|held| held.is_newer(at) == Some(false))
        };
        let outdated = parents.iter().filter(|(_, g)| !g.iter().all(is_unchanged));
        let outdated = sorted(outdated.map(|(key, _)| key.clone()).collect());
        if !outdated.is_empty() {
            found.retain(|key, _| outdated.binary_search(key).is_err());
            let ts = match outdated.len() {
                1 => u64::MAX,
                _ => self.now()?,
            };
            found.extend(self.fetch(ts, outdated)?);
        }
        let mut absent = Vec::new();
        for (key, _) in parents {
            match found.remove(&key) {
                Some(value) => self.guards.add_parent(key, value),
                None if self.guards.parent(&key).is_none() => absent.push(key),
                None => {}
            }
        }
        let call = Call {
            cancel: &self.options.cancel,
            deadline: None,
        };
        self.locks
            .acquire(&cluster, call, sorted(absent), wait, self.snapshot)?;
        self.compare_locked(own)
    }

    /// Locks the guard keys of existing rows that are locked exclusively, so that no other transaction has a key-share
    /// lock on these rows.
    fn exclude_key_shares(
        &mut self,
        requests: &[LockRequest<'_>],
        keys: &[Vec<u8>],
        wait: Wait,
    ) -> Result<()> {
        let cluster = self.cluster.clone();
        let mut excluded: BTreeMap<SpaceId, SpaceKeys<'_>> = BTreeMap::new();
        for (request, key) in requests.iter().zip(keys) {
            let Key { space, bytes } = request.key;
            let is_present = || self.locks.get(key).is_some_and(|held| held.value.is_some());
            if request.mode == LockMode::Exclusive
                && cluster.guards.is_referenced(space)
                && !self.guards.has_space(space)
                && !self.guards.has_key(key)
                && is_present()
            {
                excluded.entry(space).or_default().insert((bytes, key));
            }
        }
        if excluded.is_empty() {
            return Ok(());
        }
        let mut guards = Vec::new();
        let (mut whole, mut spaces) = (Vec::new(), Vec::new());
        for (space, keys) in excluded {
            if self.guards.admits_keys(keys.len()) {
                for (bytes, key) in keys {
                    let guard = |slot| cluster.layout.guard_of_key(space, bytes, slot);
                    guards.extend((0..SLOTS).map(guard));
                    whole.push(key.clone());
                }
            } else {
                guards.extend((0..SLOTS).map(|slot| cluster.layout.guard_of_space(space, slot)));
                spaces.push(space);
            }
        }
        let call = Call {
            cancel: &self.options.cancel,
            deadline: None,
        };
        self.locks
            .acquire(&cluster, call, sorted(guards), wait, None)?;
        self.guards.add_excluded(whole, spaces);
        Ok(())
    }

    fn commit_writes(&mut self) -> Result<()> {
        let call = Call {
            cancel: &self.options.cancel,
            deadline: None,
        };
        self.check_lease()?;
        let fence = self.epoch.and_then(|_| self.cluster.fence.last_time());
        let max_commit_ts = fence.map_or(0, last_timestamp_of);
        let commit_ts = commit::commit(
            &self.cluster,
            call,
            &mut self.locks,
            &self.writes,
            max_commit_ts,
        )?;
        self.cluster.note_commit(commit_ts);
        Ok(())
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

    fn refresh_within(&mut self, staleness: Duration) -> Result<()> {
        self.check_not_ended()?;
        if self.pinned {
            return Ok(());
        }
        match self.cluster.recent_snapshot(staleness) {
            Some(ts) => {
                if let Some(epoch) = self.epoch {
                    self.cluster.fence.check_time(epoch, physical_ms(ts))?;
                }
                self.use_snapshot(ts);
            }
            None => self.take_snapshot()?,
        }
        Ok(())
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
        if read.validate {
            return Err(Error::Unsupported("range validation"));
        }
        let encoded = keys
            .iter()
            .map(|&key| self.encode(key))
            .collect::<Result<Vec<_>>>()?;
        let found = self.fetch_open(read, &encoded)?;
        for (i, key) in encoded.iter().enumerate() {
            match self.writes.get(key, read.mark) {
                Some(own) => visit(i, own),
                None => {
                    let read_now = || found.get(key).map(Vec::as_slice);
                    let held = self.value_under_lock(key, read.mode);
                    visit(i, held.unwrap_or_else(read_now).map(unframe).transpose()?);
                }
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
        if read.validate {
            return Err(Error::Unsupported("range validation"));
        }
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
        let _pin = self.cluster.snapshots.pin(ts);
        let source = Source {
            cluster: &self.cluster,
            call: self.call(),
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
        if matches!(wait, Wait::Skip) {
            return Err(Error::Unsupported("SKIP LOCKED"));
        }
        let keys = requests
            .iter()
            .map(|request| self.encode(request.key))
            .collect::<Result<Vec<_>>>()?;
        let pairs = requests.iter().zip(&keys);
        let shares: Vec<Share> = pairs.map(|(r, key)| self.share_of(r, key)).collect();
        let own = keys.iter().zip(&shares);
        let own = own.filter(|(_, share)| **share == Share::None);
        let own: Vec<Vec<u8>> = own.map(|(key, _)| key.clone()).collect();
        let locked = if shares.contains(&Share::Guard) {
            self.lock_with_parents(requests, &keys, &shares, &own, wait)
        } else {
            self.lock_all(&own, wait)
        };
        let locked = locked.and_then(|()| self.exclude_key_shares(requests, &keys, wait));
        if let Err(e) = locked {
            return Err(self.end_on_error(e));
        }
        for (i, key) in keys.iter().enumerate() {
            let held = self.locks.get(key);
            let committed = match held {
                Some(held) => held.value.as_ref(),
                None => Some(self.guards.parent(key).ok_or(Error::Ended)?),
            };
            let own = self.writes.get(key, StatementMark::ALL);
            let value = match (&own, committed) {
                (Some(own), _) => *own,
                (None, Some(value)) => Some(unframe(value)?),
                (None, None) => None,
            };
            let newer = self.snapshot.zip(held).and_then(|(ts, h)| h.is_newer(ts));
            let locked = Locked {
                granted: true,
                value,
                newer: newer == Some(true),
                own: own.is_some(),
            };
            visit(i, locked);
        }
        Ok(())
    }

    fn unlock(&mut self, _keys: &[Key<'_>], _since: StatementMark) {
        // Locks are held to the end, as the contract allows: giving one back costs a request.
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
        // Others can lock the keys as soon as the caller learns of the end. If the store does not
        // respond, the release continues in the background.
        if let Some(txn) = self.locks.take() {
            txn.rollback(RELEASE_WAIT);
        }
    }
}

impl Drop for TikvTxn {
    fn drop(&mut self) {
        self.end();
    }
}

fn sorted(mut keys: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// The longest key of the engine, so that a whole key stays within 4 KiB.
pub(crate) const LONGEST_KEY: usize = 4096 - LONGEST_PREFIX;
