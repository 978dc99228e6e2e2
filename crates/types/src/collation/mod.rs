//! Character sets and collations: equality and order of text.
//!
//! A collation maps text to a sequence of weights; two texts compare as their
//! sequences do. PAD SPACE collations compare as if the shorter text were
//! followed by spaces without end; NO PAD collations do not.
//!
//! Sort keys ([`Collation::sort_key`]) are bytes whose order is the
//! collation's. For PAD SPACE each weight becomes a symbol, and a run of spaces
//! becomes one symbol per space, which is lower or higher depending on whether the
//! next weight after the run is below or above a space; the end symbol is between
//! these two. So `'a\t' < 'a' = 'a  ' < 'a b'` holds bytewise, and keys are
//! self-delimiting.
//!
//! Invariants:
//! 1. `compare(a, b)` equals the order of the sort keys, for any bytes.
//! 2. Weights do not change without a new [`crate::KEY_FORMAT_VERSION`]: indexes
//!    hold them.
//!
//! Known limits of `utf8mb4_0900_ai_ci` and the other 0900 collations: weights are those of DUCET 13
//! (order within 9.0's characters is the same but for a handful), and contractions
//! are formed only in variants of languages. The weights of `utf8mb4_unicode_ci` (4.0.0) and
//! `utf8mb4_unicode_520_ci` are those of their tables; MySQL forms no contractions there, but in the
//! variants of languages (`uca_language`).

mod ascii;
mod charset;
mod expanding;
mod known;
mod like;
mod like_pattern;
mod multi_byte;
mod one_byte;
mod order;
mod tables;
mod uca;
mod uca_language;
mod uca_levels;
mod uca_pad;
mod unicode_form;
mod weights;

pub use ascii::AsciiEquality;
pub use charset::Charset;
pub use like_pattern::LikePattern;
pub use multi_byte::MultiByteSet;
pub use one_byte::OneByteSet;
pub(crate) use order::{BINARY_END, escape_binary};
pub use unicode_form::UnicodeForm;

use std::cmp::Ordering;

use known::{Order, known};
use uca::Uca;
use uca_levels::Levels;

/// A collation, by MySQL's number. Unknown numbers behave as `binary`;
/// [`Collation::from_id`] and [`Collation::by_name`] return only known ones.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Collation(pub u16);

