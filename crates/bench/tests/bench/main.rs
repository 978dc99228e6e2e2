//! `porpoise-bench` from end to end by the real binary, with servers that it
//! starts itself. What the drivers do is tested in `tests/peers`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it does not expect"
)]

mod all;
mod failures;
mod fsync_delay;
mod memcached;
mod open_loop;
mod requests;
mod support;
