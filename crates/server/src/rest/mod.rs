//! REST: rows by key, batches and SQL statements over HTTP, at an address of its own
//! (`--rest-listen`; docs/guide/rest.md).
//!
//! ```text
//!   client --- rest thread: route, credentials, body ([`routes`], [`login`])
//!                 |
//!                 +-- a thread for requests ([`execution`])
//!                        rows, batch, schema --> porpoise_native::LocalSession --> batches of the native protocol
//!                        sql                 --> SqlSession
//!                        changes             --> porpoise_binlog::Feed
//! ```
//!
//! * [`routes`]: the table of operations; [`openapi`] makes the document from it.
//! * [`login`]: Basic credentials and bearer tokens. [`execution`]: threads, time limits, cancellation.
//! * [`values`]: JSON of values. [`problem`]: failures. [`operation`]: operations on rows, from JSON.
//! * [`rows`], [`batch`], [`schema`], [`sql`], [`changes`]: the requests. [`stream`]: answers in chunks.
//! * [`arrow`]: results of statements as Arrow streams.
//!
//! Invariants:
//! 1. The rest thread runs no statement, touches no row and verifies no password.
//! 2. Rows are read and written by the code that serves native clients, statements by that of MySQL's
//!    clients: with their privileges, limits, memory charges, statistics and audit.
//! 3. The body of a request is read after its credentials were accepted, up to [`MAX_BODY`] bytes.
//! 4. A request that changes something has a body of `application/json` or a method that browsers ask
//!    permission for; requests from pages of other sites are refused. No answer allows another origin.
//!
//! Rejected: the console's listener and logins. Its cookies need CSRF tokens, its limits are those of a
//! page for operators, and a busy REST client must not delay `/health`.

mod arrow;
mod batch;
mod changes;
mod execution;
mod login;
mod openapi;
mod operation;
mod problem;
mod routes;
mod rows;
mod schema;
mod sql;
mod stream;
mod values;

use crate::config::{Config, TlsMode};
use crate::http::{Client, ConnectionInfo, Http, Limits, Site};
use crate::metrics::{self, Counter};
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header, request};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use execution::{CHANGE_STREAMS, LOGIN_THREADS, Order, REQUEST_THREADS};
use login::{Credentials, Login, TOKEN_LIFETIME, Tokens};
use parking_lot::{Condvar, Mutex};
use porpoise_access::VerifierCache;
use porpoise_base::cancel::Cancel;
use porpoise_base::memory::MemoryBudget;
use porpoise_base::threads::Role;
use porpoise_binlog::BinaryLog;
use porpoise_native::Native;
use porpoise_sql::SqlServer;
use problem::Problem;
use routes::{Endpoint, Found, Matched, Query};
use rows::RowAddress;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;
use values::{Members, put_string};

/// Largest body of a request, in bytes.
const MAX_BODY: usize = 8 << 20;

/// Limits of connections.
const LIMITS: Limits = Limits {
    connections: 512,
    request_time: Duration::from_secs(60),
    request_bytes: MAX_BODY + 64 * 1024,
    lifetime: Duration::from_secs(3600),
};

/// Id of the first request in the process list; those of other sessions are smaller.
const FIRST_ID: u64 = 1 << 42;

/// Longest wait for running requests at a shutdown.
const STOP: Duration = Duration::from_secs(5);

/// The REST interface of a running server.
pub(crate) struct Rest {
    sql: Arc<SqlServer>,
    native: Arc<Native>,
    memory: Arc<MemoryBudget>,
    /// The binary log, if the server keeps one.
    binlog: Option<Arc<BinaryLog>>,
    verifiers: Arc<VerifierCache>,
    tokens: Tokens,
    requires_tls: bool,
    requests: Arc<Semaphore>,
    /// Permits for change streams.
    streams: Arc<Semaphore>,
    logins: Arc<Semaphore>,
    next_id: AtomicU64,
    /// The requests that run, or wait for a thread.
    running: Mutex<HashMap<u64, Cancel>>,
    ended: Condvar,
}

/// Components of the interface.
pub(crate) struct Parts {
    pub(crate) sql: Arc<SqlServer>,
    pub(crate) native: Arc<Native>,
    pub(crate) memory: Arc<MemoryBudget>,
    /// The binary log, if the server keeps one.
    pub(crate) binlog: Option<Arc<BinaryLog>>,
    /// Hashes of passwords that were verified before.
    pub(crate) verifiers: Arc<VerifierCache>,
}

impl Rest {
    /// The interface over these parts.
    pub(crate) fn new(config: &Config, parts: Parts) -> Arc<Rest> {
        Arc::new(Rest {
            tokens: Tokens::new(parts.sql.db().clock().clone()),
            sql: parts.sql,
            native: parts.native,
            memory: parts.memory,
            binlog: parts.binlog,
            verifiers: parts.verifiers,
            requires_tls: config.rest_tls == TlsMode::Required,
            requests: Arc::new(Semaphore::new(REQUEST_THREADS)),
            streams: Arc::new(Semaphore::new(CHANGE_STREAMS)),
            logins: Arc::new(Semaphore::new(LOGIN_THREADS)),
            next_id: AtomicU64::new(FIRST_ID),
            running: Mutex::default(),
            ended: Condvar::new(),
        })
    }

