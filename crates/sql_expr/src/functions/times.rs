//! Date and time functions (manual, "Date and Time Functions"). The current
//! time is that of the statement's start, in the session's time zone.

use super::{Call, Function, Nullable, bigint, text_of};
use crate::error::Result;
use crate::expr::Expr;
use crate::locale::Locale;
use porpoise_base::interrupt::Pacer;
use porpoise_types::{
    Charset, Collation, ColumnType, Date, DateTime, Kind, SqlMode, Time, Value, ValueRef,
};
use std::borrow::Cow;

fn fsp(args: &[Expr], at: usize) -> u8 {
    match args.get(at).and_then(Expr::as_const) {
        Some(Value::Int(n)) => u8::try_from((*n).clamp(0, 6)).unwrap_or(6),
        _ => 0,
    }
}

fn datetime_type(args: &[Expr], _: Collation) -> ColumnType {
    ColumnType::datetime(fsp(args, 0))
}

fn time_type(args: &[Expr], _: Collation) -> ColumnType {
    ColumnType::time(fsp(args, 0))
}

fn date_type(_: &[Expr], _: Collation) -> ColumnType {
    ColumnType::date()
}

fn truncate_fraction(moment: DateTime, fsp: u8) -> DateTime {
    moment.round(fsp, true).unwrap_or(moment)
}

fn now<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    Ok(ValueRef::DateTime(truncate_fraction(
        c.cx.env.now(),
        c.ty.decimals,
    )))
}

fn utc_now<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    Ok(ValueRef::DateTime(truncate_fraction(
        c.cx.env.now_utc,
        c.ty.decimals,
    )))
}

/// SYSDATE(): the time at which it is evaluated.
fn sysdate<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let clock = porpoise_base::clock::system();
    let utc = DateTime::from_unix_micros(clock.unix_micros()).unwrap_or(c.cx.env.now_utc);
    let local = c.cx.env.time_zone.utc_to_local(utc);
    Ok(ValueRef::DateTime(truncate_fraction(local, c.ty.decimals)))
}

fn clock_of<'a>(moment: DateTime, fsp: u8) -> ValueRef<'a> {
    ValueRef::Time(truncate_fraction(moment, fsp).time())
}

fn of_date<'a>(c: &Call<'_, 'a>, f: fn(Date) -> i64) -> Result<ValueRef<'a>> {
    Ok(c.date(0)?.map_or(ValueRef::Null, |d| ValueRef::Int(f(d))))
}

/// As [`of_date`]; NULL for a zero date.
fn of_day<'a>(c: &Call<'_, 'a>, f: fn(Date) -> i64) -> Result<ValueRef<'a>> {
    let date = c.date(0)?.filter(|d| !d.is_zero());
    Ok(date.map_or(ValueRef::Null, |d| ValueRef::Int(f(d))))
}

fn of_time<'a>(c: &Call<'_, 'a>, f: fn(Time) -> i64) -> Result<ValueRef<'a>> {
    Ok(c.time(0)?.map_or(ValueRef::Null, |t| ValueRef::Int(f(t))))
}

fn date<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    Ok(c.date(0)?.map_or(ValueRef::Null, ValueRef::Date))
}

fn time<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    Ok(c.time(0)?.map_or(ValueRef::Null, ValueRef::Time))
}

fn unix_type(args: &[Expr], _: Collation) -> ColumnType {
    match args.first().map(|e| (e.ty.kind, e.ty.decimals)) {
        Some((Kind::DateTime | Kind::Timestamp | Kind::Time, fsp)) if fsp > 0 => {
            ColumnType::decimal(18, fsp)
        }
        // A literal has a known number of digits.
        Some((Kind::VarChar | Kind::Char | Kind::Text, _)) => {
            match args.first().and_then(Expr::as_const) {
                Some(Value::Bytes(text)) => match text.iter().rposition(|b| *b == b'.') {
                    None => ColumnType::bigint(),
                    Some(at) => ColumnType::decimal(18, (text.len() - at - 1).min(6) as u8),
                },
                _ => ColumnType::decimal(18, 6),
            }
        }
        _ => ColumnType::bigint(),
    }
}

/// The first second after the range of UNIX_TIMESTAMP().
const MAX_UNIX_SECONDS: i64 = 32_536_771_200;

