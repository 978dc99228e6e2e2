//! Summary of an import, for its last lines.

use crate::config::StartError;
use std::time::Duration;

/// Warnings of LOAD DATA that are shown, of all.
pub const SHOWN_WARNINGS: usize = 5;

/// Counts of an import.
#[derive(Debug, Default)]
pub struct Report {
    /// Tables that are selected.
    pub tables: usize,
    /// Views that are selected.
    pub views: usize,
    /// Tables and views of the dump that are not selected.
    pub left_out: usize,
    /// Tables and views that existed and stayed.
    pub kept: usize,
    /// Accounts created.
    pub accounts: usize,
    /// Accounts that existed and stayed.
    pub kept_accounts: usize,
    /// Statements that grant and were refused, with their errors.
    pub refused_grants: Vec<String>,
    /// Rows loaded.
    pub rows: u64,
    /// Rows left out because a row with the same key existed.
    pub skipped_rows: u64,
    /// Bytes of the files loaded.
    pub bytes: u64,
    /// Warnings of LOAD DATA.
    pub warnings: u64,
    /// The first of them, with their tables.
    pub first_warnings: Vec<String>,
}

impl Report {
    /// Adds the counts of one connection.
    pub fn add_rows(&mut self, other: Report) {
        self.rows += other.rows;
        self.skipped_rows += other.skipped_rows;
        self.bytes += other.bytes;
        self.warnings += other.warnings;
        self.first_warnings.extend(other.first_warnings);
        self.first_warnings.truncate(SHOWN_WARNINGS);
    }

    /// The lines that tell what was done, and what is missing.
    fn lines(&self, time: Duration) -> Vec<String> {
        let seconds = time.as_secs_f64();
        let megabytes = self.bytes as f64 / 1e6;
        let mut lines = vec![format!(
            "import: {} tables, {} rows, {megabytes:.1} MB of files in {seconds:.1} s",
            self.tables, self.rows
        )];
        let counts = [
            (self.views as u64, "views"),
            (self.accounts as u64, "accounts created"),
            (self.kept as u64, "tables and views existed and were kept"),
            (self.kept_accounts as u64, "accounts existed and were kept"),
            (self.left_out as u64, "tables and views were not selected"),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        lines.extend(counts.map(|(count, what)| format!("import: {count} {what}")));
        lines
    }

    /// The lines about what went wrong.
    fn problems(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.skipped_rows > 0 {
            let rows = self.skipped_rows;
            lines.push(format!(
                "import: {rows} rows were left out because their keys existed"
            ));
        }
        if self.warnings > 0 {
            let all = self.warnings;
            let first = self.first_warnings.join("; ");
            lines.push(format!("import: {all} warnings, the first: {first}"));
        }
        let grants = self.refused_grants.iter();
        lines.extend(grants.map(|grant| format!("import: not granted: {grant}")));
        lines
    }

    /// Prints the report: all of it, or, if `quiet`, what went wrong.
    ///
    /// # Errors
    /// Privileges that could not be granted: the import is complete but for them.
    pub fn finish(&self, time: Duration, quiet: bool) -> Result<(), StartError> {
        if !quiet {
            self.lines(time).iter().for_each(|line| eprintln!("{line}"));
        }
        self.problems().iter().for_each(|line| eprintln!("{line}"));
        match self.refused_grants.len() {
            0 => Ok(()),
            count => Err(StartError::failure(format!(
                "import: everything is loaded, except for {count} grants"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_happened_is_reported() {
        let mut report = Report {
            tables: 3,
            kept: 1,
            ..Report::default()
        };
        report.add_rows(Report {
            rows: 5,
            bytes: 1_500_000,
            ..Report::default()
        });
        let lines = report.lines(Duration::from_millis(1250));
        let expected = [
            "import: 3 tables, 5 rows, 1.5 MB of files in 1.2 s",
            "import: 1 tables and views existed and were kept",
        ];
        assert_eq!(lines, expected);
        assert!(report.problems().is_empty());
        assert!(report.finish(Duration::ZERO, true).is_ok());
        report.refused_grants.push("GRANT x".to_owned());
        assert!(report.finish(Duration::ZERO, true).is_err());
    }
}
