//! Groups and aggregate functions (manual, "Aggregate Functions").
//!
//! Groups are found by hashing an encoding of their keys that is equal for
//! values that compare equal. Each group keeps its first row's values for
//! expressions outside aggregates, as ONLY_FULL_GROUP_BY = off allows, and an
//! accumulator an aggregate. Integers sum up exactly, as decimals.

use super::select::{SortRow, cx_of};
use super::{Exec, Run, Stop};
use crate::bind::{Aggregate, AggregateKind};
use crate::error::SqlError;
use crate::expr::eval::{EvalCx, Slot, eval};
use crate::expr::{convert, logic};
use crate::plan::SelectPlan;
use bumpalo::Bump;
use porpoise_types::{ColumnType, CompareAs, Decimal, Kind, Value, ValueRef, compare, encode_key};
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

/// Appends bytes that are equal for values of this type that compare equal.
pub fn append_key(value: ValueRef<'_>, ty: &ColumnType, out: &mut Vec<u8>) {
    match value {
        ValueRef::Null => out.push(0),
        ValueRef::Bytes(text) => {
            out.push(1);
            let start = out.len();
            ty.collation.sort_key(text, out);
            let length = u32::try_from(out.len() - start).unwrap_or(u32::MAX);
            out.extend_from_slice(&length.to_le_bytes());
        }
        ValueRef::Decimal(d) => {
            out.push(2);
            d.normalized().write_text(out);
            out.push(0);
        }
        ValueRef::Int(_) | ValueRef::UInt(_) => {
            out.push(3);
            let wide = match value {
                ValueRef::Int(v) => i128::from(v),
                ValueRef::UInt(v) => i128::from(v),
                _ => 0,
            };
            out.extend_from_slice(&wide.to_le_bytes());
        }
        ValueRef::Double(v) => {
            out.push(4);
            let v = if v == 0.0 { 0.0 } else { v };
            out.extend_from_slice(&v.to_bits().to_le_bytes());
        }
        other => {
            out.push(5);
            encode_key(other, ty, false, false, out);
        }
    }
}

/// What an aggregate has seen so far.
enum State {
    Count(i64),
    Exact { sum: Option<Decimal>, count: u64 },
    Double { sum: f64, count: u64 },
    Best(Value),
}

struct Accumulator {
    state: State,
    distinct: Option<HashSet<Vec<u8>>>,
}

fn accumulator(aggregate: &Aggregate) -> Accumulator {
    let state = match aggregate.kind {
        AggregateKind::CountRows | AggregateKind::Count => State::Count(0),
        AggregateKind::Min | AggregateKind::Max => State::Best(Value::Null),
        _ if aggregate.ty.kind == Kind::Double => State::Double { sum: 0.0, count: 0 },
        _ => State::Exact {
            sum: None,
            count: 0,
        },
    };
    Accumulator {
        state,
        distinct: aggregate.distinct.then(HashSet::new),
    }
}

struct Group {
    /// The columns of the group's first row, by slot; `None` where empty.
    first: Vec<Option<Vec<Value>>>,
    accumulators: Vec<Accumulator>,
}

/// The groups of a query.
pub struct Groups {
    by_key: HashMap<Vec<u8>, usize>,
    list: Vec<Group>,
}

impl Groups {
    /// No groups; one without key when the query has no GROUP BY.
    pub fn new(plan: &SelectPlan) -> Groups {
        let mut groups = Groups {
            by_key: HashMap::new(),
            list: Vec::new(),
        };
        if plan.group_by.is_empty() {
            groups.list.push(Group {
                first: Vec::new(),
                accumulators: plan.aggregates.iter().map(accumulator).collect(),
            });
            groups.by_key.insert(Vec::new(), 0);
        }
        groups
    }

