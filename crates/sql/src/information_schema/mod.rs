//! The tables of information_schema, with MySQL 8's columns, types and order
//! (manual, "INFORMATION_SCHEMA Tables").
//!
//! A table is an entry: its columns as a list of names and types, and the
//! function that makes its rows from the catalog and the server. Rows are made
//! anew for each statement that reads them, from what its session may know of, and are
//! queried like those of any other table. Constraints stand in [`crate::show::constraints`].
//!
//! What this server does not keep (numbers of rows, sizes) is NULL; tables of
//! things that it does not have (routines, triggers, events, files) are empty.

mod columns;
mod locks;
mod objects;
mod privileges;
mod roles;
mod server;
mod tools;

use crate::bind::ScopeColumn;
use crate::deadlocks;
use crate::session::SqlSession;
use crate::show::constraints;
use crate::virtual_tables::{RowsOf, VirtualTable};
use porpoise_rows::catalog::{Catalog, Table};
use porpoise_types::{Collation, ColumnType, Kind, Value};
use std::sync::Arc;

/// The type of a column.
#[derive(Clone, Copy, Debug)]
enum T {
    /// VARCHAR of so many characters.
    Text(u32),
    /// VARCHAR(64) that tells capitals from small letters: names of databases and tables.
    Name,
    /// LONGTEXT.
    Long,
    /// INT.
    Int,
    /// INT UNSIGNED.
    Unsigned,
    /// BIGINT.
    Big,
    /// BIGINT UNSIGNED.
    BigUnsigned,
    /// TIMESTAMP and DATETIME.
    Moment,
    /// BINARY(0): always NULL.
    Nothing,
}

fn column(name: &str, ty: T) -> ScopeColumn {
    let ci = Collation::UTF8MB3_GENERAL_CI;
    let ty = match ty {
        T::Text(length) => ColumnType::varchar(length, ci),
        T::Name => ColumnType::varchar(64, Collation::UTF8MB3_BIN),
        T::Long => ColumnType::text(Kind::LongText, ci),
        T::Int => ColumnType::int(Kind::Int),
        T::Unsigned => ColumnType::uint(Kind::Int),
        T::Big => ColumnType::bigint(),
        T::BigUnsigned => ColumnType::bigint_unsigned(),
        T::Moment => ColumnType::datetime(0),
        T::Nothing => ColumnType::binary(0),
    };
    ScopeColumn {
        name: name.to_owned(),
        ty,
        nullable: true,
    }
}

fn columns_of(list: &[(&str, T)]) -> Vec<ScopeColumn> {
    list.iter().map(|(name, ty)| column(name, *ty)).collect()
}

fn none(_: &SqlSession) -> Vec<Vec<Value>> {
    Vec::new()
}

const fn entry(
    name: &'static str,
    columns: fn() -> Vec<ScopeColumn>,
    rows: RowsOf,
) -> VirtualTable {
    VirtualTable {
        database: "information_schema",
        name,
        columns,
        needs_process: false,
        rows: Some(rows),
    }
}

/// An entry of a table that tells what others do.
const fn of_others(
    name: &'static str,
    columns: fn() -> Vec<ScopeColumn>,
    rows: RowsOf,
) -> VirtualTable {
    VirtualTable {
        needs_process: true,
        ..entry(name, columns, rows)
    }
}

/// All tables of the catalog by database and name.
fn tables(catalog: &Catalog) -> impl Iterator<Item = &Arc<Table>> {
    let ids = catalog.databases.values().flat_map(|d| d.tables.values());
    ids.filter_map(|id| catalog.table_by_id(*id))
}

