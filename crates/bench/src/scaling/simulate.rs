//! A discrete-event simulation of clients, cores, serial sections and the log thread.
//!
//! ```text
//!          ready clients      a core for each          commits that wait
//!   +--> [ c c c c c ] --> { steps of a transaction } --> [ c c c ] --> log thread --+
//!   |                        | waits for sections                                    |
//!   +--------------------------------------------------------------------------------+
//! ```
//!
//! Times of parallel work vary uniformly between half and one and a half of the mean, so that cores are not synchronized.
//! The random numbers have a fixed seed, so that results are reproducible.

use super::{LOG, Outcome, Step, Workload};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Transactions for each core before the measurement, and in it.
const WARM_UP: u64 = 300;
const MEASURED: u64 = 2000;

/// An event of the simulation, which is due at a simulated time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A core has finished its step.
    StepDone { core: usize },
    /// The log thread has synced its group.
    Synced,
}

/// A section's instance.
#[derive(Debug, Default)]
struct Instance {
    is_taken: bool,
    /// The core that was in it last.
    last: Option<usize>,
    waiting: VecDeque<usize>,
}

/// A section.
#[derive(Debug)]
struct Section {
    name: String,
    instances: Vec<Instance>,
    /// Time in which its instances were occupied, in nanoseconds.
    busy: u64,
}

/// A core with its transaction.
#[derive(Clone, Copy, Debug, Default)]
struct Core {
    is_running: bool,
    step: usize,
    /// Instance of the section that it is in or waits for.
    instance: usize,
}

struct Simulation<'w> {
    workload: &'w Workload,
    transfer: f64,
    sync: f64,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    /// Number of events so far, which orders those of one moment.
    order: u64,
    cores: Vec<Core>,
    idle: Vec<usize>,
    /// Clients with a request that no core has taken.
    ready: u64,
    sections: Vec<Section>,
    /// Commits that wait for the log, and those of the group that is being written.
    queued: u64,
    group: u64,
    /// Time of the log thread's work, syncs excluded.
    log_busy: u64,
    done: u64,
    random: fastrand::Rng,
}

fn nanos(time: f64) -> u64 {
    time.max(0.0).round() as u64
}

