//! The client: connecting, and calls that belong to no transaction.

use crate::backoff::Backoff;
use crate::call::{Call, Threads};
use crate::counts::{Counters, RequestCounts};
use crate::error::{Error, Result};
use crate::pd::Pd;
use crate::reads::{FIRST_VALUE_BYTES, PageRequest, Pairs};
use crate::region::RegionCache;
use crate::router::Router;
use crate::shared::{ClientOptions, Shared};
use crate::store::Stores;
use crate::txn::Transaction;
use crate::version;
use porpoise_base::cancel::Cancel;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// Name of the service that collects versions; every collector of a cluster uses it.
const COLLECTOR: &str = "gc_worker";

/// A client of a cluster. Clones share connections.
///
/// Calls block the calling thread; none may be made from a thread that runs tokio tasks.
#[derive(Clone)]
pub struct Client(Arc<Shared>);

/// A read that runs while its caller does other work.
pub struct PendingGet {
    client: Client,
    task: JoinHandle<Result<HashMap<Vec<u8>, Vec<u8>>>>,
}

impl PendingGet {
    /// Waits for the values.
    ///
    /// # Errors
    /// As those of [`Client::get`].
    pub fn wait(mut self, call: Call<'_>) -> Result<HashMap<Vec<u8>, Vec<u8>>> {
        let threads = self.client.clone();
        let done = async {
            let joined = (&mut self.task).await;
            joined.map_err(|e| Error::Unavailable(format!("the TiKV client failed: {e}")))?
        };
        threads.threads().wait(call, done)
    }
}

impl Drop for PendingGet {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Client {
    /// Connects: finds the leader of the placement drivers, checks the versions of all stores, and takes a
    /// timestamp.
    ///
    /// # Errors
    /// [`crate::Error::Unavailable`] if none answers within `connect_time`; [`crate::Error::Refused`] if a store is too old.
    pub fn connect(options: ClientOptions) -> Result<Client> {
        let threads = Threads::start(options.threads)?;
        let pd = Pd::new(&options.endpoints, options.tls.clone(), threads.handle());
        let router = Arc::new(Router {
            pd,
            regions: RegionCache::default(),
            stores: Stores::new(options.tls.clone()),
            counters: Counters::default(),
            request_time: options.request_time,
            value_bytes: AtomicUsize::new(FIRST_VALUE_BYTES),
            releasing: AtomicUsize::new(0),
        });
        let client = Client(Arc::new(Shared {
            options,
            router,
            threads,
        }));
        let never = Cancel::new();
        let call = Call {
            cancel: &never,
            deadline: Some(Instant::now() + 2 * client.options().connect_time),
        };
        let deadline = Instant::now() + client.options().connect_time;
        let router = client.router();
        client.threads().wait(call, async {
            let mut b = Backoff::until(deadline);
            router.pd.connect(&b).await?;
            for store in router.pd.stores(&mut b).await? {
                version::check(&store)?;
            }
            router.pd.timestamp(&b).await
        })?;
        Ok(client)
    }

    fn options(&self) -> &ClientOptions {
        &self.0.options
    }

    fn router(&self) -> &Arc<Router> {
        &self.0.router
    }

    fn threads(&self) -> &Threads {
        &self.0.threads
    }

    fn backoff(&self, call: Call<'_>) -> Backoff {
        let default = Instant::now() + self.options().retry_time;
        Backoff::until(call.deadline.unwrap_or(default))
    }

    /// A new timestamp: every later commit has a higher one, every commit that was reported a lower one.
    ///
    /// # Errors
    /// No placement driver answers in time.
    pub fn timestamp(&self, call: Call<'_>) -> Result<u64> {
        let router = self.router();
        router.counters.timestamps.fetch_add(1, Ordering::Relaxed);
        let b = self.backoff(call);
        self.threads().wait(call, router.pd.timestamp(&b))
    }

    /// The newest timestamp that this client was given, if it was requested at most `age` ago. It costs no request. Commits
    /// that were reported since may have higher timestamps.
    pub fn recent_timestamp(&self, age: Duration) -> Option<u64> {
        self.router().pd.recent(age)
    }

    /// The values of those of `keys` that exist at `ts`. `u64::MAX` reads the newest versions, each at the moment of its
    /// reading.
    ///
    /// # Errors
    /// No store answers in time.
    pub fn get(
        &self,
        call: Call<'_>,
        ts: u64,
        keys: Vec<Vec<u8>>,
    ) -> Result<HashMap<Vec<u8>, Vec<u8>>> {
        let mut b = self.backoff(call);
        self.threads()
            .wait(call, self.router().get_many(ts, keys, &mut b))
    }

