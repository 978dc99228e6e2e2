//! A transaction: snapshot, reads, locks, and write set.
//!
//! Invariants:
//! 1. Every lock that the transaction holds is in `held`, once, from the grant to the end; dropping the
//!    transaction releases all of them.
//! 2. No epoch is pinned across a lock wait.
//! 3. A snapshot slot is claimed while `snapshot` is set. While reads are tracked, some slot (that of
//!    the snapshot or of `anchor`) is at or below the oldest of them, so that no deletion that
//!    validation must find is unlinked; or the slot was expired, and the transaction fails.

mod commit;
mod locks;
mod prepare;
mod snapshot;

pub(crate) use prepare::MemPrepared;

use crate::chunked_list::ChunkedList;
use crate::count::RangeCount;
use crate::index::BATCH;
use crate::key_order;
use crate::lock::TxnId;
use crate::range_walk::check_interrupt;
use crate::record::{FirstLock, InlineKey, RecordRef, Version};
use crate::scan::RangeScan;
use crate::state::EngineState;
use crate::validate::{ReadSet, Tracked, Tracking};
use crate::writes::WriteSet;
use crossbeam_epoch::Guard;
use porpoise_base::interrupt::Pacer;
use porpoise_base::sync::atomic::{AtomicU64, Ordering};
use porpoise_kv::{
    Check, Commit, CommitPosition, Error, Isolation, Key, LockRequest, Locked, PreparedTxn, Read,
    ReadMode, Resource, Result, ScanEnd, ScanRange, ScanVisitor, SpaceId, StatementMark, Txn,
    TxnOptions, Wait, count_by_scan,
};
use prepare::Stage;
use smallvec::SmallVec;
use snapshot::HeldSnapshot;
use std::cell::Cell;
use std::sync::Arc;

/// Number of keys read before the epoch pin is renewed.
const KEYS_PER_PIN: usize = 1024;

/// Maximum number of writes for which space is reserved.
const MAX_RESERVED_WRITES: usize = 4096;

static NEXT_TXN: AtomicU64 = AtomicU64::new(1);
const TXN_BLOCK: u64 = 1024;

