//! The hash path: from whole keys to records.
//!
//! A table is an array of words: 16 bits of a key's hash above the 48 bits of
//! a record's address; 0 was never used, 1 was used and is free. A search goes
//! from the place that the hash names to the first word never used. Tables are
//! sharded by hash. Readers take nothing; who changes a shard holds its mutex,
//! so that a checkpoint's files can be entered by several threads at a time.
//!
//! Invariants:
//! 1. A word that leads to a record is in its table once, and stays where it
//!    is until the record is taken out.
//! 2. A table is never more than four fifths used: every search ends.
//! 3. A table that was replaced is freed through the epoch. A reader that has
//!    the old one misses only keys that came after it began.
//! 4. Whether a key may be entered is for the tree to say: nobody enters one
//!    that is there, nor one that another thread enters or takes out.

use super::cell::{Link, at_address};
use crate::prefetch::prefetch;
use crate::record::{Pinned, RecordAddress};
use crossbeam_epoch::Guard;
use porpoise_base::sync::Mutex;
use porpoise_base::sync::atomic::{AtomicU64, Ordering};
use std::hash::BuildHasher;
use std::sync::OnceLock;

/// Shards of a path: tables grow one at a time, so that nobody waits long.
const SHARDS: usize = 128;
/// Words of a new table.
const SMALLEST: usize = 16;

const FREED: u64 = 1;
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

    /// The place that a hash names.
    fn home(&self, hash: u64) -> usize {
        (((hash & 0xffff_ffff) * self.words.len() as u64) >> 32) as usize
    }

    /// The words of a search, in its order.
    fn probe(&self, hash: u64) -> impl Iterator<Item = &AtomicU64> {
        let (before, from) = self.words.split_at(self.home(hash).min(self.words.len()));
        from.iter().chain(before)
    }

    /// Puts a word where there is room; whether the place was never used.
    fn put(&self, hash: u64, word: u64) -> bool {
        for place in self.probe(hash) {
            let old = place.load(Ordering::Relaxed);
            if old <= FREED {
                place.store(word, Ordering::Release);
                return old == 0;
            }
        }
        false
    }

    /// Whether one more word may be used beside so many.
    fn has_room(&self, used: usize) -> bool {
        (used + 1) * 5 <= self.words.len() * 4
    }
}

/// What is counted of a shard's table.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Used {
    /// Words that are not 0.
    words: usize,
    /// Of these so many lead to records.
    live: usize,
}

/// A part of the keys, with a table of its own.
struct Shard {
    table: Link<Table>,
    /// Whoever changes the table holds this.
    used: Mutex<Used>,
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

/// The hash path of one space.
pub(super) struct HashPath {
    shards: OnceLock<Box<[Shard]>>,
    seed: foldhash::fast::RandomState,
}

impl HashPath {
    pub(super) fn new() -> HashPath {
        HashPath {
            shards: OnceLock::new(),
            seed: foldhash::fast::RandomState::default(),
        }
    }

    /// The hash of a key: shard and tag by its upper half, place by its lower.
    #[inline]
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        self.seed.hash_one(key)
    }

    fn shard(&self, hash: u64) -> Option<&Shard> {
        self.shards.get()?.get((hash >> 32) as usize % SHARDS)
    }

    /// The shards, made by the first who enters something.
    fn shards(&self) -> &[Shard] {
        let make = || (0..SHARDS).map(|_| Shard::new()).collect();
        self.shards.get_or_init(make)
    }

