//! Partition pruning: from conditions on columns to the partitions that may have a match.
//!
//! Pruning excludes only partitions in which no row can satisfy the conditions; the conditions are
//! still evaluated on the rows.
//!
//! * All partitioning columns equal to one of some values (`=`, IN, IS NULL):
//!   the partitions of all combinations.
//! * A range of the only column of a RANGE with a monotonic expression, or of the first column of
//!   RANGE COLUMNS: an interval of partitions.
//! * A range of the only column of a LIST: the partitions of the listed values within. A short
//!   integer range is treated as a list of values.
//! * All columns of SUBPARTITION BY equal to one of some values: those subpartitions of each of
//!   the partitions above.

use crate::partition::expr::Monotone;
use crate::partition::{Method, Partitioning};
use crate::table::Table;
use porpoise_types::{Value, ValueRef, encode_key};

/// Maximum number of combinations of values; beyond it nothing is pruned.
const MAX_COMBINATIONS: usize = 4096;
/// Maximum number of integers of a range that are enumerated.
const MAX_ENUMERATED: i128 = 256;

/// Known condition on a column.
#[derive(Clone, Debug, Default)]
pub struct KnownCondition {
    /// The column equals one of these (storage values of the column; NULL for IS NULL).
    pub equal: Option<Vec<Value>>,
    /// Lower bound (an exclusive bound is treated as inclusive).
    pub low: Option<Value>,
    /// Upper bound, inclusive.
    pub high: Option<Value>,
}

impl Table {
    /// Returns the leaves, in order, that may have rows with these conditions on columns (by
    /// position); `None` for all.
    pub fn prune(&self, known: &[(usize, KnownCondition)]) -> Option<Vec<usize>> {
        let by = self.partitioning.as_ref()?;
        let of = |column: &usize| known.iter().find(|(c, _)| c == column).map(|(_, k)| k);
        let partitions = self.prune_partitions(by, &of);
        let Some(sub) = &by.sub else {
            return partitions;
        };
        let router = self.router()?;
        let subpartitions = combinations(&sub.columns, &of).map(|tuples| {
            let of_tuple =
                |tuple: &Vec<Value>| router.subpartition_of_values(tuple.iter().map(Value::as_ref));
            sorted(tuples.iter().filter_map(of_tuple).collect())
        });
        if partitions.is_none() && subpartitions.is_none() {
            return None;
        }
        let partitions = partitions.unwrap_or_else(|| (0..by.partitions.len()).collect());
        let subpartitions = subpartitions.unwrap_or_else(|| (0..sub.count).collect());
        let leaves = |partition: &usize| {
            let first = partition * sub.count;
            subpartitions.iter().map(move |sub| first + sub)
        };
        Some(partitions.iter().flat_map(leaves).collect())
    }

