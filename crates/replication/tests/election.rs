//! Simulation of groups: the state machine of elections with servers that replicate a log, under kills, partitions, lost and
//! late messages, pauses and clocks that jump. Everything is derived from a seed.
//!
//! Checked at every step: at most one server acknowledges commits in an epoch, and it has every commit that was acknowledged in this
//! or an earlier epoch. At the end of each run all faults are healed, and a new commit must be acknowledged.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it does not expect"
)]

use porpoise_replication::election::{Durable, Input, Member, MemberId, Message, Output, Settings};
use std::collections::{BTreeMap, BTreeSet};

/// Xorshift, so that a seed gives the same run everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// A commit: its epoch, and a number that no other has.
type Commit = (u64, u64);

/// A member with its data.
struct Node {
    settings: Settings,
    /// `None` while it is down.
    member: Option<Member>,
    /// On its disk.
    durable: Durable,
    log: Vec<Commit>,
    /// Its clock.
    clock: u64,
    /// Steps for which it does nothing.
    paused: u64,
    /// The leader that it follows, and its epoch.
    follows: Option<(MemberId, u64)>,
    /// As a leader: its epoch, and the members whose acknowledgements are required.
    leads: Option<u64>,
    required: Option<BTreeSet<MemberId>>,
    /// Lengths of the log that others have acknowledged, with the numbers of their data.
    acks: BTreeMap<MemberId, (u64, usize)>,
    /// Length up to which its own commits are acknowledged to clients.
    acknowledged: usize,
}

#[derive(Clone, Debug)]
enum Packet {
    Election(Message),
    /// The leader's log, of an epoch.
    Log(u64, Vec<Commit>),
    /// Epoch, number of the follower's data, and the length of the log that it has on its disk, equal to the leader's.
    Ack(u64, u64, usize),
}

struct Simulation {
    random: Random,
    nodes: BTreeMap<MemberId, Node>,
    /// Sender, receiver, contents, steps until it arrives.
    packets: Vec<(MemberId, MemberId, Packet, u64)>,
    /// Members that cannot reach the others.
    cut: BTreeSet<MemberId>,
    /// Every commit that was acknowledged to a client, with the epoch of the first acknowledgement.
    promised: BTreeMap<Commit, u64>,
    /// The member that has acknowledged commits in an epoch.
    leaders: BTreeMap<u64, MemberId>,
    next: u64,
    has_faults: bool,
}

impl Simulation {
    fn new(seed: u64, servers: u32, witnesses: u32) -> Simulation {
        let members: BTreeSet<MemberId> = (1..=servers + witnesses).collect();
        let servers: BTreeSet<MemberId> = (1..=servers).collect();
        let node = |id: MemberId| Node {
            settings: Settings {
                id,
                members: members.clone(),
                servers: servers.clone(),
                heartbeat: 20,
                silence: 100,
                patience: 110 + u64::from(id) * 35,
            },
            member: None,
            durable: Durable::blank(1, u64::from(id)),
            log: Vec::new(),
            clock: 1000 * u64::from(id),
            paused: 0,
            follows: None,
            leads: None,
            required: None,
            acks: BTreeMap::new(),
            acknowledged: 0,
        };
        Simulation {
            random: Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            nodes: members.iter().map(|id| (*id, node(*id))).collect(),
            packets: Vec::new(),
            cut: BTreeSet::new(),
            promised: BTreeMap::new(),
            leaders: BTreeMap::new(),
            next: 0,
            has_faults: true,
        }
    }

    fn send(&mut self, from: MemberId, to: MemberId, packet: Packet) {
        if self.has_faults && self.random.chance(5) {
            return;
        }
        let delay = match self.random.chance(5) && self.has_faults {
            true => self.random.below(300),
            false => self.random.below(4),
        };
        self.packets.push((from, to, packet, delay));
    }

    fn input(&mut self, id: MemberId, input: Input) {
        let node = self.nodes.get_mut(&id).unwrap();
        let Some(member) = &mut node.member else {
            return;
        };
        for output in member.step(input) {
            let node = self.nodes.get_mut(&id).unwrap();
            match output {
                Output::StopFollowing => node.follows = None,
                Output::StepDown => (node.leads, node.required) = (None, None),
                Output::Store(durable) => node.durable = durable,
                Output::Send(to, message) => self.send(id, to, Packet::Election(message)),
                Output::Follow(leader, epoch) => node.follows = Some((leader, epoch)),
                Output::Lead(epoch) => {
                    node.follows = None;
                    (node.leads, node.required) = (Some(epoch), None);
                    (node.acks, node.acknowledged) = (BTreeMap::new(), 0);
                }
                Output::Require(members) => node.required = Some(members),
            }
        }
    }

