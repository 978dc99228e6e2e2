//! Point lookup: rows by whole keys of a unique index, evaluated and encoded into the result in
//! place, inside the engine's visitor.
//!
//! Invariant: the visitor writes to the sink while the engine's memory is borrowed. Sinks of a
//! plain read only append to memory then, and there is at most one row for each key.

use super::fetch::encode_keys;
use super::profile::Role;
use super::pruning::Pruning;
use super::query::{LimitWindow, all_true, cx_of};
use super::{Exec, ExecResult, ResultSink};
use crate::bind::Source;
use crate::error::SqlError;
use crate::expr::eval::{EvalCx, Slot, eval};
use crate::plan::QueryPlan;
use crate::plan::physical::PointLookup;
use crate::plan::scan::{Access, Scan};
use bumpalo::Bump;
use porpoise_rows::{Lookup, RowRef};
use porpoise_types::ValueRef;

/// Sends the rows of a LIMIT window. Returns their number.
pub(super) fn run(
    plan: &QueryPlan,
    lookup: &PointLookup,
    window: LimitWindow,
    exec: &mut Exec<'_>,
    sink: &mut dyn ResultSink,
) -> ExecResult<u64> {
    let arena = Bump::new();
    let scan = &lookup.scan;
    let table = plan.sources.first().and_then(Source::table);
    let (Access::PointLookup { index, keys }, Some(table)) = (&scan.access, table) else {
        return Err(SqlError::internal("a point lookup without keys").into());
    };
    let passes = lookup.constant_conditions.is_empty()
        || all_true(&lookup.constant_conditions, &[], &cx_of(exec, &arena))?;
    if !passes {
        sink.columns(&plan.columns)?;
        return Ok(0);
    }
    let since = exec.begin_part();
    let keys = encode_keys(table, *index, keys, &[], &cx_of(exec, &arena))?;
    sink.columns(&plan.columns)?;
    let pruning = Pruning::overflow_only(scan, table, &cx_of(exec, &arena))?;
    let mut wanted: smallvec::SmallVec<[&[u8]; 8]> = keys.iter().collect();
    wanted.retain(|key| pruning.allows(table, *index, key));
    let read = exec.read();
    let cx = EvalCx {
        queries: None,
        ..cx_of(exec, &arena)
    };
    let (mut skip, mut sent) = (window.offset, 0u64);
    let mut outcome: ExecResult<()> = Ok(());
    let mut show = |row: RowRef<'_>| {
        if outcome.is_err() || sent == window.count {
            return;
        }
        match project(plan, scan, row, skip == 0, &cx, sink) {
            Ok(false) => {}
            Ok(true) if skip > 0 => skip -= 1,
            Ok(true) => sent += 1,
            Err(stop) => outcome = Err(stop),
        }
    };
    if !wanted.is_empty() {
        let lookup = Lookup::unique(table, *index, &wanted).overflow(pruning.overflow());
        let lookup = lookup.in_order();
        exec.txn().look_up(&lookup, read, &mut |_, found| {
            if let Some(found) = found {
                show(found.row);
            }
        })?;
    }
    outcome?;
    exec.end_part(scan, Role::Scan, 1, sent, since);
    Ok(sent)
}

/// Sends a row if the conditions accept it. Returns whether they do.
fn project(
    plan: &QueryPlan,
    scan: &Scan,
    row: RowRef<'_>,
    send: bool,
    cx: &EvalCx<'_>,
    sink: &mut dyn ResultSink,
) -> ExecResult<bool> {
    let slots = [Slot::Row(row)];
    if !all_true(&scan.filter, &slots, cx)? {
        return Ok(false);
    }
    if send {
        let mut values: smallvec::SmallVec<[ValueRef<'_>; 16]> = smallvec::SmallVec::new();
        for item in &plan.items {
            values.push(eval(item, &slots, cx)?);
        }
        sink.row(&values)?;
    }
    Ok(true)
}
