//! Conditions on many rows.
//!
//! A list of conditions begins as it stands in the plan. Once many rows have to
//! be judged by it, those that are made of plain integers become tests
//! ([`crate::expr::number`]) and go first: they cost a few nanoseconds and
//! mostly decide.
//!
//! Invariant: the same rows are let through, whatever was compiled, and no
//! warning or error comes up that would not as they stand: tests raise none,
//! and where one cannot tell and no other refuses the row, all conditions are
//! evaluated in their order.

use super::ExecResult;
use crate::expr::eval::{EvalCx, Slot};
use crate::expr::number::{Holds, Test};
use crate::expr::{Expr, logic};
use porpoise_rows::catalog::Table;

/// Conditions beyond which judging one row passes a checkpoint of its own.
const LONG_LIST: usize = 64;

/// All of these must be true.
#[derive(Debug)]
pub(super) struct Conditions<'e> {
    /// Those on numbers.
    tests: Vec<Test<'e>>,
    others: Vec<&'e Expr>,
    /// All of them, as they stand in the plan, once some became tests.
    all: Vec<&'e Expr>,
}

impl<'e> Conditions<'e> {
    /// As they stand.
    pub(super) fn new(all: &'e [Expr]) -> Conditions<'e> {
        Conditions::of(all.iter().collect())
    }

    /// These, as they stand.
    pub(super) fn of(all: Vec<&'e Expr>) -> Conditions<'e> {
        Conditions {
            tests: Vec::new(),
            others: all,
            all: Vec::new(),
        }
    }

    /// Makes tests of those that can be, once; of rows of these tables, by slot.
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

    /// Whether they let a row through.
    ///
    /// # Errors
    /// Those of an evaluation.
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
                Holds::Yes => {}
                Holds::No | Holds::Unknown => return Ok(false),
                Holds::Elsewhere => undecided = true,
            }
        }
        let left = match undecided {
            true => &self.all,
            false => &self.others,
        };
        for condition in left {
            if logic::truth(condition, row, cx)? != Some(true) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
