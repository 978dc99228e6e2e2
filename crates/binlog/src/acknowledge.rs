//! Semi-synchronous replication, the source's side: commits wait until replicas have them.
//!
//! The engine withholds commits ([`Engine::require_acknowledgement`]): they are on disk here, but neither visible
//! to snapshots nor revealed by a reply, whichever interface committed them. The writer records where each
//! transaction ends in the files, and replicas acknowledge positions in the files. Commits up to the position that enough
//! replicas have acknowledged are released.
//!
//! ```text
//! files     | T1 | T2 | T3 | T4 |
//! replica 2           ^
//! replica 3                ^
//! released with one required acknowledgement: T1 to T3; with two: T1 and T2
//! ```
//!
//! Invariants:
//! 1. A commit is released only when as many different replicas (by `server_id`) as the policy requires have acknowledged
//!    a place at or after its end, or when the oldest waiting commit has waited for the policy's timeout.
//! 2. An acknowledged place counts as long as the server runs, also after its replica has disconnected: the replica
//!    has the transactions on its disk. It is discarded when the replica connects again, because it may have been rebuilt or
//!    rewound; what arrives late over an earlier connection is ignored.
//! 3. After a timeout commits pass until a replica has caught up with the end of the log; then they wait again.
//! 4. In a group with automatic failover ([`GroupPolicy`]) a commit also waits for the members that the group requires,
//!    without a timeout.
//!
//! The rules read no clock: the caller gives the time. `porpoise-sim` runs them with the election of the group.
//!
//! Rejected: a count of acknowledgements for each transaction (the n-th greatest position of the replicas says the
//! same); waiting in each session (the commit would be visible before, and every interface would need it).

use porpoise_kv::Engine;
use porpoise_replication::election::following::{MemberProgress, Place};
use porpoise_rows::changes::AckStatus;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Acknowledgements that a group with automatic failover requires before a commit of this server is reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupPolicy {
    /// None: another server leads, and its commits, which are applied here, do not wait.
    Follows,
    /// All commits are withheld: the server may not lead yet.
    Withheld,
    /// Acknowledgements of all these members, by `server_id`.
    All(BTreeSet<u32>),
}

/// Settings of the wait for acknowledgements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AckPolicy {
    /// Whether commits wait at all.
    pub is_on: bool,
    /// Required number of different replicas.
    pub replicas: usize,
    /// Longest wait, after which commits pass unacknowledged; `None`: they wait for ever.
    pub timeout: Option<Duration>,
}

impl Default for AckPolicy {
    fn default() -> AckPolicy {
        AckPolicy {
            is_on: false,
            replicas: 1,
            timeout: None,
        }
    }
}

/// The place after all others.
const LAST: Place = (u64::MAX, u64::MAX);

/// A transaction that waits.
pub(crate) struct Waiting {
    end: Place,
    commit: u64,
    since: Instant,
}

/// A replica that acknowledges.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Acknowledger {
    pub(crate) place: Place,
    /// Number of its newest connection, while that is open.
    pub(crate) connection: Option<u64>,
    /// Number of its data, of a member of a group.
    pub(crate) incarnation: u64,
}

/// Waiting commits, and acknowledgements of replicas; part of the log's state.
#[derive(Default)]
pub struct Acknowledgements {
    pub(crate) policy: AckPolicy,
    pub(crate) group: Option<GroupPolicy>,
    pub(crate) waiting: VecDeque<Waiting>,
    pub(crate) replicas: BTreeMap<u32, Acknowledger>,
    /// Connections of replicas so far.
    connections: u64,
    /// Whether a timeout has switched the waiting off.
    pub(crate) is_degraded: bool,
    pub(crate) status: AckStatus,
}

impl Acknowledgements {
    pub(crate) fn waits(&self) -> bool {
        let is_led = matches!(self.group, None | Some(GroupPolicy::Follows));
        self.counts() || !is_led
    }

    /// Whether commits wait for a number of replicas.
    fn counts(&self) -> bool {
        self.policy.is_on && !self.is_degraded && self.group != Some(GroupPolicy::Follows)
    }

    /// The place that enough replicas have reached.
    fn reached(&self) -> Place {
        if self.counts() {
            self.by_number().min(self.by_group())
        } else {
            self.by_group()
        }
    }

    /// The place that the required number of replicas have reached.
    fn by_number(&self) -> Place {
        let Some(nth) = self.policy.replicas.checked_sub(1) else {
            return LAST;
        };
        let mut places: Vec<Place> = self.replicas.values().map(|r| r.place).collect();
        places.sort_unstable_by(|a, b| b.cmp(a));
        places.get(nth).copied().unwrap_or_default()
    }

