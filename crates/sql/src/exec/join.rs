//! Nested-loop joins, a batch at a time, and hash joins.
//!
//! A batch of rows of the tables joined so far is extended by the next step:
//! the keys of the whole batch are made, those that are equal are asked for
//! once, and one call fetches them all. A table that no index leads to is
//! read once and held; where an equality connects it with what is joined
//! already, its rows are found through a hash table, and otherwise compared
//! one by one. Derived tables are held in the same way.
//!
//! Invariants:
//! 1. The hash table only narrows: every condition is checked again.
//! 2. A group (the right side of an outer join of several tables) is joined
//!    for a batch as a whole; each row of the batch without a match goes on
//!    alone, once.

use super::fetch::{self, Cursor, Entry, Fetched};
use super::lookup::{ByKey, lookup};
use super::profile::Role;
use super::reach::Reach;
use super::select::{all_true, cx_of};
use super::state::{RowSet, append_comparable};
use super::{Exec, Run, Stop, derived};
use crate::bind::Origin;
use crate::error::SqlError;
use crate::expr::eval::{EvalCx, Slot, eval};
use crate::expr::{Expr, logic};
use crate::plan::{Access, SelectPlan, Step};
use bumpalo::Bump;
use porpoise_rows::RowRef;
use porpoise_rows::catalog::Table;
use porpoise_types::Value;
use std::collections::HashMap;
use std::rc::Rc;

/// Rows of the first table in one batch.
const BATCH: usize = 256;

/// Rows of a table without an index for the join that are held at most.
const MAX_HELD: usize = 4_000_000;

/// What a joined row is handed to; false ends the query.
pub type Consumer<'c> = dyn for<'r> FnMut(&[Slot<'r>], &EvalCx<'r>) -> Run<bool> + 'c;

/// A row of all tables joined so far; the slots of the others are empty.
pub(super) type Tuple<'a> = &'a [Slot<'a>];

/// Runs the join and hands every joined row to the consumer. `wanted` rows
/// are enough for it.
pub fn join(
    plan: &SelectPlan,
    exec: &mut Exec<'_>,
    wanted: u64,
    consume: &mut Consumer<'_>,
) -> Run<()> {
    let Some(first) = plan.steps.first() else {
        let arena = Bump::new();
        consume(&[], &cx_of(exec, &arena))?;
        return Ok(());
    };
    let held = Bump::new();
    let mut inner = Inner {
        plan,
        held: &held,
        full: HashMap::new(),
    };
    let mut first_rows = FirstRows::open(plan, first, wanted, exec)?;
    let mut arena = Bump::new();
    let mut loops = 1;
    loop {
        exec.check_cancelled()?;
        arena.reset();
        let since = exec.begin_part();
        let tuples = first_rows.next(plan, first, exec, &arena)?;
        let rows = tuples.as_ref().map_or(0, Vec::len) as u64;
        exec.end_part(first, Role::Step, (std::mem::take(&mut loops), rows), since);
        let Some(tuples) = tuples else {
            return Ok(());
        };
        let rest = plan.steps.get(1..).unwrap_or_default();
        if !inner.go_on(rest, tuples, exec, &arena, consume)? {
            return Ok(());
        }
    }
}

/// The rows of the first step, batch after batch.
enum FirstRows {
    Stored { cursor: Cursor, batch: usize },
    Virtual { rows: Vec<Vec<Value>>, done: bool },
    Derived { rows: Rc<RowSet>, next: usize },
}

impl FirstRows {
    fn open(plan: &SelectPlan, step: &Step, wanted: u64, exec: &mut Exec<'_>) -> Run<FirstRows> {
        let Some(source) = plan.sources.get(step.slot) else {
            return Err(Stop::Error(SqlError::internal("a step without a table")));
        };
        let table = match &source.origin {
            Origin::Stored(table) => table,
            Origin::Virtual(table) => {
                let rows = exec.server.rows(table.database, table.name)?;
                return Ok(FirstRows::Virtual { rows, done: false });
            }
            Origin::Derived(rows) => {
                let rows = derived::rows(rows, &[], exec)?;
                return Ok(FirstRows::Derived { rows, next: 0 });
            }
        };
        let arena = Bump::new();
        let cursor = Cursor::open(table, &step.access, &[], &cx_of(exec, &arena))?;
        let few = plan.steps.len() == 1 && wanted < BATCH as u64;
        let batch = match few {
            true => usize::try_from(wanted).unwrap_or(BATCH),
            false => BATCH,
        };
        Ok(FirstRows::Stored { cursor, batch })
    }

    fn next<'a, 'x: 'a>(
        &mut self,
        plan: &'a SelectPlan,
        step: &'a Step,
        exec: &mut Exec<'x>,
        arena: &'a Bump,
    ) -> Run<Option<Vec<Tuple<'a>>>> {
        let empty: Tuple<'a> = arena.alloc_slice_fill_copy(plan.sources.len(), Slot::Null);
        match self {
            FirstRows::Virtual { done: true, .. } => Ok(None),
            FirstRows::Virtual { rows, done } => {
                *done = true;
                values_that_match(step, rows.iter(), empty, exec, arena).map(Some)
            }
            FirstRows::Derived { rows, next } => {
                let batch = rows.rows.iter().skip(*next).take(BATCH);
                *next += BATCH;
                if batch.len() == 0 {
                    return Ok(None);
                }
                values_that_match(step, batch, empty, exec, arena).map(Some)
            }
            FirstRows::Stored { cursor, batch } => {
                let table = plan.sources.get(step.slot).and_then(|s| s.table());
                let Some(table) = table else {
                    return Ok(None);
                };
                let at = (empty, true);
                let Some(slots) = fetch_slots(step, table, cursor, at, *batch, exec, arena)? else {
                    return Ok(None);
                };
                let cx = cx_of(exec, arena);
                let mut out = Vec::with_capacity(slots.len());
                for slot in slots {
                    let tuple = extended(empty, step.slot, slot, arena);
                    if step.lock.is_some() || all_true(&step.filter, tuple, &cx)? {
                        out.push(tuple);
                    }
                }
                Ok(Some(out))
            }
        }
    }
}

