//! An engine that counts the calls that may cost a round trip, and can report the outcome of
//! commits as unknown.

use porpoise_kv::{
    Capabilities, Check, Commit, CommitPosition, CounterId, DurableListener, Engine, Error, Key,
    Limits, LockRequest, Locked, PreparedTxn, Read, Result, ScanEnd, ScanRange, ScanVisitor,
    SpaceId, SpaceSpec, Stat, StatementMark, Txn, TxnOptions, Wait,
};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::ThreadId;

/// Calls since the last [`Calls::take`].
#[derive(Default, Debug)]
pub struct Calls {
    gets: AtomicUsize,
    scans: AtomicUsize,
    locks: AtomicUsize,
    reserves: AtomicUsize,
}

/// `get`, `scan`, `lock` and `reserve_ids` calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    pub gets: usize,
    pub scans: usize,
    pub locks: usize,
    pub reserves: usize,
}

impl Calls {
    /// `lock` calls since the last [`Calls::take`].
    pub fn locks(&self) -> usize {
        self.locks.load(Ordering::SeqCst)
    }

    pub fn take(&self) -> Taken {
        Taken {
            gets: self.gets.swap(0, Ordering::SeqCst),
            scans: self.scans.swap(0, Ordering::SeqCst),
            locks: self.locks.swap(0, Ordering::SeqCst),
            reserves: self.reserves.swap(0, Ordering::SeqCst),
        }
    }
}

/// Stops a thread before each of its transactions, until the test lets it go on.
#[derive(Default)]
pub struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    stopped: Option<ThreadId>,
    is_there: bool,
    permits: usize,
}

impl Gate {
    /// Stops the calling thread from now on.
    pub fn stop_this_thread(&self) {
        self.state.lock().unwrap().stopped = Some(std::thread::current().id());
    }

    /// Releases all threads, and stops no further one.
    pub fn open(&self) {
        self.state.lock().unwrap().stopped = None;
        self.changed.notify_all();
    }

    /// Lets the thread begin its next transaction.
    pub fn step(&self) {
        let mut state = self.state.lock().unwrap();
        state.permits += 1;
        state.is_there = false;
        self.changed.notify_all();
    }

    /// Whether the thread waits before a transaction.
    pub fn is_there(&self) -> bool {
        self.state.lock().unwrap().is_there
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        let own = Some(std::thread::current().id());
        if state.stopped != own {
            return;
        }
        while state.permits == 0 && state.stopped == own {
            state.is_there = true;
            state = self.changed.wait(state).unwrap();
        }
        state.is_there = false;
        state.permits = state.permits.saturating_sub(1);
    }
}

pub struct Counting {
    pub gate: Arc<Gate>,
    inner: Arc<dyn Engine>,
    pub calls: Arc<Calls>,
    /// Whether commits are made and their outcome is reported as unknown.
    pub lose_outcomes: Arc<AtomicBool>,
    /// Whether the engine says that it cannot skip locked keys.
    refuses_skip: bool,
}

impl Counting {
    pub fn new(inner: Arc<dyn Engine>) -> Counting {
        Counting {
            gate: Arc::default(),
            inner,
            calls: Arc::default(),
            lose_outcomes: Arc::default(),
            refuses_skip: false,
        }
    }

    /// An engine that cannot skip locked keys, like that on TiKV.
    pub fn without_skip(inner: Arc<dyn Engine>) -> Counting {
        Counting {
            refuses_skip: true,
            ..Counting::new(inner)
        }
    }
}

struct CountingTxn {
    inner: Box<dyn Txn>,
    calls: Arc<Calls>,
    lose_outcomes: Arc<AtomicBool>,
}

