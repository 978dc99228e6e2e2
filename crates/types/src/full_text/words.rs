//! Words of a text (manual, "Fine-Tuning MySQL Full-Text Search"): the built-in parser and the
//! n-gram parser.

use crate::collation::Collation;
use foldhash::HashSet;

/// InnoDB's default stopwords (`information_schema.INNODB_FT_DEFAULT_STOPWORD`).
pub const DEFAULT_STOPWORDS: [&str; 36] = [
    "a", "about", "an", "are", "as", "at", "be", "by", "com", "de", "en", "for", "from", "how",
    "i", "in", "is", "it", "la", "of", "on", "or", "that", "the", "this", "to", "was", "what",
    "when", "where", "who", "will", "with", "und", "the", "www",
];

/// Maximum size of the sort key of an indexed word; beside it, the key of an index entry has room
/// for the key of a row. A word of 84 characters exceeds it only if most of them expand.
pub const MAX_KEY_BYTES: usize = 768;

/// Rules by which a text is split into words.
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
    /// Rules by which texts are split.
    pub parser: TextParser,
    /// Shortest indexed word in characters (`innodb_ft_min_token_size`).
    pub min_chars: usize,
    /// Longest indexed word in characters (`innodb_ft_max_token_size`).
    pub max_chars: usize,
    /// Sort keys of the words that are not indexed.
    stop_keys: HashSet<Vec<u8>>,
    /// Length of the longest of `stop_keys`, in bytes.
    longest_stop_key: usize,
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
        let stop_keys: HashSet<Vec<u8>> = stopwords.into_iter().map(key).collect();
        WordRules {
            collation,
            parser: TextParser::Words,
            min_chars: 3,
            max_chars: 84,
            longest_stop_key: stop_keys.iter().map(Vec::len).max().unwrap_or(0),
            stop_keys,
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
                // A character has one to four bytes.
                let chars = || word.chars().count();
                word.len() >= self.min_chars
                    && (word.len() <= self.max_chars && word.is_ascii()
                        || (self.min_chars..=self.max_chars).contains(&chars()))
            }
            TextParser::Ngrams(_) => true,
        }
    }

    /// Whether the index has the word.
    #[must_use]
    pub fn is_indexed(&self, word: &str) -> bool {
        self.push_indexed_key(word, &mut Vec::new())
    }

    /// Appends the self-delimiting sort key ([`Collation::self_delimiting_key`]) of a word if the
    /// index has the word; otherwise returns false. An indexed word has a sort key of at most
    /// [`MAX_KEY_BYTES`] and is not a stopword; an indexed n-gram contains no stopword.
    pub fn push_indexed_key(&self, word: &str, out: &mut Vec<u8>) -> bool {
        if !self.has_indexed_length(word) || self.contains_stopword(word) {
            return false;
        }
        let start = out.len();
        self.collation.sort_key(word.as_bytes(), out);
        let key = out.get(start..).unwrap_or_default();
        let is_stopword = self.parser == TextParser::Words && self.is_stop_key(key);
        if key.len() > MAX_KEY_BYTES || is_stopword {
            out.truncate(start);
            return false;
        }
        self.collation.delimit_key(start, out);
        true
    }

    fn is_stop_key(&self, key: &[u8]) -> bool {
        key.len() <= self.longest_stop_key && self.stop_keys.contains(key)
    }

    /// Whether a sequence of characters contains a stopword.
    fn contains_stopword(&self, word: &str) -> bool {
        if self.parser == TextParser::Words || self.stop_keys.is_empty() {
            return false;
        }
        let mut key = Vec::new();
        let starts = word.char_indices().map(|(at, _)| at);
        let mut parts = starts.flat_map(|start| {
            let rest = word.get(start..).unwrap_or_default();
            let ends = rest.char_indices().map(|(end, c)| end + c.len_utf8());
            ends.filter_map(move |end| rest.get(..end))
        });
        parts.any(|part| {
            key.clear();
            self.collation.sort_key(part.as_bytes(), &mut key);
            self.is_stop_key(&key)
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
        let start = find(text, rest, true);
        rest = find(text, start, false);
        let text = text.get(start..rest).filter(|word| !word.is_empty())?;
        Some(Word { text, start })
    })
}

/// Offset of the first character from `at` on that belongs to a word, or does not; the end of the
/// text if there is none.
fn find(text: &str, mut at: usize, in_word: bool) -> usize {
    let bytes = text.as_bytes();
    while let Some(byte) = bytes.get(at) {
        if byte.is_ascii() {
            if (byte.is_ascii_alphanumeric() || *byte == b'_') == in_word {
                return at;
            }
            at += 1;
        } else {
            let character = text.get(at..).and_then(|rest| rest.chars().next());
            match character {
                Some(c) if c.is_alphanumeric() != in_word => at += c.len_utf8(),
                _ => return at,
            }
        }
    }
    at
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
