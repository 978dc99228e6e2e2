//! `bench import`: copying a running MariaDB server by `porpoise import`, compared with `mariadb-dump | mariadb` into another
//! MariaDB server, and the lag of Porpoise while it follows.
//!
//! The source is a MariaDB server with a binary log, and has the tables of `bench dump`. In each round they are copied into each
//! system once, after its tables were dropped. All servers and programs run side by side on the same processors, and
//! when a run ends the rows are durable as set by `--durability`.
//!
//! After the last round Porpoise imports once more and follows. Clients write to the source at a fixed rate, each transaction
//! with the time of its commit, and a poller reads the newest time that has arrived: its difference from the present time is the lag.

use super::data::{TABLES, write_files};
use super::{Client, Job, allow_local_files};
use crate::connect::Admin;
use crate::error::{Error, Result};
use crate::experiments::{Bench, change_log, no_system};
use crate::load::{Outcome, histogram};
use crate::matrix::{Measured, Turn};
use crate::peers::find_program;
use crate::procfs::Reading;
use crate::report::{Axis, Cell, Experiment, Run};
use crate::url::{System, Target};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Size of the tables in megabytes, as a dump, unless chosen otherwise.
const SIZE_MB: u64 = 128;

/// Writes a second while the lag is measured, unless chosen otherwise.
const WRITES: u64 = 1000;

/// Clients that write.
const WRITERS: u64 = 4;

/// Time between two measurements of the lag.
const POLL: Duration = Duration::from_millis(10);

/// Longest wait for the import to begin following.
const PATIENCE: Duration = Duration::from_secs(600);

/// Database that is copied.
const DATABASE: &str = "import_bench";

/// Table with the times of the writers' last commits.
const BEATS: &str = "import_beats";

/// Server id of the source, which differs from those of the others.
const SOURCE_ID: u32 = 77;

/// A program that fills a target.
enum Way {
    /// `porpoise import`.
    Import(PathBuf),
    /// `mariadb-dump | mariadb`.
    Dump(PathBuf, PathBuf),
}

impl Way {
    fn name(&self, target: &Target) -> String {
        match self {
            Way::Import(_) => format!("{}, porpoise import", target.name),
            Way::Dump(..) => format!("{}, mariadb-dump | mariadb", target.name),
        }
    }
}

/// The servers and programs.
struct Servers {
    source: Target,
    ways: Vec<(Way, Target)>,
}

/// Options of the experiment.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImportOptions {
    /// Size of the tables in megabytes, as a dump.
    pub size_mb: Option<u64>,
    /// Writes a second while the lag is measured.
    pub writes: Option<u64>,
}

/// A program, with the options by which a client reaches a server.
fn client(program: &Path, target: &Target) -> Command {
    let mut command = Command::new(program);
    command
        .arg("--no-defaults")
        .args(["--protocol=tcp", "--skip-ssl"])
        .arg(format!("--host={}", target.host))
        .arg(format!("--port={}", target.port))
        .arg(format!("--user={}", target.user))
        .env("MYSQL_PWD", &target.password);
    command
}

