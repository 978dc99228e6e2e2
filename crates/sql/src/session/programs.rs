//! Execution of compiled programs ([`crate::programs`]).
//!
//! Each instruction is executed by [`SqlSession::step`]. An error, or the warnings of a statement
//! that succeeded, are conditions, which handlers may catch ([`super::conditions`]). Statements are run as
//! prepared statements whose parameters are the variables; outside of functions and triggers each
//! is a statement of its own for the transaction.

use super::evaluate::{Assigned, SingleValue, env_cx, is_unchanged};
use super::plan_cache::PlanDependencies;
use super::prepared::Prepared;
use super::{Outcome, SqlSession, lex_mode};
use crate::programs::condition::{Condition, no_data};
use crate::programs::frame::{Frame, OpenCursor};
use crate::programs::program::{CallInstruction, Instruction, Program, Source, Target};
use bumpalo::Bump;
use porpoise_access::Rights;
use porpoise_base::interrupt;
use porpoise_kv::CommitPosition;
use porpoise_rows::catalog::{Catalog, Routine, RoutineKey, TableId};
use porpoise_sql_exec::exec::row_queue::RowQueue;
use porpoise_sql_exec::exec::{ResultEnd, ResultSink};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_expr::expr::eval::EvalCx;
use porpoise_sql_expr::expr::{CmpOp, Coercibility, Expr, ExprKind, convert};
use porpoise_sql_expr::memory::SessionMemory;
use porpoise_sql_parser::ast::{self, ParameterMode};
use porpoise_sql_parser::{Literals, ParseOptions, parse_expr};
use porpoise_sql_plan::bind::types::comparison;
use porpoise_sql_plan::plan::ResultColumn;
use porpoise_sql_plan::plan::planned::Planned;
use porpoise_types::{ColumnType, DateTime, Kind, Value, ValueRef};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

/// A routine that the session has run recently.
pub(super) struct RecentRoutine {
    /// The definition.
    pub from: Arc<Routine>,
    /// The program.
    pub program: Arc<Program>,
    /// Rights with which the privilege EXECUTE was found.
    pub allowed: Option<Arc<Rights>>,
}

/// A compiled routine.
pub(super) struct CompiledRoutine {
    /// The definition that it was compiled from.
    pub from: Arc<Routine>,
    /// The program.
    pub program: Arc<Program>,
    /// Its memory.
    pub _charge: Option<porpoise_base::memory::MemoryCharge>,
}

/// The programs of a session.
#[derive(Default)]
pub(crate) struct Programs {
    /// Compiled routines.
    pub(super) compiled: HashMap<RoutineKey, CompiledRoutine>,
    /// Some of them, found by their definitions.
    pub(super) recent: Vec<RecentRoutine>,
    /// Settings of programs with others than the session's.
    #[expect(
        clippy::vec_box,
        reason = "each run of such a program takes its settings out, and puts them back"
    )]
    pub(super) switched: Vec<Box<super::routines::SwitchedSettings>>,
    /// See [`super::host::SpareParts`].
    pub(super) spare: super::host::SpareParts,
    /// Compiled triggers.
    pub(super) triggers: super::triggers::TriggerCache,
    /// Routines that are running, outermost first.
    pub(super) running: Vec<Arc<Routine>>,
    /// Whether the time of the current statement has not been set.
    has_old_time: bool,
    /// Grows when plans become invalid although the catalog version stays the same.
    pub(super) plan_epoch: u64,
    /// Tables of the statements that run these functions and triggers.
    pub(super) outer_tables: Vec<TableId>,
    /// Whether the session runs triggers of memcached commands: no statement runs them.
    pub(super) of_commands: bool,
    /// Number of outermost statements so far that ran functions or triggers.
    pub(super) outer_runs: u64,
    /// The statement of a program that the process list shows: its outermost statement, of which
    /// [`Self::outer_runs`] is the number, and the address of its text.
    shown: (u64, usize),
    /// Number of functions and triggers that are running: what they run is part of a statement.
    pub(crate) nested: u32,
    /// Whether the statement that called a function must be run again at a newer snapshot.
    pub(super) restart: bool,
    /// Variables of the EXECUTE ... USING that is about to run, to which a CALL assigns.
    pub(super) using: Vec<Arc<str>>,
    /// Named prepared statements that are running, outermost first.
    pub(super) executing: Vec<String>,
    /// The condition of the last SIGNAL, whose items an error does not carry.
    pub(super) signalled: Option<Condition>,
}

