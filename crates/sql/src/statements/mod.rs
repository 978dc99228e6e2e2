//! Statistics of statements by digest, the last statements of sessions, and the slow query log.
//!
//! A digest is the text of a statement without its values ([`porpoise_sql_parser::digest::text`]),
//! with the default database (manual, "Performance Schema Statement Digests and Sampling"). At its
//! end a statement is added to the last statements of its session ([`recent`]), which are counted by
//! digest in batches ([`digests`]); one that took longer than `long_query_time` is also written to
//! the slow query log ([`slow_log`]). [`crate::performance_schema`] shows them as tables.
//!
//! Statements of a stored program count as part of the statement that called it, unlike in MySQL,
//! which shows them by their own digests, too.
//!
//! A statement's time ends when its reply is ready. A reply that waits for a sync of the log is
//! sent later; the metric `porpoise_phase_duration_seconds` with the phase `durability_wait` tells how
//! long. [`phases`] divides the time of sampled statements.

pub(crate) mod digests;
pub(crate) mod latency;
pub(crate) mod phases;
pub(crate) mod recent;
pub(crate) mod slow_log;

use digests::DigestId;
use std::time::Instant;

/// Counts and times of one execution of a statement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completed {
    /// Its digest.
    pub(crate) digest: DigestId,
    /// The error number, or 0.
    pub(crate) error: u16,
    /// Number of conditions that SHOW WARNINGS lists.
    pub(crate) warnings: u16,
    /// Whether it read a whole table.
    pub(crate) scanned_table: bool,
    /// Its end.
    pub(crate) ended: Instant,
    /// Time from the start to the end, in nanoseconds.
    pub(crate) nanos: u64,
    /// Part of the time for which it waited for locks, in nanoseconds.
    pub(crate) lock_nanos: u64,
    /// Rows changed.
    pub(crate) rows_affected: u64,
    /// Rows sent to the client.
    pub(crate) rows_sent: u64,
    /// Rows read.
    pub(crate) rows_examined: u64,
}
