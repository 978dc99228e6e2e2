//! Records: a key, its chain of versions, and its lock word.
//!
//! Readers walk the chain from the newest version under an epoch pin and take
//! nothing. Whoever changes the chain (a commit, the reclaimer) holds the
//! record's latch, for some tens of nanoseconds and never across a wait.
//!
//! Invariants:
//! 1. Versions stand in descending order of commit timestamps, all different.
//! 2. A version in the chain never changes, but for its link to older ones.
//! 3. A version is freed only through the epoch after it was unlinked under
//!    the latch, or with its record.
//! 4. A record that is `dead` has been or is about to be taken out of the
//!    index; nothing is pushed to it any more (transactions.md, 28).
//!
//! Rejected: marking versions as pending and stamping them after the commit
//! point (every reader would have to look twice); a read-write lock around the
//! chain (readers of a hot row would write its cache line).

use crate::lock::LockCell;
use crossbeam_epoch::{Atomic, Guard, Owned, Pointable, Shared};
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::mem::offset_of;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;

/// A key whose bytes lie in the node when it is short.
pub(crate) type InlineKey = SmallVec<[u8; 24]>;

/// What a version weighs beside its value, in bytes: head and allocation.
pub(crate) const VERSION_BYTES: usize = 40;
/// What a record weighs beside its versions, with its place in the index.
pub(crate) const RECORD_BYTES: usize = 176;

/// `len` of a deletion.
const DELETED: u32 = u32::MAX;

/// One committed state of a key; the value's bytes stand in the same
/// allocation, so that a reader meets them in the lines that it loads anyway.
#[repr(C)]
pub(crate) struct Version {
    /// The commit that wrote it.
    ts: u64,
    next: Atomic<Version>,
    /// Bytes of the value, or `DELETED`.
    len: u32,
    value: [u8],
}

impl Version {
    pub(crate) fn ts(&self) -> u64 {
        self.ts
    }

    pub(crate) fn value(&self) -> Option<&[u8]> {
        (self.len != DELETED).then_some(&self.value)
    }

    fn bytes(&self) -> usize {
        VERSION_BYTES + self.value.len()
    }

    /// What a version with a value of so many bytes takes.
    fn layout(len: usize) -> Layout {
        let head = Layout::new::<VersionHead>();
        let whole = Layout::from_size_align(offset_of!(VersionHead, value) + len, head.align());
        match whole {
            Ok(layout) => layout.pad_to_align(),
            Err(_) => unreachable!("values are shorter than 4 GiB"),
        }
    }

    /// From the address of a version to a pointer with its length.
    ///
    /// # Safety
    /// The address is one that `init` made and `drop` has not seen.
    unsafe fn fat(address: usize) -> *mut Version {
        let head = address as *const VersionHead;
        // SAFETY: the caller vouches for the address; `VersionHead` is laid out
        // as the beginning of `Version` (both C).
        let len = unsafe { (*head).len };
        let len = if len == DELETED { 0 } else { len as usize };
        std::ptr::slice_from_raw_parts_mut(address as *mut u8, len) as *mut Version
    }
}

/// The sized beginning of a [`Version`].
#[repr(C)]
struct VersionHead {
    ts: u64,
    next: Atomic<Version>,
    len: u32,
    value: [u8; 0],
}

/// A version that is in no chain yet, made before the commit point.
pub(crate) struct NewVersion(Owned<Version>);

impl NewVersion {
    pub(crate) fn new(value: Option<&[u8]>) -> NewVersion {
        let mut version = Owned::<Version>::init(value.map(<[u8]>::len));
        version.value.copy_from_slice(value.unwrap_or_default());
        NewVersion(version)
    }

    pub(crate) fn value(&self) -> Option<&[u8]> {
        self.0.value()
    }
}

/// Addresses are those that `init` made: memory that it allocated and filled.
/// References are made with the length noted there, and memory is freed with
/// the layout it was allocated with.
impl Pointable for Version {
    const ALIGN: usize = align_of::<VersionHead>();

    /// Bytes of the value, `None` for a deletion. The value begins as zeroes.
    type Init = Option<usize>;

    unsafe fn init(len: Option<usize>) -> usize {
        let layout = Version::layout(len.unwrap_or(0));
        // SAFETY: the layout is not empty, and the head lies at its beginning.
        unsafe {
            let address = alloc_zeroed(layout);
            if address.is_null() {
                handle_alloc_error(layout);
            }
            let head = VersionHead {
                ts: 0,
                next: Atomic::null(),
                len: len.map_or(DELETED, |len| len as u32),
                value: [],
            };
            address.cast::<VersionHead>().write(head);
            address as usize
        }
    }

    unsafe fn deref<'a>(ptr: usize) -> &'a Self {
        // SAFETY: the caller vouches for the address, as `Pointable` demands.
        unsafe { &*Version::fat(ptr) }
    }

    unsafe fn deref_mut<'a>(ptr: usize) -> &'a mut Self {
        // SAFETY: as in `deref`.
        unsafe { &mut *Version::fat(ptr) }
    }

    unsafe fn drop(ptr: usize) {
        // SAFETY: as in `deref`; nothing in a version needs dropping, for its
        // link does not own what it leads to.
        unsafe {
            let len = Self::deref(ptr).value.len();
            dealloc(ptr as *mut u8, Version::layout(len));
        }
    }
}

/// What the latch guards beside the chain.
#[derive(Default)]
pub(crate) struct Latched {
    /// Who holds and who waits.
    pub(crate) lock: LockCell,
    /// Out of the index for good.
    pub(crate) dead: bool,
    /// In the reclaimer's queue.
    pub(crate) queued: bool,
    /// Kept by the reclaimer until a snapshot ends.
    pub(crate) held_back: bool,
}

