//! Transaction of the reference model: the contract of [`Txn`] in its simplest form.

mod commit;

pub(super) use commit::FinalWrites;

use super::prepared::ModelPrepared;
use super::{FullKey, Shared, State};
use crate::{
    Check, Commit, CommitPosition, Error, Key, LockMode, LockRequest, Locked, PreparedTxn, Read,
    ReadMode, Result, ScanEnd, ScanRange, ScanVisitor, SpaceId, StatementMark, Txn, Wait,
};
use porpoise_base::blocking::blocking;
use porpoise_base::cancel::Cancel;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

struct Write {
    key: FullKey,
    value: Option<Vec<u8>>,
    check: Check,
}

/// A read key range, kept to check later that no commit after `since` has changed it.
struct Tracked {
    space: SpaceId,
    start: Vec<u8>,
    end: Option<Vec<u8>>,
    since: u64,
    /// Whether it is checked at commit, too; else only when the snapshot is advanced.
    validate: bool,
}

impl Tracked {
    /// Whether a key in the range was changed by a commit in (`since`, `upto`].
    fn changed(&self, state: &State, upto: u64) -> bool {
        state.data.iter().any(|(key, versions)| {
            key.0 == self.space
                && key.1 >= self.start
                && self.end.as_ref().is_none_or(|end| key.1 < *end)
                && versions.iter().any(|(c, _)| *c > self.since && *c <= upto)
        })
    }
}

/// Tracking of snapshot reads for [`Txn::advance`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tracking {
    Off,
    /// All snapshot reads are tracked.
    Complete,
    /// Requested after the snapshot was taken: `advance` returns false.
    Incomplete,
}

pub(super) struct ModelTxn {
    pub(super) shared: Arc<Shared>,
    pub(super) id: u64,
    serializable: bool,
    cancel: Cancel,
    snapshot: Option<u64>,
    pinned: bool,
    tracking: Tracking,
    writes: Vec<Write>,
    tracked: Vec<Tracked>,
    pub(super) newest_seen: u64,
    ended: bool,
    commit_wait: Duration,
}

impl ModelTxn {
    pub(super) fn new(
        shared: Arc<Shared>,
        id: u64,
        serializable: bool,
        cancel: Cancel,
        commit_wait: Duration,
    ) -> ModelTxn {
        ModelTxn {
            shared,
            id,
            serializable,
            cancel,
            snapshot: None,
            pinned: false,
            tracking: Tracking::Off,
            writes: Vec::new(),
            tracked: Vec::new(),
            newest_seen: 0,
            ended: false,
            commit_wait,
        }
    }

    fn check_not_ended(&self) -> Result<()> {
        if self.ended {
            Err(Error::Ended)
        } else {
            Ok(())
        }
    }

    /// Number of the newest commit that a read sees; takes the snapshot if there is none.
    fn read_horizon(&mut self, mode: ReadMode, state: &State) -> u64 {
        match mode {
            ReadMode::Current => state.last_commit,
            ReadMode::Snapshot => {
                self.pinned |= self.serializable;
                *self.snapshot.get_or_insert(state.snapshot())
            }
        }
    }

    /// Whether [`Txn::refresh`] keeps the snapshot: it is pinned, or the transaction is
    /// serializable and has one.
    fn snapshot_is_fixed(&self) -> bool {
        self.pinned || (self.serializable && self.snapshot.is_some())
    }

    /// The transaction's newest write to a key before a statement mark.
    fn own(&self, key: &FullKey, mark: StatementMark) -> Option<&Option<Vec<u8>>> {
        let below = usize::try_from(mark.0).unwrap_or(usize::MAX);
        self.writes
            .iter()
            .take(below)
            .rev()
            .find(|w| w.key == *key)
            .map(|w| &w.value)
    }

