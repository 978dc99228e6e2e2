//! The build side of a hash join in temporary files, used if it exceeds the operator's share of
//! memory.
//!
//! ```text
//!  rows    rows in the order in which they were read, in small blocks
//!  index   hash of the key -> position of the row, sorted, in small blocks;
//!          the first hash of each block is in memory
//! ```
//!
//! A batch of the probe side is looked up in three steps: its hashes in ascending order give the
//! positions of all rows found; these are read in the order of the file; and each is handed to the
//! probe rows that it belongs to. So a block of either file is read at most once for each batch, and
//! batches are as large as memory permits ([`BatchSize`]). The rows found are copied and live as long
//! as the batch. A join without equalities reads all rows for each row of the batch.
//!
//! Invariants:
//! 1. The index only narrows the candidates: the join's conditions reject rows of other keys with
//!    the same hash.
//! 2. The rows of a key are returned in the order in which they were read.
//!
//! This keeps the order of the driving scan, which plans rely on, for example if an index saves a sort or
//! makes the rows of a group consecutive. Where the consumer needs no order, the build side is
//! written in partitions by key hash instead ([`super::partitioned_join`]): each row is then read
//! once, not once for each batch.

use super::join::{BATCH, Candidates, Tuple};
use super::partitioned_join::{FAN_OUT, hash_key, partition_of};
use super::profile::SpillSize;
use super::record_sort::ByBytes;
use super::slot_codec::{SlotCodec, damaged};
use super::spill::partitions::{Partition, PartitionWriter};
use super::spill::records::{Position, RecordFile, RecordReader, RecordWriter};
use super::spill::sorter::Sorter;
use super::state::States;
use super::{Exec, ExecResult};
use crate::expr::comparable::append_comparable;
use crate::expr::eval::{EvalCx, Slot, eval};
use crate::plan::physical::HashKey;
use bumpalo::Bump;
use foldhash::fast::RandomState;
use porpoise_base::interrupt::Pacer;
use porpoise_base::sorting;
use std::hash::BuildHasher;

/// Block size in bytes: where the rows found are far apart, one block is read for each.
const BLOCK: usize = 4 << 10;

/// Maximum number of rows of a batch; sorting their hashes takes about ten milliseconds.
const MAX_BATCH: usize = 128 << 10;

/// Least number of rows of a batch for which its memory is charged.
const MIN_CHARGED_BATCH: usize = 1 << 10;

/// A build side while it is written.
pub(super) struct SpillingBuild<'h> {
    codec: &'h SlotCodec<'h>,
    keys: &'h [HashKey],
    files: Files,
    /// Whether all keys could be encoded.
    is_keyed: bool,
    hasher: RandomState,
    key: Vec<u8>,
    row: Vec<u8>,
}

/// The files of a build side while they are written.
enum Files {
    /// Rows in order, and their positions by key hash.
    Indexed {
        rows: RecordWriter,
        index: Sorter<ByBytes>,
    },
    /// Rows by key hash, for a consumer that needs no order.
    Partitioned(PartitionWriter),
}

