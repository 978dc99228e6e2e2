//! Date and time functions that compute or parse (manual, "Date and Time Functions"); the others
//! are in [`super::times`].

use super::{Call, Function, Nullable, bigint, text_of};
use crate::error::{Result, SqlError};
use crate::expr::{Expr, convert};
use porpoise_types::temporal::DateRules;
use porpoise_types::{
    Collation, ColumnType, Date, DateTime, Kind, Time, TimeZone, Value, ValueRef,
};

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

fn int(value: Option<i64>) -> ValueRef<'static> {
    value.map_or(ValueRef::Null, ValueRef::Int)
}

/// Whether a type is a date or date and time, rather than a time of day.
fn is_moment(ty: &ColumnType) -> bool {
    matches!(ty.kind, Kind::Date | Kind::DateTime | Kind::Timestamp)
}

/// Microseconds since the start of year 0, for arithmetic.
fn micros_of(m: DateTime) -> i64 {
    m.date().to_days() * DAY + m.time().as_micros()
}

fn moment_of(micros: i64) -> Option<DateTime> {
    let date = Date::from_days(micros.div_euclid(DAY))?;
    date.at_midnight().add_micros(micros.rem_euclid(DAY))
}

fn fsp_of(e: &Expr) -> u8 {
    match e.ty.kind {
        Kind::DateTime | Kind::Timestamp | Kind::Time => e.ty.decimals.min(6),
        Kind::Date => 0,
        _ if e.ty.is_integer() => 0,
        Kind::Decimal => e.ty.decimals.min(6),
        // Text may have a fraction, which its type does not show; a literal is inspected.
        _ => match e.as_const() {
            Some(Value::Bytes(text)) => {
                let digits = text.iter().rev().position(|b| *b == b'.').unwrap_or(0);
                u8::try_from(digits.min(6)).unwrap_or(6)
            }
            _ => 6,
        },
    }
}

fn widest(args: &[Expr]) -> u8 {
    args.iter().map(fsp_of).max().unwrap_or(0)
}

fn sum_type(args: &[Expr], collation: Collation) -> ColumnType {
    match args.first().map(|e| &e.ty) {
        Some(ty) if is_moment(ty) => ColumnType::datetime(widest(args)),
        Some(ty) if ty.kind == Kind::Time => ColumnType::time(widest(args)),
        _ => text_of(29, collation),
    }
}

/// Whether a text or a number has both a date and a time.
fn has_date_and_time(value: ValueRef<'_>) -> bool {
    /// The smallest number that has a date and a time.
    const LEAST: i64 = 10_000_000_000;
    match value {
        ValueRef::Bytes(text) => Time::begins_with_datetime(text),
        ValueRef::Int(number) => number >= LEAST,
        ValueRef::UInt(number) => number >= LEAST as u64,
        ValueRef::Double(number) => number >= LEAST as f64,
        ValueRef::Decimal(number) => number.to_f64() >= LEAST as f64,
        ValueRef::DateTime(_) => true,
        _ => false,
    }
}

/// ADDTIME, SUBTIME: text that begins with a date and a time is both, other text is a time. NULL if the second argument
/// has a date.
fn add_time<'a>(c: &Call<'_, 'a>, sign: i64) -> Result<ValueRef<'a>> {
    if has_date_and_time(c.arg(1).0) {
        return Ok(ValueRef::Null);
    }
    let Some(amount) = c.time(1)? else {
        return Ok(ValueRef::Null);
    };
    let (value, ty) = c.arg(0);
    let (false, Some(ty)) = (value.is_null(), ty) else {
        return Ok(ValueRef::Null);
    };
    let amount = sign * amount.as_micros();
    if is_moment(ty) || has_date_and_time(value) {
        let Some(moment) = c.datetime(0)? else {
            return Ok(ValueRef::Null);
        };
        let Some(sum) = moment_of(micros_of(moment) + amount) else {
            return Ok(ValueRef::Null);
        };
        if is_moment(ty) {
            return Ok(ValueRef::DateTime(sum));
        }
        let mut out = Vec::new();
        sum.write_text(if sum.micros() > 0 { 6 } else { 0 }, &mut out);
        return Ok(c.keep(&out));
    }
    let Some(time) = c.time(0)? else {
        return Ok(ValueRef::Null);
    };
    let (sum, _) = Time::clip(time.as_micros() + amount);
    if ty.kind == Kind::Time {
        return Ok(ValueRef::Time(sum));
    }
    let mut out = Vec::new();
    sum.write_text(if sum.micros() > 0 { 6 } else { 0 }, &mut out);
    Ok(c.keep(&out))
}

