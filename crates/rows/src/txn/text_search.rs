//! Searching a FULLTEXT index ([`crate::text_index`]).
//!
//! 1. The posting blocks of each term of the search are read, then all pending documents once. So
//!    each term has the documents that contain it.
//! 2. Sorted by row key, they become documents, each with its terms. Removed ones are left out. A
//!    sort of sorted runs is a merge.
//! 3. Documents are ranked one by one ([`Ranking::rank_indexed`]). The number of documents with a
//!    term is that of its postings.
//! 4. A phrase that has words which are not indexed, or is searched in an index of several columns, is verified in
//!    the texts of the rows that have its indexed words at the right distances. These rows are read in batches.
//!
//! Entries are versioned like rows: a search finds the documents of its snapshot, and those that its
//! own transaction has written.
//!
//! Rejected: reading the postings of the rarest word only, and the rows for the others (relevance
//! needs the number of documents with each word, which only its postings tell).

use super::Txn;
use super::lookup::Lookup;
use super::scan::KeyRange;
use crate::definition::IndexPart;
use crate::error::{Error, Result};
use crate::overflow::OverflowFetch;
use crate::table::Table;
use crate::text_index::entries::{
    Block, PENDING_DOCUMENTS, PendingWord, PendingWords, Posting as StoredPosting, REMOVALS,
    Removal, append_places, count_places, push_block_start, split_pending_key,
};
use crate::text_index::maintenance::TextChange;
use crate::text_index::{TextIndex, checkpoint};
use foldhash::{HashMap as FastMap, HashMapExt};
use porpoise_kv::{Key, Read, ScanEnd, SpaceId};
use porpoise_types::full_text::{
    Document, Frequencies, IndexedDocument, Occurrences, Query, Ranking,
};
use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Blocks, documents or removals read in one call.
const BATCH: usize = 256;
/// Documents ranked between checkpoints, and rows counted in one call.
const ROW_BATCH: usize = 4096;
/// Number of rows up to which they are counted; of a larger table the engine's count is taken.
const MAX_COUNTED: u64 = 10_000;
/// Rows whose texts are read in one call.
const TEXT_BATCH: usize = 256;
/// Number of documents up to which their removals are looked up one by one; for more, all removals are
/// read.
const MAX_REMOVAL_LOOKUPS: usize = 1_024;

/// Charges memory, in bytes.
pub type Charge<'c> = dyn FnMut(u64) -> Result<()> + 'c;

/// The rows that a search found, with their relevance.
#[derive(Debug, Default)]
pub struct TextMatches {
    /// Row keys, one after the other.
    keys: Vec<u8>,
    /// End of each key, and the row's relevance, in the order of the keys.
    rows: Vec<(usize, f32)>,
    frequencies: Frequencies,
}

/// The order of matches: by descending relevance, equal ones by their keys, or by their keys alone. By
/// relevance, the first matches are selected and sorted alone, because most searches return only the first few
/// rows; the others are sorted when they are read.
#[derive(Debug)]
pub struct RankOrder {
    order: Vec<u32>,
    /// Number of positions that are in their place.
    sorted: usize,
    /// Number of positions that were taken.
    taken: usize,
}

/// Number of positions that the first step sorts; the second one sorts the others.
const FIRST_SORTED: usize = 64;

impl RankOrder {
    /// The order of all matches by relevance.
    #[must_use]
    pub fn new(matches: &TextMatches) -> RankOrder {
        let count = u32::try_from(matches.len()).unwrap_or(u32::MAX);
        RankOrder {
            order: (0..count).collect(),
            sorted: 0,
            taken: 0,
        }
    }

    /// The order of all matches by their keys, which is that of `matches`.
    #[must_use]
    pub fn by_key(matches: &TextMatches) -> RankOrder {
        let unsorted = RankOrder::new(matches);
        RankOrder {
            sorted: unsorted.order.len(),
            ..unsorted
        }
    }

