//! Scans that read index entries and nothing else.
//!
//! What a query needs may stand in the entries themselves: integers, dates,
//! decimals and binary text can be read back from a key, text of other
//! collations cannot, for its key holds weights. Entries of a secondary index
//! hold the primary key's parts as well.
//!
//! Invariants:
//! 1. An entry is shown only while it is visible to the read, as in
//!    [`Txn::scan`]: entries are versioned as rows are, so that no row need be
//!    asked.
//! 2. [`Table::columns_in_entries`] names exactly the columns that
//!    [`Table::decode_entry`] shows.

use super::Txn;
use super::scan::{ScanPosition, ScanSpec, spaces_of};
use crate::catalog::{Index, IndexPart, Table};
use crate::{Error, Result};
use porpoise_kv::Read;
use porpoise_types::{Value, decode_key_part, is_decodable};
use std::ops::ControlFlow;

/// A visitor of entries: the key and the value as they are stored.
pub type EntryVisitor<'v> = dyn FnMut(&[u8], &[u8]) + 'v;

impl Txn {
    /// Walks the next at most `limit` entries (at least 1) of a scan, in index
    /// order, in these partitions; true when there may be more. Of index 0 the
    /// entries are the rows.
    ///
    /// # Errors
    /// The engine's.
    pub fn scan_entries(
        &mut self,
        table: &Table,
        spec: &ScanSpec,
        partitions: Option<&[usize]>,
        read: Read,
        (position, limit): (&mut ScanPosition, usize),
        visit: &mut EntryVisitor<'_>,
    ) -> Result<bool> {
        if position.done() {
            return Ok(false);
        }
        let spaces = spaces_of(table, spec.index, partitions);
        let show = &mut |key: &[u8], value: &[u8]| {
            visit(key, value);
            ControlFlow::Continue(())
        };
        self.walk(spec, &spaces, read, position, limit.max(1), show)?;
        Ok(!position.done())
    }
}

fn readable(table: &Table, part: &IndexPart) -> bool {
    let column = table.columns.get(part.column);
    part.prefix.is_none() && column.is_some_and(|c| is_decodable(&c.ty))
}

/// Shows the readable parts at the front of `key`, which is advanced. Stops
/// at the first that cannot be skipped.
fn decode_parts(
    table: &Table,
    index: &Index,
    mut key: &[u8],
    show: &mut dyn FnMut(usize, Value),
) -> Option<()> {
    let mut skipped = Vec::new();
    for part in &index.parts {
        let column = table.columns.get(part.column)?;
        if readable(table, part) {
            let value = decode_key_part(&column.ty, column.nullable, part.desc, &mut key)?;
            show(part.column, value);
        } else {
            let (ty, nullable) = (&column.ty, column.nullable);
            skipped.clear();
            porpoise_types::take_key_part(ty, nullable, part.desc, &mut key, &mut skipped)?;
        }
    }
    Some(())
}

impl Table {
    /// The columns that the keys of entries of the index at a position hold;
    /// those of the rows themselves hold the primary key.
    pub fn columns_in_entries(&self, index: usize) -> Vec<usize> {
        let secondary = self.indexes.get(index).filter(|_| index != 0);
        let all = secondary.into_iter().chain(self.indexes.first());
        let parts = all.flat_map(|index| &index.parts);
        let mut columns: Vec<usize> = parts
            .filter(|p| readable(self, p))
            .map(|p| p.column)
            .collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// Shows the columns that an entry holds, by position; a column may come
    /// twice.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for bytes that are no such entry.
    pub fn decode_entry(
        &self,
        index: usize,
        key: &[u8],
        value: &[u8],
        show: &mut dyn FnMut(usize, Value),
    ) -> Result<()> {
        let (Some(named), Some(primary)) = (self.indexes.get(index), self.indexes.first()) else {
            return Err(Error::DefinitionChanged);
        };
        let decoded = match index {
            0 => decode_parts(self, primary, key, show),
            _ => {
                let rest = named.primary_of(key, value)?;
                decode_parts(self, named, key, show)
                    .and_then(|()| decode_parts(self, primary, rest, show))
            }
        };
        decoded.ok_or_else(|| Error::Corrupt(format!("an entry of index {}", named.name)))
    }

    /// The ends of the encoded parts in the key of an entry, appended to
    /// `ends`; false where the bytes are no such key.
    pub fn part_ends(&self, index: usize, key: &[u8], ends: &mut Vec<usize>) -> bool {
        let Some(definition) = self.indexes.get(index) else {
            return false;
        };
        let mut rest = key;
        let mut skipped = Vec::new();
        for part in &definition.parts {
            let Some(column) = self.columns.get(part.column) else {
                return false;
            };
            let (ty, nullable) = (&column.ty, column.nullable);
            skipped.clear();
            let taken =
                porpoise_types::take_key_part(ty, nullable, part.desc, &mut rest, &mut skipped);
            if taken.is_none() {
                return false;
            }
            ends.push(key.len() - rest.len());
        }
        true
    }
}
