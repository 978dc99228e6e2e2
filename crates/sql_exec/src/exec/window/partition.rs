//! The rows of a partition, in memory or in a temporary file.
//!
//! Each function of a window reads the rows by cursors of its own, which move forward: a row is
//! read from the block that a cursor is in. To move back, or far ahead, a cursor seeks one of the
//! positions that are remembered for every [`STEP`]th row.

use crate::error::SqlError;
use crate::exec::rowstore::{Place, RowStore};
use crate::exec::spill::records::{BLOCK, Position, RecordFile, RecordReader, RecordWriter};
use crate::exec::state::States;
use porpoise_base::interrupt::Pacer;

/// Number of rows between two remembered positions.
const STEP: usize = 64;

/// Rows in the order of their window, of each of which is known whether it is the first of its peers.
#[derive(Default)]
pub(super) struct Partition {
    store: RowStore,
    places: Vec<(Place, bool)>,
    writer: Option<RecordWriter>,
    file: Option<RecordFile>,
    /// Positions in the file of every [`STEP`]th row.
    positions: Vec<Position>,
    rows: usize,
    /// Bytes charged to the statement.
    counted: u64,
    /// Whether the rows in memory exceed the operator's share.
    is_over: bool,
}

impl Partition {
    /// Number of rows.
    pub(super) fn len(&self) -> usize {
        self.rows
    }

    /// Adds a row.
    pub(super) fn add(
        &mut self,
        record: &[u8],
        is_first_peer: bool,
        states: &States,
    ) -> Result<(), SqlError> {
        self.rows += 1;
        if self.writer.is_some() {
            return self.write(self.rows - 1, record, is_first_peer, states);
        }
        let place = self.store.add(record, &[]);
        let many = || SqlError::internal("a partition has too many rows");
        self.places.push((place.ok_or_else(many)?, is_first_peer));
        let kept = self.kept();
        if kept > self.counted {
            self.is_over |= states.hold_or_spill(kept - self.counted, kept)?;
            self.counted = kept;
        }
        if self.is_over && states.may_spill() {
            self.spill(states)?;
        }
        Ok(())
    }

    /// Bytes of the rows in memory.
    fn kept(&self) -> u64 {
        self.store.bytes() + (self.places.capacity() * size_of::<(Place, bool)>()) as u64
    }

    fn write(
        &mut self,
        at: usize,
        record: &[u8],
        is_first_peer: bool,
        states: &States,
    ) -> Result<(), SqlError> {
        if let Some(writer) = &mut self.writer {
            let position = writer.add(&[u8::from(is_first_peer)], record)?;
            if at.is_multiple_of(STEP) {
                let size = size_of::<Position>() as u64;
                states.hold(size)?;
                self.counted += size;
                self.positions.push(position);
            }
        }
        Ok(())
    }

    /// Moves the rows to a file.
    fn spill(&mut self, states: &States) -> Result<(), SqlError> {
        states.count_disk_table();
        self.is_over = false;
        self.writer = Some(RecordWriter::create(states.temp_dir()?, BLOCK)?);
        let (store, places) = (
            std::mem::take(&mut self.store),
            std::mem::take(&mut self.places),
        );
        states.release(std::mem::take(&mut self.counted));
        let mut pacer = Pacer::new();
        for (at, (place, is_first_peer)) in places.iter().enumerate() {
            pacer.tick()?;
            self.write(at, store.key(*place), *is_first_peer, states)?;
        }
        Ok(())
    }

    /// Called after the last row. Returns the number of bytes written to a file.
    pub(super) fn finish(&mut self) -> Result<u64, SqlError> {
        if let Some(writer) = self.writer.take() {
            self.file = Some(writer.finish()?);
        }
        Ok(self.file.as_ref().map_or(0, RecordFile::length))
    }

    /// Removes all rows, and releases their memory but for a small part, which the next partition
    /// uses.
    pub(super) fn clear(&mut self, states: &States) {
        (self.rows, self.file, self.is_over) = (0, None, false);
        self.positions = Vec::new();
        self.places.clear();
        self.places.shrink_to(STEP);
        self.store.clear();
        let kept = self.kept().min(self.counted);
        states.release(self.counted - kept);
        self.counted = kept;
    }
}

/// Reads the rows of a partition.
#[derive(Default)]
pub(super) struct Cursor {
    reader: Option<RecordReader>,
    /// Position after the current row of the file.
    next: usize,
    pacer: Pacer,
}

impl Cursor {
    /// The row at a position.
    pub(super) fn row<'r>(
        &'r mut self,
        partition: &'r Partition,
        at: usize,
    ) -> Result<&'r [u8], SqlError> {
        Ok(self.flagged_row(partition, at)?.0)
    }

    /// The row at a position, and whether it is the first of its peers.
    pub(super) fn flagged_row<'r>(
        &'r mut self,
        partition: &'r Partition,
        at: usize,
    ) -> Result<(&'r [u8], bool), SqlError> {
        self.pacer.tick()?;
        let missing = || SqlError::internal("a row outside of its partition");
        let Some(file) = &partition.file else {
            let (place, is_first_peer) = partition.places.get(at).ok_or_else(missing)?;
            return Ok((partition.store.key(*place), *is_first_peer));
        };
        let reader = self.reader.get_or_insert_with(|| file.reader());
        if at + 1 < self.next || at > self.next + STEP {
            let position = partition.positions.get(at / STEP).ok_or_else(missing)?;
            reader.seek(*position)?;
            self.next = at / STEP * STEP + 1;
        }
        while self.next <= at {
            if !reader.advance()? {
                return Err(missing());
            }
            self.next += 1;
        }
        Ok((reader.value(), reader.key() == [1]))
    }

    /// Returns to the start, of another partition.
    pub(super) fn reset(&mut self) {
        self.reader = None;
        self.next = 0;
    }
}
