//! JSON functions that create and modify documents.

use super::super::{Call, Function, Nullable};
use super::json;
use crate::error::{Result, SqlError};
use porpoise_base::interrupt;
use porpoise_types::ValueRef;
use porpoise_types::json::{self as doc, Change, Json, Object};

fn array<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    if let Some(null) = c.arguments_too_long() {
        return Ok(null);
    }
    let items: Result<Vec<Json>> = (0..c.len()).map(|at| c.json_value(at)).collect();
    c.document_result(&Json::Array(items?))
}

/// Error 1582 unless the arguments after the first `first` come in pairs.
fn pairs(c: &Call<'_, '_>, first: usize, name: &str) -> Result<()> {
    match c.len().saturating_sub(first) % 2 {
        0 => Ok(()),
        _ => Err(SqlError::argument_count(name)),
    }
}

fn object<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    if let Some(null) = c.arguments_too_long() {
        return Ok(null);
    }
    pairs(c, 0, "JSON_OBJECT")?;
    let mut members = Vec::with_capacity(c.len() / 2);
    for at in (0..c.len()).step_by(2) {
        let Some(key) = c.text(at)? else {
            let text = "JSON documents may not contain NULL member names.";
            return Err(SqlError::new(3158, "22032", text));
        };
        let key = String::from_utf8_lossy(key).into_owned();
        members.push((key, c.json_value(at + 1)?));
    }
    c.document_result(&Json::Object(Object::from_members(members)))
}

/// JSON_SET and similar functions: pairs of path and value, applied from left to right.
fn change<'a>(c: &Call<'_, 'a>, name: &str, how: Change) -> Result<ValueRef<'a>> {
    if let Some(null) = c.arguments_too_long() {
        return Ok(null);
    }
    pairs(c, 1, name)?;
    let Some(mut document) = c.document(0, name)? else {
        return Ok(ValueRef::Null);
    };
    for at in (1..c.len()).step_by(2) {
        interrupt::check()?;
        let Some(path) = c.single_path(at)? else {
            return Ok(ValueRef::Null);
        };
        doc::change(&mut document, &path, c.json_value(at + 1)?, how);
    }
    c.document_result(&document)
}

fn remove<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(mut document) = c.document(0, "json_remove")? else {
        return Ok(ValueRef::Null);
    };
    for at in 1..c.len() {
        interrupt::check()?;
        let Some(path) = c.single_path(at)? else {
            return Ok(ValueRef::Null);
        };
        if path.steps.is_empty() {
            let text = "The path expression '$' is not allowed in this context.";
            return Err(SqlError::new(3153, "42000", text));
        }
        doc::remove(&mut document, &path);
    }
    c.document_result(&document)
}

fn append<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    if let Some(null) = c.arguments_too_long() {
        return Ok(null);
    }
    pairs(c, 1, "JSON_ARRAY_APPEND")?;
    let Some(mut document) = c.document(0, "json_array_append")? else {
        return Ok(ValueRef::Null);
    };
    for at in (1..c.len()).step_by(2) {
        interrupt::check()?;
        let Some(path) = c.single_path(at)? else {
            return Ok(ValueRef::Null);
        };
        document.append(&path, c.json_value(at + 1)?);
    }
    c.document_result(&document)
}

fn array_insert<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    if let Some(null) = c.arguments_too_long() {
        return Ok(null);
    }
    pairs(c, 1, "JSON_ARRAY_INSERT")?;
    let Some(mut document) = c.document(0, "json_array_insert")? else {
        return Ok(ValueRef::Null);
    };
    for at in (1..c.len()).step_by(2) {
        interrupt::check()?;
        let Some(path) = c.single_path(at)? else {
            return Ok(ValueRef::Null);
        };
        if !document.array_insert(&path, c.json_value(at + 1)?) {
            let text = "A path expression is not a path to a cell in an array.";
            return Err(SqlError::new(3165, "42000", text));
        }
    }
    c.document_result(&document)
}

fn merge_preserve<'a>(c: &Call<'_, 'a>, name: &str) -> Result<ValueRef<'a>> {
    if let Some(null) = c.arguments_too_long() {
        return Ok(null);
    }
    let mut merged: Option<Json> = None;
    let mut null = false;
    for at in 0..c.len() {
        interrupt::check()?;
        match (merged.take(), c.document(at, name)?) {
            (_, None) => null = true,
            (None, Some(next)) => merged = Some(next),
            (Some(all), Some(next)) => merged = Some(doc::merge_preserve(all, next)),
        }
    }
    match merged {
        Some(document) if !null => c.document_result(&document),
        _ => Ok(ValueRef::Null),
    }
}

