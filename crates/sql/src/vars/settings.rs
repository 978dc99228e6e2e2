//! Typed settings of a session, computed from its list of values whenever one changes.

use super::{Values, VarValue};
use porpoise_rows::AutoIncOptions;
use porpoise_sql_expr::error::Result;
use porpoise_sql_expr::expr::block_cipher::BlockCipher;
use porpoise_sql_expr::locale::Locale;
use porpoise_types::{Charset, Collation, SqlMode, TimeZone};
use std::time::Duration;

/// Isolation level of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsolationLevel {
    /// READ UNCOMMITTED and READ COMMITTED: a new snapshot for each statement.
    ReadCommitted,
    /// REPEATABLE READ: one snapshot for the transaction.
    RepeatableRead,
    /// SERIALIZABLE.
    Serializable,
}

impl IsolationLevel {
    /// The level of a value of `transaction_isolation`.
    pub fn named(name: &str) -> IsolationLevel {
        match name {
            "READ-UNCOMMITTED" | "READ-COMMITTED" => IsolationLevel::ReadCommitted,
            "SERIALIZABLE" => IsolationLevel::Serializable,
            _ => IsolationLevel::RepeatableRead,
        }
    }
}

/// Typed values of a session's variables.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `sql_mode`.
    pub mode: SqlMode,
    /// `autocommit`.
    pub autocommit: bool,
    /// `xa_detach_on_prepare`.
    pub xa_detach: bool,
    /// `transaction_isolation`.
    pub isolation: IsolationLevel,
    /// `transaction_read_only`.
    pub read_only: bool,
    /// `innodb_snapshot_isolation`.
    pub snapshot_isolation: bool,
    /// `read_staleness`; `None` for snapshots that are always new.
    pub read_staleness: Option<Duration>,
    /// `innodb_lock_wait_timeout`.
    pub lock_wait: Duration,
    /// `lock_wait_timeout`.
    pub definition_wait: Duration,
    /// `foreign_key_checks`.
    pub foreign_key_checks: bool,
    /// `sql_generate_invisible_primary_key`.
    pub generates_keys: bool,
    /// `sql_require_primary_key`.
    pub requires_key: bool,
    /// `foreign_key_cascade_triggers`.
    pub cascades_fire: bool,
    /// `time_zone`.
    pub time_zone: TimeZone,
    /// `character_set_client`.
    pub client: Charset,
    /// `collation_connection`.
    pub collation: Collation,
    /// `character_set_results`; `None` sends results without conversion.
    pub results: Option<Charset>,
    /// `collation_server`.
    pub server_collation: Collation,
    /// `default_collation_for_utf8mb4`.
    pub utf8mb4_collation: Collation,
    /// `auto_increment_*`.
    pub auto_increment: AutoIncOptions,
    /// `max_execution_time`.
    pub max_execution: Option<Duration>,
    /// `long_query_time` in nanoseconds.
    pub long_query_nanos: u64,
    /// `min_examined_row_limit`.
    pub min_examined_rows: u64,
    /// `sql_select_limit`, unless it is unlimited.
    pub select_limit: Option<u64>,
    /// `sql_safe_updates`.
    pub safe_updates: bool,
    /// `sql_notes`.
    pub notes: bool,
    /// `div_precision_increment`.
    pub div_precision: u8,
    /// `block_encryption_mode`.
    pub block_cipher: BlockCipher,
    /// `lc_time_names`.
    pub locale: &'static Locale,
    /// `default_week_format`.
    pub week_format: u8,
    /// `cte_max_recursion_depth`.
    pub recursion: u64,
    /// `group_concat_max_len`.
    pub group_concat_max_len: u64,
    /// `max_allowed_packet`.
    pub max_allowed_packet: u64,
    /// `statement_memory_limit`.
    pub statement_memory: u64,
    /// `connection_memory_limit`.
    pub connection_memory: u64,
    /// `timestamp` in microseconds; `None` for the clock.
    pub timestamp: Option<i64>,
    /// `default_storage_engine`.
    pub engine: String,
    /// `completion_type`.
    pub completion: Completion,
    /// `wait_timeout`.
    pub wait_timeout: Duration,
    /// `interactive_timeout`.
    pub interactive_timeout: Duration,
    /// `resultset_metadata`: whether results have column definitions.
    pub metadata: bool,
    /// `result_checksum`: whether a checksum is sent instead of rows.
    pub result_checksum: bool,
    /// `session_track_transaction_info`.
    pub transaction_info: TransactionInfo,
}

/// `session_track_transaction_info`: what is reported about transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionInfo {
    /// Nothing.
    Off,
    /// The transaction's state.
    State,
    /// The transaction's state, and the statements that begin one like it.
    Characteristics,
}

/// `completion_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// Nothing.
    Plain,
    /// CHAIN: another transaction begins.
    Chain,
    /// RELEASE: the connection ends.
    Release,
}

