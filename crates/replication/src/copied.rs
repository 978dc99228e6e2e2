//! The rows that an import from a running server has copied so far (`porpoise import mysql://...`).
//!
//! An import that was interrupted continues with a later snapshot. Until then the replica applies the source's
//! transactions to copied rows only; the other rows will be read from the later snapshot. The import
//! records its progress in two tables, each range in the transaction that writes its rows:
//!
//! ```text
//!   porpoise_import.tables   a table of the import, whether it is copied completely, the column by which it is divided
//!   porpoise_import.ranges   a range of that column that is copied: from `low` to below `high`; empty: no limit
//! ```
//!
//! Tables that are not in `tables` were created later, by the source: changes of all their rows are applied.
//!
//! Invariants:
//! 1. The rows in the ranges are those of the source at the replica's position; an import writes only while the replica
//!    is stopped, and checks that in each of its transactions.
//! 2. A table's parents are copied completely before its first range, so that cascades from them reach its copied rows.

use porpoise_kv::Read;
use porpoise_rows::{BeginOptions, Db, KeyRange, Result, ScanPosition, ScanSpec};
use porpoise_types::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// Database with the progress of an import.
pub const DATABASE: &str = "porpoise_import";
/// Table of the tables of an import: schema, name, whether it is copied completely, column.
pub const TABLES: &str = "tables";
/// Table of ranges: schema, name, low, high.
pub const RANGES: &str = "ranges";

/// Copied ranges of a table's column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopiedRanges {
    column: String,
    /// Least value, and the first one above; `None`: no limit.
    ranges: Vec<(Option<i128>, Option<i128>)>,
}

impl CopiedRanges {
    /// The column.
    #[must_use]
    pub fn column(&self) -> &str {
        &self.column
    }

    /// Whether nothing is copied.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether rows with a value are copied.
    #[must_use]
    pub fn contains(&self, value: i128) -> bool {
        self.ranges.iter().any(|(low, high)| {
            low.is_none_or(|low| value >= low) && high.is_none_or(|high| value < high)
        })
    }
}

/// The tables of an import that are not copied completely, with their copied ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopiedTables(HashMap<(String, String), CopiedRanges>);

impl CopiedTables {
    /// The copied part of a table; `None`: all of it.
    #[must_use]
    pub fn ranges(&self, database: &str, table: &str) -> Option<&CopiedRanges> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&(database.to_owned(), table.to_owned()))
    }

    /// Reads the progress of the import; without any, all tables are copied.
    ///
    /// # Errors
    /// The engine's.
    pub fn load(db: &Arc<Db>) -> Result<CopiedTables> {
        let mut tables = HashMap::new();
        for row in rows(db, TABLES)? {
            if number(row.get(2)) == Some(0) {
                let ranges = CopiedRanges {
                    column: text(row.get(3)),
                    ranges: Vec::new(),
                };
                tables.insert((text(row.first()), text(row.get(1))), ranges);
            }
        }
        if tables.is_empty() {
            return Ok(CopiedTables::default());
        }
        for row in rows(db, RANGES)? {
            let name = (text(row.first()), text(row.get(1)));
            if let Some(found) = tables.get_mut(&name) {
                let limits = (number(row.get(2)), number(row.get(3)));
                found.ranges.push(limits);
            }
        }
        Ok(CopiedTables(tables))
    }
}

/// All rows of a table of `porpoise_import`.
fn rows(db: &Arc<Db>, name: &str) -> Result<Vec<Vec<Value>>> {
    let Some(table) = db.catalog().table(DATABASE, name).cloned() else {
        return Ok(Vec::new());
    };
    let spec = ScanSpec {
        index: 0,
        ranges: vec![KeyRange::ALL],
        reverse: false,
        entries_only: false,
    };
    let mut txn = db.begin(BeginOptions::default())?;
    let (mut position, mut found) = (ScanPosition::default(), Vec::new());
    let read = loop {
        let more = txn.scan(
            &table,
            &spec,
            Read::SNAPSHOT,
            &mut position,
            1000,
            &mut |_, row| found.push(row.values()),
        );
        match more {
            Ok(true) => {}
            Ok(false) => break Ok(found),
            Err(error) => break Err(error),
        }
    };
    txn.rollback();
    read
}

fn text(value: Option<&Value>) -> String {
    match value {
        Some(Value::Bytes(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    }
}

/// A number, also as text; `None` for an empty text.
fn number(value: Option<&Value>) -> Option<i128> {
    match value {
        Some(Value::Int(number)) => Some(i128::from(*number)),
        Some(Value::UInt(number)) => Some(i128::from(*number)),
        value => text(value).parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_include_their_low_end_only() {
        let ranges = CopiedRanges {
            column: "id".into(),
            ranges: vec![(None, Some(-5)), (Some(10), Some(20)), (Some(100), None)],
        };
        let inside = [i128::MIN, -6, 10, 19, 100, i128::MAX];
        assert!(inside.iter().all(|value| ranges.contains(*value)));
        assert!(
            [-5, 0, 9, 20, 99]
                .iter()
                .all(|value| !ranges.contains(*value))
        );
        assert!(CopiedRanges::default().is_empty());
    }
}
