//! A range scan: committed versions and own writes, merged in order.

use crate::range_walk::walk_range;
use crate::record::{InlineKey, Record};
use crate::space::Space;
use crate::writes::WriteSet;
use crossbeam_epoch::Guard;
use porpoise_base::interrupt::Pacer;
use porpoise_kv::{Error, Result, ScanRange, ScanVisitor, StatementMark};
use std::cmp::Ordering;
use std::iter::Peekable;
use std::ops::ControlFlow;

/// Records read in one step.
const RECORDS_PER_STEP: usize = 1024;

pub(crate) struct RangeScan {
    /// Index of the range in the call.
    pub(crate) range_index: usize,
    /// Timestamp up to which versions are visible.
    pub(crate) read_ts: u64,
    /// Whether shown versions count towards `seen` (a current read).
    pub(crate) updates_seen: bool,
    /// Statement mark below which own writes are visible.
    pub(crate) mark: StatementMark,
    /// Timestamp of the newest version visited so far.
    pub(crate) seen: u64,
    /// Number of entries that may still be visited.
    pub(crate) entries_left: usize,
}

/// Own writes of the range, in the order of the scan.
type Own<'w> = Peekable<std::vec::IntoIter<(&'w [u8], Option<&'w [u8]>)>>;

impl RangeScan {
    /// Passes an entry to the visitor. Ends the scan after the last one, and records its key.
    #[inline]
    fn pass_to_visitor(
        &mut self,
        key: &[u8],
        value: &[u8],
        visit: &mut ScanVisitor<'_>,
        stopped: &mut Option<InlineKey>,
    ) -> ControlFlow<()> {
        self.entries_left = self.entries_left.saturating_sub(1);
        if visit(self.range_index, key, value).is_break() || self.entries_left == 0 {
            *stopped = Some(InlineKey::from_slice(key));
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// Visits the own writes before a record, then the record or the own write that replaces it.
    fn visit_record(
        &mut self,
        record: &Record,
        own: &mut Own<'_>,
        reverse: bool,
        guard: &Guard,
        visit: &mut ScanVisitor<'_>,
        stopped: &mut Option<InlineKey>,
    ) -> ControlFlow<()> {
        let before = if reverse {
            Ordering::Greater
        } else {
            Ordering::Less
        };
        while let Some((key, value)) = own.next_if(|(key, _)| (*key).cmp(record.key()) == before) {
            if let Some(value) = value {
                self.pass_to_visitor(key, value, visit, stopped)?;
            }
        }
        if let Some((key, value)) = own.next_if(|(key, _)| *key == record.key()) {
            return match value {
                Some(value) => self.pass_to_visitor(key, value, visit, stopped),
                None => ControlFlow::Continue(()),
            };
        }
        self.visit_committed(record, guard, visit, stopped)
    }

    /// Visits the visible version of a record, if any.
    #[inline]
    fn visit_committed(
        &mut self,
        record: &Record,
        guard: &Guard,
        visit: &mut ScanVisitor<'_>,
        stopped: &mut Option<InlineKey>,
    ) -> ControlFlow<()> {
        let Some(version) = record.visible(self.read_ts, guard) else {
            return ControlFlow::Continue(());
        };
        if self.updates_seen {
            self.seen = self.seen.max(version.ts());
        }
        match version.value() {
            Some(value) => self.pass_to_visitor(record.key(), value, visit, stopped),
            None => ControlFlow::Continue(()),
        }
    }

    /// Walks the range. Returns the key at which it stopped early, if it did.
    ///
    /// # Errors
    /// [`Error::Cancelled`] if the statement was cancelled.
    pub(crate) fn run(
        &mut self,
        space: &Space,
        writes: &WriteSet,
        range: &ScanRange<'_>,
        visit: &mut ScanVisitor<'_>,
    ) -> Result<Option<InlineKey>> {
        let mut own = Vec::new();
        if !writes.is_empty() {
            own = writes.range(range.space, range.start, range.end, self.mark);
            if range.reverse {
                own.reverse();
            }
        }
        let no_own_writes = own.is_empty();
        let mut own = own.into_iter().peekable();
        let mut stopped = None;
        let (reverse, prefetched) = (range.reverse, space.index.prefetched_versions());
        let is_stopped = walk_range(
            space,
            range,
            RECORDS_PER_STEP,
            prefetched,
            |record, guard| {
                if no_own_writes {
                    self.visit_committed(record, guard, visit, &mut stopped)
                } else {
                    self.visit_record(record, &mut own, reverse, guard, visit, &mut stopped)
                }
            },
        )?;
        if is_stopped {
            return Ok(stopped);
        }
        let mut pacer = Pacer::new();
        for (key, value) in own {
            pacer.tick().map_err(|ended| Error::Cancelled(ended.0))?;
            if let Some(value) = value
                && self
                    .pass_to_visitor(key, value, visit, &mut stopped)
                    .is_break()
            {
                return Ok(stopped);
            }
        }
        Ok(None)
    }
}
