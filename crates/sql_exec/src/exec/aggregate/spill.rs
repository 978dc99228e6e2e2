//! Groups that exceed the operator's share of memory.
//!
//! ```text
//!  rows --> groups in memory        those that came first, as long as their states have a fixed size
//!      \--> sorter by group key --> one group after the other ---------------------------> consumer
//!                                                             \--> sorter by first row --/
//! ```
//!
//! A row of any other group is written with the arguments of the aggregates, which are evaluated
//! when the row arrives. At the end the rows of each group are processed in input order, so that
//! results equal those of an in-memory hash aggregate, to the last bit. If an aggregate's state
//! grows with its rows, the groups in memory are written, too: such a group starts with a state
//! record.
//!
//! Invariants:
//! 1. Only one spilled group at a time is in memory.
//! 2. Groups are returned in the order of their first rows if their consumer needs an order: in a
//!    nested query, and below a LIMIT.
//!
//! Rejected: partitioning by hash (a group larger than memory needs recursion, and the order of
//! groups needs a sort anyway); merging of partial states (sums of DOUBLE would depend on the
//! memory limit).

use super::accumulate::Accumulator;
use super::{FirstRow, Groups, InputColumns};
use crate::bind::{Aggregate as AggregateCall, AggregateKind};
use crate::error::SqlError;
use crate::exec::join::Consumer;
use crate::exec::profile::Role;
use crate::exec::query::cx_of;
use crate::exec::record_sort::ByBytes;
use crate::exec::rowstore::{self, Values, values_of};
use crate::exec::spill::sorter::Sorter;
use crate::exec::state::States;
use crate::exec::{Exec, ExecResult};
use crate::expr::eval::{EvalCx, Slot, eval};
use crate::expr::{Expr, ExprKind, Load};
use crate::plan::physical::Aggregate;
use bumpalo::Bump;
use porpoise_base::sorting;
use porpoise_types::{Value, ValueRef};
use smallvec::SmallVec;

/// The first byte of a record: a row of a group, or a partial state of a group.
const ROW_RECORD: u8 = 0;
const STATE_RECORD: u8 = 1;

/// Size of a record's header: its kind and its number.
const RECORD_HEADER: usize = 9;

fn damaged() -> SqlError {
    SqlError::internal("a spilled group cannot be read")
}

/// Results of groups, in the order of their first rows.
pub(super) struct GroupResults {
    sorter: Sorter<ByBytes>,
    /// Scratch buffer: a group's first row and results.
    value: Vec<u8>,
}

impl GroupResults {
    /// Creates a list without groups.
    pub(super) fn new() -> GroupResults {
        GroupResults {
            sorter: Sorter::new(ByBytes),
            value: Vec::new(),
        }
    }

    /// Adds a group, ordered by the number of its first row, which `write_first` serializes.
    pub(super) fn add(
        &mut self,
        number: [u8; 8],
        write_first: impl FnOnce(&mut Vec<u8>),
        results: &[Value],
        states: &States,
    ) -> Result<(), SqlError> {
        self.value.clear();
        write_first(&mut self.value);
        for result in results {
            rowstore::write(result.as_ref(), &mut self.value);
        }
        self.sorter.add(&number, &self.value, states)
    }

    /// Pushes the groups to the consumer. Returns false when it wants no more.
    pub(super) fn send(
        self,
        plan: &Aggregate,
        read: &InputColumns,
        exec: &Exec<'_>,
        consume: &mut Consumer<'_>,
    ) -> ExecResult<bool> {
        let states = exec.shared.states;
        let mut groups = self.sorter.finish(states)?;
        let mut arena = Bump::new();
        let mut wants_more = true;
        while wants_more && groups.advance()? {
            arena.reset();
            let mut rest = groups.record().1;
            let present = number(&mut rest).ok_or_else(damaged)?;
            let carried = plan.first_row_columns.len();
            let values = values_of(rest, carried + plan.calls.len());
            let (first, results) = values.split_at_checked(carried).ok_or_else(damaged)?;
            let cx = EvalCx {
                aggregates: results,
                ..cx_of(exec, &arena)
            };
            let row = read.slots(present, first.iter().copied(), &arena);
            wants_more = consume(row, &cx)?;
        }
        groups.close(states);
        Ok(wants_more)
    }
}

