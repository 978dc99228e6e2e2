//! Assignment to strings, ENUM and SET.

use std::borrow::Cow;

use super::number::{int_prefix, only_spaces_from};
use super::store::Target;
use super::{CastCx, text_of};
use crate::collation::Charset;
use crate::column_type::{ColumnType, Kind};
use crate::error::TypeError;
use crate::text::write_text;
use crate::value::{Value, ValueRef};

/// The value's text in the source's character set.
fn source_text<'a>(value: ValueRef<'a>, to: &'a Target<'_>) -> Cow<'a, [u8]> {
    if let ValueRef::Bytes(b) = value {
        return Cow::Borrowed(b);
    }
    if let Some(source) = to.source {
        return text_of(value, source).unwrap_or_default();
    }
    // Without a known type: numbers unchanged, times with as many digits as they have.
    let fsp = match value {
        ValueRef::DateTime(d) if d.micros() != 0 => 6,
        ValueRef::Time(t) if t.micros() != 0 => 6,
        _ => 0,
    };
    let plain = match value {
        ValueRef::DateTime(_) => ColumnType::datetime(fsp),
        ValueRef::Time(_) => ColumnType::time(fsp),
        ValueRef::Double(_) => ColumnType::double(),
        _ => ColumnType::bigint(),
    };
    let mut out = Vec::with_capacity(32);
    write_text(value, &plain, &mut out);
    Cow::Owned(out)
}

/// Returns the value's text in the column's character set, up to the first invalid character; if
/// there is one, an error in strict mode.
fn target_text<'a>(
    value: ValueRef<'a>,
    to: &'a Target<'_>,
    cx: &mut CastCx<'_>,
) -> Result<Cow<'a, [u8]>, TypeError> {
    let text = source_text(value, to);
    let (from, charset) = (to.source_charset(), to.ty.collation.charset());
    let mut text = match from.convert(charset, &text) {
        (Cow::Borrowed(_), _) => text,
        (Cow::Owned(converted), lossy) => {
            if lossy {
                to.incorrect_shown(
                    "string",
                    &format_invalid_bytes(&first_unconvertible(from, charset, &text)),
                    cx,
                )?;
            }
            Cow::Owned(converted)
        }
    };
    if let Err(at) = charset.validate(&text) {
        to.incorrect_shown(
            "string",
            &format_invalid_bytes(text.get(at..).unwrap_or_default()),
            cx,
        )?;
        match &mut text {
            Cow::Borrowed(b) => *b = b.get(..at).unwrap_or_default(),
            Cow::Owned(b) => b.truncate(at),
        }
    }
    Ok(text)
}

/// Returns the text from the first character that `to` lacks.
fn first_unconvertible(from: Charset, to: Charset, text: &[u8]) -> Cow<'_, [u8]> {
    if from == Charset::Binary {
        let at = to.decoded(text).1.unwrap_or(0);
        return Cow::Borrowed(text.get(at..).unwrap_or_default());
    }
    let mut rest = text;
    while let Some((_, len)) = from.decode_char(rest) {
        let (char, after) = rest.split_at(len);
        if from.convert(to, char).1 {
            break;
        }
        rest = after;
    }
    from.encoded(rest)
}

/// Formats bytes for "Incorrect string value": ASCII unchanged, others as `\xNN`, at most six and
/// then `...`.
fn format_invalid_bytes(text: &[u8]) -> String {
    let mut out = String::new();
    for byte in text.iter().take(6) {
        if (0x20..0x7F).contains(byte) {
            out.push(char::from(*byte));
        } else {
            out.push_str(&format!("\\x{byte:02X}"));
        }
    }
    if text.len() > 6 {
        out.push_str("...");
    }
    out
}

