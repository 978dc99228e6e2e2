//! Triggers: CREATE, DROP, and running their bodies for a row.
//!
//! `rows` decides when a trigger fires ([`porpoise_rows::FiringTxn`]). Its body is compiled at its
//! first use in a session, and again when the definition of its table has changed. `NEW` and `OLD`
//! are variables of the program: they are filled from the row, and those of `NEW` that the body
//! assigns are written back to the row when the body has ended.

use super::evaluate::stored;
use super::routines::{NoResults, ProgramContext};
use super::{Outcome, SqlSession};
use crate::context::{StatementContext, lex_mode};
use crate::programs::compile::{CompileCx, compile};
use crate::programs::frame::Frame;
use crate::programs::program::{Program, RowVariable, sql_type};
use bumpalo::Bump;
use parking_lot::Mutex;
use porpoise_access::{Privileges, Rights};
use porpoise_rows::Firing;
use porpoise_rows::catalog::{Table, TableId};
use porpoise_rows::ddl::TriggerOrder;
use porpoise_rows::triggers::{Trigger, TriggerEvent, TriggerTime};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_expr::expr::eval::load_value;
use porpoise_sql_expr::expr::load_of;
use porpoise_sql_parser::ast::{
    self, CreateTrigger, ParameterMode, ProgramKind, Statement, TableName, VariableKind,
};
use porpoise_sql_parser::{ParseOptions, parse_one};
use porpoise_types::{ColumnType, SqlMode, Value};
use std::sync::Arc;

/// A compiled trigger.
pub(super) struct CompiledTrigger {
    pub(super) time: TriggerTime,
    pub(super) event: TriggerEvent,
    pub(super) program: Arc<Program>,
    /// Positions of the columns of the program's row variables.
    pub(super) columns: Vec<usize>,
    /// Rights with which the privilege TRIGGER was found.
    allowed: Mutex<Option<Arc<Rights>>>,
}

/// The compiled triggers of a table, as of a definition.
pub(super) struct CompiledTriggers {
    table: Arc<Table>,
    triggers: Arc<[CompiledTrigger]>,
}

/// Number of tables whose compiled triggers a session keeps. When it is exceeded, all are dropped.
const MAX_TABLES: usize = 256;

fn event_of(event: ast::TriggerEvent) -> TriggerEvent {
    match event {
        ast::TriggerEvent::Insert => TriggerEvent::Insert,
        ast::TriggerEvent::Update => TriggerEvent::Update,
        ast::TriggerEvent::Delete => TriggerEvent::Delete,
    }
}

fn time_of(after: bool) -> TriggerTime {
    if after {
        TriggerTime::After
    } else {
        TriggerTime::Before
    }
}

impl StatementContext {
    /// Compiles the body of a trigger of a table.
    ///
    /// # Errors
    /// 1054 for an unknown column of `NEW` or `OLD`; those of the body.
    fn compile_trigger(
        &self,
        create: &CreateTrigger<'_>,
        source: &[u8],
        table: &Table,
    ) -> Result<Program> {
        let cx = CompileCx {
            kind: ProgramKind::Trigger,
            name: format!("{}.{}", table.database, create.name.name.name),
            parameters: &[],
            returns: None,
            type_of: &|variable| match &variable.kind {
                VariableKind::Parameter(ty) | VariableKind::Local(ty) => {
                    self.program_type(ty, variable.name.name, &table.database)
                }
                VariableKind::New if create.event == ast::TriggerEvent::Delete => {
                    Err(no_row("NEW", "DELETE"))
                }
                VariableKind::Old if create.event == ast::TriggerEvent::Insert => {
                    Err(no_row("OLD", "INSERT"))
                }
                VariableKind::New => type_of_column(table, variable.name.name, "NEW"),
                VariableKind::Old => type_of_column(table, variable.name.name, "OLD"),
            },
            assigns_new: !create.after,
        };
        let mut program = compile(&create.body, source, &cx)?;
        program.trigger_table = Some((table.database.clone(), table.name.clone()));
        Ok(program)
    }