/// A NULL makes the result so far NULL, until a document that is not an object replaces it.
fn merge_patch<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    if let Some(null) = c.arguments_too_long() {
        return Ok(null);
    }
    let mut merged = c.document(0, "json_merge_patch")?;
    for at in 1..c.len() {
        interrupt::check()?;
        merged = match (merged, c.document(at, "json_merge_patch")?) {
            (_, None) | (None, Some(Json::Object(_))) => None,
            (Some(all), Some(next)) => Some(doc::merge_patch(all, next)),
            (None, Some(next)) => Some(next),
        };
    }
    match merged {
        Some(document) => c.document_result(&document),
        None => Ok(ValueRef::Null),
    }
}

/// Defines a function whose result is a document.
const fn entry(
    name: &'static str,
    least: usize,
    run: for<'c, 'a> fn(&Call<'c, 'a>) -> Result<ValueRef<'a>>,
    doc: &'static str,
    example: (&'static str, &'static str),
) -> Function {
    Function {
        name,
        args: (least, usize::MAX),
        constant: true,
        nullable: Nullable::Always,
        ty: json,
        run,
        doc,
        example,
    }
}

/// The registry entries.
pub const FUNCTIONS: &[Function] = &[
    entry(
        "JSON_ARRAY",
        0,
        array,
        "An array of the arguments.",
        (
            "JSON_ARRAY(1, 'abc', NULL, TRUE, 1.50)",
            "[1, \"abc\", null, true, 1.50]",
        ),
    ),
    entry(
        "JSON_OBJECT",
        0,
        object,
        "An object of pairs of key and value.",
        (
            "JSON_OBJECT('id', 87, 'name', 'carrot')",
            "{\"id\": 87, \"name\": \"carrot\"}",
        ),
    ),
    entry(
        "JSON_SET",
        3,
        |c| change(c, "JSON_SET", Change::Set),
        "Sets values at paths.",
        (
            "JSON_SET('{\"a\": 1, \"b\": [2, 3]}', '$.a', 10, '$.c', '[true, false]')",
            "{\"a\": 10, \"b\": [2, 3], \"c\": \"[true, false]\"}",
        ),
    ),
    entry(
        "JSON_INSERT",
        3,
        |c| change(c, "JSON_INSERT", Change::Insert),
        "Adds values at paths that do not exist.",
        (
            "JSON_INSERT('{\"a\": 1}', '$.a', 10, '$.c', 2)",
            "{\"a\": 1, \"c\": 2}",
        ),
    ),
    entry(
        "JSON_REPLACE",
        3,
        |c| change(c, "JSON_REPLACE", Change::Replace),
        "Replaces the values at paths.",
        (
            "JSON_REPLACE('{\"a\": 1}', '$.a', 10, '$.c', 2)",
            "{\"a\": 10}",
        ),
    ),
    entry(
        "JSON_REMOVE",
        2,
        remove,
        "Removes the values at paths.",
        (
            "JSON_REMOVE('[\"a\", [\"b\", \"c\"], \"d\"]', '$[1]')",
            "[\"a\", \"d\"]",
        ),
    ),
    entry(
        "JSON_ARRAY_APPEND",
        3,
        append,
        "Appends values to arrays.",
        (
            "JSON_ARRAY_APPEND('[\"a\", [\"b\", \"c\"], \"d\"]', '$[1]', 1, '$[0]', 2)",
            "[[\"a\", 2], [\"b\", \"c\", 1], \"d\"]",
        ),
    ),
    entry(
        "JSON_ARRAY_INSERT",
        3,
        array_insert,
        "Inserts values into arrays.",
        (
            "JSON_ARRAY_INSERT('[\"a\", \"b\"]', '$[1]', 'x', '$[100]', 'y')",
            "[\"a\", \"x\", \"b\", \"y\"]",
        ),
    ),
    entry(
        "JSON_MERGE_PRESERVE",
        2,
        |c| merge_preserve(c, "json_merge_preserve"),
        "Merges documents and keeps the values of equal keys.",
        (
            "JSON_MERGE_PRESERVE('{\"a\": 1}', '{\"a\": 2, \"b\": 3}')",
            "{\"a\": [1, 2], \"b\": 3}",
        ),
    ),
    entry(
        "JSON_MERGE",
        2,
        |c| merge_preserve(c, "json_merge"),
        "As JSON_MERGE_PRESERVE.",
        (
            "JSON_MERGE('[1, 2]', '[true, false]')",
            "[1, 2, true, false]",
        ),
    ),
    entry(
        "JSON_MERGE_PATCH",
        2,
        merge_patch,
        "Merges documents by RFC 7396: later values replace, null removes.",
        (
            "JSON_MERGE_PATCH('{\"a\": 1, \"b\": 2}', '{\"a\": null, \"c\": 3}')",
            "{\"b\": 2, \"c\": 3}",
        ),
    ),
];
