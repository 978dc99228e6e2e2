//! Looking up what belongs to a whole batch of joined rows.
//!
//! The keys of all rows are made, those that are equal are asked for once, and
//! what comes back is handed to each row that asked for it.

use super::conditions::Conditions;
use super::fetch::Cursor;
use super::join::Tuple;
use super::reach::Reach;
use super::select::cx_of;
use super::show::{Shown, show_rows};
use super::step::{fetch_entries, fetch_step, slot_of_row};
use super::{Exec, Run, Stop, keys};
use crate::error::SqlError;
use crate::expr::Expr;
use crate::expr::eval::{EvalCx, Slot};
use crate::plan::{Access, Step};
use bumpalo::Bump;
use foldhash::fast::RandomState;
use porpoise_rows::catalog::Table;
use porpoise_rows::{KeyRange, RowRef, ScanPosition, ScanSpec};
use porpoise_types::ValueRef;
use smallvec::{SmallVec, smallvec};
use std::collections::HashMap;

/// The keys that a batch asks for.
struct Asked<'a> {
    /// Each once, in the order in which they came up.
    distinct: Vec<Vec<u8>>,
    /// Their positions in it.
    known: Known<'a>,
    /// The positions that each row of the batch asks for.
    of_tuple: Vec<SmallVec<[usize; 2]>>,
}

/// Positions by key.
type Known<'a> = HashMap<&'a [u8], usize, RandomState>;

/// For fewer keys conditions are checked as they stand.
const FEW: usize = 64;

/// Rows or entries fetched in one call.
const FETCHED: usize = 4096;

fn asked<'a, 'x: 'a>(
    table: &Table,
    (index, parts): (usize, &'a [Vec<Expr>]),
    tuples: &[Tuple<'a>],
    exec: &Exec<'x>,
    arena: &'a Bump,
) -> Run<Asked<'a>> {
    let mut asked = Asked {
        distinct: Vec::new(),
        known: HashMap::default(),
        of_tuple: Vec::with_capacity(tuples.len()),
    };
    let cx = cx_of(exec, arena);
    for tuple in tuples {
        let mut mine: SmallVec<[usize; 2]> = SmallVec::new();
        for key in parts {
            if let Some(encoded) = keys::prefix(table, index, key, tuple, &cx)? {
                let at = match asked.known.get(encoded.as_slice()) {
                    Some(at) => *at,
                    None => {
                        let at = asked.distinct.len();
                        asked.known.insert(arena.alloc_slice_copy(&encoded), at);
                        asked.distinct.push(encoded);
                        at
                    }
                };
                mine.push(at);
            }
        }
        mine.sort_unstable();
        mine.dedup();
        asked.of_tuple.push(mine);
    }
    Ok(asked)
}

fn cursor_of(index: usize, keys: Vec<Vec<u8>>, whole: bool, reverse: bool) -> Cursor {
    if whole {
        return Cursor::Keys {
            index,
            keys,
            done: false,
        };
    }
    Cursor::Scan {
        spec: ScanSpec {
            index,
            ranges: keys.into_iter().map(KeyRange::prefix).collect(),
            reverse,
            entries_only: false,
        },
        position: ScanPosition::default(),
    }
}

/// What a batch of rows found.
pub(super) struct LookedUp<'a> {
    /// By the position of the key.
    rows: Vec<SmallVec<[Slot<'a>; 1]>>,
    of_tuple: Vec<SmallVec<[usize; 2]>>,
}

impl<'a> LookedUp<'a> {
    /// What the row at this position of the batch found.
    pub(super) fn of(&self, tuple: usize) -> impl Iterator<Item = Slot<'a>> {
        let keys = self.of_tuple.get(tuple).into_iter().flatten();
        keys.filter_map(|at| self.rows.get(*at)).flatten().copied()
    }
}

