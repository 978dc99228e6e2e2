//! AFTER triggers whose body is one INSERT, as audit tables have: what they insert for the rows of a
//! statement is written together.
//!
//! The values of each row are evaluated when the trigger fires, without a statement of their own; privileges,
//! locks and the plan are checked for the first row. `rows` asks for the write at the end of its call
//! ([`porpoise_rows::FireTriggers::write_batch`]), or when a later row fails.
//!
//! ```text
//! INSERT INTO t SELECT ...          t: row 1   row 2   ...   row n
//!   AFTER INSERT ... INSERT INTO a     values  values  ...   values   | a: row 1 ... row n
//! ```
//!
//! Invariants: no statement and no client can tell that the rows are written later.
//! 1. The trigger is the only one of its event, so that no other program runs between two rows. `rows` asks
//!    for batches only if the statement neither writes nor checks other tables.
//! 2. The values depend on the row and the statement alone ([`RowBatch::accepts`]), and the other table has
//!    neither triggers nor foreign keys to this one.
//! 3. An error of the rows kept so far comes before that of a later row.
//!
//! Rejected: batches for bodies of several statements (the second one may read what the first has written).

use super::SqlSession;
use super::prepared::Prepared;
use super::triggers::{CompiledTrigger, context_of};
use crate::programs::program::{Instruction, Program, Source};
use crate::status;
use bumpalo::Bump;
use porpoise_kv::StatementMark;
use porpoise_rows::catalog::{Table, TableId};
use porpoise_rows::triggers::{Trigger, TriggerEvent, TriggerTime};
use porpoise_rows::{AutoIncOptions, Firing, Txn};
use porpoise_sql_exec::exec::row_batch::RowBatch;
use porpoise_sql_exec::exec::state::States;
use porpoise_sql_exec::exec::{ConflictPolicy, Exec, ExecError, Shared};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_expr::expr::eval::load_value;
use porpoise_sql_expr::expr::load_of;
use porpoise_sql_plan::plan::planned::Planned;
use porpoise_sql_plan::plan::sinks::{Insert, Plan};
use porpoise_types::{Value, ValueRef};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// A column of NEW or OLD.
struct RowColumn {
    is_new: bool,
    at: usize,
}

/// Account, roles and default database of a body, where they differ from the session's.
struct Identity {
    account: String,
    roles: String,
    database: Option<String>,
}

/// The trigger of a statement that is writing rows, and the rows that it has inserted.
pub(super) struct BatchedTrigger {
    /// The table of the statement.
    table: TableId,
    event: TriggerEvent,
    /// The plan of the body.
    planned: Arc<Planned>,
    /// Columns of the row that are the plan's parameters.
    columns: Box<[RowColumn]>,
    identity: Option<Identity>,
    ids: AutoIncOptions,
    rows: RowBatch,
}

/// Whether the triggers of a statement may run as a batch.
pub(super) enum Batching {
    /// Not known yet, for this number of rows: before the body has run once, it may have no plan.
    Unknown(u32),
    /// They run one by one.
    Never,
    /// They run as a batch.
    Ready(Box<BatchedTrigger>),
}

/// Number of rows after which triggers whose body has no plan run one by one.
const MAX_UNKNOWN: u32 = 1;

impl Default for Batching {
    fn default() -> Batching {
        Batching::Unknown(0)
    }
}

/// The statement of a body that consists of one INSERT.
fn only_insert(program: &Program) -> Option<&Source> {
    match program.code.as_slice() {
        [
            Instruction::Sql {
                source,
                into: None,
                is_diagnostic: false,
            },
        ] => {
            let verb = source.text.get(..6)?;
            verb.eq_ignore_ascii_case(b"INSERT").then_some(source)
        }
        _ => None,
    }
}

/// The only trigger of a table that fires for an event, if its body may be run as a batch.
fn batchable<'t>(
    table: &'t Table,
    compiled: &'t [CompiledTrigger],
    event: TriggerEvent,
) -> Option<(&'t Trigger, &'t CompiledTrigger)> {
    let all = table.triggers.iter().zip(compiled);
    let mut firing = all.filter(|(_, compiled)| compiled.event == event);
    let (trigger, only) = firing.next()?;
    let is_alone = firing.next().is_none() && only.time == TriggerTime::After;
    let body = only_insert(&only.program).filter(|_| is_alone)?;
    let is_of_row = |slot: &u32| column_of(only, *slot).is_some();
    body.slots.iter().all(is_of_row).then_some((trigger, only))
}

