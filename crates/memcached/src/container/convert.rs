//! Conversion of text to column values and back.
//!
//! Clients send bytes. A stored value is converted as by an SQL INSERT in strict mode: a value that
//! does not fit is refused with MySQL's message. Two conversions that INSERT accepts are refused as
//! well, because the client would not read what it stored: text that would lose trailing spaces to
//! the column's length, and a key that has to be changed to be valid for its column (`u:1.4` is not
//! `u:1`). Numbers within values are rounded to the column's digits as in MySQL. The time zone is
//! UTC in both directions.

use porpoise_base::clock::Clock;
use porpoise_rows::catalog::{Column, ColumnDefault, Table};
use porpoise_rows::{Error, Result};
use porpoise_types::{
    CastCx, DateTime, Kind, SqlMode, TimeZone, TypeError, Value, ValueRef, Warning, store,
};

/// SQL mode of conversions: the modes in MySQL's default that affect storing a value.
const MODE: SqlMode = SqlMode::STRICT_TRANS_TABLES
    .union(SqlMode::NO_ZERO_IN_DATE)
    .union(SqlMode::NO_ZERO_DATE)
    .union(SqlMode::ERROR_FOR_DIVISION_BY_ZERO);

/// "Data too long for column": 1406.
const DATA_TOO_LONG: u16 = 1406;

/// "Incorrect integer value": 1366.
const WRONG_VALUE: u16 = 1366;

/// Conversions of one command, at its time.
#[derive(Clone, Copy, Debug)]
pub struct Conversion {
    /// Microseconds since 1970 UTC.
    now: i64,
}

impl Conversion {
    /// Creates conversions at the current time.
    pub fn new(clock: &dyn Clock) -> Conversion {
        Conversion {
            now: clock.unix_micros(),
        }
    }

    /// Creates conversions of keys, which do not depend on the time.
    pub(crate) fn for_keys() -> Conversion {
        Conversion { now: 0 }
    }

    /// Returns the time in seconds since 1970 UTC.
    pub(crate) fn unix_seconds(&self) -> i64 {
        self.now.div_euclid(1_000_000)
    }

    /// Microseconds since 1970 UTC.
    pub fn unix_micros(&self) -> i64 {
        self.now
    }

    fn now(&self) -> Option<DateTime> {
        DateTime::from_unix_micros(self.now)
    }

    /// Converts to the stored value of the column at `position`, which exists.
    ///
    /// # Errors
    /// [`Error::Type`] if the value does not fit, or would lose text.
    pub fn store(&mut self, table: &Table, position: usize, value: ValueRef<'_>) -> Result<Value> {
        let Some(column) = table.columns.get(position) else {
            return Err(Error::DefinitionChanged);
        };
        if let (ValueRef::Bytes(bytes), true) = (value, stores_bytes_unchanged(column, value)) {
            return Ok(Value::Bytes(bytes.to_vec()));
        }
        let (stored, warning) = self.convert(column, value)?;
        if warning.is_some() && column.ty.is_string() {
            let message = format!("Data too long for column '{}' at row 1", column.name);
            return Err(TypeError::new(DATA_TOO_LONG, message).into());
        }
        Ok(stored)
    }

