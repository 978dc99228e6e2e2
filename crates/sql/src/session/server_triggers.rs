//! Triggers of rows that no SQL statement writes: those of memcached commands and of expiry.
//!
//! The bodies run in a session of the server's own, with the rights of their definers, inside of the
//! writer's transaction. The session stays with that transaction until its end, because its metadata
//! locks protect what the bodies have written; then it is kept for the next one. While a transaction
//! has it, it is in the process list, where KILL finds it.
//!
//! Invariants:
//! 1. A body waits for metadata locks at most [`LOCK_WAIT`]: the writer holds metadata locks of its
//!    own, which a definition statement may be waiting for.
//! 2. The triggers of a row end after [`TIME_LIMIT`] (error 3024).
//! 3. Idle sessions, which refer to the server, belong to [`TriggerSessions`] and not to the
//!    server, which could not be freed otherwise.

use super::SqlSession;
use super::host::ProgramHost;
use crate::client::ClientInfo;
use crate::server::SqlServer;
use crate::vars::settings::IsolationLevel;
use crate::vars::{self, VarValue};
use parking_lot::Mutex;
use porpoise_base::cancel::{Cancel, Reason};
use porpoise_base::interrupt::Scope;
use porpoise_base::memory::ConnectionMemory;
use porpoise_rows::metadata_lock::Activity;
use porpoise_rows::{Error, FireTriggers, Firing, Txn};
use porpoise_sql_exec::exec::RunPrograms;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_types::{Collation, DateTime};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Maximum wait of a body for metadata locks, in seconds.
const LOCK_WAIT: u64 = 1;

/// Maximum time that the triggers of a row may take: the client of a command expects its reply soon.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Maximum number of idle sessions.
const MAX_IDLE: usize = 16;

/// Connection id of the first of these sessions; those of clients and of events are smaller.
const FIRST_ID: u64 = 1 << 41;

/// User of these sessions in the process list.
const USER: &str = "system user";

type IdleSessions = Mutex<Vec<SqlSession>>;

/// The idle sessions of [`SqlServer::run_triggers_of_commands`]. When it is dropped, they are closed,
/// and each later transaction opens one of its own.
#[must_use = "sessions are kept as long as it lives"]
pub struct TriggerSessions {
    _idle: Arc<IdleSessions>,
}

/// Runs triggers for writers without a session.
struct ServerTriggers {
    server: Weak<SqlServer>,
    idle: Weak<IdleSessions>,
    next_id: AtomicU64,
}

/// A session lent to a transaction.
struct LentSession {
    session: Option<SqlSession>,
    idle: Weak<IdleSessions>,
}

impl Drop for LentSession {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else {
            return;
        };
        session.metadata_locks.end();
        session.metadata_locks.finish(Activity::HeldWrites);
        session.cx.server.processes.remove(&session.process);
        let Some(idle) = self.idle.upgrade() else {
            return;
        };
        // A killed session is not used again.
        let is_killed = session
            .cx
            .env
            .cancel
            .reason()
            .is_some_and(Reason::ends_session);
        let mut idle = idle.lock();
        if !is_killed && idle.len() < MAX_IDLE {
            idle.push(session);
        }
    }
}

impl SqlServer {
    /// Runs the triggers of rows that no session writes. Called once, before memcached commands are
    /// accepted.
    pub fn run_triggers_of_commands(self: &Arc<Self>) -> TriggerSessions {
        let idle = Arc::default();
        let runner = ServerTriggers {
            server: Arc::downgrade(self),
            idle: Arc::downgrade(&idle),
            next_id: AtomicU64::new(FIRST_ID),
        };
        self.db.set_trigger_runner(Arc::new(runner));
        TriggerSessions { _idle: idle }
    }
}

