//! The memcached door through real sockets: some tests with rows at hand in
//! the same process, some with the real binary.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that fails may panic"
)]

mod concurrent_incr;
mod configuration;
mod constraints;
mod crash;
mod default_table;
mod expiry;
mod flush;
mod house;
mod mapped;
mod multi_get;
mod own_writes;
mod transcripts;
