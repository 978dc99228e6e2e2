//! Queries.

use super::super::ast::{Cte, Expr};
use super::super::ast::{OrderItem, Query, QueryBody, SetChain, SetOp, SetTerm, With};
use super::super::keyword::Keyword as Kw;
use super::super::token::{Span, TokenKind as K};
use super::{PResult, Parser};

impl<'a> Parser<'a> {
    /// Whether the current token begins a query without parentheses.
    pub(super) fn at_query(&mut self) -> bool {
        match self.token.keyword {
            Kw::SELECT | Kw::WITH => true,
            Kw::TABLE => self.peek().kind != K::LeftParen,
            Kw::VALUES => self.peek().keyword == Kw::ROW,
            _ => false,
        }
    }

    /// Whether the current token continues a query that ended with a parenthesis.
    pub(super) fn continues_query(&mut self) -> bool {
        match self.token.keyword {
            Kw::UNION | Kw::EXCEPT | Kw::INTERSECT | Kw::ORDER | Kw::LIMIT | Kw::INTO => true,
            Kw::FOR => matches!(self.peek().keyword, Kw::UPDATE | Kw::SHARE),
            Kw::LOCK => true,
            _ => false,
        }
    }

    /// A query, with or without surrounding parentheses.
    pub(super) fn query_expr(&mut self) -> PResult<&'a Query<'a>> {
        self.enter()?;
        let outer = std::mem::take(&mut self.height);
        self.grow()?;
        let start = self.token.start;
        let with = if self.is_kw(Kw::WITH) {
            Some(self.with()?)
        } else {
            None
        };
        let query = self.query_tail(with, None, start)?;
        self.grow()?;
        self.height = self.height.max(outer);
        self.leave();
        Ok(query)
    }

    /// Continues after a query in parentheses.
    pub(super) fn query_after(
        &mut self,
        first: &'a Query<'a>,
        start: u32,
    ) -> PResult<&'a Query<'a>> {
        self.enter()?;
        self.grow()?;
        let query = self.query_tail(None, Some(nest(first)), start)?;
        self.leave();
        Ok(query)
    }

    /// A query after WITH.
    pub(super) fn query_with(&mut self, with: &'a With<'a>, start: u32) -> PResult<&'a Query<'a>> {
        self.query_tail(Some(with), None, start)
    }

    fn query_tail(
        &mut self,
        with: Option<&'a With<'a>>,
        first: Option<QueryBody<'a>>,
        start: u32,
    ) -> PResult<&'a Query<'a>> {
        let outer_into = self.into.take();
        let body = self.set_chain(first)?;
        let order_by: &[OrderItem<'a>] = if self.eat_kw2(Kw::ORDER, Kw::BY) {
            self.order_items()?
        } else {
            &[]
        };
        let limit = self.opt_limit()?;
        let mut into = self.into.take();
        if into.is_none() && self.is_kw(Kw::INTO) {
            into = Some(self.destination()?);
        }
        let locks = self.lock_clauses()?;
        if into.is_none() && self.is_kw(Kw::INTO) {
            into = Some(self.destination()?);
        }
        self.into = outer_into;
        let span = Span::new(start, self.last_end);
        let query = Query {
            with,
            body,
            order_by,
            limit,
            locks,
            into,
            span,
        };
        match body {
            QueryBody::Nested(inner) if is_bare(&query) => Ok(inner),
            _ => Ok(self.alloc(query)),
        }
    }

