//! JSON_TABLE: the rows and columns that it makes of a document (manual, "JSON Table Functions").
//!
//! The columns of a path and those of its nested paths form a tree:
//!
//! ```text
//! JSON_TABLE(doc, '$[*]' COLUMNS (id FOR ORDINALITY,            rows '$[*]'   id
//!   NESTED PATH '$.a[*]' COLUMNS (x INT PATH '$'),                rows '$.a[*]'  x
//!   NESTED PATH '$.b[*]' COLUMNS (y INT PATH '$')))               rows '$.b[*]'  y
//! ```
//!
//! A row of the result is a chain from the root to a leaf: columns beside it are NULL, and so are
//! those below a value at which no nested path finds anything.
//!
//! Invariant: a default is converted to the type of its column when the statement is planned.

use super::column_types::column_type;
use super::{BindEnv, ScopeColumn};
use crate::error::{Result, SqlError};
use crate::expr::Expr;
use crate::expr::json::{not_stored, path};
use crate::parse::ast::{self, DataType, Ident, JsonOnResponse, JsonTableColumn, Literal};
use porpoise_types::json::{self, Path};
use porpoise_types::{
    CastCx, ColumnType, DateTime, JsonStoreError, TimeZone, Value, store_json_value,
};

/// A JSON_TABLE.
#[derive(Clone, Debug)]
pub struct JsonTable {
    /// The document.
    pub document: Expr,
    /// The rows made of it.
    pub rows: JsonRows,
    /// Number of columns.
    pub width: usize,
}

/// The rows of a path: one for each value found.
#[derive(Clone, Debug)]
pub struct JsonRows {
    /// The path, from the value of the rows around these.
    pub path: Path,
    /// Columns of these rows.
    pub columns: Vec<JsonColumn>,
    /// Nested paths, whose rows follow each other.
    pub nested: Vec<JsonRows>,
}

/// A column of JSON_TABLE.
#[derive(Clone, Debug)]
pub struct JsonColumn {
    /// Its position in the result.
    pub position: usize,
    /// Its name, for errors.
    pub name: String,
    /// Its type.
    pub ty: ColumnType,
    /// The origin of its value.
    pub value: JsonColumnValue,
}

/// The origin of a column's value.
#[derive(Clone, Debug)]
pub enum JsonColumnValue {
    /// The number of the row among those of its path.
    Ordinality,
    /// Whether the path finds anything.
    Exists(Path),
    /// The value that the path finds.
    AtPath {
        /// The path.
        path: Path,
        /// The response if it finds nothing.
        on_empty: JsonResponse,
        /// The response if the column cannot take what it finds.
        on_error: JsonResponse,
    },
}

/// The response ON EMPTY or ON ERROR.
#[derive(Clone, Debug)]
pub enum JsonResponse {
    /// NULL.
    Null,
    /// An error.
    Error,
    /// A default in the column's type.
    Default(Value),
}

/// Maximum number of nested paths of a JSON_TABLE (MySQL's limit).
const MAX_NESTED_PATHS: usize = 16;

/// Binds the rows and columns of a JSON_TABLE.
///
/// # Errors
/// 3143 for a wrong path, 3670 for too many nested paths, 1067 and 3669 for defaults that a column
/// cannot take, 1166 for wrong names, and errors of types.
pub fn bind_columns(
    table: &ast::JsonTable<'_>,
    env: &BindEnv,
) -> Result<(JsonRows, Vec<ScopeColumn>)> {
    let mut binder = ColumnBinder {
        env,
        alias: table.alias.name,
        columns: Vec::new(),
        nested: 0,
    };
    let rows = binder.rows(table.path, table.columns)?;
    Ok((rows, binder.columns))
}

struct ColumnBinder<'a> {
    env: &'a BindEnv,
    alias: &'a str,
    columns: Vec<ScopeColumn>,
    /// Number of nested paths so far.
    nested: usize,
}

