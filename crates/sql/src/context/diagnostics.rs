//! Diagnostics area: the conditions of the last statement, for SHOW WARNINGS.
//!
//! The list is kept until the next statement that does not itself read conditions (manual, "SHOW
//! WARNINGS Statement"). An error is its last entry.

use porpoise_sql_expr::error::SqlError;
use porpoise_types::{Level, Warning};
use std::cell::Cell;

/// Conditions of a statement.
#[derive(Debug, Default)]
pub struct Diagnostics {
    list: Vec<Warning>,
    dropped: u64,
    keep: Cell<bool>,
    /// SQLSTATE of the error, if there is one.
    error_state: Option<[u8; 5]>,
}

impl Diagnostics {
    /// Called when a statement begins.
    pub fn begin(&mut self) {
        self.keep.set(false);
    }

    /// Keeps the list, for a statement that reads conditions (SHOW WARNINGS, @@warning_count).
    pub fn retain_list(&self) {
        self.keep.set(true);
    }

    /// Stores the conditions of a statement that has ended.
    pub fn end(
        &mut self,
        mut warnings: Vec<Warning>,
        dropped: u64,
        error: Option<&SqlError>,
        notes: bool,
    ) {
        if self.keep.get() && error.is_none() {
            return;
        }
        if !notes {
            warnings.retain(|w| w.level != Level::Note);
        }
        if let Some(error) = error {
            warnings.push(Warning {
                level: Level::Error,
                code: error.code,
                message: error.message.clone(),
            });
        }
        self.list = warnings;
        self.dropped = dropped;
        self.error_state = error.map(|e| e.sqlstate);
    }

    /// SQLSTATE of the statement's error.
    pub fn error_state(&self) -> Option<[u8; 5]> {
        self.error_state
    }

    /// The conditions: all, or errors only.
    pub fn list(&self, errors: bool) -> impl Iterator<Item = &Warning> {
        let wanted = move |w: &&Warning| !errors || w.level == Level::Error;
        self.list.iter().filter(wanted)
    }

    /// Number of conditions, including those not stored.
    pub fn count(&self, errors: bool) -> u64 {
        let dropped = if errors { 0 } else { self.dropped };
        self.list(errors).count() as u64 + dropped
    }

    /// The number of conditions that the reply reports.
    pub fn reported(&self) -> u16 {
        if self.keep.get() {
            0
        } else {
            u16::try_from(self.count(false)).unwrap_or(u16::MAX)
        }
    }
}
