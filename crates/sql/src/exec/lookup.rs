//! Looking up what belongs to a whole batch of joined rows.
//!
//! The keys of all rows are made, those that are equal are asked for once, and
//! what comes back is handed to each row that asked for it.

use super::fetch::Cursor;
use super::join::Tuple;
use super::select::cx_of;
use super::step::{fetch_entries, fetch_step, slot_of_row};
use super::{Exec, Run, keys};
use crate::expr::Expr;
use crate::expr::eval::Slot;
use crate::plan::{Access, Step};
use bumpalo::Bump;
use foldhash::fast::RandomState;
use porpoise_rows::catalog::Table;
use porpoise_rows::{KeyRange, RowRef, ScanPosition, ScanSpec};
use porpoise_types::ValueRef;
use std::collections::HashMap;

/// The keys that a batch asks for.
struct Asked<'a> {
    /// Each once, in the order in which they came up.
    distinct: Vec<Vec<u8>>,
    /// Their positions in it.
    known: HashMap<&'a [u8], usize, RandomState>,
    /// The positions that each row of the batch asks for.
    of_tuple: Vec<Vec<usize>>,
}

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
        let mut mine = Vec::with_capacity(1);
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

/// For each tuple the rows that its key finds; one call for all of them.
pub(super) fn lookup<'a, 'x: 'a>(
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
    let Asked {
        distinct,
        known,
        of_tuple,
    } = asked(table, (*index, parts), tuples, exec, arena)?;
    let keys = distinct.len();
    let mut cursor = cursor_of(*index, distinct, *whole, *reverse);
    // Conditions are checked tuple by tuple afterwards; a lock is taken on
    // every row that a key leads to.
    let mut found: Vec<Vec<Slot<'a>>> = vec![Vec::new(); keys];
    let used = parts.first().map_or(0, Vec::len);
    if step.entries {
        let mut ends = Vec::new();
        while let Some(batch) = fetch_entries(step, table, &mut cursor, 4096, exec, arena)? {
            for entry in batch {
                ends.clear();
                table.part_ends(*index, entry.key, &mut ends);
                let end = used.checked_sub(1).and_then(|last| ends.get(last));
                let key = end.and_then(|end| entry.key.get(..*end));
                let at = key.and_then(|key| known.get(key));
                if let Some(at) = at.and_then(|at| found.get_mut(*at)) {
                    at.push(entry.slot);
                }
            }
        }
    }
    while let Some(batch) = fetch_step(step, table, &mut cursor, (&[], false), 4096, exec, arena)? {
        for row in batch {
            let key = leading_key(table, *index, used, row.row);
            if let Some(at) = known.get(key.as_slice()).and_then(|at| found.get_mut(*at)) {
                at.push(slot_of_row(step, row, arena));
            }
        }
    }
    let lists = |mine: &Vec<usize>| {
        mine.iter()
            .filter_map(|at| found.get(*at))
            .flatten()
            .copied()
            .collect()
    };
    Ok(of_tuple.iter().map(lists).collect())
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

/// Rows by key: the first of each key, and behind each row the next with the
/// same key.
pub(super) struct ByKey<'h> {
    first: HashMap<&'h [u8], usize, RandomState>,
    next: Vec<usize>,
}

/// No row.
const NONE: usize = usize::MAX;

impl<'h> ByKey<'h> {
    /// For so many rows.
    pub(super) fn new(rows: usize) -> ByKey<'h> {
        ByKey {
            first: HashMap::with_capacity_and_hasher(rows, RandomState::default()),
            next: vec![NONE; rows],
        }
    }

    /// Adds a row before those of the same key.
    pub(super) fn insert_before(&mut self, key: &[u8], at: usize, arena: &'h Bump) {
        match self.first.get_mut(key) {
            Some(first) => {
                let behind = std::mem::replace(first, at);
                if let Some(next) = self.next.get_mut(at) {
                    *next = behind;
                }
            }
            None => {
                self.first.insert(arena.alloc_slice_copy(key), at);
            }
        }
    }

    /// The position of the first row of a key.
    pub(super) fn first(&self, key: &[u8]) -> Option<usize> {
        self.first.get(key).copied()
    }

    /// The positions of a row and of those of its key behind it, in order.
    pub(super) fn from(&self, first: Option<usize>) -> impl Iterator<Item = usize> {
        let behind = |at: &usize| self.next.get(*at).copied().filter(|at| *at != NONE);
        std::iter::successors(first, behind)
    }
}
