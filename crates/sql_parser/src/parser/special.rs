//! Operands that begin with a keyword: functions with their own syntax, and reserved words that are
//! function names.

use super::super::ast::{
    Cast, CharUsing, ConvertUsing, DataType, Expr, ExprKind, Ident, IntervalArith, Match,
    MatchMode, TemporalKind, TimestampArith, Trim, TrimSide, TypeKind, WeightString,
};
use super::super::keyword::Keyword as Kw;
use super::super::token::{Span, TokenKind as K};
use super::{PResult, Parser};

impl<'a> Parser<'a> {
    /// At the name of a function with its own syntax, which is followed by a parenthesis.
    pub(super) fn special_call(&mut self, keyword: Kw) -> PResult<Expr<'a>> {
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
        if time_zone.is_some() && ty.kind != TypeKind::DateTime {
            return self.error_at(ty.span);
        }
        let array = time_zone.is_none() && self.eat_kw(Kw::ARRAY);
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
            limits: None,
        };
        if self.eat(K::Comma) {
            let bytes = self.weight_limit()?;
            self.expect(K::Comma)?;
            let chars = self.weight_limit()?;
            self.expect(K::Comma)?;
            node.limits = Some([bytes, chars, self.weight_limit()?]);
        } else if self.eat_kw(Kw::AS) {
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

    /// A number in decimal or hexadecimal digits.
    fn weight_limit(&mut self) -> PResult<u64> {
        if !self.is(K::HexNumber) {
            return self.uint();
        }
        let token = self.advance();
        let bytes = self.decode_hex(token);
        if bytes.len() > 8 {
            return self.error_at(token.span());
        }
        Ok(bytes.iter().fold(0, |n, b| n << 8 | u64::from(*b)))
    }

    /// `MATCH (a, b) AGAINST (expr mode)`
    pub(super) fn match_against(&mut self) -> PResult<Expr<'a>> {
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

    /// A type in the syntax of CAST.
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
