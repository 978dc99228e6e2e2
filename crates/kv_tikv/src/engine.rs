//! The contract's engine: connecting, and the functions of [`Engine`].

use crate::cluster::{Cluster, ClusterMetrics, EventCounter, Spaces};
use crate::fault::read_error;
use crate::gc::Collector;
use crate::guards::Guards;
use crate::keys::Layout;
use crate::meta::{self, LeaseOfRecord, uncancelled};
use crate::txn::{LONGEST_KEY, TikvTxn};
use parking_lot::Mutex;
use porpoise_kv::coordination::{Coordination, Fence};
use porpoise_kv::{
    Capabilities, CommitPosition, CounterId, DurableListener, Engine, Error, Limits, Result,
    SpaceId, SpaceSpec, Stat, Txn, TxnOptions,
};
use porpoise_tikv_client::{
    Client, ClientOptions, Error as ClientError, RequestCounts, RequestKind, TlsOptions,
};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Maximum size of a value, far below TiKV's limit of 8 MiB for an entry of its Raft log.
const LARGEST_VALUE: usize = 1 << 20;
/// Maximum size of the keys and values of one transaction, of which several copies exist during its
/// commit.
const LARGEST_TRANSACTION: usize = 100 << 20;

/// Options for [`KvTikv::connect`].
#[derive(Clone, Debug)]
pub struct KvTikvOptions {
    /// Addresses of the placement drivers, `HOST:PORT`.
    pub endpoints: Vec<String>,
    /// Tenant number: servers with the same number share spaces, others do not see each other.
    pub tenant: u32,
    /// Time for which [`KvTikv::connect`] retries.
    pub connect_timeout: Duration,
    /// Timeout of one request.
    pub request_timeout: Duration,
    /// Time after which a call fails if the cluster does not serve it: no leader, no connection, a busy store.
    pub retry_timeout: Duration,
    /// Time to live of locks without heartbeats: how long a server that dies blocks others.
    pub lock_ttl: Duration,
    /// Maximum time that a commit waits for locks of others on keys that it has not locked before.
    pub commit_lock_wait: Duration,
    /// Number of network threads.
    pub threads: usize,
    /// TLS of all connections; `None` for connections without TLS.
    pub tls: Option<TlsOptions>,
    /// Name of the installation. A tenant with a name is refused to servers with another one, or none.
    pub name: Option<String>,
    /// Time for which old versions are retained; `None` turns garbage collection off on this server.
    pub retention: Option<Duration>,
    /// Reads the lease in the record of a server, whose bytes belong to the layers above. An older key layout is upgraded
    /// only while no server has a lease; `None` upgrades always.
    pub lease_of_record: Option<LeaseOfRecord>,
}

impl Default for KvTikvOptions {
    fn default() -> KvTikvOptions {
        KvTikvOptions {
            endpoints: Vec::new(),
            tenant: 0,
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(6),
            retry_timeout: Duration::from_secs(30),
            lock_ttl: Duration::from_secs(20),
            commit_lock_wait: Duration::from_secs(5),
            threads: 2,
            tls: None,
            name: None,
            retention: None,
            lease_of_record: None,
        }
    }
}

/// The engine on a TiKV cluster.
pub struct KvTikv {
    cluster: Arc<Cluster>,
    /// Stopped by a shutdown.
    collector: Mutex<Option<Collector>>,
}

impl KvTikv {
    /// Connects to a cluster, checks the version of the key layout (a new cluster gets
    /// [`crate::KEY_FORMAT_VERSION`]), and completes interrupted drops of spaces.
    ///
    /// Must not be called from a thread that runs tokio tasks.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if no placement driver or no store responds within `connect_timeout`, if a
    /// store is older than TiKV 6.5, if the cluster's key layout is newer than this program supports, or older while
    /// servers use it; the text names the endpoints, the version or the server.
    pub fn connect(options: KvTikvOptions) -> Result<KvTikv> {
        let named = options.endpoints.join(", ");
        let connected = Client::connect(ClientOptions {
            endpoints: options.endpoints.clone(),
            connect_time: options.connect_timeout,
            request_time: options.request_timeout,
            retry_time: options.retry_timeout,
            lock_ttl: options.lock_ttl,
            tls: options.tls.clone(),
            threads: options.threads,
        });
        let client = connected.map_err(|e| match e {
            ClientError::Refused(why) => Error::Unavailable(why),
            e => Error::Unavailable(format!(
                "no placement driver of a TiKV cluster could be reached at {named} within {:?}: {e}",
                options.connect_timeout
            )),
        })?;
        let layout = Layout::new(options.tenant);
        let identity = uncancelled(|call| client.timestamp(call)).map_err(read_error)?;
        let cluster = Arc::new(Cluster {
            client: client.clone(),
            spaces: Spaces::new(&layout),
            layout: layout.clone(),
            limits: Limits {
                key: LONGEST_KEY,
                value: LARGEST_VALUE,
                transaction: LARGEST_TRANSACTION,
            },
            commit_lock_wait: options.commit_lock_wait,
            metrics: ClusterMetrics::default(),
            meta_lock: Mutex::new(()),
            closed: AtomicBool::new(false),
            identity,
            collects: options.retention.is_some(),
            snapshots: Arc::default(),
            guards: Arc::new(Guards::new(identity)),
            fence: Fence::default(),
            newest_commit: AtomicU64::new(0),
        });
        meta::open(&cluster, options.tenant, options.lease_of_record)?;
        meta::check_name(&client, &layout, options.tenant, options.name.as_deref())?;
        let collector = options.retention;
        let collector = collector.map(|retention| Collector::start(&cluster, retention));
        if collector.is_none() {
            cluster.client.in_background(move || {
                if let Err(e) = meta::sweep(&client, &layout) {
                    tracing::warn!("rows of dropped spaces remain until the next start: {e}");
                }
            });
        }
        Ok(KvTikv {
            cluster,
            collector: Mutex::new(collector),
        })
    }

