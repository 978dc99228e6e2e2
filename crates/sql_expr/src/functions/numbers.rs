//! Mathematical functions (manual, "Mathematical Functions").

use super::{Call, Function, Nullable, bigint, common_collation, double, joined};
use crate::error::{Result, SqlError};
use crate::expr::describe::describe_call;
use crate::expr::eval::Seeded;
use crate::expr::types::{is_temporal, merged_type};
use crate::expr::{ArithOp, Expr, ExprKind, convert};
use porpoise_types::{
    Collation, ColumnType, CompareAs, DateTime, Decimal, Kind, Value, ValueRef, comparison_type,
    round_f64,
};
use std::cmp::Ordering;

fn exact_or_double(args: &[Expr], _: Collation) -> ColumnType {
    match args.first().map(|e| &e.ty) {
        Some(ty) if ty.is_integer() => {
            let mut result = ColumnType::bigint();
            result.unsigned = ty.unsigned;
            result
        }
        Some(ty) if ty.kind == Kind::Decimal => ty.clone(),
        _ => ColumnType::double(),
    }
}

fn whole(args: &[Expr], collation: Collation) -> ColumnType {
    match exact_or_double(args, collation) {
        ty if ty.kind == Kind::Double => {
            let mut ty = ColumnType::double();
            ty.decimals = 0;
            ty
        }
        ty if ty.kind == Kind::Decimal && ty.length >= 18 + u32::from(ty.decimals) => {
            let digits = ty.length.saturating_sub(u32::from(ty.decimals)) + 1;
            ColumnType::decimal(u8::try_from(digits).unwrap_or(65).min(65), 0)
        }
        ty => {
            let mut whole = ColumnType::bigint();
            whole.unsigned = ty.unsigned && ty.is_integer();
            whole
        }
    }
}

fn rounded(args: &[Expr], collation: Collation) -> ColumnType {
    let ty = exact_or_double(args, collation);
    let places = args.get(1).map_or(Some(0), |e| {
        constant_integer(e).and_then(|n| u8::try_from(n.clamp(0, 30)).ok())
    });
    match (ty.kind, places) {
        (Kind::Decimal, Some(places)) => {
            // One more digit, which rounding up may need.
            let whole = ty.length.saturating_sub(u32::from(ty.decimals)) + 1;
            // No digits are added.
            let places = places.min(ty.decimals);
            let digits = whole + u32::from(places);
            let digits = u8::try_from(digits).unwrap_or(65).min(65);
            ColumnType::decimal(digits, places)
        }
        _ => ty,
    }
}

/// The value of a constant integer expression: literals, casts to integers, and `+`, `-`, `*`.
fn constant_integer(e: &Expr) -> Option<i128> {
    match &e.kind {
        ExprKind::Const(Value::Int(n)) => Some(i128::from(*n)),
        ExprKind::Const(Value::UInt(n)) => Some(i128::from(*n)),
        ExprKind::Cast(arg) if e.ty.is_integer() => {
            constant_integer(arg).filter(|n| *n >= 0 || !e.ty.unsigned)
        }
        ExprKind::Negate(arg) => constant_integer(arg)?.checked_neg(),
        ExprKind::Arith(op, args) => {
            let [a, b] = &**args;
            let (a, b) = (constant_integer(a)?, constant_integer(b)?);
            match op {
                ArithOp::Add => a.checked_add(b),
                ArithOp::Sub => a.checked_sub(b),
                ArithOp::Mul => a.checked_mul(b),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The result of a function, or error 1690.
fn finite<'a>(value: f64, c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    if value.is_finite() {
        Ok(ValueRef::Double(value))
    } else {
        Err(out_of_range("DOUBLE", c))
    }
}

fn out_of_range(ty: &str, c: &Call<'_, '_>) -> SqlError {
    SqlError::out_of_range(ty, &describe_call(c))
}

fn power_of_ten(places: u32) -> Decimal {
    let power = 10i128.checked_pow(places).unwrap_or(i128::MAX);
    Decimal::from_i128(power, 0).unwrap_or(Decimal::ZERO)
}

fn six_decimals_type(_: &[Expr], _: Collation) -> ColumnType {
    let mut ty = ColumnType::double();
    ty.decimals = 6;
    ty
}

/// A function of one double; NULL outside of its domain (a NaN result).
fn of_double<'a>(c: &Call<'_, 'a>, f: fn(f64) -> f64) -> Result<ValueRef<'a>> {
    match c.double(0)?.map(f).filter(|v| !v.is_nan()) {
        Some(value) => finite(value, c),
        None => Ok(ValueRef::Null),
    }
}

/// A logarithm: NULL with warning 3020 for arguments that are not positive.
fn of_positive<'a>(c: &Call<'_, 'a>, f: fn(f64) -> f64) -> Result<ValueRef<'a>> {
    match c.double(0)? {
        Some(value) if value > 0.0 => Ok(ValueRef::Double(f(value))),
        Some(_) => no_logarithm(c),
        None => Ok(ValueRef::Null),
    }
}

fn no_logarithm<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let text = "Invalid argument for logarithm".to_owned();
    c.cx.env.warn_or_fail(3020, "2201E", text)?;
    Ok(ValueRef::Null)
}

fn atan<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    if c.len() < 2 {
        return of_double(c, f64::atan);
    }
    let angle = c.double(0)?.zip(c.double(1)?).map(|(y, x)| y.atan2(x));
    Ok(angle.map_or(ValueRef::Null, ValueRef::Double))
}

