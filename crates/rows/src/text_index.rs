//! FULLTEXT indexes: the words of a text, and the bytes of their entries (docs/formats.md,
//! "Entries of FULLTEXT indexes").
//!
//! An index has one entry for each distinct indexed word of a row. Words that are equal by the
//! index's collation are one word:
//!
//! ```text
//! key    self-delimiting sort key of the word, row key
//! value  length of the row key, [the word,] numbers of the word's places in the row
//! ```
//!
//! The places count all words of the row's columns in their order, indexed or not, so that a
//! phrase is found without the row. The word itself is in the value only where a sort key has
//! several levels: then the entries of a prefix cannot be told by their keys.
//!
//! Texts that are not kept as UTF-8 are converted, and their words are compared by a collation of
//! utf8mb4 ([`collation_of_words`]).
//!
//! Rejected: entries with the words of many rows (each writer of a frequent word would conflict
//! with all others), and a table of documents with their lengths beside the entries (relevance
//! does not depend on them).

use crate::bytes::{push_varint, take_varint};
use crate::definition::{FullText, Index, TableDef};
use crate::error::{Error, Result};
use porpoise_base::interrupt;
use porpoise_types::full_text::WordRules;
use porpoise_types::{
    Charset, Collation, ColumnType, Kind, ValueRef, encode_key, encode_text_start,
};
use std::borrow::Cow;

/// Number of words between interrupt checkpoints.
const CHECKPOINT_WORDS: usize = 1024;

/// A FULLTEXT index, prepared for reading and writing entries.
#[derive(Clone, Debug)]
pub struct TextIndex {
    rules: WordRules,
    /// The type that words are encoded as.
    word_type: ColumnType,
    /// Positions of the columns, with their character sets.
    columns: Vec<(usize, Charset)>,
    /// Whether entries hold their words.
    keeps_words: bool,
}

/// A visitor of keys and values of entries.
pub(crate) type TextEntryVisitor<'v> = dyn FnMut(&[u8], &[u8]) -> Result<()> + 'v;

/// The place of a word in a row, with ranges of the bytes of its key and of its text.
struct Place {
    key: (usize, usize),
    text: (usize, usize),
    number: u32,
}

/// The collation by which words of a column are compared.
#[must_use]
pub fn collation_of_words(collation: Collation) -> Collation {
    let charset = collation.charset();
    if matches!(charset, Charset::Utf8mb4 | Charset::Utf8mb3) || charset.is_kept_as_utf8() {
        collation
    } else if collation.is_ci() {
        Collation::UTF8MB4_GENERAL_CI
    } else {
        Collation::UTF8MB4_BIN
    }
}

/// Whether a column of the type can be part of a FULLTEXT index.
#[must_use]
pub fn is_searchable(ty: &ColumnType) -> bool {
    let texts = [
        Kind::Char,
        Kind::VarChar,
        Kind::TinyText,
        Kind::Text,
        Kind::MediumText,
        Kind::LongText,
    ];
    texts.contains(&ty.kind) && ty.collation != Collation::BINARY
}

impl FullText {
    /// The rules by which words of a collation are indexed.
    #[must_use]
    pub fn rules(&self, collation: Collation) -> WordRules {
        let mut rules = match &self.stopwords {
            None => WordRules::new(collation),
            Some(words) => WordRules::with_stopwords(collation, words.iter().map(String::as_str)),
        };
        rules.parser = self.parser;
        rules.min_chars = usize::try_from(self.min_chars).unwrap_or(usize::MAX);
        rules.max_chars = usize::try_from(self.max_chars).unwrap_or(usize::MAX);
        rules
    }
}

impl TextIndex {
    /// Prepares an index; `None` for one of another kind.
    pub(crate) fn new(table: &TableDef, index: &Index) -> Option<TextIndex> {
        let settings = index.full_text.as_deref()?;
        let columns = index.parts.iter().filter_map(|part| {
            let column = table.columns.get(part.column)?;
            Some((part.column, column.ty.collation.charset()))
        });
        let first = table.columns.get(index.parts.first()?.column)?;
        let collation = collation_of_words(first.ty.collation);
        Some(TextIndex {
            rules: settings.rules(collation),
            word_type: ColumnType::varchar(settings.max_chars, collation),
            columns: columns.collect(),
            keeps_words: collation.has_levels(),
        })
    }

    /// The rules by which words are indexed.
    #[must_use]
    pub fn rules(&self) -> &WordRules {
        &self.rules
    }

