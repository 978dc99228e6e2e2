//! The JSON interface below `/api/v1/`.
//!
//! | request | answer |
//! |---|---|
//! | `POST login` with user and password | the login, and its cookie |
//! | `GET session` | the login: account (null without one), CSRF token, version |
//! | `GET history` | samples of throughput and latency |
//! | `GET` a part of [`super::parts`] | the rows of its statement |
//! | `POST explain` with digest and schema | the plan of a recorded statement |
//! | `POST kill` with id and `query` | KILL of a connection, or of its statement |
//! | `POST logout` | ends the login |
//!
//! Errors are `{"error":{"code":...,"message":...}}`, with MySQL's number and text.

use super::explain::{ExplainRequest, explain};
use super::failure::{Failure, json};
use super::json::{JsonRows, put_string};
use super::login::Credentials;
use super::run::{in_session, on_thread};
use super::sessions::LoginSession;
use super::{Console, guard, parts};
use crate::http::{Client, ConnectionInfo};
use axum::body::{Body, Bytes, to_bytes};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header, request};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// Largest body of a request, in bytes.
const MAX_BODY: usize = 8 * 1024;

/// The answer for a part whose table this server does not have.
const MISSING: &[u8] = b"{\"columns\":[],\"rows\":[],\"truncated\":false,\"missing\":true}";

/// Header with the CSRF token.
const CSRF_HEADER: &str = "x-csrf-token";

/// The body of a request to kill a connection.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KillRequest {
    /// Connection id.
    id: u64,
    /// Whether only the running statement is ended.
    query: bool,
}

/// A request below `/api/v1/`.
struct Call {
    console: Arc<Console>,
    head: request::Parts,
    info: ConnectionInfo,
}

/// Answers a request; `name` is the path below `/api/v1/`.
pub(super) async fn answer(
    console: Arc<Console>,
    name: String,
    head: request::Parts,
    body: Body,
    client: Client,
    info: ConnectionInfo,
) -> Response {
    let call = Call {
        console,
        head,
        info,
    };
    let body = to_bytes(body, MAX_BODY).await;
    client.begin_answer();
    let Ok(body) = body else {
        let text = "The request is too large";
        return Failure::request(StatusCode::PAYLOAD_TOO_LARGE, text).into_response();
    };
    let answered = match call.head.method {
        Method::GET | Method::HEAD => call.read(&name).await,
        Method::POST => call.change(&name, body).await,
        _ => Err(Failure::request(
            StatusCode::METHOD_NOT_ALLOWED,
            "Only GET and POST are supported",
        )),
    };
    answered.unwrap_or_else(IntoResponse::into_response)
}

fn unknown() -> Failure {
    Failure::request(StatusCode::NOT_FOUND, "There is no such part")
}

fn parse<T: DeserializeOwned>(body: &Bytes) -> Result<T, Failure> {
    let text = "The request body is not the JSON object that this request needs";
    serde_json::from_slice(body).map_err(|_| Failure::request(StatusCode::BAD_REQUEST, text))
}

impl Call {
    fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// Name of the cookie: browsers send the cookies of a host to all its ports.
    fn cookie_name(&self) -> String {
        format!("porpoise_console_{}", self.info.local.port())
    }

    fn token(&self) -> Option<String> {
        guard::cookie(self.headers(), &self.cookie_name()).map(str::to_owned)
    }

    /// The login of this request.
    fn session(&self) -> Result<Arc<LoginSession>, Failure> {
        let session = self.token().and_then(|t| self.console.sessions.find(&t));
        session.ok_or_else(|| Failure::request(StatusCode::UNAUTHORIZED, "Log in first"))
    }

