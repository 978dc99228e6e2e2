//! Change notification: the signal that tables were committed to, for caches
//! derived from tables (accounts, the memcached mapping).
//!
//! A subscriber has a [`TableChanges`] for its tables. One atomic load shows whether a commit has
//! written to them since. Writers of other tables pay one comparison per row.
//!
//! Invariants:
//! 1. A commit is counted before its caller learns of it, so a client that got the reply to a
//!    commit finds a new count.
//! 2. The commit position is stored before the count changes: a reader that sees the new count
//!    knows which durable position shows the change to a snapshot.
//! 3. A commit of unknown outcome counts, too.
//!
//! Rejected: a list of listeners called at commit (they would run inside
//! another session's transaction).

use crate::definition::TableId;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use porpoise_kv::CommitPosition;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Counts the commits that wrote to some tables.
#[derive(Debug, Default)]
pub struct TableChanges {
    changes: AtomicU64,
    position: AtomicU64,
}

impl TableChanges {
    /// Number of commits so far, to be compared with an earlier result. One atomic load.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Position of the last of these commits. A snapshot sees it once the durability watermark has
    /// reached it.
    pub fn position(&self) -> CommitPosition {
        CommitPosition(self.position.load(Ordering::Acquire))
    }

    fn record_commit(&self, position: CommitPosition) {
        self.position.fetch_max(position.0, Ordering::Release);
        self.changes.fetch_add(1, Ordering::Release);
    }
}

struct Subscription {
    tables: Vec<TableId>,
    changes: Weak<TableChanges>,
}

/// The subscriptions to changes of tables.
#[derive(Default)]
pub(crate) struct ChangeNotifier {
    subscriptions: Mutex<Vec<Subscription>>,
    /// All tables with a subscriber, ascending.
    tables: ArcSwap<Vec<TableId>>,
    /// Number of changes of `tables`.
    version: AtomicU64,
}

impl ChangeNotifier {
    pub(crate) fn subscribe(&self, tables: &[TableId]) -> Arc<TableChanges> {
        let changes = Arc::new(TableChanges::default());
        let mut subscriptions = self.subscriptions.lock();
        subscriptions.retain(|e| e.changes.strong_count() > 0);
        subscriptions.push(Subscription {
            tables: tables.to_vec(),
            changes: Arc::downgrade(&changes),
        });
        let mut all: Vec<TableId> = subscriptions
            .iter()
            .flat_map(|e| e.tables.clone())
            .collect();
        all.sort_unstable();
        all.dedup();
        self.tables.store(Arc::new(all));
        self.version.fetch_add(1, Ordering::Release);
        changes
    }

    /// Changes whenever a result of [`ChangeNotifier::is_subscribed`] may have changed.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn is_subscribed(&self, table: TableId) -> bool {
        self.tables.load().binary_search(&table).is_ok()
    }

    /// All tables with a subscriber, ascending.
    pub(crate) fn subscribed_tables(&self) -> Arc<Vec<TableId>> {
        self.tables.load_full()
    }

    /// Records the commit of a transaction that wrote `tables` (those with a subscriber).
    pub(crate) fn notify(&self, tables: &[TableId], position: CommitPosition) {
        for entry in self.subscriptions.lock().iter() {
            if let Some(changes) = entry.changes.upgrade()
                && entry.tables.iter().any(|t| tables.contains(t))
            {
                changes.record_commit(position);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_to_subscribed_tables_are_counted_until_the_subscription_is_dropped() {
        let notifier = ChangeNotifier::default();
        let one = notifier.subscribe(&[TableId(7), TableId(3)]);
        let two = notifier.subscribe(&[TableId(4)]);
        assert!(notifier.is_subscribed(TableId(3)) && !notifier.is_subscribed(TableId(5)));
        notifier.notify(&[TableId(3)], CommitPosition(9));
        assert_eq!((one.changes(), one.position()), (1, CommitPosition(9)));
        assert_eq!((two.changes(), two.position()), (0, CommitPosition(0)));
        drop(one);
        let again = notifier.subscribe(&[TableId(8)]);
        assert!(!notifier.is_subscribed(TableId(3)) && notifier.is_subscribed(TableId(4)));
        notifier.notify(&[TableId(8), TableId(4)], CommitPosition(5));
        assert_eq!((again.changes(), two.changes()), (1, 1));
    }
}
