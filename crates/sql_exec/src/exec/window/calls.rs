//! Evaluation of window functions: the result of a call for each row of a partition.
//!
//! An aggregate keeps the state of the last frame. For the next one it adds the rows that are new,
//! and removes those that have left it if its state allows that (sums and counts of exact numbers,
//! BIT_XOR); else it is computed again from the new frame. MIN and MAX of frames whose start moves keep
//! the rows that can still become the result (a monotonic queue). A frame that starts with the
//! partition only grows. COUNT(*) is the length of the frame. So all but sums of DOUBLE, deviations, BIT_AND, BIT_OR and JSON documents
//! of moving frames take constant time for each row.

use super::partition::{Cursor, Partition};
use super::{RowAt, Work, input, input_of};
use crate::bind::window::{FrameBound, WindowCall, WindowFrame, WindowFunction};
use crate::bind::{Aggregate, AggregateKind};
use crate::error::SqlError;
use crate::exec::ExecResult;
use crate::exec::aggregate::accumulate::Accumulator;
use crate::exec::aggregate::extreme::replaces_extreme;
use crate::exec::rowstore;
use crate::exec::state::{States, size_of_row};
use crate::expr::eval::{EvalCx, eval};
use crate::expr::{Expr, ExprKind};
use porpoise_base::interrupt::Pacer;
use porpoise_types::{Value, ValueRef};
use std::collections::VecDeque;
use std::ops::Range;

