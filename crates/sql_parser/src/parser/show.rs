//! SHOW, DESCRIBE, EXPLAIN.

use super::super::ast::{
    Account, EngineReport, Explain, ExplainTarget, Ident, Limit, ProgramKind, Show, ShowFilter,
    ShowWhat, Statement, TableName, VarScope,
};
use super::super::keyword::Keyword as Kw;
use super::super::token::TokenKind as K;
use super::{PResult, Parser};

impl<'a> Parser<'a> {
    /// Parses SHOW from the keyword on.
    pub(super) fn show(&mut self) -> PResult<Statement<'a>> {
        self.advance();
        let mut limit: Option<&'a Limit<'a>> = None;
        let what = match self.token.keyword {
            Kw::CREATE => self.show_create()?,
            Kw::WARNINGS | Kw::ERRORS => {
                let warnings = self.advance().keyword == Kw::WARNINGS;
                limit = self.opt_limit()?;
                if warnings {
                    ShowWhat::Warnings
                } else {
                    ShowWhat::Errors
                }
            }
            Kw::BINLOG => {
                let what = self.show_binlog_events()?;
                limit = self.opt_limit()?;
                what
            }
            Kw::EXTENDED | Kw::FULL => self.show_modified()?,
            Kw::GLOBAL | Kw::SESSION | Kw::LOCAL | Kw::VARIABLES | Kw::STATUS => {
                self.show_scoped()?
            }
            Kw::ENGINE => self.show_engine()?,
            _ => {
                let what = self.show_unmodified()?;
                if matches!(what, ShowWhat::HotKeys(_)) {
                    limit = self.opt_limit()?;
                }
                what
            }
        };
        let filter = if self.eat_kw(Kw::LIKE) {
            ShowFilter::Like(self.string()?)
        } else if self.eat_kw(Kw::WHERE) {
            ShowFilter::Where(self.expr()?)
        } else {
            ShowFilter::None
        };
        Ok(Statement::Show(self.alloc(Show {
            what,
            filter,
            limit,
        })))
    }

    /// An optional `FROM db` or `IN db`.
    fn opt_from_schema(&mut self) -> PResult<Option<Ident<'a>>> {
        if self.eat_any_kw(&[Kw::FROM, Kw::IN]).is_some() {
            self.ident().map(Some)
        } else {
            Ok(None)
        }
    }

    /// `FROM t [FROM db]`
    fn table_after_from(&mut self) -> PResult<TableName<'a>> {
        if self.eat_any_kw(&[Kw::FROM, Kw::IN]).is_none() {
            return self.error();
        }
        let mut table = self.table_name()?;
        if let Some(schema) = self.opt_from_schema()? {
            table.schema = Some(schema);
        }
        Ok(table)
    }

    /// Parses SHOW with EXTENDED or FULL.
    fn show_modified(&mut self) -> PResult<ShowWhat<'a>> {
        let extended = self.eat_kw(Kw::EXTENDED);
        let full = self.eat_kw(Kw::FULL);
        match self.token.keyword {
            Kw::PROCESSLIST if !extended => {
                self.advance();
                Ok(ShowWhat::Processlist(true))
            }
            Kw::TABLES | Kw::COLUMNS | Kw::FIELDS => self.show_tables_columns(extended, full),
            Kw::INDEX | Kw::INDEXES | Kw::KEYS if !full => self.show_index(extended),
            _ => self.error(),
        }
    }

    fn show_tables_columns(&mut self, extended: bool, full: bool) -> PResult<ShowWhat<'a>> {
        if self.advance().keyword == Kw::TABLES {
            return Ok(ShowWhat::Tables {
                extended,
                full,
                schema: self.opt_from_schema()?,
            });
        }
        Ok(ShowWhat::Columns {
            extended,
            full,
            table: self.table_after_from()?,
        })
    }

    fn show_index(&mut self, extended: bool) -> PResult<ShowWhat<'a>> {
        self.advance();
        Ok(ShowWhat::Index {
            extended,
            table: self.table_after_from()?,
        })
    }

    /// Parses SHOW VARIABLES and SHOW STATUS, with or without a scope.
    fn show_scoped(&mut self) -> PResult<ShowWhat<'a>> {
        let scope = match self.eat_any_kw(&[Kw::GLOBAL, Kw::SESSION, Kw::LOCAL]) {
            Some(Kw::GLOBAL) => VarScope::Global,
            Some(_) => VarScope::Session,
            None => VarScope::Default,
        };
        match self.eat_any_kw(&[Kw::VARIABLES, Kw::STATUS]) {
            Some(Kw::VARIABLES) => Ok(ShowWhat::Variables(scope)),
            Some(_) => Ok(ShowWhat::Status(scope)),
            None => self.error(),
        }
    }

    fn show_engine(&mut self) -> PResult<ShowWhat<'a>> {
        self.advance();
        let name = self.any_word()?;
        let report = match self.eat_any_kw(&[Kw::STATUS, Kw::MUTEX, Kw::LOGS]) {
            Some(Kw::STATUS) => EngineReport::Status,
            Some(Kw::MUTEX) => EngineReport::Mutex,
            Some(_) => EngineReport::Logs,
            None => return self.error(),
        };
        Ok(ShowWhat::Engine(name, report))
    }

    /// Parses SHOW without a modifier.
    fn show_unmodified(&mut self) -> PResult<ShowWhat<'a>> {
        let next = self.peek().keyword;
        let keyword = self.token.keyword;
        if next == Kw::KEY && self.is_word("MEMCACHED") {
            self.advance_two();
            return Ok(ShowWhat::KeyMapping(self.string()?));
        }
        if next == Kw::KEYS && self.is_word("HOT") {
            return self.show_hot_keys();
        }
        match keyword {
            Kw::TABLE if next == Kw::STATUS => {
                self.advance_two();
                return Ok(ShowWhat::TableStatus(self.opt_from_schema()?));
            }
            Kw::OPEN if next == Kw::TABLES => {
                self.advance_two();
                return Ok(ShowWhat::OpenTables(self.opt_from_schema()?));
            }
            Kw::TABLES | Kw::COLUMNS | Kw::FIELDS => return self.show_tables_columns(false, false),
            Kw::INDEX | Kw::INDEXES | Kw::KEYS => return self.show_index(false),
            Kw::COUNT => return self.show_count(),
            Kw::CHARACTER | Kw::CHARSET | Kw::CHAR if self.eat_charset_words() => {
                return Ok(ShowWhat::Charset);
            }
            Kw::GRANTS => {
                self.advance();
                let account = if self.eat_kw(Kw::FOR) {
                    Some(self.account()?)
                } else {
                    None
                };
                let using: &[Account<'a>] = if account.is_some() && self.eat_kw(Kw::USING) {
                    self.comma_list(Self::account)?
                } else {
                    &[]
                };
                return Ok(ShowWhat::Grants(account, using));
            }
            Kw::TRIGGERS => {
                self.advance();
                return Ok(ShowWhat::Triggers(self.opt_from_schema()?));
            }
            Kw::EVENTS => {
                self.advance();
                return Ok(ShowWhat::Events(self.opt_from_schema()?));
            }
            Kw::PROCEDURE | Kw::FUNCTION => return self.show_program(),
            Kw::STORAGE if next == Kw::ENGINES => {
                self.advance_two();
                return Ok(ShowWhat::Engines);
            }
            Kw::MASTER | Kw::BINARY | Kw::REPLICA | Kw::SLAVE => return self.show_replication(),
            _ => {}
        }
        let what = match keyword {
            Kw::DATABASES | Kw::SCHEMAS => ShowWhat::Databases,
            Kw::PROCESSLIST => ShowWhat::Processlist(false),
            Kw::ENGINES => ShowWhat::Engines,
            Kw::COLLATION => ShowWhat::Collation,
            Kw::PRIVILEGES => ShowWhat::Privileges,
            Kw::PLUGINS => ShowWhat::Plugins,
            Kw::REPLICAS => ShowWhat::Replicas,
            Kw::PROFILES => ShowWhat::Profiles,
            Kw::PROFILE => ShowWhat::Profile,
            _ => return self.error(),
        };
        self.advance();
        Ok(what)
    }

    /// `HOT KEYS [FROM t]`
    fn show_hot_keys(&mut self) -> PResult<ShowWhat<'a>> {
        self.advance_two();
        let names_table = matches!(self.token.keyword, Kw::FROM | Kw::IN);
        let table = names_table.then(|| self.table_after_from()).transpose()?;
        Ok(ShowWhat::HotKeys(table))
    }

    /// Consumes two tokens that have been examined.
    fn advance_two(&mut self) {
        self.advance();
        self.advance();
    }

    /// `COUNT(*) WARNINGS`
    fn show_count(&mut self) -> PResult<ShowWhat<'a>> {
        self.advance();
        self.expect(K::LeftParen)?;
        self.expect(K::Star)?;
        self.expect(K::RightParen)?;
        match self.eat_any_kw(&[Kw::WARNINGS, Kw::ERRORS]) {
            Some(Kw::WARNINGS) => Ok(ShowWhat::CountWarnings),
            Some(_) => Ok(ShowWhat::CountErrors),
            None => self.error(),
        }
    }

    fn show_program(&mut self) -> PResult<ShowWhat<'a>> {
        let kind = match self.advance().keyword {
            Kw::PROCEDURE => ProgramKind::Procedure,
            _ => ProgramKind::Function,
        };
        match self.eat_any_kw(&[Kw::STATUS, Kw::CODE]) {
            Some(Kw::STATUS) => Ok(ShowWhat::ProgramStatus(kind)),
            Some(_) => Ok(ShowWhat::ProgramCode(kind, self.table_name()?)),
            None => self.error(),
        }
    }

    fn show_replication(&mut self) -> PResult<ShowWhat<'a>> {
        let first = self.advance().keyword;
        let second = self.advance().keyword;
        Ok(match (first, second) {
            (Kw::MASTER, Kw::STATUS) => ShowWhat::BinaryLogStatus,
            (Kw::BINARY, _) if self.is_kw(Kw::STATUS) => {
                self.advance();
                ShowWhat::BinaryLogStatus
            }
            (Kw::MASTER | Kw::BINARY, Kw::LOGS) => ShowWhat::BinaryLogs,
            (Kw::REPLICA | Kw::SLAVE, Kw::STATUS) => {
                self.opt_channel()?;
                ShowWhat::ReplicaStatus(first == Kw::SLAVE)
            }
            (Kw::SLAVE, Kw::HOSTS) => ShowWhat::Replicas,
            _ => return self.error(),
        })
    }

    fn show_binlog_events(&mut self) -> PResult<ShowWhat<'a>> {
        self.advance();
        self.expect_kw(Kw::EVENTS)?;
        let log = if self.eat_kw(Kw::IN) {
            Some(self.string()?)
        } else {
            None
        };
        let position = if self.eat_kw(Kw::FROM) {
            Some(self.uint()?)
        } else {
            None
        };
        Ok(ShowWhat::BinlogEvents(log, position))
    }

    /// Parses SHOW CREATE from the keyword CREATE on.
    fn show_create(&mut self) -> PResult<ShowWhat<'a>> {
        self.advance();
        let keyword = self.advance().keyword;
        Ok(match keyword {
            Kw::TABLE => ShowWhat::CreateTable(self.table_name()?),
            Kw::VIEW => ShowWhat::CreateView(self.table_name()?),
            Kw::DATABASE | Kw::SCHEMA => ShowWhat::CreateDatabase {
                if_not_exists: self.if_not_exists()?,
                name: self.ident()?,
            },
            Kw::PROCEDURE => ShowWhat::CreateProgram(ProgramKind::Procedure, self.table_name()?),
            Kw::FUNCTION => ShowWhat::CreateProgram(ProgramKind::Function, self.table_name()?),
            Kw::TRIGGER => ShowWhat::CreateProgram(ProgramKind::Trigger, self.table_name()?),
            Kw::EVENT => ShowWhat::CreateProgram(ProgramKind::Event, self.table_name()?),
            Kw::USER => ShowWhat::CreateUser(self.account()?),
            _ => return self.error(),
        })
    }

    /// Parses DESCRIBE, DESC or EXPLAIN from the keyword on.
    pub(super) fn explain(&mut self) -> PResult<Statement<'a>> {
        self.advance();
        let mut explain = Explain {
            analyze: false,
            format: None,
            target: ExplainTarget::Connection(0),
        };
        let next = self.peek().keyword;
        let table_named = self.is_ident()
            && !self.is_kw(Kw::FORMAT)
            && !(self.is_any_kw(&[Kw::EXTENDED, Kw::PARTITIONS])
                && matches!(
                    next,
                    Kw::SELECT | Kw::INSERT | Kw::UPDATE | Kw::DELETE | Kw::REPLACE
                ));
        if table_named {
            return self.describe();
        }
        explain.analyze = self.eat_kw(Kw::ANALYZE);
        self.eat_any_kw(&[Kw::EXTENDED, Kw::PARTITIONS]);
        if self.eat_kw(Kw::FORMAT) {
            self.expect(K::Eq)?;
            explain.format = Some(self.ident_or_string()?);
        }
        if self.eat_kw2(Kw::FOR, Kw::CONNECTION) {
            explain.target = ExplainTarget::Connection(self.uint()?);
            return Ok(Statement::Explain(self.alloc(explain)));
        }
        let explainable = self.is(K::LeftParen)
            || self.is_any_kw(&[
                Kw::SELECT,
                Kw::INSERT,
                Kw::UPDATE,
                Kw::DELETE,
                Kw::REPLACE,
                Kw::WITH,
                Kw::TABLE,
                Kw::VALUES,
            ]);
        if !explainable {
            return self.error();
        }
        explain.target = ExplainTarget::Statement(self.statement()?);
        Ok(Statement::Explain(self.alloc(explain)))
    }

    fn describe(&mut self) -> PResult<Statement<'a>> {
        let table = self.table_name()?;
        let column = if self.is(K::String) {
            Some(self.string()?)
        } else if self.is_ident() {
            Some(self.ident()?.name.as_bytes())
        } else {
            None
        };
        Ok(Statement::Describe { table, column })
    }
}