pub(super) fn store_string(
    value: ValueRef<'_>,
    to: &Target<'_>,
    cx: &mut CastCx<'_>,
) -> Result<Value, TypeError> {
    let ty = to.ty;
    let text = match narrow_number(value, ty) {
        Some(text) => Cow::Owned(text),
        None => target_text(value, to, cx)?,
    };
    let charset = ty.collation.charset();
    let limit = usize::try_from(ty.length).unwrap_or(usize::MAX);
    let keep = match ty.kind {
        Kind::Char | Kind::VarChar if text.len() <= limit => text.len(),
        Kind::Char | Kind::VarChar => charset.prefix_len(&text, limit),
        Kind::Binary | Kind::VarBinary => text.len().min(limit),
        _ => {
            let limit = usize::try_from(ty.max_bytes()).unwrap_or(usize::MAX);
            whole_chars(charset, &text, limit)
        }
    };
    let cut = text.get(keep..).unwrap_or_default();
    if !cut.is_empty() {
        let spaces = charset != Charset::Binary && cut.iter().all(|b| *b == b' ');
        match (spaces, ty.kind) {
            (true, Kind::Char) => {}
            (true, _) => to.truncated_note(cx),
            (false, _) => to.too_long(cx)?,
        }
    }
    let mut out = text.into_owned();
    out.truncate(keep);
    match ty.kind {
        Kind::Char => {
            let len = out.iter().rposition(|b| *b != b' ').map_or(0, |at| at + 1);
            out.truncate(len);
        }
        Kind::Binary => out.resize(limit, 0),
        _ => {}
    }
    Ok(Value::Bytes(out))
}

/// A double whose text is longer than a CHAR or VARCHAR column, with as many digits as fit.
fn narrow_number(value: ValueRef<'_>, ty: &ColumnType) -> Option<Vec<u8>> {
    let is_limited = matches!(ty.kind, Kind::Char | Kind::VarChar);
    let ValueRef::Double(number) = value else {
        return None;
    };
    let width = usize::try_from(ty.length).unwrap_or(usize::MAX);
    let mut text = Vec::new();
    crate::text::write_double(number, &mut text);
    if !is_limited || text.len() <= width || !number.is_finite() {
        return None;
    }
    crate::text::double_within(number, width)
}

/// The length of the longest prefix of whole characters within `limit` bytes.
fn whole_chars(charset: Charset, text: &[u8], limit: usize) -> usize {
    if text.len() <= limit / 4 || text.len() <= limit && !charset.is_kept_as_utf8() {
        return text.len();
    }
    if charset.is_kept_as_utf8() {
        return kept_chars(charset, text, limit);
    }
    let mut len = limit;
    if charset.max_len() > 1 {
        // Step back over continuation bytes to the start of a character.
        while len > 0 && text.get(len).is_some_and(|b| b & 0xC0 == 0x80) {
            len -= 1;
        }
    }
    len
}

/// The same for a text that is kept as UTF-8: the limit is that of its own bytes.
fn kept_chars(charset: Charset, text: &[u8], limit: usize) -> usize {
    let (mut len, mut own) = (0, 0);
    while let Some(rest) = text.get(len..)
        && let Some((_, width)) = charset.decode_char(rest)
    {
        own += charset.encoded(rest.get(..width).unwrap_or(rest)).len();
        if own > limit {
            break;
        }
        len += width;
    }
    len
}

fn trim_end(text: &[u8]) -> &[u8] {
    let len = text.iter().rposition(|b| *b != b' ').map_or(0, |at| at + 1);
    text.get(..len).unwrap_or(text)
}

/// The 1-based index of a member that equals the text.
fn find_member(ty: &ColumnType, text: &[u8]) -> Option<u64> {
    let at = ty
        .members
        .iter()
        .position(|m| ty.collation.equal(trim_end(m), text))?;
    u64::try_from(at + 1).ok()
}

/// Converts a number to the bits of a SET: fraction truncated, two's complement.
fn set_bits(value: ValueRef<'_>) -> Option<u64> {
    match value {
        ValueRef::Int(v) => Some(v as u64),
        ValueRef::Double(v) if v.abs() < 9.2e18 => Some(v as i64 as u64),
        ValueRef::Double(_) => None,
        ValueRef::Decimal(d) if d.is_negative() => d.truncate(0).to_i64().map(|v| v as u64),
        other => small_number(other),
    }
}

