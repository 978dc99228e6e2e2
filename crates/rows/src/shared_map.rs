//! An ordered map that is copied on write: copies share the entries that they have in common.
//!
//! A catalog is copied for each change, and a server may have thousands of tables. The entries are in chunks behind
//! reference counts: a copy takes a count of each chunk, and a change copies the one chunk that it concerns. Two
//! versions of a map are compared chunk by chunk, so that the differences of two catalogs are found without reading all
//! tables ([`SharedMap::differences`]).
//!
//! Invariants:
//! 1. Keys are in ascending order, within chunks and across them.
//! 2. No chunk is empty, and none has more than [`CHUNK`] entries.
//!
//! Rejected: a persistent balanced tree, from a crate or of our own. Copies cost nothing there, but reads follow a
//! pointer for each level; a list of chunks is as fast up to some ten thousand entries.

use std::borrow::Borrow;
use std::iter::{FlatMap, Map};
use std::sync::Arc;
use std::{fmt, slice};

/// Maximum number of entries of a chunk.
const CHUNK: usize = 64;

type Chunk<K, V> = Arc<Vec<(K, V)>>;

type EntriesOf<'m, K, V> = fn(&'m Chunk<K, V>) -> slice::Iter<'m, (K, V)>;

/// Iterator over the entries of a [`SharedMap`].
pub type Iter<'m, K, V> = Map<
    FlatMap<slice::Iter<'m, Chunk<K, V>>, slice::Iter<'m, (K, V)>, EntriesOf<'m, K, V>>,
    fn(&'m (K, V)) -> (&'m K, &'m V),
>;

/// An ordered map; see the module.
pub struct SharedMap<K, V> {
    chunks: Vec<Chunk<K, V>>,
    len: usize,
}

/// An entry in which two maps differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference<'m, K, V> {
    /// The key.
    pub key: &'m K,
    /// The value in the older map.
    pub before: Option<&'m V>,
    /// The value in the newer map.
    pub after: Option<&'m V>,
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> SharedMap<K, V> {
        SharedMap {
            chunks: Vec::new(),
            len: 0,
        }
    }
}

impl<K, V> Clone for SharedMap<K, V> {
    fn clone(&self) -> SharedMap<K, V> {
        SharedMap {
            chunks: self.chunks.clone(),
            len: self.len,
        }
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for SharedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K, V> SharedMap<K, V> {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the map has no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The entries, in the order of the keys.
    pub fn iter(&self) -> Iter<'_, K, V> {
        let entries: EntriesOf<'_, K, V> = |chunk| chunk.iter();
        let pair: fn(&(K, V)) -> (&K, &V) = |(key, value)| (key, value);
        self.chunks.iter().flat_map(entries).map(pair)
    }

    /// The keys, in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &K> + Clone {
        self.iter().map(|(key, _)| key)
    }

    /// The values, in the order of the keys.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> + Clone {
        self.iter().map(|(_, value)| value)
    }

    /// The place of a key: its chunk, and its position there. An absent key has the place at which it would be
    /// inserted.
    fn place<Q>(&self, key: &Q) -> (usize, Result<usize, usize>)
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let begins_after = |chunk: &Chunk<K, V>| {
            let first = chunk.first();
            first.is_some_and(|(first, _)| first.borrow() > key)
        };
        // The last chunk that does not begin after the key, or the first one.
        let at = self.chunks.partition_point(|chunk| !begins_after(chunk));
        let at = at.saturating_sub(1);
        let entries = self.chunks.get(at).map_or(&[][..], |chunk| chunk);
        (at, entries.binary_search_by(|(k, _)| k.borrow().cmp(key)))
    }

    /// The value of a key.
    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let (chunk, Ok(at)) = self.place(key) else {
            return None;
        };
        let (_, value) = self.chunks.get(chunk)?.get(at)?;
        Some(value)
    }

    /// Whether the map has a key.
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.get(key).is_some()
    }
}