/// The column of the row that a variable of a body stands for.
fn column_of(compiled: &CompiledTrigger, slot: u32) -> Option<RowColumn> {
    let mut rows = compiled.program.row_variables.iter().zip(&compiled.columns);
    let (row, at) = rows.find(|(row, _)| row.slot == slot)?;
    Some(RowColumn {
        is_new: row.is_new,
        at: *at,
    })
}

/// The plan of a body, if its rows may be written later.
fn insert_of<'p>(planned: &'p Planned, table: &Table) -> Option<&'p Insert> {
    let Plan::Insert(insert) = &planned.plan else {
        return None;
    };
    let refers_back = |parent: Option<TableId>| parent == Some(table.id);
    let mut keys = insert.table.foreign_keys.iter();
    let is_accepted = RowBatch::accepts(insert)
        && !planned.runs_programs
        && planned.date_literals.is_empty()
        && planned.tables.len() == 1
        && !keys.any(|key| refers_back(key.parent.as_ref().map(|parent| parent.table)));
    is_accepted.then_some(insert)
}

impl SqlSession {
    /// Whether the trigger of a statement that writes rows runs as a batch. It is checked as for its first
    /// row. The session has the statement's transaction; the trigger has run for `rows` so far.
    ///
    /// # Errors
    /// Those that the first row would have.
    pub(super) fn batching_of(&mut self, firing: &Firing<'_>, rows: u32) -> Result<Batching> {
        let table = firing.table;
        let compiled = self.compiled_triggers(table)?;
        let Some((trigger, only)) = batchable(table, &compiled, firing.event) else {
            return Ok(Batching::Never);
        };
        let entered = self.enter_program(&context_of(trigger, table))?;
        let mut found = if entered.changes_settings() {
            Ok(Batching::Never)
        } else {
            self.batching_as_definer(only, table, rows)
        };
        if let Ok(Batching::Ready(batch)) = &mut found {
            batch.identity = entered.changes_identity().then(|| Identity {
                account: self.cx.env.account.clone(),
                roles: self.cx.env.roles.clone(),
                database: self.cx.env.database.clone(),
            });
        }
        self.leave_program(entered)?;
        found
    }

    /// As [`Self::batching_of`], with the rights of the definer.
    fn batching_as_definer(
        &mut self,
        compiled: &CompiledTrigger,
        table: &Table,
        rows: u32,
    ) -> Result<Batching> {
        self.check_trigger(compiled, table)?;
        let ids = self.cx.settings.auto_increment;
        let (Some(source), 0, None) = (
            only_insert(&compiled.program),
            ids.first,
            &self.limited_usage,
        ) else {
            return Ok(Batching::Never);
        };
        let Some(planned) = self.published_plan(source)? else {
            return Ok(if rows < MAX_UNKNOWN {
                Batching::Unknown(rows + 1)
            } else {
                Batching::Never
            });
        };
        let insert = insert_of(&planned, table);
        let is_temporary = |insert: &Insert| self.cx.temporary.contains_id(insert.table.id);
        if insert.is_none_or(is_temporary) {
            return Ok(Batching::Never);
        }
        self.cx.check_plan(&planned)?;
        self.check_outer_tables(&planned)?;
        if let Some(open) = &self.open {
            open.check(&planned.plan, &planned.tables)?;
        }
        self.show_source(source);
        let columns = source.slots.iter().map(|slot| column_of(compiled, *slot));
        let columns: Option<Box<[RowColumn]>> = columns.collect();
        Ok(match columns {
            Some(columns) => Batching::Ready(Box::new(BatchedTrigger {
                table: table.id,
                event: compiled.event,
                planned,
                columns,
                identity: None,
                ids,
                rows: RowBatch::default(),
            })),
            None => Batching::Never,
        })
    }

