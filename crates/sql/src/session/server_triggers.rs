//! Triggers of rows that no SQL statement writes: those of memcached commands and of expiry.
//!
//! The bodies run in a session of the server's own, with the rights of their definers, inside of the
//! writer's transaction. The session stays with that transaction until its end, because its metadata
//! locks protect what the bodies have written; then it is kept for the next one.
//!
//! Invariants:
//! 1. A body waits for metadata locks at most [`LOCK_WAIT`]: the writer holds metadata locks of its
//!    own, which a definition statement may be waiting for.
//! 2. The triggers of a row end after [`TIME_LIMIT`] (error 3024).

use super::SqlSession;
use super::host::ProgramHost;
use crate::client::ClientInfo;
use crate::server::SqlServer;
use crate::vars::settings::IsolationLevel;
use crate::vars::{self, VarValue};
use parking_lot::Mutex;
use porpoise_base::cancel::Cancel;
use porpoise_base::memory::ConnectionMemory;
use porpoise_rows::metadata_lock::Activity;
use porpoise_rows::{Error, FireTriggers, Firing, Txn};
use porpoise_sql_exec::exec::RunPrograms;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_types::{Collation, DateTime};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Maximum wait of a body for metadata locks, in seconds.
const LOCK_WAIT: u64 = 1;

/// Maximum time that the triggers of a row may take: no KILL reaches them.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Maximum number of idle sessions.
const MAX_IDLE: usize = 16;

/// Runs triggers for writers without a session.
struct ServerTriggers {
    server: Weak<SqlServer>,
    idle: Arc<Mutex<Vec<SqlSession>>>,
}

/// A session lent to a transaction.
struct LentSession {
    session: Option<SqlSession>,
    idle: Arc<Mutex<Vec<SqlSession>>>,
}

impl Drop for LentSession {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else {
            return;
        };
        session.metadata_locks.end();
        session.metadata_locks.finish(Activity::HeldWrites);
        let mut idle = self.idle.lock();
        if idle.len() < MAX_IDLE {
            idle.push(session);
        }
    }
}

impl SqlServer {
    /// Runs the triggers of rows that no session writes. Called once, before memcached commands are
    /// accepted.
    pub fn run_triggers_of_commands(self: &Arc<Self>) {
        let runner = ServerTriggers {
            server: Arc::downgrade(self),
            idle: Arc::default(),
        };
        self.db.set_trigger_runner(Arc::new(runner));
    }
}

impl ServerTriggers {
    /// The session of a transaction; at its first trigger an idle one or a new one.
    fn session(&self, txn: &mut Txn) -> Result<Box<LentSession>> {
        let lease = txn.take_lease();
        if let Some(Ok(lent)) = lease.map(|lease| lease.downcast::<LentSession>()) {
            return Ok(lent);
        }
        let idle = self.idle.lock().pop();
        let session = match idle {
            Some(session) => session,
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
            connection_id: 0,
            user: String::new(),
            host: String::new(),
            account: String::new(),
            capabilities: 0,
            collation: Collation::UTF8MB4_0900_AI_CI.0,
            database: None,
        };
        let memory = Arc::new(ConnectionMemory::new(server.memory.clone()));
        let mut session = SqlSession::open(server, client, Cancel::new(), &memory)?;
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
    if error.rolled_back {
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
        let now = self.cx.server.db.clock().unix_micros();
        if let Some(now) = DateTime::from_unix_micros(now) {
            self.cx.env.now_utc = now;
        }
        self.cx.env.user_variables.get_mut().clear();
        self.cx.env.cancel = Cancel::new();
        let deadline = self.cx.server.db.clock().now() + TIME_LIMIT;
        let cancel = self.cx.env.cancel.clone();
        let _armed = self.cx.server.timer.arm(deadline, cancel);
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
        (done, restart)
    }
}