    fn table<'g>(&self, hash: u64, guard: &'g Guard) -> Option<&'g Table> {
        self.shard(hash)?.table.load(guard)
    }

    /// Asks for the words where a search begins, ahead of need.
    #[inline]
    pub(super) fn expect(&self, hash: u64, guard: &Guard) {
        if let Some(table) = self.table(hash, guard)
            && let Some(word) = table.words.get(table.home(hash))
        {
            prefetch(std::ptr::from_ref(word).addr());
        }
    }

    /// Asks for the record that a search will most likely find.
    #[inline]
    pub(super) fn expect_record(&self, hash: u64, guard: &Guard) {
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

    /// The record of a key.
    pub(super) fn find<'g>(&self, hash: u64, key: &[u8], guard: &'g Guard) -> Option<Pinned<'g>> {
        for word in self.table(hash, guard)?.probe(hash) {
            let word = word.load(Ordering::Acquire);
            if word == 0 {
                return None;
            }
            if tag_of(word) == tag_of(hash) && word & ADDRESS > FREED {
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

    /// Adds a record that is not there, by its key's hash.
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
        used.words += usize::from(table.put(hash, word_of(hash, address)));
        used.live += 1;
    }

    /// A table with room in the place of one that has none.
    fn grow<'g>(
        &self,
        shard: &Shard,
        used: &mut Used,
        old: Option<&Table>,
        guard: &'g Guard,
    ) -> &'g Table {
        let words = SMALLEST.max((used.live + 1) * 15 / 8);
        self.renew(shard, used, old, words, guard)
    }

    /// Replaces the table by one with so many words and the content of the old one.
    fn renew<'g>(
        &self,
        shard: &Shard,
        used: &mut Used,
        old: Option<&Table>,
        words: usize,
        guard: &'g Guard,
    ) -> &'g Table {
        let new = Table::new(words);
        let words = old.map_or(&[][..], |old| &old.words);
        let words = words.iter().map(|word| word.load(Ordering::Relaxed));
        for word in words.filter(|word| *word > FREED) {
            // SAFETY: as in `find`.
            if let Some(record) = unsafe { at_address((word & ADDRESS) as usize, guard) } {
                new.put(self.hash(record.key()), word);
            }
        }
        used.words = used.live;
        // SAFETY: the shard's link is the only one to its table, and changes under `used`.
        unsafe { shard.table.replace(new, guard) }
    }

    /// Makes room for so many keys more, so that tables need not grow step by
    /// step, each time looking at every key.
    pub(super) fn reserve(&self, keys: usize, guard: &Guard) {
        /// Keys are not spread quite evenly over the shards.
        const SPARE: usize = 64;
        for shard in self.shards() {
            let mut used = shard.used.lock();
            let wanted = used.live + keys / SHARDS;
            let words = (wanted + wanted / 64 + SPARE) * 5 / 4 + 1;
            let old = shard.table.load(guard);
            if old.is_none_or(|old| old.words.len() < words) {
                self.renew(shard, &mut used, old, words, guard);
            }
        }
    }

    /// Takes a record out.
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
            word.store(FREED, Ordering::Release);
            used.live -= 1;
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&self, guard: &Guard) {
        for shard in self.shards.get().map_or(&[][..], |shards| shards) {
            let mut used = shard.used.lock();
            // SAFETY: as in `renew`.
            unsafe { shard.table.retire(guard) };
            *used = Used::default();
        }
    }

    /// Bytes of all tables.
    pub(super) fn bytes(&self, guard: &Guard) -> usize {
        let shards = self.shards.get().map_or(&[][..], |shards| shards);
        let tables = shards.iter().filter_map(|shard| shard.table.load(guard));
        let words: usize = tables.map(|table| table.words.len()).sum();
        words * size_of::<u64>() + size_of_val(shards)
    }

    /// How many records there are; checks that each is where a search finds it.
    pub(super) fn check(&self, guard: &Guard) -> Result<usize, String> {
        let mut all = 0;
        for shard in self.shards.get().map_or(&[][..], |shards| shards) {
            let used = *shard.used.lock();
            let Some(table) = shard.table.load(guard) else {
                continue;
            };
            let words = || table.words.iter().map(|word| word.load(Ordering::Relaxed));
            let found = Used {
                words: words().filter(|word| *word != 0).count(),
                live: words().filter(|word| *word > FREED).count(),
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

impl Drop for HashPath {
    fn drop(&mut self) {
        self.clear(&crossbeam_epoch::pin());
    }
}
