//! Errors of the client, classified by what a caller may conclude.

use porpoise_base::cancel::Reason;

/// The result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// Error of a call.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A key has a version above the transaction's timestamp. Nothing was changed.
    #[error("write conflict: {0}")]
    Conflict(String),
    /// The wait for a lock would close a cycle. The locks of this call were given back.
    #[error("deadlock")]
    Deadlock,
    /// Another transaction holds a lock, and the call does not wait, or not any longer. The locks of this
    /// call were given back.
    #[error("a key is locked by another transaction")]
    Locked,
    /// Another transaction rolled this one back, or its locks are gone. Nothing was changed.
    #[error("the transaction was rolled back: {0}")]
    Aborted(String),
    /// The deadline passed.
    #[error("the deadline passed: {0}")]
    Deadline(String),
    /// The caller was cancelled.
    #[error("cancelled")]
    Cancelled(Reason),
    /// The cluster could not be reached, or no region served the request, until the time limit. Nothing was
    /// changed.
    #[error("{0}")]
    Unavailable(String),
    /// A store refuses the request whatever the caller does. Nothing was changed.
    #[error("{0}")]
    Refused(String),
    /// The commit was sent, and neither its success nor its failure could be established. Never retried.
    #[error("{0}")]
    Unknown(String),
}
