//! The build side of a hash join in temporary files, used if it exceeds the operator's share of
//! memory.
//!
//! ```text
//!  rows    rows in the order in which they were read, in small blocks
//!  index   hash of the key -> position of the row, sorted, in small blocks;
//!          the first hash of each block is in memory
//! ```
//!
//! A batch of the probe side is looked up in hash order, so that a block is read once for each
//! batch. The rows found are copied and live as long as the batch. A join without equalities reads
//! all rows for each row of the batch.
//!
//! Invariants:
//! 1. The index only narrows the candidates: the join's conditions reject rows of other keys with
//!    the same hash.
//! 2. The rows of a key are returned in the order in which they were read.
//!
//! Rejected: partitioning both sides by hash (a Grace hash join). The output would be ordered by
//! partition, but plans rely on the order of the driving scan, for example if an index saves a sort
//! or makes the rows of a group consecutive.

use super::join::{Candidates, Tuple};
use super::rowstore::{self, Values, values_of};
use super::spill::records::{Position, RecordFile, RecordReader, RecordWriter};
use super::spill::sorter::Sorter;
use super::state::States;
use super::{ExecError, ExecResult};
use crate::error::SqlError;
use crate::expr::comparable::append_comparable;
use crate::expr::eval::{EvalCx, Slot, eval};
use crate::plan::physical::HashKey;
use bumpalo::Bump;
use foldhash::fast::RandomState;
use porpoise_base::interrupt::Pacer;
use porpoise_rows::RowRef;
use porpoise_rows::catalog::Table;
use std::cmp::Ordering;
use std::hash::BuildHasher;

/// Block size in bytes: one block is read for each row that is looked up.
const BLOCK: usize = 4 << 10;

/// The first byte of a row: stored as in the engine, or as serialized values.
const STORED: u8 = 0;
const VALUES: u8 = 1;

type ByBytes = fn(&[u8], &[u8]) -> Ordering;

fn damaged() -> ExecError {
    ExecError::Error(SqlError::internal("a spilled row of a join cannot be read"))
}

/// Serializes a row; [`decode`] reads it back.
fn encode(slot: Slot<'_>, out: &mut Vec<u8>) -> ExecResult<()> {
    match slot {
        Slot::Row(row) => {
            out.push(STORED);
            out.extend_from_slice(row.bytes());
        }
        Slot::Values(values) => {
            out.push(VALUES);
            out.extend_from_slice(&(values.len() as u64).to_le_bytes());
            values.iter().for_each(|v| rowstore::write(*v, out));
        }
        Slot::Keyed(_) | Slot::Null => return Err(damaged()),
    }
    Ok(())
}

/// The row in these bytes, which it borrows.
fn decode<'a>(table: Option<&'a Table>, bytes: &'a [u8], arena: &'a Bump) -> ExecResult<Slot<'a>> {
    match (bytes.split_first(), table) {
        (Some((&STORED, row)), Some(table)) => Ok(Slot::Row(RowRef::new(table, row)?)),
        (Some((&VALUES, rest)), _) => {
            let (width, rest) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
            let width = usize::try_from(u64::from_le_bytes(*width)).map_err(|_| damaged())?;
            let values: Values<'a> = values_of(rest, width);
            Ok(Slot::Values(arena.alloc_slice_copy(&values)))
        }
        _ => Err(damaged()),
    }
}

/// A build side while it is written.
pub(super) struct SpillingBuild<'h> {
    table: Option<&'h Table>,
    rows: RecordWriter,
    keys: &'h [HashKey],
    /// Row positions by key hash; `None` once a key could not be encoded.
    index: Option<Sorter<ByBytes>>,
    hasher: RandomState,
    key: Vec<u8>,
    row: Vec<u8>,
}

