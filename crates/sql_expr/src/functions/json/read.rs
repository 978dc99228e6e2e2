//! JSON functions that read documents: parts, attributes, conversions.

use super::super::{Call, Function, Nullable, bigint, text_of};
use super::{json, long_text, truth, yes};
use crate::error::{Result, SqlError};
use crate::expr::Expr;
use porpoise_types::json::{self as doc, Json, Part};
use porpoise_types::{Collation, Kind, ValueRef};

fn extract<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    if let Some(found) = extract_text(c)? {
        return Ok(found);
    }
    let Some(document) = c.document(0, "json_extract")? else {
        return Ok(ValueRef::Null);
    };
    let mut found: Vec<&Json> = Vec::new();
    let mut several = c.len() > 2;
    for at in 1..c.len() {
        let Some(path) = c.path(at)? else {
            return Ok(ValueRef::Null);
        };
        several |= path.is_multiple();
        found.extend(path.select(&document));
        porpoise_base::interrupt::check()?;
    }
    match found.as_slice() {
        [] => Ok(ValueRef::Null),
        [one] if !several => c.document_result(one),
        _ => {
            let mut text = vec![b'['];
            for (at, part) in found.into_iter().enumerate() {
                if at > 0 {
                    text.extend_from_slice(b", ");
                }
                text.extend_from_slice(&part.to_text());
                if let Some(null) = c.too_long(text.len()) {
                    return Ok(null);
                }
            }
            text.push(b']');
            Ok(c.keep(&text))
        }
    }
}

/// Finds the part of a JSON value that one path selects in its text; `None` if the document must be
/// parsed.
fn extract_text<'a>(c: &Call<'_, 'a>) -> Result<Option<ValueRef<'a>>> {
    let is_json = |e: &Expr| e.ty.kind == Kind::Json;
    if c.len() != 2 || !c.args.first().is_some_and(is_json) {
        return Ok(None);
    }
    let (Some(text), Some(path)) = (c.text(0)?, c.path(1)?) else {
        return Ok(Some(ValueRef::Null));
    };
    Ok(match doc::part(text, &path) {
        Part::Found(part) => Some(ValueRef::Bytes(part)),
        Part::Missing => Some(ValueRef::Null),
        Part::Unknown => None,
    })
}

fn unquote<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (Some(text), (_, Some(ty))) = (c.text(0)?, c.arg(0)) else {
        return Ok(ValueRef::Null);
    };
    if ty.kind != Kind::Json {
        if !super::is_document_text(ty) {
            let text = "Incorrect type for argument 1 in function json_unquote.";
            return Err(SqlError::new(3064, "HY000", text));
        }
        crate::expr::json::utf8(text, ty)?;
    }
    let quoted = text.len() >= 2 && text.starts_with(b"\"") && text.ends_with(b"\"");
    if !quoted {
        return Ok(ValueRef::Bytes(text));
    }
    if let Some(content) = doc::plain_string(text) {
        return Ok(ValueRef::Bytes(content));
    }
    match doc::parse(text) {
        Ok(Json::String(text)) => Ok(c.keep(text.as_bytes())),
        Ok(_) => Ok(ValueRef::Bytes(text)),
        Err(e) => Err(super::invalid(e, 1, "json_unquote")),
    }
}

/// Bytes of JSON_QUOTE's argument between two interrupt checkpoints.
const QUOTE_PART: usize = 64 * 1024;

fn quote<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let textual = c
        .args
        .first()
        .is_some_and(|e| super::is_document_text(&e.ty));
    let Some(text) = c.text(0)? else {
        return Ok(ValueRef::Null);
    };
    if !textual {
        let text = "Incorrect type for argument 1 in function json_quote.";
        return Err(SqlError::new(3064, "HY000", text));
    }
    let mut escaped = 0;
    for part in text.chunks(QUOTE_PART) {
        porpoise_base::interrupt::check()?;
        let marked = part.iter().filter(|b| matches!(b, 0..0x20 | b'"' | b'\\'));
        escaped += marked.count();
    }
    if let Some(null) = c.too_long(text.len() + escaped) {
        return Ok(null);
    }
    let mut out = Vec::with_capacity(text.len() + 2);
    doc::quote(&String::from_utf8_lossy(text), &mut out);
    Ok(c.keep(&out))
}

fn valid<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (value, ty) = c.arg(0);
    let (false, Some(ty)) = (value.is_null(), ty) else {
        return Ok(ValueRef::Null);
    };
    Ok(match value {
        ValueRef::Bytes(_) if ty.kind == Kind::Json => yes(true),
        ValueRef::Bytes(text) if ty.collation != Collation::BINARY => {
            let found = doc::parse(text);
            match found {
                Err(e) if e.too_deep() => return Err(super::too_deep()),
                found => yes(found.is_ok()),
            }
        }
        _ => yes(false),
    })
}

fn kind<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let document = c.document(0, "json_type")?;
    Ok(document.map_or(ValueRef::Null, |d| {
        ValueRef::Bytes(d.type_name().as_bytes())
    }))
}

fn depth<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let document = c.document(0, "json_depth")?;
    Ok(document.map_or(ValueRef::Null, |d| ValueRef::Int(d.depth() as i64)))
}

