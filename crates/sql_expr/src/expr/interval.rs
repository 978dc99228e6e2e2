//! Intervals: `date + INTERVAL n unit`, DATE_ADD, EXTRACT (manual, "Temporal Intervals"). Compound
//! units take text such as '1:30'.

use super::eval::EvalCx;
use super::{Expr, Unit, convert};
use crate::error::Result;
use porpoise_types::temporal::Interval;
use porpoise_types::{ColumnType, DateTime, Kind, Time, ValueRef};

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// A field of a compound interval unit.
#[derive(Clone, Copy)]
enum Field {
    Months(i64),
    Days(i64),
    Micros(i64),
    /// A fraction of a second, read as up to six digits.
    Fraction,
}

/// The fields of a unit, most significant first.
fn fields(unit: Unit) -> &'static [Field] {
    use Field::{Days, Fraction, Micros, Months};
    match unit {
        Unit::Microsecond => &[Micros(1)],
        Unit::Second => &[Micros(SECOND)],
        Unit::Minute => &[Micros(MINUTE)],
        Unit::Hour => &[Micros(HOUR)],
        Unit::Day => &[Days(1)],
        Unit::Week => &[Days(7)],
        Unit::Month => &[Months(1)],
        Unit::Quarter => &[Months(3)],
        Unit::Year => &[Months(12)],
        Unit::SecondMicrosecond => &[Micros(SECOND), Fraction],
        Unit::MinuteMicrosecond => &[Micros(MINUTE), Micros(SECOND), Fraction],
        Unit::MinuteSecond => &[Micros(MINUTE), Micros(SECOND)],
        Unit::HourMicrosecond => &[Micros(HOUR), Micros(MINUTE), Micros(SECOND), Fraction],
        Unit::HourSecond => &[Micros(HOUR), Micros(MINUTE), Micros(SECOND)],
        Unit::HourMinute => &[Micros(HOUR), Micros(MINUTE)],
        Unit::DayMicrosecond => &[
            Days(1),
            Micros(HOUR),
            Micros(MINUTE),
            Micros(SECOND),
            Fraction,
        ],
        Unit::DaySecond => &[Days(1), Micros(HOUR), Micros(MINUTE), Micros(SECOND)],
        Unit::DayMinute => &[Days(1), Micros(HOUR), Micros(MINUTE)],
        Unit::DayHour => &[Days(1), Micros(HOUR)],
        Unit::YearMonth => &[Months(12), Months(1)],
    }
}

/// Converts `amount` to an interval of `unit`.
///
/// # Errors
/// The errors of converting the amount.
pub fn interval(
    amount: ValueRef<'_>,
    ty: &ColumnType,
    unit: Unit,
    cx: &EvalCx<'_>,
) -> Result<Option<Interval>> {
    let fields = fields(unit);
    if fields.len() == 1 {
        if unit == Unit::Second {
            let seconds = convert::decimal(amount, ty, cx)?.round(6).ok();
            let micros = seconds.and_then(|s| {
                (s.to_f64() * SECOND as f64)
                    .round()
                    .to_string()
                    .parse()
                    .ok()
            });
            return Ok(micros.map(|micros| Interval {
                micros,
                ..Interval::default()
            }));
        }
        let number = convert::int(amount, ty, cx)?;
        return Ok(fields.first().and_then(|f| of_fields(&[(*f, number)])));
    }
    let text = convert::text(amount, ty, cx)?.unwrap_or_default();
    let negative = text.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'-');
    let numbers: Vec<&[u8]> = text
        .split(|b| !b.is_ascii_digit())
        .filter(|part| !part.is_empty())
        .collect();
    // With fewer numbers than fields, the leading fields are missing.
    let skip = fields.len().saturating_sub(numbers.len());
    let pairs: Vec<(Field, i64)> = fields
        .iter()
        .skip(skip)
        .zip(&numbers)
        .map(|(field, digits)| (*field, number(*field, digits)))
        .collect();
    let whole = of_fields(&pairs);
    Ok(if negative {
        whole.and_then(Interval::checked_neg)
    } else {
        whole
    })
}

fn number(field: Field, digits: &[u8]) -> i64 {
    let fold = |digits: &[u8]| {
        digits.iter().fold(0i64, |n, d| {
            n.saturating_mul(10).saturating_add(i64::from(d - b'0'))
        })
    };
    if !matches!(field, Field::Fraction) {
        return fold(digits);
    }
    let mut six = digits.to_vec();
    six.resize(6, b'0');
    fold(&six)
}

fn of_fields(pairs: &[(Field, i64)]) -> Option<Interval> {
    let mut whole = Interval::default();
    for (field, n) in pairs {
        match field {
            Field::Months(unit) => {
                whole.months = whole.months.checked_add(n.checked_mul(*unit)?)?
            }
            Field::Days(unit) => whole.days = whole.days.checked_add(n.checked_mul(*unit)?)?,
            Field::Micros(unit) => {
                whole.micros = whole.micros.checked_add(n.checked_mul(*unit)?)?
            }
            Field::Fraction => whole.micros = whole.micros.checked_add(*n)?,
        }
    }
    Some(whole)
}

