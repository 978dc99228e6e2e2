//! Tables whose rows are made when they are asked for: what the server knows
//! about itself. An entry names its columns and its rows; nothing is stored.

use crate::bind::ScopeColumn;
use crate::show::constraints;
use porpoise_types::{Collation, ColumnType, Value};

/// What virtual tables can ask of the server.
pub trait Facts {
    /// Rows of a virtual table that another room provides (the memcached
    /// door's configuration state, for one), by qualified name.
    fn rows(&self, database: &str, table: &str) -> Vec<Vec<Value>>;
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
}

/// A column of text.
pub(crate) fn text(name: &str, length: u32) -> ScopeColumn {
    ScopeColumn {
        name: name.to_owned(),
        ty: ColumnType::varchar(length, Collation::UTF8MB4_GENERAL_CI),
        nullable: true,
    }
}

/// A column of numbers.
pub(crate) fn number(name: &str) -> ScopeColumn {
    ScopeColumn {
        name: name.to_owned(),
        ty: ColumnType::bigint(),
        nullable: true,
    }
}

/// The registry.
pub const TABLES: &[VirtualTable] = &[
    VirtualTable {
        database: "ndbmemcache",
        name: "status",
        columns: || {
            vec![
                number("server_role_id"),
                text("key_prefix", 250),
                text("container", 50),
                text("policy", 40),
                text("state", 16),
                text("reason", 1024),
            ]
        },
    },
    VirtualTable {
        database: "information_schema",
        name: "SCHEMATA",
        columns: || {
            vec![
                text("CATALOG_NAME", 64),
                text("SCHEMA_NAME", 64),
                text("DEFAULT_CHARACTER_SET_NAME", 64),
                text("DEFAULT_COLLATION_NAME", 64),
            ]
        },
    },
    VirtualTable {
        database: "information_schema",
        name: "TABLES",
        columns: || {
            vec![
                text("TABLE_CATALOG", 64),
                text("TABLE_SCHEMA", 64),
                text("TABLE_NAME", 64),
                text("TABLE_TYPE", 64),
                text("ENGINE", 64),
                text("TABLE_COLLATION", 64),
                text("TABLE_COMMENT", 2048),
            ]
        },
    },
    VirtualTable {
        database: "information_schema",
        name: "KEY_COLUMN_USAGE",
        columns: constraints::key_column_usage_columns,
    },
    VirtualTable {
        database: "information_schema",
        name: "REFERENTIAL_CONSTRAINTS",
        columns: constraints::referential_constraint_columns,
    },
    VirtualTable {
        database: "information_schema",
        name: "TABLE_CONSTRAINTS",
        columns: constraints::table_constraint_columns,
    },
];

/// The virtual table of that name, in any case.
pub fn find(database: &str, name: &str) -> Option<&'static VirtualTable> {
    TABLES
        .iter()
        .find(|t| t.database.eq_ignore_ascii_case(database) && t.name.eq_ignore_ascii_case(name))
}

/// Whether there is a database of that name that holds virtual tables only.
pub fn is_database(name: &str) -> bool {
    name.eq_ignore_ascii_case("information_schema")
}
