//! JSON values in expressions: conversion of SQL values, CAST AS JSON, comparison with JSON.

use super::convert;
use super::eval::EvalCx;
use crate::error::{Result, SqlError};
use porpoise_base::base64;
use porpoise_types::json::{self, Json, Path};
use porpoise_types::{Charset, Collation, ColumnType, JsonStoreError, Kind, ValueRef};

/// Error 3141, or 3157 if the document is nested too deeply.
pub fn invalid(error: json::ParseError, argument: usize, name: &str) -> SqlError {
    if error.too_deep() {
        return too_deep();
    }
    let text = format!("Invalid JSON text in argument {argument} to function {name}: {error}.");
    SqlError::new(3141, "22032", text)
}

/// Error 3157: nesting too deep.
pub fn too_deep() -> SqlError {
    SqlError::new(
        3157,
        "22032",
        "The JSON document exceeds the maximum depth.",
    )
}

/// Text converted to UTF-8. Error 3144 for binary strings.
pub fn utf8<'a>(text: &'a [u8], ty: &ColumnType) -> Result<std::borrow::Cow<'a, [u8]>> {
    if ty.collation == Collation::BINARY {
        let text = "Cannot create a JSON value from a string with CHARACTER SET 'binary'.";
        return Err(SqlError::new(3144, "22032", text));
    }
    Ok(convert::recode(text, ty, Charset::Utf8mb4))
}

/// Whether text of this type is parsed as a JSON document.
pub fn is_document_text(ty: &ColumnType) -> bool {
    ty.is_string() || ty.is_binary() || ty.is_blob() || matches!(ty.kind, Kind::Enum | Kind::Set)
}

/// The document of an argument; `None` for NULL. `argument` is its number and `name` the function's, for
/// errors.
///
/// # Errors
/// 3141 for text that is not JSON, 3144 for text without a character set, 3146 for a value of another type.
pub fn document(
    value: ValueRef<'_>,
    ty: &ColumnType,
    argument: usize,
    name: &str,
) -> Result<Option<Json>> {
    let parsed = match value {
        ValueRef::Null => return Ok(None),
        ValueRef::Bytes(text) if ty.kind == Kind::Json => json::parse(text),
        ValueRef::Bytes(text) if is_document_text(ty) => json::parse(&utf8(text, ty)?),
        _ => {
            let text = format!(
                "Invalid data type for JSON data in argument {argument} to function {name}; a JSON string or JSON type is required."
            );
            return Err(SqlError::new(3146, "22032", text));
        }
    };
    parsed.map(Some).map_err(|e| invalid(e, argument, name))
}

/// Parses a path.
///
/// # Errors
/// 3143 for text that is not a path.
pub fn path(text: &[u8]) -> Result<Path> {
    Path::parse(text).map_err(|position| {
        let text = format!(
            "Invalid JSON path expression. The error is around character position {position}."
        );
        SqlError::new(3143, "42000", text)
    })
}

/// The error of a value that a column of JSON_TABLE cannot take.
pub fn not_stored(error: JsonStoreError, column: &str) -> SqlError {
    match error {
        JsonStoreError::NotScalar => {
            let text = format!(
                "Can't store an array or an object in the scalar JSON_TABLE column '{column}'"
            );
            SqlError::new(3666, "2203F", text)
        }
        JsonStoreError::Invalid(ty) => {
            let text = format!("Invalid JSON value for CAST to {ty} from column {column} at row 1");
            SqlError::new(3156, "22018", text)
        }
        JsonStoreError::OutOfRange => {
            let text = format!("Value is out of range for JSON_TABLE's column '{column}'");
            SqlError::new(3669, "22003", text)
        }
    }
}

