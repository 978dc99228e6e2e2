//! The progress of a copy, kept in the server that is loaded: the schema `porpoise_import`.
//!
//! | table | content |
//! |---|---|
//! | `source` | the source, the stage (`define`, `copy`, `follow`) |
//! | `tables` | a table: whether it is copied completely, the column by which it is divided |
//! | `ranges` | a copied range: `low` (at least), `high` (below), rows, checksum, whether it was compared |
//! | `parts` | a key value whose rows are too many for one transaction, and may be loaded in part |
//! | `deferred` | an index that is created after its table has been loaded |
//!
//! The replica reads `tables` and `ranges` (`porpoise_replication::copied`). A range is recorded in the transaction that
//! loads its rows, or the last of them.

use super::super::connection::{Server, failed, literal};
use super::plan::{Table, of_table};
use crate::config::StartError;
use std::collections::BTreeSet;

const SCHEMA: &str = "porpoise_import";

/// Longest wait for a lock, which the session of a killed process may still hold.
const LOCK_SECONDS: u32 = 20;

/// A range of key values: from the first to below the second; `None`: no limit.
pub type Range = (Option<i128>, Option<i128>);

/// Stage of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The import has not begun.
    New,
    /// Objects are being created.
    Define,
    /// Rows are being copied.
    Copy,
    /// All rows are copied.
    Follow,
}

/// Takes a named lock on the server, which is released when the connection ends.
///
/// # Errors
/// Another process has it.
pub fn lock(server: &mut Server, name: &str) -> Result<(), StartError> {
    let [got] = server.first_row(&format!(
        "SELECT GET_LOCK('{SCHEMA} {name}', {LOCK_SECONDS})"
    ))?;
    if got == "1" {
        Ok(())
    } else {
        Err(StartError::usage("import: another import is running"))
    }
}

fn exists(server: &mut Server) -> Result<bool, StartError> {
    let [found] = server.first_row(&format!(
        "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{SCHEMA}' AND TABLE_NAME = 'source'"
    ))?;
    Ok(found != "0")
}

/// The stage of the import from a source.
///
/// # Errors
/// The server's; an import from another source is not finished.
pub fn stage(server: &mut Server, source: &str) -> Result<Stage, StartError> {
    if !exists(server)? {
        return Ok(Stage::New);
    }
    let [name, stage] = server.first_row(&format!("SELECT name, stage FROM {SCHEMA}.source"))?;
    if name.is_empty() {
        return Ok(Stage::New);
    }
    if name != source {
        return Err(StartError::usage(format!(
            "import: an import from {name} is not finished; continue it, or discard its progress with --restart"
        )));
    }
    Ok(match stage.as_str() {
        "copy" => Stage::Copy,
        "follow" => Stage::Follow,
        _ => Stage::Define,
    })
}

/// Records the beginning: objects of the source that exist on the server from now on were created by this import.
///
/// # Errors
/// The server's.
pub fn begin(server: &mut Server, source: &str) -> Result<(), StartError> {
    let name = literal(source);
    server.run(&format!(
        "CREATE DATABASE IF NOT EXISTS {SCHEMA}; CREATE TABLE IF NOT EXISTS {SCHEMA}.tables (schema_name VARCHAR(64) \
         CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, table_name VARCHAR(64) CHARACTER SET utf8mb4 COLLATE \
         utf8mb4_bin NOT NULL, is_copied INT NOT NULL, key_column VARCHAR(64) CHARACTER SET utf8mb4 COLLATE \
         utf8mb4_bin NOT NULL, PRIMARY KEY (schema_name, table_name)); CREATE TABLE IF NOT EXISTS {SCHEMA}.ranges \
         (schema_name VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, table_name VARCHAR(64) CHARACTER \
         SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, low VARCHAR(24) CHARACTER SET ascii NOT NULL, high VARCHAR(24) \
         CHARACTER SET ascii NOT NULL, row_count BIGINT UNSIGNED NOT NULL, checksum BIGINT UNSIGNED NOT NULL, \
         is_compared INT NOT NULL, PRIMARY KEY (schema_name, table_name, low)); {PARTS}; {DEFERRED}; CREATE TABLE IF NOT \
         EXISTS {SCHEMA}.source (name VARCHAR(300) CHARACTER SET utf8mb4 NOT NULL PRIMARY KEY, stage VARCHAR(10) \
         CHARACTER SET ascii NOT NULL); INSERT INTO {SCHEMA}.source VALUES ({name}, 'define')"
    ))?;
    Ok(())
}

