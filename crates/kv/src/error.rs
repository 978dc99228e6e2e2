//! Errors of an engine, classified by the action that they call for.

use crate::SpaceId;
use porpoise_base::cancel::Reason;

/// The result of an engine call.
pub type Result<T> = std::result::Result<T, Error>;

/// A resource with a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// The engine's memory limit.
    Memory,
    /// The disk of the log or of the checkpoints.
    Disk,
    /// The limit of one transaction's write set.
    Transaction,
    /// The ids of a counter.
    Ids,
}

impl std::fmt::Display for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Resource::Memory => "the memory limit is reached",
            Resource::Disk => "the disk is full",
            Resource::Transaction => "the transaction writes more than its limit",
            Resource::Ids => "no ids are left",
        })
    }
}

/// An engine's error.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A key is newer than the transaction's snapshot. The transaction is over.
    #[error("write conflict: a row is newer than the snapshot")]
    Conflict,
    /// The transaction was chosen to break a deadlock. The transaction is over.
    #[error("deadlock found when trying to get lock")]
    Deadlock,
    /// A lock was not granted before the deadline. The statement fails; the transaction continues
    /// and keeps its locks.
    #[error("lock wait timeout exceeded")]
    LockTimeout,
    /// A lock was not free, and the caller requested no wait.
    #[error("lock not immediately available")]
    LockBusy,
    /// The wait or the statement was cancelled.
    #[error("cancelled: {0:?}")]
    Cancelled(Reason),
    /// The outcome of the commit is unknown. Never retried.
    #[error("outcome of the commit is unknown: {0}")]
    UnknownOutcome(String),
    /// A limit was reached; nothing was changed. Reads and deletions still work.
    #[error("{0}")]
    Full(Resource),
    /// Writes are refused until an operator acts (a failed sync, a lost lease).
    #[error("the engine accepts no writes: {0}")]
    ReadOnly(String),
    /// A capability that this engine does not have.
    #[error("this engine does not support {0}")]
    Unsupported(&'static str),
    /// A key or value beyond [`crate::Limits`].
    #[error("{what} of {size} bytes exceeds the engine's limit of {limit}")]
    TooLarge {
        /// "key", "value" or "batch".
        what: &'static str,
        /// The actual size in bytes.
        size: usize,
        /// The maximum size in bytes.
        limit: usize,
    },
    /// The snapshot was expired to free memory, or is older than the retained versions.
    #[error("the snapshot is no longer available")]
    SnapshotGone,
    /// The space does not exist (any more).
    #[error("no such space: {0:?}")]
    NoSuchSpace(SpaceId),
    /// The transaction has ended by an earlier error.
    #[error("the transaction has ended")]
    Ended,
    /// Data on disk are damaged. Names file and offset.
    #[error("corrupt data: {0}")]
    Corrupt(String),
    /// The operating system refused a file operation; names the file.
    #[error("{0}")]
    Io(String),
    /// The store cannot be reached.
    #[error("the store is not available: {0}")]
    Unavailable(String),
}

impl Error {
    /// Whether the whole transaction is over, not only the statement.
    pub fn ends_transaction(&self) -> bool {
        match self {
            Error::Conflict
            | Error::Deadlock
            | Error::UnknownOutcome(_)
            | Error::SnapshotGone
            | Error::Ended
            | Error::Corrupt(_) => true,
            Error::Cancelled(reason) => reason.ends_session(),
            _ => false,
        }
    }
}