fn bit_count<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (value, ty) = c.arg(0);
    if let (ValueRef::Bytes(bytes), Some(ty)) = (value, ty)
        && ty.collation == Collation::BINARY
    {
        let ones: u32 = bytes.iter().map(|b| b.count_ones()).sum();
        return Ok(ValueRef::Int(i64::from(ones)));
    }
    let Some(ty) = ty else {
        return Ok(ValueRef::Null);
    };
    let bits = convert::bits(value, ty, c.cx)?;
    Ok(bits.map_or(ValueRef::Null, |b| ValueRef::Int(i64::from(b.count_ones()))))
}

fn abs<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    Ok(match c.values.first() {
        Some(ValueRef::Int(v)) => {
            let positive = v.checked_abs().map(ValueRef::Int);
            positive.ok_or_else(|| out_of_range("BIGINT", c))?
        }
        Some(v @ ValueRef::UInt(_)) => *v,
        Some(ValueRef::Decimal(v)) => ValueRef::Decimal(v.abs()),
        _ => c
            .double(0)?
            .map_or(ValueRef::Null, |v| ValueRef::Double(v.abs())),
    })
}

fn sign<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let sign = c
        .double(0)?
        .map(|v| v.partial_cmp(&0.0).map_or(0, |o| o as i64));
    Ok(sign.map_or(ValueRef::Null, ValueRef::Int))
}

fn round_to_integer<'a>(c: &Call<'_, 'a>, up: bool) -> Result<ValueRef<'a>> {
    Ok(match c.values.first() {
        Some(v @ (ValueRef::Int(_) | ValueRef::UInt(_))) => *v,
        Some(ValueRef::Decimal(v)) => {
            let whole = if up { v.ceil() } else { v.floor() };
            let whole = whole.map_err(|_| out_of_range("DECIMAL", c))?;
            match c.ty.kind {
                Kind::Decimal => ValueRef::Decimal(whole),
                _ => {
                    let number = whole.to_i64();
                    ValueRef::Int(number.ok_or_else(|| out_of_range("BIGINT", c))?)
                }
            }
        }
        _ => {
            let value = c.double(0)?;
            value.map_or(ValueRef::Null, |v| {
                ValueRef::Double(if up { v.ceil() } else { v.floor() })
            })
        }
    })
}

