//! INSERT ... ON DUPLICATE KEY UPDATE, row by row.

use super::assign::{JoinedRow, ValueConverter, assign_in_slot};
use super::query::cx_of;
use super::{Changes, ConflictPolicy, Exec, ExecError, ExecResult};
use crate::expr::eval::{EvalCx, Slot};
use crate::plan::sinks::{Insert, InsertRows};
use bumpalo::Bump;
use porpoise_rows::{GeneratedIds, InsertMode, Inserted, RowBuf, RowChange, UpdateMode};
use porpoise_types::{Value, ValueRef};

/// Inserts all rows, or updates those whose keys exist. `select_values` has, for each row of an
/// INSERT ... SELECT, the values of the SELECT's tables that the assignments read.
pub(super) fn insert_or_update_all(
    plan: &Insert,
    rows: Vec<Vec<Value>>,
    select_values: &[Vec<Value>],
    exec: &mut Exec<'_>,
    ids: &mut GeneratedIds,
    changes: &mut Changes,
) -> ExecResult<()> {
    for (at, mut row) in rows.into_iter().enumerate() {
        if let Some((position, id)) = ids.reassigned_id(&plan.table, at, &row)
            && let Some(value) = row.get_mut(position)
        {
            *value = id;
        }
        let select_values = select_values.get(at).map_or(&[][..], Vec::as_slice);
        if insert_or_update(plan, &mut row, select_values, at, exec, ids, changes)? {
            ids.note_inserted(at, &row);
        }
    }
    Ok(())
}

/// Inserts a row, or updates the row with the same key. Returns whether the row was inserted.
fn insert_or_update(
    plan: &Insert,
    row: &mut [Value],
    select_values: &[Value],
    at: usize,
    exec: &mut Exec<'_>,
    ids: &mut GeneratedIds,
    changes: &mut Changes,
) -> ExecResult<bool> {
    let number = at as u64 + 1;
    let Some((key, old)) = insert_or_find(plan, row, at, exec, ids)? else {
        changes.affected += 1;
        return Ok(true);
    };
    changes.duplicates += 1;
    let arena = Bump::new();
    let refs: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
    let cx = EvalCx {
        new_row: &refs,
        ..cx_of(exec, &arena)
    };
    let slots = match plan.rows {
        InsertRows::Query(_) => read_slots(plan, select_values, &arena),
        InsertRows::Values(_) | InsertRows::File(_) => vec![Slot::Null, Slot::Values(&refs)],
    };
    let before = old.row(&plan.table)?.values();
    let converter = ValueConverter::new(exec, plan.mode == InsertMode::Ignore, 1);
    let joined = JoinedRow {
        changed: 0,
        slots: &slots,
    };
    let (table, set) = (&plan.table, &plan.on_duplicate);
    let new = assign_in_slot(table, set, before, &converter, number, joined, &cx)?;
    if let Some(check) = &plan.check
        && !converter.satisfies_check_option(check, table, &new, &[], &cx)?
    {
        return Ok(false);
    }
    let id = ids.id_of(&new);
    let change = RowChange { key, old, new };
    let mode = match plan.mode {
        InsertMode::Ignore => UpdateMode::Ignore,
        _ => UpdateMode::Plain,
    };
    let done = exec.write(|txn| txn.update(&plan.table, vec![change], mode))??;
    changes.affected += 2 * done.changed;
    match done.changed {
        0 => changes.matched += 1,
        _ => ids.note_updated(id),
    }
    Ok(false)
}

/// Inserts a row; returns the key and the row that has its key, if there is one. A generated id that
/// another server of a cluster has stored is replaced.
fn insert_or_find(
    plan: &Insert,
    row: &mut [Value],
    at: usize,
    exec: &mut Exec<'_>,
    ids: &GeneratedIds,
) -> ExecResult<Option<(Vec<u8>, RowBuf)>> {
    let mut attempt = 0;
    loop {
        // VALUES() may name a generated column.
        exec.txn().generate(&plan.table, row, at as u64 + 1)?;
        let (index, found, newer) =
            match exec.write(|txn| txn.insert_or_find(&plan.table, row))?? {
                Inserted::New => return Ok(None),
                Inserted::Duplicate {
                    index,
                    primary,
                    row,
                    newer,
                } => (index, (primary, row), newer),
            };
        let txn = exec.txn();
        if !ids.is_generated(at) || !txn.renew_generated_id(&plan.table, row, index, attempt)? {
            if newer && exec.conflicts == ConflictPolicy::Advance {
                return Err(ExecError::Restart);
            }
            return Ok(Some(found));
        }
        attempt += 1;
    }
}

/// Builds the slots that assignments read: an empty one for the existing row, then those of the
/// SELECT's tables, with the values that the assignments read.
fn read_slots<'a>(plan: &Insert, select_values: &'a [Value], arena: &'a Bump) -> Vec<Slot<'a>> {
    let mut slots = vec![Slot::Null];
    let last = plan.select_columns.iter().map(|(slot, _)| *slot).max();
    for slot in 0..last.map_or(0, |last| last + 1) {
        let named = plan.select_columns.iter().zip(select_values);
        let named = named.filter(|((at, _), _)| *at == slot);
        let width = named.clone().map(|((_, column), _)| column + 1).max();
        let values = arena.alloc_slice_fill_copy(width.unwrap_or(0), ValueRef::Null);
        for ((_, column), value) in named {
            if let Some(place) = values.get_mut(*column) {
                *place = value.as_ref();
            }
        }
        slots.push(Slot::Values(values));
    }
    slots
}
