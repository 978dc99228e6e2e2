//! Column types: what a column or an expression is declared as, MySQL's words
//! for it, and the persisted form.
//!
//! The persisted form begins with a version byte; fields follow in the order of
//! the struct, integers in LEB128. It is append-only: a new version may add
//! fields at the end.

use std::sync::Arc;

use crate::collation::{Charset, Collation};
use crate::decimal::{MAX_PRECISION, MAX_SCALE};

/// Decimals of a FLOAT or DOUBLE that declares none.
pub const NOT_FIXED_DECIMALS: u8 = 31;
/// Version of the persisted form.
pub const TYPE_FORMAT_VERSION: u8 = 1;
/// Most members of an ENUM.
pub const MAX_ENUM_MEMBERS: usize = 65_535;
/// Most members of a SET.
pub const MAX_SET_MEMBERS: usize = 64;

/// The kind of a type; the number is persisted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// TINYINT, BOOL: 8 bits.
    TinyInt = 1,
    /// SMALLINT: 16 bits.
    SmallInt = 2,
    /// MEDIUMINT: 24 bits.
    MediumInt = 3,
    /// INT: 32 bits.
    Int = 4,
    /// BIGINT: 64 bits.
    BigInt = 5,
    /// FLOAT: single precision.
    Float = 6,
    /// DOUBLE, REAL.
    Double = 7,
    /// DECIMAL, NUMERIC.
    Decimal = 8,
    /// BIT: up to 64 bits.
    Bit = 9,
    /// YEAR: 0 and 1901 to 2155.
    Year = 10,
    /// DATE.
    Date = 11,
    /// DATETIME.
    DateTime = 12,
    /// TIMESTAMP: in UTC.
    Timestamp = 13,
    /// TIME.
    Time = 14,
    /// CHAR.
    Char = 15,
    /// VARCHAR.
    VarChar = 16,
    /// TINYTEXT.
    TinyText = 17,
    /// TEXT.
    Text = 18,
    /// MEDIUMTEXT.
    MediumText = 19,
    /// LONGTEXT.
    LongText = 20,
    /// BINARY.
    Binary = 21,
    /// VARBINARY.
    VarBinary = 22,
    /// TINYBLOB.
    TinyBlob = 23,
    /// BLOB.
    Blob = 24,
    /// MEDIUMBLOB.
    MediumBlob = 25,
    /// LONGBLOB.
    LongBlob = 26,
    /// ENUM.
    Enum = 27,
    /// SET.
    Set = 28,
    /// JSON.
    Json = 29,
    /// The type of the literal NULL.
    Null = 30,
}

/// All kinds, by their persisted number minus one.
const KINDS: [Kind; 30] = {
    use Kind::*;
    [
        TinyInt, SmallInt, MediumInt, Int, BigInt, Float, Double, Decimal, Bit, Year, Date,
        DateTime, Timestamp, Time, Char, VarChar, TinyText, Text, MediumText, LongText, Binary,
        VarBinary, TinyBlob, Blob, MediumBlob, LongBlob, Enum, Set, Json, Null,
    ]
};

impl Kind {
    fn from_number(n: u8) -> Option<Kind> {
        KINDS.get(usize::from(n).checked_sub(1)?).copied()
    }

    /// Bits of an integer kind; 0 for others.
    #[must_use]
    pub fn int_bits(self) -> u32 {
        match self {
            Kind::TinyInt => 8,
            Kind::SmallInt => 16,
            Kind::MediumInt => 24,
            Kind::Int => 32,
            Kind::BigInt => 64,
            _ => 0,
        }
    }
}

