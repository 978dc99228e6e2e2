//! What the model's transactions keep of what they read: to validate it at
//! commit, and to move a view forward.

use super::State;
use super::txn::ModelTxn;
use crate::{Read, Result, SpaceId, View};

/// Something read that must not have changed after commit `since`.
pub(super) struct Tracked {
    pub(super) space: SpaceId,
    pub(super) start: Vec<u8>,
    pub(super) end: Option<Vec<u8>>,
    pub(super) since: u64,
    /// At commit; else only when the view advances.
    pub(super) validate: bool,
}

impl Tracked {
    /// Whether anything in it has a commit in (`since`, `upto`].
    pub(super) fn changed(&self, state: &State, upto: u64) -> bool {
        state.data.iter().any(|(key, versions)| {
            key.0 == self.space
                && key.1 >= self.start
                && self.end.as_ref().is_none_or(|end| key.1 < *end)
                && versions.iter().any(|(c, _)| *c > self.since && *c <= upto)
        })
    }
}

impl ModelTxn {
    /// Whether the view stays where it is.
    pub(super) fn fixed(&self) -> bool {
        self.pinned || (self.serializable && self.view.is_some())
    }

    pub(super) fn track(&mut self, read: Read, mut tracked: Tracked) {
        tracked.validate = read.validate || self.serializable;
        let kept = read.view == View::Snapshot && self.keeps == Some(true);
        if tracked.validate || kept {
            self.tracked.push(tracked);
        }
    }

    /// Keeps what is read from the view, if nothing was yet.
    pub(super) fn keep_from_here(&mut self) {
        if self.keeps == Some(false) {
            self.keeps = self.view.is_none().then_some(true);
        }
    }

    /// What was kept for the view before says nothing about the next one.
    pub(super) fn leave_view(&mut self) {
        for one in self.tracked.iter_mut().filter(|t| !t.validate) {
            one.since = u64::MAX;
        }
    }

    /// Moves a pinned view to now, if all that was read is the same there.
    pub(super) fn advance_view(&mut self) -> Result<bool> {
        if !self.fixed() || self.keeps != Some(true) {
            return Ok(false);
        }
        let shared = self.shared.clone();
        let state = shared.state();
        let now = state.snapshot();
        let gone = |t: &Tracked| state.check_space(t.space).is_err();
        if self
            .tracked
            .iter()
            .any(|t| gone(t) || t.changed(&state, now))
        {
            return Ok(false);
        }
        for tracked in &mut self.tracked {
            tracked.since = tracked.since.max(now);
        }
        self.view = Some(now);
        Ok(true)
    }
}
