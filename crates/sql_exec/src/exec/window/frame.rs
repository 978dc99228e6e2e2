//! Frames: the rows of its partition that a window function sees from a row.
//!
//! Both ends of a frame only move forward from one row to the next, so that finding them costs one
//! comparison for each row in all (RANGE), or none (ROWS).

use super::partition::{Cursor, Partition};
use super::{Work, input};
use crate::bind::OrderKey;
use crate::bind::window::{FrameBound, RangeLimit, Window, illegal_frame};
use crate::exec::ExecResult;
use crate::expr::ExprKind;
use crate::expr::eval::{EvalCx, Slot, eval};
use porpoise_types::{ValueRef, compare};
use std::cmp::Ordering;
use std::ops::Range;

/// One end of the frames.
enum Edge<'p> {
    Unbounded,
    Current,
    /// A number of rows.
    Rows {
        following: bool,
        count: usize,
    },
    /// A value of the sort key.
    Key(KeyEdge<'p>),
}

/// An end of the frames that is a value of the sort key.
struct KeyEdge<'p> {
    following: bool,
    limit: &'p RangeLimit,
    /// The distance from an integer key to the limit, if it is an integer.
    distance: Option<i128>,
    /// First row inside of the limit that was last computed (for a start), or beyond it (for an end).
    at: usize,
    cursor: Cursor,
}

/// The frames of a window.
pub(super) struct Frames<'p> {
    range: bool,
    /// Position of the only sort key among a record's inputs, and whether it is descending.
    key: Option<(usize, bool)>,
    start: Edge<'p>,
    end: Edge<'p>,
}

impl<'p> Frames<'p> {
    /// The frames of a window, whose sort keys are columns of a record.
    ///
    /// # Errors
    /// 3586 for a number that is negative, NULL or not whole.
    pub(super) fn new(
        window: &'p Window,
        order: &[OrderKey],
        cx: &EvalCx<'_>,
    ) -> ExecResult<Frames<'p>> {
        let key = order.first().and_then(|key| match key.expr.kind {
            ExprKind::Column { column, .. } => Some((column, key.desc)),
            _ => None,
        });
        Ok(Frames {
            range: window.frame.range,
            key,
            start: Edge::new(window, &window.frame.start, order, cx)?,
            end: Edge::new(window, &window.frame.end, order, cx)?,
        })
    }

    /// Whether peers have the same frame.
    pub(super) fn are_shared_by_peers(&self) -> bool {
        self.range
    }

    /// Starts another partition.
    pub(super) fn reset(&mut self) {
        for edge in [&mut self.start, &mut self.end] {
            if let Edge::Key(edge) = edge {
                edge.at = 0;
                edge.cursor.reset();
            }
        }
    }

    /// The frame of a row, given its peers; the end may lie before the start.
    pub(super) fn of(
        &mut self,
        at: usize,
        record: &[u8],
        peers: &Range<usize>,
        partition: &Partition,
        work: Work<'_>,
    ) -> ExecResult<Range<usize>> {
        let own = if self.range {
            peers.clone()
        } else {
            at..at + 1
        };
        let key = self.key;
        let start = match &mut self.start {
            Edge::Unbounded => 0,
            Edge::Current => own.start,
            Edge::Rows { following, count } => moved(at, *following, *count),
            Edge::Key(edge) => {
                let found = edge.find(record, key, Ordering::is_lt, partition, work)?;
                found.unwrap_or(own.start)
            }
        };
        let end = match &mut self.end {
            Edge::Unbounded => partition.len(),
            Edge::Current => own.end,
            Edge::Rows { following, count } => moved(at + 1, *following, *count),
            Edge::Key(edge) => {
                let found = edge.find(record, key, Ordering::is_le, partition, work)?;
                found.unwrap_or(own.end)
            }
        };
        Ok(start.min(partition.len())..end.min(partition.len()))
    }
}

/// The position `count` rows after (`following`) or before `at`.
fn moved(at: usize, following: bool, count: usize) -> usize {
    if following {
        at.saturating_add(count)
    } else {
        at.saturating_sub(count)
    }
}

