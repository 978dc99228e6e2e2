//! Running a query.
//!
//! The first step of the join is a cursor; each batch of its rows goes
//! through the other steps and ends in one [`Consumer`]: straight into the
//! sink, into groups, or into a sort. A query for rows by whole keys without
//! locks takes a short way: the rows are encoded where they lie.

use super::aggregate::Groups;
use super::derived::Collect;
use super::direct;
use super::fetch::{Cursor, encode_all};
use super::join::{join, join_behind};
use super::kept::Kept;
use super::profile::Role;
use super::reach::Reach;
use super::{Exec, ResultSink, Run, Stop};
use crate::bind::{Aggregate, AggregateKind};
use crate::error::SqlError;
use crate::expr::Expr;
use crate::expr::eval::{EvalCx, Slot, eval};
use crate::expr::logic;
use crate::plan::{Access, SelectPlan, Step};
use bumpalo::Bump;
use porpoise_rows::RowRef;
use porpoise_types::ValueRef;
use std::cell::Cell;

/// LIMIT and OFFSET as numbers.
#[derive(Clone, Copy)]
pub struct Window {
    /// Rows left out.
    pub offset: u64,
    /// Rows sent at most.
    pub count: u64,
}

impl Window {
    /// All rows.
    const ALL: Window = Window {
        offset: 0,
        count: u64::MAX,
    };
}

/// Runs the query; returns the number of rows sent.
pub fn run(plan: &SelectPlan, exec: &mut Exec<'_>, sink: &mut dyn ResultSink) -> Run<u64> {
    if plan.counts_all {
        return super::counted::run(plan, exec, sink);
    }
    run_some(plan, exec, u64::MAX, sink)
}

/// Runs the query until it has given so many rows.
pub fn run_some(
    plan: &SelectPlan,
    exec: &mut Exec<'_>,
    most: u64,
    sink: &mut dyn ResultSink,
) -> Run<u64> {
    let since = exec.begin_part();
    let sent = run_unnoted(plan, exec, most, sink)?;
    exec.end_part(plan, Role::Whole, (1, sent), since);
    Ok(sent)
}

fn run_unnoted(
    plan: &SelectPlan,
    exec: &mut Exec<'_>,
    most: u64,
    sink: &mut dyn ResultSink,
) -> Run<u64> {
    let arena = Bump::new();
    let mut window = match plan.counts_all {
        true => Window::ALL,
        false => window(plan, exec, &arena)?,
    };
    window.count = window.count.min(most);
    if window.count == 0 || !constant_part(plan, exec, &arena)? {
        return nothing(plan, exec, window, sink);
    }
    let since = exec.begin_part();
    if let Some(sent) = by_whole_keys(plan, exec, sink, window, &arena)? {
        if let Some(step) = plan.steps.first() {
            exec.end_part(step, Role::Step, (1, sent), since);
        }
        return Ok(sent);
    }
    if plan.grouped {
        return grouped(plan, exec, sink, window);
    }
    if !plan.order_by.is_empty() || plan.distinct || plan.locks() {
        return held(plan, exec, sink, window);
    }
    streamed(plan, exec, sink, window)
}

/// An evaluation in this arena.
pub fn cx_of<'a, 'x: 'a>(exec: &Exec<'x>, arena: &'a Bump) -> EvalCx<'a> {
    EvalCx {
        arena,
        env: exec.env,
        params: exec.params,
        aggregates: &[],
        new_row: &[],
        outer: exec.outer,
        queries: Some(exec.shared),
    }
}

pub(super) fn window(plan: &SelectPlan, exec: &Exec<'_>, arena: &Bump) -> Run<Window> {
    let cx = cx_of(exec, arena);
    let number = |e: &Option<Expr>, otherwise: u64| -> Run<u64> {
        let Some(e) = e else {
            return Ok(otherwise);
        };
        match eval(e, &[], &cx)? {
            ValueRef::UInt(n) => Ok(n),
            ValueRef::Int(n) if n >= 0 => Ok(n as u64),
            _ => Err(Stop::Error(SqlError::wrong_arguments("LIMIT"))),
        }
    };
    Ok(Window {
        offset: number(&plan.offset, 0)?,
        count: number(&plan.limit, u64::MAX)?,
    })
}

/// Whether the conditions on no table hold.
pub(super) fn constant_part(plan: &SelectPlan, exec: &Exec<'_>, arena: &Bump) -> Run<bool> {
    let cx = cx_of(exec, arena);
    all_true(&plan.constant, &[], &cx)
}

