//! Building of histograms from values.
//!
//! The values of a column are collected first, each distinct one once with its count.
//!
//! Equi-height: the least height of buckets is searched for with which the values fit into the
//! number of buckets requested. A value is never split over buckets, so that frequent values get
//! a bucket of their own. With a sample, the distinct values of a bucket are estimated by the
//! Guaranteed-Error Estimator: values seen once stand for `1 / sqrt(rate)` values each
//! (Charikar et al., "Towards Estimation Error Guarantees for Distinct Values", PODS 2000).

use super::{Bound, Bucket, Histogram, HistogramKind, MAX_CHARACTERS, key_of};
use porpoise_types::{ColumnType, Value, ValueRef};
use std::collections::BTreeMap;

/// Number of buckets if none is given.
pub const DEFAULT_BUCKETS: u32 = 100;

/// Maximum number of buckets.
pub const MAX_BUCKETS: u32 = 1024;

/// The values of one column with their counts, in order of their keys.
#[derive(Default)]
pub(crate) struct ValueCounts {
    counts: BTreeMap<Vec<u8>, (Value, u64)>,
    nulls: u64,
    rows: u64,
}

impl ValueCounts {
    /// Adds the value of a row.
    pub(crate) fn add(&mut self, value: ValueRef<'_>, ty: &ColumnType) {
        self.rows += 1;
        if value.is_null() {
            self.nulls += 1;
            return;
        }
        let key = key_of(value, ty);
        match self.counts.get_mut(&key) {
            Some((_, count)) => *count += 1,
            None => {
                self.counts.insert(key, (shortened(value, ty), 1));
            }
        }
    }

    /// The histogram with at most this many buckets.
    pub(crate) fn histogram(
        self,
        ty: &ColumnType,
        wanted: u32,
        sampling_rate: f64,
        now: i64,
    ) -> Histogram {
        let total = self.rows.max(1) as f64;
        let most = wanted.clamp(1, MAX_BUCKETS) as usize;
        let (kind, height) = if self.counts.len() <= most {
            (HistogramKind::Singleton, 0)
        } else {
            (HistogramKind::EquiHeight, self.least_height(most))
        };
        let mut groups: Vec<Group> = Vec::with_capacity(most);
        for (key, (value, count)) in self.counts {
            let bound = Bound { value, key };
            match groups.last_mut() {
                Some(group) if group.count + count <= height => group.add(bound, count),
                _ => groups.push(Group::new(bound, count)),
            }
        }
        let mut before = 0;
        let buckets = groups.into_iter().map(|group| {
            before += group.count;
            group.bucket(before as f64 / total, sampling_rate)
        });
        Histogram {
            ty: ty.clone(),
            kind,
            buckets: buckets.collect(),
            nulls: self.nulls as f64 / total,
            sampling_rate,
            buckets_wanted: wanted,
            updated: now,
            auto_update: false,
        }
    }

    /// The least number of rows of a bucket with which the values need at most `most` buckets.
    fn least_height(&self, most: usize) -> u64 {
        let (mut low, mut high) = (1, self.rows.max(1));
        while low < high {
            let middle = low + (high - low) / 2;
            if self.buckets_of_height(middle) <= most {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    fn buckets_of_height(&self, height: u64) -> usize {
        let (mut buckets, mut rows) = (0, u64::MAX);
        for (_, count) in self.counts.values() {
            rows = rows.saturating_add(*count);
            if rows > height {
                buckets += 1;
                rows = *count;
            }
        }
        buckets
    }
}

/// The values of a bucket.
struct Group {
    low: Bound,
    high: Option<Bound>,
    count: u64,
    distinct: u64,
    /// Number of values that occur once.
    single: u64,
}

impl Group {
    fn new(low: Bound, count: u64) -> Group {
        Group {
            low,
            high: None,
            count,
            distinct: 1,
            single: u64::from(count == 1),
        }
    }

    fn add(&mut self, bound: Bound, count: u64) {
        self.high = Some(bound);
        self.count += count;
        self.distinct += 1;
        self.single += u64::from(count == 1);
    }

    fn bucket(self, cumulative: f64, sampling_rate: f64) -> Bucket {
        let distinct = match self.high {
            Some(_) if sampling_rate < 1.0 => {
                let (all, single) = (self.distinct as f64, self.single as f64);
                (all - single + single / sampling_rate.sqrt()).round()
            }
            _ => self.distinct as f64,
        };
        Bucket {
            high: self.high.unwrap_or_else(|| self.low.clone()),
            low: self.low,
            cumulative,
            distinct,
        }
    }
}

/// The value as buckets keep it: text up to the last character that is compared.
fn shortened(value: ValueRef<'_>, ty: &ColumnType) -> Value {
    match value {
        ValueRef::Bytes(text) if ty.is_string() => {
            let charset = ty.collation.charset();
            let len = charset.prefix_len(text, MAX_CHARACTERS as usize);
            Value::Bytes(text.get(..len).unwrap_or(text).to_vec())
        }
        _ => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use porpoise_types::Kind;

    fn of(values: impl IntoIterator<Item = Option<i64>>, buckets: u32) -> Histogram {
        let ty = ColumnType::int(Kind::Int);
        let mut counts = ValueCounts::default();
        for value in values {
            counts.add(value.map_or(ValueRef::Null, ValueRef::Int), &ty);
        }
        counts.histogram(&ty, buckets, 1.0, 0)
    }

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 0.011, "{a} {b}");
    }

    #[test]
    fn a_singleton_histogram_is_exact() {
        let h = of([Some(1), Some(1), Some(4), None], 4);
        assert_eq!(h.kind, HistogramKind::Singleton);
        assert_eq!(h.equal_to(ValueRef::Int(1)), 0.5);
        assert_eq!(h.equal_to(ValueRef::Int(3)), 0.0);
        assert_eq!(h.less_than(ValueRef::Int(1)), 0.0);
        assert_eq!(h.less_than(ValueRef::Int(4)), 0.5);
        assert_eq!(h.less_than(ValueRef::Int(9)), 0.75);
        assert_eq!((h.nulls(), h.not_null()), (0.25, 0.75));
        assert_eq!(h.equal_to(ValueRef::Null), 0.0);
    }

    #[test]
    fn buckets_are_of_equal_height_and_frequent_values_alone() {
        // 500 times 0, then 1 to 500.
        let h = of((0..1000).map(|n| Some((n - 499).max(0))), 11);
        assert_eq!(h.kind, HistogramKind::EquiHeight);
        assert!(h.buckets.len() <= 11);
        near(h.equal_to(ValueRef::Int(0)), 0.5);
        near(h.equal_to(ValueRef::Int(77)), 0.001);
        for n in [1, 100, 250, 400, 500] {
            near(h.less_than(ValueRef::Int(n)), 0.5 + n as f64 / 1000.0);
        }
        assert_eq!(h.less_than(ValueRef::Int(501)), 1.0);
        assert_eq!(h.equal_to(ValueRef::Int(-1)), 0.0);
    }

    #[test]
    fn an_empty_column_has_no_buckets() {
        let h = of([None, None], 10);
        assert_eq!((h.buckets.len(), h.nulls()), (0, 1.0));
        assert_eq!(h.less_than(ValueRef::Int(1)), 0.0);
        assert_eq!(of([], 10).nulls(), 0.0);
    }
}
