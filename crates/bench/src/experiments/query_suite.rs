//! Query suites: the same queries of several systems, one statement at a time.
//!
//! Every query is executed by every system in turn, round after round, and the
//! answers are compared value by value: a system whose result differs
//! from that of the first ends the experiment. Results without a defined order are
//! compared as multisets: each row is hashed and the hashes are added up.

use super::{Bench, Route};
use crate::connect::{Access, Admin};
use crate::error::{Error, Kind, Result};
use crate::load::histogram;
use crate::proto::Answer;
use crate::report::{Cell, Experiment, Run};
use crate::stats::median;
use crate::url::{System, Target};
use crate::value;
use std::time::Instant;

/// A query of a suite.
#[derive(Clone, Copy)]
pub(super) struct Question {
    /// Name in reports.
    pub(super) name: &'static str,
    /// The statement.
    pub(super) text: &'static str,
    /// The same query for systems that refuse `text`.
    pub(super) other_text: Option<&'static str>,
    /// Whether its ORDER BY determines the order of all rows.
    pub(super) is_ordered: bool,
    /// Whether it runs with a quarter of the memory that its rows take, so that they spill to files.
    pub(super) is_spilled: bool,
    /// A statement before each run, which is not measured.
    pub(super) before: Option<&'static str>,
}

impl Question {
    const fn new(name: &'static str, text: &'static str, is_ordered: bool) -> Question {
        Question {
            name,
            text,
            other_text: None,
            is_ordered,
            is_spilled: false,
            before: None,
        }
    }

    /// The same query for systems that refuse the first text.
    pub(super) const fn or(self, text: &'static str) -> Question {
        Question {
            other_text: Some(text),
            ..self
        }
    }

    /// The query after another statement, which is not measured.
    pub(super) const fn after(self, before: &'static str) -> Question {
        Question {
            before: Some(before),
            ..self
        }
    }

    /// The query with little memory.
    pub(super) const fn spilled(self) -> Question {
        Question {
            is_spilled: true,
            ..self
        }
    }
}

/// A query whose ORDER BY determines the order of all rows.
pub(super) const fn ordered(name: &'static str, text: &'static str) -> Question {
    Question::new(name, text, true)
}

/// A query that leaves the order of rows open.
pub(super) const fn unordered(name: &'static str, text: &'static str) -> Question {
    Question::new(name, text, false)
}

/// Tables and the queries over them.
pub(super) struct Suite {
    /// Name of the experiment.
    pub(super) name: &'static str,
    /// Heading in reports.
    pub(super) title: &'static str,
    /// Description of the tables, for reports.
    pub(super) tables: String,
    /// Rows of the largest table.
    pub(super) rows: u64,
    /// Creates and fills the tables in one system.
    pub(super) prepare: fn(&Target, &Route, u64) -> Result<()>,
    /// The queries.
    pub(super) questions: &'static [Question],
}

/// Memory of a session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory {
    /// Enough for every query.
    Plenty,
    /// This number of bytes for each sort, join and temporary table.
    Limited(u64),
}

/// Bytes of memory for each row of the largest table with [`Memory::Limited`]: about a quarter of
/// the row's size.
const LIMIT_PER_ROW: u64 = 32;

impl Memory {
    fn of(question: &Question, suite: &Suite) -> Memory {
        if question.is_spilled {
            Memory::Limited(suite.rows * LIMIT_PER_ROW)
        } else {
            Memory::Plenty
        }
    }

    /// Settings of a session. Peers get hash joins, and memory for sorts and groups: without
    /// these settings a join without an index takes them hours.
    fn settings(self, system: System) -> Vec<String> {
        if system == System::Porpoise {
            let limit = match self {
                Memory::Plenty => "default".to_owned(),
                Memory::Limited(bytes) => bytes.to_string(),
            };
            return vec![format!("statement_memory_limit = {limit}")];
        }
        let (buffer, table) = match self {
            Memory::Plenty => (64 << 20, 256 << 20),
            Memory::Limited(bytes) => (bytes, bytes),
        };
        vec![
            "join_cache_level = 4".to_owned(),
            format!("join_buffer_space_limit = {table}"),
            format!("join_buffer_size = {buffer}"),
            format!("sort_buffer_size = {buffer}"),
            format!("tmp_table_size = {table}"),
            format!("max_heap_table_size = {table}"),
        ]
    }

    /// Applies the settings.
    fn apply(self, admin: &mut Admin, system: System) {
        for setting in self.settings(system) {
            // MySQL has only some of the variables, and always has hash joins.
            let _ = admin.run(&format!("set session {setting}"));
        }
    }
}

