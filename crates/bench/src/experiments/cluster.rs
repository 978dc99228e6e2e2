//! `bench cluster`: statements on a TiKV cluster whose every answer takes a millisecond.
//!
//! A Porpoise server is started on a test double of a cluster (`tests/tikv-double`), which delays each answer of a store
//! and of the placement driver by [`LATENCY`]. So the figures show the number of requests that follow each other, and what
//! connections share; they do not show the speed of TiKV.

use super::batch::{Statement, inserted};
use super::cluster_double::ClusterDouble;
use super::families::{Family, Variant, run_families};
use super::inserts::{BATCH, counted};
use super::{Bench, Route, routes};
use crate::connect::{Access, Admin};
use crate::error::{Error, Result};
use crate::peers::Started;
use crate::report::Experiment;
use crate::sys::SharedCounter;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Time that each answer takes.
const LATENCY: Duration = Duration::from_millis(1);
/// Rows of the table that is read and updated.
const ROWS: u64 = 10_000;
/// Rows of each parent.
const PARENTS: i64 = 1000;
/// Rows of one statement that fills a table.
const FILL: u64 = 1000;

const TABLES: [&str; 6] = [
    "CREATE TABLE cl (id BIGINT PRIMARY KEY, v BIGINT NOT NULL, note VARCHAR(64))",
    "CREATE TABLE cl_left (id BIGINT PRIMARY KEY)",
    "CREATE TABLE cl_right (id BIGINT PRIMARY KEY)",
    "CREATE TABLE cl_both (id BIGINT PRIMARY KEY, l BIGINT NOT NULL, r BIGINT NOT NULL, \
     FOREIGN KEY (l) REFERENCES cl_left (id), FOREIGN KEY (r) REFERENCES cl_right (id))",
    "CREATE TABLE cl_child (id BIGINT PRIMARY KEY, l BIGINT NOT NULL, \
     FOREIGN KEY (l) REFERENCES cl_left (id))",
    "CREATE TABLE cl_counted (id BIGINT PRIMARY KEY AUTO_INCREMENT, n BIGINT, note VARCHAR(64))",
];

/// Names of the variants with one parent and with many.
const ONE_PARENT: &str = "one parent";
const MANY_PARENTS: &str = "1,000 parents";

fn prepare(admin: &mut Admin) -> Result<()> {
    for table in TABLES {
        admin.run(table)?;
    }
    for (table, rows, rest) in [
        ("cl", ROWS, ", 0, 'some text of a row'"),
        ("cl_left", PARENTS.unsigned_abs(), ""),
        ("cl_right", PARENTS.unsigned_abs(), ""),
    ] {
        for first in (0..rows).step_by(FILL as usize) {
            let ids = first..(first + FILL).min(rows);
            let values: Vec<String> = ids.map(|id| format!("({id}{rest})")).collect();
            admin.run(&format!("INSERT INTO {table} VALUES {}", values.join(", ")))?;
        }
    }
    Ok(())
}

fn select<'a>(seed: u64) -> Statement<'a> {
    Statement {
        text: "SELECT note FROM cl WHERE id = ?".to_owned(),
        fill: Box::new(|random, call| {
            call.int(random.i64(0..ROWS.cast_signed()));
        }),
        check: Box::new(|answer| answer.rows == 1),
        seed,
        limit: None,
    }
}

fn update(seed: u64, versions: &AtomicU64) -> Statement<'_> {
    Statement {
        text: "UPDATE cl SET v = ? WHERE id = ?".to_owned(),
        fill: Box::new(move |random, call| {
            // A new value each time, so that no update is without effect.
            call.int(next(versions))
                .int(random.i64(0..ROWS.cast_signed()));
        }),
        check: inserted(1),
        seed,
        limit: None,
    }
}

fn next(counter: &AtomicU64) -> i64 {
    counter.fetch_add(1, Ordering::Relaxed).cast_signed()
}

fn insert(seed: u64, ids: &AtomicU64) -> Statement<'_> {
    Statement {
        text: "INSERT INTO cl_both VALUES (?, ?, ?)".to_owned(),
        fill: Box::new(move |random, call| {
            call.int(next(ids))
                .int(random.i64(0..PARENTS))
                .int(random.i64(0..PARENTS));
        }),
        check: inserted(1),
        seed,
        limit: None,
    }
}

