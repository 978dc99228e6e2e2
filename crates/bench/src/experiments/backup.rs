//! `bench backup`: throughput of transactions with and without a running backup.
//!
//! `sysbench` runs oltp_read_write with and without a backup beside it, alternately on the same server. While a run with a
//! backup is measured, `BACKUP DATABASE` is executed without a pause, each time to a new place, so that each backup is
//! complete: more than any schedule requires. Its rate is the server's default. A run during which no backup was completed
//! fails.

use super::Bench;
use super::sysbench::{Given, Times, cores, experiment, remake, run_of_script, times};
use crate::connect::Admin;
use crate::error::{Error, Result};
use crate::matrix::{Measured, run_rounds};
use crate::report::{Cell, Run};
use crate::url::{System, Target};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Rows of the table unless chosen otherwise.
const ROWS: u64 = 100_000;

/// The script.
const SCRIPT: &str = "oltp_read_write";

/// Number of backups that this process has started; it names the place of each.
static STARTED: AtomicU64 = AtomicU64::new(0);

/// Makes backups until `ends` is set. Returns their number.
fn back_up(target: &Target, ends: &AtomicBool) -> Result<u64> {
    let mut admin = Admin::connect(target)?;
    let mut made = 0;
    while !ends.load(Ordering::Relaxed) {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        admin.run(&format!("BACKUP DATABASE TO 'bench-{number}'"))?;
        made += 1;
    }
    Ok(made)
}

/// Measures one run while backups are made.
fn run_during_backups(given: &Given<'_>, times: Times, cores: usize) -> Result<Run> {
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let backups = scope.spawn(|| back_up(given.target, &ends));
        let run = run_of_script(SCRIPT, given, times, cores);
        ends.store(true, Ordering::Relaxed);
        let made = backups
            .join()
            .map_err(|_| Error::failed("the thread that makes backups has panicked"))??;
        if made == 0 {
            return Err(Error::failed("no backup was made during the run"));
        }
        run
    })
}

/// Name of a target in the runs with a backup.
fn with_backup(target: &Target) -> String {
    format!("{}, during a backup", target.name)
}

/// `bench backup`.
///
/// # Errors
/// `sysbench` is not installed, or no target is a Porpoise server with `--backup-to`.
pub fn backup(bench: &mut Bench) -> Result<()> {
    bench.progress.begin("backup: transactions beside it");
    let is_ours = |t: &&Target| t.system == System::Porpoise;
    let targets: Vec<Target> = bench.targets.iter().filter(is_ours).cloned().collect();
    if targets.is_empty() {
        return Err(Error::failed("backup: no target is a Porpoise server"));
    }
    let rows = bench.rows(ROWS);
    let clients = bench.clients(&[8, 64]);
    let mut cells = Vec::new();
    let mut works = Vec::new();
    for threads in &clients {
        for target in &targets {
            for (system, has_backup) in [(with_backup(target), true), (target.name.clone(), false)]
            {
                cells.push(Cell {
                    operation: SCRIPT.to_owned(),
                    size: *threads as u64,
                    system,
                    client: format!("sysbench, {threads} connections"),
                    units: 1,
                    runs: Vec::new(),
                });
                works.push((target, *threads, has_backup));
            }
        }
    }
    let mut experiment = experiment("backup", "Transactions beside a backup")?;
    experiment.about = format!(
        "{} One table of {rows} rows. Complete backups follow each other without a pause, at the \
         server's default rate.",
        experiment.about
    );
    experiment.pairs = targets
        .iter()
        .map(|t| (with_backup(t), t.name.clone()))
        .collect();
    let done = rounds(bench, &works, rows, &mut cells);
    experiment.cells = cells;
    bench.keep(experiment);
    done
}

/// All runs, interleaved; `cells` are in the order of `works`: target, connections, and whether a backup runs.
fn rounds(
    bench: &mut Bench,
    works: &[(&Target, usize, bool)],
    rows: u64,
    cells: &mut [Cell],
) -> Result<()> {
    let effort = bench.options.effort;
    let times = times(effort);
    let cores = cores();
    let seed = bench.options.seed;
    bench
        .progress
        .expect(works.len() * effort.rounds, times.whole());
    for (target, threads, _) in works {
        let given = Given {
            target,
            threads: *threads,
            rows,
            seed,
        };
        remake(SCRIPT, &given).map_err(|e| e.during(&target.name))?;
    }
    let groups = vec![2; works.len() / 2];
    let mut measure = |_: usize, cell: usize| {
        let Some(&(target, threads, has_backup)) = works.get(cell) else {
            return Measured::default();
        };
        let given = Given {
            target,
            threads,
            rows,
            seed,
        };
        if has_backup {
            run_during_backups(&given, times, cores).into()
        } else {
            run_of_script(SCRIPT, &given, times, cores).into()
        }
    };
    run_rounds(
        &groups,
        effort.rounds,
        cells,
        &mut bench.progress,
        &mut measure,
    )
}
