//! The row format (docs/formats.md, "Rows").
//!
//! ```text
//! u8   format << 4 | flags        flags: 1 wide, 2 expiry, 4 overflow
//! u24  table version
//! u64  row version
//! u64  expiry, when flagged (microseconds since 1970 UTC)
//! ...  overflow bitmap, a bit a variable column, when flagged ([`overflow`])
//! ...  null bitmap, a bit a column in storage order
//! ...  fixed-width columns
//! ...  u16 (wide: u32) end of each variable column, from the data's start
//! ...  data of the variable columns
//! ```
//!
//! Integers are little-endian. A column is read without reading others: the layout of the row's
//! table version and at most two offsets give its location.
//!
//! Invariants:
//! 1. Every column is in the row, including key columns: keys have collation weights, which cannot
//!    be decoded.
//! 2. The row version is never 0 and below 2^53.
//! 3. The bytes of a column that is NULL are zeros, or no bytes.
//! 4. [`RowRef::new`] has checked the length against the last offset. A column with contradictory
//!    offsets reads as empty, never as another column's bytes.
//!
//! Rejected: offsets for all columns (two needless bytes per fixed-width column);
//! omitting primary-key columns (see 1).

mod encode;
pub mod overflow;
mod patch;
mod projection;

pub(crate) use encode::encode_with;
pub use encode::{RowStamp, encode};
pub(crate) use overflow::too_big;
use overflow::{OverflowColumn, OverflowHead};
pub(crate) use patch::{append_patched, set_version};
pub use projection::RowProjection;

use crate::error::{Error, Result};
use crate::keys::Columns;
use crate::table::Table;
use crate::table::layout::{Layout, Slot, Storage};
use porpoise_types::{Date, DateTime, Decimal, Time, Value, ValueRef};

/// Version of the row format.
pub const ROW_FORMAT_VERSION: u8 = 1;
/// Variable offsets have four bytes.
const WIDE_OFFSETS: u8 = 1;
/// An expiry follows the row version.
const HAS_EXPIRY: u8 = 2;
/// At least one variable column has an overflow value; a bitmap shows which.
const OVERFLOW: u8 = 4;
/// Bytes before the body without an expiry.
const HEADER: usize = 12;
/// Maximum table version that a row can record.
pub const MAX_TABLE_VERSION: u32 = (1 << 24) - 1;

/// A reference to an encoded row. Cheap to copy.
#[derive(Clone, Copy)]
pub struct RowRef<'a> {
    table: &'a Table,
    layout: &'a Layout,
    bytes: &'a [u8],
    /// Start of the null bitmap.
    body: usize,
}

/// A row that owns its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowBuf(Vec<u8>);

impl RowBuf {
    /// Returns the row, to be read by a table definition.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::DefinitionChanged`], as [`RowRef::new`].
    pub fn row<'a>(&'a self, table: &'a Table) -> Result<RowRef<'a>> {
        RowRef::new(table, &self.0)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for RowBuf {
    fn from(bytes: Vec<u8>) -> RowBuf {
        RowBuf(bytes)
    }
}

impl std::fmt::Debug for RowRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries((0..self.table.columns.len()).map(|i| self.get(i)))
            .finish()
    }
}

fn read_le<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}

/// A little-endian unsigned number of up to eight bytes.
#[inline]
fn read_uint(bytes: &[u8]) -> u64 {
    if let Ok(word) = <[u8; 4]>::try_from(bytes) {
        return u64::from(u32::from_le_bytes(word));
    }
    if let Ok(word) = <[u8; 8]>::try_from(bytes) {
        return u64::from_le_bytes(word);
    }
    let mut full = [0u8; 8];
    for (to, from) in full.iter_mut().zip(bytes) {
        *to = *from;
    }
    u64::from_le_bytes(full)
}

