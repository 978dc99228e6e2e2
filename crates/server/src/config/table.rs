//! The table of settings: to add one, add a field to [`Config`] and an entry
//! here.

use super::members::MIN_FAILOVER_TIMEOUT;
use super::value::{Parsed, address, duration, number, path, size, switch};
use super::{ClusterUrl, Config, DurabilityChoice, EngineChoice, Members, TlsMode};
use porpoise_client::http::Endpoint;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// One setting.
pub struct Setting {
    /// Name of the setting; the option is `--name`.
    pub name: &'static str,
    /// Placeholder of the value in the help; empty for a flag.
    pub value: &'static str,
    /// Default value as text; empty if there is none.
    pub default: &'static str,
    /// Help text: one sentence.
    pub help: &'static str,
    /// Parses the value into the configuration; the error describes the accepted values.
    pub apply: fn(&mut Config, &str) -> Parsed<()>,
}

impl Setting {
    /// Returns the command-line option.
    pub fn option(&self) -> String {
        format!("--{}", self.name)
    }

    /// Returns the name of the environment variable.
    pub fn variable(&self) -> String {
        format!("PORPOISE_{}", self.key().to_uppercase())
    }

    /// Returns the key in the configuration file.
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
        "Directory of the store, the generated certificate and the lock file",
        |c, t| c.data_dir = directory(t)?;
    "require-data" "" = "false":
        "Refuses to start if the data directory contains no store (for volumes that may not be mounted)",
        |c, t| c.require_data = switch(t)?;
    "engine" "ENGINE" = "embedded":
        "Storage engine: embedded, or tikv://HOST:PORT,...?OPTION=VALUE&... (placement drivers of a TiKV cluster; options: ca, cert, key, tenant, name, connect-timeout, request-timeout, retry-timeout, lock-ttl, lock-wait, retention, staleness)",
        |c, t| c.engine = engine(t)?;
    "cluster-lease" "TIME" = "15s":
        "With TiKV: time after which the other servers take this one for dead if they hear nothing of it, from 1s to 10m; changes of definitions wait for it at most that long",
        |c, t| c.cluster_lease = duration(t)
            .ok()
            .filter(|d| (1..=600).contains(&d.as_secs()))
            .ok_or("a time from 1s to 10m")?;
    "cluster-address" "TEXT" = "":
        "With TiKV: address of this server that information_schema.CLUSTER_SERVERS shows; by default that of its first listener",
        |c, t| c.cluster_address = Some(t.to_owned()).filter(|t| !t.is_empty());
    "durability" "MODE" = "sync":
        "When a commit is acknowledged: sync (after it is on disk), interval (before; the log is synced every durability-interval), memory (nothing is written to disk)",
        |c, t| c.durability = durability(t)?;
    "durability-interval" "TIME" = "1s":
        "Time between syncs of the log with --durability interval: at most this much is lost in a crash",
        |c, t| c.durability_interval = duration(t)?;
    "mysql-listen" "ADDR" = "127.0.0.1:3306":
        "Address of the MySQL listener; port 0 selects a free port, off disables the listener",
        |c, t| c.mysql_listen = address(t)?;
    "mysql-socket" "PATH" = "off":
        "Unix socket of the MySQL listener",
        |c, t| c.mysql_socket = path(t)?;
    "memcached-listen" "ADDR" = "127.0.0.1:11211":
        "Address of the memcached listener; port 0 selects a free port, off disables the listener",
        |c, t| c.memcached_listen = address(t)?;
    "memcached-socket" "PATH" = "off":
        "Unix socket of the memcached listener",
        |c, t| c.memcached_socket = path(t)?;
    "native-listen" "ADDR" = "off":
        "Address of the listener of the native protocol; port 0 selects a free port",
        |c, t| c.native_listen = address(t)?;
    "native-tls" "MODE" = "allowed":
        "TLS on the native listener: off, allowed (clients may begin with a TLS handshake), required",
        |c, t| c.native_tls = tls_mode(t)?;
    "rest-listen" "ADDR" = "off":
        "Address of the REST listener (rows by key and SQL over HTTP); port 0 selects a free port",
        |c, t| c.rest_listen = address(t)?;
    "rest-tls" "MODE" = "allowed":
        "TLS on the REST listener: off, allowed, required; without TLS only clients on this machine may log in",
        |c, t| c.rest_tls = tls_mode(t)?;
    "http-listen" "ADDR" = "127.0.0.1:8380":
        "Address of the HTTP listener for the console, /health and /metrics; off disables it",
        |c, t| c.http_listen = address(t)?;
    "console" "on|off" = "on":
        "Serves the console, a page for operators, at the HTTP listener",
        |c, t| c.console = switch(t)?;
    "console-hosts" "NAME,..." = "":
        "Host names under which browsers reach the console, besides localhost and the listener's own IP address",
        |c, t| c.console_hosts = names(t);
    "insecure-console" "" = "false":
        "Allows logins to the console from other machines without TLS",
        |c, t| c.insecure_console = switch(t)?;
    "memcached-role" "NAME" = "default_role":
        "Server role of the memcached listener: a role_name of ndbmemcache.memcache_server_roles",
        |c, t| c.memcached_role = t.to_owned();
    "memcached-listeners" "ROLE=ADDR,..." = "":
        "Additional memcached listeners, each with its own server role",
        |c, t| c.memcached_listeners = listeners(t)?;
    "memcached-cache" "SIZE" = "64M":
        "Memory for keys whose policy is cache_only; the least recently used are evicted",
        |c, t| c.memcached_cache = size(t)?.filter(|n| *n >= 1 << 20).ok_or("a size of at least 1M")?;
    "memcached-item-size" "SIZE" = "1M":
        "Largest memcached item (key, value and overhead, measured as memcached does); at most 512M",
        |c, t| c.memcached_item_size = size(t)?
            .and_then(|n| usize::try_from(n).ok())
            .filter(|n| (1024..=512 << 20).contains(n))
            .ok_or("a size from 1K to 512M")?;
    "memcached-triggers" "on|off" = "on":
        "Whether changes of rows by memcached commands fire triggers",
        |c, t| c.memcached_triggers = switch(t)?;
    "memcached-reap" "TIME" = "5s":
        "Interval at which expired rows are deleted in the background; off keeps them",
        |c, t| c.memcached_reap = if t == "off" { None } else { Some(duration(t)?) };
    "memcached-account" "USER@HOST" = "memcached@localhost":
        "Account of memcached clients that do not authenticate; off: every client must authenticate",
        |c, t| c.memcached_account = account(t)?;
    "memcached-tls" "MODE" = "allowed":
        "TLS on the memcached listeners: off, allowed (clients may begin with a TLS handshake), required",
        |c, t| c.memcached_tls = tls_mode(t)?;
    "insecure-memcached" "" = "false":
        "Allows memcached listeners beyond loopback although --memcached-tls is not required",
        |c, t| c.insecure_memcached = switch(t)?;
    "max-connections" "N" = "10000":
        "Maximum number of connections of all listeners; a tenth is reserved in equal shares for each listener, and one more for root on this machine",
        |c, t| { c.max_connections = number(t, 1, 1_000_000)?; c.max_connections_set = true };
    "max-running-statements" "N" = "1000":
        "Maximum number of statements that wait for locks or compute apart from their event loop, each on its own thread; further requests are queued",
        |c, t| c.max_running_statements = number(t, 1, 30_000)?;
    "max-before-login" "N" = "1000":
        "Maximum number of connections of one listener that have not logged in; beyond it the oldest is closed",
        |c, t| c.max_before_login = number(t, 1, 1_000_000)?;
    "worker-groups" "N" = "0":
        "Number of event loops among which connections are divided; 0: one per core",
        |c, t| c.worker_groups = number(t, 0, 1024)?;
    "io-uring" "on|off" = "on":
        "Whether replies to several connections leave with one system call, where the kernel allows io_uring",
        |c, t| c.io_uring = switch(t)?;
    "performance-schema" "on|off" = "on":
        "Whether statistics of statements, memcached commands and hot keys are kept",
        |c, t| c.performance_schema = switch(t)?;
    "connect-timeout" "TIME" = "10s":
        "Time within which a new connection must have logged in",
        |c, t| c.connect_timeout = duration(t)?;
    "net-read-timeout" "TIME" = "30s":
        "Time within which a request must arrive, from its first byte to its last, plus one second per 64 KiB",
        |c, t| c.net_read_timeout = duration(t)?;
    "net-write-timeout" "TIME" = "60s":
        "A connection is closed if its client reads nothing of a pending reply for this time",
        |c, t| c.net_write_timeout = duration(t)?;
    "shutdown-timeout" "TIME" = "10s":
        "Time that a shutdown allows running transactions to finish before they are rolled back",
        |c, t| c.shutdown_timeout = duration(t)?;
    "memory-limit" "SIZE" = "75%":
        "Memory limit for rows of the embedded engine: bytes, 4G, a percentage of the machine's memory, or off; beyond it writes are refused (1114)",
        |c, t| c.memory_limit = size(t)?;
    "statement-memory" "SIZE" = "25%":
        "Memory for statements and connections (sorts, joins, results, prepared statements), at least 64M",
        |c, t| c.statement_memory = size(t)?;
    "tmp-dir" "DIR" = "":
        "Directory of temporary files of statements that exceed their memory; default: tmp in the data directory",
        |c, t| c.tmp_dir = Some(directory(t)?);
    "tmp-dir-limit" "SIZE" = "10G":
        "Size of all temporary files together, or off; beyond it statements fail (1021)",
        |c, t| c.tmp_dir_limit = size(t)?;
    "secure-file-priv" "DIR" = "":
        "Directory of the files that LOAD DATA INFILE and LOAD_FILE read and SELECT ... INTO OUTFILE writes, for accounts with FILE; default: none",
        |c, t| c.secure_file_priv = Some(directory(t)?);
    "backup-to" "PLACE" = "":
        "Directory or s3://BUCKET/PREFIX below which BACKUP DATABASE may write; default: none",
        |c, t| c.backup_to = Some(t.to_owned());
    "backup-key-file" "FILE" = "":
        "File with the key (64 hexadecimal digits) that encrypts backups and the archive; default: the variable PORPOISE_BACKUP_KEY, without it they are not encrypted",
        |c, t| c.backup_key_file = path(t)?;
    "archive-to" "PLACE" = "":
        "Directory or s3://BUCKET/PREFIX to which the log is archived, for restores to a point in time",
        |c, t| c.archive_to = Some(t.to_owned());
    "archive-interval" "TIME" = "5s":
        "Time after which new log is archived: what a lost machine loses",
        |c, t| c.archive_interval = duration(t)?;
    "archive-backlog" "SIZE" = "10G":
        "Size of the log that waits for a failing archive; beyond it log segments are removed, and the archive has a gap",
        |c, t| c.archive_backlog = size(t)?;
    "log-bin" "" = "false":
        "Keeps a binary log in the data directory, which replicas and other readers of MySQL's binary log follow",
        |c, t| c.log_bin = switch(t)?;
    "server-id" "N" = "1":
        "Number of the server, different from those of all servers that replicate from it or that it replicates from",
        |c, t| c.server_id = u32::try_from(number(t, 1, u32::MAX as usize)?).unwrap_or(1);
    "binlog-row-image" "IMAGE" = "full":
        "Columns in the binary log: full, noblob (without large columns that did not change) or minimal (the key, and what changed)",
        |c, t| c.binlog_row_image = porpoise_binlog::RowImage::parse(t).ok_or("full, noblob or minimal")?;
    "binlog-row-metadata" "DETAIL" = "full":
        "Description of tables in the binary log: minimal, or full (names of columns, members of ENUM and SET, primary key)",
        |c, t| c.binlog_full_metadata = metadata(t)?;
    "binlog-expire-logs-seconds" "N" = "2592000":
        "Seconds after which files of the binary log are removed, unless a connected reader needs them; 0: never",
        |c, t| c.binlog_expire = match number(t, 0, u32::MAX as usize)? {
            0 => None,
            seconds => Some(std::time::Duration::from_secs(seconds as u64)),
        };
    "max-binlog-size" "SIZE" = "1G":
        "Size at which a file of the binary log ends, between 4K and 1G",
        |c, t| c.binlog_file_size = size(t)?.filter(|n| (4096..=1 << 30).contains(n)).ok_or("a size from 4K to 1G")?;
    "max-binlog-total-size" "SIZE" = "off":
        "Size of the binary log above which its oldest files are removed, unless a connected reader needs them",
        |c, t| c.binlog_total_size = size(t)?;
    "binlog-transaction-compression" "" = "false":
        "Compresses transactions in the binary log with zstd, as MySQL does; MariaDB cannot read them",
        |c, t| c.binlog_compression = switch(t)?;
    "replication-ack" "N" = "off":
        "Number of replicas that must have a commit on disk before it is acknowledged to its client; needs --log-bin and --durability sync",
        |c, t| c.replication_ack = match t {
            "off" => None,
            _ => Some(number(t, 1, 65_535)?),
        };
    "replication-ack-timeout" "TIME" = "off":
        "Time after which a commit is acknowledged although replicas are missing, until one has caught up; off: commits wait",
        |c, t| c.replication_ack_timeout = match t {
            "off" => None,
            _ => Some(duration(t)?),
        };
    "flow-control-pause" "TIME" = "100ms":
        "Longest pause of a commit while a server of the group (or a replica, after --replication-ack-timeout) catches up more slowly than clients write; off: commits never pause",
        |c, t| c.flow_control_pause = match t {
            "off" => Duration::ZERO,
            _ => duration(t)?,
        };
    "flow-control-threshold" "COUNT" = "25000":
        "Number of transactions that a server that comes back may lack before commits pause; with fewer, commits pause if it has not caught up within 10 seconds",
        |c, t| c.flow_control_threshold = number(t, 0, usize::MAX)? as u64;
    "failover-members" "MEMBERS" = "off":
        "Members of a group with automatic failover, the same list on all: SERVER_ID=HOST:PORT/MYSQL_PORT,... and of a witness ID=HOST:PORT; a new group begins with the data of the first",
        |c, t| c.failover_members = match t {
            "off" => None,
            _ => Some(Members::parse(t)?),
        };
    "failover-listen" "ADDR" = "off":
        "Address at which the other members of the group reach this one",
        |c, t| c.failover_listen = address(t)?;
    "failover-secret-file" "FILE" = "":
        "File with the secret of the group, at least 16 bytes, with which its messages are authenticated",
        |c, t| c.failover_secret_file = path(t)?;
    "failover-account" "NAME" = "":
        "Account under which a member follows the leader; it needs REPLICATION SLAVE, and BACKUP_ADMIN for copies of the leader's data",
        |c, t| c.failover_account = Some(t.to_owned()).filter(|t| !t.is_empty());
    "failover-password-file" "FILE" = "":
        "File with the password of --failover-account",
        |c, t| c.failover_password_file = path(t)?;
    "failover-timeout" "TIME" = "2s":
        "Silence of the leader after which another one is elected, the same on all members, at least 200ms",
        |c, t| c.failover_timeout = duration(t)
            .ok()
            .filter(|d| *d >= MIN_FAILOVER_TIMEOUT)
            .ok_or("a time of at least 200ms")?;
    "failover-copy-rate" "SIZE" = "off":
        "Maximum rate, in bytes a second, at which this member copies the leader's data",
        |c, t| c.failover_copy_rate = size(t)?.map(|n| n.max(1));
    "super-read-only" "" = "false":
        "Refuses the writes of clients: for a standby, which only replication changes",
        |c, t| c.super_read_only = switch(t)?;
    "tls-cert" "FILE" = "":
        "Certificate chain (PEM) that replaces the self-signed certificate created at first start",
        |c, t| c.tls_cert = path(t)?;
    "tls-key" "FILE" = "":
        "Private key of --tls-cert (PEM)",
        |c, t| c.tls_key = path(t)?;
    "ssl-ca" "FILE" = "":
        "Certificate authorities (PEM) for verifying client certificates; without it no client certificate is requested",
        |c, t| c.ssl_ca = path(t)?;
    "log" "FILTER" = "info":
        "Log level for standard error: error, warn, info, debug, or a filter per module",
        |c, t| c.log = t.to_owned();
    "audit-log" "FILE" = "":
        "File to which logins and changes of definitions, accounts and privileges are logged, as lines of JSON; a relative name is relative to the data directory",
        |c, t| c.audit_log = path(t)?;
    "audit-log-required" "on|off" = "off":
        "Whether logins and such changes are refused while the audit log cannot be written",
        |c, t| c.audit_log_required = switch(t)?;
    "otlp-endpoint" "URL" = "off":
        "Receiver of traces by OTLP over HTTP, for example http://127.0.0.1:4318; traces are statements whose comment or query attribute has a sampled W3C traceparent",
        |c, t| c.otlp_endpoint = endpoint(t)?;
    "otlp-sample" "RATIO" = "0":
        "Share of the statements without a traceparent that begin a trace, from 0 to 1",
        |c, t| c.otlp_sample = ratio(t)?;
    "log-format" "text|json" = "text":
        "Format of the log on standard error",
        |c, t| c.log_json = log_format(t)?;
    "pick-ports" "" = "false":
        "If a port is in use, selects a free one and prints the commands to connect",
        |c, t| c.pick_ports = switch(t)?;
}

