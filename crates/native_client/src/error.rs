//! Errors.

use porpoise_wire::native::message::ErrorMessage;
use std::fmt;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the server, with MySQL's number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// MySQL's number.
    pub code: u16,
    /// The SQLSTATE.
    pub sqlstate: String,
    /// The text.
    pub message: String,
    /// Whether the open transaction was rolled back.
    pub ended_transaction: bool,
}

impl From<ErrorMessage<'_>> for ServerError {
    fn from(error: ErrorMessage<'_>) -> ServerError {
        ServerError {
            code: error.code,
            sqlstate: String::from_utf8_lossy(&error.sqlstate).into_owned(),
            message: error.message.to_owned(),
            ended_transaction: false,
        }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.code, self.sqlstate, self.message)
    }
}

/// An error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server refused the request, or failed to execute it.
    #[error("{0}")]
    Server(ServerError),
    /// The connection could not be opened.
    #[error("{0}")]
    Connect(#[from] porpoise_client::Error),
    /// The connection broke. Nothing was changed by the request.
    #[error("the connection broke: {0}")]
    Broken(#[source] std::io::Error),
    /// The connection broke after a write was sent: it may or may not have been executed.
    #[error("the outcome of the request is unknown: {0}")]
    UnknownOutcome(#[source] std::io::Error),
    /// The server sent bytes that are not a message of the protocol.
    #[error("the server does not speak this protocol: {0}")]
    Protocol(&'static str),
    /// The caller named an object that does not exist, or passed values that do not fit.
    #[error("{0}")]
    Usage(String),
}

impl Error {
    /// MySQL's number, if the server reported the error.
    pub fn code(&self) -> Option<u16> {
        match self {
            Error::Server(error) => Some(error.code),
            _ => None,
        }
    }

    /// Whether the connection ended before the request had an effect. If the server ends a connection while a
    /// write is in flight, the outcome is unknown instead.
    pub(crate) fn is_without_effect(&self) -> bool {
        matches!(self, Error::Broken(_)) || matches!(self.code(), Some(1053 | 3169))
    }

    /// Whether a table's definition has changed since it was looked up: look it up again.
    pub fn is_stale(&self) -> bool {
        self.code() == Some(1412)
    }

    /// Whether the same transaction may succeed if it is run again: a conflict or a deadlock.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(1213)
    }
}
