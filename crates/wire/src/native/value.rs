//! Typed values. A column's type determines its encoding; NULL is a bit beside the values.

use super::{Reader, put_bytes};
use porpoise_types::{ColumnType, Date, DateTime, Kind, Time, ValueRef};
use std::io::Write;

/// Encoding of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Encoding {
    /// One byte, signed.
    Int8 = 1,
    /// Two bytes, signed.
    Int16 = 2,
    /// Four bytes, signed.
    Int32 = 3,
    /// Eight bytes, signed.
    Int64 = 4,
    /// One byte, unsigned.
    UInt8 = 5,
    /// Two bytes, unsigned. YEAR, and the number of an ENUM's member.
    UInt16 = 6,
    /// Four bytes, unsigned.
    UInt32 = 7,
    /// Eight bytes, unsigned. BIT, and the members of a SET as bits.
    UInt64 = 8,
    /// FLOAT.
    Float32 = 9,
    /// DOUBLE.
    Float64 = 10,
    /// DECIMAL as text.
    Decimal = 11,
    /// Strings of characters (UTF-8) or bytes, and JSON as text.
    Bytes = 12,
    /// DATE: u16 year, u8 month, u8 day.
    Date = 13,
    /// DATETIME, and TIMESTAMP in UTC: as DATE, then u8 hour, u8 minute, u8 second, u32
    /// microseconds.
    DateTime = 14,
    /// TIME: i64 microseconds.
    Time = 15,
}

const ENCODINGS: [Encoding; 15] = {
    use Encoding::*;
    [
        Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Float32, Float64, Decimal, Bytes,
        Date, DateTime, Time,
    ]
};

impl Encoding {
    /// The encoding with this number.
    pub fn of_number(number: u8) -> Option<Encoding> {
        ENCODINGS.get(usize::from(number).checked_sub(1)?).copied()
    }

    /// The encoding of a column of this type.
    pub fn of(ty: &ColumnType) -> Encoding {
        match (ty.kind, ty.unsigned) {
            (Kind::TinyInt, false) => Encoding::Int8,
            (Kind::SmallInt, false) => Encoding::Int16,
            (Kind::MediumInt | Kind::Int, false) => Encoding::Int32,
            (Kind::BigInt, false) => Encoding::Int64,
            (Kind::TinyInt, true) => Encoding::UInt8,
            (Kind::SmallInt, true) | (Kind::Year | Kind::Enum, _) => Encoding::UInt16,
            (Kind::MediumInt | Kind::Int, true) => Encoding::UInt32,
            (Kind::BigInt, true) | (Kind::Bit | Kind::Set, _) => Encoding::UInt64,
            (Kind::Float, _) => Encoding::Float32,
            (Kind::Double, _) => Encoding::Float64,
            (Kind::Decimal, _) => Encoding::Decimal,
            (Kind::Date, _) => Encoding::Date,
            (Kind::DateTime | Kind::Timestamp, _) => Encoding::DateTime,
            (Kind::Time, _) => Encoding::Time,
            _ => Encoding::Bytes,
        }
    }

    /// Whether values are integers, to which a number can be added.
    pub fn is_integer(self) -> bool {
        (Encoding::Int8 as u8..=Encoding::UInt64 as u8).contains(&(self as u8))
    }
}

/// Error: the column's encoding cannot represent the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the value does not fit the column's type")]
pub struct NotEncodable;

/// The number of an integer value, if it is in the range of `T`.
#[inline]
fn number<T: TryFrom<i64> + TryFrom<u64>>(value: ValueRef<'_>) -> Result<T, NotEncodable> {
    match value {
        ValueRef::Int(v) => T::try_from(v).map_err(|_| NotEncodable),
        ValueRef::UInt(v) => T::try_from(v).map_err(|_| NotEncodable),
        _ => Err(NotEncodable),
    }
}

fn real(value: ValueRef<'_>) -> Result<f64, NotEncodable> {
    match value {
        ValueRef::Double(v) => Ok(v),
        ValueRef::Int(v) => Ok(v as f64),
        ValueRef::UInt(v) => Ok(v as f64),
        _ => Err(NotEncodable),
    }
}

fn put_date(out: &mut Vec<u8>, date: Date) {
    out.extend_from_slice(&date.year().to_le_bytes());
    out.extend_from_slice(&[date.month(), date.day()]);
}

