//! The parts of a table definition: columns, indexes, constraints, options.

use super::super::ast::{
    CheckDef, ForeignKeyAction, ForeignKeyDef, ForeignKeyMatch, Ident, IndexAlgorithm, IndexDef,
    IndexKind, IndexOption, IndexPart, IndexPartKey, OptionValue, References, TableElement,
    TableOption,
};
use super::super::keyword::Keyword as Kw;
use super::super::token::TokenKind as K;
use super::{PResult, Parser};

impl<'a> Parser<'a> {
    /// An element of CREATE TABLE or of ADD.
    pub(super) fn table_element(&mut self) -> PResult<TableElement<'a>> {
        match self.opt_constraint_element()? {
            Some(element) => Ok(element),
            None => Ok(TableElement::Column(self.column_def()?)),
        }
    }

    /// An index or a constraint; `None`, without consuming tokens, if there is none.
    pub(super) fn opt_constraint_element(&mut self) -> PResult<Option<TableElement<'a>>> {
        let begins = matches!(
            self.token.keyword,
            Kw::CONSTRAINT
                | Kw::PRIMARY
                | Kw::UNIQUE
                | Kw::KEY
                | Kw::INDEX
                | Kw::FULLTEXT
                | Kw::SPATIAL
                | Kw::FOREIGN
                | Kw::CHECK
        );
        if !begins {
            return Ok(None);
        }
        let mut constraint = None;
        let named = self.eat_kw(Kw::CONSTRAINT);
        if named && self.is_ident() {
            constraint = Some(self.ident()?);
        }
        let element = match self.token.keyword {
            Kw::FOREIGN => TableElement::ForeignKey(self.foreign_key(constraint)?),
            Kw::CHECK => TableElement::Check(self.check(constraint)?),
            Kw::PRIMARY | Kw::UNIQUE => TableElement::Index(self.index_def(constraint)?),
            Kw::KEY | Kw::INDEX | Kw::FULLTEXT | Kw::SPATIAL if !named => {
                TableElement::Index(self.index_def(constraint)?)
            }
            _ => return self.error(),
        };
        Ok(Some(element))
    }

    /// An index of CREATE TABLE or of ADD.
    fn index_def(&mut self, constraint: Option<Ident<'a>>) -> PResult<IndexDef<'a>> {
        let kind = match self.advance().keyword {
            Kw::PRIMARY => {
                self.expect_kw(Kw::KEY)?;
                IndexKind::Primary
            }
            Kw::UNIQUE => IndexKind::Unique,
            Kw::FULLTEXT => IndexKind::Fulltext,
            Kw::SPATIAL => IndexKind::Spatial,
            _ => IndexKind::Plain,
        };
        if matches!(
            kind,
            IndexKind::Unique | IndexKind::Fulltext | IndexKind::Spatial
        ) {
            self.eat_any_kw(&[Kw::KEY, Kw::INDEX]);
        }
        let name = if self.is_ident() {
            Some(self.ident()?)
        } else {
            None
        };
        let mut options = self.list();
        if let Some(using) = self.opt_using()? {
            options.push(IndexOption::Using(using));
        }
        let parts = self.paren_list(Self::index_part)?;
        while let Some(option) = self.opt_index_option()? {
            options.push(option);
        }
        Ok(IndexDef {
            kind,
            constraint,
            name,
            parts,
            options: options.into_bump_slice(),
        })
    }

    /// `column [(length)] [ASC|DESC]`, `(expr) [ASC|DESC]`
    pub(super) fn index_part(&mut self) -> PResult<IndexPart<'a>> {
        let key = if self.eat(K::LeftParen) {
            let expr = self.expr()?;
            self.expect(K::RightParen)?;
            IndexPartKey::Expr(expr)
        } else {
            let column = self.ident()?;
            let length = if self.eat(K::LeftParen) {
                let length = self.uint()?;
                self.expect(K::RightParen)?;
                Some(length)
            } else {
                None
            };
            IndexPartKey::Column(column, length)
        };
        let order = self.eat_any_kw(&[Kw::ASC, Kw::DESC]);
        Ok(IndexPart {
            key,
            desc: order == Some(Kw::DESC),
            has_order: order.is_some(),
        })
    }

    /// `USING BTREE`, `TYPE BTREE`
    pub(super) fn opt_using(&mut self) -> PResult<Option<IndexAlgorithm>> {
        if self.eat_any_kw(&[Kw::USING, Kw::TYPE]).is_none() {
            return Ok(None);
        }
        match self.eat_any_kw(&[Kw::BTREE, Kw::HASH, Kw::RTREE]) {
            Some(Kw::BTREE) => Ok(Some(IndexAlgorithm::Btree)),
            Some(Kw::HASH) => Ok(Some(IndexAlgorithm::Hash)),
            Some(_) => Ok(Some(IndexAlgorithm::Rtree)),
            None => self.error(),
        }
    }

    /// An option after an index's parts.
    pub(super) fn opt_index_option(&mut self) -> PResult<Option<IndexOption<'a>>> {
        if let Some(using) = self.opt_using()? {
            return Ok(Some(IndexOption::Using(using)));
        }
        let keyword = self.token.keyword;
        let option = match keyword {
            Kw::KEY_BLOCK_SIZE => {
                self.advance();
                self.opt_eq();
                IndexOption::KeyBlockSize(self.option_number()?)
            }
            Kw::WITH if self.peek().keyword == Kw::PARSER => {
                self.advance();
                self.advance();
                IndexOption::Parser(self.ident()?)
            }
            Kw::COMMENT => {
                self.advance();
                IndexOption::Comment(self.string()?)
            }
            Kw::VISIBLE | Kw::INVISIBLE => {
                IndexOption::Visible(self.advance().keyword == Kw::VISIBLE)
            }
            Kw::ENGINE_ATTRIBUTE => {
                self.advance();
                self.opt_eq();
                IndexOption::EngineAttribute(self.string()?)
            }
            Kw::SECONDARY_ENGINE_ATTRIBUTE => {
                self.advance();
                self.opt_eq();
                IndexOption::SecondaryEngineAttribute(self.string()?)
            }
            _ => return Ok(None),
        };
        Ok(Some(option))
    }

    fn foreign_key(&mut self, constraint: Option<Ident<'a>>) -> PResult<ForeignKeyDef<'a>> {
        self.advance();
        self.expect_kw(Kw::KEY)?;
        let index_name = if self.is_ident() {
            Some(self.ident()?)
        } else {
            None
        };
        let columns = self.paren_idents()?;
        let references = self.references()?;
        Ok(ForeignKeyDef {
            constraint,
            index_name,
            columns,
            references,
        })
    }

    /// REFERENCES, at the keyword. The columns may be omitted, as in a published NDB schema, if
    /// they are the parent's primary key.
    pub(super) fn references(&mut self) -> PResult<References<'a>> {
        self.expect_kw(Kw::REFERENCES)?;
        let table = self.table_name()?;
        let columns = self.opt_paren_idents()?;
        let mut references = References {
            table,
            columns,
            matching: None,
            on_delete: None,
            on_update: None,
        };
        if self.eat_kw(Kw::MATCH) {
            references.matching = Some(
                match self.eat_any_kw(&[Kw::FULL, Kw::PARTIAL, Kw::SIMPLE]) {
                    Some(Kw::FULL) => ForeignKeyMatch::Full,
                    Some(Kw::PARTIAL) => ForeignKeyMatch::Partial,
                    Some(_) => ForeignKeyMatch::Simple,
                    None => return self.error(),
                },
            );
        }
        while self.is_kw(Kw::ON) && matches!(self.peek().keyword, Kw::DELETE | Kw::UPDATE) {
            self.advance();
            let delete = self.advance().keyword == Kw::DELETE;
            let action = self.foreign_key_action()?;
            let slot = if delete {
                &mut references.on_delete
            } else {
                &mut references.on_update
            };
            if slot.replace(action).is_some() {
                return self.error();
            }
        }
        Ok(references)
    }

    fn foreign_key_action(&mut self) -> PResult<ForeignKeyAction> {
        match self.eat_any_kw(&[Kw::RESTRICT, Kw::CASCADE, Kw::SET, Kw::NO]) {
            Some(Kw::RESTRICT) => Ok(ForeignKeyAction::Restrict),
            Some(Kw::CASCADE) => Ok(ForeignKeyAction::Cascade),
            Some(Kw::SET) if self.eat_kw(Kw::NULL) => Ok(ForeignKeyAction::SetNull),
            Some(Kw::SET) if self.eat_kw(Kw::DEFAULT) => Ok(ForeignKeyAction::SetDefault),
            Some(Kw::NO) if self.eat_kw(Kw::ACTION) => Ok(ForeignKeyAction::NoAction),
            _ => self.error(),
        }
    }

    /// Parses CHECK from the keyword on.
    pub(super) fn check(&mut self, constraint: Option<Ident<'a>>) -> PResult<CheckDef<'a>> {
        self.advance();
        self.expect(K::LeftParen)?;
        let expr = self.expr()?;
        self.expect(K::RightParen)?;
        let enforced = if self.eat_kw2(Kw::NOT, Kw::ENFORCED) {
            false
        } else {
            self.eat_kw(Kw::ENFORCED);
            true
        };
        Ok(CheckDef {
            constraint,
            expr,
            enforced,
        })
    }

    /// Table options separated by spaces or commas.
    pub(super) fn table_options(&mut self) -> PResult<&'a [TableOption<'a>]> {
        let mut options = self.list();
        while let Some(option) = self.opt_table_option()? {
            options.push(option);
            self.eat(K::Comma);
        }
        Ok(options.into_bump_slice())
    }

    /// A table option; `None`, without consuming tokens, if there is none.
    pub(super) fn opt_table_option(&mut self) -> PResult<Option<TableOption<'a>>> {
        if let Some(option) = self.opt_charset_option()? {
            return Ok(Some(option));
        }
        if let Some(option) = self.opt_ttl_option()? {
            return Ok(Some(option));
        }
        let keyword = self.token.keyword;
        let option = match keyword {
            Kw::ENGINE => {
                self.advance();
                self.opt_eq();
                TableOption::Engine(self.ident_or_string()?)
            }
            Kw::AUTO_INCREMENT => {
                self.advance();
                self.opt_eq();
                TableOption::AutoIncrement(self.option_number()?)
            }
            Kw::COMMENT => {
                self.advance();
                self.opt_eq();
                TableOption::Comment(self.string()?)
            }
            Kw::ROW_FORMAT => {
                self.advance();
                self.opt_eq();
                TableOption::RowFormat(self.any_word()?)
            }
            Kw::UNION => {
                self.advance();
                self.opt_eq();
                TableOption::Union(self.paren_list_or_empty(Self::table_name)?)
            }
            Kw::DATA | Kw::INDEX if self.peek().keyword == Kw::DIRECTORY => {
                let name = if keyword == Kw::DATA {
                    "DATA DIRECTORY"
                } else {
                    "INDEX DIRECTORY"
                };
                self.advance();
                self.advance();
                self.opt_eq();
                TableOption::Other(name, OptionValue::String(self.string()?))
            }
            _ if self.is_word("COLOCATE") && self.peek().keyword == Kw::WITH => {
                self.advance();
                self.advance();
                TableOption::Colocate(self.table_name()?)
            }
            _ if is_other_option(keyword) => {
                self.advance();
                self.opt_eq();
                TableOption::Other(keyword.name(), self.option_value()?)
            }
            _ => return Ok(None),
        };
        Ok(Some(option))
    }

    /// TTL, TTL_ENABLE and TTL_JOB_INTERVAL.
    fn opt_ttl_option(&mut self) -> PResult<Option<TableOption<'a>>> {
        let option = if self.eat_word("TTL") {
            self.opt_eq();
            self.ttl()?
        } else if self.eat_word("TTL_ENABLE") {
            self.opt_eq();
            TableOption::TtlEnable(self.string()?)
        } else if self.eat_word("TTL_JOB_INTERVAL") {
            self.opt_eq();
            TableOption::TtlJobInterval(self.string()?)
        } else {
            return Ok(None);
        };
        Ok(Some(option))
    }

    /// `column + INTERVAL n unit` of TTL.
    fn ttl(&mut self) -> PResult<TableOption<'a>> {
        let column = self.ident()?;
        self.expect(K::Plus)?;
        self.expect_kw(Kw::INTERVAL)?;
        let amount = self.uint()?;
        let unit = self.interval_unit()?;
        Ok(TableOption::Ttl(column, amount, unit))
    }

    /// `[DEFAULT] CHARACTER SET [=] x`, `[DEFAULT] COLLATE [=] x`
    fn opt_charset_option(&mut self) -> PResult<Option<TableOption<'a>>> {
        let default = self.is_kw(Kw::DEFAULT)
            && matches!(
                self.peek().keyword,
                Kw::CHARACTER | Kw::CHARSET | Kw::COLLATE | Kw::CHAR
            );
        if default {
            self.advance();
        }
        if self.eat_charset_words() {
            self.opt_eq();
            return Ok(Some(TableOption::Charset(self.charset_or_default()?)));
        }
        if self.eat_kw(Kw::COLLATE) {
            self.opt_eq();
            return Ok(Some(TableOption::Collate(self.collation_or_default()?)));
        }
        if default { self.error() } else { Ok(None) }
    }

    fn option_value(&mut self) -> PResult<OptionValue<'a>> {
        match self.token.kind {
            K::Int | K::HexNumber | K::Decimal | K::Float => {
                Ok(OptionValue::Int(self.option_number()?))
            }
            K::String => Ok(OptionValue::String(self.string()?)),
            _ => Ok(OptionValue::Word(self.any_word()?)),
        }
    }
}

fn is_other_option(keyword: Kw) -> bool {
    matches!(
        keyword,
        Kw::AUTOEXTEND_SIZE
            | Kw::AVG_ROW_LENGTH
            | Kw::CHECKSUM
            | Kw::COMPRESSION
            | Kw::CONNECTION
            | Kw::DELAY_KEY_WRITE
            | Kw::ENCRYPTION
            | Kw::ENGINE_ATTRIBUTE
            | Kw::INSERT_METHOD
            | Kw::KEY_BLOCK_SIZE
            | Kw::MAX_ROWS
            | Kw::MIN_ROWS
            | Kw::PACK_KEYS
            | Kw::PASSWORD
            | Kw::SECONDARY_ENGINE
            | Kw::SECONDARY_ENGINE_ATTRIBUTE
            | Kw::STATS_AUTO_RECALC
            | Kw::STATS_PERSISTENT
            | Kw::STATS_SAMPLE_PAGES
            | Kw::TABLESPACE
            | Kw::STORAGE
    )
}
