//! `porpoise bench`: load generators and reports.
//!
//! It speaks protocols through sockets, as any client does, and never links an
//! engine. From the bottom up:
//!
//! - [`url`], [`proto`], [`connect`], [`conn`]: targets, and thin clients of
//!   equal cost for every protocol.
//! - [`value`]: values whose reading back can be judged.
//! - [`machine`], [`peers`]: the machine as it was; servers started and stopped.
//! - [`load`]: closed-loop load by both shapes of client.
//! - [`procfs`], [`stats`]: what a run cost; intervals and ratios.
//!
//! Unsafe code is in [`sys`] alone.

pub mod cli;
pub mod conn;
pub mod connect;
pub mod error;
pub mod experiments;
pub mod futex;
pub mod load;
pub mod machine;
pub mod matrix;
pub mod output;
pub mod peers;
pub mod procfs;
pub mod progress;
pub mod proto;
pub mod report;
pub mod stats;
pub mod sys;
pub mod url;
pub mod value;
