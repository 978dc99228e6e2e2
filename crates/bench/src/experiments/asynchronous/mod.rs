//! `bench async`: rows in native batches with several of them in flight, as NDB's flexAsynch, beside
//! memcached's multi-get and an IN list of as many keys, and beside multi-row INSERT by SQL.
//!
//! 1. All systems are driven by the same number of client threads, with the same number of requests in flight: on one
//!    connection of the native client, and for the others on one connection per request, which a thread multiplexes.
//! 2. Every value read is verified, every write must have taken effect.
//! 3. Runs of all systems are interleaved.

mod drive;

use super::batch::{Statement, inserted};
use super::kv_runs::{FilledStore, filled_stores};
use super::mget::Many;
use super::store::Store;
use super::{Bench, Route};
use crate::connect::{Access, Admin};
use crate::error::{Error, Result};
use crate::load::{self, Plan, Shape, Workload};
use crate::matrix::{Measured, run_rounds};
use crate::report::{Cell, Experiment};
use crate::url::{System, Target};
use drive::{NativeLoad, Work};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Rows of the table unless chosen otherwise.
const ROWS: u64 = 160_000;

/// Batches in flight of each client thread unless chosen otherwise.
const IN_FLIGHT: usize = 4;

/// Sizes of batches.
const BATCHES: [usize; 4] = [1, 10, 50, 200];

/// Rows of an INSERT under foreign keys.
const CHILDREN: usize = 100;

/// Parents of each of the two tables that the children refer to.
const PARENTS: i64 = 1000;

/// System that a cell measures.
enum Job<'a> {
    /// Native batches.
    Native(Work),
    /// Another protocol.
    Other(&'a Route, Box<dyn Workload + 'a>),
}

/// One cell of the report.
struct Planned<'a> {
    operation: &'static str,
    rows: usize,
    in_flight: usize,
    system: String,
    job: Job<'a>,
}

/// `bench async`.
///
/// # Errors
/// A wrong answer, or there is no Porpoise with a native listener.
pub fn asynchronous(bench: &mut Bench) -> Result<()> {
    bench.progress.begin("async: native batches in flight");
    let rows = bench.rows(ROWS);
    let mut notes = Vec::new();
    let filled = filled_stores(bench, rows, false, &mut notes);
    let is_native = |target: &Target| target.system == System::Porpoise && target.native_port != 0;
    let Some(target) = filled
        .iter()
        .map(|f| &f.target)
        .find(|t| is_native(t))
        .cloned()
    else {
        return Err(super::no_system(
            "async: no Porpoise with a native listener",
            &notes,
        ));
    };
    make_children(&target)?;
    let next_child = AtomicI64::new(1);
    let planned = plan(bench, &filled, &target, &next_child);
    let mut experiment = describe(rows, &target, &planned, notes);
    let store = filled.iter().find(|f| f.target == target).map(|f| &f.store);
    let store = store.ok_or_else(|| Error::failed("async: the table was not filled"))?;
    let shared = Shared {
        target: &target,
        store,
        versions: AtomicU64::new(1),
        next_child: &next_child,
    };
    let done = rounds(bench, &planned, &shared, &mut experiment.cells);
    bench.keep(experiment);
    done
}

/// Common settings of the runs of native batches.
struct Shared<'a> {
    target: &'a Target,
    store: &'a Store,
    versions: AtomicU64,
    next_child: &'a AtomicI64,
}

