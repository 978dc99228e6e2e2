//! Character sets: validity, counting and conversion.

use porpoise_base::interrupt::Pacer;
use std::borrow::Cow;

use super::Collation;
use super::multi_byte::MultiByteSet;
use super::one_byte::OneByteSet;
use super::unicode_form::UnicodeForm;

/// A character set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Charset {
    /// Bytes.
    Binary,
    /// UTF-8.
    Utf8mb4,
    /// UTF-8 of up to three bytes a character.
    Utf8mb3,
    /// Seven bits.
    Ascii,
    /// A set of one byte a character that contains ASCII.
    OneByte(OneByteSet),
    /// Unicode in another form than UTF-8. Texts are kept as UTF-8.
    Unicode(UnicodeForm),
    /// An East Asian set. Texts are kept as UTF-8.
    MultiByte(MultiByteSet),
}

/// Codes from here up stand for invalid bytes.
pub(super) const INVALID: u32 = 0x11_0000;

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
    /// MySQL's latin1, Windows code page 1252.
    pub const LATIN1: Charset = Charset::OneByte(OneByteSet::LATIN1);

    /// All character sets.
    pub fn all() -> impl Iterator<Item = Charset> {
        let utf8 = [Charset::Utf8mb4, Charset::Utf8mb3];
        let others = [Charset::Binary, Charset::Ascii];
        let unicode = UnicodeForm::ALL.map(Charset::Unicode);
        let one_byte = OneByteSet::all().map(Charset::OneByte);
        let utf8 = utf8.into_iter().chain(unicode);
        let multi_byte = MultiByteSet::all().map(Charset::MultiByte);
        utf8.chain(others).chain(one_byte).chain(multi_byte)
    }

    /// MySQL's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Charset::Binary => "binary",
            Charset::Utf8mb4 => "utf8mb4",
            Charset::Utf8mb3 => "utf8mb3",
            Charset::Ascii => "ascii",
            Charset::OneByte(set) => set.set().name,
            Charset::Unicode(form) => form.name(),
            Charset::MultiByte(set) => set.set().name,
        }
    }

    /// MySQL's description.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Charset::Binary => "Binary pseudo charset",
            Charset::Utf8mb4 | Charset::Utf8mb3 => "UTF-8 Unicode",
            Charset::Ascii => "US ASCII",
            Charset::OneByte(set) => set.set().description,
            Charset::Unicode(form) => form.description(),
            Charset::MultiByte(set) => set.set().description,
        }
    }

    /// The character set of a name, in any case; `utf8` is `utf8mb3`.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Charset> {
        if name.eq_ignore_ascii_case("utf8") {
            return Some(Charset::Utf8mb3);
        }
        Charset::all().find(|charset| charset.name().eq_ignore_ascii_case(name))
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
            Charset::Unicode(form) => form.max_len(),
            Charset::MultiByte(set) => set.max_len(),
            _ => 1,
        }
    }

    /// Decodes the first character: its code and length. The code is the code point, the byte for
    /// `binary`, or a number from [`INVALID`] up for an invalid byte, which equals nothing else.
    /// Returns `None` for empty text.
    pub(crate) fn decode_char(self, text: &[u8]) -> Option<(u32, usize)> {
        let first = *text.first()?;
        let invalid = (INVALID + u32::from(first), 1);
        Some(match self {
            Charset::Binary => (u32::from(first), 1),
            Charset::OneByte(set) => set.code(first).map_or(invalid, |code| (code, 1)),
            Charset::Ascii if first < 0x80 => (u32::from(first), 1),
            Charset::Ascii => invalid,
            Charset::Utf8mb4 | Charset::MultiByte(_) => decode_utf8(text).unwrap_or(invalid),
            Charset::Unicode(form) => {
                let found = decode_utf8(text).filter(|(code, _)| form.has(*code));
                found.unwrap_or(invalid)
            }
            Charset::Utf8mb3 => decode_utf8(text).filter(|c| c.1 < 4).unwrap_or(invalid),
        })
    }

    /// Checks that `text` is valid.
    ///
    /// # Errors
    /// The position of the first invalid byte.
    pub fn validate(self, text: &[u8]) -> Result<(), usize> {
        match self {
            Charset::Binary | Charset::OneByte(_) => Ok(()),
            Charset::Ascii => text.iter().position(|b| *b >= 0x80).map_or(Ok(()), Err),
            Charset::Utf8mb3 | Charset::Unicode(UnicodeForm::Ucs2) => {
                let valid = std::str::from_utf8(text).map_or_else(|e| e.valid_up_to(), |t| t.len());
                let four = text.iter().take(valid).position(|b| *b >= 0xF0);
                match four {
                    Some(at) => Err(at),
                    None if valid < text.len() => Err(valid),
                    None => Ok(()),
                }
            }
            Charset::Utf8mb4 | Charset::Unicode(_) | Charset::MultiByte(_) => {
                std::str::from_utf8(text)
                    .map(drop)
                    .map_err(|e| e.valid_up_to())
            }
        }
    }

    /// Number of characters of `text`; each invalid byte counts as one.
    #[must_use]
    pub fn char_count(self, text: &[u8]) -> usize {
        match self {
            Charset::Utf8mb4 | Charset::Utf8mb3 | Charset::Unicode(_) | Charset::MultiByte(_) => {
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

    /// Whether texts are kept as UTF-8 and have other bytes in the character set itself.
    #[must_use]
    pub fn is_kept_as_utf8(self) -> bool {
        matches!(self, Charset::Unicode(_) | Charset::MultiByte(_))
    }

    /// Whether the set has the characters beyond the Basic Multilingual Plane.
    #[must_use]
    pub fn has_supplement(self) -> bool {
        self.is_unicode() && self.max_len() == 4
    }

    /// Whether another Unicode character set has all its characters and the same minimum width:
    /// utf8mb3 in utf8mb4, ucs2 in utf16.
    #[must_use]
    pub fn is_subset_of(self, other: Charset) -> bool {
        let wide = |set: Charset| matches!(set, Charset::Unicode(_));
        !self.has_supplement() && self.max_len() < other.max_len() && wide(self) == wide(other)
    }

    /// Whether the bytes of texts, as they are kept, are UTF-8.
    fn is_utf8(self) -> bool {
        self.is_unicode() || self.is_kept_as_utf8()
    }

    /// Whether it is a Unicode character set.
    #[must_use]
    pub fn is_unicode(self) -> bool {
        matches!(
            self,
            Charset::Utf8mb4 | Charset::Utf8mb3 | Charset::Unicode(_)
        )
    }

    /// Whether a client can send statements in it: ASCII is part of its bytes.
    #[must_use]
    pub fn is_for_clients(self) -> bool {
        !matches!(self, Charset::Unicode(_))
    }

    /// Encodes a text: its bytes in the character set itself.
    #[must_use]
    pub fn encoded(self, text: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Charset::Unicode(form) => Cow::Owned(form.bytes_of(text)),
            Charset::MultiByte(set) => Cow::Owned(set.bytes_of(text)),
            _ => Cow::Borrowed(text),
        }
    }

    /// Decodes bytes of the character set. Returns the text, and the position of the first invalid byte. Invalid
    /// bytes of sets that are kept as UTF-8 become `?`.
    #[must_use]
    pub fn decoded(self, bytes: &[u8]) -> (Cow<'_, [u8]>, Option<usize>) {
        match self {
            Charset::Unicode(form) => {
                let (text, invalid) = form.text_of(bytes);
                (Cow::Owned(text), invalid)
            }
            Charset::MultiByte(set) => {
                let (text, invalid) = set.text_of(bytes);
                (Cow::Owned(text), invalid)
            }
            _ => (Cow::Borrowed(bytes), self.validate(bytes).err()),
        }
    }

    /// Converts text to another character set. Returns whether characters were lost (replaced by
    /// `?`). Conversion from and to `binary` changes nothing but the texts that are kept as UTF-8.
    #[must_use]
    pub fn convert<'a>(self, to: Charset, text: &'a [u8]) -> (Cow<'a, [u8]>, bool) {
        if self == to {
            return (Cow::Borrowed(text), false);
        }
        match (self, to) {
            (Charset::Binary, _) if to.is_kept_as_utf8() => {
                let (text, invalid) = to.decoded(text);
                return (text, invalid.is_some());
            }
            (_, Charset::Binary) if self.is_kept_as_utf8() => return (self.encoded(text), false),
            _ => {}
        }
        let same = self == Charset::Binary
            || to == Charset::Binary
            || (self.is_utf8() && to.is_unicode() && (to.max_len() == 4 || self.max_len() < 4));
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
            Charset::Utf8mb4 | Charset::Utf8mb3 | Charset::Unicode(_) | Charset::MultiByte(_) => {
                let Some(c) = char::from_u32(code) else {
                    return false;
                };
                let basic = matches!(self, Charset::Utf8mb3 | Charset::Unicode(UnicodeForm::Ucs2));
                let lacks = matches!(self, Charset::MultiByte(set) if !set.has(code));
                if lacks || basic && code > 0xFFFF {
                    return false;
                }
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                return true;
            }
            Charset::OneByte(set) => set.byte(code),
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
        let (utf8, lossy) = Charset::LATIN1.convert(Charset::Utf8mb4, b"\xE9\x80");
        assert_eq!((utf8.as_ref(), lossy), ("é€".as_bytes(), false));
        let (back, lossy) = Charset::Utf8mb4.convert(Charset::LATIN1, "é€日".as_bytes());
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
        assert_eq!(Charset::LATIN1.prefix_len(b"abc", 9), 3);
    }
}