fn unix_timestamp<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let utc = if c.is_empty() {
        Some(c.cx.env.now_utc)
    } else {
        match c.datetime(0)? {
            None if c.arg(0).0.is_null() => return Ok(ValueRef::Null),
            // A value that is not a date gives 0, as in MySQL.
            None => None,
            Some(local) => c.cx.env.time_zone.local_to_utc(local),
        }
    };
    let micros = utc.map_or(0, |utc| utc.to_unix_micros());
    let range = 0..MAX_UNIX_SECONDS * 1_000_000;
    let micros = if range.contains(&micros) { micros } else { 0 };
    if c.ty.kind != Kind::Decimal {
        return Ok(ValueRef::Int(micros / 1_000_000));
    }
    let exact = porpoise_types::Decimal::from_i128(i128::from(micros), 6).ok();
    let cut = exact.map(|d| d.truncate(c.ty.decimals));
    Ok(cut.map_or(ValueRef::Null, ValueRef::Decimal))
}

fn from_unixtime_type(args: &[Expr], collation: Collation) -> ColumnType {
    match args.len() {
        2 => text_of(255, collation),
        _ => {
            let first = args.first().map_or(0, |e| match e.ty.kind {
                Kind::Decimal => e.ty.decimals.min(6),
                Kind::Double | Kind::Float => 6,
                _ => 0,
            });
            ColumnType::datetime(first)
        }
    }
}

fn from_unixtime<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(seconds) = c.decimal(0)? else {
        return Ok(ValueRef::Null);
    };
    let truncates = c.cx.env.mode.contains(SqlMode::TIME_TRUNCATE_FRACTIONAL);
    let exact = if truncates {
        Ok(seconds.truncate(6))
    } else {
        seconds.round(6)
    };
    let micros = exact.and_then(|exact| exact.rescale(6)).ok();
    let micros = micros.and_then(|exact| i64::try_from(exact.unscaled()?.0).ok());
    let range = 0..MAX_UNIX_SECONDS * 1_000_000;
    let Some(micros) = micros.filter(|micros| range.contains(micros)) else {
        return Ok(ValueRef::Null);
    };
    let utc = DateTime::from_unix_micros(micros);
    let Some(local) = utc.map(|utc| c.cx.env.time_zone.utc_to_local(utc)) else {
        return Ok(ValueRef::Null);
    };
    if c.len() < 2 {
        return Ok(ValueRef::DateTime(truncate_fraction(local, c.ty.decimals)));
    }
    Ok(match c.text(1)? {
        Some(format) => format_result(c, local, format)?,
        None => ValueRef::Null,
    })
}

fn date_format<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (Some(moment), Some(format)) = (c.datetime(0)?, c.text(1)?) else {
        return Ok(ValueRef::Null);
    };
    format_result(c, moment, format)
}

/// The result of DATE_FORMAT: NULL for an empty format, and for a month's name or day of the week that
/// the date does not have.
fn format_result<'a>(c: &Call<'_, 'a>, moment: DateTime, format: &[u8]) -> Result<ValueRef<'a>> {
    let has = |specs: &[u8]| {
        let (mut pairs, mut pacer) = (format.windows(2), Pacer::new());
        pairs.any(|w| pacer.leaves() || matches!(w, [b'%', spec] if specs.contains(spec)))
    };
    let nameless = (moment.month() == 0 && has(b"Mb"))
        || (moment.month() == 0 && moment.year() == 0 && has(b"Waw"));
    if format.is_empty() || nameless {
        Ok(ValueRef::Null)
    } else {
        formatted(c, moment, format)
    }
}

/// Formats by DATE_FORMAT's specifiers.
fn formatted<'a>(c: &Call<'_, 'a>, m: DateTime, format: &[u8]) -> Result<ValueRef<'a>> {
    let mut out = Vec::new();
    let mut bytes = format.iter().copied();
    let mut pacer = Pacer::new();
    while let Some(byte) = bytes.next() {
        pacer.tick()?;
        if let Some(null) = c.too_long(out.len()) {
            return Ok(null);
        }
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let Some(spec) = bytes.next() else {
            out.push(byte);
            break;
        };
        match specifier(m, spec, c.cx.env.locale) {
            Some(text) => out.extend_from_slice(&in_charset(&text, c)),
            None => out.push(spec),
        }
    }
    Ok(c.keep(&out))
}

/// A name in the character set of the result.
fn in_charset<'t>(name: &'t str, c: &Call<'_, '_>) -> Cow<'t, [u8]> {
    Charset::Utf8mb4
        .convert(c.ty.collation.charset(), name.as_bytes())
        .0
}

