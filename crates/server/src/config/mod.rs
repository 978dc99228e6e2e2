//! The configuration: where a setting comes from and what it means.
//!
//! Every setting is one entry of [`table::SETTINGS`]: name, default, help, and
//! how its text becomes part of [`Config`]. From that follow the option of the
//! command line, the environment variable, the key of the TOML file, and the
//! help. Precedence: option, variable, file, default.
//!
//! Invariant: every refusal names the setting, where the value came from, the
//! value and what was expected, in one line.

pub mod exposure;
pub mod table;
pub mod value;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Reason for refusing to start: one line, and the exit status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartError {
    /// Message to print.
    pub message: String,
    /// Exit status: 2 for a problem that the operator can correct.
    pub status: u8,
}

impl StartError {
    /// Something that the operator can set right.
    pub fn usage(message: impl Into<String>) -> StartError {
        StartError {
            message: message.into(),
            status: 2,
        }
    }

    /// Something that has failed.
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

/// Which engine holds the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineChoice {
    /// The embedded one.
    Embedded,
    /// A TiKV cluster, by its placement drivers' addresses.
    Tikv(Vec<String>),
}

/// Whether a listener speaks TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsMode {
    /// No.
    Off,
    /// With clients that begin with a TLS handshake.
    Allowed,
    /// With all clients but those of a Unix socket.
    Required,
}

/// When a commit is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurabilityChoice {
    /// After the sync that covers them.
    Sync,
    /// At once; synced every `durability-interval`.
    Interval,
    /// At once, nothing on disk.
    Memory,
}

/// The server's configuration, complete.
#[derive(Clone, Debug)]
pub struct Config {
    /// Directory of the store, the generated certificate and the lock file.
    pub data_dir: PathBuf,
    /// An empty data directory is refused, not initialised.
    pub require_data: bool,
    /// The engine.
    pub engine: EngineChoice,
    /// See [`DurabilityChoice`].
    pub durability: DurabilityChoice,
    /// Longest time without a sync in `interval`.
    pub durability_interval: Duration,
    /// Address of the MySQL listener; `None` is off.
    pub mysql_listen: Option<SocketAddr>,
    /// Unix socket of the MySQL listener.
    pub mysql_socket: Option<PathBuf>,
    /// Address of the memcached listener.
    pub memcached_listen: Option<SocketAddr>,
    /// Unix socket of the memcached listener.
    pub memcached_socket: Option<PathBuf>,
    /// More memcached listeners: the role of each, and its address.
    pub memcached_listeners: Vec<(String, SocketAddr)>,
    /// Memory of `cache_only` keys, in bytes.
    pub memcached_cache: u64,
    /// Longest value of the memcached listeners, in bytes.
    pub memcached_item_size: usize,
    /// Between two walks that delete expired rows; `None` is off.
    pub memcached_reap: Option<Duration>,
    /// Address of the HTTP listener.
    pub http_listen: Option<SocketAddr>,
    /// Which of the configured roles the memcached listener plays.
    pub memcached_role: String,
    /// Account of memcached clients that do not authenticate, `user@host`; `None`: they
    /// must.
    pub memcached_account: Option<String>,
    /// TLS on the memcached listeners.
    pub memcached_tls: TlsMode,
    /// The memcached listeners may be reached from other machines without TLS.
    pub insecure_memcached: bool,
    /// Connections over all listeners.
    pub max_connections: usize,
    /// Whether the operator set `max_connections`, which is then not lowered.
    pub max_connections_set: bool,
    /// Sessions that may wait at once.
    pub max_running_statements: usize,
    /// Connections that have not logged in.
    pub max_before_login: usize,
    /// Worker groups; 0: as many as cores.
    pub worker_groups: usize,
    /// From connecting to being logged in.
    pub connect_timeout: Duration,
    /// From a request's first byte to its last.
    pub net_read_timeout: Duration,
    /// Without progress in writing to a client.
    pub net_write_timeout: Duration,
    /// How long a clean shutdown lets statements finish.
    pub shutdown_timeout: Duration,
    /// Memory for rows in bytes; `None` is unlimited.
    pub memory_limit: Option<u64>,
    /// Memory for statements and connections in bytes; `None` is unlimited.
    pub statement_memory: Option<u64>,
    /// Directory of temporary files; `None`: `tmp` in the data directory.
    pub tmp_dir: Option<PathBuf>,
    /// Bytes of all temporary files; `None` is unlimited.
    pub tmp_dir_limit: Option<u64>,
    /// Own certificate (PEM); made at first start if not given.
    pub tls_cert: Option<PathBuf>,
    /// Its key (PEM).
    pub tls_key: Option<PathBuf>,
    /// Certificate authorities of clients (PEM).
    pub ssl_ca: Option<PathBuf>,
    /// Filter of the log, as `tracing` understands it.
    pub log: String,
    /// Taken ports are replaced by free ones, and ways to connect printed.
    pub pick_ports: bool,
}

/// Source of a value, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The command line.
    Option(String),
    /// The environment.
    Variable(String),
    /// The file.
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

/// Reads the configuration: `options` are those of the command line, `variable` reads the
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
        if let Some((text, source)) = found {
            (setting.apply)(&mut config, &text).map_err(|expected| {
                StartError::usage(format!("{source}: {text:?} is not {expected}"))
            })?;
        }
    }
    if config.tls_cert.is_some() != config.tls_key.is_some() {
        return Err(StartError::usage(
            "--tls-cert and --tls-key must be set together",
        ));
    }
    Ok(config)
}

/// The settings in a TOML file: keys are the names with underscores.
fn read_file(path: &Path) -> Result<Values, StartError> {
    let named = |what: String| StartError::usage(format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| named(e.to_string()))?;
    let table: toml::Table = text.parse().map_err(|e: toml::de::Error| {
        let line = e.span().map_or(1, |s| {
            text.get(..s.start)
                .map_or(1, |t| t.matches('\n').count() + 1)
        });
        named(format!("line {line}: {}", e.message()))
    })?;
    let mut values = Values::new();
    for (key, value) in table {
        let Some(setting) = table::SETTINGS
            .iter()
            .find(|s| s.key() == key || s.name == key)
        else {
            return Err(named(format!("unknown setting {key:?}")));
        };
        let text = match value {
            toml::Value::String(text) => text,
            toml::Value::Integer(n) => n.to_string(),
            toml::Value::Boolean(b) => b.to_string(),
            other => {
                return Err(named(format!(
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
