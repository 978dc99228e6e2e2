//! Row locks and metadata locks: `data_locks`, `data_lock_waits`, `metadata_locks`, and
//! `sys.innodb_lock_waits`.
//!
//! The engine keeps row locks in the rows and has no list of them; it has a list of waits.
//! Therefore `data_locks` shows the requested locks that wait and the locks that block them, but no
//! lock that no transaction waits for.

use super::moment_ago;
use super::sessions::running_text;
use crate::context::StatementContext;
use crate::deadlocks::{Wait, WaitingSession};
use crate::results::table::{text, text_or_null};
use porpoise_kv::LockMode;
use porpoise_rows::metadata_lock::{Access, Exclusion, MetadataLock};
use porpoise_sql_expr::error::Result;
use porpoise_types::{Time, Value};
use std::time::Duration;

/// InnoDB's name of a lock mode.
fn innodb_mode(mode: LockMode) -> &'static str {
    match mode {
        LockMode::KeyShare | LockMode::Share => "S,REC_NOT_GAP",
        LockMode::Update | LockMode::Exclusive => "X,REC_NOT_GAP",
    }
}

/// The mode of the lock that blocks a request; NULL where the request's mode does not determine it.
fn blocking_mode(requested: LockMode) -> Value {
    match requested {
        LockMode::KeyShare | LockMode::Share => text("X,REC_NOT_GAP"),
        LockMode::Update | LockMode::Exclusive => Value::Null,
    }
}

/// The identity of a lock: transaction, table, index and key.
fn lock_id(wait: &Wait, txn: u64) -> Value {
    let table = wait.key.table.as_ref().map_or(0, |table| table.id.0);
    text(format!(
        "{txn}:{table}:{}:{}",
        wait.key.index, wait.key.values
    ))
}

fn thread(session: Option<&WaitingSession>) -> Value {
    session.map_or(Value::Null, |session| Value::UInt(session.thread))
}

/// Whole seconds as TIME.
fn age(duration: Duration) -> Value {
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX / 1_000_000);
    Value::Time(Time::clip(seconds.saturating_mul(1_000_000)).0)
}

fn table_name(wait: &Wait) -> Option<(&str, &str)> {
    let table = wait.key.table.as_ref()?;
    Some((table.database.as_str(), table.name.as_str()))
}

/// Schema, table, partition, subpartition and index of a lock.
fn object_cells(wait: &Wait) -> [Value; 5] {
    let named = table_name(wait);
    [
        text_or_null(named.map(|(database, _)| database)),
        text_or_null(named.map(|(_, table)| table)),
        text_or_null(wait.key.partition.as_deref()),
        Value::Null,
        text_or_null(named.map(|_| wait.key.index_name())),
    ]
}

/// Start and age of a transaction.
fn transaction_cells(cx: &StatementContext, session: Option<&WaitingSession>) -> [Value; 2] {
    match session.and_then(|session| session.transaction_age) {
        Some(since) => [moment_ago(cx, since), age(since)],
        None => [Value::Null, Value::Null],
    }
}

/// Rows of `sys.innodb_lock_waits`, longest wait first. Statements have their values only with
/// `statement_sample_values`; `information_schema.LOCK_WAITS` always shows them.
pub(super) fn innodb_lock_waits(cx: &StatementContext) -> Result<Vec<Vec<Value>>> {
    let row = |wait: &Wait| {
        let waited = Duration::from_micros(wait.waited_micros);
        let (waiter, blocker) = (wait.waiter_session.as_ref(), wait.blocker_session.as_ref());
        let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
        let full_name = table_name(wait)
            .map(|(database, table)| format!("{}.{}", quoted(database), quoted(table)));
        let query = |session: Option<&WaitingSession>| {
            session.and_then(|session| running_text(cx, session.query.as_deref()))
        };
        let mut row = vec![
            moment_ago(cx, waited),
            age(waited),
            Value::UInt(waited.as_secs()),
            text_or_null(full_name),
        ];
        row.extend(object_cells(wait));
        row.extend([text("RECORD"), Value::UInt(wait.txn)]);
        row.extend(transaction_cells(cx, waiter));
        // Locked and modified rows are not counted.
        row.extend([Value::Null, Value::Null]);
        row.extend([
            thread(waiter),
            text_or_null(query(waiter)),
            lock_id(wait, wait.txn),
            text(innodb_mode(wait.mode)),
            Value::UInt(wait.blocker),
            thread(blocker),
            text_or_null(query(blocker)),
            lock_id(wait, wait.blocker),
            blocking_mode(wait.mode),
        ]);
        row.extend(transaction_cells(cx, blocker));
        row.extend([Value::Null, Value::Null]);
        let kill = |what: &str| {
            text_or_null(blocker.map(|session| format!("KILL {what}{}", session.thread)))
        };
        row.extend([kill("QUERY "), kill("")]);
        row
    };
    Ok(cx.server.deadlocks.waits().iter().map(row).collect())
}

