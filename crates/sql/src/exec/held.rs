//! Tables that a join reads once and holds.
//!
//! Where no index leads from the tables joined before to a table, or where to
//! read all of it costs less, its rows stand here for the time of the join:
//! behind a hash table of the values of the step's equalities, or as a list
//! that every row before is compared with. Derived and virtual tables are held
//! in the same way.
//!
//! Invariant: the hash table only narrows. Rows that compare equal have equal
//! keys, and every condition is checked again; NULL, which equals nothing,
//! stands under no key.

use super::by_key::ByKey;
use super::conditions::Conditions;
use super::derived;
use super::fetch::Cursor;
use super::join::Tuple;
use super::reach::Reach;
use super::select::cx_of;
use super::show::{Shown, copied_slot, is_shown, show_entries, show_rows};
use super::state::append_comparable;
use super::step::{fetch_slots, slot_of};
use super::{Exec, Run, Stop};
use crate::bind::Origin;
use crate::error::SqlError;
use crate::expr::Expr;
use crate::expr::eval::{EvalCx, Slot, eval};
use crate::expr::logic;
use crate::expr::number::NumberExpr;
use crate::plan::Step;
use bumpalo::Bump;
use porpoise_base::interrupt::Pacer;
use porpoise_rows::catalog::Table;
use porpoise_types::CompareAs;
use smallvec::{SmallVec, smallvec};
use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

/// Rows of a table without an index for the join that are held at most.
const MAX_HELD: usize = 4_000_000;

/// Rows read in one call.
const BATCH: usize = 256;

/// Rows shown in one call.
const SHOWN: usize = 1024;

/// Rows held for a step, and how they are found.
pub(super) struct Held<'h> {
    pub(super) rows: Vec<Slot<'h>>,
    /// By the encoded values of the step's equalities; `None` where they
    /// cannot be encoded.
    pub(super) by_key: Option<ByKey<'h>>,
}

/// The two sides of a step's only equality, where both are columns that are
/// integers of one unit: what is known, and the row's own.
pub(super) fn number_key<'h>(
    step: &Step,
    tables: &[Option<&'h Table>],
    cx: &EvalCx<'_>,
) -> Option<(NumberExpr<'h>, NumberExpr<'h>)> {
    let [part] = step.hash.as_slice() else {
        return None;
    };
    if !matches!(
        part.how,
        CompareAs::Int | CompareAs::Decimal | CompareAs::Date
    ) {
        return None;
    }
    let known = NumberExpr::of(&part.known, tables, cx)?;
    let own = NumberExpr::of(&part.own, tables, cx)?;
    let alike = known.is_column() && own.is_column() && known.unit() == own.unit();
    alike.then_some((known, own))
}

/// What a join holds, by slot.
pub(super) struct HeldTables<'h> {
    arena: &'h Bump,
    /// The stored tables of the join, by slot.
    tables: Vec<Option<&'h Table>>,
    by_slot: HashMap<usize, Rc<Held<'h>>>,
    /// Bytes of the arena that need not be counted any more.
    counted: Cell<usize>,
}

/// What a row takes beside its bytes, in a list and in a hash table.
const BESIDE: usize = size_of::<Slot<'_>>() + 4 * size_of::<usize>();

