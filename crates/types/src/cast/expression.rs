//! Conversions in expressions. Each returns `None` only for NULL, except conversions to dates and
//! times, which also return `None` for an invalid value.

use super::number::{double_prefix, int_prefix, only_spaces_from, round_to_i64, round_to_u64};
use super::{CastCx, format_for_message, text_of};
use crate::column_type::{ColumnType, Kind};
use crate::decimal::{Decimal, DecimalError};
use crate::error::{ER_TRUNCATED_WRONG_VALUE, ER_UNKNOWN_ERROR};
use crate::temporal::{Date, DateRules, DateTime, ParsedDateTime, ParsedTime, Time};
use crate::text::{storage_to_sql, write_double, write_text};
use crate::value::ValueRef;

/// Converts a temporal value to a number with its fraction, as in a numeric context.
fn temporal_decimal(v: ValueRef<'_>) -> Option<Decimal> {
    let (whole, micros) = match v {
        ValueRef::Date(d) => (d.to_number(), 0),
        ValueRef::DateTime(d) => (d.to_number(), d.micros()),
        ValueRef::Time(t) => (t.to_number(), t.micros()),
        _ => return None,
    };
    let negative = matches!(v, ValueRef::Time(t) if t.is_negative());
    let scaled = i128::from(whole.unsigned_abs()) * 1_000_000 + i128::from(micros);
    let scaled = if negative { -scaled } else { scaled };
    if micros == 0 {
        return Some(Decimal::from_i64(whole));
    }
    Decimal::from_i128(scaled, 6).ok()
}

/// Converts a temporal value to an integer, with its fraction rounded.
fn temporal_int(v: ValueRef<'_>) -> i64 {
    let rounded = match v {
        ValueRef::DateTime(d) => ValueRef::DateTime(d.round(0, false).unwrap_or(d)),
        ValueRef::Time(t) => ValueRef::Time(t.round(0, false)),
        _ => v,
    };
    temporal_decimal(rounded)
        .and_then(|d| d.truncate(0).to_i64())
        .unwrap_or(0)
}

/// Replaces values that are numbers in a numeric context: ENUM and SET by their storage values,
/// BIT, binary and JSON values by numbers where possible.
fn numeric_view<'a>(v: ValueRef<'a>, ty: &ColumnType, cx: &mut CastCx<'_>) -> ValueRef<'a> {
    match (ty.kind, v) {
        // Bytes of a BIT value are a big-endian number.
        (Kind::Bit, ValueRef::Bytes(b)) if b.len() <= 8 => {
            ValueRef::UInt(b.iter().fold(0, |n, byte| n << 8 | u64::from(*byte)))
        }
        // Hexadecimal and bit literals, too: bytes of an unsigned type. One of more than 64 bits is 0.
        (Kind::VarBinary, ValueRef::Bytes(b)) if ty.unsigned && b.len() > 8 => {
            let digits: String = b.iter().map(|byte| format!("{byte:02x}")).collect();
            cx.truncated_incorrect("BINARY", format!("x'{digits}'").as_bytes());
            ValueRef::UInt(0)
        }
        (Kind::VarBinary, ValueRef::Bytes(b)) if ty.unsigned => {
            ValueRef::UInt(b.iter().fold(0, |n, byte| n << 8 | u64::from(*byte)))
        }
        // A JSON boolean is a number; a JSON string is converted like its text.
        (Kind::Json, ValueRef::Bytes(b"true")) => ValueRef::Int(1),
        (Kind::Json, ValueRef::Bytes(b"false")) => ValueRef::Int(0),
        // JSON doubles are rounded; a numeric prefix of a text is not.
        (Kind::Json, ValueRef::Bytes(text)) if text.contains(&b'.') || text.contains(&b'e') => {
            let number = std::str::from_utf8(text).ok().and_then(|t| t.parse().ok());
            number.map_or(json_text(v, ty), ValueRef::Double)
        }
        (Kind::Json, _) => json_text(v, ty),
        _ => v,
    }
}

/// Returns the text of a JSON string without quotation marks, and other values unchanged.
fn json_text<'a>(v: ValueRef<'a>, ty: &ColumnType) -> ValueRef<'a> {
    match v {
        ValueRef::Bytes([b'"', text @ .., b'"']) if ty.kind == Kind::Json => ValueRef::Bytes(text),
        _ => v,
    }
}

