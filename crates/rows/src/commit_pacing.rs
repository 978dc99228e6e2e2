//! Pauses of commits, by which the writers of a source are slowed down while a replica catches up.
//!
//! The controller of the change log sets a rate. Commits take turns at this rate (the generic cell rate algorithm, a
//! leaky bucket: <https://en.wikipedia.org/wiki/Generic_cell_rate_algorithm>): each reserves the next turn, and its client
//! waits for it after the commit, when no lock on rows is held.
//!
//! ```text
//! turns    |----|----|----|----|     one every `interval`
//! commits  A  B C              D     A and D do not wait; B waits for the second turn, C for the third
//! ```
//!
//! Invariants:
//! 1. No commit waits longer than the maximum pause, however many wait: turns further away are not reserved.
//! 2. Without a rate a commit pays for one load.

use porpoise_base::blocking::blocking;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The rate of commits, and the turns.
#[derive(Debug)]
pub struct CommitPacing {
    /// Nanoseconds between two turns; 0: no rate.
    interval: AtomicU64,
    /// The maximum pause, in nanoseconds.
    max_pause: AtomicU64,
    /// The next turn, in nanoseconds since `origin`.
    next: AtomicU64,
    origin: Instant,
    delayed: AtomicU64,
    paused_micros: AtomicU64,
}

/// The counters of pauses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PauseCounts {
    /// Commits that have paused.
    pub commits: u64,
    /// Total time of the pauses, in microseconds.
    pub micros: u64,
}

impl Default for CommitPacing {
    fn default() -> CommitPacing {
        CommitPacing {
            interval: AtomicU64::new(0),
            max_pause: AtomicU64::new(0),
            next: AtomicU64::new(0),
            origin: Instant::now(),
            delayed: AtomicU64::new(0),
            paused_micros: AtomicU64::new(0),
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl CommitPacing {
    /// Sets the time between two commits, and the maximum pause of one; zero: commits do not pause.
    pub fn set(&self, interval: Duration, max_pause: Duration) {
        self.max_pause.store(nanos(max_pause), Ordering::Relaxed);
        self.interval.store(nanos(interval), Ordering::Relaxed);
    }

    /// Time between two commits; zero: commits do not pause.
    #[must_use]
    pub fn interval(&self) -> Duration {
        Duration::from_nanos(self.interval.load(Ordering::Relaxed))
    }

    /// The pauses so far.
    #[must_use]
    pub fn counts(&self) -> PauseCounts {
        PauseCounts {
            commits: self.delayed.load(Ordering::Relaxed),
            micros: self.paused_micros.load(Ordering::Relaxed),
        }
    }

    /// Pauses after a commit, if there is a rate.
    #[inline]
    pub(crate) fn pause(&self) {
        if self.interval.load(Ordering::Relaxed) != 0 {
            self.pause_for_turn();
        }
    }

    #[inline(never)]
    fn pause_for_turn(&self) {
        let pause = Duration::from_nanos(self.reserve(nanos(self.origin.elapsed())));
        if pause.is_zero() {
            return;
        }
        let micros = u64::try_from(pause.as_micros()).unwrap_or(u64::MAX);
        self.delayed.fetch_add(1, Ordering::Relaxed);
        self.paused_micros.fetch_add(micros, Ordering::Relaxed);
        blocking(|| std::thread::sleep(pause));
    }

    /// Reserves a turn. Returns the time until then.
    fn reserve(&self, now: u64) -> u64 {
        let interval = self.interval.load(Ordering::Relaxed);
        let last = now.saturating_add(self.max_pause.load(Ordering::Relaxed));
        let mut turn = now;
        let reserve = |next: u64| {
            turn = next.clamp(now, last);
            Some(turn.saturating_add(interval).min(last))
        };
        let _always = self
            .next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, reserve);
        turn.saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_take_turns_and_none_waits_longer_than_the_maximum() {
        let pacing = CommitPacing::default();
        pacing.set(Duration::from_nanos(10), Duration::from_nanos(25));
        let waits: Vec<u64> = (0..5).map(|_| pacing.reserve(1000)).collect();
        assert_eq!(waits, [0, 10, 20, 25, 25]);
        // The turns that were reserved pass, and unused ones are not saved.
        assert_eq!(pacing.reserve(1020), 5);
        assert_eq!((pacing.reserve(5000), pacing.reserve(5000)), (0, 10));
    }

    #[test]
    fn without_a_rate_nothing_is_counted() {
        let pacing = CommitPacing::default();
        pacing.pause();
        pacing.pause();
        assert_eq!(pacing.counts(), PauseCounts::default());
        pacing.set(Duration::from_micros(50), Duration::from_millis(1));
        pacing.pause();
        pacing.pause();
        let counts = pacing.counts();
        assert!(counts.commits >= 1 && counts.micros <= 2_000, "{counts:?}");
    }
}
