//! Programs that run inside of a statement: stored functions and triggers.
//!
//! While the executor runs a statement, it borrows the statement's context and its transaction. A
//! program that the statement calls needs both, and changes them. So a statement that runs programs
//! is executed with a copy of its context ([`SqlSession::fork_context`]): the session keeps its own
//! for the programs. The copy is kept and renewed for the next such statement ([`SpareParts`]), as is
//! the transaction that stands in for the statement's while a program has it. At a call the transaction and the user variables move into the session, and
//! back again when the program has ended ([`ProgramHost::with_session`]).
//!
//! ```text
//! UPDATE t SET a = f(b)          the executor: copy of the context, transaction
//!   f(1)                         the session: own context, the transaction
//!     INSERT INTO log ...        a statement of the same transaction, with a mark of its own
//!   f(2)
//! ```
//!
//! Invariants:
//! 1. No expression is evaluated while the transaction is borrowed, so that it can move.
//! 2. What a program writes is after the mark of the statement that calls it: that statement does
//!    not see it, and undoes it if it fails.
//! 3. A program neither moves the snapshot nor restarts a statement: a newer row makes the calling
//!    statement run again ([`ProgramHost::is_restart_wanted`]).
//!
//! Rejected: a second session for programs (its metadata locks would wait for those of the first).

use super::SqlSession;
use super::batched_triggers::{BatchedTrigger, Batching};
use super::state::fresh_env;
use super::transaction::OpenTxn;
use crate::context::{Diagnostics, Planning, StatementContext};
use crate::programs::restrict;
use crate::session::routines::no_routine;
use crate::vars::settings::IsolationLevel;
use porpoise_rows::catalog::Routine;
use porpoise_rows::{BeginOptions, Firing, Txn};
use porpoise_sql_exec::exec::RunPrograms;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_expr::expr::eval::Env;
use porpoise_sql_expr::expr::stored::SessionFunction;
use porpoise_sql_parser::ast;
use porpoise_sql_plan::plan::planned::Planned;
use porpoise_types::{ColumnType, Value};
use std::cell::{Cell, RefCell};

/// Runs programs for a statement that is being executed.
pub(crate) struct ProgramHost<'s> {
    session: RefCell<&'s mut SqlSession>,
    /// The session's transaction while a program runs; at other times an unused one. `None` while a program
    /// has taken it.
    lent: RefCell<Option<Box<OpenTxn>>>,
    restart: Cell<bool>,
    /// The trigger that runs for each row of the statement.
    batching: RefCell<Batching>,
}

impl<'s> ProgramHost<'s> {
    /// Creates the host of a statement of this transaction.
    ///
    /// # Errors
    /// The errors of the engine.
    pub(super) fn new(session: &'s mut SqlSession, open: &OpenTxn) -> Result<ProgramHost<'s>> {
        let mut host = ProgramHost::of_writer(session, open.isolation)?;
        if let Some(lent) = host.lent.get_mut() {
            lent.read_only = open.read_only;
            lent.snapshot_version = open.snapshot_version;
        }
        Ok(host)
    }

    /// Creates the host of a writer that is not a SQL statement.
    ///
    /// # Errors
    /// The errors of the engine.
    pub(super) fn of_writer(
        session: &'s mut SqlSession,
        isolation: IsolationLevel,
    ) -> Result<ProgramHost<'s>> {
        let lent = session.spare_txn(isolation)?;
        if session.programs.nested == 0 {
            session.programs.outer_runs += 1;
        }
        Ok(ProgramHost {
            session: RefCell::new(session),
            lent: RefCell::new(Some(lent)),
            restart: Cell::new(false),
            batching: RefCell::default(),
        })
    }

    /// Whether a program met a row newer than the snapshot: the statement must run again.
    pub(super) fn is_restart_wanted(&self) -> bool {
        self.restart.get()
    }