/// A type with all its attributes but nullability, which is the column's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnType {
    /// The kind.
    pub kind: Kind,
    /// UNSIGNED, of numbers.
    pub unsigned: bool,
    /// ZEROFILL, of numbers; implies unsigned.
    pub zerofill: bool,
    /// Characters of CHAR and VARCHAR, bytes of BINARY and VARBINARY,
    /// precision of DECIMAL, bits of BIT, display width of integers (0: none),
    /// total digits of FLOAT(M,D) and DOUBLE(M,D).
    pub length: u32,
    /// Scale of DECIMAL, decimals of FLOAT and DOUBLE (31: not fixed),
    /// fractional digits of the second of temporal types.
    pub decimals: u8,
    /// The collation of character types; `binary` for all others.
    pub collation: Collation,
    /// The members of ENUM and SET, in the column's character set.
    pub members: Arc<[Box<[u8]>]>,
}

impl ColumnType {
    fn of(kind: Kind) -> ColumnType {
        ColumnType {
            kind,
            unsigned: false,
            zerofill: false,
            length: 0,
            decimals: 0,
            collation: Collation::BINARY,
            members: Arc::new([]),
        }
    }

    /// A signed integer.
    #[must_use]
    pub fn int(kind: Kind) -> ColumnType {
        ColumnType::of(kind)
    }

    /// An unsigned integer.
    #[must_use]
    pub fn uint(kind: Kind) -> ColumnType {
        ColumnType {
            unsigned: true,
            ..ColumnType::of(kind)
        }
    }

    /// BIGINT.
    #[must_use]
    pub fn bigint() -> ColumnType {
        ColumnType::of(Kind::BigInt)
    }

    /// BIGINT UNSIGNED.
    #[must_use]
    pub fn bigint_unsigned() -> ColumnType {
        ColumnType::uint(Kind::BigInt)
    }

    /// DOUBLE of no fixed decimals.
    #[must_use]
    pub fn double() -> ColumnType {
        ColumnType {
            decimals: NOT_FIXED_DECIMALS,
            ..ColumnType::of(Kind::Double)
        }
    }

    /// FLOAT of no fixed decimals.
    #[must_use]
    pub fn float() -> ColumnType {
        ColumnType {
            decimals: NOT_FIXED_DECIMALS,
            ..ColumnType::of(Kind::Float)
        }
    }

    /// DECIMAL(precision, scale), both cut to what DECIMAL has.
    #[must_use]
    pub fn decimal(precision: u8, scale: u8) -> ColumnType {
        let precision = precision.clamp(1, MAX_PRECISION);
        ColumnType {
            length: u32::from(precision),
            decimals: scale.min(MAX_SCALE).min(precision),
            ..ColumnType::of(Kind::Decimal)
        }
    }

    /// BIT(bits).
    #[must_use]
    pub fn bit(bits: u32) -> ColumnType {
        ColumnType {
            length: bits.clamp(1, 64),
            unsigned: true,
            ..ColumnType::of(Kind::Bit)
        }
    }

    /// YEAR.
    #[must_use]
    pub fn year() -> ColumnType {
        ColumnType {
            length: 4,
            unsigned: true,
            ..ColumnType::of(Kind::Year)
        }
    }

    /// DATE.
    #[must_use]
    pub fn date() -> ColumnType {
        ColumnType::of(Kind::Date)
    }

    /// DATETIME(fsp).
    #[must_use]
    pub fn datetime(fsp: u8) -> ColumnType {
        ColumnType {
            decimals: fsp.min(6),
            ..ColumnType::of(Kind::DateTime)
        }
    }

    /// TIMESTAMP(fsp).
    #[must_use]
    pub fn timestamp(fsp: u8) -> ColumnType {
        ColumnType {
            decimals: fsp.min(6),
            ..ColumnType::of(Kind::Timestamp)
        }
    }

    /// TIME(fsp).
    #[must_use]
    pub fn time(fsp: u8) -> ColumnType {
        ColumnType {
            decimals: fsp.min(6),
            ..ColumnType::of(Kind::Time)
        }
    }

    /// CHAR(n) of a collation; BINARY(n) where that is `binary`.
    #[must_use]
    pub fn char(n: u32, collation: Collation) -> ColumnType {
        let kind = if collation == Collation::BINARY {
            Kind::Binary
        } else {
            Kind::Char
        };
        ColumnType {
            length: n,
            collation,
            ..ColumnType::of(kind)
        }
    }

