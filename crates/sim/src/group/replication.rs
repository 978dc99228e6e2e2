//! The log: how a leader commits and releases, and how servers follow it.

use super::node::{Commit, Process, Source};
use super::run::{Outcome, Packet, Simulation};
use super::{Planted, Violation};
use porpoise_binlog::acknowledge::GroupPolicy;
use porpoise_replication::election::MemberId;
use std::collections::BTreeSet;

/// The members that a leader with a planted fault requires.
fn planted_policy(planted: Planted, process: &Process) -> Option<BTreeSet<MemberId>> {
    let leading = process.leading.as_ref()?;
    let view = &process.member.durable().view.in_sync;
    match planted {
        _ if !leading.is_accepted => None,
        Planted::TrustsItsClock if process.member.hears_majority() => Some(BTreeSet::new()),
        Planted::TrustsItsClock => Some(leading.required.clone()),
        Planted::RequiresNewestViewOnly => Some(&leading.required & view),
        _ => None,
    }
}

impl Simulation {
    /// A step of a process, besides its state machine.
    pub(super) fn work(&mut self, id: MemberId) -> Outcome {
        self.sync(id)?;
        self.commit(id);
        self.count_written(id)?;
        self.stream(id);
        self.observe(id)?;
        self.follow_source(id)
    }

    /// A client commits at a leader that takes writes.
    fn commit(&mut self, id: MemberId) {
        let commits = self.chance(40);
        let next = self.next + 1;
        let mut is_done = false;
        self.with_process(id, |process| {
            let hears_majority = process.member.hears_majority();
            if let Some(leading) = &mut process.leading {
                leading.is_open = leading.is_accepted && hears_majority;
                if leading.is_open && commits {
                    process.log.push((leading.epoch, next));
                    is_done = true;
                }
            }
        });
        self.next += u64::from(is_done);
    }

    /// The writer of the binary log: counts the commits on the disk.
    fn count_written(&mut self, id: MemberId) -> Outcome {
        let is_early = self.is_planted(Planted::LeadsBeforeSync);
        let planted = self.planted;
        let origin = self.origin;
        let Some(node) = self.nodes.get_mut(&id) else {
            return Ok(());
        };
        let now = node.now(origin);
        let Some(process) = &mut node.process else {
            return Ok(());
        };
        let end = if is_early {
            process.log.len()
        } else {
            node.disk.log.len()
        };
        for place in process.written + 1..=end {
            let place = place as u64;
            process.acks.written((1, place), place, now);
        }
        process.written = process.written.max(end);
        if let Some(required) = planted.and_then(|planted| planted_policy(planted, process)) {
            process.acks.set_group(Some(GroupPolicy::All(required)));
            return self.release(id);
        }
        match process.acks.take_unneeded(now) {
            Some(commit) => self.released(id, commit),
            None => Ok(()),
        }
    }

    /// Releases the commits that are acknowledged.
    pub(super) fn release(&mut self, id: MemberId) -> Outcome {
        let origin = self.origin;
        let Some(node) = self.nodes.get_mut(&id) else {
            return Ok(());
        };
        let now = node.now(origin);
        let taken = node.process.as_mut();
        match taken.and_then(|process| process.acks.take_reached(now)) {
            Some(commit) => self.released(id, commit),
            None => Ok(()),
        }
    }

