//! Who waits for whose locks, for people.

use crate::{LockMode, SpaceId};
use std::time::Instant;

/// A transaction that waits for a lock. Transactions are numbered as
/// [`porpoise_base::cancel::Cancel::txn`] has them.
#[derive(Clone, Debug)]
pub struct LockWait {
    /// Who waits.
    pub txn: u64,
    /// Who holds the lock, or waits for it ahead.
    pub blocker: u64,
    /// The space of the key.
    pub space: SpaceId,
    /// The key.
    pub key: Vec<u8>,
    /// The lock asked for.
    pub mode: LockMode,
    /// Since when, by the engine's clock.
    pub since: Instant,
}

/// Hears of deadlocks. Called by the transaction that is to be ended, before it
/// lets go of anything; must not wait, nor call the engine.
pub trait DeadlockListener: Send + Sync {
    /// The waits that form a circle: each one's blocker is the next one's
    /// transaction, the last one's is the first. The first is ended.
    fn deadlock(&self, circle: &[LockWait]);
}