/// The state of a call.
pub(super) enum Evaluator<'p> {
    RowNumber,
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
    /// NTILE.
    Ntile(u64),
    /// LAG and LEAD.
    Offset {
        lead: bool,
        number: usize,
        value: Reader,
        /// The input that is the result where there is no such row.
        default: Option<usize>,
    },
    First(Reader),
    Last(Reader),
    Nth {
        number: usize,
        value: Reader,
    },
    /// COUNT(*).
    CountRows,
    Aggregate(Box<Moving<'p>>),
    /// MIN or MAX of frames whose start moves.
    Extreme(Box<Extreme<'p>>),
}

/// Reads an input of rows.
pub(super) struct Reader {
    input: usize,
    cursor: Cursor,
}

impl Reader {
    fn new(e: &Expr) -> Reader {
        Reader {
            input: input_of(e),
            cursor: Cursor::default(),
        }
    }

    /// Appends the value of a row.
    fn write(&mut self, at: usize, partition: &Partition, out: &mut Vec<u8>) -> ExecResult<()> {
        write_input(self.cursor.row(partition, at)?, self.input, out);
        Ok(())
    }
}

/// Appends the value of an input of a record.
fn write_input(record: &[u8], input: usize, out: &mut Vec<u8>) {
    match rowstore::nth_encoded(record, input) {
        Some(value) => out.extend_from_slice(value),
        None => rowstore::write(ValueRef::Null, out),
    }
}

/// The number of NTILE, LAG, LEAD or NTH_VALUE.
fn number_of(call: &WindowCall, least: u64, cx: &EvalCx<'_>) -> ExecResult<Option<u64>> {
    let Some(e) = call.function.number() else {
        return Ok(Some(1));
    };
    let number = match eval(e, &[], cx)? {
        ValueRef::Null => return Ok(None),
        ValueRef::Int(n) => u64::try_from(n).ok(),
        ValueRef::UInt(n) => Some(n),
        _ => None,
    };
    match number.filter(|n| *n >= least && i64::try_from(*n).is_ok()) {
        Some(number) => Ok(Some(number)),
        None => Err(SqlError::wrong_arguments(&call.name).into()),
    }
}

/// Whether the number of a call is a parameter or a user variable.
fn is_variable(call: &WindowCall) -> bool {
    let number = call.function.number();
    number.is_some_and(|e| matches!(e.kind, ExprKind::Param(_) | ExprKind::UserVariable(_)))
}

impl<'p> Evaluator<'p> {
    /// A call whose arguments are columns of a record.
    ///
    /// # Errors
    /// 1210 for a number that is out of range or NULL. Only NTH_VALUE accepts NULL, from a variable.
    pub(super) fn new(
        call: &'p WindowCall,
        frame: &WindowFrame,
        cx: &EvalCx<'_>,
    ) -> ExecResult<Evaluator<'p>> {
        let number = |least| -> ExecResult<usize> {
            let number = number_of(call, least, cx)?;
            let number = number.ok_or_else(|| SqlError::wrong_arguments(&call.name))?;
            Ok(usize::try_from(number).unwrap_or(usize::MAX))
        };
        Ok(match &call.function {
            WindowFunction::RowNumber => Evaluator::RowNumber,
            WindowFunction::Rank => Evaluator::Rank,
            WindowFunction::DenseRank => Evaluator::DenseRank,
            WindowFunction::PercentRank => Evaluator::PercentRank,
            WindowFunction::CumeDist => Evaluator::CumeDist,
            WindowFunction::Ntile(_) => Evaluator::Ntile(number(1)? as u64),
            WindowFunction::Offset {
                lead,
                value,
                default,
                ..
            } => Evaluator::Offset {
                lead: *lead,
                number: number(0)?,
                value: Reader::new(value),
                default: default.as_ref().map(input_of),
            },
            WindowFunction::First(value) => Evaluator::First(Reader::new(value)),
            WindowFunction::Last(value) => Evaluator::Last(Reader::new(value)),
            WindowFunction::Nth { value, .. } => Evaluator::Nth {
                number: if is_variable(call) && number_of(call, 1, cx)?.is_none() {
                    // No frame has so many rows: the result is NULL.
                    usize::MAX
                } else {
                    number(1)?
                },
                value: Reader::new(value),
            },
            WindowFunction::Aggregate(aggregate) if aggregate.kind == AggregateKind::CountRows => {
                Evaluator::CountRows
            }
            WindowFunction::Aggregate(aggregate) => {
                let extreme = matches!(aggregate.kind, AggregateKind::Min | AggregateKind::Max);
                match (extreme, &frame.start) {
                    (false, _) | (true, FrameBound::Unbounded) => {
                        Evaluator::Aggregate(Box::new(Moving::new(aggregate)))
                    }
                    (true, _) => Evaluator::Extreme(Box::new(Extreme::new(aggregate))),
                }
            }
        })
    }

    /// Whether the result depends on the frame.
    pub(super) fn has_frame(&self) -> bool {
        matches!(
            self,
            Evaluator::First(_)
                | Evaluator::Last(_)
                | Evaluator::Nth { .. }
                | Evaluator::CountRows
                | Evaluator::Aggregate(_)
                | Evaluator::Extreme(_)
        )
    }

    /// Starts another partition.
    pub(super) fn reset(&mut self, states: &States) {
        match self {
            Evaluator::Offset { value, .. }
            | Evaluator::First(value)
            | Evaluator::Last(value)
            | Evaluator::Nth { value, .. } => value.cursor.reset(),
            Evaluator::Aggregate(moving) => moving.reset(states),
            Evaluator::Extreme(extreme) => extreme.reset(states),
            _ => {}
        }
    }

    /// Appends the result for a row of which only those before it have been seen.
    pub(super) fn stream(
        &mut self,
        row: &RowAt,
        record: &[u8],
        work: Work<'_>,
        out: &mut Vec<u8>,
    ) -> ExecResult<()> {
        match self {
            Evaluator::CountRows => rowstore::write(count(row.count), out),
            Evaluator::Aggregate(moving) => {
                moving.add(record, work)?;
                rowstore::write(moving.result(work)?.as_ref(), out);
            }
            _ => rowstore::write(self.ranked(row), out),
        }
        Ok(())
    }

    /// The result of a function of a row's position.
    fn ranked(&self, row: &RowAt) -> ValueRef<'static> {
        let first = row.peers.start as u64;
        match self {
            Evaluator::RowNumber => ValueRef::UInt(row.at as u64 + 1),
            Evaluator::Rank => ValueRef::UInt(first + 1),
            Evaluator::DenseRank => ValueRef::UInt(row.dense),
            Evaluator::PercentRank => match row.count.saturating_sub(1) {
                0 => ValueRef::Double(0.0),
                others => ValueRef::Double(first as f64 / others as f64),
            },
            Evaluator::CumeDist => ValueRef::Double(row.peers.end as f64 / row.count.max(1) as f64),
            Evaluator::Ntile(buckets) => ValueRef::UInt(bucket(row, *buckets)),
            _ => ValueRef::Null,
        }
    }

    /// Appends the result for a row of a whole partition.
    pub(super) fn write(
        &mut self,
        row: &RowAt,
        partition: &Partition,
        record: &[u8],
        work: Work<'_>,
        out: &mut Vec<u8>,
    ) -> ExecResult<()> {
        let frame = &row.frame;
        let found = match self {
            Evaluator::CountRows => {
                rowstore::write(count(frame.len()), out);
                return Ok(());
            }
            Evaluator::Aggregate(moving) => return moving.write(frame, partition, work, out),
            Evaluator::Extreme(extreme) => {
                rowstore::write(extreme.value(frame, partition, work)?.as_ref(), out);
                return Ok(());
            }
            Evaluator::Offset {
                lead,
                number,
                value,
                default,
            } => {
                let at = if *lead {
                    row.at.checked_add(*number).filter(|at| *at < row.count)
                } else {
                    row.at.checked_sub(*number)
                };
                match (at, default) {
                    (Some(at), _) => value.write(at, partition, out)?,
                    (None, Some(default)) => write_input(record, *default, out),
                    (None, None) => rowstore::write(ValueRef::Null, out),
                }
                return Ok(());
            }
            Evaluator::First(value) => Some((value, frame.start)),
            Evaluator::Last(value) => Some((value, frame.end.saturating_sub(1))),
            Evaluator::Nth { number, value } => {
                Some((value, frame.start.saturating_add(*number - 1)))
            }
            _ => None,
        };
        match found {
            Some((value, at)) if frame.contains(&at) => value.write(at, partition, out)?,
            Some(_) => rowstore::write(ValueRef::Null, out),
            None => rowstore::write(self.ranked(row), out),
        }
        Ok(())
    }
}

