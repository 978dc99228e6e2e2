//! Grace hash join: both sides in temporary files, partitioned by the hash of the join's key.
//!
//! ```text
//!  build side ──hash──▶ b0 b1 ... b31      one file
//!  probe side ──hash──▶ p0 p1 ... p31      another one
//!
//!  for each i:  hash table of b_i in memory; every row of p_i looks up its matches
//! ```
//!
//! Each row of either side is written once and read once. The build side's partitions are written
//! when it turns out not to fit into memory ([`super::spilled_build`]), those of the probe side while
//! the joins below run; then the partitions are joined one after the other, and the joins above
//! receive their rows. A partition that is too large is split by further bits of the hash. One that
//! hashing cannot split, because many rows have one key, is joined in chunks: each chunk of build rows
//! that fits into memory is compared with all probe rows, and a bit for each probe row records
//! whether an earlier chunk had a match.
//!
//! Invariants:
//! 1. The hash only narrows the candidates: the join's conditions reject rows of other keys.
//! 2. Rows with the same key are in the same partition, and in the order in which they were read.
//! 3. A call of [`ProbeCursor::next`] yields and examines a bounded number of rows, whatever the
//!    number of matches of one row.
//!
//! The output is ordered by partition, so only consumers that need no order get it
//! ([`super::rows::Demand`]); for the others the build side is indexed ([`super::spilled_build`]).
//!
//! References: Kitsuregawa et al., "Application of hash to data base machine and its architecture"
//! (1983); Shapiro, "Join processing in database systems with large main memories" (1986).

use super::conditions::Conditions;
use super::join::Tuple;
use super::query::cx_of;
use super::slot_codec::{SlotCodec, damaged};
use super::spill::partitions::{Partition, PartitionWriter};
use super::spill::records::RecordReader;
use super::state::States;
use super::{Exec, ExecResult};
use crate::expr::comparable::append_comparable;
use crate::expr::eval::{EvalCx, Slot, eval};
use crate::plan::physical::{HashKey, Join, JoinKind};
use bumpalo::Bump;
use foldhash::fast::RandomState;
use porpoise_base::interrupt::Pacer;
use std::hash::BuildHasher;

/// Number of partitions that one pass writes.
pub(super) const FAN_OUT: usize = 1 << FAN_OUT_BITS;
const FAN_OUT_BITS: u32 = 5;

/// Number of passes over a partition, after which its build rows are joined in chunks.
const MAX_DEPTH: u32 = 3;

/// Maximum number of rows that a call examines.
const EXAMINED: usize = 2048;

/// Build rows that are charged to the statement at once.
const CHARGED_ROWS: usize = 256;

/// The partition of a hash in the pass with this number. Each pass uses other bits.
pub(super) fn partition_of(hash: u64, depth: u32) -> usize {
    let bits = hash >> (u64::BITS - FAN_OUT_BITS * (depth + 1));
    bits as usize % FAN_OUT
}

/// The hash that is a record's key.
fn hash_of(key: &[u8]) -> ExecResult<u64> {
    let hash = key.first_chunk().ok_or_else(damaged)?;
    Ok(u64::from_le_bytes(*hash))
}

/// The hash of encoded key values. All bits depend on all of the key.
pub(super) fn hash_key(hasher: &RandomState, key: &[u8]) -> u64 {
    let mut hash = hasher.hash_one(key);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

/// The probe side while it is written.
pub(super) struct ProbeWriter<'h> {
    /// The codecs of the slots.
    codecs: &'h [SlotCodec<'h>],
    writer: PartitionWriter,
    key: Vec<u8>,
    row: Vec<u8>,
}

impl<'h> ProbeWriter<'h> {
    /// Creates empty partitions.
    pub(super) fn new(codecs: &'h [SlotCodec<'h>], states: &States) -> ExecResult<ProbeWriter<'h>> {
        Ok(ProbeWriter {
            codecs,
            writer: PartitionWriter::create(FAN_OUT, states)?,
            key: Vec::new(),
            row: Vec::new(),
        })
    }

    /// Adds a row, unless it cannot belong to the result.
    pub(super) fn add<'a>(
        &mut self,
        (kind, keys): (JoinKind, &'a [HashKey]),
        (hasher, build): (&RandomState, &[Partition]),
        tuple: Tuple<'a>,
        cx: &EvalCx<'a>,
    ) -> ExecResult<()> {
        let needs_match = matches!(kind, JoinKind::Inner | JoinKind::Semi);
        self.key.clear();
        let mut known = true;
        for part in keys {
            let value = eval(&part.probe, tuple, cx)?;
            let ty = &part.probe.ty;
            known &= append_comparable(value, ty, part.compare_as, cx, &mut self.key)?;
        }
        // A key without an encoding contains NULL, which equals nothing.
        let hash = if known {
            hash_key(hasher, &self.key)
        } else {
            0
        };
        let at = partition_of(hash, 0);
        if needs_match && (!known || build.get(at).is_none_or(|p| p.records() == 0)) {
            return Ok(());
        }
        self.row.clear();
        for (slot, codec) in tuple.iter().zip(self.codecs) {
            codec.encode(*slot, &mut self.row)?;
        }
        Ok(self.writer.add(at, &hash.to_le_bytes(), &self.row)?)
    }

    /// The pairs of partitions, after the last row.
    pub(super) fn finish(
        self,
        build: &[Partition],
        states: &States,
    ) -> ExecResult<Vec<PartitionPair>> {
        Ok(pairs(build, &self.writer.finish(states)?, 1))
    }
}

