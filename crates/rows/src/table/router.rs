//! The router of a partitioned table, which maps the keys of the partitioning columns to a
//! partition.
//!
//! The keys are in a canonical form (nullable, ascending), whatever index they come from. KEY
//! hashes these bytes, RANGE COLUMNS and LIST COLUMNS compare them, the other methods decode them
//! and evaluate their expression.

use crate::definition::{Index, IndexKind, TableDef};
use crate::partition::expr::PartitionExpr;
use crate::partition::{Method, Partition, PartitionBound, Partitioning};
use foldhash::{HashMap, HashMapExt};
use porpoise_types::{ColumnType, Value, ValueRef, decode_key, encode_key};
use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_64;

/// Hash of KEY partitioning, without a seed; part of the disk format.
fn hash(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// The concatenated canonical keys of the partitioning columns.
#[derive(Debug, Default)]
pub(crate) struct CanonicalKeys {
    bytes: SmallVec<[u8; 32]>,
    /// Number of columns in `bytes`.
    columns: usize,
    /// Position at which the columns of SUBPARTITION BY begin.
    sub: usize,
}

impl CanonicalKeys {
    /// Adds the key of the router's next column.
    pub(crate) fn push(&mut self, key: &[u8], router: &Router) {
        self.bytes.extend_from_slice(key);
        self.columns += 1;
        if self.columns == router.main_columns {
            self.sub = self.bytes.len();
        }
    }
}

/// Routing rules derived from a table's partitioning.
#[derive(Clone, Debug)]
pub(crate) struct Router {
    /// The columns of PARTITION BY, then those of SUBPARTITION BY.
    pub(crate) columns: Vec<(usize, ColumnType)>,
    /// Number of the columns of PARTITION BY.
    main_columns: usize,
    rule: Rule,
    /// The rule of SUBPARTITION BY, and the number of subpartitions of each partition.
    sub: Option<(Rule, usize)>,
    /// Location of the partitioning columns in the keys of each index.
    pub(crate) locations: Vec<ColumnLocation>,
}

/// Location of the partitioning columns in a key of an index.
#[derive(Clone, Debug)]
pub(crate) enum ColumnLocation {
    /// In the key parts at these positions, one per partitioning column.
    Parts(Vec<usize>),
    /// In the primary key that follows the key parts.
    Primary,
    /// The key ends with the partition's id.
    Hidden,
}

#[derive(Clone, Debug)]
enum Rule {
    Hash {
        expr: PartitionExpr,
        partitions: u64,
        is_linear: bool,
    },
    Key {
        partitions: u64,
        is_linear: bool,
    },
    /// Exclusive upper bounds; `None`: no bound.
    Range(PartitionExpr, Vec<Option<i128>>),
    /// Encoded upper bounds.
    RangeColumns(Vec<Vec<u8>>),
    List(PartitionExpr, HashMap<Option<i128>, usize>),
    ListColumns(HashMap<Vec<u8>, usize>),
}

/// Byte that sorts above every key of a value.
const MAXVALUE: u8 = 0xFF;

fn to_integer(value: &Value) -> Option<i128> {
    match value {
        Value::Int(v) => Some(i128::from(*v)),
        Value::UInt(v) => Some(i128::from(*v)),
        _ => None,
    }
}

/// MySQL's linear hash (manual, "LINEAR HASH Partitioning").
fn linear(v: u64, n: u64) -> u64 {
    let mask = n.next_power_of_two().wrapping_sub(1);
    let at = v & mask;
    if at < n { at } else { v & (mask >> 1) }
}

/// The partition of a hash or number, by a linear hash or by the remainder.
fn partition_of_hash(v: u64, partitions: u64, is_linear: bool) -> Option<usize> {
    let at = if is_linear {
        linear(v, partitions)
    } else {
        v % partitions
    };
    usize::try_from(at).ok()
}

impl Router {
    pub(crate) fn new(table: &TableDef, by: &Partitioning) -> Router {
        let columns: Vec<(usize, ColumnType)> = by
            .all_columns()
            .filter_map(|c| Some((c, table.columns.get(c)?.ty.clone())))
            .collect();
        let listed: Vec<usize> = by.all_columns().collect();
        let n = by.partitions.len().max(1) as u64;
        let expr = by.expr.clone().unwrap_or(PartitionExpr::Int(0));
        let rule = match by.method {
            Method::Hash { .. } | Method::Key { .. } => hash_rule(by.method, expr, n),
            Method::Range => Rule::Range(expr, range_bounds(by)),
            Method::RangeColumns => Rule::RangeColumns(encoded_bounds(by, &columns)),
            Method::List => Rule::List(expr, list_values(by)),
            Method::ListColumns => Rule::ListColumns(list_column_values(by, &columns)),
        };
        let locations = table
            .maintained_indexes()
            .map(|(n, index)| column_location(table, n, index, &listed))
            .collect();
        let sub = by.sub.as_ref().map(|sub| {
            let expr = sub.expr.clone().unwrap_or(PartitionExpr::Int(0));
            (hash_rule(sub.method, expr, sub.count as u64), sub.count)
        });
        Router {
            columns,
            main_columns: by.columns.len(),
            rule,
            sub,
            locations,
        }
    }

    /// Returns the leaf of canonical keys, one per column.
    pub(crate) fn leaf_of_canonical(&self, canon: &CanonicalKeys) -> Option<usize> {
        let (main, rest) = canon.bytes.split_at_checked(canon.sub)?;
        let (columns, sub_columns) = self.columns.split_at_checked(self.main_columns)?;
        let partition = self.rule.partition_of_canonical(columns, main)?;
        match &self.sub {
            None => Some(partition),
            Some((rule, count)) => {
                Some(partition * count + rule.partition_of_canonical(sub_columns, rest)?)
            }
        }
    }

    /// The partition of the value of the expression of PARTITION BY.
    pub(crate) fn partition_of_number(&self, value: Option<i128>) -> Option<usize> {
        self.rule.partition_of_number(value)
    }

    /// Returns the leaf of values, one per column of the router.
    pub(crate) fn leaf_of_values<'v>(
        &self,
        values: impl Iterator<Item = ValueRef<'v>>,
    ) -> Option<usize> {
        self.leaf_of_canonical(&self.canonical(values))
    }

    fn canonical<'v>(&self, values: impl Iterator<Item = ValueRef<'v>>) -> CanonicalKeys {
        let mut canon = CanonicalKeys::default();
        let mut one = Vec::new();
        for ((_, ty), value) in self.columns.iter().zip(values) {
            one.clear();
            encode_key(value, ty, true, false, &mut one);
            canon.push(&one, self);
        }
        canon
    }

    /// Returns the partition of values of the columns of PARTITION BY.
    pub(crate) fn partition_of_values<'v>(
        &self,
        values: impl Iterator<Item = ValueRef<'v>>,
    ) -> Option<usize> {
        let columns = self.columns.get(..self.main_columns)?;
        self.rule.partition_of_values(columns, values)
    }

    /// Returns the position of a subpartition within its partition by the values of the columns of
    /// SUBPARTITION BY.
    pub(crate) fn subpartition_of_values<'v>(
        &self,
        values: impl Iterator<Item = ValueRef<'v>>,
    ) -> Option<usize> {
        let columns = self.columns.get(self.main_columns..)?;
        let (rule, _) = self.sub.as_ref()?;
        rule.partition_of_values(columns, values)
    }

    /// Returns the first and last partition (RANGE COLUMNS) for values of the first column between
    /// two keys, both inclusive.
    pub(crate) fn partitions_of_first_column(
        &self,
        low: Option<&[u8]>,
        high: Option<&[u8]>,
    ) -> Option<(usize, usize)> {
        let Rule::RangeColumns(bounds) = &self.rule else {
            return None;
        };
        let first = low.map_or(0, |low| {
            bounds.partition_point(|bound| bound.as_slice() <= low)
        });
        let last = match high {
            None => bounds.len(),
            Some(high) => {
                let mut above = high.to_vec();
                above.push(MAXVALUE);
                bounds.partition_point(|bound| bound.as_slice() <= above.as_slice())
            }
        };
        Some((first, last.min(bounds.len().saturating_sub(1))))
    }

    /// Partitions by the values of LIST.
    pub(crate) fn partition_by_value(&self) -> Option<&HashMap<Option<i128>, usize>> {
        match &self.rule {
            Rule::List(_, map) => Some(map),
            _ => None,
        }
    }

    /// Number of bounds of RANGE and RANGE COLUMNS.
    pub(crate) fn bound_count(&self) -> usize {
        match &self.rule {
            Rule::Range(_, bounds) => bounds.len(),
            Rule::RangeColumns(bounds) => bounds.len(),
            _ => 0,
        }
    }
}

