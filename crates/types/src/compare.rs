//! Comparison of values.
//!
//! There are two steps: [`comparison_type`] chooses the domain of the comparison from the types
//! alone, once per statement (MySQL's "Type Conversion in Expression Evaluation"); [`compare`]
//! compares two values in that domain.
//!
//! | operands | compared as |
//! |---|---|
//! | JSON with anything but NULL | JSON values |
//! | strings, ENUM, SET | text of a collation |
//! | integers | integers |
//! | integers and DECIMAL | decimals |
//! | an integer column and a constant text (chosen by the caller) | exact numbers |
//! | DATE with DATE, TIME with TIME | themselves |
//! | a date or datetime with anything but a floating-point number | date and time |
//! | TIME with text or a number | time |
//! | two numbers with fixed digits after the point, one of them FLOAT(M,D) or DOUBLE(M,D) (chosen by the caller) | doubles with fixed digits |
//! | anything else | doubles |

use std::cmp::Ordering;

use crate::cast::{
    CastCx, to_date, to_datetime, to_decimal, to_exact_number, to_f64, to_i64, to_time,
};
use crate::collation::{Charset, Collation};
use crate::column_type::{ColumnType, Kind};
use crate::json;
use crate::temporal::{DateTime, Time};
use crate::value::ValueRef;

/// Domain in which two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareAs {
    /// Integers, signed and unsigned by their values.
    Int,
    /// Decimals.
    Decimal,
    /// Integers with constant texts, as exact decimals, because doubles have too few digits. A text
    /// that is not a number gives the same warning as in a comparison of doubles.
    Number,
    /// Doubles.
    Double,
    /// Doubles with at most this number of digits after the point, from FLOAT(M,D) or DOUBLE(M,D): they are equal if
    /// they differ by less than half a unit of the last digit.
    FixedDouble(u8),
    /// Text of a collation.
    Bytes(Collation),
    /// Dates with times.
    DateTime,
    /// Times.
    Time,
    /// Dates.
    Date,
    /// JSON documents; the caller converts other values by their types.
    Json,
}

#[derive(Clone, Copy, PartialEq)]
enum Class {
    Null,
    Json,
    Int,
    Decimal,
    Real,
    Text,
    Date,
    DateTime,
    Time,
}

fn class(ty: &ColumnType) -> Class {
    match ty.kind {
        Kind::Null => Class::Null,
        Kind::Json => Class::Json,
        Kind::Float | Kind::Double => Class::Real,
        Kind::Decimal => Class::Decimal,
        Kind::Date => Class::Date,
        Kind::DateTime | Kind::Timestamp => Class::DateTime,
        Kind::Time => Class::Time,
        _ if ty.is_integer() => Class::Int,
        _ => Class::Text,
    }
}

/// Returns the collation for a comparison of two texts if neither was given explicitly: `binary` if
/// either is, else the `_bin` one, else the one of a Unicode character set, else the first.
#[must_use]
pub fn common_collation(a: Collation, b: Collation) -> Collation {
    let unicode = |c: Collation| c.charset().is_unicode();
    if a == b {
        a
    } else if a == Collation::BINARY || b == Collation::BINARY {
        Collation::BINARY
    } else if a.charset() == b.charset() {
        if b.is_ci() { a } else { b }
    } else if a.charset() == Charset::Utf8mb4 || (unicode(a) && !unicode(b)) {
        a
    } else if unicode(b) || a.charset() == Charset::Ascii {
        b
    } else {
        a
    }
}

/// The domain in which operands of these types are compared.
#[must_use]
pub fn comparison_type(a: &ColumnType, b: &ColumnType) -> CompareAs {
    let text = || CompareAs::Bytes(common_collation(a.collation, b.collation));
    match (class(a), class(b)) {
        (Class::Null, Class::Null) => CompareAs::Int,
        (Class::Null, _) => same_type(b),
        (_, Class::Null) => same_type(a),
        (Class::Json, _) | (_, Class::Json) => CompareAs::Json,
        (Class::Text, Class::Text) => text(),
        (Class::Int, Class::Int) => CompareAs::Int,
        (Class::Int | Class::Decimal, Class::Int | Class::Decimal) => CompareAs::Decimal,
        (Class::Real, _) | (_, Class::Real) => CompareAs::Double,
        (Class::Date, Class::Date) => CompareAs::Date,
        (Class::Date | Class::DateTime, _) | (_, Class::Date | Class::DateTime) => {
            CompareAs::DateTime
        }
        (Class::Time, _) | (_, Class::Time) => CompareAs::Time,
        _ => CompareAs::Double,
    }
}

/// The domain in which two values of this one type are compared: the order of a column's keys. ENUM
/// and SET compare by their numbers here, as in ORDER BY.
#[must_use]
pub fn same_type(ty: &ColumnType) -> CompareAs {
    match class(ty) {
        _ if matches!(ty.kind, Kind::Enum | Kind::Set) => CompareAs::Int,
        Class::Null | Class::Int => CompareAs::Int,
        Class::Decimal => CompareAs::Decimal,
        Class::Real => CompareAs::Double,
        Class::Text => CompareAs::Bytes(ty.collation),
        Class::Date => CompareAs::Date,
        Class::DateTime => CompareAs::DateTime,
        Class::Time => CompareAs::Time,
        Class::Json => CompareAs::Json,
    }
}

