//! Locking rows.
//!
//! Invariants:
//! 1. A row is locked by its primary key, present or absent. Locking by a
//!    unique key locks the entry first, present or absent, then the row: under
//!    the entry's lock no row of that value appears or goes.
//! 2. What is shown is the newest value, never the snapshot's.

use super::Txn;
use super::arena::Arena;
use super::parts::{Blobs, Waiting};
use crate::Result;
use crate::row::{RowBuf, RowRef};
use crate::table::Table;
use porpoise_kv::{Key, LockMode, LockRequest, Read, StatementMark, Wait};
use smallvec::SmallVec;

/// What locking a row found.
#[derive(Clone, Copy, Debug)]
pub struct LockedRow<'a> {
    /// False only with [`Wait::Skip`]; then the rest says nothing.
    pub granted: bool,
    /// The newest committed version is newer than the transaction's view.
    pub newer: bool,
    /// The row shown is an own write.
    pub own: bool,
    /// The row, `None` when there is none.
    pub row: Option<RowRef<'a>>,
}

/// A visitor of locked rows by number.
pub type LockedVisitor<'v> = dyn FnMut(usize, LockedRow<'_>) + 'v;
/// A visitor of rows locked by a unique key: number, primary key, row.
pub type LockedUniqueVisitor<'v> = dyn FnMut(usize, Option<&[u8]>, LockedRow<'_>) + 'v;

impl Txn {
    /// Locks rows by primary key, in one call, and shows the newest version of
    /// each, in any order.
    ///
    /// # Errors
    /// The engine's (locks granted by a failed call may stay held);
    /// [`crate::Error::Corrupt`], [`crate::Error::DefinitionChanged`].
    pub fn lock_rows(
        &mut self,
        table: &Table,
        keys: &[&[u8]],
        mode: LockMode,
        wait: Wait,
        visit: &mut LockedVisitor<'_>,
    ) -> Result<()> {
        self.lock_rows_with(table, keys, (mode, wait), Blobs::All, visit)
    }

