//! Heartbeats of the log thread and the checkpointer.
//!
//! Each thread stores the time of its last step, and a health check computes the age of that step. A
//! thread that hangs in a disk operation or on a latch takes no steps. The log thread wakes at least
//! every 100 ms, the checkpointer every two seconds, also with nothing to do.
//!
//! Invariant: a check reads two atomics and the clock. It takes no latch, so a stalled thread cannot
//! stall the check.

use porpoise_base::clock::Clock;
use porpoise_base::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time without a step after which the log thread counts as stalled: commits wait for it.
const LOG_LIMIT: Duration = Duration::from_secs(1);

/// Time without a step after which the checkpointer counts as stalled. Its longest step syncs a file
/// of 64 MiB on a busy disk. Only the removal of old segments waits for it.
const CHECKPOINT_LIMIT: Duration = Duration::from_secs(30);

/// Heartbeat of a thread that has not started, or has ended without an error.
const NOT_RUNNING: u64 = 0;

/// Time of a thread's last step.
#[derive(Default)]
struct Heartbeat(AtomicU64);

/// The engine's heartbeats.
pub(crate) struct Heartbeats {
    clock: Arc<dyn Clock>,
    origin: Instant,
    log: Heartbeat,
    checkpointer: Heartbeat,
}

impl Heartbeats {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Heartbeats {
        Heartbeats {
            origin: clock.now(),
            clock,
            log: Heartbeat::default(),
            checkpointer: Heartbeat::default(),
        }
    }

    /// Microseconds since the origin.
    fn now(&self) -> u64 {
        let passed = self.clock.now().saturating_duration_since(self.origin);
        u64::try_from(passed.as_micros()).unwrap_or(u64::MAX)
    }

    /// Records that the log thread and the checkpointer are about to be started.
    pub(crate) fn begin(&self) {
        let now = self.now();
        self.log.set(now);
        self.checkpointer.set(now);
    }

    /// Records a step of the log thread.
    pub(crate) fn log_step(&self) {
        self.record_step(&self.log);
    }

    /// Records a step of the checkpointer.
    pub(crate) fn checkpoint_step(&self) {
        self.record_step(&self.checkpointer);
    }

    /// Records that the log thread ends without an error.
    pub(crate) fn end_log(&self) {
        self.log.end();
    }

    /// Records that the checkpointer ends without an error.
    pub(crate) fn end_checkpointer(&self) {
        self.checkpointer.end();
    }

    fn record_step(&self, heartbeat: &Heartbeat) {
        // A checkpoint may also be written by a caller, without the checkpointer.
        if heartbeat.0.load(Ordering::Relaxed) != NOT_RUNNING {
            heartbeat.set(self.now());
        }
    }

    /// Messages about threads without a step for too long, one each.
    pub(crate) fn stalled(&self) -> Vec<String> {
        let now = self.now();
        let threads = [
            ("log", &self.log, LOG_LIMIT, "commits wait"),
            (
                "checkpointer",
                &self.checkpointer,
                CHECKPOINT_LIMIT,
                "the log grows",
            ),
        ];
        let mut found = Vec::new();
        for (name, heartbeat, limit, effect) in threads {
            if let Some(age) = heartbeat.age(now)
                && age > limit
            {
                let seconds = age.as_secs_f64();
                found.push(format!(
                    "{name}: no progress for {seconds:.1} s, the disk may be stuck; {effect}"
                ));
            }
        }
        found
    }
}

impl Heartbeat {
    fn set(&self, now: u64) {
        self.0.store(now + 1, Ordering::Relaxed);
    }

    fn end(&self) {
        self.0.store(NOT_RUNNING, Ordering::Relaxed);
    }

    /// Time since the last step, if the thread runs.
    fn age(&self, now: u64) -> Option<Duration> {
        let last = self.0.load(Ordering::Relaxed);
        (last != NOT_RUNNING).then(|| Duration::from_micros((now + 1).saturating_sub(last)))
    }
}
