//! Values of columns in rows events.
//!
//! A TABLE_MAP gives each column a type number and up to two bytes of metadata; together they say how many bytes a
//! value has. CHAR, ENUM and SET share type 254: the metadata has the real type, and of CHARs above 255 bytes two bits
//! of the length.
//!
//! | type | metadata | value |
//! |---|---|---|
//! | integers, YEAR, DATE | | little-endian; YEAR minus 1900 |
//! | FLOAT, DOUBLE | width | IEEE 754, little-endian |
//! | DECIMAL | precision, scale | groups of nine digits in four bytes, big-endian, the sign in the first bit |
//! | BIT | bits mod 8, whole bytes | big-endian |
//! | CHAR, VARCHAR | maximum length in bytes | length of one byte, or two above 255; text |
//! | TEXT, BLOB, JSON | bytes of the length | length, contents |
//! | ENUM, SET | width | little-endian |
//! | DATETIME, TIMESTAMP, TIME | digits of the fraction | see `temporal` |
//!
//! Values in memory are *storage values* of [`porpoise_types`]: TIMESTAMP in UTC, ENUM by number, text as it is kept.
//!
//! Rejected: decoding straight into the target column's type. A replica's column may be wider than the source's; the
//! value is decoded by what the source says and assigned to the column afterwards.

use super::bytes::{put_uint, put_uint_be};
use super::{Decoded, Reader, json, temporal};
use porpoise_types::{Charset, ColumnType, Decimal, Kind, Value, ValueRef};

/// Type numbers of columns.
#[allow(missing_docs, reason = "the names are those of MySQL's documents")]
pub mod code {
    pub const TINY: u8 = 1;
    pub const SHORT: u8 = 2;
    pub const LONG: u8 = 3;
    pub const FLOAT: u8 = 4;
    pub const DOUBLE: u8 = 5;
    pub const NULL: u8 = 6;
    pub const TIMESTAMP: u8 = 7;
    pub const LONGLONG: u8 = 8;
    pub const INT24: u8 = 9;
    pub const DATE: u8 = 10;
    pub const TIME: u8 = 11;
    pub const DATETIME: u8 = 12;
    pub const YEAR: u8 = 13;
    pub const VARCHAR: u8 = 15;
    pub const BIT: u8 = 16;
    pub const TIMESTAMP2: u8 = 17;
    pub const DATETIME2: u8 = 18;
    pub const TIME2: u8 = 19;
    pub const MARIADB_BLOB_COMPRESSED: u8 = 140;
    pub const MARIADB_VARCHAR_COMPRESSED: u8 = 141;
    pub const VECTOR: u8 = 242;
    pub const JSON: u8 = 245;
    pub const NEWDECIMAL: u8 = 246;
    pub const ENUM: u8 = 247;
    pub const SET: u8 = 248;
    pub const BLOB: u8 = 252;
    pub const VAR_STRING: u8 = 253;
    pub const STRING: u8 = 254;
    pub const GEOMETRY: u8 = 255;
}

/// Type of a column as a TABLE_MAP has it. ENUM and SET are unfolded from type 254.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireColumn {
    /// Type number of [`code`].
    pub code: u8,
    /// Metadata: maximum bytes of CHAR and VARCHAR; `precision << 8 | scale` of DECIMAL; bits of BIT; width of FLOAT,
    /// DOUBLE, ENUM, SET and of the length of BLOBs; digits of the fraction of temporal types.
    pub metadata: u16,
}

