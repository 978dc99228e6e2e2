//! Classification of the library's errors.
//!
//! The library nests errors several levels deep, and describes a key error by a set of optional
//! fields. Each error is mapped once to a [`Fault`], and each use maps that to an error of the
//! contract:
//!
//! | fault | reading | locking | committing |
//! |---|---|---|---|
//! | `Deadlock` | unavailable | `Deadlock` | `Deadlock` |
//! | `Gone`: the transaction or its lock no longer exists | unavailable | `Conflict` | `Conflict` |
//! | `Conflict`: newer than the lock's timestamp | unavailable | again, at a new timestamp | `Conflict` |
//! | `Busy`: locked by a live transaction, or by one that is not found | unavailable | again, until the deadline | `UnknownOutcome` |
//! | `TooLarge`: an answer beyond the message limit | again, in smaller batches | unavailable | `UnknownOutcome` |
//! | `Undetermined` | unavailable | unavailable | `UnknownOutcome` |
//! | `Unreachable`: everything else: no region, no leader, no connection, a time-out | unavailable | unavailable | `UnknownOutcome` |
//!
//! The library reports a commit that timed out as a plain gRPC error, so at commit only the store's
//! own errors about keys count as a refusal.

use porpoise_kv::Error;
use tikv_client::{Error as TikvError, ProtoKeyError};

/// gRPC's RESOURCE_EXHAUSTED and OUT_OF_RANGE: a message beyond its limit.
const MESSAGE_TOO_LARGE: [i32; 2] = [8, 11];

/// Kinds of failure, in order of increasing specificity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    Unreachable,
    TooLarge,
    Busy,
    Conflict,
    Gone,
    Undetermined,
    Deadlock,
}

/// A failure of the library.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) fault: Fault,
    /// Start timestamp of a transaction whose lock conflicts and that has no record (an orphaned
    /// lock).
    pub(crate) orphan: Option<u64>,
    text: String,
}

fn key_fault(e: &ProtoKeyError) -> Fault {
    if e.deadlock.is_some() {
        Fault::Deadlock
    } else if e.locked.is_some() || e.txn_not_found.is_some() {
        Fault::Busy
    } else if e.conflict.is_some() {
        Fault::Conflict
    } else if e.already_exist.is_some()
        || e.commit_ts_expired.is_some()
        || e.assertion_failed.is_some()
        || !e.retryable.is_empty()
        || !e.abort.is_empty()
    {
        Fault::Gone
    } else {
        Fault::Unreachable
    }
}

/// Returns the most specific fault of an error, which the library nests a few levels deep.
fn fault_of(e: &TikvError) -> Fault {
    match e {
        TikvError::KeyError(k) => key_fault(k),
        TikvError::PessimisticLockError { inner, .. } => fault_of(inner),
        TikvError::MultipleKeyErrors(all) | TikvError::ExtractedErrors(all) => {
            all.iter().map(fault_of).max().unwrap_or(Fault::Unreachable)
        }
        // `TxnNotFound`: the owner of a conflicting lock does not exist.
        TikvError::ResolveLockError(_) | TikvError::TxnNotFound(_) => Fault::Busy,
        TikvError::UndeterminedError(_) => Fault::Undetermined,
        TikvError::GrpcAPI(status) if MESSAGE_TOO_LARGE.contains(&(status.code() as i32)) => {
            Fault::TooLarge
        }
        _ => Fault::Unreachable,
    }
}

/// Returns the transaction that was not found, if the error reports that.
fn orphan_of(e: &TikvError) -> Option<u64> {
    match e {
        TikvError::KeyError(k) => k.txn_not_found.as_ref().map(|t| t.start_ts),
        TikvError::TxnNotFound(t) => Some(t.start_ts),
        TikvError::PessimisticLockError { inner, .. } => orphan_of(inner),
        TikvError::MultipleKeyErrors(all) | TikvError::ExtractedErrors(all) => {
            all.iter().find_map(orphan_of)
        }
        _ => None,
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}: {}", self.fault, self.text)
    }
}

impl From<TikvError> for Failure {
    fn from(e: TikvError) -> Failure {
        let mut text = e.to_string();
        if text.len() > 300 {
            let cut = (0..=300).rev().find(|&i| text.is_char_boundary(i));
            text.truncate(cut.unwrap_or(0));
            text.push_str(" ...");
        }
        Failure {
            fault: fault_of(&e),
            orphan: orphan_of(&e),
            text,
        }
    }
}

impl Failure {
    /// Creates a failure that is not the library's.
    pub(crate) fn new(fault: Fault, text: impl Into<String>) -> Failure {
        Failure {
            fault,
            orphan: None,
            text: text.into(),
        }
    }

    /// Converts to the error of a read or of connecting.
    pub(crate) fn into_read_error(self) -> Error {
        Error::Unavailable(self.text)
    }

