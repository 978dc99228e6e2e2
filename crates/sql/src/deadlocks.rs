//! Recent deadlocks and current lock waits: waiter, blocker, lock and statements of each.
//!
//! The engine reports a deadlock cycle before its victim releases any lock. All sessions of the
//! cycle are then still executing the waiting statements, so the process list has their texts.
//!
//! Invariants:
//! 1. At most [`MAX_DEADLOCKS`] deadlocks are stored, with statements truncated to [`MAX_STATEMENT_LEN`] bytes.
//! 2. Recording a deadlock never waits for a transaction: it locks only the process list's mutexes
//!    and the log's own.

use crate::processes::{Process, Processes};
use parking_lot::Mutex;
use porpoise_kv::{DeadlockListener, LockMode, LockWait};
use porpoise_rows::Db;
use porpoise_rows::lock_description::LockDescription;
use porpoise_types::{DateTime, Value};
use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Maximum number of deadlocks stored.
pub const MAX_DEADLOCKS: usize = 64;

/// Maximum stored length of a statement, in bytes.
const MAX_STATEMENT_LEN: usize = 4096;

/// The session of a waiting or blocking transaction. Transactions of other protocols and of the
/// server itself have none.
#[derive(Clone, Debug)]
pub(crate) struct WaitingSession {
    pub(crate) thread: u64,
    user: String,
    host: String,
    database: Option<String>,
    /// The running statement; `None` between statements.
    pub(crate) query: Option<String>,
    /// Time since the transaction began, or the statement of an autocommit transaction.
    pub(crate) transaction_age: Option<Duration>,
}

/// A lock wait with its sessions.
#[derive(Clone, Debug)]
pub(crate) struct Wait {
    /// The waiting transaction.
    pub(crate) txn: u64,
    pub(crate) waiter_session: Option<WaitingSession>,
    /// The transaction that holds the lock, or waits for it ahead.
    pub(crate) blocker: u64,
    pub(crate) blocker_session: Option<WaitingSession>,
    pub(crate) key: LockDescription,
    /// The requested mode.
    pub(crate) mode: LockMode,
    pub(crate) waited_micros: u64,
}

/// A deadlock; the first wait is the victim's.
#[derive(Clone, Debug)]
struct Deadlock {
    number: u64,
    at: DateTime,
    waits: Vec<Wait>,
}

/// The newest deadlocks, and the number of all since the start.
#[derive(Default)]
struct Ring {
    count: u64,
    deadlocks: VecDeque<Deadlock>,
}

/// Log of recent deadlocks, and source of the current lock waits. The reference to the database is
/// weak because the database's engine owns the log as its listener.
pub struct DeadlockLog {
    ring: Mutex<Ring>,
    db: Weak<Db>,
    processes: Arc<Processes>,
}

impl DeadlockListener for DeadlockLog {
    fn deadlock(&self, cycle: &[LockWait]) {
        let Some(db) = self.db.upgrade() else {
            return;
        };
        let waits = self.describe_waits(&db, cycle);
        let at = DateTime::from_unix_micros(db.clock().unix_micros()).unwrap_or_default();
        let mut ring = self.ring.lock();
        ring.count += 1;
        let number = ring.count;
        if ring.deadlocks.len() == MAX_DEADLOCKS {
            ring.deadlocks.pop_front();
        }
        ring.deadlocks.push_back(Deadlock { number, at, waits });
    }
}

impl DeadlockLog {
    /// Creates an empty log for a database.
    pub(crate) fn new(db: &Arc<Db>, processes: Arc<Processes>) -> DeadlockLog {
        DeadlockLog {
            ring: Mutex::default(),
            db: Arc::downgrade(db),
            processes,
        }
    }

    fn describe_waits(&self, db: &Db, waits: &[LockWait]) -> Vec<Wait> {
        let (catalog, now) = (db.catalog(), db.clock().now());
        let sessions = self.processes.list();
        let describe = |wait: &LockWait| Wait {
            txn: wait.txn,
            waiter_session: session_of(&sessions, wait.txn, now),
            blocker: wait.blocker,
            blocker_session: session_of(&sessions, wait.blocker, now),
            key: LockDescription::of(&catalog, wait.space, &wait.key),
            mode: wait.mode,
            waited_micros: now
                .saturating_duration_since(wait.since)
                .as_micros()
                .try_into()
                .unwrap_or(u64::MAX),
        };
        waits.iter().map(describe).collect()
    }

    /// Current lock waits, ordered by `sort`.
    fn current_waits(&self, sort: impl FnOnce(&mut Vec<LockWait>)) -> Vec<Wait> {
        let Some(db) = self.db.upgrade() else {
            return Vec::new();
        };
        let mut waits = db.engine().lock_waits();
        sort(&mut waits);
        self.describe_waits(&db, &waits)
    }

    /// Rows of information_schema.DEADLOCKS, in the order of its columns.
    pub(crate) fn rows(&self) -> Vec<Vec<Value>> {
        let ring = self.ring.lock();
        let mut rows = Vec::new();
        for deadlock in &ring.deadlocks {
            for (n, wait) in deadlock.waits.iter().enumerate() {
                let mut row = vec![
                    Value::UInt(deadlock.number),
                    Value::DateTime(deadlock.at),
                    text(if n == 0 { "YES" } else { "NO" }),
                    Value::UInt(wait.txn),
                ];
                row.extend(session_cells(wait.waiter_session.as_ref()));
                row.extend(lock_cells(wait));
                row.push(Value::UInt(wait.waited_micros));
                row.push(Value::UInt(wait.blocker));
                let thread = wait.blocker_session.as_ref().map(|session| session.thread);
                row.push(thread.map_or(Value::Null, Value::UInt));
                rows.push(row);
            }
        }
        rows
    }

