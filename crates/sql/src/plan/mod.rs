//! Plans: what to read, in which order, by which index.
//!
//! A plan is made from a bound statement and owns everything it needs; it is
//! executed any number of times with different parameters. Access paths and
//! the order of joins are chosen by estimated cost, from statistics of the
//! tables; a whole unique key needs none. Every condition is checked again on
//! the row it is about, so that an access path only ever narrows what is
//! looked at and never decides what is true.
//!
//! Invariants:
//! 1. A condition stands at the first step after which all its tables are
//!    joined, and nowhere else.
//! 2. Steps of outer joins keep the order of the FROM clause.

pub mod access;
mod columns;
mod consecutive;
mod context;
mod cost;
pub mod derived;
pub mod dml;
mod either;
mod extremes;
mod facts;
mod finish;
mod from;
mod grouping;
pub mod hints;
mod index_order;
pub mod insert;
mod joins;
mod keys;
pub mod multi;
mod needed;
mod order;
mod pieces;
pub mod placement;
pub mod planned;
mod query;
mod recursive;
pub mod select;
mod semi;
mod spans;
mod upsert;
pub mod uses;
pub mod views;

use crate::bind::{Aggregate, Source};
use crate::expr::Expr;
use porpoise_kv::LockMode;
use porpoise_rows::catalog::Table;
use porpoise_types::{ColumnType, CompareAs};
use std::sync::Arc;

pub use spans::Span;

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

/// How the rows of a table are found.
#[derive(Clone, Debug)]
pub enum Access {
    /// Leading index parts equal to one of these lists of values.
    Lookup {
        /// Position of the index.
        index: usize,
        /// One list of expressions a key; constants, or columns of tables
        /// joined before.
        keys: Vec<Vec<Expr>>,
        /// The keys are whole keys of a unique index: one row each at most.
        whole: bool,
        /// Entries from the end.
        reverse: bool,
    },
    /// Spans of an index, each entry once, in the order of the index.
    Range {
        /// Position of the index.
        index: usize,
        /// One at least, in any order; they may overlap.
        spans: Vec<Span>,
        /// From the end.
        reverse: bool,
    },
    /// The rows that any of these paths finds, each once, in the order of the
    /// primary key; the whole table where they turn out to be many.
    Union {
        /// Look-ups and ranges of several indexes.
        arms: Vec<Access>,
        /// Rows gathered at most before the table is read instead.
        most: usize,
    },
    /// All entries of an index in order.
    Full {
        /// Position of the index.
        index: usize,
        /// From the end.
        reverse: bool,
    },
    /// The keys that a subquery yields: `column IN (SELECT ...)`.
    Set {
        /// Position of the index, whose first part is the column.
        index: usize,
        /// The condition.
        test: Box<Expr>,
    },
    /// The rows of a virtual or derived table; also of a group of steps.
    Virtual,
}

impl Access {
    /// EXPLAIN's join type (manual, "EXPLAIN Join Types").
    pub fn kind(&self, depends: bool) -> &'static str {
        match self {
            Access::Lookup { keys, whole, .. } => match (whole, depends, keys.len()) {
                (true, true, _) => "eq_ref",
                (true, false, 1) => "const",
                (true, false, _) => "range",
                (false, _, 1) => "ref",
                (false, ..) => "range",
            },
            Access::Range { .. } | Access::Set { .. } => "range",
            Access::Union { .. } => "index_merge",
            Access::Full { index: 0, .. } => "ALL",
            Access::Full { .. } => "index",
            Access::Virtual => "ALL",
        }
    }

    /// The index used, if it is one, and narrows or orders anything.
    pub fn index(&self) -> Option<usize> {
        match self {
            Access::Lookup { index, .. }
            | Access::Range { index, .. }
            | Access::Set { index, .. } => Some(*index),
            Access::Full { index, .. } if *index != 0 => Some(*index),
            _ => None,
        }
    }

    /// Whether entries come from the end of the index.
    pub fn reverse(&self) -> bool {
        match self {
            Access::Lookup { reverse, .. }
            | Access::Range { reverse, .. }
            | Access::Full { reverse, .. } => *reverse,
            Access::Union { .. } | Access::Set { .. } | Access::Virtual => false,
        }
    }

    /// Visits its expressions.
    pub fn expressions(&self, visit: &mut dyn FnMut(&Expr)) {
        match self {
            Access::Lookup { keys, .. } => keys.iter().flatten().for_each(visit),
            Access::Range { spans, .. } => spans.iter().for_each(|s| s.expressions(visit)),
            Access::Union { arms, .. } => arms.iter().for_each(|arm| arm.expressions(visit)),
            Access::Set { test, .. } => visit(test),
            Access::Full { .. } | Access::Virtual => {}
        }
    }
}

