//! ExtractValue and UpdateXML (manual, "XML Functions").
//!
//! * [`document`] reads an XML fragment into a list of nodes.
//! * [`path`] parses an XPath expression, [`evaluate`] evaluates it.

mod document;
mod evaluate;
mod path;

use super::{Call, Function, Nullable};
use crate::error::{Result, SqlError};
use crate::expr::Expr;
use document::Document;
use evaluate::{Evaluation, Value};
use porpoise_types::{Collation, ColumnType, Kind, Level, ValueRef, Warning};

/// Error 1105.
fn path_error(text: String) -> SqlError {
    SqlError::new(1105, "HY000", text)
}

/// The fragment of the first argument; `None` with warning 1525 if it is not well-formed.
fn fragment<'a>(c: &Call<'_, 'a>, text: &'a [u8]) -> Option<Document<'a>> {
    match Document::parse(text) {
        Ok(document) => Some(document),
        Err(what) => {
            c.cx.env.warn(Warning {
                level: Level::Warning,
                code: 1525,
                message: format!("Incorrect XML value: '{what}'"),
            });
            None
        }
    }
}

fn evaluated(c: &Call<'_, '_>, document: &Document<'_>, path: &[u8]) -> Result<Value> {
    let variables = c.cx.env.user_variables.borrow();
    let lookup = |name: &[u8]| {
        let name = std::str::from_utf8(name).ok()?.to_lowercase();
        let (value, _) = variables.get(name.as_str())?;
        Some(match value {
            porpoise_types::Value::Bytes(text) => Value::Text(text.clone()),
            porpoise_types::Value::Int(n) => Value::Number(*n as f64),
            porpoise_types::Value::Double(n) => Value::Number(*n),
            _ => Value::Text(Vec::new()),
        })
    };
    let tree = path::parse(path).map_err(path_error)?;
    let mut evaluation = Evaluation {
        document,
        collation: c.collation(0),
        variable: &lookup,
        warnings: Vec::new(),
    };
    let result = evaluation.run(&tree);
    for message in evaluation.warnings {
        c.cx.env.warn(Warning {
            level: Level::Warning,
            code: 1292,
            message,
        });
    }
    result.map_err(path_error)
}

fn extract_value<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (Some(text), Some(path)) = (c.text(0)?, c.text(1)?) else {
        return Ok(ValueRef::Null);
    };
    let Some(document) = fragment(c, text) else {
        return Ok(ValueRef::Null);
    };
    let value = evaluated(c, &document, path)?;
    Ok(c.keep(&evaluate::text_of(&document, &value)))
}

fn update_xml<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (Some(text), Some(path), Some(new)) = (c.text(0)?, c.text(1)?, c.text(2)?) else {
        return Ok(ValueRef::Null);
    };
    let Some(document) = fragment(c, text) else {
        return Ok(ValueRef::Null);
    };
    let Value::Nodes(found) = evaluated(c, &document, path)? else {
        return Ok(c.keep(text));
    };
    let [only] = found.as_slice() else {
        return Ok(c.keep(text));
    };
    let span = document.nodes.get(*only).map_or(0..0, |n| n.span.clone());
    let before = text.get(..span.start).unwrap_or_default();
    let after = text.get(span.end..).unwrap_or_default();
    if let Some(null) = c.too_long(before.len() + new.len() + after.len()) {
        return Ok(null);
    }
    Ok(c.keep(&[before, new, after].concat()))
}

fn long_text(args: &[Expr], collation: Collation) -> ColumnType {
    let collation = super::common_collation(args, collation);
    ColumnType::text(Kind::LongText, collation)
}

/// The registry entries.
pub const FUNCTIONS: &[Function] = &[
    f!("EXTRACTVALUE", (2, 2), long_text, Always, extract_value, "Texts of the nodes of an XML fragment that an XPath expression finds, or the expression's value.", "EXTRACTVALUE('<a><b>x</b><b>y</b></a>', '/a/b')" => "x y"),
    f!("UPDATEXML", (3, 3), long_text, Always, update_xml, "An XML fragment with the one node that an XPath expression finds replaced.", "UPDATEXML('<a><b>x</b></a>', '/a/b', '<c/>')" => "<a><c/></a>"),
];
