//! CAST of a JSON value to a number, a date or a time.
//!
//! Every scalar is converted to a number, but only a string to a date or time: documents are stored
//! as text, in which dates are strings. Warning 3156, with the name of what is cast, takes the
//! place of the conversion's own warnings.

use super::super::{Call, Function, Nullable};
use super::long_text;
use crate::error::Result;
use crate::expr::convert;
use crate::expr::types::is_temporal;
use porpoise_types::{Kind, ValueRef};

/// Casts the first argument to the type of the call; the second is its name.
fn cast_json<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (ValueRef::Bytes(text), Some(from)) = c.arg(0) else {
        return Ok(ValueRef::Null);
    };
    let is_string = text.first() == Some(&b'"');
    if is_temporal(c.ty) && !is_string {
        invalid(c)?;
        return Ok(ValueRef::Null);
    }
    if matches!(text.first(), Some(b'n' | b'[' | b'{')) {
        invalid(c)?;
        return convert::cast(ValueRef::Int(0), c.ty, c.ty, c.cx);
    }
    let before = c.cx.env.warnings.borrow().len();
    let value = {
        let _lenient = c.cx.env.strictly(false);
        convert::cast(ValueRef::Bytes(text), from, c.ty, c.cx)?
    };
    let after = c.cx.env.warnings.borrow().len();
    if after > before && is_string {
        c.cx.env.warnings.borrow_mut().truncate(before);
        invalid(c)?;
    }
    Ok(value)
}

/// Warning 3156, or the error in a strict evaluation.
fn invalid(c: &Call<'_, '_>) -> Result<()> {
    let ty = match c.ty.kind {
        Kind::Decimal => "DECIMAL",
        Kind::Float | Kind::Double => "DOUBLE",
        _ if is_temporal(c.ty) => "DATE/TIME/DATETIME/TIMESTAMP",
        _ => "INTEGER",
    };
    let name = c.text(1)?.map(String::from_utf8_lossy).unwrap_or_default();
    let text = format!("Invalid JSON value for CAST to {ty} from column {name} at row 1");
    c.cx.env.warn_or_fail(3156, "22018", text)
}

/// The registry entries.
pub const FUNCTIONS: &[Function] = &[Function {
    name: "CAST JSON",
    args: (2, 2),
    constant: true,
    nullable: Nullable::Always,
    ty: long_text,
    run: cast_json,
    doc: "CAST of a JSON value to a number, a date or a time.",
    example: ("CAST(CAST('\"2015-01-15\"' AS JSON) AS DATE)", "2015-01-15"),
}];
