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
//! passes its records on at once; any other window buffers a partition ([`partition`]). If the input
//! has the order of the first sort, only the sort keys are computed.
//!
//! ```text
//! record   inputs | non-empty slots (8) | carried columns | aggregates | results of windows ...
//! ```
//!
//! *Partitions by sort key.* Memcomparable sort keys stay with the records of a sort. The keys of a
//! partition and of its peers are beginnings of them ([`SortedKey`]), so that the windows of the pass
//! compare bytes and evaluate nothing. A window after one that buffers partitions, and one whose keys
//! are stored as values, evaluates its keys again; if neither is in the first pass, nor a frame that is
//! computed from a key, its keys are evaluated over the row and are not inputs.
//!
//! *Values stay encoded.* An argument of a function is an input of a record, whose encoding is copied
//! into the result, or decoded where an aggregate or a comparison needs its value.
//!
//! Invariants:
//! 1. A partition is in memory once, or in a temporary file; so are the records of a sort.
//! 2. Frames only move forward within a partition ([`frame`]).
//! 3. Results are added in the order of the plan, after those of aggregates.
//! 4. While the engine shows rows (a fused scan below a sort), no file is written.
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
use super::record_sort::KeyOrder;
use super::rows::{self, Demand};
use super::rowstore::{self, values_of};
use super::sort::SortKeys;
use super::spill::sorter::Sorter;
use super::state::States;
use super::{Exec, ExecResult};
use crate::bind::OrderKey;
use crate::bind::window::{FrameBound, Window as BoundWindow, WindowCall};
use crate::error::SqlError;
use crate::expr::eval::{EvalCx, Slot, eval};
use crate::expr::{Expr, ExprKind, Load};
use crate::plan::QueryPlan;
use crate::plan::physical::{Window, WindowPass};
use bumpalo::Bump;
use calls::Evaluator;
use frame::Frames;
use partition::{Cursor, Partition};
use porpoise_base::interrupt::Pacer;
use porpoise_types::ValueRef;
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
        self.on_row(&[Slot::Values(&values)], evaluate)
    }

    /// Evaluates over a row.
    fn on_row<T>(
        &self,
        row: &[Slot<'_>],
        evaluate: impl FnOnce(&[Slot<'_>], &EvalCx<'_>) -> ExecResult<T>,
    ) -> ExecResult<T> {
        let arena = Bump::new();
        let cx = EvalCx {
            arena: &arena,
            aggregates: &[],
            ..*self.cx
        };
        evaluate(row, &cx)
    }
}

/// The input of a record that an expression reads; expressions over records are columns.
fn input_of(e: &Expr) -> usize {
    match e.kind {
        ExprKind::Column { column, .. } => column,
        _ => usize::MAX,
    }
}

/// The value of an input of a record.
fn input(record: &[u8], input: usize) -> ValueRef<'_> {
    rowstore::nth(record, input).unwrap_or(ValueRef::Null)
}

/// The memcomparable sort key of a record, and the ends of its beginnings that the windows of the
/// pass compare: numbers of four bytes.
#[derive(Clone, Copy)]
struct SortedKey<'k> {
    key: &'k [u8],
    ends: &'k [u8],
}

impl<'k> SortedKey<'k> {
    /// Splits a record of a sort into its ends, of which there are `cuts`, and the record.
    fn split(key: &'k [u8], value: &'k [u8], cuts: usize) -> (SortedKey<'k>, &'k [u8]) {
        let (ends, record) = value.split_at_checked(4 * cuts).unwrap_or_default();
        (SortedKey { key, ends }, record)
    }

    /// The beginning of the key up to the cut of this number.
    fn up_to(&self, cut: usize) -> &'k [u8] {
        let end = self.ends.get(4 * cut..).and_then(<[u8]>::first_chunk);
        let end = end.map_or(0, |end| u32::from_le_bytes(*end) as usize);
        self.key.get(..end).unwrap_or(self.key)
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
    /// Whether the keys of the first sort are evaluated over rows, not over records.
    sorts_rows: bool,
    passes: Vec<Pass<'p>>,
}

