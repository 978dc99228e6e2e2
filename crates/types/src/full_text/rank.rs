//! Evaluation of a search on a document, and relevance (manual, "How Relevancy Ranking Is
//! Calculated"): the sum of `tf * idf * idf` over the terms found, where `tf` is the number of
//! times that the document has the term, and `idf = log10(documents / documents with the term)`.
//!
//! Operands without an operator, `>`, `<` and `~` are applied first, in their order, then `+`, then
//! `-`. `>` and `<` move the rank by 1, at most to 1 and -1 before the terms are added. `~` applies
//! to a document that an operand before it has found.

use super::query::{Clause, Operand, Operator, Phrase, PhrasePart, Query, Term};
use super::words::WordRules;
use crate::collation::Collation;
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// idf of a term that all documents have, instead of 0.
const IDF_OF_COMMON: f64 = 1.0001;

/// The words of a document.
#[derive(Debug)]
pub struct Document<'t> {
    collation: Collation,
    /// All words in their order, for phrases and distances.
    words: Vec<&'t str>,
    /// Number of words up to the end of each column.
    column_ends: Vec<usize>,
    /// Indexed words in the order of the collation.
    sorted: Vec<&'t str>,
}

/// Numbers of documents that an index has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frequencies {
    documents: u64,
    /// By position in [`Query::terms`].
    containing: Vec<u64>,
}

/// A term in a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occurrences<'p> {
    /// Number of distinct words that match: several only for a prefix.
    pub distinct: u64,
    /// Number of times that the document has the last of them.
    pub frequency: u64,
    /// The numbers of these words in the document, ascending, if the search needs them
    /// ([`Query::needs_positions`]).
    pub positions: &'p [u32],
}

/// A document of which an index knows the terms of a search.
#[derive(Clone, Copy)]
pub struct IndexedDocument<'p> {
    /// By position in [`Query::terms`].
    pub terms: &'p [Occurrences<'p>],
    /// Whether the index has several columns, whose words have consecutive numbers.
    pub has_several_columns: bool,
    /// Whether the texts lack a phrase although the places of its indexed words fit
    /// ([`Query::phrases_to_verify`]).
    pub lacks: &'p dyn Fn(usize) -> bool,
}

/// Properties of a document that a search needs.
trait Searched {
    fn occurrences(&self, query: &Query, term: usize) -> Occurrences<'_>;
    fn has_phrase(&self, query: &Query, number: usize, phrase: &Phrase) -> bool;
}

/// A document that a search found.
#[derive(Debug, Default)]
struct Found {
    terms: BTreeSet<usize>,
    adjustment: f32,
}

impl Found {
    fn with(terms: impl IntoIterator<Item = usize>) -> Found {
        Found {
            terms: terms.into_iter().collect(),
            adjustment: 0.0,
        }
    }

    fn merge(&mut self, other: Found) {
        self.terms.extend(other.terms);
        self.adjust(other.adjustment);
    }

    fn adjust(&mut self, by: f32) {
        self.adjustment = (self.adjustment + by).clamp(-1.0, 1.0);
    }
}

