//! PARTITION BY.

use super::{Expr, Ident, TableOption};

/// PARTITION BY
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PartitionBy<'a> {
    /// The mapping of rows to partitions.
    pub scheme: PartitionScheme<'a>,
    /// PARTITIONS
    pub count: Option<u64>,
    /// SUBPARTITION BY, HASH or KEY
    pub sub_scheme: Option<PartitionScheme<'a>>,
    /// SUBPARTITIONS
    pub sub_count: Option<u64>,
    /// The partitions, empty if not given.
    pub partitions: &'a [PartitionDef<'a>],
}

/// Method that maps rows to partitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PartitionScheme<'a> {
    /// `[LINEAR] HASH (expr)`
    Hash {
        /// LINEAR
        linear: bool,
        /// The expression.
        expr: Expr<'a>,
    },
    /// `[LINEAR] KEY [ALGORITHM = n] (columns)`
    Key {
        /// LINEAR
        linear: bool,
        /// ALGORITHM
        algorithm: Option<u64>,
        /// The columns; empty for the primary key's.
        columns: &'a [Ident<'a>],
    },
    /// `RANGE (expr)`
    Range(Expr<'a>),
    /// `RANGE COLUMNS (columns)`
    RangeColumns(&'a [Ident<'a>]),
    /// `LIST (expr)`
    List(Expr<'a>),
    /// `LIST COLUMNS (columns)`
    ListColumns(&'a [Ident<'a>]),
}

/// The definition of a partition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PartitionDef<'a> {
    /// Its name.
    pub name: Ident<'a>,
    /// The values of its rows.
    pub values: PartitionValues<'a>,
    /// ENGINE, COMMENT and the like.
    pub options: &'a [TableOption<'a>],
    /// Its subpartitions: names with options.
    pub subpartitions: &'a [(Ident<'a>, &'a [TableOption<'a>])],
}

/// The values of a partition's rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PartitionValues<'a> {
    /// None (HASH, KEY).
    None,
    /// `LESS THAN (bounds)`; a bound of None is MAXVALUE.
    LessThan(&'a [Option<Expr<'a>>]),
    /// `IN (values)`
    In(&'a [Expr<'a>]),
}