    /// VARCHAR(n) of a collation; VARBINARY(n) where that is `binary`.
    #[must_use]
    pub fn varchar(n: u32, collation: Collation) -> ColumnType {
        let kind = if collation == Collation::BINARY {
            Kind::VarBinary
        } else {
            Kind::VarChar
        };
        ColumnType {
            length: n,
            collation,
            ..ColumnType::of(kind)
        }
    }

    /// BINARY(n).
    #[must_use]
    pub fn binary(n: u32) -> ColumnType {
        ColumnType {
            length: n,
            ..ColumnType::of(Kind::Binary)
        }
    }

    /// VARBINARY(n).
    #[must_use]
    pub fn varbinary(n: u32) -> ColumnType {
        ColumnType {
            length: n,
            ..ColumnType::of(Kind::VarBinary)
        }
    }

    /// One of the TEXT kinds.
    #[must_use]
    pub fn text(kind: Kind, collation: Collation) -> ColumnType {
        ColumnType {
            collation,
            ..ColumnType::of(kind)
        }
    }

    /// One of the BLOB kinds.
    #[must_use]
    pub fn blob(kind: Kind) -> ColumnType {
        ColumnType::of(kind)
    }

    /// ENUM of these members.
    #[must_use]
    pub fn enumeration(members: Vec<Box<[u8]>>, collation: Collation) -> ColumnType {
        ColumnType {
            members: members.into(),
            collation,
            unsigned: true,
            ..ColumnType::of(Kind::Enum)
        }
    }

    /// SET of these members.
    #[must_use]
    pub fn set(members: Vec<Box<[u8]>>, collation: Collation) -> ColumnType {
        ColumnType {
            members: members.into(),
            collation,
            unsigned: true,
            ..ColumnType::of(Kind::Set)
        }
    }

    /// JSON.
    #[must_use]
    pub fn json() -> ColumnType {
        ColumnType {
            collation: Collation::UTF8MB4_BIN,
            ..ColumnType::of(Kind::Json)
        }
    }

    /// The type of the literal NULL.
    #[must_use]
    pub fn null() -> ColumnType {
        ColumnType::of(Kind::Null)
    }

    /// Whether values are strings of characters or bytes: CHAR to LONGBLOB.
    #[must_use]
    pub fn is_string(&self) -> bool {
        (Kind::Char as u8..=Kind::LongBlob as u8).contains(&(self.kind as u8))
    }

    /// Whether values are strings of bytes: BINARY to LONGBLOB, or of the collation `binary`.
    #[must_use]
    pub fn is_binary(&self) -> bool {
        self.is_string() && self.collation == Collation::BINARY
    }

    /// Whether this is one of the five integer kinds, BIT or YEAR.
    #[must_use]
    pub fn is_integer(&self) -> bool {
        self.kind.int_bits() > 0 || matches!(self.kind, Kind::Bit | Kind::Year)
    }

    /// Whether values are numbers: integers, DECIMAL, FLOAT, DOUBLE.
    #[must_use]
    pub fn is_numeric(&self) -> bool {
        self.is_integer() || matches!(self.kind, Kind::Float | Kind::Double | Kind::Decimal)
    }

    /// Whether values are dates or times; YEAR is a number.
    #[must_use]
    pub fn is_temporal(&self) -> bool {
        matches!(
            self.kind,
            Kind::Date | Kind::DateTime | Kind::Timestamp | Kind::Time
        )
    }

    /// Whether this is a TEXT or BLOB kind, or JSON.
    #[must_use]
    pub fn is_blob(&self) -> bool {
        matches!(
            self.kind,
            Kind::TinyText
                | Kind::Text
                | Kind::MediumText
                | Kind::LongText
                | Kind::TinyBlob
                | Kind::Blob
                | Kind::MediumBlob
                | Kind::LongBlob
                | Kind::Json
        )
    }

