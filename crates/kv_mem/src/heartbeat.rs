//! Heartbeats of the log's thread and the checkpointer.
//!
//! Each thread stores the time of its last step, and a health check computes the
//! age of that step. A thread that hangs in a disk operation or on a latch takes
//! no steps. The log's thread wakes at least every 100 ms,
//! the checkpointer every two seconds, also with nothing to do.
//!
//! Invariant: a check reads two atomics and the clock. It takes no latch, so a
//! stalled thread cannot stall the check.

use crate::shared::Shared;
use porpoise_base::clock::Clock;
use porpoise_base::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time without a step after which the log's thread counts as stalled: commits
/// wait for it.
const LOG_LIMIT: Duration = Duration::from_secs(1);

/// Time without a step after which the checkpointer counts as stalled. Its longest
/// step syncs a file of 64 MiB on a busy disk. Only the removal of old segments
/// waits for it.
const CHECKPOINT_LIMIT: Duration = Duration::from_secs(30);

/// Heartbeat of a thread that has not started, or has ended without an error.
const NOT_RUNNING: u64 = 0;

/// Time of a thread's last step.
#[derive(Default)]
pub(crate) struct Heartbeat(AtomicU64);

/// The engine's heartbeats.
pub(crate) struct Heartbeats {
    origin: Instant,
    pub(crate) log: Heartbeat,
    pub(crate) checkpointer: Heartbeat,
}

impl Heartbeats {
    pub(crate) fn new(clock: &dyn Clock) -> Heartbeats {
        Heartbeats {
            origin: clock.now(),
            log: Heartbeat::default(),
            checkpointer: Heartbeat::default(),
        }
    }

    fn micros(&self, clock: &dyn Clock) -> u64 {
        let passed = clock.now().saturating_duration_since(self.origin);
        u64::try_from(passed.as_micros()).unwrap_or(u64::MAX)
    }
}

/// Notes a step of the log's thread.
pub(crate) fn log_step(shared: &Shared) {
    step(shared, &shared.heartbeats.log);
}

/// Notes a step of the checkpointer.
pub(crate) fn checkpoint_step(shared: &Shared) {
    step(shared, &shared.heartbeats.checkpointer);
}

fn step(shared: &Shared, heartbeat: &Heartbeat) {
    // A checkpoint may also be written by a caller, without the checkpointer.
    if heartbeat.0.load(Ordering::Relaxed) != NOT_RUNNING {
        heartbeat.set(shared.heartbeats.micros(&*shared.clock));
    }
}

/// Notes that the log's thread and the checkpointer are about to be started.
pub(crate) fn begin(shared: &Shared) {
    let heartbeats = &shared.heartbeats;
    let now = heartbeats.micros(&*shared.clock);
    heartbeats.log.set(now);
    heartbeats.checkpointer.set(now);
}

impl Heartbeat {
    fn set(&self, now: u64) {
        self.0.store(now + 1, Ordering::Relaxed);
    }

    /// Notes that the thread ends without an error.
    pub(crate) fn end(&self) {
        self.0.store(NOT_RUNNING, Ordering::Relaxed);
    }

    /// Time since the last step, if the thread runs.
    fn age(&self, now: u64) -> Option<Duration> {
        let last = self.0.load(Ordering::Relaxed);
        (last != NOT_RUNNING).then(|| Duration::from_micros((now + 1).saturating_sub(last)))
    }
}

/// Messages about threads without a step for too long, one each.
pub(crate) fn stalled(shared: &Shared) -> Vec<String> {
    let heartbeats = &shared.heartbeats;
    let now = heartbeats.micros(&*shared.clock);
    let threads = [
        ("log", &heartbeats.log, LOG_LIMIT, "commits wait"),
        (
            "checkpointer",
            &heartbeats.checkpointer,
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
