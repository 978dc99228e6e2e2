//! `bench autoinc`, `bench blob`: cost of an auto-increment id, and of a BLOB, in inserts.

use super::batch::{Statement, inserted};
use super::prefetch::Kept;
use super::{Bench, Route, routes};
use crate::connect::{Access, Admin};
use crate::error::Result;
use crate::matrix::{self, Entry, Group};
use crate::proto::{Answer, Call};
use crate::report::Experiment;
use crate::sys::SharedCounter;
use crate::url::System;
use std::sync::atomic::{AtomicU64, Ordering};

/// Rows of a batch.
const BATCH: u64 = 16;

/// Routes with prepared statements, one for each target that has SQL.
fn prepared(bench: &Bench) -> Vec<Route> {
    let targets = bench.targets.iter();
    targets
        .filter_map(|target| {
            let mut route = routes(target)
                .into_iter()
                .find(|w| matches!(w.endpoint.access, Access::MysqlPrepared | Access::Postgres))?;
            route.name.clone_from(&target.name);
            Some(route)
        })
        .collect()
}

/// One variant of an experiment at one system.
struct Variant<'a> {
    system: String,
    route: &'a Route,
    /// Run before each run.
    setting: Option<String>,
    workload: Box<dyn Fn() -> Statement<'a> + 'a>,
}

/// One operation at one size, by all variants.
struct Family<'v> {
    operation: &'static str,
    size: u64,
    connections: usize,
    units: u64,
    variants: Vec<Variant<'v>>,
}

fn run_families<'g, 'v: 'g>(
    bench: &mut Bench,
    experiment: &mut Experiment,
    families: &'g [Family<'v>],
) -> Result<()> {
    let groups: Vec<Group<'g>> = families
        .iter()
        .map(|family| Group {
            operation: family.operation.to_owned(),
            size: family.size,
            connections: family.connections,
            shape: bench.options.shape,
            units: family.units,
            entries: family.variants.iter().map(entry).collect(),
        })
        .collect();
    matrix::run(
        &groups,
        bench.options.effort,
        &mut bench.progress,
        &mut experiment.cells,
    )
}

fn entry<'g, 'v: 'g>(variant: &'g Variant<'v>) -> Entry<'g> {
    Entry {
        system: &variant.system,
        endpoint: &variant.route.endpoint,
        workload: Box::new((variant.workload)()),
        before: variant.setting.as_ref().map(|setting| {
            let set = move || {
                let mut admin = Admin::connect(&variant.route.endpoint.target)?;
                admin.run(setting).map(|_| ())
            };
            Box::new(set) as Box<dyn Fn() -> Result<()> + 'g>
        }),
    }
}

/// The routes whose tables could be created; the others get a note.
fn usable<'w>(
    bench: &mut Bench,
    routes: &'w [Route],
    notes: &mut Vec<String>,
    make: impl Fn(&Route) -> Result<()>,
) -> Vec<&'w Route> {
    let mut found = Vec::new();
    for route in routes {
        bench
            .progress
            .say(&format!("   making tables in {}", route.name));
        match make(route) {
            Ok(()) => found.push(route),
            Err(error) => {
                let note = format!("{} left out: {error}", route.name);
                bench.progress.say(&format!("   {note}"));
                notes.push(note);
            }
        }
    }
    found
}

/// `bench autoinc`.
///
/// # Errors
/// A wrong answer, or no system could be prepared.
pub fn autoinc(bench: &mut Bench) -> Result<()> {
    bench.progress.begin("autoinc: cost of an automatic id");
    let routes = prepared(bench);
    let mut notes = Vec::new();
    let usable = usable(bench, &routes, &mut notes, make_counters);
    if usable.is_empty() {
        return Err(super::no_system(
            "autoinc: no system with SQL could be prepared",
            &notes,
        ));
    }
    let ids = SharedCounter::new(1);
    let seed = bench.options.seed;
    let mut families = Vec::new();
    let mut pairs = Vec::new();
    for clients in bench.clients(&[8]) {
        families.push(Family {
            operation: "INSERT of 16 rows",
            size: clients as u64,
            connections: clients,
            units: BATCH,
            variants: usable
                .iter()
                .flat_map(|route| id_variants(route, seed, &ids, &mut pairs))
                .collect(),
        });
    }
    pairs.sort();
    pairs.dedup();
    let mut experiment = Experiment {
        pairs,
        notes,
        ..Experiment::new(
            "autoinc",
            "Cost of an automatic id",
            format!(
                "Inserts of {BATCH} rows in one statement, each a transaction of its own, with ids \
                 from AUTO_INCREMENT at several sizes of the range taken from the engine at once, and \
                 with explicit ids into a table without it."
            ),
            "clients",
        )
    };
    let kept: Vec<_> = usable.iter().filter_map(|route| Kept::of(route)).collect();
    let done = run_families(bench, &mut experiment, &families);
    drop(kept);
    bench.keep(experiment);
    done
}

