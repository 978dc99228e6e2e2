//! JSON functions that search documents.

use super::super::{Call, Function, Nullable};
use super::{json, truth, yes};
use crate::error::{Result, SqlError};
use porpoise_types::json::{self as doc, Json};
use porpoise_types::{Collation, ValueRef};

fn contains<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let document = c.document(0, "json_contains")?;
    let candidate = c.document(1, "json_contains")?;
    let (Some(document), Some(candidate)) = (document, candidate) else {
        return Ok(ValueRef::Null);
    };
    if c.len() < 3 {
        return Ok(yes(doc::contains(&document, &candidate)));
    }
    let Some(path) = c.single_path(2)? else {
        return Ok(ValueRef::Null);
    };
    Ok(match path.select(&document).first() {
        Some(found) => yes(doc::contains(found, &candidate)),
        None => ValueRef::Null,
    })
}

fn contains_path<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(document) = c.document(0, "json_contains_path")? else {
        return Ok(ValueRef::Null);
    };
    let Some(one) = c.one_or_all(1, "json_contains_path")? else {
        return Ok(ValueRef::Null);
    };
    for at in 2..c.len() {
        let Some(path) = c.path(at)? else {
            return Ok(ValueRef::Null);
        };
        if path.exists(&document) == one {
            return Ok(yes(one));
        }
    }
    Ok(yes(!one))
}

fn overlaps<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (a, b) = (
        c.document(0, "json_overlaps")?,
        c.document(1, "json_overlaps")?,
    );
    Ok(match (a, b) {
        (Some(a), Some(b)) => yes(doc::overlaps(&a, &b)),
        _ => ValueRef::Null,
    })
}

/// `value MEMBER OF (array)`; a document that is not an array is compared itself.
fn member_of<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(array) = c.document(1, "member of")? else {
        return Ok(ValueRef::Null);
    };
    if c.arg(0).0.is_null() {
        return Ok(ValueRef::Null);
    }
    let value = c.json_value(0)?;
    Ok(yes(match &array {
        Json::Array(items) => items.iter().any(|item| doc::equal(item, &value)),
        other => doc::equal(other, &value),
    }))
}

fn escape_of(c: &Call<'_, '_>) -> Result<Option<char>> {
    if c.len() < 4 {
        return Ok(Some('\\'));
    }
    let text = c.text(3)?.unwrap_or_default();
    let mut characters = std::str::from_utf8(text).unwrap_or_default().chars();
    match (characters.next(), characters.next()) {
        (None, _) => Ok(Some('\\')),
        (one, None) => Ok(one),
        _ => Err(SqlError::wrong_arguments("ESCAPE")),
    }
}

fn search<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(document) = c.document(0, "json_search")? else {
        return Ok(ValueRef::Null);
    };
    let Some(one) = c.one_or_all(1, "json_search")? else {
        return Ok(ValueRef::Null);
    };
    let Some(pattern) = c.text(2)? else {
        return Ok(ValueRef::Null);
    };
    let escape = escape_of(c)?;
    let mut roots: Vec<&Json> = Vec::new();
    for at in 4..c.len() {
        let Some(path) = c.path(at)? else {
            return Ok(ValueRef::Null);
        };
        roots.extend(path.select(&document));
    }
    let mut found: Vec<Json> = Vec::new();
    let limit_to = (c.len() > 4).then_some(roots.as_slice());
    doc::each_string(&document, limit_to, &mut |path, text| {
        if Collation::UTF8MB4_BIN.like(text.as_bytes(), pattern, escape) {
            found.push(Json::String(path.to_owned()));
        }
        !one || found.is_empty()
    });
    match found.len() {
        0 => Ok(ValueRef::Null),
        1 => found
            .pop()
            .map_or(Ok(ValueRef::Null), |path| c.document_result(&path)),
        _ => c.document_result(&Json::Array(found)),
    }
}

/// The registry entries.
pub const FUNCTIONS: &[Function] = &[
    Function {
        name: "JSON_CONTAINS",
        args: (2, 3),
        constant: true,
        nullable: Nullable::Always,
        ty: truth,
        run: contains,
        doc: "Whether a document, or its part at a path, contains another one.",
        example: ("JSON_CONTAINS('{\"a\": [1, 2, 3]}', '[3, 1]', '$.a')", "1"),
    },
    Function {
        name: "JSON_CONTAINS_PATH",
        args: (3, usize::MAX),
        constant: true,
        nullable: Nullable::Always,
        ty: truth,
        run: contains_path,
        doc: "Whether a document has something at one or at all of the paths.",
        example: ("JSON_CONTAINS_PATH('{\"a\": 1}', 'one', '$.a', '$.e')", "1"),
    },
    Function {
        name: "JSON_OVERLAPS",
        args: (2, 2),
        constant: true,
        nullable: Nullable::IfArgument,
        ty: truth,
        run: overlaps,
        doc: "Whether two documents share an element or a member.",
        example: ("JSON_OVERLAPS('[1,3,5,7]', '[2,5,7]')", "1"),
    },
    Function {
        // A name with a space cannot be called: the binder uses it for MEMBER OF.
        name: "MEMBER OF",
        args: (2, 2),
        constant: true,
        nullable: Nullable::IfArgument,
        ty: truth,
        run: member_of,
        doc: "Whether a value is an element of a JSON array.",
        example: ("17 MEMBER OF ('[23, \"abc\", 17]')", "1"),
    },
    Function {
        name: "JSON_SEARCH",
        args: (3, usize::MAX),
        constant: true,
        nullable: Nullable::Always,
        ty: json,
        run: search,
        doc: "The paths of the strings that match a pattern of LIKE.",
        example: (
            "JSON_SEARCH('[\"abc\", {\"x\": \"abd\"}]', 'all', 'ab_')",
            "[\"$[0]\", \"$[1].x\"]",
        ),
    },
];