/// A number of rows, as COUNT returns it.
fn count(rows: usize) -> ValueRef<'static> {
    ValueRef::Int(i64::try_from(rows).unwrap_or(i64::MAX))
}

/// The bucket of a row for NTILE. If the rows cannot be distributed evenly, the first buckets have
/// one row more.
fn bucket(row: &RowAt, buckets: u64) -> u64 {
    let (at, count) = (row.at as u64, row.count as u64);
    let (small, larger) = (count / buckets, count % buckets);
    let in_larger = larger * (small + 1);
    match at.checked_sub(in_larger) {
        None => at / (small + 1) + 1,
        Some(behind) => larger + behind / small.max(1) + 1,
    }
}

/// An aggregate of a moving frame.
pub(super) struct Moving<'p> {
    call: &'p Aggregate,
    accumulator: Accumulator,
    /// Rows that the state contains.
    rows: Range<usize>,
    added: Cursor,
    removed: Cursor,
    /// The result for these rows, in encoded form; empty if it is not known.
    last: Vec<u8>,
    /// Bytes charged for the state.
    held: u64,
    pacer: Pacer,
}

impl<'p> Moving<'p> {
    fn new(call: &'p Aggregate) -> Moving<'p> {
        Moving {
            call,
            accumulator: Accumulator::new(call),
            rows: 0..0,
            added: Cursor::default(),
            removed: Cursor::default(),
            last: Vec::new(),
            held: 0,
            pacer: Pacer::new(),
        }
    }

    /// Removes all rows from the state.
    fn empty(&mut self, states: &States) {
        self.accumulator = Accumulator::new(self.call);
        self.last.clear();
        states.release(std::mem::take(&mut self.held));
    }

    fn reset(&mut self, states: &States) {
        self.empty(states);
        self.rows = 0..0;
        self.added.reset();
        self.removed.reset();
    }

    /// The result for the rows of the state. A document is copied.
    fn result(&mut self, work: Work<'_>) -> ExecResult<Value> {
        self.pacer
            .tick_by(usize::try_from(self.held / 64).unwrap_or(usize::MAX))?;
        self.accumulator.result(self.call, work.cx.env)
    }

    fn add(&mut self, record: &[u8], work: Work<'_>) -> ExecResult<()> {
        let (accumulator, call) = (&mut self.accumulator, self.call);
        if let ([arg], true) = (call.args.as_slice(), accumulator.takes_single_values()) {
            let value = input(record, input_of(arg));
            return work.on_row(&[], |_, cx| accumulator.add_single(call, value, cx));
        }
        let before = work.states.used();
        work.on(record, |row, cx| {
            accumulator.add(call, row, cx, work.states)
        })?;
        self.held += work.states.used().saturating_sub(before);
        Ok(())
    }

    /// Appends the result for a frame.
    fn write(
        &mut self,
        frame: &Range<usize>,
        partition: &Partition,
        work: Work<'_>,
        out: &mut Vec<u8>,
    ) -> ExecResult<()> {
        let frame = frame.start..frame.end.max(frame.start);
        if self.last.is_empty() || self.rows != frame {
            if frame.start != self.rows.start || frame.end < self.rows.end {
                self.leave(&frame, partition, work)?;
            }
            for at in self.rows.end..frame.end {
                let mut added = std::mem::take(&mut self.added);
                let done = self.add(added.row(partition, at)?, work);
                self.added = added;
                done?;
            }
            self.rows = frame;
            let result = self.result(work)?;
            self.last.clear();
            rowstore::write(result.as_ref(), &mut self.last);
        }
        out.extend_from_slice(&self.last);
        Ok(())
    }

    /// Removes the rows before a frame from the state.
    fn leave(
        &mut self,
        frame: &Range<usize>,
        partition: &Partition,
        work: Work<'_>,
    ) -> ExecResult<()> {
        let overlaps = self.rows.contains(&frame.start) && frame.end >= self.rows.end;
        if !overlaps || !self.accumulator.is_invertible(self.call) {
            self.empty(work.states);
            self.rows = frame.start..frame.start;
            return Ok(());
        }
        for at in self.rows.start..frame.start {
            let record = self.removed.row(partition, at)?;
            let (accumulator, call) = (&mut self.accumulator, self.call);
            let value = call.args.first().map(|arg| input(record, input_of(arg)));
            work.on_row(&[], |_, cx| accumulator.remove(call, value, cx))?;
        }
        self.rows.start = frame.start;
        Ok(())
    }
}

/// MIN or MAX of a moving frame: of the rows of the frame, those that no later row is better than,
/// the best one first.
pub(super) struct Extreme<'p> {
    call: &'p Aggregate,
    candidates: VecDeque<(usize, Value)>,
    /// Number of rows that have been seen.
    seen: usize,
    cursor: Cursor,
    /// Bytes charged for the candidates.
    held: u64,
}

