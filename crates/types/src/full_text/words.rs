//! Words of a text (manual, "Fine-Tuning MySQL Full-Text Search"): the built-in parser and the
//! n-gram parser.

use crate::collation::Collation;

/// InnoDB's default stopwords (`information_schema.INNODB_FT_DEFAULT_STOPWORD`).
pub const DEFAULT_STOPWORDS: [&str; 36] = [
    "a", "about", "an", "are", "as", "at", "be", "by", "com", "de", "en", "for", "from", "how",
    "i", "in", "is", "it", "la", "of", "on", "or", "that", "the", "this", "to", "was", "what",
    "when", "where", "who", "will", "with", "und", "the", "www",
];

/// Rules by which words are indexed.
#[derive(Clone, Copy, Debug)]
pub struct WordRules<'a> {
    /// Collation that compares words.
    pub collation: Collation,
    /// Shortest indexed word in characters (`innodb_ft_min_token_size`).
    pub min_chars: usize,
    /// Longest indexed word in characters (`innodb_ft_max_token_size`).
    pub max_chars: usize,
    /// Words that are not indexed.
    pub stopwords: &'a [&'a str],
}

impl WordRules<'static> {
    /// MySQL's defaults: 3 to 84 characters, [`DEFAULT_STOPWORDS`].
    #[must_use]
    pub fn new(collation: Collation) -> WordRules<'static> {
        WordRules {
            collation,
            min_chars: 3,
            max_chars: 84,
            stopwords: &DEFAULT_STOPWORDS,
        }
    }
}

impl WordRules<'_> {
    /// Whether a word's length lets it be indexed.
    #[must_use]
    pub fn has_indexed_length(&self, word: &str) -> bool {
        (self.min_chars..=self.max_chars).contains(&word.chars().count())
    }

    /// Whether the index has the word.
    #[must_use]
    pub fn is_indexed(&self, word: &str) -> bool {
        let stops = |stop: &&str| self.collation.equal(stop.as_bytes(), word.as_bytes());
        self.has_indexed_length(word) && !self.stopwords.iter().any(stops)
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

/// Returns the sequences of `size` characters of each word of a text (`ngram_token_size`); shorter
/// words have none.
pub fn ngrams(text: &str, size: usize) -> impl Iterator<Item = Word<'_>> {
    words(text).flat_map(move |word| {
        let starts = word.text.char_indices().map(|(at, _)| at);
        starts.filter_map(move |at| {
            let rest = word.text.get(at..)?;
            let mut ends = rest.char_indices().map(|(end, c)| end + c.len_utf8());
            let end = ends.nth(size.checked_sub(1)?)?;
            let start = word.start + at;
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
    fn ngrams_do_not_cross_words() {
        assert_eq!(
            texts(ngrams("abc d 日本語", 2)),
            ["ab", "bc", "日本", "本語"]
        );
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
}
