//! Chunked values: containers with a `large_values_table`.
//!
//! A value that fits the value column is stored there. A longer one is split into chunks, which are
//! rows (`id`, `part`, `content`) of a second table; the row itself then has NULL in the value
//! column, the chunks' id in `ext_id` and the value's length in `ext_size`. NDB's memcached has the
//! same layout, so its tables can be used as they are.
//!
//! Invariants:
//! 1. This protocol writes and removes chunks in the transaction of their row. SQL that deletes a
//!    row leaves its chunks behind, as with NDB, and has to delete them itself.
//! 2. A value is returned only if its chunks have exactly `ext_size` bytes together.
//! 3. Chunks of all rows of a request are read in one batch of ranges.

use crate::container::convert::Conversion;
use crate::container::{Container, Stored, refused};
use porpoise_kv::Read;
use porpoise_rows::catalog::Table;
use porpoise_rows::{
    AutoIncOptions, DeleteOutcome, Error, InsertMode, KeyRange, Result, RowBuf, RowRef,
    ScanPosition, ScanSpec, Txn,
};
use porpoise_types::{Value, ValueRef};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// The table of a container's chunked values.
#[derive(Clone, Debug)]
pub struct ChunkedValues {
    /// The table of chunks.
    pub(crate) table: Arc<Table>,
    /// Position of its column `id`: the id of the value.
    pub(crate) id: usize,
    /// Position of its column `part`: the number of the chunk, from 0.
    pub(crate) part: usize,
    /// Position of its column `content`: the bytes of the chunk.
    pub(crate) content: usize,
    /// Position of `ext_id` in the container's table.
    pub(crate) ext_id: usize,
    /// Position of `ext_size` in the container's table.
    pub(crate) ext_size: usize,
    /// Maximum length of a value stored in the row, in bytes.
    pub(crate) max_inline: usize,
    /// Size of a chunk in bytes.
    pub(crate) part_size: usize,
}

fn number(value: ValueRef<'_>) -> Option<u64> {
    match value {
        ValueRef::UInt(n) => Some(n),
        ValueRef::Int(n) => u64::try_from(n).ok(),
        _ => None,
    }
}

/// Returns `n` as a value of an integer column, which may be signed or unsigned.
fn integer(table: &Table, column: usize, n: u64) -> Value {
    let unsigned = table.columns.get(column).is_some_and(|c| c.ty.unsigned);
    if unsigned {
        Value::UInt(n)
    } else {
        Value::Int(i64::try_from(n).unwrap_or(i64::MAX))
    }
}

impl ChunkedValues {
    /// Returns the chunks' id and the value's length, if the row's value is chunked.
    pub(crate) fn reference(&self, row: &RowRef<'_>) -> Option<(u64, u64)> {
        Some((
            number(row.get(self.ext_id))?,
            number(row.get(self.ext_size))?,
        ))
    }

    /// The range of the keys of a value's chunks.
    fn key_range(&self, id: u64) -> KeyRange {
        let id = integer(&self.table, self.id, id);
        KeyRange::prefix(self.table.key_prefix(0, &[id.as_ref()]))
    }

    /// Reads the chunks of the values with these ids: primary key and row of each.
    fn chunks(&self, txn: &mut Txn, ids: &[u64], read: Read) -> Result<Vec<(Vec<u8>, RowBuf)>> {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        ids.dedup();
        let spec = ScanSpec {
            index: 0,
            ranges: ids.iter().map(|id| self.key_range(*id)).collect(),
            reverse: false,
            entries_only: false,
        };
        let mut found = Vec::new();
        let mut position = ScanPosition::default();
        let table = &self.table;
        while txn.scan(table, &spec, read, &mut position, 1000, &mut |key, row| {
            found.push((key.to_vec(), row.to_buf()));
        })? {}
        Ok(found)
    }

    /// Deletes the chunks of a value.
    ///
    /// # Errors
    /// The errors of deleting rows.
    pub(crate) fn remove(&self, txn: &mut Txn, id: u64) -> Result<()> {
        let chunks = self.chunks(txn, &[id], Read::CURRENT)?;
        if chunks.is_empty() {
            return Ok(());
        }
        let keys: Vec<&[u8]> = chunks.iter().map(|(key, _)| key.as_slice()).collect();
        let table = &self.table;
        let locked = txn.lock_present(table, &keys, |_| true)?;
        txn.delete(table, locked)?;
        Ok(())
    }

