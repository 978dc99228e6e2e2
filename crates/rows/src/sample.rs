//! Statistics of a table by sampling: how many rows, and how many different
//! values the leading parts of each index have.
//!
//! An index of few entries is walked as a whole. Of a longer one, runs of
//! consecutive entries are read at places spread over its keys; where a part
//! changes within a run shows how long the stretches of equal values are.
//!
//! 1. Places are found by interpolating between the first and the last key:
//!    after what both have in common, eight bytes are taken as a number.
//! 2. With `c` changes among `p` neighbouring pairs, an index of `n` entries
//!    has about `n * c / p` different values, at least as many as the runs
//!    showed, and at most `n`. A place found by interpolation mostly begins a
//!    stretch, so that a run goes on to where the first part changes, but not
//!    for ever; where runs were broken off and each showed another value, the
//!    truth lies between what they showed and what they allow.
//! 3. `n` is the engine's own count where it has one; otherwise it follows
//!    from the part of the key space that the runs cover.
//!
//! Rejected: random walks down the engine's tree (an engine behind a network
//! has none to offer); counting every row (a million take longer than most
//! statements that wait for the answer).

use crate::db::Db;
use crate::table::Table;
use crate::txn::{BeginOptions, Txn};
use crate::{Error, KeyRange, Result, ScanPosition, ScanSpec};
use porpoise_base::interrupt;
use porpoise_kv::Read;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// How much is read of an index.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Up to so many entries it is walked as a whole.
    pub whole: u64,
    /// Runs otherwise.
    pub runs: u64,
    /// Entries a run.
    pub length: u64,
    /// Entries at most of a run that waits for its first part to change.
    pub longest: u64,
}

impl Effort {
    /// For a statement that waits to be planned.
    pub const QUICK: Effort = Effort {
        whole: 2_000,
        runs: 20,
        length: 64,
        longest: 1_000,
    };

    /// For ANALYZE TABLE.
    pub const THOROUGH: Effort = Effort {
        whole: 100_000,
        runs: 256,
        length: 128,
        longest: 10_000,
    };
}

/// What was found of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// About how many rows it has.
    pub rows: u64,
    /// For each index, about how many different values its first part has,
    /// its first two together, and so on. 1 at least.
    pub distinct: Vec<Vec<u64>>,
}

/// What the runs over one index showed.
#[derive(Default)]
struct Seen {
    pairs: u64,
    entries: u64,
    /// Runs that ended before their first part changed.
    broken: u64,
    /// By number of leading parts less one.
    changes: Vec<u64>,
    values: Vec<HashSet<Vec<u8>>>,
    before: Option<Vec<u8>>,
}

impl Seen {
    fn new(parts: usize) -> Seen {
        Seen {
            changes: vec![0; parts],
            values: vec![HashSet::new(); parts],
            ..Seen::default()
        }
    }

    fn add(&mut self, key: &[u8], ends: &[usize]) {
        self.entries += 1;
        let before = self.before.replace(key.to_vec());
        self.pairs += u64::from(before.is_some());
        let each = ends.iter().zip(&mut self.changes).zip(&mut self.values);
        for ((end, changes), values) in each {
            let leading = key.get(..*end).unwrap_or(key);
            let same = before.as_ref().is_some_and(|b| b.starts_with(leading));
            if same {
                continue;
            }
            *changes += u64::from(before.is_some());
            values.insert(leading.to_vec());
        }
    }

    fn first_changes(&self) -> u64 {
        self.changes.first().copied().unwrap_or(0)
    }

