//! JSON functions (manual, "JSON Functions").
//!
//! An argument that is a document is a JSON value, or text that is parsed;
//! one that is a value becomes JSON by its type: text becomes a string. Paths
//! are those of `porpoise_types::json::Path`.
//!
//! Beside the files of this directory stands what SQL needs of JSON outside of
//! functions: CAST AS JSON, comparison with JSON, MEMBER OF, JSON_VALUE.

pub mod make;
pub mod read;
pub mod search;

use super::Call;
use crate::error::{Result, SqlError};
use crate::expr::Expr;
use crate::expr::convert;
use crate::expr::eval::EvalCx;
use porpoise_types::json::{self, Json, MAX_DEPTH, Path};
use porpoise_types::{Charset, Collation, ColumnType, Kind, Value, ValueRef};

/// Result type: JSON.
pub(super) fn json(_: &[Expr], _: Collation) -> ColumnType {
    ColumnType::json()
}

/// Result type: text of any length, as JSON's is.
pub(super) fn long_text(_: &[Expr], _: Collation) -> ColumnType {
    ColumnType::text(Kind::LongText, Collation::UTF8MB4_BIN)
}

/// Result type: 0 or 1.
pub(super) fn truth(_: &[Expr], _: Collation) -> ColumnType {
    let mut ty = ColumnType::bigint();
    ty.length = 1;
    ty
}

/// 3141, or 3157 where the document is only too deep.
fn invalid(error: json::ParseError, argument: usize, name: &str) -> SqlError {
    if error.too_deep() {
        return too_deep();
    }
    let text = format!("Invalid JSON text in argument {argument} to function {name}: {error}.");
    SqlError::new(3141, "22032", text)
}

/// 3157.
pub fn too_deep() -> SqlError {
    SqlError::new(
        3157,
        "22032",
        "The JSON document exceeds the maximum depth.",
    )
}

/// Text in UTF-8; 3144 where it is of no character set.
fn utf8<'a>(text: &'a [u8], ty: &ColumnType) -> Result<std::borrow::Cow<'a, [u8]>> {
    if ty.collation == Collation::BINARY {
        let text = "Cannot create a JSON value from a string with CHARACTER SET 'binary'.";
        return Err(SqlError::new(3144, "22032", text));
    }
    Ok(convert::recoded(text, ty, Charset::Utf8mb4))
}

/// Whether text of this type is a document when it is parsed.
fn is_document_text(ty: &ColumnType) -> bool {
    ty.is_string() || ty.is_binary() || ty.is_blob() || matches!(ty.kind, Kind::Enum | Kind::Set)
}

