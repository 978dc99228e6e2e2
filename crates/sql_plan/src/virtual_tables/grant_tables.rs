//! MySQL's grant tables in `mysql`, as drivers read them for their metadata (manual, "Grant Tables").
//! They show `mysql.grants` and `mysql.column_grants`, which hold the grants, and cannot be changed.

use super::{ScopeColumn, VirtualTable};
use porpoise_types::{Collation, ColumnType};

const fn entry(name: &'static str, columns: fn() -> Vec<ScopeColumn>) -> VirtualTable {
    VirtualTable {
        database: "mysql",
        name,
        columns,
        needs_process: false,
    }
}

/// The grant tables.
pub(super) const GRANT_TABLES: &[VirtualTable] = &[
    entry("columns_priv", || {
        let mut columns = keys(&["Table_name", "Column_name"]);
        columns.extend([timestamp_column(), text("Column_priv", 64)]);
        columns
    }),
    entry("db", || {
        let mut columns = keys(&[]);
        columns.extend(DATABASE_PRIVILEGES.iter().map(|(name, _)| text(name, 1)));
        columns
    }),
    entry("procs_priv", || {
        let mut columns = keys(&["Routine_name", "Routine_type"]);
        columns.extend([
            text("Grantor", 288),
            text("Proc_priv", 64),
            timestamp_column(),
        ]);
        columns
    }),
    entry("tables_priv", || {
        let mut columns = keys(&["Table_name"]);
        columns.extend([text("Grantor", 288), timestamp_column()]);
        columns.extend([text("Table_priv", 255), text("Column_priv", 64)]);
        columns
    }),
];

/// The columns of `mysql.db` for privileges, with the names in GRANT.
pub const DATABASE_PRIVILEGES: &[(&str, &str)] = &[
    ("Select_priv", "SELECT"),
    ("Insert_priv", "INSERT"),
    ("Update_priv", "UPDATE"),
    ("Delete_priv", "DELETE"),
    ("Create_priv", "CREATE"),
    ("Drop_priv", "DROP"),
    ("Grant_priv", "GRANT OPTION"),
    ("References_priv", "REFERENCES"),
    ("Index_priv", "INDEX"),
    ("Alter_priv", "ALTER"),
    ("Create_tmp_table_priv", "CREATE TEMPORARY TABLES"),
    ("Lock_tables_priv", "LOCK TABLES"),
    ("Create_view_priv", "CREATE VIEW"),
    ("Show_view_priv", "SHOW VIEW"),
    ("Create_routine_priv", "CREATE ROUTINE"),
    ("Alter_routine_priv", "ALTER ROUTINE"),
    ("Execute_priv", "EXECUTE"),
    ("Event_priv", "EVENT"),
    ("Trigger_priv", "TRIGGER"),
];

/// Host, Db and User, and these columns.
fn keys(more: &[&str]) -> Vec<ScopeColumn> {
    let mut columns = vec![text("Host", 255), text("Db", 64), text("User", 32)];
    columns.extend(more.iter().map(|name| text(name, 64)));
    columns
}

fn text(name: &str, length: u32) -> ScopeColumn {
    ScopeColumn {
        name: name.to_owned(),
        ty: ColumnType::varchar(length, Collation::UTF8MB3_BIN),
        nullable: false,
    }
}

fn timestamp_column() -> ScopeColumn {
    ScopeColumn {
        name: "Timestamp".to_owned(),
        ty: ColumnType::datetime(0),
        nullable: false,
    }
}
