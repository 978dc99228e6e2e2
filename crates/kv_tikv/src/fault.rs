//! The meaning of the client's errors, by what was asked.
//!
//! | error of the client | reading | locking | committing |
//! |---|---|---|---|
//! | `Conflict`, `Aborted` | unavailable | `Conflict` | `Conflict` |
//! | `Deadlock` | unavailable | `Deadlock` | `Deadlock` |
//! | `Locked` | unavailable | `LockTimeout`, without a wait `LockBusy` | `LockTimeout` |
//! | `Deadline` | unavailable | `LockTimeout` | `LockTimeout` |
//! | `Unavailable`, `Refused` | unavailable | unavailable | unavailable |
//! | `Unknown` | - | - | `UnknownOutcome` |
//! | `Cancelled` | `Cancelled` | `Cancelled` | `Cancelled` |

use porpoise_kv::Error;
use porpoise_tikv_client::Error as ClientError;

/// The error of a read, or of connecting.
pub(crate) fn read_error(e: ClientError) -> Error {
    match e {
        ClientError::Cancelled(reason) => Error::Cancelled(reason),
        other => Error::Unavailable(other.to_string()),
    }
}

/// The error of a lock call that may wait.
pub(crate) fn lock_error(e: ClientError) -> Error {
    match e {
        ClientError::Conflict(_) | ClientError::Aborted(_) => Error::Conflict,
        ClientError::Deadlock => Error::Deadlock,
        ClientError::Locked | ClientError::Deadline(_) => Error::LockTimeout,
        other => read_error(other),
    }
}

/// The error of a commit.
pub(crate) fn commit_error(e: ClientError) -> Error {
    match e {
        ClientError::Unknown(why) => Error::UnknownOutcome(why),
        other => lock_error(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use porpoise_base::cancel::Reason;

    #[test]
    fn errors_are_those_of_the_table() {
        let text = String::new;
        let cases: [(ClientError, [&str; 3]); 9] = [
            (
                ClientError::Conflict(text()),
                ["Unavailable", "Conflict", "Conflict"],
            ),
            (
                ClientError::Aborted(text()),
                ["Unavailable", "Conflict", "Conflict"],
            ),
            (
                ClientError::Deadlock,
                ["Unavailable", "Deadlock", "Deadlock"],
            ),
            (
                ClientError::Locked,
                ["Unavailable", "LockTimeout", "LockTimeout"],
            ),
            (
                ClientError::Deadline(text()),
                ["Unavailable", "LockTimeout", "LockTimeout"],
            ),
            (ClientError::Unavailable(text()), ["Unavailable"; 3]),
            (ClientError::Refused(text()), ["Unavailable"; 3]),
            (
                ClientError::Unknown(text()),
                ["Unavailable", "Unavailable", "UnknownOutcome"],
            ),
            (ClientError::Cancelled(Reason::Query), ["Cancelled"; 3]),
        ];
        for (e, expected) in cases {
            let shown = format!("{e:?}");
            let all = [
                read_error(e.clone()),
                lock_error(e.clone()),
                commit_error(e),
            ];
            let names = all.map(|e| {
                let name = format!("{e:?}");
                name.split(['(', ' ']).next().unwrap_or_default().to_owned()
            });
            assert_eq!(names, expected, "{shown}");
        }
    }
}