/// The result of a program.
#[derive(Default)]
pub(crate) struct Ran {
    /// The value of RETURN.
    pub returned: Option<Value>,
    /// Rows that the last statement has changed.
    pub affected_rows: u64,
    /// Commit position that the reply waits for.
    pub position: CommitPosition,
}

/// The instruction at which execution continues.
pub(super) enum Flow {
    Next,
    Jump(usize),
    Return(Value),
}

/// An expression as it was bound last.
struct BoundSource {
    dependencies: PlanDependencies,
    /// [`Programs::plan_epoch`] at the time.
    epoch: u64,
    /// Whether other executions may use it.
    is_kept: bool,
    /// Whether its value may depend on the time.
    depends_on_time: bool,
    /// The type of its value.
    ty: Arc<ColumnType>,
    made: Bound,
}

enum Bound {
    /// Evaluated directly.
    Direct(Expr),
    /// With a subquery or a stored function: executed as a query.
    Query(Arc<Planned>),
}

/// Collects the rows of a cursor.
struct CursorRows {
    types: Vec<ColumnType>,
    rows: RowQueue,
    memory: SessionMemory,
}

impl ResultSink for CursorRows {
    fn is_for_client(&self) -> bool {
        false
    }

    fn columns(&mut self, columns: &[ResultColumn]) -> Result<()> {
        self.types = columns.iter().map(|c| c.ty.clone()).collect();
        self.rows = RowQueue::new(columns.len(), self.memory.share());
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<()> {
        self.rows.push(values)
    }
}

impl SqlSession {
    /// Runs a program whose parameters are in the frame.
    ///
    /// # Errors
    /// Errors that no handler catches.
    pub(crate) fn run_program(
        &mut self,
        program: &Program,
        frame: &mut Frame,
        sink: &mut dyn ResultSink,
    ) -> Result<Ran> {
        porpoise_sql_plan::bind::check_stack()?;
        let mut ran = Ran::default();
        let mut at = 0;
        while let Some(instruction) = program.code.get(at) {
            self.cx.env.tick()?;
            let done = match self.cx.env.cancel.reason() {
                Some(reason) => return Err(porpoise_sql_expr::error::cancelled(reason)),
                None => self.step(instruction, program, frame, &mut ran, sink),
            };
            at = match done {
                Ok(Flow::Return(value)) => {
                    ran.returned = Some(value);
                    break;
                }
                Ok(flow) => {
                    let next = match flow {
                        Flow::Jump(target) => target,
                        _ => at + 1,
                    };
                    self.catch_warning(program, frame, (at, next))
                }
                // A client that has a part of a result gets the error after it.
                Err(error) if !sink.discard_result() => return Err(error),
                Err(error) => match self.catch_error(program, frame, at, error) {
                    Ok(handler) => {
                        if matches!(instruction, Instruction::Return(_)) {
                            // Its value is NULL, unless the handler or what follows returns another.
                            ran.returned = Some(Value::Null);
                        }
                        handler
                    }
                    Err(error) => {
                        self.hand_over_conditions(frame);
                        return Err(error);
                    }
                },
            };
        }
        if ran.returned.is_none()
            && let Some(returns) = &program.returns
        {
            let _ = returns;
            let name = program.name.rsplit('.').next().unwrap_or_default();
            let text = format!("FUNCTION {name} ended without RETURN");
            return Err(SqlError::new(1321, "2F005", text));
        }
        self.cx.env.warnings.get_mut().clear();
        self.hand_over_conditions(frame);
        Ok(ran)
    }

    /// Puts the conditions of a program that ends before those of its last statement, for its caller.
    fn hand_over_conditions(&mut self, frame: &Frame) {
        if frame.conditions.is_empty() {
            return;
        }
        let left = frame.conditions.iter().map(Condition::warning);
        self.cx.env.warnings.get_mut().splice(0..0, left);
    }

