//! The table of settings: to add one, add a field to [`Config`] and an entry
//! here.

use super::value::{Parsed, address, duration, number, path, size, switch};
use super::{Config, DurabilityChoice, EngineChoice, TlsMode};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// One setting.
pub struct Setting {
    /// Its name; the option is `--name`.
    pub name: &'static str,
    /// What stands for the value in the help; empty for a switch.
    pub value: &'static str,
    /// The default, as it would be written; empty if there is none.
    pub default: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// Puts the value into the configuration, or says what was expected.
    pub apply: fn(&mut Config, &str) -> Parsed<()>,
}

impl Setting {
    /// The option of the command line.
    pub fn option(&self) -> String {
        format!("--{}", self.name)
    }

    /// The environment variable.
    pub fn variable(&self) -> String {
        format!("PORPOISE_{}", self.key().to_uppercase())
    }

    /// The key of the file.
    pub fn key(&self) -> String {
        self.name.replace('-', "_")
    }
}

macro_rules! settings {
    ($($name:literal $value:literal = $default:literal: $help:literal,
        |$config:ident, $text:ident| $apply:expr;)*) => {
        /// All settings, in the order of the help.
        pub const SETTINGS: &[Setting] = &[$(Setting {
            name: $name,
            value: $value,
            default: $default,
            help: $help,
            apply: |$config, $text| { $apply; Ok(()) },
        },)*];
    };
}

settings! {
    "data-dir" "DIR" = "porpoise-data":
        "Where data, certificate and lock file are",
        |c, t| c.data_dir = directory(t)?;
    "require-data" "" = "false":
        "Refuses to start without a store in the data directory, for volumes that may not be mounted",
        |c, t| c.require_data = switch(t)?;
    "engine" "ENGINE" = "embedded":
        "What holds the rows: embedded, or tikv://HOST:PORT,...",
        |c, t| c.engine = engine(t)?;
    "durability" "MODE" = "sync":
        "When a commit is acknowledged: sync (it is on disk), interval (a sync follows within durability-interval), memory (nothing on disk)",
        |c, t| c.durability = durability(t)?;
    "durability-interval" "TIME" = "1s":
        "The longest time between syncs with --durability interval",
        |c, t| c.durability_interval = duration(t)?;
    "mysql-listen" "ADDR" = "127.0.0.1:3306":
        "Address of the MySQL listener; port 0 picks one, off switches it off",
        |c, t| c.mysql_listen = address(t)?;
    "mysql-socket" "PATH" = "off":
        "Unix socket of the MySQL listener",
        |c, t| c.mysql_socket = path(t)?;
    "memcached-listen" "ADDR" = "127.0.0.1:11211":
        "Address of the memcached listener",
        |c, t| c.memcached_listen = address(t)?;
    "memcached-socket" "PATH" = "off":
        "Unix socket of the memcached listener",
        |c, t| c.memcached_socket = path(t)?;
    "http-listen" "ADDR" = "127.0.0.1:8380":
        "Address of /health and /metrics",
        |c, t| c.http_listen = address(t)?;
    "memcached-role" "NAME" = "default_role":
        "Which row of ndbmemcache.memcache_server_roles the memcached listener plays",
        |c, t| c.memcached_role = t.to_owned();
    "memcached-listeners" "ROLE=ADDR,..." = "":
        "More memcached listeners, each playing a role of its own",
        |c, t| c.memcached_listeners = listeners(t)?;
    "memcached-cache" "SIZE" = "64M":
        "Memory of keys whose policy is cache_only; what was not used lately makes room",
        |c, t| c.memcached_cache = size(t)?.filter(|n| *n >= 1 << 20).ok_or("a size of at least 1M")?;
    "memcached-item-size" "SIZE" = "1M":
        "Longest value that the memcached listeners take; at most 512M",
        |c, t| c.memcached_item_size = size(t)?
            .and_then(|n| usize::try_from(n).ok())
            .filter(|n| (1024..=512 << 20).contains(n))
            .ok_or("a size from 1K to 512M")?;
    "memcached-reap" "TIME" = "5s":
        "Between two walks that delete expired rows; off leaves them",
        |c, t| c.memcached_reap = if t == "off" { None } else { Some(duration(t)?) };
    "memcached-account" "USER@HOST" = "memcached@localhost":
        "Account of memcached clients that do not authenticate; off: they must",
        |c, t| c.memcached_account = account(t)?;
    "memcached-tls" "MODE" = "allowed":
        "TLS on the memcached listeners: off, allowed (for clients that begin with a handshake), required",
        |c, t| c.memcached_tls = tls_mode(t)?;
    "insecure-memcached" "" = "false":
        "Lets memcached listeners without required TLS be reached from other machines",
        |c, t| c.insecure_memcached = switch(t)?;
    "max-connections" "N" = "10000":
        "Connections over all listeners; a tenth is shared out among them, one more is kept for an administrator on this machine",
        |c, t| { c.max_connections = number(t, 1, 1_000_000)?; c.max_connections_set = true };
    "max-running-statements" "N" = "1000":
        "Statements that may wait at once, each with a thread; others wait for their turn",
        |c, t| c.max_running_statements = number(t, 1, 30_000)?;
    "max-before-login" "N" = "1000":
        "Connections of one listener that have not logged in; past it the oldest makes room",
        |c, t| c.max_before_login = number(t, 1, 1_000_000)?;
    "worker-groups" "N" = "0":
        "Groups of connections, each served by one worker at a time; 0 is one per core",
        |c, t| c.worker_groups = number(t, 0, 1024)?;
    "connect-timeout" "TIME" = "10s":
        "From connecting to being logged in",
        |c, t| c.connect_timeout = duration(t)?;
    "net-read-timeout" "TIME" = "30s":
        "From a request's first byte to its last, plus a second per 64 KiB",
        |c, t| c.net_read_timeout = duration(t)?;
    "net-write-timeout" "TIME" = "60s":
        "A client that takes nothing for so long is cut off",
        |c, t| c.net_write_timeout = duration(t)?;
    "shutdown-timeout" "TIME" = "10s":
        "How long a clean shutdown lets statements and transactions finish",
        |c, t| c.shutdown_timeout = duration(t)?;
    "memory-limit" "SIZE" = "75%":
        "Memory for rows: bytes, 4G, a share of the machine's, or off",
        |c, t| c.memory_limit = size(t)?;
    "statement-memory" "SIZE" = "25%":
        "Memory for statements and connections (sorts, joins, results, prepared statements), at least 64M",
        |c, t| c.statement_memory = size(t)?;
    "tls-cert" "FILE" = "":
        "Certificate chain (PEM) instead of the one made at first start",
        |c, t| c.tls_cert = path(t)?;
    "tls-key" "FILE" = "":
        "The certificate's key (PEM)",
        |c, t| c.tls_key = path(t)?;
    "ssl-ca" "FILE" = "":
        "Certificate authorities (PEM) against which certificates of clients are verified; none: clients are asked for no certificate",
        |c, t| c.ssl_ca = path(t)?;
    "log" "FILTER" = "info":
        "What is logged to stderr: error, warn, info, debug, or a filter per module",
        |c, t| c.log = t.to_owned();
    "pick-ports" "" = "false":
        "Replaces taken ports by free ones, and prints lines to connect with",
        |c, t| c.pick_ports = switch(t)?;
}