impl Rule {
    /// Returns the partition of concatenated canonical keys, one per column.
    fn partition_of_canonical(
        &self,
        columns: &[(usize, ColumnType)],
        canon: &[u8],
    ) -> Option<usize> {
        match self {
            Rule::Key {
                partitions,
                is_linear,
            } => partition_of_hash(hash(canon), *partitions, *is_linear),
            Rule::RangeColumns(bounds) => {
                let at = bounds.partition_point(|bound| bound.as_slice() <= canon);
                (at < bounds.len()).then_some(at)
            }
            Rule::ListColumns(map) => map.get(canon).copied(),
            Rule::Hash { expr, .. } | Rule::Range(expr, _) | Rule::List(expr, _) => {
                let mut values: SmallVec<[(usize, Value); 2]> = SmallVec::new();
                let mut rest = canon;
                for (position, ty) in columns {
                    let value = decode_key(ty, true, &mut rest).unwrap_or(Value::Null);
                    values.push((*position, value));
                }
                let value = expr.eval(&|at| {
                    let found = values.iter().find(|(p, _)| *p == at);
                    found.map_or(ValueRef::Null, |(_, v)| v.as_ref())
                });
                self.partition_of_number(value)
            }
        }
    }

    /// The partition of the expression's value.
    fn partition_of_number(&self, value: Option<i128>) -> Option<usize> {
        match self {
            Rule::Hash {
                partitions,
                is_linear,
                ..
            } => {
                // The absolute value, as in MySQL; NULL counts as 0.
                let v = value.unwrap_or(0).unsigned_abs();
                let v = u64::try_from(v).unwrap_or(u64::MAX);
                partition_of_hash(v, *partitions, *is_linear)
            }
            Rule::Range(_, bounds) => {
                let Some(value) = value else {
                    return (!bounds.is_empty()).then_some(0);
                };
                let at = bounds.partition_point(|bound| bound.is_some_and(|b| b <= value));
                (at < bounds.len()).then_some(at)
            }
            Rule::List(_, map) => map.get(&value).copied(),
            Rule::Key { .. } | Rule::RangeColumns(_) | Rule::ListColumns(_) => None,
        }
    }

