//! Validation of reads at the commit point (backward optimistic concurrency control; Kung and Robinson,
//! "On Optimistic Methods for Concurrency Control", 1981).
//!
//! A transaction that requested it tracks the keys and ranges that it read, each with the timestamp
//! since which it must not have changed. The commit compares them with the newest versions under the
//! sequencer, when all earlier commits are installed. So transactions are validated in commit order,
//! against commits that are not yet durable, too (transactions.md, 6).
//!
//! The same comparison moves a pinned snapshot forward: if nothing that was read from it has a version
//! up to the later snapshot, the transaction might as well have begun there (transactions.md, 3). Reads
//! that are tracked for this alone are not validated at commit, and there are at most [`MAX_TRACKED`] of
//! them.
//!
//! Rejected for now: validation against a ring buffer of recent write sets (shortens validation of
//! wide ranges under the sequencer, but only for commits that are still in the buffer).

use crate::record::{InlineKey, Record};
use crate::space::{Space, Spaces};
use crossbeam_epoch::Guard;
use porpoise_base::sync::atomic::Ordering;
use porpoise_kv::{Error, Key, Result, ScanRange, SpaceId};
use std::ops::{Bound, ControlFlow};

/// Maximum number of reads that are tracked only for a snapshot refresh. Beyond it, tracking stops.
const MAX_TRACKED: usize = 1024;

/// The end of a tracked range.
#[derive(Clone)]
pub(crate) enum Extent {
    /// A single key.
    Key,
    /// Up to this key, exclusive.
    Below(InlineKey),
    /// Up to this key, inclusive.
    Through(InlineKey),
    /// Up to the end of the space.
    All,
}

/// Tracking of a read.
#[derive(Clone, Copy)]
pub(crate) struct Tracking {
    /// Timestamp since which the data must be unchanged.
    pub(crate) since: u64,
    /// Whether the commit validates the read; otherwise it is tracked only for a snapshot refresh.
    pub(crate) validate: bool,
}

/// A key or range that was read and must not have changed.
#[derive(Clone)]
pub(crate) struct Tracked {
    pub(crate) space: SpaceId,
    pub(crate) start: InlineKey,
    pub(crate) extent: Extent,
    pub(crate) tracking: Tracking,
}

impl Tracked {
    /// A key that was read, present or absent.
    pub(crate) fn key(key: Key<'_>, tracking: Tracking) -> Tracked {
        Tracked {
            space: key.space,
            start: InlineKey::from_slice(key.bytes),
            extent: Extent::Key,
            tracking,
        }
    }

    /// Creates the range that a scan has read, up to the key where it stopped or to the end.
    pub(crate) fn range(
        range: &ScanRange<'_>,
        stopped: Option<&[u8]>,
        tracking: Tracking,
    ) -> Tracked {
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
            tracking,
        }
    }

    /// Its approximate memory use in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let end = match &self.extent {
            Extent::Below(key) | Extent::Through(key) => key.as_slice().len(),
            Extent::Key | Extent::All => 0,
        };
        size_of::<Tracked>() + self.start.as_slice().len() + end
    }

    /// Whether a key is in it.
    pub(crate) fn contains(&self, key: Key<'_>) -> bool {
        let (start, bytes) = (self.start.as_slice(), key.bytes);
        self.space == key.space
            && match &self.extent {
                Extent::Key => bytes == start,
                Extent::Below(end) => bytes >= start && bytes < end.as_slice(),
                Extent::Through(end) => bytes >= start && bytes <= end.as_slice(),
                Extent::All => bytes >= start,
            }
    }

    /// Whether no key in it has a version above `tracking.since` and up to `upto`.
    fn unchanged(&self, space: &Space, upto: u64, guard: &Guard) -> bool {
        if space.last_commit.load(Ordering::Acquire) <= self.tracking.since {
            return true;
        }
        let old = |record: &Record| {
            record
                .visible(upto, guard)
                .is_none_or(|version| version.ts() <= self.tracking.since)
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

/// The tracked reads of a transaction.
#[derive(Default)]
pub(crate) struct ReadSet {
    all: Vec<Tracked>,
    /// Number of reads that the commit validates.
    validated: usize,
    /// Whether all reads from the snapshot are tracked.
    tracking: bool,
    /// Whether some reads were not tracked, so that the snapshot cannot be moved.
    is_incomplete: bool,
}

impl ReadSet {
    /// Tracks reads from the snapshot from now on. If there were untracked reads before, the
    /// snapshot cannot be moved.
    pub(crate) fn track(&mut self, has_snapshot: bool) {
        self.is_incomplete |= has_snapshot && !self.tracking;
        self.tracking = !self.is_incomplete;
    }

    /// Whether reads from the snapshot are tracked.
    pub(crate) fn is_tracking(&self) -> bool {
        self.tracking
    }

    /// Whether the commit has anything to validate.
    pub(crate) fn validates(&self) -> bool {
        self.validated > 0
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn push(&mut self, one: Tracked) {
        if one.tracking.validate {
            self.validated += 1;
        } else if self.all.len() - self.validated >= MAX_TRACKED {
            (self.tracking, self.is_incomplete) = (false, true);
        }
        if one.tracking.validate || self.tracking {
            self.all.push(one);
        }
    }

    /// Forgets the reads from an index on.
    pub(crate) fn truncate(&mut self, from: usize) {
        let gone = self.all.get(from..).unwrap_or_default();
        self.validated -= gone.iter().filter(|one| one.tracking.validate).count();
        self.all.truncate(from);
    }

    /// The reads that the commit validates.
    pub(crate) fn validated(&self) -> impl Iterator<Item = &Tracked> {
        self.all.iter().filter(|one| one.tracking.validate)
    }

    /// Fails if a read that the commit validates has changed. The caller holds the sequencer, and
    /// all earlier commits are installed.
    pub(crate) fn validate(&self, spaces: &Spaces, guard: &Guard) -> Result<()> {
        for one in self.validated() {
            if !one.unchanged(spaces.get(one.space)?, u64::MAX, guard) {
                return Err(Error::Conflict);
            }
        }
        Ok(())
    }

    /// Whether all tracked reads are unchanged at a later snapshot.
    pub(crate) fn is_unchanged_at(&self, snapshot: u64, spaces: &Spaces, guard: &Guard) -> bool {
        let same = |one: &Tracked| {
            let space = spaces.get(one.space);
            space.is_ok_and(|space| one.unchanged(space, snapshot, guard))
        };
        self.tracking && self.all.iter().all(same)
    }

    /// Forgets the reads that were tracked only for a refresh of the snapshot, which was replaced.
    pub(crate) fn detach_from_snapshot(&mut self) {
        for one in self.all.iter_mut().filter(|one| !one.tracking.validate) {
            one.tracking.since = u64::MAX;
        }
    }

    /// Records that all tracked reads are unchanged at a later snapshot.
    pub(crate) fn advance_to(&mut self, snapshot: u64) {
        for one in &mut self.all {
            one.tracking.since = one.tracking.since.max(snapshot);
        }
    }
}
