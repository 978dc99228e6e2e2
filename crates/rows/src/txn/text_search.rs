//! Search of a FULLTEXT index.
//!
//! 1. The entries of each term of the search are read, in the order of row keys. Their number is
//!    the number of documents with the term.
//! 2. Sorted by row key, they become documents, each with its terms, which are ranked one by one
//!    ([`Ranking::rank_indexed`]). A sort of sorted runs is a merge.
//! 3. A phrase may contain words that are not indexed. The rows that have its other words at the
//!    right distances are read in batches, and the phrase is searched for in their texts.
//!
//! Entries are versioned like rows: a search finds the rows of its snapshot, and those that its own
//! transaction has written.
//!
//! Rejected: reading the entries of the rarest word only, and the rows for the others. Relevance
//! needs the number of documents with each word, and only the word's entries give it.

use super::Txn;
use super::lookup::Lookup;
use super::scan::KeyRange;
use crate::error::{Error, Result};
use crate::overflow::OverflowFetch;
use crate::table::Table;
use crate::text_index::{TextIndex, checkpoint};
use porpoise_kv::{Read, ScanEnd};
use porpoise_types::full_text::{
    Document, Frequencies, IndexedDocument, Occurrences, Query, Ranking,
};
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

/// Entries read in one call.
const BATCH: usize = 4096;
/// Maximum number of rows that are counted; for a larger table the engine's approximate number is
/// used.
const MAX_COUNTED: u64 = 10_000;
/// Rows whose texts are read in one call.
const TEXT_BATCH: usize = 256;

/// Charges memory, in bytes.
pub type Charge<'c> = dyn FnMut(u64) -> Result<()> + 'c;

/// The rows that a search found, with their relevance.
#[derive(Debug, Default)]
pub struct TextMatches {
    /// Row keys, one behind the other.
    keys: Vec<u8>,
    /// End of each key, and the row's relevance, in the order of the keys.
    rows: Vec<(usize, f32)>,
    frequencies: Frequencies,
}

/// An entry of a term.
#[derive(Clone, Copy)]
struct Posting {
    /// Range of the row key.
    key: (usize, usize),
    term: usize,
    /// Number of times that the row has the word.
    frequency: u64,
    /// Range of the word's places, if the search needs them.
    places: (usize, usize),
}

/// The entries of all terms.
#[derive(Default)]
struct Postings {
    keys: Vec<u8>,
    places: Vec<u32>,
    list: Vec<Posting>,
    /// Number of entries of each term.
    containing: Vec<u64>,
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
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return self.rows.get(middle).map(|row| row.1),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// Positions of the rows by descending relevance, equal ones by their keys.
    #[must_use]
    pub fn by_rank(&self) -> Vec<usize> {
        let rank = |at: &usize| self.rows.get(*at).map_or(0.0, |row| row.1);
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        order.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
        order
    }

    fn push(&mut self, key: &[u8], rank: f32) {
        self.keys.extend_from_slice(key);
        self.rows.push((self.keys.len(), rank));
    }
}

impl Postings {
    fn key(&self, posting: &Posting) -> &[u8] {
        self.keys
            .get(posting.key.0..posting.key.1)
            .unwrap_or_default()
    }

    fn memory(&self) -> usize {
        self.keys.capacity()
            + self.places.capacity() * size_of::<u32>()
            + self.list.capacity() * size_of::<Posting>()
    }

    /// Sets the terms of one document, given by its entries. If several words begin with a prefix, the
    /// frequency and the positions are those of the last one.
    fn occurrences<'p>(&'p self, entries: &[Posting], terms: &mut [Occurrences<'p>]) {
        for entry in entries {
            let places = self.places.get(entry.places.0..entry.places.1);
            if let Some(term) = terms.get_mut(entry.term) {
                *term = Occurrences {
                    distinct: term.distinct + 1,
                    frequency: entry.frequency,
                    positions: places.unwrap_or_default(),
                };
            }
        }
    }
}

