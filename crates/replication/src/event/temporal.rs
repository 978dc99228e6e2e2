//! Dates and times with fractional seconds, as MySQL 5.6 stores them: big-endian, so that bytes compare as times.
//!
//! | type | integer part | fraction |
//! |---|---|---|
//! | TIMESTAMP2 | 4 bytes: seconds since 1970 | 0 to 3 bytes |
//! | DATETIME2 | 5 bytes: `year * 13 + month`, day, hour, minute, second in 17, 5, 5, 6, 6 bits, plus 2^39 | 0 to 3 bytes |
//! | TIME2 | 3 bytes: hour, minute, second in 10, 6, 6 bits, plus 2^23 | 0 to 3 bytes |
//!
//! One byte counts hundredths, two ten-thousandths, three microseconds. A negative TIME is the negated number of
//! integer part and fraction together, so that its fraction borrows from the integer part.

use super::bytes::put_uint_be;
use super::{Decoded, Reader};
use porpoise_types::{Date, DateTime, Time};

/// Added to a DATETIME's integer part.
const DATETIME_BIAS: u64 = 1 << 39;
/// Added to a TIME's integer part.
const TIME_BIAS: i64 = 1 << 23;

/// Bytes of the fraction of `fsp` digits.
pub(super) fn fraction_len(fsp: u8) -> usize {
    usize::from(fsp.min(6)).div_ceil(2)
}

/// Microseconds of one unit of a fraction of `len` bytes.
fn unit(len: usize) -> u32 {
    match len {
        0 => 1_000_000,
        1 => 10_000,
        2 => 100,
        _ => 1,
    }
}

fn put_fraction(out: &mut Vec<u8>, micros: u32, fsp: u8) {
    let len = fraction_len(fsp);
    put_uint_be(out, u64::from(micros / unit(len)), len);
}

fn take_fraction(body: &mut Reader<'_>, fsp: u8) -> Decoded<u32> {
    let len = fraction_len(fsp);
    let micros = body.uint_be(len, "fraction of a second")? as u32 * unit(len);
    if micros > 999_999 {
        return Err(body.error(format!("a fraction of {micros} microseconds")));
    }
    Ok(micros)
}

/// Appends a TIMESTAMP, given in UTC.
pub(super) fn put_timestamp(out: &mut Vec<u8>, value: DateTime, fsp: u8) {
    let micros = if value.is_zero_date() {
        0
    } else {
        value.to_unix_micros()
    };
    let seconds = u32::try_from(micros.div_euclid(1_000_000)).unwrap_or(0);
    put_uint_be(out, u64::from(seconds), 4);
    put_fraction(out, value.micros(), fsp);
}

/// Seconds since 1970 and microseconds as a time in UTC; 0 is the zero timestamp.
pub(super) fn timestamp(body: &Reader<'_>, seconds: u32, micros: u32) -> Decoded<DateTime> {
    if seconds == 0 && micros == 0 {
        return Ok(DateTime::ZERO);
    }
    DateTime::from_unix_micros(i64::from(seconds) * 1_000_000 + i64::from(micros))
        .ok_or_else(|| body.error(format!("a timestamp of {seconds} seconds")))
}

pub(super) fn take_timestamp(body: &mut Reader<'_>, fsp: u8) -> Decoded<DateTime> {
    let seconds = body.uint_be(4, "timestamp")? as u32;
    let micros = take_fraction(body, fsp)?;
    timestamp(body, seconds, micros)
}

pub(super) fn put_datetime(out: &mut Vec<u8>, value: DateTime, fsp: u8) {
    let year_month = u64::from(value.year()) * 13 + u64::from(value.month());
    let packed = year_month << 22
        | u64::from(value.day()) << 17
        | u64::from(value.hour()) << 12
        | u64::from(value.minute()) << 6
        | u64::from(value.second());
    put_uint_be(out, packed + DATETIME_BIAS, 5);
    put_fraction(out, value.micros(), fsp);
}

pub(super) fn take_datetime(body: &mut Reader<'_>, fsp: u8) -> Decoded<DateTime> {
    let stored = body.uint_be(5, "date and time")?;
    let micros = take_fraction(body, fsp)?;
    stored
        .checked_sub(DATETIME_BIAS)
        .and_then(|packed| unpack_datetime(packed, micros))
        .ok_or_else(|| body.error(format!("a date and time of {stored:#x}")))
}

