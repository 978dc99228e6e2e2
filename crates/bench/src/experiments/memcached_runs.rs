//! `bench memcached`: the memcached listener beside memcached, by both shapes of
//! client, in every dialect, one request at a time and pipelined.
//!
//! All combinations would run for hours. Without a choice of protocol
//! or depth four series are run: operations over connections by both shapes,
//! many keys in one request, the other dialects, pipelines.

use super::memcached::{Commands, ItemSet, MANY, Operation, layouts};
use super::{Bench, no_system};
use crate::error::Result;
use crate::load::Shape;
use crate::matrix::{Entry, Group};
use crate::proto::dialects::Dialect;
use crate::report::Experiment;
use crate::url::System;
use std::time::Duration;

/// Items unless chosen otherwise; with `--quick`.
const ROWS: (u64, u64) = (160_000, 20_000);
/// Length of a run unless chosen otherwise, and the warm-up before it.
const TIME: (Duration, Duration) = (Duration::from_secs(1), Duration::from_millis(250));
/// Items to delete in a run; with `--quick`.
const SUPPLY: (u64, u64) = (100_000, 20_000);
/// Requests in a write of the pipelined series.
const DEPTH: usize = 16;

/// Options of this experiment only; empty: the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemcachedOptions {
    /// Operations.
    pub operations: Vec<Operation>,
    /// Dialects.
    pub dialects: Vec<Dialect>,
    /// Requests in a write.
    pub depths: Vec<usize>,
    /// Shapes of client.
    pub shapes: Vec<Shape>,
    /// Whether a time of runs was given.
    pub is_timed: bool,
}

/// A series of runs: all combinations of its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Series {
    operations: Vec<Operation>,
    dialects: Vec<Dialect>,
    depths: Vec<usize>,
    shapes: Vec<Shape>,
    clients: Vec<usize>,
}

const BOTH: [Shape; 2] = [Shape::ThreadEach, Shape::Multiplexed(2)];

/// The series for chosen options; `clients` are the chosen numbers of clients.
fn series(options: &MemcachedOptions, clients: &[usize], is_quick: bool) -> Vec<Series> {
    use Operation::{Delete, Get, Incr, Many, Set};
    let one = |operations: &[Operation], dialects: &[Dialect], depth, shapes: &[Shape], usual| {
        let usual: &[usize] = usual;
        Series {
            operations: operations.to_vec(),
            dialects: dialects.to_vec(),
            depths: vec![depth],
            shapes: shapes.to_vec(),
            clients: usual.to_vec(),
        }
    };
    let (ascii, others) = ([Dialect::Ascii], [Dialect::Meta, Dialect::Binary]);
    let thread = [Shape::ThreadEach];
    let all = &[1, 8, 64, 512];
    let is_free = options.dialects.is_empty() && options.depths.is_empty();
    let mut found = match (is_free, is_quick) {
        (true, true) => vec![
            one(&[Get, Set], &ascii, 1, &thread, &[8, 64]),
            one(&[Many(50)], &ascii, 1, &thread, &[8]),
            one(&[Get], &others, 1, &thread, &[8]),
            one(&[Get, Set], &ascii, DEPTH, &thread, &[8]),
        ],
        (true, false) => vec![
            one(&[Get, Set, Incr, Delete], &ascii, 1, &BOTH, all),
            one(&MANY, &ascii, 1, &thread, all),
            one(&[Get, Set, Many(50)], &others, 1, &thread, &[8, 64]),
            one(&[Get, Set], Dialect::ALL, DEPTH, &thread, &[8]),
        ],
        (false, _) => vec![one(
            &[Get, Set, Incr, Delete],
            &ascii,
            1,
            &BOTH,
            &[1, 8, 64],
        )],
    };
    for series in &mut found {
        if !options.operations.is_empty() {
            let wanted = |o: &Operation| options.operations.contains(o);
            if is_free {
                series.operations.retain(wanted)
            } else {
                series.operations.clone_from(&options.operations)
            }
        }
        if !options.dialects.is_empty() {
            series.dialects.clone_from(&options.dialects);
        }
        if !options.depths.is_empty() {
            series.depths.clone_from(&options.depths);
        }
        if !options.shapes.is_empty() {
            series.shapes.clone_from(&options.shapes);
        }
        if !clients.is_empty() {
            series.clients = clients.to_vec();
        }
    }
    found.retain(|series| !series.operations.is_empty());
    found
}

/// Fills all sets of items; systems that fail are left out with a note.
fn item_sets(bench: &mut Bench, rows: u64, notes: &mut Vec<String>) -> Vec<ItemSet> {
    let mut found = Vec::new();
    for target in bench.targets.clone() {
        let layouts = layouts(target.system);
        if layouts.is_empty() {
            notes.push(format!(
                "{} left out: it is not a cache to be filled",
                target.name
            ));
        }
        for layout in layouts {
            if crate::sys::is_interrupted() {
                return found;
            }
            let filled = ItemSet::fill(&target, *layout, rows);
            match filled {
                Ok(item_set) => {
                    let line = format!("   filled {} ({rows} items)", item_set.name);
                    bench.progress.say(&line);
                    found.push(item_set);
                }
                Err(error) => {
                    let note = format!("{} left out: {error}", target.name);
                    bench.progress.say(&format!("   {note}"));
                    notes.push(note);
                }
            }
        }
    }
    found
}

/// Parameters of the measurements of one group.
#[derive(Clone, Copy)]
struct Combination {
    operation: Operation,
    dialect: Dialect,
    depth: usize,
    shape: Shape,
    clients: usize,
}

