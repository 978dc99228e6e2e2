//! Text to column values and back, as this door does it.
//!
//! A memcached client knows bytes only. What it stores goes through the same
//! conversion as an SQL INSERT in strict mode: nothing is cut or rounded
//! silently, a value that does not fit is refused with MySQL's text. The time
//! zone is UTC, both ways.

use porpoise_base::clock::Clock;
use porpoise_rows::catalog::{Column, ColumnDefault, Table};
use porpoise_rows::{Error, Result};
use porpoise_types::{CastCx, DateTime, SqlMode, TimeZone, Value, ValueRef, store};

/// The mode of conversions: MySQL's default one.
const MODE: SqlMode = SqlMode::STRICT_TRANS_TABLES
    .union(SqlMode::NO_ZERO_IN_DATE)
    .union(SqlMode::NO_ZERO_DATE)
    .union(SqlMode::ERROR_FOR_DIVISION_BY_ZERO);

/// Conversions of one command, at its time.
#[derive(Clone, Copy, Debug)]
pub struct Conversion {
    /// Microseconds since 1970 UTC.
    now: i64,
}

impl Conversion {
    /// Conversions at the present time.
    pub fn new(clock: &dyn Clock) -> Conversion {
        Conversion {
            now: clock.unix_micros(),
        }
    }

    /// Conversions of keys, which do not depend on the time.
    pub fn timeless() -> Conversion {
        Conversion { now: 0 }
    }

    /// Seconds since 1970 UTC.
    pub fn unix_seconds(&self) -> i64 {
        self.now.div_euclid(1_000_000)
    }

    /// Microseconds since 1970 UTC.
    pub fn unix_micros(&self) -> i64 {
        self.now
    }

    fn now(&self) -> Option<DateTime> {
        DateTime::from_unix_micros(self.now)
    }

    /// The time as a value without fractions of the second.
    pub fn now_value(&self) -> Value {
        let now = self.now().and_then(|n| n.round(0, true));
        now.map_or(Value::Null, Value::DateTime)
    }

    /// The storage value of the column at `position`, which exists.
    ///
    /// # Errors
    /// [`Error::Type`] where the value would have to be changed to fit.
    pub fn store(&mut self, table: &Table, position: usize, value: ValueRef<'_>) -> Result<Value> {
        let Some(column) = table.columns.get(position) else {
            return Err(Error::DefinitionChanged);
        };
        if let (ValueRef::Bytes(bytes), true) = (value, takes_bytes(column, value)) {
            return Ok(Value::Bytes(bytes.to_vec()));
        }
        let mut ignored = |_| ();
        let mut cx = CastCx {
            mode: MODE,
            strict: true,
            warnings: &mut ignored,
            tz: &TimeZone::UTC,
            now: self.now().unwrap_or_default(),
        };
        Ok(store(value, None, &column.ty, &column.name, 1, &mut cx)?)
    }

    /// A row of the table's defaults; columns without one are NULL.
    pub fn defaults(&self, table: &Table) -> Vec<Value> {
        let default = |column: &Column| match &column.default {
            ColumnDefault::None | ColumnDefault::Null => Value::Null,
            ColumnDefault::Literal(value) => value.clone(),
            ColumnDefault::Now => self
                .now()
                .and_then(|n| n.round(column.ty.decimals, true))
                .map_or(Value::Null, Value::DateTime),
        };
        table.columns.iter().map(default).collect()
    }
}

/// Whether a column keeps these bytes just as they are: the case of most
/// values of this door.
fn takes_bytes(column: &Column, value: ValueRef<'_>) -> bool {
    use porpoise_types::Kind;
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

    #[test]
    fn bytes_pass_uncut_or_not_at_all() {
        let column = Column {
            id: porpoise_rows::catalog::ColumnId(1),
            name: "v".into(),
            ty: ColumnType::varbinary(3),
            nullable: true,
            default: ColumnDefault::None,
            on_update_now: false,
            auto_increment: false,
            comment: String::new(),
            backfill: Value::Null,
            explicit_collation: false,
        };
        assert!(takes_bytes(&column, ValueRef::Bytes(b"abc")));
        assert!(!takes_bytes(&column, ValueRef::Bytes(b"abcd")));
        assert!(!takes_bytes(&column, ValueRef::Int(1)));
    }
}
