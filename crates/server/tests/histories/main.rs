//! Histories of transactions through the running server, by SQL, memcached, native and REST clients on
//! the same rows, checked for the anomalies that each isolation level excludes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it does not expect"
)]

mod anomalies;
mod guide;
mod lists;
mod registers;
mod rows;
#[allow(dead_code, reason = "shared with other tests, which use more of it")]
#[path = "../system/support/mod.rs"]
mod support;
