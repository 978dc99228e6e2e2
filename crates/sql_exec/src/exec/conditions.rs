//! Filters: lists of conditions that rows must pass.
//!
//! A list starts out interpreted, as the plan has it. Once many rows are to be checked, conditions
//! on plain integers are compiled to tests ([`crate::expr::number`]) that run first: a test costs a
//! few nanoseconds and usually decides.
//!
//! Invariant: compiling changes neither the rows that pass nor the warnings and errors. Tests raise
//! none, and if a test cannot decide and no other one rejects the row, all conditions are evaluated
//! in their order.

use super::ExecResult;
use crate::expr::condition::{ConditionResult, Test};
use crate::expr::eval::{EvalCx, Slot};
use crate::expr::{Expr, logic};
use porpoise_rows::catalog::Table;

/// Lists longer than this check for cancellation while they evaluate a single row.
const LONG_LIST: usize = 64;

/// A conjunction of conditions.
#[derive(Debug)]
pub(super) struct Conditions<'e> {
    /// Compiled conditions on integers.
    tests: Vec<Test<'e>>,
    others: Vec<&'e Expr>,
    /// All conditions in plan order, once some were compiled.
    all: Vec<&'e Expr>,
}

impl<'e> Conditions<'e> {
    /// Creates an interpreted list.
    pub(super) fn new(all: &'e [Expr]) -> Conditions<'e> {
        Conditions::of(all.iter().collect())
    }

    /// Creates an interpreted list of these conditions.
    pub(super) fn of(all: Vec<&'e Expr>) -> Conditions<'e> {
        Conditions {
            tests: Vec::new(),
            others: all,
            all: Vec::new(),
        }
    }

    /// Compiles the conditions that can be, at most once. `tables` are the row's tables by slot.
    pub(super) fn compile(&mut self, tables: &[Option<&'e Table>], cx: &EvalCx<'_>) {
        if !self.all.is_empty() {
            return;
        }
        self.all = std::mem::take(&mut self.others);
        for condition in &self.all {
            match Test::of(condition, tables, cx) {
                Some(test) => self.tests.push(test),
                None => self.others.push(condition),
            }
        }
    }

    /// Whether a row passes all conditions.
    ///
    /// # Errors
    /// Errors of the evaluation.
    #[inline]
    pub(super) fn hold<'a>(&self, row: &[Slot<'a>], cx: &EvalCx<'a>) -> ExecResult<bool>
    where
        'e: 'a,
    {
        let count = self.tests.len() + self.others.len();
        if count > LONG_LIST {
            cx.env.tick_by(count)?;
        }
        let mut undecided = false;
        for test in &self.tests {
            match test.holds(row) {
                ConditionResult::Yes => {}
                ConditionResult::No | ConditionResult::Unknown => return Ok(false),
                ConditionResult::NotApplicable => undecided = true,
            }
        }
        let left = if undecided { &self.all } else { &self.others };
        for condition in left {
            if logic::truth(condition, row, cx)? != Some(true) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
