//! Hot keys: the most frequently looked-up keys of each table and key prefix, by interface.
//!
//! Look-ups of rows by whole keys are sampled ([`porpoise_base::sampling`]). The samples are
//! counted by the Space-Saving algorithm ([`porpoise_base::heavy_hitters`]), in one list for each
//! combination of table, index, interface and prefix of memcached keys. [`crate::Txn`] samples
//! look-ups of SQL, as encoded keys; the memcached listeners sample their own, as the clients'
//! keys.
//!
//! Invariants:
//! 1. A sample never waits: if another thread is counting or reading, it is dropped.
//! 2. Memory is limited by [`MAX_LISTS`], [`KEYS_OF_LIST`] and [`MAX_KEY`] to about 7 MB. It belongs to
//!    no connection, so that it is not charged to one; [`HotKeys::bytes`] reports it.

use crate::catalog::Catalog;
use crate::definition::TableId;
use crate::lock_description::LockDescription;
use crate::table::Table;
use parking_lot::Mutex;
use porpoise_base::heavy_hitters::HeavyHitters;
use porpoise_base::sampling::Sampler;
use std::collections::HashMap;
use std::sync::Arc;

/// Mean number of look-ups between two samples (`hot_key_sample_interval`).
pub const SAMPLE_INTERVAL: u32 = 256;

/// Maximum number of lists; samples of further tables are dropped.
const MAX_LISTS: usize = 256;

/// Number of keys in a list.
const KEYS_OF_LIST: usize = 128;

/// Maximum number of bytes of a key; longer keys with the same first bytes are counted together.
const MAX_KEY: usize = 128;

/// Approximate memory of a key's counter besides the key's bytes: the entry of the hash map at its
/// usual load, and the allocation.
const COUNTER_BYTES: usize = 80;

/// The front end that looks rows up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Interface {
    /// The server itself, whose look-ups are not sampled.
    #[default]
    Internal,
    /// SQL.
    Sql,
    /// A memcached listener.
    Memcached,
}

impl Interface {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Interface::Internal => "internal",
            Interface::Sql => "sql",
            Interface::Memcached => "memcached",
        }
    }
}

/// Identity of a list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ListId {
    interface: Interface,
    /// The table and the position of the index; `None` for keys of the memory cache.
    index: Option<(TableId, usize)>,
    /// The configured prefix of memcached keys.
    prefix: Box<[u8]>,
}

/// A sampled look-up.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The front end.
    pub interface: Interface,
    /// The table and the position of the index; `None` for keys of the memory cache.
    pub index: Option<(TableId, usize)>,
    /// The configured prefix of a memcached key.
    pub prefix: &'a [u8],
    /// The key: encoded for the index, or as the memcached client sent it.
    pub key: &'a [u8],
    /// Whether the row was locked or written, rather than read.
    pub writes: bool,
}

/// A hot key.
#[derive(Clone, Debug)]
pub struct HotKey {
    /// The front end.
    pub interface: Interface,
    /// The table; `None` for keys of the memory cache.
    pub table: Option<Arc<Table>>,
    /// The name of the index; empty without a table.
    pub index: String,
    /// The configured prefix of memcached keys.
    pub prefix: String,
    /// The key: column values joined by commas, or the memcached key.
    pub key: String,
    /// Estimated number of recent look-ups.
    pub lookups: u64,
    /// Estimated number of those that locked or wrote the row.
    pub writes: u64,
    /// Upper limit of the error of `lookups` by counters that other keys had before, without the
    /// error of sampling.
    pub error: u64,
    /// Fraction of all look-ups in the same index, prefix and interface.
    pub share: f64,
}

/// The hot keys of a database.
#[derive(Debug)]
pub struct HotKeys {
    sampler: Sampler,
    lists: Mutex<HashMap<ListId, HeavyHitters<Box<[u8]>>>>,
}

impl Default for HotKeys {
    fn default() -> HotKeys {
        HotKeys {
            sampler: Sampler::new(SAMPLE_INTERVAL),
            lists: Mutex::default(),
        }
    }
}

impl HotKeys {
    /// The sampler that chooses look-ups.
    #[inline]
    pub fn sampler(&self) -> &Sampler {
        &self.sampler
    }

