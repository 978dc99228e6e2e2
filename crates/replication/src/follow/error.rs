//! Failures to apply a transaction of a source, with the position in its log.

use crate::apply::ApplyError;
use crate::position::{AnyGtid, Coordinates};

/// Failure to apply a transaction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FollowError {
    /// MySQL's error number.
    pub number: u16,
    /// Event, object and cause.
    pub message: String,
    /// Whether the transaction is to be tried again.
    pub is_transient: bool,
}

/// Result of following.
pub(super) type Followed<T> = Result<T, FollowError>;

/// Cause of a failure, without the position.
#[derive(Debug)]
pub(super) enum Failure {
    /// The operation, and its error.
    Apply(String, Box<ApplyError>),
    /// The refused operation, and the reason.
    Refused(String, String),
}

impl Failure {
    pub(super) fn apply(what: &str, error: impl Into<ApplyError>) -> Failure {
        Failure::Apply(what.to_owned(), Box::new(error.into()))
    }

    pub(super) fn refused(what: &str, why: &str) -> Failure {
        Failure::Refused(what.to_owned(), why.to_owned())
    }

    /// The error of an event that ends at a position.
    pub(super) fn at(&self, read: &Coordinates, gtid: Option<AnyGtid>) -> FollowError {
        let place = place(read, gtid);
        match self {
            Failure::Apply(what, error) => FollowError {
                number: error.number(),
                message: format!("Could not execute {what}: {error}{place}"),
                is_transient: error.is_transient(),
            },
            Failure::Refused(what, why) => FollowError {
                number: 1593,
                message: format!("Could not execute {what}: {why}{place}"),
                is_transient: false,
            },
        }
    }
}

/// The position at which an event ends, for messages.
pub(super) fn place(read: &Coordinates, gtid: Option<AnyGtid>) -> String {
    let gtid = gtid.map_or(String::new(), |gtid| format!(", GTID {gtid}"));
    format!("; the event ends at {}:{}{gtid}", read.file, read.position)
}
