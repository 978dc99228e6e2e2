//! Tests of the native protocol through the server's binary.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    missing_docs
)]

mod accounts;
mod batches;
mod changes;
mod crash;
mod faces;
mod hostile;
mod interfaces;
mod scans;
mod schema;
mod support;
mod transactions;
