//! Times for which replies were deferred until the log was synced, of one reply in
//! [`WAIT_INTERVAL`], for the metrics page.

use porpoise_base::histogram::{Counts, Histogram};
use porpoise_sql::ClassLatency;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Mean distance of measured replies.
pub const WAIT_INTERVAL: u32 = 64;

static WAITS: Histogram = Histogram::new();
static NANOS: AtomicU64 = AtomicU64::new(0);

/// Adds the wait of a measured reply.
pub fn record_durability_wait(wait: Duration) {
    WAITS.record(wait);
    let nanos = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
    NANOS.fetch_add(nanos, Ordering::Relaxed);
}

/// The waits since the start, as the phase `durability_wait`.
pub fn durability_wait() -> ClassLatency {
    let mut counts = Counts::default();
    counts.add(&WAITS);
    let mut latency = ClassLatency::of_phase("durability_wait");
    latency.add_counts(&counts, NANOS.load(Ordering::Relaxed));
    latency
}
