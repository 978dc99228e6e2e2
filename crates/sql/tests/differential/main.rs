//! Differential tests: the same statements on MariaDB and Porpoise.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that fails may panic"
)]

mod both;
#[path = "../common/mod.rs"]
mod common;
mod files;
mod random;