impl<'h> HeldTables<'h> {
    /// Nothing yet, of a join of these tables, by slot.
    pub(super) fn new(arena: &'h Bump, tables: Vec<Option<&'h Table>>) -> HeldTables<'h> {
        HeldTables {
            arena,
            tables,
            by_slot: HashMap::new(),
            counted: Cell::new(0),
        }
    }

    /// Counts what the arena has grown by as the statement's.
    fn count(&self, exec: &Exec<'_>) -> Run<()> {
        let now = self.arena.allocated_bytes();
        let grown = now.saturating_sub(self.counted.replace(now));
        Ok(exec.shared.states.hold(grown as u64)?)
    }

    /// All rows that a step may need; read at the first time.
    pub(super) fn rows<'x: 'h>(
        &mut self,
        step: &'h Step,
        origin: &'h Origin,
        exec: &mut Exec<'x>,
    ) -> Run<Rc<Held<'h>>> {
        if let Some(held) = self.by_slot.get(&step.slot) {
            return Ok(held.clone());
        }
        let arena: &'h Bump = self.arena;
        self.counted.set(arena.allocated_bytes());
        let rows: Vec<Slot<'h>> = match origin {
            Origin::Virtual(table) => {
                let rows = exec.server.rows(table.database, table.name)?;
                let cx = cx_of(exec, arena);
                rows.iter().map(|r| slot_of(r, &cx)).collect()
            }
            Origin::Derived(derived) => {
                let rows = derived::rows(derived, &[], exec)?;
                let cx = cx_of(exec, arena);
                rows.rows.iter().map(|r| slot_of(r, &cx)).collect()
            }
            Origin::Stored(table) => self.read_table(step, table, exec)?,
        };
        let by_key = match step.hash.is_empty() {
            true => None,
            false => self.hashed(step, &rows, exec)?,
        };
        self.count(exec)?;
        exec.shared.states.hold((rows.len() * BESIDE) as u64)?;
        let held = Rc::new(Held { rows, by_key });
        self.by_slot.insert(step.slot, held.clone());
        Ok(held)
    }

    /// A row of which nothing is joined yet.
    fn empty(&self) -> Tuple<'h> {
        let arena: &'h Bump = self.arena;
        arena.alloc_slice_fill_copy(self.tables.len(), Slot::Null)
    }

    fn hashed<'x: 'h>(
        &self,
        step: &'h Step,
        rows: &[Slot<'h>],
        exec: &Exec<'x>,
    ) -> Run<Option<ByKey<'h>>> {
        let arena: &'h Bump = self.arena;
        let cx = cx_of(exec, arena);
        if let Some((_, own)) = number_key(step, &self.tables, &cx)
            && let Some(by_key) = ByKey::of_numbers(rows, (step.slot, &own))
        {
            return Ok(Some(by_key));
        }
        let mut by_key = ByKey::of_bytes(rows.len());
        let mut tuple = self.empty().to_vec();
        let mut key = Vec::new();
        let mut pacer = Pacer::new();
        // From the last on, so that chains run in the order of the rows.
        for (at, row) in rows.iter().enumerate().rev() {
            pacer.tick()?;
            if let Some(place) = tuple.get_mut(step.slot) {
                *place = *row;
            }
            key.clear();
            let mut null = false;
            for part in &step.hash {
                let value = eval(&part.own, &tuple, &cx)?;
                null |= value.is_null();
                if !null && !append_comparable(value, &part.own.ty, part.how, &cx, &mut key)? {
                    return Ok(None);
                }
            }
            if null {
                continue;
            }
            by_key.insert_before(&key, at, arena);
        }
        Ok(Some(by_key))
    }

    fn read_table<'x: 'h>(
        &self,
        step: &'h Step,
        table: &'h Table,
        exec: &mut Exec<'x>,
    ) -> Run<Vec<Slot<'h>>> {
        let held: &'h Bump = self.arena;
        let empty = self.empty();
        let mut cursor = Cursor::open(table, &step.access, empty, &cx_of(exec, held))?;
        // Conditions on this table alone hold rows off; the others are checked
        // when the other tables are there.
        let own = 1u64 << (step.slot & 63);
        let conditions: &'h [Expr] = match step.outer || step.semi.is_some() {
            true => &step.on,
            false => &step.filter,
        };
        let alone = |e: &&'h Expr| e.slots() == own && e.is_fixed() && step.lock.is_none();
        let alone: Vec<&'h Expr> = conditions.iter().filter(alone).collect();
        if step.lock.is_none() && is_shown(&step.access) {
            let simple = alone.into_iter().filter(|e| !e.has_query());
            let conditions = Conditions::of(simple.collect());
            return self.read_shown(step, table, (cursor, conditions), exec);
        }
        let mut rows: Vec<Slot<'h>> = Vec::new();
        let mut tuple = empty.to_vec();
        let at = (empty, false);
        while let Some(batch) = fetch_slots(step, table, &mut cursor, at, BATCH, exec, held)? {
            exec.check_cancelled()?;
            let cx = cx_of(exec, held);
            for found in batch {
                if let Some(place) = tuple.get_mut(step.slot) {
                    *place = found;
                }
                let mut keep = true;
                for condition in &alone {
                    keep = keep && logic::truth(condition, &tuple, &cx)? == Some(true);
                }
                if keep {
                    rows.push(found);
                }
            }
            self.count(exec)?;
            if rows.len() > MAX_HELD {
                return Err(too_many());
            }
        }
        Ok(rows)
    }

    /// The rows that conditions let through, which judge them where they lie.
    fn read_shown<'x: 'h>(
        &self,
        step: &'h Step,
        table: &'h Table,
        (mut cursor, mut conditions): (Cursor, Conditions<'h>),
        exec: &Exec<'x>,
    ) -> Run<Vec<Slot<'h>>> {
        let arena: &'h Bump = self.arena;
        let cx = cx_of(exec, arena);
        conditions.learn(&self.tables, &cx);
        let reach = Reach::of(step, table, &cx)?;
        let columns = match step.entries && !step.bare {
            true => table.columns_in_entries(cursor.index()),
            false => Vec::new(),
        };
        let mut kept = Keeping {
            step,
            table,
            tuple: self.empty().len(),
            conditions,
            cx,
            rows: Vec::new(),
            failed: None,
        };
        let mut more = true;
        while more && kept.failed.is_none() {
            exec.check_cancelled()?;
            let cursor = &mut cursor;
            more = match step.entries {
                true => {
                    let at = (exec, arena);
                    show_entries(table, &columns, cursor, &reach, at, SHOWN, &mut kept)?
                }
                false => show_rows(table, cursor, &reach, exec, SHOWN, &mut kept)?,
            };
            self.count(exec)?;
            if kept.rows.len() > MAX_HELD {
                return Err(too_many());
            }
        }
        match kept.failed {
            Some(stop) => Err(stop),
            None => Ok(kept.rows),
        }
    }
}

