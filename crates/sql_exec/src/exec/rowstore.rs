//! Compact storage of the rows of a sort.
//!
//! A row is its sort key followed by its values, serialized into large chunks that never move, and
//! is referred to by its [`Place`]. So a million rows need no allocation each, and a sort moves
//! sixteen bytes per row.
//!
//! Invariants:
//! 1. Places ascend in insertion order.
//! 2. [`RowStore::row`] returns the values that were added.

use porpoise_types::{Date, DateTime, Decimal, Time, ValueRef};

/// Number of rows that [`RowStore::touch`] is called ahead.
pub(super) const AHEAD: usize = 16;

/// Bytes of a cache line.
const CACHE_LINE: usize = 64;

/// Bytes of a chunk; a longer row gets a chunk of its own.
const CHUNK: usize = 1 << 18;

/// Position of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    chunk: u32,
    at: u32,
}

impl Place {
    /// A number with the order of places.
    pub(super) fn number(self) -> u64 {
        u64::from(self.chunk) << 32 | u64::from(self.at)
    }
}

/// The values of a row.
pub(super) type Values<'s> = smallvec::SmallVec<[ValueRef<'s>; 16]>;

/// Append-only store of serialized rows; see the module.
#[derive(Debug, Default)]
pub(super) struct RowStore {
    chunks: Vec<Vec<u8>>,
    bytes: u64,
}

impl RowStore {
    /// Memory in use, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Removes all rows; the first chunk is kept for the next ones.
    pub(super) fn clear(&mut self) {
        self.chunks.truncate(1);
        self.bytes = 0;
        if let Some(first) = self.chunks.first_mut() {
            first.clear();
            self.bytes = first.capacity() as u64;
        }
    }

    /// Adds a row. Returns `None` after four billion chunks.
    pub(super) fn add(&mut self, key: &[u8], values: &[ValueRef<'_>]) -> Option<Place> {
        let size = 4 + key.len() + values.iter().map(size_of).sum::<usize>();
        let fits = |c: &Vec<u8>| c.capacity() - c.len() >= size;
        if !self.chunks.last().is_some_and(fits) {
            let capacity = size.max(self.capacity());
            self.chunks.push(Vec::with_capacity(capacity));
            self.bytes += capacity as u64;
        }
        let chunk = u32::try_from(self.chunks.len().checked_sub(1)?).ok()?;
        let out = self.chunks.last_mut()?;
        let at = u32::try_from(out.len()).ok()?;
        out.extend_from_slice(&u32::try_from(key.len()).ok()?.to_le_bytes());
        out.extend_from_slice(key);
        for value in values {
            write(*value, out);
        }
        Some(Place { chunk, at })
    }

    /// Capacity of the next chunk: chunks start small and grow.
    fn capacity(&self) -> usize {
        match self.chunks.last() {
            None => 1 << 12,
            Some(last) => last.capacity().saturating_mul(2).min(CHUNK),
        }
    }

    /// Loads the first cache lines of a row that will be read soon, without waiting for them: sorted
    /// rows are in random order, and a load from memory takes as long as sending a row.
    #[inline]
    pub(super) fn touch(&self, place: Place) {
        let row = self.from(place);
        std::hint::black_box((row.first(), row.get(CACHE_LINE)));
    }

    fn from(&self, place: Place) -> &[u8] {
        let chunk = self.chunks.get(place.chunk as usize);
        let rest = chunk.and_then(|c| c.get(place.at as usize..));
        rest.unwrap_or_default()
    }

    fn parts(&self, place: Place) -> (&[u8], &[u8]) {
        let Some((length, rest)) = self.from(place).split_first_chunk::<4>() else {
            return (&[], &[]);
        };
        let length = u32::from_le_bytes(*length) as usize;
        rest.split_at_checked(length).unwrap_or_default()
    }

    /// A row's key.
    pub(super) fn key(&self, place: Place) -> &[u8] {
        self.parts(place).0
    }

    /// The first `values` values of a row.
    pub(super) fn row(&self, place: Place, values: usize) -> Values<'_> {
        values_of(self.parts(place).1, values)
    }