impl WireColumn {
    /// The form of a column of this server.
    #[must_use]
    pub fn of(ty: &ColumnType) -> WireColumn {
        let fsp = u16::from(ty.decimals.min(6));
        let bytes = || u16::try_from(ty.max_bytes()).unwrap_or(u16::MAX);
        let width = || ty.fixed_width().unwrap_or(1) as u16;
        let (code, metadata) = match ty.kind {
            Kind::TinyInt => (code::TINY, 0),
            Kind::SmallInt => (code::SHORT, 0),
            Kind::MediumInt => (code::INT24, 0),
            Kind::Int => (code::LONG, 0),
            Kind::BigInt => (code::LONGLONG, 0),
            Kind::Float => (code::FLOAT, 4),
            Kind::Double => (code::DOUBLE, 8),
            Kind::Decimal => (
                code::NEWDECIMAL,
                (ty.length.min(65) as u16) << 8 | u16::from(ty.decimals),
            ),
            Kind::Bit => (code::BIT, ty.length.clamp(1, 64) as u16),
            Kind::Year => (code::YEAR, 0),
            Kind::Date => (code::DATE, 0),
            Kind::DateTime => (code::DATETIME2, fsp),
            Kind::Timestamp => (code::TIMESTAMP2, fsp),
            Kind::Time => (code::TIME2, fsp),
            Kind::Char | Kind::Binary => (code::STRING, bytes()),
            Kind::VarChar | Kind::VarBinary => (code::VARCHAR, bytes()),
            Kind::TinyText | Kind::TinyBlob => (code::BLOB, 1),
            Kind::Text | Kind::Blob => (code::BLOB, 2),
            Kind::MediumText | Kind::MediumBlob => (code::BLOB, 3),
            Kind::LongText | Kind::LongBlob => (code::BLOB, 4),
            Kind::Enum => (code::ENUM, width()),
            Kind::Set => (code::SET, width()),
            Kind::Json => (code::JSON, 4),
            Kind::Null => (code::NULL, 0),
        };
        WireColumn { code, metadata }
    }

    /// Reads the metadata of a type.
    pub(super) fn decode(wire_code: u8, metadata: &mut Reader<'_>) -> Decoded<WireColumn> {
        let plain = |code, metadata| WireColumn { code, metadata };
        Ok(match wire_code {
            code::FLOAT
            | code::DOUBLE
            | code::BLOB
            | code::JSON
            | code::GEOMETRY
            | code::VECTOR
            | code::MARIADB_BLOB_COMPRESSED
            | code::TIMESTAMP2
            | code::DATETIME2
            | code::TIME2 => plain(wire_code, u16::from(metadata.u8("metadata")?)),
            code::VARCHAR | code::VAR_STRING | code::MARIADB_VARCHAR_COMPRESSED => {
                plain(wire_code, metadata.u16("metadata")?)
            }
            code::BIT => {
                let bits = u16::from(metadata.u8("bits")?);
                plain(wire_code, bits + 8 * u16::from(metadata.u8("bytes")?))
            }
            code::NEWDECIMAL => {
                let precision = u16::from(metadata.u8("precision")?);
                plain(wire_code, precision << 8 | u16::from(metadata.u8("scale")?))
            }
            code::STRING | code::ENUM | code::SET => {
                let real = metadata.u8("type")?;
                let length = u16::from(metadata.u8("length")?);
                if real & 0x30 == 0x30 {
                    plain(real, length)
                } else {
                    // Two bits of the length, inverted, in the place of two bits that all these types have.
                    plain(real | 0x30, length | u16::from(real & 0x30 ^ 0x30) << 4)
                }
            }
            _ => plain(wire_code, 0),
        })
    }

    /// Type number in the TABLE_MAP.
    pub(super) fn wire_code(&self) -> u8 {
        match self.code {
            code::ENUM | code::SET => code::STRING,
            other => other,
        }
    }

    pub(super) fn encode_metadata(&self, out: &mut Vec<u8>) {
        match self.code {
            code::FLOAT
            | code::DOUBLE
            | code::BLOB
            | code::JSON
            | code::GEOMETRY
            | code::VECTOR
            | code::MARIADB_BLOB_COMPRESSED
            | code::TIMESTAMP2
            | code::DATETIME2
            | code::TIME2 => out.push(self.metadata as u8),
            code::VARCHAR | code::VAR_STRING | code::MARIADB_VARCHAR_COMPRESSED => {
                put_uint(out, u64::from(self.metadata), 2);
            }
            code::BIT => out.extend([(self.metadata % 8) as u8, (self.metadata / 8) as u8]),
            code::NEWDECIMAL => out.extend(self.metadata.to_be_bytes()),
            code::STRING => {
                let high = (self.metadata >> 4 & 0x30) as u8;
                out.extend([code::STRING ^ high, self.metadata as u8]);
            }
            code::ENUM | code::SET => out.extend([self.code, self.metadata as u8]),
            _ => {}
        }
    }

