//! REST through the real binary: rows by key, batches, statements, logins, hostile requests.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it does not expect"
)]

mod batches;
mod cache_example;
mod changes;
mod client;
mod guide;
mod hostile;
mod logins;
mod rows;
mod statements;
