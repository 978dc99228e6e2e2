//! Full-text search as pure functions: words of a text, the language of boolean searches, and
//! relevance, as InnoDB's FULLTEXT indexes have them.
//!
//! ```text
//! text  --words-->  Document                     terms of an index, positions of phrases
//! AGAINST('+a "b c"')  --Query::boolean-->  Query
//! (Query, Document, Frequencies)  --rank-->  relevance, none for a row that does not match
//! ```
//!
//! A query is evaluated document by document. A [`Document`] is made of a row's texts; an
//! [`IndexedDocument`] is what an index knows of a row that it found. Texts are UTF-8; a caller converts those of other character
//! sets ([`crate::Charset::convert`]).
//!
//! Invariants:
//! 1. Words are compared by the collation, so that case and accents count as they do for `=`.
//! 2. Evaluation is total: no text and no query panics; nesting is bounded by [`MAX_NESTING`].
//!
//! Deliberately as InnoDB, though the manual says less (judged by `tests/data/full_text.tsv`):
//! a word that a query repeats counts as more frequent; `~` only lowers rows that operands before
//! it have found; words that are not indexed count in a phrase only after one that is; of the
//! words that a prefix finds, the last one's frequency counts.
//!
//! As the manual says, and otherwise than InnoDB, whose rows or ranks differ there: parentheses
//! beside `+` are optional unless they have a `+` of their own, whatever operators are within; a
//! prefix is independent of phrases, and of words that it also finds; words that stand together as
//! `foo.bar` each have the operator before them.
//!
//! Rejected: segmentation by Unicode's rules (UAX 29). InnoDB's words are runs of letters, digits
//! and underscores, which a character's class alone decides.

mod query;
mod rank;
mod words;

pub use query::{MAX_NESTING, Query, SyntaxError};
pub use rank::{Document, Frequencies, IndexedDocument, Occurrences, Ranking};
pub use words::{DEFAULT_STOPWORDS, TextParser, Word, WordRules, ngrams, words};
