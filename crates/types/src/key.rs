//! Memory-comparable keys: bytes that order as the values do.
//!
//! A composite key is the concatenation of its parts. Parts are self-delimiting, so that a later
//! part never influences the comparison of an earlier one.
//!
//! | kind | bytes |
//! |---|---|
//! | NULL, where nullable | 00; any other value begins with 01 |
//! | integers | big-endian at their own width, sign bit flipped if signed |
//! | BIT, ENUM, SET, YEAR | big-endian at their storage width |
//! | FLOAT, DOUBLE | IEEE bits; negative ones inverted, others sign bit flipped; -0 is 0 |
//! | DECIMAL | see [`crate::Decimal::encode`] |
//! | DATE, DATETIME, TIMESTAMP | packed form, big-endian |
//! | TIME | microseconds, big-endian, sign bit flipped |
//! | strings | sort key of the collation; `binary` escaped (00 as 00 FF, end 00 00) |
//!
//! A descending part is inverted, including its flag byte, so NULL comes last.
//! Invariants:
//! 1. The order of keys is that of [`fn@crate::compare`] within the column's type, NULL below all.
//! 2. Equal values (1.0 and 1.00, 'a' and 'A' in a case-insensitive collation) have equal keys.
//! 3. The format is persisted: any change needs a new [`KEY_FORMAT_VERSION`].

use crate::collation::{BINARY_END, Collation};
use crate::column_type::{ColumnType, Kind};
use crate::decimal::Decimal;
use crate::temporal::{Date, DateTime, Time};
use crate::value::{Value, ValueRef};

/// Version of the key format.
pub const KEY_FORMAT_VERSION: u16 = 1;

const NULL_FLAG: u8 = 0;
const VALUE_FLAG: u8 = 1;

/// Appends the key of a storage value of a column of type `ty`. Callers convert values to the
/// column's variant first; a value of another variant is encoded as the nearest one.
#[inline]
pub fn encode_key(v: ValueRef<'_>, ty: &ColumnType, nullable: bool, desc: bool, out: &mut Vec<u8>) {
    if desc || !push_integer_key(v, ty, nullable, out) {
        encode_any_key(v, ty, nullable, desc, out);
    }
}

/// Appends the ascending key of a storage value of an integer column: most keys are such. Appends nothing and returns
/// false for other columns and values.
#[inline]
fn push_integer_key(v: ValueRef<'_>, ty: &ColumnType, nullable: bool, out: &mut Vec<u8>) -> bool {
    let width = match ty.kind {
        Kind::TinyInt => 1,
        Kind::SmallInt => 2,
        Kind::MediumInt => 3,
        Kind::Int => 4,
        Kind::BigInt => 8,
        _ => return false,
    };
    let unused = 64 - 8 * width as u32;
    // The integer in the upper bytes, so that the first ones are its key.
    let upper = match v {
        ValueRef::Int(v) if !ty.unsigned && (v << unused) >> unused == v => {
            (v << unused) as u64 ^ 1 << 63
        }
        ValueRef::UInt(v) if ty.unsigned && (v << unused) >> unused == v => v << unused,
        _ => return false,
    };
    if nullable {
        out.push(VALUE_FLAG);
    }
    let bytes = upper.to_be_bytes();
    match (width, bytes.first_chunk::<4>()) {
        (8, _) => out.extend_from_slice(&bytes),
        (4, Some(four)) => out.extend_from_slice(four),
        _ => out.extend_from_slice(bytes.get(..width).unwrap_or_default()),
    }
    true
}

/// As [`encode_key`], for every kind.
fn encode_any_key(v: ValueRef<'_>, ty: &ColumnType, nullable: bool, desc: bool, out: &mut Vec<u8>) {
    let start = out.len();
    if nullable {
        out.push(if v.is_null() { NULL_FLAG } else { VALUE_FLAG });
    }
    if !(nullable && v.is_null()) {
        encode_value(v, ty, out);
    }
    if desc {
        invert(start, out);
    }
}

