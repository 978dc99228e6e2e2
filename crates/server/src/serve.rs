//! `porpoise serve`: starts the services and listeners, announces them, and stops them in reverse
//! order.
//!
//! Order of the start: signals, limits, the data directory's lock, sockets
//! (so that a taken port is reported before a long recovery), certificate, engine,
//! workers, and only then the first connection is accepted. The shutdown runs
//! the other way round (transactions.md, rule 40).

use crate::config::{Config, StartError, TlsMode, exposure};
use crate::console::Console;
use crate::datadir::DataDir;
use crate::engine;
use crate::failover;
use crate::http::metrics_page;
use crate::http::{Health, Http, Pages, Served};
use crate::metrics;
use crate::net::{
    BoundSocket, DurabilityWatermark, Listener, Listening, Net, NetConfig, NetMonitor, Protocol,
};
use crate::reload::{Reloader, SetLogFilter};
use crate::service_manager;
use crate::services::Services;
use crate::summary;
use crate::sys::{self, Signals};
use crate::tls;
use parking_lot::Mutex;
use porpoise_base::disk::Disk;
use porpoise_base::memory::MemoryBudget;
use porpoise_base::threads::{self, Role};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Number of file descriptors needed besides those of connections: log, checkpoints, listeners,
/// some spare.
const RESERVED_FILE_DESCRIPTORS: u64 = 256;

/// The listening sockets, by protocol.
struct Sockets {
    mysql: Option<BoundSocket>,
    mysql_unix: Option<BoundSocket>,
    memcached: Option<BoundSocket>,
    memcached_unix: Option<BoundSocket>,
    memcached_more: Vec<Option<BoundSocket>>,
    native: Option<BoundSocket>,
    rest: Option<BoundSocket>,
    http: Option<BoundSocket>,
    failover: Option<BoundSocket>,
}

impl Sockets {
    fn bind(config: &Config) -> Result<Sockets, StartError> {
        let pick = config.pick_ports;
        Ok(Sockets {
            mysql: tcp("mysql-listen", config.mysql_listen, pick)?,
            mysql_unix: unix("mysql-socket", config.mysql_socket.as_deref())?,
            memcached: tcp("memcached-listen", config.memcached_listen, pick)?,
            memcached_unix: unix("memcached-socket", config.memcached_socket.as_deref())?,
            memcached_more: config
                .memcached_listeners
                .iter()
                .map(|(_, at)| tcp("memcached-listeners", Some(*at), pick))
                .collect::<Result<_, _>>()?,
            native: tcp("native-listen", config.native_listen, pick)?,
            rest: tcp("rest-listen", config.rest_listen, pick)?,
            http: tcp("http-listen", config.http_listen, pick)?,
            failover: tcp("failover-listen", config.failover_listen, false)?,
        })
    }

    /// The listener for the other members of the group.
    fn members(&self) -> Result<Option<TcpListener>, StartError> {
        let listener = self.failover.as_ref().map(BoundSocket::to_tcp).transpose();
        listener.map_err(|e| StartError::failure(format!("--failover-listen: {e}")))
    }
}

/// Binds a TCP listener. If the port is in use, binds a free one if `pick_port` is true, and
/// otherwise suggests one in the error message.
fn tcp(
    option: &str,
    address: Option<SocketAddr>,
    pick_port: bool,
) -> Result<Option<BoundSocket>, StartError> {
    let Some(address) = address else {
        return Ok(None);
    };
    let error = match BoundSocket::tcp(address) {
        Ok(bound) => return Ok(Some(bound)),
        Err(error) => error,
    };
    if error.kind() != io::ErrorKind::AddrInUse {
        let message = format!("--{option}: cannot listen at {address}: {error}");
        return Err(StartError::usage(message));
    }
    let other = BoundSocket::tcp(SocketAddr::new(address.ip(), 0)).ok();
    if pick_port && other.is_some() {
        return Ok(other);
    }
    let free = match other.as_ref().map(BoundSocket::at) {
        Some(Listening::Tcp(free)) => format!("; {free} is free: --{option} {free}"),
        _ => String::new(),
    };
    let message = format!("--{option}: the port of {address} is in use{free}");
    Err(StartError::usage(message))
}

fn unix(option: &str, path: Option<&Path>) -> Result<Option<BoundSocket>, StartError> {
    let Some(path) = path else {
        return Ok(None);
    };
    match BoundSocket::unix(path) {
        Ok(bound) => Ok(Some(bound)),
        Err(error) => {
            let message = format!("--{option}: cannot listen at {}: {error}", path.display());
            Err(StartError::usage(message))
        }
    }
}

