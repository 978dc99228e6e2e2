//! Window functions (manual, "Window Functions").
//!
//! ```text
//!  RANK() OVER (PARTITION BY a ORDER BY b), SUM(x) OVER (PARTITION BY a), LAG(x) OVER (ORDER BY c)
//!
//!  row -> record -> sort a, b -> RANK, by rows -> SUM, by partitions -> sort c -> LAG -> row
//! ```
//!
//! A row becomes a record: the values that the windows read (sort keys and arguments, evaluated
//! when the row arrives), the columns that expressions above read, and the results of aggregation.
//! Records go through stages: a sort for each pass of the plan, and one stage for each window,
//! which adds the results of its functions. A window whose results depend only on the rows before
//! passes its records on at once; any other window buffers a partition ([`partition`]).
//!
//! ```text
//! record   inputs | non-empty slots (8) | carried columns | aggregates | results of windows ...
//! ```
//!
//! Invariants:
//! 1. A partition is in memory once, or in a temporary file; so are the records of a sort.
//! 2. Frames only move forward within a partition ([`frame`]).
//! 3. Results are added in the order of the plan, behind those of aggregates.
//!
//! Rejected: a sort that also finds the partitions by hash (every window with an order needs the
//! sort anyway), and segment trees for moving frames (an aggregate that cannot remove rows is
//! computed again for each frame, as in MySQL).

mod calls;
mod frame;
mod partition;

use super::aggregate::InputColumns;
use super::join::Consumer;
use super::profile::{Role, SpillSize};
use super::query::cx_of;
use super::rows::{self, Demand};
use super::rowstore::{self, values_of};
use super::sort::SortKeys;
use super::spill::sorter::Sorter;
use super::state::States;
use super::{Exec, ExecResult};
use crate::bind::OrderKey;
use crate::bind::window::{Window as BoundWindow, WindowCall};
use crate::error::SqlError;
use crate::expr::eval::{EvalCx, Slot, eval};
use crate::expr::{Expr, ExprKind, Load};
use crate::plan::QueryPlan;
use crate::plan::physical::Window;
use bumpalo::Bump;
use calls::Evaluator;
use frame::Frames;
use partition::{Cursor, Partition};
use porpoise_base::interrupt::Pacer;
use porpoise_types::Value;
use std::cmp::Ordering;
use std::ops::Range;

/// Context of the evaluation of expressions over records.
#[derive(Clone, Copy)]
struct Work<'w> {
    cx: &'w EvalCx<'w>,
    states: &'w States,
    /// Number of values at the start of a record that windows read.
    inputs: usize,
}

impl Work<'_> {
    /// Evaluates over the inputs of a record.
    fn on<T>(
        &self,
        record: &[u8],
        evaluate: impl FnOnce(&[Slot<'_>], &EvalCx<'_>) -> ExecResult<T>,
    ) -> ExecResult<T> {
        let values = values_of(record, self.inputs);
        let arena = Bump::new();
        let cx = EvalCx {
            arena: &arena,
            aggregates: &[],
            ..*self.cx
        };
        evaluate(&[Slot::Values(&values)], &cx)
    }

    /// The value of an expression over a record.
    fn value(&self, record: &[u8], e: &Expr) -> ExecResult<Value> {
        self.on(record, |row, cx| Ok(eval(e, row, cx)?.to_owned()))
    }
}

/// A row's position in its partition.
struct RowAt {
    /// Number of rows of the partition before it.
    at: usize,
    /// Number of rows of the partition.
    count: usize,
    /// The rows that are equal in the window's order.
    peers: Range<usize>,
    /// Number of groups of peers up to this row.
    dense: u64,
    frame: Range<usize>,
}

/// The plan over records: expressions are columns of a record.
struct Layout<'p> {
    /// The values that a record starts with.
    inputs: Vec<&'p Expr>,
    passes: Vec<Pass<'p>>,
}

