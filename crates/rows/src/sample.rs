//! Table statistics by sampling: the number of rows, and the number of distinct values of the
//! leading parts of each index.
//!
//! A small index is read completely. Of a larger one, runs of consecutive entries are read at
//! positions spread over its keys. The positions within a run at which a key part changes show the
//! length of groups of equal values.
//!
//! 1. Positions are interpolated between the first and the last key: the eight bytes after their
//!    common prefix are taken as a number.
//! 2. With `c` changes among `p` adjacent pairs, an index of `n` entries has about `n * c / p`
//!    distinct values, at least as many as the runs showed, and at most `n`. An interpolated
//!    position mostly is the start of a group, so a run continues, up to a limit, to a change of
//!    its first part. If runs reached the limit and each showed another value, the estimate lies
//!    between the number seen and the number possible.
//! 3. `n` is the engine's own count if it has one; otherwise it is derived from the share of the
//!    key space that the runs cover.
//!
//! Rejected: random descents of the engine's tree (a remote engine offers none); counting every row
//! (a million take longer than most statements that wait for the result).

use crate::db::Db;
use crate::table::Table;
use crate::txn::{BeginOptions, Txn};
use crate::{Error, KeyRange, Result, ScanPosition, ScanSpec};
use porpoise_base::interrupt;
use porpoise_kv::{Read, SpaceId};
use smallvec::SmallVec;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Amount of an index to be read.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Number of entries up to which an index is read completely.
    pub whole: u64,
    /// Number of runs otherwise.
    pub runs: u64,
    /// Number of entries per run.
    pub length: u64,
    /// Maximum length of a run that continues until its first part changes.
    pub longest: u64,
}

impl Effort {
    /// Effort for a statement whose planning waits for the result.
    pub const QUICK: Effort = Effort {
        whole: 2_000,
        runs: 20,
        length: 64,
        longest: 1_000,
    };

    /// Effort for ANALYZE TABLE.
    pub const THOROUGH: Effort = Effort {
        whole: 100_000,
        runs: 256,
        length: 128,
        longest: 10_000,
    };
}

/// Statistics of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Approximate number of rows.
    pub rows: u64,
    /// For each index, the approximate number of distinct values of its first part, of its first
    /// two parts together, and so on; at least 1.
    pub distinct: Vec<Vec<u64>>,
}

/// Observations of the runs over one index.
#[derive(Default)]
struct RunObservations {
    pairs: u64,
    entries: u64,
    /// Runs that ended before their first part changed.
    incomplete_runs: u64,
    /// Number of changes by number of leading parts, less one.
    changes: Vec<u64>,
    values: Vec<HashSet<Vec<u8>>>,
    before: Option<Vec<u8>>,
}

impl RunObservations {
    fn new(parts: usize) -> RunObservations {
        RunObservations {
            changes: vec![0; parts],
            values: vec![HashSet::new(); parts],
            ..RunObservations::default()
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
            let observations = values.len() as u64;
            let guess = match (whole, self.pairs) {
                (true, _) | (_, 0) => observations,
                (false, pairs) => {
                    // Runs that reached the limit and showed different values may have been close
                    // to a change.
                    let about = if 2 * observations > self.incomplete_runs {
                        self.incomplete_runs
                    } else {
                        0
                    };
                    let least = entries as f64 * *changes as f64 / pairs as f64;
                    let most = entries as f64 * (changes + about) as f64 / pairs as f64;
                    (least.max(observations as f64) * most.max(observations as f64)).sqrt() as u64
                }
            };
            guess.max(observations).min(entries).max(1)
        })
        .collect()
    }
}

/// Bytes of a table, older versions of its rows included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableBytes {
    /// Rows in the primary index, and overflow values.
    pub data: u64,
    /// Entries of all other indexes.
    pub indexes: u64,
}