fn too_many() -> Stop {
    let text = "A join without a usable index needs too many rows";
    Stop::Error(SqlError::new(1104, "42000", text))
}

/// Keeps the rows that conditions let through.
struct Keeping<'h> {
    step: &'h Step,
    table: &'h Table,
    /// Slots of a joined row.
    tuple: usize,
    conditions: Conditions<'h>,
    cx: EvalCx<'h>,
    rows: Vec<Slot<'h>>,
    failed: Option<Stop>,
}

impl Keeping<'_> {
    fn judged(&mut self, slot: Slot<'_>) -> Run<()> {
        let mut tuple: SmallVec<[Slot<'_>; 4]> = smallvec![Slot::Null; self.tuple];
        if let Some(place) = tuple.get_mut(self.step.slot) {
            *place = slot;
        }
        if self.conditions.hold(&tuple, &self.cx)? {
            let kept = copied_slot(slot, self.table, self.cx.arena)?;
            self.rows.push(kept);
        }
        Ok(())
    }
}

impl Shown for Keeping<'_> {
    fn slot(&mut self, slot: Slot<'_>) {
        if self.failed.is_none()
            && let Err(stop) = self.judged(slot)
        {
            self.fail(stop);
        }
    }

    fn fail(&mut self, stop: Stop) {
        self.failed.get_or_insert(stop);
    }

    fn is_over(&self) -> bool {
        self.failed.is_some()
    }
}
