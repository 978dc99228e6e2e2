//! Words of a text (manual, "Fine-Tuning MySQL Full-Text Search"): the built-in parser and the
//! n-gram parser.

use crate::collation::Collation;
use std::collections::HashSet;

/// InnoDB's default stopwords (`information_schema.INNODB_FT_DEFAULT_STOPWORD`).
pub const DEFAULT_STOPWORDS: [&str; 36] = [
    "a", "about", "an", "are", "as", "at", "be", "by", "com", "de", "en", "for", "from", "how",
    "i", "in", "is", "it", "la", "of", "on", "or", "that", "the", "this", "to", "was", "what",
    "when", "where", "who", "will", "with", "und", "the", "www",
];

/// Maximum size of the sort key of an indexed word; beside it, the key of an index entry has room
/// for the key of a row. A word of 84 characters exceeds it only if most of them expand.
pub const MAX_KEY_BYTES: usize = 768;

/// How a text is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextParser {
    /// Words: runs of letters, digits and underscores.
    Words,
    /// Sequences of this many characters (`WITH PARSER ngram`, `ngram_token_size`).
    Ngrams(u32),
}

/// Rules by which words are indexed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordRules {
    /// Collation that compares words.
    pub collation: Collation,
    /// How texts are split.
    pub parser: TextParser,
    /// Shortest indexed word in characters (`innodb_ft_min_token_size`).
    pub min_chars: usize,
    /// Longest indexed word in characters (`innodb_ft_max_token_size`).
    pub max_chars: usize,
    /// Sort keys of the words that are not indexed.
    stop_keys: HashSet<Vec<u8>>,
}

impl WordRules {
    /// MySQL's defaults: 3 to 84 characters, [`DEFAULT_STOPWORDS`].
    #[must_use]
    pub fn new(collation: Collation) -> WordRules {
        WordRules::with_stopwords(collation, DEFAULT_STOPWORDS.iter().copied())
    }

    /// As [`WordRules::new`], with other words that are not indexed.
    #[must_use]
    pub fn with_stopwords<'s>(
        collation: Collation,
        stopwords: impl IntoIterator<Item = &'s str>,
    ) -> WordRules {
        let key = |word: &str| {
            let mut key = Vec::new();
            collation.sort_key(word.as_bytes(), &mut key);
            key
        };
        WordRules {
            collation,
            parser: TextParser::Words,
            min_chars: 3,
            max_chars: 84,
            stop_keys: stopwords.into_iter().map(key).collect(),
        }
    }

    /// Returns the words of a text in their order, including those that are not indexed.
    pub fn tokens<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> + use<'t> {
        let (split, size) = match self.parser {
            TextParser::Words => (Some(words(text)), None),
            TextParser::Ngrams(size) => (None, usize::try_from(size).ok()),
        };
        let sequences = size.map(|size| ngrams(text, size));
        let split = split.into_iter().flatten();
        let all = split.chain(sequences.into_iter().flatten());
        all.map(|word| word.text)
    }

    /// Whether a word's length lets it be indexed. Sequences of characters always do.
    #[must_use]
    pub fn has_indexed_length(&self, word: &str) -> bool {
        match self.parser {
            TextParser::Words => {
                // A character has at most four bytes.
                let chars = || word.chars().count();
                word.len() >= self.min_chars && (self.min_chars..=self.max_chars).contains(&chars())
            }
            TextParser::Ngrams(_) => true,
        }
    }

    /// Whether the index has the word.
    #[must_use]
    pub fn is_indexed(&self, word: &str) -> bool {
        self.indexed_key(word, &mut Vec::new())
    }

    /// Whether the index has the word, whose sort key replaces `key`, of at most [`MAX_KEY_BYTES`]. A sequence of characters must
    /// not contain a stopword, a word must not be one.
    pub fn indexed_key(&self, word: &str, key: &mut Vec<u8>) -> bool {
        if !self.has_indexed_length(word) || self.contains_stopword(word, key) {
            return false;
        }
        key.clear();
        self.collation.sort_key(word.as_bytes(), key);
        key.len() <= MAX_KEY_BYTES
            && (self.parser != TextParser::Words || !self.stop_keys.contains(key))
    }

    /// Whether a sequence of characters contains a stopword.
    fn contains_stopword(&self, word: &str, key: &mut Vec<u8>) -> bool {
        if self.parser == TextParser::Words || self.stop_keys.is_empty() {
            return false;
        }
        let starts = word.char_indices().map(|(at, _)| at);
        let mut parts = starts.flat_map(|start| {
            let rest = word.get(start..).unwrap_or_default();
            let ends = rest.char_indices().map(|(end, c)| end + c.len_utf8());
            ends.filter_map(move |end| rest.get(..end))
        });
        parts.any(|part| {
            key.clear();
            self.collation.sort_key(part.as_bytes(), key);
            self.stop_keys.contains(key)
        })
    }
}

