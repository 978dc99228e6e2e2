//! Operands: literals, names, variables, calls, and the window clause after a call.

use super::super::ast::{
    AssignUserVar, Case, Expr, ExprKind, Func, Ident, IntervalArith, IntervalUnit, JsonPath,
    Literal, SystemVar, TemporalKind, VarScope, Window,
};
use super::super::deprecated::Deprecation;
use super::super::error::{ParseError, ParseErrorKind};
use super::super::keyword::Keyword as Kw;
use super::super::token::{Span, TokenKind as K};
use super::expr::IntervalOperand;
use super::{PResult, Parser};

impl<'a> Parser<'a> {
    /// An operand.
    pub(super) fn primary(&mut self) -> PResult<Expr<'a>> {
        let start = self.token.start;
        let kind = self.token.kind;
        match kind {
            K::Word if self.token.keyword == Kw::NONE => self.name_or_call(),
            K::Word => self.keyword_operand(),
            K::QuotedIdent => self.name_or_call(),
            K::Introducer
                if !matches!(
                    self.peek().kind,
                    K::String | K::HexString | K::HexNumber | K::BitString | K::BitNumber
                ) =>
            {
                self.name_or_call()
            }
            K::LeftParen => {
                self.advance();
                match self.paren_rest()? {
                    super::expr::Paren::Query(query) => {
                        Ok(self.node(start, ExprKind::Subquery(query)))
                    }
                    super::expr::Paren::List(list) => Ok(self.paren_value(list, start)),
                }
            }
            K::Param => {
                if self.literals.is_some() || self.variables.is_some() || self.program.is_some() {
                    return self.error();
                }
                self.advance();
                let index = self.params;
                self.params += 1;
                Ok(self.node(start, ExprKind::Param(index)))
            }
            K::UserVar => {
                let name = self.user_var()?;
                if self.eat(K::Assign) {
                    self.note_deprecated(Deprecation::Assignment);
                    let value = self.expr()?;
                    let node = self.alloc(AssignUserVar { name, value });
                    return Ok(self.node(start, ExprKind::AssignUserVar(node)));
                }
                Ok(self.node(start, ExprKind::UserVar(name)))
            }
            K::AtAt => {
                let var = self.system_var()?;
                Ok(self.node(start, ExprKind::SystemVar(self.alloc(var))))
            }
            K::LeftBrace => self.odbc_literal(),
            K::Period => self.name_or_call(),
            _ if self.is_literal() => self.literal_expr(),
            _ => self.error(),
        }
    }

    /// A node from `start` to the last token taken.
    pub(super) fn node(&self, start: u32, kind: ExprKind<'a>) -> Expr<'a> {
        Expr {
            kind,
            span: Span::new(start, self.last_end),
        }
    }

    /// A user variable, without the `@`.
    pub(super) fn user_var(&mut self) -> PResult<&'a [u8]> {
        let token = self.expect(K::UserVar)?;
        let span = Span::new(token.start + 1, token.end);
        Ok(match self.text.get(span.start as usize) {
            Some(b'\'' | b'"' | b'`') if token.end > span.start => self.unquote(span),
            _ => self
                .text
                .get(span.start as usize..span.end as usize)
                .unwrap_or_default(),
        })
    }

    /// `@@[scope.][component.]name`
    pub(super) fn system_var(&mut self) -> PResult<SystemVar<'a>> {
        self.expect(K::AtAt)?;
        let scope = match self.token.keyword {
            Kw::GLOBAL => VarScope::Global,
            Kw::SESSION | Kw::LOCAL => VarScope::Session,
            Kw::PERSIST => VarScope::Persist,
            Kw::PERSIST_ONLY => VarScope::PersistOnly,
            _ => VarScope::Default,
        };
        let scope = if scope != VarScope::Default && self.peek().kind == K::Period {
            self.advance();
            self.advance();
            scope
        } else {
            VarScope::Default
        };
        let first = self.any_word()?;
        if self.eat(K::Period) {
            return Ok(SystemVar {
                scope,
                component: Some(first),
                name: self.part_after_period()?,
            });
        }
        Ok(SystemVar {
            scope,
            component: None,
            name: first,
        })
    }

    /// `{d '...'}` and the like; `{x expr}` is `expr`.
    fn odbc_literal(&mut self) -> PResult<Expr<'a>> {
        let start = self.advance().start;
        let word = self.any_word()?;
        let text_follows = self.is(K::String);
        let kind = match word.name.as_bytes() {
            name if text_follows && name.eq_ignore_ascii_case(b"d") => {
                ExprKind::Literal(Literal::Odbc(TemporalKind::Date, self.string()?))
            }
            name if text_follows && name.eq_ignore_ascii_case(b"t") => {
                ExprKind::Literal(Literal::Odbc(TemporalKind::Time, self.string()?))
            }
            name if text_follows && name.eq_ignore_ascii_case(b"ts") => {
                ExprKind::Literal(Literal::Odbc(TemporalKind::DateTime, self.string()?))
            }
            _ => self.expr()?.kind,
        };
        self.expect(K::RightBrace)?;
        Ok(self.node(start, kind))
    }

    /// Whether the token is the name of a function only because a parenthesis follows (manual, "Function
    /// Name Parsing and Resolution").
    pub(super) fn is_function_token(&mut self) -> bool {
        let token = self.token;
        token.kind != K::QuotedIdent && needs_adjacent_paren(token.keyword) && {
            let next = self.peek();
            next.kind == K::LeftParen && (next.start == token.end || self.mode.ignore_space)
        }
    }

    /// A column, a call of an ordinary function, or a column with a JSON path.
    pub(super) fn name_or_call(&mut self) -> PResult<Expr<'a>> {
        let token = self.token;
        let start = token.start;
        if self.peek().kind == K::LeftParen && self.is_ident() {
            let adjacent = self.peek().start == token.end;
            if adjacent || self.mode.ignore_space || !needs_adjacent_paren(token.keyword) {
                let name = self.ident()?;
                return self.call(None, name, start);
            }
        }
        let column = self.column_name()?;
        if self.is(K::LeftParen) && column.schema.is_none() && column.table.is_some() {
            return self.call(column.table, column.name, start);
        }
        if column.schema.is_none()
            && let Some(param) = self.variable(column.table, column.name)
        {
            return Ok(self.node(start, param));
        }
        let column = self.alloc(column);
        if matches!(self.token.kind, K::Arrow | K::LongArrow) {
            let unquote = self.advance().kind == K::LongArrow;
            let path = self.string()?;
            return Ok(self.node(
                start,
                ExprKind::JsonPath(self.alloc(JsonPath {
                    column,
                    path,
                    unquote,
                })),
            ));
        }
        Ok(self.node(start, ExprKind::Column(column)))
    }

    /// A call without any clause.
    pub(super) fn plain_call(&self, name: Ident<'a>, args: &'a [Expr<'a>]) -> ExprKind<'a> {
        ExprKind::Func(self.alloc(Func {
            schema: None,
            name,
            args,
            star: false,
            distinct: false,
            order_by: &[],
            separator: None,
            from_last: false,
            ignore_nulls: false,
            over: None,
        }))
    }

    /// Parses a function call, from the parenthesis after the name.
    pub(super) fn call(
        &mut self,
        schema: Option<Ident<'a>>,
        name: Ident<'a>,
        start: u32,
    ) -> PResult<Expr<'a>> {
        self.enter()?;
        self.expect(K::LeftParen)?;
        let mut func = Func {
            schema,
            name,
            args: &[],
            star: false,
            distinct: false,
            order_by: &[],
            separator: None,
            from_last: false,
            ignore_nulls: false,
            over: None,
        };
        let is = |word: &str| schema.is_none() && name.name.eq_ignore_ascii_case(word);
        if self.is(K::Star) && is("COUNT") {
            self.advance();
            func.star = true;
        } else if !self.is(K::RightParen) {
            func.distinct = self.eat_any_kw(&[Kw::DISTINCT, Kw::DISTINCTROW]).is_some();
            if !func.distinct {
                self.eat_kw(Kw::ALL);
            } else if is("JSON_ARRAYAGG") || is("JSON_OBJECTAGG") {
                return self.error();
            }
            func.args = self.comma_list(Self::expr)?;
            let is_named = self.is_kw(Kw::AS) || self.is_ident() || self.is(K::String);
            if is_named && schema.is_none() && super::arity::grammar_arguments(&func).is_none() {
                let kind = ParseErrorKind::NamedArgument;
                return Err(ParseError::new(kind, name.span));
            }
            if is("GROUP_CONCAT") {
                if self.eat_kw2(Kw::ORDER, Kw::BY) {
                    func.order_by = self.order_items()?;
                }
                if self.eat_kw(Kw::SEPARATOR) {
                    func.separator = Some(self.string()?);
                }
            }
        }
        if is("FOUND_ROWS") {
            self.note_deprecated(Deprecation::FoundRows);
        }
        if let Some((least, most)) = super::arity::grammar_arguments(&func)
            && !(func.star || (least..=most).contains(&func.args.len()))
        {
            return self.error();
        }
        self.expect(K::RightParen)?;
        self.call_suffix(&mut func)?;
        self.leave();
        Ok(self.node(start, ExprKind::Func(self.alloc(func))))
    }

    /// `[FROM FIRST|LAST] [RESPECT|IGNORE NULLS] [OVER window]`
    fn call_suffix(&mut self, func: &mut Func<'a>) -> PResult<()> {
        if self.is_kw(Kw::FROM)
            && matches!(self.peek().keyword, Kw::FIRST | Kw::LAST)
            && takes_from_first_last(func.name)
        {
            self.advance();
            func.from_last = self.is_kw(Kw::LAST);
            self.advance();
        }
        if self.eat_kw2(Kw::IGNORE, Kw::NULLS) {
            func.ignore_nulls = true;
        } else {
            self.eat_kw2(Kw::RESPECT, Kw::NULLS);
        }
        if self.eat_kw(Kw::OVER) {
            let window = if self.is(K::LeftParen) {
                Window::Spec(self.window_spec()?)
            } else {
                Window::Named(self.ident()?)
            };
            func.over = Some(self.alloc(window));
        }
        let fits = match WindowUse::of(func) {
            WindowUse::Required => func.over.is_some() && is_stable(func),
            WindowUse::Allowed => true,
            WindowUse::Refused => func.over.is_none(),
        };
        if fits { Ok(()) } else { self.error() }
    }

    /// Parses CASE; the current token is the keyword.
    pub(super) fn case(&mut self) -> PResult<Expr<'a>> {
        let start = self.advance().start;
        let operand = if self.is_kw(Kw::WHEN) {
            None
        } else {
            Some(self.expr()?)
        };
        let mut arms = self.list();
        while self.eat_kw(Kw::WHEN) {
            let when = self.expr()?;
            self.expect_kw(Kw::THEN)?;
            arms.push((when, self.expr()?));
        }
        if arms.is_empty() {
            return self.error();
        }
        let otherwise = if self.eat_kw(Kw::ELSE) {
            Some(self.expr()?)
        } else {
            None
        };
        self.expect_kw(Kw::END)?;
        let node = Case {
            operand,
            arms: arms.into_bump_slice(),
            otherwise,
        };
        Ok(self.node(start, ExprKind::Case(self.alloc(node))))
    }

    /// Parses INTERVAL as an operand: `INTERVAL a unit + date`, or the function INTERVAL().
    pub(super) fn interval_operand(&mut self) -> PResult<Expr<'a>> {
        let start = self.token.start;
        let amount = match self.interval_amount()? {
            IntervalOperand::Amount(amount) => amount,
            IntervalOperand::Call(call) => return Ok(call),
        };
        let unit = self.interval_unit()?;
        self.expect(K::Plus)?;
        let date = self.compare_expr()?;
        let node = IntervalArith {
            date,
            subtract: false,
            amount,
            unit,
        };
        Ok(self.node(start, ExprKind::IntervalArith(self.alloc(node))))
    }

    /// True if the current token is a unit of time.
    pub(super) fn at_unit(&self) -> bool {
        unit_of(self.token.keyword).is_some()
    }

    /// A unit of time.
    pub(super) fn interval_unit(&mut self) -> PResult<IntervalUnit> {
        let keyword = if self.is(K::Word) {
            self.token.keyword
        } else {
            Kw::NONE
        };
        let unit = match unit_of(keyword) {
            Some(unit) => unit,
            // SQL_TSI_DAY and the like, for TIMESTAMPADD.
            None => match self.sql_tsi() {
                Some(unit) => unit,
                None => return self.error(),
            },
        };
        self.advance();
        Ok(unit)
    }

    fn sql_tsi(&self) -> Option<IntervalUnit> {
        let text = self.token.span().slice(self.text);
        let (prefix, name) = text.split_at_checked(8)?;
        if !prefix.eq_ignore_ascii_case(b"SQL_TSI_") {
            return None;
        }
        use IntervalUnit as U;
        unit_of(Kw::of(name)).filter(|unit| {
            matches!(
                unit,
                U::Second
                    | U::Minute
                    | U::Hour
                    | U::Day
                    | U::Week
                    | U::Month
                    | U::Quarter
                    | U::Year
            )
        })
    }
}

