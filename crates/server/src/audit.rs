//! The audit log: logins with their outcome, and statements that change definitions, accounts or
//! privileges, as lines of JSON (docs/formats.md, "Audit log").
//!
//! Lines are appended in one write each, and are not synced. Rotation: rename the file,
//! then FLUSH LOGS.
//!
//! Invariants:
//! 1. A line contains no password (`porpoise_sql::audit`).
//! 2. Each line is whole, or the beginning of one that a full disk has cut off: the next line begins
//!    after a line break.
//! 3. A failed write is logged and counted. It has no other effect, unless the log is required:
//!    then logins and audited statements are refused until a line can be written again.

use parking_lot::Mutex;
use porpoise_base::blocking::blocking;
use porpoise_base::clock::Clock;
use porpoise_base::log_file::LogFile;
use porpoise_sql::SqlError;
use porpoise_sql::audit::{AuditSink, AuditedLogin, AuditedStatement, refusal};
use porpoise_types::DateTime;
use serde_json::{Value, json};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Version of the format of lines.
pub const AUDIT_FORMAT_VERSION: u8 = 1;

/// Permissions of the file.
const MODE: u32 = 0o600;

/// The audit log of a server.
pub struct AuditLog {
    path: PathBuf,
    /// Whether logins and audited statements are refused while the log cannot be written.
    required: bool,
    clock: Arc<dyn Clock>,
    file: Mutex<LogFile>,
    failing: AtomicBool,
    write_errors: AtomicU64,
}

impl AuditLog {
    /// Opens the log.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(path: PathBuf, required: bool, clock: Arc<dyn Clock>) -> io::Result<AuditLog> {
        let file = LogFile::open(&path, MODE)?;
        Ok(AuditLog {
            path,
            required,
            clock,
            file: Mutex::new(file),
            failing: AtomicBool::new(false),
            write_errors: AtomicU64::new(0),
        })
    }

    /// Number of lines that could not be written.
    pub fn write_errors(&self) -> u64 {
        self.write_errors.load(Ordering::Relaxed)
    }

    fn now(&self) -> String {
        let at = DateTime::from_unix_micros(self.clock.unix_micros()).unwrap_or_default();
        format!("{}Z", at.to_string().replace(' ', "T"))
    }

    /// Writes a line. Returns false if that failed.
    fn write(&self, line: &Value) -> bool {
        let line = format!("{line}\n");
        let written = blocking(|| self.file.lock().append(&self.path, MODE, &line));
        self.failing.store(written.is_err(), Ordering::Relaxed);
        if let Err(error) = &written {
            let before = self.write_errors.fetch_add(1, Ordering::Relaxed);
            if before.is_multiple_of(1000) {
                let (path, refused) = (self.path.display(), self.required);
                tracing::error!(
                    "the audit log {path} cannot be written: {error}; logins and changes of \
                     definitions and accounts are {}",
                    if refused {
                        "refused until it can"
                    } else {
                        "not logged"
                    }
                );
            }
        }
        written.is_ok()
    }
}

impl AuditSink for AuditLog {
    fn check(&self) -> Result<(), SqlError> {
        if !self.required || !self.failing.load(Ordering::Relaxed) {
            return Ok(());
        }
        let written = self.write(&json!({
            "version": AUDIT_FORMAT_VERSION,
            "time": self.now(),
            "event": "resumed",
            "lost": self.write_errors(),
        }));
        if written { Ok(()) } else { Err(refusal()) }
    }

    fn statement(&self, statement: &AuditedStatement<'_>) {
        self.write(&json!({
            "version": AUDIT_FORMAT_VERSION,
            "time": self.now(),
            "event": "statement",
            "class": statement.class.name(),
            "connection": statement.connection,
            "user": statement.user,
            "host": statement.host,
            "account": statement.account,
            "database": statement.database,
            "text": statement.text,
            "error": statement.error,
        }));
    }

    fn login(&self, login: &AuditedLogin<'_>) -> Result<(), SqlError> {
        let written = self.write(&json!({
            "version": AUDIT_FORMAT_VERSION,
            "time": self.now(),
            "event": "login",
            "interface": login.interface,
            "connection": login.connection,
            "user": login.user,
            "host": login.host,
            "outcome": if login.granted { "granted" } else { "denied" },
        }));
        if written || !self.required {
            Ok(())
        } else {
            Err(refusal())
        }
    }

    fn reopen(&self) {
        self.file.lock().close();
    }
}
