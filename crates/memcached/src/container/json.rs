//! Rows as JSON objects: containers whose `value_format` is `json`.
//!
//! A member is named after its column. Reading returns every column of the container. Storing
//! accepts any subset: an omitted column keeps its value in an existing row and gets its default in
//! a new one. Unknown and duplicate names are refused. Key columns may be members; they must have
//! the key's value.
//!
//! | column | reads as | accepts |
//! |---|---|---|
//! | integers, YEAR, FLOAT, DOUBLE, DECIMAL | a number | numbers, strings, booleans |
//! | BIT | a number | numbers, booleans, strings of its bytes, with or without `base64:` |
//! | JSON | the document | any JSON value |
//! | BINARY, VARBINARY, BLOB | a string; bytes that are not UTF-8: `base64:` and their code | strings |
//! | all others | a string | strings, numbers, booleans |
//! | NULL | null | null |
//!
//! Invariants:
//! 1. Storing an object that was read changes nothing.
//! 2. Values are converted by [`crate::container::convert`]: a value that is too long, out of range
//!    or malformed is refused, never truncated.
//! 3. Members are skipped without recursion; a JSON column accepts at most 128 levels.

use crate::container::refused;
use porpoise_base::base64;
use porpoise_rows::{Result, RowRef};
use porpoise_types::{Charset, ColumnType, Kind, Value, ValueRef, write_text};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Prefix of bytes that are not UTF-8, encoded in base64.
const BASE64: &str = "base64:";

/// A member of an object: its name, and the JSON text of its value.
pub type Member<'a> = (Cow<'a, str>, &'a RawValue);

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<Member<'de>>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(
        self,
        mut map: A,
    ) -> std::result::Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some((name, value)) = map.next_entry::<Name<'de>, &'de RawValue>()? {
            members.push((name.0, value));
        }
        Ok(members)
    }
}

#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// Parses the members of an object, in order.
///
/// # Errors
/// The text is not a JSON object; the error names the mistake.
pub fn members(text: &[u8]) -> Result<Vec<Member<'_>>> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let read = reader.deserialize_map(Members).and_then(|members| {
        reader.end()?;
        Ok(members)
    });
    read.map_err(|e| refused(format!("The value is not a JSON object of columns: {e}")))
}

/// Returns a member's value for its column, before the conversion to the column's type.
///
/// # Errors
/// The column does not accept values of this kind.
pub fn member_value(column: &str, ty: &ColumnType, value: &RawValue) -> Result<Value> {
    let text = value.get();
    if text == "null" {
        return Ok(Value::Null);
    }
    if ty.kind == Kind::Json {
        return Ok(Value::Bytes(text.into()));
    }
    let wrong = || refused(format!("Column '{column}' cannot hold {text:.40}"));
    let binary = ty.is_string() && ty.collation.charset() == Charset::Binary;
    match text.as_bytes().first() {
        Some(b'"') => {
            let string: String = serde_json::from_str(text).map_err(|_| wrong())?;
            if (binary || ty.kind == Kind::Bit)
                && let Some(encoded) = string.strip_prefix(BASE64)
            {
                return base64::decode(encoded.as_bytes())
                    .map(Value::Bytes)
                    .ok_or_else(wrong);
            }
            let charset = ty.collation.charset();
            let (bytes, lost) = Charset::Utf8mb4.convert(charset, string.as_bytes());
            if lost {
                Err(wrong())
            } else {
                Ok(Value::Bytes(bytes.into_owned()))
            }
        }
        Some(b't') if !binary => Ok(Value::UInt(1)),
        Some(b'f') if !binary => Ok(Value::UInt(0)),
        Some(b'0'..=b'9') if ty.kind == Kind::Bit => {
            text.parse().map(Value::UInt).map_err(|_| wrong())
        }
        Some(b'-' | b'0'..=b'9') if !binary => Ok(Value::Bytes(text.into())),
        _ => Err(wrong()),
    }
}

/// Appends a row's columns as a JSON object.
pub fn append(row: &RowRef<'_>, columns: &[usize], out: &mut Vec<u8>) {
    let table = row.table();
    out.push(b'{');
    let mut first = true;
    for position in columns {
        let Some(column) = table.columns.get(*position) else {
            continue;
        };
        if !first {
            out.push(b',');
        }
        first = false;
        append_string(&column.name, out);
        out.push(b':');
        append_value(row.get(*position), &column.ty, out);
    }
    out.push(b'}');
}

fn append_value(value: ValueRef<'_>, ty: &ColumnType, out: &mut Vec<u8>) {
    match (ty.kind, value) {
        (_, ValueRef::Null) => out.extend_from_slice(b"null"),
        (Kind::Bit, ValueRef::UInt(bits)) => {
            out.extend_from_slice(bits.to_string().as_bytes());
        }
        (Kind::Json, ValueRef::Bytes(text)) => out.extend_from_slice(text),
        (Kind::Enum | Kind::Set, _) => append_text(value, ty, out),
        (Kind::Year, ValueRef::UInt(year)) => out.extend_from_slice(year.to_string().as_bytes()),
        (_, ValueRef::Int(n)) => out.extend_from_slice(n.to_string().as_bytes()),
        (_, ValueRef::UInt(n)) => out.extend_from_slice(n.to_string().as_bytes()),
        (_, ValueRef::Double(_) | ValueRef::Decimal(_)) => {
            // JSON numbers have no leading zeros.
            let plain = ColumnType {
                zerofill: false,
                ..ty.clone()
            };
            write_text(value, &plain, out);
        }
        (_, ValueRef::Bytes(bytes)) if ty.collation.charset() == Charset::Binary => {
            match std::str::from_utf8(bytes) {
                Ok(text) if !text.starts_with(BASE64) => append_string(text, out),
                _ => {
                    out.push(b'"');
                    out.extend_from_slice(BASE64.as_bytes());
                    base64::encode(bytes, out);
                    out.push(b'"');
                }
            }
        }
        _ => append_text(value, ty, out),
    }
}

fn append_text(value: ValueRef<'_>, ty: &ColumnType, out: &mut Vec<u8>) {
    let mut text = Vec::new();
    write_text(value, ty, &mut text);
    let charset = ty.collation.charset();
    let utf8 = match charset {
        Charset::Binary | Charset::Utf8mb4 => Cow::Borrowed(text.as_slice()),
        _ => charset.convert(Charset::Utf8mb4, &text).0,
    };
    append_string(&String::from_utf8_lossy(&utf8), out);
}

fn append_string(text: &str, out: &mut Vec<u8>) {
    let start = out.len();
    if serde_json::to_writer(&mut *out, text).is_err() {
        // Unreachable: writing a string to memory does not fail.
        out.truncate(start);
        out.extend_from_slice(b"\"\"");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_object_is_read_and_its_members_are_in_order() {
        let found = members(br#" {"a": 1.50, "b\u0041": null, "a": [1, {"x": 2}]} "#).unwrap();
        let texts: Vec<(&str, &str)> = found.iter().map(|(n, v)| (n.as_ref(), v.get())).collect();
        assert_eq!(
            texts,
            [("a", "1.50"), ("bA", "null"), ("a", "[1, {\"x\": 2}]")]
        );
        for bad in ["", "1", "[]", "{", "{\"a\":1}x", "{\"a\"}", "null"] {
            assert!(members(bad.as_bytes()).is_err(), "{bad}");
        }
        let deep = "[".repeat(1 << 20);
        assert!(members(format!("{{\"a\":{deep}").as_bytes()).is_err());
    }
}
