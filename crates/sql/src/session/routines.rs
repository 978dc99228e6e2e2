//! Stored procedures and functions: CREATE, ALTER, DROP, CALL, and calls of functions in
//! expressions.
//!
//! A routine is compiled from its text at its first use in a session and when its definition has
//! changed. While it runs, the session has the SQL mode, the collation and the database of the
//! routine, and with SQL SECURITY DEFINER the account of its definer ([`Entered`]).

use super::programs::{CompiledRoutine, Ran, RecentRoutine, assigned_parameter};
use super::{Outcome, SqlSession};
use crate::privileges::grant::{grant_own_routine, revoke_routine};
use crate::programs::condition::{
    Condition, HandledCondition, condition_numbered, diagnostics_item, resignal_without_handler,
};
use crate::programs::frame::Frame;
use crate::programs::program::{Program, RaisedCondition, sql_type};
use crate::vars::{Settings, Values};
use porpoise_access::{AuthId, Privileges, Rights};
use porpoise_kv::CommitPosition;
use porpoise_rows::catalog::{Routine, RoutineAccess, RoutineKey, RoutineKind};
use porpoise_sql_exec::exec::{ResultEnd, ResultSink};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_expr::expr::Expr;
use porpoise_sql_expr::functions;
use porpoise_sql_parser::ast::{
    Account, AlterRoutine, Call, Characteristics, ConditionValue, CreateRoutine, DataAccess,
    ExprKind, GetDiagnostics, IntoVar, ParameterMode, ProgramKind, Signal, TableName,
};
use porpoise_sql_plan::bind::nodes::variable_name;
use porpoise_sql_plan::plan::ResultColumn;
use porpoise_types::{Collation, ColumnType, Level, SqlMode, Value, ValueRef};
use std::sync::Arc;

/// Result of a call of a procedure.
pub(crate) struct Called {
    /// Values of OUT and INOUT parameters, with their position and type.
    pub out: Vec<(usize, Value, ColumnType)>,
    /// Rows that the last statement has changed.
    pub affected_rows: u64,
    /// Commit position that the reply waits for.
    pub position: CommitPosition,
}

/// A CALL whose arguments are expressions without queries and variables, for the plan cache.
pub(super) struct CallPlan {
    /// The procedure.
    pub routine: Arc<Routine>,
    /// The arguments.
    pub args: Vec<Expr>,
}

/// The account of a session that runs a routine of another definer.
struct OwnAccount {
    account: String,
    named_at: u64,
    roles: Vec<AuthId>,
    role_names: String,
    rights: Arc<Rights>,
}

/// Settings of a session before it entered a routine.
pub(crate) struct Entered {
    settings: Option<Box<SwitchedSettings>>,
    /// The database, if it was another.
    database: Option<Option<String>>,
    account: Option<OwnAccount>,
}

/// Settings for programs whose SQL mode or collation is not that of the session. While one runs, they
/// are the session's, and those of the session are here.
pub(super) struct SwitchedSettings {
    /// The session's values before.
    before: Values,
    mode: SqlMode,
    collation: String,
    /// The values of the program.
    of_program: Values,
    values: Values,
    settings: Settings,
}

/// Number of settings of programs that a session keeps; when it is exceeded, all are dropped.
const MAX_SWITCHED: usize = 8;

/// The circumstances under which a program runs.
pub(crate) struct ProgramContext<'p> {
    /// The account with whose rights it runs; `None`: that of the session.
    pub definer: Option<&'p str>,
    /// Its SQL mode.
    pub sql_mode: SqlMode,
    /// Its database.
    pub database: &'p str,
    /// `collation_connection` of its creation.
    pub collation: &'p str,
}

