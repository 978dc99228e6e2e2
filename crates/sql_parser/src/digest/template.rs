//! Templates: texts that were normalized before, whose literals may take other values.
//!
//! A client sends the same text again and again, with other values. A template is such a text with
//! the positions of its literals. A new text that has the template's bytes between its literals,
//! and a literal of the same kind for each of them, consists of the same tokens, so it has the same
//! normalized form, and no lexer needs to look at it:
//!
//! ```text
//! template   SELECT v FROM t WHERE id = 7   AND n = 'x'
//! new text   SELECT v FROM t WHERE id = 123 AND n = 'yy'
//!            -------------------------- ^^^ --------- ^^^^
//! ```
//!
//! Invariants
//! 1. The lexer would make the same tokens of both texts, except for the values of the listed
//!    literals. Its state before a literal depends on the bytes before it, which are equal or
//!    literals of equal kinds. The extent of a literal depends on the byte behind it, which is
//!    equal, too: digits that end before a byte of this template are an integer there, and a quote
//!    that ends a string there is not doubled.
//! 2. Where the value of a literal could make a difference, there is no template, or the text does
//!    not match: for comments between `/*` and `*/`, which can begin with a version; for decimals,
//!    whose digits are part of the normalized form; for integers that may exceed BIGINT; for strings
//!    with a backslash or a doubled quote.
//! 3. The memory of a template has a limit ([`MAX_TEXT`], [`MAX_LITERALS`]).
//!
//! Rejected: templates in the plan cache, in place of the normalized form. Texts that differ only
//! in white space would have a plan each, and a list of values of another length a search of all
//! plans.

use super::super::token::Span;
use super::{LiteralKind, LiteralToken, Normalized};

/// Maximum length of a template's text.
const MAX_TEXT: usize = 1024;

/// Maximum number of a template's literals.
const MAX_LITERALS: usize = 128;

/// Numbers of fewer digits are at most 9223372036854775807.
const MAX_DIGITS: usize = 18;

/// A text that was normalized.
#[derive(Debug)]
pub(super) struct Template {
    text: Vec<u8>,
    literals: Vec<LiteralToken>,
    normalized: Vec<u8>,
    result: Normalized,
}

impl Template {
    /// Whether a text with these literals can be a template.
    pub(super) fn accepts(text: &[u8], literals: &[LiteralToken]) -> bool {
        let has_plain_kind = |literal: &LiteralToken| {
            matches!(
                literal.kind,
                LiteralKind::Int | LiteralKind::Limit | LiteralKind::String
            )
        };
        text.len() <= MAX_TEXT
            && literals.len() <= MAX_LITERALS
            && literals.iter().all(has_plain_kind)
            && memchr::memmem::find(text, b"/*").is_none()
    }

    /// Creates an empty template.
    pub(super) fn empty() -> Template {
        Template {
            text: Vec::new(),
            literals: Vec::new(),
            normalized: Vec::new(),
            result: Normalized {
                key: 0,
                end: 0,
                rest: None,
            },
        }
    }

    /// Replaces the template by a text that [`Self::accepts`].
    pub(super) fn replace(
        &mut self,
        text: &[u8],
        literals: &[LiteralToken],
        normalized: &[u8],
        result: Normalized,
    ) {
        self.text.clear();
        self.text.extend_from_slice(text);
        self.literals.clear();
        self.literals.extend_from_slice(literals);
        self.normalized.clear();
        self.normalized.extend_from_slice(normalized);
        self.result = result;
    }

    /// The normalized form.
    pub(super) fn normalized(&self) -> &[u8] {
        &self.normalized
    }