    /// Most bytes of a value: of strings the text itself, of others the
    /// storage width.
    #[must_use]
    pub fn max_bytes(&self) -> u32 {
        match self.kind {
            Kind::Char | Kind::VarChar => self
                .length
                .saturating_mul(self.collation.charset().max_len()),
            Kind::Binary | Kind::VarBinary => self.length,
            Kind::TinyText | Kind::TinyBlob => 0xFF,
            Kind::Text | Kind::Blob => 0xFFFF,
            Kind::MediumText | Kind::MediumBlob => 0xFF_FFFF,
            Kind::LongText | Kind::LongBlob | Kind::Json => u32::MAX,
            _ => self
                .fixed_width()
                .and_then(|w| u32::try_from(w).ok())
                .unwrap_or(0),
        }
    }

    /// Bytes of the storage form of kinds whose values all have the same width.
    #[must_use]
    pub fn fixed_width(&self) -> Option<usize> {
        Some(match self.kind {
            Kind::TinyInt => 1,
            Kind::SmallInt | Kind::Year => 2,
            Kind::MediumInt => 3,
            Kind::Int | Kind::Float | Kind::Date => 4,
            Kind::BigInt | Kind::Double | Kind::DateTime | Kind::Timestamp | Kind::Time => 8,
            Kind::Decimal => {
                crate::Decimal::encoded_len(u8::try_from(self.length).unwrap_or(MAX_PRECISION))
            }
            Kind::Bit => usize::try_from(self.length.div_ceil(8)).unwrap_or(8),
            Kind::Enum => 1 + usize::from(self.members.len() > 255),
            Kind::Set => match self.members.len().div_ceil(8) {
                n @ 0..=4 => n.max(1),
                _ => 8,
            },
            Kind::Binary => usize::try_from(self.length).ok()?,
            Kind::Null => 0,
            _ => return None,
        })
    }

