//! Results of single operations that were combined into a batch.

use crate::error::{Error, Result, ServerError};
use crate::reply::Outcome;
use porpoise_types::{Value, ValueRef};

/// Result of an operation that was combined with others.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Combined {
    Row { values: Vec<Value> },
    Written { version: u64, generated_id: u64 },
    NotFound,
    ConditionFailed,
}

impl Combined {
    /// The result with this outcome.
    pub(crate) fn of(outcome: Outcome<'_>) -> Result<Combined> {
        Ok(match outcome {
            Outcome::Row { values, .. } => Combined::Row {
                values: values.into_iter().map(ValueRef::to_owned).collect(),
            },
            Outcome::Written {
                version,
                generated_id,
                ..
            } => Combined::Written {
                version,
                generated_id,
            },
            Outcome::NotFound => Combined::NotFound,
            Outcome::ConditionFailed => Combined::ConditionFailed,
            Outcome::Failed(error) => return Err(Error::Server(error)),
            Outcome::Aborted => {
                return Err(Error::Protocol(
                    "an aborted operation in a batch that is not atomic",
                ));
            }
        })
    }

    /// The row that was read.
    pub(crate) fn into_row(self) -> Option<Vec<Value>> {
        match self {
            Combined::Row { values } => Some(values),
            _ => None,
        }
    }

    /// Version and generated id of the row that was written.
    pub(crate) fn written(&self) -> Option<(u64, u64)> {
        match self {
            Combined::Written {
                version,
                generated_id,
            } => Some((*version, *generated_id)),
            _ => None,
        }
    }
}

/// The same error, for each operation of a batch that failed.
pub(crate) fn copy_of(error: &Error) -> Error {
    let io = |error: &std::io::Error| std::io::Error::new(error.kind(), error.to_string());
    match error {
        Error::Server(error) => Error::Server(ServerError::clone(error)),
        Error::Broken(error) => Error::Broken(io(error)),
        Error::UnknownOutcome(error) => Error::UnknownOutcome(io(error)),
        Error::Protocol(what) => Error::Protocol(what),
        Error::Connect(error) => Error::Usage(error.to_string()),
        Error::Usage(text) => Error::Usage(text.clone()),
    }
}
