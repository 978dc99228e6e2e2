//! The write set of a transaction: a list of writes in order, with an index by key.
//!
//! Invariants:
//! 1. `log[n]` is the n-th write; a statement mark is a length of `log`.
//! 2. `prev` of a write is the index of the write before it to the same key; each key's newest write is
//!    not `superseded`, all others are.
//! 3. Above [`MAX_LINEAR_SEARCH`] writes, `by_key` has the index of each key's newest write from the first
//!    look-up on that needs it, and `sorted` from the first read of a range on.
//! 4. `highest` covers the first writes of the transaction and counts them; a key above `highest` of its space is in none of
//!    them. Above [`MAX_LINEAR_SEARCH`] writes a look-up first adds the writes since. So ascending keys are looked up without
//!    the index, which in a large transaction is larger than the caches. Without look-ups nothing is compared.
//! 5. A key that is pushed as new was not written: its writer knows, so that most transactions that insert
//!    many rows never make the index.
//!
//! A write holds the version that a commit pushes to the chain, so that the value's bytes are copied
//! once, and a lone write with a short key allocates nothing else.
//!
//! Rejected: an ordered map from the start. A statement of a thousand rows compared keys ten times a
//! write and copied each key, and most transactions read no range of what they wrote.

use crate::chunked_list::ChunkedList;
use crate::key_order::{self, Positions};
use crate::record::{InlineKey, NewVersion};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use porpoise_kv::{Check, Key, SpaceId, StatementMark};
use smallvec::SmallVec;
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash, Hasher};
use std::ops::Bound;

/// Number of writes up to which a look-up scans the list linearly.
const MAX_LINEAR_SEARCH: usize = 12;

/// Number of spaces of which the highest key is kept.
const MAX_SPACES: usize = 8;

/// Accounted bytes of a write without key and value: those of the record and version that it may
/// become.
const WRITE_BYTES: usize = crate::record::RECORD_BYTES + crate::record::VERSION_BYTES;

/// List of writes.
pub(crate) type Writes = ChunkedList<Write>;

pub(crate) struct Write {
    pub(crate) space: SpaceId,
    pub(crate) key: InlineKey,
    /// The version, until the commit takes it.
    version: Option<NewVersion>,
    pub(crate) check: Check,
    pub(crate) superseded: bool,
    prev: Option<usize>,
}

impl Write {
    fn is(&self, key: Key<'_>) -> bool {
        self.space == key.space && self.key.as_slice() == key.bytes
    }

    pub(crate) fn key(&self) -> Key<'_> {
        Key::new(self.space, &self.key)
    }

    /// The written value; `None` is a deletion.
    pub(crate) fn value(&self) -> Option<&[u8]> {
        self.version.as_ref().and_then(NewVersion::value)
    }

    fn bytes(&self) -> usize {
        WRITE_BYTES + self.key.len() + self.value().map_or(0, <[u8]>::len)
    }
}

/// The newest write to each key, in the order of the keys.
type SortedKeys = BTreeMap<SpaceId, BTreeMap<Box<[u8]>, usize>>;

/// For a few spaces, an upper bound of the keys of the transaction's first writes.
#[derive(Default)]
struct HighestKeys {
    keys: SmallVec<[(SpaceId, InlineKey); 4]>,
    /// Number of the writes that were compared.
    writes: usize,
}

impl HighestKeys {
    /// Compares the writes since the last call.
    fn catch_up(&mut self, log: &Writes) {
        let new = self.writes..log.len();
        self.writes = log.len();
        if new.len() == 1
            && let Some(write) = log.get(new.start)
        {
            return self.raise(write.space, &write.key);
        }
        // Keys are copied at the end: most are ascending.
        let mut highest: SmallVec<[(SpaceId, &InlineKey); MAX_SPACES]> = SmallVec::new();
        for write in new.filter_map(|at| log.get(at)) {
            let mut known = highest.iter_mut();
            if let Some((_, key)) = known.find(|(space, _)| *space == write.space) {
                if **key < write.key {
                    *key = &write.key;
                }
            } else if highest.len() < MAX_SPACES {
                highest.push((write.space, &write.key));
            }
        }
        for (space, key) in highest {
            self.raise(space, key);
        }
    }

    fn raise(&mut self, space: SpaceId, key: &InlineKey) {
        let mut known = self.keys.iter_mut();
        if let Some((_, highest)) = known.find(|(known, _)| *known == space) {
            if *key > *highest {
                highest.clone_from(key);
            }
        } else if self.keys.len() < MAX_SPACES {
            self.keys.push((space, key.clone()));
        }
    }

