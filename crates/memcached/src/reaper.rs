//! The reaper: deletes expired rows in the background.
//!
//! To memcached commands a row is absent from its expiry time on; for foreign and unique keys it
//! exists until it is deleted (transactions.md, rule 46), by a writer of the same key or by this
//! thread. The thread scans the tables of containers that have an `expire_time_column` at a
//! snapshot, and deletes expired rows in small transactions.
//!
//! Invariants:
//! 1. A row is checked again under its lock: one that was touched or stored again meanwhile stays.
//! 2. A row referenced by a RESTRICT foreign key stays; other rows are deleted all the same.
//! 3. Between two passes over the tables, the thread pauses for the configured time, or for twenty
//!    times the duration of the last pass if that is longer: scans use less than a twentieth of
//!    one core.
//!
//! If several servers share an engine, the thread also checks whether another server has changed
//! the configuration.
//!
//! Rejected: an index on the expiry time, which every write would have to maintain.

use crate::container::Container;
use crate::container::chunked_values;
use crate::context::ListenerState;
use parking_lot::{Condvar, Mutex};
use porpoise_base::cancel::Cancel;
use porpoise_base::threads::{self, Role};
use porpoise_kv::Read;
use porpoise_rows::{BeginOptions, Error, Fetch, KeyRange, Result, ScanPosition, ScanSpec};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Rows scanned between two readings of the clock.
const ROWS_PER_CLOCK_READ: usize = 1000;
/// Rows per transaction.
const BATCH: usize = 100;

/// Handle of the reaper thread, which ends when this is dropped or stopped.
pub struct Reaper {
    signal: Arc<Signal>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Signal {
    stop: Mutex<bool>,
    wake: Condvar,
}

impl Signal {
    /// Waits for `time`. Returns true if the thread should end.
    fn wait_for_stop(&self, time: Duration) -> bool {
        let mut stop = self.stop.lock();
        if !*stop {
            self.wake.wait_for(&mut stop, time);
        }
        *stop
    }
}

impl Reaper {
    /// Starts the thread for the containers of some listeners. With `poll` it also checks for
    /// changes of the configuration.
    ///
    /// # Errors
    /// No thread can be created.
    pub(crate) fn start(
        listeners: Vec<Arc<ListenerState>>,
        pause: Duration,
        poll: bool,
    ) -> std::io::Result<Reaper> {
        let signal = Arc::new(Signal::default());
        let stop_signal = signal.clone();
        let thread = threads::spawn_restarting(Role::MemcachedReaper, move || {
            let mut next_pause = pause;
            while !stop_signal.wait_for_stop(next_pause) {
                let start = Instant::now();
                for listener in &listeners {
                    if poll && let Err(error) = listener.mapping.poll() {
                        tracing::debug!(
                            "the memcached configuration cannot be read; the mapping in force stays: {error}"
                        );
                    }
                    match scan_all_tables(listener, &stop_signal) {
                        Ok(0) => {}
                        Ok(rows) => tracing::debug!("{rows} expired rows were deleted"),
                        Err(error) => tracing::debug!(
                            "expired rows could not be deleted; the next pass tries again: {error}"
                        ),
                    }
                }
                next_pause = pause.max(start.elapsed().saturating_mul(20));
            }
        })?;
        Ok(Reaper {
            signal,
            thread: Some(thread),
        })
    }

    /// Ends the thread and waits for it.
    pub fn stop(&mut self) {
        *self.signal.stop.lock() = true;
        self.signal.wake.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that deletes expired rows has failed");
        }
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Scans all tables of a listener once. Returns the number of rows deleted.
fn scan_all_tables(listener: &ListenerState, signal: &Signal) -> Result<u64> {
    let current = listener.mapping.load();
    let mut deleted = 0;
    // Table and expiry column of the scans so far: several containers may have the same.
    let mut done: Vec<(u64, usize)> = Vec::new();
    for container in &current.mapping.containers {
        let Some((column, _)) = container.expiry else {
            continue;
        };
        let source = (container.table.id.0, column);
        if done.contains(&source) {
            continue;
        }
        done.push(source);
        deleted += scan_container(listener, container, current.mapping.catalog_version, signal)?;
    }
    Ok(deleted)
}

/// Scans a container's table and deletes its expired rows. Returns their number.
fn scan_container(
    listener: &ListenerState,
    container: &Container,
    catalog_version: u64,
    signal: &Signal,
) -> Result<u64> {
    let spec = |start: Vec<u8>| ScanSpec {
        index: 0,
        ranges: vec![KeyRange { start, end: None }],
        reverse: false,
        entries_only: false,
    };
    let mut deleted = 0;
    let mut next = Some(Vec::new());
    while let Some(start) = next.take() {
        if *signal.stop.lock() {
            break;
        }
        if listener.db.catalog_version() != catalog_version {
            return Err(Error::DefinitionChanged);
        }
        let now = listener.db.clock().unix_micros();
        let mut expired: Vec<Vec<u8>> = Vec::new();
        let mut last = Vec::new();
        // A new snapshot for each batch does not delay reclamation for long.
        let mut txn = listener.db.begin(BeginOptions::default())?;
        let mut position = ScanPosition::default();
        let table = &container.table;
        let view = Read::SNAPSHOT;
        let more = txn.scan_with(
            table,
            &spec(start),
            Fetch::PREFIXES,
            view,
            &mut position,
            ROWS_PER_CLOCK_READ,
            &mut |key, row| {
                last.clear();
                last.extend_from_slice(key);
                if container.expired(&row, || now) {
                    expired.push(key.to_vec());
                }
            },
        )?;
        drop(txn);
        for batch in expired.chunks(BATCH) {
            deleted += match delete(listener, container, catalog_version, batch) {
                Ok(rows) => rows,
                // A row of the batch is referenced, or locked by another transaction: retries one
                // by one.
                Err(_) if batch.len() > 1 => batch
                    .iter()
                    .filter_map(|key| {
                        let one = std::slice::from_ref(key);
                        delete(listener, container, catalog_version, one).ok()
                    })
                    .sum(),
                Err(_) => 0,
            };
        }
        if more {
            last.push(0);
            next = Some(last);
        }
    }
    Ok(deleted)
}

/// Deletes those of the rows that are still expired when checked under their locks.
fn delete(
    listener: &ListenerState,
    container: &Container,
    catalog_version: u64,
    keys: &[Vec<u8>],
) -> Result<u64> {
    let db = &listener.db;
    let metadata_locks = db.metadata_locks().session();
    let deadline = db.clock().now() + Duration::from_secs(1);
    let locked = metadata_locks.share_for_writing(&container.write_set, deadline, &Cancel::new());
    if locked.is_err() || db.catalog_version() != catalog_version {
        metadata_locks.end();
        return Err(Error::DefinitionChanged);
    }
    let deleted = delete_in_transaction(listener, container, keys);
    metadata_locks.end();
    deleted
}

/// As [`delete`], while the metadata locks are held.
fn delete_in_transaction(
    listener: &ListenerState,
    container: &Container,
    keys: &[Vec<u8>],
) -> Result<u64> {
    let mut txn = listener.db.begin(BeginOptions::default())?;
    txn.set_lock_wait(Duration::from_millis(50));
    let now = listener.db.clock().unix_micros();
    let table = &container.table;
    let expired = txn.lock_present(table, keys, |row| container.expired(row, || now))?;
    if expired.is_empty() {
        return Ok(0);
    }
    let done = chunked_values::delete(container, &mut txn, expired)?;
    txn.commit()?;
    Ok(done.deleted)
}
