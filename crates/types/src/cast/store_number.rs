//! Assignment to numbers.

use super::CastCx;
use super::expression::{to_decimal, to_f64};
use super::number::{double_prefix, only_spaces_from, round_to_i64};
use super::store::Target;
use crate::column_type::{ColumnType, Kind, NOT_FIXED_DECIMALS};
use crate::decimal::Decimal;
use crate::error::TypeError;
use crate::value::{Value, ValueRef};

/// Converts to an integer within `low..=high`, with rounding; otherwise returns an error or the
/// nearest bound.
fn int_within(
    value: ValueRef<'_>,
    low: i128,
    high: i128,
    to: &Target<'_>,
    cx: &mut CastCx<'_>,
) -> Result<i128, TypeError> {
    let mut garbage = false;
    let wide = wide_int(value, &mut garbage, to, cx)?;
    if wide < low || wide > high {
        to.out_of_range(cx)?;
    } else if garbage {
        to.truncated(cx)?;
    }
    Ok(wide.clamp(low, high))
}

/// Converts to an integer, with rounding, clamped to 128 bits. `garbage` is true if other text
/// follows the number.
fn wide_int(
    value: ValueRef<'_>,
    garbage: &mut bool,
    to: &Target<'_>,
    cx: &mut CastCx<'_>,
) -> Result<i128, TypeError> {
    Ok(match value {
        ValueRef::Int(v) => i128::from(v),
        ValueRef::UInt(v) => i128::from(v),
        // The conversion saturates, far beyond every column's range.
        ValueRef::Double(v) => v.round_ties_even() as i128,
        ValueRef::Decimal(d) => decimal_to_wide(d),
        ValueRef::Bytes(text) => {
            if let Some(n) = plain_int(text) {
                return Ok(i128::from(n));
            }
            let prefix = Decimal::parse_prefix(text);
            if prefix.read == 0 {
                to.incorrect("integer", text, cx)?;
            }
            *garbage = prefix.read > 0 && !only_spaces_from(text, prefix.read);
            decimal_to_wide(prefix.value)
        }
        temporal => {
            let number = to_decimal(temporal, to.ty, cx).unwrap_or(Decimal::ZERO);
            decimal_to_wide(number)
        }
    })
}

/// The number of a text of up to 18 digits, with a minus sign or none, and nothing else.
fn plain_int(text: &[u8]) -> Option<i64> {
    let (digits, is_negative) = match text {
        [b'-', digits @ ..] => (digits, true),
        digits => (digits, false),
    };
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let mut n = 0;
    for byte in digits {
        n = n * 10 + i64::from(byte.is_ascii_digit().then(|| byte - b'0')?);
    }
    Some(if is_negative { -n } else { n })
}

fn decimal_to_wide(d: Decimal) -> i128 {
    let exact = d
        .to_i64()
        .map(i128::from)
        .or_else(|| d.to_u64().map(i128::from));
    exact.unwrap_or(if d.is_negative() {
        i128::MIN
    } else {
        i128::MAX
    })
}

pub(super) fn store_int(
    value: ValueRef<'_>,
    to: &Target<'_>,
    cx: &mut CastCx<'_>,
) -> Result<Value, TypeError> {
    let (low, high) = to.ty.int_range();
    let clamped = int_within(value, low, high, to, cx)?;
    Ok(if to.ty.unsigned {
        Value::UInt(clamped as u64)
    } else {
        Value::Int(clamped as i64)
    })
}

/// The greatest value of FLOAT(M,D) and DOUBLE(M,D).
fn fixed_max(ty: &ColumnType) -> f64 {
    let digits = i32::try_from(ty.length).unwrap_or(255) - i32::from(ty.decimals);
    10f64.powi(digits) - 10f64.powi(-i32::from(ty.decimals))
}

/// The value with `decimals` digits that MySQL stores in FLOAT(M,D) and DOUBLE(M,D): only the fraction above
/// the next lower integer is rounded, so that halves that are not exact in binary may be rounded up or down.
#[must_use]
pub fn round_to_digits(v: f64, decimals: u8) -> f64 {
    let scale = 10f64.powi(i32::from(decimals));
    let floor = v.floor();
    let fraction = ((v - floor) * scale).round_ties_even() / scale;
    let rounded = floor + fraction;
    if rounded.is_finite() { rounded } else { v }
}

pub(super) fn store_real(
    value: ValueRef<'_>,
    to: &Target<'_>,
    cx: &mut CastCx<'_>,
) -> Result<Value, TypeError> {
    let mut v = match value {
        ValueRef::Bytes(text) => {
            let prefix = double_prefix(text);
            if prefix.overflow {
                to.out_of_range(cx)?;
            } else if prefix.read == 0 || !only_spaces_from(text, prefix.read) {
                to.truncated(cx)?;
            }
            prefix.value
        }
        other => to_f64(other, to.ty, cx).unwrap_or(0.0),
    };
    if v.is_nan() || (to.ty.unsigned && v < 0.0) {
        to.out_of_range(cx)?;
        v = 0.0;
    }
    let mut max = if to.ty.kind == Kind::Float {
        f64::from(f32::MAX)
    } else {
        f64::MAX
    };
    if to.ty.decimals < NOT_FIXED_DECIMALS && to.ty.length > 0 {
        max = max.min(fixed_max(to.ty));
        v = round_to_digits(v, to.ty.decimals);
    }
    if v.abs() > max {
        to.out_of_range(cx)?;
        v = max.copysign(v);
    }
    Ok(Value::Double(if to.ty.kind == Kind::Float {
        f64::from(v as f32)
    } else {
        v
    }))
}

