//! Budgets: for each kind of work a floor, the ratio to a peer that is required, and a goal, the
//! ratio that is desired; and their evaluation on an experiment's results.
//!
//! 1. A floor is met when the middle of the ratio's interval is above it. The interval is printed,
//!    so that a marginal verdict can be recognized.
//! 2. Each combination of operation, size and pair of systems is judged by itself: a mean over
//!    several would hide a combination below its floor.
//! 3. A budget without any result is reported as not measured, never as met.
//!
//! Budgets without a peer (bytes for a row, time of a restart, requests to a cluster) are not here:
//! `porpoise bench native --starts` and the tests of costs measure those.

use crate::output::short;
use crate::peers::Durability;
use crate::report::{Cell, Experiment, Ratio};
use std::time::Duration;

/// Servers started alike, and the experiments that are run on them.
#[derive(Debug)]
pub struct Phase {
    /// Durability of the servers' commits.
    pub durability: Durability,
    /// Time added to each fsync.
    pub fsync_delay: Duration,
    /// The peers, as `--start-peers` takes them.
    pub peers: &'static str,
    /// The budgets that these servers are measured against.
    pub budgets: &'static [Budget],
}

/// One kind of work.
#[derive(Debug)]
pub struct Budget {
    /// The work, in words.
    pub work: &'static str,
    /// The experiment that measures it.
    pub experiment: &'static str,
    /// Its operations; empty: all that no other budget of the experiment names.
    pub operations: &'static [&'static str],
    /// Numbers of clients or keys; empty: all.
    pub sizes: &'static [u64],
    /// Prefix of the compared system's name.
    pub peer: &'static str,
    /// Required ratio.
    pub floor: f64,
    /// Desired ratio.
    pub goal: f64,
}

const fn budget(work: &'static str, experiment: &'static str, peer: &'static str) -> Budget {
    Budget {
        work,
        experiment,
        operations: &[],
        sizes: &[],
        peer,
        floor: 1.0,
        goal: 1.0,
    }
}

/// All budgets, by the settings under which they hold.
pub const PHASES: &[Phase] = &[
    Phase {
        durability: Durability::Interval,
        fsync_delay: Duration::ZERO,
        peers: "porpoise,memcached",
        budgets: &[
            Budget {
                operations: &["get, ascii", "get, meta", "get, binary"],
                goal: 1.2,
                ..budget("memcached GET", "memcached", "memcached")
            },
            Budget {
                operations: &["get of 50 keys, ascii", "get of 50 keys, meta"],
                floor: 1.5,
                goal: 2.0,
                ..budget("memcached get of 50 keys", "memcached", "memcached")
            },
            Budget {
                operations: &["set, ascii", "set, meta", "set, binary"],
                floor: 0.95,
                goal: 1.1,
                ..budget("memcached SET", "memcached", "memcached")
            },
            Budget {
                operations: &["set, ascii, 16 deep", "set, meta, 16 deep"],
                goal: 1.5,
                ..budget("16 SETs in one write", "memcached", "memcached")
            },
        ],
    },
    Phase {
        durability: Durability::Sync,
        fsync_delay: Duration::ZERO,
        peers: "porpoise,mariadb",
        budgets: &[
            Budget {
                operations: &["SELECT"],
                sizes: &[8, 64],
                floor: 2.5,
                goal: 3.5,
                ..budget("SELECT by key", "first", "MariaDB")
            },
            Budget {
                operations: &["UPDATE", "INSERT"],
                sizes: &[8, 64],
                floor: 2.0,
                goal: 4.0,
                ..budget("UPDATE and INSERT", "first", "MariaDB")
            },
            Budget {
                sizes: &[50],
                floor: 3.0,
                goal: 5.0,
                ..budget("IN of 50 keys", "mget", "MariaDB")
            },
            Budget {
                operations: &["many parents"],
                floor: 0.97,
                ..budget("INSERT with foreign keys", "fk", "Porpoise, no foreign key")
            },
            Budget {
                operations: &["bulk_insert"],
                floor: 1.2,
                goal: 2.0,
                ..budget("bulk INSERT", "sysbench", "MariaDB")
            },
            Budget {
                floor: 1.3,
                goal: 3.0,
                ..budget("sysbench's OLTP scripts", "sysbench", "MariaDB")
            },
            Budget {
                floor: 1.2,
                goal: 2.0,
                ..budget("loading dumps and text files", "dump", "MariaDB")
            },
            Budget {
                floor: 1.2,
                goal: 4.0,
                ..budget("analytical queries", "analytics", "MariaDB")
            },
        ],
    },
    Phase {
        durability: Durability::Sync,
        fsync_delay: Duration::from_millis(1),
        peers: "porpoise,mariadb",
        budgets: &[Budget {
            operations: &["UPDATE", "INSERT"],
            sizes: &[8, 64],
            floor: 2.0,
            goal: 4.0,
            ..budget("UPDATE and INSERT, fsync 1 ms slower", "first", "MariaDB")
        }],
    },
];