/// For each tuple the rows that its key finds; one call for all of them.
pub(super) fn lookup<'a, 'x: 'a>(
    step: &'a Step,
    table: &'a Table,
    tuples: &[Tuple<'a>],
    exec: &mut Exec<'x>,
    arena: &'a Bump,
) -> Run<LookedUp<'a>> {
    let Access::Lookup {
        index,
        keys: parts,
        whole,
        reverse,
    } = &step.access
    else {
        return Err(Stop::Error(SqlError::internal("a look-up without keys")));
    };
    let asked = asked(table, (*index, parts), tuples, exec, arena)?;
    let rows = match *whole && step.lock.is_none() && !step.entries {
        true => one_by_key(step, table, (*index, &asked.distinct), exec, arena)?,
        false => {
            let used = parts.first().map_or(0, Vec::len);
            let cursor = cursor_of(*index, asked.distinct, *whole, *reverse);
            let keys = (cursor, &asked.known, used);
            match step.lock.is_none() && !step.entries {
                true => {
                    let width = tuples.first().map_or(0, |tuple| tuple.len());
                    several_judged(step, table, (keys, width), exec, arena)?
                }
                false => several(step, table, keys, exec, arena)?,
            }
        }
    };
    Ok(LookedUp {
        rows,
        of_tuple: asked.of_tuple,
    })
}