fn round<'a>(c: &Call<'_, 'a>, cut: bool) -> Result<ValueRef<'a>> {
    let places = match c.len() {
        2 => match (c.values.get(1), c.int(1)?) {
            // Beyond the range of signed integers, too.
            (Some(ValueRef::UInt(places)), _) => i64::try_from(*places).map_or(30, |p| p.min(30)),
            (_, Some(places)) => places.clamp(-70, 30),
            (_, None) => return Ok(ValueRef::Null),
        },
        _ => 0,
    };
    let range = |_| out_of_range("DECIMAL", c);
    Ok(match c.values.first() {
        Some(v @ (ValueRef::Int(_) | ValueRef::UInt(_))) if places >= 0 => *v,
        Some(ValueRef::Int(v)) => {
            let wide = round_integer(i128::from(*v), places, cut);
            ValueRef::Int(i64::try_from(wide).map_err(|_| out_of_range("BIGINT", c))?)
        }
        Some(ValueRef::UInt(v)) => {
            let wide = round_integer(i128::from(*v), places, cut);
            let wide = u64::try_from(wide);
            ValueRef::UInt(wide.map_err(|_| out_of_range("BIGINT UNSIGNED", c))?)
        }
        Some(ValueRef::Decimal(v)) => {
            let scale = u8::try_from(places).unwrap_or(0);
            ValueRef::Decimal(match (cut, places < 0) {
                (true, false) => v.truncate(scale),
                (true, true) => {
                    let places = u32::try_from(-places).unwrap_or(0);
                    let back = v.truncate(0).div_int(power_of_ten(places)).map_err(range)?;
                    let back = back.unwrap_or(Decimal::ZERO);
                    back.mul(power_of_ten(places)).map_err(range)?
                }
                (false, false) => v.round(scale.min(v.scale())).map_err(range)?,
                (false, true) => {
                    let places = u32::try_from(-places).unwrap_or(0);
                    v.round_integer(places).map_err(range)?
                }
            })
        }
        _ => match c.double(0)? {
            None => ValueRef::Null,
            Some(v) => ValueRef::Double(round_f64(v, i32::try_from(places).unwrap_or(0), cut)),
        },
    })
}

fn round_integer(wide: i128, places: i64, cut: bool) -> i128 {
    let Some(unit) = u32::try_from(-places)
        .ok()
        .and_then(|p| 10i128.checked_pow(p))
    else {
        return 0;
    };
    let rest = wide % unit;
    let mut result = wide - rest;
    if !cut && rest.abs() * 2 >= unit {
        result += unit * rest.signum();
    }
    result
}

fn power<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    match (c.double(0)?, c.double(1)?) {
        (Some(base), Some(exponent)) => finite(base.powf(exponent), c),
        _ => Ok(ValueRef::Null),
    }
}

fn log<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    if c.len() < 2 {
        return of_positive(c, f64::ln);
    }
    match (c.double(0)?, c.double(1)?) {
        (Some(base), _) if base <= 0.0 => no_logarithm(c),
        (Some(base), Some(v)) if base == 1.0 || v <= 0.0 => no_logarithm(c),
        (Some(base), Some(v)) => Ok(ValueRef::Double(v.ln() / base.ln())),
        _ => Ok(ValueRef::Null),
    }
}

fn modulo<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (Some(a), Some(b)) = (c.double(0)?, c.double(1)?) else {
        return Ok(ValueRef::Null);
    };
    Ok(if b == 0.0 {
        ValueRef::Null
    } else {
        ValueRef::Double(a % b)
    })
}

/// RAND(): xorshift from the session's state. RAND(n): MySQL's generator, seeded at the start
/// of each statement, and for each row if n is not constant.
fn rand<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(seed) = c.args.first() else {
        let mut state = c.cx.env.random.get() | 1;
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        c.cx.env.random.set(state);
        return Ok(ValueRef::Double((state >> 11) as f64 / (1u64 << 53) as f64));
    };
    let number = c.int(0)?.unwrap_or(0) as u32;
    let fresh = Seeded::new(number);
    let mut running = c.cx.env.seeded.borrow_mut();
    let key = std::ptr::from_ref(seed).addr();
    let state = running.entry(key).or_insert(fresh);
    if !seed.is_constant() {
        *state = fresh;
    }
    Ok(ValueRef::Double(state.next_number()))
}

fn common_type(args: &[Expr], collation: Collation) -> ColumnType {
    let all = |test: fn(&ColumnType) -> bool| {
        let passes = |e: &Expr| test(&e.ty) || e.ty.kind == Kind::Null;
        args.iter().all(passes)
    };
    if all(ColumnType::is_numeric) || all(is_temporal) {
        let branches: Vec<&Expr> = args.iter().collect();
        return merged_type(&branches, collation);
    }
    let mut ty = joined(args, collation);
    ty.collation = common_collation(args, collation);
    ty
}

