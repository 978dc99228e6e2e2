//! Sampling of frequent events: on average one event in each interval of a [`Sampler`], at random
//! distances, so that periodic sequences of events are sampled evenly.
//!
//! A thread counts down to its next sampled event. Events in between cost a subtraction in
//! thread-local memory, and access no memory that threads share.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

/// Distance to the first sampled event of a thread.
const FIRST: u32 = 16;

thread_local! {
    /// Number of events up to the next sampled one, at least 1.
    static COUNTDOWN: Cell<u32> = const { Cell::new(FIRST) };
}

/// Decides which events are sampled. All samplers of a process share the threads' countdowns.
#[derive(Debug)]
pub struct Sampler {
    /// Mean distance of sampled events; 0: none is sampled.
    interval: AtomicU32,
}

impl Sampler {
    /// Creates a sampler of one event in `interval`; of none if that is 0.
    pub const fn new(interval: u32) -> Sampler {
        Sampler {
            interval: AtomicU32::new(interval),
        }
    }

    /// Mean distance of sampled events; 0 if none is sampled.
    pub fn interval(&self) -> u32 {
        self.interval.load(Ordering::Relaxed)
    }

    /// Sets the mean distance of sampled events; 0: none is sampled.
    pub fn set_interval(&self, interval: u32) {
        self.interval.store(interval, Ordering::Relaxed);
    }

    /// Calls `sampled` with the position of each sampled one of the next `events` events.
    #[inline]
    pub fn sample(&self, events: u32, sampled: impl FnMut(u32)) {
        let left = COUNTDOWN.with(Cell::get);
        if events < left {
            COUNTDOWN.with(|countdown| countdown.set(left - events));
        } else {
            self.sample_some(events, left, sampled);
        }
    }

    #[cold]
    #[inline(never)]
    fn sample_some(&self, events: u32, left: u32, mut sampled: impl FnMut(u32)) {
        let interval = self.interval();
        let mut next = left;
        while next <= events {
            if interval > 0 {
                sampled(next - 1);
            }
            // Uniform in 1..2 * interval, whose mean is the interval.
            next += match interval {
                0 => 64,
                1 => 1,
                interval => fastrand::u32(1..interval.saturating_mul(2)),
            };
        }
        COUNTDOWN.with(|countdown| countdown.set(next - events));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_sampled_at_the_interval_however_they_are_grouped() {
        let sampler = Sampler::new(8);
        for group in [1, 3, 50] {
            let mut count = 0;
            for _ in 0..80_000 / group {
                sampler.sample(group, |at| {
                    assert!(at < group);
                    count += 1;
                });
            }
            assert!((9_000..11_000).contains(&count), "{count} by {group}");
        }
        sampler.set_interval(0);
        sampler.sample(10_000, |_| panic!("sampled"));
        sampler.set_interval(1);
        let mut positions = Vec::new();
        sampler.sample(200, |at| positions.push(at));
        assert!(positions.ends_with(&[198, 199]) && positions.len() > 100);
    }
}
