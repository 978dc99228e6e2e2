//! Lexer, syntax tree, parser, printer and digest of SQL statements.
//!
//! * [`lexer`] turns bytes into tokens ([`token`], [`keyword`]).
//! * [`parse_one`] turns the tokens of one statement into a tree ([`ast`]) in an arena.
//! * [`mod@print`] turns a tree into canonical text: `parse(print(parse(s))) == parse(s)`.
//! * [`digest`] normalises a text for the plan cache without parsing it.
//!
//! The crate knows nothing of sessions, schemas or column types. Text is in UTF-8; string literals
//! may contain any bytes.

#![forbid(unsafe_code)]

pub mod ast;
mod deprecated;
pub mod digest;
mod error;
pub mod keyword;
pub mod lexer;
mod parser;
pub mod print;
pub mod token;

use bumpalo::Bump;

pub use deprecated::Deprecation;
pub use error::{ParseError, ParseErrorKind};
pub use lexer::LexMode;

use ast::{Expr, Literal, Statement};
use parser::Parser;
use token::LiteralToken;

/// Limits on the size of a statement.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum height of the tree and nesting of the text.
    pub depth: u32,
    /// Maximum number of nodes (expressions and list items).
    pub nodes: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            depth: 1_000,
            nodes: 50_000_000,
        }
    }
}

/// Treatment of literals.
#[derive(Clone, Copy, Debug, Default)]
pub enum Literals<'a> {
    /// Literals are kept.
    #[default]
    Keep,
    /// The literals of the list become parameters, numbered in its order:
    /// [`digest::Digest::literals`] of the same text. If one of them is where no expression is
    /// allowed, the parse fails with [`ParseErrorKind::NotParametric`], and the statement must be
    /// parsed without the list.
    Params(&'a [LiteralToken]),
    /// The names of variables at these places become parameters: a statement or an expression of a
    /// stored program ([`ast::VariableUse`]).
    Variables(&'a [token::Span]),
}

/// Options of a parse.
#[derive(Clone, Copy, Debug, Default)]
pub struct ParseOptions<'a> {
    /// Flags of sql_mode that affect parsing.
    pub mode: LexMode,
    /// Limits on the size of a statement.
    pub limits: Limits,
    /// Treatment of literals.
    pub literals: Literals<'a>,
}

/// A statement with its position in the text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parsed<'a> {
    /// The statement.
    pub statement: Statement<'a>,
    /// Number of parameters.
    pub params: u32,
    /// Offset of its first byte.
    pub start: usize,
    /// Offset just past its last token, before any semicolon.
    pub end: usize,
    /// Offset after the semicolon, if more than white space and comments follows.
    pub rest: Option<usize>,
    /// The deprecated syntax that it uses.
    pub deprecated: &'a [Deprecation<'a>],
}

/// Parses the statement of `text` that begins at offset `start`.
///
/// # Errors
/// 1064 for a syntax error, 1065 for an empty text, 1436 if it nests too deeply.
pub fn parse_one<'a>(
    arena: &'a Bump,
    text: &'a [u8],
    start: usize,
    options: &ParseOptions<'a>,
) -> Result<Parsed<'a>, ParseError> {
    Parser::new(arena, text, start, options).parse_one()
}

/// Parses a text that is a single expression: defaults and checks stored in the catalog.
///
/// # Errors
/// As [`parse_one`].
pub fn parse_expr<'a>(
    arena: &'a Bump,
    text: &'a [u8],
    options: &ParseOptions<'a>,
) -> Result<Expr<'a>, ParseError> {
    Parser::new(arena, text, 0, options).parse_whole_expr()
}

/// Parses a literal listed in the digest of `text`, which was computed with `mode`.
///
/// # Errors
/// 1064 if `text` is not the text that contains the literal.
pub fn parse_literal<'a>(
    arena: &'a Bump,
    text: &'a [u8],
    literal: &LiteralToken,
    mode: LexMode,
) -> Result<Literal<'a>, ParseError> {
    let options = ParseOptions {
        mode,
        ..ParseOptions::default()
    };
    Parser::new(arena, text, literal.span.start as usize, &options).parse_literal()
}
