//! Table operators: their rows are read like those of a table without indexes. They stand
//! behind a scan of a derived table, a common table expression, a view, a set operation or
//! VALUES, and are materialized: made whole once an execution, or once for each set of values
//! that they depend on, where they name columns from outside.
//!
//! ```text
//!  (SELECT a FROM t EXCEPT SELECT b FROM u) ORDER BY 1     WITH RECURSIVE r AS (SELECT 1 AS n UNION
//!                                                            SELECT n + 1 FROM r) SELECT * FROM r
//!  Sort  a
//!    Scan <derived>                                        Project
//!      Set                                                   Scan r
//!        Project                                               Recursive
//!          Scan t                                                Project
//!        except Project                                            SingleRow
//!          Scan u                                                Project
//!                                                                  Scan r  WorkingTable
//! ```
//!
//! Invariants:
//! 1. Every operand of a set operation yields its columns in the types of the
//!    whole: the conversion is part of the operand's select list.
//! 2. References to one common table expression share one [`Derived`].
//!
//! Rejected: a binary operator for each set operation. A chain of thousands of UNIONs would be
//! a tree as deep.

use super::QueryPlan;
use crate::bind::{DerivedPlan, ScopeColumn};
use crate::expr::Expr;
use crate::expr::query::FreeRef;
use crate::parse::ast::SetOp;
use std::sync::Arc;

pub use crate::bind::Derived;

/// An operator whose rows are those of a table.
#[derive(Debug)]
pub enum TableOperator {
    /// The rows of one query.
    Materialize(Box<QueryPlan>),
    /// UNION, INTERSECT and EXCEPT.
    Set(Box<SetOperation>),
    /// VALUES.
    Values(Vec<Vec<Expr>>),
    /// A recursive common table expression.
    Recursive(Recursive),
    /// The rows that the iteration before of a recursive common table
    /// expression found.
    WorkingTable,
}

/// Queries combined from left to right.
#[derive(Debug)]
pub struct SetOperation {
    /// The leftmost.
    pub first: QueryPlan,
    /// The others.
    pub rest: Vec<SetTerm>,
}

/// A set operation with its right operand.
#[derive(Debug)]
pub struct SetTerm {
    /// Which.
    pub op: SetOp,
    /// ALL: duplicates stay.
    pub all: bool,
    /// The right operand.
    pub plan: QueryPlan,
}

/// A recursive common table expression.
#[derive(Debug)]
pub struct Recursive {
    /// Its first rows.
    pub seed: Box<QueryPlan>,
    /// The queries that find more from those found last.
    pub steps: Vec<QueryPlan>,
    /// Rows that were found before are left out.
    pub distinct: bool,
    /// The derived table that the steps read the rows found last from.
    pub working: Arc<Derived>,
    /// LIMIT: the steps end when so many rows are there.
    pub limit: Option<Expr>,
    /// OFFSET: rows left out.
    pub offset: Option<Expr>,
}

impl DerivedPlan for TableOperator {
    fn could_be_merged(&self) -> bool {
        matches!(self, TableOperator::Materialize(plan) if plan.mergeable)
    }
}

/// Stands for the rows of a plan that this planner did not make, of which there are none.
static NO_ROWS: TableOperator = TableOperator::WorkingTable;

/// The operator of a derived table.
pub fn operator_of(derived: &Derived) -> &TableOperator {
    derived.rows_as().unwrap_or(&NO_ROWS)
}

/// The rows of a query as a table.
pub(super) fn materialized(
    plan: QueryPlan,
    columns: Vec<ScopeColumn>,
    free: Vec<FreeRef>,
) -> Derived {
    Derived {
        rows: Box::new(TableOperator::Materialize(Box::new(plan))),
        columns,
        free,
    }
}

/// Rows of the iteration before, or of another place.
pub(super) fn working_table(columns: Vec<ScopeColumn>) -> Derived {
    Derived {
        rows: Box::new(TableOperator::WorkingTable),
        columns,
        free: Vec::new(),
    }
}

impl TableOperator {
    /// The queries directly beneath, those behind the first with the operation that adds
    /// their rows.
    pub fn inputs(&self) -> Vec<(Option<SetOp>, &QueryPlan)> {
        match self {
            TableOperator::Materialize(plan) => vec![(None, plan)],
            TableOperator::Set(set) => {
                let rest = set.rest.iter().map(|t| (Some(t.op), &t.plan));
                std::iter::once((None, &set.first)).chain(rest).collect()
            }
            TableOperator::Recursive(r) => {
                let steps = r.steps.iter().map(|step| (Some(SetOp::Union), step));
                std::iter::once((None, &*r.seed)).chain(steps).collect()
            }
            TableOperator::Values(_) | TableOperator::WorkingTable => Vec::new(),
        }
    }

    /// Whether the same inputs give the same rows.
    pub fn is_fixed(&self) -> bool {
        match self {
            TableOperator::Values(rows) => rows.iter().flatten().all(Expr::is_fixed),
            // Fixed for those who may see it: the steps of its expression.
            TableOperator::WorkingTable => true,
            other => other.inputs().into_iter().all(|(_, plan)| plan.is_fixed()),
        }
    }
}

/// `name` in the WITH clauses around a query.
#[derive(Clone, Debug)]
pub struct CteEntry {
    /// The name.
    pub name: String,
    /// The rows; `None` for a recursive one whose columns are not known yet.
    pub derived: Option<Arc<Derived>>,
    /// Depth of the query that defines it.
    pub depth: usize,
}