/// `porpoise import`.
fn import_command(program: &Path, source: &Target, target: &Target, more: &[&str]) -> Command {
    let url = |target: &Target| format!("mysql://{}@{}:{}", target.user, target.host, target.port);
    let mut command = Command::new(program);
    command
        .arg("import")
        .arg(url(source))
        .args(["--into", &url(target)])
        .args(["--include-schemas", DATABASE])
        .args(more)
        .env("PORPOISE_SOURCE_PASSWORD", &source.password)
        .env("PORPOISE_PASSWORD", &target.password)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

/// The failure of a program, from the last line that it has printed.
fn failure(name: &str, output: &[u8]) -> Error {
    let output = String::from_utf8_lossy(output);
    let last = output.lines().rev().find(|line| !line.trim().is_empty());
    Error::failed(format!("{name}: {}", last.unwrap_or("failed")))
}

fn run_to_end(name: &str, mut command: Command) -> Result<()> {
    let done = command.stderr(Stdio::piped()).output()?;
    if done.status.success() {
        return Ok(());
    }
    Err(failure(name, &done.stderr))
}

/// Copies the source's tables.
fn copy(way: &Way, source: &Target, target: &Target) -> Result<()> {
    let (dump, load) = match way {
        Way::Import(program) => {
            let command = import_command(program, source, target, &["--quiet"]);
            return run_to_end("porpoise import", command);
        }
        Way::Dump(dump, load) => (dump, load),
    };
    let mut dump = client(dump, source);
    dump.args(["--single-transaction", "--databases", DATABASE]);
    let mut dumping = dump.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut load = client(load, target);
    if let Some(output) = dumping.stdout.take() {
        load.stdin(output);
    }
    load.stdout(Stdio::null());
    let loaded = run_to_end("mariadb", load);
    let dumped = dumping.wait()?;
    loaded?;
    if dumped.success() {
        Ok(())
    } else {
        Err(Error::failed("mariadb-dump failed"))
    }
}

/// Copies once, and measures.
fn measure_copy(
    way: &Way,
    source: &Target,
    target: &Target,
    rows: u64,
    cores: usize,
) -> Result<Run> {
    Admin::connect(target)?.run(&format!("drop database if exists {DATABASE}"))?;
    super::measure(target, rows, cores, || copy(way, source, target))
}

/// The sums of all columns of a server's tables.
fn sums(target: &Target) -> Result<Vec<String>> {
    let mut admin = Admin::connect(&in_database(target))?;
    TABLES.iter().map(|table| table.sums(&mut admin)).collect()
}

fn in_database(target: &Target) -> Target {
    Target {
        database: DATABASE.to_owned(),
        ..target.clone()
    }
}

/// Chooses source, targets and programs.
fn servers(bench: &Bench, porpoise: PathBuf) -> Result<Servers> {
    let program = |names: [&str; 2]| {
        let mut names = names.iter();
        names
            .find_map(|name| find_program(name, &["/usr/bin"]))
            .ok_or_else(|| {
                Error::failed("import: the client mariadb or mariadb-dump is not installed")
            })
    };
    let dump = program(["mariadb-dump", "mysqldump"])?;
    let load = program(["mariadb", "mysql"])?;
    let has_log = |target: &&Target| target.name.ends_with(change_log::WITH_LOG);
    let mut targets = bench.targets.iter();
    let source = targets
        .find(|target| target.system == System::Mysql && has_log(target))
        .ok_or_else(|| {
            no_system(
                "import: there is no MariaDB server with a log to copy: give --start-peers=porpoise,mariadb",
                &[],
            )
        })?;
    let mut ways = Vec::new();
    for target in bench.targets.iter().filter(|target| !has_log(target)) {
        match target.system {
            System::Porpoise => ways.push((Way::Import(porpoise.clone()), target.clone())),
            System::Mysql => ways.push((Way::Dump(dump.clone(), load.clone()), target.clone())),
            _ => {}
        }
    }
    Ok(Servers {
        source: source.clone(),
        ways,
    })
}

/// Fills the source. Returns the number of rows.
fn fill(source: &Target, home: &Path, size: u64, seed: u64) -> Result<u64> {
    let load =
        find_program("mariadb", &["/usr/bin"]).or_else(|| find_program("mysql", &["/usr/bin"]));
    let program = load.ok_or_else(|| Error::failed("the client mariadb is not installed"))?;
    let directory = tempfile::Builder::new()
        .prefix("import-")
        .tempdir_in(home)?;
    let files = write_files(directory.path(), size << 20, seed)?;
    let rows = files.tables.iter().map(|made| made.rows).sum();
    let mut admin = Admin::connect(source)?;
    admin.run(&format!("set global server_id = {SOURCE_ID}"))?;
    admin.run(&format!("drop database if exists {DATABASE}"))?;
    admin.run(&format!("create database {DATABASE}"))?;
    Client { program }.run(&in_database(source), &Job::Whole(&files.whole, rows))?;
    let mut admin = Admin::connect(&in_database(source))?;
    admin.run(&format!(
        "create table {BEATS} (id int primary key, at bigint not null, n bigint not null) engine=InnoDB"
    ))?;
    let writers: Vec<String> = (0..WRITERS).map(|id| format!("({id}, 0, 0)")).collect();
    admin.run(&format!("insert into {BEATS} values {}", writers.join(",")))?;
    Ok(rows)
}

/// `bench import`.
///
/// # Errors
/// Two servers have different rows afterwards; a program or server is missing.
pub fn import(
    bench: &mut Bench,
    home: &Path,
    porpoise: PathBuf,
    options: ImportOptions,
) -> Result<()> {
    let size = options
        .size_mb
        .unwrap_or(if bench.options.is_quick { 4 } else { SIZE_MB });
    bench.progress.begin("import: copying a running server");
    let servers = servers(bench, porpoise)?;
    bench
        .progress
        .say(&format!("   filling the source with {size} MB"));
    let rows = fill(&servers.source, home, size, bench.options.seed)?;
    for (way, target) in &servers.ways {
        if matches!(way, Way::Import(_)) {
            allow_local_files(target)?;
        }
    }
    let mut experiment = describe(&servers, size);
    let done = rounds(bench, &servers, rows, &mut experiment.cells);
    bench.keep(experiment);
    done?;
    let writes = options.writes.unwrap_or(WRITES);
    let mut experiment = describe_lag(size, writes);
    let mut lag = Ok(());
    for (way, target) in &servers.ways {
        let Way::Import(program) = way else { continue };
        let time = bench.options.effort.time;
        bench
            .progress
            .say(&format!("   following at {writes} writes/s"));
        let run = follow(program, &servers.source, target, writes, time);
        lag = lag.and(run.as_ref().map(drop).map_err(Clone::clone));
        experiment.cells.push(Cell {
            operation: "lag".to_owned(),
            size: writes,
            system: target.name.clone(),
            client: format!("{WRITERS} connections to the source"),
            units: 1,
            runs: vec![Measured::from(run).run],
        });
    }
    bench.keep(experiment);
    lag
}

fn describe(servers: &Servers, size: u64) -> Experiment {
    let cell = |(way, target): &(Way, Target)| Cell {
        operation: "copy".to_owned(),
        size,
        system: way.name(target),
        client: "the program, from its start to its end".to_owned(),
        units: 1,
        runs: Vec::new(),
    };
    let is_ours = |way: &&(Way, Target)| matches!(way.0, Way::Import(_));
    let ours = servers.ways.iter().filter(is_ours);
    let pairs = ours.flat_map(|ours| {
        let theirs = servers.ways.iter().filter(|way| !is_ours(way));
        theirs.map(|theirs| (ours.0.name(&ours.1), theirs.0.name(&theirs.1)))
    });
    Experiment {
        name: "import".to_owned(),
        title: "Copying a running server".to_owned(),
        about: format!(
            "The tables of `bench dump`, {size} MB as a dump, copied from a running MariaDB with a binary log: by porpoise \
             import into Porpoise, with checksums and with foreign keys checked, and by mariadb-dump | mariadb into another MariaDB. \
             A request is a row. Columns are added up and compared afterwards."
        ),
        axis: Axis {
            title: "MB of the dump".to_owned(),
            is_logarithmic: true,
        },
        is_about_latency: false,
        cells: servers.ways.iter().map(cell).collect(),
        pairs: pairs.collect(),
        notes: Vec::new(),
        setup: None,
        measures: Vec::new(),
    }
}

fn describe_lag(size: u64, writes: u64) -> Experiment {
    Experiment {
        name: "import-lag".to_owned(),
        title: "Lag of a server that follows".to_owned(),
        about: format!(
            "After porpoise import --follow of {size} MB, clients write to the source, {writes} transactions of two rows a second. \
             A latency is the age of the newest transaction that can be read on Porpoise, read every {} ms.",
            POLL.as_millis()
        ),
        axis: Axis {
            title: "writes/s".to_owned(),
            is_logarithmic: true,
        },
        is_about_latency: true,
        cells: Vec::new(),
        pairs: Vec::new(),
        notes: Vec::new(),
        setup: None,
        measures: Vec::new(),
    }
}

fn rounds(bench: &mut Bench, servers: &Servers, rows: u64, cells: &mut [Cell]) -> Result<()> {
    let rounds = bench.options.effort.rounds;
    let cores = crate::sys::cores();
    bench
        .progress
        .expect(cells.len() * rounds, Duration::from_secs(5));
    let known = sums(&servers.source)?;
    let attempt = |way: &Way, target: &Target| {
        let run = measure_copy(way, &servers.source, target, rows, cores)?;
        let found = sums(target)?;
        if found == known {
            Ok(run)
        } else {
            Err(Error::wrong(format!("sums {found:?} instead of {known:?}")))
        }
    };
    for round in 0..rounds {
        let turn = Turn {
            groups: &[servers.ways.len()],
            round,
            rounds,
        };
        turn.run(
            cells,
            &mut bench.progress,
            &mut |cell| match servers.ways.get(cell) {
                Some((way, target)) => Measured::from(attempt(way, target)),
                None => Measured::default(),
            },
        )?;
    }
    Ok(())
}

/// A child process that is killed when this is dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Microseconds since 1970.
fn now_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(0))
}

