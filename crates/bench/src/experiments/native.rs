//! `bench native`: operations in this process, without protocols and network:
//! what the rows and the engine beneath them can do.
//!
//! This crate knows no engine. The program that holds one hands over a
//! function that opens stores ([`Open`]); what is measured here is how often
//! their workers can be called, by how many threads.
//!
//! 1. Reads are verified as everywhere: a value tells its key and version.
//! 2. Each call is one transaction, and returns when what it did is as durable
//!    as was asked for.
//! 3. The processor time shown is that of the whole process in the measured
//!    time: the threads that call, and the log's beside them.

use super::Bench;
use crate::error::{Error, Kind};
use crate::load::{Outcome, histogram};
use crate::peers::Durability;
use crate::procfs::{Spent, machine_time, own_seconds};
use crate::report::{Axis, Cell, Experiment, Run};
use crate::{sys, value};
use hdrhistogram::Histogram;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

type Result<T, E = Error> = std::result::Result<T, E>;

/// Keys of one read of many.
const BATCH: usize = 50;

/// What stores are to be like.
pub struct Setup<'a> {
    /// Rows, with keys from 0.
    pub rows: u64,
    /// Durability of their commits.
    pub durability: Durability,
    /// Directory for their files.
    pub directory: &'a Path,
    /// The value that a row begins with.
    pub value: &'a (dyn Fn(u64) -> Vec<u8> + Sync),
}

/// Shows the value of the n-th key asked for, or that there is none.
pub type Visitor<'v> = dyn FnMut(usize, Option<&[u8]>) + 'v;

/// A store in this process, filled.
pub trait Store: Sync {
    /// Its name in reports.
    fn name(&self) -> &str;

    /// A thread's handle.
    ///
    /// # Errors
    /// In words.
    fn worker(&self) -> Result<Box<dyn Worker + '_>, String>;

    /// Rows are inserted into it, and that is all; others are read and updated.
    fn takes_inserts(&self) -> bool {
        false
    }
}

/// One thread's handle of a store; each call is a transaction.
pub trait Worker {
    /// Reads the values of keys in one batch.
    ///
    /// # Errors
    /// In words.
    fn read(&mut self, keys: &[u64], visit: &mut Visitor<'_>) -> Result<(), String>;

    /// Replaces the value of a key that is there.
    ///
    /// # Errors
    /// In words.
    fn update(&mut self, key: u64, value: &[u8]) -> Result<(), String>;

    /// Inserts a row with a key that is not there.
    ///
    /// # Errors
    /// In words.
    fn insert(&mut self, key: u64, value: &[u8]) -> Result<(), String> {
        let _ = (key, value);
        Err("this store takes no inserts".to_owned())
    }
}

/// Opens and fills the stores of a program that has some.
pub type Open = dyn Fn(&Setup<'_>) -> Result<Vec<Box<dyn Store>>, String>;

/// What the threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    ReadMany,
    ReadOne,
    ReadHot,
    Update,
    Insert,
}

impl Work {
    const ALL: [Work; 5] = [
        Work::ReadMany,
        Work::ReadOne,
        Work::ReadHot,
        Work::Update,
        Work::Insert,
    ];

    fn name(self) -> &'static str {
        match self {
            Work::ReadMany => "reads of 50 rows",
            Work::ReadOne => "reads of a row",
            Work::ReadHot => "reads of the same row",
            Work::Update => "updates of a row",
            Work::Insert => "inserts of a row",
        }
    }

    fn suits(self, store: &dyn Store) -> bool {
        (self == Work::Insert) == store.takes_inserts()
    }

    fn keys(self) -> usize {
        match self {
            Work::ReadMany => BATCH,
            _ => 1,
        }
    }
}

/// What one thread counted.
struct Tally {
    calls: u64,
    latency: Histogram<u64>,
    failure: Option<Error>,
}

/// One run's fixed facts, and what its threads share.
struct Plan<'a> {
    work: Work,
    rows: u64,
    seed: u64,
    versions: &'a AtomicU64,
    begin: Barrier,
    is_measuring: AtomicBool,
    is_over: AtomicBool,
}

