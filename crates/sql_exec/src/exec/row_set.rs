//! Collects materialized rows of a subquery or derived table, in memory or in a temporary file.
//!
//! Invariant: the rows are in one of the two places, in the order in which they were added.

use super::record_sort::ByBytes;
use super::rowstore::{self, values_of};
use super::spill::records::{BLOCK, RecordReader, RecordWriter};
use super::spill::sorter::{Sorted, Sorter};
use super::state::{RowSet, States, size_of_row};
use super::{ExecResult, ResultSink};
use crate::error::SqlError;
use crate::plan::ResultColumn;
use porpoise_base::interrupt::Pacer;
use porpoise_types::{Value, ValueRef};
use std::borrow::Cow;
use std::collections::HashSet;

/// A position among the rows of a set.
#[derive(Debug, Default)]
pub(super) struct RowCursor {
    next: usize,
    reader: Option<RecordReader>,
}

impl RowCursor {
    /// Returns the next rows, at most `most`; an empty batch at the end.
    pub(super) fn next<'r>(
        &mut self,
        set: &'r RowSet,
        most: usize,
    ) -> Result<Cow<'r, [Vec<Value>]>, SqlError> {
        let Some(file) = &set.file else {
            let rest = set.rows.get(self.next..).unwrap_or_default();
            let batch = rest.get(..most).unwrap_or(rest);
            self.next += batch.len();
            return Ok(Cow::Borrowed(batch));
        };
        let reader = self.reader.get_or_insert_with(|| file.reader());
        let mut batch = Vec::new();
        while batch.len() < most && reader.advance()? {
            batch.push(decode(reader.value()));
        }
        Ok(Cow::Owned(batch))
    }
}

/// Encodes a row for [`decode`].
fn encode(values: &[ValueRef<'_>], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&(values.len() as u64).to_le_bytes());
    values.iter().for_each(|v| rowstore::write(*v, out));
}

fn decode(row: &[u8]) -> Vec<Value> {
    let (width, rest) = row.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
    let width = usize::try_from(u64::from_le_bytes(*width)).unwrap_or(0);
    let values = values_of(rest, width);
    values.iter().map(|v| ValueRef::to_owned(*v)).collect()
}

/// Collects rows, in a file once they exceed their share of memory.
pub(super) struct SpillingCollect<'s> {
    set: RowSet,
    writer: Option<RecordWriter>,
    encoded: Vec<u8>,
    states: &'s States,
}

impl<'s> SpillingCollect<'s> {
    /// A collection without rows.
    pub(super) fn new(states: &'s States) -> SpillingCollect<'s> {
        SpillingCollect {
            set: RowSet::default(),
            writer: None,
            encoded: Vec::new(),
            states,
        }
    }

    fn write(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => {
                self.states.count_disk_table();
                none.insert(RecordWriter::create(self.states.temp_dir()?, BLOCK)?)
            }
        };
        encode(values, &mut self.encoded);
        writer.add(&[], &self.encoded)?;
        Ok(())
    }

    /// Writes the rows that are in memory.
    fn spill(&mut self) -> Result<(), SqlError> {
        let mut pacer = Pacer::new();
        for row in std::mem::take(&mut self.set.rows) {
            pacer.tick()?;
            let values: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
            self.write(&values)?;
        }
        self.states.release(std::mem::take(&mut self.set.held));
        Ok(())
    }

    /// Bytes charged for the rows.
    pub(super) fn held(&self) -> u64 {
        self.set.held
    }

    /// The collected rows.
    pub(super) fn finish(mut self) -> Result<RowSet, SqlError> {
        if let Some(writer) = self.writer {
            self.set.file = Some(writer.finish()?);
        }
        Ok(self.set)
    }
}

impl ResultSink for SpillingCollect<'_> {
    fn columns(&mut self, _: &[ResultColumn]) -> Result<(), SqlError> {
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        if self.writer.is_some() {
            return self.write(values);
        }
        let row: Vec<Value> = values.iter().map(|v| ValueRef::to_owned(*v)).collect();
        let size = size_of_row(&row);
        self.set.held += size;
        self.set.rows.push(row);
        if self.states.hold_or_spill(size, self.set.held)? {
            self.spill()?;
        }
        Ok(())
    }
}

