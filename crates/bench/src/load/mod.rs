//! Closed-loop load: each connection sends its next request when it has the
//! reply to the last one.
//!
//! There are two kinds of client, because servers differ in the kind that suits them best: a thread
//! for each connection, which waits for its reply, and a few threads that multiplex
//! many connections by epoll.
//!
//! 1. All connections are opened, logged in and prepared before any request is
//!    sent; this is not measured.
//! 2. A request counts if its answer arrived in the measured time; the warm-up
//!    before it is the same load, not counted.
//! 3. Every answer is verified. A wrong one ends the run as failed.
//! 4. Latency is the time from just before a request is written until its reply
//!    is verified. At a multiplexing thread this includes the wait behind its other
//!    connections, as it would for its users.

mod multiplex;
mod threads;

use crate::conn::Connection;
use crate::connect::Endpoint;
use crate::error::{Error, Kind, Result};
use crate::procfs::{Reading, Spent};
use crate::proto::{Answer, Call};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Work of the connections of an experiment.
pub trait Workload: Sync {
    /// Statements to prepare on each connection.
    fn statements(&self) -> Vec<String>;

    /// Work of the n-th connection.
    fn worker(&self, connection: usize) -> Box<dyn Worker + '_>;
}

/// Work of one connection.
pub trait Worker: Send {
    /// Fills in the next request; false when there is nothing left to do.
    fn next(&mut self, call: &mut Call) -> bool;

    /// Verifies the answer to it, which is not a refusal.
    ///
    /// # Errors
    /// Description of the error.
    fn verify(&mut self, answer: &Answer) -> Result<()>;
}

/// Distribution of connections over the client's threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Shape {
    /// Each has its own.
    ThreadEach,
    /// This number of threads serves all of them.
    Multiplexed(usize),
}

impl Shape {
    /// Words for reports.
    pub fn words(self) -> String {
        match self {
            Shape::ThreadEach => "a thread per connection".to_owned(),
            Shape::Multiplexed(1) => "1 thread multiplexing".to_owned(),
            Shape::Multiplexed(n) => format!("{n} threads multiplexing"),
        }
    }
}

/// A run.
#[derive(Clone, Copy)]
pub struct Plan<'a> {
    /// The system under load.
    pub endpoint: &'a Endpoint,
    /// Number of connections.
    pub connections: usize,
    /// Distribution of connections over threads.
    pub shape: Shape,
    /// Time before measuring.
    pub warm_up: Duration,
    /// Time measured.
    pub time: Duration,
}

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Requests answered in the measured time.
    pub requests: u64,
    /// Requests that the server refused and a client would retry
    /// (deadlocks, lock waits, serialization failures).
    pub refused: u64,
    /// The measured time, in seconds.
    pub seconds: f64,
    /// Latencies in nanoseconds.
    pub latency: Histogram<u64>,
    /// Requests of each whole second of the measured time; 0 for a second in which
    /// no answer arrived.
    pub per_second: Vec<u64>,
    /// Processor time.
    pub spent: Spent,
    /// Reason for an early end; the figures cover the time before.
    pub failure: Option<Error>,
}

impl Outcome {
    /// Requests a second.
    pub fn throughput(&self) -> f64 {
        if self.seconds > 0.0 {
            self.requests as f64 / self.seconds
        } else {
            0.0
        }
    }

    /// Processor microseconds of the server for each request.
    pub fn server_micros(&self) -> Option<f64> {
        let spent = self.spent.server?;
        (self.requests > 0).then(|| spent * 1e6 / self.requests as f64)
    }

    /// A latency in microseconds; `part` from 0 to 1.
    pub fn latency_micros(&self, part: f64) -> f64 {
        self.latency.value_at_quantile(part) as f64 / 1e3
    }
}

/// An empty histogram: up to a minute, to three digits.
pub fn histogram() -> Histogram<u64> {
    #[expect(
        clippy::expect_used,
        reason = "the bounds are constants that the library takes"
    )]
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds of a histogram")
}

/// Reason shown after Ctrl-C.
pub const INTERRUPTED: &str = "interrupted";

const WARM_UP: u8 = 0;
const MEASURING: u8 = 1;
const READING: u8 = 2;
const OVER: u8 = 3;

/// Phases of a run, which its threads watch.
pub struct Stage {
    phase: AtomicU8,
    /// Threads that still work.
    running: AtomicUsize,
    began: OnceLock<Instant>,
    /// The server's process.
    pid: Option<u32>,
    /// Processor times at the beginning of a run without a warm-up, in which
    /// every answer counts from the first on.
    cold: Option<Reading>,
    warm_up: Duration,
    time: Duration,
}

