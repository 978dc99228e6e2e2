//! Literals: their values and natural types (manual, "Literal Values").

use super::nodes::cast_to;
use crate::error::{Result, SqlError};
use crate::expr::convert::is_bits;
use crate::expr::{Coercibility, Expr, ExprKind};
use crate::parse::ast::{Literal, TemporalKind};
use porpoise_types::cast::delimiter_warning;
use porpoise_types::temporal::DateRules;
use porpoise_types::temporal::delimiter::{self, DeprecatedDelimiter};
use porpoise_types::{
    Charset, Collation, ColumnType, Date, DateTime, Decimal, Kind, Level, SqlMode, Time, Value,
    ValueRef, Warning,
};

/// A string literal that is compared with a DATE or DATETIME, and therefore must be a valid one.
#[derive(Clone, Debug)]
pub struct DateTextLiteral {
    /// The literal, or a parameter.
    pub expr: Expr,
    /// Whether the other operand is a DATE.
    pub is_date: bool,
    /// Whether the other operand is a column: the literal is converted once for all rows.
    pub is_for_column: bool,
}

impl DateTextLiteral {
    /// The literal among the operands of a comparison, if there is one.
    pub(super) fn among(a: &Expr, b: &Expr) -> Option<DateTextLiteral> {
        let literal = |e: &Expr, other: &Expr| {
            let dated = matches!(other.ty.kind, Kind::Date | Kind::DateTime | Kind::Timestamp);
            let is_text = e.is_literal() && e.ty.is_string() && !is_bits(&e.ty);
            (dated && is_text).then(|| DateTextLiteral {
                expr: e.clone(),
                is_date: other.ty.kind == Kind::Date,
                is_for_column: matches!(other.kind, ExprKind::Column { .. }),
            })
        };
        literal(a, b).or_else(|| literal(b, a))
    }