impl<'p> Extreme<'p> {
    fn new(call: &'p Aggregate) -> Extreme<'p> {
        Extreme {
            call,
            candidates: VecDeque::new(),
            seen: 0,
            cursor: Cursor::default(),
            held: 0,
        }
    }

    fn reset(&mut self, states: &States) {
        states.release(std::mem::take(&mut self.held));
        self.candidates.clear();
        self.seen = 0;
        self.cursor.reset();
    }

    fn release(&mut self, value: &Value, states: &States) {
        let size = size_of_row(std::slice::from_ref(value)).min(self.held);
        states.release(size);
        self.held -= size;
    }

    fn value(
        &mut self,
        frame: &Range<usize>,
        partition: &Partition,
        work: Work<'_>,
    ) -> ExecResult<Value> {
        let Some(arg) = self.call.args.first() else {
            return Ok(Value::Null);
        };
        while self
            .candidates
            .front()
            .is_some_and(|(at, _)| *at < frame.start)
        {
            if let Some((_, value)) = self.candidates.pop_front() {
                self.release(&value, work.states);
            }
        }
        for at in self.seen.max(frame.start)..frame.end {
            let value = input(self.cursor.row(partition, at)?, input_of(arg)).to_owned();
            if value.is_null() {
                continue;
            }
            let kind = self.call.kind;
            let better =
                |(_, old): &(usize, Value)| replaces_extreme(value.as_ref(), old, kind, &arg.ty);
            while self.candidates.back().is_some_and(better) {
                if let Some((_, old)) = self.candidates.pop_back() {
                    self.release(&old, work.states);
                }
            }
            let size = size_of_row(std::slice::from_ref(&value));
            work.states.hold(size)?;
            self.held += size;
            self.candidates.push_back((at, value));
        }
        self.seen = self.seen.max(frame.end);
        let best = self.candidates.front().filter(|(at, _)| *at < frame.end);
        Ok(best.map_or(Value::Null, |(_, value)| value.clone()))
    }
}