/// Rows of values as tuples, those that the step's conditions let through.
fn values_that_match<'a, 'r, 'x: 'a>(
    step: &'a Step,
    rows: impl Iterator<Item = &'r Vec<Value>>,
    empty: Tuple<'a>,
    exec: &Exec<'x>,
    arena: &'a Bump,
) -> Run<Vec<Tuple<'a>>> {
    let cx = cx_of(exec, arena);
    let mut out = Vec::new();
    for row in rows {
        let tuple = extended(empty, step.slot, slot_of(row, &cx), arena);
        if all_true(&step.filter, tuple, &cx)? {
            out.push(tuple);
        }
    }
    Ok(out)
}

/// A fetched row as a slot; with its key where it was locked.
pub(super) fn slot_of_row<'a>(step: &Step, row: Fetched<'a>, arena: &'a Bump) -> Slot<'a> {
    match step.lock {
        Some(_) => Slot::Keyed(arena.alloc(row)),
        None => Slot::Row(row.row),
    }
}

/// Values as a slot, in the arena.
fn slot_of<'a>(row: &[Value], cx: &EvalCx<'a>) -> Slot<'a> {
    let values = row.iter().map(|v| crate::expr::convert::keep(v, cx));
    Slot::Values(cx.arena.alloc_slice_fill_iter(values))
}

fn extended<'a>(tuple: Tuple<'a>, slot: usize, value: Slot<'a>, arena: &'a Bump) -> Tuple<'a> {
    let fresh = arena.alloc_slice_copy(tuple);
    if let Some(place) = fresh.get_mut(slot) {
        *place = value;
    }
    fresh
}

