//! Multi-table UPDATE and DELETE.
//!
//! The join yields combinations of rows; for each row of a target table the first combination
//! counts. New values are computed from that combination: assignments see earlier assignments to
//! the same table, and the old values of other tables. All changes of a table are then written in
//! one call.

use super::assign::{Storer, assign_in, stays_chosen};
use super::dml::{delete_rows, update_rows};
use super::rows::{self, Demand};
use super::state::{States, size_of_row};
use super::{Changes, Exec, ExecResult};
use crate::expr::eval::{EvalCx, Slot};
use crate::plan::sinks::{Change, ChangeKind, Target};
use porpoise_rows::catalog::TableId;
use porpoise_rows::{RowBuf, RowChange};
use std::collections::HashSet;

/// Changes to the rows of one table.
#[derive(Default)]
struct Gathered {
    changes: Vec<RowChange>,
    gone: Vec<(Vec<u8>, RowBuf)>,
    seen: HashSet<Vec<u8>>,
}

/// Executes a multi-table UPDATE or DELETE.
pub(super) fn run(change: &Change, targets: &[Target], exec: &mut Exec<'_>) -> ExecResult<Changes> {
    let storer = Storer::new(exec, change.ignore, 2);
    let states = exec.shared.states;
    let mut gathered: Vec<Gathered> = Vec::with_capacity(targets.len());
    // Two aliases of one table share the set of rows already seen.
    let mut place: Vec<usize> = Vec::with_capacity(targets.len());
    let mut tables: Vec<TableId> = Vec::new();
    for target in targets {
        let known = tables.iter().position(|t| *t == target.table.id);
        place.push(known.unwrap_or(tables.len()));
        if known.is_none() {
            tables.push(target.table.id);
            gathered.push(Gathered::default());
        }
    }
    let mut consume = |row: &[Slot<'_>], cx: &EvalCx<'_>| -> ExecResult<bool> {
        for (target, place) in targets.iter().zip(&place) {
            if let Some(gathered) = gathered.get_mut(*place) {
                gather(change, target, gathered, row, cx, &storer, states)?;
            }
        }
        Ok(true)
    };
    let strictly = exec
        .env
        .strictly(storer.strict && change.kind == ChangeKind::Update);
    if let Some(input) = change.input.rows() {
        rows::run(&change.input, input, Demand::ALL, exec, &mut consume)?;
    }
    drop(strictly);
    let mut done = Changes::default();
    for (id, gathered) in tables.iter().zip(gathered) {
        let Some(target) = targets.iter().find(|t| t.table.id == *id) else {
            continue;
        };
        done.matched += gathered.seen.len() as u64;
        let (table, ignore) = (&target.table, change.ignore);
        done.affected += match change.kind {
            ChangeKind::Update => update_rows(table, gathered.changes, ignore, exec)?,
            ChangeKind::Delete => delete_rows(table, gathered.gone, ignore, exec)?,
        };
    }
    done.seen = exec.txn().seen();
    Ok(done)
}

fn gather(
    change: &Change,
    target: &Target,
    gathered: &mut Gathered,
    row: &[Slot<'_>],
    cx: &EvalCx<'_>,
    storer: &Storer<'_>,
    states: &States,
) -> ExecResult<()> {
    let Some(Slot::Keyed(found)) = row.get(target.slot) else {
        return Ok(());
    };
    if gathered.seen.contains(found.key) {
        return Ok(());
    }
    gathered.seen.insert(found.key.to_vec());
    let key = found.key.to_vec();
    let old = found.row.to_buf();
    let size = 2 * key.len() + old.bytes().len() + 128;
    states.hold(size as u64)?;
    if change.kind == ChangeKind::Delete {
        gathered.gone.push((key, old));
        return Ok(());
    }
    let before = found.row.values();
    let number = gathered.seen.len() as u64;
    let new = assign_in(
        (&target.table, target.slot),
        &target.set,
        before,
        storer,
        number,
        row,
        cx,
    )?;
    states.hold(size_of_row(&new))?;
    let chosen = change.chosen(target);
    if !stays_chosen(&target.table, chosen, &new, change.ignore, cx.env)? {
        return Ok(());
    }
    gathered.changes.push(RowChange { key, old, new });
    Ok(())
}
