//! The reaper: deletes expired rows in the background.
//!
//! To memcached commands a row is absent from its expiry time on; for foreign and unique keys it
//! exists until it is deleted (transactions.md, rule 46), by a writer of the same key or by this
//! thread. The thread scans the tables of containers that have an `expire_time_column` at a
//! snapshot, and deletes expired rows in small transactions.
//!
//! Invariants, beside those of [`porpoise_rows::reap`]:
//! 1. Between two passes over the tables, the thread pauses for the configured time, or for twenty
//!    times the duration of the last pass if that is longer: scans use less than a twentieth of
//!    one core.
//!
//! If several servers share an engine, the thread also checks whether another server has changed
//! the configuration.
//!
//! Tables with a TTL clause are also scanned by the server's own thread
//! (`porpoise_sql::ttl_reaper`).
//!
//! Rejected: an index on the expiry time, which every write would have to maintain.

use crate::container::Container;
use crate::container::chunked_values;
use crate::context::ListenerState;
use parking_lot::{Condvar, Mutex};
use porpoise_base::threads::{self, Role};
use porpoise_rows::Result;
use porpoise_rows::reap::{Reap, RowTest};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

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
                    // A standby does not expire rows itself: it applies the deletions of its source.
                    if listener.db.is_read_only() {
                        continue;
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
        deleted += scan_container(listener, container, signal)?;
    }
    Ok(deleted)
}

/// Scans a container's table and deletes its expired rows. Returns their number.
fn scan_container(listener: &ListenerState, container: &Container, signal: &Signal) -> Result<u64> {
    let db = &listener.db;
    let expired = || -> Box<RowTest<'_>> {
        let now = db.clock().unix_micros();
        Box::new(move |row| container.expired(row, || now))
    };
    let reap = Reap {
        db,
        table: &container.table,
        write_set: &container.write_set,
        expired: &expired,
        delete: &|txn, rows| Ok(chunked_values::delete(container, txn, rows)?.deleted),
        go_on: &|| !*signal.stop.lock(),
    };
    Ok(reap.run()?.deleted)
}
