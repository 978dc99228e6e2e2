//! The thread of a member: runs the state machine of the election ([`porpoise_replication::election`]), stores its state,
//! exchanges its messages, and calls the server's [`Actions`].
//!
//! ```text
//!  transport --messages--> +--------+ --outputs, in order--> state file, transport, [`Actions`]
//!  clock -----ticks------> | Member |
//!  server ----inputs-----> +--------+
//! ```
//!
//! Invariants:
//! 1. Outputs are executed in order, each completely before the next: a message that depends on the state is sent after the
//!    state is on disk. While it cannot be written, the member is silent.
//! 2. No acknowledgement of a commit depends on a clock.

use super::state::StateFile;
use super::transport::{Deliver, Description, Identity, Received, Transport};
use crate::config::Members;
use crate::config::members::MemberAddress;
use parking_lot::Mutex;
use porpoise_base::threads::{self, Role};
use porpoise_replication::election::{Durable, Input, Member, MemberId, Message, Output, Settings};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Actions of a member besides voting. A witness has none.
pub trait Actions: Send {
    /// Stops following the leader, and acknowledging its commits, before it returns.
    fn stop_following(&mut self) {}
    /// Stops acknowledging commits, and refuses writes.
    fn step_down(&mut self) {}
    /// Follows this member, which leads this epoch.
    fn follow(&mut self, _leader: MemberId, _epoch: u64) {}
    /// Begins to lead; no commit is acknowledged yet.
    fn lead(&mut self, _epoch: u64) {}
    /// Acknowledges commits once these members have them.
    fn require(&mut self, _members: &BTreeSet<MemberId>) {}
    /// Called at each tick. Returns inputs of the state machine.
    fn tick(&mut self, _member: &Member) -> Vec<Input> {
        Vec::new()
    }
}

/// Actions of a witness.
pub struct NoActions;

impl Actions for NoActions {}

/// An event that the thread receives.
enum Event {
    Message(MemberId, Message),
    Input(Input),
    Stop,
}

/// Settings of a member.
pub struct NodeOptions<'a> {
    /// Its number.
    pub id: MemberId,
    /// All members.
    pub members: Members,
    /// Their secret.
    pub secret: Vec<u8>,
    /// Silence of the leader after which another one is elected.
    pub timeout: Duration,
    /// Directory of its state.
    pub data_dir: &'a Path,
    /// Listener for the messages of the others.
    pub listener: TcpListener,
    /// Its description, which is sent to the others.
    pub description: Description,
}

/// Role of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberRole {
    /// It leads, and acknowledges commits.
    Leader,
    /// It follows the leader.
    Follower,
    /// It has no leader.
    Candidate,
    /// It only votes.
    Witness,
}

impl MemberRole {
    /// Name, as SHOW STATUS prints it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            MemberRole::Leader => "LEADER",
            MemberRole::Follower => "FOLLOWER",
            MemberRole::Candidate => "CANDIDATE",
            MemberRole::Witness => "WITNESS",
        }
    }
}

/// The known state of a member.
#[derive(Clone, Debug)]
pub struct MemberStatus {
    /// Its number.
    pub id: MemberId,
    /// Host of its MySQL listener; of a witness, that of its listener for messages.
    pub host: String,
    /// Port of the same listener.
    pub port: u16,
    /// Whether it has no data.
    pub is_witness: bool,
    /// Its role, as far as this member knows; `None` if it is not heard.
    pub role: Option<MemberRole>,
    /// Whether it has every acknowledged commit, by the newest view known.
    pub is_in_sync: bool,
    /// Time since its last message; `None` if there was none. 0 of this member.
    pub last_contact: Option<Duration>,
    /// Its description; `None` if it has not connected since the start of this member.
    pub description: Option<Description>,
}

/// The present state of the group, as this member sees it.
#[derive(Clone, Debug)]
pub struct GroupStatus {
    /// This member.
    pub id: MemberId,
    /// Its role.
    pub role: MemberRole,
    /// The epoch.
    pub epoch: u64,
    /// Epoch and number of the newest view known.
    pub view: (u64, u64),
    /// The leader, if it is known.
    pub leader: Option<MemberId>,
    /// Whether a leader hears a majority.
    pub has_majority: bool,
    /// Leaders of which this member has learned since its start.
    pub changes: u64,
    /// All members.
    pub members: Vec<MemberStatus>,
}