impl Db {
    /// Bytes of a table; `None` if the engine does not count them.
    pub fn table_bytes(&self, table: &Table) -> Option<TableBytes> {
        let leaves = 0..table.index_spaces(0).len();
        leaves.map(|leaf| self.leaf_bytes(table, leaf)).try_fold(
            TableBytes::default(),
            |sum, leaf| {
                let leaf = leaf?;
                Some(TableBytes {
                    data: sum.data + leaf.data,
                    indexes: sum.indexes + leaf.indexes,
                })
            },
        )
    }

    /// Bytes of a partition by its position; `None` if the engine does not count them.
    pub fn leaf_bytes(&self, table: &Table, leaf: usize) -> Option<TableBytes> {
        let mut spaces = table.indexes.iter().map(|index| index.spaces.get(leaf));
        let mut data: SmallVec<[SpaceId; 2]> =
            spaces.next().flatten().copied().into_iter().collect();
        data.extend(table.overflow_spaces.get(leaf).copied());
        let indexes: SmallVec<[SpaceId; 8]> = spaces.flatten().copied().collect();
        Some(TableBytes {
            data: self.engine().approximate_bytes(&data)?,
            indexes: self.engine().approximate_bytes(&indexes)?,
        })
    }

    /// Approximate number of rows of a table; `None` if only counting could tell.
    pub fn approximate_rows(&self, table: &Table) -> Option<u64> {
        self.engine().approximate_keys(table.index_spaces(0))
    }

    /// Estimated number of rows of a table, by sampling.
    ///
    /// # Errors
    /// As [`Db::sample`].
    pub(crate) fn sample_rows(self: &Arc<Self>, table: &Table) -> Result<u64> {
        let mut txn = self.begin(BeginOptions::default())?;
        let sampled = sample_index(self, &mut txn, table, 0, Effort::QUICK);
        txn.rollback();
        Ok(sampled?.0)
    }

