//! Reading rows, in batches.
//!
//! Rows are shown where they lie in the engine, without copying, as long as
//! the engine shows them in the order asked for.
//!
//! Invariants:
//! 1. One call of a function here is one engine call for a primary index, two
//!    for a secondary one.
//! 2. Visitors see rows in index order, whatever order the engine answers in.
//! 3. An entry whose row is gone is passed over: between the two calls of a
//!    current read the row may go. In one snapshot it cannot happen.

use super::Txn;
use crate::catalog::Table;
use crate::row::RowRef;
use crate::{Error, Result};
use porpoise_kv::{self as kv, Key, Read, ScanEnd, ScanRange};
use smallvec::SmallVec;
use std::ops::ControlFlow;

/// A range of encoded keys of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// First key, included.
    pub start: Vec<u8>,
    /// End, excluded; `None`: the end of the index.
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
}

/// What to scan.
#[derive(Clone, Debug)]
pub struct ScanSpec {
    /// Position of the index; 0 is the rows themselves.
    pub index: usize,
    /// In the order in which to walk them.
    pub ranges: Vec<KeyRange>,
    /// Each range from its end to its start.
    pub reverse: bool,
    /// The entries are enough: the rows shown are without columns (all NULL).
    /// Spares the second call of a secondary index.
    pub entries_only: bool,
}

/// Where a scan stands; begins at `Default`.
#[derive(Clone, Debug, Default)]
pub struct ScanPosition {
    space: usize,
    range: usize,
    after: Option<Vec<u8>>,
    done: bool,
}

impl ScanPosition {
    /// Whether everything was walked.
    pub fn done(&self) -> bool {
        self.done
    }
}

/// Keys copied one after the other.
#[derive(Default)]
pub(crate) struct Arena {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Arena {
    pub(crate) fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn get(&self, n: usize) -> &[u8] {
        let start = match n.checked_sub(1) {
            None => 0,
            Some(before) => self.ends.get(before).copied().unwrap_or(0),
        };
        let end = self.ends.get(n).copied().unwrap_or(start);
        self.bytes.get(start..end).unwrap_or(&[])
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|n| self.get(n))
    }
}

/// Puts answers that come in any order into the order asked for; what comes in
/// order passes through uncopied.
struct InOrder<T> {
    next: usize,
    early: Vec<Option<T>>,
}

impl<T> InOrder<T> {
    fn new() -> InOrder<T> {
        InOrder {
            next: 0,
            early: Vec::new(),
        }
    }

    /// True when `n` is the next: show it, then call `drain`.
    fn is_next(&mut self, n: usize) -> bool {
        if n == self.next {
            self.next += 1;
            return true;
        }
        false
    }

    fn keep(&mut self, n: usize, value: T) {
        if self.early.len() <= n {
            self.early.resize_with(n + 1, || None);
        }
        if let Some(place) = self.early.get_mut(n) {
            *place = Some(value);
        }
    }

    fn drain(&mut self, mut show: impl FnMut(usize, T)) {
        while let Some(value) = self.early.get_mut(self.next).and_then(Option::take) {
            show(self.next, value);
            self.next += 1;
        }
    }
}

/// A visitor of rows by number.
pub type RowVisitor<'v> = dyn FnMut(usize, Option<RowRef<'_>>) + 'v;
/// A visitor of rows found by a unique key: number, primary key and row.
pub type UniqueVisitor<'v> = dyn FnMut(usize, Option<(&[u8], RowRef<'_>)>) + 'v;
/// A visitor of a scan: primary key and row.
pub type RowScanVisitor<'v> = dyn FnMut(&[u8], RowRef<'_>) + 'v;

