//! INSERT, REPLACE, UPDATE and DELETE.
//!
//! The rows of a statement are gathered first and handed to `rows` in one
//! call, which locks, checks and writes them as a whole. Rows to change are
//! found and locked by the step of the plan; what changes is computed from
//! the locked version.
//!
//! Values are converted to their columns here ([`porpoise_types::store`]):
//! strict mode makes an error of what would lose something, IGNORE and the
//! lax modes a warning.

use super::derived::Collect;
use super::fetch::Cursor;
use super::join::fetch_step;
use super::select::{all_true, cx_of};
use super::{Changes, Exec, Run, Stop, upsert};
use crate::error::SqlError;
use crate::expr::eval::{EvalCx, Slot, eval};
use crate::expr::{Expr, convert};
use crate::plan::OrderKey;
use crate::plan::dml::{DeletePlan, InsertPlan, NewValue, Target, UpdatePlan, ViewCheck};
use bumpalo::Bump;
use porpoise_rows::catalog::{Column, ColumnDefault, Table};
use porpoise_rows::{AutoIncOptions, GeneratedIds, InsertMode, RowBuf, RowChange, UpdateMode};
use porpoise_types::{
    CastCx, ColumnType, Kind, Level, SqlMode, Value, ValueRef, Warning, compare, store,
};
use std::cmp::Ordering;

/// Rows fetched and locked in one call.
const BATCH: usize = 256;

/// Converts values for one statement.
pub(super) struct Storer<'x> {
    env: &'x crate::expr::eval::Env,
    txn: &'x std::cell::RefCell<porpoise_rows::Txn>,
    pub(super) strict: bool,
    /// A NULL for a NOT NULL column becomes its default with a warning.
    lenient_null: bool,
}

