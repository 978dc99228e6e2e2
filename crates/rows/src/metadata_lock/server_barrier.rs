//! Barriers that a statement of another server of the cluster asks for.
//!
//! Such a barrier is raised at once, whoever uses its tables, and keeps new users away; the other server
//! waits until [`ServerBarrier::is_drained`]. No session of this server owns it.

use super::{Barrier, Exclusion, Exclusions, MetadataBarrier, MetadataLockSession, MetadataLocks, Need};
use crate::definition::TableId;
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
}