/// CAST AS SIGNED: decimals are rounded half away from zero, doubles half to even; text is
/// converted by its integer prefix.
pub fn to_i64(v: ValueRef<'_>, ty: &ColumnType, cx: &mut CastCx<'_>) -> Option<i64> {
    Some(match numeric_view(v, ty, cx) {
        ValueRef::Null => return None,
        ValueRef::Int(v) => v,
        ValueRef::UInt(v) => v as i64,
        ValueRef::Double(v) => {
            let (rounded, outside) = round_to_i64(v);
            if outside {
                cx.truncated_incorrect("INTEGER", &double_text(v));
            }
            rounded
        }
        ValueRef::Decimal(d) => d.to_i64().unwrap_or_else(|| {
            cx.truncated_incorrect("DECIMAL", d.to_string().as_bytes());
            if d.is_negative() { i64::MIN } else { i64::MAX }
        }),
        ValueRef::Bytes(text) => text_to_int(text, false, cx) as i64,
        temporal => temporal_int(temporal),
    })
}

/// CAST AS UNSIGNED: as [`to_i64`]; negative numbers give their two's complement.
pub fn to_u64(v: ValueRef<'_>, ty: &ColumnType, cx: &mut CastCx<'_>) -> Option<u64> {
    Some(match numeric_view(v, ty, cx) {
        ValueRef::Null => return None,
        ValueRef::Int(v) => v as u64,
        ValueRef::UInt(v) => v,
        ValueRef::Double(v) if v < 0.0 => {
            let (rounded, outside) = round_to_i64(v);
            if outside {
                cx.truncated_incorrect("INTEGER", &double_text(v));
            }
            rounded as u64
        }
        ValueRef::Double(v) => {
            let (rounded, outside) = round_to_u64(v);
            if outside {
                cx.truncated_incorrect("INTEGER", &double_text(v));
            }
            rounded
        }
        ValueRef::Decimal(d) => {
            let exact = if d.is_negative() {
                d.to_i64().map(|v| v as u64)
            } else {
                d.to_u64()
            };
            exact.unwrap_or_else(|| {
                cx.truncated_incorrect("DECIMAL", d.to_string().as_bytes());
                if d.is_negative() {
                    i64::MIN as u64
                } else {
                    u64::MAX
                }
            })
        }
        ValueRef::Bytes(text) => text_to_int(text, true, cx),
        temporal => temporal_int(temporal) as u64,
    })
}

fn double_text(v: f64) -> Vec<u8> {
    let mut out = Vec::with_capacity(24);
    write_double(v, &mut out);
    out
}

/// Converts the integer prefix of a text, to two's complement.
fn text_to_int(text: &[u8], unsigned: bool, cx: &mut CastCx<'_>) -> u64 {
    let prefix = int_prefix(text);
    let fits = match (prefix.magnitude, prefix.negative) {
        (Some(m), true) => m <= 1 << 63,
        (Some(_), false) => true,
        (None, _) => false,
    };
    if !fits || prefix.read == 0 || !only_spaces_from(text, prefix.read) {
        cx.truncated_incorrect("INTEGER", text);
    }
    match (prefix.magnitude.filter(|_| fits), prefix.negative) {
        (Some(m), true) => {
            if unsigned && m > 0 && prefix.read > 0 {
                cx.warn(
                    ER_UNKNOWN_ERROR,
                    "Cast to unsigned converted negative integer to its positive complement".into(),
                );
            }
            m.wrapping_neg()
        }
        (Some(m), false) => {
            if !unsigned && m > i64::MAX as u64 {
                cx.warn(
                    ER_UNKNOWN_ERROR,
                    "Cast to signed converted positive out-of-range integer to its negative \
                     complement"
                        .into(),
                );
            }
            m
        }
        (None, true) => i64::MIN as u64,
        (None, false) if unsigned => u64::MAX,
        (None, false) => i64::MAX as u64,
    }
}

/// Converts to a double; text by its numeric prefix.
pub fn to_f64(v: ValueRef<'_>, ty: &ColumnType, cx: &mut CastCx<'_>) -> Option<f64> {
    Some(match numeric_view(v, ty, cx) {
        ValueRef::Null => return None,
        ValueRef::Int(v) => v as f64,
        ValueRef::UInt(v) => v as f64,
        ValueRef::Double(v) => v,
        ValueRef::Decimal(d) => d.to_f64(),
        ValueRef::Bytes(text) => {
            let prefix = double_prefix(text);
            if prefix.overflow || prefix.read == 0 || !only_spaces_from(text, prefix.read) {
                cx.truncated_incorrect("DOUBLE", text);
            }
            prefix.value
        }
        temporal => temporal_decimal(temporal).map_or(0.0, Decimal::to_f64),
    })
}

