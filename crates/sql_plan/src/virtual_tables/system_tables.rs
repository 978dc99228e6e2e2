//! Tables of `mysql` that tools read and that have no rows here: logs, loadable functions, plugins, other
//! servers, time zones (manual, "The mysql System Schema"), with MySQL 8.4's columns.
//!
//! Without them dump programs end with error 1146: they read the functions and servers of every server, and
//! write the definitions of the log tables.

use super::{ScopeColumn, VirtualTable};
use porpoise_types::{Collation, ColumnType, Kind};

/// Definition that SHOW CREATE TABLE prints of a system table, besides its columns' names and types.
#[derive(Debug)]
pub struct SystemTable {
    /// Name of the table.
    pub name: &'static str,
    /// Storage engine.
    pub engine: &'static str,
    /// Collation of the table.
    pub collation: Collation,
    /// Comment.
    pub comment: &'static str,
    /// Clauses after the types of columns: their defaults, by name.
    pub defaults: &'static [(&'static str, &'static str)],
    /// The primary key.
    pub key: &'static [&'static str],
}

const fn entry(name: &'static str, columns: fn() -> Vec<ScopeColumn>) -> VirtualTable {
    VirtualTable {
        database: "mysql",
        name,
        columns,
        needs_process: false,
    }
}

fn column(name: &str, ty: ColumnType) -> ScopeColumn {
    ScopeColumn {
        name: name.to_owned(),
        ty,
        nullable: false,
    }
}

/// CHAR of utf8mb3.
fn chars(name: &str, length: u32) -> ScopeColumn {
    column(
        name,
        ColumnType::char(length, Collation::UTF8MB3_GENERAL_CI),
    )
}

fn words(name: &str, words: [&str; 2]) -> ScopeColumn {
    let words = words.map(|word| Box::from(word.as_bytes())).to_vec();
    column(
        name,
        ColumnType::enumeration(words, Collation::UTF8MB3_GENERAL_CI),
    )
}

fn medium_text(name: &str) -> ScopeColumn {
    column(
        name,
        ColumnType::text(Kind::MediumText, Collation::UTF8MB3_GENERAL_CI),
    )
}

/// The tables.
pub(super) const SYSTEM_TABLES: &[VirtualTable] = &[
    entry("func", || {
        vec![
            column("name", ColumnType::char(64, Collation::UTF8MB3_BIN)),
            column("ret", ColumnType::int(Kind::TinyInt)),
            column("dl", ColumnType::char(128, Collation::UTF8MB3_BIN)),
            words("type", ["function", "aggregate"]),
        ]
    }),
    entry("general_log", || {
        vec![
            column("event_time", ColumnType::timestamp(6)),
            medium_text("user_host"),
            column("thread_id", ColumnType::bigint_unsigned()),
            column("server_id", ColumnType::uint(Kind::Int)),
            column(
                "command_type",
                ColumnType::varchar(64, Collation::UTF8MB3_GENERAL_CI),
            ),
            column("argument", ColumnType::blob(Kind::MediumBlob)),
        ]
    }),
    entry("plugin", || {
        let text = |length| ColumnType::varchar(length, Collation::UTF8MB3_GENERAL_CI);
        vec![column("name", text(64)), column("dl", text(128))]
    }),
    entry("servers", || {
        vec![
            chars("Server_name", 64),
            column("Host", ColumnType::char(255, Collation::ASCII_GENERAL_CI)),
            chars("Db", 64),
            chars("Username", 64),
            chars("Password", 64),
            column("Port", ColumnType::int(Kind::Int)),
            chars("Socket", 64),
            chars("Wrapper", 64),
            chars("Owner", 64),
        ]
    }),
    entry("slow_log", || {
        let int = ColumnType::int(Kind::Int);
        vec![
            column("start_time", ColumnType::timestamp(6)),
            medium_text("user_host"),
            column("query_time", ColumnType::time(6)),
            column("lock_time", ColumnType::time(6)),
            column("rows_sent", int.clone()),
            column("rows_examined", int.clone()),
            column(
                "db",
                ColumnType::varchar(512, Collation::UTF8MB3_GENERAL_CI),
            ),
            column("last_insert_id", int.clone()),
            column("insert_id", int),
            column("server_id", ColumnType::uint(Kind::Int)),
            column("sql_text", ColumnType::blob(Kind::MediumBlob)),
            column("thread_id", ColumnType::bigint_unsigned()),
        ]
    }),
    entry("time_zone", || {
        vec![
            column("Time_zone_id", ColumnType::uint(Kind::Int)),
            words("Use_leap_seconds", ["Y", "N"]),
        ]
    }),
    entry("time_zone_leap_second", || {
        vec![
            column("Transition_time", ColumnType::bigint()),
            column("Correction", ColumnType::int(Kind::Int)),
        ]
    }),
    entry("time_zone_name", || {
        vec![
            chars("Name", 64),
            column("Time_zone_id", ColumnType::uint(Kind::Int)),
        ]
    }),
    entry("time_zone_transition", || {
        vec![
            column("Time_zone_id", ColumnType::uint(Kind::Int)),
            column("Transition_time", ColumnType::bigint()),
            column("Transition_type_id", ColumnType::uint(Kind::Int)),
        ]
    }),
    entry("time_zone_transition_type", || {
        vec![
            column("Time_zone_id", ColumnType::uint(Kind::Int)),
            column("Transition_type_id", ColumnType::uint(Kind::Int)),
            column("Offset", ColumnType::int(Kind::Int)),
            column("Is_DST", ColumnType::uint(Kind::TinyInt)),
            chars("Abbreviation", 8),
        ]
    }),
];

