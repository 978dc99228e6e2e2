//! Budgets: for each kind of work a floor, which is required, and a goal, which is desired; and their
//! evaluation on an experiment's results. A [`Budget`] is a ratio to a peer, a [`Limit`] a figure without
//! one. The list is in [`table`].
//!
//! 1. A floor is met when the middle of the ratio's interval is above it. The interval is printed,
//!    so that a marginal verdict can be recognized.
//! 2. Each combination of operation, size and pair of systems is judged by itself: a mean over
//!    several would hide a combination below its floor.
//! 3. A budget without any result is reported as not measured, never as met.
//! 4. Results are judged by the budgets that hold for the durability and the delay of fsync with which they were
//!    measured.

mod needs;
mod table;

pub use table::PHASES;

use crate::number::short;
use crate::peers::Durability;
use crate::report::{Cell, Experiment, Ratio, Setup};
use std::time::Duration;

/// Servers with the same settings, and the experiments that are run on them.
#[derive(Debug)]
pub struct Phase {
    /// Durability of the servers' commits.
    pub durability: Durability,
    /// Time added to each fsync.
    pub fsync_delay: Duration,
    /// The peers, as `--start-peers` takes them; `None`: the experiments need no servers.
    pub peers: Option<&'static str>,
    /// Rows of all experiments; `None`: each experiment's default.
    pub rows: Option<u64>,
    /// Whether `--quick` skips it.
    pub is_long: bool,
    /// The ratios that are measured on these servers.
    pub budgets: &'static [Budget],
    /// The figures without a peer.
    pub limits: &'static [Limit],
}

/// A ratio to a peer.
#[derive(Debug)]
pub struct Budget {
    /// The work, in words.
    pub work: &'static str,
    /// The experiment that measures it.
    pub experiment: &'static str,
    /// Its operations; empty: all that no other budget of the experiment names.
    pub operations: &'static [&'static str],
    /// Sizes (numbers of clients or keys); empty: all.
    pub sizes: &'static [u64],
    /// Prefix of our system's name.
    pub ours: &'static str,
    /// Prefix of the compared system's name.
    pub peer: &'static str,
    /// Required ratio.
    pub floor: f64,
    /// Desired ratio.
    pub goal: f64,
}

/// The direction in which figures are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Those that are at least the floor.
    AtLeast,
    /// Those that are at most the floor.
    AtMost,
}

/// A figure without a peer.
#[derive(Debug)]
pub struct Limit {
    /// The work, in words.
    pub work: &'static str,
    /// The experiment that measures it.
    pub experiment: &'static str,
    /// Prefix of the names of its measures ([`crate::report::Measure`]).
    pub measure: &'static str,
    /// The direction in which figures are better.
    pub direction: Direction,
    /// Required figure; `None`: nothing is required.
    pub floor: Option<f64>,
    /// Desired figure.
    pub goal: f64,
}

const fn budget(work: &'static str, experiment: &'static str, peer: &'static str) -> Budget {
    Budget {
        work,
        experiment,
        operations: &[],
        sizes: &[],
        ours: "",
        peer,
        floor: 1.0,
        goal: 1.0,
    }
}

/// Words by which budgets are selected; none: all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection(Vec<String>);

impl Selection {
    /// The budgets in whose work or experiment one of the words (separated by commas) occurs.
    pub fn of(words: &str) -> Selection {
        let words = words.split(',').map(|word| word.trim().to_lowercase());
        Selection(words.filter(|word| !word.is_empty()).collect())
    }

    /// Whether a budget is selected.
    pub fn has(&self, work: &str, experiment: &str) -> bool {
        let work = work.to_lowercase();
        let found = |word: &String| work.contains(word) || experiment.contains(word.as_str());
        self.0.is_empty() || self.0.iter().any(found)
    }

    /// Whether any budget is selected.
    pub fn is_known(&self) -> bool {
        let mut phases = PHASES.iter();
        phases.any(|phase| !phase.experiments(self).is_empty())
    }
}

