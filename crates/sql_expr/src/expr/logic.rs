//! Three-valued logic.
//!
//! True, false, unknown (NULL): manual, "Logical Operators". AND and OR stop
//! at the first operand that decides.

use super::eval::{EvalCx, Slot, eval};
use super::{CmpOp, Expr, ExprKind, Truth, in_set};
use crate::error::Result;
use crate::expr::convert;
use porpoise_types::{Collation, CompareAs, ValueRef};
use std::cmp::Ordering;

/// Converts a truth value to SQL: 1, 0 or NULL.
pub fn value<'a>(truth: Option<bool>) -> ValueRef<'a> {
    match truth {
        Some(truth) => ValueRef::Int(i64::from(truth)),
        None => ValueRef::Null,
    }
}

/// Evaluates an expression as a truth value.
#[inline]
pub fn truth<'a>(e: &'a Expr, row: &[Slot<'a>], cx: &EvalCx<'a>) -> Result<Option<bool>> {
    convert::truth(eval(e, row, cx)?, &e.ty, cx)
}

/// AND of all operands.
pub fn and<'a>(args: &'a [Expr], row: &[Slot<'a>], cx: &EvalCx<'a>) -> Result<Option<bool>> {
    let mut result = Some(true);
    for arg in args {
        cx.env.tick()?;
        match truth(arg, row, cx)? {
            Some(false) => return Ok(Some(false)),
            None => result = None,
            Some(true) => {}
        }
    }
    Ok(result)
}

/// OR of all operands.
pub fn or<'a>(args: &'a [Expr], row: &[Slot<'a>], cx: &EvalCx<'a>) -> Result<Option<bool>> {
    let mut result = Some(false);
    for arg in args {
        cx.env.tick()?;
        match truth(arg, row, cx)? {
            Some(true) => return Ok(Some(true)),
            None => result = None,
            Some(false) => {}
        }
    }
    Ok(result)
}

/// `IS [NOT] NULL`, TRUE or FALSE.
pub fn is<'a>(
    arg: &'a Expr,
    wanted: Truth,
    negated: bool,
    row: &[Slot<'a>],
    cx: &EvalCx<'a>,
) -> Result<bool> {
    let found = match wanted {
        Truth::Null => eval(arg, row, cx)?.is_null(),
        Truth::True => truth(arg, row, cx)? == Some(true),
        Truth::False => truth(arg, row, cx)? == Some(false),
    };
    Ok(found != negated)
}

