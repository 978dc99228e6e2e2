//! Typed rows.

use crate::error::{Error, Result};
use porpoise_types::{Date, DateTime, Time, Value, ValueRef};

/// A type whose values are rows. `#[derive(Row)]` implements it for a struct: each field is the column of its name,
/// or of the name in `#[row(column = "...")]`.
///
/// ```
/// use porpoise_native_client::{Row, Value};
///
/// #[derive(Row)]
/// struct Item {
///     id: i64,
///     #[row(column = "item_name")]
///     name: String,
///     price: Option<f64>,
/// }
///
/// assert_eq!(Item::COLUMNS, ["id", "item_name", "price"]);
/// let item = Item { id: 1, name: "fin".into(), price: None };
/// let values = item.to_values();
/// let read = Item::from_values(values.iter().map(Value::as_ref)).unwrap();
/// assert_eq!((read.id, read.name, read.price), (1, "fin".into(), None));
/// ```
///
/// It can be derived for structs with named fields only, and has no other attributes:
///
/// ```compile_fail
/// #[derive(porpoise_native_client::Row)]
/// enum Item { One }
/// ```
///
/// ```compile_fail
/// #[derive(porpoise_native_client::Row)]
/// struct Item(i64);
/// ```
///
/// ```compile_fail
/// #[derive(porpoise_native_client::Row)]
/// struct Item { #[row(name = "item_id")] id: i64 }
/// ```
pub trait Row: Sized {
    /// The columns, in the order of the values.
    const COLUMNS: &'static [&'static str];

    /// The values of a row.
    fn to_values(&self) -> Vec<Value>;

    /// The row with these values.
    ///
    /// # Errors
    /// A value is of another type, or their number is not that of the columns.
    fn from_values<'v>(values: impl IntoIterator<Item = ValueRef<'v>>) -> Result<Self>;
}

/// The values of a row, for implementations of [`Row::from_values`].
#[derive(Debug)]
pub struct ColumnValues<I>(I);

impl<'v, I: Iterator<Item = ValueRef<'v>>> ColumnValues<I> {
    /// The values, in the order of the columns.
    pub fn new(values: impl IntoIterator<IntoIter = I, Item = ValueRef<'v>>) -> ColumnValues<I> {
        ColumnValues(values.into_iter())
    }

    /// The value of the next column, which has this name.
    ///
    /// # Errors
    /// There is none, or it is of another type.
    #[inline]
    pub fn next_column<T: FromValue>(&mut self, column: &str) -> Result<T> {
        let value = self.0.next();
        let value = value.ok_or_else(|| Error::Usage(format!("column {column} has no value")))?;
        T::from_value(value).map_err(|error| match error {
            Error::Usage(text) => Error::Usage(format!("column {column}: {text}")),
            other => other,
        })
    }

    /// Checks that no value is left.
    ///
    /// # Errors
    /// There are more values than columns.
    pub fn finish(mut self) -> Result<()> {
        match self.0.next() {
            None => Ok(()),
            Some(_) => Err(Error::Usage(
                "the row has more values than columns".to_owned(),
            )),
        }
    }
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
