//! What a container puts into a row that is about to be written.

use super::container::{Container, ExpiryForm, Flags, SEPARATOR, Stored, number, refused};
use super::convert::Conversion;
use porpoise_rows::{Error, Result};
use porpoise_types::{DateTime, Value, ValueRef};

impl Container {
    /// A new row for a client's key: defaults but for the key.
    ///
    /// # Errors
    /// A column would have no value (1364); as [`Container::append_key`].
    pub fn new_row(&self, key: &[u8], convert: &mut Conversion) -> Result<Vec<Value>> {
        if let Some(column) = &self.lacking {
            let message = format!("Field '{column}' doesn't have a default value");
            return Err(Error::refused(1364, "HY000", message));
        }
        if self.key.len() > 1 {
            self.check_pieces(key)?;
        }
        let mut row = convert.defaults(&self.table);
        for part in &self.key {
            let piece = if self.key.len() == 1 {
                key
            } else {
                let mut pieces = key.split(|b| *b == SEPARATOR);
                pieces.nth(part.piece).unwrap_or_default()
            };
            let value = convert.store(&self.table, part.column, ValueRef::Bytes(piece))?;
            put(&mut row, part.column, value);
        }
        Ok(row)
    }

    /// Puts a storage command's parts into a row; `version` is the row version
    /// it will carry, for a `cas_column`.
    ///
    /// # Errors
    /// A value does not fit its column.
    pub fn apply(
        &self,
        row: &mut [Value],
        what: Stored<'_>,
        version: u64,
        convert: &mut Conversion,
    ) -> Result<()> {
        self.apply_value(row, what.value, convert)?;
        if let (Flags::Column(position), Some(flags)) = (self.flags, what.flags) {
            let value = ValueRef::UInt(u64::from(flags));
            put(row, position, convert.store(&self.table, position, value)?);
        }
        if let Some(expires) = what.expires {
            self.apply_expiry(row, expires, convert)?;
        }
        self.apply_version(row, version);
        Ok(())
    }

    /// Whether rows hold their own version in a column.
    pub fn wants_version(&self) -> bool {
        self.cas.is_some()
    }

    /// Puts a row's version into its column, where the container has one.
    pub(super) fn apply_version(&self, row: &mut [Value], version: u64) {
        let Some(position) = self.cas else {
            return;
        };
        let unsigned = self
            .table
            .columns
            .get(position)
            .is_some_and(|c| c.ty.unsigned);
        let value = if unsigned {
            Value::UInt(version)
        } else {
            // Below 2^53.
            Value::Int(version.cast_signed())
        };
        put(row, position, value);
    }

    fn apply_value(&self, row: &mut [Value], value: &[u8], convert: &mut Conversion) -> Result<()> {
        if let Some(position) = self.increment {
            let number = number(value).map_or(ValueRef::Null, ValueRef::UInt);
            if number.is_null() && self.values.is_empty() {
                return Err(refused(format!(
                    "Container '{}' has no column but for numbers",
                    self.name
                )));
            }
            put(row, position, convert.store(&self.table, position, number)?);
        }
        match self.values.as_slice() {
            [] => Ok(()),
            [only] => {
                let value = convert.store(&self.table, *only, ValueRef::Bytes(value))?;
                put(row, *only, value);
                Ok(())
            }
            several => self.apply_several(row, several, value, convert),
        }
    }

    fn apply_several(
        &self,
        row: &mut [Value],
        columns: &[usize],
        value: &[u8],
        convert: &mut Conversion,
    ) -> Result<()> {
        let mut pieces = value.split(|b| *b == SEPARATOR);
        for position in columns {
            let Some(column) = self.table.columns.get(*position) else {
                return Err(Error::DefinitionChanged);
            };
            let value = match pieces.next() {
                Some([]) if !column.ty.is_string() => ValueRef::Null,
                None => ValueRef::Null,
                Some(piece) => ValueRef::Bytes(piece),
            };
            put(
                row,
                *position,
                convert.store(&self.table, *position, value)?,
            );
        }
        if pieces.next().is_some() {
            return Err(refused(format!(
                "The value has more parts than container '{}' has value columns ({})",
                self.name,
                columns.len()
            )));
        }
        Ok(())
    }

    /// Sets the moment of expiry (seconds since 1970, 0: never), where the
    /// container has a column for it; true if it has.
    ///
    /// # Errors
    /// The moment does not fit the column.
    pub fn apply_expiry(
        &self,
        row: &mut [Value],
        expires: i64,
        convert: &mut Conversion,
    ) -> Result<bool> {
        let Some((position, form)) = self.expiry else {
            return Ok(false);
        };
        let value = match (form, expires) {
            (ExpiryForm::Seconds, seconds) => ValueRef::Int(seconds),
            (ExpiryForm::Time, 0) => ValueRef::Null,
            (ExpiryForm::Time, seconds) => {
                let micros = seconds.saturating_mul(1_000_000);
                DateTime::from_unix_micros(micros).map_or(ValueRef::Null, ValueRef::DateTime)
            }
        };
        put(row, position, convert.store(&self.table, position, value)?);
        Ok(true)
    }

    /// Puts a new number into the increment column, and its text into the
    /// value column where that holds one.
    ///
    /// # Errors
    /// The number does not fit.
    pub fn apply_count(
        &self,
        row: &mut [Value],
        count: u64,
        version: u64,
        convert: &mut Conversion,
    ) -> Result<()> {
        if let Some(position) = self.increment {
            let value = convert.store(&self.table, position, ValueRef::UInt(count))?;
            put(row, position, value);
        }
        if let [only] = self.values.as_slice()
            && row.get(*only).is_some_and(|v| !v.is_null())
        {
            let text = count.to_string();
            let value = convert.store(&self.table, *only, ValueRef::Bytes(text.as_bytes()))?;
            put(row, *only, value);
        }
        self.apply_version(row, version);
        Ok(())
    }
}

fn put(row: &mut [Value], position: usize, value: Value) {
    if let Some(place) = row.get_mut(position) {
        *place = value;
    }
}
