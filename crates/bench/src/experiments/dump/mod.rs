//! `bench dump`: loading a dump, and the same rows by LOAD DATA, through the client `mariadb` or `mysql`.
//!
//! In each round every system loads every file, one system after the other. Before a file is loaded, its
//! tables are created again; afterwards their rows are counted and added up, and compared with those of the
//! other systems. Neither is measured.

mod data;
mod import;

pub use import::{ImportOptions, import};

use super::{Bench, Route};
use crate::connect::{Access, Admin};
use crate::error::{Error, Result};
use crate::load::{Outcome, histogram};
use crate::matrix::{Measured, run_rounds};
use crate::peers::find_program;
use crate::procfs::{Reading, ended_children};
use crate::report::{Cell, Experiment, Run};
use crate::url::{System, Target};
use data::{DumpFiles, PARENT_TABLE, TABLES, Table, parent_definition, parent_rows, write_files};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Size of the dump in megabytes, unless chosen otherwise.
const SIZE_MB: u64 = 32;

/// A file to be loaded.
enum Job<'a> {
    /// INSERTs of one table.
    Inserts(&'a Table, &'a Path, u64),
    /// LOAD DATA of one table.
    Lines(&'a Table, &'a Path, u64),
    /// The dump of all tables.
    Whole(&'a Path, u64),
}

impl Job<'_> {
    fn name(&self) -> String {
        match self {
            Job::Inserts(table, ..) => format!("INSERTs, {}", table.description),
            Job::Lines(table, ..) => format!("LOAD DATA, {}", table.description),
            Job::Whole(..) => "whole dump".to_owned(),
        }
    }

    fn rows(&self) -> u64 {
        match self {
            Job::Inserts(.., rows) | Job::Lines(.., rows) | Job::Whole(_, rows) => *rows,
        }
    }

    /// Creates the tables that the job fills, empty.
    fn prepare(&self, admin: &mut Admin) -> Result<()> {
        for table in TABLES.iter().map(|table| table.name).chain([PARENT_TABLE]) {
            admin.run(&format!("drop table if exists {table}"))?;
        }
        if let Job::Inserts(table, ..) | Job::Lines(table, ..) = self {
            admin.run(&parent_definition())?;
            admin.run(&parent_rows())?;
            admin.run(&table.definition())?;
        }
        Ok(())
    }

    /// The sums of the tables' columns.
    fn sums(&self, admin: &mut Admin) -> Result<Vec<String>> {
        let tables = match self {
            Job::Inserts(table, ..) | Job::Lines(table, ..) => std::slice::from_ref(*table),
            Job::Whole(..) => &TABLES,
        };
        tables.iter().map(|table| table.sums(admin)).collect()
    }
}

/// The client that loads files.
struct Client {
    program: PathBuf,
}

impl Client {
    /// Runs the client on a job.
    fn run(&self, target: &Target, job: &Job<'_>) -> Result<()> {
        let mut command = Command::new(&self.program);
        command
            .arg("--no-defaults")
            .args(["--protocol=tcp", "--skip-ssl", "--local-infile=1"])
            .arg(format!("--host={}", target.host))
            .arg(format!("--port={}", target.port))
            .arg(format!("--user={}", target.user))
            .env("MYSQL_PWD", &target.password)
            .arg(format!("--database={}", target.database))
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        match job {
            Job::Inserts(_, file, _) | Job::Whole(file, _) => {
                command.stdin(File::open(file)?);
            }
            Job::Lines(table, file, _) => {
                let file = file.display();
                let load = format!("LOAD DATA LOCAL INFILE '{file}' INTO TABLE {}", table.name);
                command.arg("--execute").arg(load).stdin(Stdio::null());
            }
        }
        let done = command.output()?;
        if done.status.success() {
            return Ok(());
        }
        let output = String::from_utf8_lossy(&done.stderr).into_owned();
        Err(Error::failed(
            output.lines().next().unwrap_or("the client failed"),
        ))
    }
}

/// Measures `load`, which loads this number of rows into a target by programs that it starts and waits for. A row counts
/// as a request.
fn measure(
    target: &Target,
    rows: u64,
    cores: usize,
    load: impl FnOnce() -> Result<()>,
) -> Result<Run> {
    let (before, children) = (Reading::now(target.pid), ended_children());
    let begun = Instant::now();
    load()?;
    let seconds = begun.elapsed().as_secs_f64();
    let after = Reading::now(target.pid);
    let mut spent = before.within(&after, seconds);
    // The programs are a part of the generator.
    if let (Some(before), Some(after)) = (children, ended_children()) {
        spent.generator = spent.generator.map(|own| own + after - before);
        spent.outside = spent.outside.map(|other| (other - after + before).max(0.0));
    }
    let mut latency = histogram();
    latency.saturating_record((seconds * 1e9) as u64);
    let outcome = Outcome {
        requests: rows,
        seconds,
        latency,
        spent,
        threads: before.threads_within(&after, seconds),
        ..Outcome::empty()
    };
    Ok(Run::of(&outcome, cores))
}

