//! Tables that tools ask for when they connect or dump, of things that this server has few or none
//! of: KEYWORDS, PLUGINS, and the empty FILES, PARAMETERS, COLUMN_STATISTICS, PROFILING.

use super::T;
use crate::parse::keyword;
use crate::show::table::text;
use porpoise_types::Value;

/// Columns of KEYWORDS.
pub(super) const KEYWORDS: &[(&str, T)] = &[("WORD", T::Text(128)), ("RESERVED", T::Int)];

/// Columns of PLUGINS.
pub(super) const PLUGINS: &[(&str, T)] = &[
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
pub(super) const PARAMETERS: &[(&str, T)] = &[
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
pub(super) const COLUMN_STATISTICS: &[(&str, T)] = &[
    ("SCHEMA_NAME", T::Name),
    ("TABLE_NAME", T::Name),
    ("COLUMN_NAME", T::Text(64)),
    ("HISTOGRAM", T::Long),
];

/// Columns of FILES.
pub(super) const FILES: &[(&str, T)] = &[
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
pub(super) const PROFILING: &[(&str, T)] = &[
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

/// Rows of KEYWORDS, in the order of the words.
pub(super) fn keywords() -> Vec<Vec<Value>> {
    let mut words: Vec<(&str, bool)> = keyword::all().collect();
    words.sort_unstable();
    let row = |(word, reserved): (&str, bool)| vec![text(word), Value::Int(i64::from(reserved))];
    words.into_iter().map(row).collect()
}

/// Rows of PLUGINS, which SHOW PLUGINS tells, too.
pub(super) fn plugins() -> Vec<Vec<Value>> {
    let row = |(name, kind): (&str, &str)| {
        vec![
            text(name),
            text("1.0"),
            text("ACTIVE"),
            text(kind),
            Value::Null,
            Value::Null,
            Value::Null,
            text("Porpoise"),
            Value::Null,
            text("Apache-2.0"),
            text("FORCE"),
        ]
    };
    crate::show::server::PLUGINS.into_iter().map(row).collect()
}
