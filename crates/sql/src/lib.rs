//! The room `sql`: from statement text to rows.
//!
//! * [`parse`]: text to tree.
//! * [`bind`]: names and types.
//! * [`plan`]: what to read by which index.
//! * [`expr`], [`functions`]: evaluation.
//! * [`exec`]: running a plan against a transaction on rows.
//!
//! It names no engine and no protocol.

#![forbid(unsafe_code)]

pub mod bind;
pub mod error;
pub mod exec;
pub mod expr;
pub mod functions;
pub mod parse;
pub mod plan;
pub mod virtual_tables;
