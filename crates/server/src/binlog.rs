//! The binary log of a server: its options, the server's UUID, and its statements.

use crate::config::{Config, DurabilityChoice, EngineChoice, StartError};
use crate::standby::epoch;
use porpoise_base::disk::Disk;
use porpoise_binlog::acknowledge::AckPolicy;
use porpoise_binlog::flow_control::FlowSettings;
use porpoise_binlog::log::Replica;
use porpoise_binlog::{BinaryLog, Encoder, Error, Options, RowImage};
use porpoise_kv::Engine;
use porpoise_replication::event::ColumnMetadata;
use porpoise_replication::gtid::Uuid;
use porpoise_rows::Db;
use porpoise_rows::changes::AckStatus;
use porpoise_sql::binary_log::{
    AckSettings, BinaryLogEvent, BinaryLogStatus, BinaryLogs, RegisteredReplica,
};
use porpoise_sql::{SqlError, SqlServer, VERSION};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Directory of the files, within the data directory.
pub const DIRECTORY: &str = "binlog";

/// File of the server's UUID, in MySQL's form.
pub const UUID_FILE: &str = "auto.cnf";

/// An open log.
pub struct OpenLog {
    log: Arc<BinaryLog>,
    encoder: Arc<Encoder>,
}

impl OpenLog {
    /// Lets SQL show and manage the log. Returns the log.
    pub fn provide(self, sql: &SqlServer) -> Arc<BinaryLog> {
        let shown = Arc::downgrade(&self.log);
        sql.provide_status(Box::new(move || {
            shown
                .upgrade()
                .map_or_else(Vec::new, |log| log.flow_variables())
        }));
        sql.provide_binary_log(Arc::new(Statements {
            engine: sql.db().engine().clone(),
            log: self.log.clone(),
            encoder: self.encoder,
        }));
        self.log
    }
}

/// Marks a run without the log on data that have one, so that readers are later refused instead of missing changes. Called
/// before the engine is opened, which may discard annotations that the log has not written yet.
///
/// # Errors
/// A message for the operator in one line.
pub fn mark_unlogged(config: &Config, disk: &dyn Disk) -> Result<(), StartError> {
    let has_store =
        config.engine == EngineChoice::Embedded && config.durability != DurabilityChoice::Memory;
    if config.log_bin || !has_store {
        return Ok(());
    }
    let marked = porpoise_binlog::mark_unlogged(disk, &config.data_dir.join(DIRECTORY));
    marked.map_err(|e| StartError::failure(format!("binary log: {e}")))
}

/// Opens the log, if the configuration has one, and lets rows log their changes.
///
/// # Errors
/// A message for the operator in one line.
pub fn open(
    config: &Config,
    engine: &Arc<dyn Engine>,
    db: &Arc<Db>,
    disk: Arc<dyn Disk>,
) -> Result<Option<OpenLog>, StartError> {
    if !config.log_bin {
        return Ok(None);
    }
    let failed = |e: &dyn std::fmt::Display| StartError::failure(format!("--log-bin: {e}"));
    let server_uuid = server_uuid(&config.data_dir).map_err(|e| failed(&e))?;
    let options = Options {
        dir: config.data_dir.join(DIRECTORY),
        disk,
        clock: db.clock().clone(),
        server_id: config.server_id,
        server_uuid,
        version: VERSION.to_owned(),
        max_file_bytes: config.binlog_file_size,
        expire: config.binlog_expire,
        max_total_bytes: config.binlog_total_size,
        compress: config.binlog_compression,
    };
    let log = BinaryLog::open(options, engine).map_err(|e| failed(&e))?;
    let metadata = match config.binlog_full_metadata {
        true => ColumnMetadata::Full,
        false => ColumnMetadata::Minimal,
    };
    let encoder = Encoder::new(config.server_id, config.binlog_row_image, metadata);
    let encoder = Arc::new(encoder.with_pending_keys(log.pending_keys().clone()));
    let flow = FlowSettings {
        max_pause: config.flow_control_pause,
        threshold: config.flow_control_threshold,
    };
    log.provide_pacing(db.commit_pacing().clone(), flow);
    db.set_change_log(encoder.clone());
    Ok(Some(OpenLog { log, encoder }))
}

/// Reads the server's UUID, or makes one at the first start.
fn server_uuid(data_dir: &Path) -> io::Result<Uuid> {
    let path = data_dir.join(UUID_FILE);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let uuid = random_uuid()?;
            std::fs::write(&path, format!("[auto]\nserver-uuid={uuid}\n"))?;
            return Ok(uuid);
        }
        Err(error) => return Err(error),
    };
    let lines = text.lines().filter_map(|line| line.split_once('='));
    let mut values = lines.filter(|(key, _)| key.trim().replace('_', "-") == "server-uuid");
    let uuid = values
        .next()
        .and_then(|(_, value)| Uuid::parse(value.trim()));
    uuid.ok_or_else(|| io::Error::other(format!("{} has no server-uuid", path.display())))
}

/// A random UUID (version 4).
fn random_uuid() -> io::Result<Uuid> {
    let salt = porpoise_wire::mysql::handshake::random_salt();
    let salt = salt.ok_or_else(|| io::Error::other("no random bytes"))?;
    let mut bytes = [0; 16];
    for (byte, random) in bytes.iter_mut().zip(salt) {
        // A salt has 7 random bits in each byte; the top bit does not matter here.
        *byte = random;
    }
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(Uuid(bytes))
}

