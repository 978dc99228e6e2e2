//! Reading the parts of values that lie outside of their rows
//! ([`super::outside`] writes them).
//!
//! Reads show rows first; those whose parts are asked for wait until the
//! parts of a whole batch have come in one engine call, in the same view.
//!
//! Invariants:
//! 1. A batch of rows costs one engine call more, whatever the number of rows,
//!    columns and parts, as long as the values fit [`CHUNK`] bytes together;
//!    then one call a chunk.
//! 2. In one snapshot, and under the row's lock, every part is there. In a
//!    current read without a lock the row may have changed between the two
//!    calls; then it is read again.

use super::Txn;
use crate::blob::{self, BlobColumn};
use crate::db::Db;
use crate::row::{Filled, RowBuf, RowRef, filled};
use crate::table::Table;
use crate::{Error, Result};
use porpoise_kv::{self as kv, Key, Read, ReadMode, SpaceId, TxnOptions};
use smallvec::SmallVec;

/// Bytes of values fetched in one call, unless a single row has more.
pub(crate) const CHUNK: usize = 16 << 20;
/// Attempts at a row that changes while it is read without a lock.
const ATTEMPTS: usize = 16;

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

/// Where a part lies.
pub(crate) type PartPlace = (SpaceId, [u8; blob::PART_KEY]);

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

/// A part that must be there is not.
pub(crate) fn lost(table: &Table) -> Error {
    Error::Corrupt(format!("a part of a value of {}", table.quoted_name()))
}

/// The values of parts, in the order of their places, by one engine call (none
/// where there are none); of those that are not there nothing.
pub(crate) fn get_parts(
    txn: &mut dyn kv::Txn,
    places: &[PartPlace],
    read: Read,
) -> Result<Vec<Vec<u8>>> {
    let mut parts: Vec<Vec<u8>> = vec![Vec::new(); places.len()];
    if places.is_empty() {
        return Ok(parts);
    }
    let requests: Vec<Key<'_>> = places.iter().map(|(s, k)| Key::new(*s, k)).collect();
    txn.get(read, &requests, &mut |n, value| {
        if let (Some(place), Some(value)) = (parts.get_mut(n), value) {
            *place = value.to_vec();
        }
    })?;
    Ok(parts)
}

/// One attempt; the rows (by place in the chunk) of which a part is gone.
fn try_complete(
    txn: &mut dyn kv::Txn,
    table: &Table,
    chunk: &mut [Waiting],
    blobs: Blobs<'_>,
    read: Read,
) -> Result<Vec<usize>> {
    let mut wanted: Vec<Wanted> = Vec::new();
    let mut keys: Vec<PartPlace> = Vec::new();
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
    let parts = get_parts(txn, &keys, read)?;
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
            let torn = try_complete(self.kv.as_mut(), table, chunk, blobs, read)?;
            if torn.is_empty() {
                return Ok(());
            }
            if read.mode == ReadMode::Snapshot {
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
        for part in get_parts(self.kv.as_mut(), &keys, read)? {
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
}

impl Db {
    /// A committed row with all its values in it; `None` when it is so as it
    /// lies. For definitions, which keep writers away.
    pub(crate) fn whole_row(
        &self,
        table: &Table,
        primary: &[u8],
        bytes: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        if Blobs::All.missing(&RowRef::new(table, bytes)?) == 0 {
            return Ok(None);
        }
        let mut rows = [Waiting {
            number: 0,
            primary: primary.to_vec(),
            bytes: Some(bytes.to_vec()),
        }];
        let mut txn = self.engine().begin(TxnOptions::default())?;
        let torn = try_complete(txn.as_mut(), table, &mut rows, Blobs::All, Read::CURRENT)?;
        txn.rollback();
        let [row] = rows;
        match torn.is_empty() {
            true => Ok(row.bytes),
            false => Err(lost(table)),
        }
    }
}