impl<'h> SpillingBuild<'h> {
    /// Creates empty files; `table` is the stored table, if it is one.
    pub(super) fn new(
        table: Option<&'h Table>,
        keys: &'h [HashKey],
        states: &States,
    ) -> ExecResult<SpillingBuild<'h>> {
        states.count_disk_table();
        let by_bytes: ByBytes = |a, b| a.cmp(b);
        Ok(SpillingBuild {
            table,
            rows: RecordWriter::create(states.temp_dir()?, BLOCK)?,
            keys,
            index: (!keys.is_empty()).then(|| Sorter::new(by_bytes)),
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
        self.row.clear();
        let row = tuple.get(slot).copied().unwrap_or(Slot::Null);
        encode(row, &mut self.row)?;
        let position = self.rows.add(&[], &self.row)?;
        let Some(index) = &mut self.index else {
            return Ok(());
        };
        self.key.clear();
        for part in self.keys {
            let value = eval(&part.build, tuple, cx)?;
            if value.is_null() {
                // NULL equals nothing.
                return Ok(());
            }
            if !append_comparable(value, &part.build.ty, part.compare_as, cx, &mut self.key)? {
                self.index = None;
                return Ok(());
            }
        }
        let hash = self.hasher.hash_one(&self.key).to_be_bytes();
        Ok(index.add(&hash, &position.to_bytes(), states)?)
    }

    /// The build input, after its last row.
    pub(super) fn finish(self, states: &States) -> ExecResult<SpilledBuild<'h>> {
        let index = match self.index {
            Some(sorter) => Some(Index::new(sorter, self.hasher, states)?),
            None => None,
        };
        Ok(SpilledBuild {
            table: self.table,
            rows: self.rows.finish()?,
            index,
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

    /// The positions of the rows with a hash, in order.
    fn find(&self, hash: u64, reader: &mut RecordReader) -> ExecResult<Vec<Position>> {
        let mut found = Vec::new();
        // Records with this hash may begin in the block before the first one that starts with it.
        let at = self.blocks.partition_point(|(first, _)| *first < hash);
        let Some((_, first)) = self.blocks.get(at.saturating_sub(1)) else {
            return Ok(found);
        };
        let mut pacer = Pacer::new();
        let mut more = reader.seek(*first).map(|()| true)?;
        while more && hash_of(reader.key()) <= hash {
            pacer.tick()?;
            if hash_of(reader.key()) == hash {
                found.push(Position::from_bytes(reader.value()).ok_or_else(damaged)?);
            }
            more = reader.advance()?;
        }
        Ok(found)
    }
}

fn hash_of(key: &[u8]) -> u64 {
    key.first_chunk()
        .map_or(0, |hash| u64::from_be_bytes(*hash))
}

/// A build side in temporary files.
pub(super) struct SpilledBuild<'h> {
    table: Option<&'h Table>,
    rows: RecordFile,
    index: Option<Index>,
}

impl<'h> SpilledBuild<'h> {
    /// Whether rows are found by keys; otherwise [`SpilledBuild::for_each`] visits all of them.
    pub(super) fn has_keys(&self) -> bool {
        self.index.is_some()
    }

    /// Size of its files in bytes.
    pub(super) fn bytes(&self) -> u64 {
        let index = self.index.as_ref().map_or(0, |index| index.file.length());
        self.rows.length() + index
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
        let Some(index) = &self.index else {
            return Err(damaged());
        };
        let mut key = Vec::new();
        let mut hashes: Vec<(u64, usize)> = Vec::new();
        let mut count = 0;
        for (at, tuple) in batch.enumerate() {
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
        // List 0 is empty.
        let mut lists: Vec<Vec<Slot<'a>>> = vec![Vec::new()];
        let mut of = vec![0; count];
        let (mut index_reader, mut reader) = (index.file.reader(), self.rows.reader());
        let mut last = None;
        for (hash, at) in hashes {
            if last != Some(hash) {
                let mut list = Vec::new();
                for position in index.find(hash, &mut index_reader)? {
                    reader.seek(position)?;
                    let bytes: &'a [u8] = cx.arena.alloc_slice_copy(reader.value());
                    list.push(decode(self.table, bytes, cx.arena)?);
                }
                lists.push(list);
                last = Some(hash);
            }
            if let Some(place) = of.get_mut(at) {
                *place = lists.len() - 1;
            }
        }
        Ok(Candidates::SharedLists(lists, of))
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
        let mut reader = self.rows.reader();
        let mut scratch = Bump::new();
        let mut pacer = Pacer::new();
        while reader.advance()? {
            pacer.tick()?;
            scratch.reset();
            let slot = decode(self.table, reader.value(), &scratch)?;
            match decide(slot)? {
                Decision::NoMatch => {}
                Decision::Match => {
                    let bytes: &'a [u8] = arena.alloc_slice_copy(reader.value());
                    keep(decode(self.table, bytes, arena)?);
                }
                Decision::Stop => return Ok(()),
            }
        }
        Ok(())
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
