//! Programs that run inside of a statement: stored functions and triggers.
//!
//! While the executor runs a statement, it borrows the statement's context and its transaction. A
//! program that the statement calls needs both, and changes them. So a statement that runs programs
//! is executed with a copy of its context ([`SqlSession::fork_context`]): the session keeps its own
//! for the programs. At a call the transaction and the user variables move into the session, and
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
//! 2. What a program writes is behind the mark of the statement that calls it: that statement does
//!    not see it, and undoes it if it fails.
//! 3. A program neither moves the snapshot nor restarts a statement: a newer row makes the calling
//!    statement run again ([`ProgramHost::is_restart_wanted`]).
//!
//! Rejected: a second session for programs (its metadata locks would wait for those of the first).

use super::SqlSession;
use super::state::fresh_env;
use super::transaction::{OpenTxn, TxnCharacteristics};
use crate::context::{Diagnostics, StatementContext};
use crate::session::routines::no_routine;
use crate::vars::settings::IsolationLevel;
use porpoise_rows::catalog::RoutineKind;
use porpoise_rows::{BeginOptions, Firing, Txn};
use porpoise_sql_exec::exec::RunPrograms;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_expr::expr::eval::Env;
use porpoise_sql_expr::expr::stored::StoredFunction;
use porpoise_types::{ColumnType, Value};
use std::cell::{Cell, RefCell};

/// Runs programs for a statement that is being executed.
pub(crate) struct ProgramHost<'s> {
    session: RefCell<&'s mut SqlSession>,
    /// Takes the transaction's place while a program has it.
    spare: RefCell<Option<Txn>>,
    isolation: IsolationLevel,
    read_only: bool,
    snapshot_version: u64,
    restart: Cell<bool>,
}

impl<'s> ProgramHost<'s> {
    /// Creates the host of a statement of this transaction.
    ///
    /// # Errors
    /// Those of the engine.
    pub(super) fn new(session: &'s mut SqlSession, open: &OpenTxn) -> Result<ProgramHost<'s>> {
        let spare = session.cx.server.db.begin(BeginOptions::default())?;
        Ok(ProgramHost {
            session: RefCell::new(session),
            spare: RefCell::new(Some(spare)),
            isolation: open.isolation,
            read_only: open.read_only,
            snapshot_version: open.snapshot_version,
            restart: Cell::new(false),
        })
    }

    /// Creates the host of a writer that is no SQL statement.
    ///
    /// # Errors
    /// Those of the engine.
    pub(super) fn of_writer(
        session: &'s mut SqlSession,
        isolation: IsolationLevel,
    ) -> Result<ProgramHost<'s>> {
        let spare = session.cx.server.db.begin(BeginOptions::default())?;
        Ok(ProgramHost {
            session: RefCell::new(session),
            spare: RefCell::new(Some(spare)),
            isolation,
            read_only: false,
            snapshot_version: 0,
            restart: Cell::new(false),
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
        let spare = self.spare.borrow_mut().take();
        let spare = spare.ok_or_else(|| SqlError::internal("no transaction for a program"))?;
        session.open = Some(OpenTxn {
            txn: RefCell::new(std::mem::replace(txn, spare)),
            isolation: self.isolation,
            read_only: self.read_only,
            snapshot_version: self.snapshot_version,
            savepoints: Vec::new(),
            started: None,
            requested: TxnCharacteristics::default(),
            activity: Default::default(),
        });
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
        let Some(open) = open else {
            return Err(SqlError::internal("a program has ended the transaction"));
        };
        let spare = std::mem::replace(txn, open.txn.into_inner());
        *self.spare.borrow_mut() = Some(spare);
        for warning in session.cx.env.warnings.get_mut().drain(..) {
            env.warn(warning);
        }
        if std::mem::take(&mut session.programs.restart) {
            if session.programs.nested > 0 {
                session.programs.restart = true;
            }
            self.restart.set(true);
        }
        done
    }
}

impl RunPrograms for ProgramHost<'_> {
    fn call(
        &self,
        function: &StoredFunction,
        args: Vec<(Value, ColumnType)>,
        txn: &RefCell<Txn>,
        env: &Env,
    ) -> Result<Value> {
        let busy = |_| SqlError::internal("a function called while the transaction is in use");
        let mut txn = txn.try_borrow_mut().map_err(busy)?;
        self.with_session(&mut txn, env, |session| {
            if function.database.is_empty() {
                return session.run_host_function(&function.name, args);
            }
            let catalog = session.cx.server.db.catalog();
            let (database, name) = (&function.database, &function.name);
            let routine = catalog.routine(database, RoutineKind::Function, name);
            let routine = routine.cloned();
            let routine = routine.ok_or_else(|| no_routine("FUNCTION", database, name))?;
            session.run_function(&routine, args)
        })
    }

    fn fire(&self, firing: &mut Firing<'_>, txn: &mut Txn, env: &Env) -> Result<()> {
        self.with_session(txn, env, |session| session.run_triggers(firing))
    }
}

impl Drop for ProgramHost<'_> {
    fn drop(&mut self) {
        if let Some(spare) = self.spare.get_mut().take() {
            spare.rollback();
        }
    }
}

impl SqlSession {
    /// Returns the context of the current statement, and gives the session a copy for the programs
    /// that the statement runs.
    pub(super) fn fork_context(&mut self) -> StatementContext {
        let cx = &self.cx;
        let cancel = cx.env.cancel.clone();
        let mut env = fresh_env(&cx.client, &cx.settings, &cx.server.locks, cancel);
        env.now_utc = cx.env.now_utc;
        env.account.clone_from(&cx.env.account);
        env.roles.clone_from(&cx.env.roles);
        env.database.clone_from(&cx.env.database);
        env.last_insert_id.set(cx.env.last_insert_id.get());
        env.row_count = cx.env.row_count;
        env.found_rows = cx.env.found_rows;
        env.query_attributes.clone_from(&cx.env.query_attributes);
        env.memory = cx.env.memory.share();
        let copy = StatementContext {
            server: cx.server.clone(),
            client: cx.client.clone(),
            encryption: cx.encryption.clone(),
            compression: cx.compression.clone(),
            named_at: cx.named_at,
            env,
            values: cx.values.clone(),
            settings: cx.settings.clone(),
            rights: RefCell::new(cx.rights.borrow().clone()),
            password_expired: cx.password_expired,
            roles: cx.roles.clone(),
            diagnostics: Diagnostics::default(),
            volatile: Cell::new(false),
            uses_parameters: Cell::new(false),
            binds_variables: Cell::new(false),
            parameters: RefCell::default(),
            calls_functions: Cell::new(false),
            partial_plans: Cell::new(0),
            explaining: Cell::new(false),
            temporary: cx.temporary.clone(),
            last_insert_id: cx.last_insert_id,
            counters: cx.counters.clone(),
        };
        std::mem::replace(&mut self.cx, copy)
    }

    /// Takes the context of the statement back, with what its programs have changed.
    pub(super) fn join_context(&mut self, cx: StatementContext) {
        let programs = std::mem::replace(&mut self.cx, cx);
        self.cx.temporary = programs.temporary;
        if !self.cx.values.is_same(&programs.values) {
            self.cx.values = programs.values;
            if let Err(error) = self.apply_settings() {
                self.cx.warn(error.code, error.message);
            }
        }
    }
}