/// Raises the limit of open files, and returns the number of connections that fit: a default that
/// is too high is lowered, an explicit one is an error.
fn fit_open_files(config: &Config) -> Result<usize, StartError> {
    let files = sys::raise_open_files()
        .map_err(|e| StartError::failure(format!("cannot read the limit of open files: {e}")))?;
    let most =
        usize::try_from(files.saturating_sub(RESERVED_FILE_DESCRIPTORS)).unwrap_or(usize::MAX);
    if config.max_connections <= most {
        return Ok(config.max_connections);
    }
    if config.max_connections_set {
        return Err(StartError::usage(format!(
            "--max-connections {} needs {} open files, and the system allows {files}: raise \
             the limit (ulimit -n) or ask for at most {most}",
            config.max_connections,
            config.max_connections as u64 + RESERVED_FILE_DESCRIPTORS,
        )));
    }
    tracing::warn!(
        "max_connections was reduced to {most}, because the limit of open files is {files}; raise it with ulimit -n"
    );
    Ok(most.max(1))
}

fn net_config(config: &Config, max_connections: usize, memory: Arc<MemoryBudget>) -> NetConfig {
    let cores = NetConfig::default().groups;
    NetConfig {
        groups: if config.worker_groups == 0 {
            cores
        } else {
            config.worker_groups
        },
        io_uring: config.io_uring,
        max_connections,
        max_running_statements: config.max_running_statements,
        max_before_login: config.max_before_login,
        connect_timeout: config.connect_timeout,
        net_read_timeout: config.net_read_timeout,
        net_write_timeout: config.net_write_timeout,
        memory,
    }
}

/// Source of the HTTP pages: the state of the server.
struct PageSource {
    services: Arc<Services>,
    net: NetMonitor,
    durability: Arc<DurabilityWatermark>,
    ending: AtomicBool,
}

impl PageSource {
    fn new(
        services: &Arc<Services>,
        net: &Net,
        durability: Arc<DurabilityWatermark>,
    ) -> Arc<PageSource> {
        Arc::new(PageSource {
            services: services.clone(),
            net: net.monitor(),
            durability,
            ending: AtomicBool::new(false),
        })
    }
}

impl Pages for PageSource {
    fn send_probes(&self) -> Vec<u64> {
        self.net.send_probes()
    }

    fn health(&self, probes: &[u64]) -> Health {
        let mut health = Health::default();
        if self.ending.load(Ordering::Relaxed) {
            health.failed.push("shutting down".into());
        }
        if self.durability.has_failed() {
            let reason = "log: a write or sync has failed; writes are refused";
            health.failed.push(reason.into());
        }
        health.failed.extend(self.services.engine.stalled());
        health.failed.extend(self.services.db.lease_problem());
        let groups = self.net.unanswered(probes);
        health.unanswered = groups
            .iter()
            .map(|n| format!("worker group {n}: no answer; its clients wait"))
            .collect();
        health
    }

    fn takes_writes(&self) -> bool {
        !self.services.db.is_read_only()
    }

    fn metrics(&self) -> String {
        let sql = &self.services.sql;
        let mut phases = sql.phase_latencies();
        phases.push(metrics::durability_wait());
        metrics_page::render(&metrics_page::Figures {
            net: &self.net,
            engine: &self.services.engine.stats(),
            durations: &self.services.engine.durations(),
            sql: &self.services.stats(),
            statements: &sql.latencies(),
            commands: &crate::services::command_latencies(),
            phases: &phases,
            tables: &sql.largest_tables(metrics_page::MAX_TABLES),
            cache_bytes: self.services.cache_bytes(),
        })
    }
}

/// Checks the configuration before anything is opened.
fn check(config: &Config) -> Result<(), StartError> {
    exposure::check_memcached(config)?;
    failover::check(config)?;
    engine::check_required_data(config)
}

/// Runs the server until a signal ends it; the embedded engine keeps its files
/// on `disk`.
pub fn run(
    config: &Config,
    disk: Arc<dyn Disk>,
    log: Option<SetLogFilter>,
) -> Result<(), StartError> {
    let failed = |what: &str, error: io::Error| StartError::failure(format!("{what}: {error}"));
    let signals = Signals::take().map_err(|e| failed("signals", e))?;
    let max_connections = fit_open_files(config)?;
    check(config)?;
    let dir = DataDir::lock(&config.data_dir)?;
    failover::clone::install(&config.data_dir)?;
    let sockets = Sockets::bind(config)?;
    let members = sockets.members()?;
    let certificates = tls::Certificates::open(config)?;
    let tls = certificates.server_config().clone();
    let password = std::env::var("PORPOISE_ROOT_PASSWORD").ok();
    let services = Arc::new(Services::open(config, disk, &tls, password.as_deref())?);
    exposure::check(config, services.root_has_password)?;

    let durability = DurabilityWatermark::of(services.engine.clone());
    let memory = services.memory.clone();
    let mut net = Net::start(
        net_config(config, max_connections, memory),
        durability.clone(),
    )
    .map_err(|e| failed("cannot start workers", e))?;
    let pages = PageSource::new(&services, &net, durability);
    let console = console(config, &services).map_err(|e| failed("console", e))?;
    let served = Served {
        pages: pages.clone(),
        more: console.as_ref().map(Console::router),
        tls: Some(tls.clone()),
    };
    let rest_tls = (config.rest_tls != TlsMode::Off).then_some(tls);
    let listeners = Listeners::open(sockets, &services, served, rest_tls);
    let listeners = listeners.map_err(|e| failed("HTTP", e))?;
    net.serve(listeners.listeners)
        .map_err(|e| failed("cannot accept", e))?;
    let screen = summary::render(config, &listeners.lines, services.root_has_password);
    services.start_failover(config, members)?;
    announce(&listeners.lines, &screen);
    services
        .sql
        .provide_shutdown(|| sys::terminate(std::process::id()));
    service_manager::ready();

    let reloader = reloader(config, certificates, &net, &services, log);
    signals
        .next_end(|| reloader.reload())
        .map_err(|e| failed("signals", e))?;
    service_manager::stopping();
    tracing::info!("shutting down; a second signal ends the server immediately");
    pages.ending.store(true, Ordering::Relaxed);
    exit_at_second_signal(signals);
    if !net.shutdown(config.shutdown_timeout) {
        tracing::warn!("some sessions did not end in time; their transactions are rolled back");
    }
    if let Some(console) = console {
        console.close();
    }
    let closed = services.close();
    for http in listeners.http {
        http.stop();
    }
    drop(dir);
    closed.map_err(|e| StartError::failure(format!("the engine did not shut down cleanly: {e}")))
}

