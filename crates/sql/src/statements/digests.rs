//! Counters of statements by digest.
//!
//! A digest has one set of counters for each block of [`mod@porpoise_base::counters`], so that workers
//! of different cores write to different cache lines. A set is allocated when the first batch of
//! its block is counted; sessions count their statements in batches ([`super::recent`]).
//!
//! Sessions hold digests by number: a plan cache keeps the number beside the plan, and a statement
//! without a plan finds it by a hash of its text, so that the digest of a frequent statement is
//! computed once for each session.
//!
//! Invariants:
//! 1. A number denotes the same digest until the server stops; [`Digests::reset`] sets counters to
//!    zero. So a number that a session keeps never counts for another digest.
//! 2. Number 0 counts statements without a digest, and those of new digests once
//!    `performance_schema_digests_size` are known. As in MySQL it is shown with a NULL digest.
//! 3. A digest's text and sample have at most [`MAX_TEXT`] bytes, so the memory of this module has
//!    a limit.
//!
//! Rejected: reference-counted digests, whose counter all cores would write to for each statement;
//! counters in the session, summed by readers, which multiplies the memory by the sessions.

use super::Completed;
use super::latency::ClassLatency;
use parking_lot::{Mutex, RwLock};
use porpoise_base::counters::{BLOCKS, current_block};
use porpoise_base::histogram::{Counts, Histogram};
use porpoise_rows::command_summary::CommandSummary;
use porpoise_sql_parser::LexMode;
use porpoise_sql_parser::digest::text::prefix;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Maximum length of a digest's text and of a sample (`max_digest_length`).
pub(crate) const MAX_TEXT: usize = 1024;

/// Number of bytes of a text that are scanned for its digest; the rest is ignored.
const MAX_SCANNED: usize = 16 * 1024;

/// A statement's text without its values, of at most [`MAX_TEXT`] bytes; `None` if it has no tokens.
pub(crate) fn normalized_text(text: &[u8], mode: LexMode) -> Option<String> {
    let mut digest = prefix(text, mode, MAX_SCANNED)?;
    if digest.len() > MAX_TEXT {
        const CUT: &str = "...";
        digest.truncate(digest.floor_char_boundary(MAX_TEXT - CUT.len()));
        digest.push_str(CUT);
    }
    Some(digest)
}

/// The number of a digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct DigestId(u32);

/// The identity of a digest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DigestKey {
    /// The default database.
    pub(crate) database: Option<String>,
    /// The text without values.
    pub(crate) text: String,
}

/// Counters of the statements of one digest that ended in one block.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Tally {
    count: AtomicU64,
    errors: AtomicU64,
    warnings: AtomicU64,
    nanos: AtomicU64,
    max_nanos: AtomicU64,
    /// The complement of the minimum, so that 0 means none.
    inverse_min_nanos: AtomicU64,
    lock_nanos: AtomicU64,
    rows_affected: AtomicU64,
    rows_sent: AtomicU64,
    rows_examined: AtomicU64,
    table_scans: AtomicU64,
    /// End of the last statement, in nanoseconds after the server's start.
    last_seen: AtomicU64,
    latencies: Histogram,
}

/// Sums over the statements of one digest in a batch.
#[derive(Debug, Default)]
struct BatchSums {
    count: u64,
    errors: u64,
    warnings: u64,
    nanos: u64,
    max_nanos: u64,
    inverse_min_nanos: u64,
    lock_nanos: u64,
    rows_affected: u64,
    rows_sent: u64,
    rows_examined: u64,
    table_scans: u64,
}

impl BatchSums {
    #[inline]
    fn add(&mut self, statement: &Completed) {
        self.count += 1;
        self.errors += u64::from(statement.error != 0);
        self.warnings += u64::from(statement.warnings);
        self.nanos = self.nanos.saturating_add(statement.nanos);
        self.max_nanos = self.max_nanos.max(statement.nanos);
        self.inverse_min_nanos = self.inverse_min_nanos.max(!statement.nanos);
        self.lock_nanos = self.lock_nanos.saturating_add(statement.lock_nanos);
        self.rows_affected = self.rows_affected.saturating_add(statement.rows_affected);
        self.rows_sent += statement.rows_sent;
        self.rows_examined += statement.rows_examined;
        self.table_scans += u64::from(statement.scanned_table);
    }
}

