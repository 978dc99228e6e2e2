//! ASCII characters that are equal under a collation, for searches and comparisons by bytes.
//!
//! Most texts consist of ASCII characters. Under most collations each of these has a single weight,
//! so that two such texts are equal if their bytes belong to the same classes, one by one; no
//! character has to be decoded and no weight looked up. A class is named by its lowest character.

use super::{Collation, Scheme};
use std::sync::OnceLock;

/// Number of collations whose classes are kept; MySQL's numbers are below it.
const COLLATIONS: usize = 512;

/// Classes of equal ASCII characters under one collation.
#[derive(Debug)]
pub(super) struct AsciiClasses {
    /// The class of each byte. A byte beyond ASCII is its own class.
    class: [u8; 256],
    /// Whether each ASCII character has exactly one weight and begins no contraction.
    has_one_weight: [bool; 128],
}

/// The classes of a collation; `None` if its bytes below 128 are not ASCII characters.
pub(super) fn classes(collation: Collation) -> Option<&'static AsciiClasses> {
    static CLASSES: [OnceLock<Option<Box<AsciiClasses>>>; COLLATIONS] =
        [const { OnceLock::new() }; COLLATIONS];
    let place = CLASSES.get(usize::from(collation.0))?;
    place
        .get_or_init(|| AsciiClasses::of(collation).map(Box::new))
        .as_deref()
}

impl AsciiClasses {
    fn of(collation: Collation) -> Option<AsciiClasses> {
        let charset = collation.charset();
        let is_itself = |byte: u8| charset.decode_char(&[byte]) == Some((u32::from(byte), 1));
        if !(0..128).all(is_itself) {
            return None;
        }
        let mut class = [0; 256];
        for (byte, place) in (0..=u8::MAX).zip(&mut class) {
            let same = |other: &u8| collation.same_char(u32::from(*other), u32::from(byte));
            if byte.is_ascii() {
                *place = (0..byte).find(same).unwrap_or(byte);
            } else {
                *place = byte;
            }
        }
        let mut has_one_weight = [false; 128];
        for (byte, place) in (0..128).zip(&mut has_one_weight) {
            *place = match collation.scheme() {
                Scheme::Uca(uca) | Scheme::UcaPad(uca) => uca.ascii(byte) != 0,
                Scheme::UcaLevels(levels) => levels.has_one_weight(byte),
                Scheme::Bytes
                | Scheme::Table(_)
                | Scheme::Expanding
                | Scheme::General
                | Scheme::MultiByte(_) => true,
            };
        }
        Some(AsciiClasses {
            class,
            has_one_weight,
        })
    }

    /// The class of a byte.
    #[inline]
    pub(super) fn class(&self, byte: u8) -> u8 {
        let found = self.class.get(usize::from(byte));
        found.copied().unwrap_or(byte)
    }

    /// The bytes of a class, ascending.
    pub(super) fn members(&self, class: u8) -> impl Iterator<Item = u8> {
        (0..=u8::MAX).filter(move |byte| self.class(*byte) == class)
    }

    /// Whether the byte is an ASCII character with exactly one weight.
    #[inline]
    fn has_one_weight(&self, byte: u8) -> bool {
        let found = self.has_one_weight.get(usize::from(byte));
        found.copied().unwrap_or(false)
    }

    /// Whether every class has a single byte.
    pub(super) fn are_single(&self) -> bool {
        (0..=u8::MAX).all(|byte| self.class(byte) == byte)
    }
}

/// Compares texts of a collation with texts of ASCII characters, by bytes.
#[derive(Clone, Copy, Debug)]
pub struct AsciiEquality {
    classes: &'static AsciiClasses,
    /// The class of characters that do not count at the end of a text.
    padding: Option<u8>,
}

impl Collation {
    /// The equality of ASCII texts; `None` if the character set does not contain ASCII.
    #[must_use]
    pub fn ascii_equality(self) -> Option<AsciiEquality> {
        let classes = classes(self)?;
        let padding = self.pad_space().then(|| classes.class(b' '));
        Some(AsciiEquality { classes, padding })
    }
}

impl AsciiEquality {
    /// Replaces `out` by bytes that are equal for texts that compare equal. Returns false if the text
    /// has a character beyond ASCII or without a weight of its own.
    #[inline]
    pub fn normalize(self, text: &[u8], out: &mut impl Extend<u8>) -> bool {
        let class = |byte: &u8| self.classes.class(*byte);
        let ends = |byte: &u8| Some(class(byte)) != self.padding;
        let end = match self.padding {
            Some(_) => text.iter().rposition(ends).map_or(0, |last| last + 1),
            None => text.len(),
        };
        let text = text.get(..end).unwrap_or_default();
        if !text.iter().all(|byte| self.classes.has_one_weight(*byte)) {
            return false;
        }
        out.extend(text.iter().map(class));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalized_texts_are_equal_as_the_collation_says() {
        let texts = [
            "", " ", "  ", "a", "A", "a ", " a", "b", "ab", "aB", "AB ", "a\t", "a\0", "ch", "CH",
            "c", "i", "j", "I", "u", "V", "a-b", "ab\u{1}", "1", "~", "\n",
        ];
        for collation in Collation::all() {
            let Some(equality) = collation.ascii_equality() else {
                continue;
            };
            let normal = |text: &str| {
                let mut out = Vec::new();
                equality.normalize(text.as_bytes(), &mut out).then_some(out)
            };
            for (a, b) in texts.iter().flat_map(|a| texts.map(|b| (a, b))) {
                if let Some((x, y)) = normal(a).zip(normal(b)) {
                    let equal = collation.equal(a.as_bytes(), b.as_bytes());
                    assert_eq!(x == y, equal, "{} {a:?} {b:?}", collation.name());
                }
            }
        }
        for collation in [
            Collation::BINARY,
            Collation::UTF8MB4_BIN,
            Collation::UTF8MB4_GENERAL_CI,
            Collation::UTF8MB4_UNICODE_CI,
            Collation::UTF8MB4_0900_AI_CI,
            Collation::LATIN1_SWEDISH_CI,
            Collation(278),
        ] {
            let equality = collation.ascii_equality().unwrap();
            let mut out = Vec::new();
            assert!(
                equality.normalize(b"Brand#12 x", &mut out),
                "{}",
                collation.name()
            );
        }
    }
}
