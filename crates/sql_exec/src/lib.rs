//! Executor of SQL: runs plans against a transaction on rows ([`exec`]).
//!
//! The crate knows neither sessions nor engines.

#![forbid(unsafe_code)]

pub mod exec;

use porpoise_sql_expr::{error, expr, memory};
use porpoise_sql_parser as parse;
use porpoise_sql_plan::{bind, plan, virtual_tables};
