//! Definitions of the tables of information_schema, with MySQL 8's columns, types and order
//! (manual, "INFORMATION_SCHEMA Tables"). The rows are computed by `information_schema` in crate
//! `sql`.

use super::{ScopeColumn, VirtualTable};
use porpoise_types::{Collation, ColumnType, Kind};

/// Type of a column of information_schema.
#[derive(Clone, Copy, Debug)]
enum T {
    /// VARCHAR of this many characters.
    Text(u32),
    /// VARCHAR(64) with a case-sensitive collation: names of databases and tables.
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
    /// DOUBLE.
    Double,
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
        T::Double => ColumnType::double(),
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

const fn entry(name: &'static str, columns: fn() -> Vec<ScopeColumn>) -> VirtualTable {
    VirtualTable {
        database: "information_schema",
        name,
        columns,
        needs_process: false,
    }
}

/// Defines a table that shows other sessions' activity, which needs PROCESS.
const fn activity_entry(name: &'static str, columns: fn() -> Vec<ScopeColumn>) -> VirtualTable {
    VirtualTable {
        needs_process: true,
        ..entry(name, columns)
    }
}

/// Tables of information_schema.
pub(super) const INFORMATION_SCHEMA: &[VirtualTable] = &[
    entry("ADMINISTRABLE_ROLE_AUTHORIZATIONS", || {
        columns_of(APPLICABLE_ROLES)
    }),
    entry("APPLICABLE_ROLES", || columns_of(APPLICABLE_ROLES)),
    entry("CHARACTER_SETS", || columns_of(CHARACTER_SETS)),
    entry("CHECK_CONSTRAINTS", || columns_of(CHECK_CONSTRAINTS)),
    activity_entry("CLUSTER_SERVERS", || columns_of(CLUSTER_SERVERS)),
    entry("COLLATIONS", || columns_of(COLLATIONS)),
    entry("COLLATION_CHARACTER_SET_APPLICABILITY", || {
        columns_of(COLLATION_CHARACTER_SET_APPLICABILITY)
    }),
    entry("COLUMNS", || columns_of(COLUMNS)),
    entry("COLUMN_PRIVILEGES", || columns_of(COLUMN_PRIVILEGES)),
    entry("COLUMN_STATISTICS", || columns_of(COLUMN_STATISTICS)),
    activity_entry("DEADLOCKS", || columns_of(&DEADLOCKS.concat())),
    entry("ENABLED_ROLES", || columns_of(ENABLED_ROLES)),
    entry("ENGINES", || columns_of(ENGINES)),
    entry("EVENTS", || columns_of(EVENTS)),
    entry("EVENT_FAILURES", || columns_of(EVENT_FAILURES)),
    entry("FILES", || columns_of(FILES)),
    entry("HOT_KEYS", || columns_of(HOT_KEYS)),
    activity_entry("INNODB_FT_BEING_DELETED", || columns_of(INNODB_FT_DELETED)),
    activity_entry("INNODB_FT_CONFIG", || columns_of(INNODB_FT_CONFIG)),
    activity_entry("INNODB_FT_DEFAULT_STOPWORD", || {
        columns_of(INNODB_FT_DEFAULT_STOPWORD)
    }),
    activity_entry("INNODB_FT_DELETED", || columns_of(INNODB_FT_DELETED)),
    activity_entry("INNODB_FT_INDEX_CACHE", || columns_of(INNODB_FT_INDEX)),
    activity_entry("INNODB_FT_INDEX_TABLE", || columns_of(INNODB_FT_INDEX)),
    entry("KEYWORDS", || columns_of(KEYWORDS)),
    entry("KEY_COLUMN_USAGE", || columns_of(KEY_COLUMN_USAGE)),
    activity_entry("LOCK_WAITS", || columns_of(&LOCK_WAITS.concat())),
    entry("PARAMETERS", || columns_of(PARAMETERS)),
    entry("PARTITIONS", || columns_of(PARTITIONS)),
    entry("PLUGINS", || columns_of(PLUGINS)),
    entry("PROCESSLIST", || columns_of(PROCESSLIST)),
    entry("PROFILING", || columns_of(PROFILING)),
    entry("REFERENTIAL_CONSTRAINTS", || {
        columns_of(REFERENTIAL_CONSTRAINTS)
    }),
    entry("ROUTINES", || columns_of(ROUTINES)),
    entry("SCHEMATA", || columns_of(SCHEMATA)),
    entry("SCHEMA_PRIVILEGES", || columns_of(SCHEMA_PRIVILEGES)),
    entry("STATISTICS", || columns_of(STATISTICS)),
    entry("TABLES", || columns_of(TABLES)),
    entry("TABLE_CONSTRAINTS", || columns_of(TABLE_CONSTRAINTS)),
    entry("TABLE_PRIVILEGES", || columns_of(TABLE_PRIVILEGES)),
    entry("TRIGGERS", || columns_of(TRIGGERS)),
    entry("USER_ATTRIBUTES", || columns_of(USER_ATTRIBUTES)),
    entry("USER_PRIVILEGES", || columns_of(USER_PRIVILEGES)),
    entry("VIEWS", || columns_of(VIEWS)),
];

/// Columns of COLUMNS.
const COLUMNS: &[(&str, T)] = &[
    ("TABLE_CATALOG", T::Text(64)),
    ("TABLE_SCHEMA", T::Name),
    ("TABLE_NAME", T::Name),
    ("COLUMN_NAME", T::Text(64)),
    ("ORDINAL_POSITION", T::Unsigned),
    ("COLUMN_DEFAULT", T::Long),
    ("IS_NULLABLE", T::Text(3)),
    ("DATA_TYPE", T::Long),
    ("CHARACTER_MAXIMUM_LENGTH", T::Big),
    ("CHARACTER_OCTET_LENGTH", T::Big),
    ("NUMERIC_PRECISION", T::BigUnsigned),
    ("NUMERIC_SCALE", T::BigUnsigned),
    ("DATETIME_PRECISION", T::Unsigned),
    ("CHARACTER_SET_NAME", T::Text(64)),
    ("COLLATION_NAME", T::Text(64)),
    ("COLUMN_TYPE", T::Long),
    ("COLUMN_KEY", T::Text(3)),
    ("EXTRA", T::Text(256)),
    ("PRIVILEGES", T::Text(154)),
    ("COLUMN_COMMENT", T::Long),
    ("GENERATION_EXPRESSION", T::Long),
    ("SRS_ID", T::Unsigned),
];

/// Columns of STATISTICS.
const STATISTICS: &[(&str, T)] = &[
    ("TABLE_CATALOG", T::Text(64)),
    ("TABLE_SCHEMA", T::Name),
    ("TABLE_NAME", T::Name),
    ("NON_UNIQUE", T::Int),
    ("INDEX_SCHEMA", T::Name),
    ("INDEX_NAME", T::Text(64)),
    ("SEQ_IN_INDEX", T::Unsigned),
    ("COLUMN_NAME", T::Text(64)),
    ("COLLATION", T::Text(1)),
    ("CARDINALITY", T::Big),
    ("SUB_PART", T::Big),
    ("PACKED", T::Nothing),
    ("NULLABLE", T::Text(3)),
    ("INDEX_TYPE", T::Text(11)),
    ("COMMENT", T::Text(8)),
    ("INDEX_COMMENT", T::Text(2048)),
    ("IS_VISIBLE", T::Text(3)),
    ("EXPRESSION", T::Long),
];

/// Columns that describe a waiting session and its statement.
const WAITING_SESSION: &[(&str, T)] = &[
    ("THREAD", T::BigUnsigned),
    ("USER", T::Text(32)),
    ("HOST", T::Text(261)),
    ("DB", T::Text(64)),
    ("QUERY", T::Long),
];

/// Columns that describe the lock waited for, the wait's duration, and the blocker.
const WAITED_LOCK: &[(&str, T)] = &[
    ("LOCK_SCHEMA", T::Name),
    ("LOCK_TABLE", T::Name),
    ("LOCK_INDEX", T::Text(64)),
    ("LOCK_PARTITION", T::Text(64)),
    ("LOCK_KEY", T::Text(1024)),
    ("LOCK_MODE", T::Text(16)),
    ("WAITED_MICROSECONDS", T::BigUnsigned),
    ("BLOCKING_TRX_ID", T::BigUnsigned),
    ("BLOCKING_THREAD", T::BigUnsigned),
];

/// One row for each wait of each of the last deadlocks.
const DEADLOCKS: &[&[(&str, T)]] = &[
    &[
        ("DEADLOCK", T::BigUnsigned),
        ("TIME", T::Moment),
        ("VICTIM", T::Text(3)),
        ("TRX_ID", T::BigUnsigned),
    ],
    WAITING_SESSION,
    WAITED_LOCK,
];

/// One row for each event that has failed since the server started.
const EVENT_FAILURES: &[(&str, T)] = &[
    ("EVENT_SCHEMA", T::Name),
    ("EVENT_NAME", T::Name),
    ("FAILURES", T::BigUnsigned),
    ("LAST_FAILED", T::Moment),
    ("ERRNO", T::Unsigned),
    ("MESSAGE", T::Long),
];

/// One row for each pair of waiting and blocking transaction.
const LOCK_WAITS: &[&[(&str, T)]] = &[
    &[("TRX_ID", T::BigUnsigned)],
    WAITING_SESSION,
    WAITED_LOCK,
    &[
        ("BLOCKING_USER", T::Text(32)),
        ("BLOCKING_HOST", T::Text(261)),
        ("BLOCKING_DB", T::Text(64)),
        ("BLOCKING_QUERY", T::Long),
    ],
];

/// Columns of CLUSTER_SERVERS.
const CLUSTER_SERVERS: &[(&str, T)] = &[
    ("SERVER_ID", T::BigUnsigned),
    ("ADDRESS", T::Text(255)),
    ("VERSION", T::Text(64)),
    ("STARTED", T::Moment),
    ("IS_THIS_SERVER", T::Text(3)),
    ("STATE", T::Text(16)),
    ("LEASE_LEFT", T::Double),
    ("SCHEMA_VERSION", T::BigUnsigned),
    ("DRAINED_VERSION", T::BigUnsigned),
];

/// Columns of HOT_KEYS.
const HOT_KEYS: &[(&str, T)] = &[
    ("TABLE_SCHEMA", T::Name),
    ("TABLE_NAME", T::Name),
    ("INDEX_NAME", T::Text(64)),
    ("INTERFACE", T::Text(16)),
    ("KEY_PREFIX", T::Text(250)),
    ("KEY_TEXT", T::Long),
    ("LOOKUPS", T::BigUnsigned),
    ("WRITES", T::BigUnsigned),
    ("MAX_ERROR", T::BigUnsigned),
    ("SHARE", T::Double),
];

/// Columns of SCHEMATA.
const SCHEMATA: &[(&str, T)] = &[
    ("CATALOG_NAME", T::Text(64)),
    ("SCHEMA_NAME", T::Name),
    ("DEFAULT_CHARACTER_SET_NAME", T::Text(64)),
    ("DEFAULT_COLLATION_NAME", T::Text(64)),
    ("SQL_PATH", T::Nothing),
    ("DEFAULT_ENCRYPTION", T::Text(3)),
];

/// Columns of TABLES.
const TABLES: &[(&str, T)] = &[
    ("TABLE_CATALOG", T::Text(64)),
    ("TABLE_SCHEMA", T::Name),
    ("TABLE_NAME", T::Name),
    ("TABLE_TYPE", T::Text(11)),
    ("ENGINE", T::Text(64)),
    ("VERSION", T::Int),
    ("ROW_FORMAT", T::Text(10)),
    ("TABLE_ROWS", T::BigUnsigned),
    ("AVG_ROW_LENGTH", T::BigUnsigned),
    ("DATA_LENGTH", T::BigUnsigned),
    ("MAX_DATA_LENGTH", T::BigUnsigned),
    ("INDEX_LENGTH", T::BigUnsigned),
    ("DATA_FREE", T::BigUnsigned),
    ("AUTO_INCREMENT", T::BigUnsigned),
    ("CREATE_TIME", T::Moment),
    ("UPDATE_TIME", T::Moment),
    ("CHECK_TIME", T::Moment),
    ("TABLE_COLLATION", T::Text(64)),
    ("CHECKSUM", T::Big),
    ("CREATE_OPTIONS", T::Text(256)),
    ("TABLE_COMMENT", T::Long),
];

/// Columns of VIEWS.
const VIEWS: &[(&str, T)] = &[
    ("TABLE_CATALOG", T::Text(64)),
    ("TABLE_SCHEMA", T::Name),
    ("TABLE_NAME", T::Name),
    ("VIEW_DEFINITION", T::Long),
    ("CHECK_OPTION", T::Text(8)),
    ("IS_UPDATABLE", T::Text(3)),
    ("DEFINER", T::Text(288)),
    ("SECURITY_TYPE", T::Text(7)),
    ("CHARACTER_SET_CLIENT", T::Text(64)),
    ("COLLATION_CONNECTION", T::Text(64)),
];

/// Columns of CHECK_CONSTRAINTS.
const CHECK_CONSTRAINTS: &[(&str, T)] = &[
    ("CONSTRAINT_CATALOG", T::Text(64)),
    ("CONSTRAINT_SCHEMA", T::Name),
    ("CONSTRAINT_NAME", T::Text(64)),
    ("CHECK_CLAUSE", T::Long),
];

/// Columns of TABLE_CONSTRAINTS.
const TABLE_CONSTRAINTS: &[(&str, T)] = &[
    ("CONSTRAINT_CATALOG", T::Text(64)),
    ("CONSTRAINT_SCHEMA", T::Name),
    ("CONSTRAINT_NAME", T::Text(64)),
    ("TABLE_SCHEMA", T::Name),
    ("TABLE_NAME", T::Name),
    ("CONSTRAINT_TYPE", T::Text(11)),
    ("ENFORCED", T::Text(3)),
];

/// Columns of KEY_COLUMN_USAGE.
const KEY_COLUMN_USAGE: &[(&str, T)] = &[
    ("CONSTRAINT_CATALOG", T::Text(64)),
    ("CONSTRAINT_SCHEMA", T::Name),
    ("CONSTRAINT_NAME", T::Text(64)),
    ("TABLE_CATALOG", T::Text(64)),
    ("TABLE_SCHEMA", T::Name),
    ("TABLE_NAME", T::Name),
    ("COLUMN_NAME", T::Text(64)),
    ("ORDINAL_POSITION", T::Unsigned),
    ("POSITION_IN_UNIQUE_CONSTRAINT", T::Unsigned),
    ("REFERENCED_TABLE_SCHEMA", T::Name),
    ("REFERENCED_TABLE_NAME", T::Name),
    ("REFERENCED_COLUMN_NAME", T::Text(64)),
];

/// Columns of REFERENTIAL_CONSTRAINTS.
const REFERENTIAL_CONSTRAINTS: &[(&str, T)] = &[
    ("CONSTRAINT_CATALOG", T::Text(64)),
    ("CONSTRAINT_SCHEMA", T::Name),
    ("CONSTRAINT_NAME", T::Text(64)),
    ("UNIQUE_CONSTRAINT_CATALOG", T::Text(64)),
    ("UNIQUE_CONSTRAINT_SCHEMA", T::Name),
    ("UNIQUE_CONSTRAINT_NAME", T::Text(64)),
    ("MATCH_OPTION", T::Text(7)),
    ("UPDATE_RULE", T::Text(11)),
    ("DELETE_RULE", T::Text(11)),
    ("TABLE_NAME", T::Name),
    ("REFERENCED_TABLE_NAME", T::Name),
];

/// Columns of PARTITIONS.
const PARTITIONS: &[(&str, T)] = &[
    ("TABLE_CATALOG", T::Text(64)),
    ("TABLE_SCHEMA", T::Name),
    ("TABLE_NAME", T::Name),
    ("PARTITION_NAME", T::Text(64)),
    ("SUBPARTITION_NAME", T::Text(64)),
    ("PARTITION_ORDINAL_POSITION", T::Unsigned),
    ("SUBPARTITION_ORDINAL_POSITION", T::Unsigned),
    ("PARTITION_METHOD", T::Text(13)),
    ("SUBPARTITION_METHOD", T::Text(13)),
    ("PARTITION_EXPRESSION", T::Text(2048)),
    ("SUBPARTITION_EXPRESSION", T::Text(2048)),
    ("PARTITION_DESCRIPTION", T::Long),
    ("TABLE_ROWS", T::BigUnsigned),
    ("AVG_ROW_LENGTH", T::BigUnsigned),
    ("DATA_LENGTH", T::BigUnsigned),
    ("MAX_DATA_LENGTH", T::BigUnsigned),
    ("INDEX_LENGTH", T::BigUnsigned),
    ("DATA_FREE", T::BigUnsigned),
    ("CREATE_TIME", T::Moment),
    ("UPDATE_TIME", T::Moment),
    ("CHECK_TIME", T::Moment),
    ("CHECKSUM", T::Big),
    ("PARTITION_COMMENT", T::Long),
    ("NODEGROUP", T::Text(256)),
    ("TABLESPACE_NAME", T::Text(268)),
];

/// Columns of TRIGGERS.
const TRIGGERS: &[(&str, T)] = &[
    ("TRIGGER_CATALOG", T::Text(64)),
    ("TRIGGER_SCHEMA", T::Name),
    ("TRIGGER_NAME", T::Text(64)),
    ("EVENT_MANIPULATION", T::Text(6)),
    ("EVENT_OBJECT_CATALOG", T::Text(64)),
    ("EVENT_OBJECT_SCHEMA", T::Name),
    ("EVENT_OBJECT_TABLE", T::Name),
    ("ACTION_ORDER", T::Unsigned),
    ("ACTION_CONDITION", T::Nothing),
    ("ACTION_STATEMENT", T::Long),
    ("ACTION_ORIENTATION", T::Text(3)),
    ("ACTION_TIMING", T::Text(6)),
    ("ACTION_REFERENCE_OLD_TABLE", T::Nothing),
    ("ACTION_REFERENCE_NEW_TABLE", T::Nothing),
    ("ACTION_REFERENCE_OLD_ROW", T::Text(3)),
    ("ACTION_REFERENCE_NEW_ROW", T::Text(3)),
    ("CREATED", T::Moment),
    ("SQL_MODE", T::Text(520)),
    ("DEFINER", T::Text(288)),
    ("CHARACTER_SET_CLIENT", T::Text(64)),
    ("COLLATION_CONNECTION", T::Text(64)),
    ("DATABASE_COLLATION", T::Text(64)),
];

/// Columns of ROUTINES.
const ROUTINES: &[(&str, T)] = &[
    ("SPECIFIC_NAME", T::Text(64)),
    ("ROUTINE_CATALOG", T::Text(64)),
    ("ROUTINE_SCHEMA", T::Name),
    ("ROUTINE_NAME", T::Text(64)),
    ("ROUTINE_TYPE", T::Text(9)),
    ("DATA_TYPE", T::Long),
    ("CHARACTER_MAXIMUM_LENGTH", T::Big),
    ("CHARACTER_OCTET_LENGTH", T::Big),
    ("NUMERIC_PRECISION", T::Unsigned),
    ("NUMERIC_SCALE", T::Unsigned),
    ("DATETIME_PRECISION", T::Unsigned),
    ("CHARACTER_SET_NAME", T::Text(64)),
    ("COLLATION_NAME", T::Text(64)),
    ("DTD_IDENTIFIER", T::Long),
    ("ROUTINE_BODY", T::Text(8)),
    ("ROUTINE_DEFINITION", T::Long),
    ("EXTERNAL_NAME", T::Nothing),
    ("EXTERNAL_LANGUAGE", T::Text(64)),
    ("PARAMETER_STYLE", T::Text(3)),
    ("IS_DETERMINISTIC", T::Text(3)),
    ("SQL_DATA_ACCESS", T::Text(17)),
    ("SQL_PATH", T::Nothing),
    ("SECURITY_TYPE", T::Text(7)),
    ("CREATED", T::Moment),
    ("LAST_ALTERED", T::Moment),
    ("SQL_MODE", T::Text(520)),
    ("ROUTINE_COMMENT", T::Long),
    ("DEFINER", T::Text(288)),
    ("CHARACTER_SET_CLIENT", T::Text(64)),
    ("COLLATION_CONNECTION", T::Text(64)),
    ("DATABASE_COLLATION", T::Text(64)),
];

/// Columns of EVENTS.
const EVENTS: &[(&str, T)] = &[
    ("EVENT_CATALOG", T::Text(64)),
    ("EVENT_SCHEMA", T::Name),
    ("EVENT_NAME", T::Text(64)),
    ("DEFINER", T::Text(288)),
    ("TIME_ZONE", T::Text(64)),
    ("EVENT_BODY", T::Text(3)),
    ("EVENT_DEFINITION", T::Long),
    ("EVENT_TYPE", T::Text(9)),
    ("EXECUTE_AT", T::Moment),
    ("INTERVAL_VALUE", T::Text(256)),
    ("INTERVAL_FIELD", T::Text(18)),
    ("SQL_MODE", T::Text(520)),
    ("STARTS", T::Moment),
    ("ENDS", T::Moment),
    ("STATUS", T::Text(21)),
    ("ON_COMPLETION", T::Text(12)),
    ("CREATED", T::Moment),
    ("LAST_ALTERED", T::Moment),
    ("LAST_EXECUTED", T::Moment),
    ("EVENT_COMMENT", T::Text(2048)),
    ("ORIGINATOR", T::Unsigned),
    ("CHARACTER_SET_CLIENT", T::Text(64)),
    ("COLLATION_CONNECTION", T::Text(64)),
    ("DATABASE_COLLATION", T::Text(64)),
];

/// Columns of USER_PRIVILEGES.
const USER_PRIVILEGES: &[(&str, T)] = &[
    ("GRANTEE", T::Text(292)),
    ("TABLE_CATALOG", T::Text(512)),
    ("PRIVILEGE_TYPE", T::Text(64)),
    ("IS_GRANTABLE", T::Text(3)),
];

/// Columns of SCHEMA_PRIVILEGES.
const SCHEMA_PRIVILEGES: &[(&str, T)] = &[
    ("GRANTEE", T::Text(292)),
    ("TABLE_CATALOG", T::Text(512)),
    ("TABLE_SCHEMA", T::Name),
    ("PRIVILEGE_TYPE", T::Text(64)),
    ("IS_GRANTABLE", T::Text(3)),
];

/// Columns of TABLE_PRIVILEGES.
const TABLE_PRIVILEGES: &[(&str, T)] = &[
    ("GRANTEE", T::Text(292)),
    ("TABLE_CATALOG", T::Text(512)),
    ("TABLE_SCHEMA", T::Name),
    ("TABLE_NAME", T::Name),
    ("PRIVILEGE_TYPE", T::Text(64)),
    ("IS_GRANTABLE", T::Text(3)),
];

/// Columns of COLUMN_PRIVILEGES.
const COLUMN_PRIVILEGES: &[(&str, T)] = &[
    ("GRANTEE", T::Text(292)),
    ("TABLE_CATALOG", T::Text(512)),
    ("TABLE_SCHEMA", T::Name),
    ("TABLE_NAME", T::Name),
    ("COLUMN_NAME", T::Text(64)),
    ("PRIVILEGE_TYPE", T::Text(64)),
    ("IS_GRANTABLE", T::Text(3)),
];

/// Columns of APPLICABLE_ROLES and ADMINISTRABLE_ROLE_AUTHORIZATIONS.
const APPLICABLE_ROLES: &[(&str, T)] = &[
    ("USER", T::Text(97)),
    ("HOST", T::Text(256)),
    ("GRANTEE", T::Text(97)),
    ("GRANTEE_HOST", T::Text(256)),
    ("ROLE_NAME", T::Text(255)),
    ("ROLE_HOST", T::Text(256)),
    ("IS_GRANTABLE", T::Text(3)),
    ("IS_DEFAULT", T::Text(3)),
    ("IS_MANDATORY", T::Text(3)),
];

/// Columns of ENABLED_ROLES.
const ENABLED_ROLES: &[(&str, T)] = &[
    ("ROLE_NAME", T::Text(255)),
    ("ROLE_HOST", T::Text(255)),
    ("IS_DEFAULT", T::Text(3)),
    ("IS_MANDATORY", T::Text(3)),
];

/// Columns of USER_ATTRIBUTES.
const USER_ATTRIBUTES: &[(&str, T)] = &[
    ("USER", T::Text(32)),
    ("HOST", T::Text(255)),
    ("ATTRIBUTE", T::Long),
];

/// Columns of CHARACTER_SETS.
const CHARACTER_SETS: &[(&str, T)] = &[
    ("CHARACTER_SET_NAME", T::Text(64)),
    ("DEFAULT_COLLATE_NAME", T::Text(64)),
    ("DESCRIPTION", T::Text(2048)),
    ("MAXLEN", T::Unsigned),
];

/// Columns of COLLATIONS.
const COLLATIONS: &[(&str, T)] = &[
    ("COLLATION_NAME", T::Text(64)),
    ("CHARACTER_SET_NAME", T::Text(64)),
    ("ID", T::BigUnsigned),
    ("IS_DEFAULT", T::Text(3)),
    ("IS_COMPILED", T::Text(3)),
    ("SORTLEN", T::Unsigned),
    ("PAD_ATTRIBUTE", T::Text(9)),
];

/// Columns of COLLATION_CHARACTER_SET_APPLICABILITY.
const COLLATION_CHARACTER_SET_APPLICABILITY: &[(&str, T)] = &[
    ("COLLATION_NAME", T::Text(64)),
    ("CHARACTER_SET_NAME", T::Text(64)),
];

/// Columns of ENGINES.
const ENGINES: &[(&str, T)] = &[
    ("ENGINE", T::Text(64)),
    ("SUPPORT", T::Text(8)),
    ("COMMENT", T::Text(80)),
    ("TRANSACTIONS", T::Text(3)),
    ("XA", T::Text(3)),
    ("SAVEPOINTS", T::Text(3)),
];

/// Columns of PROCESSLIST.
const PROCESSLIST: &[(&str, T)] = &[
    ("ID", T::BigUnsigned),
    ("USER", T::Text(32)),
    ("HOST", T::Text(261)),
    ("DB", T::Text(64)),
    ("COMMAND", T::Text(16)),
    ("TIME", T::Int),
    ("STATE", T::Text(64)),
    ("INFO", T::Long),
];

/// Columns of KEYWORDS.
const KEYWORDS: &[(&str, T)] = &[("WORD", T::Text(128)), ("RESERVED", T::Int)];

/// Columns of PLUGINS.
const PLUGINS: &[(&str, T)] = &[
    ("PLUGIN_NAME", T::Text(64)),
    ("PLUGIN_VERSION", T::Text(20)),
    ("PLUGIN_STATUS", T::Text(10)),
    ("PLUGIN_TYPE", T::Text(80)),
    ("PLUGIN_TYPE_VERSION", T::Text(20)),
    ("PLUGIN_LIBRARY", T::Text(64)),
    ("PLUGIN_LIBRARY_VERSION", T::Text(20)),
    ("PLUGIN_AUTHOR", T::Text(64)),
    ("PLUGIN_DESCRIPTION", T::Long),
    ("PLUGIN_LICENSE", T::Text(80)),
    ("LOAD_OPTION", T::Text(64)),
];

/// Columns of PARAMETERS.
const PARAMETERS: &[(&str, T)] = &[
    ("SPECIFIC_CATALOG", T::Text(64)),
    ("SPECIFIC_SCHEMA", T::Name),
    ("SPECIFIC_NAME", T::Text(64)),
    ("ORDINAL_POSITION", T::BigUnsigned),
    ("PARAMETER_MODE", T::Text(5)),
    ("PARAMETER_NAME", T::Text(64)),
    ("DATA_TYPE", T::Long),
    ("CHARACTER_MAXIMUM_LENGTH", T::Big),
    ("CHARACTER_OCTET_LENGTH", T::Big),
    ("NUMERIC_PRECISION", T::Unsigned),
    ("NUMERIC_SCALE", T::Big),
    ("DATETIME_PRECISION", T::Unsigned),
    ("CHARACTER_SET_NAME", T::Text(64)),
    ("COLLATION_NAME", T::Text(64)),
    ("DTD_IDENTIFIER", T::Long),
    ("ROUTINE_TYPE", T::Text(9)),
];

/// Columns of COLUMN_STATISTICS.
const COLUMN_STATISTICS: &[(&str, T)] = &[
    ("SCHEMA_NAME", T::Name),
    ("TABLE_NAME", T::Name),
    ("COLUMN_NAME", T::Text(64)),
    ("HISTOGRAM", T::Long),
];

/// Columns of INNODB_FT_CONFIG.
const INNODB_FT_CONFIG: &[(&str, T)] = &[("KEY", T::Text(193)), ("VALUE", T::Text(193))];

/// Columns of INNODB_FT_DEFAULT_STOPWORD.
const INNODB_FT_DEFAULT_STOPWORD: &[(&str, T)] = &[("value", T::Text(18))];

/// Columns of INNODB_FT_DELETED and INNODB_FT_BEING_DELETED.
const INNODB_FT_DELETED: &[(&str, T)] = &[("DOC_ID", T::BigUnsigned)];

/// Columns of INNODB_FT_INDEX_TABLE and INNODB_FT_INDEX_CACHE.
const INNODB_FT_INDEX: &[(&str, T)] = &[
    ("WORD", T::Text(337)),
    ("FIRST_DOC_ID", T::BigUnsigned),
    ("LAST_DOC_ID", T::BigUnsigned),
    ("DOC_COUNT", T::BigUnsigned),
    ("DOC_ID", T::BigUnsigned),
    ("POSITION", T::BigUnsigned),
];

/// Columns of FILES.
const FILES: &[(&str, T)] = &[
    ("FILE_ID", T::Big),
    ("FILE_NAME", T::Long),
    ("FILE_TYPE", T::Text(256)),
    ("TABLESPACE_NAME", T::Text(268)),
    ("TABLE_CATALOG", T::Text(64)),
    ("TABLE_SCHEMA", T::Nothing),
    ("TABLE_NAME", T::Nothing),
    ("LOGFILE_GROUP_NAME", T::Text(256)),
    ("LOGFILE_GROUP_NUMBER", T::Big),
    ("ENGINE", T::Text(64)),
    ("FULLTEXT_KEYS", T::Nothing),
    ("DELETED_ROWS", T::Nothing),
    ("UPDATE_COUNT", T::Nothing),
    ("FREE_EXTENTS", T::Big),
    ("TOTAL_EXTENTS", T::Big),
    ("EXTENT_SIZE", T::Big),
    ("INITIAL_SIZE", T::Big),
    ("MAXIMUM_SIZE", T::Big),
    ("AUTOEXTEND_SIZE", T::Big),
    ("CREATION_TIME", T::Nothing),
    ("LAST_UPDATE_TIME", T::Nothing),
    ("LAST_ACCESS_TIME", T::Nothing),
    ("RECOVER_TIME", T::Nothing),
    ("TRANSACTION_COUNTER", T::Nothing),
    ("VERSION", T::Big),
    ("ROW_FORMAT", T::Text(256)),
    ("TABLE_ROWS", T::Nothing),
    ("AVG_ROW_LENGTH", T::Nothing),
    ("DATA_LENGTH", T::Nothing),
    ("MAX_DATA_LENGTH", T::Nothing),
    ("INDEX_LENGTH", T::Nothing),
    ("DATA_FREE", T::Big),
    ("CREATE_TIME", T::Nothing),
    ("UPDATE_TIME", T::Nothing),
    ("CHECK_TIME", T::Nothing),
    ("CHECKSUM", T::Nothing),
    ("STATUS", T::Text(256)),
    ("EXTRA", T::Text(256)),
];

/// Columns of PROFILING.
const PROFILING: &[(&str, T)] = &[
    ("QUERY_ID", T::Unsigned),
    ("SEQ", T::Unsigned),
    ("STATE", T::Text(30)),
    ("DURATION", T::Text(20)),
    ("CPU_USER", T::Text(20)),
    ("CPU_SYSTEM", T::Text(20)),
    ("CONTEXT_VOLUNTARY", T::Int),
    ("CONTEXT_INVOLUNTARY", T::Int),
    ("BLOCK_OPS_IN", T::Int),
    ("BLOCK_OPS_OUT", T::Int),
    ("MESSAGES_SENT", T::Int),
    ("MESSAGES_RECEIVED", T::Int),
    ("PAGE_FAULTS_MAJOR", T::Int),
    ("PAGE_FAULTS_MINOR", T::Int),
    ("SWAPS", T::Int),
    ("SOURCE_FUNCTION", T::Text(30)),
    ("SOURCE_FILE", T::Text(20)),
    ("SOURCE_LINE", T::Int),
];