    fn partition_of_values<'v>(
        &self,
        columns: &[(usize, ColumnType)],
        values: impl Iterator<Item = ValueRef<'v>>,
    ) -> Option<usize> {
        let mut canon = Vec::new();
        for ((_, ty), value) in columns.iter().zip(values) {
            encode_key(value, ty, true, false, &mut canon);
        }
        self.partition_of_canonical(columns, &canon)
    }
}

/// The rule of HASH or KEY.
fn hash_rule(method: Method, expr: PartitionExpr, partitions: u64) -> Rule {
    match method {
        Method::Hash { linear } => Rule::Hash {
            expr,
            partitions,
            is_linear: linear,
        },
        other => Rule::Key {
            partitions,
            is_linear: other == Method::Key { linear: true },
        },
    }
}

fn range_bounds(by: &Partitioning) -> Vec<Option<i128>> {
    let bound = |p: &Partition| match &p.bound {
        PartitionBound::LessThan(values) => values.first()?.as_ref().and_then(to_integer),
        _ => None,
    };
    by.partitions.iter().map(bound).collect()
}

/// Encodes a tuple of bounds like keys of values.
pub(crate) fn encode_bound(bounds: &[Option<Value>], columns: &[ColumnType]) -> Vec<u8> {
    let mut out = Vec::new();
    for (bound, ty) in bounds.iter().zip(columns) {
        match bound {
            None => {
                out.push(MAXVALUE);
                break;
            }
            Some(value) => encode_key(value.as_ref(), ty, true, false, &mut out),
        }
    }
    out
}

fn encoded_bounds(by: &Partitioning, columns: &[(usize, ColumnType)]) -> Vec<Vec<u8>> {
    let types: Vec<ColumnType> = columns.iter().map(|(_, ty)| ty.clone()).collect();
    let bound = |p: &Partition| match &p.bound {
        PartitionBound::LessThan(values) => encode_bound(values, &types),
        _ => Vec::new(),
    };
    by.partitions.iter().map(bound).collect()
}

fn list_values(by: &Partitioning) -> HashMap<Option<i128>, usize> {
    let mut map = HashMap::new();
    for (at, p) in by.partitions.iter().enumerate() {
        if let PartitionBound::In(tuples) = &p.bound {
            for value in tuples.iter().filter_map(|t| t.first()) {
                map.insert(to_integer(value), at);
            }
        }
    }
    map
}

fn list_column_values(
    by: &Partitioning,
    columns: &[(usize, ColumnType)],
) -> HashMap<Vec<u8>, usize> {
    let mut map = HashMap::new();
    for (at, p) in by.partitions.iter().enumerate() {
        if let PartitionBound::In(tuples) = &p.bound {
            for tuple in tuples {
                let mut key = Vec::new();
                for (value, (_, ty)) in tuple.iter().zip(columns) {
                    encode_key(value.as_ref(), ty, true, false, &mut key);
                }
                map.insert(key, at);
            }
        }
    }
    map
}

/// Finds the partitioning columns in the keys of index `number`.
fn column_location(
    table: &TableDef,
    number: usize,
    index: &Index,
    columns: &[usize],
) -> ColumnLocation {
    let part_of = |c: &usize| {
        index
            .parts
            .iter()
            .position(|p| p.column == *c && p.prefix.is_none())
    };
    match columns.iter().map(part_of).collect::<Option<Vec<_>>>() {
        Some(parts) if !columns.is_empty() => ColumnLocation::Parts(parts),
        _ if number == 0 && table.hidden_key => ColumnLocation::Hidden,
        // Another index than the primary key: its entries lead to the primary key.
        _ if index.kind == IndexKind::Plain || number > 0 => ColumnLocation::Primary,
        _ => ColumnLocation::Parts(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::linear;

    #[test]
    fn linear_hashing_folds_the_upper_half() {
        // The manual's example: six partitions.
        assert_eq!(linear(2003, 6), 3);
        assert_eq!(linear(1998, 6), 2);
        assert_eq!(linear(5, 1), 0);
        assert!((0..1000).all(|v| linear(v, 5) < 5));
    }
}
