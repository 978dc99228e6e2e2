//! The model as the oracle for crash tests: snapshots that lag behind commits, the rows after any
//! commit, and truncation of the store to a commit.

use super::prepared::ModelPrepared;
use super::{FullKey, Model, Shared, State, Versions};
use crate::{CommitPosition, SpaceId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

impl State {
    /// Newest commit that a new snapshot sees.
    pub(super) fn snapshot(&self) -> u64 {
        match self.durable {
            Some(durable) => durable.min(self.last_commit),
            None => self.last_commit,
        }
    }
}

impl Model {
    /// Makes new snapshots see only commits up to [`Model::set_durable`], as in a store whose
    /// commits become durable later.
    pub fn with_late_durability(self) -> Model {
        self.shared.state().durable = Some(0);
        self
    }

    /// Marks commits up to this one as durable.
    pub fn set_durable(&self, commit: CommitPosition) {
        self.shared.state().durable = Some(commit.0);
    }

    /// The number of the last commit.
    pub fn last_commit(&self) -> CommitPosition {
        CommitPosition(self.shared.state().last_commit)
    }

    /// All rows after a commit.
    pub fn rows_after(&self, commit: CommitPosition) -> BTreeMap<(SpaceId, Vec<u8>), Vec<u8>> {
        let state = self.shared.state();
        let visible = |(key, versions): (&FullKey, &Versions)| {
            let (_, value) = versions.iter().rev().find(|(c, _)| *c <= commit.0)?;
            value.clone().map(|value| (key.clone(), value))
        };
        state.data.iter().filter_map(visible).collect()
    }

    /// Returns a separate store with all commits up to one, all durable, and without transactions, except for
    /// those that were prepared: [`crate::Engine::take_restored`] returns them.
    pub fn truncated_at(&self, commit: CommitPosition) -> Model {
        let state = self.shared.state();
        let mut data = state.data.clone();
        for versions in data.values_mut() {
            versions.retain(|(c, _)| *c <= commit.0);
        }
        data.retain(|_, versions| !versions.is_empty());
        let cut = State {
            last_commit: commit.0.min(state.last_commit),
            last_space: state.last_space,
            durable: state.durable.map(|_| commit.0),
            data,
            spaces: state.spaces.clone(),
            counters: state.counters.clone(),
            prepared: ModelPrepared::entries_after(&state, commit.0),
            prepared_history: state.prepared_history.clone(),
            ..State::default()
        };
        let shared = Arc::<Shared>::default();
        *shared.state() = cut;
        let restored = ModelPrepared::restore(&shared);
        Model {
            shared,
            closed: Arc::default(),
            commit_wait: self.commit_wait,
            restored: Mutex::new(restored),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Check, Engine, Key, Read};

    fn set(model: &Model, value: &[u8]) -> CommitPosition {
        let mut txn = model.begin(Default::default()).unwrap();
        txn.put(Key::new(SpaceId(1), b"k"), value, Check::Blind)
            .unwrap();
        txn.commit().unwrap().position
    }

    fn get(model: &Model) -> Option<Vec<u8>> {
        let mut found = None;
        let mut txn = model.begin(Default::default()).unwrap();
        let key = Key::new(SpaceId(1), b"k");
        txn.get(Read::SNAPSHOT, &[key], &mut |_, value| {
            found = value.map(<[u8]>::to_vec)
        })
        .unwrap();
        found
    }

    #[test]
    fn snapshots_lag_behind_and_a_store_is_truncated() {
        let model = Model::new().with_late_durability();
        let first = set(&model, b"1");
        assert_eq!(get(&model), None);
        model.set_durable(first);
        set(&model, b"2");
        assert_eq!(get(&model).as_deref(), Some(&b"1"[..]));
        let cut = model.truncated_at(first);
        assert_eq!(cut.rows_after(cut.last_commit()).len(), 1);
        set(&cut, b"3");
        cut.set_durable(cut.last_commit());
        assert_eq!(get(&cut).as_deref(), Some(&b"3"[..]));
    }

    #[test]
    fn a_truncated_store_has_the_transactions_that_were_prepared_then() {
        let model = Model::new().with_late_durability();
        let prepare = |value: &[u8]| {
            let mut txn = model.begin(Default::default()).unwrap();
            txn.put(Key::new(SpaceId(1), b"k"), value, Check::Blind)
                .unwrap();
            txn.prepare(b"name", value).unwrap()
        };
        let mut first = prepare(b"1");
        let prepared = model.last_commit();
        first.commit().unwrap();
        let ended = model.last_commit();
        prepare(b"2").rollback().unwrap();
        let notes = |commit| -> Vec<Vec<u8>> {
            let restored = model.truncated_at(commit).take_restored().unwrap();
            restored.iter().map(|txn| txn.note().to_vec()).collect()
        };
        assert_eq!(notes(prepared), [b"1"]);
        assert!(notes(ended).is_empty() && notes(model.last_commit()).is_empty());
        let again = CommitPosition(ended.0 + 1);
        assert_eq!(notes(again), [b"2"]);
        let cut = model.truncated_at(prepared);
        for txn in &mut cut.take_restored().unwrap() {
            txn.commit().unwrap();
        }
        cut.set_durable(cut.last_commit());
        assert_eq!(get(&cut).as_deref(), Some(&b"1"[..]));
    }
}
