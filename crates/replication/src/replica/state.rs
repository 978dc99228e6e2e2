//! Settings of a replica's source, and the state that SHOW REPLICA STATUS shows.

use crate::filter::Filters;
use crate::follow::WorkerStatus;
use crate::position::{AppliedPosition, Coordinates, GtidPosition};
use crate::source::{Divergence, SourceIdentity};
use porpoise_client::mysql::Target;
use porpoise_client::{Address, TlsMode, TlsOptions};
use porpoise_wire::mysql::client::login::Credentials;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Settings of a source, of CHANGE REPLICATION SOURCE TO and CHANGE REPLICATION FILTER.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceSettings {
    /// SOURCE_HOST.
    pub host: String,
    /// SOURCE_PORT.
    pub port: u16,
    /// SOURCE_USER.
    pub user: String,
    /// SOURCE_PASSWORD.
    pub password: String,
    /// SOURCE_AUTO_POSITION, or MariaDB's MASTER_USE_GTID: the position is requested by GTIDs.
    pub auto_position: bool,
    /// SOURCE_CONNECT_RETRY in seconds.
    pub connect_retry: u64,
    /// SOURCE_RETRY_COUNT; 0: forever.
    pub retry_count: u64,
    /// SOURCE_HEARTBEAT_PERIOD in milliseconds.
    pub heartbeat_millis: u64,
    /// SOURCE_DELAY in seconds.
    pub delay: u64,
    /// SOURCE_SSL.
    pub ssl: bool,
    /// SOURCE_SSL_VERIFY_SERVER_CERT.
    pub ssl_verify: bool,
    /// SOURCE_SSL_CA; empty: none.
    pub ssl_ca: String,
    /// SOURCE_SSL_CERT.
    pub ssl_cert: String,
    /// SOURCE_SSL_KEY.
    pub ssl_key: String,
    /// Whether the replica is to run.
    pub is_started: bool,
    /// File and position of START REPLICA UNTIL; stored, so that a replica whose server restarts does not run past it.
    pub until: Option<(String, u64)>,
    /// Whether the thread only announces to the source, which is a former one, that this server has taken over. Stored by
    /// earlier versions as `is_former`.
    #[serde(alias = "is_former")]
    pub announces_takeover: bool,
    /// Filters.
    pub filters: Filters,
}

impl Default for SourceSettings {
    fn default() -> SourceSettings {
        SourceSettings {
            host: String::new(),
            port: 3306,
            user: String::new(),
            password: String::new(),
            auto_position: false,
            connect_retry: 60,
            retry_count: 10,
            heartbeat_millis: 30_000,
            delay: 0,
            ssl: false,
            ssl_verify: false,
            ssl_ca: String::new(),
            ssl_cert: String::new(),
            ssl_key: String::new(),
            is_started: false,
            until: None,
            announces_takeover: false,
            filters: Filters::default(),
        }
    }
}

/// Without the password.
impl std::fmt::Debug for SourceSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceSettings")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl SourceSettings {
    /// Address, account and TLS of the connections to the source.
    #[must_use]
    pub fn target(&self) -> Target {
        let credentials = Credentials {
            user: self.user.clone().into_bytes(),
            password: self.password.clone().into_bytes(),
            database: Vec::new(),
            attributes: vec![(b"program_name".to_vec(), b"porpoise replica".to_vec())],
        };
        let file = |path: &str| (!path.is_empty()).then(|| PathBuf::from(path));
        let address = Address::Tcp(self.host.clone(), self.port);
        Target {
            tls: TlsOptions {
                mode: match (self.ssl, self.ssl_verify, self.ssl_ca.is_empty()) {
                    (false, _, _) => TlsMode::Preferred,
                    (true, true, _) => TlsMode::VerifyIdentity,
                    (true, false, false) => TlsMode::VerifyCa,
                    (true, false, true) => TlsMode::Required,
                },
                authorities: file(&self.ssl_ca),
                identity: file(&self.ssl_cert).zip(file(&self.ssl_key)),
            },
            ..Target::new(address, credentials)
        }
    }
}

