//! Definitions of the tables of `performance_schema` and `sys`, with MySQL 8.4's columns (manual,
//! "MySQL Performance Schema" and "MySQL sys Schema"). The rows are computed by
//! `performance_schema` in crate `sql`.

use super::{ScopeColumn, VirtualTable};
use porpoise_types::{Collation, ColumnType, Kind};

/// Type of a column.
#[derive(Clone, Copy, Debug)]
enum T {
    /// VARCHAR of this many characters.
    Text(u32),
    /// LONGTEXT.
    Long,
    /// BIGINT UNSIGNED.
    Count,
    /// DOUBLE.
    Fraction,
    /// DECIMAL(23, 0).
    Average,
    /// TIMESTAMP with microseconds.
    Moment,
    /// TIME.
    Time,
}

fn columns_of(list: &[(&str, T)]) -> Vec<ScopeColumn> {
    let ci = Collation::UTF8MB4_0900_AI_CI;
    let column = |(name, ty): &(&str, T)| ScopeColumn {
        name: (*name).to_owned(),
        ty: match ty {
            T::Text(length) => ColumnType::varchar(*length, ci),
            T::Long => ColumnType::text(Kind::LongText, ci),
            T::Count => ColumnType::bigint_unsigned(),
            T::Fraction => ColumnType::double(),
            T::Average => ColumnType::decimal(23, 0),
            T::Moment => ColumnType::datetime(6),
            T::Time => ColumnType::time(0),
        },
        nullable: true,
    };
    list.iter().map(column).collect()
}

const fn performance(name: &'static str, columns: fn() -> Vec<ScopeColumn>) -> VirtualTable {
    VirtualTable {
        database: "performance_schema",
        name,
        columns,
        needs_process: false,
    }
}

const fn sys(name: &'static str, columns: fn() -> Vec<ScopeColumn>) -> VirtualTable {
    VirtualTable {
        database: "sys",
        name,
        columns,
        needs_process: false,
    }
}

/// Tables of `performance_schema`.
pub(super) const PERFORMANCE_SCHEMA: &[VirtualTable] = &[
    performance("data_lock_waits", || columns_of(DATA_LOCK_WAITS)),
    performance("data_locks", || columns_of(DATA_LOCKS)),
    performance("events_stages_current", || columns_of(STAGE_EVENTS)),
    performance("events_statements_current", || columns_of(STATEMENT_EVENTS)),
    performance("events_statements_histogram_by_digest", || {
        columns_of(HISTOGRAM)
    }),
    performance("events_statements_summary_by_digest", || {
        columns_of(SUMMARY_BY_DIGEST)
    }),
    performance("events_statements_history", || columns_of(STATEMENT_EVENTS)),
    performance("global_status", || columns_of(VARIABLES)),
    performance("global_variables", || columns_of(VARIABLES)),
    performance("metadata_locks", || columns_of(METADATA_LOCKS)),
    performance("persisted_variables", || columns_of(PERSISTED_VARIABLES)),
    performance("replication_applier_configuration", || {
        columns_of(&[CHANNEL, ("DESIRED_DELAY", T::Count)])
    }),
    performance("replication_applier_status", || columns_of(APPLIER_STATUS)),
    performance("replication_applier_status_by_worker", || {
        columns_of(APPLIER_STATUS_BY_WORKER)
    }),
    performance("replication_connection_configuration", || {
        columns_of(CONNECTION_CONFIGURATION)
    }),
    performance("replication_connection_status", || {
        columns_of(CONNECTION_STATUS)
    }),
    performance("replication_group_member_stats", || {
        columns_of(GROUP_MEMBER_STATS)
    }),
    performance("replication_group_members", || columns_of(GROUP_MEMBERS)),
    performance("session_status", || columns_of(VARIABLES)),
    performance("session_variables", || columns_of(VARIABLES)),
    performance("table_io_waits_summary_by_table", || {
        columns_of(&table_io_waits())
    }),
    performance("variables_info", || columns_of(VARIABLES_INFO)),
];

