//! Elects the server of a group that is the source: a pure state machine, without clock, disk and network.
//!
//! The members of a group are servers and witnesses. Each has one [`Member`]; the caller passes events to it
//! ([`Input`]) and executes its outputs ([`Output`]), in their order and completely before the next input. Time is a number that
//! the caller gives with each tick; it decides when something is tried, never whether it is safe.
//!
//! Leaders are elected by majorities, one per epoch, as in Raft (an epoch is Raft's term). The log is MySQL's, not Raft's: it is
//! replicated from the leader to each server by MySQL's protocol, and the group does not agree on its entries. Instead it agrees
//! on the *view*: the servers that have every acknowledged commit, as Kafka's in-sync replicas.
//!
//! ```text
//! Example: servers A and B, witness W. A view is written epoch.number {members in sync}.
//!
//! what happens                 newest view       effect
//! A leads epoch 1              1.1 {A, B}        B must acknowledge each commit
//! B fails                      1.2 {A}           A proposes it, A and W accept it: A commits without acknowledgement
//! A fails, B comes back        1.2 {A}           no leader: W does not vote for B, whose view 1.1 is older
//! A comes back                 2.1 {A}           A is elected again; once B has caught up: 2.2 {A, B}
//! ```
//!
//! Before a member begins an epoch, it requests votes for a *probe* (Raft's pre-vote), which changes no member's state. So a
//! member that was cut off or paused does not end the epoch of a working leader.
//!
//! A member without a state is *blank*: it is new, or has lost its disk. One that has discarded its data, to copy those of the leader,
//! is *incomplete*. Neither accepts a view that names it: the leader first proposes one without it, and adds it again
//! once it has caught up.
//!
//! Invariants:
//! 1. *One leader an epoch.* A member votes once an epoch, and its vote is on disk before it is sent.
//! 2. *Every view ever proposed names only members that have every acknowledged commit*, and until a majority has accepted a
//!    later view they also have every commit acknowledged later: a leader requires the acknowledgement of the members of the
//!    last accepted view and of all views that it has proposed since; a member that joins is required before it is proposed.
//! 3. *A leader is a member of the newest accepted view.* A member becomes a candidate only if it is in the newest view that it has
//!    accepted, and others vote for it only if theirs is not newer. A view counts as accepted once a majority has it on disk, and every
//!    majority that votes later has a member in common with that one.
//! 4. *A new leader acknowledges nothing before a majority has accepted its first view*, which takes the place of all
//!    those of earlier epochs.
//! 5. *A member that enters an epoch has stopped following the leader of the earlier one*, which gets no acknowledgement from it.
//! 6. *Votes of blank members do not make a majority that could have missed a view*: a candidate counts them only if all members
//!    vote for it, or if it has no view itself, as in a group that begins.
//!
//! From 2, 3 and 4: a leader has every acknowledged commit. From 1 and 5: no two servers acknowledge in one epoch, and a former
//! leader whose view names others acknowledges nothing once they have entered a later one. Neither needs a clock: a former leader that was
//! paused gets no acknowledgements when it continues.
//!
//! Rejected: Raft for the log itself (a second log beside MySQL's, and no stock followers); leases by clocks as the safeguard (a pause
//! between the check and the reply breaks them); an external etcd (three more processes to operate; the state is a hundred bytes).

use std::collections::BTreeSet;

mod codec;
pub mod following;

/// Number of a member, its `server_id`.
pub type MemberId = u32;

/// The members that have every acknowledged commit. A later view has a greater epoch, or the same epoch and a greater number.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct View {
    /// Epoch of the leader that proposed it.
    pub epoch: u64,
    /// Number within the epoch.
    pub number: u64,
    /// The members.
    pub in_sync: BTreeSet<MemberId>,
}

impl View {
    fn id(&self) -> (u64, u64) {
        (self.epoch, self.number)
    }
}