impl<'h> SpillingBuild<'h> {
    /// Creates empty files for the rows of a slot. A partitioned build side serves a join whose rows
    /// may come in any order.
    pub(super) fn new(
        codec: &'h SlotCodec<'h>,
        keys: &'h [HashKey],
        is_partitioned: bool,
        states: &States,
    ) -> ExecResult<SpillingBuild<'h>> {
        states.count_disk_table();
        let files = if is_partitioned {
            Files::Partitioned(PartitionWriter::create(FAN_OUT, states)?)
        } else {
            Files::Indexed {
                rows: RecordWriter::create(states.temp_dir()?, BLOCK)?,
                index: Sorter::new(ByBytes),
            }
        };
        Ok(SpillingBuild {
            codec,
            keys,
            files,
            is_keyed: !keys.is_empty(),
            hasher: RandomState::default(),
            key: Vec::new(),
            row: Vec::new(),
        })
    }

    /// Adds the row in one slot of a tuple whose other slots are empty.
    pub(super) fn add(
        &mut self,
        tuple: Tuple<'_>,
        slot: usize,
        cx: &EvalCx<'_>,
        states: &States,
    ) -> ExecResult<()> {
        let is_null = self.encode_key(tuple, cx)?;
        self.row.clear();
        let row = tuple.get(slot).copied().unwrap_or(Slot::Null);
        self.codec.encode(row, &mut self.row)?;
        match &mut self.files {
            Files::Indexed { rows, index } => {
                let position = rows.add(&[], &self.row)?;
                if self.is_keyed && !is_null {
                    let hash = self.hasher.hash_one(&self.key).to_be_bytes();
                    index.add(&hash, &position.to_bytes(), states)?;
                }
            }
            Files::Partitioned(writer) if !is_null => {
                let hash = hash_key(&self.hasher, &self.key);
                writer.add(partition_of(hash, 0), &hash.to_le_bytes(), &self.row)?;
            }
            // NULL equals nothing.
            Files::Partitioned(_) => {}
        }
        Ok(())
    }

    /// Encodes the key of a row, unless a key could not be encoded. Returns whether it contains NULL.
    fn encode_key(&mut self, tuple: Tuple<'_>, cx: &EvalCx<'_>) -> ExecResult<bool> {
        self.key.clear();
        if !self.is_keyed {
            return Ok(false);
        }
        for part in self.keys {
            let value = eval(&part.build, tuple, cx)?;
            if value.is_null() {
                return Ok(true);
            }
            if !append_comparable(value, &part.build.ty, part.compare_as, cx, &mut self.key)? {
                self.is_keyed = false;
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// The build input, after its last row.
    pub(super) fn finish(self, states: &States) -> ExecResult<SpilledBuild<'h>> {
        let files = match self.files {
            Files::Indexed { rows, index } => {
                let index = if self.is_keyed {
                    Some(Index::new(index, self.hasher, states)?)
                } else {
                    None
                };
                let rows = rows.finish()?;
                BuildFiles::Indexed { rows, index }
            }
            Files::Partitioned(writer) => BuildFiles::Partitioned(PartitionedBuild {
                partitions: writer.finish(states)?,
                hasher: self.hasher,
                is_keyed: self.is_keyed,
            }),
        };
        Ok(SpilledBuild {
            codec: self.codec,
            files,
        })
    }
}

/// Row positions by key hash.
struct Index {
    hasher: RandomState,
    file: RecordFile,
    /// The first hash and the first record of each block.
    blocks: Vec<(u64, Position)>,
}

impl Index {
    fn new(sorter: Sorter<ByBytes>, hasher: RandomState, states: &States) -> ExecResult<Index> {
        let mut sorted = sorter.finish(states)?;
        let mut file = RecordWriter::create(states.temp_dir()?, BLOCK)?;
        let mut blocks: Vec<(u64, Position)> = Vec::new();
        while sorted.advance()? {
            let (key, value) = sorted.record();
            let position = file.add(key, value)?;
            if blocks
                .last()
                .is_none_or(|(_, last)| !last.is_same_block(position))
            {
                states.hold(size_of::<(u64, Position)>() as u64)?;
                blocks.push((hash_of(key), position));
            }
        }
        sorted.close(states);
        Ok(Index {
            hasher,
            file: file.finish()?,
            blocks,
        })
    }

    /// A cursor before the first record.
    fn cursor(&self) -> IndexCursor<'_> {
        IndexCursor {
            index: self,
            reader: self.file.reader(),
            block: None,
            is_at_record: false,
            pacer: Pacer::new(),
        }
    }
}

/// Looks up ascending hashes.
struct IndexCursor<'i> {
    index: &'i Index,
    reader: RecordReader,
    /// The block of the last seek.
    block: Option<usize>,
    /// Whether the reader is at a record, which no look-up has passed.
    is_at_record: bool,
    pacer: Pacer,
}