/// One table of a join.
#[derive(Clone, Debug)]
pub struct Step {
    /// The slot that it fills.
    pub slot: usize,
    /// How.
    pub access: Access,
    /// The right side of a LEFT JOIN: without a match the slot stays empty.
    pub outer: bool,
    /// The conditions of an outer join's ON: they decide what matches.
    pub on: Vec<Expr>,
    /// Conditions that can be checked once this slot is filled.
    pub filter: Vec<Expr>,
    /// Conditions that hold for all that the access path finds; not checked.
    pub implied: Vec<Expr>,
    /// FOR UPDATE, FOR SHARE, or the lock of a changing statement.
    pub lock: Option<LockSpec>,
    /// Equalities for a hash join; empty where an index leads to the rows.
    pub hash: Vec<HashKey>,
    /// Not joined but asked for: rows stay that have a match, or, where this
    /// is true, those that have none.
    pub semi: Option<bool>,
    /// The right side of an outer join of several tables: these steps
    /// together, in place of this one's own access.
    pub group: Vec<Step>,
    /// Which partitions, and which large values.
    pub placement: placement::Placement,
    /// The entries of the index are enough; no row is read.
    pub entries: bool,
    /// No column of them is asked for, either.
    pub bare: bool,
    /// The rows are read once, whatever is joined before, and held.
    pub held: bool,
    /// What the planner expects of it; zeros where it had no choice.
    pub estimate: Estimate,
}

/// What the planner expects of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Rows that it looks at for each row joined before.
    pub rows: f64,
    /// The part of them that its conditions leave.
    pub part: f64,
    /// Cost of the join up to and with this step, in rows read in order.
    pub cost: f64,
    /// Rows of the join up to and with this step.
    pub total: f64,
}

impl Step {
    /// A step that reads one table.
    pub fn of_table(slot: usize, access: Access) -> Step {
        Step {
            slot,
            access,
            outer: false,
            on: Vec::new(),
            filter: Vec::new(),
            implied: Vec::new(),
            lock: None,
            hash: Vec::new(),
            semi: None,
            group: Vec::new(),
            placement: placement::Placement::default(),
            entries: false,
            bare: false,
            held: false,
            estimate: Estimate::default(),
        }
    }

    /// The slots that it fills.
    pub fn slots(&self) -> u64 {
        match self.group.as_slice() {
            [] => 1 << (self.slot & 63),
            group => group.iter().fold(0, |all, s| all | s.slots()),
        }
    }

    /// This step, or those of its group, and of groups in it.
    pub fn tables(&self) -> Vec<&Step> {
        match self.group.as_slice() {
            [] => vec![self],
            group => group.iter().flat_map(Step::tables).collect(),
        }
    }
}

/// An equality between what is joined already and a row to be found.
#[derive(Clone, Debug)]
pub struct HashKey {
    /// Of the tables joined before.
    pub known: Expr,
    /// Of the row.
    pub own: Expr,
    /// How they compare.
    pub how: CompareAs,
}

/// What a locking statement does when a row is locked by somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busy {
    /// Wait until `innodb_lock_wait_timeout`.
    Wait,
    /// Error 3572 at once.
    NoWait,
    /// Leave the row out.
    Skip,
}

/// A lock to take on the rows of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockSpec {
    /// The strength.
    pub mode: LockMode,
    /// When it is not free.
    pub busy: Busy,
}

/// A key to sort by.
#[derive(Clone, Debug)]
pub struct OrderKey {
    /// The value.
    pub expr: Expr,
    /// Descending.
    pub desc: bool,
}

/// A column of a result, as clients are told.
#[derive(Clone, Debug)]
pub struct ResultColumn {
    /// Database of the table.
    pub schema: String,
    /// Alias of the table.
    pub table: String,
    /// The table.
    pub org_table: String,
    /// Alias of the column.
    pub name: String,
    /// The column.
    pub org_name: String,
    /// The type.
    pub ty: ColumnType,
    /// Flags of [`porpoise_types::column_flag`].
    pub flags: u16,
}

