//! Bound expressions of SQL, their evaluation and the registry of functions.
//!
//! * [`expr`]: expressions, evaluation, conversion and comparison of values.
//! * [`functions`]: the registry of scalar functions.
//! * [`lex_mode`]: the flags of sql_mode for the parser.
//! * [`locale`]: names of months and weekdays, and the format of numbers.
//! * [`memory`]: memory of sessions and statements, within the server's budget.
//! * [`error`]: errors of statements, with MySQL's number, SQLSTATE and text.
//!
//! Expressions read stored rows, but depend neither on plans nor on sessions: subqueries run
//! through [`expr::query::RunQueries`].

#![forbid(unsafe_code)]

pub mod error;
pub mod expr;
pub mod functions;
pub mod lex_mode;
pub mod locale;
pub mod memory;
