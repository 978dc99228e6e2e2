//! Values of columns as JSON, exactly.
//!
//! | type | JSON |
//! |---|---|
//! | TINYINT to INT, YEAR | number |
//! | BIGINT, BIT | string of digits: JSON numbers beyond 2^53 are not exact in many programs |
//! | DECIMAL | string, with all digits of its scale |
//! | FLOAT, DOUBLE | number with the digits that identify it |
//! | DATE, DATETIME, TIMESTAMP (in UTC), TIME | string, as MySQL writes it |
//! | strings of characters, ENUM, SET | string |
//! | BINARY to LONGBLOB | string in base64 |
//! | JSON | string that contains the JSON text |
//!
//! The encoding depends on the column's type only. A request may send any of these as a string; it may
//! also send numbers for numbers (whose digits are taken as they stand for a DECIMAL), true and
//! false for 1 and 0, and an object or array for a JSON column. A value is then stored as by an INSERT
//! in strict mode.

use super::problem::Problem;
use porpoise_base::base64;
use porpoise_rows::Error;
use porpoise_rows::catalog::Column;
use porpoise_types::{ColumnType, Kind, Value, ValueRef, write_text};
use porpoise_wire::native::value::Encoding;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// Appends a text, quoted.
pub(super) fn put_string(out: &mut Vec<u8>, text: &str) {
    // Writing a text into a vector does not fail.
    let _ = serde_json::to_writer(out, text);
}

/// Appends a value of a type.
pub(super) fn put_value(out: &mut Vec<u8>, value: ValueRef<'_>, ty: &ColumnType) {
    match (ty.kind, value) {
        (_, ValueRef::Null) => out.extend_from_slice(b"null"),
        (Kind::BigInt, ValueRef::Int(v)) => put_digits(out, &v),
        (Kind::BigInt | Kind::Bit, ValueRef::UInt(v)) => put_digits(out, &v),
        (Kind::Bit, ValueRef::Bytes(bytes)) => {
            let number = bytes.iter().fold(0u64, |n, b| n << 8 | u64::from(*b));
            put_digits(out, &number);
        }
        (kind, ValueRef::Int(v)) if is_number(kind) => {
            out.extend_from_slice(v.to_string().as_bytes())
        }
        (kind, ValueRef::UInt(v)) if is_number(kind) => {
            out.extend_from_slice(v.to_string().as_bytes());
        }
        (Kind::Float, ValueRef::Double(v)) if v.is_finite() => {
            let _ = serde_json::to_writer(out, &(v as f32));
        }
        (_, ValueRef::Double(v)) if v.is_finite() => {
            let _ = serde_json::to_writer(out, &v);
        }
        (_, ValueRef::Bytes(bytes)) if ty.is_binary() => {
            out.push(b'"');
            base64::encode(bytes, out);
            out.push(b'"');
        }
        _ => {
            let mut text = Vec::new();
            write_text(value, ty, &mut text);
            put_string(out, &String::from_utf8_lossy(&text));
        }
    }
}

fn put_digits(out: &mut Vec<u8>, number: &dyn fmt::Display) {
    out.extend_from_slice(format!("\"{number}\"").as_bytes());
}

/// Whether values are JSON numbers.
fn is_number(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::TinyInt | Kind::SmallInt | Kind::MediumInt | Kind::Int | Kind::Year
    )
}

