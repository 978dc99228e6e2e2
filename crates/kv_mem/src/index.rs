//! The index of one space: from keys to records, ordered, with a hash index beside it.
//!
//! The rest of the engine uses the functions of [`Index`] only. Below are a B+tree ([`tree`]) and, for
//! spaces that are mostly looked up by whole keys, a hash table ([`hash`]). Readers of both take no latch
//! and write nothing that others read; they hold an epoch pin.
//!
//! Invariants:
//! 1. The tree is authoritative: a record is in the hash index if it is in the tree, except while
//!    the writer changes both. It is inserted into the tree first and removed from the hash index
//!    first.
//! 2. A record leaves the index only after it was marked dead under its own latch; a thread that meets a
//!    dead record removes it and searches again.
//! 3. The holder of the tree's mutex is the only writer; it takes no record latch. While no
//!    transaction runs (recovery), the hash index may lag behind the tree.
//! 4. The index holds one count of each record in it, and gives it up through the epoch.
//!
//! Rejected: a latched `BTreeMap` beside latched hash shards (a million rows were 340 MB instead of 198,
//! reads of 50 keys at once five times as slow, on the same machine in the same minute).

mod cell;
mod hash;
mod node;
pub(crate) mod optimistic;
mod tree;

use crate::prefetch::Prefetched;
use crate::record::{FirstLock, InlineKey, Pinned, RecordRef};
use crossbeam_epoch::Guard;
use hash::HashIndex;
use smallvec::SmallVec;
use std::ops::{Bound, ControlFlow};
use tree::{RemainingRange, Tree};

/// Outcome of a walk.
pub(crate) enum WalkOutcome {
    /// The end of the range was reached.
    Done,
    /// The maximum number of records of a step was reached; the walk continues after this key.
    Paused(InlineKey),
    /// The visitor ended the walk.
    Stopped,
}

/// Options of a walk.
#[derive(Clone, Copy)]
pub(crate) struct WalkOptions {
    /// Whether the last record comes first.
    pub(crate) reverse: bool,
    /// Largest number of records before the walk pauses.
    pub(crate) step: usize,
    /// The versions that are prefetched.
    pub(crate) prefetched: Prefetched,
}

/// The records that [`Index::get_or_create_all`] has created.
#[derive(Clone, Copy, Default)]
pub(crate) struct CreatedRecords {
    /// Their number.
    pub(crate) count: usize,
    /// Sum of the lengths of their keys.
    pub(crate) key_bytes: usize,
    /// Number of those with a lock: the first ones of the batch.
    pub(crate) locked: usize,
}

/// Cache lines that a typical row's version occupies.
const ROW_LINES: usize = 3;

/// The index of one space.
pub(crate) struct Index {
    tree: Tree,
    hash: Option<HashIndex>,
}

/// Number of keys that are searched together, so that their cache misses overlap.
pub(crate) const BATCH: usize = 16;

impl Index {
    pub(crate) fn new(point_lookups: bool) -> Index {
        Index {
            tree: Tree::new(),
            hash: point_lookups.then(HashIndex::new),
        }
    }

