//! Semi-synchronous replication, the source's side: commits wait until replicas have them.
//!
//! The engine holds commits back ([`Engine::require_acknowledgement`]): they are on disk here, but neither visible
//! to snapshots nor revealed by a reply, whichever interface committed them. The writer records where each
//! transaction ends in the files; replicas acknowledge places in the files; the commits up to the place that enough
//! replicas have reached are let go.
//!
//! ```text
//! files     | T1 | T2 | T3 | T4 |
//! replica 2           ^                 with one acknowledgement: T1 to T3 are let go
//! replica 3                ^            with two: T1 and T2
//! ```
//!
//! Invariants:
//! 1. A commit is let go only when as many different replicas (by `server_id`) as the policy says have acknowledged
//!    a place behind its end, or when the policy's time for the oldest waiting commit is over.
//! 2. A place acknowledged counts as long as the server runs, also after its replica has disconnected: the replica
//!    has the transactions on its disk. What a replica has acknowledged before is forgotten when it begins to read at
//!    an earlier place: it was rebuilt or rewound.
//! 3. After a timeout commits pass until a replica has caught up with the end of the log; then they wait again.
//!
//! Rejected: a count of acknowledgements for each transaction (the n-th greatest place of the replicas says the
//! same); waiting in each session (visible before acknowledged, and every interface would need it).

use crate::file::file_number;
use crate::log::BinaryLog;
use crate::{Error, Result};
use porpoise_kv::{Engine, Stat};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Which replicas have to acknowledge a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acknowledgers {
    /// So many different ones.
    Any(usize),
    /// All of these, by `server_id`.
    All(BTreeSet<u32>),
}

/// How commits wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AckPolicy {
    /// Whether they wait at all.
    pub is_on: bool,
    /// For whom.
    pub by: Acknowledgers,
    /// Longest wait, after which commits pass unacknowledged; `None`: they wait for ever.
    pub timeout: Option<Duration>,
}

impl Default for AckPolicy {
    fn default() -> AckPolicy {
        AckPolicy {
            is_on: false,
            by: Acknowledgers::Any(1),
            timeout: None,
        }
    }
}

/// A place in the files: number of the file, position.
pub(crate) type Place = (u64, u64);

/// A transaction that waits.
struct Waiting {
    end: Place,
    commit: u64,
    since: Instant,
}

/// A replica that acknowledges.
#[derive(Clone, Copy, Debug, Default)]
struct Acknowledger {
    place: Place,
    /// Number of its connections.
    connections: usize,
}

/// State and counters of acknowledgement, as SHOW STATUS has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckStatus {
    /// Whether commits wait at present.
    pub is_waiting_mode: bool,
    /// Connected replicas that acknowledge.
    pub clients: u64,
    /// Commits that wait.
    pub waiting: u64,
    /// Commits acknowledged in time.
    pub acknowledged: u64,
    /// Commits that passed without acknowledgement.
    pub passed: u64,
    /// Number of timeouts.
    pub timeouts: u64,
    /// Total time in which commits have waited, in microseconds.
    pub wait_micros: u64,
}

/// The state, part of that of the log.
#[derive(Default)]
pub(crate) struct Acknowledgements {
    policy: AckPolicy,
    waiting: VecDeque<Waiting>,
    replicas: BTreeMap<u32, Acknowledger>,
    /// Whether a timeout has switched the waiting off.
    is_degraded: bool,
    status: AckStatus,
}

impl Acknowledgements {
    fn waits(&self) -> bool {
        self.policy.is_on && !self.is_degraded
    }

    /// The place that enough replicas have reached.
    fn reached(&self) -> Place {
        match &self.policy.by {
            Acknowledgers::Any(0) => (u64::MAX, u64::MAX),
            Acknowledgers::Any(count) => {
                let mut places: Vec<Place> = self.replicas.values().map(|r| r.place).collect();
                places.sort_unstable_by(|a, b| b.cmp(a));
                places.get(count - 1).copied().unwrap_or_default()
            }
            Acknowledgers::All(members) => {
                let place = |id| self.replicas.get(id).map_or((0, 0), |r| r.place);
                let least = members.iter().map(place).min();
                least.unwrap_or((u64::MAX, u64::MAX))
            }
        }
    }

    /// Removes the commits that are acknowledged. Returns the last of them.
    fn take_reached(&mut self) -> Option<u64> {
        let reached = self.reached();
        let mut last = None;
        while let Some(first) = self.waiting.front()
            && first.end <= reached
        {
            last = Some(first.commit);
            self.status.acknowledged += 1;
            let waited = u64::try_from(first.since.elapsed().as_micros()).unwrap_or(0);
            self.status.wait_micros += waited;
            self.waiting.pop_front();
        }
        last
    }

