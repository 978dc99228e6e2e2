//! Assignment of a JSON value to a column, as the columns of JSON_TABLE need it.
//!
//! It is stricter than the assignment of text: a string becomes a number only as a whole, and only
//! a string becomes a date or a time. A value that does not fit is an error in every SQL mode.

use super::number::{double_prefix, only_spaces_from};
use super::{CastCx, store};
use crate::collation::Collation;
use crate::column_type::{ColumnType, Kind};
use crate::error::{ER_DATA_TOO_LONG, ER_WARN_DATA_OUT_OF_RANGE};
use crate::json::Json;
use crate::text::write_text;
use crate::value::{Value, ValueRef};

/// A JSON value that a column cannot take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonStoreError {
    /// An array or an object for a column of another type than JSON.
    NotScalar,
    /// A value that is none of the type, whose name in error 3156 is given.
    Invalid(&'static str),
    /// A value outside of the range or the length of the type.
    OutOfRange,
}

/// Converts a JSON value to the SQL value of a column: a member of ENUM is text, a TIMESTAMP is in
/// the session's time zone. JSON null becomes NULL, except in a column of type JSON.
///
/// # Errors
/// See [`JsonStoreError`].
pub fn store_json_value(
    value: &Json,
    target: &ColumnType,
    column: &str,
    cx: &mut CastCx<'_>,
) -> Result<Value, JsonStoreError> {
    let cx = &mut CastCx {
        mode: cx.mode,
        strict: true,
        warnings: &mut *cx.warnings,
        tz: cx.tz,
        now: cx.now,
    };
    let text = ColumnType::text(Kind::LongText, Collation::UTF8MB4_BIN);
    match (target.kind, value) {
        (Kind::Json, value) => Ok(Value::Bytes(value.to_text())),
        (_, Json::Array(_) | Json::Object(_)) => Err(JsonStoreError::NotScalar),
        (_, Json::Null) => Ok(Value::Null),
        (Kind::Date | Kind::Time | Kind::DateTime | Kind::Timestamp, value) => {
            let invalid = JsonStoreError::Invalid("DATE/TIME/DATETIME/TIMESTAMP");
            let Json::String(moment) = value else {
                return Err(invalid);
            };
            let zoned = target.kind == Kind::Timestamp;
            let local = zoned.then(|| ColumnType::datetime(target.decimals));
            let moment = ValueRef::Bytes(moment.as_bytes());
            let target = local.as_ref().unwrap_or(target);
            store(moment, Some(&text), target, column, 1, cx).map_err(|_| invalid)
        }
        (Kind::Decimal, Json::String(number)) => {
            let number = ValueRef::Bytes(number.as_bytes());
            let stored = store(number, Some(&text), target, column, 1, cx);
            stored.map_err(|e| match e.code {
                ER_WARN_DATA_OUT_OF_RANGE => JsonStoreError::OutOfRange,
                _ => JsonStoreError::Invalid("DECIMAL"),
            })
        }
        _ if target.is_numeric() => {
            let number = number_of(value, target)?;
            let stored = store(number, None, target, column, 1, cx);
            stored.map_err(|_| JsonStoreError::OutOfRange)
        }
        _ => store_text(value, target, column, cx),
    }
}

/// The number that a scalar is for a numeric column.
fn number_of(value: &Json, target: &ColumnType) -> Result<ValueRef<'static>, JsonStoreError> {
    let real = matches!(target.kind, Kind::Float | Kind::Double);
    Ok(match value {
        Json::Bool(b) => ValueRef::Int(i64::from(*b)),
        Json::Int(v) => ValueRef::Int(*v),
        Json::UInt(v) => ValueRef::UInt(*v),
        Json::Double(v) => ValueRef::Double(*v),
        Json::Decimal(v) => ValueRef::Decimal(*v),
        Json::String(text) if real => {
            let prefix = double_prefix(text.as_bytes());
            if prefix.overflow {
                return Err(JsonStoreError::OutOfRange);
            }
            if prefix.read == 0 || !only_spaces_from(text.as_bytes(), prefix.read) {
                return Err(JsonStoreError::Invalid("DOUBLE"));
            }
            ValueRef::Double(prefix.value)
        }
        Json::String(text) => whole_number(text)?,
        _ => ValueRef::Null,
    })
}

/// A text that consists of an integer, and of spaces around it.
fn whole_number(text: &str) -> Result<ValueRef<'static>, JsonStoreError> {
    let text = text.trim_matches(' ');
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(JsonStoreError::Invalid("INTEGER"));
    }
    if let Ok(v) = text.parse() {
        return Ok(ValueRef::Int(v));
    }
    let unsigned = text.parse().map(ValueRef::UInt);
    unsigned.map_err(|_| JsonStoreError::OutOfRange)
}

fn store_text(
    value: &Json,
    target: &ColumnType,
    column: &str,
    cx: &mut CastCx<'_>,
) -> Result<Value, JsonStoreError> {
    let source = ColumnType::text(Kind::LongText, Collation::UTF8MB4_BIN);
    let printed;
    let text = match value {
        Json::String(text) => text.as_bytes(),
        other => {
            printed = other.to_text();
            &printed
        }
    };
    let stored = store(ValueRef::Bytes(text), Some(&source), target, column, 1, cx);
    let stored = stored.map_err(|e| match e.code {
        ER_DATA_TOO_LONG => JsonStoreError::OutOfRange,
        _ => JsonStoreError::Invalid("CHAR"),
    })?;
    if matches!(target.kind, Kind::Enum | Kind::Set) {
        let mut text = Vec::new();
        write_text(stored.as_ref(), target, &mut text);
        return Ok(Value::Bytes(text));
    }
    Ok(stored)
}
