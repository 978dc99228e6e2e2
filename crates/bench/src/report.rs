//! Results of an experiment: cells of runs, with all data that are needed to
//! verify them, in the form in which they are written to a file.
//!
//! A cell is one operation at one size by one system; it has a run for each
//! round. Ratios are made from cells whose operation and size agree, in the
//! pairs that the experiment names.

use crate::load::Outcome;
use crate::machine::Machine;
use crate::peers::Durability;
use crate::procfs::ThreadTime;
use crate::stats::{Estimate, Line, estimate, fit_line, paired_ratio};
use serde::{Deserialize, Serialize};

/// Version of the format of result files (docs/formats.md).
pub const REPORT_FORMAT_VERSION: u32 = 2;

/// The oldest version that is read.
pub const OLDEST_FORMAT: u32 = 1;

/// Share of the machine's processors that other programs may use before a run is marked.
pub const OUTSIDE_LIMIT: f64 = 0.05;

/// A file of results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`REPORT_FORMAT_VERSION`].
    pub format: u32,
    /// The machine and the time of the measurement.
    pub machine: Machine,
    /// The systems.
    pub systems: Vec<SystemInfo>,
    /// Results.
    pub experiments: Vec<Experiment>,
    /// Remarks, such as servers left out.
    pub notes: Vec<String>,
    /// Reason for an early end; the results were measured before it.
    pub failure: Option<String>,
}

/// A measured system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SystemInfo {
    /// Name.
    pub name: String,
    /// Address.
    pub url: String,
    /// Version and settings.
    pub settings: String,
}

/// Quantity on the horizontal axis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// Title with unit.
    pub title: String,
    /// Whether sizes are doubled rather than added.
    pub is_logarithmic: bool,
}

/// Results of one experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// Name on the command line.
    pub name: String,
    /// Title.
    pub title: String,
    /// Description, in a sentence or two.
    pub about: String,
    /// Meaning of the sizes.
    pub axis: Axis,
    /// Whether its subject is latency, not throughput.
    pub is_about_latency: bool,
    /// Results.
    pub cells: Vec<Cell>,
    /// Systems compared: ours, theirs.
    pub pairs: Vec<(String, String)>,
    /// Remarks, such as systems left out.
    pub notes: Vec<String>,
    /// Settings of the servers; `None` if a file of version 1 does not have them.
    #[serde(default)]
    pub setup: Option<Setup>,
    /// Figures that are not those of a cell.
    #[serde(default)]
    pub measures: Vec<Measure>,
}

impl Experiment {
    /// An experiment about throughput, without results, over sizes on a logarithmic axis.
    pub fn new(
        name: &str,
        title: impl Into<String>,
        about: impl Into<String>,
        axis: &str,
    ) -> Experiment {
        Experiment {
            name: name.to_owned(),
            title: title.into(),
            about: about.into(),
            axis: Axis {
                title: axis.to_owned(),
                is_logarithmic: true,
            },
            is_about_latency: false,
            cells: Vec::new(),
            pairs: Vec::new(),
            notes: Vec::new(),
            setup: None,
            measures: Vec::new(),
        }
    }

    /// The same with sizes on a linear axis.
    pub fn on_linear_axis(mut self) -> Experiment {
        self.axis.is_logarithmic = false;
        self
    }
}

/// Settings of the servers of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// Durability of their commits.
    pub durability: Durability,
    /// Delay added to each fsync, in microseconds.
    pub fsync_delay_micros: u64,
}

/// A figure that is not one of a cell, as the memory of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// System and figure.
    pub name: String,
    /// The figure.
    pub value: f64,
    /// Its unit.
    pub unit: String,
}

