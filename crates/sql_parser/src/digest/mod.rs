//! Normalising a statement for the plan cache in one pass of the lexer.
//!
//! Literals are taken out of the text and listed; what is left, token by token, is the key of the
//! plan. A plan is made by parsing with [`super::Literals::Params`] and the same list, so that
//! the n-th literal is the plan's n-th parameter. Both hang together because a parse depends on
//! the kinds of tokens and never on the value of a literal: if one text parses under a list, every
//! text of the same key parses to the same tree under its own list; and if a literal of the list
//! stands where no parameter can, the parse fails for all of them, and none gets a plan.
//!
//! Invariants
//! 1. Two texts of one key differ in nothing but comments and white space between tokens, and in
//!    the values of the listed literals. The key is injective: every token is written with its kind
//!    and with a length or a terminator.
//! 2. A listed literal is never structural. Select lists go into the key as they are written, for
//!    they name the result's columns; so do literals in GROUP BY, HAVING, ORDER BY and WINDOW, where
//!    an integer is a column's number and expressions are compared with each other, those of types
//!    and formats (`CAST`, `ROUND`, `DATE_FORMAT` ...), and aliases. Decimals carry their number of
//!    digits, since the type of a result follows from it.
//! 3. Statements other than queries and changes of rows have no digest, nor has a text with a
//!    parameter, with adjacent strings, or with a token that is none.
//!
//! Default schema, character sets, time zone and catalog version belong to the key of a cache too;
//! they are the caller's to add. The flags of sql_mode that change the reading are in it.
//!
//! Rejected: a digest of upper-cased words; it would merge `T` and `t`, which may be two tables.

mod pass;

use bumpalo::Bump;
use xxhash_rust::xxh3::xxh3_128;

use super::error::ParseError;
use super::lexer::LexMode;
use super::{ParseOptions, Parsed};
use pass::Pass;

pub use super::token::{LiteralKind, LiteralToken};

/// Key and extent of a normalised statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Normalized {
    /// A hash of [`Digest::normalized`]. It is no protection against chosen collisions: compare
    /// the bytes too before a plan is used.
    pub key: u128,
    /// As [`Parsed::end`].
    pub end: usize,
    /// As [`Parsed::rest`].
    pub rest: Option<usize>,
}

/// Buffers of the pass, reused from text to text.
#[derive(Debug, Default)]
pub struct Digest {
    normalized: Vec<u8>,
    literals: Vec<LiteralToken>,
}

impl Digest {
    /// Empty buffers.
    #[must_use]
    pub fn new() -> Digest {
        Digest::default()
    }

    /// The normalised form of the last text.
    #[must_use]
    pub fn normalized(&self) -> &[u8] {
        &self.normalized
    }

    /// The literals of the last text, in its order.
    #[must_use]
    pub fn literals(&self) -> &[LiteralToken] {
        &self.literals
    }

    /// Normalises the statement of `text` that begins at `start`. None: parse it.
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

/// Parses a text with the literals of its digest as parameters.
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