    /// The plan of a statement of a program if it has a valid one, with its tables published.
    fn published_plan(&mut self, source: &Source) -> Result<Option<Arc<Planned>>> {
        let epoch = self.programs.plan_epoch;
        let kept = source.plan.take::<(u64, Prepared)>();
        let Some(mut kept) = kept.filter(|kept| kept.0 == epoch) else {
            return Ok(None);
        };
        let plan = self.plan_still_valid(&mut kept.1, &source.types);
        let plan = plan.map(|plan| plan.cloned());
        source.plan.put(kept);
        plan
    }

    /// Evaluates what a trigger inserts for a row.
    fn add_to_batch(
        &mut self,
        batch: &mut BatchedTrigger,
        firing: &Firing<'_>,
        unused: &RefCell<Txn>,
    ) -> Result<()> {
        if let Some(identity) = &mut batch.identity {
            self.exchange_identity(identity);
        }
        let added = self.evaluate_row(batch, firing, unused);
        if let Some(identity) = &mut batch.identity {
            self.exchange_identity(identity);
        }
        self.cx
            .counters
            .add(status::of_plan(&batch.planned.plan), 1);
        added?;
        // The statement reports the conditions of a trigger only if it fails.
        self.cx.env.warnings.get_mut().clear();
        Ok(())
    }

    fn exchange_identity(&mut self, identity: &mut Identity) {
        let env = &mut self.cx.env;
        std::mem::swap(&mut env.account, &mut identity.account);
        std::mem::swap(&mut env.roles, &mut identity.roles);
        std::mem::swap(&mut env.database, &mut identity.database);
    }

    fn evaluate_row(
        &self,
        batch: &mut BatchedTrigger,
        firing: &Firing<'_>,
        unused: &RefCell<Txn>,
    ) -> Result<()> {
        let Plan::Insert(insert) = &batch.planned.plan else {
            return Err(SqlError::internal("a batch without an INSERT"));
        };
        let arena = Bump::new();
        let mut params: SmallVec<[ValueRef<'_>; 8]> = SmallVec::new();
        let cx = self.eval_cx(&arena, &[]);
        for RowColumn { is_new, at } in batch.columns.iter() {
            let values: &[Value] = if *is_new { firing.new } else { firing.old };
            let column = firing.table.columns.get(*at);
            let (Some(value), Some(column)) = (values.get(*at), column) else {
                return Err(SqlError::internal("a column of NEW or OLD"));
            };
            let ty = &column.ty;
            params.push(load_value(value.as_ref(), load_of(ty), ty, &cx)?);
        }
        let _sets = self.cx.env.keep_sets();
        let states = States::new(None);
        let shared = Shared {
            txn: unused,
            env: &self.cx.env,
            params: &params,
            mark: StatementMark::ALL,
            conflicts: ConflictPolicy::UseNewest,
            validate: false,
            lock_gaps: false,
            lock_wait: self.cx.settings.lock_wait,
            server: &*self.cx,
            programs: None,
            batches: Cell::new(0),
            states: &states,
            recursion: self.cx.settings.recursion,
            profile: None,
        };
        match batch.rows.add(insert, &Exec::new(&shared, None)) {
            Ok(_) => Ok(()),
            Err(ExecError::Error(error)) => Err(error),
            Err(ExecError::Restart) => Err(SqlError::internal("values that must be read again")),
        }
    }
}

impl BatchedTrigger {
    /// Whether this is the trigger that fires.
    pub(super) fn is_of(&self, firing: &Firing<'_>) -> bool {
        self.table == firing.table.id && self.event == firing.event
    }

    /// Evaluates what the trigger inserts for a row, and writes the rows if they are many.
    ///
    /// # Errors
    /// A value does not fit its column, or a row cannot be inserted.
    pub(super) fn fire(
        &mut self,
        session: &mut SqlSession,
        firing: &Firing<'_>,
        txn: &mut Txn,
        unused: &RefCell<Txn>,
    ) -> Result<()> {
        session.add_to_batch(self, firing, unused)?;
        if self.rows.is_full() {
            self.write(txn)?;
        }
        Ok(())
    }

    /// Writes the rows.
    ///
    /// # Errors
    /// A row cannot be inserted.
    pub(super) fn write(&mut self, txn: &mut Txn) -> Result<()> {
        let Plan::Insert(insert) = &self.planned.plan else {
            return Ok(());
        };
        Ok(self.rows.write(insert, txn, self.ids)?)
    }
}