/// One operation at one size by one system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Operation.
    pub operation: String,
    /// Size: clients, keys, ...
    pub size: u64,
    /// System.
    pub system: String,
    /// Client's shape and connections, in words.
    pub client: String,
    /// Units of work in a request (rows of a batch, keys of a get).
    pub units: u64,
    /// One for each round.
    pub runs: Vec<Run>,
}

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Requests answered.
    pub requests: u64,
    /// Refused requests that a client would retry.
    pub refused: u64,
    /// Time measured, in seconds.
    pub seconds: f64,
    /// Requests a second.
    pub throughput: f64,
    /// Requests of each whole second.
    pub per_second: Vec<u64>,
    /// Latency in microseconds.
    pub latency: Latency,
    /// Server's processor microseconds for a request.
    pub server_micros: Option<f64>,
    /// Generator's processor microseconds for a request.
    pub generator_micros: Option<f64>,
    /// Share of the machine's processors that other programs used.
    pub outside: Option<f64>,
    /// Calls of futex by the server for a thousand requests, where counted.
    pub futex_per_thousand: Option<f64>,
    /// Instructions of the calling threads for a request, where counted.
    #[serde(default)]
    pub instructions: Option<f64>,
    /// Counters of `bench contention`.
    #[serde(default)]
    pub contention: Option<Contention>,
    /// The server's processor time by the roles or names of its threads.
    #[serde(default)]
    pub threads: Vec<ThreadMicros>,
    /// Rate and lateness of an open loop.
    #[serde(default)]
    pub open_loop: Option<OpenLoop>,
    /// Reason for the failure.
    pub failure: Option<String>,
}

/// Processor time of a server's threads with one role or name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThreadMicros {
    /// Role or name.
    pub role: String,
    /// Processor microseconds for a request.
    pub micros: f64,
}

impl ThreadMicros {
    /// The processor time by threads, divided by the number of requests.
    pub fn each(threads: &[ThreadTime], requests: u64) -> Vec<ThreadMicros> {
        if requests == 0 {
            return Vec::new();
        }
        let each = |thread: &ThreadTime| ThreadMicros {
            role: thread.role.clone(),
            micros: thread.seconds * 1e6 / requests as f64,
        };
        threads.iter().map(each).collect()
    }
}

/// Requests at a fixed rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenLoop {
    /// Required requests a second.
    pub rate: f64,
    /// Whether nearly all of them were answered in the measured time.
    pub is_held: bool,
    /// Requests that were due in the measured time and had no reply at its end. Their age at that time is
    /// among the latencies.
    pub unanswered: u64,
    /// Requests sent more than a millisecond after they were due.
    pub late: u64,
    /// The longest time between due and sent, in microseconds.
    pub worst_late: f64,
}

/// Transactions that deadlocked, were repeated and committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contention {
    /// Attempts, committed or not.
    pub attempts: u64,
    /// Attempts refused with 1213.
    pub deadlocks: u64,
    /// Attempts refused with 1205.
    pub timeouts: u64,
    /// Commits of the client that had the fewest.
    pub fewest: u64,
    /// Commits of the client that had the most.
    pub most: u64,
}

/// Latencies of a run in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile; `None` of fewer than a thousand requests.
    #[serde(default)]
    pub p999: Option<f64>,
    /// 99.99th percentile; `None` of fewer than ten thousand requests.
    #[serde(default)]
    pub p9999: Option<f64>,
    /// Greatest.
    pub max: f64,
}

/// A ratio of two systems at one operation and size.
#[derive(Clone, Debug, PartialEq)]
pub struct Ratio<'a> {
    /// Operation.
    pub operation: &'a str,
    /// Size.
    pub size: u64,
    /// Ours.
    pub ours: &'a str,
    /// Theirs.
    pub theirs: &'a str,
    /// Ratio of ours to theirs; of latencies, theirs to ours.
    pub ratio: Estimate,
    /// Processor time for a request, theirs to ours: of the server, and of the generator.
    pub processor: [Option<Estimate>; 2],
}

impl Report {
    /// Adds the settings of the servers, which files of version 1 lack. `bench budgets` ran the
    /// experiment that occurs twice once more with an fsync that is 1 ms slower, and the one about the memcached
    /// listener with `interval`; other commands had one durability for all.
    pub fn upgrade(&mut self) {
        let is_budgets = self.machine.command.contains("bench budgets");
        let words = self.systems.iter().map(|system| &system.settings);
        let is_set = |word: &str| {
            words
                .clone()
                .any(|text| text.contains(&format!("--durability {word}")))
        };
        let common = ["sync", "interval", "memory"]
            .into_iter()
            .find(|word| is_set(word));
        let common = common.and_then(|word| Durability::parse(word).ok());
        let mut seen: Vec<String> = Vec::new();
        for experiment in &mut self.experiments {
            let is_second = seen.contains(&experiment.name);
            seen.push(experiment.name.clone());
            let durability = match experiment.name.as_str() {
                "memcached" if is_budgets => Some(Durability::Interval),
                _ if is_budgets => Some(Durability::Sync),
                _ => common,
            };
            let delay = if is_budgets && is_second {
                1000
            } else {
                self.machine.fsync_delay_micros
            };
            experiment.setup = experiment.setup.or(durability.map(|durability| Setup {
                durability,
                fsync_delay_micros: delay,
            }));
        }
        self.format = REPORT_FORMAT_VERSION;
    }

