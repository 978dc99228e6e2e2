//! The lexer: converts bytes to tokens, one at a time, without allocation.
//!
//! It never fails: an invalid token is returned as [`TokenKind::Invalid`], and the parser reports
//! it at its position. Comments are skipped; the content of `/*!NNNNN ... */` is lexed if NNNNN is
//! at most [`VERSION`], and optimizer hints are comments.
//!
//! Invariants
//! 1. Each call advances, or returns `End` for ever.
//! 2. Every `Word` and `QuotedIdent` is valid UTF-8 without NUL.
//!
//! Rejected: a vector of all tokens before parsing. Its memory is proportional to the text, and a
//! large INSERT consists mostly of tokens that are used once.

mod class;
mod scan;

use super::keyword::Keyword;
use super::token::{Token, TokenKind};
use class::{DIGIT, HEX, IDENT, SPACE, is, is_charset};

/// Version comments above this version are skipped: MySQL 8.4.0.
pub const VERSION: u32 = 80_400;

/// Comments for this version, which every MySQL skips, are lexed if they begin with a keyword of
/// this server's own grammar.
const PORPOISE_COMMENT_VERSION: u32 = 99_999;

/// Start, after `/*`, of the comments in which TiDB prints TTL clauses. The content is lexed as
/// SQL.
const TIDB_TTL_COMMENT: &[u8] = b"T![ttl]";

/// The flags of sql_mode that affect lexing and parsing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent flags of sql_mode"
)]
pub struct LexMode {
    /// ANSI_QUOTES: `"x"` is an identifier.
    pub ansi_quotes: bool,
    /// NO_BACKSLASH_ESCAPES: a backslash in a string is literal.
    pub no_backslash_escapes: bool,
    /// PIPES_AS_CONCAT: `||` concatenates.
    pub pipes_as_concat: bool,
    /// HIGH_NOT_PRECEDENCE: NOT binds as tightly as `!`.
    pub high_not_precedence: bool,
    /// IGNORE_SPACE: space is allowed between the name of a built-in function and its parenthesis.
    pub ignore_space: bool,
}

/// The lexer over one text.
#[derive(Clone, Debug)]
pub struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    mode: LexMode,
    /// Whether the lexer is inside `/*! ... */`.
    in_comment: bool,
    /// Whether the next token directly follows an identifier and a period, and so is an identifier.
    after_period: bool,
    /// Whether the last token was an identifier that ends at the current position.
    after_ident: bool,
    /// Whether an optimizer hint was skipped.
    has_hints: bool,
}

