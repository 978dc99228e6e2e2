//! Item metadata: properties of items that have no column. Meta commands mark an item as stale, let
//! one client recache it, create placeholders for items that a client is fetching, set versions,
//! and read the time of the last access. All of it is in memory: it costs no write to a row, and a
//! restart loses it, as a restart of memcached loses everything.
//!
//! An entry belongs to a primary key of a table and to one version of the row: a write of the row
//! through any protocol invalidates it. A placeholder (version 0) belongs to the absence of the
//! row.
//!
//! Invariants:
//! 1. Bounded: at most [`MAX_MARKS`] marks and [`MAX_ACCESSES`] access times. Access times that
//!    were not used lately are dropped to make room. A mark is never dropped for another: if there
//!    is no room, the command falls back to a safe behaviour (an item that cannot be marked as
//!    stale is deleted, a placeholder is not created, a chosen version is refused).
//! 2. While there are no marks, a read costs one atomic load.
//! 3. Access times are recorded only after the first command that requested one.
//! 4. A change of a mark is applied after the commit of the item's change; a rollback leaves the
//!    mark unchanged.
//! 5. An entry is identified by a keyed hash of 128 bits. Two keys would be confused only if both
//!    their hashes and their row versions were equal.
//!
//! Rejected: columns of `ndbmemcache.kv` for these properties (a write for every read), and an
//! empty row as placeholder, which SQL would see and a table with required columns or foreign keys
//! would refuse.

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use porpoise_rows::catalog::TableId;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

/// Maximum number of marks.
pub const MAX_MARKS: usize = 1 << 18;
/// Maximum number of access times.
pub const MAX_ACCESSES: usize = 1 << 18;
/// Number of parts of the table, each with its own lock.
const SHARDS: usize = 16;

/// Identifies an item: hash of table and primary key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ItemId(u64, u64);

/// The mark of an item: its metadata except for the access time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemMark {
    /// Version of the row to which the mark belongs; 0: a placeholder without a row.
    pub version: u64,
    /// Whether the value is out of date.
    pub stale: bool,
    /// A client has been told to recache it.
    pub sent: bool,
    /// The version to show in place of the row's; 0: the row's.
    pub shown: u64,
    /// Expiry of a placeholder, in seconds since 1970; 0: never.
    pub expires: i64,
}

impl ItemMark {
    fn is_placeholder(&self, now: i64) -> bool {
        self.version == 0 && (self.expires == 0 || self.expires > now)
    }
}

/// Change of an item's mark, applied once the change of the item is committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetadataUpdate {
    /// The item; `None`: its mark is left unchanged.
    pub id: Option<ItemId>,
    /// Version that the change gave the row; 0: the row was deleted.
    pub version: u64,
    /// Whether the item is stale.
    pub stale: bool,
    /// A client has been told to recache it.
    pub sent: bool,
    /// The version to show in place of the row's; 0: the row's.
    pub shown: u64,
}

/// The last access to an item.
#[derive(Clone, Copy, Debug)]
struct Access {
    /// Version of the row that was read.
    version: u64,
    /// Seconds since 1970.
    at: i64,
}

#[derive(Default)]
struct Shard {
    marks: HashMap<ItemId, ItemMark, RandomState>,
    /// Accesses since this map was last full.
    recent_accesses: HashMap<ItemId, Access, RandomState>,
    /// The map of recent accesses when it was last full.
    older_accesses: HashMap<ItemId, Access, RandomState>,
}

/// See the module.
pub struct ItemMetadata {
    /// The keys of the two hashes of an [`ItemId`].
    seeds: (RandomState, RandomState),
    shards: Vec<Mutex<Shard>>,
    /// Number of marks in all shards.
    marks: AtomicUsize,
    tracks_accesses: AtomicBool,
    /// Time of the last sweep of expired placeholders, in seconds since 1970.
    last_sweep: AtomicI64,
}

impl ItemMetadata {
    /// Creates empty metadata.
    pub fn new() -> ItemMetadata {
        ItemMetadata {
            seeds: (RandomState::default(), RandomState::default()),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            marks: AtomicUsize::new(0),
            tracks_accesses: AtomicBool::new(false),
            last_sweep: AtomicI64::new(i64::MIN),
        }
    }

    /// Computes the id of an item.
    pub fn id(&self, table: TableId, primary: &[u8]) -> ItemId {
        ItemId(
            self.seeds.0.hash_one((table, primary)),
            self.seeds.1.hash_one((table, primary)),
        )
    }

