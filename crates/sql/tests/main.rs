//! Integration tests of SQL, one module for each subject. They are one program because linking a
//! program for each file took longer than running the tests.
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
mod function_list;
mod gap_locks;
mod handshake;
mod integer_text;
mod join_order_work;
mod kill;
mod long_lists;
mod many_rows;
mod or_conditions;
mod partial_revokes;
mod plans;
mod privilege_matrix;
mod privileges;
mod programs;
mod roles;
mod row_expressions;
mod slow_log;
mod traces;
mod ttl;
mod view_text;
mod xa;