/// Applies a comparison operator to two values.
pub fn compare(
    op: CmpOp,
    how: CompareAs,
    a: (ValueRef<'_>, &Expr),
    b: (ValueRef<'_>, &Expr),
    cx: &EvalCx<'_>,
) -> Result<Option<bool>> {
    if op == CmpOp::NullSafe {
        return Ok(Some(match (a.0.is_null(), b.0.is_null()) {
            (true, true) => true,
            (true, false) | (false, true) => false,
            (false, false) => order(how, a, b, cx)? == Some(Ordering::Equal),
        }));
    }
    Ok(order(how, a, b, cx)?.map(|order| op.accepts(order)))
}

/// Compares two values; `None` if one is NULL.
pub fn order(
    how: CompareAs,
    a: (ValueRef<'_>, &Expr),
    b: (ValueRef<'_>, &Expr),
    cx: &EvalCx<'_>,
) -> Result<Option<Ordering>> {
    if let (CompareAs::Int, ValueRef::Int(x), ValueRef::Int(y)) = (how, a.0, b.0) {
        return Ok(Some(x.cmp(&y)));
    }
    let is_text =
        |(value, e): (ValueRef<'_>, &Expr)| matches!(value, ValueRef::Bytes(_)) && e.is_literal();
    let literal = match (is_text(a), is_text(b)) {
        (true, false) => a.1,
        (false, true) => b.1,
        _ => return convert::order(how, a.0, &a.1.ty, b.0, &b.1.ty, cx),
    };
    let before = cx.env.condition_count();
    let order = convert::order(how, a.0, &a.1.ty, b.0, &b.1.ty, cx)?;
    if cx.env.condition_count() != before {
        warn_once(literal, before, cx);
    }
    Ok(order)
}

/// Removes the conditions that the conversion of a literal has just raised if it has raised some before: MySQL converts
/// a literal once for a statement.
#[cold]
fn warn_once(literal: &Expr, before: (usize, u64), cx: &EvalCx<'_>) {
    let address = std::ptr::from_ref(literal) as usize;
    let mut warned = cx.env.warned_literals.borrow_mut();
    if warned.contains(&address) {
        cx.env.drop_conditions_after(before);
    } else {
        warned.push(address);
    }
}

/// IN: true if an item is equal; else unknown if an item is NULL.
pub fn is_in<'a>(
    arg: &'a Expr,
    list: &'a [(CompareAs, Expr)],
    row: &[Slot<'a>],
    cx: &EvalCx<'a>,
) -> Result<Option<bool>> {
    let value = eval(arg, row, cx)?;
    if value.is_null() {
        return Ok(None);
    }
    if list.len() >= in_set::MIN_HASHED_ITEMS
        && let Some(found) = in_set::probe(value, arg, list, cx)?
    {
        return Ok(found);
    }
    if let ValueRef::Bytes(text) = value
        && let Some(found) = is_in_texts(text, arg, list, cx)?
    {
        return Ok(Some(found));
    }
    let mut result = Some(false);
    for (how, item) in list {
        cx.env.tick()?;
        let candidate = eval(item, row, cx)?;
        match order(*how, (value, arg), (candidate, item), cx)? {
            Some(Ordering::Equal) => return Ok(Some(true)),
            Some(_) => {}
            None => result = None,
        }
    }
    Ok(result)
}

/// IN with a list of constant texts in the argument's character set, which are compared without a
/// conversion. `None`: the list has other items.
fn is_in_texts<'a>(
    text: &[u8],
    arg: &Expr,
    list: &'a [(CompareAs, Expr)],
    cx: &EvalCx<'a>,
) -> Result<Option<bool>> {
    cx.env.tick_by(list.len())?;
    let charset = arg.ty.collation.charset();
    for (how, item) in list {
        let candidate = match &item.kind {
            ExprKind::Const(value) => value.as_ref(),
            ExprKind::Param(at) => cx.params.get(*at).copied().unwrap_or(ValueRef::Null),
            _ => return Ok(None),
        };
        match (how, candidate) {
            (CompareAs::Bytes(collation), ValueRef::Bytes(candidate))
                if item.ty.collation.charset() == charset =>
            {
                if collation.equal(text, candidate) {
                    return Ok(Some(true));
                }
            }
            _ => return Ok(None),
        }
    }
    Ok(Some(false))
}

/// BETWEEN: `low <= arg AND arg <= high`, `arg` evaluated once.
pub fn between<'a>(
    args: &'a [Expr; 3],
    how: [CompareAs; 2],
    row: &[Slot<'a>],
    cx: &EvalCx<'a>,
) -> Result<Option<bool>> {
    let [arg, low, high] = args;
    let value = (eval(arg, row, cx)?, arg);
    let low = (eval(low, row, cx)?, low);
    let high = (eval(high, row, cx)?, high);
    let [how_low, how_high] = how;
    let above = compare(CmpOp::Ge, how_low, value, low, cx)?;
    let below = compare(CmpOp::Le, how_high, value, high, cx)?;
    Ok(match (above, below) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    })
}

/// `arg LIKE pattern`, both in the character set of the collation.
pub fn like<'a>(
    args: &'a [Expr; 2],
    escape: Option<u8>,
    collation: Collation,
    row: &[Slot<'a>],
    cx: &EvalCx<'a>,
) -> Result<Option<bool>> {
    let [arg, pattern] = args;
    let text = convert::text(eval(arg, row, cx)?, &arg.ty, cx)?;
    let wanted = convert::text(eval(pattern, row, cx)?, &pattern.ty, cx)?;
    Ok(text.zip(wanted).map(|(text, wanted)| {
        let set = collation.charset();
        let text = convert::recode(text, &arg.ty, set);
        let wanted = convert::recode(wanted, &pattern.ty, set);
        collation.like(&text, &wanted, escape.map(char::from))
    }))
}