impl ServerTriggers {
    /// The session of a transaction; at its first trigger an idle one or a new one.
    fn session(&self, txn: &mut Txn) -> Result<Box<LentSession>> {
        let lease = txn.take_lease();
        if let Some(Ok(lent)) = lease.map(|lease| lease.downcast::<LentSession>()) {
            return Ok(lent);
        }
        let idle = self.idle.upgrade().and_then(|idle| idle.lock().pop());
        let session = match idle {
            Some(session) => {
                let processes = &session.cx.server.processes;
                processes.add(session.process.clone());
                session
            }
            None => self.open()?,
        };
        // The writer has waited for locks of the whole server.
        session.metadata_locks.inherit_writes();
        Ok(Box::new(LentSession {
            session: Some(session),
            idle: self.idle.clone(),
        }))
    }

    fn open(&self) -> Result<SqlSession> {
        let server = self.server.upgrade();
        let server = server.ok_or_else(|| SqlError::internal("the server is stopping"))?;
        let client = ClientInfo {
            connection_id: self.next_id.fetch_add(1, Ordering::Relaxed),
            user: USER.to_owned(),
            host: String::new(),
            account: String::new(),
            capabilities: 0,
            collation: Collation::UTF8MB4_0900_AI_CI.0,
            database: None,
        };
        let memory = Arc::new(ConnectionMemory::new(server.memory.clone()));
        let mut session = SqlSession::open(server, client, Cancel::new(), &memory)?;
        session.programs.of_commands = true;
        let (at, _) = vars::entry("lock_wait_timeout")?;
        session.cx.values.set(at, VarValue::Int(LOCK_WAIT));
        session.apply_settings()?;
        Ok(session)
    }
}

impl FireTriggers for ServerTriggers {
    fn fire(&self, txn: &mut Txn, firing: &mut Firing<'_>) -> std::result::Result<(), Error> {
        let mut lent = self.session(txn).map_err(|e| row_error(&e))?;
        let Some(session) = lent.session.as_mut() else {
            return Err(row_error(&SqlError::internal("no session for a trigger")));
        };
        let (done, restart) = session.fire_within(txn, firing);
        txn.set_lease(lent);
        match done {
            Err(_) if restart => Err(Error::SnapshotConflict),
            Err(error) => Err(row_error(&error)),
            Ok(()) => Ok(()),
        }
    }
}

/// The error of a body as a rows error.
fn row_error(error: &SqlError) -> Error {
    // A killed session has rolled nothing back, and the command is not repeated.
    if error.rolled_back && !error.fatal {
        return Error::SnapshotConflict;
    }
    Error::Trigger {
        code: error.code,
        sqlstate: String::from_utf8_lossy(&error.sqlstate).into_owned(),
        message: error.message.clone(),
    }
}

impl SqlSession {
    /// Runs the triggers of a row in a transaction of another writer. Returns true beside an error
    /// if the writer must run again at a newer snapshot.
    fn fire_within(&mut self, txn: &mut Txn, firing: &mut Firing<'_>) -> (Result<()>, bool) {
        let clock = self.cx.server.db.clock();
        let (now, time) = (clock.now(), clock.unix_micros());
        if let Some(time) = DateTime::from_unix_micros(time) {
            self.cx.env.now_utc = time;
        }
        self.cx.env.user_variables.get_mut().clear();
        let cancel = self.cx.env.cancel.clone();
        cancel.clear_query();
        let _scope = Scope::enter(&cancel);
        let _armed = self.cx.server.timer.arm(now + TIME_LIMIT, cancel);
        let text = format!("TRIGGER {} {}", firing.time.name(), firing.event.name());
        self.process.begin("Query", Some(text.as_bytes()), now);
        let cx = self.fork_context();
        let (done, restart) = match ProgramHost::of_writer(self, IsolationLevel::RepeatableRead) {
            Ok(host) => {
                let done = host.fire(firing, txn, &cx.env);
                (done, host.is_restart_wanted())
            }
            Err(error) => (Err(error), false),
        };
        self.join_context(cx);
        self.cx.env.memory.end_statement();
        self.process.end(self.cx.server.db.clock().now());
        (done, restart)
    }
}