    /// Adds a joined row to its group.
    pub fn add(&mut self, plan: &SelectPlan, row: &[Slot<'_>], cx: &EvalCx<'_>) -> Run<()> {
        let mut key = Vec::new();
        for e in &plan.group_by {
            let value = eval(e, row, cx)?;
            append_key(value, &e.ty, &mut key);
        }
        let next = self.list.len();
        let at = *self.by_key.entry(key).or_insert(next);
        if at == next {
            self.list.push(Group {
                first: Vec::new(),
                accumulators: plan.aggregates.iter().map(accumulator).collect(),
            });
        }
        let Some(group) = self.list.get_mut(at) else {
            return Ok(());
        };
        if group.first.is_empty() {
            group.first = first_row(plan, row);
        }
        for (aggregate, accumulator) in plan.aggregates.iter().zip(&mut group.accumulators) {
            accumulate(aggregate, accumulator, row, cx)?;
        }
        Ok(())
    }

    /// Evaluates HAVING, select list and sort keys for every group.
    pub fn finish(self, plan: &SelectPlan, exec: &mut Exec<'_>) -> Run<Vec<SortRow>> {
        let mut rows = Vec::with_capacity(self.list.len());
        let mut arena = Bump::new();
        for group in self.list {
            arena.reset();
            let mut results: Vec<Value> = Vec::with_capacity(plan.aggregates.len());
            for (aggregate, accumulator) in plan.aggregates.iter().zip(group.accumulators) {
                results.push(result(aggregate, accumulator, exec)?);
            }
            let refs: Vec<ValueRef<'_>> = results.iter().map(Value::as_ref).collect();
            let cx = EvalCx {
                aggregates: &refs,
                ..cx_of(exec, &arena)
            };
            let slots: Vec<Vec<ValueRef<'_>>> = group
                .first
                .iter()
                .map(|slot| slot.iter().flatten().map(Value::as_ref).collect())
                .collect();
            let empty: &[ValueRef<'_>] = &[];
            let row: Vec<Slot<'_>> = (0..plan.sources.len())
                .map(|at| match (group.first.get(at), slots.get(at)) {
                    (Some(Some(_)), Some(values)) => Slot::Values(values),
                    (None, _) => Slot::Values(empty),
                    _ => Slot::Null,
                })
                .collect();
            let keep = match &plan.having {
                Some(having) => logic::truth(having, &row, &cx)? == Some(true),
                None => true,
            };
            if keep {
                rows.push(super::select::sort_row(plan, &row, &cx)?);
            }
        }
        Ok(rows)
    }
}

/// Storage values of the columns that expressions outside aggregates read.
fn first_row(plan: &SelectPlan, row: &[Slot<'_>]) -> Vec<Option<Vec<Value>>> {
    let mut needed: Vec<u64> = vec![0; plan.sources.len()];
    let mut note = |slot: usize, _: usize| {
        if let Some(used) = needed.get_mut(slot) {
            *used = 1;
        }
    };
    let order = plan.order_by.iter().map(|k| &k.expr);
    for e in plan.items.iter().chain(order).chain(&plan.having) {
        e.columns(&mut note);
    }
    row.iter()
        .zip(&plan.sources)
        .zip(&needed)
        .map(|((slot, source), used)| match (slot, used) {
            (Slot::Null, _) => None,
            (_, 0) => Some(Vec::new()),
            _ => {
                let columns = 0..source.columns.len();
                Some(columns.map(|c| slot.get(c).to_owned()).collect())
            }
        })
        .collect()
}

fn accumulate(
    aggregate: &Aggregate,
    accumulator: &mut Accumulator,
    row: &[Slot<'_>],
    cx: &EvalCx<'_>,
) -> Run<()> {
    let Some(arg) = &aggregate.arg else {
        if let State::Count(n) = &mut accumulator.state {
            *n += 1;
        }
        return Ok(());
    };
    let value = eval(arg, row, cx)?;
    if value.is_null() {
        return Ok(());
    }
    if let Some(seen) = &mut accumulator.distinct {
        let mut key = Vec::new();
        append_key(value, &arg.ty, &mut key);
        if !seen.insert(key) {
            return Ok(());
        }
    }
    match &mut accumulator.state {
        State::Count(n) => *n += 1,
        State::Exact { sum, count } => {
            let number = convert::decimal(value, &arg.ty, cx)?;
            let range = |_| SqlError::out_of_range("DECIMAL", "sum");
            *sum = Some(match sum.take() {
                Some(sum) => sum.add(number).map_err(range)?,
                None => number,
            });
            *count += 1;
        }
        State::Double { sum, count } => {
            *sum += convert::double(value, &arg.ty, cx)?;
            *count += 1;
        }
        State::Best(best) => {
            let wanted = match aggregate.kind {
                AggregateKind::Min => Ordering::Less,
                _ => Ordering::Greater,
            };
            let how = match (arg.ty.kind, value) {
                (Kind::Enum | Kind::Set, ValueRef::Bytes(_)) => CompareAs::Bytes(arg.ty.collation),
                _ => compare::same_type(&arg.ty),
            };
            let better = best.is_null()
                || compare::compare_direct(value, best.as_ref(), how) == Some(wanted);
            if better {
                *best = value.to_owned();
            }
        }
    }
    Ok(())
}

fn result(aggregate: &Aggregate, accumulator: Accumulator, exec: &Exec<'_>) -> Run<Value> {
    let range = |_| Stop::Error(SqlError::out_of_range("DECIMAL", "avg"));
    Ok(match (accumulator.state, aggregate.kind) {
        (State::Count(n), _) => Value::Int(n),
        (State::Best(value), _) => value,
        (State::Double { count: 0, .. }, _) => Value::Null,
        (State::Double { sum, count }, AggregateKind::Avg) => Value::Double(sum / count as f64),
        (State::Double { sum, .. }, _) => Value::Double(sum),
        (State::Exact { sum: None, .. }, _) => Value::Null,
        (
            State::Exact {
                sum: Some(sum),
                count,
            },
            AggregateKind::Avg,
        ) => {
            let count = Decimal::from_u64(count);
            let mean = sum.div(count, exec.env.div_precision).map_err(range)?;
            let rounded = mean
                .map(|m| m.round(aggregate.ty.decimals))
                .transpose()
                .map_err(range)?;
            rounded.map_or(Value::Null, Value::Decimal)
        }
        (State::Exact { sum: Some(sum), .. }, _) => Value::Decimal(sum),
    })
}
