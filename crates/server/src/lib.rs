//! The parts of the server binary.
//!
//! * [`entry`]: entry point of the binaries; [`cli`], [`config`]: command line and configuration.
//! * [`serve`]: starts and stops the server; [`services`]: the components behind the listeners;
//!   [`engine`]: opens the storage engine, the only module that names one.
//! * [`summary`], [`service_manager`]: the messages to the operator and to systemd once `serve` is ready.
//! * [`reload`] reads the configuration again at SIGHUP.
//! * [`demo`]: `porpoise demo`, a server in memory with example data.
//! * [`import`]: loads dumps of MySQL Shell, and moves databases in from a running server.
//! * [`check`], [`salvage`]: verify and rescue a data directory. [`copy`]: from one engine to another; `transfer`: what the two share. [`backup`]: backups, the archive of the log, restores.
//! * `binlog`: the binary log. `replica`: the thread that follows a source.
//! * `standby`: `porpoise promote`, epochs of replication. [`failover`]: groups that elect their leader.
//! * [`net`]: connections, worker groups, deferred replies; independent of protocols.
//! * [`mysql`], [`memcached`], [`native`], `rest`: the listeners of the protocols.
//! * [`http`], [`metrics`]: the HTTP listener (health and metrics); counters. [`console`]: its page for operators.
//! * [`audit`], `traces`: the audit log; spans for OpenTelemetry.
//! * [`tls`], [`datadir`]: the certificate; the data directory and its lock.
//! * [`sys`]: the few system calls for which there is no safe function, and
//!   the only `unsafe` code of this crate.

#![deny(unsafe_code)]

pub mod audit;
pub mod backup;
mod binlog;
pub mod certificate;
pub mod check;
pub mod cli;
pub mod cluster;
pub mod config;
pub mod console;
pub mod copy;
pub mod datadir;
pub mod demo;
pub mod engine;
pub mod entry;
pub mod failover;
pub mod http;
pub mod import;
mod log_format;
mod manual;
pub mod memcached;
pub mod metrics;
pub mod mysql;
pub mod native;
mod native_changes;
pub mod net;
mod new_data_dir;
mod password_login;
pub mod reload;
mod replica;
mod rest;
pub mod rows;
pub mod salvage;
pub mod serve;
pub mod service_manager;
pub mod services;
mod standby;
pub mod summary;
pub mod sys;
mod target;
pub mod tls;
mod traces;
mod transfer;
