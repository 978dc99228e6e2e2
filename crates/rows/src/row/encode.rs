//! Encoding of a row of storage values, in the format of [`super`].

use super::overflow::{HEAD_BYTES, OverflowHead, too_big};
use super::{HAS_EXPIRY, HEADER, MAX_TABLE_VERSION, OVERFLOW, ROW_FORMAT_VERSION, WIDE_OFFSETS};
use crate::table::Table;
use crate::table::layout::{Layout, Storage};
use crate::{Error, Result};
use porpoise_types::{Value, ValueRef};
use smallvec::SmallVec;

/// Metadata of a row: version and expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowStamp {
    /// The row version, 1 to 2^53 - 1.
    pub version: u64,
    /// Expiry in microseconds since 1970 UTC; 0 for never.
    pub expiry: u64,
}

/// Appends a row of storage values in column order to `out` (normally empty)
/// in the table's current layout.
///
/// # Errors
/// [`Error::BadValue`] for a value that is not of its column's storage kind.
pub fn encode(table: &Table, values: &[Value], stamp: RowStamp, out: &mut Vec<u8>) -> Result<()> {
    encode_with(table, values, &[], stamp, out)
}

/// As [`encode`], with only head and prefix of the columns in `heads`.
pub(crate) fn encode_with(
    table: &Table,
    values: &[Value],
    heads: &[(usize, OverflowHead)],
    stamp: RowStamp,
    out: &mut Vec<u8>,
) -> Result<()> {
    let layout = table.derived().current();
    let new = NewRow { values, heads };
    let variable = layout.variable_positions.iter().flatten();
    let data: usize =
        variable.map(|p| new.stored_bytes(*p).len()).sum::<usize>() + heads.len() * HEAD_BYTES;
    if u32::try_from(data).is_err() {
        return Err(too_big(data));
    }
    let wide = data > usize::from(u16::MAX);
    let flags = ROW_FORMAT_VERSION << 4
        | if wide { WIDE_OFFSETS } else { 0 }
        | if stamp.expiry != 0 { HAS_EXPIRY } else { 0 }
        | if heads.is_empty() { 0 } else { OVERFLOW };
    let offsets = layout.variable * if wide { 4 } else { 2 };
    out.reserve(HEADER + 8 + layout.fixed + offsets + data);
    let first = (table.version.min(MAX_TABLE_VERSION) << 8) | u32::from(flags);
    out.extend_from_slice(&first.to_le_bytes());
    out.extend_from_slice(&stamp.version.to_le_bytes());
    if stamp.expiry != 0 {
        out.extend_from_slice(&stamp.expiry.to_le_bytes());
    }
    if !heads.is_empty() {
        new.append_overflow_bitmap(layout, out);
    }
    new.append_fixed(table, layout, out)?;
    new.append_offsets(table, layout, wide, out)?;
    for position in layout.variable_positions.iter().flatten() {
        if let Some(head) = new.head(*position) {
            head.append(out);
        }
        out.extend_from_slice(new.stored_bytes(*position));
    }
    Ok(())
}

/// The columns of a row to be written.
struct NewRow<'a> {
    /// Storage values in column order.
    values: &'a [Value],
    /// The heads of overflow values.
    heads: &'a [(usize, OverflowHead)],
}