/// A value as JSON, by its type: text becomes a string, not a document.
///
/// # Errors
/// 3144 for text without a character set.
pub fn to_json(v: ValueRef<'_>, ty: &ColumnType) -> Result<Json> {
    Ok(match v {
        ValueRef::Null => Json::Null,
        ValueRef::Int(v) if ty.length == 1 && ty.kind == Kind::BigInt => Json::Bool(v != 0),
        ValueRef::Int(v) => Json::Int(v),
        ValueRef::UInt(v) => i64::try_from(v).map_or(Json::UInt(v), Json::Int),
        ValueRef::Double(v) => Json::Double(v),
        ValueRef::Decimal(v) => Json::Decimal(v),
        ValueRef::Bytes(text) if ty.kind == Kind::Json => match json::parse(text) {
            Ok(document) => document,
            Err(_) => return Err(SqlError::internal("a JSON value that is no JSON")),
        },
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

/// CAST(v AS JSON): text is parsed.
///
/// # Errors
/// 3141 for text that is no JSON.
pub fn cast<'a>(v: ValueRef<'a>, from: &ColumnType, cx: &EvalCx<'a>) -> Result<ValueRef<'a>> {
    let document = match v {
        ValueRef::Null => return Ok(v),
        ValueRef::Bytes(_) if from.kind == Kind::Json => return Ok(v),
        ValueRef::Bytes(text) if is_document_text(from) => {
            json::parse(&utf8(text, from)?).map_err(|e| invalid(e, 1, "cast_as_json"))?
        }
        _ => to_json(v, from)?,
    };
    Ok(ValueRef::Bytes(
        cx.arena.alloc_slice_copy(&document.to_text()),
    ))
}

/// The order of two values of which one is JSON.
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

impl<'a> Call<'_, 'a> {
    /// An argument that is a document; None for SQL's NULL. `name` is the function's.
    pub(super) fn document(&self, at: usize, name: &str) -> Result<Option<Json>> {
        let (value, ty) = self.arg(at);
        let (false, Some(ty)) = (value.is_null(), ty) else {
            return Ok(None);
        };
        match value {
            ValueRef::Bytes(text) if ty.kind == Kind::Json => match json::parse(text) {
                Ok(document) => Ok(Some(document)),
                Err(e) => Err(invalid(e, at + 1, &name.to_ascii_lowercase())),
            },
            ValueRef::Bytes(text) if is_document_text(ty) => json::parse(&utf8(text, ty)?)
                .map(Some)
                .map_err(|e| invalid(e, at + 1, &name.to_ascii_lowercase())),
            _ => {
                let text = format!(
                    "Invalid data type for JSON data in argument {} to function {}; a JSON string or JSON type is required.",
                    at + 1,
                    name.to_ascii_lowercase()
                );
                Err(SqlError::new(3146, "22032", text))
            }
        }
    }

    /// An argument as a JSON value; SQL's NULL is JSON's.
    pub(super) fn json_value(&self, at: usize) -> Result<Json> {
        match self.arg(at) {
            (_, None) | (ValueRef::Null, _) => Ok(Json::Null),
            (value, Some(ty)) => to_json(value, ty),
        }
    }

    /// An argument that is a path; None for NULL.
    pub(super) fn path(&self, at: usize) -> Result<Option<Path>> {
        let Some(text) = self.text(at)? else {
            return Ok(None);
        };
        let parsed = Path::parse(text).map_err(|position| {
            let text = format!(
                "Invalid JSON path expression. The error is around character position {position}."
            );
            SqlError::new(3143, "42000", text)
        });
        parsed.map(Some)
    }

    /// A path that selects at most one value: 3149 for wildcards.
    pub(super) fn single_path(&self, at: usize) -> Result<Option<Path>> {
        match self.path(at)? {
            Some(path) if path.is_multiple() => {
                let text = "In this situation, path expressions may not contain the * and ** tokens or an array range.";
                Err(SqlError::new(3149, "42000", text))
            }
            path => Ok(path),
        }
    }

    /// `'one'` (true) or `'all'`; 3154 for anything else.
    pub(super) fn one_or_all(&self, at: usize, name: &str) -> Result<Option<bool>> {
        let Some(text) = self.text(at)? else {
            return Ok(None);
        };
        match text {
            _ if text.eq_ignore_ascii_case(b"one") => Ok(Some(true)),
            _ if text.eq_ignore_ascii_case(b"all") => Ok(Some(false)),
            _ => {
                let text = format!(
                    "The oneOrAll argument to {} may take these values: 'one' or 'all'.",
                    name.to_ascii_lowercase()
                );
                Err(SqlError::new(3154, "42000", text))
            }
        }
    }

    /// A document as a result; 3157 where it has become too deep.
    pub(super) fn give(&self, document: &Json) -> Result<ValueRef<'a>> {
        if document.depth() > MAX_DEPTH + 1 {
            return Err(too_deep());
        }
        Ok(self.keep(&document.to_text()))
    }
}

/// The truth value of a JSON_CONTAINS and the like.
pub(super) fn yes(b: bool) -> ValueRef<'static> {
    ValueRef::Int(i64::from(b))
}

/// A constant path as an expression.
pub fn path_literal(path: &[u8]) -> Expr {
    let chars = u32::try_from(path.len()).unwrap_or(u32::MAX);
    Expr::constant(
        Value::Bytes(path.to_vec()),
        ColumnType::varchar(chars, Collation::UTF8MB4_BIN),
    )
}
