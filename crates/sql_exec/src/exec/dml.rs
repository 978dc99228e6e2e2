//! UPDATE and DELETE of one table.
//!
//! The scan of the input finds and locks the rows. New values are computed from the locked
//! versions, and one call hands all changes to `rows`.

use super::assign::{ValueConverter, assign, note_skipped};
use super::fetch::Cursor;
use super::multi::is_allowed;
use super::query::{LimitWindow, all_true, cx_of};
use super::scan::fetch_rows;
use super::sort::order_keys;
use super::{Changes, Exec, ExecResult, text_search};
use crate::error::SqlError;
use crate::expr::eval::{Slot, eval};
use crate::plan::QueryPlan;
use crate::plan::sinks::{Change, ChangeKind, Target};
use bumpalo::Bump;
use porpoise_base::sorting;
use porpoise_rows::catalog::Table;
use porpoise_rows::{RowBuf, RowChange, UpdateMode};
use porpoise_types::{Level, Value, Warning};
use std::sync::Arc;

/// The rows of the table, locked, in the order of the statement.
fn locked_rows(
    input: &QueryPlan,
    table: &Table,
    exec: &mut Exec<'_>,
) -> ExecResult<Vec<(Vec<u8>, RowBuf)>> {
    let Some((scan, once)) = input.single_scan() else {
        return Err(SqlError::internal("a change of one table without its scan").into());
    };
    let mut arena = Bump::new();
    if !all_true(once, &[], &cx_of(exec, &arena))? {
        return Ok(Vec::new());
    }
    text_search::prepare(input, exec, &cx_of(exec, &arena))?;
    let limit = match input.root.limit() {
        None => usize::MAX,
        Some(limit) => usize::try_from(LimitWindow::of(limit, exec)?.count).unwrap_or(usize::MAX),
    };
    let order = input.root.order();
    let sorts = !order.is_empty();
    let mut cursor = Cursor::open(table, &scan.access, &[], &cx_of(exec, &arena))?;
    let mut found: Vec<(Vec<Value>, Vec<u8>, RowBuf)> = Vec::new();
    // Rows fetched and locked in one call.
    let batch_size = exec.rows_per_call();
    while sorts || found.len() < limit {
        exec.check_cancelled()?;
        arena.reset();
        let wanted = if sorts {
            batch_size
        } else {
            batch_size.min(limit - found.len())
        };
        let empty: &[Slot<'_>] = &[Slot::Null];
        let Some(batch) = fetch_rows(scan, table, &mut cursor, Some(empty), wanted, exec, &arena)?
        else {
            break;
        };
        let cx = cx_of(exec, &arena);
        for row in batch {
            let slots = [Slot::Row(row.row)];
            let mut keys = Vec::with_capacity(order.len());
            for key in order {
                keys.push(eval(&key.expr, &slots, &cx)?.to_owned());
            }
            found.push((keys, row.key.to_vec(), row.row.to_buf()));
        }
    }
    if sorts {
        sorting::sort_by(&mut found, sorting::RUN_EXPENSIVE, |(a, ..), (b, ..)| {
            order_keys(order, a, b)
        })?;
    }
    found.truncate(limit);
    Ok(found.into_iter().map(|(_, key, row)| (key, row)).collect())
}

/// UPDATE and DELETE of one table.
pub(super) fn run(change: &Change, target: &Target, exec: &mut Exec<'_>) -> ExecResult<Changes> {
    let rows = locked_rows(&change.input, &target.table, exec)?;
    let matched = rows.len() as u64;
    let affected = match change.kind {
        ChangeKind::Update => {
            let changes = changed_rows(change, target, rows, exec)?;
            update_rows(&target.table, changes, change.ignore, exec)?
        }
        ChangeKind::Delete => delete_rows(&target.table, rows, change.ignore, exec)?,
    };
    Ok(Changes {
        matched,
        affected,
        seen: exec.txn().seen(),
        ..Changes::default()
    })
}

/// Computes the changes of rows, without those that IGNORE skips.
fn changed_rows(
    change: &Change,
    target: &Target,
    rows: Vec<(Vec<u8>, RowBuf)>,
    exec: &Exec<'_>,
) -> ExecResult<Vec<RowChange>> {
    let (table, ignore) = (&target.table, change.ignore);
    let converter = ValueConverter::new(exec, ignore, 2);
    let _strictly = exec.env.strictly(converter.strict);
    let mut changes = Vec::with_capacity(rows.len());
    let mut arena = Bump::new();
    for (number, (key, old)) in (1u64..).zip(rows) {
        arena.reset();
        let cx = cx_of(exec, &arena);
        let before = old.row(table)?.values();
        let new = assign(table, &target.set, before, &converter, number, &cx)?;
        if is_allowed(change, target, &new, &[], &cx, &converter)? {
            changes.push(RowChange { key, old, new });
        }
    }
    Ok(changes)
}

/// Updates rows. Returns the number of rows whose values differ from before.
pub(super) fn update_rows(
    table: &Arc<Table>,
    changes: Vec<RowChange>,
    ignore: bool,
    exec: &Exec<'_>,
) -> ExecResult<u64> {
    if changes.is_empty() {
        return Ok(0);
    }
    let mode = if ignore {
        UpdateMode::Ignore
    } else {
        UpdateMode::Plain
    };
    let done = exec.write(|txn| txn.update(table, changes, mode))??;
    note_skipped(&done.skipped, exec);
    Ok(done.changed)
}

/// Deletes rows; with IGNORE, skips those whose deletion fails. Returns the number deleted.
pub(super) fn delete_rows(
    table: &Arc<Table>,
    rows: Vec<(Vec<u8>, RowBuf)>,
    ignore: bool,
    exec: &Exec<'_>,
) -> ExecResult<u64> {
    if rows.is_empty() {
        return Ok(0);
    }
    if !ignore {
        return Ok(exec.write(|txn| txn.delete(table, rows))??.deleted);
    }
    let mut deleted = 0;
    for row in rows {
        let done = exec.write(|txn| txn.delete(table, vec![row]))?;
        match done {
            Ok(done) => deleted += done.deleted,
            Err(error) if error.ignorable() => exec.env.warn(Warning {
                level: Level::Warning,
                code: error.code(),
                message: error.to_string(),
            }),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(deleted)
}