/// Imports, follows, and measures the lag.
fn follow(
    program: &Path,
    source: &Target,
    target: &Target,
    writes: u64,
    time: Duration,
) -> Result<Run> {
    let mut admin = Admin::connect(target)?;
    admin.run(&format!("drop database if exists {DATABASE}"))?;
    let mut command = import_command(program, source, target, &["--quiet", "--follow"]);
    let mut child = Ended(command.stderr(Stdio::piped()).spawn()?);
    let begun = Instant::now();
    loop {
        let stage = admin.value("select stage from porpoise_import.source");
        if stage.is_ok_and(|stage| stage.as_deref() == Some("follow")) {
            break;
        }
        if child.0.try_wait()?.is_some() || begun.elapsed() > PATIENCE {
            return Err(Error::failed(
                "porpoise import --follow has ended before it followed",
            ));
        }
        std::thread::sleep(POLL);
    }
    let run = lag(source, target, writes, time);
    drop(child);
    for statement in [
        "stop replica",
        "reset replica all",
        "drop database porpoise_import",
    ] {
        admin.run(statement)?;
    }
    run
}

/// Writes at a rate, and reads the lag.
fn lag(source: &Target, target: &Target, writes: u64, time: Duration) -> Result<Run> {
    let (ends, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let before = Reading::now(target.pid);
    let begun = Instant::now();
    let latency = std::thread::scope(|scope| {
        let (ends, written) = (&ends, &written);
        let writer = |id| move || write(&in_database(source), id, writes, ends, written);
        let writers: Vec<_> = (0..WRITERS).map(|id| scope.spawn(writer(id))).collect();
        let read = read_lag(&in_database(target), time);
        ends.store(true, Ordering::Relaxed);
        for writer in writers {
            let ended = writer.join();
            ended.map_err(|_| Error::failed("a thread that writes has panicked"))??;
        }
        read
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    let after = Reading::now(target.pid);
    let outcome = Outcome {
        requests: written.into_inner(),
        seconds,
        latency,
        spent: before.within(&after, seconds),
        threads: before.threads_within(&after, seconds),
        ..Outcome::empty()
    };
    Ok(Run::of(&outcome, crate::sys::cores()))
}

/// One writer's part of the rate: transactions at fixed times.
fn write(
    source: &Target,
    id: u64,
    writes: u64,
    ends: &AtomicBool,
    written: &AtomicU64,
) -> Result<()> {
    let mut admin = Admin::connect(source)?;
    let gap = Duration::from_secs_f64(WRITERS as f64 / writes.max(1) as f64);
    let mut due = Instant::now();
    let mut row = id;
    while !ends.load(Ordering::Relaxed) {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        due += gap;
        row += WRITERS;
        let (table, at) = (TABLES.first().map_or("", |table| table.name), now_micros());
        admin.run("begin")?;
        admin.run(&format!(
            "update {table} set price = price + 1 where id = {}",
            row % 10_000 + 1
        ))?;
        admin.run(&format!(
            "update {BEATS} set at = {at}, n = n + 1 where id = {id}"
        ))?;
        admin.run("commit")?;
        written.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Measures the lag for a time, once the first write has arrived.
fn read_lag(target: &Target, time: Duration) -> Result<hdrhistogram::Histogram<u64>> {
    let mut admin = Admin::connect(target)?;
    let mut latency = histogram();
    let begun = Instant::now();
    let mut first = None;
    while first.is_none_or(|first: Instant| first.elapsed() < time) {
        std::thread::sleep(POLL);
        let newest = admin.value(&format!("select max(at) from {BEATS}"))?;
        let newest: u64 = newest.and_then(|text| text.parse().ok()).unwrap_or(0);
        if newest > 0 {
            first.get_or_insert_with(Instant::now);
            latency.saturating_record(now_micros().saturating_sub(newest) * 1000);
        } else if begun.elapsed() > PATIENCE {
            return Err(Error::failed("no write has arrived"));
        }
    }
    Ok(latency)
}