impl Tally {
    fn add(&self, sums: &BatchSums) {
        let add = |counter: &AtomicU64, n: u64| {
            if n > 0 {
                counter.fetch_add(n, Ordering::Relaxed);
            }
        };
        add(&self.count, sums.count);
        add(&self.errors, sums.errors);
        add(&self.warnings, sums.warnings);
        add(&self.nanos, sums.nanos);
        add(&self.lock_nanos, sums.lock_nanos);
        add(&self.rows_affected, sums.rows_affected);
        add(&self.rows_sent, sums.rows_sent);
        add(&self.rows_examined, sums.rows_examined);
        add(&self.table_scans, sums.table_scans);
        raise(&self.max_nanos, sums.max_nanos);
        raise(&self.inverse_min_nanos, sums.inverse_min_nanos);
    }

    fn reset(&self) {
        let counters = [
            &self.count,
            &self.errors,
            &self.warnings,
            &self.nanos,
            &self.max_nanos,
            &self.inverse_min_nanos,
            &self.lock_nanos,
            &self.rows_affected,
            &self.rows_sent,
            &self.rows_examined,
            &self.table_scans,
            &self.last_seen,
        ];
        counters
            .iter()
            .for_each(|counter| counter.store(0, Ordering::Relaxed));
        self.latencies.reset();
    }
}

/// Raises a maximum; writes only if the value is greater.
fn raise(max: &AtomicU64, value: u64) {
    if value > max.load(Ordering::Relaxed) {
        max.fetch_max(value, Ordering::Relaxed);
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// An example of a digest's statements.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    /// The text, with values only if `statement_sample_values` is on.
    pub(crate) text: String,
    /// Nanoseconds from the server's start to the statement's end.
    pub(crate) seen: u64,
    /// Its time, in nanoseconds.
    pub(crate) nanos: u64,
}

#[derive(Debug)]
struct Digest {
    key: DigestKey,
    /// End of the first statement counted, in nanoseconds after the server's start.
    first_seen: AtomicU64,
    tallies: [OnceLock<Box<Tally>>; BLOCKS],
    /// The slowest statement seen.
    sample_nanos: AtomicU64,
    sample: Mutex<Option<Sample>>,
}

impl Digest {
    fn new(key: DigestKey) -> Digest {
        Digest {
            key,
            first_seen: AtomicU64::new(0),
            tallies: [const { OnceLock::new() }; BLOCKS],
            sample_nanos: AtomicU64::new(0),
            sample: Mutex::new(None),
        }
    }

    fn tallies(&self) -> impl Iterator<Item = &Tally> {
        self.tallies
            .iter()
            .filter_map(|tally| tally.get().map(Box::as_ref))
    }

    /// The sums over all blocks; `None` if no statement ended since the last reset.
    fn summary(&self) -> Option<Summary> {
        let mut sum = Summary {
            key: self.key.clone(),
            first_seen: self.first_seen.load(Ordering::Relaxed),
            sample: self.sample.lock().clone(),
            ..Summary::default()
        };
        let mut inverse_min = 0;
        for tally in self.tallies() {
            let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            sum.count += read(&tally.count);
            sum.errors += read(&tally.errors);
            sum.warnings += read(&tally.warnings);
            sum.nanos += read(&tally.nanos);
            sum.max_nanos = sum.max_nanos.max(read(&tally.max_nanos));
            inverse_min = inverse_min.max(read(&tally.inverse_min_nanos));
            sum.lock_nanos += read(&tally.lock_nanos);
            sum.rows_affected += read(&tally.rows_affected);
            sum.rows_sent += read(&tally.rows_sent);
            sum.rows_examined += read(&tally.rows_examined);
            sum.table_scans += read(&tally.table_scans);
            sum.last_seen = sum.last_seen.max(read(&tally.last_seen));
            sum.latencies.add(&tally.latencies);
        }
        sum.min_nanos = if inverse_min == 0 { 0 } else { !inverse_min };
        (sum.count > 0).then_some(sum)
    }
}

/// Totals of the statements of one digest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Summary {
    /// The digest; an empty text for statements without one.
    pub(crate) key: DigestKey,
    /// Number of statements.
    pub(crate) count: u64,
    /// Number of those that failed.
    pub(crate) errors: u64,
    /// Number of warnings.
    pub(crate) warnings: u64,
    /// Total time, in nanoseconds.
    pub(crate) nanos: u64,
    /// Minimum time, in nanoseconds.
    pub(crate) min_nanos: u64,
    /// Maximum time, in nanoseconds.
    pub(crate) max_nanos: u64,
    /// Total time of waits for locks, in nanoseconds.
    pub(crate) lock_nanos: u64,
    /// Rows changed.
    pub(crate) rows_affected: u64,
    /// Rows sent to clients.
    pub(crate) rows_sent: u64,
    /// Rows read.
    pub(crate) rows_examined: u64,
    /// Number of statements that read a whole table.
    pub(crate) table_scans: u64,
    /// End of the first statement, in nanoseconds after the server's start.
    pub(crate) first_seen: u64,
    /// End of the last statement, in nanoseconds after the server's start.
    pub(crate) last_seen: u64,
    /// The slowest statement.
    pub(crate) sample: Option<Sample>,
    /// Distribution of the times.
    pub(crate) latencies: Counts,
}