impl<'x> Storer<'x> {
    pub(super) fn new(exec: &Exec<'x>, ignore: bool, rows: usize) -> Storer<'x> {
        let strict = exec.env.mode.is_strict() && !ignore;
        Storer {
            env: exec.env,
            txn: exec.shared.txn,
            strict,
            lenient_null: ignore || (!exec.env.mode.is_strict() && rows > 1),
        }
    }

    fn store(
        &self,
        value: ValueRef<'_>,
        from: &ColumnType,
        column: &Column,
        row: u64,
    ) -> Result<Value, SqlError> {
        if value.is_null() {
            return Ok(self.null(column));
        }
        let mut warn = |w| self.env.warn(w);
        let mut cx = CastCx {
            mode: self.env.mode,
            strict: self.strict,
            warnings: &mut warn,
            tz: &self.env.time_zone,
            now: self.env.now(),
        };
        Ok(store(
            value,
            Some(from),
            &column.ty,
            &column.name,
            row,
            &mut cx,
        )?)
    }

    /// NULL, or what stands for it.
    fn null(&self, column: &Column) -> Value {
        if column.nullable || column.auto_increment || !self.lenient_null {
            return Value::Null;
        }
        self.env.warn(Warning {
            level: Level::Warning,
            code: 1048,
            message: format!("Column '{}' cannot be null", column.name),
        });
        implicit_default(&column.ty)
    }

    /// The value of a column that was not given.
    fn default(&self, column: &Column) -> Result<Value, SqlError> {
        match &column.default {
            ColumnDefault::Literal(value) => Ok(value.clone()),
            // Filled in once the row's other values are known.
            ColumnDefault::Null | ColumnDefault::Expr(_) => Ok(Value::Null),
            _ if column.generated.is_some() => Ok(Value::Null),
            ColumnDefault::Now => Ok(now_for(column, self.env)),
            ColumnDefault::None if column.auto_increment => Ok(Value::Null),
            ColumnDefault::None => {
                let text = format!("Field '{}' doesn't have a default value", column.name);
                if self.strict {
                    return Err(SqlError::new(1364, "HY000", text));
                }
                self.env.warn(Warning {
                    level: Level::Warning,
                    code: 1364,
                    message: text,
                });
                Ok(implicit_default(&column.ty))
            }
        }
    }
}

/// The statement's time as a column of its kind stores it.
fn now_for(column: &Column, env: &crate::expr::eval::Env) -> Value {
    let moment = match column.ty.kind {
        Kind::Timestamp => env.now_utc,
        _ => env.now(),
    };
    Value::DateTime(
        moment
            .round(column.ty.decimals.min(6), true)
            .unwrap_or(moment),
    )
}

pub use porpoise_rows::ddl::implicit_default;

/// INSERT and REPLACE.
pub fn insert(plan: &InsertPlan, exec: &mut Exec<'_>, ids: AutoIncOptions) -> Run<Changes> {
    let mut beside = Vec::new();
    let mut rows = match &plan.source {
        Some(source) => selected_rows(plan, source, exec, &mut beside)?,
        None => value_rows(plan, exec)?,
    };
    let records = rows.len() as u64;
    let generated = GeneratedIds::before(&plan.table, &rows);
    exec.txn()
        .assign_auto_increment(&plan.table, &mut rows, ids)?;
    let mut ids = generated.after(&rows);
    let mut changes = Changes {
        records,
        ..Changes::default()
    };
    if let Some(chosen) = &plan.partitions {
        let keeps;
        (rows, keeps) = keep_chosen(plan, chosen, rows, exec, &mut changes)?;
        keep(&keeps, &mut ids, &mut beside);
    }
    if let Some(check) = &plan.check {
        let ignore = plan.mode == InsertMode::Ignore;
        let mut kept = Vec::with_capacity(rows.len());
        let mut keeps = Vec::with_capacity(rows.len());
        for row in rows {
            let fits = fulfils(check, &plan.table, &row, ignore, exec)?;
            keeps.push(fits);
            if fits {
                kept.push(row);
            }
        }
        rows = kept;
        keep(&keeps, &mut ids, &mut beside);
    }
    if plan.on_duplicate.is_empty() {
        let mut txn = exec.txn();
        let done = txn.insert_with_ids(&plan.table, rows, plan.mode, &mut ids)?;
        changes.affected = done.inserted + done.replaced;
        changes.duplicates = done.replaced + done.skipped.len() as u64;
        for (_, error) in &done.skipped {
            exec.env.warn(Warning {
                level: Level::Warning,
                code: error.code(),
                message: error.to_string(),
            });
        }
    } else {
        upsert::all(plan, rows, &beside, exec, &mut ids, &mut changes)?;
    }
    changes.insert_id = ids.first_generated();
    changes.row_id = ids.last_of_row();
    changes.seen = exec.txn().seen();
    Ok(changes)
}

/// WITH CHECK OPTION: 1369 for a row that the view would not show, a warning
/// with IGNORE.
pub(super) fn fulfils(
    check: &ViewCheck,
    table: &Table,
    row: &[Value],
    ignore: bool,
    exec: &Exec<'_>,
) -> Run<bool> {
    let mut row = row.to_vec();
    exec.shared.txn.borrow().generate(table, &mut row, 1)?;
    let arena = Bump::new();
    let cx = cx_of(exec, &arena);
    let values = arena.alloc_slice_fill_with(row.len(), |at| {
        convert::keep(row.get(at).unwrap_or(&Value::Null), &cx)
    });
    if all_true(&check.conditions, &[Slot::Values(values)], &cx)? {
        return Ok(true);
    }
    let text = format!("CHECK OPTION failed '{}'", check.name);
    if !ignore {
        exec.env.strict.set(false);
        return Err(SqlError::new(1369, "HY000", text).into());
    }
    exec.env.warn(Warning {
        level: Level::Warning,
        code: 1369,
        message: text,
    });
    Ok(false)
}

fn value_rows(plan: &InsertPlan, exec: &Exec<'_>) -> Run<Vec<Vec<Value>>> {
    let ignore = plan.mode == InsertMode::Ignore;
    let storer = Storer::new(exec, ignore, plan.rows.len());
    exec.env.strict.set(storer.strict);
    let result = value_rows_with(plan, exec, &storer);
    exec.env.strict.set(false);
    result
}

fn value_rows_with(
    plan: &InsertPlan,
    exec: &Exec<'_>,
    storer: &Storer<'_>,
) -> Run<Vec<Vec<Value>>> {
    let mut rows = Vec::with_capacity(plan.rows.len());
    let mut arena = Bump::new();
    for (number, given) in (1u64..).zip(&plan.rows) {
        arena.reset();
        let cx = cx_of(exec, &arena);
        let mut row = blank(plan, storer)?;
        for (position, value) in plan.columns.iter().zip(given) {
            let Some(column) = plan.table.columns.get(*position) else {
                continue;
            };
            let stored = match value {
                NewValue::Default => storer.default(column)?,
                NewValue::Expr(e) => {
                    let value = evaluate(e, &row, &cx)?;
                    storer.store(value, &e.ty, column, number)?
                }
            };
            if let Some(place) = row.get_mut(*position) {
                *place = stored;
            }
        }
        fill_expressions(plan, &mut row, &|at| given_at(plan, given, at), exec)?;
        rows.push(row);
    }
    Ok(rows)
}

/// Whether a row of VALUES gives a column a value of its own.
fn given_at(plan: &InsertPlan, given: &[NewValue], position: usize) -> bool {
    let mut pairs = plan.columns.iter().zip(given);
    pairs.any(|(at, value)| *at == position && !matches!(value, NewValue::Default))
}

/// Puts expressions' values into the columns that are not given.
fn fill_expressions(
    plan: &InsertPlan,
    row: &mut [Value],
    given: &dyn Fn(usize) -> bool,
    exec: &Exec<'_>,
) -> Run<()> {
    if plan.default_expressions {
        let txn = exec.shared.txn.borrow();
        txn.fill_default_expressions(&plan.table, row, given)?;
    }
    Ok(())
}

/// Evaluates a value that may look at columns assigned before it.
fn evaluate<'a>(e: &'a Expr, row: &[Value], cx: &EvalCx<'a>) -> Run<ValueRef<'a>> {
    evaluate_in(e, (row, 0), &[Slot::Null], cx)
}

/// [`evaluate`] for the table in a slot, beside the rows of other tables.
fn evaluate_in<'a>(
    e: &'a Expr,
    (row, slot): (&[Value], usize),
    beside: &[Slot<'a>],
    cx: &EvalCx<'a>,
) -> Run<ValueRef<'a>> {
    if e.slots() == 0 {
        return Ok(eval(e, &[], cx)?);
    }
    let values = cx.arena.alloc_slice_fill_with(row.len(), |at| {
        convert::keep(row.get(at).unwrap_or(&Value::Null), cx)
    });
    let slots = cx.arena.alloc_slice_copy(beside);
    if let Some(place) = slots.get_mut(slot) {
        *place = Slot::Values(values);
    }
    Ok(eval(e, slots, cx)?)
}

