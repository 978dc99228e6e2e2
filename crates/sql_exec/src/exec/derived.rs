//! Executes table operators: derived tables, set operations, JSON_TABLE and recursive common table
//! expressions.
//!
//! All rows are computed before the first is read. A set operation combines its operands from
//! left to right. DISTINCT, EXCEPT and INTERSECT compare rows as GROUP BY does: NULL equals NULL. A
//! recursive common table expression runs its recursive queries on the rows that the previous
//! iteration found, until an iteration finds no new rows.

use super::aggregate::append_key;
use super::query::{LimitWindow, cx_of, run};
use super::row_set::{DistinctCollect, RowCursor, SpillingCollect};
use super::state::{RowSet, States, size_of_row};
use super::subquery::key_of;
use super::{Exec, ExecError, ExecResult, ResultSink};
use crate::error::SqlError;
use crate::expr::eval::{Slot, eval};
use crate::expr::query::Frame;
use crate::parse::ast::SetOp;
use crate::plan::derived::{Derived, Recursive, SetOperation, TableOperator, operator_of};
use crate::plan::{QueryPlan, ResultColumn};
use bumpalo::Bump;
use porpoise_base::interrupt::Pacer;
use porpoise_types::{Value, ValueRef};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Rows of a materialized table between two checkpoints.
const REPLAY_BATCH: usize = 1024;

/// Collects the rows of a query as values, within the statement's memory.
pub struct Collect<'s> {
    /// The rows.
    pub rows: Vec<Vec<Value>>,
    /// Bytes charged for the rows.
    pub held: u64,
    states: &'s States,
}

impl<'s> Collect<'s> {
    /// Creates an empty collection.
    pub fn new(states: &'s States) -> Collect<'s> {
        Collect {
            rows: Vec::new(),
            held: 0,
            states,
        }
    }
}

impl ResultSink for Collect<'_> {
    fn columns(&mut self, _: &[ResultColumn]) -> Result<(), SqlError> {
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        let row: Vec<Value> = values.iter().map(|v| ValueRef::to_owned(*v)).collect();
        let size = size_of_row(&row);
        self.states.hold(size)?;
        self.held += size;
        self.rows.push(row);
        Ok(())
    }
}

