//! Statistics of operations by table and kind: number, rows, errors and times.
//!
//! A plan has the counters of its table and operation, which belong to the process. A part of a batch
//! adds to them once, whatever its number of rows. The time of a batch is divided equally among its
//! operations.
//!
//! Invariant: at most [`MAX_ENTRIES`] tables and operations have counters; further ones are not counted.

use parking_lot::Mutex;
use porpoise_base::histogram::{Counts, Histogram};
use porpoise_rows::command_summary::CommandSummary;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Maximum number of entries.
const MAX_ENTRIES: usize = 2000;

/// Counters of one operation on one table.
#[derive(Debug)]
pub(crate) struct OperationStatistics {
    text: String,
    database: String,
    count: AtomicU64,
    errors: AtomicU64,
    rows_read: AtomicU64,
    rows_changed: AtomicU64,
    nanos: AtomicU64,
    max_nanos: AtomicU64,
    /// The complement of the minimum, so that 0 means none.
    inverse_min_nanos: AtomicU64,
    latencies: Histogram,
    first_seen: OnceLock<Instant>,
    last_seen: Mutex<Option<Instant>>,
}

/// Effects of the operations of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effects {
    /// Number of operations.
    pub(crate) operations: u64,
    /// Rows read and sent.
    pub(crate) rows_read: u64,
    /// Rows changed.
    pub(crate) rows_changed: u64,
    /// Operations that failed.
    pub(crate) errors: u64,
}

impl OperationStatistics {
    fn new(text: String, database: String) -> OperationStatistics {
        OperationStatistics {
            text,
            database,
            count: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            rows_read: AtomicU64::new(0),
            rows_changed: AtomicU64::new(0),
            nanos: AtomicU64::new(0),
            max_nanos: AtomicU64::new(0),
            inverse_min_nanos: AtomicU64::new(0),
            latencies: Histogram::new(),
            first_seen: OnceLock::new(),
            last_seen: Mutex::new(None),
        }
    }

    /// Counts the operations of a part.
    pub(crate) fn count(&self, effects: Effects) {
        let add = |counter: &AtomicU64, n: u64| {
            if n > 0 {
                counter.fetch_add(n, Ordering::Relaxed);
            }
        };
        add(&self.count, effects.operations);
        add(&self.errors, effects.errors);
        add(&self.rows_read, effects.rows_read);
        add(&self.rows_changed, effects.rows_changed);
    }

    /// Records the time of `operations` operations of a batch, each of which took `share` of its time.
    pub(crate) fn time(&self, operations: u64, share: Duration, ended: Instant) {
        let nanos = u64::try_from(share.as_nanos()).unwrap_or(u64::MAX);
        self.nanos
            .fetch_add(nanos.saturating_mul(operations), Ordering::Relaxed);
        self.max_nanos.fetch_max(nanos, Ordering::Relaxed);
        self.inverse_min_nanos.fetch_max(!nanos, Ordering::Relaxed);
        self.latencies.record_nanos(nanos);
        self.first_seen.get_or_init(|| ended);
        // A thread that records at the same time has about the same time.
        if let Some(mut last) = self.last_seen.try_lock() {
            *last = Some(ended);
        }
    }
}

struct Registry {
    enabled: AtomicBool,
    entries: Mutex<BTreeMap<String, Arc<OperationStatistics>>>,
}

static REGISTRY: Registry = Registry {
    enabled: AtomicBool::new(true),
    entries: Mutex::new(BTreeMap::new()),
};

/// Switches statistics on or off for plans that are made later.
pub fn enable(on: bool) {
    REGISTRY.enabled.store(on, Ordering::Relaxed);
}

/// The counters of an operation on a table; `None` if statistics are off or there are too many.
pub(crate) fn of(text: &str, database: &str) -> Option<Arc<OperationStatistics>> {
    if !REGISTRY.enabled.load(Ordering::Relaxed) {
        return None;
    }
    let mut entries = REGISTRY.entries.lock();
    if let Some(found) = entries.get(text) {
        return Some(found.clone());
    }
    if entries.len() >= MAX_ENTRIES {
        return None;
    }
    let new = Arc::new(OperationStatistics::new(
        text.to_owned(),
        database.to_owned(),
    ));
    entries.insert(text.to_owned(), new.clone());
    Some(new)
}

/// Totals since the last reset, one for each operation and table; the text is, for example,
/// ``READ `shop`.`items` ``.
pub fn summaries() -> Vec<CommandSummary> {
    let entries: Vec<_> = REGISTRY.entries.lock().values().cloned().collect();
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let used = entries.iter().filter(|entry| read(&entry.count) > 0);
    used.map(|entry| {
        let inverse_min = read(&entry.inverse_min_nanos);
        let mut latencies = Counts::default();
        latencies.add(&entry.latencies);
        let last_seen = *entry.last_seen.lock();
        CommandSummary {
            text: entry.text.clone(),
            database: Some(entry.database.clone()),
            count: read(&entry.count),
            errors: read(&entry.errors),
            rows_read: read(&entry.rows_read),
            rows_changed: read(&entry.rows_changed),
            nanos: read(&entry.nanos),
            min_nanos: if inverse_min == 0 { 0 } else { !inverse_min },
            max_nanos: read(&entry.max_nanos),
            latencies,
            seen: entry.first_seen.get().copied().zip(last_seen),
        }
    })
    .collect()
}

/// Sets all counters to zero. The times of the first and the last batch stay.
pub fn reset() {
    for entry in REGISTRY.entries.lock().values() {
        for counter in [
            &entry.count,
            &entry.errors,
            &entry.rows_read,
            &entry.rows_changed,
            &entry.nanos,
            &entry.max_nanos,
            &entry.inverse_min_nanos,
        ] {
            counter.store(0, Ordering::Relaxed);
        }
        entry.latencies.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_summed_by_text() {
        let entry = of("READ `operation_statistics`", "d").unwrap();
        entry.count(Effects {
            operations: 3,
            rows_read: 2,
            errors: 1,
            ..Effects::default()
        });
        entry.time(3, Duration::from_micros(20), Instant::now());
        let mine = || {
            summaries()
                .into_iter()
                .find(|s| s.text.contains("operation_statistics"))
        };
        let found = mine().unwrap();
        assert_eq!((found.count, found.rows_read, found.errors), (3, 2, 1));
        assert_eq!(
            (found.nanos, found.min_nanos, found.max_nanos),
            (60_000, 20_000, 20_000)
        );
        assert_eq!(found.latencies.total(), 1);
        reset();
        assert!(mine().is_none());
    }
}