impl Phase {
    /// The experiments to run, each once.
    pub fn experiments(&self) -> Vec<&'static str> {
        let mut names: Vec<&str> = Vec::new();
        for budget in self.budgets {
            if !names.contains(&budget.experiment) {
                names.push(budget.experiment);
            }
        }
        names
    }

    /// The budget that judges a ratio; one that names the operation comes before one that names none.
    fn budget_of(&self, experiment: &str, ratio: &Ratio<'_>) -> Option<usize> {
        let names = |b: &Budget| b.operations.contains(&ratio.operation);
        let judges = |b: &Budget| {
            b.experiment == experiment
                && (b.sizes.is_empty() || b.sizes.contains(&ratio.size))
                && ratio.theirs.starts_with(b.peer)
                && (b.operations.is_empty() || names(b))
        };
        let named = self.budgets.iter().position(|b| judges(b) && names(b));
        named.or_else(|| self.budgets.iter().position(judges))
    }

    /// The verdicts on all budgets, in their order.
    pub fn verdicts(&self, results: &[Experiment]) -> Vec<Verdict> {
        let mut found: Vec<(usize, Verdict)> = Vec::new();
        for experiment in results {
            for ratio in experiment.ratios() {
                if let Some(at) = self.budget_of(&experiment.name, &ratio)
                    && let Some(budget) = self.budgets.get(at)
                {
                    found.push((at, Verdict::of(budget, experiment, &ratio)));
                }
            }
        }
        for (at, budget) in self.budgets.iter().enumerate() {
            if found.iter().all(|(known, _)| *known != at) {
                found.push((at, Verdict::without_result(budget)));
            }
        }
        found.sort_by_key(|(at, _)| *at);
        found.into_iter().map(|(_, verdict)| verdict).collect()
    }
}

/// Outcome of one budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The goal is reached.
    Goal,
    /// The floor is reached.
    Floor,
    /// The floor is missed.
    Short,
    /// Nothing was measured.
    Unmeasured,
}

/// A judged ratio, ready to be printed.
#[derive(Debug)]
pub struct Verdict {
    /// The outcome.
    pub outcome: Outcome,
    /// The line.
    pub line: String,
}

impl Verdict {
    fn of(budget: &Budget, experiment: &Experiment, ratio: &Ratio<'_>) -> Verdict {
        let mean = ratio.ratio.mean;
        let outcome = if mean >= budget.goal {
            Outcome::Goal
        } else if mean >= budget.floor {
            Outcome::Floor
        } else {
            Outcome::Short
        };
        let interval = ratio.ratio.interval.map_or(String::new(), |(low, high)| {
            format!(" ({low:.2} to {high:.2})")
        });
        let micros = |system: &str| {
            let cell: Option<&Cell> = experiment.cell(ratio.operation, ratio.size, system);
            let micros = cell.and_then(|c| c.figure(|run| run.server_micros));
            micros.map_or("-".to_owned(), |m| short(m.mean))
        };
        let line = format!(
            "{}: {}: {}, {} {}, {} beside {}: {mean:.2}{interval}, floor {}, goal {}; \
             server {} and {} us",
            outcome.word(),
            budget.work,
            ratio.operation,
            ratio.size,
            experiment.axis.title,
            ratio.ours,
            ratio.theirs,
            budget.floor,
            budget.goal,
            micros(ratio.ours),
            micros(ratio.theirs)
        );
        Verdict { outcome, line }
    }

