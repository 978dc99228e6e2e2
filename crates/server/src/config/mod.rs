//! The configuration: sources, precedence and meaning of settings.
//!
//! Every setting is one entry of [`table::SETTINGS`]: name, default, help, and
//! the function that parses it into [`Config`]. The command-line option, the environment variable,
//! the key of the TOML file and the help text are derived from it. Precedence: option, variable,
//! file, default.
//!
//! Invariant: every error is one line that names the setting, the source of the value, the value
//! and the accepted values.

mod cluster_url;
pub mod exposure;
pub mod members;
pub mod report;
pub mod table;
pub mod value;

pub use cluster_url::{ClusterUrl, is_address};
pub use members::Members;

use porpoise_client::http::Endpoint;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A configuration or start-up error: a one-line message and an exit status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartError {
    /// Message to print.
    pub message: String,
    /// Exit status: 2 for a problem that the operator can correct.
    pub status: u8,
}

impl StartError {
    /// Creates an error that the operator can correct (exit status 2).
    pub fn usage(message: impl Into<String>) -> StartError {
        StartError {
            message: message.into(),
            status: 2,
        }
    }

    /// Creates an error of a failed operation (exit status 1).
    pub fn failure(message: impl Into<String>) -> StartError {
        StartError {
            message: message.into(),
            status: 1,
        }
    }
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StartError {}

/// The storage engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum EngineChoice {
    /// The embedded engine.
    #[default]
    Embedded,
    /// A TiKV cluster.
    Tikv(Box<ClusterUrl>),
}

/// Use of TLS by a listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// No TLS.
    Off,
    /// TLS for clients that start a handshake, plain text for others.
    #[default]
    Allowed,
    /// TLS for all clients except those of a Unix socket.
    Required,
}

/// The point at which a commit is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DurabilityChoice {
    /// After the sync that covers it.
    #[default]
    Sync,
    /// Immediately; the log is synced every `durability-interval`.
    Interval,
    /// Immediately; nothing is written to disk.
    Memory,
}