/// A binary value, which MySQL prints in base 64 with the number of its column type. Documents are
/// stored as text, so it is a string from then on.
fn opaque(bytes: &[u8], ty: &ColumnType) -> Json {
    let number = match ty.kind {
        Kind::Bit => 16,
        Kind::Binary => 254,
        Kind::TinyBlob => 249,
        Kind::MediumBlob => 250,
        Kind::LongBlob => 251,
        Kind::Blob => 252,
        _ => 15,
    };
    let mut text = format!("base64:type{number}:").into_bytes();
    base64::encode(bytes, &mut text);
    Json::String(String::from_utf8_lossy(&text).into_owned())
}

/// Converts a value to JSON by its type: text becomes a string, not a document.
///
/// # Errors
/// 3144 for text without a character set.
pub fn to_json(v: ValueRef<'_>, ty: &ColumnType) -> Result<Json> {
    Ok(match v {
        ValueRef::Null => Json::Null,
        ValueRef::Int(v) if ty.length == 1 && ty.kind == Kind::BigInt => Json::Bool(v != 0),
        ValueRef::Int(v) => Json::Int(v),
        ValueRef::UInt(v) if ty.kind == Kind::Bit => {
            let bytes = v.to_be_bytes();
            let used = (ty.length as usize).div_ceil(8).clamp(1, bytes.len());
            opaque(bytes.get(bytes.len() - used..).unwrap_or_default(), ty)
        }
        ValueRef::UInt(v) => i64::try_from(v).map_or(Json::UInt(v), Json::Int),
        ValueRef::Double(v) => Json::Double(v),
        ValueRef::Decimal(v) => Json::Decimal(v),
        ValueRef::Bytes(text) if ty.kind == Kind::Json => match json::parse(text) {
            Ok(document) => document,
            Err(_) => return Err(SqlError::internal("a JSON value that is not valid JSON")),
        },
        ValueRef::Bytes(bytes) if ty.collation == Collation::BINARY => opaque(bytes, ty),
        ValueRef::Bytes(text) => {
            let text = utf8(text, ty)?;
            Json::String(String::from_utf8_lossy(&text).into_owned())
        }
        ValueRef::Date(_) => Json::String(text_of(v, &ColumnType::date())),
        ValueRef::DateTime(_) => Json::String(text_of(v, &ColumnType::datetime(6))),
        ValueRef::Time(_) => Json::String(text_of(v, &ColumnType::time(6))),
    })
}

fn text_of(v: ValueRef<'_>, ty: &ColumnType) -> String {
    let mut out = Vec::with_capacity(32);
    porpoise_types::write_text(v, ty, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// CAST(v AS JSON): text is parsed, a member of ENUM or SET is a string, and bytes are printed in
/// base 64.
///
/// # Errors
/// 3141 for text that is not JSON.
pub fn cast<'a>(v: ValueRef<'a>, from: &ColumnType, cx: &EvalCx<'a>) -> Result<ValueRef<'a>> {
    let document = match v {
        ValueRef::Null => return Ok(v),
        ValueRef::Bytes(_) if from.kind == Kind::Json => return Ok(v),
        ValueRef::Bytes(bytes) if from.collation == Collation::BINARY => opaque(bytes, from),
        ValueRef::Bytes(_) if matches!(from.kind, Kind::Enum | Kind::Set) => to_json(v, from)?,
        ValueRef::Bytes(text) if is_document_text(from) => {
            json::parse(&utf8(text, from)?).map_err(|e| invalid(e, 1, "cast_as_json"))?
        }
        _ => to_json(v, from)?,
    };
    Ok(ValueRef::Bytes(
        cx.arena.alloc_slice_copy(&document.to_text()),
    ))
}

/// Compares two values of which one is JSON.
///
/// # Errors
/// As [`to_json`].
pub fn order(
    a: (ValueRef<'_>, &ColumnType),
    b: (ValueRef<'_>, &ColumnType),
) -> Result<std::cmp::Ordering> {
    let (a, b) = (to_json(a.0, a.1)?, to_json(b.0, b.1)?);
    Ok(json::order(&a, &b))
}