    fn distinct(&self, entries: u64, whole: bool) -> Vec<u64> {
        let each = self.changes.iter().zip(&self.values);
        each.map(|(changes, values)| {
            let seen = values.len() as u64;
            let guess = match (whole, self.pairs) {
                (true, _) | (_, 0) => seen,
                (false, pairs) => {
                    // Broken runs that all showed different values may have
                    // been about to change.
                    let about = if 2 * seen > self.broken {
                        self.broken
                    } else {
                        0
                    };
                    let least = entries as f64 * *changes as f64 / pairs as f64;
                    let most = entries as f64 * (changes + about) as f64 / pairs as f64;
                    (least.max(seen as f64) * most.max(seen as f64)).sqrt() as u64
                }
            };
            guess.max(seen).min(entries).max(1)
        })
        .collect()
    }
}

impl Db {
    /// About how many rows a table has; `None` where only counting would say.
    pub fn approximate_rows(&self, table: &Table) -> Option<u64> {
        self.engine().approximate_keys(table.index_spaces(0))
    }

    /// Samples a table, in a transaction of its own. Passes a checkpoint at every 1,024 entries
    /// at least.
    ///
    /// # Errors
    /// The engine's, and that of a statement that was ended from outside.
    pub fn sample(self: &Arc<Self>, table: &Table, effort: Effort) -> Result<Sample> {
        let mut txn = self.begin(BeginOptions::default())?;
        let mut sample = Sample {
            rows: 0,
            distinct: Vec::with_capacity(table.indexes.len()),
        };
        for index in 0..table.indexes.len() {
            let (entries, distinct) = sample_index(self, &mut txn, table, index, effort)?;
            if index == 0 {
                sample.rows = entries;
            }
            sample.distinct.push(distinct);
        }
        txn.rollback();
        Ok(sample)
    }
}

fn spec(index: usize, range: KeyRange, reverse: bool) -> ScanSpec {
    ScanSpec {
        index,
        ranges: vec![range],
        reverse,
        entries_only: true,
    }
}

/// Reads so many entries from the start of a range on, at most the second
/// number where the first part does not change; whether the range went on, and
/// the last key.
fn run(
    txn: &mut Txn,
    table: &Table,
    spec: &ScanSpec,
    (usual, most): (u64, u64),
    seen: &mut Seen,
) -> Result<(bool, Option<Vec<u8>>)> {
    let mut position = ScanPosition::default();
    let (mut read, changes) = (0, seen.first_changes());
    let mut last: Option<Vec<u8>> = None;
    let mut ends = Vec::new();
    seen.before = None;
    let mut more = true;
    while more && read < most && (read < usual || seen.first_changes() == changes) {
        interrupt::check().map_err(|ended| Error::Kv(porpoise_kv::Error::Cancelled(ended.0)))?;
        let limit = usize::try_from(usual.clamp(1, 1024)).unwrap_or(1024);
        let mut got = 0;
        let at = (&mut position, limit);
        more = txn.scan_entries(table, spec, None, Read::SNAPSHOT, at, &mut |_, key, _| {
            got += 1;
            ends.clear();
            if table.part_ends(spec.index, key, &mut ends) {
                seen.add(key, &ends);
            }
            match &mut last {
                Some(last) => {
                    last.clear();
                    last.extend_from_slice(key);
                }
                None => last = Some(key.to_vec()),
            }
            ControlFlow::Continue(())
        })?;
        read += got;
    }
    seen.broken += u64::from(more && seen.first_changes() == changes);
    Ok((more, last))
}

