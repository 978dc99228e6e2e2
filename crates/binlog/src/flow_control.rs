//! Flow control: commits pause while a replica catches up that would not catch up otherwise.
//!
//! A replica that comes back applies what it has missed while clients go on writing. If it applies more slowly than they
//! write, it never acknowledges the end of the log, so that a group goes on without it, or commits pass unacknowledged. The
//! controller measures, ten times a second, how fast such a replica acknowledges, and limits the rate of commits to a share of
//! that ([`porpoise_rows::commit_pacing`]). As MySQL's group replication does by quotas
//! (<https://dev.mysql.com/doc/refman/8.4/en/group-replication-flow-control.html>), it never stops writers: each pause has a
//! maximum, and a replica that makes no progress is not waited for.
//!
//! ```text
//! lag     ^        ____
//!         |      /      \        threshold reached: rate = 90 % of the replica's, then 5 % less every second, down to 10 %
//!         |    /          \
//!         |  /              \__  close: no limit; commits wait for its acknowledgements from then on
//!         +---------------------> time
//! ```
//!
//! Invariants:
//! 1. There is no limit unless a connected replica, whose acknowledgements commits do not wait for yet, lacks more than
//!    [`CLOSE_BYTES`], and has acknowledged something within the last [`STUCK`].
//! 2. The rate of a replica is measured only while it lacks that much: that of one that waits for transactions is the
//!    writers' own, and a limit by it would spiral down.
//!
//! Rejected: a limit by the time that a transaction needs on the replica (replicas do not report it); locking the writers
//! out for short times (their latency would be that of the stop).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Time between two steps of the controller.
pub(crate) const PERIOD: Duration = Duration::from_millis(100);

/// Shortest time over which a rate is measured: acknowledgements come in batches.
const WINDOW: Duration = Duration::from_millis(300);

/// Time in which a replica catches up without a limit, if it lacks fewer transactions than the threshold.
const GRACE: Duration = Duration::from_secs(10);

/// Time without progress after which a replica counts as stuck.
const STUCK: Duration = Duration::from_secs(5);

/// Bytes of the log that a replica lacks at most when it is close.
const CLOSE_BYTES: u64 = 32 << 10;

/// Share of the replica's rate to which writers are limited: the first share, its decrease per second, and the smallest one.
const FIRST_SHARE: f64 = 0.9;
const LESS_PER_SECOND: f64 = 0.05;
const LEAST_SHARE: f64 = 0.1;

/// Settings of the controller.
#[derive(Clone, Copy, Debug)]
pub struct FlowSettings {
    /// Longest pause of a commit; zero: commits do not pause.
    pub max_pause: Duration,
    /// Transactions that a replica may lack before commits pause.
    pub threshold: u64,
}

/// A replica that catches up.
#[derive(Debug)]
struct CatchingUp {
    since: Instant,
    /// Bytes that it had acknowledged at a time, from which its rate is measured.
    mark: (Instant, i64),
    /// Acknowledged bytes a second, while it had something to apply.
    rate: Option<f64>,
    last_progress: (Instant, i64),
}

/// The controller.
#[derive(Debug, Default)]
pub(crate) struct FlowControl {
    replicas: BTreeMap<u32, CatchingUp>,
    /// When the limit began.
    limited: Option<Instant>,
    /// Bytes and transactions of the log at the last step, and bytes of a transaction on average.
    written: (u64, u64),
    transaction_bytes: f64,
}

impl FlowControl {
    /// A step. `written`: bytes and transactions that were written to the log since the start of the server; `replicas`: those
    /// that catch up, with the bytes that each lacks. Returns the time between two commits.
    pub(crate) fn step(
        &mut self,
        settings: &FlowSettings,
        now: Instant,
        written: (u64, u64),
        replicas: &[(u32, u64)],
    ) -> Option<Duration> {
        self.measure_transactions(written);
        self.replicas
            .retain(|id, _| replicas.iter().any(|(present, _)| present == id));
        let mut slowest: Option<f64> = None;
        for (id, lag) in replicas {
            let acknowledged = written.0 as i64 - *lag as i64;
            let replica = self
                .replicas
                .entry(*id)
                .or_insert_with(|| CatchingUp::new(now, acknowledged));
            replica.measure(now, acknowledged, *lag);
            let is_late = *lag as f64 > settings.threshold as f64 * self.transaction_bytes
                || now.saturating_duration_since(replica.since) > GRACE;
            let holds = self.limited.is_some() || is_late;
            if *lag > CLOSE_BYTES
                && holds
                && !replica.is_stuck(now)
                && let Some(rate) = replica.rate
            {
                slowest = Some(slowest.map_or(rate, |other| other.min(rate)));
            }
        }
        let Some(rate) = slowest.filter(|rate| *rate > 0.0) else {
            self.limited = None;
            return None;
        };
        let since = *self.limited.get_or_insert(now);
        let seconds = now.saturating_duration_since(since).as_secs_f64();
        let share = (FIRST_SHARE - LESS_PER_SECOND * seconds).max(LEAST_SHARE);
        Duration::try_from_secs_f64(self.transaction_bytes / (rate * share)).ok()
    }

