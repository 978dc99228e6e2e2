//! Statistics of tables for the planner: rows and distinct values of indexes.
//!
//! Statistics are sampled when a plan first needs them, or with more effort by ANALYZE TABLE, and
//! kept in memory until the table's definition changes, or it has grown or shrunk so much that they
//! mislead. They are not part of the catalog: a restarted server samples again, which takes
//! milliseconds.
//!
//! Invariants:
//! 1. Statistics affect speed, never results: a table that cannot be sampled is planned with
//!    default guesses.
//! 2. [`Statistics::epoch`] grows whenever statistics that plans may have used change; cached plans
//!    are then rebuilt.
//! 3. Statements that scan check for outdated statistics, at most once a second over all sessions
//!    ([`Statistics::drop_outdated`]); lookups by whole keys never do.

use parking_lot::RwLock;
use porpoise_base::blocking::blocking;
use porpoise_rows::Db;
use porpoise_rows::catalog::{Table, TableId};
use porpoise_rows::sample::{Effort, Sample};
use porpoise_types::Value;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Interval of checks for outdated statistics, in milliseconds.
const CHECK_INTERVAL_MS: u64 = 1000;

/// Statistics of one table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableStatistics {
    /// Estimated number of rows.
    pub rows: f64,
    /// For each index: estimated number of distinct values of the first part, of the first two
    /// parts, and so on.
    pub distinct: Vec<Vec<f64>>,
}

impl TableStatistics {
    fn new(sample: &Sample) -> TableStatistics {
        let of_index = |parts: &Vec<u64>| parts.iter().map(|n| *n as f64).collect();
        TableStatistics {
            rows: sample.rows as f64,
            distinct: sample.distinct.iter().map(of_index).collect(),
        }
    }

    /// Default statistics of a table that cannot be sampled.
    pub fn unknown() -> TableStatistics {
        TableStatistics {
            rows: 1000.0,
            distinct: Vec::new(),
        }
    }

    /// Estimated number of distinct values of the first `parts` parts of an index; at least 1.
    pub fn distinct(&self, index: usize, parts: usize) -> f64 {
        let known = self.distinct.get(index);
        let at = parts.checked_sub(1);
        let found = at.and_then(|at| known?.get(at)).copied();
        found
            .unwrap_or_else(|| (self.rows / 10.0).max(1.0))
            .max(1.0)
    }
}

impl TableStatistics {
    /// As shown by `SHOW INDEX`: distinct values of the first `parts` parts; 0 for an empty table.
    pub fn cardinality(&self, index: usize, parts: u64) -> u64 {
        let parts = usize::try_from(parts).unwrap_or(usize::MAX);
        if self.rows < 1.0 {
            0
        } else {
            self.distinct(index, parts).round() as u64
        }
    }
}

/// Source of the statistics of tables.
pub trait StatisticsSource {
    /// The statistics of a table: sampled if they are not known, or guesses.
    fn of(&self, _table: &Table) -> Arc<TableStatistics> {
        Arc::new(TableStatistics::unknown())
    }

    /// The value of a parameter of the statement, for the plan of this execution only; `None` if
    /// the value is not known yet. The plan is not kept in either case.
    fn parameter(&self, _number: usize) -> Option<Value> {
        None
    }

    /// Whether the engine has the table in this process, so that a read costs no round trip.
    fn is_local(&self, _table: &Table) -> bool {
        true
    }

    /// Counts beginnings of join orders whose cost was estimated
    /// (`Last_query_partial_plans`).
    fn note_partial_plans(&self, _count: u64) {}

    /// Whether estimates will be shown (EXPLAIN), and are needed even where a plan has no choice.
    fn estimates_are_shown(&self) -> bool {
        false
    }

    /// Records that a plan made for a text without its literals could be better with them: it is not
    /// kept.
    fn depends_on_literals(&self) {}
}

struct Entry {
    /// The table's definition version at the time of sampling.
    version: u32,
    statistics: Arc<TableStatistics>,
    /// The engine's row count at the time of sampling.
    row_count: Option<u64>,
}

impl Entry {
    /// Whether the table has changed so much that the statistics mislead.
    fn is_outdated(&self, now: Option<u64>) -> bool {
        let (Some(then), Some(now)) = (self.row_count, now) else {
            return false;
        };
        let (less, more) = (then.min(now), then.max(now));
        more > 2 * less + 100
    }
}

/// The statistics of all tables.
pub struct Statistics {
    known: RwLock<HashMap<TableId, Entry>>,
    epoch: AtomicU64,
    /// Time of the next check for outdated statistics, in milliseconds since the start.
    next: AtomicU64,
    started: Instant,
}

