//! Typed rows.

use crate::error::{Error, Result};
use porpoise_types::{Date, DateTime, Time, Value, ValueRef};

/// A type whose values are rows.
///
/// ```
/// porpoise_native_client::row! {
///     /// An item.
///     pub struct Item {
///         id: i64,
///         name: String,
///         price: Option<f64>,
///     }
/// }
/// use porpoise_native_client::Row;
/// assert_eq!(Item::COLUMNS, ["id", "name", "price"]);
/// let item = Item { id: 1, name: "fin".into(), price: None };
/// let values = item.to_values();
/// let read: Vec<_> = values.iter().map(|value| value.as_ref()).collect();
/// assert_eq!(Item::from_values(&read).unwrap().name, "fin");
/// ```
pub trait Row: Sized {
    /// The columns, in the order of the values.
    const COLUMNS: &'static [&'static str];

    /// The values of a row.
    fn to_values(&self) -> Vec<Value>;

    /// The row with these values.
    ///
    /// # Errors
    /// A value is of another type.
    fn from_values(values: &[ValueRef<'_>]) -> Result<Self>;
}

/// Defines a struct that is a [`Row`]: the fields are columns of the same names.
#[macro_export]
macro_rules! row {
    ($(#[$meta:meta])* $visibility:vis struct $name:ident {
        $($(#[$field_meta:meta])* $field:ident: $ty:ty),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        $visibility struct $name {
            $($(#[$field_meta])* #[allow(missing_docs)] pub $field: $ty),*
        }

        impl $crate::Row for $name {
            const COLUMNS: &'static [&'static str] = &[$(stringify!($field)),*];

            fn to_values(&self) -> Vec<$crate::Value> {
                vec![$($crate::IntoValue::to_value(&self.$field)),*]
            }

            fn from_values(values: &[$crate::ValueRef<'_>]) -> $crate::Result<Self> {
                let mut values = values.iter().copied();
                Ok($name {
                    $($field: $crate::FromValue::from_value(
                        values.next().unwrap_or($crate::ValueRef::Null),
                    )?),*
                })
            }
        }
    };
}

/// A type that values can be converted to.
pub trait FromValue: Sized {
    /// Converts a value.
    ///
    /// # Errors
    /// The value is of another type, or out of range.
    fn from_value(value: ValueRef<'_>) -> Result<Self>;
}

/// A type that can be converted to values.
pub trait IntoValue {
    /// Converts to a value.
    fn to_value(&self) -> Value;
}

fn mismatch(wanted: &str) -> Error {
    Error::Usage(format!("a value is not of type {wanted}"))
}

macro_rules! integers {
    ($($ty:ty: $variant:ident as $wide:ty),*) => {
        $(impl FromValue for $ty {
            fn from_value(value: ValueRef<'_>) -> Result<$ty> {
                let number = match value {
                    ValueRef::Int(v) => <$ty>::try_from(v).ok(),
                    ValueRef::UInt(v) => <$ty>::try_from(v).ok(),
                    _ => None,
                };
                number.ok_or_else(|| mismatch(stringify!($ty)))
            }
        }

        impl IntoValue for $ty {
            fn to_value(&self) -> Value {
                Value::$variant(<$wide>::from(*self))
            }
        })*
    };
}

integers!(
    i8: Int as i64, i16: Int as i64, i32: Int as i64, i64: Int as i64,
    u8: UInt as u64, u16: UInt as u64, u32: UInt as u64, u64: UInt as u64
);

macro_rules! plain {
    ($($ty:ty: $variant:ident),*) => {
        $(impl FromValue for $ty {
            fn from_value(value: ValueRef<'_>) -> Result<$ty> {
                match value {
                    ValueRef::$variant(v) => Ok(v),
                    _ => Err(mismatch(stringify!($ty))),
                }
            }
        }

        impl IntoValue for $ty {
            fn to_value(&self) -> Value {
                Value::$variant(*self)
            }
        })*
    };
}

plain!(f64: Double, Date: Date, DateTime: DateTime, Time: Time);

impl FromValue for Vec<u8> {
    fn from_value(value: ValueRef<'_>) -> Result<Vec<u8>> {
        match value {
            ValueRef::Bytes(bytes) => Ok(bytes.to_vec()),
            _ => Err(mismatch("Vec<u8>")),
        }
    }
}

impl IntoValue for Vec<u8> {
    fn to_value(&self) -> Value {
        Value::Bytes(self.clone())
    }
}

impl FromValue for String {
    fn from_value(value: ValueRef<'_>) -> Result<String> {
        let text = Vec::from_value(value)?;
        String::from_utf8(text).map_err(|_| mismatch("String"))
    }
}

impl IntoValue for String {
    fn to_value(&self) -> Value {
        Value::Bytes(self.clone().into_bytes())
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: ValueRef<'_>) -> Result<Option<T>> {
        if value.is_null() {
            return Ok(None);
        }
        T::from_value(value).map(Some)
    }
}

impl<T: IntoValue> IntoValue for Option<T> {
    fn to_value(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::to_value)
    }
}
