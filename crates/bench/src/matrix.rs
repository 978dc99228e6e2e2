//! Runs of an experiment, interleaved: in each round every group (one
//! operation at one size) is measured by all its systems one after the other,
//! in an order that rotates from round to round, so that drift of the
//! machine affects all systems equally.
//!
//! A system that fails is marked in that run and tried again in the next
//! round; the others continue.

use crate::connect::Endpoint;
use crate::error::{Error, Kind, Result};
use crate::load::{self, Outcome, Pace, Plan, Shape, Workload};
use crate::progress::Progress;
use crate::report::{Cell, Run};
use std::time::Duration;

/// Number and length of runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// Rounds.
    pub rounds: usize,
    /// Warm-up before each run.
    pub warm_up: Duration,
    /// Duration of a run.
    pub time: Duration,
    /// Tool that counts the server's futex calls, in a separate run.
    pub count_futexes: Option<crate::futex::Tool>,
    /// Closed or open loop, and the generator processes.
    pub pace: Pace,
}

/// One system's part in a group.
pub struct Entry<'a> {
    /// Name of the system.
    pub system: &'a str,
    /// Target of the system.
    pub endpoint: &'a Endpoint,
    /// Work to execute.
    pub workload: Box<dyn Workload + 'a>,
    /// Called before each run, outside measured time.
    pub before: Option<Box<dyn Fn() -> Result<()> + 'a>>,
}

/// One operation at one size.
pub struct Group<'a> {
    /// Operation.
    pub operation: String,
    /// Size.
    pub size: u64,
    /// Connections.
    pub connections: usize,
    /// Client's shape.
    pub shape: Shape,
    /// Units of work in a request.
    pub units: u64,
    /// The systems.
    pub entries: Vec<Entry<'a>>,
}

/// Runs all groups for all rounds; the cells in order of groups and entries.
///
/// # Errors
/// A wrong answer: all results of the system are discarded.
pub fn run(
    groups: &[Group<'_>],
    effort: Effort,
    progress: &mut Progress,
    cells: &mut Vec<Cell>,
) -> Result<()> {
    let start = cells.len();
    for group in groups {
        for entry in &group.entries {
            cells.push(Cell {
                operation: group.operation.clone(),
                size: group.size,
                system: entry.system.to_owned(),
                client: client_words(group),
                units: group.units,
                runs: Vec::new(),
            });
        }
    }
    let sizes: Vec<usize> = groups.iter().map(|group| group.entries.len()).collect();
    let measured: Vec<(&Group<'_>, &Entry<'_>)> = groups
        .iter()
        .flat_map(|group| group.entries.iter().map(move |entry| (group, entry)))
        .collect();
    let cells = cells.get_mut(start..).unwrap_or_default();
    progress.expect(cells.len() * effort.rounds, effort.warm_up + effort.time);
    let cores = crate::sys::cores();
    run_rounds(
        &sizes,
        effort.rounds,
        cells,
        progress,
        &mut |round, cell| match measured.get(cell) {
            Some((group, entry)) => one(group, entry, effort, cores, round == 0),
            None => Measured::default(),
        },
    )
}

/// Measures every cell in each of a number of rounds. `measure` gets the round and the position of the cell; for
/// `groups` see [`Turn::groups`].
///
/// # Errors
/// A wrong answer, or an interrupt.
pub fn run_rounds(
    groups: &[usize],
    rounds: usize,
    cells: &mut [Cell],
    progress: &mut Progress,
    measure: &mut dyn FnMut(usize, usize) -> Measured,
) -> Result<()> {
    for round in 0..rounds {
        let turn = Turn {
            groups,
            round,
            rounds,
        };
        turn.run(cells, progress, &mut |cell| measure(round, cell))?;
    }
    Ok(())
}

/// One round over all cells of an experiment.
pub struct Turn<'a> {
    /// Numbers of adjacent cells that differ in their system only. Their order
    /// turns round from round to round.
    pub groups: &'a [usize],
    /// This round, from 0.
    pub round: usize,
    /// All rounds.
    pub rounds: usize,
}

/// Result of one run.
#[derive(Default)]
pub struct Measured {
    /// Figures, or the reason why there are none.
    pub run: Run,
    /// Whether an answer was wrong, which ends the experiment.
    pub is_wrong: bool,
}

impl Measured {
    /// Figures of a run that took place.
    pub fn of(outcome: &Outcome, cores: usize) -> Measured {
        let failure = outcome.failure.as_ref();
        Measured {
            run: Run::of(outcome, cores),
            is_wrong: failure.is_some_and(|error| error.kind == Kind::Wrong),
        }
    }
}

impl From<Error> for Measured {
    fn from(error: Error) -> Measured {
        Measured {
            run: Run {
                failure: Some(error.message),
                ..Run::default()
            },
            is_wrong: error.kind == Kind::Wrong,
        }
    }
}

impl From<Result<Run>> for Measured {
    fn from(measured: Result<Run>) -> Measured {
        match measured {
            Ok(run) => Measured {
                run,
                is_wrong: false,
            },
            Err(error) => Measured::from(error),
        }
    }
}