fn sample_index(
    db: &Db,
    txn: &mut Txn,
    table: &Table,
    index: usize,
    effort: Effort,
) -> Result<(u64, Vec<u64>)> {
    let parts = table.indexes.get(index).map_or(0, |i| i.parts.len());
    let counted = db.engine().approximate_keys(table.index_spaces(index));
    let most = match counted {
        Some(n) if n > effort.whole => (effort.length, effort.longest),
        _ => (effort.whole, effort.whole),
    };
    let mut seen = Seen::new(parts);
    let all = spec(index, KeyRange::ALL, false);
    let (more, end_of_first) = run(txn, table, &all, most, &mut seen)?;
    if !more {
        let entries = seen.entries;
        let distinct = seen.distinct(entries, true);
        return Ok((entries, distinct));
    }
    let mut ignored = Seen::new(0);
    let backwards = spec(index, KeyRange::ALL, true);
    let (_, highest) = run(txn, table, &backwards, (1, 1), &mut ignored)?;
    let (Some(low), Some(high)) = (end_of_first, highest) else {
        let entries = counted.unwrap_or(seen.entries);
        return Ok((entries, seen.distinct(entries, false)));
    };
    let line = Line::new(&low, &high);
    let before = seen.entries;
    let mut covered = 0.0;
    for at in 0..effort.runs {
        let start = line.at(at, effort.runs);
        let from = line.place(&start);
        let range = KeyRange { start, end: None };
        let spec = spec(index, range, false);
        let (_, last) = run(
            txn,
            table,
            &spec,
            (effort.length, effort.longest),
            &mut seen,
        )?;
        if let Some(last) = last {
            covered += (line.place(&last) - from).max(0.0);
        }
    }
    let entries = counted.unwrap_or_else(|| {
        let density = (seen.entries - before) as f64 / covered.max(1e-9);
        before.saturating_add((density.min(1e18)) as u64)
    });
    Ok((entries, seen.distinct(entries, false)))
}

/// The keys between two, as numbers.
struct Line {
    common: Vec<u8>,
    low: u64,
    high: u64,
}

impl Line {
    fn new(low: &[u8], high: &[u8]) -> Line {
        let common = low.iter().zip(high).take_while(|(a, b)| a == b).count();
        let common = low.get(..common).unwrap_or_default().to_vec();
        let number = |key: &[u8]| number(key.get(common.len()..).unwrap_or_default());
        Line {
            low: number(low),
            high: number(high).max(number(low)),
            common,
        }
    }

    /// A key between so many of `steps` of the way and the next step: not at
    /// equal distances, lest they fall in with a regularity of the keys.
    fn at(&self, step: u64, steps: u64) -> Vec<u8> {
        let whole = u128::from(self.high - self.low);
        let aside = u128::from(step * 618 % 1000);
        let way = whole * (u128::from(step) * 1000 + aside) / (u128::from(steps.max(1)) * 1000);
        let number = self.low + u64::try_from(way).unwrap_or(0);
        let mut key = self.common.clone();
        key.extend_from_slice(&number.to_be_bytes());
        key
    }

    /// How far along the way a key is, from 0 to 1.
    fn place(&self, key: &[u8]) -> f64 {
        let number = match key.strip_prefix(self.common.as_slice()) {
            Some(rest) => number(rest),
            None => self.high,
        };
        let way = number.clamp(self.low, self.high) - self.low;
        way as f64 / ((self.high - self.low) as f64).max(1.0)
    }
}

fn number(bytes: &[u8]) -> u64 {
    let eight = bytes.iter().copied().chain(std::iter::repeat(0)).take(8);
    eight.fold(0, |n, b| n << 8 | u64::from(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_lie_between_the_ends_in_order() {
        let line = Line::new(b"user0001", b"user9999");
        let keys: Vec<Vec<u8>> = (0..10).map(|n| line.at(n, 10)).collect();
        assert!(keys.windows(2).all(|w| w[0] < w[1]));
        assert!(keys.iter().all(|k| k.as_slice() < b"user9999".as_slice()));
        let places: Vec<f64> = keys.iter().map(|k| line.place(k)).collect();
        assert!((places[5] - 0.5).abs() < 0.01);
    }

    #[test]
    fn changes_between_neighbours_tell_how_many_values_there_are() {
        let mut seen = Seen::new(1);
        for n in 0..100u8 {
            seen.add(&[n / 10, n], &[1]);
        }
        assert_eq!(seen.distinct(100, true), [10]);
        // 9 changes in 99 pairs.
        assert_eq!(seen.distinct(1_000_000, false), [90_909]);
        assert_eq!(seen.distinct(5, false), [5]);
    }
}
