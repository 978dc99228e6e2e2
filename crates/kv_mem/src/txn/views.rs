//! Views of a transaction: what its reads rest on, and whether that stands.
//!
//! A view is a snapshot in a slot of its own. Where what was read is older than
//! the present view, the slot of the older one stays as the anchor: deletions
//! that validation must find are unlinked only when no slot is below them.
//!
//! At the memory limit snapshots are ended from outside (transactions.md, 30).
//! So every call that looked at versions asks at its end whether its views
//! stand; what it has shown counts for nothing when they do not.

use super::MemTxn;
use crate::snapshots::Slot;
use porpoise_kv::{Error, Full, Read, Result, View};

/// A view and its place among the snapshots.
pub(crate) struct TakenView {
    ts: u64,
    slot: Slot,
}

impl MemTxn {
    /// The view's timestamp, if one was taken.
    pub(crate) fn view_ts(&self) -> Option<u64> {
        self.view.as_ref().map(|view| view.ts)
    }

    pub(super) fn take_view(&mut self) -> u64 {
        if let Some(view) = &self.view {
            return view.ts;
        }
        let (ts, slot) = self.state.take_snapshot();
        self.view = Some(TakenView { ts, slot });
        self.pinned |= self.serializable();
        ts
    }

    pub(super) fn end_view(&mut self) {
        if let Some(view) = self.view.take() {
            self.state.snapshots.end(view.slot);
        }
    }

    pub(super) fn end_anchor(&mut self) {
        if let Some(anchor) = self.anchor.take() {
            self.state.snapshots.end(anchor.slot);
        }
    }

    /// Takes a view at now in place of the present one.
    pub(super) fn renew_view(&mut self) {
        if !self.reads.validates() || self.anchor.is_some() {
            self.end_view();
        } else {
            self.anchor = self.view.take();
        }
        self.reads.view_left();
        self.take_view();
    }

    /// Up to where a read sees; and if what it reads is to be kept, since when
    /// it must not change, and whether the commit looks at that.
    pub(super) fn bounds(&mut self, read: Read) -> (u64, Option<(u64, bool)>) {
        let validate = read.validate || self.serializable();
        match read.view {
            View::Snapshot => {
                let ts = self.take_view();
                let keep = validate || self.reads.keeps();
                (ts, keep.then_some((ts, validate)))
            }
            View::Current => {
                if validate && self.view.is_none() && self.anchor.is_none() {
                    let (ts, slot) = self.state.take_snapshot();
                    self.anchor = Some(TakenView { ts, slot });
                }
                let installed = || self.state.pipeline.installed();
                (u64::MAX, validate.then(|| (installed(), true)))
            }
        }
    }

    /// Moves a pinned view to now, if what was read from it is the same there.
    pub(super) fn advance_view(&mut self) -> Result<bool> {
        if !self.pinned || !self.reads.keeps() {
            return Ok(false);
        }
        let (ts, slot) = self.state.take_snapshot();
        let guard = crossbeam_epoch::pin();
        let same = self.reads.same_at(ts, &self.state.store.spaces, &guard);
        // Deletions that the comparison had to find were there.
        let stand = self.views_stand();
        if stand.is_err() || !same {
            self.state.snapshots.end(slot);
            return stand.map(|()| false);
        }
        // Nothing that is kept is older than the new view.
        self.reads.move_to(ts);
        self.end_view();
        self.end_anchor();
        self.view = Some(TakenView { ts, slot });
        self.state.metrics.snapshots_advanced.add(1);
        Ok(true)
    }

    /// The oldest snapshot that it needs.
    fn oldest_view(&self) -> Option<u64> {
        // An anchor is older than the view that came after it.
        self.anchor.as_ref().or(self.view.as_ref()).map(|v| v.ts)
    }

    /// Fails when a snapshot was ended on which something rests. To be asked
    /// after looking at versions: whoever ends one prunes afterwards.
    pub(crate) fn views_stand(&self) -> Result<()> {
        match self.oldest_view() {
            Some(ts) if self.state.snapshots.is_ended(ts) => Err(Error::SnapshotGone),
            _ => Ok(()),
        }
    }

    /// Fails when memory has no room for so many bytes more, nor can be made
    /// to have.
    pub(crate) fn make_room(&self, bytes: usize) -> Result<()> {
        let own = self.oldest_view();
        let state = &self.state;
        if state.store.has_room(bytes) || state.reclaimer.make_room(bytes, own) {
            Ok(())
        } else {
            Err(Error::Full(Full::Memory))
        }
    }
}
