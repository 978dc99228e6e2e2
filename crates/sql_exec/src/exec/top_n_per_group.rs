//! Top N per group: keeps the first rows of each partition of a window, and drops the rest before
//! the window sorts them.
//!
//! ```text
//!  ROW_NUMBER() <= 2            partition  order key: rows            dropped
//!
//!  (g=a v=5) (g=a v=3)          a          3: [row]  5: [row]
//!  (g=b v=1) (g=a v=4)          a          3: [row]  4: [row]         (g=a v=5)
//!                               b          1: [row]
//! ```
//!
//! A hash table finds the partition of a row; a partition has its rows in a search tree by order
//! key. A row after the last one kept is dropped for the price of its keys. When the input ends,
//! the rows are passed on.
//!
//! *Fallback.* The operator may pass on too many rows, because window and filter follow. If the
//! memory is used up, it passes on the rows that it keeps, and continues with empty partitions. If it has
//! kept more than half of the rows until then, or of the first [`SAMPLE`] rows, it passes on all
//! others at once, as it does where sort keys are not memcomparable. It needs no temporary file:
//! the sort of the window above writes one.
//!
//! Invariants:
//! 1. A row whose rank is within the limit is passed on: its rank among the rows since the last
//!    flush is not greater.
//! 2. Rows with equal sort keys are passed on in the order of the input, so that the window's
//!    stable sort numbers them as without the operator.
//!
//! Rejected: a binary heap for each partition. RANK and DENSE_RANK discard all rows of the greatest
//! key together, of which a heap knows neither the number nor the next smaller key.

use super::aggregate::InputColumns;
use super::join::Consumer;
use super::profile::Role;
use super::query::cx_of;
use super::rows::{self, Demand};
use super::rowstore::{self, values_of};
use super::sort::SortKeys;
use super::state::States;
use super::{Exec, ExecResult};
use crate::error::SqlError;
use crate::expr::eval::{EvalCx, Slot, eval};
use crate::plan::QueryPlan;
use crate::plan::physical::{Ranking, TopNPerGroup};
use bumpalo::Bump;
use foldhash::fast::RandomState;
use porpoise_base::interrupt::Pacer;
use porpoise_types::ValueRef;
use std::collections::{BTreeMap, HashMap};

/// Number of rows after which the operator checks whether it drops enough of them.
const SAMPLE: u64 = 1 << 16;

/// Bytes that are charged at a time.
const CHARGE: u64 = 1 << 12;

/// Approximate memory of a partition: an entry of the hash table, and a node of the search tree.
const GROUP_BYTES: u64 = 640;

/// Approximate memory of a key in a search tree, without its bytes.
const KEY_BYTES: u64 = 96;

/// Approximate memory of a row, without its bytes.
const ROW_BYTES: u64 = 32;

/// The condition on the rank of the rows that are kept.
#[derive(Clone, Copy)]
struct Kept {
    ranking: Ranking,
    /// The greatest rank; at least 1.
    limit: u64,
}

/// Rows in memory.
#[derive(Default)]
struct Size {
    rows: u64,
    /// Approximate memory.
    bytes: u64,
}

/// The first rows of a partition.
#[derive(Default)]
struct Group {
    /// Records by order key; those of a key in the order of the input.
    records: BTreeMap<Box<[u8]>, Vec<Box<[u8]>>>,
    rows: u64,
}

impl Group {
    /// Whether a row with this order key may be among the first.
    fn wants(&self, key: &[u8], kept: Kept) -> bool {
        let Some((last, _)) = self.records.last_key_value() else {
            return true;
        };
        match kept.ranking {
            Ranking::RowNumber => self.rows < kept.limit || key < last,
            Ranking::Rank => self.rows < kept.limit || key <= last,
            Ranking::DenseRank => (self.records.len() as u64) < kept.limit || key <= last,
        }
    }