/// All runs, interleaved.
fn rounds(
    bench: &mut Bench,
    planned: &[Planned<'_>],
    shared: &Shared<'_>,
    cells: &mut [Cell],
) -> Result<()> {
    let (effort, seed) = (bench.options.effort, bench.options.seed);
    let cores = crate::sys::cores();
    bench
        .progress
        .expect(planned.len() * effort.rounds, effort.warm_up + effort.time);
    let mut measure = |_: usize, cell: usize| {
        let Some(planned) = planned.get(cell) else {
            return Measured::default();
        };
        let done = match &planned.job {
            Job::Native(work) => drive::run(&NativeLoad {
                target: shared.target,
                store: shared.store,
                work: *work,
                rows: planned.rows,
                in_flight: planned.in_flight,
                times: (effort.warm_up, effort.time),
                seed,
                versions: &shared.versions,
                next_child: shared.next_child,
            }),
            Job::Other(route, workload) => {
                let plan = Plan {
                    endpoint: &route.endpoint,
                    connections: planned.in_flight,
                    shape: Shape::Multiplexed(1),
                    warm_up: effort.warm_up,
                    time: effort.time,
                    pace: load::Pace::default(),
                };
                load::run(&plan, workload.as_ref())
            }
        };
        done.map_or_else(Measured::from, |outcome| Measured::of(&outcome, cores))
    };
    let groups = groups_of(planned);
    let progress = &mut bench.progress;
    run_rounds(&groups, effort.rounds, cells, progress, &mut measure)
}

/// Numbers of adjacent cells that differ in their system only.
fn groups_of(planned: &[Planned<'_>]) -> Vec<usize> {
    let is_same = |a: &Planned<'_>, b: &Planned<'_>| {
        (a.operation, a.rows, a.in_flight) == (b.operation, b.rows, b.in_flight)
    };
    planned.chunk_by(is_same).map(<[_]>::len).collect()
}

/// All cells, in the order of reports.
fn plan<'a>(
    bench: &Bench,
    filled: &'a [FilledStore],
    target: &Target,
    next_child: &'a AtomicI64,
) -> Vec<Planned<'a>> {
    let mut planned = Vec::new();
    let native = format!("{} native", target.name);
    let seed = bench.options.seed;
    for in_flight in bench.clients(&[IN_FLIGHT]) {
        for rows in BATCHES {
            let mut cell = |operation, system: &str, job| {
                planned.push(Planned {
                    operation,
                    rows,
                    in_flight,
                    system: system.to_owned(),
                    job,
                });
            };
            cell("read", &native, Job::Native(Work::Read));
            for filled in filled.iter().filter(|f| f.target.system != System::Noop) {
                let routes = filled.routes.iter();
                for route in routes.filter(|r| r.endpoint.access != Access::MysqlText) {
                    let many = Many {
                        store: &filled.store,
                        access: route.endpoint.access,
                        keys: rows,
                        seed,
                        is_noop: false,
                    };
                    cell("read", &route.name, Job::Other(route, Box::new(many)));
                }
            }
            for work in [Work::Update, Work::Insert, Work::InsertDelete] {
                cell(work.name(), &native, Job::Native(work));
            }
        }
        let mut cell = |system: &str, job| {
            planned.push(Planned {
                operation: Work::Children.name(),
                rows: CHILDREN,
                in_flight,
                system: system.to_owned(),
                job,
            });
        };
        cell(&native, Job::Native(Work::Children));
        let ours = filled.iter().filter(|f| f.target == *target);
        for route in ours.flat_map(|f| &f.routes) {
            if route.endpoint.access == Access::MysqlPrepared {
                let statement = insert_children(next_child, seed);
                cell(&route.name, Job::Other(route, Box::new(statement)));
            }
        }
    }
    planned
}

fn make_children(target: &Target) -> Result<()> {
    let mut admin = Admin::connect(target)?;
    for statement in [
        "drop table if exists async_child, async_left, async_right",
        "create table async_left (id int not null primary key)",
        "create table async_right (id int not null primary key)",
        "create table async_child (id bigint not null primary key, l int not null, r int not null, \
         v varchar(100) not null, foreign key (l) references async_left (id), \
         foreign key (r) references async_right (id))",
    ] {
        admin.run(statement)?;
    }
    let ids: Vec<String> = (0..PARENTS).map(|id| format!("({id})")).collect();
    for table in ["async_left", "async_right"] {
        admin.run(&format!("insert into {table} values {}", ids.join(",")))?;
    }
    Ok(())
}

/// Multi-row INSERT of children, prepared.
fn insert_children(next_child: &AtomicI64, seed: u64) -> Statement<'_> {
    let rows = vec!["(?, ?, ?, ?)"; CHILDREN].join(", ");
    Statement {
        text: format!("insert into async_child (id, l, r, v) values {rows}"),
        fill: Box::new(move |random, call| {
            let first = next_child.fetch_add(CHILDREN as i64, Ordering::Relaxed);
            for id in first..first + CHILDREN as i64 {
                call.int(id)
                    .int(random.i64(0..PARENTS))
                    .int(random.i64(0..PARENTS))
                    .bytes(drive::CHILD_TEXT);
            }
        }),
        check: inserted(CHILDREN as u64),
        seed,
        limit: None,
    }
}

fn describe(rows: u64, target: &Target, planned: &[Planned<'_>], notes: Vec<String>) -> Experiment {
    let cells = planned.iter().map(|planned| Cell {
        operation: planned.operation.to_owned(),
        size: planned.rows as u64,
        system: planned.system.clone(),
        client: format!("1 thread, {} requests in flight", planned.in_flight),
        units: planned.rows as u64,
        runs: Vec::new(),
    });
    let native = format!("{} native", target.name);
    let mut others: Vec<&String> = planned.iter().map(|planned| &planned.system).collect();
    others.sort_unstable();
    others.dedup();
    let others = others.into_iter().filter(|system| **system != native);
    Experiment {
        cells: cells.collect(),
        pairs: others
            .map(|other| (native.clone(), other.clone()))
            .collect(),
        notes,
        ..Experiment::new(
            "async",
            "Rows in native batches",
            format!(
                "Requests for 1 to 200 of {rows} rows, with a value of {} bytes, several in flight: native batches, \
                 memcached's multi-get, SELECT ... WHERE id IN (...). At {CHILDREN} rows also INSERT into a table \
                 with two foreign keys. Every value is verified.",
                crate::value::USUAL
            ),
            "rows of a request",
        )
    }
}
