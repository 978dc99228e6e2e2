//! Arithmetic in MySQL's three domains: 64-bit integers, decimals, doubles.
//!
//! The node's static type selects the domain (manual, "Arithmetic Operators"): two integers give an
//! integer, unsigned if one of them is; a decimal and an exact number give a decimal; everything
//! else is double. `/` never gives an integer, DIV always does. Overflow is error 1690; division by
//! zero is NULL with warning 1365.

use super::describe::describe;
use super::eval::EvalCx;
use super::{ArithOp, BitOp, Expr, convert};
use crate::error::{Result, SqlError};
use porpoise_types::{DecimalError, Kind, SqlMode, ValueRef};

/// A value and the expression that it comes from.
type Arg<'e, 'a> = (ValueRef<'a>, &'e Expr);

/// `a op b` in the domain of `e`.
pub fn arithmetic<'a>(
    op: ArithOp,
    a: Arg<'_, 'a>,
    b: Arg<'_, 'a>,
    e: &Expr,
    cx: &EvalCx<'a>,
) -> Result<ValueRef<'a>> {
    if a.0.is_null() || b.0.is_null() {
        return Ok(ValueRef::Null);
    }
    if let (ValueRef::Int(x), ValueRef::Int(y), Kind::BigInt, false) =
        (a.0, b.0, e.ty.kind, e.ty.unsigned)
    {
        let result = match op {
            ArithOp::Add => x.checked_add(y),
            ArithOp::Sub => x.checked_sub(y),
            ArithOp::Mul => x.checked_mul(y),
            _ => return integers(op, a, b, e, cx),
        };
        return match result {
            Some(v) => Ok(ValueRef::Int(v)),
            None => Err(out_of_range("BIGINT", op, a.1, b.1)),
        };
    }
    match e.ty.kind {
        Kind::Decimal => decimals(op, a, b, cx),
        Kind::Double | Kind::Float => doubles(op, a, b, cx),
        _ => integers(op, a, b, e, cx),
    }
}

fn division_by_zero<'a>(cx: &EvalCx<'a>) -> Result<ValueRef<'a>> {
    if cx.env.mode.contains(SqlMode::ERROR_FOR_DIVISION_BY_ZERO) {
        cx.env
            .warn_or_fail(1365, "22012", "Division by 0".to_owned())?;
    }
    Ok(ValueRef::Null)
}

fn out_of_range(ty: &str, op: ArithOp, a: &Expr, b: &Expr) -> SqlError {
    let text = format!("({} {} {})", describe(a), op.sign(), describe(b));
    SqlError::out_of_range(ty, &text)
}

fn integers<'a>(
    op: ArithOp,
    a: Arg<'_, 'a>,
    b: Arg<'_, 'a>,
    e: &Expr,
    cx: &EvalCx<'a>,
) -> Result<ValueRef<'a>> {
    if op == ArithOp::IntDiv && !(a.1.ty.is_integer() && b.1.ty.is_integer()) {
        return divide_whole(a, b, e, cx);
    }
    let (x, y) = (
        convert::wide(a.0, &a.1.ty, cx)?,
        convert::wide(b.0, &b.1.ty, cx)?,
    );
    let result = match op {
        ArithOp::Add => x.checked_add(y),
        ArithOp::Sub => x.checked_sub(y),
        ArithOp::Mul => x.checked_mul(y),
        ArithOp::IntDiv | ArithOp::Div | ArithOp::Mod if y == 0 => return division_by_zero(cx),
        ArithOp::IntDiv | ArithOp::Div => x.checked_div(y),
        ArithOp::Mod => x.checked_rem(y),
    };
    narrow(result, e).ok_or_else(|| out_of_range(integer_name(e), op, a.1, b.1))
}

fn integer_name(e: &Expr) -> &'static str {
    if e.ty.unsigned {
        "BIGINT UNSIGNED"
    } else {
        "BIGINT"
    }
}

fn narrow<'a>(wide: Option<i128>, e: &Expr) -> Option<ValueRef<'a>> {
    let wide = wide?;
    if e.ty.unsigned {
        u64::try_from(wide).ok().map(ValueRef::UInt)
    } else {
        i64::try_from(wide).ok().map(ValueRef::Int)
    }
}