/// A date and time from `year * 13 + month`, day, hour, minute, second in 17, 5, 5, 6, 6 bits.
pub(super) fn unpack_datetime(packed: u64, micros: u32) -> Option<DateTime> {
    let year_month = packed >> 22;
    DateTime::from_parts(
        u16::try_from(year_month / 13).ok()?,
        (year_month % 13) as u8,
        (packed >> 17 & 31) as u8,
        (packed >> 12 & 31) as u8,
        (packed >> 6 & 63) as u8,
        (packed & 63) as u8,
        micros,
    )
}

pub(super) fn put_time(out: &mut Vec<u8>, value: Time, fsp: u8) {
    let len = fraction_len(fsp);
    let whole =
        i64::from(value.hour()) << 12 | i64::from(value.minute()) << 6 | i64::from(value.second());
    let fraction = i64::from(value.micros() / unit(len));
    let bits = 8 * len as u32;
    let packed = (whole << bits) + fraction;
    let signed = if value.is_negative() { -packed } else { packed };
    let biased = signed + (TIME_BIAS << bits);
    put_uint_be(out, biased as u64, 3 + len);
}

pub(super) fn take_time(body: &mut Reader<'_>, fsp: u8) -> Decoded<Time> {
    let len = fraction_len(fsp);
    let stored = body.uint_be(3 + len, "time")?;
    let bits = 8 * len as u32;
    let signed = stored as i64 - (TIME_BIAS << bits);
    let magnitude = signed.unsigned_abs();
    let micros = (magnitude & ((1 << bits) - 1)) as u32 * unit(len);
    unpack_time(signed < 0, magnitude >> bits, micros)
        .ok_or_else(|| body.error(format!("a time of {stored:#x}")))
}

/// A time from hour, minute, second in 10, 6, 6 bits.
pub(super) fn unpack_time(is_negative: bool, packed: u64, micros: u32) -> Option<Time> {
    let (hour, minute, second) = (packed >> 12, packed >> 6 & 63, packed & 63);
    if hour > 1023 || minute > 59 || second > 59 || micros > 999_999 {
        return None;
    }
    let seconds = (hour * 3600 + minute * 60 + second) as i64;
    let micros = seconds * 1_000_000 + i64::from(micros);
    Time::from_micros(if is_negative { -micros } else { micros })
}

/// A DATE of three bytes: day, month, year in 5, 4, 15 bits.
pub(super) fn take_date(body: &mut Reader<'_>) -> Decoded<Date> {
    let stored = body.uint(3, "date")?;
    Date::from_packed(stored as u32).ok_or_else(|| body.error(format!("a date of {stored:#x}")))
}

/// A DATETIME of MySQL 5.5: the number `YYYYMMDDhhmmss`.
pub(super) fn take_old_datetime(body: &mut Reader<'_>) -> Decoded<DateTime> {
    let number = body.u64("date and time")?;
    let (date, time) = (number / 1_000_000, number % 1_000_000);
    u16::try_from(date / 10_000)
        .ok()
        .and_then(|year| {
            DateTime::from_parts(
                year,
                (date / 100 % 100) as u8,
                (date % 100) as u8,
                (time / 10_000) as u8,
                (time / 100 % 100) as u8,
                (time % 100) as u8,
                0,
            )
        })
        .ok_or_else(|| body.error(format!("a date and time of {number}")))
}

/// A TIME of MySQL 5.5: the number `hhmmss`, signed, in three bytes.
pub(super) fn take_old_time(body: &mut Reader<'_>) -> Decoded<Time> {
    let stored = body.uint(3, "time")? as i64;
    let signed = if stored >= 1 << 23 {
        stored - (1 << 24)
    } else {
        stored
    };
    let number = signed.unsigned_abs();
    let packed = (number / 10_000) << 12 | (number / 100 % 100) << 6 | (number % 100);
    unpack_time(signed < 0, packed, 0).ok_or_else(|| body.error(format!("a time of {signed}")))
}
