//! Entries of FULLTEXT indexes as bytes (docs/formats.md, "Entries of FULLTEXT indexes").
//!
//! Everything read is checked: bytes that are not an entry are [`Error::Corrupt`].

use crate::bytes::{push_varint, take_varint};
use crate::error::{Error, Result};

/// First byte of the key of the index's state, which is the whole key.
const STATE: u8 = 0;
/// First byte of the keys of posting blocks.
const BLOCK: u8 = 1;
/// First byte of the keys of pending documents.
const PENDING: u8 = 2;
/// First byte of the keys of removals.
const REMOVAL: u8 = 3;

/// Key of the state of an index.
pub(crate) const STATE_KEY: &[u8] = &[STATE];
/// Start of the keys of all blocks.
pub(crate) const BLOCKS: &[u8] = &[BLOCK];
/// Start of the keys of all pending documents.
pub(crate) const PENDING_DOCUMENTS: &[u8] = &[PENDING];
/// Start of the keys of all removals.
pub(crate) const REMOVALS: &[u8] = &[REMOVAL];

/// Bytes of a block's key after its word: batch and number.
const BLOCK_NUMBER_BYTES: usize = 6;

/// Size from which a block gets no further posting.
pub(crate) const FULL_BLOCK: usize = 3_900;

/// Value in place of a suffix's length that announces the long form: shared length, length and generation follow.
const WIDE: u8 = 15;

/// A malformed entry.
fn malformed() -> Error {
    Error::Corrupt("an entry of a FULLTEXT index".to_owned())
}

/// State of an index that maintenance keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// Number of the next batch of blocks.
    pub(crate) next_batch: u32,
    /// Number of documents in blocks, removed ones included.
    pub(crate) documents: u64,
    /// Bytes of the blocks when they were last compacted or built.
    pub(crate) compacted_bytes: u64,
    /// Bytes of the blocks written since.
    pub(crate) recent_bytes: u64,
}

impl State {
    pub(crate) fn decode(value: Option<&[u8]>) -> Result<State> {
        let Some(mut rest) = value else {
            return Ok(State::default());
        };
        let mut next = || take_varint(&mut rest).ok_or_else(malformed);
        Ok(State {
            next_batch: u32::try_from(next()?).map_err(|_| malformed())?,
            documents: next()?,
            compacted_bytes: next()?,
            recent_bytes: next()?,
        })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        push_varint(u64::from(self.next_batch), &mut out);
        for number in [self.documents, self.compacted_bytes, self.recent_bytes] {
            push_varint(number, &mut out);
        }
        out
    }
}

/// The generation up to which a row's documents are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Removal {
    pub(crate) generation: u64,
    /// Whether the row has a document of the next generation.
    pub(crate) live: bool,
}

impl Removal {
    pub(crate) fn decode(value: &[u8]) -> Result<Removal> {
        let (last, mut rest) = value.split_last().ok_or_else(malformed)?;
        let generation = take_varint(&mut rest).filter(|_| rest.is_empty());
        match (generation, last) {
            (Some(generation), live @ 0..=1) => Ok(Removal {
                generation,
                live: *live == 1,
            }),
            _ => Err(malformed()),
        }
    }

    pub(crate) fn encode(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(4);
        push_varint(self.generation, &mut out);
        out.push(u8::from(self.live));
        out
    }

    /// Key of the removal of a row.
    pub(crate) fn key(primary: &[u8]) -> Vec<u8> {
        [REMOVALS, primary].concat()
    }

    /// The row of a removal's key.
    pub(crate) fn row_of(key: &[u8]) -> Result<&[u8]> {
        key.strip_prefix(REMOVALS).ok_or_else(malformed)
    }
}

/// Key of a row's pending document.
pub(crate) fn pending_key(primary: &[u8], generation: u64) -> Vec<u8> {
    [PENDING_DOCUMENTS, primary, &generation.to_be_bytes()].concat()
}

/// Row and generation of a pending document.
pub(crate) fn split_pending_key(key: &[u8]) -> Result<(&[u8], u64)> {
    let rest = key.strip_prefix(PENDING_DOCUMENTS).ok_or_else(malformed)?;
    let (primary, generation) = rest.split_last_chunk().ok_or_else(malformed)?;
    Ok((primary, u64::from_be_bytes(*generation)))
}

