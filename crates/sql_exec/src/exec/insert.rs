//! INSERT and REPLACE.
//!
//! The rows of a statement are collected and handed to `rows` in one call, which generates ids,
//! checks and writes them. ON DUPLICATE KEY UPDATE writes row by row, because a row may conflict
//! with one that the same statement has changed.

use super::assign::{ValueConverter, evaluate, note_skipped};
use super::derived::Collect;
use super::query::cx_of;
use super::{Changes, Exec, ExecResult, upsert};
use crate::error::SqlError;
use crate::expr::eval::EvalCx;
use crate::plan::sinks::{GivenRef, Insert, InsertRows, NewValue, ValueRows, ViewCheck};
use bumpalo::Bump;
use porpoise_rows::catalog::{ColumnDefault, Table};
use porpoise_rows::triggers::{Trigger, TriggerEvent, TriggerTime};
use porpoise_rows::{AutoIncOptions, GeneratedIds, InsertMode};
use porpoise_types::{Kind, Level, Value, Warning};

/// Executes INSERT and REPLACE.
pub(super) fn run(plan: &Insert, exec: &mut Exec<'_>, ids: AutoIncOptions) -> ExecResult<Changes> {
    let mut select_values = Vec::new();
    let rows = match &plan.rows {
        InsertRows::Query(source) => selected_rows(plan, source, exec, &mut select_values)?,
        InsertRows::Values(given) => rows_of_values(plan, given, exec)?,
        InsertRows::File(_) => return Err(SqlError::internal("rows of a file").into()),
    };
    insert_rows(plan, rows, select_values, exec, ids)
}

/// Inserts rows; `select_values` has, for each, the values that ON DUPLICATE KEY UPDATE reads.
pub(super) fn insert_rows(
    plan: &Insert,
    mut rows: Vec<Vec<Value>>,
    mut select_values: Vec<Vec<Value>>,
    exec: &mut Exec<'_>,
    ids: AutoIncOptions,
) -> ExecResult<Changes> {
    let records = rows.len() as u64;
    let generated = GeneratedIds::from_input(&plan.table, &rows);
    exec.txn()
        .assign_auto_increment(&plan.table, &mut rows, ids)?;
    let mut ids = generated.with_assigned(&rows);
    let mut changes = Changes {
        records,
        ..Changes::default()
    };
    if let Some(check) = &plan.check {
        let row_kept;
        (rows, row_kept) = filter_by_check(plan, check, rows, exec)?;
        retain_kept(&row_kept, &mut ids, &mut select_values);
    }
    if let Some(chosen) = &plan.partitions {
        let row_kept;
        (rows, row_kept) = filter_by_partition(plan, chosen, rows, exec, &mut changes)?;
        retain_kept(&row_kept, &mut ids, &mut select_values);
    }
    if plan.on_duplicate.is_empty() {
        let done =
            exec.write(|txn| txn.insert_with_ids(&plan.table, rows, plan.mode, &mut ids))??;
        changes.affected = done.inserted + done.replaced;
        changes.duplicates = done.replaced + done.skipped.len() as u64;
        note_skipped(&done.skipped, exec);
    } else {
        upsert::insert_or_update_all(plan, rows, &select_values, exec, &mut ids, &mut changes)?;
    }
    changes.insert_id = ids.first_generated();
    changes.row_id = ids.last_of_row();
    changes.seen = exec.txn().seen();
    Ok(changes)
}

