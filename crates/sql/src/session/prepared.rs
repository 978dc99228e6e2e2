//! Prepared statements: of the protocol, and PREPARE, EXECUTE and DEALLOCATE.
//!
//! The text is kept. The plan is made at the first execution, when the types of the parameters are
//! known, and made again when these types or the [`PlanDependencies`] change: the definitions, the
//! SQL mode, the default database, and others.

use super::plan_cache::PlanDependencies;
use super::{Outcome, SqlSession, lex_mode};
use crate::context::StatementContext;
use crate::programs::program::Source;
use crate::statements::digests::DigestId;
use crate::statements::phases::Phase;
use crate::status::{self, Counter};
use bumpalo::Bump;
use porpoise_base::interrupt::Scope;
use porpoise_base::memory::MemoryCharge;
use porpoise_sql_exec::exec::ResultSink;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{Into, PrepareSource, Query, Statement};
use porpoise_sql_parser::token::Span;
use porpoise_sql_parser::{Literals, ParseOptions, Parsed, parse_one};
use porpoise_sql_plan::bind::nodes::variable_name;
use porpoise_sql_plan::plan::ResultColumn;
use porpoise_sql_plan::plan::planned::Planned;
use porpoise_types::{Collation, ColumnType, Value, ValueRef};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A parameter of an execution.
#[derive(Clone, Debug)]
pub struct Param<'a> {
    /// Its value.
    pub value: ValueRef<'a>,
    /// The type that the client declares.
    pub ty: ColumnType,
}

/// Metadata of a prepared statement for the client.
#[derive(Clone, Debug)]
pub struct PreparedInfo {
    /// Statement id within the session.
    pub id: u32,
    /// Number of parameters.
    pub params: usize,
    /// The columns of its result; empty if they are known only at execution (SHOW and the like).
    pub columns: Vec<ResultColumn>,
    /// Number of conditions that SHOW WARNINGS lists.
    pub warnings: u16,
}

/// Everything that a plan depends on, besides the text.
#[derive(Clone, Debug)]
pub(super) struct PlanKey {
    types: Vec<ColumnType>,
    dependencies: PlanDependencies,
}

impl PlanKey {
    pub(super) fn new(cx: &StatementContext, version: u64, types: &[ColumnType]) -> PlanKey {
        PlanKey {
            types: types.to_vec(),
            dependencies: PlanDependencies::of(cx, version),
        }
    }

    /// Whether a plan made under this key is still valid.
    pub(super) fn is_valid_for(
        &self,
        cx: &StatementContext,
        version: u64,
        types: &[ColumnType],
    ) -> bool {
        self.dependencies.still_hold(cx, version) && self.types == types
    }
}

/// A prepared statement.
pub struct Prepared {
    text: Arc<[u8]>,
    params: usize,
    /// `None` for a statement of a program.
    digest: Option<DigestId>,
    plan: Option<(PlanKey, Arc<Planned>)>,
    /// The outermost statement that ran it last in a function or trigger ([`Programs::outer_runs`]), for
    /// which the tables of its plan are published.
    ///
    /// [`Programs::outer_runs`]: super::programs::Programs::outer_runs
    published_for: Option<u64>,
    /// Positions of the variables that are its parameters, in a statement of a program.
    places: Option<Box<[Span]>>,
    _slot: Option<StatementSlot>,
    _charge: Option<MemoryCharge>,
}

impl Prepared {
    /// Discards the plan if the session's plans were discarded while the statement ran.
    fn forget_plan_unless(&mut self, still_valid: bool) {
        if !still_valid {
            self.plan = None;
        }
    }
}

/// Fixed memory of a prepared statement.
const STATEMENT_BYTES: usize = 2048;

/// Estimated memory of a plan and its text, for each byte of the text.
const BYTES_PER_TEXT_BYTE: usize = 10;

/// Estimated memory of a statement's text and plan.
pub(super) fn size_of_plan(text: &[u8]) -> usize {
    STATEMENT_BYTES + text.len().saturating_mul(BYTES_PER_TEXT_BYTE)
}

/// One of the prepared statements that the server allows; released when it is dropped.
struct StatementSlot(Arc<AtomicU64>);

impl StatementSlot {
    /// Takes a slot; error 1461 if `max` are in use.
    fn take(count: &Arc<AtomicU64>, max: u64) -> Result<StatementSlot> {
        let slot = StatementSlot(count.clone());
        if count.fetch_add(1, Ordering::Relaxed) < max {
            return Ok(slot);
        }
        let text = format!(
            "Can't create more than max_prepared_stmt_count statements (current value: {max})"
        );
        Err(SqlError::new(1461, "42000", text))
    }
}

