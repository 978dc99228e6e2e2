//! A container: maps the columns of a table to key, value, flags and expiry time, and converts rows
//! to items and back.
//!
//! * Several key columns: the key without its prefix is split at TABs, in the
//!   order of `key_columns`, which together are the table's primary key, or one
//!   of its unique keys.
//! * Several value columns: joined by TABs when read and split when written. NULL is read as an
//!   empty part; an empty part is written as NULL, but as the empty string in a string column.
//!   Missing parts are NULL. Options set another separator, an escape byte and a token for NULL
//!   (see [`field_codec`]), or make the value a JSON object (see [`json`]).
//! * An increment column has the value's number: storing a value that is a number also stores it
//!   there, any other value stores NULL there; `incr` and `decr` change both. A row whose value
//!   columns are all NULL, or that has none, is read as its number.
//! * `flags` is a constant, or a column that keeps the client's flags.
//! * A `cas_column` of 64 bits is filled with the row's version.
//! * An `expire_time_column` is an integer, seconds since 1970 (0 or NULL: never), or
//!   a TIMESTAMP or DATETIME in UTC (NULL: never).
//!
//! Invariants:
//! 1. Columns outside the container keep their values in existing rows and get their defaults in
//!    new ones.
//! 2. No column has two roles, so no part of a write overwrites another.

pub(crate) mod chunked_values;
pub mod convert;
pub mod field_codec;
mod generated_columns;
mod json;

use crate::command_statistics::PrefixStatistics;
use crate::container::chunked_values::ChunkedValues;
use crate::container::convert::Conversion;
use crate::container::field_codec::{FieldCodec, Piece};
use porpoise_rows::catalog::{ColumnDefault, Table, TableId};
use porpoise_rows::ttl::ExpiryZone;
use porpoise_rows::{Error, Result, RowRef};
use porpoise_types::{Kind, Value, ValueRef, encode_key, write_text};
use porpoise_wire::memcached::command::Item;
use std::sync::Arc;

/// Source of the client's flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flags {
    /// The same flags for every row.
    Constant(u32),
    /// Position of the column that stores them.
    Column(usize),
}

/// Format of the expiry time in its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiryForm {
    /// Seconds since 1970.
    Seconds,
    /// TIMESTAMP or DATETIME.
    Time,
}

/// Format of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueFormat {
    /// The columns as text.
    Text,
    /// A JSON object with the columns as members.
    Json,
}

/// One part of the key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyPart {
    /// Position of the column.
    pub(crate) column: usize,
    /// Position of the part in the client's key.
    pub(crate) piece: usize,
    /// Whether the index orders the column descending.
    pub(crate) desc: bool,
}

/// A configured container, resolved; see the module.
#[derive(Clone, Debug)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// The table.
    pub table: Arc<Table>,
    /// Number of the index of the key columns: 0 is the primary key, others are unique indexes.
    pub(crate) index: usize,
    /// The parts of that index, in its order.
    pub(crate) key: Vec<KeyPart>,
    /// Codec of several key columns in one key.
    pub(crate) key_codec: FieldCodec,
    /// Codec of value columns in one value.
    pub(crate) value_codec: FieldCodec,
    pub(crate) format: ValueFormat,
    /// Positions of the value columns.
    pub(crate) values: Vec<usize>,
    pub(crate) flags: Flags,
    /// Position of the increment column.
    pub(crate) increment: Option<usize>,
    /// Position of the `cas_column`.
    pub(crate) cas: Option<usize>,
    /// Position and format of the `expire_time_column`.
    pub(crate) expiry: Option<(usize, ExpiryForm)>,
    /// The time zone in which the table's TTL compares dates without a zone.
    pub(crate) expiry_zone: ExpiryZone,
    /// Tables that a write may read or change.
    pub(crate) write_set: Vec<TableId>,
    /// Whether one of these tables has a trigger.
    pub(crate) may_fire_triggers: bool,
    /// Table for values that are too long for the value column.
    pub(crate) chunked_values: Option<ChunkedValues>,
    /// A column for which new rows would have no value.
    pub(crate) column_without_value: Option<String>,
    /// Result of [`Container::can_replace_rows`].
    pub(crate) replaces_rows: bool,
    /// Statistics of the commands on each prefix of the container.
    pub(crate) statistics: Vec<Arc<PrefixStatistics>>,
}

/// Values that a storage command writes.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    /// The value.
    pub value: &'a [u8],
    /// The client's flags; `None`: unchanged.
    pub flags: Option<u32>,
    /// Expiry time in seconds since 1970, 0: never; `None`: unchanged.
    pub expires: Option<i64>,
}