impl<K: Clone + Ord, V: Clone> SharedMap<K, V> {
    /// The value of a key, for a change.
    pub fn get_mut<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let (chunk, Ok(at)) = self.place(key) else {
            return None;
        };
        let (_, value) = Arc::make_mut(self.chunks.get_mut(chunk)?).get_mut(at)?;
        Some(value)
    }

    /// Sets the value of a key. Returns the value that it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let (number, at) = self.place(&key);
        let is_last = number + 1 == self.chunks.len();
        let Some(chunk) = self.chunks.get_mut(number) else {
            self.chunks.push(Arc::new(vec![(key, value)]));
            self.len += 1;
            return None;
        };
        let entries = Arc::make_mut(chunk);
        let at = match at {
            Ok(at) => {
                let (_, place) = entries.get_mut(at)?;
                return Some(std::mem::replace(place, value));
            }
            Err(at) => at,
        };
        self.len += 1;
        if entries.len() < CHUNK {
            entries.insert(at, (key, value));
            return None;
        }
        // Ascending keys leave full chunks behind.
        let middle = if at == CHUNK && is_last {
            CHUNK
        } else {
            CHUNK / 2
        };
        let mut behind = entries.split_off(middle);
        match at.checked_sub(middle) {
            Some(at) => behind.insert(at, (key, value)),
            None => entries.insert(at, (key, value)),
        }
        self.chunks.insert(number + 1, Arc::new(behind));
        None
    }

    /// Removes a key. Returns its value.
    pub fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let (number, Ok(at)) = self.place(key) else {
            return None;
        };
        let entries = Arc::make_mut(self.chunks.get_mut(number)?);
        let (_, value) = entries.remove(at);
        if entries.is_empty() {
            self.chunks.remove(number);
        }
        self.len -= 1;
        Some(value)
    }

    /// Keeps only the entries for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &V) -> bool) {
        for chunk in &mut self.chunks {
            if !chunk.iter().all(|(key, value)| keep(key, value)) {
                Arc::make_mut(chunk).retain(|(key, value)| keep(key, value));
            }
        }
        self.chunks.retain(|chunk| !chunk.is_empty());
        self.len = self.chunks.iter().map(|chunk| chunk.len()).sum();
    }

    /// The entries, in the order of the keys, for changes of the values. Copies all chunks that are shared.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        let entries = self.chunks.iter_mut().flat_map(Arc::make_mut);
        entries.map(|(key, value)| (&*key, value))
    }
}

impl<K: Ord, V> SharedMap<K, V> {
    /// The entries in which this map differs from an older one, in the order of the keys. Takes time in proportion to
    /// the number of chunks, if the one map was made from the other.
    pub fn differences<'m>(
        &'m self,
        older: &'m SharedMap<K, V>,
        is_same: impl Fn(&V, &V) -> bool,
    ) -> Vec<Difference<'m, K, V>> {
        let mut after = self.entries_not_shared_with(older).peekable();
        let mut before = older.entries_not_shared_with(self).peekable();
        let mut found = Vec::new();
        loop {
            let (old, new) = match (before.peek(), after.peek()) {
                (None, None) => return found,
                (Some((old, _)), Some((new, _))) if old == new => (before.next(), after.next()),
                (Some((old, _)), Some((new, _))) if old < new => (before.next(), None),
                (Some(_), None) => (before.next(), None),
                (_, Some(_)) => (None, after.next()),
            };
            let Some((key, _)) = new.or(old) else {
                return found;
            };
            let difference = Difference {
                key,
                before: old.map(|(_, value)| value),
                after: new.map(|(_, value)| value),
            };
            match (difference.before, difference.after) {
                (Some(before), Some(after)) if is_same(before, after) => {}
                _ => found.push(difference),
            }
        }
    }

    /// The entries of the chunks that another map does not have.
    fn entries_not_shared_with<'m>(
        &'m self,
        other: &'m SharedMap<K, V>,
    ) -> impl Iterator<Item = (&'m K, &'m V)> {
        let is_shared = move |chunk: &&Chunk<K, V>| {
            let first = chunk.first();
            let at = first.map(|(first, _)| other.place(first).0);
            let there = at.and_then(|at| other.chunks.get(at));
            there.is_some_and(|there| Arc::ptr_eq(there, chunk))
        };
        let chunks = self.chunks.iter().filter(move |chunk| !is_shared(chunk));
        chunks.flat_map(|chunk| chunk.iter().map(|(key, value)| (key, value)))
    }
}

