//! The progress of a copy, kept in the server that is loaded: the schema `porpoise_import`.
//!
//! | table | content |
//! |---|---|
//! | `source` | the source, the stage (`define`, `copy`, `follow`) |
//! | `tables` | a table: whether it is copied completely, the column by which it is divided |
//! | `ranges` | a copied range: `low` (at least), `high` (below), rows, checksum |
//!
//! The replica reads `tables` and `ranges` (`porpoise_replication::copied`). A range is recorded in the transaction that
//! loads its rows.

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
         CHARACTER SET ascii NOT NULL, row_count BIGINT UNSIGNED NOT NULL, checksum BIGINT UNSIGNED NOT NULL, PRIMARY \
         KEY (schema_name, table_name, low)); CREATE TABLE IF NOT EXISTS {SCHEMA}.source (name VARCHAR(300) \
         CHARACTER SET utf8mb4 NOT NULL PRIMARY KEY, stage VARCHAR(10) CHARACTER SET ascii NOT NULL); \
         INSERT INTO {SCHEMA}.source VALUES ({name}, 'define')"
    ))?;
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

/// The copied ranges of a table, in order.
///
/// # Errors
/// The server's; a recorded range cannot be read.
pub fn ranges(server: &mut Server, table: &Table) -> Result<Vec<Range>, StartError> {
    let condition = of_table(&table.name);
    let rows = server.run(&format!(
        "SELECT low, high FROM {SCHEMA}.ranges WHERE {condition}"
    ))?;
    let limit = |cell: Option<String>| match cell.unwrap_or_default().as_str() {
        "" => Ok(None),
        text => text
            .parse()
            .map(Some)
            .map_err(|_| failed("a range of porpoise_import.ranges cannot be read")),
    };
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
    let limit = |limit: Option<i128>| limit.map_or(String::new(), |limit| limit.to_string());
    format!(
        "INSERT INTO {SCHEMA}.ranges VALUES ({}, {}, '{}', '{}', {rows}, {checksum})",
        literal(&table.name.0),
        literal(&table.name.1),
        limit(range.0),
        limit(range.1)
    )
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
         TRUNCATE TABLE {}",
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
