//! Records of several partitions in one temporary file.
//!
//! ```text
//!  file       | block of 2 | block of 0 | block of 2 | block of 1 | ...
//!  partition  0 -> [1..2]    1 -> [3..4]    2 -> [0..1, 2..3]
//! ```
//!
//! Each partition fills a block of its own, and remembers where its blocks are. One file for all
//! partitions keeps the number of descriptors small: a file for each would need hundreds for one
//! statement.
//!
//! Invariant: a partition's records are read in the order in which they were added.

use super::super::state::States;
use super::records::{RecordFile, RecordReader, create_file, new_block, push_record, write_block};
use crate::error::SqlError;
use porpoise_base::temp_files::TempFile;
use std::ops::Range;

/// Bounds of the size of a block.
const MIN_BLOCK: u64 = 4 << 10;
const MAX_BLOCK: u64 = 32 << 10;

/// Part of the statement's headroom that the blocks being filled may take together.
const BLOCKS_SHARE: u64 = 4;

/// A partition that is being written.
#[derive(Debug)]
struct Filling {
    block: Vec<u8>,
    runs: Vec<Range<u64>>,
    records: u64,
    bytes: u64,
}

/// Partitions that are being written.
#[derive(Debug)]
pub(in crate::exec) struct PartitionWriter {
    file: TempFile,
    /// Size at which a block is written.
    size: usize,
    partitions: Vec<Filling>,
    /// Bytes charged for the blocks.
    held: u64,
}

impl PartitionWriter {
    /// Creates a file of `count` empty partitions.
    pub(in crate::exec) fn create(count: usize, states: &States) -> Result<Self, SqlError> {
        let share = states.headroom() / BLOCKS_SHARE / (count as u64).max(1);
        let size = share.clamp(MIN_BLOCK, MAX_BLOCK);
        let held = size * count as u64;
        states.hold(held)?;
        let filling = || Filling {
            block: new_block(),
            runs: Vec::new(),
            records: 0,
            bytes: 0,
        };
        Ok(PartitionWriter {
            file: create_file(states.temp_dir()?)?,
            size: usize::try_from(size).unwrap_or(0),
            partitions: std::iter::repeat_with(filling).take(count).collect(),
            held,
        })
    }

    /// Adds a record to the partition at a position.
    pub(in crate::exec) fn add(
        &mut self,
        at: usize,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), SqlError> {
        let Some(partition) = self.partitions.get_mut(at) else {
            return Err(SqlError::internal("a record of no partition"));
        };
        push_record(&mut partition.block, key, value)?;
        partition.records += 1;
        if partition.block.len() >= self.size {
            flush(&mut self.file, partition, self.size)?;
        }
        Ok(())
    }

    /// The written partitions.
    pub(in crate::exec) fn finish(mut self, states: &States) -> Result<Vec<Partition>, SqlError> {
        for partition in &mut self.partitions {
            flush(&mut self.file, partition, self.size)?;
        }
        states.release(self.held);
        let file = RecordFile::new(self.file, self.size);
        let finished = |filling: Filling| Partition {
            file: file.clone(),
            runs: filling.runs,
            records: filling.records,
            bytes: filling.bytes,
        };
        Ok(self.partitions.into_iter().map(finished).collect())
    }
}

/// Writes a partition's block.
fn flush(file: &mut TempFile, partition: &mut Filling, size: usize) -> Result<(), SqlError> {
    let start = file.length();
    write_block(file, &mut partition.block, size)?;
    let end = file.length();
    partition.bytes += end - start;
    match partition.runs.last_mut() {
        Some(last) if last.end == start => last.end = end,
        _ if end > start => partition.runs.push(start..end),
        _ => {}
    }
    Ok(())
}

/// A written partition.
#[derive(Clone, Debug)]
pub(in crate::exec) struct Partition {
    file: RecordFile,
    runs: Vec<Range<u64>>,
    records: u64,
    bytes: u64,
}

impl Partition {
    /// Number of records.
    pub(in crate::exec) fn records(&self) -> u64 {
        self.records
    }

    /// Size of its blocks in bytes.
    pub(in crate::exec) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A reader of its records.
    pub(in crate::exec) fn reader(&self) -> RecordReader {
        self.file.runs(0..0, self.runs.clone())
    }
}
