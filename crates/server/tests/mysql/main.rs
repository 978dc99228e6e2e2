//! The MySQL listener of the real binary, one behaviour a file.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that fails may panic"
)]

mod abuse;
mod accounts;
mod certificates;
mod check_table;
mod client;
mod compression;
mod definitions;
mod durable;
mod kill;
mod large_crash;
mod large_values;
mod load_data;
mod login;
mod outfile;
mod packets;
mod prepared;
mod program_crashes;
mod programs;
mod statements;
mod tracking;
mod xa;