impl Stage {
    /// The phases of a run by a number of threads against the server of process `pid`.
    pub fn new(threads: usize, pid: Option<u32>, warm_up: Duration, time: Duration) -> Stage {
        let is_cold = warm_up.is_zero();
        let stage = Stage {
            phase: AtomicU8::new(if is_cold { MEASURING } else { WARM_UP }),
            running: AtomicUsize::new(threads),
            began: OnceLock::new(),
            pid,
            cold: is_cold.then(|| Reading::now(pid)),
            warm_up,
            time,
        };
        if is_cold {
            stage.began.get_or_init(Instant::now);
        }
        stage
    }

    fn phase(&self) -> u8 {
        self.phase.load(Ordering::Relaxed)
    }

    /// Whether threads are to stop.
    pub fn is_over(&self) -> bool {
        self.phase() == OVER
    }

    /// Whether answers count.
    pub fn is_measuring(&self) -> bool {
        self.phase() == MEASURING
    }

    /// Ends the run before its time.
    pub fn abort(&self) {
        self.phase.store(OVER, Ordering::Relaxed);
    }

    /// Reports the end of a thread; one that failed ends the run.
    pub fn thread_ended(&self, has_failed: bool) {
        if has_failed {
            self.abort();
        }
        self.running.fetch_sub(1, Ordering::Release);
    }

    /// Times the phases; the outcome without the threads' counts.
    pub fn conduct(&self) -> Outcome {
        self.sleep_while(WARM_UP, self.warm_up);
        let before = self.cold;
        let before = before.unwrap_or_else(|| Reading::now(self.pid));
        let began = *self.began.get_or_init(Instant::now);
        if self.advance(WARM_UP, MEASURING) || self.cold.is_some() {
            self.sleep_while(MEASURING, self.time);
        }
        let seconds = began.elapsed().as_secs_f64();
        // A thread that failed has ended the run already.
        self.advance(MEASURING, READING);
        // Before the connections close: a server's processes for them would end.
        let after = Reading::now(self.pid);
        self.abort();
        Outcome {
            requests: 0,
            refused: 0,
            seconds,
            latency: histogram(),
            per_second: Vec::new(),
            spent: before.within(&after, seconds),
            failure: None,
        }
    }

    fn advance(&self, from: u8, to: u8) -> bool {
        let moved = self
            .phase
            .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
        moved.is_ok()
    }

    /// Sleeps so long, or until the phase changes or no thread works any more.
    fn sleep_while(&self, phase: u8, time: Duration) {
        const STEP: Duration = Duration::from_millis(5);
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let is_over = self.phase() != phase
                || self.running.load(Ordering::Acquire) == 0
                || crate::sys::is_interrupted();
            if left.is_zero() || is_over {
                return;
            }
            std::thread::sleep(left.min(STEP));
        }
    }
}

/// Counters of one thread.
pub struct Tally {
    requests: u64,
    refused: u64,
    latency: Histogram<u64>,
    per_second: Vec<u64>,
    failure: Option<Error>,
}

impl Tally {
    fn new() -> Tally {
        Tally {
            requests: 0,
            refused: 0,
            latency: histogram(),
            per_second: Vec::new(),
            failure: None,
        }
    }

    /// Counts an answer that came at `now` to a request sent at `sent`.
    pub fn count(&mut self, stage: &Stage, sent: Instant, now: Instant) {
        if !stage.is_measuring() {
            return;
        }
        self.requests += 1;
        let nanos = u64::try_from(now.duration_since(sent).as_nanos()).unwrap_or(u64::MAX);
        self.latency.saturating_record(nanos);
        if let Some(began) = stage.began.get() {
            let second = now.saturating_duration_since(*began).as_secs();
            let second = usize::try_from(second).unwrap_or(usize::MAX);
            // Seconds are recorded for at most a day.
            if second < 86_400 {
                if self.per_second.len() <= second {
                    self.per_second.resize(second + 1, 0);
                }
                if let Some(slot) = self.per_second.get_mut(second) {
                    *slot += 1;
                }
            }
        }
    }
}

/// Verifies an answer: `Ok(true)` counts, `Ok(false)` is a refusal that a client
/// would answer by trying again.
fn verify(worker: &mut dyn Worker, answer: &Answer) -> Result<bool> {
    let Some(reason) = &answer.error else {
        return worker.verify(answer).map(|()| true);
    };
    const AGAIN: &[&str] = &["1213 ", "1205 ", "40001 ", "40P01 "];
    if AGAIN.iter().any(|code| reason.starts_with(code)) {
        return Ok(false);
    }
    Err(Error::refused(reason.clone()))
}

