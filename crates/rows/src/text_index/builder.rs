//! Builds posting blocks of many documents in memory.
//!
//! Documents are added in the order of their rows' keys, so that each word's postings grow at their
//! ends. The numbers of words are cached by their texts, so that the collation key of a text is computed
//! once, not at each occurrence.

use super::entries::{
    FULL_BLOCK, PendingWords, Posting, begin_block, push_block_number, push_block_start,
    push_posting,
};
use super::words::{TextIndex, checkpoint, push_places};
use crate::error::{Error, Result};
use foldhash::{HashMap, HashMapExt};
use std::borrow::Cow;

/// Number of words between interrupt checkpoints.
const CHECKPOINT_WORDS: usize = 4096;

/// Accounted bytes of a word without its texts and postings.
const WORD_BYTES: usize = 160;

/// The number of all words that are not indexed.
const NOT_INDEXED: u32 = u32::MAX;

/// A visitor of keys and values.
pub(crate) type EntryVisitor<'v> = dyn FnMut(&[u8], &[u8]) -> Result<()> + 'v;

/// The postings of a word.
#[derive(Default)]
struct WordPostings {
    /// The word as its first document has it.
    word: Box<[u8]>,
    full: Vec<Vec<u8>>,
    open: Vec<u8>,
    /// Number of the document of the last posting of the open block.
    last: Option<u32>,
}

/// Collects documents, and builds blocks of their words.
pub(crate) struct TextBuilder<'i> {
    index: &'i TextIndex,
    /// Numbers of words by their texts.
    by_text: HashMap<Box<[u8]>, u32>,
    /// Numbers of words by their keys.
    by_key: HashMap<Box<[u8]>, u32>,
    words: Vec<WordPostings>,
    /// Keys of the documents' rows, one after the other, with their ends.
    primaries: Vec<u8>,
    ends: Vec<usize>,
    bytes: usize,
    scratch: Scratch,
}

#[derive(Default)]
struct Scratch {
    key: Vec<u8>,
    /// Number of the word and place, for each word of a document.
    places: Vec<(u32, u32)>,
    encoded: Vec<u8>,
}

impl<'i> TextBuilder<'i> {
    pub(crate) fn new(index: &'i TextIndex) -> TextBuilder<'i> {
        TextBuilder {
            index,
            by_text: HashMap::new(),
            by_key: HashMap::new(),
            words: Vec::new(),
            primaries: Vec::new(),
            ends: Vec::new(),
            bytes: 0,
            scratch: Scratch::default(),
        }
    }

    /// Approximate size in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.primaries.len()
    }

    /// Number of documents.
    pub(crate) fn documents(&self) -> u64 {
        self.ends.len() as u64
    }

    /// Adds the document of a row with these texts, in generation 0.
    ///
    /// # Errors
    /// A cancellation.
    pub(crate) fn add_texts(&mut self, texts: &[Cow<'_, str>], primary: &[u8]) -> Result<()> {
        let mut places = std::mem::take(&mut self.scratch.places);
        let rules = self.index.rules();
        let all = texts.iter().flat_map(|text| rules.tokens(text));
        for (place, word) in (0_u32..).zip(all) {
            if place as usize % CHECKPOINT_WORDS == CHECKPOINT_WORDS - 1 {
                checkpoint()?;
            }
            let number = self.word(word);
            if number != NOT_INDEXED {
                places.push((number, place));
            }
        }
        places.sort_unstable();
        let document = self.begin_document(primary);
        let mut encoded = std::mem::take(&mut self.scratch.encoded);
        for word in places.chunk_by(|a, b| a.0 == b.0) {
            let Some((number, _)) = word.first() else {
                continue;
            };
            encoded.clear();
            push_places(word.iter().map(|(_, place)| *place), &mut encoded);
            self.add_posting(*number, document, 0, &encoded);
        }
        places.clear();
        self.scratch.places = places;
        self.scratch.encoded = encoded;
        Ok(())
    }

    /// Adds a pending document.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub(crate) fn add_pending(
        &mut self,
        primary: &[u8],
        generation: u64,
        document: &[u8],
    ) -> Result<()> {
        let number = self.begin_document(primary);
        for word in PendingWords::new(document, self.index.keeps_words()) {
            let word = word?;
            let at = self.word_of_key(word.key, word.word);
            self.add_posting(at, number, generation, word.places);
        }
        Ok(())
    }