    fn with_shard<T>(&self, id: ItemId, act: impl FnOnce(&mut Shard) -> T) -> Option<T> {
        let at = usize::try_from(id.0 % SHARDS as u64).unwrap_or(0);
        Some(act(&mut self.shards.get(at)?.lock()))
    }

    /// Whether any marks exist.
    #[inline]
    pub(crate) fn any_marks(&self) -> bool {
        self.marks.load(Ordering::Relaxed) != 0
    }

    /// Whether access times are recorded.
    #[inline]
    pub(crate) fn tracks_accesses(&self) -> bool {
        self.tracks_accesses.load(Ordering::Relaxed)
    }

    /// Starts recording access times.
    pub(crate) fn track_accesses(&self) {
        if !self.tracks_accesses() {
            self.tracks_accesses.store(true, Ordering::Relaxed);
        }
    }

    /// Returns the mark of a row of this version.
    pub fn mark(&self, id: ItemId, version: u64) -> Option<ItemMark> {
        if !self.any_marks() {
            return None;
        }
        let found = self.with_shard(id, |shard| shard.marks.get(&id).copied())??;
        (found.version == version).then_some(found)
    }

    /// Returns the version that replies report for a row.
    #[inline]
    pub fn shown(&self, id: impl FnOnce() -> ItemId, version: u64) -> u64 {
        if !self.any_marks() {
            return version;
        }
        let mark = self.mark(id(), version);
        mark.map(|m| m.shown).filter(|s| *s != 0).unwrap_or(version)
    }

    /// Returns the placeholder of an absent row, unless it has expired.
    pub(crate) fn placeholder(&self, id: ItemId, now: i64) -> Option<ItemMark> {
        self.mark(id, 0).filter(|mark| mark.is_placeholder(now))
    }

    /// Changes the mark of a row of this version, or creates one. Returns false if the table of
    /// marks is full.
    pub fn change(&self, id: ItemId, version: u64, act: impl FnOnce(&mut ItemMark)) -> bool {
        let done = self.with_shard(id, |shard| {
            let room = shard.marks.len() < MAX_MARKS / SHARDS;
            if !room && !shard.marks.contains_key(&id) {
                return false;
            }
            let mark = shard.marks.entry(id).or_insert_with(|| {
                self.marks.fetch_add(1, Ordering::Relaxed);
                ItemMark::default()
            });
            if mark.version != version {
                *mark = ItemMark {
                    version,
                    ..ItemMark::default()
                };
            }
            act(mark);
            true
        });
        done.unwrap_or(false)
    }

    /// Creates a placeholder if there is none. Returns true and the new placeholder, or false and
    /// the existing one; `None` if the table of marks is full.
    pub fn vivify(&self, id: ItemId, now: i64, new: ItemMark) -> Option<(bool, ItemMark)> {
        let mut result = None;
        let had_room = self.change(id, 0, |mark| {
            // `shown` is 0 in a mark that was just created.
            if mark.shown != 0 && mark.is_placeholder(now) {
                result = Some((false, *mark));
            } else {
                *mark = ItemMark { version: 0, ..new };
                result = Some((true, new));
            }
        });
        // At most once a second, because a sweep visits all marks.
        if !had_room && self.last_sweep.swap(now, Ordering::Relaxed) != now {
            self.sweep(now);
        }
        result
    }

    /// Chooses the calling client to recache an item, if no other has been chosen. Returns whether
    /// it was chosen.
    pub(crate) fn claim_refresh(&self, id: ItemId, version: u64) -> bool {
        let mut won = false;
        let room = self.change(id, version, |mark| {
            won = !mark.sent;
            mark.sent = true;
        });
        // If the table is full, every client is chosen: redundant work, but correct.
        won || !room
    }

    /// Whether there is room for a mark of this item, with a reserve for concurrent callers.
    pub fn has_room(&self, id: ItemId) -> bool {
        const RESERVE: usize = 64;
        let has_room = self.with_shard(id, |shard| {
            shard.marks.len() + RESERVE < MAX_MARKS / SHARDS || shard.marks.contains_key(&id)
        });
        has_room.unwrap_or(false)
    }

    /// Applies the change of an item's mark after the commit.
    #[inline]
    pub(crate) fn apply_update(&self, after: &MetadataUpdate) {
        let Some(id) = after.id else { return };
        if after.stale || after.shown != 0 {
            self.change(id, after.version, |mark| {
                mark.stale = after.stale;
                mark.sent = after.sent;
                mark.shown = after.shown;
            });
        } else {
            self.remove(id);
        }
    }