fn extreme<'a>(c: &Call<'_, 'a>, wanted: Ordering) -> Result<ValueRef<'a>> {
    let dated = c.args.iter().any(|a| has_date(&a.ty));
    if dated && c.ty.is_string() {
        return extreme_moment(c, wanted);
    }
    let mut best: Option<(ValueRef<'a>, &Expr)> = None;
    for (value, arg) in c.values.iter().copied().zip(c.args) {
        if value.is_null() {
            return Ok(ValueRef::Null);
        }
        best = match best {
            None => Some((value, arg)),
            Some((least, from)) => {
                let how = if c.ty.is_string() {
                    CompareAs::Bytes(c.ty.collation)
                } else {
                    comparison_type(&from.ty, &arg.ty)
                };
                let order = convert::order(how, value, &arg.ty, least, &from.ty, c.cx)?;
                if order == Some(wanted) {
                    Some((value, arg))
                } else {
                    Some((least, from))
                }
            }
        };
    }
    match best {
        Some((value, arg)) => convert::cast(value, &arg.ty, c.ty, c.cx),
        None => Ok(ValueRef::Null),
    }
}

fn has_date(ty: &ColumnType) -> bool {
    is_temporal(ty) && ty.kind != Kind::Time
}

/// GREATEST and LEAST of dates, texts and numbers: compared as dates with times, and returned as text in
/// the form of the argument that is a date. NULL if another argument is not a date.
fn extreme_moment<'a>(c: &Call<'_, 'a>, wanted: Ordering) -> Result<ValueRef<'a>> {
    let mut best: Option<DateTime> = None;
    for (value, arg) in c.values.iter().copied().zip(c.args) {
        if value.is_null() {
            return Ok(ValueRef::Null);
        }
        let Some(moment) = convert::datetime(value, &arg.ty, c.cx)? else {
            return Ok(ValueRef::Null);
        };
        best = match best {
            Some(before) if moment.cmp(&before) != wanted => Some(before),
            _ => Some(moment),
        };
    }
    let timed = |a: &&Expr| matches!(a.ty.kind, Kind::DateTime | Kind::Timestamp);
    let shown = match c.args.iter().find(timed) {
        Some(arg) => arg.ty.clone(),
        None => ColumnType::date(),
    };
    let Some(moment) = best else {
        return Ok(ValueRef::Null);
    };
    let from = ColumnType::datetime(6);
    let value = convert::cast(ValueRef::DateTime(moment), &from, &shown, c.cx)?;
    convert::cast(value, &shown, c.ty, c.cx)
}

/// The number of the text of an ENUM or SET.
fn member_number<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (value, Some(ty)) = c.arg(0) else {
        return Ok(ValueRef::Null);
    };
    let ValueRef::Bytes(text) = value else {
        return Ok(value);
    };
    Ok(ValueRef::UInt(convert::member_number(text, ty)))
}