/// As [`encode_key`], for a string column indexed by its first `chars` characters (bytes of binary
/// columns); other kinds are encoded completely.
pub fn encode_key_prefix(
    v: ValueRef<'_>,
    ty: &ColumnType,
    chars: u32,
    nullable: bool,
    desc: bool,
    out: &mut Vec<u8>,
) {
    match v {
        ValueRef::Bytes(text) if ty.is_string() => {
            let len = ty
                .collation
                .charset()
                .prefix_len(text, usize::try_from(chars).unwrap_or(usize::MAX));
            let text = text.get(..len).unwrap_or(text);
            encode_key(ValueRef::Bytes(text), ty, nullable, desc, out);
        }
        _ => encode_key(v, ty, nullable, desc, out),
    }
}

/// Appends the common prefix of the keys of all texts that begin with `text`, which must not end in
/// a space ([`Collation::like_start`]).
pub fn encode_text_start(
    text: &[u8],
    ty: &ColumnType,
    nullable: bool,
    desc: bool,
    out: &mut Vec<u8>,
) {
    let mut ty = ty.clone();
    ty.collation = ty.collation.first_level();
    encode_key(ValueRef::Bytes(text), &ty, nullable, desc, out);
    out.truncate(out.len().saturating_sub(ty.collation.end_symbol_len()));
}

/// Length of the type's keys, including the flag byte, if it is the same for all values.
#[must_use]
pub fn key_width(ty: &ColumnType, nullable: bool) -> Option<usize> {
    if ty.is_string() || matches!(ty.kind, Kind::Json | Kind::Null) {
        return None;
    }
    // The key of NULL is only the flag byte.
    if nullable { None } else { ty.fixed_width() }
}

/// Whether [`decode_key`] can decode keys of this type.
#[must_use]
pub fn is_decodable(ty: &ColumnType) -> bool {
    !ty.is_string() && ty.kind != Kind::Json
        || ty.collation == Collation::BINARY
        || ty.collation == Collation::UTF8MB4_0900_BIN
}

fn invert(start: usize, out: &mut [u8]) {
    for byte in out.iter_mut().skip(start) {
        *byte = !*byte;
    }
}

/// Appends the low `width` bytes of `v`, big-endian, with the sign bit flipped if `signed`.
fn push_int(v: u64, width: usize, signed: bool, out: &mut Vec<u8>) {
    let width = width.clamp(1, 8);
    let flip = if signed { 1u64 << (8 * width - 1) } else { 0 };
    let bytes = (v ^ flip).to_be_bytes();
    out.extend_from_slice(bytes.get(8 - width..).unwrap_or(&bytes));
}

fn encode_value(v: ValueRef<'_>, ty: &ColumnType, out: &mut Vec<u8>) {
    match ty.kind {
        Kind::TinyInt | Kind::SmallInt | Kind::MediumInt | Kind::Int | Kind::BigInt => {
            let width = ty.fixed_width().unwrap_or(8);
            push_int(clamp_int(v, ty), width, !ty.unsigned, out);
        }
        Kind::Bit | Kind::Year | Kind::Enum | Kind::Set => {
            push_int(unsigned(v), ty.fixed_width().unwrap_or(8), false, out);
        }
        // Adding zero turns -0 into 0.
        Kind::Float => {
            let bits = (number(v) as f32 + 0.0).to_bits();
            let ordered = if bits >> 31 == 1 {
                !bits
            } else {
                bits | 1 << 31
            };
            out.extend_from_slice(&ordered.to_be_bytes());
        }
        Kind::Double => {
            let bits = (number(v) + 0.0).to_bits();
            let ordered = if bits >> 63 == 1 {
                !bits
            } else {
                bits | 1 << 63
            };
            out.extend_from_slice(&ordered.to_be_bytes());
        }
        Kind::Decimal => {
            let precision = u8::try_from(ty.length).unwrap_or(u8::MAX);
            decimal(v).encode(precision, ty.decimals, out);
        }
        Kind::Date => {
            let date = match v {
                ValueRef::Date(d) => d,
                ValueRef::DateTime(d) => d.date(),
                _ => Date::ZERO,
            };
            out.extend_from_slice(&date.packed().to_be_bytes());
        }
        Kind::DateTime | Kind::Timestamp => {
            let value = match v {
                ValueRef::Date(d) => d.at_midnight(),
                ValueRef::DateTime(d) => d,
                _ => DateTime::ZERO,
            };
            out.extend_from_slice(&value.packed().to_be_bytes());
        }
        Kind::Time => {
            let time = if let ValueRef::Time(t) = v {
                t
            } else {
                Time::ZERO
            };
            push_int(time.as_micros() as u64, 8, true, out);
        }
        _ => ty.collation.self_delimiting_key(bytes(v), out),
    }
}