    /// Compiles a trigger of the catalog.
    fn compile_stored_trigger(&self, trigger: &Trigger, table: &Table) -> Result<Program> {
        let mode = lex_mode(SqlMode::from_bits(trigger.sql_mode));
        let source = format!(
            "CREATE TRIGGER {} {} ON t FOR EACH ROW {}",
            "t",
            format_args!("{} {}", trigger.time.name(), trigger.event.name()),
            trigger.body
        );
        let arena = Bump::new();
        let options = ParseOptions {
            mode,
            ..ParseOptions::default()
        };
        let parsed = parse_one(&arena, source.as_bytes(), 0, &options);
        let parsed = parsed.map_err(|e| SqlError::syntax(&e, source.as_bytes()))?;
        match &parsed.statement {
            Statement::CreateTrigger(create) => {
                self.compile_trigger(create, source.as_bytes(), table)
            }
            _ => Err(SqlError::internal("the definition of a trigger")),
        }
    }
}

/// The circumstances in which the body of a trigger runs.
pub(super) fn context_of<'t>(trigger: &'t Trigger, table: &'t Table) -> ProgramContext<'t> {
    ProgramContext {
        definer: Some(&trigger.definer),
        sql_mode: SqlMode::from_bits(trigger.sql_mode),
        database: &table.database,
        collation: &trigger.collation,
    }
}

/// Error 1363: the event of a trigger has no such row.
fn no_row(row: &str, event: &str) -> SqlError {
    let text = format!("There is no {row} row in on {event} trigger");
    SqlError::new(1363, "HY000", text)
}

fn type_of_column(table: &Table, name: &str, row: &str) -> Result<ColumnType> {
    let at = visible_column(table, name);
    match at.and_then(|at| table.columns.get(at)) {
        Some(column) => Ok(column.ty.clone()),
        None => {
            let text = format!("Unknown column '{name}' in '{row}'");
            Err(SqlError::new(1054, "42S22", text))
        }
    }
}

/// The position of a column by its name.
fn visible_column(table: &Table, name: &str) -> Option<usize> {
    let mut columns = table.columns.iter();
    columns.position(|c| !c.is_hidden() && c.name.to_lowercase() == name.to_lowercase())
}

impl SqlSession {
    /// CREATE TRIGGER.
    pub(super) fn create_trigger(
        &mut self,
        create: &CreateTrigger<'_>,
        source: &[u8],
    ) -> Result<Outcome> {
        let before = self.begin_definition()?;
        let (database, table_name) = self.resolve_for_ddl(&create.table)?;
        if let Some(schema) = create.name.schema
            && schema.name != database
        {
            return Err(SqlError::new(1435, "HY000", "Trigger in wrong schema"));
        }
        if self.cx.temporary.table(&database, &table_name).is_some() {
            let text = format!("Trigger's '{table_name}' is view or temporary table");
            return Err(SqlError::new(1361, "HY000", text));
        }
        if porpoise_sql_plan::virtual_tables::is_database(&database) || database == "mysql" {
            let text = "Triggers can not be created on system tables";
            return Err(SqlError::new(1465, "HY000", text));
        }
        let catalog = self.cx.server.db.catalog();
        if let Some(table) = catalog.table(&database, &table_name) {
            self.cx.compile_trigger(create, source, table)?;
        }
        let definer = self.definer_account(create.definer.as_ref())?;
        let collation = catalog.database(&database).map(|d| d.collation);
        let settings = &self.cx.settings;
        let name = create.name.name.name.to_owned();
        let trigger = Trigger {
            name: name.clone(),
            time: time_of(create.after),
            event: event_of(create.event),
            body: String::from_utf8_lossy(create.body.text).into_owned(),
            definer,
            sql_mode: settings.mode.bits(),
            charset: settings.client.name().to_owned(),
            collation: settings.collation.name().to_owned(),
            database_collation: collation.map_or_else(String::new, |c| c.name().to_owned()),
            created: self.cx.env.now_utc.to_unix_micros(),
        };
        let order = match &create.order {
            None => TriggerOrder::Last,
            Some(ast::TriggerOrder::Follows(other)) => TriggerOrder::Follows(other.name.to_owned()),
            Some(ast::TriggerOrder::Precedes(other)) => {
                TriggerOrder::Precedes(other.name.to_owned())
            }
        };
        let db = self.cx.server.db.clone();
        let done = db.create_trigger(
            &self.ddl_cx(),
            &database,
            &table_name,
            &trigger,
            &order,
            create.if_not_exists,
        )?;
        if done.is_note {
            let text = format!(
                "Trigger '{name}' already exists on the table '{database}'.'{table_name}'."
            );
            self.cx.note(4099, text);
        }
        Ok(Outcome {
            position: done.position.max(before),
            ..Outcome::default()
        })
    }