/// The number of the digits of a date, time, or both, that was computed from text: 20010103 for
/// '2001-01-03'.
fn temporal_number<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(text) = c.text(0)? else {
        return Ok(ValueRef::Null);
    };
    let is_dated = text.get(4) == Some(&b'-');
    let number = match text.len() {
        10 if is_dated => c.date(0)?.map(|d| (ValueRef::Date(d), ColumnType::date())),
        _ if is_dated => c
            .datetime(0)?
            .map(|m| (ValueRef::DateTime(m), ColumnType::datetime(6))),
        _ => c.time(0)?.map(|t| (ValueRef::Time(t), ColumnType::time(6))),
    };
    match number {
        Some((value, ty)) => Ok(ValueRef::Double(convert::double(value, &ty, c.cx)?)),
        None => Ok(ValueRef::Null),
    }
}

/// TIMEDIFF: both arguments are dates with times, or both are times.
fn time_diff<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let dated = |at: usize| match c.arg(at) {
        (_, Some(ty)) if is_moment(ty) => true,
        (ValueRef::Bytes(text), _) => text.iter().filter(|b| **b == b'-').count() >= 2,
        _ => false,
    };
    let difference = match (dated(0), dated(1)) {
        (true, true) => c
            .datetime(0)?
            .zip(c.datetime(1)?)
            .map(|(a, b)| micros_of(a) - micros_of(b)),
        (false, false) => c
            .time(0)?
            .zip(c.time(1)?)
            .map(|(a, b)| a.as_micros() - b.as_micros()),
        _ => None,
    };
    Ok(difference.map_or(ValueRef::Null, |d| ValueRef::Time(Time::clip(d).0)))
}

fn make_date<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (Some(year), Some(day)) = (c.int(0)?, c.int(1)?) else {
        return Ok(ValueRef::Null);
    };
    let year = match year {
        0..70 => year + 2000,
        70..100 => year + 1900,
        other => other,
    };
    let first = u16::try_from(year).ok().and_then(|y| Date::new(y, 1, 1));
    let (Some(first), true) = (first, (1..=3_652_424).contains(&day)) else {
        return Ok(ValueRef::Null);
    };
    let date = Date::from_days(first.to_days() + day - 1);
    Ok(date.map_or(ValueRef::Null, ValueRef::Date))
}

fn make_time<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (Some(hour), Some(minute), Some(second)) = (c.int(0)?, c.int(1)?, c.decimal(2)?) else {
        return Ok(ValueRef::Null);
    };
    let micros = (second.to_f64() * SECOND as f64).round() as i64;
    if !(0..60).contains(&minute) || !(0..60 * SECOND).contains(&micros) {
        return Ok(ValueRef::Null);
    }
    let hours = hour.unsigned_abs().min(10_000) as i64;
    let total = hours * 3600 * SECOND + minute * 60 * SECOND + micros;
    let total = if hour < 0 { -total } else { total };
    Ok(ValueRef::Time(Time::clip(total).0))
}

/// SEC_TO_TIME: the number of decimals of a text is unknown.
fn seconds_type(args: &[Expr], _: Collation) -> ColumnType {
    match args.first() {
        Some(e) if e.ty.is_string() => ColumnType::time(6),
        _ => ColumnType::time(widest(args)),
    }
}

fn sec_to_time<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(seconds) = c.decimal(0)? else {
        return Ok(ValueRef::Null);
    };
    let micros = (seconds.to_f64() * SECOND as f64).round();
    let (time, clipped) = Time::clip(micros as i64);
    if clipped {
        let mut text = Vec::new();
        seconds.write_text(&mut text);
        truncated(c, "time", &text)?;
    }
    Ok(ValueRef::Time(time))
}

fn truncated(c: &Call<'_, '_>, what: &str, text: &[u8]) -> Result<()> {
    let text = String::from_utf8_lossy(text);
    let message = format!("Truncated incorrect {what} value: '{text}'");
    c.cx.env.warn_or_fail(1292, "22007", message)
}

fn to_seconds(m: DateTime) -> i64 {
    micros_of(m).div_euclid(SECOND)
}

fn week<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let mode = if c.len() > 1 {
        c.int(1)?.unwrap_or(0)
    } else {
        i64::from(c.cx.env.week_format)
    };
    let date = c.date(0)?.filter(|d| !d.is_zero());
    Ok(int(date.map(|d| i64::from(d.week((mode & 7) as u8).1))))
}

fn year_week<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let mode = if c.len() > 1 {
        c.int(1)?.unwrap_or(0)
    } else {
        0
    };
    let date = c.date(0)?.filter(|d| !d.is_zero());
    Ok(int(date.map(|d| {
        let (year, week) = d.week((mode & 7) as u8 | 2);
        i64::from(year) * 100 + i64::from(week)
    })))
}

