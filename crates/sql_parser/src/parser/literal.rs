//! Decoding of literals.

use bumpalo::collections::Vec as BumpVec;
use porpoise_base::escapes::unescape;

use super::super::ast::{Expr, ExprKind, IntroducedString, Literal};
use super::super::deprecated::Deprecation;
use super::super::token::{Span, Token, TokenKind as K};
use super::{PResult, Parser};

impl<'a> Parser<'a> {
    /// True if the current token begins a literal that is not a keyword.
    pub(super) fn is_literal(&self) -> bool {
        matches!(
            self.token.kind,
            K::String
                | K::NationalString
                | K::Introducer
                | K::HexString
                | K::HexNumber
                | K::BitString
                | K::BitNumber
                | K::Int
                | K::Decimal
                | K::Float
                | K::NullMark
        )
    }

    /// A literal as an expression, or the parameter that replaces it.
    pub(super) fn literal_expr(&mut self) -> PResult<Expr<'a>> {
        let token = self.token;
        if let Some(list) = self.literals
            && let Some(next) = list.get(self.params as usize)
            && next.span.start == token.start
        {
            let index = self.params;
            self.params += 1;
            self.advance();
            return Ok(Expr {
                kind: ExprKind::Param(index),
                span: token.span(),
            });
        }
        let literal = self.literal()?;
        Ok(Expr {
            kind: ExprKind::Literal(literal),
            span: Span::new(token.start, self.last_end),
        })
    }

    /// Parses the literal at the current token.
    pub(crate) fn parse_literal(&mut self) -> PResult<Literal<'a>> {
        self.literal()
    }

    /// A literal other than the keywords TRUE, FALSE, NULL, DATE and so on.
    pub(super) fn literal(&mut self) -> PResult<Literal<'a>> {
        let token = self.token;
        let literal = match token.kind {
            K::String => return self.string().map(Literal::String),
            K::NationalString => {
                self.note_deprecated(Deprecation::National);
                let bytes = self.string()?;
                return Ok(Literal::Introduced(self.alloc(IntroducedString {
                    charset: "utf8mb3",
                    bytes,
                })));
            }
            K::Introducer => return self.introduced(),
            K::HexString | K::HexNumber => Literal::Hex(self.decode_hex(token)),
            K::BitString | K::BitNumber => Literal::Bit(self.decode_bits(token)),
            K::Int => self.decode_int(token)?,
            K::Decimal => Literal::Decimal(self.str_of(token.span())?),
            K::Float => Literal::Float(self.str_of(token.span())?),
            K::NullMark => Literal::Null,
            _ => return self.error(),
        };
        self.advance();
        Ok(literal)
    }

    fn introduced(&mut self) -> PResult<Literal<'a>> {
        let token = self.advance();
        let name = self.str_of(Span::new(token.start + 1, token.end))?;
        let charset = if name.bytes().any(|b| b.is_ascii_uppercase()) {
            self.arena.alloc_str(&name.to_ascii_lowercase())
        } else {
            name
        };
        self.note_charset(charset);
        let bytes = if self.is(K::String) {
            self.string()?
        } else {
            self.binary_literal()?
        };
        Ok(Literal::Introduced(
            self.alloc(IntroducedString { charset, bytes }),
        ))
    }

    /// The bytes of a hexadecimal or bit literal.
    pub(super) fn binary_literal(&mut self) -> PResult<&'a [u8]> {
        let literal = self.token;
        let bytes = match literal.kind {
            K::HexString | K::HexNumber => self.decode_hex(literal),
            K::BitString | K::BitNumber => self.decode_bits(literal),
            _ => return self.error(),
        };
        self.advance();
        Ok(bytes)
    }

    /// One or more string tokens, joined.
    pub(super) fn string(&mut self) -> PResult<&'a [u8]> {
        if !matches!(self.token.kind, K::String | K::NationalString) {
            return self.error();
        }
        let token = self.advance();
        let first = self.decode_string(token);
        if !self.is(K::String) {
            return Ok(first);
        }
        let mut joined = BumpVec::new_in(self.arena);
        joined.extend_from_slice(first);
        while self.is(K::String) {
            let token = self.advance();
            joined.extend_from_slice(self.decode_string(token));
        }
        Ok(joined.into_bump_slice())
    }

    /// A whole number.
    pub(super) fn uint(&mut self) -> PResult<u64> {
        let token = self.token;
        let value = match token.kind {
            K::Int => match self.decode_int(token)? {
                Literal::Int(value) => value,
                _ => return self.error(),
            },
            K::HexNumber => {
                let bytes = self.decode_hex(token);
                if bytes.len() > 8 {
                    return self.error();
                }
                bytes
                    .iter()
                    .fold(0, |value, &byte| value << 8 | u64::from(byte))
            }
            _ => return self.error(),
        };
        self.advance();
        Ok(value)
    }

    /// The number of a table or index option. As in MySQL, only the digits before a period or an
    /// exponent count.
    pub(super) fn option_number(&mut self) -> PResult<u64> {
        if !matches!(self.token.kind, K::Decimal | K::Float) {
            return self.uint();
        }
        let text = self.str_of(self.token.span())?;
        let end = text.find(|c: char| !c.is_ascii_digit());
        let digits = text.get(..end.unwrap_or(text.len())).unwrap_or_default();
        let value = match digits {
            "" => 0,
            digits => digits.parse().or_else(|_| self.error())?,
        };
        self.advance();
        Ok(value)
    }

    fn decode_int(&self, token: Token) -> PResult<Literal<'a>> {
        let text = self.str_of(token.span())?;
        Ok(match text.parse::<u64>() {
            Ok(value) => Literal::Int(value),
            Err(_) => Literal::Decimal(text),
        })
    }

    /// The digits of `x'..'`, `0x..`, `b'..'`, `0b..`.
    fn digits(&self, token: Token) -> &'a [u8] {
        let text = self
            .text
            .get(token.start as usize..token.end as usize)
            .unwrap_or_default();
        let end = match token.kind {
            K::HexString | K::BitString => text.len().saturating_sub(1),
            _ => text.len(),
        };
        text.get(2..end).unwrap_or_default()
    }

    pub(super) fn decode_hex(&self, token: Token) -> &'a [u8] {
        let digits = self.digits(token);
        let value = |digit: u8| (digit as char).to_digit(16).unwrap_or(0) as u8;
        let mut bytes = BumpVec::with_capacity_in(digits.len().div_ceil(2), self.arena);
        let (odd, pairs) = digits.split_at(digits.len() % 2);
        bytes.extend(odd.iter().map(|&digit| value(digit)));
        bytes.extend(
            pairs
                .chunks_exact(2)
                .map(|pair| pair.iter().fold(0, |byte, &digit| byte << 4 | value(digit))),
        );
        bytes.into_bump_slice()
    }

    fn decode_bits(&self, token: Token) -> &'a [u8] {
        let digits = self.digits(token);
        let mut bytes = BumpVec::with_capacity_in(digits.len().div_ceil(8), self.arena);
        let (odd, bytes_of_digits) = digits.split_at(digits.len() % 8);
        let value = |digits: &[u8]| {
            digits
                .iter()
                .fold(0_u8, |byte, &digit| byte << 1 | (digit & 1))
        };
        if !odd.is_empty() {
            bytes.push(value(odd));
        }
        bytes.extend(bytes_of_digits.chunks_exact(8).map(value));
        bytes.into_bump_slice()
    }

    /// The bytes of one string token, `N'..'` included.
    pub(super) fn decode_string(&self, token: Token) -> &'a [u8] {
        let skip = u32::from(token.kind == K::NationalString);
        self.unquote(Span::new(token.start + skip, token.end))
    }

    /// Decodes the bytes between quotes. In backticks the only escape is the doubled quote.
    pub(super) fn unquote(&self, span: Span) -> &'a [u8] {
        let text = self
            .text
            .get(span.start as usize..span.end as usize)
            .unwrap_or_default();
        let [quote, inner @ .., _] = text else {
            return &[];
        };
        let escapes = *quote != b'`' && !self.mode.no_backslash_escapes;
        let special = if escapes {
            memchr::memchr2(*quote, b'\\', inner)
        } else {
            memchr::memchr(*quote, inner)
        };
        let Some(special) = special else { return inner };
        let mut out = BumpVec::with_capacity_in(inner.len(), self.arena);
        let (head, tail) = inner.split_at(special);
        out.extend_from_slice(head);
        let mut bytes = tail.iter().copied();
        while let Some(byte) = bytes.next() {
            if byte == *quote {
                bytes.next();
                out.push(byte);
            } else if escapes && byte == b'\\' {
                push_unescaped(bytes.next(), &mut out);
            } else {
                out.push(byte);
            }
        }
        out.into_bump_slice()
    }
}

/// Appends the byte that a backslash and `byte` stand for.
fn push_unescaped(byte: Option<u8>, out: &mut BumpVec<'_, u8>) {
    match byte {
        // Kept with the backslash, for LIKE.
        Some(byte @ (b'%' | b'_')) => out.extend_from_slice(&[b'\\', byte]),
        Some(byte) => out.push(unescape(byte)),
        None => {}
    }
}