/// A fingerprint of a result; equal for equal rows in the
/// same order, or in any order if the query does not determine it.
fn fingerprint(answer: &Answer, is_ordered: bool) -> u64 {
    let width = answer.cells().checked_div(answer.rows).unwrap_or(0);
    let mut all = value::mix(answer.rows as u64);
    for row in 0..answer.rows {
        let mut hash = if is_ordered { all } else { 0 };
        for cell in row * width..(row + 1) * width {
            hash = value::mix(hash ^ 0x9e37);
            for byte in answer.cell(cell).unwrap_or(b"\0NULL") {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        all = if is_ordered {
            value::mix(hash)
        } else {
            all.wrapping_add(value::mix(hash))
        };
    }
    all
}

/// One run of a query: its time, its cost, and the fingerprint of its answer.
fn ask(
    admin: &mut Admin,
    target: &Target,
    question: &Question,
    cores: usize,
) -> Result<(Run, u64)> {
    let before = crate::procfs::Reading::now(target.pid);
    let begun = Instant::now();
    let answer = match admin.run(question.text) {
        Err(error) if error.kind == Kind::Refused && question.other_text.is_some() => {
            return ask_otherwise(admin, target, question, cores);
        }
        answered => answered?,
    };
    let took = begun.elapsed();
    let after = crate::procfs::Reading::now(target.pid);
    let found = fingerprint(answer, question.is_ordered);
    let mut latency = histogram();
    latency.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    let outcome = crate::load::Outcome {
        requests: 1,
        seconds: took.as_secs_f64(),
        latency,
        spent: before.within(&after, took.as_secs_f64()),
        threads: before.threads_within(&after, took.as_secs_f64()),
        ..crate::load::Outcome::empty()
    };
    Ok((Run::of(&outcome, cores), found))
}

/// As [`ask`], with the query's other text.
fn ask_otherwise(
    admin: &mut Admin,
    target: &Target,
    question: &Question,
    cores: usize,
) -> Result<(Run, u64)> {
    let other = Question {
        text: question.other_text.unwrap_or(question.text),
        other_text: None,
        ..*question
    };
    ask(admin, target, &other, cores)
}

/// Runs a suite on all systems that speak SQL.
///
/// # Errors
/// Two systems answer differently, or none could be prepared.
pub(super) fn run(bench: &mut Bench, suite: &Suite) -> Result<()> {
    bench
        .progress
        .begin(&format!("{}: {}", suite.name, suite.title));
    let mut notes = Vec::new();
    let mut routes = Vec::new();
    for route in bench.routes(|access| access == Access::MysqlPrepared) {
        let target = route.endpoint.target.clone();
        let filling = format!("   filling {} ({} rows)", target.name, suite.rows);
        bench.progress.say(&filling);
        match (suite.prepare)(&target, &route, suite.rows) {
            Ok(()) => routes.push(Route {
                name: target.name.clone(),
                ..route
            }),
            Err(error) => {
                let note = format!("{} left out: {error}", target.name);
                bench.progress.say(&format!("   {note}"));
                notes.push(note);
            }
        }
    }
    if routes.is_empty() {
        let what = format!("{}: no system could be prepared", suite.name);
        return Err(super::no_system(&what, &notes));
    }
    let mut experiment = describe(suite, &routes, notes);
    let done = rounds(bench, suite, &routes, &mut experiment.cells);
    let medians = medians(suite, &experiment);
    experiment.notes.extend(medians);
    bench.keep(experiment);
    done
}

fn describe(suite: &Suite, routes: &[Route], notes: Vec<String>) -> Experiment {
    let mut cells = Vec::new();
    for question in suite.questions {
        for route in routes {
            cells.push(Cell {
                operation: question.name.to_owned(),
                size: suite.rows,
                system: route.name.clone(),
                client: "1 connection, text".to_owned(),
                units: 1,
                runs: Vec::new(),
            });
        }
    }
    let is_ours = |route: &&Route| route.endpoint.target.system == System::Porpoise;
    let theirs = routes.iter().filter(|route| !is_ours(route));
    let pairs = routes.iter().filter(is_ours).flat_map(|ours| {
        let theirs = theirs.clone();
        theirs.map(|theirs| (ours.name.clone(), theirs.name.clone()))
    });
    Experiment {
        is_about_latency: true,
        cells,
        pairs: pairs.collect(),
        notes,
        ..Experiment::new(
            suite.name,
            suite.title,
            format!(
                "One statement at a time over {}; the answers of all systems are compared. Latency is that of the whole answer; a first round is not \
                 counted. Peers join by hashing (join_cache_level = 4) and have 64 MiB for a sort and a \
                 join, 256 MiB for a temporary table. With a name that begins with \"spilled\", a \
                 statement has {} KiB: statement_memory_limit, or a peer's buffers.",
                suite.tables,
                (suite.rows * LIMIT_PER_ROW) >> 10
            ),
            "rows",
        )
    }
}

/// A line for each query: the median time of each system, and the ratio of the time of each of our
/// systems to each peer's.
fn medians(suite: &Suite, experiment: &Experiment) -> Vec<String> {
    let line = |question: &Question| {
        let cells = experiment.cells.iter();
        let cells = cells.filter(|c| c.operation == question.name && !c.runs.is_empty());
        let times = cells.map(|cell| {
            let times: Vec<f64> = cell.runs.iter().map(|r| r.seconds * 1e3).collect();
            (cell.system.as_str(), median(&times))
        });
        let times: Vec<(&str, f64)> = times.collect();
        let of = |name: &str| times.iter().find(|(known, _)| *known == name);
        let ratios = experiment.pairs.iter().filter_map(|(ours, theirs)| {
            let ((_, ours), (peer, theirs)) = (of(ours)?, of(theirs)?);
            Some(format!("{:.2} of {peer}'s time", ours / theirs))
        });
        let shown = times
            .iter()
            .map(|(name, time)| format!("{name} {time:.1} ms"));
        let shown: Vec<String> = shown.chain(ratios).collect();
        format!("median, {}: {}", question.name, shown.join(", "))
    };
    suite.questions.iter().map(line).collect()
}

/// All runs, interleaved, after one of each query that is not counted. Cells are in
/// the order of [`describe`].
fn rounds(bench: &mut Bench, suite: &Suite, routes: &[Route], cells: &mut [Cell]) -> Result<()> {
    let rounds = bench.options.effort.rounds;
    let cores = crate::sys::cores();
    let mut admins = Vec::with_capacity(routes.len());
    for route in routes {
        admins.push(Admin::connect(&route.endpoint.target)?);
    }
    bench
        .progress
        .expect(cells.len() * (rounds + 1), std::time::Duration::ZERO);
    let mut first = 0;
    let mut memory = None;
    for question in suite.questions {
        let mut known: Option<(u64, &str)> = None;
        let wanted = Memory::of(question, suite);
        if memory != Some(wanted) {
            memory = Some(wanted);
            for (route, admin) in routes.iter().zip(&mut admins) {
                wanted.apply(admin, route.endpoint.target.system);
            }
        }
        for round in 0..=rounds {
            for step in 0..routes.len() {
                let position = match round % 2 {
                    0 => step,
                    _ => routes.len() - 1 - step,
                };
                let (Some(route), Some(admin)) = (routes.get(position), admins.get_mut(position))
                else {
                    continue;
                };
                if crate::sys::is_interrupted() {
                    return Err(Error::failed(crate::load::INTERRUPTED));
                }
                if let Some(before) = question.before {
                    admin.run(before).map_err(|e| e.during(&route.name))?;
                }
                let asked = ask(admin, &route.endpoint.target, question, cores);
                let (run, found) = asked.map_err(|e| e.during(&route.name))?;
                match known {
                    None => known = Some((found, &route.name)),
                    Some((other, _)) if other == found => {}
                    Some((_, other)) => {
                        let text = question.text;
                        let what = format!("{} and {other} answer differently: {text}", route.name);
                        return Err(Error::wrong(what));
                    }
                }
                // The first time warms caches and plans.
                let cell = cells.get_mut(first + position);
                if let (Some(round), Some(cell)) = (round.checked_sub(1), cell) {
                    bench.progress.one(cell, round, rounds, &run);
                    cell.runs.push(run);
                }
            }
        }
        first += routes.len();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(rows: &[&[Option<&str>]]) -> Answer {
        let mut answer = Answer::default();
        for row in rows {
            answer.rows += 1;
            for cell in *row {
                answer.push(cell.map(str::as_bytes));
            }
        }
        answer
    }

    #[test]
    fn answers_are_told_apart() {
        let one = answer(&[&[Some("1"), Some("a")], &[Some("2"), None]]);
        let turned = answer(&[&[Some("2"), None], &[Some("1"), Some("a")]]);
        let other = answer(&[&[Some("1"), Some("a")], &[Some("2"), Some("")]]);
        assert_eq!(fingerprint(&one, false), fingerprint(&turned, false));
        assert_ne!(fingerprint(&one, true), fingerprint(&turned, true));
        assert_ne!(fingerprint(&one, false), fingerprint(&other, false));
        let shifted = answer(&[&[Some("1a"), Some("")], &[Some("2"), None]]);
        assert_ne!(fingerprint(&one, true), fingerprint(&shifted, true));
    }
}
