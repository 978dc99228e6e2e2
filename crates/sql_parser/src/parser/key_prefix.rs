//! The MEMCACHED clauses of ALTER TABLE, an extension of MySQL's grammar. Their words are keywords
//! only there.

use super::super::ast::{AlterAction, Ident, KeyPrefix};
use super::super::keyword::Keyword as Kw;
use super::super::token::TokenKind as K;
use super::{PResult, Parser};

impl<'a> Parser<'a> {
    /// True at `MEMCACHED PREFIX`.
    pub(super) fn at_key_prefix(&mut self) -> bool {
        if !self.is_word("MEMCACHED") {
            return false;
        }
        let next = self.peek();
        next.kind == K::Word && next.span().slice(self.text).eq_ignore_ascii_case(b"PREFIX")
    }

    /// `MEMCACHED PREFIX 'u:' clauses`, at the first word.
    pub(super) fn add_key_prefix(&mut self) -> PResult<AlterAction<'a>> {
        let mut def = self.key_prefix()?;
        loop {
            if self.eat_kw(Kw::KEY) {
                def.key = self.paren_idents()?;
            } else if self.eat_kw(Kw::VALUE) {
                def.value = self.paren_idents()?;
            } else if self.eat_word("FLAGS") {
                def.flags = Some(self.one_in_paren()?);
            } else if self.eat_word("CAS") {
                def.cas = Some(self.one_in_paren()?);
            } else if self.eat_word("EXPIRES") {
                def.expires = Some(self.one_in_paren()?);
            } else if self.eat_word("POLICY") {
                def.policy = Some(self.string()?);
            } else if self.eat_word("SEPARATOR") {
                def.separator = Some(self.string()?);
            } else if self.eat_word("ESCAPE") {
                def.escape = Some(self.string()?);
            } else if self.eat_kw(Kw::NULL) {
                self.expect_kw(Kw::AS)?;
                def.null_token = Some(self.string()?);
            } else if self.eat_kw(Kw::AS) {
                self.expect_kw(Kw::JSON)?;
                def.json = true;
            } else {
                return Ok(AlterAction::AddKeyPrefix(self.alloc(def)));
            }
        }
    }

    /// `MEMCACHED PREFIX 'u:' [ROLE 'r']`, at the first word.
    pub(super) fn key_prefix(&mut self) -> PResult<KeyPrefix<'a>> {
        self.advance();
        self.advance();
        let prefix = self.string()?;
        let role = if self.eat_word("ROLE") {
            Some(self.string()?)
        } else {
            None
        };
        Ok(KeyPrefix {
            prefix,
            role,
            ..KeyPrefix::default()
        })
    }

    fn one_in_paren(&mut self) -> PResult<Ident<'a>> {
        self.expect(K::LeftParen)?;
        let name = self.ident()?;
        self.expect(K::RightParen)?;
        Ok(name)
    }
}