/// Views of `sys`.
pub(super) const SYS: &[VirtualTable] = &[
    sys("host_summary", || columns_of(&host_summary(T::Text(11)))),
    sys("innodb_lock_waits", || columns_of(INNODB_LOCK_WAITS)),
    sys("processlist", || columns_of(&processlist(T::Text(11)))),
    sys("schema_redundant_indexes", || columns_of(REDUNDANT_INDEXES)),
    sys("schema_table_statistics", || {
        columns_of(&table_statistics(T::Text(11)))
    }),
    sys("schema_unused_indexes", || columns_of(UNUSED_INDEXES)),
    sys("statement_analysis", || columns_of(STATEMENT_ANALYSIS)),
    sys("session", || columns_of(&processlist(T::Text(11)))),
    sys("x$host_summary", || columns_of(&host_summary(T::Count))),
    sys("x$innodb_lock_waits", || columns_of(INNODB_LOCK_WAITS)),
    sys("x$processlist", || columns_of(&processlist(T::Count))),
    sys("x$schema_table_statistics", || {
        columns_of(&table_statistics(T::Count))
    }),
    sys("x$session", || columns_of(&processlist(T::Count))),
    sys("x$statement_analysis", || {
        columns_of(RAW_STATEMENT_ANALYSIS)
    }),
];

const HISTOGRAM: &[(&str, T)] = &[
    ("SCHEMA_NAME", T::Text(64)),
    ("DIGEST", T::Text(64)),
    ("BUCKET_NUMBER", T::Count),
    ("BUCKET_TIMER_LOW", T::Count),
    ("BUCKET_TIMER_HIGH", T::Count),
    ("COUNT_BUCKET", T::Count),
    ("COUNT_BUCKET_AND_LOWER", T::Count),
    ("BUCKET_QUANTILE", T::Fraction),
];

const SUMMARY_BY_DIGEST: &[(&str, T)] = &[
    ("SCHEMA_NAME", T::Text(64)),
    ("DIGEST", T::Text(64)),
    ("DIGEST_TEXT", T::Long),
    ("COUNT_STAR", T::Count),
    ("SUM_TIMER_WAIT", T::Count),
    ("MIN_TIMER_WAIT", T::Count),
    ("AVG_TIMER_WAIT", T::Count),
    ("MAX_TIMER_WAIT", T::Count),
    ("SUM_LOCK_TIME", T::Count),
    ("SUM_ERRORS", T::Count),
    ("SUM_WARNINGS", T::Count),
    ("SUM_ROWS_AFFECTED", T::Count),
    ("SUM_ROWS_SENT", T::Count),
    ("SUM_ROWS_EXAMINED", T::Count),
    ("SUM_CREATED_TMP_DISK_TABLES", T::Count),
    ("SUM_CREATED_TMP_TABLES", T::Count),
    ("SUM_SELECT_FULL_JOIN", T::Count),
    ("SUM_SELECT_FULL_RANGE_JOIN", T::Count),
    ("SUM_SELECT_RANGE", T::Count),
    ("SUM_SELECT_RANGE_CHECK", T::Count),
    ("SUM_SELECT_SCAN", T::Count),
    ("SUM_SORT_MERGE_PASSES", T::Count),
    ("SUM_SORT_RANGE", T::Count),
    ("SUM_SORT_ROWS", T::Count),
    ("SUM_SORT_SCAN", T::Count),
    ("SUM_NO_INDEX_USED", T::Count),
    ("SUM_NO_GOOD_INDEX_USED", T::Count),
    ("SUM_CPU_TIME", T::Count),
    ("MAX_CONTROLLED_MEMORY", T::Count),
    ("MAX_TOTAL_MEMORY", T::Count),
    ("COUNT_SECONDARY", T::Count),
    ("FIRST_SEEN", T::Moment),
    ("LAST_SEEN", T::Moment),
    ("QUANTILE_95", T::Count),
    ("QUANTILE_99", T::Count),
    ("QUANTILE_999", T::Count),
    ("QUERY_SAMPLE_TEXT", T::Long),
    ("QUERY_SAMPLE_SEEN", T::Moment),
    ("QUERY_SAMPLE_TIMER_WAIT", T::Count),
];

const CHANNEL: (&str, T) = ("CHANNEL_NAME", T::Text(64));

