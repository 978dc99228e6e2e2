//! The parts of the server binary.
//!
//! * [`entry`]: from the command line to its command; [`cli`], [`config`]: what the
//!   command line asks for.
//! * [`serve`]: puts everything together; [`services`]: what is behind the listeners;
//!   [`engine`]: the only place that names one.
//! * [`net`]: connections, worker groups, held replies; knows no protocol.
//! * [`mysql`]: the MySQL listener.
//! * [`memcached`]: the memcached listener.
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
pub mod entry;
pub mod http;
pub mod memcached;
pub mod metrics;
pub mod mysql;
pub mod net;
pub mod rows;
pub mod serve;
pub mod services;
pub mod sys;
pub mod tls;