/// The rows of VALUES, with defaults for the columns that they lack.
pub(super) fn rows_of_values(
    plan: &Insert,
    given: &ValueRows,
    exec: &Exec<'_>,
) -> ExecResult<Vec<Vec<Value>>> {
    let ignore = plan.mode == InsertMode::Ignore;
    let converter = ValueConverter::new(exec, ignore, given.len());
    // Strict mode until the guard is dropped.
    let _strictly = exec.env.strictly(converter.strict);
    let mut out = Vec::with_capacity(given.len());
    let mut arena = Bump::new();
    for at in 0..given.len() {
        exec.env.tick()?;
        arena.reset();
        let cx = cx_of(exec, &arena);
        let mut row = default_row(plan, &converter)?;
        let number = at as u64 + 1;
        for (position, value) in plan.columns.iter().zip(given.row(at)) {
            let Some(column) = plan.table.columns.get(*position) else {
                continue;
            };
            let stored = match value {
                GivenRef::Default => converter.default(column)?,
                GivenRef::Literal(value, ty) => converter.store(value, ty, column, number)?,
                GivenRef::Expr(e) => {
                    let value = evaluate(e, &row, &cx)?;
                    converter.store(value, &e.ty, column, number)?
                }
            };
            if let Some(slot) = row.get_mut(*position) {
                *slot = stored;
            }
        }
        let is_given = |position: usize| has_explicit_value(plan, given, at, position);
        fill_expressions(plan, &mut row, &is_given, exec)?;
        out.push(row);
    }
    Ok(out)
}

/// Sets columns, given by position, to new values, one after the other: an expression sees the values
/// set before it. `number` is the row's number in the statement, for error texts.
pub(super) fn set_values<'a>(
    table: &Table,
    values: impl Iterator<Item = (&'a usize, &'a NewValue)>,
    row: &mut [Value],
    converter: &ValueConverter<'_>,
    cx: &EvalCx<'a>,
    number: u64,
) -> ExecResult<()> {
    for (position, value) in values {
        let Some(column) = table.columns.get(*position) else {
            continue;
        };
        let stored = match value {
            NewValue::Default => converter.default(column)?,
            NewValue::Expr(e) => {
                let value = evaluate(e, row, cx)?;
                converter.store(value, &e.ty, column, number)?
            }
        };
        if let Some(slot) = row.get_mut(*position) {
            *slot = stored;
        }
    }
    Ok(())
}

/// Whether a row of VALUES has an explicit value (not DEFAULT) for a column.
fn has_explicit_value(plan: &Insert, given: &ValueRows, row: usize, position: usize) -> bool {
    let mut pairs = plan.columns.iter().zip(given.row(row));
    pairs.any(|(at, value)| *at == position && !matches!(value, GivenRef::Default))
}

/// Evaluates DEFAULT expressions of columns without an explicit value.
pub(super) fn fill_expressions(
    plan: &Insert,
    row: &mut [Value],
    given: &dyn Fn(usize) -> bool,
    exec: &Exec<'_>,
) -> ExecResult<()> {
    if plan.default_expressions {
        let txn = exec.shared.txn.borrow();
        txn.fill_default_expressions(&plan.table, row, given)?;
    }
    Ok(())
}

/// A row with the defaults of the columns that the statement does not name; the others are NULL.
pub(super) fn default_row(plan: &Insert, converter: &ValueConverter<'_>) -> ExecResult<Vec<Value>> {
    let columns = &plan.table.columns;
    let view = plan.target_source.view.as_deref();
    let before = |t: &Trigger| t.time == TriggerTime::Before && t.event == TriggerEvent::Insert;
    let triggered = converter.strict && plan.table.triggers.iter().any(before);
    let mut row = vec![Value::Null; columns.len()];
    for (position, (column, value)) in columns.iter().zip(&mut row).enumerate() {
        // Usually the columns are named in their order, or not at all.
        let at_its_place = plan.columns.get(position) == Some(&position);
        if at_its_place || plan.columns.contains(&position) {
            continue;
        }
        // A trigger may set a column that has no default; if none does, NULL is refused later.
        let may_be_set =
            triggered && column.default == ColumnDefault::None && column.ty.kind != Kind::Enum;
        if !may_be_set {
            *value = converter.default_of_missing(column, view)?;
        }
    }
    converter.end_warnings_of_missing();
    Ok(row)
}

