//! Evaluation of subquery expressions: EXISTS, IN, ANY, ALL and scalar subqueries.
//!
//! The answer depends on the outer values that the subquery reads and on the left operand; it is
//! cached by those. An uncorrelated subquery runs once and its rows are kept: an equality is then a
//! lookup in a hash table, whose encoding follows the comparison's rules; other comparisons scan
//! the rows.
//!
//! Invariants:
//! 1. Three-valued logic (manual, "Subqueries with ANY, IN, or SOME"): ANY of
//!    no rows is false, ALL of no rows true; a NULL on either side makes the
//!    answer unknown unless another row decides.
//! 2. The cache is keyed by identical values, not by values that compare equal.

use super::derived::Collect;
use super::query::run_limited;
use super::state::{RowSet, append_exact, size_of_row};
use super::{Exec, ExecError, Shared};
use crate::error::{Result, SqlError};
use crate::expr::comparable::append_comparable;
use crate::expr::eval::{EvalCx, Slot, eval};
use crate::expr::query::{Frame, FreeRef, QueryTest, RunQueries, Subquery, TestKind};
use crate::expr::stored::SessionFunction;
use crate::expr::text_search::{FoundTexts, TextMatch};
use crate::expr::{CmpOp, convert, logic};
use crate::plan::{QueryPlan, plan_of};
use porpoise_types::{ColumnType, Level, Value, ValueRef, Warning};
use std::cmp::Ordering;
use std::collections::HashSet;
use std::rc::Rc;

/// The address of a subquery, which identifies its cached results.
fn address(query: &Subquery) -> usize {
    std::ptr::from_ref(query) as usize
}

/// The frame of outer rows for a subquery of this row.
fn frame_of<'a>(row: &'a [Slot<'a>], cx: &EvalCx<'a>) -> Frame<'a> {
    Frame {
        row,
        aggregates: cx.aggregates,
        outer: cx.outer,
    }
}

/// Encodes the values of these outer references, resolved from within `frame`.
pub(super) fn key_of(free: &[FreeRef], frame: &Frame<'_>) -> Vec<u8> {
    let mut key = Vec::new();
    for r in free {
        append_exact(frame.get(r.level, r.slot, r.column), &mut key);
    }
    key
}

/// Converts to the error type of expressions; a restart is recorded in the state.
pub(super) fn to_sql_error(stop: ExecError, shared: &Shared<'_>) -> SqlError {
    match stop {
        ExecError::Error(error) => error,
        ExecError::Restart => {
            shared.states.restart.set(true);
            SqlError::internal("a statement to be run again")
        }
    }
}

impl RunQueries for Shared<'_> {
    fn call_function(
        &self,
        function: &SessionFunction,
        args: Vec<(Value, ColumnType)>,
    ) -> Result<Value> {
        let none = || SqlError::internal("a function where none can run");
        let programs = self.programs.ok_or_else(none)?;
        programs.call(function, args, self.txn, self.env)
    }

    fn search(&self, search: &TextMatch, cx: &EvalCx<'_>) -> Result<Rc<FoundTexts>> {
        self.run_search(search, false, cx)
    }

    fn test<'a>(
        &self,
        test: &'a QueryTest,
        row: &[Slot<'a>],
        cx: &EvalCx<'a>,
    ) -> Result<ValueRef<'a>> {
        crate::bind::check_stack()?;
        let mut left = Vec::with_capacity(test.left.len());
        for e in &test.left {
            left.push(eval(e, row, cx)?);
        }
        let frame = frame_of(row, cx);
        let query = test.query.as_ref();
        let here = query.free.iter().any(|f| f.level == 1);
        let set_wanted = matches!(test.kind, TestKind::Any(_) | TestKind::All(_));
        if set_wanted && !here && query.is_deterministic {
            let rows = self.materialized_rows(test, &frame, cx)?;
            return Ok(logic::value(compare_with_set(test, &left, &rows, cx)?));
        }
        let mut key = key_of(&query.free, &frame);
        left.iter().for_each(|v| append_exact(*v, &mut key));
        // Only clones of an expression and the columns of a row share a subquery, so all tests of
        // one subquery are of the same kind but for the column, which is part of the key.
        if let TestKind::Column(at) = test.kind {
            key.extend(at.to_be_bytes());
        }
        if query.is_deterministic
            && let Some(value) = self.states.cached_answer(address(query), &key)
        {
            return Ok(convert::keep(&value, cx));
        }
        let value = self.evaluate_test(test, &left, &frame, cx)?;
        if query.is_deterministic {
            self.states.hold(key.len() as u64 + 64)?;
            self.states.cache_answer(address(query), key, value.clone());
        }
        Ok(convert::keep(&value, cx))
    }

    fn each_value<'a>(
        &self,
        test: &'a QueryTest,
        row: &[Slot<'a>],
        cx: &EvalCx<'a>,
        most: usize,
        visit: &mut dyn FnMut(ValueRef<'_>),
    ) -> Result<bool> {
        crate::bind::check_stack()?;
        let frame = frame_of(row, cx);
        let set = self.materialized_rows(test, &frame, cx)?;
        if set.rows.len() > most {
            return Ok(false);
        }
        let values = set.rows.iter().filter_map(|row| row.first());
        values.for_each(|value| visit(value.as_ref()));
        Ok(true)
    }
}