    /// As [`RowStore::row`], into a list.
    pub(super) fn read_row<'s>(&'s self, place: Place, values: usize, row: &mut Values<'s>) {
        row.clear();
        let mut rest = self.parts(place).1;
        for _ in 0..values {
            row.push(read(&mut rest).unwrap_or(ValueRef::Null));
        }
    }

    /// The first `values` values of a row in encoded form, for [`values_of`].
    pub(super) fn encoded(&self, place: Place, values: usize) -> &[u8] {
        let all = self.parts(place).1;
        let rest = skip(all, values).map_or(0, <[u8]>::len);
        all.get(..all.len() - rest).unwrap_or_default()
    }

    /// The first value of a row, which must be bytes.
    pub(super) fn bytes_of(&self, place: Place) -> &[u8] {
        match read(&mut self.parts(place).1) {
            Some(ValueRef::Bytes(bytes)) => bytes,
            _ => &[],
        }
    }
}

/// Decodes the first `values` values that [`write()`] has encoded.
pub(super) fn values_of(mut rest: &[u8], values: usize) -> Values<'_> {
    let one = |_| read(&mut rest).unwrap_or(ValueRef::Null);
    (0..values).map(one).collect()
}

/// The bytes after the first `values` values.
#[inline]
pub(super) fn skip(mut rest: &[u8], values: usize) -> Option<&[u8]> {
    for _ in 0..values {
        rest = rest.get(encoded_len(rest)?..)?;
    }
    Some(rest)
}

/// The value after the first `before` values.
#[inline]
pub(super) fn nth(encoded: &[u8], before: usize) -> Option<ValueRef<'_>> {
    read(&mut skip(encoded, before)?)
}

/// As [`nth`], in encoded form.
#[inline]
pub(super) fn nth_encoded(encoded: &[u8], before: usize) -> Option<&[u8]> {
    let rest = skip(encoded, before)?;
    rest.get(..encoded_len(rest)?)
}

/// Number of bytes of the value at the front.
#[inline]
fn encoded_len(encoded: &[u8]) -> Option<usize> {
    Some(match *encoded.first()? {
        INT | UINT | DOUBLE | DATE | DATE_TIME | TIME => 9,
        BYTES => {
            let length = encoded.get(1..)?.first_chunk()?;
            5 + u32::from_le_bytes(*length) as usize
        }
        SMALL_DECIMAL => 10,
        DECIMAL => 1 + Decimal::IMAGE,
        _ => 1,
    })
}

const NULL: u8 = 0;
const INT: u8 = 1;
const UINT: u8 = 2;
const DOUBLE: u8 = 3;
const BYTES: u8 = 4;
const DATE: u8 = 5;
const DATE_TIME: u8 = 6;
const TIME: u8 = 7;
/// A decimal of up to 64 bits: its scale, and its unscaled number.
const SMALL_DECIMAL: u8 = 8;
const DECIMAL: u8 = 9;

/// Maximum size of a serialized value.
fn size_of(value: &ValueRef<'_>) -> usize {
    match value {
        ValueRef::Null => 1,
        ValueRef::Bytes(text) => 5 + text.len(),
        ValueRef::Decimal(_) => 1 + Decimal::IMAGE,
        _ => 9,
    }
}

/// Serializes a value; [`read`] reads it back.
pub(super) fn write(value: ValueRef<'_>, out: &mut Vec<u8>) {
    let mut eight = |tag: u8, bytes: [u8; 8]| {
        // One store of nine bytes: the tag, and the bytes after it.
        let both = u128::from(u64::from_le_bytes(bytes)) << 8 | u128::from(tag);
        out.extend_from_slice(both.to_le_bytes().first_chunk::<9>().unwrap_or(&[0; 9]));
    };
    match value {
        ValueRef::Null => out.push(NULL),
        ValueRef::Int(v) => eight(INT, v.to_le_bytes()),
        ValueRef::UInt(v) => eight(UINT, v.to_le_bytes()),
        ValueRef::Double(v) => eight(DOUBLE, v.to_bits().to_le_bytes()),
        ValueRef::Date(v) => eight(DATE, u64::from(v.packed()).to_le_bytes()),
        ValueRef::DateTime(v) => eight(DATE_TIME, v.packed().to_le_bytes()),
        ValueRef::Time(v) => eight(TIME, v.as_micros().to_le_bytes()),
        ValueRef::Bytes(text) => {
            out.push(BYTES);
            // A value is no longer than a packet, and a packet's length fits.
            let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(text.get(..length as usize).unwrap_or(text));
        }
        ValueRef::Decimal(v) => match v.unscaled() {
            Some((number, scale)) if i64::try_from(number).is_ok() => {
                let head = u128::from(SMALL_DECIMAL) | u128::from(scale) << 8;
                let all = u128::from(number as i64 as u64) << 16 | head;
                out.extend_from_slice(all.to_le_bytes().first_chunk::<10>().unwrap_or(&[0; 10]));
            }
            _ => {
                out.push(DECIMAL);
                out.extend_from_slice(&v.to_image());
            }
        },
    }
}

