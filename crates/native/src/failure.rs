//! Failures of requests, and their messages.

use porpoise_base::memory::MemoryRefused;
use porpoise_kv as kv;
use porpoise_rows::Error;
use porpoise_wire::native::Malformed;
use porpoise_wire::native::message::ErrorMessage;

/// Failure of a request.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// An error with MySQL's number.
    Rows(Error),
    /// An operation of an atomic batch failed. The batch's results name it.
    Operation,
    /// An error after frames of the answer were sent. An error frame ends the answer.
    AfterFrames(Error),
    /// The client has disconnected.
    Gone,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Rows(error)
    }
}

impl From<Malformed> for Failure {
    fn from(malformed: Malformed) -> Failure {
        let text = format!("Malformed communication packet: {}", malformed.0);
        Failure::Rows(Error::refused(1835, "HY000", text))
    }
}

impl From<MemoryRefused> for Failure {
    fn from(refused: MemoryRefused) -> Failure {
        Failure::Rows(memory_refused(refused))
    }
}

/// The error of a request for which there is no memory.
pub(crate) fn memory_refused(refused: MemoryRefused) -> Error {
    let text = format!(
        "Connection memory limit {} bytes exceeded. Consumed {} bytes.",
        refused.allowed, refused.wanted
    );
    Error::refused(4082, "HY000", text)
}

/// Whether a request that failed with this error may be run again, if nothing of it was committed
/// or answered.
pub(crate) fn is_retryable(error: &Error) -> bool {
    matches!(
        error,
        Error::SnapshotConflict
            | Error::DefinitionChanged
            | Error::Kv(kv::Error::Conflict | kv::Error::Deadlock | kv::Error::NoSuchSpace(_))
    )
}

/// Appends the message of an error.
pub(crate) fn put_error(out: &mut Vec<u8>, error: &Error) {
    put_message(out, error.code(), error.sqlstate(), &error.to_string());
}

/// Appends a message.
pub(crate) fn put_message(out: &mut Vec<u8>, code: u16, sqlstate: &str, message: &str) {
    let state = sqlstate.as_bytes().first_chunk().copied();
    ErrorMessage {
        code,
        sqlstate: state.unwrap_or(*b"HY000"),
        message,
    }
    .put(out);
}
