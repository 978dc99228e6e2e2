//! Scans: the access path to the rows of one table, and the columns that are read.

use super::placement::Placement;
use crate::expr::Expr;
pub use crate::parse::ast::LockWait;
use porpoise_kv::LockMode;

/// A scan of one table.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The slot that the scan fills.
    pub slot: usize,
    /// The access path.
    pub access: Access,
    /// The part of each row that is read.
    pub mode: ScanMode,
    /// Conditions on the rows; those on the right side of a join are in the join.
    pub filter: Vec<Expr>,
    /// Place where the conditions are checked.
    pub filter_place: FilterPlace,
    /// Conditions that hold for every row of the access path, and are not checked.
    pub implied: Vec<Expr>,
    /// Partition pruning, and the overflow values to fetch.
    pub placement: Placement,
    /// The planner's estimate; zeros if it had no choice.
    pub estimate: Estimate,
}

/// The rows on which the conditions of a scan are checked: a row in place is not copied unless it
/// passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterPlace {
    /// All on copies.
    Copies,
    /// Those with subqueries on copies of the rows that pass the others in place.
    Split,
    /// All in place.
    InPlace,
}

/// The part of a row that a scan reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanMode {
    /// The row.
    Row,
    /// The index entry, which has all columns that are needed.
    Covering,
    /// The index entry, of which no column is needed.
    CountOnly,
    /// The newest version of the row, locked.
    Locked(LockSpec),
}

/// The access path to the rows of a table.
#[derive(Clone, Debug)]
pub enum Access {
    /// Whole keys of a unique index, without NULL: at most one row for each key.
    PointLookup {
        /// Position of the index.
        index: usize,
        /// One list of expressions for each key: constants, or columns of tables joined before.
        keys: Vec<Vec<Expr>>,
    },
    /// Equality of leading index parts with one of these lists of values.
    IndexLookup {
        /// Position of the index.
        index: usize,
        /// One list of expressions for each key.
        keys: Vec<Vec<Expr>>,
        /// Whether entries come from the end.
        reverse: bool,
    },
    /// Key ranges of an index, in index order, each entry once.
    IndexRangeScan {
        /// Position of the index.
        index: usize,
        /// At least one range; they are unordered and may overlap.
        ranges: Vec<IndexRange>,
        /// Whether entries come from the end.
        reverse: bool,
    },
    /// The union of the rows of several paths, in the order of the primary key; the whole table if
    /// there turn out to be many.
    IndexMergeUnion {
        /// Lookups and ranges of several indexes.
        arms: Vec<Access>,
        /// Maximum number of primary keys to collect before falling back to a table scan.
        most: usize,
    },
    /// A few entries of each group of an index, in order.
    LooseScan(Box<LooseScan>),
    /// All entries of an index, in order; index 0 is the table.
    FullScan {
        /// Position of the index.
        index: usize,
        /// Whether entries come from the end.
        reverse: bool,
    },
    /// Lookup by the keys that a subquery yields: `column IN (SELECT ...)`.
    SubqueryLookup {
        /// Position of the index, whose first part is the column.
        index: usize,
        /// The condition.
        test: Box<Expr>,
    },
    /// The rows that a search of a FULLTEXT index finds.
    TextSearch {
        /// Position of the index.
        index: usize,
        /// The MATCH.
        search: Box<Expr>,
        /// The order of the rows.
        order: SearchOrder,
    },
    /// The rows of a virtual or derived table.
    VirtualScan,
}

/// Order of the rows that a search of a FULLTEXT index finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchOrder {
    /// By descending relevance; rows of equal relevance by key.
    Relevance,
    /// By key: without a sort, and neighbouring rows are read together.
    Key,
}

/// A loose index scan. Index entries with equal leading parts form a group. Of each group it reads
/// the first entry, or the entries with the least and greatest value of the next part, for queries
/// whose result does not depend on the other rows of the group.
#[derive(Clone, Debug)]
pub struct LooseScan {
    /// Position of the index.
    pub index: usize,
    /// Number of leading parts that make a group.
    pub parts: usize,
    /// Whether to read the first entry whose next part is not NULL.
    pub minimum: bool,
    /// Whether to read the last entry.
    pub maximum: bool,
    /// Ranges of the leading parts; empty for the whole index.
    pub ranges: Vec<IndexRange>,
}

/// Index entries whose leading parts are equal to one of some lists of values, and whose next part
/// is within bounds.
#[derive(Clone, Debug)]
pub struct IndexRange {
    /// Lists of values for the leading parts; one empty list if there are no equalities.
    pub keys: Vec<Vec<Expr>>,
    /// Lower bound of the next part.
    pub low: Option<Bound>,
    /// Upper bound of the next part.
    pub high: Option<Bound>,
    /// For NOT IN: the next part is neither NULL nor one of these values. Such a range has no bounds.
    pub except: Vec<Expr>,
}

/// A bound of a range on one index part.
#[derive(Clone, Debug)]
pub struct Bound {
    /// The value.
    pub value: Expr,
    /// Whether the bound is inclusive.
    pub inclusive: bool,
    /// The value is a LIKE pattern: the range is that of texts with the pattern's literal prefix.
    pub pattern: Option<Pattern>,
}

/// A LIKE pattern as a range of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The escape character.
    pub escape: Option<u8>,
    /// Whether to read the table instead if the pattern begins with a wildcard, because a scan of
    /// the whole index is no better.
    pub may_scan_table: bool,
}

/// The planner's estimate of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Rows read for each row joined before.
    pub rows: f64,
    /// Selectivity of the conditions.
    pub selectivity: f64,
    /// Cost of the join up to and including this table, in units of one row read in sequence.
    pub cost: f64,
    /// Rows of the join up to and including this table.
    pub join_rows: f64,
}

