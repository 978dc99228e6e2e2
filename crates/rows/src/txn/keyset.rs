//! The set of keys that a statement locks and checks: gathered, deduplicated, locked in one batch,
//! then updated by the statement's own writes.
//!
//! Invariants:
//! 1. Once locked, [`KeySet::present`] says for each key whether it exists now: in the newest
//!    committed state with all own writes, including those of the running statement. No other
//!    transaction can change it.
//! 2. A key is locked at most once per mode; a later request for a stronger mode locks it again.
//! 3. The statements of a transaction reuse the set and its buffers, so that a small statement
//!    allocates nothing here.

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use porpoise_kv::{self as kv, Key, LockMode, LockRequest, SpaceId, Wait};
use smallvec::SmallVec;
use std::hash::{BuildHasher, Hash, Hasher};

/// Number of keys up to which the set is searched linearly.
const MAX_LINEAR_SEARCH: usize = 8;

/// Index of a key in its set.
pub(crate) type KeyId = usize;

struct Item {
    space: SpaceId,
    start: usize,
    end: usize,
    /// Requested mode.
    mode: LockMode,
    /// Mode granted to this statement.
    locked: Option<LockMode>,
    present: bool,
    newer: bool,
    /// Whether the transaction may have written the key.
    is_written: bool,
    /// Value as of the lock, when values are kept.
    value: Option<(usize, usize)>,
}

impl Item {
    /// Whether it is not locked in the requested mode.
    fn is_unlocked(&self) -> bool {
        !self.locked.is_some_and(|locked| locked.covers(self.mode))
    }
}

/// A set of keys; see the module.
#[derive(Default)]
pub(crate) struct KeySet {
    bytes: Vec<u8>,
    items: Vec<Item>,
    index: HashTable<KeyId>,
    values: Vec<u8>,
    /// Whether the next lock call stores the values that it returns.
    pub(crate) keep_values: bool,
    /// Previous values of `present`, for [`KeySet::undo_to`] (an undo log).
    journal: Vec<(KeyId, bool)>,
}

fn hash(space: SpaceId, key: &[u8]) -> u64 {
    let mut h = FixedState::with_seed(0x9e37_79b9).build_hasher();
    space.hash(&mut h);
    h.write(key);
    h.finish()
}

fn stronger(a: LockMode, b: LockMode) -> LockMode {
    if a.covers(b) {
        a
    } else if b.covers(a) {
        b
    } else {
        LockMode::Exclusive
    }
}

impl KeySet {
    /// Empties the set and keeps its buffers, unless they have grown large.
    pub(crate) fn clear(&mut self) {
        const MAX_RETAINED_BYTES: usize = 1 << 20;
        if self.bytes.capacity() > MAX_RETAINED_BYTES || self.values.capacity() > MAX_RETAINED_BYTES
        {
            *self = KeySet::default();
            return;
        }
        self.bytes.clear();
        self.items.clear();
        self.index.clear();
        self.values.clear();
        self.journal.clear();
        self.keep_values = false;
    }

    /// Reserves space for this many keys.
    pub(crate) fn reserve(&mut self, keys: usize) {
        if keys > MAX_LINEAR_SEARCH {
            self.items.reserve(keys);
            self.journal.reserve(keys);
            // The index is empty, so that nothing is hashed again.
            self.index.reserve(keys, |_| 0);
        }
    }

    /// The bytes of a key.
    pub(crate) fn key(&self, id: KeyId) -> &[u8] {
        self.items
            .get(id)
            .and_then(|i| self.bytes.get(i.start..i.end))
            .unwrap_or(&[])
    }

    /// The number of a key, if it is in the set.
    pub(crate) fn find(&self, space: SpaceId, key: &[u8]) -> Option<KeyId> {
        self.find_by(self.hash_of(space, key), space, key)
    }

    /// The hash of a key; `None` while the set is searched linearly.
    fn hash_of(&self, space: SpaceId, key: &[u8]) -> Option<u64> {
        (self.items.len() > MAX_LINEAR_SEARCH).then(|| hash(space, key))
    }

