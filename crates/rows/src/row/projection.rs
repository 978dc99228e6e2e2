//! Projections of rows to some of their columns, for temporary files.
//!
//! A projection has a layout of its own, in which the columns that are kept have slots and the others
//! have none. The bytes of the columns are copied as they are, so that neither writing nor reading a
//! projected row decodes a value. For the columns that are kept, a projected row reads as the original.
//!
//! Invariants:
//! 1. Projected rows are never stored in a table: their layout belongs to no version of it.
//! 2. Only rows of the table's current layout are projected, and none with overflow values.

use super::{HEADER, OVERFLOW, ROW_FORMAT_VERSION, RowRef, WIDE_OFFSETS};
use crate::error::{Error, Result};
use crate::table::Table;
use crate::table::layout::{Layout, Slot, Storage};

/// Reduces rows of a table to some of their columns.
#[derive(Clone, Debug)]
pub struct RowProjection<'t> {
    table: &'t Table,
    layout: Layout,
    /// The slots of each column: in rows of the table, and in projected rows.
    slots: Vec<(Slot, Slot)>,
}

impl<'t> RowProjection<'t> {
    /// A projection to the columns at these positions.
    pub fn new(table: &'t Table, columns: &[usize]) -> RowProjection<'t> {
        let current = table.derived().current();
        let mut layout = Layout {
            version: current.version,
            by_position: vec![None; table.columns.len()],
            fixed: columns.len().div_ceil(8),
            variable: 0,
            variable_positions: Vec::new(),
        };
        let mut slots = Vec::with_capacity(columns.len());
        for position in columns {
            let (Some(from), Some(place)) = (
                current.slot(*position),
                layout.by_position.get_mut(*position),
            ) else {
                continue;
            };
            let at = if from.storage == Storage::Bytes {
                layout.variable_positions.push(Some(*position));
                layout.variable += 1;
                layout.variable - 1
            } else {
                layout.fixed += from.storage.width();
                layout.fixed - from.storage.width()
            };
            let to = Slot {
                number: slots.len(),
                storage: from.storage,
                at,
            };
            *place = Some(to);
            slots.push((*from, to));
        }
        RowProjection {
            table,
            layout,
            slots,
        }
    }

    /// Appends a row's projection. A row that this projection has read ([`RowProjection::row`]) is copied.
    /// Returns false, and appends nothing, if the row cannot be projected: it has another layout, or overflow
    /// values.
    pub fn append(&self, row: &RowRef<'_>, out: &mut Vec<u8>) -> bool {
        if std::ptr::eq(row.layout, &raw const self.layout) {
            out.extend_from_slice(row.bytes);
            return true;
        }
        let (Some(head), true) = (
            row.bytes.get(..HEADER),
            std::ptr::eq(row.layout, self.table.derived().current()) && !row.has_overflow(),
        ) else {
            return false;
        };
        let start = out.len();
        out.extend_from_slice(head);
        out.resize(start + HEADER + self.layout.fixed, 0);
        let mut data = 0;
        for (from, to) in &self.slots {
            self.copy_fixed(row, from, to, start + HEADER, out);
            if from.storage == Storage::Bytes {
                data += row.variable(from.at).map_or(0, <[u8]>::len);
            }
        }
        let is_wide = data > usize::from(u16::MAX);
        if let Some(first) = out.get_mut(start) {
            *first = ROW_FORMAT_VERSION << 4 | if is_wide { WIDE_OFFSETS } else { 0 };
        }
        self.append_variable(row, is_wide, out);
        true
    }

    /// Copies the null bit of a column, and its bytes if it has a fixed width.
    #[inline]
    fn copy_fixed(&self, row: &RowRef<'_>, from: &Slot, to: &Slot, body: usize, out: &mut [u8]) {
        let null = row.bytes.get(row.body + from.number / 8);
        if null.is_none_or(|byte| byte & (1 << (from.number % 8)) != 0) {
            if let Some(byte) = out.get_mut(body + to.number / 8) {
                *byte |= 1 << (to.number % 8);
            }
            return;
        }
        let width = from.storage.width();
        let source = row.bytes.get(row.body + from.at..).unwrap_or_default();
        let target = out.get_mut(body + to.at..).unwrap_or_default();
        for (to, from) in target.iter_mut().zip(source).take(width) {
            *to = *from;
        }
    }

    /// Appends the offsets and the data of the variable columns.
    fn append_variable(&self, row: &RowRef<'_>, is_wide: bool, out: &mut Vec<u8>) {
        let kept = self.slots.iter().map(|(from, _)| from);
        let kept = kept.filter(|from| from.storage == Storage::Bytes);
        let mut end = 0;
        for from in kept.clone() {
            end += row.variable(from.at).map_or(0, <[u8]>::len);
            if is_wide {
                let end = u32::try_from(end).unwrap_or(u32::MAX);
                out.extend_from_slice(&end.to_le_bytes());
            } else {
                let end = u16::try_from(end).unwrap_or(u16::MAX);
                out.extend_from_slice(&end.to_le_bytes());
            }
        }
        for from in kept {
            out.extend_from_slice(row.variable(from.at).unwrap_or_default());
        }
    }

    /// Reads a projected row that [`RowProjection::append`] has written.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for other bytes.
    pub fn row<'a>(&'a self, bytes: &'a [u8]) -> Result<RowRef<'a>> {
        let bad = || Error::Corrupt(format!("a projected row of {}", self.table.quoted_name()));
        let first = bytes.first().ok_or_else(bad)?;
        let row = RowRef {
            table: self.table,
            layout: &self.layout,
            bytes,
            body: HEADER,
        };
        let data = row.data_start();
        let end = match self.layout.variable.checked_sub(1) {
            None => Some(data),
            Some(last) => row.offset(last).map(|end| data + end),
        };
        if first >> 4 != ROW_FORMAT_VERSION || first & OVERFLOW != 0 || end != Some(bytes.len()) {
            return Err(bad());
        }
        Ok(row)
    }
}