impl Shared<'_> {
    /// Runs a query with these outer rows until it has produced `most` rows.
    pub(super) fn rows_of(
        &self,
        plan: &QueryPlan,
        frame: &Frame<'_>,
        most: u64,
    ) -> Result<Vec<Vec<Value>>> {
        let mut exec = Exec::new(self, Some(frame));
        let before = self.states.used();
        let mut collect = Collect::new(self.states);
        run_limited(plan, &mut exec, most, &mut collect)
            .map_err(|stop| to_sql_error(stop, self))?;
        self.states.release_since(before, collect.held);
        Ok(collect.rows)
    }

    fn evaluate_test(
        &self,
        test: &QueryTest,
        left: &[ValueRef<'_>],
        frame: &Frame<'_>,
        cx: &EvalCx<'_>,
    ) -> Result<Value> {
        let most = match test.kind {
            TestKind::Exists => 1,
            TestKind::Scalar | TestKind::Column(_) | TestKind::Row(_) => 2,
            TestKind::Any(_) | TestKind::All(_) => u64::MAX,
        };
        let rows = self.rows_of(plan_of(&test.query)?, frame, most)?;
        let held = rows.iter().map(|r| size_of_row(r)).sum();
        let answer = match test.kind {
            TestKind::Exists => Value::Int(i64::from(!rows.is_empty())),
            TestKind::Scalar | TestKind::Column(_) | TestKind::Row(_) if rows.len() > 1 => {
                self.refuse_several_rows(cx)?;
                Value::Null
            }
            TestKind::Scalar | TestKind::Column(_) => {
                let column = match test.kind {
                    TestKind::Column(at) => at,
                    _ => 0,
                };
                let only = rows.into_iter().next();
                let value = only.and_then(|row| row.into_iter().nth(column));
                value.unwrap_or(Value::Null)
            }
            TestKind::Row(op) => {
                let nulls = vec![Value::Null; left.len()];
                let row = rows.first().unwrap_or(&nulls);
                logic::value(compare_rows(test, op, left, row, cx)?).to_owned()
            }
            TestKind::Any(_) | TestKind::All(_) => {
                let set = RowSet {
                    rows,
                    ..RowSet::default()
                };
                logic::value(compare_with_set(test, left, &set, cx)?).to_owned()
            }
        };
        self.states.release(held);
        Ok(answer)
    }

    /// Error 1242 for a scalar subquery of several rows; a warning in a statement with IGNORE.
    fn refuse_several_rows(&self, cx: &EvalCx<'_>) -> Result<()> {
        let text = "Subquery returns more than 1 row";
        if !self.states.ignores_errors.get() {
            return Err(SqlError::new(1242, "21000", text));
        }
        cx.env.warn(Warning {
            level: Level::Warning,
            code: 1242,
            message: text.to_owned(),
        });
        Ok(())
    }

    /// The materialized rows of a subquery that is tested for membership.
    fn materialized_rows(
        &self,
        test: &QueryTest,
        frame: &Frame<'_>,
        cx: &EvalCx<'_>,
    ) -> Result<Rc<RowSet>> {
        let query = test.query.as_ref();
        let key = key_of(&query.free, frame);
        if let Some(rows) = self.states.rows(address(query), &key) {
            return Ok(rows);
        }
        let rows = self.rows_of(plan_of(query)?, frame, u64::MAX)?;
        let mut set = RowSet {
            held: rows.iter().map(|r| size_of_row(r)).sum(),
            rows,
            ..RowSet::default()
        };
        if matches!(
            test.kind,
            TestKind::Any(CmpOp::Eq) | TestKind::All(CmpOp::Ne)
        ) {
            build_hash_set(test, &mut set, cx)?;
        }
        let set = Rc::new(set);
        self.states.keep_rows(address(query), key, set.clone());
        Ok(set)
    }
}

