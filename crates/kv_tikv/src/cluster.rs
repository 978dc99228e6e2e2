//! The connection to a cluster that the engine and its transactions share.

use crate::guards::Guards;
use crate::keys::Layout;
use crate::snapshots::Snapshots;
use parking_lot::{Mutex, RwLock};
use porpoise_kv::coordination::Fence;
use porpoise_kv::{Error, Limits, Result, SpaceId, SpaceSpec};
use porpoise_tikv_client::Client;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// An event counter.
#[derive(Default)]
pub(crate) struct EventCounter(AtomicU64);

impl EventCounter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The engine's event counters.
#[derive(Default)]
pub(crate) struct ClusterMetrics {
    pub(crate) commits: EventCounter,
    pub(crate) conflicts: EventCounter,
    pub(crate) unknown: EventCounter,
    pub(crate) deadlocks: EventCounter,
    pub(crate) lock_timeouts: EventCounter,
    pub(crate) heartbeats_failed: EventCounter,
    pub(crate) keys_read: EventCounter,
    pub(crate) snapshots_lost: EventCounter,
    pub(crate) gc_runs: EventCounter,
    pub(crate) gc_failures: EventCounter,
    pub(crate) spaces_destroyed: EventCounter,
    /// The safe point that this server has last read, in milliseconds; only the collector reads it.
    pub(crate) safe_point: AtomicU64,
}

/// The spaces that this server knows, with the prefixes of their keys.
pub(crate) struct Spaces(RwLock<HashMap<SpaceId, Arc<[u8]>>>);

impl Spaces {
    pub(crate) fn new(layout: &Layout) -> Spaces {
        let catalog = (0..SpaceId::FIRST_FREE.0).map(|id| {
            let prefix = layout.rows(SpaceId(id), &SpaceSpec::default());
            (SpaceId(id), Arc::from(prefix))
        });
        Spaces(RwLock::new(catalog.collect()))
    }

    pub(crate) fn get(&self, space: SpaceId) -> Option<Arc<[u8]>> {
        self.0.read().get(&space).cloned()
    }

    pub(crate) fn insert(&self, space: SpaceId, spec: SpaceSpec, layout: &Layout) {
        let prefix = Arc::from(layout.rows(space, &spec));
        self.0.write().insert(space, prefix);
    }

    pub(crate) fn forget(&self, space: SpaceId) {
        self.0.write().remove(&space);
    }

    /// Checks that a space that was written to still exists.
    pub(crate) fn check(&self, space: SpaceId) -> Result<()> {
        if self.0.read().contains_key(&space) {
            Ok(())
        } else {
            Err(Error::NoSuchSpace(space))
        }
    }
}

/// A connected cluster.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) layout: Layout,
    pub(crate) spaces: Spaces,
    pub(crate) limits: Limits,
    pub(crate) commit_lock_wait: Duration,
    pub(crate) metrics: ClusterMetrics,
    pub(crate) meta_lock: Mutex<()>,
    pub(crate) closed: AtomicBool,
    /// Number of this connection, unique in the cluster.
    pub(crate) identity: u64,
    /// Whether garbage is collected; if so, the keys of dropped spaces are left to the collector.
    pub(crate) collects: bool,
    pub(crate) snapshots: Arc<Snapshots>,
    /// Key-share locks.
    pub(crate) guards: Arc<Guards>,
    /// This server's lease.
    pub(crate) fence: Fence,
    /// The highest timestamp of a commit that this server has reported.
    pub(crate) newest_commit: AtomicU64,
}

impl Cluster {
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Records a commit before it is reported.
    pub(crate) fn note_commit(&self, commit_ts: u64) {
        self.newest_commit.fetch_max(commit_ts, Ordering::AcqRel);
    }

    /// A timestamp to read at that costs no request, and is at most `staleness` old: the newest that the placement driver has
    /// given this server; `None` if it is older, or if the server has reported a commit after it. The definitions in use were
    /// read at an earlier timestamp.
    ///
    /// An estimate of the present time would be wrong: the placement driver might give a later commit a lower timestamp.
    pub(crate) fn recent_snapshot(&self, staleness: Duration) -> Option<u64> {
        let newest_commit = self.newest_commit.load(Ordering::Acquire);
        let ts = self.client.recent_timestamp(staleness)?;
        (ts >= newest_commit && !self.snapshots.is_lost(ts)).then_some(ts)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}
