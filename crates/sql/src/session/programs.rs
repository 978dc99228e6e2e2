//! Execution of compiled programs ([`crate::programs`]).
//!
//! Each instruction is executed by [`SqlSession::step`]. An error, or the warnings of a statement
//! that succeeded, are conditions: the handler that catches one is found by the scope of the
//! instruction, and its body runs with a diagnostics area of its own on top. Statements are run as
//! prepared statements whose parameters are the variables; outside of functions and triggers each
//! is a statement of its own for the transaction.

use super::prepared::{PlanKey, Prepared};
use super::{Outcome, SqlSession, lex_mode};
use crate::programs::condition::{
    Condition, condition_numbered, diagnostics_item, resignal_without_handler, signal_condition,
};
use crate::programs::frame::{Activation, Frame, OpenCursor, size_of_value};
use crate::programs::program::{Instruction, Program, RaisedCondition, Source, Target};
use crate::programs::restrict;
use bumpalo::Bump;
use porpoise_base::interrupt;
use porpoise_kv::CommitPosition;
use porpoise_rows::catalog::{Routine, RoutineKey, TableId};
use porpoise_sql_exec::exec::{ResultEnd, ResultSink};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_expr::expr::eval::{EvalCx, load_value};
use porpoise_sql_expr::expr::load_of;
use porpoise_sql_expr::expr::{CmpOp, Coercibility, Expr, ExprKind, convert};
use porpoise_sql_parser::{Literals, ParseOptions, parse_expr};
use porpoise_sql_plan::bind::types::comparison;
use porpoise_sql_plan::plan::ResultColumn;
use porpoise_sql_plan::plan::planned::Planned;
use porpoise_types::{CastCx, ColumnType, DateTime, Level, Value, ValueRef, Warning, store};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

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
    /// Settings of the last program with others than the session's.
    pub(super) switched: Option<Box<super::routines::SwitchedSettings>>,
    /// Compiled triggers.
    pub(super) triggers: super::triggers::TriggerCache,
    /// Routines that are running, outermost first.
    pub(super) running: Vec<RoutineKey>,
    /// Grows when plans become invalid although the catalog version stays the same.
    pub(super) plan_epoch: u64,
    /// Tables of the statements that run these functions and triggers.
    pub(super) outer_tables: Vec<TableId>,
    /// Number of functions and triggers that are running: what they run is part of a statement.
    pub(crate) nested: u32,
    /// Whether the statement that called a function must be run again at a newer snapshot.
    pub(super) restart: bool,
    /// The condition of the last SIGNAL, whose items an error does not carry.
    signalled: Option<Condition>,
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
enum Flow {
    Next,
    Jump(usize),
    Return(Value),
}

/// An expression as it was bound last.
struct BoundSource {
    key: PlanKey,
    made: Bound,
}

enum Bound {
    /// Evaluated directly.
    Direct(Expr),
    /// With a subquery or a stored function: executed as a query.
    Query(Arc<Planned>, ColumnType),
}

/// Collects the rows of a query for INTO or a cursor.
struct Rows {
    types: Vec<ColumnType>,
    rows: VecDeque<Vec<Value>>,
    bytes: usize,
    /// Error 1172 for more than one row.
    single: bool,
    /// Number of variables that take a row.
    width: Option<usize>,
    charge: Option<porpoise_base::memory::MemoryCharge>,
    charged: usize,
    memory: porpoise_sql_expr::memory::SessionMemory,
}

/// Rows of a cursor are charged in steps of this many bytes.
const CHARGE_STEP: usize = 64 * 1024;

impl ResultSink for Rows {
    fn is_for_client(&self) -> bool {
        false
    }

