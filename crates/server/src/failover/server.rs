//! A member that is a server: its actions when it is elected, and when another server is.
//!
//! ```text
//! elected       refuse writes; no commit is acknowledged
//! view accepted commits wait for the members of the view; permit writes
//! no majority   refuse writes, until a majority answers again
//! stepped down  restart the process ([`super::restart`])
//! follow        the replica connects to the leader by GTIDs, and acknowledges
//! diverged      rewind the own data ([`super::rewind`]) or copy the leader's ([`super::clone`]), restart
//! ```
//!
//! Invariants:
//! 1. Commits need acknowledgements before clients may write.
//! 2. A member has stopped following when [`Actions::stop_following`] returns: the replica's thread has ended.
//! 3. Only acknowledgements of its present data make a member count as caught up.

use super::clone::{self, CloneSource, CloneTask};
use super::node::{Actions, Inputs, Node, NodeOptions};
use super::rewind::Rewind;
use super::transport::Description;
use super::{read_password, read_secret, restart, status};
use crate::config::{Config, Members, StartError};
use crate::standby::epoch::Epochs;
use porpoise_binlog::BinaryLog;
use porpoise_binlog::acknowledge::GroupPolicy;
use porpoise_kv_mem::KvMem;
use porpoise_replication::election::following::{FollowLimits, Following};
use porpoise_replication::election::{Durable, Input, Member, MemberId};
use porpoise_replication::epoch::EpochKeeper;
use porpoise_replication::replica::{Replica, SourceSettings};
use porpoise_replication::source::Divergence;
use porpoise_sql::{SqlServer, VERSION};
use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Lag of a member, in bytes of the log, up to which the leader makes commits wait for it.
const SMALL_LAG: u64 = 256 << 10;

/// Pause between attempts to follow a leader after an error that stopped the replica.
const FOLLOW_AGAIN: Duration = Duration::from_secs(5);

/// Minimum time for which commits wait for a member that answers but does not acknowledge. Then the leader continues without
/// it, if a majority agrees.
const MIN_STALL: Duration = Duration::from_secs(5);

/// Number that identifies this server's present data, and changes when they are replaced; the replica announces it to its
/// source. 0: not a member of a group.
pub type Incarnation = Arc<AtomicU64>;

/// The parts of the server that a member uses.
pub struct Parts {
    /// The replica.
    pub replica: Arc<Replica>,
    /// The binary log.
    pub binlog: Arc<BinaryLog>,
    /// The engine.
    pub engine: Option<Arc<KvMem>>,
    /// The epoch, and whether clients may write.
    pub epochs: Arc<Epochs>,
    /// SQL.
    pub sql: Arc<SqlServer>,
    /// Number of its data.
    pub incarnation: Incarnation,
}

/// Starts the member, if the configuration has a group.
///
/// # Errors
/// A message for the operator in one line.
pub fn start(
    config: &Config,
    listener: Option<TcpListener>,
    parts: Parts,
) -> Result<Option<Arc<Node>>, StartError> {
    let (Some(members), Some(listener)) = (&config.failover_members, listener) else {
        return Ok(None);
    };
    let failed = |e: std::io::Error| StartError::failure(format!("failover: {e}"));
    let secret = config
        .failover_secret_file
        .as_deref()
        .unwrap_or(std::path::Path::new(""));
    let password = config
        .failover_password_file
        .as_deref()
        .unwrap_or(std::path::Path::new(""));
    let secret = read_secret("--failover-secret-file", secret)?;
    let password = read_password("--failover-password-file", password)?;
    let options = NodeOptions {
        id: config.server_id,
        members: members.clone(),
        secret,
        timeout: config.failover_timeout,
        data_dir: &config.data_dir,
        listener,
        description: Description {
            uuid: parts.binlog.server_uuid(),
            version: VERSION.to_owned(),
        },
    };
    let followed = parts.binlog.set_group_policy(Some(GroupPolicy::Follows));
    followed.map_err(|e| StartError::failure(format!("failover: {e}")))?;
    let (sql, shown) = (parts.sql.clone(), parts.epochs.clone());
    let binlog = parts.binlog.clone();
    let mut actions = ServerActions {
        id: config.server_id,
        members: members.clone(),
        user: config.failover_account.clone().unwrap_or_default(),
        password: String::from_utf8_lossy(&password).into_owned(),
        data_dir: config.data_dir.clone(),
        timeout: config.failover_timeout,
        stall: MIN_STALL.max(config.failover_timeout * 2),
        copy_rate: config.failover_copy_rate,
        parts,
        inputs: None,
        wanted: None,
        followed: None,
        follow_again: Instant::now(),
        clone_again: Instant::now(),
        leading: None,
        clone: CloneState::None,
    };
    let node = Node::start(options, move |durable, inputs| {
        actions
            .parts
            .incarnation
            .store(durable.incarnation, Ordering::SeqCst);
        actions.inputs = Some(inputs);
        Box::new(actions)
    });
    let node = Arc::new(node.map_err(failed)?);
    status::provide(&sql, &node, shown, binlog);
    Ok(Some(node))
}

