//! The HTTP listener: `/health`, `/metrics`, and other pages (the console).
//!
//! It runs on a tokio runtime of one thread, apart from the workers, and has its
//! own small budget of connections ([`budget`]). That thread never blocks:
//! `/health` sends probes and polls for their answers, and `/metrics`, which may
//! wait for a latch, is rendered on another thread. A connection that begins with a TLS handshake
//! is served with the server's certificate, others in plain text.
//!
//! Invariant: `/health` is answered within a second, whatever the disk, the
//! workers and other HTTP clients do.

mod budget;
pub mod metrics_page;

pub(crate) use budget::Client;

use crate::net::TlsSession;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use budget::{Connection, Listener};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use porpoise_base::clock::Clock;
use porpoise_base::threads::{self, Role};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// Maximum time in which a worker group must answer a probe.
const PROBE_TIMEOUT: Duration = Duration::from_millis(800);

/// Pause between two polls for answers.
const PROBE_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Longest time for rendering the metrics.
const METRICS_TIME: Duration = Duration::from_secs(5);

/// Maximum number of threads that render metrics.
const METRICS_THREADS: usize = 2;

/// Maximum number of threads for the work of other pages. Their handlers must not use more, so that
/// threads are left for metrics.
pub(crate) const PAGE_THREADS: usize = 5;

/// Stack of these threads, as workers have: they run statements.
const STACK: usize = crate::net::worker::STACK;

/// First byte of a TLS handshake.
const TLS_HANDSHAKE: u8 = 0x16;

/// Result of a health check: one message per problem.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Failed components.
    pub failed: Vec<String>,
    /// Components that have not answered yet.
    pub unanswered: Vec<String>,
}

/// Content of the pages.
pub trait Pages: Send + Sync + 'static {
    /// Sends a liveness probe to every worker group; returns the numbers of the probes.
    fn send_probes(&self) -> Vec<u64>;
    /// State of the server, given the probes sent before. Never waits.
    fn health(&self, probes: &[u64]) -> Health;
    /// The metrics page. May wait.
    fn metrics(&self) -> String;
}

/// Properties of a connection, for the handlers of other pages.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionInfo {
    /// The client's address.
    pub(crate) peer: SocketAddr,
    /// The address at which the client has reached the listener.
    pub(crate) local: SocketAddr,
    /// Encryption of the connection, if it is encrypted.
    pub(crate) tls: Option<TlsSession>,
}

/// The content that the listener serves.
pub struct Served {
    /// Health and metrics.
    pub pages: Arc<dyn Pages>,
    /// Handlers of all other paths; `None` answers them 404. A handler gets [`Client`] and
    /// [`ConnectionInfo`] as extensions, and calls [`Client::begin_answer`] once it has read the
    /// request.
    pub more: Option<Router>,
    /// Configuration of TLS; `None` serves plain text only.
    pub tls: Option<Arc<rustls::ServerConfig>>,
}

/// The running HTTP listener.
pub struct Http {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Http {
    /// Serves on a listening, non-blocking socket.
    ///
    /// # Errors
    /// The system's error when no thread can be created.
    pub fn start(socket: std::net::TcpListener, served: Served) -> io::Result<Http> {
        let (stop, stopped) = watch::channel(false);
        let thread = threads::spawn_restarting(Role::Http, move || {
            if let Err(error) = run(&socket, &served, stopped.clone()) {
                tracing::error!(
                    "the HTTP listener has failed: /health and /metrics are not served: {error}"
                );
            }
        })?;
        Ok(Http {
            stop,
            thread: Some(thread),
        })
    }

