//! The normalization pass over the tokens.

use super::super::keyword::Keyword as Kw;
use super::super::lexer::{LexMode, Lexer};
use super::super::token::{Token, TokenKind as K};
use super::{Digest, LiteralKind, LiteralToken};

/// Tags of the normalized form that are not token kinds. Kinds are below 64.
mod tag {
    pub const KEYWORD: u8 = 64;
    pub const KEYWORD_CALL: u8 = 65;
    pub const CALL: u8 = 66;
    pub const VERBATIM: u8 = 67;
    pub const LITERAL: u8 = 68;
    pub const HINT: u8 = 69;
}

/// A region in which literals stay in the text.
#[derive(Clone, Copy)]
struct Verbatim {
    /// The region ends when the depth falls below this.
    depth: u32,
    /// Whether the region is a clause, which the next clause ends, too.
    clause: bool,
}

pub(super) struct Pass<'d, 't> {
    out: &'d mut Digest,
    text: &'t [u8],
    lexer: Lexer<'t>,
    depth: u32,
    /// The current select list: its start and its depth.
    raw: Option<(u32, u32)>,
    verbatim: Option<Verbatim>,
    /// Whether the pass is inside a LIMIT clause.
    limit: bool,
    last: Token,
    end: usize,
}

impl<'d, 't> Pass<'d, 't> {
    /// Creates the pass over the statement of `text` that begins at `start`.
    pub(super) fn new(out: &'d mut Digest, text: &'t [u8], start: usize, mode: LexMode) -> Self {
        Pass {
            out,
            text,
            lexer: Lexer::new(text, start, mode),
            depth: 0,
            raw: None,
            verbatim: None,
            limit: false,
            last: Token {
                kind: K::End,
                keyword: Kw::NONE,
                start: 0,
                end: 0,
            },
            end: start,
        }
    }

    /// Returns the end of the statement and the start of the next one.
    pub(super) fn run(&mut self) -> Option<(usize, Option<usize>)> {
        let first = self.lexer.next_token();
        let begins = matches!(
            first.keyword,
            Kw::SELECT
                | Kw::INSERT
                | Kw::REPLACE
                | Kw::UPDATE
                | Kw::DELETE
                | Kw::WITH
                | Kw::TABLE
                | Kw::VALUES
        );
        if !begins && first.kind != K::LeftParen {
            return None;
        }
        let mut token = first;
        loop {
            match token.kind {
                K::End | K::Semicolon => {
                    self.end_raw();
                    self.put_hints();
                    let more = token.kind == K::Semicolon && self.lexer.next_token().kind != K::End;
                    return Some((self.end, more.then_some(token.end as usize)));
                }
                K::Invalid | K::Param => return None,
                _ if self.raw.is_some() => self.in_select_list(token)?,
                _ => self.token(token)?,
            }
            self.end = token.end as usize;
            self.last = token;
            token = self.lexer.next_token();
        }
    }

    /// Writes the optimizer hints, which a plan depends on.
    fn put_hints(&mut self) {
        if !self.lexer.has_hints() {
            return;
        }
        let mut rest = self.text.get(..self.end).unwrap_or_default();
        while let Some(at) = memchr::memmem::find(rest, b"/*+") {
            rest = rest.get(at + 3..).unwrap_or_default();
            let end = memchr::memmem::find(rest, b"*/").unwrap_or(rest.len());
            let (hint, behind) = rest.split_at(end);
            self.put_sized(tag::HINT, hint);
            rest = behind;
        }
    }

    fn put(&mut self, tag: u8, bytes: &[u8]) {
        self.out.normalized.push(tag);
        self.out.normalized.extend_from_slice(bytes);
        // Words, names and numbers contain no NUL; strings are escaped by their quotes, and tokens
        // that may contain one are written with their length.
        self.out.normalized.push(0);
    }

    fn put_sized(&mut self, tag: u8, bytes: &[u8]) {
        self.out.normalized.push(tag);
        self.out
            .normalized
            .extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.out.normalized.extend_from_slice(bytes);
    }

