//! Garbage collection: old versions of rows, and the keys of dropped spaces.
//!
//! Stores drop the versions that are not visible at the cluster's *safe point* or later. TiKV does not move the safe point by
//! itself. In clusters that TiDB uses, TiDB moves it; in others one server of Porpoise does (*the collector*):
//!
//! ```text
//! every server, each tenth of the retention time   registers the oldest timestamp at which it reads
//! the collector, each half of the retention time
//!   1. requests now - retention         -> the least of that and of the timestamps that all services registered
//!   2. resolves the locks of all transactions that began before it   (such a transaction may be committed; the record
//!                                         of its primary, which says so, may be collected afterwards)
//!   3. moves the safe point there
//!   4. destroys the keys of spaces that were dropped before it
//! ```
//!
//! The collector is the server with the entry in the metadata; when the entry has expired, any server may take over. Two collectors
//! at once do no harm: the safe point only grows, and each resolves the locks before it moves it.
//!
//! A cluster with keys outside of Porpoise's range is *shared*: the program that owns them moves the safe point, and
//! respects the timestamps that the servers have registered.
//!
//! Keys of dropped spaces are destroyed in each store directly (`UnsafeDestroyRange`), with all their versions, locks and
//! transaction records. That is safe for a space whose drop is visible at the
//! safe point: no transaction that could write there is left, and the locks of all older transactions are resolved everywhere.
//!
//! Invariants:
//! 1. The safe point is never above the oldest timestamp of a server whose registration has not expired.
//! 2. A server whose registration came too late refuses its older transactions (`Snapshots::is_lost`).
//!
//! Rejected: a safe point from the leases in the servers' records (TiDB, BR and TiCDC register with the placement driver, and must be
//! respected anyway); deleting the keys of dropped spaces by transactions (a version more for each row).

use crate::cluster::Cluster;
use crate::fault::read_error;
use crate::keys::{Layout, frame, unframe};
use crate::meta::{change, put, uncancelled, value_at};
use parking_lot::{Condvar, Mutex};
use porpoise_kv::{Error, Result};
use porpoise_tikv_client::{PageRequest, first_timestamp_of, physical_ms};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Least time for which a registration holds; the protocol counts seconds.
const LEAST_HOLD: Duration = Duration::from_secs(5);
/// Age at which a transaction's snapshot is ended, so that a forgotten transaction does not fill the cluster.
const OLDEST_SNAPSHOT: Duration = Duration::from_secs(24 * 3600);
/// Above all keys.
const END_OF_KEYS: [u8; 32] = [0xff; 32];

/// Stops the thread of garbage collection.
#[derive(Default)]
struct Signal {
    is_stopping: Mutex<bool>,
    wake: Condvar,
}

/// Handle of the thread that registers this server, and collects garbage while this server is the collector. Dropping it ends the thread.
pub(crate) struct Collector(Arc<Signal>);

impl Drop for Collector {
    fn drop(&mut self) {
        *self.0.is_stopping.lock() = true;
        self.0.wake.notify_all();
    }
}

impl Collector {
    /// Starts the thread. Versions are retained for `retention`.
    pub(crate) fn start(cluster: &Arc<Cluster>, retention: Duration) -> Collector {
        let signal = Arc::new(Signal::default());
        let run = Run {
            cluster: Arc::downgrade(cluster),
            retention,
            id: cluster.identity,
            collected: None,
        };
        let observed = signal.clone();
        cluster
            .client
            .in_background(move || run.until_stopped(&observed));
        Collector(signal)
    }
}

/// State of the thread.
struct Run {
    cluster: Weak<Cluster>,
    retention: Duration,
    /// Number of this server, unique in the cluster.
    id: u64,
    /// Time of the last collection.
    collected: Option<Instant>,
}

impl Run {
    fn until_stopped(mut self, signal: &Signal) {
        let pause = (self.retention / 10).max(Duration::from_millis(50));
        loop {
            let Some(cluster) = self.cluster.upgrade().filter(|c| !c.is_closed()) else {
                return;
            };
            if let Err(e) = self.step(&cluster) {
                cluster.metrics.gc_failures.add(1);
                tracing::warn!("garbage collection failed and will be retried: {e}");
            }
            drop(cluster);
            let mut is_stopping = signal.is_stopping.lock();
            if !*is_stopping {
                signal.wake.wait_for(&mut is_stopping, pause);
            }
            if *is_stopping {
                drop(is_stopping);
                self.withdraw();
                return;
            }
        }
    }

    fn service(&self, layout: &Layout) -> String {
        format!("porpoise-{}-{}", layout.tenant(), self.id)
    }