impl<'p> ProgramContext<'p> {
    fn of(routine: &'p Routine) -> ProgramContext<'p> {
        ProgramContext {
            definer: (!routine.invoker).then_some(routine.definer.as_str()),
            sql_mode: SqlMode::from_bits(routine.sql_mode),
            database: &routine.database,
            collation: &routine.collation,
        }
    }
}

fn kind_of(kind: ProgramKind) -> RoutineKind {
    match kind {
        ProgramKind::Function => RoutineKind::Function,
        _ => RoutineKind::Procedure,
    }
}

fn access_of(access: DataAccess) -> RoutineAccess {
    match access {
        DataAccess::ContainsSql => RoutineAccess::ContainsSql,
        DataAccess::NoSql => RoutineAccess::NoSql,
        DataAccess::ReadsSqlData => RoutineAccess::ReadsSqlData,
        DataAccess::ModifiesSqlData => RoutineAccess::ModifiesSqlData,
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Error 1305.
pub(crate) fn no_routine(kind: &str, database: &str, name: &str) -> SqlError {
    let text = format!("{kind} {database}.{name} does not exist");
    SqlError::new(1305, "42000", text)
}

impl Entered {
    /// Whether the program has another account or default database than the session.
    pub(super) fn changes_identity(&self) -> bool {
        self.account.is_some() || self.database.is_some()
    }

    /// Whether the program has another SQL mode or collation than the session.
    pub(super) fn changes_settings(&self) -> bool {
        self.settings.is_some()
    }
}

impl SqlSession {
    /// CREATE PROCEDURE, CREATE FUNCTION.
    pub(super) fn create_routine(
        &mut self,
        create: &CreateRoutine<'_>,
        source: &[u8],
    ) -> Result<Outcome> {
        self.check_nothing_locked()?;
        let before = self.begin_definition()?;
        let (database, name) = self.cx.qualified(&create.name)?;
        if name.chars().count() > 64 {
            let text = format!("Identifier name '{name}' is too long");
            return Err(SqlError::new(1059, "42000", text));
        }
        if porpoise_sql_plan::virtual_tables::is_database(&database) {
            return Err(self.cx.database_denied(&database));
        }
        let program = self.cx.compile_created(create, source, &database, &name)?;
        let definer = self.definer_account(create.definer.as_ref())?;
        let catalog = self.cx.server.db.catalog();
        let found = catalog.database(&database);
        let found = found.ok_or_else(|| SqlError::unknown_database(&database))?;
        let given = &create.characteristics;
        let now = self.cx.env.now_utc.to_unix_micros();
        let settings = &self.cx.settings;
        let routine = Routine {
            kind: kind_of(create.kind),
            parameters: text(create.parameters_text),
            returns: program
                .returns
                .as_ref()
                .map_or_else(String::new, sql_with_charset),
            body: text(create.body.text),
            comment: text(given.comment.unwrap_or_default()),
            deterministic: given.deterministic.unwrap_or(false),
            access: given.access.map_or(RoutineAccess::ContainsSql, access_of),
            invoker: given.invoker.unwrap_or(false),
            definer,
            sql_mode: settings.mode.bits(),
            charset: settings.client.name().to_owned(),
            collation: settings.collation.name().to_owned(),
            database_collation: found.collation.name().to_owned(),
            created: now,
            modified: now,
            database,
            name,
        };
        let db = self.cx.server.db.clone();
        let done = db.create_routine(&self.ddl_cx(), &routine, create.if_not_exists)?;
        let held = self.cx.rights().on_database(&routine.database);
        let both = Privileges::EXECUTE.with(Privileges::ALTER_ROUTINE);
        let automatic = self.cx.server.variable("automatic_sp_privileges");
        if !done.is_note && !held.has(both) && automatic.as_deref() == Some("ON") {
            grant_own_routine(&self.cx, &routine)?;
        }
        if done.is_note {
            let text = format!("{} {} already exists", routine.kind.name(), routine.name);
            self.cx.note(1304, text);
        } else if routine.kind == RoutineKind::Function && functions::find(&routine.name).is_some()
        {
            let name = &routine.name;
            let text = format!("This function '{name}' has the same name as a native function");
            self.cx.note(1585, text);
        }
        Ok(Outcome {
            position: done.position.max(before),
            ..Outcome::default()
        })
    }

    /// The account of DEFINER; the session's own by default.
    pub(crate) fn definer_account(&self, definer: Option<&Account<'_>>) -> Result<String> {
        let Some(account) = definer else {
            return Ok(self.cx.client.account.clone());
        };
        let id = self.cx.auth_id(account);
        let definer = format!("{}@{}", id.user, id.host);
        if definer == self.cx.client.account {
            return Ok(definer);
        }
        let some = Privileges::SET_ANY_DEFINER.with(Privileges::SET_USER_ID);
        if !self.cx.rights().global().intersects(some) {
            self.cx.need_global(some, "SUPER or SET_ANY_DEFINER")?;
        }
        if self
            .cx
            .server
            .access
            .data()
            .account(&id.user, &id.host)
            .is_none()
        {
            let text = format!(
                "The user specified as a definer ('{}'@'{}') does not exist",
                id.user, id.host
            );
            self.cx.note(1449, text);
        }
        Ok(definer)
    }

    /// ALTER PROCEDURE, ALTER FUNCTION.
    pub(super) fn alter_routine(&mut self, alter: &AlterRoutine<'_>) -> Result<Outcome> {
        self.check_nothing_locked()?;
        let before = self.begin_definition()?;
        let (database, name) = self.cx.qualified(&alter.name)?;
        let key = RoutineKey::new(&database, kind_of(alter.kind), &name);
        let now = self.cx.env.now_utc.to_unix_micros();
        let Characteristics {
            comment,
            access,
            invoker,
            ..
        } = alter.characteristics;
        let change = |routine: &mut Routine| {
            if let Some(comment) = comment {
                routine.comment = text(comment);
            }
            if let Some(access) = access {
                routine.access = access_of(access);
            }
            routine.invoker = invoker.unwrap_or(routine.invoker);
            routine.modified = now;
        };
        let db = self.cx.server.db.clone();
        let done = db.alter_routine(&self.ddl_cx(), &key, &change)?;
        Ok(Outcome {
            position: done.position.max(before),
            ..Outcome::default()
        })
    }

    /// DROP PROCEDURE, DROP FUNCTION.
    pub(super) fn drop_routine(
        &mut self,
        kind: ProgramKind,
        if_exists: bool,
        name: &TableName<'_>,
    ) -> Result<Outcome> {
        self.check_nothing_locked()?;
        let before = self.begin_definition()?;
        let (database, name) = self.cx.qualified(name)?;
        let key = RoutineKey::new(&database, kind_of(kind), &name);
        let db = self.cx.server.db.clone();
        let missing = || no_routine(key.kind.name(), &database, &name);
        if db.catalog().routine(&database, key.kind, &name).is_none() {
            if !if_exists {
                return Err(missing());
            }
            self.cx.note(1305, missing().message);
            return Ok(Outcome {
                position: before,
                ..Outcome::default()
            });
        }
        let dropped = db.catalog().routine(&database, key.kind, &name).cloned();
        let done = db.drop_routine(&self.ddl_cx(), &key, if_exists)?;
        if let Some(routine) = dropped {
            revoke_routine(&self.cx, &routine)?;
        }
        Ok(Outcome {
            position: done.position.max(before),
            ..Outcome::default()
        })
    }

    /// The procedure of this name.
    ///
    /// # Errors
    /// 1305
    pub(super) fn procedure(&self, database: &str, name: &str) -> Result<Arc<Routine>> {
        let catalog = self.cx.server.db.catalog();
        let routine = catalog.routine(database, RoutineKind::Procedure, name);
        let missing = || no_routine("PROCEDURE", database, name);
        routine.cloned().ok_or_else(missing)
    }

    /// The compiled form of a routine.
    ///
    /// # Errors
    /// 1370 unless the account may execute it.
    pub(super) fn executable(&mut self, routine: &Arc<Routine>) -> Result<Arc<Program>> {
        let rights = self.cx.rights();
        let is_same = |recent: &&mut RecentRoutine| Arc::ptr_eq(&recent.from, routine);
        if let Some(recent) = self.programs.recent.iter_mut().find(is_same) {
            let known = recent.allowed.as_ref();
            if known.is_some_and(|known| Arc::ptr_eq(known, &rights)) {
                return Ok(recent.program.clone());
            }
        }
        self.check_execute(routine)?;
        let program = self.compiled(routine)?;
        let recent = &mut self.programs.recent;
        recent.retain(|recent| !Arc::ptr_eq(&recent.from, routine));
        if recent.len() >= MAX_RECENT {
            recent.remove(0);
        }
        recent.push(RecentRoutine {
            from: routine.clone(),
            program: program.clone(),
            allowed: Some(rights),
        });
        Ok(program)
    }

    /// The compiled form of a routine.
    fn compiled(&mut self, routine: &Arc<Routine>) -> Result<Arc<Program>> {
        let key = routine.key();
        if let Some(kept) = self.programs.compiled.get(&key)
            && (Arc::ptr_eq(&kept.from, routine) || kept.from == *routine)
        {
            return Ok(kept.program.clone());
        }
        let program = Arc::new(self.cx.compile_routine(routine)?);
        let bytes = program.code.len() * BYTES_PER_INSTRUCTION + routine.body.len();
        let charge = self.cx.env.memory.charge(bytes)?;
        let compiled = &mut self.programs.compiled;
        if compiled.len() >= MAX_COMPILED {
            compiled.clear();
        }
        let kept = CompiledRoutine {
            from: routine.clone(),
            program: program.clone(),
            _charge: charge,
        };
        compiled.insert(key, kept);
        Ok(program)
    }

    /// Takes over the circumstances of a program.
    ///
    /// # Errors
    /// 1449 if its definer does not exist.
    pub(crate) fn enter_program(&mut self, context: &ProgramContext<'_>) -> Result<Entered> {
        let mut entered = Entered {
            settings: None,
            database: None,
            account: None,
        };
        if let Some(definer) = context.definer {
            entered.account = self.enter_account(definer)?;
        }
        let settings = &self.cx.settings;
        if settings.mode != context.sql_mode || settings.collation.name() != context.collation {
            entered.settings = Some(self.switch_settings(context)?);
        }
        if self.cx.env.database.as_deref() != Some(context.database) {
            let own = self.cx.env.database.replace(context.database.to_owned());
            entered.database = Some(own);
        }
        Ok(entered)
    }

    /// Takes over the rights of another account, with its default roles. Returns the session's own
    /// account, if it differs.
    ///
    /// # Errors
    /// 1449 if there is no such account.
    fn enter_account(&mut self, definer: &str) -> Result<Option<OwnAccount>> {
        if definer == self.cx.client.account {
            return Ok(None);
        }
        let id = AuthId::parse(definer);
        let data = self.cx.server.access.data();
        if data.account(&id.user, &id.host).is_none() {
            let text = format!(
                "The user specified as a definer ('{}'@'{}') does not exist",
                id.user, id.host
            );
            return Err(SqlError::new(1449, "HY000", text));
        }
        let own = OwnAccount {
            account: std::mem::replace(&mut self.cx.client.account, definer.to_owned()),
            named_at: self.cx.named_at,
            roles: std::mem::take(&mut self.cx.roles),
            role_names: self.cx.env.roles.clone(),
            rights: self.cx.rights.borrow().clone(),
        };
        self.cx.named_at = data.version;
        self.cx.env.account = definer.to_owned();
        self.cx.activate_roles(data.default_roles_of(&id));
        Ok(Some(own))
    }

    /// Restores the account that [`Self::enter_account`] has replaced.
    fn leave_account(&mut self, own: Option<OwnAccount>) {
        if let Some(own) = own {
            self.cx.env.account.clone_from(&own.account);
            self.cx.client.account = own.account;
            self.cx.named_at = own.named_at;
            self.cx.roles = own.roles;
            self.cx.env.roles = own.role_names;
            *self.cx.rights.get_mut() = own.rights;
        }
    }

    /// Takes over the SQL mode and the collation of a program. The settings that follow from them
    /// are kept for the next program with the same ones.
    fn switch_settings(&mut self, context: &ProgramContext<'_>) -> Result<Box<SwitchedSettings>> {
        let switched = &mut self.programs.switched;
        let known = switched.iter().position(|known| {
            known.before.is_same(&self.cx.values)
                && known.mode == context.sql_mode
                && known.collation == context.collation
        });
        if let Some(at) = known {
            let mut known = switched.swap_remove(at);
            self.exchange_settings(&mut known);
            return Ok(known);
        }
        let (values, settings) = (self.cx.values.clone(), self.cx.settings.clone());
        self.set_unchecked("sql_mode", &context.sql_mode.to_string());
        if let Some(collation) = Collation::by_name(context.collation) {
            self.set_unchecked("collation_connection", collation.name());
            self.set_unchecked("character_set_connection", collation.charset().name());
        }
        self.apply_settings()?;
        Ok(Box::new(SwitchedSettings {
            before: values.clone(),
            mode: context.sql_mode,
            collation: context.collation.to_owned(),
            of_program: self.cx.values.clone(),
            values,
            settings,
        }))
    }

    /// Exchanges the settings of the session and those kept for a program, which differ in the SQL
    /// mode and the collation.
    fn exchange_settings(&mut self, switched: &mut SwitchedSettings) {
        std::mem::swap(&mut self.cx.values, &mut switched.values);
        std::mem::swap(&mut self.cx.settings, &mut switched.settings);
        self.cx.env.mode = self.cx.settings.mode;
        self.cx.env.collation = self.cx.settings.collation;
    }

    /// Restores what a program's circumstances had replaced.
    pub(crate) fn leave_program(&mut self, entered: Entered) -> Result<()> {
        if let Some(own) = entered.database {
            self.cx.env.database = own;
        }
        self.leave_account(entered.account);
        let Some(mut replaced) = entered.settings else {
            return Ok(());
        };
        if self.cx.values.is_same(&replaced.of_program) {
            self.exchange_settings(&mut replaced);
            let kept = &mut self.programs.switched;
            if kept.len() >= MAX_SWITCHED {
                kept.clear();
            }
            kept.push(replaced);
            return Ok(());
        }
        // What the program has set stays, but for what it was given.
        for name in [
            "sql_mode",
            "collation_connection",
            "character_set_connection",
        ] {
            if let Some(at) = crate::vars::find(name) {
                let value = replaced.before.value_at(at).clone();
                self.cx.values.set(at, value);
            }
        }
        self.apply_settings()
    }

    /// Error 1370 unless the account may execute the routine.
    fn check_execute(&self, routine: &Routine) -> Result<()> {
        let is_function = routine.kind == RoutineKind::Function;
        let name = (is_function, &*routine.database, &*routine.name);
        self.cx.need_routine(Privileges::EXECUTE, "execute", name)
    }

    /// Number of running executions of a routine.
    fn running(&self, routine: &Arc<Routine>) -> usize {
        let running = self.programs.running.iter();
        running.filter(|r| is_same_routine(r, routine)).count()
    }

    /// Runs a procedure. An argument is its value, its type, and whether it is a variable.
    pub(super) fn call_procedure(
        &mut self,
        routine: &Arc<Routine>,
        args: Vec<(Value, ColumnType, bool)>,
        sink: &mut dyn ResultSink,
    ) -> Result<Called> {
        let program = self.executable(routine)?;
        check_arguments(&program, &args)?;
        let depth = self.running(routine) as u64;
        if depth > 0 && depth > self.cx.values.int("max_sp_recursion_depth") {
            let most = self.cx.values.int("max_sp_recursion_depth");
            let text = format!(
                "Recursive limit {most} (as set by the max_sp_recursion_depth variable) was \
                 exceeded for routine {}",
                routine.name
            );
            return Err(SqlError::new(1456, "HY000", text));
        }
        let mut frame = Frame::new(&program);
        self.programs.running.push(routine.clone());
        let ran = self.run_called(routine, &program, &mut frame, args, sink);
        self.programs.running.pop();
        let ran = ran?;
        let modes = program.parameters.iter().enumerate();
        let out = modes.filter(|(_, mode)| **mode != ParameterMode::In);
        let out = out.filter_map(|(at, _)| {
            let (_, ty) = program.variables.get(at)?;
            Some((at, frame.get(at as u32).clone(), sql_type(ty)))
        });
        Ok(Called {
            out: out.collect(),
            affected_rows: ran.affected_rows,
            position: ran.position,
        })
    }

    fn run_called(
        &mut self,
        routine: &Routine,
        program: &Program,
        frame: &mut Frame,
        args: Vec<(Value, ColumnType, bool)>,
        sink: &mut dyn ResultSink,
    ) -> Result<Ran> {
        // With the caller's settings.
        let given = program.parameters.iter().zip(args).enumerate();
        for (slot, (mode, (value, ty, _))) in given {
            if *mode != ParameterMode::Out {
                self.set_slot(program, frame, slot as u32, value, &ty)?;
            }
        }
        // Warnings about the arguments stay even if the body clears the diagnostics area.
        let before = std::mem::take(self.cx.env.warnings.get_mut());
        let entered = self.enter_program(&ProgramContext::of(routine))?;
        let ran = self.run_program(program, frame, sink);
        if !before.is_empty() {
            self.cx.env.warnings.get_mut().splice(0..0, before);
        }
        let left = self.leave_program(entered);
        ran.and_then(|ran| left.map(|()| ran))
    }

    /// Runs a CALL whose arguments are bound and no variables.
    pub(super) fn run_call(
        &mut self,
        call: &CallPlan,
        values: &[ValueRef<'_>],
        sink: &mut dyn ResultSink,
    ) -> Result<Outcome> {
        let mut args = Vec::with_capacity(call.args.len());
        for arg in &call.args {
            let (value, ty) = self.cx.evaluate_bound(arg, values)?;
            args.push((value, ty, false));
        }
        let called = self.call_procedure(&call.routine, args, sink)?;
        Ok(Outcome {
            affected_rows: called.affected_rows,
            position: called.position,
            ..Outcome::default()
        })
    }

    /// CALL as a statement of the client.
    pub(super) fn call(
        &mut self,
        call: &Call<'_>,
        values: &[ValueRef<'_>],
        types: &[ColumnType],
        sink: &mut dyn ResultSink,
    ) -> Result<Outcome> {
        let (database, name) = self.cx.qualified(&call.name)?;
        // What the routine executes has variables of its own.
        let using = std::mem::take(&mut self.programs.using);
        let routine = self.procedure(&database, &name)?;
        let program = self.executable(&routine)?;
        let mut args = Vec::with_capacity(call.args.len());
        for (at, arg) in call.args.iter().enumerate() {
            let is_variable = matches!(arg.kind, ExprKind::UserVar(_) | ExprKind::Param(_));
            let to = assigned_parameter(&program, at);
            let (value, ty) = self.assigned_value_of(arg, values, types, to)?;
            args.push((value, ty, is_variable));
        }
        let called = self.call_procedure(&routine, args, sink)?;
        let mut sent = Vec::new();
        for (at, value, ty) in called.out {
            match call.args.get(at).map(|arg| &arg.kind) {
                Some(ExprKind::UserVar(variable)) => {
                    let env = &self.cx.env;
                    env.set_user_variable(variable_name(variable), value, ty)?;
                }
                Some(ExprKind::Param(number)) if !using.is_empty() => {
                    if let Some(variable) = using.get(*number as usize) {
                        let env = &self.cx.env;
                        env.set_user_variable(variable.clone(), value, ty)?;
                    }
                }
                Some(_) => sent.push((at, value, ty)),
                None => {}
            }
        }
        if !sent.is_empty() {
            self.send_out_parameters(&routine, &sent, called.position, sink)?;
        }
        Ok(Outcome {
            affected_rows: called.affected_rows,
            position: called.position,
            ..Outcome::default()
        })
    }

    /// Sends the OUT parameters of a prepared CALL as a result of one row.
    fn send_out_parameters(
        &mut self,
        routine: &Arc<Routine>,
        values: &[(usize, Value, ColumnType)],
        position: CommitPosition,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        let program = self.compiled(routine)?;
        let column = |(at, _, ty): &(usize, Value, ColumnType)| {
            let name = program.variables.get(*at).map(|(name, _)| name.clone());
            ResultColumn::without_table(name.unwrap_or_default(), ty.clone(), 0)
        };
        let columns: Vec<ResultColumn> = values.iter().map(column).collect();
        let mut sink = crate::results::RecodingSink::new(sink, &self.cx.settings);
        sink.columns(&columns)?;
        let row: Vec<ValueRef<'_>> = values.iter().map(|(_, v, _)| v.as_ref()).collect();
        sink.row(&row)?;
        sink.end_result(&ResultEnd {
            status: self.status_flags(),
            warnings: 0,
            position,
            is_out_parameters: true,
        })
    }

    /// Runs a function whose arguments are given, called by an account, or by that of the session.
    pub(super) fn run_function(
        &mut self,
        routine: &Arc<Routine>,
        args: Vec<(Value, ColumnType)>,
        invoker: Option<&str>,
    ) -> Result<Value> {
        let own = match invoker {
            Some(invoker) => self.enter_account(invoker)?,
            None => None,
        };
        let done = self.run_function_as_entered(routine, args);
        self.leave_account(own);
        done
    }

    /// Runs a function with the rights that the session has now.
    fn run_function_as_entered(
        &mut self,
        routine: &Arc<Routine>,
        args: Vec<(Value, ColumnType)>,
    ) -> Result<Value> {
        let program = self.executable(routine)?;
        if self.running(routine) > 0 {
            let text = "Recursive stored functions and triggers are not allowed.";
            return Err(SqlError::new(1424, "HY000", text));
        }
        let args = args.into_iter().map(|(value, ty)| (value, ty, false));
        let args: Vec<(Value, ColumnType, bool)> = args.collect();
        check_arguments(&program, &args)?;
        let mut frame = Frame::new(&program);
        self.programs.running.push(routine.clone());
        let ran = self.run_called(
            routine,
            &program,
            &mut frame,
            args,
            &mut NoResults(ProgramKind::Function),
        );
        self.programs.running.pop();
        Ok(ran?.returned.unwrap_or_default())
    }

    /// SIGNAL and RESIGNAL outside of programs.
    pub(super) fn signal(
        &mut self,
        signal: &Signal<'_>,
        values: &[ValueRef<'_>],
        types: &[ColumnType],
    ) -> Result<Outcome> {
        let raised = match &signal.condition {
            Some(ConditionValue::SqlState(state)) => match HandledCondition::of_sqlstate(state)? {
                HandledCondition::SqlState(sqlstate) => Some(RaisedCondition {
                    sqlstate,
                    code: None,
                }),
                _ => None,
            },
            Some(ConditionValue::Name(name)) => {
                let text = format!("Undefined CONDITION: {}", name.name);
                return Err(SqlError::new(1319, "42000", text));
            }
            _ => None,
        };
        if signal.again {
            return Err(resignal_without_handler());
        }
        let mut items = Vec::with_capacity(signal.items.len());
        for (name, value) in signal.items {
            let (value, ty) = self.value_of(&value.expr, values, types)?;
            items.push(((*name).to_owned(), value, ty));
        }
        let condition = self.signalled_condition(None, raised.as_ref(), items)?;
        let state = String::from_utf8_lossy(&condition.sqlstate).into_owned();
        let (level, warning) = (condition.level, condition.warning());
        self.programs.signalled = Some(condition);
        if level == Level::Error {
            return Err(SqlError::new(warning.code, &state, warning.message));
        }
        self.cx.env.warn(warning);
        Ok(Outcome::default())
    }

    /// The conditions of the statement before, with the items that SIGNAL has set.
    fn listed_conditions(&self) -> impl Iterator<Item = Condition> {
        self.cx.diagnostics.list(false).map(|w| {
            let signalled = self.programs.signalled.as_ref();
            let same = |c: &&Condition| c.code == w.code && c.message == w.message;
            if let Some(condition) = signalled.filter(same) {
                return condition.clone();
            }
            let mut condition = Condition::of_warning(w);
            if w.level == Level::Error
                && let Some(state) = self.cx.diagnostics.error_state()
            {
                condition.sqlstate = state;
            }
            condition
        })
    }

    /// An error of GET DIAGNOSTICS itself becomes a further condition; the statement succeeds.
    fn note_failed_diagnostics(&self, conditions: &[Condition], error: &SqlError) -> Outcome {
        self.cx.diagnostics.begin();
        let error = Condition::of_error(error);
        for condition in conditions.iter().chain([&error]) {
            self.cx.env.warn(condition.warning());
        }
        Outcome::default()
    }

    /// GET DIAGNOSTICS outside of programs.
    pub(super) fn get_diagnostics(
        &mut self,
        get: &GetDiagnostics<'_>,
        values: &[ValueRef<'_>],
        types: &[ColumnType],
    ) -> Result<Outcome> {
        if get.stacked {
            let text = "GET STACKED DIAGNOSTICS when handler not active";
            return Err(SqlError::new(1887, "0Z002", text));
        }
        self.cx.diagnostics.retain_list();
        let conditions: Vec<Condition> = self.listed_conditions().collect();
        let condition = match &get.condition {
            Some(e) => {
                let number = self.value_of(&e.expr, values, types);
                let found = number.and_then(|(value, ty)| {
                    let number = self.integer_item(&value, &ty)?;
                    condition_numbered(&conditions, number)
                });
                match found {
                    Ok(condition) => Some(condition),
                    Err(error) => return Ok(self.note_failed_diagnostics(&conditions, &error)),
                }
            }
            None => None,
        };
        for (target, name) in get.items {
            let count = self.cx.env.row_count;
            let (value, ty) = diagnostics_item(&conditions, condition, count, name);
            match target {
                IntoVar::User(variable) => {
                    let env = &self.cx.env;
                    env.set_user_variable(variable_name(variable), value, ty)?;
                }
                IntoVar::Local { name, .. } => {
                    let text = format!("Undeclared variable: {}", name.name);
                    return Err(SqlError::new(1327, "42000", text));
                }
            }
        }
        Ok(Outcome::default())
    }
}

/// Whether two definitions are of the same routine.
fn is_same_routine(a: &Arc<Routine>, b: &Arc<Routine>) -> bool {
    Arc::ptr_eq(a, b)
        || a.kind == b.kind
            && a.database == b.database
            && a.name.to_lowercase() == b.name.to_lowercase()
}

/// Number of routines that are found without their names.
const MAX_RECENT: usize = 16;

/// Estimated memory of an instruction with the expression that is bound for it.
const BYTES_PER_INSTRUCTION: usize = 1024;

/// Maximum number of compiled routines of a session; when it is exceeded, all are dropped.
const MAX_COMPILED: usize = 256;

/// The sink of a function or a trigger: a result set is an error.
pub(crate) struct NoResults(pub ProgramKind);

impl ResultSink for NoResults {
    fn is_for_client(&self) -> bool {
        false
    }

    fn columns(&mut self, _: &[ResultColumn]) -> Result<()> {
        Err(crate::programs::restrict::result_set_refused(self.0))
    }

    fn row(&mut self, _: &[ValueRef<'_>]) -> Result<()> {
        Ok(())
    }
}

/// Errors 1318 and 1414: a wrong number of arguments, or a value for an OUT parameter.
fn check_arguments(program: &Program, args: &[(Value, ColumnType, bool)]) -> Result<()> {
    let kind = match program.kind {
        ProgramKind::Function => "FUNCTION",
        _ => "PROCEDURE",
    };
    if args.len() != program.parameters.len() {
        let text = format!(
            "Incorrect number of arguments for {kind} {}; expected {}, got {}",
            program.name,
            program.parameters.len(),
            args.len()
        );
        return Err(SqlError::new(1318, "42000", text));
    }
    let mut pairs = program.parameters.iter().zip(args).enumerate();
    let refused = pairs.find(|(_, (mode, arg))| **mode != ParameterMode::In && !arg.2);
    match refused {
        Some((at, _)) => {
            let text = format!(
                "OUT or INOUT argument {} for routine {} is not a variable or NEW pseudo-variable \
                 in BEFORE trigger",
                at + 1,
                program.name
            );
            Err(SqlError::new(1414, "42000", text))
        }
        None => Ok(()),
    }
}

/// A type as SHOW CREATE FUNCTION shows it.
fn sql_with_charset(ty: &ColumnType) -> String {
    let sql = ty.sql();
    let textual = ty.is_string() || {
        use porpoise_types::Kind;
        matches!(ty.kind, Kind::Enum | Kind::Set)
    };
    if !textual || ty.collation == Collation::BINARY {
        return sql;
    }
    let charset = ty.collation.charset();
    let mut shown = format!("{sql} CHARSET {}", charset.name());
    if ty.collation != charset.default_collation() {
        shown += &format!(" COLLATE {}", ty.collation.name());
    }
    shown
}
