//! Overflow values: reading and writing the chunks of large values.
//!
//! [`crate::row::overflow`] has the part that is stored in the row. The rest is stored in chunks,
//! one key each, in the overflow space of the row's partition.
//!
//! Reads process rows first. Rows whose overflow values are needed wait until the chunks of a whole
//! batch were read in one engine call, at the same snapshot.
//!
//! Invariants:
//! 1. A batch of rows costs one additional engine call, whatever the number of rows, columns and
//!    chunks, as long as the values fit [`FETCH_BYTES`] together; otherwise one call per that many
//!    bytes.
//! 2. In one snapshot, and under the row's lock, every chunk exists. In a current read without a
//!    lock the row may change between the two calls; then it is read again.
//! 3. Chunks are written and deleted in the transaction that writes the row. An unchanged value is
//!    not written: its head is copied from the old row, and its chunks move only if the row changes
//!    its partition.

use crate::db::Db;
use crate::error::{Error, Result};
use crate::row::overflow::{
    self as format, CHUNK_KEY_BYTES, FetchedColumn, OverflowColumn, OverflowHead, OverflowHeads,
};
use crate::row::{RowRef, too_big};
use crate::table::Table;
use porpoise_kv::{self as kv, Check, Key, Read, ReadMode, SpaceId, TxnOptions};
use porpoise_types::Value;
use smallvec::SmallVec;

/// Bytes of values fetched in one call, unless a single row has more.
pub(crate) const FETCH_BYTES: usize = 16 << 20;
/// Attempts at a row that changes while it is read without a lock.
const MAX_ATTEMPTS: usize = 16;

/// Overflow values to be fetched with rows. Rows contain only the first [`format::PREFIX`] bytes of
/// others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OverflowFetch<'a> {
    /// All.
    #[default]
    All,
    /// None.
    Prefixes,
    /// At least a number of bytes of each of these column positions, and the prefix of others.
    UpTo(&'a [(usize, usize)]),
    /// The values of these column positions.
    Of(&'a [usize]),
}

/// Space and key of a chunk.
pub(crate) type ChunkKey = (SpaceId, [u8; CHUNK_KEY_BYTES]);

impl OverflowFetch<'_> {
    /// Number of bytes wanted of a value.
    fn end(self, column: &OverflowColumn<'_>) -> usize {
        let len = column.head.len();
        match self {
            OverflowFetch::All => len,
            OverflowFetch::Prefixes => 0,
            OverflowFetch::Of(columns) if columns.contains(&column.position) => len,
            OverflowFetch::Of(_) => 0,
            OverflowFetch::UpTo(columns) => {
                let found = columns.iter().find(|(p, _)| *p == column.position);
                found.map_or(0, |(_, end)| len.min(*end))
            }
        }
    }

    /// Number of bytes to be fetched before this row has the requested values.
    pub fn missing(self, row: &RowRef<'_>) -> usize {
        if !row.has_overflow() || self == OverflowFetch::Prefixes {
            return 0;
        }
        let lacks = |c: OverflowColumn<'_>| self.end(&c).saturating_sub(c.present.len());
        row.overflow_columns().map(lacks).sum()
    }
}

/// A row that waits for its overflow values.
pub(crate) struct IncompleteRow {
    /// Its number in the caller's batch.
    pub(crate) number: usize,
    /// Its primary key.
    pub(crate) primary: Vec<u8>,
    /// Its bytes, which contain the values after [`complete`]. `None` if the row was deleted
    /// meanwhile.
    pub(crate) bytes: Option<Vec<u8>>,
}

impl IncompleteRow {
    /// Copies a row whose overflow values have not been fetched.
    pub(crate) fn new(number: usize, primary: &[u8], bytes: &[u8]) -> IncompleteRow {
        IncompleteRow {
            number,
            primary: primary.to_vec(),
            bytes: Some(bytes.to_vec()),
        }
    }
}

