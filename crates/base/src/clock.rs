//! Wall and monotonic time behind a seam.
//!
//! The server reads time through a [`Clock`], so that simulations can drive
//! it. Rule: commit order never depends on a clock (transactions.md, 23).

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A source of time.
pub trait Clock: Send + Sync {
    /// Microseconds since 1970-01-01 00:00:00 UTC.
    fn unix_micros(&self) -> i64;
    /// A time that never goes back.
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

/// The system clock as a shared handle.
pub fn system() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}