    /// Records a transaction that was written. Returns whether it has to wait.
    pub(crate) fn written(&mut self, end: Place, commit: u64) {
        if self.waits() {
            self.waiting.push_back(Waiting {
                end,
                commit,
                since: Instant::now(),
            });
        } else if self.policy.is_on {
            self.status.passed += 1;
        }
    }

    /// Ends the waiting if the oldest commit has waited for too long. Returns whether it did.
    fn times_out(&mut self) -> bool {
        let oldest = self.waiting.front();
        let is_over = oldest.is_some_and(|oldest| {
            let limit = self.policy.timeout;
            limit.is_some_and(|limit| oldest.since.elapsed() >= limit)
        });
        if is_over {
            self.status.timeouts += 1;
            self.status.passed += self.waiting.len() as u64;
            self.is_degraded = true;
            self.waiting.clear();
        }
        is_over
    }

    /// Whether commits are to wait again after a timeout, `end` being the end of the log.
    fn recovers(&mut self, end: Place) -> bool {
        let recovers = self.policy.is_on && self.is_degraded && self.reached() >= end;
        if recovers {
            self.is_degraded = false;
        }
        recovers
    }

    /// Forgets all places: the files begin anew.
    pub(crate) fn restart(&mut self) {
        for replica in self.replicas.values_mut() {
            replica.place = (0, 0);
        }
    }

    pub(crate) fn is_anyone_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }
}

/// A connected replica that acknowledges; it counts as disconnected when this is dropped.
pub struct AckConnection {
    log: Arc<BinaryLog>,
    server_id: u32,
}

impl AckConnection {
    /// The replica has everything up to a place on its disk.
    ///
    /// # Errors
    /// [`Error::Refused`] if this is no file of the log.
    pub fn acknowledge(&self, file: &str, position: u64) -> Result<()> {
        let number = file_number(file);
        let number =
            number.ok_or_else(|| Error::Refused(format!("acknowledgement of file {file:?}")))?;
        self.acknowledge_place((number, position));
        Ok(())
    }

    pub(crate) fn acknowledge_place(&self, place: Place) {
        let log = &self.log;
        let mut state = log.state.lock();
        let end = (state.files.last().map_or(0, |file| file.number), state.end);
        if place > end {
            // Of files that were reset.
            return;
        }
        if let Some(replica) = state.acks.replicas.get_mut(&self.server_id) {
            replica.place = replica.place.max(place);
        }
        let last = state.acks.take_reached();
        if let (Some(engine), true) = (log.ack_engine.get(), state.acks.recovers(end)) {
            tracing::info!("replicas have caught up: commits wait for their acknowledgement again");
            if let Err(error) = engine.require_acknowledgement(true) {
                tracing::error!(%error, "commits cannot wait for acknowledgements");
            }
        }
        if let (Some(commit), Some(engine)) = (last, log.ack_engine.get()) {
            engine.acknowledge(commit);
        }
    }
}

impl Drop for AckConnection {
    fn drop(&mut self) {
        let mut state = self.log.state.lock();
        if let Some(replica) = state.acks.replicas.get_mut(&self.server_id) {
            replica.connections = replica.connections.saturating_sub(1);
        }
    }
}

/// The engine whose commits wait.
pub(crate) type AckEngine = OnceLock<Arc<dyn Engine>>;

impl BinaryLog {
    /// Sets how commits wait for acknowledgements, from now on.
    ///
    /// # Errors
    /// The engine cannot hold commits back.
    pub fn set_ack_policy(&self, policy: AckPolicy) -> Result<()> {
        let mut state = self.state.lock();
        let Some(engine) = self.ack_engine.get() else {
            return Ok(());
        };
        let is_on = policy.is_on;
        state.acks.policy = policy;
        state.acks.is_degraded = false;
        if is_on {
            engine.require_acknowledgement(true)?;
            if let Some(commit) = state.acks.take_reached() {
                engine.acknowledge(commit);
            }
        } else {
            state.acks.waiting.clear();
            engine.require_acknowledgement(false)?;
        }
        Ok(())
    }

    /// The present policy.
    pub fn ack_policy(&self) -> AckPolicy {
        self.state.lock().acks.policy.clone()
    }

    /// State and counters.
    pub fn ack_status(&self) -> AckStatus {
        let state = self.state.lock();
        let acks = &state.acks;
        let connected = acks.replicas.values().filter(|r| r.connections > 0);
        AckStatus {
            is_waiting_mode: acks.waits(),
            clients: connected.count() as u64,
            waiting: acks.waiting.len() as u64,
            ..acks.status
        }
    }