    /// Samples a table, in a transaction of its own. Passes an interrupt checkpoint at least every
    /// 1,024 entries.
    ///
    /// # Errors
    /// The engine's; a cancellation.
    pub fn sample(self: &Arc<Self>, table: &Table, effort: Effort) -> Result<Sample> {
        let mut txn = self.begin(BeginOptions::default())?;
        let mut sample = Sample {
            rows: 0,
            distinct: Vec::with_capacity(table.indexes.len()),
        };
        for index in 0..table.indexes.len() {
            if table.text_index(index).is_some() {
                // Not read by values: as many as there are rows, as in InnoDB.
                let parts = table.indexes.get(index).map_or(0, |i| i.parts.len());
                sample.distinct.push(vec![sample.rows.max(1); parts]);
                continue;
            }
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

/// Reads a number of entries from the start of a range, and continues up to a maximum until the
/// first part changes. Returns whether the range has more entries, and the last key.
fn run(
    txn: &mut Txn,
    table: &Table,
    spec: &ScanSpec,
    usual: u64,
    most: u64,
    observations: &mut RunObservations,
) -> Result<(bool, Option<Vec<u8>>)> {
    let mut position = ScanPosition::default();
    let (mut read, changes) = (0, observations.first_changes());
    let mut last: Option<Vec<u8>> = None;
    let mut ends = Vec::new();
    observations.before = None;
    let mut more = true;
    while more && read < most && (read < usual || observations.first_changes() == changes) {
        interrupt::check().map_err(|ended| Error::Kv(porpoise_kv::Error::Cancelled(ended.0)))?;
        let limit = usize::try_from(usual.clamp(1, 1024)).unwrap_or(1024);
        let mut got = 0;
        let at = (&mut position, limit);
        more = txn.scan_entries(table, spec, None, Read::SNAPSHOT, at, &mut |_, key, _| {
            got += 1;
            ends.clear();
            if table.part_ends(spec.index, key, &mut ends) {
                observations.add(key, &ends);
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
    observations.incomplete_runs += u64::from(more && observations.first_changes() == changes);
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
    let (usual, most) = match counted {
        Some(n) if n > effort.whole => (effort.length, effort.longest),
        _ => (effort.whole, effort.whole),
    };
    let mut observations = RunObservations::new(parts);
    let all = spec(index, KeyRange::ALL, false);
    let (more, end_of_first) = run(txn, table, &all, usual, most, &mut observations)?;
    if !more {
        let entries = observations.entries;
        let distinct = observations.distinct(entries, true);
        return Ok((entries, distinct));
    }
    let mut ignored = RunObservations::new(0);
    let backwards = spec(index, KeyRange::ALL, true);
    let (_, highest) = run(txn, table, &backwards, 1, 1, &mut ignored)?;
    let (Some(low), Some(high)) = (end_of_first, highest) else {
        let entries = counted.unwrap_or(observations.entries);
        return Ok((entries, observations.distinct(entries, false)));
    };
    let line = KeyInterpolation::new(&low, &high);
    let before = observations.entries;
    let mut covered = 0.0;
    for at in 0..effort.runs {
        let start = line.key_at(at, effort.runs);
        let from = line.relative_position(&start);
        let range = KeyRange { start, end: None };
        let spec = spec(index, range, false);
        let (_, last) = run(
            txn,
            table,
            &spec,
            effort.length,
            effort.longest,
            &mut observations,
        )?;
        if let Some(last) = last {
            covered += (line.relative_position(&last) - from).max(0.0);
        }
    }
    let entries = counted.unwrap_or_else(|| {
        let density = (observations.entries - before) as f64 / covered.max(1e-9);
        before.saturating_add((density.min(1e18)) as u64)
    });
    Ok((entries, observations.distinct(entries, false)))
}

/// Linear interpolation between two keys.
struct KeyInterpolation {
    common: Vec<u8>,
    low: u64,
    high: u64,
}

impl KeyInterpolation {
    fn new(low: &[u8], high: &[u8]) -> KeyInterpolation {
        let common = low.iter().zip(high).take_while(|(a, b)| a == b).count();
        let common = low.get(..common).unwrap_or_default().to_vec();
        let number = |key: &[u8]| number(key.get(common.len()..).unwrap_or_default());
        KeyInterpolation {
            low: number(low),
            high: number(high).max(number(low)),
            common,
        }
    }

    /// Returns a key in step `step` of `steps` equal steps, at a varying offset, to avoid aliasing
    /// with regularities of the keys.
    fn key_at(&self, step: u64, steps: u64) -> Vec<u8> {
        let width = u128::from(self.high - self.low);
        let jitter = u128::from(step * 618 % 1000);
        let offset = width * (u128::from(step) * 1000 + jitter) / (u128::from(steps.max(1)) * 1000);
        let number = self.low + u64::try_from(offset).unwrap_or(0);
        let mut key = self.common.clone();
        key.extend_from_slice(&number.to_be_bytes());
        key
    }

    /// Relative position of a key between the two, from 0 to 1.
    fn relative_position(&self, key: &[u8]) -> f64 {
        let number = match key.strip_prefix(self.common.as_slice()) {
            Some(rest) => number(rest),
            None => self.high,
        };
        let offset = number.clamp(self.low, self.high) - self.low;
        offset as f64 / ((self.high - self.low) as f64).max(1.0)
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
    fn interpolated_keys_lie_in_order_between_the_ends() {
        let line = KeyInterpolation::new(b"user0001", b"user9999");
        let keys: Vec<Vec<u8>> = (0..10).map(|n| line.key_at(n, 10)).collect();
        assert!(keys.windows(2).all(|w| w[0] < w[1]));
        assert!(keys.iter().all(|k| k.as_slice() < b"user9999".as_slice()));
        let places: Vec<f64> = keys.iter().map(|k| line.relative_position(k)).collect();
        assert!((places[5] - 0.5).abs() < 0.01);
    }

    #[test]
    fn distinct_values_are_estimated_from_changes_between_adjacent_keys() {
        let mut observations = RunObservations::new(1);
        for n in 0..100u8 {
            observations.add(&[n / 10, n], &[1]);
        }
        assert_eq!(observations.distinct(100, true), [10]);
        // 9 changes in 99 pairs.
        assert_eq!(observations.distinct(1_000_000, false), [90_909]);
        assert_eq!(observations.distinct(5, false), [5]);
    }
}
