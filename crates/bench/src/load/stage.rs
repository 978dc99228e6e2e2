//! Phases of a run.
//!
//! The phase lies in memory that forked generator processes share, so that all of them measure in
//! the same interval; the process that started them advances it.

use super::Outcome;
use crate::procfs::Reading;
use crate::sys::SharedCounter;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Connections are being opened; nothing is sent.
const WAITING: u64 = 0;
const WARM_UP: u64 = 1;
const MEASURING: u64 = 2;
const READING: u64 = 3;
const OVER: u64 = 4;

/// State of a run in memory that all generator processes share.
struct Shared {
    phase: SharedCounter,
    /// Threads that still work.
    running: SharedCounter,
    /// Generator processes that have opened their connections, or failed to.
    ready: SharedCounter,
    opened: Moment,
    began: Moment,
    ended: Moment,
}

/// A moment that all processes see, as nanoseconds since a base; 0 before it.
struct Moment(SharedCounter);

impl Moment {
    fn unset() -> Moment {
        Moment(SharedCounter::new(0))
    }

    fn set_now(&self, base: Instant) {
        let nanos = u64::try_from(base.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.0.store(nanos.max(1), Ordering::Release);
    }

    fn since(&self, base: Instant) -> Option<Instant> {
        match self.0.load(Ordering::Acquire) {
            0 => None,
            nanos => Some(base + Duration::from_nanos(nanos)),
        }
    }
}

/// Phases of a run, which its threads watch.
pub struct Stage {
    shared: Shared,
    base: Instant,
    /// The server's process.
    pid: Option<u32>,
    /// The other generator processes.
    generators: Vec<u32>,
    /// Processor times at the beginning of a run without a warm-up, in which
    /// every answer counts from the first on.
    cold: OnceLock<Reading>,
    warm_up: Duration,
    time: Duration,
}

impl Stage {
    /// The phases of a run by a number of threads against the server of process `pid`. The first
    /// phase begins at once.
    pub fn new(threads: usize, pid: Option<u32>, warm_up: Duration, time: Duration) -> Stage {
        let stage = Stage::waiting(pid, warm_up, time);
        stage.join(threads);
        stage.open();
        stage
    }

    /// The phases of a run whose connections are yet to be opened.
    pub fn waiting(pid: Option<u32>, warm_up: Duration, time: Duration) -> Stage {
        Stage {
            shared: Shared {
                phase: SharedCounter::new(WAITING),
                running: SharedCounter::new(0),
                ready: SharedCounter::new(0),
                opened: Moment::unset(),
                began: Moment::unset(),
                ended: Moment::unset(),
            },
            base: Instant::now(),
            pid,
            generators: Vec::new(),
            cold: OnceLock::new(),
            warm_up,
            time,
        }
    }

    /// Names the processes that generate load besides this one.
    pub fn set_generators(&mut self, generators: Vec<u32>) {
        self.generators = generators;
    }

    /// Announces threads that are going to work.
    pub fn join(&self, threads: usize) {
        self.shared
            .running
            .fetch_add(threads as u64, Ordering::AcqRel);
    }

    /// Announces that a generator process has opened its connections, or failed to.
    pub fn ready(&self) {
        self.shared.ready.fetch_add(1, Ordering::AcqRel);
    }

    /// Number of such processes.
    pub fn count_ready(&self) -> u64 {
        self.shared.ready.load(Ordering::Acquire)
    }

    /// Begins the first phase, unless the run was aborted already.
    pub fn open(&self) {
        self.shared.opened.set_now(self.base);
        if self.warm_up.is_zero() {
            self.cold.get_or_init(|| self.read());
            self.shared.began.set_now(self.base);
            self.advance(WAITING, MEASURING);
        } else {
            self.advance(WAITING, WARM_UP);
        }
    }

    /// Waits until the first phase begins.
    pub fn wait_until_open(&self) {
        while self.phase() == WAITING {
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    fn read(&self) -> Reading {
        Reading::with_generators(self.pid, &self.generators)
    }

    fn phase(&self) -> u64 {
        self.shared.phase.load(Ordering::Acquire)
    }

    /// The time at which the first phase began.
    pub fn opened(&self) -> Instant {
        self.shared.opened.since(self.base).unwrap_or(self.base)
    }

    /// The begin of the measured time.
    pub fn began(&self) -> Option<Instant> {
        self.shared.began.since(self.base)
    }

    /// The end of the measured time.
    pub fn ended(&self) -> Option<Instant> {
        self.shared.ended.since(self.base)
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
        self.shared.phase.store(OVER, Ordering::Release);
    }

    /// Reports the end of a thread; one that failed ends the run.
    pub fn thread_ended(&self, has_failed: bool) {
        if has_failed {
            self.abort();
        }
        self.shared.running.fetch_sub(1, Ordering::Release);
    }

    /// Advances the phases by the clock. Returns the outcome without the threads' counts.
    pub fn conduct(&self) -> Outcome {
        self.sleep_while(WARM_UP, self.warm_up);
        let before = match self.cold.get() {
            Some(cold) => cold.clone(),
            None => self.read(),
        };
        if self.began().is_none() {
            self.shared.began.set_now(self.base);
        }
        if self.advance(WARM_UP, MEASURING) || self.cold.get().is_some() {
            self.sleep_while(MEASURING, self.time);
        }
        let seconds = self.began().map_or(0.0, |b| b.elapsed().as_secs_f64());
        self.shared.ended.set_now(self.base);
        // A thread that failed has ended the run already.
        self.advance(MEASURING, READING);
        // Before the connections close: a server's processes for them would end.
        let after = self.read();
        self.abort();
        Outcome {
            seconds,
            spent: before.within(&after, seconds),
            threads: before.threads_within(&after, seconds),
            ..Outcome::empty()
        }
    }

    fn advance(&self, from: u64, to: u64) -> bool {
        let phase = &self.shared.phase;
        let moved = phase.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        moved.is_ok()
    }

    /// Sleeps for a time, or until the phase changes or no thread works any more.
    fn sleep_while(&self, phase: u64, time: Duration) {
        const STEP: Duration = Duration::from_millis(5);
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let is_over = self.phase() != phase
                || self.shared.running.load(Ordering::Acquire) == 0
                || crate::sys::is_interrupted();
            if left.is_zero() || is_over {
                return;
            }
            std::thread::sleep(left.min(STEP));
        }
    }
}