/// The registry.
pub const TABLES: &[VirtualTable] = &[
    entry(
        "ADMINISTRABLE_ROLE_AUTHORIZATIONS",
        || columns_of(roles::APPLICABLE),
        roles::administrable,
    ),
    entry(
        "APPLICABLE_ROLES",
        || columns_of(roles::APPLICABLE),
        roles::applicable,
    ),
    entry(
        "CHARACTER_SETS",
        || columns_of(server::CHARACTER_SETS),
        |_| server::character_sets(),
    ),
    entry(
        "CHECK_CONSTRAINTS",
        || columns_of(objects::CHECK_CONSTRAINTS),
        |s| constraints::check_constraints(&s.visible_catalog()),
    ),
    entry(
        "COLLATIONS",
        || columns_of(server::COLLATIONS),
        |_| server::collations(),
    ),
    entry(
        "COLLATION_CHARACTER_SET_APPLICABILITY",
        || columns_of(server::APPLICABILITY),
        |_| server::applicability(),
    ),
    entry("COLUMNS", || columns_of(columns::COLUMNS), columns::rows),
    entry(
        "COLUMN_PRIVILEGES",
        || columns_of(privileges::COLUMN),
        privileges::column,
    ),
    entry(
        "COLUMN_STATISTICS",
        || columns_of(tools::COLUMN_STATISTICS),
        none,
    ),
    of_others(
        "DEADLOCKS",
        || columns_of(&locks::DEADLOCKS.concat()),
        |s| deadlocks::rows(&s.server),
    ),
    entry(
        "ENABLED_ROLES",
        || columns_of(roles::ENABLED),
        roles::enabled,
    ),
    entry(
        "ENGINES",
        || columns_of(server::ENGINES),
        |_| server::engines(),
    ),
    entry("EVENTS", || columns_of(objects::EVENTS), none),
    entry("FILES", || columns_of(tools::FILES), none),
    entry(
        "KEYWORDS",
        || columns_of(tools::KEYWORDS),
        |_| tools::keywords(),
    ),
    entry(
        "KEY_COLUMN_USAGE",
        || columns_of(objects::KEY_COLUMN_USAGE),
        |s| constraints::key_column_usage(&s.visible_catalog()),
    ),
    of_others(
        "LOCK_WAITS",
        || columns_of(&locks::LOCK_WAITS.concat()),
        |s| deadlocks::wait_rows(&s.server),
    ),
    entry("PARAMETERS", || columns_of(tools::PARAMETERS), none),
    entry(
        "PARTITIONS",
        || columns_of(objects::PARTITIONS),
        objects::partitions,
    ),
    entry(
        "PLUGINS",
        || columns_of(tools::PLUGINS),
        |_| tools::plugins(),
    ),
    entry(
        "PROCESSLIST",
        || columns_of(server::PROCESSLIST),
        server::processes,
    ),
    entry("PROFILING", || columns_of(tools::PROFILING), none),
    entry(
        "REFERENTIAL_CONSTRAINTS",
        || columns_of(objects::REFERENTIAL_CONSTRAINTS),
        |s| constraints::referential_constraints(&s.visible_catalog()),
    ),
    entry("ROUTINES", || columns_of(objects::ROUTINES), none),
    entry(
        "SCHEMATA",
        || columns_of(objects::SCHEMATA),
        objects::schemata,
    ),
    entry(
        "SCHEMA_PRIVILEGES",
        || columns_of(privileges::SCHEMA),
        privileges::schema,
    ),
    entry(
        "STATISTICS",
        || columns_of(columns::STATISTICS),
        columns::statistics,
    ),
    entry("TABLES", || columns_of(objects::TABLES), objects::tables),
    entry(
        "TABLE_CONSTRAINTS",
        || columns_of(objects::TABLE_CONSTRAINTS),
        |s| constraints::table_constraints(&s.visible_catalog()),
    ),
    entry(
        "TABLE_PRIVILEGES",
        || columns_of(privileges::TABLE),
        privileges::table,
    ),
    entry("TRIGGERS", || columns_of(objects::TRIGGERS), none),
    entry(
        "USER_ATTRIBUTES",
        || columns_of(roles::ATTRIBUTES),
        roles::attributes,
    ),
    entry(
        "USER_PRIVILEGES",
        || columns_of(privileges::USER),
        privileges::user,
    ),
    entry("VIEWS", || columns_of(objects::VIEWS), objects::views),
];
