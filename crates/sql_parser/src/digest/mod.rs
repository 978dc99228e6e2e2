//! Normalization of a statement for the plan cache, in one pass of the lexer.
//!
//! Literals are removed from the text and listed; the remaining tokens are the key of the plan. A
//! plan is made by parsing with [`super::Literals::Params`] and the same list, so that literal n is
//! parameter n. This is sound because a parse depends on the kinds of tokens and never on the value
//! of a literal: if one text parses with its list, every text with the same key parses to the same
//! tree with its own list; and if a listed literal is where no parameter is allowed, the parse
//! fails for all of them, and none gets a plan.
//!
//! Invariants
//! 1. Two texts with the same key differ only in comments (except for optimizer hints, on which a
//!    plan depends), in white space between tokens, and in
//!    the values of the listed literals. The key is injective: every token is written with its
//!    kind, and with a length or a terminator.
//! 2. A listed literal is never structural. Select lists are part of the key as written, because
//!    they name the result's columns. So are literals in GROUP BY, HAVING, ORDER BY and WINDOW,
//!    where an integer is the position of a column and expressions are compared with each other;
//!    literals of types and formats (`CAST`, `ROUND`, `DATE_FORMAT` ...); and aliases. Decimals
//!    include their number of digits, which determines the type of a result.
//! 3. Only queries and DML have a digest, and only if the text has no parameters, adjacent strings
//!    or invalid tokens.
//!
//! A cache's key also needs the default schema, character sets, time zone and catalog version,
//! which the caller adds. The flags of sql_mode that affect parsing are included.
//!
//! Rejected: a digest with upper-cased words, which would merge `T` and `t`, possibly two tables.

mod pass;
pub mod text;

use bumpalo::Bump;
use xxhash_rust::xxh3::xxh3_128;

use super::error::ParseError;
use super::lexer::LexMode;
use super::{ParseOptions, Parsed};
use pass::Pass;

pub use super::token::{LiteralKind, LiteralToken};

/// Key and position of a normalized statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Normalized {
    /// A hash of [`Digest::normalized`]. It does not resist chosen collisions: compare the bytes,
    /// too, before a plan is used.
    pub key: u128,
    /// As [`Parsed::end`].
    pub end: usize,
    /// As [`Parsed::rest`].
    pub rest: Option<usize>,
}

/// Buffers of the pass, which are reused.
#[derive(Debug, Default)]
pub struct Digest {
    normalized: Vec<u8>,
    literals: Vec<LiteralToken>,
}

impl Digest {
    /// Creates empty buffers.
    #[must_use]
    pub fn new() -> Digest {
        Digest::default()
    }

    /// The normalized form of the last text.
    #[must_use]
    pub fn normalized(&self) -> &[u8] {
        &self.normalized
    }

    /// The literals of the last text, in textual order.
    #[must_use]
    pub fn literals(&self) -> &[LiteralToken] {
        &self.literals
    }

    /// Normalizes the statement of `text` that begins at `start`. `None`: it has no digest.
    pub fn compute(&mut self, text: &[u8], start: usize, mode: LexMode) -> Option<Normalized> {
        self.normalized.clear();
        self.literals.clear();
        self.normalized.push(
            u8::from(mode.ansi_quotes)
                | u8::from(mode.no_backslash_escapes) << 1
                | u8::from(mode.pipes_as_concat) << 2
                | u8::from(mode.high_not_precedence) << 3
                | u8::from(mode.ignore_space) << 4,
        );
        let (end, rest) = Pass::new(self, text, start, mode).run()?;
        Some(Normalized {
            key: xxh3_128(&self.normalized),
            end,
            rest,
        })
    }
}

/// Parses a text, with the literals of its digest as parameters.
///
/// # Errors
/// As [`super::parse_one`], and [`super::ParseErrorKind::NotParametric`].
pub fn parse_parametric<'a>(
    arena: &'a Bump,
    text: &'a [u8],
    start: usize,
    mode: LexMode,
    literals: &'a [LiteralToken],
) -> Result<Parsed<'a>, ParseError> {
    let options = ParseOptions {
        mode,
        literals: super::Literals::Params(literals),
        ..ParseOptions::default()
    };
    super::parse_one(arena, text, start, &options)
}
