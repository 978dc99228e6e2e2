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
    performance("events_statements_histogram_by_digest", || {
        columns_of(HISTOGRAM)
    }),
    performance("events_statements_summary_by_digest", || {
        columns_of(SUMMARY_BY_DIGEST)
    }),
    performance("persisted_variables", || columns_of(PERSISTED_VARIABLES)),
    performance("variables_info", || columns_of(VARIABLES_INFO)),
];

/// Views of `sys`.
pub(super) const SYS: &[VirtualTable] = &[
    sys("schema_redundant_indexes", || columns_of(REDUNDANT_INDEXES)),
    sys("statement_analysis", || columns_of(STATEMENT_ANALYSIS)),
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
