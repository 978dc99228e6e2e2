//! SQL executor: runs plans against a transaction on rows ([`exec`]).
//!
//! The crate depends neither on sessions nor on storage engines.

#![forbid(unsafe_code)]

pub mod exec;

use porpoise_sql_expr::{error, expr, memory};
use porpoise_sql_parser as parse;
use porpoise_sql_plan::{bind, plan, virtual_tables};
