//! Values in the text protocol.
//!
//! Floats are printed with the shortest digits that round-trip (FLOAT with at most six), without an
//! exponent while the decimal point is within 15 digits of the first, like MySQL's `my_gcvt`.

use crate::column_type::{ColumnType, Kind, NOT_FIXED_DECIMALS};
use crate::decimal::Decimal;
use crate::value::ValueRef;

/// Appends the text of a value of type `ty`. NULL appends nothing: the protocol encodes it
/// separately.
///
/// ENUM and SET values may be storage values or text, and are printed as members; BIT is printed as
/// its bytes; TIMESTAMP is printed unchanged, so the caller converts it to the session's time zone
/// first.
pub fn write_text(v: ValueRef<'_>, ty: &ColumnType, out: &mut Vec<u8>) {
    match storage_to_sql(v, ty) {
        ValueRef::Null => {}
        ValueRef::Int(v) => {
            let start = out.len();
            out.extend_from_slice(itoa::Buffer::new().format(v).as_bytes());
            zerofill(ty, start, out);
        }
        ValueRef::UInt(v) => write_uint(v, ty, out),
        ValueRef::Double(v) => write_real(v, ty, out),
        ValueRef::Decimal(v) => write_decimal(v, ty, out),
        ValueRef::Bytes(v) => out.extend_from_slice(v),
        ValueRef::Date(v) if ty.kind == Kind::DateTime || ty.kind == Kind::Timestamp => {
            v.at_midnight().write_text(ty.decimals, out);
        }
        ValueRef::Date(v) => v.write_text(out),
        ValueRef::DateTime(v) if ty.kind == Kind::Date => v.date().write_text(out),
        ValueRef::DateTime(v) => v.write_text(ty.decimals.min(6), out),
        ValueRef::Time(v) => v.write_text(ty.decimals.min(6), out),
    }
}

/// Converts a storage value to an SQL value: the index of an ENUM becomes its member's text ('' for
/// 0); others are unchanged. A SET's text is not stored anywhere: print it with [`write_text`].
#[must_use]
pub fn storage_to_sql<'a>(v: ValueRef<'a>, ty: &'a ColumnType) -> ValueRef<'a> {
    match (ty.kind, v) {
        (Kind::Enum, ValueRef::UInt(index)) => {
            let at = usize::try_from(index).ok().and_then(|i| i.checked_sub(1));
            ValueRef::Bytes(at.and_then(|i| ty.members.get(i)).map_or(&[], |m| m))
        }
        _ => v,
    }
}

fn zerofill(ty: &ColumnType, start: usize, out: &mut Vec<u8>) {
    if !ty.zerofill {
        return;
    }
    let width = usize::try_from(ty.length).unwrap_or(0).min(255);
    let len = out.len() - start;
    if len < width {
        out.splice(start..start, std::iter::repeat_n(b'0', width - len));
    }
}

fn write_uint(v: u64, ty: &ColumnType, out: &mut Vec<u8>) {
    match ty.kind {
        Kind::Bit => {
            let len = usize::try_from(ty.length.div_ceil(8))
                .unwrap_or(8)
                .clamp(1, 8);
            let bytes = v.to_be_bytes();
            out.extend_from_slice(bytes.get(8 - len..).unwrap_or(&bytes));
        }
        Kind::Year => {
            let text = [1000, 100, 10, 1].map(|unit| b'0' + (v / unit % 10) as u8);
            out.extend_from_slice(&text);
        }
        Kind::Set => write_set(v, ty, out),
        _ => {
            let start = out.len();
            out.extend_from_slice(itoa::Buffer::new().format(v).as_bytes());
            zerofill(ty, start, out);
        }
    }
}

/// Appends the members of a SET's bits, joined by commas.
fn write_set(bits: u64, ty: &ColumnType, out: &mut Vec<u8>) {
    let mut first = true;
    for (i, member) in ty.members.iter().enumerate().take(64) {
        if bits >> i & 1 == 1 {
            if !first {
                out.push(b',');
            }
            out.extend_from_slice(member);
            first = false;
        }
    }
}

fn write_decimal(v: Decimal, ty: &ColumnType, out: &mut Vec<u8>) {
    let start = out.len();
    if ty.kind == Kind::Decimal {
        if v.scale() == ty.decimals {
            v.write_text(out);
        } else {
            v.rescale(ty.decimals).unwrap_or(v).write_text(out);
        }
        // The point counts towards the width.
        if ty.zerofill {
            let width = usize::try_from(ty.length).unwrap_or(0) + usize::from(ty.decimals > 0);
            let len = out.len() - start;
            if len < width {
                out.splice(start..start, std::iter::repeat_n(b'0', width - len));
            }
        }
    } else {
        v.write_text(out);
    }
}

fn write_real(v: f64, ty: &ColumnType, out: &mut Vec<u8>) {
    let start = out.len();
    if matches!(ty.kind, Kind::Float | Kind::Double) && ty.decimals < NOT_FIXED_DECIMALS {
        write_fixed(v, ty.decimals, out);
    } else if ty.kind == Kind::Float {
        write_float(v as f32, out);
    } else {
        write_double(v, out);
    }
    zerofill(ty, start, out);
}

/// Appends a double with exactly `decimals` digits after the point.
pub fn write_fixed(v: f64, decimals: u8, out: &mut Vec<u8>) {
    if !v.is_finite() {
        return write_double(v, out);
    }
    // Rounds the exact binary value: 1.005 is stored as slightly less.
    let text = format!("{v:.*}", usize::from(decimals));
    out.extend_from_slice(text.as_bytes());
}

