//! JSON_VALUE: a value of a document as a value of SQL.
//!
//! Arguments: document, path, response ON EMPTY, its default, response ON ERROR, its default. A
//! response is one of [`RESPOND_ERROR`] and [`RESPOND_DEFAULT`], or anything else for NULL. The
//! errors of ON ERROR are a text that is not a document, several values at the path, and a value that
//! the type cannot represent. A default that the type cannot represent is an error of every call.

use super::super::{Call, Function, Nullable};
use crate::error::{Result, SqlError};
use crate::expr::convert;
use porpoise_types::json::Json;
use porpoise_types::temporal::DateRules;
use porpoise_types::{Collation, ColumnType, DateTime, Kind, Level, ValueRef, Warning};

/// The response ERROR.
pub const RESPOND_ERROR: u64 = 1;
/// The response DEFAULT.
pub const RESPOND_DEFAULT: u64 = 2;

/// Position of the response ON EMPTY; its default follows.
const ON_EMPTY: usize = 2;
/// Position of the response ON ERROR; its default follows.
const ON_ERROR: usize = 4;

fn value<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    for at in [ON_EMPTY, ON_ERROR] {
        default_of(c, at)?;
    }
    let document = match c.document(0, "json_value") {
        Ok(Some(document)) => document,
        Ok(None) => return Ok(ValueRef::Null),
        Err(invalid) if invalid.code == 3141 => {
            let warning = Warning {
                level: Level::Warning,
                code: invalid.code,
                message: invalid.message.clone(),
            };
            let result = respond(c, ON_ERROR, invalid)?;
            c.cx.env.warn(warning);
            return Ok(result);
        }
        Err(other) => return Err(other),
    };
    let Some(path) = c.path(1)? else {
        return Ok(ValueRef::Null);
    };
    match path.select(&document).as_slice() {
        [] => {
            let text = "No value was found by 'json_value' on the specified path.";
            respond(c, ON_EMPTY, SqlError::new(3966, "22035", text))
        }
        [found] => match converted(c, found)? {
            Some(value) => Ok(value),
            None if c.ty.is_string() => respond(c, ON_ERROR, out_of_range("STRING")),
            None => respond(c, ON_ERROR, out_of_range(type_name(c.ty))),
        },
        _ => {
            let text = "More than one value was found by 'json_value' on the specified path.";
            respond(c, ON_ERROR, SqlError::new(3967, "22034", text))
        }
    }
}

/// Result of the response at an argument, which raises `error` if it is ERROR.
fn respond<'a>(c: &Call<'_, 'a>, at: usize, error: SqlError) -> Result<ValueRef<'a>> {
    let response = c.int(at)?.and_then(|r| u64::try_from(r).ok());
    match response {
        Some(RESPOND_ERROR) => Err(error),
        Some(RESPOND_DEFAULT) => default_of(c, at),
        _ => Ok(ValueRef::Null),
    }
}

/// The default of the response at an argument, if it has one.
///
/// # Errors
/// 1292 for a text that is not of the type, 1690 for a value that the type cannot represent, 3141 for
/// a text that is not a document.
fn default_of<'a>(c: &Call<'_, 'a>, at: usize) -> Result<ValueRef<'a>> {
    let has_default =
        matches!(c.arg(at).0, ValueRef::Int(n) if u64::try_from(n) == Ok(RESPOND_DEFAULT));
    let (value, Some(from)) = c.arg(at + 1) else {
        return Ok(ValueRef::Null);
    };
    if !has_default || value.is_null() {
        return Ok(ValueRef::Null);
    }
    if c.ty.kind == Kind::Json {
        return match c.document(at + 1, "json_value") {
            Ok(Some(document)) => c.document_result(&document),
            Ok(None) => Ok(ValueRef::Null),
            Err(invalid) if invalid.code == 3141 => {
                let number = format!("argument {}", at + 2);
                let text = invalid.message.replacen(&number, "argument 1", 1);
                Err(SqlError::new(3141, "22032", text))
            }
            Err(other) => Err(other),
        };
    }
    let is_date = matches!(c.ty.kind, Kind::Date | Kind::DateTime);
    if let (true, ValueRef::Bytes(text)) = (is_date, value)
        && DateTime::parse(text, DateRules::REAL).is_none()
    {
        return Err(unfit_default(c.ty, value));
    }
    let is_short_year = c.ty.kind == Kind::Year && matches!(value, ValueRef::Int(1..=99));
    if !is_short_year
        && !has_more_digits(value, c.ty)
        && let Some(converted) = exact_cast(c, value, from)?
    {
        return Ok(converted);
    }
    Err(unfit_default(c.ty, value))
}

