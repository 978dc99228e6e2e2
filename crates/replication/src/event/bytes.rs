//! Bounded reading and writing of the fields of events: little-endian integers, length-encoded integers and
//! strings.

use std::borrow::Cow;

/// Event or value that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{event} event: {reason}")]
pub struct DecodeError {
    /// Name of the event, as MySQL's documents have it.
    pub event: &'static str,
    /// Cause, with the field that is wrong.
    pub reason: Cow<'static, str>,
}

/// Result of decoding.
pub type Decoded<T> = Result<T, DecodeError>;

/// Cursor over the body of an event.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    event: &'static str,
}

impl<'a> Reader<'a> {
    /// A reader of the body of an event with this name.
    pub fn new(event: &'static str, bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, event }
    }

    /// An error that names the event.
    pub fn error(&self, reason: impl Into<Cow<'static, str>>) -> DecodeError {
        DecodeError {
            event: self.event,
            reason: reason.into(),
        }
    }

    /// Number of bytes left.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes `count` bytes of a field.
    ///
    /// # Errors
    /// Fewer bytes are left.
    pub fn take(&mut self, count: usize, field: &'static str) -> Decoded<&'a [u8]> {
        match self.bytes.split_at_checked(count) {
            Some((head, rest)) => {
                self.bytes = rest;
                Ok(head)
            }
            None => Err(self.error(format!(
                "{field} needs {count} bytes, {} are left",
                self.bytes.len()
            ))),
        }
    }

    /// Takes all remaining bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }

    /// Takes an array.
    ///
    /// # Errors
    /// Fewer bytes are left.
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Decoded<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, field)?);
        Ok(array)
    }

    /// Takes one byte.
    ///
    /// # Errors
    /// Nothing is left.
    pub fn u8(&mut self, field: &'static str) -> Decoded<u8> {
        Ok(self.array::<1>(field)?[0])
    }

    /// Takes an integer of two bytes.
    ///
    /// # Errors
    /// Fewer bytes are left.
    pub fn u16(&mut self, field: &'static str) -> Decoded<u16> {
        Ok(u16::from_le_bytes(self.array(field)?))
    }

    /// Takes an integer of four bytes.
    ///
    /// # Errors
    /// Fewer bytes are left.
    pub fn u32(&mut self, field: &'static str) -> Decoded<u32> {
        Ok(u32::from_le_bytes(self.array(field)?))
    }

    /// Takes an integer of eight bytes.
    ///
    /// # Errors
    /// Fewer bytes are left.
    pub fn u64(&mut self, field: &'static str) -> Decoded<u64> {
        Ok(u64::from_le_bytes(self.array(field)?))
    }

    /// Takes a little-endian integer of `width` bytes, at most 8.
    ///
    /// # Errors
    /// Fewer bytes are left.
    pub fn uint(&mut self, width: usize, field: &'static str) -> Decoded<u64> {
        let bytes = self.take(width.min(8), field)?;
        Ok(bytes
            .iter()
            .rev()
            .fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// Takes a big-endian integer of `width` bytes, at most 8.
    ///
    /// # Errors
    /// Fewer bytes are left.
    pub fn uint_be(&mut self, width: usize, field: &'static str) -> Decoded<u64> {
        let bytes = self.take(width.min(8), field)?;
        Ok(bytes
            .iter()
            .fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// Takes a length-encoded integer.
    ///
    /// # Errors
    /// Fewer bytes are left, or the first one is 0xFB or 0xFF.
    pub fn lenenc(&mut self, field: &'static str) -> Decoded<u64> {
        match self.u8(field)? {
            0xFC => self.uint(2, field),
            0xFD => self.uint(3, field),
            0xFE => self.uint(8, field),
            0xFB | 0xFF => Err(self.error(format!("{field} is no length-encoded integer"))),
            small => Ok(u64::from(small)),
        }
    }

    /// Takes a length-encoded integer that counts things of at least one byte each, so that it cannot exceed
    /// the bytes left.
    ///
    /// # Errors
    /// As [`Reader::lenenc`]; more than the bytes left.
    pub fn lenenc_count(&mut self, field: &'static str) -> Decoded<usize> {
        let count = self.lenenc(field)?;
        match usize::try_from(count) {
            Ok(count) if count <= self.bytes.len() => Ok(count),
            _ => Err(self.error(format!(
                "{field} is {count}, and {} bytes are left",
                self.bytes.len()
            ))),
        }
    }

    /// Takes a string with a length-encoded length.
    ///
    /// # Errors
    /// As [`Reader::lenenc_count`].
    pub fn lenenc_bytes(&mut self, field: &'static str) -> Decoded<&'a [u8]> {
        let length = self.lenenc_count(field)?;
        self.take(length, field)
    }

    /// Takes a string with a length of one byte.
    ///
    /// # Errors
    /// Fewer bytes are left.
    pub fn short_bytes(&mut self, field: &'static str) -> Decoded<&'a [u8]> {
        let length = self.u8(field)?;
        self.take(usize::from(length), field)
    }

    /// Takes a string that ends with a zero byte, which is skipped.
    ///
    /// # Errors
    /// There is no zero byte.
    pub fn zero_terminated(&mut self, field: &'static str) -> Decoded<&'a [u8]> {
        let Some(length) = self.bytes.iter().position(|byte| *byte == 0) else {
            return Err(self.error(format!("{field} has no end")));
        };
        let text = self.take(length, field)?;
        self.take(1, field)?;
        Ok(text)
    }
}

/// Appends a length-encoded integer.
pub fn put_lenenc(out: &mut Vec<u8>, value: u64) {
    match value {
        0..=250 => out.push(value as u8),
        251..=0xFFFF => {
            out.push(0xFC);
            put_uint(out, value, 2);
        }
        0x1_0000..=0xFF_FFFF => {
            out.push(0xFD);
            put_uint(out, value, 3);
        }
        _ => {
            out.push(0xFE);
            put_uint(out, value, 8);
        }
    }
}

/// Number of bytes of a length-encoded integer.
pub fn lenenc_len(value: u64) -> usize {
    match value {
        0..=250 => 1,
        251..=0xFFFF => 3,
        0x1_0000..=0xFF_FFFF => 4,
        _ => 9,
    }
}

/// Appends a string with a length-encoded length.
pub fn put_lenenc_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_lenenc(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends the low `width` bytes of an integer, little-endian.
pub fn put_uint(out: &mut Vec<u8>, value: u64, width: usize) {
    out.extend_from_slice(value.to_le_bytes().get(..width.min(8)).unwrap_or_default());
}

/// Appends the low `width` bytes of an integer, big-endian.
pub fn put_uint_be(out: &mut Vec<u8>, value: u64, width: usize) {
    out.extend(
        value
            .to_be_bytes()
            .into_iter()
            .skip(8usize.saturating_sub(width)),
    );
}

/// Appends a string with a length of one byte; longer ones are cut.
pub fn put_short_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let bytes = bytes.get(..255).unwrap_or(bytes);
    out.push(bytes.len() as u8);
    out.extend_from_slice(bytes);
}
