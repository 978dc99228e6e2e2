//! Tokens: kind and position of what the lexer returns.
//!
//! A token has no decoded value. The parser decodes the text between its offsets when it consumes
//! the token, so nothing is decoded for a statement that is rejected or only hashed.
//!
//! Invariants
//! 1. `start <= end`, and both are offsets into the text.
//! 2. `keyword` is [`Keyword::NONE`] except for an unquoted word that does not follow a name and a
//!    period.

use super::keyword::Keyword;

/// A range of bytes in the statement text, which is at most 4 GiB long.
///
/// All spans compare equal, so that `==` on syntax trees ignores positions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset just past the last byte.
    pub end: u32,
}

impl Span {
    /// The span from `start` up to `end`.
    #[must_use]
    pub const fn new(start: u32, end: u32) -> Span {
        Span { start, end }
    }

    /// The span from the start of `self` to the end of `end`.
    #[must_use]
    pub const fn to(self, end: Span) -> Span {
        Span {
            start: self.start,
            end: end.end,
        }
    }

    /// The bytes of `text` in this span; empty if it is out of range.
    #[must_use]
    pub fn slice(self, text: &[u8]) -> &[u8] {
        text.get(self.start as usize..self.end as usize)
            .unwrap_or_default()
    }
}

impl PartialEq for Span {
    fn eq(&self, _: &Span) -> bool {
        true
    }
}

impl Eq for Span {}

/// Kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TokenKind {
    /// End of the text.
    End,
    /// `;`
    Semicolon,
    /// A keyword or an unquoted identifier.
    Word,
    /// An identifier in backticks, or in double quotes under ANSI_QUOTES.
    QuotedIdent,
    /// A string in quotes.
    String,
    /// `N'...'`, text in the national character set.
    NationalString,
    /// The name of a character set before a literal, for example `_utf8mb4`.
    Introducer,
    /// `x'...'`
    HexString,
    /// `0x...`
    HexNumber,
    /// `b'...'`
    BitString,
    /// `0b...`
    BitNumber,
    /// Digits only.
    Int,
    /// Digits with a period.
    Decimal,
    /// A number with an exponent.
    Float,
    /// `?`
    Param,
    /// `@name`, also quoted.
    UserVar,
    /// `@@`
    AtAt,
    /// `\N`
    NullMark,
    /// `(`
    LeftParen,
    /// `)`
    RightParen,
    /// `{`
    LeftBrace,
    /// `}`
    RightBrace,
    /// `,`
    Comma,
    /// `.`
    Period,
    /// `:`
    Colon,
    /// `:=`
    Assign,
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `*`
    Star,
    /// `/`
    Slash,
    /// `%`
    Percent,
    /// `=`
    Eq,
    /// `<=>`
    NullSafeEq,
    /// `<>` or `!=`
    NotEq,
    /// `<`
    Less,
    /// `<=`
    LessEq,
    /// `>`
    Greater,
    /// `>=`
    GreaterEq,
    /// `<<`
    ShiftLeft,
    /// `>>`
    ShiftRight,
    /// `&`
    BitAnd,
    /// `&&`
    AndAnd,
    /// `|`
    BitOr,
    /// `||`
    OrOr,
    /// `^`
    Caret,
    /// `~`
    Tilde,
    /// `!`
    Bang,
    /// `->`
    Arrow,
    /// `->>`
    LongArrow,
    /// An invalid token: an unterminated string, or a stray byte.
    Invalid,
}

/// A token with its position.
#[derive(Clone, Copy, Debug)]
pub struct Token {
    /// Kind.
    pub kind: TokenKind,
    /// The keyword, for an unquoted word.
    pub keyword: Keyword,
    /// Offset of its first byte.
    pub start: u32,
    /// Offset just past its last byte.
    pub end: u32,
}

impl Token {
    /// The span of the token.
    #[must_use]
    pub const fn span(self) -> Span {
        Span::new(self.start, self.end)
    }

    /// Whether the token ends a statement.
    #[must_use]
    pub const fn ends_statement(self) -> bool {
        matches!(self.kind, TokenKind::End | TokenKind::Semicolon)
    }
}

/// Kind of a literal that can become a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiteralKind {
    /// A whole number up to 9223372036854775807.
    Int,
    /// The same, after LIMIT or OFFSET.
    Limit,
    /// A number with a period.
    Decimal,
    /// A number with an exponent.
    Float,
    /// A string in the connection's character set.
    String,
    /// A hexadecimal literal: a binary string.
    Hex,
}

/// A literal that can be replaced by a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiteralToken {
    /// Position in the text.
    pub span: Span,
    /// Kind of the literal.
    pub kind: LiteralKind,
}