    /// Adds the results of another report of the same machine.
    pub fn append(&mut self, other: Report) {
        for system in other.systems {
            if !self.systems.contains(&system) {
                self.systems.push(system);
            }
        }
        self.experiments.extend(other.experiments);
        self.notes.extend(other.notes);
        self.failure = self.failure.take().or(other.failure);
    }
}

impl Run {
    /// A run from the counts of the generator, on a number of cores.
    pub fn of(outcome: &Outcome, cores: usize) -> Run {
        let each = |seconds: Option<f64>| {
            let seconds = seconds?;
            (outcome.requests > 0).then(|| seconds * 1e6 / outcome.requests as f64)
        };
        let capacity = outcome.seconds * cores as f64;
        let outside = outcome.spent.outside;
        Run {
            requests: outcome.requests,
            refused: outcome.refused,
            seconds: outcome.seconds,
            throughput: outcome.throughput(),
            per_second: outcome.per_second.clone(),
            latency: Latency {
                mean: outcome.latency.mean() / 1e3,
                p50: outcome.latency_micros(0.50),
                p95: outcome.latency_micros(0.95),
                p99: outcome.latency_micros(0.99),
                p999: outcome.rare_latency_micros(0.999),
                p9999: outcome.rare_latency_micros(0.9999),
                max: outcome.latency.max() as f64 / 1e3,
            },
            server_micros: each(outcome.spent.server),
            generator_micros: each(outcome.spent.generator),
            outside: outside.filter(|_| capacity > 0.0).map(|o| o / capacity),
            futex_per_thousand: None,
            instructions: None,
            contention: None,
            threads: ThreadMicros::each(&outcome.threads, outcome.requests),
            open_loop: outcome.lateness.map(|(rate, lateness)| OpenLoop {
                rate: rate.0,
                is_held: rate.is_held(outcome.requests, outcome.seconds),
                unanswered: lateness.unanswered,
                late: lateness.late,
                worst_late: lateness.worst as f64 / 1e3,
            }),
            failure: outcome.failure.as_ref().map(|e| e.message.clone()),
        }
    }

    /// Whether other programs used so much of the machine that the figures are in
    /// doubt. In a run so short that single ticks of the kernel exceed the
    /// limit, two ticks for each core are tolerated.
    pub fn is_disturbed(&self) -> bool {
        const TICKS: f64 = 0.02;
        let coarse = if self.seconds > 0.0 {
            TICKS / self.seconds
        } else {
            0.0
        };
        self.outside
            .is_some_and(|share| share > OUTSIDE_LIMIT.max(coarse))
    }
}

impl Cell {
    /// Throughputs of the rounds, with 0 for one that failed, so that rounds
    /// keep their places.
    pub fn throughputs(&self) -> Vec<f64> {
        self.of_good(|run| run.throughput)
    }

    /// Median latencies of the rounds, likewise.
    pub fn latencies(&self) -> Vec<f64> {
        self.of_good(|run| run.latency.p50)
    }

    fn of_good(&self, figure: impl Fn(&Run) -> f64) -> Vec<f64> {
        let good = |run: &Run| {
            if run.failure.is_none() {
                figure(run)
            } else {
                0.0
            }
        };
        self.runs.iter().map(good).collect()
    }

    /// Mean of a figure over the runs that did not fail, with its interval;
    /// `None` where no run has it.
    pub fn figure(&self, of: impl Fn(&Run) -> Option<f64>) -> Option<Estimate> {
        let good = self.runs.iter().filter(|run| run.failure.is_none());
        let values: Vec<f64> = good.filter_map(of).collect();
        (!values.is_empty()).then(|| estimate(&values))
    }

    /// Mean throughput.
    pub fn throughput(&self) -> Option<Estimate> {
        self.figure(|run| Some(run.throughput))
    }

    /// Whether a run was disturbed from outside.
    pub fn is_disturbed(&self) -> bool {
        self.runs.iter().any(Run::is_disturbed)
    }