/// The rows of INSERT ... SELECT and, for each, the values of the SELECT's tables that ON DUPLICATE
/// KEY UPDATE reads.
fn selected_rows(
    plan: &Insert,
    source: &crate::plan::QueryPlan,
    exec: &mut Exec<'_>,
    select_values: &mut Vec<Vec<Value>>,
) -> ExecResult<Vec<Vec<Value>>> {
    let mut collect = Collect::new(exec.shared.states);
    let ignore = plan.mode == InsertMode::Ignore;
    // Strict mode applies to the whole statement, its SELECT included (manual, "Strict SQL Mode").
    let strictly = exec.env.strictly(exec.env.mode.is_strict() && !ignore);
    super::query::run(source, exec, &mut collect)?;
    drop(strictly);
    let converter = ValueConverter::new(exec, ignore, collect.rows.len());
    let mut rows = Vec::with_capacity(collect.rows.len());
    let given = plan.columns.len();
    if source.items.len() > given {
        select_values.extend(collect.rows.iter_mut().map(|row| row.split_off(given)));
    }
    for (number, given) in (1u64..).zip(&collect.rows) {
        exec.env.tick()?;
        let mut row = default_row(plan, &converter)?;
        for ((position, value), item) in plan.columns.iter().zip(given).zip(&source.items) {
            let Some(column) = plan.table.columns.get(*position) else {
                continue;
            };
            let stored = converter.store(value.as_ref(), &item.ty, column, number)?;
            if let Some(place) = row.get_mut(*position) {
                *place = stored;
            }
        }
        fill_expressions(plan, &mut row, &|at| plan.columns.contains(&at), exec)?;
        rows.push(row);
    }
    Ok(rows)
}

/// Keeps the rows that the view contains; another row is error 1369, or a warning with IGNORE. Also returns,
/// for each input row, whether it was kept.
fn filter_by_check(
    plan: &Insert,
    check: &ViewCheck,
    rows: Vec<Vec<Value>>,
    exec: &Exec<'_>,
) -> ExecResult<(Vec<Vec<Value>>, Vec<bool>)> {
    let converter = ValueConverter::new(exec, plan.mode == InsertMode::Ignore, rows.len());
    let mut kept = Vec::with_capacity(rows.len());
    let mut row_kept = Vec::with_capacity(rows.len());
    let mut arena = Bump::new();
    for row in rows {
        arena.reset();
        let cx = cx_of(exec, &arena);
        let fits = converter.satisfies_check_option(check, &plan.table, &row, &[], &cx)?;
        row_kept.push(fits);
        if fits {
            kept.push(row);
        }
    }
    Ok((kept, row_kept))
}

/// Keeps the rows that belong to the partitions named by the statement; another row is error 1748,
/// or a warning with IGNORE. Also returns, for each input row, whether it was kept.
fn filter_by_partition(
    plan: &Insert,
    chosen: &[usize],
    rows: Vec<Vec<Value>>,
    exec: &Exec<'_>,
    changes: &mut Changes,
) -> ExecResult<(Vec<Vec<Value>>, Vec<bool>)> {
    let mut kept = Vec::with_capacity(rows.len());
    let mut row_kept = Vec::with_capacity(rows.len());
    for (number, mut row) in (1u64..).zip(rows) {
        exec.shared
            .txn
            .borrow()
            .generate(&plan.table, &mut row, number)?;
        let error = match plan.table.partition_of_row(&row) {
            Ok(at) if chosen.contains(&at) => {
                kept.push(row);
                row_kept.push(true);
                continue;
            }
            Ok(_) => porpoise_rows::Error::OtherPartition,
            Err(error) => error,
        };
        if plan.mode != InsertMode::Ignore {
            return Err(error.into());
        }
        row_kept.push(false);
        changes.duplicates += 1;
        exec.env.warn(Warning {
            level: Level::Warning,
            code: error.code(),
            message: error.to_string(),
        });
    }
    Ok((kept, row_kept))
}

/// Drops the generated ids and SELECT values of rows that were dropped.
fn retain_kept(row_kept: &[bool], ids: &mut GeneratedIds, select_values: &mut Vec<Vec<Value>>) {
    ids.keep_rows(|row| row_kept.get(row).copied().unwrap_or(true));
    let mut kept = row_kept.iter();
    select_values.retain(|_| kept.next().copied().unwrap_or(true));
}
