//! Nested-loop joins, a batch at a time.
//!
//! A batch of rows of the tables joined so far is extended by the next step:
//! the keys of the whole batch are made, those that are equal are asked for
//! once, and one call fetches them all. A table that no index leads to is
//! read once and held.
//!
//! Rejected for now: hash joins; a table without an index for its join is
//! compared row by row.

use super::fetch::{self, Cursor, Fetched};
use super::select::{all_true, cx_of};
use super::{Exec, Run, Stop, keys};
use crate::bind::Origin;
use crate::error::SqlError;
use crate::expr::eval::{EvalCx, Slot};
use crate::plan::{Access, SelectPlan, Step};
use bumpalo::Bump;
use porpoise_rows::catalog::Table;
use porpoise_rows::{KeyRange, RowRef, ScanPosition, ScanSpec};
use porpoise_types::{Value, ValueRef};
use std::collections::HashMap;

/// Rows of the first table in one batch.
const BATCH: usize = 256;

/// Rows of a table without an index for the join that are held at most.
const MAX_HELD: usize = 4_000_000;

/// What a joined row is handed to; false ends the query.
pub type Consumer<'c> = dyn for<'r> FnMut(&[Slot<'r>], &EvalCx<'r>) -> Run<bool> + 'c;

/// A row of all tables joined so far; the slots of the others are empty.
type Tuple<'a> = &'a [Slot<'a>];

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
    loop {
        exec.check_cancelled()?;
        arena.reset();
        let Some(tuples) = first_rows.next(plan, first, exec, &arena)? else {
            return Ok(());
        };
        if !inner.go_on(1, tuples, exec, &arena, consume)? {
            return Ok(());
        }
    }
}

/// The rows of the first step, batch after batch.
enum FirstRows {
    Stored { cursor: Cursor, batch: usize },
    Virtual { rows: Vec<Vec<Value>>, done: bool },
}

impl FirstRows {
    fn open(plan: &SelectPlan, step: &Step, wanted: u64, exec: &mut Exec<'_>) -> Run<FirstRows> {
        let Some(source) = plan.sources.get(step.slot) else {
            return Err(Stop::Error(SqlError::internal("a step without a table")));
        };
        let table = match &source.origin {
            Origin::Stored(table) => table,
            Origin::Virtual(table) => {
                let rows = exec.server.rows(table.database, table.name);
                return Ok(FirstRows::Virtual { rows, done: false });
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
                let cx = cx_of(exec, arena);
                let mut out = Vec::with_capacity(rows.len());
                for row in rows {
                    let values = arena.alloc_slice_fill_with(row.len(), |at| {
                        let value = row.get(at).unwrap_or(&Value::Null);
                        crate::expr::convert::keep(value, &cx)
                    });
                    let tuple = extended(empty, step.slot, Slot::Values(values), arena);
                    if all_true(&step.filter, tuple, &cx)? {
                        out.push(tuple);
                    }
                }
                Ok(Some(out))
            }
            FirstRows::Stored { cursor, batch } => {
                let table = plan.sources.get(step.slot).and_then(|s| s.table());
                let Some(table) = table else {
                    return Ok(None);
                };
                let rows = fetch_step(step, table, cursor, empty, *batch, exec, arena)?;
                let Some(rows) = rows else {
                    return Ok(None);
                };
                let cx = cx_of(exec, arena);
                let mut out = Vec::with_capacity(rows.len());
                for row in rows {
                    let tuple = extended(empty, step.slot, Slot::Row(row.row), arena);
                    if step.lock.is_some() || all_true(&step.filter, tuple, &cx)? {
                        out.push(tuple);
                    }
                }
                Ok(Some(out))
            }
        }
    }
}

fn extended<'a>(tuple: Tuple<'a>, slot: usize, value: Slot<'a>, arena: &'a Bump) -> Tuple<'a> {
    let fresh = arena.alloc_slice_copy(tuple);
    if let Some(place) = fresh.get_mut(slot) {
        *place = value;
    }
    fresh
}