    fn find_by(&self, hash: Option<u64>, space: SpaceId, key: &[u8]) -> Option<KeyId> {
        let is =
            |item: &Item| item.space == space && self.bytes.get(item.start..item.end) == Some(key);
        match hash {
            None => self.items.iter().position(is),
            Some(hash) => {
                let is = |id: &KeyId| self.items.get(*id).is_some_and(is);
                self.index.find(hash, is).copied()
            }
        }
    }

    /// Indexes a new key, which has this hash; when there are too many keys for a linear search, all earlier ones, too.
    fn index(&mut self, id: KeyId, hash_of_new: Option<u64>) {
        let (items, bytes) = (&self.items, &self.bytes);
        let rehash = |id: &KeyId| {
            items.get(*id).map_or(0, |i| {
                hash(i.space, bytes.get(i.start..i.end).unwrap_or(&[]))
            })
        };
        if let Some(hash) = hash_of_new {
            self.index.insert_unique(hash, id, rehash);
        } else if items.len() > MAX_LINEAR_SEARCH {
            for id in 0..=id {
                self.index.insert_unique(rehash(&id), id, rehash);
            }
        }
    }

    /// Adds a key that `build` writes directly into the set's buffer. If `build` returns false, its
    /// output is discarded and no key is added.
    pub(crate) fn add_with(
        &mut self,
        mode: LockMode,
        build: impl FnOnce(&mut Vec<u8>) -> Option<SpaceId>,
    ) -> Option<KeyId> {
        let start = self.bytes.len();
        let space = build(&mut self.bytes);
        let Some(space) = space else {
            self.bytes.truncate(start);
            return None;
        };
        let end = self.bytes.len();
        let key = self.bytes.get(start..end).unwrap_or(&[]);
        let hash = self.hash_of(space, key);
        if let Some(id) = self.find_by(hash, space, key) {
            self.bytes.truncate(start);
            if let Some(item) = self.items.get_mut(id) {
                item.mode = stronger(item.mode, mode);
            }
            return Some(id);
        }
        let id = self.items.len();
        self.items.push(Item {
            space,
            start,
            end,
            mode,
            locked: None,
            present: false,
            newer: false,
            is_written: true,
            value: None,
        });
        self.index(id, hash);
        Some(id)
    }

    /// Adds a key.
    pub(crate) fn add(&mut self, space: SpaceId, key: &[u8], mode: LockMode) -> KeyId {
        self.add_with(mode, |out| {
            out.extend_from_slice(key);
            Some(space)
        })
        .unwrap_or(usize::MAX)
    }

    /// Makes the next lock call include the key again, even if it is locked.
    pub(crate) fn request_again(&mut self, id: KeyId) {
        if let Some(item) = self.items.get_mut(id) {
            item.locked = None;
        }
    }

    /// Whether there are keys that are not locked in the requested mode.
    #[inline]
    pub(crate) fn has_unlocked(&self) -> bool {
        self.items.iter().any(Item::is_unlocked)
    }