    fn arrive(&mut self, from: MemberId, to: MemberId, packet: Packet) {
        if self.nodes[&to].member.is_none() {
            return;
        }
        match packet {
            Packet::Election(message) => self.input(to, Input::Receive(from, message)),
            Packet::Log(epoch, log) => {
                let node = self.nodes.get_mut(&to).unwrap();
                // A late copy of the leader's log is shorter: it must not take away what was acknowledged since.
                if node.follows != Some((from, epoch)) || node.log.starts_with(&log) {
                    return;
                }
                node.log = log;
                let (length, incarnation) = (node.log.len(), node.durable.incarnation);
                self.send(to, from, Packet::Ack(epoch, incarnation, length));
            }
            Packet::Ack(epoch, incarnation, length) => {
                let node = self.nodes.get_mut(&to).unwrap();
                if node.leads == Some(epoch) {
                    let acked = node.acks.entry(from).or_default();
                    if acked.0 == incarnation {
                        acked.1 = acked.1.max(length);
                    } else {
                        *acked = (incarnation, length);
                    }
                }
            }
        }
    }

    /// A leader commits, sends its log, and acknowledges what may be acknowledged.
    fn lead(&mut self, id: MemberId) {
        let commits = self.random.chance(40);
        let node = self.nodes.get_mut(&id).unwrap();
        let Some(epoch) = node.leads else {
            return;
        };
        if commits {
            self.next += 1;
            node.log.push((epoch, self.next));
        }
        let log = node.log.clone();
        if self.random.chance(50) {
            let servers = self.nodes[&id].settings.servers.clone();
            for server in servers.into_iter().filter(|server| *server != id) {
                self.send(id, server, Packet::Log(epoch, log.clone()));
            }
        }
        self.acknowledge(id, epoch);
        let node = &self.nodes[&id];
        let required = node.required.clone().unwrap_or_default();
        for member in node.acks.keys().copied().collect::<Vec<_>>() {
            if self.has_faults && self.random.chance(1) {
                self.input(id, Input::Stalls(member));
            } else if self.random.chance(20) {
                self.input(id, Input::Replicates(member));
            }
        }
        for member in required {
            let node = &self.nodes[&id];
            let known = node.member.as_ref().and_then(|m| m.incarnation_of(member));
            let acked = node.acks.get(&member).copied().unwrap_or_default();
            if known == Some(acked.0) && acked.1 >= node.acknowledged.max(1) {
                self.input(id, Input::CaughtUp(member));
            }
        }
    }

    fn acknowledge(&mut self, id: MemberId, epoch: u64) {
        let node = self.nodes.get_mut(&id).unwrap();
        let Some(required) = &node.required else {
            return;
        };
        let acked = |member| node.acks.get(member).map_or(0, |acked| acked.1);
        let length = required.iter().map(acked).min().unwrap_or(node.log.len());
        if length <= node.acknowledged {
            return;
        }
        let log = &node.log;
        let has: BTreeSet<&Commit> = log.iter().collect();
        // A former leader may learn late that its commit is on the disks of all required members.
        for (promised, _) in self.promised.iter().filter(|(_, by)| **by <= epoch) {
            assert!(
                has.contains(promised),
                "{id} acknowledges in epoch {epoch} and lacks {promised:?}"
            );
        }
        let leader = *self.leaders.entry(epoch).or_insert(id);
        assert_eq!(leader, id, "two servers acknowledge in epoch {epoch}");
        for commit in &log[node.acknowledged..length] {
            self.promised.entry(*commit).or_insert(epoch);
        }
        node.acknowledged = length;
    }

    fn fault(&mut self) {
        let ids: Vec<MemberId> = self.nodes.keys().copied().collect();
        let id = ids[self.random.below(ids.len() as u64) as usize];
        let kind = self.random.below(100);
        let jump = self.random.below(5_000);
        let node = self.nodes.get_mut(&id).unwrap();
        match kind {
            0..=24 => {
                node.member = None;
                (node.follows, node.leads, node.required) = (None, None, None);
            }
            25..=49 => node.paused = jump / 10,
            50..=69 => node.clock += jump,
            70..=74 => node.clock = node.clock.saturating_sub(jump),
            75..=87 => drop(self.cut.insert(id)),
            88..=89 => self.discard(id, kind == 88),
            _ => self.cut.clear(),
        }
    }

