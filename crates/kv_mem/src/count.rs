//! Counts the visible keys of a range.
//!
//! The newest version of most records is visible to all snapshots, present and future: it is *settled*.
//! The first count that finds this marks the record ([`Record::has_visible_value`]), so that later
//! counts read the record alone, and not its version: one cache miss for each key in place of two.
//!
//! Invariant: a mark lasts until another version is pushed. It is set only on a version that is not a
//! deletion and not newer than the horizon, the oldest timestamp of a present or future snapshot. A
//! snapshot that was expired may be older, but its transaction fails after the count.

use crate::prefetch::Prefetched;
use crate::range_walk::walk_range;
use crate::record::{InlineKey, Record};
use crate::space::Space;
use crate::state::EngineState;
use crossbeam_epoch::Guard;
use porpoise_kv::{Result, ScanRange};
use std::ops::ControlFlow;

/// Records visited in one step.
const RECORDS_PER_STEP: usize = 4096;

/// Number of records without a mark after which a count requests the horizon. From then on it sets
/// marks; shorter counts do not pay for the horizon.
const UNMARKED_BEFORE_HORIZON: usize = 32;

/// Counts keys of ranges.
pub(crate) struct RangeCount<'s> {
    state: &'s EngineState,
    /// Timestamp up to which versions are visible.
    read_ts: u64,
    /// Timestamp up to which versions are settled; 0 until it is known.
    settled_ts: u64,
    /// Number of records without a mark that were met before the horizon was taken.
    unmarked: usize,
    /// Number of keys counted.
    pub(crate) counted: usize,
    /// Number of keys at which the count ends.
    limit: usize,
}

impl<'s> RangeCount<'s> {
    /// Creates a count of at most `limit` keys at a snapshot.
    pub(crate) fn new(state: &'s EngineState, read_ts: u64, limit: usize) -> RangeCount<'s> {
        RangeCount {
            state,
            read_ts,
            settled_ts: 0,
            unmarked: 0,
            counted: 0,
            limit,
        }
    }

    #[inline]
    fn add(&mut self, record: &Record, guard: &Guard) -> ControlFlow<()> {
        if !record.is_settled(guard) {
            if self.unmarked == UNMARKED_BEFORE_HORIZON {
                let horizon = self.state.reclaimer.horizon().oldest();
                self.settled_ts = horizon.min(self.read_ts);
            }
            self.unmarked = self.unmarked.saturating_add(1);
            if !record.has_visible_value(self.read_ts, self.settled_ts, guard) {
                return ControlFlow::Continue(());
            }
        }
        self.counted += 1;
        if self.counted == self.limit {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// Counts the keys of a range in which the transaction has not written. Returns the last key if
    /// the limit was reached.
    ///
    /// # Errors
    /// [`porpoise_kv::Error::Cancelled`] if the statement was cancelled.
    pub(crate) fn run(
        &mut self,
        space: &Space,
        range: &ScanRange<'_>,
    ) -> Result<Option<InlineKey>> {
        let mut stopped = None;
        let prefetched = Prefetched::Unsettled;
        walk_range(
            space,
            range,
            RECORDS_PER_STEP,
            prefetched,
            |record, guard| {
                let counted = self.add(record, guard);
                if counted.is_break() {
                    stopped = Some(InlineKey::from_slice(record.key()));
                }
                counted
            },
        )?;
        Ok(stopped)
    }
}