    /// Locks all keys that are not locked in the requested mode, in one engine call, or none if
    /// there are none.
    pub(crate) fn lock(&mut self, txn: &mut dyn kv::Txn, wait: Wait) -> kv::Result<()> {
        let bytes = &self.bytes;
        let mut ids: SmallVec<[KeyId; 8]> = SmallVec::with_capacity(self.items.len());
        let mut requests: SmallVec<[LockRequest<'_>; 8]> =
            SmallVec::with_capacity(self.items.len());
        for (id, item) in self.items.iter().enumerate() {
            if !item.is_unlocked() {
                continue;
            }
            ids.push(id);
            requests.push(LockRequest {
                key: Key::new(item.space, bytes.get(item.start..item.end).unwrap_or(&[])),
                mode: item.mode,
            });
        }
        if requests.is_empty() {
            return Ok(());
        }
        let (items, values, keep) = (&mut self.items, &mut self.values, self.keep_values);
        txn.lock(&requests, wait, &mut |n, found| {
            let Some(item) = ids.get(n).and_then(|id| items.get_mut(*id)) else {
                return;
            };
            item.locked = Some(item.mode);
            item.present = found.value.is_some();
            item.newer = found.newer;
            item.is_written = found.own;
            item.value = None;
            if let (true, Some(value)) = (keep, found.value) {
                let start = values.len();
                values.extend_from_slice(value);
                item.value = Some((start, values.len()));
            }
        })
    }

    /// Whether the key exists now.
    pub(crate) fn present(&self, id: KeyId) -> bool {
        self.items.get(id).is_some_and(|i| i.present)
    }

    /// Whether the key exists now and is not locked exclusively: the statement does not write it.
    pub(crate) fn is_present_parent(&self, id: KeyId) -> bool {
        let item = self.items.get(id);
        item.is_some_and(|i| i.present && i.mode != LockMode::Exclusive)
    }

    /// Whether the key's newest committed version is newer than the snapshot.
    pub(crate) fn newer(&self, id: KeyId) -> bool {
        self.items.get(id).is_some_and(|i| i.newer)
    }

    /// Whether the key is locked, and the transaction has never written it.
    pub(crate) fn is_unwritten(&self, id: KeyId) -> bool {
        self.items.get(id).is_some_and(|i| !i.is_written)
    }

    /// The value that the lock call returned, if values were stored.
    pub(crate) fn value(&self, id: KeyId) -> Option<&[u8]> {
        let (start, end) = self.items.get(id)?.value?;
        self.values.get(start..end)
    }

    /// Records an own write of a key by id.
    pub(crate) fn set_present(&mut self, id: KeyId, present: bool) {
        if let Some(item) = self.items.get_mut(id) {
            self.journal.push((id, item.present));
            item.present = present;
            item.is_written = true;
        }
    }

    /// Records an own write, if the key is in the set.
    pub(crate) fn record_own_write(&mut self, space: SpaceId, key: &[u8], present: bool) {
        if self.items.is_empty() {
            return;
        }
        if let Some(id) = self.find(space, key) {
            self.set_present(id, present);
        }
    }

    /// A position for [`KeySet::undo_to`].
    pub(crate) fn journal_position(&self) -> usize {
        self.journal.len()
    }

    /// Undoes recorded writes since a position.
    pub(crate) fn undo_to(&mut self, position: usize) {
        while self.journal.len() > position {
            if let Some((id, present)) = self.journal.pop()
                && let Some(item) = self.items.get_mut(id)
            {
                item.present = present;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_are_added_once_with_the_stronger_mode() {
        let mut set = KeySet::default();
        let a = set.add(SpaceId(1), b"a", LockMode::KeyShare);
        let b = set.add(SpaceId(2), b"a", LockMode::KeyShare);
        assert_ne!(a, b);
        assert_eq!(set.add(SpaceId(1), b"a", LockMode::Exclusive), a);
        assert_eq!(set.items[a].mode, LockMode::Exclusive);
        assert_eq!(set.items[b].mode, LockMode::KeyShare);
        for n in 0..1000u32 {
            set.add(SpaceId(3), &n.to_be_bytes(), LockMode::Update);
        }
        assert_eq!(set.find(SpaceId(3), &7u32.to_be_bytes()), Some(9));
        assert_eq!(set.find(SpaceId(3), b"no"), None);
    }

    #[test]
    fn undo_restores_earlier_presence_in_reverse_order() {
        let mut set = KeySet::default();
        let a = set.add(SpaceId(1), b"a", LockMode::Exclusive);
        let at = set.journal_position();
        set.record_own_write(SpaceId(1), b"a", true);
        set.record_own_write(SpaceId(1), b"a", false);
        set.record_own_write(SpaceId(1), b"a", true);
        assert!(set.present(a));
        set.undo_to(at);
        assert!(!set.present(a));
    }
}