    /// Returns the record of a key.
    pub(crate) fn find<'g>(&self, key: &[u8], guard: &'g Guard) -> Option<Pinned<'g>> {
        match &self.hash {
            Some(path) => path.find(path.hash(key), key, guard),
            None => self.tree.find(key, guard),
        }
    }

    /// Returns the records of up to [`BATCH`] keys, in the order of the keys.
    #[inline]
    pub(crate) fn find_batch<'g>(
        &self,
        keys: &mut dyn Iterator<Item = &[u8]>,
        guard: &'g Guard,
        found: &mut [Option<Pinned<'g>>; BATCH],
    ) {
        let Some(path) = &self.hash else {
            for (place, key) in found.iter_mut().zip(keys) {
                *place = self.tree.find(key, guard);
                if let Some(record) = place {
                    record.prefetch_newest(Prefetched::Lines(ROW_LINES), guard);
                }
            }
            return;
        };
        let mut wanted: [(u64, &[u8]); BATCH] = [(0, &[]); BATCH];
        let mut count = 0;
        for (place, key) in wanted.iter_mut().zip(keys) {
            *place = (path.hash(key), key);
            path.prefetch_bucket(place.0, guard);
            count += 1;
        }
        let wanted = wanted.get(..count).unwrap_or_default();
        for (hash, _) in wanted {
            path.prefetch_record(*hash, guard);
        }
        for (place, (hash, key)) in found.iter_mut().zip(wanted) {
            *place = path.find(*hash, key, guard);
            if let Some(record) = place {
                record.prefetch_newest(Prefetched::Lines(ROW_LINES), guard);
            }
        }
    }

    /// Returns a counted reference to the record of a key.
    pub(crate) fn get(&self, key: &[u8]) -> Option<RecordRef> {
        self.find(key, &crossbeam_epoch::pin())
            .map(Pinned::to_counted)
    }

    /// As [`Index::get_or_create_locked`], without a lock.
    #[cfg(test)]
    pub(crate) fn get_or_create(&self, key: &[u8]) -> (RecordRef, bool) {
        self.get_or_create_locked(key, None, &crossbeam_epoch::pin())
    }

    /// Returns the record of a key, created if it is missing, with this lock if there is one, and whether it was
    /// created.
    pub(crate) fn get_or_create_locked(
        &self,
        key: &[u8],
        lock: Option<FirstLock>,
        guard: &Guard,
    ) -> (RecordRef, bool) {
        if let Some(record) = self.find(key, guard) {
            // The caller is going to write, and reads the newest version first.
            record.prefetch_head(guard);
            return (record.to_counted(), false);
        }
        let mut writing = self.tree.write();
        let (record, made) = writing.get_or_insert(key, lock, &mut None, guard);
        if let (true, Some(path)) = (made, &self.hash) {
            // SAFETY: the tree has a count of the record since just now. `remove` and `clear`
            // take records out of the hash index first, with the writer's mutex held as here.
            unsafe { path.insert(path.hash(key), record.address(), guard) };
        }
        (record, made)
    }

    /// Appends the records of up to [`BATCH`] keys to `records`, created where they are missing. Fastest for keys in
    /// ascending order. `lock` returns the lock of a key's record: it is given to those that are created until the
    /// first record that exists, so that locks are taken in the order of the keys.
    pub(crate) fn get_or_create_all(
        &self,
        keys: &[&[u8]],
        lock: impl Fn(usize) -> Option<FirstLock>,
        guard: &Guard,
        records: &mut SmallVec<[RecordRef; BATCH]>,
    ) -> CreatedRecords {
        let mut created = CreatedRecords::default();
        let mut found = [None; BATCH];
        if self.hash.is_some() {
            self.find_batch(&mut keys.iter().copied(), guard, &mut found);
            if found.iter().take(keys.len()).all(Option::is_some) {
                records.extend(found.iter().flatten().map(|record| record.to_counted()));
                return created;
            }
        }
        let mut near = None;
        let mut locks = true;
        let mut writing = self.tree.write();
        for (at, (key, found)) in keys.iter().zip(found).enumerate() {
            if let Some(found) = found {
                locks = false;
                records.push(found.to_counted());
                continue;
            }
            let lock = if locks { lock(at) } else { None };
            let (record, made) = writing.get_or_insert(key, lock, &mut near, guard);
            locks = made && lock.is_some();
            if made {
                created.count += 1;
                created.key_bytes += key.len();
                created.locked += usize::from(locks);
                if let Some(path) = &self.hash {
                    // SAFETY: as in `get_or_create_locked`; the writer's mutex is held.
                    unsafe { path.insert(path.hash(key), record.address(), guard) };
                }
            }
            records.push(record);
        }
        created
    }

    /// Reserves space for `keys` more keys.
    pub(crate) fn reserve(&self, keys: usize) {
        if let Some(path) = &self.hash {
            path.reserve(keys, &crossbeam_epoch::pin());
        }
    }

    /// Inserts records with new keys, fastest in key order. Returns false if the index has the key
    /// of one of them already. For recovery: records enter the hash index after the writer's mutex
    /// was released, so that several threads load one space.
    ///
    /// # Safety
    /// No thread removes records from this index during the call.
    pub(crate) unsafe fn insert_new(&self, records: &[RecordRef]) -> bool {
        let guard = crossbeam_epoch::pin();
        if !self.tree.write().insert_all(records, &guard) {
            return false;
        }
        let Some(path) = &self.hash else {
            return true;
        };
        for some in records.chunks(BATCH) {
            let mut hashes = [0; BATCH];
            for (hash, record) in hashes.iter_mut().zip(some) {
                *hash = path.hash(record.key());
                path.prefetch_bucket(*hash, &guard);
            }
            for (hash, record) in hashes.iter().zip(some) {
                // SAFETY: the tree has a count of the record, and by the contract of this function
                // it is not removed during the call; a later `remove` takes it out of the hash
                // index first.
                unsafe { path.insert(*hash, record.address(), &guard) };
            }
        }
        true
    }

    /// Removes a dead record. Returns false if it was removed before.
    pub(crate) fn remove(&self, record: &RecordRef) -> bool {
        let guard = crossbeam_epoch::pin();
        let mut writing = self.tree.write();
        if let Some(path) = &self.hash {
            path.remove(record.key(), record.address(), &guard);
        }
        writing.remove(record, &guard)
    }

    /// Calls `visit` for the records between two bounds, in order, for at most `step` of them.
    pub(crate) fn walk<'g>(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        reverse: bool,
        step: usize,
        guard: &'g Guard,
        visit: impl FnMut(Pinned<'g>) -> ControlFlow<()>,
    ) -> WalkOutcome {
        let options = WalkOptions {
            reverse,
            step,
            prefetched: self.prefetched_versions(),
        };
        self.walk_with(lower, upper, options, guard, visit)
    }

    /// The versions to prefetch in a walk that reads all of them.
    pub(crate) fn prefetched_versions(&self) -> Prefetched {
        // Versions of rows span several cache lines, those of index entries do not; spaces with a
        // hash index usually hold rows.
        Prefetched::Lines(if self.hash.is_some() { ROW_LINES } else { 1 })
    }

    /// As [`Index::walk`], with these options.
    pub(crate) fn walk_with<'g>(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        options: WalkOptions,
        guard: &'g Guard,
        visit: impl FnMut(Pinned<'g>) -> ControlFlow<()>,
    ) -> WalkOutcome {
        if empty(lower, upper) {
            return WalkOutcome::Done;
        }
        let range = RemainingRange {
            lower,
            upper,
            reverse: options.reverse,
        };
        let (step, prefetched) = (options.step, options.prefetched);
        self.tree.walk(range, step, prefetched, guard, visit)
    }

    /// Number of keys, dead ones included.
    pub(crate) fn len(&self) -> usize {
        self.tree.len()
    }

    /// Bytes of the tree's nodes and of the hash index. Walks the tree's nodes.
    pub(crate) fn bytes(&self) -> usize {
        let guard = crossbeam_epoch::pin();
        let hashed = self.hash.as_ref().map_or(0, |hash| hash.bytes(&guard));
        let writing = self.tree.write();
        self.tree.bytes(&writing, &guard) + hashed
    }

    /// Approximate bytes of nodes and hash tables: without separators. Visits no node.
    pub(crate) fn approximate_bytes(&self) -> usize {
        let guard = crossbeam_epoch::pin();
        let hashed = self.hash.as_ref().map_or(0, |hash| hash.bytes(&guard));
        self.tree.node_bytes() + hashed
    }

    /// Removes and returns all records; the space was dropped.
    pub(crate) fn clear(&self) -> Vec<RecordRef> {
        let guard = crossbeam_epoch::pin();
        let mut writing = self.tree.write();
        let mut gone = Vec::with_capacity(self.tree.len());
        let all = RemainingRange {
            lower: Bound::Unbounded,
            upper: Bound::Unbounded,
            reverse: false,
        };
        let nothing = Prefetched::Nothing;
        self.tree.walk(all, usize::MAX, nothing, &guard, |record| {
            gone.push(record.to_counted());
            ControlFlow::Continue(())
        });
        if let Some(hash) = &self.hash {
            hash.clear(&guard);
        }
        writing.clear(&guard);
        gone
    }

    /// Checks all invariants of tree and hash index; for `verify`.
    pub(crate) fn check(&self) -> Result<(), String> {
        let guard = crossbeam_epoch::pin();
        let writing = self.tree.write();
        self.tree.check(&writing, &guard, &mut |record| {
            let Some(path) = &self.hash else {
                return Ok(());
            };
            let key = record.key();
            match path.find(path.hash(key), key, &guard) {
                Some(found) if found.address() == record.address() => Ok(()),
                _ => Err(format!("{key:?} is missing from the hash index")),
            }
        })?;
        match &self.hash {
            Some(path) => {
                let (hashed, len) = (path.check(&guard)?, self.tree.len());
                if hashed == len {
                    Ok(())
                } else {
                    Err(format!("the tree has {len} keys, the hash table {hashed}"))
                }
            }
            None => Ok(()),
        }
    }
}

/// Whether no key lies between two bounds.
fn empty(lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
    match (lower, upper) {
        (Bound::Included(l), Bound::Included(u)) => l > u,
        (Bound::Included(l) | Bound::Excluded(l), Bound::Included(u) | Bound::Excluded(u)) => {
            l >= u
        }
        _ => false,
    }
}

#[cfg(test)]
mod stress;
#[cfg(test)]
mod tests;
