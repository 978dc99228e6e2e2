//! The records of all spaces, and the accounting of their memory.
//!
//! Invariants ([`crate::KvMem::verify`] compares):
//! 1. [`Space::bytes`] is the sum of [`RECORD_BYTES`], key and version bytes over all records in the
//!    space's index. For a moment it may be less: a record can be pruned before the commit that
//!    installed its versions has added them.
//! 2. `live_bytes` is the sum over all spaces, and of what prepared transactions protect.

use crate::index::BATCH;
use crate::metrics::Count;
use crate::record::{FirstLock, RECORD_BYTES, Record, RecordRef};
use crate::space::{Space, Spaces};
use crossbeam_epoch::Guard;
use porpoise_base::sync::atomic::{AtomicI64, Ordering};
use porpoise_kv::SpaceId;
use smallvec::SmallVec;

/// The spaces of an engine with their memory accounting.
pub(crate) struct RecordStore {
    pub(crate) spaces: Spaces,
    live_bytes: AtomicI64,
    memory_limit: Option<usize>,
    pub(crate) versions_created: Count,
    pub(crate) versions_reclaimed: Count,
    pub(crate) keys_reclaimed: Count,
}

impl RecordStore {
    pub(crate) fn new(memory_limit: Option<usize>) -> RecordStore {
        RecordStore {
            spaces: Spaces::new(),
            live_bytes: AtomicI64::new(0),
            memory_limit,
            versions_created: Count::default(),
            versions_reclaimed: Count::default(),
            keys_reclaimed: Count::default(),
        }
    }

    /// Adds to the accounted bytes of a space.
    pub(crate) fn add_space_bytes(&self, space: &Space, bytes: i64) {
        space.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.add_bytes(bytes);
    }

    /// Adds to the accounted bytes that belong to no space.
    pub(crate) fn add_bytes(&self, bytes: i64) {
        self.live_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Accounted bytes of keys and versions, approximately their memory use.
    pub(crate) fn live_bytes(&self) -> usize {
        usize::try_from(self.live_bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Whether `bytes` more stay below the memory limit.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.memory_limit
            .is_none_or(|limit| self.live_bytes() + bytes <= limit)
    }

    /// Returns the record of a key, created if it is missing.
    pub(crate) fn get_or_create(&self, space: &Space, key: &[u8]) -> RecordRef {
        self.get_or_create_locked(space, key, None, &crossbeam_epoch::pin())
            .0
    }

    /// As [`RecordStore::get_or_create`], with whether the record was created. It has the lock then, if there is one.
    pub(crate) fn get_or_create_locked(
        &self,
        space: &Space,
        key: &[u8],
        lock: Option<FirstLock>,
        guard: &Guard,
    ) -> (RecordRef, bool) {
        let (record, created) = space.index.get_or_create_locked(key, lock, guard);
        if created {
            self.add_space_bytes(space, (RECORD_BYTES + key.len()) as i64);
        }
        (record, created)
    }

    /// Appends the records of up to [`BATCH`] keys of a space to `records`, created where they are missing. Returns how
    /// many of them, from the first on, were created with their lock ([`Index::get_or_create_all`]).
    ///
    /// [`Index::get_or_create_all`]: crate::index::Index::get_or_create_all
    pub(crate) fn get_or_create_all(
        &self,
        space: &Space,
        keys: &[&[u8]],
        lock: impl Fn(usize) -> Option<FirstLock>,
        guard: &Guard,
        records: &mut SmallVec<[RecordRef; BATCH]>,
    ) -> usize {
        let index = &space.index;
        let created = index.get_or_create_all(keys, lock, guard, records);
        if created.count > 0 {
            let bytes = RECORD_BYTES * created.count + created.key_bytes;
            self.add_space_bytes(space, bytes as i64);
        }
        created.locked
    }

    /// Subtracts a record that has left its index, and its versions, from the accounting.
    pub(crate) fn subtract_record(&self, space: &Space, record: &Record) {
        let guard = crossbeam_epoch::pin();
        let (versions, bytes) = record.check(&guard).unwrap_or_default();
        let bytes = (RECORD_BYTES + record.key().len() + bytes) as i64;
        self.add_space_bytes(space, -bytes);
        self.versions_reclaimed.add(versions as u64);
        self.keys_reclaimed.add(1);
    }

    /// Removes a dead record from its index, unless another thread has removed it.
    pub(crate) fn unlink(&self, space: &Space, record: &RecordRef) {
        if space.index.remove(record) {
            self.subtract_record(space, record);
        }
    }

    /// Removes a record without versions and locks; called after a lock was released.
    pub(crate) fn unlink_if_unused(&self, space: SpaceId, record: &RecordRef, guard: &Guard) {
        if record.newest(guard).is_some() {
            return;
        }
        let mut latch = record.latch();
        if latch.dead || !latch.lock.is_free() || record.newest(guard).is_some() {
            return;
        }
        latch.dead = true;
        drop(latch);
        if let Some(space) = self.spaces.find(space) {
            self.unlink(space, record);
        }
    }
}
