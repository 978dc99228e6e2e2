//! The HTTP listener: `/health`, `/primary`, `/replica`, `/metrics`, and other pages (the console).
//!
//! It runs on a tokio runtime of one thread ([`listener`]), apart from the workers, and has its
//! own small budget of connections ([`budget`]). That thread never blocks:
//! `/health` sends probes and polls for their answers, and `/metrics`, which may
//! wait for a latch, is rendered on another thread. A connection that begins with a TLS handshake
//! is served with the server's certificate, others in plain text.
//!
//! REST has a listener of its own, with the same code and other limits (`crate::rest`).
//!
//! Invariant: `/health` is answered within a second, whatever the disk, the
//! workers and other HTTP clients do.

mod budget;
mod listener;
pub mod metrics_page;

pub(crate) use budget::{Client, Limits, StreamGuard};
pub use listener::Http;
pub(crate) use listener::{ConnectionInfo, Site};

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use porpoise_base::threads::Role;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

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
    /// Whether clients may write. Never waits.
    fn takes_writes(&self) -> bool;
    /// The metrics page. May wait.
    fn metrics(&self) -> String;
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

/// Limits of connections to the pages.
const LIMITS: Limits = Limits {
    connections: 64,
    request_time: Duration::from_secs(5),
    request_bytes: 16 * 1024,
    lifetime: Duration::from_secs(60),
};

impl Http {
    /// Serves the pages on a listening, non-blocking socket.
    ///
    /// # Errors
    /// The system's error when no thread can be created.
    pub fn start(socket: std::net::TcpListener, served: Served) -> io::Result<Http> {
        let site = Site {
            role: Role::Http,
            thread_name: "http-pages",
            router: router(served.pages, served.more),
            tls: served.tls,
            limits: LIMITS,
            threads: METRICS_THREADS + PAGE_THREADS,
        };
        Http::serve(socket, site)
    }
}

/// The further condition of a health check.
#[derive(Clone, Copy)]
enum Check {
    /// None.
    Health,
    /// Clients may write.
    Primary,
    /// Clients may not write.
    Replica,
}

/// The handlers of health and metrics; `more` handles all other paths.
fn router(pages: Arc<dyn Pages>, more: Option<Router>) -> Router {
    let checked = pages.clone();
    let health = move |check: Check| {
        let checked = checked.clone();
        move |Extension(client): Extension<Client>| async move {
            client.begin_answer();
            health_page(&*checked, check).await
        }
    };
    let permits = Arc::new(Semaphore::new(METRICS_THREADS));
    let metrics = move |Extension(client): Extension<Client>| async move {
        client.begin_answer();
        metrics_page(pages, permits).await
    };
    let router = Router::new()
        .route("/health", get(health(Check::Health)))
        .route("/primary", get(health(Check::Primary)))
        .route("/replica", get(health(Check::Replica)))
        .route("/metrics", get(metrics));
    match more {
        Some(more) => router.fallback_service(more),
        None => router.fallback(not_found),
    }
}

/// Response to a path that does not exist.
pub(crate) async fn not_found() -> Response {
    let text = "This address has /health, /primary, /replica, /metrics, and, unless it is switched off, the console at /.\n";
    (StatusCode::NOT_FOUND, text).into_response()
}

/// Replies 200 and `ok`, or 503 and one reason per line.
async fn health_page(pages: &dyn Pages, check: Check) -> Response {
    let wrong_role = match (check, pages.takes_writes()) {
        (Check::Primary, false) => Some("this server refuses the writes of clients\n"),
        (Check::Replica, true) => Some("this server takes the writes of clients\n"),
        _ => None,
    };
    if let Some(reason) = wrong_role {
        return (StatusCode::SERVICE_UNAVAILABLE, reason).into_response();
    }
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
