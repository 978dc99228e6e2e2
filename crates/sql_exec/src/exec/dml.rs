//! UPDATE and DELETE of one table.
//!
//! Rows to change are found and locked by the step of the plan; what changes
//! is computed from the locked version, and all changes are handed to `rows` in
//! one call.

use super::assign::{Storer, assign, fulfils, note_skipped, stays_chosen};
use super::fetch::Cursor;
use super::query::{all_true, cx_of};
use super::scan::fetch_rows;
use super::sort::order_keys;
use super::{Changes, Exec, ExecError, ExecResult};
use crate::error::SqlError;
use crate::expr::eval::{Slot, eval};
use crate::plan::dml::{DeletePlan, Target, UpdatePlan};
use bumpalo::Bump;
use porpoise_base::sorting;
use porpoise_rows::{RowBuf, RowChange, UpdateMode};
use porpoise_types::{Level, Value, ValueRef, Warning};

/// Rows fetched and locked in one call.
const BATCH: usize = 256;

/// The rows of a target, locked, in the order of the statement.
fn targets(target: &Target, exec: &mut Exec<'_>) -> ExecResult<Vec<(Vec<u8>, RowBuf)>> {
    let mut arena = Bump::new();
    if !all_true(&target.constant, &[], &cx_of(exec, &arena))? {
        return Ok(Vec::new());
    }
    let limit = match &target.limit {
        None => usize::MAX,
        Some(e) => match eval(e, &[], &cx_of(exec, &arena))? {
            ValueRef::Int(n) => usize::try_from(n).unwrap_or(0),
            ValueRef::UInt(n) => usize::try_from(n).unwrap_or(usize::MAX),
            _ => return Err(ExecError::Error(SqlError::wrong_arguments("LIMIT"))),
        },
    };
    let sorts = !target.order_by.is_empty();
    let mut cursor = Cursor::open(
        &target.table,
        &target.scan.access,
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
        let batch = fetch_rows(
            &target.scan,
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
        sorting::sort_by(&mut found, sorting::DEAR, |(a, ..), (b, ..)| {
            order_keys(&target.order_by, a, b)
        })?;
    }
    found.truncate(limit);
    Ok(found.into_iter().map(|(_, key, row)| (key, row)).collect())
}

/// UPDATE.
pub fn update(plan: &UpdatePlan, exec: &mut Exec<'_>) -> ExecResult<Changes> {
    let table = &plan.target.table;
    let chosen = plan.target.source.partitions.as_deref();
    let rows = targets(&plan.target, exec)?;
    let matched = rows.len() as u64;
    let storer = Storer::new(exec, plan.ignore, 2);
    let strictly = exec.env.strictly(storer.strict);
    let mut changes = Vec::with_capacity(rows.len());
    let mut arena = Bump::new();
    for (number, (key, old)) in (1u64..).zip(rows) {
        arena.reset();
        let cx = cx_of(exec, &arena);
        let before = old.row(table)?.values();
        let new = assign(table, &plan.set, before, &storer, number, &cx)?;
        let fits = match &plan.check {
            Some(check) => fulfils(check, table, &new, plan.ignore, exec)?,
            None => true,
        };
        if fits && stays_chosen(table, chosen, &new, plan.ignore, exec.env)? {
            changes.push(RowChange { key, old, new });
        }
    }
    drop(strictly);
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

/// DELETE.
pub fn delete(plan: &DeletePlan, exec: &mut Exec<'_>) -> ExecResult<Changes> {
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
