//! Running UPDATE and DELETE over several tables.
//!
//! The join hands over every combination of rows; of each target's rows the
//! first combination counts. Values are computed from what the combination
//! shows: assignments of one table see its earlier ones, columns of other
//! tables have their old values. All changes of a table are then done in one
//! call.

use super::assign::{Storer, assign_in, note_skipped, stays_chosen};
use super::rows::{self, Demand};
use super::state::{States, size_of_row};
use super::{Changes, Exec, ExecResult};
use crate::expr::eval::{EvalCx, Slot};
use crate::plan::multi::{MultiPlan, MultiTarget};
use porpoise_rows::catalog::TableId;
use porpoise_rows::{RowBuf, RowChange, UpdateMode};
use porpoise_types::{Level, Warning};
use std::collections::HashSet;

/// Changes to the rows of one table.
struct Gathered {
    changes: Vec<RowChange>,
    gone: Vec<(Vec<u8>, RowBuf)>,
    seen: HashSet<Vec<u8>>,
}

/// UPDATE or DELETE over several tables.
pub fn run(plan: &MultiPlan, exec: &mut Exec<'_>) -> ExecResult<Changes> {
    let storer = Storer::new(exec, plan.ignore, 2);
    let states = exec.shared.states;
    let mut gathered: Vec<Gathered> = Vec::with_capacity(plan.targets.len());
    // Two names of one table share what was seen.
    let mut place: Vec<usize> = Vec::with_capacity(plan.targets.len());
    let mut tables: Vec<TableId> = Vec::new();
    for target in &plan.targets {
        let known = tables.iter().position(|t| *t == target.table.id);
        place.push(known.unwrap_or(tables.len()));
        if known.is_none() {
            tables.push(target.table.id);
            gathered.push(Gathered {
                changes: Vec::new(),
                gone: Vec::new(),
                seen: HashSet::new(),
            });
        }
    }
    let mut consume = |row: &[Slot<'_>], cx: &EvalCx<'_>| -> ExecResult<bool> {
        for (target, place) in plan.targets.iter().zip(&place) {
            if let Some(gathered) = gathered.get_mut(*place) {
                gather(plan, target, gathered, row, cx, &storer, states)?;
            }
        }
        Ok(true)
    };
    let strictly = exec.env.strictly(storer.strict && !plan.delete);
    if let Some(input) = plan.select.rows() {
        rows::run(&plan.select, input, Demand::ALL, exec, &mut consume)?;
    }
    drop(strictly);
    let mut changes = Changes::default();
    for (id, gathered) in tables.iter().zip(gathered) {
        let target = plan.targets.iter().find(|t| t.table.id == *id);
        let Some(target) = target else {
            continue;
        };
        changes.matched += gathered.seen.len() as u64;
        if plan.delete {
            changes.affected += delete(plan, target, gathered.gone, exec)?;
        } else if !gathered.changes.is_empty() {
            let mode = match plan.ignore {
                true => UpdateMode::Ignore,
                false => UpdateMode::Plain,
            };
            let done = exec.txn().update(&target.table, gathered.changes, mode)?;
            changes.affected += done.changed;
            note_skipped(&done.skipped, exec);
        }
    }
    changes.seen = exec.txn().seen();
    Ok(changes)
}

fn gather(
    plan: &MultiPlan,
    target: &MultiTarget,
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
    if plan.delete {
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
    let source = plan.select.sources.get(target.slot);
    let chosen = source.and_then(|s| s.partitions.as_deref());
    if !stays_chosen(&target.table, chosen, &new, plan.ignore, cx.env)? {
        return Ok(());
    }
    gathered.changes.push(RowChange { key, old, new });
    Ok(())
}

fn delete(
    plan: &MultiPlan,
    target: &MultiTarget,
    gone: Vec<(Vec<u8>, RowBuf)>,
    exec: &mut Exec<'_>,
) -> ExecResult<u64> {
    if gone.is_empty() {
        return Ok(0);
    }
    if !plan.ignore {
        return Ok(exec.txn().delete(&target.table, gone)?.deleted);
    }
    let mut deleted = 0;
    for row in gone {
        match exec.txn().delete(&target.table, vec![row]) {
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
