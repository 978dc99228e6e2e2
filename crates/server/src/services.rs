//! Components of a running server: engine, rows and SQL, opened in that order, and the
//! protocols that listeners serve.
//!
//! Invariant: at [`Services::close`] unused ids go back to the engine before the
//! engine's own shutdown (transactions.md, rule 40), and nothing is written
//! after that.

use crate::audit::AuditLog;
use crate::backup::Backups;
use crate::backup::archive::Archiver;
use crate::binlog;
use crate::config::{Config, DurabilityChoice, EngineChoice, StartError, TlsMode};
use crate::engine;
use crate::failover;
use crate::memcached::{MemcachedProtocol, TlsSettings, traffic};
use crate::mysql::MysqlProtocol;
use crate::mysql::login::login_policy;
use crate::native::{self, NativeProtocol};
use crate::net::Protocol;
use crate::replica::{self, ReplicaParts};
use crate::rest::{self, Rest};
use crate::rows;
use crate::tls;
use crate::traces::TraceExporter;
use parking_lot::Mutex;
use porpoise_access::{
    Account, AuthId, Grant, Privileges, Rights, UNUSABLE_SECRET, VerifierCache, ndbmemcache,
};
use porpoise_base::disk::Disk;
use porpoise_base::memory::MemoryBudget;
use porpoise_base::temp_files::TempDir;
use porpoise_binlog::BinaryLog;
use porpoise_kv::{Engine, Stat};
use porpoise_kv_mem::KvMem;
use porpoise_memcached::{Authentication, Cache, ListenerSettings, Memcached, Reaper};
use porpoise_native::operation_statistics;
use porpoise_rows::cluster::ClusterOptions;
use porpoise_rows::{Db, DbOptions};
use porpoise_sql::audit::AuditedLogin;
use porpoise_sql::event_scheduler::EventScheduler;
use porpoise_sql::server::CommandStatistics;
use porpoise_sql::session::TriggerSessions;
use porpoise_sql::ttl_reaper::TtlReaper;
use porpoise_sql::{ClassLatency, SqlConfig, SqlServer};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Engine, rows, SQL and the protocols of a running server.
pub struct Services {
    /// The engine.
    pub engine: Arc<dyn Engine>,
    /// The engine, if it is the embedded one with files.
    embedded: Option<Arc<KvMem>>,
    /// The rows, which all listeners share.
    pub db: Arc<Db>,
    /// The SQL layer.
    pub sql: Arc<SqlServer>,
    /// Memory budget of connections.
    pub memory: Arc<MemoryBudget>,
    /// The MySQL listener, if there is one.
    pub mysql: Option<Arc<dyn Protocol>>,
    /// The native listener, if there is one.
    pub native: Option<Arc<dyn Protocol>>,
    /// The REST interface, if there is one.
    pub(crate) rest: Option<Arc<Rest>>,
    /// The memcached listener, if there is one.
    pub memcached: Option<Arc<dyn Protocol>>,
    /// More memcached listeners, in the order of the configuration.
    pub more_memcached: Vec<Arc<dyn Protocol>>,
    /// The memory cache of memcached.
    cache: Arc<Cache>,
    /// Deletes expired rows until the server stops.
    reaper: Mutex<Option<Reaper>>,
    events: Mutex<Option<EventScheduler>>,
    /// Deletes expired rows of tables with TTL until the server stops.
    ttl_reaper: Mutex<Option<TtlReaper>>,
    /// Backups, if the engine can be backed up.
    backups: Option<Arc<Backups>>,
    /// Archives the log until the server stops.
    archiver: Mutex<Option<Archiver>>,
    /// Follows a source until the server stops.
    replica: ReplicaParts,
    /// Sessions that run triggers of memcached commands, until the server stops.
    triggers: Mutex<Option<TriggerSessions>>,
    /// The audit log, if there is one.
    audit: Option<Arc<AuditLog>>,
    /// The binary log, if it is on.
    binlog: Option<Arc<BinaryLog>>,
    /// Exports traces until the server stops, if there is a receiver.
    traces: Option<TraceExporter>,
    /// Whether user root has a password.
    pub root_has_password: bool,
}