fn unit_of(keyword: Kw) -> Option<IntervalUnit> {
    use IntervalUnit as U;
    Some(match keyword {
        Kw::MICROSECOND => U::Microsecond,
        Kw::SECOND => U::Second,
        Kw::MINUTE => U::Minute,
        Kw::HOUR => U::Hour,
        Kw::DAY => U::Day,
        Kw::WEEK => U::Week,
        Kw::MONTH => U::Month,
        Kw::QUARTER => U::Quarter,
        Kw::YEAR => U::Year,
        Kw::SECOND_MICROSECOND => U::SecondMicrosecond,
        Kw::MINUTE_MICROSECOND => U::MinuteMicrosecond,
        Kw::MINUTE_SECOND => U::MinuteSecond,
        Kw::HOUR_MICROSECOND => U::HourMicrosecond,
        Kw::HOUR_SECOND => U::HourSecond,
        Kw::HOUR_MINUTE => U::HourMinute,
        Kw::DAY_MICROSECOND => U::DayMicrosecond,
        Kw::DAY_SECOND => U::DaySecond,
        Kw::DAY_MINUTE => U::DayMinute,
        Kw::DAY_HOUR => U::DayHour,
        Kw::YEAR_MONTH => U::YearMonth,
        _ => return None,
    })
}

