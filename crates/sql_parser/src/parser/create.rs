//! CREATE statements.

use super::super::ast::{
    CreateDatabase, CreateIndex, CreateTable, CreateView, DatabaseOption, Ident, IndexDef,
    IndexKind, IndexOption, OnDuplicateRow, Statement, TableElement,
};
use super::super::keyword::Keyword as Kw;
use super::super::token::TokenKind as K;
use super::{PResult, Parser};

/// Clauses between CREATE and the type of the object.
#[derive(Clone, Copy, Default)]
pub(super) struct CreatePrefix<'a> {
    pub or_replace: bool,
    pub algorithm: Option<Ident<'a>>,
    pub definer: Option<super::super::ast::Account<'a>>,
    pub invoker: Option<bool>,
}

impl<'a> Parser<'a> {
    /// Parses CREATE from the keyword on.
    pub(super) fn create(&mut self) -> PResult<Statement<'a>> {
        self.advance();
        match self.token.keyword {
            Kw::TABLE => self.create_table(false),
            Kw::TEMPORARY => {
                self.advance();
                self.create_table(true)
            }
            Kw::DATABASE | Kw::SCHEMA => self.create_database(),
            Kw::UNIQUE | Kw::FULLTEXT | Kw::SPATIAL | Kw::INDEX => self.create_index(),
            Kw::USER => self.user_statement(false),
            Kw::ROLE => self.role_statement(true),
            _ => self.create_with_prefix(),
        }
    }

    fn create_with_prefix(&mut self) -> PResult<Statement<'a>> {
        let mut prefix = CreatePrefix::default();
        if self.eat_kw(Kw::OR) {
            self.expect_kw(Kw::REPLACE)?;
            prefix.or_replace = true;
        }
        self.view_prefix(&mut prefix)?;
        match self.token.keyword {
            Kw::VIEW => self.view(false, prefix),
            Kw::PROCEDURE | Kw::FUNCTION | Kw::TRIGGER | Kw::EVENT
                if !prefix.or_replace && prefix.algorithm.is_none() && prefix.invoker.is_none() =>
            {
                self.create_program(prefix.definer)
            }
            _ => self.error(),
        }
    }

    /// `[ALGORITHM = x] [DEFINER = account] [SQL SECURITY x]`
    pub(super) fn view_prefix(&mut self, prefix: &mut CreatePrefix<'a>) -> PResult<()> {
        if self.eat_kw(Kw::ALGORITHM) {
            self.expect(K::Eq)?;
            prefix.algorithm = match self.token.keyword {
                Kw::UNDEFINED | Kw::MERGE | Kw::TEMPTABLE => Some(self.any_word()?),
                _ => return self.error(),
            };
        }
        if self.eat_kw(Kw::DEFINER) {
            self.expect(K::Eq)?;
            prefix.definer = Some(self.account()?);
        }
        if self.eat_kw(Kw::SQL) {
            self.expect_kw(Kw::SECURITY)?;
            prefix.invoker = match self.eat_any_kw(&[Kw::DEFINER, Kw::INVOKER]) {
                Some(word) => Some(word == Kw::INVOKER),
                None => return self.error(),
            };
        }
        Ok(())
    }

    /// Parses from the keyword VIEW on.
    pub(super) fn view(&mut self, alter: bool, prefix: CreatePrefix<'a>) -> PResult<Statement<'a>> {
        self.advance();
        let name = self.table_name()?;
        let columns = self.opt_paren_idents()?;
        self.expect_kw(Kw::AS)?;
        let query = self.query_expr()?;
        let mut check_option = None;
        if self.eat_kw(Kw::WITH) {
            check_option = Some(self.eat_any_kw(&[Kw::CASCADED, Kw::LOCAL]) != Some(Kw::LOCAL));
            self.expect_kw(Kw::CHECK)?;
            self.expect_kw(Kw::OPTION)?;
        }
        let CreatePrefix {
            or_replace,
            algorithm,
            definer,
            invoker,
        } = prefix;
        let view = CreateView {
            alter,
            or_replace,
            algorithm,
            definer,
            invoker,
            name,
            columns,
            query,
            check_option,
        };
        Ok(Statement::CreateView(self.alloc(view)))
    }

    fn create_database(&mut self) -> PResult<Statement<'a>> {
        self.advance();
        let if_not_exists = self.if_not_exists()?;
        let name = self.ident()?;
        let options = self.database_options()?;
        Ok(Statement::CreateDatabase(self.alloc(CreateDatabase {
            if_not_exists,
            name,
            options,
        })))
    }

    pub(super) fn database_options(&mut self) -> PResult<&'a [DatabaseOption<'a>]> {
        let mut options = self.list();
        loop {
            let default = self.eat_kw(Kw::DEFAULT);
            let option = if self.eat_charset_words() {
                self.opt_eq();
                DatabaseOption::Charset(self.charset_or_default()?)
            } else if self.eat_kw(Kw::COLLATE) {
                self.opt_eq();
                DatabaseOption::Collate(self.collation_or_default()?)
            } else if self.eat_kw(Kw::ENCRYPTION) {
                self.opt_eq();
                DatabaseOption::Encryption(self.string()?)
            } else if !default && self.eat_kw(Kw::READ) {
                self.expect_kw(Kw::ONLY)?;
                self.opt_eq();
                DatabaseOption::ReadOnly(if self.eat_kw(Kw::DEFAULT) {
                    None
                } else {
                    Some(self.uint()? != 0)
                })
            } else if default {
                return self.error();
            } else {
                return Ok(options.into_bump_slice());
            };
            options.push(option);
        }
    }

    fn create_index(&mut self) -> PResult<Statement<'a>> {
        let kind = match self.token.keyword {
            Kw::UNIQUE => IndexKind::Unique,
            Kw::FULLTEXT => IndexKind::Fulltext,
            Kw::SPATIAL => IndexKind::Spatial,
            _ => IndexKind::Plain,
        };
        if kind != IndexKind::Plain {
            self.advance();
        }
        self.expect_kw(Kw::INDEX)?;
        let name = self.ident()?;
        let mut options = self.list();
        if let Some(using) = self.opt_using()? {
            options.push(IndexOption::Using(using));
        }
        self.expect_kw(Kw::ON)?;
        let table = self.table_name()?;
        let parts = self.paren_list(Self::index_part)?;
        let (mut algorithm, mut lock) = (None, None);
        loop {
            if let Some(option) = self.opt_index_option()? {
                options.push(option);
            } else if !self.opt_algorithm_lock(&mut algorithm, &mut lock)? {
                break;
            }
        }
        let options = options.into_bump_slice();
        let index = IndexDef {
            kind,
            constraint: None,
            name: Some(name),
            parts,
            options,
        };
        Ok(Statement::CreateIndex(self.alloc(CreateIndex {
            table,
            index,
            algorithm,
            lock,
        })))
    }

    /// `ALGORITHM [=] x` or `LOCK [=] x`. Returns whether there was one.
    pub(super) fn opt_algorithm_lock(
        &mut self,
        algorithm: &mut Option<Ident<'a>>,
        lock: &mut Option<Ident<'a>>,
    ) -> PResult<bool> {
        let slot = if self.eat_kw(Kw::ALGORITHM) {
            algorithm
        } else if self.eat_kw(Kw::LOCK) {
            lock
        } else {
            return Ok(false);
        };
        self.opt_eq();
        *slot = Some(self.any_word()?);
        Ok(true)
    }

    /// Parses from the keyword TABLE on.
    fn create_table(&mut self, temporary: bool) -> PResult<Statement<'a>> {
        self.expect_kw(Kw::TABLE)?;
        let if_not_exists = self.if_not_exists()?;
        let name = self.table_name()?;
        let mut table = CreateTable {
            temporary,
            if_not_exists,
            name,
            like: None,
            elements: &[],
            options: &[],
            partition_by: None,
            duplicates: OnDuplicateRow::Error,
            query: None,
        };
        if self.eat_kw(Kw::LIKE) {
            table.like = Some(self.table_name()?);
            return Ok(Statement::CreateTable(self.alloc(table)));
        }
        if self.is(K::LeftParen) {
            let next = self.peek();
            if next.keyword == Kw::LIKE {
                self.advance();
                self.advance();
                table.like = Some(self.table_name()?);
                self.expect(K::RightParen)?;
                return Ok(Statement::CreateTable(self.alloc(table)));
            }
            let query = matches!(next.keyword, Kw::SELECT | Kw::WITH | Kw::TABLE | Kw::VALUES)
                || next.kind == K::LeftParen;
            if !query {
                table.elements = self.table_elements()?;
            }
        }
        table.options = self.table_options()?;
        if self.is_kw2(Kw::PARTITION, Kw::BY) {
            table.partition_by = Some(self.partition_by()?);
        }
        table.duplicates = self.on_duplicate_row();
        let query_must_follow = self.eat_kw(Kw::AS) || table.duplicates != OnDuplicateRow::Error;
        if self.at_query() || self.is(K::LeftParen) || query_must_follow {
            table.query = Some(self.query_expr()?);
        }
        if table.elements.is_empty() && table.query.is_none() {
            return self.error();
        }
        Ok(Statement::CreateTable(self.alloc(table)))
    }

    /// `(element, ...)`
    pub(super) fn table_elements(&mut self) -> PResult<&'a [TableElement<'a>]> {
        self.paren_list(Self::table_element)
    }
}