struct Pass<'p> {
    sort: Vec<OrderKey>,
    windows: Vec<Over<'p>>,
}

/// A window over records.
struct Over<'p> {
    window: &'p BoundWindow,
    partition: Vec<OrderKey>,
    order: Vec<OrderKey>,
    calls: Vec<WindowCall>,
    streams: bool,
}

impl<'p> Layout<'p> {
    fn of(operator: &'p Window) -> Layout<'p> {
        let mut inputs: Vec<&'p Expr> = Vec::new();
        let mut column = |e: &'p Expr| {
            inputs.push(e);
            Expr {
                kind: ExprKind::Column {
                    slot: 0,
                    column: inputs.len() - 1,
                    load: Load::Plain,
                },
                ty: e.ty.clone(),
                nullable: e.nullable,
                coercibility: e.coercibility,
            }
        };
        let mut passes = Vec::with_capacity(operator.passes.len());
        for pass in &operator.passes {
            let keys = pass.sort.iter().map(|key| OrderKey {
                expr: column(&key.expr),
                desc: key.desc,
            });
            let sort: Vec<OrderKey> = keys.collect();
            let mut windows = Vec::with_capacity(pass.windows.len());
            for planned in &pass.windows {
                let (partition, order) = (&planned.window.partition, &planned.window.order);
                let (partition, rest) = sort.split_at_checked(partition.len()).unwrap_or_default();
                let mut calls = planned.calls.clone();
                for (call, own) in calls.iter_mut().zip(&planned.calls) {
                    let args = call.function.args_mut().zip(own.function.args());
                    args.for_each(|(arg, own)| *arg = column(own));
                }
                windows.push(Over {
                    window: &planned.window,
                    partition: partition.to_vec(),
                    order: rest.get(..order.len()).unwrap_or(rest).to_vec(),
                    calls,
                    streams: planned.streams(),
                });
            }
            passes.push(Pass { sort, windows });
        }
        Layout { inputs, passes }
    }
}

/// Compares sort keys of records.
type Compare<'p> = dyn Fn(&[u8], &[u8]) -> Ordering + 'p;

/// A step on the way of the records.
enum Stage<'p> {
    Sort(Box<SortStage<'p>>),
    Over(Box<OverStage<'p>>),
}

struct SortStage<'p> {
    keys: SortKeys<'p>,
    compare: &'p Compare<'p>,
    sorter: Sorter<&'p Compare<'p>>,
    key: Vec<u8>,
}

/// A window, and the partition that it is in.
struct OverStage<'p> {
    partition_keys: SortKeys<'p>,
    order_keys: SortKeys<'p>,
    /// The keys of the last row; `None` before the first one.
    last: Option<(Vec<u8>, Vec<u8>)>,
    /// Scratch buffers for the keys of the current row.
    key: (Vec<u8>, Vec<u8>),
    streams: bool,
    ordered: bool,
    /// The partition's rows: the record, then a byte that is 1 for the first of its peers.
    rows: Partition,
    current: Cursor,
    ahead: Cursor,
    /// Position of the last row; when rows are streamed.
    row: RowAt,
    frames: Frames<'p>,
    evaluators: Vec<Evaluator<'p>>,
    /// Scratch buffer for records.
    record: Vec<u8>,
    /// Partitions that were written to files.
    spilled: SpillSize,
}

/// The consumer of rows, behind the last stage.
struct Output<'o, 'c> {
    operator: &'o Window,
    read: InputColumns,
    inputs: usize,
    states: &'o States,
    arena: Bump,
    consume: &'o mut Consumer<'c>,
    /// Number of rows sent.
    rows: u64,
    /// Whether the consumer wants no more.
    done: bool,
    pacer: Pacer,
}

fn damaged() -> SqlError {
    SqlError::internal("a record of a window cannot be read")
}

