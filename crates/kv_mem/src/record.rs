//! Records: a key, its chain of versions, and its lock word.
//!
//! A record is one allocation of 24 bytes and its key; a version another one, of 12 bytes and its value, or 20 bytes
//! if an older version may follow it ([`version`]).
//! The lock word, the flags and the latch that guards them are 10 bytes of the 24: taking the latch
//! unpacks them into a [`Latched`], releasing it packs them again.
//!
//! Readers walk the chain from the newest version under an epoch pin and take no latch. A writer of the
//! chain (a commit, the reclaimer) holds the record's latch, for some tens of nanoseconds and never
//! across a wait.
//!
//! Invariants:
//! 1. Versions are in descending order of commit timestamps, all different.
//! 2. A version in the chain never changes, but for its link to older ones. The oldest version may have none; a
//!    copy takes its place if an older version is inserted.
//! 3. A version is freed only through the epoch after it was unlinked under the latch, or with its
//!    record.
//! 4. A record that is `dead` has been or is about to be removed from the index; nothing is pushed to it
//!    any more (transactions.md, 28).
//! 5. The link to the newest version may be marked as settled ([`SETTLED`]), by any thread and without
//!    the latch; pushing a version removes the mark.
//! 6. A record is reference-counted: the index holds one count, and gives it up through the epoch after
//!    it removed the record. So a record that was found in the index under a pin ([`Pinned`]) lives as
//!    long as the pin.
//!
//! Rejected: marking versions as pending and stamping them after the commit point (every reader would
//! have to check the transaction's state); a read-write lock around the chain (readers of a hot row
//! would write its cache line); the first version in the record's own allocation (16 bytes less, until
//! the first update makes it a hundred more); a mutex around an unpacked lock (32 bytes a row more).

mod counted;
mod version;
mod word;

use crate::lock::{LockCell, SPIN_LIMIT, TxnId};
use crate::prefetch::{Prefetched, prefetch};
pub(crate) use counted::{Pinned, RecordAddress, RecordRef};
use crossbeam_epoch::{Atomic, Guard, Pointer, Shared};
use porpoise_base::sync::RawLatch as _;
use porpoise_base::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use porpoise_base::sync::{RawMutex, scheduling_point, spin_loop};
use smallvec::SmallVec;
use std::ops::{Deref, DerefMut};
pub(crate) use version::{LONGEST_VALUE, NewVersion, VERSION_BYTES, Version};
pub(crate) use word::FirstLock;
use word::{is_held_by, pack, unpack};

/// A key that is stored inline when it is short.
pub(crate) type InlineKey = SmallVec<[u8; 24]>;

/// Accounted bytes of a record without its key and versions; includes its entries in tree and hash
/// index.
pub(crate) const RECORD_BYTES: usize = 64;

/// The longest key that a record can have, in bytes; engines allow less.
pub(crate) const LONGEST_KEY: usize = u16::MAX as usize;

/// State that the latch guards, besides the chain.
#[derive(Default)]
pub(crate) struct Latched {
    /// Holders and waiters.
    pub(crate) lock: LockCell,
    /// Whether the record is dead: removed from the index, or about to be.
    pub(crate) dead: bool,
    /// Whether the record is in the reclaimer's queue.
    pub(crate) queued: bool,
    /// Whether the reclaimer keeps the record until a snapshot ends.
    pub(crate) held_back: bool,
}

/// Tag of the link to the newest version if it is settled: a value that every snapshot sees, present
/// or future.
const SETTLED: usize = 1;

const DEAD: u8 = 1;
const QUEUED: u8 = 2;
const HELD_BACK: u8 = 4;

/// A key with its versions and its lock. Lives behind a [`RecordRef`]; the key's bytes are in the
/// same allocation.
#[repr(C)]
pub(crate) struct Record {
    head: Atomic<Version>,
    /// The packed lock; changes under the latch.
    lock: AtomicU64,
    refs: AtomicU32,
    key_len: u16,
    latch: RawMutex,
    /// `DEAD`, `QUEUED`, `HELD_BACK`; change under the latch.
    flags: AtomicU8,
    key: [u8],
}