impl<'a> NewRow<'a> {
    /// The head of an overflow value.
    #[inline]
    fn head(&self, position: usize) -> Option<&'a OverflowHead> {
        let found = self.heads.iter().find(|(p, _)| *p == position);
        found.map(|(_, head)| head)
    }

    /// The bytes of a variable column that the row stores, without the head.
    #[inline]
    fn stored_bytes(&self, position: usize) -> &'a [u8] {
        match self.values.get(position) {
            Some(Value::Bytes(b)) => match self.head(position) {
                Some(head) => b.get(..head.prefix()).unwrap_or(b),
                None => b,
            },
            _ => &[],
        }
    }

    fn append_overflow_bitmap(&self, layout: &Layout, out: &mut Vec<u8>) {
        let mut bitmap: SmallVec<[u8; 8]> = SmallVec::from_elem(0, layout.variable.div_ceil(8));
        for (number, position) in layout.variable_positions.iter().enumerate() {
            if position.is_some_and(|p| self.head(p).is_some())
                && let Some(byte) = bitmap.get_mut(number / 8)
            {
                *byte |= 1 << (number % 8);
            }
        }
        out.extend_from_slice(&bitmap);
    }

    /// The null bitmap and the fixed-width columns.
    #[inline]
    fn append_fixed(&self, table: &Table, layout: &Layout, out: &mut Vec<u8>) -> Result<()> {
        let body = out.len();
        out.resize(body + layout.fixed, 0);
        for (position, slot) in layout.by_position.iter().enumerate() {
            let Some(slot) = slot else { continue };
            let value = self.values.get(position).unwrap_or(&Value::Null);
            if value.is_null() {
                if let Some(byte) = out.get_mut(body + slot.number / 8) {
                    *byte |= 1 << (slot.number % 8);
                }
            } else if slot.storage != Storage::Bytes {
                let start = body + slot.at;
                let place = out.get_mut(start..start + slot.storage.width());
                place
                    .and_then(|place| write_fixed(slot.storage, value.as_ref(), place))
                    .ok_or_else(|| bad_value(table, position))?;
            }
        }
        Ok(())
    }

    /// Appends the end offsets of the variable columns, which fit the chosen width.
    #[inline]
    fn append_offsets(
        &self,
        table: &Table,
        layout: &Layout,
        wide: bool,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let mut end = 0usize;
        for position in &layout.variable_positions {
            if let Some(position) = position {
                match self.values.get(*position) {
                    Some(Value::Bytes(_)) => end += self.stored_bytes(*position).len(),
                    None | Some(Value::Null) => {}
                    Some(_) => return Err(bad_value(table, *position)),
                }
                if self.head(*position).is_some() {
                    end += HEAD_BYTES;
                }
            }
            let end = u32::try_from(end).unwrap_or(u32::MAX).to_le_bytes();
            out.extend_from_slice(if wide {
                &end
            } else {
                end.first_chunk::<2>().map_or(&[], |e| e)
            });
        }
        Ok(())
    }
}

fn bad_value(table: &Table, position: usize) -> Error {
    Error::BadValue {
        column: table
            .columns
            .get(position)
            .map(|c| c.name.clone())
            .unwrap_or_default(),
    }
}

/// Writes a value into its `storage.width()` bytes. Returns `None` if it has another storage kind
/// or does not fit.
pub(super) fn write_fixed(storage: Storage, value: ValueRef<'_>, place: &mut [u8]) -> Option<()> {
    match (storage, value) {
        (Storage::Int(width), ValueRef::Int(_) | ValueRef::UInt(_)) => {
            let v = match value {
                ValueRef::Int(v) => v,
                ValueRef::UInt(v) => i64::try_from(v).ok()?,
                _ => return None,
            };
            let unused = 64 - 8 * u32::from(width);
            if (v << unused) >> unused != v {
                return None;
            }
            put(place, &v.to_le_bytes());
        }
        (Storage::UInt(width), ValueRef::Int(_) | ValueRef::UInt(_)) => {
            let v = match value {
                ValueRef::UInt(v) => v,
                ValueRef::Int(v) => u64::try_from(v).ok()?,
                _ => return None,
            };
            if width < 8 && v >> (8 * u32::from(width)) != 0 {
                return None;
            }
            put(place, &v.to_le_bytes());
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a FLOAT's value was rounded to single precision when it was stored"
        )]
        (Storage::Float, ValueRef::Double(v)) => put(place, &(v as f32).to_le_bytes()),
        (Storage::Double, ValueRef::Double(v)) => put(place, &v.to_le_bytes()),
        (Storage::Date, ValueRef::Date(v)) => put(place, &v.packed().to_le_bytes()),
        (Storage::DateTime, ValueRef::DateTime(v)) => put(place, &v.packed().to_le_bytes()),
        (Storage::Time, ValueRef::Time(v)) => put(place, &v.as_micros().to_le_bytes()),
        (
            Storage::Decimal {
                precision, scale, ..
            },
            ValueRef::Decimal(v),
        ) => {
            let mut bytes = Vec::with_capacity(place.len());
            v.encode(precision, scale, &mut bytes);
            put(place, &bytes);
        }
        _ => return None,
    }
    Some(())
}

/// Copies the first bytes of a slice to fill a place.
#[inline]
fn put(place: &mut [u8], bytes: &[u8]) {
    // Widths that are known to the compiler are copied by one instruction.
    if let (Ok(place), Some(bytes)) = (<&mut [u8; 4]>::try_from(&mut *place), bytes.first_chunk()) {
        *place = *bytes;
    } else if let (Ok(place), Some(bytes)) =
        (<&mut [u8; 8]>::try_from(&mut *place), bytes.first_chunk())
    {
        *place = *bytes;
    } else {
        for (to, from) in place.iter_mut().zip(bytes) {
            *to = *from;
        }
    }
}
