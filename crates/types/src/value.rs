//! Values: owned ([`Value`]) and borrowed ([`ValueRef`]).
//!
//! A value carries no type of its own beyond its variant: character set,
//! collation, precision, fractional seconds and the members of ENUM and SET
//! are static and part of [`crate::ColumnType`].
//!
//! The *storage value* of a column is the form in which `rows` keeps it:
//! ENUM is its 1-based index (0 is the empty error value), SET and BIT are
//! their bits, YEAR is a number, integers are `Int` or `UInt` by their
//! signedness, FLOAT is a double already rounded to single precision,
//! TIMESTAMP is a date and time in UTC, JSON is its normalised text, and CHAR
//! has lost its trailing spaces.
//!
//! `PartialEq` is identity (same variant, same contents), for tests and caches;
//! [`fn@crate::compare`] implements SQL equality.

use crate::decimal::Decimal;
use crate::temporal::{Date, DateTime, Time};

/// A borrowed value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueRef<'a> {
    /// NULL.
    Null,
    /// A signed integer.
    Int(i64),
    /// An unsigned integer; also YEAR, BIT, ENUM and SET in storage.
    UInt(u64),
    /// FLOAT and DOUBLE.
    Double(f64),
    /// DECIMAL.
    Decimal(Decimal),
    /// Strings of any kind, and JSON text.
    Bytes(&'a [u8]),
    /// DATE.
    Date(Date),
    /// DATETIME, and TIMESTAMP (in UTC in storage).
    DateTime(DateTime),
    /// TIME.
    Time(Time),
}

/// An owned value.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Value {
    /// NULL.
    #[default]
    Null,
    /// A signed integer.
    Int(i64),
    /// An unsigned integer; also YEAR, BIT, ENUM and SET in storage.
    UInt(u64),
    /// FLOAT and DOUBLE.
    Double(f64),
    /// DECIMAL.
    Decimal(Decimal),
    /// Strings of any kind, and JSON text.
    Bytes(Vec<u8>),
    /// DATE.
    Date(Date),
    /// DATETIME, and TIMESTAMP (in UTC in storage).
    DateTime(DateTime),
    /// TIME.
    Time(Time),
}

impl Value {
    /// The value, borrowed.
    #[inline]
    #[must_use]
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Value::Null => ValueRef::Null,
            Value::Int(v) => ValueRef::Int(*v),
            Value::UInt(v) => ValueRef::UInt(*v),
            Value::Double(v) => ValueRef::Double(*v),
            Value::Decimal(v) => ValueRef::Decimal(*v),
            Value::Bytes(v) => ValueRef::Bytes(v),
            Value::Date(v) => ValueRef::Date(*v),
            Value::DateTime(v) => ValueRef::DateTime(*v),
            Value::Time(v) => ValueRef::Time(*v),
        }
    }

    /// Whether this is NULL.
    #[inline]
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }
}

impl ValueRef<'_> {
    /// A copy that owns its bytes.
    #[must_use]
    pub fn to_owned(self) -> Value {
        match self {
            ValueRef::Null => Value::Null,
            ValueRef::Int(v) => Value::Int(v),
            ValueRef::UInt(v) => Value::UInt(v),
            ValueRef::Double(v) => Value::Double(v),
            ValueRef::Decimal(v) => Value::Decimal(v),
            ValueRef::Bytes(v) => Value::Bytes(v.to_vec()),
            ValueRef::Date(v) => Value::Date(v),
            ValueRef::DateTime(v) => Value::DateTime(v),
            ValueRef::Time(v) => Value::Time(v),
        }
    }

    /// Whether this is NULL.
    #[inline]
    #[must_use]
    pub fn is_null(self) -> bool {
        matches!(self, ValueRef::Null)
    }
}
