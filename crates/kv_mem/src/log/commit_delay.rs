//! The group commit delay: how long the log thread waits for more commits before it syncs.
//!
//! One sync is in flight at a time. Clients that each wait for their commit before they send the
//! next one split into two halves: one half waits while the other is synced, every commit takes up
//! to two syncs, and every sync serves half of the clients. If a sync takes long compared with a
//! client's round trip, it pays to wait briefly for the clients that were just answered, so that
//! one sync serves all of them.
//! PostgreSQL's `commit_delay` does so with a fixed time
//! (<https://www.postgresql.org/docs/current/runtime-config-wal.html>); here the delay adapts.
//!
//! `share` is the part, in sixteenths, of the answered clients that return within the limit. A complete
//! group ends the wait at once and raises the share; an incomplete one lowers it to the part that
//! returned. Below a half there is no wait, but one group in 32 measures again.
//!
//! Invariants:
//! 1. There is no wait if a sync takes less than [`LONG_SYNC`], and none that lasts longer than three
//!    quarters of a sync after the end of the last one.
//! 2. A single client never waits.

use std::time::{Duration, Instant};

/// Duration below which a sync is not worth a wait, which would take as long as the sync.
const LONG_SYNC: Duration = Duration::from_micros(250);

/// Value of `share` that stands for all clients.
const ALL_CLIENTS: u64 = 16;

/// Number of groups after which one measures again whether clients return.
const MEASURE_EVERY: u32 = 32;

/// A wait of the log thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wait {
    /// Commits that make the group complete.
    pub(super) wanted: u64,
    /// End of the wait, complete or not.
    pub(super) until: Instant,
    /// Commits that waited before any answered client returned.
    before: u64,
}

/// Measurements of syncs and of clients that return.
#[derive(Debug)]
pub(super) struct CommitDelay {
    /// Moving average of the duration of a sync.
    sync: Duration,
    /// End of the last sync.
    ended: Option<Instant>,
    /// Commits that the last sync answered.
    answered_commits: u64,
    /// Commits that waited at the end of the last sync.
    before: u64,
    share: u64,
    /// Groups since the last measurement.
    unmeasured: u32,
}

impl CommitDelay {
    pub(super) fn new() -> CommitDelay {
        CommitDelay {
            sync: Duration::ZERO,
            ended: None,
            answered_commits: 0,
            before: 0,
            share: ALL_CLIENTS,
            unmeasured: 0,
        }
    }

    /// Records a sync that answered `answered_commits` commits while `before` more waited.
    pub(super) fn record_sync(
        &mut self,
        began: Instant,
        ended: Instant,
        answered_commits: u64,
        before: u64,
    ) {
        let took = ended.saturating_duration_since(began);
        self.sync = if self.sync.is_zero() {
            took
        } else {
            (self.sync * 7 + took) / 8
        };
        self.ended = Some(ended);
        (self.answered_commits, self.before) = (answered_commits, before);
    }

    /// Returns the wait for the next group, if any.
    pub(super) fn wait(&mut self, now: Instant) -> Option<Wait> {
        let ended = self.ended.take()?;
        let until = ended + self.sync * 3 / 4;
        if self.sync < LONG_SYNC || self.answered_commits + self.before < 2 || now >= until {
            return None;
        }
        let mut share = self.share;
        if share < ALL_CLIENTS / 2 {
            self.unmeasured += 1;
            if self.unmeasured < MEASURE_EVERY {
                return None;
            }
            (self.unmeasured, share) = (0, ALL_CLIENTS / 2);
        }
        let back = (self.answered_commits * share).div_ceil(ALL_CLIENTS);
        Some(Wait {
            wanted: self.before + back,
            until,
            before: self.before,
        })
    }

    /// Records the end of a wait, with `commits` commits in the group.
    pub(super) fn record_wait(&mut self, wait: Wait, commits: u64) {
        if commits >= wait.wanted {
            self.share = (self.share + 1).min(ALL_CLIENTS);
        } else {
            let back = commits.saturating_sub(wait.before);
            self.share = back * ALL_CLIENTS / self.answered_commits.max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNC: Duration = Duration::from_millis(1);

    /// Creates the state after a sync of one millisecond.
    fn after(answered_commits: u64, before: u64) -> (CommitDelay, Instant) {
        let (mut delay, began) = (CommitDelay::new(), Instant::now());
        delay.record_sync(began, began + SYNC, answered_commits, before);
        (delay, began + SYNC)
    }

    #[test]
    fn a_group_waits_for_the_clients_just_answered() {
        let (mut delay, now) = after(32, 32);
        let wait = delay.wait(now).unwrap();
        assert_eq!((wait.wanted, wait.until), (64, now + SYNC * 3 / 4));
        delay.record_wait(wait, 64);
        assert_eq!(delay.wait(now), None, "once after each sync");
    }

    #[test]
    fn there_is_no_wait_for_one_client_or_after_a_short_sync() {
        let (mut delay, now) = after(1, 0);
        assert_eq!(delay.wait(now), None, "a single client");
        let (mut delay, now) = after(8, 0);
        assert_eq!(delay.wait(now + SYNC), None, "long after the sync");
        let (mut delay, began) = (CommitDelay::new(), Instant::now());
        let ended = began + LONG_SYNC / 2;
        delay.record_sync(began, ended, 32, 32);
        assert_eq!(delay.wait(ended), None, "a short sync");
    }

    #[test]
    fn there_is_no_wait_for_clients_that_do_not_return() {
        let (mut delay, now) = after(16, 4);
        let wait = delay.wait(now).unwrap();
        delay.record_wait(wait, 4 + 12);
        delay.record_sync(now, now + SYNC, 16, 4);
        let wait = delay.wait(now + SYNC).unwrap();
        assert_eq!(wait.wanted, 4 + 12, "as many as came before");
        delay.record_wait(wait, 4);
        let waits = (0..MEASURE_EVERY)
            .filter(|_| {
                delay.record_sync(now, now + SYNC, 16, 4);
                delay.wait(now + SYNC).is_some()
            })
            .count();
        assert_eq!(waits, 1, "the wait is tried again now and then");
    }

    #[test]
    fn the_wait_resumes_when_clients_return_again() {
        let (mut delay, now) = after(16, 0);
        let wait = delay.wait(now).unwrap();
        delay.record_wait(wait, 8);
        for _ in 0..8 {
            delay.record_sync(now, now + SYNC, 16, 0);
            let wait = delay.wait(now + SYNC).unwrap();
            delay.record_wait(wait, wait.wanted);
        }
        delay.record_sync(now, now + SYNC, 16, 0);
        assert_eq!(delay.wait(now + SYNC).unwrap().wanted, 16);
    }
}
