//! Sorted runs in a temporary file, and their merge.
//!
//! A merge reads one block of each run at a time. If there are more runs than the fan-in, they are
//! merged in several passes, each from one file to the next.
//!
//! Invariants:
//! 1. The merge is stable: runs are numbered in the order of writing, and a pass merges only
//!    adjacent runs.
//! 2. The blocks of a merge fit into the statement's available memory, except that the fan-in is at
//!    least two.

use super::super::profile::SpillSize;
use super::super::record_sort::{self, KeyOrder};
use super::super::state::States;
use super::records::{BLOCK, RecordFile, RecordReader, RecordWriter};
use crate::error::SqlError;
use porpoise_base::interrupt::Pacer;
use std::ops::Range;

/// Maximum fan-in of a merge.
const MAX_FAN_IN: u64 = 64;

/// Sorted runs.
#[derive(Debug, Default)]
pub(in crate::exec) struct Runs {
    writer: Option<RecordWriter>,
    runs: Vec<Range<u64>>,
}

impl Runs {
    /// Whether there are no runs.
    pub(in crate::exec) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Number of runs, and the size of their file.
    pub(in crate::exec) fn size(&self) -> SpillSize {
        SpillSize {
            runs: self.runs.len() as u64,
            bytes: self.writer.as_ref().map_or(0, RecordWriter::length),
        }
    }

    /// Writes sorted records as a run.
    pub(in crate::exec) fn write_run<'r>(
        &mut self,
        records: impl Iterator<Item = (&'r [u8], &'r [u8])>,
        states: &States,
    ) -> Result<(), SqlError> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => none.insert(RecordWriter::create(states.temp_dir()?, BLOCK)?),
        };
        let start = writer.length();
        for (key, value) in records {
            writer.add(key, value)?;
        }
        self.runs.push(start..writer.end_run()?);
        Ok(())
    }

    /// Turns all runs into one, whose records are unordered.
    pub(in crate::exec) fn concatenate(&mut self) {
        let end = self.runs.last().map_or(0, |last| last.end);
        self.runs.truncate(1);
        if let Some(first) = self.runs.first_mut() {
            first.end = end;
        }
    }

    /// Merges all runs.
    pub(in crate::exec) fn merge<C: KeyOrder>(
        self,
        order: C,
        states: &States,
    ) -> Result<Merge<C>, SqlError> {
        let Some(writer) = self.writer else {
            return Ok(Merge::empty(order));
        };
        let mut runs = self.runs;
        let block = writer.largest().max(BLOCK) as u64;
        let mut file = writer.finish()?;
        let fan_in = (states.headroom() / block).clamp(2, MAX_FAN_IN);
        let fan_in = usize::try_from(fan_in).unwrap_or(2);
        while runs.len() > fan_in {
            let mut next = RecordWriter::create(states.temp_dir()?, BLOCK)?;
            let mut longer = Vec::new();
            for part in runs.chunks(fan_in) {
                let start = next.length();
                let mut merge = Merge::open(&file, part, order)?;
                states.count_merge();
                while merge.advance()? {
                    next.add(merge.key(), merge.value())?;
                }
                longer.push(start..next.end_run()?);
            }
            (file, runs) = (next.finish()?, longer);
        }
        states.count_merge();
        let held = block * runs.len() as u64;
        states.hold(held)?;
        let mut merge = Merge::open(&file, &runs, order)?;
        merge.held = held;
        Ok(merge)
    }
}

/// Merges the records of several runs.
#[derive(Debug)]
pub(in crate::exec) struct Merge<C> {
    /// Readers in descending order of their current records: the smallest is last.
    #[expect(clippy::vec_box, reason = "a reader is moved once a record")]
    readers: Vec<Box<RunReader>>,
    order: C,
    /// Whether the last reader's record has been returned.
    is_last_returned: bool,
    /// Bytes charged to the statement, released by [`Merge::close`].
    held: u64,
    pacer: Pacer,
}

/// A reader with the number of its run.
#[derive(Debug)]
struct RunReader {
    number: usize,
    /// The first bytes of the current key, which decide most comparisons; 0 unless keys compare as
    /// bytes.
    prefix: u64,
    reader: RecordReader,
}

impl<C: KeyOrder> Merge<C> {
    fn empty(order: C) -> Merge<C> {
        Merge {
            readers: Vec::new(),
            order,
            is_last_returned: false,
            held: 0,
            pacer: Pacer::new(),
        }
    }

    fn open(file: &RecordFile, runs: &[Range<u64>], order: C) -> Result<Merge<C>, SqlError> {
        let mut merge = Merge::empty(order);
        for (number, run) in runs.iter().enumerate() {
            let reader = file.run(run.clone());
            merge.insert(Box::new(RunReader {
                number,
                prefix: 0,
                reader,
            }))?;
        }
        Ok(merge)
    }

    /// Advances a reader and inserts it at its sorted position.
    fn insert(&mut self, mut new: Box<RunReader>) -> Result<(), SqlError> {
        if new.reader.advance()? {
            if self.order.is_bytewise() {
                new.prefix = record_sort::word(new.reader.key(), 0);
            }
            let is_behind = |other: &RunReader| {
                let order = other.prefix.cmp(&new.prefix);
                let order =
                    order.then_with(|| self.order.compare(other.reader.key(), new.reader.key()));
                order.then(other.number.cmp(&new.number)).is_gt()
            };
            let at = self.readers.partition_point(|other| is_behind(other));
            self.readers.insert(at, new);
        }
        Ok(())
    }

    /// Advances to the next record. Returns false at the end.
    pub(in crate::exec) fn advance(&mut self) -> Result<bool, SqlError> {
        self.pacer.tick()?;
        if std::mem::replace(&mut self.is_last_returned, true)
            && let Some(last) = self.readers.pop()
        {
            self.insert(last)?;
        }
        Ok(!self.readers.is_empty())
    }

    /// The current record's key.
    pub(in crate::exec) fn key(&self) -> &[u8] {
        self.readers.last().map_or(&[], |last| last.reader.key())
    }

    /// The current record's value.
    pub(in crate::exec) fn value(&self) -> &[u8] {
        self.readers.last().map_or(&[], |last| last.reader.value())
    }

    /// Releases the memory.
    pub(in crate::exec) fn close(self, states: &States) {
        states.release(self.held);
    }
}
