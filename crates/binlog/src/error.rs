//! Errors of the change log.

use std::io;
use std::path::Path;

/// The result of a function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the change log.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read or written.
    #[error("{0}")]
    Io(String),
    /// A file has contents that it cannot have.
    #[error("{0}")]
    Corrupt(String),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] porpoise_kv::Error),
    /// The log has been stopped: by a shutdown, or by the error in the text.
    #[error("the binary log is closed: {0}")]
    Closed(String),
    /// No file has this name.
    #[error("Could not find target log")]
    NoSuchFile(String),
    /// The requested events cannot be sent to the replica: MySQL's error 1236.
    #[error("{0}")]
    Refused(String),
}

impl Error {
    /// Error of an operation on a file.
    pub(crate) fn io(path: &Path, error: &io::Error) -> Error {
        Error::Io(format!("{}: {error}", path.display()))
    }
}
