//! The engine itself: opening, the contract's functions, figures, checks.

use crate::counters::Counters;
use crate::record::RECORD_BYTES;
use crate::shared::Shared;
use crate::space::Spaces;
use crate::txn::MemTxn;
use parking_lot::{Condvar, Mutex};
use porpoise_base::clock::{self, Clock};
use porpoise_kv::{
    Capabilities, CounterId, Durability, DurableListener, Engine, Error, Full, Limits, Result,
    SpaceId, SpaceSpec, Stat, Ticket, Txn, TxnOptions,
};
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the reclaimer looks, at least.
const RECLAIM_TICK: Duration = Duration::from_millis(10);

/// How an engine is opened.
#[derive(Clone)]
pub struct KvMemOptions {
    /// The data directory; `None` keeps nothing.
    pub dir: Option<PathBuf>,
    /// When commits count as durable.
    pub durability: Durability,
    /// Above so many bytes of keys and versions, writes that grow are refused
    /// with [`Error::Full`]. Approximate.
    pub memory_limit: Option<usize>,
    /// How long a commit waits for the locks of keys that it compares.
    pub lock_wait: Duration,
    /// The largest write set of one transaction, in bytes.
    pub transaction_limit: usize,
    /// The source of time.
    pub clock: Arc<dyn Clock>,
}

impl Default for KvMemOptions {
    fn default() -> KvMemOptions {
        KvMemOptions {
            dir: None,
            durability: Durability::Sync,
            memory_limit: None,
            lock_wait: Duration::from_secs(50),
            transaction_limit: 4 << 30,
            clock: clock::system(),
        }
    }
}

#[derive(Default)]
struct Stop {
    stopped: Mutex<bool>,
    wake: Condvar,
}

/// The embedded engine.
pub struct KvMem {
    shared: Arc<Shared>,
    counters: Counters,
    next_space: Mutex<u64>,
    stop: Arc<Stop>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl KvMem {
    /// Opens a store.
    ///
    /// # Errors
    /// [`Error::Io`] when a thread cannot be started.
    pub fn open(options: KvMemOptions) -> Result<Arc<KvMem>> {
        if options.dir.is_some() {
            return Err(Error::Unsupported("a data directory"));
        }
        let limits = Limits {
            key: 8192,
            value: 16 << 20,
            transaction: options.transaction_limit,
        };
        let shared = Arc::new(Shared::new(
            limits,
            options.memory_limit,
            options.lock_wait,
            options.clock,
        ));
        let engine = KvMem {
            shared: shared.clone(),
            counters: Counters::default(),
            next_space: Mutex::new(SpaceId::FIRST_FREE.0),
            stop: Arc::default(),
            threads: Mutex::default(),
        };
        let stop = engine.stop.clone();
        engine.spawn("reclaimer", move || reclaim_until(&shared, &stop))?;
        Ok(Arc::new(engine))
    }

    fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(work);
        let thread = thread.map_err(|e| Error::Io(format!("cannot start thread {name}: {e}")))?;
        self.threads.lock().push(thread);
        Ok(())
    }

    /// Prunes versions and keys now; a background thread does so all the time.
    pub fn reclaim(&self) {
        self.shared.reclaimer.pass(&self.shared);
    }

    /// Walks all structures and checks their invariants. For tests, and for
    /// stores at rest: beside running commits it may find what is in between.
    ///
    /// # Errors
    /// The first broken invariant, in words.
    pub fn verify(&self) -> std::result::Result<(), String> {
        let guard = crossbeam_epoch::pin();
        let mut weight = 0;
        for space in self.shared.spaces.iter() {
            let at = |e: String| format!("space {}: {e}", space.id.0);
            space.index.check().map_err(at)?;
            let mut broken = None;
            let all = std::ops::Bound::Unbounded;
            space.index.walk(all, all, false, usize::MAX, |record| {
                let latch = record.latch();
                match latch.lock.check().and_then(|()| record.check(&guard)) {
                    Ok((_, bytes)) => weight += RECORD_BYTES + record.key().len() + bytes,
                    Err(e) => broken = Some(format!("key {:?}: {e}", record.key())),
                }
                if latch.dead {
                    broken = Some(format!("key {:?} is dead and in the index", record.key()));
                }
                match broken {
                    Some(_) => ControlFlow::Break(()),
                    None => ControlFlow::Continue(()),
                }
            });
            if let Some(e) = broken {
                return Err(at(e));
            }
        }
        if weight != self.shared.live_bytes() {
            let counted = self.shared.live_bytes();
            return Err(format!("{weight} bytes are live, {counted} were counted"));
        }
        Ok(())
    }