/// Source of a collation's weights.
#[derive(Clone, Copy)]
enum Scheme {
    /// Bytes, NO PAD.
    Bytes,
    /// A weight per byte, PAD SPACE.
    Table(&'static [u8; 256]),
    /// One or two weights a byte, PAD SPACE.
    Expanding,
    /// utf8mb4_general_ci, PAD SPACE.
    General,
    /// Weights of an East Asian character set, PAD SPACE.
    MultiByte(multi_byte::Weights),
    /// Primary weights of the Unicode collation algorithm, NO PAD.
    Uca(&'static Uca),
    /// Primary weights of the Unicode collation algorithm, PAD SPACE.
    UcaPad(&'static Uca),
    /// Several levels of weights of the Unicode collation algorithm, NO PAD.
    UcaLevels(Levels),
}

impl Collation {
    /// Bytes.
    pub const BINARY: Collation = Collation(63);
    /// utf8mb4, case and some accents folded, by code point.
    pub const UTF8MB4_GENERAL_CI: Collation = Collation(45);
    /// utf8mb4 by code point, PAD SPACE.
    pub const UTF8MB4_BIN: Collation = Collation(46);
    /// utf8mb4 by the Unicode collation algorithm, accents and case folded, NO PAD.
    pub const UTF8MB4_0900_AI_CI: Collation = Collation(255);
    /// utf8mb4 by code point, NO PAD.
    pub const UTF8MB4_0900_BIN: Collation = Collation(309);
    /// utf8mb4 by the Unicode collation algorithm 4.0.0, PAD SPACE.
    pub const UTF8MB4_UNICODE_CI: Collation = Collation(224);
    /// utf8mb4 by the Unicode collation algorithm 5.2.0, PAD SPACE.
    pub const UTF8MB4_UNICODE_520_CI: Collation = Collation(246);
    /// As utf8mb4_unicode_ci.
    pub const UTF8MB3_UNICODE_CI: Collation = Collation(192);
    /// As utf8mb4_general_ci.
    pub const UTF8MB3_GENERAL_CI: Collation = Collation(33);
    /// As utf8mb4_bin.
    pub const UTF8MB3_BIN: Collation = Collation(83);
    /// latin1's default: Swedish order, case and accents folded.
    pub const LATIN1_SWEDISH_CI: Collation = Collation(8);
    /// latin1 by byte.
    pub const LATIN1_BIN: Collation = Collation(47);
    /// ascii, case folded.
    pub const ASCII_GENERAL_CI: Collation = Collation(11);
    /// ascii by byte.
    pub const ASCII_BIN: Collation = Collation(65);

    /// The collation with MySQL's number, if known.
    #[must_use]
    pub fn from_id(id: u16) -> Option<Collation> {
        known(id).map(|_| Collation(id))
    }

    /// The collation of a name, in any case. `utf8_` is an older form of `utf8mb3_`.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Collation> {
        let older = name
            .get(..5)
            .filter(|set| set.eq_ignore_ascii_case("utf8_"));
        let newer = older
            .and(name.get(5..))
            .map(|rest| format!("utf8mb3_{rest}"));
        let name = newer.as_deref().unwrap_or(name);
        let mut all = known::all();
        all.find(|(_, known)| known.name.eq_ignore_ascii_case(name))
            .map(|(id, _)| Collation(id))
    }

    /// All known collations, in the order of their numbers.
    pub fn all() -> impl Iterator<Item = Collation> {
        known::all().map(|(id, _)| Collation(id))
    }

    /// MySQL's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        known(self.0).map_or("binary", |known| known.name)
    }

    /// The character set that the collation orders.
    #[must_use]
    #[inline]
    pub fn charset(self) -> Charset {
        known(self.0).map_or(Charset::Binary, |known| known.charset)
    }

    /// MySQL 8's default collation of a character set.
    #[must_use]
    pub fn default_for(charset: Charset) -> Collation {
        match charset {
            Charset::Binary => Self::BINARY,
            Charset::Utf8mb4 => Self::UTF8MB4_0900_AI_CI,
            Charset::Utf8mb3 => Self::UTF8MB3_GENERAL_CI,
            Charset::Ascii => Self::ASCII_GENERAL_CI,
            Charset::OneByte(set) => set.default_collation(),
            Charset::MultiByte(set) => set.default_collation(),
            Charset::Unicode(UnicodeForm::Ucs2) => Collation(35),
            Charset::Unicode(UnicodeForm::Utf16) => Collation(54),
            Charset::Unicode(UnicodeForm::Utf16le) => Collation(56),
            Charset::Unicode(UnicodeForm::Utf32) => Collation(60),
        }
    }

    /// The `_bin` collation of a character set, which orders by code.
    #[must_use]
    pub fn bin_for(charset: Charset) -> Collation {
        match charset {
            Charset::Binary => Self::BINARY,
            Charset::Utf8mb4 => Self::UTF8MB4_BIN,
            Charset::Utf8mb3 => Self::UTF8MB3_BIN,
            Charset::Ascii => Self::ASCII_BIN,
            Charset::OneByte(set) => set.bin_collation(),
            Charset::MultiByte(set) => set.bin_collation(),
            Charset::Unicode(UnicodeForm::Ucs2) => Collation(90),
            Charset::Unicode(UnicodeForm::Utf16) => Collation(55),
            Charset::Unicode(UnicodeForm::Utf16le) => Collation(62),
            Charset::Unicode(UnicodeForm::Utf32) => Collation(61),
        }
    }

    /// Whether case is folded.
    #[must_use]
    pub fn is_ci(self) -> bool {
        self.name().ends_with("_ci")
    }

    /// Whether trailing spaces do not count.
    #[must_use]
    pub fn pad_space(self) -> bool {
        matches!(
            self.scheme(),
            Scheme::Table(_)
                | Scheme::Expanding
                | Scheme::General
                | Scheme::MultiByte(_)
                | Scheme::UcaPad(_)
        )
    }

    /// Whether every character has one weight, so that equal texts have equally many characters
    /// (but for spaces at the end), and their first characters are equal, too.
    #[must_use]
    pub fn has_one_weight_per_char(self) -> bool {
        !matches!(
            self.scheme(),
            Scheme::Expanding | Scheme::Uca(_) | Scheme::UcaPad(_) | Scheme::UcaLevels(_)
        )
    }

    #[inline]
    fn scheme(self) -> Scheme {
        match known(self.0).map_or(Order::Bytes, |known| known.order) {
            Order::Bytes => Scheme::Bytes,
            Order::PaddedBytes => Scheme::Table(&tables::IDENTITY),
            Order::OneByte(at) => Scheme::Table(one_byte::weights(at)),
            Order::Ascii => Scheme::Table(&tables::ASCII_GENERAL_CI),
            Order::Expanding => Scheme::Expanding,
            Order::General => Scheme::General,
            Order::MultiByte(set) => Scheme::MultiByte(set.weights(false)),
            Order::MultiByteBin(set) => Scheme::MultiByte(set.weights(true)),
            Order::Unicode900(None) => Scheme::Uca(&uca::V13),
            Order::Unicode900(language) => Scheme::Uca(uca_language::version_13(language, 0)),
            Order::Levels900(levels) => Scheme::UcaLevels(levels),
            Order::Unicode400 => Scheme::UcaPad(&uca::V400),
            Order::Unicode520 => Scheme::UcaPad(&uca::V520),
            Order::Language(at) => Scheme::UcaPad(uca_language::language(at)),
        }
    }

    /// The order of two texts of the collation's character set.
    #[must_use]
    pub fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        match self.scheme() {
            Scheme::Bytes => a.cmp(b),
            Scheme::Table(table) => order::compare_table(table, a, b),
            Scheme::Expanding => expanding::compare(a, b),
            Scheme::General => order::compare_general(a, b),
            Scheme::MultiByte(weights) => weights.compare(a, b),
            Scheme::Uca(uca) => uca::compare(uca, a, b),
            Scheme::UcaPad(uca) => uca_pad::compare(uca, a, b),
            Scheme::UcaLevels(levels) => levels.compare(a, b),
        }
    }

