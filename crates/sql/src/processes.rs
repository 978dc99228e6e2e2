//! The process list: present sessions and their statements.
//!
//! An entry is written by its session only, under a lock of its own that is
//! contended only while the list is read.

use crate::client::ClientInfo;
use parking_lot::{Mutex, RwLock};
use porpoise_access::{AccessData, AuthId};
use porpoise_base::cancel::{Cancel, Reason};
use porpoise_rows::progress::Progress;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// One session, as SHOW PROCESSLIST sees it.
pub struct Process {
    /// The connection's number.
    pub id: u64,
    /// The user.
    pub user: String,
    /// The host.
    pub host: String,
    /// The account that the session logged in as, and the version of access control at
    /// which it had that name.
    account: (AuthId, u64),
    database: Mutex<Option<String>>,
    statement: Mutex<Running>,
    /// Milliseconds after `born` at which the present state began.
    since: AtomicU64,
    born: Instant,
    cancel: Cancel,
    progress: Arc<Progress>,
}

/// Statement of a session; the text's buffer is reused.
#[derive(Default)]
struct Running {
    /// `Query`, `Execute`, ...; empty between statements.
    command: &'static str,
    /// Text shown as Info; empty is none.
    info: Vec<u8>,
}

/// Bytes of a statement that the list keeps.
pub(super) const KEPT: usize = 64 * 1024;

/// Bytes of buffer that an idle session keeps for it.
const IDLE: usize = 1024;

impl Process {
    /// An entry for a session that begins now; `named_at` is the version of access
    /// control at its login.
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
            account: (AuthId::parse(&client.account), named_at),
            database: Mutex::default(),
            statement: Mutex::default(),
            since: AtomicU64::new(0),
            born: now,
            cancel,
            progress,
        }
    }

    /// The account of the session, by the name that it has in `data`.
    pub fn account(&self, data: &AccessData) -> AuthId {
        let (id, named_at) = &self.account;
        data.name_since(id, *named_at)
    }

    fn mark(&self, now: Instant) {
        let since = now.saturating_duration_since(self.born).as_millis();
        let since = u64::try_from(since).unwrap_or(u64::MAX);
        self.since.store(since, Ordering::Relaxed);
    }

    /// A statement begins.
    pub fn begin(&self, command: &'static str, text: Option<&[u8]>, now: Instant) {
        let mut statement = self.statement.lock();
        statement.command = command;
        statement.info.clear();
        let text = text.unwrap_or_default();
        statement
            .info
            .extend_from_slice(text.get(..KEPT).unwrap_or(text));
        drop(statement);
        self.mark(now);
    }

    /// It has ended.
    pub fn end(&self, now: Instant) {
        let mut statement = self.statement.lock();
        statement.command = "";
        if statement.info.capacity() > IDLE {
            statement.info = Vec::new();
        }
        drop(statement);
        self.mark(now);
    }

    /// The last transaction of this session that took a lock.
    pub fn txn(&self) -> u64 {
        self.cancel.txn()
    }

    /// The default database is another one now.
    pub fn set_database(&self, database: Option<&str>) {
        *self.database.lock() = database.map(str::to_owned);
    }

    /// The default database.
    pub fn database(&self) -> Option<String> {
        self.database.lock().clone()
    }

    /// Stage of a statement that runs, in MySQL's words.
    pub fn stage(&self) -> String {
        let text = self.progress.text();
        text.unwrap_or_else(|| "executing".to_owned())
    }

    /// Command, seconds in it, and text.
    pub fn state(&self, now: Instant) -> (&'static str, u64, Option<String>) {
        let since = self.since.load(Ordering::Relaxed);
        let now = now.saturating_duration_since(self.born).as_millis();
        let seconds = u64::try_from(now).unwrap_or(u64::MAX).saturating_sub(since) / 1000;
        let statement = self.statement.lock();
        if statement.command.is_empty() {
            return ("Sleep", seconds, None);
        }
        let info = String::from_utf8_lossy(&statement.info).into_owned();
        let info = Some(info).filter(|i| !i.is_empty());
        (statement.command, seconds, info)
    }
}

/// All sessions.
#[derive(Default)]
pub struct Processes(RwLock<BTreeMap<u64, Arc<Process>>>);

impl Processes {
    /// Adds one.
    pub fn add(&self, process: Arc<Process>) {
        self.0.write().insert(process.id, process);
    }

    /// Removes one.
    pub fn remove(&self, process: &Arc<Process>) {
        let mut all = self.0.write();
        if all
            .get(&process.id)
            .is_some_and(|p| Arc::ptr_eq(p, process))
        {
            all.remove(&process.id);
        }
    }

    /// Number of sessions.
    pub fn count(&self) -> usize {
        self.0.read().len()
    }

    /// Those there are, by number.
    pub fn list(&self) -> Vec<Arc<Process>> {
        self.0.read().values().cloned().collect()
    }

    /// KILL; false when there is none of that number.
    pub fn kill(&self, id: u64, query: bool) -> bool {
        let Some(process) = self.0.read().get(&id).cloned() else {
            return false;
        };
        // A statement that has not begun cannot be ended.
        if !query {
            process.cancel.cancel(Reason::Connection);
        } else if !process.statement.lock().command.is_empty() {
            process.cancel.cancel(Reason::Query);
        }
        true
    }
}