    /// Stores a value in `row` of `container_table`: in `column`, or as chunks with a new id.
    ///
    /// # Errors
    /// The errors of inserting rows.
    pub(crate) fn put(
        &self,
        txn: &mut Txn,
        container_table: &Table,
        row: &mut [Value],
        column: usize,
        value: &[u8],
    ) -> Result<()> {
        let mut set = |position: usize, value: Value| {
            if let Some(slot) = row.get_mut(position) {
                *slot = value;
            }
        };
        if value.len() <= self.max_inline {
            set(column, Value::Bytes(value.to_vec()));
            set(self.ext_id, Value::Null);
            set(self.ext_size, Value::Null);
            return Ok(());
        }
        let table = &self.table;
        // A row that is not inserted reserves the id.
        let mut id_rows = vec![vec![Value::Null; table.columns.len()]];
        txn.assign_auto_increment(table, &mut id_rows, AutoIncOptions::default())?;
        let id = id_rows.first().and_then(|r| r.get(self.id)).cloned();
        let id = id.unwrap_or_default();
        let ext_id = number(id.as_ref()).ok_or_else(|| {
            refused(format!(
                "Table {} has no AUTO_INCREMENT id for the chunks of large values",
                table.quoted_name()
            ))
        })?;
        let mut rows = Vec::new();
        for (n, content) in value.chunks(self.part_size.max(1)).enumerate() {
            let mut part = vec![Value::Null; table.columns.len()];
            for (position, value) in [
                (self.id, id.clone()),
                (self.part, integer(table, self.part, n as u64)),
                (self.content, Value::Bytes(content.to_vec())),
            ] {
                if let Some(slot) = part.get_mut(position) {
                    *slot = value;
                }
            }
            rows.push(part);
        }
        txn.insert(table, rows, InsertMode::Plain)?;
        set(column, Value::Null);
        set(self.ext_id, integer(container_table, self.ext_id, ext_id));
        set(
            self.ext_size,
            integer(container_table, self.ext_size, value.len() as u64),
        );
        Ok(())
    }
}

/// Reads the chunked values of `rows`. The result has an entry for each row, `None` if its value is
/// not chunked or chunks are missing; it is empty if no row has a chunked value.
///
/// # Errors
/// The errors of reading.
pub(crate) fn values<'r>(
    container: &Container,
    txn: &mut Txn,
    rows: impl IntoIterator<Item = &'r RowBuf>,
    read: Read,
) -> Result<Vec<Option<Vec<u8>>>> {
    let Some(large) = container.chunked_values() else {
        return Ok(Vec::new());
    };
    // Id and length of each row's value.
    let mut references: Vec<Option<(u64, u64)>> = Vec::new();
    for row in rows {
        references.push(large.reference(&row.row(&container.table)?));
    }
    let ids: Vec<u64> = references.iter().flatten().map(|(id, _)| *id).collect();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut joined: HashMap<u64, Vec<u8>> = HashMap::new();
    for (_, chunk) in large.chunks(txn, &ids, read)? {
        let row = chunk.row(&large.table)?;
        if let (Some(id), ValueRef::Bytes(content)) =
            (number(row.get(large.id)), row.get(large.content))
        {
            joined.entry(id).or_default().extend_from_slice(content);
        }
    }
    let value = |reference: &Option<(u64, u64)>| {
        let (id, size) = (*reference)?;
        let value = joined.get(&id)?;
        (value.len() as u64 == size).then(|| value.clone())
    };
    Ok(references.iter().map(value).collect())
}

/// Reads the value of one locked row, if it is chunked.
///
/// # Errors
/// [`Error::Corrupt`] if chunks are missing; errors of reading.
pub(crate) fn value(
    container: &Container,
    txn: &mut Txn,
    row: &RowRef<'_>,
) -> Result<Option<Vec<u8>>> {
    let Some((large, _)) = container
        .chunked_values()
        .and_then(|large| Some((large, large.reference(row)?)))
    else {
        return Ok(None);
    };
    let found = values(container, txn, [&row.to_buf()], Read::CURRENT)?;
    match found.into_iter().next().flatten() {
        Some(value) => Ok(Some(value)),
        None => Err(Error::Corrupt(format!(
            "table {}: chunks of a value are missing",
            large.table.quoted_name()
        ))),
    }
}

/// Returns the value of a locked row as text, chunked or not.
///
/// # Errors
/// As [`value`].
pub(crate) fn text<'a>(
    container: &Container,
    txn: &mut Txn,
    row: &RowRef<'a>,
    scratch: &'a mut Vec<u8>,
) -> Result<Cow<'a, [u8]>> {
    Ok(match value(container, txn, row)? {
        Some(value) => Cow::Owned(value),
        None => Cow::Borrowed(container.value_of(row, scratch)),
    })
}

/// Stores the values of a storage command in a row, as [`Container::apply`] does. A value that is
/// too long for its column is stored as chunks, and the chunks of the old value are deleted.
///
/// # Errors
/// A value does not fit; those of writing rows.
pub(crate) fn apply(
    container: &Container,
    txn: &mut Txn,
    row: &mut [Value],
    what: Stored<'_>,
    version: u64,
    convert: &mut Conversion,
) -> Result<()> {
    let (Some(large), [column]) = (container.chunked_values(), container.values.as_slice()) else {
        return container.apply(row, what, version, convert);
    };
    if let Some(old) = row.get(large.ext_id).and_then(|v| number(v.as_ref())) {
        large.remove(txn, old)?;
    }
    let value = what.value;
    container.apply(row, Stored { value: &[], ..what }, version, convert)?;
    large.put(txn, &container.table, row, *column, value)
}

/// Deletes locked rows of a container (primary key and row of each) with all chunks of their values.
///
/// # Errors
/// The errors of deleting rows.
pub(crate) fn delete(
    container: &Container,
    txn: &mut Txn,
    rows: Vec<(Vec<u8>, RowBuf)>,
) -> Result<DeleteOutcome> {
    let mut ids = Vec::new();
    if let Some(large) = container.chunked_values() {
        for (_, row) in &rows {
            let reference = large.reference(&row.row(&container.table)?);
            ids.extend(reference.map(|(id, _)| id));
        }
    }
    let outcome = txn.delete(&container.table, rows)?;
    if let Some(large) = container.chunked_values() {
        for id in ids {
            large.remove(txn, id)?;
        }
    }
    Ok(outcome)
}