    /// Checks the commits that are acknowledged to clients now: the log up to this one.
    fn released(&mut self, id: MemberId, commit: u64) -> Outcome {
        let Some(process) = self.nodes.get_mut(&id).and_then(|n| n.process.as_mut()) else {
            return Ok(());
        };
        let Some(leading) = &process.leading else {
            return Err(Violation(format!("{id} acknowledges and does not lead")));
        };
        let epoch = leading.epoch;
        let first = std::mem::replace(&mut process.released, commit as usize);
        let released = process.log.get(first..commit as usize).unwrap_or_default();
        for (at, commit) in (first..).zip(released) {
            match self.history.get(at) {
                None => self.history.push(*commit),
                Some(known) if known == commit => {}
                Some(known) => {
                    return Err(Violation(format!(
                        "{id} acknowledges {commit:?} in epoch {epoch} in the place of {known:?}"
                    )));
                }
            }
        }
        let leader = *self.leaders.entry(epoch).or_insert(id);
        if leader != id {
            let what = format!("{leader} and {id} acknowledge in epoch {epoch}");
            return Err(Violation(what));
        }
        Ok(())
    }

    /// A leader sends its log to those that follow it, and learns of broken connections.
    fn stream(&mut self, id: MemberId) {
        let is_early = self.is_planted(Planted::LeadsBeforeSync);
        let servers = self.nodes.keys().copied().collect::<Vec<_>>();
        for server in servers {
            let (sends, notices) = (self.chance(50), self.chance(10));
            let Some(epoch) = self
                .process(id)
                .and_then(|p| Some(p.leading.as_ref()?.epoch))
            else {
                return;
            };
            let follows = self
                .nodes
                .get(&server)
                .and_then(|node| node.follows(id, epoch));
            let Some(node) = self.nodes.get_mut(&id) else {
                return;
            };
            let Some(process) = &mut node.process else {
                return;
            };
            let Some(leading) = &mut process.leading else {
                return;
            };
            let Some((number, sent)) = leading.streams.get_mut(&server) else {
                continue;
            };
            let (number, begin) = (*number, *sent);
            if follows.is_none() && notices {
                process.acks.disconnect(server, number);
                leading.streams.remove(&server);
                continue;
            }
            let log = if is_early {
                &process.log
            } else {
                &node.disk.log
            };
            if sends && log.len() > begin {
                let part = log.get(begin..).unwrap_or_default().to_vec();
                *sent = log.len();
                self.send(id, server, Packet::Log(number, begin, part));
            }
        }
    }

    /// A leader observes the progress of the others.
    fn observe(&mut self, id: MemberId) -> Outcome {
        let origin = self.origin;
        let Some(node) = self.nodes.get_mut(&id) else {
            return Ok(());
        };
        let (now, clock) = (node.now(origin), node.clock);
        let Some(process) = &mut node.process else {
            return Ok(());
        };
        let Some(leading) = &mut process.leading else {
            return Ok(());
        };
        let end = (1, process.written as u64);
        let mut inputs = Vec::new();
        for server in node.settings.servers.iter().filter(|server| **server != id) {
            let progress = process.acks.progress(*server, now);
            let incarnation = process.member.incarnation_of(*server);
            let following = &mut leading.following;
            inputs.extend(following.observe(*server, incarnation, &progress, end, clock));
        }
        for input in inputs {
            self.input(id, input)?;
        }
        Ok(())
    }

    pub(super) fn follow(&mut self, id: MemberId, leader: MemberId, epoch: u64) {
        self.with_process(id, |process| {
            process.source = Some(Source {
                leader,
                epoch,
                connection: None,
                acknowledged: 0,
                copying: None,
            });
        });
    }

