//! The slow query log (manual, "The Slow Query Log"): statements that took longer than
//! `long_query_time`, or that read a whole table with `log_queries_not_using_indexes`.
//!
//! `slow_query_log` switches it on. `log_output` chooses the file `slow_query_log_file`, in MySQL's
//! format, the table `mysql.slow_log`, or both. With `log_slow_extra` the file also has the error,
//! the digest, the transaction and the plan.
//!
//! Invariants:
//! 1. A write that fails does not fail the statement: it is reported, and the log goes on with the
//!    next statement.
//! 2. The table has the last [`MAX_ROWS`] statements and is empty after a start.
//! 3. Passwords are removed, as in the process list.

use super::Completed;
use crate::vars::Values;
use parking_lot::{Mutex, RwLock};
use porpoise_base::blocking::blocking;
use porpoise_base::log_file::LogFile;
use porpoise_types::DateTime;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Maximum number of rows of `mysql.slow_log`.
const MAX_ROWS: usize = 1000;

/// Maximum length of a logged statement, in bytes.
pub(crate) const MAX_STATEMENT: usize = 64 * 1024;

/// Permissions of the file: readable by owner and group only, because statements contain data.
const MODE: u32 = 0o640;

/// The file that is used while `slow_query_log_file` is empty.
const DEFAULT_FILE: &str = "porpoise-slow.log";

/// The variables that configure the log.
pub(crate) const VARIABLES: &[&str] = &[
    "log_output",
    "log_queries_not_using_indexes",
    "log_slow_admin_statements",
    "log_slow_extra",
    "slow_query_log",
    "slow_query_log_file",
];

/// Whether a statement is logged only with `log_slow_admin_statements`.
fn is_administrative(text: &str) -> bool {
    let mut words = text.split_ascii_whitespace().map(str::to_ascii_uppercase);
    let (verb, object) = (words.next(), words.next().unwrap_or_default());
    match verb.as_deref() {
        Some("ALTER" | "ANALYZE" | "CHECK" | "OPTIMIZE" | "REPAIR") => object != "USER",
        Some("CREATE") => matches!(object.as_str(), "INDEX" | "UNIQUE" | "FULLTEXT"),
        Some("DROP") => object == "INDEX",
        _ => false,
    }
}

/// A logged statement.
#[derive(Clone, Debug)]
pub(crate) struct SlowStatement {
    /// Its end, in microseconds since 1970 UTC.
    pub(crate) ended: i64,
    /// User of the session.
    pub(crate) user: String,
    /// Host of the session.
    pub(crate) host: String,
    /// Connection id.
    pub(crate) connection: u64,
    /// Time from its start to its end.
    pub(crate) elapsed: Duration,
    /// Part of the time for which it waited for locks.
    pub(crate) lock_wait: Duration,
    /// Rows sent to the client.
    pub(crate) rows_sent: u64,
    /// Rows read.
    pub(crate) rows_examined: u64,
    /// Rows changed.
    pub(crate) rows_affected: u64,
    /// The error number, or 0.
    pub(crate) error: u16,
    /// The default database.
    pub(crate) database: String,
    /// The last generated id.
    pub(crate) insert_id: u64,
    /// The last transaction of the session that took a lock.
    pub(crate) transaction: u64,
    /// The text.
    pub(crate) text: String,
    /// The plan as EXPLAIN FORMAT=TREE shows it; empty without `log_slow_extra`.
    pub(crate) plan: String,
}

/// The statement's text and state of its session, as the log records them.
#[derive(Debug)]
pub(crate) struct SessionState<'a> {
    /// The time, in microseconds since 1970 UTC.
    pub(crate) now: i64,
    /// The statement's text, of at most [`MAX_STATEMENT`] bytes.
    pub(crate) text: String,
    /// Connection id.
    pub(crate) connection: u64,
    /// The user.
    pub(crate) user: &'a str,
    /// The host.
    pub(crate) host: &'a str,
    /// The last transaction that took a lock.
    pub(crate) transaction: u64,
    /// The default database, or empty.
    pub(crate) database: &'a str,
    /// The last generated id.
    pub(crate) insert_id: u64,
    /// The statement's plan, or empty.
    pub(crate) plan: &'a str,
}

impl SlowStatement {
    /// The entry of the file.
    fn entry(&self, extra: bool) -> String {
        let mut out = String::new();
        let time = DateTime::from_unix_micros(self.ended)
            .map(|at| at.to_string().replace(' ', "T"))
            .unwrap_or_default();
        // Formatting into a String cannot fail.
        let _ = writeln!(out, "# Time: {time}Z");
        let _ = writeln!(
            out,
            "# User@Host: {user}[{user}] @ {host} []  Id: {:5}",
            self.connection,
            user = self.user,
            host = self.host,
        );
        let _ = write!(
            out,
            "# Query_time: {:.6}  Lock_time: {:.6} Rows_sent: {}  Rows_examined: {}",
            self.elapsed.as_secs_f64(),
            self.lock_wait.as_secs_f64(),
            self.rows_sent,
            self.rows_examined
        );
        if extra {
            let _ = write!(
                out,
                " Thread_id: {} Errno: {} Rows_affected: {} Transaction: {}",
                self.connection, self.error, self.rows_affected, self.transaction
            );
        }
        out.push('\n');
        for line in self.plan.lines().filter(|line| !line.is_empty()) {
            let _ = writeln!(out, "# Plan: {line}");
        }
        if !self.database.is_empty() {
            let _ = writeln!(out, "use {};", self.database);
        }
        let seconds = self.ended.div_euclid(1_000_000);
        let _ = writeln!(out, "SET timestamp={seconds};");
        let _ = writeln!(out, "{};", self.text.trim_end().trim_end_matches(';'));
        out
    }
}