    /// Whether two texts are equal under the collation; faster than [`Collation::compare`] for
    /// equal bytes.
    #[must_use]
    pub fn equal(self, a: &[u8], b: &[u8]) -> bool {
        a == b || self.compare(a, b).is_eq()
    }

    /// Appends the sort key. Complete sort keys order bytewise as the texts do.
    pub fn sort_key(self, text: &[u8], out: &mut Vec<u8>) {
        match self.scheme() {
            Scheme::Bytes => out.extend_from_slice(text),
            Scheme::Table(table) => order::key_table(table, text, out),
            Scheme::Expanding => expanding::sort_key(text, out),
            Scheme::General => order::key_general(text, out),
            Scheme::MultiByte(weights) => {
                order::key_characters(|rest| weights.first(rest), text, out)
            }
            Scheme::Uca(uca) => uca::sort_key(uca, text, out),
            Scheme::UcaPad(uca) => uca_pad::sort_key(uca, text, out),
            Scheme::UcaLevels(levels) => levels.sort_key(text, out),
        }
    }

    /// Appends a self-delimiting sort key, so that in a composite key the parts after it never
    /// influence its comparison.
    pub fn self_delimiting_key(self, text: &[u8], out: &mut Vec<u8>) {
        if let Scheme::Bytes = self.scheme() {
            escape_binary(text, out);
        } else {
            let start = out.len();
            self.sort_key(text, out);
            self.delimit_key(start, out);
        }
    }

    /// Makes a self-delimiting sort key of the sort key that begins at `start`.
    pub(crate) fn delimit_key(self, start: usize, out: &mut Vec<u8>) {
        match self.scheme() {
            Scheme::Bytes => {
                let text = out.split_off(start);
                escape_binary(&text, out);
            }
            // These sort keys are self-delimiting.
            Scheme::Table(_)
            | Scheme::Expanding
            | Scheme::General
            | Scheme::MultiByte(_)
            | Scheme::UcaPad(_) => {}
            // Zero is below the first byte of every weight.
            Scheme::Uca(_) | Scheme::UcaLevels(_) => out.push(0),
        }
    }

    /// Length of the self-delimiting key at the start of `key`, including its end symbol; `None` if
    /// that is missing.
    pub(crate) fn delimited_len(self, key: &[u8]) -> Option<usize> {
        match self.scheme() {
            Scheme::Bytes => {
                let mut at = 0;
                loop {
                    at += memchr::memchr(0, key.get(at..)?)?;
                    match key.get(at..at + 2)? {
                        end if end == BINARY_END => return Some(at + 2),
                        _ => at += 2,
                    }
                }
            }
            Scheme::Table(table) => memchr::memchr(order::table_end(table), key).map(|at| at + 1),
            Scheme::Expanding | Scheme::General | Scheme::MultiByte(_) => {
                memchr::memchr(order::END, key).map(|at| at + 1)
            }
            Scheme::UcaPad(uca) => uca_pad::key_len(uca, key),
            Scheme::Uca(_) => {
                let end = key
                    .chunks(2)
                    .position(|weight| weight.first() == Some(&0))?;
                Some(2 * end + 1)
            }
            Scheme::UcaLevels(levels) => levels.delimited_len(key),
        }
    }