impl<'a> RowRef<'a> {
    /// Reads the header of a row's bytes.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the bytes are not a row of this format or too short;
    /// [`Error::DefinitionChanged`] if the row was written under a newer definition than `table`.
    #[inline]
    pub fn new(table: &'a Table, bytes: &'a [u8]) -> Result<RowRef<'a>> {
        let bad = || Error::Corrupt(format!("a row of {}", table.quoted_name()));
        let first = *bytes.first().ok_or_else(bad)?;
        if first >> 4 != ROW_FORMAT_VERSION {
            return Err(bad());
        }
        let version = read_le::<4>(bytes, 0).ok_or_else(bad)?;
        let version = u32::from_le_bytes(version) >> 8;
        if version > table.version {
            return Err(Error::DefinitionChanged);
        }
        let layout = table.derived().of_version(version).ok_or_else(bad)?;
        let mut body = if first & HAS_EXPIRY == 0 {
            HEADER
        } else {
            HEADER + 8
        };
        if first & OVERFLOW != 0 {
            body += layout.variable.div_ceil(8);
        }
        let row = RowRef {
            table,
            layout,
            bytes,
            body,
        };
        let data = row.data_start();
        let end = match layout.variable.checked_sub(1) {
            None => Some(data),
            Some(last) => row.offset(last).map(|end| data + end),
        };
        if end != Some(bytes.len()) {
            return Err(bad());
        }
        Ok(row)
    }

    /// Returns the same row over copied bytes.
    ///
    /// # Errors
    /// As [`RowRef::new`], if the definition differs.
    #[inline]
    pub fn copied_to<'b>(&self, table: &'b Table, bytes: &'b [u8]) -> Result<RowRef<'b>> {
        let layout = table.derived().current();
        if !std::ptr::eq(layout, self.layout) || bytes.len() != self.bytes.len() {
            return RowRef::new(table, bytes);
        }
        Ok(RowRef {
            table,
            layout,
            bytes,
            body: self.body,
        })
    }

    /// Creates a row without column values: all columns read as NULL.
    pub(crate) fn without_columns(table: &'a Table) -> RowRef<'a> {
        RowRef {
            table,
            layout: table.derived().current(),
            bytes: &[],
            body: HEADER,
        }
    }

    #[inline]
    fn offset_width(&self) -> usize {
        match self.bytes.first() {
            Some(first) if first & WIDE_OFFSETS != 0 => 4,
            _ => 2,
        }
    }

    /// Start of the offsets of variable columns.
    #[inline]
    fn offsets_start(&self) -> usize {
        self.body + self.layout.fixed
    }

    #[inline]
    fn data_start(&self) -> usize {
        self.offsets_start() + self.layout.variable * self.offset_width()
    }

    /// End of a variable column, from the data's start.
    #[inline]
    fn offset(&self, number: usize) -> Option<usize> {
        let at = self.offsets_start() + number * self.offset_width();
        if self.offset_width() == 4 {
            let end = u32::from_le_bytes(read_le::<4>(self.bytes, at)?);
            usize::try_from(end).ok()
        } else {
            let end = u16::from_le_bytes(read_le::<2>(self.bytes, at)?);
            Some(usize::from(end))
        }
    }

    #[inline]
    fn variable(&self, number: usize) -> Option<&'a [u8]> {
        let start = match number.checked_sub(1) {
            None => 0,
            Some(before) => self.offset(before)?,
        };
        let end = self.offset(number)?;
        let data = self.data_start();
        self.bytes.get(data + start..data + end)
    }

    /// Whether the row has an overflow value.
    #[inline]
    pub fn has_overflow(&self) -> bool {
        self.bytes
            .first()
            .is_some_and(|first| first & OVERFLOW != 0)
    }

    /// Whether a variable column holds an overflow value.
    fn is_overflow(&self, number: usize) -> bool {
        let start = if self.expires() { HEADER + 8 } else { HEADER };
        let byte = self.bytes.get(start + number / 8);
        byte.is_some_and(|b| b & (1 << (number % 8)) != 0)
    }

    /// The overflow value of a column; `None` where the value is in the row.
    pub fn overflow_column(&self, position: usize) -> Option<OverflowColumn<'a>> {
        let slot = self.layout.slot(position)?;
        let out =
            self.has_overflow() && slot.storage == Storage::Bytes && self.is_overflow(slot.at);
        let (head, present) = OverflowHead::split(self.variable(slot.at).filter(|_| out)?)?;
        Some(OverflowColumn {
            position,
            head,
            present,
        })
    }

    #[inline]
    fn expires(&self) -> bool {
        self.bytes
            .first()
            .is_some_and(|first| first & HAS_EXPIRY != 0)
    }

    /// Returns the value of the column at `position` of the table's definition: the backfill value
    /// if the column is newer than the row, NULL if the position does not exist. For an overflow
    /// value it is the prefix, unless the row was read with it.
    #[inline]
    pub fn get(&self, position: usize) -> ValueRef<'a> {
        let Some(slot) = self.layout.slot(position) else {
            return match self.table.columns.get(position) {
                Some(column) => column.backfill.as_ref(),
                None => ValueRef::Null,
            };
        };
        let null = self.bytes.get(self.body + slot.number / 8);
        if null.is_none_or(|b| b & (1 << (slot.number % 8)) != 0) {
            return ValueRef::Null;
        }
        self.read(slot).unwrap_or(ValueRef::Null)
    }

    #[inline]
    fn read(&self, slot: &Slot) -> Option<ValueRef<'a>> {
        if slot.storage == Storage::Bytes {
            let data = self.variable(slot.at).unwrap_or(&[]);
            if self.has_overflow() && self.is_overflow(slot.at) {
                return Some(ValueRef::Bytes(OverflowHead::split(data)?.1));
            }
            return Some(ValueRef::Bytes(data));
        }
        let at = self.body + slot.at;
        let mut bytes = self.bytes.get(at..at + slot.storage.width())?;
        Some(match slot.storage {
            Storage::Int(width) => {
                let unused = 64 - 8 * u32::from(width);
                let raw = read_uint(bytes) << unused;
                ValueRef::Int(raw.cast_signed() >> unused)
            }
            Storage::UInt(_) => ValueRef::UInt(read_uint(bytes)),
            Storage::Float => {
                ValueRef::Double(f64::from(f32::from_le_bytes(read_le::<4>(bytes, 0)?)))
            }
            Storage::Double => ValueRef::Double(f64::from_le_bytes(read_le::<8>(bytes, 0)?)),
            Storage::Date => ValueRef::Date(Date::from_packed(u32::from_le_bytes(read_le::<4>(
                bytes, 0,
            )?))?),
            Storage::DateTime => ValueRef::DateTime(DateTime::from_packed(read_uint(bytes))?),
            Storage::Time => ValueRef::Time(Time::from_micros(read_uint(bytes).cast_signed())?),
            Storage::Decimal {
                precision, scale, ..
            } => ValueRef::Decimal(Decimal::decode(precision, scale, &mut bytes)?),
            Storage::Bytes => return None,
        })
    }

    /// All values in column order.
    pub fn values(&self) -> Vec<Value> {
        (0..self.table.columns.len())
            .map(|i| self.get(i).to_owned())
            .collect()
    }

    /// The row version: changes with every change of the row; memcached's CAS.
    #[inline]
    pub fn version(&self) -> u64 {
        read_le::<8>(self.bytes, 4).map_or(0, u64::from_le_bytes)
    }

    /// Time at which the row expires, in microseconds since 1970 UTC; 0: never.
    #[inline]
    pub fn expiry(&self) -> u64 {
        if !self.expires() {
            return 0;
        }
        read_le::<8>(self.bytes, HEADER).map_or(0, u64::from_le_bytes)
    }

    /// The table.
    pub fn table(&self) -> &'a Table {
        self.table
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The layout in which it was written.
    #[inline]
    pub(crate) fn layout(&self) -> &'a Layout {
        self.layout
    }

    /// Offset of the null bitmap.
    #[inline]
    pub(crate) fn body_start(&self) -> usize {
        self.body
    }

    /// The columns with overflow values.
    pub(crate) fn overflow_columns(&self) -> impl Iterator<Item = OverflowColumn<'a>> + use<'a> {
        let row = *self;
        let columns = if row.has_overflow() {
            row.table.columns.len()
        } else {
            0
        };
        (0..columns).filter_map(move |position| row.overflow_column(position))
    }

    /// The bytes from the null bitmap on.
    #[inline]
    pub(crate) fn body(&self) -> &'a [u8] {
        self.bytes.get(self.body..).unwrap_or_default()
    }

    /// An owned copy.
    pub fn to_buf(&self) -> RowBuf {
        RowBuf(self.bytes.to_vec())
    }
}

impl Columns for RowRef<'_> {
    fn column(&self, position: usize) -> ValueRef<'_> {
        self.get(position)
    }
}
