//! Partitioning: distribution of a table's rows over spaces.
//!
//! A partitioned table has, per partition, one space for its rows, one for each index and one for
//! overflow values. The partitioning columns determine a row's partition, and so does any complete
//! key: the primary key and every unique key contain these columns (error 1503), an entry of a
//! plain index ends with the primary key, and the hidden key of a table without a primary key ends
//! with the number of its partition.
//! So a key alone determines its space ([`crate::routing`]), without any read.
//!
//! With SUBPARTITION BY each partition is divided by a hash into the same number of subpartitions,
//! and these have the spaces. What has spaces, a partition or a subpartition, is a *leaf*. Leaves are
//! numbered by partitions, then by subpartitions:
//!
//! ```text
//!  PARTITION BY RANGE (y) SUBPARTITION BY HASH (id) SUBPARTITIONS 2
//!      p0             p1
//!   p0sp0 p0sp1    p1sp0 p1sp1
//!  leaf 0     1        2     3
//! ```
//!
//! This module has the definitions; [`expr`] has the expressions of HASH, RANGE and LIST.
//!
//! Invariants:
//! 1. A row is routed by the encoded keys of its partitioning columns (nullable, ascending), so that
//!    equal values of a collation go to one partition.
//! 2. `spaces` of every index, and `overflow_spaces` of the table, have one entry per leaf, in
//!    their order.
//! 3. The id of a partition or subpartition is never reused in its table: hidden keys contain it.
//! 4. The hash function is part of the disk format (docs/formats.md).
//!
//! Rejected: a table per partition behind a view (constraints would have to span tables); MySQL's
//! own hash of KEY (would only make partition numbers equal, and require its old collation
//! weights).

pub mod expr;
pub mod persist;

use porpoise_types::Value;
use std::ops::Range;

/// Maximum number of partitions of a table (manual, "Restrictions and Limitations on
/// Partitioning").
pub const MAX_PARTITIONS: usize = 8192;

/// PARTITION BY of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Partitioning {
    /// The method.
    pub method: Method,
    /// Positions of the partitioning columns: those listed, or those that the expression uses.
    pub columns: Vec<usize>,
    /// The expression of HASH, RANGE and LIST.
    pub expr: Option<expr::PartitionExpr>,
    /// The ALGORITHM of KEY, if given.
    pub algorithm: Option<u8>,
    /// Whether only the number of partitions was given (HASH, KEY); SHOW CREATE TABLE then prints it
    /// instead of the partitions.
    pub by_number: bool,
    /// The partitions in order.
    pub partitions: Vec<Partition>,
    /// The next partition's or subpartition's id.
    pub next_id: u32,
    /// SUBPARTITION BY.
    pub sub: Option<Subpartitioning>,
}

/// SUBPARTITION BY of a table: the division of each partition.
#[derive(Clone, Debug, PartialEq)]
pub struct Subpartitioning {
    /// HASH or KEY.
    pub method: Method,
    /// Positions of the columns listed, or of those that the expression uses.
    pub columns: Vec<usize>,
    /// The expression of HASH.
    pub expr: Option<expr::PartitionExpr>,
    /// The ALGORITHM of KEY, if given.
    pub algorithm: Option<u8>,
    /// Whether only the number of subpartitions was given.
    pub by_number: bool,
    /// Number of subpartitions of each partition.
    pub count: usize,
}

/// Partitioning method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// HASH: the expression's value modulo the number of partitions.
    Hash {
        /// LINEAR: by powers of two.
        linear: bool,
    },
    /// KEY: a hash of the columns' keys.
    Key {
        /// LINEAR: by powers of two.
        linear: bool,
    },
    /// RANGE: the expression's value below a bound.
    Range,
    /// RANGE COLUMNS: the columns' values below a list of bounds.
    RangeColumns,
    /// LIST: the expression's value in a list.
    List,
    /// LIST COLUMNS: the columns' values in a list.
    ListColumns,
}

impl Method {
    /// The words of PARTITION BY, as information_schema has them.
    pub fn sql_keywords(self) -> &'static str {
        match self {
            Method::Hash { linear: false } => "HASH",
            Method::Hash { linear: true } => "LINEAR HASH",
            Method::Key { linear: false } => "KEY",
            Method::Key { linear: true } => "LINEAR KEY",
            Method::Range => "RANGE",
            Method::RangeColumns => "RANGE COLUMNS",
            Method::List => "LIST",
            Method::ListColumns => "LIST COLUMNS",
        }
    }

    /// RANGE or RANGE COLUMNS.
    pub fn is_range(self) -> bool {
        matches!(self, Method::Range | Method::RangeColumns)
    }

    /// LIST or LIST COLUMNS.
    pub fn is_list(self) -> bool {
        matches!(self, Method::List | Method::ListColumns)
    }

    /// HASH or KEY: partitions without bounds.
    pub fn is_hash(self) -> bool {
        matches!(self, Method::Hash { .. } | Method::Key { .. })
    }
}