impl Output<'_, '_> {
    /// Sends the row of a record.
    fn send(&mut self, record: &[u8], cx: &EvalCx<'_>) -> ExecResult<bool> {
        self.pacer.tick()?;
        self.arena.reset();
        let mut rest = record;
        for _ in 0..self.inputs {
            rowstore::read(&mut rest).ok_or_else(damaged)?;
        }
        let (present, rest) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
        let calls = self.operator.passes.iter().flat_map(|pass| &pass.windows);
        let results = calls.map(|window| window.calls.len()).sum::<usize>();
        let carried = self.operator.carried.len();
        let values = values_of(rest, carried + self.operator.aggregates + results);
        let (carried, results) = values.split_at_checked(carried).ok_or_else(damaged)?;
        let present = u64::from_be_bytes(*present);
        let row = self
            .read
            .slots(present, carried.iter().copied(), &self.arena);
        let cx = EvalCx {
            arena: &self.arena,
            aggregates: results,
            ..*cx
        };
        self.rows += 1;
        self.done = !(self.consume)(&row, &cx)?;
        Ok(!self.done)
    }
}

/// Passes a record on to the first stage, or to the consumer. Returns whether more are wanted.
fn push(
    stages: &mut [Stage<'_>],
    record: &[u8],
    cx: &EvalCx<'_>,
    output: &mut Output<'_, '_>,
) -> ExecResult<bool> {
    match stages.split_first_mut() {
        None => output.send(record, cx),
        Some((Stage::Sort(sort), _)) => {
            let work = output.work(cx);
            sort.key.clear();
            let (keys, key) = (sort.keys, &mut sort.key);
            work.on(record, |row, cx| keys.append(row, cx, key))?;
            sort.sorter.add(&sort.key, record, output.states)?;
            Ok(true)
        }
        Some((Stage::Over(over), rest)) => over.push(record, rest, cx, output),
    }
}

/// Ends the input of all stages. Returns what they have written to files.
fn finish(
    stages: &mut [Stage<'_>],
    cx: &EvalCx<'_>,
    output: &mut Output<'_, '_>,
) -> ExecResult<SpillSize> {
    let mut spilled = SpillSize::default();
    let mut stages = stages;
    while let Some((stage, rest)) = std::mem::take(&mut stages).split_first_mut() {
        let own = match stage {
            Stage::Sort(sort) => sort.finish(rest, cx, output)?,
            Stage::Over(over) => {
                if !output.done {
                    over.end_partition(rest, cx, output)?;
                }
                over.spilled
            }
        };
        spilled += own;
        stages = rest;
    }
    Ok(spilled)
}

impl Output<'_, '_> {
    fn work<'w>(&'w self, cx: &'w EvalCx<'w>) -> Work<'w> {
        Work {
            cx,
            states: self.states,
            inputs: self.inputs,
        }
    }
}

impl SortStage<'_> {
    /// Passes the sorted records on. Returns number and bytes of the runs in files.
    fn finish(
        &mut self,
        rest: &mut [Stage<'_>],
        cx: &EvalCx<'_>,
        output: &mut Output<'_, '_>,
    ) -> ExecResult<SpillSize> {
        let states = output.states;
        let sorter = std::mem::replace(&mut self.sorter, Sorter::new(self.compare));
        let size = sorter.size();
        let mut sorted = sorter.finish(states)?;
        while !output.done && sorted.advance()? {
            if !push(rest, sorted.record().1, cx, output)? {
                break;
            }
        }
        sorted.close(states);
        Ok(size)
    }
}

