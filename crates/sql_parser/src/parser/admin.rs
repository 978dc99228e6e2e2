//! Prepared statements, maintenance, FLUSH, KILL and the rest.

use super::super::ast::{
    Flush, FlushWhat, HistogramAction, HistogramClause, Maintain, MaintainKind, PrepareSource,
    Purge, Statement,
};
use super::super::keyword::Keyword as Kw;
use super::super::token::TokenKind as K;
use super::{PResult, Parser};

impl<'a> Parser<'a> {
    /// Parses PREPARE from the keyword on.
    pub(super) fn prepare(&mut self) -> PResult<Statement<'a>> {
        self.advance();
        let name = self.ident()?;
        self.expect_kw(Kw::FROM)?;
        let source = if self.is(K::UserVar) {
            PrepareSource::Var(self.user_var()?)
        } else {
            PrepareSource::Text(self.string()?)
        };
        Ok(Statement::Prepare { name, source })
    }

    /// Parses EXECUTE from the keyword on.
    pub(super) fn execute(&mut self) -> PResult<Statement<'a>> {
        self.advance();
        let name = self.ident()?;
        let using = if self.eat_kw(Kw::USING) {
            self.comma_list(Self::user_var)?
        } else {
            &[]
        };
        Ok(Statement::Execute { name, using })
    }

    /// Parses DEALLOCATE from the keyword on.
    pub(super) fn deallocate(&mut self) -> PResult<Statement<'a>> {
        self.advance();
        self.expect_kw(Kw::PREPARE)?;
        Ok(Statement::Deallocate(self.ident()?))
    }

    /// Parses KILL from the keyword on.
    pub(super) fn kill(&mut self) -> PResult<Statement<'a>> {
        self.advance();
        let word = self.eat_any_kw(&[Kw::QUERY, Kw::CONNECTION]);
        let id = self.expr()?;
        Ok(Statement::Kill {
            query: word == Some(Kw::QUERY),
            id: self.alloc(id),
        })
    }

    /// Parses ANALYZE, CHECK, OPTIMIZE, REPAIR, CHECKSUM from the keyword on.
    pub(super) fn maintain(&mut self) -> PResult<Statement<'a>> {
        let kind = match self.advance().keyword {
            Kw::ANALYZE => MaintainKind::Analyze,
            Kw::CHECK => MaintainKind::Check,
            Kw::OPTIMIZE => MaintainKind::Optimize,
            Kw::REPAIR => MaintainKind::Repair,
            _ => MaintainKind::Checksum,
        };
        let local = self
            .eat_any_kw(&[Kw::LOCAL, Kw::NO_WRITE_TO_BINLOG])
            .is_some();
        if self.eat_any_kw(&[Kw::TABLE, Kw::TABLES]).is_none() {
            return self.error();
        }
        let tables = self.table_names()?;
        let mut histogram = None;
        if kind == MaintainKind::Analyze && (self.is_kw(Kw::UPDATE) || self.is_kw(Kw::DROP)) {
            histogram = Some(self.histogram()?);
        }
        let mut options = self.list();
        loop {
            if self.eat_kw2(Kw::FOR, Kw::UPGRADE) {
                options.push("FOR UPGRADE");
                continue;
            }
            let words = [
                Kw::QUICK,
                Kw::FAST,
                Kw::MEDIUM,
                Kw::EXTENDED,
                Kw::CHANGED,
                Kw::USE_FRM,
            ];
            match self.eat_any_kw(&words) {
                Some(word) => options.push(word.name()),
                None => break,
            }
        }
        let maintain = Maintain {
            kind,
            local,
            tables,
            options: options.into_bump_slice(),
            histogram,
        };
        Ok(Statement::Maintain(self.alloc(maintain)))
    }

    /// `{UPDATE | DROP} HISTOGRAM`, at the first word.
    fn histogram(&mut self) -> PResult<HistogramClause<'a>> {
        let update = self.advance().keyword == Kw::UPDATE;
        self.expect_kw(Kw::HISTOGRAM)?;
        self.expect_kw(Kw::ON)?;
        let columns = self.comma_list(Self::ident)?;
        if !update {
            return Ok(HistogramClause {
                columns,
                action: HistogramAction::Drop,
            });
        }
        if self.eat_kw2(Kw::USING, Kw::DATA) {
            return Ok(HistogramClause {
                columns,
                action: HistogramAction::Load(self.string()?),
            });
        }
        let mut buckets = None;
        if self.eat_kw(Kw::WITH) {
            buckets = Some(self.uint()?);
            self.expect_kw(Kw::BUCKETS)?;
        }
        let word = self.eat_any_kw(&[Kw::AUTO, Kw::MANUAL]);
        if word.is_some() {
            self.expect_kw(Kw::UPDATE)?;
        }
        let auto_update = word.map(|word| word == Kw::AUTO);
        Ok(HistogramClause {
            columns,
            action: HistogramAction::Build {
                buckets,
                auto_update,
            },
        })
    }

    /// Parses FLUSH from the keyword on.
    pub(super) fn flush(&mut self) -> PResult<Statement<'a>> {
        self.advance();
        let local = self
            .eat_any_kw(&[Kw::LOCAL, Kw::NO_WRITE_TO_BINLOG])
            .is_some();
        let what = if self.eat_any_kw(&[Kw::TABLES, Kw::TABLE]).is_some() {
            let bare = self.token.ends_statement() || self.is_kw(Kw::WITH) || self.is_kw(Kw::FOR);
            let tables = if bare { &[] } else { self.table_names()? };
            let read_lock = self.eat_kw(Kw::WITH);
            if read_lock {
                self.expect_kw(Kw::READ)?;
                self.expect_kw(Kw::LOCK)?;
            }
            let export = !read_lock && self.eat_kw(Kw::FOR);
            if export {
                self.expect_kw(Kw::EXPORT)?;
            }
            FlushWhat::Tables {
                tables,
                read_lock,
                export,
            }
        } else {
            FlushWhat::Others(self.comma_list(Self::flush_word)?)
        };
        Ok(Statement::Flush(self.alloc(Flush { local, what })))
    }

    fn flush_word(&mut self) -> PResult<&'a str> {
        const LOGS: &[(Kw, &str)] = &[
            (Kw::BINARY, "BINARY LOGS"),
            (Kw::ENGINE, "ENGINE LOGS"),
            (Kw::ERROR, "ERROR LOGS"),
            (Kw::GENERAL, "GENERAL LOGS"),
            (Kw::RELAY, "RELAY LOGS"),
            (Kw::SLOW, "SLOW LOGS"),
        ];
        if let Some((_, words)) = LOGS.iter().find(|(word, _)| *word == self.token.keyword) {
            self.advance();
            self.expect_kw(Kw::LOGS)?;
            return Ok(words);
        }
        let single = [
            Kw::LOGS,
            Kw::HOSTS,
            Kw::PRIVILEGES,
            Kw::STATUS,
            Kw::USER_RESOURCES,
            Kw::OPTIMIZER_COSTS,
        ];
        match self.eat_any_kw(&single) {
            Some(word) => Ok(word.name()),
            None => self.error(),
        }
    }

    /// Statements of a few words.
    pub(super) fn minor_statement(&mut self) -> PResult<Statement<'a>> {
        let keyword = self.token.keyword;
        let known = matches!(
            keyword,
            Kw::USE
                | Kw::TRUNCATE
                | Kw::RESET
                | Kw::PURGE
                | Kw::BINLOG
                | Kw::IMPORT
                | Kw::HELP
                | Kw::SHUTDOWN
                | Kw::INSTALL
                | Kw::UNINSTALL
        );
        if !known {
            return self.error();
        }
        self.advance();
        match keyword {
            Kw::USE => Ok(Statement::Use(self.ident()?)),
            Kw::TRUNCATE => {
                self.eat_kw(Kw::TABLE);
                Ok(Statement::Truncate(self.table_name()?))
            }
            Kw::RESET => Ok(Statement::Reset(self.reset_words()?)),
            Kw::PURGE => self.purge(),
            Kw::BINLOG => Ok(Statement::Binlog(self.string()?)),
            Kw::IMPORT => {
                self.expect_kw(Kw::TABLE)?;
                self.expect_kw(Kw::FROM)?;
                Ok(Statement::ImportTable(self.comma_list(Self::string)?))
            }
            Kw::HELP => {
                let topic = if self.is(K::String) {
                    self.string()?
                } else {
                    self.any_word()?.name.as_bytes()
                };
                Ok(Statement::Help(topic))
            }
            Kw::SHUTDOWN => Ok(Statement::Shutdown),
            Kw::INSTALL => {
                self.expect_kw(Kw::PLUGIN)?;
                let name = self.ident()?;
                if !self.eat_word("SONAME") {
                    return self.error();
                }
                Ok(Statement::Plugin {
                    name,
                    soname: Some(self.string()?),
                })
            }
            Kw::UNINSTALL => {
                self.expect_kw(Kw::PLUGIN)?;
                Ok(Statement::Plugin {
                    name: self.ident()?,
                    soname: None,
                })
            }
            _ => self.error(),
        }
    }

    /// The words after RESET.
    /// The rest of PURGE BINARY LOGS, PURGE MASTER LOGS.
    fn purge(&mut self) -> PResult<Statement<'a>> {
        if self.eat_any_kw(&[Kw::BINARY, Kw::MASTER]).is_none() {
            return self.error();
        }
        self.expect_kw(Kw::LOGS)?;
        let purge = if self.eat_kw(Kw::BEFORE) {
            Purge::Before(self.expr()?)
        } else {
            self.expect_kw(Kw::TO)?;
            Purge::To(self.string()?)
        };
        Ok(Statement::Purge(self.alloc(purge)))
    }

    fn reset_words(&mut self) -> PResult<&'a [super::super::ast::Ident<'a>]> {
        let mut words = self.list();
        while self.is(K::Word) {
            words.push(self.any_word()?);
            self.eat(K::Comma);
        }
        if words.is_empty() {
            self.error()
        } else {
            Ok(words.into_bump_slice())
        }
    }
}