/// The registry entries.
pub const FUNCTIONS: &[Function] = &[
    Function {
        // A name with a space cannot be called: the binder uses it for columns of derived tables.
        name: "MEMBER NUMBER",
        args: (1, 1),
        constant: true,
        nullable: Nullable::IfArgument,
        ty: super::unsigned,
        run: member_number,
        doc: "The number of the text of an ENUM or SET.",
        example: ("", ""),
    },
    f!("ABS", (1, 1), exact_or_double, IfArgument, abs, "The absolute value.", "ABS(-5)" => "5"),
    f!("SIGN", (1, 1), bigint, IfArgument, sign, "-1, 0 or 1.", "SIGN(-2.5)" => "-1"),
    f!("FLOOR", (1, 1), whole, IfArgument, |c| round_to_integer(c, false), "The next integer below.", "FLOOR(-1.5)" => "-2"),
    f!("CEIL", (1, 1), whole, IfArgument, |c| round_to_integer(c, true), "The next integer above.", "CEIL(1.2)" => "2"),
    f!("CEILING", (1, 1), whole, IfArgument, |c| round_to_integer(c, true), "The next integer above.", "CEILING(-1.2)" => "-1"),
    f!("ROUND", (1, 2), rounded, IfArgument, |c| round(c, false), "Rounded to a number of decimals.", "ROUND(2.345, 2)" => "2.35"),
    f!("TRUNCATE", (2, 2), rounded, IfArgument, |c| round(c, true), "Truncated to a number of decimals.", "TRUNCATE(2.349, 2)" => "2.34"),
    f!("POW", (2, 2), double, IfArgument, power, "A power.", "POW(2, 10)" => "1024"),
    f!("POWER", (2, 2), double, IfArgument, power, "A power.", "POWER(2, -1)" => "0.5"),
    f!("SQRT", (1, 1), double, Always, |c| of_double(c, f64::sqrt), "The square root.", "SQRT(16)" => "4"),
    f!("EXP", (1, 1), double, Always, |c| of_double(c, f64::exp), "e to the power.", "EXP(0)" => "1"),
    f!("LN", (1, 1), double, Always, |c| of_positive(c, f64::ln), "The natural logarithm.", "LN(1)" => "0"),
    f!("LOG", (1, 2), double, Always, log, "A logarithm, natural or to the base given first.", "LOG(2, 8)" => "3"),
    f!("LOG2", (1, 1), double, Always, |c| of_positive(c, f64::log2), "The logarithm to base 2.", "LOG2(8)" => "3"),
    f!("LOG10", (1, 1), double, Always, |c| of_positive(c, f64::log10), "The logarithm to base 10.", "LOG10(100)" => "2"),
    f!("SIN", (1, 1), double, IfArgument, |c| of_double(c, f64::sin), "The sine.", "SIN(0)" => "0"),
    f!("COS", (1, 1), double, IfArgument, |c| of_double(c, f64::cos), "The cosine.", "COS(0)" => "1"),
    f!("COT", (1, 1), double, Always, |c| of_double(c, |x| 1.0 / x.tan()), "Cotangent.", "ROUND(COT(12), 6)" => "-1.572673"),
    f!("ASIN", (1, 1), double, Always, |c| of_double(c, f64::asin), "Arc sine; NULL outside of -1 to 1.", "ASIN(0)" => "0"),
    f!("ACOS", (1, 1), double, Always, |c| of_double(c, f64::acos), "Arc cosine; NULL outside of -1 to 1.", "ACOS(1)" => "0"),
    f!("ATAN", (1, 2), double, Always, atan, "Arc tangent, of one argument or of y and x.", "ATAN(0)" => "0"),
    f!("ATAN2", (2, 2), double, Always, atan, "Arc tangent of y and x.", "ROUND(ATAN2(-2, 2), 6)" => "-0.785398"),
    f!("DEGREES", (1, 1), double, Always, |c| of_double(c, f64::to_degrees), "Radians in degrees.", "DEGREES(PI())" => "180"),
    f!("RADIANS", (1, 1), double, Always, |c| of_double(c, f64::to_radians), "Degrees in radians.", "ROUND(RADIANS(90), 6)" => "1.570796"),
    f!("BIT_COUNT", (1, 1), bigint, IfArgument, bit_count, "Number of bits that are set.", "BIT_COUNT(29)" => "4"),
    f!("TAN", (1, 1), double, IfArgument, |c| of_double(c, f64::tan), "The tangent.", "TAN(0)" => "0"),
    f!("FMOD", (2, 2), double, Always, modulo, "The remainder of a division of doubles.", "FMOD(5.5, 2)" => "1.5"),
    f!("PI", (0, 0), six_decimals_type, Never, |_| Ok(ValueRef::Double(std::f64::consts::PI)), "Pi.", "ROUND(PI(), 4)" => "3.1416"),
    Function {
        name: "RAND",
        args: (0, 1),
        constant: false,
        nullable: Nullable::Never,
        ty: double,
        run: rand,
        doc: "A random number from 0 to below 1; with a seed, always the same.",
        example: ("RAND(3) < 1", "1"),
    },
    f!("GREATEST", (2, 65_535), common_type, IfArgument, |c| extreme(c, Ordering::Greater), "The greatest argument.", "GREATEST(3, 12, 5)" => "12"),
    f!("LEAST", (2, 65_535), common_type, IfArgument, |c| extreme(c, Ordering::Less), "The least argument.", "LEAST('b', 'a')" => "a"),
];