pub(super) fn store_decimal(
    value: ValueRef<'_>,
    to: &Target<'_>,
    cx: &mut CastCx<'_>,
) -> Result<Value, TypeError> {
    let precision = u8::try_from(to.ty.length).unwrap_or(u8::MAX);
    let scale = to.ty.decimals;
    let mut overflow = false;
    let d = match value {
        ValueRef::Bytes(text) => {
            let prefix = Decimal::parse_prefix(text);
            if prefix.read == 0 {
                to.incorrect("decimal", text, cx)?;
            } else if !prefix.overflow && !only_spaces_from(text, prefix.read) {
                to.truncated(cx)?;
            }
            overflow = prefix.overflow;
            prefix.value
        }
        ValueRef::Double(v) => match Decimal::from_f64(v) {
            Ok(d) => d,
            Err(_) => {
                overflow = true;
                if v < 0.0 {
                    Decimal::from_i64(-1)
                } else {
                    Decimal::ZERO
                }
            }
        },
        other => to_decimal(other, to.ty, cx).unwrap_or(Decimal::ZERO),
    };
    if to.ty.unsigned && d.is_negative() {
        to.out_of_range(cx)?;
        return Ok(Value::Decimal(
            Decimal::ZERO.rescale(scale).unwrap_or(Decimal::ZERO),
        ));
    }
    let rounded = d
        .rescale(scale)
        .ok()
        .filter(|r| !overflow && r.fits(precision, scale));
    let Some(rounded) = rounded else {
        to.out_of_range(cx)?;
        let max = Decimal::max_value(precision, scale);
        return Ok(Value::Decimal(if d.is_negative() {
            max.neg()
        } else {
            max
        }));
    };
    if d.scale() > scale && rounded.cmp_value(&d).is_ne() {
        to.truncated_note(cx);
    }
    Ok(Value::Decimal(rounded))
}

pub(super) fn store_bit(
    value: ValueRef<'_>,
    to: &Target<'_>,
    cx: &mut CastCx<'_>,
) -> Result<Value, TypeError> {
    let bits = to.ty.length.clamp(1, 64);
    let max = u64::MAX >> (64 - bits);
    let wide = match value {
        ValueRef::Bytes(text) => {
            let start = text.iter().take_while(|b| **b == 0).count();
            let text = text.get(start..).unwrap_or_default();
            if text.len() > 8 {
                i128::MAX
            } else {
                i128::from(text.iter().fold(0u64, |v, b| v << 8 | u64::from(*b)))
            }
        }
        // A negative number is stored as its two's complement bits.
        ValueRef::Int(v) => i128::from(v as u64),
        ValueRef::Double(v) => i128::from(round_to_i64(v.trunc()).0 as u64),
        other => int_within(other, 0, i128::from(u64::MAX), to, cx)?,
    };
    match u64::try_from(wide) {
        Ok(v) if v <= max => Ok(Value::UInt(v)),
        _ => {
            if cx.strict {
                to.too_long(cx)?;
            }
            if cx.mode.is_strict() {
                // With IGNORE.
                to.warn_too_long(cx);
            } else {
                to.out_of_range(cx)?;
            }
            Ok(Value::UInt(max))
        }
    }
}

pub(super) fn store_year(
    value: ValueRef<'_>,
    to: &Target<'_>,
    cx: &mut CastCx<'_>,
) -> Result<Value, TypeError> {
    let mut garbage = false;
    let year = match value {
        ValueRef::Date(d) => i128::from(d.year()),
        ValueRef::DateTime(d) => i128::from(d.year()),
        ValueRef::Time(_) => i128::from(cx.now.year()),
        ValueRef::Bytes(text) => {
            let v = wide_int(value, &mut garbage, to, cx)?;
            // As text, zero is the year 2000 unless it has four digits.
            if v == 0 && text.len() != 4 && text.first().is_some_and(u8::is_ascii_digit) {
                2000
            } else {
                v
            }
        }
        other => wide_int(other, &mut garbage, to, cx)?,
    };
    let year = match year {
        1..=69 => year + 2000,
        70..=99 => year + 1900,
        _ => year,
    };
    if year == 0 || (1901..=2155).contains(&year) {
        if garbage {
            to.truncated(cx)?;
        }
        return Ok(Value::UInt(year as u64));
    }
    to.out_of_range(cx)?;
    Ok(Value::UInt(0))
}