struct Known {
    role: MemberRole,
    durable: Durable,
    leader: Option<MemberId>,
    has_majority: bool,
    changes: u64,
    heard: BTreeMap<MemberId, Instant>,
    described: BTreeMap<MemberId, Description>,
}

struct Shared {
    id: MemberId,
    members: Members,
    timeout: Duration,
    known: Mutex<Known>,
}

/// A running member.
pub struct Node {
    shared: Arc<Shared>,
    events: Sender<Event>,
    thread: Mutex<Option<porpoise_base::sync::thread::JoinHandle<()>>>,
}

/// Handle by which other threads give input.
#[derive(Clone)]
pub struct Inputs(Sender<Event>);

impl Inputs {
    /// Gives an input to the state machine.
    pub fn send(&self, input: Input) {
        let _ended = self.0.send(Event::Input(input));
    }
}

impl Node {
    /// Starts a member. `actions` creates its actions from the stored state.
    ///
    /// # Errors
    /// The state cannot be read; a thread cannot be started.
    pub fn start(
        options: NodeOptions<'_>,
        actions: impl FnOnce(&Durable, Inputs) -> Box<dyn Actions>,
    ) -> io::Result<Node> {
        let file = StateFile::new(options.data_dir);
        let durable = file.load(options.members.first())?;
        let settings = settings(&options);
        let (events, inbox) = channel();
        let shared = Arc::new(Shared {
            id: options.id,
            members: options.members.clone(),
            timeout: options.timeout,
            known: Mutex::new(Known {
                role: role_without_leader(&settings),
                durable: durable.clone(),
                leader: None,
                has_majority: false,
                changes: 0,
                heard: BTreeMap::new(),
                described: [(options.id, options.description.clone())].into(),
            }),
        });
        let (inbox_of_messages, state) = (events.clone(), shared.clone());
        let deliver: Deliver = Arc::new(move |from, received| {
            let mut known = state.known.lock();
            known.heard.insert(from, Instant::now());
            match received {
                Received::Hello(description) => drop(known.described.insert(from, description)),
                Received::Alive => {}
                Received::Message(message) => {
                    drop(known);
                    let _ended = inbox_of_messages.send(Event::Message(from, message));
                }
            }
        });
        let heartbeat = Duration::from_millis(settings.heartbeat);
        let identity = Identity {
            id: options.id,
            members: &options.members,
            secret: &options.secret,
            description: options.description,
        };
        let transport = Transport::start(identity, heartbeat, options.listener, deliver)?;
        let mut runner = Runner {
            actions: actions(&durable, Inputs(events.clone())),
            member: Member::new(settings, durable),
            file,
            transport,
            shared: shared.clone(),
            began: Instant::now(),
        };
        let thread = threads::spawn(Role::Failover, move || runner.run(&inbox, heartbeat / 2))?;
        Ok(Node {
            shared,
            events,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Gives an input to the state machine.
    pub fn input(&self, input: Input) {
        let _ended = self.events.send(Event::Input(input));
    }

    /// Ends the thread; the member is silent then.
    pub fn stop(&self) {
        let _ended = self.events.send(Event::Stop);
        if let Some(thread) = self.thread.lock().take() {
            // Its panic ends the process.
            let _ = thread.join();
        }
    }

    /// The present state.
    #[must_use]
    pub fn status(&self) -> GroupStatus {
        let shared = &self.shared;
        let known = shared.known.lock();
        let member = |(id, address): (MemberId, &MemberAddress)| {
            let last_contact = if id == shared.id {
                Some(Duration::ZERO)
            } else {
                known.heard.get(&id).map(Instant::elapsed)
            };
            let is_heard = last_contact.is_some_and(|time| time < shared.timeout);
            let role = match (address.mysql_port, known.leader == Some(id)) {
                _ if id == shared.id => known.role,
                (None, _) => MemberRole::Witness,
                (Some(_), true) => MemberRole::Leader,
                (Some(_), false) => MemberRole::Follower,
            };
            MemberStatus {
                id,
                host: address.host.clone(),
                port: address.mysql_port.unwrap_or(address.port),
                is_witness: address.mysql_port.is_none(),
                role: is_heard.then_some(role),
                is_in_sync: known.durable.view.in_sync.contains(&id),
                last_contact,
                description: known.described.get(&id).cloned(),
            }
        };
        GroupStatus {
            id: shared.id,
            role: known.role,
            epoch: known.durable.epoch,
            view: (known.durable.view.epoch, known.durable.view.number),
            leader: known.leader,
            has_majority: known.has_majority,
            changes: known.changes,
            members: shared.members.iter().map(member).collect(),
        }
    }
}

/// Times of the state machine: ten heartbeats in the failure timeout. Election timeouts of servers differ, so that they do not
/// split the votes.
fn settings(options: &NodeOptions<'_>) -> Settings {
    let silence = u64::try_from(options.timeout.as_millis()).unwrap_or(u64::MAX);
    let servers = options.members.servers();
    let rank = servers.iter().position(|id| *id == options.id).unwrap_or(0) as u64;
    Settings {
        id: options.id,
        members: options.members.ids(),
        servers,
        heartbeat: (silence / 10).max(2),
        silence,
        patience: silence + silence / 10 + rank * silence / 4,
    }
}

fn role_without_leader(settings: &Settings) -> MemberRole {
    if settings.servers.contains(&settings.id) {
        MemberRole::Candidate
    } else {
        MemberRole::Witness
    }
}

struct Runner {
    member: Member,
    file: StateFile,
    transport: Transport,
    actions: Box<dyn Actions>,
    shared: Arc<Shared>,
    began: Instant,
}

impl Runner {
    fn run(&mut self, inbox: &Receiver<Event>, period: Duration) {
        let mut next = Instant::now();
        loop {
            let wait = next.saturating_duration_since(Instant::now());
            match inbox.recv_timeout(wait) {
                Ok(Event::Message(from, message)) => self.step(Input::Receive(from, message)),
                Ok(Event::Input(input)) => self.step(input),
                Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    next = Instant::now() + period;
                    let now = self.began.elapsed().as_millis();
                    self.step(Input::Tick(u64::try_from(now).unwrap_or(u64::MAX)));
                    for input in self.actions.tick(&self.member) {
                        self.step(input);
                    }
                }
            }
        }
    }

    fn step(&mut self, input: Input) {
        for output in self.member.step(input) {
            match output {
                Output::StopFollowing => self.actions.stop_following(),
                Output::StepDown => self.actions.step_down(),
                Output::Store(state) => self.store(&state),
                Output::Send(to, message) => self.transport.send(to, &message),
                Output::Follow(leader, epoch) => {
                    tracing::info!(leader, epoch, "failover: this member follows the leader");
                    self.actions.follow(leader, epoch);
                }
                Output::Lead(epoch) => {
                    tracing::info!(epoch, "failover: this member is elected");
                    self.actions.lead(epoch);
                }
                Output::Require(members) => {
                    tracing::info!(?members, "failover: commits wait for these members");
                    self.actions.require(&members);
                }
            }
        }
        self.publish();
    }

    /// Writes the state; retries until that succeeds. The member is silent meanwhile.
    fn store(&self, state: &Durable) {
        let mut is_reported = false;
        while let Err(error) = self.file.store(state) {
            if !is_reported {
                tracing::error!(%error, "failover: the state cannot be written; this member is silent until it can");
                is_reported = true;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn publish(&self) {
        let mut known = self.shared.known.lock();
        let leader = self.member.leader();
        if leader.is_some() && leader != known.leader {
            known.changes += 1;
        }
        let durable = self.member.durable();
        if known.durable != *durable {
            known.durable.clone_from(durable);
        }
        known.leader = leader;
        known.has_majority = self.member.hears_majority();
        known.role = match known.role {
            MemberRole::Witness => MemberRole::Witness,
            _ if self.member.is_leader() => MemberRole::Leader,
            _ if leader.is_some() => MemberRole::Follower,
            _ => MemberRole::Candidate,
        };
    }
}
