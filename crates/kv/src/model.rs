//! The reference model: the simplest implementation of the contract.
//!
//! One mutex around a sorted map that keeps every version ever committed, a lock table, and one
//! condition variable for all waits. It is slow, unbounded in memory, and obviously correct;
//! engines are compared with it.
//!
//! Invariants:
//! 1. Versions of a key are in ascending commit order; a commit's number is one above the last, and
//!    it is durable at once.
//! 2. A transaction is in at most one queue, and does not wait if it closes a cycle of waits.
//! 3. Every change of a lock wakes all waiters, and each checks whether it can be granted its lock.
//!
//! Rejected: sharing the write set's code with the embedded engine, which would hide a bug common
//! to both.

mod locks;
mod prepared;
mod replay;
mod txn;

use crate::{
    Capabilities, CommitPosition, CounterId, DurableListener, Engine, Error, Isolation, Limits,
    PreparedTxn, Resource, Result, SpaceId, SpaceSpec, Stat, Txn, TxnOptions,
};
use locks::Locks;
use prepared::{ModelPrepared, Stored};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use txn::ModelTxn;

/// A key that owns its bytes.
type FullKey = (SpaceId, Vec<u8>);

/// Commit number and value (`None`: deleted), oldest first.
type Versions = Vec<(u64, Option<Vec<u8>>)>;

#[derive(Default)]
struct State {
    last_commit: u64,
    /// Newest commit that new snapshots see; `None` for all.
    durable: Option<u64>,
    last_txn: u64,
    last_space: u64,
    data: BTreeMap<FullKey, Versions>,
    spaces: BTreeMap<SpaceId, SpaceSpec>,
    counters: BTreeMap<CounterId, u64>,
    locks: Locks,
    /// Whether [`Capabilities::prepare`] is missing.
    refuses_preparation: bool,
    /// Prepared transactions by name.
    prepared: BTreeMap<Vec<u8>, Stored>,
    /// All that were ever prepared, with commit and name, if the store is to be truncated.
    prepared_history: Vec<(u64, Vec<u8>, Stored)>,
    listeners: Vec<Arc<dyn DurableListener>>,
}

impl State {
    fn check_space(&self, space: SpaceId) -> Result<()> {
        if space < SpaceId::FIRST_FREE || self.spaces.contains_key(&space) {
            Ok(())
        } else {
            Err(Error::NoSuchSpace(space))
        }
    }

    /// The newest version of a key.
    fn newest(&self, key: &FullKey) -> Option<&(u64, Option<Vec<u8>>)> {
        self.data.get(key).and_then(|versions| versions.last())
    }

    /// Applies writes as one commit. Deletions of absent keys change nothing.
    fn install(&mut self, writes: BTreeMap<FullKey, Option<Vec<u8>>>) -> CommitPosition {
        self.last_commit += 1;
        let commit = self.last_commit;
        for (key, value) in writes {
            let present = self.newest(&key).is_some_and(|(_, value)| value.is_some());
            if value.is_some() || present {
                self.data.entry(key).or_default().push((commit, value));
            }
        }
        for listener in &self.listeners {
            listener.durable(CommitPosition(commit));
        }
        CommitPosition(commit)
    }

    /// Commit number of the newest version; 0 for a key that never existed.
    fn newest_commit(&self, key: &FullKey) -> u64 {
        self.newest(key).map_or(0, |(commit, _)| *commit)
    }
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reference engine.
pub struct Model {
    shared: Arc<Shared>,
    closed: Arc<AtomicBool>,
    commit_wait: Duration,
    /// Prepared transactions that this engine found.
    restored: Mutex<Vec<Box<dyn PreparedTxn>>>,
}

/// Maximum time that a commit waits for locks on keys that it compares.
const COMMIT_WAIT: Duration = Duration::from_secs(50);

impl Default for Model {
    fn default() -> Model {
        Model {
            shared: Arc::default(),
            closed: Arc::default(),
            commit_wait: COMMIT_WAIT,
            restored: Mutex::default(),
        }
    }
}

impl Model {
    /// An empty store.
    pub fn new() -> Model {
        Model::default()
    }

    /// Creates another engine on the same store, as after a restart.
    pub fn reopen(&self) -> Model {
        Model {
            shared: self.shared.clone(),
            closed: Arc::default(),
            commit_wait: self.commit_wait,
            restored: Mutex::new(ModelPrepared::restore(&self.shared)),
        }
    }

    /// Sets the maximum time that commits wait for locks of others.
    pub fn with_commit_wait(mut self, wait: Duration) -> Model {
        self.commit_wait = wait;
        self
    }

    /// Removes [`Capabilities::prepare`] from the store, as if it were an engine without it.
    pub fn without_preparation(self) -> Model {
        self.shared.state().refuses_preparation = true;
        self
    }

