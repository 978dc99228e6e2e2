//! The lexer: bytes to tokens, one at a time, without allocation.
//!
//! It never fails: what is no token comes as [`TokenKind::Invalid`], and the parser reports it
//! where it stands. Comments vanish; the content of `/*!NNNNN ... */` is lexed when NNNNN is not
//! above [`VERSION`], and optimizer hints are comments.
//!
//! Invariants
//! 1. Each call moves forward or yields `End` for ever.
//! 2. Every `Word` and `QuotedIdent` is valid UTF-8 without NUL.
//!
//! Rejected: a token vector ahead of parsing; it costs memory in proportion to the text, and a
//! large INSERT is mostly tokens that are looked at once.

use super::keyword::Keyword;
use super::token::{Token, TokenKind};

/// Comments for a version above this are left out: MySQL 8.4.0.
pub const VERSION: u32 = 80_400;

/// The flags of sql_mode that change how text is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent flags of sql_mode"
)]
pub struct LexMode {
    /// ANSI_QUOTES: `"x"` is an identifier.
    pub ansi_quotes: bool,
    /// NO_BACKSLASH_ESCAPES: a backslash in a string is a backslash.
    pub no_backslash_escapes: bool,
    /// PIPES_AS_CONCAT: `||` concatenates.
    pub pipes_as_concat: bool,
    /// HIGH_NOT_PRECEDENCE: NOT binds as tight as `!`.
    pub high_not_precedence: bool,
    /// IGNORE_SPACE: space is allowed between the name of a built-in function and its parenthesis.
    pub ignore_space: bool,
}

/// Names of character sets that make an introducer. Any other word with an underscore in front is
/// an identifier.
const CHARSETS: &[&[u8]] = &[
    b"armscii8",
    b"ascii",
    b"big5",
    b"binary",
    b"cp1250",
    b"cp1251",
    b"cp1256",
    b"cp1257",
    b"cp850",
    b"cp852",
    b"cp866",
    b"cp932",
    b"dec8",
    b"eucjpms",
    b"euckr",
    b"gb18030",
    b"gb2312",
    b"gbk",
    b"geostd8",
    b"greek",
    b"hebrew",
    b"hp8",
    b"keybcs2",
    b"koi8r",
    b"koi8u",
    b"latin1",
    b"latin2",
    b"latin5",
    b"latin7",
    b"macce",
    b"macroman",
    b"sjis",
    b"swe7",
    b"tis620",
    b"ucs2",
    b"ujis",
    b"utf16",
    b"utf16le",
    b"utf32",
    b"utf8",
    b"utf8mb3",
    b"utf8mb4",
];

/// Classes of bytes.
const IDENT: u8 = 1;
const DIGIT: u8 = 2;
const SPACE: u8 = 4;
const HEX: u8 = 8;
const HIGH: u8 = 16;

#[expect(
    clippy::indexing_slicing,
    reason = "the index runs from 0 to 255 over an array of 256"
)]
const fn build_classes() -> [u8; 256] {
    let mut classes = [0_u8; 256];
    let mut i = 0;
    while i < 256 {
        let b = i as u8;
        let mut class = 0;
        if b.is_ascii_alphanumeric() || b == b'_' || b == b'$' || b >= 0x80 {
            class |= IDENT;
        }
        if b.is_ascii_digit() {
            class |= DIGIT;
        }
        if matches!(b, b' ' | b'\t' | b'\n' | b'\r' | 0x0B | 0x0C) {
            class |= SPACE;
        }
        if b.is_ascii_hexdigit() {
            class |= HEX;
        }
        if b >= 0x80 {
            class |= HIGH;
        }
        classes[i] = class;
        i += 1;
    }
    classes
}

static CLASSES: [u8; 256] = build_classes();

#[inline]
#[expect(clippy::indexing_slicing, reason = "a byte indexes an array of 256")]
fn is(byte: u8, class: u8) -> bool {
    CLASSES[byte as usize] & class != 0
}

/// The lexer over one text.
#[derive(Clone, Debug)]
pub struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    mode: LexMode,
    /// Inside `/*! ... */`.
    in_comment: bool,
    /// The next token follows an identifier and a period directly, so it is an identifier too.
    after_period: bool,
    /// The last token was an identifier that ends where the lexer stands.
    after_ident: bool,
}

