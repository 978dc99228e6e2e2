//! Range scans over the leaves between two bounds.
//!
//! A leaf is read as a whole before its records are visited. From the second leaf on, the next leaf
//! is read before the records of the present one are visited, and records are prefetched across
//! leaves: records lie in memory in the order of their creation, so nearly each access is a cache
//! miss, and several misses must overlap.
//!
//! Invariants:
//! 1. Records are visited in order, each once: the next leaf is the one that begins where the range
//!    of the present one ends.
//! 2. Records that were read stay valid as long as the guard, whatever happens to the leaves.
//!
//! Rejected: links from leaf to leaf (splits and merges would change a third node); reading ahead from
//! the first leaf on (most walks end in it).

use super::super::WalkOutcome;
use super::{Bounds, Target, Tree, bounds_of};
use crate::prefetch::{Prefetched, prefetch};
use crate::record::{InlineKey, Pinned};
use crossbeam_epoch::Guard;
use smallvec::SmallVec;
use std::ops::{Bound, ControlFlow};

/// Distance at which the heads of records are prefetched.
const RECORDS_AHEAD: usize = 20;

/// Distance at which the newest versions of records are prefetched.
const VERSIONS_AHEAD: usize = 10;

/// The records of a leaf that lie between the bounds, in the walk's order.
type LeafRecords<'g> = SmallVec<[Pinned<'g>; 64]>;

/// The range of a walk: at first the whole range, then the part that was not visited yet.
#[derive(Clone, Copy)]
pub(in super::super) struct RemainingRange<'k> {
    pub(in super::super) lower: Bound<&'k [u8]>,
    pub(in super::super) upper: Bound<&'k [u8]>,
    pub(in super::super) reverse: bool,
}

impl<'k> RemainingRange<'k> {
    fn target(self) -> Target<'k> {
        match (self.reverse, self.lower, self.upper) {
            (false, Bound::Unbounded, _) => Target::Of(&[]),
            (false, Bound::Included(key) | Bound::Excluded(key), _) => Target::Of(key),
            (true, _, Bound::Unbounded) => Target::Last,
            (true, _, Bound::Included(key)) => Target::Of(key),
            (true, _, Bound::Excluded(key)) => Target::Below(key),
        }
    }

    /// Returns the rest of the walk after a leaf with these bounds, which say where its neighbour
    /// begins.
    fn after_leaf(self, (low, high): Bounds<'k>) -> Option<RemainingRange<'k>> {
        match (self.reverse, low, high) {
            (false, _, Some(high)) if !is_above_bound(high, self.upper) => Some(RemainingRange {
                lower: Bound::Included(high),
                ..self
            }),
            (true, Some(low), _) if !is_below_bound(low, self.lower) => Some(RemainingRange {
                upper: Bound::Excluded(low),
                ..self
            }),
            _ => None,
        }
    }
}

impl Tree {
    /// Calls the visitor for the records of a range, in order, for at most `step` of them.
    pub(in super::super) fn walk<'g>(
        &self,
        range: RemainingRange<'_>,
        step: usize,
        prefetched: Prefetched,
        guard: &'g Guard,
        mut visit: impl FnMut(Pinned<'g>) -> ControlFlow<()>,
    ) -> WalkOutcome {
        let (mut run, mut next): (LeafRecords<'g>, LeafRecords<'g>) =
            (LeafRecords::new(), LeafRecords::new());
        let Some(bounds) = self.read_run(range, guard, &mut run) else {
            return WalkOutcome::Done;
        };
        let mut rest = range.after_leaf(bounds);
        let mut left = step.max(1);
        prefetch_first(&run, prefetched, guard);
        loop {
            for (at, record) in run.iter().enumerate() {
                prefetch_ahead_of(&run, &next, at, prefetched, guard);
                if visit(*record).is_break() {
                    return WalkOutcome::Stopped;
                }
                left -= 1;
                if left == 0 {
                    return WalkOutcome::Paused(InlineKey::from_slice(record.record().key()));
                }
            }
            if next.is_empty() {
                // The first leaf is done, or a leaf had no records in the range.
                let Some(now) = rest else {
                    return WalkOutcome::Done;
                };
                let Some(bounds) = self.read_run(now, guard, &mut run) else {
                    return WalkOutcome::Done;
                };
                rest = now.after_leaf(bounds);
                prefetch_first(&run, prefetched, guard);
            } else {
                std::mem::swap(&mut run, &mut next);
            }
            next.clear();
            if let Some(then) = rest {
                let Some(bounds) = self.read_run(then, guard, &mut next) else {
                    rest = None;
                    continue;
                };
                rest = then.after_leaf(bounds);
            }
        }
    }

    /// Reads the next leaf, and returns the bounds of its range.
    fn read_run<'g>(
        &self,
        rest: RemainingRange<'_>,
        guard: &'g Guard,
        run: &mut LeafRecords<'g>,
    ) -> Option<Bounds<'g>> {
        let (leaf_view, ()) = self.read(rest.target(), guard, |leaf_view| {
            let part = leaf_view.between(rest.lower, rest.upper, guard);
            run.clear();
            run.extend(part.filter_map(|at| leaf_view.leaf.key(at, guard)));
        })?;
        if rest.reverse {
            run.reverse();
        }
        Some(bounds_of(leaf_view.separators))
    }
}

/// Prefetches the first records of a run.
fn prefetch_first(run: &LeafRecords<'_>, prefetched: Prefetched, guard: &Guard) {
    for record in run.iter().take(RECORDS_AHEAD) {
        prefetch(record.address().as_ptr().addr());
    }
    for record in run.iter().take(VERSIONS_AHEAD) {
        record.prefetch_newest(prefetched, guard);
    }
}

/// Prefetches the records that lie a fixed distance after `at`, in this run or the next.
#[inline]
fn prefetch_ahead_of(
    run: &LeafRecords<'_>,
    next: &LeafRecords<'_>,
    at: usize,
    prefetched: Prefetched,
    guard: &Guard,
) {
    let ahead = |by: usize| match (at + by).checked_sub(run.len()) {
        None => run.get(at + by),
        Some(behind) => next.get(behind),
    };
    if let Some(record) = ahead(RECORDS_AHEAD) {
        prefetch(record.address().as_ptr().addr());
    }
    if let Some(soon) = ahead(VERSIONS_AHEAD) {
        soon.prefetch_newest(prefetched, guard);
    }
}

/// Whether `key` and all greater keys are above an upper bound.
fn is_above_bound(key: &[u8], upper: Bound<&[u8]>) -> bool {
    match upper {
        Bound::Unbounded => false,
        Bound::Included(bound) => key > bound,
        Bound::Excluded(bound) => key >= bound,
    }
}

/// Whether all keys less than `key` are below a lower bound.
fn is_below_bound(key: &[u8], lower: Bound<&[u8]>) -> bool {
    match lower {
        Bound::Unbounded => false,
        Bound::Included(bound) | Bound::Excluded(bound) => key <= bound,
    }
}