/// The statement that creates the table of key values that are loaded in parts.
const PARTS: &str = "CREATE TABLE IF NOT EXISTS porpoise_import.parts (schema_name VARCHAR(64) CHARACTER SET utf8mb4 \
    COLLATE utf8mb4_bin NOT NULL, table_name VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, key_value \
    VARCHAR(24) CHARACTER SET ascii NOT NULL, PRIMARY KEY (schema_name, table_name, key_value))";

/// The statement that creates the table of indexes that are not created yet.
const DEFERRED: &str = "CREATE TABLE IF NOT EXISTS porpoise_import.deferred (schema_name VARCHAR(64) CHARACTER SET utf8mb4 \
    COLLATE utf8mb4_bin NOT NULL, table_name VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, index_name \
    VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, definition MEDIUMTEXT CHARACTER SET utf8mb4 NOT \
    NULL, PRIMARY KEY (schema_name, table_name, index_name))";

/// Brings tables that an earlier version has created to the present form. That version compared ranges before it
/// recorded them.
///
/// # Errors
/// The server's.
pub fn upgrade(server: &mut Server) -> Result<(), StartError> {
    let [found] = server.first_row(&format!(
        "SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = '{SCHEMA}' AND TABLE_NAME = 'ranges' AND \
         COLUMN_NAME = 'is_compared'"
    ))?;
    if found == "0" {
        server.run(&format!(
            "ALTER TABLE {SCHEMA}.ranges ADD COLUMN is_compared INT NOT NULL DEFAULT 1"
        ))?;
    }
    server.run(&format!("{PARTS}; {DEFERRED}"))?;
    Ok(())
}

/// Records that the definitions are complete, and the tables to be copied.
///
/// # Errors
/// The server's.
pub fn begin_copy(server: &mut Server, tables: &[Table]) -> Result<(), StartError> {
    let mut text = "START TRANSACTION".to_owned();
    for table in tables {
        text.push_str(&format!(
            "; INSERT INTO {SCHEMA}.tables VALUES ({}, {}, 0, {})",
            literal(&table.name.0),
            literal(&table.name.1),
            literal(table.key.as_deref().unwrap_or_default())
        ));
    }
    text.push_str(&format!(
        "; UPDATE {SCHEMA}.source SET stage = 'copy'; COMMIT"
    ));
    server.run(&text)?;
    Ok(())
}

/// Records that all rows are copied.
///
/// # Errors
/// The server's.
pub fn begin_follow(server: &mut Server) -> Result<(), StartError> {
    server.run(&format!("UPDATE {SCHEMA}.source SET stage = 'follow'"))?;
    Ok(())
}

/// Removes the progress of the import.
///
/// # Errors
/// The server's.
pub fn forget(server: &mut Server) -> Result<(), StartError> {
    server.run(&format!("DROP DATABASE IF EXISTS {SCHEMA}"))?;
    Ok(())
}

/// The tables that are copied completely, by schema and name.
///
/// # Errors
/// The server's.
pub fn copied(server: &mut Server) -> Result<BTreeSet<(String, String)>, StartError> {
    names(server, "is_copied = 1")
}

/// All tables of the import.
///
/// # Errors
/// The server's.
pub fn planned(server: &mut Server) -> Result<BTreeSet<(String, String)>, StartError> {
    names(server, "TRUE")
}

