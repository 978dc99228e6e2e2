//! Multi-table UPDATE and DELETE.
//!
//! The join yields combinations of rows; for each row of a target table the first combination
//! counts. New values are computed from that combination: assignments see earlier assignments to
//! the same table, and the old values of other tables. A row that is found through two aliases of a
//! table is changed through both, one after the other. All changes of a table are then written in
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
use porpoise_types::Value;
use std::collections::HashMap;

/// Changes to the rows of one table.
#[derive(Default)]
struct BufferedChanges {
    changes: Vec<RowChange>,
    deletions: Vec<(Vec<u8>, RowBuf)>,
    seen_keys: HashMap<Vec<u8>, SeenRow>,
}

/// A row of a table that has been changed.
struct SeenRow {
    /// The targets (aliases of the table) that have changed it, as a bit set.
    targets: u64,
    /// Position of its change.
    change: Option<usize>,
}

/// Executes a multi-table UPDATE or DELETE.
pub(super) fn run(change: &Change, targets: &[Target], exec: &mut Exec<'_>) -> ExecResult<Changes> {
    let converter = ValueConverter::new(exec, change.ignore, 2);
    let states = exec.shared.states;
    let mut buffered: Vec<BufferedChanges> = Vec::with_capacity(targets.len());
    // Two aliases of one table share the rows already seen.
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
        for (at, (target, place)) in targets.iter().zip(&place).enumerate() {
            if let Some(buffered) = buffered.get_mut(*place) {
                let target = (at, target);
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
    (at, target): (usize, &Target),
    buffered: &mut BufferedChanges,
    row: &[Slot<'_>],
    cx: &EvalCx<'_>,
    converter: &ValueConverter<'_>,
    states: &States,
) -> ExecResult<()> {
    let Some(Slot::Keyed(found)) = row.get(target.slot) else {
        return Ok(());
    };
    let bit = 1 << (at & 63);
    let (seen, earlier) = match buffered.seen_keys.get_mut(found.key) {
        Some(seen) if seen.targets & bit != 0 || seen.change.is_none() => return Ok(()),
        Some(seen) => {
            seen.targets |= bit;
            (true, seen.change)
        }
        None => (false, None),
    };
    let key = found.key.to_vec();
    let old = found.row.to_buf();
    let size = 2 * key.len() + old.bytes().len() + 128;
    states.hold(size as u64)?;
    if !seen {
        let row = SeenRow {
            targets: bit,
            change: None,
        };
        buffered.seen_keys.insert(key.clone(), row);
    }
    if change.kind == ChangeKind::Delete {
        buffered.deletions.push((key, old));
        return Ok(());
    }
    let changed = earlier.and_then(|at| buffered.changes.get(at));
    let before = match changed {
        Some(changed) => changed.new.clone(),
        None => found.row.values(),
    };
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
    if !is_allowed(change, target, &new, row, cx, converter)? {
        return Ok(());
    }
    match earlier.and_then(|at| buffered.changes.get_mut(at)) {
        Some(changed) => changed.new = new,
        None => {
            if let Some(seen) = buffered.seen_keys.get_mut(&key) {
                seen.change = Some(buffered.changes.len());
            }
            buffered.changes.push(RowChange { key, old, new });
        }
    }
    Ok(())
}

/// Whether a new row satisfies the view's WITH CHECK OPTION and belongs to a partition that the statement names. If
/// not: error 1369 or 1748, or a warning with IGNORE.
pub(super) fn is_allowed(
    change: &Change,
    target: &Target,
    new: &[Value],
    row: &[Slot<'_>],
    cx: &EvalCx<'_>,
    converter: &ValueConverter<'_>,
) -> ExecResult<bool> {
    if let Some(check) = &target.check
        && !converter.satisfies_check_option(check, &target.table, new, row, cx)?
    {
        return Ok(false);
    }
    let chosen = change.named_partitions(target);
    stays_in_partitions(&target.table, chosen, new, change.ignore, cx.env)
}
