//! Index-merge union: the rows found by any of several indexes, each once.
//!
//! Entries of all indexes are read first; their primary keys are sorted and
//! deduplicated, and then rows are fetched in batches. If there are too many
//! keys, the operator falls back to a table scan.
//!
//! Rejected: merging the indexes entry by entry (only entries with equal index
//! keys come in the order of the primary key), and reading rows index by index
//! while remembering the keys returned (unordered rows, as much memory).

use super::fetch::Cursor;
use super::keys;
use super::pruning::Pruning;
use super::{Exec, ExecResult};
use crate::expr::Expr;
use crate::expr::eval::{EvalCx, Slot};
use crate::plan::scan::Access;
use porpoise_base::sorting;
use porpoise_kv::Read;
use porpoise_rows::catalog::Table;
use porpoise_rows::{Fetch, KeyRange, Lookup, RowRef, ScanPosition, ScanSpec};

/// Maximum number of gathered primary keys.
const MAX_KEYS: usize = 1 << 20;

/// Maximum size in bytes of gathered primary keys, their boxes included.
const MAX_KEY_BYTES: usize = 64 << 20;

/// Index entries read in one batch.
const SCAN_BATCH: usize = 4096;

/// An index-merge union: the rows of a table found through several indexes.
pub struct IndexMerge {
    /// Index scans that yield the keys; empty once the keys are gathered.
    scans: Vec<ScanSpec>,
    /// Keys that are gathered at most.
    max_keys: usize,
    /// Primary keys, ascending, each once.
    keys: Vec<Box<[u8]>>,
    /// Their size in bytes.
    bytes: usize,
    /// Number of keys whose rows were fetched.
    fetched: usize,
}

impl IndexMerge {
    /// A cursor over the rows that any of these paths finds.
    pub(super) fn cursor<'a>(
        table: &Table,
        arms: &'a [Access],
        max_keys: usize,
        row: &[Slot<'a>],
        cx: &EvalCx<'a>,
    ) -> ExecResult<Cursor> {
        let mut scans = Vec::with_capacity(arms.len());
        for arm in arms {
            let (index, ranges) = match arm {
                Access::IndexLookup { index, keys, .. } if keys::is_multi_valued(table, *index) => {
                    (*index, array_ranges(table, *index, keys, row, cx)?)
                }
                Access::PointLookup { index, keys } | Access::IndexLookup { index, keys, .. } => {
                    let keys = super::fetch::encode_distinct_keys(table, *index, keys, row, cx)?;
                    let ranges = keys.into_iter().map(KeyRange::prefix);
                    (*index, Some(ranges.collect()))
                }
                Access::IndexRangeScan { index, ranges, .. } => {
                    (*index, keys::ranges(table, *index, ranges, row, cx)?)
                }
                _ => (0, None),
            };
            let Some(ranges) = ranges else {
                return Ok(Cursor::table());
            };
            scans.push(ScanSpec {
                index,
                ranges,
                reverse: false,
                entries_only: true,
            });
        }
        scans.retain(|spec| !spec.ranges.is_empty());
        Ok(Cursor::IndexMerge(IndexMerge {
            scans,
            max_keys: max_keys.min(MAX_KEYS),
            keys: Vec::new(),
            bytes: 0,
            fetched: 0,
        }))
    }

    /// Gathers the keys, once; false where they are too many.
    pub(super) fn collect(
        &mut self,
        table: &Table,
        pruning: &Pruning,
        read: Read,
        exec: &mut Exec<'_>,
    ) -> ExecResult<bool> {
        let fetch = Fetch {
            partitions: pruning.partitions(),
            ..Fetch::PREFIXES
        };
        for spec in std::mem::take(&mut self.scans) {
            let mut position = ScanPosition::default();
            while !position.done() {
                exec.check_cancelled()?;
                let (keys, bytes) = (&mut self.keys, &mut self.bytes);
                let keep = &mut |key: &[u8], _: RowRef<'_>| {
                    *bytes += key_size(key);
                    keys.push(key.into());
                };
                let at = &mut position;
                exec.txn()
                    .scan_with(table, &spec, fetch, read, at, SCAN_BATCH, keep)?;
                if self.exceeds_fraction(1) {
                    self.sort()?;
                    // With few duplicates, every further batch would sort
                    // nearly all keys again: fall back to a table scan.
                    if self.exceeds_fraction(2) {
                        self.keys = Vec::new();
                        return Ok(false);
                    }
                }
            }
        }
        self.sort()?;
        exec.shared.states.hold(self.bytes as u64)?;
        Ok(true)
    }

    /// Whether the keys exceed 1/`parts` of a limit.
    fn exceeds_fraction(&self, parts: usize) -> bool {
        self.keys.len() > self.max_keys / parts || self.bytes > MAX_KEY_BYTES / parts
    }

    fn sort(&mut self) -> ExecResult<()> {
        sorting::sort_by(&mut self.keys, sorting::RUN_CHEAP, Ord::cmp)?;
        self.keys.dedup();
        self.bytes = self.keys.iter().map(|key| key_size(key)).sum();
        Ok(())
    }

    /// Passes the next rows and their primary keys to `visit`; false at the end.
    pub(super) fn next(
        &mut self,
        table: &Table,
        read: Read,
        pruning: &Pruning,
        limit: usize,
        exec: &mut Exec<'_>,
        visit: &mut dyn FnMut(&[u8], RowRef<'_>),
    ) -> ExecResult<bool> {
        let left = self.keys.get(self.fetched..).unwrap_or_default();
        let wanted: Vec<&[u8]> = left.iter().take(limit).map(AsRef::as_ref).collect();
        if wanted.is_empty() {
            return Ok(false);
        }
        self.fetched += wanted.len();
        let lookup = Lookup::primary(table, &wanted).overflow(pruning.overflow());
        exec.txn()
            .look_up(&lookup.in_order(), read, &mut |_, found| {
                if let Some(found) = found {
                    visit(found.primary, found.row);
                }
            })?;
        Ok(true)
    }
}

/// Size in bytes of a gathered key, its box included.
fn key_size(key: &[u8]) -> usize {
    key.len() + size_of::<Box<[u8]>>()
}

/// The ranges of an index with a multi-valued part; `None` if the keys are not known.
fn array_ranges<'a>(
    table: &Table,
    index: usize,
    keys: &'a [Vec<Expr>],
    row: &[Slot<'a>],
    cx: &EvalCx<'a>,
) -> ExecResult<Option<Vec<KeyRange>>> {
    let mut prefixes = Vec::with_capacity(keys.len());
    for key in keys {
        match keys::array_prefixes(table, index, key, row, cx)? {
            Some(found) => prefixes.extend(found),
            None => return Ok(None),
        }
    }
    prefixes.sort_unstable();
    prefixes.dedup();
    Ok(Some(prefixes.into_iter().map(KeyRange::prefix).collect()))
}
