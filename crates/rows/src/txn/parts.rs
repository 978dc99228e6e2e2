//! Reading and writing the parts of values that lie outside of their rows.
//!
//! Reads show rows first; those whose parts are asked for wait until the
//! parts of a whole batch have come in one engine call, in the same view.
//! Writes put the parts of new values beside the row, in the same transaction,
//! and delete those of values that go (see [`crate::blob`]).
//!
//! Invariants:
//! 1. A batch of rows costs one engine call more, whatever the number of rows,
//!    columns and parts, as long as the values fit [`CHUNK`] bytes together;
//!    then one call a chunk.
//! 2. A value that stays is not written: its head is copied from the old row.
//! 3. In one snapshot, and under the row's lock, every part is there. In a
//!    current read without a lock the row may have changed between the two
//!    calls; then it is read again.

use super::Txn;
use crate::blob::{self, Blob, BlobColumn, HEAD, Outside};
use crate::catalog::Table;
use crate::db::Db;
use crate::row::{RowBuf, RowRef};
use crate::{Error, Result};
use porpoise_kv::{Check, Key, Read, SpaceId, TxnOptions, View};
use porpoise_types::Value;
use smallvec::SmallVec;

/// Bytes of values fetched in one call, unless a single row has more.
pub(crate) const CHUNK: usize = 16 << 20;
/// Attempts at a row that changes while it is read without a lock.
const ATTEMPTS: usize = 16;
/// A row with offsets of four bytes (see [`crate::row`]).
const WIDE: u8 = 1;

/// Which values that lie outside of their rows are fetched with them. Of the
/// others rows show the first [`blob::PREFIX`] bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Blobs<'a> {
    /// All.
    #[default]
    All,
    /// None.
    Prefixes,
    /// So many bytes of these column positions at least, and the start of others.
    Upto(&'a [(usize, usize)]),
    /// Those of these column positions.
    Of(&'a [usize]),
}

/// A column's position and the parts of its value.
type Filled<'a> = (usize, &'a [Vec<u8>]);

impl Blobs<'_> {
    /// How many bytes of a value are wanted.
    fn end(self, column: &BlobColumn<'_>) -> usize {
        let len = column.blob.len();
        match self {
            Blobs::All => len,
            Blobs::Prefixes => 0,
            Blobs::Of(columns) if columns.contains(&column.position) => len,
            Blobs::Of(_) => 0,
            Blobs::Upto(columns) => {
                let found = columns.iter().find(|(p, _)| *p == column.position);
                found.map_or(0, |(_, end)| len.min(*end))
            }
        }
    }

    /// Bytes to be fetched before this row can be shown with the values named.
    pub fn missing(self, row: &RowRef<'_>) -> usize {
        if !row.has_parts() || self == Blobs::Prefixes {
            return 0;
        }
        let lacks = |b: BlobColumn<'_>| self.end(&b).saturating_sub(b.present.len());
        row.blobs().map(lacks).sum()
    }
}

/// A row that waits for its parts.
pub(crate) struct Waiting {
    /// Its number in the caller's batch.
    pub(crate) number: usize,
    /// Its primary key.
    pub(crate) primary: Vec<u8>,
    /// Its bytes; with the parts in place once [`Txn::complete`] is done.
    /// `None`: it is gone meanwhile.
    pub(crate) bytes: Option<Vec<u8>>,
}

/// One value to be put together: row, column, where it starts among the parts.
struct Wanted {
    row: usize,
    position: usize,
    first: usize,
    parts: usize,
}

fn lost(table: &Table) -> Error {
    Error::Corrupt(format!("a part of a value of {}", table.quoted_name()))
}