const CONNECTION_CONFIGURATION: &[(&str, T)] = &[
    CHANNEL,
    ("HOST", T::Text(255)),
    ("PORT", T::Count),
    ("USER", T::Text(32)),
    ("NETWORK_INTERFACE", T::Text(60)),
    ("AUTO_POSITION", T::Count),
    ("SSL_ALLOWED", T::Text(7)),
    ("SSL_CA_FILE", T::Text(512)),
    ("SSL_CERTIFICATE", T::Text(512)),
    ("SSL_KEY", T::Text(512)),
    ("SSL_VERIFY_SERVER_CERTIFICATE", T::Text(3)),
    ("CONNECTION_RETRY_INTERVAL", T::Count),
    ("CONNECTION_RETRY_COUNT", T::Count),
    ("HEARTBEAT_INTERVAL", T::Fraction),
];

const CONNECTION_STATUS: &[(&str, T)] = &[
    CHANNEL,
    ("GROUP_NAME", T::Text(36)),
    ("SOURCE_UUID", T::Text(36)),
    ("THREAD_ID", T::Count),
    ("SERVICE_STATE", T::Text(10)),
    ("COUNT_RECEIVED_HEARTBEATS", T::Count),
    ("LAST_HEARTBEAT_TIMESTAMP", T::Moment),
    ("RECEIVED_TRANSACTION_SET", T::Long),
    ("LAST_ERROR_NUMBER", T::Count),
    ("LAST_ERROR_MESSAGE", T::Text(1024)),
    ("LAST_ERROR_TIMESTAMP", T::Moment),
];

const APPLIER_STATUS: &[(&str, T)] = &[
    CHANNEL,
    ("SERVICE_STATE", T::Text(3)),
    ("REMAINING_DELAY", T::Count),
    ("COUNT_TRANSACTIONS_RETRIES", T::Count),
];

const APPLIER_STATUS_BY_WORKER: &[(&str, T)] = &[
    CHANNEL,
    ("WORKER_ID", T::Count),
    ("THREAD_ID", T::Count),
    ("SERVICE_STATE", T::Text(3)),
    ("LAST_ERROR_NUMBER", T::Count),
    ("LAST_ERROR_MESSAGE", T::Text(1024)),
    ("LAST_ERROR_TIMESTAMP", T::Moment),
    ("LAST_APPLIED_TRANSACTION", T::Text(57)),
    (
        "LAST_APPLIED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP",
        T::Moment,
    ),
    ("LAST_APPLIED_TRANSACTION_END_APPLY_TIMESTAMP", T::Moment),
    ("APPLYING_TRANSACTION", T::Text(57)),
    ("APPLYING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP", T::Moment),
    ("APPLYING_TRANSACTION_START_APPLY_TIMESTAMP", T::Moment),
];

const GROUP_MEMBERS: &[(&str, T)] = &[
    CHANNEL,
    ("MEMBER_ID", T::Text(36)),
    ("MEMBER_HOST", T::Text(255)),
    ("MEMBER_PORT", T::Count),
    ("MEMBER_STATE", T::Text(64)),
    ("MEMBER_ROLE", T::Text(64)),
    ("MEMBER_VERSION", T::Text(64)),
    ("MEMBER_COMMUNICATION_STACK", T::Text(64)),
];

const GROUP_MEMBER_STATS: &[(&str, T)] = &[
    CHANNEL,
    ("VIEW_ID", T::Text(60)),
    ("MEMBER_ID", T::Text(36)),
    ("COUNT_TRANSACTIONS_IN_QUEUE", T::Count),
    ("COUNT_TRANSACTIONS_CHECKED", T::Count),
    ("COUNT_CONFLICTS_DETECTED", T::Count),
    ("COUNT_TRANSACTIONS_ROWS_VALIDATING", T::Count),
    ("TRANSACTIONS_COMMITTED_ALL_MEMBERS", T::Long),
    ("LAST_CONFLICT_FREE_TRANSACTION", T::Long),
    ("COUNT_TRANSACTIONS_REMOTE_IN_APPLIER_QUEUE", T::Count),
    ("COUNT_TRANSACTIONS_REMOTE_APPLIED", T::Count),
    ("COUNT_TRANSACTIONS_LOCAL_PROPOSED", T::Count),
    ("COUNT_TRANSACTIONS_LOCAL_ROLLBACK", T::Count),
];