/// A row of defaults for the columns that are not given.
fn blank(plan: &InsertPlan, storer: &Storer<'_>) -> Run<Vec<Value>> {
    let mut row = Vec::with_capacity(plan.table.columns.len());
    for (position, column) in plan.table.columns.iter().enumerate() {
        row.push(match plan.columns.contains(&position) {
            true => Value::Null,
            false => storer.default(column)?,
        });
    }
    Ok(row)
}

/// The rows of INSERT ... SELECT, and beside each what ON DUPLICATE KEY UPDATE names of the
/// SELECT's tables.
fn selected_rows(
    plan: &InsertPlan,
    source: &crate::plan::SelectPlan,
    exec: &mut Exec<'_>,
    beside: &mut Vec<Vec<Value>>,
) -> Run<Vec<Vec<Value>>> {
    let mut collect = Collect::new(exec.shared.states);
    super::select::run(source, exec, &mut collect)?;
    let ignore = plan.mode == InsertMode::Ignore;
    let storer = Storer::new(exec, ignore, collect.rows.len());
    let mut rows = Vec::with_capacity(collect.rows.len());
    let given = plan.columns.len();
    if source.items.len() > given {
        beside.extend(collect.rows.iter_mut().map(|row| row.split_off(given)));
    }
    for (number, given) in (1u64..).zip(&collect.rows) {
        let mut row = blank(plan, &storer)?;
        for ((position, value), item) in plan.columns.iter().zip(given).zip(&source.items) {
            let Some(column) = plan.table.columns.get(*position) else {
                continue;
            };
            let stored = storer.store(value.as_ref(), &item.ty, column, number)?;
            if let Some(place) = row.get_mut(*position) {
                *place = stored;
            }
        }
        fill_expressions(plan, &mut row, &|at| plan.columns.contains(&at), exec)?;
        rows.push(row);
    }
    Ok(rows)
}

