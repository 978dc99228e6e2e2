//! Conditions that are compiled once for many rows: tests of integers ([`super::number`]) and of
//! texts ([`super::text`]).
//!
//! Invariants:
//! 1. A test gives the truth value of its condition, without warnings or errors, or
//!    [`ConditionResult::NotApplicable`]; the condition is then evaluated by [`super::eval`].
//! 2. Conditions that depend on anything but the row are not compiled.

use super::eval::{EvalCx, Slot};
use super::number::{NumberExpr, NumberResult, Unit, to_common_unit};
use super::text::{LikeTest, TextTest};
use super::{CmpOp, Expr, ExprKind, Truth};
use porpoise_rows::catalog::Table;
use porpoise_types::CompareAs;

/// A compiled condition.
#[derive(Clone, Debug)]
pub enum Test<'t> {
    /// A comparison of integers.
    Compare(CmpOp, NumberExpr<'t>, NumberExpr<'t>),
    /// Conjunction.
    And(Vec<Test<'t>>),
    /// Disjunction.
    Or(Vec<Test<'t>>),
    /// Negation.
    Not(Box<Test<'t>>),
    /// IS NULL.
    Null(NumberExpr<'t>),
    /// IN: equal to one of these constants, in the expression's unit, ascending.
    In(NumberExpr<'t>, Vec<i64>),
    /// A text is one of these constants.
    Text(TextTest),
    /// LIKE with a constant pattern.
    Like(LikeTest),
}

/// Result of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionResult {
    /// True.
    Yes,
    /// False.
    No,
    /// NULL.
    Unknown,
    /// It has to be evaluated in full.
    NotApplicable,
}

impl From<bool> for ConditionResult {
    fn from(holds: bool) -> ConditionResult {
        if holds {
            ConditionResult::Yes
        } else {
            ConditionResult::No
        }
    }
}

/// Whether values with this kind of comparison can be compared as numbers of these units.
fn comparable(how: CompareAs, a: Unit, b: Unit) -> bool {
    match how {
        CompareAs::Int | CompareAs::Number => a == Unit::Integer && b == Unit::Integer,
        CompareAs::Decimal => {
            let exact = |unit| matches!(unit, Unit::Integer | Unit::Scaled(_));
            exact(a) && exact(b)
        }
        CompareAs::Date | CompareAs::DateTime => a == b && matches!(a, Unit::Date | Unit::DateTime),
        CompareAs::Time => a == Unit::Time && b == Unit::Time,
        _ => false,
    }
}

/// IN over constants in the expression's unit.
fn in_numbers<'t>(
    arg: NumberExpr<'t>,
    list: &[(CompareAs, Expr)],
    cx: &EvalCx<'_>,
) -> Option<Test<'t>> {
    let mut items = Vec::with_capacity(list.len());
    for (how, item) in list {
        let item = match how {
            CompareAs::Number => NumberExpr::of_text(item, cx)?,
            _ => NumberExpr::constant(item, cx)?,
        };
        if !comparable(*how, arg.unit(), item.unit()) || arg.unit() != item.unit() {
            return None;
        }
        items.push(item.as_constant()?);
    }
    items.sort_unstable();
    Some(Test::In(arg, items))
}

/// An operand of a comparison.
fn operand<'t>(
    e: &Expr,
    how: CompareAs,
    tables: &[Option<&'t Table>],
    cx: &EvalCx<'_>,
) -> Option<NumberExpr<'t>> {
    let number = NumberExpr::of(e, tables, cx);
    match how {
        CompareAs::Number => number.or_else(|| NumberExpr::of_text(e, cx)),
        _ => number,
    }
}

