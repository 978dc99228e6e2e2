//! Sessions and statements: from statement text to rows.
//!
//! * `porpoise_sql_parser`: text to tree.
//! * [`bind`]: names and types.
//! * [`plan`]: what to read by which index; [`statistics`]: what it goes by.
//! * [`expr`], [`functions`]: evaluation.
//! * [`exec`]: running a plan against a transaction on rows.
//! * [`session`]: statements, transactions, prepared statements of a client.
//! * [`memory`]: what sessions and statements hold, within the server's budget.
//! * [`vars`]: system variables. [`users`]: accounts. [`privileges`]: what
//!   they may do.
//! * [`information_schema`], [`virtual_tables`]: tables whose rows are made.
//! * [`definition`]: what CREATE and ALTER ask for. [`show`]: what SHOW tells.
//!
//! It names no engine and no protocol.

#![forbid(unsafe_code)]

pub mod bind;
pub mod context;
pub mod deadlocks;
pub mod definition;
pub mod error;
pub mod exec;
pub mod expr;
pub mod functions;
pub mod information_schema;
pub mod memory;
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

use porpoise_sql_parser as parse;

pub use error::SqlError;
pub use exec::ResultSink;
pub use functions::info::VERSION;
pub use plan::ResultColumn;
pub use server::{SqlConfig, SqlServer};
pub use session::{
    ClientInfo, Encryption, Outcome, Param, PreparedInfo, SessionChange, SqlSession,
};