/// The state that a member writes to disk before it sends messages that depend on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durable {
    /// The greatest epoch known.
    pub epoch: u64,
    /// The member that has its vote in that epoch.
    pub voted_for: Option<MemberId>,
    /// The newest view accepted.
    pub view: View,
    /// Whether the member has discarded data, and its view still names it.
    pub is_incomplete: bool,
    /// Random number of the member's data. A member that discards its data takes another one, which voids its earlier
    /// acknowledgements.
    pub incarnation: u64,
}

impl Durable {
    /// The state of a member that is new in a group: the data are those of `first`.
    #[must_use]
    pub fn blank(first: MemberId, incarnation: u64) -> Durable {
        Durable {
            incarnation,
            view: View {
                in_sync: [first].into(),
                ..View::default()
            },
            ..Durable::default()
        }
    }

    /// Whether no leader of the group is known.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.view.id() == (0, 0)
    }
}

/// A message between members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The sender asks for a vote.
    RequestVote {
        /// The epoch that it wants to lead.
        epoch: u64,
        /// Epoch and number of its view.
        view: (u64, u64),
        /// Whether this is a probe: the vote is not bound.
        is_probe: bool,
        /// Whether an operator has requested the election: it replaces a working leader, too.
        is_forced: bool,
    },
    /// The answer.
    Vote {
        /// Epoch of the voter.
        epoch: u64,
        /// Whether the vote is given.
        granted: bool,
        /// Whether this answers a probe.
        is_probe: bool,
        /// Whether the voter is blank.
        is_blank: bool,
    },
    /// The sender leads.
    Heartbeat {
        /// Its epoch.
        epoch: u64,
        /// Its newest view.
        view: View,
        /// The number of the receiver's data, as the leader knows it; 0: unknown. If the view names the receiver, it means these data.
        incarnation: u64,
    },
    /// The answer.
    Accepted {
        /// Epoch of the member; greater if the sender of the heartbeat leads no more.
        epoch: u64,
        /// Epoch and number of the newest view of the member.
        view: (u64, u64),
        /// Whether the view names the member, which lacks the data.
        is_incomplete: bool,
        /// Number of its data.
        incarnation: u64,
    },
}

/// An event of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Time of the caller's clock, in milliseconds. A value below an earlier one counts as no time passed.
    Tick(u64),
    /// A message has arrived.
    Receive(MemberId, Message),
    /// On a leader: this member follows, and lacks little.
    Replicates(MemberId),
    /// On a leader: this member answers, but does not follow.
    Stalls(MemberId),
    /// On a leader: this member has on its disk everything that was acknowledged, and acknowledges all since it was required.
    CaughtUp(MemberId),
    /// The member is about to discard its data; the number of its new data.
    Discard(u64),
    /// An operator lets the member lead this epoch, greater than all that it knows of, with the data that it has.
    Force(u64),
}

/// An action that the caller must execute, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Stop following and acknowledging any leader before executing the next output.
    StopFollowing,
    /// On a former leader: acknowledge no further commit to clients, and refuse writes.
    StepDown,
    /// Write this to disk and sync it before executing the next output.
    Store(Durable),
    /// Send a message. It may be lost.
    Send(MemberId, Message),
    /// Follow this member, which leads this epoch.
    Follow(MemberId, u64),
    /// Lead this epoch. No commit is acknowledged before the first [`Output::Require`].
    Lead(u64),
    /// On a leader: from now on commits are acknowledged once all these members have them on disk.
    Require(BTreeSet<MemberId>),
}

/// Settings, the same for all members but for `patience`.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Number of this member.
    pub id: MemberId,
    /// All members, this one included.
    pub members: BTreeSet<MemberId>,
    /// Those that can lead; the others are witnesses.
    pub servers: BTreeSet<MemberId>,
    /// Time between two heartbeats.
    pub heartbeat: u64,
    /// Failure timeout: silence of a leader after which a member votes for another one, and of a member after which the leader
    /// proposes a view without it.
    pub silence: u64,
    /// Election timeout: silence of a leader after which this member stands for election; more than `silence`, and different
    /// on each member.
    pub patience: u64,
}

