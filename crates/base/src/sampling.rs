//! Sampling of frequent events: on average one event in each interval of a [`Sampler`], at random
//! distances, so that periodic sequences of events are sampled evenly.
//!
//! A thread counts down to its next sampled event. Events in between cost a subtraction in
//! thread-local memory, and access no memory that threads share. An owner of events, such as a
//! session, counts down by itself with a [`Countdown`].

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
            next += match interval {
                0 => 64,
                interval => random_distance(interval),
            };
        }
        COUNTDOWN.with(|countdown| countdown.set(next - events));
    }
}

/// Samples the events of one owner, independently of all other samplers: on average one event in
/// each interval.
#[derive(Debug)]
pub struct Countdown {
    /// Number of events up to the next sampled one, at least 1.
    left: u32,
}

impl Countdown {
    /// Creates a countdown in the middle of a distance, so that events of owners with few events are
    /// sampled as often as others. The smaller of two uniform numbers has the distribution of what
    /// is left of a uniform distance at a random event in it.
    pub fn new(interval: u32) -> Countdown {
        Countdown {
            left: random_distance(interval).min(random_distance(interval)),
        }
    }

    /// Counts an event, and returns whether it is sampled.
    #[inline]
    pub fn is_sampled(&mut self, interval: u32) -> bool {
        self.left -= 1;
        if self.left > 0 {
            return false;
        }
        self.left = random_distance(interval);
        true
    }
}

/// Uniform in `1..2 * interval`, whose mean is the interval; 1 for 0 and 1.
#[cold]
fn random_distance(interval: u32) -> u32 {
    match interval {
        0 | 1 => 1,
        interval => fastrand::u32(1..interval.saturating_mul(2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn countdowns_sample_at_the_interval_also_where_an_owner_has_few_events() {
        for events in [1, 5, 1000] {
            let mut sampled = 0;
            for _ in 0..80_000 / events {
                let mut countdown = Countdown::new(8);
                sampled += (0..events).filter(|_| countdown.is_sampled(8)).count();
            }
            assert!(
                (9_000..11_000).contains(&sampled),
                "{sampled} of {events} each"
            );
        }
    }

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