impl Services {
    /// Opens the engine that the configuration names, with its files on `disk`, and the layers
    /// above it. The caller has locked the data directory. `tls` is offered to clients of the
    /// listeners; `root_password` is set for root at the first start.
    ///
    /// # Errors
    /// A message for the operator in one line.
    pub fn open(
        config: &Config,
        disk: Arc<dyn Disk>,
        tls: &Arc<rustls::ServerConfig>,
        root_password: Option<&str>,
    ) -> Result<Services, StartError> {
        let (engine, embedded) = engine::open_with_backups(config, disk.clone())?;
        let db = rows::open_with(engine.clone(), db_options(config))
            .map_err(|e| failed("the catalog cannot be opened", &e))?;
        // Of several servers that start for the first time, one creates the system tables.
        let initialization = db
            .begin_initialization()
            .map_err(|e| failed("the cluster could not be joined", &e))?;
        let binlog = binlog::open(config, &engine, &db, disk)?;
        let (sql, memory) = open_sql(config, &db, root_password)?;
        let binlog = binlog.map(|log| log.provide(&sql));
        let audit = open_audit_log(config, &db, &sql)?;
        let traces = start_traces(config, &sql)?;
        let (backups, archiver) =
            start_backups(config, embedded.clone(), binlog.clone(), &db, &sql)?;
        let root = sql
            .account("root", "localhost")
            .map_err(|e| failed("the accounts cannot be read", &e))?;
        let replicated = (binlog.clone(), embedded.clone());
        let protocols = Protocols::open(config, &sql, &memory, tls, replicated)?;
        sql.set_report(|message| tracing::warn!("{message}"));
        provide_command_statistics(config, &sql);
        let triggers = sql.run_triggers_of_commands();
        let authentication = memcached_authentication(config, &sql)?;
        let listeners = MemcachedListeners::open(config, &db, &authentication)?;
        listeners.register_with_sql(&sql);
        let reaper = listeners.start_reaper(config)?;
        let report = Arc::new(|message: &str| tracing::warn!("{message}"));
        let ttl_report = report.clone();
        let events = EventScheduler::start(sql.clone(), report)
            .map_err(|e| failed("the event scheduler cannot be started", &e))?;
        let ttl_reaper = TtlReaper::start(db.clone(), ttl_report)
            .map_err(|e| failed("cannot start the thread that deletes expired rows", &e))?;
        let replica = replica::start(config, &db, &sql, binlog.clone())?;
        let tls = memcached_tls(config, tls);
        let protocol = |listener| -> Arc<dyn Protocol> {
            Arc::new(MemcachedProtocol::new(listener, tls.clone()))
        };
        drop(initialization);
        apply_replication_settings(&sql)?;
        Ok(Services {
            engine,
            embedded,
            db,
            sql,
            memory,
            mysql: protocols.mysql,
            native: protocols.native,
            rest: protocols.rest,
            cache: listeners.cache.clone(),
            memcached: listeners.first.map(protocol),
            more_memcached: listeners.more.into_iter().map(protocol).collect(),
            reaper: Mutex::new(reaper),
            events: Mutex::new(Some(events)),
            ttl_reaper: Mutex::new(Some(ttl_reaper)),
            audit,
            binlog,
            traces,
            backups,
            archiver: Mutex::new(archiver),
            replica,
            triggers: Mutex::new(Some(triggers)),
            root_has_password: root.is_none_or(|r| !r.secret.is_empty()),
        })
    }

    /// Starts the member of the group with automatic failover, if the configuration has one. Clients are served already.
    ///
    /// # Errors
    /// A message for the operator in one line.
    pub fn start_failover(
        &self,
        config: &Config,
        listener: Option<TcpListener>,
    ) -> Result<(), StartError> {
        let Some(binlog) = &self.binlog else {
            return Ok(());
        };
        let parts = failover::server::Parts {
            replica: self.replica.replica.clone(),
            binlog: binlog.clone(),
            engine: self.embedded.clone(),
            epochs: self.replica.epochs.clone(),
            sql: self.sql.clone(),
            incarnation: self.replica.incarnation.clone(),
        };
        if let Some(node) = failover::server::start(config, listener, parts)? {
            let _first = self.replica.group.set(node);
        }
        Ok(())
    }

    /// Bytes of the items in the memory cache of memcached.
    pub fn cache_bytes(&self) -> u64 {
        self.cache.size().1
    }