    /// Writes the select list, which ends before the current token.
    fn end_raw(&mut self) {
        if let Some((start, _)) = self.raw.take() {
            let text = self.text.get(start as usize..self.end).unwrap_or_default();
            self.put_sized(tag::VERBATIM, text);
        }
    }

    /// Processes a token of a select list, or the token that ends it.
    fn in_select_list(&mut self, token: Token) -> Option<()> {
        let (_, depth) = self.raw?;
        match token.kind {
            K::LeftParen => self.depth += 1,
            K::RightParen if self.depth == depth => {
                self.end_raw();
                return self.token(token);
            }
            K::RightParen => self.depth = self.depth.checked_sub(1)?,
            K::Word if self.depth == depth && ends_select_list(token.keyword) => {
                self.end_raw();
                return self.token(token);
            }
            _ => {}
        }
        Some(())
    }

    fn token(&mut self, token: Token) -> Option<()> {
        let bytes = token.span().slice(self.text);
        if self.limit && !matches!(token.kind, K::Int | K::Comma) && token.keyword != Kw::OFFSET {
            self.limit = false;
        }
        match token.kind {
            K::Word if token.keyword == Kw::NONE => self.word(token, bytes),
            K::Word => self.keyword(token, bytes)?,
            K::QuotedIdent | K::Introducer => self.put(token.kind as u8, bytes),
            K::UserVar => self.put_sized(token.kind as u8, bytes),
            K::LeftParen => {
                self.depth += 1;
                self.out.normalized.push(token.kind as u8);
            }
            K::RightParen => {
                self.depth = self.depth.checked_sub(1)?;
                if self
                    .verbatim
                    .is_some_and(|verbatim| self.depth < verbatim.depth)
                {
                    self.verbatim = None;
                }
                self.out.normalized.push(token.kind as u8);
            }
            K::Int | K::Decimal | K::Float | K::String | K::HexString | K::HexNumber => {
                self.literal(token, bytes)?;
            }
            K::NationalString | K::BitString | K::BitNumber => {
                self.put_sized(token.kind as u8, bytes)
            }
            _ => self.out.normalized.push(token.kind as u8),
        }
        Some(())
    }

    fn paren_follows(&self) -> bool {
        self.lexer.clone().next_token().kind == K::LeftParen
    }

    fn word(&mut self, token: Token, bytes: &[u8]) {
        let call = self.lexer.at_paren();
        self.put(if call { tag::CALL } else { token.kind as u8 }, bytes);
        if self.verbatim.is_none() && structural_call(bytes) && self.paren_follows() {
            self.verbatim = Some(Verbatim {
                depth: self.depth + 1,
                clause: false,
            });
        }
    }

    fn keyword(&mut self, token: Token, bytes: &[u8]) -> Option<()> {
        let call = self.lexer.at_paren();
        self.put(
            if call {
                tag::KEYWORD_CALL
            } else {
                tag::KEYWORD
            },
            bytes,
        );
        let keyword = token.keyword;
        if let Some(Verbatim {
            depth,
            clause: true,
        }) = self.verbatim
            && depth == self.depth
            && ends_clause(keyword)
        {
            self.verbatim = None;
        }
        match keyword {
            Kw::SELECT => self.raw = Some((token.end, self.depth)),
            Kw::GROUP | Kw::HAVING | Kw::ORDER | Kw::WINDOW if self.verbatim.is_none() => {
                self.verbatim = Some(Verbatim {
                    depth: self.depth,
                    clause: true,
                });
            }
            Kw::LIMIT => self.limit = self.verbatim.is_none(),
            // FROM FIRST of window functions would end the select list too early.
            Kw::FIRST | Kw::LAST if self.last.keyword == Kw::FROM => return None,
            Kw::OVER
            | Kw::CAST
            | Kw::CONVERT
            | Kw::CHAR
            | Kw::JSON_VALUE
            | Kw::JSON_TABLE
            | Kw::WEIGHT_STRING
            | Kw::GET_FORMAT
            | Kw::FORMAT
            | Kw::TRUNCATE
            | Kw::NOW
            | Kw::CURTIME
            | Kw::SYSDATE
            | Kw::CURRENT_TIME
            | Kw::CURRENT_TIMESTAMP
            | Kw::LOCALTIME
            | Kw::LOCALTIMESTAMP
            | Kw::UTC_TIME
            | Kw::UTC_TIMESTAMP
            | Kw::GROUP_CONCAT
            | Kw::TABLESAMPLE
                if self.verbatim.is_none() && self.paren_follows() =>
            {
                self.verbatim = Some(Verbatim {
                    depth: self.depth + 1,
                    clause: false,
                });
            }
            _ => {}
        }
        Some(())
    }

