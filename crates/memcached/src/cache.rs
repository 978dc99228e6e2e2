//! The memory cache, for keys whose policy is `cache_only`.
//!
//! One bounded cache for all memcached listeners of the server; never on disk, and empty after a
//! restart. When it is full, items that were neither stored nor read recently are evicted first.
//! The store is `quick_cache`, sharded, with a policy like Clock-PRO.
//!
//! Changes of a key are serialised by a lock chosen by the key's hash, so that read-modify-write is
//! atomic. Reads take no such lock.
//!
//! Invariants:
//! 1. Keys, values and [`OVERHEAD`] per item together never exceed the capacity.
//! 2. An item too large for the cache is refused, and the key's old item is removed, as in
//!    memcached: a read never returns an older value in place of a newer one that was lost.
//! 3. While the server runs, a version is never given to two contents of one key. Versions start at
//!    the clock's time, so they practically never repeat across a restart.
//! 4. Versions stay below 2^53 (transactions.md, rule 31).
//!
//! Rejected: an exact LRU list, which turns every read into a write of shared
//! memory.

use crate::counters::{self, Counter};
use foldhash::fast::RandomState;
use parking_lot::Mutex;
use porpoise_base::clock::Clock;
use porpoise_wire::memcached::MAX_KEY;
use quick_cache::sync::Cache as Store;
use quick_cache::{Lifecycle, OptionsBuilder, Weighter};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Accounted size of an item in bytes, besides key and value.
pub const OVERHEAD: usize = 96;
/// Number of locks that serialise changes; a key's hash selects its lock.
const LOCKS: usize = 256;

/// An item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The value.
    pub value: Arc<[u8]>,
    /// The client's flags.
    pub flags: u32,
    /// Expiry time in seconds since 1970; 0: never.
    pub expires: i64,
    /// The item's CAS value.
    pub version: u64,
}

impl Item {
    /// Whether the item has expired at `now`, in seconds since 1970.
    pub fn expired(&self, now: i64) -> bool {
        self.expires != 0 && self.expires <= now
    }
}

/// Change of an item.
#[derive(Clone, Debug)]
pub enum CacheAction {
    /// The item is left unchanged.
    Keep,
    /// The item is removed.
    Remove,
    /// The item is stored, with a new version.
    Put {
        /// The value.
        value: Arc<[u8]>,
        /// The client's flags.
        flags: u32,
        /// Seconds since 1970; 0: never.
        expires: i64,
        /// Version to store in place of a new one.
        version: Option<u64>,
    },
    /// The expiry time is replaced; the version stays.
    Touch(i64),
}

/// The value is too large for one item of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

#[derive(Clone, Copy, Debug)]
struct Weight;

impl Weighter<Box<[u8]>, Item> for Weight {
    fn weight(&self, key: &Box<[u8]>, item: &Item) -> u64 {
        weight(key.len(), item.value.len())
    }
}

/// Accounted size in bytes of an item with a key and a value of these lengths.
fn weight(key_len: usize, value_len: usize) -> u64 {
    (key_len + value_len + OVERHEAD) as u64
}

/// Counts evictions.
#[derive(Clone, Copy, Debug)]
struct CountEvictions;

impl Lifecycle<Box<[u8]>, Item> for CountEvictions {
    /// Evicted items, dropped once the shard's lock is released.
    type RequestState = Vec<(Box<[u8]>, Item)>;

    fn on_evict(&self, evicted: &mut Self::RequestState, key: Box<[u8]>, item: Item) {
        counters::add(Counter::Evictions, 1);
        evicted.push((key, item));
    }
}

type Items = Store<Box<[u8]>, Item, Weight, RandomState, CountEvictions>;

