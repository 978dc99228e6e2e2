//! Materialized inputs of joins: tables that a join reads once.
//!
//! If no index leads from the tables joined before to a table, or reading all of it is cheaper, its
//! rows are kept in memory for the duration of the join: in a hash table by the join's equalities
//! (the build side), or in a list that each row of the probe side is compared with. Derived and
//! virtual tables are handled in the same way. A stored table that exceeds the operator's share of
//! memory is written to temporary files ([`super::spilled_build`]), partitioned if the consumer needs
//! no order ([`super::partitioned_join`]).
//!
//! Invariant: the hash table only narrows the candidates. Rows that compare equal have equal keys,
//! and every condition is checked again; NULL, which equals nothing, has no key.

use super::conditions::Conditions;
use super::derived;
use super::fetch::Cursor;
use super::join::{Tuple, tables_of};
use super::join_hash_table::JoinHashTable;
use super::profile::Role;
use super::pruning::{Batch, Pruning};
use super::query::cx_of;
use super::row_set::RowCursor;
use super::scan::{fetch_slots, slot_of};
use super::slot_codec::{SlotCodec, slot_codecs};
use super::spilled_build::{PartitionedBuild, SpilledBuild, SpillingBuild};
use super::state::RowSet;
use super::visit::{VisitOutcome, copied_slot, visit_entries, visit_rows};
use super::{Exec, ExecError, ExecResult};
use crate::bind::Origin;
use crate::error::SqlError;
use crate::expr::Expr;
use crate::expr::comparable::append_comparable;
use crate::expr::eval::{EvalCx, Slot, eval};
use crate::expr::logic;
use crate::expr::number::NumberExpr;
use crate::plan::QueryPlan;
use crate::plan::physical::{HashKey, Join};
use crate::plan::scan::{Scan, ScanMode};
use bumpalo::Bump;
use porpoise_base::interrupt::Pacer;
use porpoise_rows::catalog::Table;
use porpoise_types::CompareAs;
use smallvec::{SmallVec, smallvec};
use std::cell::{Cell, OnceCell};
use std::collections::HashMap;
use std::rc::Rc;

/// Maximum number of rows of a materialized table.
const MAX_ROWS: usize = 4_000_000;

/// Rows fetched in one call.
const BATCH: usize = 256;

/// Rows visited in one call.
const VISIT_BATCH: usize = 1024;

/// Rows of a materialized input, with the hash table over them.
pub(super) enum Materialized<'h> {
    /// In memory.
    InMemory {
        rows: Vec<Slot<'h>>,
        /// By the encoded values of the join's equalities; `None` where they
        /// cannot be encoded.
        table: Option<JoinHashTable<'h>>,
    },
    /// In temporary files.
    Spilled(SpilledBuild<'h>),
}

impl Materialized<'_> {
    /// The partitions, if it has some.
    pub(super) fn partitioned(&self) -> Option<&PartitionedBuild> {
        match self {
            Materialized::Spilled(build) => build.partitioned(),
            Materialized::InMemory { .. } => None,
        }
    }

    fn is_spilled_by_keys(&self) -> bool {
        matches!(self, Materialized::Spilled(build) if build.has_keys())
    }
}

/// The two sides of a join's only equality (the probe side's and this table's own) if both are
/// plain integer columns of one unit.
pub(super) fn number_key<'h>(
    keys: &[HashKey],
    tables: &[Option<&'h Table>],
    cx: &EvalCx<'_>,
) -> Option<(NumberExpr<'h>, NumberExpr<'h>)> {
    let [part] = keys else {
        return None;
    };
    if !matches!(
        part.compare_as,
        CompareAs::Int | CompareAs::Decimal | CompareAs::Date
    ) {
        return None;
    }
    let known = NumberExpr::of(&part.probe, tables, cx)?;
    let own = NumberExpr::of(&part.build, tables, cx)?;
    let alike = known.is_column() && own.is_column() && known.unit() == own.unit();
    alike.then_some((known, own))
}

