//! A member with its process and its disk.

use porpoise_binlog::acknowledge::{Acknowledgements, GroupPolicy};
use porpoise_replication::election::following::{FollowLimits, Following};
use porpoise_replication::election::{Durable, Input, Member, MemberId, Output, Settings};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// A commit: epoch of its leader, and a unique number.
pub(super) type Commit = (u64, u64);

/// Silence of a leader after which it is replaced, in milliseconds.
const SILENCE: u64 = 100;

/// State that survives the process.
pub(super) struct Disk {
    /// State of the election.
    pub(super) state: Durable,
    /// Commits on disk.
    pub(super) log: Vec<Commit>,
    /// Steps for which the disk is slow.
    pub(super) slow: u64,
}

/// A server's connection to its leader.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    pub(super) leader: MemberId,
    pub(super) epoch: u64,
    /// Number of the connection, once the leader has accepted it.
    pub(super) connection: Option<u64>,
    /// End of the log that was acknowledged last over this connection.
    pub(super) acknowledged: usize,
    /// Steps until the leader's data are copied, if they are.
    pub(super) copying: Option<u64>,
}

/// State of a leader.
pub(super) struct Leading {
    pub(super) epoch: u64,
    pub(super) following: Following,
    pub(super) is_open: bool,
    pub(super) is_accepted: bool,
    /// Members whose acknowledgements are required.
    pub(super) required: BTreeSet<MemberId>,
    /// Connections of servers: number, and end of what was sent.
    pub(super) streams: BTreeMap<MemberId, (u64, usize)>,
}

/// State that ends with the process.
pub(super) struct Process {
    pub(super) member: Member,
    /// Outputs that wait for the disk, and inputs that wait for these outputs.
    pub(super) outputs: VecDeque<Output>,
    pub(super) inbox: VecDeque<Input>,
    /// Steps until the state is on disk.
    pub(super) storing: Option<u64>,
    /// The log, with commits that are not on disk.
    pub(super) log: Vec<Commit>,
    /// Steps until a sync ends, and the end of the log that it covers.
    pub(super) syncing: Option<(u64, usize)>,
    pub(super) acks: Acknowledgements,
    /// End of the log that was counted as written.
    pub(super) written: usize,
    /// End of the released commits.
    pub(super) released: usize,
    pub(super) source: Option<Source>,
    pub(super) leading: Option<Leading>,
}

pub(super) struct Node {
    pub(super) settings: Settings,
    pub(super) disk: Disk,
    /// `None` while it is down.
    pub(super) process: Option<Process>,
    /// Its clock in milliseconds.
    pub(super) clock: u64,
    /// Steps for which the process does nothing.
    pub(super) paused: u64,
}

impl Node {
    pub(super) fn new(id: MemberId, members: u32, servers: u32) -> Node {
        Node {
            settings: Settings {
                id,
                members: (1..=members).collect(),
                servers: (1..=servers).collect(),
                heartbeat: SILENCE / 5,
                silence: SILENCE,
                patience: SILENCE + 10 + u64::from(id) * 35,
            },
            disk: Disk {
                state: Durable::blank(1, u64::from(id)),
                log: Vec::new(),
                slow: 0,
            },
            process: None,
            clock: 1_000 * u64::from(id),
            paused: 0,
        }
    }

    /// The connection by which it follows a leader of an epoch; `None` if it does not.
    pub(super) fn follows(&self, leader: MemberId, epoch: u64) -> Option<Source> {
        let source = self.process.as_ref()?.source?;
        (source.leader == leader && source.epoch == epoch).then_some(source)
    }

    pub(super) fn is_server(&self) -> bool {
        self.settings.servers.contains(&self.settings.id)
    }

    /// Starts the process with the state on disk.
    pub(super) fn start(&mut self) {
        let mut acks = Acknowledgements::default();
        acks.set_group(Some(GroupPolicy::Follows));
        self.process = Some(Process {
            member: Member::new(self.settings.clone(), self.disk.state.clone()),
            outputs: VecDeque::new(),
            inbox: VecDeque::new(),
            storing: None,
            log: self.disk.log.clone(),
            syncing: None,
            acks,
            written: self.disk.log.len(),
            released: 0,
            source: None,
            leading: None,
        });
    }

    /// Its clock as the rules of acknowledgement take it; `origin` is that of all.
    pub(super) fn now(&self, origin: Instant) -> Instant {
        origin + Duration::from_millis(self.clock)
    }

    pub(super) fn leading(&self, epoch: u64) -> Leading {
        let limits = FollowLimits {
            small_lag: 20,
            silence: SILENCE,
            stall: Duration::from_millis(2 * SILENCE),
        };
        Leading {
            epoch,
            following: Following::new(limits, self.clock),
            is_open: false,
            is_accepted: false,
            required: BTreeSet::new(),
            streams: BTreeMap::new(),
        }
    }
}
