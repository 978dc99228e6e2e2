//! Walks the records of a range in steps, between which the epoch pin is renewed, so that a long walk does not
//! delay memory reclamation.
//!
//! Each step is also an interrupt checkpoint: in a range where nothing is visible (a million deleted versions,
//! say) a caller's own checkpoints are never reached.

use crate::index::{WalkOptions, WalkOutcome};
use crate::prefetch::Prefetched;
use crate::record::{InlineKey, Record};
use crate::space::Space;
use crossbeam_epoch::Guard;
use porpoise_base::interrupt;
use porpoise_kv::{Error, Result, ScanRange};
use std::ops::{Bound, ControlFlow};

/// Calls `visit` for the records of a range, in its order, until it stops the walk. Returns whether it did.
///
/// # Errors
/// [`Error::Cancelled`] if the statement was cancelled.
#[inline]
pub(crate) fn walk_range(
    space: &Space,
    range: &ScanRange<'_>,
    records_per_step: usize,
    prefetched: Prefetched,
    mut visit: impl FnMut(&Record, &Guard) -> ControlFlow<()>,
) -> Result<bool> {
    let options = WalkOptions {
        reverse: range.reverse,
        step: records_per_step,
        prefetched,
    };
    let mut last_key: Option<InlineKey> = None;
    let mut guard = crossbeam_epoch::pin();
    loop {
        let end = range.end.map_or(Bound::Unbounded, Bound::Excluded);
        let (lower, upper) = match (&last_key, range.reverse) {
            (None, _) => (Bound::Included(range.start), end),
            (Some(key), false) => (Bound::Excluded(key.as_slice()), end),
            (Some(key), true) => (
                Bound::Included(range.start),
                Bound::Excluded(key.as_slice()),
            ),
        };
        let walk = space
            .index
            .walk_with(lower, upper, options, &guard, |record| {
                visit(record.record(), &guard)
            });
        match walk {
            WalkOutcome::Done => return Ok(false),
            WalkOutcome::Stopped => return Ok(true),
            WalkOutcome::Paused(key) => {
                last_key = Some(key);
                guard.repin();
                check_interrupt()?;
            }
        }
    }
}

/// Interrupt checkpoint: checks whether the current statement, if any, was cancelled.
///
/// # Errors
/// [`Error::Cancelled`] if it was.
pub(crate) fn check_interrupt() -> Result<()> {
    interrupt::check().map_err(|ended| Error::Cancelled(ended.0))
}
