//! The drivers against real servers, started and stopped here, and against
//! fakes where a real one cannot be had.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it does not expect"
)]

mod support;

mod dying_server;
mod experiments;
mod fsync_delay;
mod mariadb;
mod memcached;
mod plugin;
mod postgres;
mod questions;
mod refusals;
