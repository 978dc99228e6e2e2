//! Table operators: inputs of a scan of a derived table, a common table expression, a view, a set
//! operation, VALUES or JSON_TABLE, whose rows are read like those of a table without indexes. They are
//! materialized once per execution or, if they are correlated, once for each set of outer values.
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
//! a tree of that depth.

use super::QueryPlan;
use crate::bind::json_table::JsonTable;
use crate::bind::{DerivedPlan, Origin, ScopeColumn, Source};
use crate::expr::Expr;
use crate::expr::query::FreeRef;
use crate::parse::ast::SetOp;
use std::sync::Arc;

pub use crate::bind::{Derived, References};

/// An operator whose rows are read like those of a table.
#[derive(Debug)]
pub enum TableOperator {
    /// The rows of one query.
    Materialize(Box<QueryPlan>),
    /// UNION, INTERSECT and EXCEPT.
    Set(Box<SetOperation>),
    /// VALUES.
    Values(Vec<Vec<Expr>>),
    /// JSON_TABLE.
    JsonTable(Box<JsonTable>),
    /// A recursive common table expression.
    Recursive(Recursive),
    /// The rows that the previous iteration of a recursive common table expression found.
    WorkingTable,
}

/// Queries combined from left to right.
#[derive(Debug)]
pub struct SetOperation {
    /// The leftmost operand.
    pub first: QueryPlan,
    /// The other operands.
    pub rest: Vec<SetTerm>,
}

/// A set operation with its right operand.
#[derive(Debug)]
pub struct SetTerm {
    /// The operation.
    pub op: SetOp,
    /// ALL: duplicates are kept.
    pub all: bool,
    /// The right operand.
    pub plan: QueryPlan,
}

/// A recursive common table expression.
#[derive(Debug)]
pub struct Recursive {
    /// The seed query.
    pub seed: Box<QueryPlan>,
    /// The recursive queries, which read the rows of the previous iteration.
    pub steps: Vec<QueryPlan>,
    /// Whether duplicates of rows found before are dropped.
    pub distinct: bool,
    /// The derived table from which the recursive queries read the previous iteration's rows.
    pub working: Arc<Derived>,
    /// LIMIT: iteration ends when this many rows were found.
    pub limit: Option<Expr>,
    /// OFFSET: number of rows to skip.
    pub offset: Option<Expr>,
}

impl DerivedPlan for TableOperator {
    fn could_be_merged(&self) -> bool {
        matches!(self, TableOperator::Materialize(plan) if plan.is_mergeable)
    }
}

/// Placeholder for a [`Derived`] of a foreign plan type: it has no rows.
static NO_ROWS: TableOperator = TableOperator::WorkingTable;

/// The operator of a derived table.
pub fn operator_of(derived: &Derived) -> &TableOperator {
    derived.rows_as().unwrap_or(&NO_ROWS)
}

/// The query of a derived table whose rows can be consumed as they are computed: they depend on
/// nothing outside, and have one reader.
pub fn streamed_query(derived: &Derived) -> Option<&QueryPlan> {
    let is_alone = derived.free.is_empty() && !derived.references.are_several();
    match operator_of(derived) {
        TableOperator::Materialize(plan) if is_alone => Some(plan),
        _ => None,
    }
}

/// Whether the rows of a source come from JSON_TABLE.
pub fn is_table_function(source: &Source) -> bool {
    let Origin::Derived(derived) = &source.origin else {
        return false;
    };
    matches!(operator_of(derived), TableOperator::JsonTable(_))
}

/// Makes a derived table of a query's rows.
pub(super) fn materialized(
    plan: QueryPlan,
    columns: Vec<ScopeColumn>,
    free: Vec<FreeRef>,
) -> Derived {
    Derived {
        rows: Box::new(TableOperator::Materialize(Box::new(plan))),
        columns,
        free,
        references: References::default(),
    }
}

/// Makes the derived table that stands for the rows of the previous iteration.
pub(super) fn working_table(columns: Vec<ScopeColumn>) -> Derived {
    Derived {
        rows: Box::new(TableOperator::WorkingTable),
        columns,
        free: Vec::new(),
        references: References::default(),
    }
}

impl TableOperator {
    /// The input queries; all but the first with the set operation that adds their rows.
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
            TableOperator::Values(_)
            | TableOperator::JsonTable(_)
            | TableOperator::WorkingTable => Vec::new(),
        }
    }

    /// Whether the result is deterministic.
    pub fn is_fixed(&self) -> bool {
        match self {
            TableOperator::Values(rows) => rows.iter().flatten().all(Expr::is_fixed),
            TableOperator::JsonTable(table) => table.document.is_fixed(),
            // Deterministic within one iteration, and visible only to the recursive queries.
            TableOperator::WorkingTable => true,
            other => other.inputs().into_iter().all(|(_, plan)| plan.is_fixed()),
        }
    }
}

/// A common table expression of an enclosing WITH clause.
#[derive(Clone, Debug)]
pub struct CteEntry {
    /// The name.
    pub name: String,
    /// The rows; `None` while the columns of a recursive one are unknown.
    pub derived: Option<Arc<Derived>>,
    /// Nesting depth of the query that defines it.
    pub depth: usize,
}