    /// Resets the diagnostics area and the state of the current statement.
    fn begin_part(&mut self, frame: &mut Frame) {
        frame.clear_conditions();
        self.cx.env.warnings.get_mut().clear();
        self.cx.env.warnings_dropped.set(0);
        self.cx.env.last_insert_id.set(self.cx.last_insert_id);
        self.cx.diagnostics.begin();
        self.programs.has_old_time = self.programs.nested == 0;
    }

    /// Sets the time of the current statement, unless it has one: functions and triggers have that
    /// of the statement that runs them. Called by statements that may depend on it.
    fn set_time(&mut self) {
        if !std::mem::take(&mut self.programs.has_old_time) {
            return;
        }
        let clock = self.cx.server.db.clock();
        let given = self.cx.settings.timestamp;
        let micros = given.unwrap_or_else(|| clock.unix_micros());
        if let Some(now) = DateTime::from_unix_micros(micros) {
            self.cx.env.now_utc = now;
        }
    }

    /// Moves the warnings of a statement to the diagnostics area.
    pub(super) fn end_part(&mut self, frame: &mut Frame) {
        self.cx.last_insert_id = self.cx.env.last_insert_id.get();
        let warnings = std::mem::take(self.cx.env.warnings.get_mut());
        frame
            .conditions
            .extend(warnings.iter().map(Condition::of_warning));
        let dropped = self.cx.env.warnings_dropped.get();
        let notes = self.cx.settings.notes;
        self.cx.diagnostics.end(warnings, dropped, None, notes);
    }

    fn step(
        &mut self,
        instruction: &Instruction,
        program: &Program,
        frame: &mut Frame,
        ran: &mut Ran,
        sink: &mut dyn ResultSink,
    ) -> Result<Flow> {
        match instruction {
            Instruction::Jump(target) => return Ok(Flow::Jump(*target)),
            Instruction::JumpUnless { .. }
            | Instruction::CaseOperand { .. }
            | Instruction::JumpUnlessEqual { .. } => return self.test_step(instruction, frame),
            Instruction::HandlerEnd(number) => return Ok(self.end_handler(*number, program, frame)),
            Instruction::Signal {
                again,
                condition,
                items,
            } => return self.signal_step(*again, condition.as_ref(), items, frame),
            Instruction::GetDiagnostics {
                stacked,
                condition,
                items,
            } => {
                return self.get_diagnostics_step(
                    *stacked,
                    condition.as_ref(),
                    items,
                    program,
                    frame,
                );
            }
            Instruction::CloseFrom(first, last) => {
                let range = *first as usize..*last as usize;
                if let Some(cursors) = frame.cursors.get_mut(range) {
                    cursors.iter_mut().for_each(|c| *c = None);
                }
                return Ok(Flow::Next);
            }
            Instruction::Sql {
                source,
                into: None,
                is_diagnostic: true,
            } => {
                let done = self.run_source(source, frame, sink)?;
                self.send_result(&done, ran, sink)?;
                return Ok(Flow::Next);
            }
            _ => {}
        }
        self.begin_part(frame);
        let flow = self.work(instruction, program, frame, ran, sink)?;
        self.end_part(frame);
        Ok(flow)
    }

    /// Executes an instruction of IF, CASE, WHILE or REPEAT, which clears the diagnostics area as SET
    /// does.
    fn test_step(&mut self, instruction: &Instruction, frame: &mut Frame) -> Result<Flow> {
        self.begin_part(frame);
        let (holds, target) = match instruction {
            Instruction::JumpUnless {
                condition, target, ..
            } => (self.condition_holds(condition, frame)?, *target),
            Instruction::JumpUnlessEqual {
                slot,
                value,
                target,
                ..
            } => (self.equals_operand(*slot, value, frame)?, *target),
            Instruction::CaseOperand { slot, operand, .. } => {
                let (value, ty) = self.value_of_source(operand, frame)?;
                frame.set(*slot, value, &self.cx.env.memory)?;
                frame.set_operand_type(*slot, ty);
                (true, 0)
            }
            _ => return Err(SqlError::internal("an instruction without a test")),
        };
        self.end_part(frame);
        Ok(if holds {
            Flow::Next
        } else {
            Flow::Jump(target)
        })
    }

