//! Deletes expired rows of tables with TTL in the background ([`porpoise_rows::reap`]).
//!
//! One thread scans each table at most once in its TTL_JOB_INTERVAL. Readers do not depend on it: they
//! treat an expired row as absent at once ([`porpoise_rows::ttl`]).
//!
//! Invariants:
//! 1. After each batch the thread pauses for nineteen times the duration of the batch, at most a
//!    second. So it uses about a twentieth of one core, however many rows have expired, as long as
//!    a batch takes at most a nineteenth of a second.
//! 2. While no table has TTL, the thread reads one flag a second.
//!
//! Several servers on one engine may scan the same table; each row is deleted once, under its lock.

use crate::event_scheduler::Report;
use parking_lot::{Condvar, Mutex};
use porpoise_base::threads::{self, Role};
use porpoise_rows::catalog::{Table, TableId};
use porpoise_rows::reap::{Reap, Reaped, RowTest};
use porpoise_rows::ttl::{DEFAULT_JOB_INTERVAL, job_interval_seconds};
use porpoise_rows::{Db, Error};
use std::collections::HashMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval between two checks for tables to be scanned.
const CHECK: Duration = Duration::from_secs(1);
/// Pause after a batch, as a multiple of its duration.
const PAUSE_FACTOR: u32 = 19;
/// Longest pause after a batch.
const MAX_PAUSE: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Signal {
    stop: Mutex<bool>,
    wake: Condvar,
}

impl Signal {
    /// Waits for `time`. Returns whether the thread should end.
    fn wait_for_stop(&self, time: Duration) -> bool {
        let mut stop = self.stop.lock();
        if !*stop && !time.is_zero() {
            self.wake.wait_for(&mut stop, time);
        }
        *stop
    }
}

/// Handle of the thread, which ends when this is stopped or dropped.
pub struct TtlReaper {
    signal: Arc<Signal>,
    thread: Option<JoinHandle<()>>,
}

impl TtlReaper {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system's error when no thread can be created.
    pub fn start(db: Arc<Db>, report: Report) -> std::io::Result<TtlReaper> {
        let signal = Arc::new(Signal::default());
        let own = signal.clone();
        let thread = threads::spawn_restarting(Role::TtlReaper, move || run(&db, &own, &report))?;
        Ok(TtlReaper {
            signal,
            thread: Some(thread),
        })
    }

    /// Ends the thread and waits for it.
    pub fn stop(&mut self) {
        *self.signal.stop.lock() = true;
        self.signal.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic was reported by the thread's own policy.
            let _ = thread.join();
        }
    }
}

impl Drop for TtlReaper {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(db: &Arc<Db>, signal: &Signal, report: &Report) {
    // The start of the last pass over each table, in microseconds since 1970.
    let mut last: HashMap<TableId, i64> = HashMap::new();
    while !signal.wait_for_stop(CHECK) {
        // A standby does not expire rows itself: it applies the deletions of its source.
        if !db.has_ttl() || db.is_read_only() {
            last.clear();
            continue;
        }
        let catalog = db.catalog();
        last.retain(|id, _| catalog.table_by_id(*id).is_some());
        for table in catalog.tables.values() {
            let now = db.clock().unix_micros();
            if table.expiry_rule().is_none() || !is_due(table, last.get(&table.id), now) {
                continue;
            }
            let paced = paced(signal);
            match pass(db, table, &paced) {
                Ok(done) => {
                    last.insert(table.id, now);
                    if let Some(error) = &done.refusal {
                        report(&refusal(table, done.kept, error));
                    }
                }
                Err(Error::DefinitionChanged) => break,
                Err(error) => {
                    last.insert(table.id, now);
                    report(&failure(table, &error));
                }
            }
        }
    }
}

fn failure(table: &Table, error: &Error) -> String {
    format!(
        "expired rows of {} could not be deleted; the next pass tries again: {error}",
        table.quoted_name()
    )
}

fn refusal(table: &Table, kept: u64, error: &Error) -> String {
    format!(
        "{kept} expired rows of {} stay; of one the reason is: {error}",
        table.quoted_name()
    )
}

fn is_due(table: &Table, last: Option<&i64>, now: i64) -> bool {
    let ttl = table.options.ttl.as_ref();
    let text = ttl.map_or(DEFAULT_JOB_INTERVAL, |ttl| &ttl.job_interval);
    let seconds = job_interval_seconds(text).unwrap_or(3600);
    let micros = i64::try_from(seconds.saturating_mul(1_000_000)).unwrap_or(i64::MAX);
    last.is_none_or(|last| now.saturating_sub(*last) >= micros || now < *last)
}

/// The function that is called after each batch: it pauses, and returns false when the thread
/// should end.
fn paced(signal: &Signal) -> impl Fn() -> bool + '_ {
    let resumed = Mutex::new(Instant::now());
    move || {
        let mut resumed = resumed.lock();
        let pause = resumed
            .elapsed()
            .saturating_mul(PAUSE_FACTOR)
            .min(MAX_PAUSE);
        let stopping = signal.wait_for_stop(pause);
        *resumed = Instant::now();
        !stopping
    }
}

/// Scans a table once and deletes its expired rows. `go_on` is called after each batch; the pass ends
/// when it returns false.
///
/// # Errors
/// [`Error::DefinitionChanged`] if the table is not that of the newest catalog; the engine's.
pub fn pass(
    db: &Arc<Db>,
    table: &Arc<Table>,
    go_on: &dyn Fn() -> bool,
) -> porpoise_rows::Result<Reaped> {
    let Some(rule) = table.expiry_rule().copied() else {
        return Ok(Reaped::default());
    };
    let expired = || -> Box<RowTest<'_>> {
        let now = db.expiry_time();
        Box::new(move |row| rule.is_expired(row, &now))
    };
    let reap = Reap {
        db,
        table,
        write_set: &table.write_set,
        expired: &expired,
        delete: &|txn, rows| Ok(txn.delete(table, rows)?.deleted),
        go_on,
    };
    let done = reap.run()?;
    db.ttl_counters().note_pass(done.deleted, done.kept);
    Ok(done)
}