/// DIV of numbers that are not both integers: divided exactly, then truncated.
fn divide_whole<'a>(
    a: Arg<'_, 'a>,
    b: Arg<'_, 'a>,
    e: &Expr,
    cx: &EvalCx<'a>,
) -> Result<ValueRef<'a>> {
    let (x, y) = (
        convert::decimal(a.0, &a.1.ty, cx)?,
        convert::decimal(b.0, &b.1.ty, cx)?,
    );
    let range = |_: DecimalError| out_of_range(integer_name(e), ArithOp::IntDiv, a.1, b.1);
    let Some(quotient) = x.div_int(y).map_err(range)? else {
        return division_by_zero(cx);
    };
    let value = if e.ty.unsigned {
        quotient.to_u64().map(ValueRef::UInt)
    } else {
        quotient.to_i64().map(ValueRef::Int)
    };
    value.ok_or_else(|| out_of_range(integer_name(e), ArithOp::IntDiv, a.1, b.1))
}

fn decimals<'a>(
    op: ArithOp,
    a: Arg<'_, 'a>,
    b: Arg<'_, 'a>,
    cx: &EvalCx<'a>,
) -> Result<ValueRef<'a>> {
    let (x, y) = (
        convert::decimal(a.0, &a.1.ty, cx)?,
        convert::decimal(b.0, &b.1.ty, cx)?,
    );
    let range = |_: DecimalError| out_of_range("DECIMAL", op, a.1, b.1);
    let value = match op {
        ArithOp::Add => x.add(y).map_err(range)?,
        ArithOp::Sub => x.sub(y).map_err(range)?,
        ArithOp::Mul => x.mul(y).map_err(range)?,
        ArithOp::Div | ArithOp::IntDiv => match x.div(y, cx.env.div_precision).map_err(range)? {
            // With guard digits: it is rounded when it leaves the expression.
            Some(quotient) => quotient,
            None => return division_by_zero(cx),
        },
        ArithOp::Mod => match x.rem(y).map_err(range)? {
            Some(rest) => rest,
            None => return division_by_zero(cx),
        },
    };
    Ok(ValueRef::Decimal(value))
}

fn doubles<'a>(
    op: ArithOp,
    a: Arg<'_, 'a>,
    b: Arg<'_, 'a>,
    cx: &EvalCx<'a>,
) -> Result<ValueRef<'a>> {
    let (x, y) = (
        convert::double(a.0, &a.1.ty, cx)?,
        convert::double(b.0, &b.1.ty, cx)?,
    );
    let value = match op {
        ArithOp::Add => x + y,
        ArithOp::Sub => x - y,
        ArithOp::Mul => x * y,
        ArithOp::Div | ArithOp::IntDiv | ArithOp::Mod if y == 0.0 => return division_by_zero(cx),
        ArithOp::Div | ArithOp::IntDiv => x / y,
        ArithOp::Mod => x % y,
    };
    if value.is_finite() {
        Ok(ValueRef::Double(value))
    } else {
        Err(out_of_range("DOUBLE", op, a.1, b.1))
    }
}

/// `-a` in the domain of `e`.
pub fn negate<'a>(
    value: ValueRef<'a>,
    arg: &Expr,
    e: &Expr,
    cx: &EvalCx<'a>,
) -> Result<ValueRef<'a>> {
    if value.is_null() {
        return Ok(ValueRef::Null);
    }
    Ok(match e.ty.kind {
        Kind::Decimal => ValueRef::Decimal(convert::decimal(value, &arg.ty, cx)?.neg()),
        Kind::Double | Kind::Float => ValueRef::Double(-convert::double(value, &arg.ty, cx)?),
        _ => {
            let wide = convert::wide(value, &arg.ty, cx)?;
            let text = || format!("-({})", describe(arg));
            let narrow = i64::try_from(-wide).ok();
            ValueRef::Int(narrow.ok_or_else(|| SqlError::out_of_range("BIGINT", &text()))?)
        }
    })
}

/// Bit operators on 64 bits; NULL if an operand is NULL.
pub fn bits<'a>(op: BitOp, a: Option<u64>, b: Option<u64>) -> ValueRef<'a> {
    let (Some(a), Some(b)) = (a, b) else {
        return ValueRef::Null;
    };
    let shift = u32::try_from(b).unwrap_or(u32::MAX);
    ValueRef::UInt(match op {
        BitOp::And => a & b,
        BitOp::Or => a | b,
        BitOp::Xor => a ^ b,
        BitOp::Shl => a.checked_shl(shift).unwrap_or(0),
        BitOp::Shr => a.checked_shr(shift).unwrap_or(0),
    })
}
