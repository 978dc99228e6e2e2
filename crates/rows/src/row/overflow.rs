//! The part of an overflow value that its row stores. An overflow value is a large TEXT, BLOB or
//! JSON value that does not fit its row.
//!
//! Up to [`IN_ROW`] bytes such a value is stored in the row like a VARCHAR. A larger one is stored
//! as an [`OverflowHead`] (id, lengths, chunk size) and its first [`PREFIX`] bytes in the row; the
//! rest is split into chunks of [`CHUNK_BYTES`], one key each in the overflow space of the row's
//! partition ([`crate::overflow`] reads and writes them):
//!
//! ```text
//! column data    u64 id, u32 bytes, u32 characters, u16 bytes of the prefix,
//!                u8 log2 of the chunk size, prefix
//! chunk's key    u64 id, u32 number, big-endian
//! chunk's value  its bytes
//! ```
//!
//! Invariants:
//! 1. An id is used once: a changed value gets a new one. So chunks are immutable, a row version
//!    finds its own chunks in the same snapshot, and reads need no lock.
//! 2. Chunks are written and deleted only in the transaction that writes the row that refers to
//!    them. The row's lock covers them.
//! 3. The prefix ends at a character boundary and is at least as long as any index prefix (3,072
//!    bytes), so that index entries are built without chunks.
//! 4. A row in memory may have more of the value after the head than the prefix, up to the end of
//!    a chunk or all of it, and is read in the same way. A stored row has exactly the prefix.
//!
//! Rejected: chunks in the rows' own space (row scans would pass over them); chunks keyed by
//! primary key (a change of the key would rewrite them); content hashes as ids (rows would share
//! chunks, which would need reference counts).

use super::{RowRef, WIDE_OFFSETS};
use crate::definition::TableDef;
use crate::error::{Error, Result};
use porpoise_types::{Kind, Value};
use smallvec::SmallVec;

/// Maximum size in bytes of a TEXT, BLOB or JSON value that is stored in its row. At this size,
/// chunks cost about 41,000 instructions more per write and 17,000 per read, and save 32,000 per
/// update of another column (decision 0006).
pub const IN_ROW: usize = 8 << 10;
/// Number of bytes of an overflow value that its row stores.
pub const PREFIX: usize = 3072;
/// Size of a chunk in bytes; a power of two, far below the maximum value size of engines.
pub const CHUNK_BYTES: usize = 1 << CHUNK_SHIFT;
const CHUNK_SHIFT: u8 = 18;
/// Maximum size of an encoded row in bytes, with the prefixes of overflow values. An INSERT or
/// UPDATE of a larger row fails (1118).
pub const MAX_ROW_BYTES: usize = 1 << 20;
/// Bytes of an encoded [`OverflowHead`].
pub(crate) const HEAD_BYTES: usize = 19;
/// Bytes of a chunk's key.
pub(crate) const CHUNK_KEY_BYTES: usize = 12;

/// The head of an overflow value, which its row holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverflowHead {
    /// Id of the value in the keys of its chunks.
    pub id: u64,
    /// Bytes of the whole value.
    pub bytes: u32,
    /// Characters of the whole value; of binary values the bytes.
    pub chars: u32,
    prefix: u16,
    chunk_shift: u8,
}

impl OverflowHead {
    pub(crate) fn new(id: u64, bytes: u32, chars: u32, prefix: usize) -> OverflowHead {
        OverflowHead {
            id,
            bytes,
            chars,
            prefix: u16::try_from(prefix).unwrap_or(u16::MAX),
            chunk_shift: CHUNK_SHIFT,
        }
    }