    /// Ends the registration of a server that stops.
    fn withdraw(&self) {
        if let Some(cluster) = self.cluster.upgrade() {
            let service = self.service(&cluster.layout);
            let client = &cluster.client;
            let ended =
                uncancelled(|call| client.register_service(call, &service, Duration::ZERO, 0));
            if let Err(e) = ended {
                tracing::debug!(
                    "the registration for garbage collection could not be withdrawn, and expires: {e}"
                );
            }
        }
    }

    fn step(&mut self, cluster: &Cluster) -> Result<()> {
        let client = &cluster.client;
        let now = uncancelled(|call| client.timestamp(call)).map_err(read_error)?;
        let ago = |age: Duration| {
            let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
            first_timestamp_of(physical_ms(now).saturating_sub(age))
        };
        let wanted = ago(self.retention);
        let oldest = cluster.snapshots.oldest().unwrap_or(u64::MAX);
        let needed = oldest
            .saturating_sub(1)
            .clamp(ago(OLDEST_SNAPSHOT).min(wanted), wanted);
        let service = self.service(&cluster.layout);
        let hold = self.retention.max(LEAST_HOLD);
        let least = uncancelled(|call| client.register_service(call, &service, hold, needed))
            .map_err(read_error)?;
        // The placement driver may have allowed a safe point above this server's oldest timestamp before it registered.
        cluster.snapshots.lose_below(least.max(needed));
        let is_due = |at: Instant| at.elapsed() >= self.retention / 2;
        if self.collected.is_none_or(is_due) {
            self.collect(cluster, now, wanted)?;
            self.collected = Some(Instant::now());
        }
        Ok(())
    }

    /// Moves the safe point, unless the cluster is shared, and destroys dropped spaces, if this server is the collector.
    fn collect(&self, cluster: &Cluster, now: u64, wanted: u64) -> Result<()> {
        if !self.take_turn(cluster, now)? {
            return Ok(());
        }
        let client = &cluster.client;
        let safe_point = if is_shared(cluster, now)? {
            uncancelled(|call| client.safe_point(call)).map_err(read_error)?
        } else {
            let allowed =
                uncancelled(|call| client.announce_safe_point(call, wanted)).map_err(read_error)?;
            let removed = uncancelled(|call| client.remove_locks(call, &[], &END_OF_KEYS, allowed));
            removed.map_err(read_error)?;
            let moved = uncancelled(|call| client.move_safe_point(call, allowed));
            moved.map_err(read_error)?
        };
        let gauge = &cluster.metrics.safe_point;
        gauge.store(physical_ms(safe_point), Ordering::Relaxed);
        cluster.metrics.gc_runs.add(1);
        if safe_point == 0 {
            return Ok(());
        }
        let destroyed = cluster.destroy_dropped(safe_point)?;
        cluster.metrics.spaces_destroyed.add(destroyed);
        Ok(())
    }

    /// Becomes or remains the collector, unless another server is.
    fn take_turn(&self, cluster: &Cluster, now: u64) -> Result<bool> {
        let key = cluster.layout.collector();
        let now = physical_ms(now);
        let term = u64::try_from(self.retention.as_millis()).unwrap_or(u64::MAX);
        change(&cluster.client, vec![key.clone()], |values| {
            let entry = value_at(values, 0).map(read_entry).transpose()?;
            if entry.is_some_and(|(server, until)| server != self.id && until >= now) {
                return Ok((Vec::new(), false));
            }
            let entry = [self.id, now.saturating_add(term)].map(u64::to_be_bytes);
            Ok((vec![put(key.clone(), frame(&entry.concat()))], true))
        })
    }
}

/// The collector's number, and the time at which its turn ends.
fn read_entry(value: &[u8]) -> Result<(u64, u64)> {
    let bytes = unframe(value)?;
    let numbers = bytes.split_first_chunk::<8>().and_then(|(server, rest)| {
        let until: [u8; 8] = rest.try_into().ok()?;
        Some((u64::from_be_bytes(*server), u64::from_be_bytes(until)))
    });
    numbers.ok_or_else(|| Error::Corrupt("a malformed entry of the garbage collector".into()))
}

/// Whether the cluster has keys of another program.
fn is_shared(cluster: &Cluster, now: u64) -> Result<bool> {
    let (first, last) = Layout::all_tenants();
    for (start, end) in [(Vec::new(), first), (last, END_OF_KEYS.to_vec())] {
        let page = PageRequest {
            start,
            end,
            limit: 1,
            reverse: false,
            keys_only: true,
        };
        let found = uncancelled(|call| cluster.client.page(call, now, &page));
        if !found.map_err(read_error)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}
