//! The words of a FULLTEXT index: how a row's texts are split, and the keys by which words are
//! found.
//!
//! Words that are equal by the index's collation are one word, and have one key. Texts that are not
//! kept as UTF-8 are converted, and their words are compared by a collation of utf8mb4
//! ([`collation_of_words`]).

use super::entries::push_pending_word;
use crate::bytes::push_varint;
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

/// Estimated number of bytes of a text for each word, to reserve space.
const MEAN_WORD_BYTES: usize = 6;

/// A FULLTEXT index, prepared for reading and writing entries.
#[derive(Clone, Debug)]
pub struct TextIndex {
    rules: WordRules,
    /// The type that words are encoded as.
    word_type: ColumnType,
    /// Positions of the columns, with their character sets.
    columns: Vec<(usize, Charset)>,
    /// Whether entries hold words beside their keys: entries of a prefix cannot be told by keys of
    /// several levels.
    keeps_words: bool,
}

/// The indexed words of a row, in the order of its texts.
#[derive(Default)]
struct Places {
    /// The concatenated keys of the words.
    keys: Vec<u8>,
    /// The concatenated words, if the index keeps words.
    words: Vec<u8>,
    list: Vec<Place>,
}

/// The place of a word in a row, with the ends of its key and of its text.
struct Place {
    key_end: usize,
    word_end: usize,
    number: u32,
}

impl Places {
    fn key(&self, at: usize) -> &[u8] {
        let start = self.before(at).map_or(0, |place| place.key_end);
        let end = self.list.get(at).map_or(0, |place| place.key_end);
        self.keys.get(start..end).unwrap_or_default()
    }

    fn word(&self, at: usize) -> &[u8] {
        let start = self.before(at).map_or(0, |place| place.word_end);
        let end = self.list.get(at).map_or(0, |place| place.word_end);
        self.words.get(start..end).unwrap_or_default()
    }

    fn before(&self, at: usize) -> Option<&Place> {
        self.list.get(at.checked_sub(1)?)
    }

    fn number(&self, at: usize) -> u32 {
        self.list.get(at).map_or(0, |place| place.number)
    }