    /// Checks the literal's value. Returns a warning for a deprecated delimiter.
    ///
    /// # Errors
    /// 1525 for a text that is no date.
    pub fn check(&self, params: &[ValueRef<'_>], mode: SqlMode) -> Result<Option<Warning>> {
        let value = match &self.expr.kind {
            ExprKind::Const(value) => value.as_ref(),
            ExprKind::Param(at) => params.get(*at).copied().unwrap_or(ValueRef::Null),
            _ => ValueRef::Null,
        };
        let ValueRef::Bytes(text) = value else {
            return Ok(None);
        };
        if DateTime::parse(text, DateRules::of(mode)).is_none() {
            let what = if self.is_date { "DATE" } else { "DATETIME" };
            return Err(incorrect(what, text));
        }
        let found = delimiter::of_date(text).filter(|_| self.is_for_column);
        Ok(found.map(|found| {
            let (code, message) = delimiter_warning(found, text, 1);
            Warning {
                level: Level::Warning,
                code,
                message,
            }
        }))
    }
}

/// Binds a literal.
pub fn literal(lit: &Literal<'_>, connection: Collation, mode: SqlMode) -> Result<Expr> {
    Ok(match lit {
        Literal::Null => Expr::null(),
        Literal::Bool(b) => boolean(*b),
        Literal::Int(n) => integer(*n),
        Literal::Decimal(text) => decimal(text),
        Literal::Float(text) => {
            let value: f64 = text.parse().unwrap_or(f64::INFINITY);
            if !value.is_finite() {
                let message = format!("Illegal double '{text}' value found during parsing");
                return Err(SqlError::new(1367, "22007", message));
            }
            Expr::constant(Value::Double(value), ColumnType::double())
        }
        // The statement's text is in UTF-8, a literal in the connection's character set.
        Literal::String(bytes) => match connection.charset() {
            Charset::Utf8mb4 | Charset::Binary => string(bytes, connection),
            other => string(&Charset::Utf8mb4.convert(other, bytes).0, connection),
        },
        Literal::Introduced(s) => introduced(s.charset, s.bytes)?,
        Literal::Hex(bytes) | Literal::Bit(bytes) => {
            let mut e = string(bytes, Collation::BINARY);
            e.ty.unsigned = true;
            e
        }
        Literal::Date(text) => date(text, mode)?,
        Literal::Time(text) => time(text)?,
        Literal::Timestamp(text) => timestamp(text, mode)?,
        Literal::Odbc(kind, text) => {
            let temporal = match kind {
                TemporalKind::Date => date(text, mode),
                TemporalKind::Time => time(text),
                TemporalKind::DateTime => timestamp(text, mode),
            };
            match temporal {
                Ok(temporal) => temporal,
                Err(_) => literal(&Literal::String(text), connection, mode)?,
            }
        }
    })
}

fn boolean(b: bool) -> Expr {
    let mut ty = ColumnType::bigint();
    ty.length = 1;
    Expr::constant(Value::Int(i64::from(b)), ty)
}

/// An unsigned integer literal; its type is signed if the value fits.
pub fn integer(n: u64) -> Expr {
    match i64::try_from(n) {
        Ok(v) => Expr::constant(Value::Int(v), ColumnType::bigint()),
        Err(_) => Expr::constant(Value::UInt(n), ColumnType::bigint_unsigned()),
    }
}

fn decimal(text: &str) -> Expr {
    let value = Decimal::parse_literal(text.as_bytes());
    let precision = value.precision().max(value.scale()).clamp(1, 65);
    let ty = ColumnType::decimal(precision, value.scale());
    Expr::constant(Value::Decimal(value), ty)
}

/// A string literal; the length of its type is that of its text.
pub fn string(bytes: &[u8], collation: Collation) -> Expr {
    let chars = collation.charset().char_count(bytes);
    let length = u32::try_from(chars).unwrap_or(u32::MAX);
    let ty = if collation == Collation::BINARY {
        ColumnType::varbinary(length)
    } else {
        ColumnType::varchar(length, collation)
    };
    Expr::constant(Value::Bytes(bytes.to_vec()), ty)
}

fn introduced(charset: &str, bytes: &[u8]) -> Result<Expr> {
    let unknown = || {
        let text = format!("Unknown character set: '{charset}'");
        SqlError::new(1115, "42000", text)
    };
    let charset = Charset::by_name(charset).ok_or_else(unknown)?;
    let (text, invalid) = charset.decoded(bytes);
    if let Some(at) = invalid {
        let shown = bytes.iter().skip(at).take(3).map(|b| format!("{b:02X}"));
        let text = format!(
            "Invalid {} character string: '{}'",
            charset.name(),
            shown.collect::<String>()
        );
        return Err(SqlError::new(1300, "HY000", text));
    }
    Ok(string(&text, charset.default_collation()))
}

fn incorrect(kind: &str, text: &[u8]) -> SqlError {
    let text = String::from_utf8_lossy(text);
    SqlError::new(1525, "HY000", format!("Incorrect {kind} value: '{text}'"))
}

/// The first deprecated delimiter in a temporal literal, and the literal's text.
pub(super) fn deprecated_delimiter<'l>(
    lit: &Literal<'l>,
) -> Option<(DeprecatedDelimiter, &'l [u8])> {
    match lit {
        Literal::Date(text) | Literal::Timestamp(text) => Some((delimiter::of_date(text)?, text)),
        Literal::Time(text) => Some((delimiter::of_time(text)?, text)),
        _ => None,
    }
}

fn date(text: &[u8], mode: SqlMode) -> Result<Expr> {
    let value = Date::of_literal(text, DateRules::of(mode));
    let value = value.ok_or_else(|| incorrect("DATE", text))?;
    Ok(temporal(Value::Date(value), ColumnType::date()))
}

/// Number of fractional digits in the type of a literal that is written with `digits`.
fn fsp(digits: usize) -> u8 {
    u8::try_from(digits.min(6)).unwrap_or(6)
}

fn time(text: &[u8]) -> Result<Expr> {
    let (value, digits) = Time::of_literal(text).ok_or_else(|| incorrect("TIME", text))?;
    Ok(temporal(Value::Time(value), ColumnType::time(fsp(digits))))
}

fn timestamp(text: &[u8], mode: SqlMode) -> Result<Expr> {
    let parsed = DateTime::of_literal(text, DateRules::of(mode));
    let parsed = parsed.ok_or_else(|| incorrect("DATETIME", text))?;
    let ty = ColumnType::datetime(fsp(parsed.fraction_digits));
    if parsed.offset.is_some() {
        // The value depends on the session's time zone.
        return Ok(cast_to(string(text, Collation::UTF8MB4_GENERAL_CI), ty));
    }
    Ok(temporal(Value::DateTime(parsed.value), ty))
}

fn temporal(value: Value, ty: ColumnType) -> Expr {
    Expr {
        kind: ExprKind::Const(value),
        ty,
        nullable: false,
        coercibility: Coercibility::Numeric,
    }
}
