//! `bench sysbench`: the OLTP scripts of the program `sysbench`, unchanged, at
//! several numbers of connections, against everything that speaks MySQL's
//! protocol.
//!
//! `sysbench` generates the load. This module creates its tables, interleaves its runs
//! between the systems, reads its closing report, and measures the server's processor
//! time. A script that changes the size of its tables (by deletions
//! or insertions) gets new tables before each run, outside of the
//! measured time.
//!
//! 1. A transaction is what the script calls one: oltp_read_write's has 20
//!    statements, oltp_point_select's is one SELECT, bulk_insert's one row.
//! 2. `innodb_snapshot_isolation` decides whether a transaction waits for a row
//!    that has changed or is restarted, and its default is ON in Porpoise and
//!    OFF in MariaDB 10.11: beside the defaults, oltp_read_write is run with
//!    either on all.
//! 3. An error that stops `sysbench` (a wrong reply, an error that
//!    it does not retry) fails the run; such a run is never left out of a mean.

use super::Bench;
use crate::connect::Admin;
use crate::error::{Error, Result};
use crate::matrix::{Effort, Measured, Turn};
use crate::procfs::{self, Reading, Spent};
use crate::report::{Cell, Experiment, Latency, Run, ThreadMicros};
use crate::url::{System, Target};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Rows of the table unless chosen otherwise.
const ROWS: u64 = 100_000;

/// The database of its tables.
const DATABASE: &str = "sbtest";

/// A script, and its preparation before each run.
struct Script {
    name: &'static str,
    /// The tables are created again.
    uses_up: bool,
    /// `innodb_snapshot_isolation` is set to this instead of the system's
    /// default.
    isolation: Option<&'static str>,
}

/// The scripts, those that only read first.
const SCRIPTS: &[Script] = &[
    script("oltp_point_select", false),
    script("oltp_read_only", false),
    script("select_random_points", false),
    script("select_random_ranges", false),
    script("oltp_update_index", false),
    script("oltp_update_non_index", false),
    script("oltp_read_write", false),
    isolated("oltp_read_write", "OFF"),
    isolated("oltp_read_write", "ON"),
    script("oltp_insert", true),
    script("oltp_delete", true),
    script("bulk_insert", true),
];

const fn script(name: &'static str, uses_up: bool) -> Script {
    Script {
        name,
        uses_up,
        isolation: None,
    }
}

const fn isolated(name: &'static str, isolation: &'static str) -> Script {
    Script {
        name,
        uses_up: false,
        isolation: Some(isolation),
    }
}

impl Script {
    /// Name of its runs in reports.
    fn title(&self) -> String {
        match self.isolation {
            None => self.name.to_owned(),
            Some(set) => format!("{}, snapshot isolation {set}", self.name),
        }
    }
}

/// Arguments of one invocation.
pub(super) struct Given<'a> {
    pub(super) target: &'a Target,
    pub(super) threads: usize,
    pub(super) rows: u64,
    pub(super) seed: u64,
}

/// Seconds of a run.
#[derive(Clone, Copy)]
pub(super) struct Times {
    warm_up: u64,
    measured: u64,
}

impl Times {
    /// Duration of a run with its warm-up.
    pub(super) fn whole(self) -> Duration {
        Duration::from_secs(self.warm_up + self.measured)
    }
}

/// The times of a run, in whole seconds as `sysbench` requires.
pub(super) fn times(effort: Effort) -> Times {
    Times {
        warm_up: match effort.warm_up {
            Duration::ZERO => 0,
            time => seconds(time),
        },
        measured: seconds(effort.time),
    }
}

/// Number of this machine's cores.
pub(super) fn cores() -> usize {
    crate::sys::cores()
}

/// Whole seconds, at least one, as `sysbench` requires.
fn seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0).max(u64::from(time.is_zero()))
}

