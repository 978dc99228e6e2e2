//! Keys of rows and index entries (docs/formats.md, "Index entries").
//!
//! * Row: the primary key's parts, encoded; a hidden key is the row id as a
//!   big-endian `u64`. Value: the row.
//! * Entry of a unique index without a NULL part: the parts. Value: the
//!   primary key.
//! * Entry of a unique index with a NULL part: the parts, then the primary
//!   key. Value: the primary key.
//! * Entry of a plain index: the parts, then the primary key. Value: the
//!   length of the primary key, by which it is found at the end of the key: one byte
//!   up to 127, else two with the top bit of the first set (big-endian).
//!
//! A FULLTEXT index has entries of another form ([`crate::text_index`]), which are not those of single rows.
//!
//! An index with a multi-valued part has such an entry for each element of the array, none if the
//! array is empty, and one with NULL if there is no array ([`Table::entries`]).
//!
//! Invariant: encoded parts are self-delimiting (prefix-free). The keys that start with the
//! encoding of some values are exactly those whose first parts equal them.
//!
//! Rejected: repeating the primary key in the value of plain entries (doubles the memory of an
//! index over short columns).

use crate::definition::{Index, IndexPart};
use crate::error::{Error, Result};
use crate::table::Table;
use porpoise_types::array::{Elements, elements};
use porpoise_types::{
    Value, ValueRef, decode_key, encode_key, encode_key_prefix, encode_text_start,
};

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

impl Columns for [Option<Value>] {
    fn column(&self, position: usize) -> ValueRef<'_> {
        let value = self.get(position).and_then(Option::as_ref);
        value.map_or(ValueRef::Null, Value::as_ref)
    }
}

/// A row as one entry of an index sees it: with one element in place of the array of a multi-valued
/// part.
pub(crate) struct EntryRow<'r, C: ?Sized> {
    row: &'r C,
    /// The array's column, and the key of the element; `None` for NULL.
    element: Option<(usize, Option<&'r [u8]>)>,
}

impl<C: Columns + ?Sized> Columns for EntryRow<'_, C> {
    #[inline]
    fn column(&self, position: usize) -> ValueRef<'_> {
        match self.element {
            Some((column, element)) if column == position => {
                element.map_or(ValueRef::Null, ValueRef::Bytes)
            }
            _ => self.row.column(position),
        }
    }
}

/// The entries that a row has in one secondary index.
pub(crate) struct Entries<'r, C: ?Sized> {
    row: &'r C,
    /// The column of the index's multi-valued part.
    array: Option<usize>,
    elements: Elements<'r>,
    /// Whether the row has exactly one entry, which was not yielded yet: the index has no multi-valued
    /// part, or the array is NULL.
    single: bool,
}

impl<'r, C: Columns + ?Sized> Iterator for Entries<'r, C> {
    type Item = EntryRow<'r, C>;

    #[inline]
    fn next(&mut self) -> Option<EntryRow<'r, C>> {
        let row = self.row;
        if std::mem::take(&mut self.single) {
            let element = self.array.map(|column| (column, None));
            return Some(EntryRow { row, element });
        }
        let (column, element) = (self.array?, self.elements.next()?);
        let element = Some((column, Some(element)));
        Some(EntryRow { row, element })
    }
}

/// Appends one part of an index. The value of an array's column is the key of one element.
fn append_part(table: &Table, part: &IndexPart, value: ValueRef<'_>, out: &mut Vec<u8>) {
    let Some(column) = table.columns.get(part.column) else {
        return;
    };
    match part.prefix {
        None if column.is_array() && !value.is_null() => {
            if let ValueRef::Bytes(element) = value {
                out.extend_from_slice(element);
            }
        }
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
        let exclusive = self.kind.is_unique() && !null;
        if !exclusive {
            out.extend_from_slice(primary);
        }
        exclusive
    }

    /// The keys of all entries of a row in this index, which is at a position of its table, each
    /// with whether it must be unique.
    pub(crate) fn entry_keys<C: Columns + ?Sized>(
        &self,
        table: &Table,
        position: usize,
        row: &C,
        primary: &[u8],
    ) -> Vec<(Vec<u8>, bool)> {
        let key = |entry: EntryRow<'_, C>| {
            let mut key = Vec::new();
            let exclusive = self.append_entry(table, &entry, primary, &mut key);
            (key, exclusive)
        };
        table.entries(position, row).map(key).collect()
    }

    /// Appends the value of an entry.
    pub(crate) fn append_entry_value(&self, primary: &[u8], out: &mut Vec<u8>) {
        if self.kind.is_unique() {
            out.extend_from_slice(primary);
        } else {
            push_key_length(primary, out);
        }
    }

    /// Extracts the primary key from an entry.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the entry has none.
    pub(crate) fn primary_of<'a>(&self, key: &'a [u8], value: &'a [u8]) -> Result<&'a [u8]> {
        if self.kind.is_unique() {
            return Ok(value);
        }
        let split = split_entry(key, value);
        let primary = split.filter(|(_, rest)| rest.is_empty());
        primary
            .map(|(primary, _)| primary)
            .ok_or_else(|| Error::Corrupt(format!("an entry of index {}", self.name)))
    }
}