    /// Serves on a listening, non-blocking socket.
    ///
    /// # Errors
    /// The system's error when no thread can be created.
    pub(crate) fn serve(
        self: &Arc<Rest>,
        socket: std::net::TcpListener,
        tls: Option<Arc<rustls::ServerConfig>>,
    ) -> io::Result<Http> {
        let site = Site {
            role: Role::Rest,
            thread_name: "rest-requests",
            router: Router::new().fallback(respond).with_state(self.clone()),
            tls,
            limits: LIMITS,
            threads: REQUEST_THREADS + CHANGE_STREAMS + LOGIN_THREADS,
        };
        Http::serve(socket, site)
    }

    fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }
}

/// A JSON answer.
fn json(status: StatusCode, body: Vec<u8>) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// Headers of all answers.
const HEADERS: &[(&str, &str)] = &[
    ("x-content-type-options", "nosniff"),
    ("cache-control", "no-store"),
    ("cross-origin-resource-policy", "same-origin"),
];

/// Answers a request.
async fn respond(
    State(rest): State<Arc<Rest>>,
    Extension(client): Extension<Client>,
    Extension(info): Extension<ConnectionInfo>,
    request: Request,
) -> Response {
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    let answered = match routes::find(&head.method, &path) {
        Found::Route(matched) => {
            let call = Call {
                rest,
                client: &client,
                info,
                head: &head,
                matched: &matched,
            };
            call.answer(body).await
        }
        Found::OtherMethods(methods) => {
            // Without CORS headers, so that pages of other origins cannot read the reply.
            let mut response = if head.method == Method::OPTIONS {
                StatusCode::NO_CONTENT.into_response()
            } else {
                let text = format!("This path supports the methods {methods}");
                Problem::new(StatusCode::METHOD_NOT_ALLOWED, text).into_response()
            };
            if let Ok(methods) = HeaderValue::from_str(&methods) {
                response.headers_mut().insert(header::ALLOW, methods);
            }
            Ok(response)
        }
        Found::NoPath => Err(Problem::new(
            StatusCode::NOT_FOUND,
            "There is no such path: see /v1/openapi.json",
        )),
    };
    client.begin_answer();
    let mut response = answered.unwrap_or_else(IntoResponse::into_response);
    count(response.status());
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        let name = HeaderName::from_static(name);
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Counts a request.
fn count(status: StatusCode) {
    metrics::add(Counter::Requests, 1);
    let counter = match status.as_u16() {
        400..500 => Counter::RestRefused,
        500.. => Counter::RestFailed,
        _ => Counter::RestSucceeded,
    };
    metrics::add(counter, 1);
}

/// A request to an operation.
struct Call<'r> {
    rest: Arc<Rest>,
    client: &'r Client,
    info: ConnectionInfo,
    head: &'r request::Parts,
    matched: &'r Matched<'r>,
}