fn specifier(m: DateTime, spec: u8, locale: &Locale) -> Option<String> {
    let date = m.date();
    let twelve = match m.hour() % 12 {
        0 => 12,
        hour => hour,
    };
    let half = if m.hour() < 12 { "AM" } else { "PM" };
    Some(match spec {
        b'a' => locale.short_weekday(date.weekday()).to_owned(),
        b'b' => locale.short_month(m.month()).to_owned(),
        b'c' => m.month().to_string(),
        b'D' => {
            let ending = match (m.day() % 10, m.day() / 10) {
                (1, t) if t != 1 => "st",
                (2, t) if t != 1 => "nd",
                (3, t) if t != 1 => "rd",
                _ => "th",
            };
            format!("{}{ending}", m.day())
        }
        b'd' => format!("{:02}", m.day()),
        b'e' => m.day().to_string(),
        b'f' => format!("{:06}", m.micros()),
        b'H' => format!("{:02}", m.hour()),
        b'h' | b'I' => format!("{twelve:02}"),
        b'i' => format!("{:02}", m.minute()),
        b'j' => format!("{:03}", date.day_of_year()),
        b'k' => m.hour().to_string(),
        b'l' => twelve.to_string(),
        b'M' => locale.month(m.month()).to_owned(),
        b'm' => format!("{:02}", m.month()),
        b'p' => half.to_owned(),
        b'r' => format!("{twelve:02}:{:02}:{:02} {half}", m.minute(), m.second()),
        b'S' | b's' => format!("{:02}", m.second()),
        b'T' => format!("{:02}:{:02}:{:02}", m.hour(), m.minute(), m.second()),
        b'U' => format!("{:02}", date.week(0).1),
        b'u' => format!("{:02}", date.week(1).1),
        b'V' => format!("{:02}", date.week(2).1),
        b'v' => format!("{:02}", date.week(3).1),
        b'W' => locale.weekday(date.weekday()).to_owned(),
        b'w' => ((date.weekday() + 1) % 7).to_string(),
        b'X' => format!("{:04}", date.week(2).0),
        b'x' => format!("{:04}", date.week(3).0),
        b'Y' => format!("{:04}", m.year()),
        b'y' => format!("{:02}", m.year() % 100),
        _ => return None,
    })
}

fn datediff<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let days = c
        .date(0)?
        .zip(c.date(1)?)
        .map(|(a, b)| a.to_days() - b.to_days());
    Ok(days.map_or(ValueRef::Null, ValueRef::Int))
}

fn last_day<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let last = c.date(0)?.and_then(Date::last_day);
    Ok(last.map_or(ValueRef::Null, ValueRef::Date))
}

fn dayname<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    Ok(c.date(0)?.map_or(ValueRef::Null, |d| {
        c.keep(&in_charset(c.cx.env.locale.weekday(d.weekday()), c))
    }))
}

fn monthname<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let date = c.date(0)?.filter(|d| d.month() > 0);
    Ok(date.map_or(ValueRef::Null, |d| {
        c.keep(&in_charset(c.cx.env.locale.month(d.month()), c))
    }))
}

fn seconds(t: Time) -> i64 {
    t.as_micros() / 1_000_000
}