    /// The smallest and greatest value of an integer kind.
    #[must_use]
    pub fn int_range(&self) -> (i128, i128) {
        let bits = self.kind.int_bits().max(1);
        if self.unsigned {
            (0, (1i128 << bits) - 1)
        } else {
            (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
        }
    }

    /// The type in SQL as SHOW CREATE TABLE prints it, in lower case, without
    /// character set and collation.
    #[must_use]
    pub fn sql(&self) -> String {
        let mut text = self.sql_base();
        if self.unsigned && (self.kind.int_bits() > 0 || self.is_approximate_or_decimal()) {
            text.push_str(" unsigned");
        }
        if self.zerofill {
            text.push_str(" zerofill");
        }
        text
    }

    fn is_approximate_or_decimal(&self) -> bool {
        matches!(self.kind, Kind::Float | Kind::Double | Kind::Decimal)
    }

    fn sql_base(&self) -> String {
        let (length, decimals) = (self.length, self.decimals);
        // The display width of integers is shown where MySQL 8 shows it: with
        // ZEROFILL, and for TINYINT(1).
        let int = |name: &str| {
            let shown =
                self.zerofill || (self.kind == Kind::TinyInt && length == 1 && !self.unsigned);
            if shown && length > 0 {
                format!("{name}({length})")
            } else {
                name.to_owned()
            }
        };
        let real = |name: &str| {
            if decimals < NOT_FIXED_DECIMALS && length > 0 {
                format!("{name}({length},{decimals})")
            } else {
                name.to_owned()
            }
        };
        let fsp = |name: &str| {
            if decimals > 0 {
                format!("{name}({decimals})")
            } else {
                name.to_owned()
            }
        };
        match self.kind {
            Kind::TinyInt => int("tinyint"),
            Kind::SmallInt => int("smallint"),
            Kind::MediumInt => int("mediumint"),
            Kind::Int => int("int"),
            Kind::BigInt => int("bigint"),
            Kind::Float => real("float"),
            Kind::Double => real("double"),
            Kind::Decimal => format!("decimal({length},{decimals})"),
            Kind::Bit => format!("bit({length})"),
            Kind::Year => "year".to_owned(),
            Kind::Date => "date".to_owned(),
            Kind::DateTime => fsp("datetime"),
            Kind::Timestamp => fsp("timestamp"),
            Kind::Time => fsp("time"),
            Kind::Char => format!("char({length})"),
            Kind::VarChar => format!("varchar({length})"),
            Kind::Binary => format!("binary({length})"),
            Kind::VarBinary => format!("varbinary({length})"),
            Kind::TinyText => "tinytext".to_owned(),
            Kind::Text => "text".to_owned(),
            Kind::MediumText => "mediumtext".to_owned(),
            Kind::LongText => "longtext".to_owned(),
            Kind::TinyBlob => "tinyblob".to_owned(),
            Kind::Blob => "blob".to_owned(),
            Kind::MediumBlob => "mediumblob".to_owned(),
            Kind::LongBlob => "longblob".to_owned(),
            Kind::Enum => self.sql_members("enum"),
            Kind::Set => self.sql_members("set"),
            Kind::Json => "json".to_owned(),
            Kind::Null => "null".to_owned(),
        }
    }

    fn sql_members(&self, name: &str) -> String {
        let mut text = format!("{name}(");
        for (i, member) in self.members.iter().enumerate() {
            if i > 0 {
                text.push(',');
            }
            let (utf8, _) = self.collation.charset().convert(Charset::Utf8mb4, member);
            text.push('\'');
            text.push_str(&String::from_utf8_lossy(&utf8).replace('\'', "''"));
            text.push('\'');
        }
        text.push(')');
        text
    }

    /// Appends the persisted form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(TYPE_FORMAT_VERSION);
        out.push(self.kind as u8);
        out.push(u8::from(self.unsigned) | u8::from(self.zerofill) << 1);
        leb128(u64::from(self.length), out);
        out.push(self.decimals);
        leb128(u64::from(self.collation.0), out);
        leb128(self.members.len() as u64, out);
        for member in self.members.iter() {
            leb128(member.len() as u64, out);
            out.extend_from_slice(member);
        }
    }

    /// Reads the persisted form from the front of `bytes`, which is advanced;
    /// None for a newer version, an unknown kind or collation, or bytes that end early.
    #[must_use]
    pub fn decode(bytes: &mut &[u8]) -> Option<ColumnType> {
        let mut rest = *bytes;
        if take(&mut rest)? != TYPE_FORMAT_VERSION {
            return None;
        }
        let kind = Kind::from_number(take(&mut rest)?)?;
        let flags = take(&mut rest)?;
        let length = u32::try_from(take_leb128(&mut rest)?).ok()?;
        let decimals = take(&mut rest)?;
        let collation = Collation::from_id(u16::try_from(take_leb128(&mut rest)?).ok()?)?;
        let count = usize::try_from(take_leb128(&mut rest)?).ok()?;
        let mut members = Vec::new();
        for _ in 0..count {
            let len = usize::try_from(take_leb128(&mut rest)?).ok()?;
            let (member, after) = rest.split_at_checked(len)?;
            members.push(Box::from(member));
            rest = after;
        }
        *bytes = rest;
        Some(ColumnType {
            kind,
            unsigned: flags & 1 != 0,
            zerofill: flags & 2 != 0,
            length,
            decimals,
            collation,
            members: members.into(),
        })
    }
}

fn leb128(v: u64, out: &mut Vec<u8>) {
    let mut v = v;
    while v >= 0x80 {
        out.push((v & 0x7F) as u8 | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
}

fn take(bytes: &mut &[u8]) -> Option<u8> {
    let (first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(*first)
}

fn take_leb128(bytes: &mut &[u8]) -> Option<u64> {
    let mut v = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes)?;
        v |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(v);
        }
    }
    None
}
