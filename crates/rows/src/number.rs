//! Reads columns of fixed width as plain integers, without creating a `Value`.
//!
//! Integers, decimals of up to 18 digits (scaled by their power of ten), dates and times (packed)
//! are integers of at most eight bytes in the row, in the order of the values. Filters, sums and
//! comparisons over many rows read only that integer.
//!
//! Invariants:
//! 1. Numbers of one column order as its values, and are equal for equal values.
//! 2. A value that a row of another layout stores in another form, or beyond `i64`, is
//!    [`Number::Other`]: the caller uses [`RowRef::get`].
//!
//! Every row has at least eight bytes before the end of its first column (docs/formats.md, "Rows"),
//! so that one eight-byte load that ends at the column's end serves all widths.

use crate::row::RowRef;
use crate::table::Table;
use crate::table::layout::{Layout, Slot, Storage};
use porpoise_types::{ColumnType, Decimal};

/// Conversion of the eight bytes that end with the column to a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Signed,
    Unsigned,
    /// Big-endian, sign bit flipped.
    Decimal,
}

/// A column whose values are read as numbers.
#[derive(Clone, Copy, Debug)]
pub struct NumberColumn<'t> {
    layout: &'t Layout,
    position: usize,
    storage: Storage,
    /// End of its bytes, from the body's start.
    end: usize,
    /// Number of bits of the eight bytes that do not belong to the column.
    unused: u32,
    form: Form,
    null_byte: usize,
    null_bit: u8,
}

/// A number read from a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// NULL.
    Null,
    /// The number.
    Value(i64),
    /// The value cannot be read as a number.
    Other,
}

/// Maximum number of digits of a decimal that is read as a number.
pub const NUMBER_DIGITS: u32 = 18;

/// Returns the conversion for a type whose values fit into eight bytes.
fn form(ty: &ColumnType, storage: Storage) -> Option<Form> {
    Some(match storage {
        Storage::Int(_) | Storage::Time => Form::Signed,
        Storage::UInt(_) | Storage::Date | Storage::DateTime => Form::Unsigned,
        Storage::Decimal { .. } if ty.length <= NUMBER_DIGITS => Form::Decimal,
        Storage::Decimal { .. } | Storage::Float | Storage::Double | Storage::Bytes => return None,
    })
}

impl Table {
    /// Creates a reader of the column at a position; `None` if its type does not allow it.
    pub fn number_column(&self, position: usize) -> Option<NumberColumn<'_>> {
        let layout = self.derived().current();
        let slot = layout.slot(position)?;
        let form = form(&self.columns.get(position)?.ty, slot.storage)?;
        let width = slot.storage.width();
        Some(NumberColumn {
            layout,
            position,
            storage: slot.storage,
            end: slot.at + width,
            unused: 64 - 8 * u32::try_from(width).ok().filter(|w| (1..=8).contains(w))?,
            form,
            null_byte: slot.number / 8,
            null_bit: 1 << (slot.number % 8),
        })
    }
}

impl NumberColumn<'_> {
    /// The column's position in its table.
    pub fn position(&self) -> usize {
        self.position
    }

    /// The same column in the slot of another layout.
    fn in_slot(&self, slot: &Slot) -> Self {
        NumberColumn {
            end: slot.at + slot.storage.width(),
            null_byte: slot.number / 8,
            null_bit: 1 << (slot.number % 8),
            ..*self
        }
    }

    fn number(&self, bytes: &[u8; 8]) -> Number {
        Number::Value(match self.form {
            Form::Signed => i64::from_le_bytes(*bytes) >> self.unused,
            Form::Unsigned => match i64::try_from(u64::from_le_bytes(*bytes) >> self.unused) {
                Ok(number) => number,
                Err(_) => return Number::Other,
            },
            Form::Decimal => {
                let raw = u64::from_be_bytes(*bytes) << self.unused ^ 1 << 63;
                raw.cast_signed() >> self.unused
            }
        })
    }
}

impl<'a> RowRef<'a> {
    /// Reads a column as a number.
    #[inline]
    pub fn number(&self, column: &NumberColumn<'_>) -> Number {
        if !std::ptr::eq(self.layout(), column.layout) {
            let own = self.layout().slot(column.position);
            return match own.filter(|own| own.storage == column.storage) {
                Some(own) => self.number_at(&column.in_slot(own)),
                None => Number::Other,
            };
        }
        self.number_at(column)
    }

    /// Reads a column whose position and width are those of the row's layout.
    #[inline]
    fn number_at(&self, column: &NumberColumn<'_>) -> Number {
        let body = self.body();
        let flags = body.get(column.null_byte).copied().unwrap_or(u8::MAX);
        if flags & column.null_bit != 0 {
            return Number::Null;
        }
        let end = self.body_start() + column.end;
        let start = end.saturating_sub(8);
        match self.bytes().get(start..end).and_then(<[u8]>::first_chunk) {
            Some(bytes) => column.number(bytes),
            None => Number::Other,
        }
    }
}

/// Converts a decimal of this scale to the number that [`RowRef::number`] reads.
pub fn number_of(decimal: Decimal, scale: u8) -> Option<i64> {
    let (number, own) = decimal.unscaled()?;
    let up = 10i128.checked_pow(u32::from(scale.checked_sub(own)?))?;
    i64::try_from(number.checked_mul(up)?).ok()
}