/// Removes a number from the front of the bytes and returns it.
fn number(rest: &mut &[u8]) -> Option<u64> {
    let (number, behind) = rest.split_first_chunk::<8>()?;
    *rest = behind;
    Some(u64::from_be_bytes(*number))
}

/// Rows and states of groups, ordered by group key.
pub(super) struct SpilledGroups {
    /// The aggregates, with columns of a record as their arguments.
    calls: Vec<AggregateCall>,
    records: Sorter<ByBytes>,
    /// Number of the next record.
    next: u64,
    record: Vec<u8>,
}

/// Whether an aggregate includes NULLs.
fn includes_null(kind: AggregateKind) -> bool {
    matches!(kind, AggregateKind::JsonArray | AggregateKind::JsonObject)
}

/// Whether the state of an aggregate grows with the rows of its group.
pub(super) fn has_growing_state(call: &AggregateCall) -> bool {
    call.distinct || call.kind == AggregateKind::Concat || includes_null(call.kind)
}

/// The aggregates with columns of a record in place of arguments and sort keys.
fn calls_over_records(plan: &Aggregate) -> Vec<AggregateCall> {
    let mut at = plan.first_row_columns.len();
    let mut column = |e: &Expr| {
        at += 1;
        Expr {
            kind: ExprKind::Column {
                slot: 0,
                column: at - 1,
                load: Load::Plain,
            },
            ..e.clone()
        }
    };
    let mut calls = plan.calls.clone();
    for call in &mut calls {
        call.args = call.args.iter().map(&mut column).collect();
        for key in &mut call.order {
            key.expr = column(&key.expr);
        }
    }
    calls
}

impl SpilledGroups {
    /// Creates a list without groups.
    pub(super) fn new(plan: &Aggregate) -> SpilledGroups {
        SpilledGroups {
            calls: calls_over_records(plan),
            records: Sorter::new(ByBytes),
            next: 0,
            record: Vec::new(),
        }
    }

    fn begin_record(&mut self, kind: u8) {
        self.record.clear();
        self.record.push(kind);
        self.record.extend_from_slice(&self.next.to_be_bytes());
        self.next += 1;
    }

    /// Adds a row of a group.
    pub(super) fn add_row(
        &mut self,
        key: &[u8],
        plan: &Aggregate,
        read: &InputColumns,
        row: &[Slot<'_>],
        cx: &EvalCx<'_>,
        states: &States,
    ) -> ExecResult<()> {
        self.begin_record(ROW_RECORD);
        let out = &mut self.record;
        read.write(row, out);
        for call in &plan.calls {
            // Except for JSON documents, aggregates ignore NULLs: arguments after one are not
            // evaluated.
            let mut counts = true;
            for arg in call
                .args
                .iter()
                .chain(call.order.iter().map(|key| &key.expr))
            {
                let value = if counts {
                    eval(arg, row, cx)?
                } else {
                    ValueRef::Null
                };
                counts &= !value.is_null() || includes_null(call.kind);
                rowstore::write(value, out);
            }
        }
        Ok(self.records.add(key, &self.record, states)?)
    }

    /// Adds the state of a group that has no records yet.
    pub(super) fn add_state(
        &mut self,
        key: &[u8],
        first: &FirstRow,
        own: &[Accumulator],
        states: &States,
    ) -> Result<(), SqlError> {
        self.begin_record(STATE_RECORD);
        first.write(&mut self.record);
        for accumulator in own {
            accumulator.write(&mut self.record);
        }
        self.records.add(key, &self.record, states)
    }

    /// Aggregates the groups and pushes them to the consumer; in the order of their first rows if
    /// `is_ordered`.
    pub(super) fn send(
        self,
        plan: &Aggregate,
        read: &InputColumns,
        is_ordered: bool,
        exec: &Exec<'_>,
        consume: &mut Consumer<'_>,
    ) -> ExecResult<()> {
        let states = exec.shared.states;
        let records = self.records;
        exec.note_spilled(plan, Role::Group, records.size());
        let mut records = records.finish(states)?;
        let mut group = SpilledGroup::new(plan);
        let mut destination = if is_ordered {
            Destination::Sorter(GroupResults::new())
        } else {
            Destination::Consumer {
                read,
                arena: Bump::new(),
                consume,
            }
        };
        let (mut count, since) = (0, exec.begin_part());
        let mut wants_more = true;
        while wants_more && records.advance()? {
            let (key, record) = records.record();
            if count == 0 || group.key != key {
                if count > 0 {
                    wants_more = group.finish(plan, &mut destination, exec)?;
                }
                count += 1;
                group.begin(key, record, plan, states)?;
            }
            group.add_record(record, plan, &self.calls, exec)?;
        }
        records.close(states);
        if count > 0 && wants_more {
            group.finish(plan, &mut destination, exec)?;
        }
        exec.end_part(plan, Role::Group, 0, count, since);
        match destination {
            Destination::Sorter(results) => results.send(plan, read, exec, consume).map(|_| ()),
            Destination::Consumer { .. } => Ok(()),
        }
    }
}

/// The destination of finished groups.
enum Destination<'t, 'c> {
    /// Sorts them by their first rows.
    Sorter(GroupResults),
    Consumer {
        read: &'t InputColumns,
        arena: Bump,
        consume: &'t mut Consumer<'c>,
    },
}

/// The spilled group that is being aggregated.
struct SpilledGroup {
    key: Vec<u8>,
    /// Number of its first record.
    number: [u8; 8],
    /// Its first row, serialized as by [`FirstRow::write`].
    first: Vec<u8>,
    accumulators: Vec<Accumulator>,
    /// Scratch buffer.
    results: Vec<Value>,
    /// Bytes charged to the statement before this group.
    charged_before: u64,
}

impl SpilledGroup {
    fn new(plan: &Aggregate) -> SpilledGroup {
        SpilledGroup {
            key: Vec::new(),
            number: [0; 8],
            first: Vec::new(),
            accumulators: plan.calls.iter().map(Accumulator::new).collect(),
            results: Vec::with_capacity(plan.calls.len()),
            charged_before: 0,
        }
    }

