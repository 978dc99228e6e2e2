//! INSERT ... ON DUPLICATE KEY UPDATE, row by row.

use super::assign::{Storer, assign, fulfils};
use super::select::cx_of;
use super::{Changes, Exec, Newer, Run, Stop};
use crate::expr::eval::EvalCx;
use crate::plan::dml::InsertPlan;
use bumpalo::Bump;
use porpoise_rows::{GeneratedIds, InsertMode, Inserted, RowChange, UpdateMode};
use porpoise_types::{Value, ValueRef};

/// All rows; `beside` each stand values of the SELECT's tables, where there are any.
pub(super) fn all(
    plan: &InsertPlan,
    rows: Vec<Vec<Value>>,
    beside: &[Vec<Value>],
    exec: &mut Exec<'_>,
    ids: &mut GeneratedIds,
    changes: &mut Changes,
) -> Run<()> {
    for (at, mut row) in rows.into_iter().enumerate() {
        if let Some((position, id)) = ids.left_over(&plan.table, at, &row)
            && let Some(value) = row.get_mut(position)
        {
            *value = id;
        }
        let beside = beside.get(at).map_or(&[][..], Vec::as_slice);
        if insert_or_update(plan, (&mut row, beside), at as u64 + 1, exec, changes)? {
            ids.used(at, &row);
        }
    }
    Ok(())
}

/// One row of INSERT ... ON DUPLICATE KEY UPDATE; whether it was inserted.
fn insert_or_update(
    plan: &InsertPlan,
    (row, beside): (&mut [Value], &[Value]),
    number: u64,
    exec: &mut Exec<'_>,
    changes: &mut Changes,
) -> Run<bool> {
    // VALUES() may name a generated column.
    exec.txn().generate(&plan.table, row, number)?;
    let (key, old) = match exec.txn().insert_or_find(&plan.table, row)? {
        Inserted::New => {
            changes.affected += 1;
            return Ok(true);
        }
        Inserted::Duplicate {
            primary,
            row,
            newer,
            ..
        } => {
            if newer && exec.newer == Newer::Advance {
                return Err(Stop::Restart);
            }
            (primary, row)
        }
    };
    changes.duplicates += 1;
    let arena = Bump::new();
    let refs: Vec<ValueRef<'_>> = row.iter().chain(beside).map(Value::as_ref).collect();
    let cx = EvalCx {
        new_row: &refs,
        ..cx_of(exec, &arena)
    };
    let before = old.row(&plan.table)?.values();
    let storer = Storer::new(exec, plan.mode == InsertMode::Ignore, 1);
    let new = assign(
        &plan.table,
        &plan.on_duplicate,
        before,
        &storer,
        number,
        &cx,
    )?;
    if let Some(check) = &plan.check {
        let ignore = plan.mode == InsertMode::Ignore;
        if !fulfils(check, &plan.table, &new, ignore, exec)? {
            return Ok(false);
        }
    }
    let change = RowChange { key, old, new };
    let mode = match plan.mode {
        InsertMode::Ignore => UpdateMode::Ignore,
        _ => UpdateMode::Plain,
    };
    let done = exec.txn().update(&plan.table, vec![change], mode)?;
    changes.affected += 2 * done.changed;
    Ok(false)
}