/// Automatic ids (for Porpoise at each size of the range) and explicit ones.
fn id_variants<'v>(
    route: &'v Route,
    seed: u64,
    ids: &'v AtomicU64,
    pairs: &mut Vec<(String, String)>,
) -> Vec<Variant<'v>> {
    let explicit = format!("{}, explicit ids", route.name);
    let mut variants = Vec::new();
    let settings = if route.endpoint.target.system == System::Porpoise {
        [1, 256, 1024]
            .map(|n| {
                let setting = format!("set global auto_increment_prefetch = {n}");
                (format!("prefetch {n}"), Some(setting))
            })
            .to_vec()
    } else {
        vec![("automatic ids".to_owned(), None)]
    };
    for (words, setting) in settings {
        let system = format!("{}, {words}", route.name);
        pairs.push((system.clone(), explicit.clone()));
        variants.push(Variant {
            system,
            route,
            setting,
            workload: Box::new(move || counted(seed)),
        });
    }
    variants.push(Variant {
        system: explicit,
        route,
        setting: None,
        workload: Box::new(move || numbered(seed, ids)),
    });
    variants
}

fn make_counters(route: &Route) -> Result<()> {
    let mut admin = Admin::connect(&route.endpoint.target)?;
    let (auto, tail) = match route.endpoint.access {
        Access::Postgres => ("bigint generated by default as identity", ""),
        _ => ("bigint auto_increment", " engine=InnoDB"),
    };
    for (table, id) in [("counted", auto), ("numbered", "bigint")] {
        admin.run(&format!("drop table if exists {table}"))?;
        admin.run(&format!(
            "create table {table} (id {id} primary key, n bigint, note varchar(64)){tail}"
        ))?;
    }
    Ok(())
}

fn counted<'a>(seed: u64) -> Statement<'a> {
    let marks = vec!["(?, ?)"; BATCH as usize].join(", ");
    Statement {
        text: format!("insert into counted (n, note) values {marks}"),
        fill: Box::new(|random, call| {
            for _ in 0..BATCH {
                call.int(random.i64(0..1 << 40))
                    .bytes(b"twenty bytes of note");
            }
        }),
        check: inserted(BATCH),
        seed,
        limit: None,
    }
}

fn numbered(seed: u64, ids: &AtomicU64) -> Statement<'_> {
    let marks = vec!["(?, ?, ?)"; BATCH as usize].join(", ");
    Statement {
        text: format!("insert into numbered (id, n, note) values {marks}"),
        fill: Box::new(move |random, call| {
            let first = ids.fetch_add(BATCH, Ordering::Relaxed).cast_signed();
            for n in 0..BATCH.cast_signed() {
                call.int(first + n)
                    .int(random.i64(0..1 << 40))
                    .bytes(b"twenty bytes of note");
            }
        }),
        check: inserted(BATCH),
        seed,
        limit: None,
    }
}

/// A kind of column and its length.
struct Column {
    words: &'static str,
    table: &'static str,
    kind: &'static str,
    length: usize,
}

const COLUMNS: [Column; 4] = [
    Column {
        words: "BLOB",
        table: "blobs",
        kind: "blob",
        length: 1000,
    },
    Column {
        words: "VARBINARY",
        table: "varbinaries",
        kind: "varbinary(1024)",
        length: 1000,
    },
    Column {
        words: "BLOB",
        table: "blobs_8k",
        kind: "blob",
        length: 8 << 10,
    },
    Column {
        words: "BLOB",
        table: "blobs_64k",
        kind: "mediumblob",
        length: 64 << 10,
    },
];

/// `bench blob`.
///
/// # Errors
/// A wrong answer, or no system could be prepared.
pub fn blob(bench: &mut Bench) -> Result<()> {
    bench.progress.begin("blob: cost of a BLOB");
    let mut routes = prepared(bench);
    routes.retain(|route| route.endpoint.access == Access::MysqlPrepared);
    let rows = bench.rows(if bench.options.is_quick {
        20_000
    } else {
        200_000
    });
    let mut notes = Vec::new();
    let usable = usable(bench, &routes, &mut notes, |route| make_blobs(route, rows));
    if usable.is_empty() {
        return Err(super::no_system(
            "blob: no system with MySQL's protocol could be prepared",
            &notes,
        ));
    }
    let clients = bench.clients(&[8]).first().copied().unwrap_or(8);
    let seed = bench.options.seed;
    // Shared by all runs, so that no update writes what is there already.
    let versions = SharedCounter::new(1);
    let mut families = Vec::new();
    for length in [1000, 8 << 10, 64 << 10] {
        for is_read in [false, true] {
            families.push(Family {
                operation: if is_read { "SELECT" } else { "UPDATE" },
                size: length as u64,
                connections: clients,
                units: 1,
                variants: usable
                    .iter()
                    .flat_map(|route| blob_variants(route, length, is_read, rows, seed, &versions))
                    .collect(),
            });
        }
    }
    let long = COLUMNS.iter().filter(|c| c.length > 1000);
    let long: Vec<String> = long
        .map(|c| format!("{} of {} KiB", rows_of(c, rows), c.length >> 10))
        .collect();
    let mut experiment = Experiment {
        pairs: blob_pairs(&usable),
        notes,
        ..Experiment::new(
            "blob",
            "Cost of a BLOB",
            format!(
                "Two columns of the length shown, as BLOB and as VARBINARY, on {rows} rows ({}); \
                 {clients} clients, by primary key, each statement a transaction of its own; what is \
                 read is verified.",
                long.join(", ")
            ),
            "bytes of each of two columns",
        )
    };
    let done = run_families(bench, &mut experiment, &families);
    bench.keep(experiment);
    done
}