/// Whether a date, time or decimal has more digits after the point than the type.
fn has_more_digits(value: ValueRef<'_>, ty: &ColumnType) -> bool {
    let decimal = |text: &[u8]| porpoise_types::Decimal::parse(text).ok();
    let micros = match (ty.kind, value) {
        (Kind::Decimal, ValueRef::Decimal(number)) => return number.scale() > ty.decimals,
        (Kind::Decimal, ValueRef::Bytes(text)) => {
            return decimal(text).is_some_and(|number| number.scale() > ty.decimals);
        }
        (Kind::DateTime, ValueRef::DateTime(moment)) => moment.micros(),
        (Kind::Time, ValueRef::Time(time)) => time.micros(),
        (Kind::DateTime | Kind::Time, ValueRef::Bytes(text)) => {
            let fraction = text.rsplit(|b| *b == b'.').next().unwrap_or_default();
            let digits = fraction.iter().take_while(|b| b.is_ascii_digit()).count();
            return text.contains(&b'.') && digits > usize::from(ty.decimals);
        }
        _ => return false,
    };
    micros % 10u32.pow(6 - u32::from(ty.decimals.min(6))) != 0
}

/// The error of a default that the type cannot represent.
fn unfit_default(ty: &ColumnType, value: ValueRef<'_>) -> SqlError {
    let incorrect = |what: &str, text: &[u8]| {
        let text = String::from_utf8_lossy(text);
        SqlError::new(1292, "22007", format!("{what} value: '{text}'"))
    };
    let is_number = |text: &[u8]| {
        let prefix = porpoise_types::double_prefix(text);
        prefix.read > 0 && prefix.read == text.len()
    };
    match (ty.kind, value) {
        (Kind::Year, ValueRef::Bytes(text)) if !is_number(text) => {
            incorrect("Truncated incorrect YEAR", text)
        }
        (Kind::Year, _) => out_of_range("YEAR"),
        (Kind::DateTime | Kind::Time, _) if has_more_digits(value, ty) => {
            out_of_range("TIME DEFAULT")
        }
        (Kind::Date | Kind::DateTime, ValueRef::Bytes(text)) => {
            incorrect("Incorrect datetime", text)
        }
        (Kind::Time, ValueRef::Bytes(text)) => incorrect("Truncated incorrect time", text),
        (Kind::BigInt, ValueRef::Bytes(text)) if !is_number(text) => incorrect(
            if ty.unsigned {
                "Truncated incorrect INTEGER UNSIGNED"
            } else {
                "Truncated incorrect INTEGER SIGNED"
            },
            text,
        ),
        (Kind::Float | Kind::Double, ValueRef::Bytes(text)) if !is_number(text) => {
            incorrect("Truncated incorrect DOUBLE", text)
        }
        (Kind::Decimal, ValueRef::Bytes(text)) if !is_number(text) => {
            incorrect("Truncated incorrect DECIMAL", text)
        }
        _ => out_of_range(&format!("{} DEFAULT", type_name(ty))),
    }
}

/// Error 1690.
fn out_of_range(what: &str) -> SqlError {
    let text = format!("{what} value is out of range in 'json_value'");
    SqlError::new(1690, "22003", text)
}

/// The type's name after RETURNING.
fn type_name(ty: &ColumnType) -> &'static str {
    match ty.kind {
        Kind::BigInt if ty.unsigned => "UNSIGNED",
        Kind::BigInt => "SIGNED",
        Kind::Float => "FLOAT",
        Kind::Double => "DOUBLE",
        Kind::Decimal => "DECIMAL",
        Kind::Date => "DATE",
        Kind::DateTime => "DATETIME",
        Kind::Time => "TIME",
        Kind::Year => "YEAR",
        Kind::Json => "JSON",
        _ => "CHAR",
    }
}