/// Columns of global_variables, session_variables, global_status and session_status.
const VARIABLES: &[(&str, T)] = &[
    ("VARIABLE_NAME", T::Text(64)),
    ("VARIABLE_VALUE", T::Text(1024)),
];

const PERSISTED_VARIABLES: &[(&str, T)] = &[
    ("VARIABLE_NAME", T::Text(64)),
    ("VARIABLE_VALUE", T::Text(1024)),
];

const VARIABLES_INFO: &[(&str, T)] = &[
    ("VARIABLE_NAME", T::Text(64)),
    ("VARIABLE_SOURCE", T::Text(16)),
    ("VARIABLE_PATH", T::Text(1024)),
    ("MIN_VALUE", T::Text(64)),
    ("MAX_VALUE", T::Text(64)),
    ("SET_TIME", T::Moment),
    ("SET_USER", T::Text(32)),
    ("SET_HOST", T::Text(255)),
];

const REDUNDANT_INDEXES: &[(&str, T)] = &[
    ("table_schema", T::Text(64)),
    ("table_name", T::Text(64)),
    ("redundant_index_name", T::Text(64)),
    ("redundant_index_columns", T::Long),
    ("redundant_index_non_unique", T::Count),
    ("dominant_index_name", T::Text(64)),
    ("dominant_index_columns", T::Long),
    ("dominant_index_non_unique", T::Count),
    ("subpart_exists", T::Count),
    ("sql_drop_index", T::Long),
];

const UNUSED_INDEXES: &[(&str, T)] = &[
    ("object_schema", T::Text(64)),
    ("object_name", T::Text(64)),
    ("index_name", T::Text(64)),
];

const STATEMENT_ANALYSIS: &[(&str, T)] = &[
    ("query", T::Long),
    ("db", T::Text(64)),
    ("full_scan", T::Text(1)),
    ("exec_count", T::Count),
    ("err_count", T::Count),
    ("warn_count", T::Count),
    ("total_latency", T::Text(11)),
    ("max_latency", T::Text(11)),
    ("avg_latency", T::Text(11)),
    ("lock_latency", T::Text(11)),
    ("cpu_latency", T::Text(11)),
    ("rows_sent", T::Count),
    ("rows_sent_avg", T::Average),
    ("rows_examined", T::Count),
    ("rows_examined_avg", T::Average),
    ("rows_affected", T::Count),
    ("rows_affected_avg", T::Average),
    ("tmp_tables", T::Count),
    ("tmp_disk_tables", T::Count),
    ("rows_sorted", T::Count),
    ("sort_merge_passes", T::Count),
    ("max_controlled_memory", T::Text(11)),
    ("max_total_memory", T::Text(11)),
    ("digest", T::Text(64)),
    ("first_seen", T::Moment),
    ("last_seen", T::Moment),
];

const RAW_STATEMENT_ANALYSIS: &[(&str, T)] = &[
    ("query", T::Long),
    ("db", T::Text(64)),
    ("full_scan", T::Text(1)),
    ("exec_count", T::Count),
    ("err_count", T::Count),
    ("warn_count", T::Count),
    ("total_latency", T::Count),
    ("max_latency", T::Count),
    ("avg_latency", T::Count),
    ("lock_latency", T::Count),
    ("cpu_latency", T::Count),
    ("rows_sent", T::Count),
    ("rows_sent_avg", T::Average),
    ("rows_examined", T::Count),
    ("rows_examined_avg", T::Average),
    ("rows_affected", T::Count),
    ("rows_affected_avg", T::Average),
    ("tmp_tables", T::Count),
    ("tmp_disk_tables", T::Count),
    ("rows_sorted", T::Count),
    ("sort_merge_passes", T::Count),
    ("max_controlled_memory", T::Count),
    ("max_total_memory", T::Count),
    ("digest", T::Text(64)),
    ("first_seen", T::Moment),
    ("last_seen", T::Moment),
];