    /// Executes an instruction that has a diagnostics area of its own.
    fn work(
        &mut self,
        instruction: &Instruction,
        program: &Program,
        frame: &mut Frame,
        ran: &mut Ran,
        sink: &mut dyn ResultSink,
    ) -> Result<Flow> {
        match instruction {
            Instruction::Assign(slot, None) => {
                frame.set(*slot, Value::Null, &self.cx.env.memory)?;
            }
            Instruction::Assign(slot, Some(source)) => {
                let to = assigned_slot(program, *slot)?;
                let value = self.assigned_value(source, frame, to);
                // After an error, a handler that goes on finds NULL.
                let (value, error) = value.map_or_else(|e| (Value::Null, Some(e)), |v| (v, None));
                frame.set(*slot, value, &self.cx.env.memory)?;
                error.map_or(Ok(()), Err)?;
            }
            Instruction::AssignUser(name, source) => {
                let (value, ty) = self.value_of_source(source, frame)?;
                let env = &self.cx.env;
                env.set_user_variable(name.clone(), value, ColumnType::clone(&ty))?;
            }
            Instruction::Sql { source, into, .. } => match into {
                None => {
                    let done = self.run_source(source, frame, sink)?;
                    self.send_result(&done, ran, sink)?;
                }
                Some(targets) => self.select_row(source, targets, program, frame, ran)?,
            },
            Instruction::Call(call) => self.call_step(call, program, frame, ran, sink)?,
            Instruction::CaseNotFound => {
                let text = "Case not found for CASE statement";
                return Err(SqlError::new(1339, "20000", text));
            }
            Instruction::Return(source) => {
                let returns = program.returns.as_ref();
                let to = Assigned {
                    name: program.name.rsplit('.').next().unwrap_or_default(),
                    ty: returns.ok_or_else(|| SqlError::internal("RETURN"))?,
                    is_result: true,
                };
                return Ok(Flow::Return(self.assigned_value(source, frame, to)?));
            }
            Instruction::Open(cursor) => self.open_cursor(*cursor, program, frame, ran)?,
            Instruction::Fetch(cursor, targets) => {
                self.fetch_cursor(*cursor, targets, program, frame)?;
            }
            Instruction::Close(cursor) => {
                let open = frame.cursors.get_mut(*cursor as usize);
                if open.and_then(Option::take).is_none() {
                    return Err(SqlError::new(1326, "24000", "Cursor is not open"));
                }
            }
            _ => return Err(SqlError::internal("an instruction without work")),
        }
        Ok(Flow::Next)
    }

    /// Executes CALL in a program.
    fn call_step(
        &mut self,
        call: &CallInstruction,
        program: &Program,
        frame: &mut Frame,
        ran: &mut Ran,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        let routine = self.resolve_call(call)?;
        let called = self.executable(&routine)?;
        let mut values = Vec::with_capacity(call.args.len());
        for (at, (source, target)) in call.args.iter().enumerate() {
            let to = assigned_parameter(&called, at);
            let is_assignable = self.is_assignable(program, &called, at, target.as_ref())?;
            let (value, ty) = self.value_of_source_for(source, frame, to)?;
            values.push((value, ColumnType::clone(&ty), is_assignable));
        }
        let called = self.call_procedure(&routine, values, sink)?;
        ran.position = ran.position.max(called.position);
        ran.affected_rows = called.affected_rows;
        for (at, value, ty) in called.out {
            if let Some((_, Some(target))) = call.args.get(at) {
                self.assign_target(program, frame, target, value, &ty)?;
                if let Target::Slot(slot) = target
                    && program.row_variable(*slot).is_some()
                {
                    frame.assigned_by_procedures.push(*slot);
                }
            }
        }
        Ok(())
    }

