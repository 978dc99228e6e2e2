//! One run: threads call a store's workers for a time, or each a number of
//! times.
//!
//! 1. Reads are verified: a value contains its key and version. A row that all threads
//!    change counts its changes, so that a lost one is detected.
//! 2. One call in [`SAMPLE`] is timed: reading the clock for every read of a row
//!    would be a tenth of the figure.
//! 3. Instructions are those of the calling threads, including this module's part
//!    (a random key, a value made or verified).

use super::work::{SCANNED, Work};
use super::{Store, Worker};
use crate::error::{Error, Result};
use crate::load::{Outcome, histogram};
use crate::procfs::{Spent, machine_time, own_seconds};
use crate::sys::{self, Instructions};
use crate::value;
use hdrhistogram::Histogram;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// One call of this many is timed.
const SAMPLE: u64 = 16;

/// The row that all threads change.
const HOT: u64 = 0;

/// Counters of one thread.
struct Tally {
    calls: u64,
    /// Number of calls, including those before the measured time.
    changes: u64,
    seconds: f64,
    instructions: Option<u64>,
    latency: Histogram<u64>,
    failure: Option<Error>,
}

/// Parameters of one run, and state that its threads share.
pub(super) struct Plan<'a> {
    pub(super) work: Work,
    pub(super) rows: u64,
    pub(super) seed: u64,
    pub(super) threads: usize,
    /// Warm-up and measured time; unused if `calls` is set.
    pub(super) times: (Duration, Duration),
    pub(super) calls: Option<u64>,
    /// Versions of values, and numbers of inserted rows.
    pub(super) versions: &'a AtomicU64,
}

/// A run in progress.
struct Course {
    begin: Barrier,
    is_measuring: AtomicBool,
    is_over: AtomicBool,
}

/// Result of a run, and the instructions per call if they can be counted.
pub(super) struct Driven {
    pub(super) outcome: Outcome,
    pub(super) instructions: Option<f64>,
}

/// State of one thread.
struct Hands<'p> {
    plan: &'p Plan<'p>,
    random: fastrand::Rng,
    keys: Vec<u64>,
    text: Vec<u8>,
}

impl Hands<'_> {
    /// One call, in a function of its own, so that a profiler can select it.
    #[inline(never)]
    fn call(&mut self, worker: &mut dyn Worker) -> Result<()> {
        let rows = self.plan.rows;
        for key in &mut self.keys {
            *key = self.random.u64(0..rows);
        }
        let first = self.keys.first().copied().unwrap_or(0);
        match self.plan.work {
            Work::ReadMany | Work::ReadOne => read(worker, &self.keys),
            Work::ReadHot => read(worker, &[HOT]),
            Work::Scan => scan(worker, first.min(rows.saturating_sub(SCANNED as u64)), rows),
            Work::Update => {
                let version = self.plan.versions.fetch_add(1, Ordering::Relaxed);
                value::write(&mut self.text, first, version, value::USUAL);
                worker.update(first, &self.text).map_err(Error::failed)
            }
            Work::Modify => modify(worker),
            Work::Insert => {
                let key = self.plan.versions.fetch_add(1, Ordering::Relaxed);
                value::write(&mut self.text, key, 0, value::USUAL);
                worker.insert(key, &self.text).map_err(Error::failed)
            }
        }
    }
}

/// Calls a worker until the run is over.
fn drive(worker: &mut dyn Worker, plan: &Plan<'_>, course: &Course, thread: usize) -> Tally {
    let seed = value::mix(plan.seed ^ value::mix(thread as u64));
    let keys = if plan.work == Work::ReadMany {
        plan.work.rows()
    } else {
        1
    };
    let mut hands = Hands {
        plan,
        random: fastrand::Rng::with_seed(seed),
        keys: vec![0; keys],
        text: Vec::new(),
    };
    let mut tally = Tally {
        calls: 0,
        changes: 0,
        seconds: 0.0,
        instructions: None,
        latency: histogram(),
        failure: None,
    };
    let counter = Instructions::of_this_thread();
    let (mut begun, mut counted) = (Instant::now(), None);
    while !course.is_over.load(Ordering::Relaxed) && plan.calls != Some(tally.calls) {
        if course.is_measuring.load(Ordering::Relaxed) {
            if tally.calls == 0 {
                begun = Instant::now();
                counted = counter.as_ref().and_then(Instructions::read);
            }
            tally.calls += 1;
        }
        let is_timed = tally.calls % SAMPLE == 1;
        let called = is_timed.then(Instant::now);
        if let Err(error) = hands.call(worker) {
            tally.failure = Some(error);
            course.is_over.store(true, Ordering::Relaxed);
            break;
        }
        tally.changes += 1;
        if let Some(called) = called {
            let nanos = u64::try_from(called.elapsed().as_nanos()).unwrap_or(u64::MAX);
            tally.latency.saturating_record(nanos);
        }
    }
    tally.seconds = begun.elapsed().as_secs_f64();
    let now = counter.as_ref().and_then(Instructions::read);
    tally.instructions = now.zip(counted).map(|(now, then)| now - then);
    tally
}

/// Reads keys and verifies every value.
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

/// Scans from a key and verifies every row: each existing key, in order.
fn scan(worker: &mut dyn Worker, from: u64, rows: u64) -> Result<()> {
    let mut next = from;
    worker
        .scan(from, SCANNED, &mut |key, found| {
            let is_right = key == next && value::read(found, key, value::USUAL).is_some();
            next += u64::from(is_right);
        })
        .map_err(Error::failed)?;
    if next - from == rows.min(SCANNED as u64) {
        return Ok(());
    }
    Err(Error::wrong(format!(
        "a scan from key {from} went wrong at key {next}"
    )))
}