/// Names of built-in functions that are functions only when the parenthesis follows at once
/// (manual, "Function Name Parsing and Resolution").
fn needs_adjacent_paren(keyword: Kw) -> bool {
    matches!(
        keyword,
        Kw::ADDDATE
            | Kw::BIT_AND
            | Kw::BIT_OR
            | Kw::BIT_XOR
            | Kw::CAST
            | Kw::COUNT
            | Kw::CURDATE
            | Kw::CURTIME
            | Kw::DATE_ADD
            | Kw::DATE_SUB
            | Kw::EXTRACT
            | Kw::GROUP_CONCAT
            | Kw::JSON_ARRAYAGG
            | Kw::JSON_OBJECTAGG
            | Kw::MAX
            | Kw::MID
            | Kw::MIN
            | Kw::NOW
            | Kw::POSITION
            | Kw::SESSION_USER
            | Kw::STD
            | Kw::STDDEV
            | Kw::STDDEV_POP
            | Kw::STDDEV_SAMP
            | Kw::SUBDATE
            | Kw::SUBSTR
            | Kw::SUBSTRING
            | Kw::SUM
            | Kw::SYSDATE
            | Kw::SYSTEM_USER
            | Kw::TRIM
            | Kw::VARIANCE
            | Kw::VAR_POP
            | Kw::VAR_SAMP
    )
}