/// Inputs of a tree of joins that are known to exceed their share of memory.
#[derive(Default)]
pub(super) struct SpilledInputs {
    /// Their slots, as a bit set.
    slots: Cell<u64>,
    /// Whether an input was added: the join must restart, so that its memory is released.
    pub(super) must_restart: Cell<bool>,
    /// Whether the consumer has received rows, so that the join cannot restart.
    consumed: Cell<bool>,
}

/// Materialized inputs of a join, by slot.
pub(super) struct MaterializedTables<'h> {
    arena: &'h Bump,
    plan: &'h QueryPlan,
    /// The stored tables of the join, by slot.
    tables: Vec<Option<&'h Table>>,
    /// The codecs that write rows of the slots to files.
    codecs: &'h OnceCell<Box<[SlotCodec<'h>]>>,
    by_slot: HashMap<usize, Rc<Materialized<'h>>>,
    /// Bytes of the arena that have been charged to the statement.
    charged_arena: Cell<usize>,
    /// Bytes charged for the input that is being read.
    charged_input: Cell<u64>,
    /// Bytes charged for all inputs.
    charged_total: Cell<u64>,
    spilled: &'h SpilledInputs,
    /// Slots of the inputs that may be partitioned, as a bit set.
    partitionable: u64,
}

/// Memory of a row without its values, in a list and in a hash table.
const ROW_OVERHEAD: usize = size_of::<Slot<'_>>() + 4 * size_of::<usize>();