/// Runs one step of a script. Returns its output.
fn invoke(script: &str, step: &str, given: &Given<'_>, time: u64) -> Result<String> {
    let target = given.target;
    let mut command = Command::new("sysbench");
    command
        .arg(script)
        .arg(format!("--mysql-host={}", target.host))
        .arg(format!("--mysql-port={}", target.port))
        .arg(format!("--mysql-user={}", target.user))
        .arg(format!("--mysql-db={DATABASE}"))
        .arg(format!("--threads={}", given.threads))
        .arg(format!("--time={time}"))
        .arg(format!("--rand-seed={}", given.seed.max(1)))
        .arg("--histogram=on")
        .stdin(Stdio::null());
    if !target.password.is_empty() {
        command.arg(format!("--mysql-password={}", target.password));
    }
    // bulk_insert has no table size; it has a table for each thread.
    if script != "bulk_insert" {
        command
            .arg("--tables=1")
            .arg(format!("--table-size={}", given.rows));
    }
    let done = command
        .arg(step)
        .output()
        .map_err(|error| Error::failed(format!("sysbench: {error}")))?;
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    if done.status.success() {
        return Ok(text);
    }
    let output = String::from_utf8_lossy(&done.stderr);
    let mut lines = text.lines().chain(output.lines());
    let reason = lines.find(|l| l.contains("FATAL") || l.contains("error"));
    let reason = reason.unwrap_or("it ended with an error").trim();
    // Statements are repeated in full, and bulk_insert's are long.
    let reason: String = reason.chars().take(200).collect();
    Err(Error::failed(format!("sysbench {script} {step}: {reason}")))
}

/// Figures of the closing report.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Figures {
    transactions: u64,
    seconds: f64,
    refused: u64,
    latency: Latency,
}

/// The first number after a title like `total time:`.
fn number(text: &str, title: &str) -> Option<f64> {
    let line = text
        .lines()
        .map(str::trim)
        .find_map(|l| l.strip_prefix(title))?;
    let word = line.split_whitespace().next()?;
    word.trim_end_matches('s').parse().ok()
}

/// Reads the closing report.
fn figures(text: &str) -> Result<Figures> {
    let bad = || Error::failed("sysbench's report was not understood");
    let of = |title: &str| number(text, title).ok_or_else(bad);
    // Latencies are reported in milliseconds.
    let shares = histogram(text);
    let at = |share: f64| percentile(&shares, share) * 1e3;
    Ok(Figures {
        transactions: of("total number of events:")? as u64,
        seconds: of("total time:")?,
        refused: number(text, "ignored errors:").unwrap_or(0.0) as u64,
        latency: Latency {
            mean: of("avg:")? * 1e3,
            p50: at(0.50),
            p95: at(0.95),
            p99: at(0.99),
            p999: rare(&shares, 0.999),
            p9999: rare(&shares, 0.9999),
            max: of("max:")? * 1e3,
        },
    })
}

/// Milliseconds and counts of the histogram, ascending.
fn histogram(text: &str) -> Vec<(f64, u64)> {
    let row = |line: &str| {
        let (value, rest) = line.split_once('|')?;
        let count = rest.split_whitespace().last()?;
        Some((value.trim().parse().ok()?, count.parse().ok()?))
    };
    text.lines().filter_map(row).collect()
}

/// A high percentile in microseconds, where there are enough values for one.
fn rare(shares: &[(f64, u64)], share: f64) -> Option<f64> {
    let all: u64 = shares.iter().map(|(_, count)| count).sum();
    crate::stats::has_percentile(all, share).then(|| percentile(shares, share) * 1e3)
}

/// The value at a percentile of a histogram.
fn percentile(shares: &[(f64, u64)], share: f64) -> f64 {
    let all: u64 = shares.iter().map(|(_, count)| count).sum();
    let wanted = (all as f64 * share).ceil() as u64;
    let mut seen = 0;
    let reached = shares.iter().find(|(_, count)| {
        seen += count;
        seen >= wanted
    });
    reached.map_or(0.0, |(value, _)| *value)
}

/// One measured run.
fn measure(script: &Script, given: &Given<'_>, times: Times, cores: usize) -> Result<Run> {
    if script.uses_up {
        remake(script.name, given)?;
    }
    if let Some(set) = script.isolation {
        isolate(given.target, set)?;
    }
    // A warm-up would delete or insert rows that the run needs.
    let warm_up = if script.uses_up { 0 } else { times.warm_up };
    let times = Times { warm_up, ..times };
    let run = run_of_script(script.name, given, times, cores);
    if script.isolation.is_some() {
        isolate(given.target, "DEFAULT")?;
    }
    run
}