const NOW: &str = "DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)";
const EMPTY: &str = "DEFAULT ''";
const ZERO: &str = "DEFAULT '0'";

const fn log(
    name: &'static str,
    comment: &'static str,
    defaults: &'static [(&'static str, &'static str)],
) -> SystemTable {
    SystemTable {
        name,
        engine: "CSV",
        collation: Collation::UTF8MB3_GENERAL_CI,
        comment,
        defaults,
        key: &[],
    }
}

const fn stored(
    name: &'static str,
    comment: &'static str,
    defaults: &'static [(&'static str, &'static str)],
    key: &'static [&'static str],
) -> SystemTable {
    SystemTable {
        name,
        engine: "InnoDB",
        collation: Collation::UTF8MB3_GENERAL_CI,
        comment,
        defaults,
        key,
    }
}

const DETAILS: &[SystemTable] = &[
    SystemTable {
        collation: Collation::UTF8MB3_BIN,
        ..stored(
            "func",
            "User defined functions",
            &[("name", EMPTY), ("ret", ZERO), ("dl", EMPTY)],
            &["name"],
        )
    },
    log("general_log", "General log", &[("event_time", NOW)]),
    stored(
        "plugin",
        "MySQL plugins",
        &[("name", EMPTY), ("dl", EMPTY)],
        &["name"],
    ),
    stored(
        "servers",
        "MySQL Foreign Servers table",
        &[
            ("Server_name", EMPTY),
            ("Host", EMPTY),
            ("Db", EMPTY),
            ("Username", EMPTY),
            ("Password", EMPTY),
            ("Port", ZERO),
            ("Socket", EMPTY),
            ("Wrapper", EMPTY),
            ("Owner", EMPTY),
        ],
        &["Server_name"],
    ),
    log("slow_log", "Slow log", &[("start_time", NOW)]),
    stored(
        "time_zone",
        "Time zones",
        &[
            ("Time_zone_id", "AUTO_INCREMENT"),
            ("Use_leap_seconds", "DEFAULT 'N'"),
        ],
        &["Time_zone_id"],
    ),
    stored(
        "time_zone_leap_second",
        "Leap seconds information for time zones",
        &[],
        &["Transition_time"],
    ),
    stored("time_zone_name", "Time zone names", &[], &["Name"]),
    stored(
        "time_zone_transition",
        "Time zone transitions",
        &[],
        &["Time_zone_id", "Transition_time"],
    ),
    stored(
        "time_zone_transition_type",
        "Time zone transition types",
        &[("Offset", ZERO), ("Is_DST", ZERO), ("Abbreviation", EMPTY)],
        &["Time_zone_id", "Transition_type_id"],
    ),
    stored(
        "columns_priv",
        "Column privileges",
        &[],
        &["Host", "User", "Db", "Table_name", "Column_name"],
    ),
    stored("db", "Database privileges", &[], &["Host", "User", "Db"]),
    stored(
        "procs_priv",
        "Procedure privileges",
        &[],
        &["Host", "User", "Db", "Routine_name", "Routine_type"],
    ),
    stored(
        "tables_priv",
        "Table privileges",
        &[],
        &["Host", "User", "Db", "Table_name"],
    ),
];

/// The details of a virtual table of `mysql`.
pub fn system_table(table: &VirtualTable) -> Option<&'static SystemTable> {
    let details = || DETAILS.iter().find(|details| details.name == table.name);
    (table.database == "mysql").then(details)?
}

impl SystemTable {
    /// Whether the server writes a log into it. Only log tables are listed by SHOW TABLES: a dump does not
    /// contain their rows, and creates them only where they do not exist.
    pub fn is_log(&self) -> bool {
        self.engine == "CSV"
    }
}
