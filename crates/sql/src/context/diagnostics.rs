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
    /// Number of conditions beyond `max_error_count`, which are not stored.
    dropped: u64,
    /// Whether the current statement reads the list and therefore does not replace it.
    retains_list: Cell<bool>,
    /// SQLSTATE of the error, if there is one.
    error_state: Option<[u8; 5]>,
}

impl Diagnostics {
    /// Prepares for a statement; its conditions replace the list unless it calls
    /// [`Self::retain_list`].
    pub fn begin(&self) {
        self.retains_list.set(false);
    }

    /// Keeps the list, for a statement that reads conditions (SHOW WARNINGS, @@warning_count).
    pub fn retain_list(&self) {
        self.retains_list.set(true);
    }

    /// Whether the current statement reads the list.
    pub fn retains_list(&self) -> bool {
        self.retains_list.get()
    }

    /// Stores the conditions of a statement that has ended; notes only if `notes` (`sql_notes`) is
    /// true.
    pub fn end(
        &mut self,
        mut warnings: Vec<Warning>,
        dropped: u64,
        error: Option<&SqlError>,
        notes: bool,
    ) {
        if self.retains_list.get() && error.is_none() {
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
    pub fn list(&self, errors_only: bool) -> impl Iterator<Item = &Warning> {
        let is_listed = move |w: &&Warning| !errors_only || w.level == Level::Error;
        self.list.iter().filter(is_listed)
    }

    /// Number of conditions, including those not stored.
    pub fn condition_count(&self) -> u64 {
        self.list.len() as u64 + self.dropped
    }

    /// Number of errors.
    pub fn error_count(&self) -> u64 {
        self.list(true).count() as u64
    }

    /// Number of conditions that the reply reports; 0 for a statement that reads the list.
    pub fn reported(&self) -> u16 {
        if self.retains_list.get() {
            0
        } else {
            u16::try_from(self.condition_count()).unwrap_or(u16::MAX)
        }
    }
}