thread_local! {
    static TXN_IDS: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// Returns a number, unique in the process, for a transaction that takes locks.
fn next_txn_id() -> TxnId {
    let from_block = TXN_IDS.try_with(|ids| {
        let (mut next, mut end) = ids.get();
        if next == end {
            next = NEXT_TXN.fetch_add(TXN_BLOCK, Ordering::Relaxed);
            end = next + TXN_BLOCK;
        }
        ids.set((next + 1, end));
        next
    });
    from_block.unwrap_or_else(|_| NEXT_TXN.fetch_add(TXN_BLOCK, Ordering::Relaxed))
}

/// A lock that is held.
pub(crate) struct HeldLock {
    pub(crate) space: SpaceId,
    pub(crate) record: RecordRef,
    since: u64,
}

pub(crate) struct MemTxn {
    pub(crate) state: Arc<EngineState>,
    pub(crate) options: TxnOptions,
    id: TxnId,
    snapshot: Option<HeldSnapshot>,
    /// An older snapshot's slot, which keeps deletions findable for tracked reads.
    anchor: Option<HeldSnapshot>,
    pinned: bool,
    pub(crate) writes: WriteSet,
    pub(crate) held: ChunkedList<HeldLock>,
    pub(crate) reads: ReadSet,
    pub(crate) seen: u64,
    ended: bool,
    stage: Stage,
    /// Bytes to be stored with the commit; empty: none.
    annotation: Vec<u8>,
}

impl MemTxn {
    pub(crate) fn new(state: Arc<EngineState>, options: TxnOptions) -> MemTxn {
        MemTxn {
            state,
            options,
            id: 0,
            snapshot: None,
            anchor: None,
            pinned: false,
            writes: WriteSet::default(),
            held: ChunkedList::default(),
            reads: ReadSet::default(),
            seen: 0,
            ended: false,
            stage: Stage::Active,
            annotation: Vec::new(),
        }
    }

    pub(crate) fn check_not_ended(&self) -> Result<()> {
        if self.ended {
            return Err(Error::Ended);
        }
        self.state.check_open()
    }

    fn serializable(&self) -> bool {
        self.options.isolation == Isolation::Serializable
    }

    /// Ends the transaction early: releases locks and snapshot; later calls fail.
    fn end(&mut self) {
        self.ended = true;
        self.release_all();
        self.end_snapshot();
        self.end_anchor();
    }

    /// Ends a transaction without locks and writes, and becomes a new one.
    fn begin_again(&mut self) {
        self.end_snapshot();
        self.end_anchor();
        self.id = 0;
        self.pinned = false;
        // Memory that many locks have taken is freed.
        self.held = ChunkedList::default();
        self.reads = ReadSet::default();
        self.seen = 0;
        self.ended = false;
        self.annotation = Vec::new();
    }

    /// Commits, and counts a refusal.
    fn commit_counted(&mut self) -> Result<Commit> {
        self.check_not_ended()?;
        let outcome = self.commit_now();
        if let Err(error) = &outcome {
            self.state.metrics.count_refusal(error);
        }
        outcome
    }

    /// Fails if a write cannot be buffered.
    #[inline]
    fn check_write(&mut self, key: Key<'_>, value: Option<&[u8]>) -> Result<()> {
        self.check_not_ended()?;
        self.state.store.spaces.get(key.space)?;
        let limits = &self.state.limits;
        for (what, size, limit) in [
            ("key", key.bytes.len(), limits.key),
            ("value", value.map_or(0, <[u8]>::len), limits.value),
        ] {
            if size > limit {
                return Err(Error::TooLarge { what, size, limit });
            }
        }
        let size = key.bytes.len() + value.map_or(0, <[u8]>::len);
        if self.writes.bytes() + size > limits.transaction {
            return Err(Error::Full(Resource::Transaction));
        }
        self.state.check_writable()?;
        if value.is_some() {
            self.make_room(self.writes.bytes() + size)?;
        }
        Ok(())
    }
}

impl MemTxn {
    /// The scan of the ranges of a call, before its first range.
    fn range_scan(&mut self, read: Read, limit: usize) -> (RangeScan, Option<Tracking>) {
        let (read_ts, tracking) = self.read_bounds(read);
        let scan = RangeScan {
            range_index: 0,
            read_ts,
            updates_seen: read.mode == ReadMode::Current,
            mark: read.mark,
            seen: self.seen,
            entries_left: limit,
        };
        (scan, tracking)
    }

    /// Scans one range. Returns the last key if the scan ended early.
    fn scan_range(
        &mut self,
        scan: &mut RangeScan,
        tracking: Option<Tracking>,
        range: &ScanRange<'_>,
        visit: &mut ScanVisitor<'_>,
    ) -> Result<Option<InlineKey>> {
        let space = self.state.store.spaces.get(range.space)?;
        let stopped = scan.run(space, &self.writes, range, visit)?;
        self.seen = scan.seen;
        if let Some(tracking) = tracking {
            self.reads
                .push(Tracked::range(range, stopped.as_deref(), tracking));
        }
        Ok(stopped)
    }
}

/// The answer for a key without a record, or whose lock was skipped.
fn nothing_locked(granted: bool) -> Locked<'static> {
    Locked {
        granted,
        value: None,
        newer: false,
        own: false,
    }
}

/// The commit of the newest version of a key, for which a reply that reveals the version must wait; 0 without one.
fn commit_of(newest: Option<&Version>) -> u64 {
    newest.map_or(0, Version::ts)
}

