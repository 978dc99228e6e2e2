//! The process list: current sessions and their statements.
//!
//! An entry is written only by its session, under its own mutex, which is contended only while the
//! list is read.
//!
//! Invariant: a text that mentions a password is not shown, neither here nor in statistics, logs or traces, all of which
//! take it from here.

use crate::client::ClientInfo;
use crate::secrets::mentions_password;
use crate::statements::Completed;
use crate::statements::digests::Digests;
use crate::statements::recent::{Recent, Totals};
use crate::status::{Counter, SessionCounters};
use parking_lot::{Mutex, RwLock};
use porpoise_access::{AccessData, AuthId};
use porpoise_base::cancel::{Cancel, Reason};
use porpoise_rows::metadata_lock::MetadataLockSession;
use porpoise_rows::progress::Progress;
use porpoise_sql_plan::plan::planned::Planned;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

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
    /// Start of the open transaction, in milliseconds after `connected_at`, plus 1; 0: none.
    transaction_since: AtomicU64,
    cancel: Cancel,
    progress: Arc<Progress>,
    /// The session's identity in the metadata locks.
    pub(crate) lock_owner: usize,
    /// The session's status variables.
    pub(crate) counters: Arc<SessionCounters>,
}

/// The statement of a session; the text's buffer is reused.
#[derive(Default)]
struct Running {
    /// `Query`, `Execute`, ...; empty between statements.
    command: &'static str,
    /// The text, which may have passwords; empty if there is none. [`Running::shown`] hides it then.
    info: Vec<u8>,
    /// Its plan, for EXPLAIN FOR CONNECTION.
    plan: Option<Arc<Planned>>,
    /// The last statements that have ended.
    recent: Recent,
}

impl Running {
    /// The text as it is shown. It is searched for passwords here, because few statements are shown.
    fn shown(&self) -> &[u8] {
        if mentions_password(&self.info) {
            b"(a statement with a password)"
        } else {
            &self.info
        }
    }

    /// Adds the statements that have ended to the statistics.
    fn count(&mut self, digests: &Digests) {
        let mut recent = std::mem::take(&mut self.recent);
        recent.count(digests, self.shown());
        self.recent = recent;
    }

    /// Ends the statement. Returns its plan, to be freed without the lock.
    #[must_use]
    fn end(&mut self) -> Option<Arc<Planned>> {
        self.command = "";
        if self.info.capacity() > IDLE_CAPACITY {
            self.info = Vec::new();
        }
        self.plan.take()
    }
}

/// A session's state at one time.
pub struct ProcessState {
    /// `Query`, `Execute`, ...; `Sleep` between statements.
    pub command: &'static str,
    /// Seconds since the start or end of the last statement.
    pub seconds: u64,
    /// Time since the start or end of the last statement, to the millisecond.
    pub elapsed: Duration,
    /// Text of the statement, as far as it is stored.
    pub info: Option<String>,
}