struct Pass<'p> {
    sort: Vec<OrderKey>,
    /// Whether records come in the order of the sort.
    is_presorted: bool,
    /// Numbers of leading sort keys that windows compare, ascending.
    cuts: Vec<usize>,
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
        let sorts_rows = operator.passes.first().is_some_and(compares_only_keys);
        let mut passes = Vec::with_capacity(operator.passes.len());
        for (at, pass) in operator.passes.iter().enumerate() {
            let keys = pass.sort.iter().map(|key| OrderKey {
                expr: if at == 0 && sorts_rows {
                    key.expr.clone()
                } else {
                    column(&key.expr)
                },
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
            let keys = windows.iter().flat_map(Over::cuts);
            let mut cuts: Vec<usize> = keys.collect();
            cuts.sort_unstable();
            cuts.dedup();
            passes.push(Pass {
                sort,
                is_presorted: pass.is_presorted,
                cuts,
                windows,
            });
        }
        Layout {
            inputs,
            sorts_rows,
            passes,
        }
    }
}

/// Whether the windows of a pass need its sort keys only as bytes.
fn compares_only_keys(pass: &WindowPass) -> bool {
    let is_computed =
        |bound: &FrameBound| matches!(bound, FrameBound::Offset { limit: Some(_), .. });
    let mut frames = pass.windows.iter().map(|planned| &planned.window.frame);
    let behind_buffers = pass.windows.iter().rev().skip(1).any(|w| !w.streams());
    !pass.sort.is_empty()
        && SortKeys::new(&pass.sort).are_memcomparable()
        && !behind_buffers
        && !frames.any(|f| is_computed(&f.start) || is_computed(&f.end))
}

impl Over<'_> {
    /// Numbers of leading sort keys that are equal within a partition, and among peers.
    fn cuts(&self) -> [usize; 2] {
        let partition = self.partition.len();
        [partition, partition + self.order.len()]
    }
}

/// A step on the way of the records.
enum Stage<'p> {
    /// Computes the sort keys of records that come in the order of the sort.
    Keys(Box<KeyEncoder<'p>>),
    Sort(Box<SortStage<'p>>),
    Over(Box<OverStage<'p>>),
}

/// Encodes the sort keys of a pass.
struct KeyEncoder<'p> {
    keys: SortKeys<'p>,
    /// As in [`Pass`]; empty if keys are not memcomparable.
    cuts: &'p [usize],
    key: Vec<u8>,
    /// Scratch buffer: the ends of the cuts, four bytes each.
    ends: Vec<u8>,
}

struct SortStage<'p> {
    encoder: KeyEncoder<'p>,
    sorter: Sorter<SortKeys<'p>>,
    /// Scratch buffer: the ends of the cuts, and the record.
    value: Vec<u8>,
}

/// A window, and the partition that it is in.
struct OverStage<'p> {
    partition_keys: SortKeys<'p>,
    order_keys: SortKeys<'p>,
    /// Positions among the cuts of its sort: of the partition, and of the peers.
    cuts: [usize; 2],
    /// The keys of the last row: of its partition, and of its peers within it.
    last: (Vec<u8>, Vec<u8>),
    has_last: bool,
    /// Scratch buffers for the keys of the current row.
    key: (Vec<u8>, Vec<u8>),
    streams: bool,
    ordered: bool,
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

/// The consumer of rows, after the last stage.
struct Output<'o, 'c> {
    operator: &'o Window,
    read: InputColumns,
    inputs: usize,
    /// Number of results of window functions.
    results: usize,
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
        let rest = rowstore::skip(record, self.inputs).ok_or_else(damaged)?;
        let (present, rest) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
        let carried = self.operator.carried.len();
        let values = values_of(rest, carried + self.operator.aggregates + self.results);
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
        self.done = !(self.consume)(row, &cx)?;
        Ok(!self.done)
    }

    fn work<'w>(&'w self, cx: &'w EvalCx<'w>) -> Work<'w> {
        Work {
            cx,
            states: self.states,
            inputs: self.inputs,
        }
    }
}