    /// The positions of the next rows, at most `limit`; none at the end. `matches` must be those for which the order was
    /// created.
    pub fn next(&mut self, matches: &TextMatches, limit: usize) -> &[u32] {
        let start = self.taken;
        let end = start.saturating_add(limit).min(self.order.len());
        if end > self.sorted {
            // A reader of a second block usually reads all.
            let wanted = match self.sorted {
                0 => end.max(FIRST_SORTED),
                _ => usize::MAX,
            };
            let rest = self.order.get_mut(self.sorted..).unwrap_or_default();
            let count = wanted.min(rest.len());
            if count < rest.len() {
                rest.select_nth_unstable_by(count, |a, b| matches.compare_ranks(*a, *b));
            }
            let next = rest.get_mut(..count).unwrap_or_default();
            next.sort_unstable_by(|a, b| matches.compare_ranks(*a, *b));
            self.sorted += count;
        }
        self.taken = end;
        self.order.get(start..end).unwrap_or_default()
    }
}

/// Entries of a FULLTEXT index beside its blocks.
#[derive(Debug, Default)]
pub struct TextEntries {
    /// Keys of the rows whose documents are pending.
    pub pending: HashSet<Vec<u8>>,
    /// Keys of the rows that have had documents which are removed.
    pub removed: Vec<Vec<u8>>,
}

/// A document that has a term.
#[derive(Clone, Copy)]
struct Posting {
    /// Start and length of the row key.
    key: u32,
    key_len: u16,
    /// Whether the document is removed.
    removed: bool,
    term: u32,
    /// Number of times that the row has the word.
    frequency: u32,
    /// Start of the word's places, as many as its frequency, if the search needs them.
    places: u32,
    generation: u64,
}

/// The documents of all terms.
#[derive(Default)]
struct Postings {
    keys: Vec<u8>,
    places: Vec<u32>,
    list: Vec<Posting>,
}

/// A term of a search.
struct Term<'q> {
    number: u32,
    word: &'q str,
    /// Key of the word, or the start of the keys of all words that begin with it.
    key: Vec<u8>,
    is_prefix: bool,
    wants_places: bool,
}

impl TextMatches {
    /// The numbers of documents by which the rows are ranked.
    #[must_use]
    pub fn frequencies(&self) -> &Frequencies {
        &self.frequencies
    }

    /// Allocated bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.keys.capacity() + self.rows.capacity() * size_of::<(usize, f32)>()
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether no row was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The key of the row at a position.
    #[must_use]
    pub fn key(&self, at: usize) -> &[u8] {
        let end = self.rows.get(at).map_or(0, |row| row.0);
        let before = at.checked_sub(1).and_then(|at| self.rows.get(at));
        self.keys
            .get(before.map_or(0, |row| row.0)..end)
            .unwrap_or_default()
    }

