//! `porpoise check`: verifies rows, index entries, constraints and counters of a
//! data directory against each other, and the engine's structures beneath them,
//! without changing a byte.
//!
//! The store is opened on an [`Overlay`]: recovery runs as at a start of the
//! server, and what it writes stays in memory. The directory is locked, without
//! a change to the lock file, so that no server changes the files meanwhile.
//!
//! Exit statuses, as in the help: 0 without problems, 1 with problems (including a
//! damaged store or missing files), 2 if the directory cannot be checked.

use crate::config::{ClusterUrl, StartError};
use crate::datadir::DataDir;
use crate::engine::STORE;
use crate::rows;
use porpoise_base::disk::{self, Overlay};
use porpoise_kv::{Durability, Engine, Error};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use porpoise_rows::Db;
use porpoise_rows::definition::TableId;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Time within which a server of a cluster has certainly loaded new definitions.
const NEWS_TIME: Duration = Duration::from_secs(1);

/// Result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of tables checked.
    pub tables: usize,
    /// Number of rows in them.
    pub rows: u64,
    /// Problems, one line each: table, then the problem.
    pub problems: Vec<String>,
}

/// Reasons for which a store could not be checked completely.
enum Failure {
    /// The store is damaged, which is a result of the check.
    Damage(String),
    /// The check itself failed: files that cannot be read, no memory.
    CheckFailed(String),
}

impl Failure {
    /// Classifies an error of the engine; `context` begins the message.
    fn of(context: &str, error: &Error) -> Failure {
        let text = format!("{context}: {error}");
        match error {
            Error::Io(_) | Error::Full(_) | Error::Unavailable(_) => Failure::CheckFailed(text),
            _ => Failure::Damage(text),
        }
    }

    /// Classifies an error of the row layer.
    fn of_rows(context: &str, error: &porpoise_rows::Error) -> Failure {
        match error {
            porpoise_rows::Error::Kv(error) => Failure::of(context, error),
            error => Failure::Damage(format!("{context}: {error}")),
        }
    }
}

/// Checks the store in a data directory.
///
/// # Errors
/// With exit status 2: there is no store, a server uses it, or its files cannot
/// be read. Damage is not an error, but a problem in the report.
pub fn check(data_dir: &Path) -> Result<Report, StartError> {
    let at = data_dir.display();
    let unusable = |error: &dyn std::fmt::Display| {
        StartError::usage(format!("data directory {at} cannot be checked: {error}"))
    };
    let store = store_in(data_dir)?;
    let _lock = DataDir::lock_unchanged(data_dir)?;
    let mut report = Report::default();
    match check_store(store, &mut report) {
        Ok(()) => {}
        Err(Failure::Damage(problem)) => report.problems.push(problem),
        Err(Failure::CheckFailed(error)) => return Err(unusable(&error)),
    }
    Ok(report)
}

/// Checks the data in a cluster, also while servers use it: each table at a snapshot of its own. Meanwhile it is a member
/// of the cluster as servers are, so that definitions do not change during the check.
///
/// # Errors
/// With exit status 2: the cluster cannot be reached or read.
pub fn check_cluster(url: &ClusterUrl) -> Result<Report, StartError> {
    let unusable = |error: &dyn std::fmt::Display| {
        StartError::usage(format!("the cluster cannot be checked: {error}"))
    };
    let engine = crate::engine::open_cluster(url)?;
    let mut report = Report::default();
    let checked = check_tables(engine.clone(), &mut report);
    engine.shutdown().map_err(|e| unusable(&e))?;
    match checked {
        Ok(()) => {}
        Err(Failure::Damage(problem)) => report.problems.push(problem),
        Err(Failure::CheckFailed(error)) => return Err(unusable(&error)),
    }
    Ok(report)
}

/// Prints the files of the store in a data directory: groups, records, blocks, damage.
///
/// # Errors
/// With exit status 2 as [`check`]; with 1 if a file is damaged.
pub fn dump(data_dir: &Path) -> Result<(), StartError> {
    let store = store_in(data_dir)?;
    let _lock = DataDir::lock_unchanged(data_dir)?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut written = Ok(());
    let damaged = porpoise_kv_mem::dump(&Overlay::new(), &store, &mut |line| {
        if written.is_ok() {
            written = writeln!(out, "{line}");
        }
    })?;
    // Standard output may be closed; the exit status says the same.
    let _ = out.flush();
    if damaged {
        return Err(StartError::failure("the store is damaged".to_owned()));
    }
    Ok(())
}