/// Settings of the log that clients can read as system variables.
pub fn variables(config: &Config) -> Vec<(&'static str, String)> {
    // A damaged file ends the start when the replica is opened.
    let epoch = epoch::read(&config.data_dir).unwrap_or_default();
    let is_read_only =
        config.failover_members.is_some() || epoch.is_read_only.unwrap_or(config.super_read_only);
    let mut list = vec![
        ("server_id", config.server_id.to_string()),
        ("read_only", is_read_only.to_string()),
        ("super_read_only", is_read_only.to_string()),
        ("replication_epoch", epoch.number.to_string()),
    ];
    if !config.log_bin {
        return list;
    }
    let image = match config.binlog_row_image {
        RowImage::Full => "FULL",
        RowImage::NoBlob => "NOBLOB",
        RowImage::Minimal => "MINIMAL",
    };
    let metadata = if config.binlog_full_metadata {
        "FULL"
    } else {
        "MINIMAL"
    };
    if let Some(replicas) = config.replication_ack {
        let timeout = config.replication_ack_timeout.map(|time| time.as_millis());
        let timeout = timeout.and_then(|millis| u32::try_from(millis).ok());
        list.extend([
            ("rpl_semi_sync_master_enabled", "ON".to_owned()),
            ("rpl_semi_sync_source_enabled", "ON".to_owned()),
            (
                "rpl_semi_sync_source_wait_for_replica_count",
                replicas.to_string(),
            ),
            (
                "rpl_semi_sync_source_timeout",
                timeout.unwrap_or(u32::MAX).to_string(),
            ),
        ]);
    }
    let expire = config.binlog_expire.map_or(0, |time| time.as_secs());
    if let Ok(uuid) = server_uuid(&config.data_dir) {
        list.push(("server_uuid", uuid.to_string()));
    }
    list.extend([
        ("log_bin", "ON".to_owned()),
        ("log_replica_updates", "ON".to_owned()),
        ("log_slave_updates", "ON".to_owned()),
        ("gtid_mode", "ON".to_owned()),
        ("enforce_gtid_consistency", "ON".to_owned()),
        ("binlog_row_image", image.to_owned()),
        ("binlog_row_metadata", metadata.to_owned()),
        ("binlog_expire_logs_seconds", expire.to_string()),
        ("max_binlog_size", config.binlog_file_size.to_string()),
        (
            "max_binlog_total_size",
            config.binlog_total_size.unwrap_or(0).to_string(),
        ),
        (
            "binlog_transaction_compression",
            config.binlog_compression.to_string(),
        ),
    ]);
    list
}

struct Statements {
    engine: Arc<dyn Engine>,
    log: Arc<BinaryLog>,
    encoder: Arc<Encoder>,
}

fn statement_error(error: Error) -> SqlError {
    match &error {
        Error::NoSuchFile(_) => {
            let text = "Target log not found in binlog index";
            SqlError::new(1373, "HY000", text)
        }
        _ => SqlError::new(1105, "HY000", error.to_string()),
    }
}

impl BinaryLogs for Statements {
    fn status(&self) -> BinaryLogStatus {
        // The position agrees with a snapshot taken now, because programs that copy data record both. A closed
        // log, or a failed engine, shows the position at which it stopped.
        let newest = self.engine.newest_position();
        let _ = self.engine.wait_durable(newest).is_ok() && self.log.catch_up().is_ok();
        self.present_status()
    }

    fn present_status(&self) -> BinaryLogStatus {
        let status = self.log.status();
        BinaryLogStatus {
            file: status.file,
            position: status.position,
            executed: status.executed.to_string(),
            purged: status.purged.to_string(),
        }
    }

    fn files(&self) -> Vec<(String, u64)> {
        self.log.files()
    }

    fn events(
        &self,
        file: Option<&str>,
        position: Option<u64>,
        skip: u64,
        limit: u64,
    ) -> Result<Vec<BinaryLogEvent>, SqlError> {
        let events = self.log.events(file, position, skip, limit);
        let events = events.map_err(|error| {
            let text = format!("Error when executing command SHOW BINLOG EVENTS: {error}");
            SqlError::new(1220, "HY000", text)
        })?;
        let event = |row: porpoise_binlog::describe::EventRow| BinaryLogEvent {
            file: row.file,
            position: row.position,
            kind: row.kind,
            server_id: row.server_id,
            end: row.end,
            info: row.info,
        };
        Ok(events.into_iter().map(event).collect())
    }

    fn rotate(&self) -> Result<(), SqlError> {
        self.log.rotate().map_err(statement_error)
    }

    fn reset(&self) -> Result<(), SqlError> {
        self.log.reset().map_err(statement_error)
    }

    fn purge_to(&self, file: &str) -> Result<(), SqlError> {
        self.log.purge_to(file).map_err(statement_error)
    }

    fn purge_before(&self, micros: u64) -> Result<(), SqlError> {
        self.log.purge_before(micros).map_err(statement_error)
    }

    fn replicas(&self) -> Vec<RegisteredReplica> {
        let source_id = self.log.server_id();
        let entry = |replica: Replica| RegisteredReplica {
            server_id: replica.server_id,
            host: replica.host,
            port: replica.port,
            source_id,
            uuid: replica.uuid,
        };
        self.log.replicas().into_iter().map(entry).collect()
    }

    fn set_acknowledgement(&self, settings: AckSettings) -> Result<(), SqlError> {
        let policy = AckPolicy {
            is_on: settings.is_on,
            replicas: settings.replicas as usize,
            timeout: settings.timeout,
        };
        self.log.set_ack_policy(policy).map_err(statement_error)
    }

    fn acknowledgement(&self) -> AckStatus {
        self.log.ack_status()
    }

    fn set_row_image(&self, image: &str) {
        if let Some(image) = RowImage::parse(image) {
            self.encoder.set_image(image);
        }
    }
}