    /// Counts of requests since the engine connected.
    pub fn request_counts(&self) -> RequestCounts {
        self.cluster.client.counts()
    }

    /// Takes key-share locks by guards in all spaces, for tests of the contract.
    #[doc(hidden)]
    pub fn treat_all_spaces_as_referenced(&self) {
        self.cluster.guards.set_all_referenced();
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
            nowait: true,
            skip_locked: false,
            prepare: false,
            annotations: false,
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

    fn set_referenced_spaces(&self, spaces: HashSet<SpaceId>) {
        self.cluster.guards.set_referenced(spaces);
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
        let mut all = vec![
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
                "heartbeats_failed_total",
                "Transactions ended because their locks may have expired.",
                &m.heartbeats_failed,
            ),
            counter(
                "keys_read_total",
                "Keys looked up in the cluster.",
                &m.keys_read,
            ),
        ];
        all.extend(gc_stats(&self.cluster));
        all.extend(request_stats(&self.cluster.client));
        all
    }

    fn shutdown(&self) -> Result<()> {
        *self.collector.lock() = None;
        self.cluster.closed.store(true, Ordering::Release);
        Ok(())
    }
}

/// Name, explanation and kind of the counters of requests to stores.
const REQUESTS: [(&str, &str, RequestKind); 8] = [
    ("requests_read_total", "Reads of keys.", RequestKind::Read),
    ("requests_scan_total", "Pages of scans.", RequestKind::Scan),
    ("requests_lock_total", "Lock requests.", RequestKind::Lock),
    (
        "requests_prewrite_total",
        "Prewrites, including those that commit.",
        RequestKind::Prewrite,
    ),
    (
        "requests_commit_total",
        "Commits after a prewrite.",
        RequestKind::Commit,
    ),
    (
        "requests_rollback_total",
        "Rollbacks.",
        RequestKind::Rollback,
    ),
    (
        "requests_resolve_total",
        "Checks and removals of locks of other transactions.",
        RequestKind::Resolve,
    ),
    (
        "requests_heartbeat_total",
        "Heartbeats.",
        RequestKind::HeartBeat,
    ),
];

/// Counters of garbage collection.
fn gc_stats(cluster: &Cluster) -> Vec<Stat> {
    let m = &cluster.metrics;
    let stat = |name, help, counter, value| Stat {
        name,
        help,
        counter,
        value,
    };
    let lost = "Transactions ended because versions that they need may have been collected.";
    let runs = "Garbage collections by this server.";
    let failures = "Attempts to register for garbage collection or to collect that failed.";
    let destroyed = "Dropped spaces whose keys this server destroyed.";
    let safe_point = "Safe point of the last collection by this server, milliseconds since 1970.";
    let open = "Timestamps at which open transactions read.";
    vec![
        stat("snapshots_lost_total", lost, true, m.snapshots_lost.get()),
        stat("gc_runs_total", runs, true, m.gc_runs.get()),
        stat("gc_failures_total", failures, true, m.gc_failures.get()),
        stat(
            "spaces_destroyed_total",
            destroyed,
            true,
            m.spaces_destroyed.get(),
        ),
        stat(
            "gc_safe_point_ms",
            safe_point,
            false,
            m.safe_point.load(Ordering::Relaxed),
        ),
        stat("snapshots", open, false, cluster.snapshots.len() as u64),
    ]
}

/// Counters of requests to the cluster.
fn request_stats(client: &Client) -> Vec<Stat> {
    let counts = client.counts();
    let counter = |name, help, value| Stat {
        name,
        help,
        counter: true,
        value,
    };
    let mut all: Vec<Stat> = REQUESTS
        .iter()
        .map(|(name, help, kind)| counter(name, help, counts.of(*kind)))
        .collect();
    let rounds = "Steps that statements waited for; requests sent at once are one.";
    let repeated = "Requests repeated because of a region or a connection.";
    let removed = "Locks of other transactions removed, because those had ended or expired.";
    let looked_up = "Regions read from the placement driver.";
    all.extend([
        counter(
            "timestamps_total",
            "Timestamps requested.",
            counts.timestamps,
        ),
        counter("request_rounds_total", rounds, counts.rounds),
        counter("requests_repeated_total", repeated, counts.retries),
        counter("region_lookups_total", looked_up, counts.region_lookups),
        counter("locks_removed_total", removed, counts.locks_removed),
        Stat {
            name: "regions",
            help: "Regions known.",
            counter: false,
            value: client.known_regions() as u64,
        },
    ]);
    all
}