/// Compares two values; `None` if one is NULL. In a comparison of dates or times, a value that is not one
/// counts as the zero date or time. Text is in the character set of the collation. ENUM values are members
/// ([`crate::storage_to_sql`]) and SET values text, except in numeric comparisons.
pub fn compare(
    a: ValueRef<'_>,
    b: ValueRef<'_>,
    how: CompareAs,
    cx: &mut CastCx<'_>,
) -> Option<Ordering> {
    if a.is_null() || b.is_null() {
        return None;
    }
    if let Some(order) = compare_direct(a, b, how) {
        return Some(order);
    }
    // The casts below convert values whose type is that of their variant, so that any type without
    // members and character set will do.
    let plain = ColumnType::double();
    match how {
        CompareAs::Int => Some(to_i64(a, &plain, cx)?.cmp(&to_i64(b, &plain, cx)?)),
        CompareAs::Decimal => {
            Some(to_decimal(a, &plain, cx)?.cmp_value(&to_decimal(b, &plain, cx)?))
        }
        CompareAs::Number => {
            Some(to_exact_number(a, &plain, cx)?.cmp_value(&to_exact_number(b, &plain, cx)?))
        }
        CompareAs::Double => Some(compare_doubles(
            to_f64(a, &plain, cx)?,
            to_f64(b, &plain, cx)?,
        )),
        CompareAs::FixedDouble(digits) => Some(compare_fixed(
            to_f64(a, &plain, cx)?,
            to_f64(b, &plain, cx)?,
            digits,
        )),
        CompareAs::Bytes(collation) => {
            let (a, b) = (printed(a), printed(b));
            Some(collation.compare(&a, &b))
        }
        CompareAs::Json => {
            let (a, b) = (printed(a), printed(b));
            Some(a.cmp(&b))
        }
        // A value that is not a date is the zero date here, as in MySQL and MariaDB, not NULL.
        CompareAs::DateTime => {
            let mut moment = |v| to_datetime(v, &plain, cx).unwrap_or(DateTime::ZERO);
            Some(moment(a).cmp(&moment(b)))
        }
        CompareAs::Date => {
            let mut date = |v| to_date(v, &plain, cx).unwrap_or(DateTime::ZERO.date());
            Some(date(a).cmp(&date(b)))
        }
        CompareAs::Time => {
            let mut time = |v| to_time(v, &plain, cx).unwrap_or(Time::ZERO);
            Some(time(a).cmp(&time(b)))
        }
    }
}

/// A value as text.
fn printed(v: ValueRef<'_>) -> std::borrow::Cow<'_, [u8]> {
    if let ValueRef::Bytes(b) = v {
        return b.into();
    }
    let ty = match v {
        ValueRef::DateTime(d) => ColumnType::datetime(if d.micros() > 0 { 6 } else { 0 }),
        ValueRef::Time(t) => ColumnType::time(if t.micros() > 0 { 6 } else { 0 }),
        _ => ColumnType::double(),
    };
    let mut out = Vec::with_capacity(32);
    crate::text::write_text(v, &ty, &mut out);
    out.into()
}

/// Compares two values that need no conversion, without a context; `None` for others and for NULL.
#[inline]
#[must_use]
pub fn compare_direct(a: ValueRef<'_>, b: ValueRef<'_>, how: CompareAs) -> Option<Ordering> {
    use ValueRef::{Bytes, Date, DateTime, Decimal, Double, Int, Time, UInt};
    Some(match (how, a, b) {
        (CompareAs::Int | CompareAs::Decimal, Int(a), Int(b)) => a.cmp(&b),
        (CompareAs::Int | CompareAs::Decimal, UInt(a), UInt(b)) => a.cmp(&b),
        (CompareAs::Int | CompareAs::Decimal, Int(a), UInt(b)) => {
            u64::try_from(a).map_or(Ordering::Less, |a| a.cmp(&b))
        }
        (CompareAs::Int | CompareAs::Decimal, UInt(a), Int(b)) => {
            u64::try_from(b).map_or(Ordering::Greater, |b| a.cmp(&b))
        }
        (CompareAs::Decimal, Decimal(a), Decimal(b)) => a.cmp_value(&b),
        (CompareAs::Double, Double(a), Double(b)) => compare_doubles(a, b),
        (CompareAs::FixedDouble(digits), Double(a), Double(b)) => compare_fixed(a, b, digits),
        (CompareAs::Bytes(collation), Bytes(a), Bytes(b)) => collation.compare(a, b),
        // Equal texts are equal documents, but not conversely: 1 equals 1.0.
        (CompareAs::Json, Bytes(a), Bytes(b)) if a == b => Ordering::Equal,
        (CompareAs::Json, Bytes(a), Bytes(b)) => match (json::parse(a), json::parse(b)) {
            (Ok(a), Ok(b)) => json::order(&a, &b),
            _ => a.cmp(b),
        },
        (CompareAs::DateTime, DateTime(a), DateTime(b)) => a.cmp(&b),
        (CompareAs::DateTime, Date(a), DateTime(b)) => a.at_midnight().cmp(&b),
        (CompareAs::DateTime, DateTime(a), Date(b)) => a.cmp(&b.at_midnight()),
        (CompareAs::DateTime | CompareAs::Date, Date(a), Date(b)) => a.cmp(&b),
        (CompareAs::Time, Time(a), Time(b)) => a.cmp(&b),
        _ => return None,
    })
}

/// Compares doubles that have this number of digits after the point.
fn compare_fixed(a: f64, b: f64, digits: u8) -> Ordering {
    if (a - b).abs() < 5.0 / 10f64.powi(i32::from(digits) + 1) {
        return Ordering::Equal;
    }
    compare_doubles(a, b)
}

/// Compares doubles: -0 equals 0; NaN, which SQL does not have, is the greatest.
fn compare_doubles(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b)
        .unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}
