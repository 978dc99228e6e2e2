//! Partitioning: distribution of a table's rows over spaces.
//!
//! A partitioned table has, per partition, one space for its rows, one for each index and one for
//! overflow values. The partitioning columns determine a row's partition, and so does any complete
//! key: the primary key and every unique key contain these columns (error 1503), an entry of a
//! plain index ends with the primary key, and the hidden key of a table without a primary key ends
//! with the number of its partition.
//! So a key alone determines its space ([`crate::routing`]), without any read.
//!
//! This module has the definitions; [`expr`] has the expressions of HASH, RANGE and LIST.
//!
//! Invariants:
//! 1. A row is routed by the encoded keys of its partitioning columns (nullable, ascending), so that
//!    equal values of a collation go to one partition.
//! 2. `spaces` of every index, and `overflow_spaces` of the table, have one entry per partition, in
//!    the order of [`Partitioning::partitions`].
//! 3. A partition's id is never reused in its table: hidden keys contain it.
//! 4. The hash function is part of the disk format (docs/formats.md).
//!
//! Rejected: a table per partition behind a view (constraints would have to span tables); MySQL's
//! own hash of KEY (would only make partition numbers equal, and require its old collation
//! weights).

pub mod expr;
pub mod persist;

use porpoise_types::Value;

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
    /// The next partition's id.
    pub next_id: u32,
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

impl Partitioning {
    /// Updates column positions after columns have moved.
    pub(crate) fn move_columns(&mut self, to: &dyn Fn(usize) -> usize) {
        for column in &mut self.columns {
            *column = to(*column);
        }
        if let Some(expr) = &mut self.expr {
            expr.move_columns(to);
        }
    }

    /// The position of the partition of that name, without regard to case.
    pub fn partition(&self, name: &str) -> Option<usize> {
        self.partitions
            .iter()
            .position(|p| p.name.eq_ignore_ascii_case(name))
    }
}
