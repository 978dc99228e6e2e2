//! The process list: who is connected, and what each session is doing.
//!
//! An entry is written by its session only; the text of a statement is kept
//! by an atomic swap, so that running one takes no lock that others share.

use arc_swap::ArcSwapOption;
use parking_lot::{Mutex, RwLock};
use porpoise_base::cancel::{Cancel, Reason};
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
    database: Mutex<Option<String>>,
    statement: ArcSwapOption<Running>,
    /// Milliseconds after `born` at which the present state began.
    since: AtomicU64,
    born: Instant,
    cancel: Cancel,
}

/// A statement that runs.
struct Running {
    /// `Query`, `Execute`, ...
    command: &'static str,
    /// What is shown as Info.
    info: Option<String>,
}

/// Bytes of a statement that the list keeps.
const KEPT: usize = 64 * 1024;

impl Process {
    /// An entry for a session that begins now.
    pub fn new(
        id: u64,
        user: &str,
        host: &str,
        database: Option<String>,
        now: Instant,
        cancel: Cancel,
    ) -> Process {
        Process {
            id,
            user: user.to_owned(),
            host: host.to_owned(),
            database: Mutex::new(database),
            statement: ArcSwapOption::empty(),
            since: AtomicU64::new(0),
            born: now,
            cancel,
        }
    }

    fn mark(&self, now: Instant) {
        let since = now.saturating_duration_since(self.born).as_millis();
        let since = u64::try_from(since).unwrap_or(u64::MAX);
        self.since.store(since, Ordering::Relaxed);
    }

    /// A statement begins.
    pub fn begin(&self, command: &'static str, text: Option<&[u8]>, now: Instant) {
        let info = text.map(|t| {
            let kept = t.get(..KEPT).unwrap_or(t);
            String::from_utf8_lossy(kept).into_owned()
        });
        self.statement
            .store(Some(Arc::new(Running { command, info })));
        self.mark(now);
    }

    /// It has ended.
    pub fn end(&self, now: Instant) {
        self.statement.store(None);
        self.mark(now);
    }

    /// The default database is another one now.
    pub fn set_database(&self, database: Option<&str>) {
        *self.database.lock() = database.map(str::to_owned);
    }

    /// The default database.
    pub fn database(&self) -> Option<String> {
        self.database.lock().clone()
    }

    /// Command, seconds in it, and text.
    pub fn state(&self, now: Instant) -> (&'static str, u64, Option<String>) {
        let since = self.since.load(Ordering::Relaxed);
        let now = now.saturating_duration_since(self.born).as_millis();
        let seconds = u64::try_from(now).unwrap_or(u64::MAX).saturating_sub(since) / 1000;
        match self.statement.load_full() {
            Some(running) => (running.command, seconds, running.info.clone()),
            None => ("Sleep", seconds, None),
        }
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

    /// How many there are.
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
        } else if process.statement.load().is_some() {
            process.cancel.cancel(Reason::Query);
        }
        true
    }
}