    /// As [`Conversion::store`], without copying a value that is stored unchanged. Integers are not checked against the range of
    /// their column.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub(crate) fn store_ref<'a>(
        &mut self,
        table: &Table,
        position: usize,
        value: ValueRef<'a>,
    ) -> Result<StoredValue<'a>> {
        let Some(column) = table.columns.get(position) else {
            return Err(Error::DefinitionChanged);
        };
        if stores_number_unchanged(column, value) || stores_bytes_unchanged(column, value) {
            return Ok(StoredValue::Unchanged(value));
        }
        self.store(table, position, value)
            .map(StoredValue::Converted)
    }

    /// Converts a part of a client's key to the stored value of a key column.
    ///
    /// # Errors
    /// [`Error::Type`] if the conversion would change the part: it must not find the row of another
    /// key.
    pub fn key(&self, column: &Column, part: &[u8]) -> Result<Value> {
        let digits = part.strip_prefix(b"-").or(part.strip_prefix(b"+"));
        let digits = digits.unwrap_or(part);
        if column.ty.is_integer() && !digits.iter().all(u8::is_ascii_digit) {
            let shown = String::from_utf8_lossy(part);
            let name = &column.name;
            let message =
                format!("Incorrect integer value: '{shown}' for column '{name}' at row 1");
            return Err(TypeError::new(WRONG_VALUE, message).into());
        }
        match self.convert(column, ValueRef::Bytes(part))? {
            (value, None) => Ok(value),
            (_, Some(changed)) => Err(TypeError::new(changed.code, changed.message).into()),
        }
    }

    /// Returns the value that INSERT would store, and its last warning.
    fn convert(&self, column: &Column, value: ValueRef<'_>) -> Result<(Value, Option<Warning>)> {
        let mut last = None;
        let mut cx = CastCx {
            mode: MODE,
            strict: true,
            warnings: &mut |warning| last = Some(warning),
            tz: &TimeZone::UTC,
            // Only values of dates and times depend on it.
            now: match column.ty.kind {
                Kind::Date | Kind::Time | Kind::DateTime | Kind::Timestamp => {
                    self.now().unwrap_or_default()
                }
                _ => DateTime::default(),
            },
        };
        let stored = store(value, None, &column.ty, &column.name, 1, &mut cx)?;
        Ok((stored, last))
    }

    /// Returns a row of the table's defaults; columns without one are NULL.
    pub fn defaults(&self, table: &Table) -> Vec<Value> {
        let default = |column: &Column| match &column.default {
            _ if column.generated.is_some() => Value::Null,
            // Expressions are evaluated when the row is complete.
            ColumnDefault::None | ColumnDefault::Null | ColumnDefault::Expr(_) => Value::Null,
            ColumnDefault::Literal(value) => value.clone(),
            ColumnDefault::Now => self
                .now()
                .and_then(|n| n.round(column.ty.decimals, true))
                .map_or(Value::Null, Value::DateTime),
        };
        table.columns.iter().map(default).collect()
    }
}

/// Whether a column stores this integer unchanged, if it is in the column's range.
fn stores_number_unchanged(column: &Column, value: ValueRef<'_>) -> bool {
    let is_integer = matches!(value, ValueRef::Int(_) | ValueRef::UInt(_));
    is_integer && column.ty.kind.int_bits() > 0
}

/// A client's value in the form in which a column stores it.
#[derive(Debug)]
pub(crate) enum StoredValue<'a> {
    /// The client's value.
    Unchanged(ValueRef<'a>),
    Converted(Value),
}

impl StoredValue<'_> {
    #[inline]
    pub(crate) fn as_ref(&self) -> ValueRef<'_> {
        match self {
            StoredValue::Unchanged(value) => *value,
            StoredValue::Converted(value) => value.as_ref(),
        }
    }
}

/// Fast path: whether a column stores these bytes unchanged.
fn stores_bytes_unchanged(column: &Column, value: ValueRef<'_>) -> bool {
    let ValueRef::Bytes(bytes) = value else {
        return false;
    };
    let limit = match column.ty.kind {
        Kind::VarBinary => u64::from(column.ty.length),
        Kind::TinyBlob | Kind::Blob | Kind::MediumBlob | Kind::LongBlob => {
            u64::from(column.ty.max_bytes())
        }
        _ => return false,
    };
    bytes.len() as u64 <= limit
}

#[cfg(test)]
mod tests {
    use super::*;
    use porpoise_types::ColumnType;

    fn column(ty: ColumnType) -> Column {
        Column::new(porpoise_rows::catalog::ColumnId(1), "v", ty)
    }

    #[test]
    fn only_bytes_that_fit_are_stored_unchanged() {
        let column = column(ColumnType::varbinary(3));
        assert!(stores_bytes_unchanged(&column, ValueRef::Bytes(b"abc")));
        assert!(!stores_bytes_unchanged(&column, ValueRef::Bytes(b"abcd")));
        assert!(!stores_bytes_unchanged(&column, ValueRef::Int(1)));
    }

    #[test]
    fn a_key_that_is_no_plain_integer_is_refused_for_an_integer_column() {
        let convert = Conversion::for_keys();
        let column = column(ColumnType::int(porpoise_types::Kind::Int));
        assert_eq!(convert.key(&column, b"-12").unwrap(), Value::Int(-12));
        for text in [&b"1.4"[..], b"1e0", b" 1", b"1 ", b"", b"-", b"99999999999"] {
            assert!(convert.key(&column, text).is_err(), "{text:?}");
        }
    }
}