impl<'p> Edge<'p> {
    fn new(
        window: &'p Window,
        bound: &'p FrameBound,
        order: &[OrderKey],
        cx: &EvalCx<'_>,
    ) -> ExecResult<Edge<'p>> {
        let FrameBound::Offset {
            following,
            amount,
            limit,
            ..
        } = bound
        else {
            return Ok(match bound {
                FrameBound::Current => Edge::Current,
                _ => Edge::Unbounded,
            });
        };
        let following = *following;
        let illegal = || illegal_frame(window.name.as_deref());
        let amount = eval(amount, &[], cx)?;
        if let Some(limit) = limit {
            if is_negative(amount) {
                return Err(illegal().into());
            }
            let is_less = order.first().is_some_and(|key| key.desc == following);
            let distance = integer(amount).map(|n| if is_less { -n } else { n });
            return Ok(Edge::Key(KeyEdge {
                following,
                limit,
                distance,
                at: 0,
                cursor: Cursor::default(),
            }));
        }
        let count = match amount {
            ValueRef::Int(n) => u64::try_from(n).ok(),
            ValueRef::UInt(n) => Some(n),
            _ => None,
        };
        let count = usize::try_from(count.ok_or_else(illegal)?).unwrap_or(usize::MAX);
        Ok(Edge::Rows { following, count })
    }
}

/// Whether the distance of a RANGE frame is negative or NULL.
fn is_negative(amount: ValueRef<'_>) -> bool {
    match amount {
        ValueRef::Null => true,
        ValueRef::Int(n) => n < 0,
        ValueRef::Double(n) => n < 0.0,
        ValueRef::Decimal(n) => n.is_negative(),
        ValueRef::Bytes(text) => text.trim_ascii_start().starts_with(b"-"),
        _ => false,
    }
}

/// The value of an integer type; `None` for other types.
fn integer(value: ValueRef<'_>) -> Option<i128> {
    match value {
        ValueRef::Int(n) => Some(i128::from(n)),
        ValueRef::UInt(n) => Some(i128::from(n)),
        _ => None,
    }
}

impl KeyEdge<'_> {
    /// The first row whose key does not satisfy `passes`, compared with the limit for a row; `None` if
    /// the row's key is NULL. Moves forward only.
    fn find(
        &mut self,
        record: &[u8],
        key: Option<(usize, bool)>,
        passes: fn(Ordering) -> bool,
        partition: &Partition,
        work: Work<'_>,
    ) -> ExecResult<Option<usize>> {
        let (column, desc) = key.unwrap_or_default();
        let own = [input(record, column)];
        if own.iter().any(|key| key.is_null()) {
            return Ok(None);
        }
        let [whole] = own.map(integer);
        if let Some((key, distance)) = whole.zip(self.distance) {
            let limit = key + distance;
            // NULL sorts first.
            let order_of =
                |key: ValueRef<'_>| Ok(integer(key).map_or(Ordering::Less, |key| key.cmp(&limit)));
            return self
                .advance(column, desc, order_of, passes, partition)
                .map(Some);
        }
        let limit = work.on_row(&[Slot::Values(&own)], |row, cx| {
            Ok(eval(&self.limit.limit, row, cx)?.to_owned())
        })?;
        if limit.is_null() {
            // Beyond the range of dates.
            let end = if self.following {
                partition.len()
            } else {
                self.at
            };
            return Ok(Some(end));
        }
        let compared = self.limit;
        let order_of = |key: ValueRef<'_>| {
            let key = [key];
            work.on_row(&[Slot::Values(&key)], |row, cx| {
                let key = eval(&compared.key, row, cx)?;
                if key.is_null() {
                    return Ok(Ordering::Less);
                }
                let order = compare::compare_direct(key, limit.as_ref(), compared.how);
                Ok(order.unwrap_or(Ordering::Equal))
            })
        };
        self.advance(column, desc, order_of, passes, partition)
            .map(Some)
    }

    /// Moves forward past the rows whose order satisfies `passes`.
    fn advance(
        &mut self,
        column: usize,
        desc: bool,
        order_of: impl Fn(ValueRef<'_>) -> ExecResult<Ordering>,
        passes: fn(Ordering) -> bool,
        partition: &Partition,
    ) -> ExecResult<usize> {
        while self.at < partition.len() {
            let order = order_of(input(self.cursor.row(partition, self.at)?, column))?;
            if !passes(if desc { order.reverse() } else { order }) {
                break;
            }
            self.at += 1;
        }
        Ok(self.at)
    }
}