/// The rows of a derived table; `row` is the current row of the FROM clause that contains it.
pub fn rows(derived: &Derived, row: &[Slot<'_>], exec: &Exec<'_>) -> ExecResult<Rc<RowSet>> {
    let states = exec.shared.states;
    let address = std::ptr::from_ref(derived) as usize;
    let operator = operator_of(derived);
    if let TableOperator::WorkingTable = operator {
        return Ok(states.working_rows(address));
    }
    crate::bind::check_stack()?;
    let frame = Frame {
        row,
        aggregates: &[],
        outer: exec.outer,
    };
    let key = key_of(&derived.free, &frame);
    if let Some(rows) = states.rows(address, &key) {
        return Ok(rows);
    }
    let before = states.used();
    let mut inner = Exec::new(exec.shared, Some(&frame));
    let rows = match operator {
        TableOperator::Materialize(plan) => {
            let mut collect = SpillingCollect::new(states);
            run(plan, &mut inner, &mut collect)?;
            return Ok(cache_rows(address, key, collect.finish()?, before, states));
        }
        TableOperator::Set(set) if set.rest.iter().all(|term| term.op == SetOp::Union) => {
            let all = union(set, &mut inner)?;
            return Ok(cache_rows(address, key, all, before, states));
        }
        TableOperator::Set(set) => set_operation_rows(set, &mut inner)?,
        TableOperator::Values(rows) => {
            let arena = Bump::new();
            let cx = cx_of(&inner, &arena);
            let mut out = Vec::with_capacity(rows.len());
            for row in rows {
                let values = row.iter().map(|e| Ok(eval(e, &[], &cx)?.to_owned()));
                let values = values.collect::<ExecResult<Vec<Value>>>()?;
                states.hold(size_of_row(&values))?;
                out.push(values);
            }
            out
        }
        TableOperator::JsonTable(table) => {
            let rows = super::json_table::rows(table, &inner)?;
            return Ok(cache_rows(address, key, rows, before, states));
        }
        TableOperator::Recursive(plan) => recursive_rows(plan, derived, &mut inner)?,
        TableOperator::WorkingTable => Vec::new(),
    };
    let set = RowSet {
        held: rows.iter().map(|r| size_of_row(r)).sum(),
        rows,
        ..RowSet::default()
    };
    Ok(cache_rows(address, key, set, before, states))
}

/// Sends the rows of a derived table's query, which depends on no row outside, as they are computed.
pub(super) fn stream(
    query: &QueryPlan,
    exec: &Exec<'_>,
    sink: &mut dyn ResultSink,
) -> ExecResult<()> {
    crate::bind::check_stack()?;
    let frame = Frame {
        row: &[],
        aggregates: &[],
        outer: exec.outer,
    };
    run(query, &mut Exec::new(exec.shared, Some(&frame)), sink)?;
    Ok(())
}

/// Sends the materialized rows of a derived table.
pub(super) fn replay(
    derived: &Derived,
    exec: &Exec<'_>,
    sink: &mut dyn ResultSink,
) -> ExecResult<()> {
    let rows = rows(derived, &[], exec)?;
    let mut cursor = RowCursor::default();
    loop {
        exec.check_cancelled()?;
        let batch = cursor.next(&rows, REPLAY_BATCH)?;
        if batch.is_empty() {
            return Ok(());
        }
        for row in batch.iter() {
            let values: smallvec::SmallVec<[ValueRef<'_>; 16]> =
                row.iter().map(Value::as_ref).collect();
            sink.row(&values)?;
        }
    }
}

/// Caches the rows of a derived table by its address and the outer values that they depend on. Of
/// the memory charged since `before`, only that of the rows stays charged.
fn cache_rows(
    address: usize,
    key: Vec<u8>,
    set: RowSet,
    before: u64,
    states: &States,
) -> Rc<RowSet> {
    states.release_since(before, set.held);
    let rows = Rc::new(set);
    states.keep_rows(address, key, rows.clone());
    rows
}

/// The rows of UNIONs. The last UNION DISTINCT removes duplicates of all rows up to it.
fn union(set: &SetOperation, exec: &mut Exec<'_>) -> ExecResult<RowSet> {
    let states = exec.shared.states;
    let before = states.used();
    let distinct = set.rest.iter().rposition(|term| !term.all);
    let rest = set.rest.iter().map(|term| &term.plan);
    let mut terms = std::iter::once(&set.first).chain(rest);
    let mut all = SpillingCollect::new(states);
    if let Some(last) = distinct {
        let key_of = |row: &[ValueRef<'_>]| {
            let mut key = Vec::new();
            for (item, value) in set.first.items.iter().zip(row) {
                append_key(*value, &item.ty, &mut key);
            }
            key
        };
        let mut collect = DistinctCollect::new(key_of, states);
        for plan in terms.by_ref().take(last + 2) {
            exec.check_cancelled()?;
            run(plan, exec, &mut collect)?;
            states.release_since(before, collect.held());
        }
        all = collect.finish()?;
    }
    for plan in terms {
        exec.check_cancelled()?;
        run(plan, exec, &mut all)?;
        states.release_since(before, all.held());
    }
    Ok(all.finish()?)
}

fn select_rows(plan: &QueryPlan, exec: &mut Exec<'_>) -> ExecResult<Vec<Vec<Value>>> {
    let states = exec.shared.states;
    let before = states.used();
    let mut collect = Collect::new(states);
    run(plan, exec, &mut collect)?;
    states.release_since(before, collect.held);
    Ok(collect.rows)
}

/// Key that is equal for rows that a set operation considers equal.
fn row_key(plan: &QueryPlan, row: &[Value]) -> Vec<u8> {
    let mut key = Vec::new();
    for (item, value) in plan.items.iter().zip(row) {
        append_key(value.as_ref(), &item.ty, &mut key);
    }
    key
}

/// Memory of a key in a hash table.
fn size_of_key(key: &[u8]) -> u64 {
    key.len() as u64 + 48
}

/// A set of keys, charged to the statement's memory.
struct DistinctKeys<'s> {
    keys: HashSet<Vec<u8>>,
    states: &'s States,
    /// The error of the charge that failed.
    failed: Option<SqlError>,
}

impl<'s> DistinctKeys<'s> {
    fn new(states: &'s States) -> DistinctKeys<'s> {
        DistinctKeys {
            keys: HashSet::new(),
            states,
            failed: None,
        }
    }

    /// Keeps only the rows whose keys are new.
    fn retain_new(
        &mut self,
        rows: &mut Vec<Vec<Value>>,
        key: impl Fn(&[Value]) -> Vec<u8>,
    ) -> ExecResult<()> {
        let mut pacer = Pacer::new();
        rows.retain(|row| pacer.leaves() || (self.failed.is_none() && self.insert(key(row))));
        match self.failed.take() {
            Some(error) => Err(ExecError::Error(error)),
            None => Ok(()),
        }
    }

    fn insert(&mut self, key: Vec<u8>) -> bool {
        if self.keys.contains(&key) {
            return false;
        }
        if let Err(error) = self.states.hold(size_of_key(&key)) {
            self.failed = Some(error);
            return false;
        }
        self.keys.insert(key)
    }
}

impl Drop for DistinctKeys<'_> {
    fn drop(&mut self) {
        let held = self.keys.iter().map(|key| size_of_key(key)).sum();
        self.states.release(held);
    }
}

fn distinct(plan: &QueryPlan, rows: &mut Vec<Vec<Value>>, states: &States) -> ExecResult<()> {
    DistinctKeys::new(states).retain_new(rows, |row| row_key(plan, row))
}

/// Number of occurrences of each row of the right side. The keys are charged to the statement until
/// the whole set operation ends.
fn count_occurrences(
    plan: &QueryPlan,
    rows: &[Vec<Value>],
    states: &States,
) -> ExecResult<HashMap<Vec<u8>, usize>> {
    let mut counts = HashMap::new();
    let mut pacer = Pacer::new();
    for row in rows {
        if pacer.leaves() {
            break;
        }
        let key = row_key(plan, row);
        states.hold(size_of_key(&key))?;
        *counts.entry(key).or_insert(0) += 1;
    }
    Ok(counts)
}

fn set_operation_rows(set: &SetOperation, exec: &mut Exec<'_>) -> ExecResult<Vec<Vec<Value>>> {
    let keys = &set.first;
    let states = exec.shared.states;
    let mut rows = select_rows(&set.first, exec)?;
    for term in &set.rest {
        exec.check_cancelled()?;
        let right = select_rows(&term.plan, exec)?;
        let mut pacer = Pacer::new();
        match term.op {
            SetOp::Union => rows.extend(right),
            SetOp::Except => {
                let mut counts = count_occurrences(keys, &right, states)?;
                rows.retain(|row| {
                    pacer.leaves()
                        || match counts.get_mut(&row_key(keys, row)) {
                            Some(_) if !term.all => false,
                            Some(left) if *left > 0 => {
                                *left -= 1;
                                false
                            }
                            _ => true,
                        }
                });
            }
            SetOp::Intersect => {
                let mut counts = count_occurrences(keys, &right, states)?;
                rows.retain(|row| {
                    pacer.leaves()
                        || match counts.get_mut(&row_key(keys, row)) {
                            Some(_) if !term.all => true,
                            Some(left) if *left > 0 => {
                                *left -= 1;
                                true
                            }
                            _ => false,
                        }
                });
            }
        }
        if !term.all {
            distinct(keys, &mut rows, states)?;
        }
        exec.check_cancelled()?;
    }
    Ok(rows)
}

fn recursive_rows(
    plan: &Recursive,
    derived: &Derived,
    exec: &mut Exec<'_>,
) -> ExecResult<Vec<Vec<Value>>> {
    let states = exec.shared.states;
    let address = std::ptr::from_ref(plan.working.as_ref()) as usize;
    let key = |row: &[Value]| {
        let mut key = Vec::new();
        for (column, value) in derived.columns.iter().zip(row) {
            append_key(value.as_ref(), &column.ty, &mut key);
        }
        key
    };
    let mut seen = DistinctKeys::new(states);
    let mut found = select_rows(&plan.seed, exec)?;
    if plan.distinct {
        seen.retain_new(&mut found, key)?;
    }
    let window = LimitWindow::between(&plan.offset, &plan.limit, exec)?;
    let skipped = usize::try_from(window.offset).unwrap_or(usize::MAX);
    let wanted = usize::try_from(window.end()).unwrap_or(usize::MAX);
    let mut all: Vec<Vec<Value>> = Vec::new();
    let mut iterations = 0u64;
    while !found.is_empty() && all.len() < wanted {
        exec.check_cancelled()?;
        iterations += 1;
        if iterations > exec.shared.recursion {
            let text = format!(
                "Recursive query aborted after {iterations} iterations. Try increasing \
                 @@cte_max_recursion_depth to a larger value."
            );
            return Err(ExecError::Error(SqlError::new(3636, "HY000", text)));
        }
        let held = found.iter().map(|row| size_of_row(row)).sum();
        states.hold(held)?;
        all.extend(found.iter().cloned());
        let working = RowSet {
            rows: found,
            held,
            ..RowSet::default()
        };
        states.set_working(address, Rc::new(working));
        found = Vec::new();
        for step in &plan.steps {
            let mut more = select_rows(step, exec)?;
            if plan.distinct {
                seen.retain_new(&mut more, key)?;
            }
            found.append(&mut more);
        }
    }
    states.set_working(address, Rc::default());
    all.truncate(wanted);
    all.drain(..skipped.min(all.len()));
    Ok(all)
}