    /// Adds a row, and discards those that are after the first ones now.
    fn add(&mut self, key: &[u8], record: &[u8], kept: Kept, size: &mut Size) {
        size.rows += 1;
        size.bytes += ROW_BYTES + record.len() as u64;
        self.rows += 1;
        match self.records.get_mut(key) {
            Some(peers) => peers.push(record.into()),
            None => {
                size.bytes += KEY_BYTES + key.len() as u64;
                self.records.insert(key.into(), vec![record.into()]);
            }
        }
        while self.discard_last(kept, size) {}
    }

    /// Discards rows with the greatest order key that are beyond the limit. Returns whether the key
    /// went with them.
    fn discard_last(&mut self, kept: Kept, size: &mut Size) -> bool {
        let keys = self.records.len() as u64;
        let Some(mut last) = self.records.last_entry() else {
            return false;
        };
        let peers = last.get().len() as u64;
        let before = self.rows - peers;
        let remaining = match kept.ranking {
            Ranking::RowNumber => kept.limit.saturating_sub(before).min(peers),
            Ranking::Rank if before >= kept.limit => 0,
            Ranking::DenseRank if keys > kept.limit => 0,
            Ranking::Rank | Ranking::DenseRank => peers,
        };
        let discarded = last.get_mut().drain(remaining as usize..);
        size.bytes -= discarded.map(|r| ROW_BYTES + r.len() as u64).sum::<u64>();
        size.rows -= peers - remaining;
        self.rows -= peers - remaining;
        if remaining == 0 {
            size.bytes -= KEY_BYTES + last.remove_entry().0.len() as u64;
        }
        remaining == 0
    }
}

/// The partitions, and the consumer of their rows.
struct Groups<'o, 'c> {
    operator: &'o TopNPerGroup,
    kept: Kept,
    partition: SortKeys<'o>,
    order: SortKeys<'o>,
    columns: InputColumns,
    /// By partition key.
    groups: HashMap<Box<[u8]>, Group, RandomState>,
    /// Number of rows since the last flush.
    seen: u64,
    size: Size,
    /// Bytes charged to the statement.
    charged: u64,
    /// Whether rows are passed on at once.
    passes_through: bool,
    states: &'o States,
    consume: &'o mut Consumer<'c>,
    /// Number of rows passed on.
    sent: u64,
    pacer: Pacer,
    arena: Bump,
    /// Scratch buffers of the current row: partition key, order key, record.
    scratch: [Vec<u8>; 3],
}