    /// The place that all members required by the group have reached.
    fn by_group(&self) -> Place {
        match &self.group {
            None | Some(GroupPolicy::Follows) => LAST,
            Some(GroupPolicy::Withheld) => (0, 0),
            Some(GroupPolicy::All(members)) => {
                let place = |id| self.replicas.get(id).map_or((0, 0), |r| r.place);
                members.iter().map(place).min().unwrap_or(LAST)
            }
        }
    }

    /// Sets the requirements of the group from now on. Waiting commits that are no longer subject to them are released by
    /// [`Acknowledgements::take_reached`].
    pub fn set_group(&mut self, policy: Option<GroupPolicy>) {
        self.group = policy;
        if !self.waits() {
            self.waiting.clear();
        }
    }

    /// Records that a replica has connected whose disk has everything before `place`. Returns the number of the connection.
    pub fn connect(&mut self, replica: u32, incarnation: u64, place: Place) -> u64 {
        self.connections += 1;
        let connection = Some(self.connections);
        let acknowledger = Acknowledger {
            place,
            connection,
            incarnation,
        };
        self.replicas.insert(replica, acknowledger);
        self.connections
    }

    /// Records that a replica has everything up to a place on its disk.
    pub fn acknowledge(&mut self, replica: u32, connection: u64, place: Place) {
        let replica = self.replicas.get_mut(&replica);
        if let Some(replica) = replica.filter(|r| r.connection == Some(connection)) {
            replica.place = replica.place.max(place);
        }
    }

    /// Records that a connection of a replica has ended.
    pub fn disconnect(&mut self, replica: u32, connection: u64) {
        let replica = self.replicas.get_mut(&replica);
        if let Some(replica) = replica.filter(|r| r.connection == Some(connection)) {
            replica.connection = None;
        }
    }

    /// The progress of a member.
    #[must_use]
    pub fn progress(&self, member: u32, now: Instant) -> MemberProgress {
        let replica = self.replicas.get(&member).copied().unwrap_or_default();
        let oldest = self.waiting.front();
        let oldest = oldest.filter(|oldest| oldest.end > replica.place);
        MemberProgress {
            is_connected: replica.connection.is_some(),
            incarnation: replica.incarnation,
            place: replica.place,
            behind: oldest.map(|oldest| now.saturating_duration_since(oldest.since)),
            rate: None,
        }
    }

    /// Removes the commits that are acknowledged. Returns the last of them.
    pub fn take_reached(&mut self, now: Instant) -> Option<u64> {
        let reached = self.reached();
        let mut last = None;
        while let Some(first) = self.waiting.front()
            && first.end <= reached
        {
            last = Some(first.commit);
            self.status.acknowledged += 1;
            let waited = now.saturating_duration_since(first.since).as_micros();
            self.status.wait_micros += u64::try_from(waited).unwrap_or(0);
            self.waiting.pop_front();
        }
        last
    }

    /// Removes the waiting commits if the group requires no other member. Returns the last of them.
    pub fn take_unneeded(&mut self, now: Instant) -> Option<u64> {
        let is_unneeded = self.group.is_some() && self.reached() == LAST;
        if is_unneeded {
            self.take_reached(now)
        } else {
            None
        }
    }

    /// Records a transaction that was written, and is on the disk of this server.
    pub fn written(&mut self, end: Place, commit: u64, now: Instant) {
        if self.waits() {
            self.waiting.push_back(Waiting {
                end,
                commit,
                since: now,
            });
        } else if self.policy.is_on && self.group.is_none() {
            self.status.passed += 1;
        }
    }

    /// Ends the wait for a number of replicas if the oldest commit has reached the timeout. Returns whether it did.
    pub(crate) fn times_out(&mut self, now: Instant) -> bool {
        if !self.counts() {
            return false;
        }
        let oldest = self.waiting.front();
        let is_over = oldest.is_some_and(|oldest| {
            let limit = self.policy.timeout;
            limit.is_some_and(|limit| now.saturating_duration_since(oldest.since) >= limit)
        });
        if is_over {
            self.status.timeouts += 1;
            self.is_degraded = true;
            if self.group.is_none() {
                self.status.passed += self.waiting.len() as u64;
                self.waiting.clear();
            }
        }
        is_over
    }

    /// Makes commits wait again after a timeout if enough replicas have reached `end`, the end of the log. Returns whether
    /// it did.
    pub(crate) fn recovers(&mut self, end: Place) -> bool {
        let recovers = self.policy.is_on && self.is_degraded && self.by_number() >= end;
        if recovers {
            self.is_degraded = false;
        }
        recovers
    }

    /// Discards all acknowledged places, because the files were removed and restart with the first number.
    pub(crate) fn restart(&mut self) {
        for replica in self.replicas.values_mut() {
            replica.place = (0, 0);
        }
    }

