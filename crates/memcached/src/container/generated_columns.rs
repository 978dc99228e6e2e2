//! Builds the values of a container's new or changed rows, generated columns included.
//!
//! A container's columns may be generated. A client's value for a generated column is ignored, so
//! that a value that was read can be stored again; a value of generated columns only is refused. A
//! generated key column must yield the key of the request.

use crate::container::convert::{Conversion, StoredValue};
use crate::container::field_codec::Piece;
use crate::container::json;
use crate::container::{Container, ExpiryForm, Flags, Stored, ValueFormat, number, refused};
use porpoise_rows::catalog::{Column, ColumnDefault, Table};
use porpoise_rows::{Error, ReplacedRows, Result, RowRef, Txn};
use porpoise_types::{ColumnType, DateTime, Value, ValueRef, encode_key};
use smallvec::SmallVec;

impl Container {
    /// Returns a new row for a client's key, with defaults in all other columns.
    ///
    /// # Errors
    /// A column would have no value (1364); as [`Container::append_key`].
    pub fn new_row(&self, key: &[u8], convert: &mut Conversion) -> Result<Vec<Value>> {
        if let Some(column) = &self.column_without_value {
            return Err(lacks_default(column));
        }
        let mut row = convert.defaults(&self.table);
        for (part, piece) in self.pieces(key)? {
            let Some(column) = self.table.columns.get(part.column) else {
                return Err(Error::DefinitionChanged);
            };
            put(&mut row, part.column, convert.key(column, piece.bytes())?);
        }
        Ok(row)
    }

    /// Stores a storage command's values in a row. `version`, the version that the row will have,
    /// is stored in the `cas_column`.
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

