//! The snapshot of a transaction: taking it, moving it forward, and noticing that it was expired.
//!
//! A snapshot occupies a slot of its own. If tracked reads are older than the present snapshot, the slot
//! of the older one stays as the anchor: deletions that validation must find are unlinked only when no
//! slot is below them.
//!
//! At the memory limit, old snapshots are expired (transactions.md, 30). Every call that has read
//! versions checks at its end that its snapshots are still valid; if not, the call fails, whatever it
//! has shown.

use super::MemTxn;
use crate::snapshots::Slot;
use crate::validate::Tracking;
use porpoise_kv::{Error, Read, ReadMode, Resource, Result};

/// A snapshot and its slot.
pub(crate) struct HeldSnapshot {
    ts: u64,
    slot: Slot,
}

impl MemTxn {
    /// The snapshot's timestamp, if one was taken.
    pub(crate) fn snapshot_ts(&self) -> Option<u64> {
        self.snapshot.as_ref().map(|snapshot| snapshot.ts)
    }

    pub(super) fn ensure_snapshot(&mut self) -> u64 {
        if let Some(snapshot) = &self.snapshot {
            return snapshot.ts;
        }
        let (ts, slot) = self.state.take_snapshot();
        self.snapshot = Some(HeldSnapshot { ts, slot });
        self.pinned |= self.serializable();
        ts
    }

    pub(super) fn end_snapshot(&mut self) {
        if let Some(snapshot) = self.snapshot.take() {
            self.state.snapshots.end(snapshot.slot);
        }
    }

    pub(super) fn end_anchor(&mut self) {
        if let Some(anchor) = self.anchor.take() {
            self.state.snapshots.end(anchor.slot);
        }
    }

    /// Replaces the snapshot by a new one.
    pub(super) fn replace_snapshot(&mut self) {
        if !self.reads.validates() || self.anchor.is_some() {
            self.end_snapshot();
        } else {
            self.anchor = self.snapshot.take();
        }
        self.reads.detach_from_snapshot();
        self.ensure_snapshot();
    }

    /// Returns the newest timestamp that a read sees and, if it is tracked, how.
    pub(super) fn read_bounds(&mut self, read: Read) -> (u64, Option<Tracking>) {
        let validate = read.validate || self.serializable();
        match read.mode {
            ReadMode::Snapshot => {
                let ts = self.ensure_snapshot();
                let is_tracked = validate || self.reads.is_tracking();
                let tracking = Tracking {
                    since: ts,
                    validate,
                };
                (ts, is_tracked.then_some(tracking))
            }
            ReadMode::Current => {
                if validate && self.snapshot.is_none() && self.anchor.is_none() {
                    let (ts, slot) = self.state.take_snapshot();
                    self.anchor = Some(HeldSnapshot { ts, slot });
                }
                let tracking = || Tracking {
                    since: self.state.pipeline.installed(),
                    validate,
                };
                (u64::MAX, validate.then(tracking))
            }
        }
    }

    /// Moves a pinned snapshot forward to now, if everything that was read from it is unchanged.
    pub(super) fn advance_snapshot(&mut self) -> Result<bool> {
        if !self.pinned || !self.reads.is_tracking() {
            return Ok(false);
        }
        let (ts, slot) = self.state.take_snapshot();
        let guard = crossbeam_epoch::pin();
        let same = self
            .reads
            .is_unchanged_at(ts, &self.state.store.spaces, &guard);
        // The snapshots were not expired, so the comparison has seen every deletion that it needs.
        let stand = self.check_snapshots();
        if stand.is_err() || !same {
            self.state.snapshots.end(slot);
            return stand.map(|()| false);
        }
        // No tracked read is older than the new snapshot.
        self.reads.advance_to(ts);
        self.end_snapshot();
        self.end_anchor();
        self.snapshot = Some(HeldSnapshot { ts, slot });
        self.state.metrics.snapshots_advanced.add(1);
        Ok(true)
    }

    /// Returns the oldest snapshot that the transaction needs.
    fn oldest_snapshot(&self) -> Option<u64> {
        // An anchor is older than the snapshot that came after it.
        self.anchor
            .as_ref()
            .or(self.snapshot.as_ref())
            .map(|v| v.ts)
    }

    /// Fails if the oldest snapshot that the transaction needs was expired. Called after versions
    /// were read, because pruning follows expiry.
    pub(crate) fn check_snapshots(&self) -> Result<()> {
        match self.oldest_snapshot() {
            Some(ts) if self.state.snapshots.is_expired(ts) => Err(Error::SnapshotGone),
            _ => Ok(()),
        }
    }

    /// Ensures that `bytes` more fit below the memory limit, if necessary by freeing memory; fails
    /// otherwise.
    pub(crate) fn make_room(&self, bytes: usize) -> Result<()> {
        let own = self.oldest_snapshot();
        let state = &self.state;
        if state.store.has_room(bytes) || state.reclaimer.make_room(bytes, own) {
            Ok(())
        } else {
            Err(Error::Full(Resource::Memory))
        }
    }
}
