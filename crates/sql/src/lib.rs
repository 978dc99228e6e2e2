//! Sessions and statements: from statement text to rows.
//!
//! * `porpoise_sql_parser`: text to tree. `porpoise_sql_expr`: expressions and functions.
//! * [`bind`]: names and types.
//! * [`plan`]: access paths and joins, by [`statistics`] of tables.
//! * [`exec`]: execution of a plan against a transaction on rows.
//! * [`session`]: statements, transactions, prepared statements of a client.
//! * [`context`]: the state of a session that statements read.
//! * [`vars`]: system variables. [`users`]: accounts. [`privileges`]: checks of privileges.
//! * [`virtual_tables`], [`information_schema`]: tables whose rows are made when they are read.
//! * [`definition`], [`table_expressions`]: CREATE, ALTER, and the expressions of definitions.
//! * [`show`]: SHOW and the formats of EXPLAIN.
//!
//! The crate names no engine and no protocol.

#![forbid(unsafe_code)]

pub mod bind;
pub mod client;
pub mod context;
pub mod deadlocks;
pub mod definition;
pub mod exec;
pub mod information_schema;
pub mod plan;
pub mod privileges;
pub mod processes;
pub mod results;
pub mod server;
pub mod session;
pub mod show;
pub mod statistics;
pub mod table_expressions;
mod timer;
pub mod users;
pub mod vars;
pub mod virtual_tables;

use porpoise_sql_expr::expr;
use porpoise_sql_parser as parse;

pub use porpoise_sql_expr::{error, functions, memory};

pub use client::{ClientInfo, Encryption};
pub use error::SqlError;
pub use exec::ResultSink;
pub use functions::info::VERSION;
pub use plan::ResultColumn;
pub use results::Outcome;
pub use server::{SqlConfig, SqlServer};
pub use session::{Param, PreparedInfo, SessionChange, SqlSession};