/// The registry entries.
pub const FUNCTIONS: &[Function] = &[
    f!("NOW", (0, 1), datetime_type, Never, now, "The time at which the statement began.", "NOW() = CURRENT_TIMESTAMP" => "1"),
    f!("CURRENT_TIMESTAMP", (0, 1), datetime_type, Never, now, "As NOW().", "LENGTH(CURRENT_TIMESTAMP(3))" => "23"),
    f!("LOCALTIME", (0, 1), datetime_type, Never, now, "As NOW().", "LOCALTIME() = NOW()" => "1"),
    f!("LOCALTIMESTAMP", (0, 1), datetime_type, Never, now, "As NOW().", "LOCALTIMESTAMP() = NOW()" => "1"),
    Function {
        name: "SYSDATE",
        args: (0, 1),
        constant: false,
        nullable: Nullable::Never,
        ty: datetime_type,
        run: sysdate,
        doc: "The time now.",
        example: ("SYSDATE() >= NOW()", "1"),
    },
    f!("UTC_TIMESTAMP", (0, 1), datetime_type, Never, utc_now, "The statement's time in UTC.", "LENGTH(UTC_TIMESTAMP())" => "19"),
    f!("CURDATE", (0, 0), date_type, Never, |c| Ok(ValueRef::Date(c.cx.env.now().date())), "The statement's date.", "CURDATE() = DATE(NOW())" => "1"),
    f!("CURRENT_DATE", (0, 0), date_type, Never, |c| Ok(ValueRef::Date(c.cx.env.now().date())), "The statement's date.", "CURRENT_DATE() = CURDATE()" => "1"),
    f!("UTC_DATE", (0, 0), date_type, Never, |c| Ok(ValueRef::Date(c.cx.env.now_utc.date())), "The statement's date in UTC.", "LENGTH(UTC_DATE())" => "10"),
    f!("CURTIME", (0, 1), time_type, Never, |c| Ok(clock_of(c.cx.env.now(), c.ty.decimals)), "The statement's time of day.", "LENGTH(CURTIME())" => "8"),
    f!("CURRENT_TIME", (0, 1), time_type, Never, |c| Ok(clock_of(c.cx.env.now(), c.ty.decimals)), "The statement's time of day.", "CURRENT_TIME() = CURTIME()" => "1"),
    f!("UTC_TIME", (0, 1), time_type, Never, |c| Ok(clock_of(c.cx.env.now_utc, c.ty.decimals)), "The statement's time of day in UTC.", "LENGTH(UTC_TIME())" => "8"),
    f!("DATE", (1, 1), date_type, Always, date, "The date of a moment.", "DATE('2020-01-02 03:04:05')" => "2020-01-02"),
    f!("TIME", (1, 1), super::calendar::time_type, Always, time, "The time of day of a moment.", "TIME('2020-01-02 03:04:05')" => "03:04:05"),
    f!("YEAR", (1, 1), bigint, Always, |c| of_date(c, |d| i64::from(d.year())), "The year.", "YEAR('2020-01-02')" => "2020"),
    f!("QUARTER", (1, 1), bigint, Always, |c| of_date(c, |d| i64::from(d.month().div_ceil(3))), "The quarter.", "QUARTER('2020-05-02')" => "2"),
    f!("MONTH", (1, 1), bigint, Always, |c| of_date(c, |d| i64::from(d.month())), "The month.", "MONTH('2020-01-02')" => "1"),
    f!("DAY", (1, 1), bigint, Always, |c| of_date(c, |d| i64::from(d.day())), "The day of the month.", "DAY('2020-01-02')" => "2"),
    f!("DAYOFMONTH", (1, 1), bigint, Always, |c| of_date(c, |d| i64::from(d.day())), "The day of the month.", "DAYOFMONTH('2020-01-02')" => "2"),
    f!("DAYOFWEEK", (1, 1), bigint, Always, |c| of_date(c, |d| i64::from((d.weekday() + 1) % 7 + 1)), "1 is Sunday.", "DAYOFWEEK('2020-01-05')" => "1"),
    f!("WEEKDAY", (1, 1), bigint, Always, |c| of_date(c, |d| i64::from(d.weekday())), "0 is Monday.", "WEEKDAY('2020-01-06')" => "0"),
    f!("DAYOFYEAR", (1, 1), bigint, Always, |c| of_day(c, |d| i64::from(d.day_of_year())), "The day of the year.", "DAYOFYEAR('2020-02-01')" => "32"),
    f!("DAYNAME", (1, 1), |_, c| text_of(9, c), Always, dayname, "The name of the weekday.", "DAYNAME('2020-01-06')" => "Monday"),
    f!("MONTHNAME", (1, 1), |_, c| text_of(9, c), Always, monthname, "The name of the month.", "MONTHNAME('2020-01-06')" => "January"),
    f!("HOUR", (1, 1), bigint, Always, |c| of_time(c, |t| i64::from(t.hour())), "The hour.", "HOUR('10:05:03')" => "10"),
    f!("MINUTE", (1, 1), bigint, Always, |c| of_time(c, |t| i64::from(t.minute())), "The minute.", "MINUTE('10:05:03')" => "5"),
    f!("SECOND", (1, 1), bigint, Always, |c| of_time(c, |t| i64::from(t.second())), "The second.", "SECOND('10:05:03')" => "3"),
    f!("MICROSECOND", (1, 1), bigint, Always, |c| of_time(c, |t| i64::from(t.micros())), "The microsecond.", "MICROSECOND('10:05:03.000007')" => "7"),
    f!("TIME_TO_SEC", (1, 1), bigint, Always, |c| of_time(c, seconds), "A time in seconds.", "TIME_TO_SEC('01:00:01')" => "3601"),
    f!("TO_DAYS", (1, 1), bigint, Always, |c| of_day(c, |d| d.to_days()), "Days since year 0.", "TO_DAYS('2007-10-07')" => "733321"),
    f!("LAST_DAY", (1, 1), date_type, Always, last_day, "The last day of the month.", "LAST_DAY('2020-02-05')" => "2020-02-29"),
    f!("DATEDIFF", (2, 2), bigint, Always, datediff, "Days between two dates.", "DATEDIFF('2020-03-01', '2020-02-01')" => "29"),
    f!("UNIX_TIMESTAMP", (0, 1), unix_type, Always, unix_timestamp, "Seconds since 1970 UTC.", "UNIX_TIMESTAMP(FROM_UNIXTIME(86400))" => "86400"),
    f!("FROM_UNIXTIME", (1, 2), from_unixtime_type, Always, from_unixtime, "A moment from seconds since 1970 UTC.", "LENGTH(FROM_UNIXTIME(0))" => "19"),
    f!("DATE_FORMAT", (2, 2), |_, c| text_of(255, c), Always, date_format, "A moment in a format.", "DATE_FORMAT('2020-01-02', '%d.%m.%y')" => "02.01.20"),
];