/// Whether the log is JSON.
fn metadata(text: &str) -> Parsed<bool> {
    match text {
        "minimal" => Ok(false),
        "full" => Ok(true),
        _ => Err("minimal or full".into()),
    }
}

fn log_format(text: &str) -> Parsed<bool> {
    match text {
        "text" => Ok(false),
        "json" => Ok(true),
        _ => Err("text or json".into()),
    }
}

fn directory(text: &str) -> Parsed<PathBuf> {
    path(text)?.ok_or_else(|| "a directory".into())
}

fn engine(text: &str) -> Parsed<EngineChoice> {
    if text == "embedded" {
        return Ok(EngineChoice::Embedded);
    }
    ClusterUrl::parse(text).map(|url| EngineChoice::Tikv(Box::new(url)))
}

fn listeners(text: &str) -> Parsed<Vec<(String, SocketAddr)>> {
    let expected = || "a list like db-only=127.0.0.1:11212,mc-only=127.0.0.1:11213".to_owned();
    let listener = |part: &str| {
        let (role, at) = part.split_once('=').ok_or_else(expected)?;
        let at = address(at.trim())?.ok_or_else(expected)?;
        Ok((role.trim().to_owned(), at))
    };
    let parts = text.split(',').filter(|p| !p.trim().is_empty());
    parts.map(listener).collect()
}

fn endpoint(text: &str) -> Parsed<Option<Endpoint>> {
    if text == "off" {
        return Ok(None);
    }
    let parsed = Endpoint::parse(text).map(Some);
    parsed.ok_or_else(|| "http://HOST[:PORT] or https://HOST[:PORT], or off".into())
}

fn ratio(text: &str) -> Parsed<f64> {
    let parsed = text.parse().ok().filter(|n| (0.0..=1.0).contains(n));
    parsed.ok_or_else(|| "a number from 0 to 1".into())
}

fn names(text: &str) -> Vec<String> {
    let names = text.split(',').map(str::trim).filter(|n| !n.is_empty());
    names.map(str::to_ascii_lowercase).collect()
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
    let mut config = Config::default();
    for setting in SETTINGS.iter().filter(|s| !s.default.is_empty()) {
        // A test checks that the parser accepts every default.
        let _ = (setting.apply)(&mut config, setting.default);
    }
    config.max_connections_set = false;
    config
}