/// Months of a period YYMM or YYYYMM. Error 1210 if it is invalid.
fn months(period: i64, name: &str) -> Result<i64> {
    let (year, month) = (period / 100, period % 100);
    if period < 0 || !(1..=12).contains(&month) {
        return Err(SqlError::wrong_arguments(name));
    }
    let year = match year {
        0..70 => year + 2000,
        70..100 => year + 1900,
        other => other,
    };
    Ok(year * 12 + month - 1)
}

fn period_add<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (Some(period), Some(count)) = (c.int(0)?, c.int(1)?) else {
        return Ok(ValueRef::Null);
    };
    let sum = months(period, "period_add")?.saturating_add(count);
    let years = sum.div_euclid(12).wrapping_mul(100);
    Ok(ValueRef::Int(years.wrapping_add(sum.rem_euclid(12) + 1)))
}

fn period_diff<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (Some(a), Some(b)) = (c.int(0)?, c.int(1)?) else {
        return Ok(ValueRef::Null);
    };
    let difference = months(a, "period_diff")? - months(b, "period_diff")?;
    Ok(ValueRef::Int(difference))
}

fn timestamp<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(moment) = c.datetime(0)? else {
        return Ok(ValueRef::Null);
    };
    if c.len() < 2 {
        return Ok(ValueRef::DateTime(moment));
    }
    let Some(time) = c.time(1)? else {
        return Ok(ValueRef::Null);
    };
    let sum = moment_of(micros_of(moment) + time.as_micros());
    Ok(sum.map_or(ValueRef::Null, ValueRef::DateTime))
}

/// Whole months between two moments, rounded towards zero.
fn months_between(a: DateTime, b: DateTime) -> i64 {
    let (early, late, sign) = if a <= b { (a, b, 1) } else { (b, a, -1) };
    let months = |m: DateTime| i64::from(m.year()) * 12 + i64::from(m.month());
    let within = |m: DateTime| (m.day(), m.time().as_micros());
    let partial = within(late) < within(early);
    sign * (months(late) - months(early) - i64::from(partial))
}

fn timestamp_diff<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let unit = c.text(0)?.unwrap_or_default();
    let (Some(a), Some(b)) = (c.datetime(1)?, c.datetime(2)?) else {
        return Ok(ValueRef::Null);
    };
    let micros = micros_of(b) - micros_of(a);
    Ok(ValueRef::Int(match unit {
        b"MICROSECOND" => micros,
        b"SECOND" => micros / SECOND,
        b"MINUTE" => micros / (60 * SECOND),
        b"HOUR" => micros / (3600 * SECOND),
        b"DAY" => micros / DAY,
        b"WEEK" => micros / (7 * DAY),
        b"MONTH" => months_between(a, b),
        b"QUARTER" => months_between(a, b) / 3,
        _ => months_between(a, b) / 12,
    }))
}

fn convert_tz<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (Some(local), Some(from), Some(to)) = (c.datetime(0)?, c.text(1)?, c.text(2)?) else {
        return Ok(ValueRef::Null);
    };
    let zone = |name: &[u8]| TimeZone::parse(std::str::from_utf8(name).ok()?);
    let (Some(from), Some(to)) = (zone(from), zone(to)) else {
        return Ok(ValueRef::Null);
    };
    if local.is_zero_date() || local.month() == 0 || local.day() == 0 {
        return Ok(ValueRef::Null);
    }
    // Values outside of the range of TIMESTAMP are not converted.
    let utc = from.local_to_utc_lenient(local);
    let range = 0..32_536_771_200 * SECOND;
    Ok(match utc.filter(|u| range.contains(&u.to_unix_micros())) {
        Some(utc) => ValueRef::DateTime(to.utc_to_local(utc)),
        None => ValueRef::DateTime(local),
    })
}

/// CAST(... AT TIME ZONE 'UTC' AS DATETIME): converts a TIMESTAMP from the session's time zone to UTC.
fn at_time_zone<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let local = c.datetime(0)?;
    let utc = local.and_then(|local| c.cx.env.time_zone.local_to_utc_lenient(local));
    Ok(utc.map_or(ValueRef::Null, ValueRef::DateTime))
}

fn timestamp_type(args: &[Expr], _: Collation) -> ColumnType {
    ColumnType::datetime(widest(args))
}

