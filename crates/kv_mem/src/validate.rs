//! Validation at the commit point: has anything changed that was read?
//!
//! A transaction that asked for it keeps the keys and ranges it read, each with
//! the timestamp since which it must not have changed. The commit looks at the
//! newest versions under the sequencer, when all earlier commits are installed;
//! so transactions are validated in commit order, against commits not yet
//! durable, too (transactions.md, 6).
//!
//! Rejected for now: a ring of recent write sets to compare with (shorter under
//! the sequencer for wide ranges, but only as far as the ring reaches).

use crate::record::{InlineKey, Record};
use crate::space::{Space, Spaces};
use crossbeam_epoch::Guard;
use porpoise_kv::{Error, Result, ScanRange, SpaceId};
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::Ordering;

/// How far something tracked reaches.
pub(crate) enum Extent {
    /// The start is all of it.
    Key,
    /// To here, excluded.
    Below(InlineKey),
    /// To here, included.
    Through(InlineKey),
    /// To the end of the space.
    All,
}

/// Something read that must not have changed.
pub(crate) struct Tracked {
    pub(crate) space: SpaceId,
    pub(crate) start: InlineKey,
    pub(crate) extent: Extent,
    pub(crate) since: u64,
}

impl Tracked {
    /// What a scan read that stopped at a key, or went through.
    pub(crate) fn range(range: &ScanRange<'_>, stopped: Option<&[u8]>, since: u64) -> Tracked {
        let end = || {
            range
                .end
                .map_or(Extent::All, |end| Extent::Below(InlineKey::from_slice(end)))
        };
        let (start, extent) = match stopped {
            Some(key) if range.reverse => (key, end()),
            Some(key) => (range.start, Extent::Through(InlineKey::from_slice(key))),
            None => (range.start, end()),
        };
        Tracked {
            space: range.space,
            start: InlineKey::from_slice(start),
            extent,
            since,
        }
    }

    fn unchanged(&self, space: &Space, guard: &Guard) -> bool {
        if space.last_commit.load(Ordering::Acquire) <= self.since {
            return true;
        }
        let old = |record: &Record| {
            record
                .newest(guard)
                .is_none_or(|version| version.ts() <= self.since)
        };
        let upper = match &self.extent {
            Extent::Key => {
                let record = space.index.find(&self.start, guard);
                return record.is_none_or(|record| old(&record));
            }
            Extent::Below(end) => Bound::Excluded(end.as_slice()),
            Extent::Through(end) => Bound::Included(end.as_slice()),
            Extent::All => Bound::Unbounded,
        };
        let mut unchanged = true;
        let lower = Bound::Included(self.start.as_slice());
        space
            .index
            .walk(lower, upper, false, usize::MAX, guard, |record| {
                unchanged = old(&record);
                if unchanged {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            });
        unchanged
    }
}

/// Refuses when anything tracked has changed. The sequencer is held, and all
/// commits before are installed.
pub(crate) fn validate(spaces: &Spaces, tracked: &[Tracked], guard: &Guard) -> Result<()> {
    for one in tracked {
        if !one.unchanged(spaces.get(one.space)?, guard) {
            return Err(Error::Conflict);
        }
    }
    Ok(())
}