    /// A server connects to its leader, acknowledges the commits on its disk, and copies the leader's data if necessary.
    fn follow_source(&mut self, id: MemberId) -> Outcome {
        let is_early = self.is_planted(Planted::AcknowledgesBeforeSync);
        let (connects, notices) = (self.chance(20), self.chance(10));
        let follows = self.process(id).and_then(|process| process.source);
        let stream = follows.and_then(|source| self.stream_of(source.leader, source.epoch, id));
        let Some(node) = self.nodes.get_mut(&id) else {
            return Ok(());
        };
        let Some(process) = &mut node.process else {
            return Ok(());
        };
        let Some(source) = &mut process.source else {
            return Ok(());
        };
        let (leader, epoch) = (source.leader, source.epoch);
        if let Some(steps) = &mut source.copying {
            *steps = steps.saturating_sub(1);
            let is_done = *steps == 0 && process.storing.is_none();
            let is_reached = !self.cut.contains(&id) && !self.cut.contains(&leader);
            return match is_done && is_reached && self.leads(leader, epoch) {
                true => self.copied(id, leader),
                false => Ok(()),
            };
        }
        if source.connection != stream && notices {
            // The leader has closed the connection, or restarted.
            source.connection = None;
        }
        let Some(connection) = source.connection else {
            if connects {
                let incarnation = process.member.durable().incarnation;
                let log = node.disk.log.clone();
                self.send(id, leader, Packet::Connect(epoch, incarnation, log));
            }
            return Ok(());
        };
        let end = if is_early {
            process.log.len()
        } else {
            node.disk.log.len()
        };
        if end > source.acknowledged {
            source.acknowledged = end;
            self.send(id, leader, Packet::Ack(connection, end));
        }
        Ok(())
    }

    /// The number of the connection of a server to the leader of an epoch, as the leader knows it.
    fn stream_of(&self, leader: MemberId, epoch: u64, server: MemberId) -> Option<u64> {
        let process = self.nodes.get(&leader)?.process.as_ref()?;
        let leading = process.leading.as_ref().filter(|l| l.epoch == epoch)?;
        leading.streams.get(&server).map(|(number, _)| *number)
    }

    /// Whether this process leads this epoch.
    fn leads(&self, id: MemberId, epoch: u64) -> bool {
        let process = self.nodes.get(&id).and_then(|node| node.process.as_ref());
        let leading = process.and_then(|process| process.leading.as_ref());
        leading.is_some_and(|leading| leading.epoch == epoch)
    }

    /// A packet of replication arrives.
    pub(super) fn replicate(&mut self, from: MemberId, to: MemberId, packet: Packet) -> Outcome {
        match packet {
            Packet::Connect(epoch, incarnation, log) => {
                self.accept(from, to, epoch, incarnation, &log);
                return self.release(to);
            }
            Packet::Ack(connection, end) => {
                self.with_process(to, |process| {
                    process.acks.acknowledge(from, connection, (1, end as u64));
                });
                return self.release(to);
            }
            _ => {}
        }
        let Some(node) = self.nodes.get_mut(&to) else {
            return Ok(());
        };
        let Some(process) = &mut node.process else {
            return Ok(());
        };
        let Some(source) = process.source.as_mut().filter(|s| s.leader == from) else {
            return Ok(());
        };
        match packet {
            Packet::Connected(epoch, connection) if epoch == source.epoch => {
                source.connection = Some(connection);
                source.acknowledged = 0;
            }
            Packet::Diverged(epoch) if epoch == source.epoch && source.copying.is_none() => {
                (source.copying, source.connection) = (Some(20), None);
            }
            Packet::Log(connection, begin, commits) if source.connection == Some(connection) => {
                if begin == process.log.len() {
                    process.log.extend(commits);
                } else {
                    // A part was lost: it connects again.
                    source.connection = None;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A leader accepts a server whose log its own continues.
    fn accept(
        &mut self,
        from: MemberId,
        to: MemberId,
        epoch: u64,
        incarnation: u64,
        log: &[Commit],
    ) {
        let Some(node) = self.nodes.get_mut(&to) else {
            return;
        };
        let Some(process) = &mut node.process else {
            return;
        };
        let Some(leading) = process.leading.as_mut().filter(|l| l.epoch == epoch) else {
            return;
        };
        if !node.disk.log.starts_with(log) {
            return self.send(to, from, Packet::Diverged(epoch));
        }
        let place = (1, log.len() as u64);
        let connection = process.acks.connect(from, incarnation, place);
        leading.streams.insert(from, (connection, log.len()));
        self.send(to, from, Packet::Connected(epoch, connection));
    }
}
