//! Counts and times of commands that are not SQL, as front ends report them: SQL shows them among the
//! statements by digest.

use porpoise_base::histogram::Counts;
use std::time::Instant;

/// Counts and times of all commands of one kind.
#[derive(Clone, Debug)]
pub struct CommandSummary {
    /// Text in place of a statement's digest, such as `get user:*`.
    pub text: String,
    /// The database of the rows.
    pub database: Option<String>,
    /// Number of commands; for reads, of keys.
    pub count: u64,
    /// Number of those that failed.
    pub errors: u64,
    /// Rows read and sent.
    pub rows_read: u64,
    /// Rows changed.
    pub rows_changed: u64,
    /// Total time, in nanoseconds; estimated if only some commands are timed.
    pub nanos: u64,
    /// Minimum of the times, in nanoseconds.
    pub min_nanos: u64,
    /// Maximum of the times, in nanoseconds.
    pub max_nanos: u64,
    /// Distribution of the times.
    pub latencies: Counts,
    /// End of the first and of the last timed command.
    pub seen: Option<(Instant, Instant)>,
}