/// Columns of data_locks. LOCK_MODE is NULL where it is not known.
const DATA_LOCKS: &[(&str, T)] = &[
    ("ENGINE", T::Text(32)),
    ("ENGINE_LOCK_ID", T::Text(128)),
    ("ENGINE_TRANSACTION_ID", T::Count),
    ("THREAD_ID", T::Count),
    ("EVENT_ID", T::Count),
    ("OBJECT_SCHEMA", T::Text(64)),
    ("OBJECT_NAME", T::Text(64)),
    ("PARTITION_NAME", T::Text(64)),
    ("SUBPARTITION_NAME", T::Text(64)),
    ("INDEX_NAME", T::Text(64)),
    ("OBJECT_INSTANCE_BEGIN", T::Count),
    ("LOCK_TYPE", T::Text(32)),
    ("LOCK_MODE", T::Text(32)),
    ("LOCK_STATUS", T::Text(32)),
    ("LOCK_DATA", T::Long),
];

const DATA_LOCK_WAITS: &[(&str, T)] = &[
    ("ENGINE", T::Text(32)),
    ("REQUESTING_ENGINE_LOCK_ID", T::Text(128)),
    ("REQUESTING_ENGINE_TRANSACTION_ID", T::Count),
    ("REQUESTING_THREAD_ID", T::Count),
    ("REQUESTING_EVENT_ID", T::Count),
    ("REQUESTING_OBJECT_INSTANCE_BEGIN", T::Count),
    ("BLOCKING_ENGINE_LOCK_ID", T::Text(128)),
    ("BLOCKING_ENGINE_TRANSACTION_ID", T::Count),
    ("BLOCKING_THREAD_ID", T::Count),
    ("BLOCKING_EVENT_ID", T::Count),
    ("BLOCKING_OBJECT_INSTANCE_BEGIN", T::Count),
];

const METADATA_LOCKS: &[(&str, T)] = &[
    ("OBJECT_TYPE", T::Text(64)),
    ("OBJECT_SCHEMA", T::Text(64)),
    ("OBJECT_NAME", T::Text(64)),
    ("COLUMN_NAME", T::Text(64)),
    ("OBJECT_INSTANCE_BEGIN", T::Count),
    ("LOCK_TYPE", T::Text(32)),
    ("LOCK_DURATION", T::Text(32)),
    ("LOCK_STATUS", T::Text(32)),
    ("SOURCE", T::Text(64)),
    ("OWNER_THREAD_ID", T::Count),
    ("OWNER_EVENT_ID", T::Count),
];

const STAGE_EVENTS: &[(&str, T)] = &[
    ("THREAD_ID", T::Count),
    ("EVENT_ID", T::Count),
    ("END_EVENT_ID", T::Count),
    ("EVENT_NAME", T::Text(128)),
    ("SOURCE", T::Text(64)),
    ("TIMER_START", T::Count),
    ("TIMER_END", T::Count),
    ("TIMER_WAIT", T::Count),
    ("WORK_COMPLETED", T::Count),
    ("WORK_ESTIMATED", T::Count),
    ("NESTING_EVENT_ID", T::Count),
    ("NESTING_EVENT_TYPE", T::Text(11)),
];

