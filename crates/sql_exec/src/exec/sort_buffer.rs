//! Buffer of a query's rows: for a sort, for DISTINCT, or because the statement may restart.
//!
//! 1. Top-N sort: if only the first rows are wanted, the rest is discarded each time the buffer has
//!    grown to about twice that number; from then on a row after the last one kept is rejected at
//!    once.
//! 2. The sort is stable: rows that compare equal keep their input order.
//! 3. The buffer is charged to the statement's memory. Beyond the operator's share it is written to
//!    a temporary file as a sorted run ([`super::spill`]); the runs are merged at the end.
//! 4. With DISTINCT, a run is sorted by the DISTINCT columns and has each distinct row once. The
//!    merge keeps the first of equal rows, and a second sort restores the order of the result or,
//!    without ORDER BY, the input order.
//! 5. In a sort of all rows, a key that is in the select list is evaluated once, with the list.
//! 6. The integer fast path ([`crate::expr::number`]) only saves work: it rejects a row only if the
//!    key or the values would.

use super::collect::Order;
use super::join::tables_of;
use super::profile::SpillSize;
use super::query::LimitWindow;
use super::record_sort::{self, ByBytes, Entry, KeyOrder};
use super::rowstore::{self, Place, RowStore, Values, values_of};
use super::sort::SortKeys;
use super::spill::runs::Runs;
use super::spill::sorter::{Sorted, Sorter};
use super::state::States;
use super::{ExecResult, ResultSink};
use crate::bind::types::is_text;
use crate::error::SqlError;
use crate::expr::eval::{EvalCx, Slot, eval};
use crate::expr::number::{NumberExpr, NumberResult, of_value};
use crate::expr::{Expr, ExprKind};
use crate::plan::QueryPlan;
use crate::plan::physical::DistinctMethod;
use foldhash::fast::RandomState;
use porpoise_base::interrupt::Pacer;
use porpoise_types::ValueRef;
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::collections::HashSet;

/// Number of rows beyond those wanted that are buffered before a top-N sort discards them.
const TOP_N_SLACK: usize = 1024;

/// Row buffer of a query; see the module.
pub(super) struct SortBuffer<'p> {
    plan: &'p QueryPlan,
    order: Order<'p>,
    keys: SortKeys<'p>,
    /// For each key the position in the select list that has its value; empty unless all rows are kept
    /// and sorted.
    items_of_keys: SmallVec<[Option<usize>; 4]>,
    store: RowStore,
    entries: Vec<Entry>,
    /// Number of rows wanted of a sort.
    limit: usize,
    /// The last wanted key at the time of the last discard.
    last_wanted_key: Option<Vec<u8>>,
    /// Encoded rows that DISTINCT has seen.
    distinct_rows: HashSet<Vec<u8>, RandomState>,
    /// The last distinct row, if equal rows are consecutive.
    last_distinct_row: Option<Vec<u8>>,
    /// Rows that DISTINCT has seen, if they are integers.
    distinct_numbers: HashSet<[i64; 2], RandomState>,
    /// The last distinct row as integers, if equal rows are consecutive.
    last_distinct_numbers: Option<[i64; 2]>,
    /// Compiled at the first row.
    compiled: Option<CompiledExprs<'p>>,
    /// The first number of the last wanted key.
    last_wanted_number: Option<i64>,
    /// Bytes charged for the rows.
    charged_rows: u64,
    /// Bytes charged for the rows that DISTINCT has seen.
    charged_distinct: u64,
    /// Whether the buffer exceeds the operator's share of memory.
    is_over_share: bool,
    runs: Runs,
    /// Lower bound for the number of distinct rows in the runs.
    spilled: u64,
    key: Vec<u8>,
    /// Scratch buffer: the current row as DISTINCT compares it.
    distinct_key: Vec<u8>,
}

