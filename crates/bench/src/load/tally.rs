//! Counters of a generator's thread, and their encoding for other processes.

use super::schedule::Lateness;
use super::{Stage, histogram};
use crate::error::{Error, Kind, Result};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Counters of one thread, or of several together.
pub struct Tally {
    /// Requests answered in the measured time.
    pub requests: u64,
    /// Requests refused.
    pub refused: u64,
    /// Latencies in nanoseconds.
    pub latency: Histogram<u64>,
    /// Requests of each second.
    pub per_second: Vec<u64>,
    /// Requests of an open loop that were not sent on time.
    pub lateness: Lateness,
    /// Reason for an early end.
    pub failure: Option<Error>,
}

/// The encoding for other processes.
#[derive(Serialize, Deserialize)]
struct Sent {
    requests: u64,
    refused: u64,
    /// Values with their counts.
    latency: Vec<(u64, u64)>,
    per_second: Vec<u64>,
    lateness: Lateness,
    failure: Option<Error>,
}

impl Tally {
    /// Counters at zero.
    pub fn new() -> Tally {
        Tally {
            requests: 0,
            refused: 0,
            latency: histogram(),
            per_second: Vec::new(),
            lateness: Lateness::default(),
            failure: None,
        }
    }

    /// Counts an answer that came at `now` to a request sent at `sent`.
    pub fn count(&mut self, stage: &Stage, sent: Instant, now: Instant) {
        if !stage.is_measuring() {
            return;
        }
        self.requests += 1;
        self.record(sent, now);
        if let Some(began) = stage.began() {
            let second = now.saturating_duration_since(began).as_secs();
            let second = usize::try_from(second).unwrap_or(usize::MAX);
            // Seconds are recorded for at most a day.
            if second < 86_400 {
                if self.per_second.len() <= second {
                    self.per_second.resize(second + 1, 0);
                }
                if let Some(slot) = self.per_second.get_mut(second) {
                    *slot += 1;
                }
            }
        }
    }

    /// Records a latency.
    pub fn record(&mut self, from: Instant, to: Instant) {
        let nanos = to.saturating_duration_since(from).as_nanos();
        self.latency
            .saturating_record(u64::try_from(nanos).unwrap_or(u64::MAX));
    }

    /// Adds another's counters.
    pub fn add(&mut self, other: Tally) {
        self.requests += other.requests;
        self.refused += other.refused;
        // Both have the same bounds, so nothing is refused.
        let _ = self.latency.add(&other.latency);
        if self.per_second.len() < other.per_second.len() {
            self.per_second.resize(other.per_second.len(), 0);
        }
        for (sum, n) in self.per_second.iter_mut().zip(&other.per_second) {
            *sum += n;
        }
        self.lateness.add(&other.lateness);
        // A wrong answer takes precedence over the connections that failed because of it.
        if let Some(failure) = other.failure
            && self
                .failure
                .as_ref()
                .is_none_or(|known| known.kind != Kind::Wrong)
        {
            self.failure = Some(failure);
        }
    }

    /// The counters as bytes for another process.
    pub fn to_bytes(&self) -> Vec<u8> {
        let values = self.latency.iter_recorded();
        let sent = Sent {
            requests: self.requests,
            refused: self.refused,
            latency: values
                .map(|v| (v.value_iterated_to(), v.count_at_value()))
                .collect(),
            per_second: self.per_second.clone(),
            lateness: self.lateness,
            failure: self.failure.clone(),
        };
        // Numbers and text, which JSON can hold.
        serde_json::to_vec(&sent).unwrap_or_default()
    }

    /// The counters that another process sent.
    ///
    /// # Errors
    /// The process ended before it had sent them.
    pub fn from_bytes(bytes: &[u8]) -> Result<Tally> {
        let sent: Sent = serde_json::from_slice(bytes)
            .map_err(|_| Error::failed("a generator process ended without results"))?;
        let mut latency = histogram();
        for (value, count) in sent.latency {
            latency.saturating_record_n(value, count);
        }
        Ok(Tally {
            requests: sent.requests,
            refused: sent.refused,
            latency,
            per_second: sent.per_second,
            lateness: sent.lateness,
            failure: sent.failure,
        })
    }
}

impl Default for Tally {
    fn default() -> Tally {
        Tally::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn counters_of_processes_are_merged_without_loss() {
        let stage = Stage::new(1, None, Duration::ZERO, Duration::from_secs(1));
        let (mut all, mut here, mut there) = (Tally::new(), Tally::new(), Tally::new());
        let sent = Instant::now();
        for n in 1..=5000u64 {
            let answered = sent + Duration::from_nanos(n * n * 37);
            all.count(&stage, sent, answered);
            let part = if n % 3 == 0 { &mut here } else { &mut there };
            part.count(&stage, sent, answered);
        }
        there.lateness.unanswered = 4;
        there.failure = Some(Error::wrong("x"));
        here.failure = Some(Error::failed("y"));
        here.add(Tally::from_bytes(&there.to_bytes()).unwrap());
        assert_eq!(here.requests, 5000);
        assert_eq!(here.latency, all.latency);
        assert_eq!(here.per_second, all.per_second);
        assert_eq!(here.lateness.unanswered, 4);
        assert_eq!(here.failure.unwrap().kind, Kind::Wrong);
    }

    #[test]
    fn a_process_without_results_is_a_failure() {
        let error = Tally::from_bytes(b"").err().unwrap();
        assert!(error.message.contains("generator process"), "{error}");
    }
}
