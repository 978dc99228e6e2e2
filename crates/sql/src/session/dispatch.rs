//! Dispatch of a parsed statement to the module that executes it.

use super::create::Variables;
use super::{Outcome, SqlSession, lex_mode, maintenance};
use crate::audit::{AuditClass, AuditedStatement, TextShape, reported_text};
use crate::statements::phases::Phase;
use crate::{privileges, status, users};
use bumpalo::Bump;
use porpoise_access::Privileges;
use porpoise_sql_exec::exec::ResultSink;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{MaintainKind, ProgramKind, ShowWhat, Statement, TableName};
use porpoise_sql_parser::{ParseErrorKind, ParseOptions, parse_one};
use porpoise_sql_plan::plan::planned::Planned;
use porpoise_types::{ColumnType, ValueRef};
use std::sync::Arc;

impl SqlSession {
    /// Parses and executes the first statement of `text`.
    pub(super) fn query_in(
        &mut self,
        arena: &Bump,
        text: &[u8],
        multi: bool,
        sink: &mut dyn ResultSink,
    ) -> Result<Outcome> {
        if !self.cx.password_expired
            && let Some(result) = self.query_cached(arena, text, multi, sink)
        {
            return result;
        }
        let options = ParseOptions {
            mode: lex_mode(self.cx.settings.mode),
            ..ParseOptions::default()
        };
        let parsing = self.begin_phase();
        let parsed = parse_one(arena, text, 0, &options);
        self.end_phase(Phase::Parse, parsing);
        let parsed = match parsed {
            Ok(parsed) => parsed,
            // As in MySQL, a text of nothing but comments is a statement without effect.
            Err(error) if error.kind == ParseErrorKind::Empty && has_comment(text) => {
                return Ok(Outcome::default());
            }
            Err(error) => return Err(SqlError::syntax(&error, text)),
        };
        self.cx.env.memory.note_arena(arena)?;
        self.cx.warn_deprecated(parsed.deprecated);
        if let (false, Some(rest)) = (multi, parsed.rest) {
            return Err(SqlError::syntax_at(text, rest));
        }
        if parsed.params > 0 {
            let at = memchr::memchr(b'?', text).unwrap_or(parsed.start);
            return Err(SqlError::syntax_at(text, at));
        }
        self.statement_end = parsed.rest.map(|_| (parsed.start, parsed.end));
        let outcome = self.statement(&parsed.statement, text, &[], &[], sink);
        self.statement_end = None;
        outcome.map(|mut outcome| {
            outcome.rest = parsed.rest;
            outcome
        })
    }

