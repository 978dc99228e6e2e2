//! The hash path: from whole keys to records.
//!
//! A table is an array of words: 16 bits of a key's hash above the 48 bits of
//! a record's address; 0 was never used, 1 was used and is free. A search goes
//! from the place that the hash names to the first word never used. Readers
//! take nothing; the tree's writer is the only one who changes tables.
//!
//! Invariants:
//! 1. A word that leads to a record is in its table once, and stays where it
//!    is until the record is taken out.
//! 2. A table is never more than four fifths used: every search ends.
//! 3. A table that was replaced is freed through the epoch. A reader that has
//!    the old one misses only keys that came after it began.

use super::cell::{Link, at_address, prefetch};
use crate::record::{Pinned, RecordAddress};
use crossbeam_epoch::Guard;
use parking_lot::Mutex;
use std::hash::BuildHasher;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Shards of a path: tables grow one at a time, so that nobody waits long.
const SHARDS: usize = 128;
/// Words of a new table.
const SMALLEST: usize = 16;

const FREED: u64 = 1;
const ADDRESS: u64 = (1 << 48) - 1;

struct Table {
    words: Box<[AtomicU64]>,
    /// Words that are not 0; of these so many lead to records.
    used: Mutex<(usize, usize)>,
}

impl Table {
    fn new(words: usize) -> Table {
        Table {
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            used: Mutex::new((0, 0)),
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

    /// Puts a word where there is room.
    fn put(&self, hash: u64, word: u64) {
        let mut used = self.used.lock();
        for place in self.probe(hash) {
            let old = place.load(Ordering::Relaxed);
            if old <= FREED {
                place.store(word, Ordering::Release);
                used.0 += usize::from(old == 0);
                used.1 += 1;
                return;
            }
        }
    }
}

fn word_of(hash: u64, address: RecordAddress) -> u64 {
    let address = address.as_ptr().expose_provenance() as u64;
    debug_assert!(address <= ADDRESS, "addresses have 48 bits");
    tag_of(hash) | address & ADDRESS
}

fn tag_of(hash: u64) -> u64 {
    hash & !ADDRESS
}

/// The hash path of one space.
pub(super) struct HashPath {
    shards: OnceLock<Box<[Link<Table>]>>,
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
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        self.seed.hash_one(key)
    }

    fn table<'g>(&self, hash: u64, guard: &'g Guard) -> Option<&'g Table> {
        let shard = self.shards.get()?.get((hash >> 32) as usize % SHARDS)?;
        shard.load(guard)
    }

    /// Asks for the words where a search begins, ahead of need.
    pub(super) fn expect(&self, hash: u64, guard: &Guard) {
        if let Some(table) = self.table(hash, guard)
            && let Some(word) = table.words.get(table.home(hash))
        {
            prefetch(std::ptr::from_ref(word).addr());
        }
    }

    /// Asks for the record that a search will most likely find.
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
                let found = at_address((word & ADDRESS) as usize, guard);
                if let Some(record) = found.filter(|record| record.key() == key) {
                    return Some(record);
                }
            }
        }
        None
    }

    /// Adds a record that is not there. The writer's.
    pub(super) fn insert(&self, key: &[u8], address: RecordAddress, guard: &Guard) {
        let hash = self.hash(key);
        let make = || (0..SHARDS).map(|_| Link::empty()).collect();
        let shards = self.shards.get_or_init(make);
        let Some(shard) = shards.get((hash >> 32) as usize % SHARDS) else {
            return;
        };
        let table = match shard.load(guard) {
            Some(table) if (table.used.lock().0 + 1) * 5 <= table.words.len() * 4 => table,
            old => self.grow(shard, old, guard),
        };
        table.put(hash, word_of(hash, address));
    }

    /// A table with room in the place of one that has none.
    fn grow<'g>(&self, shard: &Link<Table>, old: Option<&Table>, guard: &'g Guard) -> &'g Table {
        let live = old.map_or(0, |old| old.used.lock().1);
        let new = Table::new(SMALLEST.max((live + 1) * 15 / 8));
        let words = old.map_or(&[][..], |old| &old.words);
        let words = words.iter().map(|word| word.load(Ordering::Relaxed));
        for word in words.filter(|word| *word > FREED) {
            if let Some(record) = at_address((word & ADDRESS) as usize, guard) {
                new.put(self.hash(record.key()), word);
            }
        }
        shard.replace(new, guard)
    }

    /// Takes a record out. The writer's.
    pub(super) fn remove(&self, key: &[u8], address: RecordAddress, guard: &Guard) {
        let hash = self.hash(key);
        let wanted = word_of(hash, address);
        let Some(table) = self.table(hash, guard) else {
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
            table.used.lock().1 -= 1;
        }
    }

    /// Forgets everything. The writer's.
    pub(super) fn clear(&self, guard: &Guard) {
        for shard in self.shards.get().map_or(&[][..], |shards| shards) {
            shard.retire(guard);
        }
    }

    /// How many records there are; checks that each is where a search finds it.
    pub(super) fn check(&self, guard: &Guard) -> Result<usize, String> {
        let mut all = 0;
        for shard in self.shards.get().map_or(&[][..], |shards| shards) {
            let Some(table) = shard.load(guard) else {
                continue;
            };
            let (used, live) = *table.used.lock();
            let words = || table.words.iter().map(|word| word.load(Ordering::Relaxed));
            let found = (
                words().filter(|word| *word != 0).count(),
                words().filter(|word| *word > FREED).count(),
            );
            if found != (used, live) {
                return Err(format!("words {found:?}, counted ({used}, {live})"));
            }
            if used * 5 > table.words.len() * 4 {
                return Err(format!("{used} of {} words are used", table.words.len()));
            }
            all += live;
        }
        Ok(all)
    }
}

impl Drop for HashPath {
    fn drop(&mut self) {
        self.clear(&crossbeam_epoch::pin());
    }
}
