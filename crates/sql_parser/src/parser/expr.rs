//! Expressions, by precedence climbing.
//!
//! The levels are those of MySQL's grammar, which is stricter than the table in the manual: the
//! operands of LIKE, REGEXP, IN and BETWEEN bind tighter than comparisons, so `a = b LIKE c` is `a
//! = (b LIKE c)`, and the upper bound of BETWEEN is again such a predicate.

use bumpalo::collections::Vec as BumpVec;

use super::super::ast::{
    Binary, BinaryOp, Chain, Collate, Expr, ExprKind, LogicalOp, Query, UnaryOp,
};
use super::super::deprecated::Deprecation;
use super::super::keyword::Keyword as Kw;
use super::super::token::{Span, TokenKind as K};
use super::{PResult, Parser};

/// Precedence levels, loosest first.
pub(super) mod level {
    pub const OR: u8 = 1;
    pub const XOR: u8 = 2;
    pub const AND: u8 = 3;
    pub const NOT: u8 = 4;
    pub const COMPARE: u8 = 5;
    pub const PREDICATE: u8 = 6;
    pub const BIT_OR: u8 = 7;
    pub const BIT_AND: u8 = 8;
    pub const SHIFT: u8 = 9;
    pub const ADD: u8 = 10;
    pub const MUL: u8 = 11;
    pub const BIT_XOR: u8 = 12;
    pub const CONCAT: u8 = 13;
    pub const UNARY: u8 = 14;
    pub const COLLATE: u8 = 15;
}

/// The role of the current token after an operand.
#[derive(Clone, Copy)]
enum Infix {
    Logical(LogicalOp, u8),
    Binary(BinaryOp, u8),
    Is,
    /// NOT, before LIKE, IN and so on.
    Predicate,
    MemberOf,
    Collate,
    None,
}

/// The two meanings of INTERVAL.
pub(super) enum IntervalOperand<'a> {
    /// An amount, whose unit is the current token.
    Amount(Expr<'a>),
    /// A call of the function INTERVAL.
    Call(Expr<'a>),
}

/// The content of a pair of parentheses.
pub(super) enum Paren<'a> {
    /// A query.
    Query(&'a Query<'a>),
    /// One or more expressions.
    List(&'a [Expr<'a>]),
}