/// One partition.
#[derive(Clone, Debug, PartialEq)]
pub struct Partition {
    /// Its number, never used again in the table.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The values that belong to it.
    pub bound: PartitionBound,
    /// COMMENT.
    pub comment: String,
    /// Its subpartitions, as many as [`Subpartitioning::count`].
    pub subpartitions: Vec<Subpartition>,
}

/// One subpartition.
#[derive(Clone, Debug, PartialEq)]
pub struct Subpartition {
    /// Its number, never used again in the table.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// COMMENT.
    pub comment: String,
}

/// Bound of a partition: the values that belong to it.
#[derive(Clone, Debug, PartialEq)]
pub enum PartitionBound {
    /// Values with the partition's hash.
    None,
    /// Values below these bounds, one per column; `None` is MAXVALUE.
    LessThan(Vec<Option<Value>>),
    /// Exactly these values, each with one value per column.
    In(Vec<Vec<Value>>),
}

/// The name of a partition's subpartition, by its position, if none is given.
pub fn default_name(partition: &str, position: usize) -> String {
    format!("{partition}sp{position}")
}

impl Partitioning {
    /// Gives the next ids to a partition and its subpartitions.
    pub fn number(&mut self, partition: &mut Partition) {
        let subpartitions = partition.subpartitions.iter_mut().map(|sub| &mut sub.id);
        for id in std::iter::once(&mut partition.id).chain(subpartitions) {
            *id = self.next_id;
            self.next_id += 1;
        }
    }

    /// Updates column positions after columns have moved.
    pub(crate) fn move_columns(&mut self, to: &dyn Fn(usize) -> usize) {
        for column in &mut self.columns {
            *column = to(*column);
        }
        if let Some(expr) = &mut self.expr {
            expr.move_columns(to);
        }
        if let Some(sub) = &mut self.sub {
            for column in &mut sub.columns {
                *column = to(*column);
            }
            if let Some(expr) = &mut sub.expr {
                expr.move_columns(to);
            }
        }
    }

    /// Positions of the columns of PARTITION BY, then of those of SUBPARTITION BY.
    pub fn all_columns(&self) -> impl Iterator<Item = usize> + '_ {
        let sub = self.sub.iter().flat_map(|sub| &sub.columns);
        self.columns.iter().chain(sub).copied()
    }

    /// Number of leaves of each partition.
    pub fn leaves_per_partition(&self) -> usize {
        self.sub.as_ref().map_or(1, |sub| sub.count)
    }

    /// Number of leaves of the table.
    pub fn leaf_count(&self) -> usize {
        self.partitions.len() * self.leaves_per_partition()
    }

    /// The partition of a leaf, and the subpartition if there are any.
    pub fn leaf(&self, leaf: usize) -> Option<(&Partition, Option<&Subpartition>)> {
        let each = self.leaves_per_partition().max(1);
        let partition = self.partitions.get(leaf / each)?;
        Some((partition, partition.subpartitions.get(leaf % each)))
    }

    /// The name of a leaf: of a subpartition, or of a partition without subpartitions.
    pub fn leaf_name(&self, leaf: usize) -> Option<&str> {
        let (partition, sub) = self.leaf(leaf)?;
        Some(sub.map_or(partition.name.as_str(), |sub| sub.name.as_str()))
    }

    /// The id of a leaf.
    pub fn leaf_id(&self, leaf: usize) -> Option<u32> {
        let (partition, sub) = self.leaf(leaf)?;
        Some(sub.map_or(partition.id, |sub| sub.id))
    }

    /// The leaf with an id.
    pub fn leaf_of_id(&self, id: u32) -> Option<usize> {
        (0..self.leaf_count()).find(|leaf| self.leaf_id(*leaf) == Some(id))
    }

    /// The leaves of the partition or of the subpartition of that name, without regard to case.
    pub fn named_leaves(&self, name: &str) -> Option<Range<usize>> {
        let each = self.leaves_per_partition();
        if let Some(at) = self.partition(name) {
            return Some(at * each..(at + 1) * each);
        }
        self.sub.as_ref()?;
        let found = |leaf: &usize| {
            let name_of_leaf = self.leaf_name(*leaf);
            name_of_leaf.is_some_and(|n| n.eq_ignore_ascii_case(name))
        };
        let leaf = (0..self.leaf_count()).find(found)?;
        Some(leaf..leaf + 1)
    }

    /// The position of the partition of that name, without regard to case.
    pub fn partition(&self, name: &str) -> Option<usize> {
        self.partitions
            .iter()
            .position(|p| p.name.eq_ignore_ascii_case(name))
    }
}
