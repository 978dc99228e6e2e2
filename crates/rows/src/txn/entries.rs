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
//! 2. [`Table::columns_in_entries`] names exactly the columns that an
//!    [`crate::EntryReader`] of all columns reads.

use super::Txn;
use super::scan::{ScanPosition, ScanSpec, spaces_of};
use crate::Result;
use crate::definition::IndexPart;
use crate::table::Table;
use porpoise_kv::{Read, ScanVisitor};
use porpoise_types::is_decodable;

/// A visitor of entries: a number that says nothing, key and value as they are
/// stored; a break ends the call. It is the engine's own, so that nothing
/// stands between the two.
pub type EntryVisitor<'v> = ScanVisitor<'v>;

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
        self.walk(spec, &spaces, read, position, limit.max(1), visit)?;
        Ok(!position.done())
    }
}

fn readable(table: &Table, part: &IndexPart) -> bool {
    let column = table.columns.get(part.column);
    part.prefix.is_none() && column.is_some_and(|c| is_decodable(&c.ty))
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