/// Whether all conditions are true for the row.
pub fn all_true<'a>(conditions: &'a [Expr], row: &[Slot<'a>], cx: &EvalCx<'a>) -> Run<bool> {
    for condition in conditions {
        if logic::truth(condition, row, cx)? != Some(true) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The result when no row can match: empty, or one row of empty aggregates.
fn nothing(
    plan: &SelectPlan,
    exec: &mut Exec<'_>,
    window: Window,
    sink: &mut dyn ResultSink,
) -> Run<u64> {
    if !plan.grouped || !plan.group_by.is_empty() || window.count == 0 {
        sink.columns(&plan.columns)?;
        return Ok(0);
    }
    finish_groups(plan, Groups::new(plan), exec, sink, window)
}

/// The short way of `SELECT ... WHERE key = value` and `key IN (values)`.
fn by_whole_keys<'p>(
    plan: &'p SelectPlan,
    exec: &mut Exec<'_>,
    sink: &mut dyn ResultSink,
    window: Window,
    arena: &'p Bump,
) -> Run<Option<u64>> {
    let ([step], [source]) = (plan.steps.as_slice(), plan.sources.as_slice()) else {
        return Ok(None);
    };
    let Access::Lookup {
        index,
        keys: parts,
        whole: true,
        ..
    } = &step.access
    else {
        return Ok(None);
    };
    let Some(table) = source.table() else {
        return Ok(None);
    };
    let held = !plan.order_by.is_empty() || plan.distinct || table.may_have_parts();
    let few = window.offset > 0 || window.count < parts.len() as u64;
    let refused = plan.grouped || plan.locks() || step.outer || plan.has_queries;
    if refused || step.placement.chosen.is_some() || parts.len() > 1 && (held || few) {
        return Ok(None);
    }
    let mut keys = encode_all(table, *index, parts, &[], &cx_of(exec, arena))?;
    sink.columns(&plan.columns)?;
    let reach = Reach::of_values(step, table, &cx_of(exec, arena))?;
    keys.retain(|key| reach.allows(table, *index, key));
    if keys.is_empty() || window.offset > 0 {
        return Ok(Some(0));
    }
    let wanted: smallvec::SmallVec<[&[u8]; 8]> = keys.iter().map(Vec::as_slice).collect();
    let (read, blobs) = (exec.read(), reach.blobs());
    let (env, params, outer) = (exec.env, exec.params, exec.outer);
    let mut sent: Run<u64> = Ok(0);
    let mut show = |row: RowRef<'_>| {
        let Ok(before) = sent else {
            return;
        };
        let cx = EvalCx {
            arena,
            env,
            params,
            aggregates: &[],
            new_row: &[],
            outer,
            queries: None,
        };
        sent = project(plan, step, row, &cx, sink).map(|more| before + more);
    };
    if *index == 0 {
        exec.txn()
            .get_rows_in_order_with(table, &wanted, blobs, read, &mut |_, row| {
                if let Some(row) = row {
                    show(row);
                }
            })?;
    } else {
        exec.txn()
            .get_by_unique_with(table, *index, &wanted, blobs, read, &mut |_, found| {
                if let Some((_, row)) = found {
                    show(row);
                }
            })?;
    }
    sent.map(Some)
}