/// A lock to take on the rows of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockSpec {
    /// The strength.
    pub mode: LockMode,
    /// Handling of locked rows.
    pub wait: LockWait,
}

impl Scan {
    /// A scan that reads rows.
    pub fn new(slot: usize, access: Access) -> Scan {
        Scan {
            slot,
            access,
            mode: ScanMode::Row,
            filter: Vec::new(),
            filter_place: FilterPlace::Copies,
            implied: Vec::new(),
            placement: Placement::default(),
            estimate: Estimate::default(),
        }
    }

    /// The slot as a bit set.
    #[inline]
    pub fn slot_bit(&self) -> u64 {
        1 << (self.slot & 63)
    }

    /// The lock.
    #[inline]
    pub fn lock(&self) -> Option<LockSpec> {
        match self.mode {
            ScanMode::Locked(lock) => Some(lock),
            ScanMode::Row | ScanMode::Covering | ScanMode::CountOnly => None,
        }
    }

    /// Whether index entries are read instead of rows.
    #[inline]
    pub fn is_covering(&self) -> bool {
        matches!(self.mode, ScanMode::Covering | ScanMode::CountOnly)
    }

    /// Whether it finds rows by whole unique keys.
    pub fn is_point_lookup(&self) -> bool {
        matches!(self.access, Access::PointLookup { .. })
    }

    /// Visits the expressions that are evaluated.
    pub fn expressions<'p>(&'p self, visit: &mut dyn FnMut(&'p Expr)) {
        self.filter.iter().for_each(&mut *visit);
        self.access.expressions(visit);
    }
}

impl Access {
    /// EXPLAIN's join type (manual, "EXPLAIN Join Types").
    pub fn kind(&self) -> &'static str {
        let depends = |keys: &[Vec<Expr>]| keys.iter().flatten().any(|e| e.slots() != 0);
        match self {
            Access::PointLookup { keys, .. } if depends(keys) => "eq_ref",
            Access::PointLookup { keys, .. } if keys.len() == 1 => "const",
            Access::IndexLookup { keys, .. } if keys.len() == 1 => "ref",
            Access::PointLookup { .. }
            | Access::IndexLookup { .. }
            | Access::IndexRangeScan { .. }
            | Access::LooseScan(_)
            | Access::SubqueryLookup { .. } => "range",
            Access::IndexMergeUnion { .. } => "index_merge",
            Access::TextSearch { .. } => "fulltext",
            Access::FullScan { index: 0, .. } | Access::VirtualScan => "ALL",
            Access::FullScan { .. } => "index",
        }
    }

    /// The index that is used, if it narrows or orders the rows.
    pub fn index(&self) -> Option<usize> {
        match self {
            Access::PointLookup { index, .. }
            | Access::IndexLookup { index, .. }
            | Access::IndexRangeScan { index, .. }
            | Access::SubqueryLookup { index, .. }
            | Access::TextSearch { index, .. } => Some(*index),
            Access::LooseScan(scan) => Some(scan.index),
            Access::FullScan { index, .. } if *index != 0 => Some(*index),
            _ => None,
        }
    }

    /// The keys of a lookup.
    pub fn keys(&self) -> Option<&[Vec<Expr>]> {
        match self {
            Access::PointLookup { keys, .. } | Access::IndexLookup { keys, .. } => Some(keys),
            _ => None,
        }
    }

    /// Whether entries come from the end of the index.
    pub fn reverse(&self) -> bool {
        match self {
            Access::IndexLookup { reverse, .. }
            | Access::IndexRangeScan { reverse, .. }
            | Access::FullScan { reverse, .. } => *reverse,
            _ => false,
        }
    }

    /// Whether rows can be visited in place.
    pub fn can_visit_in_place(&self) -> bool {
        !matches!(
            self,
            Access::VirtualScan
                | Access::SubqueryLookup { .. }
                | Access::TextSearch { .. }
                | Access::IndexMergeUnion { .. }
                | Access::LooseScan(_)
        )
    }

    /// Visits its expressions.
    pub fn expressions<'p>(&'p self, visit: &mut dyn FnMut(&'p Expr)) {
        match self {
            Access::PointLookup { keys, .. } | Access::IndexLookup { keys, .. } => {
                keys.iter().flatten().for_each(visit);
            }
            Access::IndexRangeScan { ranges, .. } => {
                ranges.iter().for_each(|range| range.expressions(visit));
            }
            Access::IndexMergeUnion { arms, .. } => {
                arms.iter().for_each(|arm| arm.expressions(visit));
            }
            Access::LooseScan(scan) => {
                scan.ranges
                    .iter()
                    .for_each(|range| range.expressions(visit));
            }
            Access::SubqueryLookup { test, .. } => visit(test),
            Access::TextSearch { search, .. } => visit(search),
            Access::FullScan { .. } | Access::VirtualScan => {}
        }
    }
}

impl IndexRange {
    /// Number of leading parts that the range restricts.
    pub fn parts(&self) -> usize {
        let bounded = self.low.is_some() || self.high.is_some() || !self.except.is_empty();
        self.keys.first().map_or(0, Vec::len) + usize::from(bounded)
    }

    /// Visits its expressions.
    pub fn expressions<'p>(&'p self, visit: &mut dyn FnMut(&'p Expr)) {
        self.keys.iter().flatten().for_each(&mut *visit);
        let bounds = self.low.iter().chain(&self.high);
        bounds.for_each(|bound| visit(&bound.value));
        self.except.iter().for_each(visit);
    }
}
