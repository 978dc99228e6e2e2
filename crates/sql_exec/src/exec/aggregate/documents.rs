//! JSON_ARRAYAGG and JSON_OBJECTAGG: documents built from a group's rows (manual, "Aggregate
//! Function Descriptions"). SQL NULL becomes JSON null; of members with the same name the last
//! row's wins.

use crate::bind::Aggregate;
use crate::error::{Result, SqlError};
use crate::exec::ExecResult;
use crate::exec::state::States;
use crate::expr::Expr;
use crate::expr::convert;
use crate::expr::json::{to_json, too_deep};
use porpoise_types::json::{Json, MAX_DEPTH, Object};
use porpoise_types::{Charset, Value, ValueRef, cast};

/// Approximate memory of a document's value, without its text.
const VALUE_SIZE: u64 = 48;

/// State of a JSON aggregate.
#[derive(Clone)]
pub(in crate::exec) enum Document {
    /// The array's text so far, without the closing bracket.
    Array(Vec<u8>),
    /// The members so far, in the order of rows; empty texts where there was no row.
    Object(Vec<(String, Json)>),
}

impl Document {
    /// Adds a row's values: one for an array; name and value for an object.
    ///
    /// # Errors
    /// 3158 for a name that is NULL, 3157 where the document becomes too deep, 3144 for
    /// binary text.
    pub(super) fn add(
        &mut self,
        aggregate: &Aggregate,
        values: &[ValueRef<'_>],
        states: &States,
    ) -> ExecResult<()> {
        let mut pairs = aggregate.args.iter().zip(values);
        match self {
            Document::Array(text) => {
                let Some((arg, value)) = pairs.next() else {
                    return Ok(());
                };
                let item = item(*value, arg)?.to_text();
                states.hold(item.len() as u64 + 2)?;
                text.extend_from_slice(if text.is_empty() { b"[" } else { b", " });
                text.extend_from_slice(&item);
            }
            Document::Object(members) => {
                let (Some(name), Some((arg, value))) = (pairs.next(), pairs.next()) else {
                    return Ok(());
                };
                let name = member_name(*name.1, name.0)?;
                let value = item(*value, arg)?;
                let size = name.len() as u64 + value.to_text().len() as u64;
                states.hold(size + VALUE_SIZE)?;
                members.push((name, value));
            }
        }
        Ok(())
    }

    /// Returns the document, or NULL if there were no rows.
    pub(super) fn finish(self) -> Value {
        match self {
            Document::Array(text) if text.is_empty() => Value::Null,
            Document::Array(mut text) => {
                text.push(b']');
                Value::Bytes(text)
            }
            Document::Object(members) if members.is_empty() => Value::Null,
            Document::Object(members) => {
                Value::Bytes(Json::Object(Object::from_members(members)).to_text())
            }
        }
    }
}

fn item(value: ValueRef<'_>, arg: &Expr) -> Result<Json> {
    let item = to_json(value, &arg.ty)?;
    if item.depth() > MAX_DEPTH {
        Err(too_deep())
    } else {
        Ok(item)
    }
}

fn member_name(value: ValueRef<'_>, arg: &Expr) -> Result<String> {
    let text = match value {
        ValueRef::Null => {
            let text = "JSON documents may not contain NULL member names.";
            return Err(SqlError::new(3158, "22032", text));
        }
        ValueRef::Bytes(bytes) => convert::recode(bytes, &arg.ty, Charset::Utf8mb4).into_owned(),
        value => {
            let mut text = Vec::new();
            cast::to_text(value, &arg.ty, &mut text);
            text
        }
    };
    Ok(String::from_utf8_lossy(&text).into_owned())
}