fn blob_variants<'v>(
    route: &'v Route,
    length: usize,
    is_read: bool,
    rows: u64,
    seed: u64,
    versions: &'v AtomicU64,
) -> Vec<Variant<'v>> {
    let columns = COLUMNS.iter().filter(|c| c.length == length);
    let variant = |column: &'static Column| Variant {
        system: format!("{}, {}", route.name, column.words),
        route,
        setting: None,
        workload: Box::new(move || {
            let rows = rows_of(column, rows);
            if is_read {
                reading(column, rows, seed)
            } else {
                writing(column, rows, seed, versions)
            }
        }),
    };
    columns.map(variant).collect()
}

/// BLOB compared with VARBINARY in each system, and ours with theirs for each.
fn blob_pairs(routes: &[&Route]) -> Vec<(String, String)> {
    let is_ours = |route: &&&Route| route.endpoint.target.system == System::Porpoise;
    let mut pairs = Vec::new();
    for route in routes {
        pairs.push((
            format!("{}, BLOB", route.name),
            format!("{}, VARBINARY", route.name),
        ));
    }
    for ours in routes.iter().filter(is_ours) {
        for theirs in routes.iter().filter(|route| !is_ours(route)) {
            for kind in ["BLOB", "VARBINARY"] {
                pairs.push((
                    format!("{}, {kind}", ours.name),
                    format!("{}, {kind}", theirs.name),
                ));
            }
        }
    }
    pairs
}

/// Fewer rows of long columns, so that all tables are of like size.
fn rows_of(column: &Column, rows: u64) -> u64 {
    (rows * 1000 / column.length as u64).clamp(100, rows)
}

fn make_blobs(route: &Route, rows: u64) -> Result<()> {
    let mut admin = Admin::connect(&route.endpoint.target)?;
    for column in &COLUMNS {
        let (table, kind) = (column.table, column.kind);
        admin.run(&format!("drop table if exists {table}"))?;
        admin.run(&format!(
            "create table {table} (id int not null primary key, a {kind}, b {kind}) engine=InnoDB"
        ))?;
        super::load_rows::LoadRows::new(0..rows_of(column, rows), BlobRows(column))
            .load(&route.endpoint)?;
    }
    Ok(())
}

struct BlobRows(&'static Column);

impl super::load_rows::Rows for BlobRows {
    fn statement(&self, rows: usize) -> String {
        let marks = vec!["(?, ?, ?)"; rows].join(", ");
        format!("insert into {} (id, a, b) values {marks}", self.0.table)
    }

    fn add(&self, n: u64, call: &mut Call) {
        call.int(n.cast_signed());
        put_two(call, n, 0, self.0.length);
    }

    fn item(&self, _: u64, _: &mut Call) {}
}

fn put_two(call: &mut Call, key: u64, version: u64, length: usize) {
    for _ in 0..2 {
        call.bytes_by(|out| crate::value::append(out, key, version, length));
    }
}

fn writing<'a>(
    column: &'static Column,
    rows: u64,
    seed: u64,
    versions: &'a AtomicU64,
) -> Statement<'a> {
    Statement {
        text: format!("update {} set a = ?, b = ? where id = ?", column.table),
        fill: Box::new(move |random, call| {
            let key = random.u64(0..rows);
            let version = versions.fetch_add(1, Ordering::Relaxed);
            put_two(call, key, version, column.length);
            call.int(key.cast_signed());
        }),
        check: inserted(1),
        seed,
        limit: None,
    }
}

fn reading<'a>(column: &'static Column, rows: u64, seed: u64) -> Statement<'a> {
    Statement {
        text: format!("select id, a, b from {} where id = ?", column.table),
        fill: Box::new(move |random, call| {
            call.int(random.u64(0..rows).cast_signed());
        }),
        check: Box::new(move |answer| is_row(answer, column.length)),
        seed,
        limit: None,
    }
}

/// Whether a row's two columns are of its own key and of one version.
fn is_row(answer: &Answer, length: usize) -> bool {
    let key = answer
        .cell(0)
        .and_then(|id| std::str::from_utf8(id).ok()?.parse().ok());
    let Some(key) = key else { return false };
    let read = |n| {
        answer
            .cell(n)
            .and_then(|v| crate::value::read(v, key, length))
    };
    answer.rows == 1 && read(1).is_some() && read(1) == read(2)
}
