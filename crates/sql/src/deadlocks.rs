//! Deadlocks that were broken, and the waits of this moment: who waited for
//! whom, for which lock, and with which statements.
//!
//! The engine tells of a circle of waits before its victim lets go of anything.
//! All sessions of the circle are still inside the statements that wait, so
//! that the list of sessions has their texts.
//!
//! Invariants:
//! 1. At most [`KEPT`] deadlocks are kept, texts cut at [`TEXT`] bytes.
//! 2. Noting one waits for nobody: the locks taken are those that the list of
//!    sessions takes, and the one of the ring.

use crate::session::processes::Process;
use crate::session::server::SqlServer;
use parking_lot::Mutex;
use porpoise_kv::{DeadlockListener, LockMode, LockWait};
use porpoise_rows::locked::LockedKey;
use porpoise_types::{DateTime, Value};
use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// Deadlocks that are kept.
pub const KEPT: usize = 64;

/// Bytes of a statement that are kept.
const TEXT: usize = 4096;

/// A session, as far as it is known; transactions of memcached and of the
/// server itself have none.
#[derive(Clone, Debug)]
struct Who {
    thread: u64,
    user: String,
    host: String,
    database: Option<String>,
    query: Option<String>,
}

/// One wait, in words.
#[derive(Clone, Debug)]
struct Told {
    txn: u64,
    who: Option<Who>,
    blocker: u64,
    blocked_by: Option<Who>,
    key: LockedKey,
    mode: LockMode,
    waited_micros: u64,
}

/// A deadlock; its first wait is the victim's.
#[derive(Clone, Debug)]
struct Deadlock {
    number: u64,
    at: DateTime,
    waits: Vec<Told>,
}

#[derive(Default)]
struct Ring {
    count: u64,
    kept: VecDeque<Deadlock>,
}

/// The last deadlocks.
#[derive(Default)]
pub struct Deadlocks(Mutex<Ring>);

/// Hears of deadlocks for a server.
pub(crate) struct Listener(pub(crate) Weak<SqlServer>);

impl DeadlockListener for Listener {
    fn deadlock(&self, circle: &[LockWait]) {
        let Some(server) = self.0.upgrade() else {
            return;
        };
        let waits = told(&server, circle);
        let at = DateTime::from_unix_micros(server.db.clock().unix_micros()).unwrap_or_default();
        let mut ring = server.deadlocks.0.lock();
        ring.count += 1;
        let number = ring.count;
        if ring.kept.len() == KEPT {
            ring.kept.pop_front();
        }
        ring.kept.push_back(Deadlock { number, at, waits });
    }
}

fn told(server: &SqlServer, waits: &[LockWait]) -> Vec<Told> {
    let (catalog, now) = (server.db.catalog(), server.db.clock().now());
    let sessions = server.sessions();
    let one = |wait: &LockWait| Told {
        txn: wait.txn,
        who: who(&sessions, wait.txn, now),
        blocker: wait.blocker,
        blocked_by: who(&sessions, wait.blocker, now),
        key: LockedKey::find(&catalog, wait.space, &wait.key),
        mode: wait.mode,
        waited_micros: now
            .saturating_duration_since(wait.since)
            .as_micros()
            .try_into()
            .unwrap_or(u64::MAX),
    };
    waits.iter().map(one).collect()
}