fn project(
    plan: &SelectPlan,
    step: &Step,
    row: RowRef<'_>,
    cx: &EvalCx<'_>,
    sink: &mut dyn ResultSink,
) -> Run<u64> {
    let slots = [Slot::Row(row)];
    if !all_true(&step.filter, &slots, cx)? {
        return Ok(0);
    }
    let mut values: smallvec::SmallVec<[ValueRef<'_>; 16]> = smallvec::SmallVec::new();
    for item in &plan.items {
        values.push(eval(item, &slots, cx)?);
    }
    sink.row(&values)?;
    Ok(1)
}

/// Rows go to the client as they are found.
fn streamed(
    plan: &SelectPlan,
    exec: &mut Exec<'_>,
    sink: &mut dyn ResultSink,
    window: Window,
) -> Run<u64> {
    sink.columns(&plan.columns)?;
    let skip = Cell::new(window.offset);
    let mut sent = 0u64;
    let mut consume = |row: &[Slot<'_>], cx: &EvalCx<'_>| -> Run<bool> {
        if skip.get() > 0 {
            skip.set(skip.get() - 1);
            return Ok(true);
        }
        let mut values: smallvec::SmallVec<[ValueRef<'_>; 16]> = smallvec::SmallVec::new();
        for item in &plan.items {
            values.push(eval_short(item, row, cx)?);
        }
        sink.row(&values)?;
        sent += 1;
        Ok(sent < window.count)
    };
    let wanted = window.offset.saturating_add(window.count);
    let mut passed = |rows: u64| skip.set(skip.get().saturating_sub(rows));
    let rows = (window.offset, wanted);
    join_behind(plan, exec, rows, &mut passed, &mut consume)?;
    Ok(sent)
}

/// [`eval`] with the expression's lifetime shortened to the row's.
fn eval_short<'r>(e: &'r Expr, row: &[Slot<'r>], cx: &EvalCx<'r>) -> Run<ValueRef<'r>> {
    Ok(eval(e, row, cx)?)
}

/// Rows are collected first: for a sort, DISTINCT, or because the statement
/// may have to run again.
fn held(
    plan: &SelectPlan,
    exec: &mut Exec<'_>,
    sink: &mut dyn ResultSink,
    window: Window,
) -> Run<u64> {
    let mut kept = Kept::new(plan, window);
    let states = exec.shared.states;
    let enough = match plan.order_by.is_empty() {
        false => u64::MAX,
        true => window.offset.saturating_add(window.count),
    };
    let mut consume = |row: &[Slot<'_>], cx: &EvalCx<'_>| -> Run<bool> {
        kept.offer(row, cx, states)?;
        Ok(kept.len() < enough)
    };
    let since = exec.begin_part();
    match direct::applies(plan).filter(|_| enough == u64::MAX) {
        Some(only) => direct::run(plan, only, exec, &mut consume)?,
        None => join(plan, exec, enough, &mut consume)?,
    }
    let sent = kept.send(sink, window)?;
    exec.end_part(plan, Role::Sort, (1, sent), since);
    Ok(sent)
}

/// GROUP BY and aggregates.
fn grouped(
    plan: &SelectPlan,
    exec: &mut Exec<'_>,
    sink: &mut dyn ResultSink,
    window: Window,
) -> Run<u64> {
    let mut groups = Groups::new(plan);
    // The first row of the group behind the last one wanted ends that one.
    let all = plan.having.is_none() && plan.order_by.is_empty() && !plan.distinct;
    let enough = match plan.consecutive && all {
        true => window.offset.saturating_add(window.count),
        false => u64::MAX,
    };
    let states = exec.shared.states;
    let mut consume = |row: &[Slot<'_>], cx: &EvalCx<'_>| -> Run<bool> {
        groups.add(row, cx, states)?;
        Ok(groups.count() <= enough)
    };
    let since = exec.begin_part();
    if !plan.extremes.is_empty() {
        let first = exec.begin_part();
        for (at, extreme) in plan.extremes.iter().enumerate() {
            let mut found = Collect::new(states);
            run_some(extreme, exec, 1, &mut found)?;
            let row = found.rows.into_iter().next();
            if let Some(value) = row.and_then(|row| row.into_iter().next()) {
                groups.set_extreme(at, value);
            }
        }
        if let Some(step) = plan.steps.first() {
            exec.end_part(step, Role::Step, (1, plan.extremes.len() as u64), first);
        }
    } else if only_counts(plan) {
        let rows = count_rows(plan, exec)?;
        groups.add_bare(rows);
    } else if let Some(only) = direct::applies(plan) {
        direct::run(plan, only, exec, &mut consume)?;
    } else {
        join(plan, exec, u64::MAX, &mut consume)?;
    }
    exec.end_part(plan, Role::Group, (1, groups.count()), since);
    let sent = finish_groups(plan, groups, exec, sink, window)?;
    exec.end_part(plan, Role::Sort, (1, sent), since);
    Ok(sent)
}

/// Whether nothing is asked but how many rows there are.
fn only_counts(plan: &SelectPlan) -> bool {
    let [step] = plan.steps.as_slice() else {
        return false;
    };
    let counts = |a: &Aggregate| a.kind == AggregateKind::CountRows;
    let bare = step.entries && step.bare && step.filter.is_empty();
    bare && plan.group_by.is_empty() && !plan.rollup && plan.aggregates.iter().all(counts)
}

/// Rows of the only step, counted where they lie.
fn count_rows(plan: &SelectPlan, exec: &mut Exec<'_>) -> Run<u64> {
    let table = plan.sources.first().and_then(|s| s.table());
    let (Some(step), Some(table)) = (plan.steps.first(), table) else {
        return Ok(0);
    };
    let arena = Bump::new();
    let cx = cx_of(exec, &arena);
    let since = exec.begin_part();
    let mut cursor = Cursor::open(table, &step.access, &[], &cx)?;
    let reach = Reach::of(step, table, &cx)?;
    let mut rows = 0;
    while let Some(more) = cursor.count(table, &reach, exec)? {
        exec.check_cancelled()?;
        rows += more;
    }
    exec.end_part(step, Role::Step, (1, rows), since);
    Ok(rows)
}

fn finish_groups(
    plan: &SelectPlan,
    groups: Groups<'_>,
    exec: &mut Exec<'_>,
    sink: &mut dyn ResultSink,
    window: Window,
) -> Run<u64> {
    let mut kept = Kept::new(plan, window);
    groups.finish(exec, &mut kept)?;
    kept.send(sink, window)
}
