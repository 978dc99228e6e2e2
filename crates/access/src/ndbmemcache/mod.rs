//! The database `ndbmemcache`: which prefix of memcached keys is mapped to which table.
//!
//! Both front ends use it: SQL changes the mapping (by ALTER TABLE, which calls
//! [`MappingEditor`], or by changing rows), the memcached protocol reads it.
//!
//! * [`schema`]: the tables and their default rows.
//! * [`editor`]: adds and drops mappings of prefixes.
//! * [`status_columns`], [`key_columns`]: columns in which memcached listeners describe the mapping
//!   in force to SQL.

pub mod editor;
pub mod schema;
mod stored_rows;

pub use crate::system_tables::{
    MEMCACHED_CONFIGURATION as CONFIGURATION, MEMCACHED_DATABASE as DATABASE,
};
pub use editor::{KEY_PRIVILEGES, MappingEditor, MappingError, PrefixMapping};
use porpoise_types::{Collation, ColumnType};
pub use stored_rows::{StoredRow, stored_rows};

/// The virtual table of [`DATABASE`] that shows the state of each configured prefix.
pub const STATUS: &str = "status";

fn text(name: &'static str, length: u32) -> (&'static str, ColumnType) {
    let ty = ColumnType::varchar(length, Collation::UTF8MB4_GENERAL_CI);
    (name, ty)
}

/// Columns of [`STATUS`].
pub fn status_columns() -> Vec<(&'static str, ColumnType)> {
    vec![
        ("server_role_id", ColumnType::bigint()),
        text("key_prefix", 250),
        text("container", 50),
        text("policy", 40),
        text("state", 16),
        text("reason", 1024),
    ]
}

/// Columns of the description of a key: how a listener resolves the key, and the row found.
pub fn key_columns() -> Vec<(&'static str, ColumnType)> {
    vec![
        text("server_role", 40),
        text("key_prefix", 250),
        text("policy", 80),
        text("container", 50),
        text("table_name", 130),
        text("key_values", 1024),
        text("state", 512),
        ("expires", ColumnType::bigint_unsigned()),
        text("last_error", 1024),
    ]
}
