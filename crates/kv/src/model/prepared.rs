//! Prepared transactions of the model: entries of the store, which every engine on it shares.
//!
//! Invariants:
//! 1. The transaction that an entry names holds the entry's locks while a handle exists.
//! 2. A row of [`SpaceId::PREPARED`] with its note exists as long as the entry, and both are changed by one commit,
//!    as in an engine that stores the image there: so the store can be truncated at any commit.
//! 3. No commit changes a key of the ranges of another entry, and no transaction is prepared whose
//!    validated ranges contain a key that another entry writes, or the other way round.

use super::txn::{FinalWrites, ModelTxn};
use super::{FullKey, Shared, State};
use crate::{
    Commit, CommitPosition, Error, LockMode, MAX_PREPARED_NAME, PreparedTxn, Result, SpaceId,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A range that a prepared transaction validated: space, start, end.
pub(super) type ValidatedRange = (SpaceId, Vec<u8>, Option<Vec<u8>>);

/// Stored image of a prepared transaction.
#[derive(Clone)]
pub(super) struct Stored {
    note: Vec<u8>,
    /// The transaction that holds its locks.
    txn: u64,
    writes: BTreeMap<FullKey, Option<Vec<u8>>>,
    locks: Vec<(FullKey, LockMode)>,
    ranges: Vec<ValidatedRange>,
}

fn contains(ranges: &[ValidatedRange], key: &FullKey) -> bool {
    ranges.iter().any(|(space, start, end)| {
        key.0 == *space && key.1 >= *start && end.as_ref().is_none_or(|end| key.1 < *end)
    })
}

impl State {
    /// Fails if a commit of `keys` would change what a prepared transaction has validated.
    pub(super) fn check_prepared<'k>(
        &self,
        mut keys: impl Iterator<Item = &'k FullKey>,
    ) -> Result<()> {
        let protected = |key| self.prepared.values().any(|p| contains(&p.ranges, key));
        if keys.any(protected) {
            return Err(Error::Conflict);
        }
        Ok(())
    }
}

/// A handle to a prepared transaction.
pub(super) struct ModelPrepared {
    shared: Arc<Shared>,
    name: Vec<u8>,
    note: Vec<u8>,
    txn: u64,
    position: CommitPosition,
    ended: bool,
}

impl ModelPrepared {
    /// Stores a transaction whose writes are checked.
    pub(super) fn store(
        txn: &ModelTxn,
        state: &mut State,
        (name, note): (&[u8], &[u8]),
        writes: &FinalWrites,
        ranges: Vec<ValidatedRange>,
    ) -> Result<Box<dyn PreparedTxn>> {
        if name.len() > MAX_PREPARED_NAME {
            let (what, size, limit) = ("name", name.len(), MAX_PREPARED_NAME);
            return Err(Error::TooLarge { what, size, limit });
        }
        if state.prepared.contains_key(name) {
            return Err(Error::LockBusy);
        }
        state.check_prepared(writes.keys())?;
        let mut others = state.prepared.values().flat_map(|p| p.writes.keys());
        if others.any(|key| contains(&ranges, key)) {
            return Err(Error::Conflict);
        }
        let stored = Stored {
            note: note.to_vec(),
            txn: txn.id,
            writes: writes
                .iter()
                .map(|(key, (value, _))| (key.clone(), value.clone()))
                .collect(),
            locks: state.locks.held_by(txn.id),
            ranges,
        };
        let row = (SpaceId::PREPARED, name.to_vec());
        let position = state.install(BTreeMap::from([(row, Some(note.to_vec()))]));
        if state.durable.is_some() {
            let former = (position.0, name.to_vec(), stored.clone());
            state.prepared_history.push(former);
        }
        state.prepared.insert(name.to_vec(), stored);
        Ok(Box::new(ModelPrepared {
            shared: txn.shared.clone(),
            name: name.to_vec(),
            note: note.to_vec(),
            txn: txn.id,
            position: position.max(CommitPosition(txn.newest_seen)),
            ended: false,
        }))
    }

    /// Handles to all stored transactions, as after a restart: each holds its locks again.
    pub(super) fn restore(shared: &Arc<Shared>) -> Vec<Box<dyn PreparedTxn>> {
        let mut guard = shared.state();
        let state = &mut *guard;
        let mut all: Vec<Box<dyn PreparedTxn>> = Vec::new();
        for (name, stored) in &mut state.prepared {
            state.last_txn += 1;
            stored.txn = state.last_txn;
            for (key, mode) in &stored.locks {
                state.locks.try_grant(stored.txn, key, *mode);
            }
            all.push(Box::new(ModelPrepared {
                shared: shared.clone(),
                name: name.clone(),
                note: stored.note.clone(),
                txn: stored.txn,
                position: CommitPosition(state.last_commit),
                ended: false,
            }));
        }
        all
    }

    /// The entries that existed after a commit, of a store that keeps all of them.
    pub(super) fn entries_after(state: &State, commit: u64) -> BTreeMap<Vec<u8>, Stored> {
        let names = state.data.iter().filter_map(|((space, name), versions)| {
            let newest = versions.iter().rev().find(|(at, _)| *at <= commit);
            let exists = newest.is_some_and(|(_, note)| note.is_some());
            (*space == SpaceId::PREPARED && exists).then_some(name)
        });
        let entry = |name: &Vec<u8>| {
            let mut history = state.prepared_history.iter().rev();
            let found = history.find(|(at, of, _)| *at <= commit && of == name);
            found.map(|(_, name, stored)| (name.clone(), stored.clone()))
        };
        names.filter_map(entry).collect()
    }

    /// Removes the entry, and returns it.
    fn take(&mut self, state: &mut State) -> Result<Stored> {
        if self.ended {
            return Err(Error::Ended);
        }
        self.ended = true;
        state.prepared.remove(&self.name).ok_or(Error::Ended)
    }
}

impl PreparedTxn for ModelPrepared {
    fn name(&self) -> &[u8] {
        &self.name
    }

    fn note(&self) -> &[u8] {
        &self.note
    }

    fn position(&self) -> CommitPosition {
        self.position
    }

    fn commit(&mut self) -> Result<Commit> {
        let shared = self.shared.clone();
        let mut state = shared.state();
        let mut writes = self.take(&mut state)?.writes;
        writes.insert((SpaceId::PREPARED, self.name.clone()), None);
        let position = state.install(writes);
        state.locks.release(self.txn);
        shared.changed.notify_all();
        Ok(Commit {
            position: position.max(self.position),
        })
    }

    fn rollback(&mut self) -> Result<Commit> {
        let shared = self.shared.clone();
        let mut state = shared.state();
        self.take(&mut state)?;
        let row = (SpaceId::PREPARED, self.name.clone());
        let position = state.install(BTreeMap::from([(row, None)]));
        state.locks.release(self.txn);
        shared.changed.notify_all();
        Ok(Commit { position })
    }
}

impl Drop for ModelPrepared {
    fn drop(&mut self) {
        self.shared.state().locks.release(self.txn);
        self.shared.changed.notify_all();
    }
}