/// A word of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<'t> {
    /// The word as it is written.
    pub text: &'t str,
    /// Offset of its first byte.
    pub start: usize,
}

/// Returns the words of a text: maximal runs of letters, digits and underscores, of any length.
pub fn words(text: &str) -> impl Iterator<Item = Word<'_>> {
    let mut rest = 0;
    std::iter::from_fn(move || {
        let behind = text.get(rest..)?;
        let start = rest + behind.find(is_word_character)?;
        let word = text.get(start..)?;
        let len = word.find(|c| !is_word_character(c)).unwrap_or(word.len());
        rest = start + len;
        let text = word.get(..len)?;
        Some(Word { text, start })
    })
}

fn is_word_character(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// Returns the sequences of `size` characters of a text (`ngram_token_size`). They have no space,
/// but may have other characters of no word.
pub fn ngrams(text: &str, size: usize) -> impl Iterator<Item = Word<'_>> {
    let runs = text.split(' ').scan(0, |next, run| {
        let start = *next;
        *next += run.len() + 1;
        Some(Word { text: run, start })
    });
    runs.flat_map(move |run| {
        let starts = run.text.char_indices().map(|(at, _)| at);
        starts.filter_map(move |at| {
            let rest = run.text.get(at..)?;
            let mut ends = rest.char_indices().map(|(end, c)| end + c.len_utf8());
            let end = ends.nth(size.checked_sub(1)?)?;
            let start = run.start + at;
            rest.get(..end).map(|text| Word { text, start })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts<'t>(words: impl Iterator<Item = Word<'t>>) -> Vec<&'t str> {
        words.map(|word| word.text).collect()
    }

    #[test]
    fn words_end_at_apostrophes_and_hyphens_but_not_at_underscores() {
        let found = texts(words("it's rock'n'roll, foo_bar foo-bar. naïve 日本語 12a"));
        let expected = [
            "it",
            "s",
            "rock",
            "n",
            "roll",
            "foo_bar",
            "foo",
            "bar",
            "naïve",
            "日本語",
            "12a",
        ];
        assert_eq!(found, expected);
        assert_eq!(texts(words(" -'\" ")), [""; 0]);
        assert_eq!(words("é ab").nth(1).map(|word| word.start), Some(3));
    }

    #[test]
    fn ngrams_do_not_cross_spaces() {
        assert_eq!(
            texts(ngrams("abc d 日本語", 2)),
            ["ab", "bc", "日本", "本語"]
        );
        assert_eq!(texts(ngrams("a,b", 2)), ["a,", ",b"]);
        let starts = ngrams("é ab", 2).map(|word| word.start);
        assert_eq!(starts.collect::<Vec<_>>(), [3]);
        assert_eq!(texts(ngrams("abc", 0)), [""; 0]);
        assert_eq!(texts(ngrams("ab cd", 3)), [""; 0]);
    }

    #[test]
    fn stopwords_and_lengths_exclude_words_under_the_collation() {
        let rules = WordRules::new(Collation::default_for(crate::Charset::Utf8mb4));
        assert!(rules.is_indexed("fox"));
        for excluded in ["fo", "THE", "Thé", &"x".repeat(85)] {
            assert!(!rules.is_indexed(excluded), "{excluded}");
        }
        assert!(rules.is_indexed(&"é".repeat(84)));
    }

    #[test]
    fn ngrams_that_contain_a_stopword_are_not_indexed() {
        let collation = Collation::default_for(crate::Charset::Utf8mb4);
        let mut rules = WordRules::with_stopwords(collation, [",", "xyz"]);
        rules.parser = TextParser::Ngrams(2);
        let kept = |text: &'static str| {
            let all = rules.tokens(text).filter(|word| rules.is_indexed(word));
            all.collect::<Vec<_>>()
        };
        assert_eq!(kept("a,b cd"), ["cd"]);
        assert_eq!(kept("xyz"), ["xy", "yz"]);
    }
}