/// A leader's knowledge of another member.
#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    heard: u64,
    accepted: (u64, u64),
    /// Whether it follows, and lacks little.
    replicates: bool,
    /// Whether it answers but does not follow.
    stalls: bool,
    is_incomplete: bool,
    incarnation: Option<u64>,
    /// Whether the member has discarded the data that it had when the view was proposed.
    is_changed: bool,
}

impl Peer {
    /// Whether the member answers, follows, and has the data that the view means.
    fn is_sound(&self, now: u64, silence: u64) -> bool {
        let is_heard = now.saturating_sub(self.heard) < silence;
        is_heard && !self.stalls && !self.is_incomplete && !self.is_changed
    }
}

#[derive(Debug)]
struct Leadership {
    /// The last view that a majority has accepted; `None` before the first.
    accepted: Option<View>,
    /// Views proposed since, oldest first.
    proposed: Vec<View>,
    /// A member that is required and is catching up.
    joining: Option<MemberId>,
    peers: Vec<(MemberId, Peer)>,
    /// The last [`Output::Require`].
    required: Option<BTreeSet<MemberId>>,
    sent: u64,
}

#[derive(Debug)]
enum Role {
    Follower {
        leader: Option<MemberId>,
    },
    /// Requests votes for a probe.
    Prober {
        votes: Votes,
    },
    Candidate {
        votes: Votes,
    },
    Leader(Box<Leadership>),
}

/// Votes for a member.
#[derive(Debug, Default)]
struct Votes {
    all: BTreeSet<MemberId>,
    blank: BTreeSet<MemberId>,
}

/// A member of a group.
#[derive(Debug)]
pub struct Member {
    settings: Settings,
    durable: Durable,
    role: Role,
    now: u64,
    is_started: bool,
    /// Whether an operator has requested the present candidature.
    is_forced: bool,
    /// Time of the last sign of a leader, or of the start of the present candidature.
    heard: u64,
    out: Vec<Output>,
}

impl Member {
    /// A member that starts with the state that it has on disk, as a follower without a leader. In a new group all members
    /// have the same [`Durable`], whose view names the servers that have the data.
    #[must_use]
    pub fn new(settings: Settings, durable: Durable) -> Member {
        Member {
            settings,
            durable,
            role: Role::Follower { leader: None },
            now: 0,
            is_started: false,
            is_forced: false,
            heard: 0,
            out: Vec::new(),
        }
    }

    /// The state that the member keeps on disk.
    #[must_use]
    pub fn durable(&self) -> &Durable {
        &self.durable
    }

