//! Throttling of the work on existing rows while other sessions use the table.
//!
//! While other sessions use the table, batches are small, and each is followed by a sleep for a
//! multiple of the time that it took, so that the work takes a small part of one processor. On a cluster most of a
//! batch's time is spent waiting for stores: batches are larger there, and the sleep is as long as the batch.

use crate::db::Db;
use crate::ddl::DdlCx;
use crate::definition::TableId;
use crate::error::{Error, Result};
use porpoise_base::blocking::blocking;
use porpoise_kv as kv;
use std::time::{Duration, Instant};

/// Rows in a transaction, if no other session uses the table.
const BATCH: usize = 1000;
/// Longest sleep after a batch.
const MAX_SLEEP: Duration = Duration::from_millis(100);

/// Sizes while other sessions use the table.
#[derive(Clone, Copy)]
struct BesideOthers {
    /// Rows in a transaction.
    batch: usize,
    /// The sleep after a batch is this multiple of the batch's time.
    sleep_factor: u32,
}

const EMBEDDED: BesideOthers = BesideOthers {
    batch: 64,
    sleep_factor: 15,
};
const CLUSTER: BesideOthers = BesideOthers {
    batch: 256,
    sleep_factor: 1,
};

/// The time for which a table counts as used after a session was seen to use it.
const USED_FOR: Duration = Duration::from_secs(1);

/// Throttle of the work on one table.
pub(in crate::ddl) struct Throttle<'a> {
    cx: &'a DdlCx<'a>,
    table: TableId,
    beside_others: BesideOthers,
    /// Time at which another session was last seen to use the table.
    seen_used: Option<Instant>,
    is_used: bool,
    began: Instant,
}

impl<'a> Throttle<'a> {
    pub(in crate::ddl) fn new(db: &Db, cx: &'a DdlCx<'a>, table: TableId) -> Throttle<'a> {
        let beside_others = if db.is_clustered() { CLUSTER } else { EMBEDDED };
        Throttle {
            cx,
            table,
            beside_others,
            seen_used: None,
            is_used: false,
            began: Instant::now(),
        }
    }

    /// Begins a batch. Returns the number of its rows.
    ///
    /// # Errors
    /// A cancellation.
    pub(in crate::ddl) fn begin(&mut self) -> Result<usize> {
        check_cancel(self.cx)?;
        let now = Instant::now();
        if self.cx.metadata_locks.is_used_by_others(self.table) {
            self.seen_used = Some(now);
        }
        self.is_used = self.seen_used.is_some_and(|seen| now - seen < USED_FOR);
        self.began = now;
        Ok(if self.is_used {
            self.beside_others.batch
        } else {
            BATCH
        })
    }

    /// Ends a batch of this number of rows: shows the progress, and sleeps.
    pub(in crate::ddl) fn end(&self, rows: usize) {
        self.cx.metadata_locks.progress().advance(rows as u64);
        if self.is_used {
            let sleep = self.began.elapsed() * self.beside_others.sleep_factor;
            pause(sleep.min(MAX_SLEEP));
        }
    }
}

/// Fails if the statement was cancelled.
pub(in crate::ddl) fn check_cancel(cx: &DdlCx<'_>) -> Result<()> {
    match cx.cancel.reason() {
        None => Ok(()),
        Some(reason) => Err(Error::Kv(kv::Error::Cancelled(reason))),
    }
}

pub(super) fn pause(time: Duration) {
    blocking(|| std::thread::sleep(time));
}