impl<'t> Document<'t> {
    /// Collects the words of the texts of a row's columns.
    #[must_use]
    pub fn new(texts: &[&'t str], rules: &WordRules) -> Document<'t> {
        let collation = rules.collation;
        let mut words: Vec<&str> = Vec::new();
        let mut column_ends = Vec::with_capacity(texts.len());
        for text in texts {
            words.extend(rules.tokens(text));
            column_ends.push(words.len());
        }
        let indexed = words.iter().copied().filter(|word| rules.is_indexed(word));
        let mut sorted: Vec<&str> = indexed.collect();
        sorted.sort_unstable_by(|a, b| collation.compare(a.as_bytes(), b.as_bytes()));
        Document {
            collation,
            words,
            column_ends,
            sorted,
        }
    }

    fn equal(&self, a: &str, b: &str) -> bool {
        self.collation.equal(a.as_bytes(), b.as_bytes())
    }

    fn matches(&self, word: &str, term: &Term) -> bool {
        if !term.prefix {
            return self.equal(word, &term.word);
        }
        let chars = term.word.chars().count();
        let start = word
            .char_indices()
            .nth(chars)
            .map_or(word.len(), |(at, _)| at);
        word.get(..start).is_some_and(|s| self.equal(s, &term.word))
    }

    fn occurrences_of(&self, term: &Term) -> Occurrences<'static> {
        let before = |word: &&str| {
            let order = self
                .collation
                .compare(word.as_bytes(), term.word.as_bytes());
            order == Ordering::Less
        };
        let from = self.sorted.partition_point(before);
        let behind = self.sorted.get(from..).unwrap_or_default();
        let found = behind.iter().take_while(|word| self.matches(word, term));
        let mut occurrences = Occurrences::default();
        let mut last: Option<&str> = None;
        for word in found {
            if last.is_none_or(|last| !self.equal(last, word)) {
                occurrences.distinct += 1;
                occurrences.frequency = 0;
            }
            occurrences.frequency += 1;
            last = Some(word);
        }
        occurrences
    }

    /// Whether the words stand together in one of the columns.
    #[must_use]
    pub fn has_words(&self, phrase: &[String]) -> bool {
        if phrase.is_empty() {
            return false;
        }
        let equal = |window: &[&str]| window.iter().zip(phrase).all(|(a, b)| self.equal(a, b));
        let mut start = 0;
        self.column_ends.iter().any(|end| {
            let column = self.words.get(start..*end).unwrap_or_default();
            start = *end;
            column.windows(phrase.len()).any(equal)
        })
    }

    /// Whether `distance` consecutive words contain all of `wanted`: one pass over the words, with
    /// the last place of each wanted word.
    fn has_within(&self, wanted: &[&Term], distance: u64) -> bool {
        let mut places: Vec<Option<usize>> = vec![None; wanted.len()];
        for (at, word) in self.words.iter().enumerate() {
            let mut found = false;
            for (place, term) in places.iter_mut().zip(wanted) {
                if self.matches(word, term) {
                    *place = Some(at);
                    found = true;
                }
            }
            // `None` is the least: a wanted word has no place yet.
            let first = places.iter().min().copied().flatten();
            if found && first.is_some_and(|first| ((at - first) as u64) < distance) {
                return true;
            }
        }
        false
    }
}

impl Searched for Document<'_> {
    fn occurrences(&self, query: &Query, term: usize) -> Occurrences<'_> {
        let term = query.terms.get(term);
        term.map_or_else(Occurrences::default, |term| self.occurrences_of(term))
    }

    fn has_phrase(&self, query: &Query, _: usize, phrase: &Phrase) -> bool {
        match phrase.distance {
            None => self.has_words(&phrase.words),
            Some(distance) => {
                let terms = phrase.parts.iter();
                let wanted: Vec<&Term> = terms.filter_map(|p| query.terms.get(p.term)).collect();
                self.has_within(&wanted, distance)
            }
        }
    }
}

impl IndexedDocument<'_> {
    fn positions(&self, part: &PhrasePart) -> &[u32] {
        let found = self.terms.get(part.term);
        found.map_or(&[], |found| found.positions)
    }

    /// Whether the indexed words have their distances somewhere.
    fn fits(&self, phrase: &Phrase) -> bool {
        let Some((first, others)) = phrase.parts.split_first() else {
            return false;
        };
        let starts = self.positions(first).iter();
        starts.copied().any(|start| {
            others.iter().all(|part| {
                let distance = u32::try_from(part.offset - first.offset).ok();
                let wanted = distance.and_then(|distance| start.checked_add(distance));
                let places = self.positions(part);
                wanted.is_some_and(|wanted| places.binary_search(&wanted).is_ok())
            })
        })
    }

    /// Whether `distance` consecutive words contain all parts: a merge of their places, with the
    /// last place of each part.
    fn has_within(&self, parts: &[PhrasePart], distance: u64) -> bool {
        let mut rests: Vec<&[u32]> = parts.iter().map(|part| self.positions(part)).collect();
        let mut places: Vec<Option<u32>> = vec![None; rests.len()];
        loop {
            let heads = rests.iter().filter_map(|rest| rest.first().copied());
            let Some(at) = heads.min() else {
                return false;
            };
            for (place, rest) in places.iter_mut().zip(&mut rests) {
                if let Some((head, behind)) = rest.split_first()
                    && *head == at
                {
                    *place = Some(at);
                    *rest = behind;
                }
            }
            // `None` is the least: a part has no place yet.
            let first = places.iter().min().copied().flatten();
            if first.is_some_and(|first| u64::from(at - first) < distance) {
                return true;
            }
        }
    }
}

impl Searched for IndexedDocument<'_> {
    fn occurrences(&self, _: &Query, term: usize) -> Occurrences<'_> {
        self.terms.get(term).copied().unwrap_or_default()
    }

    fn has_phrase(&self, _: &Query, number: usize, phrase: &Phrase) -> bool {
        match phrase.distance {
            Some(distance) => self.has_within(&phrase.parts, distance),
            None => {
                let must_be_verified = phrase.must_be_verified(self.has_several_columns);
                self.fits(phrase) && !(must_be_verified && (self.lacks)(number))
            }
        }
    }
}

impl Frequencies {
    /// The frequencies in an index of this many documents: for each term of a search, the number of
    /// its words' entries.
    #[must_use]
    pub fn of_index(documents: u64, containing: Vec<u64>) -> Frequencies {
        Frequencies {
            documents,
            containing,
        }
    }