fn takes_from_first_last(name: Ident<'_>) -> bool {
    name.name.eq_ignore_ascii_case("NTH_VALUE")
}

/// Whether a function takes OVER.
enum WindowUse {
    /// A window function.
    Required,
    /// An aggregate function.
    Allowed,
    /// Any other function.
    Refused,
}

impl WindowUse {
    fn of(func: &Func<'_>) -> WindowUse {
        const WINDOW: &[&str] = &[
            "CUME_DIST",
            "DENSE_RANK",
            "FIRST_VALUE",
            "LAG",
            "LAST_VALUE",
            "LEAD",
            "NTH_VALUE",
            "NTILE",
            "PERCENT_RANK",
            "RANK",
            "ROW_NUMBER",
        ];
        const AGGREGATE: &[&str] = &[
            "AVG",
            "BIT_AND",
            "BIT_OR",
            "BIT_XOR",
            "COUNT",
            "GROUP_CONCAT",
            "JSON_ARRAYAGG",
            "JSON_OBJECTAGG",
            "MAX",
            "MIN",
            "STD",
            "STDDEV",
            "STDDEV_POP",
            "STDDEV_SAMP",
            "SUM",
            "VARIANCE",
            "VAR_POP",
            "VAR_SAMP",
        ];
        let within = |names: &[&str]| names.iter().any(|n| func.name.name.eq_ignore_ascii_case(n));
        match func.schema {
            None if within(WINDOW) => WindowUse::Required,
            None if within(AGGREGATE) => WindowUse::Allowed,
            _ => WindowUse::Refused,
        }
    }
}

/// Whether the numbers that MySQL's grammar restricts are literals or variables: those of NTILE,
/// LAG and LEAD.
fn is_stable(func: &Func<'_>) -> bool {
    let at = match func.name.name.to_ascii_uppercase().as_str() {
        "NTILE" => 0,
        "LAG" | "LEAD" => 1,
        _ => return true,
    };
    func.args.get(at).is_none_or(|number| {
        matches!(
            number.kind,
            ExprKind::Literal(Literal::Int(_) | Literal::Null)
                | ExprKind::Param(_)
                | ExprKind::UserVar(_)
        )
    })
}
