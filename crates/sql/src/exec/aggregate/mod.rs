//! Groups and aggregate functions (manual, "Aggregate Functions").
//!
//! Groups are found by hashing an encoding of their keys that is equal for
//! values that compare equal. Each group keeps its first row's values for
//! expressions outside aggregates, which the group determines unless
//! ONLY_FULL_GROUP_BY is off, and an accumulator an aggregate.

mod accumulate;
mod documents;

use super::select::{SortRow, cx_of};
use super::state::{States, size_of_row};
use super::{Exec, Run};
use crate::expr::eval::{EvalCx, Slot, eval};
use crate::expr::logic;
use crate::plan::SelectPlan;
use accumulate::Accumulator;
use bumpalo::Bump;
use foldhash::fast::RandomState;
use porpoise_types::{ColumnType, Value, ValueRef, encode_key};
use std::cmp::Ordering;
use std::collections::HashMap;

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
        ValueRef::Int(v) if v < 0 => {
            out.push(3);
            out.extend_from_slice(&v.to_le_bytes());
        }
        ValueRef::Int(v) => {
            out.push(6);
            out.extend_from_slice(&v.to_le_bytes());
        }
        ValueRef::UInt(v) => {
            out.push(6);
            out.extend_from_slice(&v.to_le_bytes());
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

struct Group {
    /// The columns of the group's first row, by slot; `None` where empty.
    first: Vec<Option<Vec<Value>>>,
    accumulators: Vec<Accumulator>,
    /// WITH ROLLUP: the values of the leading keys that it does not sum up
    /// over.
    keys: Vec<Value>,
}

/// The groups of a query.
pub struct Groups {
    by_key: HashMap<Vec<u8>, usize, RandomState>,
    list: Vec<Group>,
    key: Vec<u8>,
}

/// About what a group costs beside its aggregates' own data.
const GROUP_SIZE: u64 = 128;

impl Groups {
    /// No groups; one without key when the query has no GROUP BY.
    pub fn new(plan: &SelectPlan) -> Groups {
        let mut groups = Groups {
            by_key: HashMap::default(),
            list: Vec::new(),
            key: Vec::new(),
        };
        if plan.group_by.is_empty() {
            groups.list.push(Group::new(plan, Vec::new()));
            groups.by_key.insert(Vec::new(), 0);
        }
        groups
    }

    /// Counts rows of which nothing is known, for a query that only counts.
    pub fn add_bare(&mut self, plan: &SelectPlan, rows: u64) {
        if let Some(group) = self.list.first_mut() {
            if rows > 0 && group.first.is_empty() {
                group.first = plan.sources.iter().map(|_| Some(Vec::new())).collect();
            }
            group.accumulators.iter_mut().for_each(|a| a.count(rows));
        }
    }

    /// How many groups there are.
    pub fn count(&self) -> u64 {
        self.list.len() as u64
    }

    /// Adds a joined row to its group, and with ROLLUP to those that sum up
    /// over it.
    pub fn add(
        &mut self,
        plan: &SelectPlan,
        row: &[Slot<'_>],
        cx: &EvalCx<'_>,
        states: &States,
    ) -> Run<()> {
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        let mut values: smallvec::SmallVec<[ValueRef<'_>; 4]> = smallvec::SmallVec::new();
        for e in &plan.group_by {
            let value = eval(e, row, cx)?;
            append_key(value, &e.ty, &mut key);
            values.push(value);
        }
        self.add_to(plan, &key, &[], row, cx, states)?;
        if plan.rollup {
            if let Some(last) = self.by_key.get(&key).and_then(|at| self.list.get_mut(*at))
                && last.keys.is_empty()
            {
                last.keys = values.iter().map(|v| ValueRef::to_owned(*v)).collect();
            }
            for kept in 0..values.len() {
                // A byte that begins no value tells these keys from whole ones.
                key.clear();
                for (e, value) in plan.group_by.iter().zip(&values).take(kept) {
                    append_key(*value, &e.ty, &mut key);
                }
                key.push(u8::MAX);
                let leading = values.get(..kept).unwrap_or_default();
                self.add_to(plan, &key, leading, row, cx, states)?;
            }
        }
        self.key = key;
        Ok(())
    }

    fn add_to(
        &mut self,
        plan: &SelectPlan,
        key: &[u8],
        keys: &[ValueRef<'_>],
        row: &[Slot<'_>],
        cx: &EvalCx<'_>,
        states: &States,
    ) -> Run<()> {
        let at = match self.by_key.get(key) {
            Some(at) => *at,
            None => {
                let keys = keys.iter().map(|v| ValueRef::to_owned(*v)).collect();
                self.list.push(Group::new(plan, keys));
                let at = self.list.len() - 1;
                self.by_key.insert(key.to_vec(), at);
                at
            }
        };
        let Some(group) = self.list.get_mut(at) else {
            return Ok(());
        };
        if group.first.is_empty() {
            group.first = first_row(plan, row);
            let slots = group.first.iter().flatten();
            let held: u64 = slots.map(|values| size_of_row(values)).sum();
            states.hold(held + key.len() as u64 + GROUP_SIZE)?;
        }
        for (aggregate, accumulator) in plan.aggregates.iter().zip(&mut group.accumulators) {
            accumulator.add(aggregate, row, cx, states)?;
        }
        Ok(())
    }

    /// Evaluates HAVING, select list and sort keys for every group.
    pub fn finish(mut self, plan: &SelectPlan, exec: &mut Exec<'_>) -> Run<Vec<SortRow>> {
        if plan.rollup {
            self.list
                .sort_by(|a, b| rollup_order(plan, &a.keys, &b.keys));
        }
        let mut rows = Vec::with_capacity(self.list.len());
        let mut arena = Bump::new();
        for group in self.list {
            arena.reset();
            let mut results: Vec<Value> = Vec::with_capacity(plan.aggregates.len());
            for (aggregate, accumulator) in plan.aggregates.iter().zip(group.accumulators) {
                results.push(accumulator.finish(aggregate, exec)?);
            }
            if plan.rollup {
                let kept = group.keys.len();
                results.extend(group.keys);
                let all = plan.group_by.len();
                results.extend((kept..all).map(|_| Value::Null));
                results.extend((0..all).map(|at| Value::Int(i64::from(at >= kept))));
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

impl Group {
    fn new(plan: &SelectPlan, keys: Vec<Value>) -> Group {
        Group {
            first: Vec::new(),
            accumulators: plan.aggregates.iter().map(Accumulator::new).collect(),
            keys,
        }
    }
}

/// The order of rows of a ROLLUP: by the keys, each sum behind what it sums
/// up.
fn rollup_order(plan: &SelectPlan, a: &[Value], b: &[Value]) -> Ordering {
    for (at, e) in plan.group_by.iter().enumerate() {
        let order = match (a.get(at), b.get(at)) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Greater,
            (Some(_), None) => return Ordering::Less,
            (Some(a), Some(b)) => super::sort::order_values(&e.ty, a, b),
        };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
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