    /// Counts a document.
    pub fn add(&mut self, query: &Query, document: &Document<'_>) {
        self.documents += 1;
        self.containing.resize(query.terms.len(), 0);
        for (count, term) in self.containing.iter_mut().zip(&query.terms) {
            *count += document.occurrences_of(term).distinct;
        }
    }

    /// Returns the idf of a term.
    fn idf(&self, position: usize, term: &Term) -> f64 {
        let containing = self.containing.get(position).copied().unwrap_or(0);
        match containing.saturating_mul(term.uses) {
            0 => 0.0,
            all if all == self.documents => IDF_OF_COMMON.log10(),
            some => (self.documents as f64 / some as f64).log10(),
        }
    }
}

/// The ranking of documents by a search.
#[derive(Clone, Debug)]
pub struct Ranking<'q> {
    query: &'q Query,
    /// The idf of each term.
    idf: Vec<f64>,
    has_only_words: bool,
}

impl Ranking<'_> {
    /// Whether any term makes a document match, and none is a prefix, so that
    /// [`Ranking::rank_words`] ranks it.
    #[must_use]
    pub fn has_only_words(&self) -> bool {
        self.has_only_words
    }

    /// The relevance of a document with these terms, ascending, each with its frequency.
    #[must_use]
    pub fn rank_words(&self, terms: impl Iterator<Item = (usize, u64)>) -> f32 {
        terms.fold(0.0, |rank, (term, frequency)| {
            rank + self.share(term, frequency)
        })
    }

    /// As [`Query::rank`], for a document that an index found.
    #[must_use]
    pub fn rank_indexed(&self, document: &IndexedDocument<'_>) -> Option<f32> {
        self.rank_of(document)
    }

    fn rank_of(&self, document: &impl Searched) -> Option<f32> {
        let found = self.query.evaluate(&self.query.clauses, document)?;
        let rank = found.terms.iter().fold(found.adjustment, |rank, term| {
            let frequency = document.occurrences(self.query, *term).frequency;
            rank + self.share(*term, frequency)
        });
        Some(rank)
    }

    fn share(&self, term: usize, frequency: u64) -> f32 {
        let idf = self.idf.get(term).copied().unwrap_or(0.0);
        (frequency as f64 * idf * idf) as f32
    }
}

impl Query {
    /// Returns the relevance of a document; `None` if it does not match.
    #[must_use]
    pub fn rank(&self, document: &Document<'_>, frequencies: &Frequencies) -> Option<f32> {
        self.ranking(frequencies).rank_of(document)
    }

    /// Prepares the ranking of documents that an index found.
    #[must_use]
    pub fn ranking(&self, frequencies: &Frequencies) -> Ranking<'_> {
        let terms = self.terms.iter().enumerate();
        let is_word = |clause: &Clause| {
            clause.operator == Operator::Optional && matches!(clause.operand, Operand::Term(_))
        };
        Ranking {
            query: self,
            idf: terms.map(|(at, term)| frequencies.idf(at, term)).collect(),
            has_only_words: self.clauses.iter().all(is_word)
                && self.terms.iter().all(|term| !term.prefix),
        }
    }

    fn evaluate(&self, clauses: &[Clause], document: &impl Searched) -> Option<Found> {
        let is_required = |c: &&Clause| c.operator == Operator::Required;
        let is_excluded = |c: &&Clause| c.operator == Operator::Excluded;
        let mut found: Option<Found> = None;
        for clause in clauses {
            let adjustment = match clause.operator {
                Operator::Required | Operator::Excluded => continue,
                Operator::Negated if found.is_none() => continue,
                Operator::Optional => 0.0,
                Operator::Raised => 1.0,
                Operator::Lowered | Operator::Negated => -1.0,
            };
            if let Some(new) = self.operand(&clause.operand, document) {
                let all = found.get_or_insert_default();
                all.merge(new);
                all.adjust(adjustment);
            }
        }
        for clause in clauses.iter().filter(is_required) {
            let new = self.operand(&clause.operand, document)?;
            found.get_or_insert_default().merge(new);
        }
        let mut excluded = clauses.iter().filter(is_excluded);
        if excluded.any(|clause| self.operand(&clause.operand, document).is_some()) {
            return None;
        }
        found
    }

    fn operand(&self, operand: &Operand, document: &impl Searched) -> Option<Found> {
        match operand {
            Operand::Group(clauses) => self.evaluate(clauses, document),
            Operand::Term(n) => {
                let found = document.occurrences(self, *n);
                (found.frequency > 0).then(|| Found::with([*n]))
            }
            Operand::Phrase(number) => {
                let phrase = self.phrases.get(*number)?;
                let found = !phrase.parts.is_empty() && document.has_phrase(self, *number, phrase);
                found.then(|| Found::with(phrase.parts.iter().map(|part| part.term)))
            }
        }
    }
}
