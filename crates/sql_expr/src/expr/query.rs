//! Subqueries in expressions.
//!
//! A subquery is planned once, with its statement. Columns of enclosing queries are
//! [`ExprKind::Outer`] nodes in its plan and are listed in [`Subquery::free`]: its result depends
//! on nothing else. Evaluation passes the current row down as a [`Frame`]. Expressions depend
//! neither on plans nor on transactions: the planner provides its plan as a [`SubqueryPlan`], and
//! the executor runs it through [`RunQueries`].
//!
//! Invariants:
//! 1. A subquery is evaluated only if the expression that contains it is: CASE, AND and OR
//!    short-circuit it like any other operand.
//! 2. Clones of an expression share the [`Subquery`], and thereby its cached results.
//!
//! [`ExprKind::Outer`]: super::ExprKind::Outer

use super::eval::{EvalCx, Slot};
use super::stored::SessionFunction;
use super::text_search::{FoundTexts, TextMatch};
use super::{CmpOp, Expr, Load};
use crate::error::Result;
use porpoise_types::{ColumnType, CompareAs, Value, ValueRef};
use std::any::Any;
use std::fmt::Debug;
use std::rc::Rc;
use std::sync::Arc;

/// Pseudo-slot whose columns are the results of a query's aggregates, for nested queries.
pub const AGGREGATES: usize = usize::MAX;

/// A column of an enclosing query that a subquery reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreeRef {
    /// Number of levels out: 1 is the directly enclosing query.
    pub level: usize,
    /// The slot in that query, or [`AGGREGATES`].
    pub slot: usize,
    /// The column in that slot.
    pub column: usize,
    /// Conversion from storage to SQL.
    pub load: Load,
    /// The column's type.
    pub ty: ColumnType,
}

/// The plan of a subquery, opaque to expressions.
pub trait SubqueryPlan: Any + Debug + Send + Sync {
    /// The select list.
    fn items(&self) -> &[Expr];
}

/// A planned subquery.
#[derive(Debug)]
pub struct Subquery {
    /// Its plan.
    pub plan: Box<dyn SubqueryPlan>,
    /// Distinct columns of enclosing queries that it reads.
    pub free: Vec<FreeRef>,
    /// Whether it is deterministic: no RAND(), no user variables.
    pub is_deterministic: bool,
}

impl Subquery {
    /// The select list.
    pub fn items(&self) -> &[Expr] {
        self.plan.items()
    }

    /// The plan, downcast to the planner's type.
    pub fn plan_as<P: SubqueryPlan>(&self) -> Option<&P> {
        let plan: &dyn Any = self.plan.as_ref();
        plan.downcast_ref()
    }
}

/// Kinds of tests of a subquery's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestKind {
    /// The value of its only row; NULL if there is no row, error 1242 if there are several.
    Scalar,
    /// As Scalar, but the value of this column, for subqueries that are compared as rows.
    Column(usize),
    /// Whether there is a row.
    Exists,
    /// The comparison of the left row with its only row.
    Row(CmpOp),
    /// Whether the comparison is true for one of the rows; IN is `= ANY`.
    Any(CmpOp),
    /// Whether the comparison is true for all rows; NOT IN is `<> ALL`.
    All(CmpOp),
}

/// A test of a subquery's rows.
#[derive(Clone, Debug)]
pub struct QueryTest {
    /// The subquery.
    pub query: Arc<Subquery>,
    /// The kind of test.
    pub kind: TestKind,
    /// The left operand, one expression for each column; empty for Scalar, Column and Exists.
    pub left: Vec<Expr>,
    /// The comparison of each left value with its column.
    pub compare_as: Vec<CompareAs>,
}

/// The current row of an enclosing query.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The row.
    pub row: &'a [Slot<'a>],
    /// The results of the query's aggregates, if the row is that of a group.
    pub aggregates: &'a [ValueRef<'a>],
    /// The next enclosing query.
    pub outer: Option<&'a Frame<'a>>,
}

impl<'a> Frame<'a> {
    /// The frame `level` levels out, 1 being this one.
    pub(super) fn at(&self, level: usize) -> Option<Frame<'a>> {
        let mut frame = *self;
        for _ in 1..level {
            frame = *frame.outer?;
        }
        Some(frame)
    }

    /// The storage value of a column `level` levels out, 1 being this frame.
    pub fn get(&self, level: usize, slot: usize, column: usize) -> ValueRef<'a> {
        let Some(frame) = self.at(level) else {
            return ValueRef::Null;
        };
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

/// Runs subqueries and stored functions.
pub trait RunQueries {
    /// Calls a stored function with these arguments and their types.
    ///
    /// # Errors
    /// Errors that its body does not handle.
    fn call_function(
        &self,
        function: &SessionFunction,
        args: Vec<(Value, ColumnType)>,
    ) -> Result<Value>;

    /// The result of a search, which runs once for an execution.
    ///
    /// # Errors
    /// 1064 for a malformed boolean search; those of the engine.
    fn search(&self, search: &TextMatch, cx: &EvalCx<'_>) -> Result<Rc<FoundTexts>>;

    /// Evaluates a test of a subquery for this row.
    ///
    /// # Errors
    /// 1242 if a scalar subquery has several rows; errors of the subquery's execution.
    fn test<'a>(
        &self,
        test: &'a QueryTest,
        row: &[Slot<'a>],
        cx: &EvalCx<'a>,
    ) -> Result<ValueRef<'a>>;

    /// Visits the values of an uncorrelated IN subquery. If there are more than `most` it visits
    /// none and returns false.
    ///
    /// # Errors
    /// Errors of the subquery's execution.
    fn each_value<'a>(
        &self,
        test: &'a QueryTest,
        row: &[Slot<'a>],
        cx: &EvalCx<'a>,
        most: usize,
        visit: &mut dyn FnMut(ValueRef<'_>),
    ) -> Result<bool>;
}
