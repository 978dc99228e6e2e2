//! Histograms of latencies: constant memory, recorded without locks, quantiles within 12.5 %.
//!
//! Buckets are log-linear, as in HdrHistogram: each power of two of microseconds is divided into
//! [`STEPS`] buckets of equal width. Durations below [`STEPS`] microseconds have a bucket for each
//! microsecond; durations beyond 2^[`MAX_POWER`] microseconds (18 minutes) are in the last bucket.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets for each power of two.
const STEPS: u64 = 8;

/// The binary logarithm of [`STEPS`].
const STEP_BITS: u32 = STEPS.trailing_zeros();

/// The binary logarithm of the largest distinguished number of microseconds.
const MAX_POWER: u32 = 30;

/// Number of buckets.
pub const BUCKETS: usize = (STEPS * (MAX_POWER - STEP_BITS + 1) as u64) as usize;

/// The bucket of a number of microseconds.
fn bucket(micros: u64) -> usize {
    let micros = micros.min((1 << MAX_POWER) - 1);
    if micros < STEPS {
        return micros as usize;
    }
    let power = micros.ilog2() - STEP_BITS;
    let step = (micros >> power) - STEPS;
    (STEPS * u64::from(power + 1) + step) as usize
}

/// The lower limit of a bucket, in microseconds; also the upper limit, exclusive, of the one before
/// it.
pub fn lower_limit(bucket: usize) -> u64 {
    let (bucket, steps) = (bucket as u64, STEPS);
    if bucket < steps {
        return bucket;
    }
    let power = bucket / steps - 1;
    (steps + bucket % steps) << power
}

/// A histogram to which several threads may add.
#[derive(Debug)]
pub struct Histogram([AtomicU64; BUCKETS]);

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

impl Histogram {
    /// An empty histogram.
    pub const fn new() -> Histogram {
        Histogram([const { AtomicU64::new(0) }; BUCKETS])
    }

    /// Counts one duration.
    #[inline]
    pub fn record(&self, duration: Duration) {
        self.record_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Counts one duration in nanoseconds.
    #[inline]
    pub fn record_nanos(&self, nanos: u64) {
        if let Some(count) = self.0.get(bucket(nanos / 1000)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sets all counts to zero.
    pub fn reset(&self) {
        for count in &self.0 {
            count.store(0, Ordering::Relaxed);
        }
    }
}

/// A histogram with the exact sum of its durations.
#[derive(Debug, Default)]
pub struct SummedHistogram {
    histogram: Histogram,
    nanos: AtomicU64,
}

impl SummedHistogram {
    /// An empty histogram.
    pub const fn new() -> SummedHistogram {
        SummedHistogram {
            histogram: Histogram::new(),
            nanos: AtomicU64::new(0),
        }
    }

    /// Adds one duration.
    pub fn record(&self, duration: Duration) {
        self.record_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds one duration in nanoseconds.
    pub fn record_nanos(&self, nanos: u64) {
        self.histogram.record_nanos(nanos);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// The counts, and the sum in nanoseconds.
    pub fn read(&self) -> (Counts, u64) {
        let mut counts = Counts::default();
        counts.add(&self.histogram);
        (counts, self.nanos.load(Ordering::Relaxed))
    }
}

/// The counts of one or several histograms at one time.
#[derive(Clone, Debug)]
pub struct Counts([u64; BUCKETS]);

impl Default for Counts {
    fn default() -> Counts {
        Counts([0; BUCKETS])
    }
}

impl Counts {
    /// Adds the counts of a histogram.
    pub fn add(&mut self, histogram: &Histogram) {
        for (sum, count) in self.0.iter_mut().zip(&histogram.0) {
            *sum += count.load(Ordering::Relaxed);
        }
    }

    /// The counts since `before` was read; zero where a reset has lowered them.
    pub fn since(&self, before: &Counts) -> Counts {
        let mut counts = self.clone();
        for (count, earlier) in counts.0.iter_mut().zip(&before.0) {
            *count = count.saturating_sub(*earlier);
        }
        counts
    }

    /// Number of durations.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The duration that a fraction of all durations do not exceed: the upper limit of the bucket
    /// in which it lies. Zero without durations.
    pub fn quantile(&self, fraction: f64) -> Duration {
        let total = self.total();
        let rank = (fraction * total as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        for (bucket, count) in self.0.iter().enumerate() {
            below += count;
            if below >= rank {
                return Duration::from_micros(lower_limit(bucket + 1));
            }
        }
        Duration::ZERO
    }

    /// Number of durations below this number of microseconds, a power of two.
    pub fn below(&self, micros: u64) -> u64 {
        debug_assert!(micros.is_power_of_two(), "the limit of a bucket");
        self.0.iter().take(bucket(micros)).sum()
    }

    /// The counts by bucket.
    pub fn buckets(&self) -> &[u64] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_lies_within_the_limits_of_its_bucket() {
        let mut micros = 0;
        while micros < 1 << MAX_POWER {
            let at = bucket(micros);
            assert!(
                (lower_limit(at)..lower_limit(at + 1)).contains(&micros),
                "{micros} in {at}"
            );
            micros += 1 + micros / 37;
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        for at in STEPS as usize..BUCKETS {
            let (low, high) = (lower_limit(at), lower_limit(at + 1));
            assert!((high - low) * STEPS <= low, "bucket {at} is too wide");
        }
    }

    #[test]
    fn quantiles_are_those_of_the_durations_within_an_eighth() {
        let histogram = Histogram::default();
        for micros in 1..=1000 {
            histogram.record(Duration::from_micros(micros));
        }
        let mut counts = Counts::default();
        counts.add(&histogram);
        assert_eq!((counts.total(), counts.below(64)), (1000, 63));
        for (fraction, exact) in [(0.5, 500.0), (0.95, 950.0), (0.99, 990.0)] {
            let found = counts.quantile(fraction).as_micros() as f64;
            assert!((exact..=exact * 1.125 + 1.0).contains(&found), "{found}");
        }
        histogram.reset();
        let mut counts = Counts::default();
        counts.add(&histogram);
        assert_eq!((counts.total(), counts.quantile(0.5)), (0, Duration::ZERO));
    }
}