impl Txn {
    /// Fetches what rows (primary key and row) read without their large values
    /// lack, [`CHUNK`] bytes a call.
    ///
    /// # Errors
    /// The engine's; [`Error::Corrupt`] when a part is not there.
    pub fn complete_rows(
        &mut self,
        table: &Table,
        rows: &mut [(Vec<u8>, RowBuf)],
        blobs: Blobs<'_>,
        read: Read,
    ) -> Result<()> {
        let mut waiting = Vec::new();
        for (number, (primary, row)) in rows.iter().enumerate() {
            if blobs.missing(&row.row(table)?) > 0 {
                waiting.push(Waiting {
                    number,
                    primary: primary.clone(),
                    bytes: Some(row.bytes().to_vec()),
                });
            }
        }
        self.complete(table, waiting, blobs, read, &mut |done| {
            if let (Some((_, row)), Some(bytes)) = (rows.get_mut(done.number), done.bytes) {
                *row = RowBuf::from(bytes);
            }
            Ok(())
        })
    }

    /// Puts the wanted values into rows, [`CHUNK`] bytes of them a call, and
    /// hands each row over in order.
    pub(crate) fn complete(
        &mut self,
        table: &Table,
        mut waiting: Vec<Waiting>,
        blobs: Blobs<'_>,
        read: Read,
        done: &mut dyn FnMut(Waiting) -> Result<()>,
    ) -> Result<()> {
        while !waiting.is_empty() {
            let mut bytes = 0;
            let mut to = 0;
            for row in &waiting {
                if let Some(raw) = &row.bytes {
                    bytes += blobs.missing(&RowRef::new(table, raw)?);
                }
                if to > 0 && bytes > CHUNK {
                    break;
                }
                to += 1;
            }
            let rest = waiting.split_off(to);
            self.complete_chunk(table, &mut waiting, blobs, read)?;
            waiting.drain(..).try_for_each(&mut *done)?;
            waiting = rest;
        }
        Ok(())
    }

    fn complete_chunk(
        &mut self,
        table: &Table,
        chunk: &mut [Waiting],
        blobs: Blobs<'_>,
        read: Read,
    ) -> Result<()> {
        for _ in 0..ATTEMPTS {
            let torn = self.try_complete(table, chunk, blobs, read)?;
            if torn.is_empty() {
                return Ok(());
            }
            if read.view == View::Snapshot {
                return Err(lost(table));
            }
            // The rows have changed since they were read.
            let mut fresh: Vec<(usize, Option<Vec<u8>>)> = Vec::new();
            let keys: Vec<Key<'_>> = torn
                .iter()
                .filter_map(|n| chunk.get(*n))
                .map(|w| Key::new(table.space(0, &w.primary), &w.primary))
                .collect();
            self.kv.get(read, &keys, &mut |n, value| {
                if let Some(row) = torn.get(n) {
                    fresh.push((*row, value.map(<[u8]>::to_vec)));
                }
            })?;
            for (n, bytes) in fresh {
                if let Some(row) = chunk.get_mut(n) {
                    row.bytes = bytes;
                }
            }
        }
        Err(lost(table))
    }