/// Converts a client's expiry time (protocol.txt) to seconds since 1970, or 0 for never: 0 is
/// never, negative values have expired already, values up to 30 days are relative to now, larger
/// ones are seconds since 1970.
pub(crate) fn expiry_time(exptime: i64, now: i64) -> i64 {
    const MONTH: i64 = 30 * 24 * 3600;
    match exptime {
        0 => 0,
        e if e < 0 => 1,
        e if e <= MONTH => now.saturating_add(e),
        e => e,
    }
}

/// Parses a 64-bit decimal number as memcached does, ignoring white space around it.
pub fn number(text: &[u8]) -> Option<u64> {
    let digits = text.trim_ascii();
    let digits = digits.strip_prefix(b"+").unwrap_or(digits);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

pub(crate) fn refused(message: String) -> Error {
    Error::refused(1210, "HY000", message)
}

impl Container {
    /// Returns the number of the key's index: 0 is the primary key.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the table of chunked values, if the container has one.
    #[inline]
    pub(crate) fn chunked_values(&self) -> Option<&ChunkedValues> {
        self.chunked_values.as_ref()
    }

    /// Encodes a client's key (without prefix) as a key of the container's index, and appends it.
    ///
    /// # Errors
    /// The key is not valid for the key columns: no row can have it.
    pub fn append_key(
        &self,
        key: &[u8],
        convert: &mut Conversion,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if let [part] = self.key.as_slice()
            && self.key_codec.is_plain()
        {
            return self.append_part(part, key, convert, out);
        }
        for (part, piece) in self.pieces(key)? {
            self.append_part(part, piece.bytes(), convert, out)?;
        }
        Ok(())
    }

    /// Appends the client key of a row, without prefix.
    pub(crate) fn append_key_text(&self, row: &RowRef<'_>, out: &mut Vec<u8>) {
        for n in 0..self.key.len() {
            if n > 0 {
                self.key_codec.append_separator(out);
            }
            let start = out.len();
            if let Some(part) = self.key.iter().find(|part| part.piece == n) {
                self.append_column(row, part.column, out);
            }
            self.key_codec.finish_part(start, false, out);
        }
    }

    /// Splits a key into its parts, in the order of the index.
    pub(crate) fn pieces<'a>(&'a self, key: &'a [u8]) -> Result<Vec<(&'a KeyPart, Piece<'a>)>> {
        let pieces: Vec<Piece<'a>> = if self.key.len() == 1 {
            vec![self.key_codec.single(key)]
        } else {
            self.key_codec.split(key).collect()
        };
        if pieces.len() != self.key.len() {
            return Err(refused(format!(
                "The key has {} parts, container '{}' has {} key columns",
                pieces.len(),
                self.name,
                self.key.len()
            )));
        }
        if pieces.contains(&Piece::Null) {
            return Err(refused("A part of a key cannot be NULL".to_owned()));
        }
        let piece = |part: &KeyPart| pieces.get(part.piece).cloned().unwrap_or(Piece::Null);
        Ok(self.key.iter().map(|part| (part, piece(part))).collect())
    }

    fn append_part(
        &self,
        part: &KeyPart,
        piece: &[u8],
        convert: &mut Conversion,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let Some(column) = self.table.columns.get(part.column) else {
            return Err(Error::DefinitionChanged);
        };
        // Fast path: such a value is stored unchanged.
        if column.ty.kind == Kind::VarBinary && piece.len() <= column.ty.length as usize {
            let value = ValueRef::Bytes(piece);
            encode_key(value, &column.ty, column.nullable, part.desc, out);
            return Ok(());
        }
        let value = convert.key(column, piece)?;
        encode_key(value.as_ref(), &column.ty, column.nullable, part.desc, out);
        Ok(())
    }

    /// Returns the columns that every storage command sets.
    pub(crate) fn replaced_columns(&self) -> &[usize] {
        match self.format {
            ValueFormat::Text => &self.values,
            // A JSON object may omit columns.
            ValueFormat::Json => &[],
        }
    }

    /// Whether the value is one string column, in which a number with fewer digits is padded.
    pub(crate) fn holds_text(&self) -> bool {
        let ([only], ValueFormat::Text) = (self.values.as_slice(), self.format) else {
            return false;
        };
        self.table
            .columns
            .get(*only)
            .is_some_and(|c| c.ty.is_string())
    }

    /// Returns the positions of the columns that commands read or set.
    pub(crate) fn used_columns(&self) -> Vec<usize> {
        let mut used: Vec<usize> = self.key.iter().map(|part| part.column).collect();
        used.extend(self.changed_columns());
        used
    }

    /// Returns the positions of the columns that commands change in existing rows.
    pub(crate) fn changed_columns(&self) -> Vec<usize> {
        let mut changed = self.values.clone();
        if let Flags::Column(at) = self.flags {
            changed.push(at);
        }
        changed.extend(self.increment);
        changed.extend(self.cas);
        changed.extend(self.expiry.map(|(at, _)| at));
        changed.retain(|at| self.key.iter().all(|part| part.column != *at));
        changed
    }

    /// Whether the order of `set`s of different keys makes no difference: no row depends on another one by a foreign key, a
    /// secondary unique key, a generated id, or the chunks of its value.
    pub(crate) fn sets_together(&self) -> bool {
        let table = &self.table;
        let mut secondary = table.indexes.iter().skip(1);
        self.index == 0
            && self.chunked_values.is_none()
            && table.foreign_keys.is_empty()
            && table.referenced_by.is_empty()
            && secondary.all(|index| !index.kind.is_unique())
            && table.auto_increment().is_none()
            && !table.has_default_expressions()
    }

    /// Whether a `set` of an existing row only replaces a text and numbers on which nothing depends, so that the new row can be a
    /// copy of the old one with these columns replaced.
    pub(crate) fn can_replace_rows(&self) -> bool {
        let is_plain = self.format == ValueFormat::Text
            && self.values.len() == 1
            && self.value_codec.is_plain()
            && self.increment.is_none();
        is_plain && self.sets_together() && self.table.can_replace_columns(&self.changed_columns())
    }

    /// Whether rows can expire.
    pub(crate) fn can_expire(&self) -> bool {
        self.expiry.is_some()
    }

    /// Whether a row has expired at `now`, in microseconds since 1970: by the container's expiry
    /// column, or by the table's TTL.
    #[inline]
    pub fn expired(&self, row: &RowRef<'_>, mut now: impl FnMut() -> i64) -> bool {
        let rule = self.table.expiry_rule();
        if rule.is_some_and(|rule| rule.is_expired(row, &self.expiry_zone.at(now()))) {
            return true;
        }
        let Some((position, form)) = self.expiry else {
            return false;
        };
        let expiry_micros = match (form, row.get(position)) {
            (_, ValueRef::Int(0) | ValueRef::UInt(0) | ValueRef::Null) => return false,
            (ExpiryForm::Seconds, ValueRef::Int(s)) => s.saturating_mul(1_000_000),
            (ExpiryForm::Seconds, ValueRef::UInt(s)) => i64::try_from(s)
                .unwrap_or(i64::MAX)
                .saturating_mul(1_000_000),
            (ExpiryForm::Time, ValueRef::DateTime(t)) => t.to_unix_micros(),
            _ => return false,
        };
        expiry_micros <= now()
    }

    /// Returns the row's flags.
    #[inline]
    pub(crate) fn flags_of(&self, row: &RowRef<'_>) -> u32 {
        match self.flags {
            Flags::Constant(flags) => flags,
            Flags::Column(position) => match row.get(position) {
                ValueRef::UInt(flags) => u32::try_from(flags).unwrap_or(u32::MAX),
                ValueRef::Int(flags) => u32::try_from(flags).unwrap_or(0),
                _ => 0,
            },
        }
    }

    /// Returns the row's value as the client sees it: borrowed from the row, or built in `scratch`.
    #[inline]
    pub fn value_of<'a>(&self, row: &RowRef<'a>, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        if let ([only], ValueFormat::Text) = (self.values.as_slice(), self.format)
            && self.value_codec.is_plain()
            && let ValueRef::Bytes(bytes) = row.get(*only)
            && self
                .table
                .columns
                .get(*only)
                .is_some_and(|c| c.ty.is_string())
        {
            return bytes;
        }
        scratch.clear();
        self.append_value(row, scratch);
        scratch
    }

    fn append_value(&self, row: &RowRef<'_>, out: &mut Vec<u8>) {
        if self.format == ValueFormat::Json {
            json::append(row, &self.values, out);
            return;
        }
        let mut all_null = true;
        for (n, position) in self.values.iter().enumerate() {
            if n > 0 {
                self.value_codec.append_separator(out);
            }
            let start = out.len();
            let is_null = self.append_column(row, *position, out);
            self.value_codec.finish_part(start, is_null, out);
            all_null &= is_null;
        }
        if all_null && let Some(position) = self.increment {
            out.clear();
            self.append_column(row, position, out);
        }
    }

    /// Appends a column's text. Returns true if it is NULL.
    fn append_column(&self, row: &RowRef<'_>, position: usize, out: &mut Vec<u8>) -> bool {
        let value = row.get(position);
        if let Some(column) = self.table.columns.get(position) {
            write_text(value, &column.ty, out);
        }
        value.is_null()
    }

    /// Checks that values can be counted and extended. `verb` is the command, for the error text.
    ///
    /// # Errors
    /// Values are JSON objects or have several columns.
    pub(crate) fn check_single_text(&self, verb: &str) -> Result<()> {
        let why = match self.format {
            ValueFormat::Json => "whose values are JSON objects",
            ValueFormat::Text if self.values.len() > 1 => "which has several value columns",
            ValueFormat::Text => return Ok(()),
        };
        Err(refused(format!(
            "{verb} is not defined on container '{}', {why}",
            self.name
        )))
    }

    /// Whether `incr` changes an increment column.
    pub(crate) fn counts_in_column(&self) -> bool {
        self.increment.is_some()
    }

    /// Returns the number in a row's increment column; `None` if it is NULL.
    pub(crate) fn counter_of(&self, row: &RowRef<'_>) -> Option<u64> {
        match row.get(self.increment?) {
            ValueRef::UInt(n) => Some(n),
            ValueRef::Int(n) => u64::try_from(n).ok(),
            _ => None,
        }
    }
}

