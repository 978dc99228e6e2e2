//! Executes JSON_TABLE: the rows that its paths find in a document.
//!
//! The tree of paths is walked depth first with one scratch row: a path fills its columns for each
//! value that it finds, its nested paths fill theirs one after the other, and what a path has
//! filled is NULL again when it is done. A row is collected at each leaf, and at each value at which
//! no nested path finds anything. The rows go to a temporary file once they exceed their share of
//! memory.

use super::query::cx_of;
use super::row_set::SpillingCollect;
use super::state::RowSet;
use super::{Exec, ExecResult, ResultSink};
use crate::bind::json_table::{JsonColumn, JsonColumnValue, JsonResponse, JsonRows, JsonTable};
use crate::error::Result;
use crate::expr::eval::{Env, eval};
use crate::expr::json::{document, not_stored, too_deep};
use crate::expr::types::is_temporal;
use bumpalo::Bump;
use porpoise_base::interrupt::{self, Pacer};
use porpoise_sql_expr::error::SqlError;
use porpoise_types::json::{Json, MAX_DEPTH, Path};
use porpoise_types::{CastCx, DateTime, JsonStoreError, Value, ValueRef, store_json_value};
use std::borrow::Cow;

/// Approximate memory of a parsed document, in relation to its text.
const TREE_TO_TEXT: u64 = 4;

/// The rows of a JSON_TABLE.
pub(super) fn rows(table: &JsonTable, exec: &Exec<'_>) -> ExecResult<RowSet> {
    let states = exec.shared.states;
    let arena = Bump::new();
    let cx = cx_of(exec, &arena);
    let value = eval(&table.document, &[], &cx)?;
    let tree = match value {
        ValueRef::Bytes(text) => (text.len() as u64).saturating_mul(TREE_TO_TEXT),
        _ => 0,
    };
    states.hold(tree)?;
    let Some(document) = document(value, &table.document.ty, 1, "json_table")? else {
        states.release(tree);
        return Ok(RowSet::default());
    };
    let mut walk = Walk {
        env: exec.env,
        row: vec![Value::Null; table.width],
        found: SpillingCollect::new(states),
        pacer: Pacer::new(),
    };
    walk.rows(&table.rows, &document)?;
    // A path that was abandoned has not found everything.
    interrupt::outcome()?;
    let rows = walk.found.finish()?;
    states.release(tree);
    Ok(rows)
}

/// The walk through the paths of a document.
struct Walk<'s> {
    env: &'s Env,
    /// The values of the row that is being made.
    row: Vec<Value>,
    found: SpillingCollect<'s>,
    pacer: Pacer,
}

impl Walk<'_> {
    /// Collects the rows of a path from a value. Returns whether there is one.
    fn rows(&mut self, rows: &JsonRows, from: &Json) -> Result<bool> {
        let found = rows.path.select(from);
        for (at, value) in found.iter().enumerate() {
            for column in &rows.columns {
                let filled = self.value(column, value, at)?;
                self.set(column, filled);
            }
            let mut nested = false;
            for inner in &rows.nested {
                nested |= self.rows(inner, value)?;
            }
            if !nested {
                let row: Vec<ValueRef<'_>> = self.row.iter().map(Value::as_ref).collect();
                self.pacer.tick_by(1 + row.len())?;
                self.found.row(&row)?;
            }
        }
        for column in &rows.columns {
            self.set(column, Value::Null);
        }
        Ok(!found.is_empty())
    }

    fn set(&mut self, column: &JsonColumn, value: Value) {
        if let Some(cell) = self.row.get_mut(column.position) {
            *cell = value;
        }
    }

    /// The value of a column in the row of `value`, which is at position `at` among those of its path.
    fn value(&mut self, column: &JsonColumn, value: &Json, at: usize) -> Result<Value> {
        self.pacer.tick()?;
        match &column.value {
            JsonColumnValue::Ordinality => Ok(Value::UInt(at as u64 + 1)),
            JsonColumnValue::Exists(path) => {
                let exists = Json::Int(i64::from(path.exists(value)));
                self.store(column, &exists).or_else(|error| {
                    respond(&JsonResponse::Null, || not_stored(error, &column.name))
                })
            }
            JsonColumnValue::AtPath {
                path,
                on_empty,
                on_error,
            } => {
                let Some(found) = at_path(path, value)? else {
                    return respond(on_empty, || {
                        let text = format!("Missing value for JSON_TABLE column '{}'", column.name);
                        SqlError::new(3665, "22035", text)
                    });
                };
                let stored = self.store(column, &found);
                stored.or_else(|error| respond(on_error, || not_stored(error, &column.name)))
            }
        }
    }

    fn store(
        &self,
        column: &JsonColumn,
        value: &Json,
    ) -> std::result::Result<Value, JsonStoreError> {
        let mut warn = |warning| self.env.warn(warning);
        let mut cx = CastCx {
            mode: self.env.mode,
            strict: true,
            warnings: &mut warn,
            tz: &self.env.time_zone,
            // Casts of a time to a date and time need the current date.
            now: if is_temporal(&column.ty) {
                self.env.now()
            } else {
                DateTime::ZERO
            },
        };
        store_json_value(value, &column.ty, &column.name, &mut cx)
    }
}

/// The value at a path; an array of them if there are several, `None` if there is none.
fn at_path<'j>(path: &Path, from: &'j Json) -> Result<Option<Cow<'j, Json>>> {
    if !path.is_multiple() {
        return Ok(path.select_single(from).map(Cow::Borrowed));
    }
    Ok(match path.select(from).as_slice() {
        [] => None,
        [one] => Some(Cow::Borrowed(*one)),
        several => {
            let array = Json::Array(several.iter().map(|v| (*v).clone()).collect());
            if array.depth() > MAX_DEPTH + 1 {
                return Err(too_deep());
            }
            Some(Cow::Owned(array))
        }
    })
}

/// The value of a response, which raises `error` if it is ERROR.
fn respond(response: &JsonResponse, error: impl FnOnce() -> SqlError) -> Result<Value> {
    match response {
        JsonResponse::Null => Ok(Value::Null),
        JsonResponse::Error => Err(error()),
        JsonResponse::Default(value) => Ok(value.clone()),
    }
}