    /// Bytes that a replica acknowledges in a second, if that was measured.
    pub(crate) fn rate(&self, replica: u32) -> Option<u64> {
        let rate = self.replicas.get(&replica)?.rate?;
        Some(rate as u64)
    }

    fn measure_transactions(&mut self, written: (u64, u64)) {
        let bytes = written.0.saturating_sub(self.written.0) as f64;
        let transactions = written.1.saturating_sub(self.written.1);
        self.written = written;
        if transactions == 0 {
            return;
        }
        let present = bytes / transactions as f64;
        self.transaction_bytes = if self.transaction_bytes == 0.0 {
            present
        } else {
            0.9 * self.transaction_bytes + 0.1 * present
        };
    }
}

impl CatchingUp {
    fn new(now: Instant, acknowledged: i64) -> CatchingUp {
        CatchingUp {
            since: now,
            mark: (now, acknowledged),
            rate: None,
            last_progress: (now, acknowledged),
        }
    }

    fn measure(&mut self, now: Instant, acknowledged: i64, lag: u64) {
        if acknowledged > self.last_progress.1 {
            self.last_progress = (now, acknowledged);
        }
        if lag <= CLOSE_BYTES {
            self.mark = (now, acknowledged);
            return;
        }
        let time = now.saturating_duration_since(self.mark.0);
        // Without progress the window becomes longer.
        if time < WINDOW || acknowledged <= self.mark.1 {
            return;
        }
        let present = (acknowledged - self.mark.1) as f64 / time.as_secs_f64();
        self.rate = Some(self.rate.map_or(present, |rate| 0.5 * rate + 0.5 * present));
        self.mark = (now, acknowledged);
    }

    fn is_stuck(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last_progress.0) > STUCK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: FlowSettings = FlowSettings {
        max_pause: Duration::from_millis(100),
        threshold: 1000,
    };

    /// Writers that write transactions of 100 bytes at a rate, unless they are limited, and a replica that applies at another.
    struct Run {
        flow: FlowControl,
        now: Instant,
        written: f64,
        applied: f64,
        /// Transactions a second.
        limit: f64,
    }

    impl Run {
        fn new(lag: f64) -> Run {
            Run {
                flow: FlowControl::default(),
                now: Instant::now(),
                written: lag + 1e5,
                applied: 1e5,
                limit: f64::INFINITY,
            }
        }

        fn step(&mut self, write: f64, apply: f64) {
            self.now += PERIOD;
            self.written += write.min(self.limit) * PERIOD.as_secs_f64();
            let applied = self.applied + apply * PERIOD.as_secs_f64();
            self.applied = applied.min(self.written);
            let written = ((self.written * 100.0) as u64, self.written as u64);
            let lag = ((self.written - self.applied) * 100.0) as u64;
            let interval = self.flow.step(&SETTINGS, self.now, written, &[(2, lag)]);
            self.limit = interval.map_or(f64::INFINITY, |time| 1.0 / time.as_secs_f64());
        }

        fn lag(&self) -> f64 {
            self.written - self.applied
        }
    }

    #[test]
    fn a_replica_that_applies_more_slowly_than_writers_write_catches_up() {
        for (write, apply) in [(1600.0, 550.0), (600.0, 580.0), (20_000.0, 400.0)] {
            let mut run = Run::new(20_000.0);
            let mut steps = 0;
            while run.lag() * 100.0 > CLOSE_BYTES as f64 {
                run.step(write, apply);
                steps += 1;
                assert!(steps < 3000, "{write} and {apply}: {} left", run.lag());
                if steps > 10 {
                    assert!(run.limit >= LEAST_SHARE * apply * 0.9, "{}", run.limit);
                }
            }
            assert_eq!(
                run.limit,
                f64::INFINITY,
                "there is no limit when it is close"
            );
        }
    }

    #[test]
    fn a_replica_that_catches_up_by_itself_limits_no_writer() {
        let mut run = Run::new(990.0);
        for _ in 0..30 {
            run.step(500.0, 2000.0);
            assert_eq!(run.limit, f64::INFINITY);
        }
        // Afterwards it has nothing to apply but what is written: that is not its rate.
        assert_eq!(run.flow.rate(2).map(|rate| rate > 150_000), Some(true));
    }

    #[test]
    fn a_small_lag_is_tolerated_for_a_while() {
        let mut run = Run::new(900.0);
        for step in 0..150 {
            run.step(500.0, 500.0);
            let is_limited = run.limit.is_finite();
            assert_eq!(is_limited, step > 100, "step {step}");
        }
    }

    #[test]
    fn a_replica_without_progress_is_not_waited_for() {
        let mut run = Run::new(20_000.0);
        for _ in 0..10 {
            run.step(1000.0, 500.0);
        }
        assert!(run.limit < 500.0);
        for _ in 0..52 {
            run.step(1000.0, 0.0);
        }
        assert_eq!(run.limit, f64::INFINITY);
        // It is gone.
        run.step(1000.0, 500.0);
        let written = ((run.written * 100.0) as u64, run.written as u64);
        assert_eq!(run.flow.step(&SETTINGS, run.now, written, &[]), None);
        assert!(run.flow.replicas.is_empty());
    }
}
