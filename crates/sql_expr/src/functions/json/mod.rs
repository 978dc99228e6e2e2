//! JSON functions (manual, "JSON Functions").
//!
//! A document argument is a JSON value, or text that is parsed; a value argument is converted to
//! JSON by its type: text becomes a string. Paths are `porpoise_types::json::Path`.
//!
//! CAST AS JSON and comparison with JSON are in [`crate::expr::json`].

pub mod cast;
pub mod make;
pub mod read;
pub mod schema;
pub mod search;
pub mod storage;
pub mod value;

use super::Call;
use crate::error::{Result, SqlError};
use crate::expr::Expr;
use crate::expr::json::{document, invalid, is_document_text, path, to_json, too_deep};
use porpoise_types::json::{Json, MAX_DEPTH, Path};
use porpoise_types::{Collation, ColumnType, Kind, Value, ValueRef};

/// Result type: JSON.
pub(super) fn json(_: &[Expr], _: Collation) -> ColumnType {
    ColumnType::json()
}

/// Result type: text of unlimited length, as JSON is.
pub(super) fn long_text(_: &[Expr], _: Collation) -> ColumnType {
    ColumnType::text(Kind::LongText, Collation::UTF8MB4_BIN)
}

/// Result type: 0 or 1.
pub(super) fn truth(_: &[Expr], _: Collation) -> ColumnType {
    let mut ty = ColumnType::bigint();
    ty.length = 1;
    ty
}

impl<'a> Call<'_, 'a> {
    /// A document argument; `None` for SQL NULL. `name` is the function's, for errors.
    pub(super) fn document(&self, at: usize, name: &str) -> Result<Option<Json>> {
        let (value, Some(ty)) = self.arg(at) else {
            return Ok(None);
        };
        document(value, ty, at + 1, &name.to_ascii_lowercase())
    }

    /// An argument as a JSON value; SQL NULL becomes JSON null.
    pub(super) fn json_value(&self, at: usize) -> Result<Json> {
        match self.arg(at) {
            (_, None) | (ValueRef::Null, _) => Ok(Json::Null),
            (value, Some(ty)) => to_json(value, ty),
        }
    }

    /// A path argument; `None` for NULL.
    pub(super) fn path(&self, at: usize) -> Result<Option<Path>> {
        let Some(text) = self.text(at)? else {
            return Ok(None);
        };
        path(text).map(Some)
    }

    /// A path argument that selects at most one value. Error 3149 for wildcards.
    pub(super) fn single_path(&self, at: usize) -> Result<Option<Path>> {
        match self.path(at)? {
            Some(path) if path.is_multiple() => {
                let text = "In this situation, path expressions may not contain the * and ** tokens or an array range.";
                Err(SqlError::new(3149, "42000", text))
            }
            path => Ok(path),
        }
    }

    /// Parses `'one'` (true) or `'all'`. Error 3154 for anything else.
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

    /// Returns a document as the result. Error 3157 if it is nested too deeply.
    pub(super) fn document_result(&self, document: &Json) -> Result<ValueRef<'a>> {
        if document.depth() > MAX_DEPTH + 1 {
            return Err(too_deep());
        }
        Ok(self.keep(&document.to_text()))
    }
}

/// Whether a function reads JSON documents, so that its texts are in UTF-8.
pub fn reads_documents(function: &str) -> bool {
    let name = function.to_ascii_uppercase();
    name.starts_with("JSON_") || name == "MEMBER OF"
}

/// Result of JSON_CONTAINS and similar functions.
pub(super) fn yes(b: bool) -> ValueRef<'static> {
    ValueRef::Int(i64::from(b))
}

/// A constant path expression.
pub fn path_literal(path: &[u8]) -> Expr {
    let chars = u32::try_from(path.len()).unwrap_or(u32::MAX);
    Expr::constant(
        Value::Bytes(path.to_vec()),
        ColumnType::varchar(chars, Collation::UTF8MB4_BIN),
    )
}
