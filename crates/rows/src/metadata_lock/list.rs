//! The list of current metadata locks, for `performance_schema.metadata_locks`.

use super::{Access, Exclusion, MetadataLocks, Need};
use crate::definition::TableId;

/// A metadata lock that is held or waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataLock {
    /// A session uses a table.
    Shared {
        /// [`super::MetadataLockSession::owner`].
        owner: usize,
        /// The table.
        table: TableId,
        /// The use.
        access: Access,
        /// Whether the session waits for it.
        is_pending: bool,
    },
    /// A session excludes others from a table.
    Barrier {
        /// [`super::MetadataLockSession::owner`].
        owner: usize,
        /// The table.
        table: TableId,
        /// The uses that are excluded.
        exclusion: Exclusion,
        /// Whether the session waits for it.
        is_pending: bool,
    },
}

impl MetadataLock {
    /// The session.
    pub fn owner(&self) -> usize {
        match self {
            MetadataLock::Shared { owner, .. } | MetadataLock::Barrier { owner, .. } => *owner,
        }
    }

    /// The table.
    pub fn table(&self) -> TableId {
        match self {
            MetadataLock::Shared { table, .. } | MetadataLock::Barrier { table, .. } => *table,
        }
    }

    /// Whether the session waits for the lock.
    pub fn is_pending(&self) -> bool {
        match self {
            MetadataLock::Shared { is_pending, .. } | MetadataLock::Barrier { is_pending, .. } => {
                *is_pending
            }
        }
    }
}

impl MetadataLocks {
    /// All locks that are held or waited for.
    pub fn list(&self) -> Vec<MetadataLock> {
        let shared = self.shared.lock();
        let mut list = Vec::new();
        for slot in &shared.slots {
            let owner = slot.owner();
            let held = slot.tables.lock();
            list.extend(
                held.uses
                    .iter()
                    .map(|(table, access)| MetadataLock::Shared {
                        owner,
                        table: *table,
                        access: *access,
                        is_pending: false,
                    }),
            );
        }
        let barrier = |owner: usize, is_pending: bool| {
            move |(table, exclusion): &(TableId, Exclusion)| MetadataLock::Barrier {
                owner,
                table: *table,
                exclusion: *exclusion,
                is_pending,
            }
        };
        for raised in &shared.barriers {
            // A barrier whose owner still waits for others to leave is not granted.
            let owner = raised.owner;
            let waits = |waiter: &super::Waiter| {
                waiter.owner == owner && matches!(waiter.need, Need::Unused(_))
            };
            let is_pending = shared.waiters.iter().any(waits);
            list.extend(raised.tables.iter().map(barrier(owner, is_pending)));
        }
        for waiter in &shared.waiters {
            let owner = waiter.owner;
            match &waiter.need {
                Need::Share(uses) => {
                    list.extend(uses.iter().map(|(table, access)| MetadataLock::Shared {
                        owner,
                        table: *table,
                        access: *access,
                        is_pending: true,
                    }));
                }
                Need::RaiseBarrier(tables) => list.extend(tables.iter().map(barrier(owner, true))),
                Need::Unused(_) | Need::NoOlderUser(..) | Need::Begin(_) | Need::Quiet(_) => {}
            }
        }
        list
    }
}