/// Ends the process at once when another signal comes during the shutdown.
fn exit_at_second_signal(signals: Signals) {
    let waiting = threads::spawn(Role::Signals, move || {
        if signals.next_end(|| ()).is_ok() {
            tracing::warn!(
                "second signal: ending immediately; the next start will recover from the log"
            );
            std::process::exit(1);
        }
    });
    drop(waiting);
}

/// Collects the parts of the server that a reload changes.
fn reloader(
    config: &Config,
    certificates: Arc<tls::Certificates>,
    net: &Net,
    services: &Services,
    log: Option<SetLogFilter>,
) -> Reloader {
    Reloader {
        config: Mutex::new(config.clone()),
        certificates,
        fit_open_files,
        net: net.monitor(),
        memory: services.memory.clone(),
        log,
        sql: services.sql.clone(),
    }
}

/// Starts the console, if the HTTP listener is to serve one.
fn console(config: &Config, services: &Services) -> io::Result<Option<Arc<Console>>> {
    if !config.console || config.http_listen.is_none() {
        return Ok(None);
    }
    let (sql, engine) = (services.sql.clone(), services.engine.clone());
    Console::start(config, sql, engine).map(Some)
}

/// The listeners.
struct Listeners {
    listeners: Vec<Listener>,
    /// The HTTP listeners: pages, and REST.
    http: Vec<Http>,
    /// Names and addresses, to be printed.
    lines: Vec<(&'static str, String)>,
}

impl Listeners {
    fn open(
        sockets: Sockets,
        services: &Services,
        served: Served,
        rest_tls: Option<Arc<rustls::ServerConfig>>,
    ) -> io::Result<Listeners> {
        let mut listeners = Listeners {
            listeners: Vec::new(),
            http: Vec::new(),
            lines: Vec::new(),
        };
        listeners.add("mysql", sockets.mysql, services.mysql.as_ref());
        listeners.add("memcached", sockets.memcached, services.memcached.as_ref());
        listeners.add("native", sockets.native, services.native.as_ref());
        if let (Some(bound), Some(rest)) = (&sockets.rest, &services.rest) {
            listeners.lines.push(("rest", address_text(bound.at())));
            listeners.http.push(rest.serve(bound.to_tcp()?, rest_tls)?);
        }
        if let Some(bound) = &sockets.http {
            listeners.lines.push(("http", address_text(bound.at())));
            listeners.http.push(Http::start(bound.to_tcp()?, served)?);
        }
        listeners.add("mysql-socket", sockets.mysql_unix, services.mysql.as_ref());
        listeners.add(
            "memcached-socket",
            sockets.memcached_unix,
            services.memcached.as_ref(),
        );
        for (bound, protocol) in sockets
            .memcached_more
            .into_iter()
            .zip(&services.more_memcached)
        {
            listeners.add("memcached-listener", bound, Some(protocol));
        }
        Ok(listeners)
    }

    fn add(
        &mut self,
        name: &'static str,
        bound: Option<BoundSocket>,
        protocol: Option<&Arc<dyn Protocol>>,
    ) {
        if let (Some(bound), Some(protocol)) = (bound, protocol) {
            self.lines.push((name, address_text(bound.at())));
            self.listeners.push(bound.serving(protocol.clone()));
        }
    }
}

fn address_text(at: &Listening) -> String {
    match at {
        Listening::Tcp(address) => address.to_string(),
        Listening::Unix(path) => path.display().to_string(),
    }
}

/// Prints the lines that announce readiness: for scripts, and between them a screen for people.
fn announce(lines: &[(&'static str, String)], screen: &str) {
    let mut text = String::new();
    for (name, place) in lines {
        text.push_str(&format!("ready {name} {place}\n"));
    }
    text.push_str(screen);
    text.push_str("porpoise ready\n");
    let mut out = io::stdout().lock();
    // Standard output may be closed.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
