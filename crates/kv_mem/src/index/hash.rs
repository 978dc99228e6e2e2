//! The hash index: from whole keys to records.
//!
//! A table is an array of words with open addressing and linear probing: 16 bits of a key's hash
//! (the tag) above the 48 bits of a record's address; 0 is an empty word, 1 a tombstone. A search
//! goes from the bucket of the hash to the first empty word. Tables are sharded by hash. Readers
//! take no latch; a writer of a shard holds its mutex, so that several threads can load the files
//! of a checkpoint.
//!
//! Invariants:
//! 1. A record's word is in its table once, and is not moved until the record is removed.
//! 2. The load factor, tombstones included, is at most four fifths: every search ends.
//! 3. A table that was replaced is freed through the epoch. A reader of the old table misses only keys
//!    that were inserted after it began.
//! 4. The tree decides whether a key may be inserted: no thread inserts a key that the index has,
//!    or that another thread inserts or removes at the same time.

use super::cell::{Link, at_address};
use crate::prefetch::prefetch;
use crate::record::{Pinned, RecordAddress};
use crossbeam_epoch::Guard;
use porpoise_base::sync::Mutex;
use porpoise_base::sync::atomic::{AtomicU64, Ordering};
use std::hash::BuildHasher;
use std::sync::OnceLock;

/// Number of shards of an index. Only one shard's table grows at a time, so that no insertion waits
/// long.
const SHARDS: usize = 128;
/// Number of words of a new table.
const MIN_WORDS: usize = 16;

const TOMBSTONE: u64 = 1;
const ADDRESS: u64 = (1 << 48) - 1;

struct Table {
    words: Box<[AtomicU64]>,
}

impl Table {
    fn new(words: usize) -> Table {
        Table {
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Index of the word where the search for a hash begins.
    fn first_slot(&self, hash: u64) -> usize {
        (((hash & 0xffff_ffff) * self.words.len() as u64) >> 32) as usize
    }

    /// Iterates over the words in probing order.
    fn probe(&self, hash: u64) -> impl Iterator<Item = &AtomicU64> {
        let (before, from) = self
            .words
            .split_at(self.first_slot(hash).min(self.words.len()));
        from.iter().chain(before)
    }

    /// Stores a word in the first empty or deleted place. Returns whether the place was empty, not
    /// a tombstone.
    fn store_word(&self, hash: u64, word: u64) -> bool {
        for place in self.probe(hash) {
            let old = place.load(Ordering::Relaxed);
            if old <= TOMBSTONE {
                place.store(word, Ordering::Release);
                return old == 0;
            }
        }
        false
    }

    /// Whether the load factor permits one more word when `used` are in use.
    fn has_room(&self, used: usize) -> bool {
        (used + 1) * 5 <= self.words.len() * 4
    }
}

/// Word counts of a shard's table.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct WordCounts {
    /// Words that are not empty, tombstones included.
    words: usize,
    /// Words that point to records.
    live: usize,
}

/// A shard of the keys, with its own table.
struct Shard {
    table: Link<Table>,
    /// Held by a thread that changes the table.
    used: Mutex<WordCounts>,
}

impl Shard {
    fn new() -> Shard {
        Shard {
            table: Link::empty(),
            used: Mutex::default(),
        }
    }
}

fn word_of(hash: u64, address: RecordAddress) -> u64 {
    let address = address.as_ptr().expose_provenance() as u64;
    assert!(address <= ADDRESS, "user-space addresses have 48 bits");
    tag_of(hash) | address & ADDRESS
}

fn tag_of(hash: u64) -> u64 {
    hash & !ADDRESS
}

/// The hash index of one space.
pub(super) struct HashIndex {
    shards: OnceLock<Box<[Shard]>>,
    seed: foldhash::fast::RandomState,
}

impl HashIndex {
    pub(super) fn new() -> HashIndex {
        HashIndex {
            shards: OnceLock::new(),
            seed: foldhash::fast::RandomState::default(),
        }
    }

    /// Hashes a key. The upper half selects shard and tag, the lower half the place in the table.
    #[inline]
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        self.seed.hash_one(key)
    }

    fn shard(&self, hash: u64) -> Option<&Shard> {
        self.shards.get()?.get((hash >> 32) as usize % SHARDS)
    }

    /// Returns the shards; the first call creates them.
    fn shards(&self) -> &[Shard] {
        let make = || (0..SHARDS).map(|_| Shard::new()).collect();
        self.shards.get_or_init(make)
    }

