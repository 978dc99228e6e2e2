//! Parses the statements of a replica, with the words of MySQL 8.4, older ones and MariaDB's.

use super::super::ast::{
    FilterItem, FilterRule, Ident, ReplicaStatement, SourceOption, SourceValue, Statement,
};
use super::super::keyword::Keyword as Kw;
use super::super::token::TokenKind as K;
use super::{PResult, Parser};

impl<'a> Parser<'a> {
    /// Parses CHANGE REPLICATION SOURCE TO, CHANGE MASTER TO and CHANGE REPLICATION FILTER; the current token is
    /// CHANGE.
    pub(super) fn change_replication(&mut self) -> PResult<Statement<'a>> {
        self.advance();
        if !self.eat_kw(Kw::MASTER) {
            self.expect_kw(Kw::REPLICATION)?;
            if self.eat_word("FILTER") {
                let rules = self.comma_list(Self::filter_rule)?;
                self.opt_channel()?;
                return Ok(Statement::Replica(ReplicaStatement::ChangeFilter(rules)));
            }
            self.expect_kw(Kw::SOURCE)?;
        }
        self.expect_kw(Kw::TO)?;
        let options = self.comma_list(Self::source_option)?;
        self.opt_channel()?;
        Ok(Statement::Replica(ReplicaStatement::ChangeSource(options)))
    }

    /// Whether the token after START, STOP or RESET is REPLICA or SLAVE.
    pub(super) fn is_replica_next(&mut self) -> bool {
        matches!(self.peek().keyword, Kw::REPLICA | Kw::SLAVE)
    }

    /// Parses START REPLICA, STOP REPLICA and RESET REPLICA; the current token is the verb.
    pub(super) fn replica(&mut self) -> PResult<Statement<'a>> {
        let is_start = self.is_kw(Kw::START);
        let is_reset = self.is_kw(Kw::RESET);
        self.advance();
        self.advance();
        let statement = if is_reset {
            ReplicaStatement::Reset {
                all: self.eat_kw(Kw::ALL),
            }
        } else {
            let is_bare =
                self.token.ends_statement() || self.is_kw(Kw::FOR) || self.is_kw(Kw::UNTIL);
            let threads = if is_bare {
                &[]
            } else {
                self.comma_list(Self::replica_thread)?
            };
            if is_start {
                let until = if self.eat_kw(Kw::UNTIL) {
                    self.comma_list(Self::source_option)?
                } else {
                    &[]
                };
                ReplicaStatement::Start { threads, until }
            } else {
                ReplicaStatement::Stop(threads)
            }
        };
        self.opt_channel()?;
        Ok(Statement::Replica(statement))
    }

    fn replica_thread(&mut self) -> PResult<Ident<'a>> {
        if self.is_word("IO_THREAD") || self.is_word("SQL_THREAD") {
            self.any_word()
        } else {
            self.error()
        }
    }

    /// FOR CHANNEL; there is only the one without a name.
    pub(super) fn opt_channel(&mut self) -> PResult<()> {
        if !self.eat_kw(Kw::FOR) {
            return Ok(());
        }
        if !self.eat_word("CHANNEL") {
            return self.error();
        }
        let at = self.token.span();
        match self.string()? {
            b"" => Ok(()),
            _ => self.error_at(at),
        }
    }

    fn source_option(&mut self) -> PResult<SourceOption<'a>> {
        let name = self.any_word()?;
        self.expect(K::Eq)?;
        let value = match self.token.kind {
            K::String | K::NationalString => SourceValue::Text(self.string()?),
            K::Int | K::Decimal => {
                let token = self.advance();
                SourceValue::Number(self.str_of(token.span())?)
            }
            K::LeftParen => SourceValue::Numbers(self.paren_list_or_empty(Self::uint)?),
            _ => SourceValue::Word(self.any_word()?),
        };
        Ok(SourceOption { name, value })
    }

    fn filter_rule(&mut self) -> PResult<FilterRule<'a>> {
        let name = self.any_word()?;
        self.expect(K::Eq)?;
        Ok(FilterRule {
            name,
            items: self.paren_list_or_empty(Self::filter_item)?,
        })
    }

    fn filter_item(&mut self) -> PResult<FilterItem<'a>> {
        if self.is(K::String) {
            return Ok(FilterItem::Pattern(self.string()?));
        }
        if self.eat(K::LeftParen) {
            let from = self.ident()?;
            self.expect(K::Comma)?;
            let to = self.ident()?;
            self.expect(K::RightParen)?;
            return Ok(FilterItem::Rewrite(from, to));
        }
        let first = self.ident()?;
        Ok(if self.eat(K::Period) {
            FilterItem::Table(first, self.ident()?)
        } else {
            FilterItem::Database(first)
        })
    }
}