/// Sets `innodb_snapshot_isolation` for all connections that follow.
fn isolate(target: &Target, set: &str) -> Result<()> {
    let mut admin = Admin::connect(target)?;
    let statement = format!("set global innodb_snapshot_isolation = {set}");
    admin.run(&statement).map(|_| ())
}

/// Warms up and measures.
pub(super) fn run_of_script(
    script: &str,
    given: &Given<'_>,
    times: Times,
    cores: usize,
) -> Result<Run> {
    if times.warm_up > 0 {
        invoke(script, "run", given, times.warm_up)?;
    }
    let reading = || (Reading::now(given.target.pid), procfs::ended_children());
    let before = reading();
    let text = invoke(script, "run", given, times.measured)?;
    let after = reading();
    let mut spent = before.0.until(&after.0);
    // The generator is a child of this process.
    let child = before.1.zip(after.1).map(|(then, now)| now - then);
    let other = |seconds: Option<f64>| seconds.zip(child).map(|(s, child)| (s - child).max(0.0));
    (spent.generator, spent.outside) = (child, other(spent.outside));
    let figures = figures(&text)?;
    let threads = before.0.threads_within(&after.0, f64::INFINITY);
    Ok(Run {
        threads: ThreadMicros::each(&threads, figures.transactions),
        ..run_of(&figures, &spent, cores)
    })
}

fn run_of(figures: &Figures, spent: &Spent, cores: usize) -> Run {
    let each = |seconds: Option<f64>| {
        let seconds = seconds?;
        (figures.transactions > 0).then(|| seconds * 1e6 / figures.transactions as f64)
    };
    let capacity = (figures.seconds * cores as f64).max(1e-9);
    Run {
        requests: figures.transactions,
        refused: figures.refused,
        seconds: figures.seconds,
        throughput: figures.transactions as f64 / figures.seconds.max(1e-9),
        latency: figures.latency,
        server_micros: each(spent.server),
        generator_micros: each(spent.generator),
        outside: spent.outside.map(|o| o / capacity),
        ..Run::default()
    }
}

/// Creates a script's tables, replacing existing ones.
pub(super) fn remake(script: &str, given: &Given<'_>) -> Result<()> {
    let mut admin = Admin::connect(given.target)?;
    admin.run(&format!("drop database if exists {DATABASE}"))?;
    admin.run(&format!("create database {DATABASE}"))?;
    drop(admin);
    let threads = match script {
        "bulk_insert" => given.threads,
        _ => 1,
    };
    invoke(script, "prepare", &Given { threads, ..*given }, 1).map(|_| ())
}

/// The scripts' cells, for each number of connections and each target.
fn cells(scripts: &[&Script], clients: &[usize], targets: &[Target]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for script in scripts {
        for threads in clients {
            for target in targets {
                cells.push(Cell {
                    operation: script.title(),
                    size: *threads as u64,
                    system: target.name.clone(),
                    client: format!("sysbench, {threads} connections"),
                    units: 1,
                    runs: Vec::new(),
                });
            }
        }
    }
    cells
}

/// An experiment without cells, whose runs are `sysbench`'s at several numbers of connections.
///
/// # Errors
/// `sysbench` is not installed.
pub(super) fn experiment(name: &str, title: &str) -> Result<Experiment> {
    let version = Command::new("sysbench").arg("--version").output();
    let version = version.map_err(|_| Error::failed("sysbench is not installed"))?;
    let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
    Ok(Experiment::new(
        name,
        title,
        format!(
            "{version}, its scripts unchanged. A transaction is what the script calls one. The \
             server's time is for a transaction."
        ),
        "connections",
    ))
}

