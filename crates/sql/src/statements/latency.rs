//! Distributions of times as histograms of Prometheus.

use porpoise_base::histogram::Counts;

/// Binary logarithms of the limits in microseconds for whole statements and commands: 64 us to
/// 16.8 s.
const STATEMENT_LIMITS: &[u32] = &[6, 8, 10, 12, 14, 16, 18, 20, 22, 24];

/// The same for phases of statements: 1 us to 16.8 s.
const PHASE_LIMITS: &[u32] = &[0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24];

/// The times of a class of events, as a histogram of Prometheus.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassLatency {
    /// The class, such as `select`, `get` or `parse`.
    pub class: &'static str,
    /// Upper limits in seconds, with the number of events that did not take longer.
    pub counts: Vec<(f64, u64)>,
    /// Number of events.
    pub total: u64,
    /// Sum of the times, in seconds.
    pub seconds: f64,
    /// Binary logarithms of the upper limits in microseconds.
    powers: &'static [u32],
}

impl ClassLatency {
    /// A histogram without durations, for statements or commands.
    #[must_use]
    pub fn new(class: &'static str) -> ClassLatency {
        ClassLatency::with_limits(class, STATEMENT_LIMITS)
    }

    /// A histogram without durations, for a phase of statements.
    #[must_use]
    pub fn of_phase(class: &'static str) -> ClassLatency {
        ClassLatency::with_limits(class, PHASE_LIMITS)
    }

    fn with_limits(class: &'static str, powers: &'static [u32]) -> ClassLatency {
        let limit = |power: &u32| ((1u64 << power) as f64 / 1e6, 0);
        ClassLatency {
            class,
            counts: powers.iter().map(limit).collect(),
            total: 0,
            seconds: 0.0,
            powers,
        }
    }

    /// Adds durations, whose sum is this number of nanoseconds.
    pub fn add_counts(&mut self, latencies: &Counts, nanos: u64) {
        self.total += latencies.total();
        self.seconds += nanos as f64 / 1e9;
        for ((_, count), power) in self.counts.iter_mut().zip(self.powers) {
            *count += latencies.below(1 << power);
        }
    }
}