impl<'t> Test<'t> {
    /// Compiles a condition over rows of these tables, by slot; `None` if it cannot be compiled.
    pub fn of(e: &Expr, tables: &[Option<&'t Table>], cx: &EvalCx<'_>) -> Option<Self> {
        let number = |e: &Expr| NumberExpr::of(e, tables, cx);
        let compare = |op, how, a: &Expr, b: &Expr| {
            let (a, b) = (operand(a, how, tables, cx)?, operand(b, how, tables, cx)?);
            if !comparable(how, a.unit(), b.unit()) {
                return None;
            }
            let (a, b) = to_common_unit(a, b)?;
            Some(Test::Compare(op, a, b))
        };
        let not = |test, negated| {
            if negated {
                Test::Not(Box::new(test))
            } else {
                test
            }
        };
        Some(match &e.kind {
            ExprKind::Compare(op, how, args) => {
                let [a, b] = args.as_ref();
                match compare(*op, *how, a, b) {
                    Some(test) => test,
                    None => not(
                        Test::Text(TextTest::of_comparison((*op, *how), (a, b), cx)?),
                        *op == CmpOp::Ne,
                    ),
                }
            }
            ExprKind::Between { args, how, negated } => {
                let ([arg, low, high], [above, below]) = (args.as_ref(), *how);
                let both = vec![
                    compare(CmpOp::Ge, above, arg, low)?,
                    compare(CmpOp::Le, below, arg, high)?,
                ];
                not(Test::And(both), *negated)
            }
            ExprKind::And(args) | ExprKind::Or(args) => {
                let tests: Option<Vec<Test<'t>>> =
                    args.iter().map(|arg| Test::of(arg, tables, cx)).collect();
                match &e.kind {
                    ExprKind::And(_) => Test::And(tests?),
                    _ => Test::Or(tests?),
                }
            }
            ExprKind::Not(arg) => Test::Not(Box::new(Test::of(arg, tables, cx)?)),
            ExprKind::Is {
                arg,
                truth: Truth::Null,
                negated,
            } => not(Test::Null(number(arg)?), *negated),
            ExprKind::In { arg, list, negated } => {
                let test = match number(arg) {
                    Some(number) => in_numbers(number, list, cx)?,
                    None => Test::Text(TextTest::of_list(arg, list, cx)?),
                };
                not(test, *negated)
            }
            ExprKind::Like {
                args,
                escape,
                collation,
                negated,
            } => {
                let [arg, pattern] = args.as_ref();
                let like = LikeTest::of(arg, (pattern, *escape), *collation, cx)?;
                not(Test::Like(like), *negated)
            }
            _ => return None,
        })
    }

    /// Evaluates the condition for a row.
    #[inline]
    pub fn holds(&self, row: &[Slot<'_>]) -> ConditionResult {
        match self {
            Test::Compare(op, a, b) => compared(*op, a.eval(row), b.eval(row)),
            Test::And(tests) => {
                let mut all = ConditionResult::Yes;
                for test in tests {
                    match test.holds(row) {
                        ConditionResult::Yes => {}
                        ConditionResult::Unknown => all = ConditionResult::Unknown,
                        decided => return decided,
                    }
                }
                all
            }
            Test::Or(tests) => {
                let mut any = ConditionResult::No;
                for test in tests {
                    match test.holds(row) {
                        ConditionResult::No => {}
                        ConditionResult::Unknown => any = ConditionResult::Unknown,
                        decided => return decided,
                    }
                }
                any
            }
            Test::Not(test) => match test.holds(row) {
                ConditionResult::Yes => ConditionResult::No,
                ConditionResult::No => ConditionResult::Yes,
                other => other,
            },
            Test::Null(number) => match number.eval(row) {
                NumberResult::Null => ConditionResult::Yes,
                NumberResult::Value(_) => ConditionResult::No,
                NumberResult::NotApplicable => ConditionResult::NotApplicable,
            },
            Test::In(number, items) => match number.eval(row) {
                NumberResult::Value(v) => items.binary_search(&v).is_ok().into(),
                NumberResult::Null => ConditionResult::Unknown,
                NumberResult::NotApplicable => ConditionResult::NotApplicable,
            },
            Test::Text(test) => test.holds(row),
            Test::Like(test) => test.holds(row),
        }
    }
}

#[inline]
fn compared(op: CmpOp, a: NumberResult, b: NumberResult) -> ConditionResult {
    let order = match (a, b) {
        (NumberResult::Value(a), NumberResult::Value(b)) => a.cmp(&b),
        (NumberResult::NotApplicable, _) | (_, NumberResult::NotApplicable) => {
            return ConditionResult::NotApplicable;
        }
        (NumberResult::Null, NumberResult::Null) if op == CmpOp::NullSafe => {
            return ConditionResult::Yes;
        }
        _ if op == CmpOp::NullSafe => return ConditionResult::No,
        _ => return ConditionResult::Unknown,
    };
    ConditionResult::from(op.accepts(order))
}