    /// A replica that will acknowledge has connected, and has everything before `place`.
    pub(crate) fn connect_acknowledger(
        self: &Arc<Self>,
        server_id: u32,
        place: Place,
    ) -> AckConnection {
        let mut state = self.state.lock();
        let replica = state.acks.replicas.entry(server_id).or_default();
        replica.connections += 1;
        // It may have been rebuilt since.
        replica.place = (0, 0);
        drop(state);
        let connection = AckConnection {
            log: self.clone(),
            server_id,
        };
        connection.acknowledge_place(place);
        connection
    }

    /// Lets commits pass that have waited for too long. Called by the writer between its turns.
    pub(crate) fn check_ack_timeout(&self) {
        let mut state = self.state.lock();
        if !state.acks.times_out() {
            return;
        }
        tracing::warn!(
            "no replica has acknowledged within rpl_semi_sync_source_timeout: commits pass without acknowledgement until one has caught up"
        );
        if let Some(engine) = self.ack_engine.get()
            && let Err(error) = engine.require_acknowledgement(false)
        {
            tracing::error!(%error, "commits cannot pass without acknowledgement");
        }
    }

    /// Metrics of acknowledgement.
    pub(crate) fn ack_stats(&self) -> Vec<Stat> {
        let status = self.ack_status();
        let stat = |name, help, counter, value| Stat {
            name,
            help,
            counter,
            value,
        };
        vec![
            stat(
                "replication_ack_is_on",
                "Whether commits wait for the acknowledgement of replicas at present.",
                false,
                u64::from(status.is_waiting_mode),
            ),
            stat(
                "replication_ack_replicas",
                "Connected replicas that acknowledge.",
                false,
                status.clients,
            ),
            stat(
                "replication_ack_waiting",
                "Commits that wait for an acknowledgement.",
                false,
                status.waiting,
            ),
            stat(
                "replication_ack_commits_total",
                "Commits that were acknowledged by replicas.",
                true,
                status.acknowledged,
            ),
            stat(
                "replication_ack_passed_total",
                "Commits that passed without acknowledgement after a timeout.",
                true,
                status.passed,
            ),
            stat(
                "replication_ack_timeouts_total",
                "Times at which commits ceased to wait, because no replica acknowledged in time.",
                true,
                status.timeouts,
            ),
            stat(
                "replication_ack_wait_microseconds_total",
                "Total time in which commits have waited for replicas.",
                true,
                status.wait_micros,
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(by: Acknowledgers) -> Acknowledgements {
        let mut acks = Acknowledgements {
            policy: AckPolicy {
                is_on: true,
                by,
                timeout: None,
            },
            ..Acknowledgements::default()
        };
        for n in 1..=4 {
            acks.written((1, n * 100), n);
        }
        acks
    }

    fn at(acks: &mut Acknowledgements, id: u32, position: u64) {
        acks.replicas.entry(id).or_default().place = (1, position);
    }

    #[test]
    fn a_commit_passes_when_so_many_replicas_have_it() {
        let mut acks = waiting(Acknowledgers::Any(2));
        at(&mut acks, 2, 300);
        assert_eq!(acks.take_reached(), None);
        at(&mut acks, 3, 250);
        assert_eq!(acks.take_reached(), Some(2));
        at(&mut acks, 3, 400);
        assert_eq!(acks.take_reached(), Some(3));
        assert_eq!(acks.waiting.len(), 1);
    }

    #[test]
    fn a_set_of_members_must_acknowledge_all() {
        let mut acks = waiting(Acknowledgers::All([2, 3].into()));
        at(&mut acks, 2, 400);
        at(&mut acks, 4, 400);
        assert_eq!(acks.take_reached(), None);
        at(&mut acks, 3, 100);
        assert_eq!(acks.take_reached(), Some(1));
        acks.policy.by = Acknowledgers::All([2].into());
        assert_eq!(acks.take_reached(), Some(4));
        acks.policy.by = Acknowledgers::All(BTreeSet::new());
        acks.written((1, 500), 5);
        assert_eq!(acks.take_reached(), Some(5));
    }

    #[test]
    fn after_a_timeout_commits_pass_until_a_replica_has_caught_up() {
        let mut acks = waiting(Acknowledgers::Any(1));
        assert!(!acks.times_out(), "without a limit commits wait for ever");
        acks.policy.timeout = Some(Duration::ZERO);
        assert!(acks.times_out() && !acks.waits());
        acks.written((1, 500), 5);
        at(&mut acks, 2, 400);
        assert!(!acks.recovers((1, 500)));
        at(&mut acks, 2, 500);
        assert!(acks.recovers((1, 500)) && acks.waits());
        assert_eq!(acks.status.passed, 5);
    }
}