    fn literal(&mut self, token: Token, bytes: &[u8]) -> Option<()> {
        let kept = self.verbatim.is_some() && !self.limit;
        if token.kind == K::String && matches!(self.last.kind, K::String | K::NationalString) {
            return None;
        }
        let structural = matches!(
            self.last.keyword,
            Kw::AS
                | Kw::ESCAPE
                | Kw::COLLATE
                | Kw::SEPARATOR
                | Kw::OUTFILE
                | Kw::DUMPFILE
                | Kw::BY
                | Kw::SET
                | Kw::DATE
                | Kw::TIME
                | Kw::TIMESTAMP
        ) || matches!(
            self.last.kind,
            K::Arrow | K::LongArrow | K::Introducer | K::UserVar
        ) || (self.last.kind == K::Word && self.last.keyword == Kw::NONE);
        let kind = match token.kind {
            K::Int if self.limit => LiteralKind::Limit,
            K::Int => LiteralKind::Int,
            K::Decimal => LiteralKind::Decimal,
            K::Float => LiteralKind::Float,
            K::String => LiteralKind::String,
            _ => LiteralKind::Hex,
        };
        let big = token.kind == K::Int && !fits_i64(bytes);
        if kept || structural || big {
            self.put_sized(token.kind as u8, bytes);
            return Some(());
        }
        self.out
            .normalized
            .extend_from_slice(&[tag::LITERAL, kind as u8]);
        if kind == LiteralKind::Decimal {
            let period = memchr::memchr(b'.', bytes).unwrap_or(bytes.len());
            self.out
                .normalized
                .extend_from_slice(&(period as u32).to_le_bytes());
            self.out
                .normalized
                .extend_from_slice(&((bytes.len() - period) as u32).to_le_bytes());
        }
        self.out.literals.push(LiteralToken {
            span: token.span(),
            kind,
        });
        Some(())
    }
}

/// Whether the digits are a number up to 9223372036854775807.
fn fits_i64(digits: &[u8]) -> bool {
    digits.len() < 19 || std::str::from_utf8(digits).is_ok_and(|text| text.parse::<i64>().is_ok())
}

fn ends_select_list(keyword: Kw) -> bool {
    matches!(
        keyword,
        Kw::FROM
            | Kw::INTO
            | Kw::WHERE
            | Kw::GROUP
            | Kw::HAVING
            | Kw::WINDOW
            | Kw::ORDER
            | Kw::LIMIT
            | Kw::UNION
            | Kw::EXCEPT
            | Kw::INTERSECT
            | Kw::FOR
            | Kw::LOCK
            | Kw::ON
    )
}

fn ends_clause(keyword: Kw) -> bool {
    matches!(
        keyword,
        Kw::LIMIT
            | Kw::UNION
            | Kw::EXCEPT
            | Kw::INTERSECT
            | Kw::FOR
            | Kw::INTO
            | Kw::LOCK
            | Kw::SELECT
            | Kw::ON
    )
}

/// Functions whose constant arguments determine the type or format of the result.
fn structural_call(name: &[u8]) -> bool {
    const NAMES: &[&[u8]] = &[
        b"ROUND",
        b"TRUNCATE",
        b"DATE_FORMAT",
        b"TIME_FORMAT",
        b"STR_TO_DATE",
        b"FROM_UNIXTIME",
        b"UNIX_TIMESTAMP",
        b"NTILE",
        b"JSON_EXTRACT",
        b"JSON_UNQUOTE",
        b"JSON_CONTAINS_PATH",
    ];
    NAMES.iter().any(|known| known.eq_ignore_ascii_case(name))
}