    /// Begins [`Client::get`]; other calls may be made until its values are waited for.
    pub fn begin_get(&self, ts: u64, keys: Vec<Vec<u8>>) -> PendingGet {
        let router = self.router().clone();
        let mut b = Backoff::until(Instant::now() + self.options().retry_time).overlapped();
        let task = async move { router.get_many(ts, keys, &mut b).await };
        PendingGet {
            client: self.clone(),
            task: self.threads().handle().spawn(task),
        }
    }

    /// At most `limit` pairs of a range at `ts`. Fewer are returned only at the end of the range.
    ///
    /// # Errors
    /// No store answers in time.
    pub fn page(&self, call: Call<'_>, ts: u64, page: &PageRequest) -> Result<Pairs> {
        let mut b = self.backoff(call);
        self.threads()
            .wait(call, self.router().page(ts, page, &mut b))
    }

    /// Average size of the values read lately; an estimate before the first read.
    pub fn average_value(&self) -> usize {
        self.router().value_bytes.load(Ordering::Relaxed)
    }

    /// Removes all locks in `start..end` that transactions up to `max_ts` hold, after their transactions are decided: from
    /// then on, none of them changes the range.
    ///
    /// # Errors
    /// [`crate::Error::Locked`] if a transaction lives on at the deadline.
    pub fn remove_locks(
        &self,
        call: Call<'_>,
        start: &[u8],
        end: &[u8],
        max_ts: u64,
    ) -> Result<()> {
        let mut b = self.backoff(call);
        let removed = self
            .router()
            .remove_locks_of_range(start.to_vec(), end, max_ts, &mut b);
        self.threads().wait(call, removed)
    }

    /// Registers the timestamp below which this service needs no versions, for `ttl`; zero ends the
    /// registration. Returns a timestamp below which versions may be or have been collected.
    ///
    /// # Errors
    /// No placement driver answers in time.
    pub fn register_service(
        &self,
        call: Call<'_>,
        service: &str,
        ttl: Duration,
        safe_point: u64,
    ) -> Result<u64> {
        // The protocol counts seconds: a fraction would be zero.
        let seconds = i64::try_from(ttl.as_secs_f64().ceil() as u64).unwrap_or(i64::MAX);
        let mut b = self.backoff(call);
        let pd = &self.router().pd;
        let registered = pd.register_service(service, seconds, safe_point, &mut b);
        self.threads().wait(call, registered)
    }

    /// Announces a collection of versions below `wanted`. Returns the timestamp up to which
    /// all services allow it; from then on no service can register a lower one.
    ///
    /// # Errors
    /// No placement driver answers in time.
    pub fn announce_safe_point(&self, call: Call<'_>, wanted: u64) -> Result<u64> {
        let mut b = self.backoff(call);
        let pd = &self.router().pd;
        let least = pd.register_service(COLLECTOR, i64::MAX, wanted, &mut b);
        Ok(self.threads().wait(call, least)?.min(wanted))
    }

    /// Moves the safe point: stores may remove versions that no snapshot at or after it reads. All locks of older
    /// transactions must be removed before.
    ///
    /// # Errors
    /// No placement driver answers in time.
    pub fn move_safe_point(&self, call: Call<'_>, safe_point: u64) -> Result<u64> {
        let mut b = self.backoff(call);
        let moved = self.router().pd.move_safe_point(safe_point, &mut b);
        self.threads().wait(call, moved)
    }

    /// The safe point in force.
    ///
    /// # Errors
    /// No placement driver answers in time.
    pub fn safe_point(&self, call: Call<'_>) -> Result<u64> {
        let mut b = self.backoff(call);
        let found = self.router().pd.safe_point(&mut b);
        self.threads().wait(call, found)
    }

    /// Destroys all versions, locks and records of `start..end` in every store. No transaction may have
    /// written there above the safe point.
    ///
    /// # Errors
    /// A store has failed; the call may be repeated.
    pub fn destroy_range(&self, call: Call<'_>, start: &[u8], end: &[u8]) -> Result<()> {
        let mut b = self.backoff(call);
        let destroyed = self.router().destroy_range(start, end, &mut b);
        self.threads().wait(call, destroyed)
    }

    /// Runs calls on a thread of the client. They end with the client.
    pub fn in_background(&self, work: impl FnOnce() + Send + 'static) {
        drop(self.threads().handle().spawn_blocking(work));
    }

    /// Begins a transaction at a timestamp.
    pub fn begin(&self, start_ts: u64) -> Transaction {
        Transaction::new(self.0.clone(), start_ts)
    }

    /// Counts of requests since the client connected.
    pub fn counts(&self) -> RequestCounts {
        self.router().counters.read()
    }

    /// Number of regions known.
    pub fn known_regions(&self) -> usize {
        self.router().regions.len()
    }
}