/// `bench sysbench`.
///
/// # Errors
/// `sysbench` is not installed, or no system speaks MySQL's protocol.
pub fn sysbench(bench: &mut Bench) -> Result<()> {
    bench.progress.begin("sysbench: its OLTP scripts");
    let spoken = |t: &&Target| matches!(t.system, System::Mysql | System::Porpoise);
    let targets: Vec<Target> = bench.targets.iter().filter(spoken).cloned().collect();
    if targets.is_empty() {
        return Err(Error::failed("sysbench: no target speaks MySQL's protocol"));
    }
    let rows = bench.rows(ROWS);
    let clients = bench.clients(&[1, 8, 64]);
    let ours = targets.iter().filter(|t| t.system == System::Porpoise);
    let theirs = |o: &Target| {
        let others = targets.iter().filter(|t| t.system == System::Mysql);
        let pairs = others.map(|t| (o.name.clone(), t.name.clone()));
        pairs.collect::<Vec<_>>()
    };
    let pairs = ours.flat_map(theirs).collect();
    let mut experiment = experiment("sysbench", "sysbench's OLTP scripts")?;
    experiment.about = format!(
        "{} One table of {rows} rows. A run warms up in one of its own before, unless it uses up \
         its rows.",
        experiment.about
    );
    let chosen = &bench.options.scripts;
    let is_chosen = |s: &&Script| chosen.is_empty() || chosen.contains(&s.title());
    let scripts: Vec<&Script> = SCRIPTS.iter().filter(is_chosen).collect();
    experiment.cells = cells(&scripts, &clients, &targets);
    experiment.pairs = pairs;
    let done = rounds(
        bench,
        &targets,
        &scripts,
        &clients,
        rows,
        &mut experiment.cells,
    );
    bench.keep(experiment);
    done
}

/// All runs, interleaved; cells are in the order of [`cells`].
fn rounds(
    bench: &mut Bench,
    targets: &[Target],
    scripts: &[&Script],
    clients: &[usize],
    rows: u64,
    cells: &mut [Cell],
) -> Result<()> {
    let effort = bench.options.effort;
    let times = times(effort);
    let cores = cores();
    bench
        .progress
        .expect(cells.len() * effort.rounds, times.whole());
    let most = clients.iter().copied().max().unwrap_or(1);
    let seed = bench.options.seed;
    let given = |target, threads| Given {
        target,
        threads,
        rows,
        seed,
    };
    let mut combinations = Vec::new();
    for script in scripts.iter().copied() {
        for threads in clients {
            combinations.extend(
                targets
                    .iter()
                    .map(|target| (script, given(target, *threads))),
            );
        }
    }
    let groups = vec![targets.len(); scripts.len() * clients.len()];
    for round in 0..effort.rounds {
        for target in targets {
            remake("oltp_read_write", &given(target, most)).map_err(|e| e.during(&target.name))?;
        }
        let turn = Turn {
            groups: &groups,
            round,
            rounds: effort.rounds,
        };
        turn.run(
            cells,
            &mut bench.progress,
            &mut |cell| match combinations.get(cell) {
                Some((script, given)) => measure(script, given, times, cores).into(),
                None => Measured::default(),
            },
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
       0.050 |****************************************  80
       0.060 |*****                                     15
       1.500 |                                          5

SQL statistics:
    transactions:                        100    (33.31 per sec.)
    ignored errors:                      2      (0.67 per sec.)

General statistics:
    total time:                          3.0021s
    total number of events:              100

Latency (ms):
         min:                                    0.04
         avg:                                    0.12
         max:                                    1.62
         95th percentile:                        0.06
";

    #[test]
    fn the_closing_report_is_read() {
        let found = figures(REPORT).unwrap();
        assert_eq!((found.transactions, found.refused), (100, 2));
        assert!((found.seconds - 3.0021).abs() < 1e-9);
        let latency = found.latency;
        assert!((latency.p50 - 50.0).abs() < 1e-9, "{latency:?}");
        assert!((latency.p95 - 60.0).abs() < 1e-9, "{latency:?}");
        assert!((latency.p99 - 1500.0).abs() < 1e-9, "{latency:?}");
        assert!((latency.mean - 120.0).abs() < 1e-9, "{latency:?}");
        assert!(figures("FATAL: nothing").is_err());
        let spent = Spent {
            server: Some(0.5),
            generator: Some(0.1),
            outside: Some(0.6),
        };
        let run = run_of(&found, &spent, 2);
        assert_eq!(run.server_micros, Some(5000.0));
        assert!((run.outside.unwrap() - 0.6 / 6.0042).abs() < 1e-9);
    }

    #[test]
    fn times_are_whole_seconds() {
        let of = |millis| seconds(Duration::from_millis(millis));
        assert_eq!((of(0), of(700), of(1000), of(2500)), (1, 1, 1, 3));
    }
}