impl<'h> MaterializedTables<'h> {
    /// Creates an empty set for the joins of a query. `partitionable` is the bit set of the inputs that
    /// may be partitioned.
    pub(super) fn new(
        arena: &'h Bump,
        plan: &'h QueryPlan,
        codecs: &'h OnceCell<Box<[SlotCodec<'h>]>>,
        spilled: &'h SpilledInputs,
        partitionable: u64,
    ) -> MaterializedTables<'h> {
        MaterializedTables {
            arena,
            plan,
            tables: tables_of(&plan.sources),
            codecs,
            by_slot: HashMap::new(),
            charged_arena: Cell::new(0),
            charged_input: Cell::new(0),
            charged_total: Cell::new(0),
            spilled,
            partitionable,
        }
    }

    /// The codecs of the query's slots.
    pub(super) fn codecs(&self) -> &'h [SlotCodec<'h>] {
        self.codecs.get_or_init(|| slot_codecs(self.plan))
    }

    /// The codec of a slot.
    pub(super) fn codec(&self, slot: usize) -> ExecResult<&'h SlotCodec<'h>> {
        let codec = self.codecs().get(slot);
        codec.ok_or_else(|| SqlError::internal("a join without a table").into())
    }

    /// Whether the input of a scan may be partitioned.
    pub(super) fn is_partitionable(&self, scan: &Scan) -> bool {
        self.partitionable & scan.slot_bit() != 0
    }

    /// Charges the growth of the arena, and memory for `rows`, to the statement. Returns whether
    /// the input must be spilled.
    fn charge(&self, rows: usize, may_spill: bool, exec: &Exec<'_>) -> ExecResult<bool> {
        let now = self.arena.allocated_bytes();
        let grown = now.saturating_sub(self.charged_arena.replace(now)) + rows * ROW_OVERHEAD;
        let states = exec.shared.states;
        let over = if may_spill {
            self.charged_input
                .set(self.charged_input.get() + grown as u64);
            states.hold_or_spill(grown as u64, self.charged_input.get())?
        } else {
            states.hold(grown as u64)?;
            false
        };
        self.charged_total
            .set(self.charged_total.get() + grown as u64);
        Ok(over)
    }

    /// All rows of a join's right side, which are read on the first call.
    pub(super) fn rows<'x: 'h>(
        &mut self,
        join: &'h Join,
        origin: &'h Origin,
        exec: &mut Exec<'x>,
    ) -> ExecResult<Rc<Materialized<'h>>> {
        let scan = &join.right;
        if let Some(held) = self.by_slot.get(&scan.slot) {
            return Ok(held.clone());
        }
        let arena: &'h Bump = self.arena;
        self.charged_arena.set(arena.allocated_bytes());
        self.charged_input.set(0);
        let rows: Vec<Slot<'h>> = match origin {
            Origin::Virtual(table) => {
                let rows = exec.server.rows(table.database, table.name)?;
                let cx = cx_of(exec, arena);
                rows.iter().map(|r| slot_of(r, &cx)).collect()
            }
            Origin::Derived(derived) => {
                let rows = derived::rows(derived, &[], exec)?;
                // In memory they are copied.
                if rows.file.is_some() || exec.shared.states.exceeds(rows.held) {
                    return self.spill_rows(join, &rows, exec);
                }
                let cx = cx_of(exec, arena);
                rows.rows.iter().map(|r| slot_of(r, &cx)).collect()
            }
            Origin::Stored(table) if self.spilled.slots.get() & scan.slot_bit() != 0 => {
                return self.spill_table(join, table, exec);
            }
            Origin::Stored(table) => match self.read_table(join, table, exec)? {
                Some(rows) => rows,
                None => {
                    self.note_spilled(scan, exec)?;
                    return self.spill_table(join, table, exec);
                }
            },
        };
        let table = match join.hash_keys() {
            [] => None,
            keys => self.build_hash_table(scan.slot, keys, &rows, exec)?,
        };
        self.charge(0, false, exec)?;
        Ok(self.keep(scan.slot, Materialized::InMemory { rows, table }))
    }

    /// Writes the rows of a derived table to temporary files.
    fn spill_rows<'x: 'h>(
        &mut self,
        join: &'h Join,
        rows: &RowSet,
        exec: &Exec<'x>,
    ) -> ExecResult<Rc<Materialized<'h>>> {
        let (scan, states) = (&join.right, exec.shared.states);
        let (keys, is_partitioned) = (join.hash_keys(), self.is_partitionable(scan));
        let codec = self.codec(scan.slot)?;
        let mut build = SpillingBuild::new(codec, keys, is_partitioned, states)?;
        let mut cursor = RowCursor::default();
        let mut arena = Bump::new();
        loop {
            exec.check_cancelled()?;
            arena.reset();
            let batch = cursor.next(rows, BATCH)?;
            if batch.is_empty() {
                break;
            }
            let cx = cx_of(exec, &arena);
            let mut tuple: Vec<Slot<'_>> = self.empty().to_vec();
            for row in batch.iter() {
                if let Some(place) = tuple.get_mut(scan.slot) {
                    *place = slot_of(row, &cx);
                }
                build.add(&tuple, scan.slot, &cx, states)?;
            }
        }
        let build = build.finish(states)?;
        exec.note_spilled(&join.right, Role::Scan, build.size());
        Ok(self.keep(scan.slot, Materialized::Spilled(build)))
    }

    /// Whether the input in a slot is in files, where rows are found by keys.
    pub(super) fn is_spilled_by_keys(&self, slot: usize) -> bool {
        let input = self.by_slot.get(&slot);
        input.is_some_and(|input| input.is_spilled_by_keys())
    }

    /// Whether any input is in files, where rows are found by keys.
    pub(super) fn has_spilled_keys(&self) -> bool {
        self.by_slot
            .values()
            .any(|input| input.is_spilled_by_keys())
    }

    /// Records that the consumer receives rows.
    pub(super) fn note_consumed(&self) {
        self.spilled.consumed.set(true);
    }

    /// Records that an input exceeds its share. Returns an error if the join must restart.
    fn note_spilled(&self, scan: &Scan, exec: &Exec<'_>) -> ExecResult<()> {
        let spilled = self.spilled;
        spilled.slots.set(spilled.slots.get() | scan.slot_bit());
        if spilled.consumed.get() {
            // The rows read so far stay in the arena until the join ends.
            return Ok(());
        }
        spilled.must_restart.set(true);
        exec.shared.states.release(self.charged_total.take());
        Err(SqlError::internal("an unfinished spilled join").into())
    }

    fn keep(&mut self, slot: usize, input: Materialized<'h>) -> Rc<Materialized<'h>> {
        let held = Rc::new(input);
        self.by_slot.insert(slot, held.clone());
        held
    }

    /// Writes the rows of a table to temporary files.
    fn spill_table<'x: 'h>(
        &mut self,
        join: &'h Join,
        table: &'h Table,
        exec: &mut Exec<'x>,
    ) -> ExecResult<Rc<Materialized<'h>>> {
        let (scan, states) = (&join.right, exec.shared.states);
        let empty = self.empty();
        let (keys, is_partitioned) = (join.hash_keys(), self.is_partitionable(scan));
        let codec = self.codec(scan.slot)?;
        let mut build = SpillingBuild::new(codec, keys, is_partitioned, states)?;
        let mut cursor = Cursor::open(table, &scan.access, empty, &cx_of(exec, self.arena))?;
        let alone = right_side_conditions(join);
        let mut arena = Bump::new();
        loop {
            exec.check_cancelled()?;
            arena.reset();
            let Some(batch) = fetch_slots(scan, table, &mut cursor, None, BATCH, exec, &arena)?
            else {
                break;
            };
            let cx = cx_of(exec, &arena);
            let mut tuple: Vec<Slot<'_>> = empty.to_vec();
            for found in batch {
                if let Some(place) = tuple.get_mut(scan.slot) {
                    *place = found;
                }
                if all_hold(&alone, &tuple, &cx)? {
                    build.add(&tuple, scan.slot, &cx, states)?;
                }
            }
        }
        let build = build.finish(states)?;
        exec.note_spilled(&join.right, Role::Scan, build.size());
        Ok(self.keep(scan.slot, Materialized::Spilled(build)))
    }

    /// A joined row with all slots empty.
    fn empty(&self) -> Tuple<'h> {
        let arena: &'h Bump = self.arena;
        arena.alloc_slice_fill_copy(self.tables.len(), Slot::Null)
    }

    fn build_hash_table<'x: 'h>(
        &self,
        slot: usize,
        keys: &'h [HashKey],
        rows: &[Slot<'h>],
        exec: &Exec<'x>,
    ) -> ExecResult<Option<JoinHashTable<'h>>> {
        let arena: &'h Bump = self.arena;
        let cx = cx_of(exec, arena);
        if let Some((_, own)) = number_key(keys, &self.tables, &cx)
            && let Some(table) = JoinHashTable::of_numbers(rows, slot, &own)
        {
            return Ok(Some(table));
        }
        let mut table = JoinHashTable::of_bytes(rows.len());
        let mut tuple = self.empty().to_vec();
        let mut key = Vec::new();
        let mut pacer = Pacer::new();
        // From the last row to the first, so that chains are in row order.
        for (at, row) in rows.iter().enumerate().rev() {
            pacer.tick()?;
            if let Some(place) = tuple.get_mut(slot) {
                *place = *row;
            }
            key.clear();
            let mut null = false;
            for part in keys {
                let value = eval(&part.build, &tuple, &cx)?;
                null |= value.is_null();
                if !null
                    && !append_comparable(value, &part.build.ty, part.compare_as, &cx, &mut key)?
                {
                    return Ok(None);
                }
            }
            if null {
                continue;
            }
            table.insert_before(&key, at, arena);
        }
        Ok(Some(table))
    }

    /// The rows of a table; `None` if they must be spilled.
    fn read_table<'x: 'h>(
        &self,
        join: &'h Join,
        table: &'h Table,
        exec: &mut Exec<'x>,
    ) -> ExecResult<Option<Vec<Slot<'h>>>> {
        let held: &'h Bump = self.arena;
        let scan = &join.right;
        let empty = self.empty();
        let mut cursor = Cursor::open(table, &scan.access, empty, &cx_of(exec, held))?;
        let unlocked = scan.lock().is_none();
        let alone = right_side_conditions(join);
        if unlocked && scan.access.can_visit_in_place() {
            let simple = alone.into_iter().filter(|e| !e.has_subquery());
            let conditions = Conditions::of(simple.collect());
            return self.read_in_place(scan, table, cursor, conditions, exec);
        }
        let mut rows: Vec<Slot<'h>> = Vec::new();
        let mut tuple = empty.to_vec();
        while let Some(batch) = fetch_slots(scan, table, &mut cursor, None, BATCH, exec, held)? {
            exec.check_cancelled()?;
            let before = rows.len();
            let cx = cx_of(exec, held);
            for found in batch {
                if let Some(place) = tuple.get_mut(scan.slot) {
                    *place = found;
                }
                if all_hold(&alone, &tuple, &cx)? {
                    rows.push(found);
                }
            }
            if self.must_spill(rows.len() - before, &rows, unlocked, exec)? {
                return Ok(None);
            }
        }
        Ok(Some(rows))
    }

    /// Charges the rows read last. Returns whether the input must be spilled.
    fn must_spill(
        &self,
        new: usize,
        rows: &[Slot<'h>],
        may_spill: bool,
        exec: &Exec<'_>,
    ) -> ExecResult<bool> {
        let over = self.charge(new, may_spill, exec)?;
        if rows.len() > MAX_ROWS && !may_spill {
            return Err(too_many());
        }
        Ok(over || rows.len() > MAX_ROWS)
    }

    /// Reads the rows that the conditions accept, checking them in place.
    fn read_in_place<'x: 'h>(
        &self,
        scan: &'h Scan,
        table: &'h Table,
        mut cursor: Cursor,
        mut conditions: Conditions<'h>,
        exec: &Exec<'x>,
    ) -> ExecResult<Option<Vec<Slot<'h>>>> {
        let arena: &'h Bump = self.arena;
        let cx = cx_of(exec, arena);
        conditions.compile(&self.tables, &cx);
        let pruning = Pruning::of(scan, table, &cx)?;
        let columns = if scan.mode == ScanMode::Covering {
            table.columns_in_entries(cursor.index())
        } else {
            Vec::new()
        };
        let mut rows: Vec<Slot<'h>> = Vec::new();
        let width = self.empty().len();
        let batch = Batch {
            pruning: &pruning,
            limit: VISIT_BATCH,
        };
        let mut progress = VisitOutcome::More;
        while progress == VisitOutcome::More {
            exec.check_cancelled()?;
            let before = rows.len();
            let cursor = &mut cursor;
            let mut visit = |slot: &Slot<'_>| -> ExecResult<bool> {
                let mut tuple: SmallVec<[Slot<'_>; 4]> = smallvec![Slot::Null; width];
                if let Some(place) = tuple.get_mut(scan.slot) {
                    *place = *slot;
                }
                if conditions.hold(&tuple, &cx)? {
                    rows.push(copied_slot(*slot, table, arena)?);
                }
                Ok(true)
            };
            progress = if scan.is_covering() {
                visit_entries(table, &columns, cursor, batch, exec, arena, &mut visit)?
            } else {
                visit_rows(table, cursor, batch, exec, &mut visit)?
            };
            if self.must_spill(rows.len() - before, &rows, true, exec)? {
                return Ok(None);
            }
        }
        Ok(Some(rows))
    }
}

/// The conditions that read only a join's right side, which filter its rows as they are read. The
/// others are checked in the join.
fn right_side_conditions(join: &Join) -> Vec<&Expr> {
    let scan = &join.right;
    if scan.lock().is_some() {
        return Vec::new();
    }
    let alone = |e: &&Expr| e.slots() == scan.slot_bit() && e.is_fixed();
    join.on.iter().filter(alone).collect()
}

fn all_hold<'a>(conditions: &[&'a Expr], tuple: &[Slot<'a>], cx: &EvalCx<'a>) -> ExecResult<bool> {
    for condition in conditions {
        if logic::truth(condition, tuple, cx)? != Some(true) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn too_many() -> ExecError {
    let text = "A join without a usable index needs too many rows";
    ExecError::Error(SqlError::new(1104, "42000", text))
}