/// Configuration of the log.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SlowLogConfig {
    path: PathBuf,
    to_file: bool,
    to_table: bool,
    admin: bool,
}

impl SlowLogConfig {
    /// The configuration in a list of global values.
    fn new(values: &Values) -> SlowLogConfig {
        let output = values.text("log_output").to_uppercase();
        let has = |word: &str| output.split(',').any(|w| w == word);
        SlowLogConfig {
            path: path(values, values.text("slow_query_log_file")),
            to_file: has("FILE") && !has("NONE"),
            to_table: has("TABLE") && !has("NONE"),
            admin: values.bool("log_slow_admin_statements"),
        }
    }
}

/// The path of a log file, relative to the data directory.
fn path(values: &Values, name: &str) -> PathBuf {
    let name = if name.is_empty() { DEFAULT_FILE } else { name };
    Path::new(values.text("datadir")).join(name)
}

/// Fails if the log cannot be written to a file of this name.
pub(crate) fn check_file(values: &Values, name: &str) -> io::Result<()> {
    blocking(|| LogFile::open(&path(values, name), MODE).map(drop))
}

/// Receives messages for the server's log.
pub(crate) type Report = Box<dyn Fn(&str) + Send + Sync>;

/// The slow query log of a server.
#[derive(Default)]
pub(crate) struct SlowLog {
    on: AtomicBool,
    extra: AtomicBool,
    unindexed: AtomicBool,
    config: RwLock<SlowLogConfig>,
    file: Mutex<LogFile>,
    rows: Mutex<VecDeque<SlowStatement>>,
    write_errors: AtomicU64,
    report: RwLock<Option<Report>>,
}

impl SlowLog {
    /// Applies the global variables.
    pub(crate) fn configure(&self, values: &Values) {
        let config = SlowLogConfig::new(values);
        let mut current = self.config.write();
        if *current != config {
            self.file.lock().close();
            *current = config;
        }
        self.on
            .store(values.bool("slow_query_log"), Ordering::Relaxed);
        self.extra
            .store(values.bool("log_slow_extra"), Ordering::Relaxed);
        let unindexed = values.bool("log_queries_not_using_indexes");
        self.unindexed.store(unindexed, Ordering::Relaxed);
    }

    /// Sets the receiver of messages about writes that fail.
    pub(crate) fn set_report(&self, report: Report) {
        *self.report.write() = Some(report);
    }

    /// Closes the file, so that the next statement opens it again (FLUSH SLOW LOGS), after it was
    /// renamed.
    pub(crate) fn reopen(&self) {
        self.file.lock().close();
    }

    /// Whether slow statements are logged with their plans.
    #[inline]
    pub(crate) fn has_plans(&self) -> bool {
        self.extra.load(Ordering::Relaxed) && self.on.load(Ordering::Relaxed)
    }

    /// Whether the log is on.
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Whether statements that read whole tables are logged.
    #[inline]
    pub(crate) fn logs_unindexed(&self) -> bool {
        self.unindexed.load(Ordering::Relaxed)
    }

    /// Number of writes that failed.
    pub(crate) fn write_errors(&self) -> u64 {
        self.write_errors.load(Ordering::Relaxed)
    }

    /// The last statements, oldest first.
    pub(crate) fn rows(&self) -> Vec<SlowStatement> {
        self.rows.lock().iter().cloned().collect()
    }

    /// Logs a statement.
    pub(crate) fn record(&self, statement: &Completed, session: SessionState<'_>) {
        let config = self.config.read().clone();
        if !config.admin && is_administrative(&session.text) {
            return;
        }
        let logged = SlowStatement {
            ended: session.now,
            user: session.user.to_owned(),
            host: session.host.to_owned(),
            connection: session.connection,
            elapsed: Duration::from_nanos(statement.nanos),
            lock_wait: Duration::from_nanos(statement.lock_nanos),
            rows_sent: statement.rows_sent,
            rows_examined: statement.rows_examined,
            rows_affected: statement.rows_affected,
            error: statement.error,
            database: session.database.to_owned(),
            insert_id: session.insert_id,
            transaction: session.transaction,
            text: session.text,
            plan: session.plan.to_owned(),
        };
        if config.to_file {
            let entry = logged.entry(self.extra.load(Ordering::Relaxed));
            let written = blocking(|| self.file.lock().append(&config.path, MODE, &entry));
            if let Err(error) = written {
                self.write_failed(&config.path, &error);
            }
        }
        if config.to_table {
            let mut rows = self.rows.lock();
            if rows.len() >= MAX_ROWS {
                rows.pop_front();
            }
            rows.push_back(logged);
        }
    }

    /// Reports the first failure, and then each thousandth.
    fn write_failed(&self, path: &Path, error: &io::Error) {
        let before = self.write_errors.fetch_add(1, Ordering::Relaxed);
        if before.is_multiple_of(1000)
            && let Some(report) = self.report.read().as_ref()
        {
            let path = path.display();
            report(&format!(
                "the slow query log {path} cannot be written: {error}"
            ));
        }
    }
}