/// Rows of `performance_schema.data_lock_waits`.
pub(super) fn data_lock_waits(cx: &StatementContext) -> Result<Vec<Vec<Value>>> {
    let side = |wait: &Wait, txn: u64, session: Option<&WaitingSession>| {
        [
            lock_id(wait, txn),
            Value::UInt(txn),
            thread(session),
            Value::Null,
            Value::UInt(0),
        ]
    };
    let row = |wait: &Wait| {
        let mut row = vec![text("INNODB")];
        row.extend(side(wait, wait.txn, wait.waiter_session.as_ref()));
        row.extend(side(wait, wait.blocker, wait.blocker_session.as_ref()));
        row
    };
    Ok(cx.server.deadlocks.waits().iter().map(row).collect())
}

/// Rows of `performance_schema.data_locks`.
pub(super) fn data_locks(cx: &StatementContext) -> Result<Vec<Vec<Value>>> {
    let waits = cx.server.deadlocks.waits();
    let lock = |wait: &Wait, txn: u64, session: Option<&WaitingSession>, mode, status| {
        let [database, table, partition, subpartition, index] = object_cells(wait);
        vec![
            text("INNODB"),
            lock_id(wait, txn),
            Value::UInt(txn),
            thread(session),
            Value::Null,
            database,
            table,
            partition,
            subpartition,
            index,
            Value::UInt(0),
            text("RECORD"),
            mode,
            text(status),
            text(&wait.key.values),
        ]
    };
    let mut rows = Vec::new();
    for wait in &waits {
        let mode = text(innodb_mode(wait.mode));
        let session = wait.waiter_session.as_ref();
        rows.push(lock(wait, wait.txn, session, mode, "WAITING"));
        // A blocker that waits for the same lock itself is listed as a waiter.
        let waits_too = waits.iter().any(|other| {
            other.txn == wait.blocker && lock_id(other, other.txn) == lock_id(wait, other.txn)
        });
        if !waits_too {
            let (mode, session) = (blocking_mode(wait.mode), wait.blocker_session.as_ref());
            rows.push(lock(wait, wait.blocker, session, mode, "GRANTED"));
        }
    }
    rows.dedup();
    Ok(rows)
}

/// Rows of `performance_schema.metadata_locks`.
pub(super) fn metadata_locks(cx: &StatementContext) -> Result<Vec<Vec<Value>>> {
    let catalog = cx.server.db.catalog();
    let sessions = cx.server.processes.list();
    let row = |lock: MetadataLock| {
        let (kind, mode) = match lock {
            MetadataLock::Shared { access, .. } => match access {
                Access::Read => ("TABLE", "SHARED_READ"),
                Access::Write => ("TABLE", "SHARED_WRITE"),
            },
            MetadataLock::Barrier { exclusion, .. } => match exclusion {
                Exclusion::Writers => ("TABLE", "SHARED_NO_WRITE"),
                Exclusion::Everyone => ("TABLE", "EXCLUSIVE"),
                Exclusion::Definitions => ("TABLE", "SHARED_UPGRADABLE"),
            },
        };
        let table = catalog.table_by_id(lock.table());
        let owner = sessions
            .iter()
            .find(|process| process.lock_owner == lock.owner());
        vec![
            text(kind),
            text_or_null(table.map(|table| table.database.as_str())),
            text_or_null(table.map(|table| table.name.as_str())),
            Value::Null,
            Value::UInt(0),
            text(mode),
            text("TRANSACTION"),
            text(if lock.is_pending() {
                "PENDING"
            } else {
                "GRANTED"
            }),
            text(""),
            owner.map_or(Value::Null, |process| Value::UInt(process.id)),
            Value::Null,
        ]
    };
    let locks = cx.server.db.metadata_locks().list();
    Ok(locks.into_iter().map(row).collect())
}