fn bytes(v: ValueRef<'_>) -> &[u8] {
    if let ValueRef::Bytes(b) = v { b } else { &[] }
}

fn number(v: ValueRef<'_>) -> f64 {
    match v {
        ValueRef::Int(v) => v as f64,
        ValueRef::UInt(v) => v as f64,
        ValueRef::Double(v) => v,
        ValueRef::Decimal(v) => v.to_f64(),
        _ => 0.0,
    }
}

fn decimal(v: ValueRef<'_>) -> Decimal {
    match v {
        ValueRef::Int(v) => Decimal::from_i64(v),
        ValueRef::UInt(v) => Decimal::from_u64(v),
        ValueRef::Double(v) => Decimal::from_f64(v).unwrap_or(Decimal::ZERO),
        ValueRef::Decimal(v) => v,
        _ => Decimal::ZERO,
    }
}

fn unsigned(v: ValueRef<'_>) -> u64 {
    match v {
        ValueRef::UInt(v) => v,
        ValueRef::Int(v) => u64::try_from(v).unwrap_or(0),
        ValueRef::Double(v) => v as u64,
        ValueRef::Decimal(v) => v.to_u64().unwrap_or(0),
        _ => 0,
    }
}

/// The integer in two's complement, clamped to the column's range.
fn clamp_int(v: ValueRef<'_>, ty: &ColumnType) -> u64 {
    let unused = 64 - ty.kind.int_bits().clamp(1, 64);
    // Storage values of the column itself, without 128 bits.
    match v {
        ValueRef::Int(v) if !ty.unsigned => {
            return v.clamp(i64::MIN >> unused, i64::MAX >> unused) as u64;
        }
        ValueRef::UInt(v) if ty.unsigned => return v.min(u64::MAX >> unused),
        _ => {}
    }
    let (low, high) = ty.int_range();
    let wide = match v {
        ValueRef::Int(v) => i128::from(v),
        ValueRef::UInt(v) => i128::from(v),
        ValueRef::Double(v) => v.round_ties_even() as i128,
        ValueRef::Decimal(d) if d.is_negative() => d.to_i64().map_or(i128::MIN, i128::from),
        ValueRef::Decimal(d) => d.to_u64().map_or(i128::MAX, i128::from),
        _ => 0,
    };
    wide.clamp(low, high) as u64
}

/// Decodes an ascending key of [`encode_key`] from the front of `key`, and advances it; `None` if
/// the type cannot be decoded ([`is_decodable`]) or the bytes are invalid.
#[must_use]
pub fn decode_key(ty: &ColumnType, nullable: bool, key: &mut &[u8]) -> Option<Value> {
    decode_key_borrowed(ty, nullable, key).map(Decoded::into_owned)
}

/// As [`decode_key`], also for descending parts.
#[must_use]
pub fn decode_key_part(
    ty: &ColumnType,
    nullable: bool,
    desc: bool,
    key: &mut &[u8],
) -> Option<Value> {
    if !desc {
        return decode_key(ty, nullable, key);
    }
    let mut ascending = key.to_vec();
    invert(0, &mut ascending);
    let mut rest = ascending.as_slice();
    let value = decode_key(ty, nullable, &mut rest)?;
    *key = key.get(key.len() - rest.len()..)?;
    Some(value)
}

