//! Lock modes, and descriptions of waits for locks.

use crate::SpaceId;
use std::time::Instant;

/// Lock modes, as PostgreSQL's four row locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockMode {
    /// A foreign-key check: blocks deletion of the row and changes of its key.
    KeyShare,
    /// FOR SHARE: blocks every change.
    Share,
    /// A change of the row without its referenced keys.
    Update,
    /// An insertion, a deletion, or a change of a referenced key; FOR UPDATE.
    Exclusive,
}

impl LockMode {
    /// Whether two transactions may hold these modes at the same time.
    pub fn compatible(self, other: LockMode) -> bool {
        use LockMode::{Exclusive, KeyShare, Share, Update};
        match (self, other) {
            (Exclusive, _) | (_, Exclusive) => false,
            (KeyShare, _) | (_, KeyShare) => true,
            (Share, Share) => true,
            (Update, _) | (_, Update) => false,
        }
    }

    /// Whether `self` includes `other`. Share and Update do not include each other; both together
    /// need Exclusive.
    pub fn covers(self, other: LockMode) -> bool {
        use LockMode::{Exclusive, KeyShare};
        self == other || self == Exclusive || other == KeyShare
    }
}

/// A transaction that waits for a lock. Transaction numbers are those of
/// [`porpoise_base::cancel::Cancel::txn`].
#[derive(Clone, Debug)]
pub struct LockWait {
    /// The waiting transaction.
    pub txn: u64,
    /// The transaction that holds the lock, or waits for it ahead.
    pub blocker: u64,
    /// The space of the key.
    pub space: SpaceId,
    /// The key.
    pub key: Vec<u8>,
    /// The requested lock.
    pub mode: LockMode,
    /// Begin of the wait, by the engine's clock.
    pub since: Instant,
}

/// A listener for deadlocks. Called by the victim before it releases any lock; must not wait, nor
/// call the engine.
pub trait DeadlockListener: Send + Sync {
    /// Reports the waits of a cycle: each one's blocker is the next one's transaction, the last
    /// one's is the first. The first transaction is the victim.
    fn deadlock(&self, cycle: &[LockWait]);
}
