//! CHECK TABLE of a FULLTEXT index: compares the words of rows with the postings and pending documents
//! that the index has for them.
//!
//! Of each row a sum of hashes is kept, of its words and their places: those of the texts are added,
//! those that the index has are subtracted. So the memory depends on the number of rows, not of words.

use crate::error::{Error, Result};
use crate::text_index::TextIndex;
use crate::text_index::entries::{
    BLOCKS, Block, PENDING_DOCUMENTS, PendingWords, Posting, REMOVALS, Removal, STATE_KEY, State,
    split_pending_key, word_of_block,
};
use foldhash::HashMap;
use foldhash::fast::FixedState;
use std::borrow::Cow;
use std::hash::BuildHasher;

/// The difference between what a row has and what an index has for it.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Difference {
    words: i64,
    hashes: u64,
}

/// The check of one FULLTEXT index. Entries are added in the order of their keys, which is that of
/// blocks, pending documents and removals; so removals are added before, in a pass of their own.
#[derive(Default)]
pub(crate) struct TextCheck {
    rows: HashMap<Vec<u8>, Difference>,
    removals: HashMap<Vec<u8>, Removal>,
    document: Vec<u8>,
    primary: Vec<u8>,
}

/// A problem of an index, to be reported with its name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TextProblem {
    /// The entry with this key is malformed.
    Malformed(Vec<u8>),
    /// The row lacks entries.
    Missing(Vec<u8>),
    /// The row has more entries than words, or others.
    Surplus(Vec<u8>),
}

/// Outcome for one entry.
type Subtracted = std::result::Result<(), TextProblem>;

fn hash(word: &[u8], places: &[u8]) -> u64 {
    FixedState::default().hash_one((word, places))
}

impl TextCheck {
    /// Adds the texts of a row.
    pub(crate) fn add_row(
        &mut self,
        index: &TextIndex,
        texts: &[Cow<'_, str>],
        primary: &[u8],
    ) -> Result<()> {
        self.document.clear();
        index.append_document(texts, &mut self.document)?;
        let mut sum = Difference::default();
        for word in PendingWords::new(&self.document, index.keeps_words()) {
            let word = word?;
            sum.words += 1;
            sum.hashes = sum.hashes.wrapping_add(hash(word.key, word.places));
        }
        if sum != Difference::default() {
            self.rows.insert(primary.to_vec(), sum);
        }
        Ok(())
    }

    /// Adds an entry that is a removal; others are left for [`TextCheck::subtract`].
    pub(crate) fn add_removal(&mut self, key: &[u8], value: &[u8]) -> Subtracted {
        if !key.starts_with(REMOVALS) {
            return Ok(());
        }
        let read = || Ok::<_, Error>((Removal::row_of(key)?.to_vec(), Removal::decode(value)?));
        let (row, removal) = read().map_err(|_| TextProblem::Malformed(key.to_vec()))?;
        self.removals.insert(row, removal);
        Ok(())
    }

    /// Subtracts what an entry has, once all removals are known.
    pub(crate) fn subtract(&mut self, index: &TextIndex, key: &[u8], value: &[u8]) -> Subtracted {
        let done = if key.starts_with(BLOCKS) {
            self.subtract_block(index, key, value)
        } else if key.starts_with(PENDING_DOCUMENTS) {
            self.subtract_document(index, key, value)
        } else if key == STATE_KEY {
            State::decode(Some(value)).map(drop)
        } else if key.starts_with(REMOVALS) {
            Ok(())
        } else {
            Err(Error::corrupt("an entry of no kind"))
        };
        done.map_err(|_| TextProblem::Malformed(key.to_vec()))
    }

    fn subtract_block(&mut self, index: &TextIndex, key: &[u8], value: &[u8]) -> Result<()> {
        let word = word_of_block(key)?;
        let mut primary = std::mem::take(&mut self.primary);
        let block = Block::decode(value, index.keeps_words())?;
        let done = block.each(&mut primary, &mut |posting| {
            self.subtract_posting(word, &posting);
            Ok(())
        });
        self.primary = primary;
        done
    }

    fn subtract_document(&mut self, index: &TextIndex, key: &[u8], value: &[u8]) -> Result<()> {
        let (primary, generation) = split_pending_key(key)?;
        for word in PendingWords::new(value, index.keeps_words()) {
            let word = word?;
            let posting = Posting {
                primary,
                generation,
                places: word.places,
            };
            self.subtract_posting(word.key, &posting);
        }
        Ok(())
    }

    fn subtract_posting(&mut self, word: &[u8], posting: &Posting<'_>) {
        let primary = posting.primary;
        let removal = self.removals.get(primary);
        if removal.is_some_and(|removal| posting.generation <= removal.generation) {
            return;
        }
        if !self.rows.contains_key(primary) {
            self.rows.insert(primary.to_vec(), Difference::default());
        }
        if let Some(row) = self.rows.get_mut(primary) {
            row.words -= 1;
            row.hashes = row.hashes.wrapping_sub(hash(word, posting.places));
        }
    }

    /// The rows whose entries are not those of their words.
    pub(crate) fn problems(self) -> impl Iterator<Item = TextProblem> {
        let rows = self.rows.into_iter();
        let different = rows.filter(|(_, row)| *row != Difference::default());
        different.map(|(key, row)| {
            if row.words > 0 {
                TextProblem::Missing(key)
            } else {
                TextProblem::Surplus(key)
            }
        })
    }
}