    /// The first failure.
    pub fn failure(&self) -> Option<&str> {
        self.runs.iter().find_map(|run| run.failure.as_deref())
    }
}

impl Experiment {
    /// The operations in order of appearance.
    pub fn operations(&self) -> Vec<&str> {
        distinct(self.cells.iter().map(|cell| cell.operation.as_str()))
    }

    /// The systems in order of appearance.
    pub fn systems(&self) -> Vec<&str> {
        distinct(self.cells.iter().map(|cell| cell.system.as_str()))
    }

    /// The cell of an operation, size and system.
    pub fn cell(&self, operation: &str, size: u64, system: &str) -> Option<&Cell> {
        self.cells
            .iter()
            .find(|c| c.operation == operation && c.size == size && c.system == system)
    }

    /// All ratios of the pairs, operation by operation.
    pub fn ratios(&self) -> Vec<Ratio<'_>> {
        let mut found = Vec::new();
        for cell in &self.cells {
            for (ours, theirs) in self.pairs.iter().filter(|(ours, _)| *ours == cell.system) {
                let Some(other) = self.cell(&cell.operation, cell.size, theirs) else {
                    continue;
                };
                let ratio = if self.is_about_latency {
                    paired_ratio(&other.latencies(), &cell.latencies())
                } else {
                    paired_ratio(&cell.throughputs(), &other.throughputs())
                };
                let processor = |micros: fn(&Run) -> Option<f64>| {
                    let of = |cell: &Cell| cell.of_good(|run| micros(run).unwrap_or(0.0));
                    paired_ratio(&of(other), &of(cell))
                };
                if let Some(ratio) = ratio {
                    found.push(Ratio {
                        operation: &cell.operation,
                        size: cell.size,
                        ours,
                        theirs,
                        ratio,
                        processor: [
                            processor(|run| run.server_micros),
                            processor(|run| run.generator_micros),
                        ],
                    });
                }
            }
        }
        found
    }

    /// Latency over size, as a straight line, of a system at an operation.
    pub fn line(&self, operation: &str, system: &str) -> Option<Line> {
        let points: Vec<(f64, f64)> = self
            .cells
            .iter()
            .filter(|c| c.operation == operation && c.system == system)
            .filter_map(|c| Some((c.size as f64, c.figure(|r| Some(r.latency.p50))?.mean)))
            .collect();
        fit_line(&points)
    }
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(throughput: f64) -> Run {
        Run {
            throughput,
            latency: Latency {
                p50: 1e6 / throughput,
                ..Latency::default()
            },
            ..Run::default()
        }
    }

    fn cell(system: &str, throughputs: &[f64]) -> Cell {
        Cell {
            operation: "SELECT".to_owned(),
            size: 8,
            system: system.to_owned(),
            client: String::new(),
            units: 1,
            runs: throughputs.iter().map(|t| run(*t)).collect(),
        }
    }

    fn experiment() -> Experiment {
        Experiment {
            cells: vec![cell("A", &[200.0, 300.0]), cell("B", &[100.0, 150.0])],
            pairs: vec![("A".to_owned(), "B".to_owned())],
            ..Experiment::new("kv", "", "", "clients")
        }
    }

    #[test]
    fn ratios_are_of_the_named_pairs() {
        let experiment = experiment();
        let ratios = experiment.ratios();
        assert_eq!(ratios.len(), 1);
        assert!((ratios[0].ratio.mean - 2.0).abs() < 1e-9);
        let about_latency = Experiment {
            is_about_latency: true,
            ..experiment.clone()
        };
        assert!((about_latency.ratios()[0].ratio.mean - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_failed_round_leaves_the_others_in_their_pairs() {
        let mut experiment = experiment();
        experiment.cells[0].runs[0].failure = Some("refused".to_owned());
        let ratios = experiment.ratios();
        assert!((ratios[0].ratio.mean - 2.0).abs() < 1e-9);
        assert_eq!(ratios[0].ratio.interval, None);
        assert_eq!(experiment.cells[0].failure(), Some("refused"));
        assert_eq!(experiment.cells[0].throughput().unwrap().mean, 300.0);
    }

    #[test]
    fn a_run_beside_other_work_is_marked() {
        let mut disturbed = run(1.0);
        assert!(!disturbed.is_disturbed());
        disturbed.outside = Some(0.2);
        assert!(disturbed.is_disturbed());
    }
}