    /// The texts of a row's columns, given by position.
    pub fn texts<'r>(&self, mut value: impl FnMut(usize) -> ValueRef<'r>) -> Vec<Cow<'r, str>> {
        let texts = self.columns.iter().map(|(at, charset)| match value(*at) {
            ValueRef::Bytes(bytes) => text_of(bytes, *charset),
            _ => Cow::Borrowed(""),
        });
        texts.collect()
    }

    /// Appends the start of the keys of a word's entries: of all words that begin with it, if it is
    /// a prefix.
    pub(crate) fn append_key(&self, word: &str, prefix: bool, out: &mut Vec<u8>) {
        if prefix {
            encode_text_start(word.as_bytes(), &self.word_type, false, false, out);
        } else {
            let word = ValueRef::Bytes(word.as_bytes());
            encode_key(word, &self.word_type, false, false, out);
        }
    }

    /// Whether an entry that a prefix found begins with it.
    pub(crate) fn begins_with(&self, entry: &TextEntry<'_>, prefix: &str) -> bool {
        if !self.keeps_words {
            return true;
        }
        let charset = self.rules.collation.charset();
        let end = charset.prefix_len(entry.word, prefix.chars().count());
        let start = entry.word.get(..end).unwrap_or(entry.word);
        self.rules.collation.equal(start, prefix.as_bytes())
    }

    /// Visits the keys and values of the entries of a row with these texts, in the order of their
    /// keys.
    ///
    /// # Errors
    /// A cancellation; those of `visit`.
    pub(crate) fn each_entry(
        &self,
        texts: &[Cow<'_, str>],
        primary: &[u8],
        visit: &mut TextEntryVisitor<'_>,
    ) -> Result<()> {
        let (mut keys, mut words) = (Vec::new(), Vec::new());
        let places = self.places(texts, &mut keys, &mut words)?;
        let key_of = |place: &Place| keys.get(place.key.0..place.key.1).unwrap_or_default();
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for word in places.chunk_by(|a, b| key_of(a) == key_of(b)) {
            let Some(first) = word.first() else { continue };
            key.clear();
            key.extend_from_slice(key_of(first));
            key.extend_from_slice(primary);
            value.clear();
            push_key_length(primary, &mut value);
            if self.keeps_words {
                let text = words.get(first.text.0..first.text.1).unwrap_or_default();
                push_varint(text.len() as u64, &mut value);
                value.extend_from_slice(text);
            }
            let mut before = 0;
            for place in word {
                push_varint(u64::from(place.number - before), &mut value);
                before = place.number;
            }
            visit(&key, &value)?;
        }
        Ok(())
    }

    /// The places of the indexed words, by key and number. Keys and words are appended to buffers.
    fn places(
        &self,
        texts: &[Cow<'_, str>],
        keys: &mut Vec<u8>,
        words: &mut Vec<u8>,
    ) -> Result<Vec<Place>> {
        let mut places = Vec::new();
        let mut scratch = Vec::new();
        let all = texts.iter().flat_map(|text| self.rules.tokens(text));
        for (number, word) in (0_u32..).zip(all) {
            if number as usize % CHECKPOINT_WORDS == CHECKPOINT_WORDS - 1 {
                checkpoint()?;
            }
            if !self.rules.indexed_key(word, &mut scratch) {
                continue;
            }
            let (key, text) = (keys.len(), words.len());
            self.append_key(word, false, keys);
            if self.keeps_words {
                words.extend_from_slice(word.as_bytes());
            }
            places.push(Place {
                key: (key, keys.len()),
                text: (text, words.len()),
                number,
            });
        }
        let keys = &*keys;
        let key_of = |place: &Place| keys.get(place.key.0..place.key.1).unwrap_or_default();
        // Stable: places of one word stay in their order.
        places.sort_by(|a, b| key_of(a).cmp(key_of(b)));
        Ok(places)
    }

    /// Reads an entry.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for bytes that are no entry.
    pub(crate) fn entry<'e>(&self, key: &'e [u8], value: &'e [u8]) -> Result<TextEntry<'e>> {
        let read = || {
            let (primary, mut rest) = split_entry(key, value)?;
            let word = if self.keeps_words {
                let len = usize::try_from(take_varint(&mut rest)?).ok()?;
                let (word, behind) = rest.split_at_checked(len)?;
                rest = behind;
                word
            } else {
                &[]
            };
            let well_formed = rest.last().is_some_and(|last| last & 0x80 == 0);
            well_formed.then_some(TextEntry {
                primary,
                word,
                places: rest,
            })
        };
        read().ok_or_else(|| Error::Corrupt("an entry of a FULLTEXT index".to_owned()))
    }
}

/// An entry of a FULLTEXT index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextEntry<'e> {
    /// The row's key.
    pub(crate) primary: &'e [u8],
    /// The word, if entries hold it.
    word: &'e [u8],
    /// Encoded places.
    places: &'e [u8],
}

impl TextEntry<'_> {
    /// Number of times that the row has the word.
    pub(crate) fn frequency(&self) -> u64 {
        self.places.iter().filter(|byte| **byte & 0x80 == 0).count() as u64
    }

    /// Appends the numbers of its places.
    pub(crate) fn append_places(&self, out: &mut Vec<u32>) {
        let (mut rest, mut before) = (self.places, 0u64);
        while let Some(distance) = take_varint(&mut rest) {
            before = before.saturating_add(distance);
            out.push(u32::try_from(before).unwrap_or(u32::MAX));
        }
    }
}