/// Converts to a decimal of the value's own scale; text by its numeric prefix.
pub fn to_decimal(v: ValueRef<'_>, ty: &ColumnType, cx: &mut CastCx<'_>) -> Option<Decimal> {
    Some(match numeric_view(v, ty, cx) {
        ValueRef::Null => return None,
        ValueRef::Int(v) => Decimal::from_i64(v),
        ValueRef::UInt(v) => Decimal::from_u64(v),
        ValueRef::Double(v) => match Decimal::from_f64(v) {
            Ok(d) => d,
            Err(e) => {
                cx.truncated_incorrect("DECIMAL", &double_text(v));
                let max = Decimal::max_value(65, 0);
                match (e, v < 0.0) {
                    (DecimalError::Invalid, _) => Decimal::ZERO,
                    (DecimalError::Overflow, true) => max.neg(),
                    (DecimalError::Overflow, false) => max,
                }
            }
        },
        ValueRef::Decimal(d) => d,
        ValueRef::Bytes(text) => {
            let prefix = Decimal::parse_prefix(text);
            if prefix.overflow || prefix.read == 0 || !only_spaces_from(text, prefix.read) {
                cx.truncated_incorrect("DECIMAL", text);
            }
            prefix.value
        }
        temporal => temporal_decimal(temporal).unwrap_or(Decimal::ZERO),
    })
}

/// Converts as [`to_decimal`], but a text that is not a number gives the warning of [`to_f64`].
pub fn to_exact_number(v: ValueRef<'_>, ty: &ColumnType, cx: &mut CastCx<'_>) -> Option<Decimal> {
    let ValueRef::Bytes(text) = v else {
        return to_decimal(v, ty, cx);
    };
    let prefix = Decimal::parse_prefix(text);
    if prefix.overflow || prefix.read == 0 || !only_spaces_from(text, prefix.read) {
        to_f64(v, ty, cx);
    }
    Some(exact_prefix(text))
}

/// The decimal at the start of a text. A number that is not zero, but too small for a decimal, becomes the smallest
/// decimal with its sign, so that it equals no integer.
#[must_use]
pub fn exact_prefix(text: &[u8]) -> Decimal {
    let prefix = Decimal::parse_prefix(text);
    if !prefix.value.is_zero() {
        return prefix.value;
    }
    let number = text.get(..prefix.read).map(<[u8]>::trim_ascii);
    let number = number.and_then(|n| std::str::from_utf8(n).ok()?.parse::<f64>().ok());
    match number {
        Some(n) if n > 0.0 => Decimal::parse_prefix(b"1e-30").value,
        Some(n) if n < 0.0 => Decimal::parse_prefix(b"-1e-30").value,
        _ => Decimal::ZERO,
    }
}

/// Converts to a boolean: whether it is a nonzero number.
pub fn to_bool(v: ValueRef<'_>, ty: &ColumnType, cx: &mut CastCx<'_>) -> Option<bool> {
    Some(match v {
        ValueRef::Null => return None,
        ValueRef::Int(v) => v != 0,
        ValueRef::UInt(v) => v != 0,
        ValueRef::Double(v) => v != 0.0,
        ValueRef::Decimal(d) => !d.is_zero(),
        ValueRef::Bytes(_) => to_f64(v, ty, cx)? != 0.0,
        ValueRef::Date(d) => !d.is_zero(),
        ValueRef::DateTime(d) => d != DateTime::ZERO,
        ValueRef::Time(t) => t != Time::ZERO,
    })
}

/// Appends the value's text as in CONCAT. Returns false, and appends nothing, for NULL.
pub fn to_text(v: ValueRef<'_>, ty: &ColumnType, out: &mut Vec<u8>) -> bool {
    write_text(v, ty, out);
    !v.is_null()
}

/// Splits a number of the form `YYYYMMDD...` into its integer and microseconds.
fn split_number(v: ValueRef<'_>) -> Option<(i64, u32)> {
    let d = match v {
        ValueRef::Int(v) => return Some((v, 0)),
        ValueRef::UInt(v) => return i64::try_from(v).ok().map(|v| (v, 0)),
        ValueRef::Double(v) => Decimal::from_f64(v).ok()?,
        ValueRef::Decimal(d) => d,
        _ => return None,
    };
    let d = d.round(6).ok()?;
    let whole = d.truncate(0);
    let micros = d
        .sub(whole)
        .ok()?
        .abs()
        .mul(Decimal::from_i64(1_000_000))
        .ok()?
        .to_i64()?;
    Some((whole.to_i64()?, u32::try_from(micros).ok()?))
}

/// Converts a number to a time; numbers beyond 64 bits are clipped like others out of range.
pub(super) fn read_time_number(v: ValueRef<'_>) -> Option<ParsedTime> {
    let Some((whole, micros)) = split_number(v) else {
        let negative = match v {
            ValueRef::Double(v) => v < 0.0,
            ValueRef::Decimal(d) => d.is_negative(),
            _ => false,
        };
        let value = if negative { Time::MIN } else { Time::MAX };
        return Some(ParsedTime {
            value,
            truncated: false,
            clipped: true,
        });
    };
    Time::from_number(whole, micros).map(|parsed| match v {
        // The integer part is 0, so the sign is only in the fraction.
        ValueRef::Double(v) if whole == 0 && v < 0.0 => negated(parsed),
        ValueRef::Decimal(d) if whole == 0 && d.is_negative() => negated(parsed),
        _ => parsed,
    })
}