    /// Closes the listener and all connections, and waits for the thread's end.
    pub fn stop(mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Serves until `stopped` becomes true.
fn run(
    socket: &std::net::TcpListener,
    served: &Served,
    mut stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    let socket = socket.try_clone()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .thread_name("http-pages")
        .thread_stack_size(STACK)
        .max_blocking_threads(METRICS_THREADS + PAGE_THREADS)
        .build()?;
    let served = runtime.block_on(async {
        tokio::select! {
            _ = stopped.wait_for(|stop| *stop) => Ok(()),
            result = serve(socket, served) => result.map(|never| match never {}),
        }
    });
    // A page that waits for a latch must not delay the shutdown.
    runtime.shutdown_background();
    served
}

async fn serve(socket: std::net::TcpListener, served: &Served) -> io::Result<Infallible> {
    let listener = Listener::new(TcpListener::from_std(socket)?);
    let pages = served.pages.clone();
    let checked = pages.clone();
    let health = move |Extension(client): Extension<Client>| async move {
        client.begin_answer();
        health_page(&*checked).await
    };
    let permits = Arc::new(Semaphore::new(METRICS_THREADS));
    let metrics = move |Extension(client): Extension<Client>| async move {
        client.begin_answer();
        metrics_page(pages, permits).await
    };
    let router = Router::new()
        .route("/health", get(health))
        .route("/metrics", get(metrics));
    let router = match served.more.clone() {
        Some(more) => router.fallback_service(more),
        None => router.fallback(not_found),
    };
    let tls = served.tls.clone().map(TlsAcceptor::from);
    let clock = porpoise_base::clock::system();
    loop {
        let connection = listener.accept().await;
        if is_dated(&*clock) {
            tokio::spawn(serve_either(connection, router.clone(), tls.clone()));
        } else {
            tokio::spawn(refuse_undated(connection));
        }
    }
}

/// Response to every request while the clock is before 1970.
const UNDATED: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 32\r\n\
    connection: close\r\n\r\nthe system clock is before 1970\n";

/// Whether the clock is at or after 1970 (it reads 0 for earlier times). The HTTP library formats
/// the date for every connection and panics for earlier ones.
fn is_dated(clock: &dyn Clock) -> bool {
    clock.unix_micros() > 0
}

/// Answers one request with [`UNDATED`].
async fn refuse_undated(mut connection: Connection) {
    let mut request = [0; 4096];
    let answered = async {
        // Reads the request first: closing a socket with unread bytes would send a reset.
        let _ = connection.read(&mut request).await?;
        connection.write_all(UNDATED).await?;
        connection.shutdown().await
    };
    if let Err(error) = answered.await {
        tracing::debug!("HTTP: {error}");
    }
}

/// Response to a path that does not exist.
pub(crate) async fn not_found() -> Response {
    let text =
        "This address has /health, /metrics, and, unless it is switched off, the console at /.\n";
    (StatusCode::NOT_FOUND, text).into_response()
}

/// Answers the requests of one connection, with TLS if the client begins with a handshake.
async fn serve_either(mut connection: Connection, pages: Router, tls: Option<TlsAcceptor>) {
    let pages = pages.layer(Extension(connection.client()));
    let served = async {
        let (peer, local) = connection.addresses()?;
        let mut info = ConnectionInfo {
            peer,
            local,
            tls: None,
        };
        match (connection.first_byte().await?, tls) {
            (Some(TLS_HANDSHAKE), Some(tls)) => {
                let encrypted = tls.accept(connection).await?;
                info.tls = TlsSession::of(encrypted.get_ref().1);
                serve_connection(encrypted, pages.layer(Extension(info))).await;
            }
            _ => serve_connection(connection, pages.layer(Extension(info))).await,
        }
        io::Result::Ok(())
    };
    if let Err(error) = served.await {
        tracing::debug!("HTTP: {error}");
    }
}

/// Answers the requests of one connection.
async fn serve_connection(connection: impl AsyncRead + AsyncWrite + Unpin, pages: Router) {
    let service = TowerToHyperService::new(pages);
    let served = http1::Builder::new()
        .serve_connection(TokioIo::new(connection), service)
        .await;
    if let Err(error) = served {
        tracing::debug!("HTTP: {error}");
    }
}

/// Replies 200 and `ok`, or 503 and one reason per line.
async fn health_page(pages: &dyn Pages) -> Response {
    let probes = pages.send_probes();
    let limit = Instant::now() + PROBE_TIMEOUT;
    let health = loop {
        let health = pages.health(&probes);
        if health.unanswered.is_empty() || !health.failed.is_empty() || Instant::now() >= limit {
            break health;
        }
        sleep(PROBE_POLL_INTERVAL).await;
    };
    let reasons = [health.failed, health.unanswered].concat();
    if reasons.is_empty() {
        return (StatusCode::OK, "ok\n").into_response();
    }
    let text = reasons.iter().map(|reason| format!("{reason}\n"));
    let text: String = text.collect();
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}

/// Renders the metrics on a thread of their own. A request waits for a permit first: the runtime's
/// queue of blocking tasks is unbounded, and keeps tasks of clients that have disconnected.
async fn metrics_page(pages: Arc<dyn Pages>, permits: Arc<Semaphore>) -> Response {
    let rendered = async {
        let permit = permits.acquire_owned().await;
        let work = move || {
            let _permit = permit;
            pages.metrics()
        };
        tokio::task::spawn_blocking(work).await
    };
    match timeout(METRICS_TIME, rendered).await {
        Ok(Ok(text)) => {
            let kind = "text/plain; version=0.0.4; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Ok(Err(_)) => {
            let text = "the metrics could not be rendered; see the log\n";
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
        Err(_) => {
            let text = "the metrics were not rendered in time\n";
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
    }
}

#[cfg(test)]
mod tests;
