//! Keys encoded in base64: the `b` flag of meta commands.

use porpoise_base::base64::decode_quad;

/// Maximum length of a decoded key: [`super::MAX_KEY`] characters encode no more.
pub const MAX_DECODED: usize = super::MAX_KEY / 4 * 3;

/// A decoded key.
#[derive(Clone, Copy, Debug)]
pub struct Decoded {
    bytes: [u8; MAX_DECODED],
    length: usize,
}

impl Decoded {
    /// Decodes a key; `None` if it is not valid base64, empty, or too long.
    pub fn of(text: &[u8]) -> Option<Decoded> {
        let mut decoded = Decoded {
            bytes: [0; MAX_DECODED],
            length: 0,
        };
        if text.is_empty() || !text.len().is_multiple_of(4) {
            return None;
        }
        let quads = text.len() / 4;
        for (n, quad) in text.chunks_exact(4).enumerate() {
            decoded.push(quad, n + 1 == quads)?;
        }
        Some(decoded)
    }

    /// Decodes four characters; padding is allowed in the last four only.
    fn push(&mut self, quad: &[u8], last: bool) -> Option<()> {
        let (bytes, count) = decode_quad(quad, last)?;
        for byte in bytes.iter().take(count) {
            *self.bytes.get_mut(self.length)? = *byte;
            self.length += 1;
        }
        Some(())
    }

    /// Returns the key.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_decoded() {
        let pairs: [(&[u8], &[u8]); 4] = [
            (b"f", b"Zg=="),
            (b"fo", b"Zm8="),
            (b"foo", b"Zm9v"),
            (b"foobar", b"Zm9vYmFy"),
        ];
        for (plain, encoded) in pairs {
            assert_eq!(Decoded::of(encoded).unwrap().bytes(), plain);
        }
    }

    #[test]
    fn keys_that_are_no_base64_empty_or_too_long_are_refused() {
        let bad: [&[u8]; 8] = [
            b"",
            b"Zg",
            b"Zg=",
            b"Z===",
            b"====",
            b"Zg==Zg==",
            b"Z*9v",
            b"Zm9v\n",
        ];
        for text in bad {
            assert!(Decoded::of(text).is_none(), "{}", text.escape_ascii());
        }
        assert!(Decoded::of(&[b'A'; 248]).is_some());
        assert!(Decoded::of(&[b'A'; 252]).is_none());
    }
}