    /// Metrics of SQL and of backups.
    pub fn stats(&self) -> Vec<Stat> {
        let mut stats = self.sql.stats();
        stats.extend(self.audit.iter().map(|audit| Stat {
            name: "audit_log_write_errors_total",
            help: "Lines that could not be written to the audit log.",
            counter: true,
            value: audit.write_errors(),
        }));
        stats.extend(self.traces.iter().flat_map(TraceExporter::stats));
        stats.extend(self.binlog.iter().flat_map(|log| log.stats()));
        let group = self.replica.group.get().map(|node| node.status());
        stats.extend(group.iter().flat_map(failover::status::stats));
        stats.extend(self.backups.iter().flat_map(|backups| backups.stats()));
        stats
    }

    /// Returns reserved ids to the engine and shuts it down, with a last sync (transactions.md,
    /// rule 40). All sessions have ended, but for requests over REST, which end first.
    ///
    /// # Errors
    /// A message about data that could not be written to disk.
    pub fn close(&self) -> Result<(), String> {
        if let Some(node) = self.replica.group.get() {
            node.stop();
        }
        self.engine.abandon_acknowledgement();
        self.replica.replica.halt();
        if let Some(rest) = &self.rest {
            rest.close();
        }
        if let Some(mut events) = self.events.lock().take() {
            events.stop();
        }
        if let Some(mut reaper) = self.reaper.lock().take() {
            reaper.stop();
        }
        if let Some(mut reaper) = self.ttl_reaper.lock().take() {
            reaper.stop();
        }
        drop(self.triggers.lock().take());
        if let Some(traces) = &self.traces {
            traces.stop();
        }
        self.db.return_ids();
        if let Some(binlog) = &self.binlog {
            binlog.stop();
        }
        self.db.leave_cluster();
        if let Some(mut archiver) = self.archiver.lock().take() {
            archiver.stop();
        }
        self.engine.shutdown().map_err(|e| e.to_string())
    }
}

fn failed(what: &str, error: &dyn std::fmt::Display) -> StartError {
    StartError::failure(format!("{what}: {error}"))
}

/// Applies `read_only`, `super_read_only` and the settings of acknowledgement. Called after the writes of the start itself,
/// which they would refuse or delay.
fn apply_replication_settings(sql: &SqlServer) -> Result<(), StartError> {
    sql.apply_read_only();
    sql.apply_acknowledgement()
        .map_err(|e| StartError::failure(format!("--replication-ack: {e}")))
}

/// Opens SQL over the rows, and the memory budget of its statements and of all connections.
fn open_sql(
    config: &Config,
    db: &Arc<Db>,
    root_password: Option<&str>,
) -> Result<(Arc<SqlServer>, Arc<MemoryBudget>), StartError> {
    let memory = Arc::new(MemoryBudget::default());
    memory.set_temp_dir(temp_dir(config)?);
    let setup = SqlConfig {
        variables: variables(config),
        root_password: root_password.map(str::to_owned),
        memory: memory.clone(),
    };
    let sql = SqlServer::new(db.clone(), setup)
        .map_err(|e| StartError::failure(format!("SQL does not start: {e}")))?;
    Ok((sql, memory))
}

/// Use of TLS by the memcached listeners.
fn memcached_tls(config: &Config, tls: &Arc<rustls::ServerConfig>) -> TlsSettings {
    TlsSettings {
        config: (config.memcached_tls != TlsMode::Off).then(|| tls.clone()),
        required: config.memcached_tls == TlsMode::Required,
    }
}

/// Settings of the row layer.
fn db_options(config: &Config) -> DbOptions {
    let lease = config.cluster_lease;
    let addresses = [
        config.mysql_listen,
        config.memcached_listen,
        config.native_listen,
    ];
    let listen = addresses.into_iter().flatten().next();
    let address = config.cluster_address.clone();
    DbOptions {
        cluster: ClusterOptions {
            lease,
            poll: (lease / 20).min(Duration::from_millis(200)),
            address: address.unwrap_or_else(|| listen.map_or_else(String::new, |a| a.to_string())),
            program: env!("CARGO_PKG_VERSION").to_owned(),
        },
    }
}

/// Opens the audit log, if the configuration names one, and passes it to SQL.
fn open_audit_log(
    config: &Config,
    db: &Arc<Db>,
    sql: &SqlServer,
) -> Result<Option<Arc<AuditLog>>, StartError> {
    let Some(path) = &config.audit_log else {
        return Ok(None);
    };
    let path = config.data_dir.join(path);
    let opened = AuditLog::open(path.clone(), config.audit_log_required, db.clock().clone());
    let log = opened.map_err(|error| {
        let text = format!("--audit-log: {} cannot be opened: {error}", path.display());
        StartError::usage(text)
    })?;
    let log = Arc::new(log);
    sql.provide_audit(log.clone());
    Ok(Some(log))
}

