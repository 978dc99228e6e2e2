//! Walking a whole space for a definition or a check.
//!
//! The space is read in batches of [`BATCH`] entries, or fewer large ones, each
//! by a transaction of its own which the caller is handed along with them: it
//! reads on in it, writes and commits, or rolls it back. The caller's barrier
//! keeps writers of the table away, so the newest committed state is one state
//! from the first batch to the last. A check, beside which writers go on, reads
//! all batches in one snapshot ([`read_batch`]).
//!
//! Invariants:
//! 1. A cancellation is looked for before every batch.
//! 2. What a batch holds is bounded: its entries weigh at most [`BATCH_BYTES`],
//!    the last one excepted.

use super::DdlCx;
use crate::db::Db;
use crate::error::{Error, Result};
use crate::table::Table;
use porpoise_kv::{self as kv, Read, ScanEnd, ScanRange, SpaceId, TxnOptions};
use std::ops::ControlFlow;

/// Entries of one batch at most.
pub(super) const BATCH: usize = 1000;
/// Bytes of one batch, the last entry excepted.
pub(super) const BATCH_BYTES: usize = 16 << 20;

/// Keys and values, in the order of the space.
pub(crate) type Batch = [(Vec<u8>, Vec<u8>)];

/// Reads one batch of a space from the key `start`. Returns it with the start of the next one, if there are more entries.
///
/// # Errors
/// The engine's; a cancellation.
pub(crate) fn read_batch(
    cx: &DdlCx<'_>,
    txn: &mut dyn kv::Txn,
    read: Read,
    space: SpaceId,
    start: &[u8],
    weigh: impl Fn(&[u8]) -> usize,
) -> Result<(Vec<(Vec<u8>, Vec<u8>)>, Option<Vec<u8>>)> {
    if let Some(reason) = cx.cancel.reason() {
        return Err(Error::Kv(kv::Error::Cancelled(reason)));
    }
    let mut batch = Vec::with_capacity(BATCH);
    let mut bytes = 0;
    let range = ScanRange {
        space,
        start,
        end: None,
        reverse: false,
    };
    let end = txn.scan(read, &[range], BATCH, &mut |_, key, value| {
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
    /// Hands every batch of a space over, the first one also when it is empty.
    /// `weigh` tells how many bytes a value counts for.
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
            let (batch, rest) = read_batch(cx, txn.as_mut(), Read::CURRENT, space, &start, &weigh)?;
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
