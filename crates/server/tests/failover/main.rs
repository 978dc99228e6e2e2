//! Groups with automatic failover, by real processes: leaders that are killed, paused and cut off under load; members that come back with
//! transactions which the group lacks; members without data; takeovers by an operator.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that fails may panic"
)]

mod faults;
mod flow;
mod group;
mod load;
mod members;
mod proxy;
mod rewind;
mod views;