    /// Whether the member leads.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        matches!(self.role, Role::Leader(_))
    }

    /// The member that leads, as far as this one knows.
    #[must_use]
    pub fn leader(&self) -> Option<MemberId> {
        match &self.role {
            Role::Follower { leader } => *leader,
            Role::Leader(_) => Some(self.settings.id),
            Role::Prober { .. } | Role::Candidate { .. } => None,
        }
    }

    /// Of a leader: the number of another member's data. Only what was acknowledged of these counts.
    #[must_use]
    pub fn incarnation_of(&self, member: MemberId) -> Option<u64> {
        let Role::Leader(leadership) = &self.role else {
            return None;
        };
        let found = leadership.peers.iter().find(|(id, _)| *id == member);
        found.and_then(|(_, peer)| peer.incarnation)
    }

    /// Of a leader: whether a majority answers, itself included.
    #[must_use]
    pub fn hears_majority(&self) -> bool {
        let Role::Leader(leadership) = &self.role else {
            return false;
        };
        let silence = self.settings.silence;
        let heard = leadership.peers.iter();
        let heard = heard.filter(|(_, peer)| self.now.saturating_sub(peer.heard) < silence);
        heard.count() + 1 >= self.majority()
    }

    /// Takes an input. Returns what is to be done.
    pub fn step(&mut self, input: Input) -> Vec<Output> {
        match input {
            Input::Tick(now) => self.tick(now),
            Input::Receive(from, message) if self.settings.members.contains(&from) => {
                self.receive(from, message);
            }
            Input::Receive(..) => {}
            Input::Replicates(member) => self.note(member, |peer| {
                (peer.replicates, peer.stalls) = (true, false);
            }),
            Input::Stalls(member) => self.note(member, |peer| {
                (peer.replicates, peer.stalls) = (false, true);
            }),
            Input::CaughtUp(member) => self.caught_up(member),
            Input::Discard(incarnation) => {
                self.durable.is_incomplete = true;
                self.durable.incarnation = incarnation;
                self.store();
            }
            Input::Force(epoch) => self.force(epoch),
        }
        std::mem::take(&mut self.out)
    }

    fn majority(&self) -> usize {
        self.settings.members.len() / 2 + 1
    }

    fn send_to_others(&mut self, message: &Message) {
        let id = self.settings.id;
        let others = self.settings.members.iter().filter(|member| **member != id);
        let messages = others.map(|member| Output::Send(*member, message.clone()));
        self.out.extend(messages);
    }

    fn store(&mut self) {
        self.out.push(Output::Store(self.durable.clone()));
    }

    /// Enters an epoch as a follower.
    fn enter(&mut self, epoch: u64, voted_for: Option<MemberId>) {
        self.out.push(Output::StopFollowing);
        if self.is_leader() {
            self.out.push(Output::StepDown);
        }
        self.role = Role::Follower { leader: None };
        (self.durable.epoch, self.durable.voted_for) = (epoch, voted_for);
        self.store();
    }

    fn tick(&mut self, now: u64) {
        let passed = now.saturating_sub(self.now);
        self.now = self.now.max(now);
        if !self.is_started {
            (self.is_started, self.heard) = (true, self.now);
        } else if passed >= self.settings.silence / 2 {
            // This member was paused and received no messages: the silence says nothing about the other members.
            self.heard = self.now;
            if let Role::Leader(leadership) = &mut self.role {
                for (_, peer) in &mut leadership.peers {
                    peer.heard = now;
                }
            }
        }
        if self.is_leader() {
            self.lead();
        } else if self.now - self.heard >= self.settings.patience && self.may_lead() {
            self.probe();
        }
    }

    /// Whether the member has everything that was acknowledged, as far as it knows.
    fn may_lead(&self) -> bool {
        let id = self.settings.id;
        self.settings.servers.contains(&id)
            && self.durable.view.in_sync.contains(&id)
            && !self.durable.is_incomplete
    }

    fn own_vote(&self) -> Votes {
        let mut votes = Votes::default();
        votes.all.insert(self.settings.id);
        votes
    }

    fn request_votes(&mut self, epoch: u64, is_probe: bool) {
        let view = self.durable.view.id();
        self.send_to_others(&Message::RequestVote {
            epoch,
            view,
            is_probe,
            is_forced: self.is_forced,
        });
    }

    /// Requests votes for a probe.
    fn probe(&mut self) {
        self.heard = self.now;
        self.role = Role::Prober {
            votes: self.own_vote(),
        };
        self.request_votes(self.durable.epoch + 1, true);
        self.count_votes();
    }

    /// Asks for the votes of a new epoch.
    fn stand(&mut self) {
        self.heard = self.now;
        self.enter(self.durable.epoch + 1, Some(self.settings.id));
        self.role = Role::Candidate {
            votes: self.own_vote(),
        };
        self.request_votes(self.durable.epoch, false);
        self.count_votes();
    }

    /// Becomes a candidate with a view of its own, which is newer than all others.
    fn force(&mut self, epoch: u64) {
        if epoch <= self.durable.epoch || !self.settings.servers.contains(&self.settings.id) {
            return;
        }
        self.durable.epoch = epoch - 1;
        self.durable.is_incomplete = false;
        self.durable.view = View {
            epoch,
            number: 0,
            in_sync: [self.settings.id].into(),
        };
        self.is_forced = true;
        self.stand();
        self.is_forced = false;
    }

    /// Whether these votes make a leader.
    fn is_elected(&self, votes: &Votes) -> bool {
        let counted = if self.durable.is_blank() {
            votes.all.len()
        } else {
            votes.all.len() - votes.blank.len()
        };
        counted >= self.majority() || votes.all.len() == self.settings.members.len()
    }

    fn count_votes(&mut self) {
        match &self.role {
            Role::Prober { votes } if self.is_elected(votes) => self.stand(),
            Role::Candidate { votes } if self.is_elected(votes) => {
                let voters = votes.all.clone();
                self.begin_to_lead(&voters);
            }
            _ => {}
        }
    }

    fn begin_to_lead(&mut self, voters: &BTreeSet<MemberId>) {
        let id = self.settings.id;
        // A member that has not voted may be the lost leader: commits wait for it for a shorter time than for others.
        let early = self.now.saturating_sub(self.settings.silence * 3 / 4);
        let peer = |member: &MemberId| Peer {
            heard: match voters.contains(member) {
                true => self.now,
                false => early,
            },
            ..Peer::default()
        };
        let others = self.settings.members.iter().filter(|member| **member != id);
        let peers = others.map(|member| (*member, peer(member))).collect();
        let first = View {
            epoch: self.durable.epoch,
            number: 1,
            in_sync: self.durable.view.in_sync.clone(),
        };
        self.durable.view = first.clone();
        self.store();
        self.out.push(Output::Lead(self.durable.epoch));
        self.role = Role::Leader(Box::new(Leadership {
            accepted: None,
            proposed: vec![first],
            joining: None,
            peers,
            required: None,
            sent: self.now,
        }));
        self.send_heartbeats();
        self.count_accepted();
    }

    /// Records how a member follows.
    fn note(&mut self, member: MemberId, change: impl FnOnce(&mut Peer)) {
        if let Role::Leader(leadership) = &mut self.role
            && let Some((_, peer)) = leadership.peers.iter_mut().find(|(id, _)| *id == member)
        {
            change(peer);
        }
    }

    fn send_heartbeats(&mut self) {
        if let Role::Leader(leadership) = &mut self.role {
            leadership.sent = self.now;
        }
        let Role::Leader(leadership) = &self.role else {
            return;
        };
        for (member, peer) in &leadership.peers {
            let heartbeat = Message::Heartbeat {
                epoch: self.durable.epoch,
                view: self.durable.view.clone(),
                incarnation: peer.incarnation.unwrap_or(0),
            };
            self.out.push(Output::Send(*member, heartbeat));
        }
    }

    /// The work of a leader at a tick.
    fn lead(&mut self) {
        let majority = self.majority();
        let Role::Leader(leadership) = &mut self.role else {
            return;
        };
        let (now, silence) = (self.now, self.settings.silence);
        let heard = leadership.peers.iter();
        let heard = heard.filter(|(_, peer)| now.saturating_sub(peer.heard) < 2 * silence);
        if heard.count() + 1 < majority {
            return self.resign();
        }
        let peers = leadership.peers.iter();
        let sound = peers.filter(|(_, peer)| peer.is_sound(now, silence));
        let sound: BTreeSet<MemberId> = sound.map(|(member, _)| *member).collect();
        let joining = leadership.joining;
        if joining.is_some_and(|member| !sound.contains(&member)) {
            leadership.joining = None;
        }
        let id = self.settings.id;
        let in_sync = self.durable.view.in_sync.clone();
        for (member, peer) in &mut leadership.peers {
            peer.is_changed &= in_sync.contains(member);
        }
        let left = in_sync.iter().copied();
        let left: BTreeSet<MemberId> = left.filter(|m| *m == id || sound.contains(m)).collect();
        if left != in_sync {
            self.propose(left);
        } else if leadership.joining.is_none() && leadership.accepted.is_some() {
            let servers = &self.settings.servers;
            let mut ready = leadership.peers.iter().filter(|(member, peer)| {
                peer.replicates
                    && sound.contains(member)
                    && servers.contains(member)
                    && !in_sync.contains(member)
            });
            leadership.joining = ready.next().map(|(member, _)| *member);
        }
        self.require();
        let Role::Leader(leadership) = &self.role else {
            return;
        };
        if self.now - leadership.sent >= self.settings.heartbeat {
            self.send_heartbeats();
        }
    }

    /// Ends a leadership without a majority. If the others receive this member's heartbeats but cannot answer, its silence lets
    /// them elect another leader.
    fn resign(&mut self) {
        self.out.push(Output::StepDown);
        self.role = Role::Follower { leader: None };
        self.heard = self.now;
    }

    fn propose(&mut self, in_sync: BTreeSet<MemberId>) {
        let Role::Leader(leadership) = &mut self.role else {
            return;
        };
        self.durable.view = View {
            epoch: self.durable.epoch,
            number: self.durable.view.number + 1,
            in_sync,
        };
        leadership.proposed.push(self.durable.view.clone());
        // The members of the new view are required before any member can accept it.
        self.require();
        self.store();
        self.send_heartbeats();
        self.count_accepted();
    }

    /// Outputs the members whose acknowledgements are required, if they have changed.
    fn require(&mut self) {
        let id = self.settings.id;
        let Role::Leader(leadership) = &mut self.role else {
            return;
        };
        let Some(accepted) = &leadership.accepted else {
            return;
        };
        let views = leadership.proposed.iter().chain([accepted]);
        let mut required: BTreeSet<MemberId> = views
            .flat_map(|view| view.in_sync.iter().copied())
            .collect();
        required.extend(leadership.joining);
        required.remove(&id);
        if leadership.required.as_ref() != Some(&required) {
            leadership.required = Some(required.clone());
            self.out.push(Output::Require(required));
        }
    }

    /// Finds the newest view that a majority has accepted.
    fn count_accepted(&mut self) {
        let majority = self.majority();
        let Role::Leader(leadership) = &mut self.role else {
            return;
        };
        let peers = &leadership.peers;
        let is_accepted = |view: &View| {
            let others = peers.iter().filter(|(_, peer)| peer.accepted >= view.id());
            others.count() + 1 >= majority
        };
        if let Some(at) = leadership.proposed.iter().rposition(is_accepted) {
            leadership.accepted = leadership.proposed.drain(..=at).next_back();
            self.require();
        }
    }

    fn caught_up(&mut self, member: MemberId) {
        let Role::Leader(leadership) = &mut self.role else {
            return;
        };
        if leadership.joining != Some(member) {
            return;
        }
        let mut in_sync = self.durable.view.in_sync.clone();
        in_sync.insert(member);
        self.propose(in_sync);
        if let Role::Leader(leadership) = &mut self.role {
            leadership.joining = None;
        }
        self.require();
    }

    fn receive(&mut self, from: MemberId, message: Message) {
        match message {
            Message::RequestVote {
                epoch,
                view,
                is_probe,
                is_forced,
            } => self.vote(from, (epoch, view), is_probe, is_forced),
            Message::Vote {
                epoch,
                granted,
                is_probe,
                is_blank,
            } => {
                if epoch > self.durable.epoch {
                    self.enter(epoch, None);
                } else if granted && epoch == self.durable.epoch {
                    let votes = match &mut self.role {
                        Role::Prober { votes } if is_probe => votes,
                        Role::Candidate { votes } if !is_probe => votes,
                        _ => return,
                    };
                    votes.all.insert(from);
                    if is_blank {
                        votes.blank.insert(from);
                    }
                    self.count_votes();
                }
            }
            Message::Heartbeat {
                epoch,
                view,
                incarnation,
            } => self.heartbeat(from, epoch, view, incarnation),
            Message::Accepted {
                epoch,
                view,
                is_incomplete,
                incarnation,
            } => {
                if epoch > self.durable.epoch {
                    self.enter(epoch, None);
                    return;
                }
                let now = self.now;
                if epoch == self.durable.epoch {
                    self.note(from, |peer| {
                        peer.heard = now;
                        peer.accepted = peer.accepted.max(view);
                        peer.is_incomplete = is_incomplete;
                        if peer.incarnation.is_some_and(|known| known != incarnation) {
                            (peer.is_changed, peer.replicates) = (true, false);
                        }
                        peer.incarnation = Some(incarnation);
                    });
                    self.count_accepted();
                }
            }
        }
    }

    fn vote(
        &mut self,
        from: MemberId,
        (epoch, view): (u64, (u64, u64)),
        is_probe: bool,
        is_forced: bool,
    ) {
        let is_led = match &self.role {
            _ if is_forced => false,
            Role::Leader(_) => true,
            Role::Follower { leader } => {
                leader.is_some() && self.now - self.heard < self.settings.silence
            }
            Role::Prober { .. } | Role::Candidate { .. } => false,
        };
        let is_new = epoch > self.durable.epoch;
        let is_repeated = epoch == self.durable.epoch && self.durable.voted_for == Some(from);
        let is_blank = self.durable.is_blank();
        // A member with a live leader does not vote for another candidate. A vote is not repeated for a candidate whose view has
        // become older meanwhile.
        let may_lead = view >= self.durable.view.id();
        let granted = may_lead && ((is_new && !is_led) || is_repeated);
        if granted && is_new && !is_probe {
            self.enter(epoch, Some(from));
            self.heard = self.now;
        }
        // The answer to a probe must not let the prober enter an epoch.
        let epoch = match is_probe && granted {
            true => epoch - 1,
            false => self.durable.epoch,
        };
        let vote = Message::Vote {
            epoch,
            granted,
            is_probe,
            is_blank,
        };
        self.out.push(Output::Send(from, vote));
    }

    fn heartbeat(&mut self, from: MemberId, epoch: u64, view: View, incarnation: u64) {
        let mut is_incomplete = false;
        if epoch >= self.durable.epoch {
            if epoch > self.durable.epoch {
                self.enter(epoch, None);
            }
            self.heard = self.now;
            let counts_on_it = view.in_sync.contains(&self.settings.id);
            let is_known = incarnation == self.durable.incarnation;
            let lacks_data = self.durable.is_incomplete || self.durable.is_blank();
            is_incomplete = counts_on_it && lacks_data;
            if !is_incomplete && (is_known || !counts_on_it) && view >= self.durable.view {
                let is_complete = is_known && !counts_on_it;
                if view > self.durable.view || (self.durable.is_incomplete && is_complete) {
                    self.durable.view = view;
                    self.durable.is_incomplete &= !is_complete;
                    self.store();
                }
            }
            let is_followed =
                matches!(self.role, Role::Follower { leader } if leader == Some(from));
            if !is_followed {
                self.role = Role::Follower { leader: Some(from) };
                if self.settings.servers.contains(&self.settings.id) {
                    self.out.push(Output::Follow(from, epoch));
                }
            }
        }
        let accepted = Message::Accepted {
            epoch: self.durable.epoch,
            view: self.durable.view.id(),
            is_incomplete: is_incomplete || self.durable.is_incomplete,
            incarnation: self.durable.incarnation,
        };
        self.out.push(Output::Send(from, accepted));
    }
}