    /// Whether a procedure may assign the argument at this position.
    ///
    /// # Errors
    /// 1143 if the argument is a column of NEW or OLD, and the definer lacks a privilege on it.
    fn is_assignable(
        &self,
        program: &Program,
        called: &Program,
        at: usize,
        target: Option<&Target>,
    ) -> Result<bool> {
        let Some(Target::Slot(slot)) = target else {
            return Ok(target.is_some());
        };
        let Some(row) = program.row_variable(*slot) else {
            return Ok(true);
        };
        if let Some(mode) = called.parameters.get(at) {
            self.check_row_argument(program, row, *mode)?;
        }
        Ok(row.is_assignable)
    }

    /// The procedure that a CALL names; looked up once for a version of the catalog.
    fn resolve_call(&self, call: &CallInstruction) -> Result<Arc<Routine>> {
        let version = self.cx.server.db.catalog_version();
        let database = call.database.as_ref().or(self.cx.env.database.as_ref());
        let database = database.ok_or_else(SqlError::no_database_selected)?;
        let kept = call.resolved.take::<(u64, Arc<Routine>)>();
        let valid = kept.filter(|kept| kept.0 == version && kept.1.database == *database);
        let kept = match valid {
            Some(kept) => kept,
            None => Box::new((version, self.procedure(database, &call.name)?)),
        };
        let routine = kept.1.clone();
        call.resolved.put(kept);
        Ok(routine)
    }

    /// Ends a result set, or counts the rows that a statement has changed.
    fn send_result(
        &mut self,
        done: &Outcome,
        ran: &mut Ran,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        ran.position = ran.position.max(done.position);
        if done.had_rows {
            self.cx.env.row_count = -1;
            ran.affected_rows = 0;
            let end = ResultEnd {
                status: self.status_flags(),
                warnings: u16::try_from(self.cx.env.warnings.borrow().len()).unwrap_or(u16::MAX),
                position: done.position,
                is_out_parameters: false,
            };
            return sink.end_result(&end);
        }
        ran.affected_rows = done.affected_rows;
        self.cx.env.row_count = i64::try_from(done.affected_rows).unwrap_or(i64::MAX);
        Ok(())
    }

