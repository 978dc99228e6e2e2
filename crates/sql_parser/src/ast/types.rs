//! Data types as written in a statement.

use super::super::token::Span;
use super::Ident;

/// A data type as written, before defaults are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataType<'a> {
    /// The type, with aliases resolved (INTEGER is Int, BOOL is TinyInt with length 1, NUMERIC is
    /// Decimal).
    pub kind: TypeKind,
    /// Length, precision, display width or, for temporal types, fractional digits.
    pub length: Option<u64>,
    /// Digits after the period.
    pub decimals: Option<u64>,
    /// UNSIGNED
    pub unsigned: bool,
    /// ZEROFILL, which implies unsigned.
    pub zerofill: bool,
    /// CHARACTER SET; NATIONAL gives utf8mb3, ASCII latin1, UNICODE ucs2, BYTE binary.
    pub charset: Option<Ident<'a>>,
    /// BINARY as an attribute: the `_bin` collation of the character set.
    pub binary: bool,
    /// COLLATE
    pub collation: Option<Ident<'a>>,
    /// Members of ENUM and SET.
    pub members: &'a [Member<'a>],
    /// Position in the text.
    pub span: Span,
}

/// A member of ENUM or SET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// A hexadecimal or bit literal: the bytes are in the column's character set.
    pub is_binary: bool,
}

/// The name of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeKind {
    /// TINYINT
    TinyInt,
    /// SMALLINT
    SmallInt,
    /// MEDIUMINT
    MediumInt,
    /// INT
    Int,
    /// BIGINT; in CAST also SIGNED and UNSIGNED
    BigInt,
    /// FLOAT
    Float,
    /// DOUBLE
    Double,
    /// REAL, which is FLOAT under REAL_AS_FLOAT.
    Real,
    /// DECIMAL
    Decimal,
    /// BIT
    Bit,
    /// YEAR
    Year,
    /// DATE
    Date,
    /// DATETIME
    DateTime,
    /// TIMESTAMP
    Timestamp,
    /// TIME
    Time,
    /// CHAR
    Char,
    /// VARCHAR
    VarChar,
    /// TINYTEXT
    TinyText,
    /// TEXT
    Text,
    /// MEDIUMTEXT
    MediumText,
    /// LONGTEXT
    LongText,
    /// BINARY
    Binary,
    /// VARBINARY
    VarBinary,
    /// TINYBLOB
    TinyBlob,
    /// BLOB
    Blob,
    /// MEDIUMBLOB
    MediumBlob,
    /// LONGBLOB
    LongBlob,
    /// ENUM
    Enum,
    /// SET
    Set,
    /// JSON
    Json,
    /// SERIAL: BIGINT UNSIGNED NOT NULL AUTO_INCREMENT UNIQUE
    Serial,
    /// GEOMETRY
    Geometry,
    /// POINT
    Point,
    /// LINESTRING
    LineString,
    /// POLYGON
    Polygon,
    /// MULTIPOINT
    MultiPoint,
    /// MULTILINESTRING
    MultiLineString,
    /// MULTIPOLYGON
    MultiPolygon,
    /// GEOMETRYCOLLECTION
    GeometryCollection,
}
