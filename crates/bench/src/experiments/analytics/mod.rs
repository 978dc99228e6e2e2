//! `bench analytics`: questions about a table of a million rows: groups,
//! joins, sorts, counts, ranges.
//!
//! Every question is asked of every system in turn, round after round, and
//! what they answer is compared value by value: a system that answers
//! otherwise than the first ends the experiment. Sums are of integers and
//! decimals, so that the order in which rows are added up changes nothing.
//!
//! Answers whose order the question leaves open are compared as sets: each row
//! is hashed and the hashes are added up.

use super::load_rows::{LoadRows, Rows};
use super::{Bench, Route};
use crate::connect::{Access, Admin};
use crate::error::{Error, Result};
use crate::load::histogram;
use crate::proto::{Answer, Call};
use crate::report::{Axis, Cell, Experiment, Run};
use crate::stats::median;
use crate::url::{System, Target};
use crate::value;
use std::time::Instant;

mod questions;

use questions::{QUESTIONS, Question};

/// Rows of the large table unless chosen otherwise.
const ROWS: u64 = 1_000_000;

/// Rows of the large table for each of the small one.
const SHARE: u64 = 10;

/// Settings of a peer's session, so that it joins by hashing and has memory for
/// sorts and groups: without them a join that no index serves takes it hours.
const GENEROUS: &[&str] = &[
    "join_cache_level = 4",
    "join_buffer_space_limit = 268435456",
    "join_buffer_size = 67108864",
    "sort_buffer_size = 67108864",
    "tmp_table_size = 268435456",
    "max_heap_table_size = 268435456",
];

/// Values of the n-th row of either table.
fn part(n: u64, salt: u64, among: u64) -> u64 {
    value::mix(n ^ value::mix(salt)) % among.max(1)
}

/// Statements that make the tables.
fn schema(system: System) -> Vec<String> {
    let tail = match system {
        System::Mysql => " engine=InnoDB",
        _ => "",
    };
    [
        "drop table if exists sale".to_owned(),
        "drop table if exists customer".to_owned(),
        format!(
            "create table customer (id bigint primary key, name varchar(40) not null, \
             region int not null, code int not null){tail}"
        ),
        format!(
            "create table sale (id bigint primary key, customer bigint not null, \
             shop int not null, kind int not null, amount decimal(10,2) not null, \
             quantity int not null, day date not null, city varchar(30) not null, \
             label varchar(40) not null, code int not null, \
             key by_shop (shop), key by_label (label), key by_customer (customer)){tail}"
        ),
    ]
    .to_vec()
}

struct Customers;

impl Rows for Customers {
    fn statement(&self, rows: usize) -> String {
        let marks = vec!["(?, ?, ?, ?)"; rows].join(", ");
        format!("insert into customer values {marks}")
    }

    fn add(&self, n: u64, call: &mut Call) {
        call.int(int(n));
        call.bytes(format!("customer {:06}", part(n, 1, 1_000_000)).as_bytes());
        call.int(int(part(n, 2, 50)));
        call.int(int(n));
    }

    fn item(&self, _: u64, _: &mut Call) {}
}

struct Sales {
    customers: u64,
}

impl Rows for Sales {
    fn statement(&self, rows: usize) -> String {
        let marks = vec!["(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"; rows].join(", ");
        format!("insert into sale values {marks}")
    }

    fn add(&self, n: u64, call: &mut Call) {
        let customer = part(n, 3, self.customers);
        call.int(int(n));
        call.int(int(customer));
        call.int(int(part(n, 4, 1000)));
        call.int(int(part(n, 5, 20)));
        let cents = part(n, 6, 1_000_000);
        call.bytes(format!("{}.{:02}", cents / 100, cents % 100).as_bytes());
        call.int(int(part(n, 7, 100)));
        let day = part(n, 8, 360);
        call.bytes(format!("2025-{:02}-{:02}", day / 30 + 1, day % 28 + 1).as_bytes());
        call.bytes(format!("City {:03}", part(n, 9, 300)).as_bytes());
        call.bytes(format!("{:08x}-{n:07}", part(n, 10, 1 << 32)).as_bytes());
        call.int(int(customer));
    }

    fn item(&self, _: u64, _: &mut Call) {}
}