impl Turn<'_> {
    /// Measures every cell once by its position, reports the run, and keeps it.
    ///
    /// # Errors
    /// A wrong answer, or an interrupt.
    pub fn run(
        &self,
        cells: &mut [Cell],
        progress: &mut Progress,
        measure: &mut dyn FnMut(usize) -> Measured,
    ) -> Result<()> {
        let mut first = 0;
        for count in self.groups {
            for step in 0..*count {
                let place = if self.round.is_multiple_of(2) {
                    first + step
                } else {
                    first + count - 1 - step
                };
                let Some(cell) = cells.get_mut(place) else {
                    continue;
                };
                if crate::sys::is_interrupted() {
                    return Err(Error::failed(load::INTERRUPTED));
                }
                let Measured { run, is_wrong } = measure(place);
                progress.one(cell, self.round, self.rounds, &run);
                let wrong = run.failure.clone().filter(|_| is_wrong);
                cell.runs.push(run);
                if let Some(reason) = wrong {
                    let (system, operation) = (&cell.system, &cell.operation);
                    return Err(Error::wrong(format!("{system}: {operation}: {reason}")));
                }
            }
            first += count;
        }
        Ok(())
    }
}

fn client_words(group: &Group<'_>) -> String {
    let connections = match group.connections {
        1 => "1 connection".to_owned(),
        n => format!("{n} connections"),
    };
    match group.shape {
        Shape::ThreadEach => connections,
        shape => format!("{connections}, {}", shape.words()),
    }
}

/// One run. Futexes are counted in the first round alone.
fn one(
    group: &Group<'_>,
    entry: &Entry<'_>,
    effort: Effort,
    cores: usize,
    is_first: bool,
) -> Measured {
    let plan = Plan {
        endpoint: entry.endpoint,
        connections: group.connections,
        shape: group.shape,
        warm_up: effort.warm_up,
        time: effort.time,
        pace: effort.pace,
    };
    let attempt = || {
        if let Some(before) = &entry.before {
            before()?;
        }
        load::run(&plan, entry.workload.as_ref())
    };
    let outcome = match attempt() {
        Ok(outcome) => outcome,
        Err(error) => return Measured::from(error),
    };
    let mut measured = Measured::of(&outcome, cores);
    if let Some(tool) = effort.count_futexes
        && is_first
        && measured.run.failure.is_none()
    {
        measured.run.futex_per_thousand = count_futexes(tool, &plan, entry);
    }
    measured
}

/// Counts the server's futex calls in a short separate run, because counting
/// slows the server.
fn count_futexes(tool: crate::futex::Tool, plan: &Plan<'_>, entry: &Entry<'_>) -> Option<f64> {
    let pid = plan.endpoint.target.pid?;
    let plan = Plan {
        warm_up: Duration::from_millis(50),
        time: plan.time.min(Duration::from_millis(500)),
        ..*plan
    };
    let counted = crate::futex::Count::begin(tool, pid).ok()?;
    let outcome = load::run(&plan, entry.workload.as_ref()).ok()?;
    let calls = counted.end().ok()?;
    if outcome.failure.is_some() {
        return None;
    }
    // The warm-up is counted too, at the same rate.
    let share = plan.time.as_secs_f64() / (plan.time + plan.warm_up).as_secs_f64();
    (outcome.requests > 0).then(|| calls * share * 1000.0 / outcome.requests as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::Access;
    use crate::load::Worker;
    use crate::url::Target;
    use std::cell::RefCell;

    struct Nothing;

    impl Workload for Nothing {
        fn statements(&self) -> Vec<String> {
            Vec::new()
        }

        fn worker(&self, _: usize) -> Box<dyn Worker + '_> {
            panic!("no connection was to be had");
        }
    }

    #[test]
    fn systems_take_turns_and_failures_are_kept() {
        // A port that was free a moment ago refuses all connections.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let endpoint = Endpoint {
            target: Target::parse(&format!("memcached://127.0.0.1:{port}")).unwrap(),
            access: Access::Memcached,
        };
        let order = RefCell::new(String::new());
        let entry = |name: &'static str| Entry {
            system: name,
            endpoint: &endpoint,
            workload: Box::new(Nothing),
            before: Some(Box::new(|| {
                order.borrow_mut().push_str(name);
                Ok(())
            })),
        };
        let group = |entries| Group {
            operation: "get".to_owned(),
            size: 1,
            connections: 1,
            shape: Shape::ThreadEach,
            units: 1,
            entries,
        };
        let groups = [
            group(vec![entry("A"), entry("B")]),
            group(vec![entry("C"), entry("D")]),
        ];
        let effort = Effort {
            rounds: 3,
            warm_up: Duration::ZERO,
            time: Duration::ZERO,
            count_futexes: None,
            pace: Pace::default(),
        };
        let mut cells = Vec::new();
        run(&groups, effort, &mut Progress::quiet(), &mut cells).unwrap();
        assert_eq!(*order.borrow(), "ABCDBADCABCD");
        let names: Vec<&str> = cells.iter().map(|c| c.system.as_str()).collect();
        assert_eq!(names, ["A", "B", "C", "D"]);
        for cell in &cells {
            assert_eq!(cell.runs.len(), 3);
            assert!(cell.failure().unwrap().contains("refused"));
        }
    }
}
