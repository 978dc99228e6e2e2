//! Searches: the words of a natural language search, and the operators of a boolean one (manual,
//! "Boolean Full-Text Searches").
//!
//! ```text
//! query    := clause*
//! clause   := [operator] ( '(' clause* ')' | text ['@' number] | word ['*'] )
//! operator := '+' | '-' | '<' | '>' | '~'
//! text     := '"' characters but '"' and line feed '"'
//! word     := '*' word | characters but operators, quotes, '%' and spaces
//! ```
//!
//! A word that holds characters of no word, as `foo-bar` in a text or `foo.bar`, is several words
//! with the operator of the first.

use super::words::{TextParser, WordRules, words};
use std::collections::BTreeMap;
use std::fmt;

/// Maximum nesting of parentheses.
pub const MAX_NESTING: usize = 64;

/// A search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pub(super) clauses: Vec<Clause>,
    /// Distinct terms, in the order of the search.
    pub(super) terms: Vec<Term>,
    pub(super) phrases: Vec<Phrase>,
}

/// Words that stand together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Phrase {
    /// The words from the first indexed one on.
    pub(super) words: Vec<String>,
    /// The indexed ones.
    pub(super) parts: Vec<PhrasePart>,
    /// Number of words among which all are to be found, for `@`.
    pub(super) distance: Option<u64>,
}

/// An indexed word of a phrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PhrasePart {
    /// Position in [`Query::terms`].
    pub(super) term: usize,
    /// Position in [`Phrase::words`].
    pub(super) offset: usize,
}

/// A word that is looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) word: String,
    /// Whether longer words match, too.
    pub(super) prefix: bool,
    /// Number of times that the search names it.
    pub(super) uses: u64,
}

/// An operand with its operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Clause {
    pub(super) operator: Operator,
    pub(super) operand: Operand,
}

/// Effect of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    /// No operator: matches, and adds to the rank.
    Optional,
    /// `+`
    Required,
    /// `-`
    Excluded,
    /// `>`
    Raised,
    /// `<`
    Lowered,
    /// `~`
    Negated,
}

/// Subject of a clause's search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    /// A position in [`Query::terms`].
    Term(usize),
    /// A position in [`Query::phrases`].
    Phrase(usize),
    Group(Vec<Clause>),
}

