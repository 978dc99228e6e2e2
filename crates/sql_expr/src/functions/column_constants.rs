//! Constants compared with columns of another type: MySQL compares with the value that the column would store
//! for the constant (manual, "The YEAR Type"; optimizer, constant folding).
//!
//! The binder wraps such constants in these functions. A constant that the column cannot store is
//! compared as it is.

use super::{Call, Function, Nullable, bigint, double};
use crate::error::Result;
use porpoise_types::{Kind, ValueRef, double_prefix, round_to_digits, round_to_i64};

/// The years that a YEAR column can store, besides 0.
const YEARS: std::ops::RangeInclusive<i64> = 1901..=2155;

/// The year that a YEAR column stores for a constant. A constant that it cannot store is returned, rounded so that it
/// equals no year.
fn year<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (value, _) = c.arg(0);
    let number = match value {
        ValueRef::Null => return Ok(ValueRef::Null),
        ValueRef::Date(date) => return Ok(ValueRef::Int(i64::from(date.year()))),
        ValueRef::DateTime(moment) => return Ok(ValueRef::Int(i64::from(moment.date().year()))),
        ValueRef::Bytes(text) => match text_number(text) {
            // Zero in fewer than four digits is the year 2000.
            Some(number) if number.abs() < 0.5 && text.len() != 4 => {
                return Ok(ValueRef::Int(2000));
            }
            Some(number) => number,
            None => c.double(0)?.unwrap_or(0.0),
        },
        _ => c.double(0)?.unwrap_or(0.0),
    };
    if number < 0.0 {
        return Ok(ValueRef::Int(round_to_i64(number.floor()).0));
    }
    let year = match round_to_i64(number.round()).0 {
        short @ 1..=69 => short + 2000,
        short @ 70..=99 => short + 1900,
        other => other,
    };
    let is_year = year == 0 || YEARS.contains(&year);
    let shown = if is_year {
        year
    } else {
        round_to_i64(number.ceil()).0
    };
    Ok(ValueRef::Int(shown))
}

/// The value of a text that consists of a number only.
fn text_number(text: &[u8]) -> Option<f64> {
    let prefix = double_prefix(text);
    (prefix.read > 0 && prefix.read == text.len() && !prefix.overflow).then_some(prefix.value)
}

/// The value that a FLOAT(M,D) column stores for a constant with at most D digits after the point.
fn float<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (Some(value), Some(digits)) = (c.double(0)?, c.count(1)?) else {
        return Ok(ValueRef::Null);
    };
    let digits = u8::try_from(digits).unwrap_or(0);
    let stored = round_to_digits(value, digits);
    let differs = (stored - value).abs() > value.abs() * f64::EPSILON;
    let narrow = stored as f32;
    Ok(ValueRef::Double(if differs || !narrow.is_finite() {
        value
    } else {
        f64::from(narrow)
    }))
}

/// Whether a YEAR column converts a constant of this kind.
#[must_use]
pub fn has_year(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Date
            | Kind::DateTime
            | Kind::Timestamp
            | Kind::VarChar
            | Kind::Decimal
            | Kind::Double
    ) || kind.int_bits() > 0
}

/// The registry entries.
#[rustfmt::skip]
pub const FUNCTIONS: &[Function] = &[
    f!("YEAR CONSTANT", (1, 1), bigint, IfArgument, year, "The year that a YEAR column stores for a constant.", "(SELECT y FROM JSON_TABLE('[2018]', '$[*]' COLUMNS (y YEAR PATH '$')) j WHERE y = 18)" => "2018"),
    f!("FLOAT CONSTANT", (2, 2), double, IfArgument, float, "The value that a FLOAT(M,D) column stores for a constant.", "(SELECT f FROM JSON_TABLE('[999.99]', '$[*]' COLUMNS (f FLOAT(5,2) PATH '$')) j WHERE f = 999.99)" => "999.99"),
];
