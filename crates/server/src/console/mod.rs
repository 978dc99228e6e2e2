//! The console: a page for operators at the HTTP listener, and the JSON interface below
//! `/api/v1/` from which it reads.
//!
//! ```text
//!   browser --- HTTP thread: Host, cookie, CSRF token (this module, `guard`, `sessions`)
//!                  |
//!                  +-- a thread for pages: fixed statements of the requested part
//!                         (`parts`, `explain`), run by the login's own SQL session (`run`)
//! ```
//!
//! * [`guard`]: which requests are answered: Host, Origin, headers of all responses.
//! * [`login`]: passwords, as the MySQL listener verifies them.
//! * [`sessions`]: logins with their SQL sessions.
//! * [`parts`], [`explain`]: the statements that the page can have executed.
//! * [`run`], [`json`], [`failure`]: execution of statements; results and errors as JSON.
//! * [`api`]: the requests of the JSON interface.
//! * [`history`]: throughput and latency of the last minutes.
//! * `page/`: the page itself, HTML, CSS and JavaScript modules, compiled into the binary.
//!
//! Invariants:
//! 1. The HTTP thread runs no statement and verifies no password.
//! 2. A login has one SQL session of its account. Everything on the page, except the samples of
//!    [`history`], comes from statements of that session. So the account's privileges and limits
//!    apply, KILL ends the session, and the process list shows it.
//! 3. A request chooses among fixed statements. Its values are bound as parameters or are numbers:
//!    no text of a request becomes SQL text. [`explain`] runs EXPLAIN of a recorded statement, in a
//!    session that is read-only.
//! 4. At most [`STATEMENT_THREADS`] statements and [`LOGIN_THREADS`] logins run at a time, a session
//!    runs one at a time, and the number of sessions is limited.
//! 5. After [`Console::close`] no statement runs and no session is open.
//!
//! Rejected: a connection to the MySQL listener, which may be switched off, and whose results would
//! have to be decoded and encoded again; one SQL session for each request, which limits of an
//! account (`MAX_CONNECTIONS_PER_HOUR`) would count.

mod api;
mod explain;
mod failure;
mod guard;
mod history;
mod json;
mod login;
mod parts;
mod run;
mod sessions;

use crate::config::Config;
use crate::http::{self, Client, ConnectionInfo, PAGE_THREADS};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use history::History;
use parking_lot::{Condvar, Mutex};
use porpoise_kv::Engine;
use porpoise_sql::SqlServer;
use sessions::Sessions;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Maximum number of statements that run at a time.
pub(super) const STATEMENT_THREADS: usize = 4;

/// Maximum number of passwords that are verified at a time.
pub(super) const LOGIN_THREADS: usize = 1;

const _: () = assert!(STATEMENT_THREADS + LOGIN_THREADS <= PAGE_THREADS);

/// Connection id of the first session; those of clients and events are smaller.
const FIRST_ID: u64 = 1 << 41;

/// Maximum time to wait for running statements at a shutdown.
const STOP: Duration = Duration::from_secs(5);

/// The page's files: path, content type, content.
const FILES: &[(&str, &str, &str)] = &[
    (
        "/",
        "text/html; charset=utf-8",
        include_str!("page/index.html"),
    ),
    (
        "/console/icon.svg",
        "image/svg+xml",
        include_str!("page/icon.svg"),
    ),
    (
        "/console/console.css",
        "text/css; charset=utf-8",
        include_str!("page/console.css"),
    ),
    ("/console/api.js", JAVASCRIPT, include_str!("page/api.js")),
    (
        "/console/charts.js",
        JAVASCRIPT,
        include_str!("page/charts.js"),
    ),
    (
        "/console/console.js",
        JAVASCRIPT,
        include_str!("page/console.js"),
    ),
    ("/console/dom.js", JAVASCRIPT, include_str!("page/dom.js")),
    (
        "/console/graph.js",
        JAVASCRIPT,
        include_str!("page/graph.js"),
    ),
    (
        "/console/parts.js",
        JAVASCRIPT,
        include_str!("page/parts.js"),
    ),
];

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

/// The console of a running server.
pub struct Console {
    sql: Arc<SqlServer>,
    engine: Arc<dyn Engine>,
    /// Host names besides those of loopback, in lower case.
    hosts: Vec<String>,
    /// Whether other machines may log in without TLS.
    allows_plain_logins: bool,
    sessions: Sessions,
    history: History,
    statements: Arc<Semaphore>,
    logins: Arc<Semaphore>,
    next_id: AtomicU64,
    /// Number of statements and logins that run now.
    running: Mutex<usize>,
    ended: Condvar,
}

impl Console {
    /// Creates the console and starts recording the history.
    ///
    /// # Errors
    /// The system's error when no thread can be created.
    pub fn start(
        config: &Config,
        sql: Arc<SqlServer>,
        engine: Arc<dyn Engine>,
    ) -> std::io::Result<Arc<Console>> {
        let console = Arc::new(Console {
            sessions: Sessions::new(sql.db().clock().clone()),
            history: History::default(),
            statements: Arc::new(Semaphore::new(STATEMENT_THREADS)),
            logins: Arc::new(Semaphore::new(LOGIN_THREADS)),
            next_id: AtomicU64::new(FIRST_ID),
            running: Mutex::new(0),
            ended: Condvar::new(),
            hosts: config.console_hosts.clone(),
            allows_plain_logins: config.insecure_console,
            sql,
            engine,
        });
        let (recorded, server) = (Arc::downgrade(&console), console.sql.clone());
        console.history.start(server, move |sample| {
            if let Some(console) = recorded.upgrade() {
                console.history.add(sample);
                console.sessions.remove_ended();
            }
        })?;
        Ok(console)
    }

    /// The handlers, for the HTTP listener.
    pub fn router(self: &Arc<Console>) -> Router {
        Router::new().fallback(respond).with_state(self.clone())
    }

    /// Ends all sessions and their statements, and refuses further ones.
    pub fn close(&self) {
        self.statements.close();
        self.logins.close();
        self.history.stop();
        self.sessions.cancel_all();
        let mut running = self.running.lock();
        while *running > 0 {
            if self.ended.wait_for(&mut running, STOP).timed_out() {
                tracing::warn!("the console still runs statements at the shutdown");
                break;
            }
        }
        drop(running);
        self.sessions.clear();
    }

    fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }
}

/// Answers a request to any path but those of health and metrics.
async fn respond(
    State(console): State<Arc<Console>>,
    Extension(client): Extension<Client>,
    Extension(info): Extension<ConnectionInfo>,
    request: Request,
) -> Response {
    let (head, body) = request.into_parts();
    let host = guard::host_of(&head.headers);
    if !guard::is_allowed_host(host, info.local.ip(), &console.hosts) {
        client.begin_answer();
        let text = "The console is not served under this host name: see --console-hosts.\n";
        return guard::protect((StatusCode::MISDIRECTED_REQUEST, text).into_response());
    }
    let path = head.uri.path();
    if let Some(call) = path.strip_prefix("/api/v1/") {
        let call = call.to_owned();
        return guard::protect(api::answer(console, call, head, body, client, info).await);
    }
    client.begin_answer();
    let file = FILES.iter().find(|(name, _, _)| *name == path);
    guard::protect(match file {
        Some(_) if !matches!(head.method, Method::GET | Method::HEAD) => {
            ([(header::ALLOW, "GET")], StatusCode::METHOD_NOT_ALLOWED).into_response()
        }
        Some((_, kind, text)) => ([(header::CONTENT_TYPE, *kind)], *text).into_response(),
        None => http::not_found().await,
    })
}

#[cfg(test)]
mod tests;