impl<'m, K, V> IntoIterator for &'m SharedMap<K, V> {
    type Item = (&'m K, &'m V);
    type IntoIter = Iter<'m, K, V>;

    fn into_iter(self) -> Iter<'m, K, V> {
        self.iter()
    }
}

impl<K: Clone + Ord, V: Clone> FromIterator<(K, V)> for SharedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> SharedMap<K, V> {
        let mut map = SharedMap::default();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn check(map: &SharedMap<u32, u32>, expected: &BTreeMap<u32, u32>) {
        assert!(map.iter().eq(expected.iter()), "{map:?}");
        assert!(map.iter().rev().eq(expected.iter().rev()));
        assert_eq!(map.len(), expected.len());
        let sizes = map.chunks.iter().map(|chunk| chunk.len());
        assert!(sizes.clone().all(|len| (1..=CHUNK).contains(&len)));
    }

    fn differences_by_map(
        before: &BTreeMap<u32, u32>,
        after: &BTreeMap<u32, u32>,
    ) -> Vec<(u32, Option<u32>, Option<u32>)> {
        let keys: std::collections::BTreeSet<u32> =
            before.keys().chain(after.keys()).copied().collect();
        let both = keys
            .into_iter()
            .map(|key| (key, before.get(&key).copied(), after.get(&key).copied()));
        both.filter(|(_, before, after)| before != after).collect()
    }

    #[test]
    fn changes_and_differences_agree_with_a_map() {
        let mut rng = fastrand::Rng::with_seed(11);
        for keys in [4, 60, 400, 2000] {
            let mut map = SharedMap::default();
            let mut expected = BTreeMap::new();
            let mut older = (map.clone(), expected.clone());
            for n in 0..3000 {
                let key = rng.u32(0..keys);
                match rng.u8(0..8) {
                    0..=3 => assert_eq!(map.insert(key, n), expected.insert(key, n)),
                    4 | 5 => assert_eq!(map.remove(&key), expected.remove(&key)),
                    6 => {
                        let place = map.get_mut(&key);
                        assert_eq!(place.as_deref().copied(), expected.get(&key).copied());
                        if let (Some(place), Some(other)) = (place, expected.get_mut(&key)) {
                            (*place, *other) = (n, n);
                        }
                    }
                    _ => assert_eq!(map.get(&key), expected.get(&key)),
                }
                if rng.u8(0..60) == 0 {
                    let found = map.differences(&older.0, PartialEq::eq);
                    let found: Vec<_> = found
                        .iter()
                        .map(|d| (*d.key, d.before.copied(), d.after.copied()))
                        .collect();
                    assert_eq!(found, differences_by_map(&older.1, &expected));
                    check(&older.0, &older.1);
                    if rng.bool() {
                        older = (map.clone(), expected.clone());
                    }
                }
                if rng.u16(0..500) == 0 {
                    map.retain(|key, _| key % 3 > 0);
                    expected.retain(|key, _| key % 3 > 0);
                }
            }
            check(&map, &expected);
            for (_, value) in map.iter_mut() {
                *value += 1;
            }
            for value in expected.values_mut() {
                *value += 1;
            }
            check(&map, &expected);
        }
    }

    #[test]
    fn a_copy_shares_all_chunks_but_those_that_changed() {
        let map: SharedMap<u32, u32> = (0..1000).map(|n| (n, n)).collect();
        assert_eq!(map.chunks.len(), 1000usize.div_ceil(CHUNK));
        let mut copy = map.clone();
        copy.insert(500, 0);
        let shared = std::iter::zip(&map.chunks, &copy.chunks).filter(|(a, b)| Arc::ptr_eq(a, b));
        assert_eq!(shared.count(), map.chunks.len() - 1);
    }
}
