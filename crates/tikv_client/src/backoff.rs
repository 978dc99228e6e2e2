//! Pauses between attempts, by cause, bounded by the call's deadline.
//!
//! Each class of cause doubles its pause up to a maximum, with jitter, so that servers do not retry in
//! step ("exponential backoff and full jitter"). The pauses of different classes are independent: a busy
//! store does not slow down the search for a region's new leader.

use crate::error::{Error, Result};
use std::time::{Duration, Instant};

/// Cause of a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// The cache's view of a region was out of date; the next attempt has a newer one.
    Region,
    /// The region has no leader at present.
    Leader,
    /// The store is overloaded.
    Busy,
    /// A store or a placement driver does not answer.
    Network,
    /// Another transaction's lock.
    Lock,
}

impl Class {
    /// First and longest pause in milliseconds.
    fn bounds(self) -> (u64, u64) {
        match self {
            Class::Region => (1, 200),
            Class::Leader => (4, 500),
            Class::Busy => (50, 2_000),
            Class::Network => (20, 500),
            Class::Lock => (4, 200),
        }
    }
}

const CLASSES: usize = 5;

/// The attempts of one call.
#[derive(Debug)]
pub(crate) struct Backoff {
    began: Instant,
    deadline: Instant,
    attempts: [u32; CLASSES],
    /// Requests that ended without an answer: the store may have executed them.
    pub(crate) unanswered: u32,
    /// Whether the call overlaps another one whose steps are counted.
    is_overlapped: bool,
}

impl Backoff {
    /// A call that gives up at `deadline`.
    pub(crate) fn until(deadline: Instant) -> Backoff {
        Backoff {
            began: Instant::now(),
            deadline,
            attempts: [0; CLASSES],
            unanswered: 0,
            is_overlapped: false,
        }
    }

    /// Marks the call as one that overlaps another call of the same caller, so that its steps are not counted.
    pub(crate) fn overlapped(mut self) -> Backoff {
        self.is_overlapped = true;
        self
    }

    /// Number of steps that one round of requests counts as.
    pub(crate) fn steps(&self) -> u64 {
        u64::from(!self.is_overlapped)
    }

    /// Time since the call began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Pauses before the next attempt.
    ///
    /// # Errors
    /// The pause would not end before the deadline: [`Error::Locked`] for locks, else [`Error::Unavailable`]
    /// with `why`.
    pub(crate) async fn pause(&mut self, class: Class, why: &str) -> Result<()> {
        self.pause_for(class, Duration::ZERO, why).await
    }

    /// As [`Backoff::pause`], for at least `least`.
    pub(crate) async fn pause_for(
        &mut self,
        class: Class,
        least: Duration,
        why: &str,
    ) -> Result<()> {
        let (first, longest) = class.bounds();
        let attempts = self.attempts.get_mut(class as usize);
        let n = attempts.map_or(0, |n| {
            *n += 1;
            *n - 1
        });
        let top = (first << n.min(16)).min(longest);
        let pause = Duration::from_millis(top / 2 + fastrand::u64(0..=top / 2)).max(least);
        let at = Instant::now() + pause;
        if at >= self.deadline {
            return Err(match class {
                Class::Lock => Error::Locked,
                _ => Error::Unavailable(why.to_owned()),
            });
        }
        tokio::time::sleep_until(at.into()).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end_at_the_deadline_with_the_cause() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut b = Backoff::until(Instant::now() + Duration::from_millis(120));
            let mut n = 0;
            let e = loop {
                match b.pause(Class::Region, "no region").await {
                    Ok(()) => n += 1,
                    Err(e) => break e,
                }
            };
            assert!(matches!(e, Error::Unavailable(why) if why == "no region"));
            assert!((4..40).contains(&n), "{n} pauses in 120 ms");
            let mut late = Backoff::until(Instant::now());
            let e = late.pause(Class::Lock, "").await;
            assert!(matches!(e, Err(Error::Locked)));
        });
    }
}
