//! Character sets: validity, counting and conversion.
//!
//! Latin1 is MySQL's: Windows code page 1252, with its five unassigned bytes mapped to the control
//! characters with the same number.

use porpoise_base::interrupt::Pacer;
use std::borrow::Cow;

use super::Collation;

/// A character set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Charset {
    /// Bytes.
    Binary,
    /// UTF-8.
    Utf8mb4,
    /// UTF-8 of up to three bytes a character.
    Utf8mb3,
    /// Code page 1252.
    Latin1,
    /// Seven bits.
    Ascii,
}

/// Code points of the bytes 0x80 to 0x9F in code page 1252.
const CP1252: [u16; 32] = [
    0x20AC, 0x0081, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160, 0x2039,
    0x0152, 0x008D, 0x017D, 0x008F, 0x0090, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
    0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0x009D, 0x017E, 0x0178,
];

fn latin1_to_code(byte: u8) -> u32 {
    match byte {
        0x80..=0x9F => CP1252
            .get(usize::from(byte - 0x80))
            .map_or(0xFFFD, |c| u32::from(*c)),
        _ => u32::from(byte),
    }
}

pub(super) fn code_to_latin1(code: u32) -> Option<u8> {
    match code {
        0..=0x7F | 0xA0..=0xFF => u8::try_from(code).ok(),
        _ => {
            let at = CP1252.iter().position(|c| u32::from(*c) == code)?;
            u8::try_from(at + 0x80).ok()
        }
    }
}

/// Decodes the first character of UTF-8 text: code point and length. Returns `None` for invalid
/// bytes and for empty text.
#[inline]
pub(crate) fn decode_utf8(text: &[u8]) -> Option<(u32, usize)> {
    let continuation = |b: u8| (b & 0xC0 == 0x80).then_some(u32::from(b & 0x3F));
    match *text {
        [a @ 0..=0x7F, ..] => Some((u32::from(a), 1)),
        [a @ 0xC2..=0xDF, b, ..] => Some((u32::from(a & 0x1F) << 6 | continuation(b)?, 2)),
        [a @ 0xE0..=0xEF, b, c, ..] => {
            let code = u32::from(a & 0x0F) << 12 | continuation(b)? << 6 | continuation(c)?;
            (code >= 0x800 && !(0xD800..=0xDFFF).contains(&code)).then_some((code, 3))
        }
        [a @ 0xF0..=0xF4, b, c, d, ..] => {
            let code = u32::from(a & 0x07) << 18
                | continuation(b)? << 12
                | continuation(c)? << 6
                | continuation(d)?;
            (0x1_0000..=0x10_FFFF).contains(&code).then_some((code, 4))
        }
        _ => None,
    }
}