/// A key of a space with all that belongs to it.
pub(crate) struct Record {
    key: InlineKey,
    head: Atomic<Version>,
    latch: Mutex<Latched>,
}

/// What pruning did and left.
#[derive(Default)]
pub(crate) struct Pruned {
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
    pub(crate) fn new(key: &[u8]) -> Record {
        Record {
            key: InlineKey::from_slice(key),
            head: Atomic::null(),
            latch: Mutex::new(Latched::default()),
        }
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The newest version at or below `upto`.
    pub(crate) fn visible<'g>(&'g self, upto: u64, guard: &'g Guard) -> Option<&'g Version> {
        let mut link = &self.head;
        loop {
            // SAFETY: versions are freed through the epoch after they were
            // unlinked, or with the record; `guard` is pinned and `self`
            // borrowed for 'g, so whatever is loaded here lives for 'g.
            let version = unsafe { link.load(Ordering::Acquire, guard).as_ref() }?;
            if version.ts <= upto {
                return Some(version);
            }
            link = &version.next;
        }
    }

    /// The newest version.
    pub(crate) fn newest<'g>(&'g self, guard: &'g Guard) -> Option<&'g Version> {
        self.visible(u64::MAX, guard)
    }

    /// Whether the chain is in order; for `verify`. Returns its length and weight.
    pub(crate) fn check(&self, guard: &Guard) -> Result<(usize, usize), String> {
        let mut link: Shared<'_, Version> = self.head.load(Ordering::Acquire, guard);
        let (mut count, mut bytes, mut last) = (0, 0, u64::MAX);
        // SAFETY: as in `Record::visible`.
        while let Some(version) = unsafe { link.as_ref() } {
            if version.ts >= last {
                return Err(format!("version {} stands below {last}", version.ts));
            }
            last = version.ts;
            count += 1;
            bytes += version.bytes();
            link = version.next.load(Ordering::Acquire, guard);
        }
        Ok((count, bytes))
    }

    /// Takes the latch.
    pub(crate) fn latch(&self) -> Latch<'_> {
        Latch {
            record: self,
            latched: self.latch.lock(),
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        // SAFETY: nobody else can reach the record any more (`&mut self`), and
        // references to its versions borrow the record.
        unsafe {
            let guard = crossbeam_epoch::unprotected();
            let mut next = self.head.load(Ordering::Relaxed, guard);
            while !next.is_null() {
                let version = next.into_owned();
                next = version.next.load(Ordering::Relaxed, guard);
            }
        }
    }
}

/// A record whose latch is held.
pub(crate) struct Latch<'r> {
    record: &'r Record,
    latched: MutexGuard<'r, Latched>,
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
    /// Puts a version where its timestamp belongs; returns its weight and
    /// whether it has an older one beneath it.
    pub(crate) fn push(&mut self, ts: u64, version: NewVersion, guard: &Guard) -> (usize, bool) {
        let mut link = &self.record.head;
        let mut below = link.load(Ordering::Acquire, guard);
        // SAFETY: as in `Record::visible`; the latch keeps others from unlinking.
        while let Some(version) = unsafe { below.as_ref() }
            && version.ts > ts
        {
            link = &version.next;
            below = link.load(Ordering::Acquire, guard);
        }
        let NewVersion(mut version) = version;
        version.ts = ts;
        version.next.store(below, Ordering::Relaxed);
        let bytes = version.bytes();
        link.store(version, Ordering::Release);
        (bytes, !below.is_null())
    }

    /// Drops every version that no snapshot needs: one whose successor is at
    /// or below `horizon` (no snapshot begun later can need it) and between
    /// which and its successor none of `snapshots` (ascending) lies.
    pub(crate) fn prune(&mut self, horizon: u64, snapshots: &[u64], guard: &Guard) -> Pruned {
        let mut pruned = Pruned::default();
        let head = self.record.head.load(Ordering::Acquire, guard);
        // SAFETY: as in `Record::visible`.
        let Some(mut kept) = (unsafe { head.as_ref() }) else {
            return pruned;
        };
        pruned.newest = Some((kept.ts, kept.value().is_none()));
        pruned.left = 1;
        loop {
            let older = kept.next.load(Ordering::Acquire, guard);
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
            let after = version.next.load(Ordering::Acquire, guard);
            kept.next.store(after, Ordering::Release);
            pruned.versions += 1;
            pruned.bytes += version.bytes();
            // SAFETY: unlinked above under the latch, so no new reader finds
            // it, and nobody else can unlink it again.
            unsafe { guard.defer_destroy(older) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn with(versions: &[u64]) -> Record {
        let record = Record::new(b"k");
        let guard = crossbeam_epoch::pin();
        for ts in versions {
            let version = NewVersion::new(Some(ts.to_string().as_bytes()));
            record.latch().push(*ts, version, &guard);
        }
        record
    }

    #[test]
    fn versions_stand_in_order_whatever_the_order_of_their_coming() {
        let record = with(&[5, 9, 7, 3]);
        assert_eq!(chain(&record), [9, 7, 5, 3]);
        let guard = crossbeam_epoch::pin();
        assert_eq!(record.visible(8, &guard).unwrap().value(), Some(&b"7"[..]));
        assert!(record.visible(2, &guard).is_none());
    }

    #[test]
    fn pruning_keeps_what_a_snapshot_lies_on_and_no_more() {
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
