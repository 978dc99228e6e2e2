//! ALTER, DROP, RENAME and TRUNCATE.

use super::super::ast::{
    AlterAction, AlterDatabase, AlterTable, ColumnPosition, DropIndex, DropTables, Ident,
    PartitionMaintenance, ProgramKind, Statement, TableElement,
};
use super::super::keyword::Keyword as Kw;
use super::super::token::TokenKind as K;
use super::create::CreatePrefix;
use super::{PResult, Parser};

impl<'a> Parser<'a> {
    /// Parses ALTER from the keyword on.
    pub(super) fn alter(&mut self) -> PResult<Statement<'a>> {
        self.advance();
        match self.token.keyword {
            Kw::TABLE => self.alter_table(),
            Kw::USER => self.user_statement(true),
            Kw::PROCEDURE | Kw::FUNCTION => self.alter_routine(),
            Kw::DATABASE | Kw::SCHEMA => {
                self.advance();
                let options = matches!(
                    self.token.keyword,
                    Kw::DEFAULT
                        | Kw::CHARACTER
                        | Kw::CHARSET
                        | Kw::COLLATE
                        | Kw::ENCRYPTION
                        | Kw::READ
                );
                let name = if options { None } else { Some(self.ident()?) };
                let options = self.database_options()?;
                if options.is_empty() {
                    return self.error();
                }
                Ok(Statement::AlterDatabase(
                    self.alloc(AlterDatabase { name, options }),
                ))
            }
            _ => {
                let mut prefix = CreatePrefix::default();
                self.view_prefix(&mut prefix)?;
                if prefix.algorithm.is_none() && prefix.invoker.is_none() && self.eat_kw(Kw::EVENT)
                {
                    self.event_statement(true, prefix.definer)
                } else if self.is_kw(Kw::VIEW) {
                    self.view(true, prefix)
                } else {
                    self.error()
                }
            }
        }
    }

    fn alter_table(&mut self) -> PResult<Statement<'a>> {
        self.advance();
        let name = self.table_name()?;
        let mut actions = self.list();
        while !self.token.ends_statement() {
            self.count_node()?;
            actions.push(self.alter_action()?);
            // PARTITION BY and REMOVE PARTITIONING may follow without a comma.
            let partitioning =
                self.is_kw2(Kw::PARTITION, Kw::BY) || self.is_kw2(Kw::REMOVE, Kw::PARTITIONING);
            let option_follows = matches!(actions.last(), Some(AlterAction::Option(_)));
            if self.eat(K::Comma) {
                if self.token.ends_statement() {
                    return self.error();
                }
            } else if !partitioning && !option_follows && !self.token.ends_statement() {
                return self.error();
            }
        }
        Ok(Statement::AlterTable(self.alloc(AlterTable {
            name,
            actions: actions.into_bump_slice(),
        })))
    }

    fn alter_action(&mut self) -> PResult<AlterAction<'a>> {
        match self.token.keyword {
            Kw::ADD => self.alter_add(),
            Kw::DROP => self.alter_drop(),
            Kw::MODIFY => {
                self.advance();
                self.eat_kw(Kw::COLUMN);
                let column = self.column_def()?;
                Ok(AlterAction::ModifyColumn(column, self.column_position()?))
            }
            Kw::CHANGE => {
                self.advance();
                self.eat_kw(Kw::COLUMN);
                let old = self.ident()?;
                let column = self.column_def()?;
                Ok(AlterAction::ChangeColumn(
                    old,
                    column,
                    self.column_position()?,
                ))
            }
            Kw::ALTER => self.alter_alter(),
            Kw::RENAME => self.alter_rename(),
            Kw::CONVERT => {
                self.advance();
                self.expect_kw(Kw::TO)?;
                if !self.eat_charset_words() {
                    return self.error();
                }
                let charset = self.charset_or_default()?;
                let collation = if self.eat_kw(Kw::COLLATE) {
                    Some(self.ident_or_string()?)
                } else {
                    None
                };
                Ok(AlterAction::ConvertCharset(charset, collation))
            }
            Kw::ORDER => {
                self.advance();
                self.expect_kw(Kw::BY)?;
                Ok(AlterAction::OrderBy(self.order_items()?))
            }
            Kw::ENABLE | Kw::DISABLE => {
                let enable = self.advance().keyword == Kw::ENABLE;
                self.expect_kw(Kw::KEYS)?;
                Ok(AlterAction::EnableKeys(enable))
            }
            Kw::FORCE => {
                self.advance();
                Ok(AlterAction::Force)
            }
            Kw::ALGORITHM | Kw::LOCK => {
                let word = self.advance().keyword;
                self.opt_eq();
                let value = self.any_word()?;
                Ok(if word == Kw::LOCK {
                    AlterAction::Lock(value)
                } else {
                    AlterAction::Algorithm(value)
                })
            }
            Kw::WITH | Kw::WITHOUT => {
                let with = self.advance().keyword == Kw::WITH;
                self.expect_kw(Kw::VALIDATION)?;
                Ok(AlterAction::Validation(with))
            }
            _ => self.alter_partitions(),
        }
    }

    /// Actions for memcached, tablespaces and partitions, and table options.
    fn alter_partitions(&mut self) -> PResult<AlterAction<'a>> {
        if self.at_key_prefix() {
            return self.add_key_prefix();
        }
        let keyword = self.token.keyword;
        let next = self.peek().keyword;
        if let Some(action) = self.opt_partition_maintenance(keyword)? {
            return Ok(action);
        }
        match (keyword, next) {
            (Kw::DISCARD | Kw::IMPORT, Kw::TABLESPACE) => {
                self.advance();
                self.advance();
                Ok(AlterAction::DiscardTablespace(keyword == Kw::DISCARD))
            }
            (Kw::PARTITION, Kw::BY) => Ok(AlterAction::PartitionBy(self.partition_by()?)),
            (Kw::REMOVE, Kw::PARTITIONING) => {
                self.advance();
                self.advance();
                Ok(AlterAction::RemovePartitioning)
            }
            (Kw::REMOVE, _) if self.peek_is_word("TTL") => {
                self.advance();
                self.advance();
                Ok(AlterAction::RemoveTtl)
            }
            (Kw::COALESCE, Kw::PARTITION) => {
                self.advance();
                self.advance();
                Ok(AlterAction::CoalescePartition(self.uint()?))
            }
            (Kw::REORGANIZE, Kw::PARTITION) => {
                self.advance();
                self.advance();
                let names = if self.is_kw(Kw::INTO) {
                    &[]
                } else {
                    self.comma_list(Self::ident)?
                };
                self.expect_kw(Kw::INTO)?;
                Ok(AlterAction::ReorganizePartition(
                    names,
                    self.partition_defs(None)?,
                ))
            }
            (Kw::EXCHANGE, Kw::PARTITION) => {
                self.advance();
                self.advance();
                let name = self.ident()?;
                self.expect_kw(Kw::WITH)?;
                self.expect_kw(Kw::TABLE)?;
                let table = self.table_name()?;
                let validation = match self.eat_any_kw(&[Kw::WITH, Kw::WITHOUT]) {
                    Some(word) => {
                        self.expect_kw(Kw::VALIDATION)?;
                        word == Kw::WITH
                    }
                    None => true,
                };
                Ok(AlterAction::ExchangePartition(name, table, validation))
            }
            _ => match self.opt_table_option()? {
                Some(option) => Ok(AlterAction::Option(option)),
                None => self.error(),
            },
        }
    }

    /// `TRUNCATE PARTITION` and similar actions; `None` if the keyword is none of them.
    fn opt_partition_maintenance(&mut self, keyword: Kw) -> PResult<Option<AlterAction<'a>>> {
        let maintenance = match keyword {
            Kw::TRUNCATE => PartitionMaintenance::Truncate,
            Kw::ANALYZE => PartitionMaintenance::Analyze,
            Kw::CHECK => PartitionMaintenance::Check,
            Kw::OPTIMIZE => PartitionMaintenance::Optimize,
            Kw::REBUILD => PartitionMaintenance::Rebuild,
            Kw::REPAIR => PartitionMaintenance::Repair,
            _ => return Ok(None),
        };
        self.advance();
        self.expect_kw(Kw::PARTITION)?;
        let names = if self.eat_kw(Kw::ALL) {
            &[]
        } else {
            self.comma_list(Self::ident)?
        };
        Ok(Some(AlterAction::MaintainPartitions(maintenance, names)))
    }

    fn alter_add(&mut self) -> PResult<AlterAction<'a>> {
        self.advance();
        if self.at_key_prefix() {
            return self.add_key_prefix();
        }
        if self.eat_kw(Kw::PARTITION) {
            if self.eat_kw(Kw::PARTITIONS) {
                return Ok(AlterAction::AddPartitionCount(self.uint()?));
            }
            return Ok(AlterAction::AddPartitions(self.partition_defs(None)?));
        }
        if let Some(element) = self.opt_constraint_element()? {
            return Ok(match element {
                TableElement::Index(index) => AlterAction::AddIndex(index),
                TableElement::ForeignKey(key) => AlterAction::AddForeignKey(key),
                TableElement::Check(check) => AlterAction::AddCheck(check),
                TableElement::Column(column) => {
                    AlterAction::AddColumn(column, ColumnPosition::Default)
                }
            });
        }
        self.eat_kw(Kw::COLUMN);
        if self.is(K::LeftParen) {
            return Ok(AlterAction::AddElements(self.table_elements()?));
        }
        let column = self.column_def()?;
        Ok(AlterAction::AddColumn(column, self.column_position()?))
    }

    fn column_position(&mut self) -> PResult<ColumnPosition<'a>> {
        if self.eat_kw(Kw::FIRST) {
            return Ok(ColumnPosition::First);
        }
        if self.eat_kw(Kw::AFTER) {
            return Ok(ColumnPosition::After(self.ident()?));
        }
        Ok(ColumnPosition::Default)
    }

    fn alter_drop(&mut self) -> PResult<AlterAction<'a>> {
        self.advance();
        if self.at_key_prefix() {
            let def = self.key_prefix()?;
            return Ok(AlterAction::DropKeyPrefix(self.alloc(def)));
        }
        match self.token.keyword {
            Kw::PRIMARY => {
                self.advance();
                self.expect_kw(Kw::KEY)?;
                Ok(AlterAction::DropPrimaryKey)
            }
            Kw::INDEX | Kw::KEY => {
                self.advance();
                Ok(AlterAction::DropIndex(self.index_name()?))
            }
            Kw::FOREIGN => {
                self.advance();
                self.expect_kw(Kw::KEY)?;
                Ok(AlterAction::DropForeignKey(self.ident()?))
            }
            Kw::CHECK => {
                self.advance();
                Ok(AlterAction::DropCheck(self.ident()?))
            }
            Kw::CONSTRAINT => {
                self.advance();
                Ok(AlterAction::DropConstraint(self.ident()?))
            }
            Kw::PARTITION => {
                self.advance();
                Ok(AlterAction::DropPartitions(self.comma_list(Self::ident)?))
            }
            _ => {
                self.eat_kw(Kw::COLUMN);
                let name = self.ident()?;
                self.eat_any_kw(&[Kw::RESTRICT, Kw::CASCADE]);
                Ok(AlterAction::DropColumn(name))
            }
        }
    }

    /// `VISIBLE` or `INVISIBLE`
    fn visibility(&mut self) -> PResult<bool> {
        match self.eat_any_kw(&[Kw::VISIBLE, Kw::INVISIBLE]) {
            Some(word) => Ok(word == Kw::VISIBLE),
            None => self.error(),
        }
    }

    fn alter_alter(&mut self) -> PResult<AlterAction<'a>> {
        self.advance();
        if self.eat_kw(Kw::INDEX) {
            let name = self.index_name()?;
            return Ok(AlterAction::SetIndexVisible(name, self.visibility()?));
        }
        if self.eat_any_kw(&[Kw::CHECK, Kw::CONSTRAINT]).is_some() {
            let name = self.ident()?;
            let enforced = !self.eat_kw(Kw::NOT);
            self.expect_kw(Kw::ENFORCED)?;
            return Ok(AlterAction::SetCheckEnforced(name, enforced));
        }
        self.eat_kw(Kw::COLUMN);
        let column = self.ident()?;
        if self.eat_kw(Kw::DROP) {
            self.expect_kw(Kw::DEFAULT)?;
            return Ok(AlterAction::DropDefault(column));
        }
        self.expect_kw(Kw::SET)?;
        if !self.eat_kw(Kw::DEFAULT) {
            return Ok(AlterAction::SetColumnVisible(column, self.visibility()?));
        }
        let value = if self.eat(K::LeftParen) {
            let value = self.expr()?;
            self.expect(K::RightParen)?;
            value
        } else {
            self.default_literal()?
        };
        Ok(AlterAction::SetDefault(column, value))
    }

    fn alter_rename(&mut self) -> PResult<AlterAction<'a>> {
        self.advance();
        let pair = |p: &mut Self, item: fn(&mut Self) -> PResult<Ident<'a>>| {
            p.advance();
            let old = item(p)?;
            p.expect_kw(Kw::TO)?;
            Ok((old, item(p)?))
        };
        match self.token.keyword {
            Kw::COLUMN => {
                let (old, new) = pair(self, Self::ident)?;
                Ok(AlterAction::RenameColumn(old, new))
            }
            Kw::INDEX | Kw::KEY => {
                let (old, new) = pair(self, Self::index_name)?;
                Ok(AlterAction::RenameIndex(old, new))
            }
            _ => {
                if self.eat_any_kw(&[Kw::TO, Kw::AS]).is_none() {
                    self.opt_eq();
                }
                Ok(AlterAction::Rename(self.table_name()?))
            }
        }
    }

    /// Parses DROP from the keyword on.
    pub(super) fn drop_statement(&mut self) -> PResult<Statement<'a>> {
        self.advance();
        let temporary = self.eat_kw(Kw::TEMPORARY);
        match self.token.keyword {
            Kw::TABLE | Kw::TABLES | Kw::VIEW => {
                let view = self.advance().keyword == Kw::VIEW;
                let if_exists = self.if_exists()?;
                let names = self.table_names()?;
                let cascade = self
                    .eat_any_kw(&[Kw::CASCADE, Kw::RESTRICT])
                    .map(|word| word == Kw::CASCADE);
                let drop = self.alloc(DropTables {
                    temporary,
                    if_exists,
                    names,
                    cascade,
                });
                Ok(if view {
                    Statement::DropView(drop)
                } else {
                    Statement::DropTable(drop)
                })
            }
            _ if temporary => self.error(),
            Kw::DATABASE | Kw::SCHEMA => {
                self.advance();
                Ok(Statement::DropDatabase {
                    if_exists: self.if_exists()?,
                    name: self.ident()?,
                })
            }
            Kw::INDEX => self.drop_index(),
            Kw::USER => {
                self.advance();
                let if_exists = self.if_exists()?;
                Ok(Statement::DropUser {
                    if_exists,
                    accounts: self.comma_list(Self::account)?,
                })
            }
            Kw::ROLE => self.role_statement(false),
            Kw::PREPARE => {
                self.advance();
                Ok(Statement::Deallocate(self.ident()?))
            }
            Kw::PROCEDURE | Kw::FUNCTION | Kw::TRIGGER | Kw::EVENT => {
                let kind = match self.advance().keyword {
                    Kw::PROCEDURE => ProgramKind::Procedure,
                    Kw::FUNCTION => ProgramKind::Function,
                    Kw::TRIGGER => ProgramKind::Trigger,
                    _ => ProgramKind::Event,
                };
                Ok(Statement::DropProgram {
                    kind,
                    if_exists: self.if_exists()?,
                    name: self.table_name()?,
                })
            }
            _ => self.error(),
        }
    }

    fn drop_index(&mut self) -> PResult<Statement<'a>> {
        self.advance();
        let name = self.index_name()?;
        self.expect_kw(Kw::ON)?;
        let table = self.table_name()?;
        let (mut algorithm, mut lock) = (None, None);
        while self.opt_algorithm_lock(&mut algorithm, &mut lock)? {}
        Ok(Statement::DropIndex(self.alloc(DropIndex {
            name,
            table,
            algorithm,
            lock,
        })))
    }

    /// Parses RENAME from the keyword on.
    pub(super) fn rename(&mut self) -> PResult<Statement<'a>> {
        self.advance();
        if self.eat_kw(Kw::USER) {
            return Ok(Statement::RenameUser(self.comma_list(|p| {
                let old = p.account()?;
                p.expect_kw(Kw::TO)?;
                Ok((old, p.account()?))
            })?));
        }
        if self.eat_any_kw(&[Kw::TABLE, Kw::TABLES]).is_none() {
            return self.error();
        }
        Ok(Statement::RenameTable(self.comma_list(|p| {
            let old = p.table_name()?;
            p.expect_kw(Kw::TO)?;
            Ok((old, p.table_name()?))
        })?))
    }
}
