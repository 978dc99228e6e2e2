//! The group commit delay: when a group begins to be written.
//!
//! Two decisions, both made from measurements:
//!
//! **Should syncs overlap?** A second sync in flight pays if it takes hardly longer than one alone: network
//! volumes and disks without a volatile write cache serve both at once. A disk that flushes its cache
//! serves one flush after the other; there a second sync delays its commits and splits the clients into
//! groups that wait for each other, so one sync is in flight at a time. The durations of syncs that began
//! alone and of those that began while another was in flight are averaged and compared. If overlapping does
//! not pay, it is tried again after [`RETRY_OVERLAP_AFTER`] syncs.
//!
//! **How long does a group wait for more commits?** Clients that each wait for their commit before they send
//! the next one return shortly after they were answered. If a sync takes long compared with a client's round
//! trip, it pays to wait briefly for those that were just answered, so that one sync serves all of them.
//! PostgreSQL's `commit_delay` does so with a fixed time
//! (<https://www.postgresql.org/docs/current/runtime-config-wal.html>); here the delay adapts. `share` is
//! the part, in sixteenths, of the answered clients that return within the limit. A complete group ends the
//! wait at once and raises the share; an incomplete one lowers it to the part that returned. Below a
//! half there is no wait, but one group in 32 measures again. The limit is smaller where syncs overlap: a
//! commit that misses its group then waits for a part of a sync until the next group begins, not for a whole
//! one.
//!
//! Invariants:
//! 1. There is no wait, and one sync is in flight at a time, if a sync takes less than [`LONG_SYNC`].
//! 2. No group waits longer than three quarters of a sync after it could have begun.
//! 3. A single client never waits.

use super::SYNCS_IN_FLIGHT;
use std::time::{Duration, Instant};

/// Duration below which neither a wait, which would take as long as the sync, nor a second sync in flight pays.
const LONG_SYNC: Duration = Duration::from_micros(250);

/// Value of `share` that stands for all clients.
const ALL_CLIENTS: u64 = 16;

/// Number of groups without a wait after which one waits again, to measure whether clients return.
const MEASURE_EVERY: u32 = 32;

/// Number of syncs after which overlapping is tried again where it did not pay.
const RETRY_OVERLAP_AFTER: u32 = 512;

/// A wait for more commits before a group is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Wait {
    /// Commits that make the group complete.
    pub(crate) wanted: u64,
    /// End of the wait, complete or not.
    pub(crate) until: Instant,
    /// Number of answered clients that are expected to return during the wait.
    expected: u64,
}

/// Measurements of syncs and of clients that return.
#[derive(Debug)]
pub(crate) struct CommitDelay {
    /// Moving average of the duration of syncs that began with no other in flight; zero before the first.
    single_sync: Duration,
    /// The same of syncs that began while another was in flight.
    overlapped_sync: Duration,
    /// Number of syncs since the last one that began while another was in flight.
    since_overlap: u32,
    /// Number of answered clients that are expected to return.
    expected: u64,
    /// Time until which they are expected.
    expected_until: Option<Instant>,
    /// Number of commits appended when `expected` was last updated.
    arrived: u64,
    share: u64,
    /// Groups since the last measurement.
    unmeasured: u32,
}

impl Default for CommitDelay {
    fn default() -> CommitDelay {
        CommitDelay {
            single_sync: Duration::ZERO,
            overlapped_sync: Duration::ZERO,
            since_overlap: 0,
            expected: 0,
            expected_until: None,
            arrived: 0,
            share: ALL_CLIENTS,
            unmeasured: 0,
        }
    }
}

fn average(before: Duration, took: Duration) -> Duration {
    if before.is_zero() {
        took
    } else {
        (before * 7 + took) / 8
    }
}

impl CommitDelay {
    /// Whether a group should begin while another is synced.
    pub(crate) fn should_overlap(&self) -> bool {
        // Time stands still in model tests, which examine overlapping syncs.
        cfg!(shuttle)
            || self.single_sync >= LONG_SYNC && self.overlapped_sync * 2 < self.single_sync * 3
    }

    /// Records the duration of a sync, and whether another one was in flight when it began.
    pub(crate) fn record_sync(&mut self, took: Duration, did_overlap: bool) {
        if did_overlap {
            self.overlapped_sync = average(self.overlapped_sync, took);
            self.since_overlap = 0;
            return;
        }
        self.single_sync = average(self.single_sync, took);
        self.since_overlap += 1;
        if self.since_overlap >= RETRY_OVERLAP_AFTER {
            (self.overlapped_sync, self.since_overlap) = (Duration::ZERO, 0);
        }
    }

    /// Records that commits were answered. `arrived` is the number of all commits appended so far.
    pub(crate) fn record_answered(&mut self, now: Instant, answered: u64, arrived: u64) {
        if self.single_sync < LONG_SYNC {
            return;
        }
        self.update_expected(now, arrived);
        let share = self.share.max(ALL_CLIENTS / 2);
        self.expected += (answered * share).div_ceil(ALL_CLIENTS);
        self.expected_until = Some(now + self.single_sync * 3 / 4);
    }

    /// Subtracts the commits that arrived from those that are expected.
    fn update_expected(&mut self, now: Instant, arrived: u64) {
        self.expected = self.expected.saturating_sub(arrived - self.arrived);
        self.arrived = arrived;
        if self.expected_until.is_none_or(|until| now >= until) {
            self.expected = 0;
        }
    }