impl IndexCursor<'_> {
    /// Calls a function with the positions of the rows with a hash, in order. No hash is less than one
    /// looked up before.
    fn find(&mut self, hash: u64, found: &mut impl FnMut(Position)) -> ExecResult<()> {
        // Records with this hash may begin in the block before the first one that starts with it.
        let blocks = &self.index.blocks;
        let block = blocks
            .partition_point(|(first, _)| *first < hash)
            .saturating_sub(1);
        let Some((_, first)) = blocks.get(block) else {
            return Ok(());
        };
        if self.block.is_none_or(|known| known < block) {
            self.reader.seek(*first)?;
            (self.block, self.is_at_record) = (Some(block), true);
        }
        while self.is_at_record && hash_of(self.reader.key()) <= hash {
            self.pacer.tick()?;
            if hash_of(self.reader.key()) == hash {
                found(Position::from_bytes(self.reader.value()).ok_or_else(damaged)?);
            }
            self.is_at_record = self.reader.advance()?;
        }
        Ok(())
    }
}

/// Size of the batches of a join with spilled inputs: the more rows are looked up at once, the more
/// of them share a block.
#[derive(Debug)]
pub(super) struct BatchSize {
    rows: usize,
    /// Bytes that a batch may take.
    budget: Option<u64>,
}

impl BatchSize {
    /// Begins with batches of this many rows.
    pub(super) fn new(rows: usize) -> BatchSize {
        BatchSize { rows, budget: None }
    }

    /// Number of rows of the next batch.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Adapts the size after a batch that took memory in an arena.
    pub(super) fn adapt(&mut self, rows: usize, exec: &Exec<'_>, arena: &Bump) -> ExecResult<()> {
        if self.rows >= MIN_CHARGED_BATCH {
            exec.env.memory.note_arena(arena)?;
        }
        let states = exec.shared.states;
        let budget = *self.budget.get_or_insert_with(|| states.batch_budget());
        let bytes = (arena.allocated_bytes() as u64).max(1);
        let fitting = (rows as u64).saturating_mul(budget) / bytes;
        let fitting = usize::try_from(fitting).unwrap_or(MAX_BATCH);
        let most = self.rows.saturating_mul(4).min(MAX_BATCH);
        self.rows = fitting.clamp(BATCH, most.max(BATCH));
        Ok(())
    }
}

fn hash_of(key: &[u8]) -> u64 {
    key.first_chunk()
        .map_or(0, |hash| u64::from_be_bytes(*hash))
}

/// A build side in temporary files.
pub(super) struct SpilledBuild<'h> {
    codec: &'h SlotCodec<'h>,
    files: BuildFiles,
}

/// The files of a build side.
enum BuildFiles {
    /// Rows in order; with an index unless they have no keys.
    Indexed {
        rows: RecordFile,
        index: Option<Index>,
    },
    /// Rows by key hash.
    Partitioned(PartitionedBuild),
}

/// A build side in partitions by key hash.
pub(super) struct PartitionedBuild {
    /// The partitions.
    pub(super) partitions: Vec<Partition>,
    /// The function that yields the hashes.
    pub(super) hasher: RandomState,
    /// Whether all keys could be encoded.
    is_keyed: bool,
}

impl<'h> SpilledBuild<'h> {
    /// The index by which rows are found.
    fn index(&self) -> Option<(&RecordFile, &Index)> {
        match &self.files {
            BuildFiles::Indexed { rows, index } => Some((rows, index.as_ref()?)),
            BuildFiles::Partitioned(_) => None,
        }
    }

    /// Whether rows are found by keys; otherwise [`SpilledBuild::for_each`] visits all of them.
    pub(super) fn has_keys(&self) -> bool {
        self.index().is_some()
    }

    /// The partitions, if the probe side can be partitioned in the same way.
    pub(super) fn partitioned(&self) -> Option<&PartitionedBuild> {
        match &self.files {
            BuildFiles::Partitioned(build) if build.is_keyed => Some(build),
            _ => None,
        }
    }

    /// The size of its files.
    pub(super) fn size(&self) -> SpillSize {
        match &self.files {
            BuildFiles::Indexed { rows, index } => SpillSize {
                runs: 1,
                bytes: rows.length() + index.as_ref().map_or(0, |index| index.file.length()),
            },
            BuildFiles::Partitioned(build) => SpillSize {
                runs: build.partitions.len() as u64,
                bytes: build.partitions.iter().map(Partition::bytes).sum(),
            },
        }
    }

