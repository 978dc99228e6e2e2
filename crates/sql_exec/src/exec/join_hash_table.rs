//! The hash table of a join: rows that are held, by the values of equalities.
//!
//! A key is bytes that are equal for values that compare equal; where there is
//! one equality and both its sides are plain integers, it is that integer
//! ([`crate::expr::number`]), which stands in the table itself.
//!
//! Invariants:
//! 1. From the first row of a key on, a chain leads to all others of the key,
//!    in the order of the rows.
//! 2. NULL, which equals nothing, is no key.

use crate::expr::eval::Slot;
use crate::expr::number::{Found, NumberExpr, Unit, of_value};
use bumpalo::Bump;
use foldhash::fast::RandomState;
use porpoise_types::ValueRef;
use std::collections::HashMap;

/// No row.
const NONE: usize = usize::MAX;

/// Position of the first row of each key.
enum First<'h> {
    Bytes(HashMap<&'h [u8], usize, RandomState>),
    Numbers(HashMap<i64, usize, RandomState>, Unit),
}

/// Rows by key: the first of each key, and behind each row the next with the
/// same key.
pub(super) struct JoinHashTable<'h> {
    first: First<'h>,
    next: Vec<usize>,
}

impl<'h> JoinHashTable<'h> {
    /// By bytes, for so many rows.
    pub(super) fn of_bytes(rows: usize) -> JoinHashTable<'h> {
        let map = HashMap::with_capacity_and_hasher(rows, RandomState::default());
        JoinHashTable {
            first: First::Bytes(map),
            next: vec![NONE; rows],
        }
    }

    /// By numbers; `None` where a row has none to be found by.
    pub(super) fn of_numbers(
        rows: &[Slot<'h>],
        (at, own): (usize, &NumberExpr<'_>),
    ) -> Option<JoinHashTable<'h>> {
        let map = HashMap::with_capacity_and_hasher(rows.len(), RandomState::default());
        let mut by_key = JoinHashTable {
            first: First::Numbers(map, own.unit()),
            next: vec![NONE; rows.len()],
        };
        let mut tuple = vec![Slot::Null; at + 1];
        // From the last on, so that chains run in the order of the rows.
        for (n, row) in rows.iter().enumerate().rev() {
            if let Some(place) = tuple.get_mut(at) {
                *place = *row;
            }
            match own.eval(&tuple) {
                Found::Value(number) => by_key.insert_number(number, n),
                Found::Null => {}
                Found::Elsewhere => return None,
            }
        }
        Some(by_key)
    }

    fn insert_number(&mut self, number: i64, at: usize) {
        let First::Numbers(map, _) = &mut self.first else {
            return;
        };
        if let Some(behind) = map.insert(number, at)
            && let Some(next) = self.next.get_mut(at)
        {
            *next = behind;
        }
    }

    /// Adds a row before those of the same key; of a table by bytes.
    pub(super) fn insert_before(&mut self, key: &[u8], at: usize, arena: &'h Bump) {
        let First::Bytes(map) = &mut self.first else {
            return;
        };
        match map.get_mut(key) {
            Some(first) => {
                let behind = std::mem::replace(first, at);
                if let Some(next) = self.next.get_mut(at) {
                    *next = behind;
                }
            }
            None => {
                map.insert(arena.alloc_slice_copy(key), at);
            }
        }
    }

    /// Unit of the numbers, of a table by numbers.
    pub(super) fn unit(&self) -> Option<Unit> {
        match &self.first {
            First::Numbers(_, unit) => Some(*unit),
            First::Bytes(_) => None,
        }
    }

    /// The position of the first row of a key; of a table by bytes.
    pub(super) fn first(&self, key: &[u8]) -> Option<usize> {
        match &self.first {
            First::Bytes(map) => map.get(key).copied(),
            First::Numbers(..) => None,
        }
    }

    /// The position of the first row of a number; of a table by numbers.
    #[inline]
    pub(super) fn first_of_number(&self, number: i64) -> Option<usize> {
        match &self.first {
            First::Numbers(map, _) => map.get(&number).copied(),
            First::Bytes(_) => None,
        }
    }

    /// As [`JoinHashTable::first_of_number`], of a value: one that is no number of the
    /// unit is equal to none.
    pub(super) fn first_of_value(&self, value: ValueRef<'_>) -> Option<usize> {
        match of_value(value, self.unit()?) {
            Found::Value(number) => self.first_of_number(number),
            Found::Null | Found::Elsewhere => None,
        }
    }

    /// The positions of a row and of those of its key behind it, in order.
    pub(super) fn from(&self, first: Option<usize>) -> impl Iterator<Item = usize> {
        let behind = |at: &usize| self.next.get(*at).copied().filter(|at| *at != NONE);
        std::iter::successors(first, behind)
    }
}
