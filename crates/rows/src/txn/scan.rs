//! Scanning rows in the order of an index, in batches that resume.
//!
//! Rows are passed to visitors as references into the engine, without a copy, as long as the engine
//! returns them in the requested order.
//!
//! Invariants:
//! 1. A call costs one engine call for a primary index, two for a secondary one, and one more if
//!    overflow values are fetched; over several partitions these are per partition
//!    ([`super::merge`]).
//! 2. Visitors see rows in index order, whatever order the engine answers in.
//! 3. A scan of entries visits an entry only if it is visible to the read: entries are versioned
//!    like rows, so that no row need be read.
//! 4. [`Table::columns_in_entries`] returns exactly the columns that an [`crate::EntryReader`] of
//!    all columns reads: integers, dates, decimals and binary text can be decoded from a key; text
//!    of other collations cannot, because its key consists of weights.

use super::arena::Arena;
use super::lookup::Lookup;
use super::merge::{Merge, walk_merged};
use crate::definition::{Index, IndexPart};
use crate::overflow::{self, IncompleteRow, OverflowFetch};
use crate::row::RowRef;
use crate::table::Table;
use crate::{Error, Result};
use porpoise_kv::{self as kv, Read, ScanEnd, ScanRange, ScanVisitor, SpaceId};
use porpoise_types::is_decodable;
use smallvec::SmallVec;
use std::ops::ControlFlow;

/// A range of encoded keys of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// First key, inclusive.
    pub start: Vec<u8>,
    /// End, exclusive; `None` for the end of the index.
    pub end: Option<Vec<u8>>,
}

impl KeyRange {
    /// The whole index.
    pub const ALL: KeyRange = KeyRange {
        start: Vec::new(),
        end: None,
    };

    /// All keys that start with `prefix` (see [`Table::key_prefix`]).
    pub fn prefix(prefix: Vec<u8>) -> KeyRange {
        KeyRange {
            end: kv::prefix_end(&prefix),
            start: prefix,
        }
    }

    /// The range in a space, without what lies before `resume` in the order of the scan.
    pub(super) fn resumed<'a>(
        &'a self,
        space: SpaceId,
        resume: Option<&'a [u8]>,
        reverse: bool,
    ) -> ScanRange<'a> {
        let end = resume.filter(|_| reverse).or(self.end.as_deref());
        let start = resume.filter(|_| !reverse).unwrap_or(&self.start);
        ScanRange {
            space,
            start,
            end,
            reverse,
        }
    }
}

/// Specification of a scan.
#[derive(Clone, Debug)]
pub struct ScanSpec {
    /// Position of the index; 0 is the rows themselves.
    pub index: usize,
    /// The ranges, in the order of the scan.
    pub ranges: Vec<KeyRange>,
    /// Whether each range is scanned from its end to its start.
    pub reverse: bool,
    /// Whether only entries are read. Rows then have no column values (all NULL), and a secondary
    /// index needs no second call.
    pub entries_only: bool,
}

/// Overflow values and partitions to be read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fetch<'a> {
    /// The overflow values to fetch; rows have the prefix of others.
    pub overflow: OverflowFetch<'a>,
    /// Positions of the partitions to be scanned, ascending; `None` for all.
    pub partitions: Option<&'a [usize]>,
}

impl Fetch<'_> {
    /// All partitions, and only the prefixes of overflow values.
    pub const PREFIXES: Fetch<'static> = Fetch {
        overflow: OverflowFetch::Prefixes,
        partitions: None,
    };
}

/// Position of a scan; `Default` is the start.
#[derive(Clone, Debug, Default)]
pub struct ScanPosition {
    pub(super) range: usize,
    after: Option<Vec<u8>>,
    pub(super) done: bool,
    pub(super) merge: Option<Box<Merge>>,
    /// Rows and entries visited so far by [`super::Txn::scan_with`].
    pub(super) visited: u64,
}

impl ScanPosition {
    /// Whether nothing was walked yet.
    pub(super) fn is_at_start(&self) -> bool {
        self.range == 0 && self.after.is_none() && !self.done && self.merge.is_none()
    }

    /// Whether everything was walked.
    pub fn done(&self) -> bool {
        self.done
    }
}

/// A visitor of a scan: primary key and row.
pub type RowScanVisitor<'v> = dyn FnMut(&[u8], RowRef<'_>) + 'v;

impl Table {
    /// The key at which a scan of the index at a position visits a row: the primary key, or the key
    /// of the row's entry. The index must not be a FULLTEXT index or have a multi-valued part.
    pub fn entry_key(&self, index: usize, row: &RowRef<'_>, primary: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        match self.indexes.get(index).filter(|_| index > 0) {
            Some(definition) => {
                definition.append_entry(self, row, primary, &mut out);
            }
            None => out.extend_from_slice(primary),
        }
        out
    }
}

