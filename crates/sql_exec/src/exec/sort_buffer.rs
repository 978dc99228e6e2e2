//! Rows kept for the end of a query: for a sort, for DISTINCT, or because the
//! statement may have to run again.
//!
//! 1. Where only the first of a sort are wanted, the others go as soon as twice
//!    as many have come, and from then on a row behind the last of them is not
//!    taken at all.
//! 2. Rows that compare equal keep the order in which they came.
//! 3. What is held counts against the statement's memory.
//! 4. What is known by a plain integer ([`crate::expr::number`]) only saves
//!    work: a row is refused by it if its key or its values would have been.

use super::collect::Order;
use super::join::tables_of;
use super::query::Window;
use super::rowstore::{Place, RowStore, Values};
use super::sort::SortKeys;
use super::state::States;
use super::{ExecResult, ResultSink};
use crate::bind::types::is_text;
use crate::error::SqlError;
use crate::expr::eval::{EvalCx, Slot, eval};
use crate::expr::number::{Found, NumberExpr, of_value};
use crate::expr::{Expr, ExprKind};
use crate::plan::QueryPlan;
use crate::plan::physical::DistinctMethod;
use foldhash::fast::RandomState;
use porpoise_base::interrupt::Pacer;
use porpoise_base::sorting;
use porpoise_types::ValueRef;
use smallvec::SmallVec;
use std::collections::HashSet;

/// Rows more than wanted that are kept before a sort throws them away.
const SPARE: usize = 1024;

/// A row kept: the start of its key, which mostly decides, and its place.
#[derive(Clone, Copy)]
struct Entry {
    prefix: u64,
    place: Place,
}

/// See the module.
pub(super) struct SortBuffer<'p> {
    plan: &'p QueryPlan,
    order: Order<'p>,
    keys: SortKeys<'p>,
    store: RowStore,
    entries: Vec<Entry>,
    /// Rows wanted of a sort.
    most: usize,
    /// The last key wanted when rows were thrown away.
    last: Option<Vec<u8>>,
    /// Rows that DISTINCT has seen.
    seen: HashSet<Vec<u8>, RandomState>,
    /// Its last row, where those that are the same follow each other.
    shown: Option<Vec<u8>>,
    /// The rows of `seen` that are numbers.
    numbers: HashSet<[i64; 2], RandomState>,
    /// The last row's, where those that are the same follow each other.
    last_same: Option<[i64; 2]>,
    /// Made at the first row.
    fast: Option<Fast<'p>>,
    /// The first number of the last key wanted.
    last_number: Option<i64>,
    /// Bytes counted with the statement.
    counted: u64,
    key: Vec<u8>,
    /// The row at hand, as DISTINCT compares rows.
    same: Vec<u8>,
}

