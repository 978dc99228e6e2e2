//! Binding of calls with their own syntax: JSON operators, REGEXP, CHAR, TIMESTAMPADD and
//! TIMESTAMPDIFF, GET_FORMAT, WEIGHT_STRING, DEFAULT.

use super::literal;
use super::nodes::{cast_to, cast_type, charset_named, negated, unit_of};
use super::{Binder, Source};
use crate::error::{Result, SqlError};
use crate::expr::{Expr, ExprKind, Unit};
use crate::functions::json::path_literal;
use crate::functions::json::value::{RESPOND_DEFAULT, RESPOND_ERROR};
use crate::functions::text_of;
use crate::parse::ast::{self, IntervalUnit};
use porpoise_rows::ddl::implicit_default;
use porpoise_rows::definition::ColumnDefault;
use porpoise_types::{Charset, Collation, ColumnType, Kind, Value};

/// A literal text.
pub fn text_literal(text: &str) -> Expr {
    let chars = u32::try_from(text.len()).unwrap_or(u32::MAX);
    Expr::constant(
        Value::Bytes(text.as_bytes().to_vec()),
        ColumnType::varchar(chars, Collation::UTF8MB4_GENERAL_CI),
    )
}

/// A whole number.
fn int_literal(value: i64) -> Expr {
    Expr::constant(Value::Int(value), ColumnType::bigint())
}