/// Removes one part, of any kind, from the front of a composite `key` and appends it to `out`
/// in the normal form shared by all keys of equal values: nullable and ascending. None if the
/// bytes are not such a part.
#[must_use]
pub fn take_key_part(
    ty: &ColumnType,
    nullable: bool,
    desc: bool,
    key: &mut &[u8],
    out: &mut Vec<u8>,
) -> Option<()> {
    let mut inverted = Vec::new();
    let ascending: &[u8] = if desc {
        inverted.extend(key.iter().map(|byte| !*byte));
        &inverted
    } else {
        key
    };
    let len = part_len(ty, nullable, ascending)?;
    if !nullable {
        out.push(VALUE_FLAG);
    }
    out.extend_from_slice(ascending.get(..len)?);
    *key = key.get(len..)?;
    Some(())
}

/// Length of the ascending part at the start of `key`.
fn part_len(ty: &ColumnType, nullable: bool, key: &[u8]) -> Option<usize> {
    let (flag, rest) = if nullable {
        if *key.first()? == NULL_FLAG {
            return Some(1);
        }
        (1, key.get(1..)?)
    } else {
        (0, key)
    };
    if ty.is_string() || ty.kind == Kind::Json {
        return Some(flag + ty.collation.delimited_len(rest)?);
    }
    let mut after = rest;
    decode_value(ty, &mut after)?;
    Some(flag + rest.len() - after.len())
}

/// A value read from a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Decoded<'k> {
    /// Borrowed from the key, or without memory of its own.
    Borrowed(ValueRef<'k>),
    /// The unescaped bytes of a binary string that contains escapes in the key.
    Unescaped(Vec<u8>),
}

impl Decoded<'_> {
    /// Converts to an owned value.
    fn into_owned(self) -> Value {
        match self {
            Decoded::Borrowed(value) => value.to_owned(),
            Decoded::Unescaped(bytes) => Value::Bytes(bytes),
        }
    }
}

/// As [`decode_key`], without copying values that can be borrowed from the key.
#[must_use]
pub fn decode_key_borrowed<'k>(
    ty: &ColumnType,
    nullable: bool,
    key: &mut &'k [u8],
) -> Option<Decoded<'k>> {
    if nullable {
        let (flag, rest) = key.split_first()?;
        match *flag {
            NULL_FLAG => {
                *key = rest;
                return Some(Decoded::Borrowed(ValueRef::Null));
            }
            VALUE_FLAG => *key = rest,
            _ => return None,
        }
    }
    if !is_decodable(ty) {
        return None;
    }
    decode_value(ty, key)
}

#[inline]
fn take_int(width: usize, signed: bool, key: &mut &[u8]) -> Option<u64> {
    let (head, rest) = key.split_at_checked(width)?;
    *key = rest;
    let v = match head {
        [a, b, c, d] => u64::from(u32::from_be_bytes([*a, *b, *c, *d])),
        _ => match head.first_chunk::<8>() {
            Some(eight) if width == 8 => u64::from_be_bytes(*eight),
            _ => head.iter().fold(0u64, |v, b| v << 8 | u64::from(*b)),
        },
    };
    if !signed || width == 0 {
        return Some(v);
    }
    // Flip the sign bit back and extend it.
    let shift = 64 - 8 * u32::try_from(width).ok()?;
    let flipped = (v ^ 1 << (8 * width - 1)) << shift;
    Some((flipped as i64 >> shift) as u64)
}

fn decode_value<'k>(ty: &ColumnType, key: &mut &'k [u8]) -> Option<Decoded<'k>> {
    let width = ty.fixed_width().unwrap_or(8);
    Some(Decoded::Borrowed(match ty.kind {
        Kind::TinyInt | Kind::SmallInt | Kind::MediumInt | Kind::Int | Kind::BigInt => {
            let v = take_int(width, !ty.unsigned, key)?;
            if ty.unsigned {
                ValueRef::UInt(v)
            } else {
                ValueRef::Int(v as i64)
            }
        }
        Kind::Bit | Kind::Year | Kind::Enum | Kind::Set => {
            ValueRef::UInt(take_int(width, false, key)?)
        }
        Kind::Float => {
            let v = take_int(4, false, key)? as u32;
            let bits = if v >> 31 == 1 { v ^ 1 << 31 } else { !v };
            ValueRef::Double(f64::from(f32::from_bits(bits)))
        }
        Kind::Double => {
            let v = take_int(8, false, key)?;
            let bits = if v >> 63 == 1 { v ^ 1 << 63 } else { !v };
            ValueRef::Double(f64::from_bits(bits))
        }
        Kind::Decimal => ValueRef::Decimal(Decimal::decode(
            u8::try_from(ty.length).ok()?,
            ty.decimals,
            key,
        )?),
        Kind::Date => ValueRef::Date(Date::from_packed(
            u32::try_from(take_int(4, false, key)?).ok()?,
        )?),
        Kind::DateTime | Kind::Timestamp => {
            ValueRef::DateTime(DateTime::from_packed(take_int(8, false, key)?)?)
        }
        Kind::Time => ValueRef::Time(Time::from_micros(take_int(8, true, key)? as i64)?),
        Kind::Null => ValueRef::Null,
        _ => return take_binary(key),
    }))
}