/// The entries of a document, with its relevance; `None` if it does not match.
type Ranked<'p> = (&'p [Posting], Option<f32>);

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
        let search = Search {
            table,
            position,
            index,
            query,
            read,
        };
        let mut postings = Postings::default();
        for (term, (word, prefix)) in query.terms().enumerate() {
            search.read_term(self, (term, word, prefix), &mut postings, charge)?;
        }
        let documents = self.document_count(table, read)?;
        let frequencies = Frequencies::of_index(documents, postings.containing.clone());
        let mut found = search.rank(self, postings, &frequencies, charge)?;
        found.frequencies = frequencies;
        Ok(found)
    }

    /// Number of rows of a table, for relevance; approximate for a large table.
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
                let end = self.kv.scan(read, &ranges, BATCH, &mut |_, _, _| {
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
    /// Reads the entries of a term.
    fn read_term(
        &self,
        txn: &mut Txn,
        (term, word, prefix): (usize, &str, bool),
        postings: &mut Postings,
        charge: &mut Charge<'_>,
    ) -> Result<()> {
        let wants_places = self.query.needs_positions(term);
        let mut start = Vec::new();
        self.index.append_key(word, prefix, &mut start);
        let range = KeyRange::prefix(start);
        let Some(space) = self.table.index_spaces(self.position).first() else {
            return Ok(());
        };
        let mut count = 0;
        let mut resume: Option<Vec<u8>> = None;
        loop {
            checkpoint()?;
            let before = postings.memory();
            let mut bad = None;
            let ranges = [range.resumed(*space, resume.as_deref(), false)];
            let end = txn
                .kv
                .scan(self.read, &ranges, BATCH, &mut |_, key, value| {
                    let entry = match self.index.entry(key, value) {
                        Ok(entry) => entry,
                        Err(error) => {
                            bad = Some(error);
                            return ControlFlow::Break(());
                        }
                    };
                    if prefix && !self.index.begins_with(&entry, word) {
                        return ControlFlow::Continue(());
                    }
                    count += 1;
                    let (key, places) = (postings.keys.len(), postings.places.len());
                    postings.keys.extend_from_slice(entry.primary);
                    if wants_places {
                        entry.append_places(&mut postings.places);
                    }
                    postings.list.push(Posting {
                        key: (key, postings.keys.len()),
                        term,
                        frequency: entry.frequency(),
                        places: (places, postings.places.len()),
                    });
                    ControlFlow::Continue(())
                })?;
            if let Some(error) = bad {
                return Err(error);
            }
            charge(postings.memory().saturating_sub(before) as u64)?;
            match end {
                ScanEnd::Done => break,
                ScanEnd::Stopped { mut key, .. } => {
                    key.push(0);
                    resume = Some(key);
                }
            }
        }
        postings.containing.push(count);
        Ok(())
    }

    /// Ranks the documents of all entries.
    fn rank(
        &self,
        txn: &mut Txn,
        mut postings: Postings,
        frequencies: &Frequencies,
        charge: &mut Charge<'_>,
    ) -> Result<TextMatches> {
        let mut list = std::mem::take(&mut postings.list);
        if self.query.term_count() > 1 || self.query.terms().any(|(_, prefix)| prefix) {
            let key = |posting: &Posting| postings.key(posting);
            list.sort_by(|a, b| key(a).cmp(key(b)).then(a.term.cmp(&b.term)));
        }
        let ranking = self.query.ranking(frequencies);
        let (mut ranked, undecided) = self.rank_by_entries(&postings, &list, &ranking)?;
        charge((ranked.len() * size_of::<Ranked<'_>>()) as u64)?;
        let mut terms = vec![Occurrences::default(); self.query.term_count()];
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
    /// that may have a phrase with words that are not indexed.
    fn rank_by_entries<'p>(
        &self,
        postings: &'p Postings,
        list: &'p [Posting],
        ranking: &Ranking<'_>,
    ) -> Result<(Vec<Ranked<'p>>, Vec<usize>)> {
        let mut terms = vec![Occurrences::default(); self.query.term_count()];
        let (mut ranked, mut undecided): (Vec<Ranked<'p>>, Vec<usize>) = (Vec::new(), Vec::new());
        // Set when ranking needs to know whether a document lacks such a phrase.
        let asked = Cell::new(false);
        let lacks = |_: usize| {
            asked.set(true);
            false
        };
        let documents = list.chunk_by(|a, b| postings.key(a) == postings.key(b));
        for (number, entries) in documents.enumerate() {
            if number % BATCH == BATCH - 1 {
                checkpoint()?;
            }
            if ranking.has_only_words() {
                let words = entries.iter().map(|entry| (entry.term, entry.frequency));
                ranked.push((entries, Some(ranking.rank_words(words))));
                continue;
            }
            postings.occurrences(entries, &mut terms);
            let rank = ranking.rank_indexed(&IndexedDocument {
                terms: &terms,
                lacks: &lacks,
            });
            let is_undecided = asked.take();
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

    /// Returns for each row which of the phrases with unindexed words its texts lack.
    fn lacking(&self, txn: &mut Txn, keys: &[&[u8]]) -> Result<Vec<HashSet<usize>>> {
        let columns = self.table.indexes.get(self.position);
        let columns = columns.map_or(&[][..], |index| &index.parts).iter();
        let columns: Vec<usize> = columns.map(|part| part.column).collect();
        let phrases: HashMap<usize, &[String]> = self.query.phrases_with_gaps().collect();
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
        if let Some(term) = terms.get_mut(entry.term) {
            *term = Occurrences::default();
        }
    }
}