/// Appends a value that is not NULL.
///
/// # Errors
/// [`NotEncodable`]; nothing is appended then.
#[inline]
pub fn put(out: &mut Vec<u8>, encoding: Encoding, value: ValueRef<'_>) -> Result<(), NotEncodable> {
    match encoding {
        Encoding::Int8 => out.extend_from_slice(&number::<i8>(value)?.to_le_bytes()),
        Encoding::Int16 => out.extend_from_slice(&number::<i16>(value)?.to_le_bytes()),
        Encoding::Int32 => out.extend_from_slice(&number::<i32>(value)?.to_le_bytes()),
        Encoding::Int64 => out.extend_from_slice(&number::<i64>(value)?.to_le_bytes()),
        Encoding::UInt8 => out.extend_from_slice(&number::<u8>(value)?.to_le_bytes()),
        Encoding::UInt16 => out.extend_from_slice(&number::<u16>(value)?.to_le_bytes()),
        Encoding::UInt32 => out.extend_from_slice(&number::<u32>(value)?.to_le_bytes()),
        Encoding::UInt64 => out.extend_from_slice(&number::<u64>(value)?.to_le_bytes()),
        Encoding::Float32 => out.extend_from_slice(&(real(value)? as f32).to_le_bytes()),
        Encoding::Float64 => out.extend_from_slice(&real(value)?.to_le_bytes()),
        Encoding::Bytes => match value {
            ValueRef::Bytes(bytes) => put_bytes(out, bytes),
            _ => return Err(NotEncodable),
        },
        Encoding::Decimal | Encoding::Date | Encoding::DateTime | Encoding::Time => {
            put_other(out, encoding, value)?;
        }
    }
    Ok(())
}

fn put_other(
    out: &mut Vec<u8>,
    encoding: Encoding,
    value: ValueRef<'_>,
) -> Result<(), NotEncodable> {
    match (encoding, value) {
        (Encoding::Decimal, ValueRef::Decimal(decimal)) => put_text(out, &decimal),
        (Encoding::Decimal, ValueRef::Int(number)) => put_text(out, &number),
        (Encoding::Decimal, ValueRef::UInt(number)) => put_text(out, &number),
        (Encoding::Decimal, ValueRef::Bytes(text)) => put_bytes(out, text),
        (Encoding::Date, ValueRef::Date(date)) => put_date(out, date),
        (Encoding::DateTime, ValueRef::DateTime(at)) => {
            put_date(out, at.date());
            out.extend_from_slice(&[at.hour(), at.minute(), at.second()]);
            out.extend_from_slice(&at.micros().to_le_bytes());
        }
        (Encoding::Time, ValueRef::Time(time)) => {
            out.extend_from_slice(&time.as_micros().to_le_bytes());
        }
        _ => return Err(NotEncodable),
    }
    Ok(())
}

fn put_text(out: &mut Vec<u8>, shown: &dyn std::fmt::Display) {
    // A number has at most 80 characters.
    let mut text = [0u8; 96];
    let mut left = text.as_mut_slice();
    let capacity = left.len();
    let written = match write!(left, "{shown}") {
        Ok(()) => capacity - left.len(),
        Err(_) => 0,
    };
    put_bytes(out, text.get(..written).unwrap_or_default());
}

fn get_date(reader: &mut Reader<'_>) -> Option<Date> {
    Date::new(reader.u16()?, reader.u8()?, reader.u8()?)
}

/// Reads a value. Returns `None` if the bytes are not a value of this encoding.
#[inline]
pub fn get<'a>(reader: &mut Reader<'a>, encoding: Encoding) -> Option<ValueRef<'a>> {
    Some(match encoding {
        Encoding::Int8 => ValueRef::Int(i64::from(i8::from_le_bytes(reader.array()?))),
        Encoding::Int16 => ValueRef::Int(i64::from(i16::from_le_bytes(reader.array()?))),
        Encoding::Int32 => ValueRef::Int(i64::from(i32::from_le_bytes(reader.array()?))),
        Encoding::Int64 => ValueRef::Int(i64::from_le_bytes(reader.array()?)),
        Encoding::UInt8 => ValueRef::UInt(u64::from(reader.u8()?)),
        Encoding::UInt16 => ValueRef::UInt(u64::from(reader.u16()?)),
        Encoding::UInt32 => ValueRef::UInt(u64::from(reader.u32()?)),
        Encoding::UInt64 => ValueRef::UInt(reader.u64()?),
        Encoding::Float32 => ValueRef::Double(f64::from(f32::from_le_bytes(reader.array()?))),
        Encoding::Float64 => ValueRef::Double(f64::from_le_bytes(reader.array()?)),
        Encoding::Decimal | Encoding::Bytes => ValueRef::Bytes(reader.bytes()?),
        Encoding::Date => ValueRef::Date(get_date(reader)?),
        Encoding::DateTime => {
            let date = get_date(reader)?;
            let [hour, minute, second] = reader.array()?;
            ValueRef::DateTime(DateTime::new(date, hour, minute, second, reader.u32()?)?)
        }
        Encoding::Time => ValueRef::Time(Time::from_micros(i64::from_le_bytes(reader.array()?))?),
    })
}

