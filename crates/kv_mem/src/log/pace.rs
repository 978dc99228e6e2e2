//! When the next group begins: how long a sync waits for those whose answers
//! have just gone out.
//!
//! One sync is in flight at a time. Clients that each wait for their commit
//! before they send the next one fall into two halves, of which one waits
//! while the other is synced: every commit takes up to two syncs, and every
//! sync serves half of the clients. Where a sync takes long beside a client's
//! turn it pays to wait a little for those just answered, so that one sync
//! serves them all (as `commit_delay` of PostgreSQL does with a fixed time,
//! <https://www.postgresql.org/docs/current/runtime-config-wal.html>).
//!
//! How many come back is learnt: `share` is the part, in sixteenths, that came
//! back within the limit. A group that is complete ends the wait at once and
//! lifts the share; one that is not lowers it to what came. Below a half
//! nothing is waited for, but one group in 32 asks again.
//!
//! Invariants:
//! 1. Nothing is waited for where a sync takes less than [`LONG_SYNC`], nor
//!    longer than three quarters of a sync after the end of the last one.
//! 2. A single client never waits.

use std::time::{Duration, Instant};

/// Syncs below are not worth a wait: it would take as long as one.
const LONG_SYNC: Duration = Duration::from_micros(250);

/// The whole in `share`.
const WHOLE: u64 = 16;

/// One group in so many asks again whether clients come back.
const ASK_AGAIN: u32 = 32;

/// What one wait is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wait {
    /// Commits that make the group complete.
    pub(super) wanted: u64,
    /// When the group begins all the same.
    pub(super) until: Instant,
    /// Commits that were there before any came back.
    before: u64,
}

/// What is known of syncs and of clients that come back.
#[derive(Debug)]
pub(super) struct Pace {
    /// Length of a sync, a moving mean.
    sync: Duration,
    /// End of the last sync.
    ended: Option<Instant>,
    /// Commits that the last sync answered.
    answered: u64,
    /// Commits that waited when it ended.
    before: u64,
    share: u64,
    /// Groups since the last that asked.
    unasked: u32,
}

impl Pace {
    pub(super) fn new() -> Pace {
        Pace {
            sync: Duration::ZERO,
            ended: None,
            answered: 0,
            before: 0,
            share: WHOLE,
            unasked: 0,
        }
    }

    /// A sync answered so many commits, while so many more waited.
    pub(super) fn synced(&mut self, began: Instant, ended: Instant, answered: u64, before: u64) {
        let took = ended.saturating_duration_since(began);
        self.sync = if self.sync.is_zero() {
            took
        } else {
            (self.sync * 7 + took) / 8
        };
        self.ended = Some(ended);
        (self.answered, self.before) = (answered, before);
    }

    /// What the next group waits for, if it waits.
    pub(super) fn wait(&mut self, now: Instant) -> Option<Wait> {
        let ended = self.ended.take()?;
        let until = ended + self.sync * 3 / 4;
        if self.sync < LONG_SYNC || self.answered + self.before < 2 || now >= until {
            return None;
        }
        let mut share = self.share;
        if share < WHOLE / 2 {
            self.unasked += 1;
            if self.unasked < ASK_AGAIN {
                return None;
            }
            (self.unasked, share) = (0, WHOLE / 2);
        }
        let back = (self.answered * share).div_ceil(WHOLE);
        Some(Wait {
            wanted: self.before + back,
            until,
            before: self.before,
        })
    }

    /// A wait has ended with so many commits in the group.
    pub(super) fn waited(&mut self, wait: Wait, commits: u64) {
        if commits >= wait.wanted {
            self.share = (self.share + 1).min(WHOLE);
        } else {
            let back = commits.saturating_sub(wait.before);
            self.share = back * WHOLE / self.answered.max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNC: Duration = Duration::from_millis(1);

    /// A pace after a sync of a millisecond.
    fn after(answered: u64, before: u64) -> (Pace, Instant) {
        let (mut pace, began) = (Pace::new(), Instant::now());
        pace.synced(began, began + SYNC, answered, before);
        (pace, began + SYNC)
    }

    #[test]
    fn a_group_waits_for_those_just_answered() {
        let (mut pace, now) = after(32, 32);
        let wait = pace.wait(now).unwrap();
        assert_eq!((wait.wanted, wait.until), (64, now + SYNC * 3 / 4));
        pace.waited(wait, 64);
        assert_eq!(pace.wait(now), None, "once after each sync");
    }

    #[test]
    fn nothing_is_waited_for_without_need() {
        let (mut pace, now) = after(1, 0);
        assert_eq!(pace.wait(now), None, "a single client");
        let (mut pace, now) = after(8, 0);
        assert_eq!(pace.wait(now + SYNC), None, "long after the sync");
        let (mut pace, began) = (Pace::new(), Instant::now());
        let ended = began + LONG_SYNC / 2;
        pace.synced(began, ended, 32, 32);
        assert_eq!(pace.wait(ended), None, "a short sync");
    }

    #[test]
    fn clients_that_do_not_come_back_are_not_waited_for() {
        let (mut pace, now) = after(16, 4);
        let wait = pace.wait(now).unwrap();
        pace.waited(wait, 4 + 12);
        pace.synced(now, now + SYNC, 16, 4);
        let wait = pace.wait(now + SYNC).unwrap();
        assert_eq!(wait.wanted, 4 + 12, "as many as came before");
        pace.waited(wait, 4);
        let asked = (0..ASK_AGAIN)
            .filter(|_| {
                pace.synced(now, now + SYNC, 16, 4);
                pace.wait(now + SYNC).is_some()
            })
            .count();
        assert_eq!(asked, 1, "asked again now and then");
    }

    #[test]
    fn those_who_come_back_again_are_waited_for_again() {
        let (mut pace, now) = after(16, 0);
        let wait = pace.wait(now).unwrap();
        pace.waited(wait, 8);
        for _ in 0..8 {
            pace.synced(now, now + SYNC, 16, 0);
            let wait = pace.wait(now + SYNC).unwrap();
            pace.waited(wait, wait.wanted);
        }
        pace.synced(now, now + SYNC, 16, 0);
        assert_eq!(pace.wait(now + SYNC).unwrap().wanted, 16);
    }
}