/// Passes a record on to the first stage, or to the consumer; with its sort key, if the stage
/// belongs to the same pass as a sort before. Returns whether more are wanted.
fn push(
    stages: &mut [Stage<'_>],
    record: &[u8],
    key: Option<SortedKey<'_>>,
    cx: &EvalCx<'_>,
    output: &mut Output<'_, '_>,
) -> ExecResult<bool> {
    match stages.split_first_mut() {
        None => output.send(record, cx),
        Some((Stage::Keys(encoder), rest)) => {
            let key = encoder.of_record(record)?;
            push(rest, record, key, cx, output)
        }
        Some((Stage::Sort(sort), _)) => {
            sort.push(record, output.work(cx))?;
            Ok(true)
        }
        Some((Stage::Over(over), rest)) => over.push(record, key, rest, cx, output),
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
            Stage::Keys(_) => SpillSize::default(),
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

impl<'p> KeyEncoder<'p> {
    fn new(pass: &'p Pass<'p>) -> KeyEncoder<'p> {
        let keys = SortKeys::new(&pass.sort);
        KeyEncoder {
            keys,
            cuts: if keys.are_memcomparable() {
                &pass.cuts
            } else {
                &[]
            },
            key: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Encodes memcomparable keys.
    fn encode<'v>(
        &mut self,
        mut value_of: impl FnMut(&'p OrderKey) -> ExecResult<ValueRef<'v>>,
    ) -> ExecResult<SortedKey<'_>> {
        let KeyEncoder {
            keys,
            cuts,
            key,
            ends,
        } = self;
        key.clear();
        ends.clear();
        let mut cuts = cuts.iter().peekable();
        let mut note_cut = |appended: usize, key: &[u8]| {
            if cuts.next_if(|cut| **cut == appended).is_some() {
                let end = u32::try_from(key.len()).unwrap_or(u32::MAX);
                ends.extend_from_slice(&end.to_le_bytes());
            }
        };
        note_cut(0, key);
        for (at, own) in keys.keys().iter().enumerate() {
            keys.append_value(at, value_of(own)?, key);
            note_cut(at + 1, key);
        }
        Ok(SortedKey { key, ends })
    }

    /// Encodes the keys of a record from its inputs; `None` if they are not memcomparable.
    fn of_record(&mut self, record: &[u8]) -> ExecResult<Option<SortedKey<'_>>> {
        if !self.keys.are_memcomparable() {
            return Ok(None);
        }
        self.encode(|own| Ok(input(record, input_of(&own.expr))))
            .map(Some)
    }
}

impl<'p> SortStage<'p> {
    fn new(pass: &'p Pass<'p>) -> SortStage<'p> {
        let encoder = KeyEncoder::new(pass);
        SortStage {
            sorter: Sorter::new(encoder.keys),
            encoder,
            value: Vec::new(),
        }
    }

    /// Takes the next record.
    fn push(&mut self, record: &[u8], work: Work<'_>) -> ExecResult<()> {
        let SortStage {
            encoder,
            sorter,
            value,
        } = self;
        if let Some(sorted) = encoder.of_record(record)? {
            return SortStage::add(sorter, value, sorted, record, work.states);
        }
        let KeyEncoder { keys, key, .. } = encoder;
        key.clear();
        work.on(record, |row, cx| keys.append(row, cx, key))?;
        Ok(sorter.add(key, record, work.states)?)
    }

    /// Takes the next record with the values of its memcomparable keys.
    fn push_with<'v>(
        &mut self,
        record: &[u8],
        value_of: impl FnMut(&'p OrderKey) -> ExecResult<ValueRef<'v>>,
        states: &States,
    ) -> ExecResult<()> {
        let sorted = self.encoder.encode(value_of)?;
        SortStage::add(&mut self.sorter, &mut self.value, sorted, record, states)
    }

    fn add(
        sorter: &mut Sorter<SortKeys<'p>>,
        value: &mut Vec<u8>,
        sorted: SortedKey<'_>,
        record: &[u8],
        states: &States,
    ) -> ExecResult<()> {
        value.clear();
        value.extend_from_slice(sorted.ends);
        value.extend_from_slice(record);
        Ok(sorter.add(sorted.key, value, states)?)
    }

    /// Passes the sorted records on. Returns number and bytes of the runs in files.
    fn finish(
        &mut self,
        rest: &mut [Stage<'_>],
        cx: &EvalCx<'_>,
        output: &mut Output<'_, '_>,
    ) -> ExecResult<SpillSize> {
        let states = output.states;
        let (keys, cuts) = (self.encoder.keys, self.encoder.cuts);
        let sorter = std::mem::replace(&mut self.sorter, Sorter::new(keys));
        let size = sorter.size();
        let mut sorted = sorter.finish(states)?;
        let is_memcomparable = keys.are_memcomparable();
        while !output.done && sorted.advance()? {
            let (key, value) = sorted.record();
            let (key, record) = SortedKey::split(key, value, cuts.len());
            if !push(rest, record, is_memcomparable.then_some(key), cx, output)? {
                break;
            }
        }
        sorted.close(states);
        Ok(size)
    }
}

impl<'p> OverStage<'p> {
    fn new(over: &'p Over<'p>, cuts: &[usize], cx: &EvalCx<'_>) -> ExecResult<OverStage<'p>> {
        let position = |cut: usize| cuts.iter().position(|known| *known == cut);
        let calls = over.calls.iter();
        let frame = &over.window.frame;
        let evaluators = calls.map(|call| Evaluator::new(call, frame, cx));
        Ok(OverStage {
            partition_keys: SortKeys::new(&over.partition),
            order_keys: SortKeys::new(&over.order),
            cuts: over.cuts().map(|cut| position(cut).unwrap_or(0)),
            last: Default::default(),
            has_last: false,
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
        key: Option<SortedKey<'_>>,
        rest: &mut [Stage<'_>],
        cx: &EvalCx<'_>,
        output: &mut Output<'_, '_>,
    ) -> ExecResult<bool> {
        let (is_new, is_peer) = match key {
            Some(key) => self.compare_sorted(key),
            None => self.compare_evaluated(record, output.work(cx))?,
        };
        if is_new && !self.end_partition(rest, cx, output)? {
            return Ok(false);
        }
        if self.streams {
            return self.stream(record, is_peer, key, rest, cx, output);
        }
        self.rows.add(record, !is_peer, output.states)?;
        Ok(true)
    }

    /// Compares a sort key with that of the last row, and keeps it. Returns whether the row starts a
    /// partition, and whether it is a peer of the last one.
    fn compare_sorted(&mut self, key: SortedKey<'_>) -> (bool, bool) {
        let [partition, peers] = self.cuts.map(|cut| key.up_to(cut));
        let order = peers.get(partition.len()..).unwrap_or_default();
        let (last_partition, last_order) = &mut self.last;
        let is_new = last_partition != partition || !self.has_last;
        let is_peer = !is_new && last_order == order;
        if is_new {
            last_partition.clear();
            last_partition.extend_from_slice(partition);
        }
        if !is_peer {
            last_order.clear();
            last_order.extend_from_slice(order);
        }
        self.has_last = true;
        (is_new, is_peer)
    }

    /// As [`OverStage::compare_sorted`], by keys that are evaluated over the record.
    fn compare_evaluated(&mut self, record: &[u8], work: Work<'_>) -> ExecResult<(bool, bool)> {
        let (partition_keys, order_keys) = (self.partition_keys, self.order_keys);
        let (partition, order) = &mut self.key;
        partition.clear();
        order.clear();
        work.on(record, |row, cx| {
            partition_keys.append(row, cx, partition)?;
            order_keys.append(row, cx, order)
        })?;
        let (last_partition, last_order) = &self.last;
        let is_new = !self.has_last || partition_keys.compare(last_partition, partition).is_ne();
        let is_peer = !is_new && order_keys.compare(last_order, order).is_eq();
        std::mem::swap(&mut self.last, &mut self.key);
        self.has_last = true;
        Ok((is_new, is_peer))
    }

    /// Passes a record on with results that depend only on the rows before it.
    fn stream(
        &mut self,
        record: &[u8],
        is_peer: bool,
        key: Option<SortedKey<'_>>,
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
            evaluator.stream(row, record, output.work(cx), &mut self.record)?;
        }
        push(rest, &self.record, key, cx, output)
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
            let (record, is_first_peer) = self.current.flagged_row(&self.rows, at)?;
            let row = &mut self.row;
            row.at = at;
            if is_first_peer {
                row.dense += 1;
                row.peers = at..if self.ordered {
                    next_peers(&self.rows, &mut self.ahead, at)?
                } else {
                    count
                };
            }
            if framed && (is_first_peer || !self.frames.are_shared_by_peers()) {
                row.frame = self.frames.of(at, record, &row.peers, &self.rows, work)?;
            }
            self.record.clear();
            self.record.extend_from_slice(record);
            for evaluator in &mut self.evaluators {
                evaluator.write(row, &self.rows, record, work, &mut self.record)?;
            }
            if !push(rest, &self.record, None, cx, output)? {
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

/// The end of the peers that start with a row.
fn next_peers(rows: &Partition, ahead: &mut Cursor, start: usize) -> Result<usize, SqlError> {
    for at in start + 1..rows.len() {
        if ahead.flagged_row(rows, at)?.1 {
            return Ok(at);
        }
    }
    Ok(rows.len())
}

fn stages<'p>(layout: &'p Layout<'p>, cx: &EvalCx<'_>) -> ExecResult<Vec<Stage<'p>>> {
    let mut stages = Vec::new();
    for pass in &layout.passes {
        if pass.is_presorted {
            stages.push(Stage::Keys(Box::new(KeyEncoder::new(pass))));
        } else if !pass.sort.is_empty() {
            stages.push(Stage::Sort(Box::new(SortStage::new(pass))));
        }
        for over in &pass.windows {
            stages.push(Stage::Over(Box::new(OverStage::new(over, &pass.cuts, cx)?)));
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
    let arena = Bump::new();
    let mut stages = stages(&layout, &cx_of(exec, &arena))?;
    let calls = operator.passes.iter().flat_map(|pass| &pass.windows);
    let since = exec.begin_part();
    let mut output = Output {
        operator,
        read: InputColumns::of(&operator.carried, plan.sources.len()),
        inputs: layout.inputs.len(),
        results: calls.map(|window| window.calls.len()).sum(),
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
            rowstore::write(value.unwrap_or(ValueRef::Null), &mut record);
        }
        match stages.split_first_mut() {
            Some((Stage::Sort(sort), _)) if layout.sorts_rows => {
                sort.push_with(&record, |key| Ok(eval(&key.expr, row, cx)?), output.states)?;
                Ok(true)
            }
            Some((Stage::Keys(encoder), rest)) if layout.sorts_rows => {
                let key = encoder.encode(|key| Ok(eval(&key.expr, row, cx)?))?;
                push(rest, &record, Some(key), cx, &mut output)
            }
            _ => push(&mut stages, &record, None, cx, &mut output),
        }
    };
    rows::run(plan, &operator.input, Demand::ALL, exec, &mut add)?;
    let spilled = finish(&mut stages, &cx_of(exec, &arena), &mut output)?;
    let rows = output.rows;
    exec.note_spilled(operator, Role::Group, spilled);
    exec.end_part(operator, Role::Group, 1, rows, since);
    Ok(())
}
