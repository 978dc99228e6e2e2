//! The contract's engine: connecting, and the functions of [`Engine`].

use crate::cluster::{Cluster, ClusterMetrics, EventCounter, Spaces};
use crate::io::{Io, WaitOutcome};
use crate::keys::Layout;
use crate::meta;
use crate::txn::{LONGEST_KEY, TikvTxn};
use porpoise_base::cancel::Cancel;
use porpoise_kv::coordination::{Coordination, Fence};
use porpoise_kv::{
    Capabilities, CommitPosition, CounterId, DurableListener, Engine, Error, Limits, Result,
    SpaceId, SpaceSpec, Stat, Txn, TxnOptions,
};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tikv_client::{Config, TransactionClient};

/// Maximum size of a value, far below TiKV's limit of 8 MiB for an entry of its Raft log.
const LARGEST_VALUE: usize = 1 << 20;
/// Maximum size of the keys and values of one transaction, of which several copies exist during its
/// commit.
const LARGEST_TRANSACTION: usize = 100 << 20;
/// Maximum size of a reply that the client accepts.
const LARGEST_MESSAGE: usize = 64 << 20;

/// Options for [`KvTikv::connect`].
#[derive(Clone, Debug)]
pub struct KvTikvOptions {
    /// Addresses of the placement drivers, `HOST:PORT`.
    pub endpoints: Vec<String>,
    /// Tenant number: servers with the same number share spaces, others do not see each other.
    pub tenant: u32,
    /// Time for which [`KvTikv::connect`] retries.
    pub connect_timeout: Duration,
    /// Timeout of one request. Must exceed the store's own wait for a lock
    /// (`wait-for-lock-timeout`, 1 s).
    pub request_timeout: Duration,
    /// Maximum time that a commit waits for locks of others on keys that it has not locked before.
    pub commit_lock_wait: Duration,
    /// Number of clients over which transactions are spread; each has one channel per store.
    pub connections: usize,
    /// Number of network threads.
    pub threads: usize,
}

impl Default for KvTikvOptions {
    fn default() -> KvTikvOptions {
        KvTikvOptions {
            endpoints: Vec::new(),
            tenant: 0,
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(6),
            commit_lock_wait: Duration::from_secs(5),
            connections: 2,
            threads: 2,
        }
    }
}

/// The engine on a TiKV cluster.
pub struct KvTikv {
    cluster: Arc<Cluster>,
}

async fn clients(options: &KvTikvOptions) -> tikv_client::Result<Vec<TransactionClient>> {
    let config = Config::default()
        .with_timeout(options.request_timeout)
        .with_grpc_max_decoding_message_size(LARGEST_MESSAGE);
    let mut clients = Vec::new();
    for _ in 0..options.connections.max(1) {
        let endpoints = options.endpoints.clone();
        clients.push(TransactionClient::new_with_config(endpoints, config.clone()).await?);
    }
    Ok(clients)
}