/// The rows that belong into the partitions that the statement names, and which these are;
/// 1748 for others, a warning with IGNORE.
fn keep_chosen(
    plan: &InsertPlan,
    chosen: &[usize],
    rows: Vec<Vec<Value>>,
    exec: &Exec<'_>,
    changes: &mut Changes,
) -> Run<(Vec<Vec<Value>>, Vec<bool>)> {
    let mut kept = Vec::with_capacity(rows.len());
    let mut keeps = Vec::with_capacity(rows.len());
    for (number, mut row) in (1u64..).zip(rows) {
        exec.shared
            .txn
            .borrow()
            .generate(&plan.table, &mut row, number)?;
        let error = match plan.table.partition_of_row(&row) {
            Ok(at) if chosen.contains(&at) => {
                kept.push(row);
                keeps.push(true);
                continue;
            }
            Ok(_) => porpoise_rows::Error::OtherPartition,
            Err(error) => error,
        };
        if plan.mode != InsertMode::Ignore {
            return Err(error.into());
        }
        keeps.push(false);
        changes.duplicates += 1;
        exec.env.warn(Warning {
            level: Level::Warning,
            code: error.code(),
            message: error.to_string(),
        });
    }
    Ok((kept, keeps))
}

/// Leaves out what belongs to rows that are left out.
fn keep(keeps: &[bool], ids: &mut GeneratedIds, beside: &mut Vec<Vec<Value>>) {
    ids.keep_rows(|row| keeps.get(row).copied().unwrap_or(true));
    let mut kept = keeps.iter();
    beside.retain(|_| kept.next().copied().unwrap_or(true));
}

/// Applies assignments from left to right; later ones see earlier ones
/// (manual, "UPDATE Statement").
pub(super) fn assign(
    table: &Table,
    set: &[(usize, NewValue)],
    before: Vec<Value>,
    storer: &Storer<'_>,
    number: u64,
    cx: &EvalCx<'_>,
) -> Run<Vec<Value>> {
    assign_in((table, 0), set, before, storer, number, &[Slot::Null], cx)
}