    pub(crate) fn append(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.to_le_bytes());
        out.extend_from_slice(&self.bytes.to_le_bytes());
        out.extend_from_slice(&self.chars.to_le_bytes());
        out.extend_from_slice(&self.prefix.to_le_bytes());
        out.push(self.chunk_shift);
    }

    /// Splits a column's data into the head and the bytes after it. Returns `None` if the data is
    /// too short or inconsistent.
    #[inline]
    pub(crate) fn split(data: &[u8]) -> Option<(OverflowHead, &[u8])> {
        let (head, rest) = data.split_at_checked(HEAD_BYTES)?;
        let (id, more) = head.split_first_chunk::<8>()?;
        let (bytes, more) = more.split_first_chunk::<4>()?;
        let (chars, more) = more.split_first_chunk::<4>()?;
        let (prefix, more) = more.split_first_chunk::<2>()?;
        let head = OverflowHead {
            id: u64::from_le_bytes(*id),
            bytes: u32::from_le_bytes(*bytes),
            chars: u32::from_le_bytes(*chars),
            prefix: u16::from_le_bytes(*prefix),
            chunk_shift: *more.first()?,
        };
        let shift = head.chunk_shift >= 10 && head.chunk_shift < 31;
        let sane = shift && rest.len() >= head.prefix() && rest.len() <= head.len();
        sane.then_some((head, rest))
    }

    /// Bytes of the whole value.
    #[inline]
    pub fn len(&self) -> usize {
        usize::try_from(self.bytes).unwrap_or(usize::MAX)
    }

    /// Whether the value is empty, which no stored one is.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Size of a chunk in bytes, except the last one.
    pub(crate) fn chunk_bytes(&self) -> usize {
        1 << self.chunk_shift
    }

    /// Bytes of the value that are in the row and not in chunks.
    pub(crate) fn prefix(&self) -> usize {
        usize::from(self.prefix)
    }

    /// Number of chunks that follow the prefix.
    pub(crate) fn chunks(&self) -> u32 {
        let rest = self.len().saturating_sub(self.prefix());
        u32::try_from(rest.div_ceil(self.chunk_bytes())).unwrap_or(u32::MAX)
    }

    /// Returns the numbers of the chunks to be read so that the present bytes, which end at the end
    /// of a chunk, extend to at least `end`.
    pub(crate) fn chunks_between(&self, present: usize, end: usize) -> std::ops::Range<u32> {
        if end.min(self.len()) <= present {
            return 0..0;
        }
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let first = present.saturating_sub(self.prefix()) / self.chunk_bytes();
        let last = end
            .saturating_sub(self.prefix())
            .div_ceil(self.chunk_bytes());
        number(first)..number(last).min(self.chunks())
    }

    /// Whether the bytes in a row are the complete value.
    pub fn whole(&self, present: &[u8]) -> bool {
        present.len() >= self.len()
    }

    /// Splits a complete value into chunks: key and bytes.
    pub(crate) fn split_chunks<'v>(
        &self,
        value: &'v [u8],
    ) -> impl Iterator<Item = ([u8; CHUNK_KEY_BYTES], &'v [u8])> + use<'v> {
        let head = *self;
        let rest = value.get(self.prefix()..).unwrap_or(&[]);
        (0u32..)
            .zip(rest.chunks(self.chunk_bytes()))
            .map(move |(number, part)| (head.chunk_key(number), part))
    }

    /// The key of a chunk.
    pub(crate) fn chunk_key(&self, number: u32) -> [u8; CHUNK_KEY_BYTES] {
        let mut key = [0u8; CHUNK_KEY_BYTES];
        let (id, rest) = key.split_at_mut(8);
        id.copy_from_slice(&self.id.to_be_bytes());
        rest.copy_from_slice(&number.to_be_bytes());
        key
    }
}

/// Whether values of this kind may overflow their row.
pub(crate) fn kind_may_overflow(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Text
            | Kind::MediumText
            | Kind::LongText
            | Kind::Blob
            | Kind::MediumBlob
            | Kind::LongBlob
            | Kind::Json
    )
}

impl TableDef {
    /// Whether some column's values may overflow the row.
    pub fn may_overflow(&self) -> bool {
        self.columns.iter().any(|c| kind_may_overflow(c.ty.kind))
    }
}

/// The heads of the overflow values of one row, by column position.
pub(crate) type OverflowHeads = SmallVec<[(usize, OverflowHead); 2]>;

/// Number of bytes of an overflow value that its row keeps.
pub(crate) fn prefix_len(table: &TableDef, position: usize, value: &[u8]) -> usize {
    let column = table.columns.get(position);
    let multi =
        column.is_some_and(|c| c.ty.kind == Kind::Json || c.ty.collation.charset().max_len() > 1);
    let mut len = value.len().min(PREFIX);
    // Moves back to a character boundary, by at most three bytes.
    while multi && len + 3 >= PREFIX && matches!(value.get(len), Some(0x80..=0xBF)) {
        len -= 1;
    }
    len
}

