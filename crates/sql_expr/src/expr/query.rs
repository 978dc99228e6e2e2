//! Queries inside expressions.
//!
//! A subquery is planned once, with the statement. Where it names columns of
//! the queries around it, its plan holds [`ExprKind::Outer`] nodes, and
//! [`Subquery::free`] lists them: these values are all that its result
//! depends on. Evaluation hands the current row down as a [`Frame`]. Expressions
//! know neither plans nor transactions: the planner hands in its plan as a
//! [`SubqueryPlan`], and the executor runs it behind [`RunQueries`].
//!
//! Invariants:
//! 1. A subquery is evaluated only where the expression around it is: CASE,
//!    AND and OR decide as for any other operand.
//! 2. Clones of an expression share the [`Subquery`], and so its results.
//!
//! [`ExprKind::Outer`]: super::ExprKind::Outer

use super::eval::{EvalCx, Slot};
use super::{CmpOp, Expr, Load};
use crate::error::Result;
use porpoise_types::{ColumnType, CompareAs, ValueRef};
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

/// The slot whose columns are the results of a query's own aggregates, for the queries inside.
pub const AGGREGATES: usize = usize::MAX;

/// A column of an enclosing query that a subquery reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreeRef {
    /// Number of queries further out: 1 is the one directly around.
    pub level: usize,
    /// The slot there, or [`AGGREGATES`].
    pub slot: usize,
    /// The column of that slot.
    pub column: usize,
    /// From storage to SQL.
    pub load: Load,
    /// The column's type.
    pub ty: ColumnType,
}

/// The plan of a subquery, as far as expressions know it.
pub trait SubqueryPlan: Any + Debug + Send + Sync {
    /// The select list.
    fn items(&self) -> &[Expr];
}

/// A planned subquery.
#[derive(Debug)]
pub struct Subquery {
    /// Its plan.
    pub plan: Box<dyn SubqueryPlan>,
    /// Columns that it reads of the queries around it, distinct.
    pub free: Vec<FreeRef>,
    /// The same inputs give the same rows: no RAND(), no user variables.
    pub fixed: bool,
}

impl Subquery {
    /// The select list.
    pub fn items(&self) -> &[Expr] {
        self.plan.items()
    }

    /// The plan as the type that the planner made it of.
    pub fn plan_as<P: SubqueryPlan>(&self) -> Option<&P> {
        let plan: &dyn Any = self.plan.as_ref();
        plan.downcast_ref()
    }
}

/// Test of the rows of a subquery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestKind {
    /// The value of its only row; NULL without one, 1242 with several.
    Scalar,
    /// Whether there is a row.
    Exists,
    /// The row on the left against its only row.
    Row(CmpOp),
    /// Whether the comparison holds for one of the rows; IN is `= ANY`.
    Any(CmpOp),
    /// Whether the comparison holds for all of them; NOT IN is `<> ALL`.
    All(CmpOp),
}

/// A subquery with the question about it.
#[derive(Clone, Debug)]
pub struct QueryTest {
    /// The subquery.
    pub query: Arc<Subquery>,
    /// The question.
    pub kind: TestKind,
    /// The left side, a value for each column; empty for Scalar and Exists.
    pub left: Vec<Expr>,
    /// Comparison of each value on the left with its column.
    pub how: Vec<CompareAs>,
}

/// The current row of a query around the one that is running.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The row.
    pub row: &'a [Slot<'a>],
    /// The results of the query's aggregates, where the row is a group's.
    pub aggregates: &'a [ValueRef<'a>],
    /// The query around that one.
    pub up: Option<&'a Frame<'a>>,
}

impl<'a> Frame<'a> {
    /// The storage value of a column `level` queries out, 1 being this frame.
    pub fn get(&self, level: usize, slot: usize, column: usize) -> ValueRef<'a> {
        let mut frame = *self;
        for _ in 1..level {
            match frame.up {
                Some(up) => frame = *up,
                None => return ValueRef::Null,
            }
        }
        if slot == AGGREGATES {
            let found = frame.aggregates.get(column);
            return found.copied().unwrap_or(ValueRef::Null);
        }
        frame
            .row
            .get(slot)
            .map_or(ValueRef::Null, |s| s.get(column))
    }
}

/// Runs subqueries.
pub trait RunQueries {
    /// The answer to a question about a subquery for this row.
    ///
    /// # Errors
    /// 1242 when a scalar subquery has several rows; whatever the subquery's
    /// own execution ends with.
    fn test<'a>(
        &self,
        test: &'a QueryTest,
        row: &[Slot<'a>],
        cx: &EvalCx<'a>,
    ) -> Result<ValueRef<'a>>;

    /// Visits the values that the subquery of an IN yields, which depends on
    /// nothing in this row; none and false where they are more than `most`.
    ///
    /// # Errors
    /// Those of the subquery's execution.
    fn each_value<'a>(
        &self,
        test: &'a QueryTest,
        at: (&[Slot<'a>], &EvalCx<'a>),
        most: usize,
        visit: &mut dyn FnMut(ValueRef<'_>),
    ) -> Result<bool>;
}