fn names(server: &mut Server, condition: &str) -> Result<BTreeSet<(String, String)>, StartError> {
    let rows = server.run(&format!(
        "SELECT schema_name, table_name FROM {SCHEMA}.tables WHERE {condition}"
    ))?;
    let name = |row: Vec<Option<String>>| {
        let mut cells = row.into_iter().map(Option::unwrap_or_default);
        (
            cells.next().unwrap_or_default(),
            cells.next().unwrap_or_default(),
        )
    };
    Ok(rows.rows.into_iter().map(name).collect())
}

fn unreadable() -> StartError {
    failed("a row of porpoise_import cannot be read")
}

/// A bound of a range in its recorded form.
fn limit(cell: Option<String>) -> Result<Option<i128>, StartError> {
    match cell.unwrap_or_default().as_str() {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| unreadable()),
    }
}

/// The copied ranges of a table, in order.
///
/// # Errors
/// The server's; a recorded range cannot be read.
pub fn ranges(server: &mut Server, table: &Table) -> Result<Vec<Range>, StartError> {
    let condition = of_table(&table.name);
    let rows = server.run(&format!(
        "SELECT low, high FROM {SCHEMA}.ranges WHERE {condition}"
    ))?;
    let mut ranges = Vec::new();
    for row in rows.rows {
        let mut cells = row.into_iter();
        let (low, high) = (cells.next().flatten(), cells.next().flatten());
        ranges.push((limit(low)?, limit(high)?));
    }
    ranges.sort_by_key(|(low, _)| low.unwrap_or(i128::MIN));
    Ok(ranges)
}

/// The ranges between copied ones.
pub fn gaps(copied: &[Range]) -> Vec<Range> {
    let (mut gaps, mut low) = (Vec::new(), None);
    for (at, range) in copied.iter().enumerate() {
        let begins = if at == 0 {
            range.0.is_some()
        } else {
            range.0 != low
        };
        if begins {
            gaps.push((low, range.0));
        }
        low = range.1;
        if low.is_none() {
            return gaps;
        }
    }
    gaps.push((low, None));
    gaps
}

/// The statement that records a range.
pub fn note_range(table: &Table, range: Range, rows: u64, checksum: u64) -> String {
    format!(
        "INSERT INTO {SCHEMA}.ranges VALUES ({}, {}, '{}', '{}', {rows}, {checksum}, 0)",
        literal(&table.name.0),
        literal(&table.name.1),
        limit_text(range.0),
        limit_text(range.1)
    )
}

fn limit_text(limit: Option<i128>) -> String {
    limit.map_or(String::new(), |limit| limit.to_string())
}

/// The statement that records that a range was compared: its rows are those that were read.
pub fn note_compared(table: &Table, range: Range) -> String {
    format!(
        "UPDATE {SCHEMA}.ranges SET is_compared = 1 WHERE {} AND low = '{}'",
        of_table(&table.name),
        limit_text(range.0)
    )
}

/// A range that was loaded, and not compared yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UncomparedRange {
    /// The range.
    pub range: Range,
    /// Number of rows that were read.
    pub rows: u64,
    /// Their checksum.
    pub checksum: u64,
}

/// The ranges of a table that an interrupted process has loaded, and not compared.
///
/// # Errors
/// The server's; a recorded range cannot be read.
pub fn uncompared(server: &mut Server, table: &Table) -> Result<Vec<UncomparedRange>, StartError> {
    let rows = server.run(&format!(
        "SELECT low, high, row_count, checksum FROM {SCHEMA}.ranges WHERE is_compared = 0 AND {}",
        of_table(&table.name)
    ))?;
    let mut found = Vec::new();
    for row in rows.rows {
        let mut cells = row.into_iter();
        let range = (
            limit(cells.next().flatten())?,
            limit(cells.next().flatten())?,
        );
        let mut number = || cells.next().flatten()?.parse().ok();
        let (Some(rows), Some(checksum)) = (number(), number()) else {
            return Err(unreadable());
        };
        found.push(UncomparedRange {
            range,
            rows,
            checksum,
        });
    }
    Ok(found)
}