/// Passes an interrupt checkpoint.
pub(crate) fn checkpoint() -> Result<()> {
    interrupt::check().map_err(|ended| Error::Kv(porpoise_kv::Error::Cancelled(ended.0)))
}

/// The text of a column's value as UTF-8.
fn text_of(bytes: &[u8], charset: Charset) -> Cow<'_, str> {
    if matches!(charset, Charset::Utf8mb4 | Charset::Utf8mb3) || charset.is_kept_as_utf8() {
        return String::from_utf8_lossy(bytes);
    }
    match charset.convert(Charset::Utf8mb4, bytes).0 {
        Cow::Borrowed(text) => String::from_utf8_lossy(text),
        Cow::Owned(text) => Cow::Owned(String::from_utf8_lossy(&text).into_owned()),
    }
}

/// Appends the length of a row key: one byte up to 127, else two, the first with its top bit set.
pub(crate) fn push_key_length(primary: &[u8], out: &mut Vec<u8>) {
    if let Ok(len @ 0..=0x7f) = u8::try_from(primary.len()) {
        out.push(len);
    } else {
        // Keys have at most a few kilobytes, so the top bit is free.
        let len = u16::try_from(primary.len()).unwrap_or(u16::MAX) | 0x8000;
        out.extend_from_slice(&len.to_be_bytes());
    }
}

/// Splits an entry whose value begins with the length of the row key at the end of its key: that
/// key, and the rest of the value.
pub(crate) fn split_entry<'e>(key: &'e [u8], value: &'e [u8]) -> Option<(&'e [u8], &'e [u8])> {
    let (first, rest) = value.split_first()?;
    let (len, rest) = if first & 0x80 == 0 {
        (usize::from(*first), rest)
    } else {
        let (second, rest) = rest.split_first()?;
        (
            usize::from(u16::from_be_bytes([first & 0x7f, *second])),
            rest,
        )
    };
    let primary = key.get(key.len().checked_sub(len)?..)?;
    Some((primary, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use porpoise_types::full_text::TextParser;

    fn index(collation: Collation) -> TextIndex {
        TextIndex {
            rules: WordRules::new(collation),
            word_type: ColumnType::varchar(84, collation),
            columns: Vec::new(),
            keeps_words: collation.has_levels(),
        }
    }

    type Found = Vec<(Vec<u8>, u64, Vec<u32>)>;

    fn entries(index: &TextIndex, texts: &[&str], primary: &[u8]) -> Found {
        let texts: Vec<Cow<'_, str>> = texts.iter().map(|text| Cow::Borrowed(*text)).collect();
        let mut all = Vec::new();
        let mut add = |key: &[u8], value: &[u8]| {
            let entry = index.entry(key, value)?;
            assert_eq!(entry.primary, primary);
            let mut places = Vec::new();
            entry.append_places(&mut places);
            all.push((entry.word.to_vec(), entry.frequency(), places));
            Ok(())
        };
        index.each_entry(&texts, primary, &mut add).unwrap();
        all
    }

    #[test]
    fn a_row_has_an_entry_for_each_word_with_all_its_places() {
        let index = index(Collation::UTF8MB4_0900_AI_CI);
        let far = "the ".repeat(300) + "fox";
        let found = entries(&index, &["Fox the dog FOX", &far], &[7; 200]);
        let counts: Vec<(u64, Vec<u32>)> = found.into_iter().map(|(_, n, at)| (n, at)).collect();
        assert_eq!(counts, [(1, vec![2]), (3, vec![0, 3, 304])]);
    }

    #[test]
    fn entries_hold_words_whose_keys_have_levels() {
        let collation = Collation::by_name("utf8mb4_0900_as_cs").unwrap();
        let index = index(collation);
        let found = entries(&index, &["Fox fox"], b"k");
        let words: Vec<&[u8]> = found.iter().map(|(word, ..)| word.as_slice()).collect();
        assert_eq!(words, [b"fox", b"Fox"]);
        let entry = TextEntry {
            primary: b"k",
            word: b"Fox",
            places: &[0],
        };
        assert!(index.begins_with(&entry, "Fo") && !index.begins_with(&entry, "fo"));
    }

    #[test]
    fn malformed_entries_are_refused() {
        let index = index(Collation::UTF8MB4_GENERAL_CI);
        for value in [&[][..], &[1], &[0x80], &[9, 0], &[1, 0x80]] {
            assert!(index.entry(b"abc", value).is_err(), "{value:?}");
        }
        assert!(index.entry(b"abc", &[1, 5]).is_ok());
    }

    #[test]
    fn sequences_of_characters_are_entries_too() {
        let mut index = index(Collation::UTF8MB4_0900_AI_CI);
        index.rules.parser = TextParser::Ngrams(2);
        let found = entries(&index, &["日本語 日本"], b"k");
        let places: Vec<Vec<u32>> = found.into_iter().map(|(.., at)| at).collect();
        assert_eq!(places, [vec![0, 2], vec![1]]);
    }
}