/// Runs `f` on the document, or on the part that the path in the second argument selects.
fn part<'a>(
    c: &Call<'_, 'a>,
    name: &str,
    f: impl FnOnce(&Json) -> Result<ValueRef<'a>>,
) -> Result<ValueRef<'a>> {
    let Some(document) = c.document(0, name)? else {
        return Ok(ValueRef::Null);
    };
    if c.len() < 2 {
        return f(&document);
    }
    let Some(path) = c.single_path(1)? else {
        return Ok(ValueRef::Null);
    };
    match path.select(&document).first() {
        Some(found) => f(found),
        None => Ok(ValueRef::Null),
    }
}

/// JSON_LENGTH. Several values selected by a path count as an array.
fn length<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(document) = c.document(0, "json_length")? else {
        return Ok(ValueRef::Null);
    };
    let path = if c.len() < 2 {
        None
    } else {
        match c.path(1)? {
            Some(path) => Some(path),
            None => return Ok(ValueRef::Null),
        }
    };
    let several = path.as_ref().is_some_and(|path| path.is_multiple());
    let found = match &path {
        Some(path) => path.select(&document),
        None => vec![&document],
    };
    let items = match found.as_slice() {
        [] => return Ok(ValueRef::Null),
        all if several => all.len(),
        [Json::Array(items), ..] => items.len(),
        [Json::Object(members), ..] => members.len(),
        _ => 1,
    };
    Ok(ValueRef::Int(items as i64))
}

fn keys<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    part(c, "json_keys", |value| match value {
        Json::Object(members) => {
            let keys = members.iter().map(|(key, _)| Json::String(key.to_owned()));
            c.document_result(&Json::Array(keys.collect()))
        }
        _ => Ok(ValueRef::Null),
    })
}

fn pretty<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let document = c.document(0, "json_pretty")?;
    Ok(document.map_or(ValueRef::Null, |d| {
        let mut out = Vec::new();
        doc::pretty(&d, 0, &mut out);
        c.keep(&out)
    }))
}

/// The registry entries.
pub const FUNCTIONS: &[Function] = &[
    Function {
        name: "JSON_EXTRACT",
        args: (2, usize::MAX),
        constant: true,
        nullable: Nullable::Always,
        ty: json,
        run: extract,
        doc: "The parts of a document at the given paths; an array where they can be several.",
        example: ("JSON_EXTRACT('[10, 20, [30, 40]]', '$[2][*]')", "[30, 40]"),
    },
    Function {
        name: "JSON_UNQUOTE",
        args: (1, 1),
        constant: true,
        nullable: Nullable::Always,
        ty: long_text,
        run: unquote,
        doc: "The text of a JSON string; other documents unchanged.",
        example: (r#"JSON_UNQUOTE('"a\\tb"')"#, "a\tb"),
    },
    Function {
        name: "JSON_QUOTE",
        args: (1, 1),
        constant: true,
        nullable: Nullable::IfArgument,
        ty: long_text,
        run: quote,
        doc: "Text as a JSON string.",
        example: (r#"JSON_QUOTE('say "hi"')"#, r#""say \"hi\"""#),
    },
    Function {
        name: "JSON_VALID",
        args: (1, 1),
        constant: true,
        nullable: Nullable::IfArgument,
        ty: truth,
        run: valid,
        doc: "Whether a value is valid JSON.",
        example: ("JSON_VALID('{\"a\": 1}')", "1"),
    },
    Function {
        name: "JSON_TYPE",
        args: (1, 1),
        constant: true,
        nullable: Nullable::IfArgument,
        ty: |_, c| text_of(51, c),
        run: kind,
        doc: "The kind of a document: OBJECT, ARRAY, STRING, INTEGER, ...",
        example: ("JSON_TYPE('[1]')", "ARRAY"),
    },
    Function {
        name: "JSON_DEPTH",
        args: (1, 1),
        constant: true,
        nullable: Nullable::IfArgument,
        ty: bigint,
        run: depth,
        doc: "The levels of nesting of a document.",
        example: ("JSON_DEPTH('[10, {\"a\": 20}]')", "3"),
    },
    Function {
        name: "JSON_LENGTH",
        args: (1, 2),
        constant: true,
        nullable: Nullable::Always,
        ty: bigint,
        run: length,
        doc: "Number of elements or members of a document, or of its part at a path.",
        example: ("JSON_LENGTH('{\"a\": 1, \"b\": {\"c\": 30}}', '$.b')", "1"),
    },
    Function {
        name: "JSON_KEYS",
        args: (1, 2),
        constant: true,
        nullable: Nullable::Always,
        ty: json,
        run: keys,
        doc: "The keys of an object.",
        example: (
            "JSON_KEYS('{\"b\": 1, \"a\": {\"c\": 30}}')",
            "[\"a\", \"b\"]",
        ),
    },
    Function {
        name: "JSON_PRETTY",
        args: (1, 1),
        constant: true,
        nullable: Nullable::IfArgument,
        ty: long_text,
        run: pretty,
        doc: "A document with one item per line.",
        example: ("JSON_PRETTY('[1]')", "[\n  1\n]"),
    },
];