/// `bench dump`. `size_mb` is the size of the whole dump; the files are written to `home`.
///
/// # Errors
/// Two systems have different rows afterwards, or none could be prepared.
pub fn dump(bench: &mut Bench, home: &Path, size_mb: Option<u64>) -> Result<()> {
    let size = size_mb.unwrap_or(if bench.options.is_quick { 4 } else { SIZE_MB });
    bench.progress.begin("dump: loading dumps and text files");
    let client = ["mariadb", "mysql"]
        .iter()
        .find_map(|name| find_program(name, &["/usr/bin"]))
        .ok_or_else(|| Error::failed("dump: neither the client mariadb nor mysql is installed"))?;
    let client = Client { program: client };
    let mut notes = Vec::new();
    let mut routes = Vec::new();
    for route in bench.routes(|access| access == Access::MysqlText) {
        match allow_local_files(&route.endpoint.target) {
            Ok(()) => routes.push(Route {
                name: route.endpoint.target.name.clone(),
                ..route
            }),
            Err(error) => {
                let note = format!("{} left out: {error}", route.name);
                bench.progress.say(&format!("   {note}"));
                notes.push(note);
            }
        }
    }
    if routes.is_empty() {
        let what = "dump: no system with MySQL's protocol could be prepared";
        return Err(super::no_system(what, &notes));
    }
    bench.progress.say(&format!("   writing {size} MB twice"));
    let directory = tempfile::Builder::new().prefix("dump-").tempdir_in(home)?;
    let files = write_files(directory.path(), size << 20, bench.options.seed)?;
    let jobs = jobs(&files);
    let mut experiment = describe(&jobs, &routes, size, notes);
    let done = rounds(bench, &client, &jobs, &routes, &mut experiment.cells);
    bench.keep(experiment);
    done
}

/// Allows LOAD DATA LOCAL.
fn allow_local_files(target: &Target) -> Result<()> {
    let mut admin = Admin::connect(target)?;
    admin.run("set global local_infile = 1")?;
    Ok(())
}

fn jobs(files: &DumpFiles) -> Vec<Job<'_>> {
    let tables = || TABLES.iter().zip(&files.tables);
    let inserts = tables().map(|(table, made)| Job::Inserts(table, &made.inserts, made.rows));
    let lines = tables().map(|(table, made)| Job::Lines(table, &made.lines, made.rows));
    let rows = files.tables.iter().map(|made| made.rows).sum();
    let whole = Job::Whole(&files.whole, rows);
    inserts.chain(lines).chain([whole]).collect()
}

fn describe(jobs: &[Job<'_>], routes: &[Route], size: u64, notes: Vec<String>) -> Experiment {
    let cells = jobs.iter().flat_map(|job| {
        routes.iter().map(|route| Cell {
            operation: job.name(),
            size,
            system: route.name.clone(),
            client: "1 connection of the client mariadb".to_owned(),
            units: 1,
            runs: Vec::new(),
        })
    });
    let is_ours = |route: &&Route| route.endpoint.target.system == System::Porpoise;
    let theirs = routes.iter().filter(|route| !is_ours(route));
    let pairs = routes.iter().filter(is_ours).flat_map(|ours| {
        let theirs = theirs.clone();
        theirs.map(|theirs| (ours.name.clone(), theirs.name.clone()))
    });
    Experiment {
        cells: cells.collect(),
        pairs: pairs.collect(),
        notes,
        ..Experiment::new(
            "dump",
            "Loading dumps",
            format!(
                "A dump of {size} MB as mariadb-dump writes it (INSERTs of 1 MB), and the same rows by LOAD DATA \
                 LOCAL INFILE, by the client mariadb from its start to its end. A request is a row of \
                 about 75 bytes. Each table alone, with checks of foreign keys, then all of them with \
                 their definitions and without these checks. Columns are added up and compared \
                 afterwards."
            ),
            "MB of the dump",
        )
    }
}

fn rounds(
    bench: &mut Bench,
    client: &Client,
    jobs: &[Job<'_>],
    routes: &[Route],
    cells: &mut [Cell],
) -> Result<()> {
    let rounds = bench.options.effort.rounds;
    let cores = crate::sys::cores();
    let mut known: Vec<Option<Vec<String>>> = jobs.iter().map(|_| None).collect();
    let groups = vec![routes.len(); jobs.len()];
    bench
        .progress
        .expect(cells.len() * rounds, Duration::from_secs(1));
    let attempt = |job: &Job<'_>, target: &Target, known: &mut Option<Vec<String>>| {
        let mut admin = Admin::connect(target)?;
        job.prepare(&mut admin)?;
        let run = measure(target, job.rows(), cores, || client.run(target, job))?;
        let sums = job.sums(&mut admin)?;
        let count = sums
            .iter()
            .filter_map(|sum| sum.split(' ').next()?.parse::<u64>().ok());
        if count.sum::<u64>() != job.rows() || known.as_ref().is_some_and(|other| *other != sums) {
            return Err(Error::wrong(format!("{} rows, sums {sums:?}", job.rows())));
        }
        known.get_or_insert(sums);
        Ok(run)
    };
    let mut measure = |_: usize, cell: usize| {
        let (at, system) = (cell / routes.len(), cell % routes.len());
        let (Some(job), Some(route), Some(known)) =
            (jobs.get(at), routes.get(system), known.get_mut(at))
        else {
            return Measured::default();
        };
        Measured::from(attempt(job, &route.endpoint.target, known))
    };
    run_rounds(&groups, rounds, cells, &mut bench.progress, &mut measure)
}
