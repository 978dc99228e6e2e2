//! Constructors of column types.

use std::sync::Arc;

use super::{ColumnType, Kind, NOT_FIXED_DECIMALS};
use crate::collation::Collation;
use crate::decimal::{MAX_PRECISION, MAX_SCALE};

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

    /// DOUBLE without fixed decimals.
    #[must_use]
    pub fn double() -> ColumnType {
        ColumnType {
            decimals: NOT_FIXED_DECIMALS,
            ..ColumnType::of(Kind::Double)
        }
    }

    /// FLOAT without fixed decimals.
    #[must_use]
    pub fn float() -> ColumnType {
        ColumnType {
            decimals: NOT_FIXED_DECIMALS,
            ..ColumnType::of(Kind::Float)
        }
    }

    /// DECIMAL(precision, scale), both clamped to DECIMAL's limits.
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

    /// CHAR(n) of a collation; BINARY(n) for the collation `binary`.
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

    /// VARCHAR(n) of a collation; VARBINARY(n) for the collation `binary`.
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
}
