//! Execution of requests on threads that may block, with time limits and a limit of their number.
//!
//! ```text
//!   rest thread (async)                                threads for requests
//!   login known --> permit, entry in `Running`, timer --> work: rows or SQL --> answer
//!   client gone, time over --> cancel  - - - - - - - - - ->  (error 1317, 3024)
//! ```
//!
//! Invariants:
//! 1. At most [`REQUEST_THREADS`] requests, [`CHANGE_STREAMS`] change streams and [`LOGIN_THREADS`] password
//!    checks run at a time.
//! 2. A request whose client is gone or whose time is over is cancelled: it holds its thread no longer
//!    than its next check for cancellation.
//! 3. After [`Rest::close`] no request runs.

use super::Rest;
use super::login::Login;
use super::problem::Problem;
use crate::http::ConnectionInfo;
use crate::net::client_host;
use axum::http::StatusCode;
use porpoise_access::Rights;
use porpoise_base::cancel::{Cancel, Reason};
use porpoise_base::memory::{ConnectionMemory, MemoryClass, MemoryTracker};
use porpoise_kv::CommitPosition;
use porpoise_native::{LocalSession, SessionInfo};
use porpoise_sql::{ClientInfo, Encryption, ResultColumn, ResultSink, SqlError, SqlSession};
use porpoise_types::{Collation, ValueRef};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Number of requests that run at a time.
pub(super) const REQUEST_THREADS: usize = 16;

/// Number of passwords that are verified at a time.
pub(super) const LOGIN_THREADS: usize = 2;

/// Longest wait for a thread.
const QUEUE_TIME: Duration = Duration::from_secs(20);

/// Time limit of requests that name none.
const DEFAULT_TIME: Duration = Duration::from_secs(30);

/// Number of change streams that are open at a time.
pub(super) const CHANGE_STREAMS: usize = 64;

/// Maximum duration of a change stream: less than the lifetime of a connection.
pub(super) const STREAM_TIME: Duration = Duration::from_secs(50 * 60);

/// Largest time limit.
const MAX_TIME: Duration = Duration::from_secs(600);

/// Bytes of memory charged for each byte of a request's body: parsed JSON and converted values.
const MEMORY_FACTOR: u64 = 8;

/// The collation of SQL sessions.
const COLLATION: Collation = Collation::UTF8MB4_0900_AI_CI;

/// A request that is executed.
pub(super) struct Execution {
    pub(super) rest: Arc<Rest>,
    login: Arc<Login>,
    info: ConnectionInfo,
    id: u64,
    pub(super) cancel: Cancel,
    pub(super) memory: Arc<ConnectionMemory>,
    /// Charge for the body.
    _body: MemoryTracker,
    /// Time limit in milliseconds.
    pub(super) time_limit: u32,
}

impl Execution {
    fn host(&self) -> String {
        client_host(Some(self.info.peer))
    }

    /// The current rights of the account.
    ///
    /// # Errors
    /// The account was dropped or locked, or has another password than at the login.
    pub(super) fn rights(&self) -> Result<Rights, Problem> {
        self.rest.check_login(&self.login, &self.info)?;
        let data = self.rest.sql.access().data();
        let account = data.name_since(&self.login.account, self.login.version);
        Ok(data.rights(&format!("{}@{}", account.user, account.host)))
    }

    /// `'user'@'host'`, for messages.
    pub(super) fn shown_account(&self) -> String {
        format!("'{}'@'{}'", self.login.user, self.host())
    }

    /// Opens a session for rows by key.
    pub(super) fn rows(&self) -> LocalSession {
        let info = SessionInfo {
            connection: self.id,
            user: &self.login.user,
            host: &self.host(),
            account: &self.login.account,
            named_at: self.login.version,
            cancel: &self.cancel,
        };
        self.rest.native.open_local(&info, &self.memory)
    }

    /// Opens an SQL session, in UTC and in autocommit mode.
    ///
    /// # Errors
    /// A limit of the account, or an unknown database.
    pub(super) fn sql(&self, database: Option<&str>) -> Result<SqlSession, Problem> {
        let data = self.rest.sql.access().data();
        let account = data.name_since(&self.login.account, self.login.version);
        let client = ClientInfo {
            connection_id: self.id,
            user: self.login.user.clone(),
            host: self.host(),
            account: format!("{}@{}", account.user, account.host),
            capabilities: 0,
            collation: COLLATION.0,
            database: None,
        };
        let sql = &self.rest.sql;
        let mut session = sql.connect_with(client, self.cancel.clone(), &self.memory)?;
        if let Some(tls) = &self.info.tls {
            session.set_encryption(Encryption {
                cipher: tls.cipher.clone(),
                version: tls.version.to_owned(),
            });
        }
        let set_up = b"SET SESSION time_zone = '+00:00', autocommit = 1";
        session.query(set_up, false, &mut NoRows)?;
        if let Some(database) = database {
            session.use_db(database)?;
        }
        Ok(session)
    }

    /// Waits until a commit is durable: an answer must not reveal one that is not.
    ///
    /// # Errors
    /// 1180: the log has failed.
    pub(super) fn wait_durable(&self, position: CommitPosition) -> Result<(), Problem> {
        let engine = self.rest.sql.db().engine();
        if position > engine.durable_position() && engine.wait_durable(position).is_err() {
            let text = "commit outcome unknown: the log could not be synced; the changes may or may \
                        not survive a restart";
            return Err(Problem::mysql(1180, "HY000", text.to_owned()));
        }
        Ok(())
    }
}

/// The sink of statements without rows.
struct NoRows;

impl ResultSink for NoRows {
    fn columns(&mut self, _: &[ResultColumn]) -> Result<(), SqlError> {
        Ok(())
    }