    /// Converts to the error of a lock call that is not retried.
    pub(crate) fn into_lock_error(self) -> Error {
        match self.fault {
            Fault::Deadlock => Error::Deadlock,
            Fault::Busy => Error::LockTimeout,
            Fault::Conflict | Fault::Gone => Error::Conflict,
            Fault::Unreachable | Fault::TooLarge | Fault::Undetermined => {
                Error::Unavailable(self.text)
            }
        }
    }

    /// Whether a commit with this failure has certainly changed nothing.
    pub(crate) fn is_commit_refused(&self) -> bool {
        matches!(self.fault, Fault::Conflict | Fault::Gone | Fault::Deadlock)
    }

    /// Converts to the error of a commit that was sent.
    pub(crate) fn into_commit_error(self) -> Error {
        match self.fault {
            Fault::Deadlock => Error::Deadlock,
            Fault::Conflict | Fault::Gone => Error::Conflict,
            Fault::Busy | Fault::Unreachable | Fault::TooLarge | Fault::Undetermined => {
                Error::UnknownOutcome(self.text)
            }
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        failure.into_read_error()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_error(change: impl FnOnce(&mut ProtoKeyError)) -> TikvError {
        let mut k = ProtoKeyError::default();
        change(&mut k);
        TikvError::KeyError(Box::new(k))
    }

    fn all_three(e: TikvError) -> [String; 3] {
        let f = Failure::from(e);
        [
            f.clone().into_read_error(),
            f.clone().into_lock_error(),
            f.into_commit_error(),
        ]
        .map(|e| {
            let name = format!("{e:?}");
            name.split(['(', ' ']).next().unwrap_or_default().to_owned()
        })
    }

    #[test]
    fn faults_become_the_errors_of_the_table() {
        let deadlock = || key_error(|k| k.deadlock = Some(Default::default()));
        let conflict = || key_error(|k| k.conflict = Some(Default::default()));
        let locked = || key_error(|k| k.locked = Some(Default::default()));
        let away = || TikvError::StringError("connection refused".into());
        let lock = |inner: TikvError| TikvError::PessimisticLockError {
            inner: Box::new(inner),
            success_keys: Vec::new(),
        };
        let cases = [
            (deadlock(), ["Unavailable", "Deadlock", "Deadlock"]),
            (lock(deadlock()), ["Unavailable", "Deadlock", "Deadlock"]),
            (conflict(), ["Unavailable", "Conflict", "Conflict"]),
            (
                TikvError::MultipleKeyErrors(vec![away(), conflict()]),
                ["Unavailable", "Conflict", "Conflict"],
            ),
            (
                TikvError::ExtractedErrors(vec![lock(conflict()), lock(deadlock())]),
                ["Unavailable", "Deadlock", "Deadlock"],
            ),
            (locked(), ["Unavailable", "LockTimeout", "UnknownOutcome"]),
            (
                TikvError::ResolveLockError(Vec::new()),
                ["Unavailable", "LockTimeout", "UnknownOutcome"],
            ),
            (
                key_error(|k| k.abort = "pessimistic lock not found".into()),
                ["Unavailable", "Conflict", "Conflict"],
            ),
            (
                key_error(|k| k.retryable = "txn not found".into()),
                ["Unavailable", "Conflict", "Conflict"],
            ),
            (
                TikvError::MultipleKeyErrors(vec![key_error(|k| {
                    k.txn_not_found = Some(Default::default());
                })]),
                ["Unavailable", "LockTimeout", "UnknownOutcome"],
            ),
            (
                TikvError::RegionError(Box::default()),
                ["Unavailable", "Unavailable", "UnknownOutcome"],
            ),
            (
                TikvError::UndeterminedError(Box::new(away())),
                ["Unavailable", "Unavailable", "UnknownOutcome"],
            ),
            (away(), ["Unavailable", "Unavailable", "UnknownOutcome"]),
            (
                key_error(|_| ()),
                ["Unavailable", "Unavailable", "UnknownOutcome"],
            ),
        ];
        for (e, expected) in cases {
            let shown = format!("{e:?}");
            assert_eq!(all_three(e), expected, "{shown}");
        }
    }

    #[test]
    fn the_owner_of_an_orphaned_lock_is_found_in_any_wrapping() {
        let mut inner = ProtoKeyError::default();
        inner.txn_not_found.get_or_insert_default().start_ts = 77;
        let inner = TikvError::KeyError(Box::new(inner));
        let wrapped = TikvError::PessimisticLockError {
            inner: Box::new(TikvError::MultipleKeyErrors(vec![inner])),
            success_keys: Vec::new(),
        };
        assert_eq!(Failure::from(wrapped).orphan, Some(77));
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        let f = Failure::from(TikvError::StringError("ü".repeat(400)));
        assert!(f.text.len() < 310);
    }
}
