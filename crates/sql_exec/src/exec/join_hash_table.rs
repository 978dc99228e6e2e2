//! The build side of a hash join: materialized rows by the values of the join's equalities.
//!
//! Keys are bytes that are equal for values that compare equal. For a single equality between plain
//! integers the key is that integer ([`crate::expr::number`]), stored in the table.
//!
//! Invariants:
//! 1. The rows of a key form a chain in row order, starting at the key's first row.
//! 2. NULL, which equals nothing, has no entry.

use crate::expr::eval::Slot;
use crate::expr::number::{NumberExpr, NumberResult, Unit, of_value};
use bumpalo::Bump;
use foldhash::fast::RandomState;
use porpoise_types::ValueRef;
use std::collections::HashMap;

/// End of a chain.
const END_OF_CHAIN: usize = usize::MAX;

/// Position of the first row of each key.
enum ChainHeads<'h> {
    Bytes(HashMap<&'h [u8], usize, RandomState>),
    Numbers(HashMap<i64, usize, RandomState>, Unit),
}

/// Rows by key: the first row of each key, and for each row the next one with the same key.
pub(super) struct JoinHashTable<'h> {
    first: ChainHeads<'h>,
    next: Vec<usize>,
}

impl<'h> JoinHashTable<'h> {
    /// Creates an empty table with byte keys, sized for `rows`.
    pub(super) fn of_bytes(rows: usize) -> JoinHashTable<'h> {
        let map = HashMap::with_capacity_and_hasher(rows, RandomState::default());
        JoinHashTable {
            first: ChainHeads::Bytes(map),
            next: vec![END_OF_CHAIN; rows],
        }
    }

    /// Builds a table of the rows of the slot `at` with integer keys, which the expression `own` computes;
    /// `None` if a row has no integer key.
    pub(super) fn of_numbers(
        rows: &[Slot<'h>],
        at: usize,
        own: &NumberExpr<'_>,
    ) -> Option<JoinHashTable<'h>> {
        let map = HashMap::with_capacity_and_hasher(rows.len(), RandomState::default());
        let mut by_key = JoinHashTable {
            first: ChainHeads::Numbers(map, own.unit()),
            next: vec![END_OF_CHAIN; rows.len()],
        };
        let mut tuple = vec![Slot::Null; at + 1];
        // From the last row to the first, so that chains are in row order.
        for (n, row) in rows.iter().enumerate().rev() {
            if let Some(place) = tuple.get_mut(at) {
                *place = *row;
            }
            match own.eval(&tuple) {
                NumberResult::Value(number) => by_key.insert_number(number, n),
                NumberResult::Null => {}
                NumberResult::NotApplicable => return None,
            }
        }
        Some(by_key)
    }

    fn insert_number(&mut self, number: i64, at: usize) {
        let ChainHeads::Numbers(map, _) = &mut self.first else {
            return;
        };
        if let Some(behind) = map.insert(number, at)
            && let Some(next) = self.next.get_mut(at)
        {
            *next = behind;
        }
    }

    /// Adds a row at the front of its key's chain. For tables with byte keys.
    pub(super) fn insert_before(&mut self, key: &[u8], at: usize, arena: &'h Bump) {
        let ChainHeads::Bytes(map) = &mut self.first else {
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

    /// Unit of the integer keys; `None` for byte keys.
    pub(super) fn unit(&self) -> Option<Unit> {
        match &self.first {
            ChainHeads::Numbers(_, unit) => Some(*unit),
            ChainHeads::Bytes(_) => None,
        }
    }

    /// Position of the first row of a byte key.
    pub(super) fn first(&self, key: &[u8]) -> Option<usize> {
        match &self.first {
            ChainHeads::Bytes(map) => map.get(key).copied(),
            ChainHeads::Numbers(..) => None,
        }
    }

    /// Position of the first row of an integer key.
    #[inline]
    pub(super) fn first_of_number(&self, number: i64) -> Option<usize> {
        match &self.first {
            ChainHeads::Numbers(map, _) => map.get(&number).copied(),
            ChainHeads::Bytes(_) => None,
        }
    }

    /// As [`JoinHashTable::first_of_number`], for a value. One that is not an integer of the table's
    /// unit matches nothing.
    pub(super) fn first_of_value(&self, value: ValueRef<'_>) -> Option<usize> {
        match of_value(value, self.unit()?) {
            NumberResult::Value(number) => self.first_of_number(number),
            NumberResult::Null | NumberResult::NotApplicable => None,
        }
    }

    /// Positions of a chain, from `first` on.
    pub(super) fn chain(&self, first: Option<usize>) -> impl Iterator<Item = usize> {
        let behind = |at: &usize| self.next.get(*at).copied().filter(|at| *at != END_OF_CHAIN);
        std::iter::successors(first, behind)
    }
}