/// One batch of a step's rows; with a lock, only those whose newest version
/// matches, locked.
pub fn fetch_step<'a, 'x: 'a>(
    step: &'a Step,
    table: &'a Table,
    cursor: &mut Cursor,
    tuple: Tuple<'a>,
    limit: usize,
    exec: &mut Exec<'x>,
    arena: &'a Bump,
) -> Run<Option<Vec<Fetched<'a>>>> {
    let Some(lock) = step.lock else {
        return cursor.next(table, exec, limit, arena);
    };
    let since = exec.txn.mark();
    let cx = cx_of(exec, arena);
    let mut matches = |candidate: RowRef<'a>| -> Run<bool> {
        let tuple = extended(tuple, step.slot, Slot::Row(candidate), arena);
        Ok(all_true(&step.on, tuple, &cx)? && all_true(&step.filter, tuple, &cx)?)
    };
    let rows = cursor.next_locked(table, lock, exec, limit, arena, &mut matches)?;
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

/// The steps after the first.
struct Inner<'h> {
    plan: &'h SelectPlan,
    held: &'h Bump,
    /// Rows of steps without an index, by step.
    full: HashMap<usize, Vec<RowRef<'h>>>,
}

impl<'h> Inner<'h> {
    /// Extends the batch by the steps from `at` on; false when the consumer
    /// has enough.
    fn go_on<'a, 'x: 'a + 'h>(
        &mut self,
        at: usize,
        tuples: Vec<Tuple<'a>>,
        exec: &mut Exec<'x>,
        arena: &'a Bump,
        consume: &mut Consumer<'_>,
    ) -> Run<bool>
    where
        'h: 'a,
    {
        let Some(step) = self.plan.steps.get(at) else {
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
            let joined = self.extend(at, step, part, exec, arena)?;
            if !self.go_on(at + 1, joined, exec, arena, consume)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn extend<'a, 'x: 'a + 'h>(
        &mut self,
        at: usize,
        step: &'h Step,
        tuples: &[Tuple<'a>],
        exec: &mut Exec<'x>,
        arena: &'a Bump,
    ) -> Run<Vec<Tuple<'a>>>
    where
        'h: 'a,
    {
        let plan: &'h SelectPlan = self.plan;
        let Some(source) = plan.sources.get(step.slot) else {
            return Ok(Vec::new());
        };
        let matches: Vec<Vec<Slot<'a>>> = match (&source.origin, &step.access) {
            (Origin::Virtual(table), _) => {
                let rows = exec.server.rows(table.database, table.name);
                let cx = cx_of(exec, arena);
                let mut slots: Vec<Slot<'a>> = Vec::with_capacity(rows.len());
                for row in &rows {
                    let values = arena.alloc_slice_fill_with(row.len(), |at| {
                        crate::expr::convert::keep(row.get(at).unwrap_or(&Value::Null), &cx)
                    });
                    slots.push(Slot::Values(values));
                }
                vec![slots; tuples.len()]
            }
            (Origin::Stored(table), Access::Lookup { .. }) => {
                lookup(step, table, tuples, exec, arena)?
            }
            (Origin::Stored(table), _) => {
                self.read_once(at, step, table, exec)?;
                let rows = self.full.get(&at).map_or(&[][..], Vec::as_slice);
                let slots: Vec<Slot<'a>> = rows.iter().map(|r| Slot::Row(*r)).collect();
                vec![slots; tuples.len()]
            }
        };
        let cx = cx_of(exec, arena);
        let mut out = Vec::with_capacity(tuples.len());
        for (tuple, slots) in tuples.iter().zip(matches) {
            let mut found = false;
            for slot in slots {
                let joined = extended(tuple, step.slot, slot, arena);
                if all_true(&step.on, joined, &cx)? {
                    found = true;
                    if all_true(&step.filter, joined, &cx)? {
                        out.push(joined);
                    }
                }
            }
            if step.outer && !found {
                let alone = extended(tuple, step.slot, Slot::Null, arena);
                if all_true(&step.filter, alone, &cx)? {
                    out.push(alone);
                }
            }
        }
        Ok(out)
    }

    /// Reads all rows that a step without an index may need, once.
    fn read_once<'x>(
        &mut self,
        at: usize,
        step: &'h Step,
        table: &'h Table,
        exec: &mut Exec<'x>,
    ) -> Run<()>
    where
        'x: 'h,
    {
        if self.full.contains_key(&at) {
            return Ok(());
        }
        let held: &'h Bump = self.held;
        let empty: Tuple<'h> = held.alloc_slice_fill_copy(self.plan.sources.len(), Slot::Null);
        let mut cursor = Cursor::open(table, &step.access, empty, &cx_of(exec, held))?;
        let mut rows: Vec<RowRef<'h>> = Vec::new();
        // Conditions that need other tables are checked when those are there.
        let plain = Step {
            on: Vec::new(),
            filter: Vec::new(),
            ..step.clone()
        };
        let plain: &'h Step = held.alloc(plain);
        while let Some(batch) = fetch_step(plain, table, &mut cursor, empty, BATCH, exec, held)? {
            exec.check_cancelled()?;
            rows.extend(batch.iter().map(|f| f.row));
            if rows.len() > MAX_HELD {
                let text = "A join without a usable index needs too many rows";
                return Err(Stop::Error(SqlError::new(1104, "42000", text)));
            }
        }
        self.full.insert(at, rows);
        Ok(())
    }
}

/// For each tuple the rows that its key finds; one call for all of them.
fn lookup<'a, 'x: 'a>(
    step: &'a Step,
    table: &'a Table,
    tuples: &[Tuple<'a>],
    exec: &mut Exec<'x>,
    arena: &'a Bump,
) -> Run<Vec<Vec<Slot<'a>>>> {
    let Access::Lookup {
        index,
        keys: parts,
        whole,
        reverse,
    } = &step.access
    else {
        return Ok(Vec::new());
    };
    let mut of_tuple: Vec<Vec<usize>> = Vec::with_capacity(tuples.len());
    let mut distinct: Vec<Vec<u8>> = Vec::new();
    let mut known: HashMap<Vec<u8>, usize> = HashMap::new();
    let cx = cx_of(exec, arena);
    for tuple in tuples {
        let mut mine = Vec::with_capacity(1);
        for key in parts {
            if let Some(encoded) = keys::prefix(table, *index, key, tuple, &cx)? {
                let next = distinct.len();
                let at = *known.entry(encoded.clone()).or_insert(next);
                if at == next {
                    distinct.push(encoded);
                }
                mine.push(at);
            }
        }
        mine.sort_unstable();
        mine.dedup();
        of_tuple.push(mine);
    }
    let mut cursor = match whole {
        true => Cursor::Keys {
            index: *index,
            keys: distinct.clone(),
            done: false,
        },
        false => Cursor::Scan {
            spec: ScanSpec {
                index: *index,
                ranges: distinct.iter().cloned().map(KeyRange::prefix).collect(),
                reverse: *reverse,
                entries_only: false,
            },
            position: ScanPosition::default(),
        },
    };
    // Conditions are checked tuple by tuple afterwards; a lock is taken on
    // every row that a key leads to.
    let plain: &'a Step = arena.alloc(Step {
        on: Vec::new(),
        filter: Vec::new(),
        ..step.clone()
    });
    let mut found: Vec<Vec<Slot<'a>>> = vec![Vec::new(); distinct.len()];
    let used = parts.first().map_or(0, Vec::len);
    while let Some(batch) = fetch_step(plain, table, &mut cursor, &[], 4096, exec, arena)? {
        for row in batch {
            let key = leading_key(table, *index, used, row.row);
            if let Some(at) = known.get(&key).and_then(|at| found.get_mut(*at)) {
                at.push(Slot::Row(row.row));
            }
        }
    }
    let rows_of = |mine: &Vec<usize>| {
        let lists = mine.iter().filter_map(|at| found.get(*at));
        lists.flatten().copied().collect()
    };
    Ok(of_tuple.iter().map(rows_of).collect())
}

/// The encoded leading parts of a row in an index.
fn leading_key(table: &Table, index: usize, parts: usize, row: RowRef<'_>) -> Vec<u8> {
    let Some(definition) = table.indexes.get(index) else {
        return Vec::new();
    };
    let values: smallvec::SmallVec<[ValueRef<'_>; 4]> = definition
        .parts
        .iter()
        .take(parts)
        .map(|part| row.get(part.column))
        .collect();
    table.key_prefix(index, &values)
}