impl Default for DigestKey {
    /// The key of statements without a digest.
    fn default() -> DigestKey {
        DigestKey {
            database: None,
            text: String::new(),
        }
    }
}

/// Classes of statements in metrics: verbs, in lower case.
const CLASSES: [&str; 9] = [
    "select", "insert", "update", "delete", "replace", "call", "begin", "commit", "rollback",
];

/// The class of all other statements.
const OTHER_CLASS: &str = "other";

/// The digests that the server knows.
pub(crate) struct Digests {
    started: Instant,
    numbers: RwLock<HashMap<DigestKey, DigestId>>,
    /// By number.
    digests: Box<[OnceLock<Box<Digest>>]>,
    /// Whether samples have the values of their statements (`statement_sample_values`).
    sample_values: AtomicBool,
}

impl Digests {
    /// Creates an empty set that holds at most `capacity` digests.
    pub(crate) fn new(started: Instant, capacity: usize) -> Digests {
        let digests: Box<[OnceLock<Box<Digest>>]> =
            (0..=capacity).map(|_| OnceLock::new()).collect();
        if let Some(rest) = digests.first() {
            rest.get_or_init(|| Box::new(Digest::new(DigestKey::default())));
        }
        Digests {
            started,
            numbers: RwLock::default(),
            digests,
            sample_values: AtomicBool::new(false),
        }
    }

    /// Sets whether samples have the values of their statements.
    pub(crate) fn set_sample_values(&self, shown: bool) {
        self.sample_values.store(shown, Ordering::Relaxed);
    }

    /// The number of a digest, new or known.
    pub(crate) fn number(&self, key: DigestKey) -> DigestId {
        if let Some(known) = self.numbers.read().get(&key) {
            return *known;
        }
        let mut numbers = self.numbers.write();
        if let Some(known) = numbers.get(&key) {
            return *known;
        }
        let next = numbers.len() + 1;
        let (Some(slot), Ok(number)) = (self.digests.get(next), u32::try_from(next)) else {
            return DigestId::default();
        };
        slot.get_or_init(|| Box::new(Digest::new(key.clone())));
        numbers.insert(key, DigestId(number));
        DigestId(number)
    }

    /// Whether samples contain the values of their statements. If so, statements are not batched:
    /// each is counted at its end, while its text is known.
    #[inline]
    pub(crate) fn samples_values(&self) -> bool {
        self.sample_values.load(Ordering::Relaxed)
    }