/// State of a leader.
struct Leading {
    epoch: u64,
    /// Whether clients may write: the first view is accepted, and a majority is heard.
    is_open: bool,
    is_accepted: bool,
    since: Instant,
    following: Following,
}

/// A copy of the leader's data.
enum CloneState {
    None,
    Running(CloneTask),
    /// The copy is complete; the state that is being written discards the own data.
    Complete,
    /// The data are not copied: an operator has to decide.
    Refused,
}

struct ServerActions {
    id: MemberId,
    members: Members,
    user: String,
    password: String,
    data_dir: PathBuf,
    timeout: Duration,
    stall: Duration,
    copy_rate: Option<u64>,
    parts: Parts,
    inputs: Option<Inputs>,
    /// The leader, and its epoch.
    wanted: Option<(MemberId, u64)>,
    /// Whom the replica follows.
    followed: Option<(MemberId, u64)>,
    follow_again: Instant,
    clone_again: Instant,
    leading: Option<Leading>,
    clone: CloneState,
}

/// Milliseconds since a moment.
fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

impl ServerActions {
    /// Sets the acknowledgements that commits require. An error ends the leadership, because commits would be reported without
    /// them.
    fn set_policy(&self, policy: GroupPolicy) -> (u64, u64) {
        match self.parts.binlog.set_group_policy(Some(policy)) {
            Ok(end) => end,
            Err(error) => restart::restart(&format!("commits cannot wait for members: {error}")),
        }
    }

    fn source(&self, leader: MemberId) -> Option<(String, u16)> {
        let member = self.members.get(leader)?;
        Some((member.host.clone(), member.mysql_port?))
    }

    /// Lets the replica follow the leader, if it does not.
    fn follow_wanted(&mut self) {
        let Some((leader, epoch)) = self.wanted else {
            return;
        };
        if self.followed == self.wanted && self.parts.replica.follows() {
            return;
        }
        self.parts.replica.halt();
        self.follow_again = Instant::now() + FOLLOW_AGAIN;
        let Some((host, port)) = self.source(leader) else {
            return;
        };
        let (user, password) = (self.user.clone(), self.password.clone());
        let change = |settings: &mut SourceSettings| {
            (settings.host, settings.port) = (host, port);
            (settings.user, settings.password) = (user, password);
            settings.auto_position = true;
            (settings.connect_retry, settings.retry_count) = (1, 0);
            settings.heartbeat_millis = 1_000;
        };
        let replica = &self.parts.replica;
        let begun = self.parts.epochs.meet(epoch).map_err(|e| e.to_string());
        let begun = begun.and_then(|()| replica.change(change, None).map_err(|e| e.to_string()));
        let begun = begun.and_then(|()| replica.start(None).map_err(|e| e.to_string()));
        match begun {
            Ok(_) => self.followed = self.wanted,
            Err(error) => {
                tracing::error!(%error, leader, "failover: the leader cannot be followed; trying again");
            }
        }
    }

    /// Handles a stopped replica: retries later, or copies the leader's data if its log does not continue the own data.
    fn replica_stopped(&mut self, member: &Member) -> Vec<Input> {
        let divergence = self
            .parts
            .replica
            .state()
            .and_then(|state| state.divergence);
        let Some(divergence) = divergence else {
            if Instant::now() >= self.follow_again {
                self.follow_wanted();
            }
            return Vec::new();
        };
        match std::mem::replace(&mut self.clone, CloneState::None) {
            CloneState::None => self.begin_clone(member.durable(), &divergence),
            CloneState::Running(task) => match task.outcome() {
                None => self.clone = CloneState::Running(task),
                Some(Ok(())) => {
                    self.clone = CloneState::Complete;
                    return vec![Input::Discard(super::state::random())];
                }
                Some(Err(error)) => {
                    tracing::error!(%error, "failover: the leader's data cannot be copied; trying again");
                    self.clone_again = Instant::now() + FOLLOW_AGAIN;
                }
            },
            // The state that discards the data is on disk.
            CloneState::Complete => match clone::complete(&self.data_dir) {
                Ok(()) => restart::restart("the next start replaces its data"),
                Err(error) => {
                    tracing::error!(%error, "failover: the copy of the leader's data cannot be used");
                }
            },
            CloneState::Refused => self.clone = CloneState::Refused,
        }
        Vec::new()
    }