    fn begin_document(&mut self, primary: &[u8]) -> u32 {
        self.primaries.extend_from_slice(primary);
        self.ends.push(self.primaries.len());
        u32::try_from(self.ends.len() - 1).unwrap_or(u32::MAX)
    }

    /// The number of a word.
    fn word(&mut self, word: &str) -> u32 {
        if let Some(number) = self.by_text.get(word.as_bytes()) {
            return *number;
        }
        let mut key = std::mem::take(&mut self.scratch.key);
        key.clear();
        let number = if self.index.rules().push_indexed_key(word, &mut key) {
            let text = if self.index.keeps_words() {
                word.as_bytes()
            } else {
                &[]
            };
            self.word_of_key(&key, text)
        } else {
            NOT_INDEXED
        };
        self.scratch.key = key;
        self.bytes += word.len() + WORD_BYTES / 2;
        self.by_text.insert(word.as_bytes().into(), number);
        number
    }

    /// The number of the word with a key.
    fn word_of_key(&mut self, key: &[u8], word: &[u8]) -> u32 {
        if let Some(number) = self.by_key.get(key) {
            return *number;
        }
        let number = u32::try_from(self.words.len()).unwrap_or(NOT_INDEXED);
        self.bytes += key.len() + WORD_BYTES;
        self.by_key.insert(key.into(), number);
        self.words.push(WordPostings {
            word: word.into(),
            ..WordPostings::default()
        });
        number
    }

    fn add_posting(&mut self, word: u32, document: u32, generation: u64, places: &[u8]) {
        let (ends, primaries) = (&self.ends, &self.primaries);
        let row = |document: u32| {
            let at = document as usize;
            let end = ends.get(at).copied().unwrap_or_default();
            let before = at.checked_sub(1).and_then(|at| ends.get(at));
            let start = before.copied().unwrap_or_default();
            primaries.get(start..end).unwrap_or_default()
        };
        let Some(postings) = self.words.get_mut(word as usize) else {
            return;
        };
        if postings.open.len() >= FULL_BLOCK {
            postings.full.push(std::mem::take(&mut postings.open));
            postings.last = None;
        }
        let before = postings.open.len();
        if postings.last.is_none() && self.index.keeps_words() {
            begin_block(Some(&postings.word), &mut postings.open);
        }
        let posting = Posting {
            primary: row(document),
            generation,
            places,
        };
        push_posting(postings.last.map(row), &posting, &mut postings.open);
        postings.last = Some(document);
        self.bytes += postings.open.len() - before;
    }

    /// Passes the blocks to `visit`, in the order of their keys, which contain the number of the batch.
    /// Leaves the builder empty.
    ///
    /// # Errors
    /// Those of `visit`; a word with too many blocks.
    pub(crate) fn finish(&mut self, batch: u32, visit: &mut EntryVisitor<'_>) -> Result<()> {
        let mut words: Vec<(Box<[u8]>, u32)> = self.by_key.drain().collect();
        words.sort_unstable();
        let mut key = Vec::new();
        for (word, number) in words {
            let Some(postings) = self.words.get_mut(number as usize) else {
                continue;
            };
            let open = std::mem::take(&mut postings.open);
            let blocks = std::mem::take(&mut postings.full).into_iter();
            for (n, block) in blocks.chain([open]).enumerate() {
                let too_many = |_| Error::Corrupt("a word has too many blocks".to_owned());
                key.clear();
                push_block_start(&word, &mut key);
                push_block_number(batch, u16::try_from(n).map_err(too_many)?, &mut key);
                visit(&key, &block)?;
            }
        }
        self.by_text.clear();
        self.words.clear();
        self.primaries.clear();
        self.ends.clear();
        self.bytes = 0;
        Ok(())
    }
}
