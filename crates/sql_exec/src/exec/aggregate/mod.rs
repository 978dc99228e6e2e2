//! Groups and aggregate functions (manual, "Aggregate Functions").
//!
//! Hash aggregation. Groups are found by hashing an encoding of their keys that is equal for values
//! that compare equal. For texts and decimals that encoding is expensive, so a second hash table
//! maps the raw values to their group after the first lookup. Each group keeps the values of its
//! first row, for expressions outside of aggregates (functionally dependent on the group, unless
//! ONLY_FULL_GROUP_BY is off), and an accumulator for each aggregate.
//!
//! Stream aggregation ([`AggregateMethod::Stream`]): the rows of a group are consecutive, and only
//! the key of the last group is remembered.
//!
//! Groups that exceed the operator's share of memory go to temporary files ([`spill`]).

pub(super) mod accumulate;
mod distinct;
mod documents;
pub(super) mod extreme;
mod image;
mod numbers;
mod spill;

use super::derived::Collect;
use super::fetch::Cursor;
use super::join::Consumer;
use super::profile::Role;
use super::pruning::Pruning;
use super::query::{cx_of, run_limited};
use super::rows::{self, Demand};
use super::rowstore;
use super::state::{States, append_exact, size_of_row};
use super::{Exec, ExecResult};
use crate::bind::Source;
use crate::error::SqlError;
use crate::expr::Expr;
use crate::expr::eval::{EvalCx, Slot, eval};
use crate::plan::QueryPlan;
use crate::plan::physical::{Aggregate, AggregateMethod, RowOperator};
use accumulate::Accumulator;
use bumpalo::Bump;
use foldhash::fast::RandomState;
use numbers::{INTERPRETED_ROWS, IntegerInputs};
use porpoise_base::interrupt::Pacer;
use porpoise_base::sorting;
use porpoise_types::json::comparable_text;
use porpoise_types::{ColumnType, Kind, Value, ValueRef, encode_key};
use spill::{GroupResults, SpilledGroups, has_growing_state};
use std::cmp::Ordering;
use std::collections::HashMap;

/// Appends an encoding of a value that is equal for values of this type that compare equal.
pub fn append_key(value: ValueRef<'_>, ty: &ColumnType, out: &mut Vec<u8>) {
    match value {
        ValueRef::Null => out.push(0),
        ValueRef::Bytes(text) => {
            out.push(1);
            let start = out.len();
            match ty.kind {
                Kind::Json => out.extend_from_slice(&comparable_text(text)),
                _ => ty.collation.sort_key(text, out),
            }
            let length = u32::try_from(out.len() - start).unwrap_or(u32::MAX);
            out.extend_from_slice(&length.to_le_bytes());
        }
        ValueRef::Decimal(d) => {
            out.push(2);
            // Rounded to the digits of its column: values that are displayed alike are equal.
            let d = d.round(ty.decimals).unwrap_or(d);
            d.append_hashable(out);
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

/// The first row of a group, from which expressions outside of aggregates are evaluated.
#[derive(Default)]
struct FirstRow {
    /// The columns that are read, in the order of [`InputColumns`].
    values: Vec<Value>,
    /// The slots that are not empty, as bits.
    present: u64,
    /// Whether a row has been stored.
    has_row: bool,
}

impl FirstRow {
    /// Serializes the row.
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.present.to_be_bytes());
        for value in &self.values {
            rowstore::write(value.as_ref(), out);
        }
    }
}

/// The columns of rows that are kept for expressions above an operator, ordered by slot.
pub(super) struct InputColumns {
    columns: Vec<(usize, usize)>,
    /// Number of columns of each slot, up to the last one read.
    widths: Vec<usize>,
}

impl InputColumns {
    pub(super) fn of(columns: &[(usize, usize)], slots: usize) -> InputColumns {
        let columns = columns.to_vec();
        let mut widths = vec![0; slots];
        for (slot, column) in &columns {
            if let Some(width) = widths.get_mut(*slot) {
                *width = column + 1;
            }
        }
        InputColumns { columns, widths }
    }

    /// The values of these columns in a row.
    fn values<'r>(&self, row: &[Slot<'r>]) -> impl Iterator<Item = ValueRef<'r>> {
        let get = |(slot, column): &(usize, usize)| match row.get(*slot) {
            Some(slot) => slot.get(*column),
            None => ValueRef::Null,
        };
        self.columns.iter().map(get)
    }

    /// The non-empty slots of a row, as a bit set.
    fn present(row: &[Slot<'_>]) -> u64 {
        let mut present = 0;
        for (at, slot) in row.iter().enumerate() {
            present |= u64::from(!matches!(slot, Slot::Null)) << (at & 63);
        }
        present
    }

    fn first_row(&self, row: &[Slot<'_>]) -> FirstRow {
        FirstRow {
            values: self.values(row).map(ValueRef::to_owned).collect(),
            present: InputColumns::present(row),
            has_row: true,
        }
    }

    /// Serializes these columns of a row, as [`FirstRow::write`] does.
    pub(super) fn write(&self, row: &[Slot<'_>], out: &mut Vec<u8>) {
        out.extend_from_slice(&InputColumns::present(row).to_be_bytes());
        self.values(row)
            .for_each(|value| rowstore::write(value, out));
    }

    /// Rebuilds the slots of a row.
    pub(super) fn slots<'a>(
        &self,
        present: u64,
        values: impl Iterator<Item = ValueRef<'a>>,
        arena: &'a Bump,
    ) -> &'a [Slot<'a>] {
        let mut pairs = self.columns.iter().zip(values).peekable();
        let slots = arena.alloc_slice_fill_copy(self.widths.len(), Slot::Null);
        for (at, (slot, width)) in slots.iter_mut().zip(&self.widths).enumerate() {
            let values = arena.alloc_slice_fill_copy(*width, ValueRef::Null);
            while let Some(((_, column), value)) = pairs.next_if(|((slot, _), _)| *slot == at) {
                if let Some(place) = values.get_mut(*column) {
                    *place = value;
                }
            }
            if present & 1 << (at & 63) != 0 {
                *slot = Slot::Values(values);
            }
        }
        slots
    }
}

