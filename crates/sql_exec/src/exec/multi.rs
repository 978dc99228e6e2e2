//! Multi-table UPDATE and DELETE.
//!
//! The join yields combinations of rows; for each row of a target table the first combination
//! counts. New values are computed from that combination: assignments see earlier assignments to
//! the same table, and the old values of other tables. All changes of a table are then written in
//! one call.

use super::assign::{JoinedRow, ValueConverter, assign_in_slot, stays_in_partitions};
use super::dml::{delete_rows, update_rows};
use super::query::cx_of;
use super::rows::{self, Demand};
use super::state::{States, size_of_row};
use super::{Changes, Exec, ExecResult, text_search};
use crate::expr::eval::{EvalCx, Slot};
use crate::plan::sinks::{Change, ChangeKind, Target};
use bumpalo::Bump;
use porpoise_rows::catalog::TableId;
use porpoise_rows::{RowBuf, RowChange};
use std::collections::HashSet;

/// Changes to the rows of one table.
#[derive(Default)]
struct BufferedChanges {
    changes: Vec<RowChange>,
    deletions: Vec<(Vec<u8>, RowBuf)>,
    seen_keys: HashSet<Vec<u8>>,
}

/// Executes a multi-table UPDATE or DELETE.
pub(super) fn run(change: &Change, targets: &[Target], exec: &mut Exec<'_>) -> ExecResult<Changes> {
    let converter = ValueConverter::new(exec, change.ignore, 2);
    let states = exec.shared.states;
    let mut buffered: Vec<BufferedChanges> = Vec::with_capacity(targets.len());
    // Two aliases of one table share the set of rows already seen.
    let mut place: Vec<usize> = Vec::with_capacity(targets.len());
    let mut tables: Vec<TableId> = Vec::new();
    for target in targets {
        let known = tables.iter().position(|t| *t == target.table.id);
        place.push(known.unwrap_or(tables.len()));
        if known.is_none() {
            tables.push(target.table.id);
            buffered.push(BufferedChanges::default());
        }
    }
    let mut consume = |row: &[Slot<'_>], cx: &EvalCx<'_>| -> ExecResult<bool> {
        for (target, place) in targets.iter().zip(&place) {
            if let Some(buffered) = buffered.get_mut(*place) {
                buffer_change(change, target, buffered, row, cx, &converter, states)?;
            }
        }
        Ok(true)
    };
    let arena = Bump::new();
    text_search::prepare(&change.input, exec, &cx_of(exec, &arena))?;
    let strictly = exec
        .env
        .strictly(converter.strict && change.kind == ChangeKind::Update);
    if let Some(input) = change.input.rows() {
        rows::run(&change.input, input, Demand::ALL, exec, &mut consume)?;
    }
    drop(strictly);
    let mut done = Changes::default();
    for (id, buffered) in tables.iter().zip(buffered) {
        let Some(target) = targets.iter().find(|t| t.table.id == *id) else {
            continue;
        };
        done.matched += buffered.seen_keys.len() as u64;
        let (table, ignore) = (&target.table, change.ignore);
        done.affected += match change.kind {
            ChangeKind::Update => update_rows(table, buffered.changes, ignore, exec)?,
            ChangeKind::Delete => delete_rows(table, buffered.deletions, ignore, exec)?,
        };
    }
    done.seen = exec.txn().seen();
    Ok(done)
}

fn buffer_change(
    change: &Change,
    target: &Target,
    buffered: &mut BufferedChanges,
    row: &[Slot<'_>],
    cx: &EvalCx<'_>,
    converter: &ValueConverter<'_>,
    states: &States,
) -> ExecResult<()> {
    let Some(Slot::Keyed(found)) = row.get(target.slot) else {
        return Ok(());
    };
    if buffered.seen_keys.contains(found.key) {
        return Ok(());
    }
    buffered.seen_keys.insert(found.key.to_vec());
    let key = found.key.to_vec();
    let old = found.row.to_buf();
    let size = 2 * key.len() + old.bytes().len() + 128;
    states.hold(size as u64)?;
    if change.kind == ChangeKind::Delete {
        buffered.deletions.push((key, old));
        return Ok(());
    }
    let before = found.row.values();
    let number = buffered.seen_keys.len() as u64;
    let new = assign_in_slot(
        &target.table,
        &target.set,
        before,
        converter,
        number,
        JoinedRow {
            changed: target.slot,
            slots: row,
        },
        cx,
    )?;
    states.hold(size_of_row(&new))?;
    let chosen = change.named_partitions(target);
    if !stays_in_partitions(&target.table, chosen, &new, change.ignore, cx.env)? {
        return Ok(());
    }
    buffered.changes.push(RowChange { key, old, new });
    Ok(())
}