    fn stop_threads(&self) {
        *self.stop.stopped.lock() = true;
        self.stop.wake.notify_all();
        for thread in self.threads.lock().drain(..) {
            // A panicked thread has told its story already.
            let _ = thread.join();
        }
    }
}

fn reclaim_until(shared: &Shared, stop: &Stop) {
    let mut stopped = stop.stopped.lock();
    while !*stopped {
        stop.wake.wait_for(&mut stopped, RECLAIM_TICK);
        parking_lot::MutexGuard::unlocked(&mut stopped, || shared.reclaimer.pass(shared));
    }
}

impl Drop for KvMem {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        self.stop_threads();
    }
}

impl Engine for KvMem {
    fn name(&self) -> &'static str {
        "embedded"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            serializable: true,
            range_validation: true,
            share_locks: true,
            nowait: true,
            skip_locked: true,
        }
    }

    fn limits(&self) -> Limits {
        self.shared.limits
    }

    fn begin(&self, options: TxnOptions) -> Result<Box<dyn Txn>> {
        self.shared.open()?;
        Ok(Box::new(MemTxn::new(self.shared.clone(), options)))
    }

    fn create_spaces(&self, specs: &[SpaceSpec]) -> Result<Vec<SpaceId>> {
        self.shared.open()?;
        let mut next = self.next_space.lock();
        if *next + specs.len() as u64 > Spaces::last_possible() {
            return Err(Error::Full(Full::Ids));
        }
        let mut ids = Vec::with_capacity(specs.len());
        for spec in specs {
            let id = SpaceId(*next);
            *next += 1;
            self.shared.spaces.add(id, spec.clone());
            ids.push(id);
        }
        Ok(ids)
    }

    fn drop_spaces(&self, spaces: &[SpaceId]) -> Result<()> {
        self.shared.open()?;
        for id in spaces {
            let Some(space) = self.shared.spaces.find(*id) else {
                continue;
            };
            let seq = self.shared.seq.lock();
            let first = space.set_dropped();
            drop(seq);
            if first {
                for record in space.index.clear() {
                    self.shared.forget_record(&record);
                }
            }
        }
        Ok(())
    }

    fn spaces(&self) -> Result<Vec<(SpaceId, SpaceSpec)>> {
        self.shared.open()?;
        let all = self.shared.spaces.iter();
        let own = all.filter(|space| space.id >= SpaceId::FIRST_FREE);
        Ok(own.map(|space| (space.id, space.spec.clone())).collect())
    }

    fn reserve_ids(&self, counter: CounterId, count: u64, at_least: u64) -> Result<Range<u64>> {
        self.shared.open()?;
        self.counters.reserve(counter, count, at_least)
    }

    fn return_ids(&self, counter: CounterId, unused: Range<u64>) -> Result<bool> {
        self.shared.open()?;
        Ok(self.counters.give_back(counter, unused))
    }

    fn next_id(&self, counter: CounterId) -> Result<u64> {
        self.shared.open()?;
        Ok(self.counters.next(counter))
    }

    fn set_next_id(&self, counter: CounterId, next: u64) -> Result<()> {
        self.shared.open()?;
        self.counters.set(counter, next);
        Ok(())
    }

    fn durable_mark(&self) -> Ticket {
        Ticket(self.shared.mark.load(Ordering::Acquire))
    }

    fn wait_durable(&self, ticket: Ticket) -> Result<()> {
        self.shared.wait_durable(ticket.0)
    }

    fn subscribe(&self, listener: Arc<dyn DurableListener>) {
        self.shared.listeners.write().push(listener);
    }

    fn stats(&self) -> Vec<Stat> {
        crate::stats::collect(&self.shared)
    }

    fn shutdown(&self) -> Result<()> {
        self.shared.closed.store(true, Ordering::Release);
        self.stop_threads();
        Ok(())
    }
}