impl Simulation<'_> {
    fn after(&mut self, time: u64, event: Event) {
        self.order += 1;
        self.events
            .push(Reverse((self.now + time, self.order, event)));
    }

    /// Gives ready clients to idle cores.
    fn dispatch(&mut self) {
        while self.ready > 0 {
            let Some(core) = self.idle.pop() else {
                return;
            };
            self.ready -= 1;
            if let Some(of) = self.cores.get_mut(core) {
                *of = Core {
                    is_running: true,
                    ..Core::default()
                };
            }
            self.begin_step(core);
        }
    }

    /// Position of a section by its name.
    fn section(&self, name: &str) -> usize {
        self.sections
            .iter()
            .position(|section| section.name == name)
            .unwrap_or(0)
    }

    /// Begins a core's step, or ends its transaction.
    fn begin_step(&mut self, core: usize) {
        let workload = self.workload;
        let step = self.cores.get(core).map_or(0, |c| c.step);
        match workload.steps.get(step) {
            None => self.end_transaction(core),
            Some(Step::Parallel(time)) => {
                let time = nanos(time * (0.5 + self.random.f64()));
                self.after(time, Event::StepDone { core });
            }
            Some(Step::Serial(of)) => {
                let at = self.section(&of.name);
                let instance = self.random.usize(0..of.instances.max(1));
                if let Some(core) = self.cores.get_mut(core) {
                    core.instance = instance;
                }
                let section = self.sections.get_mut(at);
                let found = section.and_then(|s| s.instances.get_mut(instance));
                match found {
                    Some(found) if found.is_taken => found.waiting.push_back(core),
                    _ => self.enter(core, at, of),
                }
            }
        }
    }

    /// Makes a core enter a free section.
    fn enter(&mut self, core: usize, at: usize, of: &super::Section) {
        let instance = self.cores.get(core).map_or(0, |c| c.instance);
        let mut time = of.time;
        if let Some(section) = self.sections.get_mut(at) {
            if let Some(found) = section.instances.get_mut(instance) {
                found.is_taken = true;
                if found.last.is_some_and(|last| last != core) {
                    time += of.lines * self.transfer;
                }
                found.last = Some(core);
            }
            section.busy += nanos(time);
        }
        self.after(nanos(time), Event::StepDone { core });
    }

    fn step_done(&mut self, core: usize) {
        let workload = self.workload;
        let Some(&Core { step, instance, .. }) = self.cores.get(core) else {
            return;
        };
        if let Some(Step::Serial(of)) = workload.steps.get(step) {
            let at = self.section(&of.name);
            let section = self.sections.get_mut(at);
            let next = section
                .and_then(|s| s.instances.get_mut(instance))
                .and_then(|found| {
                    found.is_taken = false;
                    found.waiting.pop_front()
                });
            if let Some(next) = next {
                self.enter(next, at, of);
            }
        }
        if let Some(core) = self.cores.get_mut(core) {
            core.step += 1;
        }
        self.begin_step(core);
    }

    fn end_transaction(&mut self, core: usize) {
        if let Some(core) = self.cores.get_mut(core) {
            core.is_running = false;
        }
        self.idle.push(core);
        if self.workload.log.is_some() {
            self.queued += 1;
            self.write_group();
        } else {
            self.done += 1;
            self.ready += 1;
        }
        self.dispatch();
    }

    /// Starts the next group, unless one is being written.
    fn write_group(&mut self) {
        let Some(log) = self.workload.log else {
            return;
        };
        if self.group > 0 || self.queued == 0 {
            return;
        }
        self.group = std::mem::take(&mut self.queued);
        let work = nanos(log.group + log.record * self.group as f64);
        self.log_busy += work;
        self.after(work + nanos(self.sync), Event::Synced);
    }

    fn synced(&mut self) {
        let group = std::mem::take(&mut self.group);
        self.done += group;
        self.ready += group;
        self.write_group();
        self.dispatch();
    }

    /// Runs until this number of transactions is done.
    fn run_until(&mut self, done: u64) {
        while self.done < done {
            let Some(Reverse((at, _, event))) = self.events.pop() else {
                return;
            };
            self.now = at;
            match event {
                Event::StepDone { core } => self.step_done(core),
                Event::Synced => self.synced(),
            }
        }
    }
}

/// The sections of a workload, each name once.
fn sections(workload: &Workload) -> Vec<Section> {
    let mut found: Vec<Section> = Vec::new();
    for step in &workload.steps {
        if let Step::Serial(of) = step
            && found.iter().all(|known| known.name != of.name)
        {
            found.push(Section {
                name: of.name.clone(),
                instances: (0..of.instances.max(1))
                    .map(|_| Instance::default())
                    .collect(),
                busy: 0,
            });
        }
    }
    found
}