/// A figure that a budget judges.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The work of the budget.
    pub work: &'static str,
    /// The experiment.
    pub experiment: &'static str,
    /// Operation and systems, or name of the measure.
    pub subject: String,
    /// Size, with what it counts.
    pub size: Option<(u64, String)>,
    /// The figure.
    pub value: f64,
    /// Its 95 % interval.
    pub interval: Option<(f64, f64)>,
    /// Unit; empty for ratios.
    pub unit: String,
    /// The direction in which figures are better.
    pub direction: Direction,
    /// Required figure.
    pub floor: Option<f64>,
    /// Desired figure.
    pub goal: f64,
    /// The servers' processor time for a request: ours, theirs.
    pub micros: Option<(Option<f64>, Option<f64>)>,
    /// Whether other programs disturbed the runs.
    pub is_disturbed: bool,
}

impl Finding {
    fn of_ratio(budget: &'static Budget, experiment: &Experiment, ratio: &Ratio<'_>) -> Finding {
        let cell = |system: &str| experiment.cell(ratio.operation, ratio.size, system);
        let micros = |cell: Option<&Cell>| Some(cell?.figure(|run| run.server_micros)?.mean);
        let cells = [cell(ratio.ours), cell(ratio.theirs)];
        Finding {
            work: budget.work,
            experiment: budget.experiment,
            subject: format!(
                "{}, {} beside {}",
                ratio.operation, ratio.ours, ratio.theirs
            ),
            size: Some((ratio.size, experiment.axis.title.clone())),
            value: ratio.ratio.mean,
            interval: ratio.ratio.interval,
            unit: String::new(),
            direction: Direction::AtLeast,
            floor: Some(budget.floor),
            goal: budget.goal,
            micros: Some((micros(cells[0]), micros(cells[1]))),
            is_disturbed: cells.iter().flatten().any(|cell| cell.is_disturbed()),
        }
    }

    /// The outcome.
    pub fn outcome(&self) -> Outcome {
        let reaches = |limit: f64| match self.direction {
            Direction::AtLeast => self.value >= limit,
            Direction::AtMost => self.value <= limit,
        };
        match self.floor {
            _ if reaches(self.goal) => Outcome::Goal,
            None => Outcome::NoGoal,
            Some(floor) if reaches(floor) => Outcome::Floor,
            Some(_) => Outcome::Short,
        }
    }

    /// The line that is printed.
    fn line(&self) -> String {
        let size = self.size.as_ref();
        let size = size.map_or(String::new(), |(size, axis)| format!(", {size} {axis}"));
        let interval = self.interval.map_or(String::new(), |(low, high)| {
            format!(" ({low:.2} to {high:.2})")
        });
        let unit = match self.unit.as_str() {
            "" => String::new(),
            unit => format!(" {unit}"),
        };
        let value = if self.unit.is_empty() {
            format!("{:.2}", self.value)
        } else {
            short(self.value)
        };
        let floor = self.floor.map_or("none".to_owned(), plain);
        let micros = self.micros.map_or(String::new(), |(ours, theirs)| {
            let words = |m: Option<f64>| m.map_or("-".to_owned(), short);
            format!("; server {} and {} us", words(ours), words(theirs))
        });
        format!(
            "{}: {}: {}{size}: {value}{interval}{unit}, floor {floor}, goal {}{micros}",
            self.outcome().word(),
            self.work,
            self.subject,
            plain(self.goal),
        )
    }
}

/// A floor or goal as the table has it, large ones shortened.
pub fn plain(limit: f64) -> String {
    if limit >= 1e4 {
        short(limit)
    } else {
        limit.to_string()
    }
}