    /// Positions in the list in order of key and position, each with the first eight bytes of its
    /// key. Most comparisons are decided by these bytes, without access to the keys.
    fn by_key(&self) -> Vec<(u64, u32)> {
        let start = |at: u32| {
            let key = self.key(at as usize);
            let mut start = [0; 8];
            start.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
            u64::from_be_bytes(start)
        };
        let count = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        let mut sorted: Vec<(u64, u32)> = (0..count).map(|at| (start(at), at)).collect();
        sorted.sort_unstable_by(|a, b| {
            let keys = || self.key(a.1 as usize).cmp(self.key(b.1 as usize));
            a.0.cmp(&b.0).then_with(keys).then(a.1.cmp(&b.1))
        });
        sorted
    }
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
            columns: columns.collect(),
            ..TextIndex::of_words(settings, collation)
        })
    }

    /// An index over no columns, of words of a collation.
    pub(crate) fn of_words(settings: &FullText, collation: Collation) -> TextIndex {
        TextIndex {
            rules: settings.rules(collation),
            word_type: ColumnType::varchar(settings.max_chars, collation),
            columns: Vec::new(),
            keeps_words: collation.has_levels(),
        }
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

    /// Whether entries hold words beside their keys.
    pub(crate) fn keeps_words(&self) -> bool {
        self.keeps_words
    }

    /// Appends the key of a word, or the common start of the keys of all words that begin with it.
    pub(crate) fn append_key(&self, word: &str, prefix: bool, out: &mut Vec<u8>) {
        if prefix {
            encode_text_start(word.as_bytes(), &self.word_type, false, false, out);
        } else {
            let word = ValueRef::Bytes(word.as_bytes());
            encode_key(word, &self.word_type, false, false, out);
        }
    }

    /// Whether a word that entries hold, and whose key has the start of those of a prefix, begins with it.
    pub(crate) fn begins_with(&self, word: &[u8], prefix: &str) -> bool {
        if !self.keeps_words {
            return true;
        }
        let charset = self.rules.collation.charset();
        let end = charset.prefix_len(word, prefix.chars().count());
        let start = word.get(..end).unwrap_or(word);
        self.rules.collation.equal(start, prefix.as_bytes())
    }

    /// Appends the document of a row with these texts: its indexed words by key, with their places.
    ///
    /// # Errors
    /// A cancellation.
    pub(crate) fn append_document(&self, texts: &[Cow<'_, str>], out: &mut Vec<u8>) -> Result<()> {
        let places = self.places(texts)?;
        out.reserve(places.keys.len() + places.words.len() + 4 * places.list.len());
        let mut encoded = Vec::new();
        let sorted = places.by_key();
        let key_of = |place: &(u64, u32)| places.key(place.1 as usize);
        for word in sorted.chunk_by(|a, b| a.0 == b.0 && key_of(a) == key_of(b)) {
            let Some(first) = word.first() else { continue };
            encoded.clear();
            let numbers = word.iter().map(|(_, at)| places.number(*at as usize));
            push_places(numbers, &mut encoded);
            let text = self.keeps_words.then(|| places.word(first.1 as usize));
            push_pending_word(key_of(first), text, &encoded, out);
        }
        Ok(())
    }

    /// The places of the indexed words.
    fn places(&self, texts: &[Cow<'_, str>]) -> Result<Places> {
        let bytes = texts.iter().map(|text| text.len()).sum::<usize>();
        let mut places = Places::default();
        places.keys.reserve(bytes.saturating_mul(2));
        places.list.reserve(bytes / MEAN_WORD_BYTES);
        let all = texts.iter().flat_map(|text| self.rules.tokens(text));
        for (number, word) in (0_u32..).zip(all) {
            if number as usize % CHECKPOINT_WORDS == CHECKPOINT_WORDS - 1 {
                checkpoint()?;
            }
            if !self.rules.push_indexed_key(word, &mut places.keys) {
                continue;
            }
            if self.keeps_words {
                places.words.extend_from_slice(word.as_bytes());
            }
            places.list.push(Place {
                key_end: places.keys.len(),
                word_end: places.words.len(),
                number,
            });
        }
        Ok(places)
    }
}

/// Appends ascending places: each as its distance from the one before.
pub(crate) fn push_places(places: impl Iterator<Item = u32>, out: &mut Vec<u8>) {
    let mut before = 0;
    for place in places {
        push_varint(u64::from(place - before), out);
        before = place;
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

#[cfg(test)]
mod tests {
    use super::super::builder::TextBuilder;
    use super::super::entries::{Block, PendingWords, append_places, count_places, word_of_block};
    use super::*;
    use porpoise_types::full_text::TextParser;

    fn index(collation: Collation) -> TextIndex {
        TextIndex::of_words(&FullText::default(), collation)
    }

    /// Word, number of times, and places of each word of a document.
    type Found = Vec<(Vec<u8>, u32, Vec<u32>)>;

    fn places_of(encoded: &[u8]) -> Vec<u32> {
        let mut places = Vec::new();
        append_places(encoded, &mut places);
        places
    }

    /// The words of a document, which must be those of blocks built of it.
    fn words(index: &TextIndex, texts: &[&str]) -> Found {
        let texts: Vec<Cow<'_, str>> = texts.iter().map(|text| Cow::Borrowed(*text)).collect();
        let mut document = Vec::new();
        index.append_document(&texts, &mut document).unwrap();
        let (mut all, mut keys) = (Found::new(), Vec::new());
        for word in PendingWords::new(&document, index.keeps_words()) {
            let word = word.unwrap();
            keys.push(word.key.to_vec());
            let places = places_of(word.places);
            all.push((word.word.to_vec(), count_places(word.places), places));
        }
        assert!(keys.is_sorted());
        let mut pending = TextBuilder::new(index);
        pending.add_pending(b"row", 0, &document).unwrap();
        let mut direct = TextBuilder::new(index);
        direct.add_texts(&texts, b"row").unwrap();
        for mut builder in [pending, direct] {
            let (mut built, mut built_keys) = (Found::new(), Vec::new());
            let mut visit = |key: &[u8], value: &[u8]| {
                built_keys.push(word_of_block(key)?.to_vec());
                let block = Block::decode(value, index.keeps_words())?;
                let word = block.word.to_vec();
                block.each(&mut Vec::new(), &mut |posting| {
                    assert_eq!(posting.primary, b"row");
                    let count = count_places(posting.places);
                    built.push((word.clone(), count, places_of(posting.places)));
                    Ok(())
                })
            };
            builder.finish(3, &mut visit).unwrap();
            assert_eq!((built, built_keys), (all.clone(), keys.clone()));
        }
        all
    }

    #[test]
    fn a_document_has_each_word_with_all_its_places() {
        let index = index(Collation::UTF8MB4_0900_AI_CI);
        let far = "the ".repeat(300) + "fox";
        let found = words(&index, &["Fox the dog FOX", &far]);
        let counts: Vec<(u32, Vec<u32>)> = found.into_iter().map(|(_, n, at)| (n, at)).collect();
        assert_eq!(counts, [(1, vec![2]), (3, vec![0, 3, 304])]);
    }

    #[test]
    fn entries_hold_words_whose_keys_have_levels() {
        let collation = Collation::by_name("utf8mb4_0900_as_cs").unwrap();
        let index = index(collation);
        let found = words(&index, &["Fox fox"]);
        let texts: Vec<&[u8]> = found.iter().map(|(word, ..)| word.as_slice()).collect();
        assert_eq!(texts, [b"fox", b"Fox"]);
        assert!(index.begins_with(b"Fox", "Fo") && !index.begins_with(b"Fox", "fo"));
    }

    #[test]
    fn sequences_of_characters_are_words_too() {
        let mut index = index(Collation::UTF8MB4_0900_AI_CI);
        index.rules.parser = TextParser::Ngrams(2);
        let found = words(&index, &["日本語 日本"]);
        let places: Vec<Vec<u32>> = found.into_iter().map(|(.., at)| at).collect();
        assert_eq!(places, [vec![0, 2], vec![1]]);
    }
}
