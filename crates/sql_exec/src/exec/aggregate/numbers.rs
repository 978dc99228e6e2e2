//! Groups and aggregates over plain integers ([`crate::expr::number`]).
//!
//! Group keys and arguments of aggregates are mostly columns of fixed width. After the first rows
//! of a query those are read as integers: groups are found by integer keys, and aggregates take
//! integers, without building values. A row whose key or argument is not a plain integer is processed
//! through values.
//!
//! Invariant: an integer key maps to the same group as the encoded key of its value. The group is
//! found by the encoded key at first, and then cached by the integer key.

use crate::bind::{Aggregate, AggregateKind, Source};
use crate::exec::join::tables_of;
use crate::expr::Expr;
use crate::expr::eval::{EvalCx, Slot};
use crate::expr::number::{NumberExpr, NumberResult};
use crate::plan::physical::Aggregate as GroupBy;
use foldhash::fast::RandomState;
use smallvec::SmallVec;
use std::collections::HashMap;

/// Number of rows that are processed through values before expressions are compiled.
pub(super) const INTERPRETED_ROWS: u32 = 64;

/// Maximum number of cached keys.
const MAX_CACHED_KEYS: usize = 1 << 20;

/// An integer group key; with one expression the second number is 0.
type Key = (i64, i64);

/// Method by which an aggregate reads its argument from a row.
#[derive(Debug)]
pub(super) enum AggregateInput<'t> {
    /// The row itself: COUNT(*).
    Row,
    /// COUNT: only whether the expression is NULL is read.
    Present(NumberExpr<'t>),
    /// SUM, AVG, MIN, MAX: the integer.
    Number(NumberExpr<'t>),
    /// DISTINCT: the integer, unless it was seen before.
    Distinct(NumberExpr<'t>),
    /// The argument is evaluated to a value.
    Values,
}

/// Expressions of an aggregation, compiled to integer expressions.
#[derive(Debug)]
pub(super) struct IntegerInputs<'t> {
    /// Expressions of the group key; `None` if one is not a plain integer.
    keys: Option<SmallVec<[NumberExpr<'t>; 2]>>,
    cached_groups: HashMap<Key, usize, RandomState>,
    /// Whether the rows of a group are consecutive: caching the last key is enough then.
    is_consecutive: bool,
    /// The last key and its group.
    last_group: Option<(Key, usize)>,
    /// The input of each aggregate.
    pub(super) inputs: Vec<AggregateInput<'t>>,
}

impl<'t> IntegerInputs<'t> {
    /// Compiles the expressions of a query.
    pub(super) fn of(
        plan: &'t GroupBy,
        is_consecutive: bool,
        sources: &'t [Source],
        cx: &EvalCx<'_>,
    ) -> IntegerInputs<'t> {
        let tables = tables_of(sources);
        let number = |e: &Expr| NumberExpr::of(e, &tables, cx);
        let keys: Option<SmallVec<[NumberExpr<'t>; 2]>> = match plan.group_by.len() {
            1 | 2 if !plan.rollup => plan.group_by.iter().map(number).collect(),
            _ => None,
        };
        let inputs = |aggregate: &Aggregate| aggregate_input(aggregate, &number);
        IntegerInputs {
            keys,
            cached_groups: HashMap::default(),
            is_consecutive,
            last_group: None,
            inputs: plan.calls.iter().map(inputs).collect(),
        }
    }

    /// The integer key of a row, if the row has one.
    #[inline]
    pub(super) fn key(&self, row: &[Slot<'_>]) -> Option<Key> {
        let part = |e: &NumberExpr<'_>| match e.eval(row) {
            NumberResult::Value(v) => Some(v),
            NumberResult::Null | NumberResult::NotApplicable => None,
        };
        match self.keys.as_deref()? {
            [one] => Some((part(one)?, 0)),
            [one, two] => Some((part(one)?, part(two)?)),
            _ => None,
        }
    }

    /// The cached group of a key.
    #[inline]
    pub(super) fn cached_group(&mut self, key: Key) -> Option<usize> {
        match self.last_group {
            Some((last_group, at)) if last_group == key => Some(at),
            _ => {
                let at = *self.cached_groups.get(&key)?;
                self.last_group = Some((key, at));
                Some(at)
            }
        }
    }

    /// Clears the cache of groups.
    pub(super) fn clear_cache(&mut self) {
        self.last_group = None;
        self.cached_groups.clear();
    }

    /// Caches the group of a key. Returns the memory that this takes, in bytes.
    pub(super) fn cache_group(&mut self, key: Key, group: usize) -> u64 {
        self.last_group = Some((key, group));
        if self.is_consecutive || self.cached_groups.len() >= MAX_CACHED_KEYS {
            return 0;
        }
        self.cached_groups.insert(key, group);
        32
    }
}

/// The input of one aggregate.
fn aggregate_input<'t>(
    aggregate: &Aggregate,
    number: &dyn Fn(&Expr) -> Option<NumberExpr<'t>>,
) -> AggregateInput<'t> {
    if aggregate.kind == AggregateKind::CountRows {
        return AggregateInput::Row;
    }
    let [arg] = aggregate.args.as_slice() else {
        return AggregateInput::Values;
    };
    let Some(number) = number(arg) else {
        return AggregateInput::Values;
    };
    match (aggregate.kind, aggregate.distinct) {
        (AggregateKind::Count, true) => AggregateInput::Distinct(number),
        (AggregateKind::Sum | AggregateKind::Avg, true) if number.scale().is_some() => {
            AggregateInput::Distinct(number)
        }
        (AggregateKind::Count, false) => AggregateInput::Present(number),
        (AggregateKind::Sum | AggregateKind::Avg, false) if number.scale().is_some() => {
            AggregateInput::Number(number)
        }
        (AggregateKind::Min | AggregateKind::Max, false) => AggregateInput::Number(number),
        _ => AggregateInput::Values,
    }
}