/// Removes a binary string from the front of `key`, and unescapes it if necessary.
fn take_binary<'k>(key: &mut &'k [u8]) -> Option<Decoded<'k>> {
    let mut out = Vec::new();
    let mut rest = *key;
    loop {
        let at = memchr::memchr(0, rest)?;
        let (text, zero) = rest.split_at_checked(at)?;
        let (mark, after) = zero.split_at_checked(2)?;
        rest = after;
        if mark == BINARY_END {
            *key = rest;
            if out.is_empty() {
                return Some(Decoded::Borrowed(ValueRef::Bytes(text)));
            }
            out.extend_from_slice(text);
            return Some(Decoded::Unescaped(out));
        }
        if mark != [0, 0xFF] {
            return None;
        }
        out.extend_from_slice(text);
        out.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_taken_from_composite_keys_in_one_form() {
        let text = ColumnType::varchar(20, Collation::UTF8MB4_GENERAL_CI);
        let uca = ColumnType::varchar(20, Collation::UTF8MB4_0900_AI_CI);
        let binary = ColumnType::varchar(20, Collation::BINARY);
        let int = ColumnType::int(Kind::Int);
        let values = [
            (&text, ValueRef::Bytes("a !\u{e4}".as_bytes())),
            (&uca, ValueRef::Bytes(b"Ab")),
            (&binary, ValueRef::Bytes(b"\0\0x")),
            (&int, ValueRef::Int(-7)),
            (&text, ValueRef::Null),
            (&uca, ValueRef::Bytes(b"")),
        ];
        for desc in [false, true] {
            for nullable in [false, true] {
                let mut key = Vec::new();
                let mut wanted = Vec::new();
                for (ty, value) in &values {
                    if nullable || !value.is_null() {
                        encode_key(*value, ty, nullable, desc, &mut key);
                        let mut one = Vec::new();
                        encode_key(*value, ty, true, false, &mut one);
                        wanted.push((*ty, one));
                    }
                }
                let mut rest = key.as_slice();
                for (ty, one) in wanted {
                    let mut out = Vec::new();
                    take_key_part(ty, nullable, desc, &mut rest, &mut out).unwrap();
                    assert_eq!(out, one);
                }
                assert!(rest.is_empty());
            }
        }
    }

    #[test]
    fn integers_have_the_keys_of_the_general_encoding() {
        let kinds = [
            Kind::TinyInt,
            Kind::SmallInt,
            Kind::MediumInt,
            Kind::Int,
            Kind::BigInt,
        ];
        let mut pushed = 0;
        for kind in kinds {
            for unsigned in [false, true] {
                let ty = ColumnType {
                    unsigned,
                    ..ColumnType::int(kind)
                };
                let edges = (0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, !(1 << bit)]);
                for bits in edges.chain([u64::MAX]) {
                    for value in [ValueRef::Int(bits as i64), ValueRef::UInt(bits)] {
                        for nullable in [false, true] {
                            let (mut fast, mut general) = (Vec::new(), Vec::new());
                            encode_any_key(value, &ty, nullable, false, &mut general);
                            if push_integer_key(value, &ty, nullable, &mut fast) {
                                pushed += 1;
                                assert_eq!(fast, general, "{value:?} {kind:?} {unsigned}");
                            } else {
                                assert!(fast.is_empty());
                            }
                        }
                    }
                }
            }
        }
        assert!(pushed > 1000);
    }
}
