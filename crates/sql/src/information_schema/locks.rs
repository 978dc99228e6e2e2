//! Columns of DEADLOCKS and LOCK_WAITS, which are our own: who waited for whom.
//! Rows are made in [`crate::deadlocks`]. As InnoDB's tables of locks they show what others
//! do, and need PROCESS.

use super::T;

/// Who waits, and with which statement.
const WAITING: &[(&str, T)] = &[
    ("THREAD", T::BigUnsigned),
    ("USER", T::Text(32)),
    ("HOST", T::Text(261)),
    ("DB", T::Text(64)),
    ("QUERY", T::Long),
];

/// For which lock, how long, and whose it is.
const LOCK: &[(&str, T)] = &[
    ("LOCK_SCHEMA", T::Name),
    ("LOCK_TABLE", T::Name),
    ("LOCK_INDEX", T::Text(64)),
    ("LOCK_PARTITION", T::Text(64)),
    ("LOCK_KEY", T::Text(1024)),
    ("LOCK_MODE", T::Text(16)),
    ("WAITED_MICROSECONDS", T::BigUnsigned),
    ("BLOCKING_TRX_ID", T::BigUnsigned),
    ("BLOCKING_THREAD", T::BigUnsigned),
];

/// A line for each wait of each of the last deadlocks.
pub(super) const DEADLOCKS: &[&[(&str, T)]] = &[
    &[
        ("DEADLOCK", T::BigUnsigned),
        ("TIME", T::Moment),
        ("VICTIM", T::Text(3)),
        ("TRX_ID", T::BigUnsigned),
    ],
    WAITING,
    LOCK,
];

/// A line for each transaction that waits, and each that it waits for.
pub(super) const LOCK_WAITS: &[&[(&str, T)]] = &[
    &[("TRX_ID", T::BigUnsigned)],
    WAITING,
    LOCK,
    &[
        ("BLOCKING_USER", T::Text(32)),
        ("BLOCKING_HOST", T::Text(261)),
        ("BLOCKING_DB", T::Text(64)),
        ("BLOCKING_QUERY", T::Long),
    ],
];
