//! Validation at the commit point: has anything changed that was read?
//!
//! A transaction that asked for it keeps the keys and ranges it read, each with
//! the timestamp since which it must not have changed. The commit looks at the
//! newest versions under the sequencer, when all earlier commits are installed;
//! so transactions are validated in commit order, against commits not yet
//! durable, too (transactions.md, 6).
//!
//! The same comparison moves a pinned view forward: where nothing that was read
//! from it has a version up to the later view, the transaction might as well
//! have begun there (transactions.md, 3). Reads that are kept for this alone
//! are not validated at commit, and there are at most [`MOST_KEPT`] of them.
//!
//! Rejected for now: a ring of recent write sets to compare with (shorter under
//! the sequencer for wide ranges, but only as far as the ring reaches).

use crate::record::{InlineKey, Record};
use crate::space::{Space, Spaces};
use crossbeam_epoch::Guard;
use porpoise_base::sync::atomic::Ordering;
use porpoise_kv::{Error, Key, Result, ScanRange, SpaceId};
use std::ops::{Bound, ControlFlow};

/// Above so many reads that are kept for a later view alone, none is.
const MOST_KEPT: usize = 1024;

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
    /// By the commit; else it is kept for a later view alone.
    pub(crate) validate: bool,
}

impl Tracked {
    /// A key that was read, present or absent.
    pub(crate) fn key(key: Key<'_>, (since, validate): (u64, bool)) -> Tracked {
        Tracked {
            space: key.space,
            start: InlineKey::from_slice(key.bytes),
            extent: Extent::Key,
            since,
            validate,
        }
    }

    /// What a scan read that stopped at a key, or went through.
    pub(crate) fn range(
        range: &ScanRange<'_>,
        stopped: Option<&[u8]>,
        (since, validate): (u64, bool),
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
            since,
            validate,
        }
    }

    /// Whether nothing in it has a version above `since` and up to `upto`.
    fn unchanged(&self, space: &Space, upto: u64, guard: &Guard) -> bool {
        if space.last_commit.load(Ordering::Acquire) <= self.since {
            return true;
        }
        let old = |record: &Record| {
            record
                .visible(upto, guard)
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

/// What a transaction keeps of what it read.
#[derive(Default)]
pub(crate) struct Reads {
    all: Vec<Tracked>,
    /// How many of them the commit validates.
    validated: usize,
    /// Reads from the view are kept, all of them so far.
    keeps: bool,
    /// Some are lost: the view stays where it is.
    lost: bool,
}

impl Reads {
    /// From now on reads from the view are kept, unless there were some.
    pub(crate) fn keep(&mut self, viewed: bool) {
        self.lost |= viewed && !self.keeps;
        self.keeps = !self.lost;
    }

    /// Whether reads from the view are kept.
    pub(crate) fn keeps(&self) -> bool {
        self.keeps
    }

    /// Whether the commit has anything to validate.
    pub(crate) fn validates(&self) -> bool {
        self.validated > 0
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn push(&mut self, one: Tracked) {
        if one.validate {
            self.validated += 1;
        } else if self.all.len() - self.validated >= MOST_KEPT {
            (self.keeps, self.lost) = (false, true);
        }
        if one.validate || self.keeps {
            self.all.push(one);
        }
    }

    /// Forgets those from there on.
    pub(crate) fn truncate(&mut self, from: usize) {
        let gone = self.all.get(from..).unwrap_or_default();
        self.validated -= gone.iter().filter(|one| one.validate).count();
        self.all.truncate(from);
    }

    /// Refuses when anything that the commit validates has changed. The
    /// sequencer is held, and all commits before are installed.
    pub(crate) fn validate(&self, spaces: &Spaces, guard: &Guard) -> Result<()> {
        let tracked = self.all.iter().filter(|one| one.validate);
        for one in tracked {
            if !one.unchanged(spaces.get(one.space)?, u64::MAX, guard) {
                return Err(Error::Conflict);
            }
        }
        Ok(())
    }

    /// Whether everything kept is the same at a later view.
    pub(crate) fn same_at(&self, view: u64, spaces: &Spaces, guard: &Guard) -> bool {
        let same = |one: &Tracked| {
            let space = spaces.get(one.space);
            space.is_ok_and(|space| one.unchanged(space, view, guard))
        };
        self.keeps && self.all.iter().all(same)
    }

    /// The view is another one: what was kept for it alone says nothing now.
    pub(crate) fn view_left(&mut self) {
        for one in self.all.iter_mut().filter(|one| !one.validate) {
            one.since = u64::MAX;
        }
    }

    /// Everything kept was the same there.
    pub(crate) fn move_to(&mut self, view: u64) {
        for one in &mut self.all {
            one.since = one.since.max(view);
        }
    }
}