    fn remove(&self, id: ItemId) {
        self.with_shard(id, |shard| {
            if shard.marks.remove(&id).is_some() {
                self.marks.fetch_sub(1, Ordering::Relaxed);
            }
        });
    }

    /// Removes expired placeholders.
    fn sweep(&self, now: i64) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            let before = shard.marks.len();
            let is_current = |mark: &ItemMark| mark.version != 0 || mark.is_placeholder(now);
            shard.marks.retain(|_, mark| is_current(mark));
            let removed = before - shard.marks.len();
            self.marks.fetch_sub(removed, Ordering::Relaxed);
        }
    }

    /// Removes all marks and access times.
    pub fn clear(&self) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            let removed = shard.marks.len();
            *shard = Shard::default();
            self.marks.fetch_sub(removed, Ordering::Relaxed);
        }
    }

    /// Returns the time of the last access to a row of this version, if known.
    pub(crate) fn last_access(&self, id: ItemId, version: u64) -> Option<i64> {
        let found = self.with_shard(id, |shard| {
            let found = shard
                .recent_accesses
                .get(&id)
                .or_else(|| shard.older_accesses.get(&id));
            found.copied()
        })??;
        (found.version == version).then_some(found.at)
    }

    /// Records an access to a row of this version.
    pub(crate) fn note_access(&self, id: ItemId, version: u64, now: i64) {
        self.with_shard(id, |shard| {
            if shard.recent_accesses.len() >= MAX_ACCESSES / SHARDS / 2 {
                shard.older_accesses = std::mem::take(&mut shard.recent_accesses);
            }
            let access = Access { version, at: now };
            shard.recent_accesses.insert(id, access);
        });
    }
}

impl Default for ItemMetadata {
    fn default() -> ItemMetadata {
        ItemMetadata::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placeholder(expires: i64, shown: u64) -> ItemMark {
        ItemMark {
            sent: true,
            shown,
            expires,
            ..ItemMark::default()
        }
    }

    #[test]
    fn a_mark_belongs_to_one_version() {
        let metadata = ItemMetadata::new();
        let id = metadata.id(TableId(1), b"k");
        assert!(metadata.change(id, 7, |mark| mark.stale = true));
        assert!(metadata.mark(id, 7).unwrap().stale);
        assert!(metadata.mark(id, 8).is_none());
        assert!(metadata.change(id, 8, |mark| assert!(!mark.stale)));
        metadata.apply_update(&MetadataUpdate {
            id: Some(id),
            ..MetadataUpdate::default()
        });
        assert!(!metadata.any_marks());
    }

    #[test]
    fn one_client_wins_the_right_to_recache_a_version() {
        let metadata = ItemMetadata::new();
        let id = metadata.id(TableId(1), b"k");
        assert!(metadata.claim_refresh(id, 3));
        assert!(!metadata.claim_refresh(id, 3));
        assert!(metadata.claim_refresh(id, 4));
    }

    #[test]
    fn a_placeholder_is_created_once_and_expires() {
        let metadata = ItemMetadata::new();
        let id = metadata.id(TableId(1), b"k");
        assert!(metadata.vivify(id, 10, placeholder(20, 5)).unwrap().0);
        let (made, held) = metadata.vivify(id, 15, placeholder(30, 6)).unwrap();
        assert!(!made);
        assert_eq!(held.shown, 5);
        assert!(metadata.placeholder(id, 20).is_none());
        assert!(metadata.vivify(id, 20, placeholder(30, 6)).unwrap().0);
    }

    #[test]
    fn item_metadata_is_bounded() {
        let metadata = ItemMetadata::new();
        let mut refused = 0;
        for n in 0..u64::try_from(2 * MAX_MARKS).unwrap() {
            let id = metadata.id(TableId(1), &n.to_be_bytes());
            refused += usize::from(metadata.vivify(id, 0, placeholder(9, 1)).is_none());
            metadata.note_access(id, 1, 0);
        }
        assert!(refused >= MAX_MARKS);
        assert!(metadata.marks.load(Ordering::Relaxed) <= MAX_MARKS);
        for shard in &metadata.shards {
            let shard = shard.lock();
            assert!(
                shard.recent_accesses.len() + shard.older_accesses.len() <= MAX_ACCESSES / SHARDS
            );
        }
        metadata.sweep(100);
        assert!(!metadata.any_marks());
    }
}