    /// Lends the statement's transaction and user variables to the session.
    pub(crate) fn with_session<T>(
        &self,
        txn: &mut Txn,
        env: &Env,
        run: impl FnOnce(&mut SqlSession) -> Result<T>,
    ) -> Result<T> {
        let busy = |_| SqlError::internal("a program within an expression of a program");
        let mut session = self.session.try_borrow_mut().map_err(busy)?;
        let lent = self.lent.borrow_mut().take();
        let mut lent = lent.ok_or_else(|| SqlError::internal("no transaction for a program"))?;
        std::mem::swap(txn, lent.txn.get_mut());
        session.open = Some(lent);
        let swap = |session: &mut SqlSession| {
            let own = session.cx.env.user_variables.get_mut();
            std::mem::swap(own, &mut env.user_variables.borrow_mut());
            session.cx.env.random.swap(&env.random);
        };
        swap(&mut session);
        let (last_insert_id, row_count) = (session.cx.last_insert_id, session.cx.env.row_count);
        session.cx.env.now_utc = env.now_utc;
        session.programs.nested += 1;
        let done = run(&mut session);
        session.programs.nested -= 1;
        session.cx.last_insert_id = last_insert_id;
        session.cx.env.row_count = row_count;
        swap(&mut session);
        let open = session.open.take();
        let Some(mut lent) = open else {
            return Err(SqlError::internal("a program has ended the transaction"));
        };
        std::mem::swap(txn, lent.txn.get_mut());
        lent.savepoints.clear();
        *self.lent.borrow_mut() = Some(lent);
        pass_warnings(&mut session, env);
        if std::mem::take(&mut session.programs.restart) {
            if session.programs.nested > 0 {
                session.programs.restart = true;
            }
            self.restart.set(true);
        }
        done
    }
}

impl ProgramHost<'_> {
    /// Whether the trigger of a statement's rows may run as a batch.
    fn batching_of(
        &self,
        firing: &Firing<'_>,
        rows: u32,
        txn: &mut Txn,
        env: &Env,
    ) -> Result<Batching> {
        self.with_session(txn, env, |session| session.batching_of(firing, rows))
    }

    /// Runs the trigger of a row as one of a batch.
    fn fire_batch(
        &self,
        batch: &mut BatchedTrigger,
        firing: &Firing<'_>,
        txn: &mut Txn,
        env: &Env,
    ) -> Result<()> {
        let busy = |_| SqlError::internal("a trigger within an expression of a program");
        let mut session = self.session.try_borrow_mut().map_err(busy)?;
        let lent = self.lent.borrow();
        let lent = lent.as_ref();
        let unused = lent.ok_or_else(|| SqlError::internal("no transaction for a program"))?;
        let done = batch.fire(&mut session, firing, txn, &unused.txn);
        if done.is_err() {
            pass_warnings(&mut session, env);
        }
        done
    }
}

/// Moves the conditions of a program to the statement that runs it.
fn pass_warnings(session: &mut SqlSession, env: &Env) {
    for warning in session.cx.env.warnings.get_mut().drain(..) {
        env.warn(warning);
    }
}