/// The cache; see the module. Memory is allocated as items are stored.
pub struct Cache {
    capacity: u64,
    /// Maximum length of a value in bytes.
    max_value: usize,
    /// Created by the first change.
    items: OnceLock<Items>,
    /// See [`LOCKS`].
    locks: Box<[Mutex<()>]>,
    hash: RandomState,
    /// The last version that was given to an item.
    last_version: AtomicU64,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cache of {} bytes", self.capacity)
    }
}

impl Cache {
    /// Creates a cache of `capacity` bytes for values of up to `max_value` bytes.
    pub fn new(capacity: u64, max_value: usize, clock: &dyn Clock) -> Cache {
        let start = u64::try_from(clock.unix_micros()).unwrap_or(1).max(1);
        Cache {
            capacity,
            max_value,
            items: OnceLock::new(),
            locks: (0..LOCKS).map(|_| Mutex::new(())).collect(),
            hash: RandomState::default(),
            last_version: AtomicU64::new(start),
        }
    }

    fn items(&self) -> &Items {
        self.items.get_or_init(|| {
            // A shard holds at least four items of maximum size.
            let min_shard_bytes = weight(MAX_KEY, self.max_value) * 4;
            let shards = (self.capacity / min_shard_bytes).clamp(1, 16);
            let shards = 1 << shards.ilog2();
            // Assumes an average of 512 bytes per item.
            let estimate = usize::try_from(self.capacity / 512).unwrap_or(1).max(16);
            let options = OptionsBuilder::new()
                .weight_capacity(self.capacity)
                .estimated_items_capacity(estimate)
                .shards(shards)
                // Half of the capacity is for recently stored items, whether read or not.
                .hot_allocation(0.5)
                .build();
            match options {
                Ok(options) => {
                    Store::with_options(options, Weight, self.hash.clone(), CountEvictions)
                }
                // Unreachable: the builder fails only if one of the two sizes is missing.
                Err(_) => Store::with(
                    estimate,
                    self.capacity,
                    Weight,
                    self.hash.clone(),
                    CountEvictions,
                ),
            }
        })
    }

    /// Returns the item of a key, unless it has expired at `now`, in seconds since 1970.
    pub fn get(&self, key: &[u8], now: i64) -> Option<Item> {
        let item = self.items.get()?.get(key)?;
        (!item.expired(now)).then_some(item)
    }

    /// Passes the item of a key to `decide` and applies its decision; no other change of the key
    /// runs at the same time. An item that has expired at `now`, in seconds since 1970, counts as
    /// absent. Returns the result of `decide`, and the item's version after the change; 0 if there
    /// is not an item.
    ///
    /// # Errors
    /// The new value is too large; the key has no item then.
    pub fn change<R>(
        &self,
        key: &[u8],
        now: i64,
        decide: impl FnOnce(Option<&Item>) -> (R, CacheAction),
    ) -> Result<(R, u64), TooLarge> {
        let items = self.items();
        let _key_lock = self.lock_key(key);
        let found = items.get(key).filter(|item| !item.expired(now));
        let (result, change) = decide(found.as_ref());
        let version = match (change, found) {
            (CacheAction::Keep, found) => found.map_or(0, |item| item.version),
            (CacheAction::Remove, _) => {
                items.remove(key);
                0
            }
            (CacheAction::Touch(expires), Some(item)) => {
                let version = item.version;
                items.insert(key.into(), Item { expires, ..item });
                version
            }
            (CacheAction::Touch(_), None) => 0,
            (
                CacheAction::Put {
                    value,
                    flags,
                    expires,
                    version,
                },
                _,
            ) => {
                if !self.fits_in_shard(items, key.len(), value.len()) {
                    items.remove(key);
                    return Err(TooLarge);
                }
                let new_version = || self.last_version.fetch_add(1, Ordering::Relaxed) + 1;
                let version = version.unwrap_or_else(new_version);
                let item = Item {
                    value,
                    flags,
                    expires,
                    version,
                };
                items.insert(key.into(), item);
                version
            }
        };
        Ok((result, version))
    }