/// The path of the store in a data directory.
///
/// # Errors
/// With exit status 2: the directory has no store.
pub(crate) fn store_in(data_dir: &Path) -> Result<PathBuf, StartError> {
    let at = data_dir.display();
    let unusable = |error: &dyn std::fmt::Display| {
        StartError::usage(format!("data directory {at} cannot be checked: {error}"))
    };
    let store = data_dir.join(STORE);
    let found = match std::fs::symlink_metadata(&store) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => false,
        Err(e) => return Err(unusable(&e)),
        Ok(_) => KvMem::is_store(&*disk::real(), &store).map_err(|e| unusable(&e))?,
    };
    if !found {
        let message = format!("data directory {at} contains no store");
        return Err(StartError::usage(message));
    }
    Ok(store)
}

/// Opens a store without changing its files: what recovery and the caller write stays in memory.
///
/// # Errors
/// The engine's.
pub(crate) fn open_unchanged(store: PathBuf) -> porpoise_kv::Result<Arc<KvMem>> {
    KvMem::open(KvMemOptions {
        dir: Some(store),
        disk: Arc::new(Overlay::new()),
        durability: Durability::Sync,
        ..KvMemOptions::default()
    })
}

fn check_store(store: PathBuf, report: &mut Report) -> Result<(), Failure> {
    let engine = open_unchanged(store);
    let engine = engine.map_err(|e| Failure::of("the embedded engine cannot be opened", &e))?;
    check_tables(engine.clone(), report)?;
    engine.reclaim();
    if let Err(problem) = engine.verify() {
        report.problems.push(format!("engine: {problem}"));
    }
    Ok(())
}

/// Checks all tables.
fn check_tables(engine: Arc<dyn Engine>, report: &mut Report) -> Result<(), Failure> {
    let db = rows::open(engine);
    let db = db.map_err(|e| Failure::of_rows("the catalog cannot be opened", &e))?;
    let mut tables: Vec<_> = db.catalog().tables.keys().copied().collect();
    tables.sort_unstable();
    for id in tables {
        check_one(&db, id, report)?;
    }
    Ok(())
}

/// Checks a table. If there are problems, it waits for [`NEWS_TIME`], and checks again if another server has
/// changed definitions meanwhile.
fn check_one(db: &Db, id: TableId, report: &mut Report) -> Result<(), Failure> {
    loop {
        let catalog = db.catalog();
        let Some(table) = catalog.tables.get(&id) else {
            return Ok(());
        };
        let checked = db.define(|cx| db.check_table(cx, table));
        let is_suspicious = !checked
            .as_ref()
            .is_ok_and(|(_, problems)| problems.is_empty());
        if is_suspicious && db.is_clustered() {
            std::thread::sleep(NEWS_TIME);
            if db.catalog().version != catalog.version {
                continue;
            }
        }
        let (rows, problems) = checked.map_err(|e| Failure::of_rows(&table.quoted_name(), &e))?;
        report.tables += 1;
        report.rows += rows;
        let lines = problems
            .iter()
            .map(|p| format!("{}: {}", p.table, p.description));
        report.problems.extend(lines);
        return Ok(());
    }
}

/// Checks, and prints the problems, or the number of tables and rows without problems.
///
/// # Errors
/// As [`check`]; with exit status 1 and a summary if there are problems.
pub fn run(data_dir: &Path) -> Result<(), StartError> {
    print(&check(data_dir)?)
}

/// As [`run`], for a cluster.
///
/// # Errors
/// As [`check_cluster`]; with exit status 1 and a summary if there are problems.
pub fn run_cluster(url: &ClusterUrl) -> Result<(), StartError> {
    print(&check_cluster(url)?)
}

fn print(report: &Report) -> Result<(), StartError> {
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
    // Standard output may be closed; the exit status says the same.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match report.problems.len() {
        0 => Ok(()),
        n => Err(StartError::failure(format!("{counts}: {n} problems"))),
    }
}
