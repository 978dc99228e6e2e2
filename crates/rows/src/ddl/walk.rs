//! Scans of a whole space, for DDL or a check.
//!
//! The space is read in batches of [`BATCH`] entries, or fewer large ones. Each batch has its own
//! transaction, which is passed to the caller with the entries, to read more, and to commit or roll
//! back. The caller's metadata barrier excludes writers of the table, so the newest committed state
//! is the same from the first batch to the last. A check, which does not exclude writers, reads all
//! batches in one snapshot ([`read_batch`]).
//!
//! Invariants:
//! 1. Cancellation is checked before every batch.
//! 2. Batches are bounded: their entries have at most [`BATCH_BYTES`], not counting the last one.

use super::DdlCx;
use crate::db::Db;
use crate::error::{Error, Result};
use crate::table::Table;
use porpoise_kv::{self as kv, Read, ScanEnd, ScanRange, SpaceId, TxnOptions};
use std::ops::ControlFlow;

/// Maximum number of entries of a batch.
pub(crate) const BATCH: usize = 1000;
/// Maximum size of a batch in bytes, not counting its last entry.
const BATCH_BYTES: usize = 16 << 20;

/// Keys and values, in the order of the space.
pub(crate) type Batch = [(Vec<u8>, Vec<u8>)];

/// A batch, with the first key of the next one if there are more entries.
pub(crate) type BatchRead = (Vec<(Vec<u8>, Vec<u8>)>, Option<Vec<u8>>);

/// Reads one batch of a space from the key `start`: at most `limit` entries, whose bytes `weigh` counts.
///
/// # Errors
/// The engine's; a cancellation.
pub(crate) fn read_batch(
    cx: &DdlCx<'_>,
    txn: &mut dyn kv::Txn,
    read: Read,
    space: SpaceId,
    start: &[u8],
    limit: usize,
    weigh: impl Fn(&[u8]) -> usize,
) -> Result<BatchRead> {
    if let Some(reason) = cx.cancel.reason() {
        return Err(Error::Kv(kv::Error::Cancelled(reason)));
    }
    let mut batch = Vec::with_capacity(limit);
    let mut bytes = 0;
    let range = ScanRange {
        space,
        start,
        end: None,
        reverse: false,
    };
    let end = txn.scan(read, &[range], limit, &mut |_, key, value| {
        bytes += weigh(value);
        batch.push((key.to_vec(), value.to_vec()));
        if bytes > BATCH_BYTES {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    let next = match end {
        ScanEnd::Done => None,
        ScanEnd::Stopped { mut key, .. } => {
            key.push(0);
            Some(key)
        }
    };
    Ok((batch, next))
}

impl Db {
    /// Calls `each` for every batch of a space, and for the first one even if it is empty. `weigh`
    /// returns the number of bytes that a value counts for.
    ///
    /// # Errors
    /// The engine's; a cancellation; what `each` returns.
    pub(crate) fn walk(
        &self,
        cx: &DdlCx<'_>,
        space: SpaceId,
        weigh: impl Fn(&[u8]) -> usize,
        mut each: impl FnMut(Box<dyn kv::Txn>, &Batch) -> Result<()>,
    ) -> Result<()> {
        let mut next = Some(Vec::new());
        while let Some(start) = next {
            let mut txn = self.engine().begin(TxnOptions::default())?;
            let (batch, rest) = read_batch(
                cx,
                txn.as_mut(),
                Read::CURRENT,
                space,
                &start,
                BATCH,
                &weigh,
            )?;
            each(txn, &batch)?;
            next = rest;
        }
        Ok(())
    }

    /// Walks all rows of `table`. `each` gets one batch of primary keys and
    /// row bytes.
    ///
    /// # Errors
    /// As [`Db::walk`].
    pub(crate) fn for_each_batch(
        &self,
        cx: &DdlCx<'_>,
        table: &Table,
        mut each: impl FnMut(&Batch) -> Result<()>,
    ) -> Result<()> {
        for space in table.index_spaces(0) {
            self.walk(cx, *space, <[u8]>::len, |txn, batch| {
                txn.rollback();
                each(batch)?;
                cx.metadata_locks.progress().advance(batch.len() as u64);
                Ok(())
            })?;
        }
        Ok(())
    }
}
