//! Separated lists, and optional clauses that many statements share.

use super::super::ast::{ColumnName, Ident, TableName};
use super::super::keyword::Keyword as Kw;
use super::super::token::TokenKind as K;
use super::{PResult, Parser};

impl<'a> Parser<'a> {
    /// One or more items separated by commas.
    pub(super) fn comma_list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> PResult<T>,
    ) -> PResult<&'a [T]> {
        let mut items = self.list();
        loop {
            self.count_node()?;
            items.push(item(self)?);
            if !self.eat(K::Comma) {
                return Ok(items.into_bump_slice());
            }
        }
    }

    /// One or more items separated by commas, in parentheses.
    pub(super) fn paren_list<T>(
        &mut self,
        item: impl FnMut(&mut Self) -> PResult<T>,
    ) -> PResult<&'a [T]> {
        self.expect(K::LeftParen)?;
        let items = self.comma_list(item)?;
        self.expect(K::RightParen)?;
        Ok(items)
    }

    /// A list in parentheses that may be empty.
    pub(super) fn paren_list_or_empty<T>(
        &mut self,
        item: impl FnMut(&mut Self) -> PResult<T>,
    ) -> PResult<&'a [T]> {
        if self.is(K::LeftParen) && self.peek().kind == K::RightParen {
            self.advance();
            self.advance();
            return Ok(&[]);
        }
        self.paren_list(item)
    }

    /// Identifiers in parentheses.
    pub(super) fn paren_idents(&mut self) -> PResult<&'a [Ident<'a>]> {
        self.paren_list(Self::ident)
    }

    /// Identifiers in parentheses, or nothing.
    pub(super) fn opt_paren_idents(&mut self) -> PResult<&'a [Ident<'a>]> {
        if self.is(K::LeftParen) {
            self.paren_idents()
        } else {
            Ok(&[])
        }
    }

    /// Column names in parentheses; the list may be empty.
    pub(super) fn paren_columns(&mut self) -> PResult<&'a [ColumnName<'a>]> {
        self.expect(K::LeftParen)?;
        if self.eat(K::RightParen) {
            return Ok(&[]);
        }
        let columns = self.comma_list(Self::column_name)?;
        self.expect(K::RightParen)?;
        Ok(columns)
    }

    /// Table names separated by commas.
    pub(super) fn table_names(&mut self) -> PResult<&'a [TableName<'a>]> {
        self.comma_list(Self::table_name)
    }

    /// `PARTITION (names)`, or nothing.
    pub(super) fn opt_partitions(&mut self) -> PResult<&'a [Ident<'a>]> {
        if self.is_kw(Kw::PARTITION) && self.peek().kind == K::LeftParen {
            self.advance();
            return self.paren_idents();
        }
        Ok(&[])
    }

    /// `IF EXISTS`
    pub(super) fn if_exists(&mut self) -> PResult<bool> {
        if !self.eat_kw(Kw::IF) {
            return Ok(false);
        }
        self.expect_kw(Kw::EXISTS)?;
        Ok(true)
    }

    /// `IF NOT EXISTS`
    pub(super) fn if_not_exists(&mut self) -> PResult<bool> {
        if !self.eat_kw(Kw::IF) {
            return Ok(false);
        }
        self.expect_kw(Kw::NOT)?;
        self.expect_kw(Kw::EXISTS)?;
        Ok(true)
    }

    /// An optional `=`.
    pub(super) fn opt_eq(&mut self) {
        self.eat(K::Eq);
    }

    /// `CHARACTER SET` or `CHARSET`
    pub(super) fn eat_charset_words(&mut self) -> bool {
        self.eat_kw(Kw::CHARSET)
            || self.eat_kw2(Kw::CHARACTER, Kw::SET)
            || self.eat_kw2(Kw::CHAR, Kw::SET)
    }

    /// An alias: `AS name`, or a name alone if it cannot be the keyword of a following clause.
    pub(super) fn opt_alias(&mut self) -> PResult<Option<Ident<'a>>> {
        if self.eat_kw(Kw::AS) || self.is_ident() {
            return self.ident().map(Some);
        }
        Ok(None)
    }
}