impl Call<'_> {
    async fn answer(self, body: Body) -> Result<Response, Problem> {
        let endpoint = self.matched.route.endpoint;
        if endpoint == Endpoint::OpenApi {
            return Ok(json(StatusCode::OK, openapi::DOCUMENT.clone()));
        }
        self.check_origin()?;
        let login = self
            .rest
            .authenticate(&self.head.headers, &self.info)
            .await?;
        let query = self.head.uri.query().unwrap_or_default();
        let query = Query::parse(query, self.matched.route)?;
        let body = self.body(body).await?;
        self.client.begin_answer();
        match endpoint {
            Endpoint::OpenApi => Err(Problem::new(StatusCode::NOT_FOUND, "")),
            Endpoint::IssueToken => self.issue_token(login),
            Endpoint::RevokeToken => self.revoke_token(),
            Endpoint::ListTables => {
                let order = self.order(login, None, body.len());
                order.run(|execution| Ok(schema::list(&execution))).await
            }
            Endpoint::DescribeTable => {
                let database = self.matched.parameter("database")?;
                let table = self.matched.parameter("table")?;
                let order = self.order(login, None, body.len());
                let work = move |execution| schema::describe(&execution, &database, &table);
                order.run(work).await
            }
            Endpoint::Batch => {
                let parsed: batch::BatchBody = parse(&body)?;
                let order = self.order(login, parsed.time_limit_ms.map(u32::from), body.len());
                order
                    .run(move |execution| batch::run(&execution, &parsed))
                    .await
            }
            Endpoint::Sql => {
                let parsed: sql::StatementBody = parse(&body)?;
                let order = self.order(login, parsed.time_limit_ms.map(u32::from), body.len());
                sql::run(order, parsed, &self.head.headers).await
            }
            Endpoint::Changes => {
                let request = changes::ChangesRequest::parse(&query, &self.head.headers)?;
                let order = self.order(login, None, body.len());
                changes::run(order, request, self.client).await
            }
            Endpoint::InsertRow => {
                let database = self.matched.parameter("database")?;
                let table = self.matched.parameter("table")?;
                let row: Members = parse(&body)?;
                let order = self.order(login, query.time_limit()?, body.len());
                let work = move |execution| rows::insert(&execution, &database, &table, &row);
                order.run(work).await
            }
            Endpoint::ReadRow | Endpoint::PutRow | Endpoint::PatchRow | Endpoint::DeleteRow => {
                self.row(endpoint, login, &query, &body).await
            }
        }
    }

    async fn row(
        self,
        endpoint: Endpoint,
        login: Arc<Login>,
        query: &Query,
        body: &Bytes,
    ) -> Result<Response, Problem> {
        let address = RowAddress::parse(self.matched, query, &self.head.headers)?;
        let has_body = matches!(endpoint, Endpoint::PutRow | Endpoint::PatchRow);
        let row: Members = if has_body {
            parse(body)?
        } else {
            Members::default()
        };
        let order = self.order(login, query.time_limit()?, body.len());
        let work = move |execution| match endpoint {
            Endpoint::PutRow => rows::put(&execution, &address, &row),
            Endpoint::PatchRow => rows::patch(&execution, &address, &row),
            Endpoint::DeleteRow => rows::delete(&execution, &address),
            _ => rows::read(&execution, &address),
        };
        order.run(work).await
    }

    fn order(&self, login: Arc<Login>, time_limit: Option<u32>, body: usize) -> Order {
        Order {
            rest: self.rest.clone(),
            login,
            info: self.info.clone(),
            body,
            time_limit,
        }
    }

    /// Refuses requests that a page of another site makes a browser send.
    fn check_origin(&self) -> Result<(), Problem> {
        let site = self.head.headers.get("sec-fetch-site");
        if site.is_none_or(|site| site == "none" || site == "same-origin") {
            return Ok(());
        }
        let text = "The request comes from a page of another site";
        Err(Problem::new(StatusCode::FORBIDDEN, text))
    }

    /// Reads the body.
    async fn body(&self, body: Body) -> Result<Bytes, Problem> {
        let headers = &self.head.headers;
        let has_body = self.matched.route.body.is_some();
        let kind = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
        let kind = kind.unwrap_or_default().split(|b| *b == b';').next();
        let is_json =
            kind.is_some_and(|k| k.trim_ascii().eq_ignore_ascii_case(b"application/json"));
        if has_body && !is_json {
            let text = "The content type must be application/json";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
        }
        let length = headers
            .get(header::CONTENT_LENGTH)
            .and_then(|v| v.to_str().ok());
        let length = length.and_then(|text| text.parse::<u64>().ok());
        if length.is_some_and(|length| length > MAX_BODY as u64) {
            return Err(execution::too_large());
        }
        let body = to_bytes(body, MAX_BODY).await;
        let body = body.map_err(|_| execution::too_large())?;
        if !has_body && !body.is_empty() && self.head.method != Method::POST {
            return Err(Problem::malformed("This operation has no body"));
        }
        Ok(body)
    }

    fn issue_token(&self, login: Arc<Login>) -> Result<Response, Problem> {
        if let Credentials::Bearer(_) = login::credentials(&self.head.headers)? {
            let text = "Tokens are issued for Basic credentials only";
            return Err(Problem::new(StatusCode::FORBIDDEN, text));
        }
        let token = self.rest.tokens.issue(login).ok_or_else(|| {
            let text = "The operating system returned no random bytes for a token";
            Problem::mysql(1105, "HY000", text.to_owned())
        })?;
        let mut body = b"{\"token\":".to_vec();
        put_string(&mut body, &token);
        let rest = format!(
            ",\"token_type\":\"Bearer\",\"expires_in\":{}}}",
            TOKEN_LIFETIME.as_secs()
        );
        body.extend_from_slice(rest.as_bytes());
        Ok(json(StatusCode::CREATED, body))
    }

    fn revoke_token(&self) -> Result<Response, Problem> {
        match login::credentials(&self.head.headers)? {
            Credentials::Bearer(token) => {
                self.rest.tokens.revoke(&token);
                Ok(StatusCode::NO_CONTENT.into_response())
            }
            Credentials::Basic { .. } => Err(Problem::malformed(
                "The request has no bearer token to revoke",
            )),
        }
    }
}

/// Parses a body.
fn parse<T: DeserializeOwned>(body: &Bytes) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| {
        // The texts of the parser name members and positions, not values.
        Problem::malformed(format!(
            "The body is not what this operation needs: {error}"
        ))
    })
}
