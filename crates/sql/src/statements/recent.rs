//! The last statements of a session: the batch that has not been counted by digest, and the source of
//! `events_statements_history`.
//!
//! A session appends each statement to its ring under the mutex of its entry in the process list,
//! which it locks at the end of a statement anyway. Every [`CAPACITY`] statements, and whenever
//! statistics are read, the batch is counted ([`Digests::record`]): one addition to shared counters
//! then covers all statements of a digest.
//!
//! Invariant: each statement is counted once, before its place in the ring is used again.

use super::Completed;
use super::digests::Digests;
use smallvec::SmallVec;

/// Number of statements kept, and maximum size of a batch.
const CAPACITY: u64 = 16;

/// Number of statements of a session that `events_statements_history` shows
/// (`performance_schema_events_statements_history_size` of MySQL).
pub(crate) const HISTORY: usize = 10;

/// Sums over the counted statements of sessions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Number of statements.
    pub(crate) statements: u64,
    /// Total time, in nanoseconds.
    pub(crate) nanos: u64,
    /// Number of statements that read a whole table.
    pub(crate) table_scans: u64,
}

impl Totals {
    /// Adds the sums of another session.
    pub(crate) fn add(&mut self, other: &Totals) {
        self.statements += other.statements;
        self.nanos = self.nanos.saturating_add(other.nanos);
        self.table_scans += other.table_scans;
    }
}

/// The last statements of a session.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    ring: Vec<Completed>,
    /// Number of statements since the start of the session.
    ended: u64,
    /// Number of those that have been counted.
    counted: u64,
    totals: Totals,
}

impl Recent {
    /// Adds a statement. Returns true if the batch must be counted before the next one.
    #[inline]
    pub(crate) fn push(&mut self, statement: Completed) -> bool {
        let at = (self.ended % CAPACITY) as usize;
        match self.ring.get_mut(at) {
            Some(place) => *place = statement,
            None => self.ring.push(statement),
        }
        self.ended += 1;
        self.ended - self.counted >= CAPACITY
    }

    fn get(&self, number: u64) -> Option<&Completed> {
        self.ring.get((number % CAPACITY) as usize)
    }

    /// Counts the batch by digest. `text` is the text of the last statement.
    pub(crate) fn count(&mut self, digests: &Digests, text: &[u8]) {
        if self.counted == self.ended {
            return;
        }
        let batch: SmallVec<[Completed; CAPACITY as usize]> = (self.counted..self.ended)
            .filter_map(|number| self.get(number).copied())
            .collect();
        self.counted = self.ended;
        for statement in &batch {
            self.totals.statements += 1;
            self.totals.nanos = self.totals.nanos.saturating_add(statement.nanos);
            self.totals.table_scans += u64::from(statement.scanned_table);
        }
        digests.record(&batch, text);
    }

    /// The last [`HISTORY`] statements with their numbers in the session, oldest first.
    pub(crate) fn history(&self) -> impl Iterator<Item = (u64, &Completed)> {
        let first = self.ended.saturating_sub(HISTORY as u64);
        (first..self.ended).filter_map(|number| Some((number + 1, self.get(number)?)))
    }

    /// Number of statements since the start of the session.
    pub(crate) fn ended(&self) -> u64 {
        self.ended
    }

    /// Sums over the statements that have been counted.
    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statements::digests::DigestKey;
    use std::time::Instant;

    #[test]
    fn each_statement_is_counted_once() {
        let digests = Digests::new(Instant::now(), 10);
        let key = |text: &str| DigestKey {
            database: None,
            text: text.to_owned(),
        };
        let numbers = [digests.number(key("A")), digests.number(key("B"))];
        let mut recent = Recent::default();
        for n in 0..1000u64 {
            let full = recent.push(Completed {
                digest: numbers[usize::from(n % 3 == 0)],
                error: 0,
                warnings: 0,
                scanned_table: n % 2 == 0,
                ended: Instant::now(),
                nanos: n,
                lock_nanos: 1,
                rows_affected: 0,
                rows_sent: 1,
                rows_examined: 2,
            });
            if full || n % 7 == 0 {
                recent.count(&digests, b"");
            }
        }
        recent.count(&digests, b"");
        let all = digests.summaries();
        let counts: Vec<_> = all.iter().map(|s| (s.count, s.rows_examined)).collect();
        assert_eq!(counts, [(666, 1332), (334, 668)]);
        assert_eq!(all[1].latencies.total(), 334);
        assert_eq!((all[0].min_nanos, all[1].max_nanos), (1, 999));
        let totals = recent.totals();
        assert_eq!((totals.statements, totals.table_scans), (1000, 500));
        assert_eq!(totals.nanos, 999 * 1000 / 2);
        let history: Vec<u64> = recent.history().map(|(_, s)| s.nanos).collect();
        assert_eq!(history, (990..1000).collect::<Vec<u64>>());
    }
}
