//! Indexes that are created after the rows of their table have been loaded.
//!
//! An index of a loaded table is built in sorted runs, several indexes concurrently. Maintaining it while rows are loaded costs more,
//! because each entry goes to another place of the index. So the indexes of large tables are dropped while the
//! table is empty, recorded with their definitions (`notes.rs`), and created by one ALTER TABLE after the table's last range.
//!
//! Invariants:
//! 1. An index is recorded before it is dropped, and stays recorded until it exists.
//! 2. Constraints are never deferred: unique indexes, foreign keys, and indexes that a foreign key or AUTO_INCREMENT needs,
//!    whose removal the server refuses. A violation is found by the transaction that loads the row, so that the import can
//!    continue once the row is repaired at the source.
//! 3. The replica never applies anything to a table whose indexes are missing: an interrupted import creates them
//!    before it continues, and keeps them from then on.

use super::super::connection::{Server, quote};
use super::notes;
use super::plan::Table;
use crate::config::StartError;
use porpoise_client::Error;

/// Size in bytes, as the source estimates it, from which a table's indexes are deferred.
const LARGE: u64 = 1 << 20;

/// The indexes in the text of SHOW CREATE TABLE that may be deferred: names and definitions.
fn indexes(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        let definition = line.strip_suffix(',').unwrap_or(line);
        let Some(rest) = definition.strip_prefix("KEY `") else {
            continue;
        };
        if let Some(name) = quoted_name(rest) {
            found.push((name, definition.to_owned()));
        }
    }
    found
}

/// The name before the closing backquote.
fn quoted_name(text: &str) -> Option<String> {
    let mut name = String::new();
    let mut chars = text.chars().peekable();
    loop {
        match chars.next()? {
            '`' if chars.peek() == Some(&'`') => {
                chars.next();
                name.push('`');
            }
            '`' => return Some(name),
            c => name.push(c),
        }
    }
}

/// Drops the indexes of large tables, which are empty.
///
/// # Errors
/// The server's.
pub fn drop_indexes(server: &mut Server, tables: &[Table]) -> Result<(), StartError> {
    for table in tables.iter().filter(|table| table.bytes >= LARGE) {
        let [_, text] = server.first_row(&format!("SHOW CREATE TABLE {}", table.quoted()))?;
        for (name, definition) in indexes(&text) {
            let (record, remove) = notes::note_deferred(table, &name, &definition);
            server.run(&record)?;
            let drop = format!("ALTER TABLE {} DROP INDEX {}", table.quoted(), quote(&name));
            match server.attempt(&drop, None) {
                Ok(_) => {}
                // A constraint needs it.
                Err(Error::Server(_)) => drop_record(server, &remove)?,
                Err(error) => return Err(super::failed(error)),
            }
        }
    }
    Ok(())
}

fn drop_record(server: &mut Server, remove: &str) -> Result<(), StartError> {
    server.run(remove).map(drop)
}

/// Creates the deferred indexes of a table.
///
/// # Errors
/// The server's.
pub fn create_indexes(server: &mut Server, table: &Table) -> Result<(), StartError> {
    let deferred = notes::deferred(server, table)?;
    if deferred.is_empty() {
        return Ok(());
    }
    let existing = server.run(&format!("SHOW INDEX FROM {}", table.quoted()))?;
    let names = existing
        .rows
        .into_iter()
        .filter_map(|row| row.into_iter().nth(2)?);
    let existing: std::collections::BTreeSet<String> = names.collect();
    let missing = deferred.iter().filter(|(name, _)| !existing.contains(name));
    let clauses: Vec<String> = missing
        .map(|(_, definition)| format!("ADD {definition}"))
        .collect();
    if !clauses.is_empty() {
        let alter = format!(
            "ALTER TABLE {} {}, LOCK = EXCLUSIVE",
            table.quoted(),
            clauses.join(", ")
        );
        match server.attempt(&alter, None) {
            Ok(_) => {}
            Err(error) => {
                return Err(super::failed(format_args!(
                    "table {}: its indexes cannot be created: {error}",
                    table.shown()
                )));
            }
        }
    }
    for (name, _) in &deferred {
        let (_, remove) = notes::note_deferred(table, name, "");
        server.run(&remove)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_that_constrain_nothing_are_found() {
        let text = "CREATE TABLE `t` (\n  `a` int NOT NULL,\n  `KEY ` int DEFAULT NULL COMMENT 'KEY `x` (`a`)',\n  PRIMARY KEY \
                    (`a`),\n  UNIQUE KEY `u` (`b`),\n  KEY `one` (`b`,`c`(10) DESC),\n  KEY `o``dd` (`b`) COMMENT 'x, \
                    y',\n  FULLTEXT KEY `f` (`c`),\n  CONSTRAINT `k` FOREIGN KEY (`b`) REFERENCES `p` (`id`)\n) ENGINE=InnoDB";
        let found = indexes(text);
        let expected = [
            ("one", "KEY `one` (`b`,`c`(10) DESC)"),
            ("o`dd", "KEY `o``dd` (`b`) COMMENT 'x, y'"),
        ];
        assert_eq!(
            found,
            expected.map(|(name, text)| (name.to_owned(), text.to_owned()))
        );
    }
}
