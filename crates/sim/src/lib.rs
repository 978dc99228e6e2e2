//! Simulation of the embedded engine and of groups with automatic failover under faults, and checkers of histories.
//!
//! [`engine`] runs the embedded engine by a seed on a faulty disk, and compares every result, and
//! the state after every crash, with the reference model. [`history`] checks whether some order of
//! the clients' transactions explains their results. [`group`] runs the election and the acknowledgement of a group of servers.
//!
//! This crate is not part of the server; it reads no real clock and only random
//! numbers that derive from the seed.
#![forbid(unsafe_code)]

pub mod engine;
pub mod group;
pub mod history;
