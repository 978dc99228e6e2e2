//! The parts of the server binary.
//!
//! * [`cli`], [`config`]: what was asked for.
//! * [`serve`]: puts everything together; [`services`]: what is behind the listeners;
//!   [`engine`]: the only place that names one.
//! * [`net`]: connections, worker groups, held replies; knows no protocol.
//! * [`mysql`]: the MySQL listener.
//! * [`memcached`]: the memcached listener.
//! * [`native`]: the stores of `porpoise bench native`.
//! * [`noop`]: a protocol with nothing behind it, for measuring.
//! * [`http`], [`metrics`]: health and figures.
//! * [`tls`], [`datadir`]: the certificate; the data directory and its lock.
//! * [`sys`]: the few system calls for which there is no safe function, and
//!   the only `unsafe` code of this crate.

#![deny(unsafe_code)]

pub mod certificate;
pub mod check;
pub mod cli;
pub mod config;
pub mod datadir;
pub mod engine;
pub mod http;
pub mod memcached;
pub mod metrics;
pub mod mysql;
pub mod native;
pub mod net;
pub mod noop;
pub mod rows;
pub mod serve;
pub mod services;
pub mod sys;
pub mod tls;
