//! INSERT and REPLACE.
//!
//! The rows of a statement are collected and handed to `rows` in one call, which generates ids,
//! checks and writes them. ON DUPLICATE KEY UPDATE writes row by row, because a row may conflict
//! with one that the same statement has changed.

use super::assign::{Storer, evaluate, fulfils, note_skipped};
use super::derived::Collect;
use super::query::cx_of;
use super::{Changes, Exec, ExecResult, upsert};
use crate::plan::sinks::{Insert, InsertRows, NewValue};
use bumpalo::Bump;
use porpoise_rows::{AutoIncOptions, GeneratedIds, InsertMode};
use porpoise_types::{Level, Value, Warning};

/// Executes INSERT and REPLACE.
pub(super) fn run(plan: &Insert, exec: &mut Exec<'_>, ids: AutoIncOptions) -> ExecResult<Changes> {
    let mut beside = Vec::new();
    let mut rows = match &plan.rows {
        InsertRows::Query(source) => selected_rows(plan, source, exec, &mut beside)?,
        InsertRows::Values(given) => value_rows(plan, given, exec)?,
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
        note_skipped(&done.skipped, exec);
    } else {
        upsert::all(plan, rows, &beside, exec, &mut ids, &mut changes)?;
    }
    changes.insert_id = ids.first_generated();
    changes.row_id = ids.last_of_row();
    changes.seen = exec.txn().seen();
    Ok(changes)
}

fn value_rows(
    plan: &Insert,
    rows: &[Vec<NewValue>],
    exec: &Exec<'_>,
) -> ExecResult<Vec<Vec<Value>>> {
    let ignore = plan.mode == InsertMode::Ignore;
    let storer = Storer::new(exec, ignore, rows.len());
    let _strictly = exec.env.strictly(storer.strict);
    let mut out = Vec::with_capacity(rows.len());
    let mut arena = Bump::new();
    for (number, given) in (1u64..).zip(rows) {
        exec.env.tick()?;
        arena.reset();
        let cx = cx_of(exec, &arena);
        let mut row = blank(plan, &storer)?;
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
        out.push(row);
    }
    Ok(out)
}

/// Whether a row of VALUES has an explicit value (not DEFAULT) for a column.
fn given_at(plan: &Insert, given: &[NewValue], position: usize) -> bool {
    let mut pairs = plan.columns.iter().zip(given);
    pairs.any(|(at, value)| *at == position && !matches!(value, NewValue::Default))
}

/// Evaluates DEFAULT expressions of columns without an explicit value.
fn fill_expressions(
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
fn blank(plan: &Insert, storer: &Storer<'_>) -> ExecResult<Vec<Value>> {
    let mut row = Vec::with_capacity(plan.table.columns.len());
    for (position, column) in plan.table.columns.iter().enumerate() {
        row.push(match plan.columns.contains(&position) {
            true => Value::Null,
            false => storer.default(column)?,
        });
    }
    Ok(row)
}

/// The rows of INSERT ... SELECT and, for each, the values of the SELECT's tables that ON DUPLICATE
/// KEY UPDATE reads.
fn selected_rows(
    plan: &Insert,
    source: &crate::plan::QueryPlan,
    exec: &mut Exec<'_>,
    beside: &mut Vec<Vec<Value>>,
) -> ExecResult<Vec<Vec<Value>>> {
    let mut collect = Collect::new(exec.shared.states);
    let ignore = plan.mode == InsertMode::Ignore;
    // Strict mode applies to the whole statement, its SELECT included (manual, "Strict SQL Mode").
    let strictly = exec.env.strictly(exec.env.mode.is_strict() && !ignore);
    super::query::run(source, exec, &mut collect)?;
    drop(strictly);
    let storer = Storer::new(exec, ignore, collect.rows.len());
    let mut rows = Vec::with_capacity(collect.rows.len());
    let given = plan.columns.len();
    if source.items.len() > given {
        beside.extend(collect.rows.iter_mut().map(|row| row.split_off(given)));
    }
    for (number, given) in (1u64..).zip(&collect.rows) {
        exec.env.tick()?;
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

/// Keeps the rows that belong to partitions the statement names, and returns which ones were kept.
/// Other rows are error 1748, or a warning with IGNORE.
fn keep_chosen(
    plan: &Insert,
    chosen: &[usize],
    rows: Vec<Vec<Value>>,
    exec: &Exec<'_>,
    changes: &mut Changes,
) -> ExecResult<(Vec<Vec<Value>>, Vec<bool>)> {
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

/// Drops the generated ids and SELECT values of rows that were dropped.
fn keep(keeps: &[bool], ids: &mut GeneratedIds, beside: &mut Vec<Vec<Value>>) {
    ids.keep_rows(|row| keeps.get(row).copied().unwrap_or(true));
    let mut kept = keeps.iter();
    beside.retain(|_| kept.next().copied().unwrap_or(true));
}