    /// The relevance of a row; `None` for one that was not found.
    #[must_use]
    pub fn rank(&self, key: &[u8]) -> Option<f32> {
        let (mut low, mut high) = (0, self.rows.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.key(middle).cmp(key) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return self.rows.get(middle).map(|row| row.1),
                Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// Compares the positions of two rows by descending relevance, equal ones by their keys.
    fn compare_ranks(&self, a: u32, b: u32) -> Ordering {
        let rank = |at: u32| self.rows.get(at as usize).map_or(0.0, |row| row.1);
        rank(b).total_cmp(&rank(a)).then(a.cmp(&b))
    }

    fn push(&mut self, key: &[u8], rank: f32) {
        self.keys.extend_from_slice(key);
        self.rows.push((self.keys.len(), rank));
    }
}

impl Postings {
    fn key(&self, posting: &Posting) -> &[u8] {
        let start = posting.key as usize;
        let end = start + usize::from(posting.key_len);
        self.keys.get(start..end).unwrap_or_default()
    }

    fn memory(&self) -> usize {
        self.keys.capacity()
            + self.places.capacity() * size_of::<u32>()
            + self.list.capacity() * size_of::<Posting>()
    }

    /// Adds a document of a term.
    fn add(&mut self, term: &Term<'_>, posting: &StoredPosting<'_>) -> Result<()> {
        let full = |_| Error::Kv(porpoise_kv::Error::Full(porpoise_kv::Resource::Memory));
        let key = u32::try_from(self.keys.len()).map_err(full)?;
        let places = u32::try_from(self.places.len()).map_err(full)?;
        self.keys.extend_from_slice(posting.primary);
        if term.wants_places {
            append_places(posting.places, &mut self.places);
        }
        self.list.push(Posting {
            key,
            key_len: u16::try_from(posting.primary.len()).unwrap_or(u16::MAX),
            removed: false,
            term: term.number,
            frequency: count_places(posting.places),
            places,
            generation: posting.generation,
        });
        Ok(())
    }

    /// Sorts the postings by row key, those of a row by term, those of a term by word.
    fn sort(&mut self) {
        let mut list = std::mem::take(&mut self.list);
        let order = |a: &Posting, b: &Posting| {
            let keys = self.key(a).cmp(self.key(b));
            keys.then(a.term.cmp(&b.term))
        };
        if !list.is_sorted_by(|a, b| order(a, b).is_le()) {
            list.sort_by(order);
        }
        self.list = list;
    }

    /// The terms of one document, given by its entries. Of a prefix the last word counts.
    fn occurrences<'p>(&'p self, entries: &[Posting], terms: &mut [Occurrences<'p>]) {
        for entry in entries {
            let start = entry.places as usize;
            let places = self.places.get(start..start + entry.frequency as usize);
            if let Some(term) = terms.get_mut(entry.term as usize) {
                *term = Occurrences {
                    distinct: term.distinct + 1,
                    frequency: u64::from(entry.frequency),
                    positions: places.unwrap_or_default(),
                };
            }
        }
    }

    /// Marks the documents of a row that are removed, from a position in the sorted list. Returns the
    /// position of the next row.
    fn mark_removed(&mut self, from: usize, row: &[u8], removal: Removal) -> usize {
        let behind = self.list.get(from..).unwrap_or_default();
        let mut at = from + behind.partition_point(|posting| self.key(posting) < row);
        while let Some(posting) = self.list.get(at).copied()
            && self.key(&posting) == row
        {
            if let Some(posting) = self.list.get_mut(at) {
                posting.removed = posting.generation <= removal.generation;
            }
            at += 1;
        }
        at
    }
}

/// The entries of a document, with its relevance; `None` if it does not match.
type Ranked<'p> = (&'p [Posting], Option<f32>);

/// A visitor of keys and values that collects postings.
type PostingsVisitor<'v> = dyn FnMut(&mut Postings, &[u8], &[u8]) -> Result<()> + 'v;

/// A search of one index.
struct Search<'s> {
    table: &'s Table,
    position: usize,
    index: &'s TextIndex,
    query: &'s Query,
    read: Read,
}

impl Txn {
    /// Searches the FULLTEXT index at a position. Rows whose relevance is 0 are not found.
    ///
    /// # Errors
    /// The engine's; a cancellation; those of `charge`.
    pub fn search_text(
        &mut self,
        table: &Table,
        position: usize,
        query: &Query,
        read: Read,
        charge: &mut Charge<'_>,
    ) -> Result<TextMatches> {
        let index = table.text_index(position).ok_or(Error::DefinitionChanged)?;
        if self.settings.is_sql {
            table.note_index_use(position);
        }
        let search = Search {
            table,
            position,
            index,
            query,
            read,
        };
        let mut postings = Postings::default();
        let searched = match table.index_spaces(position).first() {
            Some(space) => search.read(self, *space, &mut postings, charge)?,
            None => 0,
        };
        let mut containing = vec![0; query.term_count()];
        for posting in &postings.list {
            if let Some(count) = containing.get_mut(posting.term as usize) {
                *count += 1;
            }
        }
        let documents = self.document_count(table, read)?;
        let frequencies = Frequencies::of_index(documents, containing);
        let mut found = search.rank(self, postings, &frequencies, charge)?;
        found.frequencies = frequencies;
        self.note_searched(table, position, index, searched);
        Ok(found)
    }