/// Pairs of partitions of the same hashes; `depth` passes have written them.
fn pairs(build: &[Partition], probe: &[Partition], depth: u32) -> Vec<PartitionPair> {
    let both = build.iter().zip(probe);
    let pair = |(build, probe): (&Partition, &Partition)| PartitionPair {
        build: build.clone(),
        probe: probe.clone(),
        depth,
    };
    // The last pair is joined first.
    both.rev().map(pair).collect()
}

/// The rows of both sides whose hashes are in one partition.
pub(super) struct PartitionPair {
    build: Partition,
    probe: Partition,
    /// Number of passes that have written it.
    depth: u32,
}

impl PartitionPair {
    /// Size of the probe rows in bytes.
    pub(super) fn probe_bytes(&self) -> u64 {
        self.probe.bytes()
    }

    /// Whether a join of this kind yields no row of the pair.
    pub(super) fn is_irrelevant(&self, kind: JoinKind) -> bool {
        let needs_match = matches!(kind, JoinKind::Inner | JoinKind::Semi);
        self.probe.records() == 0 || (needs_match && self.build.records() == 0)
    }

    /// Whether the build rows should be split before they are joined.
    pub(super) fn must_split(&self, states: &States) -> bool {
        // In memory a row takes up to twice its size in the file.
        self.depth < MAX_DEPTH && states.exceeds_share(self.build.bytes() * 2)
    }

    /// Splits both partitions by further bits of the hash.
    pub(super) fn split(self, states: &States) -> ExecResult<Vec<PartitionPair>> {
        let build = split(&self.build, self.depth, states)?;
        let probe = split(&self.probe, self.depth, states)?;
        Ok(pairs(&build, &probe, self.depth + 1))
    }

    /// The build rows, in chunks that fit into memory, read by the codec of their slot.
    pub(super) fn build_chunks<'h>(&self, codec: &'h SlotCodec<'h>) -> BuildChunks<'h> {
        BuildChunks {
            codec,
            reader: self.build.reader(),
            state: ChunkState::Start,
        }
    }

    /// A cursor over the probe rows.
    pub(super) fn probe_cursor(&self) -> ProbeCursor {
        ProbeCursor {
            reader: self.probe.reader(),
            rows_read: 0,
            current: None,
            pacer: Pacer::new(),
        }
    }
}

/// Splits a partition.
fn split(partition: &Partition, depth: u32, states: &States) -> ExecResult<Vec<Partition>> {
    let mut writer = PartitionWriter::create(FAN_OUT, states)?;
    let mut reader = partition.reader();
    let mut pacer = Pacer::new();
    while reader.advance()? {
        pacer.tick()?;
        let at = partition_of(hash_of(reader.key())?, depth);
        writer.add(at, reader.key(), reader.value())?;
    }
    Ok(writer.finish(states)?)
}

/// Position of a [`BuildChunks`].
enum ChunkState {
    /// Before the first row.
    Start,
    /// At a row that the last chunk does not contain.
    Row,
    /// After the last row.
    End,
}

/// Reads the build rows of a partition.
pub(super) struct BuildChunks<'h> {
    codec: &'h SlotCodec<'h>,
    reader: RecordReader,
    state: ChunkState,
}

impl<'h> BuildChunks<'h> {
    /// The next rows that fit into memory; `None` after the last chunk. The first chunk of an empty
    /// partition is empty.
    pub(super) fn next<'b>(
        &mut self,
        arena: &'b Bump,
        states: &States,
    ) -> ExecResult<Option<BuildChunk<'b>>>
    where
        'h: 'b,
    {
        let mut has_row = match self.state {
            ChunkState::Start => self.reader.advance()?,
            ChunkState::Row => true,
            ChunkState::End => return Ok(None),
        };
        let mut chunk = BuildChunk::default();
        let mut pacer = Pacer::new();
        let mut is_full = false;
        while has_row && !is_full {
            pacer.tick()?;
            let hash = hash_of(self.reader.key())?;
            let mut bytes: &'b [u8] = arena.alloc_slice_copy(self.reader.value());
            chunk.rows.push(self.codec.decode(&mut bytes, arena)?);
            chunk.hashes.push(hash);
            has_row = self.reader.advance()?;
            if chunk.rows.len() % CHARGED_ROWS == 0 || !has_row {
                is_full = chunk.charge(arena, states)?;
            }
        }
        self.state = if has_row {
            ChunkState::Row
        } else {
            ChunkState::End
        };
        chunk.is_last = !has_row;
        chunk.build_table();
        Ok(Some(chunk))
    }
}

