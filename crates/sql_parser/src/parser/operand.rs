//! Operands that begin with a keyword: keywords that are values, reserved words that are function
//! names, and dispatch to functions with their own syntax.

use super::super::ast::{Expr, ExprKind, Literal};
use super::super::deprecated::Deprecation;
use super::super::keyword::Keyword as Kw;
use super::super::token::TokenKind as K;
use super::{PResult, Parser};

/// `VALUES(column)` in ON DUPLICATE KEY UPDATE.
const VALUES_FUNCTION: Deprecation<'static> = Deprecation::Replaced(
    "VALUES function",
    "an alias (INSERT INTO ... VALUES (...) AS alias) and replace VALUES(col) in the ON DUPLICATE KEY \
     UPDATE clause with alias.col",
);

impl<'a> Parser<'a> {
    /// An operand whose first token is a keyword.
    #[inline(never)]
    pub(super) fn keyword_operand(&mut self) -> PResult<Expr<'a>> {
        let start = self.token.start;
        let keyword = self.token.keyword;
        let literal = match keyword {
            Kw::NULL => Literal::Null,
            Kw::TRUE => Literal::Bool(true),
            Kw::FALSE => Literal::Bool(false),
            Kw::DATE | Kw::TIME | Kw::TIMESTAMP if self.peek().kind == K::String => {
                self.advance();
                let text = self.string()?;
                let literal = match keyword {
                    Kw::DATE => Literal::Date(text),
                    Kw::TIME => Literal::Time(text),
                    _ => Literal::Timestamp(text),
                };
                return Ok(self.node(start, ExprKind::Literal(literal)));
            }
            _ => return self.keyword_value(start, keyword),
        };
        self.advance();
        Ok(self.node(start, ExprKind::Literal(literal)))
    }

    /// Keywords that begin a value.
    fn keyword_value(&mut self, start: u32, keyword: Kw) -> PResult<Expr<'a>> {
        let called = self.peek().kind == K::LeftParen;
        match keyword {
            Kw::CASE => self.nested(Self::case),
            Kw::INTERVAL => self.nested(Self::interval_operand),
            Kw::EXISTS => {
                self.advance();
                let query = self.subquery()?;
                Ok(self.node(start, ExprKind::Exists(query)))
            }
            Kw::ROW if called => {
                self.advance();
                let items = self.paren_list(Self::expr)?;
                if items.len() < 2 {
                    return self.error();
                }
                Ok(self.node(start, ExprKind::Row(items)))
            }
            Kw::CURRENT_DATE | Kw::UTC_DATE | Kw::CURRENT_USER => {
                self.call_without_parens(called, false)
            }
            Kw::CURRENT_TIME
            | Kw::CURRENT_TIMESTAMP
            | Kw::LOCALTIME
            | Kw::LOCALTIMESTAMP
            | Kw::UTC_TIME
            | Kw::UTC_TIMESTAMP => self.call_without_parens(called, true),
            Kw::DEFAULT => {
                self.advance();
                if !self.eat(K::LeftParen) {
                    return Ok(self.node(start, ExprKind::Default));
                }
                let column = self.column_name()?;
                self.expect(K::RightParen)?;
                Ok(self.node(start, ExprKind::DefaultOf(self.alloc(column))))
            }
            Kw::VALUES if called => {
                self.advance();
                self.advance();
                let column = self.column_name()?;
                self.expect(K::RightParen)?;
                self.note_deprecated(VALUES_FUNCTION);
                Ok(self.node(start, ExprKind::ValuesOf(self.alloc(column))))
            }
            _ => self.keyword_call(start, keyword),
        }
    }

    /// Keywords that are function names, and those that are identifiers.
    fn keyword_call(&mut self, start: u32, keyword: Kw) -> PResult<Expr<'a>> {
        let next = self.peek();
        let called = next.kind == K::LeftParen;
        let adjacent = called && (next.start == self.token.end || self.mode.ignore_space);
        match keyword {
            Kw::CONVERT
            | Kw::CHAR
            | Kw::MATCH
            | Kw::WEIGHT_STRING
            | Kw::JSON_VALUE
            | Kw::TIMESTAMPADD
            | Kw::TIMESTAMPDIFF
            | Kw::GET_FORMAT
                if called =>
            {
                self.nested(|p| p.special_call(keyword))
            }
            Kw::CAST
            | Kw::EXTRACT
            | Kw::TRIM
            | Kw::SUBSTRING
            | Kw::SUBSTR
            | Kw::MID
            | Kw::POSITION
            | Kw::DATE_ADD
            | Kw::DATE_SUB
            | Kw::ADDDATE
            | Kw::SUBDATE
                if adjacent =>
            {
                self.nested(|p| p.special_call(keyword))
            }
            Kw::MATCH => self.nested(|p| p.match_against()),
            _ if called && is_callable_reserved_word(keyword) => {
                let name = self.any_word()?;
                self.call(None, name, start)
            }
            _ if keyword.is_reserved() => self.error(),
            _ => self.name_or_call(),
        }
    }

    /// Applies a rule one nesting level deeper.
    fn nested(&mut self, rule: impl FnOnce(&mut Self) -> PResult<Expr<'a>>) -> PResult<Expr<'a>> {
        self.enter()?;
        let expr = rule(self)?;
        self.leave();
        Ok(expr)
    }

    /// `CURRENT_DATE`, `CURRENT_TIMESTAMP(6)` and similar functions.
    fn call_without_parens(&mut self, called: bool, digits: bool) -> PResult<Expr<'a>> {
        let start = self.token.start;
        let name = self.any_word()?;
        let mut args: &[Expr<'a>] = &[];
        if called {
            self.advance();
            if digits && !self.is(K::RightParen) {
                let arg_start = self.token.start;
                let value = self.uint()?;
                args = std::slice::from_ref(
                    self.alloc(self.node(arg_start, ExprKind::Literal(Literal::Int(value)))),
                );
            }
            self.expect(K::RightParen)?;
        }
        Ok(self.node(start, self.plain_call(name, args)))
    }
}

/// Reserved words that are function names if a parenthesis follows.
fn is_callable_reserved_word(keyword: Kw) -> bool {
    matches!(
        keyword,
        Kw::IF
            | Kw::LEFT
            | Kw::RIGHT
            | Kw::REPLACE
            | Kw::INSERT
            | Kw::REPEAT
            | Kw::MOD
            | Kw::DATABASE
            | Kw::SCHEMA
            | Kw::CUME_DIST
            | Kw::DENSE_RANK
            | Kw::FIRST_VALUE
            | Kw::LAG
            | Kw::LAST_VALUE
            | Kw::LEAD
            | Kw::NTH_VALUE
            | Kw::NTILE
            | Kw::PERCENT_RANK
            | Kw::RANK
            | Kw::ROW_NUMBER
            | Kw::GROUPING
    )
}
