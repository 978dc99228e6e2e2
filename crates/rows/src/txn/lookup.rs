//! Looking rows up by their keys, in batches: reads and locks.
//!
//! Rows are passed to visitors as references into the engine, without a copy, as long as the engine
//! returns them in the requested order.
//!
//! Invariants:
//! 1. A look-up costs one engine call for the primary index, two for another one, and one more if
//!    overflow values are fetched.
//! 2. An entry whose row does not exist is skipped: in a current read the row may be deleted
//!    between the two calls. In one snapshot this cannot happen.
//! 3. A row is locked by its primary key, whether or not it exists. Locking by a unique key locks
//!    the entry first, whether or not it exists, then the row: under the entry's lock no row with
//!    that value is created or deleted.
//! 4. A lock returns the newest value, never the snapshot's.

use super::arena::Arena;
use crate::error::{Error, Result};
use crate::hot_keys::{HotKeys, Interface, Sample};
use crate::overflow::{self, IncompleteRow, OverflowFetch};
use crate::row::{RowBuf, RowRef};
use crate::table::{AccessKind, Table};
use porpoise_kv::{self as kv, Key, LockMode, LockRequest, Read, Wait};
use smallvec::SmallVec;

/// A look-up of rows by whole keys of the primary or of a unique index.
#[derive(Clone, Copy, Debug)]
pub struct Lookup<'a> {
    table: &'a Table,
    /// Position of the index; 0 is the primary one.
    index: usize,
    keys: &'a [&'a [u8]],
    overflow: OverflowFetch<'a>,
    ordered: bool,
}

impl<'a> Lookup<'a> {
    /// The rows with these primary keys.
    pub fn primary(table: &'a Table, keys: &'a [&'a [u8]]) -> Lookup<'a> {
        Lookup::unique(table, 0, keys)
    }

    /// The rows with these keys of a unique index, or of the primary one at
    /// position 0. Keys come from [`Table::key_prefix`] with a value for every
    /// part, none NULL.
    pub fn unique(table: &'a Table, index: usize, keys: &'a [&'a [u8]]) -> Lookup<'a> {
        Lookup {
            table,
            index,
            keys,
            overflow: OverflowFetch::All,
            ordered: false,
        }
    }

    /// Fetches only these overflow values; rows have the prefix of others.
    #[must_use]
    pub fn overflow(self, overflow: OverflowFetch<'a>) -> Lookup<'a> {
        Lookup { overflow, ..self }
    }

    /// Makes reads visit rows in the order of the keys.
    #[must_use]
    pub fn in_order(self) -> Lookup<'a> {
        Lookup {
            ordered: true,
            ..self
        }
    }

    /// Counts the keys as rows fetched from the table.
    #[inline]
    pub(super) fn count_fetched(&self) {
        let accesses = self.table.accesses();
        accesses.add(AccessKind::Fetch, self.keys.len() as u64);
    }

    /// Number of keys.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Passes the keys to the sampler of hot keys.
    #[inline]
    pub(super) fn sample(&self, hot_keys: &HotKeys, writes: bool) {
        let count = u32::try_from(self.keys.len()).unwrap_or(u32::MAX);
        hot_keys.sampler().sample(count, |n| {
            hot_keys.record(Sample {
                interface: Interface::Sql,
                index: Some((self.table.id, self.index)),
                prefix: &[],
                key: self.key(n as usize),
                writes,
            });
        });
    }

    fn key(&self, n: usize) -> &'a [u8] {
        self.keys.get(n).copied().unwrap_or(&[])
    }

    fn engine_key(&self, key: &'a [u8]) -> Key<'a> {
        Key::new(self.table.space(self.index, key), key)
    }

    pub(super) fn engine_keys(&self) -> SmallVec<[Key<'a>; 16]> {
        if self.table.partitioning.is_some() {
            return self.keys.iter().map(|k| self.engine_key(k)).collect();
        }
        // All keys are in one space.
        let space = self.table.space(self.index, &[]);
        self.keys.iter().map(|k| Key::new(space, k)).collect()
    }

    /// Calls `read` with the keys. Most look-ups are of one key.
    fn with_engine_keys<T>(&self, read: impl FnOnce(&[Key<'a>]) -> T) -> T {
        match self.keys {
            [key] => read(&[self.engine_key(key)]),
            _ => read(&self.engine_keys()),
        }
    }

    fn lock_requests(&self, mode: LockMode) -> SmallVec<[LockRequest<'a>; 16]> {
        let request = |key: &&'a [u8]| LockRequest {
            key: self.engine_key(key),
            mode,
        };
        self.keys.iter().map(request).collect()
    }

    /// Whether a row still has the key at a position: in a current read it may
    /// have changed since its entry was read.
    fn still_has(&self, n: usize, row: &RowRef<'_>) -> bool {
        let (Some(index), Some(wanted)) =
            (self.table.maintained_index(self.index), self.keys.get(n))
        else {
            return false;
        };
        let mut key = Vec::new();
        self.table.entries(self.index, row).any(|entry| {
            key.clear();
            !index.append_parts(self.table, &entry, &mut key) && *wanted == key.as_slice()
        })
    }
}

/// A row that was looked up.
#[derive(Clone, Copy, Debug)]
pub struct FoundRow<'a> {
    /// Its primary key.
    pub primary: &'a [u8],
    /// The row.
    pub row: RowRef<'a>,
}

/// The outcome of locking one key.
#[derive(Clone, Copy, Debug)]
pub struct LockedRow<'a> {
    /// False only with [`Wait::Skip`]; then the other fields are meaningless.
    pub granted: bool,
    /// Whether the newest committed version (with a unique key, that of the entry or of the row) is
    /// newer than the transaction's snapshot.
    pub newer: bool,
    /// Whether the row is an own write.
    pub own: bool,
    /// The primary key; `None` if a unique key has no row.
    pub primary: Option<&'a [u8]>,
    /// The row, `None` when there is none.
    pub row: Option<RowRef<'a>>,
}

/// A visitor of rows looked up, by position of their key.
pub type FoundVisitor<'v> = dyn FnMut(usize, Option<FoundRow<'_>>) + 'v;
/// A visitor of locked rows, by position of their key.
pub type LockedVisitor<'v> = dyn FnMut(usize, LockedRow<'_>) + 'v;

/// Reorders rows into the order of their keys; those that arrive in order are passed on without a copy.
struct InOrder<'l, F> {
    lookup: Lookup<'l>,
    visit: F,
    next: usize,
    /// Bytes of the rows that arrived early, by the position of their key.
    early: Vec<Option<Option<Vec<u8>>>>,
    failure: Option<Error>,
}