impl Default for Statistics {
    fn default() -> Statistics {
        Statistics {
            known: RwLock::default(),
            epoch: AtomicU64::new(0),
            next: AtomicU64::new(CHECK_INTERVAL_MS),
            started: Instant::now(),
        }
    }
}

impl Statistics {
    /// Grows when cached plans must be rebuilt.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// The statistics of a table, sampled now if they are not known.
    pub fn of(&self, db: &Arc<Db>, table: &Table) -> Arc<TableStatistics> {
        let row_count = db.approximate_rows(table);
        if let Some(entry) = self.known.read().get(&table.id)
            && entry.version == table.version
            && !entry.is_outdated(row_count)
        {
            return entry.statistics.clone();
        }
        self.sample(db, table, Effort::QUICK)
    }

    /// The statistics of a table if they are known; never samples.
    pub fn cached(&self, table: &Table) -> Option<Arc<TableStatistics>> {
        let known = self.known.read();
        let entry = known.get(&table.id).filter(|e| e.version == table.version);
        entry.map(|e| e.statistics.clone())
    }

    /// Estimated number of rows, as information_schema shows it: the engine's count, else the last
    /// sample's; NULL if there is neither.
    pub fn rows(&self, db: &Db, table: &Table) -> Value {
        let sampled = || self.cached(table).map(|statistics| statistics.rows as u64);
        let row_count = db.approximate_rows(table).or_else(sampled);
        row_count.map_or(Value::Null, Value::UInt)
    }

    /// ANALYZE TABLE: samples a table with more effort.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn analyze(&self, db: &Arc<Db>, table: &Table) -> porpoise_rows::Result<()> {
        let row_count = db.approximate_rows(table);
        let sample = blocking(|| db.sample(table, Effort::THOROUGH))?;
        self.keep(table, TableStatistics::new(&sample), row_count);
        self.epoch.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn sample(&self, db: &Arc<Db>, table: &Table, effort: Effort) -> Arc<TableStatistics> {
        let row_count = db.approximate_rows(table);
        match db.sample(table, effort) {
            Ok(sample) => self.keep(table, TableStatistics::new(&sample), row_count),
            Err(_) => Arc::new(TableStatistics::unknown()),
        }
    }

    fn keep(
        &self,
        table: &Table,
        statistics: TableStatistics,
        row_count: Option<u64>,
    ) -> Arc<TableStatistics> {
        let statistics = Arc::new(statistics);
        let entry = Entry {
            version: table.version,
            statistics: statistics.clone(),
            row_count,
        };
        self.known.write().insert(table.id, entry);
        statistics
    }

    /// Drops outdated statistics and those of dropped tables, if the check is due. Costs one clock
    /// reading otherwise.
    pub fn drop_outdated(&self, db: &Db) {
        let now = self.started.elapsed().as_millis();
        let now = u64::try_from(now).unwrap_or(u64::MAX);
        let next = self.next.load(Ordering::Relaxed);
        let then = now.saturating_add(CHECK_INTERVAL_MS);
        let (relaxed, next_is) = (Ordering::Relaxed, &self.next);
        if now < next
            || next_is
                .compare_exchange(next, then, relaxed, relaxed)
                .is_err()
        {
            return;
        }
        let catalog = db.catalog();
        let engine = db.engine();
        let stale = |id: &TableId, entry: &Entry| {
            catalog.tables.get(id).is_none_or(|table| {
                entry.version != table.version
                    || entry.is_outdated(engine.approximate_keys(table.index_spaces(0)))
            })
        };
        let known = self.known.read();
        let gone: Vec<TableId> = known
            .iter()
            .filter(|(id, entry)| stale(id, entry))
            .map(|(id, _)| *id)
            .collect();
        drop(known);
        if !gone.is_empty() {
            self.known.write().retain(|id, _| !gone.contains(id));
            self.epoch.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_mislead_when_the_table_doubled_or_halved() {
        let entry = |row_count| Entry {
            version: 1,
            statistics: Arc::new(TableStatistics::unknown()),
            row_count,
        };
        assert!(!entry(Some(1000)).is_outdated(Some(2000)));
        assert!(entry(Some(1000)).is_outdated(Some(2101)));
        assert!(entry(Some(10_000)).is_outdated(Some(4000)));
        assert!(!entry(Some(0)).is_outdated(Some(100)));
        assert!(!entry(None).is_outdated(Some(100_000)));
    }
}
