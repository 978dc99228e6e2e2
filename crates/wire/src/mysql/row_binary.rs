//! Values in the binary format, encoded by their column's type code.

use porpoise_types::{ColumnType, Date, DateTime, Decimal, Time, ValueRef, write_text};

use super::capability::type_code as t;
use super::cursor::{put_bytes, put_lenenc_with};

/// Appends a non-NULL value in the encoding of type code `code`.
#[inline]
pub(super) fn put_binary(out: &mut Vec<u8>, code: u8, ty: &ColumnType, value: ValueRef<'_>) {
    match code {
        t::LONGLONG => out.extend_from_slice(&bits(value, ty.unsigned).to_le_bytes()),
        t::LONG | t::INT24 => {
            out.extend_from_slice(&(bits(value, ty.unsigned) as u32).to_le_bytes());
        }
        t::SHORT | t::YEAR => {
            out.extend_from_slice(&(bits(value, ty.unsigned) as u16).to_le_bytes());
        }
        t::TINY => out.push(bits(value, ty.unsigned) as u8),
        t::DOUBLE => out.extend_from_slice(&real(value).to_le_bytes()),
        t::FLOAT => out.extend_from_slice(&(real(value) as f32).to_le_bytes()),
        t::DATE => put_datetime(out, date(value).at_midnight()),
        t::DATETIME | t::TIMESTAMP => put_datetime(out, datetime(value)),
        t::TIME => put_time(out, time(value)),
        _ => match value {
            ValueRef::Bytes(bytes) => put_bytes(out, bytes),
            _ => put_lenenc_with(out, |out| write_text(value, ty, out)),
        },
    }
}

/// Converts a value to the 64 bits of an integer. For narrower columns the caller truncates it,
/// which loses nothing, since a stored value is in its column's range.
#[inline]
fn bits(value: ValueRef<'_>, unsigned: bool) -> u64 {
    match value {
        ValueRef::Int(n) => n as u64,
        ValueRef::UInt(n) => n,
        ValueRef::Double(d) if unsigned => d.round_ties_even() as u64,
        ValueRef::Double(d) => d.round_ties_even() as i64 as u64,
        ValueRef::Decimal(d) => decimal_bits(d, unsigned),
        ValueRef::Bytes(text) => decimal_bits(Decimal::parse_prefix(text).value, unsigned),
        ValueRef::Date(d) => d.to_number() as u64,
        ValueRef::DateTime(d) => d.to_number() as u64,
        ValueRef::Time(d) => d.to_number() as u64,
        ValueRef::Null => 0,
    }
}

/// Converts a number to the 64 bits of an integer; 0 if it is out of the range of both signed and
/// unsigned integers.
fn decimal_bits(value: Decimal, unsigned: bool) -> u64 {
    let as_unsigned = || value.to_u64();
    let as_signed = || value.to_i64().map(|n| n as u64);
    if unsigned {
        as_unsigned().or_else(as_signed)
    } else {
        as_signed().or_else(as_unsigned)
    }
    .unwrap_or(0)
}

#[inline]
fn real(value: ValueRef<'_>) -> f64 {
    match value {
        ValueRef::Double(d) => d,
        ValueRef::Int(n) => n as f64,
        ValueRef::UInt(n) => n as f64,
        ValueRef::Decimal(d) => d.to_f64(),
        ValueRef::Bytes(text) => Decimal::parse_prefix(text).value.to_f64(),
        other => bits(other, false) as i64 as f64,
    }
}

/// Converts a value to a datetime. A value of a type without a date becomes the zero date.
fn datetime(value: ValueRef<'_>) -> DateTime {
    match value {
        ValueRef::DateTime(d) => d,
        ValueRef::Date(d) => d.at_midnight(),
        _ => DateTime::ZERO,
    }
}

fn date(value: ValueRef<'_>) -> Date {
    match value {
        ValueRef::Date(d) => d,
        other => datetime(other).date(),
    }
}

fn time(value: ValueRef<'_>) -> Time {
    match value {
        ValueRef::Time(t) => t,
        ValueRef::DateTime(d) => d.time(),
        _ => Time::ZERO,
    }
}

/// Appends a length byte, then 0, 4, 7 or 11 bytes: trailing zero fields are omitted.
pub(super) fn put_datetime(out: &mut Vec<u8>, value: DateTime) {
    let [y0, y1] = value.year().to_le_bytes();
    let [m0, m1, m2, m3] = value.micros().to_le_bytes();
    let bytes = [
        y0,
        y1,
        value.month(),
        value.day(),
        value.hour(),
        value.minute(),
        value.second(),
        m0,
        m1,
        m2,
        m3,
    ];
    let length = if value.micros() != 0 {
        11
    } else if value.hour() != 0 || value.minute() != 0 || value.second() != 0 {
        7
    } else if value == DateTime::ZERO {
        0
    } else {
        4
    };
    out.push(length);
    out.extend(bytes.iter().take(usize::from(length)));
}

/// Appends a length byte, then 0, 8 or 12 bytes: sign, days, hours, minutes, seconds,
/// microseconds.
pub(super) fn put_time(out: &mut Vec<u8>, value: Time) {
    let micros = value.as_micros().unsigned_abs();
    if micros == 0 {
        out.push(0);
        return;
    }
    let fraction = (micros % 1_000_000) as u32;
    let seconds = micros / 1_000_000;
    out.push(if fraction == 0 { 8 } else { 12 });
    out.push(u8::from(value.is_negative()));
    // Days: 34 at most.
    out.extend_from_slice(&((seconds / 86_400) as u32).to_le_bytes());
    let seconds_of_day = seconds % 86_400;
    out.extend_from_slice(&[
        (seconds_of_day / 3600) as u8,
        (seconds_of_day / 60 % 60) as u8,
        (seconds_of_day % 60) as u8,
    ]);
    if fraction != 0 {
        out.extend_from_slice(&fraction.to_le_bytes());
    }
}