/// Expressions of a query that compile to plain integers.
struct CompiledExprs<'p> {
    /// The first sort key of a top-N sort, and whether it is descending.
    first: Option<(NumberExpr<'p>, bool)>,
    /// The select list of a DISTINCT, if it is one or two integers.
    items: Option<SmallVec<[NumberExpr<'p>; 2]>>,
}

impl<'p> CompiledExprs<'p> {
    fn of(
        plan: &'p QueryPlan,
        order: Order<'p>,
        limit: usize,
        cx: &EvalCx<'_>,
    ) -> CompiledExprs<'p> {
        let few = limit < usize::MAX && SortKeys::new(order.keys).are_memcomparable();
        let first = order.keys.first().filter(|_| few);
        let distinct = order.distinct.is_some() && (1..=2).contains(&plan.items.len());
        if first.is_none() && !distinct {
            return CompiledExprs {
                first: None,
                items: None,
            };
        }
        let tables = tables_of(&plan.sources);
        let number = |e: &Expr| NumberExpr::of(e, &tables, cx);
        CompiledExprs {
            first: first.and_then(|key| Some((number(&key.expr)?, key.desc))),
            items: if distinct {
                plan.items.iter().map(number).collect()
            } else {
                None
            },
        }
    }

    /// The select list of a row, if it is integers.
    #[inline]
    fn distinct_numbers_of(&self, row: &[Slot<'_>]) -> Option<[i64; 2]> {
        let mut same = [0; 2];
        for (place, item) in same.iter_mut().zip(self.items.as_deref()?) {
            let NumberResult::Value(number) = item.eval(row) else {
                return None;
            };
            *place = number;
        }
        Some(same)
    }
}

/// Appends a number to a key without changing the sort order: equal keys have equal first numbers,
/// and no key is a prefix of another.
fn append_number(number: Option<i64>, key: &mut Vec<u8>) {
    key.push(u8::from(number.is_some()));
    key.extend_from_slice(&number.unwrap_or(0).to_le_bytes());
}

/// The number at the end of a key.
fn number_of_key(key: &[u8]) -> Option<i64> {
    let (rest, number) = key.split_last_chunk::<8>()?;
    (rest.last() == Some(&1)).then(|| i64::from_le_bytes(*number))
}

impl<'p> SortBuffer<'p> {
    /// Creates an empty buffer.
    pub(super) fn new(
        plan: &'p QueryPlan,
        order: Order<'p>,
        window: LimitWindow,
    ) -> SortBuffer<'p> {
        let wanted = window.end();
        let limit = if order.keys.is_empty() {
            usize::MAX
        } else {
            usize::try_from(wanted).unwrap_or(usize::MAX)
        };
        SortBuffer {
            plan,
            order,
            keys: SortKeys::new(order.keys),
            items_of_keys: items_of_keys(plan, order, limit),
            store: RowStore::default(),
            entries: Vec::new(),
            limit,
            last_wanted_key: None,
            distinct_rows: HashSet::default(),
            last_distinct_row: None,
            distinct_numbers: HashSet::default(),
            last_distinct_numbers: None,
            compiled: None,
            last_wanted_number: None,
            charged_rows: 0,
            charged_distinct: 0,
            is_over_share: false,
            runs: Runs::default(),
            spilled: 0,
            key: Vec::new(),
            distinct_key: Vec::new(),
        }
    }

    /// Number of rows; with DISTINCT a lower bound once runs were written.
    pub(super) fn len(&self) -> u64 {
        let kept = self.entries.len() as u64;
        if self.needs_distinct_set() {
            return self.spilled.max(kept);
        }
        self.spilled + kept
    }

    /// Whether DISTINCT must compare every row with all others.
    fn needs_distinct_set(&self) -> bool {
        matches!(self.order.distinct, Some(method) if method != DistinctMethod::Adjacent)
    }

    /// Whether the buffer exceeds the operator's share of memory.
    pub(super) fn is_over(&self) -> bool {
        self.is_over_share
    }

    /// Number of runs, and the size of their file.
    pub(super) fn spilled(&self) -> SpillSize {
        self.runs.size()
    }

    /// Adds a row of a sort that keeps all rows.
    fn add(&mut self, row: &[Slot<'_>], cx: &EvalCx<'_>, states: &States) -> ExecResult<()> {
        let plan = self.plan;
        let mut values = Values::new();
        for item in &plan.items {
            values.push(eval(item, row, cx)?);
        }
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        for (at, item) in self.items_of_keys.iter().enumerate() {
            let known = item.and_then(|item| values.get(item));
            let value = match (known, self.order.keys.get(at)) {
                (Some(value), _) => *value,
                (None, Some(own)) => eval(&own.expr, row, cx)?,
                (None, None) => ValueRef::Null,
            };
            self.keys.append_value(at, value, &mut key);
        }
        let done = self.push(&key, &values, states);
        self.key = key;
        Ok(done?)
    }

    /// Adds the row, unless DISTINCT or a top-N sort rejects it.
    pub(super) fn offer(
        &mut self,
        row: &[Slot<'_>],
        cx: &EvalCx<'_>,
        states: &States,
    ) -> ExecResult<()> {
        if !self.items_of_keys.is_empty() {
            return self.add(row, cx, states);
        }
        let compiled = self
            .compiled
            .get_or_insert_with(|| CompiledExprs::of(self.plan, self.order, self.limit, cx));
        let found = match (&compiled.first, self.order.keys.first()) {
            (Some((first, _)), Some(key)) => match first.eval(row) {
                NumberResult::NotApplicable => of_value(eval(&key.expr, row, cx)?, first.unit()),
                found => found,
            },
            _ => NumberResult::Null,
        };
        let number = match found {
            NumberResult::Value(number) => Some(number),
            NumberResult::Null | NumberResult::NotApplicable => None,
        };
        if let (Some(number), Some(last), Some((_, desc))) =
            (number, self.last_wanted_number, &compiled.first)
            && self.order.distinct.is_none()
            && if *desc { number < last } else { number > last }
        {
            return Ok(());
        }
        let same = compiled.distinct_numbers_of(row);
        let follow = self.order.distinct == Some(DistinctMethod::Adjacent);
        let is_seen = |same: &[i64; 2]| {
            if follow {
                self.last_distinct_numbers.as_ref() == Some(same)
            } else {
                self.distinct_numbers.contains(same)
            }
        };
        if same.as_ref().is_some_and(is_seen) {
            return Ok(());
        }
        let appends = compiled.first.is_some();
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        self.keys.append(row, cx, &mut key)?;
        if appends {
            append_number(number, &mut key);
        }
        match same {
            _ if follow => self.last_distinct_numbers = same,
            Some(same) => {
                self.charge_distinct(24, states)?;
                self.distinct_numbers.insert(same);
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
        let last = self.last_wanted_key.as_ref();
        // With DISTINCT, a discarded row must still count as seen.
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
            self.distinct_key.clear();
            append_distinct_key(plan, &values, &mut self.distinct_key);
            if method == DistinctMethod::Adjacent {
                if self.last_distinct_row.as_ref() == Some(&self.distinct_key) {
                    return Ok(());
                }
                self.last_distinct_row = Some(self.distinct_key.clone());
            } else {
                if self.distinct_rows.contains(&self.distinct_key) {
                    return Ok(());
                }
                self.charge_distinct(48 + self.distinct_key.len() as u64, states)?;
                self.distinct_rows.insert(self.distinct_key.clone());
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
        self.entries.push(Entry::new(place));
        self.count(states)?;
        let spare = self.limit.saturating_mul(2).saturating_add(TOP_N_SLACK);
        if self.entries.len() >= spare {
            self.sort()?;
            self.entries.truncate(self.limit);
            self.discard_unwanted(states)?;
        }
        Ok(())
    }

    /// Charges the growth to the statement.
    fn count(&mut self, states: &States) -> Result<(), SqlError> {
        let held = self.store.bytes() + (self.entries.capacity() * size_of::<Entry>()) as u64;
        if held > self.charged_rows {
            let kept = held + self.charged_distinct;
            self.is_over_share |= states.hold_or_spill(held - self.charged_rows, kept)?;
            self.charged_rows = held;
        }
        Ok(())
    }

    /// Charges the memory of a row that DISTINCT has seen.
    fn charge_distinct(&mut self, bytes: u64, states: &States) -> Result<(), SqlError> {
        self.charged_distinct += bytes;
        self.is_over_share |=
            states.hold_or_spill(bytes, self.charged_rows + self.charged_distinct)?;
        Ok(())
    }

    /// Writes the rows to a temporary file as a run, and releases them. May block, so the caller
    /// must hold nothing that other statements need.
    pub(super) fn spill(&mut self, states: &States) -> Result<(), SqlError> {
        self.is_over_share = false;
        if self.runs.is_empty() && self.order.distinct.is_some() {
            states.count_disk_table();
        }
        if !self.order.keys.is_empty() {
            self.sort()?;
            self.entries.truncate(self.limit);
        }
        let rows = self.entries.len() as u64;
        if self.needs_distinct_set() {
            (self.distinct_rows, self.distinct_numbers) = Default::default();
            states.release(std::mem::take(&mut self.charged_distinct));
            self.write_distinct_run(states)?;
            self.spilled = self.spilled.max(rows);
        } else {
            let (store, width) = (&self.store, self.plan.items.len());
            let record = |e: &Entry| (store.key(e.place), store.encoded(e.place, width));
            self.runs
                .write_run(self.entries.iter().map(record), states)?;
            self.spilled += rows;
        }
        self.entries = Vec::new();
        self.store = RowStore::default();
        states.release(std::mem::take(&mut self.charged_rows));
        Ok(())
    }

    /// Writes a run ordered by the DISTINCT columns. A value is the row's number, its sort key with
    /// a length prefix, and the row.
    fn write_distinct_run(&mut self, states: &States) -> Result<(), SqlError> {
        let run = self.runs.size().runs;
        let (plan, store, width) = (self.plan, &self.store, self.plan.items.len());
        let mut by_distinct_key = RowStore::default();
        let mut entries = Vec::with_capacity(self.entries.len());
        let mut pacer = Pacer::new();
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for entry in &self.entries {
            pacer.tick()?;
            let row = store.row(entry.place, width);
            key.clear();
            append_distinct_key(plan, &row, &mut key);
            value.clear();
            value.extend_from_slice(&row_number(run, entry.place));
            let sort_key = store.key(entry.place);
            let length = u32::try_from(sort_key.len()).map_err(|_| too_many())?;
            value.extend_from_slice(&length.to_le_bytes());
            value.extend_from_slice(sort_key);
            value.extend_from_slice(store.encoded(entry.place, width));
            let place = by_distinct_key.add(&key, &[ValueRef::Bytes(&value)]);
            entries.push(Entry::new(place.ok_or_else(too_many)?));
        }
        record_sort::sort(&mut entries, &by_distinct_key, ByBytes)?;
        let store = &by_distinct_key;
        let record = |e: &Entry| (store.key(e.place), store.bytes_of(e.place));
        self.runs.write_run(entries.iter().map(record), states)
    }

    /// Discards the rows that are not wanted, and releases their memory.
    fn discard_unwanted(&mut self, states: &States) -> Result<(), SqlError> {
        let last = self.entries.last().map(|e| self.store.key(e.place));
        self.last_wanted_key = last.map(<[u8]>::to_vec);
        if self
            .compiled
            .as_ref()
            .is_some_and(|compiled| compiled.first.is_some())
        {
            self.last_wanted_number = self.last_wanted_key.as_deref().and_then(number_of_key);
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
        states.release(self.charged_rows);
        self.charged_rows = 0;
        self.count(states)
    }

    fn sort(&mut self) -> Result<(), SqlError> {
        // Entries are in input order until the sort, which is stable.
        Ok(record_sort::sort(
            &mut self.entries,
            &self.store,
            self.keys,
        )?)
    }

    /// Ends the input. If there are runs, the remaining rows become one.
    pub(super) fn finish(&mut self, states: &States) -> Result<(), SqlError> {
        if !self.runs.is_empty() && !self.entries.is_empty() {
            self.spill(states)?;
        }
        Ok(())
    }

    /// Sorts the rows and sends the LIMIT window. Returns the number of rows sent.
    pub(super) fn send(
        mut self,
        sink: &mut dyn ResultSink,
        window: LimitWindow,
        states: &States,
    ) -> ExecResult<u64> {
        if !self.runs.is_empty() {
            sink.columns(&self.plan.columns)?;
            return if self.needs_distinct_set() {
                self.send_distinct_runs(sink, window, states)
            } else {
                self.send_runs(sink, window, states)
            };
        }
        if !self.order.keys.is_empty() {
            self.sort()?;
        }
        sink.columns(&self.plan.columns)?;
        let skip = usize::try_from(window.offset).unwrap_or(usize::MAX);
        let take = usize::try_from(window.count).unwrap_or(usize::MAX);
        let width = self.plan.items.len();
        let mut sent = 0;
        let mut pacer = Pacer::new();
        let mut row = Values::new();
        for (at, entry) in self.entries.iter().enumerate().skip(skip).take(take) {
            pacer.tick()?;
            if let Some(next) = self.entries.get(at + rowstore::AHEAD) {
                self.store.touch(next.place);
            }
            self.store.read_row(entry.place, width, &mut row);
            sink.row(&row)?;
            sent += 1;
        }
        Ok(sent)
    }

    /// Merges the runs and sends the LIMIT window.
    fn send_runs(
        mut self,
        sink: &mut dyn ResultSink,
        window: LimitWindow,
        states: &States,
    ) -> ExecResult<u64> {
        let (keys, width) = (self.keys, self.plan.items.len());
        if self.order.keys.is_empty() {
            self.runs.concatenate();
        }
        let rows = Sorted::Merged(self.runs.merge(keys, states)?);
        send_window(rows, width, sink, window, states)
    }

    /// Merges the runs, sorts the first row of each set of equal rows, and sends the LIMIT window.
    fn send_distinct_runs(
        self,
        sink: &mut dyn ResultSink,
        window: LimitWindow,
        states: &States,
    ) -> ExecResult<u64> {
        let (keys, width) = (self.keys, self.plan.items.len());
        let mut sorter = Sorter::new(NumberedKeys(keys));
        let mut merge = self.runs.merge(ByBytes, states)?;
        let (mut last, mut key) = (None::<Vec<u8>>, Vec::new());
        while merge.advance()? {
            if last.as_deref() == Some(merge.key()) {
                continue;
            }
            let (number, rest) = merge
                .value()
                .split_at_checked(ROW_NUMBER_LEN)
                .unwrap_or_default();
            let (length, rest) = rest.split_first_chunk::<4>().unwrap_or((&[0; 4], &[]));
            let length = u32::from_le_bytes(*length) as usize;
            let (sort_key, values) = rest.split_at_checked(length).unwrap_or_default();
            key.clear();
            key.extend_from_slice(number);
            key.extend_from_slice(sort_key);
            sorter.add(&key, values, states)?;
            let last = last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(merge.key());
        }
        merge.close(states);
        send_window(sorter.finish(states)?, width, sink, window, states)
    }
}

/// Order of keys that begin with the row's number, which decides last.
#[derive(Clone, Copy)]
struct NumberedKeys<'p>(SortKeys<'p>);

impl KeyOrder for NumberedKeys<'_> {
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let parts = |key| <[u8]>::split_at_checked(key, ROW_NUMBER_LEN).unwrap_or_default();
        let ((first, a), (second, b)) = (parts(a), parts(b));
        self.0.compare(a, b).then_with(|| first.cmp(second))
    }

    fn is_bytewise(&self) -> bool {
        false
    }
}

/// See [`SortBuffer`].
fn items_of_keys(plan: &QueryPlan, order: Order<'_>, limit: usize) -> SmallVec<[Option<usize>; 4]> {
    let keeps_all = limit == usize::MAX && order.distinct.is_none();
    if !keeps_all || !SortKeys::new(order.keys).are_memcomparable() {
        return SmallVec::new();
    }
    let item_of = |key: &Expr| plan.items.iter().position(|item| is_same_column(item, key));
    order.keys.iter().map(|key| item_of(&key.expr)).collect()
}

/// Whether both expressions are the same column, loaded in the same way: an ENUM is sorted by its
/// number, and shown as a text.
fn is_same_column(a: &Expr, b: &Expr) -> bool {
    let place = |e: &Expr| match e.kind {
        ExprKind::Column { slot, column, load } => Some((slot, column, load)),
        _ => None,
    };
    place(a).is_some() && place(a) == place(b) && a.ty == b.ty
}

/// Sends the LIMIT window of sorted rows of `width` columns. Returns the number of rows sent.
fn send_window<C: KeyOrder>(
    mut rows: Sorted<C>,
    width: usize,
    sink: &mut dyn ResultSink,
    window: LimitWindow,
    states: &States,
) -> ExecResult<u64> {
    let (mut passed, mut sent) = (0, 0);
    while sent < window.count && rows.advance()? {
        if passed < window.offset {
            passed += 1;
            continue;
        }
        sink.row(&values_of(rows.record().1, width))?;
        sent += 1;
    }
    rows.close(states);
    Ok(sent)
}

/// Size of a row's number in bytes.
const ROW_NUMBER_LEN: usize = 16;

/// A number that orders rows by input order.
fn row_number(run: u64, place: Place) -> [u8; ROW_NUMBER_LEN] {
    (u128::from(run) << 64 | u128::from(place.number())).to_be_bytes()
}

fn too_many() -> SqlError {
    SqlError::internal("a sort has too many rows")
}

/// Appends a key that is equal for rows that DISTINCT considers equal.
fn append_distinct_key(plan: &QueryPlan, values: &[ValueRef<'_>], key: &mut Vec<u8>) {
    let shown = plan.items.len().saturating_sub(plan.hidden_items);
    for (item, value) in plan.items.iter().zip(values).take(shown) {
        super::aggregate::append_key(*value, &unconverted(item).ty, key);
    }
}

/// Operands of a set operation are converted to the common type, but an operand's own DISTINCT
/// compares values of the operand's types.
fn unconverted(item: &Expr) -> &Expr {
    match &item.kind {
        ExprKind::Coalesce(args) => match args.as_slice() {
            [only] if is_text(&only.ty) && is_text(&item.ty) => only,
            _ => item,
        },
        _ => item,
    }
}