    /// DROP TRIGGER; needs the privilege TRIGGER on its table.
    pub(super) fn drop_trigger(
        &mut self,
        if_exists: bool,
        name: &TableName<'_>,
    ) -> Result<Outcome> {
        let before = self.begin_definition()?;
        let (database, name) = self.cx.qualified(name)?;
        let db = self.cx.server.db.clone();
        let catalog = db.catalog();
        let Some((table, _)) = catalog.trigger(&database, &name) else {
            let missing = SqlError::new(1360, "HY000", "Trigger does not exist");
            if !if_exists {
                return Err(missing);
            }
            self.cx.note(1360, missing.message);
            return Ok(Outcome {
                position: before,
                ..Outcome::default()
            });
        };
        let rights = self.cx.rights();
        if !rights
            .on_table(&database, &table.name)
            .has(Privileges::TRIGGER)
        {
            return Err(self.cx.table_denied("TRIGGER", &table.name));
        }
        drop(rights);
        if let Some(locks) = &self.table_locks {
            locks.check(table, true)?;
        }
        let done = db.drop_trigger(&self.ddl_cx(), &database, &name, if_exists)?;
        Ok(Outcome {
            position: done.position.max(before),
            ..Outcome::default()
        })
    }

    /// The compiled triggers of a table.
    pub(super) fn compiled_triggers(
        &mut self,
        table: &Arc<Table>,
    ) -> Result<Arc<[CompiledTrigger]>> {
        if let Some(found) = self.programs.triggers.get(&table.id)
            && Arc::ptr_eq(&found.table, table)
        {
            return Ok(found.triggers.clone());
        }
        let mut compiled = Vec::with_capacity(table.triggers.len());
        for trigger in table.triggers.iter() {
            let program = self.cx.compile_stored_trigger(trigger, table)?;
            let rows = program.row_variables.iter();
            let columns = rows.map(|row| visible_column(table, &row.column).unwrap_or(usize::MAX));
            compiled.push(CompiledTrigger {
                time: trigger.time,
                event: trigger.event,
                columns: columns.collect(),
                allowed: Mutex::default(),
                program: Arc::new(program),
            });
        }
        let triggers: Arc<[CompiledTrigger]> = compiled.into();
        if self.programs.triggers.len() >= MAX_TABLES {
            self.programs.triggers.clear();
        }
        let entry = CompiledTriggers {
            table: table.clone(),
            triggers: triggers.clone(),
        };
        self.programs.triggers.insert(table.id, entry);
        Ok(triggers)
    }

    /// Runs the triggers of a row, in their order.
    pub(super) fn run_triggers(&mut self, firing: &mut Firing<'_>) -> Result<()> {
        let table = firing.table.clone();
        let compiled = self.compiled_triggers(&table)?;
        for (trigger, compiled) in table.triggers.iter().zip(compiled.iter()) {
            if compiled.time != firing.time || compiled.event != firing.event {
                continue;
            }
            let mut frame = self.frame_of(compiled, firing)?;
            let entered = self.enter_program(&context_of(trigger, &table))?;
            let ran = self.run_trigger(compiled, &table, &mut frame);
            let written = ran.and_then(|()| self.write_back(compiled, &frame, firing));
            let left = self.leave_program(entered);
            written.and(left)?;
            // The statement reports the conditions of a trigger only if it fails.
            self.cx.env.warnings.get_mut().clear();
        }
        Ok(())
    }

    /// Fails unless the definer, whose rights the session has, may run the body: with the privilege
    /// TRIGGER on its table, SELECT on the columns of NEW and OLD that it reads, and UPDATE on those that
    /// it sets (manual, "CREATE TRIGGER Statement").
    fn check_definer(&self, program: &Program, rights: &Rights, table: &Table) -> Result<()> {
        let (database, name) = (&table.database, &table.name);
        if !rights.on_table(database, name).has(Privileges::TRIGGER) {
            return Err(self.cx.table_denied("TRIGGER", name));
        }
        for row in &program.row_variables {
            let mut wanted = Privileges::NONE;
            if program.reads(row.slot) {
                wanted = wanted.with(Privileges::SELECT);
            }
            if row.assigned {
                wanted = wanted.with(Privileges::UPDATE);
            }
            self.check_row_column((database, name), row, wanted)?;
        }
        Ok(())
    }