impl<'a> Lexer<'a> {
    /// A lexer over `text` from offset `start`. Text beyond 4 GiB is not looked at.
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
        }
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

    /// True if the byte at the lexer's place is `(`: a call, when the last token was a name.
    #[inline]
    #[must_use]
    pub fn at_paren(&self) -> bool {
        self.peek(0) == b'('
    }

    /// The next token.
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

    /// Skips white space and comments; false at a comment that does not end.
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

    /// At `/*`. None: it does not end.
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
            if version <= VERSION {
                self.in_comment = true;
                self.at = at + digits;
                return Some(());
            }
            // A comment inside a comment that is left out goes with it.
            self.at = self.comment_end(at, true)?;
            return Some(());
        }
        self.at = self.comment_end(at, false)?;
        Some(())
    }

    /// Offset behind `*/`, looked for from `at`.
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

    /// A word that is not looked up.
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

    fn period(&mut self, start: usize, after_ident: bool) -> Token {
        let next = self.byte_at(start + 1);
        if after_ident {
            self.after_period = is(next, IDENT);
            return self.token(TokenKind::Period, start, start + 1);
        }
        if is(next, DIGIT) {
            return self.fraction(start, start);
        }
        self.token(TokenKind::Period, start, start + 1)
    }

    fn digits_end(&self, start: usize) -> usize {
        let rest = self.text.get(start..).unwrap_or_default();
        start
            + rest
                .iter()
                .position(|&b| !is(b, DIGIT))
                .unwrap_or(rest.len())
    }

    /// The end of an exponent that starts at `at`, if there is one.
    fn exponent_end(&self, at: usize) -> Option<usize> {
        if !matches!(self.byte_at(at), b'e' | b'E') {
            return None;
        }
        let sign = usize::from(matches!(self.byte_at(at + 1), b'+' | b'-'));
        let digits = at + 1 + sign;
        is(self.byte_at(digits), DIGIT).then(|| self.digits_end(digits))
    }

    fn number(&mut self, start: usize) -> Token {
        let second = self.byte_at(start + 1);
        if self.byte_at(start) == b'0' && matches!(second, b'x' | b'b') {
            let end = self.ident_end(start + 2);
            let digits = self.text.get(start + 2..end).unwrap_or_default();
            let hex = second == b'x';
            let valid = |&b: &u8| {
                if hex {
                    is(b, HEX)
                } else {
                    b == b'0' || b == b'1'
                }
            };
            if !digits.is_empty() && digits.iter().all(valid) {
                let kind = if hex {
                    TokenKind::HexNumber
                } else {
                    TokenKind::BitNumber
                };
                return self.token(kind, start, end);
            }
        }
        let end = self.digits_end(start);
        match self.byte_at(end) {
            b'.' => self.fraction(start, end),
            byte if is(byte, IDENT) => {
                if let Some(end) = self.exponent_end(end) {
                    return self.token(TokenKind::Float, start, end);
                }
                let end = self.ident_end(end);
                self.after_ident = true;
                self.plain_ident(start, end)
            }
            _ => self.token(TokenKind::Int, start, end),
        }
    }

    /// At the period of a number.
    fn fraction(&mut self, start: usize, period: usize) -> Token {
        let end = self.digits_end(period + 1);
        match self.exponent_end(end) {
            Some(end) => self.token(TokenKind::Float, start, end),
            None => self.token(TokenKind::Decimal, start, end),
        }
    }

    /// The end of a quoted run whose opening quote is at `open`, and whether it has one.
    fn quoted_end(&self, open: usize, escapes: bool) -> Option<usize> {
        let quote = self.byte_at(open);
        let mut at = open + 1;
        loop {
            let rest = self.text.get(at..)?;
            let n = if escapes {
                memchr::memchr2(quote, b'\\', rest)?
            } else {
                memchr::memchr(quote, rest)?
            };
            at += n + 1;
            let escaped = rest.get(n) == Some(&b'\\');
            if escaped || self.text.get(at) == Some(&quote) {
                at += 1;
            } else {
                return Some(at);
            }
        }
    }

    fn quoted(&mut self, start: usize, open: usize, kind: TokenKind) -> Token {
        let escapes = !self.mode.no_backslash_escapes;
        match self.quoted_end(open, escapes) {
            Some(end) => self.token(kind, start, end),
            None => self.token(TokenKind::Invalid, start, self.text.len()),
        }
    }

    fn quoted_ident(&mut self, start: usize) -> Token {
        let Some(end) = self.quoted_end(start, false) else {
            return self.token(TokenKind::Invalid, start, self.text.len());
        };
        let inner = self.text.get(start + 1..end - 1).unwrap_or_default();
        let valid = !inner.is_empty()
            && memchr::memchr(0, inner).is_none()
            && (inner.is_ascii() || std::str::from_utf8(inner).is_ok());
        self.after_ident = valid;
        self.token(
            if valid {
                TokenKind::QuotedIdent
            } else {
                TokenKind::Invalid
            },
            start,
            end,
        )
    }

    fn coded_string(&mut self, start: usize, kind: TokenKind, valid: impl Fn(u8) -> bool) -> Token {
        let rest = self.text.get(start + 2..).unwrap_or_default();
        let digits = rest.iter().position(|&b| !valid(b)).unwrap_or(rest.len());
        let end = start + 2 + digits;
        let even = kind != TokenKind::HexString || digits % 2 == 0;
        if rest.get(digits) == Some(&b'\'') && even {
            self.token(kind, start, end + 1)
        } else {
            self.token(TokenKind::Invalid, start, end)
        }
    }

    fn user_var(&mut self, start: usize) -> Token {
        match self.peek(1) {
            b'@' => self.token(TokenKind::AtAt, start, start + 2),
            b'`' => match self.quoted_end(start + 1, false) {
                Some(end) => self.token(TokenKind::UserVar, start, end),
                None => self.token(TokenKind::Invalid, start, self.text.len()),
            },
            b'\'' | b'"' => self.quoted(start, start + 1, TokenKind::UserVar),
            _ => {
                let rest = self.text.get(start + 1..).unwrap_or_default();
                let length = rest
                    .iter()
                    .position(|&b| !is(b, IDENT) && b != b'.')
                    .unwrap_or(rest.len());
                self.token(TokenKind::UserVar, start, start + 1 + length)
            }
        }
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

fn is_charset(name: &[u8]) -> bool {
    CHARSETS
        .iter()
        .any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use TokenKind as K;

    fn lex(text: &str, mode: LexMode) -> Vec<(TokenKind, String)> {
        let mut lexer = Lexer::new(text.as_bytes(), 0, mode);
        let mut out = Vec::new();
        loop {
            let token = lexer.next_token();
            if token.kind == K::End {
                return out;
            }
            out.push((
                token.kind,
                String::from_utf8_lossy(token.span().slice(text.as_bytes())).into_owned(),
            ));
        }
    }

    fn kinds(text: &str) -> Vec<TokenKind> {
        lex(text, LexMode::default())
            .into_iter()
            .map(|(kind, _)| kind)
            .collect()
    }

    #[test]
    fn numbers_and_names_that_look_like_them() {
        assert_eq!(
            kinds("1 1.5 .5 1. 1e3 1.5E-3 1a 1e 0x1F 0xg 0b01 0b2"),
            [
                K::Int,
                K::Decimal,
                K::Decimal,
                K::Decimal,
                K::Float,
                K::Float,
                K::Word,
                K::Word,
                K::HexNumber,
                K::Word,
                K::BitNumber,
                K::Word
            ]
        );
        assert_eq!(
            kinds("t.1a t.5 t .5"),
            [
                K::Word,
                K::Period,
                K::Word,
                K::Word,
                K::Period,
                K::Word,
                K::Word,
                K::Decimal
            ]
        );
        assert_eq!(
            kinds("x'4D' b'01' n'x' _utf8mb4'x' _nocharset"),
            [
                K::HexString,
                K::BitString,
                K::NationalString,
                K::Introducer,
                K::String,
                K::Word
            ]
        );
        assert_eq!(kinds("x'4'")[0], K::Invalid);
    }

    #[test]
    fn comments() {
        assert_eq!(
            kinds("1 -- x\n2 # y\n/* z */3 --4"),
            [K::Int, K::Int, K::Int, K::Minus, K::Minus, K::Int]
        );
        assert_eq!(
            kinds("/*!40101 1 */ /*!99999 2 /* x */ 3 */ /*! 4*/ /*+ h */"),
            [K::Int, K::Int]
        );
        assert_eq!(kinds("/*!080400 1 */ /*!080401 2 */"), [K::Int]);
        assert_eq!(kinds("1 /* x"), [K::Int, K::Invalid]);
        assert_eq!(kinds("1 /*! 2"), [K::Int, K::Int, K::Invalid]);
    }

    #[test]
    fn quotes() {
        let default = LexMode::default();
        let text = r#"'a''b' 'a\'b' "x" `y``z` @a.b @'q' @@g"#;
        assert_eq!(
            lex(text, default)
                .iter()
                .map(|t| t.1.as_str())
                .collect::<Vec<_>>(),
            [
                "'a''b'", r"'a\'b'", "\"x\"", "`y``z`", "@a.b", "@'q'", "@@", "g"
            ]
        );
        let ansi = LexMode {
            ansi_quotes: true,
            no_backslash_escapes: true,
            ..default
        };
        assert_eq!(
            lex(r#"'a\' "x""#, ansi),
            [
                (K::String, r"'a\'".into()),
                (K::QuotedIdent, "\"x\"".into())
            ]
        );
        assert_eq!(kinds("'abc"), [K::Invalid]);
        assert_eq!(kinds("``"), [K::Invalid]);
    }

    #[test]
    fn operators() {
        assert_eq!(
            kinds("<=> <= <> != << >> >= && || := -> ->> \\N"),
            [
                K::NullSafeEq,
                K::LessEq,
                K::NotEq,
                K::NotEq,
                K::ShiftLeft,
                K::ShiftRight,
                K::GreaterEq,
                K::AndAnd,
                K::OrOr,
                K::Assign,
                K::Arrow,
                K::LongArrow,
                K::NullMark
            ]
        );
    }

    #[test]
    fn keywords_after_a_period_are_names() {
        let mut lexer = Lexer::new(b"t.select", 0, LexMode::default());
        lexer.next_token();
        lexer.next_token();
        assert_eq!(lexer.next_token().keyword, Keyword::NONE);
    }
}
