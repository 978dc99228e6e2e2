//! `SELECT /*+ MAX_EXECUTION_TIME(1000) */ ...` (manual, "Statement Execution
//! Time Optimizer Hints").
//!
//! The time limit is no part of a plan: it is parsed from the text at each execution. The planner
//! reads the other hints (`porpoise_sql_plan::bind::optimizer_hints`).

use porpoise_sql_exec::exec::profile::Profile;
use std::time::Duration;

/// State of the current statement, besides its plan.
#[derive(Debug, Default)]
pub(super) struct CurrentStatement {
    /// Counters for EXPLAIN ANALYZE.
    pub(super) profile: Option<Profile>,
    /// Time limit from the statement's hint, which overrides `max_execution_time`.
    pub(super) hinted_limit: Option<Duration>,
}

/// The time limit in the hint of a SELECT; `None` without a hint. Zero means no limit.
pub(super) fn execution_limit(text: &[u8]) -> Option<Duration> {
    let text = text.trim_ascii_start();
    let (word, rest) = text.split_at_checked(6)?;
    if !word.eq_ignore_ascii_case(b"SELECT") {
        return None;
    }
    let hints = rest.trim_ascii_start().strip_prefix(b"/*+")?;
    let end = memchr::memmem::find(hints, b"*/")?;
    let hints = hints.get(..end)?.to_ascii_uppercase();
    let name = b"MAX_EXECUTION_TIME";
    let at = memchr::memmem::find(&hints, name)?;
    let argument = hints.get(at + name.len()..)?.trim_ascii_start();
    let argument = argument.strip_prefix(b"(")?;
    let close = argument.iter().position(|b| *b == b')')?;
    let digits = argument.get(..close)?.trim_ascii();
    let millis: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (millis > 0).then(|| Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_stands_behind_select() {
        let millis = |text: &str| execution_limit(text.as_bytes()).map(|d| d.as_millis());
        assert_eq!(
            millis("SELECT /*+ MAX_EXECUTION_TIME(1000) */ 1"),
            Some(1000)
        );
        assert_eq!(
            millis(" select/*+ BKA(t) max_execution_time ( 5 )*/ 1"),
            Some(5)
        );
        assert_eq!(millis("SELECT 1 /*+ MAX_EXECUTION_TIME(1000) */"), None);
        assert_eq!(millis("SELECT /* MAX_EXECUTION_TIME(1000) */ 1"), None);
        assert_eq!(millis("SELECT /*+ MAX_EXECUTION_TIME(x) */ 1"), None);
        assert_eq!(millis("SELECT /*+ MAX_EXECUTION_TIME(0) */ 1"), None);
        assert_eq!(millis("UPDATE /*+ MAX_EXECUTION_TIME(9) */ t"), None);
    }
}
