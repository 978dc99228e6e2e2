//! Tables whose rows are made when they are asked for: what the server knows
//! about itself. An entry names its columns and its rows; nothing is stored.

use crate::bind::ScopeColumn;
use crate::error::Result;
use crate::information_schema;
use crate::session::SqlSession;
use porpoise_types::{Collation, ColumnType, Value};

/// What reading virtual tables takes.
pub trait Facts {
    /// Rows of a virtual table by qualified name, as far as the session may see them.
    ///
    /// # Errors
    /// 1227 for a table that needs a privilege.
    fn rows(&self, database: &str, table: &str) -> Result<Vec<Vec<Value>>>;
}

/// Makes the rows of a virtual table.
pub type RowsOf = fn(&SqlSession) -> Vec<Vec<Value>>;

/// A virtual table.
#[derive(Debug)]
pub struct VirtualTable {
    /// The database.
    pub database: &'static str,
    /// The name.
    pub name: &'static str,
    /// Names and types of the columns.
    pub columns: fn() -> Vec<ScopeColumn>,
    /// Reading it needs PROCESS.
    pub needs_process: bool,
    /// Makes the rows; none where another room provides them.
    pub rows: Option<RowsOf>,
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

/// Tables of other rooms.
const TABLES: &[VirtualTable] = &[VirtualTable {
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
    needs_process: false,
    rows: None,
}];

/// All virtual tables.
pub fn all() -> impl Iterator<Item = &'static VirtualTable> {
    TABLES.iter().chain(information_schema::TABLES)
}

/// The virtual table of that name, in any case.
pub fn find(database: &str, name: &str) -> Option<&'static VirtualTable> {
    all().find(|t| t.database.eq_ignore_ascii_case(database) && t.name.eq_ignore_ascii_case(name))
}

/// Whether there is a database of that name that holds virtual tables only.
pub fn is_database(name: &str) -> bool {
    name.eq_ignore_ascii_case("information_schema")
}
