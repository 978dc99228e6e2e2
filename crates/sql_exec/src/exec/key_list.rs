//! Encoded keys of an index in one buffer.
//!
//! A statement may look up thousands of keys. A list of `Vec`s would allocate each of them, and sorting would follow a pointer
//! for each comparison. Here the first bytes of each key are kept as a number beside its place, which decides most comparisons.

use porpoise_kv::first_bytes;
use smallvec::SmallVec;
use std::ops::Range;

/// A list of encoded keys.
#[derive(Debug, Default)]
pub(super) struct KeyList {
    bytes: Vec<u8>,
    /// The first bytes of each key, and its place in `bytes`.
    keys: SmallVec<[(u64, Range<usize>); 4]>,
}

impl KeyList {
    /// An empty list with space for a number of short keys.
    pub(super) fn with_capacity(keys: usize) -> KeyList {
        const SHORT: usize = 16;
        KeyList {
            bytes: Vec::with_capacity(keys * SHORT),
            keys: SmallVec::with_capacity(keys),
        }
    }

    /// Adds the key that `append` appends to the buffer.
    #[inline]
    pub(super) fn push_with(&mut self, append: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        append(&mut self.bytes);
        let key = self.bytes.get(start..).unwrap_or_default();
        self.keys.push((first_bytes(key), start..self.bytes.len()));
    }

    pub(super) fn push(&mut self, key: &[u8]) {
        self.push_with(|bytes| bytes.extend_from_slice(key));
    }

    /// Sorts the keys, and removes duplicates.
    pub(super) fn sort_and_dedup(&mut self) {
        if self.keys.len() < 2 {
            return;
        }
        let bytes = self.bytes.as_slice();
        let key = |place: &Range<usize>| bytes.get(place.clone()).unwrap_or_default();
        self.keys.sort_unstable_by(|(a, at_a), (b, at_b)| {
            a.cmp(b).then_with(|| key(at_a).cmp(key(at_b)))
        });
        self.keys
            .dedup_by(|(a, at_a), (b, at_b)| a == b && key(at_a) == key(at_b));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let places = self.keys.iter();
        places.map(|(_, place)| self.bytes.get(place.clone()).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_are_sorted_and_distinct() {
        // Keys that are equal in their first bytes, or begin others.
        let words: [&[u8]; 9] = [
            b"",
            b"\0",
            b"\0\0",
            b"a",
            b"ab",
            b"abcdefgh",
            b"abcdefgh\0",
            b"abcdefghz",
            b"b",
        ];
        let mut next = 7usize;
        for count in [0, 1, 2, 9, 60] {
            let mut list = KeyList::with_capacity(count);
            let mut expected = BTreeSet::new();
            for _ in 0..count {
                next = next * 31 % 1009;
                let word = words[next % words.len()];
                list.push(word);
                expected.insert(word);
            }
            list.sort_and_dedup();
            assert!(list.iter().eq(expected));
        }
    }
}