impl<'p> OverStage<'p> {
    fn new(over: &'p Over<'p>, cx: &EvalCx<'_>) -> ExecResult<OverStage<'p>> {
        let calls = over.calls.iter();
        let frame = &over.window.frame;
        let evaluators = calls.map(|call| Evaluator::new(call, frame, cx));
        Ok(OverStage {
            partition_keys: SortKeys::new(&over.partition),
            order_keys: SortKeys::new(&over.order),
            last: None,
            key: Default::default(),
            streams: over.streams,
            ordered: !over.order.is_empty(),
            rows: Partition::default(),
            current: Cursor::default(),
            ahead: Cursor::default(),
            row: RowAt::first(0),
            frames: Frames::new(over.window, &over.order, cx)?,
            evaluators: evaluators.collect::<ExecResult<_>>()?,
            record: Vec::new(),
            spilled: SpillSize::default(),
        })
    }

    /// Takes the next record.
    fn push(
        &mut self,
        record: &[u8],
        rest: &mut [Stage<'_>],
        cx: &EvalCx<'_>,
        output: &mut Output<'_, '_>,
    ) -> ExecResult<bool> {
        let work = output.work(cx);
        let (partition_keys, order_keys) = (self.partition_keys, self.order_keys);
        let (partition, order) = &mut self.key;
        partition.clear();
        order.clear();
        work.on(record, |row, cx| {
            partition_keys.append(row, cx, partition)?;
            order_keys.append(row, cx, order)
        })?;
        let (mut is_new, mut is_peer) = (true, false);
        if let Some((last_partition, last_order)) = &self.last {
            is_new = partition_keys.compare(last_partition, partition).is_ne();
            is_peer = !is_new && order_keys.compare(last_order, order).is_eq();
        }
        if is_new && !self.end_partition(rest, cx, output)? {
            return Ok(false);
        }
        let last = self.last.get_or_insert_default();
        std::mem::swap(last, &mut self.key);
        if self.streams {
            return self.stream(record, is_peer, rest, cx, output);
        }
        self.record.clear();
        self.record.extend_from_slice(record);
        self.record.push(u8::from(!is_peer));
        self.rows.add(&self.record, output.states)?;
        Ok(true)
    }

    /// Passes a record on with results that depend only on the rows before it.
    fn stream(
        &mut self,
        record: &[u8],
        is_peer: bool,
        rest: &mut [Stage<'_>],
        cx: &EvalCx<'_>,
        output: &mut Output<'_, '_>,
    ) -> ExecResult<bool> {
        let row = &mut self.row;
        row.at = row.count;
        row.count += 1;
        if !is_peer {
            row.dense += 1;
            row.peers.start = row.at;
        }
        self.record.clear();
        self.record.extend_from_slice(record);
        for evaluator in &mut self.evaluators {
            let value = evaluator.stream(row, record, output.work(cx))?;
            rowstore::write(value.as_ref(), &mut self.record);
        }
        push(rest, &self.record, cx, output)
    }

    /// Computes the results of the buffered partition and passes its records on. Returns whether
    /// more are wanted.
    fn end_partition(
        &mut self,
        rest: &mut [Stage<'_>],
        cx: &EvalCx<'_>,
        output: &mut Output<'_, '_>,
    ) -> ExecResult<bool> {
        let bytes = self.rows.finish()?;
        self.spilled.runs += u64::from(bytes > 0);
        self.spilled.bytes += bytes;
        let count = self.rows.len();
        self.row = RowAt::first(if self.streams { 0 } else { count });
        let framed = self.evaluators.iter().any(Evaluator::has_frame);
        let mut wants_more = true;
        for at in 0..count {
            let work = output.work(cx);
            let (flag, record) = flagged(self.current.row(&self.rows, at)?);
            let row = &mut self.row;
            row.at = at;
            if flag {
                row.dense += 1;
                row.peers = at..if self.ordered {
                    next_peers(&self.rows, &mut self.ahead, at)?
                } else {
                    count
                };
            }
            if framed {
                row.frame = self.frames.of(at, record, &row.peers, &self.rows, work)?;
            }
            self.record.clear();
            self.record.extend_from_slice(record);
            for evaluator in &mut self.evaluators {
                let value = evaluator.value(row, &self.rows, record, work)?;
                rowstore::write(value.as_ref(), &mut self.record);
            }
            if !push(rest, &self.record, cx, output)? {
                wants_more = false;
                break;
            }
        }
        self.reset(output.states);
        Ok(wants_more)
    }

    /// Starts another partition.
    fn reset(&mut self, states: &States) {
        self.current.reset();
        self.ahead.reset();
        self.frames.reset();
        self.rows.clear(states);
        for evaluator in &mut self.evaluators {
            evaluator.reset(states);
        }
    }
}

impl RowAt {
    /// Before the first row.
    fn first(count: usize) -> RowAt {
        RowAt {
            at: 0,
            count,
            peers: 0..0,
            dense: 0,
            frame: 0..0,
        }
    }
}

/// Whether a buffered record is the first of its peers, and the record.
fn flagged(buffered: &[u8]) -> (bool, &[u8]) {
    match buffered.split_last() {
        Some((flag, record)) => (*flag != 0, record),
        None => (false, &[]),
    }
}

/// The end of the peers that start with a row.
fn next_peers(rows: &Partition, ahead: &mut Cursor, start: usize) -> Result<usize, SqlError> {
    for at in start + 1..rows.len() {
        if flagged(ahead.row(rows, at)?).0 {
            return Ok(at);
        }
    }
    Ok(rows.len())
}

fn stages<'p>(
    layout: &'p Layout<'p>,
    compares: &'p [Box<Compare<'p>>],
    cx: &EvalCx<'_>,
) -> ExecResult<Vec<Stage<'p>>> {
    let mut stages = Vec::new();
    for (pass, compare) in layout.passes.iter().zip(compares) {
        if !pass.sort.is_empty() {
            let compare: &'p Compare<'p> = compare.as_ref();
            stages.push(Stage::Sort(Box::new(SortStage {
                keys: SortKeys::new(&pass.sort),
                compare,
                sorter: Sorter::new(compare),
                key: Vec::new(),
            })));
        }
        for over in &pass.windows {
            stages.push(Stage::Over(Box::new(OverStage::new(over, cx)?)));
        }
    }
    Ok(stages)
}

/// Computes the window functions of the input's rows and pushes them.
pub(super) fn run(
    plan: &QueryPlan,
    operator: &Window,
    exec: &mut Exec<'_>,
    consume: &mut Consumer<'_>,
) -> ExecResult<()> {
    let layout = Layout::of(operator);
    let compares = layout.passes.iter().map(|pass| {
        let keys = SortKeys::new(&pass.sort);
        let compare: Box<Compare<'_>> = Box::new(move |a, b| keys.compare(a, b));
        compare
    });
    let compares: Vec<Box<Compare<'_>>> = compares.collect();
    let arena = Bump::new();
    let mut stages = stages(&layout, &compares, &cx_of(exec, &arena))?;
    let since = exec.begin_part();
    let mut output = Output {
        operator,
        read: InputColumns::of(&operator.carried, plan.sources.len()),
        inputs: layout.inputs.len(),
        states: exec.shared.states,
        arena: Bump::new(),
        consume,
        rows: 0,
        done: false,
        pacer: Pacer::new(),
    };
    let mut record = Vec::new();
    let mut add = |row: &[Slot<'_>], cx: &EvalCx<'_>| -> ExecResult<bool> {
        record.clear();
        for e in &layout.inputs {
            rowstore::write(eval(e, row, cx)?, &mut record);
        }
        output.read.write(row, &mut record);
        for at in 0..operator.aggregates {
            let value = cx.aggregates.get(at).copied();
            rowstore::write(value.unwrap_or(porpoise_types::ValueRef::Null), &mut record);
        }
        push(&mut stages, &record, cx, &mut output)
    };
    rows::run(plan, &operator.input, Demand::ALL, exec, &mut add)?;
    let spilled = finish(&mut stages, &cx_of(exec, &arena), &mut output)?;
    let rows = output.rows;
    exec.note_spilled(operator, Role::Group, spilled);
    exec.end_part(operator, Role::Group, 1, rows, since);
    Ok(())
}