    fn without_result(budget: &Budget) -> Verdict {
        let outcome = Outcome::Unmeasured;
        Verdict {
            outcome,
            line: format!("{}: {}", outcome.word(), budget.work),
        }
    }
}

impl Outcome {
    /// The word that a line begins with.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Goal => "goal met",
            Outcome::Floor => "floor met",
            Outcome::Short => "falls short",
            Outcome::Unmeasured => "not measured",
        }
    }
}

/// A line that counts the outcomes.
pub fn summary(verdicts: &[Verdict]) -> String {
    let count = |outcome| verdicts.iter().filter(|v| v.outcome == outcome).count();
    let outcomes = [
        Outcome::Goal,
        Outcome::Floor,
        Outcome::Short,
        Outcome::Unmeasured,
    ];
    let counts: Vec<String> = outcomes
        .into_iter()
        .map(|outcome| format!("{} {}", count(outcome), outcome.word()))
        .collect();
    counts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Axis, Run};

    fn cell(operation: &str, size: u64, system: &str, throughput: f64) -> Cell {
        Cell {
            operation: operation.to_owned(),
            size,
            system: system.to_owned(),
            client: String::new(),
            units: 1,
            runs: vec![Run {
                throughput,
                ..Run::default()
            }],
        }
    }

    fn results(name: &str, cells: Vec<Cell>) -> Experiment {
        Experiment {
            name: name.to_owned(),
            title: String::new(),
            about: String::new(),
            axis: Axis {
                title: "clients".to_owned(),
                is_logarithmic: true,
            },
            is_about_latency: false,
            cells,
            pairs: vec![("Porpoise".to_owned(), "MariaDB".to_owned())],
            notes: Vec::new(),
        }
    }

    fn outcomes(phase: &Phase, results: &[Experiment], work: &str) -> Vec<Outcome> {
        let verdicts = phase.verdicts(results);
        let of = verdicts.iter().filter(|v| v.line.contains(work));
        of.map(|v| v.outcome).collect()
    }

    #[test]
    fn each_ratio_is_judged_by_its_budget() {
        let (sync, cells) = (&PHASES[1], |ours: f64| {
            vec![
                cell("SELECT", 8, "Porpoise", ours),
                cell("SELECT", 8, "MariaDB", 100.0),
                cell("SELECT", 1, "Porpoise", 1.0),
                cell("SELECT", 1, "MariaDB", 100.0),
            ]
        });
        for (ours, outcome) in [
            (350.0, Outcome::Goal),
            (349.0, Outcome::Floor),
            (249.0, Outcome::Short),
        ] {
            let results = [results("first", cells(ours))];
            assert_eq!(
                outcomes(sync, &results, "SELECT by key"),
                [outcome],
                "{ours}"
            );
        }
    }

    #[test]
    fn a_named_operation_is_not_judged_by_the_budget_of_the_others() {
        let cells = vec![
            cell("bulk_insert", 8, "Porpoise", 125.0),
            cell("bulk_insert", 8, "MariaDB", 100.0),
            cell("oltp_insert", 8, "Porpoise", 125.0),
            cell("oltp_insert", 8, "MariaDB", 100.0),
        ];
        let results = [results("sysbench", cells)];
        assert_eq!(
            outcomes(&PHASES[1], &results, "bulk INSERT"),
            [Outcome::Floor]
        );
        assert_eq!(outcomes(&PHASES[1], &results, "OLTP"), [Outcome::Short]);
    }

    #[test]
    fn a_budget_without_results_is_not_measured() {
        for phase in PHASES {
            let verdicts = phase.verdicts(&[]);
            assert_eq!(verdicts.len(), phase.budgets.len());
            assert!(verdicts.iter().all(|v| v.outcome == Outcome::Unmeasured));
            assert!(summary(&verdicts).contains("0 floor met"));
        }
    }

    #[test]
    fn floors_are_below_goals() {
        let all = PHASES.iter().flat_map(|phase| phase.budgets);
        for budget in all {
            assert!(budget.floor <= budget.goal, "{}", budget.work);
        }
    }
}