/// Expressions of a query that are plain integers.
struct Fast<'p> {
    /// The first sort key, where only the first rows are wanted, and whether it
    /// is descending.
    first: Option<(NumberExpr<'p>, bool)>,
    /// The select list of a DISTINCT, where that is one or two numbers.
    items: Option<SmallVec<[NumberExpr<'p>; 2]>>,
}

impl<'p> Fast<'p> {
    fn of(plan: &'p QueryPlan, order: Order<'p>, most: usize, cx: &EvalCx<'_>) -> Fast<'p> {
        let few = most < usize::MAX && SortKeys::new(order.keys).are_bytes();
        let first = order.keys.first().filter(|_| few);
        let distinct = order.distinct.is_some() && (1..=2).contains(&plan.items.len());
        if first.is_none() && !distinct {
            return Fast {
                first: None,
                items: None,
            };
        }
        let tables = tables_of(&plan.sources);
        let number = |e: &Expr| NumberExpr::of(e, &tables, cx);
        Fast {
            first: first.and_then(|key| Some((number(&key.expr)?, key.desc))),
            items: match distinct {
                true => plan.items.iter().map(number).collect(),
                false => None,
            },
        }
    }

    /// The select list of a row, where it is numbers.
    #[inline]
    fn same(&self, row: &[Slot<'_>]) -> Option<[i64; 2]> {
        let mut same = [0; 2];
        for (place, item) in same.iter_mut().zip(self.items.as_deref()?) {
            let Found::Value(number) = item.eval(row) else {
                return None;
            };
            *place = number;
        }
        Some(same)
    }
}

/// Appends a number to a key, in whose order it makes no difference: equal keys
/// have equal first numbers, and no key is the start of another.
fn append_number(number: Option<i64>, key: &mut Vec<u8>) {
    key.push(u8::from(number.is_some()));
    key.extend_from_slice(&number.unwrap_or(0).to_le_bytes());
}

/// The number that stands at the end of a key.
fn number_of_key(key: &[u8]) -> Option<i64> {
    let (rest, number) = key.split_last_chunk::<8>()?;
    (rest.last() == Some(&1)).then(|| i64::from_le_bytes(*number))
}

impl<'p> SortBuffer<'p> {
    /// Nothing yet.
    pub(super) fn new(plan: &'p QueryPlan, order: Order<'p>, window: Window) -> SortBuffer<'p> {
        let wanted = window.end();
        let most = match order.keys.is_empty() {
            true => usize::MAX,
            false => usize::try_from(wanted).unwrap_or(usize::MAX),
        };
        SortBuffer {
            plan,
            order,
            keys: SortKeys::new(order.keys),
            store: RowStore::default(),
            entries: Vec::new(),
            most,
            last: None,
            seen: HashSet::default(),
            shown: None,
            numbers: HashSet::default(),
            last_same: None,
            fast: None,
            last_number: None,
            counted: 0,
            key: Vec::new(),
            same: Vec::new(),
        }
    }

    /// Number of rows.
    pub(super) fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Takes the row into account.
    pub(super) fn offer(
        &mut self,
        row: &[Slot<'_>],
        cx: &EvalCx<'_>,
        states: &States,
    ) -> ExecResult<()> {
        let fast = self
            .fast
            .get_or_insert_with(|| Fast::of(self.plan, self.order, self.most, cx));
        let found = match (&fast.first, self.order.keys.first()) {
            (Some((first, _)), Some(key)) => match first.eval(row) {
                Found::Elsewhere => of_value(eval(&key.expr, row, cx)?, first.unit()),
                found => found,
            },
            _ => Found::Null,
        };
        let number = match found {
            Found::Value(number) => Some(number),
            Found::Null | Found::Elsewhere => None,
        };
        if let (Some(number), Some(last), Some((_, desc))) = (number, self.last_number, &fast.first)
            && self.order.distinct.is_none()
            && if *desc { number < last } else { number > last }
        {
            return Ok(());
        }
        let same = fast.same(row);
        let follow = self.order.distinct == Some(DistinctMethod::Adjacent);
        let is_seen = |same: &[i64; 2]| match follow {
            true => self.last_same.as_ref() == Some(same),
            false => self.numbers.contains(same),
        };
        if same.as_ref().is_some_and(is_seen) {
            return Ok(());
        }
        let appends = fast.first.is_some();
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        self.keys.append(row, cx, &mut key)?;
        if appends {
            append_number(number, &mut key);
        }
        match same {
            _ if follow => self.last_same = same,
            Some(same) => {
                states.hold(24)?;
                self.numbers.insert(same);
            }
            None => {}
        }
        let done = self.offer_with(&key, row, cx, states);
        self.key = key;
        done
    }

    fn offer_with(
        &mut self,
        key: &[u8],
        row: &[Slot<'_>],
        cx: &EvalCx<'_>,
        states: &States,
    ) -> ExecResult<()> {
        let last = self.last.as_ref();
        // A row that DISTINCT has seen must not come back before others.
        if self.order.distinct.is_none()
            && last.is_some_and(|last| self.keys.compare(key, last).is_ge())
        {
            return Ok(());
        }
        let plan = self.plan;
        let mut values = Values::new();
        for item in &plan.items {
            values.push(eval(item, row, cx)?);
        }
        if let Some(method) = self.order.distinct {
            self.same.clear();
            append_distinct_key(plan, &values, &mut self.same);
            if method == DistinctMethod::Adjacent {
                if self.shown.as_ref() == Some(&self.same) {
                    return Ok(());
                }
                self.shown = Some(self.same.clone());
            } else {
                if self.seen.contains(&self.same) {
                    return Ok(());
                }
                states.hold(48 + self.same.len() as u64)?;
                self.seen.insert(self.same.clone());
            }
        }
        self.push(key, &values, states)?;
        Ok(())
    }

    fn push(
        &mut self,
        key: &[u8],
        values: &[ValueRef<'_>],
        states: &States,
    ) -> Result<(), SqlError> {
        let place = self.store.add(key, values).ok_or_else(too_many)?;
        let prefix = self.keys.prefix(key);
        self.entries.push(Entry { prefix, place });
        self.count(states)?;
        let spare = self.most.saturating_mul(2).saturating_add(SPARE);
        if self.entries.len() >= spare {
            self.sort()?;
            self.entries.truncate(self.most);
            self.shrink(states)?;
        }
        Ok(())
    }

    /// Counts what has grown.
    fn count(&mut self, states: &States) -> Result<(), SqlError> {
        let held = self.store.bytes() + (self.entries.capacity() * size_of::<Entry>()) as u64;
        if held > self.counted {
            states.hold(held - self.counted)?;
            self.counted = held;
        }
        Ok(())
    }

    /// Lets go of the bytes of rows that were thrown away.
    fn shrink(&mut self, states: &States) -> Result<(), SqlError> {
        let last = self.entries.last().map(|e| self.store.key(e.place));
        self.last = last.map(<[u8]>::to_vec);
        if self.fast.as_ref().is_some_and(|fast| fast.first.is_some()) {
            self.last_number = self.last.as_deref().and_then(number_of_key);
        }
        let mut fresh = RowStore::default();
        let width = self.plan.items.len();
        let mut pacer = Pacer::new();
        for entry in &mut self.entries {
            pacer.tick()?;
            let values = self.store.row(entry.place, width);
            let place = fresh.add(self.store.key(entry.place), &values);
            entry.place = place.ok_or_else(too_many)?;
        }
        self.store = fresh;
        states.let_go(self.counted);
        self.counted = 0;
        self.count(states)
    }

    fn sort(&mut self) -> Result<(), SqlError> {
        let (store, keys) = (&self.store, self.keys);
        let run = match keys.are_bytes() {
            true => sorting::CHEAP,
            false => sorting::DEAR,
        };
        sorting::sort_by(&mut self.entries, run, |a, b| {
            a.prefix
                .cmp(&b.prefix)
                .then_with(|| keys.compare(store.key(a.place), store.key(b.place)))
                // Places ascend: what came first stays first.
                .then_with(|| a.place.cmp(&b.place))
        })?;
        Ok(())
    }

    /// Sorts what is to be sorted and sends the window of it; the rows sent.
    pub(super) fn send(mut self, sink: &mut dyn ResultSink, window: Window) -> ExecResult<u64> {
        if !self.order.keys.is_empty() {
            self.sort()?;
        }
        sink.columns(&self.plan.columns)?;
        let skip = usize::try_from(window.offset).unwrap_or(usize::MAX);
        let take = usize::try_from(window.count).unwrap_or(usize::MAX);
        let width = self.plan.items.len();
        let mut sent = 0;
        let mut pacer = Pacer::new();
        for entry in self.entries.iter().skip(skip).take(take) {
            pacer.tick()?;
            sink.row(&self.store.row(entry.place, width))?;
            sent += 1;
        }
        Ok(sent)
    }
}

fn too_many() -> SqlError {
    SqlError::internal("a sort has too many rows")
}

/// Appends bytes that are equal for rows that DISTINCT takes for equal.
fn append_distinct_key(plan: &QueryPlan, values: &[ValueRef<'_>], key: &mut Vec<u8>) {
    let shown = plan.items.len().saturating_sub(plan.hidden_items);
    for (item, value) in plan.items.iter().zip(values).take(shown) {
        super::aggregate::append_key(*value, &unconverted(item).ty, key);
    }
}

/// An operand of a set operation is converted to the type of the whole; its own DISTINCT tells
/// rows apart as its own types do.
fn unconverted(item: &Expr) -> &Expr {
    match &item.kind {
        ExprKind::Coalesce(args) => match args.as_slice() {
            [only] if is_text(&only.ty) && is_text(&item.ty) => only,
            _ => item,
        },
        _ => item,
    }
}