impl RunPrograms for ProgramHost<'_> {
    fn call(
        &self,
        function: &SessionFunction,
        args: Vec<(Value, ColumnType)>,
        txn: &RefCell<Txn>,
        env: &Env,
    ) -> Result<Value> {
        let busy = |_| SqlError::internal("a function called while the transaction is in use");
        let mut txn = txn.try_borrow_mut().map_err(busy)?;
        self.with_session(&mut txn, env, |session| {
            let function = match function {
                SessionFunction::BuiltIn(function) => {
                    return Ok(session.run_built_in(*function, args));
                }
                SessionFunction::Stored(function) => function,
            };
            let routine = function.definition.0.clone().downcast::<Routine>();
            let missing = |_| no_routine("FUNCTION", &function.database, &function.name);
            let routine = routine.map_err(missing)?;
            session.run_function(&routine, args, function.invoker.as_deref())
        })
    }

    fn fire(&self, firing: &mut Firing<'_>, txn: &mut Txn, env: &Env) -> Result<()> {
        self.with_session(txn, env, |session| session.run_triggers(firing))
    }

    fn fire_in_batch(&self, firing: &mut Firing<'_>, txn: &mut Txn, env: &Env) -> Result<()> {
        let mut batching = self.batching.borrow_mut();
        if let Batching::Unknown(rows) = *batching {
            *batching = self.batching_of(firing, rows, txn, env)?;
        }
        if let Batching::Ready(batch) = &mut *batching
            && batch.is_of(firing)
        {
            return self.fire_batch(batch, firing, txn, env);
        }
        drop(batching);
        self.fire(firing, txn, env)
    }

    fn write_batch(&self, txn: &mut Txn) -> Result<()> {
        match &mut *self.batching.borrow_mut() {
            Batching::Ready(batch) => batch.write(txn),
            _ => Ok(()),
        }
    }
}

impl Drop for ProgramHost<'_> {
    fn drop(&mut self) {
        if let Some(lent) = self.lent.get_mut().take() {
            self.session.get_mut().programs.spare.keep_txn(lent);
        }
    }
}

/// Contexts and transactions that stand in for those of statements that run programs; kept for the
/// next such statement. None of these transactions has been used: they hold no snapshot and no locks.
#[derive(Default)]
#[expect(
    clippy::vec_box,
    reason = "each moves into the session while a program runs"
)]
pub(crate) struct SpareParts {
    contexts: Vec<Box<StatementContext>>,
    txns: Vec<Box<OpenTxn>>,
}

/// Number of spare contexts and transactions that a session keeps: statements nested so deep need
/// no new ones.
const MAX_SPARE: usize = 4;

impl SpareParts {
    fn keep_context(&mut self, context: Box<StatementContext>) {
        if self.contexts.len() < MAX_SPARE {
            self.contexts.push(context);
        }
    }

    fn keep_txn(&mut self, txn: Box<OpenTxn>) {
        if self.txns.len() < MAX_SPARE {
            self.txns.push(txn);
        }
    }
}

impl SqlSession {
    /// A transaction that takes the place of a statement's while a program has it.
    fn spare_txn(&mut self, isolation: IsolationLevel) -> Result<Box<OpenTxn>> {
        if let Some(mut txn) = self.programs.spare.txns.pop() {
            txn.isolation = isolation;
            txn.read_only = false;
            txn.snapshot_version = 0;
            return Ok(txn);
        }
        let txn = self.cx.server.db.begin(BeginOptions::default())?;
        Ok(Box::new(OpenTxn::new(txn, isolation)))
    }
}

impl SqlSession {
    /// Returns the context of the current statement, and gives the session a copy for the programs
    /// that the statement runs.
    pub(super) fn fork_context(&mut self) -> Box<StatementContext> {
        let spare = self.programs.spare.contexts.pop();
        let copy = match spare.filter(|spare| is_copy_of(spare, &self.cx)) {
            Some(mut spare) => {
                renew(&mut spare, &self.cx);
                spare
            }
            None => Box::new(copy_of(&self.cx)),
        };
        std::mem::replace(&mut self.cx, copy)
    }

    /// Takes the context of the statement back, with what its programs have changed.
    pub(super) fn join_context(&mut self, cx: Box<StatementContext>) {
        let mut programs = std::mem::replace(&mut self.cx, cx);
        programs.env.memory.release_arenas();
        self.cx.temporary = std::mem::take(&mut programs.temporary);
        if self.cx.values.is_same(&programs.values) {
            self.programs.spare.keep_context(programs);
            return;
        }
        self.cx.values = programs.values;
        if let Err(error) = self.apply_settings() {
            self.cx.warn(error.code, error.message);
        }
    }
}

