//! The HTTP listener: `/health` and `/metrics`.
//!
//! It runs on a tokio runtime of one thread, apart from the workers, and has its
//! own small budget of connections ([`budget`]). That thread never blocks:
//! `/health` sends probes and polls for their answers, and `/metrics`, which may
//! wait for a latch, is rendered on another thread.
//!
//! Invariant: `/health` is answered within a second, whatever the disk, the
//! workers and other HTTP clients do.

mod budget;
pub mod metrics_page;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use budget::{Client, Connection, Listener};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use porpoise_base::clock::Clock;
use porpoise_base::threads::{self, Role};
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};

/// Maximum time in which a worker group must answer a probe.
const PROBE_TIMEOUT: Duration = Duration::from_millis(800);

/// Pause between two polls for answers.
const PROBE_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Longest time for rendering the metrics.
const METRICS_TIME: Duration = Duration::from_secs(5);

/// Maximum number of threads that render metrics.
const METRICS_THREADS: usize = 2;

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

/// The running HTTP listener.
pub struct Http {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Http {
    /// Serves `pages` on a listening, non-blocking socket.
    ///
    /// # Errors
    /// The system's error when no thread can be created.
    pub fn start(socket: std::net::TcpListener, pages: Arc<dyn Pages>) -> io::Result<Http> {
        let (stop, stopped) = watch::channel(false);
        let thread = threads::spawn_restarting(Role::Http, move || {
            let served = run(&socket, &pages, stopped.clone());
            if let Err(error) = served {
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
    pages: &Arc<dyn Pages>,
    mut stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    let socket = socket.try_clone()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .thread_name("http-metrics")
        .max_blocking_threads(METRICS_THREADS)
        .build()?;
    let served = runtime.block_on(async {
        tokio::select! {
            _ = stopped.wait_for(|stop| *stop) => Ok(()),
            result = serve(socket, pages.clone()) => result.map(|never| match never {}),
        }
    });
    // A page that waits for a latch must not delay the shutdown.
    runtime.shutdown_background();
    served
}

async fn serve(socket: std::net::TcpListener, pages: Arc<dyn Pages>) -> io::Result<Infallible> {
    let listener = Listener::new(TcpListener::from_std(socket)?);
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
        .route("/metrics", get(metrics))
        .fallback(|| async {
            let text = "This server has /health and /metrics.\n";
            (StatusCode::NOT_FOUND, text)
        });
    let clock = porpoise_base::clock::system();
    loop {
        let (connection, client) = listener.accept().await;
        let pages = router.clone().layer(Extension(client));
        if is_dated(&*clock) {
            tokio::spawn(serve_connection(connection, pages));
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

/// Answers the requests of one connection.
async fn serve_connection(connection: Connection, pages: Router) {
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
