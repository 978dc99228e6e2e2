//! The index of one space: from keys to records, ordered, with a hash path.
//!
//! The rest of the engine knows the functions of [`Index`] only, so that an
//! optimistic index can take the place of this one: a latched `BTreeMap`, and
//! for spaces that are mostly looked up by whole keys a sharded hash table
//! beside it.
//!
//! Invariants:
//! 1. The tree is the authority: a record is in the hash table only if it is
//!    in the tree, save for the moment in which both are being changed under
//!    the tree's write latch.
//! 2. A record leaves the index only after it was declared dead under its own
//!    latch; whoever meets a dead one removes it and looks again.
//! 3. Latch order: tree, then shard. No record latch is taken inside.
//! 4. A walk holds the tree's latch for at most a stated number of records.

use crate::record::{InlineKey, Record};
use hashbrown::HashTable;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, OnceLock};

/// Hash shards of a space.
const SHARDS: usize = 64;

#[repr(align(64))]
#[derive(Default)]
struct Shard(RwLock<HashTable<Arc<Record>>>);

struct HashPath {
    shards: OnceLock<Box<[Shard]>>,
    seed: foldhash::fast::RandomState,
}

impl HashPath {
    fn hash(&self, key: &[u8]) -> u64 {
        self.seed.hash_one(key)
    }

    /// The shard of a hash; `None` while the space never held a key.
    fn shard(&self, hash: u64) -> Option<&Shard> {
        self.shards.get()?.get((hash >> 32) as usize % SHARDS)
    }

    fn shard_for_insert(&self, hash: u64) -> Option<&Shard> {
        let make = || (0..SHARDS).map(|_| Shard::default()).collect();
        self.shards
            .get_or_init(make)
            .get((hash >> 32) as usize % SHARDS)
    }
}

/// How a walk ended.
pub(crate) enum Walk {
    /// The bounds were reached.
    Done,
    /// The step's number of records was reached; go on behind this key.
    Paused(InlineKey),
    /// The visitor broke off.
    Broken,
}

/// The index of one space.
pub(crate) struct Index {
    tree: RwLock<BTreeMap<InlineKey, Arc<Record>>>,
    hash: Option<HashPath>,
}

impl Index {
    pub(crate) fn new(point_lookups: bool) -> Index {
        Index {
            tree: RwLock::default(),
            hash: point_lookups.then(|| HashPath {
                shards: OnceLock::new(),
                seed: foldhash::fast::RandomState::default(),
            }),
        }
    }

    /// Shows the record of a key. A latch is held meanwhile.
    pub(crate) fn with<R>(&self, key: &[u8], f: impl FnOnce(Option<&Arc<Record>>) -> R) -> R {
        let Some(path) = &self.hash else {
            return f(self.tree.read().get(key));
        };
        let hash = path.hash(key);
        let Some(shard) = path.shard(hash) else {
            return f(None);
        };
        let table = shard.0.read();
        f(table.find(hash, |record| record.key() == key))
    }

    /// The record of a key.
    pub(crate) fn get(&self, key: &[u8]) -> Option<Arc<Record>> {
        self.with(key, |record| record.cloned())
    }

    /// The record of a key, made when there is none; whether it was made.
    pub(crate) fn get_or_create(&self, key: &[u8]) -> (Arc<Record>, bool) {
        if let Some(record) = self.get(key) {
            return (record, false);
        }
        let mut tree = self.tree.write();
        if let Some(record) = tree.get(key) {
            return (record.clone(), false);
        }
        let record = Arc::new(Record::new(key));
        tree.insert(InlineKey::from_slice(key), record.clone());
        if let Some(path) = &self.hash {
            let hash = path.hash(key);
            if let Some(shard) = path.shard_for_insert(hash) {
                let rehash = |r: &Arc<Record>| path.hash(r.key());
                shard.0.write().insert_unique(hash, record.clone(), rehash);
            }
        }
        (record, true)
    }

    /// Takes a dead record out; false when it was out already.
    pub(crate) fn remove(&self, record: &Arc<Record>) -> bool {
        let mut tree = self.tree.write();
        match tree.get(record.key()) {
            Some(found) if Arc::ptr_eq(found, record) => {}
            _ => return false,
        }
        tree.remove(record.key());
        if let Some(path) = &self.hash {
            let hash = path.hash(record.key());
            if let Some(shard) = path.shard(hash) {
                let mut table = shard.0.write();
                if let Ok(entry) = table.find_entry(hash, |r| Arc::ptr_eq(r, record)) {
                    entry.remove();
                }
            }
        }
        true
    }

