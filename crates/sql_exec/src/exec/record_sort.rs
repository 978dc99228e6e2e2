//! Sorting serialized records by their keys, which stay where they are.
//!
//! An [`Entry`] of 16 bytes stands for a record: eight bytes of its key and its place. Keys that
//! compare as bytes are sorted by radix on those eight, least significant byte first, so that the
//! records are read only in the order of their addresses:
//!
//! ```text
//!  keys      02 0000 2a | 02 0000 17 | 02 0000 17      bytes at which all keys are equal decide
//!  varies         -- ^^                                nothing: the prefix leaves them out
//!  prefix         2a    |      17    |      17         one pass for each byte of the prefix
//!  order          17 17 2a                             equal prefixes: by the rest of the key
//! ```
//!
//! A key begins with type bytes and with zeros of small numbers; without those, eight bytes are
//! often the whole key, and no key is compared.
//!
//! Invariants:
//! 1. The sort is stable: equal keys keep their order.
//! 2. Positions are left out of the prefix only within the shortest key, so that every key has a byte
//!    there. Then the order of the remaining bytes is the order of the keys.
//!
//! Rejected: comparisons of whole keys, which read two records at random for each (half of the time
//! of a sort of 60,000 rows); a prefix of the first eight bytes (equal for most rows of a table whose
//! keys begin with a small integer); radix sort by the whole key, whose passes grow with the text.

use super::rowstore::{Place, RowStore};
use porpoise_base::interrupt::{Interrupted, Pacer, check, hold};
use porpoise_base::sorting;
use std::cmp::Ordering;

/// Order of the keys of records.
pub(super) trait KeyOrder: Copy {
    /// The order of two keys.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering;

    /// Whether keys compare as their bytes do.
    fn is_bytewise(&self) -> bool;
}

/// Keys that compare as their bytes do.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByBytes;

impl KeyOrder for ByBytes {
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }

    fn is_bytewise(&self) -> bool {
        true
    }
}

/// A record that is sorted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Bytes of the key, set by [`sort`].
    prefix: u64,
    /// Place of the record.
    pub(super) place: Place,
}

impl Entry {
    /// Creates the entry of a record.
    pub(super) fn new(place: Place) -> Entry {
        Entry { prefix: 0, place }
    }
}

/// Number of words at the start of a key whose bytes may be in the prefix.
const WORDS: usize = 8;

/// Bytes of a prefix.
const PREFIX: usize = size_of::<u64>();

/// Number of entries below which they are compared, because a pass of a radix sort clears 256
/// counters.
const FEW: usize = 512;

/// Sorts entries by the keys of their records, stably.
///
/// # Errors
/// [`Interrupted`] when there is a reason to stop; the entries are unusable then.
pub(super) fn sort(
    entries: &mut Vec<Entry>,
    store: &RowStore,
    order: impl KeyOrder,
) -> Result<(), Interrupted> {
    if entries.len() < 2 {
        return Ok(());
    }
    if !order.is_bytewise() {
        return sorting::sort_by(entries, sorting::RUN_EXPENSIVE, |a, b| {
            order.compare(store.key(a.place), store.key(b.place))
        });
    }
    let prefix = Prefix::of(entries, store)?;
    let (mut is_sorted, mut last) = (true, 0);
    let mut pacer = Pacer::new();
    for entry in entries.iter_mut() {
        pacer.tick()?;
        entry.prefix = prefix.of_key(store.key(entry.place));
        is_sorted &= last <= entry.prefix;
        last = entry.prefix;
    }
    if !is_sorted {
        sort_by_prefix(entries, prefix.len)?;
    }
    if prefix.decides {
        return Ok(());
    }
    sort_equal_prefixes(entries, |entry| {
        let key = store.key(entry.place);
        key.get(prefix.rest..).unwrap_or_default()
    })
}

/// The bytes of keys that make up the prefix.
struct Prefix {
    /// Positions in the key, ascending; the first `len` count.
    positions: [usize; PREFIX],
    len: usize,
    /// Position from which keys of equal prefixes differ.
    rest: usize,
    /// Whether keys of equal prefixes are equal.
    decides: bool,
}

impl Prefix {
    /// The first positions at which the keys of these records differ.
    fn of(entries: &[Entry], store: &RowStore) -> Result<Prefix, Interrupted> {
        let first = entries.first().map_or(&[][..], |e| store.key(e.place));
        let first_words: [u64; WORDS] = std::array::from_fn(|at| word(first, at));
        let (mut shortest, mut longest) = (first.len(), first.len());
        let mut differences = [0u64; WORDS];
        let mut pacer = Pacer::new();
        for entry in entries {
            pacer.tick()?;
            let key = store.key(entry.place);
            shortest = shortest.min(key.len());
            longest = longest.max(key.len());
            let words = differences.iter_mut().zip(&first_words).enumerate();
            for (at, (difference, first)) in words.take(key.len().div_ceil(PREFIX)) {
                *difference |= word(key, at) ^ first;
            }
        }
        let usable = shortest.min(WORDS * PREFIX);
        let bytes = differences.iter().flat_map(|word| word.to_be_bytes());
        let varying = bytes.take(usable).enumerate();
        let mut varying = varying.filter(|(_, byte)| *byte != 0).map(|(at, _)| at);
        let (mut positions, mut len) = ([0; PREFIX], 0);
        for (place, at) in positions.iter_mut().zip(varying.by_ref()) {
            *place = at;
            len += 1;
        }
        let rest = varying.next().unwrap_or(usable);
        Ok(Prefix {
            positions,
            len,
            rest,
            decides: rest >= longest,
        })
    }