/// The complete configuration of the server.
///
/// `Config::default()` has only empty values, not the defaults of the settings: these are in
/// [`table::defaults`], the configuration of a server without options.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Directory of the store, the generated certificate and the lock file.
    pub data_dir: PathBuf,
    /// Whether an empty data directory is refused instead of initialised.
    pub require_data: bool,
    /// The engine.
    pub engine: EngineChoice,
    /// Time for which a lease on a cluster is granted.
    pub cluster_lease: Duration,
    /// Address of this server that other servers of the cluster show; `None`: that of a listener.
    pub cluster_address: Option<String>,
    /// See [`DurabilityChoice`].
    pub durability: DurabilityChoice,
    /// Longest time between two syncs with `DurabilityChoice::Interval`.
    pub durability_interval: Duration,
    /// Address of the MySQL listener; `None`: no listener.
    pub mysql_listen: Option<SocketAddr>,
    /// Unix socket of the MySQL listener.
    pub mysql_socket: Option<PathBuf>,
    /// Address of the memcached listener.
    pub memcached_listen: Option<SocketAddr>,
    /// Unix socket of the memcached listener.
    pub memcached_socket: Option<PathBuf>,
    /// Additional memcached listeners: server role and address of each.
    pub memcached_listeners: Vec<(String, SocketAddr)>,
    /// Memory of `cache_only` keys, in bytes.
    pub memcached_cache: u64,
    /// Maximum length of a value at the memcached listeners, in bytes.
    pub memcached_item_size: usize,
    /// Whether changes of rows by memcached commands fire triggers.
    pub memcached_triggers: bool,
    /// Interval at which the reaper deletes expired rows; `None`: no reaper.
    pub memcached_reap: Option<Duration>,
    /// Address of the native listener.
    pub native_listen: Option<SocketAddr>,
    /// Use of TLS by the native listener.
    pub native_tls: TlsMode,
    /// Address of the REST listener.
    pub rest_listen: Option<SocketAddr>,
    /// Use of TLS by the REST listener.
    pub rest_tls: TlsMode,
    /// Address of the HTTP listener.
    pub http_listen: Option<SocketAddr>,
    /// Whether the HTTP listener serves the console.
    pub console: bool,
    /// Host names of the console besides those of loopback, in lower case.
    pub console_hosts: Vec<String>,
    /// Whether other machines may log in to the console without TLS.
    pub insecure_console: bool,
    /// Server role of the main memcached listener.
    pub memcached_role: String,
    /// Account of memcached clients that do not authenticate, `user@host`; `None`: authentication
    /// is required.
    pub memcached_account: Option<String>,
    /// Use of TLS by the memcached listeners.
    pub memcached_tls: TlsMode,
    /// Whether memcached listeners may accept other machines without TLS.
    pub insecure_memcached: bool,
    /// Maximum number of connections of all listeners together.
    pub max_connections: usize,
    /// Whether the operator set `max_connections`, which is then not lowered.
    pub max_connections_set: bool,
    /// Maximum number of sessions that wait at the same time.
    pub max_running_statements: usize,
    /// Maximum number of connections before login, per listener.
    pub max_before_login: usize,
    /// Worker groups; 0: as many as cores.
    pub worker_groups: usize,
    /// Whether replies to several connections leave with one system call through io_uring.
    pub io_uring: bool,
    /// Whether statistics of statements, memcached commands and hot keys are kept.
    pub performance_schema: bool,
    /// Maximum time from connecting to the end of the login.
    pub connect_timeout: Duration,
    /// Maximum time from the first byte of a request to its last.
    pub net_read_timeout: Duration,
    /// Maximum time without progress while writing to a client.
    pub net_write_timeout: Duration,
    /// Maximum time for which a clean shutdown waits for statements.
    pub shutdown_timeout: Duration,
    /// Memory for rows in bytes; `None` is unlimited.
    pub memory_limit: Option<u64>,
    /// Memory for statements and connections in bytes; `None` is unlimited.
    pub statement_memory: Option<u64>,
    /// Directory of temporary files; `None`: `tmp` in the data directory.
    pub tmp_dir: Option<PathBuf>,
    /// Maximum size of all temporary files together in bytes; `None` is unlimited.
    pub tmp_dir_limit: Option<u64>,
    /// Directory of the files that statements read and write; `None`: they may use no file.
    pub secure_file_priv: Option<PathBuf>,
    /// Place below which BACKUP DATABASE may write; `None`: nowhere.
    pub backup_to: Option<String>,
    /// File with the key of backups and archive.
    pub backup_key_file: Option<PathBuf>,
    /// Place to which the log is archived.
    pub archive_to: Option<String>,
    /// Time after which new log is archived.
    pub archive_interval: Duration,
    /// Size of the log in bytes that waits for a failing archive; `None` is unlimited.
    pub archive_backlog: Option<u64>,
    /// Whether the binary log is on.
    pub log_bin: bool,
    /// Number of the server among those that replicate from each other.
    pub server_id: u32,
    /// Columns in the row images of the binary log.
    pub binlog_row_image: porpoise_binlog::RowImage,
    /// Whether tables are described in full in the binary log.
    pub binlog_full_metadata: bool,
    /// Time after which files of the binary log are removed; `None`: never.
    pub binlog_expire: Option<Duration>,
    /// Size at which a file of the binary log ends, in bytes.
    pub binlog_file_size: u64,
    /// Size of the binary log above which its oldest files are removed; `None`: none is.
    pub binlog_total_size: Option<u64>,
    /// Whether transactions in the binary log are compressed.
    pub binlog_compression: bool,
    /// Number of replicas that must acknowledge a commit before its client gets the reply; `None`: none.
    pub replication_ack: Option<usize>,
    /// Longest wait of a commit for replicas; `None`: for ever.
    pub replication_ack_timeout: Option<Duration>,
    /// Longest pause of a commit while a replica catches up; zero: none.
    pub flow_control_pause: Duration,
    /// Transactions that a replica which catches up may lack before commits pause.
    pub flow_control_threshold: u64,
    /// Members of the group with automatic failover.
    pub failover_members: Option<Members>,
    /// Address at which the other members reach this one.
    pub failover_listen: Option<SocketAddr>,
    /// File with the secret of the group.
    pub failover_secret_file: Option<PathBuf>,
    /// Account under which a member follows the leader.
    pub failover_account: Option<String>,
    /// File with its password.
    pub failover_password_file: Option<PathBuf>,
    /// Silence of the leader after which another one is elected.
    pub failover_timeout: Duration,
    /// Maximum rate at which the leader's data are copied, in bytes a second; `None`: no limit.
    pub failover_copy_rate: Option<u64>,
    /// Whether clients cannot write.
    pub super_read_only: bool,
    /// The operator's certificate (PEM); `None`: one is generated at the first start.
    pub tls_cert: Option<PathBuf>,
    /// Private key of `tls_cert` (PEM).
    pub tls_key: Option<PathBuf>,
    /// Certificate authorities of clients (PEM).
    pub ssl_ca: Option<PathBuf>,
    /// File of the audit log.
    pub audit_log: Option<PathBuf>,
    /// Whether logins and audited statements are refused while the audit log cannot be written.
    pub audit_log_required: bool,
    /// Receiver of traces by OTLP over HTTP.
    pub otlp_endpoint: Option<Endpoint>,
    /// Share of the statements without a trace of the client that begin one, from 0 to 1.
    pub otlp_sample: f64,
    /// Whether the log is written as JSON.
    pub log_json: bool,
    /// Filter of the log, as `tracing` understands it.
    pub log: String,
    /// Whether ports in use are replaced by free ones and example commands for connecting are
    /// printed.
    pub pick_ports: bool,
    /// The settings as text, in the order of the table.
    pub effective: Vec<Effective>,
    /// Values of the command line, and the file, for [`Config::read_again`].
    given: (Values, Option<PathBuf>),
}