    /// Begins a group with its first record.
    fn begin(
        &mut self,
        key: &[u8],
        record: &[u8],
        plan: &Aggregate,
        states: &States,
    ) -> Result<(), SqlError> {
        let (head, row) = record
            .split_first_chunk::<RECORD_HEADER>()
            .ok_or_else(damaged)?;
        let [kind, number @ ..] = *head;
        self.number = number;
        self.key.clear();
        self.key.extend_from_slice(key);
        let (_, values) = row.split_first_chunk::<8>().ok_or_else(damaged)?;
        let mut rest = rowstore::skip(values, plan.first_row_columns.len()).ok_or_else(damaged)?;
        self.first.clear();
        self.first
            .extend_from_slice(row.get(..row.len() - rest.len()).unwrap_or_default());
        self.charged_before = states.used();
        if kind == STATE_RECORD {
            states.hold(rest.len() as u64)?;
            for accumulator in &mut self.accumulators {
                accumulator.read(&mut rest).ok_or_else(damaged)?;
            }
        }
        Ok(())
    }

    /// Adds a record to the group.
    fn add_record(
        &mut self,
        record: &[u8],
        plan: &Aggregate,
        calls: &[AggregateCall],
        exec: &Exec<'_>,
    ) -> ExecResult<()> {
        let Some((ROW_RECORD, _)) = record.split_first().map(|(kind, rest)| (*kind, rest)) else {
            return Ok(());
        };
        let width = calls.iter().map(|call| call.args.len() + call.order.len());
        let width = plan.first_row_columns.len() + width.sum::<usize>();
        let values: Values<'_> =
            values_of(record.get(RECORD_HEADER + 8..).unwrap_or_default(), width);
        let arena = Bump::new();
        let cx = cx_of(exec, &arena);
        let row = [Slot::Values(&values)];
        for (call, accumulator) in calls.iter().zip(&mut self.accumulators) {
            accumulator.add(call, &row, &cx, exec.shared.states)?;
        }
        Ok(())
    }

