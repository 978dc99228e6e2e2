//! Failures: panics in sessions, workers and the acceptor, a hanging disk, a busy worker group, a
//! clock before 1970.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that fails may panic"
)]

mod early_clock;
mod sessions;
mod stuck;
mod workers;

use std::time::{Duration, Instant};

fn eventually(what: &str, done: impl Fn() -> bool) {
    let limit = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < limit, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