/// A query without set operations.
#[derive(Clone, Debug)]
pub struct SelectPlan {
    /// The tables; the position is the slot.
    pub sources: Vec<Source>,
    /// In the order in which they are joined.
    pub steps: Vec<Step>,
    /// Conditions on no table: checked once.
    pub constant: Vec<Expr>,
    /// The select list.
    pub items: Vec<Expr>,
    /// Items at the end of the list that the query's rows carry along, and DISTINCT passes over.
    pub behind: usize,
    /// Its metadata.
    pub columns: Vec<ResultColumn>,
    /// Aggregates in select list, HAVING and ORDER BY.
    pub aggregates: Vec<Aggregate>,
    /// Queries of one row that find the aggregates' values; empty where they
    /// come of all rows.
    pub extremes: Vec<SelectPlan>,
    /// GROUP BY.
    pub group_by: Vec<Expr>,
    /// There is a GROUP BY or an aggregate.
    pub grouped: bool,
    /// HAVING, of a grouped query.
    pub having: Option<Expr>,
    /// WITH ROLLUP: values of the GROUP BY keys and of GROUPING() stand behind
    /// those of the aggregates.
    pub rollup: bool,
    /// DISTINCT.
    pub distinct: bool,
    /// Rows of one group follow each other; without groups, rows that DISTINCT
    /// takes for the same.
    pub consecutive: bool,
    /// ORDER BY; empty when the access path gives the order.
    pub order_by: Vec<OrderKey>,
    /// LIMIT.
    pub limit: Option<Expr>,
    /// OFFSET.
    pub offset: Option<Expr>,
    /// SQL_CALC_FOUND_ROWS: rows beyond LIMIT are counted.
    pub counts_all: bool,
    /// Stored tables that queries inside this one read; of the outermost
    /// query only.
    pub inner_tables: Vec<Arc<Table>>,
    /// Expressions of this query hold subqueries.
    pub has_queries: bool,
    /// A query inside this one locks rows; of the outermost query only.
    pub inner_locks: bool,
}

impl SelectPlan {
    /// `SELECT value`, for a value whose own place is elsewhere.
    pub fn of_value(value: Expr) -> SelectPlan {
        SelectPlan {
            sources: Vec::new(),
            steps: Vec::new(),
            constant: Vec::new(),
            has_queries: value.has_query(),
            items: vec![value],
            behind: 0,
            columns: Vec::new(),
            aggregates: Vec::new(),
            extremes: Vec::new(),
            group_by: Vec::new(),
            grouped: false,
            having: None,
            rollup: false,
            distinct: false,
            consecutive: false,
            order_by: Vec::new(),
            limit: None,
            offset: None,
            counts_all: false,
            inner_tables: Vec::new(),
            inner_locks: false,
        }
    }

    /// Whether rows are locked.
    pub fn locks(&self) -> bool {
        self.inner_locks || self.all_steps().any(|s| s.lock.is_some())
    }

    /// The steps that read tables, those of groups in the place of the group.
    pub fn all_steps(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().flat_map(Step::tables)
    }

    /// Visits the expressions of this query, not those of queries inside.
    pub fn expressions(&self, visit: &mut impl FnMut(&Expr)) {
        fn of_step(step: &Step, visit: &mut impl FnMut(&Expr)) {
            step.on.iter().chain(&step.filter).for_each(&mut *visit);
            step.access.expressions(visit);
            step.group.iter().for_each(|s| of_step(s, visit));
        }
        self.steps.iter().for_each(|s| of_step(s, visit));
        self.constant.iter().for_each(&mut *visit);
        self.items.iter().for_each(&mut *visit);
        for aggregate in &self.aggregates {
            aggregate.args.iter().for_each(&mut *visit);
            aggregate.order.iter().for_each(|k| visit(&k.expr));
        }
        self.group_by.iter().for_each(&mut *visit);
        self.having.iter().for_each(&mut *visit);
        self.order_by.iter().for_each(|k| visit(&k.expr));
        self.limit.iter().chain(&self.offset).for_each(visit);
    }

    /// Whether the same inputs give the same rows.
    pub fn is_fixed(&self) -> bool {
        let mut fixed = true;
        self.expressions(&mut |e| fixed &= e.is_fixed());
        fixed
            && self.sources.iter().all(|s| match &s.origin {
                crate::bind::Origin::Derived(derived) => derived.rows.is_fixed(),
                _ => true,
            })
    }
}
