//! Writing and reading the small binary records of the catalog, and numbers of variable length.
//!
//! Integers are little-endian; strings, byte strings and lists have a u32 length. A [`Reader`] does
//! not trust a length: it checks it against the remaining bytes, and allocates nothing in advance.

use crate::error::{Error, Result};
use porpoise_types::{ColumnType, Date, DateTime, Decimal, Time, Value};

/// Builds a record.
#[derive(Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// An empty record.
    pub fn new() -> Writer {
        Writer::default()
    }

    /// Returns the bytes written so far.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    /// One byte.
    pub fn u8(&mut self, v: u8) {
        self.0.push(v);
    }

    /// A truth value as one byte.
    pub fn bool(&mut self, v: bool) {
        self.0.push(u8::from(v));
    }

    /// Two bytes.
    pub fn u16(&mut self, v: u16) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    /// Four bytes.
    pub fn u32(&mut self, v: u32) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    /// Eight bytes.
    pub fn u64(&mut self, v: u64) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    /// Eight bytes, signed.
    pub fn i64(&mut self, v: i64) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    /// A length and bytes.
    pub fn bytes(&mut self, v: &[u8]) {
        self.u32(u32::try_from(v.len()).unwrap_or(u32::MAX));
        self.0.extend_from_slice(v);
    }

    /// A length and text.
    pub fn str(&mut self, v: &str) {
        self.bytes(v.as_bytes());
    }

    /// A length and that many items.
    pub fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Writer, &T)) {
        self.u32(u32::try_from(items.len()).unwrap_or(u32::MAX));
        for item in items {
            write(self, item);
        }
    }

    /// A column's type, in the form `types` defines.
    pub fn column_type(&mut self, ty: &ColumnType) {
        let mut encoded = Vec::new();
        ty.encode(&mut encoded);
        self.bytes(&encoded);
    }

    /// A value with its kind.
    pub fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.u8(0),
            Value::Int(v) => {
                self.u8(1);
                self.i64(*v);
            }
            Value::UInt(v) => {
                self.u8(2);
                self.u64(*v);
            }
            Value::Double(v) => {
                self.u8(3);
                self.u64(v.to_bits());
            }
            Value::Decimal(v) => {
                self.u8(4);
                let mut text = Vec::new();
                v.write_text(&mut text);
                self.bytes(&text);
            }
            Value::Bytes(v) => {
                self.u8(5);
                self.bytes(v);
            }
            Value::Date(v) => {
                self.u8(6);
                self.u32(v.packed());
            }
            Value::DateTime(v) => {
                self.u8(7);
                self.u64(v.packed());
            }
            Value::Time(v) => {
                self.u8(8);
                self.i64(v.as_micros());
            }
        }
    }
}

/// Reads a record; every method fails with [`Error::Corrupt`] when the record
/// is too short or malformed.
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// A reader at the start of `record`.
    pub fn new(record: &'a [u8]) -> Reader<'a> {
        Reader(record)
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let Some((head, tail)) = self.0.split_at_checked(n) else {
            return Err(Error::corrupt("a catalog record ends too early"));
        };
        self.0 = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.take(N)?;
        <[u8; N]>::try_from(bytes).map_err(|_| Error::corrupt("a catalog record ends too early"))
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    /// A truth value.
    pub fn bool(&mut self) -> Result<bool> {
        Ok(self.u8()? != 0)
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Eight bytes, signed.
    pub fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// A length and bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.u32()? as usize;
        self.take(len)
    }

    /// A length and text.
    pub fn str(&mut self) -> Result<String> {
        let bytes = self.bytes()?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(Error::corrupt("a catalog record contains invalid UTF-8")),
        }
    }

    /// A length and that many items.
    pub fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let len = self.u32()?;
        let mut items = Vec::new();
        for _ in 0..len {
            items.push(read(self)?);
        }
        Ok(items)
    }

    /// A column's type.
    pub fn column_type(&mut self) -> Result<ColumnType> {
        let mut bytes = self.bytes()?;
        ColumnType::decode(&mut bytes).ok_or_else(|| Error::corrupt("an unknown column type"))
    }

    /// A value with its kind.
    pub fn value(&mut self) -> Result<Value> {
        let bad = || Error::corrupt("an unknown value in the catalog");
        Ok(match self.u8()? {
            0 => Value::Null,
            1 => Value::Int(self.i64()?),
            2 => Value::UInt(self.u64()?),
            3 => Value::Double(f64::from_bits(self.u64()?)),
            4 => Value::Decimal(Decimal::parse(self.bytes()?).map_err(|_| bad())?),
            5 => Value::Bytes(self.bytes()?.to_vec()),
            6 => Value::Date(Date::from_packed(self.u32()?).ok_or_else(bad)?),
            7 => Value::DateTime(DateTime::from_packed(self.u64()?).ok_or_else(bad)?),
            8 => Value::Time(Time::from_micros(self.i64()?).ok_or_else(bad)?),
            _ => return Err(bad()),
        })
    }
}

/// Appends a number in groups of seven bits, lowest first; all bytes but the last have the top bit
/// set (LEB128).
pub fn push_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

/// Removes a number that [`push_varint`] wrote from the start of the bytes; `None` if they do not begin
/// with one.
pub fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
