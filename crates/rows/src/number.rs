//! Columns of fixed width as plain integers, read without making values.
//!
//! Integers, decimals of up to 18 digits (times ten to their scale), dates and
//! times (their packed forms) all are one integer of at most eight bytes in the
//! row, and order as the values do. Filters, sums and comparisons over many
//! rows read that integer and nothing else.
//!
//! Invariants:
//! 1. Of two values of one column the greater has the greater number, and equal
//!    values have equal numbers.
//! 2. What a row of an older layout holds, or a number past `i64`, is
//!    [`Number::Other`]: the caller asks [`RowRef::get`].
//!
//! Every row has at least eight bytes before the end of its first column
//! (docs/formats.md, "Rows"), so that one load of eight bytes that ends where
//! the column ends does for all widths.

use crate::row::RowRef;
use crate::table::Table;
use crate::table::layout::{Layout, Storage};
use porpoise_types::{ColumnType, Decimal};

/// How the eight bytes that end with the column become a number.
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
    /// End of its bytes, from the body's start.
    end: usize,
    /// Bits of the eight bytes that are not the column's.
    unused: u32,
    form: Form,
    null_byte: usize,
    null_bit: u8,
}

/// What is read of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// NULL.
    Null,
    /// The number.
    Value(i64),
    /// It cannot be read in this way.
    Other,
}

/// Digits of a decimal that is read as a number, at most.
pub const NUMBER_DIGITS: u32 = 18;

/// Whether a value of the type can be one integer in eight bytes.
fn form(ty: &ColumnType, storage: Storage) -> Option<Form> {
    Some(match storage {
        Storage::Int(_) | Storage::Time => Form::Signed,
        Storage::UInt(_) | Storage::Date | Storage::DateTime => Form::Unsigned,
        Storage::Decimal { .. } if ty.length <= NUMBER_DIGITS => Form::Decimal,
        Storage::Decimal { .. } | Storage::Float | Storage::Double | Storage::Bytes => return None,
    })
}

impl Table {
    /// What reads the column at a position as a number; `None` where its
    /// values are not of a kind that allows it.
    pub fn number_column(&self, position: usize) -> Option<NumberColumn<'_>> {
        let layout = self.derived().current();
        let slot = layout.slot(position)?;
        let form = form(&self.columns.get(position)?.ty, slot.storage)?;
        let width = slot.storage.width();
        Some(NumberColumn {
            layout,
            position,
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
    /// The number of a column.
    #[inline]
    pub fn number(&self, column: &NumberColumn<'_>) -> Number {
        if !std::ptr::eq(self.layout(), column.layout) {
            return Number::Other;
        }
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

/// The number of a decimal of this scale, as [`RowRef::number`] reads it.
pub fn number_of(decimal: Decimal, scale: u8) -> Option<i64> {
    let (number, own) = decimal.unscaled()?;
    let up = 10i128.checked_pow(u32::from(scale.checked_sub(own)?))?;
    i64::try_from(number.checked_mul(up)?).ok()
}