    /// The collation of the first level of weights, of which a text's sort key begins with the sort
    /// key of each prefix of the text. With further levels that does not hold.
    pub(crate) fn first_level(self) -> Collation {
        let Scheme::UcaLevels(levels) = self.scheme() else {
            return self;
        };
        let first = |known: &known::Known| matches!(known.order, Order::Unicode900(language) if language == levels.language);
        let mut all = known::all();
        all.find(|(_, known)| first(known))
            .map_or(self, |(id, _)| Collation(id))
    }

    /// Whether sort keys have several levels of weights, so that the key of a text does not begin
    /// with those of the text's beginnings.
    #[must_use]
    pub fn has_levels(self) -> bool {
        matches!(self.scheme(), Scheme::UcaLevels(_))
    }

    /// LIKE: `%` matches any characters, `_` one, and the character after
    /// `escape` itself. Characters are compared one by one, so trailing
    /// spaces count.
    #[must_use]
    pub fn like(self, text: &[u8], pattern: &[u8], escape: Option<char>) -> bool {
        like::like(self, text, pattern, escape)
    }

    /// Prepares a LIKE pattern for many texts.
    #[must_use]
    pub fn like_pattern(self, pattern: &[u8], escape: Option<char>) -> LikePattern {
        LikePattern::new(self, pattern, escape)
    }

    /// Returns the literal prefix of a LIKE pattern, with escapes resolved and without trailing
    /// spaces, which keys of matching texts may not have.
    #[must_use]
    pub fn like_start(self, pattern: &[u8], escape: Option<u8>) -> Vec<u8> {
        like::start(self, pattern, escape.map(char::from))
    }

    /// Whether a sequence of characters with weights of its own begins with the character.
    fn begins_contraction(self, code: u32) -> bool {
        match self.scheme() {
            Scheme::Uca(uca) | Scheme::UcaPad(uca) => uca.begins_contraction(code),
            Scheme::UcaLevels(levels) => levels.begins_contraction(code),
            _ => false,
        }
    }

    /// Number of bytes of the end symbol of a self-delimiting key.
    pub(crate) fn end_symbol_len(self) -> usize {
        match self.scheme() {
            Scheme::Bytes => BINARY_END.len(),
            Scheme::UcaPad(_) => uca_pad::END_LEN,
            Scheme::Table(_)
            | Scheme::Expanding
            | Scheme::General
            | Scheme::MultiByte(_)
            | Scheme::Uca(_)
            | Scheme::UcaLevels(_) => 1,
        }
    }

    /// Whether characters are equal only to themselves.
    fn equals_by_code(self) -> bool {
        let order = known(self.0).map_or(Order::Bytes, |known| known.order);
        matches!(
            order,
            Order::Bytes | Order::PaddedBytes | Order::MultiByteBin(_)
        )
    }

    /// Whether two characters (codes of [`Charset::decode_char`]) are equal.
    fn same_char(self, a: u32, b: u32) -> bool {
        if a == b {
            return true;
        }
        match self.scheme() {
            Scheme::Bytes => false,
            Scheme::Table(table) => match (self.char_byte(a), self.char_byte(b)) {
                (Some(a), Some(b)) => {
                    order::table_weight(table, a) == order::table_weight(table, b)
                }
                _ => false,
            },
            Scheme::Expanding => match (self.char_byte(a), self.char_byte(b)) {
                (Some(a), Some(b)) => expanding::same(a, b),
                _ => false,
            },
            Scheme::General => tables::general_weight(a) == tables::general_weight(b),
            Scheme::MultiByte(weights) => weights.weight(a) == weights.weight(b),
            Scheme::Uca(uca) | Scheme::UcaPad(uca) => uca.same_char(a, b),
            Scheme::UcaLevels(levels) => levels.same_char(a, b),
        }
    }

    /// The byte of a character of a one-byte character set.
    fn char_byte(self, code: u32) -> Option<u8> {
        match (self.charset(), code.checked_sub(charset::INVALID)) {
            (Charset::OneByte(_), Some(byte)) => u8::try_from(byte).ok(),
            (Charset::OneByte(set), None) => set.byte(code),
            (Charset::Ascii, None) => u8::try_from(code).ok(),
            // The `_bin` collations of UTF-8: different codes differ.
            _ => None,
        }
    }
}