/// Starts the exporter of traces, if the configuration names a receiver.
fn start_traces(config: &Config, sql: &SqlServer) -> Result<Option<TraceExporter>, StartError> {
    let Some(endpoint) = config.otlp_endpoint.clone() else {
        return Ok(None);
    };
    let exporter = TraceExporter::start(endpoint, config.otlp_sample);
    let failed = |e| StartError::failure(format!("no thread for traces: {e}"));
    let exporter = exporter.map_err(failed)?;
    sql.provide_traces(exporter.sink());
    Ok(Some(exporter))
}

/// Lets SQL make backups, and starts the archive, if the engine can be backed up.
fn start_backups(
    config: &Config,
    engine: Option<Arc<KvMem>>,
    binlog: Option<Arc<BinaryLog>>,
    db: &Arc<Db>,
    sql: &SqlServer,
) -> Result<(Option<Arc<Backups>>, Option<Archiver>), StartError> {
    match engine.filter(|_| config.durability != DurabilityChoice::Memory) {
        Some(engine) => {
            let (backups, archiver) = Backups::start(config, engine, binlog, db.clock().clone())?;
            backups.register(sql);
            Ok((Some(backups), archiver))
        }
        None => {
            if matches!(config.engine, EngineChoice::Tikv(_)) {
                sql.refuse_backups(
                    "BACKUP DATABASE of a TiKV cluster, which its own tool, BR, backs up",
                );
            }
            Ok((None, None))
        }
    }
}

/// Lets SQL show the statistics of memcached commands and of operations on rows by key, if statistics
/// are on.
fn provide_command_statistics(config: &Config, sql: &SqlServer) {
    porpoise_memcached::command_statistics::enable(config.performance_schema);
    operation_statistics::enable(config.performance_schema);
    sql.provide_command_statistics(CommandStatistics {
        summaries: || {
            let commands = porpoise_memcached::command_statistics::summaries().into_iter();
            let commands = commands.map(|verb| verb.summary);
            commands.chain(operation_statistics::summaries()).collect()
        },
        reset: || {
            porpoise_memcached::command_statistics::reset();
            operation_statistics::reset();
        },
    });
}

/// Sampled times of memcached commands by verb, for metrics.
pub fn command_latencies() -> Vec<ClassLatency> {
    let mut latencies = vec![ClassLatency::new("get")];
    for verb in porpoise_memcached::command_statistics::summaries() {
        let known = latencies.iter().position(|l| l.class == verb.verb);
        let at = known.unwrap_or_else(|| {
            latencies.push(ClassLatency::new(verb.verb));
            latencies.len() - 1
        });
        if let Some(latency) = latencies.get_mut(at) {
            latency.add_counts(&verb.summary.latencies, verb.sampled_nanos);
        }
    }
    latencies
}

/// The binary log that replicas follow, and the engine whose data they copy.
type Replicated = (Option<Arc<BinaryLog>>, Option<Arc<KvMem>>);

/// The MySQL listener, the native one and REST, which share the RSA key and the password cache;
/// `None` for those without an address.
struct Protocols {
    mysql: Option<Arc<dyn Protocol>>,
    native: Option<Arc<dyn Protocol>>,
    rest: Option<Arc<Rest>>,
}

