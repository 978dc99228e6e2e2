//! The run: steps, messages, and the outputs of the state machines.

use super::node::{Commit, Node};
use super::{Planted, Report, Violation};
use porpoise_binlog::acknowledge::GroupPolicy;
use porpoise_replication::election::{Input, MemberId, Message, Output};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// Milliseconds of a step.
const STEP: u64 = 5;

/// Steps with faults.
const STEPS: u64 = 2_500;

/// Steps without faults in which the group must recover.
const HEALED_STEPS: u64 = 6_000;

pub(super) type Outcome = Result<(), Violation>;

/// A packet from one member to another.
#[derive(Clone, Debug)]
pub(super) enum Packet {
    Election(Message),
    /// A server wants to follow: epoch, number of its data, and its log.
    Connect(u64, u64, Vec<Commit>),
    /// The leader accepts it: epoch, number of the connection.
    Connected(u64, u64),
    /// The leader lacks transactions of the server: epoch.
    Diverged(u64),
    /// Part of the leader's log: number of the connection, where it begins, commits.
    Log(u64, usize, Vec<Commit>),
    /// The server has the log up to here on its disk: number of the connection.
    Ack(u64, usize),
}

struct Sent {
    from: MemberId,
    to: MemberId,
    packet: Packet,
    /// Steps until it arrives.
    delay: u64,
}

pub(super) struct Simulation {
    pub(super) random: fastrand::Rng,
    pub(super) planted: Option<Planted>,
    pub(super) nodes: BTreeMap<MemberId, Node>,
    packets: Vec<Sent>,
    /// Members that cannot reach the others, and directions in which nothing passes.
    pub(super) cut: BTreeSet<MemberId>,
    pub(super) cut_ways: BTreeSet<(MemberId, MemberId)>,
    /// All commits that were acknowledged to clients, and those before them.
    pub(super) history: Vec<Commit>,
    /// The member that has acknowledged commits in an epoch.
    pub(super) leaders: BTreeMap<u64, MemberId>,
    pub(super) next: u64,
    pub(super) has_faults: bool,
    pub(super) origin: Instant,
    pub(super) report: Report,
}

impl Simulation {
    pub(super) fn new(seed: u64, planted: Option<Planted>) -> Simulation {
        let (servers, witnesses) = match seed % 4 {
            0 | 1 => (2, 1),
            2 => (3, 0),
            _ => (3, 2),
        };
        let members = servers + witnesses;
        let node = |id| (id, Node::new(id, members, servers));
        Simulation {
            random: fastrand::Rng::with_seed(seed),
            planted,
            nodes: (1..=members).map(node).collect(),
            packets: Vec::new(),
            cut: BTreeSet::new(),
            cut_ways: BTreeSet::new(),
            history: Vec::new(),
            leaders: BTreeMap::new(),
            next: 0,
            has_faults: true,
            // Only differences of times count.
            origin: Instant::now(),
            report: Report::default(),
        }
    }

    pub(super) fn run(mut self) -> Result<Report, Violation> {
        for _ in 0..STEPS {
            self.step()?;
        }
        self.heal();
        let before = self.history.len();
        for _ in 0..HEALED_STEPS {
            self.step()?;
            if self.history.len() > before && self.is_recovered() {
                self.report.commits = self.history.len();
                self.report.epochs = self.leaders.len();
                return Ok(self.report);
            }
        }
        let states: Vec<_> = self.nodes.values().map(|node| &node.disk.state).collect();
        let what = format!("the group does not recover after everything is healed: {states:?}");
        Err(Violation(what))
    }

    fn heal(&mut self) {
        self.has_faults = false;
        self.cut.clear();
        self.cut_ways.clear();
        for node in self.nodes.values_mut() {
            (node.paused, node.disk.slow) = (0, 0);
        }
    }