    /// Fails unless the definer, whose rights the session has, may pass a column of NEW or OLD to a
    /// parameter of a procedure.
    pub(super) fn check_row_argument(
        &self,
        program: &Program,
        row: &RowVariable,
        mode: ParameterMode,
    ) -> Result<()> {
        let Some((database, table)) = &program.trigger_table else {
            return Ok(());
        };
        let wanted = match mode {
            ParameterMode::In => Privileges::SELECT,
            ParameterMode::Out => Privileges::UPDATE,
            ParameterMode::InOut => Privileges::SELECT.with(Privileges::UPDATE),
        };
        self.check_row_column((database, table), row, wanted)
    }

    /// Fails unless the session's account has privileges on a column of NEW or OLD.
    fn check_row_column(
        &self,
        (database, table): (&str, &str),
        row: &RowVariable,
        wanted: Privileges,
    ) -> Result<()> {
        let rights = self.cx.rights();
        let lacking = wanted.without(rights.on_column(database, table, &row.column));
        let names: Vec<&str> = lacking.names().collect();
        if names.is_empty() {
            return Ok(());
        }
        let command = names.join(", ");
        Err(self.cx.column_denied(&command, &row.column, table))
    }

    /// Fails unless the definer, whose rights the session has, may run the body.
    pub(super) fn check_trigger(&self, compiled: &CompiledTrigger, table: &Table) -> Result<()> {
        let rights = self.cx.rights();
        let mut allowed = compiled.allowed.lock();
        if !allowed.as_ref().is_some_and(|a| Arc::ptr_eq(a, &rights)) {
            self.check_definer(&compiled.program, &rights, table)?;
            *allowed = Some(rights);
        }
        Ok(())
    }

    /// Runs a body with the rights of its definer.
    fn run_trigger(
        &mut self,
        compiled: &CompiledTrigger,
        table: &Table,
        frame: &mut Frame,
    ) -> Result<()> {
        self.check_trigger(compiled, table)?;
        self.run_program(
            &compiled.program,
            frame,
            &mut NoResults(ProgramKind::Trigger),
        )?;
        Ok(())
    }

    /// The frame of a body, with the values of the row.
    fn frame_of(&self, compiled: &CompiledTrigger, firing: &Firing<'_>) -> Result<Frame> {
        let program = &compiled.program;
        let mut frame = Frame::new(program);
        let arena = Bump::new();
        let cx = self.eval_cx(&arena, &[]);
        for (row, at) in program.row_variables.iter().zip(&compiled.columns) {
            let values: &[Value] = if row.is_new { firing.new } else { firing.old };
            let column = firing.table.columns.get(*at);
            if let (Some(value), Some(column)) = (values.get(*at), column) {
                let ty = &column.ty;
                let value = load_value(value.as_ref(), load_of(ty), ty, &cx)?;
                frame.set(row.slot, value.to_owned(), &self.cx.env.memory)?;
            }
        }
        Ok(frame)
    }

    /// Writes the columns of NEW that a body has assigned to the row.
    fn write_back(
        &self,
        compiled: &CompiledTrigger,
        frame: &Frame,
        firing: &mut Firing<'_>,
    ) -> Result<()> {
        let rows = compiled.program.row_variables.iter();
        let by_procedures = &frame.assigned_by_procedures;
        let is_set = |row: &RowVariable| row.assigned || by_procedures.contains(&row.slot);
        for (row, at) in rows.zip(&compiled.columns).filter(|(row, _)| is_set(row)) {
            let column = firing.table.columns.get(*at);
            let (Some(place), Some(column)) = (firing.new.get_mut(*at), column) else {
                continue;
            };
            let value = frame.get(row.slot);
            let from = sql_type(&column.ty);
            *place = stored(&self.cx.env, value, &from, &column.ty, &column.name)?;
        }
        Ok(())
    }
}

/// The compiled triggers of a session, by table.
pub(super) type TriggerCache =
    std::collections::HashMap<TableId, CompiledTriggers, foldhash::fast::FixedState>;
