//! Reads the rows of a container's keys, in the order of the keys.
//!
//! In the usual case, primary keys of rows that contain their whole value, rows are visited in the
//! engine's memory, without a copy. Keys of a unique index need a second batch of reads for the
//! rows. Overflow values and chunked values ([`crate::container::chunked_values`]) need another
//! batch each, before which the rows are buffered.
//!
//! Invariants:
//! 1. The visitor decides when to stop; no key after the one at which it stopped is visited.
//! 2. Not much more than [`MAX_BUFFERED_BYTES`] bytes of rows and values are buffered at a time,
//!    however many keys there are, except for a single value that is larger.

use crate::container::Container;
use crate::container::chunked_values;
use porpoise_kv::Read;
use porpoise_rows::{Lookup, OverflowFetch, Result, RowBuf, RowRef, Txn};
use std::collections::VecDeque;
use std::ops::ControlFlow;

/// Limit in bytes for rows buffered until their values are fetched, and for values fetched at a
/// time.
const MAX_BUFFERED_BYTES: usize = 1 << 20;

/// Number of keys of a unique index that are looked up at a time.
const UNIQUE_LOOKUP_KEYS: usize = 256;

/// The row of a key, and its value if that is chunked.
pub(crate) type FoundRow<'r> = Option<(RowRef<'r>, Option<&'r [u8]>)>;

/// A visitor of rows. Gets the key's position in the call and its row, and decides when to stop.
pub(crate) type Visitor<'v> = dyn FnMut(usize, FoundRow<'_>) -> ControlFlow<()> + 'v;

/// Visits the rows of keys (of the container's index) in the order of the keys. Returns the number
/// of keys visited. Several keys are read in a snapshot.
///
/// # Errors
/// The errors of reading.
pub(crate) fn rows(
    container: &Container,
    txn: &mut Txn,
    keys: &[&[u8]],
    read: Read,
    visit: &mut Visitor<'_>,
) -> Result<usize> {
    let table = &container.table;
    let mut pending = PendingRows {
        container,
        keys,
        rows: VecDeque::new(),
        buffered_bytes: 0,
        next: 0,
        is_stopped: false,
    };
    if container.index() != 0 {
        while !pending.is_stopped && pending.next < keys.len() {
            pending.fetch_by_unique_key(txn, read)?;
            pending.visit_buffered(txn, read, visit)?;
        }
    } else if keys.len() == 1 && container.chunked_values().is_none() {
        // A single key may be a current read. The look-up itself then fetches overflow values,
        // consistently even while the row changes.
        let lookup = Lookup::primary(table, keys).in_order();
        txn.look_up(&lookup, read, &mut |n, found| {
            pending.visit_row(n, found.map(|found| (found.row, None)), visit);
        })?;
    } else {
        let is_chunked = container.chunked_values().is_some();
        let lookup = Lookup::primary(table, keys).overflow(OverflowFetch::Prefixes);
        txn.look_up(&lookup.in_order(), read, &mut |n, found| {
            let row = found.map(|found| found.row);
            let is_incomplete =
                |row: &RowRef<'_>| is_chunked || OverflowFetch::All.missing(row) > 0;
            if pending.rows.is_empty() && !row.as_ref().is_some_and(is_incomplete) {
                pending.visit_row(n, row.map(|row| (row, None)), visit);
            } else {
                pending.buffer(row);
            }
        })?;
    }
    pending.visit_buffered(txn, read, visit)?;
    Ok(pending.next)
}

/// Buffered rows that have not been visited yet, and the progress of the visit.
struct PendingRows<'c> {
    container: &'c Container,
    keys: &'c [&'c [u8]],
    /// The rows of the next keys, each with its primary key; `None` for a key without a row.
    rows: VecDeque<Option<(Vec<u8>, RowBuf)>>,
    /// Size in bytes of all rows that were buffered.
    buffered_bytes: usize,
    /// Number of keys visited, which is the position of the next key.
    next: usize,
    /// Whether the visitor wants no more rows.
    is_stopped: bool,
}