/// Maximum stored length of a statement, in bytes.
const MAX_STATEMENT_LEN: usize = 64 * 1024;

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
        metadata_locks: &MetadataLockSession,
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
            transaction_since: AtomicU64::new(0),
            cancel,
            progress: metadata_locks.progress().clone(),
            lock_owner: metadata_locks.owner(),
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
        let plan = statement.plan.take();
        drop(statement);
        drop(plan);
        self.set_since(now);
    }

    /// Replaces the plan of the running statement. Returns the previous one. The end of the
    /// session's statement removes it.
    pub(crate) fn replace_plan(&self, plan: Option<Arc<Planned>>) -> Option<Arc<Planned>> {
        std::mem::replace(&mut self.statement.lock().plan, plan)
    }

    /// The plan of the running statement; `None` if it has none.
    pub(crate) fn plan(&self) -> Option<Arc<Planned>> {
        self.statement.lock().plan.clone()
    }

    /// Replaces the text by that of a statement of a stored program. `keeps_plan`: the plan of the statement that
    /// called the program stays.
    pub fn set_statement(&self, text: &[u8], keeps_plan: bool) {
        let mut statement = self.statement.lock();
        let plan = if keeps_plan {
            None
        } else {
            statement.plan.take()
        };
        statement.info.clear();
        statement
            .info
            .extend_from_slice(text.get(..MAX_STATEMENT_LEN).unwrap_or(text));
        drop(statement);
        drop(plan);
    }

    /// The first `limit` bytes of the statement's text.
    pub fn statement(&self, limit: usize) -> String {
        let statement = self.statement.lock();
        let text = statement.shown();
        let text = text.get(..limit).unwrap_or(text);
        String::from_utf8_lossy(text).into_owned()
    }

    /// Records the end of a statement.
    pub fn end(&self, now: Instant) {
        let plan = self.statement.lock().end();
        drop(plan);
        self.set_since(now);
    }

    /// Records the end of a statement, and adds it to the statistics; the session is `idle` if no
    /// other statement of the same text follows.
    pub(crate) fn complete(&self, digests: &Digests, completed: Completed, idle: bool) {
        let mut statement = self.statement.lock();
        let running = &mut *statement;
        if running.recent.push(completed) || digests.samples_values() {
            running.count(digests);
        }
        let plan = if idle { running.end() } else { None };
        drop(statement);
        drop(plan);
        if idle {
            self.set_since(completed.ended);
        }
    }

    /// Adds the statements that ended to the statistics.
    pub(crate) fn count_statements(&self, digests: &Digests) {
        let mut statement = self.statement.lock();
        let running = &mut *statement;
        running.count(digests);
    }

    /// Sums over the statements that have been added to the statistics.
    pub(crate) fn totals(&self) -> Totals {
        self.statement.lock().recent.totals()
    }

    /// The last statements that have ended, with their numbers in the session, oldest first.
    pub(crate) fn history(&self) -> Vec<(u64, Completed)> {
        let statement = self.statement.lock();
        let history = statement.recent.history();
        history
            .map(|(number, statement)| (number, *statement))
            .collect()
    }

    /// Number of statements that have ended.
    pub(crate) fn ended_statements(&self) -> u64 {
        self.statement.lock().recent.ended()
    }

    /// Records at the end of a statement whether a transaction is open. `start` is the start of the
    /// statement, with which a new transaction began.
    #[inline]
    pub(crate) fn note_transaction(&self, is_open: bool, start: Instant) {
        let known = self.transaction_since.load(Ordering::Relaxed);
        if is_open != (known != 0) {
            let since = match is_open {
                true => {
                    let since = start
                        .saturating_duration_since(self.connected_at)
                        .as_millis();
                    u64::try_from(since).unwrap_or(u64::MAX - 1) + 1
                }
                false => 0,
            };
            self.transaction_since.store(since, Ordering::Relaxed);
        }
    }

    /// Time since the open transaction began; `None` without one, or during its first statement.
    pub(crate) fn transaction_age(&self, now: Instant) -> Option<Duration> {
        let since = self
            .transaction_since
            .load(Ordering::Relaxed)
            .checked_sub(1)?;
        let now = now.saturating_duration_since(self.connected_at);
        Some(now.saturating_sub(Duration::from_millis(since)))
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

    /// The progress of the running statement.
    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The state at `now`.
    pub fn state(&self, now: Instant) -> ProcessState {
        let since = self.since.load(Ordering::Relaxed);
        let now = now.saturating_duration_since(self.connected_at).as_millis();
        let millis = u64::try_from(now).unwrap_or(u64::MAX).saturating_sub(since);
        let (seconds, elapsed) = (millis / 1000, Duration::from_millis(millis));
        let statement = self.statement.lock();
        if statement.command.is_empty() {
            return ProcessState {
                command: "Sleep",
                seconds,
                elapsed,
                info: None,
            };
        }
        let info = String::from_utf8_lossy(statement.shown()).into_owned();
        ProcessState {
            command: statement.command,
            seconds,
            elapsed,
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
    /// Sums over ended sessions by host.
    ended_hosts: BTreeMap<String, EndedHost>,
}

/// Maximum number of hosts whose ended sessions are counted; those of further ones are counted
/// under an empty name.
const MAX_HOSTS: usize = 1000;

/// Maximum number of users that are distinguished for a host.
const MAX_USERS: usize = 100;

/// The ended sessions of a host.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndedHost {
    /// Sums over their statements.
    pub(crate) totals: Totals,
    /// Number of sessions.
    pub(crate) sessions: u64,
    /// Their users.
    pub(crate) users: BTreeSet<String>,
}

impl Sessions {
    fn note_ended(&mut self, process: &Process) {
        let is_known = self.ended_hosts.contains_key(&process.host);
        let host = match is_known || self.ended_hosts.len() < MAX_HOSTS {
            true => process.host.clone(),
            false => String::new(),
        };
        let ended = self.ended_hosts.entry(host).or_default();
        ended.totals.add(&process.totals());
        ended.sessions += 1;
        if ended.users.len() < MAX_USERS {
            ended.users.insert(process.user.clone());
        }
    }
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
            all.note_ended(process);
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

    /// Adds the statements that have ended to the statistics.
    pub(crate) fn count_statements(&self, digests: &Digests) {
        for process in self.list() {
            process.count_statements(digests);
        }
    }

    /// Sums over the ended sessions of each host.
    pub(crate) fn ended_hosts(&self) -> BTreeMap<String, EndedHost> {
        self.0.read().ended_hosts.clone()
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
