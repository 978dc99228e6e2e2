//! ANALYZE TABLE ... UPDATE and DROP HISTOGRAM.
//!
//! One scan collects the values of all columns. A table with more than [`MAX_VALUES`] values is
//! sampled: each row is read, and taken with a fixed probability, so that memory is bounded.
//!
//! A histogram influences plans only, so no metadata barrier is needed: a running statement
//! continues with the plan that it has.

use super::{DdlCx, DdlOutcome};
use crate::db::Db;
use crate::definition::{ColumnId, TableId};
use crate::error::{Error, Result};
use crate::histogram::{Histogram, ValueCounts};
use crate::table::Table;
use crate::txn::BeginOptions;
use crate::{Fetch, KeyRange, RowRef, ScanPosition, ScanSpec};
use porpoise_base::interrupt;
use porpoise_kv::Read;
use porpoise_types::ColumnType;
use std::sync::Arc;

/// Approximate maximum number of values that are collected.
const MAX_VALUES: f64 = 400_000.0;

/// Rows read in one batch.
const BATCH: usize = 1024;

/// Decides which rows of a table are taken: a fixed pseudo-random sequence (xorshift), so that the
/// same table gives the same histogram.
struct Sampler {
    state: u64,
    rate: f64,
}

impl Sampler {
    fn takes(&mut self) -> bool {
        if self.rate >= 1.0 {
            return true;
        }
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) as f64 / (1u64 << 53) as f64 <= self.rate
    }
}

impl Db {
    /// Builds histograms of columns, given by position, with at most `buckets` buckets, in a
    /// transaction of its own. Passes an interrupt checkpoint at least every 1,024 rows.
    ///
    /// # Errors
    /// The engine's; a cancellation.
    pub fn build_histograms(
        self: &Arc<Self>,
        table: &Table,
        columns: &[usize],
        buckets: u32,
    ) -> Result<Vec<Histogram>> {
        let types = columns
            .iter()
            .filter_map(|at| Some((*at, table.columns.get(*at)?)));
        let columns: Vec<(usize, &ColumnType)> = types.map(|(at, c)| (at, &c.ty)).collect();
        let rows = self.approximate_rows(table).unwrap_or(0) as f64;
        let values = rows * columns.len().max(1) as f64;
        let mut sampler = Sampler {
            state: 0x9E37_79B9_7F4A_7C15,
            rate: (MAX_VALUES / values.max(1.0)).min(1.0),
        };
        let mut counts: Vec<ValueCounts> = columns.iter().map(|_| ValueCounts::default()).collect();
        let mut txn = self.begin(BeginOptions::default())?;
        let spec = ScanSpec {
            index: 0,
            ranges: vec![KeyRange::ALL],
            reverse: false,
            entries_only: false,
        };
        let mut position = ScanPosition::default();
        let mut visit = |_: &[u8], row: RowRef<'_>| {
            if sampler.takes() {
                for ((at, ty), counts) in columns.iter().zip(&mut counts) {
                    counts.add(row.get(*at), ty);
                }
            }
        };
        while !position.done() {
            interrupt::check().map_err(|e| Error::Kv(porpoise_kv::Error::Cancelled(e.0)))?;
            let (fetch, read) = (Fetch::PREFIXES, Read::SNAPSHOT);
            txn.scan_with(table, &spec, fetch, read, &mut position, BATCH, &mut visit)?;
        }
        txn.rollback();
        let (now, rate) = (self.clock().unix_micros(), sampler.rate);
        let each = counts.into_iter().zip(&columns);
        Ok(each
            .map(|(counts, (_, ty))| counts.histogram(ty, buckets, rate, now))
            .collect())
    }

    /// Sets the histograms of columns of a table, or drops them (`None`).
    ///
    /// # Errors
    /// The engine's.
    pub fn set_histograms(
        &self,
        cx: &DdlCx<'_>,
        table: TableId,
        histograms: Vec<(ColumnId, Option<Histogram>)>,
    ) -> Result<DdlOutcome> {
        let position = self.change_catalog(cx, |draft| {
            for (column, histogram) in histograms {
                let all = &mut draft.catalog.histograms;
                match histogram {
                    Some(histogram) => all.insert((table, column), Arc::new(histogram)),
                    None => all.remove(&(table, column)),
                };
            }
            Ok(())
        })?;
        Ok(DdlOutcome {
            position,
            ..DdlOutcome::default()
        })
    }
}