impl PendingRows<'_> {
    #[inline]
    fn visit_row(&mut self, n: usize, found: FoundRow<'_>, visit: &mut Visitor<'_>) {
        if !self.is_stopped {
            self.is_stopped = visit(n, found).is_break();
            self.next = n + 1;
        }
    }

    /// Buffers the row of the next key, unless the buffer exceeds its limit.
    fn buffer(&mut self, row: Option<RowRef<'_>>) {
        if self.is_stopped || self.buffered_bytes > MAX_BUFFERED_BYTES {
            return;
        }
        let primary = self.keys.get(self.next + self.rows.len());
        let row = row.map(|row| (primary.copied().unwrap_or_default().to_vec(), row.to_buf()));
        self.push(row);
    }

    fn push(&mut self, row: Option<(Vec<u8>, RowBuf)>) {
        self.buffered_bytes += row
            .as_ref()
            .map_or(0, |(key, row)| key.len() + row.bytes().len());
        self.rows.push_back(row);
    }

    /// Looks up the next keys in a unique index and buffers their rows.
    fn fetch_by_unique_key(&mut self, txn: &mut Txn, read: Read) -> Result<()> {
        let (table, index) = (&self.container.table, self.container.index());
        let keys = self.keys.get(self.next..).unwrap_or_default();
        let keys = keys.get(..UNIQUE_LOOKUP_KEYS).unwrap_or(keys);
        let mut found: Vec<Option<(Vec<u8>, RowBuf)>> = Vec::new();
        found.resize_with(keys.len(), || None);
        // A single row, possibly a current read, is fetched with its overflow values.
        let overflow = match self.keys.len() {
            1 => OverflowFetch::All,
            _ => OverflowFetch::Prefixes,
        };
        let lookup = Lookup::unique(table, index, keys).overflow(overflow);
        txn.look_up(&lookup, read, &mut |n, row| {
            if let (Some(slot), Some(row)) = (found.get_mut(n), row) {
                *slot = Some((row.primary.to_vec(), row.row.to_buf()));
            }
        })?;
        found.into_iter().for_each(|row| self.push(row));
        Ok(())
    }

    /// Visits the buffered rows, with their values.
    fn visit_buffered(&mut self, txn: &mut Txn, read: Read, visit: &mut Visitor<'_>) -> Result<()> {
        while !self.is_stopped && !self.rows.is_empty() {
            self.visit_next_buffered(txn, read, visit)?;
        }
        Ok(())
    }

    /// As [`PendingRows::visit_buffered`], for as many rows as have [`MAX_BUFFERED_BYTES`] bytes.
    fn visit_next_buffered(
        &mut self,
        txn: &mut Txn,
        read: Read,
        visit: &mut Visitor<'_>,
    ) -> Result<()> {
        let table = &self.container.table;
        let mut bytes = 0;
        let mut count = 0;
        for row in &self.rows {
            if let Some((_, row)) = row {
                let row = row.row(table)?;
                let chunked = self
                    .container
                    .chunked_values()
                    .and_then(|values| values.reference(&row));
                let chunked_bytes = chunked.map_or(0, |(_, size)| {
                    usize::try_from(size).unwrap_or(MAX_BUFFERED_BYTES)
                });
                bytes += OverflowFetch::All.missing(&row) + chunked_bytes;
            }
            if count > 0 && bytes > MAX_BUFFERED_BYTES {
                break;
            }
            count += 1;
        }
        let drained: Vec<_> = self.rows.drain(..count).collect();
        let has_row: Vec<bool> = drained.iter().map(Option::is_some).collect();
        let mut rows: Vec<(Vec<u8>, RowBuf)> = drained.into_iter().flatten().collect();
        if self.keys.len() > 1 {
            txn.complete_rows(table, &mut rows, OverflowFetch::All, read)?;
        }
        let values =
            chunked_values::values(self.container, txn, rows.iter().map(|(_, row)| row), read)?;
        let mut values = values.into_iter();
        let mut rows = rows.iter();
        for has_row in has_row {
            let n = self.next;
            let Some((_, row)) = has_row.then(|| rows.next()).flatten() else {
                self.visit_row(n, None, visit);
                continue;
            };
            let value = values.next().flatten();
            self.visit_row(n, Some((row.row(table)?, value.as_deref())), visit);
        }
        Ok(())
    }
}