/// A value to be assembled: its row, its column, and the range of its chunks among those fetched.
struct RequestedValue {
    row: usize,
    position: usize,
    first: usize,
    chunks: usize,
}

/// Returns the error for a missing chunk.
pub(crate) fn missing_chunk(table: &Table) -> Error {
    Error::Corrupt(format!("a part of a value of {}", table.quoted_name()))
}

/// Reads chunks in the order of their keys, in one engine call, or none for an empty list. Missing
/// chunks are empty.
pub(crate) fn read_chunks(
    txn: &mut dyn kv::Txn,
    keys: &[ChunkKey],
    read: Read,
) -> Result<Vec<Vec<u8>>> {
    let mut chunks: Vec<Vec<u8>> = vec![Vec::new(); keys.len()];
    if keys.is_empty() {
        return Ok(chunks);
    }
    let requests: Vec<Key<'_>> = keys.iter().map(|(s, k)| Key::new(*s, k)).collect();
    txn.get(read, &requests, &mut |n, value| {
        if let (Some(place), Some(value)) = (chunks.get_mut(n), value) {
            *place = value.to_vec();
        }
    })?;
    Ok(chunks)
}

/// Makes one attempt at a batch. Returns the positions of rows of which a chunk is missing.
fn try_complete(
    txn: &mut dyn kv::Txn,
    table: &Table,
    batch: &mut [IncompleteRow],
    fetch: OverflowFetch<'_>,
    read: Read,
) -> Result<Vec<usize>> {
    let mut wanted: Vec<RequestedValue> = Vec::new();
    let mut keys: Vec<ChunkKey> = Vec::new();
    for (n, row) in batch.iter().enumerate() {
        let Some(bytes) = &row.bytes else { continue };
        for column in RowRef::new(table, bytes)?.overflow_columns() {
            let end = fetch.end(&column);
            let missing = column.head.chunks_between(column.present.len(), end);
            if missing.is_empty() {
                continue;
            }
            let space = table.overflow_space(&row.primary);
            let space = space.ok_or_else(|| missing_chunk(table))?;
            wanted.push(RequestedValue {
                row: n,
                position: column.position,
                first: keys.len(),
                chunks: missing.len(),
            });
            keys.extend(missing.map(|number| (space, column.head.chunk_key(number))));
        }
    }
    let chunks = read_chunks(txn, &keys, read)?;
    let mut torn = Vec::new();
    for (n, row) in batch.iter_mut().enumerate() {
        let Some(bytes) = &row.bytes else { continue };
        let mut values: SmallVec<[FetchedColumn<'_>; 2]> = SmallVec::new();
        for value in wanted.iter().filter(|w| w.row == n) {
            let own = chunks.get(value.first..value.first + value.chunks);
            values.push((value.position, own.unwrap_or(&[])));
        }
        match format::with_values(&RowRef::new(table, bytes)?, &values)? {
            Some(whole) => row.bytes = Some(whole),
            None => torn.push(n),
        }
    }
    Ok(torn)
}

/// Inserts the wanted values into rows, [`FETCH_BYTES`] of them per call, and passes each row on in
/// order.
pub(crate) fn complete(
    txn: &mut dyn kv::Txn,
    table: &Table,
    mut rows: Vec<IncompleteRow>,
    fetch: OverflowFetch<'_>,
    read: Read,
    done: &mut dyn FnMut(IncompleteRow) -> Result<()>,
) -> Result<()> {
    while !rows.is_empty() {
        let mut bytes = 0;
        let mut to = 0;
        for row in &rows {
            if let Some(raw) = &row.bytes {
                bytes += fetch.missing(&RowRef::new(table, raw)?);
            }
            if to > 0 && bytes > FETCH_BYTES {
                break;
            }
            to += 1;
        }
        let rest = rows.split_off(to);
        complete_batch(txn, table, &mut rows, fetch, read)?;
        rows.drain(..).try_for_each(&mut *done)?;
        rows = rest;
    }
    Ok(())
}

fn complete_batch(
    txn: &mut dyn kv::Txn,
    table: &Table,
    batch: &mut [IncompleteRow],
    fetch: OverflowFetch<'_>,
    read: Read,
) -> Result<()> {
    for _ in 0..MAX_ATTEMPTS {
        let torn = try_complete(txn, table, batch, fetch, read)?;
        if torn.is_empty() {
            return Ok(());
        }
        if read.mode == ReadMode::Snapshot {
            return Err(missing_chunk(table));
        }
        // The rows have changed since they were read.
        let mut fresh: Vec<(usize, Option<Vec<u8>>)> = Vec::new();
        let keys: Vec<Key<'_>> = torn
            .iter()
            .filter_map(|n| batch.get(*n))
            .map(|row| Key::new(table.space(0, &row.primary), &row.primary))
            .collect();
        txn.get(read, &keys, &mut |n, value| {
            if let Some(row) = torn.get(n) {
                fresh.push((*row, value.map(<[u8]>::to_vec)));
            }
        })?;
        for (n, bytes) in fresh {
            if let Some(row) = batch.get_mut(n) {
                row.bytes = bytes;
            }
        }
    }
    Err(missing_chunk(table))
}

/// Writes the chunks of a new row's overflow values. Returns their heads.
pub(crate) fn write_new(
    db: &Db,
    txn: &mut dyn kv::Txn,
    table: &Table,
    primary: &[u8],
    values: &[Value],
) -> Result<OverflowHeads> {
    write_changed(db, txn, table, primary, None, values)
}

/// As [`write_new`], for a row that replaces another (given by primary key and bytes): unchanged
/// values keep their chunks, chunks of replaced values are deleted, and chunks of a row that
/// changes its partition are moved.
pub(crate) fn write_changed(
    db: &Db,
    txn: &mut dyn kv::Txn,
    table: &Table,
    primary: &[u8],
    old: Option<(&[u8], RowRef<'_>)>,
    values: &[Value],
) -> Result<OverflowHeads> {
    let mut heads = OverflowHeads::new();
    let had = old.is_some_and(|(_, row)| row.has_overflow());
    let overflowing = format::overflowing_columns(table, values);
    if !had && overflowing.is_empty() {
        return Ok(heads);
    }
    let Some(space) = table.overflow_space(primary) else {
        return Ok(heads);
    };
    let mut kept: SmallVec<[usize; 2]> = SmallVec::new();
    if let Some((old_primary, old)) = old {
        let old_space = table.overflow_space(old_primary).unwrap_or(space);
        for column in old.overflow_columns() {
            let same = matches!(values.get(column.position),
                Some(Value::Bytes(new)) if new.as_slice() == column.present);
            if !same {
                delete_chunks(txn, old_space, &column.head)?;
                continue;
            }
            kept.push(column.position);
            heads.push((column.position, column.head));
            if old_space != space {
                move_chunks(txn, table, old_space, space, &column.head)?;
            }
        }
    }
    for position in overflowing {
        if kept.contains(&position) {
            continue;
        }
        let Some(Value::Bytes(value)) = values.get(position) else {
            continue;
        };
        let head = new_head(db, table, position, value)?;
        for (key, chunk) in head.split_chunks(value) {
            txn.put(Key::new(space, &key), chunk, Check::Blind)?;
        }
        heads.push((position, head));
    }
    Ok(heads)
}

/// Deletes all chunks of a row that is deleted.
pub(crate) fn delete(
    txn: &mut dyn kv::Txn,
    table: &Table,
    primary: &[u8],
    old: &RowRef<'_>,
) -> Result<()> {
    if !old.has_overflow() {
        return Ok(());
    }
    let Some(space) = table.overflow_space(primary) else {
        return Ok(());
    };
    let mut columns = old.overflow_columns();
    columns.try_for_each(|column| delete_chunks(txn, space, &column.head))
}

fn delete_chunks(txn: &mut dyn kv::Txn, space: SpaceId, head: &OverflowHead) -> Result<()> {
    for number in 0..head.chunks() {
        txn.delete(Key::new(space, &head.chunk_key(number)), Check::Blind)?;
    }
    Ok(())
}

fn move_chunks(
    txn: &mut dyn kv::Txn,
    table: &Table,
    from: SpaceId,
    to: SpaceId,
    head: &OverflowHead,
) -> Result<()> {
    let keys: Vec<ChunkKey> = (0..head.chunks())
        .map(|n| (from, head.chunk_key(n)))
        .collect();
    let chunks = read_chunks(txn, &keys, Read::CURRENT)?;
    for ((_, key), chunk) in keys.iter().zip(chunks) {
        if chunk.is_empty() {
            return Err(missing_chunk(table));
        }
        txn.delete(Key::new(from, key), Check::Blind)?;
        txn.put(Key::new(to, key), &chunk, Check::Blind)?;
    }
    Ok(())
}

/// The head of a new overflow value.
fn new_head(db: &Db, table: &Table, position: usize, value: &[u8]) -> Result<OverflowHead> {
    Ok(OverflowHead::new(
        db.overflow_ids.next(db.engine().as_ref())?,
        u32::try_from(value.len()).map_err(|_| too_big(value.len()))?,
        format::chars(table, position, value),
        format::prefix_len(table, position, value),
    ))
}

/// Chunks to be written: space, key, bytes.
pub(crate) type NewChunks = Vec<(SpaceId, Vec<u8>, Vec<u8>)>;

/// Returns the heads and chunks of a new row's overflow values, for DDL that copies rows.
pub(crate) fn new_chunks(
    db: &Db,
    table: &Table,
    primary: &[u8],
    values: &[Value],
) -> Result<(OverflowHeads, NewChunks)> {
    let (mut heads, mut chunks) = (OverflowHeads::new(), NewChunks::new());
    let Some(space) = table.overflow_space(primary) else {
        return Ok((heads, chunks));
    };
    for position in format::overflowing_columns(table, values) {
        let Some(Value::Bytes(value)) = values.get(position) else {
            continue;
        };
        let head = new_head(db, table, position, value)?;
        let new = head.split_chunks(value);
        chunks.extend(new.map(|(key, chunk)| (space, key.to_vec(), chunk.to_vec())));
        heads.push((position, head));
    }
    Ok((heads, chunks))
}

/// Returns a committed row with its complete values; `None` if it has no overflow values. For DDL,
/// which excludes writers.
pub(crate) fn read_complete_row(
    db: &Db,
    table: &Table,
    primary: &[u8],
    bytes: &[u8],
) -> Result<Option<Vec<u8>>> {
    let mut txn = db.engine().begin(TxnOptions::default())?;
    let whole = complete_row(txn.as_mut(), Read::CURRENT, table, primary, bytes);
    txn.rollback();
    whole
}

/// Returns a row with its complete values, in the state that the transaction reads; `None` if it
/// has no overflow values.
///
/// # Errors
/// The engine's; [`crate::Error::Corrupt`] when chunks are missing.
pub(crate) fn complete_row(
    txn: &mut dyn kv::Txn,
    read: Read,
    table: &Table,
    primary: &[u8],
    bytes: &[u8],
) -> Result<Option<Vec<u8>>> {
    if OverflowFetch::All.missing(&RowRef::new(table, bytes)?) == 0 {
        return Ok(None);
    }
    let mut rows = [IncompleteRow::new(0, primary, bytes)];
    let torn = try_complete(txn, table, &mut rows, OverflowFetch::All, read)?;
    let [row] = rows;
    if torn.is_empty() {
        Ok(row.bytes)
    } else {
        Err(missing_chunk(table))
    }
}
