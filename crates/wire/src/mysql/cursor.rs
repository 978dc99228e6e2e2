//! Primitive encodings: little-endian integers, length-encoded integers and
//! strings, NUL-terminated strings.

/// Reads a payload from its start. A read past the end returns `None`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) const EMPTY: Cursor<'static> = Cursor { rest: &[] };

    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Cursor { rest: bytes }
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline]
    pub(super) fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        Some(head)
    }

    #[inline]
    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*head)
    }

    #[inline]
    pub(super) fn u8(&mut self) -> Option<u8> {
        let (head, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*head)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a length-encoded integer; `None` for the markers 0xFB (NULL) and 0xFF (error), too.
    #[inline]
    pub(super) fn lenenc(&mut self) -> Option<u64> {
        match self.u8()? {
            small @ 0..=0xfa => Some(u64::from(small)),
            0xfc => self.u16().map(u64::from),
            0xfd => {
                let [a, b, c] = self.array()?;
                Some(u64::from(u32::from_le_bytes([a, b, c, 0])))
            }
            0xfe => self.u64(),
            _ => None,
        }
    }

    /// A length-encoded string.
    #[inline]
    pub(super) fn lenenc_bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.lenenc()?;
        self.take(usize::try_from(length).ok()?)
    }

    /// Reads a NUL-terminated string and its terminator.
    pub(super) fn nul(&mut self) -> Option<&'a [u8]> {
        let end = memchr::memchr(0, self.rest)?;
        let text = self.take(end)?;
        self.u8()?;
        Some(text)
    }

    /// Reads a string up to NUL, or up to the end of the payload if there is no NUL.
    pub(super) fn nul_or_end(&mut self) -> &'a [u8] {
        match self.nul() {
            Some(text) => text,
            None => std::mem::take(&mut self.rest),
        }
    }
}

/// Appends a length-encoded integer.
#[inline]
pub(super) fn put_lenenc(out: &mut Vec<u8>, n: u64) {
    let bytes = n.to_le_bytes();
    let [a, b, c, ..] = bytes;
    match n {
        0..=0xfa => out.push(a),
        0xfb..=0xffff => out.extend_from_slice(&[0xfc, a, b]),
        0x1_0000..=0xff_ffff => out.extend_from_slice(&[0xfd, a, b, c]),
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&bytes);
        }
    }
}

/// Appends a length-encoded string.
#[inline]
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_lenenc(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a length-encoded string whose bytes `write` appends. Cheap for up to 250 bytes, as of
/// numbers and dates; longer strings are moved once.
#[inline]
pub(super) fn put_lenenc_with(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.push(0);
    write(out);
    let length = out.len().saturating_sub(at + 1);
    if let (Ok(short @ 0..=0xfa), Some(slot)) = (u8::try_from(length), out.get_mut(at)) {
        *slot = short;
        return;
    }
    let text = out.split_off(at + 1);
    out.truncate(at);
    put_bytes(out, &text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_encoded_integers_round_trip() {
        for n in [
            0,
            250,
            251,
            0xffff,
            0x1_0000,
            0xff_ffff,
            0x100_0000,
            u64::MAX,
        ] {
            let mut out = Vec::new();
            put_lenenc(&mut out, n);
            let mut cursor = Cursor::new(&out);
            assert_eq!(cursor.lenenc(), Some(n));
            assert!(cursor.is_empty());
            for cut in 0..out.len() {
                assert_eq!(Cursor::new(&out[..cut]).lenenc(), None);
            }
        }
        assert_eq!(Cursor::new(&[0xfb]).lenenc(), None);
        assert_eq!(Cursor::new(&[0xff]).lenenc(), None);
    }

    #[test]
    fn texts_of_any_length_are_preceded_by_their_length() {
        for n in [0usize, 1, 250, 251, 340, 70_000] {
            let mut out = vec![9];
            put_lenenc_with(&mut out, |o| o.resize(o.len() + n, b'1'));
            let mut cursor = Cursor::new(&out[1..]);
            assert_eq!(cursor.lenenc_bytes().map(<[u8]>::len), Some(n));
            assert!(cursor.is_empty());
        }
    }
}
