//! Rows that come from a query instead of from a table: derived tables,
//! common table expressions, views, set operations, VALUES.
//!
//! Such rows are made once an execution (once for each set of values that
//! they depend on, where they name columns from outside) and read like those
//! of a table without indexes.
//!
//! Invariants:
//! 1. Every operand of a set operation yields its columns in the types of the
//!    whole: the conversion is part of the operand's select list.
//! 2. References to one common table expression share one [`Derived`].

use super::QueryPlan;
use crate::bind::DerivedPlan;
use crate::expr::Expr;
use crate::parse::ast::SetOp;
use std::sync::Arc;

pub use crate::bind::Derived;

/// The way in which rows are made.
#[derive(Debug)]
pub enum RowsPlan {
    /// By one query.
    Select(Box<QueryPlan>),
    /// By several, combined from left to right.
    Set(Box<SetPlan>),
    /// By VALUES.
    Values(Vec<Vec<Expr>>),
    /// By a recursive common table expression.
    Recursive(RecursivePlan),
    /// The rows that the iteration before of a recursive common table
    /// expression found.
    Working,
}

/// Queries combined by set operations.
#[derive(Debug)]
pub struct SetPlan {
    /// The leftmost.
    pub first: QueryPlan,
    /// The others.
    pub rest: Vec<SetTermPlan>,
}

/// A set operation with its right operand.
#[derive(Debug)]
pub struct SetTermPlan {
    /// Which.
    pub op: SetOp,
    /// ALL: duplicates stay.
    pub all: bool,
    /// The right operand.
    pub plan: QueryPlan,
}

/// A recursive common table expression.
#[derive(Debug)]
pub struct RecursivePlan {
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

impl DerivedPlan for RowsPlan {
    fn could_be_merged(&self) -> bool {
        matches!(self, RowsPlan::Select(plan) if plan.mergeable)
    }
}

/// Stands for the rows of a plan that this planner did not make, of which there are none.
static NO_ROWS: RowsPlan = RowsPlan::Working;

/// The plan of a derived table.
pub fn rows_of(derived: &Derived) -> &RowsPlan {
    derived.rows_as().unwrap_or(&NO_ROWS)
}

impl RowsPlan {
    /// The queries directly beneath.
    pub fn selects(&self) -> Vec<&QueryPlan> {
        match self {
            RowsPlan::Select(plan) => vec![plan],
            RowsPlan::Set(set) => {
                let rest = set.rest.iter().map(|t| &t.plan);
                std::iter::once(&set.first).chain(rest).collect()
            }
            RowsPlan::Recursive(r) => std::iter::once(&*r.seed).chain(&r.steps).collect(),
            RowsPlan::Values(_) | RowsPlan::Working => Vec::new(),
        }
    }

    /// Whether the same inputs give the same rows.
    pub fn is_fixed(&self) -> bool {
        match self {
            RowsPlan::Values(rows) => rows.iter().flatten().all(Expr::is_fixed),
            // Fixed for those who may see it: the steps of its expression.
            RowsPlan::Working => true,
            other => other.selects().into_iter().all(QueryPlan::is_fixed),
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