/// Calls a worker until the run is over.
fn drive(worker: &mut dyn Worker, plan: &Plan<'_>, thread: usize) -> Tally {
    let mut random = fastrand::Rng::with_seed(value::mix(plan.seed ^ value::mix(thread as u64)));
    let mut keys = vec![0; plan.work.keys()];
    let mut text = Vec::new();
    let mut tally = Tally {
        calls: 0,
        latency: histogram(),
        failure: None,
    };
    while !plan.is_over.load(Ordering::Relaxed) {
        for key in &mut keys {
            *key = match plan.work {
                Work::ReadHot => 0,
                _ => random.u64(0..plan.rows),
            };
        }
        let is_counted = plan.is_measuring.load(Ordering::Relaxed);
        let begun = Instant::now();
        let done = match plan.work {
            Work::Update => {
                let key = keys.first().copied().unwrap_or(0);
                let version = plan.versions.fetch_add(1, Ordering::Relaxed);
                value::write(&mut text, key, version, value::USUAL);
                worker.update(key, &text).map_err(Error::failed)
            }
            Work::Insert => {
                let key = plan.versions.fetch_add(1, Ordering::Relaxed);
                value::write(&mut text, key, 0, value::USUAL);
                worker.insert(key, &text).map_err(Error::failed)
            }
            _ => read(worker, &keys),
        };
        if let Err(error) = done {
            tally.failure = Some(error);
            plan.is_over.store(true, Ordering::Relaxed);
            break;
        }
        if is_counted {
            tally.calls += 1;
            let nanos = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            tally.latency.saturating_record(nanos);
        }
    }
    tally
}

/// Reads keys and judges every value.
fn read(worker: &mut dyn Worker, keys: &[u64]) -> Result<()> {
    let mut right = 0;
    worker
        .read(keys, &mut |n, found| {
            let key = keys.get(n).copied();
            let is_right = key
                .zip(found)
                .is_some_and(|(key, v)| value::read(v, key, value::USUAL).is_some());
            right += usize::from(is_right);
        })
        .map_err(Error::failed)?;
    if right == keys.len() {
        return Ok(());
    }
    Err(Error::wrong(format!(
        "{} of {} values were wrong or missing, near key {}",
        keys.len() - right,
        keys.len(),
        keys.first().copied().unwrap_or(0)
    )))
}

/// One run by so many threads.
fn one(store: &dyn Store, plan: &Plan<'_>, threads: usize, times: (Duration, Duration)) -> Outcome {
    let mut outcome = Outcome {
        requests: 0,
        refused: 0,
        seconds: 0.0,
        latency: histogram(),
        per_second: Vec::new(),
        spent: Spent::default(),
        failure: None,
    };
    std::thread::scope(|scope| {
        let work = |thread: usize| {
            let worker = store.worker();
            plan.begin.wait();
            match worker {
                Ok(mut worker) => Ok(drive(worker.as_mut(), plan, thread)),
                Err(reason) => {
                    plan.is_over.store(true, Ordering::Relaxed);
                    Err(Error::failed(reason))
                }
            }
        };
        let handles: Vec<_> = (0..threads).map(|n| scope.spawn(move || work(n))).collect();
        plan.begin.wait();
        sleep_until_over(plan, times.0);
        let (machine, own) = (machine_time(), own_seconds());
        let begun = Instant::now();
        plan.is_measuring.store(true, Ordering::Relaxed);
        sleep_until_over(plan, times.1);
        outcome.seconds = begun.elapsed().as_secs_f64();
        let between = |a: Option<f64>, b: Option<f64>| Some((b? - a?).max(0.0));
        let processor = between(own, own_seconds());
        let busy = between(machine, machine_time());
        outcome.spent = Spent {
            server: processor,
            generator: Some(0.0),
            outside: busy.zip(processor).map(|(busy, own)| (busy - own).max(0.0)),
        };
        plan.is_over.store(true, Ordering::Relaxed);
        for handle in handles {
            match handle.join() {
                Ok(Ok(tally)) => {
                    outcome.requests += tally.calls;
                    // Both have the same bounds, so that nothing is refused.
                    let _ = outcome.latency.add(&tally.latency);
                    if let Some(failure) = tally.failure {
                        outcome.failure.get_or_insert(failure);
                    }
                }
                Ok(Err(failure)) => {
                    outcome.failure.get_or_insert(failure);
                }
                Err(_) => outcome.failure = Some(Error::failed("a thread ended")),
            }
        }
    });
    outcome
}

fn sleep_until_over(plan: &Plan<'_>, time: Duration) {
    const STEP: Duration = Duration::from_millis(5);
    let end = Instant::now() + time;
    while !plan.is_over.load(Ordering::Relaxed) && !sys::is_interrupted() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(STEP));
    }
}