    /// Current lock waits, longest first.
    pub(crate) fn waits(&self) -> Vec<Wait> {
        self.current_waits(|waits| waits.sort_by_key(|wait| (wait.since, wait.txn, wait.blocker)))
    }

    /// Rows of information_schema.LOCK_WAITS, in the order of its columns.
    pub(crate) fn wait_rows(&self) -> Vec<Vec<Value>> {
        let waits = self.waits();
        let row = |wait: Wait| {
            let mut row = vec![Value::UInt(wait.txn)];
            row.extend(session_cells(wait.waiter_session.as_ref()));
            row.extend(lock_cells(&wait));
            row.push(Value::UInt(wait.waited_micros));
            row.push(Value::UInt(wait.blocker));
            row.extend(session_cells(wait.blocker_session.as_ref()));
            row
        };
        waits.into_iter().map(row).collect()
    }

    /// The text of SHOW ENGINE INNODB STATUS: the latest deadlock and the current waits, under
    /// InnoDB's section headings.
    pub(crate) fn status(&self) -> String {
        let mut out = String::new();
        let ring = self.ring.lock();
        if let Some(latest) = ring.deadlocks.back() {
            write_section(&mut out, "LATEST DETECTED DEADLOCK");
            let _ = writeln!(out, "{}", latest.at);
            for (n, wait) in (1..).zip(&latest.waits) {
                let _ = writeln!(out, "*** ({n}) TRANSACTION:");
                write_transaction(&mut out, wait);
                let _ = writeln!(out, "*** ({n}) WAITING FOR THIS LOCK TO BE GRANTED:");
                write_lock(&mut out, wait);
                let next = n % latest.waits.len() + 1;
                let _ = writeln!(out, "*** ({n}) WAITS FOR TRANSACTION ({next})");
            }
            let _ = writeln!(out, "*** WE ROLL BACK TRANSACTION (1)");
        }
        drop(ring);
        write_section(&mut out, "TRANSACTIONS");
        for wait in self.current_waits(|_| ()) {
            write_transaction(&mut out, &wait);
            let waited = wait.waited_micros / 1_000_000;
            let _ = writeln!(
                out,
                "------- TRX HAS BEEN WAITING {waited} SEC FOR TRANSACTION {}:",
                wait.blocker
            );
            write_lock(&mut out, &wait);
        }
        write_section(&mut out, "END OF PORPOISE MONITOR OUTPUT");
        out
    }
}

fn session_of(sessions: &[Arc<Process>], txn: u64, now: Instant) -> Option<WaitingSession> {
    let process = sessions.iter().find(|process| process.txn() == txn)?;
    let state = process.state(now);
    let running = (state.command != "Sleep").then_some(state.elapsed);
    let query = state.info;
    let truncated = |mut text: String| {
        if text.len() > MAX_STATEMENT_LEN {
            text.truncate(text.floor_char_boundary(MAX_STATEMENT_LEN));
        }
        text
    };
    Some(WaitingSession {
        thread: process.id,
        user: process.user.clone(),
        host: process.host.clone(),
        database: process.database(),
        query: query.map(truncated),
        transaction_age: process.transaction_age(now).or(running),
    })
}

fn mode_name(mode: LockMode) -> &'static str {
    match mode {
        LockMode::KeyShare => "KEY SHARE",
        LockMode::Share => "SHARE",
        LockMode::Update => "UPDATE",
        LockMode::Exclusive => "EXCLUSIVE",
    }
}

fn text(value: impl Into<String>) -> Value {
    Value::Bytes(value.into().into_bytes())
}

fn text_or_null(value: Option<&str>) -> Value {
    value.map_or(Value::Null, text)
}

/// Cells for a session: id, user, host, database and statement.
fn session_cells(session: Option<&WaitingSession>) -> [Value; 5] {
    match session {
        None => [const { Value::Null }; 5],
        Some(session) => [
            Value::UInt(session.thread),
            text(&session.user),
            text(&session.host),
            text_or_null(session.database.as_deref()),
            text_or_null(session.query.as_deref()),
        ],
    }
}

/// Cells for a lock: schema, table, index, partition, key and mode.
fn lock_cells(wait: &Wait) -> [Value; 6] {
    let table = wait.key.table.as_deref();
    [
        text_or_null(table.map(|t| t.database.as_str())),
        text_or_null(table.map(|t| t.name.as_str())),
        text_or_null(table.map(|_| wait.key.index_name())),
        text_or_null(wait.key.partition.as_deref()),
        text(&wait.key.values),
        text(mode_name(wait.mode)),
    ]
}

fn write_section(out: &mut String, title: &str) {
    let line = "-".repeat(title.len());
    let _ = writeln!(out, "{line}\n{title}\n{line}");
}

fn write_transaction(out: &mut String, wait: &Wait) {
    let _ = writeln!(out, "TRANSACTION {}", wait.txn);
    match &wait.waiter_session {
        Some(session) => {
            let (thread, user, host) = (session.thread, &session.user, &session.host);
            let _ = writeln!(out, "MySQL thread id {thread}, {host} {user}");
            let _ = writeln!(out, "{}", session.query.as_deref().unwrap_or_default());
        }
        None => out.push_str("not of an SQL session\n"),
    }
}

fn write_lock(out: &mut String, wait: &Wait) {
    let place = match &wait.key.table {
        Some(table) => format!(
            "index {} of table `{}`.`{}`",
            wait.key.index_name(),
            table.database,
            table.name
        ),
        None => "the catalog".to_owned(),
    };
    let (mode, key) = (mode_name(wait.mode), &wait.key.values);
    let _ = writeln!(out, "RECORD LOCK {place} lock mode {mode} key ({key})");
}
