//! Virtual tables, whose rows are computed when they are read. A [`VirtualTable`] defines the
//! columns; [`VirtualRows`] computes the rows.

mod grant_tables;
mod information_schema;
mod performance_schema;
mod system_tables;

pub use grant_tables::DATABASE_PRIVILEGES;
pub use system_tables::{SystemTable, system_table};

use crate::error::Result;
use porpoise_access::ndbmemcache;
use porpoise_types::{Collation, ColumnType, Value};

/// A column as name resolution sees it.
#[derive(Clone, Debug)]
pub struct ScopeColumn {
    /// The name.
    pub name: String,
    /// The type.
    pub ty: ColumnType,
    /// Whether it can be NULL.
    pub nullable: bool,
}

/// Source of the rows of virtual tables.
pub trait VirtualRows {
    /// Rows of a virtual table, by qualified name, that the session may see.
    ///
    /// # Errors
    /// 1227 for a table that needs a privilege.
    fn rows(&self, database: &str, table: &str) -> Result<Vec<Vec<Value>>>;
}

/// A virtual table.
#[derive(Debug)]
pub struct VirtualTable {
    /// The database.
    pub database: &'static str,
    /// The name.
    pub name: &'static str,
    /// Names and types of the columns.
    pub columns: fn() -> Vec<ScopeColumn>,
    /// Whether reading it needs the PROCESS privilege.
    pub needs_process: bool,
}

/// A text column.
pub fn text(name: &str, length: u32) -> ScopeColumn {
    ScopeColumn {
        name: name.to_owned(),
        ty: ColumnType::varchar(length, Collation::UTF8MB4_GENERAL_CI),
        nullable: true,
    }
}

/// A numeric column.
pub fn number(name: &str) -> ScopeColumn {
    ScopeColumn {
        name: name.to_owned(),
        ty: ColumnType::bigint(),
        nullable: true,
    }
}

/// Virtual tables whose rows come from outside of the SQL crates.
const PROVIDED: &[VirtualTable] = &[VirtualTable {
    database: ndbmemcache::DATABASE,
    name: ndbmemcache::STATUS,
    columns: || {
        let columns = ndbmemcache::status_columns().into_iter();
        let column = |(name, ty): (&str, ColumnType)| ScopeColumn {
            name: name.to_owned(),
            ty,
            nullable: true,
        };
        columns.map(column).collect()
    },
    needs_process: false,
}];

/// All virtual tables.
pub fn all() -> impl Iterator<Item = &'static VirtualTable> {
    PROVIDED
        .iter()
        .chain(information_schema::INFORMATION_SCHEMA)
        .chain(grant_tables::GRANT_TABLES)
        .chain(performance_schema::PERFORMANCE_SCHEMA)
        .chain(performance_schema::SYS)
        .chain(system_tables::SYSTEM_TABLES)
}

/// The virtual table of this name, case-insensitively.
pub fn find(database: &str, name: &str) -> Option<&'static VirtualTable> {
    all().find(|t| t.database.eq_ignore_ascii_case(database) && t.name.eq_ignore_ascii_case(name))
}

/// The databases that contain only virtual tables.
const DATABASES: [&str; 3] = ["information_schema", "performance_schema", "sys"];

/// Whether there is a database of this name that contains only virtual tables.
pub fn is_database(name: &str) -> bool {
    DATABASES.iter().any(|d| d.eq_ignore_ascii_case(name))
}

/// Whether a table has the rows of SHOW VARIABLES or of SHOW STATUS.
pub fn is_of_variables(table: &VirtualTable) -> bool {
    let names = [
        "global_status",
        "global_variables",
        "session_status",
        "session_variables",
    ];
    table.database == "performance_schema" && names.contains(&table.name)
}