    /// Adds a copy of the row `old` with the values of a `set` to `rows`; `number` is that of the key. Only for containers with
    /// `replaces_rows`. Returns false if a value does not fit or needs more than a copy of the row.
    pub(crate) fn push_replaced(
        &self,
        (number, old): (usize, &RowRef<'_>),
        what: Stored<'_>,
        convert: &mut Conversion,
        rows: &mut ReplacedRows,
    ) -> bool {
        let [value_column] = self.values.as_slice() else {
            return false;
        };
        let mut values: SmallVec<[(usize, StoredValue<'_>); 3]> = SmallVec::new();
        let mut store = |position: usize, value| {
            let stored = convert.store_ref(&self.table, position, value);
            stored.is_ok_and(|stored| {
                values.push((position, stored));
                true
            })
        };
        if !store(*value_column, ValueRef::Bytes(what.value)) {
            return false;
        }
        if let (Flags::Column(position), Some(flags)) = (self.flags, what.flags)
            && !store(position, ValueRef::UInt(u64::from(flags)))
        {
            return false;
        }
        if let (Some((position, form)), Some(expires)) = (self.expiry, what.expires)
            && !store(position, expiry_value(form, expires))
        {
            return false;
        }
        let values: SmallVec<[(usize, ValueRef<'_>); 3]> = values
            .iter()
            .map(|(n, value)| (*n, value.as_ref()))
            .collect();
        rows.push(number, old, &values)
    }

    /// Returns which columns of a new row have a value, given by the client or by a default; the
    /// others get the values of their expressions.
    ///
    /// # Errors
    /// The value is not a JSON object where one is required.
    pub(crate) fn columns_with_value(&self, row: &[Value], value: &[u8]) -> Result<Vec<bool>> {
        let members: Vec<usize> = match self.format {
            ValueFormat::Text => self.values.clone(),
            ValueFormat::Json => {
                let members = json::members(value)?;
                let columns = members.iter().map(|(name, _)| self.table.column(name));
                columns.flatten().collect()
            }
        };
        let is_given = |at: usize| members.contains(&at) || self.is_key(at);
        let columns = row.iter().enumerate();
        Ok(columns
            .map(|(at, value)| is_given(at) || !value.is_null())
            .collect())
    }

    fn is_generated(&self, position: usize) -> bool {
        let column = self.table.columns.get(position);
        column.is_some_and(|c| c.generated.is_some())
    }

    /// Checks that a row about to be written has the key of the request: if a key column is
    /// generated, it depends on other columns.
    ///
    /// # Errors
    /// The row would have another key; errors of evaluating expressions.
    pub(crate) fn check_key(&self, txn: &Txn, row: &[Value]) -> Result<()> {
        if !self.key.iter().any(|part| self.is_generated(part.column)) {
            return Ok(());
        }
        let mut computed = row.to_vec();
        txn.generate(&self.table, &mut computed, 1)?;
        for part in &self.key {
            if let Some(value) = computed.get(part.column) {
                self.check_same(row, part.column, value)?;
            }
        }
        Ok(())
    }

    /// Stores a row's version in the `cas_column`, if the container has one.
    pub(crate) fn apply_version(&self, row: &mut [Value], version: u64) {
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
        if let (Some(position), ValueFormat::Text) = (self.increment, self.format) {
            let number = number(value).map_or(ValueRef::Null, ValueRef::UInt);
            if number.is_null() && self.values.is_empty() {
                return Err(refused(format!(
                    "Container '{}' has no value column for text, only an increment column",
                    self.name
                )));
            }
            put(row, position, convert.store(&self.table, position, number)?);
        }
        match self.values.as_slice() {
            _ if self.format == ValueFormat::Json => self.apply_object(row, value, convert),
            [first, rest @ ..]
                if self.increment.is_none()
                    && self.is_generated(*first)
                    && rest.iter().all(|n| self.is_generated(*n)) =>
            {
                Err(value_of_generated_column(&self.table, *first))
            }
            [] => Ok(()),
            [only] if self.is_generated(*only) => Ok(()),
            [only] if self.value_codec.is_plain() => {
                let value = convert.store(&self.table, *only, ValueRef::Bytes(value))?;
                put(row, *only, value);
                Ok(())
            }
            several => self.apply_several(row, several, value, convert),
        }
    }

    /// Stores the parts of a text value in `columns`, in order.
    fn apply_several(
        &self,
        row: &mut [Value],
        columns: &[usize],
        value: &[u8],
        convert: &mut Conversion,
    ) -> Result<()> {
        let pieces: Vec<Piece<'_>> = match columns {
            [_] => vec![self.value_codec.single(value)],
            _ => self
                .value_codec
                .split(value)
                .take(columns.len() + 1)
                .collect(),
        };
        let mut pieces = pieces.iter();
        for position in columns {
            let Some(column) = self.table.columns.get(*position) else {
                return Err(Error::DefinitionChanged);
            };
            let value = match pieces.next() {
                None | Some(Piece::Null) => ValueRef::Null,
                // Without a null token, an empty part of a column without text is NULL.
                Some(Piece::Text(text)) if text.is_empty() && self.empty_is_null(&column.ty) => {
                    ValueRef::Null
                }
                Some(Piece::Text(text)) => ValueRef::Bytes(text),
            };
            if self.is_generated(*position) {
                continue;
            }
            let stored = convert.store(&self.table, *position, value)?;
            put(row, *position, stored);
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

    /// Whether an empty part is NULL in a column of this type.
    fn empty_is_null(&self, ty: &ColumnType) -> bool {
        !ty.is_string() && !self.value_codec.distinguishes_null()
    }

    /// Stores the members of a JSON object in their columns.
    fn apply_object(
        &self,
        row: &mut [Value],
        value: &[u8],
        convert: &mut Conversion,
    ) -> Result<()> {
        let mut seen: Vec<usize> = Vec::new();
        for (name, raw) in json::members(value)? {
            let position = self.table.column(&name);
            let position = position.filter(|p| self.values.contains(p) || self.is_key(*p));
            let (Some(position), Some(column)) =
                (position, position.and_then(|p| self.table.columns.get(p)))
            else {
                return Err(refused(format!(
                    "Container '{}' has no column '{name}'",
                    self.name
                )));
            };
            if seen.contains(&position) {
                return Err(refused(format!(
                    "Column '{name}' appears twice in the object"
                )));
            }
            seen.push(position);
            if self.is_generated(position) {
                continue;
            }
            let member = json::member_value(&column.name, &column.ty, raw)?;
            let stored = convert.store(&self.table, position, member.as_ref())?;
            if self.is_key(position) {
                self.check_same(row, position, &stored)?;
            } else {
                put(row, position, stored);
            }
        }
        // In an existing row such a column has a value already.
        let lacks_value = |p: &&usize| {
            let needs_value =
                |c: &Column| !c.nullable && !c.auto_increment && c.default == ColumnDefault::None;
            !seen.contains(p)
                && !self.is_generated(**p)
                && self.table.columns.get(**p).is_some_and(needs_value)
                && row.get(**p).is_some_and(Value::is_null)
        };
        match self.values.iter().find(lacks_value) {
            Some(p) => Err(lacks_default_at(&self.table, *p)),
            None => Ok(()),
        }
    }

    fn is_key(&self, position: usize) -> bool {
        self.key.iter().any(|part| part.column == position)
    }

    /// Checks that `stored`, a value for the key column at `position`, is the value that `row` has
    /// from the request's key.
    fn check_same(&self, row: &[Value], position: usize, stored: &Value) -> Result<()> {
        let Some(column) = self.table.columns.get(position) else {
            return Err(Error::DefinitionChanged);
        };
        let encoded = |value: ValueRef<'_>| {
            let mut key = Vec::new();
            encode_key(value, &column.ty, column.nullable, false, &mut key);
            key
        };
        let from_key = row.get(position).map_or(ValueRef::Null, Value::as_ref);
        if encoded(from_key) == encoded(stored.as_ref()) {
            return Ok(());
        }
        Err(refused(format!(
            "Column '{}' differs from the key",
            column.name
        )))
    }

    /// Sets the expiry time (seconds since 1970, 0: never) if the container has a column for it.
    /// Returns true if it has.
    ///
    /// # Errors
    /// The time does not fit the column.
    pub(crate) fn apply_expiry(
        &self,
        row: &mut [Value],
        expires: i64,
        convert: &mut Conversion,
    ) -> Result<bool> {
        let Some((position, form)) = self.expiry else {
            return Ok(false);
        };
        let value = expiry_value(form, expires);
        put(row, position, convert.store(&self.table, position, value)?);
        Ok(true)
    }

    /// Stores a new number in the increment column, and its text in the value column if that
    /// contains one.
    ///
    /// # Errors
    /// The number does not fit.
    pub(crate) fn apply_count(
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
        if let ([only], ValueFormat::Text) = (self.values.as_slice(), self.format)
            && row.get(*only).is_some_and(|v| !v.is_null())
            && !self.is_generated(*only)
        {
            let text = count.to_string();
            let value = convert.store(&self.table, *only, ValueRef::Bytes(text.as_bytes()))?;
            put(row, *only, value);
        }
        self.apply_version(row, version);
        Ok(())
    }
}

/// An expiry time in seconds since 1970 (0: never) as the value of its column.
fn expiry_value(form: ExpiryForm, expires: i64) -> ValueRef<'static> {
    match (form, expires) {
        (ExpiryForm::Seconds, seconds) => ValueRef::Int(seconds),
        (ExpiryForm::Time, 0) => ValueRef::Null,
        (ExpiryForm::Time, seconds) => {
            let micros = seconds.saturating_mul(1_000_000);
            DateTime::from_unix_micros(micros).map_or(ValueRef::Null, ValueRef::DateTime)
        }
    }
}

/// As [`lacks_default`], for the column at `position`.
fn lacks_default_at(table: &Table, position: usize) -> Error {
    let column = table.columns.get(position);
    column.map_or(Error::DefinitionChanged, |c| lacks_default(&c.name))
}

/// The error for a column without value and default.
fn lacks_default(column: &str) -> Error {
    let message = format!("Field '{column}' doesn't have a default value");
    Error::refused(1364, "HY000", message)
}

/// The error for a value of a container whose value columns are all generated.
fn value_of_generated_column(table: &Table, position: usize) -> Error {
    let Some(column) = table.columns.get(position) else {
        return Error::DefinitionChanged;
    };
    let message = format!(
        "The value specified for generated column '{}' in table '{}' is not allowed.",
        column.name, table.name
    );
    Error::refused(3105, "HY000", message)
}

fn put(row: &mut [Value], position: usize, value: Value) {
    if let Some(slot) = row.get_mut(position) {
        *slot = value;
    }
}
