//! The real binary: starting, refusing to start, shutting down.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that fails may panic"
)]

mod check;
mod config;
mod import;
mod missing_files;
mod process;
mod refusals;
mod running;
mod salvage;
