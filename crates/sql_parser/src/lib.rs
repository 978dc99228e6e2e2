//! Lexer, syntax tree, parser, printer and digest of SQL statements.
//!
//! * [`lexer`] turns bytes into tokens ([`token`], [`keyword`]).
//! * [`parse_one`] turns the tokens of one statement into a tree ([`ast`]) in an arena.
//! * [`mod@print`] turns a tree into canonical text: `parse(print(parse(s))) == parse(s)`.
//! * [`digest`] normalises a text for the plan cache without parsing it.
//!
//! The crate knows neither sessions nor schemas nor types of columns. Text arrives in UTF-8;
//! string literals may hold any bytes.

#![forbid(unsafe_code)]

pub mod ast;
pub mod digest;
mod error;
pub mod keyword;
pub mod lexer;
mod parser;
pub mod print;
pub mod token;

use bumpalo::Bump;

pub use error::{ParseError, ParseErrorKind};
pub use lexer::LexMode;

use ast::{Expr, Literal, Statement};
use parser::Parser;
use token::LiteralToken;

/// Limits on the size of a statement.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Greatest height of the tree and nesting of the text.
    pub depth: u32,
    /// Greatest number of nodes: expressions, list items.
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
    /// They stay literals.
    #[default]
    Keep,
    /// Those of the list become parameters, numbered in its order: [`digest::Digest::literals`] of
    /// the same text. When one of them stands where no expression does, the parse fails with
    /// [`ParseErrorKind::NotParametric`], and the statement is to be parsed without the list.
    Params(&'a [LiteralToken]),
}

/// Options of a parse.
#[derive(Clone, Copy, Debug, Default)]
pub struct ParseOptions<'a> {
    /// Flags of sql_mode that change the reading of a text.
    pub mode: LexMode,
    /// Limits on the size of a statement.
    pub limits: Limits,
    /// Treatment of literals.
    pub literals: Literals<'a>,
}

/// A statement and what surrounds it in the text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parsed<'a> {
    /// The statement.
    pub statement: Statement<'a>,
    /// Number of its parameters.
    pub params: u32,
    /// Offset of its first byte.
    pub start: usize,
    /// Offset just past its last token, before any semicolon.
    pub end: usize,
    /// Offset behind its semicolon when more than white space and comments follows there.
    pub rest: Option<usize>,
}

/// Parses the statement of `text` that begins at offset `start`.
///
/// # Errors
/// 1064 when the text is no statement, 1065 when there is none, 1436 when it nests too deeply.
pub fn parse_one<'a>(
    arena: &'a Bump,
    text: &'a [u8],
    start: usize,
    options: &ParseOptions<'a>,
) -> Result<Parsed<'a>, ParseError> {
    Parser::new(arena, text, start, options).parse_one()
}

/// Parses a text that is one expression: defaults and checks that the catalog stores as text.
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

/// Reads a literal that the digest of `text` lists. `mode` is the one it was computed with.
///
/// # Errors
/// 1064 when `text` is not the text the literal was found in.
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