impl Binder<'_> {
    /// Binds an expression that has its own syntax. Error 1235 for unsupported ones.
    pub(super) fn special(&mut self, kind: &ast::ExprKind<'_>) -> Result<Expr> {
        use ast::ExprKind as A;
        match kind {
            A::Regexp(r) => {
                let args = vec![self.expr(&r.expr)?, self.expr(&r.pattern)?];
                let found = self.call("REGEXP_LIKE", args)?;
                Ok(negated(found, r.not))
            }
            A::JsonPath(path) => {
                let column = self.column(path.column)?;
                let found = self.call("JSON_EXTRACT", vec![column, path_literal(path.path)])?;
                if path.unquote {
                    self.call("JSON_UNQUOTE", vec![found])
                } else {
                    Ok(found)
                }
            }
            A::MemberOf(m) => {
                let args = vec![self.expr(&m.expr)?, self.expr(&m.array)?];
                self.call("MEMBER OF", args)
            }
            A::JsonValue(value) => self.json_value(value),
            A::CharUsing(char) => {
                let args = self.list(char.args)?;
                let charset = charset_named(char.charset.name)?;
                let chars = u32::try_from(args.len())
                    .unwrap_or(u32::MAX)
                    .saturating_mul(4);
                if charset.is_kept_as_utf8() {
                    return self.chars_of_units(args, charset.default_collation());
                }
                let bytes = self.call("CHAR", args)?;
                Ok(match charset {
                    Charset::Binary => bytes,
                    _ => cast_to(bytes, text_of(chars, charset.default_collation())),
                })
            }
            A::WeightString(w) => {
                let mut arg = self.expr(&w.expr)?;
                let mut limits = w.limits.unwrap_or_default();
                match w.length {
                    Some(length) if w.binary => {
                        let length = u32::try_from(length).unwrap_or(u32::MAX);
                        arg = cast_to(arg, ColumnType::binary(length));
                    }
                    Some(length) => limits = [0, length, 0],
                    None => {}
                }
                let limits = limits.map(|n| int_literal(i64::try_from(n).unwrap_or(i64::MAX)));
                let args = std::iter::once(arg).chain(limits).collect();
                self.call("WEIGHT_STRING", args)
            }
            A::TimestampArith(t) => self.timestamp_arith(t),
            A::GetFormat(kind, region) => {
                let kind = match kind {
                    ast::TemporalKind::Date => "DATE",
                    ast::TemporalKind::Time => "TIME",
                    ast::TemporalKind::DateTime => "DATETIME",
                };
                let region = self.expr(region)?;
                self.call("GET FORMAT", vec![text_literal(kind), region])
            }
            A::DefaultOf(name) => self.default_of(name),
            A::Match(found) => self.text_match(found),
            _ => Err(SqlError::not_supported("this expression")),
        }
    }

    /// CHAR(... USING a character set of more than one byte a unit): each argument gives whole units.
    fn chars_of_units(&mut self, args: Vec<Expr>, collation: Collation) -> Result<Expr> {
        let chars = |arg: Expr| {
            let bytes = self.call("CHAR", vec![arg])?;
            Ok(cast_to(bytes, text_of(4, collation)))
        };
        let chars: Vec<Expr> = args.into_iter().map(chars).collect::<Result<_>>()?;
        self.call("CONCAT", chars)
    }

    /// DEFAULT(col): the default of a stored column (manual, "Miscellaneous Functions"). The default
    /// CURRENT_TIMESTAMP of a column that is NOT NULL gives the zero date. Error 1364 if the column has no default,
    /// 3773 if its default is an expression.
    fn default_of(&mut self, name: &ast::ColumnName<'_>) -> Result<Expr> {
        let named = self.column(name)?;
        let (source, position) = match named.kind {
            ExprKind::Column { slot, column, .. } => (self.scope.sources.get(slot), column),
            ExprKind::Outer {
                level,
                slot,
                column,
                ..
            } => (self.enclosing_source(level, slot), column),
            _ => return Err(SqlError::unknown_column(name.name.name, self.clause)),
        };
        let table = source.and_then(Source::table);
        let column = table.and_then(|table| table.columns.get(position));
        let without = || {
            let text = format!("Field '{}' doesn't have a default value", name.name.name);
            SqlError::new(1364, "HY000", text)
        };
        let column = column.ok_or_else(without)?;
        let value = match &column.default {
            ColumnDefault::Literal(value) => value.clone(),
            ColumnDefault::Expr(_) => {
                let text = "DEFAULT function cannot be used with default value expressions";
                return Err(SqlError::new(3773, "HY000", text));
            }
            ColumnDefault::None if column.auto_increment || column.ty.kind == Kind::Enum => {
                implicit_default(&column.ty)
            }
            ColumnDefault::Now if !column.nullable => implicit_default(&column.ty),
            ColumnDefault::None if column.generated.is_none() => return Err(without()),
            ColumnDefault::None | ColumnDefault::Null | ColumnDefault::Now => Value::Null,
        };
        self.call("DEFAULT OF", vec![Expr::constant(value, column.ty.clone())])
    }

    fn json_value(&mut self, value: &ast::JsonValue<'_>) -> Result<Expr> {
        let mut args = vec![self.expr(&value.doc)?, path_literal(value.path)];
        for response in [value.on_empty, value.on_error] {
            let (code, default) = match response {
                None | Some(ast::JsonOnResponse::Null) => (0, Expr::null()),
                Some(ast::JsonOnResponse::Error) => (RESPOND_ERROR, Expr::null()),
                Some(ast::JsonOnResponse::Default(default)) => {
                    let default = literal::literal(&default, self.env.collation, self.env.mode)?;
                    (RESPOND_DEFAULT, default)
                }
            };
            args.extend([literal::integer(code), default]);
        }
        let mut call = self.call("JSON_VALUE", args)?;
        if let Some(ty) = &value.returning {
            // A RETURNING clause without a character set has that of JSON documents.
            let collation = Collation::UTF8MB4_0900_BIN;
            call.ty = cast_type(ty, &call, collation)?;
        }
        Ok(call)
    }

    fn timestamp_arith(&mut self, t: &ast::TimestampArith<'_>) -> Result<Expr> {
        let unit = unit_of(t.unit);
        if !t.diff {
            return self.interval(&t.b, &t.a, unit, false);
        }
        let (a, b) = (self.expr(&t.a)?, self.expr(&t.b)?);
        self.call(
            "TIMESTAMP DIFF",
            vec![text_literal(unit_name(t.unit)?), a, b],
        )
    }
}

/// The name of a TIMESTAMPDIFF unit; only simple units are allowed.
fn unit_name(unit: IntervalUnit) -> Result<&'static str> {
    Ok(match unit_of(unit) {
        Unit::Microsecond => "MICROSECOND",
        Unit::Second => "SECOND",
        Unit::Minute => "MINUTE",
        Unit::Hour => "HOUR",
        Unit::Day => "DAY",
        Unit::Week => "WEEK",
        Unit::Month => "MONTH",
        Unit::Quarter => "QUARTER",
        Unit::Year => "YEAR",
        _ => return Err(SqlError::wrong_arguments("TIMESTAMPDIFF")),
    })
}