/// Opens all connections, each with what it is to do.
fn connect<'w>(
    plan: &Plan<'_>,
    workload: &'w dyn Workload,
) -> Result<Vec<(Connection, Box<dyn Worker + 'w>)>> {
    let statements = workload.statements();
    let mut connections = Vec::with_capacity(plan.connections);
    for number in 0..plan.connections {
        if crate::sys::is_interrupted() {
            return Err(Error::failed(INTERRUPTED));
        }
        let connection = plan.endpoint.connect(&statements)?;
        connections.push((connection, workload.worker(number)));
    }
    Ok(connections)
}

/// Runs a workload.
///
/// # Errors
/// The run could not begin; later failures are in the outcome.
pub fn run(plan: &Plan<'_>, workload: &dyn Workload) -> Result<Outcome> {
    let connections = connect(plan, workload)?;
    let threads = match plan.shape {
        Shape::ThreadEach => plan.connections,
        Shape::Multiplexed(threads) => threads.clamp(1, plan.connections.max(1)),
    };
    let pid = plan.endpoint.target.pid;
    let mut shares: Vec<Vec<_>> = (0..threads).map(|_| Vec::new()).collect();
    let mut at = 0;
    for connection in connections {
        if let Some(share) = shares.get_mut(at) {
            share.push(connection);
        }
        at = (at + 1) % threads.max(1);
    }
    let work = |share| -> ThreadWork<'_> {
        Box::new(move |stage, tally| match plan.shape {
            Shape::ThreadEach => threads::drive(share, stage, tally),
            Shape::Multiplexed(_) => multiplex::drive(share, stage, tally),
        })
    };
    let works = shares.into_iter().map(work).collect();
    run_threads(pid, (plan.warm_up, plan.time), works)
}

/// Work of one thread: requests until the stage is over, counted in the tally.
pub type ThreadWork<'w> = Box<dyn FnOnce(&Stage, &mut Tally) -> Result<()> + Send + 'w>;

/// Runs threads against the server of process `pid`, for a warm-up and a measured time.
///
/// # Errors
/// A thread cannot be started.
pub fn run_threads(
    pid: Option<u32>,
    (warm_up, time): (Duration, Duration),
    works: Vec<ThreadWork<'_>>,
) -> Result<Outcome> {
    let stage = Stage::new(works.len(), pid, warm_up, time);
    std::thread::scope(|scope| {
        let mut handles = Vec::with_capacity(works.len());
        for work in works {
            let stage = &stage;
            let work = move || {
                let mut tally = Tally::new();
                tally.failure = work(stage, &mut tally).err();
                stage.thread_ended(tally.failure.is_some());
                tally
            };
            let builder = std::thread::Builder::new().stack_size(256 << 10);
            match builder.spawn_scoped(scope, work) {
                Ok(handle) => handles.push(handle),
                Err(error) => {
                    // Threads that are running already would otherwise never end.
                    stage.abort();
                    return Err(Error::from(error).during("a thread of the generator"));
                }
            }
        }
        let mut outcome = stage.conduct();
        for handle in handles {
            match handle.join() {
                Ok(tally) => outcome.add(tally),
                Err(_) => outcome.failure = Some(Error::failed("a thread of the generator ended")),
            }
        }
        outcome.close(time);
        Ok(outcome)
    })
}

impl Outcome {
    /// Once all threads are added: leaves whole seconds alone, also those in
    /// which nothing came, and does not let a run without any answer pass as a
    /// figure.
    fn close(&mut self, time: Duration) {
        self.per_second
            .resize((self.seconds.min(86_400.0)) as usize, 0);
        if self.requests == 0 && self.failure.is_none() && !time.is_zero() {
            self.failure = Some(Error::failed(if crate::sys::is_interrupted() {
                INTERRUPTED
            } else {
                "no request was answered during the measurement"
            }));
        }
    }

    fn add(&mut self, tally: Tally) {
        self.requests += tally.requests;
        self.refused += tally.refused;
        // Both have the same bounds, so nothing is refused.
        let _ = self.latency.add(&tally.latency);
        if self.per_second.len() < tally.per_second.len() {
            self.per_second.resize(tally.per_second.len(), 0);
        }
        for (sum, n) in self.per_second.iter_mut().zip(&tally.per_second) {
            *sum += n;
        }
        // A wrong answer takes precedence over the connections that failed because of it.
        if let Some(failure) = tally.failure
            && self
                .failure
                .as_ref()
                .is_none_or(|known| known.kind != Kind::Wrong)
        {
            self.failure = Some(failure);
        }
    }
}