/// Appends a word to a pending document: its key, the word if the index keeps words, its places.
pub(crate) fn push_pending_word(key: &[u8], word: Option<&[u8]>, places: &[u8], out: &mut Vec<u8>) {
    for part in [Some(key), word, Some(places)].into_iter().flatten() {
        push_varint(part.len() as u64, out);
        out.extend_from_slice(part);
    }
}

/// A word of a pending document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PendingWord<'d> {
    pub(crate) key: &'d [u8],
    /// The word, if the index keeps words.
    pub(crate) word: &'d [u8],
    /// Encoded places.
    pub(crate) places: &'d [u8],
}

/// The words of a pending document.
pub(crate) struct PendingWords<'d> {
    rest: &'d [u8],
    keeps_words: bool,
}

impl<'d> PendingWords<'d> {
    pub(crate) fn new(document: &'d [u8], keeps_words: bool) -> PendingWords<'d> {
        PendingWords {
            rest: document,
            keeps_words,
        }
    }

    fn take(&mut self) -> Option<PendingWord<'d>> {
        let key = take_bytes(&mut self.rest)?;
        let word = if self.keeps_words {
            take_bytes(&mut self.rest)?
        } else {
            &[]
        };
        let places = take_bytes(&mut self.rest).filter(|places| are_places(places))?;
        Some(PendingWord { key, word, places })
    }
}

impl<'d> Iterator for PendingWords<'d> {
    type Item = Result<PendingWord<'d>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let word = self.take().ok_or_else(malformed);
        if word.is_err() {
            self.rest = &[];
        }
        Some(word)
    }
}

/// Takes a length and that many bytes.
fn take_bytes<'d>(rest: &mut &'d [u8]) -> Option<&'d [u8]> {
    // Lengths are small: one byte in nearly all cases.
    let len = match rest.split_first() {
        Some((len @ 0..=0x7f, behind)) => {
            *rest = behind;
            usize::from(*len)
        }
        _ => usize::try_from(take_varint(rest)?).ok()?,
    };
    let (bytes, behind) = rest.split_at_checked(len)?;
    *rest = behind;
    Some(bytes)
}

/// Whether bytes are encoded places: at least one, the last one complete.
fn are_places(bytes: &[u8]) -> bool {
    bytes.last().is_some_and(|last| last & 0x80 == 0)
}

/// Number of encoded places.
pub(crate) fn count_places(places: &[u8]) -> u32 {
    let ends = places.iter().filter(|byte| **byte & 0x80 == 0).count();
    u32::try_from(ends).unwrap_or(u32::MAX)
}

/// Appends the numbers of encoded places.
pub(crate) fn append_places(mut places: &[u8], out: &mut Vec<u32>) {
    let mut before = 0u64;
    while let Some(distance) = take_varint(&mut places) {
        before = before.saturating_add(distance);
        out.push(u32::try_from(before).unwrap_or(u32::MAX));
    }
}

/// Appends the start of the keys of a word's blocks, given the word's key or the start of one.
pub(crate) fn push_block_start(word_key: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(BLOCKS);
    out.extend_from_slice(word_key);
}

/// Appends the rest of the key of a block: the batch that wrote it, and its number there.
pub(crate) fn push_block_number(batch: u32, number: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&batch.to_be_bytes());
    out.extend_from_slice(&number.to_be_bytes());
}

/// The word's key in the key of a block.
pub(crate) fn word_of_block(key: &[u8]) -> Result<&[u8]> {
    let rest = key.strip_prefix(BLOCKS).ok_or_else(malformed)?;
    let len = rest.len().checked_sub(BLOCK_NUMBER_BYTES);
    len.and_then(|len| rest.get(..len)).ok_or_else(malformed)
}

/// A document that has a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Posting<'p> {
    /// The row's key.
    pub(crate) primary: &'p [u8],
    pub(crate) generation: u64,
    /// Encoded places.
    pub(crate) places: &'p [u8],
}

/// Begins a block: with the word, if the index keeps words.
pub(crate) fn begin_block(word: Option<&[u8]>, out: &mut Vec<u8>) {
    if let Some(word) = word {
        push_varint(word.len() as u64, out);
        out.extend_from_slice(word);
    }
}

