//! The process list: current sessions and their statements.
//!
//! An entry is written only by its session, under its own mutex, which is contended only while the
//! list is read.

use crate::client::ClientInfo;
use crate::status::{Counter, SessionCounters};
use parking_lot::{Mutex, RwLock};
use porpoise_access::{AccessData, AuthId};
use porpoise_base::cancel::{Cancel, Reason};
use porpoise_rows::progress::Progress;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// An entry of the process list.
pub struct Process {
    /// Connection id.
    pub id: u64,
    /// The user.
    pub user: String,
    /// The host.
    pub host: String,
    /// The account that the session logged in as, by its name at version `named_at`.
    account: AuthId,
    /// Version of access control at the login.
    named_at: u64,
    database: Mutex<Option<String>>,
    statement: Mutex<Running>,
    /// Start of the current state, in milliseconds after `connected_at`.
    since: AtomicU64,
    connected_at: Instant,
    cancel: Cancel,
    progress: Arc<Progress>,
    /// The session's status variables.
    pub(crate) counters: Arc<SessionCounters>,
}

/// The statement of a session; the text's buffer is reused.
#[derive(Default)]
struct Running {
    /// `Query`, `Execute`, ...; empty between statements.
    command: &'static str,
    /// Text shown as Info; empty if there is none.
    info: Vec<u8>,
}

/// A session's state at one time.
pub struct ProcessState {
    /// `Query`, `Execute`, ...; `Sleep` between statements.
    pub command: &'static str,
    /// Seconds since the start or end of the last statement.
    pub seconds: u64,
    /// Text of the statement, as far as it is stored.
    pub info: Option<String>,
}

/// Maximum stored length of a statement, in bytes.
pub(super) const MAX_STATEMENT_LEN: usize = 64 * 1024;

/// Capacity of the text buffer that an idle session keeps.
const IDLE_CAPACITY: usize = 1024;

impl Process {
    /// Creates the entry of a session that begins now; `named_at` is the version of access control
    /// at its login.
    pub fn new(
        client: &ClientInfo,
        named_at: u64,
        now: Instant,
        cancel: Cancel,
        progress: Arc<Progress>,
    ) -> Process {
        Process {
            id: client.connection_id,
            user: client.user.clone(),
            host: client.host.clone(),
            account: AuthId::parse(&client.account),
            named_at,
            database: Mutex::default(),
            statement: Mutex::default(),
            since: AtomicU64::new(0),
            connected_at: now,
            cancel,
            progress,
            counters: Arc::default(),
        }
    }

    /// The session's account, by its name in `data`.
    pub fn account(&self, data: &AccessData) -> AuthId {
        data.name_since(&self.account, self.named_at)
    }

    fn set_since(&self, now: Instant) {
        let since = now.saturating_duration_since(self.connected_at).as_millis();
        let since = u64::try_from(since).unwrap_or(u64::MAX);
        self.since.store(since, Ordering::Relaxed);
    }

    /// Records the start of a statement.
    pub fn begin(&self, command: &'static str, text: Option<&[u8]>, now: Instant) {
        let mut statement = self.statement.lock();
        statement.command = command;
        statement.info.clear();
        let text = text.unwrap_or_default();
        statement
            .info
            .extend_from_slice(text.get(..MAX_STATEMENT_LEN).unwrap_or(text));
        drop(statement);
        self.set_since(now);
    }

    /// Replaces the text by that of a statement of a program.
    pub fn set_statement(&self, text: &[u8]) {
        let mut statement = self.statement.lock();
        statement.info.clear();
        statement
            .info
            .extend_from_slice(text.get(..MAX_STATEMENT_LEN).unwrap_or(text));
    }

    /// The first `limit` bytes of the statement's text.
    pub fn statement(&self, limit: usize) -> String {
        let statement = self.statement.lock();
        let text = statement.info.get(..limit).unwrap_or(&statement.info);
        String::from_utf8_lossy(text).into_owned()
    }

