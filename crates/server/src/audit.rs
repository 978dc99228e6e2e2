//! The audit log: logins with their outcome, and statements that change definitions, accounts or
//! privileges, as lines of JSON (docs/formats.md, "Audit log").
//!
//! Lines are appended in one write each, and are not synced. Rotation: rename the file,
//! then FLUSH LOGS.
//!
//! Invariants:
//! 1. A line contains no password (`porpoise_sql::audit`).
//! 2. A failed write is logged and counted. It has no other effect, unless the log is required:
//!    then logins and audited statements are refused until a line can be written again.

use parking_lot::Mutex;
use porpoise_base::blocking::blocking;
use porpoise_base::clock::Clock;
use porpoise_sql::audit::{AuditSink, AuditedLogin, AuditedStatement};
use porpoise_types::DateTime;
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Version of the format of lines.
pub const AUDIT_FORMAT_VERSION: u8 = 1;

/// The audit log of a server.
pub struct AuditLog {
    path: PathBuf,
    /// Whether logins and audited statements are refused while the log cannot be written.
    required: bool,
    clock: Arc<dyn Clock>,
    file: Mutex<Option<File>>,
    failing: AtomicBool,
    write_errors: AtomicU64,
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600).open(path)
}

impl AuditLog {
    /// Opens the log.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(path: PathBuf, required: bool, clock: Arc<dyn Clock>) -> io::Result<AuditLog> {
        let file = open(&path)?;
        Ok(AuditLog {
            path,
            required,
            clock,
            file: Mutex::new(Some(file)),
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
        let written = blocking(|| {
            let mut file = self.file.lock();
            if file.is_none() {
                *file = Some(open(&self.path)?);
            }
            match file.as_mut() {
                Some(open) => open.write_all(line.as_bytes()),
                None => Ok(()),
            }
        });
        self.failing.store(written.is_err(), Ordering::Relaxed);
        if let Err(error) = &written {
            *self.file.lock() = None;
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
    fn may_run(&self) -> bool {
        if !self.required || !self.failing.load(Ordering::Relaxed) {
            return true;
        }
        self.write(&json!({
            "version": AUDIT_FORMAT_VERSION,
            "time": self.now(),
            "event": "resumed",
            "lost": self.write_errors(),
        }))
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

    fn login(&self, login: &AuditedLogin<'_>) -> bool {
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
        written || !self.required
    }

    fn reopen(&self) {
        *self.file.lock() = None;
    }
}