    fn table<'g>(&self, hash: u64, guard: &'g Guard) -> Option<&'g Table> {
        self.shard(hash)?.table.load(guard)
    }

    /// Prefetches the first words that a search reads.
    #[inline]
    pub(super) fn prefetch_bucket(&self, hash: u64, guard: &Guard) {
        if let Some(table) = self.table(hash, guard)
            && let Some(word) = table.words.get(table.first_slot(hash))
        {
            prefetch(std::ptr::from_ref(word).addr());
        }
    }

    /// Prefetches the record that a search will most likely find.
    #[inline]
    pub(super) fn prefetch_record(&self, hash: u64, guard: &Guard) {
        if let Some(table) = self.table(hash, guard) {
            for word in table.probe(hash).take(8) {
                let word = word.load(Ordering::Relaxed);
                if word == 0 {
                    return;
                }
                if tag_of(word) == tag_of(hash) {
                    return prefetch((word & ADDRESS) as usize);
                }
            }
        }
    }

    /// Returns the record of a key.
    pub(super) fn find<'g>(&self, hash: u64, key: &[u8], guard: &'g Guard) -> Option<Pinned<'g>> {
        for word in self.table(hash, guard)?.probe(hash) {
            let word = word.load(Ordering::Acquire);
            if word == 0 {
                return None;
            }
            if tag_of(word) == tag_of(hash) && word & ADDRESS > TOMBSTONE {
                // SAFETY: the slot was read under the pin, and leads to a record of the index (the
                // contract of `insert`).
                let found = unsafe { at_address((word & ADDRESS) as usize, guard) };
                if let Some(record) = found.filter(|record| record.key() == key) {
                    return Some(record);
                }
            }
        }
        None
    }

    /// Inserts a record that is not in the table, by its key's hash.
    ///
    /// # Safety
    /// The index holds a count of the record, and gives it up through the epoch after the record
    /// was removed from here.
    pub(super) unsafe fn insert(&self, hash: u64, address: RecordAddress, guard: &Guard) {
        let Some(shard) = self.shards().get((hash >> 32) as usize % SHARDS) else {
            return;
        };
        let mut used = shard.used.lock();
        let table = match shard.table.load(guard) {
            Some(table) if table.has_room(used.words) => table,
            old => self.grow(shard, &mut used, old, guard),
        };
        used.words += usize::from(table.store_word(hash, word_of(hash, address)));
        used.live += 1;
    }

    /// Replaces a full table by one with room.
    fn grow<'g>(
        &self,
        shard: &Shard,
        used: &mut WordCounts,
        old: Option<&Table>,
        guard: &'g Guard,
    ) -> &'g Table {
        let words = MIN_WORDS.max((used.live + 1) * 15 / 8);
        self.rehash(shard, used, old, words, guard)
    }

    /// Replaces the table by a new one of the given size with the same records (a rehash).
    fn rehash<'g>(
        &self,
        shard: &Shard,
        used: &mut WordCounts,
        old: Option<&Table>,
        words: usize,
        guard: &'g Guard,
    ) -> &'g Table {
        let new = Table::new(words);
        let words = old.map_or(&[][..], |old| &old.words);
        let words = words.iter().map(|word| word.load(Ordering::Relaxed));
        for word in words.filter(|word| *word > TOMBSTONE) {
            // SAFETY: as in `find`.
            if let Some(record) = unsafe { at_address((word & ADDRESS) as usize, guard) } {
                new.store_word(self.hash(record.key()), word);
            }
        }
        used.words = used.live;
        // SAFETY: the shard's link is the only one to its table, and changes under `used`.
        unsafe { shard.table.replace(new, guard) }
    }

    /// Reserves space for `keys` more keys, which avoids repeated growth with a rehash each time.
    pub(super) fn reserve(&self, keys: usize, guard: &Guard) {
        /// Extra words per shard, because keys do not spread evenly over the shards.
        const EXTRA_WORDS: usize = 64;
        for shard in self.shards() {
            let mut used = shard.used.lock();
            let wanted = used.live + keys / SHARDS;
            let words = (wanted + wanted / 64 + EXTRA_WORDS) * 5 / 4 + 1;
            let old = shard.table.load(guard);
            if old.is_none_or(|old| old.words.len() < words) {
                self.rehash(shard, &mut used, old, words, guard);
            }
        }
    }

    /// Removes a record.
    pub(super) fn remove(&self, key: &[u8], address: RecordAddress, guard: &Guard) {
        let hash = self.hash(key);
        let wanted = word_of(hash, address);
        let Some(shard) = self.shard(hash) else {
            return;
        };
        let mut used = shard.used.lock();
        let Some(table) = shard.table.load(guard) else {
            return;
        };
        let found = table.probe(hash).find_map(|word| {
            let found = word.load(Ordering::Relaxed);
            (found == wanted || found == 0).then_some((word, found))
        });
        if let Some((word, found)) = found
            && found == wanted
        {
            word.store(TOMBSTONE, Ordering::Release);
            used.live -= 1;
        }
    }

    /// Removes all records.
    pub(super) fn clear(&self, guard: &Guard) {
        for shard in self.shards.get().map_or(&[][..], |shards| shards) {
            let mut used = shard.used.lock();
            // SAFETY: as in `rehash`.
            unsafe { shard.table.retire(guard) };
            *used = WordCounts::default();
        }
    }

    /// Bytes of all tables.
    pub(super) fn bytes(&self, guard: &Guard) -> usize {
        let shards = self.shards.get().map_or(&[][..], |shards| shards);
        let tables = shards.iter().filter_map(|shard| shard.table.load(guard));
        let words: usize = tables.map(|table| table.words.len()).sum();
        words * size_of::<u64>() + size_of_val(shards)
    }

    /// Checks that a search finds each record, and returns the number of records.
    pub(super) fn check(&self, guard: &Guard) -> Result<usize, String> {
        let mut all = 0;
        for shard in self.shards.get().map_or(&[][..], |shards| shards) {
            let used = *shard.used.lock();
            let Some(table) = shard.table.load(guard) else {
                continue;
            };
            let words = || table.words.iter().map(|word| word.load(Ordering::Relaxed));
            let found = WordCounts {
                words: words().filter(|word| *word != 0).count(),
                live: words().filter(|word| *word > TOMBSTONE).count(),
            };
            if found != used {
                return Err(format!("found {found:?} used slots, counted {used:?}"));
            }
            if used.words * 5 > table.words.len() * 4 {
                let len = table.words.len();
                return Err(format!("{} of {len} words are used", used.words));
            }
            all += used.live;
        }
        Ok(all)
    }
}

impl Drop for HashIndex {
    fn drop(&mut self) {
        self.clear(&crossbeam_epoch::pin());
    }
}