impl ColumnBinder<'_> {
    fn rows(&mut self, own: &[u8], defined: &[JsonTableColumn<'_>]) -> Result<JsonRows> {
        super::check_stack()?;
        let mut rows = JsonRows {
            path: path(own)?,
            columns: Vec::new(),
            nested: Vec::new(),
        };
        for column in defined {
            match column {
                JsonTableColumn::Ordinality(name) => {
                    let ty = ColumnType::bigint_unsigned();
                    rows.columns
                        .push(self.column(*name, ty, JsonColumnValue::Ordinality)?);
                }
                JsonTableColumn::Path {
                    name,
                    ty,
                    exists,
                    path: own,
                    on_empty,
                    on_error,
                } => {
                    let ty = self.column_type(ty, name.name)?;
                    let own = path(own)?;
                    let value = if *exists {
                        JsonColumnValue::Exists(own)
                    } else {
                        JsonColumnValue::AtPath {
                            path: own,
                            on_empty: self.response(*on_empty, name.name, &ty)?,
                            on_error: self.response(*on_error, name.name, &ty)?,
                        }
                    };
                    rows.columns.push(self.column(*name, ty, value)?);
                }
                JsonTableColumn::Nested { path, columns } => {
                    self.nested += 1;
                    if self.nested > MAX_NESTED_PATHS {
                        let text = format!(
                            "More than supported {MAX_NESTED_PATHS} NESTED PATHs were found in JSON_TABLE '{}'",
                            self.alias
                        );
                        return Err(SqlError::new(3670, "42000", text));
                    }
                    rows.nested.push(self.rows(path, columns)?);
                }
            }
        }
        Ok(rows)
    }

    fn column(
        &mut self,
        name: Ident<'_>,
        ty: ColumnType,
        value: JsonColumnValue,
    ) -> Result<JsonColumn> {
        let name = name.name.to_owned();
        if name.is_empty() || name.ends_with(' ') {
            let text = format!("Incorrect column name '{name}'");
            return Err(SqlError::new(1166, "42000", text));
        }
        let position = self.columns.len();
        self.columns.push(ScopeColumn {
            name: name.clone(),
            ty: ty.clone(),
            nullable: true,
        });
        Ok(JsonColumn {
            position,
            name,
            ty,
            value,
        })
    }

    fn column_type(&self, ty: &DataType<'_>, name: &str) -> Result<ColumnType> {
        let of_charset = |charset: porpoise_types::Charset| charset.default_collation();
        let env = self.env;
        Ok(column_type(ty, name, env.collation, env.mode, &of_charset)?.ty)
    }

    fn response(
        &self,
        response: Option<JsonOnResponse<'_>>,
        column: &str,
        ty: &ColumnType,
    ) -> Result<JsonResponse> {
        let default = match response {
            None | Some(JsonOnResponse::Null) => return Ok(JsonResponse::Null),
            Some(JsonOnResponse::Error) => return Ok(JsonResponse::Error),
            Some(JsonOnResponse::Default(default)) => default,
        };
        let text = match &default {
            Literal::String(text) => *text,
            Literal::Introduced(text) => text.bytes,
            _ => {
                let what = "non-string DEFAULT value for a column in a JSON_TABLE expression";
                return Err(SqlError::not_supported(what));
            }
        };
        let invalid = || {
            let text = format!("Invalid default value for '{column}'");
            SqlError::new(1067, "42000", text)
        };
        let value = json::parse(text).map_err(|_| invalid())?;
        let mut cx = CastCx {
            mode: self.env.mode,
            strict: true,
            warnings: &mut |_| {},
            tz: &TimeZone::UTC,
            now: DateTime::ZERO,
        };
        match store_json_value(&value, ty, column, &mut cx) {
            Ok(value) => Ok(JsonResponse::Default(value)),
            Err(JsonStoreError::NotScalar) => Err(invalid()),
            Err(_) => Err(not_stored(JsonStoreError::OutOfRange, column)),
        }
    }
}