    /// The result of normalizing `text`, whose literals replace those in `literals`; `None` if the
    /// text does not match, or was lexed in a mode with other `flags`.
    pub(super) fn match_text(
        &self,
        text: &[u8],
        flags: u8,
        literals: &mut Vec<LiteralToken>,
    ) -> Option<Normalized> {
        let first_differs = self.text.first() != text.first();
        if first_differs || self.normalized.first() != Some(&flags) {
            return None;
        }
        u32::try_from(text.len()).ok()?;
        literals.clear();
        let (mut at, mut template_at) = (0, 0);
        for literal in &self.literals {
            let start = literal.span.start as usize;
            let between = self.text.get(template_at..start)?;
            at += prefix_len(text.get(at..)?, between)?;
            let rest = text.get(at..)?;
            let length = match literal.kind {
                LiteralKind::String => string_len(rest, *self.text.get(start)?)?,
                _ => digits_len(rest)?,
            };
            literals.push(LiteralToken {
                span: Span::new(at as u32, (at + length) as u32),
                kind: literal.kind,
            });
            at += length;
            template_at = literal.span.end as usize;
        }
        let tail = self.text.get(template_at..)?;
        if text.get(at..)? != tail {
            return None;
        }
        // The end and the next statement are behind the last literal.
        let moved = |offset: usize| Some(at + offset.checked_sub(template_at)?);
        let rest = match self.result.rest {
            Some(rest) => Some(moved(rest)?),
            None => None,
        };
        Some(Normalized {
            key: self.result.key,
            end: moved(self.result.end)?,
            rest,
        })
    }
}

/// The length of `prefix`, if `text` begins with it.
#[inline]
fn prefix_len(text: &[u8], prefix: &[u8]) -> Option<usize> {
    // Separators of lists are short: a call to compare them costs more than the comparison.
    let begins = match *prefix {
        [first] => text.first() == Some(&first),
        [first, second] => text.get(..2) == Some(&[first, second]),
        _ => text.starts_with(prefix),
    };
    begins.then_some(prefix.len())
}

/// The number of digits at the start of `text`; `None` for none, and for too many.
#[inline]
fn digits_len(text: &[u8]) -> Option<usize> {
    let digits = text.iter().take(MAX_DIGITS + 1);
    let length = digits.take_while(|byte| byte.is_ascii_digit()).count();
    (1..=MAX_DIGITS).contains(&length).then_some(length)
}

/// The length of the string at the start of `text`, with its quotes; `None` if it has another
/// quote, or is not terminated, or may contain an escape.
#[inline]
fn string_len(text: &[u8], quote: u8) -> Option<usize> {
    let inner = text.strip_prefix(&[quote])?;
    let length = memchr::memchr2(quote, b'\\', inner)?;
    // If the quote is doubled, the next piece of the template does not match.
    (inner.get(length) == Some(&quote)).then_some(length + 2)
}

#[cfg(test)]
mod tests {
    use super::super::Digest;
    use super::*;
    use crate::LexMode;
    use fastrand::Rng;

    /// Everything that normalization returns.
    type Outcome = Option<(Normalized, Vec<u8>, Vec<(LiteralKind, u32, u32)>)>;

    fn outcome(digest: &mut Digest, text: &[u8], mode: LexMode) -> Outcome {
        let result = digest.compute(text, 0, mode)?;
        let literals = digest.literals().iter();
        let literals = literals.map(|l| (l.kind, l.span.start, l.span.end));
        let literals = literals.collect();
        Some((result, digest.normalized().to_vec(), literals))
    }

    fn modes() -> [LexMode; 3] {
        [
            LexMode::default(),
            LexMode {
                ansi_quotes: true,
                ..LexMode::default()
            },
            LexMode {
                no_backslash_escapes: true,
                ..LexMode::default()
            },
        ]
    }

