//! Rows of the information_schema tables, which [`porpoise_sql_plan::virtual_tables`] defines.
//!
//! Rows are computed for each statement that reads them, from the objects of the catalog and server
//! that its session may see, and are queried like those of any other table. Constraints are in
//! [`crate::show::constraints`].
//!
//! Values that this server does not have (sizes and the like) are NULL; tables of objects that it
//! does not have (triggers, files) are empty.

mod columns;
mod full_text;
mod grant_tables;
mod objects;
mod privileges;
mod roles;
mod routines;
mod server;
mod tools;

use crate::context::StatementContext;
use crate::show::constraints::{self, tables};
use porpoise_access::Privileges;

use porpoise_sql_expr::error::Result;
use porpoise_sql_plan::virtual_tables::{self, VirtualRows};
use porpoise_types::Value;

/// Computes the rows of a virtual table.
type RowsOf = fn(&StatementContext) -> Vec<Vec<Value>>;

/// The function for a table of information_schema; `None` if there is no such table.
fn rows_of(name: &str) -> Option<RowsOf> {
    let rows: RowsOf = match name {
        "ADMINISTRABLE_ROLE_AUTHORIZATIONS" => roles::administrable,
        "APPLICABLE_ROLES" => roles::applicable,
        "CHARACTER_SETS" => |_| server::character_sets(),
        "CHECK_CONSTRAINTS" => |cx| constraints::check_constraints(&cx.visible_catalog()),
        "CLUSTER_SERVERS" => server::cluster,
        "COLLATIONS" => |_| server::collations(),
        "COLLATION_CHARACTER_SET_APPLICABILITY" => |_| server::applicability(),
        "COLUMNS" => columns::rows,
        "COLUMN_PRIVILEGES" => privileges::column,
        "COLUMN_STATISTICS" => columns::histograms,
        "DEADLOCKS" => |cx| cx.server.deadlocks.rows(),
        "ENABLED_ROLES" => roles::enabled,
        "ENGINES" => server::engines,
        "HOT_KEYS" => crate::show::hot_keys::rows,
        "KEYWORDS" => |_| tools::keywords(),
        "KEY_COLUMN_USAGE" => |cx| constraints::key_column_usage(&cx.visible_catalog()),
        "LOCK_WAITS" => |cx| cx.server.deadlocks.wait_rows(),
        "PARTITIONS" => objects::partitions,
        "PLUGINS" => |_| tools::plugins(),
        "PROCESSLIST" => server::processes,
        "REFERENTIAL_CONSTRAINTS" => {
            |cx| constraints::referential_constraints(&cx.visible_catalog())
        }
        "SCHEMATA" => objects::schemata,
        "SCHEMA_PRIVILEGES" => privileges::schema,
        "STATISTICS" => columns::statistics,
        "TABLES" => objects::tables,
        "TABLE_CONSTRAINTS" => |cx| constraints::table_constraints(&cx.visible_catalog()),
        "TABLE_PRIVILEGES" => privileges::table,
        "USER_ATTRIBUTES" => roles::attributes,
        "USER_PRIVILEGES" => privileges::user,
        "VIEWS" => objects::views,
        "PARAMETERS" => routines::parameters,
        "ROUTINES" => routines::rows,
        "EVENTS" => crate::show::events::rows,
        "EVENT_FAILURES" => crate::show::events::failures,
        "TRIGGERS" => crate::show::triggers::information_schema,
        "FILES" | "PROFILING" => |_| Vec::new(),
        _ => return None,
    };
    Some(rows)
}

impl VirtualRows for StatementContext {
    fn rows(&self, database: &str, table: &str) -> Result<Vec<Vec<Value>>> {
        let Some(table) = virtual_tables::find(database, table) else {
            return Ok(Vec::new());
        };
        if table.needs_process {
            self.need_global(Privileges::PROCESS, "PROCESS")?;
        }
        if !self.sees_virtual(table) {
            return Err(self.table_denied("SELECT", table.name));
        }
        if let Some(rows) = crate::performance_schema::rows_of(table.database, table.name) {
            return rows(self);
        }
        if table.database == "mysql" {
            return Ok(grant_tables::rows_of(self, table.name));
        }
        if !virtual_tables::is_database(table.database) {
            let (database, name) = (table.database, table.name);
            return Ok(self.server.provided_rows(database, name, &self.rights()));
        }
        if let Some(rows) = full_text::rows_of(table.name) {
            return rows(self);
        }
        Ok(rows_of(table.name).map_or(Vec::new(), |rows| rows(self)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_defined_table_has_rows() {
        let defined = virtual_tables::all().filter(|t| t.database == "information_schema");
        let names: Vec<&str> = defined.map(|t| t.name).collect();
        assert!(names.len() > 30, "{names:?}");
        let known = |name: &str| rows_of(name).is_some() || full_text::rows_of(name).is_some();
        let missing: Vec<_> = names.iter().filter(|n| !known(n)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
