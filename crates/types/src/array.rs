//! Arrays of index keys: the stored value of a multi-valued key part (docs/formats.md, "Arrays of
//! index keys").
//!
//! The elements of an array are encoded as keys of a nullable column ([`crate::encode_key`]), so
//! that index entries are written without a conversion. An array is the elements in ascending
//! order, each once, each after its length in two bytes (big-endian). An empty array has no bytes.

use crate::column_type::ColumnType;
use crate::key::encode_key;
use crate::value::ValueRef;

/// Maximum number of elements of one array (manual, "CREATE INDEX Statement", Multi-Valued
/// Indexes).
pub const MAX_ELEMENTS: usize = 1604;

/// Maximum total length of the elements' keys.
pub const MAX_KEY_BYTES: usize = 65_221;

/// Maximum length of an encoded array.
pub const MAX_BYTES: u32 = (MAX_KEY_BYTES + 2 * MAX_ELEMENTS) as u32;

/// Collects the elements of an array.
#[derive(Debug, Default)]
pub struct ArrayBuilder {
    keys: Vec<Vec<u8>>,
}

/// The error of an array that exceeds a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayTooBig {
    /// Number of elements beyond [`MAX_ELEMENTS`].
    Elements(usize),
    /// Number of bytes beyond [`MAX_KEY_BYTES`].
    Bytes(usize),
}

impl ArrayBuilder {
    /// Adds an element: a storage value of the type, not NULL.
    pub fn push(&mut self, value: ValueRef<'_>, ty: &ColumnType) {
        let mut key = Vec::with_capacity(12);
        encode_key(value, ty, true, false, &mut key);
        self.keys.push(key);
    }

    /// Encodes the array.
    ///
    /// # Errors
    /// See [`ArrayTooBig`].
    pub fn encode(mut self) -> Result<Vec<u8>, ArrayTooBig> {
        self.keys.sort_unstable();
        self.keys.dedup();
        if let Some(over @ 1..) = self.keys.len().checked_sub(MAX_ELEMENTS) {
            return Err(ArrayTooBig::Elements(over));
        }
        let bytes: usize = self.keys.iter().map(Vec::len).sum();
        if let Some(over @ 1..) = bytes.checked_sub(MAX_KEY_BYTES) {
            return Err(ArrayTooBig::Bytes(over));
        }
        let mut out = Vec::with_capacity(bytes + 2 * self.keys.len());
        for key in self.keys {
            let len = u16::try_from(key.len()).unwrap_or(u16::MAX);
            out.extend_from_slice(&len.to_be_bytes());
            out.extend_from_slice(&key);
        }
        Ok(out)
    }
}

/// An iterator over the elements of an encoded array, in order. It ends at bytes that are not an
/// element.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a> {
    rest: &'a [u8],
}

/// The elements of an encoded array.
#[must_use]
pub fn elements(array: &[u8]) -> Elements<'_> {
    Elements { rest: array }
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (len, rest) = self.rest.split_first_chunk::<2>()?;
        let (element, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
        self.rest = rest;
        Some(element)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Value, decode_key};

    fn encoded(values: &[i64]) -> Result<Vec<u8>, ArrayTooBig> {
        let mut array = ArrayBuilder::default();
        for v in values {
            array.push(ValueRef::Int(*v), &ColumnType::bigint());
        }
        array.encode()
    }

    #[test]
    fn elements_are_sorted_and_distinct() {
        let bytes = encoded(&[3, -1, 3, 7, -1]).unwrap();
        let decode = |mut key: &[u8]| decode_key(&ColumnType::bigint(), true, &mut key).unwrap();
        let found: Vec<Value> = elements(&bytes).map(decode).collect();
        assert_eq!(found, [Value::Int(-1), Value::Int(3), Value::Int(7)]);
        assert_eq!(encoded(&[]).unwrap(), Vec::<u8>::new());
        assert_eq!(elements(&[]).count(), 0);
    }

    #[test]
    fn limits_report_the_exceeding_count() {
        let many: Vec<i64> = (0..MAX_ELEMENTS as i64).collect();
        assert!(encoded(&many).is_ok());
        let more: Vec<i64> = (0..MAX_ELEMENTS as i64 + 3).collect();
        assert_eq!(encoded(&more), Err(ArrayTooBig::Elements(3)));
        let mut array = ArrayBuilder::default();
        let ty = ColumnType::varbinary(4000);
        for n in 0..20u8 {
            array.push(ValueRef::Bytes(&[n + 1; 4000]), &ty);
        }
        assert!(matches!(array.encode(), Err(ArrayTooBig::Bytes(_))));
    }

    #[test]
    fn other_bytes_end_the_array() {
        assert_eq!(elements(&[0]).count(), 0);
        assert_eq!(elements(&[0, 1, 9, 0, 5, 1]).count(), 1);
    }
}
