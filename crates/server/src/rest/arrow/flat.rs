//! Tables, vectors and strings of FlatBuffers (<https://flatbuffers.dev/internals/>), written forwards:
//! an object is appended after the object that refers to it, and the reference is filled in afterwards.

/// A field of a table, in the order of its schema.
#[derive(Clone, Copy, Debug)]
pub(super) enum Field {
    /// The field is absent, and so has its default.
    Default,
    U8(u8),
    I16(i16),
    I32(i32),
    I64(i64),
    /// A reference, to be filled in by [`Flat::refer_to`].
    Reference,
}

impl Field {
    fn size(self) -> usize {
        match self {
            Field::Default => 0,
            Field::U8(_) => 1,
            Field::I16(_) => 2,
            Field::I32(_) | Field::Reference => 4,
            Field::I64(_) => 8,
        }
    }
}

/// A buffer in progress. Its first four bytes refer to the root table.
#[derive(Debug)]
pub(super) struct Flat {
    bytes: Vec<u8>,
}

/// Place of a reference that is filled in later.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place(usize);

impl Flat {
    /// An empty buffer, with the place of the reference to the root.
    pub(super) fn new() -> (Flat, Place) {
        (Flat { bytes: vec![0; 4] }, Place(0))
    }

    /// Appends zeros until the position is `offset` beyond a multiple of `unit`.
    fn align(&mut self, unit: usize, offset: usize) {
        while self.bytes.len() % unit != offset {
            self.bytes.push(0);
        }
    }

    fn put_u16(&mut self, value: usize) {
        let value = u16::try_from(value).unwrap_or(u16::MAX);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u32(&mut self, value: usize) {
        let value = u32::try_from(value).unwrap_or(u32::MAX);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    fn set_u32(&mut self, at: usize, value: usize) {
        let value = u32::try_from(value).unwrap_or(u32::MAX);
        if let Some(place) = self.bytes.get_mut(at..at + 4) {
            place.copy_from_slice(&value.to_le_bytes());
        }
    }

    /// Fills in the reference at a place: it refers to `position`, where the next object is appended.
    fn refer_to(&mut self, place: Place, position: usize) {
        self.set_u32(place.0, position - place.0);
    }

    /// Appends a table to which `place` refers. Returns the places of its references.
    pub(super) fn table<const N: usize>(&mut self, place: Place, fields: [Field; N]) -> [Place; N] {
        // Fields are in descending order of size, after the reference to the vtable, so that all
        // are aligned if the table begins four bytes before a multiple of eight.
        let mut offsets = [0; N];
        let mut size = 4;
        for wanted in [8, 4, 2, 1] {
            for (field, offset) in fields.iter().zip(&mut offsets) {
                if field.size() == wanted {
                    *offset = size;
                    size += wanted;
                }
            }
        }
        let offsets_size = 4 + 2 * N;
        self.align(8, (16 - offsets_size % 8 + 4) % 8);
        let start = self.bytes.len();
        self.put_u16(offsets_size);
        self.put_u16(size);
        for offset in offsets {
            self.put_u16(offset);
        }
        let table = self.bytes.len();
        self.refer_to(place, table);
        self.put_u32(table - start);
        self.bytes.resize(table + size, 0);
        let mut places = [Place(0); N];
        for ((field, offset), place) in fields.iter().zip(offsets).zip(&mut places) {
            *place = Place(table + offset);
            let at = place.0..place.0 + field.size();
            let Some(bytes) = self.bytes.get_mut(at) else {
                continue;
            };
            match field {
                Field::Default | Field::Reference => {}
                Field::U8(value) => bytes.copy_from_slice(&[*value]),
                Field::I16(value) => bytes.copy_from_slice(&value.to_le_bytes()),
                Field::I32(value) => bytes.copy_from_slice(&value.to_le_bytes()),
                Field::I64(value) => bytes.copy_from_slice(&value.to_le_bytes()),
            }
        }
        places
    }

    /// Appends a string to which `place` refers.
    pub(super) fn text(&mut self, place: Place, text: &str) {
        self.align(4, 0);
        self.refer_to(place, self.bytes.len());
        self.put_u32(text.len());
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(0);
    }

    /// Appends a vector of references to which `place` refers. Returns their places.
    pub(super) fn references(&mut self, place: Place, count: usize) -> Vec<Place> {
        self.align(4, 0);
        self.refer_to(place, self.bytes.len());
        self.put_u32(count);
        let start = self.bytes.len();
        self.bytes.resize(start + 4 * count, 0);
        (0..count).map(|n| Place(start + 4 * n)).collect()
    }

    /// Appends a vector of structs of two numbers to which `place` refers.
    pub(super) fn pairs(&mut self, place: Place, pairs: &[(i64, i64)]) {
        self.align(8, 4);
        self.refer_to(place, self.bytes.len());
        self.put_u32(pairs.len());
        for (first, second) in pairs {
            self.bytes.extend_from_slice(&first.to_le_bytes());
            self.bytes.extend_from_slice(&second.to_le_bytes());
        }
    }

    /// The bytes, padded to a multiple of eight.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.align(8, 0);
        self.bytes
    }
}