    /// Whether an item with a key and a value of these lengths takes at most a quarter of a shard.
    fn fits_in_shard(&self, items: &Items, key_len: usize, value_len: usize) -> bool {
        weight(key_len, value_len) <= items.shard_capacity() / 4
    }

    fn lock_key(&self, key: &[u8]) -> Option<parking_lot::MutexGuard<'_, ()>> {
        let hash = usize::try_from(self.hash.hash_one(key)).unwrap_or(0);
        Some(self.locks.get(hash % LOCKS)?.lock())
    }

    /// Removes all items.
    pub fn clear(&self) {
        if let Some(items) = self.items.get() {
            items.clear();
        }
    }

    /// Returns the number of items and their accounted bytes, expired ones included.
    pub fn size(&self) -> (u64, u64) {
        self.items
            .get()
            .map_or((0, 0), |items| (items.len() as u64, items.weight()))
    }

    /// Returns the capacity in bytes.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use porpoise_base::clock::SystemClock;

    fn cache(capacity: u64) -> Cache {
        Cache::new(capacity, 1 << 10, &SystemClock)
    }

    fn put(cache: &Cache, key: &[u8], value: &[u8], expires: i64) -> Result<u64, TooLarge> {
        let put = CacheAction::Put {
            value: value.into(),
            flags: 7,
            expires,
            version: None,
        };
        cache.change(key, 100, |_| ((), put)).map(|((), v)| v)
    }

    #[test]
    fn an_item_is_found_until_it_expires_or_is_removed() {
        let cache = cache(1 << 20);
        assert_eq!(cache.get(b"a", 100), None);
        let first = put(&cache, b"a", b"1", 0).unwrap();
        let second = put(&cache, b"b", b"2", 150).unwrap();
        assert!(second > first && second < 1 << 53);
        assert_eq!(&*cache.get(b"b", 149).unwrap().value, b"2");
        assert_eq!(cache.get(b"b", 150), None);
        let touched = cache.change(b"b", 149, |_| ((), CacheAction::Touch(500)));
        assert_eq!(touched, Ok(((), second)));
        assert_eq!(cache.get(b"b", 499).unwrap().version, second);
        cache
            .change(b"a", 100, |_| ((), CacheAction::Remove))
            .unwrap();
        assert_eq!(cache.get(b"a", 100), None);
        cache.clear();
        assert_eq!(cache.size(), (0, 0));
    }

    #[test]
    fn a_full_cache_evicts_items_and_stays_within_its_capacity() {
        let before = counters::sum(Counter::Evictions);
        let cache = cache(64 << 10);
        for n in 0..10_000 {
            put(&cache, format!("k{n}").as_bytes(), &[0; 100], 0).unwrap();
        }
        let (items, bytes) = cache.size();
        assert!(bytes <= 64 << 10, "{bytes}");
        let evicted = counters::sum(Counter::Evictions) - before;
        assert!(evicted > 0, "items were dropped");
        assert!(items > 100, "{items}");
    }

    #[test]
    fn storing_a_value_that_is_too_large_fails_and_removes_the_old_item() {
        let cache = cache(8 << 10);
        put(&cache, b"a", b"small", 0).unwrap();
        assert_eq!(put(&cache, b"a", &[0; 8 << 10], 0), Err(TooLarge));
        assert_eq!(cache.get(b"a", 100), None);
    }

    #[test]
    fn concurrent_changes_of_one_key_are_atomic() {
        let cache = cache(1 << 20);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        let done = cache.change(b"n", 100, |item| {
                            let count = item.map_or(1, |i| i.flags + 1);
                            let put = CacheAction::Put {
                                value: Arc::from(&b"v"[..]),
                                flags: count,
                                expires: 0,
                                version: None,
                            };
                            ((), put)
                        });
                        done.unwrap();
                    }
                });
            }
        });
        assert_eq!(cache.get(b"n", 100).unwrap().flags, 20_000);
    }
}
