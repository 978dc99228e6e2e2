//! Operators with their own syntax: IS, LIKE, IN, BETWEEN, ALL and ANY, INTERVAL.

use super::super::ast::{
    Between, Binary, BinaryOp, Expr, ExprKind, Ident, InList, InQuery, IntervalArith, Is, IsTest,
    Like, MemberOf, Quantified, Regexp,
};
use super::super::keyword::Keyword as Kw;
use super::super::token::Span;
use super::super::token::TokenKind as K;
use super::expr::{IntervalOperand, Paren, level};
use super::{PResult, Parser};

impl<'a> Parser<'a> {
    /// INTERVAL after `date +`, at the keyword.
    pub(super) fn add_interval(&mut self, date: Expr<'a>, subtract: bool) -> PResult<Expr<'a>> {
        match self.interval_amount()? {
            IntervalOperand::Amount(amount) => {
                let unit = self.interval_unit()?;
                self.ceiling = u8::MAX;
                let node = IntervalArith {
                    date,
                    subtract,
                    amount,
                    unit,
                };
                Ok(self.wrap(date, |p, _| ExprKind::IntervalArith(p.alloc(node))))
            }
            IntervalOperand::Call(call) => {
                self.ceiling = u8::MAX;
                let right = self.infixes(call, level::ADD + 1)?;
                let op = if subtract {
                    BinaryOp::Sub
                } else {
                    BinaryOp::Add
                };
                Ok(self.wrap(date, |p, left| {
                    ExprKind::Binary(p.alloc(Binary { op, left, right }))
                }))
            }
        }
    }

    /// At INTERVAL: the amount up to its unit, or a call of the function INTERVAL, which has two or
    /// more arguments and is followed by no unit.
    pub(super) fn interval_amount(&mut self) -> PResult<IntervalOperand<'a>> {
        let start = self.advance().start;
        let name = Ident {
            name: "INTERVAL",
            span: Span::new(start, self.last_end),
        };
        if !self.is(K::LeftParen) {
            return self.expr().map(IntervalOperand::Amount);
        }
        let open = self.advance().start;
        let left = match self.paren_rest()? {
            Paren::List(list) if list.len() > 1 && !self.at_unit() => {
                return Ok(IntervalOperand::Call(
                    self.node(start, self.plain_call(name, list)),
                ));
            }
            Paren::List(list) => self.paren_value(list, open),
            Paren::Query(query) => self.node(open, ExprKind::Subquery(query)),
        };
        self.expr_after(left).map(IntervalOperand::Amount)
    }

    pub(super) fn quantified(&mut self, left: Expr<'a>, op: BinaryOp) -> PResult<Expr<'a>> {
        let all = self.is_kw(Kw::ALL);
        self.advance();
        let query = self.subquery()?;
        self.ceiling = level::COMPARE;
        Ok(self.wrap(left, |p, left| {
            ExprKind::Quantified(p.alloc(Quantified {
                op,
                left,
                all,
                query,
            }))
        }))
    }

    pub(super) fn is_test(&mut self, expr: Expr<'a>) -> PResult<Expr<'a>> {
        self.advance();
        let not = self.eat_kw(Kw::NOT);
        let test = match self.token.keyword {
            Kw::NULL => IsTest::Null,
            Kw::TRUE => IsTest::True,
            Kw::FALSE => IsTest::False,
            Kw::UNKNOWN => IsTest::Unknown,
            _ if self.is(K::NullMark) => IsTest::Null,
            _ => return self.error(),
        };
        self.advance();
        Ok(self.wrap(expr, |p, expr| {
            ExprKind::Is(p.alloc(Is { expr, test, not }))
        }))
    }

    /// `[NOT] LIKE`, REGEXP, IN, BETWEEN
    pub(super) fn predicate(&mut self, expr: Expr<'a>) -> PResult<Expr<'a>> {
        let not = self.eat_kw(Kw::NOT);
        let keyword = self.token.keyword;
        if !matches!(
            keyword,
            Kw::LIKE | Kw::REGEXP | Kw::RLIKE | Kw::IN | Kw::BETWEEN
        ) {
            return self.error();
        }
        self.advance();
        let node = self.predicate_after(expr, not, keyword)?;
        // Only IN can be repeated: `a IN (1) IN (0)`.
        self.ceiling = if keyword == Kw::IN {
            level::PREDICATE
        } else {
            level::COMPARE
        };
        Ok(node)
    }

    fn predicate_after(&mut self, expr: Expr<'a>, not: bool, keyword: Kw) -> PResult<Expr<'a>> {
        match keyword {
            Kw::LIKE => {
                let pattern = self.bit_expr()?;
                let escape = if self.eat_kw(Kw::ESCAPE) {
                    Some(self.simple_expr()?)
                } else {
                    None
                };
                let node = Like {
                    expr,
                    pattern,
                    escape,
                    not,
                };
                Ok(self.wrap(expr, |p, _| ExprKind::Like(p.alloc(node))))
            }
            Kw::REGEXP | Kw::RLIKE => {
                let node = Regexp {
                    expr,
                    pattern: self.bit_expr()?,
                    not,
                };
                Ok(self.wrap(expr, |p, _| ExprKind::Regexp(p.alloc(node))))
            }
            Kw::BETWEEN => {
                let low = self.bit_expr()?;
                self.expect_kw(Kw::AND)?;
                let high = self.expr_at(level::PREDICATE)?;
                let node = Between {
                    expr,
                    low,
                    high,
                    not,
                };
                Ok(self.wrap(expr, |p, _| ExprKind::Between(p.alloc(node))))
            }
            _ => self.in_list(expr, not),
        }
    }

    fn in_list(&mut self, expr: Expr<'a>, not: bool) -> PResult<Expr<'a>> {
        self.expect(K::LeftParen)?;
        match self.paren_rest()? {
            Paren::Query(query) => Ok(self.wrap(expr, |p, expr| {
                ExprKind::InQuery(p.alloc(InQuery { expr, query, not }))
            })),
            Paren::List([item]) if is_scalar(&expr) && is_scalar(item) => {
                // As in MySQL, a list of one value is a comparison.
                let (op, right) = (if not { BinaryOp::NotEq } else { BinaryOp::Eq }, *item);
                Ok(self.wrap(expr, |p, left| {
                    ExprKind::Binary(p.alloc(Binary { op, left, right }))
                }))
            }
            Paren::List(list) => Ok(self.wrap(expr, |p, expr| {
                ExprKind::InList(p.alloc(InList { expr, list, not }))
            })),
        }
    }

    /// `expr MEMBER [OF] (array)`
    pub(super) fn member_of(&mut self, expr: Expr<'a>) -> PResult<Expr<'a>> {
        self.advance();
        self.eat_kw(Kw::OF);
        self.expect(K::LeftParen)?;
        let array = self.simple_expr()?;
        self.expect(K::RightParen)?;
        self.ceiling = level::COMPARE;
        Ok(self.wrap(expr, |p, expr| {
            ExprKind::MemberOf(p.alloc(MemberOf { expr, array }))
        }))
    }
}

/// Whether an operand of IN is neither a row nor a subquery.
fn is_scalar(e: &Expr<'_>) -> bool {
    !matches!(e.kind, ExprKind::Row(_) | ExprKind::Subquery(_))
}