    /// Counts a sampled look-up.
    #[cold]
    pub fn record(&self, sample: Sample<'_>) {
        let Some(mut lists) = self.lists.try_lock() else {
            return;
        };
        let id = ListId {
            interface: sample.interface,
            index: sample.index,
            prefix: sample.prefix.into(),
        };
        if !lists.contains_key(&id) && lists.len() >= MAX_LISTS {
            return;
        }
        let list = lists
            .entry(id)
            .or_insert_with(|| HeavyHitters::new(KEYS_OF_LIST));
        let key = sample.key.get(..MAX_KEY).unwrap_or(sample.key);
        list.add(key, sample.writes, || key.into());
    }

    /// Approximate memory of all lists, in bytes.
    pub fn bytes(&self) -> u64 {
        let lists = self.lists.lock();
        let of_list = |(id, list): (&ListId, &HeavyHitters<Box<[u8]>>)| {
            let keys = list.iter().map(|(key, _)| key.len() + COUNTER_BYTES);
            size_of::<ListId>() + id.prefix.len() + keys.sum::<usize>()
        };
        lists.iter().map(of_list).sum::<usize>() as u64
    }

    /// Forgets all keys.
    pub fn reset(&self) {
        self.lists.lock().clear();
    }

    /// The hot keys of the tables of a catalog that `is_visible` accepts (`None`: the memory
    /// cache), most frequent first. Lists of dropped tables are removed.
    pub fn list(
        &self,
        catalog: &Catalog,
        is_visible: impl Fn(Option<&Table>) -> bool,
    ) -> Vec<HotKey> {
        let mut lists = self.lists.lock();
        lists.retain(|id, _| match id.index {
            Some((table, _)) => catalog.table_by_id(table).is_some(),
            None => true,
        });
        let scale = u64::from(self.sampler.interval().max(1));
        let mut found = Vec::new();
        for (id, list) in lists.iter() {
            let (table, index) = match id.index {
                Some((table, index)) => (catalog.table_by_id(table), index),
                None => (None, 0),
            };
            if !is_visible(table.map(Arc::as_ref)) {
                continue;
            }
            let definition = table.and_then(|table| table.indexes.get(index));
            let total = list.total().max(1) as f64;
            found.extend(list.iter().map(|(key, count)| HotKey {
                interface: id.interface,
                table: table.cloned(),
                index: definition.map_or(String::new(), |index| index.name.clone()),
                prefix: String::from_utf8_lossy(&id.prefix).into_owned(),
                key: match (id.interface, table) {
                    (Interface::Memcached, _) | (_, None) => {
                        String::from_utf8_lossy(key).into_owned()
                    }
                    (_, Some(table)) => LockDescription::key_text(table, index, key),
                },
                lookups: count.count * scale,
                writes: count.marked * scale,
                error: count.error * scale,
                share: count.count as f64 / total,
            }));
        }
        drop(lists);
        found.sort_by(|a, b| b.lookups.cmp(&a.lookups).then_with(|| a.key.cmp(&b.key)));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_bounded_and_kept_apart() {
        let hot = HotKeys::default();
        let sample = |prefix: &[u8], key: &[u8]| {
            hot.record(Sample {
                interface: Interface::Memcached,
                index: None,
                prefix,
                key,
                writes: key == b"b",
            });
        };
        for _ in 0..3 {
            sample(b"p:", b"a");
        }
        sample(b"p:", b"b");
        sample(b"q:", b"a");
        for n in 0..2 * MAX_LISTS {
            sample(format!("{n}:").as_bytes(), b"a");
        }
        sample(b"p:", &[b'x'; 1000]);
        let found = hot.list(&Catalog::default(), |_| true);
        assert!(found.len() <= MAX_LISTS + 2);
        let first = &found[0];
        assert_eq!((first.prefix.as_str(), first.key.as_str()), ("p:", "a"));
        assert_eq!(
            (first.lookups, first.writes),
            (3 * u64::from(SAMPLE_INTERVAL), 0)
        );
        assert!(found.iter().all(|hot| hot.key.len() <= MAX_KEY));
        let b = found.iter().find(|hot| hot.key == "b").unwrap();
        assert_eq!(
            (b.lookups, b.writes),
            (u64::from(SAMPLE_INTERVAL), u64::from(SAMPLE_INTERVAL))
        );
        assert!(hot.list(&Catalog::default(), |_| false).is_empty());
        let expected = found.len() * (COUNTER_BYTES + size_of::<ListId>());
        assert!((expected..2 * expected).contains(&(hot.bytes() as usize)));
        hot.reset();
        assert_eq!(hot.bytes(), 0);
        assert!(hot.list(&Catalog::default(), |_| true).is_empty());
    }
}
