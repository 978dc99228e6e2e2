//! Sorted runs in a temporary file, and their merge.
//!
//! A merge reads one block of each of its runs at a time. More runs than the fan-in are merged
//! in several passes, each from one file into the next.
//!
//! Invariants:
//! 1. Records that compare equal come out in the order in which they were written: runs are
//!    numbered in the order of writing, and a pass merges neighbours only.
//! 2. The blocks of a merge fit into the statement's headroom, except that two runs are always
//!    merged.

use super::super::state::States;
use super::records::{BLOCK, RecordFile, RecordReader, RecordWriter};
use crate::error::SqlError;
use porpoise_base::interrupt::Pacer;
use std::cmp::Ordering;
use std::ops::Range;

/// Most runs that are merged at once.
const MAX_FAN_IN: u64 = 64;

/// Sorted runs.
#[derive(Debug, Default)]
pub(in crate::exec) struct Runs {
    writer: Option<RecordWriter>,
    runs: Vec<Range<u64>>,
}

impl Runs {
    /// Whether there is none.
    pub(in crate::exec) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Number of runs, and the bytes of their file.
    pub(in crate::exec) fn size(&self) -> (u64, u64) {
        let bytes = self.writer.as_ref().map_or(0, RecordWriter::length);
        (self.runs.len() as u64, bytes)
    }

    /// Writes sorted records, keys and values, as a run.
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

    /// Makes one run of all, whose records are in no order.
    pub(in crate::exec) fn concatenate(&mut self) {
        let ends = self.runs.first().zip(self.runs.last());
        if let Some((first, last)) = ends {
            self.runs = vec![first.start..last.end];
        }
    }

    /// Merges all runs.
    pub(in crate::exec) fn merge<C>(self, compare: C, states: &States) -> Result<Merge<C>, SqlError>
    where
        C: Fn(&[u8], &[u8]) -> Ordering + Copy,
    {
        let Some(writer) = self.writer else {
            return Ok(Merge::empty(compare));
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
                let mut merge = Merge::open(&file, part, compare)?;
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
        let mut merge = Merge::open(&file, &runs, compare)?;
        merge.held = held;
        Ok(merge)
    }
}

/// The records of runs in order.
#[derive(Debug)]
pub(in crate::exec) struct Merge<C> {
    /// In descending order of their records: the least is the last.
    readers: Vec<Box<Numbered>>,
    compare: C,
    /// The last reader's record was given.
    given: bool,
    /// Bytes counted with the statement, for [`Merge::close`].
    held: u64,
    pacer: Pacer,
}

/// A reader with the number of its run.
#[derive(Debug)]
struct Numbered {
    number: usize,
    reader: RecordReader,
}

impl<C: Fn(&[u8], &[u8]) -> Ordering> Merge<C> {
    fn empty(compare: C) -> Merge<C> {
        Merge {
            readers: Vec::new(),
            compare,
            given: false,
            held: 0,
            pacer: Pacer::new(),
        }
    }

    fn open(file: &RecordFile, runs: &[Range<u64>], compare: C) -> Result<Merge<C>, SqlError> {
        let mut merge = Merge::empty(compare);
        for (number, run) in runs.iter().enumerate() {
            let reader = file.run(run.clone());
            merge.insert(Box::new(Numbered { number, reader }))?;
        }
        Ok(merge)
    }

    /// Goes to the reader's next record and puts the reader to its place.
    fn insert(&mut self, mut new: Box<Numbered>) -> Result<(), SqlError> {
        if new.reader.advance()? {
            let at = self.readers.partition_point(|other| {
                let order = (self.compare)(other.reader.key(), new.reader.key());
                order.then(other.number.cmp(&new.number)).is_gt()
            });
            self.readers.insert(at, new);
        }
        Ok(())
    }

    /// Goes to the next record; false at the end.
    pub(in crate::exec) fn advance(&mut self) -> Result<bool, SqlError> {
        self.pacer.tick()?;
        if std::mem::replace(&mut self.given, true)
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

    /// Ends reading.
    pub(in crate::exec) fn close(self, states: &States) {
        states.let_go(self.held);
    }
}
