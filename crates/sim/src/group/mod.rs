//! A simulated run of a group with automatic failover: the election, the rules of acknowledgement, and servers that replicate a log.
//!
//! The decisions are made by the code of the server: [`porpoise_replication::election::Member`], its
//! [`Following`](porpoise_replication::election::following::Following), and
//! [`porpoise_binlog::acknowledge::Acknowledgements`]. The rest is a model: a log is a list of commits of which a prefix is on disk, and
//! a replica receives the commits that its leader has on disk, over a connection that can fail.
//!
//! ```text
//! client --commit--> log of the leader --sync--> Acknowledgements --release--> client
//!                         |                            ^
//!                         +--> log of a server --sync--+
//! ```
//!
//! Faults, by the seed: processes that are killed and lose what is not on disk, also between an output of the state machine and the next
//! one; processes that stop for a time; messages that are lost, late and out of order; members that are cut off, also in one
//! direction; disks that are slow for a time, for the log and for the state; clocks that jump both ways; members that lose their disk,
//! and servers that copy the leader's data.
//!
//! Checks:
//! 1. At every release: the commits acknowledged by all leaders are one sequence, and one of this sequence and the leader's log
//!    is a prefix of the other. So no leader lacks a commit that was acknowledged before its own.
//! 2. At most one server acknowledges commits in an epoch.
//! 3. At the end, when all faults are healed: a new commit is acknowledged, every server has every acknowledged commit, and all are in
//!    sync.
//!
//! Faults that are planted into the code ([`Planted`]) show that the checks find such faults.

mod faults;
mod node;
mod replication;
mod run;

use std::fmt;

/// A fault that is planted into the messages or the surroundings of the state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A server acknowledges what is not on its disk.
    AcknowledgesBeforeSync,
    /// A leader counts, and sends, commits that are not on its own disk.
    LeadsBeforeSync,
    /// A member votes without comparing views.
    VotesWithoutView,
    /// Messages are sent before the state on which they depend is on disk.
    SendsBeforeStoring,
    /// A server continues to follow the leader of an earlier epoch.
    FollowsFormerLeader,
    /// A leader acknowledges before a majority has accepted its first view.
    OpensBeforeItsView,
    /// A leader requires the acknowledgements of its newest view only, which no majority may have accepted.
    RequiresNewestViewOnly,
    /// A leader does not wait for acknowledgements while its clock says that a majority was heard a moment ago (a lease).
    TrustsItsClock,
}

/// All of them.
pub const PLANTED: [Planted; 8] = [
    Planted::AcknowledgesBeforeSync,
    Planted::LeadsBeforeSync,
    Planted::VotesWithoutView,
    Planted::SendsBeforeStoring,
    Planted::FollowsFormerLeader,
    Planted::OpensBeforeItsView,
    Planted::RequiresNewestViewOnly,
    Planted::TrustsItsClock,
];

/// Coverage of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Commits that were acknowledged to clients.
    pub commits: usize,
    /// Epochs in which a leader has acknowledged commits.
    pub epochs: usize,
    /// Processes that were killed.
    pub kills: usize,
    /// Commits that a kill has removed from a log, because they were not on disk.
    pub unsynced: usize,
    /// Copies of a leader's data.
    pub copies: usize,
}

impl Report {
    /// Adds the figures of another run.
    pub fn add(&mut self, other: &Report) {
        self.commits += other.commits;
        self.epochs += other.epochs;
        self.kills += other.kills;
        self.unsynced += other.unsynced;
        self.copies += other.copies;
    }
}

/// A check that has failed.
#[derive(Clone, Debug)]
pub struct Violation(String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Simulates the run of a seed.
///
/// # Errors
/// A check has failed.
pub fn simulate(seed: u64, planted: Option<Planted>) -> Result<Report, Violation> {
    run::Simulation::new(seed, planted).run()
}
