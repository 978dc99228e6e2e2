//! Disks and faults.

use super::node::Process;
use super::run::{Outcome, Simulation};
use porpoise_replication::election::{Durable, Input, MemberId, Output};

/// Longest sync of a slow disk in steps: longer than the silence after which a leader is replaced.
const SLOW_SYNC: u64 = 60;

impl Simulation {
    pub(super) fn process(&mut self, id: MemberId) -> Option<&mut Process> {
        self.nodes.get_mut(&id)?.process.as_mut()
    }

    pub(super) fn with_process(&mut self, id: MemberId, change: impl FnOnce(&mut Process)) {
        if let Some(process) = self.process(id) {
            change(process);
        }
    }

    /// Steps that a sync takes now.
    pub(super) fn sync_time(&mut self, id: MemberId) -> u64 {
        let is_slow = self.nodes.get(&id).is_some_and(|node| node.disk.slow > 0);
        self.random.u64(..if is_slow { SLOW_SYNC } else { 3 })
    }

    /// Writes the state; the member does nothing else until it is on disk.
    pub(super) fn store(&mut self, id: MemberId, state: Durable) {
        match self.sync_time(id) {
            0 => {
                if let Some(node) = self.nodes.get_mut(&id) {
                    node.disk.state = state;
                }
            }
            steps => self.with_process(id, |process| {
                process.storing = Some(steps);
                process.outputs.push_front(Output::Store(state));
            }),
        }
    }

    /// A step of the disk: the state and the log.
    pub(super) fn sync(&mut self, id: MemberId) -> Outcome {
        let time = self.sync_time(id);
        let Some(node) = self.nodes.get_mut(&id) else {
            return Ok(());
        };
        let Some(process) = &mut node.process else {
            return Ok(());
        };
        match process.syncing {
            Some((0, end)) => {
                process.syncing = None;
                if let Some(synced) = process.log.get(..end) {
                    node.disk.log = synced.to_vec();
                }
            }
            Some((steps, end)) => process.syncing = Some((steps - 1, end)),
            None if process.log.len() > node.disk.log.len() => {
                process.syncing = Some((time, process.log.len()));
            }
            None => {}
        }
        match process.storing {
            Some(steps) if steps > 1 => process.storing = Some(steps - 1),
            Some(_) => {
                process.storing = None;
                if let Some(Output::Store(state)) = process.outputs.pop_front() {
                    node.disk.state = state;
                }
                return self.run_member(id);
            }
            None => {}
        }
        Ok(())
    }

    /// Ends a process: what is not on disk is lost.
    pub(super) fn end_process(&mut self, id: MemberId) {
        if let Some(node) = self.nodes.get_mut(&id)
            && let Some(process) = node.process.take()
        {
            self.report.unsynced += process.log.len().saturating_sub(node.disk.log.len());
        }
    }

    /// Starts a process.
    pub(super) fn start(&mut self, id: MemberId) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.start();
        }
    }

    pub(super) fn fault(&mut self) {
        let ids: Vec<MemberId> = self.nodes.keys().copied().collect();
        let mut any = || self.random.choice(ids.iter().copied());
        let (Some(id), Some(other)) = (any(), any()) else {
            return;
        };
        let (kind, jump) = (self.random.u64(..100), self.random.u64(..5_000));
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        match kind {
            0..=19 => {
                self.report.kills += 1;
                self.end_process(id);
                // A service manager may start it again at once.
                if kind < 10 {
                    self.start(id);
                }
            }
            20..=34 => node.paused = jump / 10,
            35..=49 => node.disk.slow = jump / 5,
            50..=62 => node.clock += jump,
            63..=67 => node.clock = node.clock.saturating_sub(jump),
            68..=77 => drop(self.cut.insert(id)),
            78..=83 => drop(self.cut_ways.insert((id, other))),
            84..=85 => self.lose_disk(id),
            86..=87 => self.with_process(id, |process| {
                if let Some(source) = &mut process.source {
                    source.copying = Some(jump / 100);
                }
            }),
            _ => {
                self.cut.clear();
                self.cut_ways.clear();
            }
        }
    }

    /// A member loses its disk. A group does not tolerate two such losses at a time, nor the loss of the only data.
    fn lose_disk(&mut self, id: MemberId) {
        let states = || self.nodes.values().map(|node| &node.disk.state);
        let first = states().next().map(|state| state.view.clone());
        let is_settled = states().all(|state| Some(&state.view) == first.as_ref())
            && first.is_some_and(|view| view.in_sync.len() > 1);
        if !is_settled || states().any(Durable::is_blank) {
            return;
        }
        let incarnation = self.random.u64(1..);
        self.end_process(id);
        if let Some(node) = self.nodes.get_mut(&id) {
            node.disk.state = Durable::blank(1, incarnation);
            node.disk.log.clear();
        }
    }

    /// The leader's data are copied: the member discards its own, and restarts with the copy, unless its process ends in between.
    pub(super) fn copied(&mut self, id: MemberId, leader: MemberId) -> Outcome {
        let copy = self.nodes.get(&leader).map(|node| node.disk.log.clone());
        let incarnation = self.random.u64(1..);
        self.report.copies += 1;
        self.input(id, Input::Discard(incarnation))?;
        let is_stored = self.process(id).is_some_and(|process| {
            process.storing.is_none() && process.member.durable().incarnation == incarnation
        });
        let is_installed = !self.has_faults || self.chance(80);
        self.end_process(id);
        if let (Some(node), Some(copy)) = (self.nodes.get_mut(&id), copy)
            && is_stored
            && is_installed
        {
            node.disk.log = copy;
        }
        Ok(())
    }
}