/// Retries until a connection succeeds. `last` gets the last error.
async fn connect_with_retries(
    options: &KvTikvOptions,
    last: &mut String,
) -> Vec<TransactionClient> {
    loop {
        match clients(options).await {
            Ok(clients) => return clients,
            Err(e) => *last = e.to_string(),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

impl KvTikv {
    /// Connects to a cluster, checks the version of the key layout (a new cluster gets
    /// [`crate::KEY_FORMAT_VERSION`]), and completes interrupted drops of spaces.
    ///
    /// Must not be called from a thread that runs tokio tasks.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if no placement driver or no store responds within `connect_timeout`,
    /// or if the cluster's key layout is newer than this program supports; the text names the
    /// endpoints or the version.
    pub fn connect(options: KvTikvOptions) -> Result<KvTikv> {
        let io = Io::new(options.threads)?;
        let deadline = Instant::now() + options.connect_timeout;
        let never = Cancel::new();
        let named = options.endpoints.join(", ");
        let mut last = String::from("no answer");
        let connecting = connect_with_retries(&options, &mut last);
        let clients = match io.wait(&never, Some(deadline), connecting) {
            WaitOutcome::Done(clients) => clients,
            WaitOutcome::Deadline | WaitOutcome::Cancelled(_) => {
                return Err(Error::Unavailable(format!(
                    "no placement driver of a TiKV cluster could be reached at {named} within \
                     {:?}: {last}",
                    options.connect_timeout
                )));
            }
        };
        let layout = Layout::new(options.tenant);
        let cluster = Arc::new(Cluster {
            io,
            clients,
            next_client: AtomicUsize::new(0),
            spaces: Spaces::new(&layout),
            layout,
            limits: Limits {
                key: LONGEST_KEY,
                value: LARGEST_VALUE,
                transaction: LARGEST_TRANSACTION,
            },
            commit_lock_wait: options.commit_lock_wait,
            metrics: ClusterMetrics::default(),
            abandoned: Arc::default(),
            meta_lock: tokio::sync::Mutex::new(()),
            closed: AtomicBool::new(false),
            fence: Fence::default(),
        });
        let client = cluster.client();
        let opening = meta::open(&client, &cluster.layout, options.tenant);
        // Extends the deadline: the placement driver has responded, so a store may, too.
        let deadline = deadline.max(Instant::now() + options.request_timeout);
        match cluster.io.wait(&never, Some(deadline), opening) {
            WaitOutcome::Done(result) => result?,
            WaitOutcome::Deadline | WaitOutcome::Cancelled(_) => {
                return Err(Error::Unavailable(format!(
                    "the placement driver at {named} answers, but no store of the cluster does"
                )));
            }
        }
        let layout = cluster.layout.clone();
        cluster.io.handle().spawn(async move {
            if let Err(e) = meta::sweep(&client, &layout).await {
                tracing::warn!("rows of dropped spaces remain until the next start: {e}");
            }
        });
        Ok(KvTikv { cluster })
    }

    fn open(&self) -> Result<&Arc<Cluster>> {
        if self.cluster.is_closed() {
            return Err(Error::Unavailable("the engine has been shut down".into()));
        }
        Ok(&self.cluster)
    }
}

impl Engine for KvTikv {
    fn name(&self) -> &'static str {
        "tikv"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            serializable: false,
            range_validation: false,
            share_locks: false,
            nowait: false,
            skip_locked: false,
            prepare: false,
        }
    }

    fn limits(&self) -> Limits {
        self.cluster.limits
    }

    fn begin(&self, options: TxnOptions) -> Result<Box<dyn Txn>> {
        Ok(Box::new(TikvTxn::new(self.open()?.clone(), options)?))
    }

    fn create_spaces(&self, specs: &[SpaceSpec]) -> Result<Vec<SpaceId>> {
        self.open()?.create_spaces(specs)
    }

    fn drop_spaces(&self, spaces: &[SpaceId]) -> Result<()> {
        self.open()?.drop_spaces(spaces)
    }

    fn spaces(&self) -> Result<Vec<(SpaceId, SpaceSpec)>> {
        self.open()?.all_spaces()
    }

    fn reserve_ids(&self, counter: CounterId, count: u64, at_least: u64) -> Result<Range<u64>> {
        self.open()?.reserve_ids(counter, count, at_least)
    }

    fn return_ids(&self, counter: CounterId, unused: Range<u64>) -> Result<bool> {
        self.open()?.return_ids(counter, unused)
    }

    fn next_id(&self, counter: CounterId) -> Result<u64> {
        self.open()?.next_id(counter)
    }

    fn set_next_id(&self, counter: CounterId, next: u64) -> Result<()> {
        self.open()?.set_next_id(counter, next)
    }

    fn durable_position(&self) -> CommitPosition {
        CommitPosition(u64::MAX)
    }

    fn wait_durable(&self, _position: CommitPosition) -> Result<()> {
        Ok(())
    }

    fn subscribe(&self, _listener: Arc<dyn DurableListener>) {
        // No notification is needed: every commit is durable when acknowledged.
    }

    fn begin_unfenced(&self) -> Result<Box<dyn Txn>> {
        let cluster = self.open()?.clone();
        Ok(Box::new(TikvTxn::unfenced(cluster, TxnOptions::default())?))
    }

    fn coordination(&self) -> Option<&dyn Coordination> {
        Some(&*self.cluster)
    }

    fn stats(&self) -> Vec<Stat> {
        let m = &self.cluster.metrics;
        let counter = |name, help, meter: &EventCounter| Stat {
            name,
            help,
            counter: true,
            value: meter.get(),
        };
        vec![
            counter("commits_total", "Transactions committed.", &m.commits),
            counter(
                "conflicts_total",
                "Commits refused because a row was newer than the snapshot.",
                &m.conflicts,
            ),
            counter(
                "unknown_total",
                "Commits whose outcome is unknown.",
                &m.unknown,
            ),
            counter(
                "deadlocks_total",
                "Transactions rolled back because of a deadlock.",
                &m.deadlocks,
            ),
            counter(
                "lock_timeouts_total",
                "Lock waits that timed out.",
                &m.lock_timeouts,
            ),
            counter(
                "lock_retries_total",
                "Lock requests that were repeated.",
                &m.lock_retries,
            ),
            counter(
                "heartbeats_failed_total",
                "Transactions ended because their locks may have expired.",
                &m.heartbeats_failed,
            ),
            counter(
                "keys_read_total",
                "Keys looked up in the cluster.",
                &m.keys_read,
            ),
        ]
    }

    fn shutdown(&self) -> Result<()> {
        self.cluster.closed.store(true, Ordering::Release);
        Ok(())
    }
}