    fn columns(&mut self, columns: &[ResultColumn]) -> Result<()> {
        if self.width.is_some_and(|width| width != columns.len()) {
            let text = "The used SELECT statements have a different number of columns";
            return Err(SqlError::new(1222, "21000", text));
        }
        self.types = columns.iter().map(|c| c.ty.clone()).collect();
        self.rows.clear();
        self.bytes = 0;
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<()> {
        if self.single && !self.rows.is_empty() {
            let text = "Result consisted of more than one row";
            return Err(SqlError::new(1172, "42000", text));
        }
        let row: Vec<Value> = values.iter().map(|v| ValueRef::to_owned(*v)).collect();
        self.bytes += row.len() * size_of::<Value>() + row.iter().map(size_of_value).sum::<usize>();
        self.rows.push_back(row);
        if self.bytes > self.charged {
            let wanted = self.bytes + CHARGE_STEP;
            self.charge = None;
            self.charge = self.memory.charge(wanted)?;
            self.charged = wanted;
        }
        Ok(())
    }
}

impl SqlSession {
    /// Runs a program whose parameters are in the frame.
    ///
    /// # Errors
    /// Those that no handler catches.
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
                    self.catch_warning(program, frame, at, next)
                }
                // A client that has a part of a result gets the error behind it.
                Err(error) if !sink.discard_result() => return Err(error),
                Err(error) => self.catch_error(program, frame, at, error)?,
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
        let left = frame.conditions.iter().map(Condition::warning).collect();
        *self.cx.env.warnings.get_mut() = left;
        Ok(ran)
    }

    /// Resets the diagnostics area and the state of the current statement.
    fn begin_part(&mut self, frame: &mut Frame) {
        frame.conditions.clear();
        self.cx.env.warnings.get_mut().clear();
        self.cx.env.warnings_dropped.set(0);
        self.cx.env.last_insert_id.set(self.cx.last_insert_id);
        self.cx.diagnostics.begin();
        if self.programs.nested == 0 {
            let clock = self.cx.server.db.clock();
            let given = self.cx.settings.timestamp;
            let micros = given.unwrap_or_else(|| clock.unix_micros());
            if let Some(now) = DateTime::from_unix_micros(micros) {
                self.cx.env.now_utc = now;
            }
        }
    }

    /// Moves the warnings of a statement to the diagnostics area.
    fn end_part(&mut self, frame: &mut Frame) {
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

    /// Executes an instruction of IF, CASE, WHILE or REPEAT.
    fn test_step(&mut self, instruction: &Instruction, frame: &mut Frame) -> Result<Flow> {
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
                frame.operands.insert(*slot, ty);
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
                let (value, ty) = self.value_of_source(source, frame)?;
                self.set_slot(program, frame, *slot, &value, &ty)?;
            }
            Instruction::AssignUser(name, source) => {
                let (value, ty) = self.value_of_source(source, frame)?;
                self.cx.env.set_user_variable(name.clone(), value, ty)?;
            }
            Instruction::Sql { source, into, .. } => match into {
                None => {
                    let done = self.run_source(source, frame, sink)?;
                    self.send_result(&done, ran, sink)?;
                }
                Some(targets) => self.select_row(source, targets, program, frame, ran)?,
            },
            Instruction::Call {
                database,
                name,
                args,
            } => self.call_step((database.as_deref(), name), args, program, frame, ran, sink)?,
            Instruction::CaseNotFound => {
                let text = "Case not found for CASE statement";
                return Err(SqlError::new(1339, "20000", text));
            }
            Instruction::Return(source) => {
                let (value, ty) = self.value_of_source(source, frame)?;
                let returns = program.returns.as_ref();
                let returns = returns.ok_or_else(|| SqlError::internal("RETURN"))?;
                let name = program.name.rsplit('.').next().unwrap_or_default();
                let value = self.converted(&value, &ty, returns, &format!("{name}()"))?;
                return Ok(Flow::Return(value));
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

    /// Executes SELECT ... INTO.
    fn select_row(
        &mut self,
        source: &Source,
        targets: &[Target],
        program: &Program,
        frame: &mut Frame,
        ran: &mut Ran,
    ) -> Result<()> {
        let mut rows = self.rows(Some(targets.len()), true);
        let done = self.run_source(source, frame, &mut rows)?;
        ran.position = ran.position.max(done.position);
        self.cx.env.row_count = rows.rows.len() as i64;
        match rows.rows.pop_front() {
            Some(row) => self.assign_row(program, frame, targets, row, &rows.types),
            None => {
                self.cx.env.warn(no_data());
                Ok(())
            }
        }
    }

    /// Executes CALL in a program.
    fn call_step(
        &mut self,
        (database, name): (Option<&str>, &str),
        args: &[(Source, Option<Target>)],
        program: &Program,
        frame: &mut Frame,
        ran: &mut Ran,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        let mut values = Vec::with_capacity(args.len());
        for (source, target) in args {
            let (value, ty) = self.value_of_source(source, frame)?;
            values.push((value, ty, target.is_some()));
        }
        let database = match database {
            Some(database) => database.to_owned(),
            None => self.current_database()?,
        };
        let called = self.call_procedure(&database, name, values, sink)?;
        ran.position = ran.position.max(called.position);
        ran.affected_rows = called.affected_rows;
        for (at, value, ty) in called.out {
            if let Some((_, Some(target))) = args.get(at) {
                self.assign_target(program, frame, target, value, &ty)?;
            }
        }
        Ok(())
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
        let slots = source.slots.iter();
        let values: Vec<ValueRef<'_>> = slots.map(|slot| frame.get(*slot).as_ref()).collect();
        let epoch = self.programs.plan_epoch;
        let kept = source.plan.take::<(u64, Prepared)>();
        let mut kept = match kept.filter(|kept| kept.0 == epoch) {
            Some(kept) => kept,
            None => Box::new((epoch, self.prepared_source(source)?)),
        };
        self.process.set_statement(&source.text);
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

    /// Notes the commit that a statement has made or seen, which later ones must see too.
    fn note_revealed(&mut self, result: &Result<Outcome>) {
        let position = match result {
            Ok(outcome) => outcome.position,
            Err(error) => error.position,
        };
        self.revealed_position = self.revealed_position.max(position);
    }

    /// The value of an expression of a program.
    pub(super) fn value_of_source(
        &mut self,
        source: &Source,
        frame: &Frame,
    ) -> Result<(Value, ColumnType)> {
        let slots = source.slots.iter();
        let values: Vec<ValueRef<'_>> = slots.map(|slot| frame.get(*slot).as_ref()).collect();
        let version = self.cx.server.db.catalog_version();
        let kept = source.plan.take::<BoundSource>();
        let valid = kept.filter(|b| b.key.is_valid_for(&self.cx, version, &source.types));
        if let Some(bound) = valid
            && let Bound::Direct(e) = &bound.made
        {
            let value = self.evaluate_bound(e, &values);
            let ty = e.ty.clone();
            source.plan.put(bound);
            return Ok((value?, ty));
        }
        let (planned, ty) = match self.bind_source(source)? {
            (Bound::Direct(e), keep) => {
                let value = self.evaluate_bound(&e, &values);
                let ty = e.ty.clone();
                if let Some(key) = keep {
                    let made = Bound::Direct(e);
                    source.plan.put(Box::new(BoundSource { key, made }));
                }
                return Ok((value?, ty));
            }
            (Bound::Query(planned, ty), _) => (planned, ty),
        };
        let mut rows = self.rows(None, false);
        let done = self.run_plan(&planned, &values, &mut rows);
        if self.programs.nested == 0 && self.open.is_none() {
            self.metadata_locks.release();
        }
        self.note_revealed(&done);
        done?;
        let row = rows.rows.pop_front();
        let value = row.and_then(|row| row.into_iter().next());
        Ok((value.unwrap_or_default(), ty))
    }

    /// Binds an expression. The key is given if the result may be used again.
    fn bind_source(&mut self, source: &Source) -> Result<(Bound, Option<PlanKey>)> {
        let arena = Bump::new();
        let options = ParseOptions {
            mode: lex_mode(self.cx.settings.mode),
            literals: Literals::Variables(&source.places),
            ..ParseOptions::default()
        };
        let text = &source.text;
        let e = parse_expr(&arena, text, &options).map_err(|e| SqlError::syntax(&e, text))?;
        self.cx.begin_plan();
        let version = self.cx.server.db.catalog_version();
        if !e.has_subquery() {
            self.cx.binds_variables.set(true);
            let bound = self.cx.bind(&e, &source.types);
            self.cx.binds_variables.set(false);
            let bound = bound?;
            if !bound.has_subquery() {
                let key = PlanKey::new(&self.cx, version, &source.types);
                let keep = self.cx.may_keep_plan().then_some(key);
                return Ok((Bound::Direct(bound), keep));
            }
        }
        self.cx.binds_variables.set(true);
        let planned = self.planned_value(&e, &source.types);
        self.cx.binds_variables.set(false);
        let (planned, ty) = planned?;
        Ok((Bound::Query(planned, ty), None))
    }

    /// The context of an evaluation outside of queries.
    pub(super) fn eval_cx<'a>(&'a self, arena: &'a Bump, params: &'a [ValueRef<'a>]) -> EvalCx<'a> {
        EvalCx {
            arena,
            env: &self.cx.env,
            params,
            aggregates: &[],
            new_row: &[],
            outer: None,
            queries: None,
        }
    }

    fn evaluate_bound(&self, e: &Expr, values: &[ValueRef<'_>]) -> Result<Value> {
        let arena = Bump::new();
        let cx = self.eval_cx(&arena, values);
        Ok(porpoise_sql_expr::expr::eval::eval(e, &[], &cx)?.to_owned())
    }

    fn condition_holds(&mut self, source: &Source, frame: &Frame) -> Result<bool> {
        let (value, ty) = self.value_of_source(source, frame)?;
        let arena = Bump::new();
        let cx = self.eval_cx(&arena, &[]);
        Ok(convert::truth(value.as_ref(), &ty, &cx)? == Some(true))
    }

    /// Whether a value equals the operand of a CASE statement, as `operand = value` compares them.
    fn equals_operand(&mut self, slot: u32, value: &Source, frame: &Frame) -> Result<bool> {
        let (value, ty) = self.value_of_source(value, frame)?;
        let operand_type = frame.operands.get(&slot).cloned();
        let operand_type = operand_type.unwrap_or_else(ColumnType::null);
        let mut operand = Expr::constant(frame.get(slot).clone(), operand_type);
        if operand.coercibility == Coercibility::Literal {
            operand.coercibility = Coercibility::Implicit;
        }
        let value = Expr::constant(value, ty);
        let how = comparison(&operand, &value, "=")?;
        let kind = ExprKind::Compare(CmpOp::Eq, how, Box::new([operand, value]));
        let equal = self.evaluate_bound(&Expr::boolean(kind, true), &[])?;
        Ok(equal == Value::Int(1))
    }

    fn rows(&self, width: Option<usize>, single: bool) -> Rows {
        Rows {
            types: Vec::new(),
            rows: VecDeque::new(),
            bytes: 0,
            single,
            width,
            charge: None,
            charged: 0,
            memory: self.cx.env.memory.share(),
        }
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
        let mut rows = self.rows(None, false);
        let done = self.run_source(&cursor.query, frame, &mut rows)?;
        ran.position = ran.position.max(done.position);
        if let Some(place) = frame.cursors.get_mut(number as usize) {
            *place = Some(OpenCursor {
                rows: rows.rows,
                types: rows.types,
                _charge: rows.charge,
            });
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
        let Some(open) = open.and_then(Option::as_mut) else {
            return Err(SqlError::new(1326, "24000", "Cursor is not open"));
        };
        if open.types.len() != targets.len() {
            let text = "Incorrect number of FETCH variables";
            return Err(SqlError::new(1328, "HY000", text));
        }
        let Some(row) = open.rows.pop_front() else {
            return Err(SqlError::new(1329, "02000", no_data().message));
        };
        let types = open.types.clone();
        self.assign_row(program, frame, targets, row, &types)
    }

    fn assign_row(
        &mut self,
        program: &Program,
        frame: &mut Frame,
        targets: &[Target],
        row: Vec<Value>,
        types: &[ColumnType],
    ) -> Result<()> {
        for ((target, value), ty) in targets.iter().zip(row).zip(types) {
            self.assign_target(program, frame, target, value, ty)?;
        }
        Ok(())
    }

    fn assign_target(
        &mut self,
        program: &Program,
        frame: &mut Frame,
        target: &Target,
        value: Value,
        ty: &ColumnType,
    ) -> Result<()> {
        match target {
            Target::Slot(slot) => self.set_slot(program, frame, *slot, &value, ty),
            Target::User(name) => {
                let env = &self.cx.env;
                env.set_user_variable(name.clone(), value, ty.clone())
            }
        }
    }

    /// Assigns a value of some type to a variable.
    pub(super) fn set_slot(
        &mut self,
        program: &Program,
        frame: &mut Frame,
        slot: u32,
        value: &Value,
        from: &ColumnType,
    ) -> Result<()> {
        let variable = program.variables.get(slot as usize);
        let (name, ty) = variable.ok_or_else(|| SqlError::internal("no such variable"))?;
        let value = self.converted(value, from, ty, name)?;
        frame.set(slot, value, &self.cx.env.memory)
    }

    /// Converts a value as an assignment to a column does.
    pub(super) fn converted(
        &self,
        value: &Value,
        from: &ColumnType,
        to: &ColumnType,
        name: &str,
    ) -> Result<Value> {
        if value.is_null() {
            return Ok(Value::Null);
        }
        let env = &self.cx.env;
        let mut warn = |w| env.warn(w);
        let mut cx = CastCx {
            mode: env.mode,
            strict: env.mode.is_strict(),
            warnings: &mut warn,
            tz: &env.time_zone,
            now: env.now(),
        };
        let stored = store(value.as_ref(), Some(from), to, name, 1, &mut cx)?;
        let arena = Bump::new();
        let cx = self.eval_cx(&arena, &[]);
        Ok(load_value(stored.as_ref(), load_of(to), to, &cx)?.to_owned())
    }
}

/// The condition 1329 of SELECT ... INTO without a row.
fn no_data() -> Warning {
    Warning {
        level: Level::Warning,
        code: 1329,
        message: "No data - zero rows fetched, selected, or processed".to_owned(),
    }
}

impl SqlSession {
    /// The handler of a condition that the instruction at `at` raised.
    fn handler_of(program: &Program, at: usize, condition: &Condition) -> Option<u32> {
        let mut scope = program.scope_of.get(at).copied();
        while let Some(found) = scope.and_then(|s| program.scopes.get(s as usize)) {
            let precedence = |handler: &u32| {
                let handler = program.handlers.get(*handler as usize);
                let conditions = handler.map(|h| h.conditions.iter());
                let all = conditions.into_iter().flatten();
                all.map(|c| c.precedence(condition)).max().unwrap_or(0)
            };
            let best = found
                .handlers
                .iter()
                .max_by_key(|handler| precedence(handler));
            if let Some(handler) = best.filter(|handler| precedence(handler) > 0) {
                return Some(*handler);
            }
            scope = found.parent;
        }
        None
    }

    /// The instruction at which execution continues after an error: that of its handler.
    fn catch_error(
        &mut self,
        program: &Program,
        frame: &mut Frame,
        at: usize,
        error: SqlError,
    ) -> Result<usize> {
        let signalled = self.programs.signalled.take();
        let nested = self.programs.nested > 0;
        if nested && (error.rolled_back || self.programs.restart) {
            return Err(error);
        }
        let error = if nested {
            error
        } else {
            self.cx.env.memory.end_statement();
            self.end_transaction_on_error(error)
        };
        if error.fatal || self.cx.env.cancel.reason().is_some() || interrupt::outcome().is_err() {
            return Err(error);
        }
        let same = |c: &Condition| c.code == error.code && c.message == error.message;
        let condition = signalled
            .filter(same)
            .unwrap_or_else(|| Condition::of_error(&error));
        let Some(handler) = Self::handler_of(program, at, &condition) else {
            self.programs.signalled = Some(condition);
            return Err(error);
        };
        self.end_part(frame);
        frame.conditions.push(condition.clone());
        let resume = program.code.get(at).and_then(Instruction::resume);
        let resume = resume.unwrap_or(at + 1);
        Ok(self.activate(program, frame, handler, condition, resume))
    }

    /// The instruction at which execution continues after one that succeeded: the handler of a
    /// warning, or `next`.
    fn catch_warning(
        &mut self,
        program: &Program,
        frame: &mut Frame,
        at: usize,
        next: usize,
    ) -> usize {
        let raises = matches!(
            program.code.get(at),
            Some(
                Instruction::Sql {
                    is_diagnostic: false,
                    ..
                } | Instruction::Assign(..)
                    | Instruction::AssignUser(..)
                    | Instruction::Call { .. }
                    | Instruction::Fetch(..)
                    | Instruction::Open(_)
                    | Instruction::JumpUnless { .. }
                    | Instruction::CaseOperand { .. }
                    | Instruction::JumpUnlessEqual { .. }
                    | Instruction::Signal { .. }
            )
        );
        if !raises || frame.conditions.is_empty() || program.handlers.is_empty() {
            return next;
        }
        let handled = |c: &Condition| Some((Self::handler_of(program, at, c)?, c.clone()));
        match frame.conditions.iter().rev().find_map(handled) {
            Some((handler, condition)) => self.activate(program, frame, handler, condition, next),
            None => next,
        }
    }

    /// Enters a handler; returns the first instruction of its body.
    fn activate(
        &mut self,
        program: &Program,
        frame: &mut Frame,
        handler: u32,
        condition: Condition,
        resume: usize,
    ) -> usize {
        let warnings = frame.conditions.iter().map(Condition::warning).collect();
        self.cx.diagnostics.begin();
        self.cx.diagnostics.end(warnings, 0, None, true);
        frame.activations.push(Activation {
            handler,
            resume,
            condition,
            stacked: frame.conditions.clone(),
            row_count: self.cx.env.row_count,
        });
        let found = program.handlers.get(handler as usize);
        found.map_or(program.code.len(), |h| h.start)
    }

    fn end_handler(&mut self, number: u32, program: &Program, frame: &mut Frame) -> Flow {
        frame.conditions.clear();
        self.cx.diagnostics.begin();
        self.cx.diagnostics.end(Vec::new(), 0, None, true);
        let resume = frame.activations.pop().map(|a| a.resume);
        let handler = program.handlers.get(number as usize);
        let Some((handler, exit)) = handler.and_then(|h| Some((h, h.exit?))) else {
            return Flow::Jump(resume.unwrap_or(program.code.len()));
        };
        // The block of an EXIT handler is left, and with it the handlers entered inside of it.
        let outer = handler.enclosing.and_then(|outer| {
            let mut active = frame.activations.iter();
            active.rposition(|a| a.handler == outer)
        });
        frame.activations.truncate(outer.map_or(0, |at| at + 1));
        Flow::Jump(exit)
    }

    fn signal_step(
        &mut self,
        again: bool,
        raised: Option<&RaisedCondition>,
        items: &[(String, Source)],
        frame: &mut Frame,
    ) -> Result<Flow> {
        let mut set = Vec::with_capacity(items.len());
        for (name, source) in items {
            let (value, ty) = self.value_of_source(source, frame)?;
            set.push((name.clone(), value, ty));
        }
        let handled = frame.activations.last().map(|a| a.condition.clone());
        let condition = if again {
            let handled = handled.ok_or_else(resignal_without_handler)?;
            signal_condition(Some(handled), raised, set)?
        } else {
            signal_condition(None, raised, set)?
        };
        if !again {
            frame.conditions.clear();
        } else if raised.is_none() {
            frame.conditions.pop();
        }
        if condition.level == Level::Error {
            let state = String::from_utf8_lossy(&condition.sqlstate);
            let error = SqlError::new(condition.code, &state, condition.message.clone());
            self.programs.signalled = Some(condition);
            return Err(error);
        }
        let warnings = vec![condition.warning()];
        frame.conditions.push(condition);
        self.cx.diagnostics.begin();
        self.cx.diagnostics.end(warnings, 0, None, true);
        Ok(Flow::Next)
    }

    fn get_diagnostics_step(
        &mut self,
        stacked: bool,
        number: Option<&Source>,
        items: &[(Target, String)],
        program: &Program,
        frame: &mut Frame,
    ) -> Result<Flow> {
        let number = match number {
            Some(source) => Some(self.value_of_source(source, frame)?),
            None => None,
        };
        let (conditions, row_count) = match frame.activations.last() {
            Some(active) if stacked => (active.stacked.clone(), active.row_count),
            None if stacked => {
                let text = "GET STACKED DIAGNOSTICS when handler not active";
                return Err(SqlError::new(1887, "0Z002", text));
            }
            _ => (frame.conditions.clone(), self.cx.env.row_count),
        };
        let condition = match &number {
            Some((value, _)) => Some(condition_numbered(&conditions, value)?),
            None => None,
        };
        for (target, name) in items {
            let (value, ty) = diagnostics_item(&conditions, condition, row_count, name);
            self.assign_target(program, frame, target, value, &ty)?;
        }
        Ok(Flow::Next)
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

    /// Whether statements run inside of a function or a trigger; then it must not commit.
    pub(super) fn check_nested(
        &self,
        statement: &porpoise_sql_parser::ast::Statement<'_>,
    ) -> Result<()> {
        use porpoise_sql_parser::ast::Statement as S;
        if self.programs.nested == 0 {
            return Ok(());
        }
        if restrict::commits(statement) {
            return Err(restrict::commit_refused());
        }
        match statement {
            S::Prepare { .. } | S::Execute { .. } | S::Deallocate(_) => {
                Err(restrict::dynamic_sql_refused())
            }
            _ => Ok(()),
        }
    }
}