/// Characters of a value of a column.
pub(crate) fn chars(table: &TableDef, position: usize, value: &[u8]) -> u32 {
    let count = match table.columns.get(position) {
        Some(c) => c.ty.collation.charset().char_count(value),
        None => value.len(),
    };
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Returns the columns whose new values overflow the row: all above [`IN_ROW`], and, if the row
/// would still be too large, the largest of the others.
pub(crate) fn overflowing_columns(table: &TableDef, values: &[Value]) -> SmallVec<[usize; 2]> {
    let mut out: SmallVec<[usize; 2]> = SmallVec::new();
    let mut total = 0usize;
    for (position, value) in values.iter().enumerate() {
        let Value::Bytes(bytes) = value else { continue };
        if bytes.len() > IN_ROW && column_may_overflow(table, position) {
            out.push(position);
            total += HEAD_BYTES + PREFIX;
        } else {
            total += bytes.len();
        }
    }
    while total > MAX_ROW_BYTES / 2 {
        let largest = values
            .iter()
            .enumerate()
            .filter_map(|(position, value)| match value {
                Value::Bytes(bytes)
                    if bytes.len() > HEAD_BYTES + PREFIX
                        && column_may_overflow(table, position)
                        && !out.contains(&position) =>
                {
                    Some((bytes.len(), position))
                }
                _ => None,
            })
            .max();
        let Some((len, position)) = largest else {
            break;
        };
        out.push(position);
        total -= len - HEAD_BYTES - PREFIX;
    }
    out
}

fn column_may_overflow(table: &TableDef, position: usize) -> bool {
    let kind = table.columns.get(position).map(|c| c.ty.kind);
    kind.is_some_and(kind_may_overflow)
}

/// A column with an overflow value, and the bytes of it that the row has.
#[derive(Clone, Copy, Debug)]
pub struct OverflowColumn<'a> {
    /// Position of the column.
    pub position: usize,
    /// The value's head.
    pub head: OverflowHead,
    /// The prefix, or the whole value.
    pub present: &'a [u8],
}

/// A column's position, and the chunks of its value that the row lacks.
pub(crate) type FetchedColumn<'a> = (usize, &'a [Vec<u8>]);

/// Returns the error 1118 for a row that exceeds the maximum size.
pub(crate) fn too_big(size: usize) -> Error {
    Error::RowTooBig {
        size,
        limit: u32::MAX as usize,
    }
}

/// Returns the row with its overflow values inserted; `None` if the chunks have the wrong lengths.
///
/// # Errors
/// [`Error::RowTooBig`].
pub(crate) fn with_values(
    row: &RowRef<'_>,
    values: &[FetchedColumn<'_>],
) -> Result<Option<Vec<u8>>> {
    let extra: usize = values
        .iter()
        .flat_map(|(_, chunks)| chunks.iter().map(Vec::len))
        .sum();
    let size = row.bytes.len() + extra + row.layout.variable * 2;
    if u32::try_from(size).is_err() {
        return Err(too_big(size));
    }
    let mut out = Vec::with_capacity(size);
    // The bytes before the offsets do not change.
    out.extend_from_slice(row.bytes.get(..row.body + row.layout.fixed).unwrap_or(&[]));
    if let Some(first) = out.first_mut() {
        *first |= WIDE_OFFSETS;
    }
    let columns = || {
        let positions = row.layout.variable_positions.iter();
        positions.enumerate().map(|(number, position)| {
            let found = values.iter().find(|(p, _)| Some(*p) == *position);
            let chunks: &[Vec<u8>] = found.map_or(&[], |(_, chunks)| chunks);
            (row.variable(number).unwrap_or(&[]), chunks)
        })
    };
    let mut end = 0usize;
    for (data, chunks) in columns() {
        let len = data.len() + chunks.iter().map(Vec::len).sum::<usize>();
        if !chunks.is_empty() {
            let right = OverflowHead::split(data).is_some_and(|(head, present)| {
                let all = present.len() + chunks.len() * head.chunk_bytes();
                len - HEAD_BYTES == head.len().min(all)
            });
            if !right || chunks.iter().any(Vec::is_empty) {
                return Ok(None);
            }
        }
        end += len;
        out.extend_from_slice(&u32::try_from(end).unwrap_or(u32::MAX).to_le_bytes());
    }
    for (data, chunks) in columns() {
        out.extend_from_slice(data);
        for chunk in chunks {
            out.extend_from_slice(chunk);
        }
    }
    Ok(Some(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_round_trip_and_damaged_ones_are_refused() {
        let head = OverflowHead::new(77, 1_000_000, 900_000, 6);
        let mut data = Vec::new();
        head.append(&mut data);
        assert_eq!(data.len(), HEAD_BYTES);
        data.extend_from_slice(b"prefix");
        assert_eq!(OverflowHead::split(&data), Some((head, &b"prefix"[..])));
        assert_eq!(OverflowHead::split(&data[..HEAD_BYTES - 1]), None);
        assert_eq!(OverflowHead::split(&data[..HEAD_BYTES + 5]), None);
        let part = 1 << CHUNK_SHIFT;
        assert_eq!(head.chunks_between(6, 6), 0..0);
        assert_eq!(head.chunks_between(6, 7), 0..1);
        assert_eq!(head.chunks_between(6 + part, 7 + part), 1..2);
        assert_eq!(head.chunks_between(6 + part, usize::MAX), 1..4);
        data[18] = 63;
        assert_eq!(OverflowHead::split(&data), None);
        assert_eq!(head.chunks(), 4);
        assert_eq!(OverflowHead::new(1, 6, 6, 6).chunks(), 0);
        assert_eq!(head.chunk_key(3)[8..], 3u32.to_be_bytes());
    }
}
