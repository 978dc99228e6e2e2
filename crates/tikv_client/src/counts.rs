//! Counts of requests, so that tests can hold statements to a number of them.

use crate::proto::Command;
use std::sync::atomic::{AtomicU64, Ordering};

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
pub enum RequestKind {
    /// Get and batch get.
    Read,
    /// A page of a scan.
    Scan,
    /// Pessimistic lock.
    Lock,
    /// Prewrite, also one that commits.
    Prewrite,
    /// Commit.
    Commit,
    /// Rollback, also of pessimistic locks.
    Rollback,
    /// Status checks and removal of other transactions' locks.
    Resolve,
    /// Heartbeat.
    HeartBeat,
}

const KINDS: [RequestKind; 8] = [
    RequestKind::Read,
    RequestKind::Scan,
    RequestKind::Lock,
    RequestKind::Prewrite,
    RequestKind::Commit,
    RequestKind::Rollback,
    RequestKind::Resolve,
    RequestKind::HeartBeat,
];

impl RequestKind {
    /// The kind of a command.
    pub(crate) fn of(command: &Command) -> RequestKind {
        match command {
            Command::Get(_) | Command::BatchGet(_) => RequestKind::Read,
            Command::Scan(_) => RequestKind::Scan,
            Command::PessimisticLock(_) => RequestKind::Lock,
            Command::Prewrite(_) => RequestKind::Prewrite,
            Command::Commit(_) => RequestKind::Commit,
            Command::BatchRollback(_) | Command::PessimisticRollback(_) => RequestKind::Rollback,
            Command::ScanLock(_)
            | Command::ResolveLock(_)
            | Command::CheckTxnStatus(_)
            | Command::CheckSecondaryLocks(_) => RequestKind::Resolve,
            Command::TxnHeartBeat(_) => RequestKind::HeartBeat,
        }
    }
}

/// Counts since the client connected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// Timestamps requested. Callers share messages to the placement driver.
    pub timestamps: u64,
    /// Steps that callers waited for, one after the other: requests to several regions at once are one.
    pub rounds: u64,
    /// Requests repeated after a refusal by a region or a connection's end.
    pub retries: u64,
    /// Requests to the placement driver about regions.
    pub region_lookups: u64,
    /// Locks of other transactions that were removed.
    pub locks_removed: u64,
    requests: [u64; KINDS.len()],
}

impl RequestCounts {
    /// Requests of one kind to stores.
    pub fn of(&self, kind: RequestKind) -> u64 {
        self.requests.get(kind as usize).copied().unwrap_or(0)
    }

    /// Requests to stores that statements wait for: without heartbeats.
    pub fn requests(&self) -> u64 {
        self.requests.iter().sum::<u64>() - self.of(RequestKind::HeartBeat)
    }

    /// Counts of what happened since `earlier`.
    pub fn since(&self, earlier: &RequestCounts) -> RequestCounts {
        let mut out = self.clone();
        out.timestamps -= earlier.timestamps;
        out.rounds -= earlier.rounds;
        out.retries -= earlier.retries;
        out.region_lookups -= earlier.region_lookups;
        out.locks_removed -= earlier.locks_removed;
        for (n, before) in out.requests.iter_mut().zip(earlier.requests) {
            *n -= before;
        }
        out
    }
}

/// The counters behind [`RequestCounts`].
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) timestamps: AtomicU64,
    pub(crate) rounds: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) region_lookups: AtomicU64,
    pub(crate) locks_removed: AtomicU64,
    requests: [AtomicU64; KINDS.len()],
}

impl Counters {
    /// Counts a request to a store.
    pub(crate) fn count(&self, command: &Command) {
        if let Some(n) = self.requests.get(RequestKind::of(command) as usize) {
            n.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn read(&self) -> RequestCounts {
        let get = |n: &AtomicU64| n.load(Ordering::Relaxed);
        RequestCounts {
            timestamps: get(&self.timestamps),
            rounds: get(&self.rounds),
            retries: get(&self.retries),
            region_lookups: get(&self.region_lookups),
            locks_removed: get(&self.locks_removed),
            requests: std::array::from_fn(|i| self.requests.get(i).map_or(0, get)),
        }
    }
}