/// Build rows in memory, with a hash table over them.
#[derive(Default)]
pub(super) struct BuildChunk<'b> {
    rows: Vec<Slot<'b>>,
    hashes: Vec<u64>,
    /// The first row of each bucket, plus one. The number of buckets is a power of two.
    heads: Vec<u32>,
    /// The next row of the same bucket for each row, plus one.
    next: Vec<u32>,
    /// Bytes charged for it.
    held: u64,
    /// Whether no chunk follows.
    is_last: bool,
}

impl BuildChunk<'_> {
    /// Charges the rows read so far. Returns whether the chunk is full.
    fn charge(&mut self, arena: &Bump, states: &States) -> ExecResult<bool> {
        let each = size_of::<Slot<'_>>() + size_of::<u64>() + 3 * size_of::<u32>();
        let kept = (arena.allocated_bytes() + self.rows.capacity() * each) as u64;
        let grown = kept.saturating_sub(self.held);
        self.held += grown;
        Ok(states.hold_or_spill(grown, kept)?)
    }

    /// Builds the hash table, with the rows of a bucket in their order.
    fn build_table(&mut self) {
        let buckets = self.rows.len().next_power_of_two();
        self.heads = vec![0; buckets];
        self.next = vec![0; self.rows.len()];
        for (at, hash) in self.hashes.iter().enumerate().rev() {
            let head = self.heads.get_mut(*hash as usize & (buckets - 1));
            if let (Some(head), Some(next)) = (head, self.next.get_mut(at)) {
                *next = std::mem::replace(head, at as u32 + 1);
            }
        }
    }

    /// The first row of a hash's bucket, plus one; 0 if the bucket is empty.
    fn first(&self, hash: u64) -> u32 {
        let mask = self.heads.len().wrapping_sub(1);
        self.heads.get(hash as usize & mask).copied().unwrap_or(0)
    }

    /// The hash of a row, and the row after it in the bucket.
    fn row(&self, at: u32) -> Option<(u64, u32)> {
        let at = (at as usize).checked_sub(1)?;
        Some((*self.hashes.get(at)?, *self.next.get(at)?))
    }

    /// Releases the memory.
    pub(super) fn release(self, states: &States) {
        states.release(self.held);
    }
}

/// The probe rows of a partition that have had a match in a chunk, as a bit set by position.
#[derive(Default)]
pub(super) struct MatchedRows {
    words: Vec<u64>,
    held: u64,
}

impl MatchedRows {
    fn contains(&self, row: u64) -> bool {
        let word = usize::try_from(row / 64).ok();
        let word = word.and_then(|at| self.words.get(at));
        word.is_some_and(|word| word & (1 << (row % 64)) != 0)
    }

    fn insert(&mut self, row: u64, states: &States) -> ExecResult<()> {
        let at = usize::try_from(row / 64).unwrap_or(usize::MAX);
        if at >= self.words.len() {
            let length = (at + 1).max(64).next_power_of_two();
            let grown = ((length - self.words.len()) * size_of::<u64>()) as u64;
            states.hold(grown)?;
            self.held += grown;
            self.words.resize(length, 0);
        }
        if let Some(word) = self.words.get_mut(at) {
            *word |= 1 << (row % 64);
        }
        Ok(())
    }

    /// Releases the memory.
    pub(super) fn release(self, states: &States) {
        states.release(self.held);
    }
}

/// A probe row that is being joined.
#[derive(Clone, Copy)]
struct CurrentRow {
    hash: u64,
    /// Its position in the partition.
    position: u64,
    /// The next candidate, plus one; 0 after the last.
    candidate: u32,
    /// Whether a candidate has matched.
    found: bool,
    /// Whether a candidate of an earlier chunk has matched.
    found_before: bool,
}

/// Joins the probe rows of a partition with a chunk of build rows.
pub(super) struct ProbeCursor {
    reader: RecordReader,
    rows_read: u64,
    /// The reader's row, until it has been joined with all candidates.
    current: Option<CurrentRow>,
    pacer: Pacer,
}

/// The join, and the build rows that a probe cursor compares its rows with.
pub(super) struct ProbeInput<'p, 'h, 'b> {
    /// The join.
    pub(super) join: &'h Join,
    /// Conditions that decide about matches, and those checked after matching.
    pub(super) on: &'p Conditions<'h>,
    pub(super) filter: &'p Conditions<'h>,
    /// The codecs of the slots.
    pub(super) codecs: &'h [SlotCodec<'h>],
    /// The build rows.
    pub(super) chunk: &'p BuildChunk<'b>,
}

