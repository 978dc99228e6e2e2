//! Runs of an experiment, interleaved: in each round every group (one
//! operation at one size) is measured by all its systems one after the other,
//! in an order that turns round from round to round, so that drift of the
//! machine falls on all alike.
//!
//! A system that fails is marked in that run and tried again in the next
//! round; the others go on.

use crate::connect::Endpoint;
use crate::error::{Error, Kind, Result};
use crate::load::{self, Plan, Shape, Workload};
use crate::progress::Progress;
use crate::report::{Cell, Run};
use std::time::Duration;

/// How often and how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// Rounds.
    pub rounds: usize,
    /// Before each run.
    pub warm_up: Duration,
    /// Each run.
    pub time: Duration,
    /// What counts the server's futex calls, in a run of its own.
    pub count_futexes: Option<crate::futex::Tool>,
}

/// One system's part in a group.
pub struct Entry<'a> {
    /// Name of the system.
    pub system: &'a str,
    /// How to reach it.
    pub endpoint: &'a Endpoint,
    /// What to do.
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
/// A wrong answer: nothing that the system says counts any more.
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
    let all: usize = groups.iter().map(|g| g.entries.len()).sum();
    progress.expect(all * effort.rounds, effort.warm_up + effort.time);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for round in 0..effort.rounds {
        let mut first = start;
        for group in groups {
            let count = group.entries.len();
            for step in 0..count {
                let place = if round % 2 == 0 {
                    step
                } else {
                    count - 1 - step
                };
                let Some(entry) = group.entries.get(place) else {
                    continue;
                };
                if crate::sys::is_interrupted() {
                    return Err(Error::failed(load::INTERRUPTED));
                }
                let (run, is_wrong) = one(group, entry, effort, cores, round == 0);
                let operation = (group.operation.as_str(), group.size, entry.system);
                progress.one(operation, round, effort.rounds, &run);
                let failure = run.failure.clone();
                if let Some(cell) = cells.get_mut(first + place) {
                    cell.runs.push(run);
                }
                if is_wrong {
                    let reason = failure.unwrap_or_default();
                    return Err(Error::wrong(format!(
                        "{} {}: {reason}",
                        entry.system, group.operation
                    )));
                }
            }
            first += count;
        }
    }
    Ok(())
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

/// One run; whether an answer was wrong. Futexes are counted in the first
/// round alone.
fn one(
    group: &Group<'_>,
    entry: &Entry<'_>,
    effort: Effort,
    cores: usize,
    is_first: bool,
) -> (Run, bool) {
    let plan = Plan {
        endpoint: entry.endpoint,
        connections: group.connections,
        shape: group.shape,
        warm_up: effort.warm_up,
        time: effort.time,
    };
    let attempt = || {
        if let Some(before) = &entry.before {
            before()?;
        }
        load::run(&plan, entry.workload.as_ref())
    };
    match attempt() {
        Ok(outcome) => {
            let mut run = Run::of(&outcome, cores);
            let is_wrong = outcome
                .failure
                .as_ref()
                .is_some_and(|e| e.kind == Kind::Wrong);
            if let Some(tool) = effort.count_futexes
                && is_first
                && run.failure.is_none()
            {
                run.futex_per_thousand = count_futexes(tool, &plan, entry);
            }
            (run, is_wrong)
        }
        Err(error) => {
            let run = Run {
                failure: Some(error.message),
                ..Run::default()
            };
            (run, error.kind == Kind::Wrong)
        }
    }
}

/// Counts the server's futex calls in a short run of its own, since counting
/// slows what is counted.
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
