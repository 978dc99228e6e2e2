//! Arrays of multi-valued indexes (manual, "CREATE INDEX Statement", Multi-Valued Indexes):
//! `CAST(... AS type ARRAY)`, and the index keys that MEMBER OF and similar tests look up.
//!
//! Invariants:
//! 1. The conversion of an element depends on no setting of a session, so that rows and look-ups
//!    agree on it.
//! 2. Equal JSON values have equal keys, or [`keys`] returns all of their keys, or it returns NULL
//!    (unknown). The test is evaluated again on the rows found, as a comparison of JSON, so a key
//!    that different values share only finds rows that are then rejected.

use super::ArrayTestKind;
use super::eval::EvalCx;
use super::json::{document, to_json};
use crate::error::{Result, SqlError};
use porpoise_types::array::{ArrayBuilder, ArrayTooBig};
use porpoise_types::json::Json;
use porpoise_types::{
    CastCx, ColumnType, DateTime, JsonStoreError, Kind, SqlMode, TimeZone, Value, ValueRef,
    store_json_value,
};
use std::slice;

/// 2^53: below it, each whole double equals exactly one integer.
const EXACT_DOUBLES: f64 = 9_007_199_254_740_992.0;

/// Error codes of elements; the writer of the row adds the name of the index.
fn refused(code: u16, state: &str, text: impl Into<String>) -> SqlError {
    SqlError::new(code, state, text.into())
}

/// The encoded array of a document's elements, converted to a type; a scalar is an array of one.
///
/// # Errors
/// 3903 for JSON null and texts that are not numbers, 3908 for nested values, 1235 for other
/// documents, 3751 for invalid dates, 3752, 3904 and 3907 for values outside of the type's range,
/// 3905 and 3906 for too many.
pub fn cast<'a>(
    value: ValueRef<'_>,
    from: &ColumnType,
    element: &ColumnType,
    cx: &EvalCx<'a>,
) -> Result<ValueRef<'a>> {
    let Some(document) = document(value, from, 1, "cast_as_array")? else {
        return Ok(ValueRef::Null);
    };
    let unsupported = |kind: &str| {
        let text = format!("CAST-ing JSON {kind} type to array");
        Err(SqlError::not_supported(&text))
    };
    let items = match &document {
        Json::Array(items) => items.as_slice(),
        Json::Object(_) => return unsupported("OBJECT"),
        Json::Bool(_) => return unsupported("BOOLEAN"),
        scalar => slice::from_ref(scalar),
    };
    let mut array = ArrayBuilder::default();
    for item in items {
        cx.env.tick()?;
        let stored = converted(item, element).map_err(|e| element_error(e, item, element))?;
        array.push(stored.as_ref(), element);
    }
    let encoded = array.encode().map_err(|e| match e {
        ArrayTooBig::Elements(over) => refused(3905, "HY000", over.to_string()),
        ArrayTooBig::Bytes(over) => refused(3906, "HY000", over.to_string()),
    })?;
    Ok(ValueRef::Bytes(cx.arena.alloc_slice_copy(&encoded)))
}

/// Converts an element in the same way in every session.
fn converted(item: &Json, element: &ColumnType) -> std::result::Result<Value, JsonStoreError> {
    if *item == Json::Null {
        return Err(JsonStoreError::Invalid("NULL"));
    }
    let mut ignored = |_| ();
    let mut cast = CastCx {
        mode: SqlMode::EMPTY,
        strict: true,
        warnings: &mut ignored,
        tz: &TimeZone::UTC,
        now: DateTime::ZERO,
    };
    store_json_value(item, element, "", &mut cast)
}

fn element_error(error: JsonStoreError, item: &Json, element: &ColumnType) -> SqlError {
    let temporal = matches!(element.kind, Kind::Date | Kind::Time | Kind::DateTime);
    match error {
        JsonStoreError::NotScalar => refused(3908, "HY000", ""),
        JsonStoreError::Invalid(_) if temporal && *item != Json::Null => refused(3751, "01000", ""),
        JsonStoreError::Invalid(_) => refused(3903, "22018", ""),
        JsonStoreError::OutOfRange if element.is_string() => refused(3907, "22001", ""),
        JsonStoreError::OutOfRange if matches!(item, Json::Double(_)) && element.is_integer() => {
            refused(3904, "22003", "")
        }
        JsonStoreError::OutOfRange => refused(3752, "22003", ""),
    }
}

/// Encodes the keys to look up for a test with this operand: every array that passes the test
/// contains at least one of them. NULL if they are not known.
///
/// # Errors
/// A cancelled statement.
pub fn keys<'a>(
    kind: ArrayTestKind,
    value: ValueRef<'_>,
    ty: &ColumnType,
    element: &ColumnType,
    cx: &EvalCx<'a>,
) -> Result<ValueRef<'a>> {
    if value.is_null() {
        // The test is unknown.
        return Ok(ValueRef::Bytes(&[]));
    }
    let operand = match kind {
        ArrayTestKind::Member => to_json(value, ty).ok(),
        ArrayTestKind::Contains | ArrayTestKind::Overlaps => {
            document(value, ty, 2, "").ok().flatten()
        }
    };
    let Some(operand) = operand else {
        return Ok(ValueRef::Null);
    };
    let mut array = ArrayBuilder::default();
    let known = match (kind, &operand) {
        (ArrayTestKind::Contains, Json::Array(items)) => {
            // The array must contain all elements, so looking up any of them finds the rows.
            items
                .iter()
                .any(|item| add_keys(item, element, &mut array).is_some())
        }
        (ArrayTestKind::Overlaps, Json::Array(items)) => {
            let mut items = items.iter().filter(|item| **item != Json::Null);
            let mut known = true;
            while known && let Some(item) = items.next() {
                cx.env.tick()?;
                known = add_keys(item, element, &mut array).is_some();
            }
            known
        }
        (_, scalar) => add_keys(scalar, element, &mut array).is_some(),
    };
    Ok(match array.encode() {
        Ok(encoded) if known => ValueRef::Bytes(cx.arena.alloc_slice_copy(&encoded)),
        _ => ValueRef::Null,
    })
}

/// Adds the keys of all elements that equal a value; `None` if they are not known.
fn add_keys(value: &Json, element: &ColumnType, array: &mut ArrayBuilder) -> Option<()> {
    let double = match value {
        Json::Null | Json::Array(_) | Json::Object(_) => return None,
        // A number is stored as one of several texts.
        Json::String(_) => None,
        _ if element.is_string() => return None,
        Json::Double(v) if v.abs() >= EXACT_DOUBLES => return None,
        Json::Bool(_) | Json::Double(_) => None,
        Json::Int(v) => Some(*v as f64),
        Json::UInt(v) => Some(*v as f64),
        Json::Decimal(v) => Some(v.to_f64()),
    };
    let stored = converted(value, element).ok()?;
    array.push(stored.as_ref(), element);
    // A double that is near equals it, too.
    let near = double.and_then(|v| converted(&Json::Double(v), element).ok());
    if let Some(near) = near {
        array.push(near.as_ref(), element);
    }
    Some(())
}