fn from_days<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let date = c.int(0)?.map(Date::from_days);
    Ok(match date {
        None => ValueRef::Null,
        // A result before the first day of year 1 is the zero date.
        Some(None) => Date::new(0, 0, 0).map_or(ValueRef::Null, ValueRef::Date),
        Some(Some(date)) => ValueRef::Date(date),
    })
}

/// The result type of STR_TO_DATE by its format: a date, a time, or both.
fn parsed_type(args: &[Expr], _: Collation) -> ColumnType {
    let format = match args.get(1).and_then(Expr::as_const) {
        Some(Value::Bytes(format)) => format.as_slice(),
        _ => return ColumnType::datetime(6),
    };
    let has = |set: &[u8]| {
        format
            .windows(2)
            .any(|w| w.first() == Some(&b'%') && w.get(1).is_some_and(|b| set.contains(b)))
    };
    let fsp = if has(b"f") { 6 } else { 0 };
    // A day of the month beside a time of day is a number of days.
    match (has(b"aUuVvWwXxbcjMmYy"), has(b"fHhIiklprSsT")) {
        (true, true) => ColumnType::datetime(fsp),
        (false, true) => ColumnType::time(fsp),
        _ => ColumnType::date(),
    }
}

fn str_to_date<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (Some(text), Some(format)) = (c.text(0)?, c.text(1)?) else {
        return Ok(ValueRef::Null);
    };
    let rules = DateRules::of(c.cx.env.mode);
    // With NO_ZERO_DATE, a date must have all its parts.
    let whole = |m: DateTime| m.year() > 0 && m.month() > 0 && m.day() > 0;
    let valid = |m: DateTime| m.date().check(rules) && (!rules.no_zero_date || whole(m));
    let parsed = match super::date_parse::parse(text, format) {
        Ok(parsed) if c.ty.kind == Kind::Time || valid(parsed.moment) => parsed,
        other => {
            let (kind, part) = other.err().map_or(("datetime", text), |e| (e.kind, e.text));
            let part = String::from_utf8_lossy(part);
            let message = format!("Incorrect {kind} value: '{part}' for function str_to_date");
            c.cx.env.warn_or_fail(1411, "HY000", message)?;
            return Ok(ValueRef::Null);
        }
    };
    if parsed.rest {
        let kind = match c.ty.kind {
            Kind::Date => "date",
            Kind::Time => "time",
            _ => "datetime",
        };
        truncated(c, kind, text)?;
    }
    Ok(match c.ty.kind {
        Kind::Date => ValueRef::Date(parsed.moment.date()),
        Kind::Time => ValueRef::Time(parsed.time),
        _ => ValueRef::DateTime(parsed.moment),
    })
}

macro_rules! f {
    ($name:literal, $args:expr, $ty:expr, $run:expr, $doc:literal, $call:literal => $result:literal) => {
        Function {
            name: $name,
            args: $args,
            constant: true,
            nullable: Nullable::Always,
            ty: $ty,
            run: $run,
            doc: $doc,
            example: ($call, $result),
        }
    };
}

fn date_type(_: &[Expr], _: Collation) -> ColumnType {
    ColumnType::date()
}

pub(super) fn time_type(args: &[Expr], _: Collation) -> ColumnType {
    ColumnType::time(widest(args))
}

