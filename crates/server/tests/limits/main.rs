//! Behaviour of the running server at its limits of memory, disk space and old row versions, and
//! the rate of transaction conflicts.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it does not expect"
)]

mod budget;
mod conflicts;
mod disk;
mod memory;
mod programs;
mod reclaiming;
mod spilling;
#[allow(dead_code, reason = "shared with other tests, which use more of it")]
#[path = "../system/support/mod.rs"]
mod support;

use porpoise_testkit::{Porpoise, http_get};

/// A figure of the metrics page.
fn metric(server: &Porpoise, name: &str) -> u64 {
    let (status, page) = http_get(server.http_addr, "/metrics");
    assert_eq!(status, 200);
    let line = page.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?;
        rest.strip_prefix(' ')
    });
    let value: f64 = line.expect(name).trim().parse().unwrap();
    value as u64
}
