//! Throughput and latency of SQL and memcached in the last minutes: a ring of samples, one every
//! [`INTERVAL`], computed from the counters and histograms of the metrics.

use parking_lot::{Condvar, Mutex};
use porpoise_base::histogram::Counts;
use porpoise_base::threads::{self, Role};
use porpoise_memcached::{command_statistics, counters as commands};
use porpoise_sql::SqlServer;
use std::collections::VecDeque;
use std::fmt::Write;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two samples.
pub(super) const INTERVAL: Duration = Duration::from_secs(5);

/// Number of samples kept: 15 minutes.
pub(super) const SAMPLES: usize = 180;

/// Quantiles of latencies in a sample.
const QUANTILES: [f64; 3] = [0.5, 0.95, 0.99];

/// Rate and latencies of one protocol between two samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rate {
    /// Operations per second.
    per_second: f64,
    /// Latencies in microseconds, by [`QUANTILES`].
    micros: [u64; 3],
}

/// One sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sample {
    /// Milliseconds since 1970.
    time: i64,
    sql: Rate,
    memcached: Rate,
    /// Open SQL sessions.
    sessions: usize,
}

/// The counters at one time.
struct Reading {
    at: Instant,
    statements: Counts,
    commands: u64,
    latencies: Counts,
}

impl Reading {
    fn take(server: &SqlServer) -> Reading {
        let all = commands::COUNTERS.iter().zip(commands::Counter::ALL);
        let of_commands =
            all.filter(|(entry, _)| entry.name == "porpoise_memcached_commands_total");
        Reading {
            at: server.db().clock().now(),
            statements: server.latency_counts(),
            commands: of_commands
                .map(|(_, counter)| commands::sum(*counter))
                .sum(),
            latencies: command_statistics::latency_counts(),
        }
    }

    /// The sample of the time from `before` to this reading.
    fn since(&self, before: &Reading, server: &SqlServer) -> Sample {
        let elapsed = self.at.saturating_duration_since(before.at);
        let seconds = elapsed.as_secs_f64().max(0.001);
        let micros = |counts: &Counts| {
            QUANTILES.map(|q| u64::try_from(counts.quantile(q).as_micros()).unwrap_or(u64::MAX))
        };
        let statements = self.statements.since(&before.statements);
        let latencies = self.latencies.since(&before.latencies);
        Sample {
            time: server.db().clock().unix_micros() / 1000,
            sql: Rate {
                per_second: statements.total() as f64 / seconds,
                micros: micros(&statements),
            },
            memcached: Rate {
                per_second: self.commands.saturating_sub(before.commands) as f64 / seconds,
                micros: micros(&latencies),
            },
            sessions: server.sessions().len(),
        }
    }
}

/// The ring, and the thread that fills it.
#[derive(Default)]
pub(super) struct History {
    samples: Mutex<VecDeque<Sample>>,
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl History {
    /// Starts the thread, which passes samples to `take`.
    ///
    /// # Errors
    /// The system's error when no thread can be created.
    pub(super) fn start(
        &self,
        server: Arc<SqlServer>,
        take: impl Fn(Sample) + Send + 'static,
    ) -> io::Result<()> {
        let stop = self.stop.clone();
        let thread = threads::spawn_restarting(Role::ConsoleSampler, move || {
            let mut before = Reading::take(&server);
            let mut stopped = stop.0.lock();
            while !*stopped {
                stop.1.wait_for(&mut stopped, INTERVAL);
                if *stopped {
                    return;
                }
                drop(stopped);
                let reading = Reading::take(&server);
                take(reading.since(&before, &server));
                before = reading;
                stopped = stop.0.lock();
            }
        })?;
        *self.thread.lock() = Some(thread);
        Ok(())
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        *self.stop.0.lock() = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }

    /// Adds a sample. If the ring is full, the oldest sample is removed.
    pub(super) fn add(&self, sample: Sample) {
        let mut samples = self.samples.lock();
        if samples.len() >= SAMPLES {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    /// The samples as JSON, the oldest first.
    pub(super) fn to_json(&self) -> Vec<u8> {
        let mut out = format!("{{\"interval_ms\":{},\"samples\":[", INTERVAL.as_millis());
        for (at, sample) in self.samples.lock().iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let (sql, memcached) = (sample.sql, sample.memcached);
            // Writing into a String does not fail.
            let _ = write!(
                out,
                "{comma}{{\"time\":{},\"sql\":{},\"memcached\":{},\"sessions\":{}}}",
                sample.time,
                rate_json(&sql),
                rate_json(&memcached),
                sample.sessions
            );
        }
        out.push_str("]}");
        out.into_bytes()
    }
}

fn rate_json(rate: &Rate) -> String {
    let [p50, p95, p99] = rate.micros;
    let per_second = rate.per_second;
    format!("{{\"per_second\":{per_second:.2},\"p50_us\":{p50},\"p95_us\":{p95},\"p99_us\":{p99}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_keeps_the_newest_samples() {
        let history = History::default();
        for time in 0..SAMPLES as i64 + 7 {
            let sample = Sample {
                time,
                ..Sample::default()
            };
            history.add(sample);
        }
        let json: serde_json::Value = serde_json::from_slice(&history.to_json()).unwrap();
        let samples = json["samples"].as_array().unwrap();
        assert_eq!(samples.len(), SAMPLES);
        assert_eq!(
            (&samples[0]["time"], &json["interval_ms"]),
            (&7.into(), &5000.into())
        );
        assert_eq!(samples[0]["sql"]["p99_us"], 0);
    }
}