    /// As [`Txn::lock_rows`], with the large values named only.
    ///
    /// # Errors
    /// As [`Txn::lock_rows`].
    pub fn lock_rows_with(
        &mut self,
        table: &Table,
        keys: &[&[u8]],
        (mode, wait): (LockMode, Wait),
        blobs: Blobs<'_>,
        visit: &mut LockedVisitor<'_>,
    ) -> Result<()> {
        let requests: SmallVec<[LockRequest<'_>; 16]> = keys
            .iter()
            .map(|k| LockRequest {
                key: Key::new(table.space(0, k), k),
                mode,
            })
            .collect();
        let mut failure = None;
        let mut waiting: Vec<Waiting> = Vec::new();
        let mut signs: SmallVec<[(bool, bool); 4]> = SmallVec::new();
        self.kv.lock(&requests, wait, &mut |n, found| {
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
            if let (Some(row), Some(primary)) = (&row, keys.get(n))
                && blobs.missing(row) > 0
            {
                signs.push((found.newer, found.own));
                waiting.push(Waiting {
                    number: n,
                    primary: primary.to_vec(),
                    bytes: Some(row.bytes().to_vec()),
                });
                return;
            }
            visit(
                n,
                LockedRow {
                    granted: found.granted,
                    newer: found.newer,
                    own: found.own,
                    row,
                },
            );
        })?;
        if let Some(e) = failure {
            return Err(e);
        }
        let mut signs = signs.into_iter();
        self.complete(table, waiting, blobs, Read::CURRENT, &mut |done| {
            let (newer, own) = signs.next().unwrap_or((false, false));
            let row = done.bytes.as_deref().map(|b| RowRef::new(table, b));
            let locked = LockedRow {
                granted: true,
                newer,
                own,
                row: row.transpose()?,
            };
            visit(done.number, locked);
            Ok(())
        })
    }

    /// Locks rows exclusively, in one call, and gives those that are there and
    /// that `which` takes, as [`Txn::delete`] wants them: in the order of
    /// `keys`, of large values the start.
    ///
    /// # Errors
    /// As [`Txn::lock_rows`].
    pub fn lock_present(
        &mut self,
        table: &Table,
        keys: &[impl AsRef<[u8]>],
        mut which: impl FnMut(&RowRef<'_>) -> bool,
    ) -> Result<Vec<(Vec<u8>, RowBuf)>> {
        let keys: SmallVec<[&[u8]; 16]> = keys.iter().map(AsRef::as_ref).collect();
        let mut found: Vec<Option<RowBuf>> = vec![None; keys.len()];
        let how = (LockMode::Exclusive, self.wait());
        self.lock_rows_with(table, &keys, how, Blobs::Prefixes, &mut |n, locked| {
            if let (Some(place), Some(row)) = (found.get_mut(n), locked.row.filter(&mut which)) {
                *place = Some(row.to_buf());
            }
        })?;
        let rows = keys.iter().zip(found);
        Ok(rows
            .filter_map(|(key, row)| Some((key.to_vec(), row?)))
            .collect())
    }

    /// Locks rows by whole keys of a unique index: the entries in one call,
    /// the rows they name in another. `newer` holds when entry or row is.
    ///
    /// # Errors
    /// As [`Txn::lock_rows`].
    pub fn lock_unique(
        &mut self,
        table: &Table,
        index: usize,
        keys: &[&[u8]],
        mode: LockMode,
        wait: Wait,
        visit: &mut LockedUniqueVisitor<'_>,
    ) -> Result<()> {
        self.lock_unique_with(table, index, keys, (mode, wait), Blobs::All, visit)
    }

    /// As [`Txn::lock_unique`], with the large values named only.
    ///
    /// # Errors
    /// As [`Txn::lock_rows`].
    pub fn lock_unique_with(
        &mut self,
        table: &Table,
        index: usize,
        keys: &[&[u8]],
        (mode, wait): (LockMode, Wait),
        blobs: Blobs<'_>,
        visit: &mut LockedUniqueVisitor<'_>,
    ) -> Result<()> {
        if index == 0 {
            return self.lock_rows_with(table, keys, (mode, wait), blobs, &mut |n, row| {
                visit(n, keys.get(n).copied(), row);
            });
        }
        let requests: SmallVec<[LockRequest<'_>; 16]> = keys
            .iter()
            .map(|k| LockRequest {
                key: Key::new(table.space(index, k), k),
                mode,
            })
            .collect();
        let mut primaries = Arena::default();
        let mut entries: SmallVec<[(usize, bool); 16]> = SmallVec::new();
        self.kv.lock(&requests, wait, &mut |n, found| {
            if let (true, Some(primary)) = (found.granted, found.value) {
                primaries.push(primary);
                entries.push((n, found.newer));
            } else {
                visit(
                    n,
                    None,
                    LockedRow {
                        granted: found.granted,
                        newer: found.newer,
                        own: found.own,
                        row: None,
                    },
                );
            }
        })?;
        if primaries.len() == 0 {
            return Ok(());
        }
        let rows: SmallVec<[&[u8]; 16]> = primaries.iter().collect();
        self.lock_rows_with(table, &rows, (mode, wait), blobs, &mut |m, row| {
            if let Some((n, newer)) = entries.get(m) {
                let newer = row.newer || *newer;
                visit(*n, rows.get(m).copied(), LockedRow { newer, ..row });
            }
        })
    }

    /// Lets go of rows locked since `since` that turned out not to match and
    /// were not written. An engine may ignore it.
    pub fn unlock_rows(&mut self, table: &Table, keys: &[&[u8]], since: StatementMark) {
        let keys: SmallVec<[Key<'_>; 16]> = keys
            .iter()
            .map(|k| Key::new(table.space(0, k), k))
            .collect();
        self.kv.unlock(&keys, since);
    }
}