/// A setting's value as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective {
    /// Name of the setting.
    pub name: &'static str,
    /// The value.
    pub text: String,
    /// Its source; `None` for the default.
    pub source: Option<Source>,
}

impl Config {
    /// Resolves the configuration from the same command line and file, as they are now.
    ///
    /// # Errors
    /// As [`resolve`].
    pub fn read_again(&self) -> Result<Config, StartError> {
        let (options, file) = &self.given;
        resolve(options, &|name| std::env::var(name).ok(), file.as_deref())
    }
}

/// Source of a value, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Command-line option.
    Option(String),
    /// Environment variable.
    Variable(String),
    /// Configuration file and key.
    File(PathBuf, String),
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::Option(name) => write!(f, "{name}"),
            Source::Variable(name) => write!(f, "{name}"),
            Source::File(path, key) => write!(f, "{key} in {}", path.display()),
        }
    }
}

/// Values by setting name, from one source.
pub type Values = BTreeMap<&'static str, String>;

/// Resolves the configuration: `options` are the values of the command line, `variable` reads the
/// environment.
pub fn resolve(
    options: &Values,
    variable: &dyn Fn(&str) -> Option<String>,
    file: Option<&Path>,
) -> Result<Config, StartError> {
    let from_file = match file {
        Some(path) => read_file(path)?,
        None => Values::new(),
    };
    let mut config = table::defaults();
    config.given = (options.clone(), file.map(Path::to_owned));
    for setting in table::SETTINGS {
        let found = if let Some(text) = options.get(setting.name) {
            Some((text.clone(), Source::Option(setting.option())))
        } else if let Some(text) = variable(&setting.variable()) {
            Some((text, Source::Variable(setting.variable())))
        } else {
            from_file.get(setting.name).map(|text| {
                let path = file.map(Path::to_owned).unwrap_or_default();
                (text.clone(), Source::File(path, setting.key()))
            })
        };
        let (text, source) = match found {
            Some((text, source)) => {
                (setting.apply)(&mut config, &text).map_err(|expected| {
                    StartError::usage(format!("{source}: {text:?} is not {expected}"))
                })?;
                (text, Some(source))
            }
            None => (setting.default.to_owned(), None),
        };
        config.effective.push(Effective {
            name: setting.name,
            text,
            source,
        });
    }
    if config.tls_cert.is_some() != config.tls_key.is_some() {
        return Err(StartError::usage(
            "--tls-cert and --tls-key must be set together",
        ));
    }
    Ok(config)
}

/// Reads the settings of a TOML file, whose keys are the names with underscores.
fn read_file(path: &Path) -> Result<Values, StartError> {
    let error = |what: String| StartError::usage(format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| error(e.to_string()))?;
    let table: toml::Table = text.parse().map_err(|e: toml::de::Error| {
        let line = e.span().map_or(1, |s| {
            text.get(..s.start)
                .map_or(1, |t| t.matches('\n').count() + 1)
        });
        error(format!("line {line}: {}", e.message()))
    })?;
    let mut values = Values::new();
    for (key, value) in table {
        let Some(setting) = table::SETTINGS
            .iter()
            .find(|s| s.key() == key || s.name == key)
        else {
            return Err(error(format!("unknown setting {key:?}")));
        };
        let text = match value {
            toml::Value::String(text) => text,
            toml::Value::Integer(n) => n.to_string(),
            toml::Value::Boolean(b) => b.to_string(),
            other => {
                return Err(error(format!(
                    "{key}: a {} is not a value",
                    other.type_str()
                )));
            }
        };
        values.insert(setting.name, text);
    }
    Ok(values)
}

#[cfg(test)]
mod tests;
