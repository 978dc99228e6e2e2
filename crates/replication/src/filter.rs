//! Filters of a replica: which tables and statements of the source it applies (manual, "CHANGE REPLICATION FILTER").
//!
//! Rules on databases apply to rows by the database of their table, and to statements by their default database. Rules
//! on tables apply to rows only; a statement that defines something is executed whatever its tables are.
//! Rows of the system databases are never applied: their tables differ between servers, and accounts arrive as
//! statements.

use serde::{Deserialize, Serialize};

/// Databases whose rows are not applied.
const SYSTEM: [&str; 4] = ["mysql", "information_schema", "performance_schema", "sys"];

/// Rules. An empty list is not a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Filters {
    /// REPLICATE_DO_DB.
    pub do_db: Vec<String>,
    /// REPLICATE_IGNORE_DB.
    pub ignore_db: Vec<String>,
    /// REPLICATE_DO_TABLE: `database.table`.
    pub do_table: Vec<String>,
    /// REPLICATE_IGNORE_TABLE.
    pub ignore_table: Vec<String>,
    /// REPLICATE_WILD_DO_TABLE: patterns of LIKE for `database.table`.
    pub wild_do_table: Vec<String>,
    /// REPLICATE_WILD_IGNORE_TABLE.
    pub wild_ignore_table: Vec<String>,
    /// REPLICATE_REWRITE_DB: from, to.
    pub rewrite_db: Vec<(String, String)>,
}

impl Filters {
    /// The name of a database on this server.
    #[must_use]
    pub fn rewritten<'n>(&'n self, database: &'n str) -> &'n str {
        let rule = self.rewrite_db.iter().find(|(from, _)| from == database);
        rule.map_or(database, |(_, to)| to)
    }

    /// Whether rows of a table are applied, by its name on this server.
    #[must_use]
    pub fn applies_to_table(&self, database: &str, table: &str) -> bool {
        if SYSTEM
            .iter()
            .any(|name| name.eq_ignore_ascii_case(database))
        {
            return false;
        }
        if !self.applies_to_database(database) {
            return false;
        }
        let name = format!("{database}.{table}");
        let has = |list: &[String]| list.contains(&name);
        let matches = |list: &[String]| list.iter().any(|rule| like(&name, rule));
        // In MySQL's order: the first kind of rule that names the table decides.
        if has(&self.do_table) {
            return true;
        }
        if has(&self.ignore_table) {
            return false;
        }
        if matches(&self.wild_do_table) {
            return true;
        }
        if matches(&self.wild_ignore_table) {
            return false;
        }
        self.do_table.is_empty() && self.wild_do_table.is_empty()
    }

    /// Whether statements with a default database are executed, by its name on this server.
    #[must_use]
    pub fn applies_to_database(&self, database: &str) -> bool {
        let has = |list: &[String]| list.iter().any(|name| name == database);
        if self.do_db.is_empty() {
            !has(&self.ignore_db)
        } else {
            has(&self.do_db)
        }
    }
}

/// Whether a name matches a pattern: `%` any characters, `_` one, `\` takes the next one literally.
fn like(name: &str, pattern: &str) -> bool {
    porpoise_types::Collation::UTF8MB4_BIN.like(name.as_bytes(), pattern.as_bytes(), Some('\\'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn databases_tables_and_patterns() {
        let none = Filters::default();
        assert!(none.applies_to_table("shop", "items"));
        assert!(!none.applies_to_table("mysql", "user"));
        let databases = Filters {
            do_db: list(&["shop"]),
            ..Filters::default()
        };
        assert!(databases.applies_to_table("shop", "items"));
        assert!(!databases.applies_to_table("logs", "items"));
        let tables = Filters {
            do_table: list(&["shop.items"]),
            ignore_table: list(&["shop.log"]),
            wild_do_table: list(&["shop.t\\_%"]),
            ..Filters::default()
        };
        assert!(tables.applies_to_table("shop", "items"));
        assert!(!tables.applies_to_table("shop", "log"));
        assert!(tables.applies_to_table("shop", "t_1"));
        assert!(!tables.applies_to_table("shop", "tx1"));
        let ignored = Filters {
            wild_ignore_table: list(&["shop.%"]),
            rewrite_db: vec![("a".to_owned(), "b".to_owned())],
            ..Filters::default()
        };
        assert!(!ignored.applies_to_table("shop", "x"));
        assert!(ignored.applies_to_table("logs", "x"));
        assert_eq!((ignored.rewritten("a"), ignored.rewritten("c")), ("b", "c"));
    }
}