fn negated(parsed: ParsedTime) -> ParsedTime {
    ParsedTime {
        value: Time::clip(-parsed.value.as_micros()).0,
        ..parsed
    }
}

/// Converts text or a number to a date and time; `None` if it is invalid. Emits no warnings.
pub(super) fn read_datetime(
    v: ValueRef<'_>,
    rules: DateRules,
    cx: &CastCx<'_>,
) -> Option<ParsedDateTime> {
    let of = |value| ParsedDateTime {
        value,
        truncated: false,
        date_only: false,
        offset: None,
        fraction_digits: 0,
    };
    match v {
        ValueRef::Null => None,
        ValueRef::Date(d) => d.check(rules).then(|| ParsedDateTime {
            date_only: true,
            ..of(d.at_midnight())
        }),
        ValueRef::DateTime(d) => d.date().check(rules).then(|| of(d)),
        ValueRef::Time(t) => t.on(cx.now.date()).map(of),
        ValueRef::Bytes(text) => {
            let parsed = DateTime::parse(text, rules)?;
            match parsed.offset {
                None => Some(parsed),
                // A value with an offset is an instant: converts it to the session's time zone.
                Some(offset) => {
                    let utc = parsed.value.add_micros(i64::from(offset) * -1_000_000)?;
                    Some(ParsedDateTime {
                        value: cx.tz.utc_to_local(utc),
                        ..parsed
                    })
                }
            }
        }
        number => {
            let (whole, micros) = split_number(number)?;
            DateTime::from_number(whole, micros, rules).map(of)
        }
    }
}

/// Rules for dates in expressions: a zero month or day is accepted, because date functions return
/// parts of such dates; a zero date depends on the SQL mode.
fn expression_rules(cx: &CastCx<'_>) -> DateRules {
    DateRules {
        no_zero_in_date: false,
        ..cx.date_rules()
    }
}

/// Converts to a date and time with microseconds (the caller rounds to the desired fsp); NULL with
/// a warning if it is invalid. A TIME counts from midnight of the current day.
pub fn to_datetime(v: ValueRef<'_>, ty: &ColumnType, cx: &mut CastCx<'_>) -> Option<DateTime> {
    datetime_or_warn(v, ty, "datetime", cx)
}

fn datetime_or_warn(
    v: ValueRef<'_>,
    ty: &ColumnType,
    what: &str,
    cx: &mut CastCx<'_>,
) -> Option<DateTime> {
    let v = json_text(v, ty);
    let sql = storage_to_sql(v, ty);
    if let ValueRef::DateTime(d) = sql {
        return Some(d);
    }
    if sql.is_null() {
        return None;
    }
    let rules = match sql {
        ValueRef::Date(_) => DateRules::LENIENT,
        _ => expression_rules(cx),
    };
    match read_datetime(sql, rules, cx) {
        Some(parsed) => {
            if parsed.truncated {
                let text = text_of(sql, ty).unwrap_or_default();
                cx.truncated_incorrect(what, &text);
            }
            Some(parsed.value)
        }
        None => {
            let text = text_of(sql, ty).unwrap_or_default();
            let message = format!("Incorrect {what} value: '{}'", format_for_message(&text));
            cx.warn(ER_TRUNCATED_WRONG_VALUE, message);
            None
        }
    }
}

/// Converts to a date; NULL with a warning if it is invalid.
pub fn to_date(v: ValueRef<'_>, ty: &ColumnType, cx: &mut CastCx<'_>) -> Option<Date> {
    if let ValueRef::Date(d) = v {
        return Some(d);
    }
    datetime_or_warn(v, ty, "datetime", cx).map(DateTime::date)
}

/// Converts to a time with microseconds (the caller rounds to the desired fsp); NULL with a warning
/// if it is invalid, clipped with a warning beyond 838:59:59.
pub fn to_time(v: ValueRef<'_>, ty: &ColumnType, cx: &mut CastCx<'_>) -> Option<Time> {
    let sql = storage_to_sql(json_text(v, ty), ty);
    let parsed = match sql {
        ValueRef::Null => return None,
        ValueRef::Time(t) => return Some(t),
        ValueRef::Date(_) => return Some(Time::ZERO),
        ValueRef::DateTime(d) => return Some(d.time()),
        ValueRef::Bytes(text) => Time::parse(text),
        number => read_time_number(number),
    };
    let text = || text_of(sql, ty).unwrap_or_default();
    match parsed {
        Some(parsed) => {
            if parsed.truncated || parsed.clipped {
                cx.truncated_incorrect("time", &text());
            }
            Some(parsed.value)
        }
        None => {
            cx.incorrect("time", &text());
            None
        }
    }
}
