//! Wall and monotonic time, replaceable in tests.
//!
//! The server reads time through a [`Clock`], so that simulations can drive
//! it. Commit order never depends on a clock (transactions.md, rule 23).

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A source of time.
pub trait Clock: Send + Sync {
    /// Microseconds since 1970-01-01 00:00:00 UTC.
    fn unix_micros(&self) -> i64;
    /// Monotonic time.
    fn now(&self) -> Instant;
}

/// The operating system's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn unix_micros(&self) -> i64 {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    }

    fn now(&self) -> Instant {
        Instant::now()
    }
}

/// A clock that advances only when told to, for simulations.
#[derive(Debug)]
pub struct ManualClock {
    start: Instant,
    micros: std::sync::atomic::AtomicU64,
}

impl Default for ManualClock {
    fn default() -> ManualClock {
        ManualClock {
            start: Instant::now(),
            micros: std::sync::atomic::AtomicU64::new(0),
        }
    }
}

impl ManualClock {
    /// Moves both times forward.
    pub fn advance(&self, by: Duration) {
        let micros = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        self.micros
            .fetch_add(micros, std::sync::atomic::Ordering::SeqCst);
    }

    fn elapsed(&self) -> Duration {
        Duration::from_micros(self.micros.load(std::sync::atomic::Ordering::SeqCst))
    }
}

impl Clock for ManualClock {
    /// Starts at 2001-09-09 01:46:40 UTC (10^15 microseconds).
    fn unix_micros(&self) -> i64 {
        let passed = i64::try_from(self.elapsed().as_micros()).unwrap_or(i64::MAX);
        1_000_000_000_000_000_i64.saturating_add(passed)
    }

    fn now(&self) -> Instant {
        self.start + self.elapsed()
    }
}

/// The system clock as a shared handle.
pub fn system() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}