/// Returns the name of a column of `table` that has no default, is NOT NULL and is not in `given`;
/// generated and AUTO_INCREMENT columns do not count.
pub(crate) fn column_without_default(table: &Table, given: &[usize]) -> Option<String> {
    let name_if_lacking = |(n, c): (usize, &porpoise_rows::catalog::Column)| {
        let needs_value = !c.nullable
            && !c.auto_increment
            && c.default == ColumnDefault::None
            && c.generated.is_none();
        (needs_value && !given.contains(&n)).then(|| c.name.clone())
    };
    table.columns.iter().enumerate().find_map(name_if_lacking)
}

/// Copies a row's values. Columns in `replaced`, which are about to be set, are NULL instead.
pub(crate) fn copy_values(table: &Table, row: &RowRef<'_>, replaced: &[usize]) -> Vec<Value> {
    let copy = |n: usize| {
        if replaced.contains(&n) {
            Value::Null
        } else {
            row.get(n).to_owned()
        }
    };
    (0..table.columns.len()).map(copy).collect()
}

impl Container {
    /// Returns a row's expiry time in seconds since 1970; 0: never.
    pub(crate) fn expires_of(&self, row: &RowRef<'_>) -> i64 {
        let Some((position, form)) = self.expiry else {
            return 0;
        };
        match (form, row.get(position)) {
            (ExpiryForm::Seconds, ValueRef::Int(s)) => s,
            (ExpiryForm::Seconds, ValueRef::UInt(s)) => i64::try_from(s).unwrap_or(i64::MAX),
            // Rounds up: the row has not expired before the end of the fractional second.
            (ExpiryForm::Time, ValueRef::DateTime(t)) => t
                .to_unix_micros()
                .saturating_add(999_999)
                .div_euclid(1_000_000),
            _ => 0,
        }
    }

    /// Returns a row as an item, whose value is borrowed from the row or built in `scratch`.
    #[inline]
    pub(crate) fn item_of<'a>(&self, row: &RowRef<'a>, scratch: &'a mut Vec<u8>) -> Item<'a> {
        Item {
            flags: self.flags_of(row),
            version: row.version(),
            expires: self.expires_of(row),
            value: self.value_of(row, scratch),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiry_times_are_relative_up_to_thirty_days() {
        assert_eq!(expiry_time(0, 1000), 0);
        assert_eq!(expiry_time(-1, 1000), 1);
        assert_eq!(expiry_time(60, 1000), 1060);
        assert_eq!(expiry_time(2_592_000, 1000), 2_593_000);
        assert_eq!(expiry_time(2_592_001, 1000), 2_592_001);
        assert_eq!(expiry_time(i64::MIN, i64::MAX), 1);
    }

    #[test]
    fn numbers_are_parsed_as_in_memcached() {
        assert_eq!(number(b"12"), Some(12));
        assert_eq!(number(b"9 "), Some(9));
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(number(b"18446744073709551616"), None);
        assert_eq!(number(b""), None);
        assert_eq!(number(b"-1"), None);
        assert_eq!(number(b"1x"), None);
    }
}