/// A malformed boolean search, with the text of InnoDB's parser (error 1064).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError(String);

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SyntaxError {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'t> {
    Symbol(char),
    Number(&'t str),
    Word(&'t str),
    Text(&'t str),
    End,
}

impl Token<'_> {
    /// Returns the name in errors.
    fn name(self) -> String {
        match self {
            Token::Symbol(c) => format!("'{c}'"),
            Token::Number(_) => "FTS_NUMB".to_owned(),
            Token::Word(_) => "FTS_TERM".to_owned(),
            Token::Text(_) => "FTS_TEXT".to_owned(),
            Token::End => "$end".to_owned(),
        }
    }
}

impl Query {
    /// A natural language search: a row matches that has any of the words.
    #[must_use]
    pub fn natural(text: &str, rules: &WordRules) -> Query {
        let mut terms = Terms::default();
        let mut clauses = Vec::new();
        for word in rules.tokens(text).filter(|word| rules.is_indexed(word)) {
            clauses.push(Clause {
                operator: Operator::Optional,
                operand: Operand::Term(terms.add(word, false, rules)),
            });
        }
        let terms = terms.terms;
        Query {
            clauses,
            terms,
            phrases: Vec::new(),
        }
    }

    /// Adds words that a row may have, too: a natural language search with query expansion. Words
    /// of the search are not added again.
    pub fn expand<'w>(&mut self, words: impl IntoIterator<Item = &'w str>, rules: &WordRules) {
        let mut terms = Terms::default();
        for term in std::mem::take(&mut self.terms) {
            terms.keep(term, rules);
        }
        for word in words {
            let known = terms.terms.len();
            let term = terms.add(word, false, rules);
            if term < known {
                terms.forget_use(term);
                continue;
            }
            self.clauses.push(Clause {
                operator: Operator::Optional,
                operand: Operand::Term(term),
            });
        }
        self.terms = terms.terms;
    }

    /// A boolean search.
    ///
    /// # Errors
    /// The text is malformed.
    pub fn boolean(text: &str, rules: &WordRules) -> Result<Query, SyntaxError> {
        let mut parser = Parser {
            rest: text,
            token: Token::End,
            rules,
            terms: Terms::default(),
            phrases: Vec::new(),
        };
        parser.advance();
        let clauses = parser.clauses(0)?;
        match parser.token {
            Token::End => {}
            _ => return Err(parser.unexpected("$end")),
        }
        Ok(Query {
            clauses,
            terms: parser.terms.terms,
            phrases: parser.phrases,
        })
    }

    /// Number of distinct terms, which [`super::Frequencies`] counts.
    #[must_use]
    pub fn term_count(&self) -> usize {
        self.terms.len()
    }

    /// The terms, each with whether longer words match, too.
    pub fn terms(&self) -> impl Iterator<Item = (&str, bool)> {
        let terms = self.terms.iter();
        terms.map(|term| (term.word.as_str(), term.prefix))
    }

    /// Whether the places of a term in a document are needed: it is part of a phrase.
    #[must_use]
    pub fn needs_positions(&self, term: usize) -> bool {
        let mut phrases = self.phrases.iter();
        phrases.any(|phrase| phrase.parts.iter().any(|part| part.term == term))
    }

    /// The phrases that must be verified in a document's texts, by number, as their words: those that have
    /// words which are not indexed; in an index of several columns all, because the entries do not tell
    /// whether their words are in one column.
    pub fn phrases_to_verify(
        &self,
        has_several_columns: bool,
    ) -> impl Iterator<Item = (usize, &[String])> {
        let phrases = self.phrases.iter().enumerate();
        let undecided =
            phrases.filter(move |(_, phrase)| phrase.must_be_verified(has_several_columns));
        undecided.map(|(number, phrase)| (number, phrase.words.as_slice()))
    }
}

impl Phrase {
    /// Whether the phrase must be verified in a document's texts. Not if it has a distance: its words may then be
    /// in different columns.
    pub(super) fn must_be_verified(&self, has_several_columns: bool) -> bool {
        self.distance.is_none() && (has_several_columns || self.parts.len() < self.words.len())
    }
}

/// Terms of a search, each once.
#[derive(Default)]
struct Terms {
    terms: Vec<Term>,
    /// Positions by sort key and whether the term is a prefix.
    positions: BTreeMap<(Vec<u8>, bool), usize>,
}

impl Terms {
    /// Takes over a term of another search.
    fn keep(&mut self, term: Term, rules: &WordRules) {
        let mut key = Vec::new();
        rules.collation.sort_key(term.word.as_bytes(), &mut key);
        self.positions.insert((key, term.prefix), self.terms.len());
        self.terms.push(term);
    }

    /// Undoes a use that [`Terms::add`] counted.
    fn forget_use(&mut self, position: usize) {
        if let Some(term) = self.terms.get_mut(position) {
            term.uses -= 1;
        }
    }

    /// Returns the position of a term, which is added if it is new.
    fn add(&mut self, word: &str, prefix: bool, rules: &WordRules) -> usize {
        let mut key = Vec::new();
        rules.collation.sort_key(word.as_bytes(), &mut key);
        let new = self.terms.len();
        let position = *self.positions.entry((key, prefix)).or_insert(new);
        match self.terms.get_mut(position) {
            Some(known) => known.uses += 1,
            None => self.terms.push(Term {
                word: word.to_owned(),
                prefix,
                uses: 1,
            }),
        }
        position
    }
}

struct Parser<'t, 'r> {
    rest: &'t str,
    token: Token<'t>,
    rules: &'r WordRules,
    terms: Terms,
    phrases: Vec<Phrase>,
}

fn is_symbol(c: char) -> bool {
    matches!(c, '*' | '(' | ')' | '+' | '-' | '<' | '>' | '~' | '@')
}

fn is_skipped(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '%' | '"')
}