impl Protocols {
    fn open(
        config: &Config,
        sql: &Arc<SqlServer>,
        memory: &Arc<MemoryBudget>,
        tls: &Arc<rustls::ServerConfig>,
        (binlog, engine): Replicated,
    ) -> Result<Protocols, StartError> {
        let (has_mysql, has_native) = (has_mysql_listener(config), config.native_listen.is_some());
        let has_rest = config.rest_listen.is_some();
        let rsa = if has_mysql || has_native {
            Some(Arc::new(tls::password_key(config)?))
        } else {
            None
        };
        let verifiers = Arc::<VerifierCache>::default();
        let mysql = has_mysql.then(|| -> Arc<dyn Protocol> {
            let (tls, rsa) = (Some(tls.clone()), rsa.clone());
            let verifiers = verifiers.clone();
            let (binlog, engine) = (binlog.clone(), engine.clone());
            Arc::new(MysqlProtocol::new(
                sql.clone(),
                tls,
                rsa,
                verifiers,
                binlog,
                engine,
            ))
        });
        let rows = (has_native || has_rest)
            .then(|| native::open(sql, rsa, verifiers.clone(), binlog.as_ref()));
        let native = rows.clone().filter(|_| has_native);
        let native = native.map(|rows| -> Arc<dyn Protocol> {
            let tls = TlsSettings {
                config: (config.native_tls != TlsMode::Off).then(|| tls.clone()),
                required: config.native_tls == TlsMode::Required,
            };
            Arc::new(NativeProtocol::new(sql, rows, tls))
        });
        let rest = rows.filter(|_| has_rest).map(|native| {
            let parts = rest::Parts {
                sql: sql.clone(),
                native,
                memory: memory.clone(),
                binlog,
                verifiers,
            };
            Rest::new(config, parts)
        });
        Ok(Protocols {
            mysql,
            native,
            rest,
        })
    }
}

/// Whether the configuration has an address or a socket for the MySQL listener.
fn has_mysql_listener(config: &Config) -> bool {
    config.mysql_listen.is_some() || config.mysql_socket.is_some()
}

/// Returns the accounts under which memcached clients run. At the first start, creates the default
/// account without a usable password, with privileges on ordinary tables.
fn memcached_authentication(
    config: &Config,
    sql: &Arc<SqlServer>,
) -> Result<Arc<Authentication>, StartError> {
    let control = sql.access();
    let default = config.memcached_account.as_deref().map(AuthId::parse);
    if let Some(id) = &default {
        let known = control.data().account(&id.user, &id.host).is_some();
        if control.is_new() && !known {
            let created = control.change::<porpoise_access::Error>(|_| Ok(default_account(id)));
            created.map_err(|e| StartError::failure(format!("the memcached account: {e}")))?;
        } else if !known {
            tracing::warn!(
                "account '{}'@'{}' of --memcached-account does not exist: memcached clients must \
                 authenticate",
                id.user,
                id.host
            );
        }
    }
    let server = Arc::downgrade(sql);
    let audit = Arc::downgrade(sql);
    Ok(Arc::new(Authentication {
        audit: Box::new(move |user, host, granted| {
            let login = AuditedLogin {
                interface: "memcached",
                connection: None,
                user,
                host,
                granted,
            };
            let sql = audit.upgrade();
            sql.is_none_or(|sql| sql.report_login(&login).is_ok())
        }),
        policy: Box::new(move || {
            server
                .upgrade()
                .map(|s| login_policy(&s))
                .unwrap_or_default()
        }),
        ..Authentication::new(control.clone(), default)
    }))
}

/// The change that creates the default account of memcached clients.
fn default_account(id: &AuthId) -> porpoise_access::Change {
    let account = Account {
        secret: UNUSABLE_SECRET.to_vec(),
        ..Account::new(id.clone())
    };
    let privileges = Privileges::SELECT
        .with(Privileges::INSERT)
        .with(Privileges::UPDATE)
        .with(Privileges::DELETE);
    let grant = Grant {
        user: id.user.clone(),
        host: id.host.clone(),
        database: String::new(),
        table: String::new(),
        privileges,
        grantable: Privileges::NONE,
    };
    porpoise_access::Change {
        put_accounts: vec![account],
        put_grants: vec![grant],
        ..porpoise_access::Change::default()
    }
}

/// Minimum of `statement-memory` in bytes.
pub const MIN_STATEMENT_MEMORY: u64 = 64 << 20;

/// Path of the directory of temporary files.
fn temp_path(config: &Config) -> PathBuf {
    let default = || config.data_dir.join("tmp");
    config.tmp_dir.clone().unwrap_or_else(default)
}

/// Opens the directory of temporary files.
fn temp_dir(config: &Config) -> Result<Arc<TempDir>, StartError> {
    let path = temp_path(config);
    let (at, dir) = (path.display(), TempDir::new(&path, config.tmp_dir_limit));
    match dir.prepare() {
        Ok(()) => Ok(dir),
        // The server starts; statements that need temporary files fail until there is space.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded
            ) =>
        {
            tracing::warn!("temporary directory {at}: {error}");
            Ok(dir)
        }
        Err(error) => {
            let text = format!("temporary directory {at} cannot be used: {error}");
            Err(StartError::usage(text))
        }
    }
}

