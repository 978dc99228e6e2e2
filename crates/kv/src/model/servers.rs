//! Several servers over one model, for tests of their coordination: each can be cut off from the store,
//! and the store's clock can be moved.

use super::Model;
use crate::coordination::{Coordination, Fence, Lease, ServerRecord};
use crate::{
    Capabilities, Check, Commit, CommitPosition, CounterId, DurableListener, Engine, Error, Key,
    Limits, LockRequest, Locked, PreparedTxn, Read, Result, ScanEnd, ScanRange, ScanVisitor,
    SpaceId, SpaceSpec, Stat, StatementMark, Txn, TxnOptions, Wait,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A store that several servers share.
pub struct SharedModel {
    model: Model,
    started: Instant,
    /// Milliseconds by which the store's clock was moved forward.
    moved: AtomicU64,
    records: Mutex<BTreeMap<u64, Vec<u8>>>,
}

impl Default for SharedModel {
    fn default() -> SharedModel {
        SharedModel {
            model: Model::new(),
            started: Instant::now(),
            moved: AtomicU64::new(0),
            records: Mutex::default(),
        }
    }
}

impl SharedModel {
    /// An empty store.
    pub fn new() -> Arc<SharedModel> {
        Arc::default()
    }

    /// The engine of another server.
    pub fn server(self: &Arc<Self>) -> Arc<ModelServer> {
        Arc::new(ModelServer {
            model: self.model.reopen(),
            store: self.clone(),
            fence: Arc::default(),
            is_cut: Arc::default(),
        })
    }

    /// Moves the store's clock forward.
    pub fn move_clock(&self, millis: u64) {
        self.moved.fetch_add(millis, Ordering::SeqCst);
    }

    fn now(&self) -> u64 {
        let millis = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        millis + self.moved.load(Ordering::SeqCst)
    }

    fn records(&self) -> MutexGuard<'_, BTreeMap<u64, Vec<u8>>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The engine of a server.
pub struct ModelServer {
    model: Model,
    store: Arc<SharedModel>,
    fence: Arc<Fence>,
    is_cut: Arc<AtomicBool>,
}

impl ModelServer {
    /// Cuts the server off from the store, or ends that.
    pub fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::SeqCst);
    }

    fn reach(&self) -> Result<&Model> {
        check_connection(&self.is_cut)?;
        Ok(&self.model)
    }
}

fn check_connection(is_cut: &AtomicBool) -> Result<()> {
    if is_cut.load(Ordering::SeqCst) {
        return Err(Error::Unavailable("the store cannot be reached".into()));
    }
    Ok(())
}

impl Engine for ModelServer {
    fn name(&self) -> &'static str {
        self.model.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.model.capabilities()
    }

    fn limits(&self) -> Limits {
        self.model.limits()
    }

    fn begin(&self, options: TxnOptions) -> Result<Box<dyn Txn>> {
        let epoch = self.fence.begin()?;
        Ok(Box::new(ServerTxn {
            inner: self.reach()?.begin(options)?,
            store: self.store.clone(),
            fence: self.fence.clone(),
            is_cut: self.is_cut.clone(),
            epoch,
        }))
    }

    fn begin_unfenced(&self) -> Result<Box<dyn Txn>> {
        self.reach()?.begin(TxnOptions::default())
    }

    fn create_spaces(&self, specs: &[SpaceSpec]) -> Result<Vec<SpaceId>> {
        self.reach()?.create_spaces(specs)
    }

    fn drop_spaces(&self, spaces: &[SpaceId]) -> Result<()> {
        self.reach()?.drop_spaces(spaces)
    }

    fn spaces(&self) -> Result<Vec<(SpaceId, SpaceSpec)>> {
        self.reach()?.spaces()
    }

    fn reserve_ids(&self, counter: CounterId, count: u64, at_least: u64) -> Result<Range<u64>> {
        self.reach()?.reserve_ids(counter, count, at_least)
    }

    fn return_ids(&self, counter: CounterId, unused: Range<u64>) -> Result<bool> {
        self.reach()?.return_ids(counter, unused)
    }

    fn next_id(&self, counter: CounterId) -> Result<u64> {
        self.reach()?.next_id(counter)
    }

    fn set_next_id(&self, counter: CounterId, next: u64) -> Result<()> {
        self.reach()?.set_next_id(counter, next)
    }

    fn durable_position(&self) -> CommitPosition {
        CommitPosition(u64::MAX)
    }

    fn wait_durable(&self, _position: CommitPosition) -> Result<()> {
        Ok(())
    }

    fn subscribe(&self, _listener: Arc<dyn DurableListener>) {}

    fn coordination(&self) -> Option<&dyn Coordination> {
        Some(self)
    }

    fn stats(&self) -> Vec<Stat> {
        self.model.stats()
    }

    fn shutdown(&self) -> Result<()> {
        self.model.shutdown()
    }
}