    /// UNION and EXCEPT.
    fn set_chain(&mut self, first: Option<QueryBody<'a>>) -> PResult<QueryBody<'a>> {
        let outer = if first.is_none() {
            std::mem::take(&mut self.height)
        } else {
            0
        };
        let first = self.intersect_chain(first)?;
        let mut rest = self.list();
        while let Some(word) = self.eat_any_kw(&[Kw::UNION, Kw::EXCEPT]) {
            let op = if word == Kw::UNION {
                SetOp::Union
            } else {
                SetOp::Except
            };
            let all = self.set_quantifier();
            rest.push(SetTerm {
                op,
                all,
                body: self.intersect_chain(None)?,
            });
        }
        self.chain_of(first, rest, outer)
    }

    /// INTERSECT, which has higher precedence.
    fn intersect_chain(&mut self, first: Option<QueryBody<'a>>) -> PResult<QueryBody<'a>> {
        let outer = if first.is_none() {
            std::mem::take(&mut self.height)
        } else {
            0
        };
        let first = match first {
            Some(first) => first,
            None => self.query_primary()?,
        };
        let mut rest = self.list();
        while self.eat_kw(Kw::INTERSECT) {
            let all = self.set_quantifier();
            rest.push(SetTerm {
                op: SetOp::Intersect,
                all,
                body: self.query_primary()?,
            });
        }
        self.chain_of(first, rest, outer)
    }

    /// Creates a chain, one level higher than the tallest of its terms; `outer` is the height of
    /// sibling nodes.
    fn chain_of(
        &mut self,
        first: QueryBody<'a>,
        rest: bumpalo::collections::Vec<'a, SetTerm<'a>>,
        outer: u32,
    ) -> PResult<QueryBody<'a>> {
        let body = if rest.is_empty() {
            first
        } else {
            self.grow()?;
            QueryBody::Set(self.alloc(SetChain {
                first,
                rest: rest.into_bump_slice(),
            }))
        };
        self.height = self.height.max(outer);
        Ok(body)
    }

    /// Consumes ALL or DISTINCT. Returns whether it was ALL.
    fn set_quantifier(&mut self) -> bool {
        self.eat_any_kw(&[Kw::ALL, Kw::DISTINCT]) == Some(Kw::ALL)
    }

    fn query_primary(&mut self) -> PResult<QueryBody<'a>> {
        self.count_node()?;
        match self.token.keyword {
            Kw::SELECT => Ok(QueryBody::Select(self.select()?)),
            Kw::TABLE => {
                self.advance();
                Ok(QueryBody::Table(self.table_name()?))
            }
            Kw::VALUES => {
                self.advance();
                self.row_constructors().map(QueryBody::Values)
            }
            _ if self.is(K::LeftParen) => {
                self.advance();
                let query = self.query_expr()?;
                self.expect(K::RightParen)?;
                Ok(nest(query))
            }
            _ => self.error(),
        }
    }

    /// `ROW(...), ROW(...)`
    pub(super) fn row_constructors(&mut self) -> PResult<&'a [&'a [Expr<'a>]]> {
        self.comma_list(|p| {
            p.expect_kw(Kw::ROW)?;
            p.value_row()
        })
    }

    /// `(a, b)`, possibly empty.
    pub(super) fn value_row(&mut self) -> PResult<&'a [Expr<'a>]> {
        self.expect(K::LeftParen)?;
        if self.eat(K::RightParen) {
            return Ok(&[]);
        }
        let row = self.comma_list(Self::row_value)?;
        self.expect(K::RightParen)?;
        Ok(row)
    }

    /// A value of a row. Large statements consist of rows of literals, after which no operators are
    /// looked for if a comma or the end of the row follows.
    fn row_value(&mut self) -> PResult<Expr<'a>> {
        if !self.is_literal() {
            return self.expr();
        }
        self.count_node()?;
        let literal = self.literal_expr()?;
        if matches!(self.token.kind, K::Comma | K::RightParen) {
            return Ok(literal);
        }
        let outer = std::mem::take(&mut self.height);
        let value = self.expr_after(literal)?;
        self.height = self.height.max(outer);
        Ok(value)
    }

    /// Parses WITH from the keyword on.
    pub(super) fn with(&mut self) -> PResult<&'a With<'a>> {
        self.advance();
        let recursive = self.eat_kw(Kw::RECURSIVE);
        let ctes = self.comma_list(|p| {
            let name = p.ident()?;
            let columns = p.opt_paren_idents()?;
            p.expect_kw(Kw::AS)?;
            let query = p.subquery()?;
            Ok(Cte {
                name,
                columns,
                query,
            })
        })?;
        Ok(self.alloc(With { recursive, ctes }))
    }
}

/// A query in parentheses as a part of another; only its body if it has no other clauses.
fn nest<'a>(query: &'a Query<'a>) -> QueryBody<'a> {
    if is_bare(query) && !matches!(query.body, QueryBody::Nested(_)) {
        query.body
    } else {
        QueryBody::Nested(query)
    }
}

/// Whether a query has only a body.
fn is_bare(query: &Query<'_>) -> bool {
    query.with.is_none()
        && query.order_by.is_empty()
        && query.limit.is_none()
        && query.locks.is_empty()
        && query.into.is_none()
}