/// [`assign`] to the table in a slot, beside the rows of other tables.
pub(super) fn assign_in<'a>(
    (table, slot): (&Table, usize),
    set: &[(usize, NewValue)],
    before: Vec<Value>,
    storer: &Storer<'_>,
    number: u64,
    beside: &[Slot<'a>],
    cx: &EvalCx<'a>,
) -> Run<Vec<Value>> {
    let mut row = before.clone();
    for (position, value) in set {
        let Some(column) = table.columns.get(*position) else {
            continue;
        };
        let stored = match value {
            NewValue::Default => storer.default(column)?,
            NewValue::Expr(e) => {
                let arena = Bump::new();
                let cx = EvalCx {
                    arena: &arena,
                    ..*cx
                };
                let value = evaluate_in(e, (&row, slot), beside, &cx)?;
                storer.store(value, &e.ty, column, number)?
            }
        };
        if let Some(place) = row.get_mut(*position) {
            *place = stored;
        }
    }
    let computed = |at: usize| {
        let column = table.columns.get(at);
        let default = column.is_some_and(|c| matches!(c.default, ColumnDefault::Expr(_)));
        let mut set = set.iter();
        default && set.any(|(p, v)| *p == at && matches!(v, NewValue::Default))
    };
    if set.iter().any(|(at, _)| computed(*at)) {
        let txn = storer.txn.borrow();
        txn.fill_default_expressions(table, &mut row, &|at| !computed(at))?;
    }
    if row != before {
        for (position, column) in table.columns.iter().enumerate() {
            let given = set.iter().any(|(p, _)| *p == position);
            if let (true, false, Some(place)) = (column.on_update_now, given, row.get_mut(position))
            {
                *place = now_for(column, storer.env);
            }
        }
    }
    Ok(row)
}