    /// A member loses its disk, or gives up its data to copy those of the leader.
    fn discard(&mut self, id: MemberId, with_state: bool) {
        let views: BTreeSet<_> = self
            .nodes
            .values()
            .map(|n| n.durable.view.clone())
            .collect();
        let is_settled = views.len() == 1 && views.iter().all(|view| view.in_sync.len() > 1);
        let incarnation = self.random.next();
        if with_state {
            // More than one such loss at a time, or that of the only data, is more than a group bears.
            let is_whole = self.nodes.values().all(|node| !node.durable.is_blank());
            if !is_settled || !is_whole {
                return;
            }
            let node = self.nodes.get_mut(&id).unwrap();
            node.durable = Durable::blank(1, incarnation);
        } else {
            let node = &self.nodes[&id];
            let member = node.member.as_ref();
            let leads = member.is_none_or(Member::is_leader);
            if leads || node.paused > 0 || node.follows.is_none() {
                return;
            }
            self.nodes.get_mut(&id).unwrap().follows = None;
            self.input(id, Input::Discard(incarnation));
        }
        // It starts again, with what it has now.
        let node = self.nodes.get_mut(&id).unwrap();
        node.log.clear();
        node.member = None;
        (node.follows, node.leads, node.required) = (None, None, None);
    }

    fn step(&mut self) {
        if self.has_faults && self.random.chance(1) {
            self.fault();
        }
        let mut due = Vec::new();
        let cut = &self.cut;
        self.packets.retain_mut(|(from, to, packet, delay)| {
            if *delay > 0 {
                *delay -= 1;
                return true;
            }
            if !cut.contains(from) && !cut.contains(to) {
                due.push((*from, *to, packet.clone()));
            }
            false
        });
        for (from, to, packet) in due {
            match self.nodes[&to].paused {
                0 => self.arrive(from, to, packet),
                paused => self.packets.push((from, to, packet, paused)),
            }
        }
        let ids: Vec<MemberId> = self.nodes.keys().copied().collect();
        for id in ids {
            let restarts = self.random.chance(if self.has_faults { 1 } else { 50 });
            let node = self.nodes.get_mut(&id).unwrap();
            node.clock += 5;
            if node.paused > 0 {
                node.paused -= 1;
                continue;
            }
            if node.member.is_none() && restarts {
                let member = Member::new(node.settings.clone(), node.durable.clone());
                node.member = Some(member);
            }
            let clock = node.clock;
            self.input(id, Input::Tick(clock));
            self.lead(id);
        }
    }

    /// Ends all faults; a commit must be acknowledged afterwards.
    fn heal(&mut self, seed: u64) {
        self.has_faults = false;
        self.cut.clear();
        for node in self.nodes.values_mut() {
            node.paused = 0;
        }
        let before = self.promised.len();
        for _ in 0..3_000 {
            self.step();
            if self.promised.len() > before {
                return;
            }
        }
        let states: Vec<_> = self.nodes.values().map(|node| &node.durable).collect();
        panic!("seed {seed}: no commit is acknowledged after everything was healed: {states:?}");
    }
}

/// Runs a seed. Returns how many commits were acknowledged, and in how many epochs.
fn run(seed: u64) -> (usize, usize) {
    let (servers, witnesses) = [(2, 1), (2, 1), (3, 0), (3, 2)][seed as usize % 4];
    let mut simulation = Simulation::new(seed, servers, witnesses);
    for _ in 0..2_500 {
        simulation.step();
    }
    simulation.heal(seed);
    (simulation.promised.len(), simulation.leaders.len())
}

fn run_all(seeds: std::ops::Range<u64>) {
    let count = seeds.end - seeds.start;
    let (mut commits, mut epochs) = (0, 0);
    for seed in seeds {
        let (promised, led) = run(seed);
        commits += promised;
        epochs += led;
    }
    println!("{count} seeds: {commits} commits acknowledged in {epochs} epochs");
    assert!(
        epochs as u64 > 2 * count,
        "the source has hardly ever changed"
    );
}

#[test]
fn no_acknowledged_commit_is_lost_and_no_two_servers_acknowledge_in_one_epoch() {
    run_all(0..48);
}

#[test]
#[ignore = "1,000 seeds take a minute"]
fn no_acknowledged_commit_is_lost_in_a_thousand_simulations() {
    run_all(1_000..2_000);
}

#[test]
fn a_group_of_two_servers_and_a_witness_goes_on_without_one_server() {
    for lost in [1, 2] {
        let mut simulation = Simulation::new(7, 2, 1);
        simulation.heal(7);
        // Until the second server has everything.
        for _ in 0..1_000 {
            simulation.step();
        }
        let view = &simulation.nodes[&3].durable.view;
        assert_eq!(view.in_sync, [1, 2].into());
        let node = simulation.nodes.get_mut(&lost).unwrap();
        node.member = None;
        (node.follows, node.leads, node.required) = (None, None, None);
        node.paused = u64::MAX;
        let before = simulation.promised.len();
        // 5 milliseconds each: two seconds.
        for _ in 0..400 {
            simulation.step();
        }
        assert!(
            simulation.promised.len() > before + 10,
            "without server {lost}"
        );
    }
}
