//! The plan of a checkpoint: which spaces are written, and which files are reused from the
//! checkpoint before (an incremental checkpoint).
//!
//! Spaces are written in units: a large space is a unit by itself, small ones share one. A unit is
//! reused as long as no commit after its snapshot wrote to any of its spaces; so a checkpoint
//! writes only what has changed.
//!
//! Invariants:
//! 1. A space is in at most one unit, with all its rows.
//! 2. Spaces that changed since the checkpoint before and spaces that did not are in different
//!    units.

use crate::manifest::{Manifest, Unit};
use crate::space::Spaces;
use porpoise_base::sync::atomic::Ordering;
use porpoise_kv::SpaceId;
use std::collections::BTreeSet;

/// Number of keys above which a space is a unit by itself. Smaller spaces share a unit until their
/// total reaches this number.
const MIN_OWN_UNIT_KEYS: usize = 10_000;

/// The units of a checkpoint.
pub(super) struct Plan {
    /// Units that are reused from the checkpoint before.
    pub(super) reused: Vec<Unit>,
    /// The spaces of each unit to be written.
    pub(super) to_write: Vec<Vec<SpaceId>>,
}

impl Plan {
    pub(super) fn empty() -> Plan {
        Plan {
            reused: Vec::new(),
            to_write: Vec::new(),
        }
    }
}

/// Plans a checkpoint. Called after its snapshot was taken, so that a space that changes meanwhile
/// may be written without need, but is never missed.
pub(super) fn plan(spaces: &Spaces, before: &Manifest) -> Plan {
    let is_unchanged = |unit: &Unit| {
        let same = |id: &SpaceId| {
            spaces
                .get(*id)
                .is_ok_and(|space| space.last_commit.load(Ordering::SeqCst) <= unit.ts)
        };
        !unit.spaces.is_empty() && unit.spaces.iter().all(same)
    };
    let kept: Vec<Unit> = before
        .units
        .iter()
        .filter(|unit| is_unchanged(unit))
        .cloned()
        .collect();
    let covered: BTreeSet<SpaceId> = kept.iter().flat_map(|unit| unit.spaces.clone()).collect();
    let mut written = Vec::new();
    let mut open: [(Vec<SpaceId>, usize); 2] = Default::default();
    for space in spaces.iter().filter(|space| space.is_logged()) {
        let keys = space.index.len();
        if covered.contains(&space.id) || keys == 0 {
            continue;
        }
        if keys > MIN_OWN_UNIT_KEYS {
            written.push(vec![space.id]);
            continue;
        }
        let is_changing = space.last_commit.load(Ordering::SeqCst) > before.ts;
        let [resting, changing] = &mut open;
        let (ids, sum) = if is_changing { changing } else { resting };
        ids.push(space.id);
        *sum += keys;
        if *sum > MIN_OWN_UNIT_KEYS {
            written.push(std::mem::take(ids));
            *sum = 0;
        }
    }
    written.extend(open.into_iter().map(|(ids, _)| ids));
    written.retain(|ids| !ids.is_empty());
    Plan {
        reused: kept,
        to_write: written,
    }
}