/// The found value in the type of the call; `None` if the type cannot represent it.
fn converted<'a>(c: &Call<'_, 'a>, found: &Json) -> Result<Option<ValueRef<'a>>> {
    let text = ColumnType::text(Kind::LongText, Collation::UTF8MB4_BIN);
    let characters = c.ty.is_string();
    let temporal = matches!(c.ty.kind, Kind::Date | Kind::DateTime | Kind::Time);
    match found {
        _ if c.ty.kind == Kind::Json => c.document_result(found).map(Some),
        Json::Null => Ok(Some(ValueRef::Null)),
        Json::String(s) => exact_cast(c, c.keep(s.as_bytes()), &text),
        other if characters => exact_cast(c, c.keep(&other.to_text()), &text),
        Json::Array(_) | Json::Object(_) => Ok(None),
        _ if temporal => Ok(None),
        // One or two digits are no year here: the century is not added.
        Json::Int(1..=99) if c.ty.kind == Kind::Year => Ok(None),
        Json::Bool(b) => exact_cast(c, ValueRef::Int(i64::from(*b)), &ColumnType::bigint()),
        Json::Int(v) => exact_cast(c, ValueRef::Int(*v), &ColumnType::bigint()),
        Json::UInt(v) => exact_cast(c, ValueRef::UInt(*v), &ColumnType::bigint_unsigned()),
        Json::Double(v) => exact_cast(c, ValueRef::Double(*v), &ColumnType::double()),
        Json::Decimal(_) => exact_cast(c, c.keep(&found.to_text()), &text),
    }
}

/// Whether a number, rounded, is a 64-bit integer of this signedness.
fn fits_integer(value: ValueRef<'_>, unsigned: bool) -> bool {
    const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
    match (value, unsigned) {
        (ValueRef::Int(v), true) => v >= 0,
        (ValueRef::UInt(v), false) => i64::try_from(v).is_ok(),
        (ValueRef::Decimal(v), true) => !v.is_negative(),
        (ValueRef::Double(v), true) => (0.0..2.0 * TWO_TO_63).contains(&v.round()),
        // -2^63 itself is an integer of a document; a double of that value was rounded from a smaller number.
        (ValueRef::Double(v), false) => v.round().abs() < TWO_TO_63,
        _ => true,
    }
}

/// The value in the type of the call; `None` if it does not fit, or if the conversion
/// raises a warning.
fn exact_cast<'a>(
    c: &Call<'_, 'a>,
    value: ValueRef<'a>,
    from: &ColumnType,
) -> Result<Option<ValueRef<'a>>> {
    if c.ty.kind == Kind::BigInt && !fits_integer(value, c.ty.unsigned) {
        return Ok(None);
    }
    let limited = matches!(
        c.ty.kind,
        Kind::Char | Kind::VarChar | Kind::Binary | Kind::VarBinary
    );
    if let (true, ValueRef::Bytes(text)) = (limited, value) {
        let chars = if c.ty.is_binary() {
            text.len()
        } else {
            String::from_utf8_lossy(text).chars().count()
        };
        if chars > c.ty.length as usize {
            return Ok(None);
        }
    }
    let env = c.cx.env;
    let (listed, dropped) = (env.warnings.borrow().len(), env.warnings_dropped.get());
    let converted = convert::cast(value, from, c.ty, c.cx)?;
    let mut warnings = env.warnings.borrow_mut();
    let is_finite = !matches!(converted, ValueRef::Double(v) if v.is_infinite());
    // A deprecated delimiter is not an error.
    let mut new = warnings.iter().skip(listed);
    let is_exact = new.all(|w| matches!(w.code, 4095 | 4096));
    if is_exact && is_finite && env.warnings_dropped.get() == dropped {
        return Ok(Some(converted));
    }
    warnings.truncate(listed);
    env.warnings_dropped.set(dropped);
    Ok(None)
}

/// The registry entries.
pub const FUNCTIONS: &[Function] = &[Function {
    name: "JSON_VALUE",
    args: (2, 6),
    constant: true,
    nullable: Nullable::Always,
    ty: |_, _| ColumnType::varchar(512, Collation::UTF8MB4_0900_BIN),
    run: value,
    doc: "The value at a path, as a value of SQL.",
    example: (
        "JSON_VALUE('{\"a\": \"7\"}', '$.a' RETURNING SIGNED) + 1",
        "8",
    ),
}];
