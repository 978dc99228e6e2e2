//! Epochs: fencing numbers that decide which of two servers is the source.
//!
//! A server that takes over begins a new epoch, one more than the greatest that it knows of. Servers keep the greatest epoch
//! that they know of on disk, and exchange it when they connect: a replica announces its own and reads its source's.
//!
//! ```text
//! A (epoch 1) --- lost                       back: learns of epoch 2, refuses writes
//! B (epoch 1) --------- promoted: epoch 2 ---- tells A
//! ```
//!
//! Invariants:
//! 1. A replica neither follows nor acknowledges a source whose epoch is smaller than its own. Commits of a former source
//!    that wait for acknowledgements are therefore never acknowledged.
//! 2. A server that learns of a greater epoch than its own refuses the writes of clients, also after a restart, until it is
//!    promoted itself or an operator permits them.
//! 3. An epoch is on disk before the server acts on it.

/// Store of the greatest epoch that a server knows of.
pub trait EpochKeeper: Send + Sync {
    /// The greatest epoch known.
    fn epoch(&self) -> u64;

    /// Records an epoch of another server. If it is greater, the writes of clients are refused from now on.
    ///
    /// # Errors
    /// It cannot be recorded on disk.
    fn meet(&self, epoch: u64) -> std::io::Result<()>;
}

/// Name of the system variable, and of the user variable in which a replica announces its epoch.
pub const EPOCH_VARIABLE: &str = "replication_epoch";

/// Name of the user variable in which a member of a group announces the number of its data.
pub const INCARNATION_VARIABLE: &str = "replication_incarnation";

/// Greatest epoch.
pub const MAX_EPOCH: u64 = 1 << 53;
