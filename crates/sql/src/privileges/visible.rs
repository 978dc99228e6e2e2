//! What a session may know of: databases, tables and views on which it may do anything
//! (manual, "INFORMATION_SCHEMA Introduction").

use super::{Privileges, Rights};
use crate::error::Result;
use crate::session::SqlSession;
use crate::virtual_tables::{self, Facts};
use porpoise_rows::catalog::Catalog;
use porpoise_types::Value;
use std::sync::Arc;

impl Rights {
    /// Whether anything may be done in a database.
    pub fn sees_database(&self, database: &str) -> bool {
        virtual_tables::is_database(database)
            || self.on_database(database).meets(Privileges::DATABASE)
            || self.tables.iter().any(|(d, ..)| d == database)
    }

    /// Whether anything may be done on a table or view.
    pub fn sees_table(&self, database: &str, table: &str) -> bool {
        self.on_table(database, table).meets(Privileges::TABLE)
    }

    /// Whether any of a table's columns may be read, written or referred to.
    pub fn sees_columns(&self, database: &str, table: &str) -> bool {
        let rights = self.on_table(database, table);
        rights.meets(Privileges::COLUMN)
    }

    /// What may be done with a table's columns, as COLUMNS.PRIVILEGES lists it.
    pub fn column_privileges(&self, database: &str, table: &str) -> String {
        let all = Privileges::COLUMN.0 & self.on_table(database, table).0;
        let names: Vec<String> = Privileges(all).names().map(str::to_lowercase).collect();
        names.join(",")
    }
}

impl SqlSession {
    /// The definitions, named only where this session may know of them. By number all tables
    /// are there.
    pub(crate) fn visible_catalog(&self) -> Arc<Catalog> {
        let catalog = self.server.db.catalog();
        let rights = self.rights();
        if rights.global().meets(Privileges::TABLE) {
            return catalog;
        }
        let mut seen = Catalog::clone(&catalog);
        let all = rights.global().has(Privileges::SHOW_DATABASES);
        seen.databases
            .retain(|name, _| all || rights.sees_database(name));
        for (name, database) in &mut seen.databases {
            let tables = &mut Arc::make_mut(database).tables;
            tables.retain(|table, _| rights.sees_table(name, table));
        }
        seen.views
            .retain(|(database, view), _| rights.sees_table(database, view));
        Arc::new(seen)
    }
}

impl Facts for SqlSession {
    fn rows(&self, database: &str, table: &str) -> Result<Vec<Vec<Value>>> {
        let Some(table) = virtual_tables::find(database, table) else {
            return Ok(Vec::new());
        };
        if table.needs_process {
            self.need_global(Privileges::PROCESS, "PROCESS")?;
        }
        Ok(match table.rows {
            Some(rows) => rows(self),
            None => self.server.provided_rows(table.database, table.name),
        })
    }
}
