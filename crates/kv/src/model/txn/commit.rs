//! The commit of a model's transaction: checks for conflicts, then applies all writes.

use super::ModelTxn;
use crate::model::{FullKey, Shared};
use crate::{Check, Commit, CommitPosition, Error, LockMode, Result, Wait};
use std::collections::BTreeMap;
use std::time::Instant;

impl ModelTxn {
    pub(super) fn check_and_install(&mut self, shared: &Shared) -> Result<Commit> {
        let mut last: BTreeMap<FullKey, (Option<Vec<u8>>, Check)> = BTreeMap::new();
        for write in self.writes.drain(..) {
            let check = match last.get(&write.key) {
                Some((_, Check::FirstCommitter)) => Check::FirstCommitter,
                _ => write.check,
            };
            last.insert(write.key, (write.value, check));
        }
        if last.is_empty() {
            return Ok(Commit {
                position: CommitPosition(self.newest_seen),
            });
        }
        let mut state = shared.state();
        for (key, (_, check)) in &last {
            state.check_space(key.0)?;
            if *check != Check::FirstCommitter {
                continue;
            }
            let wait = Wait::Until(Instant::now() + self.commit_wait);
            let (after, granted) = self.acquire(shared, state, key, LockMode::Exclusive, wait);
            state = after;
            granted?;
            if self
                .snapshot
                .is_some_and(|snapshot| state.newest_commit(key) > snapshot)
            {
                return Err(Error::Conflict);
            }
        }
        // Deleting an absent key changes nothing, but a validated read of it may have been reported as
        // a deletion.
        last.retain(|key, (value, _)| {
            value.is_some() || state.newest(key).is_some_and(|(_, value)| value.is_some())
        });
        for tracked in self.tracked.iter().filter(|t| t.validate) {
            state.check_space(tracked.space)?;
            if tracked.changed(&state, u64::MAX) {
                return Err(Error::Conflict);
            }
        }
        if last.is_empty() {
            return Ok(Commit {
                position: CommitPosition(self.newest_seen),
            });
        }
        for key in last.keys() {
            state.check_space(key.0)?;
        }
        state.last_commit += 1;
        let commit = state.last_commit;
        for (key, (value, _)) in last {
            state.data.entry(key).or_default().push((commit, value));
        }
        for listener in &state.listeners {
            listener.durable(CommitPosition(commit));
        }
        Ok(Commit {
            position: CommitPosition(commit.max(self.newest_seen)),
        })
    }
}