/// `bench native`.
///
/// # Errors
/// A wrong answer, or the stores could not be opened.
pub fn native(
    bench: &mut Bench,
    open: &Open,
    directory: &Path,
    durability: Durability,
) -> Result<()> {
    bench.progress.begin("native: in this process");
    let rows = bench.rows(if bench.choice.is_quick {
        160_000
    } else {
        1_000_000
    });
    bench
        .progress
        .say(&format!("   filling stores ({rows} rows)"));
    let stores = open(&Setup {
        rows,
        durability,
        directory,
        value: &|key| {
            let mut text = Vec::new();
            value::write(&mut text, key, 0, value::USUAL);
            text
        },
    })
    .map_err(|reason| Error::failed(reason).during("native"))?;
    let threads = bench.clients(&[1, 2]);
    let mut experiment = describe(rows, durability, &stores, &threads);
    let done = rounds(bench, &stores, &threads, rows, &mut experiment.cells);
    drop(stores);
    bench.keep(experiment);
    done
}

fn describe(
    rows: u64,
    durability: Durability,
    stores: &[Box<dyn Store>],
    threads: &[usize],
) -> Experiment {
    let mut cells = Vec::new();
    for work in Work::ALL {
        for count in threads {
            for store in stores.iter().filter(|s| work.suits(s.as_ref())) {
                cells.push(Cell {
                    operation: work.name().to_owned(),
                    size: *count as u64,
                    system: store.name().to_owned(),
                    client: format!("{count} threads in this process"),
                    units: work.keys() as u64,
                    runs: Vec::new(),
                });
            }
        }
    }
    let named = |inserts: bool| {
        let alike = stores.iter().filter(move |s| s.takes_inserts() == inserts);
        alike.map(|s| s.name().to_owned()).collect::<Vec<_>>()
    };
    let (others, inserted) = (named(false), named(true));
    let pairs = others
        .windows(2)
        .filter_map(|pair| Some((pair.first()?.clone(), pair.get(1)?.clone())));
    let plain = inserted.first();
    let beside_plain = inserted.iter().skip(1);
    let pairs = pairs.chain(beside_plain.filter_map(|s| Some((s.clone(), plain?.clone()))));
    Experiment {
        name: "native".to_owned(),
        title: "In process, without network".to_owned(),
        about: format!(
            "{rows} rows with an integer key and a value of {} bytes; each call is a transaction, \
             durability {}. Every value read is verified. The processor time is that of \
             this process, log threads too.",
            value::USUAL,
            durability.word()
        ),
        axis: Axis {
            title: "threads".to_owned(),
            is_logarithmic: true,
        },
        is_about_latency: false,
        cells,
        pairs: pairs.collect(),
        notes: Vec::new(),
    }
}

/// All runs, interleaved; cells are in the order of [`describe`].
fn rounds(
    bench: &mut Bench,
    stores: &[Box<dyn Store>],
    threads: &[usize],
    rows: u64,
    cells: &mut [Cell],
) -> Result<()> {
    let effort = bench.choice.effort;
    let versions = AtomicU64::new(1);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    bench
        .progress
        .expect(cells.len() * effort.rounds, effort.warm_up + effort.time);
    for round in 0..effort.rounds {
        let mut place = 0;
        for work in Work::ALL {
            for count in threads {
                for store in stores.iter().filter(|s| work.suits(s.as_ref())) {
                    if sys::is_interrupted() {
                        return Err(Error::failed("interrupted"));
                    }
                    let plan = Plan {
                        work,
                        rows: rows.max(1),
                        seed: bench.choice.seed,
                        versions: &versions,
                        begin: Barrier::new(count + 1),
                        is_measuring: AtomicBool::new(false),
                        is_over: AtomicBool::new(false),
                    };
                    let times = (effort.warm_up, effort.time);
                    let outcome = one(store.as_ref(), &plan, *count, times);
                    let run = Run::of(&outcome, cores);
                    let what = (work.name(), *count as u64, store.name());
                    bench.progress.one(what, round, effort.rounds, &run);
                    if let Some(cell) = cells.get_mut(place) {
                        cell.runs.push(run);
                    }
                    place += 1;
                    if let Some(wrong) = outcome.failure.filter(|e| e.kind == Kind::Wrong) {
                        return Err(wrong.during(store.name()));
                    }
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "native_tests.rs"]
mod tests;
