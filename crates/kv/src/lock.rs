//! Lock modes, and descriptions of waits for locks.

use crate::SpaceId;
use std::time::Instant;

/// Lock strengths, as PostgreSQL's four row locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockMode {
    /// A foreign-key check: holds off deleting the row or changing its key.
    KeyShare,
    /// FOR SHARE: holds off every change.
    Share,
    /// The row changes, its referenced keys do not.
    Update,
    /// The row appears, goes, or changes a referenced key; FOR UPDATE.
    Exclusive,
}

impl LockMode {
    /// Whether two transactions may hold these at once.
    pub fn compatible(self, other: LockMode) -> bool {
        use LockMode::{Exclusive, KeyShare, Share, Update};
        match (self, other) {
            (Exclusive, _) | (_, Exclusive) => false,
            (KeyShare, _) | (_, KeyShare) => true,
            (Share, Share) => true,
            (Update, _) | (_, Update) => false,
        }
    }

    /// Whether holding `self` makes asking for `other` needless. Share and
    /// Update do not cover each other; both together need Exclusive.
    pub fn covers(self, other: LockMode) -> bool {
        use LockMode::{Exclusive, KeyShare};
        self == other || self == Exclusive || other == KeyShare
    }
}

/// A transaction that waits for a lock. Transactions are numbered as
/// [`porpoise_base::cancel::Cancel::txn`] has them.
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

/// A listener for deadlocks. Called by the transaction that is to be ended, before it
/// lets go of anything; must not wait, nor call the engine.
pub trait DeadlockListener: Send + Sync {
    /// The waits that form a cycle: each one's blocker is the next one's
    /// transaction, the last one's is the first. The first is ended.
    fn deadlock(&self, cycle: &[LockWait]);
}