/// Keeps the first of equal rows, for UNION. In memory it recognizes equal rows by a hash set of their
/// keys. Beyond the operator's share of memory it sorts the rows by key, drops the duplicates, and sorts
/// the others back into the order of their arrival.
pub(super) struct DistinctCollect<'s, K> {
    key_of: K,
    keys: HashSet<Vec<u8>>,
    /// Bytes charged for the keys.
    held: u64,
    rows: SpillingCollect<'s>,
    /// Rows by key, each preceded by its number in the order of arrival.
    sorter: Option<Sorter<ByBytes>>,
    next: u64,
    states: &'s States,
}

impl<'s, K: Fn(&[ValueRef<'_>]) -> Vec<u8>> DistinctCollect<'s, K> {
    /// A collection without rows; two rows are equal if their keys are.
    pub(super) fn new(key_of: K, states: &'s States) -> DistinctCollect<'s, K> {
        DistinctCollect {
            key_of,
            keys: HashSet::new(),
            held: 0,
            rows: SpillingCollect::new(states),
            sorter: None,
            next: 0,
            states,
        }
    }

    fn sort(&mut self, key: &[u8], values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        let sorter = self.sorter.get_or_insert_with(|| Sorter::new(ByBytes));
        let mut row = Vec::new();
        encode(values, &mut row);
        let mut value = self.next.to_be_bytes().to_vec();
        value.append(&mut row);
        self.next += 1;
        sorter.add(key, &value, self.states)
    }

    /// Hands the rows that are in memory to the sort.
    fn spill(&mut self) -> Result<(), SqlError> {
        self.keys = HashSet::new();
        let kept = std::mem::take(&mut self.rows.set);
        self.states.release(std::mem::take(&mut self.held));
        let mut pacer = Pacer::new();
        for row in kept.rows {
            pacer.tick()?;
            self.states.release(size_of_row(&row));
            let values: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
            let key = (self.key_of)(&values);
            self.sort(&key, &values)?;
        }
        Ok(())
    }

    /// Bytes charged for the rows.
    pub(super) fn held(&self) -> u64 {
        self.held + self.rows.held() + self.sorter.as_ref().map_or(0, Sorter::held)
    }

    /// Ends the removal of duplicates. Rows that are added to the result may be duplicates.
    pub(super) fn finish(mut self) -> ExecResult<SpillingCollect<'s>> {
        let states = self.states;
        states.release(std::mem::take(&mut self.held));
        let Some(sorter) = self.sorter else {
            return Ok(self.rows);
        };
        let mut in_order = Sorter::new(ByBytes);
        let mut by_key: Sorted<ByBytes> = sorter.finish(states)?;
        let mut last: Option<Vec<u8>> = None;
        while by_key.advance()? {
            let (key, value) = by_key.record();
            if last.as_deref() == Some(key) {
                continue;
            }
            let (number, row) = value.split_at_checked(8).unwrap_or_default();
            in_order.add(number, row, states)?;
            last = Some(key.to_vec());
        }
        by_key.close(states);
        let mut rows = in_order.finish(states)?;
        let writer = self
            .rows
            .writer
            .insert(RecordWriter::create(states.temp_dir()?, BLOCK)?);
        states.count_disk_table();
        while rows.advance()? {
            writer.add(&[], rows.record().1)?;
        }
        rows.close(states);
        Ok(self.rows)
    }
}

impl<K: Fn(&[ValueRef<'_>]) -> Vec<u8>> ResultSink for DistinctCollect<'_, K> {
    fn columns(&mut self, _: &[ResultColumn]) -> Result<(), SqlError> {
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        let key = (self.key_of)(values);
        if self.sorter.is_some() {
            return self.sort(&key, values);
        }
        if self.keys.contains(&key) {
            return Ok(());
        }
        let row: Vec<Value> = values.iter().map(|v| ValueRef::to_owned(*v)).collect();
        let (row_size, key_size) = (size_of_row(&row), key.len() as u64 + 48);
        self.keys.insert(key);
        self.rows.set.rows.push(row);
        self.rows.set.held += row_size;
        self.held += key_size;
        let kept = self.held + self.rows.set.held;
        if self.states.hold_or_spill(row_size + key_size, kept)? {
            self.spill()?;
        }
        Ok(())
    }
}