    /// Counts a batch of statements, oldest first. `text` is the text of the last one.
    pub(crate) fn record(&self, batch: &[Completed], text: &[u8]) {
        let mut rest: SmallVec<[&Completed; 16]> = batch.iter().collect();
        while let Some(first) = rest.first().copied() {
            let slot = self.digests.get(first.digest.0 as usize);
            let digest = slot.and_then(OnceLock::get);
            let tally = digest.and_then(|digest| digest.tallies.get(current_block()));
            let tally = tally.map(|tally| tally.get_or_init(Box::default));
            let (mut sums, mut slowest, mut last) = (BatchSums::default(), first, first);
            rest.retain(|statement| {
                if statement.digest != first.digest {
                    return true;
                }
                sums.add(statement);
                if let Some(tally) = tally {
                    tally.latencies.record_nanos(statement.nanos);
                }
                if statement.nanos > slowest.nanos {
                    slowest = *statement;
                }
                last = *statement;
                false
            });
            if let (Some(digest), Some(tally)) = (digest, tally) {
                tally.add(&sums);
                self.note_times(digest, tally, (first, last));
                if slowest.nanos > digest.sample_nanos.load(Ordering::Relaxed) {
                    self.sample(digest, slowest, text);
                }
            }
        }
    }

    /// Nanoseconds from the server's start to an end of a statement, at least 1.
    pub(crate) fn after_start(&self, at: Instant) -> u64 {
        nanos(at.saturating_duration_since(self.started)).max(1)
    }

    fn note_times(&self, digest: &Digest, tally: &Tally, (first, last): (&Completed, &Completed)) {
        raise(&tally.last_seen, self.after_start(last.ended));
        if digest.first_seen.load(Ordering::Relaxed) == 0 {
            let seen = self.after_start(first.ended);
            digest.first_seen.store(seen, Ordering::Relaxed);
        }
    }

    /// Keeps the slowest statement as the sample.
    fn sample(&self, digest: &Digest, statement: &Completed, text: &[u8]) {
        let nanos = statement.nanos;
        digest.sample_nanos.store(nanos, Ordering::Relaxed);
        let text = if self.samples_values() {
            String::from_utf8_lossy(text.get(..MAX_TEXT).unwrap_or(text)).into_owned()
        } else {
            digest.key.text.clone()
        };
        *digest.sample.lock() = Some(Sample {
            text,
            seen: self.after_start(statement.ended),
            nanos,
        });
    }

    /// The digest of a number; `None` for statements without one.
    pub(crate) fn key(&self, digest: DigestId) -> Option<&DigestKey> {
        let found = self.digests.get(digest.0 as usize)?.get()?;
        Some(&found.key).filter(|key| !key.text.is_empty())
    }

    /// The sums of all digests with at least one statement since the last reset.
    pub(crate) fn summaries(&self) -> Vec<Summary> {
        let known = self.digests.iter().map_while(OnceLock::get);
        known.filter_map(|digest| digest.summary()).collect()
    }

    /// The summary of commands that are not SQL.
    pub(crate) fn summary_of(&self, command: CommandSummary) -> Summary {
        let (first, last) = command.seen.unwrap_or((self.started, self.started));
        Summary {
            key: DigestKey {
                database: command.database,
                text: command.text,
            },
            count: command.count,
            errors: command.errors,
            nanos: command.nanos,
            min_nanos: command.min_nanos,
            max_nanos: command.max_nanos,
            rows_affected: command.rows_changed,
            rows_sent: command.rows_read,
            rows_examined: command.rows_read,
            first_seen: self.after_start(first),
            last_seen: self.after_start(last),
            latencies: command.latencies,
            ..Summary::default()
        }
    }

    /// The sums by class of statements, for metrics.
    pub(crate) fn latencies(&self) -> Vec<ClassLatency> {
        let mut classes: Vec<ClassLatency> = CLASSES
            .iter()
            .chain(&[OTHER_CLASS])
            .map(|class| ClassLatency::new(class))
            .collect();
        for summary in self.summaries() {
            let verb = summary.key.text.split(' ').next().unwrap_or_default();
            let known = |class: &ClassLatency| class.class.eq_ignore_ascii_case(verb);
            let at = classes.iter().position(known).unwrap_or(CLASSES.len());
            if let Some(class) = classes.get_mut(at) {
                class.add_counts(&summary.latencies, summary.nanos);
            }
        }
        classes
    }