    /// The entries of the FULLTEXT index at a position that no search returns by themselves.
    ///
    /// # Errors
    /// The engine's; a cancellation; [`Error::Corrupt`].
    pub fn text_entries(&mut self, table: &Table, position: usize) -> Result<TextEntries> {
        let mut found = TextEntries::default();
        for prefix in [PENDING_DOCUMENTS, REMOVALS] {
            let range = KeyRange::prefix(prefix.to_vec());
            for space in table.index_spaces(position) {
                self.scan_range(*space, &range, &mut |key| {
                    if prefix == REMOVALS {
                        found.removed.push(Removal::row_of(key)?.to_vec());
                    } else {
                        found.pending.insert(split_pending_key(key)?.0.to_vec());
                    }
                    Ok(())
                })?;
            }
        }
        Ok(found)
    }

    /// Visits the keys of a range, in the snapshot.
    fn scan_range(
        &mut self,
        space: SpaceId,
        range: &KeyRange,
        visit: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut resume: Option<Vec<u8>> = None;
        loop {
            checkpoint()?;
            let mut outcome = Ok(());
            let ranges = [range.resumed(space, resume.as_deref(), false)];
            let end = self
                .kv
                .scan(Read::SNAPSHOT, &ranges, ROW_BATCH, &mut |_, key, _| {
                    outcome = visit(key);
                    match outcome {
                        Ok(()) => ControlFlow::Continue(()),
                        Err(_) => ControlFlow::Break(()),
                    }
                })?;
            outcome?;
            let ScanEnd::Stopped { mut key, .. } = end else {
                return Ok(());
            };
            key.push(0);
            resume = Some(key);
        }
    }

    /// Lets the index be maintained, if searches often read many pending documents.
    fn note_searched(&self, table: &Table, position: usize, index: &Arc<TextIndex>, searched: u64) {
        let space = table.index_spaces(position).first();
        let Some(space) = space.filter(|_| searched > 0) else {
            return;
        };
        let change = TextChange {
            space: *space,
            index: index.clone(),
            pending: 0,
            searched,
            removed: 0,
        };
        let engine = self.db.engine().as_ref();
        self.db.text_maintenance.note(engine, &change);
    }

    /// Number of rows of a table, for relevance: of a large one approximately.
    fn document_count(&mut self, table: &Table, read: Read) -> Result<u64> {
        let known = self.db.approximate_rows(table);
        if let Some(known) = known.filter(|known| *known > MAX_COUNTED) {
            return Ok(known);
        }
        let mut count = 0;
        for space in table.index_spaces(0) {
            let mut start = Some(Vec::new());
            while let Some(from) = start.take() {
                checkpoint()?;
                let range = KeyRange {
                    start: from,
                    end: None,
                };
                let ranges = [range.resumed(*space, None, false)];
                let end = self.kv.scan(read, &ranges, ROW_BATCH, &mut |_, _, _| {
                    count += 1;
                    ControlFlow::Continue(())
                })?;
                if let ScanEnd::Stopped { mut key, .. } = end {
                    key.push(0);
                    start = Some(key);
                }
                if count > MAX_COUNTED {
                    return Ok(self.db.sample_rows(table)?.max(count));
                }
            }
        }
        Ok(count)
    }
}