/// The sized prefix of a [`Record`].
#[repr(C)]
pub(crate) struct RecordHead {
    head: Atomic<Version>,
    lock: AtomicU64,
    refs: AtomicU32,
    key_len: u16,
    latch: RawMutex,
    flags: AtomicU8,
    key: [u8; 0],
}

/// The outcome of pruning.
#[derive(Default)]
pub(crate) struct PruneOutcome {
    pub(crate) versions: usize,
    pub(crate) bytes: usize,
    /// Versions left in the chain.
    pub(crate) left: usize,
    /// The newest version left: timestamp, and whether it is a deletion.
    pub(crate) newest: Option<(u64, bool)>,
    /// A snapshot for which an older version was left.
    pub(crate) blocker: Option<u64>,
}

impl Record {
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Allocated bytes, versions excluded.
    pub(crate) fn bytes(&self) -> usize {
        RecordRef::layout(self.key.len()).size()
    }

    /// Returns the newest version at or below `upto`.
    pub(crate) fn visible<'g>(&'g self, upto: u64, guard: &'g Guard) -> Option<&'g Version> {
        let mut link = &self.head;
        loop {
            scheduling_point();
            // SAFETY: versions are freed through the epoch after they were
            // unlinked, or with the record; `guard` is pinned and `self`
            // borrowed for 'g, so whatever is loaded here lives for 'g.
            let version = unsafe { link.load(Ordering::Acquire, guard).as_ref() }?;
            if version.ts <= upto {
                return Some(version);
            }
            link = version.link()?;
        }
    }

    /// Returns the newest version.
    pub(crate) fn newest<'g>(&'g self, guard: &'g Guard) -> Option<&'g Version> {
        self.visible(u64::MAX, guard)
    }

    /// Whether the newest version is marked as a value that all snapshots see.
    #[inline]
    pub(crate) fn is_settled(&self, guard: &Guard) -> bool {
        self.head.load(Ordering::Relaxed, guard).tag() == SETTLED
    }

    /// Whether the newest version at or below `upto` is a value. Marks the newest version as settled
    /// if it is a value at or below `settled_ts`, which is not above `upto` or any other snapshot,
    /// present or future.
    pub(crate) fn has_visible_value(&self, upto: u64, settled_ts: u64, guard: &Guard) -> bool {
        let head = self.head.load(Ordering::Acquire, guard);
        // SAFETY: as in `Record::visible`.
        let newest = unsafe { head.as_ref() };
        if newest.is_some_and(|version| version.ts <= settled_ts && version.value().is_some()) {
            scheduling_point();
            // A commit that pushes a version in between replaces the pointer, marked or not. The
            // version cannot have been freed and allocated again, because the guard is pinned.
            let _ = self.head.compare_exchange(
                head,
                head.with_tag(SETTLED),
                Ordering::Release,
                Ordering::Relaxed,
                guard,
            );
            return true;
        }
        let visible = self.visible(upto, guard);
        visible.is_some_and(|version| version.value().is_some())
    }

    /// Prefetches the first cache lines of the newest version.
    #[inline]
    pub(crate) fn prefetch_newest(&self, prefetched: Prefetched, guard: &Guard) {
        let newest = self.head.load(Ordering::Relaxed, guard);
        let lines = match prefetched {
            Prefetched::Lines(lines) => lines,
            Prefetched::Unsettled if newest.tag() != SETTLED => 1,
            Prefetched::Unsettled | Prefetched::Nothing => 0,
        };
        let address = newest.into_usize();
        for line in 0..lines {
            prefetch(address.wrapping_add(line * 64));
        }
    }

    /// Prefetches the head of the newest version.
    #[inline]
    pub(crate) fn prefetch_head(&self, guard: &Guard) {
        let newest = self.head.load(Ordering::Relaxed, guard);
        prefetch(newest.into_usize());
    }

    /// Prefetches the head of the second newest version; the newest should be in the cache by now.
    #[inline]
    pub(crate) fn prefetch_older(&self, guard: &Guard) {
        if let Some(newest) = self.newest(guard) {
            let older = newest.older(Ordering::Relaxed, guard);
            prefetch(older.into_usize());
        }
    }

