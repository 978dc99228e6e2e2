//! An external merge sort of records: in memory up to the operator's share, then in runs.
//!
//! Invariant: the sort is stable: records that compare equal keep their insertion order.

use super::super::profile::SpillSize;
use super::super::rowstore::{Place, RowStore};
use super::super::state::States;
use super::runs::{Merge, Runs};
use crate::error::SqlError;
use porpoise_base::interrupt::Pacer;
use porpoise_base::sorting;
use porpoise_types::ValueRef;
use std::cmp::Ordering;

/// Records that are being sorted by key. No record may be added while an engine visitor runs.
#[derive(Debug)]
pub(in crate::exec) struct Sorter<C> {
    compare: C,
    store: RowStore,
    places: Vec<Place>,
    runs: Runs,
    /// Bytes charged to the statement.
    counted: u64,
}

impl<C: Fn(&[u8], &[u8]) -> Ordering + Copy> Sorter<C> {
    /// Creates a sorter that orders keys by `compare`.
    pub(in crate::exec) fn new(compare: C) -> Sorter<C> {
        Sorter {
            compare,
            store: RowStore::default(),
            places: Vec::new(),
            runs: Runs::default(),
            counted: 0,
        }
    }

    /// Adds a record.
    pub(in crate::exec) fn add(
        &mut self,
        key: &[u8],
        value: &[u8],
        states: &States,
    ) -> Result<(), SqlError> {
        let place = self.store.add(key, &[ValueRef::Bytes(value)]);
        let place = place.ok_or_else(|| SqlError::internal("a sort has too many rows"))?;
        self.places.push(place);
        let kept = self.store.bytes() + (self.places.capacity() * size_of::<Place>()) as u64;
        if kept > self.counted {
            let spill = states.hold_or_spill(kept - self.counted, kept)?;
            self.counted = kept;
            if spill {
                self.write_run(states)?;
            }
        }
        Ok(())
    }

    fn sort(&mut self) -> Result<(), SqlError> {
        let (store, compare) = (&self.store, self.compare);
        sorting::sort_by(&mut self.places, sorting::RUN_CHEAP, |a, b| {
            compare(store.key(*a), store.key(*b)).then_with(|| a.cmp(b))
        })?;
        Ok(())
    }

    /// Bytes charged to the statement.
    pub(in crate::exec) fn held(&self) -> u64 {
        self.counted
    }

    /// Number of runs, and the size of their file.
    pub(in crate::exec) fn size(&self) -> SpillSize {
        self.runs.size()
    }

    fn write_run(&mut self, states: &States) -> Result<(), SqlError> {
        self.sort()?;
        let store = &self.store;
        let records = self.places.iter();
        let records = records.map(|place| (store.key(*place), store.bytes_of(*place)));
        self.runs.write_run(records, states)?;
        self.store = RowStore::default();
        self.places = Vec::new();
        states.release(std::mem::take(&mut self.counted));
        Ok(())
    }

    /// Sorts the records.
    pub(in crate::exec) fn finish(mut self, states: &States) -> Result<Sorted<C>, SqlError> {
        if self.runs.is_empty() {
            self.sort()?;
            return Ok(Sorted::Kept {
                store: self.store,
                places: self.places,
                next: 0,
                counted: self.counted,
                pacer: Pacer::new(),
            });
        }
        if !self.places.is_empty() {
            self.write_run(states)?;
        }
        self.runs.merge(self.compare, states).map(Sorted::Merged)
    }
}

/// Sorted records.
#[derive(Debug)]
pub(in crate::exec) enum Sorted<C> {
    /// In memory.
    Kept {
        store: RowStore,
        places: Vec<Place>,
        next: usize,
        counted: u64,
        pacer: Pacer,
    },
    /// In runs.
    Merged(Merge<C>),
}

impl<C: Fn(&[u8], &[u8]) -> Ordering> Sorted<C> {
    /// Advances to the next record. Returns false at the end.
    pub(in crate::exec) fn advance(&mut self) -> Result<bool, SqlError> {
        match self {
            Sorted::Kept {
                places,
                next,
                pacer,
                ..
            } => {
                pacer.tick()?;
                *next += 1;
                Ok(*next <= places.len())
            }
            Sorted::Merged(merge) => merge.advance(),
        }
    }

    /// Key and value of the current record.
    pub(in crate::exec) fn record(&self) -> (&[u8], &[u8]) {
        match self {
            Sorted::Kept {
                store,
                places,
                next,
                ..
            } => match next.checked_sub(1).and_then(|at| places.get(at)) {
                Some(place) => (store.key(*place), store.bytes_of(*place)),
                None => (&[], &[]),
            },
            Sorted::Merged(merge) => (merge.key(), merge.value()),
        }
    }

    /// Releases the memory.
    pub(in crate::exec) fn close(self, states: &States) {
        match self {
            Sorted::Kept { counted, .. } => states.release(counted),
            Sorted::Merged(merge) => merge.close(states),
        }
    }
}