impl ProbeCursor {
    /// Number of probe rows read.
    pub(super) fn rows_read(&self) -> u64 {
        self.rows_read
    }

    /// The next joined rows, possibly none; `None` after the last.
    pub(super) fn next<'a, 'h: 'a, 'b: 'a, 'x: 'a>(
        &mut self,
        input: &ProbeInput<'_, 'h, 'b>,
        matched: &mut MatchedRows,
        exec: &Exec<'x>,
        arena: &'a Bump,
    ) -> ExecResult<Option<Vec<Tuple<'a>>>> {
        let cx = cx_of(exec, arena);
        let states = exec.shared.states;
        let mut out = Vec::new();
        let mut budget = EXAMINED;
        while budget > 0 {
            budget -= 1;
            let current = match self.current.take() {
                Some(current) => current,
                None if !self.reader.advance()? => {
                    return Ok((!out.is_empty()).then_some(out));
                }
                None => self.begin(input.chunk, matched)?,
            };
            let Some(row) = self.join_row(current, input, &mut budget, &cx, &mut out)? else {
                continue;
            };
            if row.candidate != 0 {
                self.current = Some(row);
            } else if row.found && !input.chunk.is_last && input.join.kind != JoinKind::Inner {
                matched.insert(row.position, states)?;
            }
        }
        Ok(Some(out))
    }

    /// Begins with the reader's row.
    fn begin(&mut self, chunk: &BuildChunk<'_>, matched: &MatchedRows) -> ExecResult<CurrentRow> {
        self.pacer.tick()?;
        let hash = hash_of(self.reader.key())?;
        let position = self.rows_read;
        self.rows_read += 1;
        Ok(CurrentRow {
            hash,
            position,
            candidate: chunk.first(hash),
            found: false,
            found_before: matched.contains(position),
        })
    }

    /// Joins a row with its candidates, as many as the budget allows. Returns its state after that;
    /// `None` if it is known that it yields nothing.
    fn join_row<'a, 'h: 'a, 'b: 'a>(
        &mut self,
        mut row: CurrentRow,
        input: &ProbeInput<'_, 'h, 'b>,
        budget: &mut usize,
        cx: &EvalCx<'a>,
        out: &mut Vec<Tuple<'a>>,
    ) -> ExecResult<Option<CurrentRow>> {
        let (kind, chunk) = (input.join.kind, input.chunk);
        let is_decided = match kind {
            JoinKind::Inner => row.candidate == 0,
            JoinKind::Left => false,
            JoinKind::Semi => row.candidate == 0 || row.found_before,
            JoinKind::Anti => row.found_before,
        };
        if is_decided {
            return Ok(None);
        }
        let tuple = self.tuple(input.codecs, cx.arena)?;
        let mut joined: Vec<Slot<'a>> = tuple.to_vec();
        while let Some((hash, next)) = chunk.row(row.candidate) {
            if *budget == 0 {
                return Ok(Some(row));
            }
            *budget -= 1;
            self.pacer.tick()?;
            let at = row.candidate as usize - 1;
            row.candidate = next;
            if hash != row.hash {
                continue;
            }
            let place = joined.get_mut(input.join.right.slot);
            if let (Some(place), Some(build)) = (place, chunk.rows.get(at)) {
                *place = *build;
            }
            if !input.on.hold(&joined, cx)? {
                continue;
            }
            row.found = true;
            if matches!(kind, JoinKind::Semi | JoinKind::Anti) {
                row.candidate = 0;
                break;
            }
            if input.filter.hold(&joined, cx)? {
                out.push(cx.arena.alloc_slice_copy(&joined));
            }
        }
        let alone = match kind {
            JoinKind::Inner => false,
            JoinKind::Left | JoinKind::Anti => chunk.is_last && !row.found && !row.found_before,
            JoinKind::Semi => row.found,
        };
        if alone && input.filter.hold(tuple, cx)? {
            out.push(tuple);
        }
        Ok(Some(row))
    }

    /// The reader's row.
    fn tuple<'a, 'h: 'a>(
        &self,
        codecs: &'h [SlotCodec<'h>],
        arena: &'a Bump,
    ) -> ExecResult<Tuple<'a>> {
        let mut bytes: &'a [u8] = arena.alloc_slice_copy(self.reader.value());
        let tuple = arena.alloc_slice_fill_copy(codecs.len(), Slot::Null);
        for (slot, codec) in tuple.iter_mut().zip(codecs) {
            *slot = codec.decode(&mut bytes, arena)?;
        }
        Ok(tuple)
    }
}