/// Simulates a workload; times are in nanoseconds.
pub(super) fn simulate(
    workload: &Workload,
    transfer: f64,
    cores: usize,
    clients: usize,
    sync: f64,
) -> Outcome {
    let mut simulation = Simulation {
        workload,
        transfer,
        sync,
        now: 0,
        events: BinaryHeap::new(),
        order: 0,
        cores: vec![Core::default(); cores],
        idle: (0..cores).collect(),
        ready: clients as u64,
        sections: sections(workload),
        queued: 0,
        group: 0,
        log_busy: 0,
        done: 0,
        random: fastrand::Rng::with_seed(7),
    };
    simulation.dispatch();
    // At least a few groups of all clients.
    let least = 4 * clients as u64;
    let warm_up = (WARM_UP * cores as u64).max(least);
    simulation.run_until(warm_up);
    let (began, first, log_before) = (simulation.now, simulation.done, simulation.log_busy);
    let before: Vec<u64> = simulation.sections.iter().map(|s| s.busy).collect();
    simulation.run_until(first + (MEASURED * cores as u64).max(4 * least));
    let time = (simulation.now - began).max(1) as f64;
    let mut shares: Vec<(String, f64)> = simulation
        .sections
        .iter()
        .zip(before)
        .map(|(section, before)| {
            let instances = section.instances.len() as f64;
            (
                section.name.clone(),
                (section.busy - before) as f64 / time / instances,
            )
        })
        .collect();
    if workload.log.is_some() {
        shares.push((
            LOG.to_owned(),
            (simulation.log_busy - log_before) as f64 / time,
        ));
    }
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    Outcome {
        throughput: (simulation.done - first) as f64 / time * 1e9,
        sections: shares,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LogTimes, Section as Serial};
    use super::*;

    fn serial(name: &str, time: f64, lines: f64) -> Step {
        Step::Serial(Serial {
            name: name.to_owned(),
            time,
            lines,
            instances: 1,
        })
    }

    fn workload(steps: Vec<Step>, log: Option<LogTimes>) -> Workload {
        Workload {
            name: "w".to_owned(),
            steps,
            log,
        }
    }

    fn run(workload: &Workload, cores: usize, transfer: f64) -> Outcome {
        simulate(workload, transfer, cores, cores * 64, 100_000.0)
    }

    fn near(found: f64, expected: f64) -> bool {
        (found / expected - 1.0).abs() < 0.05
    }

    #[test]
    fn parallel_work_scales_with_the_cores() {
        let work = workload(vec![Step::Parallel(10_000.0)], None);
        assert!(near(run(&work, 1, 0.0).throughput, 100_000.0));
        assert!(near(run(&work, 32, 0.0).throughput, 3_200_000.0));
    }

    #[test]
    fn a_serial_section_limits_the_throughput() {
        let work = workload(vec![Step::Parallel(9000.0), serial("s", 1000.0, 0.0)], None);
        // Amdahl: one core has no wait, and no number of cores passes 1 a microsecond.
        assert!(near(run(&work, 1, 0.0).throughput, 100_000.0));
        let many = run(&work, 64, 0.0);
        assert!(near(many.throughput, 1e6), "{many:?}");
        assert!(many.sections[0].1 > 0.99, "{many:?}");
        // The transfer of two lines doubles the section, except within one core.
        assert!(near(run(&work, 64, 500.0).throughput, 1e6));
        let moving = workload(vec![Step::Parallel(9000.0), serial("s", 1000.0, 2.0)], None);
        assert!(near(run(&moving, 64, 500.0).throughput, 5e5));
        assert!(near(run(&moving, 1, 500.0).throughput, 1e5));
    }

    #[test]
    fn instances_of_a_section_divide_the_load() {
        let mut section = serial("s", 1000.0, 0.0);
        if let Step::Serial(of) = &mut section {
            of.instances = 4;
        }
        let work = workload(vec![Step::Parallel(1000.0), section], None);
        let found = run(&work, 64, 0.0);
        assert!(
            found.throughput > 3.5e6 && found.throughput < 4.05e6,
            "{found:?}"
        );
    }

    #[test]
    fn the_log_takes_all_waiting_commits_into_one_group() {
        let log = LogTimes {
            group: 1000.0,
            record: 100.0,
        };
        let work = workload(vec![Step::Parallel(10_000.0)], Some(log));
        // Enough clients hide the sync.
        let one = run(&work, 1, 0.0);
        assert!(one.throughput > 90_000.0, "{one:?}");
        // In the end the time for each record limits: 10 M a second less the syncs.
        let many = simulate(&work, 0.0, 256, 256 * 64, 100_000.0);
        assert!(many.throughput < 1e7, "{many:?}");
        assert_eq!(many.sections[0].0, LOG);
        assert!(many.sections[0].1 > 0.8, "{many:?}");
    }
}