    fn track(&mut self, read: Read, mut tracked: Tracked) {
        tracked.validate = read.validate || self.serializable;
        let kept = read.mode == ReadMode::Snapshot && self.tracking == Tracking::Complete;
        if tracked.validate || kept {
            self.tracked.push(tracked);
        }
    }

    /// Committed and own entries of a range that a read sees.
    fn visible(
        &mut self,
        state: &State,
        read: Read,
        range: &ScanRange<'_>,
        upto: u64,
    ) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let inside = |key: &FullKey| {
            key.0 == range.space
                && key.1.as_slice() >= range.start
                && range.end.is_none_or(|end| key.1.as_slice() < end)
        };
        let mut all = BTreeMap::new();
        for (key, versions) in state.data.iter().filter(|(key, _)| inside(key)) {
            let Some((commit, value)) = versions.iter().rev().find(|(c, _)| *c <= upto) else {
                continue;
            };
            if read.mode == ReadMode::Current {
                self.newest_seen = self.newest_seen.max(*commit);
            }
            if let Some(value) = value {
                all.insert(key.1.clone(), value.clone());
            }
        }
        let below = usize::try_from(read.mark.0).unwrap_or(usize::MAX);
        for write in self.writes.iter().take(below).filter(|w| inside(&w.key)) {
            match &write.value {
                Some(value) => all.insert(write.key.1.clone(), value.clone()),
                None => all.remove(&write.key.1),
            };
        }
        all
    }

    /// Acquires one lock, waiting as `wait` says; false if it was skipped ([`Wait::Skip`]).
    fn acquire<'s>(
        &mut self,
        shared: &'s Shared,
        mut state: MutexGuard<'s, State>,
        key: &FullKey,
        mode: LockMode,
        wait: Wait,
    ) -> (MutexGuard<'s, State>, Result<bool>) {
        if state.locks.try_grant(self.id, key, mode) {
            return (state, Ok(true));
        }
        let deadline = match wait {
            Wait::Skip => return (state, Ok(false)),
            Wait::NoWait => return (state, Err(Error::LockBusy)),
            Wait::Until(deadline) => deadline,
        };
        state.locks.join_queue(self.id, key, mode);
        loop {
            if state.locks.try_grant(self.id, key, mode) {
                shared.changed.notify_all();
                return (state, Ok(true));
            }
            let failed = if let Some(reason) = self.cancel.reason() {
                Some(Error::Cancelled(reason))
            } else if state.locks.deadlocked(self.id) {
                Some(Error::Deadlock)
            } else if Instant::now() >= deadline {
                Some(Error::LockTimeout)
            } else {
                None
            };
            if let Some(error) = failed {
                state.locks.leave_queue(self.id, key);
                shared.changed.notify_all();
                if error.ends_transaction() {
                    self.ended = true;
                    state.locks.release(self.id);
                }
                return (state, Err(error));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            state = shared
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Runs `work` with a waker registered, so that a cancellation ends waits.
    fn with_cancel_waker<T>(&mut self, work: impl FnOnce(&mut ModelTxn, &Shared) -> T) -> T {
        let shared = self.shared.clone();
        let cancel = self.cancel.clone();
        let wake = self.shared.clone();
        let _registered = cancel.register(Arc::new(move || {
            let _state = wake.state();
            wake.changed.notify_all();
        }));
        blocking(|| work(self, &shared))
    }

    fn write(&mut self, key: Key<'_>, value: Option<&[u8]>, check: Check) -> Result<()> {
        self.check_not_ended()?;
        self.shared.state().check_space(key.space)?;
        let (what, size, limit) = ("key", key.bytes.len(), 8192);
        if size > limit {
            return Err(Error::TooLarge { what, size, limit });
        }
        self.writes.push(Write {
            key: (key.space, key.bytes.to_vec()),
            value: value.map(<[u8]>::to_vec),
            check,
        });
        Ok(())
    }
}

impl Txn for ModelTxn {
    fn refresh(&mut self) -> Result<()> {
        self.check_not_ended()?;
        if !self.snapshot_is_fixed() {
            self.snapshot = Some(self.shared.state().snapshot());
            // Reads tracked under the previous snapshot no longer matter: exclude them from checks.
            for one in self.tracked.iter_mut().filter(|t| !t.validate) {
                one.since = u64::MAX;
            }
        }
        Ok(())
    }

    fn pin(&mut self) -> Result<()> {
        self.check_not_ended()?;
        let last = self.shared.state().snapshot();
        self.snapshot.get_or_insert(last);
        self.pinned = true;
        Ok(())
    }

    fn pinned(&self) -> bool {
        self.pinned
    }

    fn track_reads(&mut self) {
        if self.tracking == Tracking::Off {
            self.tracking = if self.snapshot.is_none() {
                Tracking::Complete
            } else {
                Tracking::Incomplete
            };
        }
    }

    fn advance(&mut self) -> Result<bool> {
        self.check_not_ended()?;
        if !self.snapshot_is_fixed() || self.tracking != Tracking::Complete {
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
        self.snapshot = Some(now);
        Ok(true)
    }

    fn get(
        &mut self,
        read: Read,
        keys: &[Key<'_>],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.check_not_ended()?;
        let shared = self.shared.clone();
        let state = shared.state();
        let upto = self.read_horizon(read.mode, &state);
        for (index, key) in keys.iter().enumerate() {
            state.check_space(key.space)?;
            let full = (key.space, key.bytes.to_vec());
            let mut end = key.bytes.to_vec();
            end.push(0);
            self.track(
                read,
                Tracked {
                    space: key.space,
                    start: key.bytes.to_vec(),
                    end: Some(end),
                    since: upto,
                    validate: false,
                },
            );
            if let Some(own) = self.own(&full, read.mark) {
                visit(index, own.as_deref());
                continue;
            }
            let versions = state.data.get(&full);
            let found = versions.and_then(|all| all.iter().rev().find(|(c, _)| *c <= upto));
            if let (ReadMode::Current, Some((commit, _))) = (read.mode, found) {
                self.newest_seen = self.newest_seen.max(*commit);
            }
            visit(index, found.and_then(|(_, value)| value.as_deref()));
        }
        Ok(())
    }

    fn scan(
        &mut self,
        read: Read,
        ranges: &[ScanRange<'_>],
        limit: usize,
        visit: &mut ScanVisitor<'_>,
    ) -> Result<ScanEnd> {
        self.check_not_ended()?;
        let shared = self.shared.clone();
        let state = shared.state();
        let upto = self.read_horizon(read.mode, &state);
        let mut left = limit;
        for (index, range) in ranges.iter().enumerate() {
            state.check_space(range.space)?;
            let all = self.visible(&state, read, range, upto);
            let mut entries: Vec<_> = all.into_iter().collect();
            if range.reverse {
                entries.reverse();
            }
            let mut stopped = None;
            for (key, value) in entries {
                let flow = visit(index, &key, &value);
                left = left.saturating_sub(1);
                if left == 0 || flow == ControlFlow::Break(()) {
                    stopped = Some(key);
                    break;
                }
            }
            let (mut start, mut end) = (range.start.to_vec(), range.end.map(<[u8]>::to_vec));
            match &stopped {
                Some(key) if range.reverse => start = key.clone(),
                Some(key) => end = Some([key, &[0][..]].concat()),
                None => {}
            }
            let (space, since) = (range.space, upto);
            self.track(
                read,
                Tracked {
                    space,
                    start,
                    end,
                    since,
                    validate: false,
                },
            );
            if let Some(key) = stopped {
                return Ok(ScanEnd::Stopped { range: index, key });
            }
        }
        Ok(ScanEnd::Done)
    }

    fn lock(
        &mut self,
        requests: &[LockRequest<'_>],
        wait: Wait,
        visit: &mut dyn FnMut(usize, Locked<'_>),
    ) -> Result<()> {
        self.check_not_ended()?;
        let mut order: Vec<(usize, &LockRequest<'_>)> = requests.iter().enumerate().collect();
        order.sort_by_key(|(_, request)| request.key);
        self.with_cancel_waker(|txn, shared| {
            let mut state = shared.state();
            for (index, request) in order {
                state.check_space(request.key.space)?;
                let key = (request.key.space, request.key.bytes.to_vec());
                let (after, granted) = txn.acquire(shared, state, &key, request.mode, wait);
                state = after;
                if !granted? {
                    let nothing = Locked {
                        granted: false,
                        value: None,
                        newer: false,
                        own: false,
                    };
                    visit(index, nothing);
                    continue;
                }
                let newest = state.newest(&key);
                txn.newest_seen = txn.newest_seen.max(newest.map_or(0, |(c, _)| *c));
                let own = txn.own(&key, StatementMark::ALL);
                let value = match own {
                    Some(own) => own.as_deref(),
                    None => newest.and_then(|(_, value)| value.as_deref()),
                };
                let newer = txn
                    .snapshot
                    .is_some_and(|snapshot| newest.is_some_and(|(c, _)| *c > snapshot));
                visit(
                    index,
                    Locked {
                        granted: true,
                        value,
                        newer,
                        own: own.is_some(),
                    },
                );
            }
            Ok(())
        })
    }

    fn unlock(&mut self, _keys: &[Key<'_>], _since: StatementMark) {}

    fn tracked_reads(&self) -> usize {
        self.tracked.len()
    }

    fn untrack_reads(&mut self, from: usize) {
        self.tracked.truncate(from);
    }

    fn put(&mut self, key: Key<'_>, value: &[u8], check: Check) -> Result<()> {
        self.write(key, Some(value), check)
    }

    fn delete(&mut self, key: Key<'_>, check: Check) -> Result<()> {
        self.write(key, None, check)
    }

    fn mark(&self) -> StatementMark {
        StatementMark(self.writes.len() as u64)
    }

    fn rollback_to(&mut self, mark: StatementMark) {
        self.writes
            .truncate(usize::try_from(mark.0).unwrap_or(usize::MAX));
    }

    fn has_writes(&self) -> bool {
        !self.writes.is_empty()
    }

    fn seen(&self) -> CommitPosition {
        CommitPosition(self.newest_seen)
    }

    fn commit(mut self: Box<Self>) -> Result<Commit> {
        self.check_not_ended()?;
        debug_assert!(self.writes.iter().all(|w| {
            let held = |mode| self.shared.state().locks.is_covered(self.id, &w.key, mode);
            w.check != Check::Locked || held(LockMode::Update)
        }));
        self.with_cancel_waker(|txn, shared| txn.check_and_install(shared))
    }

    fn rollback(self: Box<Self>) {}

    fn prepare(mut self: Box<Self>, name: &[u8], note: &[u8]) -> Result<Box<dyn PreparedTxn>> {
        self.check_not_ended()?;
        if self.shared.state().refuses_preparation {
            return Err(Error::Unsupported("prepared transactions"));
        }
        let has_writes = !self.writes.is_empty();
        let prepared = self.with_cancel_waker(|txn, shared| {
            let (mut state, writes) = txn.check_writes(shared)?;
            let validated = txn.tracked.iter().filter(|t| t.validate && has_writes);
            let ranges = validated
                .map(|t| (t.space, t.start.clone(), t.end.clone()))
                .collect();
            ModelPrepared::store(txn, &mut state, (name, note), &writes, ranges)
        })?;
        // The handle holds the locks from now on.
        self.id = 0;
        Ok(prepared)
    }
}

impl Drop for ModelTxn {
    fn drop(&mut self) {
        self.shared.state().locks.release(self.id);
        self.shared.changed.notify_all();
    }
}