struct Group {
    first: FirstRow,
    /// WITH ROLLUP: the values of the leading keys that this group is not summed over.
    keys: Vec<Value>,
}

/// The groups of a query.
pub(super) struct Groups<'p> {
    plan: &'p Aggregate,
    sources: &'p [Source],
    /// Whether the rows of a group are consecutive.
    stream: bool,
    /// Created after [`INTERPRETED_ROWS`] rows.
    numbers: Option<IntegerInputs<'p>>,
    /// Number of rows so far, up to [`INTERPRETED_ROWS`].
    rows: u32,
    by_key: HashMap<Vec<u8>, usize, RandomState>,
    /// Groups by raw values, for keys whose encoding costs more than the lookup: texts under a
    /// collation, and decimals.
    by_values: Option<HashMap<Vec<u8>, usize, RandomState>>,
    list: Vec<Group>,
    /// The accumulators of all groups, those of one group next to each other for locality.
    accumulators: Vec<Accumulator>,
    read: InputColumns,
    key: Vec<u8>,
    /// Stream aggregation: the key of the last row.
    last_key: Vec<u8>,
    held: u64,
    /// Whether the states of aggregates grow with the rows of their group.
    states_grow: bool,
    /// Bytes charged for groups and their states, if states grow.
    charged_bytes: u64,
    /// Whether the operator exceeds its share of memory.
    is_over_share: bool,
    /// Groups that were spilled.
    spilled_groups: Option<Box<SpilledGroups>>,
    /// Stream aggregation: results of completed groups that were spilled.
    spilled_results: Option<GroupResults>,
    /// Number of groups in `spilled_results`.
    spilled_result_count: u64,
}

/// Approximate memory of a group, without the data of its aggregates.
const GROUP_SIZE: u64 = 128;

/// Maximum number of raw keys in `by_values`.
const MAX_RAW_KEYS: usize = 1 << 16;

