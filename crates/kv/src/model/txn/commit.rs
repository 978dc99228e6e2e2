//! The commit of a model's transaction: checks for conflicts, then applies all writes.

use super::ModelTxn;
use crate::model::{FullKey, Shared, State};
use crate::{Check, Commit, CommitPosition, Error, LockMode, Result, Wait};
use std::collections::BTreeMap;
use std::sync::MutexGuard;
use std::time::Instant;

/// Each key's last write, with its check.
pub(in crate::model) type FinalWrites = BTreeMap<FullKey, (Option<Vec<u8>>, Check)>;

impl ModelTxn {
    pub(super) fn check_and_install(&mut self, shared: &Shared) -> Result<Commit> {
        let (mut state, last) = self.check_writes(shared)?;
        if last.is_empty() {
            return Ok(Commit {
                position: CommitPosition(self.newest_seen),
            });
        }
        state.check_prepared(last.keys())?;
        let writes = last.into_iter().map(|(key, (value, _))| (key, value));
        let position = state.install(writes.collect());
        Ok(Commit {
            position: position.max(CommitPosition(self.newest_seen)),
        })
    }

    /// Locks and compares what is written, and validates what was read. Returns the writes that
    /// have an effect, and the locked state to which they can be applied. A transaction that has
    /// written nothing needs no validation.
    pub(super) fn check_writes<'s>(
        &mut self,
        shared: &'s Shared,
    ) -> Result<(MutexGuard<'s, State>, FinalWrites)> {
        let mut last = FinalWrites::new();
        for write in self.writes.drain(..) {
            let check = match last.get(&write.key) {
                Some((_, Check::FirstCommitter)) => Check::FirstCommitter,
                _ => write.check,
            };
            last.insert(write.key, (write.value, check));
        }
        let mut state = shared.state();
        if last.is_empty() {
            return Ok((state, last));
        }
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
        for key in last.keys() {
            state.check_space(key.0)?;
        }
        Ok((state, last))
    }
}
