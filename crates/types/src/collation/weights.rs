//! MySQL's weights of a text, which WEIGHT_STRING() shows.
//!
//! They differ from sort keys, which end by a symbol of their own: a text of a PAD SPACE collation
//! is filled with the weights of spaces up to a number of characters instead.
//!
//! Known limit: the weights of the 0900 collations are those of DUCET 13, MySQL's those of 9.0.

use porpoise_base::interrupt::Pacer;

use super::charset::{Charset, decode_utf8};
use super::expanding;
use super::tables::general_weight;
use super::uca::Scanner;
use super::unicode_form::UnicodeForm;
use super::{Collation, Scheme, order};

/// Weight of what has none of its own: characters beyond the Basic Multilingual Plane.
const REPLACEMENT: u16 = 0xFFFD;

impl Collation {
    /// Appends the weights of a text, then those of spaces: up to `chars` characters, if the text has
    /// fewer, and beyond up to `fill` bytes.
    pub fn weights(self, text: &[u8], chars: usize, fill: usize, out: &mut Vec<u8>) {
        self.text_weights(text, out);
        let space = self.space_weight();
        if space.is_empty() {
            out.resize(out.len().max(fill), 0);
            return;
        }
        let missing = chars.saturating_sub(self.charset().char_count(text));
        let end = out
            .len()
            .saturating_add(missing.saturating_mul(space.len()));
        let mut spaces = space.iter().copied().cycle();
        let count = end.max(fill).saturating_sub(out.len());
        out.extend(spaces.by_ref().take(count));
    }

    /// Number of bytes of a character's weight, at most.
    #[must_use]
    pub fn weight_len(self) -> usize {
        match self.scheme() {
            Scheme::Bytes | Scheme::Table(_) => self.code_weight().unwrap_or(1),
            Scheme::General | Scheme::Expanding => 2,
            Scheme::MultiByte(weights) => weights.shown_len(),
            // A character has several weights, on several levels.
            Scheme::Uca(_) | Scheme::UcaPad(_) | Scheme::UcaLevels(_) => 2 * 3 * 8,
        }
    }

    fn text_weights(self, text: &[u8], out: &mut Vec<u8>) {
        match self.scheme() {
            Scheme::Bytes | Scheme::Table(_) if self.code_weight().is_some() => {
                let len = self.code_weight().unwrap_or(0);
                each_code(text, |code| {
                    let bytes = code.to_be_bytes();
                    out.extend_from_slice(bytes.get(4 - len..).unwrap_or_default());
                });
            }
            Scheme::Bytes => out.extend_from_slice(&self.charset().encoded(text)),
            Scheme::Table(table) => out.extend(text.iter().map(|b| order::table_weight(table, *b))),
            Scheme::General => each_code(text, |code| {
                let weight = u16::try_from(general_weight(code)).unwrap_or(REPLACEMENT);
                out.extend_from_slice(&weight.to_be_bytes());
            }),
            Scheme::Expanding => out.extend(expanding::weights(text)),
            Scheme::MultiByte(weights) => each_code(text, |code| weights.push_shown(code, out)),
            Scheme::UcaPad(uca) => {
                for weight in Scanner::new(uca, text) {
                    out.extend_from_slice(&weight.to_be_bytes());
                }
            }
            Scheme::Uca(_) | Scheme::UcaLevels(_) => self.sort_key(text, out),
        }
    }

    /// Number of bytes of a code point as a weight: the `_bin` collations of Unicode.
    fn code_weight(self) -> Option<usize> {
        if !self.pad_space() || self != Collation::bin_for(self.charset()) {
            return None;
        }
        match self.charset() {
            Charset::Utf8mb3 | Charset::Unicode(UnicodeForm::Ucs2) => Some(2),
            Charset::Utf8mb4 | Charset::Unicode(_) => Some(3),
            _ => None,
        }
    }

    /// The weight of a space; empty for NO PAD collations.
    fn space_weight(self) -> Vec<u8> {
        let mut out = Vec::new();
        match self.scheme() {
            // Bytes are filled with the character itself.
            Scheme::Table(_) if self.code_weight().is_none() => out.push(b' '),
            _ if self.pad_space() => self.text_weights(b" ", &mut out),
            _ => {}
        }
        out
    }
}

/// Calls `take` with the code point of each character; an invalid byte is taken as a code point.
fn each_code(text: &[u8], mut take: impl FnMut(u32)) {
    let mut rest = text;
    let mut pacer = Pacer::new();
    while let Some(first) = rest.first().filter(|_| !pacer.leaves()) {
        let (code, len) = decode_utf8(rest).unwrap_or((u32::from(*first), 1));
        rest = rest.get(len..).unwrap_or_default();
        take(code);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(collation: &str, text: &str, chars: usize, fill: usize) -> String {
        let mut out = Vec::new();
        let collation = Collation::by_name(collation).unwrap();
        collation.weights(text.as_bytes(), chars, fill, &mut out);
        out.iter().map(|b| format!("{b:02X}")).collect()
    }

    #[test]
    fn weights_are_filled_with_spaces() {
        assert_eq!(shown("latin1_swedish_ci", "ab", 0, 0), "4142");
        assert_eq!(shown("latin1_swedish_ci", "ab", 4, 0), "41422020");
        assert_eq!(shown("utf8mb4_general_ci", "ab", 0, 0), "00410042");
        assert_eq!(shown("utf8mb4_general_ci", "ab", 3, 8), "0041004200200020");
        assert_eq!(shown("utf8mb4_bin", "a", 2, 0), "000061000020");
        assert_eq!(shown("utf8mb3_bin", "a", 2, 0), "00610020");
        assert_eq!(shown("utf8mb4_unicode_ci", "a", 2, 0), "0E330209");
        assert_eq!(shown("binary", "a", 2, 3), "610000");
    }
}
