//! Evaluation of a search on a document, and relevance (manual, "How Relevancy Ranking Is
//! Calculated"): the sum of `tf * idf * idf` over the terms found, where `tf` is the number of
//! times that the document has the term, and `idf = log10(documents / documents with the term)`.
//!
//! Operands without an operator, `>`, `<` and `~` are applied first, in their order, then `+`, then
//! `-`. `>` and `<` move the rank by 1, at most to 1 and -1 before the terms are added. `~` applies
//! to a document that an operand before it has found.

use super::query::{Clause, Operand, Operator, Query, Term};
use super::words::{WordRules, words};
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
struct Occurrences {
    /// Number of distinct words that match: several only for a prefix.
    distinct: u64,
    /// Number of times that the document has the last of them.
    frequency: u64,
}

/// A document that a search found.
#[derive(Debug, Default)]
struct Found {
    terms: BTreeSet<usize>,
    adjustment: f32,
}

impl Found {
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
    pub fn new(texts: &[&'t str], rules: &WordRules<'_>) -> Document<'t> {
        let collation = rules.collation;
        let all = texts.iter().flat_map(|text| words(text));
        let words: Vec<&str> = all.map(|word| word.text).collect();
        let indexed = words.iter().copied().filter(|word| rules.is_indexed(word));
        let mut sorted: Vec<&str> = indexed.collect();
        sorted.sort_unstable_by(|a, b| collation.compare(a.as_bytes(), b.as_bytes()));
        Document {
            collation,
            words,
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

    fn occurrences(&self, term: &Term) -> Occurrences {
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

    fn has_phrase(&self, phrase: &[String]) -> bool {
        let equal = |window: &[&str]| window.iter().zip(phrase).all(|(a, b)| self.equal(a, b));
        !phrase.is_empty() && self.words.windows(phrase.len()).any(equal)
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

impl Frequencies {
    /// Counts a document.
    pub fn add(&mut self, query: &Query, document: &Document<'_>) {
        self.documents += 1;
        self.containing.resize(query.terms.len(), 0);
        for (count, term) in self.containing.iter_mut().zip(&query.terms) {
            *count += document.occurrences(term).distinct;
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

impl Query {
    /// Returns the relevance of a document; `None` if it does not match.
    #[must_use]
    pub fn rank(&self, document: &Document<'_>, frequencies: &Frequencies) -> Option<f32> {
        let found = self.evaluate(&self.clauses, document)?;
        let terms = found.terms.iter();
        let known = terms.filter_map(|n| self.terms.get(*n).map(|term| (*n, term)));
        let rank = known.fold(found.adjustment, |rank, (position, term)| {
            let idf = frequencies.idf(position, term);
            let tf = document.occurrences(term).frequency as f64;
            rank + (tf * idf * idf) as f32
        });
        Some(rank)
    }

    fn evaluate(&self, clauses: &[Clause], document: &Document<'_>) -> Option<Found> {
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

    fn operand(&self, operand: &Operand, document: &Document<'_>) -> Option<Found> {
        let with = |terms: &[usize]| Found {
            terms: terms.iter().copied().collect(),
            adjustment: 0.0,
        };
        match operand {
            Operand::Group(clauses) => self.evaluate(clauses, document),
            Operand::Term(n) => {
                let found = document.occurrences(self.terms.get(*n)?);
                (found.frequency > 0).then(|| with(&[*n]))
            }
            Operand::Phrase {
                words,
                terms,
                distance,
            } => {
                let wanted: Vec<&Term> = terms.iter().filter_map(|n| self.terms.get(*n)).collect();
                let found = !wanted.is_empty()
                    && match distance {
                        None => document.has_phrase(words),
                        Some(distance) => document.has_within(&wanted, *distance),
                    };
                found.then(|| with(terms))
            }
        }
    }
}