    /// One attempt; the rows (by place in the chunk) of which a part is gone.
    fn try_complete(
        &mut self,
        table: &Table,
        chunk: &mut [Waiting],
        blobs: Blobs<'_>,
        read: Read,
    ) -> Result<Vec<usize>> {
        let mut wanted: Vec<Wanted> = Vec::new();
        let mut keys: Vec<(SpaceId, [u8; blob::PART_KEY])> = Vec::new();
        for (n, row) in chunk.iter().enumerate() {
            let Some(raw) = &row.bytes else { continue };
            let view = RowRef::new(table, raw)?;
            for column in view.blobs() {
                let missing = column
                    .blob
                    .parts_between(column.present.len(), blobs.end(&column));
                if missing.is_empty() {
                    continue;
                }
                let space = table.parts_space(&row.primary).ok_or_else(|| lost(table))?;
                wanted.push(Wanted {
                    row: n,
                    position: column.position,
                    first: keys.len(),
                    parts: missing.len(),
                });
                keys.extend(missing.map(|part| (space, column.blob.key(part))));
            }
        }
        let parts = self.get_parts(&keys, read)?;
        let mut torn = Vec::new();
        for (n, row) in chunk.iter_mut().enumerate() {
            let Some(raw) = &row.bytes else { continue };
            let view = RowRef::new(table, raw)?;
            let mut values: SmallVec<[Filled<'_>; 2]> = SmallVec::new();
            for value in wanted.iter().filter(|w| w.row == n) {
                let parts = parts.get(value.first..value.first + value.parts);
                values.push((value.position, parts.unwrap_or(&[])));
            }
            match filled(&view, &values)? {
                Some(bytes) => row.bytes = Some(bytes),
                None => torn.push(n),
            }
        }
        Ok(torn)
    }

    /// The values of parts, in the order of their keys; those that are not
    /// there are empty.
    fn get_parts(
        &mut self,
        keys: &[(SpaceId, [u8; blob::PART_KEY])],
        read: Read,
    ) -> Result<Vec<Vec<u8>>> {
        let mut parts: Vec<Vec<u8>> = vec![Vec::new(); keys.len()];
        if keys.is_empty() {
            return Ok(parts);
        }
        let requests: Vec<Key<'_>> = keys.iter().map(|(s, k)| Key::new(*s, k)).collect();
        self.kv.get(read, &requests, &mut |n, value| {
            if let (Some(place), Some(value)) = (parts.get_mut(n), value) {
                *place = value.to_vec();
            }
        })?;
        Ok(parts)
    }

    /// Bytes `from..to` of a value that lies outside of its row, without
    /// reading more parts than hold them. Ends beyond the value are cut.
    ///
    /// # Errors
    /// The engine's; [`Error::Corrupt`] when a part is not there.
    pub fn read_blob(
        &mut self,
        table: &Table,
        primary: &[u8],
        column: &BlobColumn<'_>,
        from: usize,
        to: usize,
        read: Read,
    ) -> Result<Vec<u8>> {
        let (blob, have) = (column.blob, column.blob.prefix());
        let to = to.min(blob.len());
        let from = from.min(to);
        if to <= column.present.len() {
            return Ok(column.present.get(from..to).unwrap_or(&[]).to_vec());
        }
        let size = blob.part_bytes();
        let first = from.saturating_sub(have) / size;
        let last = (to - have).div_ceil(size);
        let space = table.parts_space(primary).ok_or_else(|| lost(table))?;
        let numbers = u32::try_from(first).unwrap_or(0)..u32::try_from(last).unwrap_or(0);
        let keys: Vec<_> = numbers.map(|part| (space, blob.key(part))).collect();
        let mut bytes = Vec::with_capacity(to - from);
        bytes.extend_from_slice(column.present.get(from.min(have)..).unwrap_or(&[]));
        let mut start = have + first * size;
        for part in self.get_parts(&keys, read)? {
            if part.is_empty() {
                return Err(lost(table));
            }
            let skip = from.saturating_sub(start);
            start += part.len();
            bytes.extend_from_slice(part.get(skip..).unwrap_or(&[]));
        }
        bytes.truncate(to - from);
        Ok(bytes)
    }

    /// Puts the values of a new row that leave it; their heads.
    pub(crate) fn put_outside(
        &mut self,
        table: &Table,
        primary: &[u8],
        values: &[Value],
    ) -> Result<Outside> {
        self.put_changed(table, primary, None, values)
    }

    /// As [`Txn::put_outside`] for a row that replaces another (its primary
    /// key and bytes given): values that stay keep their parts, parts of those
    /// that go are deleted, those of a row that moves to another partition
    /// move along.
    pub(crate) fn put_changed(
        &mut self,
        table: &Table,
        primary: &[u8],
        old: Option<(&[u8], RowRef<'_>)>,
        values: &[Value],
    ) -> Result<Outside> {
        let mut outside = Outside::new();
        let had = old.is_some_and(|(_, row)| row.has_parts());
        let leaving = blob::leaving(table, values);
        if !had && leaving.is_empty() {
            return Ok(outside);
        }
        let Some(space) = table.parts_space(primary) else {
            return Ok(outside);
        };
        let mut kept: SmallVec<[usize; 2]> = SmallVec::new();
        if let Some((old_primary, old)) = old {
            let old_space = table.parts_space(old_primary).unwrap_or(space);
            for column in old.blobs() {
                let same = matches!(values.get(column.position),
                    Some(Value::Bytes(new)) if new.as_slice() == column.present);
                if !same {
                    self.delete_parts(old_space, &old, column.position)?;
                    continue;
                }
                kept.push(column.position);
                outside.push((column.position, column.blob));
                if old_space != space {
                    self.move_parts(table, old_space, space, &old, column.position)?;
                }
            }
        }
        for position in leaving {
            if kept.contains(&position) {
                continue;
            }
            let Some(Value::Bytes(value)) = values.get(position) else {
                continue;
            };
            let blob = self.db.new_blob(table, position, value)?;
            for (key, part) in blob.split_parts(value) {
                self.kv.put(Key::new(space, &key), part, Check::Blind)?;
            }
            outside.push((position, blob));
        }
        Ok(outside)
    }

    /// Deletes all parts of a row that goes.
    pub(crate) fn delete_outside(
        &mut self,
        table: &Table,
        primary: &[u8],
        old: &RowRef<'_>,
    ) -> Result<()> {
        if !old.has_parts() {
            return Ok(());
        }
        let Some(space) = table.parts_space(primary) else {
            return Ok(());
        };
        for column in old.blobs() {
            self.delete_parts(space, old, column.position)?;
        }
        Ok(())
    }

    fn delete_parts(&mut self, space: SpaceId, old: &RowRef<'_>, position: usize) -> Result<()> {
        let Some(BlobColumn { blob, .. }) = old.blob(position) else {
            return Ok(());
        };
        for number in 0..blob.parts() {
            let key = blob.key(number);
            self.kv.delete(Key::new(space, &key), Check::Blind)?;
        }
        Ok(())
    }

    fn move_parts(
        &mut self,
        table: &Table,
        from: SpaceId,
        to: SpaceId,
        old: &RowRef<'_>,
        position: usize,
    ) -> Result<()> {
        let Some(BlobColumn { blob, .. }) = old.blob(position) else {
            return Ok(());
        };
        let keys: Vec<_> = (0..blob.parts()).map(|n| (from, blob.key(n))).collect();
        let values = self.get_parts(&keys, Read::CURRENT)?;
        for ((_, key), value) in keys.iter().zip(values) {
            if value.is_empty() {
                return Err(lost(table));
            }
            self.kv.delete(Key::new(from, key), Check::Blind)?;
            self.kv.put(Key::new(to, key), &value, Check::Blind)?;
        }
        Ok(())
    }
}

/// Parts about to be written: space, key, bytes.
pub(crate) type NewParts = Vec<(SpaceId, Vec<u8>, Vec<u8>)>;

impl Db {
    /// The head of a new value outside of its row.
    fn new_blob(&self, table: &Table, position: usize, value: &[u8]) -> Result<Blob> {
        Ok(Blob::new(
            self.blobs.next(self.engine().as_ref())?,
            u32::try_from(value.len()).map_err(|_| too_big(value.len()))?,
            blob::chars(table, position, value),
            blob::prefix_len(table, position, value),
        ))
    }

    /// What a new row of these values keeps outside, and its parts.
    pub(crate) fn outside_parts(
        &self,
        table: &Table,
        primary: &[u8],
        values: &[Value],
    ) -> Result<(Outside, NewParts)> {
        let (mut outside, mut parts) = (Outside::new(), NewParts::new());
        let Some(space) = table.parts_space(primary) else {
            return Ok((outside, parts));
        };
        for position in blob::leaving(table, values) {
            let Some(Value::Bytes(value)) = values.get(position) else {
                continue;
            };
            let blob = self.new_blob(table, position, value)?;
            let new = blob.split_parts(value);
            parts.extend(new.map(|(key, part)| (space, key.to_vec(), part.to_vec())));
            outside.push((position, blob));
        }
        Ok((outside, parts))
    }

    /// A committed row with all its values in it; `None` when it is so as it
    /// lies. For definitions, which keep writers away.
    pub(crate) fn whole_row(
        &self,
        table: &Table,
        primary: &[u8],
        bytes: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let row = RowRef::new(table, bytes)?;
        if Blobs::All.missing(&row) == 0 {
            return Ok(None);
        }
        let space = table.parts_space(primary).ok_or_else(|| lost(table))?;
        let mut txn = self.engine().begin(TxnOptions::default())?;
        let mut found: Vec<(usize, Vec<Vec<u8>>)> = Vec::new();
        for column in row.blobs() {
            let keys: Vec<_> = (0..column.blob.parts())
                .map(|n| column.blob.key(n))
                .collect();
            let requests: Vec<Key<'_>> = keys.iter().map(|k| Key::new(space, k)).collect();
            let mut parts: Vec<Vec<u8>> = vec![Vec::new(); keys.len()];
            txn.get(Read::CURRENT, &requests, &mut |n, value| {
                if let (Some(place), Some(value)) = (parts.get_mut(n), value) {
                    *place = value.to_vec();
                }
            })?;
            found.push((column.position, parts));
        }
        txn.rollback();
        let values: Vec<(usize, &[Vec<u8>])> = found
            .iter()
            .map(|(p, parts)| (*p, parts.as_slice()))
            .collect();
        filled(&row, &values)?.map(Some).ok_or_else(|| lost(table))
    }
}

fn too_big(size: usize) -> Error {
    Error::RowTooBig {
        size,
        limit: u32::MAX as usize,
    }
}

/// The row with values put together; `None` when their parts do not make them.
fn filled(row: &RowRef<'_>, values: &[(usize, &[Vec<u8>])]) -> Result<Option<Vec<u8>>> {
    let extra: usize = values
        .iter()
        .flat_map(|(_, parts)| parts.iter().map(Vec::len))
        .sum();
    let size = row.bytes().len() + extra + row.variables() * 2;
    if u32::try_from(size).is_err() {
        return Err(too_big(size));
    }
    let mut out = Vec::with_capacity(size);
    out.extend_from_slice(row.head_bytes());
    if let Some(first) = out.first_mut() {
        *first |= WIDE;
    }
    let parts_of = |number: usize| -> &[Vec<u8>] {
        let position = row.variable_position(number);
        let found = values.iter().find(|(p, _)| Some(*p) == position);
        found.map_or(&[], |(_, parts)| parts)
    };
    let mut end = 0usize;
    for number in 0..row.variables() {
        let data = row.variable_data(number);
        let parts = parts_of(number);
        let len = data.len() + parts.iter().map(Vec::len).sum::<usize>();
        if !parts.is_empty() {
            let right = Blob::split(data).is_some_and(|(blob, present)| {
                let all = present.len() + parts.len() * blob.part_bytes();
                len - HEAD == blob.len().min(all)
            });
            if !right || parts.iter().any(Vec::is_empty) {
                return Ok(None);
            }
        }
        end += len;
        out.extend_from_slice(&u32::try_from(end).unwrap_or(u32::MAX).to_le_bytes());
    }
    for number in 0..row.variables() {
        out.extend_from_slice(row.variable_data(number));
        for part in parts_of(number) {
            out.extend_from_slice(part);
        }
    }
    Ok(Some(out))
}