    fn is_above_all(&self, key: Key<'_>) -> bool {
        match self.keys.iter().find(|(space, _)| *space == key.space) {
            Some((_, highest)) => key.bytes > highest.as_slice(),
            None => self.keys.len() < MAX_SPACES,
        }
    }
}

/// Writes of a transaction.
#[derive(Default)]
pub(crate) struct WriteSet {
    log: Writes,
    by_key: OnceCell<HashTable<usize>>,
    highest: RefCell<HighestKeys>,
    sorted: OnceCell<SortedKeys>,
    /// Whether the keys of a write set that is not large are not in strict order.
    is_unordered: bool,
    is_large: bool,
    bytes: usize,
}

/// The newest write to each key of a transaction, in the order of the keys. If the writes are not in this order, a list of
/// their positions is sorted: sorting the writes themselves would move each of them twice.
#[derive(Default)]
pub(crate) struct FinalWrites {
    log: Writes,
    /// Positions in the order of the keys; `None` if the list has this order.
    order: Option<Positions>,
}

impl FinalWrites {
    pub(crate) fn len(&self) -> usize {
        self.order.as_ref().map_or(self.log.len(), Positions::len)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    fn position(&self, n: usize) -> Option<usize> {
        match &self.order {
            None => Some(n),
            Some(order) => order.get(n).copied(),
        }
    }

    /// The n-th write.
    #[inline]
    pub(crate) fn get(&self, n: usize) -> Option<&Write> {
        self.log.get(self.position(n)?)
    }

    /// Takes the version of the n-th write.
    #[inline]
    pub(crate) fn take_version(&mut self, n: usize) -> Option<NewVersion> {
        let position = self.position(n)?;
        self.log.get_mut(position)?.version.take()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Write> {
        (0..self.len()).filter_map(|n| self.get(n))
    }
}

fn hash(key: Key<'_>) -> u64 {
    let mut hasher = FixedState::with_seed(0x5eed_0f4e).build_hasher();
    key.space.hash(&mut hasher);
    hasher.write(key.bytes);
    hasher.finish()
}

impl WriteSet {
    pub(crate) fn len(&self) -> usize {
        self.log.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.log.is_empty()
    }

    /// Whether it has no writes, and keeps nothing of writes that were rolled back.
    pub(crate) fn is_unused(&self) -> bool {
        self.log.is_empty() && !self.is_large && self.highest.borrow().keys.is_empty()
    }

    /// Approximate memory use in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reserves space for this number of writes.
    pub(crate) fn reserve(&mut self, writes: usize) {
        self.log.reserve(writes);
    }

    fn newest(&self, key: Key<'_>) -> Option<usize> {
        if !self.is_large {
            if self.is_above_few(key) {
                return None;
            }
            let mut few = self.log.first_chunk().iter();
            return few.rposition(|w| w.is(key));
        }
        if self.is_above_all(key) {
            return None;
        }
        let is = |at: &usize| self.log.get(*at).is_some_and(|w| w.is(key));
        self.by_key().find(hash(key), is).copied()
    }

    /// Whether the keys of a write set that is not large are in strict order, and this key is above them: those of a
    /// statement often are.
    fn is_above_few(&self, key: Key<'_>) -> bool {
        !self.is_unordered && self.log.last().is_none_or(|last| last.key() < key)
    }

    /// The index of each key's newest write.
    fn by_key(&self) -> &HashTable<usize> {
        self.by_key.get_or_init(|| {
            let log = &self.log;
            let hash_at = |at: &usize| log.get(*at).map_or(0, |w| hash(w.key()));
            let mut by_key = HashTable::with_capacity(log.len());
            for (at, write) in log.iter().enumerate() {
                if !write.superseded {
                    by_key.insert_unique(hash(write.key()), at, hash_at);
                }
            }
            by_key
        })
    }

    /// Whether a key is known to be above all keys written to its space.
    fn is_above_all(&self, key: Key<'_>) -> bool {
        let mut highest = self.highest.borrow_mut();
        highest.catch_up(&self.log);
        highest.is_above_all(key)
    }

    /// Appends a write.
    pub(crate) fn push(&mut self, key: Key<'_>, value: Option<&[u8]>, check: Check) {
        let prev = self.newest(key);
        self.append(key, NewVersion::new(value), check, prev);
    }

    /// Appends a write to a key that was not written before.
    pub(crate) fn push_new(&mut self, key: Key<'_>, value: &[u8], check: Check) {
        self.append(key, NewVersion::first(value), check, None);
    }

    /// Appends a write; `prev` is the position of the newest write to the key.
    fn append(&mut self, key: Key<'_>, version: NewVersion, mut check: Check, prev: Option<usize>) {
        if let Some(old) = prev.and_then(|at| self.log.get_mut(at)) {
            old.superseded = true;
            // A compared write stays compared: the earlier write still requires the comparison.
            if old.check == Check::FirstCommitter {
                check = Check::FirstCommitter;
            }
        }
        let at = self.log.len();
        if !self.is_large {
            self.is_unordered = !self.is_above_few(key);
        }
        let write = Write {
            space: key.space,
            key: InlineKey::from_slice(key.bytes),
            version: Some(version),
            check,
            superseded: false,
            prev,
        };
        self.bytes += write.bytes();
        self.log.push(write);
        if self.is_large {
            self.index(key, at, prev);
        } else {
            self.is_large = self.log.len() > MAX_LINEAR_SEARCH;
        }
    }

    /// Makes the write at a position the newest of its key, in place of `prev`, in the indexes that exist.
    fn index(&mut self, key: Key<'_>, at: usize, prev: Option<usize>) {
        let log = &self.log;
        if let Some(by_key) = self.by_key.get_mut() {
            let hash = hash(key);
            let known = prev.and_then(|prev| by_key.find_mut(hash, |entry| *entry == prev));
            match known {
                Some(entry) => *entry = at,
                None => {
                    let rehash = |at: &usize| log.get(*at).map_or(0, |w| self::hash(w.key()));
                    by_key.insert_unique(hash, at, rehash);
                }
            }
        }
        if let Some(sorted) = self.sorted.get_mut() {
            let space = sorted.entry(key.space).or_default();
            match space.get_mut(key.bytes) {
                Some(place) => *place = at,
                None => {
                    space.insert(key.bytes.into(), at);
                }
            }
        }
    }

    /// The newest writes in the order of the keys.
    fn sorted(&self) -> &SortedKeys {
        self.sorted.get_or_init(|| {
            let mut sorted = SortedKeys::new();
            for (at, write) in self.log.iter().enumerate() {
                if !write.superseded {
                    let space = sorted.entry(write.space).or_default();
                    space.insert(write.key.as_slice().into(), at);
                }
            }
            sorted
        })
    }

    /// The newest write to a key below a mark: `Some(None)` is a deletion.
    pub(crate) fn find(&self, key: Key<'_>, mark: StatementMark) -> Option<Option<&[u8]>> {
        let write = self.newest_below_mark(self.newest(key)?, mark)?;
        Some(write.value())
    }

    /// Follows the writes to a key from its newest one to the newest one below a mark.
    fn newest_below_mark(&self, newest: usize, mark: StatementMark) -> Option<&Write> {
        let mut at = newest;
        loop {
            let write = self.log.get(at)?;
            if (at as u64) < mark.0 {
                return Some(write);
            }
            at = write.prev?;
        }
    }

    /// The writes of a range below a mark, in ascending order of keys.
    pub(crate) fn range(
        &self,
        space: SpaceId,
        start: &[u8],
        end: Option<&[u8]>,
        mark: StatementMark,
    ) -> Vec<(&[u8], Option<&[u8]>)> {
        let mut out = Vec::new();
        if end.is_some_and(|end| end <= start) {
            return out;
        }
        let mut take = |newest: usize| {
            if let Some(write) = self.newest_below_mark(newest, mark) {
                out.push((&*write.key, write.value()));
            }
        };
        if self.is_large {
            let upper = end.map_or(Bound::Unbounded, Bound::Excluded);
            if let Some(keys) = self.sorted().get(&space) {
                let range = keys.range::<[u8], _>((Bound::Included(start), upper));
                range.for_each(|(_, newest)| take(*newest));
            }
            return out;
        }
        for (n, write) in self.log.iter().enumerate() {
            let inside = write.space == space
                && *write.key >= *start
                && end.is_none_or(|end| *write.key < *end);
            if inside && !write.superseded {
                take(n);
            }
        }
        out.sort_unstable_by_key(|(key, _)| *key);
        out
    }

    /// Rolls back the writes from a mark on.
    pub(crate) fn rollback_to(&mut self, mark: StatementMark) {
        let keep = usize::try_from(mark.0).unwrap_or(usize::MAX);
        while self.log.len() > keep {
            let Some(gone) = self.log.pop() else {
                return;
            };
            self.bytes -= gone.bytes();
            if let Some(prev) = gone.prev.and_then(|at| self.log.get_mut(at)) {
                prev.superseded = false;
            }
            if self.is_large {
                self.unindex(&gone, self.log.len());
            }
        }
        let highest = self.highest.get_mut();
        highest.writes = highest.writes.min(self.log.len());
        self.is_unordered &= !self.log.is_empty();
    }

    /// Undoes [`WriteSet::index`] for a write that was at this position.
    fn unindex(&mut self, gone: &Write, at: usize) {
        let by_key = self.by_key.get_mut();
        let entry = by_key.map(|by_key| by_key.find_entry(hash(gone.key()), |entry| *entry == at));
        if let Some(Ok(mut entry)) = entry {
            match gone.prev {
                Some(prev) => *entry.get_mut() = prev,
                None => {
                    entry.remove();
                }
            }
        }
        let sorted = self.sorted.get_mut();
        if let Some(space) = sorted.and_then(|sorted| sorted.get_mut(&gone.space)) {
            match (gone.prev, space.get_mut(gone.key.as_slice())) {
                (Some(prev), Some(place)) => *place = prev,
                _ => {
                    space.remove(gone.key.as_slice());
                }
            }
        }
    }

    /// Returns each key's newest write, in key order.
    pub(crate) fn into_final(self) -> FinalWrites {
        let log = self.log;
        // The last write to a key is newest: a list in strict order has no superseded write.
        if log.iter().is_sorted_by(|a, b| a.key() < b.key()) {
            return FinalWrites { log, order: None };
        }
        let key = |at: usize| log.get(at).filter(|w| !w.superseded).map(Write::key);
        let order = Some(key_order::sorted(log.len(), key));
        let done = FinalWrites { log, order };
        debug_assert!(
            done.iter().is_sorted_by(|a, b| a.key() < b.key()),
            "a key that was pushed as new was written before"
        );
        done
    }

    /// Whether a key was written.
    pub(crate) fn contains(&self, key: Key<'_>) -> bool {
        self.newest(key).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_in_any_number_of_spaces() {
        let mut set = WriteSet::default();
        for (n, key) in [2u8, 1, 3, 1].into_iter().enumerate() {
            for space in 0..2 * MAX_SPACES as u64 {
                let value = [n as u8];
                set.push(Key::new(SpaceId(space), &[key]), Some(&value), Check::Blind);
            }
        }
        for space in 0..2 * MAX_SPACES as u64 {
            let find = |key: u8| set.find(Key::new(SpaceId(space), &[key]), StatementMark::ALL);
            let found = [1, 2, 3, 4].map(find);
            assert_eq!(
                found,
                [
                    Some(Some(&[3][..])),
                    Some(Some(&[0])),
                    Some(Some(&[2])),
                    None
                ]
            );
        }
        assert_eq!(set.into_final().len(), 3 * 2 * MAX_SPACES);
    }

    /// Compares with a simple list, below and above the size at which the write set is indexed.
    #[test]
    fn marks_and_rollbacks_agree_with_a_list() {
        let mut rng = fastrand::Rng::with_seed(3);
        for _ in 0..300 {
            let mut set = WriteSet::default();
            let mut list: Vec<(Vec<u8>, Option<Vec<u8>>)> = Vec::new();
            for n in 0..rng.usize(1..40) {
                if rng.u8(0..8) == 0 {
                    let to = rng.usize(0..=list.len());
                    list.truncate(to);
                    set.rollback_to(StatementMark(to as u64));
                }
                let key = vec![rng.u8(0..6)];
                let value = (rng.u8(0..3) > 0).then(|| vec![n as u8]);
                let is_new = rng.bool() && list.iter().all(|(other, _)| *other != key);
                let key_of = Key::new(SpaceId(1), &key);
                match &value {
                    Some(value) if is_new => set.push_new(key_of, value, Check::Blind),
                    value => set.push(key_of, value.as_deref(), Check::Blind),
                }
                list.push((key, value));
            }
            let mark = rng.usize(0..=list.len());
            let mut expected = BTreeMap::new();
            for (key, value) in &list[..mark] {
                expected.insert(key.as_slice(), value.as_deref());
            }
            for key in 0..6u8 {
                let found = set.find(Key::new(SpaceId(1), &[key]), StatementMark(mark as u64));
                assert_eq!(found, expected.get(&[key][..]).copied());
            }
            let range = set.range(SpaceId(1), b"", None, StatementMark(mark as u64));
            assert_eq!(range, expected.into_iter().collect::<Vec<_>>());
            let mut last = BTreeMap::new();
            for (key, value) in list {
                last.insert(key, value);
            }
            let done = set.into_final();
            let done: Vec<&Write> = done.iter().collect();
            assert!(done.windows(2).all(|w| w[0].key < w[1].key));
            let done: BTreeMap<_, _> = done
                .iter()
                .map(|w| (w.key.to_vec(), w.value().map(<[u8]>::to_vec)))
                .collect();
            assert_eq!(done, last);
        }
    }
}