impl ScanSpec {
    /// Whether the whole index is scanned.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self.ranges.as_slice(), [only] if only.start.is_empty() && only.end.is_none())
    }

    /// Shows the next rows; see [`super::Txn::scan_with`].
    #[expect(clippy::too_many_arguments, reason = "a scan and what it fetches")]
    pub(super) fn scan(
        &self,
        kv: &mut dyn kv::Txn,
        table: &Table,
        fetch: Fetch<'_>,
        read: Read,
        position: &mut ScanPosition,
        limit: usize,
        visit: &mut RowScanVisitor<'_>,
    ) -> Result<bool> {
        if position.done {
            return Ok(false);
        }
        let spaces = spaces_of(table, self.index, fetch.partitions);
        let limit = limit.max(1);
        if self.index == 0 {
            self.scan_rows(kv, table, &spaces, fetch, read, position, limit, visit)?;
            return Ok(!position.done);
        }
        let Some(index) = table.indexes.get(self.index) else {
            return Err(Error::DefinitionChanged);
        };
        let mut primaries = Arena::default();
        let mut failure = None;
        self.walk(kv, &spaces, read, position, limit, &mut |_, key, value| {
            match index.primary_of(key, value) {
                Ok(primary) => primaries.push(primary),
                Err(e) => failure = Some(e),
            }
            ControlFlow::Continue(())
        })?;
        if let Some(e) = failure {
            return Err(e);
        }
        position.visited += primaries.len() as u64;
        if self.entries_only {
            for primary in primaries.iter() {
                visit(primary, RowRef::without_columns(table));
            }
        } else if primaries.len() > 0 {
            let keys: Vec<&[u8]> = primaries.iter().collect();
            let lookup = Lookup::primary(table, &keys).overflow(fetch.overflow);
            lookup.in_order().read(kv, read, &mut |_, found| {
                if let Some(found) = found {
                    visit(found.primary, found.row);
                }
            })?;
        }
        Ok(!position.done)
    }

    /// Scans the primary index. From the first row that lacks an overflow value on, rows are
    /// buffered until the values were fetched; the buffer is bounded.
    #[expect(clippy::too_many_arguments, reason = "one half of scan_with")]
    fn scan_rows(
        &self,
        kv: &mut dyn kv::Txn,
        table: &Table,
        spaces: &[SpaceId],
        fetch: Fetch<'_>,
        read: Read,
        position: &mut ScanPosition,
        limit: usize,
        visit: &mut RowScanVisitor<'_>,
    ) -> Result<()> {
        let mut failure = None;
        let mut waiting: Vec<IncompleteRow> = Vec::new();
        let (mut held, mut visited) = (0, 0);
        self.walk(kv, spaces, read, position, limit, &mut |_, key, value| {
            visited += 1;
            let row = match RowRef::new(table, value) {
                Ok(row) => row,
                Err(e) => {
                    failure.get_or_insert(e);
                    return ControlFlow::Break(());
                }
            };
            let missing = fetch.overflow.missing(&row);
            if waiting.is_empty() && missing == 0 {
                visit(key, row);
                return ControlFlow::Continue(());
            }
            held += missing + value.len();
            waiting.push(IncompleteRow::new(waiting.len(), key, value));
            if held > overflow::FETCH_BYTES {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        if let Some(e) = failure {
            return Err(e);
        }
        position.visited += visited;
        overflow::complete(kv, table, waiting, fetch.overflow, read, &mut |done| {
            if let Some(bytes) = &done.bytes {
                visit(&done.primary, RowRef::new(table, bytes)?);
            }
            Ok(())
        })
    }

    /// Visits the next entries from a position on, in order. The visitor's first argument is a
    /// range number of the engine, without meaning here.
    pub(super) fn walk(
        &self,
        kv: &mut dyn kv::Txn,
        spaces: &[SpaceId],
        read: Read,
        position: &mut ScanPosition,
        limit: usize,
        visit: &mut ScanVisitor<'_>,
    ) -> Result<()> {
        match spaces {
            [] => position.done = true,
            [space] => self.walk_one(kv, *space, read, position, limit, visit)?,
            several => walk_merged(kv, self, several, read, position, limit, visit)?,
        }
        Ok(())
    }

    /// Visits the first entry of each range, in one space; over several, all entries.
    pub(super) fn first_entries(
        &self,
        kv: &mut dyn kv::Txn,
        spaces: &[SpaceId],
        read: Read,
        visit: &mut ScanVisitor<'_>,
    ) -> Result<()> {
        let mut position = ScanPosition::default();
        if let [space] = spaces {
            return self.resume(*space, &mut position, |ranges| {
                Ok((kv.first_entries(read, ranges, visit)?, ScanEnd::Done))
            });
        }
        self.walk(kv, spaces, read, &mut position, usize::MAX, visit)
    }

    /// Counts the next entries from a position on, at most `limit`.
    pub(super) fn count(
        &self,
        kv: &mut dyn kv::Txn,
        spaces: &[SpaceId],
        read: Read,
        position: &mut ScanPosition,
        limit: usize,
    ) -> Result<usize> {
        if let [space] = spaces {
            return self.resume(*space, position, |ranges| kv.count(read, ranges, limit));
        }
        let mut counted = 0;
        self.walk(kv, spaces, read, position, limit, &mut |_, _, _| {
            counted += 1;
            ControlFlow::Continue(())
        })?;
        Ok(counted)
    }

    /// One engine scan of one space from a position on.
    fn walk_one(
        &self,
        kv: &mut dyn kv::Txn,
        space: SpaceId,
        read: Read,
        position: &mut ScanPosition,
        limit: usize,
        visit: &mut ScanVisitor<'_>,
    ) -> Result<()> {
        self.resume(space, position, |ranges| {
            Ok(((), kv.scan(read, ranges, limit, visit)?))
        })
    }

    /// Calls the engine for the rest of the ranges in one space, and moves the position to where the
    /// call ended.
    fn resume<T>(
        &self,
        space: SpaceId,
        position: &mut ScanPosition,
        call: impl FnOnce(&[ScanRange<'_>]) -> kv::Result<(T, ScanEnd)>,
    ) -> Result<T> {
        let mut resume = position.after.take();
        if let (Some(key), false) = (&mut resume, self.reverse) {
            key.push(0);
        }
        let mut ranges: SmallVec<[ScanRange<'_>; 8]> = SmallVec::new();
        for (r, range) in self.ranges.iter().enumerate().skip(position.range) {
            let resume = resume.as_deref().filter(|_| r == position.range);
            ranges.push(range.resumed(space, resume, self.reverse));
        }
        let (done, end) = call(&ranges)?;
        match end {
            ScanEnd::Done => position.done = true,
            ScanEnd::Stopped { range, key } => {
                position.range += range;
                position.after = Some(key);
            }
        }
        Ok(done)
    }
}

/// Returns the spaces of an index in the given partitions.
pub(super) fn spaces_of(
    table: &Table,
    index: usize,
    partitions: Option<&[usize]>,
) -> SmallVec<[SpaceId; 4]> {
    let all = table.index_spaces(index);
    match partitions {
        None => SmallVec::from_slice(all),
        Some(wanted) => wanted.iter().filter_map(|p| all.get(*p)).copied().collect(),
    }
}

/// A visitor of entries: a number without meaning, key and value as stored; a break ends the call.
/// It is the engine's visitor type, which avoids an adapter.
pub type EntryVisitor<'v> = ScanVisitor<'v>;

fn readable(table: &Table, part: &IndexPart) -> bool {
    let column = table.columns.get(part.column);
    part.prefix.is_none() && column.is_some_and(|c| is_decodable(&c.ty) && !c.is_array())
}

impl Table {
    /// Returns the columns that can be read from entry keys of the index at a position; for the
    /// primary index, those of the primary key.
    pub fn columns_in_entries(&self, index: usize) -> Vec<usize> {
        let ordered = |i: &&Index| index != 0 && !i.is_full_text();
        let secondary = self.indexes.get(index).filter(ordered);
        let all = secondary.into_iter().chain(self.indexes.first());
        let parts = all.flat_map(|index| &index.parts);
        let mut columns: Vec<usize> = parts
            .filter(|p| readable(self, p))
            .map(|p| p.column)
            .collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// Appends the ends of the encoded parts in an entry's key to `ends`. Returns false if the
    /// bytes are not such a key.
    pub fn part_ends(&self, index: usize, key: &[u8], ends: &mut Vec<usize>) -> bool {
        let Some(definition) = self.indexes.get(index).filter(|i| !i.is_full_text()) else {
            return false;
        };
        let mut rest = key;
        let mut skipped = Vec::new();
        for part in &definition.parts {
            let Some(column) = self.columns.get(part.column) else {
                return false;
            };
            let (ty, nullable) = (&column.ty, column.nullable);
            skipped.clear();
            let taken =
                porpoise_types::take_key_part(ty, nullable, part.desc, &mut rest, &mut skipped);
            if taken.is_none() {
                return false;
            }
            ends.push(key.len() - rest.len());
        }
        true
    }
}