impl<'a> Lexer<'a> {
    /// Creates a lexer over `text` from offset `start`. Text beyond 4 GiB is ignored.
    #[must_use]
    pub fn new(text: &'a [u8], start: usize, mode: LexMode) -> Lexer<'a> {
        let text = text
            .get(..text.len().min(u32::MAX as usize - 1))
            .unwrap_or_default();
        Lexer {
            text,
            at: start,
            mode,
            in_comment: false,
            after_period: false,
            after_ident: false,
            has_hints: false,
        }
    }

    /// Whether an optimizer hint was skipped.
    #[must_use]
    pub fn has_hints(&self) -> bool {
        self.has_hints
    }

    #[inline]
    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    #[inline]
    fn byte_at(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(0)
    }

    #[inline]
    fn token(&mut self, kind: TokenKind, start: usize, end: usize) -> Token {
        self.at = end;
        Token {
            kind,
            keyword: Keyword::NONE,
            start: start as u32,
            end: end as u32,
        }
    }

    /// Whether the current byte is `(`: after a name this is a call.
    #[inline]
    #[must_use]
    pub fn at_paren(&self) -> bool {
        self.peek(0) == b'('
    }

    /// Returns the next token.
    #[inline]
    pub fn next_token(&mut self) -> Token {
        let after_ident = std::mem::take(&mut self.after_ident);
        if std::mem::take(&mut self.after_period) {
            return self.ident_after_period();
        }
        let before = self.at;
        if !self.skip_space() {
            self.in_comment = false;
            let end = self.text.len();
            return self.token(TokenKind::Invalid, self.at.min(end), end);
        }
        let start = self.at;
        let Some(&byte) = self.text.get(start) else {
            return self.token(TokenKind::End, start.min(self.text.len()), self.text.len());
        };
        if is(byte, DIGIT) {
            return self.number(start);
        }
        if is(byte, IDENT) {
            return self.word(start, byte);
        }
        if byte == b'.' {
            return self.period(start, after_ident && before == start);
        }
        self.symbol(start, byte)
    }

    /// Skips white space and comments. Returns false at an unterminated comment.
    #[inline]
    fn skip_space(&mut self) -> bool {
        loop {
            let Some(&byte) = self.text.get(self.at) else {
                return !self.in_comment;
            };
            if is(byte, SPACE) {
                self.at += 1;
                continue;
            }
            let skipped = match byte {
                b'#' => self.skip_line(),
                b'-' if self.peek(1) == b'-' && self.ends_dashes() => self.skip_line(),
                b'/' if self.peek(1) == b'*' => match self.skip_comment() {
                    Some(()) => true,
                    None => return false,
                },
                b'*' if self.in_comment && self.peek(1) == b'/' => {
                    self.at += 2;
                    self.in_comment = false;
                    true
                }
                _ => false,
            };
            if !skipped {
                return true;
            }
        }
    }

    /// `--` opens a comment only before white space, a control character or the end.
    fn ends_dashes(&self) -> bool {
        self.text
            .get(self.at + 2)
            .is_none_or(|&b| is(b, SPACE) || b < 0x20 || b == 0x7F)
    }

    fn skip_line(&mut self) -> bool {
        let rest = self.text.get(self.at..).unwrap_or_default();
        self.at += memchr::memchr(b'\n', rest).map_or(rest.len(), |n| n + 1);
        true
    }

    /// Skips the comment at `/*`. Returns `None` if it is not terminated.
    fn skip_comment(&mut self) -> Option<()> {
        let mut at = self.at + 2;
        if self.byte_at(at) == b'!' && !self.in_comment {
            at += 1;
            let digits = (0..6)
                .take_while(|&n| is(self.byte_at(at + n), DIGIT))
                .count();
            let digits = if digits < 5 { 0 } else { digits };
            let version =
                (0..digits).fold(0, |v, n| v * 10 + u32::from(self.byte_at(at + n) - b'0'));
            if version <= VERSION
                || (version == PORPOISE_COMMENT_VERSION && self.is_porpoise_comment(at + digits))
            {
                self.in_comment = true;
                self.at = at + digits;
                return Some(());
            }
            // A comment nested in a skipped comment is skipped with it.
            self.at = self.comment_end(at, true)?;
            return Some(());
        }
        if !self.in_comment
            && self
                .text
                .get(at..)
                .is_some_and(|t| t.starts_with(TIDB_TTL_COMMENT))
        {
            self.in_comment = true;
            self.at = at + TIDB_TTL_COMMENT.len();
            return Some(());
        }
        self.has_hints |= self.byte_at(at) == b'+';
        self.at = self.comment_end(at, false)?;
        Some(())
    }

    /// Whether the comment contains one of this server's own clauses.
    fn is_porpoise_comment(&self, at: usize) -> bool {
        const WORD: &[u8] = b"COLOCATE";
        let mut start = at;
        while matches!(self.byte_at(start), b' ' | b'\t' | b'\r' | b'\n') {
            start += 1;
        }
        (start..)
            .zip(WORD)
            .all(|(n, b)| self.byte_at(n).eq_ignore_ascii_case(b))
    }

    /// Searches for `*/` from `at`. Returns the offset after it.
    fn comment_end(&self, mut at: usize, nested: bool) -> Option<usize> {
        loop {
            let rest = self.text.get(at..)?;
            let n = memchr::memchr2(b'*', b'/', rest)?;
            at += n + 1;
            match (rest.get(n).copied(), self.byte_at(at)) {
                (Some(b'*'), b'/') => return Some(at + 1),
                (Some(b'/'), b'*') if nested => at = self.comment_end(at + 1, false)?,
                _ => {}
            }
        }
    }

    fn ident_end(&self, start: usize) -> usize {
        let rest = self.text.get(start..).unwrap_or_default();
        start
            + rest
                .iter()
                .position(|&b| !is(b, IDENT))
                .unwrap_or(rest.len())
    }

    fn ident_after_period(&mut self) -> Token {
        let start = self.at;
        let end = self.ident_end(start);
        self.after_ident = true;
        self.plain_ident(start, end)
    }

    /// A word without keyword lookup.
    fn plain_ident(&mut self, start: usize, end: usize) -> Token {
        let text = self.text.get(start..end).unwrap_or_default();
        let valid = text.is_ascii() || std::str::from_utf8(text).is_ok();
        self.token(
            if valid {
                TokenKind::Word
            } else {
                TokenKind::Invalid
            },
            start,
            end,
        )
    }

    fn word(&mut self, start: usize, first: u8) -> Token {
        if self.peek(1) == b'\'' {
            match first {
                b'x' | b'X' => {
                    return self.coded_string(start, TokenKind::HexString, |b| is(b, HEX));
                }
                b'b' | b'B' => {
                    return self
                        .coded_string(start, TokenKind::BitString, |b| b == b'0' || b == b'1');
                }
                b'n' | b'N' => return self.quoted(start, start + 1, TokenKind::NationalString),
                _ => {}
            }
        }
        let end = self.ident_end(start);
        let text = self.text.get(start..end).unwrap_or_default();
        if first == b'_' && is_charset(text.get(1..).unwrap_or_default()) {
            return self.token(TokenKind::Introducer, start, end);
        }
        self.after_ident = true;
        let keyword = Keyword::of(text);
        if keyword == Keyword::NONE {
            return self.plain_ident(start, end);
        }
        let mut token = self.token(TokenKind::Word, start, end);
        token.keyword = keyword;
        token
    }

    fn symbol(&mut self, start: usize, byte: u8) -> Token {
        use TokenKind as K;
        let second = self.peek(1);
        let third = self.peek(2);
        let (kind, length) = match byte {
            b'\'' => return self.quoted(start, start, K::String),
            b'"' if self.mode.ansi_quotes => return self.quoted_ident(start),
            b'"' => return self.quoted(start, start, K::String),
            b'`' => return self.quoted_ident(start),
            b'@' => return self.user_var(start),
            b'(' => (K::LeftParen, 1),
            b')' => (K::RightParen, 1),
            b',' => (K::Comma, 1),
            b';' => (K::Semicolon, 1),
            b'=' => (K::Eq, 1),
            b'*' => (K::Star, 1),
            b'+' => (K::Plus, 1),
            b'-' if second == b'>' && third == b'>' => (K::LongArrow, 3),
            b'-' if second == b'>' => (K::Arrow, 2),
            b'-' => (K::Minus, 1),
            b'/' => (K::Slash, 1),
            b'%' => (K::Percent, 1),
            b'<' => match (second, third) {
                (b'=', b'>') => (K::NullSafeEq, 3),
                (b'=', _) => (K::LessEq, 2),
                (b'>', _) => (K::NotEq, 2),
                (b'<', _) => (K::ShiftLeft, 2),
                _ => (K::Less, 1),
            },
            b'>' => match second {
                b'=' => (K::GreaterEq, 2),
                b'>' => (K::ShiftRight, 2),
                _ => (K::Greater, 1),
            },
            b'!' if second == b'=' => (K::NotEq, 2),
            b'!' => (K::Bang, 1),
            b'&' if second == b'&' => (K::AndAnd, 2),
            b'&' => (K::BitAnd, 1),
            b'|' if second == b'|' => (K::OrOr, 2),
            b'|' => (K::BitOr, 1),
            b'^' => (K::Caret, 1),
            b'~' => (K::Tilde, 1),
            b':' if second == b'=' => (K::Assign, 2),
            b':' => (K::Colon, 1),
            b'?' => (K::Param, 1),
            b'{' => (K::LeftBrace, 1),
            b'}' => (K::RightBrace, 1),
            b'\\' if second == b'N' => (K::NullMark, 2),
            _ => (K::Invalid, 1),
        };
        self.token(kind, start, start + length)
    }
}