/// `date + INTERVAL amount unit`, or minus. The result of a DATE stays a DATE if the unit has no
/// time fields.
pub fn date_add<'a>(
    date: (ValueRef<'a>, &Expr),
    amount: (ValueRef<'a>, &Expr),
    unit: Unit,
    negative: bool,
    e: &Expr,
    cx: &EvalCx<'a>,
) -> Result<ValueRef<'a>> {
    if date.0.is_null() || amount.0.is_null() {
        return Ok(ValueRef::Null);
    }
    let whole = interval(amount.0, &amount.1.ty, unit, cx)?;
    let whole = if negative {
        whole.and_then(Interval::checked_neg)
    } else {
        whole
    };
    if e.ty.kind == Kind::Time {
        let time = convert::time(date.0, &date.1.ty, cx)?;
        let moved = time.zip(whole).and_then(|(time, whole)| {
            let micros = whole.days.checked_mul(DAY)?.checked_add(whole.micros)?;
            Time::from_micros(time.as_micros().checked_add(micros)?)
        });
        return Ok(moved.map_or(ValueRef::Null, ValueRef::Time));
    }
    let Some(start) = convert::datetime(date.0, &date.1.ty, cx)? else {
        return Ok(ValueRef::Null);
    };
    let Some(end) = whole.and_then(|whole| start.add(whole)) else {
        let message = "Datetime function: datetime field overflow".to_owned();
        cx.env.warn_or_fail(1441, "22008", message)?;
        return Ok(ValueRef::Null);
    };
    Ok(match e.ty.kind {
        Kind::Date => ValueRef::Date(end.date()),
        Kind::DateTime | Kind::Timestamp => ValueRef::DateTime(end),
        _ => {
            // The result of text is text, with a time if the argument or the unit has one.
            let mut text = Vec::new();
            let plain = end.time().as_micros() == 0 && !has_time(date.0);
            if plain {
                end.date().write_text(&mut text)
            } else {
                end.write_text(if end.micros() == 0 { 0 } else { 6 }, &mut text)
            }
            ValueRef::Bytes(cx.arena.alloc_slice_copy(&text))
        }
    })
}

fn has_time(value: ValueRef<'_>) -> bool {
    matches!(value, ValueRef::Bytes(text) if text.len() > 10)
}

/// EXTRACT(unit FROM value).
pub fn extract<'a>(
    unit: Unit,
    value: ValueRef<'a>,
    ty: &ColumnType,
    cx: &EvalCx<'a>,
) -> Result<ValueRef<'a>> {
    if value.is_null() {
        return Ok(ValueRef::Null);
    }
    let of_date = matches!(
        unit,
        Unit::Day | Unit::Week | Unit::Month | Unit::Quarter | Unit::Year | Unit::YearMonth
    );
    // For text, hours to microseconds are read as those of a time, which may follow a date.
    let dated = matches!(ty.kind, Kind::Date | Kind::DateTime | Kind::Timestamp);
    let with_day = matches!(
        unit,
        Unit::DayHour | Unit::DayMinute | Unit::DaySecond | Unit::DayMicrosecond
    );
    if let (true, ValueRef::Bytes(text)) = (with_day, value)
        && !is_date_text(text)
    {
        let time = convert::time(value, ty, cx)?;
        return Ok(time.map_or(ValueRef::Null, |t| ValueRef::Int(of_time(unit, t))));
    }
    if of_date || dated || (with_day && ty.kind != Kind::Time) {
        let moment = convert::datetime(value, ty, cx)?;
        return Ok(moment.map_or(ValueRef::Null, |m| ValueRef::Int(of_datetime(unit, m))));
    }
    let time = convert::time(value, ty, cx)?;
    Ok(time.map_or(ValueRef::Null, |t| ValueRef::Int(of_time(unit, t))))
}

/// Whether text has a date, as opposed to a time that may begin with a number of days.
fn is_date_text(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    let year = text.iter().take_while(|b| b.is_ascii_digit()).count();
    // A time has its first separator after the days or hours; digits alone are HHMMSS up to seven.
    match text.get(year) {
        None | Some(b'.') => year > 7,
        Some(b':') => false,
        Some(b' ') => year > 5,
        Some(_) => year > 0,
    }
}

/// Fields of the clock, with a sign. The hours of a time are not divided into days.
fn of_time(unit: Unit, t: Time) -> i64 {
    let sign = if t.is_negative() { -1 } else { 1 };
    let hours = i64::from(t.hour());
    sign * of_clock(unit, 0, hours, t.minute(), t.second(), t.micros())
}

fn of_datetime(unit: Unit, m: DateTime) -> i64 {
    match unit {
        Unit::Year => i64::from(m.year()),
        Unit::Quarter => i64::from(m.month().div_ceil(3)),
        Unit::Month => i64::from(m.month()),
        Unit::Week => i64::from(m.date().week(0).1),
        Unit::Day => i64::from(m.day()),
        Unit::YearMonth => i64::from(m.year()) * 100 + i64::from(m.month()),
        _ => of_clock(
            unit,
            i64::from(m.day()),
            i64::from(m.hour()),
            m.minute(),
            m.second(),
            m.micros(),
        ),
    }
}

fn of_clock(unit: Unit, day: i64, hour: i64, minute: u8, second: u8, micros: u32) -> i64 {
    let (minute, second, micros) = (i64::from(minute), i64::from(second), i64::from(micros));
    match unit {
        Unit::Microsecond => micros,
        Unit::Second => second,
        Unit::Minute => minute,
        Unit::Hour => hour,
        Unit::SecondMicrosecond => second * SECOND + micros,
        Unit::MinuteSecond => minute * 100 + second,
        Unit::MinuteMicrosecond => (minute * 100 + second) * SECOND + micros,
        Unit::HourMinute => hour * 100 + minute,
        Unit::HourSecond => (hour * 100 + minute) * 100 + second,
        Unit::HourMicrosecond => ((hour * 100 + minute) * 100 + second) * SECOND + micros,
        Unit::DayHour => day * 100 + hour,
        Unit::DayMinute => (day * 100 + hour) * 100 + minute,
        Unit::DaySecond => ((day * 100 + hour) * 100 + minute) * 100 + second,
        Unit::DayMicrosecond => {
            (((day * 100 + hour) * 100 + minute) * 100 + second) * SECOND + micros
        }
        _ => 0,
    }
}