fn child(seed: u64, ids: &AtomicU64, parents: i64) -> Statement<'_> {
    Statement {
        text: "INSERT INTO cl_child VALUES (?, ?)".to_owned(),
        fill: Box::new(move |random, call| {
            call.int(next(ids)).int(random.i64(0..parents));
        }),
        check: inserted(1),
        seed,
        limit: None,
    }
}

/// Makes the work of one run.
type Work<'v> = Box<dyn Fn() -> Statement<'v> + 'v>;

fn families<'v>(
    route: &'v Route,
    clients: usize,
    seed: u64,
    ids: &'v AtomicU64,
) -> Vec<Family<'v>> {
    let variant = |system: &str, setting: Option<String>, workload: Work<'v>| Variant {
        system: system.to_owned(),
        route,
        setting,
        workload,
    };
    let family = |operation, units, variants| Family {
        operation,
        size: clients as u64,
        connections: clients,
        units,
        variants,
    };
    let single = |workload: Work<'v>| vec![variant(&route.name, None, workload)];
    let prefetch = |n: u32| {
        let setting = format!("SET GLOBAL auto_increment_prefetch = {n}");
        let work: Work<'v> = Box::new(move || counted("cl_counted", seed));
        variant(&format!("prefetch {n}"), Some(setting), work)
    };
    let under = |name, parents| {
        let work: Work<'v> = Box::new(move || child(seed, ids, parents));
        variant(name, None, work)
    };
    vec![
        family("SELECT by key", 1, single(Box::new(move || select(seed)))),
        family(
            "UPDATE by key",
            1,
            single(Box::new(move || update(seed, ids))),
        ),
        family(
            "INSERT with two foreign keys",
            1,
            single(Box::new(move || insert(seed, ids))),
        ),
        family(
            "INSERT of 16 rows",
            BATCH,
            [1, 256, 1024].map(prefetch).into(),
        ),
        family(
            "INSERT of a child",
            1,
            vec![under(ONE_PARENT, 1), under(MANY_PARENTS, PARENTS)],
        ),
    ]
}

fn describe() -> Experiment {
    let pair = |one: &str, other: &str| (one.to_owned(), other.to_owned());
    let about = format!(
        "Prepared statements, each a transaction of its own, on a test double of a cluster with one region and one store. \
         Each answer of the store and of the placement driver is delayed by {} ms.",
        LATENCY.as_millis()
    );
    let title = "Statements on a TiKV cluster";
    Experiment {
        pairs: vec![
            pair("prefetch 256", "prefetch 1"),
            pair("prefetch 1024", "prefetch 1"),
            pair(ONE_PARENT, MANY_PARENTS),
        ],
        ..Experiment::new("cluster", title, about, "clients")
    }
}

/// The route by prepared statements to a started server.
fn prepared(started: &Started) -> Result<Route> {
    let mut all = routes(&started.target).into_iter();
    let route = all.find(|route| matches!(route.endpoint.access, Access::MysqlPrepared));
    route.ok_or_else(|| Error::failed("the server has no listener for prepared statements"))
}

/// `bench cluster`. The server is the program `porpoise`, its files are in `home`.
///
/// # Errors
/// The double is not there, the server failed, or an answer was wrong.
pub fn cluster(bench: &mut Bench, home: &Path, porpoise: PathBuf) -> Result<()> {
    bench
        .progress
        .begin("cluster: statements on a TiKV cluster with latency");
    let double = ClusterDouble::start(home)?;
    let started = double.server(home, porpoise)?;
    prepare(&mut Admin::connect(&started.target)?)?;
    double.set_latency(LATENCY)?;
    let route = prepared(&started)?;
    let ids = SharedCounter::new(1);
    let seed = bench.options.seed;
    let clients = bench.clients(&[1, 32]);
    let families: Vec<Family<'_>> = clients
        .into_iter()
        .flat_map(|clients| families(&route, clients, seed, &ids))
        .collect();
    let mut experiment = describe();
    let done = run_families(bench, &mut experiment, &families);
    bench.keep(experiment);
    done
}
