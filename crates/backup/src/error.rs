//! Errors of repositories.

/// An error of a repository.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The directory or the bucket cannot be read or written.
    #[error("{0}")]
    Io(String),
    /// An object is missing, or its content is wrong.
    #[error("{object}: {problem}")]
    Damaged {
        /// Name of the object, with the repository's location.
        object: String,
        /// Description of the damage.
        problem: String,
    },
    /// The repository cannot be used like this.
    #[error("{0}")]
    Refused(String),
    /// The work was cancelled.
    #[error("cancelled")]
    Cancelled,
}

/// Result of work on a repository.
pub type Result<T> = std::result::Result<T, Error>;