fn who(sessions: &[Arc<Process>], txn: u64, now: Instant) -> Option<Who> {
    let process = sessions.iter().find(|process| process.txn() == txn)?;
    let (_, _, query) = process.state(now);
    let cut = |mut text: String| {
        if text.len() > TEXT {
            text.truncate(text.floor_char_boundary(TEXT));
        }
        text
    };
    Some(Who {
        thread: process.id,
        user: process.user.clone(),
        host: process.host.clone(),
        database: process.database(),
        query: query.map(cut),
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

fn maybe(value: Option<&str>) -> Value {
    value.map_or(Value::Null, text)
}

/// Number, user, host, database and statement of a session.
fn session_cells(who: Option<&Who>) -> [Value; 5] {
    match who {
        None => [const { Value::Null }; 5],
        Some(who) => [
            Value::UInt(who.thread),
            text(&who.user),
            text(&who.host),
            maybe(who.database.as_deref()),
            maybe(who.query.as_deref()),
        ],
    }
}

/// Schema, table, index, partition, key and mode of the lock.
fn lock_cells(told: &Told) -> [Value; 6] {
    let table = told.key.table.as_deref();
    [
        maybe(table.map(|t| t.database.as_str())),
        maybe(table.map(|t| t.name.as_str())),
        maybe(table.map(|_| told.key.index_name())),
        maybe(told.key.partition.as_deref()),
        text(&told.key.values),
        text(mode_name(told.mode)),
    ]
}

/// Rows of information_schema.DEADLOCKS, in the order of its columns.
pub(crate) fn rows(server: &SqlServer) -> Vec<Vec<Value>> {
    let ring = server.deadlocks.0.lock();
    let mut rows = Vec::new();
    for deadlock in &ring.kept {
        for (n, told) in deadlock.waits.iter().enumerate() {
            let mut row = vec![
                Value::UInt(deadlock.number),
                Value::DateTime(deadlock.at),
                text(if n == 0 { "YES" } else { "NO" }),
                Value::UInt(told.txn),
            ];
            row.extend(session_cells(told.who.as_ref()));
            row.extend(lock_cells(told));
            row.push(Value::UInt(told.waited_micros));
            row.push(Value::UInt(told.blocker));
            let thread = told.blocked_by.as_ref().map(|who| who.thread);
            row.push(thread.map_or(Value::Null, Value::UInt));
            rows.push(row);
        }
    }
    rows
}

/// Rows of information_schema.LOCK_WAITS, in the order of its columns.
pub(crate) fn wait_rows(server: &SqlServer) -> Vec<Vec<Value>> {
    let mut waits = server.db.engine().lock_waits();
    waits.sort_by_key(|wait| (wait.since, wait.txn, wait.blocker));
    let row = |told: Told| {
        let mut row = vec![Value::UInt(told.txn)];
        row.extend(session_cells(told.who.as_ref()));
        row.extend(lock_cells(&told));
        row.push(Value::UInt(told.waited_micros));
        row.push(Value::UInt(told.blocker));
        row.extend(session_cells(told.blocked_by.as_ref()));
        row
    };
    told(server, &waits).into_iter().map(row).collect()
}

/// The text of SHOW ENGINE INNODB STATUS: the latest deadlock and the present
/// waits, in sections headed as InnoDB heads them.
pub(crate) fn status(server: &SqlServer) -> String {
    let mut out = String::new();
    let ring = server.deadlocks.0.lock();
    if let Some(latest) = ring.kept.back() {
        section(&mut out, "LATEST DETECTED DEADLOCK");
        let _ = writeln!(out, "{}", latest.at);
        for (n, told) in (1..).zip(&latest.waits) {
            let _ = writeln!(out, "*** ({n}) TRANSACTION:");
            transaction(&mut out, told);
            let _ = writeln!(out, "*** ({n}) WAITING FOR THIS LOCK TO BE GRANTED:");
            lock(&mut out, told);
            let next = n % latest.waits.len() + 1;
            let _ = writeln!(out, "*** ({n}) WAITS FOR TRANSACTION ({next})");
        }
        let _ = writeln!(out, "*** WE ROLL BACK TRANSACTION (1)");
    }
    drop(ring);
    section(&mut out, "TRANSACTIONS");
    for told in told(server, &server.db.engine().lock_waits()) {
        transaction(&mut out, &told);
        let waited = told.waited_micros / 1_000_000;
        let _ = writeln!(
            out,
            "------- TRX HAS BEEN WAITING {waited} SEC FOR TRANSACTION {}:",
            told.blocker
        );
        lock(&mut out, &told);
    }
    section(&mut out, "END OF PORPOISE MONITOR OUTPUT");
    out
}

fn section(out: &mut String, title: &str) {
    let line = "-".repeat(title.len());
    let _ = writeln!(out, "{line}\n{title}\n{line}");
}

fn transaction(out: &mut String, told: &Told) {
    let _ = writeln!(out, "TRANSACTION {}", told.txn);
    match &told.who {
        Some(who) => {
            let (thread, user, host) = (who.thread, &who.user, &who.host);
            let _ = writeln!(out, "MySQL thread id {thread}, {host} {user}");
            let _ = writeln!(out, "{}", who.query.as_deref().unwrap_or_default());
        }
        None => out.push_str("not of an SQL session\n"),
    }
}

fn lock(out: &mut String, told: &Told) {
    let place = match &told.key.table {
        Some(table) => format!(
            "index {} of table `{}`.`{}`",
            told.key.index_name(),
            table.database,
            table.name
        ),
        None => "the catalog".to_owned(),
    };
    let (mode, key) = (mode_name(told.mode), &told.key.values);
    let _ = writeln!(out, "RECORD LOCK {place} lock mode {mode} key ({key})");
}