/// Activity of the replica's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Activity {
    /// It does not run.
    #[default]
    Stopped,
    /// It connects, or waits to connect again.
    Connecting,
    /// It applies events.
    Applying,
    /// Everything that the source has sent is applied.
    Waiting,
}

/// An error as SHOW REPLICA STATUS has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastError {
    /// MySQL's number; 0: none.
    pub number: u16,
    /// Text.
    pub message: String,
    /// Time in microseconds since 1970.
    pub time: i64,
}

/// State of a replica.
#[derive(Clone, Debug, Default)]
pub struct ReplicaState {
    /// Settings.
    pub settings: SourceSettings,
    /// The thread's present activity.
    pub activity: Activity,
    /// The source, once it was reached.
    pub source: Option<SourceIdentity>,
    /// End of the last event that was read.
    pub read: Coordinates,
    /// End of the last transaction that was applied.
    pub applied: Coordinates,
    /// Transactions that were applied.
    pub gtids: GtidPosition,
    /// Time of the source at which the event being applied, or the last one, was written; seconds since 1970.
    pub event_time: u32,
    /// Last error of the connection.
    pub connection_error: LastError,
    /// Last error of applying.
    pub apply_error: LastError,
    /// Transactions applied since the start of the thread.
    pub transactions: u64,
    /// Transactions repeated because of conflicts since the start of the server.
    pub repeated: u64,
    /// Transactions that are still to be skipped.
    pub to_skip: u64,
    /// Heartbeats since the start of the thread, and the time of the last in microseconds since 1970.
    pub heartbeats: (u64, i64),
    /// Time of START REPLICA in microseconds since 1970.
    pub started: i64,
    /// The workers; none if the replica's thread applies all transactions itself.
    pub workers: Vec<WorkerStatus>,
    /// Why the source's log does not continue this server's data, if it does not.
    pub divergence: Option<Divergence>,
}

impl ReplicaState {
    /// Shows a stored position.
    pub(super) fn set_position(&mut self, position: &AppliedPosition) {
        self.read = position.coordinates.clone();
        self.applied = position.coordinates.clone();
        self.gtids = position.gtids.clone();
    }

    /// Seconds by which the replica is behind its source; `None` if it is not connected.
    #[must_use]
    pub fn seconds_behind(&self, now_micros: i64) -> Option<u64> {
        match self.activity {
            Activity::Stopped | Activity::Connecting => None,
            Activity::Waiting => Some(0),
            Activity::Applying if self.event_time == 0 => Some(0),
            Activity::Applying => {
                let behind = now_micros / 1_000_000 - i64::from(self.event_time);
                Some(u64::try_from(behind).unwrap_or(0))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Settings as the version before `announces_takeover` stored them.
    const OLD_SETTINGS: &str = r#"{"host":"db1","port":3307,"user":"repl","password":"p","auto_position":true,
        "connect_retry":60,"retry_count":10,"heartbeat_millis":30000,"delay":0,"ssl":false,"ssl_verify":false,
        "ssl_ca":"","ssl_cert":"","ssl_key":"","is_started":true,"until":null,"is_former":true}"#;

    #[test]
    fn settings_of_the_previous_version_are_read() {
        let settings: SourceSettings = serde_json::from_str(OLD_SETTINGS).unwrap();
        assert!(settings.announces_takeover && settings.is_started && settings.auto_position);
        assert_eq!((settings.host.as_str(), settings.port), ("db1", 3307));
        let stored = serde_json::to_string(&settings).unwrap();
        assert!(!stored.contains("is_former"), "{stored}");
        let again: SourceSettings = serde_json::from_str(&stored).unwrap();
        assert_eq!(again, settings);
    }
}
