//! The binary log as statements see it. The server provides it: SQL knows no files.

use porpoise_rows::changes::AckStatus;
use porpoise_sql_expr::error::{Result, SqlError};
use std::time::Duration;

/// Present state of the log.
#[derive(Clone, Debug, Default)]
pub struct BinaryLogStatus {
    /// Name of the last file.
    pub file: String,
    /// Its end.
    pub position: u64,
    /// `gtid_executed`.
    pub executed: String,
    /// `gtid_purged`.
    pub purged: String,
}

/// An event of a file.
#[derive(Clone, Debug)]
pub struct BinaryLogEvent {
    /// Name of the file.
    pub file: String,
    /// Position of the event.
    pub position: u64,
    /// Name of its type.
    pub kind: &'static str,
    /// The server that ran it first.
    pub server_id: u32,
    /// Position after the event.
    pub end: u64,
    /// Description.
    pub info: String,
}

/// A registered replica.
#[derive(Clone, Debug)]
pub struct RegisteredReplica {
    /// Its `server_id`.
    pub server_id: u32,
    /// Its host, as it reports it.
    pub host: String,
    /// Its port, as it reports it.
    pub port: u16,
    /// `server_id` of the source.
    pub source_id: u32,
    /// Its UUID; empty if it has not said.
    pub uuid: String,
}

/// Settings of the wait for acknowledgements of replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckSettings {
    /// Whether commits wait.
    pub is_on: bool,
    /// Number of replicas that must acknowledge.
    pub replicas: u32,
    /// Longest wait; `None`: for ever.
    pub timeout: Option<Duration>,
}

/// The variables of SHOW STATUS about acknowledgement.
pub(crate) fn ack_variables(status: &AckStatus) -> Vec<(String, String)> {
    let mode = if status.is_waiting_mode { "ON" } else { "OFF" };
    let average = status.wait_micros.checked_div(status.acknowledged);
    let list = [
        ("clients", status.clients.to_string()),
        ("no_times", status.timeouts.to_string()),
        ("no_tx", status.passed.to_string()),
        ("status", mode.to_owned()),
        ("tx_avg_wait_time", average.unwrap_or(0).to_string()),
        ("tx_wait_time", status.wait_micros.to_string()),
        ("tx_waits", status.acknowledged.to_string()),
        ("wait_sessions", status.waiting.to_string()),
        ("yes_tx", status.acknowledged.to_string()),
    ];
    let name = |name| format!("Rpl_semi_sync_source_{name}");
    list.into_iter()
        .map(|(n, value)| (name(n), value))
        .collect()
}

/// The binary log. Errors are those of statements.
pub trait BinaryLogs: Send + Sync {
    /// The present state, without waiting: it may lack commits that are not acknowledged or not in the files yet.
    fn present_status(&self) -> BinaryLogStatus;

    /// Present state.
    fn status(&self) -> BinaryLogStatus;

    /// Names and lengths of the files, oldest first.
    fn files(&self) -> Vec<(String, u64)>;

    /// Events of a file (`None`: the first one) from a position on: `skip` left out, at most `limit`.
    ///
    /// # Errors
    /// 1220 for a file or a position that does not exist.
    fn events(
        &self,
        file: Option<&str>,
        position: Option<u64>,
        skip: u64,
        limit: u64,
    ) -> Result<Vec<BinaryLogEvent>>;

    /// Begins a new file.
    ///
    /// # Errors
    /// The log is closed.
    fn rotate(&self) -> Result<()>;

    /// Removes all files and restarts with the first one.
    ///
    /// # Errors
    /// The log is closed.
    fn reset(&self) -> Result<()>;

    /// Removes the files before this one.
    ///
    /// # Errors
    /// 1373 if there is no such file.
    fn purge_to(&self, file: &str) -> Result<()>;

    /// Removes the files whose last change was before a time in microseconds since 1970 UTC.
    ///
    /// # Errors
    /// A file cannot be removed.
    fn purge_before(&self, micros: u64) -> Result<()>;

    /// The registered replicas.
    fn replicas(&self) -> Vec<RegisteredReplica>;

    /// Sets `binlog_row_image` for transactions from now on.
    fn set_row_image(&self, image: &str);

    /// Changes the settings of the wait for acknowledgements of replicas.
    ///
    /// # Errors
    /// The engine cannot withhold commits.
    fn set_acknowledgement(&self, settings: AckSettings) -> Result<()>;

    /// State and counters of acknowledgement.
    fn acknowledgement(&self) -> AckStatus;
}

/// The error for statements on the log of a server without one.
pub(crate) fn not_used() -> SqlError {
    SqlError::new(1381, "HY000", "You are not using binary logging")
}