impl Engine for Counting {
    fn name(&self) -> &'static str {
        self.inner.name()
    }
    fn capabilities(&self) -> Capabilities {
        let inner = self.inner.capabilities();
        Capabilities {
            skip_locked: inner.skip_locked && !self.refuses_skip,
            ..inner
        }
    }
    fn limits(&self) -> Limits {
        self.inner.limits()
    }
    fn approximate_keys(&self, spaces: &[SpaceId]) -> Option<u64> {
        self.inner.approximate_keys(spaces)
    }
    fn approximate_bytes(&self, spaces: &[SpaceId]) -> Option<u64> {
        self.inner.approximate_bytes(spaces)
    }
    fn begin(&self, options: TxnOptions) -> Result<Box<dyn Txn>> {
        self.gate.pass();
        Ok(Box::new(CountingTxn {
            inner: self.inner.begin(options)?,
            calls: self.calls.clone(),
            lose_outcomes: self.lose_outcomes.clone(),
        }))
    }
    fn create_spaces(&self, specs: &[SpaceSpec]) -> Result<Vec<SpaceId>> {
        self.inner.create_spaces(specs)
    }
    fn drop_spaces(&self, spaces: &[SpaceId]) -> Result<()> {
        self.inner.drop_spaces(spaces)
    }
    fn take_restored(&self) -> Result<Vec<Box<dyn PreparedTxn>>> {
        self.inner.take_restored()
    }
    fn spaces(&self) -> Result<Vec<(SpaceId, SpaceSpec)>> {
        self.inner.spaces()
    }
    fn reserve_ids(&self, counter: CounterId, count: u64, at_least: u64) -> Result<Range<u64>> {
        self.calls.reserves.fetch_add(1, Ordering::SeqCst);
        self.inner.reserve_ids(counter, count, at_least)
    }
    fn return_ids(&self, counter: CounterId, unused: Range<u64>) -> Result<bool> {
        self.inner.return_ids(counter, unused)
    }
    fn next_id(&self, counter: CounterId) -> Result<u64> {
        self.inner.next_id(counter)
    }
    fn set_next_id(&self, counter: CounterId, next: u64) -> Result<()> {
        self.inner.set_next_id(counter, next)
    }
    fn durable_position(&self) -> CommitPosition {
        self.inner.durable_position()
    }
    fn newest_position(&self) -> CommitPosition {
        self.inner.newest_position()
    }
    fn wait_durable(&self, position: CommitPosition) -> Result<()> {
        self.inner.wait_durable(position)
    }
    fn subscribe(&self, listener: Arc<dyn DurableListener>) {
        self.inner.subscribe(listener);
    }
    fn stats(&self) -> Vec<Stat> {
        self.inner.stats()
    }
    fn shutdown(&self) -> Result<()> {
        self.inner.shutdown()
    }
}

impl Txn for CountingTxn {
    fn refresh(&mut self) -> Result<()> {
        self.inner.refresh()
    }
    fn pin(&mut self) -> Result<()> {
        self.inner.pin()
    }
    fn pinned(&self) -> bool {
        self.inner.pinned()
    }
    fn track_reads(&mut self) {
        self.inner.track_reads();
    }
    fn advance(&mut self) -> Result<bool> {
        self.inner.advance()
    }
    fn get(
        &mut self,
        read: Read,
        keys: &[Key<'_>],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.calls.gets.fetch_add(1, Ordering::SeqCst);
        self.inner.get(read, keys, visit)
    }
    fn scan(
        &mut self,
        read: Read,
        ranges: &[ScanRange<'_>],
        limit: usize,
        visit: &mut ScanVisitor<'_>,
    ) -> Result<ScanEnd> {
        self.calls.scans.fetch_add(1, Ordering::SeqCst);
        self.inner.scan(read, ranges, limit, visit)
    }
    fn lock(
        &mut self,
        requests: &[LockRequest<'_>],
        wait: Wait,
        visit: &mut dyn FnMut(usize, Locked<'_>),
    ) -> Result<()> {
        self.calls.locks.fetch_add(1, Ordering::SeqCst);
        self.inner.lock(requests, wait, visit)
    }
    fn unlock(&mut self, keys: &[Key<'_>], since: StatementMark) {
        self.inner.unlock(keys, since);
    }
    fn put(&mut self, key: Key<'_>, value: &[u8], check: Check) -> Result<()> {
        self.inner.put(key, value, check)
    }
    fn delete(&mut self, key: Key<'_>, check: Check) -> Result<()> {
        self.inner.delete(key, check)
    }
    fn mark(&self) -> StatementMark {
        self.inner.mark()
    }
    fn rollback_to(&mut self, mark: StatementMark) {
        self.inner.rollback_to(mark);
    }
    fn has_writes(&self) -> bool {
        self.inner.has_writes()
    }
    fn seen(&self) -> CommitPosition {
        self.inner.seen()
    }
    fn commit(self: Box<Self>) -> Result<Commit> {
        let commit = self.inner.commit()?;
        if self.lose_outcomes.load(Ordering::SeqCst) {
            return Err(Error::UnknownOutcome("the reply was lost".to_owned()));
        }
        Ok(commit)
    }
    fn rollback(self: Box<Self>) {
        self.inner.rollback();
    }
    fn prepare(self: Box<Self>, name: &[u8], note: &[u8]) -> Result<Box<dyn PreparedTxn>> {
        self.inner.prepare(name, note)
    }
}