impl Search<'_> {
    fn terms(&self) -> Vec<Term<'_>> {
        let terms = (0_u32..).zip(self.query.terms());
        let terms = terms.map(|(number, (word, is_prefix))| {
            let mut key = Vec::new();
            self.index.append_key(word, is_prefix, &mut key);
            Term {
                number,
                word,
                key,
                is_prefix,
                wants_places: self.query.needs_positions(number as usize),
            }
        });
        terms.collect()
    }

    /// Reads the documents of all terms that are not removed, and sorts them. Returns the bytes of
    /// pending documents read.
    fn read(
        &self,
        txn: &mut Txn,
        space: SpaceId,
        postings: &mut Postings,
        charge: &mut Charge<'_>,
    ) -> Result<u64> {
        let terms = self.terms();
        for term in &terms {
            self.read_blocks(txn, space, term, postings, charge)?;
        }
        let pending = if terms.is_empty() {
            0
        } else {
            self.read_pending(txn, space, &terms, postings, charge)?
        };
        postings.sort();
        self.leave_out_removed(txn, space, postings)?;
        Ok(pending)
    }

    /// Reads the entries of a range, and charges what `visit` adds to the postings.
    fn scan(
        &self,
        txn: &mut Txn,
        space: SpaceId,
        range: &KeyRange,
        postings: &mut Postings,
        visit: &mut PostingsVisitor<'_>,
        charge: &mut Charge<'_>,
    ) -> Result<()> {
        let mut resume: Option<Vec<u8>> = None;
        loop {
            checkpoint()?;
            let before = postings.memory();
            let mut outcome = Ok(());
            let ranges = [range.resumed(space, resume.as_deref(), false)];
            let end = txn
                .kv
                .scan(self.read, &ranges, BATCH, &mut |_, key, value| {
                    outcome = visit(postings, key, value);
                    if outcome.is_ok() {
                        ControlFlow::Continue(())
                    } else {
                        ControlFlow::Break(())
                    }
                })?;
            outcome?;
            charge(postings.memory().saturating_sub(before) as u64)?;
            match end {
                ScanEnd::Done => return Ok(()),
                ScanEnd::Stopped { mut key, .. } => {
                    key.push(0);
                    resume = Some(key);
                }
            }
        }
    }

    /// Reads the posting blocks of a term.
    fn read_blocks(
        &self,
        txn: &mut Txn,
        space: SpaceId,
        term: &Term<'_>,
        postings: &mut Postings,
        charge: &mut Charge<'_>,
    ) -> Result<()> {
        let mut start = Vec::new();
        push_block_start(&term.key, &mut start);
        let mut primary = Vec::new();
        let mut visit = |postings: &mut Postings, _: &[u8], value: &[u8]| {
            let block = Block::decode(value, self.index.keeps_words())?;
            if term.is_prefix && !self.index.begins_with(block.word, term.word) {
                return Ok(());
            }
            block.each(&mut primary, &mut |posting| postings.add(term, &posting))
        };
        let range = KeyRange::prefix(start);
        self.scan(txn, space, &range, postings, &mut visit, charge)
    }

    /// Reads the pending documents. Returns their bytes.
    fn read_pending(
        &self,
        txn: &mut Txn,
        space: SpaceId,
        terms: &[Term<'_>],
        postings: &mut Postings,
        charge: &mut Charge<'_>,
    ) -> Result<u64> {
        let mut words: FastMap<&[u8], Vec<&Term<'_>>> = FastMap::with_capacity(terms.len());
        for term in terms.iter().filter(|term| !term.is_prefix) {
            words.entry(&term.key).or_default().push(term);
        }
        let prefixes: Vec<&Term<'_>> = terms.iter().filter(|term| term.is_prefix).collect();
        let begins = |word: &PendingWord<'_>, term: &Term<'_>| {
            word.key.starts_with(&term.key) && self.index.begins_with(word.word, term.word)
        };
        let mut bytes = 0;
        let mut visit = |postings: &mut Postings, key: &[u8], value: &[u8]| {
            bytes += value.len() as u64;
            let (primary, generation) = split_pending_key(key)?;
            for word in PendingWords::new(value, self.index.keeps_words()) {
                let word = word?;
                let prefixes = prefixes.iter().filter(|term| begins(&word, term));
                let exact = words.get(word.key).into_iter().flatten();
                for term in exact.chain(prefixes) {
                    let posting = StoredPosting {
                        primary,
                        generation,
                        places: word.places,
                    };
                    postings.add(term, &posting)?;
                }
            }
            Ok(())
        };
        let range = KeyRange::prefix(PENDING_DOCUMENTS.to_vec());
        self.scan(txn, space, &range, postings, &mut visit, charge)?;
        Ok(bytes)
    }

    /// Drops the postings of removed documents from the sorted list.
    fn leave_out_removed(
        &self,
        txn: &mut Txn,
        space: SpaceId,
        postings: &mut Postings,
    ) -> Result<()> {
        let range = KeyRange::prefix(REMOVALS.to_vec());
        let ranges = [range.resumed(space, None, false)];
        let mut some = false;
        txn.kv.scan(self.read, &ranges, 1, &mut |_, _, _| {
            some = true;
            ControlFlow::Break(())
        })?;
        if !some {
            return Ok(());
        }
        if postings.list.len() <= MAX_REMOVAL_LOOKUPS {
            self.look_up_removals(txn, space, postings)?;
        } else {
            let mut at = 0;
            let mut visit = |postings: &mut Postings, key: &[u8], value: &[u8]| {
                let (row, removal) = (Removal::row_of(key)?, Removal::decode(value)?);
                at = postings.mark_removed(at, row, removal);
                Ok(())
            };
            self.scan(txn, space, &range, postings, &mut visit, &mut |_| Ok(()))?;
        }
        postings.list.retain(|posting| !posting.removed);
        Ok(())
    }

    fn look_up_removals(
        &self,
        txn: &mut Txn,
        space: SpaceId,
        postings: &mut Postings,
    ) -> Result<()> {
        let rows = postings
            .list
            .chunk_by(|a, b| postings.key(a) == postings.key(b));
        let rows: Vec<Vec<u8>> = rows
            .filter_map(|row| Some(Removal::key(postings.key(row.first()?))))
            .collect();
        let keys: Vec<Key<'_>> = rows.iter().map(|key| Key::new(space, key)).collect();
        let mut removals = Vec::new();
        txn.kv.get(self.read, &keys, &mut |at, value| {
            removals.extend(value.map(|value| (at, Removal::decode(value))));
        })?;
        for (at, removal) in removals {
            let key = rows.get(at).map_or(&[][..], Vec::as_slice);
            postings.mark_removed(0, Removal::row_of(key)?, removal?);
        }
        Ok(())
    }

    /// Ranks the documents of all entries.
    fn rank(
        &self,
        txn: &mut Txn,
        postings: Postings,
        frequencies: &Frequencies,
        charge: &mut Charge<'_>,
    ) -> Result<TextMatches> {
        let ranking = self.query.ranking(frequencies);
        let (mut ranked, undecided) = self.rank_by_entries(&postings, &ranking)?;
        charge((ranked.len() * size_of::<Ranked<'_>>()) as u64)?;
        let mut terms = vec![Occurrences::default(); self.query.term_count()];
        let has_several_columns = self.parts().len() > 1;
        for batch in undecided.chunks(TEXT_BATCH) {
            let documents = batch.iter().filter_map(|at| ranked.get(*at)?.0.first());
            let keys: Vec<&[u8]> = documents.map(|first| postings.key(first)).collect();
            let lacking = self.lacking(txn, &keys)?;
            for (at, lacking) in batch.iter().zip(lacking) {
                let Some((entries, rank)) = ranked.get_mut(*at) else {
                    continue;
                };
                postings.occurrences(entries, &mut terms);
                *rank = ranking.rank_indexed(&IndexedDocument {
                    terms: &terms,
                    has_several_columns,
                    lacks: &|phrase| lacking.contains(&phrase),
                });
                reset(entries, &mut terms);
            }
        }
        let mut matches = TextMatches::default();
        for (entries, rank) in ranked {
            if let (Some(first), Some(rank)) = (entries.first(), rank)
                && rank != 0.0
            {
                matches.push(postings.key(first), rank);
            }
        }
        charge(matches.memory() as u64)?;
        Ok(matches)
    }

    /// Ranks documents by their entries alone. Also returns the positions of the undecided ones: those
    /// that may have a phrase which must be verified in their texts.
    fn rank_by_entries<'p>(
        &self,
        postings: &'p Postings,
        ranking: &Ranking<'_>,
    ) -> Result<(Vec<Ranked<'p>>, Vec<usize>)> {
        let mut terms = vec![Occurrences::default(); self.query.term_count()];
        let (mut ranked, mut undecided): (Vec<Ranked<'p>>, Vec<usize>) = (Vec::new(), Vec::new());
        // Set when ranking needs to know whether a document lacks such a phrase.
        let needs_phrase = Cell::new(false);
        let lacks = |_: usize| {
            needs_phrase.set(true);
            false
        };
        let (list, has_several_columns) = (&postings.list, self.parts().len() > 1);
        let documents = list.chunk_by(|a, b| postings.key(a) == postings.key(b));
        for (number, entries) in documents.enumerate() {
            if number % ROW_BATCH == ROW_BATCH - 1 {
                checkpoint()?;
            }
            if ranking.has_only_words() {
                let words = entries
                    .iter()
                    .map(|entry| (entry.term as usize, u64::from(entry.frequency)));
                ranked.push((entries, Some(ranking.rank_words(words))));
                continue;
            }
            postings.occurrences(entries, &mut terms);
            let rank = ranking.rank_indexed(&IndexedDocument {
                terms: &terms,
                has_several_columns,
                lacks: &lacks,
            });
            let is_undecided = needs_phrase.take();
            if is_undecided {
                undecided.push(ranked.len());
            }
            if rank.is_some() || is_undecided {
                ranked.push((entries, rank));
            }
            reset(entries, &mut terms);
        }
        Ok((ranked, undecided))
    }

    /// The columns of the index.
    fn parts(&self) -> &[IndexPart] {
        let index = self.table.indexes.get(self.position);
        index.map_or(&[], |index| &index.parts)
    }

    /// Returns for each row the phrases, of those that must be verified, that its texts lack.
    fn lacking(&self, txn: &mut Txn, keys: &[&[u8]]) -> Result<Vec<HashSet<usize>>> {
        let columns = self.parts().iter();
        let columns: Vec<usize> = columns.map(|part| part.column).collect();
        let phrases = self.query.phrases_to_verify(columns.len() > 1);
        let phrases: HashMap<usize, &[String]> = phrases.collect();
        let mut lacking = vec![HashSet::new(); keys.len()];
        let lookup = Lookup::primary(self.table, keys).overflow(OverflowFetch::Of(&columns));
        txn.look_up(&lookup, self.read, &mut |at, found| {
            let (Some(found), Some(place)) = (found, lacking.get_mut(at)) else {
                return;
            };
            let texts = self.index.texts(|column| found.row.get(column));
            let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
            let document = Document::new(&texts, self.index.rules());
            let absent = phrases
                .iter()
                .filter(|(_, words)| !document.has_words(words));
            place.extend(absent.map(|(number, _)| *number));
        })?;
        Ok(lacking)
    }
}

/// Clears the terms of a document.
fn reset(entries: &[Posting], terms: &mut [Occurrences<'_>]) {
    for entry in entries {
        if let Some(term) = terms.get_mut(entry.term as usize) {
            *term = Occurrences::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_in_order_however_they_are_taken() {
        let mut matches = TextMatches::default();
        for n in 0_u32..1000 {
            matches.push(
                &n.to_be_bytes(),
                (n.wrapping_mul(2_654_435_761) >> 27) as f32,
            );
        }
        let mut whole: Vec<u32> = (0..1000).collect();
        whole.sort_by(|a, b| matches.compare_ranks(*a, *b));
        for limits in [vec![1; 1000], vec![20, 1, 300, 5, 1000], vec![5000]] {
            let mut order = RankOrder::new(&matches);
            let mut taken = Vec::new();
            for limit in limits {
                taken.extend_from_slice(order.next(&matches, limit));
            }
            assert_eq!(taken, whole);
            assert!(order.next(&matches, 1).is_empty());
        }
        let none = TextMatches::default();
        assert!(RankOrder::new(&none).next(&none, 1).is_empty());
    }
}
