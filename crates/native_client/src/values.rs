//! Values of a row, decoded from the received bytes without a copy.

use crate::error::Result;
use crate::row::Row;
use porpoise_types::ValueRef;
use porpoise_wire::native::Reader;
use porpoise_wire::native::value::{self, Encoding};

/// Values of a row, in the order of the requested columns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowValues<'a> {
    bytes: &'a [u8],
    encodings: &'a [Encoding],
}

impl<'a> RowValues<'a> {
    /// Reads the values, and verifies that they can be decoded.
    #[inline]
    pub(crate) fn read(
        reader: &mut Reader<'a>,
        encodings: &'a [Encoding],
    ) -> Option<RowValues<'a>> {
        let all = reader.rest();
        value::get_row(reader, encodings.iter().copied(), |_, _| {})?;
        let bytes = all.get(..all.len() - reader.rest().len())?;
        Some(RowValues { bytes, encodings })
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.encodings.len()
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.encodings.is_empty()
    }

    /// The first value.
    #[inline]
    pub fn first(&self) -> Option<ValueRef<'a>> {
        self.into_iter().next()
    }

    /// The value at a position. The values before it are skipped, in linear time.
    pub fn get(&self, position: usize) -> Option<ValueRef<'a>> {
        self.into_iter().nth(position)
    }

    /// Converts these values, which were read with `.columns(T::COLUMNS)`, to a row.
    ///
    /// # Errors
    /// A value is of another type.
    pub fn to_row<T: Row>(&self) -> Result<T> {
        T::from_values(*self)
    }

    /// All values.
    pub fn to_vec(&self) -> Vec<ValueRef<'a>> {
        self.into_iter().collect()
    }
}

impl<'a> IntoIterator for RowValues<'a> {
    type Item = ValueRef<'a>;
    type IntoIter = Iter<'a>;

    #[inline]
    fn into_iter(self) -> Iter<'a> {
        let (bitmap, values) = self
            .bytes
            .split_at_checked(self.encodings.len().div_ceil(8))
            .unwrap_or_default();
        Iter {
            bitmap,
            reader: Reader::new(values),
            encodings: self.encodings.iter().enumerate(),
        }
    }
}

/// Iterator over the values of a row.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    bitmap: &'a [u8],
    reader: Reader<'a>,
    encodings: std::iter::Enumerate<std::slice::Iter<'a, Encoding>>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = ValueRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<ValueRef<'a>> {
        let (n, encoding) = self.encodings.next()?;
        let byte = self.bitmap.get(n / 8).copied().unwrap_or(0);
        if byte & (1 << (n % 8)) != 0 {
            return Some(ValueRef::Null);
        }
        value::get(&mut self.reader, *encoding)
    }
}
