//! Open loop: requests are due at fixed times, independently of the replies to those before them.
//!
//! A closed loop sends fewer requests while the server stalls, so that its latencies lack the requests
//! that users would have sent meanwhile (coordinated omission; Tene, wrk2). Here each connection has its share of the
//! rate, in turns with the others:
//!
//! ```text
//! rate 4 a second, 2 connections      due (s)  0     0.25   0.5    0.75   1
//! connection 0                                 |------------|-------------|
//! connection 1                                        |-------------|
//! ```
//!
//! 1. Latency counts from the time at which a request was due. A request that is due while its
//!    connection waits for the reply to the one before is sent as soon as that has come.
//! 2. A request that was due in the measured time and has no reply at its end does not count as answered,
//!    but its age is a latency: a stall at the end is not left out.
//! 3. The generator's own lateness is part of the latency. It is reported, too.

use super::{Stage, Tally};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// A request that is sent later than this after it was due is counted as late.
const LATE: Duration = Duration::from_millis(1);

/// Share of the requests that must be answered for the rate to count as held.
const HELD: f64 = 0.99;

/// Most requests of one connection that are counted as unanswered at the end.
const MOST_UNANSWERED: u64 = 10_000_000;

/// Required requests a second, of all connections together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rate(pub f64);

impl Rate {
    /// Whether the rate was held, by the number of answers in a number of seconds.
    pub fn is_held(self, answers: u64, seconds: f64) -> bool {
        answers as f64 >= self.0 * seconds * HELD
    }
}

/// Requests that were not sent or not answered on time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lateness {
    /// Requests due in the measured time without a reply at its end.
    pub unanswered: u64,
    /// Requests sent more than a millisecond after they were due.
    pub late: u64,
    /// The longest time between due and sent, in nanoseconds.
    pub worst: u64,
}

impl Lateness {
    /// Adds another's.
    pub fn add(&mut self, other: &Lateness) {
        self.unanswered += other.unanswered;
        self.late += other.late;
        self.worst = self.worst.max(other.worst);
    }
}

/// The times at which one connection's requests are due.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    start: Instant,
    /// Of the first request, and between two, in nanoseconds.
    offset: f64,
    period: f64,
    /// Number of the next request.
    next: u64,
}

impl Schedule {
    /// The schedule of the `n`-th of `connections` that share a rate.
    pub fn new(stage: &Stage, rate: f64, n: usize, connections: usize) -> Schedule {
        Schedule {
            start: stage.opened(),
            offset: n as f64 / rate * 1e9,
            period: connections as f64 / rate * 1e9,
            next: 0,
        }
    }

    /// The time at which the next request is due.
    pub fn due(&self) -> Instant {
        self.due_at(self.next)
    }

    fn due_at(&self, n: u64) -> Instant {
        self.start + Duration::from_nanos((self.offset + self.period * n as f64) as u64)
    }

    /// Takes the next request, which is sent at `now`. Returns the time at which it was due.
    pub fn take(&mut self, stage: &Stage, tally: &mut Tally, now: Instant) -> Instant {
        let due = self.due();
        self.next += 1;
        let behind = now.saturating_duration_since(due);
        if stage.is_measuring() {
            tally.lateness.late += u64::from(behind > LATE);
            let nanos = u64::try_from(behind.as_nanos()).unwrap_or(u64::MAX);
            tally.lateness.worst = tally.lateness.worst.max(nanos);
        }
        due
    }

    /// Waits until the next request is due and takes it; `None` if the run is over before.
    pub fn wait(&mut self, stage: &Stage, tally: &mut Tally) -> Option<Instant> {
        const STEP: Duration = Duration::from_millis(20);
        loop {
            if stage.is_over() {
                return None;
            }
            let now = Instant::now();
            let left = self.due().saturating_duration_since(now);
            if left.is_zero() {
                return Some(self.take(stage, tally, now));
            }
            std::thread::sleep(left.min(STEP));
        }
    }

    /// Counts the requests that were due in the measured time and never sent.
    pub fn close(&self, stage: &Stage, tally: &mut Tally) {
        let Some(ended) = stage.ended() else {
            return;
        };
        for n in self.next..self.next.saturating_add(MOST_UNANSWERED) {
            let due = self.due_at(n);
            if due >= ended {
                return;
            }
            tally.lateness.unanswered += 1;
            tally.record(due, ended);
        }
    }
}

/// Counts the reply that came at `now` to a request that was due at `due`.
pub fn count(stage: &Stage, tally: &mut Tally, due: Instant, now: Instant) {
    match stage.ended() {
        None => tally.count(stage, due, now),
        Some(ended) if due < ended => {
            tally.lateness.unanswered += 1;
            tally.record(due, now);
        }
        Some(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(time: Duration) -> Stage {
        Stage::new(1, None, Duration::ZERO, time)
    }

    #[test]
    fn connections_take_turns_at_the_rate() {
        let stage = stage(Duration::ZERO);
        let mut tally = Tally::new();
        let mut due = Vec::new();
        for n in 0..4 {
            let mut schedule = Schedule::new(&stage, 1000.0, n, 4);
            for _ in 0..5 {
                due.push(schedule.take(&stage, &mut tally, stage.opened()));
            }
        }
        due.sort();
        for (n, due) in due.iter().enumerate() {
            let millis = due.duration_since(stage.opened()).as_secs_f64() * 1e3;
            assert!((millis - n as f64).abs() < 1e-3, "{millis}");
        }
    }

    #[test]
    fn a_stall_is_in_the_latencies_of_all_requests_that_were_due_in_it() {
        let stage = stage(Duration::ZERO);
        let mut tally = Tally::new();
        let mut schedule = Schedule::new(&stage, 1000.0, 0, 1);
        // Replies to ten requests come after a stall of 100 ms.
        let after = stage.opened() + Duration::from_millis(100);
        for _ in 0..10 {
            let due = schedule.take(&stage, &mut tally, after);
            count(&stage, &mut tally, due, after);
        }
        assert_eq!(tally.requests, 10);
        assert!(tally.latency.min() >= 90_000_000, "{}", tally.latency.min());
        assert_eq!(tally.lateness.late, 10);
        assert!(tally.lateness.worst >= 99_000_000);
    }

    #[test]
    fn what_was_due_and_not_answered_is_a_latency_and_no_request() {
        let stage = stage(Duration::from_millis(50));
        let mut tally = Tally::new();
        let mut schedule = Schedule::new(&stage, 1000.0, 0, 1);
        let due = schedule.take(&stage, &mut tally, Instant::now());
        stage.conduct();
        assert_eq!(schedule.wait(&stage, &mut tally), None, "the run is over");
        count(&stage, &mut tally, due, Instant::now());
        schedule.close(&stage, &mut tally);
        assert_eq!(tally.requests, 0);
        // One each millisecond of at least 50.
        assert!(tally.lateness.unanswered >= 50, "{:?}", tally.lateness);
        assert_eq!(tally.latency.len(), tally.lateness.unanswered);
    }

    #[test]
    fn a_rate_is_held_by_nearly_all_its_answers() {
        assert!(Rate(1000.0).is_held(1990, 2.0));
        assert!(!Rate(1000.0).is_held(1970, 2.0));
    }
}