/// The rows of a target, locked, in the order of the statement.
fn targets(target: &Target, exec: &mut Exec<'_>) -> Run<Vec<(Vec<u8>, RowBuf)>> {
    let mut arena = Bump::new();
    if !all_true(&target.constant, &[], &cx_of(exec, &arena))? {
        return Ok(Vec::new());
    }
    let limit = match &target.limit {
        None => usize::MAX,
        Some(e) => match eval(e, &[], &cx_of(exec, &arena))? {
            ValueRef::Int(n) => usize::try_from(n).unwrap_or(0),
            ValueRef::UInt(n) => usize::try_from(n).unwrap_or(usize::MAX),
            _ => return Err(Stop::Error(SqlError::wrong_arguments("LIMIT"))),
        },
    };
    let sorts = !target.order_by.is_empty();
    let mut cursor = Cursor::open(
        &target.table,
        &target.step.access,
        &[],
        &cx_of(exec, &arena),
    )?;
    let mut found: Vec<(Vec<Value>, Vec<u8>, RowBuf)> = Vec::new();
    while sorts || found.len() < limit {
        exec.check_cancelled()?;
        arena.reset();
        let wanted = match sorts {
            true => BATCH,
            false => BATCH.min(limit - found.len()),
        };
        let empty: &[Slot<'_>] = &[Slot::Null];
        let step = &target.step;
        let batch = fetch_step(
            step,
            &target.table,
            &mut cursor,
            (empty, true),
            wanted,
            exec,
            &arena,
        )?;
        let Some(batch) = batch else {
            break;
        };
        let cx = cx_of(exec, &arena);
        for row in batch {
            let slots = [Slot::Row(row.row)];
            let mut keys = Vec::with_capacity(target.order_by.len());
            for key in &target.order_by {
                keys.push(eval(&key.expr, &slots, &cx)?.to_owned());
            }
            found.push((keys, row.key.to_vec(), row.row.to_buf()));
        }
    }
    if sorts {
        found.sort_by(|(a, ..), (b, ..)| order(&target.order_by, a, b));
    }
    found.truncate(limit);
    Ok(found.into_iter().map(|(_, key, row)| (key, row)).collect())
}

fn order(keys: &[OrderKey], a: &[Value], b: &[Value]) -> Ordering {
    for ((key, x), y) in keys.iter().zip(a).zip(b) {
        let how = compare::same_type(&key.expr.ty);
        let order = match (x.is_null(), y.is_null()) {
            (false, false) => {
                compare::compare_direct(x.as_ref(), y.as_ref(), how).unwrap_or(Ordering::Equal)
            }
            (x, y) => y.cmp(&x),
        };
        let order = if key.desc { order.reverse() } else { order };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

/// Warnings for the rows that IGNORE left out.
pub(super) fn note_skipped(skipped: &[(usize, porpoise_rows::Error)], exec: &Exec<'_>) {
    for (_, error) in skipped {
        exec.env.warn(Warning {
            level: Level::Warning,
            code: error.code(),
            message: error.to_string(),
        });
    }
}

/// UPDATE.
pub fn update(plan: &UpdatePlan, exec: &mut Exec<'_>) -> Run<Changes> {
    let table = &plan.target.table;
    let chosen = plan.target.source.partitions.as_deref();
    let rows = targets(&plan.target, exec)?;
    let matched = rows.len() as u64;
    let storer = Storer::new(exec, plan.ignore, 2);
    exec.env.strict.set(storer.strict);
    let mut changes = Vec::with_capacity(rows.len());
    let mut arena = Bump::new();
    for (number, (key, old)) in (1u64..).zip(rows) {
        arena.reset();
        let cx = cx_of(exec, &arena);
        let before = old.row(table)?.values();
        let new = assign(table, &plan.set, before, &storer, number, &cx);
        match new {
            Ok(new) => {
                let fits = match &plan.check {
                    Some(check) => fulfils(check, table, &new, plan.ignore, exec)?,
                    None => true,
                };
                if fits && stays_chosen(table, chosen, &new, plan.ignore, exec.env)? {
                    changes.push(RowChange { key, old, new });
                }
            }
            Err(stop) => {
                exec.env.strict.set(false);
                return Err(stop);
            }
        }
    }
    exec.env.strict.set(false);
    let mode = match plan.ignore {
        true => UpdateMode::Ignore,
        false => UpdateMode::Plain,
    };
    let mut affected = 0;
    if !changes.is_empty() {
        let done = exec.txn().update(table, changes, mode)?;
        affected = done.changed;
        note_skipped(&done.skipped, exec);
    }
    Ok(Changes {
        matched,
        affected,
        seen: exec.txn().seen(),
        ..Changes::default()
    })
}

/// Whether a changed row belongs into a partition that the statement names;
/// 1748 where not, a warning with IGNORE.
pub(super) fn stays_chosen(
    table: &Table,
    chosen: Option<&[usize]>,
    new: &[Value],
    ignore: bool,
    env: &crate::expr::eval::Env,
) -> Run<bool> {
    let Some(chosen) = chosen else {
        return Ok(true);
    };
    match table.partition_of_row(new) {
        Ok(at) if !chosen.contains(&at) => {
            let error = porpoise_rows::Error::OtherPartition;
            if !ignore {
                env.strict.set(false);
                return Err(error.into());
            }
            env.warn(Warning {
                level: Level::Warning,
                code: error.code(),
                message: error.to_string(),
            });
            Ok(false)
        }
        // Where it belongs nowhere the write says so.
        _ => Ok(true),
    }
}

/// DELETE.
pub fn delete(plan: &DeletePlan, exec: &mut Exec<'_>) -> Run<Changes> {
    let table = &plan.target.table;
    let rows = targets(&plan.target, exec)?;
    let matched = rows.len() as u64;
    let mut affected = 0;
    if plan.ignore {
        for row in rows {
            match exec.txn().delete(table, vec![row]) {
                Ok(done) => affected += done.deleted,
                Err(error) if error.ignorable() => exec.env.warn(Warning {
                    level: Level::Warning,
                    code: error.code(),
                    message: error.to_string(),
                }),
                Err(error) => return Err(error.into()),
            }
        }
    } else if !rows.is_empty() {
        affected = exec.txn().delete(table, rows)?.deleted;
    }
    Ok(Changes {
        matched,
        affected,
        seen: exec.txn().seen(),
        ..Changes::default()
    })
}

/// Whether 0 is stored in auto-increment columns as it is.
pub fn keeps_zero(mode: SqlMode) -> bool {
    mode.contains(SqlMode::NO_AUTO_VALUE_ON_ZERO)
}