    /// The prefix of a key, in the low bytes.
    #[inline]
    fn of_key(&self, key: &[u8]) -> u64 {
        let positions = self.positions.iter().take(self.len);
        positions.fold(0, |prefix, at| {
            prefix << 8 | u64::from(key.get(*at).copied().unwrap_or(0))
        })
    }
}

/// The word at a position of a key, of eight bytes each, with zeros after its end.
#[inline]
pub(super) fn word(key: &[u8], at: usize) -> u64 {
    let rest = key.get(at * PREFIX..).unwrap_or_default();
    match rest.first_chunk() {
        Some(word) => u64::from_be_bytes(*word),
        None => {
            let mut word = [0; PREFIX];
            for (to, from) in word.iter_mut().zip(rest) {
                *to = *from;
            }
            u64::from_be_bytes(word)
        }
    }
}

/// Sorts entries by the `bytes` low bytes of their prefixes, stably.
fn sort_by_prefix(entries: &mut Vec<Entry>, bytes: usize) -> Result<(), Interrupted> {
    if entries.len() < FEW {
        let _hold = hold();
        entries.sort_by_key(|entry| entry.prefix);
        return Ok(());
    }
    let mut sorted = entries.clone();
    for byte in 0..bytes {
        let digit = |entry: &Entry| (entry.prefix >> (8 * byte)) as u8;
        check()?;
        let mut places = [0usize; 256];
        for entry in entries.iter() {
            if let Some(count) = places.get_mut(usize::from(digit(entry))) {
                *count += 1;
            }
        }
        let mut next = 0;
        for place in &mut places {
            next += std::mem::replace(place, next);
        }
        for part in entries.chunks(sorting::RUN_CHEAP) {
            check()?;
            for entry in part {
                let Some(place) = places.get_mut(usize::from(digit(entry))) else {
                    continue;
                };
                if let Some(to) = sorted.get_mut(*place) {
                    *to = *entry;
                }
                *place += 1;
            }
        }
        std::mem::swap(entries, &mut sorted);
    }
    Ok(())
}

/// Sorts each run of entries with equal prefixes by the rest of their keys, stably.
fn sort_equal_prefixes<'k>(
    entries: &mut [Entry],
    rest: impl Fn(&Entry) -> &'k [u8],
) -> Result<(), Interrupted> {
    let mut pacer = Pacer::new();
    for run in entries.chunk_by_mut(|a, b| a.prefix == b.prefix) {
        pacer.tick_by(run.len())?;
        match run.len() {
            0 | 1 => {}
            2..=sorting::RUN_CHEAP => {
                let _hold = hold();
                run.sort_by(|a, b| rest(a).cmp(rest(b)));
            }
            _ => {
                let mut copy = run.to_vec();
                sorting::sort_by(&mut copy, sorting::RUN_CHEAP, |a, b| rest(a).cmp(rest(b)))?;
                run.copy_from_slice(&copy);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agree(keys: &[Vec<u8>]) {
        let mut store = RowStore::default();
        let mut entries: Vec<Entry> = keys
            .iter()
            .map(|key| Entry::new(store.add(key, &[]).unwrap()))
            .collect();
        let mut expected: Vec<(&Vec<u8>, Place)> = keys
            .iter()
            .zip(&entries)
            .map(|(key, entry)| (key, entry.place))
            .collect();
        expected.sort_by_key(|(key, _)| *key);
        sort(&mut entries, &store, ByBytes).unwrap();
        let found = entries.iter().map(|entry| entry.place);
        assert!(
            found.eq(expected.iter().map(|(_, place)| *place)),
            "{} keys",
            keys.len()
        );
    }

    #[test]
    fn sorts_stably_as_comparisons_do() {
        let mut rng = fastrand::Rng::with_seed(11);
        for count in [0, 1, 2, 3, 100, FEW - 1, FEW, 5_000, 40_000] {
            for (shortest, longest, values) in [
                (0, 0, 1),
                (8, 8, 255),
                (20, 20, 2),
                (0, 5, 3),
                (9, 100, 2),
                (70, 90, 1),
                (64, 80, 255),
            ] {
                let common = rng.usize(..=shortest);
                let key = |_| {
                    let mut key = vec![7u8; rng.usize(shortest..=longest)];
                    key.iter_mut()
                        .skip(common)
                        .for_each(|b| *b = rng.u8(..values));
                    key
                };
                let mut keys: Vec<Vec<u8>> = (0..count).map(key).collect();
                agree(&keys);
                keys.sort();
                agree(&keys);
            }
        }
    }

    #[test]
    fn bytes_behind_equal_ones_decide() {
        // Twenty bytes vary, of which the prefix has eight.
        let key = |n: u32| {
            let mut key = vec![1u8; 40];
            key[2..10].copy_from_slice(&u64::from(n % 3).to_be_bytes());
            key[30..34].copy_from_slice(&(n.wrapping_mul(2_654_435_761)).to_be_bytes());
            key
        };
        agree(&(0..3_000).map(key).collect::<Vec<_>>());
    }
}