    /// Executes a parsed statement, and reports it to the audit log if it is of a reported class.
    pub(super) fn statement(
        &mut self,
        statement: &Statement<'_>,
        text: &[u8],
        values: &[ValueRef<'_>],
        types: &[ColumnType],
        sink: &mut dyn ResultSink,
    ) -> Result<Outcome> {
        let audit = self.cx.server.audit().cloned();
        let class = audit.as_ref().and_then(|_| AuditClass::of(statement));
        let (Some(audit), Some(class)) = (audit, class) else {
            return self.execute_statement(statement, text, values, types, sink);
        };
        audit.check()?;
        let result = self.execute_statement(statement, text, values, types, sink);
        let shape = TextShape {
            is_program: matches!(
                statement,
                Statement::CreateRoutine(_) | Statement::CreateTrigger(_) | Statement::Event(_)
            ),
            hides: users::mentions_password(text),
        };
        let mode = lex_mode(self.cx.settings.mode);
        audit.statement(&AuditedStatement {
            class,
            connection: self.cx.client.connection_id,
            user: &self.cx.client.user,
            host: &self.cx.client.host,
            account: &self.cx.env.account,
            database: self.cx.env.database.as_deref(),
            text: &reported_text(text, mode, shape),
            error: result.as_ref().map_or_else(|error| error.code, |_| 0),
        });
        result
    }

    fn execute_statement(
        &mut self,
        statement: &Statement<'_>,
        text: &[u8],
        values: &[ValueRef<'_>],
        types: &[ColumnType],
        sink: &mut dyn ResultSink,
    ) -> Result<Outcome> {
        if let Some(counter) = status::of_statement(statement) {
            self.cx.counters.add(counter, 1);
        }
        self.check_account(statement)?;
        self.check_requirements(statement)?;
        self.check_nested(statement)?;
        self.note_logged(statement, text);
        match statement {
            Statement::Query(query) if query.into.is_some() => match query.into {
                Some(into) => self.select_into(query, into, text, values, types),
                None => Err(SqlError::internal("no variables")),
            },
            Statement::Query(_)
            | Statement::Insert(_)
            | Statement::Update(_)
            | Statement::Delete(_) => self.run_statement(statement, text, values, types, sink),
            Statement::Set(items) => self.set(items, values, types),
            Statement::Begin(start) => {
                self.unlock_tables()?;
                self.start_transaction(start)
            }
            Statement::Commit(completion) => self.commit_statement(completion),
            Statement::Rollback(completion) => self.rollback_statement(completion),
            Statement::Savepoint(name) => self.savepoint(name.name),
            Statement::RollbackTo(name) => self.rollback_to(name.name),
            Statement::ReleaseSavepoint(name) => self.release_savepoint(name.name),
            Statement::SetTransaction(set) => self.set_transaction(set),
            Statement::Use(name) => {
                self.use_db(name.name)?;
                Ok(Outcome::default())
            }
            Statement::Show(show) => {
                if matches!(
                    show.what,
                    ShowWhat::Warnings
                        | ShowWhat::Errors
                        | ShowWhat::CountWarnings
                        | ShowWhat::CountErrors
                ) {
                    self.cx.diagnostics.retain_list();
                }
                crate::show::show(&mut self.cx, show, values, types, sink)
            }
            Statement::Describe { table, column } => {
                crate::show::describe(&mut self.cx, table, *column, sink)
            }
            Statement::Explain(explain) => self.explain(explain, text, types, values, sink),
            Statement::Do(list) => self.do_list(list, text, values, types),
            Statement::LoadData(load) => self.load_data(load, text, sink),
            _ => self.other_statement(statement, text, values, types, sink),
        }
    }

    /// Plans a statement and executes it.
    pub(super) fn run_statement(
        &mut self,
        statement: &Statement<'_>,
        text: &[u8],
        values: &[ValueRef<'_>],
        types: &[ColumnType],
        sink: &mut dyn ResultSink,
    ) -> Result<Outcome> {
        let _deadline = self.arm_planning(statement)?;
        let plan = self.plan_and_lock(|session, catalog| {
            let plan = session.plan(statement, text, types, catalog)?;
            plan.map(Arc::new)
                .ok_or_else(|| SqlError::internal("no plan"))
        })?;
        self.run_shown_plan(&plan, values, sink)
    }

    /// Executes the statements that [`Self::statement`] leaves out.
    fn other_statement(
        &mut self,
        statement: &Statement<'_>,
        text: &[u8],
        values: &[ValueRef<'_>],
        types: &[ColumnType],
        sink: &mut dyn ResultSink,
    ) -> Result<Outcome> {
        match statement {
            Statement::CreateDatabase(_)
            | Statement::AlterDatabase(_)
            | Statement::DropDatabase { .. }
            | Statement::CreateTable(_)
            | Statement::RenameTable(_)
            | Statement::DropTable(_)
            | Statement::Truncate(_)
            | Statement::CreateIndex(_)
            | Statement::DropIndex(_) => self.define(statement, text, &Variables { values, types }),
            Statement::AlterTable(alter) => match maintenance::clause(alter) {
                Some(clause) => self.maintain_partitions(alter, clause, sink),
                None => self.define(statement, text, &Variables { values, types }),
            },
            Statement::User(_)
            | Statement::DropUser { .. }
            | Statement::RenameUser(_)
            | Statement::SetPassword(_)
            | Statement::Role { .. }
            | Statement::Grant(_) => self.account_statement(statement, sink),
            Statement::SetRole(set) if set.default_to.is_empty() => {
                users::roles::activate(&mut self.cx, &set.roles)
            }
            Statement::SetRole(_) => self.account_statement(statement, sink),
            Statement::Prepare { name, source } => self.prepare_named(name.name, source),
            Statement::Execute { name, using } => self.execute_named(name.name, using, sink),
            Statement::Deallocate(name) => self.deallocate(name.name),
            Statement::Kill { query, id } => {
                let (id, _) = self.value_of(id, values, types)?;
                self.kill(*query, id.as_ref())
            }
            Statement::Maintain(maintain) => match &maintain.histogram {
                Some(clause) => self.histogram(maintain.tables, clause, sink),
                None if maintain.kind == MaintainKind::Checksum => self.checksum(maintain, sink),
                None => self.maintain(maintain, sink),
            },
            Statement::Xa(xa) => self.xa(xa, sink),
            Statement::LockTables(tables) => self.lock_tables(tables),
            Statement::Handler(handler) => self.handler(handler, sink),
            Statement::UnlockTables => self.unlock_all_tables(),
            Statement::Backup(backup) => self.backup(backup, sink),
            Statement::Replica(statement) => self.replica_statement(statement),
            Statement::LockInstance(locks) => self.lock_instance(*locks),
            Statement::Flush(flush) => self.flush(flush),
            Statement::Purge(purge) => self.purge_logs(purge, values, types),
            Statement::CreateView(create) => self.create_view(create, text),
            Statement::DropView(drop) => self.drop_views(drop),
            Statement::CreateRoutine(create) => self.create_routine(create, text),
            Statement::CreateTrigger(create) => self.create_trigger(create, text),
            Statement::AlterRoutine(alter) => self.alter_routine(alter),
            Statement::Event(event) => self.event(event, text),
            Statement::Call(call) => self.call(call, values, types, sink),
            Statement::Signal(signal) => self.signal(signal, values, types),
            Statement::GetDiagnostics(get) => self.get_diagnostics(get, values, types),
            Statement::DropProgram {
                kind,
                if_exists,
                name,
            } => self.drop_program(*kind, *if_exists, name),
            other => self.server_statement(other),
        }
    }

    /// Executes a statement on the server as a whole.
    fn server_statement(&mut self, statement: &Statement<'_>) -> Result<Outcome> {
        match statement {
            Statement::Reset([first, rest @ ..]) if first.name.eq_ignore_ascii_case("PERSIST") => {
                self.reset_persist(rest)
            }
            Statement::Reset([first, ..])
                if ["MASTER", "BINARY"]
                    .iter()
                    .any(|word| first.name.eq_ignore_ascii_case(word)) =>
            {
                self.reset_binary_log()
            }
            Statement::Shutdown => self.shut_down(),
            other => Err(unsupported(other)),
        }
    }

    /// Commits the open transaction, then executes a statement on accounts, roles or grants.
    fn account_statement(
        &mut self,
        statement: &Statement<'_>,
        sink: &mut dyn ResultSink,
    ) -> Result<Outcome> {
        let before = self.begin_definition()?;
        let cx = &mut self.cx;
        let mut outcome = match statement {
            Statement::User(user) => users::user_statement(cx, user, sink),
            Statement::DropUser {
                if_exists,
                accounts,
            } => users::drop_users(cx, *if_exists, accounts),
            Statement::RenameUser(pairs) => users::rename_users(cx, pairs),
            Statement::SetPassword(set) => users::set_password(cx, set, sink),
            Statement::Role {
                create: true,
                if_clause,
                roles,
            } => users::roles::create(cx, *if_clause, roles),
            Statement::Role {
                create: false,
                if_clause,
                roles,
            } => users::roles::drop(cx, *if_clause, roles),
            Statement::SetRole(set) => users::roles::set_default_roles(cx, set),
            Statement::Grant(grant) => privileges::grant::grant(cx, grant),
            _ => Err(SqlError::internal("no statement on accounts")),
        }?;
        outcome.position = outcome.position.max(before);
        Ok(outcome)
    }

    /// SHUTDOWN.
    fn shut_down(&mut self) -> Result<Outcome> {
        if self.cx.server.begin_shutdown() {
            Ok(Outcome::default())
        } else {
            Err(SqlError::not_supported("SHUTDOWN"))
        }
    }

    fn kill(&mut self, query_only: bool, id: ValueRef<'_>) -> Result<Outcome> {
        let id = match id {
            ValueRef::Int(n) => u64::try_from(n).unwrap_or(u64::MAX),
            ValueRef::UInt(n) => n,
            _ => return Err(SqlError::wrong_arguments("KILL")),
        };
        self.check_may_kill(id)?;
        self.cx.server.kill(id, query_only)?;
        if id != self.cx.client.connection_id {
            return Ok(Outcome::default());
        }
        let mut error = SqlError::new(1317, "70100", "Query execution was interrupted");
        error.fatal = !query_only;
        Err(error)
    }

    /// Error 1095 for a session of another user, unless this session's account has CONNECTION_ADMIN,
    /// and also SYSTEM_USER if the other account has SYSTEM_USER (manual, "KILL Statement").
    fn check_may_kill(&self, id: u64) -> Result<()> {
        let sessions = self.cx.server.sessions();
        let Some(target) = sessions.iter().find(|p| p.id == id) else {
            return Ok(());
        };
        let rights = self.cx.rights();
        let data = self.cx.server.access.data();
        let is_system_user = || data.is_system_user(&target.account(&data));
        let allowed = target.user == self.cx.client.user
            || rights.global().has(Privileges::CONNECTION_ADMIN)
                && (rights.global().has(Privileges::SYSTEM_USER) || !is_system_user());
        if allowed {
            return Ok(());
        }
        let text = format!("You are not owner of thread {id}");
        Err(SqlError::new(1095, "HY000", text))
    }

    /// DROP PROCEDURE, FUNCTION, EVENT and TRIGGER.
    fn drop_program(
        &mut self,
        kind: ProgramKind,
        if_exists: bool,
        name: &TableName<'_>,
    ) -> Result<Outcome> {
        match kind {
            ProgramKind::Event => self.drop_event(if_exists, name),
            ProgramKind::Procedure | ProgramKind::Function => {
                self.drop_routine(kind, if_exists, name)
            }
            ProgramKind::Trigger => self.drop_trigger(if_exists, name),
        }
    }

    /// Error 1100: under LOCK TABLES only the locked tables can be used. Functions and triggers may
    /// use others, which MySQL locks with the tables that need them.
    pub(super) fn check_locked(&self, plan: &Planned) -> Result<()> {
        let Some(locks) = self
            .table_locks
            .as_ref()
            .filter(|_| self.programs.nested == 0)
        else {
            return Ok(());
        };
        for (table, writes) in &plan.tables {
            if !self.cx.temporary.contains_id(table.id) {
                locks.check(table, *writes)?;
            }
        }
        Ok(())
    }
}

/// The error for a statement that this server does not support.
fn unsupported(statement: &Statement<'_>) -> SqlError {
    let what = match statement {
        Statement::Reset(_) => "RESET",
        Statement::Binlog(_) => "BINLOG",
        Statement::ImportTable(_) => "IMPORT TABLE",
        Statement::Help(_) => "HELP",
        Statement::Restart => "RESTART",
        Statement::Plugin { .. } => "INSTALL PLUGIN",
        _ => "this statement",
    };
    SqlError::not_supported(what)
}

/// Whether a text without tokens has a comment.
fn has_comment(text: &[u8]) -> bool {
    let first = text.iter().find(|b| !b.is_ascii_whitespace());
    first.is_some_and(|b| *b != b';')
}