/// Builds the hash table of a set if all its values can be encoded.
fn build_hash_set(test: &QueryTest, set: &mut RowSet, cx: &EvalCx<'_>) -> Result<()> {
    let mut found = HashSet::with_capacity(set.rows.len());
    for (at, row) in set.rows.iter().enumerate() {
        cx.env.tick()?;
        if row.iter().any(Value::is_null) {
            set.null_rows.push(at);
            continue;
        }
        let mut key = Vec::new();
        for ((value, how), item) in row.iter().zip(&test.compare_as).zip(test.query.items()) {
            if !append_comparable(value.as_ref(), &item.ty, *how, cx, &mut key)? {
                set.null_rows.clear();
                return Ok(());
            }
        }
        found.insert(key);
    }
    set.hashed = Some(found);
    Ok(())
}

/// The result of ANY or ALL over these rows.
fn compare_with_set(
    test: &QueryTest,
    left: &[ValueRef<'_>],
    set: &RowSet,
    cx: &EvalCx<'_>,
) -> Result<Option<bool>> {
    let (op, all) = match test.kind {
        TestKind::All(op) => (op, true),
        TestKind::Any(op) => (op, false),
        _ => return Ok(None),
    };
    if set.rows.is_empty() {
        return Ok(Some(all));
    }
    let mut key = Vec::new();
    if let Some(hashed) = &set.hashed
        && encode(test, left, cx, &mut key)?
    {
        if hashed.contains(&key) {
            return Ok(Some(!all));
        }
        // No equal row: only rows with a NULL can make the result unknown.
        let null_rows = set.null_rows.iter().filter_map(|at| set.rows.get(*at));
        return quantified_comparison(test, op, all, left, null_rows, cx);
    }
    quantified_comparison(test, op, all, left, set.rows.iter(), cx)
}

fn encode(
    test: &QueryTest,
    left: &[ValueRef<'_>],
    cx: &EvalCx<'_>,
    key: &mut Vec<u8>,
) -> Result<bool> {
    for ((value, how), e) in left.iter().zip(&test.compare_as).zip(&test.left) {
        if !append_comparable(*value, &e.ty, *how, cx, key)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn quantified_comparison<'r>(
    test: &QueryTest,
    op: CmpOp,
    all: bool,
    left: &[ValueRef<'_>],
    rows: impl Iterator<Item = &'r Vec<Value>>,
    cx: &EvalCx<'_>,
) -> Result<Option<bool>> {
    let mut answer = Some(all);
    for row in rows {
        cx.env.tick()?;
        match compare_rows(test, op, left, row, cx)? {
            Some(truth) if truth != all => return Ok(Some(truth)),
            Some(_) => {}
            None => answer = None,
        }
    }
    Ok(answer)
}

/// Compares the left operand with a row, column by column.
fn compare_rows(
    test: &QueryTest,
    op: CmpOp,
    left: &[ValueRef<'_>],
    row: &[Value],
    cx: &EvalCx<'_>,
) -> Result<Option<bool>> {
    let mut equal = Some(true);
    let items = test.query.items();
    let columns = left.iter().zip(&test.left).zip(row.iter().zip(items));
    for (((a, a_e), (b, b_e)), how) in columns.zip(&test.compare_as) {
        let sides = ((*a, a_e), (b.as_ref(), b_e));
        if op == CmpOp::NullSafe {
            if logic::compare(op, *how, sides.0, sides.1, cx)? == Some(false) {
                return Ok(Some(false));
            }
            continue;
        }
        match (logic::order(*how, sides.0, sides.1, cx)?, op) {
            (Some(Ordering::Equal), _) => {}
            // A difference decides an equality, even if other columns are NULL.
            (Some(_), CmpOp::Eq) => return Ok(Some(false)),
            (Some(_), CmpOp::Ne) => return Ok(Some(true)),
            (Some(order), CmpOp::Lt | CmpOp::Le) => {
                return Ok(equal.map(|_| order == Ordering::Less));
            }
            (Some(order), _) => return Ok(equal.map(|_| order == Ordering::Greater)),
            (None, _) => equal = None,
        }
    }
    Ok(equal.map(|_| !matches!(op, CmpOp::Ne | CmpOp::Lt | CmpOp::Gt)))
}