    /// Checks the order of the chain, and returns its length and accounted bytes; for `verify`.
    pub(crate) fn check(&self, guard: &Guard) -> Result<(usize, usize), String> {
        let mut link: Shared<'_, Version> = self.head.load(Ordering::Acquire, guard);
        let (mut count, mut bytes, mut last) = (0, 0, u64::MAX);
        // SAFETY: as in `Record::visible`.
        while let Some(version) = unsafe { link.as_ref() } {
            if version.ts >= last {
                return Err(format!(
                    "version {} follows the older version {last}",
                    version.ts
                ));
            }
            last = version.ts;
            count += 1;
            bytes += version.bytes();
            link = version.older(Ordering::Acquire, guard);
        }
        Ok((count, bytes))
    }

    /// Returns the allocated bytes of the versions, and how many of them are values.
    pub(crate) fn version_bytes(&self, guard: &Guard) -> (usize, usize) {
        let (mut asked, mut values) = (0, 0);
        let mut next = self.head.load(Ordering::Acquire, guard);
        // SAFETY: as in `Record::visible`.
        while let Some(version) = unsafe { next.as_ref() } {
            let sizes = version.sizes();
            asked += sizes.0;
            values += sizes.1;
            next = version.older(Ordering::Acquire, guard);
        }
        (asked, values)
    }

    /// Spins until the lock word changes, up to a limit; called when the lock has a lone holder. It
    /// only reads, so that the holder keeps the cache line.
    pub(crate) fn spin_while_held(&self) {
        let held = self.lock.load(Ordering::Relaxed);
        for _ in 0..SPIN_LIMIT {
            if held == 0 || self.lock.load(Ordering::Relaxed) != held {
                return;
            }
            spin_loop();
        }
    }

    /// Takes the latch, for changes of the chain or of a lock with one holder.
    #[inline]
    pub(crate) fn latch_packed(&self) -> PackedLatch<'_> {
        self.latch.lock();
        PackedLatch { record: self }
    }

    /// Takes the latch.
    pub(crate) fn latch(&self) -> Latch<'_> {
        let packed = self.latch_packed();
        let flags = self.flags.load(Ordering::Relaxed);
        Latch {
            latched: Latched {
                // SAFETY: the latch is held, and the word is packed again before it is released.
                lock: unsafe { unpack(self.lock.load(Ordering::Relaxed)) },
                dead: flags & DEAD > 0,
                queued: flags & QUEUED > 0,
                held_back: flags & HELD_BACK > 0,
            },
            packed,
        }
    }
}

/// A record whose latch is held, with its lock packed.
pub(crate) struct PackedLatch<'r> {
    record: &'r Record,
}

impl Drop for PackedLatch<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `Record::latch_packed` took it, for this guard.
        unsafe { self.record.latch.unlock() };
    }
}

impl PackedLatch<'_> {
    #[inline]
    fn has(&self, flag: u8) -> bool {
        self.record.flags.load(Ordering::Relaxed) & flag > 0
    }

    /// Whether the record is dead.
    #[inline]
    pub(crate) fn is_dead(&self) -> bool {
        self.has(DEAD)
    }

    /// Marks the record as queued for the reclaimer. Returns false if it was queued before.
    #[inline]
    pub(crate) fn enqueue(&mut self) -> bool {
        let flags = self.record.flags.load(Ordering::Relaxed);
        self.record.flags.store(flags | QUEUED, Ordering::Relaxed);
        flags & QUEUED == 0
    }

    /// Grants a free lock, unless the record is dead. Returns false, and changes nothing, if the lock is not free.
    #[inline]
    pub(crate) fn grant_free(&mut self, lock: FirstLock) -> bool {
        let is_free = self.record.lock.load(Ordering::Relaxed) == 0 && !self.is_dead();
        if is_free {
            self.record.lock.store(lock.0, Ordering::Relaxed);
        }
        is_free
    }

    /// Releases the lock of its only holder. Returns false, and changes nothing, if the lock is in another state.
    #[inline]
    pub(crate) fn release_single(&mut self, txn: TxnId) -> bool {
        let is_single = is_held_by(self.record.lock.load(Ordering::Relaxed), txn);
        if is_single {
            self.record.lock.store(0, Ordering::Relaxed);
        }
        is_single
    }

    /// Inserts a version in timestamp order. Returns its accounted bytes, and whether there is an
    /// older version below it.
    pub(crate) fn push(&mut self, ts: u64, version: NewVersion, guard: &Guard) -> (usize, bool) {
        let mut link = &self.record.head;
        let mut below = link.load(Ordering::Acquire, guard);
        // SAFETY: as in `Record::visible`; the latch keeps others from unlinking.
        while let Some(newer) = unsafe { below.as_ref() }
            && newer.ts > ts
        {
            link = match newer.link() {
                Some(link) => link,
                None => self.add_link(link, below, newer, guard),
            };
            below = link.load(Ordering::Acquire, guard);
        }
        let mut version = version;
        version.0.ts = ts;
        // Only the link to the newest version is marked.
        let below = below.with_tag(0);
        if !below.is_null() && !version.link_to(below) {
            version = NewVersion::linked_copy(&version.0, below);
        }
        let bytes = version.0.bytes();
        scheduling_point();
        link.store(version.0, Ordering::Release);
        (bytes, !below.is_null())
    }

    /// Replaces the oldest version, which has no link to an older one, by a copy that has. Returns the link.
    #[cold]
    fn add_link<'g>(
        &self,
        link: &Atomic<Version>,
        old: Shared<'g, Version>,
        version: &Version,
        guard: &'g Guard,
    ) -> &'g Atomic<Version> {
        let NewVersion(copy) = NewVersion::linked_copy(version, Shared::null());
        let copy = copy.into_shared(guard);
        scheduling_point();
        link.store(copy, Ordering::Release);
        // SAFETY: `old` was unlinked by the store, under the latch, so no new reader finds it, and no other thread can
        // unlink it again. The copy lives as long as the pin.
        let copied = unsafe {
            guard.defer_destroy(old);
            copy.deref()
        };
        match copied.link() {
            Some(link) => link,
            None => unreachable!("a linked copy has a link"),
        }
    }
}