/// The time of a value of `read_staleness`; `None` for zero.
pub fn staleness(value: &VarValue) -> Option<Duration> {
    match value {
        // A minute at most.
        VarValue::Double(seconds) if *seconds > 0.0 => Some(Duration::from_secs_f64(*seconds)),
        _ => None,
    }
}

/// `long_query_time` in nanoseconds.
fn long_query_nanos(values: &Values) -> u64 {
    match values.named("long_query_time") {
        // The maximum, a year, is below 2^64 nanoseconds.
        VarValue::Double(seconds) => (seconds * 1e9) as u64,
        _ => 10_000_000_000,
    }
}

impl Settings {
    /// Converts values to settings.
    ///
    /// # Errors
    /// None for values that passed their checks.
    pub fn new(values: &Values) -> Result<Settings> {
        let charset = |name: &str| Charset::by_name(values.text(name)).unwrap_or(Charset::Utf8mb4);
        let collation = |name: &str| {
            Collation::by_name(values.text(name)).unwrap_or(Collation::UTF8MB4_0900_AI_CI)
        };
        let mode = SqlMode::parse(values.text("sql_mode")).unwrap_or_default();
        let results = match values.named("character_set_results") {
            VarValue::Text(name) => Charset::by_name(name),
            _ => None,
        };
        let timestamp = match values.named("timestamp") {
            VarValue::Double(seconds) if *seconds > 0.0 => Some((seconds * 1e6).round() as i64),
            _ => None,
        };
        let limit = values.int("sql_select_limit");
        let execution = values.int("max_execution_time");
        Ok(Settings {
            mode,
            autocommit: values.bool("autocommit"),
            xa_detach: values.bool("xa_detach_on_prepare"),
            isolation: IsolationLevel::named(values.text("transaction_isolation")),
            read_only: values.bool("transaction_read_only"),
            snapshot_isolation: values.bool("innodb_snapshot_isolation"),
            read_staleness: staleness(values.named("read_staleness")),
            lock_wait: Duration::from_secs(values.int("innodb_lock_wait_timeout")),
            definition_wait: Duration::from_secs(values.int("lock_wait_timeout")),
            foreign_key_checks: values.bool("foreign_key_checks"),
            generates_keys: values.bool("sql_generate_invisible_primary_key"),
            requires_key: values.bool("sql_require_primary_key"),
            cascades_fire: values.bool("foreign_key_cascade_triggers"),
            time_zone: TimeZone::parse(values.text("time_zone")).unwrap_or(TimeZone::UTC),
            client: charset("character_set_client"),
            collation: collation("collation_connection"),
            results,
            server_collation: collation("collation_server"),
            utf8mb4_collation: collation("default_collation_for_utf8mb4"),
            auto_increment: AutoIncOptions {
                increment: values.int("auto_increment_increment"),
                offset: values.int("auto_increment_offset"),
                prefetch: values.int("auto_increment_prefetch"),
                no_auto_value_on_zero: mode.contains(SqlMode::NO_AUTO_VALUE_ON_ZERO),
                first: values.int("insert_id"),
            },
            max_execution: (execution > 0).then(|| Duration::from_millis(execution)),
            long_query_nanos: long_query_nanos(values),
            min_examined_rows: values.int("min_examined_row_limit"),
            select_limit: (limit != u64::MAX).then_some(limit),
            safe_updates: values.bool("sql_safe_updates"),
            notes: values.bool("sql_notes"),
            div_precision: u8::try_from(values.int("div_precision_increment")).unwrap_or(4),
            block_cipher: BlockCipher::named(values.text("block_encryption_mode")),
            locale: Locale::named(values.text("lc_time_names")).unwrap_or_else(Locale::english),
            week_format: u8::try_from(values.int("default_week_format")).unwrap_or(0),
            recursion: values.int("cte_max_recursion_depth"),
            group_concat_max_len: values.int("group_concat_max_len"),
            statement_memory: values.int("statement_memory_limit"),
            connection_memory: values.int("connection_memory_limit"),
            max_allowed_packet: values.int("max_allowed_packet"),
            timestamp,
            engine: values.text("default_storage_engine").to_owned(),
            completion: completion_of(values.text("completion_type")),
            wait_timeout: Duration::from_secs(values.int("wait_timeout")),
            interactive_timeout: Duration::from_secs(values.int("interactive_timeout")),
            metadata: values.text("resultset_metadata") != "NONE",
            result_checksum: values.bool("result_checksum"),
            transaction_info: transaction_info(values.text("session_track_transaction_info")),
        })
    }
}

/// Converts a value of `session_track_transaction_info`.
fn transaction_info(name: &str) -> TransactionInfo {
    match name {
        "STATE" => TransactionInfo::State,
        "CHARACTERISTICS" => TransactionInfo::Characteristics,
        _ => TransactionInfo::Off,
    }
}

/// The completion that `completion_type` names.
fn completion_of(name: &str) -> Completion {
    match name {
        "CHAIN" => Completion::Chain,
        "RELEASE" => Completion::Release,
        _ => Completion::Plain,
    }
}