impl Drop for StatementSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl SqlSession {
    /// COM_STMT_PREPARE.
    ///
    /// # Errors
    /// Errors of parsing and binding; 1461 if there are too many statements.
    pub fn prepare(&mut self, text: &[u8]) -> Result<PreparedInfo> {
        let _scope = Scope::enter(&self.cx.env.cancel);
        let text = self.decode(text).into_owned();
        self.begin_statement("Prepare", Some(&text));
        let prepared = self
            .check_password()
            .and_then(|()| self.prepare_text(&text));
        let info = prepared.map(|(statement, columns)| {
            let params = statement.params;
            let id = self.free_statement_id();
            self.statements.insert(id, statement);
            (id, params, columns)
        });
        let outcome = self.end_statement(
            info.as_ref()
                .map_or_else(|e| Err(e.clone()), |_| Ok(Outcome::default())),
        )?;
        let (id, params, columns) = info?;
        Ok(PreparedInfo {
            id,
            params,
            columns,
            warnings: outcome.warnings,
        })
    }

    fn free_statement_id(&mut self) -> u32 {
        while self.next_statement == 0 || self.statements.contains_key(&self.next_statement) {
            self.next_statement = self.next_statement.wrapping_add(1);
        }
        let id = self.next_statement;
        self.next_statement = self.next_statement.wrapping_add(1);
        id
    }

    fn prepare_text(&mut self, text: &[u8]) -> Result<(Prepared, Vec<ResultColumn>)> {
        let max = self.cx.server.globals.read().int("max_prepared_stmt_count");
        let slot = StatementSlot::take(&self.cx.server.prepared, max)?;
        let charge = self.cx.env.memory.charge(size_of_plan(text))?;
        self.cx.counters.add(Counter::StmtPrepare, 1);
        let arena = Bump::new();
        let parsed = self.parse_whole(&arena, text)?;
        self.cx.warn_deprecated(parsed.deprecated);
        if matches!(
            parsed.statement,
            Statement::Prepare { .. }
                | Statement::Execute { .. }
                | Statement::Deallocate(_)
                | Statement::LoadData(_)
                | Statement::Xa(_)
        ) {
            let text = "This command is not supported in the prepared statement protocol yet";
            return Err(SqlError::new(1295, "HY000", text));
        }
        let catalog = self.cx.catalog();
        let plan = self.plan(&parsed.statement, text, &[], &catalog)?;
        if let Some(plan) = &plan {
            self.cx.check_plan(plan)?;
        }
        let columns = plan.map(|p| p.plan.columns().to_vec()).unwrap_or_default();
        let prepared = Prepared {
            text: Arc::from(text),
            params: parsed.params as usize,
            digest: Some(super::statistics::number(text, &self.cx)),
            plan: None,
            places: None,
            published_for: None,
            _slot: Some(slot),
            _charge: charge,
        };
        Ok((prepared, columns))
    }

    /// Parses a text that must have exactly one statement.
    fn parse_whole<'a>(&self, arena: &'a Bump, text: &'a [u8]) -> Result<Parsed<'a>> {
        let options = ParseOptions {
            mode: lex_mode(self.cx.settings.mode),
            ..ParseOptions::default()
        };
        let parsing = self.begin_phase();
        let parsed = parse_one(arena, text, 0, &options).map_err(|e| SqlError::syntax(&e, text));
        self.end_phase(Phase::Parse, parsing);
        let parsed = parsed?;
        match parsed.rest {
            Some(rest) => Err(SqlError::syntax_at(text, rest)),
            None => Ok(parsed),
        }
    }