impl<'t> Parser<'t, '_> {
    fn advance(&mut self) {
        self.token = self.scan().unwrap_or(Token::End);
    }

    fn scan(&mut self) -> Option<Token<'t>> {
        loop {
            let first = self.rest.chars().next()?;
            let behind = self.rest.get(first.len_utf8()..)?;
            if is_symbol(first) {
                self.rest = behind;
                return Some(Token::Symbol(first));
            }
            if first == '"'
                && let Some(end) = behind.find(['"', '\n'])
                && behind.get(end..)?.starts_with('"')
            {
                self.rest = behind.get(end + 1..)?;
                return behind.get(..end).map(Token::Text);
            }
            if is_skipped(first) {
                self.rest = behind;
                continue;
            }
            let end = self.rest.find(|c| is_symbol(c) || is_skipped(c));
            let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
            self.rest = rest;
            let digits = word.bytes().all(|b| b.is_ascii_digit());
            return Some(if digits {
                Token::Number(word)
            } else {
                Token::Word(word)
            });
        }
    }

    fn unexpected(&self, expected: &str) -> SyntaxError {
        let name = self.token.name();
        let expecting = match expected {
            "" => String::new(),
            expected => format!(", expecting {expected}"),
        };
        SyntaxError(format!("syntax error, unexpected {name}{expecting}"))
    }

    /// Parses clauses up to a token that begins none.
    fn clauses(&mut self, nesting: usize) -> Result<Vec<Clause>, SyntaxError> {
        let mut clauses = Vec::new();
        loop {
            let operator = match self.token {
                Token::Symbol('+') => Operator::Required,
                Token::Symbol('-') => Operator::Excluded,
                Token::Symbol('>') => Operator::Raised,
                Token::Symbol('<') => Operator::Lowered,
                Token::Symbol('~') => Operator::Negated,
                Token::Symbol(')' | '@') | Token::End => return Ok(clauses),
                _ => Operator::Optional,
            };
            if operator != Operator::Optional {
                self.advance();
            }
            match self.token {
                Token::Symbol('(') => {
                    let operand = Operand::Group(self.group(nesting + 1)?);
                    clauses.push(Clause { operator, operand });
                }
                Token::Text(text) => {
                    self.advance();
                    let operand = self.phrase(text)?;
                    clauses.push(Clause { operator, operand });
                }
                Token::Word(_) | Token::Number(_) | Token::Symbol('*') => {
                    self.word(operator, &mut clauses)?;
                }
                _ => return Err(self.unexpected("")),
            }
        }
    }

    fn group(&mut self, nesting: usize) -> Result<Vec<Clause>, SyntaxError> {
        if nesting > MAX_NESTING {
            return Err(SyntaxError("memory exhausted".to_owned()));
        }
        self.advance();
        let clauses = self.clauses(nesting)?;
        if self.token != Token::Symbol(')') {
            return Err(self.unexpected(""));
        }
        self.advance();
        Ok(clauses)
    }

    fn phrase(&mut self, text: &str) -> Result<Operand, SyntaxError> {
        let mut distance = None;
        if self.token == Token::Symbol('@') {
            self.advance();
            let Token::Number(digits) = self.token else {
                return Err(self.unexpected("FTS_NUMB"));
            };
            self.advance();
            // As in InnoDB, 0 means no distance.
            distance = Some(digits.parse().unwrap_or(u64::MAX)).filter(|distance| *distance > 0);
        }
        Ok(self.phrase_of(text, distance))
    }

    /// The words of a text as a phrase, or as a term if it is one word.
    fn phrase_of(&mut self, text: &str, distance: Option<u64>) -> Operand {
        let rules = self.rules;
        let all = rules
            .tokens(text)
            .skip_while(|word| !rules.is_indexed(word));
        let words: Vec<String> = all.map(str::to_owned).collect();
        let mut parts = Vec::new();
        for (offset, word) in words.iter().enumerate() {
            if rules.is_indexed(word) {
                let term = self.terms.add(word, false, rules);
                parts.push(PhrasePart { term, offset });
            }
        }
        if let ([single], 1) = (parts.as_slice(), words.len()) {
            return Operand::Term(single.term);
        }
        self.phrases.push(Phrase {
            words,
            parts,
            distance,
        });
        Operand::Phrase(self.phrases.len() - 1)
    }

    /// Parses a word. `*` before it has no effect, `*` after it makes a prefix.
    fn word(&mut self, operator: Operator, out: &mut Vec<Clause>) -> Result<(), SyntaxError> {
        while self.token == Token::Symbol('*') {
            self.advance();
        }
        let (Token::Word(text) | Token::Number(text)) = self.token else {
            return Err(self.unexpected("FTS_TERM or FTS_NUMB or '*'"));
        };
        self.advance();
        let prefix = self.token == Token::Symbol('*');
        if prefix {
            self.advance();
        }
        if let TextParser::Ngrams(size) = self.rules.parser {
            // A short prefix finds the sequences that begin with it; a longer one is a phrase.
            let short = text.chars().count() < usize::try_from(size).unwrap_or(usize::MAX);
            let operand = if short {
                Operand::Term(self.terms.add(text, prefix, self.rules))
            } else {
                self.phrase_of(text, None)
            };
            out.push(Clause { operator, operand });
            return Ok(());
        }
        for (n, word) in words(text).enumerate() {
            // A first word that is too short stays, and finds nothing.
            if n == 0 || self.rules.has_indexed_length(word.text) {
                let term = self.terms.add(word.text, prefix, self.rules);
                let operand = Operand::Term(term);
                out.push(Clause { operator, operand });
            }
        }
        Ok(())
    }
}