    /// Returns the wait before a group that could begin `now` with `commits` commits, if any.
    pub(crate) fn wait(&mut self, now: Instant, commits: u64, arrived: u64) -> Option<Wait> {
        if self.single_sync < LONG_SYNC {
            return None;
        }
        self.update_expected(now, arrived);
        if self.expected == 0 {
            return None;
        }
        if self.share < ALL_CLIENTS / 2 {
            self.unmeasured += 1;
            if self.unmeasured < MEASURE_EVERY {
                return None;
            }
            (self.unmeasured, self.share) = (0, ALL_CLIENTS / 2);
        }
        let limit = if self.should_overlap() {
            self.single_sync / SYNCS_IN_FLIGHT as u32
        } else {
            self.single_sync * 3 / 4
        };
        Some(Wait {
            wanted: commits + self.expected,
            until: now + limit,
            expected: self.expected,
        })
    }

    /// Records the end of a wait, with `commits` commits in the group.
    pub(crate) fn record_wait(&mut self, wait: Wait, commits: u64) {
        let missing = wait.wanted.saturating_sub(commits);
        if missing == 0 {
            self.share = (self.share + 1).min(ALL_CLIENTS);
        } else {
            let back = wait.expected.saturating_sub(missing);
            self.share = (self.share * back).div_ceil(wait.expected.max(1));
            // The missing clients are late; the next group does not wait for them again.
            self.expected_until = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNC: Duration = Duration::from_millis(1);

    /// Clients of a simulated log.
    struct Clients {
        delay: CommitDelay,
        now: Instant,
        arrived: u64,
    }

    impl Clients {
        /// Creates the state after a sync that took one millisecond.
        fn new() -> Clients {
            let mut delay = CommitDelay::default();
            delay.record_sync(SYNC, false);
            // Syncs do not overlap.
            delay.record_sync(SYNC * 2, true);
            Clients {
                delay,
                now: Instant::now(),
                arrived: 0,
            }
        }

        /// Answers some clients while others wait; then one of those answered returns.
        fn wait(&mut self, answered: u64, before: u64) -> Option<Wait> {
            self.arrived += before;
            self.delay.record_answered(self.now, answered, self.arrived);
            self.arrived += 1;
            self.delay.wait(self.now, before + 1, self.arrived)
        }

        /// Lets a wait end with this number of commits.
        fn end(&mut self, wait: Wait, commits: u64) {
            self.delay.record_wait(wait, commits);
            self.arrived += wait.expected.saturating_sub(wait.wanted - commits);
            self.now += SYNC;
        }
    }

    #[test]
    fn a_group_waits_for_the_clients_just_answered() {
        let mut clients = Clients::new();
        let wait = clients.wait(32, 32).unwrap();
        let until = clients.now + SYNC * 3 / 4;
        assert_eq!((wait.wanted, wait.until), (64, until));
        clients.end(wait, 64);
        let wait = clients.delay.wait(clients.now, 1, clients.arrived);
        assert_eq!(wait, None, "all are back");
    }

    #[test]
    fn there_is_no_wait_for_one_client_or_after_a_short_sync() {
        let mut clients = Clients::new();
        assert_eq!(clients.wait(1, 0), None, "a single client");
        clients.delay.record_answered(clients.now, 8, 1);
        let later = clients.delay.wait(clients.now + SYNC, 1, 2);
        assert_eq!(later, None, "long after the answers");
        let mut clients = Clients::new();
        clients.delay = CommitDelay::default();
        clients.delay.record_sync(LONG_SYNC / 2, false);
        assert_eq!(clients.wait(32, 32), None, "a short sync");
    }

    #[test]
    fn there_is_no_wait_for_clients_that_do_not_return() {
        let mut clients = Clients::new();
        let wait = clients.wait(16, 4).unwrap();
        clients.end(wait, 4 + 12);
        let wait = clients.wait(16, 4).unwrap();
        assert_eq!(wait.wanted, 4 + 12, "as many as came before");
        clients.end(wait, 4 + 1);
        let waits = (0..MEASURE_EVERY).filter(|_| {
            clients.now += SYNC;
            clients.wait(16, 4).is_some()
        });
        assert_eq!(waits.count(), 1, "the wait is tried again now and then");
    }

    #[test]
    fn the_wait_resumes_when_clients_return_again() {
        let mut clients = Clients::new();
        let wait = clients.wait(16, 0).unwrap();
        clients.end(wait, 8);
        for _ in 0..9 {
            let wait = clients.wait(16, 0).unwrap();
            clients.end(wait, wait.wanted);
        }
        assert_eq!(clients.wait(16, 0).unwrap().wanted, 16);
    }

    #[test]
    fn syncs_overlap_where_that_takes_hardly_longer() {
        let mut delay = CommitDelay::default();
        assert!(!delay.should_overlap(), "nothing is measured");
        delay.record_sync(LONG_SYNC / 2, false);
        assert!(!delay.should_overlap(), "a short sync");
        delay.record_sync(SYNC * 8, false);
        assert!(delay.should_overlap(), "the first try");
        delay.record_sync(SYNC, true);
        assert!(delay.should_overlap());
        let single = delay.single_sync;
        for _ in 0..16 {
            delay.record_sync(single * 2, true);
        }
        assert!(!delay.should_overlap(), "one is served after the other");
        let tries = (0..2 * RETRY_OVERLAP_AFTER).filter(|_| {
            delay.record_sync(single, false);
            let tries = delay.should_overlap();
            if tries {
                delay.record_sync(single * 2, true);
            }
            tries
        });
        assert_eq!(tries.count(), 2, "it is tried again now and then");
    }

    #[test]
    fn the_wait_is_shorter_where_syncs_overlap() {
        let mut clients = Clients::new();
        clients.delay.overlapped_sync = SYNC;
        let wait = clients.wait(8, 0).unwrap();
        assert_eq!(wait.until, clients.now + SYNC / SYNCS_IN_FLIGHT as u32);
    }
}
