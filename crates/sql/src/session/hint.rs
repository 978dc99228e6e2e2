//! `SELECT /*+ MAX_EXECUTION_TIME(1000) SET_VAR(sql_mode = '') */ ...` (manual, "Statement
//! Execution Time Optimizer Hints" and "Variable-Setting Hint Syntax").
//!
//! These two hints are not part of a plan: they are parsed from the text at each execution. The
//! planner reads all other hints (`porpoise_sql_plan::bind::optimizer_hints`).
//!
//! Invariant: when a statement ends, successfully or not, each variable of its SET_VAR hints has its
//! earlier value again.

use super::SqlSession;
use crate::vars::{self, Values, check};
use porpoise_sql_exec::exec::profile::Profile;
use porpoise_sql_expr::error::Result;
use porpoise_sql_plan::bind::optimizer_hints::of_block;
use std::time::Duration;

/// State of the current statement, besides its plan.
#[derive(Debug, Default)]
pub(super) struct CurrentStatement {
    /// Counters for EXPLAIN ANALYZE.
    pub(super) profile: Option<Profile>,
    /// Time limit from the statement's hint, which overrides `max_execution_time`.
    pub(super) hinted_limit: Option<Duration>,
}

/// Length of the verbs that hints follow: SELECT, INSERT, UPDATE and DELETE.
const VERB_LEN: usize = 6;

/// The statement without leading space, if a hint comment follows its verb; `None` without hints.
#[inline]
pub(super) fn hinted(text: &[u8]) -> Option<&[u8]> {
    let text = text.trim_ascii_start();
    let after_verb = text.get(VERB_LEN..)?.trim_ascii_start();
    after_verb.starts_with(b"/*+").then_some(text)
}

/// The time limit in the hint of a SELECT; `None` without one, or if it is zero.
pub(super) fn execution_limit(hinted: &[u8]) -> Option<Duration> {
    let (verb, rest) = hinted.split_at_checked(VERB_LEN)?;
    if !verb.eq_ignore_ascii_case(b"SELECT") {
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

/// Variables that SET_VAR may set (manual, "Server System Variables", "SET_VAR Hint Applies").
const HINTABLE: &[&str] = &[
    "auto_increment_increment",
    "auto_increment_offset",
    "bulk_insert_buffer_size",
    "cte_max_recursion_depth",
    "div_precision_increment",
    "eq_range_index_dive_limit",
    "foreign_key_checks",
    "group_concat_max_len",
    "insert_id",
    "join_buffer_size",
    "lock_wait_timeout",
    "max_error_count",
    "max_execution_time",
    "max_heap_table_size",
    "max_join_size",
    "max_length_for_sort_data",
    "max_sort_length",
    "optimizer_prune_level",
    "optimizer_search_depth",
    "optimizer_switch",
    "range_optimizer_max_mem_size",
    "read_buffer_size",
    "read_rnd_buffer_size",
    "sort_buffer_size",
    "sql_auto_is_null",
    "sql_big_selects",
    "sql_buffer_result",
    "sql_mode",
    "sql_safe_updates",
    "sql_select_limit",
    "time_zone",
    "tmp_table_size",
    "unique_checks",
    "windowing_use_high_precision",
];

/// The assignments of the SET_VAR hints of a statement: names, and values as written.
fn assignments(hinted: &[u8]) -> Vec<(String, String)> {
    let text = std::str::from_utf8(hinted).ok();
    let hints = text.map(|text| of_block(text, 0).list).unwrap_or_default();
    let set = hints.into_iter().filter(|hint| hint.name == "SET_VAR");
    set.filter_map(|hint| {
        let (name, value) = hint.argument.split_once('=')?;
        let (name, value) = (name.trim().trim_matches('`'), value.trim());
        Some((name.to_ascii_lowercase(), unquoted(value).to_owned()))
    })
    .collect()
}

fn unquoted(value: &str) -> &str {
    let inside = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    inside('\'').or_else(|| inside('"')).unwrap_or(value)
}

impl SqlSession {
    /// Sets the variables of SET_VAR hints. Returns the values before, if there are such hints.
    pub(super) fn set_hinted_variables(&mut self, hinted: &[u8]) -> Option<Values> {
        let assignments = assignments(hinted);
        if assignments.is_empty() {
            return None;
        }
        let before = self.cx.values.clone();
        for (name, value) in assignments {
            let Ok((at, variable)) = vars::entry(&name) else {
                let text = format!("Unresolved name '{name}' for SET_VAR hint");
                self.cx.warn(3128, text);
                continue;
            };
            if !HINTABLE.contains(&variable.name) || !variable.scope.session() {
                let text = format!("Variable '{name}' cannot be set using SET_VAR hint.");
                self.cx.warn(3637, text);
                continue;
            }
            match check::from_text(variable, &value) {
                Ok(value) => self.cx.values.set(at, value),
                Err(error) => self.cx.warn(error.code, error.message),
            }
        }
        if let Err(error) = self.apply_settings() {
            self.cx.warn(error.code, error.message);
        }
        Some(before)
    }

    /// Restores the values that [`Self::set_hinted_variables`] returned.
    ///
    /// # Errors
    /// Errors of computing settings, which the same values did not cause before.
    pub(super) fn restore_variables(&mut self, before: Option<Values>) -> Result<()> {
        match before {
            Some(values) => {
                self.cx.values = values;
                self.apply_settings()
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_follows_select() {
        let limit = |text: &str| hinted(text.as_bytes()).and_then(execution_limit);
        let millis = |text: &str| limit(text).map(|d| d.as_millis());
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
