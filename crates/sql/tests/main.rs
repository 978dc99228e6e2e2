//! Integration tests of SQL over the embedded engine, one module for each subject, in one program: linking one
//! for each file took longer than running them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

mod account_options;
mod accounts;
mod batches;
mod column_privileges;
mod common;
mod events;
mod function_examples;
mod function_limits;
mod gap_locks;
mod handshake;
mod kill;
mod long_lists;
mod many_rows;
mod partial_revokes;
mod plans;
mod plans_either;
mod privilege_matrix;
mod privileges;
mod programs;
mod roles;
mod row_expressions;