    /// The distribution of the times of all statements since the last reset.
    pub(crate) fn latency_counts(&self) -> Counts {
        let mut counts = Counts::default();
        for digest in self.digests.iter().map_while(OnceLock::get) {
            digest
                .tallies()
                .for_each(|tally| counts.add(&tally.latencies));
        }
        counts
    }

    /// Sets all counters to zero.
    pub(crate) fn reset(&self) {
        for digest in self.digests.iter().map_while(OnceLock::get) {
            digest.tallies().for_each(Tally::reset);
            digest.first_seen.store(0, Ordering::Relaxed);
            digest.sample_nanos.store(0, Ordering::Relaxed);
            *digest.sample.lock() = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(digest: DigestId, micros: u64, error: u16) -> Completed {
        Completed {
            digest,
            ended: Instant::now(),
            nanos: micros * 1000,
            lock_nanos: 0,
            error,
            warnings: 0,
            rows_affected: 0,
            rows_sent: 2,
            rows_examined: 3,
            scanned_table: true,
        }
    }

    fn key(text: &str) -> DigestKey {
        DigestKey {
            database: Some("d".to_owned()),
            text: text.to_owned(),
        }
    }

    #[test]
    fn executions_of_all_threads_are_summed_by_digest() {
        let digests = Digests::new(Instant::now(), 10);
        let select = digests.number(key("SELECT ?"));
        assert_eq!(digests.number(key("SELECT ?")), select);
        assert_ne!(digests.number(key("DO ?")), select);
        std::thread::scope(|scope| {
            for block in 0..3 {
                let digests = &digests;
                scope.spawn(move || {
                    porpoise_base::counters::use_block(block);
                    digests.record(&[completed(select, 100 + block as u64, 0)], b"");
                });
            }
        });
        digests.record(&[completed(select, 5000, 1146)], b"select 42");
        let all = digests.summaries();
        let [one] = all.as_slice() else {
            panic!("{all:?}");
        };
        assert_eq!((one.count, one.errors, one.rows_sent), (4, 1, 8));
        assert_eq!((one.min_nanos, one.max_nanos), (100_000, 5_000_000));
        assert_eq!((one.table_scans, one.rows_examined), (4, 12));
        assert_eq!(one.latencies.total(), 4);
        let before = digests.latency_counts();
        assert_eq!(before.total(), 4);
        assert!(one.first_seen <= one.last_seen);
        assert_eq!(one.sample.as_ref().unwrap().text, "SELECT ?");
        digests.reset();
        assert!(digests.summaries().is_empty());
        assert_eq!(digests.latency_counts().since(&before).total(), 0);
        digests.set_sample_values(true);
        digests.record(&[completed(select, 7, 0)], b"select 42");
        let all = digests.summaries();
        assert_eq!(all[0].sample.as_ref().unwrap().text, "select 42");
        assert_eq!((all[0].count, all[0].min_nanos), (1, 7000));
    }

    #[test]
    fn digests_beyond_the_capacity_are_counted_together() {
        let digests = Digests::new(Instant::now(), 2);
        let batch = ["A", "B", "C", "D"].map(|text| completed(digests.number(key(text)), 1, 0));
        digests.record(&batch, b"");
        let classes = digests.latencies();
        let other = classes.last().unwrap();
        assert_eq!((other.class, other.total), ("other", 4));
        assert_eq!(other.counts.first(), Some(&(64e-6, 4)));
        let counts: Vec<_> = digests
            .summaries()
            .into_iter()
            .map(|s| (s.key.text, s.count))
            .collect();
        let expected = [("", 2), ("A", 1), ("B", 1)];
        assert_eq!(counts, expected.map(|(text, n)| (text.to_owned(), n)));
    }
}
