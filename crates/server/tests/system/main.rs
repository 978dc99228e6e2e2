//! Promises of the whole server, through the real binary: the published experiments, crashes, the order
//! of syncs and replies, starting and stopping, the first steps of the guide.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it does not expect"
)]

mod audit;
mod command_statistics;
mod crash;
mod crash_start;
mod durability;
mod forum;
mod forum_races;
mod forum_schema;
mod full_text_on_cluster;
mod guide;
mod listeners;
mod mapping;
mod multi_get;
mod shells;
mod shutdown;
mod startup;
mod support;
mod trace;
mod traces;
mod troubleshoot;
