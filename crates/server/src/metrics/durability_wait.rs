//! Times for which replies were deferred until the log was synced, of one reply in
//! [`WAIT_INTERVAL`], for the metrics page.

use porpoise_base::histogram::SummedHistogram;
use porpoise_sql::ClassLatency;
use std::time::Duration;

/// Mean distance of measured replies.
pub const WAIT_INTERVAL: u32 = 64;

static WAITS: SummedHistogram = SummedHistogram::new();

/// Adds the wait of a measured reply.
pub fn record_durability_wait(wait: Duration) {
    WAITS.record(wait);
}

/// The waits since the start, as the phase `durability_wait`.
pub fn durability_wait() -> ClassLatency {
    let (counts, nanos) = WAITS.read();
    let mut latency = ClassLatency::of_phase("durability_wait");
    latency.add_counts(&counts, nanos);
    latency
}