impl MemTxn {
    /// Locks the keys of some requests for keys of one space, which are at these positions.
    fn lock_batch(
        &mut self,
        requests: &[LockRequest<'_>],
        batch: &[usize],
        wait: Wait,
        visit: &mut dyn FnMut(usize, Locked<'_>),
    ) -> Result<()> {
        let at = |position: &usize| requests.get(*position);
        let Some(space) = batch.first().and_then(at).map(|request| request.key.space) else {
            return Ok(());
        };
        // No transaction can write a key that is longer: there is nothing to lock.
        let limit = self.state.limits.key;
        let fits = |request: &LockRequest<'_>| request.key.bytes.len() <= limit;
        let wanted = batch.iter().filter_map(at).filter(|request| fits(request));
        let wanted: SmallVec<[&LockRequest<'_>; BATCH]> = wanted.collect();
        let mut guard = crossbeam_epoch::pin();
        let (records, created) = self.records_to_lock(space, &wanted, &guard)?;
        let mut records = records.into_iter();
        // Records that were created with their locks.
        for record in records.by_ref().take(created) {
            self.add_held(space, record);
        }
        let mut new = 0;
        for index in batch {
            let Some(request) = at(index) else {
                continue;
            };
            if !fits(request) {
                visit(*index, nothing_locked(true));
                continue;
            }
            if new < created {
                new += 1;
                visit(*index, self.answer(request.key, None));
                continue;
            }
            let Some(record) = records.next() else {
                continue;
            };
            if self.lock_free_record(&record, request.mode) {
                self.add_held(space, record);
                let held = self.held.last();
                let newest = held.and_then(|held| held.record.newest(&guard));
                self.seen = self.seen.max(commit_of(newest));
                visit(*index, self.answer(request.key, newest));
                continue;
            }
            // No epoch is pinned during a wait.
            drop(guard);
            let locked = self.lock_record(space, record, request.mode, wait);
            guard = crossbeam_epoch::pin();
            match locked {
                Ok(Some(record)) => {
                    let newest = record.newest(&guard);
                    self.seen = self.seen.max(commit_of(newest));
                    visit(*index, self.answer(request.key, newest));
                }
                Ok(None) => visit(*index, nothing_locked(false)),
                Err(error) => {
                    // Removes the records that were created for this call.
                    for record in records {
                        self.state.store.unlink_if_unused(space, &record, &guard);
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Returns the records of keys to be locked, created where they are missing. The second value is the number of
    /// records, from the first on, that were created with their locks, and so are locked already.
    fn records_to_lock(
        &mut self,
        space: SpaceId,
        wanted: &[&LockRequest<'_>],
        guard: &Guard,
    ) -> Result<(SmallVec<[RecordRef; BATCH]>, usize)> {
        let txn = self.lock_owner();
        let found = self.state.store.spaces.get(space)?;
        let store = &self.state.store;
        let mut records = SmallVec::new();
        if let [request] = wanted {
            let (key, lock) = (request.key.bytes, FirstLock::new(txn, request.mode));
            let (record, created) = store.get_or_create_locked(found, key, lock, guard);
            records.push(record);
            return Ok((records, usize::from(created && lock.is_some())));
        }
        let keys: SmallVec<[&[u8]; BATCH]> = wanted.iter().map(|r| r.key.bytes).collect();
        let lock = |n: usize| FirstLock::new(txn, wanted.get(n)?.mode);
        let created = store.get_or_create_all(found, &keys, lock, guard, &mut records);
        Ok((records, created))
    }

    /// The result of a lock call for a key that it has locked, with this newest committed version.
    fn answer<'v>(&'v self, key: Key<'_>, newest: Option<&'v Version>) -> Locked<'v> {
        let own = if self.writes.is_empty() {
            None
        } else {
            self.writes.find(key, StatementMark::ALL)
        };
        let value = match own {
            Some(own) => own,
            None => newest.and_then(Version::value),
        };
        let commit = commit_of(newest);
        Locked {
            granted: true,
            value,
            newer: self.snapshot_ts().is_some_and(|snapshot| commit > snapshot),
            own: own.is_some(),
        }
    }
}

impl Txn for MemTxn {
    fn refresh(&mut self) -> Result<()> {
        self.check_not_ended()?;
        if self.pinned {
            return Ok(());
        }
        self.replace_snapshot();
        Ok(())
    }

    fn pin(&mut self) -> Result<()> {
        self.check_not_ended()?;
        self.ensure_snapshot();
        self.pinned = true;
        Ok(())
    }

    fn pinned(&self) -> bool {
        self.pinned
    }

    fn track_reads(&mut self) {
        self.reads.track(self.snapshot.is_some());
    }

    fn advance(&mut self) -> Result<bool> {
        self.check_not_ended()?;
        self.advance_snapshot()
    }

    fn get(
        &mut self,
        read: Read,
        keys: &[Key<'_>],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.check_not_ended()?;
        let (upto, tracking) = self.read_bounds(read);
        let current = read.mode == ReadMode::Current;
        // Borrowed, not cloned: a count of the Arc would write a cache line that all threads share.
        let state = &*self.state;
        let mut guard = crossbeam_epoch::pin();
        let mut at = 0;
        // Consecutive keys of one space are looked up together.
        for run in keys.chunk_by(|a, b| a.space == b.space) {
            let Some(first) = run.first() else {
                continue;
            };
            let space = state.store.spaces.get(first.space)?;
            for some in run.chunks(BATCH) {
                if at / KEYS_PER_PIN != (at + some.len()) / KEYS_PER_PIN {
                    guard.repin();
                    check_interrupt()?;
                }
                let mut found = [None; BATCH];
                let mut bytes = some.iter().map(|key| key.bytes);
                space.index.find_batch(&mut bytes, &guard, &mut found);
                for (key, record) in some.iter().zip(found) {
                    let index = at;
                    at += 1;
                    if let Some(tracking) = tracking {
                        self.reads.push(Tracked::key(*key, tracking));
                    }
                    if !self.writes.is_empty()
                        && let Some(own) = self.writes.find(*key, read.mark)
                    {
                        visit(index, own);
                        continue;
                    }
                    let version = record.and_then(|r| r.record().visible(upto, &guard));
                    if let (true, Some(version)) = (current, version) {
                        self.seen = self.seen.max(version.ts());
                    }
                    visit(index, version.and_then(|version| version.value()));
                }
            }
        }
        self.check_snapshots()
    }

    fn scan(
        &mut self,
        read: Read,
        ranges: &[ScanRange<'_>],
        limit: usize,
        visit: &mut ScanVisitor<'_>,
    ) -> Result<ScanEnd> {
        self.check_not_ended()?;
        let (mut scan, tracking) = self.range_scan(read, limit);
        for (index, range) in ranges.iter().enumerate() {
            if scan.entries_left == 0 {
                break;
            }
            scan.range_index = index;
            let stopped = self.scan_range(&mut scan, tracking, range, visit)?;
            if let Some(key) = stopped {
                let key = key.to_vec();
                self.check_snapshots()?;
                return Ok(ScanEnd::Stopped { range: index, key });
            }
        }
        self.check_snapshots()?;
        Ok(ScanEnd::Done)
    }

    fn first_entries(
        &mut self,
        read: Read,
        ranges: &[ScanRange<'_>],
        visit: &mut ScanVisitor<'_>,
    ) -> Result<()> {
        self.check_not_ended()?;
        let (mut scan, tracking) = self.range_scan(read, 1);
        let mut pacer = Pacer::new();
        for (index, range) in ranges.iter().enumerate() {
            pacer.tick().map_err(|ended| Error::Cancelled(ended.0))?;
            (scan.range_index, scan.entries_left) = (index, 1);
            self.scan_range(&mut scan, tracking, range, visit)?;
        }
        self.check_snapshots()
    }

    fn count(
        &mut self,
        read: Read,
        ranges: &[ScanRange<'_>],
        limit: usize,
    ) -> Result<(usize, ScanEnd)> {
        self.check_not_ended()?;
        let (upto, tracking) = self.read_bounds(read);
        if read.mode == ReadMode::Current || !self.writes.is_empty() {
            return count_by_scan(self, read, ranges, limit);
        }
        let state = self.state.clone();
        let mut count = RangeCount::new(&state, upto, limit);
        for (index, range) in ranges.iter().enumerate() {
            let space = state.store.spaces.get(range.space)?;
            let stopped = count.run(space, range)?;
            if let Some(tracking) = tracking {
                self.reads
                    .push(Tracked::range(range, stopped.as_deref(), tracking));
            }
            if let Some(key) = stopped {
                let key = key.to_vec();
                self.check_snapshots()?;
                return Ok((count.counted, ScanEnd::Stopped { range: index, key }));
            }
        }
        self.check_snapshots()?;
        Ok((count.counted, ScanEnd::Done))
    }

    fn lock(
        &mut self,
        requests: &[LockRequest<'_>],
        wait: Wait,
        visit: &mut dyn FnMut(usize, Locked<'_>),
    ) -> Result<()> {
        self.check_not_ended()?;
        let key = |n: usize| requests.get(n).map(|request| request.key);
        let order = key_order::sorted(requests.len(), key);
        self.held.reserve(requests.len());
        let mut pacer = Pacer::new();
        // Keys of one space are looked up and created together.
        let same_space =
            |a: &usize, b: &usize| key(*a).map(|k| k.space) == key(*b).map(|k| k.space);
        for run in order.chunk_by(same_space) {
            for batch in run.chunks(BATCH) {
                for _ in batch {
                    pacer.tick().map_err(|ended| Error::Cancelled(ended.0))?;
                }
                self.lock_batch(requests, batch, wait, visit)?;
            }
        }
        self.check_snapshots()
    }

    fn unlock(&mut self, keys: &[Key<'_>], since: StatementMark) {
        for key in keys {
            self.unlock_key(*key, since);
        }
    }

    fn tracked_reads(&self) -> usize {
        self.reads.len()
    }

    fn untrack_reads(&mut self, from: usize) {
        self.reads.truncate(from);
    }

    fn put(&mut self, key: Key<'_>, value: &[u8], check: Check) -> Result<()> {
        self.check_write(key, Some(value))?;
        self.writes.push(key, Some(value), check);
        Ok(())
    }

    fn put_new(&mut self, key: Key<'_>, value: &[u8], check: Check) -> Result<()> {
        self.check_write(key, Some(value))?;
        self.writes.push_new(key, value, check);
        Ok(())
    }

    fn reserve_writes(&mut self, writes: usize) {
        // Bounded, because reserved space is not charged; buffered writes are charged by their bytes.
        self.writes.reserve(writes.min(MAX_RESERVED_WRITES));
    }

    fn delete(&mut self, key: Key<'_>, check: Check) -> Result<()> {
        self.check_write(key, None)?;
        self.writes.push(key, None, check);
        Ok(())
    }

    fn mark(&self) -> StatementMark {
        StatementMark(self.writes.len() as u64)
    }

    fn rollback_to(&mut self, mark: StatementMark) {
        self.writes.rollback_to(mark);
    }

    fn has_writes(&self) -> bool {
        !self.writes.is_empty()
    }

    fn annotate(&mut self, annotation: Vec<u8>) -> Result<()> {
        self.check_not_ended()?;
        let log = self.state.log.as_ref();
        if !log.is_some_and(|log| log.has_annotations()) {
            return Err(Error::Unsupported("annotations of commits"));
        }
        self.annotation = annotation;
        Ok(())
    }

    fn seen(&self) -> CommitPosition {
        self.state.pipeline.watermark.request(self.seen);
        CommitPosition(self.seen)
    }

    fn commit(mut self: Box<Self>) -> Result<Commit> {
        self.commit_counted()
    }

    fn rollback(self: Box<Self>) {}

    fn restarts(&self) -> bool {
        true
    }

    fn restart(&mut self) -> bool {
        let is_active = matches!(self.stage, Stage::Active);
        if !is_active || !self.held.is_empty() || !self.writes.is_unused() {
            return false;
        }
        self.begin_again();
        true
    }

    fn commit_and_restart(&mut self) -> Result<Commit> {
        let outcome = self.commit_counted();
        self.release_all();
        if !self.writes.is_unused() {
            self.writes = WriteSet::default();
        }
        self.begin_again();
        outcome
    }

    fn prepare(self: Box<Self>, name: &[u8], note: &[u8]) -> Result<Box<dyn PreparedTxn>> {
        self.check_not_ended()?;
        let state = self.state.clone();
        let prepared = (*self).prepare_now(name, note);
        if let Err(error) = &prepared {
            state.metrics.count_refusal(error);
        }
        Ok(Box::new(prepared?))
    }
}

impl Drop for MemTxn {
    fn drop(&mut self) {
        if matches!(self.stage, Stage::Prepared) {
            let mut seq = self.state.pipeline.lock();
            seq.protected.remove(self.id, &self.state.store);
        }
        self.release_all();
        self.end_snapshot();
        self.end_anchor();
    }
}
