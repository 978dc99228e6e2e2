//! The rooms of the server binary.
//!
//! * [`net`]: connections, worker groups, held replies; knows no protocol.
//! * [`noop`]: a door without a house behind it, for measuring.
//! * [`metrics`]: counters per core.
//! * [`sys`]: the few system calls for which there is no safe function.

#![deny(unsafe_code)]

pub mod metrics;
pub mod net;
pub mod noop;
pub mod sys;
