//! Numbers and texts of failures.

use porpoise_native_client::Error;
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The connection could not be opened.
pub const PORPOISE_CONNECT: c_int = -1;
/// The connection broke, and the request has had no effect.
pub const PORPOISE_BROKEN: c_int = -2;
/// The connection broke after a write was sent: it may or may not have been executed.
pub const PORPOISE_UNKNOWN_OUTCOME: c_int = -3;
/// The server does not speak this protocol.
pub const PORPOISE_PROTOCOL: c_int = -4;
/// Wrong arguments, or values that do not fit.
pub const PORPOISE_USAGE: c_int = -5;
/// A defect of the library. Objects used by the call must only be freed.
pub const PORPOISE_INTERNAL: c_int = -6;

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// The number of an error: MySQL's if the server reported it.
fn number_of(error: &Error) -> c_int {
    match error {
        Error::Server(error) => c_int::from(error.code),
        Error::Connect(_) => PORPOISE_CONNECT,
        Error::Broken(_) => PORPOISE_BROKEN,
        Error::UnknownOutcome(_) => PORPOISE_UNKNOWN_OUTCOME,
        Error::Protocol(_) => PORPOISE_PROTOCOL,
        Error::Usage(_) => PORPOISE_USAGE,
    }
}

/// The text as a C string; it ends at its first zero byte.
pub(crate) fn c_text(text: &str) -> CString {
    let text = text.split('\0').next().unwrap_or_default();
    CString::new(text).unwrap_or_default()
}

/// Runs a function, and returns 0 or the number of its failure, whose text is kept for the thread.
pub(crate) fn guarded(call: impl FnOnce() -> Result<(), Error>) -> c_int {
    let (number, text) = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => return 0,
        Ok(Err(error)) => (number_of(&error), error.to_string()),
        Err(_) => (
            PORPOISE_INTERNAL,
            "internal error of the client library".to_owned(),
        ),
    };
    MESSAGE.with_borrow_mut(|message| *message = c_text(&text));
    number
}

/// The text of the thread's last failure.
pub(crate) fn message() -> *const c_char {
    MESSAGE.with_borrow(|message| message.as_ptr())
}

/// The error of a wrong argument.
pub(crate) fn usage(text: &str) -> Error {
    Error::Usage(text.to_owned())
}