/// A value of a request.
#[derive(Debug)]
pub(super) enum Json<'a> {
    Null,
    Bool(bool),
    /// A number, as it was written.
    Number(&'a str),
    Text(String),
    /// An array or object, as it was written.
    Structure(&'a str),
}

impl<'a> Json<'a> {
    /// Classifies a value that is known to be JSON.
    ///
    /// # Errors
    /// A string whose escapes are not Unicode text.
    pub(super) fn of(raw: &'a RawValue) -> Result<Json<'a>, Problem> {
        let text = raw.get().trim();
        Ok(match text.as_bytes().first() {
            Some(b'n') => Json::Null,
            Some(b't') => Json::Bool(true),
            Some(b'f') => Json::Bool(false),
            Some(b'"') => {
                let text = serde_json::from_str(text);
                Json::Text(text.map_err(|_| Problem::malformed("A string is not Unicode text"))?)
            }
            Some(b'[' | b'{') => Json::Structure(text),
            _ => Json::Number(text),
        })
    }
}

/// An object of a request: its members in their order.
#[derive(Debug, Default)]
pub(super) struct Members(pub(super) Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of columns and values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

fn incorrect(kind: &str, shown: &str, column: &Column) -> Problem {
    let shown: String = shown.chars().take(64).collect();
    let name = &column.name;
    let text = format!("Incorrect {kind} value: '{shown}' for column '{name}' at row 1");
    Problem::mysql(1366, "HY000", text)
}

/// Converts a value of a request for a column: to what the native protocol's encoding of the column
/// has. Text stays UTF-8.
///
/// # Errors
/// The value does not fit the column, with MySQL's number.
pub(super) fn column_value(column: &Column, json: &Json<'_>) -> Result<(Encoding, Value), Problem> {
    let ty = &column.ty;
    let encoding = Encoding::of(ty);
    let is_text = encoding == Encoding::Bytes;
    let value = match json {
        Json::Null => Value::Null,
        Json::Text(text) if ty.is_binary() => {
            let bytes = base64::decode(text.as_bytes());
            Value::Bytes(bytes.ok_or_else(|| incorrect("base64", text, column))?)
        }
        Json::Text(text) if is_text => Value::Bytes(text.clone().into_bytes()),
        Json::Text(text) if ty.kind == Kind::Bit => {
            let number = text.parse::<u64>();
            let number = number.map_err(|_| incorrect("integer", text, column))?;
            stored(column, ValueRef::UInt(number))?
        }
        Json::Text(text) => stored(column, ValueRef::Bytes(text.as_bytes()))?,
        Json::Structure(text) if ty.kind == Kind::Json => Value::Bytes(text.as_bytes().to_vec()),
        Json::Structure(text) => return Err(incorrect("JSON", text, column)),
        Json::Number(number) if ty.is_binary() => {
            return Err(incorrect("base64", number, column));
        }
        Json::Number(number) if is_text => Value::Bytes(number.as_bytes().to_vec()),
        Json::Number(number) if ty.kind == Kind::Decimal => {
            stored(column, ValueRef::Bytes(number.as_bytes()))?
        }
        Json::Number(number) => {
            let number = number_of(number).ok_or_else(|| incorrect("number", number, column))?;
            stored(column, number)?
        }
        Json::Bool(truth) if is_text => Value::Bytes(u8::from(*truth).to_string().into_bytes()),
        Json::Bool(truth) => stored(column, ValueRef::Int(i64::from(*truth)))?,
    };
    Ok((encoding, value))
}

fn stored(column: &Column, value: ValueRef<'_>) -> Result<Value, Error> {
    porpoise_native::stored_value(column, value)
}

/// A JSON number; `None` beyond the range of a DOUBLE.
pub(super) fn number_of(text: &str) -> Option<ValueRef<'static>> {
    if let Ok(number) = text.parse::<i64>() {
        return Some(ValueRef::Int(number));
    }
    if let Ok(number) = text.parse::<u64>() {
        return Some(ValueRef::UInt(number));
    }
    let number: f64 = text.parse().ok()?;
    number.is_finite().then_some(ValueRef::Double(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(value: ValueRef<'_>, ty: &ColumnType) -> String {
        let mut out = Vec::new();
        put_value(&mut out, value, ty);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_have_the_encoding_of_their_type() {
        let cases = [
            (ValueRef::Null, ColumnType::bigint(), "null"),
            (ValueRef::Int(-7), ColumnType::int(Kind::Int), "-7"),
            (ValueRef::Int(-7), ColumnType::bigint(), "\"-7\""),
            (
                ValueRef::UInt(u64::MAX),
                ColumnType::bigint_unsigned(),
                "\"18446744073709551615\"",
            ),
            (ValueRef::UInt(5), ColumnType::bit(8), "\"5\""),
            (
                ValueRef::Double(f64::from(0.1f32)),
                ColumnType::float(),
                "0.1",
            ),
            (ValueRef::Double(0.1), ColumnType::double(), "0.1"),
            (
                ValueRef::Bytes(b"\0\xff"),
                ColumnType::varbinary(9),
                "\"AP8=\"",
            ),
            (
                ValueRef::Bytes(b"1.50"),
                ColumnType::decimal(9, 2),
                "\"1.50\"",
            ),
            (
                ValueRef::Bytes(b"{\"a\": 1}"),
                ColumnType::json(),
                "\"{\\\"a\\\": 1}\"",
            ),
        ];
        for (value, ty, wanted) in cases {
            assert_eq!(shown(value, &ty), wanted, "{ty:?}");
        }
    }

    #[test]
    fn numbers_are_classified_by_their_text() {
        assert_eq!(
            number_of("-9223372036854775808"),
            Some(ValueRef::Int(i64::MIN))
        );
        assert_eq!(
            number_of("18446744073709551615"),
            Some(ValueRef::UInt(u64::MAX))
        );
        assert_eq!(number_of("1.5e3"), Some(ValueRef::Double(1500.0)));
        assert_eq!(number_of("1e999"), None);
    }
}