/// Appends a posting to a block, after that of the row `before`. Row keys are ascending, so that they
/// share their starts.
pub(crate) fn push_posting(before: Option<&[u8]>, posting: &Posting<'_>, out: &mut Vec<u8>) {
    let known = before.unwrap_or_default();
    let pairs = known.iter().zip(posting.primary);
    let shared = pairs.take_while(|(a, b)| a == b).count();
    let suffix = posting.primary.get(shared..).unwrap_or_default();
    let short = u8::try_from(suffix.len()).ok().filter(|len| {
        *len < WIDE && posting.generation == 0 && known.len() == posting.primary.len()
    });
    let places_len = u8::try_from(posting.places.len()).ok();
    let places_len = places_len.filter(|len| *len < 16);
    out.push(short.unwrap_or(WIDE) << 4 | places_len.unwrap_or(0));
    if short.is_none() {
        push_varint(shared as u64, out);
        push_varint(suffix.len() as u64, out);
        push_varint(posting.generation, out);
    }
    if places_len.is_none() {
        push_varint(posting.places.len() as u64, out);
    }
    out.extend_from_slice(suffix);
    out.extend_from_slice(posting.places);
}

/// The postings of a block.
pub(crate) struct Block<'b> {
    /// The word, if the index keeps words.
    pub(crate) word: &'b [u8],
    rest: &'b [u8],
}

