//! Errors of clients, one variant for each origin.

use crate::local_file::FileError;
use porpoise_wire::mysql::client::result::ServerError;
use std::io;

/// Result of a client's operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Error of a client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No connection could be made.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// Address that was tried.
        address: String,
        /// Error of the system.
        source: io::Error,
    },
    /// The connection failed, or the server closed it.
    #[error("connection lost: {0}")]
    Lost(#[from] io::Error),
    /// The server refused a login or a statement.
    #[error("ERROR {} ({}): {}", .0.code, sqlstate(.0), .0.message)]
    Server(ServerError),
    /// A file for LOAD DATA LOCAL cannot be read.
    #[error("{0}")]
    File(FileError),
    /// TLS is required and cannot be used, or its configuration is wrong.
    #[error("TLS: {0}")]
    Tls(String),
    /// The server sent what this client cannot read.
    #[error("protocol: {0}")]
    Protocol(&'static str),
}

/// SQLSTATE of a server's error as text.
fn sqlstate(error: &ServerError) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(&error.sqlstate)
}

impl Error {
    /// Whether a wait has ended before anything arrived.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Error::Lost(error)
            if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut))
    }

    /// Whether the connection can be used no longer.
    pub fn is_fatal(&self) -> bool {
        match self {
            Error::Server(_) => false,
            Error::File(error) => error.is_partial,
            _ => true,
        }
    }
}
