//! Scans: how the rows of one table are found, and what is read of them.

use super::placement::Placement;
use crate::expr::Expr;
use porpoise_kv::LockMode;

/// The rows of one table.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The slot that it fills.
    pub slot: usize,
    /// The path to the rows.
    pub access: Access,
    /// The part of each row that is read.
    pub mode: ScanMode,
    /// Conditions on the rows; those of the right side of a join stand in the join.
    pub filter: Vec<Expr>,
    /// Whether the conditions are checked where the engine shows a row: only those
    /// that pass are copied.
    pub in_place: bool,
    /// Conditions that hold for all that the path finds; not checked.
    pub implied: Vec<Expr>,
    /// Partitions, and overflow values to fetch.
    pub placement: Placement,
    /// The planner's estimate; zeros where it had no choice.
    pub estimate: Estimate,
}

/// The part of a row that a scan reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanMode {
    /// The row.
    Row,
    /// The entry of the index, which holds all columns that are needed.
    Covering,
    /// The entry of the index, of which no column is needed.
    CountOnly,
    /// The newest version of the row, locked.
    Locked(LockSpec),
}

/// The access path to the rows of a table.
#[derive(Clone, Debug)]
pub enum Access {
    /// Whole keys of a unique index, none of them NULL: one row each at most.
    PointLookup {
        /// Position of the index.
        index: usize,
        /// One list of expressions a key; constants, or columns of tables
        /// joined before.
        keys: Vec<Vec<Expr>>,
    },
    /// Leading index parts equal to one of these lists of values.
    IndexLookup {
        /// Position of the index.
        index: usize,
        /// As of a point lookup.
        keys: Vec<Vec<Expr>>,
        /// Whether entries come from the end.
        reverse: bool,
    },
    /// Key ranges of an index, each entry once, in the order of the index.
    IndexRangeScan {
        /// Position of the index.
        index: usize,
        /// One at least, in any order; they may overlap.
        ranges: Vec<IndexRange>,
        /// Whether entries come from the end.
        reverse: bool,
    },
    /// The rows that any of these paths finds, each once, in the order of the
    /// primary key; the whole table where they turn out to be many.
    IndexMergeUnion {
        /// Lookups and ranges of several indexes.
        arms: Vec<Access>,
        /// Primary keys collected at most before the table is read instead.
        most: usize,
    },
    /// All entries of an index in order; of index 0, the table.
    FullScan {
        /// Position of the index.
        index: usize,
        /// Whether entries come from the end.
        reverse: bool,
    },
    /// The keys that a subquery yields: `column IN (SELECT ...)`.
    SubqueryLookup {
        /// Position of the index, whose first part is the column.
        index: usize,
        /// The condition.
        test: Box<Expr>,
    },
    /// The rows of a virtual or derived table.
    VirtualScan,
}

/// Entries of an index whose leading parts are equal to one of some lists of
/// values, and whose next part lies between bounds.
#[derive(Clone, Debug)]
pub struct IndexRange {
    /// Values of the leading parts; one empty list where there are none.
    pub keys: Vec<Vec<Expr>>,
    /// Lower bound of the next part.
    pub low: Option<Bound>,
    /// Upper bound of the next part.
    pub high: Option<Bound>,
}

/// A bound of a range on one index part.
#[derive(Clone, Debug)]
pub struct Bound {
    /// The value.
    pub value: Expr,
    /// Whether it belongs to the range.
    pub inclusive: bool,
    /// The value is a pattern of LIKE: the range is that of texts which begin
    /// as it does up to its first wildcard.
    pub pattern: Option<Pattern>,
}

/// A pattern of LIKE as a range of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The escape character.
    pub escape: Option<u8>,
    /// The whole index is no good in place of the table: where the pattern
    /// begins with a wildcard the table is read.
    pub or_table: bool,
}

/// The planner's estimate of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Rows examined for each row joined before.
    pub rows: f64,
    /// The part of them that conditions leave.
    pub part: f64,
    /// Cost of the join up to and with this table, in rows read in order.
    pub cost: f64,
    /// Rows of the join up to and with this table.
    pub total: f64,
}

/// A lock to take on the rows of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockSpec {
    /// The strength.
    pub mode: LockMode,
    /// The reaction when it is not free.
    pub busy: Busy,
}

/// The reaction of a locking statement to a row that another transaction has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busy {
    /// Wait until `innodb_lock_wait_timeout`.
    Wait,
    /// Error 3572 at once.
    NoWait,
    /// Leave the row out.
    Skip,
}

impl Scan {
    /// A scan that reads rows.
    pub fn new(slot: usize, access: Access) -> Scan {
        Scan {
            slot,
            access,
            mode: ScanMode::Row,
            filter: Vec::new(),
            in_place: false,
            implied: Vec::new(),
            placement: Placement::default(),
            estimate: Estimate::default(),
        }
    }

    /// The slot as a bit set.
    #[inline]
    pub fn bit(&self) -> u64 {
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

    /// Whether entries of the index are read in place of rows.
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
            | Access::SubqueryLookup { .. } => "range",
            Access::IndexMergeUnion { .. } => "index_merge",
            Access::FullScan { index: 0, .. } | Access::VirtualScan => "ALL",
            Access::FullScan { .. } => "index",
        }
    }

    /// The index used, if it is one, and narrows or orders anything.
    pub fn index(&self) -> Option<usize> {
        match self {
            Access::PointLookup { index, .. }
            | Access::IndexLookup { index, .. }
            | Access::IndexRangeScan { index, .. }
            | Access::SubqueryLookup { index, .. } => Some(*index),
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

    /// Whether its rows can be shown where they lie.
    pub fn shows_rows(&self) -> bool {
        !matches!(
            self,
            Access::VirtualScan | Access::SubqueryLookup { .. } | Access::IndexMergeUnion { .. }
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
            Access::SubqueryLookup { test, .. } => visit(test),
            Access::FullScan { .. } | Access::VirtualScan => {}
        }
    }
}

impl IndexRange {
    /// Number of leading parts that it restricts.
    pub fn parts(&self) -> usize {
        let bounded = self.low.is_some() || self.high.is_some();
        self.keys.first().map_or(0, Vec::len) + usize::from(bounded)
    }

    /// Visits its expressions.
    pub fn expressions<'p>(&'p self, visit: &mut dyn FnMut(&'p Expr)) {
        self.keys.iter().flatten().for_each(&mut *visit);
        let bounds = self.low.iter().chain(&self.high);
        bounds.for_each(|bound| visit(&bound.value));
    }
}
