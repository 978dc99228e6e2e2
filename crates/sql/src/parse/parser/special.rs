//! Operands that begin with a keyword: functions with a syntax of their own, and words that are
//! reserved but call functions.

use super::super::ast::{
    Cast, CharUsing, ConvertUsing, DataType, Expr, ExprKind, Ident, IntervalArith, JsonOnResponse,
    JsonValue, Literal, Match, MatchMode, TemporalKind, TimestampArith, Trim, TrimSide, TypeKind,
    WeightString,
};
use super::super::keyword::Keyword as Kw;
use super::super::token::{Span, TokenKind as K};
use super::{PResult, Parser};

impl<'a> Parser<'a> {
    /// An operand whose first token is a keyword.
    #[inline(never)]
    pub(super) fn keyword_operand(&mut self) -> PResult<Expr<'a>> {
        let start = self.token.start;
        let keyword = self.token.keyword;
        let next = self.peek();
        let called = next.kind == K::LeftParen;
        let text_follows = next.kind == K::String;
        let adjacent = called && (next.start == self.token.end || self.mode.ignore_space);
        let literal = match keyword {
            Kw::NULL => Some(Literal::Null),
            Kw::TRUE => Some(Literal::Bool(true)),
            Kw::FALSE => Some(Literal::Bool(false)),
            _ => None,
        };
        if let Some(literal) = literal {
            self.advance();
            return Ok(self.node(start, ExprKind::Literal(literal)));
        }
        match keyword {
            Kw::DATE | Kw::TIME | Kw::TIMESTAMP if text_follows => {
                self.advance();
                let text = self.string()?;
                let literal = match keyword {
                    Kw::DATE => Literal::Date(text),
                    Kw::TIME => Literal::Time(text),
                    _ => Literal::Timestamp(text),
                };
                Ok(self.node(start, ExprKind::Literal(literal)))
            }
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
                Ok(self.node(start, ExprKind::ValuesOf(self.alloc(column))))
            }
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
            _ if called && calls_though_reserved(keyword) => {
                let name = self.any_word()?;
                self.call(None, name, start)
            }
            _ if keyword.is_reserved() => self.error(),
            _ => self.name_or_call(),
        }
    }

    /// One level deeper around a rule.
    fn nested(&mut self, rule: impl FnOnce(&mut Self) -> PResult<Expr<'a>>) -> PResult<Expr<'a>> {
        self.enter()?;
        let expr = rule(self)?;
        self.leave();
        Ok(expr)
    }

    /// `CURRENT_DATE`, `CURRENT_TIMESTAMP(6)` and their kin.
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

    /// At the name of a function with a syntax of its own; a parenthesis follows.
    fn special_call(&mut self, keyword: Kw) -> PResult<Expr<'a>> {
        let start = self.token.start;
        if keyword == Kw::MATCH {
            return self.match_against();
        }
        let name = self.any_word()?;
        self.expect(K::LeftParen)?;
        let kind = match keyword {
            Kw::CAST => self.cast()?,
            Kw::CONVERT => self.convert()?,
            Kw::CHAR => self.char_call(name)?,
            Kw::EXTRACT => {
                let unit = self.interval_unit()?;
                self.expect_kw(Kw::FROM)?;
                let from = self.expr()?;
                ExprKind::Extract(unit, self.alloc(from))
            }
            Kw::TRIM => self.trim()?,
            Kw::SUBSTRING | Kw::SUBSTR | Kw::MID => self.substring(name)?,
            Kw::POSITION => {
                let needle = self.bit_expr()?;
                self.expect_kw(Kw::IN)?;
                let hay = self.expr()?;
                let locate = Ident {
                    name: "LOCATE",
                    span: name.span,
                };
                self.plain_call(locate, self.arena.alloc([needle, hay]))
            }
            Kw::DATE_ADD | Kw::DATE_SUB | Kw::ADDDATE | Kw::SUBDATE => {
                self.date_add(keyword, name)?
            }
            Kw::WEIGHT_STRING => self.weight_string()?,
            Kw::JSON_VALUE => self.json_value()?,
            Kw::TIMESTAMPADD | Kw::TIMESTAMPDIFF => {
                let unit = self.interval_unit()?;
                self.expect(K::Comma)?;
                let a = self.expr()?;
                self.expect(K::Comma)?;
                let b = self.expr()?;
                let node = TimestampArith {
                    diff: keyword == Kw::TIMESTAMPDIFF,
                    unit,
                    a,
                    b,
                };
                ExprKind::TimestampArith(self.alloc(node))
            }
            Kw::GET_FORMAT => {
                let kind = match self.eat_any_kw(&[Kw::DATE, Kw::TIME, Kw::DATETIME, Kw::TIMESTAMP])
                {
                    Some(Kw::DATE) => TemporalKind::Date,
                    Some(Kw::TIME) => TemporalKind::Time,
                    Some(_) => TemporalKind::DateTime,
                    None => return self.error(),
                };
                self.expect(K::Comma)?;
                let format = self.expr()?;
                ExprKind::GetFormat(kind, self.alloc(format))
            }
            _ => return self.error(),
        };
        self.expect(K::RightParen)?;
        Ok(self.node(start, kind))
    }

    fn cast(&mut self) -> PResult<ExprKind<'a>> {
        let expr = self.expr()?;
        let mut time_zone = None;
        if self.eat_kw2(Kw::AT, Kw::TIME) {
            self.expect_kw(Kw::ZONE)?;
            self.eat_kw(Kw::INTERVAL);
            time_zone = Some(self.string()?);
        }
        self.expect_kw(Kw::AS)?;
        let ty = self.cast_type()?;
        let array = self.eat_kw(Kw::ARRAY);
        Ok(ExprKind::Cast(self.alloc(Cast {
            expr,
            ty,
            array,
            time_zone,
        })))
    }

    fn convert(&mut self) -> PResult<ExprKind<'a>> {
        let expr = self.expr()?;
        if self.eat_kw(Kw::USING) {
            let charset = self.charset_name()?;
            return Ok(ExprKind::ConvertUsing(
                self.alloc(ConvertUsing { expr, charset }),
            ));
        }
        self.expect(K::Comma)?;
        let ty = self.cast_type()?;
        Ok(ExprKind::Cast(self.alloc(Cast {
            expr,
            ty,
            array: false,
            time_zone: None,
        })))
    }

    fn char_call(&mut self, name: Ident<'a>) -> PResult<ExprKind<'a>> {
        let args = self.comma_list(Self::expr)?;
        if self.eat_kw(Kw::USING) {
            let charset = self.charset_name()?;
            return Ok(ExprKind::CharUsing(self.alloc(CharUsing { args, charset })));
        }
        Ok(self.plain_call(name, args))
    }

    fn trim(&mut self) -> PResult<ExprKind<'a>> {
        let side = match self.eat_any_kw(&[Kw::BOTH, Kw::LEADING, Kw::TRAILING]) {
            Some(Kw::LEADING) => Some(TrimSide::Leading),
            Some(Kw::TRAILING) => Some(TrimSide::Trailing),
            Some(_) => Some(TrimSide::Both),
            None => None,
        };
        let default = side.unwrap_or(TrimSide::Both);
        let node = if side.is_some() && self.eat_kw(Kw::FROM) {
            Trim {
                side: default,
                what: None,
                from: self.expr()?,
            }
        } else {
            let first = self.expr()?;
            if self.eat_kw(Kw::FROM) {
                Trim {
                    side: default,
                    what: Some(first),
                    from: self.expr()?,
                }
            } else if side.is_some() {
                return self.error();
            } else {
                Trim {
                    side: default,
                    what: None,
                    from: first,
                }
            }
        };
        Ok(ExprKind::Trim(self.alloc(node)))
    }

    fn substring(&mut self, name: Ident<'a>) -> PResult<ExprKind<'a>> {
        let mut args = self.list();
        args.push(self.expr()?);
        let words = self.is_kw(Kw::FROM);
        if words {
            self.advance();
        } else {
            self.expect(K::Comma)?;
        }
        args.push(self.expr()?);
        let more = if words {
            self.eat_kw(Kw::FOR)
        } else {
            self.eat(K::Comma)
        };
        if more {
            args.push(self.expr()?);
        }
        Ok(self.plain_call(name, args.into_bump_slice()))
    }

    /// `DATE_ADD(d, INTERVAL n unit)`, `ADDDATE(d, days)`
    fn date_add(&mut self, keyword: Kw, name: Ident<'a>) -> PResult<ExprKind<'a>> {
        let date = self.expr()?;
        self.expect(K::Comma)?;
        if self.is_kw(Kw::INTERVAL) {
            self.advance();
            let amount = self.expr()?;
            let unit = self.interval_unit()?;
            let subtract = matches!(keyword, Kw::DATE_SUB | Kw::SUBDATE);
            return Ok(ExprKind::IntervalArith(self.alloc(IntervalArith {
                date,
                subtract,
                amount,
                unit,
            })));
        }
        if matches!(keyword, Kw::DATE_ADD | Kw::DATE_SUB) {
            return self.error();
        }
        let days = self.expr()?;
        Ok(self.plain_call(name, self.arena.alloc([date, days])))
    }

    fn weight_string(&mut self) -> PResult<ExprKind<'a>> {
        let expr = self.expr()?;
        let mut node = WeightString {
            expr,
            binary: false,
            length: None,
        };
        if self.eat_kw(Kw::AS) {
            node.binary = match self.eat_any_kw(&[Kw::BINARY, Kw::CHAR]) {
                Some(word) => word == Kw::BINARY,
                None => return self.error(),
            };
            self.expect(K::LeftParen)?;
            node.length = Some(self.uint()?);
            self.expect(K::RightParen)?;
        }
        Ok(ExprKind::WeightString(self.alloc(node)))
    }

    fn json_value(&mut self) -> PResult<ExprKind<'a>> {
        let doc = self.expr()?;
        self.expect(K::Comma)?;
        let path = self.string()?;
        let returning = if self.eat_kw(Kw::RETURNING) {
            Some(self.cast_type()?)
        } else {
            None
        };
        let (on_empty, on_error) = self.json_responses()?;
        Ok(ExprKind::JsonValue(self.alloc(JsonValue {
            doc,
            path,
            returning,
            on_empty,
            on_error,
        })))
    }

    /// `[response ON EMPTY] [response ON ERROR]`
    #[expect(clippy::type_complexity, reason = "two optional clauses of one type")]
    pub(super) fn json_responses(
        &mut self,
    ) -> PResult<(Option<JsonOnResponse<'a>>, Option<JsonOnResponse<'a>>)> {
        let (mut on_empty, mut on_error) = (None, None);
        loop {
            let response = match self.eat_any_kw(&[Kw::ERROR, Kw::NULL, Kw::DEFAULT]) {
                Some(Kw::ERROR) => JsonOnResponse::Error,
                Some(Kw::NULL) => JsonOnResponse::Null,
                Some(_) => JsonOnResponse::Default(self.signed_literal()?),
                None => return Ok((on_empty, on_error)),
            };
            self.expect_kw(Kw::ON)?;
            let slot = match self.eat_any_kw(&[Kw::EMPTY, Kw::ERROR]) {
                Some(Kw::EMPTY) if on_empty.is_none() && on_error.is_none() => &mut on_empty,
                Some(Kw::ERROR) if on_error.is_none() => &mut on_error,
                _ => return self.error(),
            };
            *slot = Some(response);
        }
    }

    /// A literal, or a number with a sign.
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
        match self.eat_any_kw(&[Kw::TRUE, Kw::FALSE, Kw::NULL]) {
            Some(Kw::TRUE) => Ok(Literal::Bool(true)),
            Some(Kw::FALSE) => Ok(Literal::Bool(false)),
            Some(_) => Ok(Literal::Null),
            None => self.literal(),
        }
    }

    /// `MATCH (a, b) AGAINST (expr mode)`
    fn match_against(&mut self) -> PResult<Expr<'a>> {
        let start = self.advance().start;
        let parens = self.eat(K::LeftParen);
        let columns = self.comma_list(Self::column_name)?;
        if parens {
            self.expect(K::RightParen)?;
        }
        self.expect_kw(Kw::AGAINST)?;
        self.expect(K::LeftParen)?;
        let against = self.bit_expr()?;
        let mut mode = MatchMode::NaturalLanguage;
        if self.eat_kw(Kw::IN) {
            if self.eat_kw(Kw::BOOLEAN) {
                mode = MatchMode::Boolean;
            } else {
                self.expect_kw(Kw::NATURAL)?;
                self.expect_kw(Kw::LANGUAGE)?;
            }
            self.expect_kw(Kw::MODE)?;
        }
        if mode == MatchMode::NaturalLanguage && self.eat_kw(Kw::WITH) {
            self.expect_kw(Kw::QUERY)?;
            self.expect_kw(Kw::EXPANSION)?;
            mode = MatchMode::QueryExpansion;
        }
        self.expect(K::RightParen)?;
        Ok(self.node(
            start,
            ExprKind::Match(self.alloc(Match {
                columns,
                against,
                mode,
            })),
        ))
    }

    /// A type as CAST takes it.
    pub(super) fn cast_type(&mut self) -> PResult<DataType<'a>> {
        let start = self.token.start;
        if let Some(word) = self.eat_any_kw(&[Kw::SIGNED, Kw::UNSIGNED]) {
            self.eat_any_kw(&[Kw::INTEGER, Kw::INT]);
            let mut ty = DataType::plain(TypeKind::BigInt);
            ty.unsigned = word == Kw::UNSIGNED;
            ty.span = Span::new(start, self.last_end);
            return Ok(ty);
        }
        use TypeKind as T;
        let ty = self.data_type()?;
        let castable = matches!(
            ty.kind,
            T::Binary
                | T::Char
                | T::Date
                | T::DateTime
                | T::Decimal
                | T::Double
                | T::Float
                | T::Real
                | T::Json
                | T::Time
                | T::Year
                | T::Point
                | T::LineString
                | T::Polygon
                | T::MultiPoint
                | T::MultiLineString
                | T::MultiPolygon
                | T::GeometryCollection
        );
        if castable && !ty.unsigned && !ty.zerofill {
            Ok(ty)
        } else {
            self.error_at(ty.span)
        }
    }
}

/// Reserved words that are names of functions when a parenthesis follows.
fn calls_though_reserved(keyword: Kw) -> bool {
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
