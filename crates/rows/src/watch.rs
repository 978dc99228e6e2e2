//! Hearing of commits to tables that somebody keeps a digest of.
//!
//! Whoever derives something from a few tables (a mapping of keys, a list of
//! accounts) watches them: one load tells whether a commit has touched them
//! since. Watching costs writers of other tables one comparison a row.
//!
//! Invariants:
//! 1. A watch counts a commit before the commit's caller learns of it, so
//!    whoever was told of the commit finds the count moved.
//! 2. The ticket of a watch is stored before its count moves: who sees the
//!    count knows which durable mark shows the change to a snapshot.
//! 3. A commit of unknown outcome counts, too.
//!
//! Rejected: a list of listeners called at commit (they would run in the
//! middle of somebody's transaction).

use crate::definition::TableId;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use porpoise_kv::CommitPosition;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Counts the commits that wrote to some tables.
#[derive(Debug, Default)]
pub struct Watch {
    changes: AtomicU64,
    ticket: AtomicU64,
}

impl Watch {
    /// How many commits there were so far. One load; compare with an earlier
    /// answer.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// The last of these commits: a snapshot sees it once the engine's durable
    /// mark has reached this.
    pub fn ticket(&self) -> CommitPosition {
        CommitPosition(self.ticket.load(Ordering::Acquire))
    }

    fn count(&self, ticket: CommitPosition) {
        self.ticket.fetch_max(ticket.0, Ordering::Release);
        self.changes.fetch_add(1, Ordering::Release);
    }
}

struct Entry {
    tables: Vec<TableId>,
    watch: Weak<Watch>,
}

/// Who watches what.
#[derive(Default)]
pub(crate) struct Watches {
    entries: Mutex<Vec<Entry>>,
    /// All tables watched by anybody, ascending.
    tables: ArcSwap<Vec<TableId>>,
}

impl Watches {
    pub(crate) fn add(&self, tables: &[TableId]) -> Arc<Watch> {
        let watch = Arc::new(Watch::default());
        let mut entries = self.entries.lock();
        entries.retain(|e| e.watch.strong_count() > 0);
        entries.push(Entry {
            tables: tables.to_vec(),
            watch: Arc::downgrade(&watch),
        });
        let mut all: Vec<TableId> = entries.iter().flat_map(|e| e.tables.clone()).collect();
        all.sort_unstable();
        all.dedup();
        self.tables.store(Arc::new(all));
        watch
    }

    pub(crate) fn watched(&self, table: TableId) -> bool {
        self.tables.load().binary_search(&table).is_ok()
    }

    /// A transaction that wrote `tables` (watched ones) has committed.
    pub(crate) fn committed(&self, tables: &[TableId], ticket: CommitPosition) {
        for entry in self.entries.lock().iter() {
            if let Some(watch) = entry.watch.upgrade()
                && entry.tables.iter().any(|t| tables.contains(t))
            {
                watch.count(ticket);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_watched_tables_count_and_a_dropped_watch_is_forgotten() {
        let watches = Watches::default();
        let one = watches.add(&[TableId(7), TableId(3)]);
        let two = watches.add(&[TableId(4)]);
        assert!(watches.watched(TableId(3)) && !watches.watched(TableId(5)));
        watches.committed(&[TableId(3)], CommitPosition(9));
        assert_eq!((one.changes(), one.ticket()), (1, CommitPosition(9)));
        assert_eq!((two.changes(), two.ticket()), (0, CommitPosition(0)));
        drop(one);
        let again = watches.add(&[TableId(8)]);
        assert!(!watches.watched(TableId(3)) && watches.watched(TableId(4)));
        watches.committed(&[TableId(8), TableId(4)], CommitPosition(5));
        assert_eq!((again.changes(), two.changes()), (1, 1));
    }
}
