//! JSON functions.

use super::super::ast::{ExprKind, JsonOnResponse, JsonValue, Literal};
use super::super::keyword::Keyword as Kw;
use super::super::token::TokenKind as K;
use super::{PResult, Parser};

impl<'a> Parser<'a> {
    pub(super) fn json_value(&mut self) -> PResult<ExprKind<'a>> {
        let doc = self.expr()?;
        self.expect(K::Comma)?;
        let path = self.string()?;
        let returning = if self.eat_kw(Kw::RETURNING) {
            Some(self.cast_type()?)
        } else {
            None
        };
        let (on_empty, on_error) = self.json_responses(false)?;
        Ok(ExprKind::JsonValue(self.alloc(JsonValue {
            doc,
            path,
            returning,
            on_empty,
            on_error,
        })))
    }

    /// `[response ON EMPTY] [response ON ERROR]`, or in any order.
    pub(super) fn json_responses(
        &mut self,
        any_order: bool,
    ) -> PResult<(Option<JsonOnResponse<'a>>, Option<JsonOnResponse<'a>>)> {
        let (mut on_empty, mut on_error) = (None, None);
        loop {
            let response = match self.eat_any_kw(&[Kw::ERROR, Kw::NULL, Kw::DEFAULT]) {
                Some(Kw::ERROR) => JsonOnResponse::Error,
                Some(Kw::NULL) => JsonOnResponse::Null,
                Some(_) if self.is_kw(Kw::NULL) => return self.error(),
                Some(_) => JsonOnResponse::Default(self.signed_literal()?),
                None => return Ok((on_empty, on_error)),
            };
            self.expect_kw(Kw::ON)?;
            let slot = match self.eat_any_kw(&[Kw::EMPTY, Kw::ERROR]) {
                Some(Kw::EMPTY) if on_empty.is_none() && (any_order || on_error.is_none()) => {
                    &mut on_empty
                }
                Some(Kw::ERROR) if on_error.is_none() => &mut on_error,
                _ => return self.error(),
            };
            *slot = Some(response);
        }
    }

    /// A literal, or a signed number.
    pub(super) fn signed_literal(&mut self) -> PResult<Literal<'a>> {
        if self.is(K::Minus) {
            self.advance();
            let digits = self.token.span();
            let number = self.literal()?;
            let text = bumpalo::format!(in self.arena, "-{}", self.str_of(digits)?).into_bump_str();
            return match number {
                Literal::Int(_) | Literal::Decimal(_) => Ok(Literal::Decimal(text)),
                Literal::Float(_) => Ok(Literal::Float(text)),
                _ => self.error(),
            };
        }
        let words = [
            Kw::TRUE,
            Kw::FALSE,
            Kw::NULL,
            Kw::DATE,
            Kw::TIME,
            Kw::TIMESTAMP,
        ];
        match self.eat_any_kw(&words) {
            Some(Kw::TRUE) => Ok(Literal::Bool(true)),
            Some(Kw::FALSE) => Ok(Literal::Bool(false)),
            Some(Kw::DATE) => self.string().map(Literal::Date),
            Some(Kw::TIME) => self.string().map(Literal::Time),
            Some(Kw::TIMESTAMP) => self.string().map(Literal::Timestamp),
            Some(_) => Ok(Literal::Null),
            None => self.literal(),
        }
    }
}