/// An entry of a secondary index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    /// The key.
    pub(crate) key: Vec<u8>,
    /// The value.
    pub(crate) value: Vec<u8>,
    /// Whether the key must be unique.
    pub(crate) exclusive: bool,
}

/// Appends the length of a row key: one byte up to 127, else two, the first with its top bit set.
fn push_key_length(primary: &[u8], out: &mut Vec<u8>) {
    if let Ok(len @ 0..=0x7f) = u8::try_from(primary.len()) {
        out.push(len);
    } else {
        // Keys have at most a few kilobytes, so the top bit is free.
        let len = u16::try_from(primary.len()).unwrap_or(u16::MAX) | 0x8000;
        out.extend_from_slice(&len.to_be_bytes());
    }
}

/// Splits an entry whose value begins with the length of the row key at the end of its key: that
/// key, and the rest of the value.
fn split_entry<'e>(key: &'e [u8], value: &'e [u8]) -> Option<(&'e [u8], &'e [u8])> {
    let (first, rest) = value.split_first()?;
    let (len, rest) = if first & 0x80 == 0 {
        (usize::from(*first), rest)
    } else {
        let (second, rest) = rest.split_first()?;
        (
            usize::from(u16::from_be_bytes([first & 0x7f, *second])),
            rest,
        )
    };
    let primary = key.get(key.len().checked_sub(len)?..)?;
    Some((primary, rest))
}

impl Table {
    /// All entries that a row has in the secondary index at a position, which is not a FULLTEXT index.
    pub(crate) fn whole_entries<C: Columns + ?Sized>(
        &self,
        position: usize,
        row: &C,
        primary: &[u8],
    ) -> Vec<Entry> {
        let Some(index) = self.maintained_index(position) else {
            return Vec::new();
        };
        let mut value = Vec::new();
        index.append_entry_value(primary, &mut value);
        let keys = index.entry_keys(self, position, row, primary).into_iter();
        let entries = keys.map(|(key, exclusive)| Entry {
            key,
            value: value.clone(),
            exclusive,
        });
        entries.collect()
    }

    /// The entries that a row has in the secondary index at a position.
    #[inline]
    pub(crate) fn entries<'r, C: Columns + ?Sized>(
        &self,
        index: usize,
        row: &'r C,
    ) -> Entries<'r, C> {
        let array = self.array_column_of(index);
        let stored = match array.map(|column| row.column(column)) {
            Some(ValueRef::Bytes(stored)) => Some(stored),
            _ => None,
        };
        Entries {
            row,
            array,
            elements: elements(stored.unwrap_or(&[])),
            single: stored.is_none(),
        }
    }

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

    /// As [`Table::index_key`], of a row that may lack columns.
    pub fn index_key_of_image(&self, index: usize, image: &[Option<Value>]) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(16);
        let null = self.indexes.get(index)?.append_parts(self, image, &mut out);
        (!null).then_some(out)
    }

    /// Encodes values for the first parts of an index: the common prefix of all keys whose first
    /// parts equal them. NULL is an ordinary value here. The value for an array's column is the key of
    /// an element ([`porpoise_types::array`]). With a value for every part of a unique index the result
    /// is the complete key.
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
        let parts = self.maintained_index(index);
        let parts = parts.map_or(&[][..], |i| &i.parts);
        for (n, part) in parts.iter().enumerate() {
            if n > 0 {
                out.push(b'-');
            }
            let Some(column) = self.columns.get(part.column) else {
                continue;
            };
            match row.column(part.column) {
                ValueRef::Null => out.extend_from_slice(b"NULL"),
                ValueRef::Bytes(mut element) if column.is_array() => {
                    let value = decode_key(&column.ty, true, &mut element);
                    let value = value.as_ref().map_or(ValueRef::Null, Value::as_ref);
                    porpoise_types::write_text(value, &column.ty, &mut out);
                }
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

    /// Returns the error for a row of which one entry, the one with this key, exists in a unique index
    /// already. The message shows that entry's element if the index is multi-valued.
    pub(crate) fn duplicate_of_key<C: Columns + ?Sized>(
        &self,
        index: usize,
        row: &C,
        key: &[u8],
    ) -> Error {
        let definition = self.maintained_index(index).filter(|_| index > 0);
        let mut bytes = Vec::new();
        let found = definition.and_then(|definition| {
            self.entries(index, row).find(|entry| {
                bytes.clear();
                definition.append_parts(self, entry, &mut bytes);
                bytes == key
            })
        });
        match found {
            Some(entry) => self.duplicate(index, &entry),
            None => self.duplicate(index, row),
        }
    }

    /// Returns the error for a duplicate value in a unique index.
    pub(crate) fn duplicate<C: Columns + ?Sized>(&self, index: usize, row: &C) -> Error {
        let name = self.maintained_index(index).map_or("", |i| &i.name);
        Error::Duplicate {
            entry: self.entry_text(index, row),
            key: format!("{}.{name}", self.name),
        }
    }
}