impl<'p> Groups<'p> {
    /// Creates an empty set of groups; without GROUP BY it has one group with an empty key.
    fn new(plan: &'p Aggregate, sources: &'p [Source]) -> Groups<'p> {
        let stream = matches!(plan.method, AggregateMethod::Stream);
        let costly = |e: &Expr| match e.ty.kind {
            Kind::Decimal => true,
            _ => e.ty.is_string() && !e.ty.is_binary(),
        };
        let spelled = !plan.rollup && !stream && plan.group_by.iter().any(costly);
        let mut groups = Groups {
            plan,
            sources,
            stream,
            numbers: None,
            rows: 0,
            by_key: HashMap::default(),
            by_values: spelled.then(HashMap::default),
            list: Vec::new(),
            accumulators: Vec::new(),
            read: InputColumns::of(&plan.first_row_columns, sources.len()),
            key: Vec::new(),
            last_key: Vec::new(),
            held: 0,
            states_grow: !plan.group_by.is_empty()
                && !plan.rollup
                && plan.calls.iter().any(has_growing_state),
            charged_bytes: 0,
            is_over_share: false,
            spilled_groups: None,
            spilled_results: None,
            spilled_result_count: 0,
        };
        if plan.group_by.is_empty() {
            groups.push(Vec::new());
            groups.by_key.insert(Vec::new(), 0);
        }
        groups
    }

    /// Adds `rows` to the counts, for a query that only counts rows.
    fn add_counted(&mut self, rows: u64) {
        self.accumulators.iter_mut().for_each(|a| a.count(rows));
    }

    /// Sets the value of a MIN or MAX that was found through an index.
    fn set_extreme(&mut self, aggregate: usize, value: Value) {
        if let Some(accumulator) = self.accumulators.get_mut(aggregate) {
            accumulator.set_extreme(value);
        }
    }

    /// Number of groups.
    fn count(&self) -> u64 {
        self.spilled_result_count + self.list.len() as u64
    }

    /// Adds a joined row to its group and, with ROLLUP, to the group's super-aggregates.
    fn add(&mut self, row: &[Slot<'_>], cx: &EvalCx<'_>, states: &States) -> ExecResult<()> {
        if self.numbers.is_some() && self.plan.group_by.is_empty() {
            return self.accumulate(0, row, cx, states);
        }
        if self.is_over_share && states.may_spill() {
            self.begin_spilling(cx, states)?;
        }
        if !self.states_grow || self.spilled_groups.is_some() {
            return self.add_row(row, cx, states);
        }
        let before = states.used();
        self.add_row(row, cx, states)?;
        self.charged_bytes += states.used().saturating_sub(before);
        self.is_over_share |= states.hold_or_spill(0, self.charged_bytes)?;
        Ok(())
    }

    fn add_row(&mut self, row: &[Slot<'_>], cx: &EvalCx<'_>, states: &States) -> ExecResult<()> {
        if self.rows < INTERPRETED_ROWS {
            self.rows += 1;
            if self.rows == INTERPRETED_ROWS {
                self.numbers = Some(IntegerInputs::of(self.plan, self.stream, self.sources, cx));
            }
        }
        if self.plan.group_by.is_empty() {
            if self.rows == 1 {
                self.store_first_row(0, row, states)?;
            }
            return self.accumulate(0, row, cx, states);
        }
        let key = self.numbers.as_ref().and_then(|n| n.key(row));
        let Some((numbers, key)) = self.numbers.as_mut().zip(key) else {
            return self.add_by_values(row, cx, states).map(|_| ());
        };
        if let Some(at) = numbers.cached_group(key) {
            return self.accumulate(at, row, cx, states);
        }
        let at = self.add_by_values(row, cx, states)?;
        if let Some((numbers, at)) = self.numbers.as_mut().zip(at) {
            let size = numbers.cache_group(key, at);
            states.hold(size)?;
            self.held += size;
        }
        Ok(())
    }

    /// As [`Groups::add`], by the raw values of the key. Returns the group, if it is in memory.
    fn add_by_values(
        &mut self,
        row: &[Slot<'_>],
        cx: &EvalCx<'_>,
        states: &States,
    ) -> ExecResult<Option<usize>> {
        let plan = self.plan;
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        let mut values: smallvec::SmallVec<[ValueRef<'_>; 4]> = smallvec::SmallVec::new();
        for e in &plan.group_by {
            values.push(eval(e, row, cx)?);
        }
        if self.by_values.is_some() {
            values
                .iter()
                .for_each(|value| append_exact(*value, &mut key));
            let at = match self.by_values.as_ref().and_then(|known| known.get(&key)) {
                Some(at) => Some(*at),
                None => self.find_or_create_by_values(&values, &mut key, row, states)?,
            };
            self.accumulate_or_spill(at, &key, row, cx, states)?;
            self.key = key;
            return Ok(at);
        }
        for (e, value) in plan.group_by.iter().zip(&values) {
            append_key(*value, &e.ty, &mut key);
        }
        let whole = self.find_or_create_by_key(&key, &[], row, states)?;
        self.accumulate_or_spill(whole, &key, row, cx, states)?;
        if plan.rollup {
            let last = whole.and_then(|at| self.list.get_mut(at));
            if let Some(last) = last.filter(|g| g.keys.is_empty()) {
                last.keys = values.iter().map(|v| ValueRef::to_owned(*v)).collect();
            }
            for kept in 0..values.len() {
                // A prefix byte that starts no encoded value separates super-aggregate keys from
                // full keys.
                key.clear();
                for (e, value) in plan.group_by.iter().zip(&values).take(kept) {
                    append_key(*value, &e.ty, &mut key);
                }
                key.push(u8::MAX);
                let leading = values.get(..kept).unwrap_or_default();
                let at = self.find_or_create_by_key(&key, leading, row, states)?;
                self.accumulate_or_spill(at, &key, row, cx, states)?;
            }
        }
        self.key = key;
        Ok(whole)
    }

    /// The group of raw values that `by_values` does not have yet, if it is in memory. `key`
    /// becomes the group's key.
    fn find_or_create_by_values(
        &mut self,
        values: &[ValueRef<'_>],
        key: &mut Vec<u8>,
        row: &[Slot<'_>],
        states: &States,
    ) -> ExecResult<Option<usize>> {
        let plan = self.plan;
        let spelling = std::mem::replace(key, Vec::with_capacity(key.len() + 8));
        for (e, value) in plan.group_by.iter().zip(values) {
            append_key(*value, &e.ty, key);
        }
        let at = self.find_or_create_by_key(key, &[], row, states)?;
        let known = self.by_values.as_mut().filter(|k| k.len() < MAX_RAW_KEYS);
        if let (Some(known), Some(at), None) = (known, at, &self.spilled_groups) {
            let size = spelling.len() as u64 + 48;
            states.hold(size)?;
            self.held += size;
            known.insert(spelling, at);
        }
        Ok(at)
    }

    /// Adds a row to a group in memory, or writes it if its group was spilled.
    fn accumulate_or_spill(
        &mut self,
        at: Option<usize>,
        key: &[u8],
        row: &[Slot<'_>],
        cx: &EvalCx<'_>,
        states: &States,
    ) -> ExecResult<()> {
        match (at, &mut self.spilled_groups) {
            (Some(at), _) => self.accumulate(at, row, cx, states),
            (None, Some(spilled)) => spilled.add_row(key, self.plan, &self.read, row, cx, states),
            (None, None) => Err(SqlError::internal("a row of no group").into()),
        }
    }

    /// Finds or creates the group of a key; `None` if new groups are spilled.
    fn find_or_create_by_key(
        &mut self,
        key: &[u8],
        keys: &[ValueRef<'_>],
        row: &[Slot<'_>],
        states: &States,
    ) -> ExecResult<Option<usize>> {
        if self.stream {
            if let Some(at) = self
                .list
                .len()
                .checked_sub(1)
                .filter(|_| self.last_key == key)
            {
                return Ok(Some(at));
            }
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
        } else if let Some(at) = self.by_key.get(key) {
            return Ok(Some(*at));
        } else if self.spilled_groups.is_some() {
            return Ok(None);
        }
        let keys = keys.iter().map(|v| ValueRef::to_owned(*v)).collect();
        let at = self.push(keys);
        self.store_first_row(at, row, states)?;
        let mut size = GROUP_SIZE;
        if !self.stream {
            self.by_key.insert(key.to_vec(), at);
            size += key.len() as u64;
        }
        if self.plan.rollup {
            states.hold(size)?;
        } else {
            self.is_over_share |= states.hold_or_spill(size, self.held + size)?;
        }
        self.held += size;
        Ok(Some(at))
    }

    /// Adds a group and returns its position.
    fn push(&mut self, keys: Vec<Value>) -> usize {
        self.list.push(Group {
            first: FirstRow::default(),
            keys,
        });
        let accumulators = self.plan.calls.iter().map(Accumulator::new);
        self.accumulators.extend(accumulators);
        self.list.len() - 1
    }

    /// Stores the columns that are read of a group's first row.
    fn store_first_row(&mut self, at: usize, row: &[Slot<'_>], states: &States) -> ExecResult<()> {
        if let Some(group) = self.list.get_mut(at) {
            group.first = self.read.first_row(row);
            let size = size_of_row(&group.first.values);
            states.hold(size)?;
            self.held += size;
        }
        Ok(())
    }

    /// Adds a row to the accumulators of a group.
    fn accumulate(
        &mut self,
        at: usize,
        row: &[Slot<'_>],
        cx: &EvalCx<'_>,
        states: &States,
    ) -> ExecResult<()> {
        let plan = self.plan;
        let width = plan.calls.len();
        let own = self.accumulators.get_mut(at * width..(at + 1) * width);
        let accumulators = plan.calls.iter().zip(own.unwrap_or_default());
        let Some(numbers) = &self.numbers else {
            for (aggregate, accumulator) in accumulators {
                accumulator.add(aggregate, row, cx, states)?;
            }
            return Ok(());
        };
        for ((aggregate, accumulator), taken) in accumulators.zip(&numbers.inputs) {
            if !accumulator.add_number(aggregate, taken, row, states)? {
                accumulator.add(aggregate, row, cx, states)?;
            }
        }
        Ok(())
    }

    /// Pushes a row for every group, with the results of the aggregates; if `is_ordered`, in the order of
    /// the groups' first rows.
    fn finish(
        mut self,
        is_ordered: bool,
        exec: &mut Exec<'_>,
        consume: &mut Consumer<'_>,
    ) -> ExecResult<()> {
        let plan = self.plan;
        if let Some(finished) = self.spilled_results.take()
            && !finished.send(plan, &self.read, exec, consume)?
        {
            return Ok(());
        }
        let width = plan.calls.len();
        let mut accumulators = self.accumulators.into_iter();
        let list = self.list.into_iter();
        let with_own = list.map(|group| {
            let own: Vec<Accumulator> = accumulators.by_ref().take(width).collect();
            (group, own)
        });
        let groups: Box<dyn Iterator<Item = (Group, Vec<Accumulator>)>> = if plan.rollup {
            let mut groups: Vec<(Group, Vec<Accumulator>)> = with_own.collect();
            sorting::sort_by(&mut groups, sorting::RUN_EXPENSIVE, |(a, _), (b, _)| {
                rollup_order(plan, &a.keys, &b.keys)
            })?;
            Box::new(groups.into_iter())
        } else {
            Box::new(with_own)
        };
        // The groups' memory is released: the rows built from them are charged instead.
        let states = exec.shared.states;
        states.release(self.held);
        self.by_key = HashMap::default();
        self.by_values = None;
        self.numbers = None;
        let mut arena = Bump::new();
        let mut results: Vec<Value> = Vec::with_capacity(plan.calls.len());
        let mut pacer = Pacer::new();
        for (group, own) in groups {
            pacer.tick()?;
            arena.reset();
            results.clear();
            for (aggregate, accumulator) in plan.calls.iter().zip(own) {
                results.push(accumulator.finish(aggregate, exec.env)?);
            }
            if plan.rollup {
                push_rollup_keys(plan, group.keys, &mut results);
            }
            let refs: smallvec::SmallVec<[ValueRef<'_>; 8]> =
                results.iter().map(Value::as_ref).collect();
            let cx = EvalCx {
                aggregates: &refs,
                ..cx_of(exec, &arena)
            };
            let present = if group.first.has_row {
                group.first.present
            } else {
                u64::MAX
            };
            let values = group.first.values.iter().map(Value::as_ref);
            let row = self.read.slots(present, values, &arena);
            if !consume(row, &cx)? {
                return Ok(());
            }
        }
        if let Some(spilled) = self.spilled_groups {
            spilled.send(plan, &self.read, is_ordered, exec, consume)?;
        }
        Ok(())
    }
}

/// Appends the values of a ROLLUP row after the results of its aggregates: its keys, and for each key
/// whether the row aggregates over it (GROUPING).
fn push_rollup_keys(plan: &Aggregate, keys: Vec<Value>, results: &mut Vec<Value>) {
    let (kept, all) = (keys.len(), plan.group_by.len());
    results.extend(keys);
    results.extend((kept..all).map(|_| Value::Null));
    results.extend((0..all).map(|at| Value::Int(i64::from(at >= kept))));
}

/// Aggregates the input and pushes one row for each group.
pub(super) fn run(
    plan: &QueryPlan,
    aggregate: &Aggregate,
    demand: Demand<'_>,
    exec: &mut Exec<'_>,
    consume: &mut Consumer<'_>,
) -> ExecResult<()> {
    let mut groups = Groups::new(aggregate, &plan.sources);
    let states = exec.shared.states;
    let since = exec.begin_part();
    match &aggregate.method {
        AggregateMethod::Hash | AggregateMethod::Stream => {
            // The first row of the next group completes the last group wanted.
            let enough = if groups.stream { demand.rows } else { u64::MAX };
            let mut add = |row: &[Slot<'_>], cx: &EvalCx<'_>| -> ExecResult<bool> {
                groups.add(row, cx, states)?;
                Ok(groups.count() <= enough)
            };
            let is_ordered =
                matches!(aggregate.method, AggregateMethod::Stream) || aggregate.depends_on_order();
            let wanted = if is_ordered {
                Demand::ALL
            } else {
                Demand::UNORDERED
            };
            rows::run(plan, &aggregate.input, wanted, exec, &mut add)?;
        }
        AggregateMethod::CountRows => {
            if let Some(input) = rows::below_one_time_filter(&aggregate.input, exec)? {
                groups.add_counted(count_rows(plan, input, exec)?);
            }
        }
        AggregateMethod::MinMaxByIndex(lookups) => {
            if let Some(input) = rows::below_one_time_filter(&aggregate.input, exec)? {
                find_extremes(lookups, &mut groups, exec)?;
                if let Some(scan) = input.as_scan() {
                    exec.end_part(scan, Role::Scan, 1, lookups.len() as u64, since);
                }
            }
        }
    }
    exec.end_part(aggregate, Role::Group, 1, groups.count(), since);
    groups.finish(demand.is_ordered, exec, consume)
}

/// Number of rows of a scan, counted in the engine without reading them.
fn count_rows(plan: &QueryPlan, input: &RowOperator, exec: &mut Exec<'_>) -> ExecResult<u64> {
    let table = plan.sources.first().and_then(Source::table);
    let (Some(scan), Some(table)) = (input.as_scan(), table) else {
        return Err(SqlError::internal("a count of no table").into());
    };
    let arena = Bump::new();
    let cx = cx_of(exec, &arena);
    let since = exec.begin_part();
    let mut cursor = Cursor::open(table, &scan.access, &[], &cx)?;
    let pruning = Pruning::of(scan, table, &cx)?;
    let mut rows = 0;
    while let Some(more) = cursor.count(table, &pruning, exec)? {
        exec.check_cancelled()?;
        rows += more;
    }
    exec.end_part(scan, Role::Scan, 1, rows, since);
    Ok(rows)
}

/// Sets each MIN and MAX to the value of the single row that its lookup query returns.
fn find_extremes(
    lookups: &[QueryPlan],
    groups: &mut Groups<'_>,
    exec: &mut Exec<'_>,
) -> ExecResult<()> {
    for (at, lookup) in lookups.iter().enumerate() {
        let mut found = Collect::new(exec.shared.states);
        run_limited(lookup, exec, 1, &mut found)?;
        let row = found.rows.into_iter().next();
        if let Some(value) = row.and_then(|row| row.into_iter().next()) {
            groups.set_extreme(at, value);
        }
    }
    Ok(())
}

/// Sort order of the rows of a ROLLUP: by the keys, each super-aggregate row after the rows it sums
/// up.
fn rollup_order(plan: &Aggregate, a: &[Value], b: &[Value]) -> Ordering {
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