/// Columns of events_statements_current and events_statements_history.
const STATEMENT_EVENTS: &[(&str, T)] = &[
    ("THREAD_ID", T::Count),
    ("EVENT_ID", T::Count),
    ("END_EVENT_ID", T::Count),
    ("EVENT_NAME", T::Text(128)),
    ("SOURCE", T::Text(64)),
    ("TIMER_START", T::Count),
    ("TIMER_END", T::Count),
    ("TIMER_WAIT", T::Count),
    ("LOCK_TIME", T::Count),
    ("SQL_TEXT", T::Long),
    ("DIGEST", T::Text(64)),
    ("DIGEST_TEXT", T::Long),
    ("CURRENT_SCHEMA", T::Text(64)),
    ("OBJECT_TYPE", T::Text(64)),
    ("OBJECT_SCHEMA", T::Text(64)),
    ("OBJECT_NAME", T::Text(64)),
    ("OBJECT_INSTANCE_BEGIN", T::Count),
    ("MYSQL_ERRNO", T::Count),
    ("RETURNED_SQLSTATE", T::Text(5)),
    ("MESSAGE_TEXT", T::Text(128)),
    ("ERRORS", T::Count),
    ("WARNINGS", T::Count),
    ("ROWS_AFFECTED", T::Count),
    ("ROWS_SENT", T::Count),
    ("ROWS_EXAMINED", T::Count),
    ("CREATED_TMP_DISK_TABLES", T::Count),
    ("CREATED_TMP_TABLES", T::Count),
    ("SELECT_FULL_JOIN", T::Count),
    ("SELECT_FULL_RANGE_JOIN", T::Count),
    ("SELECT_RANGE", T::Count),
    ("SELECT_RANGE_CHECK", T::Count),
    ("SELECT_SCAN", T::Count),
    ("SORT_MERGE_PASSES", T::Count),
    ("SORT_RANGE", T::Count),
    ("SORT_ROWS", T::Count),
    ("SORT_SCAN", T::Count),
    ("NO_INDEX_USED", T::Count),
    ("NO_GOOD_INDEX_USED", T::Count),
    ("NESTING_EVENT_ID", T::Count),
    ("NESTING_EVENT_TYPE", T::Text(18)),
    ("NESTING_EVENT_LEVEL", T::Count),
    ("STATEMENT_ID", T::Count),
    ("CPU_TIME", T::Count),
    ("MAX_CONTROLLED_MEMORY", T::Count),
    ("MAX_TOTAL_MEMORY", T::Count),
    ("EXECUTION_ENGINE", T::Text(9)),
];

const INNODB_LOCK_WAITS: &[(&str, T)] = &[
    ("wait_started", T::Moment),
    ("wait_age", T::Time),
    ("wait_age_secs", T::Count),
    ("locked_table", T::Long),
    ("locked_table_schema", T::Text(64)),
    ("locked_table_name", T::Text(64)),
    ("locked_table_partition", T::Text(64)),
    ("locked_table_subpartition", T::Text(64)),
    ("locked_index", T::Text(64)),
    ("locked_type", T::Text(32)),
    ("waiting_trx_id", T::Count),
    ("waiting_trx_started", T::Moment),
    ("waiting_trx_age", T::Time),
    ("waiting_trx_rows_locked", T::Count),
    ("waiting_trx_rows_modified", T::Count),
    ("waiting_pid", T::Count),
    ("waiting_query", T::Long),
    ("waiting_lock_id", T::Text(128)),
    ("waiting_lock_mode", T::Text(32)),
    ("blocking_trx_id", T::Count),
    ("blocking_pid", T::Count),
    ("blocking_query", T::Long),
    ("blocking_lock_id", T::Text(128)),
    ("blocking_lock_mode", T::Text(32)),
    ("blocking_trx_started", T::Moment),
    ("blocking_trx_age", T::Time),
    ("blocking_trx_rows_locked", T::Count),
    ("blocking_trx_rows_modified", T::Count),
    ("sql_kill_blocking_query", T::Text(32)),
    ("sql_kill_blocking_connection", T::Text(26)),
];

/// Columns of processlist and session; `quantity` is the type of times and sizes.
fn processlist(quantity: T) -> Vec<(&'static str, T)> {
    vec![
        ("thd_id", T::Count),
        ("conn_id", T::Count),
        ("user", T::Text(288)),
        ("db", T::Text(64)),
        ("command", T::Text(16)),
        ("state", T::Text(64)),
        ("time", T::Count),
        ("current_statement", T::Long),
        ("execution_engine", T::Text(9)),
        ("statement_latency", quantity),
        ("progress", T::Fraction),
        ("lock_latency", quantity),
        ("cpu_latency", quantity),
        ("rows_examined", T::Count),
        ("rows_sent", T::Count),
        ("rows_affected", T::Count),
        ("tmp_tables", T::Count),
        ("tmp_disk_tables", T::Count),
        ("full_scan", T::Text(3)),
        ("last_statement", T::Long),
        ("last_statement_latency", quantity),
        ("current_memory", quantity),
        ("last_wait", T::Text(128)),
        ("last_wait_latency", T::Text(13)),
        ("source", T::Text(64)),
        ("trx_latency", quantity),
        ("trx_state", T::Text(11)),
        ("trx_autocommit", T::Text(3)),
        ("pid", T::Text(1024)),
        ("program_name", T::Text(1024)),
    ]
}

