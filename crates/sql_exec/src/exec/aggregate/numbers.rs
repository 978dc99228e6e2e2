//! Groups and aggregates over plain integers ([`crate::expr::number`]).
//!
//! Keys and arguments of aggregates are mostly columns of fixed width. Once a
//! query has met some rows, those are read as numbers: a group is found by
//! them, and an aggregate takes them, without a value being made. Whatever
//! cannot be read in this way goes the way of values, row by row.
//!
//! Invariant: a number leads to the group that its value's key leads to; the
//! first time it is found by that key, and remembered.

use crate::bind::{Aggregate, AggregateKind, Source};
use crate::exec::join::tables_of;
use crate::expr::Expr;
use crate::expr::eval::{EvalCx, Slot};
use crate::expr::number::{Found, NumberExpr};
use crate::plan::physical::Aggregate as GroupBy;
use foldhash::fast::RandomState;
use smallvec::SmallVec;
use std::collections::HashMap;

/// Rows that are added one by one before numbers are made of expressions.
pub(super) const FIRST_ROWS: u32 = 64;

/// Different keys that are remembered at most.
const REMEMBERED: usize = 1 << 20;

/// A group's key, where it is numbers; of one expression the second is 0.
type Key = (i64, i64);

/// The input of an aggregate from a row.
#[derive(Debug)]
pub(super) enum Taken<'t> {
    /// The row itself: COUNT(*).
    Row,
    /// Whether this is NULL: COUNT.
    Present(NumberExpr<'t>),
    /// This: SUM, AVG, MIN, MAX.
    Number(NumberExpr<'t>),
    /// This, once: an aggregate of DISTINCT values.
    Distinct(NumberExpr<'t>),
    /// Values.
    Values,
}

/// The query's expressions as numbers.
#[derive(Debug)]
pub(super) struct Numbers<'t> {
    /// Expressions of the group's key; `None` where it takes values.
    keys: Option<SmallVec<[NumberExpr<'t>; 2]>>,
    known: HashMap<Key, usize, RandomState>,
    /// The rows of a group follow each other: the last one is enough.
    is_consecutive: bool,
    /// The last one found.
    last: Option<(Key, usize)>,
    /// Of each aggregate.
    pub(super) taken: Vec<Taken<'t>>,
}

impl<'t> Numbers<'t> {
    /// Of a query.
    pub(super) fn of(
        (plan, is_consecutive): (&'t GroupBy, bool),
        sources: &'t [Source],
        cx: &EvalCx<'_>,
    ) -> Numbers<'t> {
        let tables = tables_of(sources);
        let number = |e: &Expr| NumberExpr::of(e, &tables, cx);
        let keys: Option<SmallVec<[NumberExpr<'t>; 2]>> = match plan.group_by.len() {
            1 | 2 if !plan.rollup => plan.group_by.iter().map(number).collect(),
            _ => None,
        };
        let taken = |aggregate: &Aggregate| taken(aggregate, &number);
        Numbers {
            keys,
            known: HashMap::default(),
            is_consecutive,
            last: None,
            taken: plan.calls.iter().map(taken).collect(),
        }
    }

    /// The key of a row, where it is numbers.
    #[inline]
    pub(super) fn key(&self, row: &[Slot<'_>]) -> Option<Key> {
        let part = |e: &NumberExpr<'_>| match e.eval(row) {
            Found::Value(v) => Some(v),
            Found::Null | Found::Elsewhere => None,
        };
        match self.keys.as_deref()? {
            [one] => Some((part(one)?, 0)),
            [one, two] => Some((part(one)?, part(two)?)),
            _ => None,
        }
    }

    /// The group that a key leads to, where it is known.
    #[inline]
    pub(super) fn group(&mut self, key: Key) -> Option<usize> {
        match self.last {
            Some((last, at)) if last == key => Some(at),
            _ => {
                let at = *self.known.get(&key)?;
                self.last = Some((key, at));
                Some(at)
            }
        }
    }

    /// Forgets where keys lead.
    pub(super) fn forget(&mut self) {
        self.last = None;
        self.known.clear();
    }

    /// Remembers where a key leads; the bytes that it takes.
    pub(super) fn remember(&mut self, key: Key, group: usize) -> u64 {
        self.last = Some((key, group));
        if self.is_consecutive || self.known.len() >= REMEMBERED {
            return 0;
        }
        self.known.insert(key, group);
        32
    }
}

/// The input of an aggregate.
fn taken<'t>(aggregate: &Aggregate, number: &dyn Fn(&Expr) -> Option<NumberExpr<'t>>) -> Taken<'t> {
    if aggregate.kind == AggregateKind::CountRows {
        return Taken::Row;
    }
    let [arg] = aggregate.args.as_slice() else {
        return Taken::Values;
    };
    let Some(number) = number(arg) else {
        return Taken::Values;
    };
    match (aggregate.kind, aggregate.distinct) {
        (AggregateKind::Count, true) => Taken::Distinct(number),
        (AggregateKind::Sum | AggregateKind::Avg, true) if number.scale().is_some() => {
            Taken::Distinct(number)
        }
        (AggregateKind::Count, false) => Taken::Present(number),
        (AggregateKind::Sum | AggregateKind::Avg, false) if number.scale().is_some() => {
            Taken::Number(number)
        }
        (AggregateKind::Min | AggregateKind::Max, false) => Taken::Number(number),
        _ => Taken::Values,
    }
}
