//! Several levels of weights: utf8mb4_0900_as_ci (letters, then accents), utf8mb4_0900_as_cs (then
//! case), and the `_0900_as_cs` collations of languages. NO PAD.
//!
//! Texts compare by the weights of the first level; where these are equal by those of the second,
//! and so on (UTS #10, "Form Sort Key"). A sort key has the weights of each level after those of
//! the level before, with [`SEPARATOR`] between, which is below every weight.

use std::cmp::Ordering;

use super::uca::{self, Uca};
use super::uca_language::version_13;

/// Ends the weights of a level that another follows.
const SEPARATOR: [u8; 2] = [0, 1];

/// The levels of a collation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Levels {
    /// Position of the language in the data.
    pub(super) language: Option<u8>,
    /// Number of levels: two or three.
    pub(super) count: usize,
}

impl Levels {
    fn tables(self) -> impl Iterator<Item = &'static Uca> {
        (0..self.count).map(move |level| version_13(self.language, level))
    }

    pub(super) fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        self.tables()
            .map(|table| uca::compare(table, a, b))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }

    pub(super) fn sort_key(self, text: &[u8], out: &mut Vec<u8>) {
        for (level, table) in self.tables().enumerate() {
            if level > 0 {
                out.extend_from_slice(&SEPARATOR);
            }
            uca::sort_key(table, text, out);
        }
    }

    /// Length of the sort key at the start of `key`, which a byte 0 ends, including that byte.
    pub(super) fn delimited_len(self, key: &[u8]) -> Option<usize> {
        let is_end = |weight: &[u8]| weight.first() == Some(&0);
        let ends = key.chunks(2).enumerate().filter(|(_, w)| is_end(w));
        let (last, _) = ends.take(self.count).nth(self.count - 1)?;
        Some(2 * last + 1)
    }

    pub(super) fn same_char(self, a: u32, b: u32) -> bool {
        self.tables().all(|table| table.same_char(a, b))
    }

    /// Whether an ASCII character has exactly one weight on each level and begins no contraction.
    pub(super) fn has_one_weight(self, byte: u8) -> bool {
        self.tables().all(|table| table.ascii(byte) != 0)
    }

    pub(super) fn begins_contraction(self, code: u32) -> bool {
        version_13(self.language, 0).begins_contraction(code)
    }
}