impl Phase {
    /// The experiments to run for the selected budgets, each once.
    pub fn experiments(&self, selection: &Selection) -> Vec<&'static str> {
        let budgets = self.budgets.iter().map(|b| (b.work, b.experiment));
        let limits = self.limits.iter().map(|l| (l.work, l.experiment));
        let mut names: Vec<&str> = Vec::new();
        for (work, experiment) in budgets.chain(limits) {
            if selection.has(work, experiment) && !names.contains(&experiment) {
                names.push(experiment);
            }
        }
        names
    }

    /// Whether results were measured on servers with these settings.
    pub fn holds_for(&self, setup: &Setup) -> bool {
        setup.durability == self.durability
            && u128::from(setup.fsync_delay_micros) == self.fsync_delay.as_micros()
    }

    /// The budget that judges a ratio; one that names the operation comes before one that names none.
    fn budget_of(&self, experiment: &str, ratio: &Ratio<'_>) -> Option<usize> {
        let names = |b: &Budget| b.operations.contains(&ratio.operation);
        let judges = |b: &Budget| {
            b.experiment == experiment
                && (b.sizes.is_empty() || b.sizes.contains(&ratio.size))
                && ratio.ours.starts_with(b.ours)
                && ratio.theirs.starts_with(b.peer)
                && (b.operations.is_empty() || names(b))
        };
        let named = self.budgets.iter().position(|b| judges(b) && names(b));
        named.or_else(|| self.budgets.iter().position(judges))
    }

    /// All figures that a budget judges, by the position of the budget; limits follow the ratios.
    pub fn findings<'e>(
        &'static self,
        results: impl Iterator<Item = &'e Experiment>,
    ) -> Vec<(usize, Finding)> {
        let mut found = Vec::new();
        for experiment in results {
            for ratio in experiment.ratios() {
                if let Some(at) = self.budget_of(&experiment.name, &ratio)
                    && let Some(budget) = self.budgets.get(at)
                {
                    found.push((at, Finding::of_ratio(budget, experiment, &ratio)));
                }
            }
            let limits = self.limits.iter().enumerate();
            for (at, limit) in limits.filter(|(_, l)| l.experiment == experiment.name) {
                let measures = experiment.measures.iter();
                for measure in measures.filter(|m| m.name.starts_with(limit.measure)) {
                    let finding = Finding {
                        work: limit.work,
                        experiment: limit.experiment,
                        subject: measure.name.clone(),
                        size: None,
                        value: measure.value,
                        interval: None,
                        unit: measure.unit.clone(),
                        direction: limit.direction,
                        floor: limit.floor,
                        goal: limit.goal,
                        micros: None,
                        is_disturbed: false,
                    };
                    found.push((self.budgets.len() + at, finding));
                }
            }
        }
        found.sort_by_key(|(at, _)| *at);
        found
    }

    /// The verdicts on the selected budgets, in their order.
    pub fn verdicts(&'static self, selection: &Selection, results: &[Experiment]) -> Vec<Verdict> {
        let found = self.findings(results.iter());
        let budgets = self.budgets.iter().map(|b| (b.work, b.experiment));
        let all = budgets.chain(self.limits.iter().map(|l| (l.work, l.experiment)));
        let mut verdicts = Vec::new();
        for (at, (work, experiment)) in all.enumerate() {
            if !selection.has(work, experiment) {
                continue;
            }
            let of = found.iter().filter(|(known, _)| *known == at);
            let before = verdicts.len();
            verdicts.extend(of.map(|(_, finding)| Verdict::of(finding)));
            if verdicts.len() == before {
                verdicts.push(Verdict::without_result(work));
            }
        }
        verdicts
    }
}

/// Outcome of one budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The goal is reached.
    Goal,
    /// The floor is reached.
    Floor,
    /// The goal is missed, and there is no floor.
    NoGoal,
    /// The floor is missed.
    Short,
    /// Nothing was measured.
    Unmeasured,
}

/// A judged figure, ready to be printed.
#[derive(Debug)]
pub struct Verdict {
    /// The outcome.
    pub outcome: Outcome,
    /// The line.
    pub line: String,
}

impl Verdict {
    fn of(finding: &Finding) -> Verdict {
        Verdict {
            outcome: finding.outcome(),
            line: finding.line(),
        }
    }

    fn without_result(work: &str) -> Verdict {
        let outcome = Outcome::Unmeasured;
        Verdict {
            outcome,
            line: format!("{}: {work}", outcome.word()),
        }
    }
}