    /// Whether every server has every acknowledged commit on its disk, and is in sync.
    fn is_recovered(&self) -> bool {
        self.nodes.values().filter(|n| n.is_server()).all(|node| {
            node.disk.log.starts_with(&self.history)
                && node.disk.state.view.in_sync == node.settings.servers
        })
    }

    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.random.u64(..100) < percent
    }

    pub(super) fn is_planted(&self, fault: Planted) -> bool {
        self.planted == Some(fault)
    }

    pub(super) fn send(&mut self, from: MemberId, to: MemberId, packet: Packet) {
        if self.has_faults && self.chance(5) {
            return;
        }
        let is_late = self.has_faults && self.chance(5);
        let delay = self.random.u64(..if is_late { 300 } else { 4 });
        self.packets.push(Sent {
            from,
            to,
            packet,
            delay,
        });
    }

    fn step(&mut self) -> Outcome {
        if self.has_faults && self.chance(2) {
            self.fault();
        }
        self.deliver()?;
        let ids: Vec<MemberId> = self.nodes.keys().copied().collect();
        for id in ids {
            let restarts = self.chance(if self.has_faults { 1 } else { 50 });
            let Some(node) = self.nodes.get_mut(&id) else {
                continue;
            };
            node.clock += STEP;
            node.disk.slow = node.disk.slow.saturating_sub(1);
            if node.paused > 0 {
                node.paused -= 1;
                continue;
            }
            let clock = node.clock;
            if node.process.is_none() && restarts {
                self.start(id);
            }
            self.input(id, Input::Tick(clock))?;
            self.work(id)?;
        }
        Ok(())
    }

    fn deliver(&mut self) -> Outcome {
        let mut due = Vec::new();
        let (cut, cut_ways) = (&self.cut, &self.cut_ways);
        self.packets.retain_mut(|sent| {
            if sent.delay > 0 {
                sent.delay -= 1;
                return true;
            }
            let (from, to) = (sent.from, sent.to);
            if !cut.contains(&from) && !cut.contains(&to) && !cut_ways.contains(&(from, to)) {
                due.push((from, to, sent.packet.clone()));
            }
            false
        });
        for (from, to, packet) in due {
            match self.nodes.get(&to).map_or(0, |node| node.paused) {
                0 => self.arrive(from, to, packet)?,
                delay => self.packets.push(Sent {
                    from,
                    to,
                    packet,
                    delay,
                }),
            }
        }
        Ok(())
    }

    fn arrive(&mut self, from: MemberId, to: MemberId, packet: Packet) -> Outcome {
        let mut message = match packet {
            Packet::Election(message) => message,
            packet => return self.replicate(from, to, packet),
        };
        if self.is_planted(Planted::VotesWithoutView)
            && let Message::RequestVote { view, .. } = &mut message
        {
            *view = (u64::MAX, u64::MAX);
        }
        self.input(to, Input::Receive(from, message))
    }

    /// Gives an input to a state machine, after those that wait for its disk.
    pub(super) fn input(&mut self, id: MemberId, input: Input) -> Outcome {
        if let Some(process) = self.process(id) {
            process.inbox.push_back(input);
        }
        self.run_member(id)
    }

    /// Executes outputs and inputs until one must wait for the disk.
    pub(super) fn run_member(&mut self, id: MemberId) -> Outcome {
        loop {
            let Some(process) = self.process(id) else {
                return Ok(());
            };
            if process.storing.is_some() {
                return Ok(());
            }
            if let Some(output) = process.outputs.pop_front() {
                self.output(id, output)?;
            } else if let Some(input) = process.inbox.pop_front() {
                let outputs = process.member.step(input);
                process.outputs.extend(outputs);
                if self.is_planted(Planted::SendsBeforeStoring)
                    && let Some(process) = self.process(id)
                {
                    let is_store = |output: &Output| matches!(output, Output::Store(_));
                    process.outputs.make_contiguous().sort_by_key(is_store);
                }
            } else {
                return Ok(());
            }
        }
    }

    fn output(&mut self, id: MemberId, output: Output) -> Outcome {
        match output {
            Output::Store(state) => self.store(id, state),
            Output::Send(to, message) => self.send(id, to, Packet::Election(message)),
            // The server replaces its process.
            Output::StepDown => self.end_process(id),
            Output::StopFollowing if self.is_planted(Planted::FollowsFormerLeader) => {}
            Output::StopFollowing => self.with_process(id, |process| process.source = None),
            Output::Follow(leader, epoch) => self.follow(id, leader, epoch),
            Output::Lead(epoch) => self.lead(id, epoch)?,
            Output::Require(members) => self.require(id, members)?,
        }
        Ok(())
    }

    fn lead(&mut self, id: MemberId, epoch: u64) -> Outcome {
        let opens = self.is_planted(Planted::OpensBeforeItsView);
        let leading = self.nodes.get(&id).map(|node| node.leading(epoch));
        self.with_process(id, |process| {
            process.acks.set_group(Some(GroupPolicy::Withheld));
            process.leading = leading;
        });
        if opens {
            self.require(id, BTreeSet::new())?;
        }
        Ok(())
    }

    fn require(&mut self, id: MemberId, members: BTreeSet<MemberId>) -> Outcome {
        self.with_process(id, |process| {
            let end = (1, process.written as u64);
            if let Some(leading) = &mut process.leading {
                leading.following.require(&members, end);
                leading.required.clone_from(&members);
                (leading.is_accepted, leading.is_open) = (true, true);
            }
            process.acks.set_group(Some(GroupPolicy::All(members)));
        });
        self.release(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_of_two_servers_and_a_witness_goes_on_without_one_server() {
        for lost in [1, 2] {
            let mut simulation = Simulation::new(4, None);
            simulation.heal();
            let mut steps = 0;
            while simulation.history.is_empty() || !simulation.is_recovered() {
                simulation.step().unwrap();
                steps += 1;
                assert!(steps < HEALED_STEPS);
            }
            simulation.end_process(lost);
            simulation.nodes.get_mut(&lost).unwrap().paused = u64::MAX;
            let before = simulation.history.len();
            // Two seconds.
            for _ in 0..400 {
                simulation.step().unwrap();
            }
            assert!(
                simulation.history.len() > before + 10,
                "without server {lost}"
            );
        }
    }
}