    /// Bytes of the length before a string.
    fn length_width(&self) -> usize {
        match self.code {
            code::BLOB | code::JSON | code::GEOMETRY | code::VECTOR => usize::from(self.metadata),
            _ if self.metadata > 255 => 2,
            _ => 1,
        }
    }

    /// Name of the type for messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.code {
            code::TINY => "TINYINT",
            code::SHORT => "SMALLINT",
            code::INT24 => "MEDIUMINT",
            code::LONG => "INT",
            code::LONGLONG => "BIGINT",
            code::FLOAT => "FLOAT",
            code::DOUBLE => "DOUBLE",
            code::NEWDECIMAL => "DECIMAL",
            code::BIT => "BIT",
            code::YEAR => "YEAR",
            code::DATE => "DATE",
            code::TIME | code::TIME2 => "TIME",
            code::DATETIME | code::DATETIME2 => "DATETIME",
            code::TIMESTAMP | code::TIMESTAMP2 => "TIMESTAMP",
            code::STRING => "CHAR",
            code::VARCHAR | code::VAR_STRING => "VARCHAR",
            code::BLOB => "BLOB or TEXT",
            code::JSON => "JSON",
            code::ENUM => "ENUM",
            code::SET => "SET",
            code::GEOMETRY => "GEOMETRY",
            code::VECTOR => "VECTOR",
            code::MARIADB_BLOB_COMPRESSED | code::MARIADB_VARCHAR_COMPRESSED => "COMPRESSED",
            _ => "unknown",
        }
    }

    /// Reads a value that is not NULL. Text stays in the source's character set, and lacks the trailing spaces or
    /// zeros of CHAR and BINARY. JSON documents become text.
    ///
    /// # Errors
    /// The value is cut off or out of its type's range; a type that no column of this server has.
    pub fn decode_value(&self, unsigned: bool, body: &mut Reader<'_>) -> Decoded<Value> {
        let integer = |body: &mut Reader<'_>, width: usize| -> Decoded<Value> {
            let value = body.uint(width, "integer")?;
            if unsigned {
                return Ok(Value::UInt(value));
            }
            let shift = 64 - 8 * width as u32;
            Ok(Value::Int((value << shift) as i64 >> shift))
        };
        Ok(match self.code {
            code::TINY => integer(body, 1)?,
            code::SHORT => integer(body, 2)?,
            code::INT24 => integer(body, 3)?,
            code::LONG => integer(body, 4)?,
            code::LONGLONG => integer(body, 8)?,
            code::FLOAT => Value::Double(f64::from(f32::from_le_bytes(body.array("float")?))),
            code::DOUBLE => Value::Double(f64::from_le_bytes(body.array("double")?)),
            code::NEWDECIMAL => Value::Decimal(take_decimal(self.metadata, body)?),
            code::BIT => {
                let width = usize::from(self.metadata.div_ceil(8)).min(8);
                Value::UInt(body.uint_be(width, "bits")?)
            }
            code::YEAR => Value::UInt(match body.u8("year")? {
                0 => 0,
                year => 1900 + u64::from(year),
            }),
            code::DATE => Value::Date(temporal::take_date(body)?),
            code::TIME => Value::Time(temporal::take_old_time(body)?),
            code::DATETIME => Value::DateTime(temporal::take_old_datetime(body)?),
            code::TIMESTAMP => {
                let seconds = body.u32("timestamp")?;
                Value::DateTime(temporal::timestamp(body, seconds, 0)?)
            }
            code::TIMESTAMP2 => {
                Value::DateTime(temporal::take_timestamp(body, self.metadata as u8)?)
            }
            code::DATETIME2 => Value::DateTime(temporal::take_datetime(body, self.metadata as u8)?),
            code::TIME2 => Value::Time(temporal::take_time(body, self.metadata as u8)?),
            code::ENUM => Value::UInt(body.uint(usize::from(self.metadata.min(2)), "ENUM")?),
            code::SET => Value::UInt(body.uint(usize::from(self.metadata.min(8)), "SET")?),
            code::STRING | code::VARCHAR | code::VAR_STRING | code::BLOB => {
                Value::Bytes(self.take_string(body)?.to_vec())
            }
            code::JSON => Value::Bytes(json::to_text(self.take_string(body)?)?),
            code::NULL => Value::Null,
            _ => {
                return Err(body.error(format!("columns of type {} ({})", self.name(), self.code)));
            }
        })
    }

    fn take_string<'a>(&self, body: &mut Reader<'a>) -> Decoded<&'a [u8]> {
        let length = body.uint(self.length_width(), "length of a string")?;
        body.take(
            usize::try_from(length).unwrap_or(usize::MAX),
            "string or blob",
        )
    }

    /// Appends a storage value of a column of this type; NULL appends nothing.
    pub fn encode_value(&self, value: ValueRef<'_>, ty: &ColumnType, out: &mut Vec<u8>) {
        match (self.code, value) {
            (_, ValueRef::Null) => {}
            (code::FLOAT, ValueRef::Double(v)) => out.extend_from_slice(&(v as f32).to_le_bytes()),
            (_, ValueRef::Double(v)) => out.extend_from_slice(&v.to_le_bytes()),
            (_, ValueRef::Decimal(v)) => put_decimal(v, self.metadata, out),
            (code::BIT, ValueRef::UInt(v)) => {
                put_uint_be(out, v, usize::from(self.metadata.div_ceil(8)));
            }
            (code::YEAR, ValueRef::UInt(v)) => out.push(v.saturating_sub(1900) as u8),
            (_, ValueRef::UInt(v)) => put_uint(out, v, self.integer_width()),
            (_, ValueRef::Int(v)) => put_uint(out, v as u64, self.integer_width()),
            (_, ValueRef::Date(v)) => put_uint(out, u64::from(v.packed()), 3),
            (code::TIMESTAMP2, ValueRef::DateTime(v)) => {
                temporal::put_timestamp(out, v, self.metadata as u8);
            }
            (_, ValueRef::DateTime(v)) => temporal::put_datetime(out, v, self.metadata as u8),
            (_, ValueRef::Time(v)) => temporal::put_time(out, v, self.metadata as u8),
            (code::JSON, ValueRef::Bytes(text)) => {
                let mut document = Vec::new();
                json::from_text(text, &mut document);
                put_uint(out, document.len() as u64, self.length_width());
                out.extend_from_slice(&document);
            }
            (_, ValueRef::Bytes(text)) => self.put_text(text, ty, out),
        }
    }

    fn integer_width(&self) -> usize {
        match self.code {
            code::TINY => 1,
            code::SHORT => 2,
            code::INT24 => 3,
            code::LONG => 4,
            code::LONGLONG => 8,
            _ => usize::from(self.metadata),
        }
    }

    fn put_text(&self, text: &[u8], ty: &ColumnType, out: &mut Vec<u8>) {
        let charset = ty.collation.charset();
        let encoded = if charset.is_kept_as_utf8() {
            charset.encoded(text)
        } else {
            std::borrow::Cow::Borrowed(text)
        };
        let mut bytes = encoded.as_ref();
        if self.code == code::STRING && charset == Charset::Binary {
            // BINARY is written without the zeros that pad it.
            let used = bytes
                .iter()
                .rposition(|byte| *byte != 0)
                .map_or(0, |at| at + 1);
            bytes = bytes.get(..used).unwrap_or(bytes);
        }
        put_uint(out, bytes.len() as u64, self.length_width());
        out.extend_from_slice(bytes);
    }
}

