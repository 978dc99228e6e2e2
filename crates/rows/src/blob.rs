//! Values that do not lie in their row: large TEXT, BLOB and JSON.
//!
//! Up to [`IN_ROW`] bytes such a value lies in the row like a VARCHAR. Beyond,
//! the row keeps a [`Blob`] (id, lengths, the size of the parts) and the first
//! [`PREFIX`] bytes; what follows the prefix is cut into parts of
//! [`PART_BYTES`], one key each in the table's parts space of the row's
//! partition:
//!
//! ```text
//! column data   u64 id, u32 bytes, u32 characters, u16 bytes of the prefix,
//!               u8 log2 of the part size, prefix
//! part's key    u64 id, u32 number, big-endian
//! part's value  its bytes
//! ```
//!
//! Invariants:
//! 1. A blob's id is used once: a changed value gets a new one. So parts never
//!    change, a version of a row finds its own parts in the same snapshot, and
//!    reads need no lock.
//! 2. Parts are written and deleted in the transaction that writes the row
//!    that names them, and nowhere else. The row's lock covers them.
//! 3. The prefix ends between two characters and is at least as long as any
//!    index prefix (3,072 bytes): entries are made without parts.
//! 4. A row in memory may hold more of the value behind the [`Blob`] than the
//!    prefix, up to the end of a part or all of it ([`Blob::whole`]): the same
//!    reader reads all. On disk it is the prefix always.
//!
//! Rejected: parts in the rows' own space (scans of rows would walk over
//! them); parts named by primary key (a row that moves would rewrite them); a
//! content hash as id (two rows would share parts, and need counting).

use crate::definition::TableDef;
use porpoise_types::{Kind, Value};
use smallvec::SmallVec;

/// Greatest value of a TEXT, BLOB or JSON column that lies in its row, bytes.
/// Here parts cost about 41,000 instructions more to write and 17,000 to read,
/// and save 32,000 at each update of another column (decision 0006).
pub const IN_ROW: usize = 8 << 10;
/// Bytes of a value outside of its row that the row keeps all the same.
pub const PREFIX: usize = 3072;
/// Bytes of one part; a power of two, far below what an engine's value may be.
pub const PART_BYTES: usize = 1 << PART_SHIFT;
const PART_SHIFT: u8 = 18;
/// Greatest row as it lies in the engine, bytes: values that were moved to
/// parts count with their prefix. Beyond it an INSERT or UPDATE fails (1118).
pub const MAX_ROW_BYTES: usize = 1 << 20;
/// Bytes of an encoded [`Blob`].
pub(crate) const HEAD: usize = 19;
/// Bytes of a part's key.
pub(crate) const PART_KEY: usize = 12;

/// What a row says about a value outside of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Names the parts.
    pub id: u64,
    /// Bytes of the whole value.
    pub bytes: u32,
    /// Characters of the whole value; of binary values the bytes.
    pub chars: u32,
    prefix: u16,
    part_shift: u8,
}

impl Blob {
    pub(crate) fn new(id: u64, bytes: u32, chars: u32, prefix: usize) -> Blob {
        Blob {
            id,
            bytes,
            chars,
            prefix: u16::try_from(prefix).unwrap_or(u16::MAX),
            part_shift: PART_SHIFT,
        }
    }

    pub(crate) fn append(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.to_le_bytes());
        out.extend_from_slice(&self.bytes.to_le_bytes());
        out.extend_from_slice(&self.chars.to_le_bytes());
        out.extend_from_slice(&self.prefix.to_le_bytes());
        out.push(self.part_shift);
    }

    /// Splits a column's data into the head and what follows; `None` when it
    /// is too short or contradicts itself.
    #[inline]
    pub(crate) fn split(data: &[u8]) -> Option<(Blob, &[u8])> {
        let (head, rest) = data.split_at_checked(HEAD)?;
        let (id, more) = head.split_first_chunk::<8>()?;
        let (bytes, more) = more.split_first_chunk::<4>()?;
        let (chars, more) = more.split_first_chunk::<4>()?;
        let (prefix, more) = more.split_first_chunk::<2>()?;
        let blob = Blob {
            id: u64::from_le_bytes(*id),
            bytes: u32::from_le_bytes(*bytes),
            chars: u32::from_le_bytes(*chars),
            prefix: u16::from_le_bytes(*prefix),
            part_shift: *more.first()?,
        };
        let shift = blob.part_shift >= 10 && blob.part_shift < 31;
        let sane = shift && rest.len() >= blob.prefix() && rest.len() <= blob.len();
        sane.then_some((blob, rest))
    }

    /// Bytes of the whole value.
    #[inline]
    pub fn len(&self) -> usize {
        usize::try_from(self.bytes).unwrap_or(usize::MAX)
    }

    /// Whether the value is empty (none that was written is).
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Bytes of one part, the last one excepted.
    pub(crate) fn part_bytes(&self) -> usize {
        1 << self.part_shift
    }

    /// Bytes of the value that are in the row and not in parts.
    pub(crate) fn prefix(&self) -> usize {
        usize::from(self.prefix)
    }

    /// How many parts follow the prefix.
    pub(crate) fn parts(&self) -> u32 {
        let rest = self.len().saturating_sub(self.prefix());
        u32::try_from(rest.div_ceil(self.part_bytes())).unwrap_or(u32::MAX)
    }

    /// The numbers of the parts that bring what is at hand, the start of the
    /// value up to the end of a part, to so many bytes at least.
    pub(crate) fn parts_between(&self, present: usize, end: usize) -> std::ops::Range<u32> {
        if end.min(self.len()) <= present {
            return 0..0;
        }
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let first = present.saturating_sub(self.prefix()) / self.part_bytes();
        let last = end
            .saturating_sub(self.prefix())
            .div_ceil(self.part_bytes());
        number(first)..number(last).min(self.parts())
    }

    /// Whether what a row holds of the value is all of it.
    pub fn whole(&self, present: &[u8]) -> bool {
        present.len() >= self.len()
    }

    /// What of a whole value goes to parts: key and bytes.
    pub(crate) fn split_parts<'v>(
        &self,
        value: &'v [u8],
    ) -> impl Iterator<Item = ([u8; PART_KEY], &'v [u8])> + use<'v> {
        let blob = *self;
        let rest = value.get(self.prefix()..).unwrap_or(&[]);
        (0u32..)
            .zip(rest.chunks(self.part_bytes()))
            .map(move |(number, part)| (blob.key(number), part))
    }

    /// The key of a part.
    pub(crate) fn key(&self, number: u32) -> [u8; PART_KEY] {
        let mut key = [0u8; PART_KEY];
        let (id, rest) = key.split_at_mut(8);
        id.copy_from_slice(&self.id.to_be_bytes());
        rest.copy_from_slice(&number.to_be_bytes());
        key
    }
}