impl Charset {
    /// MySQL's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Charset::Binary => "binary",
            Charset::Utf8mb4 => "utf8mb4",
            Charset::Utf8mb3 => "utf8mb3",
            Charset::Latin1 => "latin1",
            Charset::Ascii => "ascii",
        }
    }

    /// The character set of a name, in any case; `utf8` is `utf8mb3`.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Charset> {
        const NAMES: [(&str, Charset); 6] = [
            ("binary", Charset::Binary),
            ("utf8mb4", Charset::Utf8mb4),
            ("utf8mb3", Charset::Utf8mb3),
            ("utf8", Charset::Utf8mb3),
            ("latin1", Charset::Latin1),
            ("ascii", Charset::Ascii),
        ];
        NAMES
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, c)| *c)
    }

    /// MySQL 8's default collation of the character set.
    #[must_use]
    pub fn default_collation(self) -> Collation {
        Collation::default_for(self)
    }

    /// Maximum number of bytes of a character.
    #[must_use]
    pub fn max_len(self) -> u32 {
        match self {
            Charset::Utf8mb4 => 4,
            Charset::Utf8mb3 => 3,
            _ => 1,
        }
    }

    /// Decodes the first character: its code and length. The code is the code point, the byte for
    /// `binary`, or a number from 0x11_0000 up for an invalid byte, which equals nothing else.
    /// Returns `None` for empty text.
    pub(crate) fn decode_char(self, text: &[u8]) -> Option<(u32, usize)> {
        let first = *text.first()?;
        let invalid = (0x11_0000 + u32::from(first), 1);
        Some(match self {
            Charset::Binary => (u32::from(first), 1),
            Charset::Latin1 => (latin1_to_code(first), 1),
            Charset::Ascii if first < 0x80 => (u32::from(first), 1),
            Charset::Ascii => invalid,
            Charset::Utf8mb4 => decode_utf8(text).unwrap_or(invalid),
            Charset::Utf8mb3 => decode_utf8(text).filter(|c| c.1 < 4).unwrap_or(invalid),
        })
    }

    /// Checks that `text` is valid.
    ///
    /// # Errors
    /// The position of the first invalid byte.
    pub fn validate(self, text: &[u8]) -> Result<(), usize> {
        match self {
            Charset::Binary | Charset::Latin1 => Ok(()),
            Charset::Ascii => text.iter().position(|b| *b >= 0x80).map_or(Ok(()), Err),
            Charset::Utf8mb4 => std::str::from_utf8(text)
                .map(drop)
                .map_err(|e| e.valid_up_to()),
            Charset::Utf8mb3 => {
                let valid = std::str::from_utf8(text).map_or_else(|e| e.valid_up_to(), |t| t.len());
                let four = text.iter().take(valid).position(|b| *b >= 0xF0);
                match four {
                    Some(at) => Err(at),
                    None if valid < text.len() => Err(valid),
                    None => Ok(()),
                }
            }
        }
    }

    /// Number of characters of `text`; each invalid byte counts as one.
    #[must_use]
    pub fn char_count(self, text: &[u8]) -> usize {
        match self {
            Charset::Utf8mb4 | Charset::Utf8mb3 => {
                if text.is_ascii() {
                    return text.len();
                }
                let mut rest = text;
                let mut count = 0;
                while let Some((_, len)) = self.decode_char(rest) {
                    count += 1;
                    rest = rest.get(len..).unwrap_or_default();
                }
                count
            }
            _ => text.len(),
        }
    }

    /// Bytes of the first `chars` characters, or of the whole text if it has fewer.
    #[must_use]
    pub fn prefix_len(self, text: &[u8], chars: usize) -> usize {
        if self.max_len() == 1 {
            return text.len().min(chars);
        }
        let mut at = 0;
        for _ in 0..chars {
            let Some((_, len)) = text.get(at..).and_then(|rest| self.decode_char(rest)) else {
                break;
            };
            at += len;
        }
        at
    }

    /// Converts text to another character set. Returns whether characters were lost (replaced by
    /// `?`). Conversion from and to `binary` changes nothing.
    #[must_use]
    pub fn convert<'a>(self, to: Charset, text: &'a [u8]) -> (Cow<'a, [u8]>, bool) {
        let same = self == to
            || self == Charset::Binary
            || to == Charset::Binary
            || (self == Charset::Utf8mb3 && to == Charset::Utf8mb4);
        if same || text.is_ascii() {
            return (Cow::Borrowed(text), false);
        }
        let mut out = Vec::with_capacity(text.len() * 2);
        let mut lossy = false;
        let mut rest = text;
        let mut pacer = Pacer::new();
        while let Some((code, len)) = self.decode_char(rest) {
            if pacer.leaves() {
                break;
            }
            rest = rest.get(len..).unwrap_or_default();
            if !to.push(code, &mut out) {
                out.push(b'?');
                lossy = true;
            }
        }
        (Cow::Owned(out), lossy)
    }

    /// Appends a character. Returns false if the character set lacks it.
    fn push(self, code: u32, out: &mut Vec<u8>) -> bool {
        let byte = match self {
            Charset::Utf8mb4 | Charset::Utf8mb3 => {
                let Some(c) = char::from_u32(code) else {
                    return false;
                };
                if self == Charset::Utf8mb3 && code > 0xFFFF {
                    return false;
                }
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                return true;
            }
            Charset::Latin1 => code_to_latin1(code),
            Charset::Ascii => u8::try_from(code).ok().filter(u8::is_ascii),
            Charset::Binary => u8::try_from(code).ok(),
        };
        byte.inspect(|b| out.push(*b)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversion_between_latin1_and_utf8() {
        let (utf8, lossy) = Charset::Latin1.convert(Charset::Utf8mb4, b"\xE9\x80");
        assert_eq!((utf8.as_ref(), lossy), ("é€".as_bytes(), false));
        let (back, lossy) = Charset::Utf8mb4.convert(Charset::Latin1, "é€日".as_bytes());
        assert_eq!((back.as_ref(), lossy), (&b"\xE9\x80?"[..], true));
        let (mb3, lossy) = Charset::Utf8mb4.convert(Charset::Utf8mb3, "a😀é".as_bytes());
        assert_eq!((mb3.as_ref(), lossy), ("a?é".as_bytes(), true));
    }

    #[test]
    fn validity_and_counting() {
        assert_eq!(Charset::Utf8mb4.validate("é😀".as_bytes()), Ok(()));
        assert_eq!(Charset::Utf8mb3.validate("é😀".as_bytes()), Err(2));
        assert_eq!(Charset::Utf8mb4.validate(b"ab\xFF"), Err(2));
        assert_eq!(Charset::Ascii.validate(b"ab\xE9"), Err(2));
        assert_eq!(Charset::Utf8mb4.char_count("aé😀".as_bytes()), 3);
        assert_eq!(Charset::Utf8mb4.prefix_len("aé😀z".as_bytes(), 3), 7);
        assert_eq!(Charset::Latin1.prefix_len(b"abc", 9), 3);
    }
}
