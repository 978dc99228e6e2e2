//! Statements of a login: set-up of its SQL session, execution on a thread for pages, time limits.
//!
//! Invariant: a request that is no longer awaited (time limit, client gone) ends its own statement,
//! never one of a later request of the same login.

use super::Console;
use super::failure::Failure;
use super::json::JsonRows;
use super::sessions::LoginSession;
use axum::http::StatusCode;
use porpoise_base::cancel::Reason;
use porpoise_sql::{Param, ResultSink, SqlError, SqlSession};
use porpoise_types::{Collation, ColumnType, ValueRef};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// The collation of sessions: the default of clients that name none.
pub(super) const COLLATION: u16 = Collation::UTF8MB4_0900_AI_CI.0;

/// Time limit for each wait of a request: for its turn, for a thread, and for the result.
const TIME: Duration = Duration::from_secs(20);

/// Statements that make a session independent of global values, and read-only.
const SET_UP: &[&str] = &[
    "SET SESSION sql_mode = '', sql_select_limit = 18446744073709551615, time_zone = '+00:00', \
     autocommit = 1, max_execution_time = 10000, lock_wait_timeout = 5, group_concat_max_len = 65536",
    "SET SESSION TRANSACTION READ ONLY",
];

/// The default database of sessions: one that every account may use.
pub(super) const DATABASE: &str = "information_schema";

/// Prepares a new session.
pub(super) fn set_up(sql: &mut SqlSession) -> Result<(), SqlError> {
    for statement in SET_UP {
        sql.query(statement.as_bytes(), false, &mut JsonRows::default())?;
    }
    sql.use_db(DATABASE)
}

/// A text as a parameter.
pub(super) fn text_param(text: &str) -> Param<'_> {
    Param {
        value: ValueRef::Bytes(text.as_bytes()),
        ty: ColumnType::varchar(0, Collation(COLLATION)),
    }
}

/// Runs a statement with parameters. The statement's text is fixed, or an EXPLAIN.
pub(super) fn with_params<'p>(
    sql: &mut SqlSession,
    statement: &str,
    params: impl FnOnce(usize) -> Vec<Param<'p>>,
    sink: &mut dyn ResultSink,
) -> Result<(), SqlError> {
    let prepared = sql.prepare(statement.as_bytes())?;
    let result = sql.execute(prepared.id, &params(prepared.params), sink);
    sql.close_statement(prepared.id);
    result.map(|_| ())
}

/// Counts a task while it runs, also if it panics.
struct Running(Arc<Console>);

impl Running {
    fn begin(console: &Arc<Console>) -> Running {
        *console.running.lock() += 1;
        Running(console.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        *self.0.running.lock() -= 1;
        self.0.ended.notify_all();
    }
}

/// Ends the statement of a request if the request is dropped before its result.
struct EndOnDrop {
    session: Arc<LoginSession>,
    request: u64,
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        let current = self.session.current.lock();
        if *current == Some(self.request) {
            self.session.cancel.cancel(Reason::Query);
        }
    }
}

static NEXT_REQUEST: AtomicU64 = AtomicU64::new(1);

fn busy() -> Failure {
    let text = "The console is busy, or the server is shutting down";
    Failure::new(StatusCode::SERVICE_UNAVAILABLE, 1040, text)
}

fn late() -> Failure {
    let text = "The statement took too long and was ended";
    Failure::new(StatusCode::SERVICE_UNAVAILABLE, 3024, text)
}

/// Runs `work` on a thread for pages, once one of `permits` is free.
pub(super) async fn on_thread<T: Send + 'static>(
    console: &Arc<Console>,
    permits: Arc<Semaphore>,
    work: impl FnOnce(&Arc<Console>) -> T + Send + 'static,
) -> Result<T, Failure> {
    let own = console.clone();
    let permit = timeout(TIME, permits.acquire_owned()).await;
    let Ok(Ok(permit)) = permit else {
        return Err(busy());
    };
    let running = Running::begin(console);
    let task = tokio::task::spawn_blocking(move || {
        let _kept = (permit, running);
        work(&own)
    });
    match timeout(TIME, task).await {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(_)) => {
            let text = "internal error; see the server's log";
            Err(Failure::new(StatusCode::INTERNAL_SERVER_ERROR, 1105, text))
        }
        Err(_) => Err(late()),
    }
}

/// Runs `work` with the SQL session of a login.
pub(super) async fn in_session<T: Send + 'static>(
    console: &Arc<Console>,
    session: &Arc<LoginSession>,
    work: impl FnOnce(&mut SqlSession) -> Result<T, SqlError> + Send + 'static,
) -> Result<T, Failure> {
    let turn = timeout(TIME, session.turn.clone().acquire_owned()).await;
    let Ok(Ok(turn)) = turn else {
        return Err(busy());
    };
    let request = NEXT_REQUEST.fetch_add(1, Ordering::Relaxed);
    let _ending = EndOnDrop {
        session: session.clone(),
        request,
    };
    let own = session.clone();
    let permits = console.statements.clone();
    let result = on_thread(console, permits, move |_| {
        let _turn = turn;
        let mut sql = own.sql.lock();
        *own.current.lock() = Some(request);
        let result = work(&mut sql);
        *own.current.lock() = None;
        result
    });
    result.await?.map_err(|error| Failure::of_sql(&error))
}