    async fn read(&self, name: &str) -> Result<Response, Failure> {
        let session = match self.session() {
            Ok(session) => session,
            Err(_) if name == "session" => return Ok(json(b"{\"account\":null}".to_vec())),
            Err(refused) => return Err(refused),
        };
        match name {
            "session" => Ok(json(describe(&session))),
            "history" => Ok(json(self.console.history.to_json())),
            _ => {
                let part = parts::find(name).ok_or_else(unknown)?;
                let rows = in_session(&self.console, &session, |sql| {
                    let mut rows = JsonRows::default();
                    let outcome = sql.query(part.statement.as_bytes(), false, &mut rows)?;
                    Ok((rows, outcome.position))
                });
                let (rows, position) = match rows.await {
                    Err(failure) if failure.is_missing_table() => {
                        return Ok(json(MISSING.to_vec()));
                    }
                    result => result?,
                };
                // Rows of a commit that is not durable yet are not shown.
                let engine = self.console.engine.clone();
                let permits = self.console.statements.clone();
                if position > engine.durable_position() {
                    let waited = on_thread(&self.console, permits, move |_| {
                        engine.wait_durable(position).is_ok()
                    });
                    if !waited.await? {
                        let text = "The log has failed: commits are not durable";
                        let status = StatusCode::SERVICE_UNAVAILABLE;
                        return Err(Failure::new(status, 1180, text));
                    }
                }
                Ok(json(rows.finish()))
            }
        }
    }

    async fn change(&self, name: &str, body: Bytes) -> Result<Response, Failure> {
        if !guard::is_own_origin(self.headers()) {
            let text = "The request comes from another site";
            return Err(Failure::request(StatusCode::FORBIDDEN, text));
        }
        if !guard::is_json(self.headers()) {
            let text = "The content type must be application/json";
            return Err(Failure::request(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
        }
        if name == "login" {
            return self.log_in(parse(&body)?).await;
        }
        let session = self.session()?;
        let sent = self.headers().get(CSRF_HEADER);
        let sent = sent
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        if !guard::is_same_secret(sent, &session.csrf) {
            let text = "The request lacks the token of this login";
            return Err(Failure::request(StatusCode::FORBIDDEN, text));
        }
        match name {
            "logout" => {
                if let Some(token) = self.token() {
                    self.console.sessions.remove(&token);
                }
                let mut response = json(b"{}".to_vec());
                self.set_cookie(&mut response, "", 0);
                Ok(response)
            }
            "explain" => {
                let request: ExplainRequest = parse(&body)?;
                let plan = in_session(&self.console, &session, move |sql| explain(sql, &request));
                Ok(json(plan.await?))
            }
            "kill" => {
                let KillRequest { id, query } = parse(&body)?;
                let kind = if query { "QUERY" } else { "CONNECTION" };
                let statement = format!("KILL {kind} {id}");
                let killed = in_session(&self.console, &session, move |sql| {
                    sql.query(statement.as_bytes(), false, &mut JsonRows::default())
                });
                killed.await?;
                Ok(json(b"{}".to_vec()))
            }
            _ => Err(unknown()),
        }
    }

    async fn log_in(&self, sent: Credentials) -> Result<Response, Failure> {
        if !self.console.may_send_password(&self.info) {
            let text = "Passwords are accepted from this machine or over HTTPS only: use https:// at \
                        the same address, or --insecure-console";
            return Err(Failure::request(StatusCode::FORBIDDEN, text));
        }
        let (permits, info) = (self.console.logins.clone(), self.info.clone());
        let attempt = on_thread(&self.console, permits, move |console| {
            console.log_in(&sent, &info)
        });
        let attempt = attempt.await?;
        tokio::time::sleep(attempt.delay).await;
        let (token, session) = attempt.result?;
        // The browser's former login ends.
        if let Some(before) = self.token() {
            self.console.sessions.remove(&before);
        }
        let mut response = json(describe(&session));
        self.set_cookie(&mut response, &token, super::sessions::LIFETIME.as_secs());
        Ok(response)
    }

    fn set_cookie(&self, response: &mut Response, token: &str, seconds: u64) {
        let name = self.cookie_name();
        let secure = if self.info.tls.is_some() {
            "; Secure"
        } else {
            ""
        };
        let cookie =
            format!("{name}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
        if let Ok(value) = HeaderValue::from_str(&cookie) {
            response.headers_mut().insert(header::SET_COOKIE, value);
        }
    }
}

/// The login as JSON.
fn describe(session: &LoginSession) -> Vec<u8> {
    let mut out = b"{\"account\":".to_vec();
    put_string(&mut out, &session.account);
    out.extend_from_slice(b",\"csrf\":");
    put_string(&mut out, &session.csrf);
    out.extend_from_slice(b",\"version\":");
    put_string(&mut out, env!("CARGO_PKG_VERSION"));
    out.push(b'}');
    out
}
