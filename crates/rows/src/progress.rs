//! Progress of a session's DDL statement, for the process list.
//!
//! The session writes it by relaxed stores between batches, and any thread reads it. A reader may
//! see a row count of the previous stage; it is only displayed.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// A stage of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// No stage to show.
    None = 0,
    /// Waits for another session that uses or changes the table.
    WaitingForTable = 1,
    /// Rows are copied into new spaces.
    Copying = 2,
    /// An index is built.
    BuildingIndex = 3,
    /// Rows are validated.
    Validating = 4,
    /// The new definition is committed.
    Committing = 5,
    /// Waits for FLUSH TABLES WITH READ LOCK, or as that for writers.
    WaitingForReadLock = 6,
    /// Waits for commits to be allowed, or for commits.
    WaitingForCommitLock = 7,
    /// Waits for LOCK INSTANCE FOR BACKUP, or as that for definitions.
    WaitingForBackupLock = 8,
}

impl Stage {
    /// Text for the process list.
    pub fn text(self) -> &'static str {
        match self {
            Stage::None => "executing",
            Stage::WaitingForTable => "Waiting for table metadata lock",
            Stage::Copying => "copy to tmp table",
            Stage::BuildingIndex => "altering table",
            Stage::Validating => "checking table",
            Stage::Committing => "committing alter table to storage engine",
            Stage::WaitingForReadLock => "Waiting for global read lock",
            Stage::WaitingForCommitLock => "Waiting for commit lock",
            Stage::WaitingForBackupLock => "Waiting for backup lock",
        }
    }

    fn of(code: u8) -> Stage {
        let all = [
            Stage::None,
            Stage::WaitingForTable,
            Stage::Copying,
            Stage::BuildingIndex,
            Stage::Validating,
            Stage::Committing,
            Stage::WaitingForReadLock,
            Stage::WaitingForCommitLock,
            Stage::WaitingForBackupLock,
        ];
        let found = all.into_iter().find(|s| *s as u8 == code);
        found.unwrap_or(Stage::None)
    }
}

/// One session's progress.
#[derive(Debug, Default)]
pub struct Progress {
    stage: AtomicU8,
    rows: AtomicU64,
    /// Estimated number of rows of the stage; 0 if it is unknown.
    expected: AtomicU64,
    /// Object of the stage: an index, a constraint.
    subject: Mutex<String>,
}

impl Progress {
    /// Begins a stage.
    pub fn begin(&self, stage: Stage, subject: &str) {
        *self.subject.lock() = subject.to_owned();
        self.rows.store(0, Ordering::Relaxed);
        self.expected.store(0, Ordering::Relaxed);
        self.stage.store(stage as u8, Ordering::Relaxed);
    }

    /// Sets the estimated number of rows of the stage.
    pub fn expect(&self, rows: u64) {
        self.expected.store(rows, Ordering::Relaxed);
    }

    /// Rows processed in the stage, and their estimated number; 0 if it is unknown.
    pub fn rows(&self) -> (u64, u64) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (load(&self.rows), load(&self.expected))
    }

    /// Adds to the number of rows processed.
    pub fn advance(&self, rows: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// Percentage of the stage that is done; `None` between stages, and if the number of rows is
    /// unknown. The number is an estimate, so that the result is limited to 100.
    pub fn percent(&self) -> Option<f64> {
        match (self.stage(), self.rows()) {
            (Stage::None, _) | (_, (_, 0)) => None,
            (_, (rows, expected)) => Some((rows as f64 / expected as f64 * 100.0).min(100.0)),
        }
    }

    /// Ends the last stage.
    pub fn end(&self) {
        self.stage.store(Stage::None as u8, Ordering::Relaxed);
    }

    /// The stage.
    pub fn stage(&self) -> Stage {
        Stage::of(self.stage.load(Ordering::Relaxed))
    }

    /// The stage in words, with its subject and the rows done.
    pub fn text(&self) -> Option<String> {
        let stage = self.stage();
        if stage == Stage::None {
            return None;
        }
        let mut text = stage.text().to_owned();
        let subject = self.subject.lock();
        if !subject.is_empty() {
            text.push_str(&format!(" ({subject})"));
        }
        let (rows, expected) = self.rows();
        if rows > 0 {
            text.push_str(&match self.percent() {
                None => format!(", {rows} rows done"),
                Some(percent) => {
                    let percent = percent.floor();
                    format!(", {rows} of about {expected} rows done ({percent} %)")
                }
            });
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_stage_subject_and_rows() {
        let progress = Progress::default();
        assert_eq!(progress.text(), None);
        progress.begin(Stage::BuildingIndex, "k");
        progress.advance(1000);
        progress.advance(24);
        let text = progress.text();
        assert_eq!(text.as_deref(), Some("altering table (k), 1024 rows done"));
        progress.expect(3000);
        let text = progress.text();
        let expected = "altering table (k), 1024 of about 3000 rows done (34 %)";
        assert_eq!(text.as_deref(), Some(expected));
        progress.advance(3000);
        assert_eq!(progress.percent(), Some(100.0));
        progress.begin(Stage::WaitingForTable, "");
        assert_eq!(progress.percent(), None);
        let text = progress.text();
        assert_eq!(text.as_deref(), Some("Waiting for table metadata lock"));
        progress.end();
        assert_eq!(progress.text(), None);
    }
}