impl Outcome {
    /// The first words of the line.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Goal => "goal met",
            Outcome::Floor => "floor met",
            Outcome::NoGoal => "goal missed",
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
        Outcome::NoGoal,
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
    use crate::report::{Measure, Run};

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
            cells,
            pairs: vec![("Porpoise".to_owned(), "MariaDB".to_owned())],
            ..Experiment::new(name, "", "", "clients")
        }
    }

    fn outcomes(phase: &'static Phase, results: &[Experiment], work: &str) -> Vec<Outcome> {
        let verdicts = phase.verdicts(&Selection::default(), results);
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
            let verdicts = phase.verdicts(&Selection::default(), &[]);
            assert_eq!(verdicts.len(), phase.budgets.len() + phase.limits.len());
            assert!(verdicts.iter().all(|v| v.outcome == Outcome::Unmeasured));
            assert!(summary(&verdicts).contains("0 floor met"));
        }
    }

    #[test]
    fn goals_are_better_than_floors() {
        for budget in PHASES.iter().flat_map(|phase| phase.budgets) {
            assert!(budget.floor <= budget.goal, "{}", budget.work);
        }
        for limit in PHASES.iter().flat_map(|phase| phase.limits) {
            let floor = limit.floor.unwrap_or(limit.goal);
            let is_right = match limit.direction {
                Direction::AtLeast => floor <= limit.goal,
                Direction::AtMost => floor >= limit.goal,
            };
            assert!(is_right, "{}", limit.work);
        }
    }

    #[test]
    fn figures_without_a_peer_are_judged() {
        let phase = PHASES
            .iter()
            .find(|p| p.limits.iter().any(|l| l.work == "memory of a row"))
            .unwrap();
        for (value, outcome) in [
            (160.0, Outcome::Goal),
            (161.0, Outcome::Floor),
            (201.0, Outcome::Short),
        ] {
            let mut experiment = results("native", Vec::new());
            experiment.measures.push(Measure {
                name: "the engine alone: memory of a row".to_owned(),
                value,
                unit: "bytes".to_owned(),
            });
            let found = outcomes(phase, &[experiment], "memory of a row");
            assert_eq!(found, [outcome], "{value}");
        }
    }

    #[test]
    fn a_figure_without_a_floor_does_not_fall_short() {
        let finding = |value| Finding {
            work: "x",
            experiment: "x",
            subject: String::new(),
            size: None,
            value,
            interval: None,
            unit: "%".to_owned(),
            direction: Direction::AtMost,
            floor: None,
            goal: 10.0,
            micros: None,
            is_disturbed: false,
        };
        assert_eq!(finding(9.0).outcome(), Outcome::Goal);
        assert_eq!(finding(11.0).outcome(), Outcome::NoGoal);
        assert!(finding(11.0).line().contains("11.0 %, floor none, goal 10"));
    }

    #[test]
    fn the_change_log_is_compared_with_the_same_server_without_it() {
        let phase = PHASES
            .iter()
            .find(|p| p.budgets.iter().any(|b| b.ours.contains("binary log")))
            .unwrap();
        let mut experiment = results(
            "first",
            vec![
                cell("UPDATE", 8, "Porpoise, binary log text", 90.0),
                cell("UPDATE", 8, "Porpoise, binary log memcached", 10.0),
                cell("UPDATE", 8, "Porpoise text", 100.0),
            ],
        );
        experiment.pairs = [
            ("Porpoise, binary log text", "Porpoise text"),
            (
                "Porpoise, binary log text",
                "Porpoise, binary log memcached",
            ),
        ]
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .to_vec();
        assert_eq!(
            outcomes(phase, &[experiment], "change log"),
            [Outcome::Floor]
        );
    }

    #[test]
    fn budgets_are_selected_by_words() {
        let of = |words: &str| -> Vec<&str> {
            let selection = Selection::of(words);
            let phases = PHASES.iter();
            phases
                .flat_map(|phase| phase.experiments(&selection))
                .collect()
        };
        assert_eq!(of("memcached set"), ["memcached"]);
        assert_eq!(of("IN of 50, bulk"), ["mget", "sysbench"]);
        assert!(of("").len() > 8);
        assert!(!Selection::of("no such work").is_known());
        let selection = Selection::of("bulk insert");
        let verdicts = PHASES[1].verdicts(&selection, &[]);
        assert_eq!(verdicts.len(), 1);
    }
}