/// Digits of a group.
const GROUP: usize = 9;
/// Bytes of a group of fewer digits.
const GROUP_BYTES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];

/// Digits of the groups of an integer part (the short one first) and a fraction (the short one last).
fn groups(precision: usize, scale: usize) -> impl Iterator<Item = usize> {
    let integer = precision.saturating_sub(scale);
    let short = |digits: usize| Some(digits % GROUP).filter(|digits| *digits > 0);
    let full = |digits: usize| std::iter::repeat_n(GROUP, digits / GROUP);
    short(integer)
        .into_iter()
        .chain(full(integer))
        .chain(full(scale))
        .chain(short(scale))
}

/// Appends a DECIMAL: groups of nine digits, the first bit inverted, all bits inverted if negative. `metadata` is
/// `precision << 8 | scale`.
pub(super) fn put_decimal(value: Decimal, metadata: u16, out: &mut Vec<u8>) {
    let (precision, scale) = (metadata >> 8, metadata as u8);
    let value = value.rescale(scale).unwrap_or(value);
    let mut text = Vec::with_capacity(70);
    value.write_text(&mut text);
    let mut digits: Vec<u8> = text
        .iter()
        .filter(|byte| byte.is_ascii_digit())
        .map(|digit| digit - b'0')
        .collect();
    let wanted = usize::from(precision);
    if digits.len() > wanted {
        // The zero before a bare point, where the column has no integer digits.
        digits.drain(..digits.len() - wanted);
    }
    let mut digits = std::iter::repeat_n(0, wanted - digits.len()).chain(digits);
    let start = out.len();
    for count in groups(wanted, usize::from(scale)) {
        let group = digits
            .by_ref()
            .take(count)
            .fold(0u64, |group, digit| group * 10 + u64::from(digit));
        put_uint_be(out, group, GROUP_BYTES.get(count).copied().unwrap_or(4));
    }
    let is_negative = value.is_negative();
    if let Some(written) = out.get_mut(start..) {
        if let Some(first) = written.first_mut() {
            *first ^= 0x80;
        }
        if is_negative {
            written.iter_mut().for_each(|byte| *byte = !*byte);
        }
    }
}