impl Groups<'_, '_> {
    /// Takes the next row. Returns whether more are wanted.
    fn add(&mut self, row: &[Slot<'_>], cx: &EvalCx<'_>) -> ExecResult<bool> {
        if self.seen == SAMPLE && self.keeps_most() && !self.flush(cx)? {
            return Ok(false);
        }
        if self.passes_through {
            self.sent += 1;
            return (self.consume)(row, cx);
        }
        self.seen += 1;
        let [partition, order, record] = &mut self.scratch;
        partition.clear();
        order.clear();
        self.partition.append(row, cx, partition)?;
        self.order.append(row, cx, order)?;
        let group = self.groups.get(partition.as_slice());
        if group.is_some_and(|group| !group.wants(order, self.kept)) {
            return Ok(true);
        }
        if group.is_none() {
            self.size.bytes += GROUP_BYTES + partition.len() as u64;
        }
        record.clear();
        self.columns.write(row, record);
        for at in 0..self.operator.aggregates {
            let value = cx.aggregates.get(at).copied();
            rowstore::write(value.unwrap_or(ValueRef::Null), record);
        }
        let group = self.groups.entry(partition.as_slice().into()).or_default();
        group.add(order, record, self.kept, &mut self.size);
        if self.charge()? {
            return self.flush(cx);
        }
        Ok(true)
    }

    /// Charges the growth to the statement. Returns whether the memory is used up.
    fn charge(&mut self) -> Result<bool, SqlError> {
        if self.size.bytes <= self.charged {
            return Ok(false);
        }
        let growth = (self.size.bytes - self.charged).max(CHARGE);
        let is_full = self.states.hold_or_spill(growth, self.charged + growth)?;
        self.charged += growth;
        Ok(is_full)
    }

    /// Whether more than half of the rows since the last flush are kept.
    fn keeps_most(&self) -> bool {
        2 * self.size.rows > self.seen
    }

    /// Passes on all rows. Returns whether more are wanted.
    fn flush(&mut self, cx: &EvalCx<'_>) -> ExecResult<bool> {
        self.passes_through |= self.keeps_most();
        self.seen = 0;
        self.size = Size::default();
        // The consumer charges its copies: both together would exceed the limit.
        self.states.release(std::mem::take(&mut self.charged));
        for group in std::mem::take(&mut self.groups).into_values() {
            for record in group.records.into_values().flatten() {
                if !self.send(&record, cx)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Passes on the row of a record. Returns whether more are wanted.
    fn send(&mut self, record: &[u8], cx: &EvalCx<'_>) -> ExecResult<bool> {
        self.pacer.tick()?;
        self.arena.reset();
        let damaged = || SqlError::internal("a record of a partition cannot be read");
        let (present, rest) = record.split_first_chunk::<8>().ok_or_else(damaged)?;
        let carried = self.operator.carried.len();
        let values = values_of(rest, carried + self.operator.aggregates);
        let (carried, aggregates) = values.split_at_checked(carried).ok_or_else(damaged)?;
        let present = u64::from_be_bytes(*present);
        let row = self
            .columns
            .slots(present, carried.iter().copied(), &self.arena);
        let cx = EvalCx {
            arena: &self.arena,
            aggregates,
            ..*cx
        };
        self.sent += 1;
        (self.consume)(row, &cx)
    }
}

/// The greatest rank that is wanted; `None` if the limit is not an integer.
fn greatest_rank(operator: &TopNPerGroup, exec: &Exec<'_>) -> ExecResult<Option<u64>> {
    let arena = Bump::new();
    let limit = match eval(&operator.limit, &[], &cx_of(exec, &arena))? {
        ValueRef::Null => 0,
        ValueRef::UInt(limit) => limit,
        ValueRef::Int(limit) => u64::try_from(limit).unwrap_or(0),
        _ => return Ok(None),
    };
    Ok(Some(limit.saturating_sub(u64::from(!operator.inclusive))))
}

/// Pushes the first rows of each partition.
pub(super) fn run(
    plan: &QueryPlan,
    operator: &TopNPerGroup,
    exec: &mut Exec<'_>,
    consume: &mut Consumer<'_>,
) -> ExecResult<()> {
    let limit = greatest_rank(operator, exec)?;
    if limit == Some(0) {
        return Ok(());
    }
    let since = exec.begin_part();
    let (partition, order) = (
        SortKeys::new(&operator.partition),
        SortKeys::new(&operator.order),
    );
    let mut groups = Groups {
        operator,
        kept: Kept {
            ranking: operator.ranking,
            limit: limit.unwrap_or(u64::MAX),
        },
        columns: InputColumns::of(&operator.carried, plan.sources.len()),
        groups: HashMap::default(),
        seen: 0,
        size: Size::default(),
        charged: 0,
        passes_through: limit.is_none()
            || !partition.are_memcomparable()
            || !order.are_memcomparable(),
        partition,
        order,
        states: exec.shared.states,
        consume,
        sent: 0,
        pacer: Pacer::new(),
        arena: Bump::new(),
        scratch: Default::default(),
    };
    let mut add = |row: &[Slot<'_>], cx: &EvalCx<'_>| groups.add(row, cx);
    rows::run(plan, &operator.input, Demand::ALL, exec, &mut add)?;
    let arena = Bump::new();
    groups.flush(&cx_of(exec, &arena))?;
    let sent = groups.sent;
    exec.end_part(operator, Role::Group, 1, sent, since);
    Ok(())
}
