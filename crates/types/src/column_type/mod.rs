//! Column types: the types of columns and expressions, their SQL names, and the persisted form.
//!
//! The persisted form begins with a version byte; fields follow in the order of
//! the struct, integers in LEB128. It is append-only: a new version may add
//! fields at the end.

mod build;
mod persisted;
mod sql;

use std::sync::Arc;

use crate::collation::Collation;
use crate::decimal::MAX_PRECISION;

/// Decimals of a FLOAT or DOUBLE that declares none.
pub const NOT_FIXED_DECIMALS: u8 = 31;
/// Version of the persisted form.
pub const TYPE_FORMAT_VERSION: u8 = 1;
/// Maximum number of members of an ENUM.
pub const MAX_ENUM_MEMBERS: usize = 65_535;
/// Maximum number of members of a SET.
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

/// A type with all its attributes except nullability, which belongs to the column.
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

    /// Maximum size of a value in bytes: the text of strings, the storage width of others.
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
        let bits = match self.kind {
            Kind::Bit => self.length.clamp(1, 64),
            // To 2155.
            Kind::Year => 12,
            kind => kind.int_bits().max(1),
        };
        if self.unsigned {
            (0, (1i128 << bits) - 1)
        } else {
            (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
        }
    }
}