impl Txn {
    /// Shows the row of each primary key, or that there is none, once each, in
    /// any order.
    ///
    /// # Errors
    /// The engine's; [`Error::Corrupt`], [`Error::DefinitionChanged`].
    pub fn get_rows(
        &mut self,
        table: &Table,
        keys: &[&[u8]],
        read: Read,
        visit: &mut RowVisitor<'_>,
    ) -> Result<()> {
        let requests: SmallVec<[Key<'_>; 16]> = keys
            .iter()
            .map(|k| Key::new(table.space(0, k), k))
            .collect();
        let mut failure = None;
        self.kv.get(read, &requests, &mut |n, value| match value {
            None => visit(n, None),
            Some(bytes) => match RowRef::new(table, bytes) {
                Ok(row) => visit(n, Some(row)),
                Err(e) => failure = Some(e),
            },
        })?;
        failure.map_or(Ok(()), Err)
    }

    /// As [`Txn::get_rows`], in the order of `keys`.
    ///
    /// # Errors
    /// As [`Txn::get_rows`].
    pub fn get_rows_in_order(
        &mut self,
        table: &Table,
        keys: &[&[u8]],
        read: Read,
        visit: &mut RowVisitor<'_>,
    ) -> Result<()> {
        let mut order: InOrder<Option<Vec<u8>>> = InOrder::new();
        let mut failure = None;
        self.get_rows(table, keys, read, &mut |n, row| {
            if !order.is_next(n) {
                order.keep(n, row.map(|r| r.bytes().to_vec()));
                return;
            }
            visit(n, row);
            order.drain(|n, bytes| {
                match bytes.as_deref().map(|b| RowRef::new(table, b)).transpose() {
                    Ok(row) => visit(n, row),
                    Err(e) => failure = Some(e),
                }
            });
        })?;
        failure.map_or(Ok(()), Err)
    }

    /// Shows the rows that whole keys of a unique (or the primary) index name:
    /// the entries in one call, the rows in another. Keys come from
    /// [`Table::key_prefix`] with a value for every part, none NULL.
    ///
    /// # Errors
    /// As [`Txn::get_rows`].
    pub fn get_by_unique(
        &mut self,
        table: &Table,
        index: usize,
        keys: &[&[u8]],
        read: Read,
        visit: &mut UniqueVisitor<'_>,
    ) -> Result<()> {
        if index == 0 {
            return self.get_rows(table, keys, read, &mut |n, row| {
                visit(n, row.map(|r| (keys.get(n).copied().unwrap_or(&[]), r)));
            });
        }
        let requests: SmallVec<[Key<'_>; 16]> = keys
            .iter()
            .map(|k| Key::new(table.space(index, k), k))
            .collect();
        let mut found: Vec<(usize, Vec<u8>)> = Vec::new();
        self.kv.get(read, &requests, &mut |n, value| match value {
            None => visit(n, None),
            Some(primary) => found.push((n, primary.to_vec())),
        })?;
        if found.is_empty() {
            return Ok(());
        }
        let primaries: SmallVec<[&[u8]; 16]> = found.iter().map(|(_, p)| p.as_slice()).collect();
        self.get_rows(table, &primaries, read, &mut |m, row| {
            let Some((n, primary)) = found.get(m) else {
                return;
            };
            // In a current read the row may have changed since its entry was
            // read.
            let still = row.filter(|r| {
                let mut key = Vec::new();
                table
                    .indexes
                    .get(index)
                    .is_some_and(|i| !i.append_parts(table, r, &mut key))
                    && keys.get(*n).is_some_and(|k| *k == key.as_slice())
            });
            visit(*n, still.map(|r| (primary.as_slice(), r)));
        })
    }

    /// Walks the next at most `limit` entries (at least 1) of a scan, in index
    /// order; true when there may be more.
    ///
    /// # Errors
    /// As [`Txn::get_rows`].
    pub fn scan(
        &mut self,
        table: &Table,
        spec: &ScanSpec,
        read: Read,
        position: &mut ScanPosition,
        limit: usize,
        visit: &mut RowScanVisitor<'_>,
    ) -> Result<bool> {
        if position.done {
            return Ok(false);
        }
        if spec.index == 0 {
            let mut failure = None;
            self.walk(
                table,
                spec,
                read,
                position,
                limit,
                &mut |key, value| match RowRef::new(table, value) {
                    Ok(row) => visit(key, row),
                    Err(e) => {
                        failure.get_or_insert(e);
                    }
                },
            )?;
            return failure.map_or(Ok(!position.done), Err);
        }
        let Some(index) = table.indexes.get(spec.index) else {
            return Err(Error::DefinitionChanged);
        };
        let mut primaries = Arena::default();
        let mut failure = None;
        self.walk(
            table,
            spec,
            read,
            position,
            limit,
            &mut |key, value| match index.primary_of(key, value) {
                Ok(primary) => primaries.push(primary),
                Err(e) => failure = Some(e),
            },
        )?;
        if let Some(e) = failure {
            return Err(e);
        }
        if spec.entries_only {
            for primary in primaries.iter() {
                visit(primary, RowRef::without_columns(table));
            }
        } else if primaries.len() > 0 {
            let keys: Vec<&[u8]> = primaries.iter().collect();
            self.get_rows_in_order(table, &keys, read, &mut |n, row| {
                if let Some(row) = row {
                    visit(primaries.get(n), row);
                }
            })?;
        }
        Ok(!position.done)
    }

    /// One engine scan from a position on.
    fn walk(
        &mut self,
        table: &Table,
        spec: &ScanSpec,
        read: Read,
        position: &mut ScanPosition,
        limit: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let spaces = table.index_spaces(spec.index);
        let mut resume = position.after.take();
        if let (Some(key), false) = (&mut resume, spec.reverse) {
            key.push(0);
        }
        let mut ranges: SmallVec<[ScanRange<'_>; 8]> = SmallVec::new();
        let mut places: SmallVec<[(usize, usize); 8]> = SmallVec::new();
        for (s, space) in spaces.iter().enumerate().skip(position.space) {
            for (r, range) in spec.ranges.iter().enumerate() {
                let here = s == position.space;
                if here && r < position.range {
                    continue;
                }
                let mut start = range.start.as_slice();
                let mut end = range.end.as_deref();
                if let (Some(key), true) = (&resume, here && r == position.range) {
                    if spec.reverse {
                        end = Some(key);
                    } else {
                        start = key;
                    }
                }
                ranges.push(ScanRange {
                    space: *space,
                    start,
                    end,
                    reverse: spec.reverse,
                });
                places.push((s, r));
            }
        }
        let end = self
            .kv
            .scan(read, &ranges, limit.max(1), &mut |_, key, value| {
                visit(key, value);
                ControlFlow::Continue(())
            })?;
        match end {
            ScanEnd::Done => position.done = true,
            ScanEnd::Stopped { range, key } => {
                if let Some((s, r)) = places.get(range) {
                    position.space = *s;
                    position.range = *r;
                }
                position.after = Some(key);
            }
        }
        Ok(())
    }
}