fn int(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn prepare(target: &Target, route: &Route, rows: u64) -> Result<()> {
    let mut admin = Admin::connect(target)?;
    for statement in schema(target.system) {
        admin.run(&statement)?;
    }
    let customers = (rows / SHARE).max(1);
    LoadRows::new(0..customers, Customers).load(&route.endpoint)?;
    LoadRows::new(0..rows, Sales { customers }).load(&route.endpoint)?;
    // Both plan by what they know of their tables.
    admin.run("analyze table sale, customer")?;
    Ok(())
}

/// A number that tells one answer from others; equal for equal rows in the
/// same order, or in any where the question leaves it open.
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

/// One run of a question: its time, what it cost, and what was answered.
fn ask(
    admin: &mut Admin,
    target: &Target,
    question: &Question,
    cores: usize,
) -> Result<(Run, u64)> {
    let before = crate::procfs::Reading::now(target.pid);
    let begun = Instant::now();
    let answer = admin.run(question.text)?;
    let took = begun.elapsed();
    let after = crate::procfs::Reading::now(target.pid);
    let found = fingerprint(answer, question.is_ordered);
    let mut latency = histogram();
    latency.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    let outcome = crate::load::Outcome {
        requests: 1,
        refused: 0,
        seconds: took.as_secs_f64(),
        latency,
        per_second: Vec::new(),
        spent: before.within(&after, took.as_secs_f64()),
        failure: None,
    };
    Ok((Run::of(&outcome, cores), found))
}

/// `bench analytics`.
///
/// # Errors
/// Two systems answer differently, or none could be prepared.
pub fn analytics(bench: &mut Bench) -> Result<()> {
    bench
        .progress
        .begin("analytics: groups, joins and sorts of many rows");
    let rows = bench.rows(if bench.options.is_quick {
        100_000
    } else {
        ROWS
    });
    let mut notes = Vec::new();
    let mut routes = Vec::new();
    for route in bench.routes(|access| access == Access::MysqlPrepared) {
        let target = route.endpoint.target.clone();
        bench
            .progress
            .say(&format!("   filling {} ({rows} rows)", target.name));
        match prepare(&target, &route, rows) {
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
        let what = "analytics: no system could be prepared";
        return Err(super::no_system(what, &notes));
    }
    let mut experiment = describe(rows, &routes, notes);
    let done = rounds(bench, &routes, &mut experiment.cells);
    experiment.notes.extend(medians(&experiment.cells));
    bench.keep(experiment);
    done
}

fn describe(rows: u64, routes: &[Route], notes: Vec<String>) -> Experiment {
    let mut cells = Vec::new();
    for question in QUESTIONS {
        for route in routes {
            cells.push(Cell {
                operation: question.name.to_owned(),
                size: rows,
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
        name: "analytics".to_owned(),
        title: "Groups, joins and sorts of many rows".to_owned(),
        about: format!(
            "One statement at a time over {rows} rows and a tenth as many beside them; the answers \
             of all systems are compared. Latency is that of the whole answer; a first round is not \
             counted. Peers join by hashing (join_cache_level = 4) and have 64 MiB for a sort and a \
             join, 256 MiB for a temporary table."
        ),
        axis: Axis {
            title: "rows".to_owned(),
            is_logarithmic: true,
        },
        is_about_latency: true,
        cells,
        pairs: pairs.collect(),
        notes,
    }
}

/// A line for each question: the median time of each system.
fn medians(cells: &[Cell]) -> Vec<String> {
    let line = |question: &Question| {
        let asked = cells.iter().filter(|c| c.operation == question.name);
        let shown = asked.filter(|c| !c.runs.is_empty()).map(|cell| {
            let times: Vec<f64> = cell.runs.iter().map(|r| r.seconds * 1e3).collect();
            format!("{} {:.1} ms", cell.system, median(&times))
        });
        let shown: Vec<String> = shown.collect();
        format!("median, {}: {}", question.name, shown.join(", "))
    };
    QUESTIONS.iter().map(line).collect()
}

/// All runs, interleaved, after one of each that is not counted; cells are in
/// the order of [`describe`].
fn rounds(bench: &mut Bench, routes: &[Route], cells: &mut [Cell]) -> Result<()> {
    let rounds = bench.options.effort.rounds;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut admins = Vec::with_capacity(routes.len());
    for route in routes {
        let mut admin = Admin::connect(&route.endpoint.target)?;
        if route.endpoint.target.system == System::Mysql {
            for setting in GENEROUS {
                // MySQL knows only some of them, and has hash joins anyway.
                let _ = admin.run(&format!("set session {setting}"));
            }
        }
        admins.push(admin);
    }
    bench
        .progress
        .expect(cells.len() * (rounds + 1), std::time::Duration::ZERO);
    let mut first = 0;
    for question in QUESTIONS {
        let mut known: Option<(u64, &str)> = None;
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

    #[test]
    fn questions_have_names_of_their_own() {
        for (at, question) in QUESTIONS.iter().enumerate() {
            let mut others = QUESTIONS.iter().skip(at + 1);
            assert!(others.all(|o| o.name != question.name), "{}", question.name);
        }
    }
}
