//! Errors of experiments, each a message of one line.
//!
//! There are three kinds: a wrong command (exit status 2), an external failure (a refused
//! connection, a peer that crashed), and a wrong reply of a server, which fails the experiment.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Kind of an [`Error`], by who must act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// The command line or a URL cannot be understood.
    Usage,
    /// A system, a server or a connection failed.
    Failed,
    /// A server refused one request; the connection continues.
    Refused,
    /// A server answered, and the answer is wrong.
    Wrong,
}

/// An error of one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Error {
    /// Kind of the error.
    pub kind: Kind,
    /// The line.
    pub message: String,
}

/// Result of fallible functions of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The command was wrong.
    pub fn usage(message: impl Into<String>) -> Error {
        Error::of(Kind::Usage, message)
    }

    /// Something outside failed.
    pub fn failed(message: impl Into<String>) -> Error {
        Error::of(Kind::Failed, message)
    }

    /// A server refused a request.
    pub fn refused(message: impl Into<String>) -> Error {
        Error::of(Kind::Refused, message)
    }

    /// An answer was wrong.
    pub fn wrong(message: impl Into<String>) -> Error {
        Error::of(Kind::Wrong, message)
    }

    fn of(kind: Kind, message: impl Into<String>) -> Error {
        let message: String = message.into();
        // One line, even if a server's message has several.
        let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
        Error { kind, message }
    }

    /// The same error, preceded by the action that failed.
    pub fn during(self, what: impl fmt::Display) -> Error {
        Error {
            kind: self.kind,
            message: format!("{what}: {}", self.message),
        }
    }

    /// Exit status of a program that ends because of this error.
    pub fn exit_status(&self) -> u8 {
        match self.kind {
            Kind::Usage => 2,
            _ => 1,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        use std::io::ErrorKind as K;
        let text = match error.kind() {
            K::WouldBlock | K::TimedOut => "no answer in time".to_owned(),
            K::UnexpectedEof => "the server closed the connection".to_owned(),
            _ => error.to_string(),
        };
        Error::failed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_several_lines_becomes_one() {
        let error = Error::refused("line 1\n  line 2\r\n").during("loading");
        assert_eq!(error.to_string(), "loading: line 1 line 2");
        assert_eq!(error.exit_status(), 1);
        assert_eq!(Error::usage("x").exit_status(), 2);
    }
}