/// Settings that clients can read as system variables.
fn variables(config: &Config) -> Vec<(String, String)> {
    // Whole seconds, at least the minimum of the variables.
    let seconds = |d: std::time::Duration| d.as_secs().max(2).to_string();
    let mut list = vec![
        ("datadir", config.data_dir.display().to_string()),
        ("tmpdir", temp_path(config).display().to_string()),
        ("max_connections", config.max_connections.to_string()),
        ("performance_schema", config.performance_schema.to_string()),
        ("connect_timeout", seconds(config.connect_timeout)),
        ("net_read_timeout", seconds(config.net_read_timeout)),
        ("net_write_timeout", seconds(config.net_write_timeout)),
    ];
    list.extend(binlog::variables(config));
    if let EngineChoice::Tikv(url) = &config.engine
        && let Some(staleness) = url.staleness
    {
        list.push(("read_staleness", staleness.as_secs_f64().to_string()));
    }
    if let Some(directory) = &config.secure_file_priv {
        list.push(("secure_file_priv", directory.display().to_string()));
    }
    if let Some(bytes) = config.statement_memory {
        let bytes = bytes.max(MIN_STATEMENT_MEMORY);
        list.push(("global_connection_memory_limit", bytes.to_string()));
    }
    if let Some(address) = config.mysql_listen {
        list.push(("port", address.port().to_string()));
    }
    if let Some(path) = &config.mysql_socket {
        list.push(("socket", path.display().to_string()));
    }
    list.into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// The memcached listeners: one at the main address, if configured, and one for each server role
/// with an address of its own.
struct MemcachedListeners {
    /// The memory cache, which all share.
    cache: Arc<Cache>,
    first: Option<Arc<Memcached>>,
    more: Vec<Arc<Memcached>>,
}

impl MemcachedListeners {
    fn open(
        config: &Config,
        db: &Arc<Db>,
        authentication: &Arc<Authentication>,
    ) -> Result<MemcachedListeners, StartError> {
        let max_value = config.memcached_item_size;
        let cache = Cache::new(config.memcached_cache, max_value, db.clock().as_ref());
        let cache = Arc::new(cache);
        let open = |role: &str| -> Result<Arc<Memcached>, StartError> {
            let settings = ListenerSettings {
                role: role.to_owned(),
                max_value,
                fires_triggers: config.memcached_triggers,
                cache: cache.clone(),
                authentication: authentication.clone(),
                traffic,
            };
            Ok(Arc::new(Memcached::open(db.clone(), settings)?))
        };
        let has_main = config.memcached_listen.is_some() || config.memcached_socket.is_some();
        let first = if has_main {
            Some(open(&config.memcached_role)?)
        } else {
            None
        };
        let more = config
            .memcached_listeners
            .iter()
            .map(|(role, _)| open(role));
        let more = more.collect::<Result<_, _>>()?;
        Ok(MemcachedListeners { cache, first, more })
    }

    fn all(&self) -> Vec<Arc<Memcached>> {
        self.first.iter().chain(&self.more).cloned().collect()
    }

    /// Registers callbacks with SQL, through which statements query the memcached listeners.
    fn register_with_sql(&self, sql: &SqlServer) {
        let all = self.all();
        if let Some(protocol) = all.first().cloned() {
            let rows = Box::new(move |rights: &Rights| protocol.status_rows(rights));
            sql.provide_rows(ndbmemcache::DATABASE, ndbmemcache::STATUS, rows);
        }
        let resolve = move |key: &[u8], rights: &Rights| {
            all.iter()
                .filter_map(|protocol| protocol.resolve_row(key, rights))
                .collect()
        };
        sql.provide_keys(Box::new(resolve));
    }

    fn start_reaper(&self, config: &Config) -> Result<Option<Reaper>, StartError> {
        let listeners = self.all();
        let Some(pause) = config.memcached_reap.filter(|_| !listeners.is_empty()) else {
            return Ok(None);
        };
        let is_cluster = matches!(config.engine, EngineChoice::Tikv(_));
        let started = Memcached::start_reaper(&listeners, pause, is_cluster);
        let reaper =
            started.map_err(|e| StartError::failure(format!("no thread for expired rows: {e}")))?;
        Ok(Some(reaper))
    }
}