/// Increments the hot row's version.
fn modify(worker: &mut dyn Worker) -> Result<()> {
    let mut is_right = false;
    worker
        .modify(HOT, &mut |bytes| {
            let found = value::read(bytes, HOT, value::USUAL);
            is_right = found.is_some();
            value::write(bytes, HOT, found.unwrap_or(0) + 1, value::USUAL);
        })
        .map_err(Error::failed)?;
    if is_right {
        return Ok(());
    }
    Err(Error::wrong("the row that all change was not whole"))
}

/// The version of the hot row.
fn hot_version(worker: &mut dyn Worker) -> Result<u64> {
    let mut version = None;
    let result = worker.read(&[HOT], &mut |_, found| {
        version = found.and_then(|bytes| value::read(bytes, HOT, value::USUAL));
    });
    result.map_err(Error::failed)?;
    version.ok_or_else(|| Error::wrong("the row that all change is not there"))
}

/// One run, verified.
pub(super) fn run(store: &dyn Store, plan: &Plan<'_>) -> Driven {
    let before = store.begin(plan.work).map_err(Error::failed);
    let before = before.and_then(|()| match plan.work {
        Work::Modify => version_in(store).map(Some),
        _ => Ok(None),
    });
    let (mut driven, changes) = all_threads(store, plan);
    let verified = before.and_then(|before| match before {
        Some(before) if driven.outcome.failure.is_none() => {
            let found = version_in(store)?.wrapping_sub(before);
            if found == changes {
                Ok(())
            } else {
                Err(Error::wrong(format!(
                    "a row was changed {changes} times and counts {found}"
                )))
            }
        }
        _ => Ok(()),
    });
    if let Err(error) = verified {
        driven.outcome.failure.get_or_insert(error);
    }
    driven
}

fn version_in(store: &dyn Store) -> Result<u64> {
    let mut worker = store.worker().map_err(Error::failed)?;
    hot_version(worker.as_mut())
}

/// Runs the threads. Returns their results, and the total number of calls.
fn all_threads(store: &dyn Store, plan: &Plan<'_>) -> (Driven, u64) {
    let course = Course {
        begin: Barrier::new(plan.threads + 1),
        is_measuring: AtomicBool::new(plan.calls.is_some()),
        is_over: AtomicBool::new(false),
    };
    let work = |thread: usize| {
        let worker = store.worker();
        course.begin.wait();
        match worker {
            Ok(mut worker) => Ok(drive(worker.as_mut(), plan, &course, thread)),
            Err(reason) => {
                course.is_over.store(true, Ordering::Relaxed);
                Err(Error::failed(reason))
            }
        }
    };
    std::thread::scope(|scope| {
        let work = &work;
        let handles: Vec<_> = (0..plan.threads)
            .map(|n| scope.spawn(move || work(n)))
            .collect();
        course.begin.wait();
        if plan.calls.is_none() {
            sleep_until_over(&course, plan.times.0);
        }
        let (machine, own, begun) = (machine_time(), own_seconds(), Instant::now());
        course.is_measuring.store(true, Ordering::Relaxed);
        if plan.calls.is_none() {
            sleep_until_over(&course, plan.times.1);
            course.is_over.store(true, Ordering::Relaxed);
        }
        let seconds = begun.elapsed().as_secs_f64();
        let spent = plan.calls.is_none().then(|| spent_since(machine, own));
        let tallies = handles.into_iter().map(|handle| match handle.join() {
            Ok(found) => found,
            Err(_) => Err(Error::failed("a thread ended")),
        });
        let tallies: Vec<_> = tallies.collect();
        let spent = spent.unwrap_or_else(|| spent_since(machine, own));
        sum_up(tallies, plan, seconds, spent)
    })
}

/// Processor time since a reading: of this process, and of all others.
fn spent_since(machine: Option<f64>, own: Option<f64>) -> Spent {
    let between = |a: Option<f64>, b: Option<f64>| Some((b? - a?).max(0.0));
    let processor = between(own, own_seconds());
    let busy = between(machine, machine_time());
    Spent {
        server: processor,
        generator: Some(0.0),
        outside: busy.zip(processor).map(|(busy, own)| (busy - own).max(0.0)),
    }
}

fn sum_up(
    tallies: Vec<Result<Tally>>,
    plan: &Plan<'_>,
    seconds: f64,
    spent: Spent,
) -> (Driven, u64) {
    let mut outcome = Outcome {
        seconds,
        spent,
        ..Outcome::empty()
    };
    let (mut changes, mut instructions) = (0, Some(0));
    let mut longest: f64 = 0.0;
    for tally in tallies {
        match tally {
            Ok(tally) => {
                outcome.requests += tally.calls;
                changes += tally.changes;
                longest = longest.max(tally.seconds);
                let both = instructions.zip(tally.instructions);
                instructions = both.map(|(sum, mine)| sum + mine);
                // Both have the same bounds, so that nothing is refused.
                let _ = outcome.latency.add(&tally.latency);
                if let Some(failure) = tally.failure {
                    outcome.failure.get_or_insert(failure);
                }
            }
            Err(failure) => {
                outcome.failure.get_or_insert(failure);
            }
        }
    }
    if plan.calls.is_some() {
        outcome.seconds = longest;
    }
    let calls = outcome.requests;
    let instructions = instructions.filter(|_| calls > 0);
    let driven = Driven {
        outcome,
        instructions: instructions.map(|all| all as f64 / calls as f64),
    };
    (driven, changes)
}

fn sleep_until_over(course: &Course, time: Duration) {
    const STEP: Duration = Duration::from_millis(5);
    let end = Instant::now() + time;
    while !course.is_over.load(Ordering::Relaxed) && !sys::is_interrupted() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(STEP));
    }
}