impl<'a> Parser<'a> {
    /// An expression.
    #[inline]
    pub(crate) fn expr(&mut self) -> PResult<Expr<'a>> {
        self.expr_at(0)
    }

    /// Parses a text that is a single expression.
    pub(crate) fn parse_whole_expr(&mut self) -> PResult<Expr<'a>> {
        let expr = self.expr()?;
        if self.is(K::End) {
            Ok(expr)
        } else {
            self.error()
        }
    }

    /// An operand whose operators bind at least as tightly as `|`: an argument of MATCH, an amount.
    pub(super) fn bit_expr(&mut self) -> PResult<Expr<'a>> {
        self.expr_at(level::BIT_OR)
    }

    /// An operand without logical operators: the right side of `INTERVAL 1 DAY +`, as in MySQL.
    pub(super) fn compare_expr(&mut self) -> PResult<Expr<'a>> {
        self.expr_at(level::COMPARE)
    }

    /// An operand without infix operators.
    pub(super) fn simple_expr(&mut self) -> PResult<Expr<'a>> {
        self.expr_at(level::UNARY)
    }

    /// An operand that ends before COLLATE, which is a column attribute there.
    pub(super) fn uncollated_operand(&mut self) -> PResult<Expr<'a>> {
        self.expr_at(level::COLLATE + 1)
    }

    /// An expression whose operators have level `min` or higher.
    pub(super) fn expr_at(&mut self, min: u8) -> PResult<Expr<'a>> {
        self.enter()?;
        let outer = std::mem::take(&mut self.height);
        let left = self.prefix(min)?;
        self.grow()?;
        let expr = self.infixes(left, min)?;
        self.height = self.height.max(outer);
        self.leave();
        Ok(expr)
    }

    /// Continues an expression whose first operand has been parsed.
    pub(super) fn expr_after(&mut self, left: Expr<'a>) -> PResult<Expr<'a>> {
        self.enter()?;
        self.grow()?;
        self.ceiling = u8::MAX;
        let expr = self.infixes(left, 0)?;
        self.leave();
        Ok(expr)
    }

    /// Parses prefix operators and the operand.
    fn prefix(&mut self, min: u8) -> PResult<Expr<'a>> {
        self.count_node()?;
        let token = self.token;
        let (op, operand) = match (token.kind, token.keyword) {
            (K::Minus, _) => (UnaryOp::Neg, level::UNARY),
            (K::Plus, _) => (UnaryOp::Plus, level::UNARY),
            (K::Tilde, _) => (UnaryOp::BitNot, level::UNARY),
            (K::Bang, _) => (UnaryOp::Not, level::UNARY),
            (K::Word, Kw::NOT) if self.mode.high_not_precedence => (UnaryOp::Not, level::UNARY),
            (K::Word, Kw::NOT) if min <= level::NOT => (UnaryOp::Not, level::NOT),
            (K::Word, Kw::BINARY) => (UnaryOp::Binary, level::UNARY),
            _ => {
                let operand = self.primary()?;
                self.ceiling = match operand.kind {
                    ExprKind::AssignUserVar(_) if token.kind == K::UserVar => 0,
                    ExprKind::IntervalArith(_) if token.keyword == Kw::INTERVAL => level::NOT,
                    _ => u8::MAX,
                };
                return Ok(operand);
            }
        };
        self.advance();
        match (token.kind, token.keyword) {
            (K::Bang, _) => self.note_deprecated(Deprecation::Replaced("!", "NOT")),
            (K::Word, Kw::BINARY) => {
                self.note_deprecated(Deprecation::Replaced("BINARY expr", "CAST"));
            }
            _ => {}
        }
        let operand = self.expr_at(operand)?;
        let span = Span::new(token.start, self.last_end);
        Ok(Expr {
            kind: ExprKind::Unary(op, self.alloc(operand)),
            span,
        })
    }

    /// The infix operator at the current token.
    fn infix(&mut self) -> Infix {
        use BinaryOp as B;
        use Infix::{Binary, Logical};
        match self.token.kind {
            K::Eq => Binary(B::Eq, level::COMPARE),
            K::NullSafeEq => Binary(B::NullSafeEq, level::COMPARE),
            K::NotEq => Binary(B::NotEq, level::COMPARE),
            K::Less => Binary(B::Less, level::COMPARE),
            K::LessEq => Binary(B::LessEq, level::COMPARE),
            K::Greater => Binary(B::Greater, level::COMPARE),
            K::GreaterEq => Binary(B::GreaterEq, level::COMPARE),
            K::BitOr => Binary(B::BitOr, level::BIT_OR),
            K::BitAnd => Binary(B::BitAnd, level::BIT_AND),
            K::ShiftLeft => Binary(B::ShiftLeft, level::SHIFT),
            K::ShiftRight => Binary(B::ShiftRight, level::SHIFT),
            K::Plus => Binary(B::Add, level::ADD),
            K::Minus => Binary(B::Sub, level::ADD),
            K::Star => Binary(B::Mul, level::MUL),
            K::Slash => Binary(B::Div, level::MUL),
            K::Percent => Binary(B::Mod, level::MUL),
            K::Caret => Binary(B::BitXor, level::BIT_XOR),
            K::AndAnd => Logical(LogicalOp::And, level::AND),
            K::OrOr if self.mode.pipes_as_concat => Binary(B::Concat, level::CONCAT),
            K::OrOr => Logical(LogicalOp::Or, level::OR),
            K::Word => self.infix_word(),
            _ => Infix::None,
        }
    }

    fn infix_word(&mut self) -> Infix {
        use BinaryOp as B;
        let keyword = self.token.keyword;
        match keyword {
            Kw::AND => Infix::Logical(LogicalOp::And, level::AND),
            Kw::OR => Infix::Logical(LogicalOp::Or, level::OR),
            Kw::XOR => Infix::Logical(LogicalOp::Xor, level::XOR),
            Kw::DIV => Infix::Binary(B::IntDiv, level::MUL),
            Kw::MOD => Infix::Binary(B::Mod, level::MUL),
            Kw::IS => Infix::Is,
            Kw::NOT | Kw::LIKE | Kw::REGEXP | Kw::RLIKE | Kw::IN | Kw::BETWEEN => Infix::Predicate,
            Kw::SOUNDS if self.peek().keyword == Kw::LIKE => {
                Infix::Binary(B::SoundsLike, level::PREDICATE)
            }
            Kw::MEMBER if self.peek().keyword == Kw::OF || self.peek().kind == K::LeftParen => {
                Infix::MemberOf
            }
            Kw::COLLATE => Infix::Collate,
            _ => Infix::None,
        }
    }

    /// Parses the operators after `left` that have level `min` or higher.
    pub(super) fn infixes(&mut self, mut left: Expr<'a>, min: u8) -> PResult<Expr<'a>> {
        loop {
            let max = self.ceiling;
            let fits = |level: u8| level >= min && level <= max;
            left = match self.infix() {
                Infix::Logical(op, level) if fits(level) => self.logical(left, op, level)?,
                Infix::Binary(op, level) if fits(level) => self.binary(left, op, level)?,
                Infix::Is if fits(level::COMPARE) => {
                    self.ceiling = level::COMPARE;
                    self.is_test(left)?
                }
                Infix::Predicate if fits(level::PREDICATE) => self.predicate(left)?,
                Infix::MemberOf if fits(level::PREDICATE) => self.member_of(left)?,
                Infix::Collate if fits(level::COLLATE) => {
                    self.advance();
                    let collation = self.ident_or_string()?;
                    self.wrap(left, |p, expr| {
                        ExprKind::Collate(p.alloc(Collate { expr, collation }))
                    })
                }
                _ => return Ok(left),
            };
            self.grow()?;
        }
    }

    /// Creates an expression around `inner` that ends with the last consumed token.
    pub(super) fn wrap(
        &self,
        inner: Expr<'a>,
        kind: impl FnOnce(&Self, Expr<'a>) -> ExprKind<'a>,
    ) -> Expr<'a> {
        let span = Span::new(inner.span.start, self.last_end);
        Expr {
            kind: kind(self, inner),
            span,
        }
    }

    /// Takes a logical operator.
    fn advance_logical(&mut self) {
        match self.token.kind {
            K::AndAnd => self.note_deprecated(Deprecation::Replaced("&&", "AND")),
            K::OrOr => {
                self.note_deprecated(Deprecation::Replaced("|| as a synonym for OR", "OR"));
            }
            _ => {}
        }
        self.advance();
    }

    fn logical(&mut self, first: Expr<'a>, op: LogicalOp, level: u8) -> PResult<Expr<'a>> {
        self.advance_logical();
        let second = self.expr_at(level + 1)?;
        if !matches!(self.infix(), Infix::Logical(next, _) if next == op) {
            let terms: &'a [Expr<'a>] = self.arena.alloc([first, second]);
            return Ok(self.wrap(first, |_, _| ExprKind::Logical(op, terms)));
        }
        let mut terms = self.list();
        terms.push(first);
        terms.push(second);
        while matches!(self.infix(), Infix::Logical(next, _) if next == op) {
            self.advance_logical();
            terms.push(self.expr_at(level + 1)?);
        }
        let terms = terms.into_bump_slice();
        Ok(self.wrap(first, |_, _| ExprKind::Logical(op, terms)))
    }

    /// Parses consecutive operators of one level, from left to right.
    fn binary(&mut self, first: Expr<'a>, op: BinaryOp, at: u8) -> PResult<Expr<'a>> {
        let sounds = op == BinaryOp::SoundsLike;
        self.advance();
        if sounds {
            self.advance();
        }
        if at == level::ADD && self.at_interval() {
            return self.add_interval(first, op == BinaryOp::Sub);
        }
        if at == level::COMPARE
            && self.is_any_kw(&[Kw::ALL, Kw::ANY, Kw::SOME])
            && self.peek().kind == K::LeftParen
        {
            return self.quantified(first, op);
        }
        let second = self.expr_at(at + 1)?;
        if sounds {
            self.ceiling = level::COMPARE;
        }
        if !self.continues_chain(at) {
            let node = self.alloc(Binary {
                op,
                left: first,
                right: second,
            });
            return Ok(self.wrap(first, |_, _| ExprKind::Binary(node)));
        }
        let mut rest: BumpVec<'a, (BinaryOp, Expr<'a>)> = self.list();
        rest.push((op, second));
        while self.continues_chain(at) {
            let Infix::Binary(op, _) = self.infix() else {
                break;
            };
            self.advance();
            if op == BinaryOp::SoundsLike {
                self.advance();
            }
            rest.push((op, self.expr_at(at + 1)?));
        }
        let node = if let [(op, right)] = rest.as_slice() {
            ExprKind::Binary(self.alloc(Binary {
                op: *op,
                left: first,
                right: *right,
            }))
        } else {
            ExprKind::Chain(self.alloc(Chain {
                first,
                rest: rest.into_bump_slice(),
            }))
        };
        Ok(self.wrap(first, |_, _| node))
    }

    /// Whether an operator of this level with a plain right operand follows.
    fn continues_chain(&mut self, at: u8) -> bool {
        let Infix::Binary(op, level) = self.infix() else {
            return false;
        };
        if level != at || level > self.ceiling {
            return false;
        }
        match at {
            level::ADD => self.peek().keyword != Kw::INTERVAL,
            level::COMPARE => !matches!(self.peek().keyword, Kw::ALL | Kw::ANY | Kw::SOME),
            _ => op != BinaryOp::SoundsLike,
        }
    }

    /// Whether INTERVAL at the current token is not a call of the function. `INTERVAL (a) DAY` and
    /// `INTERVAL (a, b)` are distinguished by the token after the parenthesis, in
    /// `interval_amount`.
    fn at_interval(&self) -> bool {
        self.is_kw(Kw::INTERVAL)
    }

    /// Parses the rest of a parenthesis whose opening token was consumed, with the closing one.
    pub(super) fn paren_rest(&mut self) -> PResult<Paren<'a>> {
        self.enter()?;
        let inner = self.paren_inner()?;
        self.expect(K::RightParen)?;
        self.leave();
        Ok(inner)
    }

    fn paren_inner(&mut self) -> PResult<Paren<'a>> {
        if self.at_query() {
            return self.query_expr().map(Paren::Query);
        }
        let first = if self.is(K::LeftParen) {
            let start = self.advance().start;
            match self.paren_rest()? {
                Paren::Query(query) if self.is(K::RightParen) => return Ok(Paren::Query(query)),
                Paren::Query(query) if self.continues_query() => {
                    return self.query_after(query, start).map(Paren::Query);
                }
                Paren::Query(query) => {
                    let span = Span::new(start, self.last_end);
                    self.expr_after(Expr {
                        kind: ExprKind::Subquery(query),
                        span,
                    })?
                }
                Paren::List(list) => {
                    let left = self.paren_value(list, start);
                    self.expr_after(left)?
                }
            }
        } else {
            self.expr()?
        };
        if !self.is(K::Comma) {
            return Ok(Paren::List(std::slice::from_ref(self.alloc(first))));
        }
        let mut items = self.list();
        items.push(first);
        while self.eat(K::Comma) {
            items.push(self.expr()?);
        }
        Ok(Paren::List(items.into_bump_slice()))
    }

    /// The value of `(list)`: the expression itself, or a row.
    pub(super) fn paren_value(&self, list: &'a [Expr<'a>], start: u32) -> Expr<'a> {
        match list {
            [single] => *single,
            _ => Expr {
                kind: ExprKind::Row(list),
                span: Span::new(start, self.last_end),
            },
        }
    }

    /// A query in parentheses.
    pub(super) fn subquery(&mut self) -> PResult<&'a Query<'a>> {
        let open = self.expect(K::LeftParen)?;
        match self.paren_rest()? {
            Paren::Query(query) => Ok(query),
            Paren::List(_) => self.error_at(open.span()),
        }
    }
}