/// Splits `length` bytes off the front.
fn take<'s>(rest: &mut &'s [u8], length: usize) -> Option<&'s [u8]> {
    let (front, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(front)
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let (front, behind) = rest.split_first_chunk::<8>()?;
    *rest = behind;
    Some(u64::from_le_bytes(*front))
}

/// Reads a value off the front.
#[inline]
pub(super) fn read<'s>(rest: &mut &'s [u8]) -> Option<ValueRef<'s>> {
    let tag = *take(rest, 1)?.first()?;
    Some(match tag {
        INT => ValueRef::Int(number(rest)?.cast_signed()),
        UINT => ValueRef::UInt(number(rest)?),
        DOUBLE => ValueRef::Double(f64::from_bits(number(rest)?)),
        DATE => ValueRef::Date(Date::from_packed(u32::try_from(number(rest)?).ok()?)?),
        DATE_TIME => ValueRef::DateTime(DateTime::from_packed(number(rest)?)?),
        TIME => ValueRef::Time(Time::from_micros(number(rest)?.cast_signed())?),
        BYTES => {
            let (length, behind) = rest.split_first_chunk::<4>()?;
            *rest = behind;
            ValueRef::Bytes(take(rest, u32::from_le_bytes(*length) as usize)?)
        }
        SMALL_DECIMAL => {
            let scale = *take(rest, 1)?.first()?;
            let unscaled = number(rest)?.cast_signed();
            ValueRef::Decimal(Decimal::from_i128(i128::from(unscaled), scale).ok()?)
        }
        DECIMAL => {
            let image = take(rest, Decimal::IMAGE)?;
            ValueRef::Decimal(Decimal::from_image(image)?)
        }
        _ => ValueRef::Null,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_round_trip() {
        let decimal = |text: &str| ValueRef::Decimal(Decimal::parse(text.as_bytes()).unwrap());
        let long = vec![7u8; CHUNK + 1];
        let rows: Vec<(&[u8], Vec<ValueRef<'_>>)> = vec![
            (b"", vec![ValueRef::Null, ValueRef::Int(-1)]),
            (b"k", vec![ValueRef::UInt(u64::MAX), ValueRef::Double(-0.0)]),
            (b"key", vec![decimal("-1.50"), decimal("0.00")]),
            (
                b"",
                vec![decimal("99999999999999999999999.5"), ValueRef::Bytes(b"")],
            ),
            (
                b"x",
                vec![ValueRef::Bytes(&long), ValueRef::Bytes(b"short")],
            ),
            (
                b"y",
                vec![
                    ValueRef::Time(Time::from_micros(-5).unwrap()),
                    ValueRef::Date(Date::from_days(738_000).unwrap()),
                ],
            ),
        ];
        let mut store = RowStore::default();
        let mut places = Vec::new();
        for _ in 0..3000 {
            for (key, values) in &rows[..4] {
                places.push(store.add(key, values).unwrap());
            }
        }
        for (key, values) in &rows {
            places.push(store.add(key, values).unwrap());
        }
        assert!(places.is_sorted());
        let expected = (0..3000).flat_map(|_| &rows[..4]).chain(&rows);
        for (place, (key, values)) in places.iter().zip(expected) {
            assert_eq!(store.key(*place), *key);
            assert_eq!(
                store.row(*place, values.len()).as_slice(),
                values.as_slice()
            );
            let encoded = store.encoded(*place, values.len());
            for (at, value) in values.iter().enumerate() {
                assert_eq!(nth(encoded, at), Some(*value));
                assert_eq!(values_of(nth_encoded(encoded, at).unwrap(), 1)[0], *value);
            }
            assert_eq!(skip(encoded, values.len()), Some(&[][..]));
            assert_eq!(nth(encoded, values.len()), None);
        }
        assert!(store.bytes() > CHUNK as u64);
    }
}