/// Whether a context can become the copy of another with [`renew`]: the parts that seldom change
/// are equal.
fn is_copy_of(copy: &StatementContext, cx: &StatementContext) -> bool {
    copy.values.is_same(&cx.values)
        && copy.named_at == cx.named_at
        && copy.client.account == cx.client.account
        && copy.encryption == cx.encryption
        && copy.compression == cx.compression
}

/// Makes a former copy equal to the context again.
fn renew(copy: &mut StatementContext, cx: &StatementContext) {
    let (env, of) = (&mut copy.env, &cx.env);
    env.strict.set(false);
    env.counted_rows.set(None);
    env.warnings.get_mut().clear();
    env.warnings_dropped.set(0);
    env.seeded.get_mut().clear();
    env.joined_rows.get_mut().clear();
    env.has_side_effect.set(false);
    env.random.set(of.random.get());
    env.cancel = of.cancel.clone();
    copy_statement(env, of);
    copy.rights.get_mut().clone_from(&cx.rights.borrow());
    copy.password_expired = cx.password_expired;
    copy.roles.clone_from(&cx.roles);
    copy.diagnostics = Diagnostics::default();
    copy.planning = Planning::default();
    copy.temporary.clone_from(&cx.temporary);
    copy.last_insert_id = cx.last_insert_id;
}

/// Copies what the environment has of the statement, its account and its database.
fn copy_statement(env: &mut Env, of: &Env) {
    env.now_utc = of.now_utc;
    env.expiry_time.set(of.expiry_time.get());
    env.account.clone_from(&of.account);
    env.roles.clone_from(&of.roles);
    env.database.clone_from(&of.database);
    env.last_insert_id.set(of.last_insert_id.get());
    env.row_count = of.row_count;
    env.found_rows = of.found_rows;
    env.query_attributes.clone_from(&of.query_attributes);
}

fn copy_of(cx: &StatementContext) -> StatementContext {
    let cancel = cx.env.cancel.clone();
    let mut env = fresh_env(&cx.client, &cx.settings, &cx.server.locks, cancel);
    copy_statement(&mut env, &cx.env);
    env.memory = cx.env.memory.share();
    StatementContext {
        server: cx.server.clone(),
        client: cx.client.clone(),
        encryption: cx.encryption.clone(),
        compression: cx.compression.clone(),
        named_at: cx.named_at,
        is_system: cx.is_system,
        env,
        values: cx.values.clone(),
        settings: cx.settings.clone(),
        rights: RefCell::new(cx.rights.borrow().clone()),
        password_expired: cx.password_expired,
        roles: cx.roles.clone(),
        diagnostics: Diagnostics::default(),
        planning: Planning::default(),
        temporary: cx.temporary.clone(),
        last_insert_id: cx.last_insert_id,
        counters: cx.counters.clone(),
        account_statement: None,
    }
}

impl SqlSession {
    /// Error 1442: a function or trigger must not change a table that the statement uses which runs
    /// it.
    pub(super) fn check_outer_tables(&self, planned: &Planned) -> Result<()> {
        if self.programs.nested == 0 {
            return Ok(());
        }
        let outer = &self.programs.outer_tables;
        let mut changed = planned.tables.iter().filter(|(_, writes)| *writes);
        match changed.find(|(table, _)| outer.contains(&table.id)) {
            Some((table, _)) => {
                let text = format!(
                    "Can't update table '{}' in stored function/trigger because it is already used \
                     by statement which invoked this stored function/trigger.",
                    table.name
                );
                Err(SqlError::new(1442, "HY000", text))
            }
            None => Ok(()),
        }
    }

    /// Fails if the statement runs inside of a function or a trigger, and must not.
    pub(super) fn check_nested(&self, statement: &ast::Statement<'_>) -> Result<()> {
        if self.programs.nested == 0 {
            return Ok(());
        }
        let kind = if self.programs.running.is_empty() {
            ast::ProgramKind::Trigger
        } else {
            ast::ProgramKind::Function
        };
        let refused = restrict::refusal_within_statement(statement, kind);
        refused.map_or(Ok(()), Err)
    }
}