/// Converts a number to an ENUM index; `None` for text and for numbers out of range.
fn small_number(value: ValueRef<'_>) -> Option<u64> {
    match value {
        ValueRef::Int(v) => u64::try_from(v).ok(),
        ValueRef::UInt(v) => Some(v),
        ValueRef::Double(v) if (0.0..1.9e19).contains(&v) => Some(v as u64),
        ValueRef::Decimal(d) => d.truncate(0).to_u64(),
        _ => None,
    }
}

fn is_number(value: ValueRef<'_>) -> bool {
    matches!(
        value,
        ValueRef::Int(_) | ValueRef::UInt(_) | ValueRef::Double(_) | ValueRef::Decimal(_)
    )
}

/// Whether the value is the storage value of a SET or an ENUM.
fn is_member_value(to: &Target<'_>) -> bool {
    to.source
        .is_some_and(|s| matches!(s.kind, Kind::Enum | Kind::Set))
}

pub(super) fn store_enum(
    value: ValueRef<'_>,
    to: &Target<'_>,
    cx: &mut CastCx<'_>,
) -> Result<Value, TypeError> {
    let count = u64::try_from(to.ty.members.len()).unwrap_or(0);
    let from_enum = to.source.is_some_and(|s| s.kind == Kind::Enum);
    if from_enum && matches!(value, ValueRef::UInt(0)) {
        // The error value stays what it is.
        return Ok(Value::UInt(0));
    }
    if is_number(value) && !is_member_value(to) {
        if let Some(index @ 1..) = small_number(value)
            && index <= count
        {
            return Ok(Value::UInt(index));
        }
        to.truncated(cx)?;
        return Ok(Value::UInt(0));
    }
    let text = target_text(value, to, cx)?;
    let text = trim_end(&text);
    if let Some(index) = find_member(to.ty, text) {
        return Ok(Value::UInt(index));
    }
    if from_enum && text.is_empty() {
        return Ok(Value::UInt(0));
    }
    // Numeric text is an index if no member has it as its name.
    let prefix = int_prefix(text);
    if let Some(index @ 1..) = prefix.magnitude
        && !prefix.negative
        && prefix.read == text.len()
        && index <= count
    {
        return Ok(Value::UInt(index));
    }
    to.truncated(cx)?;
    Ok(Value::UInt(0))
}

pub(super) fn store_set(
    value: ValueRef<'_>,
    to: &Target<'_>,
    cx: &mut CastCx<'_>,
) -> Result<Value, TypeError> {
    let count = u32::try_from(to.ty.members.len()).unwrap_or(64).min(64);
    let all = if count == 0 {
        0
    } else {
        u64::MAX >> (64 - count)
    };
    if is_number(value) && !is_member_value(to) {
        let bits = set_bits(value);
        if bits.is_none_or(|b| b & !all != 0) {
            to.truncated(cx)?;
        }
        return Ok(Value::UInt(bits.unwrap_or(0) & all));
    }
    let text = target_text(value, to, cx)?;
    if trim_end(&text).is_empty() {
        return Ok(Value::UInt(0));
    }
    let mut bits = 0;
    let mut unknown = false;
    for name in text.split(|b| *b == b',') {
        match find_member(to.ty, trim_end(name)) {
            Some(index) => bits |= 1 << (index - 1),
            None => unknown = true,
        }
    }
    if unknown {
        let prefix = int_prefix(&text);
        match prefix.magnitude {
            Some(number)
                if bits == 0 && prefix.read > 0 && only_spaces_from(&text, prefix.read) =>
            {
                let number = if prefix.negative {
                    number.wrapping_neg()
                } else {
                    number
                };
                if number & !all != 0 {
                    to.truncated(cx)?;
                }
                return Ok(Value::UInt(number & all));
            }
            _ => to.truncated(cx)?,
        }
    }
    Ok(Value::UInt(bits))
}
