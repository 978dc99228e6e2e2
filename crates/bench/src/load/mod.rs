//! Load: each connection sends its next request when it has the reply to the last one (a closed
//! loop), or at fixed times (an open loop, [`schedule`]).
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
//!    connections, as it would for its users. In an open loop it is the time from the moment at
//!    which the request was due.
//! 5. Several generator processes ([`generators`]) share the connections of one run. All follow the
//!    phases of one [`Stage`].

mod generators;
mod multiplex;
pub mod schedule;
mod stage;
mod tally;
mod threads;

pub use stage::Stage;
pub use tally::Tally;

use crate::conn::Connection;
use crate::connect::Endpoint;
use crate::error::{Error, Result};
use crate::procfs::{Spent, ThreadTime};
use crate::proto::{Answer, Call};
use hdrhistogram::Histogram;
use schedule::{Lateness, Rate};
use serde::{Deserialize, Serialize};
use std::time::Duration;

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
    /// Requests a second of an open loop, and the number of generator processes.
    pub pace: Pace,
}

/// Generation of requests: rate and processes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Requests a second of all connections together, which are due at fixed times; `None`: each
    /// connection sends when it has its last reply.
    pub rate: Option<f64>,
    /// Number of generator processes among which the connections are divided.
    pub generators: usize,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            rate: None,
            generators: 1,
        }
    }
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
    /// The server's processor time by the roles of its threads.
    pub threads: Vec<ThreadTime>,
    /// Requests of an open loop that were not sent on time.
    pub lateness: Option<(Rate, Lateness)>,
    /// Reason for an early end; the figures cover the time before.
    pub failure: Option<Error>,
}

impl Outcome {
    /// A run in which nothing was counted.
    pub fn empty() -> Outcome {
        Outcome {
            requests: 0,
            refused: 0,
            seconds: 0.0,
            latency: histogram(),
            per_second: Vec::new(),
            spent: Spent::default(),
            threads: Vec::new(),
            lateness: None,
            failure: None,
        }
    }

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

    /// As [`Outcome::latency_micros`], where there are enough requests for it.
    pub fn rare_latency_micros(&self, part: f64) -> Option<f64> {
        crate::stats::has_percentile(self.latency.len(), part).then(|| self.latency_micros(part))
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

/// The connections of one generator process: `first`, `first + step`, ...
#[derive(Clone, Copy)]
struct Share {
    first: usize,
    step: usize,
}

/// A connection with its number and its worker.
struct Client<'w> {
    number: usize,
    connection: Connection,
    worker: Box<dyn Worker + 'w>,
}

/// Settings of a run that all of its threads use.
#[derive(Clone, Copy)]
struct Course {
    /// Connections of all processes.
    connections: usize,
    rate: Option<f64>,
}

impl Course {
    /// The schedule of a connection in an open loop.
    fn schedule(self, stage: &Stage, number: usize) -> Option<schedule::Schedule> {
        let rate = self.rate?;
        Some(schedule::Schedule::new(
            stage,
            rate,
            number,
            self.connections,
        ))
    }
}

/// Opens a share of the connections, each with its worker.
fn connect<'w>(
    plan: &Plan<'_>,
    workload: &'w dyn Workload,
    share: Share,
) -> Result<Vec<Client<'w>>> {
    let statements = workload.statements();
    let mut clients = Vec::new();
    for number in (share.first..plan.connections).step_by(share.step) {
        if crate::sys::is_interrupted() {
            return Err(Error::failed(INTERRUPTED));
        }
        clients.push(Client {
            number,
            connection: plan.endpoint.connect(&statements)?,
            worker: workload.worker(number),
        });
    }
    Ok(clients)
}

/// The work of a share's threads.
fn share_work<'w>(
    plan: &Plan<'_>,
    workload: &'w dyn Workload,
    share: Share,
) -> Result<Vec<ThreadWork<'w>>> {
    let clients = connect(plan, workload, share)?;
    let threads = match plan.shape {
        Shape::ThreadEach => clients.len(),
        // A share of the threads, too.
        Shape::Multiplexed(threads) => threads.div_ceil(share.step).clamp(1, clients.len().max(1)),
    };
    let mut groups: Vec<Vec<Client<'w>>> = (0..threads).map(|_| Vec::new()).collect();
    for (n, client) in clients.into_iter().enumerate() {
        if let Some(group) = groups.get_mut(n % threads.max(1)) {
            group.push(client);
        }
    }
    let course = Course {
        connections: plan.connections,
        rate: plan.pace.rate,
    };
    let shape = plan.shape;
    let work = |clients| -> ThreadWork<'w> {
        Box::new(move |stage, tally| match shape {
            Shape::ThreadEach => threads::drive(clients, course, stage, tally),
            Shape::Multiplexed(_) => multiplex::drive(clients, course, stage, tally),
        })
    };
    Ok(groups.into_iter().map(work).collect())
}

/// Runs a workload.
///
/// # Errors
/// The run could not begin; later failures are in the outcome.
pub fn run(plan: &Plan<'_>, workload: &dyn Workload) -> Result<Outcome> {
    let mut stage = Stage::waiting(plan.endpoint.target.pid, plan.warm_up, plan.time);
    // Before this process has connections, which children would hold open.
    let mut children = generators::start(plan, workload, &mut stage)?;
    let share = Share {
        first: 0,
        step: children.len() + 1,
    };
    let works = share_work(plan, workload, share);
    let works = works.and_then(|works| {
        generators::wait_ready(&stage, &mut children)?;
        Ok(works)
    });
    let works = works.inspect_err(|_| stage.abort())?;
    stage.join(works.len());
    stage.open();
    let (tallies, mut outcome) = run_threads_of(&stage, works, Stage::conduct)?;
    let tallies = tallies.into_iter().chain(generators::finish(children));
    outcome.complete(tallies, plan.pace.rate, plan.time);
    Ok(outcome)
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
    let (tallies, mut outcome) = run_threads_of(&stage, works, Stage::conduct)?;
    outcome.complete(tallies.into_iter(), None, time);
    Ok(outcome)
}

/// Runs threads of a stage that has begun, while `during` runs in this one. Returns their counters, and the
/// result of `during`.
fn run_threads_of<T>(
    stage: &Stage,
    works: Vec<ThreadWork<'_>>,
    during: impl FnOnce(&Stage) -> T,
) -> Result<(Vec<Tally>, T)> {
    std::thread::scope(|scope| {
        let mut handles = Vec::with_capacity(works.len());
        for work in works {
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
        let found = during(stage);
        let tally_of = |handle: std::thread::ScopedJoinHandle<'_, Tally>| match handle.join() {
            Ok(tally) => tally,
            Err(_) => Tally {
                failure: Some(Error::failed("a thread of the generator ended")),
                ..Tally::new()
            },
        };
        Ok((handles.into_iter().map(tally_of).collect(), found))
    })
}

impl Outcome {
    /// Adds the counters of all threads. Leaves whole seconds alone, also those in
    /// which nothing came, and does not let a run without any answer pass as a
    /// figure.
    fn complete(
        &mut self,
        tallies: impl Iterator<Item = Tally>,
        rate: Option<f64>,
        time: Duration,
    ) {
        let mut sum = Tally::new();
        tallies.for_each(|tally| sum.add(tally));
        self.requests = sum.requests;
        self.refused = sum.refused;
        self.latency = sum.latency;
        self.lateness = rate.map(|rate| (Rate(rate), sum.lateness));
        self.failure = sum.failure;
        self.per_second = sum.per_second;
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
}