    fn begin_clone(&mut self, durable: &Durable, divergence: &Divergence) {
        if Instant::now() < self.clone_again {
            return;
        }
        let has_own = !self.parts.binlog.status().executed.is_empty();
        let what = match divergence {
            Divergence::Extra(extra) => format!("the leader lacks its transactions {extra}"),
            Divergence::Refused(message) => {
                format!("the leader's log does not continue its data: {message}")
            }
        };
        if durable.is_blank() && has_own {
            tracing::error!(
                "failover: {what}. This server has data of its own from before it was a member, and does not follow. If the data \
                 are not needed, start it with an empty data directory"
            );
            self.clone = CloneState::Refused;
            return;
        }
        let Some((host, port)) = self.wanted.and_then(|(leader, _)| self.source(leader)) else {
            return;
        };
        tracing::warn!(
            "failover: {what}: this server discards the transactions that the leader lacks"
        );
        let source = self.parts.replica.state().map(|state| state.settings);
        let source = source.map(|settings| CloneSource {
            target: settings.target(),
            rate: self.copy_rate,
            rewind: self.rewind(divergence),
        });
        match source.map(|source| CloneTask::start(source, &self.data_dir)) {
            Some(Ok(task)) => self.clone = CloneState::Running(task),
            Some(Err(error)) => {
                tracing::error!(%error, host, port, "failover: the thread for a copy cannot be started")
            }
            None => {}
        }
    }

    /// The rewind that discards transactions without a copy of the leader's data.
    fn rewind(&self, divergence: &Divergence) -> Option<Rewind> {
        let Divergence::Extra(lost) = divergence else {
            return None;
        };
        Some(Rewind {
            engine: self.parts.engine.clone()?,
            binlog: self.parts.binlog.clone(),
            lost: lost.clone(),
            data_dir: self.data_dir.clone(),
        })
    }

    /// The leader's observations of the other servers.
    fn observe(&mut self, member: &Member) -> Vec<Input> {
        let Some(leading) = &mut self.leading else {
            return Vec::new();
        };
        let now = millis(leading.since);
        let mut inputs = Vec::new();
        let servers = self.members.servers();
        for server in servers.into_iter().filter(|id| *id != self.id) {
            let (progress, end) = self.parts.binlog.member_progress(server);
            let incarnation = member.incarnation_of(server);
            let following = &mut leading.following;
            inputs.extend(following.observe(server, incarnation, &progress, end, now));
        }
        inputs
    }

    /// Permits writes while the leader may acknowledge them.
    fn set_open(&mut self, is_open: bool) {
        let Some(leading) = &mut self.leading else {
            return;
        };
        if leading.is_open == is_open {
            return;
        }
        match self.parts.epochs.set_writable(leading.epoch, is_open) {
            Ok(false) => return,
            Ok(true) => leading.is_open = is_open,
            Err(error) => {
                tracing::error!(%error, "failover: the epoch cannot be recorded; trying again");
                return;
            }
        }
        if is_open {
            tracing::info!(
                epoch = leading.epoch,
                "failover: this server leads: clients may write"
            );
        } else {
            tracing::warn!(
                "failover: no majority of the members answers: this server refuses writes until one does"
            );
        }
    }
}

impl Actions for ServerActions {
    fn stop_following(&mut self) {
        (self.wanted, self.followed) = (None, None);
        // A copy that runs ends.
        self.clone = CloneState::None;
        self.parts.replica.halt();
    }

    fn step_down(&mut self) {
        self.parts.epochs.refuse_writes();
        restart::restart("another member leads, or is about to");
    }

    fn follow(&mut self, leader: MemberId, epoch: u64) {
        self.wanted = Some((leader, epoch));
        self.follow_wanted();
    }

    fn lead(&mut self, epoch: u64) {
        self.set_policy(GroupPolicy::Withheld);
        self.parts.epochs.begin_leadership(epoch);
        let limits = FollowLimits {
            small_lag: SMALL_LAG,
            silence: u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX),
            stall: self.stall,
        };
        self.leading = Some(Leading {
            epoch,
            is_open: false,
            is_accepted: false,
            since: Instant::now(),
            following: Following::new(limits, 0),
        });
    }

    fn require(&mut self, members: &BTreeSet<MemberId>) {
        let end = self.set_policy(GroupPolicy::All(members.clone()));
        if let Some(leading) = &mut self.leading {
            leading.following.require(members, end);
            leading.is_accepted = true;
        }
        self.set_open(true);
    }

    fn tick(&mut self, member: &Member) -> Vec<Input> {
        let incarnation = member.durable().incarnation;
        self.parts.incarnation.store(incarnation, Ordering::SeqCst);
        if member.is_leader() {
            let may_open = self
                .leading
                .as_ref()
                .is_some_and(|leading| leading.is_accepted);
            self.set_open(may_open && member.hears_majority());
            return self.observe(member);
        }
        if self.wanted.is_none() {
            return Vec::new();
        }
        if self.followed == self.wanted && self.parts.replica.follows() {
            self.clone = CloneState::None;
            return Vec::new();
        }
        self.replica_stopped(member)
    }
}
