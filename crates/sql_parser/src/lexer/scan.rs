//! Lexing of numbers, quoted text and variables.

use super::super::token::{Token, TokenKind};
use super::Lexer;
use super::class::{DIGIT, HEX, IDENT, is};

impl Lexer<'_> {
    pub(super) fn period(&mut self, start: usize, after_ident: bool) -> Token {
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

    pub(super) fn number(&mut self, start: usize) -> Token {
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

    /// Lexes the rest of a number, from its period.
    fn fraction(&mut self, start: usize, period: usize) -> Token {
        let end = self.digits_end(period + 1);
        match self.exponent_end(end) {
            Some(end) => self.token(TokenKind::Float, start, end),
            None => self.token(TokenKind::Decimal, start, end),
        }
    }

    /// The end of quoted text whose opening quote is at `open`; `None` if it is not terminated.
    pub(super) fn quoted_end(&self, open: usize, escapes: bool) -> Option<usize> {
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

    pub(super) fn quoted(&mut self, start: usize, open: usize, kind: TokenKind) -> Token {
        let escapes = !self.mode.no_backslash_escapes;
        match self.quoted_end(open, escapes) {
            Some(end) => self.token(kind, start, end),
            None => self.token(TokenKind::Invalid, start, self.text.len()),
        }
    }

    pub(super) fn quoted_ident(&mut self, start: usize) -> Token {
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

    pub(super) fn coded_string(
        &mut self,
        start: usize,
        kind: TokenKind,
        valid: impl Fn(u8) -> bool,
    ) -> Token {
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

    pub(super) fn user_var(&mut self, start: usize) -> Token {
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
}
