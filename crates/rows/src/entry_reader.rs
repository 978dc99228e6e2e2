//! Reads columns from index entries, without the rows (covering indexes).
//!
//! The treatment of each key part is determined once per scan: unwanted parts of fixed width are
//! skipped without decoding, parts after the last wanted one are not read, and values are borrowed
//! from the key where possible.
//!
//! Invariants:
//! 1. The value read from an entry equals the column's value in the row: only parts that
//!    [`porpoise_types::is_decodable`] accepts are read.
//! 2. A column that is not part of the key is never written to the output.
//!
//! Rejected: offsets of all parts by entry (most indexes have one part, or
//! parts of fixed widths).

use crate::definition::{Index, IndexPart};
use crate::table::Table;
use crate::{Error, Result};
use porpoise_types::{
    ColumnType, Decoded, Value, ValueRef, decode_key_borrowed, decode_key_part, is_decodable,
    key_width, take_key_part,
};
use smallvec::SmallVec;

/// Treatment of one key part.
#[derive(Clone, Copy, Debug)]
enum PartAction {
    /// Skips a fixed number of bytes.
    SkipBytes(usize),
    /// Skips a part of variable length.
    Skip,
    /// Reads the column at this position.
    Read(usize),
}

#[derive(Clone, Copy, Debug)]
struct Part<'t> {
    ty: &'t ColumnType,
    nullable: bool,
    desc: bool,
    action: PartAction,
}

type Parts<'t> = SmallVec<[Part<'t>; 4]>;

/// Reads columns of the entries of one index.
#[derive(Clone, Debug)]
pub struct EntryReader<'t> {
    index: &'t Index,
    /// The index's own parts.
    index_parts: Parts<'t>,
    /// Parts of the primary key that follow; empty if the index is the primary key.
    primary_parts: Parts<'t>,
}

/// Takes ownership of decoded bytes that cannot be borrowed from the key.
pub type KeepBytes<'k, 'a> = dyn FnMut(Vec<u8>) -> &'a [u8] + 'k;

/// Returns the treatment of the parts up to the last wanted one, and marks wanted columns as found.
fn parts<'t>(table: &'t Table, index: &'t Index, wanted: &mut Vec<usize>) -> Result<Parts<'t>> {
    let mut parts = Parts::new();
    let mut used = 0;
    for (at, part) in index.parts.iter().enumerate() {
        let column = table.columns.get(part.column);
        let column = column.ok_or(Error::DefinitionChanged)?;
        let (ty, nullable) = (&column.ty, column.nullable);
        let action = if readable(part, ty) && !column.is_array() && wanted.contains(&part.column) {
            wanted.retain(|c| *c != part.column);
            used = at + 1;
            PartAction::Read(part.column)
        } else {
            match key_width(ty, nullable) {
                Some(width) => PartAction::SkipBytes(width),
                None => PartAction::Skip,
            }
        };
        parts.push(Part {
            ty,
            nullable,
            desc: part.desc,
            action,
        });
    }
    parts.truncate(used);
    Ok(parts)
}

fn readable(part: &IndexPart, ty: &ColumnType) -> bool {
    part.prefix.is_none() && is_decodable(ty)
}

fn read<'a>(
    parts: &Parts<'_>,
    mut key: &'a [u8],
    out: &mut [ValueRef<'a>],
    keep: &mut KeepBytes<'_, 'a>,
) -> Option<()> {
    for part in parts {
        match part.action {
            PartAction::SkipBytes(width) => key = key.get(width..)?,
            PartAction::Skip => {
                let mut skipped = Vec::new();
                take_key_part(part.ty, part.nullable, part.desc, &mut key, &mut skipped)?;
            }
            PartAction::Read(column) => {
                let value = if part.desc {
                    match decode_key_part(part.ty, part.nullable, true, &mut key)? {
                        Value::Bytes(bytes) => ValueRef::Bytes(keep(bytes)),
                        value => without_bytes(&value)?,
                    }
                } else {
                    match decode_key_borrowed(part.ty, part.nullable, &mut key)? {
                        Decoded::Borrowed(value) => value,
                        Decoded::Unescaped(bytes) => ValueRef::Bytes(keep(bytes)),
                    }
                };
                if let Some(place) = out.get_mut(column) {
                    *place = value;
                }
            }
        }
    }
    Some(())
}

/// Converts a value without bytes to any lifetime; `None` for values with bytes.
fn without_bytes<'a>(value: &Value) -> Option<ValueRef<'a>> {
    Some(match value.as_ref() {
        ValueRef::Null => ValueRef::Null,
        ValueRef::Int(v) => ValueRef::Int(v),
        ValueRef::UInt(v) => ValueRef::UInt(v),
        ValueRef::Double(v) => ValueRef::Double(v),
        ValueRef::Decimal(v) => ValueRef::Decimal(v),
        ValueRef::Date(v) => ValueRef::Date(v),
        ValueRef::DateTime(v) => ValueRef::DateTime(v),
        ValueRef::Time(v) => ValueRef::Time(v),
        ValueRef::Bytes(_) => return None,
    })
}

impl Table {
    /// Creates a reader of the columns `wanted`, as far as the keys contain them, for entries of
    /// the index at a position; for index 0 the entries are the rows.
    ///
    /// # Errors
    /// [`Error::DefinitionChanged`] if there is no such index.
    pub fn entry_reader(&self, index: usize, wanted: &[usize]) -> Result<EntryReader<'_>> {
        let (Some(named), Some(primary)) = (self.indexes.get(index), self.indexes.first()) else {
            return Err(Error::DefinitionChanged);
        };
        let mut wanted = wanted.to_vec();
        let own = parts(self, named, &mut wanted)?;
        Ok(EntryReader {
            index: named,
            index_parts: own,
            primary_parts: match index {
                0 => Parts::new(),
                _ => parts(self, primary, &mut wanted)?,
            },
        })
    }
}

impl EntryReader<'_> {
    /// Writes the wanted columns to their positions in `out`; other positions do not change. Values
    /// borrow from `key` and `value`, except decoded bytes, which `keep` takes.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for bytes that are not an entry of the index.
    #[inline]
    pub fn read<'a>(
        &self,
        key: &'a [u8],
        value: &'a [u8],
        out: &mut [ValueRef<'a>],
        keep: &mut KeepBytes<'_, 'a>,
    ) -> Result<()> {
        let mut done = read(&self.index_parts, key, out, keep);
        if done.is_some() && !self.primary_parts.is_empty() {
            let rest = self.index.primary_of(key, value)?;
            done = read(&self.primary_parts, rest, out, keep);
        }
        done.ok_or_else(|| Error::Corrupt(format!("an entry of index {}", self.index.name)))
    }
}