    /// A text's pieces: its head, then values and what is between them. Often an earlier text's with other
    /// values.
    fn random_pieces(rng: &mut Rng, earlier: &[Vec<&'static str>]) -> Vec<&'static str> {
        const HEADS: [&str; 8] = [
            "SELECT v FROM t WHERE id = ",
            "SELECT 5, v FROM t WHERE id = ",
            "UPDATE t SET v = v + ",
            "INSERT INTO t VALUES (",
            "DELETE FROM t WHERE a LIKE ",
            "SELECT ROUND(v, 2) FROM t WHERE ROUND(a, 3) > -",
            "/*!",
            "SELECT v FROM t ORDER BY 1 LIMIT ",
        ];
        const VALUES: [&str; 24] = [
            "1",
            "2",
            "0",
            "007",
            "42",
            "'x'",
            "'yy'",
            "''",
            "\"z\"",
            "'it''s'",
            "'a\\'b'",
            "'\\'",
            "'a\"b'",
            "999999999999999999",
            "9223372036854775807",
            "9223372036854775808",
            "1.5",
            "2.25",
            "1e5",
            "0x41",
            "x'41'",
            "50001",
            "NULL",
            "'-- '",
        ];
        const GLUE: [&str; 22] = [
            ", ",
            ",",
            " AND b = ",
            ") ",
            "), (",
            " ",
            "-",
            "--",
            "-- \n",
            "#\n",
            ".",
            "x",
            "e",
            "'",
            "/*!",
            "*/",
            "/* c */",
            "/*+ h */",
            " LIMIT ",
            "; SELECT ",
            " ORDER BY ",
            "->",
        ];
        let value = |rng: &mut Rng| VALUES[rng.usize(..VALUES.len())];
        if !earlier.is_empty() && rng.u8(..4) > 0 {
            let mut pieces = earlier[rng.usize(..earlier.len())].clone();
            for piece in pieces.iter_mut().skip(1).step_by(2) {
                if rng.bool() {
                    *piece = value(rng);
                }
            }
            return pieces;
        }
        let mut pieces = vec![HEADS[rng.usize(..HEADS.len())], value(rng)];
        for _ in 0..rng.usize(..3) {
            let glue = if rng.bool() { 3 } else { GLUE.len() };
            pieces.extend([GLUE[rng.usize(..glue)], value(rng)]);
        }
        if rng.u8(..4) == 0 {
            pieces.push(GLUE[rng.usize(..GLUE.len())]);
        }
        pieces
    }

    #[test]
    fn texts_that_match_a_template_are_normalized_as_by_the_lexer() {
        let mut rng = Rng::with_seed(20);
        let mut digest = Digest::new();
        let (mut matched, mut with_literals) = (0, 0);
        let mut earlier: Vec<Vec<&str>> = Vec::new();
        for _ in 0..60_000 {
            let pieces = random_pieces(&mut rng, &earlier);
            let text = pieces.concat().into_bytes();
            earlier.insert(0, pieces);
            earlier.truncate(6);
            let mode = modes()[rng.usize(..3).min(rng.usize(..3))];
            let found = outcome(&mut digest, &text, mode);
            let lexed = outcome(&mut Digest::new(), &text, mode);
            assert_eq!(found, lexed, "{}", String::from_utf8_lossy(&text));
            matched += usize::from(digest.matched);
            with_literals += usize::from(digest.matched && !digest.literals().is_empty());
        }
        assert!(
            matched > 3_000 && with_literals > 2_500,
            "{matched} {with_literals}"
        );
    }

    #[test]
    fn the_templates_used_last_are_kept() {
        let mut digest = Digest::new();
        let mode = LexMode::default();
        let mut matches = |text: &str| {
            assert!(digest.compute(text.as_bytes(), 0, mode).is_some(), "{text}");
            digest.matched
        };
        assert!(!matches("SELECT a FROM t WHERE b = 1"));
        assert!(matches("SELECT a FROM t WHERE b = 234"));
        for n in 0..100 {
            assert!(!matches(&format!("SELECT a FROM t{n} WHERE b = 1")));
            assert!(matches("SELECT a FROM t WHERE b = 5"), "{n}");
        }
        assert!(matches("SELECT a FROM t99 WHERE b = 2"));
        assert!(!matches("SELECT a FROM t1 WHERE b = 1"));
    }

    #[test]
    fn large_texts_are_no_templates() {
        let mut digest = Digest::new();
        for length in [MAX_TEXT * 2, MAX_TEXT / 2] {
            let text = format!("SELECT a FROM t WHERE b = '{}'", "x".repeat(length));
            for _ in 0..2 {
                let found = digest.compute(text.as_bytes(), 0, LexMode::default());
                assert!(found.is_some());
            }
            assert_eq!(digest.matched, length < MAX_TEXT);
        }
    }
}
