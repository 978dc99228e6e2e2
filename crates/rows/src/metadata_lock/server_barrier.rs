//! Barriers that a statement of another server of the cluster requests.
//!
//! Such a barrier is raised at once, although sessions may use its tables, and blocks new sessions; the other
//! server waits until [`ServerBarrier::is_drained`]. No session of this server owns it.

use super::{
    Barrier, Exclusion, Exclusions, MetadataBarrier, MetadataLockSession, MetadataLocks, Need, Slot,
};
use crate::definition::TableId;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A raised barrier over tables, which is lowered on drop.
pub(crate) struct ServerBarrier {
    // Fields are dropped in this order: the barrier belongs to the session.
    _barrier: MetadataBarrier,
    session: MetadataLockSession,
    tables: Exclusions,
}

impl MetadataLocks {
    /// Raises a barrier over `tables` without waiting.
    pub(crate) fn raise_for_server(self: &Arc<Self>, tables: &[TableId]) -> ServerBarrier {
        let session = self.session();
        let owner = session.owner();
        let exclusions = || -> Exclusions {
            let tables = tables.iter();
            tables.map(|table| (*table, Exclusion::Everyone)).collect()
        };
        let tables = exclusions();
        self.shared.lock().barriers.push(Barrier { owner, tables });
        self.standing.fetch_add(1, Ordering::SeqCst);
        ServerBarrier {
            _barrier: MetadataBarrier {
                metadata_locks: self.clone(),
                owner,
            },
            session,
            tables: exclusions(),
        }
    }
}

impl ServerBarrier {
    /// Whether no session uses one of the tables or has locked it (LOCK TABLES).
    pub(crate) fn is_drained(&self) -> bool {
        let needs = [
            Need::Unused(self.tables.clone()),
            Need::RaiseBarrier(self.tables.clone()),
        ];
        needs.iter().all(|need| self.session.is_free(need))
    }
}

/// The sessions that used some tables at a time, as long as they go on using them.
pub(crate) struct TableUsers {
    tables: Vec<TableId>,
    /// Epoch of the call: sessions that began to use the tables in it or later are not waited for.
    epoch: u64,
    slots: Mutex<Vec<Arc<Slot>>>,
}

impl MetadataLocks {
    /// The sessions that use one of the tables now.
    pub(crate) fn users_of(&self, tables: &[TableId]) -> TableUsers {
        let epoch = self.next_epoch();
        let shared = self.shared.lock();
        let uses = |slot: &&Arc<Slot>| tables.iter().any(|t| slot.is_older_user(*t, epoch));
        let users = shared.slots.iter().filter(uses);
        TableUsers {
            epoch,
            slots: Mutex::new(users.cloned().collect()),
            tables: tables.to_vec(),
        }
    }
}

impl TableUsers {
    /// Whether each of them has released the tables since.
    pub(crate) fn are_gone(&self) -> bool {
        let mut slots = self.slots.lock();
        let is_user = |slot: &Slot| {
            let mut tables = self.tables.iter();
            tables.any(|table| slot.is_older_user(*table, self.epoch))
        };
        slots.retain(|slot| is_user(slot));
        slots.is_empty()
    }
}

impl MetadataLockSession {
    /// Whether the session itself keeps others away from one of the tables (LOCK TABLES).
    pub(crate) fn has_locked(&self, tables: &[TableId]) -> bool {
        let shared = self.metadata_locks.shared.lock();
        let mut own = shared.barriers.iter().filter(|b| b.owner == self.owner());
        own.any(|b| b.tables.iter().any(|(table, _)| tables.contains(table)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Access, MetadataLockError};
    use super::*;
    use porpoise_base::cancel::Cancel;
    use std::time::{Duration, Instant};

    #[test]
    fn a_barrier_of_another_server_is_drained_when_its_tables_have_no_user_and_no_lock() {
        let locks = MetadataLocks::new();
        let user = locks.session();
        let soon = || Instant::now() + Duration::from_millis(30);
        let table = TableId(1);
        let write = [(table, Access::Write)];
        user.share(&write, soon(), &Cancel::new()).unwrap();
        let barrier = locks.raise_for_server(&[table]);
        assert!(!barrier.is_drained());
        let other = locks.session();
        let refused = other.share(&write, soon(), &Cancel::new());
        assert_eq!(refused, Err(MetadataLockError::Timeout));
        user.release();
        assert!(barrier.is_drained());
        drop(barrier);
        let locked = [(table, Exclusion::Writers)];
        let lock = other.exclude(&locked, soon(), &Cancel::new()).unwrap();
        assert!(other.has_locked(&[table]) && !user.has_locked(&[table]));
        let barrier = locks.raise_for_server(&[table]);
        assert!(!barrier.is_drained());
        drop(lock);
        assert!(barrier.is_drained());
        drop(barrier);
        user.share(&write, soon(), &Cancel::new()).unwrap();
    }

    #[test]
    fn users_of_a_table_are_gone_once_each_has_released_it() {
        let locks = MetadataLocks::new();
        let (one, two, later) = (locks.session(), locks.session(), locks.session());
        let soon = || Instant::now() + Duration::from_millis(30);
        let read = [(TableId(1), Access::Read)];
        for session in [&one, &two] {
            session.share(&read, soon(), &Cancel::new()).unwrap();
        }
        let users = locks.users_of(&[TableId(1), TableId(2)]);
        later.share(&read, soon(), &Cancel::new()).unwrap();
        one.release();
        assert!(!users.are_gone());
        one.share(&read, soon(), &Cancel::new()).unwrap();
        drop(two);
        assert!(users.are_gone());
    }
}