impl Coordination for ModelServer {
    fn now(&self) -> Result<u64> {
        self.reach()?;
        Ok(self.store.now())
    }

    fn next_space(&self) -> Result<SpaceId> {
        let last = self.reach()?.shared.state().last_space;
        Ok(SpaceId((last + 1).max(SpaceId::FIRST_FREE.0)))
    }

    fn records(&self) -> Result<(u64, Vec<ServerRecord>)> {
        self.reach()?;
        let records = self.store.records();
        let list = records.iter().map(|(id, record)| (*id, record.clone()));
        Ok((self.store.now(), list.collect()))
    }

    fn replace_record(
        &self,
        server: u64,
        expected: Option<&[u8]>,
        record: Option<&[u8]>,
    ) -> Result<bool> {
        self.reach()?;
        let mut records = self.store.records();
        if records.get(&server).map(Vec::as_slice) != expected {
            return Ok(false);
        }
        match record {
            Some(record) => drop(records.insert(server, record.to_vec())),
            None => drop(records.remove(&server)),
        }
        Ok(true)
    }

    fn grant_lease(&self, lease: Lease) {
        self.fence.grant(lease);
    }

    fn end_lease(&self, reason: &str) {
        self.fence.end(reason);
    }
}

struct ServerTxn {
    inner: Box<dyn Txn>,
    store: Arc<SharedModel>,
    fence: Arc<Fence>,
    is_cut: Arc<AtomicBool>,
    epoch: u64,
}

impl ServerTxn {
    fn check(&self) -> Result<()> {
        check_connection(&self.is_cut)?;
        self.fence.check_time(self.epoch, self.store.now())
    }
}

impl Txn for ServerTxn {
    fn refresh(&mut self) -> Result<()> {
        self.check()?;
        self.inner.refresh()
    }

    fn refresh_within(&mut self, staleness: Duration) -> Result<()> {
        self.check()?;
        self.inner.refresh_within(staleness)
    }

    fn pin(&mut self) -> Result<()> {
        self.check()?;
        self.inner.pin()
    }

    fn pinned(&self) -> bool {
        self.inner.pinned()
    }

    fn track_reads(&mut self) {
        self.inner.track_reads();
    }

    fn get(
        &mut self,
        read: Read,
        keys: &[Key<'_>],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.check()?;
        self.inner.get(read, keys, visit)
    }

    fn scan(
        &mut self,
        read: Read,
        ranges: &[ScanRange<'_>],
        limit: usize,
        visit: &mut ScanVisitor<'_>,
    ) -> Result<ScanEnd> {
        self.check()?;
        self.inner.scan(read, ranges, limit, visit)
    }

    fn lock(
        &mut self,
        requests: &[LockRequest<'_>],
        wait: Wait,
        visit: &mut dyn FnMut(usize, Locked<'_>),
    ) -> Result<()> {
        self.check()?;
        self.inner.lock(requests, wait, visit)
    }

    fn unlock(&mut self, keys: &[Key<'_>], since: StatementMark) {
        self.inner.unlock(keys, since);
    }

    fn put(&mut self, key: Key<'_>, value: &[u8], check: Check) -> Result<()> {
        self.check()?;
        self.inner.put(key, value, check)
    }

    fn delete(&mut self, key: Key<'_>, check: Check) -> Result<()> {
        self.check()?;
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
        self.check()?;
        self.inner.commit()
    }

    fn rollback(self: Box<Self>) {
        self.inner.rollback();
    }

    fn prepare(self: Box<Self>, _name: &[u8], _note: &[u8]) -> Result<Box<dyn PreparedTxn>> {
        Err(Error::Unsupported("prepared transactions of a cluster"))
    }
}
