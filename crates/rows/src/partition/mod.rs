//! Partitioning: how a table's rows are dealt out to spaces.
//!
//! A partitioned table has one space a partition for its rows, for each index
//! and for its overflow values. A row's partition follows from the
//! values of the partitioning columns, and so from any whole key: the primary
//! key and every unique key contain these columns (error 1503), an entry of a
//! plain index ends with the primary key, and the key of a row without a
//! declared primary key ends with the number of its partition. So a key alone
//! gives its space ([`crate::routing`]), without reading anything.
//!
//! Here are the definitions and, in [`expr`], the expressions of HASH, RANGE
//! and LIST.
//!
//! Invariants:
//! 1. Partitions are routed by keys' bytes in their nullable ascending form,
//!    so that equal values of a collation go to one partition.
//! 2. `spaces` of every index, and `overflow_spaces` of the table, have one entry a
//!    partition, in the order of [`Partitioning::partitions`].
//! 3. A partition's id is never used again in its table; hidden keys name it.
//! 4. The hash is a format: rows lie where it put them (docs/formats.md).
//!
//! Rejected: a table a partition behind a view (constraints would have to look
//! through it); MySQL's own hash of KEY (nothing but the numbering of
//! partitions would be gained, at the price of its old collation weights).

pub mod expr;
pub mod persist;

use porpoise_types::Value;

/// Most partitions a table may have (manual, "Restrictions and Limitations on
/// Partitioning").
pub const MAX_PARTITIONS: usize = 8192;

/// PARTITION BY of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Partitioning {
    /// How.
    pub method: Method,
    /// The partitioning columns (positions): those listed, or those that the
    /// expression uses.
    pub columns: Vec<usize>,
    /// The expression of HASH, RANGE and LIST.
    pub expr: Option<expr::PartitionExpr>,
    /// ALGORITHM of KEY was given.
    pub algorithm: Option<u8>,
    /// The partitions were given by number only (HASH, KEY): shown so.
    pub by_number: bool,
    /// The partitions in order.
    pub partitions: Vec<Partition>,
    /// The next partition's id.
    pub next_id: u32,
}

/// How rows are dealt out.
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
    pub fn words(self) -> &'static str {
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
    /// What belongs into it.
    pub bound: PartitionBound,
    /// COMMENT.
    pub comment: String,
}

/// What belongs into a partition.
#[derive(Clone, Debug, PartialEq)]
pub enum PartitionBound {
    /// What the hash says.
    None,
    /// Values below this, one a column; `None` is MAXVALUE.
    LessThan(Vec<Option<Value>>),
    /// Exactly these, each one value a column.
    In(Vec<Vec<Value>>),
}

impl Partitioning {
    /// Follows columns to other positions of the table.
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
