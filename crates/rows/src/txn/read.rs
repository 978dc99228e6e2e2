//! Reading rows by their keys, in batches.
//!
//! Rows are shown where they lie in the engine, without copying, as long as
//! the engine shows them in the order asked for.
//!
//! Invariants:
//! 1. One call of a function here is one engine call for a primary index, two
//!    for a secondary one; one more where large values are fetched.
//! 2. An entry whose row is gone is passed over: between the two calls of a
//!    current read the row may go. In one snapshot it cannot happen.

use super::Txn;
use super::parts::{Blobs, Waiting};
use crate::Result;
use crate::row::RowRef;
use crate::table::Table;
use porpoise_kv::{Key, Read};
use smallvec::SmallVec;

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
impl Txn {
    /// Shows the row of each primary key, or that there is none, once each, in
    /// any order.
    ///
    /// # Errors
    /// The engine's; `Error::Corrupt`, `Error::DefinitionChanged`.
    pub fn get_rows(
        &mut self,
        table: &Table,
        keys: &[&[u8]],
        read: Read,
        visit: &mut RowVisitor<'_>,
    ) -> Result<()> {
        self.get_rows_with(table, keys, Blobs::All, read, visit)
    }

    /// As [`Txn::get_rows`], with the large values named only.
    ///
    /// # Errors
    /// As [`Txn::get_rows`].
    pub fn get_rows_with(
        &mut self,
        table: &Table,
        keys: &[&[u8]],
        blobs: Blobs<'_>,
        read: Read,
        visit: &mut RowVisitor<'_>,
    ) -> Result<()> {
        let requests: SmallVec<[Key<'_>; 16]> = keys
            .iter()
            .map(|k| Key::new(table.space(0, k), k))
            .collect();
        let mut failure = None;
        let mut waiting: Vec<Waiting> = Vec::new();
        self.kv.get(read, &requests, &mut |n, value| match value {
            None => visit(n, None),
            Some(bytes) => match RowRef::new(table, bytes) {
                Ok(row) if blobs.missing(&row) > 0 => waiting.push(Waiting {
                    number: n,
                    primary: keys.get(n).copied().unwrap_or(&[]).to_vec(),
                    bytes: Some(bytes.to_vec()),
                }),
                Ok(row) => visit(n, Some(row)),
                Err(e) => failure = Some(e),
            },
        })?;
        if let Some(e) = failure {
            return Err(e);
        }
        if waiting.is_empty() {
            return Ok(());
        }
        self.complete(table, waiting, blobs, read, &mut |done| {
            let row = done.bytes.as_deref().map(|b| RowRef::new(table, b));
            visit(done.number, row.transpose()?);
            Ok(())
        })
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
        self.get_rows_in_order_with(table, keys, Blobs::All, read, visit)
    }

    /// As [`Txn::get_rows_in_order`], with the large values named only.
    ///
    /// # Errors
    /// As [`Txn::get_rows`].
    pub fn get_rows_in_order_with(
        &mut self,
        table: &Table,
        keys: &[&[u8]],
        blobs: Blobs<'_>,
        read: Read,
        visit: &mut RowVisitor<'_>,
    ) -> Result<()> {
        let mut order: InOrder<Option<Vec<u8>>> = InOrder::new();
        let mut failure = None;
        self.get_rows_with(table, keys, blobs, read, &mut |n, row| {
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
        self.get_by_unique_with(table, index, keys, Blobs::All, read, visit)
    }

    /// As [`Txn::get_by_unique`], with the large values named only.
    ///
    /// # Errors
    /// As [`Txn::get_rows`].
    pub fn get_by_unique_with(
        &mut self,
        table: &Table,
        index: usize,
        keys: &[&[u8]],
        blobs: Blobs<'_>,
        read: Read,
        visit: &mut UniqueVisitor<'_>,
    ) -> Result<()> {
        if index == 0 {
            return self.get_rows_with(table, keys, blobs, read, &mut |n, row| {
                visit(n, row.map(|r| (keys.get(n).copied().unwrap_or(&[]), r)));
            });
        }
        let found = self.find_unique(table, index, keys, read, visit)?;
        let mut checked = still_there(table, index, keys, &found, visit);
        self.get_rows_with(table, &primaries(&found), blobs, read, &mut checked)
    }

    /// As [`Txn::get_by_unique_with`]; those that are found are visited in the
    /// order of `keys`.
    ///
    /// # Errors
    /// As [`Txn::get_rows`].
    pub fn get_by_unique_in_order_with(
        &mut self,
        table: &Table,
        index: usize,
        keys: &[&[u8]],
        blobs: Blobs<'_>,
        read: Read,
        visit: &mut UniqueVisitor<'_>,
    ) -> Result<()> {
        if index == 0 {
            return self.get_rows_in_order_with(table, keys, blobs, read, &mut |n, row| {
                visit(n, row.map(|r| (keys.get(n).copied().unwrap_or(&[]), r)));
            });
        }
        let mut found = self.find_unique(table, index, keys, read, visit)?;
        found.sort_unstable_by_key(|(n, _)| *n);
        let mut checked = still_there(table, index, keys, &found, visit);
        self.get_rows_in_order_with(table, &primaries(&found), blobs, read, &mut checked)
    }

    /// The positions of keys of a unique index that lead to a row, and that
    /// row's primary key; the others are visited.
    fn find_unique(
        &mut self,
        table: &Table,
        index: usize,
        keys: &[&[u8]],
        read: Read,
        visit: &mut UniqueVisitor<'_>,
    ) -> Result<Vec<(usize, Vec<u8>)>> {
        let requests: SmallVec<[Key<'_>; 16]> = keys
            .iter()
            .map(|k| Key::new(table.space(index, k), k))
            .collect();
        let mut found: Vec<(usize, Vec<u8>)> = Vec::new();
        self.kv.get(read, &requests, &mut |n, value| match value {
            None => visit(n, None),
            Some(primary) => found.push((n, primary.to_vec())),
        })?;
        Ok(found)
    }
}

/// Primary keys of rows that a unique index leads to.
fn primaries(found: &[(usize, Vec<u8>)]) -> SmallVec<[&[u8]; 16]> {
    found
        .iter()
        .map(|(_, primary)| primary.as_slice())
        .collect()
}

/// Shows a row that was found by a key of a unique index, if it still has that:
/// in a current read it may have changed since its entry was read.
fn still_there<'v>(
    table: &'v Table,
    index: usize,
    keys: &'v [&'v [u8]],
    found: &'v [(usize, Vec<u8>)],
    visit: &'v mut UniqueVisitor<'_>,
) -> impl FnMut(usize, Option<RowRef<'_>>) + 'v {
    move |m, row| {
        let Some((n, primary)) = found.get(m) else {
            return;
        };
        let still = row.filter(|r| {
            let mut key = Vec::new();
            table
                .indexes
                .get(index)
                .is_some_and(|i| !i.append_parts(table, r, &mut key))
                && keys.get(*n).is_some_and(|k| *k == key.as_slice())
        });
        visit(*n, still.map(|r| (primary.as_slice(), r)));
    }
}
