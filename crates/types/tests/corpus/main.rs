//! Results of a reference server, recorded in tests/data by scripts/corpus.py.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may fail by panicking"
)]

mod calendar;
mod cast_number;
mod collate;
mod comparison;
mod decimal;
mod double_text;
mod full_text;
mod messages;
mod store;
mod temporal;
mod types;

use porpoise_types::{CastCx, DateTime, SqlMode, TimeZone, Warning};

/// Rows of a data file, without its header.
fn rows(text: &str, columns: usize) -> Vec<Vec<&str>> {
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter(|l| !l.starts_with("# "))
        .map(|l| l.split('\t').collect())
        .collect();
    assert!(rows.len() > 100);
    for row in &rows {
        assert_eq!(row.len(), columns, "{row:?}");
    }
    rows
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap())
        .collect()
}

/// The moment at which the corpus was recorded.
fn now() -> DateTime {
    DateTime::from_parts(2024, 2, 29, 12, 0, 0, 0).unwrap()
}

/// Calls `f` with a context of this mode; gives its result and the warnings.
fn with_cx<T>(mode: SqlMode, f: impl FnOnce(&mut CastCx<'_>) -> T) -> (T, Vec<Warning>) {
    let mut warnings = Vec::new();
    let mut push = |w: Warning| warnings.push(w);
    let mut cx = CastCx {
        mode,
        strict: mode.is_strict(),
        warnings: &mut push,
        tz: &TimeZone::UTC,
        now: now(),
    };
    let result = f(&mut cx);
    (result, warnings)
}

/// Fails with all differences at once.
fn assert_none(differences: Vec<String>) {
    assert!(
        differences.is_empty(),
        "{} differences:\n{}",
        differences.len(),
        differences.join("\n")
    );
}