impl<F: FnMut(usize, Option<FoundRow<'_>>)> InOrder<'_, F> {
    #[inline]
    fn arrive(&mut self, n: usize, row: Option<RowRef<'_>>) {
        if n != self.next {
            self.keep(n, row.map(|row| row.bytes().to_vec()));
            return;
        }
        self.next += 1;
        let primary = self.lookup.key(n);
        (self.visit)(n, row.map(|row| FoundRow { primary, row }));
        if !self.early.is_empty() {
            self.drain();
        }
    }

    #[cold]
    fn keep(&mut self, n: usize, row: Option<Vec<u8>>) {
        if self.early.len() <= n {
            self.early.resize_with(n + 1, || None);
        }
        if let Some(place) = self.early.get_mut(n) {
            *place = Some(row);
        }
    }

    #[cold]
    fn drain(&mut self) {
        while let Some(bytes) = self.early.get_mut(self.next).and_then(Option::take) {
            let n = self.next;
            self.next += 1;
            let table = self.lookup.table;
            match bytes.as_deref().map(|b| RowRef::new(table, b)).transpose() {
                Ok(row) => {
                    let primary = self.lookup.key(n);
                    (self.visit)(n, row.map(|row| FoundRow { primary, row }));
                }
                Err(e) => self.failure = Some(e),
            }
        }
    }
}

impl Lookup<'_> {
    /// Shows the row of each key; see [`super::Txn::look_up`].
    pub(super) fn read(
        &self,
        kv: &mut dyn kv::Txn,
        read: Read,
        visit: &mut FoundVisitor<'_>,
    ) -> Result<()> {
        if self.index == 0 {
            return self.read_primary(kv, read, visit);
        }
        let mut found: Vec<(usize, Vec<u8>)> = Vec::new();
        let entries = self.engine_keys();
        kv.get(read, &entries, &mut |n, value| match value {
            None => visit(n, None),
            Some(primary) => found.push((n, primary.to_vec())),
        })?;
        if self.ordered {
            found.sort_unstable_by_key(|(n, _)| *n);
        }
        let primaries: SmallVec<[&[u8]; 16]> = found.iter().map(|(_, p)| p.as_slice()).collect();
        let rows = Lookup {
            index: 0,
            keys: &primaries,
            ..*self
        };
        rows.read_primary(kv, read, &mut |m, row| {
            if let Some((n, _)) = found.get(m) {
                visit(*n, row.filter(|found| self.still_has(*n, &found.row)));
            }
        })
    }

    fn read_primary(
        &self,
        kv: &mut dyn kv::Txn,
        read: Read,
        visit: &mut FoundVisitor<'_>,
    ) -> Result<()> {
        if self.ordered {
            return self.read_in_order(kv, read, visit);
        }
        self.read_any_order(kv, read, visit)
    }

    /// Reads rows by their primary keys, in the order of the keys. Generic over the visitor, so that only the engine's call is
    /// not inlined.
    pub(super) fn read_in_order(
        &self,
        kv: &mut dyn kv::Txn,
        read: Read,
        visit: impl FnMut(usize, Option<FoundRow<'_>>),
    ) -> Result<()> {
        let (table, overflow) = (self.table, self.overflow);
        let mut order = InOrder {
            lookup: *self,
            visit,
            next: 0,
            early: Vec::new(),
            failure: None,
        };
        let mut incomplete: Vec<IncompleteRow> = Vec::new();
        let mut found = |n, value: Option<&[u8]>| {
            let Some(bytes) = value else {
                return order.arrive(n, None);
            };
            match RowRef::new(table, bytes) {
                // The rows after it are kept until it is complete.
                Ok(row) if overflow.missing(&row) > 0 => {
                    incomplete.push(IncompleteRow::new(n, self.key(n), bytes));
                }
                Ok(row) => order.arrive(n, Some(row)),
                Err(e) => order.failure = Some(e),
            }
        };
        self.with_engine_keys(|keys| kv.get(read, keys, &mut found))?;
        if let Some(e) = order.failure.take() {
            return Err(e);
        }
        if incomplete.is_empty() {
            return Ok(());
        }
        overflow::complete(kv, table, incomplete, overflow, read, &mut |done| {
            let row = done.bytes.as_deref().map(|b| RowRef::new(table, b));
            order.arrive(done.number, row.transpose()?);
            Ok(())
        })?;
        order.failure.map_or(Ok(()), Err)
    }

    fn read_any_order(
        &self,
        kv: &mut dyn kv::Txn,
        read: Read,
        visit: &mut FoundVisitor<'_>,
    ) -> Result<()> {
        let table = self.table;
        let mut failure = None;
        let mut incomplete: Vec<IncompleteRow> = Vec::new();
        let mut found = |n, value: Option<&[u8]>| {
            let Some(bytes) = value else {
                return visit(n, None);
            };
            let primary = self.key(n);
            match RowRef::new(table, bytes) {
                Ok(row) if self.overflow.missing(&row) > 0 => {
                    incomplete.push(IncompleteRow::new(n, primary, bytes));
                }
                Ok(row) => visit(n, Some(FoundRow { primary, row })),
                Err(e) => failure = Some(e),
            }
        };
        self.with_engine_keys(|keys| kv.get(read, keys, &mut found))?;
        if let Some(e) = failure {
            return Err(e);
        }
        if incomplete.is_empty() {
            return Ok(());
        }
        overflow::complete(kv, table, incomplete, self.overflow, read, &mut |done| {
            let row = done.bytes.as_deref().map(|b| RowRef::new(table, b));
            let primary = done.primary.as_slice();
            let found = row.transpose()?.map(|row| FoundRow { primary, row });
            visit(done.number, found);
            Ok(())
        })
    }

    /// Locks the rows; see [`super::Txn::lock`].
    pub(super) fn lock(
        &self,
        kv: &mut dyn kv::Txn,
        mode: LockMode,
        wait: Wait,
        visit: &mut LockedVisitor<'_>,
    ) -> Result<()> {
        if self.index == 0 {
            return self.lock_primary(kv, mode, wait, visit);
        }
        let mut primaries = Arena::default();
        let mut entries: SmallVec<[(usize, bool); 16]> = SmallVec::new();
        let requests = self.lock_requests(mode);
        kv.lock(&requests, wait, &mut |n, found| {
            if let (true, Some(primary)) = (found.granted, found.value) {
                primaries.push(primary);
                entries.push((n, found.newer));
            } else {
                visit(
                    n,
                    LockedRow {
                        granted: found.granted,
                        newer: found.newer,
                        own: found.own,
                        primary: None,
                        row: None,
                    },
                );
            }
        })?;
        if primaries.len() == 0 {
            return Ok(());
        }
        let keys: SmallVec<[&[u8]; 16]> = primaries.iter().collect();
        let rows = Lookup {
            index: 0,
            keys: &keys,
            ..*self
        };
        rows.lock_primary(kv, mode, wait, &mut |m, row| {
            if let Some((n, newer)) = entries.get(m) {
                let newer = row.newer || *newer;
                visit(*n, LockedRow { newer, ..row });
            }
        })
    }

    fn lock_primary(
        &self,
        kv: &mut dyn kv::Txn,
        mode: LockMode,
        wait: Wait,
        visit: &mut LockedVisitor<'_>,
    ) -> Result<()> {
        let table = self.table;
        let mut failure = None;
        let mut incomplete: Vec<IncompleteRow> = Vec::new();
        let mut flags: SmallVec<[(bool, bool); 4]> = SmallVec::new();
        let requests = self.lock_requests(mode);
        kv.lock(&requests, wait, &mut |n, found| {
            let primary = self.key(n);
            let row = match found.value {
                Some(bytes) if found.granted => match RowRef::new(table, bytes) {
                    Ok(row) => Some(row),
                    Err(e) => {
                        failure = Some(e);
                        return;
                    }
                },
                _ => None,
            };
            if let Some(row) = &row
                && self.overflow.missing(row) > 0
            {
                flags.push((found.newer, found.own));
                incomplete.push(IncompleteRow::new(n, primary, row.bytes()));
                return;
            }
            visit(
                n,
                LockedRow {
                    granted: found.granted,
                    newer: found.newer,
                    own: found.own,
                    primary: Some(primary),
                    row,
                },
            );
        })?;
        if let Some(e) = failure {
            return Err(e);
        }
        let mut flags = flags.into_iter();
        overflow::complete(
            kv,
            table,
            incomplete,
            self.overflow,
            Read::CURRENT,
            &mut |done| {
                let (newer, own) = flags.next().unwrap_or((false, false));
                let row = done.bytes.as_deref().map(|b| RowRef::new(table, b));
                let locked = LockedRow {
                    granted: true,
                    newer,
                    own,
                    primary: Some(&done.primary),
                    row: row.transpose()?,
                };
                visit(done.number, locked);
                Ok(())
            },
        )
    }
}

/// Fetches what rows lack; see [`super::Txn::complete_rows`].
pub(super) fn complete_rows(
    kv: &mut dyn kv::Txn,
    table: &Table,
    rows: &mut [(Vec<u8>, RowBuf)],
    fetch: OverflowFetch<'_>,
    read: Read,
) -> Result<()> {
    let mut incomplete = Vec::new();
    for (number, (primary, row)) in rows.iter().enumerate() {
        if fetch.missing(&row.row(table)?) > 0 {
            incomplete.push(IncompleteRow::new(number, primary, row.bytes()));
        }
    }
    overflow::complete(kv, table, incomplete, fetch, read, &mut |done| {
        if let (Some((_, row)), Some(bytes)) = (rows.get_mut(done.number), done.bytes) {
            *row = RowBuf::from(bytes);
        }
        Ok(())
    })
}
