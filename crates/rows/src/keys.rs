//! Keys of rows and index entries (docs/formats.md, "Index entries").
//!
//! * Row: the primary key's parts, encoded; a hidden key is the row id as a
//!   big-endian `u64`. Value: the row.
//! * Entry of a unique index without a NULL part: the parts. Value: the
//!   primary key.
//! * Entry of a unique index with a NULL part: the parts, then the primary
//!   key. Value: the primary key.
//! * Entry of a plain index: the parts, then the primary key. Value: the
//!   primary key's length, so that it can be cut off the key's end: one byte
//!   up to 127, else two with the top bit of the first set (big-endian).
//!
//! Invariant: encoded parts are self-delimiting (prefix-free). The keys that start with the
//! encoding of some values are exactly those whose first parts equal them.
//!
//! Rejected: repeating the primary key in the value of plain entries (doubles the memory of an
//! index over short columns).

use crate::definition::{Index, IndexKind, IndexPart};
use crate::error::{Error, Result};
use crate::table::Table;
use porpoise_types::{Value, ValueRef, encode_key, encode_key_prefix, encode_text_start};

/// Version of the format of entries, apart from the encoding of parts
/// ([`porpoise_types::KEY_FORMAT_VERSION`]).
pub const ENTRY_FORMAT_VERSION: u8 = 1;

/// Access to values by column position: a stored row, or one to be written.
pub(crate) trait Columns {
    /// The value at a column position.
    fn column(&self, position: usize) -> ValueRef<'_>;
}

impl Columns for [Value] {
    fn column(&self, position: usize) -> ValueRef<'_> {
        self.get(position).map_or(ValueRef::Null, Value::as_ref)
    }
}

/// Appends one part of an index.
fn append_part(table: &Table, part: &IndexPart, value: ValueRef<'_>, out: &mut Vec<u8>) {
    let Some(column) = table.columns.get(part.column) else {
        return;
    };
    match part.prefix {
        None => encode_key(value, &column.ty, column.nullable, part.desc, out),
        Some(chars) => {
            encode_key_prefix(value, &column.ty, chars, column.nullable, part.desc, out);
        }
    }
}

impl Index {
    /// Appends the encoded parts. Returns true if one of them is NULL.
    pub(crate) fn append_parts<C: Columns + ?Sized>(
        &self,
        table: &Table,
        row: &C,
        out: &mut Vec<u8>,
    ) -> bool {
        let mut null = false;
        for part in &self.parts {
            let value = row.column(part.column);
            null |= value.is_null();
            append_part(table, part, value, out);
        }
        null
    }

    /// Appends the key of a row's entry in this secondary index. Returns true if the key must be
    /// unique (unique index, no NULL).
    pub(crate) fn append_entry<C: Columns + ?Sized>(
        &self,
        table: &Table,
        row: &C,
        primary: &[u8],
        out: &mut Vec<u8>,
    ) -> bool {
        let null = self.append_parts(table, row, out);
        let exclusive = self.kind != IndexKind::Plain && !null;
        if !exclusive {
            out.extend_from_slice(primary);
        }
        exclusive
    }

    /// Appends the value of an entry.
    pub(crate) fn append_entry_value(&self, primary: &[u8], out: &mut Vec<u8>) {
        if self.kind != IndexKind::Plain {
            out.extend_from_slice(primary);
        } else if let Ok(len @ 0..=0x7f) = u8::try_from(primary.len()) {
            out.push(len);
        } else {
            // Keys have at most a few kilobytes, so the top bit is free.
            let len = u16::try_from(primary.len()).unwrap_or(u16::MAX) | 0x8000;
            out.extend_from_slice(&len.to_be_bytes());
        }
    }

    /// Extracts the primary key from an entry.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the entry has none.
    pub(crate) fn primary_of<'a>(&self, key: &'a [u8], value: &'a [u8]) -> Result<&'a [u8]> {
        if self.kind != IndexKind::Plain {
            return Ok(value);
        }
        let len = match value {
            [len] => Some(usize::from(*len)),
            [a, b] => Some(usize::from(u16::from_be_bytes([a & 0x7f, *b]))),
            _ => None,
        };
        len.and_then(|len| key.get(key.len().checked_sub(len)?..))
            .ok_or_else(|| Error::Corrupt(format!("an entry of index {}", self.name)))
    }
}