/// The rows of whole keys, each where its key stands.
fn one_by_key<'a, 'x: 'a>(
    step: &'a Step,
    table: &'a Table,
    (index, keys): (usize, &[Vec<u8>]),
    exec: &mut Exec<'x>,
    arena: &'a Bump,
) -> Run<Vec<SmallVec<[Slot<'a>; 1]>>> {
    let reach = Reach::of(step, table, &cx_of(exec, arena))?;
    let mut rows: Vec<SmallVec<[Slot<'a>; 1]>> = vec![SmallVec::new(); keys.len()];
    let allowed = keys.iter().enumerate();
    let allowed = allowed.filter(|(_, key)| reach.allows(table, index, key));
    let (places, wanted): (Vec<usize>, Vec<&[u8]>) =
        allowed.map(|(at, key)| (at, key.as_slice())).unzip();
    let mut bad = None;
    let read = exec.read();
    exec.txn().get_by_unique_with(
        table,
        index,
        &wanted,
        reach.blobs(),
        read,
        &mut |at, row| {
            let Some((_, row)) = row else {
                return;
            };
            let bytes: &'a [u8] = arena.alloc_slice_copy(row.bytes());
            let place = places.get(at).and_then(|at| rows.get_mut(*at));
            match (row.copied_to(table, bytes), place) {
                (Ok(row), Some(place)) => place.push(Slot::Row(row)),
                (Err(error), _) => bad = Some(error),
                _ => {}
            }
        },
    )?;
    match bad {
        Some(error) => Err(error.into()),
        None => Ok(rows),
    }
}

/// The rows that a cursor finds, each where its key stands.
fn several<'a, 'x: 'a>(
    step: &'a Step,
    table: &'a Table,
    (mut cursor, known, used): (Cursor, &Known<'_>, usize),
    exec: &mut Exec<'x>,
    arena: &'a Bump,
) -> Run<Vec<SmallVec<[Slot<'a>; 1]>>> {
    let index = step.access.index().unwrap_or(0);
    // Conditions are checked tuple by tuple afterwards; a lock is taken on
    // every row that a key leads to.
    let mut found: Vec<SmallVec<[Slot<'a>; 1]>> = vec![SmallVec::new(); known.len()];
    if step.entries {
        let mut ends = Vec::new();
        while let Some(batch) = fetch_entries(step, table, &mut cursor, FETCHED, exec, arena)? {
            for entry in batch {
                ends.clear();
                table.part_ends(index, entry.key, &mut ends);
                let end = used.checked_sub(1).and_then(|last| ends.get(last));
                let key = end.and_then(|end| entry.key.get(..*end));
                let at = key.and_then(|key| known.get(key));
                if let Some(at) = at.and_then(|at| found.get_mut(*at)) {
                    at.push(entry.slot);
                }
            }
        }
    }
    let at = (&[][..], false);
    while let Some(batch) = fetch_step(step, table, &mut cursor, at, FETCHED, exec, arena)? {
        for row in batch {
            let key = leading_key(table, index, used, row.row);
            if let Some(at) = known.get(key.as_slice()).and_then(|at| found.get_mut(*at)) {
                at.push(slot_of_row(step, row, arena));
            }
        }
    }
    Ok(found)
}

/// Puts rows where their keys stand, those that the step's conditions on this
/// table alone let through.
struct Placed<'k, 'a> {
    step: &'a Step,
    table: &'a Table,
    /// Slots of a joined row.
    width: usize,
    conditions: Conditions<'a>,
    cx: EvalCx<'a>,
    known: &'k Known<'k>,
    /// The index and how many of its parts a key has.
    index: (usize, usize),
    key: Vec<u8>,
    found: Vec<SmallVec<[Slot<'a>; 1]>>,
    failed: Option<Stop>,
}

impl Placed<'_, '_> {
    fn judged(&mut self, row: RowRef<'_>) -> Run<()> {
        let mut tuple: SmallVec<[Slot<'_>; 4]> = smallvec![Slot::Null; self.width];
        if let Some(place) = tuple.get_mut(self.step.slot) {
            *place = Slot::Row(row);
        }
        if !self.conditions.hold(&tuple, &self.cx)? {
            return Ok(());
        }
        let (index, parts) = self.index;
        self.key.clear();
        append_leading_key(self.table, index, parts, row, &mut self.key);
        let at = self.known.get(self.key.as_slice());
        if let Some(at) = at.and_then(|at| self.found.get_mut(*at)) {
            let bytes = self.cx.arena.alloc_slice_copy(row.bytes());
            at.push(Slot::Row(row.copied_to(self.table, bytes)?));
        }
        Ok(())
    }
}

impl Shown for Placed<'_, '_> {
    fn slot(&mut self, slot: Slot<'_>) {
        if let (Slot::Row(row), None) = (slot, &self.failed)
            && let Err(stop) = self.judged(row)
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

/// As [`several`], of rows that are judged where they lie.
fn several_judged<'a, 'x: 'a>(
    step: &'a Step,
    table: &'a Table,
    ((mut cursor, known, used), width): ((Cursor, &Known<'_>, usize), usize),
    exec: &mut Exec<'x>,
    arena: &'a Bump,
) -> Run<Vec<SmallVec<[Slot<'a>; 1]>>> {
    let cx = cx_of(exec, arena);
    let reach = Reach::of(step, table, &cx)?;
    // What the table alone decides: of an outer join or a semi join the
    // conditions of its ON.
    let of_match: &'a [Expr] = match step.outer || step.semi.is_some() {
        true => &step.on,
        false => &step.filter,
    };
    let own = 1u64 << (step.slot & 63);
    let alone = |e: &&'a Expr| e.slots() == own && e.is_fixed() && !e.has_query();
    let mut conditions = Conditions::of(of_match.iter().filter(alone).collect());
    let mut tables = vec![None; step.slot];
    tables.push(Some(table));
    if known.len() >= FEW {
        conditions.learn(&tables, &cx);
    }
    let mut placed = Placed {
        step,
        table,
        width,
        conditions,
        cx,
        known,
        index: (step.access.index().unwrap_or(0), used),
        key: Vec::new(),
        found: vec![SmallVec::new(); known.len()],
        failed: None,
    };
    while placed.failed.is_none() {
        exec.check_cancelled()?;
        if !show_rows(table, &mut cursor, &reach, exec, FETCHED, &mut placed)? {
            break;
        }
    }
    match placed.failed {
        Some(stop) => Err(stop),
        None => Ok(placed.found),
    }
}

/// The encoded leading parts of a row in an index.
fn leading_key(table: &Table, index: usize, parts: usize, row: RowRef<'_>) -> Vec<u8> {
    let mut key = Vec::new();
    append_leading_key(table, index, parts, row, &mut key);
    key
}

fn append_leading_key(
    table: &Table,
    index: usize,
    parts: usize,
    row: RowRef<'_>,
    key: &mut Vec<u8>,
) {
    let Some(definition) = table.indexes.get(index) else {
        return;
    };
    let values: SmallVec<[ValueRef<'_>; 4]> = definition
        .parts
        .iter()
        .take(parts)
        .map(|part| row.get(part.column))
        .collect();
    table.append_key_prefix(index, &values, key);
}