    /// The candidate rows for each tuple of a batch.
    pub(super) fn candidates<'a>(
        &self,
        keys: &[HashKey],
        batch: impl Iterator<Item = Tuple<'a>>,
        cx: &EvalCx<'a>,
    ) -> ExecResult<Candidates<'a, 'h>>
    where
        'h: 'a,
    {
        let Some((file, index)) = self.index() else {
            return Err(damaged());
        };
        let mut key = Vec::new();
        let mut hashes: Vec<(u64, usize)> = Vec::new();
        let mut count = 0;
        let mut pacer = Pacer::new();
        for (at, tuple) in batch.enumerate() {
            pacer.tick()?;
            key.clear();
            let mut known = true;
            for part in keys {
                let value = eval(&part.probe, tuple, cx)?;
                known &= append_comparable(value, &part.probe.ty, part.compare_as, cx, &mut key)?;
            }
            if known {
                hashes.push((index.hasher.hash_one(&key), at));
            }
            count = at + 1;
        }
        hashes.sort_unstable();
        let mut of = vec![0..0; count];
        let mut wanted: Vec<(Position, usize)> = Vec::new();
        let mut cursor = index.cursor();
        let mut last = (None, 0..0);
        for (hash, at) in hashes {
            if last.0 != Some(hash) {
                let start = wanted.len();
                cursor.find(hash, &mut |position| wanted.push((position, wanted.len())))?;
                last = (Some(hash), start..wanted.len());
            }
            if let Some(place) = of.get_mut(at) {
                *place = last.1.clone();
            }
        }
        let rows = self.read_rows(file, wanted, cx.arena)?;
        Ok(Candidates::Shared(rows, of))
    }

    /// Reads rows in the order of the file, each into its place.
    fn read_rows<'a>(
        &self,
        file: &RecordFile,
        mut wanted: Vec<(Position, usize)>,
        arena: &'a Bump,
    ) -> ExecResult<Vec<Slot<'a>>>
    where
        'h: 'a,
    {
        let mut rows = vec![Slot::Null; wanted.len()];
        sorting::sort_by(&mut wanted, sorting::RUN_CHEAP, |(a, _), (b, _)| a.cmp(b))?;
        let mut reader = file.reader();
        let mut pacer = Pacer::new();
        for (position, at) in wanted {
            pacer.tick()?;
            reader.seek(position)?;
            let mut bytes: &'a [u8] = arena.alloc_slice_copy(reader.value());
            if let Some(place) = rows.get_mut(at) {
                *place = self.codec.decode(&mut bytes, arena)?;
            }
        }
        Ok(rows)
    }

    /// Calls `decide` for each row until it wants no more. Matching rows are copied and passed to
    /// `keep`.
    pub(super) fn for_each<'a>(
        &self,
        arena: &'a Bump,
        decide: &mut dyn FnMut(Slot<'_>) -> ExecResult<Decision>,
        keep: &mut dyn FnMut(Slot<'a>),
    ) -> ExecResult<()>
    where
        'h: 'a,
    {
        let mut scratch = Bump::new();
        let mut pacer = Pacer::new();
        for mut reader in self.readers() {
            while reader.advance()? {
                pacer.tick()?;
                scratch.reset();
                let slot = self.codec.decode(&mut reader.value(), &scratch)?;
                match decide(slot)? {
                    Decision::NoMatch => {}
                    Decision::Match => {
                        let mut bytes: &'a [u8] = arena.alloc_slice_copy(reader.value());
                        keep(self.codec.decode(&mut bytes, arena)?);
                    }
                    Decision::Stop => return Ok(()),
                }
            }
        }
        Ok(())
    }

    /// Readers of all rows.
    fn readers(&self) -> Vec<RecordReader> {
        match &self.files {
            BuildFiles::Indexed { rows, .. } => vec![rows.reader()],
            BuildFiles::Partitioned(build) => {
                build.partitions.iter().map(Partition::reader).collect()
            }
        }
    }
}

/// Decision about a candidate row.
pub(super) enum Decision {
    /// The row does not match.
    NoMatch,
    /// The row matches.
    Match,
    /// No further candidate is needed.
    Stop,
}