    /// The partitions, without regard to subpartitions.
    fn prune_partitions<'k>(
        &self,
        by: &Partitioning,
        of: &dyn Fn(&usize) -> Option<&'k KnownCondition>,
    ) -> Option<Vec<usize>> {
        if let Some(tuples) = combinations(&by.columns, of) {
            let router = self.router()?;
            let of_tuple =
                |tuple: &Vec<Value>| router.partition_of_values(tuple.iter().map(Value::as_ref));
            return Some(sorted(tuples.iter().filter_map(of_tuple).collect()));
        }
        let known = of(by.columns.first()?)?;
        if known.low.is_none() && known.high.is_none() && known.equal.is_none() {
            return None;
        }
        self.prune_range(by, known)
    }

    fn prune_range(&self, by: &Partitioning, known: &KnownCondition) -> Option<Vec<usize>> {
        let column = *by.columns.first()?;
        let ty = &self.columns.get(column)?.ty;
        let router = self.router()?;
        let (low, high) = lowest_and_highest(known);
        match by.method {
            Method::RangeColumns => {
                let key = |v: &Value| {
                    let mut key = Vec::new();
                    encode_key(v.as_ref(), ty, true, false, &mut key);
                    key
                };
                let (low, high) = (low.map(key), high.map(key));
                let (first, last) =
                    router.partitions_of_first_column(low.as_deref(), high.as_deref())?;
                Some((first..=last).collect())
            }
            Method::Range if by.columns.len() == 1 => {
                let expr = by.expr.as_ref()?;
                let how = expr.monotone();
                if how == Monotone::No {
                    return None;
                }
                let at = |v: &Value| expr.eval(&|_| v.as_ref());
                let first = match low.map(at) {
                    Some(Some(v)) => router
                        .partition_of_number(Some(v))
                        .unwrap_or(router.bound_count()),
                    _ => 0,
                };
                let last = match high.map(at) {
                    Some(Some(v)) => router.partition_of_number(Some(v)),
                    _ => None,
                };
                let last = last.unwrap_or(router.bound_count().saturating_sub(1));
                let mut found: Vec<usize> = (first..=last).collect();
                // Values for which the expression is NULL are in the first partition.
                if how == Monotone::NonDecreasing && first > 0 {
                    found.insert(0, 0);
                }
                Some(found)
            }
            Method::List if by.columns.len() == 1 => {
                let expr = by.expr.as_ref()?;
                if expr.monotone() != Monotone::Strict {
                    return None;
                }
                let at = |v: &Value| expr.eval(&|_| v.as_ref());
                let (low, high) = (low.and_then(at), high.and_then(at));
                let inside = |v: &Option<i128>| match v {
                    None => false,
                    Some(v) => low.is_none_or(|low| low <= *v) && high.is_none_or(|h| *v <= h),
                };
                let listed = router.partition_by_value()?.iter();
                let mut found: Vec<usize> = listed
                    .filter(|(value, _)| inside(value))
                    .map(|(_, at)| *at)
                    .collect();
                found.sort_unstable();
                found.dedup();
                Some(found)
            }
            _ => None,
        }
    }
}

fn sorted(mut positions: Vec<usize>) -> Vec<usize> {
    positions.sort_unstable();
    positions.dedup();
    positions
}

/// All combinations of the values that these columns may have; `None` if they are not known, or
/// too many.
fn combinations<'k>(
    columns: &[usize],
    of: &dyn Fn(&usize) -> Option<&'k KnownCondition>,
) -> Option<Vec<Vec<Value>>> {
    let mut tuples: Vec<Vec<Value>> = vec![Vec::new()];
    for column in columns {
        let known = of(column)?;
        let short;
        let values = match &known.equal {
            Some(values) => values,
            None => {
                short = short_range(known)?;
                &short
            }
        };
        if tuples.len() * values.len() > MAX_COMBINATIONS {
            return None;
        }
        tuples = tuples
            .into_iter()
            .flat_map(|tuple| {
                values.iter().map(move |value| {
                    let mut tuple = tuple.clone();
                    tuple.push(value.clone());
                    tuple
                })
            })
            .collect();
    }
    Some(tuples)
}

/// Returns the lower and upper bound, or the least and greatest value of a list.
fn lowest_and_highest(known: &KnownCondition) -> (Option<&Value>, Option<&Value>) {
    match known.equal.as_deref() {
        Some([one]) if *one != Value::Null => (Some(one), Some(one)),
        Some(_) => (None, None),
        None => (known.low.as_ref(), known.high.as_ref()),
    }
}

/// The values of a range of few whole numbers.
fn short_range(known: &KnownCondition) -> Option<Vec<Value>> {
    let (low, high) = (known.low.as_ref()?, known.high.as_ref()?);
    let number = |v: &Value| match v.as_ref() {
        ValueRef::Int(v) => Some(i128::from(v)),
        ValueRef::UInt(v) => Some(i128::from(v)),
        _ => None,
    };
    let (from, to) = (number(low)?, number(high)?);
    if to - from >= MAX_ENUMERATED {
        return None;
    }
    (from..=to)
        .map(|v| match low {
            Value::UInt(_) => u64::try_from(v).ok().map(Value::UInt),
            _ => i64::try_from(v).ok().map(Value::Int),
        })
        .collect()
}