    /// Runs a statement of a program.
    pub(super) fn run_source(
        &mut self,
        source: &Source,
        frame: &Frame,
        sink: &mut dyn ResultSink,
    ) -> Result<Outcome> {
        self.set_time();
        let slots = source.slots.iter();
        let values: SmallVec<[ValueRef<'_>; 4]> =
            slots.map(|slot| frame.get(*slot).as_ref()).collect();
        let epoch = self.programs.plan_epoch;
        let kept = source.plan.take::<(u64, Prepared)>();
        let mut kept = match kept.filter(|kept| kept.0 == epoch) {
            Some(kept) => kept,
            None => Box::new((epoch, self.prepared_source(source)?)),
        };
        self.show_source(source);
        let result = self.run_program_statement(&mut kept.1, &values, &source.types, sink);
        source.plan.put(kept);
        let result = result.and_then(|outcome| Ok(interrupt::outcome().map(|()| outcome)?));
        self.note_revealed(&result);
        if self.programs.nested == 0 {
            self.cx.env.memory.end_statement();
            self.metadata_locks.end_statement();
            if self.open.is_none() {
                self.metadata_locks.release();
            }
        }
        result
    }

    /// Shows a statement of a program in the process list. One that runs for each row of the outermost statement is
    /// shown once.
    pub(super) fn show_source(&mut self, source: &Source) {
        let is_called_by_plan = self.programs.nested > 0;
        let shown = (self.programs.outer_runs, source.text.as_ptr() as usize);
        if is_called_by_plan && self.programs.shown == shown {
            return;
        }
        self.process.set_statement(&source.text, is_called_by_plan);
        self.programs.shown = shown;
    }

    /// Records the commit that a statement has made or seen, which later ones must see too.
    fn note_revealed(&mut self, result: &Result<Outcome>) {
        let position = match result {
            Ok(outcome) => outcome.position,
            Err(error) => error.position,
        };
        self.revealed_position = self.revealed_position.max(position);
    }

    /// The value of an expression of a program, and its type.
    pub(super) fn value_of_source(
        &mut self,
        source: &Source,
        frame: &Frame,
    ) -> Result<(Value, Arc<ColumnType>)> {
        self.value_of_source_for(source, frame, None)
    }

    /// As [`Self::value_of_source`]. If a query computes the value, and it has a destination, it is converted to
    /// the type of the destination, which is then the returned type.
    fn value_of_source_for(
        &mut self,
        source: &Source,
        frame: &Frame,
        to: Option<Assigned<'_>>,
    ) -> Result<(Value, Arc<ColumnType>)> {
        let slots = source.slots.iter();
        let values: SmallVec<[ValueRef<'_>; 4]> =
            slots.map(|slot| frame.get(*slot).as_ref()).collect();
        let version = self.cx.server.db.catalog_version();
        let epoch = self.programs.plan_epoch;
        let kept = source.plan.take::<BoundSource>();
        let valid = kept.filter(|bound| {
            bound.epoch == epoch && bound.dependencies.still_hold(&self.cx, version)
        });
        let bound = match valid {
            Some(bound) => bound,
            None => Box::new(self.bind_source(source)?),
        };
        if bound.depends_on_time {
            self.set_time();
        }
        let mut ty = bound.ty.clone();
        let value = match &bound.made {
            Bound::Direct(e) => self.evaluate_bound(e, &values),
            Bound::Query(planned) => {
                let value = self.run_value(source, (planned, &bound), &values, to);
                if let Some(to) = to {
                    ty = Arc::new(to.ty.clone());
                }
                value
            }
        };
        if bound.is_kept {
            source.plan.put(bound);
        }
        Ok((value?, ty))
    }

    /// The value of an expression that is assigned to a variable or returned: in strict mode, conditions
    /// such as a division by zero are errors, as for columns.
    fn assigned_value(
        &mut self,
        source: &Source,
        frame: &Frame,
        to: Assigned<'_>,
    ) -> Result<Value> {
        let strict = self.cx.env.mode.is_strict();
        let before = self.cx.env.strict.replace(strict);
        let value = self.value_of_source_for(source, frame, Some(to));
        self.cx.env.strict.set(before);
        let (value, from) = value?;
        if is_unchanged(&value, &from, to.ty) {
            return Ok(value);
        }
        self.set_time();
        to.convert(&self.cx.env, value, &from)
    }

    fn parse_source<'a>(&self, arena: &'a Bump, source: &'a Source) -> Result<ast::Expr<'a>> {
        let options = ParseOptions {
            mode: lex_mode(self.cx.settings.mode),
            literals: Literals::Variables(&source.places),
            ..ParseOptions::default()
        };
        let text = &source.text;
        parse_expr(arena, text, &options).map_err(|e| SqlError::syntax(&e, text))
    }

    /// The plan of an expression of a program as a query, and its type.
    fn plan_of_source(
        &self,
        e: &ast::Expr<'_>,
        source: &Source,
        catalog: &Catalog,
    ) -> Result<(Arc<Planned>, ColumnType)> {
        self.cx.planning.binds_variables.set(true);
        let planned = self.plan_value(e, &source.types, catalog);
        self.cx.planning.binds_variables.set(false);
        planned
    }

    /// Binds an expression, as a query if it has a subquery or calls a stored function.
    fn bind_source(&self, source: &Source) -> Result<BoundSource> {
        let arena = Bump::new();
        let e = self.parse_source(&arena, source)?;
        self.cx.begin_plan();
        let catalog = self.cx.catalog();
        let dependencies = PlanDependencies::of(&self.cx, catalog.version);
        let direct = if e.has_subquery() {
            None
        } else {
            self.cx.planning.binds_variables.set(true);
            let bound = self.cx.bind(&e, &source.types);
            self.cx.planning.binds_variables.set(false);
            Some(bound?).filter(|bound| !bound.has_subquery())
        };
        let (made, ty) = match direct {
            Some(bound) => {
                let ty = bound.ty.clone();
                (Bound::Direct(bound), ty)
            }
            None => {
                let (planned, ty) = self.plan_of_source(&e, source, &catalog)?;
                (Bound::Query(planned), ty)
            }
        };
        let depends_on_time = match &made {
            Bound::Direct(e) => may_depend_on_time(e),
            Bound::Query(_) => true,
        };
        Ok(BoundSource {
            depends_on_time,
            dependencies,
            epoch: self.programs.plan_epoch,
            is_kept: self.cx.may_keep_plan(),
            ty: Arc::new(ty),
            made,
        })
    }

    /// The value of an expression that is executed as a query.
    fn run_value(
        &mut self,
        source: &Source,
        (planned, bound): (&Arc<Planned>, &BoundSource),
        values: &[ValueRef<'_>],
        to: Option<Assigned<'_>>,
    ) -> Result<Value> {
        let planned = self.plan_and_lock(|session, catalog| {
            if bound.dependencies.still_hold(&session.cx, catalog.version) {
                return Ok(planned.clone());
            }
            let arena = Bump::new();
            let e = session.parse_source(&arena, source)?;
            Ok(session.plan_of_source(&e, source, catalog)?.0)
        })?;
        let mut one = SingleValue {
            value: Value::Null,
            assigned: to.map(|to| (&*bound.ty, to)),
        };
        let done = self.run_plan(&planned, values, &mut one);
        if self.programs.nested == 0 {
            self.metadata_locks.end_statement();
            if self.open.is_none() {
                self.metadata_locks.release();
            }
        }
        self.note_revealed(&done);
        done?;
        Ok(one.value)
    }

    /// The context of an evaluation outside of queries.
    pub(super) fn eval_cx<'a>(&'a self, arena: &'a Bump, params: &'a [ValueRef<'a>]) -> EvalCx<'a> {
        env_cx(&self.cx.env, arena, params)
    }

    fn evaluate_bound(&self, e: &Expr, values: &[ValueRef<'_>]) -> Result<Value> {
        let arena = Bump::new();
        let cx = self.eval_cx(&arena, values);
        Ok(porpoise_sql_expr::expr::eval::eval(e, &[], &cx)?.to_owned())
    }

    fn condition_holds(&mut self, source: &Source, frame: &Frame) -> Result<bool> {
        let (value, ty) = self.value_of_source(source, frame)?;
        if let Value::Int(value) = value {
            return Ok(value != 0);
        }
        let arena = Bump::new();
        let cx = self.eval_cx(&arena, &[]);
        Ok(convert::truth(value.as_ref(), &ty, &cx)? == Some(true))
    }

    /// Whether a value equals the operand of a CASE statement, as `operand = value` compares them.
    fn equals_operand(&mut self, slot: u32, value: &Source, frame: &Frame) -> Result<bool> {
        let (value, ty) = self.value_of_source(value, frame)?;
        let operand_type = frame.operand_type(slot).cloned();
        let operand_type = operand_type.unwrap_or_else(ColumnType::null);
        let mut operand = Expr::constant(frame.get(slot).clone(), operand_type);
        if operand.coercibility == Coercibility::Literal {
            operand.coercibility = Coercibility::Implicit;
        }
        let value = Expr::constant(value, ColumnType::clone(&ty));
        let how = comparison(&operand, &value, "=")?;
        let kind = ExprKind::Compare(CmpOp::Eq, how, Box::new([operand, value]));
        let equal = self.evaluate_bound(&Expr::boolean(kind, true), &[])?;
        Ok(equal == Value::Int(1))
    }

    fn open_cursor(
        &mut self,
        number: u32,
        program: &Program,
        frame: &mut Frame,
        ran: &mut Ran,
    ) -> Result<()> {
        if frame
            .cursors
            .get(number as usize)
            .is_some_and(Option::is_some)
        {
            return Err(SqlError::new(1325, "24000", "Cursor is already open"));
        }
        let cursor = program.cursors.get(number as usize);
        let cursor = cursor.ok_or_else(|| SqlError::internal("no such cursor"))?;
        let memory = self.cx.env.memory.share();
        let mut sink = CursorRows {
            types: Vec::new(),
            rows: RowQueue::new(0, memory.share()),
            memory,
        };
        let done = self.run_source(&cursor.query, frame, &mut sink)?;
        ran.position = ran.position.max(done.position);
        let CursorRows {
            types, mut rows, ..
        } = sink;
        rows.finish()?;
        if let Some(place) = frame.cursors.get_mut(number as usize) {
            *place = Some(Box::new(OpenCursor { rows, types }));
        }
        Ok(())
    }

    fn fetch_cursor(
        &mut self,
        number: u32,
        targets: &[Target],
        program: &Program,
        frame: &mut Frame,
    ) -> Result<()> {
        let open = frame.cursors.get_mut(number as usize);
        let Some(mut open) = open.and_then(Option::take) else {
            return Err(SqlError::new(1326, "24000", "Cursor is not open"));
        };
        let fetched = self.fetch_row(&mut open, targets, program, frame);
        if let Some(place) = frame.cursors.get_mut(number as usize) {
            *place = Some(open);
        }
        fetched
    }

    /// Assigns the next row of a cursor.
    fn fetch_row(
        &mut self,
        open: &mut OpenCursor,
        targets: &[Target],
        program: &Program,
        frame: &mut Frame,
    ) -> Result<()> {
        if open.types.len() != targets.len() {
            let text = "Incorrect number of FETCH variables";
            return Err(SqlError::new(1328, "HY000", text));
        }
        let mut columns = targets.iter().zip(&open.types);
        let found = open.rows.next_row(&mut |value| match columns.next() {
            Some((target, ty)) => self.assign_target(program, frame, target, value.to_owned(), ty),
            None => Ok(()),
        })?;
        if found {
            return Ok(());
        }
        Err(SqlError::new(1329, "02000", no_data().message))
    }

    pub(super) fn assign_target(
        &mut self,
        program: &Program,
        frame: &mut Frame,
        target: &Target,
        value: Value,
        ty: &ColumnType,
    ) -> Result<()> {
        match target {
            Target::Slot(slot) => self.set_slot(program, frame, *slot, value, ty),
            Target::User(name) => {
                let env = &self.cx.env;
                env.set_user_variable(name.clone(), value, ty.clone())
            }
        }
    }

    /// Assigns a value of some type to a variable: NULL if it cannot be converted.
    pub(super) fn set_slot(
        &mut self,
        program: &Program,
        frame: &mut Frame,
        slot: u32,
        value: Value,
        from: &ColumnType,
    ) -> Result<()> {
        let to = assigned_slot(program, slot)?;
        if is_unchanged(&value, from, to.ty) {
            return frame.set(slot, value, &self.cx.env.memory);
        }
        self.set_time();
        let memory = &self.cx.env.memory;
        match to.convert(&self.cx.env, value, from) {
            Ok(value) => frame.set(slot, value, memory),
            Err(error) => {
                frame.set(slot, Value::Null, memory)?;
                Err(error)
            }
        }
    }
}

/// A variable as the destination of a value.
pub(super) fn assigned_slot(program: &Program, slot: u32) -> Result<Assigned<'_>> {
    let variable = program.variables.get(slot as usize);
    let (name, ty) = variable.ok_or_else(|| SqlError::internal("no such variable"))?;
    Ok(Assigned {
        name,
        ty,
        is_result: false,
    })
}

/// The destination of an argument; `None` for one whose value is not used.
pub(super) fn assigned_parameter(program: &Program, at: usize) -> Option<Assigned<'_>> {
    let mode = program.parameters.get(at)?;
    (*mode != ParameterMode::Out)
        .then(|| assigned_slot(program, at as u32).ok())
        .flatten()
}

/// Whether the value of an expression may depend on the time of the statement; false only for
/// operators on values that are no times.
fn may_depend_on_time(e: &Expr) -> bool {
    let mut found = false;
    e.walk(&mut |e| {
        let is_operator = matches!(
            e.kind,
            ExprKind::Const(_)
                | ExprKind::Param(_)
                | ExprKind::Arith(..)
                | ExprKind::Negate(_)
                | ExprKind::Compare(..)
                | ExprKind::And(_)
                | ExprKind::Or(_)
                | ExprKind::Not(_)
                | ExprKind::Is { .. }
        );
        let is_time = matches!(
            e.ty.kind,
            Kind::Date | Kind::DateTime | Kind::Timestamp | Kind::Time
        );
        found |= !is_operator || is_time;
    });
    found
}