    /// Parses a prepared statement, or one of a program, whose variables are at these places and
    /// whose INTO is left to the program.
    fn parse_prepared<'a>(
        &self,
        arena: &'a Bump,
        text: &'a [u8],
        places: Option<&'a [Span]>,
    ) -> Result<Parsed<'a>> {
        let Some(places) = places else {
            return self.parse_whole(arena, text);
        };
        let options = ParseOptions {
            mode: lex_mode(self.cx.settings.mode),
            literals: Literals::Variables(places),
            ..ParseOptions::default()
        };
        let parsed = parse_one(arena, text, 0, &options);
        let mut parsed = parsed.map_err(|e| SqlError::syntax(&e, text))?;
        if let Statement::Query(query) = parsed.statement
            && matches!(query.into, Some(Into::Vars(_)))
        {
            let plain = Query {
                into: None,
                ..*query
            };
            parsed.statement = Statement::Query(arena.alloc(plain));
        }
        Ok(parsed)
    }

    /// A statement of a program.
    pub(super) fn prepared_source(&self, source: &Source) -> Result<Prepared> {
        let charge = self.cx.env.memory.charge(size_of_plan(&source.text))?;
        Ok(Prepared {
            text: source.text.clone(),
            params: source.places.len(),
            digest: None,
            plan: None,
            places: Some(source.places.clone()),
            published_for: None,
            _slot: None,
            _charge: charge,
        })
    }

    /// Runs a statement of a program.
    pub(super) fn run_program_statement(
        &mut self,
        prepared: &mut Prepared,
        values: &[ValueRef<'_>],
        types: &[ColumnType],
        sink: &mut dyn ResultSink,
    ) -> Result<Outcome> {
        if let Some(plan) = self.plan_still_valid(prepared, types)? {
            self.cx.counters.add(status::of_plan(&plan.plan), 1);
            return self.run_shown_plan(plan, values, sink);
        }
        let text = prepared.text.clone();
        self.make_plan_and_run(prepared, &text, values, types, sink)
    }

    /// COM_STMT_EXECUTE.
    ///
    /// # Errors
    /// 1243 if there is no such statement, 1210 if the number of parameters differs; errors of the
    /// statement.
    pub fn execute(
        &mut self,
        id: u32,
        params: &[Param<'_>],
        sink: &mut dyn ResultSink,
    ) -> Result<Outcome> {
        let _scope = Scope::enter(&self.cx.env.cancel);
        self.begin_statement("Execute", None);
        self.begin_trace(b"");
        self.cx.counters.add(Counter::Questions, 1);
        let epoch = self.programs.plan_epoch;
        let result = match self.statements.remove(&id) {
            Some(mut prepared) => {
                let now = self.cx.server.db.clock().now();
                self.process.begin("Execute", Some(&prepared.text), now);
                let texts = self.utf8_texts(params);
                let sent = params.iter().enumerate();
                let values = sent.map(|(at, p)| match texts.get(at) {
                    Some(Some(text)) => ValueRef::Bytes(text),
                    _ => p.value,
                });
                let values: Vec<ValueRef<'_>> = values.collect();
                let types: Vec<ColumnType> = params.iter().map(|p| p.ty.clone()).collect();
                let alive = self.check_alive();
                let result =
                    alive.and_then(|()| self.run_prepared(&mut prepared, &values, &types, sink));
                prepared.forget_plan_unless(self.programs.plan_epoch == epoch);
                self.statements.insert(id, prepared);
                result
            }
            None => Err(unknown_statement(&id.to_string(), "mysqld_stmt_execute")),
        };
        self.end_statement(result)
    }

    /// UTF-8 texts of the parameters, if texts in the client's character set are stored as UTF-8;
    /// empty for other character sets. `None` for a parameter that is not a text.
    fn utf8_texts(&self, params: &[Param<'_>]) -> Vec<Option<Vec<u8>>> {
        let client = self.cx.settings.client;
        if !client.is_kept_as_utf8() {
            return Vec::new();
        }
        let text = |p: &Param<'_>| match p.value {
            ValueRef::Bytes(bytes) if p.ty.collation != Collation::BINARY => {
                Some(client.decoded(bytes).0.into_owned())
            }
            _ => None,
        };
        params.iter().map(text).collect()
    }

    fn run_prepared(
        &mut self,
        prepared: &mut Prepared,
        values: &[ValueRef<'_>],
        types: &[ColumnType],
        sink: &mut dyn ResultSink,
    ) -> Result<Outcome> {
        self.cx.counters.add(Counter::StmtExecute, 1);
        if values.len() != prepared.params {
            return Err(SqlError::wrong_arguments("EXECUTE"));
        }
        if self.programs.running.is_empty() {
            self.work.digest = prepared.digest;
        }
        let text = prepared.text.clone();
        let hinted = super::hint::hinted(&text);
        self.current_statement.hinted_limit = hinted.and_then(super::hint::execution_limit);
        let variables = hinted.and_then(|hinted| self.set_hinted_variables(hinted));
        let result = self.plan_and_run(prepared, &text, values, types, sink);
        self.restore_variables(variables)?;
        result
    }

    /// The plan of the last execution with its tables published, if it is still valid.
    pub(super) fn plan_still_valid<'p>(
        &self,
        prepared: &'p mut Prepared,
        types: &[ColumnType],
    ) -> Result<Option<&'p Arc<Planned>>> {
        let version = self.cx.server.db.catalog_version();
        let Some((key, plan)) = &prepared.plan else {
            return Ok(None);
        };
        if !key.is_valid_for(&self.cx, version, types) {
            return Ok(None);
        }
        // Its tables stay published until the end of the outermost statement.
        let outer = (self.programs.nested > 0).then_some(self.programs.outer_runs);
        if outer.is_none() || prepared.published_for != outer {
            self.publish(plan)?;
            if self.cx.server.db.catalog_version() != version {
                return Ok(None);
            }
            prepared.published_for = outer;
        }
        Ok(Some(plan))
    }

    fn plan_and_run(
        &mut self,
        prepared: &mut Prepared,
        text: &[u8],
        values: &[ValueRef<'_>],
        types: &[ColumnType],
        sink: &mut dyn ResultSink,
    ) -> Result<Outcome> {
        if let Some(plan) = self.plan_still_valid(prepared, types)? {
            self.cx.counters.add(status::of_plan(&plan.plan), 1);
            return self.run_shown_plan(plan, values, sink);
        }
        self.make_plan_and_run(prepared, text, values, types, sink)
    }

    /// Plans a statement whose last plan is not valid, and runs it.
    fn make_plan_and_run(
        &mut self,
        prepared: &mut Prepared,
        text: &[u8],
        values: &[ValueRef<'_>],
        types: &[ColumnType],
        sink: &mut dyn ResultSink,
    ) -> Result<Outcome> {
        let cached = prepared.plan.take();
        let places = prepared.places.as_deref();
        let mut new_plan = None;
        let planned = self.plan_and_lock(|session, catalog| {
            if let Some((key, plan)) = &cached
                && key.is_valid_for(&session.cx, catalog.version, types)
            {
                new_plan = None;
                return Ok(plan.clone());
            }
            let arena = Bump::new();
            let parsed = session.parse_prepared(&arena, text, places)?;
            let _deadline = session.arm_planning(&parsed.statement)?;
            session.cx.begin_plan();
            if !catalog.histograms.is_empty() {
                let known = values
                    .iter()
                    .map(|value| ValueRef::to_owned(*value))
                    .collect();
                session.cx.planning.parameters.replace(known);
            }
            session.cx.planning.binds_variables.set(places.is_some());
            let plan = session.plan(&parsed.statement, text, types, catalog);
            session.cx.planning.binds_variables.set(false);
            session.cx.planning.parameters.borrow_mut().clear();
            let plan = plan?;
            let plan = Arc::new(plan.ok_or_else(not_a_plan)?);
            let key = || PlanKey::new(&session.cx, catalog.version, types);
            new_plan = session.cx.may_keep_plan().then(|| (key(), plan.clone()));
            Ok(plan)
        });
        match planned {
            Ok(plan) => {
                let is_new = |(_, old): &(_, Arc<Planned>)| !Arc::ptr_eq(old, &plan);
                if cached.as_ref().is_some_and(is_new) {
                    self.cx.counters.add(Counter::StmtReprepare, 1);
                }
                self.cx.counters.add(status::of_plan(&plan.plan), 1);
                prepared.plan = match (new_plan, cached) {
                    (Some(new), _) => Some(new),
                    (None, Some(old)) if Arc::ptr_eq(&old.1, &plan) => Some(old),
                    (None, _) => None,
                };
                self.run_shown_plan(&plan, values, sink)
            }
            Err(error) if error.code == NOT_A_PLAN => {
                let arena = Bump::new();
                let parsed = self.parse_prepared(&arena, text, prepared.places.as_deref())?;
                let is_program = prepared.places.is_some();
                self.cx.planning.binds_variables.set(is_program);
                let done = self.statement(&parsed.statement, text, values, types, sink);
                self.cx.planning.binds_variables.set(false);
                done
            }
            Err(error) => Err(error),
        }
    }

    /// COM_STMT_CLOSE.
    pub fn close_statement(&mut self, id: u32) {
        if self.statements.remove(&id).is_some() {
            self.cx.counters.add(Counter::StmtClose, 1);
        }
    }

    /// COM_STMT_RESET: a no-op, because only the plan is kept between executions.
    ///
    /// # Errors
    /// 1243 if there is no such statement.
    pub fn reset_statement(&mut self, id: u32) -> Result<()> {
        self.cx.counters.add(Counter::StmtReset, 1);
        if self.statements.contains_key(&id) {
            Ok(())
        } else {
            Err(unknown_statement(&id.to_string(), "mysqld_stmt_reset"))
        }
    }

    /// PREPARE.
    pub(crate) fn prepare_named(
        &mut self,
        name: &str,
        source: &PrepareSource<'_>,
    ) -> Result<Outcome> {
        let text = match source {
            PrepareSource::Text(text) => text.to_vec(),
            PrepareSource::Var(variable) => {
                let name = String::from_utf8_lossy(variable).to_lowercase();
                let variables = self.cx.env.user_variables.get_mut();
                let (value, ty) = variables
                    .get(name.as_str())
                    .cloned()
                    .unwrap_or_else(|| (Value::Bytes(b"NULL".to_vec()), ColumnType::null()));
                let mut text = Vec::new();
                porpoise_types::write_text(value.as_ref(), &ty, &mut text);
                text
            }
        };
        let key = name.to_lowercase();
        self.check_not_running(&key)?;
        if self.named.remove(&key).is_some() {
            self.cx.counters.add(Counter::StmtClose, 1);
        }
        let (prepared, _) = self.prepare_text(&text)?;
        self.named.insert(key, prepared);
        self.tracker.state();
        Ok(Outcome {
            info: "Statement prepared".to_owned(),
            ..Outcome::default()
        })
    }

    /// EXECUTE.
    pub(crate) fn execute_named(
        &mut self,
        name: &str,
        using: &[&[u8]],
        sink: &mut dyn ResultSink,
    ) -> Result<Outcome> {
        let key = name.to_lowercase();
        let mut owned: Vec<(Value, ColumnType)> = Vec::with_capacity(using.len());
        for variable in using {
            let name = String::from_utf8_lossy(variable).to_lowercase();
            let found = self
                .cx
                .env
                .user_variables
                .get_mut()
                .get(name.as_str())
                .cloned();
            owned.push(found.unwrap_or((Value::Null, ColumnType::null())));
        }
        let epoch = self.programs.plan_epoch;
        self.check_not_running(&key)?;
        let Some(mut prepared) = self.named.remove(&key) else {
            return Err(unknown_statement(name, "EXECUTE"));
        };
        let values: Vec<ValueRef<'_>> = owned.iter().map(|(v, _)| v.as_ref()).collect();
        let types: Vec<ColumnType> = owned.iter().map(|(_, ty)| ty.clone()).collect();
        self.programs.using = using.iter().map(|name| variable_name(name)).collect();
        self.programs.executing.push(key.clone());
        let result = self.run_prepared(&mut prepared, &values, &types, sink);
        self.programs.executing.pop();
        self.programs.using.clear();
        prepared.forget_plan_unless(self.programs.plan_epoch == epoch);
        self.named.insert(key, prepared);
        result
    }

    /// Error 1444 if a named statement is running, and has called the program that names it.
    fn check_not_running(&self, key: &str) -> Result<()> {
        if !self.programs.executing.iter().any(|running| running == key) {
            return Ok(());
        }
        let text = "The prepared statement contains a stored routine call that refers to that same \
                    statement. It's not allowed to execute a prepared statement in such a recursive \
                    manner";
        Err(SqlError::new(1444, "HY000", text))
    }

    /// DEALLOCATE PREPARE.
    pub(crate) fn deallocate(&mut self, name: &str) -> Result<Outcome> {
        self.check_not_running(&name.to_lowercase())?;
        match self.named.remove(&name.to_lowercase()) {
            Some(_) => {
                self.cx.counters.add(Counter::StmtClose, 1);
                self.tracker.state();
                Ok(Outcome::default())
            }
            None => Err(unknown_statement(name, "DEALLOCATE PREPARE")),
        }
    }
}

/// Internal error code that never leaves this module: the statement has no plan.
const NOT_A_PLAN: u16 = 0;

fn not_a_plan() -> SqlError {
    SqlError::new(NOT_A_PLAN, "HY000", "no plan")
}

fn unknown_statement(name: &str, command: &str) -> SqlError {
    let text = format!("Unknown prepared statement handler ({name}) given to {command}");
    SqlError::new(1243, "HY000", text)
}

impl SqlSession {
    /// Discards the plans; the next execution plans again.
    pub(super) fn forget_prepared_plans(&mut self) {
        self.programs.plan_epoch += 1;
        let all = self.statements.values_mut().chain(self.named.values_mut());
        all.for_each(|prepared| prepared.plan = None);
    }
}
