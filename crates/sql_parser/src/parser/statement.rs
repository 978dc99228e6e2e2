//! Statements: selection of the rule by the first keyword.

use super::super::Parsed;
use super::super::ast::Statement;
use super::super::error::{ParseError, ParseErrorKind};
use super::super::keyword::Keyword as Kw;
use super::super::token::TokenKind as K;
use super::{PResult, Parser};

impl<'a> Parser<'a> {
    /// Parses one statement, up to its end.
    pub(crate) fn parse_one(&mut self) -> PResult<Parsed<'a>> {
        if self.token.ends_statement() {
            return Err(ParseError::new(ParseErrorKind::Empty, self.token.span()));
        }
        let start = self.offset() as usize;
        let statement = self.statement()?;
        let end = self.last_end() as usize;
        let mut rest = None;
        if self.eat(K::Semicolon) {
            let after = self.last_end() as usize;
            rest = (!self.is(K::End)).then_some(after);
        } else if !self.is(K::End) {
            return self.error();
        }
        if let Some(list) = self.literals
            && self.params() as usize != list.len()
        {
            return Err(ParseError {
                kind: ParseErrorKind::NotParametric,
                offset: start as u32,
            });
        }
        Ok(Parsed {
            statement,
            params: self.params(),
            start,
            end,
            rest,
            deprecated: self.take_deprecated(),
        })
    }

    /// A statement.
    pub(super) fn statement(&mut self) -> PResult<Statement<'a>> {
        let keyword = self.token.keyword;
        match keyword {
            Kw::SELECT | Kw::TABLE | Kw::VALUES => Ok(Statement::Query(self.query_expr()?)),
            Kw::INSERT | Kw::REPLACE => self.insert(),
            Kw::UPDATE => self.update(None),
            Kw::DELETE => self.delete(None),
            Kw::WITH => self.with_statement(),
            Kw::NONE if self.is(K::LeftParen) => Ok(Statement::Query(self.query_expr()?)),
            Kw::BEGIN => self.begin(),
            Kw::START | Kw::RESET if self.is_replica_next() => self.replica(),
            Kw::NONE if self.is_word("STOP") && self.is_replica_next() => self.replica(),
            Kw::CHANGE => self.change_replication(),
            Kw::START => self.start_transaction(),
            Kw::COMMIT => self.commit(),
            Kw::ROLLBACK => self.rollback(),
            Kw::SAVEPOINT | Kw::RELEASE => self.savepoint(),
            Kw::SET => self.set(),
            Kw::SHOW => self.show(),
            Kw::DESCRIBE | Kw::DESC | Kw::EXPLAIN => self.explain(),
            Kw::CREATE => self.create(),
            Kw::ALTER => self.alter(),
            Kw::DROP => self.drop_statement(),
            Kw::RENAME => self.rename(),
            Kw::PREPARE => self.prepare(),
            Kw::EXECUTE => self.execute(),
            Kw::DEALLOCATE => self.deallocate(),
            Kw::KILL => self.kill(),
            Kw::BACKUP => self.backup(),
            Kw::LOCK => self.lock(),
            Kw::UNLOCK => self.unlock(),
            Kw::GRANT | Kw::REVOKE => self.grant(),
            Kw::ANALYZE | Kw::CHECK | Kw::OPTIMIZE | Kw::REPAIR | Kw::CHECKSUM => self.maintain(),
            Kw::FLUSH => self.flush(),
            Kw::XA => self.xa(),
            Kw::LOAD => self.load_data(),
            Kw::HANDLER => self.handler(),
            Kw::DO => self.do_statement(),
            Kw::CALL => self.call_statement(),
            Kw::SIGNAL | Kw::RESIGNAL => self.signal(),
            Kw::GET => self.get_diagnostics(),
            Kw::NONE if self.eat_word("RESTART") => Ok(Statement::Restart),
            _ => self.minor_statement(),
        }
    }

    /// WITH, before SELECT, UPDATE or DELETE.
    fn with_statement(&mut self) -> PResult<Statement<'a>> {
        let start = self.offset();
        let with = self.with()?;
        match self.token.keyword {
            Kw::UPDATE => self.update(Some(with)),
            Kw::DELETE => self.delete(Some(with)),
            _ => Ok(Statement::Query(self.query_with(with, start)?)),
        }
    }
}
