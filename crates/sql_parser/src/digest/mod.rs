//! Normalization of a statement for the plan cache, in one pass of the lexer, or without one if the
//! text differs from a recent one only in the values of literals ([`template`]).
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
mod template;
pub mod text;

use bumpalo::Bump;
use xxhash_rust::xxh3::xxh3_128;

use super::error::ParseError;
use super::lexer::LexMode;
use super::{ParseOptions, Parsed};
use pass::Pass;
use template::Template;

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

/// Maximum number of [`Digest::templates`].
const MAX_TEMPLATES: usize = 8;

/// Buffers of the pass, which are reused, and templates of recent texts.
#[derive(Debug, Default)]
pub struct Digest {
    normalized: Vec<u8>,
    literals: Vec<LiteralToken>,
    /// The last text's is the first one, if there is one of it. Those further back are older in most cases.
    templates: Vec<Template>,
    /// Whether the last text matched the first template.
    matched: bool,
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
        let template = self.templates.first().filter(|_| self.matched);
        template.map_or(&self.normalized, Template::normalized)
    }

    /// The literals of the last text, in textual order.
    #[must_use]
    pub fn literals(&self) -> &[LiteralToken] {
        &self.literals
    }

    /// Normalizes the statement of `text` that begins at `start`. `None`: it has no digest.
    pub fn compute(&mut self, text: &[u8], start: usize, mode: LexMode) -> Option<Normalized> {
        let flags = flags(mode);
        let known = (start == 0).then(|| self.match_template(text, flags));
        if let Some(found) = known.flatten() {
            return Some(found);
        }
        self.normalized.clear();
        self.literals.clear();
        self.normalized.push(flags);
        let (end, rest) = Pass::new(self, text, start, mode).run()?;
        let result = Normalized {
            key: xxh3_128(&self.normalized),
            end,
            rest,
        };
        if start == 0 {
            self.keep_template(text, result);
        }
        Some(result)
    }

    /// Looks for a template of the text, and moves it to the front.
    fn match_template(&mut self, text: &[u8], flags: u8) -> Option<Normalized> {
        self.matched = false;
        let literals = &mut self.literals;
        let mut templates = self.templates.iter().enumerate();
        let (at, found) = templates.find_map(|(at, template)| {
            let found = template.match_text(text, flags, literals)?;
            Some((at, found))
        })?;
        self.templates.swap(0, at);
        self.matched = true;
        Some(found)
    }

    /// Keeps the text that was just normalized as a template, if it can be one, in place of the last one.
    fn keep_template(&mut self, text: &[u8], result: Normalized) {
        if !Template::accepts(text, &self.literals) {
            return;
        }
        if self.templates.len() < MAX_TEMPLATES {
            self.templates.push(Template::empty());
        }
        self.templates.rotate_right(1);
        if let Some(first) = self.templates.first_mut() {
            first.replace(text, &self.literals, &self.normalized, result);
        }
    }
}

/// The flags of a mode as one byte.
fn flags(mode: LexMode) -> u8 {
    u8::from(mode.ansi_quotes)
        | u8::from(mode.no_backslash_escapes) << 1
        | u8::from(mode.pipes_as_concat) << 2
        | u8::from(mode.high_not_precedence) << 3
        | u8::from(mode.ignore_space) << 4
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