/// Columns of host_summary; `quantity` is the type of times and sizes.
fn host_summary(quantity: T) -> Vec<(&'static str, T)> {
    vec![
        ("host", T::Text(255)),
        ("statements", T::Count),
        ("statement_latency", quantity),
        ("statement_avg_latency", quantity),
        ("table_scans", T::Count),
        ("file_ios", T::Count),
        ("file_io_latency", quantity),
        ("current_connections", T::Count),
        ("total_connections", T::Count),
        ("unique_users", T::Count),
        ("current_memory", quantity),
        ("total_memory_allocated", quantity),
    ]
}

/// Columns of table_io_waits_summary_by_table.
fn table_io_waits() -> Vec<(&'static str, T)> {
    vec![
        ("OBJECT_TYPE", T::Text(64)),
        ("OBJECT_SCHEMA", T::Text(64)),
        ("OBJECT_NAME", T::Text(64)),
        ("COUNT_STAR", T::Count),
        ("SUM_TIMER_WAIT", T::Count),
        ("MIN_TIMER_WAIT", T::Count),
        ("AVG_TIMER_WAIT", T::Count),
        ("MAX_TIMER_WAIT", T::Count),
        ("COUNT_READ", T::Count),
        ("SUM_TIMER_READ", T::Count),
        ("MIN_TIMER_READ", T::Count),
        ("AVG_TIMER_READ", T::Count),
        ("MAX_TIMER_READ", T::Count),
        ("COUNT_WRITE", T::Count),
        ("SUM_TIMER_WRITE", T::Count),
        ("MIN_TIMER_WRITE", T::Count),
        ("AVG_TIMER_WRITE", T::Count),
        ("MAX_TIMER_WRITE", T::Count),
        ("COUNT_FETCH", T::Count),
        ("SUM_TIMER_FETCH", T::Count),
        ("MIN_TIMER_FETCH", T::Count),
        ("AVG_TIMER_FETCH", T::Count),
        ("MAX_TIMER_FETCH", T::Count),
        ("COUNT_INSERT", T::Count),
        ("SUM_TIMER_INSERT", T::Count),
        ("MIN_TIMER_INSERT", T::Count),
        ("AVG_TIMER_INSERT", T::Count),
        ("MAX_TIMER_INSERT", T::Count),
        ("COUNT_UPDATE", T::Count),
        ("SUM_TIMER_UPDATE", T::Count),
        ("MIN_TIMER_UPDATE", T::Count),
        ("AVG_TIMER_UPDATE", T::Count),
        ("MAX_TIMER_UPDATE", T::Count),
        ("COUNT_DELETE", T::Count),
        ("SUM_TIMER_DELETE", T::Count),
        ("MIN_TIMER_DELETE", T::Count),
        ("AVG_TIMER_DELETE", T::Count),
        ("MAX_TIMER_DELETE", T::Count),
    ]
}

/// Columns of schema_table_statistics; `quantity` is the type of times and sizes.
fn table_statistics(quantity: T) -> Vec<(&'static str, T)> {
    vec![
        ("table_schema", T::Text(64)),
        ("table_name", T::Text(64)),
        ("total_latency", quantity),
        ("rows_fetched", T::Count),
        ("fetch_latency", quantity),
        ("rows_inserted", T::Count),
        ("insert_latency", quantity),
        ("rows_updated", T::Count),
        ("update_latency", quantity),
        ("rows_deleted", T::Count),
        ("delete_latency", quantity),
        ("io_read_requests", T::Average),
        ("io_read", quantity),
        ("io_read_latency", quantity),
        ("io_write_requests", T::Average),
        ("io_write", quantity),
        ("io_write_latency", quantity),
        ("io_misc_requests", T::Average),
        ("io_misc_latency", quantity),
    ]
}
