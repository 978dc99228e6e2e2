//! Sessions and statements: from statement text to rows.
//!
//! The crates below are `sql_parser` (text to syntax tree), `sql_expr` (expressions and functions),
//! `sql_plan` (binder and planner) and `sql_exec` (executor). This crate has:
//!
//! * [`session`]: statements, transactions and prepared statements of a client.
//! * [`context`]: the state of a session that statements read.
//! * [`vars`]: system variables. [`users`]: accounts. [`privileges`]: privilege checks.
//! * [`information_schema`]: rows of the tables that describe the server.
//! * [`definition`], [`table_expressions`]: CREATE, ALTER, and the expressions of definitions;
//!   [`mod@definition_scope`]: the tables that a logged definition statement affects.
//! * [`statements`]: statistics of statements, and the slow query log; [`performance_schema`]: their
//!   tables.
//! * [`trace`]: traces of statements, for OpenTelemetry.
//! * [`show`]: SHOW and the formats of EXPLAIN.
//!
//! The crate depends on no engine and no protocol.

#![forbid(unsafe_code)]

pub mod audit;
pub mod binary_log;
pub mod client;
pub mod context;
pub mod deadlocks;
pub mod definition;
pub mod definition_scope;
mod event_runs;
mod event_schedule;
pub mod event_scheduler;
pub mod information_schema;
mod performance_schema;
pub mod privileges;
pub mod processes;
mod programs;
pub mod registered_process;
pub mod replica;
pub mod results;
mod secrets;
pub mod server;
pub mod session;
mod shared_variables;
pub mod show;
mod statements;
pub mod status;
pub mod table_expressions;
mod timer;
pub mod trace;
pub mod ttl_reaper;
pub mod users;
pub mod vars;
mod xa;

pub use client::{ClientInfo, Encryption};
pub use definition_scope::{DefinitionKind, DefinitionScope, definition_scope};
pub use porpoise_sql_exec::exec::{ResultEnd, ResultSink};
pub use porpoise_sql_expr::error::{SqlError, cancelled};
pub use porpoise_sql_expr::functions::info::VERSION;
pub use porpoise_sql_expr::memory;
pub use porpoise_sql_plan::plan::ResultColumn;
pub use results::Outcome;
pub use server::{BackupReport, BackupRequest, SqlConfig, SqlServer, TableSize};
pub use session::{Param, PreparedInfo, SessionChange, SqlSession};
pub use statements::latency::ClassLatency;