/// Whether values of this kind may be kept outside of their row.
pub(crate) fn may_leave(kind: Kind) -> bool {
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
    /// Whether some column's values may be kept outside of the row.
    pub fn may_have_parts(&self) -> bool {
        self.columns.iter().any(|c| may_leave(c.ty.kind))
    }
}

/// Where the values of the columns of one row go that leave it.
pub(crate) type Outside = SmallVec<[(usize, Blob); 2]>;

/// How many bytes of a value its row keeps when the rest leaves it.
pub(crate) fn prefix_len(table: &TableDef, position: usize, value: &[u8]) -> usize {
    let column = table.columns.get(position);
    let multi =
        column.is_some_and(|c| c.ty.kind == Kind::Json || c.ty.collation.charset().max_len() > 1);
    let mut len = value.len().min(PREFIX);
    // Back to the start of a UTF-8 character, three steps at most.
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

/// The columns whose new values leave the row: all above [`IN_ROW`], and, when
/// the row were still too large, the largest of the others.
pub(crate) fn leaving(table: &TableDef, values: &[Value]) -> SmallVec<[usize; 2]> {
    let mut out: SmallVec<[usize; 2]> = SmallVec::new();
    let mut total = 0usize;
    for (position, value) in values.iter().enumerate() {
        let Value::Bytes(bytes) = value else { continue };
        if bytes.len() > IN_ROW && kind_may_leave(table, position) {
            out.push(position);
            total += HEAD + PREFIX;
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
                    if bytes.len() > HEAD + PREFIX
                        && kind_may_leave(table, position)
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
        total -= len - HEAD - PREFIX;
    }
    out
}

fn kind_may_leave(table: &TableDef, position: usize) -> bool {
    let kind = table.columns.get(position).map(|c| c.ty.kind);
    kind.is_some_and(may_leave)
}

/// A column of a row whose value lies outside, with what the row has of it.
#[derive(Clone, Copy, Debug)]
pub struct BlobColumn<'a> {
    /// Position of the column.
    pub position: usize,
    /// The value's head.
    pub blob: Blob,
    /// The prefix, or the whole value.
    pub present: &'a [u8],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_reads_back_and_refuses_nonsense() {
        let blob = Blob::new(77, 1_000_000, 900_000, 6);
        let mut data = Vec::new();
        blob.append(&mut data);
        assert_eq!(data.len(), HEAD);
        data.extend_from_slice(b"prefix");
        assert_eq!(Blob::split(&data), Some((blob, &b"prefix"[..])));
        assert_eq!(Blob::split(&data[..HEAD - 1]), None);
        assert_eq!(Blob::split(&data[..HEAD + 5]), None);
        let part = 1 << PART_SHIFT;
        assert_eq!(blob.parts_between(6, 6), 0..0);
        assert_eq!(blob.parts_between(6, 7), 0..1);
        assert_eq!(blob.parts_between(6 + part, 7 + part), 1..2);
        assert_eq!(blob.parts_between(6 + part, usize::MAX), 1..4);
        data[18] = 63;
        assert_eq!(Blob::split(&data), None);
        assert_eq!(blob.parts(), 4);
        assert_eq!(Blob::new(1, 6, 6, 6).parts(), 0);
        assert_eq!(blob.key(3)[8..], 3u32.to_be_bytes());
    }
}
