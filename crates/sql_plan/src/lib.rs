//! Binder and planner of SQL: from the syntax tree to plans.
//!
//! * [`bind`]: names and types.
//! * [`plan`]: access paths, joins and the tree of physical operators.
//! * [`statistics`]: rows and distinct values of tables, for the planner.
//! * [`virtual_tables`]: definitions of tables whose rows are computed when they are read.
//!
//! The crate depends neither on transactions nor on sessions: it reads the catalog.

#![forbid(unsafe_code)]

pub mod bind;
pub mod plan;
pub mod statistics;
pub mod virtual_tables;

use porpoise_sql_expr::{error, expr, functions};
use porpoise_sql_parser as parse;