/// Appends values: a bitmap with a bit for each that is NULL, then the others.
///
/// # Errors
/// [`NotEncodable`]; part of the values may have been appended.
#[inline]
pub fn put_row<'v>(
    out: &mut Vec<u8>,
    count: usize,
    values: impl Iterator<Item = (Encoding, ValueRef<'v>)>,
) -> Result<(), NotEncodable> {
    let bitmap = out.len();
    out.resize(bitmap + count.div_ceil(8), 0);
    for (n, (encoding, value)) in values.enumerate() {
        if value.is_null() {
            if let Some(byte) = out.get_mut(bitmap + n / 8) {
                *byte |= 1 << (n % 8);
            }
        } else {
            put(out, encoding, value)?;
        }
    }
    Ok(())
}

/// Reads values that [`put_row`] wrote, and passes each with its number to `each`. Returns `None`
/// if the bytes end too early or contain an invalid value.
#[inline]
pub fn get_row<'a>(
    reader: &mut Reader<'a>,
    encodings: impl ExactSizeIterator<Item = Encoding>,
    mut each: impl FnMut(usize, ValueRef<'a>),
) -> Option<()> {
    let bitmap = reader.take(encodings.len().div_ceil(8))?;
    for (n, encoding) in encodings.enumerate() {
        let is_null = bitmap.get(n / 8).is_some_and(|b| b & (1 << (n % 8)) != 0);
        each(
            n,
            if is_null {
                ValueRef::Null
            } else {
                get(reader, encoding)?
            },
        );
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_round_trip_in_every_encoding() {
        let date = Date::new(2026, 11, 24).unwrap();
        let at = DateTime::new(date, 23, 59, 58, 123_456).unwrap();
        let cases = [
            (Encoding::Int8, ValueRef::Int(-128)),
            (Encoding::Int16, ValueRef::Int(-300)),
            (Encoding::Int32, ValueRef::Int(i64::from(i32::MIN))),
            (Encoding::Int64, ValueRef::Int(i64::MAX)),
            (Encoding::UInt8, ValueRef::UInt(255)),
            (Encoding::UInt16, ValueRef::UInt(65_535)),
            (Encoding::UInt32, ValueRef::UInt(1 << 31)),
            (Encoding::UInt64, ValueRef::UInt(u64::MAX)),
            (Encoding::Float32, ValueRef::Double(1.5)),
            (Encoding::Float64, ValueRef::Double(0.1)),
            (Encoding::Decimal, ValueRef::Bytes(b"12.50")),
            (
                Encoding::Bytes,
                ValueRef::Bytes("dauphin \u{1f42c}".as_bytes()),
            ),
            (Encoding::Bytes, ValueRef::Null),
            (Encoding::Date, ValueRef::Date(date)),
            (Encoding::DateTime, ValueRef::DateTime(at)),
            (
                Encoding::Time,
                ValueRef::Time(Time::from_micros(-1_000_001).unwrap()),
            ),
        ];
        let mut out = Vec::new();
        put_row(&mut out, cases.len(), cases.into_iter()).unwrap();
        let mut read = Vec::new();
        let mut reader = Reader::new(&out);
        get_row(&mut reader, cases.iter().map(|c| c.0), |_, v| read.push(v)).unwrap();
        assert!(reader.is_empty());
        assert_eq!(read, cases.map(|c| c.1));
        for cut in 0..out.len() {
            let mut reader = Reader::new(&out[..cut]);
            let whole = get_row(&mut reader, cases.iter().map(|c| c.0), |_, _| {});
            assert!(whole.is_none(), "{cut}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut out = Vec::new();
        for (encoding, value) in [
            (Encoding::Int8, ValueRef::Int(128)),
            (Encoding::UInt64, ValueRef::Int(-1)),
            (Encoding::Int64, ValueRef::UInt(1 << 63)),
            (Encoding::Bytes, ValueRef::Int(1)),
            (Encoding::Date, ValueRef::Bytes(b"2026-01-01")),
            (Encoding::Int32, ValueRef::Double(1.0)),
        ] {
            assert_eq!(
                put(&mut out, encoding, value),
                Err(NotEncodable),
                "{encoding:?}"
            );
        }
        assert!(out.is_empty());
    }

    #[test]
    fn numbers_of_encodings_are_stable() {
        for number in 1..=15u8 {
            assert_eq!(Encoding::of_number(number).map(|e| e as u8), Some(number));
        }
        assert_eq!(Encoding::of_number(0), None);
        assert_eq!(Encoding::of_number(16), None);
    }
}
