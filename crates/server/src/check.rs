//! `porpoise check`: holds all rows, index entries, constraints and counters
//! of a data directory against each other, without changing a byte of it, and
//! the engine's structures beneath them.
//!
//! The store is opened on an [`Overlay`]: recovery runs as at a start of the
//! server, and what it writes stays in memory. The directory's lock is taken
//! (its file gets this process's number), so that no server changes the files
//! meanwhile.

use crate::config::StartError;
use crate::datadir::DataDir;
use crate::engine::STORE;
use crate::rows;
use porpoise_base::disk::Overlay;
use porpoise_kv::Durability;
use porpoise_kv_mem::{KvMem, KvMemOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Tables looked at.
    pub tables: usize,
    /// Rows in them.
    pub rows: u64,
    /// What is wrong, a line each: table, then the problem.
    pub problems: Vec<String>,
}

/// Checks the store in a data directory.
///
/// # Errors
/// There is none, a server uses it, or it cannot be opened.
pub fn check(data_dir: &Path) -> Result<Report, StartError> {
    let store = data_dir.join(STORE);
    if !store.is_dir() {
        let message = format!("data directory {} holds no store", data_dir.display());
        return Err(StartError::usage(message));
    }
    let _lock = DataDir::lock(data_dir)?;
    let failed =
        |what: &str, error: &dyn std::fmt::Display| StartError::failure(format!("{what}: {error}"));
    let engine = KvMem::open(KvMemOptions {
        dir: Some(store),
        disk: Arc::new(Overlay::new()),
        durability: Durability::Sync,
        ..KvMemOptions::default()
    })
    .map_err(|e| failed("the embedded engine does not open", &e))?;
    let db = rows::open(engine.clone()).map_err(|e| failed("the catalog does not open", &e))?;
    let mut report = Report::default();
    for table in db.catalog().tables.values() {
        let (rows, problems) = db
            .define(|cx| db.check_table(cx, table))
            .map_err(|e| failed(&table.quoted_name(), &e))?;
        report.tables += 1;
        report.rows += rows;
        let lines = problems.iter().map(|p| format!("{}: {}", p.table, p.what));
        report.problems.extend(lines);
    }
    engine.reclaim();
    if let Err(problem) = engine.verify() {
        report.problems.push(format!("engine: {problem}"));
    }
    Ok(report)
}

/// Checks and prints: the problems, and a last line that sums up.
///
/// # Errors
/// As [`check`]; with exit status 1 when there are problems.
pub fn run(data_dir: &Path) -> Result<(), StartError> {
    let report = check(data_dir)?;
    let counts = format!("{} tables, {} rows", report.tables, report.rows);
    let mut text = String::new();
    for problem in &report.problems {
        text.push_str(problem);
        text.push('\n');
    }
    if report.problems.is_empty() {
        text.push_str(&format!("{counts}: no problems\n"));
    }
    let mut out = io::stdout().lock();
    // Nobody may be reading; the exit status tells as well.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match report.problems.len() {
        0 => Ok(()),
        n => Err(StartError::failure(format!("{counts}: {n} problems"))),
    }
}