    pub(crate) fn is_anyone_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }
}

/// The engine whose commits wait.
pub(crate) type AckEngine = OnceLock<Arc<dyn Engine>>;

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(replicas: usize, group: Option<GroupPolicy>) -> Acknowledgements {
        let mut acks = Acknowledgements {
            policy: AckPolicy {
                is_on: replicas > 0,
                replicas,
                timeout: None,
            },
            group,
            ..Acknowledgements::default()
        };
        for n in 1..=4 {
            acks.written((1, n * 100), n, Instant::now());
        }
        acks
    }

    fn at(acks: &mut Acknowledgements, id: u32, position: u64) {
        acks.replicas.entry(id).or_default().place = (1, position);
    }

    #[test]
    fn a_commit_passes_when_so_many_replicas_have_it() {
        let mut acks = waiting(2, None);
        at(&mut acks, 2, 300);
        assert_eq!(acks.take_reached(Instant::now()), None);
        at(&mut acks, 3, 250);
        assert_eq!(acks.take_reached(Instant::now()), Some(2));
        at(&mut acks, 3, 400);
        assert_eq!(acks.take_reached(Instant::now()), Some(3));
        assert_eq!(acks.waiting.len(), 1);
    }

    #[test]
    fn a_set_of_members_must_acknowledge_all() {
        let mut acks = waiting(0, Some(GroupPolicy::Withheld));
        at(&mut acks, 2, 400);
        assert_eq!(acks.take_reached(Instant::now()), None);
        acks.group = Some(GroupPolicy::All([2, 3].into()));
        at(&mut acks, 2, 400);
        at(&mut acks, 4, 400);
        assert_eq!(acks.take_reached(Instant::now()), None);
        at(&mut acks, 3, 100);
        assert_eq!(acks.take_reached(Instant::now()), Some(1));
        let behind = |member| acks.progress(member, Instant::now()).behind;
        assert!(behind(3).is_some() && behind(2).is_none());
        acks.group = Some(GroupPolicy::All([2].into()));
        assert_eq!(acks.take_reached(Instant::now()), Some(4));
        acks.group = Some(GroupPolicy::All(BTreeSet::new()));
        acks.written((1, 500), 5, Instant::now());
        assert_eq!(acks.take_reached(Instant::now()), Some(5));
    }

    #[test]
    fn what_arrives_late_by_an_earlier_connection_does_not_count() {
        let mut acks = waiting(1, None);
        let first = acks.connect(2, 7, (0, 0));
        acks.acknowledge(2, first, (1, 100));
        // Its data were replaced.
        let second = acks.connect(2, 8, (0, 0));
        acks.acknowledge(2, first, (1, 400));
        acks.disconnect(2, first);
        let progress = acks.progress(2, Instant::now());
        assert_eq!((progress.place, progress.incarnation), ((0, 0), 8));
        assert!(progress.is_connected);
        acks.acknowledge(2, second, (1, 200));
        assert_eq!(acks.take_reached(Instant::now()), Some(2));
        acks.disconnect(2, second);
        assert!(!acks.progress(2, Instant::now()).is_connected);
    }

    #[test]
    fn a_group_and_a_number_of_replicas_are_both_waited_for() {
        let acks = waiting(1, Some(GroupPolicy::Follows));
        assert!(!acks.waits() && acks.waiting.is_empty() && acks.status.passed == 0);
        let mut acks = waiting(1, Some(GroupPolicy::All(BTreeSet::new())));
        assert_eq!(acks.take_reached(Instant::now()), None);
        acks.group = Some(GroupPolicy::All([2].into()));
        acks.policy.timeout = Some(Duration::ZERO);
        assert!(acks.times_out(Instant::now()) && acks.waits());
        assert_eq!(
            acks.take_reached(Instant::now()),
            None,
            "a timeout counts for the number only"
        );
        at(&mut acks, 2, 400);
        assert_eq!(acks.take_reached(Instant::now()), Some(4));
    }

    #[test]
    fn after_a_timeout_commits_pass_until_a_replica_has_caught_up() {
        let mut acks = waiting(1, None);
        assert!(
            !acks.times_out(Instant::now()),
            "without a limit commits wait for ever"
        );
        acks.policy.timeout = Some(Duration::ZERO);
        assert!(acks.times_out(Instant::now()) && !acks.waits());
        acks.written((1, 500), 5, Instant::now());
        at(&mut acks, 2, 400);
        assert!(!acks.recovers((1, 500)));
        at(&mut acks, 2, 500);
        assert!(acks.recovers((1, 500)) && acks.waits());
        assert_eq!(acks.status.passed, 5);
    }
}