fn directory(text: &str) -> Parsed<PathBuf> {
    path(text)?.ok_or_else(|| "a directory".into())
}

fn engine(text: &str) -> Parsed<EngineChoice> {
    if text == "embedded" {
        return Ok(EngineChoice::Embedded);
    }
    let addresses: Vec<String> = text
        .strip_prefix("tikv://")
        .unwrap_or_default()
        .split(',')
        .map(str::to_owned)
        .collect();
    let plausible = |a: &String| {
        a.rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
    };
    if addresses.iter().all(plausible) {
        Ok(EngineChoice::Tikv(addresses))
    } else {
        Err("embedded or tikv://HOST:PORT,...".into())
    }
}

fn listeners(text: &str) -> Parsed<Vec<(String, SocketAddr)>> {
    let expected = || "a list like db-only=127.0.0.1:11212,mc-only=127.0.0.1:11213".to_owned();
    let one = |part: &str| {
        let (role, at) = part.split_once('=').ok_or_else(expected)?;
        let at = address(at.trim())?.ok_or_else(expected)?;
        Ok((role.trim().to_owned(), at))
    };
    let parts = text.split(',').filter(|p| !p.trim().is_empty());
    parts.map(one).collect()
}

fn durability(text: &str) -> Parsed<DurabilityChoice> {
    match text {
        "sync" => Ok(DurabilityChoice::Sync),
        "interval" => Ok(DurabilityChoice::Interval),
        "memory" => Ok(DurabilityChoice::Memory),
        _ => Err("sync, interval or memory".into()),
    }
}

fn tls_mode(text: &str) -> Parsed<TlsMode> {
    match text {
        "off" => Ok(TlsMode::Off),
        "allowed" => Ok(TlsMode::Allowed),
        "required" => Ok(TlsMode::Required),
        _ => Err("off, allowed or required".into()),
    }
}

fn account(text: &str) -> Parsed<Option<String>> {
    match text.rsplit_once('@') {
        _ if text == "off" => Ok(None),
        Some((user, host)) if !user.is_empty() && !host.is_empty() => Ok(Some(text.to_owned())),
        _ => Err("USER@HOST, or off".into()),
    }
}

/// The configuration with every default applied.
pub fn defaults() -> Config {
    let mut config = Config {
        data_dir: PathBuf::new(),
        require_data: false,
        engine: EngineChoice::Embedded,
        durability: DurabilityChoice::Sync,
        durability_interval: Duration::ZERO,
        mysql_listen: None,
        mysql_socket: None,
        memcached_listen: None,
        memcached_socket: None,
        memcached_listeners: Vec::new(),
        memcached_cache: 64 << 20,
        memcached_item_size: 1 << 20,
        memcached_reap: None,
        http_listen: None,
        memcached_role: String::new(),
        memcached_account: None,
        memcached_tls: TlsMode::Allowed,
        insecure_memcached: false,
        max_connections: 0,
        max_connections_set: false,
        max_running_statements: 0,
        max_before_login: 0,
        worker_groups: 0,
        connect_timeout: Duration::ZERO,
        net_read_timeout: Duration::ZERO,
        net_write_timeout: Duration::ZERO,
        shutdown_timeout: Duration::ZERO,
        memory_limit: None,
        statement_memory: None,
        tls_cert: None,
        tls_key: None,
        ssl_ca: None,
        log: String::new(),
        pick_ports: false,
    };
    for setting in SETTINGS.iter().filter(|s| !s.default.is_empty()) {
        // A test checks that every default is accepted.
        let _ = (setting.apply)(&mut config, setting.default);
    }
    config.max_connections_set = false;
    config
}
