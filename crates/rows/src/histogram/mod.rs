//! Histograms of columns: the distribution of a column's values, for the planner's estimates
//! (manual, "Optimizer Statistics" and "Histogram Statistics Analysis").
//!
//! A *singleton* histogram has a bucket for each value. An *equi-height* histogram has buckets that
//! cover ranges of values and about equal numbers of rows. Buckets are in order of values. The
//! frequencies of buckets are cumulative and count NULL among the rows:
//!
//! ```text
//! values 1 1 2 NULL        buckets [1, 0.5] [2, 0.75]        null-values 0.25
//! ```
//!
//! Histograms are part of the catalog and do not change with the rows; ANALYZE TABLE replaces them.
//!
//! Invariants:
//! 1. A histogram affects speed, never results.
//! 2. Buckets do not overlap; bounds and cumulative frequencies ascend.
//! 3. Values are compared by their keys ([`porpoise_types::encode_key`]), whose order is that of the
//!    column's type and collation. Text counts up to its [`MAX_CHARACTERS`]th character.

mod build;
mod document;

pub(crate) use build::ValueCounts;
pub use build::{DEFAULT_BUCKETS, MAX_BUCKETS};
pub use document::DocumentError;

use porpoise_types::{ColumnType, Kind, Value, ValueRef, encode_key_prefix};

/// Version of the catalog's records of histograms.
pub const HISTOGRAM_FORMAT_VERSION: u8 = 1;

/// Characters of a text that are compared.
pub const MAX_CHARACTERS: u32 = 42;

/// The distribution of the values of one column.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// The type of the column.
    ty: ColumnType,
    kind: HistogramKind,
    buckets: Vec<Bucket>,
    /// Part of the rows in which the column is NULL.
    nulls: f64,
    /// Part of the rows that were read.
    sampling_rate: f64,
    /// Number of buckets requested.
    buckets_wanted: u32,
    /// Time of the statement that made it, microseconds since 1970 UTC.
    updated: i64,
    /// Whether every ANALYZE TABLE makes it again (AUTO UPDATE).
    auto_update: bool,
}

/// Kind of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HistogramKind {
    /// One value in each bucket.
    Singleton,
    /// Buckets of about equal numbers of rows.
    EquiHeight,
}

/// Consecutive values of a column.
#[derive(Clone, Debug, PartialEq)]
struct Bucket {
    low: Bound,
    high: Bound,
    /// Part of the rows with a value up to the upper bound.
    cumulative: f64,
    /// Estimated number of distinct values.
    distinct: f64,
}

/// A value with its key.
#[derive(Clone, Debug, PartialEq)]
struct Bound {
    value: Value,
    key: Vec<u8>,
}

impl Bound {
    fn new(value: Value, ty: &ColumnType) -> Bound {
        Bound {
            key: key_of(value.as_ref(), ty),
            value,
        }
    }
}

/// Whether columns of this type may have a histogram.
pub fn is_supported(ty: &ColumnType) -> bool {
    !matches!(ty.kind, Kind::Json | Kind::Null)
}

fn key_of(value: ValueRef<'_>, ty: &ColumnType) -> Vec<u8> {
    let mut key = Vec::new();
    encode_key_prefix(value, ty, MAX_CHARACTERS, false, false, &mut key);
    key
}

impl Histogram {
    /// The type of the column for which the histogram was made.
    pub fn column_type(&self) -> &ColumnType {
        &self.ty
    }

    /// Whether every ANALYZE TABLE makes the histogram again.
    pub fn auto_update(&self) -> bool {
        self.auto_update
    }

    /// Number of buckets requested.
    pub fn buckets_wanted(&self) -> u32 {
        self.buckets_wanted
    }

    /// Part of the rows in which the column is NULL.
    pub fn nulls(&self) -> f64 {
        self.nulls
    }

    /// Estimated part of the rows whose value equals this one, which is of the column's type.
    pub fn equal_to(&self, value: ValueRef<'_>) -> f64 {
        if value.is_null() {
            return 0.0;
        }
        let key = key_of(value, &self.ty);
        let (before, bucket) = self.bucket_of(&key);
        match bucket {
            Some(bucket) if bucket.low.key <= key => {
                (bucket.cumulative - before) / bucket.distinct.max(1.0)
            }
            _ => 0.0,
        }
    }

    /// Estimated part of the rows whose value is less than this one, which is of the column's type.
    pub fn less_than(&self, value: ValueRef<'_>) -> f64 {
        if value.is_null() {
            return 0.0;
        }
        let key = key_of(value, &self.ty);
        let (before, bucket) = self.bucket_of(&key);
        match bucket {
            Some(bucket) if bucket.low.key < key => {
                let within = position_between(&bucket.low.key, &bucket.high.key, &key);
                before + within * (bucket.cumulative - before)
            }
            _ => before,
        }
    }

    /// Estimated part of the rows whose value is not NULL.
    pub fn not_null(&self) -> f64 {
        1.0 - self.nulls
    }

    /// The first bucket that ends at or after a key, and the part of the rows in buckets before it.
    fn bucket_of(&self, key: &[u8]) -> (f64, Option<&Bucket>) {
        let at = self
            .buckets
            .partition_point(|b| b.high.key.as_slice() < key);
        let before = at.checked_sub(1).and_then(|at| self.buckets.get(at));
        (before.map_or(0.0, |b| b.cumulative), self.buckets.get(at))
    }
}

/// Relative position of a key between two others, from 0 to 1, by the eight bytes after their
/// common prefix.
fn position_between(low: &[u8], high: &[u8], key: &[u8]) -> f64 {
    let common = low.iter().zip(high).take_while(|(a, b)| a == b).count();
    let number = |key: &[u8]| {
        let bytes = key.iter().skip(common).copied();
        let eight = bytes.chain(std::iter::repeat(0)).take(8);
        eight.fold(0.0, |n, byte| n * 256.0 + f64::from(byte))
    };
    let (low, high) = (number(low), number(high));
    if high <= low {
        return 0.5;
    }
    ((number(key) - low) / (high - low)).clamp(0.0, 1.0)
}
