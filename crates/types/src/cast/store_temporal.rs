//! Assignment to dates and times.

use super::expression::{read_datetime, read_time_number};
use super::store::Target;
use super::{CastCx, fail_or_warn, text_of};
use crate::column_type::ColumnType;
use crate::error::{ER_DATETIME_FUNCTION_OVERFLOW, TypeError};
use crate::temporal::{DateRules, DateTime, Time};
use crate::value::{Value, ValueRef};

/// The earliest TIMESTAMP, one second after the epoch, in microseconds.
const TIMESTAMP_MIN: i64 = 1_000_000;
/// Exclusive upper bound: 2038-01-19 03:14:08.
const TIMESTAMP_END: i64 = (1 << 31) * 1_000_000;

fn shown_text(value: ValueRef<'_>, to: &Target<'_>) -> Vec<u8> {
    let plain = match value {
        ValueRef::DateTime(d) => ColumnType::datetime(if d.micros() > 0 { 6 } else { 0 }),
        ValueRef::Time(t) => ColumnType::time(if t.micros() > 0 { 6 } else { 0 }),
        ValueRef::Double(_) => ColumnType::double(),
        _ => ColumnType::bigint(),
    };
    let ty = match value {
        ValueRef::Bytes(_) => to.ty,
        _ => &plain,
    };
    text_of(value, ty).unwrap_or_default().into_owned()
}

/// Converts to a date and time that the SQL mode permits; otherwise the zero date, with an error in
/// strict mode.
fn read(
    value: ValueRef<'_>,
    what: &str,
    to: &Target<'_>,
    cx: &mut CastCx<'_>,
) -> Result<DateTime, TypeError> {
    let rules = cx.date_rules();
    let parsed = read_datetime(value, rules, cx);
    if let Some(parsed) = parsed {
        if parsed.truncated {
            to.incorrect_temporal(what, &shown_text(value, to), true, cx)?;
        }
        return Ok(parsed.value);
    }
    // The warning depends on the cause: "truncated" for text that is not a date, "out of range" for
    // a date that is not permitted.
    let lenient = DateRules {
        allow_invalid: true,
        ..DateRules::LENIENT
    };
    let is_date = read_datetime(value, lenient, cx).is_some();
    let is_truncation = !is_date && !is_outside(value);
    to.incorrect_temporal(what, &shown_text(value, to), is_truncation, cx)?;
    Ok(DateTime::ZERO)
}

pub(super) fn store_date(
    value: ValueRef<'_>,
    to: &Target<'_>,
    cx: &mut CastCx<'_>,
) -> Result<Value, TypeError> {
    let full = read(value, "date", to, cx)?;
    // A fraction of half a second before midnight or more leads to the next day.
    let Some(full) = full.round(0, cx.truncate_fraction()) else {
        let message = "Datetime function: datetime field overflow".to_owned();
        let error = TypeError::new(ER_DATETIME_FUNCTION_OVERFLOW, message);
        fail_or_warn(cx, error)?;
        return Ok(Value::Date(DateTime::ZERO.date()));
    };
    if full.micros_of_day() != 0 {
        let shown = match value {
            ValueRef::Bytes(_) | ValueRef::Int(_) | ValueRef::UInt(_) => shown_text(value, to),
            ValueRef::Double(_) | ValueRef::Decimal(_) => shown_text(value, to),
            _ => shown_text(ValueRef::DateTime(full), to),
        };
        to.shortened_temporal("date", &shown, cx);
    }
    Ok(Value::Date(full.date()))
}

/// Whether a number is out of the range of dates and times.
fn is_outside(value: ValueRef<'_>) -> bool {
    const LARGEST: i64 = 99_991_231_235_959;
    match value {
        ValueRef::Int(v) => !(0..=LARGEST).contains(&v),
        ValueRef::UInt(v) => v > LARGEST as u64,
        ValueRef::Double(v) => v < 0.0 || v > LARGEST as f64,
        ValueRef::Decimal(v) => {
            v.to_i64().is_none_or(|v| !(0..=LARGEST).contains(&v)) || v.is_negative()
        }
        _ => false,
    }
}

/// Rounded to the column's fractional digits.
fn rounded(
    value: ValueRef<'_>,
    to: &Target<'_>,
    cx: &mut CastCx<'_>,
) -> Result<DateTime, TypeError> {
    let full = read(value, "datetime", to, cx)?;
    match full.round(to.ty.decimals, cx.truncate_fraction()) {
        Some(rounded) => Ok(rounded),
        None => {
            to.incorrect_temporal("datetime", &shown_text(value, to), false, cx)?;
            Ok(DateTime::ZERO)
        }
    }
}

pub(super) fn store_datetime(
    value: ValueRef<'_>,
    to: &Target<'_>,
    cx: &mut CastCx<'_>,
) -> Result<Value, TypeError> {
    rounded(value, to, cx).map(Value::DateTime)
}

pub(super) fn store_timestamp(
    value: ValueRef<'_>,
    to: &Target<'_>,
    cx: &mut CastCx<'_>,
) -> Result<Value, TypeError> {
    let local = rounded(value, to, cx)?;
    if local == DateTime::ZERO {
        return Ok(Value::DateTime(local));
    }
    let utc = cx.tz.local_to_utc(local).or_else(|| {
        if cx.strict {
            None
        } else {
            cx.tz.local_to_utc_lenient(local)
        }
    });
    match utc {
        Some(utc) if (TIMESTAMP_MIN..TIMESTAMP_END).contains(&utc.to_unix_micros()) => {
            Ok(Value::DateTime(utc))
        }
        _ => {
            to.incorrect_temporal("datetime", &shown_text(value, to), false, cx)?;
            Ok(Value::DateTime(DateTime::ZERO))
        }
    }
}

pub(super) fn store_time(
    value: ValueRef<'_>,
    to: &Target<'_>,
    cx: &mut CastCx<'_>,
) -> Result<Value, TypeError> {
    let time = match value {
        ValueRef::Time(t) => t,
        ValueRef::Date(_) => Time::ZERO,
        ValueRef::DateTime(d) => d.time(),
        other => {
            let parsed = match other {
                ValueRef::Bytes(text) => Time::parse(text),
                number => read_time_number(number),
            };
            match parsed {
                None => {
                    to.incorrect_temporal("time", &shown_text(value, to), true, cx)?;
                    Time::ZERO
                }
                Some(parsed) => {
                    if parsed.truncated || parsed.clipped {
                        let text = shown_text(value, to);
                        to.incorrect_temporal("time", &text, !parsed.clipped, cx)?;
                    }
                    parsed.value
                }
            }
        }
    };
    if matches!(value, ValueRef::Date(_) | ValueRef::DateTime(_)) {
        to.shortened_temporal("time", &shown_text(value, to), cx);
    }
    Ok(Value::Time(
        time.round(to.ty.decimals, cx.truncate_fraction()),
    ))
}