    fn row(&mut self, _: &[ValueRef<'_>]) -> Result<(), SqlError> {
        Ok(())
    }
}

/// Cancels a request when it is dropped, and at the end of its time.
pub(super) struct Cancellation {
    cancel: Cancel,
    timer: JoinHandle<()>,
}

impl Cancellation {
    fn new(cancel: &Cancel, limit: Duration) -> Cancellation {
        let at_limit = cancel.clone();
        Cancellation {
            cancel: cancel.clone(),
            timer: tokio::spawn(async move {
                sleep(limit).await;
                at_limit.cancel(Reason::Timeout);
            }),
        }
    }
}

impl Drop for Cancellation {
    fn drop(&mut self) {
        self.timer.abort();
        // Without effect on a request that has ended.
        self.cancel.cancel(Reason::Connection);
    }
}

/// Lists a request among those that run, until it is dropped.
struct Listed {
    rest: Arc<Rest>,
    id: u64,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.rest.running.lock().remove(&self.id);
        self.rest.ended.notify_all();
    }
}

fn busy() -> Problem {
    let text = "The REST interface is busy, or the server is shutting down";
    Problem::mysql(1040, "08004", text.to_owned())
}

/// Runs `work` on another thread, once one of `permits` is free.
pub(super) async fn on_thread<T: Send + 'static>(
    permits: &Arc<Semaphore>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    let permit = timeout(QUEUE_TIME, permits.clone().acquire_owned()).await;
    let Ok(Ok(permit)) = permit else {
        return Err(busy());
    };
    let task = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        work()
    });
    task.await.map_err(|_| {
        let text = "internal error; see the server's log";
        Problem::mysql(1105, "HY000", text.to_owned())
    })
}

/// A request to be executed.
pub(super) struct Order {
    pub(super) rest: Arc<Rest>,
    pub(super) login: Arc<Login>,
    pub(super) info: ConnectionInfo,
    /// Length of the body.
    pub(super) body: usize,
    /// Time limit that the request names, in milliseconds.
    pub(super) time_limit: Option<u32>,
}

impl Order {
    /// Executes the request by `work`. Returns its result, and the guard that cancels what it has left
    /// running.
    ///
    /// # Errors
    /// No thread, no memory; the error of `work`.
    pub(super) async fn run<T: Send + 'static>(
        self,
        work: impl FnOnce(Execution) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let (cancellation, task) = self.start(work)?;
        let result = task.await;
        drop(cancellation);
        result
    }

    /// Starts the request: the future is its result.
    ///
    /// # Errors
    /// No memory.
    pub(super) fn start<T: Send + 'static>(
        self,
        work: impl FnOnce(Execution) -> Result<T, Problem> + Send + 'static,
    ) -> Result<(Cancellation, impl Future<Output = Result<T, Problem>>), Problem> {
        let limit = self.time_limit.map_or(DEFAULT_TIME, |limit| {
            Duration::from_millis(u64::from(limit)).min(MAX_TIME)
        });
        let permits = self.rest.requests.clone();
        self.start_on(permits, limit, work)
    }

    /// Starts a change stream, unless too many are open. The future returns its result.
    ///
    /// # Errors
    /// No memory; too many streams.
    pub(super) fn start_stream<T: Send + 'static>(
        self,
        work: impl FnOnce(Execution) -> Result<T, Problem> + Send + 'static,
    ) -> Result<(Cancellation, impl Future<Output = Result<T, Problem>>), Problem> {
        let permits = self.rest.streams.clone();
        if permits.available_permits() == 0 {
            let text = format!("Too many connections: {CHANGE_STREAMS} change streams are open");
            return Err(Problem::mysql(1040, "08004", text));
        }
        // The stream ends by itself before this deadline.
        self.start_on(permits, STREAM_TIME * 2, work)
    }

    fn start_on<T: Send + 'static>(
        self,
        permits: Arc<Semaphore>,
        limit: Duration,
        work: impl FnOnce(Execution) -> Result<T, Problem> + Send + 'static,
    ) -> Result<(Cancellation, impl Future<Output = Result<T, Problem>>), Problem> {
        let memory = Arc::new(ConnectionMemory::new(self.rest.memory.clone()));
        let body = MemoryTracker::new(memory.clone(), MemoryClass::Statement);
        let bytes = (self.body as u64).saturating_mul(MEMORY_FACTOR);
        body.resize(bytes).map_err(porpoise_sql::memory::refused)?;
        let (cancel, id) = (Cancel::new(), self.rest.next_id());
        let execution = Execution {
            rest: self.rest.clone(),
            login: self.login,
            info: self.info,
            id,
            cancel: cancel.clone(),
            memory,
            _body: body,
            time_limit: u32::try_from(limit.as_millis()).unwrap_or(u32::MAX),
        };
        let rest = self.rest;
        let cancellation = Cancellation::new(&cancel, limit);
        let task = async move {
            rest.running.lock().insert(id, cancel);
            let listed = Listed {
                rest: rest.clone(),
                id,
            };
            let done = on_thread(&permits, move || {
                let _listed = listed;
                work(execution)
            });
            done.await?
        };
        Ok((cancellation, task))
    }
}

impl Rest {
    /// Cancels all requests, waits for their end, and refuses further ones.
    pub(crate) fn close(&self) {
        self.requests.close();
        self.streams.close();
        self.logins.close();
        let mut running = self.running.lock();
        for cancel in running.values() {
            cancel.cancel(Reason::Shutdown);
        }
        while !running.is_empty() {
            if self.ended.wait_for(&mut running, super::STOP).timed_out() {
                tracing::warn!("REST still runs requests at the shutdown");
                break;
            }
        }
    }
}

/// The answer to a body that is too large.
pub(super) fn too_large() -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!("The body exceeds {} bytes", super::MAX_BODY),
    )
}