impl<'b> Block<'b> {
    pub(crate) fn decode(value: &'b [u8], keeps_words: bool) -> Result<Block<'b>> {
        let mut rest = value;
        let word = if keeps_words {
            take_bytes(&mut rest).ok_or_else(malformed)?
        } else {
            &[]
        };
        Ok(Block { word, rest })
    }

    /// Visits the postings. `primary` is a buffer.
    pub(crate) fn each(
        self,
        primary: &mut Vec<u8>,
        visit: &mut dyn FnMut(Posting<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut rest = self.rest;
        primary.clear();
        while !rest.is_empty() {
            let (generation, places) = take_posting(&mut rest, primary).ok_or_else(malformed)?;
            visit(Posting {
                primary,
                generation,
                places,
            })?;
        }
        Ok(())
    }
}

/// Takes a posting: generation and places. `primary` has the row key of the previous posting, and gets that of this one.
fn take_posting<'b>(rest: &mut &'b [u8], primary: &mut Vec<u8>) -> Option<(u64, &'b [u8])> {
    let (head, behind) = rest.split_first()?;
    *rest = behind;
    let (short, places_len) = (head >> 4, usize::from(head & 15));
    let (mut shared, mut suffix_len) = (0, usize::from(short));
    let mut generation = 0;
    if short == WIDE {
        shared = usize::try_from(take_varint(rest)?).ok()?;
        suffix_len = usize::try_from(take_varint(rest)?).ok()?;
        generation = take_varint(rest)?;
    } else {
        shared += primary.len().checked_sub(suffix_len)?;
    }
    let places_len = match places_len {
        0 => usize::try_from(take_varint(rest)?).ok()?,
        len => len,
    };
    let (suffix, behind) = rest.split_at_checked(suffix_len)?;
    let (places, behind) = behind.split_at_checked(places_len)?;
    *rest = behind;
    if shared > primary.len() || !are_places(places) {
        return None;
    }
    primary.truncate(shared);
    primary.extend_from_slice(suffix);
    Some((generation, places))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(postings: &[(&[u8], u64, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        begin_block(Some(b"fox"), &mut out);
        let mut before = None;
        for (primary, generation, places) in postings {
            let posting = Posting {
                primary,
                generation: *generation,
                places,
            };
            push_posting(before, &posting, &mut out);
            before = Some(*primary);
        }
        out
    }

    type Read = Vec<(Vec<u8>, u64, Vec<u8>)>;

    fn read(value: &[u8]) -> Result<Read> {
        let mut all = Read::new();
        let found = Block::decode(value, true)?;
        assert_eq!(found.word, b"fox");
        found.each(&mut Vec::new(), &mut |posting| {
            let Posting {
                primary,
                generation,
                places,
            } = posting;
            all.push((primary.to_vec(), generation, places.to_vec()));
            Ok(())
        })?;
        Ok(all)
    }

    #[test]
    fn postings_round_trip() {
        let long_places: Vec<u8> = (1..40).collect();
        let long_key = [7; 300];
        let postings: [(&[u8], u64, &[u8]); 9] = [
            (b"abcd", 0, &[5]),
            (b"abce", 0, &[0x80, 1]),
            (b"abce", 3, &[1, 2, 3]),
            (b"abx", 0, &long_places),
            (b"aby", 0, &long_places[..15]),
            (b"aby", 1, &long_places[..16]),
            (b"b", 0, &[1]),
            (&long_key, 0, &[2]),
            (&long_key[..299], u64::MAX, &[2]),
        ];
        let expected: Read = postings
            .iter()
            .map(|(primary, generation, places)| (primary.to_vec(), *generation, places.to_vec()))
            .collect();
        assert_eq!(read(&block(&postings)).unwrap(), expected);
    }

    #[test]
    fn neighbours_with_short_keys_take_three_bytes() {
        let [a, b] = [8u64, 9].map(u64::to_be_bytes);
        let one = block(&[(&a, 0, &[5])]).len();
        assert_eq!(block(&[(&a, 0, &[5]), (&b, 0, &[6])]).len(), one + 3);
    }

    #[test]
    fn malformed_blocks_are_refused() {
        let whole = block(&[(b"abcd", 0, &[5]), (b"abce", 2, &[0x80, 1])]);
        let ends: Vec<usize> = (0..whole.len())
            .filter(|end| read_part(&whole, *end))
            .collect();
        // After the word, and after the first posting.
        assert_eq!(ends, [4, 13]);
        for wrong in [
            &[0x11, b'x', 5][..],
            &[0xf1, 9, 0, 0, 5],
            &[0xf1, 0, 1, 0, b'a', 0x80],
        ] {
            let value = [b"\x03fox", wrong].concat();
            assert!(read(&value).is_err(), "{wrong:?}");
        }
    }

    fn read_part(whole: &[u8], end: usize) -> bool {
        let part = &whole[..end];
        let decoded = Block::decode(part, true);
        decoded.is_ok_and(|block| block.each(&mut Vec::new(), &mut |_| Ok(())).is_ok())
    }

    #[test]
    fn a_pending_document_round_trips() {
        let mut document = Vec::new();
        push_pending_word(b"k1", Some(b"fox"), &[1, 2], &mut document);
        push_pending_word(&[9; 200], Some(b"dog"), &[3], &mut document);
        let words: Result<Vec<PendingWord<'_>>> = PendingWords::new(&document, true).collect();
        let words = words.unwrap();
        assert_eq!(
            (words[0].key, words[0].word, words[0].places),
            (&b"k1"[..], &b"fox"[..], &[1, 2][..])
        );
        assert_eq!((words[1].key, words[1].word), (&[9; 200][..], &b"dog"[..]));
        assert_eq!(words.len(), 2);
        let cut = &document[..document.len() - 1];
        assert!(PendingWords::new(cut, true).any(|word| word.is_err()));
    }

    #[test]
    fn keys_and_small_records_round_trip() {
        let key = pending_key(b"row", 258);
        assert_eq!(split_pending_key(&key).unwrap(), (&b"row"[..], 258));
        assert!(split_pending_key(b"\x02short").is_err());
        let removal = Removal {
            generation: 300,
            live: true,
        };
        assert_eq!(Removal::decode(&removal.encode()).unwrap(), removal);
        for wrong in [&[][..], &[1], &[1, 2], &[0x80, 1], &[1, 1, 1]] {
            assert!(Removal::decode(wrong).is_err(), "{wrong:?}");
        }
        let state = State {
            next_batch: 7,
            documents: 1_000,
            compacted_bytes: 1 << 40,
            recent_bytes: 3,
        };
        assert_eq!(State::decode(Some(&state.encode())).unwrap(), state);
        assert_eq!(State::decode(None).unwrap(), State::default());
        assert!(State::decode(Some(&[1])).is_err());
        let mut key = Vec::new();
        push_block_start(b"word", &mut key);
        push_block_number(1, 2, &mut key);
        assert_eq!(word_of_block(&key).unwrap(), b"word");
    }
}
