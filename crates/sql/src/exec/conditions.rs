//! Conditions on many rows.
//!
//! A list of conditions begins as it stands in the plan. Once many rows have to
//! be judged by it, those that are made of plain integers become tests
//! ([`crate::expr::number`]) and go first: they cost a few nanoseconds and
//! mostly decide.
//!
//! Invariant: the same rows are let through, whatever was learnt. Warnings and
//! errors of a condition do not come up for rows that another one refuses, as
//! it is with the order in which any plan checks them.

use super::Run;
use crate::expr::eval::{EvalCx, Slot};
use crate::expr::number::{Holds, Test};
use crate::expr::{Expr, logic};
use porpoise_rows::catalog::Table;

/// All of these must be true.
#[derive(Debug)]
pub(super) struct Conditions<'e> {
    /// Those on numbers, with what they were made of.
    tests: Vec<(Test<'e>, &'e Expr)>,
    others: Vec<&'e Expr>,
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
        }
    }

    /// Makes tests of those that can be; of rows of these tables, by slot.
    pub(super) fn learn(&mut self, tables: &[Option<&'e Table>], cx: &EvalCx<'_>) {
        let all = std::mem::take(&mut self.others);
        for condition in all {
            match Test::of(condition, tables, cx) {
                Some(test) => self.tests.push((test, condition)),
                None => self.others.push(condition),
            }
        }
    }

    /// Whether they let a row through.
    ///
    /// # Errors
    /// Those of an evaluation.
    #[inline]
    pub(super) fn hold<'a>(&self, row: &[Slot<'a>], cx: &EvalCx<'a>) -> Run<bool>
    where
        'e: 'a,
    {
        for (test, condition) in &self.tests {
            let holds = match test.holds(row) {
                Holds::Yes => true,
                Holds::No | Holds::Unknown => false,
                Holds::Elsewhere => logic::truth(condition, row, cx)? == Some(true),
            };
            if !holds {
                return Ok(false);
            }
        }
        for condition in &self.others {
            if logic::truth(condition, row, cx)? != Some(true) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
