//! Statistics of statements by digest, and the slow query log.
//!
//! A digest is the text of a statement without its values ([`porpoise_sql_parser::digest::text`]),
//! with the default database (manual, "Performance Schema Statement Digests and Sampling"). At its
//! end a statement adds what it took to the counters of its digest ([`digests`]); one that took
//! longer than `long_query_time` is also written to the slow query log ([`slow_log`]).
//! [`crate::performance_schema`] shows both as tables.
//!
//! Statements of a stored program count as part of the statement that called it, unlike in MySQL,
//! which shows them by their own digests, too.
//!
//! A statement's time ends when its reply is ready. A reply that waits for a sync of the log is
//! sent later; the metrics `porpoise_engine_log_sync_micros_total` and `..._log_syncs_total` tell how
//! long a sync takes.

pub(crate) mod digests;
pub(crate) mod slow_log;

use crate::processes::Process;
use digests::DigestId;
use std::time::{Duration, Instant};

/// What one execution of a statement took.
pub(crate) struct Execution<'a> {
    /// Its digest.
    pub(crate) digest: DigestId,
    /// The session, with the statement's text.
    pub(crate) process: &'a Process,
    /// Its end.
    pub(crate) ended: Instant,
    /// Time from the start to the end.
    pub(crate) elapsed: Duration,
    /// Part of the time for which it waited for locks.
    pub(crate) lock_wait: Duration,
    /// The error number, or 0.
    pub(crate) error: u16,
    /// Number of conditions that SHOW WARNINGS lists.
    pub(crate) warnings: u64,
    /// Rows changed.
    pub(crate) rows_affected: u64,
    /// Rows sent to the client.
    pub(crate) rows_sent: u64,
    /// Rows read.
    pub(crate) rows_examined: u64,
    /// Whether it read a whole table.
    pub(crate) scanned_table: bool,
}