/// Reads a DECIMAL; `metadata` is `precision << 8 | scale`.
pub(super) fn take_decimal(metadata: u16, body: &mut Reader<'_>) -> Decoded<Decimal> {
    let (precision, scale) = (usize::from(metadata >> 8), usize::from(metadata & 0xFF));
    if precision > 65 || scale > 30 || scale > precision || precision == 0 {
        return Err(body.error(format!("DECIMAL({precision},{scale})")));
    }
    let len: usize = groups(precision, scale)
        .map(|count| GROUP_BYTES.get(count).copied().unwrap_or(4))
        .sum();
    let mut bytes = body.take(len, "decimal")?.to_vec();
    let is_negative = bytes.first().is_some_and(|first| first & 0x80 == 0);
    if let Some(first) = bytes.first_mut() {
        *first ^= 0x80;
    }
    if is_negative {
        bytes.iter_mut().for_each(|byte| *byte = !*byte);
    }
    let mut text = Vec::with_capacity(precision + 3);
    if is_negative {
        text.push(b'-');
    }
    text.push(b'0');
    let mut digits_left = precision;
    let mut reader = Reader::new("rows", &bytes);
    if precision == scale {
        text.push(b'.');
    }
    for count in groups(precision, scale) {
        let group = reader.uint_be(GROUP_BYTES.get(count).copied().unwrap_or(4), "decimal")?;
        let digits = format!("{group:0count$}");
        if digits.len() != count {
            return Err(body.error(format!("{group} in a group of {count} digits of a DECIMAL")));
        }
        text.extend_from_slice(digits.as_bytes());
        digits_left -= count;
        if digits_left == scale && scale > 0 && precision != scale {
            text.push(b'.');
        }
    }
    Decimal::parse(&text).map_err(|_| body.error("a DECIMAL out of range"))
}