impl Table {
    /// Returns the primary key of a row of storage values in column order; empty for a hidden key,
    /// which is not in the values.
    pub fn primary_key(&self, values: &[Value]) -> Vec<u8> {
        let mut out = Vec::with_capacity(16);
        self.append_primary_key(values, &mut out);
        out
    }

    /// As [`Table::primary_key`], appending.
    pub(crate) fn append_primary_key<C: Columns + ?Sized>(&self, row: &C, out: &mut Vec<u8>) {
        if let Some(primary) = self.indexes.first() {
            primary.append_parts(self, row, out);
        }
    }

    /// Returns the encoded parts of a row in the index at a position; `None` if a part is NULL,
    /// because a look-up by such a key is not unique.
    pub fn index_key(&self, index: usize, values: &[Value]) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(16);
        let null = self
            .indexes
            .get(index)?
            .append_parts(self, values, &mut out);
        (!null).then_some(out)
    }

    /// Encodes values for the first parts of an index: the common prefix of all keys whose first
    /// parts equal them. NULL is an ordinary value here. With a value for every part of a unique
    /// index the result is the complete key.
    pub fn key_prefix(&self, index: usize, values: &[ValueRef<'_>]) -> Vec<u8> {
        let mut out = Vec::with_capacity(16);
        self.append_key_prefix(index, values, &mut out);
        out
    }

    /// As [`Table::key_prefix`], appending.
    pub fn append_key_prefix(&self, index: usize, values: &[ValueRef<'_>], out: &mut Vec<u8>) {
        if let Some(index) = self.indexes.get(index) {
            for (part, value) in index.parts.iter().zip(values) {
                append_part(self, part, *value, out);
            }
        }
    }

    /// Appends the key prefix of all texts in the column of `part` that begin with these
    /// characters, which must not end in a space. `out` has the encoding of the parts before.
    pub fn append_text_prefix(&self, index: usize, part: usize, text: &[u8], out: &mut Vec<u8>) {
        let part = self.indexes.get(index).and_then(|i| i.parts.get(part));
        let column = part.and_then(|p| Some((p, self.columns.get(p.column)?)));
        if let Some((part, column)) = column {
            encode_text_start(text, &column.ty, column.nullable, part.desc, out);
        }
    }

    /// Returns a row's values of an index joined by `-` and cut at 64 characters, for duplicate-key
    /// messages.
    pub(crate) fn entry_text<C: Columns + ?Sized>(&self, index: usize, row: &C) -> String {
        let mut out = Vec::new();
        let parts = self.indexes.get(index).map_or(&[][..], |i| &i.parts);
        for (n, part) in parts.iter().enumerate() {
            if n > 0 {
                out.push(b'-');
            }
            let Some(column) = self.columns.get(part.column) else {
                continue;
            };
            match row.column(part.column) {
                ValueRef::Null => out.extend_from_slice(b"NULL"),
                value => {
                    let start = out.len();
                    porpoise_types::write_text(value, &column.ty, &mut out);
                    if let Some(chars) = part.prefix {
                        let text = String::from_utf8_lossy(out.get(start..).unwrap_or(&[]));
                        let cut: String = text.chars().take(chars as usize).collect();
                        out.truncate(start);
                        out.extend_from_slice(cut.as_bytes());
                    }
                }
            }
        }
        String::from_utf8_lossy(&out).chars().take(64).collect()
    }

    /// Returns the error for a duplicate value in a unique index.
    pub(crate) fn duplicate<C: Columns + ?Sized>(&self, index: usize, row: &C) -> Error {
        let name = self.indexes.get(index).map_or("", |i| &i.name);
        Error::Duplicate {
            entry: self.entry_text(index, row),
            key: format!("{}.{name}", self.name),
        }
    }
}