    fn open_state(&self) -> Result<MutexGuard<'_, State>> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Unavailable("the engine is shut down".to_owned()));
        }
        Ok(self.shared.state())
    }
}

impl Engine for Model {
    fn name(&self) -> &'static str {
        "model"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            serializable: true,
            range_validation: true,
            share_locks: true,
            nowait: true,
            skip_locked: true,
            prepare: !self.shared.state().refuses_preparation,
            annotations: false,
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            key: 8192,
            value: 1 << 30,
            transaction: usize::MAX,
        }
    }

    fn begin(&self, options: TxnOptions) -> Result<Box<dyn Txn>> {
        let mut state = self.open_state()?;
        state.last_txn += 1;
        let serializable = options.isolation == Isolation::Serializable;
        Ok(Box::new(ModelTxn::new(
            self.shared.clone(),
            state.last_txn,
            serializable,
            options.cancel,
            self.commit_wait,
        )))
    }

    fn create_spaces(&self, specs: &[SpaceSpec]) -> Result<Vec<SpaceId>> {
        let mut state = self.open_state()?;
        let mut ids = Vec::with_capacity(specs.len());
        for spec in specs {
            state.last_space = (state.last_space + 1).max(SpaceId::FIRST_FREE.0);
            let id = SpaceId(state.last_space);
            state.spaces.insert(id, spec.clone());
            ids.push(id);
        }
        Ok(ids)
    }

    fn drop_spaces(&self, spaces: &[SpaceId]) -> Result<()> {
        let mut state = self.open_state()?;
        for space in spaces {
            if state.spaces.remove(space).is_some() {
                state.data.retain(|(of, _), _| of != space);
            }
        }
        Ok(())
    }

    fn take_restored(&self) -> Result<Vec<Box<dyn PreparedTxn>>> {
        let mut restored = self.restored.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::take(&mut *restored))
    }

    fn spaces(&self) -> Result<Vec<(SpaceId, SpaceSpec)>> {
        let state = self.open_state()?;
        Ok(state
            .spaces
            .iter()
            .map(|(id, s)| (*id, s.clone()))
            .collect())
    }

    fn reserve_ids(&self, counter: CounterId, count: u64, at_least: u64) -> Result<Range<u64>> {
        let mut state = self.open_state()?;
        let next = state.counters.entry(counter).or_insert(1);
        let start = (*next).max(at_least);
        let end = start
            .checked_add(count.max(1))
            .ok_or(Error::Full(Resource::Ids))?;
        *next = end;
        Ok(start..end)
    }

    fn return_ids(&self, counter: CounterId, unused: Range<u64>) -> Result<bool> {
        let mut state = self.open_state()?;
        let next = state.counters.entry(counter).or_insert(1);
        if *next != unused.end || unused.is_empty() {
            return Ok(false);
        }
        *next = unused.start;
        Ok(true)
    }

    fn next_id(&self, counter: CounterId) -> Result<u64> {
        Ok(self
            .open_state()?
            .counters
            .get(&counter)
            .copied()
            .unwrap_or(1))
    }

    fn set_next_id(&self, counter: CounterId, next: u64) -> Result<()> {
        self.open_state()?.counters.insert(counter, next.max(1));
        Ok(())
    }

    fn durable_position(&self) -> CommitPosition {
        CommitPosition(self.shared.state().last_commit)
    }

    fn wait_durable(&self, _position: CommitPosition) -> Result<()> {
        Ok(())
    }

    fn subscribe(&self, listener: Arc<dyn DurableListener>) {
        self.shared.state().listeners.push(listener);
    }

    fn approximate_keys(&self, spaces: &[SpaceId]) -> Option<u64> {
        let state = self.shared.state();
        let in_space = |space: &SpaceId| {
            let all = (*space, Vec::new())..(SpaceId(space.0 + 1), Vec::new());
            state.data.range(all).count() as u64
        };
        Some(spaces.iter().map(in_space).sum())
    }

    fn approximate_bytes(&self, spaces: &[SpaceId]) -> Option<u64> {
        let state = self.shared.state();
        let in_space = |space: &SpaceId| -> u64 {
            let all = (*space, Vec::new())..(SpaceId(space.0 + 1), Vec::new());
            let rows = state.data.range(all);
            rows.map(|((_, key), versions)| {
                let values = versions.iter().flat_map(|(_, value)| value);
                (key.len() + values.map(Vec::len).sum::<usize>()) as u64
            })
            .sum()
        };
        Some(spaces.iter().map(in_space).sum())
    }

    fn stats(&self) -> Vec<Stat> {
        vec![Stat {
            name: "commits_total",
            help: "Transactions committed with writes.",
            counter: true,
            value: self.shared.state().last_commit,
        }]
    }

    fn shutdown(&self) -> Result<()> {
        self.closed.store(true, Ordering::Release);
        Ok(())
    }
}