    /// Passes the group's results on, and removes its rows. Returns whether more groups are wanted.
    fn finish(
        &mut self,
        plan: &Aggregate,
        destination: &mut Destination<'_, '_>,
        exec: &Exec<'_>,
    ) -> ExecResult<bool> {
        let states = exec.shared.states;
        self.results.clear();
        for (call, accumulator) in plan.calls.iter().zip(&mut self.accumulators) {
            let done = std::mem::replace(accumulator, Accumulator::new(call));
            self.results.push(done.finish(call, exec.env)?);
        }
        states.release(states.used().saturating_sub(self.charged_before));
        match destination {
            Destination::Sorter(sorter) => {
                let write_first = |out: &mut Vec<u8>| out.extend_from_slice(&self.first);
                sorter.add(self.number, write_first, &self.results, states)?;
                Ok(true)
            }
            Destination::Consumer {
                read,
                arena,
                consume,
            } => {
                arena.reset();
                let mut rest = self.first.as_slice();
                let present = number(&mut rest).ok_or_else(damaged)?;
                let first = values_of(rest, plan.first_row_columns.len());
                let results: SmallVec<[ValueRef<'_>; 4]> =
                    self.results.iter().map(Value::as_ref).collect();
                let cx = EvalCx {
                    aggregates: &results,
                    ..cx_of(exec, arena)
                };
                let row = read.slots(present, first.iter().copied(), arena);
                consume(row, &cx)
            }
        }
    }
}

impl Groups<'_> {
    /// Starts spilling, because the groups in memory exceed their share.
    #[cold]
    pub(super) fn begin_spilling(&mut self, cx: &EvalCx<'_>, states: &States) -> ExecResult<()> {
        self.is_over_share = false;
        if self.stream {
            return self.write_finished(cx, states);
        }
        if self.spilled_groups.is_some() {
            return Ok(());
        }
        states.count_disk_table();
        let mut spilled = SpilledGroups::new(self.plan);
        if self.states_grow {
            let width = self.plan.calls.len();
            let mut keys: Vec<(&Vec<u8>, usize)> = Vec::with_capacity(self.by_key.len());
            keys.extend(self.by_key.iter().map(|(key, at)| (key, *at)));
            // In the order of their first rows, which determines their numbers.
            sorting::sort_by(&mut keys, sorting::RUN_CHEAP, |a, b| a.1.cmp(&b.1))?;
            for (key, at) in keys {
                let own = self.accumulators.get(at * width..(at + 1) * width);
                if let Some(group) = self.list.get(at) {
                    spilled.add_state(key, &group.first, own.unwrap_or_default(), states)?;
                }
            }
            self.forget(states);
        }
        self.spilled_groups = Some(Box::new(spilled));
        Ok(())
    }

    /// Releases the groups in memory.
    fn forget(&mut self, states: &States) {
        self.list = Vec::new();
        self.accumulators = Vec::new();
        self.by_key.clear();
        self.by_key.shrink_to_fit();
        self.by_values = None;
        self.numbers = None;
        self.rows = super::INTERPRETED_ROWS;
        states.release(self.held.max(self.charged_bytes));
        (self.held, self.charged_bytes) = (0, 0);
    }

    /// Writes the results of completed groups: all but the last one.
    fn write_finished(&mut self, cx: &EvalCx<'_>, states: &States) -> ExecResult<()> {
        let plan = self.plan;
        let Some(finished) = self.list.len().checked_sub(1) else {
            return Ok(());
        };
        let results = match &mut self.spilled_results {
            Some(results) => results,
            none => {
                states.count_disk_table();
                none.insert(GroupResults::new())
            }
        };
        let mut accumulators = self.accumulators.drain(..finished * plan.calls.len());
        let mut values: SmallVec<[Value; 4]> = SmallVec::new();
        for group in self.list.drain(..finished) {
            values.clear();
            for call in &plan.calls {
                if let Some(accumulator) = accumulators.next() {
                    values.push(accumulator.finish(call, cx.env)?);
                }
            }
            results.add(
                self.spilled_result_count.to_be_bytes(),
                |out| group.first.write(out),
                &values,
                states,
            )?;
            self.spilled_result_count += 1;
        }
        drop(accumulators);
        states.release(self.held.max(self.charged_bytes));
        (self.held, self.charged_bytes) = (0, 0);
        if let Some(numbers) = &mut self.numbers {
            numbers.clear_cache();
        }
        Ok(())
    }
}