/// One batch of a step's rows, beside a row of the tables joined before; with
/// a lock, the newest versions, locked. Where rows are judged, those that do
/// not match are left out and unlocked again.
pub fn fetch_step<'a, 'x: 'a>(
    step: &'a Step,
    table: &'a Table,
    cursor: &mut Cursor,
    (tuple, judged): (Tuple<'a>, bool),
    limit: usize,
    exec: &mut Exec<'x>,
    arena: &'a Bump,
) -> Run<Option<Vec<Fetched<'a>>>> {
    let cx = cx_of(exec, arena);
    let reach = Reach::of(step, table, &cx)?;
    let Some(lock) = step.lock else {
        return cursor.next(table, &reach, exec, limit, arena);
    };
    let since = exec.txn().mark();
    let mut matches = |candidate: RowRef<'a>| -> Run<bool> {
        if !judged {
            return Ok(true);
        }
        let tuple = extended(tuple, step.slot, Slot::Row(candidate), arena);
        Ok(all_true(&step.on, tuple, &cx)? && all_true(&step.filter, tuple, &cx)?)
    };
    let rows = cursor.next_locked(table, (lock, &reach), exec, limit, arena, &mut matches)?;
    let Some(rows) = rows else {
        return Ok(None);
    };
    let mut kept = Vec::with_capacity(rows.len());
    let mut lost: Vec<&[u8]> = Vec::new();
    for row in rows {
        match matches(row.row)? {
            true => kept.push(row),
            false => lost.push(row.key),
        }
    }
    fetch::unlock(table, &lost, since, exec);
    Ok(Some(kept))
}

/// As [`fetch_step`], as slots; of entries only where they are enough.
fn fetch_slots<'a, 'x: 'a>(
    step: &'a Step,
    table: &'a Table,
    cursor: &mut Cursor,
    at: (Tuple<'a>, bool),
    limit: usize,
    exec: &mut Exec<'x>,
    arena: &'a Bump,
) -> Run<Option<Vec<Slot<'a>>>> {
    if step.entries {
        let entries = fetch_entries(step, table, cursor, limit, exec, arena)?;
        return Ok(entries.map(|entries| entries.into_iter().map(|e| e.slot).collect()));
    }
    let rows = fetch_step(step, table, cursor, at, limit, exec, arena)?;
    let slots = |row| slot_of_row(step, row, arena);
    Ok(rows.map(|rows| rows.into_iter().map(slots).collect()))
}

/// One batch of the entries of a step's index.
pub(super) fn fetch_entries<'a, 'x: 'a>(
    step: &'a Step,
    table: &'a Table,
    cursor: &mut Cursor,
    limit: usize,
    exec: &mut Exec<'x>,
    arena: &'a Bump,
) -> Run<Option<Vec<Entry<'a>>>> {
    let cx = cx_of(exec, arena);
    let reach = Reach::of(step, table, &cx)?;
    let width = if step.bare { 0 } else { table.columns.len() };
    cursor.next_entries(table, (&reach, width), exec, limit, arena)
}

/// A row of a batch with the number of the row that it grew from.
type Grown<'a> = (usize, Tuple<'a>);

/// Rows held for a step, and how they are found.
struct Held<'h> {
    rows: Vec<Slot<'h>>,
    /// By the encoded values of the step's equalities; `None` where they
    /// cannot be encoded.
    by_key: Option<ByKey<'h>>,
}

/// The steps after the first.
struct Inner<'h> {
    plan: &'h SelectPlan,
    held: &'h Bump,
    /// Rows of steps without an index, by slot.
    full: HashMap<usize, Rc<Held<'h>>>,
}