/// The statements that record that the rows of a key value are loaded in parts, and that all of them are.
pub fn note_parts(table: &Table, value: i128) -> (String, String) {
    let (schema, name) = (literal(&table.name.0), literal(&table.name.1));
    (
        format!("REPLACE INTO {SCHEMA}.parts VALUES ({schema}, {name}, '{value}')"),
        format!(
            "DELETE FROM {SCHEMA}.parts WHERE {} AND key_value = '{value}'",
            of_table(&table.name)
        ),
    )
}

/// The key values of a table that an interrupted process has loaded in part.
///
/// # Errors
/// The server's; a value cannot be read.
pub fn parts(server: &mut Server, table: &Table) -> Result<Vec<i128>, StartError> {
    let rows = server.run(&format!(
        "SELECT key_value FROM {SCHEMA}.parts WHERE {}",
        of_table(&table.name)
    ))?;
    let value = |row: Vec<Option<String>>| {
        let text = row.into_iter().next().flatten();
        text.and_then(|text| text.parse().ok())
            .ok_or_else(unreadable)
    };
    rows.rows.into_iter().map(value).collect()
}

/// The statements that record that an index is created later, and that it exists.
pub fn note_deferred(table: &Table, index: &str, definition: &str) -> (String, String) {
    let (schema, name, index) = (
        literal(&table.name.0),
        literal(&table.name.1),
        literal(index),
    );
    (
        format!(
            "REPLACE INTO {SCHEMA}.deferred VALUES ({schema}, {name}, {index}, {})",
            literal(definition)
        ),
        format!(
            "DELETE FROM {SCHEMA}.deferred WHERE {} AND index_name = {index}",
            of_table(&table.name)
        ),
    )
}

/// The indexes of a table that are created later: names and definitions.
///
/// # Errors
/// The server's.
pub fn deferred(server: &mut Server, table: &Table) -> Result<Vec<(String, String)>, StartError> {
    let rows = server.run(&format!(
        "SELECT index_name, definition FROM {SCHEMA}.deferred WHERE {} ORDER BY index_name",
        of_table(&table.name)
    ))?;
    let pair = |row: Vec<Option<String>>| {
        let mut cells = row.into_iter().map(Option::unwrap_or_default);
        (
            cells.next().unwrap_or_default(),
            cells.next().unwrap_or_default(),
        )
    };
    Ok(rows.rows.into_iter().map(pair).collect())
}

/// The statement that records that a table is copied.
pub fn note_table(table: &Table) -> String {
    let condition = of_table(&table.name);
    format!("UPDATE {SCHEMA}.tables SET is_copied = 1 WHERE {condition}")
}

/// Removes the recorded ranges of a table, and its rows.
///
/// # Errors
/// The server's.
pub fn clear(server: &mut Server, table: &Table) -> Result<(), StartError> {
    let condition = of_table(&table.name);
    server.run(&format!(
        "UPDATE {SCHEMA}.tables SET is_copied = 0 WHERE {condition}; DELETE FROM {SCHEMA}.ranges WHERE {condition}; \
         DELETE FROM {SCHEMA}.parts WHERE {condition}; TRUNCATE TABLE {}",
        table.quoted()
    ))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_what_no_range_covers() {
        assert_eq!(gaps(&[]), [(None, None)]);
        assert_eq!(gaps(&[(None, None)]), []);
        assert_eq!(gaps(&[(None, Some(5))]), [(Some(5), None)]);
        assert_eq!(gaps(&[(Some(5), None)]), [(None, Some(5))]);
        let copied = [(None, Some(5)), (Some(5), Some(9)), (Some(20), Some(30))];
        assert_eq!(gaps(&copied), [(Some(9), Some(20)), (Some(30), None)]);
    }
}
