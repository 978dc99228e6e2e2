//! Result rows, in the text and in the binary format.
//!
//! A [`RowEncoder`] is created once per result from the columns' types. Encoding
//! a row appends one packet to the connection's output; nothing else is allocated.
//!
//! A value whose variant differs from its column's type (of a loosely typed expression)
//! is converted, so that each row matches the announced column definitions.

use porpoise_types::{ColumnType, Kind, ValueRef, write_text};

use super::column::code_of;
use super::cursor::{put_bytes, put_lenenc_with};
use super::frame;
use super::row_binary::put_binary;

/// Marker of NULL in a text row.
const NULL: u8 = 0xfb;

/// Conversion of a column's values to text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextConversion {
    /// Integers as decimal digits, bytes unchanged.
    Plain,
    /// By [`write_text`], which needs the column's type.
    Typed,
}

#[derive(Clone, Debug)]
struct Column {
    /// Type code, for the binary format.
    code: u8,
    text: TextConversion,
    ty: ColumnType,
}

/// Encodes the rows of one result.
#[derive(Clone, Debug, Default)]
pub struct RowEncoder {
    columns: Vec<Column>,
}

impl RowEncoder {
    /// Creates an encoder for columns of these types.
    pub fn new<'t>(types: impl IntoIterator<Item = &'t ColumnType>) -> RowEncoder {
        let mut encoder = RowEncoder::default();
        encoder.reset(types);
        encoder
    }

    /// Resets the encoder to other columns; reuses its memory.
    pub fn reset<'t>(&mut self, types: impl IntoIterator<Item = &'t ColumnType>) {
        self.columns.clear();
        self.columns.extend(types.into_iter().map(|ty| Column {
            code: code_of(ty),
            text: text_conversion(ty),
            ty: ty.clone(),
        }));
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// Appends a row in the text format. Surplus values are ignored, missing ones are NULL.
    #[inline]
    pub fn write_text(&self, out: &mut Vec<u8>, sequence: &mut u8, values: &[ValueRef<'_>]) {
        let packet = frame::begin(out);
        let mut values = values.iter();
        for column in &self.columns {
            match values.next() {
                None | Some(ValueRef::Null) => out.push(NULL),
                Some(&value) => put_text(out, column, value),
            }
        }
        frame::finish(out, packet, sequence);
    }

    /// Appends a row in the binary format. Surplus values are ignored, missing ones are NULL.
    #[inline]
    pub fn write_binary(&self, out: &mut Vec<u8>, sequence: &mut u8, values: &[ValueRef<'_>]) {
        let packet = frame::begin(out);
        out.push(0);
        let nulls = out.len();
        // The null bitmap starts with two reserved bits.
        out.resize(nulls + (self.columns.len() + 2).div_ceil(8), 0);
        let mut values = values.iter();
        for (i, column) in self.columns.iter().enumerate() {
            match values.next() {
                None | Some(ValueRef::Null) => {
                    if let Some(bits) = out.get_mut(nulls + (i + 2) / 8) {
                        *bits |= 1 << ((i + 2) % 8);
                    }
                }
                Some(&value) => put_binary(out, column.code, &column.ty, value),
            }
        }
        frame::finish(out, packet, sequence);
    }
}

fn text_conversion(ty: &ColumnType) -> TextConversion {
    let needs_type = ty.zerofill
        || matches!(
            ty.kind,
            Kind::Bit | Kind::Year | Kind::Set | Kind::Enum | Kind::Decimal
        );
    if needs_type {
        TextConversion::Typed
    } else {
        TextConversion::Plain
    }
}

#[inline]
fn put_text(out: &mut Vec<u8>, column: &Column, value: ValueRef<'_>) {
    match value {
        ValueRef::Bytes(bytes) => put_bytes(out, bytes),
        ValueRef::Int(n) if column.text == TextConversion::Plain => {
            put_digits(out, itoa::Buffer::new().format(n))
        }
        ValueRef::UInt(n) if column.text == TextConversion::Plain => {
            put_digits(out, itoa::Buffer::new().format(n))
        }
        _ => put_lenenc_with(out, |out| write_text(value, &column.ty, out)),
    }
}

#[inline]
fn put_digits(out: &mut Vec<u8>, digits: &str) {
    // 20 characters at most.
    out.push(digits.len() as u8);
    out.extend_from_slice(digits.as_bytes());
}