/// One combination, on all sets of items that support it; `supply` items are stored again
/// before a run of deletions.
fn group(item_sets: &[ItemSet], combination: Combination, seed: u64, supply: u64) -> Group<'_> {
    let Combination {
        operation,
        dialect,
        depth,
        shape,
        clients,
    } = combination;
    let many = match operation {
        Operation::Many(keys) => Some(keys),
        _ => None,
    };
    let mut entries = Vec::new();
    for item_set in item_sets {
        let cannot = operation == Operation::Incr && !item_set.counts();
        let Some(endpoint) = item_set
            .endpoint(dialect, many.is_none())
            .filter(|_| !cannot)
        else {
            continue;
        };
        let before = (operation == Operation::Delete).then(|| {
            let top_up = move || item_set.top_up(supply);
            Box::new(top_up) as Box<dyn Fn() -> Result<()> + '_>
        });
        entries.push(Entry {
            system: &item_set.name,
            endpoint,
            workload: Box::new(Commands::new(item_set, operation, depth, seed)),
            before,
        });
    }
    let mut name = format!("{}, {}", operation.name(), dialect.word());
    if depth > 1 && many.is_none() {
        name.push_str(&format!(", {depth} deep"));
    }
    if shape != Shape::ThreadEach {
        name.push_str(&format!(", {}", shape.words()));
    }
    Group {
        operation: name,
        size: clients as u64,
        connections: clients,
        shape,
        units: many.unwrap_or(depth) as u64,
        entries,
    }
}

fn groups<'a>(item_sets: &'a [ItemSet], all: &[Series], seed: u64, supply: u64) -> Vec<Group<'a>> {
    let mut found: Vec<Group<'a>> = Vec::new();
    for series in all {
        for operation in &series.operations {
            for dialect in &series.dialects {
                for depth in &series.depths {
                    for shape in &series.shapes {
                        for clients in &series.clients {
                            let combination = Combination {
                                operation: *operation,
                                dialect: *dialect,
                                depth: *depth,
                                shape: *shape,
                                clients: *clients,
                            };
                            let group = group(item_sets, combination, seed, supply);
                            let is_new = |g: &Group<'_>| {
                                g.operation != group.operation || g.size != group.size
                            };
                            if found.iter().all(is_new) {
                                found.push(group);
                            }
                        }
                    }
                }
            }
        }
    }
    found
}

/// Ours compared with every memcached.
fn pairs(item_sets: &[ItemSet]) -> Vec<(String, String)> {
    let is_ours = |item_set: &&ItemSet| item_set.target.system == System::Porpoise;
    let mut found = Vec::new();
    for ours in item_sets.iter().filter(is_ours) {
        for theirs in item_sets.iter().filter(|item_set| !is_ours(item_set)) {
            found.push((ours.name.clone(), theirs.name.clone()));
        }
    }
    found
}

/// `bench memcached`.
///
/// # Errors
/// A wrong answer, or no system could be prepared.
pub fn memcached(bench: &mut Bench, options: &MemcachedOptions) -> Result<()> {
    bench
        .progress
        .begin("memcached: the memcached listener beside memcached");
    let is_quick = bench.options.is_quick;
    let pick = |(usual, quick): (u64, u64)| if is_quick { quick } else { usual };
    let rows = bench.rows(pick(ROWS));
    let mut notes = Vec::new();
    let item_sets = item_sets(bench, rows, &mut notes);
    if item_sets.is_empty() {
        return Err(no_system("memcached: no system could be prepared", &notes));
    }
    let mut effort = bench.options.effort;
    if !is_quick && !options.is_timed {
        (effort.time, effort.warm_up) = TIME;
    }
    let all = series(options, &bench.options.clients, is_quick);
    let groups = groups(&item_sets, &all, bench.options.seed, pick(SUPPLY));
    let experiment = Experiment {
        pairs: pairs(&item_sets),
        notes,
        ..Experiment::new(
            "memcached",
            "The memcached listener beside memcached",
            format!(
                "{rows} items of {} bytes, keys at random: in Porpoise's default table, in a mapped \
                 table with one value column and with four, and in memcached. Requests of a pipeline \
                 leave in one write; a figure is of writes. Every value read is verified.",
                crate::value::USUAL
            ),
            "connections",
        )
    };
    bench.run(experiment, &groups, effort)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_replaces_what_is_usual() {
        let usual = series(&MemcachedOptions::default(), &[], false);
        let count = |all: &[Series]| -> usize {
            let one = |s: &Series| {
                s.operations.len()
                    * s.dialects.len()
                    * s.depths.len()
                    * s.shapes.len()
                    * s.clients.len()
            };
            all.iter().map(one).sum()
        };
        assert_eq!(count(&usual), 4 * 2 * 4 + 4 * 4 + 3 * 2 * 2 + 2 * 3);
        assert_eq!(count(&series(&MemcachedOptions::default(), &[], true)), 9);
        let options = MemcachedOptions {
            operations: vec![Operation::Incr],
            ..MemcachedOptions::default()
        };
        let only = series(&options, &[3], false);
        assert_eq!(count(&only), 2);
        let options = MemcachedOptions {
            operations: vec![Operation::Get, Operation::Many(10)],
            dialects: vec![Dialect::Binary],
            depths: vec![4, 16],
            shapes: vec![Shape::Multiplexed(1)],
            is_timed: false,
        };
        let free = series(&options, &[8], true);
        assert_eq!(count(&free), 4);
        assert_eq!(free[0].dialects, [Dialect::Binary]);
    }
}
