//! `porpoise bench`: load generators and reports.
//!
//! It speaks protocols through sockets, as any client does, and never links an
//! engine. From the bottom up:
//!
//! - [`url`], [`proto`], [`connect`], [`conn`]: targets, and thin clients of
//!   equal cost for every protocol.
//! - [`value`]: values whose reading back can be judged.
//! - [`stats`]: intervals and ratios.

pub mod conn;
pub mod connect;
pub mod error;
pub mod proto;
pub mod stats;
pub mod url;
pub mod value;
