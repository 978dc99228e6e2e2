//! An external merge sort of records: in memory up to the operator's share, then in runs.
//!
//! Invariant: the sort is stable: records that compare equal keep their insertion order.

use super::super::profile::SpillSize;
use super::super::record_sort::{self, Entry, KeyOrder};
use super::super::rowstore::{self, RowStore};
use super::super::state::States;
use super::runs::{Merge, Runs};
use crate::error::SqlError;
use porpoise_base::interrupt::Pacer;
use porpoise_types::ValueRef;

/// Records that are being sorted by key. Those that are added while an engine visitor runs stay in
/// memory until it has ended.
#[derive(Debug)]
pub(in crate::exec) struct Sorter<C> {
    order: C,
    store: RowStore,
    entries: Vec<Entry>,
    runs: Runs,
    /// Bytes charged to the statement.
    counted: u64,
    /// Whether the records in memory exceed the operator's share.
    is_over: bool,
}

impl<C: KeyOrder> Sorter<C> {
    /// Creates a sorter of records by their keys.
    pub(in crate::exec) fn new(order: C) -> Sorter<C> {
        Sorter {
            order,
            store: RowStore::default(),
            entries: Vec::new(),
            runs: Runs::default(),
            counted: 0,
            is_over: false,
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
        self.entries.push(Entry::new(place));
        let kept = self.store.bytes() + (self.entries.capacity() * size_of::<Entry>()) as u64;
        if kept > self.counted {
            self.is_over |= states.hold_or_spill(kept - self.counted, kept)?;
            self.counted = kept;
        }
        if self.is_over && states.may_spill() {
            self.write_run(states)?;
        }
        Ok(())
    }

    fn sort(&mut self) -> Result<(), SqlError> {
        Ok(record_sort::sort(
            &mut self.entries,
            &self.store,
            self.order,
        )?)
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
        self.is_over = false;
        self.sort()?;
        let store = &self.store;
        let records = self.entries.iter();
        let records = records.map(|e| (store.key(e.place), store.bytes_of(e.place)));
        self.runs.write_run(records, states)?;
        self.store = RowStore::default();
        self.entries = Vec::new();
        states.release(std::mem::take(&mut self.counted));
        Ok(())
    }

    /// Sorts the records.
    pub(in crate::exec) fn finish(mut self, states: &States) -> Result<Sorted<C>, SqlError> {
        if self.runs.is_empty() {
            self.sort()?;
            return Ok(Sorted::Kept {
                store: self.store,
                entries: self.entries,
                next: 0,
                counted: self.counted,
                pacer: Pacer::new(),
            });
        }
        if !self.entries.is_empty() {
            self.write_run(states)?;
        }
        self.runs.merge(self.order, states).map(Sorted::Merged)
    }
}

/// Sorted records.
#[derive(Debug)]
pub(in crate::exec) enum Sorted<C> {
    /// In memory.
    Kept {
        store: RowStore,
        entries: Vec<Entry>,
        next: usize,
        counted: u64,
        pacer: Pacer,
    },
    /// In runs.
    Merged(Merge<C>),
}

impl<C: KeyOrder> Sorted<C> {
    /// Advances to the next record. Returns false at the end.
    pub(in crate::exec) fn advance(&mut self) -> Result<bool, SqlError> {
        match self {
            Sorted::Kept {
                store,
                entries,
                next,
                pacer,
                ..
            } => {
                pacer.tick()?;
                if let Some(entry) = entries.get(*next + rowstore::AHEAD) {
                    store.touch(entry.place);
                }
                *next += 1;
                Ok(*next <= entries.len())
            }
            Sorted::Merged(merge) => merge.advance(),
        }
    }

    /// Key and value of the current record.
    pub(in crate::exec) fn record(&self) -> (&[u8], &[u8]) {
        match self {
            Sorted::Kept {
                store,
                entries,
                next,
                ..
            } => match next.checked_sub(1).and_then(|at| entries.get(at)) {
                Some(e) => (store.key(e.place), store.bytes_of(e.place)),
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