/// The registry entries.
pub const FUNCTIONS: &[Function] = &[
    f!("ADDTIME", (2, 2), sum_type, |c| add_time(c, 1), "A moment or time, later by a time.", "ADDTIME('01:59:59.9', '00:00:01')" => "02:00:00.900000"),
    f!("SUBTIME", (2, 2), sum_type, |c| add_time(c, -1), "A moment or time, earlier by a time.", "SUBTIME('2007-12-31 23:59:59', '1:1:1')" => "2007-12-31 22:58:58"),
    f!("TIMEDIFF", (2, 2), time_type, time_diff, "The time between two moments or times.", "TIMEDIFF('2008-12-31 23:59:59', '2008-12-30 01:01:01')" => "46:58:58"),
    f!("MAKEDATE", (2, 2), date_type, make_date, "A date from year and day of the year.", "MAKEDATE(2011, 32)" => "2011-02-01"),
    f!("MAKETIME", (3, 3), |a, _| ColumnType::time(a.get(2).map_or(0, fsp_of)), make_time, "A time from hour, minute and second.", "MAKETIME(12, 15, 30)" => "12:15:30"),
    f!("SEC_TO_TIME", (1, 1), seconds_type, sec_to_time, "A time from seconds.", "SEC_TO_TIME(2378)" => "00:39:38"),
    f!("FROM_DAYS", (1, 1), date_type, from_days, "A date from days since year 0.", "FROM_DAYS(730669)" => "2000-07-03"),
    f!("TO_SECONDS", (1, 1), bigint, |c| Ok(int(c.datetime(0)?.map(to_seconds))), "Seconds since year 0.", "TO_SECONDS('2009-11-29 13:43:32')" => "63426721412"),
    f!("WEEK", (1, 2), bigint, week, "The week of the year, by mode.", "WEEK('2008-02-20', 1)" => "8"),
    f!("WEEKOFYEAR", (1, 1), bigint, |c| Ok(int(c.date(0)?.map(|d| i64::from(d.week(3).1)))), "The week of the year by ISO 8601.", "WEEKOFYEAR('2008-02-20')" => "8"),
    f!("YEARWEEK", (1, 2), bigint, year_week, "Year and week.", "YEARWEEK('1987-01-01')" => "198652"),
    f!("PERIOD_ADD", (2, 2), bigint, period_add, "A period of year and month, later by months.", "PERIOD_ADD(200801, 2)" => "200803"),
    f!("PERIOD_DIFF", (2, 2), bigint, period_diff, "Months between two periods.", "PERIOD_DIFF(200802, 200703)" => "11"),
    f!("TIMESTAMP", (1, 2), timestamp_type, timestamp, "A moment, later by a time.", "TIMESTAMP('2003-12-31 12:00:00', '12:00:00')" => "2004-01-01 00:00:00"),
    Function {
        // A name with a space cannot be called: the binder uses it for TIMESTAMPDIFF.
        name: "TIMESTAMP DIFF",
        args: (3, 3),
        constant: true,
        nullable: Nullable::Always,
        ty: bigint,
        run: timestamp_diff,
        doc: "TIMESTAMPDIFF(unit, a, b): whole units from a to b.",
        example: ("TIMESTAMPDIFF(MONTH, '2003-02-01', '2003-05-01')", "3"),
    },
    Function {
        name: "TEMPORAL NUMBER",
        args: (1, 1),
        constant: true,
        nullable: Nullable::Always,
        ty: super::double,
        run: temporal_number,
        doc: "A moment computed from text, as a number.",
        example: ("('2001-01-01' + INTERVAL 2 DAY) + 30", "20010133"),
    },
    Function {
        name: "GET FORMAT",
        args: (2, 2),
        constant: true,
        nullable: Nullable::Always,
        ty: |_, c| text_of(17, c),
        run: super::date_format::get_format,
        doc: "GET_FORMAT(DATE, 'EUR'): a format for DATE_FORMAT.",
        example: ("GET_FORMAT(DATE, 'EUR')", "%d.%m.%Y"),
    },
    f!("CONVERT_TZ", (3, 3), |a, _| ColumnType::datetime(a.first().map_or(0, fsp_of)), convert_tz, "A moment of one time zone in another.", "CONVERT_TZ('2004-01-01 12:00:00', 'Europe/Berlin', '+10:00')" => "2004-01-01 21:00:00"),
    Function {
        name: "AT TIME ZONE",
        args: (1, 1),
        constant: false,
        nullable: Nullable::Always,
        ty: |a, _| ColumnType::datetime(a.first().map_or(0, fsp_of)),
        run: at_time_zone,
        doc: "Converts a TIMESTAMP to UTC.",
        example: (
            "CAST(TIMESTAMP'2019-10-10 10:11:12+02:00' AT TIME ZONE 'UTC' AS DATETIME)",
            "2019-10-10 08:11:12",
        ),
    },
    f!("TIME_FORMAT", (2, 2), |_, c| text_of(255, c), super::date_format::time_format, "A time in a format.", "TIME_FORMAT('100:00:00', '%H %k %h')" => "100 100 04"),
    f!("STR_TO_DATE", (2, 2), parsed_type, str_to_date, "A moment read by a format.", "STR_TO_DATE('May 1, 2013', '%M %d, %Y')" => "2013-05-01"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime {
        let parsed = super::super::date_parse::parse(text.as_bytes(), b"%Y-%m-%d %T");
        parsed.map(|p| p.moment).ok().unwrap()
    }

    #[test]
    fn months_between_moments_are_whole() {
        let cases = [
            ("2020-01-31 00:00:00", "2020-02-29 00:00:00", 0),
            ("2020-01-31 00:00:00", "2020-03-01 00:00:00", 1),
            ("2020-03-01 00:00:00", "2020-01-31 00:00:00", -1),
            ("2020-01-15 12:00:00", "2020-02-15 11:59:59", 0),
            ("2020-01-15 12:00:00", "2020-02-15 12:00:00", 1),
        ];
        for (a, b, months) in cases {
            assert_eq!(months_between(at(a), at(b)), months, "{a} {b}");
        }
    }
}