    /// Shows the records between two bounds in order, at most `step` of them
    /// under one latch.
    pub(crate) fn walk(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        reverse: bool,
        step: usize,
        mut visit: impl FnMut(&Arc<Record>) -> ControlFlow<()>,
    ) -> Walk {
        if empty(lower, upper) {
            return Walk::Done;
        }
        let tree = self.tree.read();
        let mut range = tree.range::<[u8], _>((lower, upper));
        for left in (0..step.max(1)).rev() {
            let next = if reverse {
                range.next_back()
            } else {
                range.next()
            };
            let Some((key, record)) = next else {
                return Walk::Done;
            };
            if visit(record).is_break() {
                return Walk::Broken;
            }
            if left == 0 {
                return Walk::Paused(key.clone());
            }
        }
        Walk::Done
    }

    /// How many keys there are, dead ones included.
    pub(crate) fn len(&self) -> usize {
        self.tree.read().len()
    }

    /// Forgets everything; the space was dropped.
    pub(crate) fn clear(&self) -> Vec<Arc<Record>> {
        let mut tree = self.tree.write();
        if let Some(shards) = self.hash.as_ref().and_then(|path| path.shards.get()) {
            for shard in shards {
                *shard.0.write() = HashTable::new();
            }
        }
        std::mem::take(&mut *tree).into_values().collect()
    }

    /// Checks that tree and hash path agree; for `verify`.
    pub(crate) fn check(&self) -> Result<(), String> {
        let tree = self.tree.read();
        for (key, record) in tree.iter() {
            if key.as_slice() != record.key() {
                return Err(format!("{key:?} leads to a record of {:?}", record.key()));
            }
        }
        let Some(path) = &self.hash else {
            return Ok(());
        };
        let shards = path.shards.get().map_or(&[][..], |shards| shards);
        let hashed: usize = shards.iter().map(|shard| shard.0.read().len()).sum();
        if hashed != tree.len() {
            return Err(format!("{} keys in order, {hashed} by hash", tree.len()));
        }
        for (key, record) in tree.iter() {
            let hash = path.hash(key);
            let found = path.shard(hash).is_some_and(|shard| {
                let table = shard.0.read();
                table.find(hash, |r| Arc::ptr_eq(r, record)).is_some()
            });
            if !found {
                return Err(format!("{key:?} is missing from the hash path"));
            }
        }
        Ok(())
    }
}

/// Whether no key lies between two bounds (`BTreeMap::range` panics then).
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
mod tests {
    use super::*;

    #[test]
    fn both_paths_find_what_was_made_and_not_what_was_removed() {
        for point_lookups in [false, true] {
            let index = Index::new(point_lookups);
            let (a, made) = index.get_or_create(b"a");
            assert!(made);
            let (again, made) = index.get_or_create(b"a");
            assert!(!made && Arc::ptr_eq(&a, &again));
            for n in 0..1000u32 {
                index.get_or_create(&n.to_be_bytes());
            }
            index.check().unwrap();
            assert!(index.remove(&a));
            assert!(!index.remove(&a));
            assert!(index.get(b"a").is_none());
            assert_eq!(index.len(), 1000);
            index.check().unwrap();
        }
    }

    #[test]
    fn a_walk_pauses_and_goes_on() {
        let index = Index::new(false);
        for n in 0..10u8 {
            index.get_or_create(&[n]);
        }
        for reverse in [false, true] {
            let mut seen = Vec::new();
            let mut last: Option<InlineKey> = None;
            loop {
                let behind = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
                let (lower, upper) = if reverse {
                    (Bound::Included(&[2][..]), behind)
                } else {
                    (behind, Bound::Excluded(&[8][..]))
                };
                match index.walk(lower, upper, reverse, 3, |r| {
                    seen.push(r.key()[0]);
                    ControlFlow::Continue(())
                }) {
                    Walk::Paused(key) => last = Some(key),
                    _ => break,
                }
            }
            let mut expected: Vec<u8> = if reverse {
                (2..10).collect()
            } else {
                (0..8).collect()
            };
            if reverse {
                expected.reverse();
            }
            assert_eq!(seen, expected);
        }
    }
}
