//! What a session may know of: databases, tables and views on which it may do anything
//! (manual, "INFORMATION_SCHEMA Introduction").

use crate::error::Result;
use crate::session::SqlSession;
use crate::virtual_tables::{self, Facts};
use porpoise_access::Privileges;
use porpoise_rows::catalog::Catalog;
use porpoise_types::Value;
use std::sync::Arc;

impl SqlSession {
    /// The definitions, named only where this session may know of them. By number all tables
    /// are there.
    pub(crate) fn visible_catalog(&self) -> Arc<Catalog> {
        let catalog = self.server.db.catalog();
        let rights = self.rights();
        if rights.everywhere().meets(Privileges::TABLE) {
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

impl SqlSession {
    /// The rows of `ndbmemcache.status` that this session may see: those of tables that it
    /// may see. Database and table stand behind the columns and are cut off.
    fn memcached_status(&self, rows: Vec<Vec<Value>>) -> Vec<Vec<Value>> {
        const COLUMNS: usize = 6;
        let rights = self.rights();
        let everything = self.may_everything();
        let name = |value: Option<&Value>| match value {
            Some(Value::Bytes(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        };
        let seen = |row: &Vec<Value>| {
            let (database, table) = (name(row.get(COLUMNS)), name(row.get(COLUMNS + 1)));
            everything || rights.sees_table(&database, &table)
        };
        let mut rows: Vec<Vec<Value>> = rows.into_iter().filter(seen).collect();
        for row in &mut rows {
            row.truncate(COLUMNS);
        }
        rows
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
            None => self.memcached_status(self.server.provided_rows(table.database, table.name)),
        })
    }
}