    /// Records the end of a statement.
    pub fn end(&self, now: Instant) {
        let mut statement = self.statement.lock();
        statement.command = "";
        if statement.info.capacity() > IDLE_CAPACITY {
            statement.info = Vec::new();
        }
        drop(statement);
        self.set_since(now);
    }

    /// The last transaction of this session that took a lock.
    pub fn txn(&self) -> u64 {
        self.cancel.txn()
    }

    /// Records a change of the default database.
    pub fn set_database(&self, database: Option<&str>) {
        *self.database.lock() = database.map(str::to_owned);
    }

    /// The default database.
    pub fn database(&self) -> Option<String> {
        self.database.lock().clone()
    }

    /// The stage of the running statement, in MySQL's words.
    pub fn stage(&self) -> String {
        let text = self.progress.text();
        text.unwrap_or_else(|| "executing".to_owned())
    }

    /// The state at `now`.
    pub fn state(&self, now: Instant) -> ProcessState {
        let since = self.since.load(Ordering::Relaxed);
        let now = now.saturating_duration_since(self.connected_at).as_millis();
        let seconds = u64::try_from(now).unwrap_or(u64::MAX).saturating_sub(since) / 1000;
        let statement = self.statement.lock();
        if statement.command.is_empty() {
            return ProcessState {
                command: "Sleep",
                seconds,
                info: None,
            };
        }
        let info = String::from_utf8_lossy(&statement.info).into_owned();
        ProcessState {
            command: statement.command,
            seconds,
            info: Some(info).filter(|i| !i.is_empty()),
        }
    }
}

/// The process list.
#[derive(Default)]
pub struct Processes(RwLock<Sessions>);

/// The open sessions, and totals of those that have ended.
#[derive(Default)]
struct Sessions {
    open: BTreeMap<u64, Arc<Process>>,
    /// Sums over ended sessions.
    ended: SessionCounters,
    /// Maximum number of simultaneous sessions since the start.
    max_open: usize,
}

impl Processes {
    /// Adds an entry.
    pub fn add(&self, process: Arc<Process>) {
        let mut all = self.0.write();
        if let Some(replaced) = all.open.insert(process.id, process) {
            replaced.counters.move_to(&all.ended);
        }
        all.max_open = all.max_open.max(all.open.len());
    }

    /// Removes an entry.
    pub fn remove(&self, process: &Arc<Process>) {
        let mut all = self.0.write();
        process.counters.move_to(&all.ended);
        if all
            .open
            .get(&process.id)
            .is_some_and(|p| Arc::ptr_eq(p, process))
        {
            all.open.remove(&process.id);
        }
    }

    /// FLUSH STATUS: clears the counters of a session, but not the sums that contain them.
    pub(crate) fn flush_counters(&self, process: &Process) {
        let all = self.0.write();
        process.counters.move_to(&all.ended);
    }

    /// The sum of a counter over all sessions, ended ones included.
    pub(crate) fn sum(&self, counter: Counter) -> u64 {
        let all = self.0.read();
        let open = all.open.values().map(|p| p.counters.get(counter));
        open.fold(all.ended.get(counter), u64::wrapping_add)
    }

    /// Maximum number of simultaneous sessions since the start.
    pub(crate) fn max_count(&self) -> usize {
        self.0.read().max_open
    }

    /// Number of sessions.
    pub fn count(&self) -> usize {
        self.0.read().open.len()
    }

    /// All entries, by connection id.
    pub fn list(&self) -> Vec<Arc<Process>> {
        self.0.read().open.values().cloned().collect()
    }

    /// Kills a session, or only its statement. Returns false if there is no session with this id.
    pub fn kill(&self, id: u64, query_only: bool) -> bool {
        let Some(process) = self.0.read().open.get(&id).cloned() else {
            return false;
        };
        // KILL QUERY has no effect between statements.
        if !query_only {
            process.cancel.cancel(Reason::Connection);
        } else if !process.statement.lock().command.is_empty() {
            process.cancel.cancel(Reason::Query);
        }
        true
    }
}
