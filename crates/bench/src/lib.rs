//! `porpoise bench`: load generators and reports.
//!
//! A binary of its own, `porpoise-bench`, which `porpoise bench` executes. It
//! speaks protocols through sockets, as any client does. Rows and engine in this
//! process (`native`) and the server's network layer alone ([`noop`]) come from
//! the server's library; no engine is named here. From the bottom up:
//!
//! - [`url`], [`proto`], [`connect`], [`conn`]: targets, and thin clients of
//!   equal cost for every protocol.
//! - [`value`]: values that can be verified when read.
//! - [`machine`], [`peers`]: state of the machine; starting and stopping servers.
//! - [`load`]: load in a closed or an open loop, by both kinds of client.
//! - [`noop`]: the server's network layer without storage.
//! - [`procfs`], [`stats`], [`number`]: costs of a run; intervals and ratios; short forms of numbers.
//! - [`scaling`]: simulation of the throughput with more cores.
//! - [`budgets`]: the ratios that have to be reached, and the verdict of results on them.
//!
//! Unsafe code is in [`sys`] alone.

pub mod budgets;
pub mod cli;
pub mod conn;
pub mod connect;
pub mod error;
pub mod experiments;
pub mod futex;
pub mod load;
pub mod machine;
pub mod matrix;
pub mod noop;
pub mod number;
pub mod output;
pub mod peers;
pub mod procfs;
pub mod progress;
pub mod proto;
pub mod report;
pub mod scaling;
pub mod stats;
pub mod sys;
pub mod url;
pub mod value;