/// A record whose latch is held.
pub(crate) struct Latch<'r> {
    latched: Latched,
    /// Released after the lock was packed again.
    packed: PackedLatch<'r>,
}

impl Drop for Latch<'_> {
    fn drop(&mut self) {
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let flags = flag(self.latched.dead, DEAD)
            | flag(self.latched.queued, QUEUED)
            | flag(self.latched.held_back, HELD_BACK);
        let lock = pack(std::mem::take(&mut self.latched.lock));
        self.packed.record.lock.store(lock, Ordering::Relaxed);
        self.packed.record.flags.store(flags, Ordering::Relaxed);
    }
}

impl Deref for Latch<'_> {
    type Target = Latched;
    fn deref(&self) -> &Latched {
        &self.latched
    }
}

impl DerefMut for Latch<'_> {
    fn deref_mut(&mut self) -> &mut Latched {
        &mut self.latched
    }
}

impl Latch<'_> {
    /// As [`PackedLatch::push`].
    pub(crate) fn push(&mut self, ts: u64, version: NewVersion, guard: &Guard) -> (usize, bool) {
        self.packed.push(ts, version, guard)
    }

    /// Unlinks every version that no snapshot needs: its successor is at or below `horizon`, so no
    /// future snapshot needs it, and no timestamp in `snapshots` (ascending) lies between the two.
    pub(crate) fn prune(&mut self, horizon: u64, snapshots: &[u64], guard: &Guard) -> PruneOutcome {
        let mut pruned = PruneOutcome::default();
        let head = self.packed.record.head.load(Ordering::Acquire, guard);
        // SAFETY: as in `Record::visible`.
        let Some(mut kept) = (unsafe { head.as_ref() }) else {
            return pruned;
        };
        pruned.newest = Some((kept.ts, kept.value().is_none()));
        pruned.left = 1;
        loop {
            let older = kept.older(Ordering::Acquire, guard);
            // SAFETY: as above.
            let Some(version) = (unsafe { older.as_ref() }) else {
                return pruned;
            };
            let from = snapshots.partition_point(|s| *s < version.ts);
            let wanted = snapshots.get(from).filter(|s| **s < kept.ts);
            if kept.ts > horizon || wanted.is_some() {
                pruned.blocker = wanted.copied().or(pruned.blocker);
                kept = version;
                pruned.left += 1;
                continue;
            }
            let after = version.older(Ordering::Acquire, guard);
            if let Some(link) = kept.link() {
                link.store(after, Ordering::Release);
            }
            pruned.versions += 1;
            pruned.bytes += version.bytes();
            // SAFETY: unlinked above under the latch, so no new reader finds
            // it, and no other thread can unlink it again.
            unsafe { guard.defer_destroy(older) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::word::MODES;
    use super::*;
    use crate::lock::Holder;
    use porpoise_kv::LockMode;

    fn chain(record: &Record) -> Vec<u64> {
        let guard = crossbeam_epoch::pin();
        let mut out = Vec::new();
        let mut upto = u64::MAX;
        while let Some(version) = record.visible(upto, &guard) {
            out.push(version.ts());
            upto = version.ts() - 1;
        }
        out
    }

    fn with(versions: &[u64]) -> RecordRef {
        let record = RecordRef::new(b"k");
        let guard = crossbeam_epoch::pin();
        for ts in versions {
            let version = NewVersion::new(Some(ts.to_string().as_bytes()));
            record.latch().push(*ts, version, &guard);
        }
        record
    }

    #[test]
    fn a_lock_round_trips_through_its_word() {
        let record = RecordRef::new(b"k");
        let free = |record: &Record| record.lock.load(Ordering::Relaxed) == 0;
        for (txn, calls) in [(1, 1), ((1 << 48) - 1, 4095), (1 << 48, 1), (7, 5000)] {
            for mode in MODES {
                for _ in 0..calls {
                    record.latch().lock.request(txn, mode);
                }
                let LockCell::Single(holder) = record.latch().lock else {
                    panic!("one holder");
                };
                let expected = Holder {
                    txn,
                    mode,
                    count: calls,
                };
                assert_eq!(holder, expected);
                assert!(!free(&record));
                record.latch().lock.release(txn);
                assert!(free(&record));
            }
        }
        record.latch().lock.request(1, LockMode::Share);
        record.latch().lock.request(2, LockMode::Share);
        record.latch().dead = true;
        assert_eq!(record.latch().lock.held_mode(2), Some(LockMode::Share));
        assert!(record.latch().dead && !record.latch().queued);
    }

    #[test]
    fn versions_are_in_timestamp_order_whatever_the_insertion_order() {
        // Bit n: the n-th version is made without a link.
        for unlinked in 0..16 {
            let record = RecordRef::new(b"k");
            let guard = crossbeam_epoch::pin();
            for (n, ts) in [5u64, 9, 7, 3].into_iter().enumerate() {
                let text = ts.to_string();
                let version = match unlinked >> n & 1 {
                    0 => NewVersion::new(Some(text.as_bytes())),
                    _ => NewVersion::first(text.as_bytes()),
                };
                let (bytes, over_older) = record.latch().push(ts, version, &guard);
                assert_eq!(
                    (bytes, over_older),
                    (VERSION_BYTES + 1, [9, 7].contains(&ts))
                );
            }
            assert_eq!(chain(&record), [9, 7, 5, 3]);
            for ts in [3, 5, 7, 9] {
                let text = ts.to_string();
                let found = record.visible(ts, &guard).unwrap();
                assert_eq!(found.value(), Some(text.as_bytes()));
            }
            let pruned = record.latch().prune(9, &[], &guard);
            assert_eq!((pruned.versions, chain(&record)), (3, vec![9]));
        }
        let record = with(&[5, 9, 7, 3]);
        assert_eq!(chain(&record), [9, 7, 5, 3]);
        let guard = crossbeam_epoch::pin();
        assert_eq!(record.visible(8, &guard).unwrap().value(), Some(&b"7"[..]));
        assert!(record.visible(2, &guard).is_none());
    }

    #[test]
    fn pruning_keeps_only_versions_that_a_snapshot_sees() {
        let guard = crossbeam_epoch::pin();
        let record = with(&[1, 3, 5, 7, 9]);
        let pruned = record.latch().prune(9, &[4], &guard);
        assert_eq!((pruned.versions, pruned.left), (3, 2));
        assert_eq!(chain(&record), [9, 3]);
        let record = with(&[1, 3, 5, 7, 9]);
        record.latch().prune(6, &[], &guard);
        assert_eq!(chain(&record), [9, 7, 5], "9 and 7 may not be durable");
        let record = with(&[1, 3, 5]);
        record.latch().prune(5, &[1, 2, 5], &guard);
        assert_eq!(chain(&record), [5, 1]);
    }
}