impl<'h> Inner<'h> {
    /// Extends the batch by these steps; false when the consumer has enough.
    fn go_on<'a, 'x: 'a + 'h>(
        &mut self,
        steps: &'h [Step],
        tuples: Vec<Tuple<'a>>,
        exec: &mut Exec<'x>,
        arena: &'a Bump,
        consume: &mut Consumer<'_>,
    ) -> Run<bool>
    where
        'h: 'a,
    {
        let Some((step, rest)) = steps.split_first() else {
            let cx = cx_of(exec, arena);
            for tuple in tuples {
                if !consume(tuple, &cx)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        };
        for part in tuples.chunks(BATCH) {
            exec.check_cancelled()?;
            let batch = part.iter().copied().enumerate().collect();
            let grown = self.extend(step, batch, exec, arena)?;
            let joined = grown.into_iter().map(|(_, tuple)| tuple).collect();
            if !self.go_on(rest, joined, exec, arena, consume)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The rows of the batch with what the step adds to them.
    fn extend<'a, 'x: 'a + 'h>(
        &mut self,
        step: &'h Step,
        batch: Vec<Grown<'a>>,
        exec: &mut Exec<'x>,
        arena: &'a Bump,
    ) -> Run<Vec<Grown<'a>>>
    where
        'h: 'a,
    {
        let (since, loops) = (exec.begin_part(), batch.len() as u64);
        let grown = match step.group.is_empty() {
            true => self.extend_by_rows(step, batch, exec, arena)?,
            false => self.extend_by_group(step, batch, exec, arena)?,
        };
        exec.end_part(step, Role::Step, (loops, grown.len() as u64), since);
        Ok(grown)
    }

    /// By the rows of one table.
    fn extend_by_rows<'a, 'x: 'a + 'h>(
        &mut self,
        step: &'h Step,
        batch: Vec<Grown<'a>>,
        exec: &mut Exec<'x>,
        arena: &'a Bump,
    ) -> Run<Vec<Grown<'a>>>
    where
        'h: 'a,
    {
        let candidates = self.candidates(step, &batch, exec, arena)?;
        let cx = cx_of(exec, arena);
        let mut out = Vec::with_capacity(batch.len());
        for ((from, tuple), slots) in batch.into_iter().zip(candidates) {
            let mut found = false;
            for slot in slots.iter(&self.full) {
                let joined = extended(tuple, step.slot, slot, arena);
                if !all_true(&step.on, joined, &cx)? {
                    continue;
                }
                found = true;
                if step.semi.is_some() {
                    break;
                }
                if all_true(&step.filter, joined, &cx)? {
                    out.push((from, joined));
                }
            }
            let alone = match step.semi {
                Some(anti) => found != anti,
                None => step.outer && !found,
            };
            if alone && all_true(&step.filter, tuple, &cx)? {
                out.push((from, tuple));
            }
        }
        Ok(out)
    }

    /// The right side of an outer join of several tables.
    fn extend_by_group<'a, 'x: 'a + 'h>(
        &mut self,
        step: &'h Step,
        batch: Vec<Grown<'a>>,
        exec: &mut Exec<'x>,
        arena: &'a Bump,
    ) -> Run<Vec<Grown<'a>>>
    where
        'h: 'a,
    {
        let numbered = batch.iter().enumerate();
        let mut grown: Vec<Grown<'a>> = numbered.map(|(at, (_, tuple))| (at, *tuple)).collect();
        for inner in &step.group {
            let mut next = Vec::with_capacity(grown.len());
            for part in grown.chunks(BATCH) {
                exec.check_cancelled()?;
                next.extend(self.extend(inner, part.to_vec(), exec, arena)?);
            }
            grown = next;
        }
        let cx = cx_of(exec, arena);
        let mut out = Vec::with_capacity(batch.len());
        let mut grown = grown.into_iter().peekable();
        for (at, (from, tuple)) in batch.into_iter().enumerate() {
            let mut found = false;
            while let Some((_, joined)) = grown.next_if(|(of, _)| *of == at) {
                found = true;
                if all_true(&step.filter, joined, &cx)? {
                    out.push((from, joined));
                }
            }
            if !found && step.outer && all_true(&step.filter, tuple, &cx)? {
                out.push((from, tuple));
            }
        }
        Ok(out)
    }

    /// The rows that may belong to each row of the batch.
    fn candidates<'a, 'x: 'a + 'h>(
        &mut self,
        step: &'h Step,
        batch: &[Grown<'a>],
        exec: &mut Exec<'x>,
        arena: &'a Bump,
    ) -> Run<Vec<Candidates<'a>>>
    where
        'h: 'a,
    {
        let plan: &'h SelectPlan = self.plan;
        let Some(source) = plan.sources.get(step.slot) else {
            return Err(Stop::Error(SqlError::internal("a step without a table")));
        };
        match (&source.origin, &step.access) {
            (Origin::Stored(table), Access::Lookup { .. }) if !step.held => {
                let tuples: Vec<Tuple<'a>> = batch.iter().map(|(_, tuple)| *tuple).collect();
                let found = lookup(step, table, &tuples, exec, arena)?;
                return Ok(found.into_iter().map(Candidates::Found).collect());
            }
            (Origin::Derived(derived), _) if derived.free.iter().any(|f| f.level == 1) => {
                let cx = cx_of(exec, arena);
                let mut out = Vec::with_capacity(batch.len());
                for (_, tuple) in batch {
                    let rows = derived::rows(derived, tuple, exec)?;
                    let slots = rows.rows.iter().map(|r| slot_of(r, &cx)).collect();
                    out.push(Candidates::Found(slots));
                }
                return Ok(out);
            }
            _ => {}
        }
        let held = self.read_once(step, &source.origin, exec)?;
        let Some(by_key) = &held.by_key else {
            return Ok(vec![Candidates::All(step.slot); batch.len()]);
        };
        let cx = cx_of(exec, arena);
        let mut out = Vec::with_capacity(batch.len());
        let mut key = Vec::new();
        for (_, tuple) in batch {
            key.clear();
            let mut known = true;
            for part in &step.hash {
                let value = eval(&part.known, tuple, &cx)?;
                known &= append_comparable(value, &part.known.ty, part.how, &cx, &mut key)?;
            }
            // What has no encoding is NULL, and equal to nothing.
            let rows = known.then(|| by_key.rows(&key)).into_iter().flatten();
            let slots = rows.filter_map(|at| held.rows.get(at).copied()).collect();
            out.push(Candidates::Found(slots));
        }
        Ok(out)
    }

    /// Reads all rows that a step without an index may need, once.
    fn read_once<'x: 'h>(
        &mut self,
        step: &'h Step,
        origin: &'h Origin,
        exec: &mut Exec<'x>,
    ) -> Run<Rc<Held<'h>>> {
        if let Some(held) = self.full.get(&step.slot) {
            return Ok(held.clone());
        }
        let arena: &'h Bump = self.held;
        let before = arena.allocated_bytes();
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
        let grown = arena.allocated_bytes().saturating_sub(before);
        exec.shared.states.hold(grown as u64)?;
        let by_key = match step.hash.is_empty() {
            true => None,
            false => self.hashed(step, &rows, exec)?,
        };
        let held = Rc::new(Held { rows, by_key });
        self.full.insert(step.slot, held.clone());
        Ok(held)
    }

    fn hashed<'x: 'h>(
        &self,
        step: &'h Step,
        rows: &[Slot<'h>],
        exec: &Exec<'x>,
    ) -> Run<Option<ByKey<'h>>> {
        let arena: &'h Bump = self.held;
        let cx = cx_of(exec, arena);
        let empty: Tuple<'h> = arena.alloc_slice_fill_copy(self.plan.sources.len(), Slot::Null);
        let mut by_key = ByKey::new(rows.len());
        let mut tuple = empty.to_vec();
        let mut key = Vec::new();
        // From the last on, so that chains run in the order of the rows.
        for (at, row) in rows.iter().enumerate().rev() {
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
        let held: &'h Bump = self.held;
        let empty: Tuple<'h> = held.alloc_slice_fill_copy(self.plan.sources.len(), Slot::Null);
        let mut cursor = Cursor::open(table, &step.access, empty, &cx_of(exec, held))?;
        let mut rows: Vec<Slot<'h>> = Vec::new();
        // Conditions on this table alone hold rows off; the others are checked
        // when the other tables are there.
        let own = 1u64 << (step.slot & 63);
        let conditions: &'h [Expr] = match step.outer || step.semi.is_some() {
            true => &step.on,
            false => &step.filter,
        };
        let alone = |e: &&'h Expr| e.slots() == own && e.is_fixed() && step.lock.is_none();
        let alone: Vec<&'h Expr> = conditions.iter().filter(alone).collect();
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
            if rows.len() > MAX_HELD {
                let text = "A join without a usable index needs too many rows";
                return Err(Stop::Error(SqlError::new(1104, "42000", text)));
            }
        }
        Ok(rows)
    }
}

/// The rows that may belong to one row of a batch.
#[derive(Clone)]
enum Candidates<'a> {
    /// These.
    Found(Vec<Slot<'a>>),
    /// All that are held for the slot.
    All(usize),
}

impl<'a> Candidates<'a> {
    fn iter<'s, 'h: 'a>(
        &'s self,
        full: &'s HashMap<usize, Rc<Held<'h>>>,
    ) -> impl Iterator<Item = Slot<'a>> + 's {
        let rows: &[Slot<'a>] = match self {
            Candidates::Found(rows) => rows,
            Candidates::All(slot) => full.get(slot).map_or(&[], |held| held.rows.as_slice()),
        };
        rows.iter().copied()
    }
}