/// Appends a double with its shortest digits.
pub fn write_double(v: f64, out: &mut Vec<u8>) {
    if !v.is_finite() {
        // No operation of MySQL returns these; the function is total nevertheless.
        out.extend_from_slice(if v.is_nan() {
            b"nan"
        } else if v > 0.0 {
            b"inf"
        } else {
            b"-inf"
        });
        return;
    }
    let mut buffer = zmij::Buffer::new();
    format_like_gcvt(buffer.format_finite(v).as_bytes(), out);
}

/// A double in at most `width` characters, with as many digits as fit, as `my_gcvt` writes it; `None` if
/// there is no room for a digit.
pub(crate) fn double_within(v: f64, width: usize) -> Option<Vec<u8>> {
    let room = width.checked_sub(usize::from(v < 0.0))?;
    let scientific = |digits: Option<usize>| {
        let text = match digits {
            Some(digits) => format!("{:.*e}", digits - 1, v.abs()),
            None => format!("{:e}", v.abs()),
        };
        let (mantissa, exponent) = text.split_once('e')?;
        let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
        let digits = digits.trim_end_matches('0');
        Some((digits.to_owned(), exponent.parse::<i64>().ok()?))
    };
    let (digits, exponent) = scientific(None)?;
    let point = exponent + 1;
    let is_small = point >= -1 || point == -2 && digits.len() > 1;
    let is_plain = (-14..=15).contains(&point)
        && is_small
        && usize::try_from(point.max(0)).is_ok_and(|point| point <= room);
    // Characters other than significant digits: the point and leading zeros, or the exponent.
    let taken = if is_plain {
        let leading = usize::try_from(1 - point.min(1)).unwrap_or(0);
        leading + usize::from(point < i64::try_from(digits.len()).unwrap_or(i64::MAX))
    } else {
        1 + exponent.to_string().len()
    };
    let kept = room.checked_sub(taken).filter(|kept| *kept > 0)?;
    let kept = if is_plain || kept == 1 {
        kept
    } else {
        kept - 1
    };
    let (digits, exponent) = scientific(Some(kept.min(digits.len()).max(1)))?;
    let mut out = Vec::with_capacity(width);
    out.extend((v < 0.0).then_some(b'-'));
    if is_plain {
        format_like_gcvt(
            format!("{}e{exponent}", with_point(&digits)).as_bytes(),
            &mut out,
        );
    } else {
        out.extend(format!("{}e{exponent}", with_point(&digits)).into_bytes());
    }
    (out.len() <= width).then_some(out)
}

/// Digits with a point after the first one.
fn with_point(digits: &str) -> String {
    match digits.split_at_checked(1) {
        Some((first, rest)) if !rest.is_empty() => format!("{first}.{rest}"),
        Some((first, _)) => first.to_owned(),
        None => "0".to_owned(),
    }
}

/// Appends a float with at most six digits.
pub fn write_float(v: f32, out: &mut Vec<u8>) {
    if !v.is_finite() {
        return write_double(f64::from(v), out);
    }
    let mut buffer = zmij::Buffer::new();
    let shortest = buffer.format_finite(v);
    if shortest.bytes().filter(u8::is_ascii_digit).count() <= 6 {
        return format_like_gcvt(shortest.as_bytes(), out);
    }
    format_like_gcvt(format!("{v:.5e}").as_bytes(), out);
}

/// Formats the digits of any decimal text of a number like `my_gcvt`.
fn format_like_gcvt(text: &[u8], out: &mut Vec<u8>) {
    let (text, negative) = match text.split_first() {
        Some((b'-', rest)) => (rest, true),
        _ => (text, false),
    };
    let mut digits = smallvec::SmallVec::<[u8; 32]>::new();
    // Position of the point, counted from before the first significant digit.
    let mut point = 0i32;
    let mut exponent = 0i32;
    let mut after_point = false;
    for (i, byte) in text.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                if digits.is_empty() && *byte == b'0' {
                    point -= i32::from(after_point);
                    continue;
                }
                digits.push(*byte);
                point += i32::from(!after_point);
            }
            b'.' => after_point = true,
            b'e' | b'E' => {
                let rest = text.get(i + 1..).unwrap_or_default();
                exponent = std::str::from_utf8(rest)
                    .ok()
                    .and_then(|t| t.parse().ok())
                    .unwrap_or(0);
                break;
            }
            _ => {}
        }
    }
    while digits.last() == Some(&b'0') {
        digits.pop();
    }
    if negative {
        out.push(b'-');
    }
    if digits.is_empty() {
        out.push(b'0');
        return;
    }
    write_digits(&digits, point + exponent, out);
}

/// Appends `0.DIGITS * 10^point`.
fn write_digits(digits: &[u8], point: i32, out: &mut Vec<u8>) {
    let len = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    if !(-14..=15).contains(&point) {
        let (first, rest) = digits.split_at(1);
        out.extend_from_slice(first);
        if !rest.is_empty() {
            out.push(b'.');
            out.extend_from_slice(rest);
        }
        out.push(b'e');
        out.extend_from_slice(itoa::Buffer::new().format(point - 1).as_bytes());
    } else if point <= 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(
            b'0',
            usize::try_from(-point).unwrap_or(0),
        ));
        out.extend_from_slice(digits);
    } else if point >= len {
        out.extend_from_slice(digits);
        out.extend(std::iter::repeat_n(
            b'0',
            usize::try_from(point - len).unwrap_or(0),
        ));
    } else {
        let (int, frac) = digits.split_at(usize::try_from(point).unwrap_or(0));
        out.extend_from_slice(int);
        out.push(b'.');
        out.extend_from_slice(frac);
    }
}
